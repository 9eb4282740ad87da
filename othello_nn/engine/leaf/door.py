"""The door between the search and its evaluator: three functions, chosen by type when the search is compiled.

An evaluator is a ``NamedTuple`` of scalars (addresses of its tables, weights), whose class names three kernels:

* ``begin(ev, features, mover, opponent)`` writes the features of a position at the address ``features``;
* ``child(ev, features, parent, square, flips)`` writes those of the position after a move, from its mover's view;
* ``score(ev, features, mover, opponent, empties)`` is the value for the mover, in units of ``SCORE_DISC`` a disc.

It may also name ``order_depth``: in searches of less depth than that, its value is no help in ordering the moves.

The recursive search calls ``leaf_begin``, ``leaf_child`` and ``leaf_score``; Numba compiles one search for each
evaluator class, inlines these, and keeps it on disk. An evaluator without features leaves the first two empty.

``Tables…`` is the evaluator of a net that is a sum of lookups; ``lanes.py`` has the vector code, ``tables.py`` builds
them. ``blended.py`` and ``embedded.py`` have the evaluators that do more with what they look up.
"""

from __future__ import annotations

import numpy as np
from numba import float32, int64
from numba.extending import overload

from othello_nn.engine.score import LEAF_LIMIT, SCORE_DISC
from othello_nn.kernels.bits import popcount
from othello_nn.kernels.jit import kernel

ORDER_DEPTH = 3
TABLE_ORDER_DEPTH = 6
"""For evaluators of many lookups: below, they cost more than the nodes that a better order saves."""


def leaf_begin(ev, features, mover, opponent):
    """Write a position's features."""


def leaf_child(ev, features, parent, square, flips):
    """Write the features of the position after a move."""


def leaf_score(ev, features, mover, opponent, empties):
    """Value for the mover."""


def leaf_order_depth(ev):
    """The least depth at which the evaluator orders moves."""


@overload(leaf_begin)
def _leaf_begin(ev, features, mover, opponent):
    begin = ev.instance_class.begin

    def call(ev, features, mover, opponent):
        begin(ev, features, mover, opponent)

    return call


@overload(leaf_child)
def _leaf_child(ev, features, parent, square, flips):
    child = ev.instance_class.child

    def call(ev, features, parent, square, flips):
        child(ev, features, parent, square, flips)

    return call


@overload(leaf_score)
def _leaf_score(ev, features, mover, opponent, empties):
    score = ev.instance_class.score

    def call(ev, features, mover, opponent, empties):
        return score(ev, features, mover, opponent, empties)

    return call


@overload(leaf_order_depth)
def _leaf_order_depth(ev):
    depth = getattr(ev.instance_class, "order_depth", ORDER_DEPTH)
    return lambda ev: int64(depth)


@kernel()
def no_begin(ev, features, mover, opponent):
    pass


@kernel()
def no_child(ev, features, parent, square, flips):
    pass


@kernel()
def score_all(ev, features, movers, opponents, scores):
    """The score of each position, [N] int64, without a search; ``features`` is room for those of one."""
    for i in range(movers.size):
        empties = int64(64) - popcount(movers[i] | opponents[i])
        leaf_begin(ev, features, movers[i], opponents[i])
        scores[i] = leaf_score(ev, features, movers[i], opponents[i], empties)


@kernel()
def rounded_score(discs):
    """Discs (float32) as a score, within what a leaf may claim."""
    score = min(max(discs * float32(SCORE_DISC), float32(-LEAF_LIMIT)), float32(LEAF_LIMIT))
    return int64(np.rint(score))
