"""Fits an embedding net to labelled positions: what is done with a minibatch, and how a CPU does it at full speed.

The error is squared, in discs. A cell's rate is Adagrad's, one for its whole vector: what many positions have moved
already moves less. Cells that mirror each other are one (``tied``), so that what is learnt of a position is learnt of
its eight images. Heads learn by Adam from the mean of a minibatch. ``device.py`` says the same in PyTorch.

Where the game has stages with tables of their own, these begin as one: until they are taken ``apart``, all positions
read and move the first stage's, so that what is rare in one stage is learnt from the others.

Here a minibatch goes through two kernels, without autograd. ``ask_rows`` evaluates its positions and goes back through
the heads, in parts of the rows; ``move_cells`` then moves the cells that were read, in parts of the tables, so that no
cell has two writers. The net comes out the same, to the bit, on any number of threads.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numba import float32, int64

from othello_nn.engine.leaf.door import leaf_begin
from othello_nn.engine.leaf.shapes import stages_of_empties
from othello_nn.engine.leaf.tables import TableEvaluator
from othello_nn.engine.oneply import new_scratch
from othello_nn.kernels.bits import load_i16, popcount
from othello_nn.kernels.jit import kernel
from othello_nn.kernels.parallel import parts_of
from othello_nn.kernels.vectors import move_row, sum_rows
from othello_nn.learn.data.vectors import Vectors
from othello_nn.learn.td.embedding import FIRST_DECAY, SECOND_DECAY, TINY, tied_cells
from othello_nn.nets import NTupleNet

PART = 256
"""Rows that a thread takes at a time; each part of a minibatch has a gradient of the heads of its own."""


class Places(NamedTuple):
    """Where positions look."""

    origins: np.ndarray  # [lookups + 1] int64: the cells of an empty board; the last is the constant's
    tied: np.ndarray  # [cells] int32: of the cells that mean the same, the one that stands for all
    heads: np.ndarray  # [65] int64: the head of so many empties
    starts: np.ndarray  # [65] int64: where the tables of their stage begin


class Rows(NamedTuple):
    """Positions, and what is found out about them."""

    movers: np.ndarray  # [N] uint64
    opponents: np.ndarray
    labels: np.ndarray  # [N] float32, in discs
    cells: np.ndarray  # [N, lookups + 1] int32
    asked: np.ndarray  # [N, dim] float32: which way the sum of the cells should go, and how far
    discs: np.ndarray  # [N] float32: what the net said


@kernel()
def head_forward(width, units, head, sums, active):
    """The value in discs of sums ``[dim]``; what each hidden unit gives is written to ``active`` ``[units]``.

    A head is skip [dim], hidden [dim, units], bias [units], output [units] and a constant.
    """
    dim, count = len(width), len(units)
    bias, output = dim + dim * count, dim + (dim + 1) * count
    discs = head[output + count]
    for unit in range(count):
        active[unit] = head[bias + unit]
    for i in range(dim):
        discs += sums[i] * head[i]
        for unit in range(count):
            active[unit] += sums[i] * head[dim + i * count + unit]
    for unit in range(count):
        active[unit] = max(active[unit], float32(0))
        discs += active[unit] * head[output + unit]
    return discs


@kernel()
def head_backward(width, units, head, sums, active, error, gradient, by_units, asked):
    """Add ``error`` times the derivatives of the discs to the head's ``gradient``; write those by the sums to
    ``asked``."""
    dim, count = len(width), len(units)
    bias, output = dim + dim * count, dim + (dim + 1) * count
    gradient[output + count] += error
    for unit in range(count):
        gradient[output + unit] += error * active[unit]
        by_units[unit] = error * head[output + unit] if active[unit] > float32(0) else float32(0)
        gradient[bias + unit] += by_units[unit]
    for i in range(dim):
        total = error * head[i]
        gradient[i] += error * sums[i]
        for unit in range(count):
            gradient[dim + i * count + unit] += sums[i] * by_units[unit]
            total += by_units[unit] * head[dim + i * count + unit]
        asked[i] = total


@kernel()
def ask_rows(width, units, ev, scratch, places, weights, heads, rows, learns, gradient):
    """What the net says of each row, which cells it read and, if it ``learns``, which way their sum should go; the
    heads' part is added to ``gradient`` ``[heads, size]``."""
    sums = np.zeros(len(width), np.float32)
    active, by_units = np.zeros(len(units), np.float32), np.zeros(len(units), np.float32)
    reads = int64(places.origins.size)
    for row in range(rows.movers.size):
        mover, opponent = rows.movers[row], rows.opponents[row]
        leaf_begin(ev, scratch, mover, opponent)
        cells, empties = rows.cells[row], int64(64) - popcount(mover | opponent)
        for lane in range(reads):
            cell = places.tied[places.origins[lane] + load_i16(scratch, int64(2 * lane))]
            cells[lane] = places.starts[empties] + cell
        sum_rows(width, weights.ctypes.data, cells.ctypes.data, reads, sums.ctypes.data)
        number = places.heads[empties]
        head = heads[number]
        rows.discs[row] = head_forward(width, units, head, sums, active)
        if learns:
            error = rows.labels[row] - rows.discs[row]
            head_backward(width, units, head, sums, active, error, gradient[number], by_units, rows.asked[row])


@kernel()
def move_cells(width, weights, sizes, lanes, rows, squares, rate):
    """Move the cells that ``lanes`` read, which are no other thread's; ``squares`` [N] is room."""
    for row in range(squares.size):
        squares[row] = float32(0)
        for i in range(len(width)):
            squares[row] += rows.asked[row, i] * rows.asked[row, i] / float32(len(width))
    for lane in lanes:
        for row in range(squares.size):
            sizes[rows.cells[row, lane]] += squares[row]
    tables = weights.ctypes.data
    for lane in lanes:
        for row in range(squares.size):
            cell = int64(rows.cells[row, lane])
            move_row(width, tables, cell, rate / np.sqrt(sizes[cell]), rows.asked[row].ctypes.data)


@kernel()
def move_heads(heads, gradients, first, second, updates, rows, rate):
    """An update by Adam; ``gradients`` [parts, heads, size] are added up and cleared."""
    step = rate / float32(1 - FIRST_DECAY**updates)
    share = float32(1 - SECOND_DECAY**updates)
    for head in range(heads.shape[0]):
        for i in range(heads.shape[1]):
            gradient = float32(0)
            for part in range(gradients.shape[0]):
                gradient += gradients[part, head, i]
                gradients[part, head, i] = float32(0)
            gradient /= float32(rows)
            first[head, i] += (gradient - first[head, i]) * float32(1 - FIRST_DECAY)
            second[head, i] += (gradient * gradient - second[head, i]) * float32(1 - SECOND_DECAY)
            heads[head, i] += step * first[head, i] / (np.sqrt(second[head, i] / share) + float32(TINY))


class CompiledFit:
    """The weights of a net on their way, moved by kernels."""

    def __init__(self, net: NTupleNet, minibatch: int, threads: int):
        shapes, dim, units = net.shapes, net.dim, net.units
        # Only the features of its leaf are used, never its weights.
        self._reader = TableEvaluator("", shapes, np.zeros((1, shapes.cells), np.int16), np.zeros(65, np.int64))
        origins = shapes.origins[: len(shapes.placements) + 1].astype(np.int64)
        heads, starts = stages_of_empties(net.heads), np.zeros(65, np.int64)
        self._places = Places(origins, tied_cells(shapes), heads, starts)
        self._stages, self._cells = stages_of_empties(net.stages), shapes.cells
        self._apart = net.stages == 1
        self.vectors = Vectors.of(net)
        parts = len(parts_of(minibatch, PART))
        self._gradients = np.zeros((parts, *self.vectors.heads.shape), np.float32)
        self._room = (
            np.zeros((minibatch, len(origins)), np.int32),
            np.zeros((minibatch, dim), np.float32),
            np.zeros(minibatch, np.float32),
        )
        self._lanes = _lanes_of_threads([placement.table for placement in shapes.placements] + [-1], threads)
        self._squares = np.zeros((threads, minibatch), np.float32)
        self._scratches = [new_scratch() for _ in range(parts)]
        self._pool = ThreadPoolExecutor(threads)
        self._sizes = (np.float32(0),) * dim, (np.float32(0),) * units

    def take(self) -> None:
        """Go on with the numbers in ``vectors``, which are those that move."""

    def give(self) -> None:
        """``vectors`` has them already; while the stages are one, each gets what the first has."""
        if not self._apart:
            for array in (self.vectors.weights, self.vectors.sizes):
                in_stages = array.reshape(-1, self._cells, *array.shape[1:])
                in_stages[1:] = in_stages[0]

    @property
    def apart(self) -> bool:
        """Each stage has tables of its own; until then all read and move the first one's."""
        return self._apart

    @apart.setter
    def apart(self, apart: bool) -> None:
        self._places.starts[:] = self._cells * self._stages if apart else 0
        self._apart = apart

    def learn(
        self, movers: np.ndarray, opponents: np.ndarray, labels: np.ndarray, rate: float, head_rate: float
    ) -> float:
        """One minibatch; the sum of its squared errors in discs."""
        vectors, count = self.vectors, len(movers)
        rows = Rows(movers, opponents, labels, *(each[:count] for each in self._room))
        self._ask(rows, True)

        def move(thread: int) -> None:
            squares = self._squares[thread, :count]
            move_cells(
                self._sizes[0], vectors.weights, vectors.sizes, self._lanes[thread], rows, squares, np.float32(rate)
            )

        list(self._pool.map(move, range(len(self._lanes))))
        vectors.counts[0] += 1
        moments = vectors.first, vectors.second, int(vectors.counts[0])
        move_heads(vectors.heads, self._gradients, *moments, count, np.float32(head_rate))
        errors = rows.discs - labels
        return float(errors @ errors)

    def keep_within(self, limit: float) -> None:
        """Leave no number of the tables further from 0."""
        np.clip(self.vectors.weights, -limit, limit, out=self.vectors.weights)

    def discs(self, movers: np.ndarray, opponents: np.ndarray) -> np.ndarray:
        """What the net says of positions ``[N]``, float32."""
        found = np.zeros(len(movers), np.float32)
        for part in parts_of(len(movers), len(self._room[0])):
            room = (each[: part.stop - part.start] for each in self._room)
            rows = Rows(movers[part], opponents[part], found[part], *room)
            self._ask(rows, False)
            found[part] = rows.discs
        return found

    def _ask(self, rows: Rows, learns: bool) -> None:
        def ask(number: int, part: slice) -> None:
            where = self._reader.leaf, self._scratches[number].ctypes.data, self._places
            mine = Rows(*(each[part] for each in rows))
            weights = self.vectors.weights, self.vectors.heads
            ask_rows(*self._sizes, *where, *weights, mine, learns, self._gradients[number])

        parts = parts_of(len(rows.movers), PART)
        list(self._pool.map(ask, range(len(parts)), parts))


def _lanes_of_threads(tables: list[int], threads: int) -> list[np.ndarray]:
    """The lookups of each thread, about as many for all; those of a table stay together."""
    groups = [[lane for lane, its in enumerate(tables) if its == table] for table in dict.fromkeys(tables)]
    shares: list[list[int]] = [[] for _ in range(threads)]
    for group in sorted(groups, key=len, reverse=True):
        min(shares, key=len).extend(group)
    return [np.array(sorted(share), np.int64) for share in shares]
