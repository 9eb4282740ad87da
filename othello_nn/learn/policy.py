"""The policy gradient: an n-tuple net's weights follow the slope of its League score itself.

TD learning asks that values be right, and 288 weights cannot make them right; evolution only asks which moves they lead
to, but learns no more from a thousand games than one number. This learner asks what evolution asks and learns from
every move. While it learns, the player is a chance one: at 1-ply it takes each move with a probability in proportion to
exp(value of the move). The slope of its expected score against the Standard WPC Heuristic, both making random moves
with the League's ε, is the mean over its games of

    Σ over its choices of advantage · ∇ log probability of the chosen move.

* The advantage is a λ-return less what a *critic* said of the position. The critic is a second n-tuple net, of long
  tuples and several stages, which learns by TD what the player's games come to. It is a help in learning only and is
  thrown away; the player has no more than its own weights.
* A step is the natural gradient's: the slope, divided by how much the weights change the player's choices (Fisher's
  matrix F, estimated from the same games and averaged over some steps), times ``policy.rate``. Directions that change
  few choices take large steps. ``policy.damping`` times F's mean diagonal is added to its diagonal, as some directions
  change nothing at all: a cell that is never read, and what is added to all tables alike.
* Nothing fixes the size of the weights, so chance leaves by itself what pays: where one move is better, probabilities
  grow towards 1. The player that is handed out always takes the best move.

The kernels are in ``policy_kernels.py``. As in ``evolve.py`` weights have no unit, and are handed out scaled to discs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from othello_nn.config import Policy
from othello_nn.engine.leaf.compile import Evaluator, compile_net
from othello_nn.engine.leaf.shapes import Shapes
from othello_nn.engine.oneply import new_scratch
from othello_nn.errors import OthelloError
from othello_nn.kernels.chance import ALWAYS, seed_word
from othello_nn.learn.evolve import in_discs
from othello_nn.learn.learner import Learner, array_in, counts_in
from othello_nn.learn.policy_kernels import (
    CHOICES,
    ENTROPY,
    ERROR,
    POINTS,
    SQUARED,
    STATISTICS,
    TURNS,
    Lookups,
    Work,
    play_games,
)
from othello_nn.learn.watch.curves import curve
from othello_nn.nets import make_net
from othello_nn.nets.ntuple import NTupleNet
from othello_nn.nets.tuple_sets import tuple_set
from othello_nn.players.searching import square_evaluator
from othello_nn.players.simple import SWH

FISHER_CHOICES = 2000
"""Choices of each colour that a step's estimate of Fisher's matrix is made from."""

SCORE = curve("policy/score", "policy gradient: League score of the chance player in the games learnt from")
CHANCE = curve("policy/entropy", "policy gradient: entropy of a choice, in nats; 0 takes the best move always")
CRITIC = curve("policy/critic_error", "policy gradient: mean squared error of the critic against results, 0 to 1")
ADVANTAGE = curve("policy/advantage", "policy gradient: mean square of the advantages")
RATE = curve("policy/rate", "policy gradient: the step size, in natural gradients")


@dataclass(frozen=True, eq=False)
class Games:
    """What the games of a step came to."""

    gradient: np.ndarray
    """``[cells]``: the slope of the score of a game."""
    fisher: np.ndarray
    """``[cells, cells]``: Fisher's matrix of a game's choices."""
    statistics: np.ndarray
    """``[STATISTICS]``, sums over the games."""


class PolicyLearner(Learner):
    """Natural policy gradient with a critic; ``step`` is ``policy.batch_games`` games of each colour and one move of
    the weights. One thread plays, since the critic learns from every game what it says of the next.

    The net must be an n-tuple net with ``dim=1``, one stage and the view of the mover.
    """

    keeps_floats = True

    def __init__(self, config: Mapping[str, Any], options: Policy, *, total_games: int, seed: int = 0):
        net = make_net(config)
        if not isinstance(net, NTupleNet) or net.dim != 1 or net.stages != 1 or net.view != "inversion":
            raise OthelloError('the policy gradient is for n-tuple nets with dim=1, stages=1 and view="inversion"')
        self.options, self.seed, self.total_games = options, seed, total_games
        self.games, self.steps = 0, 0
        self._config, self._shapes = net.config, net.shapes
        critic = Shapes.symmetric(tuple_set(options.critic))
        self._lookups, self._critic = Lookups.of(net.shapes), Lookups.of(critic)
        self._work, self._scratch = Work.of(net.shapes, critic), new_scratch()
        self._rival = square_evaluator(SWH)
        self.weights = np.zeros(net.shapes.cells)
        """``[cells]``, as they learn: in units of a log-probability."""
        self.fisher = np.zeros((net.shapes.cells, net.shapes.cells))
        self.tables = np.zeros((options.critic_stages, critic.cells))
        """The critic's ``[stages, cells]``: the logit of the expected score."""

    @property
    def progress(self) -> float:
        return min(self.games / self.total_games, 1.0)

    def play(self) -> Games:
        options, gradient, statistics = self.options, np.zeros(len(self.weights)), np.zeros(STATISTICS)
        seed, count = np.uint64(seed_word(self.seed, self.steps)), options.batch_games
        fisher = np.zeros_like(self.fisher)
        for colour, is_black in enumerate((True, False)):
            played, part = np.zeros(STATISTICS), np.zeros_like(self.fisher)
            play_games(
                self._rival.leaf, self._scratch.ctypes.data, self._lookups, self.weights, self._critic, self.tables,
                self._work, round(options.epsilon * ALWAYS), options.lam, options.critic_rate, seed, colour * count,
                count, is_black, gradient, part, FISHER_CHOICES, played,
            )  # fmt: skip
            fisher += part * (played[CHOICES] / max(min(played[CHOICES], FISHER_CHOICES), 1))
            statistics += played
        return Games(gradient / (2 * count), fisher / (2 * count), statistics)

    def targets(self, games: Games) -> np.ndarray:
        """Where the weights are to go: the natural gradient."""
        kept = self.options.memory if self.steps else 0.0
        fisher = kept * self.fisher + (1 - kept) * games.fisher
        damping = self.options.damping * max(np.trace(fisher) / len(fisher), 1e-12)
        self.fisher = fisher
        return np.linalg.solve(fisher + damping * np.eye(len(fisher)), games.gradient)

    def update(self, games: Games, targets: np.ndarray) -> dict[str, float]:
        first, last = self.options.rate, self.options.final_rate or self.options.rate
        rate = first * (last / first) ** self.progress
        self.weights = self.weights + rate * targets
        self.steps += 1
        self.games += 2 * self.options.batch_games
        found = games.statistics
        return {
            SCORE: found[POINTS] / (2 * self.options.batch_games),
            CHANCE: found[ENTROPY] / max(found[CHOICES], 1),
            CRITIC: found[ERROR] / max(found[TURNS], 1),
            ADVANTAGE: found[SQUARED] / max(found[TURNS], 1),
            RATE: rate,
        }

    def net(self) -> NTupleNet:
        """The player that always takes the best move, in discs."""
        net = make_net(self._config)
        assert isinstance(net, NTupleNet)
        with torch.no_grad():
            net.weight.copy_(torch.from_numpy(self._in_discs()))
        return net

    def evaluator(self) -> Evaluator:
        return compile_net(self._config, {"weight": self._in_discs()[None]}, "policy")

    def _in_discs(self) -> np.ndarray:
        return in_discs(self._shapes, self.weights.astype(np.float32))

    def state(self) -> dict[str, np.ndarray]:
        counts = {"games": np.array([self.games]), "steps": np.array([self.steps])}
        arrays = {"weights": self.weights, "fisher": self.fisher, "critic": self.tables}
        return counts | {name: array.copy() for name, array in arrays.items()}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        (self.games,), (self.steps,) = counts_in(arrays, "games"), counts_in(arrays, "steps")
        self.weights = array_in(arrays, "weights", self.weights).copy()
        self.fisher = array_in(arrays, "fisher", self.fisher).copy()
        self.tables = array_in(arrays, "critic", self.tables).copy()
