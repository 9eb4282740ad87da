"""The evolution strategy: its fitness, mutation and selection; threads and resuming; that it gets somewhere."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from othello_nn.arena.league import league
from othello_nn.checkpoint import check_positions
from othello_nn.config import Evolve
from othello_nn.engine.leaf.compile import ColouredEvaluator, compile_checkpoint
from othello_nn.engine.leaf.shapes import Shapes
from othello_nn.engine.leaf.tables import TableEvaluator
from othello_nn.errors import OthelloError
from othello_nn.learn.evolve import EvolutionLearner, in_discs, league_score
from othello_nn.nets import export, make_net
from othello_nn.nets.tuple_sets import tuple_set
from othello_nn.players.classic.league_tuples import LARGEST_DISCS, load_tuples
from othello_nn.players.searching import square_evaluator
from othello_nn.players.simple import SWH

FIGURE_7 = Path(__file__).parent / "fixtures" / "figure7.tuples"
ONES = {"kind": "ntuple", "tuples": "all-1"}
PAIRS = {"kind": "ntuple", "tuples": "all-2"}


SMALL = Evolve(parents=3, offspring=5, double_games=10)


def learner(config=ONES, seed=1, threads=1, **options) -> EvolutionLearner:
    return EvolutionLearner(config, replace(SMALL, **options), seed=seed, threads=threads)


class Sphere(EvolutionLearner):
    """A landscape without games or noise: the nearer to 2 all weights are, the fitter."""

    def __init__(self):
        super().__init__(ONES, Evolve(parents=4, offspring=12, double_games=1, sigma=0.3))
        self.seen: list[np.ndarray] = []

    def _scores(self, individuals, seed):
        self.seen.append(individuals.copy())
        return -((individuals[:, 1:] - 2) ** 2).mean(axis=1)


# --- fitness ---------------------------------------------------------------------------------------------------------


def test_fitness_is_the_leagues_score():
    evaluator = load_tuples(FIGURE_7)
    result = league(evaluator, square_evaluator(SWH), 300, epsilon=0.1, seed=11)
    assert league_score(evaluator, 300, 0.1, 11) == result.score
    assert league_score(evaluator, 300, 0.1, 12) != result.score


def test_the_papers_player():
    """Printed with 0.9584 ± 0.0012; 95% of such samples lie within 0.006."""
    assert league_score(load_tuples(FIGURE_7), 2500, 0.1, 3) == pytest.approx(0.958, abs=0.01)


def test_scores_of_swh_itself_and_of_its_opposite():
    one = learner()
    swh = np.zeros(one.population.shape[1], np.float32)
    for i, (square,) in enumerate(tuple_set("all-1")):
        swh[1 + 3 * i : 4 + 3 * i] = np.array([-1, 0, 1]) * SWH.weights[square]
    one.options = replace(one.options, double_games=200)
    alike, opposite = one._scores(np.stack([swh, -swh]), 5)
    assert alike == pytest.approx(0.5, abs=0.08)
    assert opposite < 0.3


@pytest.mark.parametrize("name", ["all-1", "all-2", "rand-8x4"])
def test_weights_in_discs(name):
    shapes = Shapes.symmetric(tuple_set(name))
    weights = np.random.default_rng(0).normal(0, 50, shapes.cells).astype(np.float32)
    weights[0] = 0
    scaled = in_discs(shapes, weights)
    assert scaled / scaled[1] == pytest.approx(weights / weights[1], rel=1e-5)
    # Scaling by a power of two is exact, so the weights in discs are the same to the last bit.
    assert np.array_equal(in_discs(shapes, weights * 1024), scaled)
    net = make_net({"kind": "ntuple", "tuples": name})
    with torch.no_grad():
        net.weight.copy_(torch.from_numpy(scaled))
        movers, opponents, _ = check_positions(200)
        discs = net.discs(*(torch.from_numpy(board.view(np.int64)) for board in (movers, opponents))).abs()
    assert 1 < discs.max() <= LARGEST_DISCS


def test_largest_sum_of_single_squares():
    """Where nothing shares a square, the bound is reached: each square at its largest weight."""
    shapes = Shapes.symmetric(tuple_set("all-1"))
    weights = np.random.default_rng(1).normal(0, 3, shapes.cells).astype(np.float32)
    weights[0] = 0
    scaled = np.abs(in_discs(shapes, np.abs(weights)))
    most = sum(scaled[start : start + 3].max() for start in (shapes.table_starts[p.table] for p in shapes.placements))
    assert most == pytest.approx(LARGEST_DISCS, rel=1e-4)


def test_all_weights_zero():
    shapes = Shapes.symmetric(tuple_set("all-1"))
    assert not in_discs(shapes, np.zeros(shapes.cells, np.float32)).any()


# --- a generation ----------------------------------------------------------------------------------------------------


def test_selection_keeps_the_best():
    one = Sphere()
    best = -np.inf
    for _ in range(30):
        before = one.population.copy()
        metrics = one.step()
        everyone = one.seen[-1]
        assert np.array_equal(everyone[:4], before)  # parents are in it with their offspring
        scores = Sphere._scores(one, everyone, 0)
        assert one.fitness.tolist() == sorted(scores.tolist(), reverse=True)[:4]
        assert metrics["fitness/best"] == one.fitness[0] == scores.max()
        assert metrics["fitness/mean"] == pytest.approx(scores.mean())
        assert np.array_equal(Sphere._scores(one, one.population, 0), one.fitness)
        assert one.fitness[0] >= best
        best = one.fitness[0]
    assert best > -1  # it began near −4


def test_equals_stay_in_order():
    one = Sphere()
    one._scores = lambda individuals, seed: np.zeros(len(individuals))
    before = one.population.copy()
    assert one.step()["fitness/new_parents"] == 0
    assert np.array_equal(one.population, before)


def test_first_individuals_and_mutations():
    one = EvolutionLearner(PAIRS, Evolve(parents=6, offspring=200, sigma=0.5, double_games=1))
    first = one.population[:, 1:]
    assert -0.1 <= first.min() < -0.09
    assert 0.09 < first.max() <= 0.1
    assert first.shape == (6, 288)
    children = one._children(np.random.default_rng(0))
    assert children.shape == (200, 289)
    assert not children[:, 0].any()
    # A mutation is far smaller between a child and its own parent than the parents' differences would make it if
    # sigma were nearly nothing: each child is then a copy.
    one.options = replace(one.options, sigma=1e-6)
    copies = one._children(np.random.default_rng(0))
    distances = np.abs(copies[:, None] - one.population[None]).max(axis=2)  # [children, parents]
    parents = distances.argmin(axis=1)
    assert distances.min(axis=1).max() < 1e-4
    assert set(parents) == set(range(6))
    noise = (children - one.population[parents])[:, 1:]
    assert noise.std() == pytest.approx(0.5, rel=0.02)
    assert noise.mean() == pytest.approx(0, abs=0.01)
    assert np.abs(np.corrcoef(noise[:2])[0, 1]) < 0.25  # children do not share their noise


def test_parents_play_again():
    one = learner()
    one.step()
    parent, fitness = one.population[0].copy(), one.fitness[0]
    scores = []
    play = one._scores
    one._scores = lambda individuals, seed: scores.append(play(individuals, seed)) or scores[-1]
    one.step()
    assert len(scores[0]) == 8
    assert scores[0][0] == learner_score(one, parent, generation=1)
    assert scores[0][0] != fitness  # other games


def learner_score(one: EvolutionLearner, weights: np.ndarray, generation: int) -> float:
    seed = int(np.random.default_rng((one.seed, generation)).integers(2**63))
    return league_score(one._evaluator(weights), one.options.double_games, one.options.epsilon, seed)


# --- the learner -----------------------------------------------------------------------------------------------------


def assert_same(one: EvolutionLearner, two: EvolutionLearner) -> None:
    left, right = one.state(), two.state()
    assert left.keys() == right.keys()
    for name in left:
        assert np.array_equal(left[name], right[name]), name


@pytest.mark.parametrize("view", ["inversion", "negation"])
def test_threads_do_not_matter(view):
    one, three = (learner(ONES | {"view": view}, threads=threads) for threads in (1, 3))
    for _ in range(2):
        alone, together = one.step(), three.step()
        assert alone["fitness/mean"] == together["fitness/mean"]
    assert_same(one, three)
    other = learner(ONES | {"view": view}, seed=2)
    assert not np.array_equal(other.population, learner(ONES | {"view": view}).population)


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
    assert second.games == 8 * 2 * 10
    second.step()
    second.step()
    assert_same(whole, second)
    assert (whole.games, whole.generation) == (3 * 8 * 2 * 10, 3)


def test_improves():
    one = learner(parents=3, offspring=15, double_games=40)
    swh = square_evaluator(SWH)
    before = league(one.evaluator(), swh, 500, seed=9).score
    for _ in range(8):
        metrics = one.step()
    after = league(one.evaluator(), swh, 500, seed=9).score
    assert after > before + 0.1
    assert metrics["fitness/best"] >= metrics["fitness/parents"] >= metrics["fitness/mean"]


@pytest.mark.parametrize("config", [ONES, PAIRS, ONES | {"view": "negation"}], ids=["ones", "pairs", "negation"])
def test_net_and_evaluator_are_the_best_individual(config):
    one = learner(config, offspring=2, double_games=4)
    one.step()
    net, evaluator = one.net(), one.evaluator()
    assert league_score(evaluator, 4, 0.1, 3) == league_score(one._evaluator(one.population[0]), 4, 0.1, 3)
    movers, opponents, blacks = check_positions(60, seed=4)
    boards = [torch.from_numpy(board.view(np.int64)) for board in (movers, opponents)]
    discs = net.discs(*boards, torch.from_numpy(blacks)).detach().numpy()
    if "view" in config:
        assert isinstance(evaluator, ColouredEvaluator)
        found = evaluator.discs(movers, opponents, blacks)
    else:
        assert isinstance(evaluator, TableEvaluator)
        found = evaluator.discs(movers, opponents)
    assert found == pytest.approx(discs, abs=0.005)
    assert np.ptp(discs) > 1
    # As a checkpoint with floats it is the same player.
    again = compile_checkpoint(export(net, quantise=False))
    assert league_score(again, 20, 0.1, 3) == league_score(evaluator, 20, 0.1, 3)


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        (ONES | {"stages": 2}, {}, "stages=1"),
        (ONES | {"dim": 4}, {}, "dim=1"),
        ({"kind": "triangle"}, {}, "n-tuple nets"),
        (ONES, {"parents": 0}, "evolve.parents is 0"),
        (ONES, {"sigma": -1.0}, "evolve.sigma is -1.0"),
        (ONES, {"epsilon": 1.5}, "evolve.epsilon is 1.5"),
    ],
)
def test_errors(config, options, message):
    with pytest.raises(OthelloError, match=message):
        learner(config, **options)


def test_another_runs_population():
    with pytest.raises(OthelloError, match=r"\[3, 31\], this run's \[4, 31\]"):
        learner(parents=4).restore(learner().state())
