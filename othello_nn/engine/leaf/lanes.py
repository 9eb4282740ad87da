"""Features of a position as vectors of 16-bit lanes: what all evaluators made of lookup tables share.

A feature is the base-3 number of a few squares, with digits −1 opponent, 0 empty, +1 mover. Seen from the other side
it is simply negated, so a move costs one vector addition for every disc it changes. ``feature_kernels`` makes the
``begin`` and ``child`` of an evaluator (see ``door.py``); its ``score`` looks up the cell ``origin + feature`` of
each lane with ``emit_cells`` and does with it what the evaluator is about. Like ``bits.py`` this speaks to LLVM.

An evaluator's NamedTuple has the addresses ``deltas`` ([64 · lanes] int16: what one disc adds to each feature),
``origins`` ([lanes] int32: the cell of feature 0) and ``stages`` ([65] int32: first cell for this number of empties).
"""

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import ir
from numba import types

from othello_nn.kernels.bits import I16, I32, I64, intrinsic
from othello_nn.kernels.jit import kernel

LANE_COUNTS = (16, 32, 48, 64)  # compiled sizes
MOST_LANES = max(LANE_COUNTS)
FEATURE_BYTES = 6 * MOST_LANES  # room for one position's features, and for what a score makes of them

# Vectors of 16 lanes: LLVM splits a <48 x i16> into single lanes, but keeps three of these in registers.
CHUNK = ir.VectorType(I16, 16)
F32 = ir.FloatType()


def _chunk_constant(value: int) -> ir.Constant:
    return ir.Constant(CHUNK, [ir.Constant(I16, value)] * 16)


def address_of(builder, base, offset, kind):
    """``base + offset`` (bytes) as a pointer to ``kind``."""
    return builder.inttoptr(
        builder.add(base, ir.Constant(I64, offset) if isinstance(offset, int) else offset), kind.as_pointer()
    )


def _load_chunks(builder, lanes, address):
    return [builder.load(address_of(builder, address, 2 * i, CHUNK), align=2) for i in range(0, lanes, 16)]


def _store_chunks(builder, address, chunks):
    for i, chunk in enumerate(chunks):
        builder.store(chunk, address_of(builder, address, 32 * i, CHUNK), align=2)


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


@cache
def feature_kernels(lanes: int):
    """``begin`` and ``child`` of an evaluator with room for ``lanes`` features."""

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

    write_board, write_child = named_intrinsic(from_board, lanes), named_intrinsic(after_move, lanes)

    @kernel(cached=False)
    def begin(ev, features, mover, opponent):
        write_board(features, ev.deltas, mover, opponent)

    @kernel(cached=False)
    def child(ev, features, parent, square, flips):
        write_child(features, parent, ev.deltas, square, flips)

    return begin, child


def named_intrinsic(function: Any, *sizes: int) -> Any:
    """An intrinsic under a name of its own for each size it is made for: Numba tells them apart by name."""
    function.__name__ = function.__qualname__ = "_".join([function.__name__, *map(str, sizes)])
    return intrinsic(function)


def emit_cells(builder, lanes: int, kind: ir.Type, features, origins, weights):
    """For each lane in order, the cell ``origin + feature`` of the weights; a cell is a ``kind``, scalar or vector."""
    vector = isinstance(kind, ir.VectorType)
    scalar, stride = (kind.element, kind.count) if vector else (kind, 1)
    base = builder.inttoptr(weights, scalar.as_pointer())
    for lane in range(lanes):
        feature = builder.load(address_of(builder, features, 2 * lane, I16))
        origin = builder.load(address_of(builder, origins, 4 * lane, I32))
        cell = builder.zext(builder.add(builder.sext(feature, I32), origin), I64)
        if stride > 1:
            cell = builder.mul(cell, ir.Constant(I64, stride))
        pointer = builder.gep(base, [cell])
        yield builder.load(
            builder.bitcast(pointer, kind.as_pointer()) if vector else pointer, align=2 if vector else None
        )


def emit_wide_cells(builder, lanes: int, kind: ir.VectorType, features, origins, weights):
    """``emit_cells`` for vectors of 8- or 16-bit numbers: where they lie is computed for sixteen lanes at once.

    The offsets go through memory behind the features (``FEATURE_BYTES`` has room), from which a lookup takes one with
    a single load; out of a register it would be two or three instructions. Atomic loads, which cost nothing here, keep
    LLVM from going back to registers.
    """
    offsets = ir.VectorType(I32, 16)
    shift = ir.Constant(offsets, [ir.Constant(I32, (kind.count * kind.element.width // 8).bit_length() - 1)] * 16)
    room = builder.add(features, ir.Constant(I64, 2 * MOST_LANES))
    for first in range(0, lanes, 16):
        feature = builder.load(address_of(builder, features, 2 * first, CHUNK), align=2)
        origin = builder.load(address_of(builder, origins, 4 * first, offsets), align=4)
        cells = builder.shl(builder.add(builder.sext(feature, offsets), origin), shift)
        builder.store(cells, address_of(builder, room, 4 * first, offsets), align=4)
    for lane in range(lanes):
        offset = builder.load_atomic(address_of(builder, room, 4 * lane, I32), "monotonic", 4)
        yield builder.load(address_of(builder, weights, builder.zext(offset, I64), kind), align=1)


def emit_sum(builder, values, add):
    """The sum of vectors or scalars in four chains, which do not wait for each other."""
    chains: list = []
    for i, value in enumerate(values):
        if i < 4:
            chains.append(value)
        else:
            chains[i % 4] = add(chains[i % 4], value)
    while len(chains) > 1:
        chains = [add(*chains[i : i + 2]) if i + 1 < len(chains) else chains[i] for i in range(0, len(chains), 2)]
    return chains[0]


def emit_horizontal(builder, vector, add):
    """The sum of a vector's elements (a power of two of them), by halves."""
    count, undefined = vector.type.count, ir.Constant(vector.type, ir.Undefined)
    while count > 1:
        count //= 2
        order = [ir.Constant(I32, (i + count) % (2 * count) if i < 2 * count else i) for i in range(vector.type.count)]
        index = ir.Constant(ir.VectorType(I32, vector.type.count), order)
        vector = add(vector, builder.shuffle_vector(vector, undefined, index))
    return builder.extract_element(vector, ir.Constant(I32, 0))
