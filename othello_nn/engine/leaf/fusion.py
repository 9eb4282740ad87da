"""Fewer lookups for the same sum: tables that lie inside a larger shape are added into that shape's table, exactly.

A net over all pairs of neighbouring squares has 210 lookups in tables of nine cells. Every pair lies on one line of the
board, so 42 lookups, one for each line, in tables of up to 3^8 cells give the same value. ``Fusion(shapes)`` finds such
larger shapes once; ``Fusion.apply`` then turns weights for the given shapes into weights for the fused ones:

1. each lookup goes to a line or to another lookup's squares that hold it, as few of them as a greedy choice finds;
2. while there are more than the compiled leaf has room for, two shapes become one of up to ten squares (eight if it
   can be: larger tables leave the cache), together with all their images;
3. shapes that add up the same tables in the same places share one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from othello_nn.engine.leaf.lanes import MOST_LANES
from othello_nn.engine.leaf.shapes import LONGEST, Placement, Shapes
from othello_nn.game.rules import SYMMETRIES

MOST_LOOKUPS = MOST_LANES - 1  # one lane is the constant term's
PREFERRED = 8

Squares = frozenset[int]
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


def _cover(placements: Iterable[Placement]) -> Parts:
    """Each lookup in a shape that holds it; always the shape next that takes in most of what is left."""
    waiting = Counter(placements)  # a lookup may be there more than once
    candidates = dict.fromkeys([*map(frozenset, board_lines()), *(frozenset(p.squares) for p in waiting)])
    inside = {shape: {p for p in waiting if shape.issuperset(p.squares)} for shape in candidates}
    parts: Parts = {}
    while waiting:
        shape = max(inside, key=lambda shape: len(inside[shape]))
        taken = [p for p in waiting if p in inside[shape]]
        # Squares that nothing reads would only make the table larger.
        needed: Squares = frozenset().union(*(p.squares for p in taken))
        for placement in taken:
            parts.setdefault(needed, []).extend([placement] * waiting.pop(placement))
        for others in inside.values():
            others.difference_update(taken)
    return parts


def _image(shape: Squares, k: int) -> Squares:
    return frozenset(SYMMETRIES[k][square] for square in shape)


def _pairs(parts: Parts, first: Squares, second: Squares) -> list[tuple[Squares, Squares]]:
    """The pair and its images, as many of them as have no shape in common."""
    pairs: list[tuple[Squares, Squares]] = []
    used: set[Squares] = set()
    for k in range(8):
        one, two = _image(first, k), _image(second, k)
        if one != two and one in parts and two in parts and not {one, two} & used:
            pairs.append((one, two))
            used |= {one, two}
    return pairs


def _orbit_heads(parts: Parts) -> list[Squares]:
    """One shape of each set of images."""
    heads, seen = [], set()
    for shape in parts:
        if shape not in seen:
            heads.append(shape)
            seen |= {_image(shape, k) for k in range(8)}
    return heads


def _merge(parts: Parts) -> bool:
    """Make one shape of two, and of all the images of this pair; false if no two are small enough together."""
    best = None
    for first in _orbit_heads(parts):
        for second in parts:
            size = len(first | second)
            if first != second and size <= LONGEST:
                cost = (size > PREFERRED, size, -len(_pairs(parts, first, second)))
                if best is None or cost < best[0]:
                    best = (cost, first, second)
    if best is None:
        return False
    for one, two in _pairs(parts, *best[1:]):
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
        parts = _cover(shapes.placements)
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
            tried = [*_orders(shape, orders.get(len(shape), [])), tuple(sorted(shape))]
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
        fused = np.empty((len(weights), self.shapes.cells, *weights.shape[2:]), dtype)
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
            if shape == frozenset(image):
                yield image


@lru_cache(maxsize=16)
def fusion_of(shapes: Shapes) -> Fusion:
    """The same as ``Fusion(shapes)``, found once."""
    return Fusion(shapes)


def fuse(shapes: Shapes, weights: np.ndarray) -> tuple[Shapes, np.ndarray]:
    """Shapes with as few lookups as were found, and weights for them that give the same sums."""
    fusion = fusion_of(shapes)
    return fusion.shapes, fusion.apply(weights) if fusion.changes else weights
