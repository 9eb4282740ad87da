"""Evaluators of embedding nets: each lookup gives a short vector, their sum goes through a small network.

The tables hold vectors of ``dim`` integers of 8 or 16 bits, whose sums are exact (``BITS``). What follows is in single
precision: value = skip · s + output · relu(hidden · s + bias) + output_bias, in discs, where s is the sum. There is one
such head for the whole game, or one for each few numbers of empties. Most of a leaf's time goes into waiting for cells
that are not in the cache, so the smaller they are the better. Read ``lanes.py`` and ``door.py`` first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import int64, types

from othello_nn.checkpoint import UNIT
from othello_nn.engine.leaf.door import TABLE_ORDER_DEPTH, rounded_score
from othello_nn.engine.leaf.lanes import (
    F32,
    LANE_COUNTS,
    address_of,
    emit_horizontal,
    emit_sum,
    emit_wide_cells,
    feature_kernels,
    named_intrinsic,
)
from othello_nn.engine.leaf.tables import LeafEvaluator, aligned
from othello_nn.kernels.bits import I8, I16, I32, I64, load_i32
from othello_nn.kernels.jit import kernel

DIMS = (4, 8, 16)
BITS = (8, 16)
"""Of a number in a table. Sums have twice as many, which none can overflow: there are at most 64 lookups."""
LARGEST, LARGEST_8 = np.iinfo(np.int16).max, np.iinfo(np.int8).max
WIDTH = 8  # hidden units are computed so many at a time
UNITS = ir.VectorType(F32, WIDTH)
CHAINS = 4


def _emit_multiply_add(builder, x, y, z):
    """x · y + z, as one instruction where the machine has it."""
    return builder.fadd(builder.fmul(x, y, flags=("contract",)), z, flags=("contract",))


def _emit_spread(builder, vector, element: int):
    """One element of a vector in each place of ``UNITS``."""
    undefined = ir.Constant(vector.type, ir.Undefined)
    index = ir.Constant(ir.VectorType(I32, WIDTH), [ir.Constant(I32, element)] * WIDTH)
    return builder.shuffle_vector(vector, undefined, index)


def _emit_folded(builder, vector):
    """``UNITS`` whose sum is that of the vector."""
    parts = []
    for first in range(0, vector.type.count, WIDTH):
        order = [min(first + i, vector.type.count) for i in range(WIDTH)]  # beyond the end there is a 0
        index = ir.Constant(ir.VectorType(I32, WIDTH), [ir.Constant(I32, i) for i in order])
        nothing = ir.Constant(vector.type, [ir.Constant(F32, 0.0)] * vector.type.count)
        parts.append(builder.shuffle_vector(vector, nothing, index))
    return emit_sum(builder, parts, builder.fadd)


def _emit_head(builder, dim: int, sums, head, blocks):
    """What a head makes of the sums. It is skip [dim], a constant, then blocks [dim + 2, WIDTH]: bias, weights of each
    input, output."""
    skip = builder.load(address_of(builder, head, 0, sums.type), align=4)
    direct = _emit_folded(builder, builder.fmul(sums, skip))
    constant = builder.load(address_of(builder, head, 4 * dim, F32), align=4)
    blocks_begin = builder.add(head, ir.Constant(I64, 4 * (dim + 1)))
    inputs = [_emit_spread(builder, sums, i) for i in range(dim)]
    before, loop = builder.basic_block, builder.append_basic_block("units")
    builder.branch(loop)
    builder.position_at_end(loop)
    left, block, total = builder.phi(I64), builder.phi(I64), builder.phi(UNITS)
    rows = [builder.load(address_of(builder, block, 4 * WIDTH * i, UNITS), align=4) for i in range(dim + 2)]
    # In chains that do not wait for each other, the last of which begins with the bias.
    products = zip(inputs, rows[1:-1], strict=True)
    chains = [builder.fmul(*next(products)) for _ in range(CHAINS - 1)] + [rows[0]]
    for i, (given, row) in enumerate(products, CHAINS - 1):
        chains[i % CHAINS] = _emit_multiply_add(builder, given, row, chains[i % CHAINS])
    units = emit_sum(builder, chains, builder.fadd)
    nothing = ir.Constant(UNITS, [ir.Constant(F32, 0.0)] * WIDTH)
    active = builder.select(builder.fcmp_ordered(">", units, nothing), units, nothing)
    summed = _emit_multiply_add(builder, active, rows[-1], total)
    rest = builder.sub(left, ir.Constant(I64, 1))
    following = builder.add(block, ir.Constant(I64, 4 * WIDTH * (dim + 2)))
    for phi, first, later in ((left, blocks, rest), (block, blocks_begin, following), (total, direct, summed)):
        phi.add_incoming(first, before)
        phi.add_incoming(later, loop)
    done = builder.append_basic_block("units_done")
    builder.cbranch(builder.icmp_unsigned("==", rest, ir.Constant(I64, 0)), done, loop)
    builder.position_at_end(done)
    return builder.fadd(emit_horizontal(builder, summed, builder.fadd), constant)


def _emit_sums(builder, lanes: int, dim: int, bits: int, where):
    """The sum of the vectors that the features look up, exact, then as floats."""
    cell = ir.VectorType(I8 if bits == 8 else I16, dim)
    total = ir.VectorType(I16 if bits == 8 else I32, dim)
    cells = emit_wide_cells(builder, lanes, cell, *where)
    sums = emit_sum(builder, (builder.sext(each, total) for each in cells), builder.add)
    return builder.sitofp(sums, ir.VectorType(F32, dim))


def _embedded_score(lanes: int, dim: int, bits: int):
    """``score`` for ``lanes`` features and vectors of ``dim`` numbers of so many ``bits``."""

    def embed(typingctx, features, origins, weights, head, blocks):
        def codegen(context, builder, signature, args):
            *where, head, blocks = args
            return _emit_head(builder, dim, _emit_sums(builder, lanes, dim, bits, where), head, blocks)

        return types.float32(types.int64, types.int64, types.int64, types.int64, types.int64), codegen

    embedded = named_intrinsic(embed, lanes, dim, bits)

    cell_bytes = dim * bits // 8

    @kernel(cached=False)
    def score(ev, features, mover, opponent, empties):
        stage = load_i32(ev.stages, empties * int64(4))
        rows = ev.weights + stage * int64(cell_bytes)
        head = ev.heads + load_i32(ev.heads, empties * int64(4))
        return rounded_score(embedded(features, ev.origins, rows, head, ev.blocks))

    return score


class Embedded(NamedTuple):
    """Fields of an embedding evaluator; see ``evaluate.Tables``."""

    deltas: int
    origins: int
    weights: int  # [stages · cells · dim] int16
    stages: int
    heads: int  # [65] int32: how many bytes further on the head for so many empties is. A head is float32: skip [dim],
    # its constant, then blocks [blocks, dim + 2, WIDTH]; see _emit_head
    blocks: int


# One class for each number of lanes, of a vector and of bits: Embedded16x4of8 … Embedded64x16of16. They are named in
# the module, since Numba's cache has to find them again.
EMBEDDED_CLASSES: dict[tuple[int, int, int], Any] = {}
for _lanes in LANE_COUNTS:
    for _dim, _bits in product(DIMS, BITS):
        _name = f"Embedded{_lanes}x{_dim}of{_bits}"
        _about = f"{_lanes} lanes, vectors of {_dim} numbers of {_bits} bits."
        _class: Any = type(_name, (Embedded,), {"__module__": __name__, "__doc__": _about})
        _class.begin, _class.child = feature_kernels(_lanes)
        _class.score = _embedded_score(_lanes, _dim, _bits)
        _class.order_depth = TABLE_ORDER_DEPTH
        globals()[_name] = EMBEDDED_CLASSES[_lanes, _dim, _bits] = _class


def eight_bits(weights: np.ndarray) -> np.ndarray | None:
    """Weights in 1/``UNIT`` as int8, if none of them changes."""
    small = weights * np.float32(UNIT)
    if max(small.max(initial=0.0), -small.min(initial=0.0)) > LARGEST_8:
        return None
    whole = small.astype(np.int8)
    return whole if (whole == small).all() else None


def quantised(weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Weights as whole numbers, and the value of 1.

    They have 8 bits if that changes nothing, because the net was fitted so (``searched.bits``); else 16, of the
    smallest value with which all of them fit. Nothing is ever clipped.
    """
    largest = float(np.maximum(weights.max(initial=0.0), -weights.min(initial=0.0)))
    if not np.isfinite(largest):
        raise ValueError("the weights hold numbers that are not finite")
    if (small := eight_bits(weights)) is not None:
        return small, 1 / UNIT
    quantum = largest / LARGEST
    return np.rint(weights / np.float32(quantum)).astype(np.int16), quantum


@dataclass(frozen=True)
class Head:
    """The network behind the sums s [dim]: skip · s + output · relu(hidden · s + bias) + output_bias, in discs."""

    skip: np.ndarray  # [dim]
    hidden: np.ndarray  # [units, dim]
    bias: np.ndarray  # [units]
    output: np.ndarray  # [units]
    output_bias: float

    def __post_init__(self):
        units, dim = self.hidden.shape
        shapes = {"skip": (dim,), "bias": (units,), "output": (units,)}
        for name, shape in shapes.items():
            if getattr(self, name).shape != shape:
                raise ValueError(f"{name} must be {list(shape)}, not {list(getattr(self, name).shape)}")

    def negated(self) -> Head:
        return Head(-self.skip, self.hidden, self.bias, -self.output, -self.output_bias)


@dataclass(frozen=True, eq=False)
class EmbeddedEvaluator(LeafEvaluator):
    """``weights`` is int16 [rows, cells, dim], in ``quantum``s of what the ``heads`` take, all of one size;
    ``head_of_empties`` [65] says which counts when.

    With ``memory`` they lie already as the leaf reads them, and are not copied: ``aligned_zeros`` of [rows, cells + 1,
    dim], a dim of ``DIMS``, whose last cell of a row stays zero, of which ``weights`` is a view.
    """

    quantum: float = field(kw_only=True)
    heads: tuple[Head, ...] = field(kw_only=True)
    head_of_empties: np.ndarray = field(kw_only=True, default_factory=lambda: np.zeros(65, np.int64))
    memory: np.ndarray | None = field(kw_only=True, default=None)

    def __post_init__(self):
        if self.weights.ndim != 3 or self.weights.dtype not in (np.int8, np.int16):
            raise ValueError(f"weights must be int8 or int16 [rows, cells, dim], not {self.weights.dtype}")
        dim = self.weights.shape[2]
        if not 1 <= dim <= max(DIMS):
            raise ValueError(f"embeddings of {dim} numbers cannot be compiled, at most {max(DIMS)}")
        for head in self.heads:
            if head.hidden.shape != self.heads[0].hidden.shape:
                raise ValueError("the heads are not all of one size")
            if len(head.skip) != dim:
                raise ValueError(f"the head is for embeddings of {len(head.skip)} numbers, the tables have {dim}")
        if self.head_of_empties.shape != (65,) or not (
            0 <= self.head_of_empties.min() <= self.head_of_empties.max() < len(self.heads)
        ):
            raise ValueError(f"each number of empties needs one of the {len(self.heads)} heads")
        if self.memory is not None:
            rows, cells, _ = self.weights.shape
            room = (rows, cells + 1, next(size for size in DIMS if size >= dim))
            if self.memory.shape != room or not np.may_share_memory(self.memory, self.weights):
                raise ValueError(f"memory must be {list(room)} and hold the weights")
        super().__post_init__()

    def _lay_out(self) -> tuple[Any, ...]:
        given = self.weights.shape[2]
        dim = next(dim for dim in DIMS if dim >= given)
        blocks = max(1, -(-len(self.heads[0].bias) // WIDTH))
        laid_out = np.stack([self._head_numbers(head, dim, blocks) for head in self.heads])
        offsets = 4 * (65 + laid_out.shape[1] * self.head_of_empties)
        heads = aligned(np.concatenate([offsets.astype(np.int32).view(np.float32), laid_out.ravel()]))
        weights = self.memory
        if weights is None:
            weights = self._with_zero(np.pad(self.weights, [(0, 0), (0, 0), (0, dim - given)]))
        return EMBEDDED_CLASSES[self.shapes.lanes, dim, 8 * weights.itemsize], weights, heads, blocks

    def _head_numbers(self, head: Head, dim: int, blocks: int) -> np.ndarray:
        """A head as the leaf reads it: vectors of ``dim``, units in ``blocks``, sums in quantums."""
        units, given = head.hidden.shape
        rows = np.zeros((dim + 2, blocks * WIDTH), np.float32)
        rows[0, :units] = head.bias
        rows[1 : given + 1, :units] = head.hidden.T * self.quantum
        rows[-1, :units] = head.output
        skip = np.zeros(dim, np.float32)
        skip[:given] = head.skip * self.quantum
        in_blocks = rows.reshape(dim + 2, blocks, WIDTH).swapaxes(0, 1)
        return np.concatenate([skip, [np.float32(head.output_bias)], in_blocks.ravel()], dtype=np.float32)
