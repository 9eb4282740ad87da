"""Limits on a search, what it reports on its way, and ways to end it early.

That it ends is tested always. How soon is for `pytest -m slow` on a machine with nothing else to do, the best of three.
"""

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from patience import HANG_SECONDS
from strategies import endings

from othello_nn.engine import Engine, Limit, Options, Result
from othello_nn.game import PASS, OthelloError, Position

ROOT = Path(__file__).resolve().parent.parent
MIDGAME = Position.parse("e6f4d3c4c3d6f6c6f5g5f3e7f7g6e8g3")
"""A real game after 16 plies: 44 empty squares."""
# Between two looks at the limit the search may finish a depth-1 node or an ending of five squares.
NODE_MARGIN = 500


@pytest.fixture(scope="module", params=[1, 2], ids=["one thread", "two threads"])
def engine(request) -> Engine:
    return Engine(options=Options(threads=request.param, table_mb=4))


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    """Nothing here may measure the compiler."""
    Engine(options=Options(table_mb=1)).search(MIDGAME, Limit(depth=2))


def hard_ending() -> Position:
    """Minutes to solve: 28 empty squares."""
    return next(Position(*pair) for pair in endings(1, 1, 28, 28) if Position(*pair).legal_mask)


how_soon = pytest.mark.parametrize("soon", [HANG_SECONDS, pytest.param(0.02, marks=pytest.mark.slow)])


def best_of_three(measure) -> float:
    return min(measure() for _ in range(3))


def test_depth(engine):
    for depth in (1, 2, 5, 10):
        result = engine.search(MIDGAME, Limit(depth=depth))
        assert (result.depth, result.exact) == (depth, False)


@pytest.mark.parametrize("nodes", [1, 2, 50, 3_000, 200_000])
def test_nodes(engine, nodes):
    for position in (Position.start(), MIDGAME, hard_ending(), Position(*endings(2, 1, 16, 16)[0])):
        engine.clear()
        for result in (engine.search(position, Limit(nodes=nodes)), engine.solve(position, limit=Limit(nodes=nodes))):
            assert 0 < result.nodes <= nodes + NODE_MARGIN * engine.options.threads
            assert result.move in position.legal_moves
            assert result.exact or result.nodes > nodes // engine.options.threads


@how_soon
@pytest.mark.parametrize("seconds", [0.02, 0.2])
def test_seconds(engine, seconds, soon):
    def overrun() -> float:
        engine.clear()
        begun = time.perf_counter()
        result = engine.search(MIDGAME, Limit(seconds=seconds))
        taken = time.perf_counter() - begun
        assert taken >= seconds
        assert result.move in MIDGAME.legal_moves
        return taken - seconds

    assert best_of_three(overrun) < soon


@how_soon
def test_seconds_while_solving(engine, soon):
    def overrun() -> float:
        engine.clear()
        begun = time.perf_counter()
        result = engine.solve(hard_ending(), limit=Limit(seconds=0.1))
        assert not result.exact
        assert result.move in hard_ending().legal_moves
        return time.perf_counter() - begun - 0.1

    assert best_of_three(overrun) < soon


def test_no_limit_means_one_second():
    begun = time.perf_counter()
    Engine(options=Options(table_mb=4)).search(MIDGAME)
    assert 1.0 <= time.perf_counter() - begun < HANG_SECONDS


def test_the_first_limit_counts(engine):
    engine.clear()
    assert engine.search(MIDGAME, Limit(depth=3, nodes=10**9, seconds=100)).depth == 3
    assert engine.search(MIDGAME, Limit(depth=40, nodes=5_000, seconds=100)).nodes < 5_000 + 2 * NODE_MARGIN
    begun = time.perf_counter()
    engine.search(MIDGAME, Limit(depth=40, nodes=10**12, seconds=0.05))
    assert time.perf_counter() - begun < HANG_SECONDS


def stop_after(engine: Engine, seconds: float, run) -> tuple[Result, float]:
    """The result of `run` when the engine is told to stop, and how long it took to end."""
    results: list[Result] = []
    worker = threading.Thread(target=lambda: results.append(run()))
    worker.start()
    time.sleep(seconds)
    begun = time.perf_counter()
    engine.stop()
    worker.join()
    return results[0], time.perf_counter() - begun


@how_soon
@pytest.mark.parametrize("what", ["search", "solve"])
def test_stop_ends_a_search_at_once(engine, what, soon):
    position = MIDGAME if what == "search" else hard_ending()

    def run() -> Result:
        engine.clear()
        return engine.search(position, Limit(depth=40)) if what == "search" else engine.solve(position)

    def delay() -> float:
        result, delay = stop_after(engine, 0.15, run)
        assert result.move in position.legal_moves
        assert not result.exact
        return delay

    assert best_of_three(delay) < soon


def check_usable(engine: Engine) -> None:
    """The engine is as good as new: it finds what a new one finds."""
    mover, opponent = endings(3, 1, 13, 13)[0]
    fresh = Engine(options=Options(table_mb=4))
    assert engine.solve(Position(mover, opponent)).score == fresh.solve(Position(mover, opponent)).score
    engine.clear()
    found, expected = engine.search(MIDGAME, Limit(depth=8)), fresh.search(MIDGAME, Limit(depth=8))
    assert (found.depth, found.score) == (expected.depth, expected.score)


def test_an_engine_works_after_being_stopped(engine):
    stop_after(engine, 0.05, lambda: engine.search(MIDGAME, Limit(depth=40)))
    check_usable(engine)
    engine.stop()  # with nothing to stop
    check_usable(engine)


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs POSIX signals")
def test_an_engine_works_after_ctrl_c(engine):
    """The interrupt reaches the caller, but only when no thread is left that writes into the engine's memory."""
    main = threading.main_thread().ident
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        searching = threading.Event()

        def press() -> None:
            if searching.wait(HANG_SECONDS):
                time.sleep(0.05)  # in the middle of an iteration
                signal.pthread_kill(main, signal.SIGINT)

        threading.Thread(target=press).start()
        begun = time.perf_counter()
        with pytest.raises(KeyboardInterrupt):
            engine.search(MIDGAME, Limit(seconds=1000), lambda result: searching.set())
        assert time.perf_counter() - begun < HANG_SECONDS
    finally:
        signal.signal(signal.SIGINT, handler)
    check_usable(engine)


def test_one_search_at_a_time(engine):
    """A second one in the same memory used to crash the process."""
    begun, refused = threading.Event(), []

    def look(result: Result) -> bool:
        begun.set()
        return not refused  # goes on until the others have been told

    def intrude() -> None:
        assert begun.wait(HANG_SECONDS)
        for call in (lambda: engine.search(MIDGAME, Limit(depth=3)), lambda: engine.solve(MIDGAME), engine.clear):
            with pytest.raises(OthelloError, match="one search at a time"):
                call()
        refused.append(True)
        engine.stop()

    intruder = threading.Thread(target=intrude)
    intruder.start()
    engine.search(MIDGAME, Limit(seconds=1000), look)
    intruder.join(HANG_SECONDS)
    assert refused
    check_usable(engine)


def test_a_search_cannot_be_started_from_its_own_reports(engine):
    with pytest.raises(OthelloError, match="one search at a time"):
        engine.search(MIDGAME, Limit(depth=3), lambda result: engine.search(MIDGAME, Limit(depth=1)))
    check_usable(engine)


THREADS = """
import json, random, threading
from othello_nn import Engine, Limit, OthelloError, Position
from othello_nn.engine.leaf.compile import shipped_evaluator

engine, counts = Engine(shipped_evaluator()), {"searched": 0, "refused": 0}

def work(seed):
    rng = random.Random(seed)
    for _ in range(50):
        position = Position.start()
        for _ in range(rng.randint(5, 45)):
            if position.legal_moves:
                position = position.play(rng.choice(position.legal_moves))
        try:
            engine.search(position, Limit(depth=7))
            counts["searched"] += 1
        except OthelloError:
            counts["refused"] += 1

threads = [threading.Thread(target=work, args=[seed]) for seed in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(json.dumps(counts))
"""


def test_four_threads_on_one_engine_do_not_crash():
    done = subprocess.run([sys.executable, "-c", THREADS], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done
    counts = json.loads(done.stdout)
    assert counts["searched"] > 0
    assert counts["searched"] + counts["refused"] == 200


def test_an_error_in_the_callback_reaches_the_caller(engine):
    def fail(result: Result) -> None:
        raise ZeroDivisionError(f"depth {result.depth}")

    with pytest.raises(ZeroDivisionError, match="depth 1"):
        engine.search(MIDGAME, Limit(depth=5), on_iteration=fail)
    check_usable(engine)


def test_iterations_are_reported_and_may_end_the_search(engine):
    seen: list[Result] = []
    engine.clear()
    result = engine.search(Position.start(), Limit(depth=6), on_iteration=seen.append)
    assert [step.depth for step in seen] == [1, 2, 3, 4, 5, 6]
    assert (seen[-1].score, seen[-1].move, seen[-1].pv) == (result.score, result.move, result.pv)
    assert [step.nodes for step in seen] == sorted({step.nodes for step in seen})
    result = engine.search(Position.start(), Limit(depth=6), on_iteration=lambda step: step.depth < 3)
    assert result.depth == 3


def test_a_pass_and_a_single_move(engine):
    engine.clear()
    passing = Position.parse("e6f6d3e7e8d8g6f8")
    assert passing.must_pass
    result = engine.search(passing, Limit(depth=5))
    assert (result.move, result.pv[0]) == (PASS, PASS)
    engine.clear()
    after = engine.search(passing.play(PASS), Limit(depth=5))
    assert (result.score, result.pv[1:], result.depth) == (-after.score, after.pv, after.depth)
    drawn = (Position(*pair) for pair in endings(41, 100, 10, 30))
    single = next(position for position in drawn if len(position.legal_moves) == 1)
    result = engine.search(single, Limit(depth=5))
    assert (result.move,) == single.legal_moves


def test_iterations_of_a_pass_are_reported(engine):
    seen: list[Result] = []
    passing = Position.parse("e6f6d3e7e8d8g6f8")
    result = engine.search(passing, Limit(depth=3), on_iteration=seen.append)
    assert [(step.move, step.depth) for step in seen] == [(PASS, 1), (PASS, 2), (PASS, 3)]
    assert (seen[-1].score, seen[-1].pv) == (result.score, result.pv)


def test_limits_hold_for_a_pass(engine):
    passing = Position.parse("e6f6d3e7e8d8g6f8")
    assert passing.must_pass
    result = engine.search(passing, Limit(nodes=1000))
    assert result.move == PASS
    assert result.nodes <= 1000 + 2 * NODE_MARGIN
    begun = time.perf_counter()
    engine.search(passing, Limit(seconds=0.05))
    assert time.perf_counter() - begun < HANG_SECONDS


def test_a_finished_game_needs_no_time(engine):
    over = Position.parse("e6f4e3f6g5d6e7f5c5")
    for result in (engine.search(over), engine.solve(over), engine.search(over, Limit(nodes=1))):
        assert (result.move, result.score, result.nodes, result.pv) == (None, -64, 0, ())


@pytest.mark.parametrize("limit", [{"depth": 0}, {"nodes": -1}, {"seconds": 0.0}, {"seconds": float("nan")}])
def test_impossible_limits(limit):
    [name] = limit
    with pytest.raises(ValueError, match=rf"limit\.{name} is .*; it must be a"):
        Limit(**limit)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"search": "minimax"}, "search is 'minimax'; it must be negascout, alphabeta or mtdf"),
        ({"threads": 0}, "threads is 0; it must be a whole number from 1 to 64"),
        ({"threads": 65}, "threads is 65; it must be a whole number from 1 to 64"),
        ({"table_mb": 0}, "table_mb is 0; it must be a number of megabytes from 0.01 to 1,048,576"),
    ],
)
def test_impossible_options(options, message):
    with pytest.raises(ValueError, match=message):
        Options(**options)
