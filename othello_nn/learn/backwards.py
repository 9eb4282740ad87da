"""Learning from the endgame backwards: late stages first, from exact scores; earlier ones from searches that end there.

The net is a linear n-tuple net in stages. A round goes through the stages from the end of the game to its beginning.
For each it plays games with the evaluator of the round before (``Mobility`` in the first), takes one position from
each, and asks what it is worth: the solver where few squares are empty, else a search whose leaves lie in stages
already learnt. The truth travels backwards, a stage at a time. Then the stage's weights are fitted by gradient descent
on the squared error in discs, each position as a random one of its eight images.

A label is the mean of two searches, of ``depth`` and one ply less. A search errs in favour of the side that moves last
in it, always the same side at even depths, and from stage to stage these errors would add up; an odd depth turns them
round, so that the mean keeps them small.

Nothing depends on the number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numba import float32, int64, uint64

from othello_nn.config import Backwards, ConfigError
from othello_nn.engine.leaf.door import leaf_begin
from othello_nn.engine.leaf.mobility import Mobility
from othello_nn.engine.leaf.shapes import Shapes, stages_of_empties, symmetric
from othello_nn.engine.leaf.tables import TableEvaluator
from othello_nn.engine.oneply import new_scratch, one_ply
from othello_nn.engine.score import SCORE_DISC
from othello_nn.fit.labels import FOCUS_DISCS, Labelled, label_positions, label_workspace
from othello_nn.kernels.bits import load_i16
from othello_nn.kernels.board import START, ZERO, play, side_to_move, transform
from othello_nn.kernels.chance import (
    below,
    chance_move,
    draw_noise,
    next_random,
    noise_chances,
    random_stream,
    seed_word,
)
from othello_nn.kernels.jit import kernel
from othello_nn.kernels.parallel import in_threads, parts_of
from othello_nn.learn.learner import Learner, array_in, counts_in
from othello_nn.learn.watch.curves import curve
from othello_nn.nets import NTupleNet

OPENING_PLIES = 12  # at most so many random plies make a game its own
SLAB = 1 << 16  # positions labelled in one step
CHUNK = 1 << 12  # positions labelled with one transposition table
RATES = (0.4, 0.4, 0.3, 0.2, 0.15, 0.1, 0.07, 0.05, 0.03, 0.02)  # of each epoch; divided by the number of lookups
TESTED = 20  # one position in so many is kept from the fit, to tell its error
FEWEST = 200  # distinct positions a stage needs to be fitted at all
ERROR = curve(
    "backwards/error_discs",
    "learning backwards: error of the stage just learnt, in discs, on positions kept from it",
    sparse=True,
)
STAGE = curve("backwards/stage", "learning backwards: the stage just learnt, 0 is the end of the game", sparse=True)
ROUND = curve(
    "backwards/round",
    "learning backwards: the round, whose games were played with the net of the round before",
    sparse=True,
)
POSITIONS = curve(
    "backwards/positions", "learning backwards: distinct positions that the stage was learnt from", sparse=True
)


@kernel()
def sample_positions(ev, scratch, seed, first, fewest, most, movers, opponents):
    """One position with ``fewest``…``most`` empties, and a move to make, from each of so many games.

    A game opens with random plies, goes on with random moves of some share down to some number of empties, and then
    takes the best move at 1-ply.
    """
    for i in range(movers.size):
        state = random_stream(seed, uint64(first + i))
        found = False
        while not found:
            mover, opponent = START
            empties = int64(60)
            state = next_random(state)
            target = fewest + below(state, int64(most - fewest + 1))
            state = next_random(state)
            opening = int64(60) - below(state, int64(OPENING_PLIES + 1))
            noisy, noise, state = draw_noise(opening, target, state)
            while True:
                mover, opponent, moves, _ = side_to_move(mover, opponent)
                found = moves != ZERO and empties <= target
                if found or moves == ZERO:
                    break
                square, state = chance_move(moves, noise_chances(empties, opening, noisy, noise), state)
                if square < int64(0):
                    square, state = one_ply(ev, scratch, mover, opponent, moves, empties, state)
                mover, opponent = play(mover, opponent, square)
                empties -= int64(1)
        movers[i], opponents[i] = mover, opponent


@kernel()
def fit_epoch(ev, scratch, origins, used, weights, movers, opponents, labels, order, rate, seed):
    """One pass of gradient descent over a stage in the given order; the mean squared error in discs."""
    squared = 0.0
    state = random_stream(seed, ZERO)
    for index in order:
        state = next_random(state)
        image = below(state, int64(8))
        leaf_begin(ev, scratch, transform(movers[index], image), transform(opponents[index], image))
        total = float32(0)
        for lane in range(used):
            total += weights[origins[lane] + load_i16(scratch, int64(2 * lane))]
        error = labels[index] - total
        squared += error * error
        # Games are decided near zero: a lopsided position teaches less than its large error would.
        step = rate * error / (float32(1) + (labels[index] / float32(FOCUS_DISCS)) ** 2)
        for lane in range(used):
            weights[origins[lane] + load_i16(scratch, int64(2 * lane))] += step
    return squared / max(order.size, 1)


@dataclass(frozen=True, eq=False)
class Sampled:
    """The distinct positions of ``count`` games."""

    count: int
    movers: np.ndarray
    opponents: np.ndarray


class BackwardsLearner(Learner):
    """Rounds of learning from the end of the game to its beginning.

    A step labels ``SLAB`` positions of a stage, and fits the stage once it has all of them. ``games`` counts games,
    each of which gives one position.
    """

    def __init__(self, net: NTupleNet, options: Backwards, *, seed: int = 0, threads: int = 1):
        if net.dim != 1 or net.shared or net.view != "inversion":
            raise ConfigError("learning backwards is for n-tuple nets of dim 1, with separate stages, by inversion")
        self._net, self.shapes, self.stages = net, net.shapes, net.stages
        self.options, self.seed, self.threads = options, seed, threads
        self.stage_of_empties = stages_of_empties(self.stages)
        self.weights = np.zeros((self.stages, self.shapes.cells), np.float32)
        """In discs."""
        self.player: TableEvaluator | None = None
        """Who plays this round's games; None in the first round."""
        self.games = 0
        self.stages_done = 0
        self._slabs: list[Labelled] = []

    @property
    def progress(self) -> float:
        return min(self.games / (self.stages * sum(self.options.positions)), 1.0)

    def play(self) -> Sampled:
        """Some positions of the stage at hand, each from a game of its own."""
        round_number, stage = divmod(self.stages_done, self.stages)
        before = self._games_of_stage()
        count = min(SLAB, self.options.positions[round_number] - before)
        return self._sampled(seed_word(self.seed, round_number, stage), stage, before, count)

    def targets(self, games: Sampled) -> np.ndarray:
        """What they are worth to the mover in discs, by the solver and by searches into the stages after theirs."""
        stage = self.stages_done % self.stages
        if stage and not self._games_of_stage():
            self.weights[stage] = self.weights[stage - 1]
        return self._labels(games)

    def update(self, games: Sampled, targets: np.ndarray) -> dict[str, float]:
        """Keep them; with the last of a stage, learn it. The metrics are those of a stage learnt."""
        round_number, stage = divmod(self.stages_done, self.stages)
        self._slabs.append(Labelled(games.movers, games.opponents, targets))
        self.games += games.count
        if self._games_of_stage() < self.options.positions[round_number]:
            return {}
        metrics = self._fitted(stage)
        self._slabs.clear()
        self.stages_done += 1
        if self.stages_done % self.stages == 0:
            self.player = self.evaluator()
        return metrics | {ROUND: round_number + 1.0}

    def _games_of_stage(self) -> int:
        """Games that the stage at hand has had in this round."""
        round_number, stage = divmod(self.stages_done, self.stages)
        rounds = self.options.positions
        return self.games - self.stages * sum(rounds[:round_number]) - stage * rounds[round_number]

    def net(self) -> NTupleNet:
        with torch.no_grad():
            self._net.weight.copy_(torch.from_numpy(self.weights))
        return self._net

    def evaluator(self) -> TableEvaluator:
        """What the search reads of the weights so far."""
        limit = np.iinfo(np.int16).max
        scaled = np.clip(np.rint(self.weights * SCORE_DISC), -limit, limit).astype(np.int16)
        return TableEvaluator("backwards", self.shapes, scaled, self.stage_of_empties)

    def state(self) -> dict[str, np.ndarray]:
        arrays = {"weights": self.weights, "counts": np.array([self.games, self.stages_done])}
        if self.player is not None:
            arrays["player"] = self.player.weights
        if self._slabs:
            slabs = Labelled.joined(self._slabs)
            arrays |= {"movers": slabs.movers, "opponents": slabs.opponents, "labels": slabs.labels}
        return arrays

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        self.weights = array_in(arrays, "weights", self.weights).copy()
        self.games, self.stages_done = counts_in(arrays, "counts", 2)
        rounds = self.options.positions
        if self.stages_done < self.stages * len(rounds):
            fits = 0 <= self._games_of_stage() < rounds[self.stages_done // self.stages]
        else:
            fits = (self.games, self.stages_done) == (self.stages * sum(rounds), self.stages * len(rounds))
        if not fits:
            raise ValueError(f"counts are {self.games} games and {self.stages_done} stages, which do not go together")
        if "player" in arrays:
            player = array_in(arrays, "player", self.evaluator().weights)
            self.player = TableEvaluator("player", self.shapes, player, self.stage_of_empties)
        self._slabs = [self._labelled(arrays)] if "labels" in arrays else []

    def _labelled(self, arrays: dict[str, np.ndarray]) -> Labelled:
        """The positions of the stage at hand, from a state."""
        count = min(arrays["movers"].size, self._games_of_stage())
        likes = {"movers": np.empty(count, np.uint64), "opponents": np.empty(count, np.uint64)}
        likes["labels"] = np.empty(count, np.float32)
        found = Labelled(*(array_in(arrays, name, like) for name, like in likes.items()))
        if (found.movers & found.opponents).any():
            raise ValueError("movers and opponents have a square in common")
        if (np.abs(found.labels) > 64).any():
            raise ValueError("labels must be from -64 to 64 discs")
        return found

    def _empties(self, stage: int) -> tuple[int, int]:
        """Fewest and most empties to learn a stage from: one more on each side, so that values do not jump."""
        empties = np.flatnonzero(self.stage_of_empties == stage)
        return max(int(empties.min()) - 1, 1), min(int(empties.max()) + 1, 60)

    def _sampled(self, seed: int, stage: int, first: int, count: int) -> Sampled:
        """The distinct positions of games number ``first`` and on."""
        leaf: Any = Mobility() if self.player is None else self.player.leaf
        movers, opponents = np.zeros(count, np.uint64), np.zeros(count, np.uint64)

        def sample(part: slice) -> None:
            scratch = new_scratch()
            numbers = (np.uint64(seed), first + part.start, *self._empties(stage))
            sample_positions(leaf, scratch.ctypes.data, *numbers, movers[part], opponents[part])

        in_threads(sample, parts_of(count, CHUNK), self.threads)
        distinct = _distinct(movers, opponents)
        return Sampled(count, movers[distinct], opponents[distinct])

    def _labels(self, games: Sampled) -> np.ndarray:
        movers, opponents = games.movers, games.opponents
        labels = np.zeros(len(movers), np.float32)
        so_far = self.evaluator()
        searcher = so_far.leaf

        def label(part: slice) -> None:
            # A fresh table for each part: what a search finds in it must not hang on which thread came first.
            workspace = label_workspace()
            limits = (self.options.solve_empties, self.options.depth)
            label_positions(searcher, workspace.address, movers[part], opponents[part], *limits, labels[part])

        in_threads(label, parts_of(len(labels), CHUNK), self.threads)
        return labels

    def _fitted(self, stage: int) -> dict[str, float]:
        """Learn a stage from its slabs; its error in discs on positions kept from the fit."""
        data = Labelled.joined(self._slabs)
        data = data.pick(_distinct(data.movers, data.opponents))
        metrics: dict[str, float] = {STAGE: float(stage), POSITIONS: float(len(data.labels))}
        if len(data.labels) < FEWEST:
            return metrics
        seed = seed_word(self.seed, self.stages_done, 1)
        data = data.pick(np.random.default_rng(seed).permutation(len(data.labels)))
        tested = max(len(data.labels) // TESTED, 1)
        fit(data.pick(slice(tested, None)), self.weights[stage], self.shapes, RATES, seed)
        self.weights[stage] = symmetric(self.weights[stage], self.shapes)
        error = fit(data.pick(slice(tested)), self.weights[stage].copy(), self.shapes, (0.0,), seed) ** 0.5
        return metrics | {ERROR: error}


def fit(data: Labelled, weights: np.ndarray, shapes: Shapes, rates: Sequence[float], seed: int) -> float:
    """Gradient descent on one stage's weights in place, an epoch for each rate; the last epoch's mean squared error."""
    template = TableEvaluator("fit", shapes, np.zeros((1, shapes.cells), np.int16), np.zeros(65, np.int64))
    rng = np.random.default_rng(seed)
    used = len(shapes.placements) + 1
    origins, scratch = shapes.origins.astype(np.int64), new_scratch()
    error = 0.0
    for epoch, rate in enumerate(rates):
        order = rng.permutation(len(data.labels))
        arrays = (weights, data.movers, data.opponents, data.labels, order)
        step = np.float32(rate / used)
        numbered = np.uint64(seed_word(seed, epoch))
        error = fit_epoch(template.leaf, scratch.ctypes.data, origins, used, *arrays, step, numbered)
    return float(error)


def _distinct(movers: np.ndarray, opponents: np.ndarray) -> np.ndarray:
    """Where each position stands first, in order."""
    return np.sort(np.unique(np.stack([movers, opponents]), axis=1, return_index=True)[1])
