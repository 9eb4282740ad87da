"""othello_nn: a neural Othello evaluator, a search engine that uses it, and the game they play.

>>> from othello_nn import Limit, Position, search
>>> position = Position.start().play("f5")
>>> position.legal_moves
(f4, d6, f6)
>>> search(position, limit=Limit(depth=4)).move in position.legal_moves
True

The game is plain Python and there at once. What searches, plays or learns is imported when it is first asked for: Numba
takes a second and torch several.
"""

import importlib
from typing import TYPE_CHECKING, Any

from othello_nn.game import (
    PASS,
    IllegalMoveError,
    InvalidMoveError,
    InvalidPositionError,
    Move,
    OthelloError,
    Position,
)

if TYPE_CHECKING:
    from othello_nn.engine import Engine, Limit, search, solve
    from othello_nn.nets import load_net
    from othello_nn.players import make_player

__version__ = "0.1.0"

__all__ = [
    "PASS",
    "Engine",
    "IllegalMoveError",
    "InvalidMoveError",
    "InvalidPositionError",
    "Limit",
    "Move",
    "OthelloError",
    "Position",
    "__version__",
    "load_net",
    "make_player",
    "search",
    "solve",
]

_LATER = {
    "Engine": "engine",
    "Limit": "engine",
    "load_net": "nets",
    "make_player": "players",
    "search": "engine",
    "solve": "engine",
}
"""Names that bring much with them, and the package that each comes from."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
    globals()[name] = value  # from now on found without asking here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
