"""Who may think when: a few threads, as many as there are cores, shared fairly by all tabs.

A tab (an *owner*) has at most one search running. What it wants are tasks, the most urgent first: a move of the
computer before the values on the squares, those before the analysis of a whole game. Owners take turns: a task that can
be divided gives up its thread after a slice if somebody else waits, and goes on later where it was. Players, with their
memory, are lent out for a stretch of work and shared by all: there are never many more of them than threads.

A task is a generator. It does a stretch of work, asking now and then whether its turn is ``over``, and yields.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterator
from contextlib import suppress
from typing import Any

from othello_nn.players.base import Player, PlayerError
from othello_nn.players.catalog import make_player
from othello_nn.players.spec import parse_spec

SLICE_SECONDS = 0.2
"""A turn, where somebody waits. Searches that it cuts short begin again from what their table still holds."""
MOST_SLICE_SECONDS = 5.0
WATCH_SECONDS = 0.02
MOST_IDLE = 8
"""Players kept for later. Each has a table of up to 64 MB."""
THINKING_NICENESS = 5
SEARCH_SECONDS = 1.0
"""Time for a move of a player whose specification says nothing."""


class Turn:
    """What a task sees of the pool."""

    def __init__(self, task: Task, pool: Pool):
        self._task, self._pool = task, pool
        self.begun = 0.0
        self.slice = SLICE_SECONDS
        self.player: Any = None
        self._spec = ""

    def over(self) -> bool:
        """Time to yield: the task is cancelled, its owner wants something more urgent, or others have waited long."""
        if self._task.cancelled or self._pool.has_more_urgent(self._task):
            return True
        expired = self._task.divisible and time.monotonic() - self.begun > self.slice
        return expired and self._pool.is_awaited

    @property
    def cancelled(self) -> bool:
        return self._task.cancelled

    def relax(self, urgency: int) -> None:
        """What is left to do is less urgent."""
        self._task.urgency = urgency

    def lend(self, spec: str) -> Generator[None, None, Any]:
        """``player = yield from turn.lend(spec)``, then ``give_back``: a player for a stretch of work.

        One that has to be made and compiled is waited for, and meanwhile the turn may end. It is told to stop when the
        turn is over.
        """
        bench, task = self._pool.bench, self._task
        waited = False
        while (player := bench.take(spec, task.owner)) is None:
            if not waited:
                waited = True
                task.preparing(spec)
            yield
        if waited:
            task.preparing("")
        self.player, self._spec = player, spec
        return player

    def give_back(self) -> None:
        if self.player is not None:
            player, self.player = self.player, None
            self._pool.bench.give_back(self._spec, self._task.owner, player)


Work = Callable[[Turn], Iterator[None]]


class Task:
    """Work for an owner. In a worker's thread ``failed`` is told what went wrong, and ``preparing`` which player has to
    be waited for, and when that is over (nothing)."""

    def __init__(
        self,
        owner: Hashable,
        urgency: int,
        work: Work,
        failed: Callable[[Exception], None],
        preparing: Callable[[str], None],
        divisible: bool,
    ):
        self.owner, self.urgency, self.work = owner, urgency, work
        self.failed, self.preparing, self.divisible = failed, preparing, divisible
        self.cancelled = False
        self.steps: Iterator[None] | None = None
        self.turn: Turn | None = None


class Bench:
    """Players that nobody uses at the moment. New ones are made in threads of their own, since that may take long."""

    def __init__(self, make: Callable[[str], Player] | None = None):
        self._make = make or make_warm
        self._lock = threading.Condition()
        self._idle: list[tuple[str, Hashable, Player]] = []  # the last used at the end
        self._making: set[str] = set()
        self._failed: dict[str, Exception] = {}

    def take(self, spec: str, owner: Hashable) -> Player | None:
        """The one that the owner had before, or any; None if one is still being made, after a moment's wait."""
        with self._lock:
            if spec in self._failed:
                raise self._failed.pop(spec)
            fitting = [i for i, (name, _, _) in enumerate(self._idle) if name == spec]
            if fitting:
                own = [i for i in fitting if self._idle[i][1] == owner]
                return self._idle.pop((own or fitting)[-1])[2]
            self._begin(spec)
            self._lock.wait(WATCH_SECONDS)
        return None

    def prepare(self, spec: str, then: Callable[[], None]) -> None:
        """Have one made, since it will be wanted soon; ``then`` is called when it is there, or cannot be."""
        with self._lock:
            self._begin(spec, then)

    def _begin(self, spec: str, then: Callable[[], None] = lambda: None) -> None:
        if spec not in self._making:
            self._making.add(spec)
            threading.Thread(target=self._prepare, args=(spec, then), name="making", daemon=True).start()

    def _prepare(self, spec: str, then: Callable[[], None]) -> None:
        try:
            player = self._make(spec)
        except Exception as error:
            with self._lock:
                self._making.discard(spec)
                self._failed[spec] = error
                self._lock.notify_all()
        else:
            with self._lock:
                self._making.discard(spec)
            self.give_back(spec, None, player)
        then()

    def give_back(self, spec: str, owner: Hashable, player: Player) -> None:
        with self._lock:
            self._idle.append((spec, owner, player))
            old = self._idle[:-MOST_IDLE]
            del self._idle[:-MOST_IDLE]
            self._lock.notify_all()
        for _, _, idle in old:
            idle.close()

    def close(self) -> None:
        with self._lock:
            old, self._idle = self._idle, []
        for _, _, idle in old:
            idle.close()

    def __len__(self) -> int:
        return len(self._idle)


def make_warm(spec: str) -> Player:
    """A player ready to think. One that cannot look as far as asked, since its net judges positions after its own move
    only, looks one ply ahead."""
    try:
        player = make_player(spec, random.Random(), seconds=SEARCH_SECONDS)
    except PlayerError as error:
        try:
            player = make_player(f"{parse_spec(spec).name}:depth=1", random.Random())
        except PlayerError:
            raise error from None
    player.warm_up()
    return player


def step_back() -> None:
    """This thread lets others go first: a click is answered while it thinks. Only Linux has that for threads."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), THINKING_NICENESS)


class Pool:
    """Threads that do what owners want."""

    def __init__(self, threads: int, bench: Bench | None = None):
        self.bench = Bench() if bench is None else bench
        self._lock = threading.Condition()
        self._tasks: dict[Hashable, list[Task]] = {}
        self._waiting: deque[Hashable] = deque()  # owners with work that no thread does
        self._running: dict[Hashable, Task] = {}
        self._closed = False
        targets = [*[self._work] * threads, self._watch]
        self._threads = [threading.Thread(target=target, name="pool", daemon=True) for target in targets]
        for thread in self._threads:
            thread.start()

    # --- for owners --------------------------------------------------------------------------------------------------

    def submit(
        self,
        owner: Hashable,
        urgency: int,
        work: Work,
        failed: Callable[[Exception], None],
        preparing: Callable[[str], None] = lambda spec: None,
        *,
        divisible: bool = True,
    ) -> Task:
        """Have something done. Of an owner's tasks the smallest ``urgency`` comes first."""
        task = Task(owner, urgency, work, failed, preparing, divisible)
        with self._lock:
            if self._closed:
                task.cancelled = True
                return task
            self._tasks.setdefault(owner, []).append(task)
            if owner not in self._running and owner not in self._waiting:
                self._waiting.append(owner)
            self._lock.notify_all()
        return task

    def cancel(self, task: Task | None) -> None:
        """Nothing is heard of the task any more once what it is doing has ended, which is soon."""
        if task is None:
            return
        with self._lock:
            task.cancelled = True
            own = self._tasks.get(task.owner, [])
            if task in own and self._running.get(task.owner) is not task:
                own.remove(task)
            self._lock.notify_all()

    def drop(self, owner: Hashable) -> None:
        """The owner has gone."""
        with self._lock:
            for task in list(self._tasks.get(owner, ())):
                task.cancelled = True
            if owner in self._waiting:
                self._waiting.remove(owner)
            if owner not in self._running:
                self._tasks.pop(owner, None)
            self._lock.notify_all()

    @property
    def busy(self) -> int:
        """Tasks that are being done or wait."""
        with self._lock:
            return sum(map(len, self._tasks.values()))

    def close(self, seconds: float = 1.0) -> bool:
        """Stop everything; false if a thread is still in the compiler after so long."""
        with self._lock:
            self._closed = True
            for tasks in self._tasks.values():
                for task in tasks:
                    task.cancelled = True
            self._lock.notify_all()
        until = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        self.bench.close()
        return not any(thread.is_alive() for thread in self._threads)

    # --- in the threads ----------------------------------------------------------------------------------------------

    @property
    def is_awaited(self) -> bool:
        """Some owner waits for a thread."""
        return bool(self._waiting)

    def has_more_urgent(self, task: Task) -> bool:
        """Its owner wants something else first."""
        return any(other.urgency < task.urgency for other in tuple(self._tasks.get(task.owner, ())))

    def _work(self) -> None:
        step_back()
        while (task := self._next()) is not None:
            finished = True
            try:
                finished = self._take_turn(task)
            except Exception as error:
                if not task.cancelled:
                    task.failed(error)
            self._after(task, finished or task.cancelled)

    def _next(self) -> Task | None:
        with self._lock:
            while not self._closed:
                while self._waiting:
                    owner = self._waiting.popleft()
                    if tasks := self._tasks.get(owner):
                        task = min(tasks, key=lambda task: task.urgency)
                        self._running[owner] = task
                        self._lock.notify_all()
                        return task
                self._lock.wait()
        return None

    def _take_turn(self, task: Task) -> bool:
        """Work until the task is done (true) or its turn is over."""
        if task.steps is None or task.turn is None:
            task.turn = Turn(task, self)
            task.steps = task.work(task.turn)
        turn = task.turn
        turn.begun = time.monotonic()
        while True:
            try:
                next(task.steps)
            except StopIteration:
                return True
            if turn.over():
                return task.cancelled

    def _after(self, task: Task, finished: bool) -> None:
        with self._lock:
            del self._running[task.owner]
            own = self._tasks.get(task.owner, [])
            if finished and task in own:
                own.remove(task)
                if task.steps is not None:
                    task.steps.close()  # type: ignore[attr-defined]  # a generator
            if task.turn is not None and not finished:
                # What was cut short gets longer the next time: a search that never ends its iteration finds nothing.
                task.turn.slice = min(2 * task.turn.slice, MOST_SLICE_SECONDS)
            own[:] = [other for other in own if not other.cancelled]
            if own:
                self._waiting.append(task.owner)
            else:
                self._tasks.pop(task.owner, None)
            self._lock.notify_all()

    def _watch(self) -> None:
        """Tell players to stop whose turn is over. A search may begin just after it was told, so it is told again."""
        while True:
            with self._lock:
                while not self._running and not self._closed:
                    self._lock.wait()
                if self._closed and not self._running:
                    return
                running = list(self._running.values())
            for task in running:
                turn = task.turn
                player = None if turn is None else turn.player
                if turn is not None and player is not None and turn.over():
                    player.stop()
            time.sleep(WATCH_SECONDS)
