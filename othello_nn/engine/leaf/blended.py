"""Evaluators that blend several nets by the stage of the game: Leouski's application coefficients.

Up to ``NETS`` nets over the same lookups lie side by side in memory, so that one vector load brings the weights of all
of them. The value is Σ coefficient[empties] · Squash(sum of a net's lookups), and a leaf's score the discs that this
value stands for, scale · 2 · atanh(value). Read ``lanes.py`` and ``door.py`` first.

Squash(x) = 1 − 2 / (1 + eˣ) is computed for four nets at once in single precision, by a polynomial of degree 6 for 2ᶠ;
its error is below 3·10⁻⁷. The logarithm is a series of four terms, error below 10⁻⁷ (relative to 1). Together they
stay below 10⁻³ discs for values up to ±62 discs with a scale of 10: ``tests/test_compile.py`` measures it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import float32, int64, types

from othello_nn.engine.leaf.door import TABLE_ORDER_DEPTH, rounded_score
from othello_nn.engine.leaf.lanes import (
    F32,
    LANE_COUNTS,
    address_of,
    emit_cells,
    emit_horizontal,
    emit_sum,
    feature_kernels,
    named_intrinsic,
)
from othello_nn.engine.leaf.tables import LeafEvaluator
from othello_nn.engine.score import LEAF_LIMIT, SCORE_DISC
from othello_nn.kernels.bits import I32, intrinsic, load_i32
from othello_nn.kernels.jit import kernel

NETS = 4
FLOATS, WORDS = ir.VectorType(F32, NETS), ir.VectorType(I32, NETS)
ROUNDER = 1.5 * 2**23  # added and taken away again it rounds a float32 to a whole number
SATURATED = 30.0  # beyond this Squash is ±1 in single precision
LARGEST_VALUE = 1 - 2**-20  # whose atanh is still well defined in single precision


def _all(kind: ir.VectorType, value) -> ir.Constant:
    return ir.Constant(kind, [ir.Constant(kind.element, value)] * NETS)


def _polynomial(builder, x, coefficients, constant):
    """Σ coefficients[i] · xⁱ by Horner's rule."""
    result = constant(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = builder.fadd(builder.fmul(result, x), constant(coefficient))
    return result


def emit_squash(builder, x):
    """Squash of four numbers."""

    def constant(value):
        return _all(FLOATS, value)

    for sign, limit in (("<", SATURATED), (">", -SATURATED)):
        x = builder.select(builder.fcmp_ordered(sign, x, constant(limit)), x, constant(limit))
    exponent = builder.fmul(x, constant(math.log2(math.e)))
    whole = builder.fsub(builder.fadd(exponent, constant(ROUNDER)), constant(ROUNDER))
    series = [math.log(2) ** k / math.factorial(k) for k in range(7)]
    fraction = _polynomial(builder, builder.fsub(exponent, whole), series, constant)
    bits = builder.shl(builder.add(builder.fptosi(whole, WORDS), _all(WORDS, 127)), _all(WORDS, 23))
    power = builder.fmul(fraction, builder.bitcast(bits, FLOATS))
    return builder.fsub(constant(1.0), builder.fdiv(constant(2.0), builder.fadd(power, constant(1.0))))


@intrinsic
def twice_atanh(typingctx, value):
    """2 · atanh(value) = ln((1 + value) / (1 − value)) for |value| < 1, in single precision."""

    def codegen(context, builder, signature, args):
        def constant(x):
            return ir.Constant(F32, x)

        ratio = builder.fdiv(builder.fadd(constant(1.0), args[0]), builder.fsub(constant(1.0), args[0]))
        # ratio = 2^exponent · m with √½ ≤ m < √2, then ln m = 2 atanh((m − 1) / (m + 1)).
        bits = builder.bitcast(ratio, I32)
        root_half = 0x3F3504F3  # the bits of √½
        above = builder.sub(bits, ir.Constant(I32, root_half))
        exponent = builder.ashr(above, ir.Constant(I32, 23))
        m = builder.bitcast(builder.sub(bits, builder.shl(exponent, ir.Constant(I32, 23))), F32)
        s = builder.fdiv(builder.fsub(m, constant(1.0)), builder.fadd(m, constant(1.0)))
        series = _polynomial(builder, builder.fmul(s, s), [2.0, 2 / 3, 2 / 5, 2 / 7], constant)
        return builder.fadd(builder.fmul(builder.sitofp(exponent, F32), constant(math.log(2))), builder.fmul(s, series))

    return types.float32(types.float32), codegen


def _blended_score(lanes: int):
    """``score`` for ``lanes`` features."""

    def blend(typingctx, features, origins, weights, coefficients):
        """Σ over the nets of coefficient · Squash(Σ of the net's lookups)."""

        def codegen(context, builder, signature, args):
            *where, coefficients = args
            cells = emit_cells(builder, lanes, FLOATS, *where)
            values = emit_squash(builder, emit_sum(builder, cells, builder.fadd))
            weighted = builder.fmul(values, builder.load(address_of(builder, coefficients, 0, FLOATS), align=4))
            return emit_horizontal(builder, weighted, builder.fadd)

        return types.float32(types.int64, types.int64, types.int64, types.int64), codegen

    blended = named_intrinsic(blend, lanes)

    @kernel(cached=False)
    def score(ev, features, mover, opponent, empties):
        stage = load_i32(ev.stages, empties * int64(4))
        rows = ev.weights + stage * int64(4 * NETS)
        value = blended(features, ev.origins, rows, ev.coefficients + empties * int64(4 * NETS))
        limit = float32(ev.limit)
        return rounded_score(float32(ev.scale) * twice_atanh(min(max(value, -limit), limit)))

    return score


class Blended(NamedTuple):
    """Fields of a blended evaluator; see ``evaluate.Tables``."""

    deltas: int
    origins: int
    weights: int  # [stages · cells · NETS] float32: what Squash is taken of
    stages: int
    coefficients: int  # [65 · NETS] float32 by empties
    scale: float  # in discs
    limit: float  # the largest value, that of the most a leaf may claim


class Blended16(Blended):
    """Up to 16 lanes: 15 lookups and the constant term."""


class Blended32(Blended):
    """Up to 32 lanes."""


class Blended48(Blended):
    """Up to 48 lanes."""


class Blended64(Blended):
    """Up to 64 lanes."""


BLENDED_CLASSES: dict[int, Any] = {16: Blended16, 32: Blended32, 48: Blended48, 64: Blended64}
for _lanes in LANE_COUNTS:
    _class = BLENDED_CLASSES[_lanes]
    _class.begin, _class.child = feature_kernels(_lanes)
    _class.score = _blended_score(_lanes)
    _class.order_depth = TABLE_ORDER_DEPTH


@dataclass(frozen=True, eq=False)
class BlendedEvaluator(LeafEvaluator):
    """Nets that share shapes, blended by the number of empties. ``weights`` [rows, cells, nets] float32, in ``scale``s.

    ``coefficients`` is [65, nets] by empties.
    """

    coefficients: np.ndarray = field(kw_only=True)
    scale: float = field(kw_only=True)

    def __post_init__(self):
        if self.weights.ndim != 3 or self.weights.dtype != np.float32:
            raise ValueError(f"weights must be float32 [rows, cells, nets], not {self.weights.dtype}")
        nets = self.weights.shape[2]
        if not 1 <= nets <= NETS:
            raise ValueError(f"at most {NETS} nets can be blended, not {nets}")
        if self.coefficients.shape != (65, nets):
            raise ValueError(f"coefficients must be [65, {nets}], not {list(self.coefficients.shape)}")
        if not self.scale > 0:
            raise ValueError(f"scale must be positive, not {self.scale}")
        super().__post_init__()

    def _lay_out(self) -> tuple[Any, ...]:
        rows, cells, nets = self.weights.shape
        weights = np.zeros((rows, cells, NETS), np.float32)
        weights[:, :, :nets] = self.weights
        coefficients = np.zeros((65, NETS), np.float32)
        coefficients[:, :nets] = self.coefficients
        limit = min(math.tanh(LEAF_LIMIT / SCORE_DISC / self.scale / 2), LARGEST_VALUE)
        return BLENDED_CLASSES[self.shapes.lanes], self._with_zero(weights), coefficients, float(self.scale), limit
