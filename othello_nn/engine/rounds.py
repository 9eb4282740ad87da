"""A search with batched leaves: runs of ``speculate.py`` and calls of the net, by turns.

Read ``speculate.py`` first. Each thread makes rounds: run the search until its queue is full or nothing more is wanted,
have the net evaluate the queue, store the values. One thread runs at a time, the others wait for the net meanwhile;
what is in another's queue counts as unknown and is not asked for again, so that threads spread over the tree by
themselves. With one thread and without a clock all this is the same every time.
"""

from __future__ import annotations

import threading
from concurrent.futures import Executor
from dataclasses import dataclass, field

import numpy as np

import othello_nn.engine.workspace as ws
from othello_nn.engine import speculate
from othello_nn.engine.leaf.batched import BatchedEvaluator
from othello_nn.engine.leaf.known import BLACK, FULL, QUEUED, ROOM, UNSURE, WHITE, WIDE, KnownLeaves
from othello_nn.game.position import Position

# A batch smaller than this part of the largest is filled up with what the search may want later, which costs few
# positions and saves calls; and nothing is looked at in full before that (`benchmarks/run.py batched-guesses`).
FILL, LEAST_WIDE = 0.5, 0
# Under a clock no call of the net may take longer than this part of the time there is, so that its end is kept.
CALL_SHARE, LEAST_CALL_SECONDS = 0.05, 0.002


@dataclass(eq=False)
class _Task:
    """A root to be searched with a window, and what has come of it."""

    boards: tuple[np.uint64, np.uint64, np.uint64]  # mover, opponent, colour
    moves: np.ndarray
    window: tuple[int, int]
    depth: int
    guess: int
    values: np.ndarray
    score: int = 0
    done: int = 0
    is_complete: bool = False
    is_over: bool = False
    errors: list[BaseException] = field(default_factory=list)


class BatchedSearch:
    """The part of an ``Engine`` that asks a batched evaluator. ``stop`` is the engine's word, ``space`` its first."""

    def __init__(self, evaluator: BatchedEvaluator, threads: int, space: ws.Workspace, stop: np.ndarray):
        self.evaluator, self.leaves = evaluator, KnownLeaves()
        self._space, self._stop = space, stop
        self._queues = [np.zeros((evaluator.batch, 3), np.uint64) for _ in range(threads)]
        self._changed = threading.Condition()
        self._call_seconds: float | None = None

    def clear(self) -> None:
        self.leaves.clear()

    def begin(self, seconds: float | None) -> None:
        """Before a search that may take so long."""
        self.leaves.new_search()
        self._call_seconds = None if seconds is None else max(LEAST_CALL_SECONDS, CALL_SHARE * seconds)

    def wake(self) -> None:
        """Have all threads see that the stop word has been set."""
        with self._changed:
            self._changed.notify_all()
        self.evaluator.batcher.wake()

    def root(
        self, position: Position, moves: np.ndarray, window: tuple[int, int], depth: int, guess: int, pool: Executor
    ) -> tuple[int, np.ndarray, bool, int]:
        """Score, values of the moves, whether it is complete, and how many moves are done: as ``midgame.root``."""
        colour = BLACK if position.black_to_move else WHITE
        boards = (np.uint64(position.mover), np.uint64(position.opponent), colour)
        task = _Task(boards, moves, window, depth, guess, self._no_values(moves))
        first, *others = self._queues
        futures = [pool.submit(self._rounds, task, queue) for queue in others]
        self._rounds(task, first)
        for future in futures:
            future.result()
        if task.errors:
            raise task.errors[0]
        return task.score, task.values, task.is_complete, task.done

    @staticmethod
    def _no_values(moves: np.ndarray) -> np.ndarray:
        return np.full(len(moves), -speculate.INFINITY, np.int64)

    def _is_stopped(self) -> bool:
        return bool(self._stop.any())

    def _rounds(self, task: _Task, queue: np.ndarray) -> None:
        """One thread's work on a task."""
        wanted = queue[:0]
        try:
            while True:
                with self._changed:
                    wanted = self._next_batch(task, queue)
                if not len(wanted):
                    return
                scores = self.evaluator.batcher.ask(wanted, self._most, lambda: self._is_stopped() or task.is_over)
                with self._changed:
                    self.leaves.store(wanted, scores)
                    wanted = queue[:0]
                    self._changed.notify_all()
        except BaseException as error:
            with self._changed:
                self.leaves.store(wanted, None)
                task.errors.append(error)
                task.is_over = True
            self.wake()

    @property
    def _most(self) -> int:
        return self.evaluator.batcher.most_within(self._call_seconds)

    def _next_batch(self, task: _Task, queue: np.ndarray) -> np.ndarray:
        """What the net has to be asked next; empty if the task is over. The lock is held."""
        while not task.is_over:
            wanted = self._run(task, queue)
            if len(wanted) and not task.is_over:
                return wanted
            if len(wanted):  # stopped: nobody will ask for these
                self.leaves.store(wanted, None)
            if not task.is_over:
                self._changed.wait()  # all that is missing is in the queues of other threads
        self._changed.notify_all()
        return queue[:0]

    def _run(self, task: _Task, queue: np.ndarray) -> np.ndarray:
        """Run the search; the queue's positions. Widened, as far as it takes, if these are few."""
        space, leaves = self._space, self.leaves
        left = space[ws.NODE_LIMIT] - space[ws.NODES]
        room = leaves.open_queue(queue, max(0, min(self._most, left)))
        fill = min(room, round(FILL * self.evaluator.batch))
        for wide in range(LEAST_WIDE, max(LEAST_WIDE, task.depth) + 1):
            leaves[WIDE] = max(wide, int(task.depth == 1))
            self._run_once(task)
            if task.is_over or leaves[FULL] or leaves[QUEUED] >= fill:
                break
            leaves[ROOM] = fill
        queued = leaves[QUEUED]
        space[ws.NODES] += queued
        if not room and not task.is_complete:
            space[ws.NODE_LIMIT] = space[ws.NODES]
            task.is_over = True
        return queue[:queued]

    def _run_once(self, task: _Task) -> None:
        space, values = self._space, self._no_values(task.moves)
        space[ws.ABORTED] = 0
        score = speculate.root(
            self.leaves.address, space.address, *task.boards, task.moves, values, *task.window, task.depth, task.guess
        )
        if not self.leaves[UNSURE]:
            task.score, task.values, task.done = int(score), values, len(values)
            task.is_complete = task.is_over = True
        elif space[ws.ROOT_DONE] > task.done:
            task.values, task.done = values, space[ws.ROOT_DONE]
        task.is_over |= bool(space[ws.ABORTED])
