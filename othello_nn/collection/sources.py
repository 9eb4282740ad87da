"""Where games come from, and which of them are wanted.

>>> wanted = Filter(years=(1997, 1999), names=("murakami",))
>>> wanted.why_not(Game(date="1996.08.04", black="LOGISTELLO", white="Murakami"))
'of other years'
>>> wanted.why_not(Game(date="7 August 1997", black="LOGISTELLO", white="Takeshi Murakami"))
''
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from othello_nn.arena.journal import is_journal, read_journal
from othello_nn.game.formats.files import parse_content, read_games, read_obf
from othello_nn.game.position import Position
from othello_nn.game.record import ErrorHandler, Game
from othello_nn.game.rules import PASS, SYMMETRIES

STDIN = "-"
RESULTS: dict[str, Callable[[int], bool]] = {
    "black": lambda margin: margin > 0,
    "draw": lambda margin: margin == 0,
    "white": lambda margin: margin < 0,
}
"""Who won, by black's margin."""
_YEAR = re.compile(r"(?<![0-9])(?:1[89]|20)[0-9]{2}(?![0-9])")
_PASSED = 255  # a pass in a byte; no symmetry changes it
_IMAGES = tuple(
    bytes([symmetry[square] if square < 64 else square for square in range(256)]) for symmetry in SYMMETRIES
)


def read_source(
    name: str, on_error: ErrorHandler | None = None, stdin: Callable[[], bytes] | None = None
) -> list[Game]:
    """The games of a file: GGF, SGF, WTHOR, transcripts, a tournament's journal; positions (OBF) are games without
    moves. ``-`` is what ``stdin`` gives. Errors are those of ``read_games``."""
    if name == STDIN:
        assert stdin is not None
        return parse_content(stdin(), on_error)
    path = Path(name)
    if path.suffix.lower() == ".obf":
        return [entry.as_game() for entry in read_obf(path, on_error)]
    if path.is_file() and is_journal(path):
        return read_journal(path)
    return read_games(path, on_error)


def year_of(game: Game) -> int | None:
    """The first year in the date, however that is written."""
    match = _YEAR.search(game.date)
    return None if match is None else int(match[0])


@dataclass(frozen=True)
class Filter:
    """Which games are wanted; as it is made, all of them."""

    years: tuple[int, int] | None = None
    """First and last; games without a date are of no year."""
    names: tuple[str, ...] = ()
    """A player of the game has one of these in its name, in small or capital letters."""
    complete: bool = False
    """Only games that were played to the end."""
    result: str = ""
    """One of ``RESULTS``."""

    def why_not(self, game: Game) -> str:
        """What a game that is not wanted is; nothing if it is wanted."""
        if self.years is not None:
            year = year_of(game)
            if year is None or not self.years[0] <= year <= self.years[1]:
                return "of other years"
        players = f"{game.black}\n{game.white}".casefold()
        if self.names and not any(name.casefold() in players for name in self.names):
            return "of other players"
        if self.complete and not game.final.is_over:
            return "not played to the end"
        if self.result and (game.result is None or not RESULTS[self.result](game.result)):
            return "with another result"
        return ""


def symmetric_key(game: Game) -> tuple[bytes, ...]:
    """The same for a game and its images: start and moves of the smallest of them.

    >>> symmetric_key(Game(moves=(37, 43))) == symmetric_key(Game(moves=(19, 18), passes_left_out=True))
    False
    >>> symmetric_key(Game(moves=(37, 43))) == symmetric_key(Game(moves=(44, 29)))
    True
    """
    moves = bytes([_PASSED if move == PASS else move for move in game.moves])
    starts = _images_of(game.start)
    return min((start, moves.translate(image)) for start, image in zip(starts, _IMAGES, strict=True))


@lru_cache(maxsize=256)
def _images_of(start: Position) -> tuple[bytes, ...]:
    return tuple(image.to_text().encode() for image in start.symmetries())
