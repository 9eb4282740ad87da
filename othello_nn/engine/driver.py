"""Searches as a caller sees them: limits, iterative deepening, three drivers, threads, results.

    engine = Engine(evaluator)
    engine.search(Position.start(), Limit(seconds=1))
    engine.solve(position)

An ``Engine`` keeps its transposition table between calls. The compiled search (``search.root``) runs in worker threads, free of
the GIL; the calling thread watches the clock and raises the stop flag. ``search`` and ``solve`` at the end are the one-line forms.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from othello_nn.engine import search as kernels
from othello_nn.engine import workspace as ws
from othello_nn.engine.evaluate import Mobility
from othello_nn.engine.parallel import BusyTable
from othello_nn.engine.probcut import MIDGAME_LEVEL, SELECTIVITY_LEVELS, ProbCut
from othello_nn.engine.ttable import SCORE_DISC, TranspositionTable, bucket_address, data_move, table_probe
from othello_nn.game.position import Position
from othello_nn.game.rules import PASS

Driver = Literal["negascout", "alphabeta", "mtdf"]
MAX_DEPTH = 60
ASPIRATION = 2 * SCORE_DISC
PARALLEL_DEPTH = 9  # below this a helper thread costs more than it brings
# A search of depth n takes about as long as an exact solution of n + EXACT_AHEAD empties (IAGO had 5), or win/draw/loss of
# n + WLD_AHEAD (IAGO had 7): `benchmarks/ahead.py`.
EXACT_AHEAD = 9
WLD_AHEAD = 11
# The solver's quick looks before the exact search, by empties.
PRESEARCH_EMPTIES = 13
SELECTIVE_EMPTIES = {5: 18, 3: 22, 1: 25}


@dataclass(frozen=True)
class Limit:
    """When a search ends: the first limit reached. None of them set means one second."""

    depth: int | None = None
    nodes: int | None = None
    seconds: float | None = None

    def __post_init__(self):
        for name in ("depth", "nodes", "seconds"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"limit {name} must be positive, not {value}")


@dataclass(frozen=True)
class Options:
    """How to search; the defaults are the strongest."""

    search: Driver = "negascout"
    threads: int = 1
    table_mb: float = 128
    probcut: bool = True
    switches: int = kernels.EVERYTHING

    def __post_init__(self):
        if self.search not in get_args(Driver):
            raise ValueError(f"unknown search {self.search!r}; choose from {', '.join(get_args(Driver))}")
        if not 1 <= self.threads <= 64:
            raise ValueError(f"threads must be 1…64, not {self.threads}")
        if not 0.01 <= self.table_mb <= 2**20:
            raise ValueError(f"table_mb must be 0.01…1048576, not {self.table_mb}")


@dataclass(frozen=True)
class Result:
    """What a search found. ``score`` is in discs for the side to move; ``move`` is None only if the game is over."""

    move: int | None
    score: float
    exact: bool
    depth: int
    pv: tuple[int, ...]
    nodes: int
    seconds: float
    wld: bool = False  # score only tells win (+1), draw (0) or loss (−1)
    selectivity: int = 0  # ProbCut level of the last iteration, 0 = full width
    cut_nodes: int = 0
    cut_first: int = 0
    cut_moves: int = 0


@dataclass
class _Work:
    """A search in progress: what is asked, what is known so far."""

    position: Position
    schedule: Iterator[tuple[int, int]]
    window: tuple[int, int]
    started: float
    on_iteration: Callable[[Result], bool | None] | None
    moves: np.ndarray
    score: int = 0
    depth: int = 0
    level: int = 0


class Engine:
    """A search with its memory: evaluator, transposition table, one workspace a thread."""

    def __init__(self, evaluator=None, options: Options | None = None):
        self.evaluator, self.options = evaluator, options or Options()
        self.leaf = Mobility() if evaluator is None else getattr(evaluator, "leaf", evaluator)
        self.table = TranspositionTable(self.options.table_mb)
        fitted = getattr(evaluator, "probcut", None)
        self._probcut = ProbCut(fitted).rows() if fitted is not None and self.options.probcut else None
        self._stop = np.zeros(64, np.uint8)
        self._expired = False
        self._busy = BusyTable()
        threads = self.options.threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="search")
        self._workspaces = [ws.Workspace(self.table, self._stop) for _ in range(threads)]
        for space in self._workspaces:
            space[ws.SWITCHES] = self._switches()
            space[ws.PROBCUT] = 0 if self._probcut is None else self._probcut.ctypes.data
            space[ws.BUSY] = self._busy.address if threads > 1 else 0

    def _switches(self) -> int:
        switches = self.options.switches
        if self.options.search == "alphabeta":
            switches &= ~kernels.NULL_WINDOWS
        if self._probcut is None:
            switches &= ~kernels.PROBCUT_CUTS
        return switches

    def stop(self) -> None:
        """End the running search at once; it returns what it has. May be called from any thread."""
        self._expired = True
        self._stop[0] = 1

    def clear(self) -> None:
        """Forget everything learnt from earlier searches."""
        self.table.clear()
        for space in self._workspaces:
            space.words[ws.KILLERS // 8 : ws.FRAMES // 8] = 0

    def search(self, position: Position, limit: Limit | None = None, on_iteration=None) -> Result:
        """The best move within the limits. Near the end of the game the search becomes an exact solution.

        ``on_iteration`` is called with the result of each iteration, in the search's thread; it may return False to end it.
        """
        limit = limit or Limit(seconds=1.0)
        schedule = self._search_schedule(position.empties, limit)
        return self._run(position, schedule, limit, (-kernels.INFINITY, kernels.INFINITY), on_iteration)

    def solve(self, position: Position, *, wld: bool = False, limit: Limit | None = None, on_iteration=None) -> Result:
        """The exact score, or only win, draw or loss. A limit may end it early: then ``exact`` is false."""
        window = (-SCORE_DISC, SCORE_DISC) if wld else (-kernels.INFINITY, kernels.INFINITY)
        result = self._run(position, self._solve_schedule(position.empties), limit or Limit(), window, on_iteration)
        if not wld:
            return result
        return replace(result, wld=True, score=float(np.sign(result.score)) if result.exact else result.score)

    # --- what to search next -----------------------------------------------------------------------------------------

    def _search_schedule(self, empties: int, limit: Limit) -> Iterator[tuple[int, int]]:
        """(depth, selectivity level) of each iteration: one ply deeper each, then the end of the game."""
        middle = MIDGAME_LEVEL if self._probcut is not None else 0
        last = min(limit.depth or MAX_DEPTH, MAX_DEPTH)
        for depth in range(1, min(last, empties - 1) + 1):
            if limit.depth is None and empties <= depth + EXACT_AHEAD:
                break
            yield depth, middle
        if last >= empties:
            yield from self._end_schedule(empties)

    def _end_schedule(self, empties: int) -> Iterator[tuple[int, int]]:
        """To the end of the game: ever less selective, since each look orders the next one's moves."""
        if self._probcut is not None:
            for level, from_empties in SELECTIVE_EMPTIES.items():
                if empties >= from_empties:
                    yield empties, level
        yield empties, 0

    def _solve_schedule(self, empties: int) -> Iterator[tuple[int, int]]:
        middle = MIDGAME_LEVEL if self._probcut is not None else 0
        if empties > PRESEARCH_EMPTIES:
            for depth in range(2, empties // 2 + 1, 2):
                yield depth, middle
        yield from self._end_schedule(empties)

    # --- running -----------------------------------------------------------------------------------------------------

    def _run(self, position, schedule, limit: Limit, window, on_iteration) -> Result:
        """Work through the schedule in a worker thread while this one keeps the clock."""
        started = time.perf_counter()
        if position.is_over:
            return Result(None, float(position.final_score()), True, 0, (), 0, 0.0)
        if position.must_pass:
            inner = self._run(position.play(PASS), schedule, limit, window, None)
            return replace(inner, move=PASS, score=-inner.score, pv=(PASS, *inner.pv))
        self._expired, self._stop[0] = False, 0
        self.table.new_search()
        for space in self._workspaces:
            for counter in (ws.NODES, ws.CUT_NODES, ws.CUT_FIRST, ws.CUT_MOVES):
                space[counter] = 0
            space[ws.TABLE_AGE] = self.table.age
            space[ws.NODE_LIMIT] = np.iinfo(np.int64).max if limit.nodes is None else limit.nodes // len(self._workspaces)
        moves = np.array(position.legal_moves, np.int64)
        work = _Work(position, schedule, window, started, on_iteration, moves)
        future = self._pool.submit(self._iterate, work)
        try:
            wait([future], None if limit.seconds is None else max(0.0, limit.seconds - (time.perf_counter() - started)))
        finally:
            # Finished, out of time or interrupted: the workers must be gone before anyone uses this memory again.
            if not future.done():
                self.stop()
                wait([future])
        future.result()
        return self._result(work)

    def _iterate(self, work: _Work) -> None:
        for depth, level in work.schedule:
            if self._expired or not self._iteration(work, depth, level):
                break
            if work.on_iteration is not None and work.on_iteration(self._result(work)) is False:
                break

    def _iteration(self, work: _Work, depth: int, level: int) -> bool:
        """One depth with one of the three drivers; false if it was cut short."""
        t = SELECTIVITY_LEVELS[level]
        for space in self._workspaces:
            space[ws.SELECTIVITY] = level
            space[ws.PROBCUT_T] = 0 if t is None else round(1024 * t)
        low, high = work.window
        search = self._test_driver if self.options.search == "mtdf" else self._aspiration
        finished = search(work, depth, low, high)
        if finished:
            work.depth, work.level = depth, level
        return finished

    def _aspiration(self, work: _Work, depth: int, low: int, high: int) -> bool:
        """A narrow window around the last value, widened on the side where it fails."""
        alpha, beta, width = low, high, ASPIRATION
        if work.depth:
            alpha, beta = max(low, work.score - width), min(high, work.score + width)
            if alpha >= beta:
                alpha, beta = low, high
        while True:
            score = self._root(work, depth, alpha, beta)
            if score is None:
                return False
            width *= 3
            if score <= alpha and alpha > low:
                alpha = max(low, score - width)
            elif score >= beta and beta < high:
                beta = min(high, score + width)
            else:
                work.score = score
                return True

    def _test_driver(self, work: _Work, depth: int, low: int, high: int) -> bool:
        """MTD(f): null-window tests that close in on the value from a first guess."""
        guess = min(max(work.score, low + 1), high - 1)
        while low < high:
            beta = guess + 1 if guess == low else guess
            score = self._root(work, depth, beta - 1, beta)
            if score is None:
                return False
            if score < beta:
                high = score
            else:
                low = score
            guess = score
        work.score = guess
        return True

    def _root(self, work: _Work, depth: int, alpha: int, beta: int) -> int | None:
        """Search the root moves and bring the best to the front; None if the search was stopped first."""
        position = work.position
        mover, opponent = np.uint64(position.mover), np.uint64(position.opponent)
        spaces = self._workspaces if depth >= PARALLEL_DEPTH else self._workspaces[:1]

        def search(space):
            values = np.full(len(work.moves), -kernels.INFINITY, np.int64)
            space[ws.ABORTED] = 0
            score = kernels.root(
                self.leaf, space.address, mover, opponent, work.moves, values,
                np.int64(alpha), np.int64(beta), np.int64(depth),
            )  # fmt: skip
            complete = not space[ws.ABORTED]
            if complete and len(spaces) > 1:
                self._stop[0] = 1  # the others need not finish
            return int(score), values, complete, space[ws.ROOT_DONE]

        futures = [self._pool.submit(search, space) for space in spaces[1:]]
        results = [search(spaces[0])]
        results += [future.result() for future in futures]
        out_of_nodes = spaces[0][ws.NODES] >= spaces[0][ws.NODE_LIMIT]
        if len(spaces) > 1 and not self._expired:
            self._stop[0] = 0
        # Prefer a complete result; else the one that got furthest, whose finished moves still count.
        score, values, complete, done = max(results, key=lambda r: (r[2], r[3]))
        best = int(values.argmax())
        if complete or (done and values[best] > alpha):
            order = np.r_[best, np.delete(np.arange(len(values)), best)]
            work.moves = work.moves[order]
        if complete:
            return score
        if done and alpha < values[best] < beta:
            work.score = int(values[best])
        if not self._expired and not out_of_nodes:
            raise RuntimeError("a search stopped without a reason")
        return None

    # --- results -----------------------------------------------------------------------------------------------------

    def _result(self, work: _Work) -> Result:
        position, empties = work.position, work.position.empties
        exact = work.depth == empties and work.level == 0
        total = {name: sum(space[offset] for space in self._workspaces) for name, offset in COUNTERS.items()}
        return Result(
            move=int(work.moves[0]),
            score=work.score / SCORE_DISC,
            exact=exact,
            depth=work.depth,
            pv=self._line(position, int(work.moves[0])),
            seconds=time.perf_counter() - work.started,
            selectivity=work.level,
            **total,
        )

    def _line(self, position: Position, move: int) -> tuple[int, ...]:
        """The moves that the table expects, beginning with ``move``."""
        line = [move]
        position = position.play(move)
        while not position.is_over:
            if position.must_pass:
                line.append(PASS)
                position = position.play(PASS)
                continue
            move = self._table_move(position)
            if move is None:
                break
            line.append(move)
            position = position.play(move)
        return tuple(line)

    def _table_move(self, position: Position) -> int | None:
        mover, opponent = np.uint64(position.mover), np.uint64(position.opponent)
        bucket = bucket_address(self.table.address, np.uint64(self.table.mask), mover, opponent)
        data = table_probe(bucket, mover, opponent)
        move = int(data_move(data)) if data else PASS
        return move if position.legal_mask >> max(move, 0) & 1 and move >= 0 else None


COUNTERS = {"nodes": ws.NODES, "cut_nodes": ws.CUT_NODES, "cut_first": ws.CUT_FIRST, "cut_moves": ws.CUT_MOVES}


def search(position: Position, evaluator=None, limit: Limit | None = None, options: Options | None = None) -> Result:
    """The best move for the side to move; see ``Engine.search``."""
    return Engine(evaluator, options).search(position, limit)


def solve(position: Position, evaluator=None, *, wld: bool = False, options: Options | None = None) -> Result:
    """The exact value of a position; see ``Engine.solve``."""
    return Engine(evaluator, options).solve(position, wld=wld)
