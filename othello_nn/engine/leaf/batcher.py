"""One queue before a net: what several searches want at the same time becomes one call.

Threads of a search, and games of a match whose players have the same net, all ask here. Nobody stands behind the queue:
whoever asks while the net is free takes along what others have put there and calls the net for all of them; who asks
meanwhile waits, and the first to wake up does the same. So a call is as large as the demand, nothing waits for a batch
to fill up, and there is no thread that could be left behind.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

FIRST_CALL = 64
"""Positions in a call that must not take long, as long as nobody knows how fast the net is."""
NEWEST = 0.25
"""Weight of the last call in the speed."""


@dataclass(eq=False)
class _Request:
    """Positions ``[N, 3]`` (mover, opponent, 0 or ~0 for black or white to move) and what has become of them."""

    positions: np.ndarray
    most: int  # positions in the call that this is to be part of
    scores: np.ndarray | None = None
    error: Exception | None = None
    is_done: bool = False


class Batcher:
    """Calls ``scores`` (positions ``[N, 3]`` uint64 → ``[N]`` int64) for all who ask, one call at a time."""

    def __init__(self, scores: Callable[[np.ndarray], np.ndarray], batch: int):
        self.batch = batch
        self.calls = self.positions = 0
        self.seconds = 0.0
        self._scores = scores
        self._waiting: list[_Request] = []
        self._is_busy = False
        self._changed = threading.Condition()
        self._speed: float | None = None

    def most_within(self, seconds: float | None) -> int:
        """How many positions fit into a call of so many seconds, by the calls so far; never none."""
        if seconds is None:
            return self.batch
        return min(self.batch, max(1, FIRST_CALL if self._speed is None else int(self._speed * seconds)))

    def ask(self, positions: np.ndarray, most: int, is_stopped: Callable[[], bool]) -> np.ndarray | None:
        """The scores of positions ``[N, 3]``, at most ``most``, or None if ``is_stopped`` (and ``wake`` is called)."""
        request = _Request(positions, most)
        with self._changed:
            self._waiting.append(request)
            while self._is_busy and not request.is_done and not is_stopped():
                self._changed.wait()
            if not request.is_done and is_stopped():
                if request in self._waiting:
                    self._waiting.remove(request)
                return None
            group = [] if request.is_done else self._take(request)
        if group:
            self._call(group)
        if request.error is not None:
            raise request.error
        return request.scores

    def wake(self) -> None:
        """Have all who wait look whether they are stopped."""
        with self._changed:
            self._changed.notify_all()

    def _take(self, first: _Request) -> list[_Request]:
        """The requests of the next call: ``first`` and what else fits."""
        self._is_busy = True
        self._waiting.remove(first)
        group, total, most = [first], len(first.positions), min(self.batch, first.most)
        for other in list(self._waiting):
            if total + len(other.positions) <= min(most, other.most):
                group.append(other)
                total, most = total + len(other.positions), min(most, other.most)
                self._waiting.remove(other)
        return group

    def _call(self, group: list[_Request]) -> None:
        """Ask the net, and tell everybody what it said. Whatever happens, nobody is left waiting."""
        error: Exception = RuntimeError("the net's call was broken off")
        scores, begun = None, time.perf_counter()
        try:
            parts = [request.positions for request in group]
            scores = self._scores(parts[0] if len(parts) == 1 else np.concatenate(parts))
        except Exception as caught:
            error = caught
        finally:
            seconds = time.perf_counter() - begun
            with self._changed:
                start = 0
                for request in group:
                    end = start + len(request.positions)
                    if scores is None:
                        request.error = error
                    else:
                        request.scores = scores[start:end]
                    request.is_done, start = True, end
                if scores is not None:
                    self._note(start, seconds)
                self._is_busy = False
                self._changed.notify_all()

    def _note(self, positions: int, seconds: float) -> None:
        self.calls, self.positions, self.seconds = self.calls + 1, self.positions + positions, self.seconds + seconds
        speed = positions / max(seconds, 1e-6)
        self._speed = speed if self._speed is None else (1 - NEWEST) * self._speed + NEWEST * speed
