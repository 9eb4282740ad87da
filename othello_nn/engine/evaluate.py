"""The door between the search and its evaluator: three functions, chosen by type when the search is compiled.

An evaluator is a ``NamedTuple`` of scalars (addresses of its tables, weights), whose class names three kernels:

* ``begin(ev, features, mover, opponent)`` writes the features of a position at the address ``features``;
* ``child(ev, features, parent, square, flips)`` writes those of the position after a move, from its mover's view;
* ``score(ev, features, mover, opponent, empties)`` is the value for the mover, in units of ``SCORE_DISC`` a disc.

The recursive search calls ``leaf_begin``, ``leaf_child`` and ``leaf_score``; Numba compiles one search for each
evaluator class, inlines these, and keeps it on disk. An evaluator without features leaves the first two empty.

``Tables…`` is the evaluator of every net that compiles to lookup tables. A feature is the base-3 number of a few
squares, with digits −1 opponent, 0 empty, +1 mover: seen from the other side it is simply negated, so a move costs
one vector addition for every disc it changes. ``tables.py`` builds them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import float32, int64, types
from numba.extending import overload

from othello_nn.engine.ttable import SCORE_DISC, SCORE_MAX
from othello_nn.game.bits import I16, I32, I64, intrinsic, load_i32, popcount
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


# --- table evaluators ------------------------------------------------------------------------------------------------


# Vectors of 16 lanes: LLVM splits a <48 x i16> into single lanes, but keeps three of these in registers.
CHUNK = ir.VectorType(I16, 16)
F32 = ir.FloatType()


def _chunk_constant(value: int) -> ir.Constant:
    return ir.Constant(CHUNK, [ir.Constant(I16, value)] * 16)


def _address(builder, base, offset, kind):
    return builder.inttoptr(
        builder.add(base, ir.Constant(I64, offset) if isinstance(offset, int) else offset), kind.as_pointer()
    )


def _load_chunks(builder, lanes, address):
    return [builder.load(_address(builder, address, 2 * i, CHUNK), align=2) for i in range(0, lanes, 16)]


def _store_chunks(builder, address, chunks):
    for i, chunk in enumerate(chunks):
        builder.store(chunk, _address(builder, address, 32 * i, CHUNK), align=2)


def _sum_rows(builder, lanes, table, mask):
    """Σ of the rows of ``table`` for the squares in ``mask``, as chunks."""
    count = lanes // 16
    entry, loop, done = (
        builder.basic_block,
        builder.append_basic_block("disc"),
        builder.append_basic_block("discs_done"),
    )
    none = ir.Constant(I64, 0)
    builder.cbranch(builder.icmp_unsigned("==", mask, none), done, loop)
    builder.position_at_end(loop)
    rest = builder.phi(I64)
    rest.add_incoming(mask, entry)
    totals = [builder.phi(CHUNK) for _ in range(count)]
    square = builder.cttz(rest, ir.Constant(ir.IntType(1), 1))
    row = builder.add(table, builder.mul(square, ir.Constant(I64, 2 * lanes)))
    sums = [builder.add(total, chunk) for total, chunk in zip(totals, _load_chunks(builder, lanes, row), strict=True)]
    left = builder.and_(rest, builder.sub(rest, ir.Constant(I64, 1)))
    rest.add_incoming(left, loop)
    builder.cbranch(builder.icmp_unsigned("==", left, none), done, loop)
    builder.position_at_end(done)
    results = [builder.phi(CHUNK) for _ in range(count)]
    for total, summed, result in zip(totals, sums, results, strict=True):
        total.add_incoming(_chunk_constant(0), entry)
        total.add_incoming(summed, loop)
        result.add_incoming(_chunk_constant(0), entry)
        result.add_incoming(summed, loop)
    return results


def _intrinsics(lanes: int):
    """The vector operations of a table evaluator with room for ``lanes`` features."""

    def from_board(typingctx, features, deltas, mover, opponent):
        def codegen(context, builder, signature, args):
            target, table, mover, opponent = args
            mine, theirs = _sum_rows(builder, lanes, table, mover), _sum_rows(builder, lanes, table, opponent)
            _store_chunks(builder, target, [builder.sub(m, t) for m, t in zip(mine, theirs, strict=True)])
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.uint64, types.uint64), codegen

    def after_move(typingctx, features, parent, deltas, square, flips):
        """−(parent + deltas[square] + 2 Σ deltas[flips]): a flipped disc goes from −1 to +1."""

        def codegen(context, builder, signature, args):
            target, source, table, square, flips = args
            flipped = _sum_rows(builder, lanes, table, flips)
            before = _load_chunks(builder, lanes, source)
            row = builder.add(table, builder.mul(square, ir.Constant(I64, 2 * lanes)))
            placed = _load_chunks(builder, lanes, row)
            after = []
            for old, disc, turned in zip(before, placed, flipped, strict=True):
                change = builder.add(disc, builder.add(turned, turned))
                after.append(builder.sub(_chunk_constant(0), builder.add(old, change)))
            _store_chunks(builder, target, after)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64, types.int64, types.uint64), codegen

    def cells_of(builder, args, kind):
        """The weight of each lane, in order."""
        features, origins, weights = args
        cells = builder.inttoptr(weights, kind.as_pointer())
        for lane in range(lanes):
            feature = builder.load(_address(builder, features, 2 * lane, I16))
            origin = builder.load(_address(builder, origins, 4 * lane, I32))
            cell = builder.zext(builder.add(builder.sext(feature, I32), origin), I64)
            yield lane, builder.load(builder.gep(cells, [cell]))

    def look_up(typingctx, features, origins, weights):
        """Σ over the features of ``weights[origins[i] + feature[i]]``, weights of 16 bits."""

        def codegen(context, builder, signature, args):
            sums = [ir.Constant(I32, 0)] * 4
            for lane, weight in cells_of(builder, args, I16):
                sums[lane % 4] = builder.add(sums[lane % 4], builder.sext(weight, I32))
            total = builder.add(builder.add(sums[0], sums[1]), builder.add(sums[2], sums[3]))
            return builder.sext(total, I64)

        return types.int64(types.int64, types.int64, types.int64), codegen

    def look_up_floats(typingctx, features, origins, weights):
        """The same with weights of type float32."""

        def codegen(context, builder, signature, args):
            sums = [ir.Constant(F32, 0.0)] * 4
            for lane, weight in cells_of(builder, args, F32):
                sums[lane % 4] = builder.fadd(sums[lane % 4], weight)
            return builder.fadd(builder.fadd(sums[0], sums[1]), builder.fadd(sums[2], sums[3]))

        return types.float32(types.int64, types.int64, types.int64), codegen

    named = []
    for function in (from_board, after_move, look_up, look_up_floats):
        function.__name__ = function.__qualname__ = f"{function.__name__}_{lanes}"
        named.append(intrinsic(function))
    return named


def _table_kernels(lanes: int):
    """``begin``, ``child``, and ``score`` with integers and with floats, for ``lanes`` features."""
    from_board, after_move, look_up, look_up_floats = _intrinsics(lanes)

    @kernel(cached=False)
    def begin(ev, features, mover, opponent):
        from_board(features, ev.deltas, mover, opponent)

    @kernel(cached=False)
    def child(ev, features, parent, square, flips):
        after_move(features, parent, ev.deltas, square, flips)

    @kernel(cached=False)
    def score(ev, features, mover, opponent, empties):
        stage = load_i32(ev.stages, empties * int64(4))
        total = look_up(features, ev.origins, ev.weights + stage * int64(2))
        return min(max(total, int64(-LEAF_LIMIT)), int64(LEAF_LIMIT))

    @kernel(cached=False)
    def score_floats(ev, features, mover, opponent, empties):
        stage = load_i32(ev.stages, empties * int64(4))
        total = look_up_floats(features, ev.origins, ev.weights + stage * int64(4)) * float32(SCORE_DISC)
        return int64(np.rint(min(max(total, float32(-LEAF_LIMIT)), float32(LEAF_LIMIT))))

    return begin, child, score, score_floats


class Tables16(NamedTuple):
    """Up to 16 lookups. The fields are addresses; ``tables.TableEvaluator`` owns the memory behind them."""

    deltas: int  # [64 · lanes] int16: what one disc adds to each feature
    origins: int  # [lanes] int32: cell of feature 0 in the weights
    weights: int  # [stages · cells] int16
    stages: int  # [65] int32: first cell for this number of empties


class Tables32(NamedTuple):
    """Up to 32 lookups; see ``Tables16``."""

    deltas: int
    origins: int
    weights: int
    stages: int


class Tables48(NamedTuple):
    """Up to 48 lookups; see ``Tables16``."""

    deltas: int
    origins: int
    weights: int
    stages: int


class Tables64(NamedTuple):
    """Up to 64 lookups; see ``Tables16``."""

    deltas: int
    origins: int
    weights: int
    stages: int


class FloatTables16(NamedTuple):
    """As ``Tables16``, with weights of type float32, in discs: what training changes as it goes."""

    deltas: int
    origins: int
    weights: int
    stages: int


class FloatTables32(NamedTuple):
    """Up to 32 lookups; see ``FloatTables16``."""

    deltas: int
    origins: int
    weights: int
    stages: int


class FloatTables48(NamedTuple):
    """Up to 48 lookups; see ``FloatTables16``."""

    deltas: int
    origins: int
    weights: int
    stages: int


class FloatTables64(NamedTuple):
    """Up to 64 lookups; see ``FloatTables16``."""

    deltas: int
    origins: int
    weights: int
    stages: int


TABLE_CLASSES = {16: Tables16, 32: Tables32, 48: Tables48, 64: Tables64}
FLOAT_CLASSES = {16: FloatTables16, 32: FloatTables32, 48: FloatTables48, 64: FloatTables64}
for _lanes in TABLE_CLASSES:
    _whole: Any = TABLE_CLASSES[_lanes]
    _float: Any = FLOAT_CLASSES[_lanes]
    _whole.begin, _whole.child, _whole.score, _float.score = _table_kernels(_lanes)
    _float.begin, _float.child = _whole.begin, _whole.child


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
