"""Sets of n-tuples by name: which squares an n-tuple net looks at. Needs no torch.

A tuple is a list of squares; a net looks it up in all its symmetric placements (see ``engine/leaf/tables.py``), so two
tuples that are images of each other are one. Names can be joined with ``+``:

``all-1`` … ``all-8``  every straight line of that many squares
``rand-8x4``           eight random snakes of four squares; the seed chooses them
``patterns``           the eleven shapes of the engine's own evaluator
``wide``               these and more of the corner and the inside: fifteen shapes, 62 lookups
``rows``, ``diagonals``, ``corners``, ``edges``   families of those shapes, ``rows`` with the edge row
``FILE``               a text file, one tuple a line as names of squares (``a1 b1 c1``), ``#`` begins a comment

>>> pairs = tuple_set("all-2")
>>> len(pairs), lookups(pairs), weights(pairs)
(32, 210, 288)
>>> tuple_set("rows+cornres")
Traceback (most recent call last):
othello_nn.nets.tuple_sets.TupleSetError: unknown tuple set 'cornres'; did you mean 'corners'?
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from othello_nn.engine.leaf.shapes import LONGEST, PATTERNS, WIDE, symmetric_placements
from othello_nn.errors import InvalidMoveError, OthelloError, did_you_mean, shorten
from othello_nn.files import plain_file
from othello_nn.game.syntax import parse_square

Tuples = tuple[tuple[int, ...], ...]

MOST_SNAKES = 1000
FAMILIES: dict[str, Tuples] = {
    "patterns": PATTERNS,
    "wide": WIDE,
    "edges": PATTERNS[:1],
    "corners": PATTERNS[1:3],
    "rows": (tuple(range(8)), *PATTERNS[3:6]),
    "diagonals": PATTERNS[6:],
}
_SYSTEMATIC = re.compile(r"all-(\d{1,4})")
_RANDOM = re.compile(r"rand-(\d{1,6})[x×](\d{1,4})")


class TupleSetError(OthelloError):
    """A tuple or a set of tuples that cannot be used."""


def lookups(tuples: Iterable[Sequence[int]]) -> int:
    """How many table lookups a position takes: all symmetric placements of all tuples."""
    return sum(len(symmetric_placements(squares)) for squares in tuples)


def weights(tuples: Iterable[Sequence[int]]) -> int:
    """How many weights the tables hold, the constant term not counted."""
    return sum(3 ** len(squares) for squares in tuples)


def tuple_set(name: str, seed: int = 0) -> Tuples:
    """The tuples of a set. ``seed`` matters to random sets only."""
    if _looks_like_path(name) and Path(name).exists():  # before splitting: a path may hold a plus sign
        return read_tuples(name)
    found: dict[frozenset[int], tuple[int, ...]] = {}
    for part in name.split("+"):
        for squares in _part(part.strip(), seed):
            found.setdefault(_class_of(squares), squares)
    return tuple(found.values())


def check_tuples(tuples: Sequence[Sequence[int]]) -> Tuples:
    """Tuples given as lists of numbers, as they stand in a net's configuration; an error if they cannot be used."""
    if isinstance(tuples, str) or not isinstance(tuples, Sequence) or not tuples:
        raise TupleSetError(f"tuples must be the name of a set or a list of lists of squares, not {shorten(tuples)}")
    checked = []
    for squares in tuples:
        if isinstance(squares, str) or not isinstance(squares, Sequence):
            raise TupleSetError(f"a tuple must be a list of squares, not {shorten(squares)}")
        if not all(type(square) is int and 0 <= square < 64 for square in squares):
            raise TupleSetError(f"a tuple's squares are whole numbers from 0 (a1) to 63 (h8), not {shorten(squares)}")
        _check_squares(squares)
        checked.append(tuple(squares))
    return tuple(checked)


def read_tuples(path: str | Path) -> Tuples:
    """The tuples of a text file."""
    try:
        lines = plain_file(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a text file"
        raise TupleSetError(f"{path}: tuples cannot be read: {reason}") from None
    found: dict[frozenset[int], tuple[int, tuple[int, ...]]] = {}
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            squares = tuple(parse_square(word) for word in words)
            _check_squares(squares)
        except (InvalidMoveError, TupleSetError) as error:
            raise TupleSetError(f"{path}, line {number}: {error}") from None
        first = found.setdefault(_class_of(squares), (number, squares))[0]
        if first != number:
            raise TupleSetError(f"{path}, line {number}: these are the squares of line {first}, up to symmetry")
    if not found:
        raise TupleSetError(f"{path}: there are no tuples in it; write one a line, such as a1 b1 c1")
    return tuple(squares for _, squares in found.values())


def _check_squares(squares: Sequence[int]) -> None:
    if not 1 <= len(squares) <= LONGEST:
        raise TupleSetError(f"a tuple has 1 to {LONGEST} squares, not {len(squares)}")
    if len(set(squares)) != len(squares):
        raise TupleSetError("a tuple has each square once")


def _class_of(squares: Sequence[int]) -> frozenset[int]:
    """The same for all images of a tuple, whatever the order of the squares."""
    return min((frozenset(image) for image in symmetric_placements(squares)), key=sorted)


def _looks_like_path(name: str) -> bool:
    return any(sign in name for sign in "/\\.")


def _part(name: str, seed: int) -> Tuples:
    if name in FAMILIES:
        return FAMILIES[name]
    if match := _SYSTEMATIC.fullmatch(name):
        return _straight(name, int(match[1]))
    if match := _RANDOM.fullmatch(name):
        return _snakes(name, int(match[1]), int(match[2]), seed)
    if _looks_like_path(name):
        return read_tuples(name)
    names = [*FAMILIES, *(f"all-{length}" for length in range(1, 9)), "rand-8x4"]
    raise TupleSetError(f"unknown tuple set {name!r}; {did_you_mean(name, names)}")


def _straight(name: str, length: int) -> Tuples:
    if not 1 <= length <= 8:
        raise TupleSetError(f"{name}: a straight tuple has 1 to 8 squares, not {length}")
    found: dict[frozenset[int], tuple[int, ...]] = {}
    for square in range(64):
        row, column = divmod(square, 8)
        for row_step, column_step in ((0, 1), (1, 0), (1, 1), (1, -1)):
            last_row, last_column = row + (length - 1) * row_step, column + (length - 1) * column_step
            if last_row < 8 and 0 <= last_column < 8:
                step = 8 * row_step + column_step
                line = tuple(square + i * step for i in range(length))
                found.setdefault(_class_of(line), line)
    return tuple(found.values())


def _snakes(name: str, count: int, length: int, seed: int) -> Tuples:
    """Random walks over neighbouring squares that never come back to a square, no two the same up to symmetry."""
    if not 1 <= count <= MOST_SNAKES or not 1 <= length <= LONGEST:
        raise TupleSetError(f"{name}: a random set has 1 to {MOST_SNAKES} tuples of 1 to {LONGEST} squares")
    rng = random.Random(seed)
    found: dict[frozenset[int], tuple[int, ...]] = {}
    for _ in range(100 * count):
        walk = [rng.randrange(64)]
        while len(walk) < length:
            steps = [square for square in _neighbours(walk[-1]) if square not in walk]
            if not steps:
                break  # it has shut itself in: another one is begun
            walk.append(steps[rng.randrange(len(steps))])
        if len(walk) == length:
            found.setdefault(_class_of(walk), tuple(walk))
        if len(found) == count:
            return tuple(found.values())
    raise TupleSetError(f"{name}: only {len(found)} different snakes of {length} squares were found")


def _neighbours(square: int) -> list[int]:
    row, column = divmod(square, 8)
    rows, columns = range(max(row - 1, 0), min(row + 2, 8)), range(max(column - 1, 0), min(column + 2, 8))
    return [8 * r + c for r in rows for c in columns if 8 * r + c != square]
