"""A game that is being played: moves, clocks, taking back, and the record of it. Nothing here prints or waits."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date

from othello_nn.game.notation import format_transcript
from othello_nn.game.position import Position
from othello_nn.game.record import Game, MoveNote
from othello_nn.game.rules import PASS
from othello_nn.game.syntax import COLOUR_NAMES
from othello_nn.players.base import Line

COLOURS = {black: name.capitalize() for black, name in COLOUR_NAMES.items()}
TIME_LOSS_DISCS = 64
"""A game lost on time or given up counts as lost by every disc, as in a match."""
Turns = list[tuple[int, MoveNote | None]]


class GameInPlay:
    """From ``start`` to now. ``clock_seconds`` is each side's time for the whole game, None without clocks."""

    def __init__(self, start: Position, clock_seconds: float | None = None, moves: tuple[int, ...] = ()):
        self.start, self.clock_seconds = start, clock_seconds
        self.remaining = {True: clock_seconds, False: clock_seconds}
        self.late: bool | None = None
        """The side that has run out of time, True for black."""
        self.resigned: bool | None = None
        """The side that has given up."""
        self.moves: list[int] = []
        self.notes: list[MoveNote | None] = []
        self.positions = [start]
        self._taken_back: list[Turns] = []
        """What ``redo`` brings again, the next last: each entry is what one ``take_back`` took."""
        for move in moves:
            self.play(move)

    @property
    def position(self) -> Position:
        return self.positions[-1]

    @property
    def black_to_move(self) -> bool:
        return self.position.black_to_move

    @property
    def is_over(self) -> bool:
        return self.loser is not None or self.position.is_over

    @property
    def loser(self) -> bool | None:
        """The side that has lost by the clock or by its own word, whatever is on the board."""
        return self.resigned if self.late is None else self.late

    @property
    def line(self) -> Line:
        return Line(self.start, tuple(self.moves))

    @property
    def last_turn(self) -> int | None:
        """The index of the last move that was no pass."""
        return next((i for i in reversed(range(len(self.moves))) if self.moves[i] != PASS), None)

    @property
    def last_flips(self) -> int:
        """Mask of the discs that the last move turned over."""
        if (turn := self.last_turn) is None:
            return 0
        return self.positions[turn].opponent & ~self.positions[turn + 1].mover

    @property
    def number(self) -> int:
        """The number of the move to come; passes are not counted."""
        return 1 + sum(move != PASS for move in self.moves)

    @property
    def transcript(self) -> str:
        """The moves in one word; behind the start, where that is not the usual one."""
        moves = format_transcript(self.moves)
        if self.start == Position.start():
            return moves or "no moves yet"
        return f"{self.start.to_text()} {moves}".rstrip()

    def play(self, move: str | int, note: MoveNote | None = None) -> None:
        """A move of the side to move, or its pass; an illegal one changes nothing and is an error that says why."""
        self._add(move, note)
        self._taken_back.clear()

    def _add(self, move: str | int, note: MoveNote | None) -> None:
        after = self.position.play(move)
        # The new disc is where there was none before; a pass adds none.
        added = self.position.empty_mask & ~after.empty_mask
        self.moves.append(added.bit_length() - 1 if added else PASS)
        self.notes.append(note)
        self.positions.append(after)

    def take_back(self, may: Callable[[bool], bool]) -> bool:
        """Back to the last turn of a side that ``may`` take back; false if it has had none. Clocks are not put back."""
        for turn in reversed(range(len(self.moves))):
            if self.moves[turn] != PASS and may(self.positions[turn].black_to_move):
                self._taken_back.append(list(zip(self.moves[turn:], self.notes[turn:], strict=True)))
                del self.moves[turn:], self.notes[turn:], self.positions[turn + 1 :]
                return True
        return False

    def redo(self) -> bool:
        """Play again what was taken back last; false if there is nothing, or another move has been played since."""
        if not self._taken_back:
            return False
        for move, note in self._taken_back.pop():
            self._add(move, note)
        return True

    def spend(self, seconds: float) -> None:
        """Take time off the clock of the side to move; with none left it has lost."""
        side = self.black_to_move
        left = self.remaining[side]
        if left is None or self.is_over:
            return
        self.remaining[side] = max(0.0, left - seconds)
        if seconds > left:
            self.late = side

    def margin(self) -> int:
        """Black's margin in discs at the end of the game."""
        if self.loser is not None:
            return -TIME_LOSS_DISCS if self.loser else TIME_LOSS_DISCS
        return self.position.black_score()

    def result(self) -> str:
        """How the game has ended, in a few words."""
        if self.loser is not None:
            how = "has resigned" if self.late is None else "has run out of time"
            return f"{COLOURS[self.loser]} {how}: {COLOURS[not self.loser]} wins"
        margin = self.margin()
        if not margin:
            return "a draw"
        empties = self.position.empties
        counted = f" ({empties} empty square{'s' * (empties > 1)} counted for the winner)" if empties else ""
        return f"{COLOURS[margin > 0]} wins, {32 + abs(margin) // 2} to {32 - abs(margin) // 2}{counted}"

    def record(self, black: str, white: str) -> Game:
        """The game as files hold it, as far as it has been played."""
        decided = self.loser is not None
        clock = "" if self.clock_seconds is None else clock_text(self.clock_seconds)
        return Game(
            start=self.start,
            moves=tuple(self.moves),
            notes=tuple(self.notes),
            black=black,
            white=white,
            result=self.margin() if decided else None,
            ending="" if not decided else "resigned" if self.late is None else "time",
            date=date.today().isoformat(),
            place="othello_nn",
            black_clock=clock,
            white_clock=clock,
        )


def clock_text(seconds: float) -> str:
    """Minutes and seconds, as GGF writes a time control; a second that has begun counts."""
    return "{:02d}:{:02d}".format(*divmod(math.ceil(seconds), 60))
