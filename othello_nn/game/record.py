"""Game: one played game, whatever file it came from. Read `position.py` first.

A `Game` is checked when it is made: every move is legal, every pass is written out, and a result that the board
contradicts is refused. The readers of the file formats (`ggf.py`, `sgf.py`, `wthor.py`) only have to find the fields.

>>> game = Game(moves=(37, 43, 18), black="Ann", white="Bob")
>>> len(game.positions()), game.final == Position.parse("f5d6c3")
(4, True)
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import InitVar, dataclass, field
from typing import TypeVar

from othello_nn.errors import OthelloError, shorten
from othello_nn.game.position import Position, complete_moves
from othello_nn.game.rules import PASS

ENDINGS = ("", "resigned", "time", "agreed", "forfeit")
"""How a game was decided: on the board (or not said), by giving up, on time, by agreeing on a score, by failing to play
on (an illegal move, a program that crashed)."""
DECIDED = ("resigned", "time", "forfeit")
"""Endings that the board knows nothing of."""

ErrorHandler = Callable[["RecordError"], object]
ColouredMove = tuple[bool, int, "MoveNote | None"]
"""(by black, move, note): a move as formats give it that name the colour of each move."""

_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,9}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})")
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class RecordError(OthelloError):
    """A file of games or positions that cannot be read (or written). The message tells where.

    `line` (from 1) is set for text files and `byte` (from 0) for binary ones, where the place is known.
    """

    def __init__(self, message: str, line: int | None = None, byte: int | None = None) -> None:
        super().__init__(message)
        self.line = line
        self.byte = byte

    def prefixed(self, prefix: str) -> "RecordError":
        """The same error with the file or the game named in front."""
        return RecordError(f"{prefix}: {self}", line=self.line, byte=self.byte)


@dataclass(frozen=True, slots=True)
class MoveNote:
    """What a record says about one move. Numbers are kept to a millionth, so that they survive being written."""

    score_discs: float | None = None
    """The evaluation in discs, for the side that moved."""
    seconds: float | None = None
    """The time the move took."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "score_discs", _kept_number("score_discs", self.score_discs))
        object.__setattr__(self, "seconds", _kept_number("seconds", self.seconds))


@dataclass(frozen=True, slots=True)
class Game:
    """A played game. Text fields are single lines: runs of white space become one space."""

    start: Position = field(default_factory=Position.start)
    moves: tuple[int, ...] = ()
    """Squares 0..63 and PASS, from `start` on; every pass is there."""
    black: str = ""
    white: str = ""
    date: str = ""
    """As the file has it: the formats do not agree on one form."""
    place: str = ""
    event: str = ""
    comment: str = ""
    """About the whole game, such as the reason of a forfeit."""
    result: int | None = None
    """Black's margin in discs. For a finished game it is filled in from the board; None if unfinished and not said."""
    ending: str = ""
    """One of ENDINGS. Only a game that was given up, lost on time or forfeited may have another result than the board.

    GGF has no word for forfeit, which is written there as resigned.
    """
    notes: tuple[MoveNote | None, ...] = ()
    """Either empty or one entry a move."""
    black_rating: float | None = None
    white_rating: float | None = None
    black_clock: str = ""
    """Black's time control, as the file has it."""
    white_clock: str = ""
    variant: str = ""
    """The game type of GGF where it is not the plain `8`: `s8r18` is a synchro game from a random start."""
    theoretical_result: int | None = None
    """Black's margin with perfect play by both from the position with `theoretical_empties` empties (WTHOR)."""
    theoretical_empties: int | None = None
    passes_left_out: InitVar[bool] = False
    """True: `moves` may leave out passes, and they are put in."""
    final: Position = field(init=False, compare=False, repr=False)
    """The position after the last move."""

    def __post_init__(self, passes_left_out: bool) -> None:
        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        for name in ("black", "white", "date", "place", "event", "comment", "black_clock", "white_clock", "variant"):
            put(name, single_line(getattr(self, name)))
        moves, final = complete_moves(self.start, self.moves, passes_left_out=passes_left_out)
        put("notes", self._checked_notes(len(moves)))
        put("moves", moves)
        put("final", final)
        put("result", self._checked_result())
        for name in ("black_rating", "white_rating"):
            put(name, _kept_number(name, getattr(self, name)))

    def _checked_notes(self, move_count: int) -> tuple[MoveNote | None, ...]:
        notes = tuple(None if note == MoveNote() else note for note in self.notes)
        if len(notes) == len(self.moves) > move_count:
            notes = notes[:move_count]  # passes written after the end of the game were dropped, so are their notes
        if notes and len(notes) != move_count:
            raise RecordError(f"{len(notes)} notes for {move_count} moves (passes are moves too); give one for each")
        return notes if any(notes) else ()

    def _checked_result(self) -> int | None:
        if self.ending not in ENDINGS:
            raise RecordError(f"ending {shorten(self.ending)} is not one of {', '.join(map(repr, ENDINGS))}")
        if self.result is not None and not -64 <= self.result <= 64:
            raise RecordError(f"a result of {self.result} discs is impossible: margins go from -64 to 64")
        if self.ending in DECIDED or not self.final.is_over:
            return self.result
        margin = self.final.black_score()
        # Some writers count the discs and forget that empties go to the winner. That contradicts nothing.
        plain_margin = self.final.black_discs - self.final.white_discs
        if self.result not in (None, margin, plain_margin):
            raise RecordError(
                f"the result says {self.result:+d} for black, but the moves end the game with {margin:+d} "
                f"({self.final.black_discs} black, {self.final.white_discs} white)"
            )
        return margin

    def positions(self) -> list[Position]:
        """Every position of the game in order: the start, then one after each move (passes too)."""
        positions = [self.start]
        for move in self.moves:
            positions.append(positions[-1].play(move))
        return positions


def _kept_number(name: str, value: float | None) -> float | None:
    if value is None:
        return None
    if not -1e9 < value < 1e9:  # also refuses NaN, which no format can hold
        raise RecordError(f"{name} is {value}; give a number below a thousand million, or None")
    return round(float(value), 6) + 0.0  # + 0.0 makes -0.0 an ordinary zero


def single_line(text: str) -> str:
    return " ".join(text.split())


def parse_number(text: str) -> float | None:
    """A decimal number as records write it, or None: no exponents, no `inf`, no digits by the thousand."""
    text = text.strip()
    return float(text) if _NUMBER.fullmatch(text) else None


def format_number(value: float) -> str:
    """A number with at least two and at most six decimals, never with an exponent."""
    whole, decimals = f"{value:.6f}".split(".")
    return f"{whole}.{decimals[:2]}{decimals[2:].rstrip('0')}"


def colour_moves(coloured: Iterable[ColouredMove], black_to_move: bool) -> tuple[list[int], list[MoveNote | None]]:
    """Moves and notes from a record that names the colour of each move.

    Two moves of one colour in a row mean that the other side passed. The pass is only put in here; whether it was
    allowed is for `Game` to check.
    """
    moves: list[int] = []
    notes: list[MoveNote | None] = []
    for by_black, move, note in coloured:
        if by_black != black_to_move:
            moves.append(PASS)
            notes.append(None)
        moves.append(move)
        notes.append(note)
        black_to_move = not by_black
    return moves, notes


def collect(
    items: Iterable[_Item], read_one: Callable[[_Item], _Result], on_error: ErrorHandler | None
) -> Iterator[_Result]:
    """`read_one` of each item. With `on_error`, items that cannot be read are reported to it and left out."""
    for item in items:
        try:
            result = read_one(item)
        except RecordError as error:
            if on_error is None:
                raise
            on_error(error)
        else:
            yield result
