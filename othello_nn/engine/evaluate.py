"""The door between the search and its evaluator: three functions, chosen by type when the search is compiled.

An evaluator is a ``NamedTuple`` of scalars (addresses of its tables, weights), whose class names three kernels:

* ``begin(ev, features, mover, opponent)`` writes the features of a position at the address ``features``;
* ``child(ev, features, parent, square, flips)`` writes those of the position after a move, from its mover's view;
* ``score(ev, features, mover, opponent, empties)`` is the value for the mover, in units of ``SCORE_DISC`` a disc.

The recursive search calls ``leaf_begin``, ``leaf_child`` and ``leaf_score``; Numba compiles one search for each
evaluator class, inlines these, and keeps it on disk. An evaluator without features leaves the first two empty.

``Tables…`` is the evaluator of a net that is a sum of lookups; ``lanes.py`` has the vector code, ``tables.py`` builds
them. ``blended.py`` and ``embedded.py`` have the evaluators that do more with what they look up.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import float32, int64, types
from numba.extending import overload

from othello_nn.engine.lanes import F32, LANE_COUNTS, emit_cells, emit_sum, feature_kernels, named_intrinsic
from othello_nn.engine.ttable import SCORE_DISC, SCORE_MAX
from othello_nn.game.bits import I16, I32, I64, load_i32, popcount
from othello_nn.game.compiling import kernel
from othello_nn.game.kernels import CORNERS, ZERO, mobility, potential_mobility, stable_discs

# A heuristic value never claims a wipe-out: only the solver may.
LEAF_LIMIT = SCORE_MAX - 2 * SCORE_DISC


def leaf_begin(ev, features, mover, opponent):
    """Write a position's features."""


def leaf_child(ev, features, parent, square, flips):
    """Write the features of the position after a move."""


def leaf_score(ev, features, mover, opponent, empties):
    """Value for the mover."""


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


# --- table evaluators ------------------------------------------------------------------------------------------------


@kernel()
def rounded_score(discs):
    """Discs (float32) as a score, within what a leaf may claim."""
    score = min(max(discs * float32(SCORE_DISC), float32(-LEAF_LIMIT)), float32(LEAF_LIMIT))
    return int64(np.rint(score))


def _table_scores(lanes: int):
    """``score`` with integers and with floats, for ``lanes`` features."""

    def look_up(typingctx, features, origins, weights):
        """Σ over the features of ``weights[origins[i] + feature[i]]``, weights of 16 bits."""

        def codegen(context, builder, signature, args):
            cells = emit_cells(builder, lanes, I16, *args)
            return builder.sext(emit_sum(builder, (builder.sext(cell, I32) for cell in cells), builder.add), I64)

        return types.int64(types.int64, types.int64, types.int64), codegen

    def look_up_floats(typingctx, features, origins, weights):
        """The same with weights of type float32."""

        def codegen(context, builder, signature, args):
            return emit_sum(builder, emit_cells(builder, lanes, F32, *args), builder.fadd)

        return types.float32(types.int64, types.int64, types.int64), codegen

    sum_cells, sum_floats = named_intrinsic(look_up, lanes), named_intrinsic(look_up_floats, lanes)

    @kernel(cached=False)
    def score(ev, features, mover, opponent, empties):
        stage = load_i32(ev.stages, empties * int64(4))
        total = sum_cells(features, ev.origins, ev.weights + stage * int64(2))
        return min(max(total, int64(-LEAF_LIMIT)), int64(LEAF_LIMIT))

    @kernel(cached=False)
    def score_floats(ev, features, mover, opponent, empties):
        stage = load_i32(ev.stages, empties * int64(4))
        total = sum_floats(features, ev.origins, ev.weights + stage * int64(4))
        return rounded_score(total)

    return score, score_floats


class Tables(NamedTuple):
    """Fields of a table evaluator: addresses; ``tables.TableEvaluator`` owns the memory behind them."""

    deltas: int  # see lanes.py
    origins: int
    weights: int  # [stages · cells] int16 in units of SCORE_DISC a disc, or float32 in discs
    stages: int


class Tables16(Tables):
    """Up to 16 lanes: 15 lookups and the constant term."""


class Tables32(Tables):
    """Up to 32 lanes."""


class Tables48(Tables):
    """Up to 48 lanes."""


class Tables64(Tables):
    """Up to 64 lanes."""


class FloatTables16(Tables):
    """As ``Tables16``, with weights of type float32, in discs: what training changes as it goes."""


class FloatTables32(Tables):
    """Up to 32 lanes."""


class FloatTables48(Tables):
    """Up to 48 lanes."""


class FloatTables64(Tables):
    """Up to 64 lanes."""


TABLE_CLASSES: dict[int, Any] = {16: Tables16, 32: Tables32, 48: Tables48, 64: Tables64}
FLOAT_CLASSES: dict[int, Any] = {16: FloatTables16, 32: FloatTables32, 48: FloatTables48, 64: FloatTables64}
for _lanes in LANE_COUNTS:
    _whole, _float = TABLE_CLASSES[_lanes], FLOAT_CLASSES[_lanes]
    _whole.begin, _whole.child = _float.begin, _float.child = feature_kernels(_lanes)
    _whole.score, _float.score = _table_scores(_lanes)


# --- a hand-written evaluator ----------------------------------------------------------------------------------------


class Mobility(NamedTuple):
    """Moves, potential moves, corners and stable discs, weighted by hand: needs no training."""

    move: int = SCORE_DISC
    potential: int = SCORE_DISC // 3
    corner: int = 6 * SCORE_DISC
    stable: int = 2 * SCORE_DISC


@kernel()
def _mobility_score(ev, features, mover, opponent, empties):
    value = ev.move * (mobility(mover, opponent) - mobility(opponent, mover))
    value += ev.potential * (potential_mobility(mover, opponent) - potential_mobility(opponent, mover))
    if (mover | opponent) & CORNERS != ZERO:
        value += ev.corner * (popcount(mover & CORNERS) - popcount(opponent & CORNERS))
        value += ev.stable * (popcount(stable_discs(mover, opponent)) - popcount(stable_discs(opponent, mover)))
    return min(max(value, int64(-LEAF_LIMIT)), int64(LEAF_LIMIT))


Mobility.begin, Mobility.child, Mobility.score = no_begin, no_child, _mobility_score  # type: ignore[attr-defined]
