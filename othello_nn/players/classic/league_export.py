"""A net as a player of the Othello League, where it can be one. Read ``league_tuples.py`` first.

The League's players are sums of lookups, the same at all stages of the game. So is an n-tuple net with ``dim=1`` and
one stage. Its tables are those of the file, in another order: a net gives the value for the side to move, which after
the player's own move is the other side. The net's constant, for which the format has no place, goes into the weights of
the first tuple, a part for each of its placements: the sums stay what they were, exactly up to rounding.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from othello_nn.checkpoint import Checkpoint
from othello_nn.engine.leaf.shapes import Shapes
from othello_nn.kinds import NetOptions, NTupleOptions, net_options
from othello_nn.players.base import PlayerError
from othello_nn.players.classic.league_tuples import VIEWS, Tuple


def league_tuples(path: Path) -> tuple[list[Tuple], str]:
    """The tuples of a net's file, and the view that they are meant for; a ``PlayerError`` that says why it has none."""
    checkpoint = Checkpoint.load(path)
    options = net_options(checkpoint.net)
    if not isinstance(options, NTupleOptions) or why_not(options):
        raise PlayerError(f"{path} cannot be a player of the League: {why_not(options)}")
    assert not isinstance(options.tuples, str)  # a file has the squares themselves
    shapes = Shapes.symmetric(options.tuples)
    weights = checkpoint.float_arrays["weight"].astype(np.float64).reshape(-1)
    return _tuples(shapes, weights, options.view), options.view


def why_not(options: NetOptions) -> str:
    """Why a net of these options is no player of the League; nothing if it is one."""
    if not isinstance(options, NTupleOptions):
        return f"it is a {options.kind} net; the League's players are sums of n-tuples, with nothing behind them"
    if options.dim > 1:
        return f"its cells hold vectors (dim={options.dim}) that go through a network; the League's hold one number"
    if options.stages > 1:
        return f"it has {options.stages} stages, each with its own tables; the League's players have one for the game"
    return ""


def _tuples(shapes: Shapes, weights: np.ndarray, view: str) -> list[Tuple]:
    found: list[Tuple] = []
    for table, (start, size) in enumerate(zip(shapes.table_starts, shapes.sizes, strict=True)):
        # The League's first square is the most significant digit, ours the least.
        placements = tuple(tuple(one.squares[::-1]) for one in shapes.placements if one.table == table)
        cells = weights[start : start + 3**size]
        if not found:
            cells = cells + weights[0] / len(placements)
        if view == VIEWS[0]:
            cells = -cells[::-1]  # seen by the player that has moved: colours exchanged, sign turned
        found.append(Tuple(placements, tuple(map(float, cells))))
    return found
