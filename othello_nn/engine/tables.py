"""Lookup-table evaluators: shapes of squares, a table of weights for each, summed over the board's symmetries.

``Shapes`` says which squares are looked up; ``TableEvaluator`` adds weights in stages of the game and holds the
memory that the compiled leaf functions of ``evaluate.py`` read. Weights are 16-bit integers, ``SCORE_DISC`` a disc, or
float32 in discs. ``compile.py`` makes evaluators of trained nets.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from othello_nn.engine.evaluate import FLOAT_CLASSES, TABLE_CLASSES, score_all
from othello_nn.engine.lanes import LANE_COUNTS, MOST_LANES
from othello_nn.engine.probcut import ProbCut
from othello_nn.engine.ttable import SCORE_DISC

CACHE_LINE, HUGE_PAGE = 64, 1 << 21
LONGEST = 10  # squares of a shape: its features must fit 16 bits
SHIPPED = Path(__file__).resolve().parent.parent.parent / "checkpoints" / "champion.safetensors"


def _symmetries(square: int) -> list[int]:
    rank, file = divmod(square, 8)
    images = []
    for r, f in ((rank, file), (file, rank)):
        for rr in (r, 7 - r):
            images += [8 * rr + f, 8 * rr + 7 - f]
    return images


def symmetric_placements(squares: Sequence[int]) -> list[tuple[int, ...]]:
    """The distinct images of a list of squares under the board's symmetries, each in the order of the original."""
    placements: dict[frozenset[int], tuple[int, ...]] = {}
    for image in zip(*map(_symmetries, squares), strict=True):
        placements.setdefault(frozenset(image), image)
    return list(placements.values())


def _squares(names: str) -> tuple[int, ...]:
    return tuple(8 * (int(name[1]) - 1) + "abcdefgh".index(name[0]) for name in names.split())


# 46 lookups: edges, corners, ranks and diagonals. The last square of a list is the most significant digit.
PATTERNS = (
    _squares("a1 b1 c1 d1 e1 f1 g1 h1 b2 g2"),  # edge with both X-squares
    _squares("a1 b1 c1 d1 e1 a2 b2 c2 d2 e2"),  # corner 2×5
    _squares("a1 b1 c1 a2 b2 c2 a3 b3 c3"),  # corner 3×3
    _squares("a2 b2 c2 d2 e2 f2 g2 h2"),
    _squares("a3 b3 c3 d3 e3 f3 g3 h3"),
    _squares("a4 b4 c4 d4 e4 f4 g4 h4"),
    _squares("a1 b2 c3 d4 e5 f6 g7 h8"),
    _squares("b1 c2 d3 e4 f5 g6 h7"),
    _squares("c1 d2 e3 f4 g5 h6"),
    _squares("d1 e2 f3 g4 h5"),
    _squares("e1 f2 g3 h4"),
)


@dataclass(frozen=True)
class Placement:
    """One lookup: these squares, in this digit order, in the table of shape ``table``."""

    table: int
    squares: tuple[int, ...]


@dataclass(frozen=True)
class Shapes:
    """Which squares are looked up in which table. ``placements`` may share tables."""

    sizes: tuple[int, ...]
    placements: tuple[Placement, ...]

    def __post_init__(self):
        # Compiled code does not look where it reads: what it is given must be right.
        for size in self.sizes:
            if type(size) is not int or not 1 <= size <= LONGEST:
                raise ValueError(f"a shape's size must be 1…{LONGEST} squares, not {size!r}")
        for table, squares in ((p.table, p.squares) for p in self.placements):
            if type(table) is not int or not 0 <= table < len(self.sizes):
                raise ValueError(f"there is no table {table!r} among {len(self.sizes)}")
            if len(squares) != self.sizes[table]:
                raise ValueError(f"table {table} is for {self.sizes[table]} squares, a placement has {len(squares)}")
            if not all(type(s) is int and 0 <= s < 64 for s in squares) or len(set(squares)) != len(squares):
                raise ValueError(f"a placement needs distinct squares 0…63, not {list(squares)!r}")

    @classmethod
    def symmetric(cls, tuples: Sequence[Sequence[int]]) -> Shapes:
        """Each tuple in all its symmetric placements, one shared table a tuple."""
        placements = [
            Placement(i, image) for i, squares in enumerate(tuples) for image in symmetric_placements(squares)
        ]
        return cls(tuple(len(squares) for squares in tuples), tuple(placements))

    @cached_property
    def table_starts(self) -> tuple[int, ...]:
        """First cell of each table; cell 0 of a stage is the constant term."""
        starts, cell = [], 1
        for size in self.sizes:
            starts.append(cell)
            cell += 3**size
        return tuple(starts)

    @cached_property
    def cells(self) -> int:
        return 1 + sum(3**size for size in self.sizes)

    @cached_property
    def lanes(self) -> int:
        """Lookups, with one for the constant, rounded up to a compiled size."""
        for lanes in LANE_COUNTS:
            if len(self.placements) < lanes:
                return lanes
        raise ValueError(f"{len(self.placements)} lookups are more than the {MOST_LANES - 1} that can be compiled")

    @cached_property
    def deltas(self) -> np.ndarray:
        """``[64, lanes]`` int16: what a disc of the mover adds to each feature."""
        deltas = np.zeros((64, self.lanes), np.int16)
        for lane, placement in enumerate(self.placements):
            for digit, square in enumerate(placement.squares):
                deltas[square, lane] = 3**digit
        return deltas

    @cached_property
    def origins(self) -> np.ndarray:
        """``[lanes]`` int32: the cell of an empty shape. The lanes left over read the constant term, then nothing."""
        origins = np.zeros(self.lanes, np.int32)
        for lane, placement in enumerate(self.placements):
            size = len(placement.squares)
            origins[lane] = self.table_starts[placement.table] + (3**size - 1) // 2
        origins[len(self.placements) + 1 :] = self.cells  # a zero after the last table
        return origins


def mirrored_cells(squares: Sequence[int]) -> np.ndarray:
    """``[images, 3^n]``: the cells of a shape's table that mean the same, through the shape's own symmetries."""
    digits = np.stack([np.arange(3 ** len(squares)) // 3**d % 3 for d in range(len(squares))])
    images = []
    for image in zip(*map(_symmetries, squares), strict=True):
        if set(image) == set(squares):
            images.append(sum(digits[squares.index(square)] * 3**d for d, square in enumerate(image)))
    return np.stack(images)


def symmetric(weights: np.ndarray, shapes: Shapes) -> np.ndarray:
    """The mean over cells that mirror images of a position read, ``[…, cells]``, so that all eight evaluate alike."""
    weights = weights.copy()
    tables = {placement.table: placement.squares for placement in reversed(shapes.placements)}
    for table, squares in tables.items():
        cells = shapes.table_starts[table] + mirrored_cells(squares)  # [images, 3^n]
        weights[..., cells[0]] = weights[..., cells].mean(axis=-2)
    return weights


def stages_of_empties(stages: int) -> np.ndarray:
    """``[65]``: the stage of each number of empties when a net has so many; stage 0 is the end of the game."""
    return np.minimum(np.arange(65) * stages // 60, stages - 1)


def aligned(array: np.ndarray) -> np.ndarray:
    """A copy that begins a cache line, so that a cell of 16 or 32 bytes never lies in two.

    Large tables get huge pages where the system has them: lookups all over a few megabytes otherwise spend more time on
    finding pages than on reading them.
    """
    if array.nbytes > HUGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE"):
        page = HUGE_PAGE
        pages = mmap.mmap(-1, array.nbytes + page, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        pages.madvise(mmap.MADV_HUGEPAGE)
        memory = np.frombuffer(pages, np.uint8)
    else:
        page = CACHE_LINE
        memory = np.empty(array.nbytes + page, np.uint8)
    start = -memory.ctypes.data % page
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
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

    def __post_init__(self):
        rows, cells = self.weights.shape[:2]
        if cells != self.shapes.cells:
            raise ValueError(f"the shapes need {self.shapes.cells} cells a stage, the weights have {cells}")
        stages = self.stage_of_empties
        if stages.shape != (65,) or not (stages >= 0).all() or (stages >= rows).any():
            raise ValueError("stage_of_empties must give a stage for each of 0…64 empties")
        if self.probcut is not None:
            ProbCut(self.probcut)

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
        scores, features = np.empty(len(movers), np.int64), np.zeros(MOST_LANES, np.int16)
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


@cache
def shipped_evaluator() -> LeafEvaluator | None:
    """The evaluator that comes with the program; None where the package was taken without it."""
    from othello_nn.engine.compile import load_evaluator

    evaluator = load_evaluator(SHIPPED) if SHIPPED.is_file() else None
    assert evaluator is None or isinstance(evaluator, LeafEvaluator)
    return evaluator


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
