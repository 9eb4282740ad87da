"""Searches as a caller sees them: limits, iterative deepening, three drivers, threads, results.

    engine = Engine(evaluator)
    engine.search(Position.start(), Limit(seconds=1))
    engine.solve(position)

An ``Engine`` keeps its transposition table between calls. The compiled search (``midgame.root``) runs in worker
threads, free of the GIL; the calling thread watches the clock and raises the stop flag. ``search`` and ``solve`` at
the end are the one-line forms.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

import othello_nn.engine.midgame as kernels
import othello_nn.engine.workspace as ws
from othello_nn.engine.calibration import Calibration
from othello_nn.engine.leaf.batched import BatchedEvaluator
from othello_nn.engine.leaf.compile import shipped_evaluator
from othello_nn.engine.leaf.mobility import Mobility
from othello_nn.engine.probcut import DEPTH_LEVEL, SELECTIVITY_LEVELS, TIMED_LEVEL, ProbCut
from othello_nn.engine.rounds import BatchedSearch
from othello_nn.engine.score import SCORE_DISC
from othello_nn.engine.threads import BusyTable
from othello_nn.engine.ttable import TranspositionTable, bucket_address, data_move, table_probe
from othello_nn.errors import OthelloError
from othello_nn.game.move import Move
from othello_nn.game.position import Position
from othello_nn.game.rules import PASS
from othello_nn.options import Section, declared
from othello_nn.search_options import (
    DEPTH,
    DRIVER,
    MAX_DEPTH,
    NODES,
    PROBCUT,
    SECONDS,
    SINGLE,
    TABLE_MB,
    THREADS,
    TRUST,
    Driver,
)

ASPIRATION = 2 * SCORE_DISC
PARALLEL_DEPTH = 9  # below this a helper thread costs more than it brings
# A search of depth n takes about as long as an exact solution of n + EXACT_AHEAD empties (IAGO had 5), or
# win/draw/loss of n + WLD_AHEAD (IAGO had 7): `benchmarks/run.py ahead`.
# By whether the search uses ProbCut, which reaches so deep that a proof is hardly further.
EXACT_AHEAD = {False: 6, True: 1}
WLD_AHEAD = {False: 10, True: 8}
# Asked in batches, a net takes as long for a few plies as the solver, which does not need it, for many empties: 10 to
# 14 more of them, timed by hand at 12 to 18 empties on a busy machine: no benchmark measures this yet.
BATCHED_EXACT_AHEAD, BATCHED_WLD_AHEAD = 11, 14
# The solver's quick looks before the exact search, by empties.
PRESEARCH_EMPTIES = 13
SELECTIVE_EMPTIES = {5: 18, 4: 22}
ASKED, FINISHED = 0, 1  # bytes of the stop word: the caller or the clock wants it; another thread is done
LINE_NODES = 2_000_000  # for a move of the principal variation that the table has forgotten


@dataclass(frozen=True)
class Limit(Section):
    """When a search ends: the first limit reached. None of them set means one second."""

    place = "limit"

    depth: int | None = declared(DEPTH)
    nodes: int | None = declared(NODES)
    seconds: float | None = declared(SECONDS)


@dataclass(frozen=True)
class Options(Section):
    """How to search; the defaults are the strongest."""

    search: Driver = declared(DRIVER)  # noqa: RUF009 (a field, as the others)
    threads: int = declared(THREADS)
    table_mb: float = declared(TABLE_MB)
    probcut: bool | str = declared(PROBCUT)
    trust: float | None = declared(TRUST)
    switches: int = ws.EVERYTHING


@dataclass(frozen=True)
class Result:
    """What a search found. ``score`` is in discs for the side to move; ``move`` is None only if the game is over."""

    move: Move | None
    score: float
    exact: bool
    depth: int
    pv: tuple[Move, ...]
    nodes: int
    seconds: float
    raw_score: float = 0.0  # before calibration
    wld: bool = False  # score only tells win (+1), draw (0) or loss (−1)
    selectivity: int = 0  # ProbCut level of the last iteration, 0 = full width
    cut_nodes: int = 0
    cut_first: int = 0
    cut_moves: int = 0


@dataclass(frozen=True)
class _Step:
    """One iteration to do: a depth, a selectivity level, and whether only win, draw or loss is asked."""

    depth: int
    level: int = 0
    wld: bool = False


@dataclass
class _Work:
    """A search in progress: what is asked, what is known so far."""

    position: Position
    limit: Limit
    started: float
    on_iteration: Callable[[Result], bool | None] | None
    moves: np.ndarray  # best first
    score: int = 0
    last: _Step = _Step(0)  # the last iteration that was finished
    seconds: tuple[float, ...] = ()  # what each finished iteration took

    @property
    def elapsed(self) -> float:
        return time.perf_counter() - self.started


class Engine:
    """A search with its memory: evaluator, transposition table, one workspace a thread.

    It does one search at a time: a second one while the first runs, from another thread or from ``on_iteration``, is an
    ``OthelloError``. Threads that search at the same time each need an engine of their own; ``Options(threads=…)`` lets
    several work on one search.
    """

    def __init__(self, evaluator=None, options: Options | None = None):
        if hasattr(evaluator, "as_evaluator"):  # a net
            evaluator = evaluator.as_evaluator()
        self.evaluator, self.options = evaluator, options or Options()
        self.leaf = Mobility() if evaluator is None else getattr(evaluator, "leaf", evaluator)
        self.table = TranspositionTable(self.options.table_mb)
        fitted = getattr(evaluator, "probcut", None)
        self._probcut = None
        if fitted is not None and self.options.probcut:
            self._probcut = ProbCut.of(fitted).rows(single=self.options.probcut == SINGLE)
        lines = getattr(evaluator, "calibration", None)
        self._calibration = None if lines is None else Calibration(lines)
        self._stop = np.zeros(8, np.uint8)  # one word: the search stops while any of its bytes is set
        self._expired = False
        self._running = threading.Lock()
        self._busy = BusyTable()
        threads = self.options.threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="search")
        self._workspaces = [ws.Workspace(self.table, self._stop) for _ in range(threads)]
        for space in self._workspaces:
            space[ws.SWITCHES] = self._switches()
            space[ws.PROBCUT] = 0 if self._probcut is None else self._probcut.ctypes.data
            space[ws.BUSY] = self._busy.address if threads > 1 else 0
        self._batched: BatchedSearch | None = None
        self._solver: Engine | None = None
        if isinstance(evaluator, BatchedEvaluator):
            self._batched = BatchedSearch(evaluator, threads, self._workspaces[0], self._stop)

    def _switches(self) -> int:
        switches = self.options.switches
        if self.options.search == "alphabeta":
            switches &= ~ws.NULL_WINDOWS
        if self._probcut is None:
            switches &= ~ws.PROBCUT_CUTS
        return switches

    def stop(self) -> None:
        """End the running search at once; it returns what it has. May be called from any thread."""
        self._expired = True
        self._stop[ASKED] = 1
        if self._batched is not None:
            self._batched.wake()
        if self._solver is not None:
            self._solver.stop()

    def clear(self) -> None:
        """Forget everything learnt from earlier searches."""
        with self._alone():
            self.table.clear()
            for space in self._workspaces:
                space.forget()
            if self._batched is not None:
                self._batched.clear()
            if self._solver is not None:
                self._solver.clear()

    def search(self, position: Position, limit: Limit | None = None, on_iteration=None) -> Result:
        """The best move within the limits. Near the end of the game the search becomes an exact solution.

        ``on_iteration`` is called with the result of each iteration, in the search's thread; it may return False to
        end it.
        """
        with self._alone():
            return self._run(position, self._search_steps, limit or Limit(seconds=1.0), on_iteration)

    def solve(self, position: Position, *, wld: bool = False, limit: Limit | None = None, on_iteration=None) -> Result:
        """The exact score, or only win, draw or loss (±1, 0). A limit may end it early: then ``exact`` is false."""
        if self._batched is not None:
            # The looks before the proof are many: a compiled evaluator's, in a table of their own.
            self._solver = self._solver or Engine(self.leaf, self.options)
            return self._solver.solve(position, wld=wld, limit=limit, on_iteration=on_iteration)
        with self._alone():
            result = self._run(position, partial(self._solve_steps, wld=wld), limit or Limit(), on_iteration)
        if wld and position.is_over:
            result = replace(result, wld=True, score=float(np.sign(result.score)))
        return result

    @property
    def is_batched(self) -> bool:
        """The evaluator is asked for many positions at once: there is no compiled leaf to ask for one."""
        return self._batched is not None

    @property
    def is_selective(self) -> bool:
        """Whether searches of the midgame leave anything out: ProbCut was fitted to the evaluator, and is wanted."""
        return self._probcut is not None

    @property
    def confidence(self) -> float:
        """How likely a search of the midgame is to find what one of full width would: 1 without ProbCut."""
        deviations = SELECTIVITY_LEVELS[self._level(DEPTH_LEVEL)]
        if deviations is not None:
            deviations = self.options.trust or deviations
        return 1.0 if deviations is None else math.erf(deviations / math.sqrt(2))

    def calibrated(self, raw: float, empties: int, depth: int) -> float:
        """The discs that a raw score of a search of so many plies stands for."""
        if self._calibration is None or not 0 < depth < empties:
            return raw
        return self._calibration.discs(raw, empties, depth)

    # --- what to search next -----------------------------------------------------------------------------------------

    def _level(self, wanted: int) -> int:
        """How selective a search of the midgame is: as wanted, if the evaluator was fitted for it."""
        return wanted if self._probcut is not None else 0

    @property
    def _ahead(self) -> tuple[int, int]:
        """How far the solver reaches beyond a search that takes as long: exactly, and for win, draw or loss."""
        if self._batched is not None:
            return BATCHED_EXACT_AHEAD, BATCHED_WLD_AHEAD
        selective = self._probcut is not None
        return EXACT_AHEAD[selective], WLD_AHEAD[selective]

    def _search_steps(self, work: _Work) -> Iterator[_Step]:
        """One ply deeper each time (or two, so that the same side moves last), then the end of the game when it comes
        within reach.

        With time as the only limit this is IAGO's rule: exact when the end is ``EXACT_AHEAD`` plies beyond the last
        depth; win, draw or loss when it is ``WLD_AHEAD`` beyond and the time would not do for two more iterations and
        the exact search.
        """
        empties = work.position.empties
        last = min(work.limit.depth or MAX_DEPTH, MAX_DEPTH)
        exact_ahead, wld_ahead = self._ahead
        plies = 2 if self.options.switches & ws.TWO_PLIES else 1
        for depth in range((last - 1) % plies + 1, min(last, empties - 1) + 1, plies):
            done, by_rule = depth - plies, work.limit.depth is None
            if by_rule and empties <= done + exact_ahead:
                break
            if by_rule and empties <= done + wld_ahead and not self._time_for_exact(work):
                yield from self._end_steps(empties, wld=True)
                break
            yield _Step(depth, self._level(TIMED_LEVEL if by_rule else DEPTH_LEVEL))
        if last >= empties:
            yield from self._end_steps(empties)

    def _time_for_exact(self, work: _Work) -> bool:
        """Whether two more iterations and the exact search after them fit, if their cost grows as it did."""
        if work.limit.seconds is None or len(work.seconds) < 2:
            return True
        before, now = work.seconds[-2:]
        growth = min(max(now / max(before, 1e-4), 1.5), 6.0)
        return now * (growth + growth**2 + growth**3) < work.limit.seconds - work.elapsed

    def _end_steps(self, empties: int, wld: bool = False) -> Iterator[_Step]:
        """To the end of the game: ever less selective, since each look orders the next one's moves."""
        if self._probcut is not None:
            for level, from_empties in SELECTIVE_EMPTIES.items():
                if empties >= from_empties:
                    yield _Step(empties, level, wld)
        yield _Step(empties, 0, wld)

    def _solve_steps(self, work: _Work, wld: bool) -> Iterator[_Step]:
        empties = work.position.empties
        if empties > PRESEARCH_EMPTIES:
            for depth in range(2, empties // 2 + 1, 2):
                yield _Step(depth, self._level(DEPTH_LEVEL))
        yield from self._end_steps(empties, wld)

    # --- running -----------------------------------------------------------------------------------------------------

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Compiled searches write into this engine's memory: two at once would end the process."""
        if not self._running.acquire(blocking=False):
            raise OthelloError(
                "this engine is searching: it does one search at a time; make an Engine for each thread, or wait"
            )
        try:
            yield
        finally:
            self._running.release()

    def _run(self, position: Position, steps, limit: Limit, on_iteration) -> Result:
        """Do the steps; what a pass or the end of the game leaves to be done is done here."""
        started = time.perf_counter()
        if position.is_over:
            final = float(position.final_score())
            return Result(None, final, True, 0, (), 0, 0.0, final)
        if position.must_pass:

            def passed(inner: Result) -> Result:
                score, raw = 0.0 - inner.score, 0.0 - inner.raw_score
                return replace(inner, move=PASS, score=score, raw_score=raw, pv=(PASS, *inner.pv))

            report = None if on_iteration is None else lambda inner: on_iteration(passed(inner))
            return passed(self._run(position.play(PASS), steps, limit, report))
        self._expired = False
        self._stop[:] = 0
        self.table.new_search()
        for space in self._workspaces:
            for counter in COUNTERS.values():
                space[counter] = 0
            space[ws.TABLE_AGE] = self.table.age
            space[ws.NODE_LIMIT] = np.iinfo(np.int64).max
            space[ws.SIDE] = (position.empties + position.black_to_move) & 1
            space.begin_search()
        if self._batched is not None:
            self._batched.begin(limit.seconds)
        work = _Work(position, limit, started, on_iteration, np.array(position.legal_moves, np.int64))
        # Without a clock, and outside the main thread, which alone hears Ctrl-C, nothing needs a second thread.
        alone = limit.seconds is None and threading.current_thread() is not threading.main_thread()
        (self._iterate if alone else self._watch)(work, steps)
        result = self._result(work)
        if result.exact and not result.wld and not self._expired:
            line = self._exact_line(position, Move(work.moves[0]), work.score)
            result = replace(result, pv=line, seconds=work.elapsed)
        return result

    def _watch(self, work: _Work, steps) -> None:
        """Search in a worker thread, and stop it when the time is up or the user interrupts."""
        future, seconds = self._pool.submit(self._iterate, work, steps), work.limit.seconds
        try:
            wait([future], None if seconds is None else max(0.0, seconds - work.elapsed))
        finally:
            # Finished, out of time or interrupted: the workers must be gone before anyone uses this memory again.
            if not future.done():
                self.stop()
                wait([future])
        future.result()

    def _iterate(self, work: _Work, steps) -> None:
        for step in steps(work):
            begun = work.elapsed
            if self._expired or not self._iteration(work, step):
                break
            work.last = step
            work.seconds += (work.elapsed - begun,)
            if work.on_iteration is not None and work.on_iteration(self._result(work)) is False:
                break

    def _iteration(self, work: _Work, step: _Step) -> bool:
        """One depth with one of the three drivers; false if it was cut short."""
        deviations = SELECTIVITY_LEVELS[step.level]
        if step.level >= DEPTH_LEVEL and step.depth < work.position.empties:
            deviations = self.options.trust or deviations
        for space in self._workspaces:
            space[ws.SELECTIVITY] = step.level
            space[ws.PROBCUT_T] = 0 if deviations is None else round(1024 * deviations)
            space.begin_iteration()
        low, high = (-SCORE_DISC, SCORE_DISC) if step.wld else (-kernels.INFINITY, kernels.INFINITY)
        driver = self._test_driver if self.options.search == "mtdf" else self._aspiration
        return driver(work, step.depth, low, high)

    def _aspiration(self, work: _Work, depth: int, low: int, high: int) -> bool:
        """A narrow window around the last value, widened on the side where it fails."""
        alpha, beta, width = low, high, ASPIRATION
        if work.last.depth:
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
        first, *others = spaces = self._workspaces[: self.options.threads if depth >= PARALLEL_DEPTH else 1]
        if work.limit.nodes is not None:
            left = work.limit.nodes - sum(space[ws.NODES] for space in self._workspaces)
            for space in spaces:
                space[ws.NODE_LIMIT] = space[ws.NODES] + max(left, 0) // len(spaces)

        def run(space):
            values = np.full(len(work.moves), -kernels.INFINITY, np.int64)
            space[ws.ABORTED] = 0
            score = kernels.root(
                self.leaf, space.address, mover, opponent, work.moves, values,
                np.int64(alpha), np.int64(beta), np.int64(depth),
            )  # fmt: skip
            complete = not space[ws.ABORTED]
            if complete and others:
                self._stop[FINISHED] = 1  # the others need not finish
            return int(score), values, complete, space[ws.ROOT_DONE]

        if self._batched is not None and depth < position.empties:
            results = [self._batched.root(position, work.moves, (alpha, beta), depth, work.score, self._pool)]
        else:
            self._busy.marks[:] = 0  # a thread that was stopped has left its marks behind
            futures = [self._pool.submit(run, space) for space in others]
            results = [run(first)]
            results += [future.result() for future in futures]
        self._stop[FINISHED] = 0
        out_of_nodes = any(space[ws.NODES] >= space[ws.NODE_LIMIT] for space in spaces)
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
        if not (self._expired or out_of_nodes or self._stop[ASKED]):
            raise RuntimeError("a search stopped without a reason")
        return None

    # --- results -----------------------------------------------------------------------------------------------------

    def _result(self, work: _Work) -> Result:
        move, last = Move(work.moves[0]), work.last
        exact = last.depth == work.position.empties and last.level == 0
        raw = work.score / SCORE_DISC
        score = self.calibrated(raw, work.position.empties, last.depth)
        counters = {name: sum(space[offset] for space in self._workspaces) for name, offset in COUNTERS.items()}
        return Result(
            move=move,
            score=float(np.sign(score)) if exact and last.wld else score,
            raw_score=raw,
            exact=exact,
            depth=last.depth,
            pv=self._line(work.position, move),
            seconds=work.elapsed,
            wld=last.wld,
            selectivity=last.level,
            **counters,
        )

    def _line(self, position: Position, move: Move) -> tuple[Move, ...]:
        """The moves that the table expects, beginning with ``move``."""
        line = [move]
        position = position.play(move)
        while not position.is_over:
            if position.must_pass:
                line.append(PASS)
                position = position.play(PASS)
                continue
            reply = self._table_move(position)
            if reply is None:
                break
            line.append(reply)
            position = position.play(reply)
        return tuple(line)

    def _exact_line(self, position: Position, move: Move, score: int) -> tuple[Move, ...]:
        """Best play to the end of the game. What the table has lost is searched again, within reason."""
        line = [move]
        position = position.play(move)
        while not position.is_over:
            score = -score
            move = PASS
            if not position.must_pass:
                moves = np.array(position.legal_moves, np.int64)
                remembered = self._table_move(position)
                if remembered is not None:
                    moves = np.r_[remembered, moves[moves != remembered]]
                spent = sum(space[ws.NODES] for space in self._workspaces)
                work = _Work(position, Limit(nodes=spent + LINE_NODES), time.perf_counter(), None, moves)
                if self._root(work, position.empties, score - 1, score) is None:
                    break
                move = Move(work.moves[0])
            line.append(move)
            position = position.play(move)
        return tuple(line)

    def _table_move(self, position: Position) -> Move | None:
        mover, opponent = np.uint64(position.mover), np.uint64(position.opponent)
        data = self._table_data(mover, opponent)
        if self._batched is not None and not position.black_to_move:
            data = self._table_data(~mover, opponent) or data
        square = int(data_move(data)) if data else PASS
        return Move(square) if position.legal_mask >> max(square, 0) & 1 and square >= 0 else None

    def _table_data(self, mover: np.uint64, opponent: np.uint64) -> int:
        bucket = bucket_address(self.table.address, np.uint64(self.table.mask), mover, opponent)
        return table_probe(bucket, mover, opponent)


COUNTERS = {"nodes": ws.NODES, "cut_nodes": ws.CUT_NODES, "cut_first": ws.CUT_FIRST, "cut_moves": ws.CUT_MOVES}


def search(position: Position, evaluator=None, limit: Limit | None = None, options: Options | None = None) -> Result:
    """The best move for the side to move; see ``Engine.search``. Without an evaluator, with the shipped one."""
    return Engine(evaluator or shipped_evaluator(), options).search(position, limit)


def solve(position: Position, evaluator=None, *, wld: bool = False, options: Options | None = None) -> Result:
    """The exact value of a position; see ``Engine.solve``. Without an evaluator, with the shipped one."""
    return Engine(evaluator or shipped_evaluator(), options).solve(position, wld=wld)
