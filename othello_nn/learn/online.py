"""TD(λ) for linear n-tuple nets on a CPU, game by game: the fastest way to learn without a GPU.

A linear net needs no graph: the derivative of its sum by each weight it read is 1. So one kernel evaluates a game's
positions, forms their λ-returns (as ``targets.lambda_returns`` defines them) and moves the weights, then takes the next
game. Weights learn from every game at once instead of from the mean of a batch, which needs far fewer games than a
batched optimiser does. Step sizes are temporal coherence's, a rate of its own for each weight: |Σδ| / Σ|δ| over the
errors it has seen, near 1 while they agree and near 0 once they only scatter.
"""

from __future__ import annotations

import numpy as np
from numba import float32, int64, uint64

from othello_nn.engine.evaluate import leaf_begin
from othello_nn.engine.oneply import new_scratch
from othello_nn.engine.tables import Shapes, TableEvaluator, stages_of_empties
from othello_nn.game.bits import load_i16, popcount
from othello_nn.game.compiling import kernel
from othello_nn.game.kernels import below, random_stream, transform
from othello_nn.learn.trajectory import MOST_MOVES, Trajectory

BANDS = 6
"""Stages of the game in the statistics: ten empties each."""
SQUARED, COUNT, TARGETS, TARGETS_SQUARED = range(4)


@kernel("float32(float32, float32)")
def squashed(discs, scale):
    return float32(2) / (float32(1) + np.exp(-discs / scale)) - float32(1)


@kernel("float32(float32, float32, boolean)")
def outcome(margin, scale, win):
    if not win:
        return squashed(margin, scale)
    return float32(1) if margin > 0 else (float32(-1) if margin < 0 else float32(0))


@kernel()
def returns_of(values, sign, explored, n, final, lam, searched, exact, scale, win, returns):
    """λ-returns of one game, see ``targets.lambda_returns``; ``searched`` and ``exact`` in discs, NaN if unknown."""
    target = final
    for t in range(n - 1, -1, -1):
        if not np.isnan(exact[t]):
            target = outcome(exact[t], scale, win)
        elif t == n - 1:
            target = final
        elif not np.isnan(searched[t]):
            near = squashed(searched[t], scale)
            far = near if explored[t + 1] else float32(sign[t]) * target
            target = (float32(1) - lam) * near + lam * far
        elif explored[t + 1]:
            target = values[t]
        else:
            target = float32(sign[t]) * ((float32(1) - lam) * values[t + 1] + lam * target)
        returns[t] = target


@kernel()
def learn_games(
    ev,
    scratch,
    origins,
    used,
    weights,
    sums,
    magnitudes,
    stage_of_empties,
    scale,
    rate,
    coherent,
    logistic,
    lam,
    win,
    images,
    seed,
    movers,
    opponents,
    sign,
    explored,
    length,
    margin,
    searched,
    exact,
    statistics,
):
    """Move ``weights`` [stages, cells] (and TC's ``sums`` and ``magnitudes``) by each game in turn, as one of its
    images. ``statistics`` [BANDS, 4] adds up squared errors, rows, targets and their squares by empties."""
    values, returns = np.empty(MOST_MOVES, np.float32), np.empty(MOST_MOVES, np.float32)
    cells = np.empty((MOST_MOVES, used), np.int32)
    rows = np.empty(MOST_MOVES, np.int64)
    for game in range(movers.shape[0]):
        n = length[game]
        image = below(random_stream(seed, uint64(game)), int64(8)) if images else int64(0)
        for t in range(n):
            mover, opponent = transform(movers[game, t], image), transform(opponents[game, t], image)
            leaf_begin(ev, scratch, mover, opponent)
            row = stage_of_empties[int64(64) - popcount(mover | opponent)]
            total = float32(0)
            for lane in range(used):
                cell = origins[lane] + load_i16(scratch, int64(2 * lane))
                cells[t, lane] = cell
                total += weights[row, cell]
            values[t], rows[t] = squashed(total, scale), row
        final = outcome(float32(margin[game]), scale, win)
        hints = searched[game], exact[game]
        returns_of(values, sign[game], explored[game], n, final, lam, hints[0], hints[1], scale, win, returns)
        for t in range(n):
            error = returns[t] - values[t]
            band = min((int64(64) - popcount(movers[game, t] | opponents[game, t])) // int64(10), int64(BANDS - 1))
            statistics[band, SQUARED] += error * error
            statistics[band, COUNT] += 1
            statistics[band, TARGETS] += returns[t]
            statistics[band, TARGETS_SQUARED] += returns[t] * returns[t]
            if not logistic:
                error *= float32(0.5) * (float32(1) - values[t] * values[t])
            if error == float32(0):
                continue
            step = rate * error * scale / float32(used)
            row = rows[t]
            for lane in range(used):
                cell = cells[t, lane]
                if coherent:
                    total, size = sums[row, cell], magnitudes[row, cell]
                    weights[row, cell] += step * (abs(total) / size if size > float32(0) else float32(1))
                    sums[row, cell], magnitudes[row, cell] = total + error, size + abs(error)
                else:
                    weights[row, cell] += step


class LinearTables:
    """The weights of a linear n-tuple net in discs, with what temporal coherence keeps of each."""

    def __init__(self, shapes: Shapes, stages: int, scale: float):
        self.shapes, self.stages, self.scale = shapes, stages, scale
        self.stage_of_empties = stages_of_empties(stages)
        self.weights = np.zeros((stages, shapes.cells), np.float32)
        self.sums, self.magnitudes = np.zeros_like(self.weights), np.zeros_like(self.weights)
        # A leaf with as many lanes and the same features; its weights are never read.
        self._template = TableEvaluator("", shapes, np.zeros((1, shapes.cells), np.int16), np.zeros(65, np.int64))
        self._origins = shapes.origins.astype(np.int64)
        self._scratch = new_scratch()

    def evaluator(self) -> TableEvaluator:
        """A copy for players: the tables may go on changing."""
        return TableEvaluator("learner", self.shapes, self.weights.copy(), self.stage_of_empties)

    def learn(
        self,
        games: Trajectory,
        *,
        rate: float,
        lam: float,
        seed: int | None = None,
        coherent: bool = True,
        logistic: bool = True,
        win: bool = False,
        searched: np.ndarray | None = None,
        exact: np.ndarray | None = None,
    ) -> np.ndarray:
        """Learn from each game in turn; the statistics of ``learn_games`` ``[BANDS, 4]``.

        ``searched`` and ``exact`` are float32 [T, B] in discs, NaN where unknown. With a ``seed``, each game is learnt
        as a random one of its images.
        """
        statistics = np.zeros((BANDS, 4))
        fields = {name: np.ascontiguousarray(array.T) for name, array in games.arrays().items()}
        unknown = np.full(fields["mover"].shape, np.nan, np.float32)
        hints = [unknown if hint is None else np.ascontiguousarray(hint.T, np.float32) for hint in (searched, exact)]
        learn_games(
            self._template.leaf,
            self._scratch.ctypes.data,
            self._origins,
            len(self.shapes.placements) + 1,
            self.weights,
            self.sums,
            self.magnitudes,
            self.stage_of_empties,
            np.float32(self.scale),
            np.float32(rate),
            coherent,
            logistic,
            np.float32(lam),
            win,
            seed is not None,
            np.uint64(seed or 0),
            fields["mover"].view(np.uint64),
            fields["opponent"].view(np.uint64),
            fields["sign"],
            fields["explored"],
            fields["length"],
            fields["margin"],
            *hints,
            statistics,
        )
        return statistics
