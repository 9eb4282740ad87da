"""What a tab has thought about for it: tasks for the pool, begun when they are wanted and ended when they are not.

Each kind of thought has a key that says what it is about. ``plan`` compares the keys with what the session wants now:
a thought that is still wanted goes on, another one is cancelled and the right one begun.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from othello_nn.cli.web.judging import judge_all
from othello_nn.cli.web.news import choice_news, values_news
from othello_nn.cli.web.pool import Pool, Task, Turn, Work
from othello_nn.cli.web.values import TABLE_MB, Values, mind_spec, sharpen
from othello_nn.errors import OthelloError
from othello_nn.game.notation import move_name
from othello_nn.game.position import Position
from othello_nn.game.rules import PASS
from othello_nn.players.base import Choice, Line
from othello_nn.players.catalog import best_player_name

if TYPE_CHECKING:
    from othello_nn.cli.web.session import Session

OPENING, MOVE, HINT, LOOK, VALUES, JUDGE, DEEP_VALUES = range(7)
"""Kinds of thoughts by their urgency."""
HINT_SECONDS = 1.0
OPENING_PLIES, BALANCED_DISCS = 8, 3.0
SHOWN_PATTERNS = 12


class Thoughts:
    """Tasks of one session."""

    def __init__(self, pool: Pool, session: Session):
        self.pool, self.session = pool, session
        self.progress: dict[str, tuple[int, int]] = {}
        """For each mind: moves of the game that have been judged, of how many."""
        self._tasks: dict[int, tuple[Any, Task]] = {}

    def close(self) -> None:
        self.pool.drop(self)
        self._tasks.clear()

    @property
    def is_judging(self) -> bool:
        return JUDGE in self._tasks

    def plan(self) -> None:
        """Think about what the session wants, and about nothing else."""
        session, position = self.session, self.session.game.position
        live = not position.is_over
        self._want(MOVE, (position, session.seats[position.black_to_move]) if session.waits_for_computer else None)
        self._want(LOOK, (session.minds[0], position) if session.minds and session.shows_look and live else None)
        self._want(VALUES, (session.minds, position) if session.minds and session.shows_values and live else None)
        course = session.game.course
        self._want(JUDGE, (session.minds, course.start, course.moves) if session.minds and session.analyzes else None)
        if HINT in self._tasks and self._tasks[HINT][0] != position:
            self._end(HINT)

    def _want(self, kind: int, key: Any) -> None:
        if kind in self._tasks and self._tasks[kind][0] == key:
            return
        self._end(kind)
        if key is not None:
            begin = {MOVE: self._move, LOOK: self._look, VALUES: self._values, JUDGE: self._judge}[kind]
            self._begin(kind, key, begin(key))

    def _begin(self, kind: int, key: Any, work: Work) -> None:
        def failed(error: Exception) -> None:
            self.session.later(self._failed, kind, key, error)

        def whole(turn: Turn) -> Iterator[None]:
            yield from work(turn)
            self.session.later(self._finished, kind, key)

        def preparing(spec: str) -> None:
            self.session.later(self.session.tell, "preparing", {"player": spec.partition(":")[0]})

        task = self.pool.submit(self, kind, whole, failed, preparing, divisible=kind not in (OPENING, MOVE, HINT))
        self._tasks[kind] = key, task

    def _end(self, kind: int) -> None:
        if kind in self._tasks:
            self.pool.cancel(self._tasks.pop(kind)[1])

    def _is_wanted(self, kind: int, key: Any) -> bool:
        return kind in self._tasks and self._tasks[kind][0] == key

    def _failed(self, kind: int, key: Any, error: Exception) -> None:
        if not self._is_wanted(kind, key):
            return
        del self._tasks[kind]
        if kind == MOVE:
            self.session.paused = True  # nobody moves: the person can, or choose another player
        if kind == JUDGE:
            self.session.analyzes = False
        reason = " ".join(str(error).split()) if isinstance(error, OthelloError) else repr(error)
        self.session.note(reason, error=True)
        self.session.changed()

    def _finished(self, kind: int, key: Any) -> None:
        if kind == JUDGE and self._is_wanted(kind, key):
            del self._tasks[JUDGE]
            self.session.all_judged()

    def _answer(self, kind: int, key: Any, call: Callable[..., None]) -> Callable[..., None]:
        """``call`` in the session's thread, with what a task has found, as long as somebody wants it."""

        def checked(*found: Any) -> None:
            if self._is_wanted(kind, key):
                call(*found)

        return lambda *found: self.session.later(checked, *found)

    # --- the kinds ---------------------------------------------------------------------------------------------------

    def _move(self, key: Any) -> Work:
        position, seat = key
        course, clocks = self.session.game.course, self.session.clocks
        line = Line(course.start, course.moves)
        answer = self._answer(MOVE, key, lambda choice: self.session.reply(position, choice))
        return _choose(seat.spec, position, line, lambda: clocks.left(position.black_to_move), answer)

    def hint(self, position: Position) -> None:
        """Find a good move for a person."""
        if position.is_over:
            raise OthelloError("the game is over: there is no move to find")
        mind = self.session.minds[0] if self.session.minds else best_player_name()

        def tell(choice: Choice) -> None:
            self._tasks.pop(HINT, None)
            if choice.move is not None and self.session.game.position == position:
                self.session.tell("hint", {"position": position.to_text()} | choice_news(choice))

        self._end(HINT)
        course = self.session.game.course
        line = Line(course.start, course.moves[: course.ply])
        answer = self._answer(HINT, position, tell)
        spec = f"{mind}:seconds={HINT_SECONDS:g},table={TABLE_MB}"
        self._begin(HINT, position, _choose(spec, position, line, lambda: None, answer))

    def _values(self, key: Any) -> Work:
        minds, position = key

        def tell(mind: str, values: Values) -> None:
            self.session.tell("values", {"mind": mind} | values_news(values), f" {mind}")

        return sharpen(minds, position, self._answer(VALUES, key, tell), DEEP_VALUES)

    def _judge(self, key: Any) -> Work:
        minds, _, played = key
        session = self.session
        moves = [
            (position, move) for position, move in zip(session.game.positions, played, strict=False) if move != PASS
        ]
        self.progress = dict.fromkeys(minds, (0, 1))
        known = {mind: {item: session.known(mind, *item) for item in moves} for mind in minds}

        def work(turn: Turn) -> Iterator[None]:
            for mind in minds:
                answer = self._answer(JUDGE, key, lambda *found, mind=mind: session.judged(mind, *found))
                yield from judge_all(mind, moves, known[mind], answer)(turn)

        return work

    def _look(self, key: Any) -> Work:
        mind, position = key

        def work(turn: Turn) -> Iterator[None]:
            from othello_nn.cli.web.look import look_at

            player = yield from turn.lend(mind_spec(mind))
            try:
                answer(look_at(player.engines[position.black_to_move], position))
            finally:
                turn.give_back()

        def tell(found: Any) -> None:
            patterns = [
                {"squares": [move_name(square) for square in squares], "discs": round(part, 2) + 0.0}
                for squares, part in found.patterns[:SHOWN_PATTERNS]
            ]
            squares = [round(value, 3) + 0.0 for value in found.squares]
            self.session.tell(
                "look",
                {
                    "position": position.to_text(), "mind": mind, "kind": found.kind,
                    "score": round(found.score, 2) + 0.0, "squares": squares, "patterns": patterns,
                },
            )  # fmt: skip

        answer = self._answer(LOOK, key, tell)
        return work

    def random_opening(self) -> None:
        """Find a balanced opening of random moves, and begin there."""
        seed = random.SystemRandom().randrange(2**32)

        def work(turn: Turn) -> Iterator[None]:
            from othello_nn.arena.openings import Balanced, random_openings

            [opening] = random_openings(OPENING_PLIES, 1, seed, Balanced(BALANCED_DISCS))
            answer(opening.moves)
            yield

        answer = self._answer(OPENING, seed, self.session.begin_random)
        self._end(OPENING)
        self._begin(OPENING, seed, work)


def _choose(
    spec: str,
    position: Position,
    line: Line,
    remaining: Callable[[], float | None],
    answer: Callable[[Choice], None],
) -> Work:
    def work(turn: Turn) -> Iterator[None]:
        player = yield from turn.lend(spec)
        try:
            if hasattr(player, "on_iteration"):
                player.on_iteration = lambda _: not turn.cancelled
            answer(player.choose(position, remaining(), line))
        finally:
            turn.give_back()

    return work
