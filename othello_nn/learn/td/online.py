"""TD(λ) for linear n-tuple nets on a CPU, game by game: the fastest way to learn without a GPU.

A linear net needs no graph: the derivative of its sum by each weight it read is 1. So one kernel evaluates a game's
positions, forms their λ-returns (``numba_targets.returns_of``) and moves the weights, then takes the next game. Weights
learn from every game at once instead of from the mean of a batch, which needs far fewer games than a batched optimiser
does. Step sizes are temporal coherence's, a rate of its own for each weight (``optim.coherence``).
"""

from __future__ import annotations

from typing import NamedTuple

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
from othello_nn.learn.td.numba_targets import outcomes, returns_of, squashed
from othello_nn.learn.td.optim import coherence
from othello_nn.learn.td.statistics import error_sums
from othello_nn.learn.td.trajectory import Trajectory

coherence_of = kernel("float32(float32, float32)")(coherence)


@kernel()
def read_cells(ev, scratch, origins, movers, opponents, length, symmetries, first, cells):
    """Write the cells ``[games, 60, lookups]`` that each row's lookups read, from column ``first`` on.

    Each game is seen under its symmetry number ``symmetries[game]``.
    """
    for game in range(movers.shape[0]):
        symmetry = symmetries[game]
        for t in range(length[game]):
            mover, opponent = transform(movers[game, t], symmetry), transform(opponents[game, t], symmetry)
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
    movers,
    opponents,
    sign,
    explored,
    length,
    final,
    searched,
    exact,
    empties,
    values,
    targets,
):
    """Move ``weights`` [stages, cells] (and TC's ``sums`` and ``magnitudes``) by each game in turn.

    ``final`` [games], ``searched`` and ``exact`` [games, 60] are values, NaN where unknown. ``empties``, ``values`` and
    ``targets`` [rows of all games] are written: what the net said of each row, and should have said.
    """
    used = cells.shape[2]
    first = int64(0)
    for game in range(movers.shape[0]):
        n = length[game]
        rows = slice(first, first + n)
        first += n
        here_empties, here_values, here_targets = empties[rows], values[rows], targets[rows]
        for t in range(n):
            here_empties[t] = int64(64) - popcount(movers[game, t] | opponents[game, t])
            row = stage_of_empties[here_empties[t]]
            total = float32(0)
            for lane in range(used):
                total += weights[row, cells[game, t, lane]]
            here_values[t] = squashed(total, scale)
        returns_of(here_values, sign[game], explored[game], final[game], lam, searched[game], exact[game], here_targets)
        for t in range(n):
            error = here_targets[t] - here_values[t]
            if not logistic:
                error *= float32(0.5) * (float32(1) - here_values[t] * here_values[t])
            if error == float32(0):
                continue
            step = rate * error * scale / float32(used)
            row = stage_of_empties[here_empties[t]]
            for lane in range(used):
                cell = cells[game, t, lane]
                if coherent:
                    total, size = sums[row, cell], magnitudes[row, cell]
                    weights[row, cell] += step * coherence_of(total, size)
                    sums[row, cell], magnitudes[row, cell] = total + error, size + abs(error)
                else:
                    weights[row, cell] += step


class GameRows(NamedTuple):
    """Games as kernels take them, one after the other: ``[games, 60]`` but for ``length`` and ``final`` ``[games]``."""

    mover: np.ndarray
    opponent: np.ndarray
    sign: np.ndarray
    explored: np.ndarray
    length: np.ndarray
    final: np.ndarray
    """The games' results, and below what searches and the solver say: values, NaN where unknown."""
    searched: np.ndarray
    exact: np.ndarray

    @classmethod
    def of(
        cls, games: Trajectory, scale: float, win: bool, searched: np.ndarray | None, exact: np.ndarray | None
    ) -> GameRows:
        """``searched`` are values and ``exact`` margins in discs, float32 [T, B], NaN where unknown."""
        fields = {name: np.ascontiguousarray(array.T) for name, array in games.arrays().items()}
        boards = fields["mover"].view(np.uint64), fields["opponent"].view(np.uint64)
        unknown = np.full(boards[0].shape, np.nan, np.float32)
        return cls(
            *boards,
            fields["sign"],
            fields["explored"],
            fields["length"],
            outcomes(fields["margin"], scale, win),
            unknown if searched is None else np.ascontiguousarray(searched.T, np.float32),
            unknown if exact is None else outcomes(exact.T, scale, win),
        )


class Found(NamedTuple):
    """Of the rows of all games, one after the other: empties, what the net said, and what it should have said."""

    empties: np.ndarray
    values: np.ndarray
    targets: np.ndarray

    @classmethod
    def room(cls, rows: int) -> Found:
        return cls(np.empty(rows, np.int64), np.empty(rows, np.float32), np.empty(rows, np.float32))


class _Lookups:
    """As many of a net's lookups as the vector code takes at once."""

    def __init__(self, shapes: Shapes, first: int):
        self.first = first
        part = Shapes(shapes.sizes, shapes.placements[first : first + MOST_LOOKUPS])
        # Only the features of its leaf are used, never its weights.
        self._owner = TableEvaluator("", part, np.zeros((1, part.cells), np.int16), np.zeros(65, np.int64))
        self.leaf = self._owner.leaf
        self.origins = part.origins[: len(part.placements)].astype(np.int64)


class CellReader:
    """Finds the cells that positions look up in the tables of ``shapes``, however many lookups there are."""

    def __init__(self, shapes: Shapes):
        self._count = len(shapes.placements)
        self._parts = [_Lookups(shapes, first) for first in range(0, self._count, MOST_LOOKUPS)]
        self._scratch = new_scratch()

    def read(self, movers: np.ndarray, opponents: np.ndarray, length: np.ndarray, symmetries: np.ndarray) -> np.ndarray:
        """Of the first ``length`` rows of each game ``[games, 60]``: cells ``[games, 60, lookups + 1]``, the last one
        the constant's, 0. Each game is seen under its symmetry."""
        cells = np.zeros((*movers.shape, self._count + 1), np.int32)
        for part in self._parts:
            place = (movers, opponents, length, symmetries, part.first, cells)
            read_cells(part.leaf, self._scratch.ctypes.data, part.origins, *place)
        return cells


class LinearTables:
    """The weights of a linear n-tuple net in discs, with what temporal coherence keeps of each."""

    def __init__(self, shapes: Shapes, stages: int, scale: float):
        self.shapes, self.stages, self.scale = shapes, stages, scale
        self.stage_of_empties = stages_of_empties(stages)
        self.weights = np.zeros((stages, shapes.cells), np.float32)
        self.sums, self.magnitudes = np.zeros_like(self.weights), np.zeros_like(self.weights)
        self._reader = CellReader(shapes)
        self._fusion = fusion_of(shapes)

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
        """Learn from each game in turn; the errors as ``statistics.error_sums`` adds them up.

        ``searched`` are values and ``exact`` margins in discs, float32 [T, B], NaN where unknown. A ``seed`` augments
        the games: each is learnt under a random symmetry.
        """
        rows = GameRows.of(games, self.scale, win, searched, exact)
        symmetries = np.zeros(games.games, np.int64)
        if seed is not None:
            symmetries = np.random.default_rng(seed).integers(0, 8, games.games)
        cells = self._reader.read(rows.mover, rows.opponent, rows.length, symmetries)
        found = Found.room(int(rows.length.sum()))
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
            *rows,
            *found,
        )
        return error_sums(*found)
