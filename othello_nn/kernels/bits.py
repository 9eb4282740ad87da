"""Machine words and vectors for the kernels: the only place where LLVM is spoken to directly.

Everything here is a Numba ``@intrinsic``: a function whose code generator emits LLVM instructions, so that a call costs
what the instructions cost. Three groups:

* ``popcount``, ``lowest_square``: one machine instruction each;
* ``flips_of``, ``legal_of``: the two rules of the game, four directions at a time in a ``<4 x i64>`` vector, which LLVM
  lowers to AVX2 or AVX-512, NEON or plain scalars, whatever the machine has;
* ``load_*``, ``store_*``, ``prefetch``: memory behind an address. Recursive search functions pass one address instead
  of a dozen array structs; arrays in their signatures would cost more than the node itself.

Read ``board.py`` next: it gives these their names in the game.
"""

from __future__ import annotations

import functools
from typing import Any

from llvmlite import binding as llvm
from llvmlite import ir
from numba import extending, types
from numba.core import cgutils

intrinsic: Any = extending.intrinsic  # its own type counts the typing context among a caller's arguments

I8, I16, I32, I64 = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64)
LANES = ir.VectorType(I64, 4)
FULL = 0xFFFFFFFFFFFFFFFF
INNER_COLUMNS = 0x7E7E7E7E7E7E7E7E
# One lane per axis: rank, file and the two diagonals. A disc on the a- or h-file cannot be flipped along the last
# three.
AXIS_SHIFTS = (8, 1, 7, 9)
AXIS_MASKS = (FULL, INNER_COLUMNS, INNER_COLUMNS, INNER_COLUMNS)


def _lanes(values) -> ir.Constant:
    return ir.Constant(LANES, [ir.Constant(I64, v & FULL) for v in values])


def _splat_constant(value: int) -> ir.Constant:
    return _lanes((value,) * 4)


def _splat(builder, value):
    single = builder.insert_element(ir.Constant(LANES, ir.Undefined), value, ir.Constant(I32, 0))
    zeros = ir.Constant(ir.VectorType(I32, 4), [ir.Constant(I32, 0)] * 4)
    return builder.shuffle_vector(single, ir.Constant(LANES, ir.Undefined), zeros)


def _or_lanes(builder, vector):
    """OR of the four lanes, halving twice."""
    undefined = ir.Constant(LANES, ir.Undefined)
    for order in ((2, 3, 0, 1), (1, 0, 3, 2)):
        index = ir.Constant(ir.VectorType(I32, 4), [ir.Constant(I32, i) for i in order])
        vector = builder.or_(vector, builder.shuffle_vector(vector, undefined, index))
    return builder.extract_element(vector, ir.Constant(I32, 0))


def ray_masks(square: int) -> tuple[list[int], list[int]]:
    """The squares beyond ``square`` in each axis: towards higher squares, towards lower squares."""
    rank, file = divmod(square, 8)
    higher: list[int] = []
    lower: list[int] = []
    for d_rank, d_file in ((1, 0), (0, 1), (1, -1), (1, 1)):
        for sign, out in ((1, higher), (-1, lower)):
            mask, r, f = 0, rank + sign * d_rank, file + sign * d_file
            while 0 <= r < 8 and 0 <= f < 8:
                mask |= 1 << (8 * r + f)
                r, f = r + sign * d_rank, f + sign * d_file
            out.append(mask)
    return higher, lower


def _ray_table(builder) -> ir.GlobalVariable:
    """``[64 x [2 x <4 x i64>]]`` in the module's constants: rays towards higher, then lower squares."""
    name = "othello_nn.rays"
    module = builder.module
    if name in module.globals:
        return module.globals[name]
    row = ir.ArrayType(LANES, 2)
    kind = ir.ArrayType(row, 64)
    rows = [ir.Constant(row, [_lanes(half) for half in ray_masks(s)]) for s in range(64)]
    table = ir.GlobalVariable(module, kind, name)
    table.linkage = "internal"
    table.global_constant = True
    table.align = 32
    table.initializer = ir.Constant(kind, rows)
    return table


def _highest_bits(builder, vector):
    """The highest set bit of each lane, none of which is 0, looking along the lane's own axis only."""
    if _counts_leading_zeros():
        count = builder.module.declare_intrinsic("llvm.ctlz.v4i64", (), ir.FunctionType(LANES, [LANES, ir.IntType(1)]))
        leading = builder.call(count, [vector, ir.Constant(ir.IntType(1), 1)])
        return builder.lshr(_splat_constant(1 << 63), leading)
    # Without a vector instruction for it, fill downwards along the axis and keep the bit that nothing fills from above.
    for steps in (1, 2, 4):
        shift = _lanes([steps * s for s in AXIS_SHIFTS])
        vector = builder.or_(vector, builder.lshr(vector, shift))
    return builder.and_(vector, builder.not_(builder.lshr(vector, _lanes(AXIS_SHIFTS))))


@functools.cache
def _counts_leading_zeros() -> bool:
    features = llvm.get_host_cpu_features()
    return bool(features.get("avx512cd") and features.get("avx512vl"))


def _emit_flips(builder, mover, opponent, square):
    table = _ray_table(builder)
    zero = ir.Constant(I64, 0)
    higher = builder.load(builder.gep(table, [zero, square, zero], inbounds=True))
    lower = builder.load(builder.gep(table, [zero, square, ir.Constant(I64, 1)], inbounds=True))
    movers, opponents = _splat(builder, mover), _splat(builder, opponent)
    # Upwards: adding one carries through the opponent's discs to the first other square; the mover must stand there.
    carried = builder.add(builder.or_(opponents, builder.not_(higher)), _splat_constant(1))
    anchor = builder.and_(builder.and_(carried, movers), higher)
    found = builder.sext(builder.icmp_unsigned("!=", anchor, _splat_constant(0)), LANES)
    up = builder.and_(builder.add(anchor, found), higher)
    # Downwards: the highest square of the ray that is not the opponent's. `| 1` keeps the shift in range; the masks
    # undo it.
    others = builder.or_(builder.and_(lower, builder.not_(opponents)), _splat_constant(1))
    top = _highest_bits(builder, others)
    anchor = builder.and_(builder.and_(top, movers), lower)
    above = builder.sub(_splat_constant(0), builder.shl(anchor, _splat_constant(1)))
    return _or_lanes(builder, builder.or_(up, builder.and_(above, lower)))


def emit_ends(builder, mover, opponent):
    """Two vectors, a lane for each axis, upwards and downwards: the squares behind a run of opposing discs that begins
    next to one of the mover's. Those that are empty are moves."""
    movers, opponents = _splat(builder, mover), _splat(builder, opponent)
    inner = builder.and_(opponents, _lanes(AXIS_MASKS))
    one, two = _lanes(AXIS_SHIFTS), _lanes([2 * s for s in AXIS_SHIFTS])
    ends = []
    for shift in (builder.shl, builder.lshr):
        # Kogge–Stone: runs of opposing discs next to the mover's, of length up to 1, 2, 4 and 6.
        run = builder.and_(inner, shift(movers, one))
        run = builder.or_(run, builder.and_(inner, shift(run, one)))
        pairs = builder.and_(inner, shift(inner, one))
        run = builder.or_(run, builder.and_(pairs, shift(run, two)))
        run = builder.or_(run, builder.and_(pairs, shift(run, two)))
        ends.append(shift(run, one))
    return ends


def _emit_legal(builder, mover, opponent):
    reached = _or_lanes(builder, builder.or_(*emit_ends(builder, mover, opponent)))
    return builder.and_(reached, builder.not_(builder.or_(mover, opponent)))


@intrinsic
def flips_of(typingctx, mover, opponent, square):
    """The discs that a move of ``mover`` on the empty ``square`` turns over; 0 if it is not a move."""

    def codegen(context, builder, signature, args):
        return _emit_flips(builder, *args)

    return types.uint64(types.uint64, types.uint64, types.int64), codegen


@intrinsic
def legal_of(typingctx, mover, opponent):
    """The squares where ``mover`` may play."""

    def codegen(context, builder, signature, args):
        return _emit_legal(builder, *args)

    return types.uint64(types.uint64, types.uint64), codegen


@intrinsic
def popcount(typingctx, word):
    """Number of set bits."""

    def codegen(context, builder, signature, args):
        return builder.ctpop(args[0])

    return types.int64(types.uint64), codegen


@intrinsic
def lowest_square(typingctx, word):
    """Index of the lowest set bit; ``word`` must not be 0."""

    def codegen(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), codegen


@intrinsic
def byte_swap(typingctx, word):
    """The bytes in reverse order: ranks 1…8 become 8…1."""

    def codegen(context, builder, signature, args):
        return builder.bswap(args[0])

    return types.uint64(types.uint64), codegen


def _pointer(builder, kind, address, offset):
    return builder.inttoptr(builder.add(address, offset), kind.as_pointer())


def _loader(name: str, kind: ir.Type, result: types.Type, widen):
    def load(typingctx, address, offset):
        def codegen(context, builder, signature, args):
            value = builder.load(_pointer(builder, kind, *args))
            return widen(builder, value)

        return result(types.int64, types.int64), codegen

    load.__name__ = load.__qualname__ = name
    load.__doc__ = f"The value at ``address + offset`` (bytes), as {result}."
    return intrinsic(load)


def _storer(name: str, kind: ir.Type, value_type: types.Type):
    def store(typingctx, address, offset, value):
        def codegen(context, builder, signature, args):
            word = args[2]
            if word.type != kind:
                word = builder.trunc(word, kind)
            builder.store(word, _pointer(builder, kind, args[0], args[1]))
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, value_type), codegen

    store.__name__ = store.__qualname__ = name
    store.__doc__ = "Write ``value`` at ``address + offset`` (bytes)."
    return intrinsic(store)


load_u64 = _loader("load_u64", I64, types.uint64, lambda builder, value: value)
load_i64 = _loader("load_i64", I64, types.int64, lambda builder, value: value)
load_i32 = _loader("load_i32", I32, types.int64, lambda builder, value: builder.sext(value, I64))
load_i16 = _loader("load_i16", I16, types.int64, lambda builder, value: builder.sext(value, I64))
store_u64 = _storer("store_u64", I64, types.uint64)
store_i64 = _storer("store_i64", I64, types.int64)


@intrinsic
def prefetch(typingctx, address):
    """Ask for the cache line at ``address``; harmless if it is never used."""

    def codegen(context, builder, signature, args):
        pointer = builder.inttoptr(args[0], I8.as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [I8.as_pointer(), I32, I32, I32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [pointer, ir.Constant(I32, 0), ir.Constant(I32, 3), ir.Constant(I32, 1)])
        return context.get_dummy_value()

    return types.void(types.int64), codegen
