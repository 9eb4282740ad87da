"""The policy gradient: its probabilities and gradients against autograd, returns, resuming, that it gets somewhere."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from othello_nn.arena.league import league
from othello_nn.checkpoint import check_positions
from othello_nn.config import Policy
from othello_nn.engine.leaf.compile import compile_checkpoint
from othello_nn.engine.leaf.shapes import Shapes
from othello_nn.errors import OthelloError
from othello_nn.game import rules
from othello_nn.learn.evolve import league_score
from othello_nn.learn.policy import PolicyLearner
from othello_nn.learn.policy_kernels import CHOICES, STATISTICS, Lookups, Work, add_square, choose, play_games
from othello_nn.learn.policy_kernels import write_cells as kernel_cells
from othello_nn.nets import export, make_net
from othello_nn.nets.tuple_sets import tuple_set
from othello_nn.players.searching import square_evaluator
from othello_nn.players.simple import SWH

ONES = {"kind": "ntuple", "tuples": "all-1"}
PAIRS = {"kind": "ntuple", "tuples": "all-2"}
SMALL = Policy(batch_games=20, critic="all-1")


def learner(config=PAIRS, seed=1, total_games=1000, **options) -> PolicyLearner:
    return PolicyLearner(config, replace(SMALL, **options), total_games=total_games, seed=seed)


def boards(*words: int) -> list[torch.Tensor]:
    return [torch.from_numpy(np.array([word], np.uint64).view(np.int64)) for word in words]


# --- the choice ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["all-2", "rand-5x4", "patterns"])
def test_cells_are_those_of_the_net(name):
    net = make_net({"kind": "ntuple", "tuples": name})
    cells = np.zeros(len(net.shapes.placements), np.int32)
    for mover, opponent in zip(*check_positions(20)[:2], strict=True):
        kernel_cells(Lookups.of(net.shapes), cells, mover, opponent)
        assert cells.tolist() == net.indices(*boards(int(mover), int(opponent)))[0, :-1].tolist()


@pytest.mark.parametrize("name", ["all-2", "rand-5x4"])
def test_probabilities_and_their_gradient_are_autograds(name):
    net = make_net({"kind": "ntuple", "tuples": name})
    shapes = net.shapes
    weights = np.random.default_rng(0).normal(0, 0.2, shapes.cells)
    with torch.no_grad():
        net.weight.copy_(torch.from_numpy(weights.astype(np.float32)))
    lookups, work, score = Lookups.of(shapes), Work.of(shapes, shapes), np.zeros(shapes.cells, np.float32)
    state, looked_at = np.uint64(7), 0
    for mover, opponent in zip(*check_positions(40)[:2], strict=True):
        mask = rules.legal_mask(int(mover), int(opponent))
        if mask.bit_count() < 2:
            continue
        squares = rules.squares_in(mask)
        chosen, entropy, state = choose(lookups, weights, work, mover, opponent, np.uint64(mask), score, state)
        state = np.uint64(state)
        children = [rules.play(int(mover), int(opponent), square) for square in squares]
        logs = torch.log_softmax(-torch.cat([net.discs(*boards(*child)) for child in children]), 0)
        assert work.squares[: len(squares)].tolist() == squares
        assert work.chances[: len(squares)] == pytest.approx(logs.exp().detach().numpy(), abs=1e-5)
        assert entropy == pytest.approx(-(logs * logs.exp()).sum().item(), abs=1e-4)
        net.weight.grad = None
        logs[squares.index(int(chosen))].backward()
        assert score == pytest.approx(net.weight.grad.numpy()[0], abs=1e-5)
        looked_at += 1
    assert looked_at > 20


def test_moves_are_chosen_as_often_as_their_probabilities_say():
    shapes = Shapes.symmetric(tuple_set("all-1"))
    weights = np.random.default_rng(3).normal(0, 0.5, shapes.cells)
    lookups, work, score = Lookups.of(shapes), Work.of(shapes, shapes), np.zeros(shapes.cells, np.float32)
    mover, opponent = (
        np.uint64(word) for word in rules.play(*rules.play(rules.START_MOVER, rules.START_OPPONENT, 19), 18)
    )
    moves = np.uint64(rules.legal_mask(int(mover), int(opponent)))
    state, counts = np.uint64(99), np.zeros(64)
    for _ in range(4000):
        square, _, state = choose(lookups, weights, work, mover, opponent, moves, score, state)
        state = np.uint64(state)
        counts[square] += 1
    number = int(moves).bit_count()
    assert counts[work.squares[:number]] / 4000 == pytest.approx(work.chances[:number], abs=0.03)
    assert np.ptp(work.chances[:number]) > 0.1


# --- a game ----------------------------------------------------------------------------------------------------------


def test_the_gradient_of_a_game():
    """By hand from what the game left behind: λ-returns, advantages, the critic's step."""
    one = learner(critic="all-2", critic_stages=3)
    rng = np.random.default_rng(5)
    one.tables[:] = rng.normal(0, 0.01, one.tables.shape)
    before, gradient, fisher = one.tables.copy(), np.zeros(len(one.weights)), np.zeros_like(one.fisher)
    statistics, lam, rate = np.zeros(STATISTICS), 0.6, 0.1
    play_games(
        one._rival.leaf, one._scratch.ctypes.data, one._lookups, one.weights, one._critic, one.tables, one._work,
        1 << 29, lam, rate, np.uint64(4), 0, 1, True, gradient, fisher, 3, statistics,
    )  # fmt: skip
    work, turns = one._work, int(statistics[3])
    values, returned = work.values, work.values[turns]
    assert returned in (0.0, 0.5, 1.0)
    wanted, tables, squares = np.zeros_like(gradient), before.copy(), np.zeros_like(fisher)
    choices = 0
    for turn in reversed(range(turns)):
        cells = work.cells[turn]
        stage = work.stages[turn]
        logit = before[stage, 0] + before[stage][cells].sum()
        assert values[turn] == pytest.approx(1 / (1 + np.exp(-logit)))
        returned = (1 - lam) * values[turn + 1] + lam * returned
        if work.chosen[turn]:
            wanted += (returned - values[turn]) * work.scores[turn]
            if choices < 3:
                squares += np.outer(work.scores[turn], work.scores[turn])
            choices += 1
        np.add.at(tables[stage], cells, rate / len(cells) * (returned - values[turn]))
        tables[stage, 0] += rate / len(cells) * (returned - values[turn])
    assert 15 < choices < turns  # ε was 1/8
    assert statistics[CHOICES] == choices
    assert gradient == pytest.approx(wanted, abs=1e-5)
    assert one.tables == pytest.approx(tables)
    assert fisher == pytest.approx(squares, abs=1e-5)
    assert set(work.stages[:turns]) == {0, 1, 2}
    assert work.stages[:turns].tolist() == sorted(work.stages[:turns], reverse=True)


def test_add_square():
    vector, matrix = np.array([1, 0, -2], np.float32), np.ones((3, 3))
    add_square(matrix, vector)
    assert np.array_equal(matrix, 1 + np.outer(vector, vector))


# --- the learner -----------------------------------------------------------------------------------------------------


def assert_same(one: PolicyLearner, two: PolicyLearner) -> None:
    left, right = one.state(), two.state()
    assert left.keys() == right.keys()
    for name in left:
        assert np.array_equal(left[name], right[name]), name


def test_resumed_is_uninterrupted():
    whole = learner()
    for _ in range(3):
        whole.step()
    first = learner()
    first.step()
    saved = first.state()
    first.step()  # must not change what was saved
    second = learner()
    second.restore(saved)
    assert second.games == 40
    second.step()
    second.step()
    assert_same(whole, second)
    other = learner(seed=2)
    other.step()
    assert not np.array_equal(other.weights, first.weights)


def test_the_rate_falls():
    one = learner(rate=8.0, final_rate=2.0, total_games=80)
    assert [one.step()["policy/rate"], one.step()["policy/rate"]] == pytest.approx([8.0, 4.0])
    assert one.progress == 1
    assert learner(rate=8.0, final_rate=0.0).step()["policy/rate"] == 8.0


def test_improves():
    one = learner(batch_games=300, total_games=100_000)
    swh = square_evaluator(SWH)
    for _ in range(8):
        metrics = one.step()
    assert league(one.evaluator(), swh, 500, seed=9).score > 0.7  # it began at 0.19
    assert 0.3 < metrics["policy/score"] < 0.9
    assert 1 < metrics["policy/entropy"] < 2
    assert 0 < metrics["policy/advantage"] < metrics["policy/critic_error"] < 0.3


def test_net_and_evaluator_are_one_player():
    one = learner()
    one.step()
    net, evaluator = one.net(), one.evaluator()
    movers, opponents, _ = check_positions(60, seed=4)
    discs = net.discs(*(torch.from_numpy(board.view(np.int64)) for board in (movers, opponents))).detach().numpy()
    assert evaluator.discs(movers, opponents) == pytest.approx(discs, abs=0.005)
    again = compile_checkpoint(export(net, quantise=False))
    assert league_score(again, 20, 0.1, 3) == league_score(evaluator, 20, 0.1, 3)


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        (ONES | {"stages": 2}, {}, "stages=1"),
        (ONES | {"dim": 4}, {}, "dim=1"),
        (ONES | {"view": "negation"}, {}, "inversion"),
        ({"kind": "triangle"}, {}, "n-tuple nets"),
        (ONES, {"batch_games": 0}, "policy.batch_games is 0"),
        (ONES, {"lam": 1.5}, "policy.lambda is 1.5"),
        (ONES, {"critic": "pattern"}, "did you mean 'patterns'"),
    ],
)
def test_errors(config, options, message):
    with pytest.raises(OthelloError, match=message):
        learner(config, **options)
