"""Names for the shapes that an n-tuple net looks at, such as people use, and the sets of squares without one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise

from othello_nn.engine.leaf.shapes import symmetric_placements
from othello_nn.game.syntax import parse_square, square_name

FEW = 4
"""A shape of so many squares is named by them."""
_NAMED = {
    "a1 b1 c1 d1 e1 f1 g1 h1 b2 g2": "edge and 2 X",
    "a1 b1 c1 d1 e1 f1 g1 h1": "edge",
    "a1 b1 c1 d1 e1 a2 b2 c2 d2 e2": "corner 2x5",
    "a1 b1 c1 a2 b2 c2 a3 b3 c3": "corner 3x3",
    "a2 b2 c2 d2 e2 f2 g2 h2": "row 2",
    "a3 b3 c3 d3 e3 f3 g3 h3": "row 3",
    "a4 b4 c4 d4 e4 f4 g4 h4": "row 4",
    "a1 b2 c3 d4 e5 f6 g7 h8": "long diagonal",
    "b1 c2 d3 e4 f5 g6 h7": "diagonal of 7",
    "c1 d2 e3 f4 g5 h6": "diagonal of 6",
    "d1 e2 f3 g4 h5": "diagonal of 5",
    "e1 f2 g3 h4": "diagonal of 4",
    "d1 e2 f3 g4 h5 e1 f2 g3 h4": "diagonals 4, 5",
    "a1 b1 c1 d1 a2 b2 c2 a3 b3 a4": "corner triangle",
    "c1 d1 e1 f1 c2 d2 e2 f2": "edge middle 2x4",
    "a1 b2 c3 d4 b1 c2 d3 a2 b3 c4": "diagonal band",
    "b2 c2 d2 b3 c3 d3 b4 c4 d4": "inner 3x3",
    "c2 d2 e2 f2 c3 d3 e3 f3": "inner 2x4",
}


def shape_name(squares: Sequence[int]) -> str:
    """What a shape is called, whatever image of it is given.

    >>> shape_name([63, 54, 45, 36, 27, 18, 9, 0]), shape_name([9]), shape_name([0, 1, 8, 9, 17, 25])
    ('long diagonal', 'b2', '6 from a1')
    """
    found = _by_squares().get(_smallest(squares))
    if found is not None:
        return found
    ordered = _smallest(squares)
    if len(ordered) <= FEW:
        return " ".join(map(square_name, ordered))
    steps = {after - before for before, after in pairwise(ordered)}
    if len(steps) == 1 and steps <= {1, 7, 8, 9}:
        return f"{square_name(ordered[0])} to {square_name(ordered[-1])}"
    return f"{len(ordered)} from {square_name(ordered[0])}"


def _smallest(squares: Sequence[int]) -> tuple[int, ...]:
    return min(tuple(sorted(image)) for image in symmetric_placements(tuple(squares)))


@cache
def _by_squares() -> dict[tuple[int, ...], str]:
    return {_smallest([parse_square(word) for word in words.split()]): name for words, name in _NAMED.items()}
