"""Games played ahead: a thread plays the next batches on the CPU's cores while the learner is busy with this one.

The queue has a fixed depth. Batch n + depth is played with the weights from before step n, however long anything
takes, so that a run does not depend on the clock; only the curves here do.
"""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

from othello_nn.learn.watch.curves import curve

Batch = TypeVar("Batch")
READY = curve("queue/ready", "batches of games that were played and waiting when the learner asked for the next one")
LEARNER_WAITS = curve("queue/learner_waits", "share of the time that the learner waited for games")
ACTORS_WAIT = curve("queue/actors_wait", "share of the time that the players of games waited for the learner")


LESS_URGENT = 5
"""How much nicer those who play are than the learner."""


def _give_way() -> None:
    """Let the learner go first where there are not enough cores for all: it works on one and cannot catch up, while
    those who play, whose threads inherit this, share what is left. Only Linux knows how urgent a thread is."""
    if sys.platform == "linux":
        os.nice(LESS_URGENT)


class Ahead(Generic[Batch]):
    """Batches in the order in which they were asked for."""

    def __init__(self, depth: int):
        self.depth = depth
        self._pool = ThreadPoolExecutor(1, initializer=_give_way)
        self._queue: deque[Future[Batch]] = deque()
        self._asked = self._ready = 0
        self._waited = self._played = 0.0
        self._since = time.monotonic()

    def __len__(self) -> int:
        return len(self._queue)

    def begin(self, play: Callable[[], Batch]) -> None:
        """Have one more batch played, when those before it are done."""
        self._queue.append(self._pool.submit(self._timed, play))

    def _timed(self, play: Callable[[], Batch]) -> Batch:
        started = time.monotonic()
        try:
            return play()
        finally:
            self._played += time.monotonic() - started

    def take(self) -> Batch:
        """The next batch, as soon as it is there."""
        started = time.monotonic()
        self._asked += 1
        self._ready += sum(future.done() for future in self._queue)
        try:
            return self._queue.popleft().result()
        finally:
            self._waited += time.monotonic() - started

    def pending(self) -> list[Batch]:
        """All batches that were asked for and not yet taken."""
        return [future.result() for future in self._queue]

    def restore(self, batches: Sequence[Batch]) -> None:
        """Have these pending, and nothing else."""
        self._queue.clear()
        for batch in batches:
            done: Future[Batch] = Future()
            done.set_result(batch)
            self._queue.append(done)

    def meters(self) -> dict[str, float]:
        """By curve, since this was last asked for."""
        now = time.monotonic()
        seconds, asked = max(now - self._since, 1e-9), self._asked
        found: dict[str, float] = {
            LEARNER_WAITS: min(self._waited / seconds, 1.0),
            ACTORS_WAIT: min(max(1 - self._played / seconds, 0.0), 1.0),
        }
        if asked:
            found[READY] = self._ready / asked
        self._asked = self._ready = 0
        self._waited = self._played = 0.0
        self._since = now
        return found
