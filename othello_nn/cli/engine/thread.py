"""A player for other programs to drive: what both protocols need.

Read ``players/base.py`` first, then ``gtp.py`` and ``nboard.py`` for the words.

The player lives in a thread of its own. It is made and compiled there while the first commands are already being
answered, and thinks there, so that it can be told to stop.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from othello_nn.game.record import Game
from othello_nn.players.base import Choice, Line, Player, PlayerFailure
from othello_nn.players.catalog import find_player, make_player
from othello_nn.players.spec import PlayerSpec
from othello_nn.program import PLAY, note

ENGINE_SECONDS = 1.0
"""For a move of a player that plays by time, where nobody has set a limit."""
# How often a player that is being stopped is told so, and how long that is waited for: one that still compiles cannot
# be stopped, but will find that nobody wants its answer any more.
STOP_SECONDS, STOPPING_SECONDS = 0.01, 0.2
CLOSE_SECONDS = 1.0
LAST_SECONDS = 0.4
"""For everything that is left to think about when nobody may be waiting for it any more."""
# Not every system lets Ctrl-C end a wait that has no end of its own.
WAKE_SECONDS = 0.5


class Task:
    """Something for the player to do."""

    def __init__(self, work: Callable[[Player, Task], None]):
        self.work = work
        self.error: Exception | None = None
        self.cancelled, self.done = threading.Event(), threading.Event()


class PlayerThread:
    """A player in a thread of its own, and the limits that another program has set for it.

    ``seconds`` and ``depth`` only count for a player that would otherwise play by time: what its specification says
    goes before them, and a player that looks one ply ahead is meant to.
    """

    def __init__(self, spec: str | PlayerSpec):
        self.spec, entry = find_player(spec)
        self.name = f"othello_nn {self.spec.text}"
        self.takes_limits = not self.spec.is_limited and entry.default.startswith("seconds")
        self.seconds: float | None = None
        self.depth: int | None = None
        self.listener: Callable[[Any], None] | None = None
        """Told of each iteration of a search, in the player's thread."""
        self.hurried = False
        """The player was told to end what it still thinks about."""
        self._player: Player | None = None
        self._made_for: PlayerSpec | None = None
        self._fresh = False
        self._last: Task | None = None
        self._thinking = False
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._warming = Task(_warm_up)
        self._tasks.put(self._warming)
        self._thread = threading.Thread(target=self._work, name="thinker", daemon=True)
        self._thread.start()

    # --- for the protocols -------------------------------------------------------------------------------------------

    def new_game(self) -> None:
        """Have the player forget what it knows before it thinks again."""
        self._fresh = True

    def start(self, work: Callable[[Player, Task], None]) -> Task:
        """Begin to think about something else than before."""
        self.cancel()
        self._last = Task(work)
        self._tasks.put(self._last)
        return self._last

    def choose(self, game: Game, remaining: float | None) -> Choice:
        """Think about the last position of a game, and wait for the result."""
        found: list[Choice] = []
        _wait(self.start(lambda player, _: found.append(choose(player, game, remaining))))
        return found[0]

    def wait_until_warm(self) -> None:
        """Wait until the player is made and compiled."""
        _wait(self._warming)

    def cancel(self) -> None:
        """End what is being thought about. It must not be heard of again; for this its work looks at ``cancelled``."""
        if self._last is None or self._last.done.is_set():
            return
        self._last.cancelled.set()
        until = time.monotonic() + STOPPING_SECONDS
        while not self._last.done.is_set() and time.monotonic() < until:
            if self._player is not None:
                self._player.stop()
            self._last.done.wait(STOP_SECONDS)

    def finish(self) -> None:
        """Wait for what is being thought about. What goes wrong with it has been said where it was asked for."""
        if self._last is not None:
            with suppress(Exception):
                _wait(self._last)

    def hurry(self) -> None:
        """Have what is still asked thought about for ``LAST_SECONDS`` in all; returns when the thread has ended."""
        left, now = LAST_SECONDS, time.monotonic()
        while self._thread.is_alive():
            self._thread.join(STOP_SECONDS)
            before, now = now, time.monotonic()
            left -= now - before if self._thinking else 0
            self.hurried = left <= 0
            if left <= 0 and self._player is not None:
                self._player.stop()

    def close(self) -> bool:
        """End the thread; False if it is still in the compiler."""
        self.cancel()
        self._tasks.put(None)
        self._thread.join(CLOSE_SECONDS)
        return not self._thread.is_alive()

    # --- in the player's thread --------------------------------------------------------------------------------------

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                if not task.cancelled.is_set():
                    player = self._ready_player(task)
                    self._thinking = task is not self._warming
                    task.work(player, task)
            except Exception as error:
                # Whoever waits for the task raises it. A player that has failed begins again.
                task.error = error
                if task is self._warming:
                    note(PLAY, error)
                self._fresh |= isinstance(error, PlayerFailure)
            finally:
                self._thinking = False
                task.done.set()
        if self._player is not None:
            self._player.close()

    def _ready_player(self, task: Task) -> Player:
        spec = self.spec
        if self.takes_limits and (self.depth is not None or self.seconds is not None):
            spec = replace(spec, depth=self.depth, seconds=self.seconds)
        if self._player is None or spec != self._made_for:
            if self._player is not None:
                self._player.close()
            self._player, self._made_for = make_player(spec, seconds=ENGINE_SECONDS), spec
        player = self._player
        if self._fresh:
            self._fresh = False
            player.new_game()
        if hasattr(player, "on_iteration"):

            def heard(result: Any) -> bool:
                if self.listener is not None and not task.cancelled.is_set():
                    self.listener(result)
                return not task.cancelled.is_set()

            player.on_iteration = heard
        return player


def _wait(task: Task) -> None:
    """Wait for a task, and raise what went wrong in it."""
    while not task.done.wait(WAKE_SECONDS):
        pass
    if task.error is not None:
        raise task.error


def _warm_up(player: Player, _: Task) -> None:
    player.warm_up()


def choose(player: Player, game: Game, remaining: float | None = None) -> Choice:
    """What a player does at the end of a game so far."""
    return player.choose(game.final, remaining, Line(game.start, game.moves))


def with_move(game: Game, move: int) -> Game:
    """The game with one more move; if the side to move has to pass before it, with the pass too."""
    return Game(game.start, (*game.moves, move), passes_left_out=True)
