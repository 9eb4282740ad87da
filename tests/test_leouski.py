"""Leouski's training: kernels against the torch net, a plain minimax and autograd; resuming; what it learns."""

import itertools
import math

import numpy as np
import pytest
import torch
from strategies import endings, scattered

from othello_nn.checkpoint import check_positions
from othello_nn.config import Leouski
from othello_nn.engine.leaf.compile import ColouredEvaluator
from othello_nn.errors import OthelloError
from othello_nn.game import rules
from othello_nn.game.rules import PASS, START_MOVER, START_OPPONENT, squares_in
from othello_nn.kernels.chance import ALWAYS, random_stream
from othello_nn.learn import triangle_kernels
from othello_nn.learn.leouski import LeouskiLearner, gradient_of_game, play_game, search
from othello_nn.learn.triangle_kernels import ROOT, begin, value_at

SMALL = {"kind": "triangle", "maps": 3}
STAGED = {"kind": "staged", "net": SMALL}
INNER = {
    "single": SMALL,
    "twelve maps": {"kind": "triangle"},
    "empties": SMALL | {"empties": True, "scale": 7.0},
    "symmetric": SMALL | {"symmetric": True},
    "staged": STAGED,
    "gate": STAGED | {"gate": "learned", "net": SMALL | {"empties": True, "symmetric": True}, "centres": [10, 50]},
}
DENSE = {"kind": "dense", "hidden": 7}
INNER["dense"] = DENSE
every_kind = pytest.mark.parametrize("inner", INNER.values(), ids=INNER)


@pytest.fixture(autouse=True)
def _one_thread():
    """Threads that wait for each other on a busy machine take longer than the work."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def learner(inner=SMALL, seed=0, games_per_step=20, **options) -> LeouskiLearner:
    config, counts = {"kind": "doubled", "net": inner}, {"games_per_step": games_per_step, "total_games": 15_000}
    return LeouskiLearner(config, Leouski(**options), seed=seed, **counts)


def plain_squash(x: float) -> float:
    return math.tanh(x / 2)


class Plain:
    """The search by definition: the torch net in double precision, and the rules that can be checked by eye."""

    def __init__(self, learner: LeouskiLearner):
        # The learner must be as it started, when its numbers are those of a float32 net.
        self.net, self.scale = learner.net().double(), learner.hyper.scale

    def values(self, positions: list[tuple[int, int]], black: bool) -> list[float]:
        """What positions are worth to the mover, who has the same colour in all of them."""
        boards = (torch.from_numpy(np.array(side, np.uint64).view(np.int64)) for side in zip(*positions, strict=True))
        with torch.no_grad():
            return self.net(*boards, torch.full((len(positions),), black)).tolist()

    def leaves(self, positions: list[tuple[int, int]], black: bool) -> list[float]:
        """The same, with the squashed margin where the game is over."""
        values = self.values(positions, black)
        for i, (mover, opponent) in enumerate(positions):
            if not rules.legal_mask(mover, opponent) and not rules.legal_mask(opponent, mover):
                values[i] = plain_squash(rules.final_score(mover, opponent) / self.scale)
        return values

    def moves(self, mover: int, opponent: int, black: bool) -> dict[int, float]:
        """What each move is worth at two plies."""
        values = {}
        for square in squares_in(rules.legal_mask(mover, opponent)):
            other, own = rules.play(mover, opponent, square)
            replies = squares_in(rules.legal_mask(other, own)) or [PASS]
            values[square] = min(self.leaves([rules.play(other, own, reply) for reply in replies], black))
        return values


def searched(learner: LeouskiLearner, mover: int, opponent: int, black: bool) -> tuple[int, float]:
    colour = triangle_kernels.BLACK if black else triangle_kernels.WHITE
    boards = np.uint64(mover), np.uint64(opponent)
    begin(learner.nets, learner.work, colour, *boards)
    moves = np.uint64(rules.legal_mask(mover, opponent))
    address, state = learner.workspace.address, np.uint64(1)
    square, value, _ = search(learner.nets, learner.work, learner.hyper, address, colour, *boards, moves, state)
    return square, value


def played(learner: LeouskiLearner, number: int = 0) -> list[tuple[int, int, bool, float, float]]:
    """The turns of a game: mover, opponent, black to move, P_t, P_{t+1}."""
    state = np.uint64(random_stream(np.uint64(learner.seed), np.uint64(number)))
    turns, _ = play_game(learner.nets, learner.work, learner.hyper, learner.workspace.address, state)
    work = learner.work
    columns = (work.movers, work.opponents, work.colours == triangle_kernels.BLACK, work.predictions, work.targets)
    return list(zip(*(column[:turns].tolist() for column in columns), strict=True))


# --- the net ---------------------------------------------------------------------------------------------------------


def test_squash():
    for x in [0.0, 1e-9, *np.linspace(-60, 60, 1001)]:
        assert triangle_kernels.squash(x) == pytest.approx(plain_squash(x), abs=1e-12)
    assert triangle_kernels.squash(1e300) == 1
    assert triangle_kernels.squash(-math.inf) == -1


@every_kind
def test_values_are_the_nets(inner):
    one = learner(inner, seed=3)
    plain = Plain(one)
    for mover, opponent, black in zip(*check_positions(60, seed=1), strict=True):
        colour = triangle_kernels.BLACK if black else triangle_kernels.WHITE
        begin(one.nets, one.work, colour, mover, opponent)
        found = value_at(one.nets, one.work, ROOT, colour, int(mover | opponent).bit_count())
        assert found == pytest.approx(plain.values([(int(mover), int(opponent))], bool(black))[0], abs=1e-11)


def test_starts_between_minus_one_and_one():
    one = learner({"kind": "triangle"}, seed=5)
    for name, array in one.state().items():
        if name != "games":
            assert np.abs(array).max() <= 1
    weights = one.state()["white.weights"]
    assert weights.min() < -0.9
    assert weights.max() > 0.9
    assert not np.array_equal(weights, one.state()["black.weights"])


# --- the search ------------------------------------------------------------------------------------------------------


@every_kind
def test_two_plies_are_minimax(inner):
    one = learner(inner, ignore=0.0, exact_below=0, seed=1)
    plain = Plain(one)
    # Boards filled at random are full of passes, early ends and wipe-outs.
    boards = endings(2, 1, 5, 59)[::6] + scattered(3, 150, 1, 12)
    tried = passes = ends = 0
    for i, (mover, opponent) in enumerate(boards):
        values = plain.moves(mover, opponent, bool(i % 2))
        if not values:
            continue
        square, value = searched(one, mover, opponent, bool(i % 2))
        assert value == pytest.approx(max(values.values()), abs=1e-10)
        assert values[square] == pytest.approx(value, abs=1e-10)
        tried += 1
        for move in values:
            other, own = rules.play(mover, opponent, move)
            if not rules.legal_mask(other, own):
                passes += bool(rules.legal_mask(own, other))
                ends += not rules.legal_mask(own, other)
    assert min(tried, passes, ends) > 10


@pytest.mark.parametrize("inner", [SMALL, STAGED | {"net": SMALL | {"scale": 5.0}}], ids=["single", "staged"])
def test_endings_are_exact(inner):
    one = learner(inner, exact_below=7, ignore=0.5)
    tried = 0
    for mover, opponent in endings(4, 25, 1, 6) + scattered(5, 60, 1, 6):
        if rules.legal_mask(mover, opponent):
            margin = rules.solve(mover, opponent)
            square, value = searched(one, mover, opponent, True)
            assert value == pytest.approx(plain_squash(margin / one.hyper.scale), abs=1e-12)
            assert -rules.solve(*rules.play(mover, opponent, square)) == margin
            tried += 1
    assert tried > 100


def test_exact_below_is_below():
    mover, opponent = next(board for board in endings(6, 3, 6, 6) if rules.legal_mask(*board))
    exact = plain_squash(rules.solve(mover, opponent) / 10)
    assert searched(learner(exact_below=7, ignore=0.0), mover, opponent, True)[1] == pytest.approx(exact)
    values = Plain(learner(ignore=0.0)).moves(mover, opponent, True)
    found = searched(learner(exact_below=6, ignore=0.0), mover, opponent, True)[1]
    assert found == pytest.approx(max(values.values()))
    assert abs(found - exact) > 1e-3


# --- the game --------------------------------------------------------------------------------------------------------


def moves_made(turns) -> list[int]:
    """The square played at each turn but the last; an assertion fails where no legal move leads on."""
    assert turns[0][:3] == (START_MOVER, START_OPPONENT, True)
    squares = []
    for (mover, opponent, black, *_), (*after, next_black, _, _) in itertools.pairwise(turns):
        for square in squares_in(rules.legal_mask(mover, opponent)):
            position = list(rules.play(mover, opponent, square))
            if next_black == black and not rules.legal_mask(*position):
                position.reverse()
            if position == after:
                squares.append(square)
                break
        else:
            pytest.fail("no legal move leads to the next turn")
    return squares


@pytest.mark.parametrize("inner", [SMALL, STAGED], ids=["single", "staged"])
def test_a_game_learns_from_its_own_searches(inner):
    one = learner(inner, ignore=0.3, exact_below=6, seed=2)
    plain, not_best = Plain(one), 0
    turns = played(one, 1)
    squares = moves_made(turns)
    assert len(turns) > 40
    for (mover, opponent, black, prediction, target), square in zip(turns, squares, strict=False):
        assert prediction == pytest.approx(plain.values([(mover, opponent)], black)[0], abs=1e-10)
        if 64 - (mover | opponent).bit_count() >= 6:
            values = plain.moves(mover, opponent, black)
            assert target == pytest.approx(values[square], abs=1e-10)
            not_best += max(values.values()) > target + 1e-9
    assert not_best > 3
    # Within the ending both sides play on without a mistake, so all its targets are the same margin.
    late = [turn for turn in turns if 64 - (turn[0] | turn[1]).bit_count() < 6]
    assert len({round(target if black else -target, 9) for *_, black, _, target in late}) == 1


def test_how_often_a_better_move_is_ignored():
    def share(ignore: float) -> float:
        one = learner({"kind": "triangle", "maps": 1}, ignore=ignore, exact_below=0, seed=3)
        plain, best, decided = Plain(one), 0, 0
        for number in range(2):
            for mover, opponent, black, _, target in played(one, number):
                values = plain.moves(mover, opponent, black)
                decided += len(values) > 1
                best += len(values) > 1 and target > max(values.values()) - 1e-9
        return best / decided

    assert share(0.0) == 1
    assert 0.75 < share(0.1) < 0.98  # a best move that came first is never ignored
    assert share(0.9) < 0.6
    assert learner(ignore=0.25).hyper.ignore == ALWAYS // 4


# --- the update ------------------------------------------------------------------------------------------------------


@every_kind
def test_update_is_autograds(inner):
    one = learner(inner, games_per_step=1, seed=4)
    net, before = one.net().double(), one.state()
    turns = played(one)
    movers, opponents, blacks, predictions, targets = zip(*turns, strict=True)
    boards = (torch.from_numpy(np.array(side, np.uint64).view(np.int64)) for side in (movers, opponents))
    values = net(*boards, torch.tensor(blacks))
    torch.autograd.backward(values, torch.tensor(targets, dtype=torch.float64) - values.detach())
    one.step()
    after, changed = one.state(), 0
    assert after.keys() - {"games"} == net.state_dict().keys()
    for name, parameter in net.named_parameters():
        wanted = 0.05 * parameter.grad.numpy()
        assert after[name] - before[name] == pytest.approx(wanted, abs=1e-9), name
        changed += np.abs(wanted).max() > 1e-6
    assert changed == len(list(net.parameters()))
    for name, _ in net.named_buffers():
        assert np.array_equal(before.get(name, 0), after.get(name, 0)), name
    assert predictions == pytest.approx(values.detach().numpy(), abs=1e-10)


def test_each_colour_learns_from_its_own_turns():
    one = learner(seed=6)
    turns = played(one)
    one.work.targets[:] = np.where(
        one.work.colours == triangle_kernels.BLACK, one.work.predictions + 0.5, one.work.predictions
    )
    gradient_of_game(one.nets, one.gradient, one.work, one.hyper, len(turns))
    assert np.abs(one.gradient.outputs[triangle_kernels.BLACK]).max() > 0.01
    assert not one.gradient.outputs[triangle_kernels.WHITE].any()
    assert not one.gradient.weights[triangle_kernels.WHITE].any()


# --- the learner -----------------------------------------------------------------------------------------------------


def assert_same(left: LeouskiLearner, right: LeouskiLearner) -> None:
    one, two = left.state(), right.state()
    assert one.keys() == two.keys()
    for name in one:
        assert np.array_equal(one[name], two[name]), name


@every_kind
def test_resumed_is_uninterrupted(inner):
    options = {"seed": 7, "games_per_step": 4}
    whole = learner(inner, **options)
    metrics = [whole.step() for _ in range(3)]
    first = learner(inner, **options)
    assert first.step()["loss/td_error"] == metrics[0]["loss/td_error"]
    saved = first.state()
    first.step()  # must not change what was saved
    second = learner(inner, **options | {"seed": 7})
    second.restore(saved)
    assert second.games == 4
    assert [second.step()["loss/td_error"] for _ in range(2)] == [each["loss/td_error"] for each in metrics[1:]]
    assert_same(whole, second)
    assert whole.games == 12


def test_steps_only_group_games():
    by_two, by_six = learner(games_per_step=2), learner(games_per_step=6)
    for _ in range(3):
        by_two.step()
    by_six.step()
    assert_same(by_two, by_six)
    other = learner(games_per_step=6, seed=1)
    other.restore(learner().state())
    other.step()
    assert not np.array_equal(other.state()["black.weights"], by_six.state()["black.weights"])


def test_each_game_has_its_own_chances():
    one = learner(alpha=0.0, games_per_step=1)
    one.step()
    first = one.work.movers.copy()
    one.step()
    assert not np.array_equal(one.work.movers, first)
    one.restore(learner().state())
    one.step()
    assert np.array_equal(one.work.movers, first)


@pytest.mark.parametrize("inner", [inner for inner in INNER.values() if inner is not DENSE])
def test_net_and_evaluator_are_the_same(inner):
    one = learner(inner, games_per_step=2)
    one.step()
    net, evaluator = one.net(), one.evaluator()
    assert isinstance(evaluator, ColouredEvaluator)
    movers, opponents, blacks = check_positions(40, seed=2)
    boards = (torch.from_numpy(array.view(np.int64)) for array in (movers, opponents))
    discs = net.discs(*boards, torch.from_numpy(blacks)).detach().clamp(-30, 30).numpy()
    found = evaluator.discs(movers, opponents, blacks).clip(-30, 30)
    assert found == pytest.approx(discs, abs=0.02)
    assert np.ptp(discs) > 1


def test_learns():
    one = learner({"kind": "triangle"}, seed=1)
    losses = [one.step()["loss/td_error"] for _ in range(80)]
    assert np.mean(losses[60:]) < 0.8 * np.mean(losses[:5])  # 0.47 to 0.62 with other seeds


def test_metrics():
    metrics = learner(games_per_step=5).step()
    assert set(metrics) == {"loss/td_error", "games/black_score", "games/black_margin"}
    assert (metrics["games/black_score"] * 10).is_integer()
    assert abs(metrics["games/black_margin"]) <= 64


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        (SMALL, {}, "doubled net of triangle nets"),
        ({"kind": "doubled", "net": {"kind": "ntuple", "tuples": "all-1"}}, {}, "doubled net of triangle nets"),
        ({"kind": "doubled", "net": {"kind": "triangle", "map": 3}}, {}, "did you mean 'maps'"),
        ({"kind": "doubled", "net": SMALL}, {"ignore": 1.0}, "leouski.ignore is 1.0"),
        (
            {"kind": "doubled", "net": SMALL},
            {"exact_below": 17},
            "leouski.exact_below is 17",
        ),
        ({"kind": "doubled", "net": SMALL}, {"alpha": -1.0}, "leouski.alpha is -1.0"),
    ],
)
def test_errors(config, options, message):
    with pytest.raises(OthelloError, match=message):
        LeouskiLearner(config, Leouski(**options), total_games=100)


def test_divergence_is_said():
    one = learner(games_per_step=2)
    one.nets.weights[...] = np.nan
    with pytest.raises(OthelloError, match="lower alpha"):
        one.step()
