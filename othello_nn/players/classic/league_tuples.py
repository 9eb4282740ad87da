"""N-tuple players in the Othello League's text format, as papers print them.

    { COUNT
      { N M { N squares } … M times … { 3^N weights } }
      … COUNT times …
    }

The braces may be left out, all of them: the numbers come in the same order.

A tuple of N squares is looked up in one table of weights at each of its M placements; squares are numbered 0 (a1) to
63 (h8) row by row. The **first** square of a placement is the most significant base-3 digit of the cell, and the digits
are 0 white, 1 empty, 2 black. White space, line ends included, only separates words.

A file does not say how its player sees the board. By ``inversion`` it always sees itself as black, and takes the move
after which the sum of its lookups is largest; by ``negation`` black is black, and white takes the move after which the
sum is smallest.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from othello_nn.errors import OthelloError, shorten
from othello_nn.files import plain_file, write_whole

if TYPE_CHECKING:
    from othello_nn.engine.leaf.compile import ColouredEvaluator
    from othello_nn.engine.leaf.tables import TableEvaluator

VIEWS = ("inversion", "negation")
"""How a player sees the board; the first unless it is said."""
LONGEST = 10
"""Squares of a tuple: what a compiled lookup holds."""
LARGEST_DISCS = 60
"""The League's weights have no unit; an evaluator has them scaled so that no position is worth more than this."""
LARGEST_WEIGHT = 1e30
"""Larger ones have sums that are no numbers."""
_WORD = re.compile(r"[{}]|[^\s{}]+")


class LeagueFormatError(OthelloError):
    """A text that is not in the League's format; the message names the line and the word."""


@dataclass(frozen=True)
class Tuple:
    """A table and where it is looked up."""

    placements: tuple[tuple[int, ...], ...]
    """Squares, the most significant digit first."""
    weights: tuple[float, ...]

    def __post_init__(self):
        sizes = {len(squares) for squares in self.placements}
        if len(sizes) != 1 or not 1 <= min(sizes) <= LONGEST:
            raise LeagueFormatError(f"a tuple needs placements of 1 to {LONGEST} squares, all of one size")
        for squares in self.placements:
            if len(set(squares)) != len(squares) or not all(0 <= square < 64 for square in squares):
                raise LeagueFormatError(
                    f"a placement needs different squares 0 to 63, not {' '.join(map(str, squares))}"
                )
        if len(self.weights) != 3**self.size or not all(abs(each) <= LARGEST_WEIGHT for each in self.weights):
            raise LeagueFormatError(
                f"a tuple of {self.size} needs {3**self.size} finite weights, none beyond ±{LARGEST_WEIGHT:g}"
            )

    @property
    def size(self) -> int:
        return len(self.placements[0])


# --- text ------------------------------------------------------------------------------------------------------------


class _Words:
    """The words of a text one after the other, each with its line."""

    def __init__(self, text: str, name: str):
        self.name, self.line = name, 1
        lines = enumerate(text.splitlines(), 1)
        self._words = ((word, number) for number, line in lines for word in _WORD.findall(line))
        self._braces = not text.lstrip()[:1].isdigit()
        """Whether lists stand in braces; a text without them begins with the number of tuples."""

    def next(self, wanted: str) -> str:
        """The next word; ``wanted`` says in an error what should have stood there."""
        word, line = next(self._words, (None, self.line))
        self.line = line
        if word is None:
            raise self.error(f"the text ends where {wanted} should follow")
        return word

    def expect(self, brace: str, wanted: str) -> None:
        if self._braces and (word := self.next(wanted)) != brace:
            raise self.error(f"{shorten(word)} where {wanted} should be")

    def whole(self, low: int, high: int, wanted: str) -> int:
        word = self.next(wanted)
        # Nothing here has more than a few digits, and Python's own limit for long ones is another error.
        if not (word.isascii() and word.isdigit() and len(word) <= 9 and low <= int(word) <= high):
            raise self.error(f"{shorten(word)} where {wanted} should be")
        return int(word)

    def number(self, wanted: str) -> float:
        word = self.next(wanted)
        try:
            value = float(word)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or not word.isascii() or "_" in word:
            raise self.error(f"{shorten(word)} where {wanted} should be")
        return value

    def end(self) -> None:
        word, self.line = next(self._words, (None, self.line))
        if word is not None:
            raise self.error(f"{shorten(word)} after the end")

    def error(self, message: str) -> LeagueFormatError:
        return LeagueFormatError(f"{self.name}, line {self.line}: {message}")


def parse_tuples(text: str, name: str = "tuples") -> list[Tuple]:
    """The tuples of a text; ``name`` is what errors call it.

    >>> parse_tuples("{ 1 { 1 2 { 0 } { 63 } { -1 0 1.5 } } }")
    [Tuple(placements=((0,), (63,)), weights=(-1.0, 0.0, 1.5))]
    >>> parse_tuples("1  1 2  0 63  -1 0 1.5") == parse_tuples("{ 1 { 1 2 { 0 } { 63 } { -1 0 1.5 } } }")
    True
    >>> parse_tuples("{ 1 { 1 2 { 0 } { 64 } { -1 0 1 } } }")
    Traceback (most recent call last):
    othello_nn.players.classic.league_tuples.LeagueFormatError: tuples, line 1: '64' where a square 0 to 63 should be
    """
    words = _Words(text, name)
    words.expect("{", "an opening brace")
    count = words.whole(1, 10**6, "the number of tuples")
    tuples = [_parse_tuple(words, f"tuple {i + 1} of {count}") for i in range(count)]
    words.expect("}", f"the closing brace behind {count} tuples")
    words.end()
    return tuples


def _parse_tuple(words: _Words, which: str) -> Tuple:
    words.expect("{", f"the opening brace of {which}")
    size = words.whole(1, LONGEST, f"the size of {which}, 1 to {LONGEST},")
    count = words.whole(1, 10**4, f"the number of placements of {which}")
    placements = []
    for _ in range(count):
        words.expect("{", f"the opening brace of a placement of {which}")
        placements.append(tuple(words.whole(0, 63, "a square 0 to 63") for _ in range(size)))
        if len(set(placements[-1])) != size:
            raise words.error(f"a placement of {which} has a square twice")
        words.expect("}", f"the closing brace behind {size} squares")
    words.expect("{", f"the opening brace of the weights of {which}")
    weights = tuple(words.number(f"weight {i + 1} of {3**size}") for i in range(3**size))
    words.expect("}", f"the closing brace behind {3**size} weights")
    words.expect("}", f"the closing brace of {which}")
    return Tuple(tuple(placements), weights)


def read_tuples(path: str | Path) -> list[Tuple]:
    """The tuples of a file."""
    try:
        text = plain_file(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise LeagueFormatError(f"{str(path)!r} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise LeagueFormatError(f"{str(path)!r} is not a text file") from None
    return parse_tuples(text, str(path))


def format_tuples(tuples: Sequence[Tuple]) -> str:
    """The text that ``parse_tuples`` reads back as it was, laid out as printed in papers: two lines a tuple."""
    if not tuples:
        raise LeagueFormatError("there is no tuple to write")
    lines = [f"{{ {len(tuples)}"]
    for one in tuples:
        placements = " ".join(f"{{ {' '.join(map(str, squares))} }}" for squares in one.placements)
        lines.append(f"{{ {one.size} {len(one.placements)} {placements}")
        lines.append(f"{{ {' '.join(map(repr, map(float, one.weights)))} }} }}")
    return "\n".join([*lines, "}\n"])


def write_tuples(path: str | Path, tuples: Sequence[Tuple]) -> None:
    """Write a file in the League's format."""
    write_whole(Path(path), format_tuples(tuples).encode())


# --- the evaluator ---------------------------------------------------------------------------------------------------


def tuples_evaluator(tuples: Sequence[Tuple], name: str) -> TableEvaluator:
    """The tuples as tables of the engine, scaled so that no position is worth more than ``LARGEST_DISCS``.

    What the engine looks at is the position after the player's move, seen by the other side, and the value is for that
    side: the colours are exchanged and the sign is turned. Small tuples share lookups, see ``engine/leaf/fusion.py``.
    """
    return _evaluator(tuples, name, turned=True)


def negation_evaluator(tuples: Sequence[Tuple], name: str) -> ColouredEvaluator:
    """The tuples of a player that plays by output negation, as two evaluators.

    The sum is for black. After white's move black is to move and sees the board as the tuples do; after black's move it
    is white, which sees it as by ``inversion``: colours exchanged, sign turned.
    """
    from othello_nn.engine.leaf.compile import ColouredEvaluator

    black_to_move, white_to_move = (_evaluator(tuples, name, turned) for turned in (False, True))
    return ColouredEvaluator(name, black_to_move, white_to_move, any_depth=False)


def _evaluator(tuples: Sequence[Tuple], name: str, turned: bool) -> TableEvaluator:
    """Black is the mover; ``turned``, black is the other side, and the value is turned too."""
    import numpy as np

    from othello_nn.engine.leaf.fusion import fuse
    from othello_nn.engine.leaf.shapes import Placement, Shapes
    from othello_nn.engine.leaf.tables import TableEvaluator

    if not tuples:
        raise LeagueFormatError("a player needs at least one tuple")
    # Our first square is the least significant digit, so the squares are turned round. Exchanging the colours turns
    # each digit d into 2 − d, which is the table read backwards.
    placements = [Placement(i, squares[::-1]) for i, one in enumerate(tuples) for squares in one.placements]
    shapes = Shapes(tuple(one.size for one in tuples), tuple(placements))
    weights = np.zeros((1, shapes.cells))
    for start, one in zip(shapes.table_starts, tuples, strict=True):
        table = np.array(one.weights)
        weights[0, start : start + 3**one.size] = -table[::-1] if turned else table
    try:
        shapes, weights = fuse(shapes, weights)
    except ValueError as error:
        raise LeagueFormatError(f"{name}: too many tuples ({error})") from None
    starts = [(shapes.table_starts[p.table], 3 ** len(p.squares)) for p in shapes.placements]
    largest = abs(weights[0, 0]) + sum(np.abs(weights[0, start : start + cells]).max() for start, cells in starts)
    scaled = (weights * (LARGEST_DISCS / max(largest, 1e-30))).astype(np.float32)
    return TableEvaluator(name, shapes, scaled, np.zeros(65, np.int64))


def load_tuples(path: str | Path, view: str = VIEWS[0]) -> TableEvaluator | ColouredEvaluator:
    """The evaluator in a file for a player that sees the board by one of ``VIEWS``, made once however many use it."""
    path = Path(path)
    try:
        changed_ns = path.stat().st_mtime_ns
    except OSError as error:
        raise LeagueFormatError(f"{str(path)!r} cannot be read: {error.strerror or error}") from None
    return _load(path, changed_ns, view)


@lru_cache(maxsize=8)
def _load(path: Path, changed_ns: int, view: str) -> TableEvaluator | ColouredEvaluator:
    make = tuples_evaluator if view == VIEWS[0] else negation_evaluator
    return make(read_tuples(path), path.stem).laid_out()
