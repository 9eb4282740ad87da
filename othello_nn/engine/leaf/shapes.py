"""Which squares a net looks up together, and in which table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from othello_nn.engine.leaf.lanes import LANE_COUNTS, MOST_LANES

LONGEST = 10  # squares of a shape: its features must fit 16 bits


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


TRIANGLE = _squares("a1 b1 c1 d1 b2 c2 d2 c3 d3 d4")
"""What the symmetry axes cut out of the board; its diagonal belongs to the transposed triangle, too."""
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
# 62 lookups: those, the two short diagonals in one, and shapes of the corner, the edge's middle and the board's inside.
WIDE = (
    *PATTERNS[:9],
    _squares("d1 e2 f3 g4 h5 e1 f2 g3 h4"),
    _squares("a1 b1 c1 d1 a2 b2 c2 a3 b3 a4"),  # corner triangle
    _squares("c1 d1 e1 f1 c2 d2 e2 f2"),
    _squares("a1 b2 c3 d4 b1 c2 d3 a2 b3 c4"),  # band along the long diagonal
    _squares("b2 c2 d2 b3 c3 d3 b4 c4 d4"),
    _squares("c2 d2 e2 f2 c3 d3 e3 f3"),
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
