"""othello_nn: a neural Othello evaluator, a search engine that uses it, and the game they play.

>>> from othello_nn import Position
>>> Position.start().play("f5").legal_moves
(f4, d6, f6)
"""

from othello_nn.game import (
    PASS,
    IllegalMoveError,
    InvalidMoveError,
    InvalidPositionError,
    Move,
    OthelloError,
    Position,
)

__version__ = "0.1.0"

__all__ = [
    "PASS",
    "IllegalMoveError",
    "InvalidMoveError",
    "InvalidPositionError",
    "Move",
    "OthelloError",
    "Position",
    "__version__",
]
