"""The game of one tab: its moves, the ply that is looked at, and everything there was before, to go back to.

Positions come from ``Position``; what a game is called when it has ended comes from the terminal's ``GameInPlay``.
Nothing here waits or speaks.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from othello_nn.cli.terminal.game import COLOURS, TIME_LOSS_DISCS, GameInPlay
from othello_nn.errors import IllegalMoveError
from othello_nn.game.position import Position, complete_moves
from othello_nn.game.record import Game
from othello_nn.game.rules import PASS

MOST_REMEMBERED = 2000
"""Changes that can be undone: more than anybody makes in a sitting."""


@dataclass(frozen=True)
class Course:
    """A game as far as it went, and which ply is shown."""

    start: Position = field(default_factory=Position.start)
    moves: tuple[int, ...] = ()
    ply: int = 0
    resigned: bool | None = None
    """The side that has given up, True for black."""
    late: bool | None = None
    """The side that has run out of time."""

    @property
    def ended(self) -> bool:
        return self.resigned is not None or self.late is not None


class BrowserGame:
    """A course of moves that can be changed, looked through, and put back."""

    def __init__(self, course: Course | None = None):
        self._past: list[Course] = []
        self._future: list[Course] = []
        self._show(course or Course())

    def _show(self, course: Course) -> None:
        self.course = course
        self.positions = [course.start]
        for move in course.moves:
            self.positions.append(self.positions[-1].play(move))

    # --- what is on the board ----------------------------------------------------------------------------------------

    @property
    def position(self) -> Position:
        return self.positions[self.course.ply]

    @property
    def final(self) -> Position:
        return self.positions[-1]

    @property
    def is_last(self) -> bool:
        """What is shown is where the game stands."""
        return self.course.ply == len(self.course.moves)

    @property
    def is_over(self) -> bool:
        """The game has ended, whatever is being looked at."""
        return self.course.ended or self.final.is_over

    @property
    def can_undo(self) -> bool:
        return bool(self._past)

    @property
    def can_redo(self) -> bool:
        return bool(self._future)

    @property
    def margin(self) -> int | None:
        """Black's margin at the end of the game; None before."""
        loser = self.course.late if self.course.late is not None else self.course.resigned
        if loser is not None:
            return -TIME_LOSS_DISCS if loser else TIME_LOSS_DISCS
        return self.final.black_score() if self.final.is_over else None

    @property
    def result(self) -> str:
        """How it has ended, in a few words; nothing before."""
        if not self.is_over:
            return ""
        if (side := self.course.resigned) is not None:
            return f"{COLOURS[side]} resigns: {COLOURS[not side]} wins"
        game = GameInPlay(self.course.start, moves=self.course.moves)
        game.late = self.course.late
        text = game.result()
        return text[0].upper() + text[1:]

    def record(self, black: str, white: str) -> Game:
        """The game as files hold it."""
        course = self.course
        game = GameInPlay(course.start, moves=course.moves)
        game.late = course.late
        record = game.record(black, white)
        if course.resigned is None:
            return record
        return replace(record, result=self.margin, ending="resigned", passes_left_out=False)

    # --- changing it -------------------------------------------------------------------------------------------------

    def change(self, course: Course) -> None:
        """Go on with another course; the one before can be had back."""
        self._past = [*self._past[-MOST_REMEMBERED + 1 :], self.course]
        self._future = []
        self._show(course)

    def play(self, move: str | int) -> None:
        """A move at the ply that is shown. What was played there before gives way; passes play themselves."""
        course = self.course
        if course.ended and self.is_last:
            raise IllegalMoveError("the game is over")
        moves, position = complete_moves(course.start, (*course.moves[: course.ply], move))
        if position.must_pass:
            moves = (*moves, PASS)
        self.change(Course(course.start, moves, len(moves)))

    def end(self, *, resigned: bool | None = None, late: bool | None = None) -> None:
        """A side has given up or run out of time."""
        course = self.course
        self.change(Course(course.start, course.moves, len(course.moves), resigned, late))

    def goto(self, ply: int) -> None:
        """Look at another ply: nothing is changed."""
        course = self.course
        ply = min(ply, len(course.moves))
        self.course = replace(course, ply=ply)

    def undo(self, enough: Callable[[], bool] = lambda: True) -> bool:
        """Back to the last course that is ``enough``, such as one's own turn; false, and nothing done, without one."""
        return self._travel(self._past, self._future, enough)

    def redo(self, enough: Callable[[], bool] = lambda: True) -> bool:
        return self._travel(self._future, self._past, enough)

    def _travel(self, source: list[Course], target: list[Course], enough: Callable[[], bool]) -> bool:
        before = self.course, list(source), list(target)
        while source:
            target.append(self.course)
            self._show(source.pop())
            if enough():
                return True
        self._show(before[0])
        source[:], target[:] = before[1:]
        return False


class Clocks:
    """Time for the whole game, for each side. Without any, nothing ever runs out."""

    def __init__(self, seconds: float = 0.0, left: dict[bool, float] | None = None, now=time.monotonic):
        self.seconds, self._now = seconds, now
        self._left = left or {True: seconds, False: seconds}
        self._side: bool | None = None
        self._since = 0.0

    def left(self, side: bool) -> float | None:
        """What a side's clock shows; None without clocks."""
        if not self.seconds:
            return None
        running = self._now() - self._since if self._side == side else 0.0
        return max(0.0, self._left[side] - running)

    @property
    def running(self) -> bool | None:
        return self._side

    def run(self, side: bool | None) -> None:
        """From now on this side's time runs out; None: nobody's."""
        if not self.seconds or side == self._side:
            return
        if self._side is not None:
            self._left[self._side] = self.left(self._side) or 0.0
        self._side, self._since = side, self._now()
