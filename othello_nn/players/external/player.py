"""Another program as a player: what GTP and NBoard engines have in common. Read ``process.py`` first.

The player keeps what its program has been told, and tells it only what is new. Whatever goes wrong (the program ends,
hangs, says what is no move, plays where it must not) is a ``PlayerFailure``; the program is then ended, and
``new_game`` starts it again. ``gtp.py`` and ``nboard.py`` know the words of the two protocols.
"""

from __future__ import annotations

import random
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from othello_nn.errors import OthelloError, shorten
from othello_nn.game.position import Position
from othello_nn.game.rules import PASS
from othello_nn.game.syntax import move_name, parse_move
from othello_nn.players.base import BasePlayer, Choice, Line, PlayerError, PlayerFailure, forced_choice
from othello_nn.players.external.process import EngineProcess, Stopped, split_command
from othello_nn.players.spec import PlayerSpec

TIMEOUT_SECONDS = 60.0
"""For an answer, beyond the time that the program was given to think."""
GREETING_SECONDS = 30.0
"""For the first words, which many programs say only after reading large files."""
WARM_UP_SECONDS = 180.0
"""For a program that compiles itself."""
GRACE_SECONDS = 2.0
"""What is waited beyond the end of a game clock, so that a late move is seen to be late and not missing."""
NAME_CHARACTERS = 100
"""What is kept of a program's name for itself."""
NEXT_PLIES, OPENING_PLIES = 2, 6
"""How far a position may be from the last one, or from the usual start, for the moves between to be looked for."""


class ExternalPlayer(BasePlayer, ABC):
    """A program behind a protocol. Subclasses say how it is greeted, told things and asked."""

    def __init__(self, spec: PlayerSpec, command: str, rng: random.Random):
        super().__init__(spec.text, rng, spec.epsilon or 0.0)
        self.spec, self.words = spec, split_command(command)
        self.engine_name = ""
        """What the program calls itself, once it has said so."""
        self._process: EngineProcess | None = None
        self._told: Line | None = None
        self._failure: PlayerFailure | None = None
        self._deadline = 0.0
        self._thinking, self._lock = False, threading.Lock()

    # --- what a protocol has to say ----------------------------------------------------------------------------------

    @abstractmethod
    def greet(self) -> None:
        """Find out whether the program speaks the protocol."""

    @abstractmethod
    def begin(self, start: Position, remaining: float | None) -> None:
        """Have a new game set up, from any position."""

    @abstractmethod
    def tell(self, move: int, by_black: bool) -> None:
        """Have a move played."""

    @abstractmethod
    def take_back(self, moves: tuple[int, ...]) -> bool:
        """Have the last moves taken back; False if that cannot be done, so that the game must be told anew."""

    @abstractmethod
    def ask(self, position: Position, remaining: float | None) -> tuple[str, Choice]:
        """The program's move as it was written, and what else it said about it (``Choice.move`` is not looked at)."""

    def prepare(self) -> None:
        """Have the program do what would slow down its first move, if there is a way to tell it so."""

    plays_its_move = False
    """Being asked for a move, the program also plays it on its own board."""

    # --- as a player -------------------------------------------------------------------------------------------------

    def choose(self, position: Position, remaining: float | None = None, line: Line | None = None) -> Choice:
        if self.epsilon and (legal := position.legal_moves) and self.rng.random() < self.epsilon:
            return Choice(self.rng.choice(legal))
        if forced := forced_choice(position):
            return forced
        if self._failure is not None:
            raise self._failure
        with self._busy():
            self._start()
            started = time.monotonic()
            self._deadline = started + self._patience(remaining)
            self._follow(line or self._line_to(position), remaining)
            text, said = self.ask(position, remaining)
            move = self._checked(text, position)
        if self.plays_its_move:
            assert self._told is not None
            self._told = Line(self._told.start, (*self._told.moves, move))
        pv = said.pv if said.pv[:1] == (move,) else (move,)
        return Choice(move, said.score, said.exact, said.depth, pv, said.nodes, time.monotonic() - started)

    def new_game(self, rng: random.Random | None = None) -> None:
        super().new_game(rng)
        self._failure = self._told = None  # the next game begins with `begin`, not by taking this one back
        with suppress(PlayerFailure), self._busy():
            self._start()  # a failure is told to whoever asks for a move: that is where a game can be lost

    def warm_up(self) -> None:
        """Start the program; if that does not work, it is the player that was written wrongly."""
        self._failure = None
        try:
            with self._busy():
                self._start()
                self._deadline = time.monotonic() + WARM_UP_SECONDS
                self.prepare()
        except PlayerFailure as failure:
            raise PlayerError(f"{self.name}: {failure}") from None

    def stop(self) -> None:
        """No protocol asks for a move and then for none, so who does not want to wait has to end the program."""
        with self._lock:
            if self._thinking and (process := self._process) is not None:
                process.interrupt()

    def close(self) -> None:
        self._end(EngineProcess.close)

    # --- talking to the program --------------------------------------------------------------------------------------

    @property
    def process(self) -> EngineProcess:
        assert self._process is not None
        return self._process

    def read(self, waiting_for: str) -> str:
        """The program's next line, within the time that there is for the whole answer."""
        return self.process.read(self._deadline, waiting_for)

    def _start(self) -> None:
        if self._process is not None:
            return
        self._process, self._told = EngineProcess(self.words), None
        # However this player comes to its end, forgotten or at the end of Python, its program must not outlive it.
        self._finalizer = weakref.finalize(self, self._process.kill)
        self._deadline = time.monotonic() + (self.spec.timeout or GREETING_SECONDS)
        self.greet()
        self._process.forget()  # the greeting has gone well; what is to be found out later lies in the game

    @contextmanager
    def _busy(self) -> Iterator[None]:
        """While the program is talked to: it can be stopped, and if anything goes wrong it is ended."""
        with self._lock:
            self._thinking = True
        try:
            yield
            if self._process is not None and self._process.interrupted:
                self._end(EngineProcess.kill)  # it was stopped when it had already answered, and would answer no more
        except BaseException as error:
            # Who stops a player has not found it failing: it may be asked again.
            if isinstance(error, PlayerFailure) and not isinstance(error, Stopped):
                self._failure = error
            self._end(EngineProcess.kill)
            raise
        finally:
            with self._lock:
                self._thinking = False

    def _end(self, how: Callable[[EngineProcess], None]) -> None:
        process, self._process, self._told = self._process, None, None
        if process is not None:
            how(process)
            self._finalizer.detach()

    def _patience(self, remaining: float | None) -> float:
        """Seconds after which a program that has not moved counts as hung."""
        if remaining is not None:
            left = max(remaining, 0.0) + GRACE_SECONDS
            return left if self.spec.timeout is None else min(left, self.spec.timeout)
        return self.spec.timeout or TIMEOUT_SECONDS + (self.spec.seconds or 0.0)

    def _follow(self, line: Line, remaining: float | None) -> None:
        """Bring the program to the end of ``line`` by the shortest way."""
        known = self._told
        same = 0
        if known is not None and known.start == line.start:
            same = next(
                (i for i, (a, b) in enumerate(zip(known.moves, line.moves, strict=False)) if a != b),
                min(len(known.moves), len(line.moves)),
            )
            if known.moves[same:] and not self.take_back(known.moves[same:]):
                known = None
        else:
            known = None
        if known is None:
            same = 0
            self.begin(line.start, remaining)
        for number, move in enumerate(line.moves[same:], start=same):
            self.tell(move, line.start.black_to_move == (number % 2 == 0))
        self._told = line

    def _line_to(self, position: Position) -> Line:
        """Moves that lead to a position of which nothing else is known; if none are found, it is a start itself."""
        if self._told is not None:
            start, moves = self._told.start, self._told.moves
            behind = [start]
            for move in moves:
                behind.append(behind[-1].play(move))
            if position in behind:
                return Line(start, moves[: behind.index(position)])
            if (further := _moves_between(behind[-1], position, NEXT_PLIES)) is not None:
                return Line(start, moves + further)
        start = Position.start()
        near = start.empties - position.empties <= OPENING_PLIES
        opening = _moves_between(start, position, OPENING_PLIES) if near else None
        return Line(position, ()) if opening is None else Line(start, opening)

    def _checked(self, text: str, position: Position) -> int:
        try:
            move = parse_move(text)
        except OthelloError:
            raise self.process.failure(f"answered {shorten(text)}, which is no move") from None
        if move not in position.legal_moves:
            legal = ", ".join(move_name(square) for square in position.legal_moves)
            raise self.process.failure(f"answered {shorten(text)}, which is not legal; legal moves: {legal}")
        return move


def _moves_between(start: Position, end: Position, plies: int) -> tuple[int, ...] | None:
    """The moves from one position to another at most so many plies later, or None. A pass and its reply are no plies:
    a side that passes several times is not asked in between."""
    if start == end:
        return ()
    if start.must_pass:
        further = _moves_between(start.play(PASS), end, plies + 1)
        return None if further is None else (PASS, *further)
    if plies == 0 or start.empties <= end.empties or end.empty_mask & ~start.empty_mask:
        return None
    for move in start.legal_moves:
        further = None if end.empty_mask >> move & 1 else _moves_between(start.play(move), end, plies - 1)
        if further is not None:
            return (move, *further)
    return None
