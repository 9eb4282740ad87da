"""The evolution strategy that made the n-tuple paper's 0.959 in the Othello League (Jaśkowski 2014, section III.A).

Individuals are the weights of an n-tuple net. A generation's parents have offspring, copies with Gaussian noise on
every weight; parents and offspring play the League's games against the Standard WPC Heuristic, and the best become the
next parents. No gradient, no values to predict: only which moves the weights lead to counts.

What the paper does not say, and what is done here:

* Each child's parent is drawn at random, all being as likely.
* Parents play again in every generation. A score of 2,000 games errs by half a percent or more, and a parent that kept
  a lucky one would stay for good.
* All of a generation play with the same chances, each game's random numbers being those of its number. Luck is then
  partly shared, and differences between individuals are surer than the scores themselves.
* Among equals parents go before offspring, earlier ones before later ones.
* The net's constant term changes no choice and stays 0.

Evolved weights have no unit, and nothing holds their size, while the engine cuts leaves at ±62 discs. Players, and the
net that is handed out, have them scaled so that no position is worth more than ``LARGEST_DISCS``, as in
``league_tuples.py``; this changes no choice either. Weights of a net with many tuples are then small fractions of a
disc: checkpoints must keep them as floats (``export(…, quantise=False)``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from othello_nn.arena.league import LeaguePlayer, league_games
from othello_nn.config import Evolve
from othello_nn.engine.leaf.compile import Evaluator, compile_net
from othello_nn.engine.leaf.fusion import fusion_of
from othello_nn.engine.leaf.shapes import Shapes
from othello_nn.engine.oneply import new_scratch
from othello_nn.errors import OthelloError
from othello_nn.kernels.parallel import in_threads
from othello_nn.learn.learner import Learner, array_in, counts_in
from othello_nn.learn.watch.curves import curve
from othello_nn.nets import make_net
from othello_nn.nets.ntuple import NTupleNet
from othello_nn.players.classic.league_tuples import LARGEST_DISCS
from othello_nn.players.searching import square_evaluator
from othello_nn.players.simple import SWH

FIRST_WEIGHTS = 0.1  # they are drawn from −0.1…0.1


def league_score(evaluator: Evaluator, double_games: int, epsilon: float, seed: int) -> float:
    """The score of ``arena.league.league`` against SWH, in the calling thread, which holds no lock meanwhile."""
    player, swh = LeaguePlayer.of(evaluator), LeaguePlayer.of(square_evaluator(SWH))
    chances, scratch = player.chances(epsilon), new_scratch()
    margins = np.zeros((2, double_games), np.int8)
    for colour, black in enumerate((True, False)):
        leaves = player.leaf(black), swh.leaf(not black)
        league_games(*leaves, chances, chances, black, scratch.ctypes.data, np.uint64(seed), 0, 0, margins[colour])
    return float((1 + np.sign(margins)).mean() / 2)


def in_discs(shapes: Shapes, weights: np.ndarray) -> np.ndarray:
    """Weights ``[cells]`` times what makes ``LARGEST_DISCS`` of the largest sum that their tables can have.

    Seen in the larger tables of ``engine/leaf/fusion.py``, where the terms of a cell can occur together.
    """
    fusion = fusion_of(shapes)
    tables = np.abs(fusion.apply(weights[None])[0])
    largest = np.maximum.reduceat(tables, fusion.shapes.table_starts)  # of each table
    total = tables[0] + sum(float(largest[placement.table]) for placement in fusion.shapes.placements)
    return weights * np.float32(LARGEST_DISCS / max(total, 1e-30))


BEST = curve("fitness/best", "evolution: League score of the best individual, over the games of one generation")
PARENTS = curve("fitness/parents", "evolution: mean League score of those that become parents")
MEAN = curve("fitness/mean", "evolution: mean League score of all individuals")
NEW_PARENTS = curve("fitness/new_parents", "evolution: share of the parents that were born in this generation")


@dataclass(frozen=True, eq=False)
class Generation:
    """Individuals ``[n, cells]``, the parents first, and their League scores ``[n]``."""

    everyone: np.ndarray
    fitness: np.ndarray


class EvolutionLearner(Learner):
    """A (``parents`` + ``offspring``) evolution strategy; ``step`` is a generation.

    The net must be an n-tuple net with ``dim=1`` and one stage, of either view.
    """

    keeps_floats = True

    def __init__(self, config: Mapping[str, Any], options: Evolve, *, seed: int = 0, threads: int = 1):
        net = make_net(config)
        if not isinstance(net, NTupleNet) or net.dim != 1 or net.stages != 1:
            raise OthelloError("evolution is for n-tuple nets with dim=1 and stages=1")
        self.options, self.seed, self.threads = options, seed, threads
        self.games, self.generation = 0, 0
        self._config, self._shapes = net.config, net.shapes
        size = options.parents, net.shapes.cells
        self.population = self._rng().uniform(-FIRST_WEIGHTS, FIRST_WEIGHTS, size).astype(np.float32)
        """``[parents, cells]`` as they evolved, not in discs; the best first, once there was a generation."""
        self.population[:, 0] = 0
        self.fitness = np.full(options.parents, np.nan)
        """``[parents]``: what made them parents."""
        league_score(self.evaluator(), 1, options.epsilon, 0)  # compiles, before there are threads

    @property
    def progress(self) -> float:
        return min(self.generation / self.options.generations, 1.0)

    def play(self) -> Generation:
        """Parents and children, and their League games. With the paper's numbers 200,000: some ten seconds."""
        rng = self._rng()
        seed = int(rng.integers(2**63))
        everyone = np.concatenate([self.population, self._children(rng)])
        return Generation(everyone, self._scores(everyone, seed))

    def targets(self, games: Generation) -> np.ndarray:
        """Who is to be a parent: the numbers of the best, the best first."""
        return np.argsort(-games.fitness, kind="stable")[: self.options.parents]

    def update(self, games: Generation, targets: np.ndarray) -> dict[str, float]:
        self.population, self.fitness = games.everyone[targets], games.fitness[targets]
        self.generation += 1
        self.games += 2 * self.options.double_games * len(games.everyone)
        return {
            BEST: float(games.fitness.max()),
            PARENTS: float(self.fitness.mean()),
            MEAN: float(games.fitness.mean()),
            NEW_PARENTS: float((targets >= self.options.parents).mean()),
        }

    def _rng(self) -> np.random.Generator:
        """The chances of the generation to come: a function of the seed and its number."""
        return np.random.default_rng((self.seed, self.generation))

    def _children(self, rng: np.random.Generator) -> np.ndarray:
        size = self.options.offspring, self._shapes.cells
        of = rng.integers(self.options.parents, size=self.options.offspring)
        noise = rng.standard_normal(size, dtype=np.float32) * np.float32(self.options.sigma)
        noise[:, 0] = 0
        return self.population[of] + noise

    def _scores(self, individuals: np.ndarray, seed: int) -> np.ndarray:
        """``[n]``: each individual's League score, all with the same chances."""

        def score(weights: np.ndarray) -> float:
            return league_score(self._evaluator(weights), self.options.double_games, self.options.epsilon, seed)

        return np.array(in_threads(score, individuals, self.threads))

    def _evaluator(self, weights: np.ndarray) -> Evaluator:
        return compile_net(self._config, {"weight": in_discs(self._shapes, weights)[None]}, "evolved")

    def net(self) -> NTupleNet:
        """The best individual of the last generation, in discs."""
        net = make_net(self._config)
        assert isinstance(net, NTupleNet)
        with torch.no_grad():
            net.weight.copy_(torch.from_numpy(in_discs(self._shapes, self.population[0])))
        return net

    def evaluator(self) -> Evaluator:
        return self._evaluator(self.population[0])

    def state(self) -> dict[str, np.ndarray]:
        counts = {"games": np.array([self.games]), "generation": np.array([self.generation])}
        return {"population": self.population.copy(), "fitness": self.fitness.copy()} | counts

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        if arrays["population"].shape != self.population.shape:
            found, wanted = (list(array.shape) for array in (arrays["population"], self.population))
            raise OthelloError(f"the saved population is {found}, this run's {wanted}: other parents or other tuples")
        (self.games,), (self.generation,) = counts_in(arrays, "games"), counts_in(arrays, "generation")
        self.population = array_in(arrays, "population", self.population).copy()
        if self.generation:  # before the first there are no scores
            self.fitness = array_in(arrays, "fitness", self.fitness).copy()
