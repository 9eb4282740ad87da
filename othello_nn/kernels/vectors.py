"""Rows of a few floats as machine vectors: what tables of embeddings are added up and moved by.

A row's length has to be known when a kernel is compiled. It goes in as ``width``, a tuple of so many floats whose
values nobody looks at: Numba compiles a kernel for each length of tuple, and finds it again in its cache. Like
``bits.py`` this speaks to LLVM; addresses are not checked.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils

from othello_nn.kernels.bits import I32, I64, intrinsic

F32 = ir.FloatType()
FLOAT_BYTES = INDEX_BYTES = 4


def _at(builder, base, index, size: int, kind: ir.Type):
    """Element ``index`` of those of ``size`` bytes at the address ``base``, as a pointer to ``kind``."""
    address = builder.add(base, builder.mul(index, ir.Constant(I64, size)))
    return builder.inttoptr(address, kind.as_pointer())


def _row(width: types.UniTuple) -> ir.VectorType:
    return ir.VectorType(F32, width.count)


def _everywhere(builder, kind: ir.VectorType, number):
    """A row that has the same number in each place."""
    undefined, first = ir.Constant(kind, ir.Undefined), ir.Constant(I32, 0)
    places = ir.Constant(ir.VectorType(I32, kind.count), [first] * kind.count)
    return builder.shuffle_vector(builder.insert_element(undefined, number, first), undefined, places)


def _emit_sum(builder, kind: ir.VectorType, count, target, emit_next) -> None:
    """Store at ``target`` the sum of ``count`` rows, at least one: ``emit_next(place, total)`` adds the next to it."""
    before, loop = builder.basic_block, builder.append_basic_block("row")
    done = builder.append_basic_block("rows_done")
    builder.branch(loop)
    builder.position_at_end(loop)
    place, total = builder.phi(I64), builder.phi(kind)
    summed = emit_next(place, total)
    following = builder.add(place, ir.Constant(I64, 1))
    nothing = ir.Constant(kind, [ir.Constant(F32, 0.0)] * kind.count)
    for phi, first, later in ((place, ir.Constant(I64, 0), following), (total, nothing, summed)):
        phi.add_incoming(first, before)
        phi.add_incoming(later, loop)
    builder.cbranch(builder.icmp_signed("<", following, count), loop, done)
    builder.position_at_end(done)
    builder.store(summed, builder.inttoptr(target, kind.as_pointer()), align=FLOAT_BYTES)


@intrinsic
def sum_rows(typingctx, width, rows, indices, count, target):
    """Write to ``target`` the sum of the rows number ``indices`` ([``count``] int32, at least one)."""
    kind, size = _row(width), FLOAT_BYTES * width.count

    def codegen(context, builder, signature, args):
        _, rows, indices, count, target = args

        def add_next(place, total):
            index = builder.zext(builder.load(_at(builder, indices, place, INDEX_BYTES, I32)), I64)
            return builder.fadd(total, builder.load(_at(builder, rows, index, size, kind), align=FLOAT_BYTES))

        _emit_sum(builder, kind, count, target, add_next)
        return context.get_dummy_value()

    return types.void(width, types.int64, types.int64, types.int64, types.int64), codegen


@intrinsic
def weigh_rows(typingctx, width, rows, factors, count, target):
    """Write to ``target`` the sum of the first rows, each times its factor ([``count``] float32, at least one)."""
    kind, size = _row(width), FLOAT_BYTES * width.count

    def codegen(context, builder, signature, args):
        _, rows, factors, count, target = args

        def add_next(place, total):
            factor = _everywhere(builder, kind, builder.load(_at(builder, factors, place, FLOAT_BYTES, F32)))
            row = builder.load(_at(builder, rows, place, size, kind), align=FLOAT_BYTES)
            return builder.fadd(total, builder.fmul(factor, row, flags=("contract",)), flags=("contract",))

        _emit_sum(builder, kind, count, target, add_next)
        return context.get_dummy_value()

    return types.void(width, types.int64, types.int64, types.int64, types.int64), codegen


@intrinsic
def row_product(typingctx, width, rows, index, vector):
    """The scalar product of row number ``index`` of ``rows`` and that at the address ``vector``."""
    kind, size = _row(width), FLOAT_BYTES * width.count

    def codegen(context, builder, signature, args):
        _, rows, index, vector = args
        row = builder.load(_at(builder, rows, index, size, kind), align=FLOAT_BYTES)
        other = builder.load(builder.inttoptr(vector, kind.as_pointer()), align=FLOAT_BYTES)
        added = ir.FunctionType(F32, [F32, kind])
        name = f"llvm.vector.reduce.fadd.v{width.count}f32"
        add_up = cgutils.get_or_insert_function(builder.module, added, name)
        nothing = ir.Constant(F32, -0.0)
        return builder.call(add_up, [nothing, builder.fmul(row, other)], fastmath=("reassoc",))

    return types.float32(width, types.int64, types.int64, types.int64), codegen


@intrinsic
def move_row(typingctx, width, rows, index, factor, step):
    """Add ``factor`` times the row at the address ``step`` to row number ``index`` of ``rows``."""
    kind, size = _row(width), FLOAT_BYTES * width.count

    def codegen(context, builder, signature, args):
        _, rows, index, factor, step = args
        factors = _everywhere(builder, kind, factor)
        change = builder.fmul(factors, builder.load(builder.inttoptr(step, kind.as_pointer()), align=FLOAT_BYTES))
        place = _at(builder, rows, index, size, kind)
        builder.store(builder.fadd(builder.load(place, align=FLOAT_BYTES), change), place, align=FLOAT_BYTES)
        return context.get_dummy_value()

    return types.void(width, types.int64, types.int64, types.float32, types.int64), codegen
