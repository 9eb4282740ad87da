"""The clocks: their division of the time on a simulated clock, then whole games of one second on the real one."""

import random
import time
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from othello_nn.engine import Engine, Limit, Options, Result
from othello_nn.engine.clock import (
    CLOCKS,
    IagoClock,
    PredictedDepthClock,
    allocation_fractions,
    make_clock,
    marginal_values,
    next_iteration_seconds,
    solver_reach,
)
from othello_nn.engine.leaf.mobility import Mobility
from othello_nn.game import PASS, Position

ODD_MOVES = list(range(60, 0, -2))  # empties at the moves of the side that begins
EVEN_MOVES = list(range(59, 0, -2))
# Three passes by the opponent give the beginner 33 moves, the worst place for them being the end.
MANY_MOVES = sorted({*ODD_MOVES, 5, 3, 1}, reverse=True)


def board(empties: int, moves: int = 10):
    return SimpleNamespace(empties=empties, legal_moves=tuple(range(moves)))


@dataclass
class FakeEngine:
    """An engine whose iterations take as long as they are told to, on no clock but the results'."""

    first: float = 0.001
    growth: float = 2.6
    exact_at: int = -1
    most_depth: int = 60
    calls: list[Limit] = field(default_factory=list)
    solves: int = 0

    def search(self, position, limit, on_iteration=None) -> Result:
        self.calls.append(limit)
        seconds, depth = 0.0, 0
        while depth < min(limit.depth or 60, self.most_depth):
            step = self.first * self.growth**depth
            if limit.seconds is not None and seconds + step > limit.seconds:
                seconds = limit.seconds
                break
            seconds, depth = seconds + step, depth + 1
            result = self.result(position, depth, seconds)
            if on_iteration is not None and on_iteration(result) is False:
                return result
        return self.result(position, depth, seconds)

    def solve(self, position, *, limit, on_iteration=None) -> Result:
        self.solves += 1
        return self.search(position, limit, on_iteration)

    def result(self, position, depth, seconds) -> Result:
        exact = position.empties <= self.exact_at or depth >= position.empties
        return Result(0, 0.0, exact, depth, (0,), round(seconds * 1e6) + 1, seconds)


class Greedy(FakeEngine):
    """Takes all the time it may have, and finishes nothing beyond the first ply."""

    def search(self, position, limit, on_iteration=None) -> Result:
        self.calls.append(limit)
        return self.result(position, 1, 0.0004 if limit.seconds is None else limit.seconds)


def play_through(keeper, engine, empties_list, game_seconds, overhead=0.0005) -> float:
    """The time left after these moves."""
    left = game_seconds
    for empties in empties_list:
        left -= keeper.think(engine, board(empties), left).seconds + overhead
        assert left > 0, f"out of time at {empties} empties"
    return left


# --- IAGO's shares ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver_empties", [12, 18, 20, 26])
def test_values_and_fractions(solver_empties):
    values, fractions = marginal_values(solver_empties), allocation_fractions(solver_empties)
    assert len(values) == len(fractions) == 61
    assert sum(values[1::2]) == pytest.approx(1)
    assert sum(values[2::2]) == pytest.approx(1)
    assert values[1] < min(values[3:30:2]) / 5, "the first move is a choice between mirror images"
    # A number is odd for one side and even for the other, so the peak is one of two.
    assert 61 - max(range(1, 61), key=values.__getitem__) in (solver_empties, solver_empties + 1)
    for number in range(1, 61):
        assert 0 < fractions[number] <= 0.5
        unreduced = values[number] / sum(values[number::2])
        assert fractions[number] == pytest.approx(min(unreduced, 0.5))
    assert fractions[60] == 0.5, "the last move leaves something for one more"


def test_the_solver_reaches_further_in_longer_games():
    reaches = [solver_reach(seconds) for seconds in (0.0, 0.1, 1, 10, 60, 300, 1800, 1e9)]
    assert reaches == sorted(reaches)
    assert reaches[0] == 12
    assert reaches[-1] == 26


@pytest.mark.parametrize("name", CLOCKS)
@pytest.mark.parametrize("empties_list", [ODD_MOVES, EVEN_MOVES, MANY_MOVES], ids=["odd", "even", "33 moves"])
@pytest.mark.parametrize("game_seconds", [0.05, 1.0, 60.0, 1800.0])
def test_a_greedy_engine_never_oversteps(name, empties_list, game_seconds):
    left = play_through(make_clock(name), Greedy(), empties_list, game_seconds)
    if game_seconds >= 1:
        # 30 overheads apart, only the reserve is left of a clock that is always used up to the limit.
        assert left < 0.3 * game_seconds


@pytest.mark.parametrize("empties_list", [ODD_MOVES, EVEN_MOVES, MANY_MOVES], ids=["odd", "even", "33 moves"])
def test_shares_use_most_of_the_clock(empties_list):
    keeper, left = IagoClock(), 1800.0
    keeper.think(FakeEngine(), board(60), left)
    for empties in empties_list:
        share = keeper.allotment(empties, left)
        left -= share + keeper.overhead_seconds
    assert 1800 / 60 < left < 1800 / 6


@pytest.mark.parametrize("name", CLOCKS)
def test_more_time_is_a_larger_share(name):
    for empties in range(60, 0, -1):
        limits = []
        for seconds in (0.0, 0.01, 0.1, 0.5, 0.9, 1.0, 2.3, 2.5, 10, 60, 61, 1800):
            keeper = make_clock(name)
            keeper.think(FakeEngine(), board(empties), seconds)
            limits.append(keeper.allotment(empties, seconds))
        assert limits == sorted(limits), f"{empties} empties"


def test_the_clock_notices_a_new_game():
    keeper, engine = IagoClock(), FakeEngine()
    play_through(keeper, engine, ODD_MOVES, 1800.0)
    assert keeper.solved
    keeper.think(engine, board(60), 60.0)
    assert not keeper.solved
    assert keeper.game_seconds == 60
    assert keeper.reserve_seconds(60) == keeper.reserve_seconds(20) == pytest.approx(5)
    assert keeper.reserve_seconds(1) == pytest.approx(5 * 0.43)


@pytest.mark.parametrize("name", CLOCKS)
def test_a_slow_connection_is_measured(name):
    keeper, engine = make_clock(name), FakeEngine()
    left = play_through(keeper, engine, ODD_MOVES[:10], 60.0, overhead=0.5)
    assert keeper.overhead_seconds == pytest.approx(0.5)
    near = keeper.allotment(40, left)
    assert near == pytest.approx(keeper.fraction(40) * (left - 5 - 20 * 0.5))
    keeper.think(engine, board(40), left)
    keeper.think(engine, board(38), left - 5)  # one stall is no new normal
    assert keeper.overhead_seconds == pytest.approx(0.5)


# --- IAGO's iterations -----------------------------------------------------------------------------------------------


def test_iterations_are_predicted_from_those_before():
    assert next_iteration_seconds([0.00001]) == pytest.approx(0.000026)
    assert next_iteration_seconds([0.001 * 2.6**i for i in range(6)]) == pytest.approx(0.001 * 2.6**6)
    slow = next_iteration_seconds([0.001 * 2**i for i in range(6)]) / (0.001 * 2**5)
    assert 2 < slow < 2.6, "what is measured moves the estimate, the usual factor holds it"
    assert next_iteration_seconds([0.001, 1.0]) < 8, "a jump is not taken for a branching factor"


def test_an_iteration_begins_only_if_three_root_moves_can_be_searched():
    for moves, part in ((10, 0.3 + 0.7 * 2 / 9), (3, 1.0), (2, 1.0)):
        keeper = IagoClock()
        keeper.think(FakeEngine(), board(60), 1800.0)
        share = keeper.allotment(40, 1800.0)
        result = keeper.think(FakeEngine(), board(40, moves), 1800.0)
        steps = [0.001 * 2.6**i for i in range(60)]
        depth = 1
        while sum(steps[:depth]) + part * steps[depth] <= share:
            depth += 1
        finished = sum(steps[:depth]) <= 1.3 * share
        assert result.depth == (depth if finished else depth - 1)
        assert result.seconds <= 1.3 * share


def test_the_hard_limit_is_1_3_shares_and_a_listener_may_end_the_search():
    keeper, engine, seen = IagoClock(), FakeEngine(), []
    keeper.think(engine, board(60), 1800.0)
    keeper.think(engine, board(40), 1800.0, lambda result: seen.append(result.depth) or len(seen) < 3)
    assert seen == [1, 2, 3]
    assert engine.calls[-1].depth is None
    assert engine.calls[-1].seconds == pytest.approx(1.3 * keeper.allotment(40, 1800.0))


# --- the predicted depth ---------------------------------------------------------------------------------------------


def test_depth_follows_the_formula():
    keeper = PredictedDepthClock()
    assert keeper.depth(1.0) == 8
    keeper._searches.append((8, 3**8, 3**8 * 1e-6))
    assert keeper.depth(1.0) == 8, "two searches come first"
    keeper._searches.append((10, 3**10, 3**10 * 1e-6))
    # b = 3 and 1 µs a node: 3^11.3 nodes are 11.3 + 0.7 = 12 plies, a little less are 11 and so 10.
    assert keeper.depth(1e-6 * 3**11.31) == 12
    assert keeper.depth(1e-6 * 3**11.29) == 10
    assert keeper.depth(1e-9) == 4
    assert keeper.depth(1e9) == 16
    keeper.new_game()
    assert keeper.depth(1e9) == 8


def test_what_the_table_knew_is_no_branching_factor():
    keeper, engine = PredictedDepthClock(), FakeEngine(first=1e-6, growth=3, most_depth=8)
    keeper.think(engine, board(60), 60.0)
    engine.most_depth = 6
    keeper.think(engine, board(58), 59.0)
    assert [depth for depth, _, _ in keeper._searches] == [8]
    keeper.think(engine, board(56), 58.0)  # as deep as the one before, so its last two plies were new
    assert [depth for depth, _, _ in keeper._searches] == [8, 6]


def test_two_fixed_depths_then_predicted_ones_then_the_end():
    keeper, engine = PredictedDepthClock(), FakeEngine(first=1e-6, growth=3)
    play_through(keeper, engine, ODD_MOVES, 60.0)
    depths = [limit.depth for limit in engine.calls]
    assert depths[:2] == [8, 8]
    assert set(depths[2:22]) <= {10, 12, 14, 16}
    assert engine.solves == 7, "14 empties and fewer are searched to the end"


def test_an_ended_search_begins_again_and_no_depth_is_tried_three_times():
    keeper, engine = PredictedDepthClock(), FakeEngine(first=0.005, growth=3)
    keeper.think(engine, board(60), 60.0)
    keeper.think(engine, board(58), 59.0)
    engine.calls.clear()
    keeper._searches.extend([(8, 500, 0.0001)] * 2)  # so fast that it must predict too much
    share = keeper.allotment(40, 30.0)
    result = keeper.think(engine, board(40), 30.0)
    depths = [limit.depth for limit in engine.calls]
    assert engine.calls[0].seconds == pytest.approx(2 * share)
    assert depths == [16, 16, 14]  # and then a quarter of the time is gone
    assert result.seconds == pytest.approx(sum(limit.seconds for limit in engine.calls))
    assert result.depth >= 4


def test_a_stopped_search_is_not_begun_again():
    keeper, engine = PredictedDepthClock(), FakeEngine(first=1e-5)
    result = keeper.think(engine, board(40), 60.0, lambda result: result.depth < 3)
    assert result.depth == 3
    assert len(engine.calls) == 1


# --- moves that need no thought --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CLOCKS)
def test_forced_moves_and_empty_clocks_get_a_quick_look(name):
    for position, seconds in ((board(30, 1), 1800.0), (board(30, 0), 1800.0), (board(30), 0.002), (board(30), -1.0)):
        engine = FakeEngine()
        make_clock(name).think(engine, position, seconds)
        assert engine.calls == [Limit(depth=2)]
    engine = FakeEngine()
    make_clock(name).think(engine, board(10), 0.001)
    assert engine.calls == [Limit(depth=10)]


def test_a_stalled_first_iteration_does_not_end_the_search():
    keeper = IagoClock()
    keeper.think(FakeEngine(), board(60), 1.0)
    assert keeper.think(FakeEngine(first=0.018, growth=0.01), board(40), 1.0).depth > 1


@pytest.mark.parametrize("name", CLOCKS)
def test_a_search_without_one_ply_is_made_good(name):
    engine = FakeEngine(first=1e9)
    make_clock(name).think(engine, board(40), 1.0)
    assert engine.calls[-1] == Limit(depth=2)


@pytest.mark.parametrize("seconds", [float("inf"), float("nan")])
def test_the_clock_must_be_finite(seconds):
    with pytest.raises(ValueError, match="finite"):
        IagoClock().think(FakeEngine(), board(40), seconds)


def test_nothing_to_play(engines):
    over = Position.parse("e6f4e3f6g5d6e7f5c5")
    assert over.is_over
    full = Position(2**64 - 1, 0)
    for position in (over, full):
        assert make_clock().think(engines[0], position, 1.0).move is None


def test_names():
    assert type(make_clock()) is IagoClock
    assert type(make_clock("predict")) is PredictedDepthClock
    with pytest.raises(ValueError, match="clock is 'x'; it must be iago or predict"):
        make_clock("x")


# --- the real engine -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def engines():
    pair = [Engine(Mobility(), Options(table_mb=4)) for _ in range(2)]
    for engine in pair:  # compile before any clock runs
        engine.search(Position.start(), Limit(depth=3))
        engine.solve(Position.parse("f5d6c3d3c4"), limit=Limit(seconds=0.01))
    return pair


def opening(rng: random.Random, plies: int = 6) -> Position:
    position = Position.start()
    for _ in range(plies):
        position = position.play(rng.choice(position.legal_moves))
    return position


def play_game(engines, keepers, position, game_seconds) -> list[float]:
    """Black's and white's time left after a whole game, each lasting as long as the wall says."""
    left = [game_seconds, game_seconds]
    while not position.is_over:
        side = 0 if position.black_to_move else 1
        started = time.perf_counter()
        result = keepers[side].think(engines[side], position, left[side])
        left[side] -= time.perf_counter() - started
        assert left[side] > 0, f"{type(keepers[side]).__name__} lost on time with {position.empties} empties"
        position = position.play(result.move)
    return left


@pytest.mark.slow  # by the clock
def test_no_loss_on_time_in_games_of_one_second(engines):
    rng, keepers = random.Random(3), [make_clock("iago"), make_clock("predict")]
    for game in range(4):
        left = play_game(engines, keepers, opening(rng), 1.0)
        # Depths rounded down to even ones leave `predict` much of its time; IAGO's rule should use its own.
        assert left[game % 2] < 0.5
        keepers.reverse()


@pytest.mark.parametrize("name", CLOCKS)
def test_a_tiny_clock_still_gets_a_move(engines, name):
    position = Position.parse("f5d6c3d3c4f4f6b4")
    result = make_clock(name).think(engines[0], position, 0.004)
    assert result.move in position.legal_moves
    assert result.depth == 2
    assert result.nodes < 1000, "a fraction of a millisecond"


@pytest.mark.parametrize("name", CLOCKS)
def test_a_pass_and_a_solved_game_cost_nothing(engines, name):
    keeper = make_clock(name)
    must_pass = Position.parse("e6f6d3e7e8d8g6f8")
    result = keeper.think(engines[0], must_pass, 60.0)
    assert result.move == PASS
    assert result.nodes < 1000
    # A solved game: the same position again two plies later is found in the table.
    rng = random.Random(5)
    position = opening(rng, 48)
    first = keeper.think(engines[0], position, 60.0)
    assert first.exact
    assert keeper.solved
    later = position.play(first.move)
    later = later.play(rng.choice(later.legal_moves) if later.legal_moves else PASS)
    second = keeper.think(engines[0], later, 59.0)
    assert second.exact
    assert second.nodes < 10_000, "milliseconds"
