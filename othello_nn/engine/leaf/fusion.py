"""Fewer lookups for the same sum: tables that lie inside a larger shape are added into that shape's table, exactly.

A net over all pairs of neighbouring squares has 210 lookups in tables of nine cells. Every pair lies on one line of the
board, so 42 lookups, one for each line, in tables of up to 3^8 cells give the same value. ``Fusion(shapes)`` finds such
larger shapes once; ``Fusion.apply`` then turns weights for the given shapes into weights for the fused ones:

1. each lookup goes to a line or to another lookup's squares that hold it, as few of them as a greedy choice finds;
2. while there are more than the compiled leaf has room for, two shapes become one of up to ten squares (as few as can
   be: large tables leave the cache), together with all their images;
3. shapes that add up the same tables in the same places share one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from othello_nn.engine.leaf.lanes import MOST_LANES
from othello_nn.engine.leaf.shapes import LONGEST, Placement, Shapes
from othello_nn.game.rules import SYMMETRIES, squares_in

MOST_LOOKUPS = MOST_LANES - 1  # one lane is the constant term's
MOST_GIVEN, MOST_PAIRS, MOST_NUMBERS = 2048, 1 << 17, 1 << 28
"""Lookups that are looked at, pairs of shapes of which one is joined, and weights of a net once they are: a second or
two, and a gigabyte. What is beyond would not come down to what can be compiled, only take its time."""
_ONES = np.array([byte.bit_count() for byte in range(256)], np.uint8)

Squares = int  # as a bitboard
Parts = dict[Squares, list[Placement]]  # what is looked up in each fused shape
Signature = tuple[tuple[int, tuple[int, ...]], ...]


def board_lines() -> list[tuple[int, ...]]:
    """The 8 ranks, 8 files and 26 diagonals of at least two squares, each in order."""
    lines = []
    for step_rank, step_file in ((0, 1), (1, 0), (1, 1), (1, -1)):
        for square in range(64):
            rank, file = divmod(square, 8)
            if 0 <= rank - step_rank < 8 and 0 <= file - step_file < 8:
                continue  # not where the line begins
            line = []
            while 0 <= rank < 8 and 0 <= file < 8:
                line.append(8 * rank + file)
                rank, file = rank + step_rank, file + step_file
            if len(line) > 1:
                lines.append(tuple(line))
    return lines


def _mask(squares: Iterable[int]) -> Squares:
    return sum(1 << square for square in squares)


def _cover(placements: Iterable[Placement]) -> Parts:
    """Each lookup in a shape that holds it; always the shape next that takes in most of what is left."""
    counted = Counter(placements)  # a lookup may be there more than once
    masks = [_mask(placement.squares) for placement in counted]
    candidates = dict.fromkeys([*map(_mask, board_lines()), *masks])
    wanted, shapes = np.array(masks, np.uint64), np.array(list(candidates), np.uint64)
    inside = shapes[:, None] & wanted == wanted  # [shapes, lookups]
    left = inside.sum(1)
    waiting = np.ones(len(masks), bool)
    given = list(counted.items())
    parts: Parts = {}
    while waiting.any():
        taken = np.flatnonzero(inside[left.argmax()] & waiting)
        # Squares that nothing reads would only make the table larger.
        needed = int(np.bitwise_or.reduce(wanted[taken]))
        for placement, times in (given[i] for i in taken):
            parts.setdefault(needed, []).extend([placement] * times)
        waiting[taken] = False
        left -= inside[:, taken].sum(1)
    return parts


@lru_cache(maxsize=1 << 14)
def _images(shape: Squares) -> tuple[Squares, ...]:
    return tuple(_mask(symmetry[square] for square in squares_in(shape)) for symmetry in SYMMETRIES)


def _pairs(parts: Parts, first: Squares, second: Squares) -> list[tuple[Squares, Squares]]:
    """The pair and its images, as many of them as have no shape in common."""
    pairs: list[tuple[Squares, Squares]] = []
    used: set[Squares] = set()
    for one, two in zip(_images(first), _images(second), strict=True):
        if one != two and one in parts and two in parts and not {one, two} & used:
            pairs.append((one, two))
            used |= {one, two}
    return pairs


def _count_pairs(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """``[N]``: how many ``_pairs`` there are, of shapes whose images are these, ``[8, N]`` (-1 if it is no part)."""
    counts = (first >= 0) & (second >= 0) & (first != second)
    for k in range(1, 8):
        for earlier in range(k):
            in_common = (first[k] == first[earlier]) | (second[k] == second[earlier])
            in_common |= (first[k] == second[earlier]) | (second[k] == first[earlier])
            counts[k] &= ~(counts[earlier] & in_common)
    return counts.sum(0)


def _orbit_heads(parts: Parts) -> list[Squares]:
    """One shape of each set of images."""
    heads, seen = [], set()
    for shape in parts:
        if shape not in seen:
            heads.append(shape)
            seen |= set(_images(shape))
    return heads


def _merge(parts: Parts) -> bool:
    """Make one shape of two, and of all the images of this pair; false if no two are small enough together.

    The smallest are made first, and of these the one with the most images.
    """
    shapes, heads = list(parts), _orbit_heads(parts)
    number = {shape: i for i, shape in enumerate(shapes)}
    joined = np.array(heads, np.uint64)[:, None] | np.array(shapes, np.uint64)  # [heads, shapes]
    sizes = _ONES[joined.view(np.uint8)].reshape(*joined.shape, 8).sum(2)
    sizes[range(len(heads)), [number[head] for head in heads]] = LONGEST + 1  # nothing is joined with itself
    if sizes.min() > LONGEST:
        return False
    first, second = np.nonzero(sizes == sizes.min())
    places = [
        np.array([[number.get(image, -1) for image in _images(shape)] for shape in several], np.int32).T
        for several in (heads, shapes)
    ]
    best = _count_pairs(places[0][:, first], places[1][:, second]).argmax()
    for one, two in _pairs(parts, heads[first[best]], shapes[second[best]]):
        together = parts.pop(one) + parts.pop(two)
        parts[one | two] = parts.get(one | two, []) + together
    return True


def _signature(order: tuple[int, ...], parts: list[Placement]) -> Signature:
    """What a table over squares in this order is the sum of: tables, and the places of their squares."""
    place = {square: i for i, square in enumerate(order)}
    return tuple(sorted((p.table, tuple(place[square] for square in p.squares)) for p in parts))


class Fusion:
    """How lookups in ``shapes`` become fewer lookups in ``self.shapes``, which are the same object if there is no gain.

    ``ValueError`` if more remain than a leaf has room for.
    """

    def __init__(self, shapes: Shapes):
        self.source = self.shapes = shapes
        self._gathers: list[np.ndarray] = []
        if len(shapes.placements) > MOST_GIVEN:
            raise ValueError(f"{len(shapes.placements)} lookups are too many to be joined; at most {MOST_GIVEN}")
        parts = _cover(shapes.placements)
        if len(_orbit_heads(parts)) * len(parts) > MOST_PAIRS:
            raise ValueError(f"{len(shapes.placements)} lookups of {len(parts)} shapes are too many to be joined")
        while len(parts) > MOST_LOOKUPS and _merge(parts):
            pass
        if len(parts) > MOST_LOOKUPS:
            raise ValueError(
                f"{len(shapes.placements)} lookups become {len(parts)} by joining what fits into {LONGEST} squares, "
                f"more than the {MOST_LOOKUPS} that can be compiled"
            )
        if len(parts) < len(shapes.placements):
            self._build(parts)

    @property
    def changes(self) -> bool:
        return self.shapes is not self.source

    def _build(self, parts: Parts) -> None:
        tables: dict[Signature, int] = {}
        sizes: list[int] = []
        placements: list[Placement] = []
        orders: dict[int, list[tuple[int, ...]]] = {}  # by size: squares in the order of a table's digits
        for shape, placed in parts.items():
            # A shape read as the image of an earlier one may turn out to be the same sum.
            squares = squares_in(shape)
            tried = [*_orders(shape, orders.get(len(squares), [])), tuple(squares)]
            order = next((order for order in tried if _signature(order, placed) in tables), tried[-1])
            signature = _signature(order, placed)
            if signature not in tables:
                tables[signature] = len(sizes)
                sizes.append(len(order))
                orders.setdefault(len(order), []).append(order)
            placements.append(Placement(tables[signature], order))
        self.shapes = Shapes(tuple(sizes), tuple(placements))
        starts = self.source.table_starts
        for signature, table in tables.items():
            digits = np.arange(3 ** sizes[table]) // 3 ** np.arange(sizes[table])[:, None] % 3  # [size, cells]
            # [parts, cells]: where each cell of the fused table takes its terms from
            self._gathers.append(
                np.stack(
                    [
                        starts[source] + 3 ** np.arange(len(places)) @ digits[list(places)]
                        for source, places in signature
                    ]
                )
            )

    def apply(self, weights: np.ndarray) -> np.ndarray:
        """``[rows, cells, …]`` of the given shapes → ``[rows, cells, …]`` of the fused ones. Integers become int32."""
        if weights.shape[1] != self.source.cells:
            raise ValueError(f"the shapes need {self.source.cells} cells, the weights have {weights.shape[1]}")
        dtype = weights.dtype if weights.dtype.kind == "f" else np.dtype(np.int32)
        if not self.changes:
            return weights.astype(dtype, copy=False)
        size = (len(weights), self.shapes.cells, *weights.shape[2:])
        if math.prod(size) > MOST_NUMBERS:
            raise ValueError(f"joined tables of {list(size)} numbers are too large to be compiled")
        fused = np.empty(size, dtype)
        fused[:, 0] = weights[:, 0]
        for row, old in zip(fused, weights.astype(dtype, copy=False), strict=True):
            for start, gather in zip(self.shapes.table_starts, self._gathers, strict=True):
                table = row[start : start + gather.shape[1]]
                np.take(old, gather[0], axis=0, out=table, mode="clip")  # "raise" would go through a buffer
                for cells in gather[1:]:
                    table += old.take(cells, axis=0)
        return fused


def _orders(shape: Squares, earlier: list[tuple[int, ...]]) -> Iterable[tuple[int, ...]]:
    """The shape's squares in the orders of earlier shapes that it is an image of."""
    for order in earlier:
        for images in SYMMETRIES:
            image = tuple(images[square] for square in order)
            if shape == _mask(image):
                yield image


@lru_cache(maxsize=16)
def fusion_of(shapes: Shapes) -> Fusion:
    """The same as ``Fusion(shapes)``, found once."""
    return Fusion(shapes)


def fuse(shapes: Shapes, weights: np.ndarray) -> tuple[Shapes, np.ndarray]:
    """Shapes with as few lookups as were found, and weights for them that give the same sums."""
    fusion = fusion_of(shapes)
    return fusion.shapes, fusion.apply(weights) if fusion.changes else weights
