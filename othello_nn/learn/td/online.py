"""TD(λ) for linear n-tuple nets on a CPU, game by game: the fastest way to learn without a GPU.

A linear net needs no graph: the derivative of its sum by each weight it read is 1. So one kernel evaluates a game's
positions, forms their λ-returns (as ``targets.lambda_returns`` defines them) and moves the weights, then takes the next
game. Weights learn from every game at once instead of from the mean of a batch, which needs far fewer games than a
batched optimiser does. Step sizes are temporal coherence's, a rate of its own for each weight: |Σδ| / Σ|δ| over the
errors it has seen, near 1 while they agree and near 0 once they only scatter.
"""

from __future__ import annotations

import numpy as np
from numba import float32, int64

from othello_nn.engine.leaf.door import leaf_begin
from othello_nn.engine.leaf.fusion import MOST_LOOKUPS, fusion_of
from othello_nn.engine.leaf.shapes import Shapes, stages_of_empties
from othello_nn.engine.leaf.tables import TableEvaluator
from othello_nn.engine.oneply import new_scratch
from othello_nn.kernels.bits import load_i16, popcount
from othello_nn.kernels.board import transform
from othello_nn.kernels.jit import kernel
from othello_nn.learn.td.trajectory import MOST_MOVES, Trajectory

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
def read_cells(ev, scratch, origins, movers, opponents, length, images, first, cells):
    """Write the cells ``[games, 60, lookups]`` that each row's lookups read, from column ``first`` on.

    Each game is seen as its image number ``images[game]``.
    """
    for game in range(movers.shape[0]):
        for t in range(length[game]):
            mover, opponent = transform(movers[game, t], images[game]), transform(opponents[game, t], images[game])
            leaf_begin(ev, scratch, mover, opponent)
            for lane in range(origins.size):
                cells[game, t, first + lane] = origins[lane] + load_i16(scratch, int64(2 * lane))


@kernel()
def learn_games(
    cells,
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
    """Move ``weights`` [stages, cells] (and TC's ``sums`` and ``magnitudes``) by each game in turn.

    ``statistics`` [BANDS, 4] adds up squared errors, rows, targets and their squares by empties.
    """
    values, returns = np.empty(MOST_MOVES, np.float32), np.empty(MOST_MOVES, np.float32)
    empties = np.empty(MOST_MOVES, np.int64)
    used = cells.shape[2]
    for game in range(movers.shape[0]):
        n = length[game]
        for t in range(n):
            empties[t] = int64(64) - popcount(movers[game, t] | opponents[game, t])
            row = stage_of_empties[empties[t]]
            total = float32(0)
            for lane in range(used):
                total += weights[row, cells[game, t, lane]]
            values[t] = squashed(total, scale)
        final = outcome(float32(margin[game]), scale, win)
        hints = searched[game], exact[game]
        returns_of(values, sign[game], explored[game], n, final, lam, hints[0], hints[1], scale, win, returns)
        for t in range(n):
            error = returns[t] - values[t]
            band = min(empties[t] // int64(10), int64(BANDS - 1))
            statistics[band, SQUARED] += error * error
            statistics[band, COUNT] += 1
            statistics[band, TARGETS] += returns[t]
            statistics[band, TARGETS_SQUARED] += returns[t] * returns[t]
            if not logistic:
                error *= float32(0.5) * (float32(1) - values[t] * values[t])
            if error == float32(0):
                continue
            step = rate * error * scale / float32(used)
            row = stage_of_empties[empties[t]]
            for lane in range(used):
                cell = cells[game, t, lane]
                if coherent:
                    total, size = sums[row, cell], magnitudes[row, cell]
                    weights[row, cell] += step * (abs(total) / size if size > float32(0) else float32(1))
                    sums[row, cell], magnitudes[row, cell] = total + error, size + abs(error)
                else:
                    weights[row, cell] += step


class _Lookups:
    """As many of a net's lookups as the vector code takes at once."""

    def __init__(self, shapes: Shapes, first: int):
        self.first = first
        part = Shapes(shapes.sizes, shapes.placements[first : first + MOST_LOOKUPS])
        # Only the features of its leaf are used, never its weights.
        self._owner = TableEvaluator("", part, np.zeros((1, part.cells), np.int16), np.zeros(65, np.int64))
        self.leaf = self._owner.leaf
        self.origins = part.origins[: len(part.placements)].astype(np.int64)


class LinearTables:
    """The weights of a linear n-tuple net in discs, with what temporal coherence keeps of each."""

    def __init__(self, shapes: Shapes, stages: int, scale: float):
        self.shapes, self.stages, self.scale = shapes, stages, scale
        self.stage_of_empties = stages_of_empties(stages)
        self.weights = np.zeros((stages, shapes.cells), np.float32)
        self.sums, self.magnitudes = np.zeros_like(self.weights), np.zeros_like(self.weights)
        self._lookups = [_Lookups(shapes, first) for first in range(0, len(shapes.placements), MOST_LOOKUPS)]
        self._fusion = fusion_of(shapes)
        self._scratch = new_scratch()

    def evaluator(self) -> TableEvaluator:
        """A copy for players: the tables may go on changing."""
        fused = self._fusion.apply(self.weights) if self._fusion.changes else self.weights.copy()
        return TableEvaluator("learner", self._fusion.shapes, fused, self.stage_of_empties)

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
        fields = {name: np.ascontiguousarray(array.T) for name, array in games.arrays().items()}
        boards = fields["mover"].view(np.uint64), fields["opponent"].view(np.uint64)
        images = np.zeros(games.games, np.int64)
        if seed is not None:
            images = np.random.default_rng(seed).integers(0, 8, games.games)
        # The last column stays 0, the constant's cell.
        cells = np.zeros((*boards[0].shape, len(self.shapes.placements) + 1), np.int32)
        for part in self._lookups:
            place = (boards[0], boards[1], fields["length"], images, part.first, cells)
            read_cells(part.leaf, self._scratch.ctypes.data, part.origins, *place)
        unknown = np.full(boards[0].shape, np.nan, np.float32)
        hints = [unknown if hint is None else np.ascontiguousarray(hint.T, np.float32) for hint in (searched, exact)]
        statistics = np.zeros((BANDS, 4))
        learn_games(
            cells,
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
            *boards,
            fields["sign"],
            fields["explored"],
            fields["length"],
            fields["margin"],
            *hints,
            statistics,
        )
        return statistics
