"""TD(λ) for n-tuple embedding nets on a CPU, game by game, without autograd. Read ``online.py`` first.

Such a net adds up vectors instead of numbers, and a small network behind the sum s, its head, corrects the first of
them: discs = s₀ + output · relu(hidden · s + bias) + constant. One kernel evaluates a game's positions, forms their
λ-returns (``numba_targets.returns_of``), goes back through the head and moves the cells that were read, then takes the
next game. So each game is learnt by weights that know all before it, and its cells are still in the cache when they
move.

A cell moves along the derivative of the discs by the sum, as far as temporal coherence lets it: that keeps, as for
linear nets, the sum of the errors that a cell was asked to answer and the sum of their sizes, one pair for the whole
vector. The head is read by every position, so it learns from the mean of some games, by Adam.

Where a mirror image of a shape is the shape itself, two cells mean the same. They are one here (``tied``): what is
learnt of a position is learnt of its eight images, and no image has to be drawn by chance.
"""

from __future__ import annotations

import math
import weakref
from typing import NamedTuple

import numpy as np
from numba import float32, int32, int64

from othello_nn.engine.leaf.embedded import DIMS, LARGEST, EmbeddedEvaluator, Head, quantised
from othello_nn.engine.leaf.fusion import fusion_of
from othello_nn.engine.leaf.shapes import Shapes, mirrored_cells, stages_of_empties, symmetric
from othello_nn.engine.leaf.tables import aligned_zeros
from othello_nn.kernels.bits import popcount
from othello_nn.kernels.jit import kernel
from othello_nn.kernels.parallel import in_threads
from othello_nn.kernels.vectors import move_row, row_product, sum_rows, weigh_rows
from othello_nn.learn.td.numba_targets import returns_of, squashed
from othello_nn.learn.td.online import CellReader, Found, GameRows, coherence_of
from othello_nn.learn.td.statistics import error_sums
from othello_nn.learn.td.trajectory import MOST_MOVES, Trajectory

HEAD_ROWS = 256
"""Positions, at least, of an update of the head."""
FIRST_DECAY, SECOND_DECAY, TINY = 0.9, 0.999, 1e-8
"""Adam's constants, as everywhere."""
SUM, SIZE = 0, 1
"""What temporal coherence keeps of a cell."""
UPDATES, ROWS = 0, 1
"""What is counted: updates of the head, and positions since the last."""


class Learnt(NamedTuple):
    """Everything that learning changes, all float32 but the counts."""

    weights: np.ndarray  # [rows · cells, dim], in discs
    coherence: np.ndarray  # [rows · cells, 2]: SUM and SIZE of each cell's errors
    head: np.ndarray  # [(dim + 2) · units + 1]: hidden [units, dim], bias, output, constant
    gradient: np.ndarray  # like head: added up since its last update
    first: np.ndarray  # like head: Adam's moments
    second: np.ndarray
    counts: np.ndarray  # [2] int64: UPDATES and ROWS


class Rule(NamedTuple):
    """How to learn."""

    rate: np.float32
    head_rate: np.float32
    lam: np.float32
    scale: np.float32
    coherent: bool
    logistic: bool


class Room(NamedTuple):
    """Memory for one game."""

    cells: np.ndarray  # [60, reads] int32, counted through all rows of the tables
    sums: np.ndarray  # [60, dim]
    active: np.ndarray  # [60, units]: what the hidden units give
    by_units: np.ndarray  # [units]: derivative of the discs by what a unit is given
    by_sums: np.ndarray  # [dim]: by the sums
    totals: np.ndarray  # [reads]: SUM of each cell that a row read
    sizes: np.ndarray  # [reads]: SIZE
    shares: np.ndarray  # [reads]: of the direction, how far a cell moves


# --- the head --------------------------------------------------------------------------------------------------------


@kernel()
def head_discs(width, head, sums, active):
    """The value in discs, of sums ``[dim]``; what each hidden unit gives is written to ``active`` ``[units]``."""
    dim, units = sums.size, active.size
    bias, output = dim * units, (dim + 1) * units
    discs = sums[0] + head[output + units]
    for unit in range(units):
        given = head[bias + unit] + row_product(width, head.ctypes.data, int64(unit), sums.ctypes.data)
        active[unit] = max(given, float32(0))
        discs += active[unit] * head[output + unit]
    return discs


@kernel()
def head_gradient(width, head, sums, active, slope, gradient, by_units, by_sums):
    """Add to ``gradient`` the derivatives of the loss by the head, where ``slope`` is that by the discs; write the
    derivatives of the discs by the sums to ``by_sums``."""
    dim, units = sums.size, active.size
    bias, output = dim * units, (dim + 1) * units
    for unit in range(units):
        by_units[unit] = head[output + unit] if active[unit] > float32(0) else float32(0)
        gradient[bias + unit] += slope * by_units[unit]
        gradient[output + unit] += slope * active[unit]
        move_row(width, gradient.ctypes.data, int64(unit), slope * by_units[unit], sums.ctypes.data)
    gradient[output + units] += slope
    weigh_rows(width, head.ctypes.data, by_units.ctypes.data, int64(units), by_sums.ctypes.data)
    by_sums[0] += float32(1)


@kernel()
def move_head(learnt, rate):
    """An update by Adam, from the mean of the gradients so far."""
    learnt.counts[UPDATES] += 1
    updates, rows = learnt.counts[UPDATES], float32(learnt.counts[ROWS])
    step = rate / float32(1 - FIRST_DECAY**updates)
    share = float32(1 - SECOND_DECAY**updates)
    for i in range(learnt.head.size):
        gradient = learnt.gradient[i] / rows
        learnt.first[i] += (gradient - learnt.first[i]) * float32(1 - FIRST_DECAY)
        learnt.second[i] += (gradient * gradient - learnt.second[i]) * float32(1 - SECOND_DECAY)
        learnt.head[i] -= step * learnt.first[i] / (np.sqrt(learnt.second[i] / share) + float32(TINY))
        learnt.gradient[i] = float32(0)
    learnt.counts[ROWS] = 0


# --- games -----------------------------------------------------------------------------------------------------------


@kernel()
def evaluate_game(width, learnt, stages, tied, shared, games, cells, game, scale, room, empties, values):
    """Write the empties and the value of each row of a game; sums, active units and cells stay in ``room``."""
    lookups, reads = cells.shape[2], room.cells.shape[1]
    for t in range(empties.size):
        empties[t] = int64(64) - popcount(games.mover[game, t] | games.opponent[game, t])
        first = int64(stages[empties[t]]) * int64(tied.size)
        for lane in range(lookups):
            cell = int64(tied[cells[game, t, lane]])
            room.cells[t, lane] = int32(first + cell)
            if reads > lookups:
                room.cells[t, lookups + lane] = int32(shared + cell)
        place = room.cells[t].ctypes.data
        sum_rows(width, learnt.weights.ctypes.data, place, int64(reads), room.sums[t].ctypes.data)
        values[t] = squashed(head_discs(width, learnt.head, room.sums[t], room.active[t]), scale)


@kernel()
def learn_row(width, learnt, rule, room, t, value, target):
    """Move the cells that row ``t`` of a game read, and add to the head's gradient."""
    error = target - value
    if not rule.logistic:
        error *= float32(0.5) * (float32(1) - value * value)
    if error == float32(0):
        return
    slope = -error / rule.scale * (float32(0.5) if rule.logistic else float32(1))
    sums, active = room.sums[t], room.active[t]
    head_gradient(width, learnt.head, sums, active, slope, learnt.gradient, room.by_units, room.by_sums)
    cells, shares = room.cells[t], room.shares
    # Three short loops: in one, the divisions would be made one by one, and everything wait for them.
    for lane in range(cells.size):
        if rule.coherent:
            cell = int64(cells[lane])
            total, size = learnt.coherence[cell, SUM], learnt.coherence[cell, SIZE]
            room.totals[lane], room.sizes[lane] = total, size
            learnt.coherence[cell, SUM], learnt.coherence[cell, SIZE] = total + error, size + abs(error)
    step = rule.rate * error * rule.scale / float32(cells.size)
    for lane in range(cells.size):
        shares[lane] = step * (coherence_of(room.totals[lane], room.sizes[lane]) if rule.coherent else float32(1))
    tables, direction = learnt.weights.ctypes.data, room.by_sums.ctypes.data
    for lane in range(cells.size):
        move_row(width, tables, int64(cells[lane]), shares[lane], direction)


@kernel()
def learn_games(width, learnt, rule, stages, tied, shared, games, cells, found, room):
    """Learn from each game in turn.

    ``cells`` [games, 60, lookups] are those of one row of the tables, ``tied`` says which stand for which, ``stages``
    the row of so many empties; ``shared`` is the first cell of the row that all stages share.
    """
    first = int64(0)
    for game in range(games.length.size):
        rows = slice(first, first + games.length[game])
        first += games.length[game]
        empties, values, targets = found.empties[rows], found.values[rows], found.targets[rows]
        evaluate_game(width, learnt, stages, tied, shared, games, cells, game, rule.scale, room, empties, values)
        known = games.searched[game], games.exact[game]
        returns_of(values, games.sign[game], games.explored[game], games.final[game], rule.lam, *known, targets)
        for t in range(values.size):
            learn_row(width, learnt, rule, room, t, values[t], targets[t])
        learnt.counts[ROWS] += values.size
        if learnt.counts[ROWS] >= HEAD_ROWS:
            move_head(learnt, rule.head_rate)


# --- players ---------------------------------------------------------------------------------------------------------


@kernel()
def quantise_row(weights, tied, row, shared, quantum, target):
    """A stage's row of ``weights`` [rows, cells, dim] as whole numbers of ``quantum``s in ``target`` [cells, …]; the
    largest weight, infinity if one is no number. ``shared`` is the row to be added to it, if there is one."""
    largest, per_quantum, finite = float32(0), float32(1) / quantum, True
    for cell in range(tied.size):
        source = tied[cell]
        for i in range(weights.shape[2]):
            weight = weights[row, source, i]
            if shared >= 0:
                weight += weights[shared, source, i]
            largest = max(largest, abs(weight))
            finite &= abs(weight) < np.inf
            target[cell, i] = np.int16(np.rint(weight * per_quantum))
    return largest if finite else float32(np.inf)


def _quantum(largest: float) -> float:
    """The smallest power of two of which whole numbers of 16 bits reach as far."""
    return 2.0 ** math.ceil(math.log2(largest / LARGEST)) if largest else 1.0


class EmbeddingTables:
    """The weights of an embedding net, as ``LinearTables`` holds those of a linear one. ``shared`` is the number of the
    row of tables that all stages share, -1 if there is none; ``images`` ties cells that mirror each other."""

    def __init__(self, shapes: Shapes, stages: int, shared: bool, dim: int, units: int, scale: float, images: bool):
        self.shapes, self.stages, self.dim, self.units, self.scale = shapes, stages, dim, units, scale
        self.shared = stages if shared else -1
        self.stage_of_empties = stages_of_empties(stages)
        self.tied = tied_cells(shapes) if images else np.arange(shapes.cells, dtype=np.int32)
        self.images = images
        cells, size = (stages + shared) * shapes.cells, (dim + 2) * units + 1
        head, gradient, first, second = np.zeros((4, size), np.float32)
        weights, coherence = (aligned_zeros((cells, each), np.float32) for each in (dim, 2))
        self.learnt = Learnt(weights, coherence, head, gradient, first, second, np.zeros(2, np.int64))
        reads = (len(shapes.placements) + 1) * (2 if shared else 1)
        self._room = Room(
            np.zeros((MOST_MOVES, reads), np.int32),
            np.zeros((MOST_MOVES, dim), np.float32),
            np.zeros((MOST_MOVES, units), np.float32),
            np.zeros(units, np.float32),
            np.zeros(dim, np.float32),
            *np.zeros((3, reads), np.float32),
        )
        self._reader = CellReader(shapes)
        self._fusion = fusion_of(shapes)
        self._guess = 1.0
        self._free: list[np.ndarray] = []

    @property
    def rows(self) -> np.ndarray:
        """The weights as ``[rows, cells, dim]``."""
        return self.learnt.weights.reshape(-1, self.shapes.cells, self.dim)

    def weights(self) -> np.ndarray:
        """``[rows, cells, dim]`` as a net has them, in a copy."""
        return self.rows.take(self.tied, axis=1)

    def set_weights(self, weights: np.ndarray, exactly: bool = False) -> None:
        """Begin with a net's ``[rows, cells, dim]``: cells that are tied get the mean of theirs, unless they are known
        to be ``exactly`` the same."""
        if self.images and not exactly:
            weights = np.moveaxis(symmetric(np.moveaxis(weights, 2, 1), self.shapes), 1, 2)
        self.rows[:] = weights

    @property
    def head(self) -> Head:
        dim, units, numbers = self.dim, self.units, self.learnt.head
        hidden = numbers[: dim * units].reshape(units, dim).copy()
        bias, output = numbers[dim * units : -1].reshape(2, units).copy()
        return Head(np.eye(1, dim, dtype=np.float32)[0], hidden, bias, output, float(numbers[-1]))

    def set_head(self, head: Head) -> None:
        numbers = (head.hidden.ravel(), head.bias, head.output, [head.output_bias])
        self.learnt.head[:] = np.concatenate(numbers)

    def evaluator(self, threads: int = 1) -> EmbeddedEvaluator:
        """A copy for players: the tables may go on changing. Its memory is used again once nobody has it any more."""
        if self._fusion.changes:
            weights = self.weights()
            together = weights[: self.stages] + weights[self.shared] if self.shared >= 0 else weights
            whole, quantum = quantised(self._fusion.apply(together))
            tables = "learner", self._fusion.shapes, whole, self.stage_of_empties
            return EmbeddedEvaluator(*tables, quantum=quantum, heads=(self.head,))
        memory = self._free.pop() if self._free else self._new_memory()
        quantum = self._quantise(memory, threads)
        tables = "learner", self.shapes, memory[:, :-1, : self.dim], self.stage_of_empties
        evaluator = EmbeddedEvaluator(*tables, quantum=quantum, heads=(self.head,), memory=memory)
        weakref.finalize(evaluator, self._free.append, memory)
        return evaluator

    def _new_memory(self) -> np.ndarray:
        dim = next(dim for dim in DIMS if dim >= self.dim)
        return aligned_zeros((self.stages, self.shapes.cells + 1, dim), np.int16)

    def _quantise(self, memory: np.ndarray, threads: int) -> float:
        """The value of 1 in ``memory``. It hangs on the weights alone, but they have mostly the same as before."""
        while True:
            quantum = self._guess

            def work(row: int, quantum: float = quantum) -> float:
                return quantise_row(self.rows, self.tied, row, self.shared, np.float32(quantum), memory[row])

            largest = max(in_threads(work, range(self.stages), threads))
            if not math.isfinite(largest):
                raise ValueError("the weights hold numbers that are not finite")
            self._guess = _quantum(largest)
            if self._guess == quantum:
                return quantum

    def learn(
        self,
        games: Trajectory,
        *,
        rate: float,
        head_rate: float,
        lam: float,
        coherent: bool = True,
        logistic: bool = True,
        win: bool = False,
        searched: np.ndarray | None = None,
        exact: np.ndarray | None = None,
    ) -> np.ndarray:
        """As ``LinearTables.learn``."""
        rows = GameRows.of(games, self.scale, win, searched, exact)
        cells = self._reader.read(rows.mover, rows.opponent, rows.length, np.zeros(games.games, np.int64))
        found = Found.room(int(rows.length.sum()))
        rule = Rule(
            np.float32(rate), np.float32(head_rate), np.float32(lam), np.float32(self.scale), coherent, logistic
        )
        width = (np.float32(0),) * self.dim
        shared = self.shared * self.shapes.cells
        learn_games(width, self.learnt, rule, self.stage_of_empties, self.tied, shared, rows, cells, found, self._room)
        return error_sums(*found)


def tied_cells(shapes: Shapes) -> np.ndarray:
    """``[cells]`` int32: of the cells that mean the same, by a shape's own symmetries, the one that stands for all."""
    tied = np.arange(shapes.cells, dtype=np.int32)
    tables = {placement.table: placement.squares for placement in reversed(shapes.placements)}
    for table, squares in tables.items():
        start = shapes.table_starts[table]
        tied[start : start + 3 ** len(squares)] = start + mirrored_cells(squares).min(axis=0)
    return tied
