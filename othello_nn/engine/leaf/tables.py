"""Lookup-table evaluators: shapes of squares, a table of weights for each, summed over the board's symmetries.

``Shapes`` says which squares are looked up; ``TableEvaluator`` adds weights in stages of the game and holds the
memory that the compiled leaf functions of ``door.py`` read. Weights are 16-bit integers, ``SCORE_DISC`` a disc, or
float32 in discs. ``compile.py`` makes evaluators of trained nets.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numba import int64, types

from othello_nn.engine.calibration import Calibration
from othello_nn.engine.leaf.door import TABLE_ORDER_DEPTH, rounded_score, score_all
from othello_nn.engine.leaf.lanes import (
    F32,
    FEATURE_BYTES,
    LANE_COUNTS,
    emit_cells,
    emit_sum,
    feature_kernels,
    named_intrinsic,
)
from othello_nn.engine.leaf.shapes import Placement, Shapes
from othello_nn.engine.probcut import ProbCut
from othello_nn.engine.score import LEAF_LIMIT, SCORE_DISC
from othello_nn.kernels.bits import I16, I32, I64, load_i32
from othello_nn.kernels.jit import kernel

CACHE_LINE, HUGE_PAGE = 64, 1 << 21
LONGEST = 10  # squares of a shape: its features must fit 16 bits


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
    _whole.order_depth = _float.order_depth = TABLE_ORDER_DEPTH


def aligned_zeros(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Zeros that begin a cache line, so that a cell of 16 or 32 bytes never lies in two.

    Large tables get huge pages where the system has them: lookups all over a few megabytes otherwise spend more time on
    finding pages than on reading them.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size > HUGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE"):
        page = HUGE_PAGE
        pages = mmap.mmap(-1, size + page, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        pages.madvise(mmap.MADV_HUGEPAGE)
        memory = np.frombuffer(pages, np.uint8)
    else:
        page = CACHE_LINE
        memory = np.zeros(size + page, np.uint8)
    start = -memory.ctypes.data % page
    return memory[start : start + size].view(dtype).reshape(shape)


def aligned(array: np.ndarray) -> np.ndarray:
    """A copy in such memory."""
    copy = aligned_zeros(array.shape, array.dtype)
    copy[...] = array
    return copy


@dataclass(frozen=True, eq=False)
class LeafEvaluator:
    """What evaluators made of lookups share. ``stage_of_empties[e]`` is the row of ``weights`` with e empty squares."""

    name: str
    shapes: Shapes
    weights: np.ndarray  # [rows, cells, …]
    stage_of_empties: np.ndarray  # [65] int
    info: dict[str, Any] = field(default_factory=dict)
    probcut: np.ndarray | None = None  # fitted parameters, see probcut.py
    calibration: np.ndarray | None = None  # and those of calibration.py

    def __post_init__(self):
        rows, cells = self.weights.shape[:2]
        if cells != self.shapes.cells:
            raise ValueError(f"the shapes need {self.shapes.cells} cells a stage, the weights have {cells}")
        stages = self.stage_of_empties
        if stages.shape != (65,) or not (stages >= 0).all() or (stages >= rows).any():
            raise ValueError("stage_of_empties must give a stage for each of 0…64 empties")
        if self.probcut is not None:
            ProbCut.of(self.probcut)
        if self.calibration is not None:
            Calibration(self.calibration)

    @property
    def lookups(self) -> int:
        return len(self.shapes.placements)

    @cached_property
    def leaf(self):
        """What the compiled search takes: addresses into memory of this object, which must outlive their use."""
        deltas, origins = np.ascontiguousarray(self.shapes.deltas), self.shapes.origins
        stages = (self.stage_of_empties * (self.shapes.cells + 1)).astype(np.int32)
        kind, weights, *more = self._lay_out()
        object.__setattr__(self, "_memory", (deltas, origins, stages, weights, more))
        addresses = [x.ctypes.data if isinstance(x, np.ndarray) else x for x in more]
        return kind(deltas.ctypes.data, origins.ctypes.data, weights.ctypes.data, stages.ctypes.data, *addresses)

    def laid_out(self) -> Self:
        """Itself, with its memory laid out now, in one thread: players in several threads can then share it."""
        _ = self.leaf
        return self

    def _lay_out(self) -> tuple[Any, ...]:
        """The leaf's class, the weights as it reads them, and its further fields: arrays or numbers."""
        raise NotImplementedError

    def _with_zero(self, weights: np.ndarray) -> np.ndarray:
        """With one more cell a row, for the lanes that are not used."""
        return aligned(np.pad(weights, [(0, 0), (0, 1)] + [(0, 0)] * (weights.ndim - 2)))

    def discs(self, movers: np.ndarray, opponents: np.ndarray) -> np.ndarray:
        """``[N]`` float64: the leaf's values for positions ``[N]`` uint64, within ±62 and to 1/``SCORE_DISC``."""
        movers, opponents = (np.ascontiguousarray(x, np.uint64) for x in (movers, opponents))
        if movers.ndim != 1 or movers.shape != opponents.shape:
            raise ValueError(f"movers and opponents must be as many, not {movers.shape} and {opponents.shape}")
        scores, features = np.empty(len(movers), np.int64), np.zeros(FEATURE_BYTES, np.uint8)
        score_all(self.leaf, features.ctypes.data, movers, opponents, scores)
        return scores / SCORE_DISC


@dataclass(frozen=True, eq=False)
class TableEvaluator(LeafEvaluator):
    """The value is the sum of the lookups. ``weights``: int16 in units of SCORE_DISC a disc, or float32 in discs."""

    def __post_init__(self):
        if self.weights.dtype not in (np.int16, np.float32) or self.weights.ndim != 2:
            raise ValueError(f"weights must be int16 or float32 [stages, cells], not {self.weights.dtype}")
        super().__post_init__()

    def _lay_out(self) -> tuple[Any, ...]:
        kinds = TABLE_CLASSES if self.weights.dtype == np.int16 else FLOAT_CLASSES
        return kinds[self.shapes.lanes], self._with_zero(self.weights)


def weighted_squares(name: str, weights: Sequence[float], per_disc: float = 1.0) -> TableEvaluator:
    """A weighted piece counter (64 square weights) as eight rank tables; ``per_disc`` is what one disc is worth."""
    shapes = Shapes((8,) * 8, tuple(Placement(rank, tuple(range(8 * rank, 8 * rank + 8))) for rank in range(8)))
    digits = np.stack([(np.arange(3**8) // 3**d) % 3 - 1 for d in range(8)])  # [8, 6561]
    table = np.zeros((1, shapes.cells))
    for rank in range(8):
        start = shapes.table_starts[rank]
        table[0, start : start + 3**8] = np.asarray(weights[8 * rank : 8 * rank + 8]) @ digits
    scaled = np.rint(table / per_disc * SCORE_DISC)
    if np.abs(scaled).max() > np.iinfo(np.int16).max:
        raise ValueError(f"the weights of {name} are too large for 16-bit tables")
    return TableEvaluator(name, shapes, scaled.astype(np.int16), np.zeros(65, np.int64))
