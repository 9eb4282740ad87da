"""Tables that several ranks have learnt apart, made one again. Read ``online.py`` first.

Learning on line is a chain: every game moves the weights that the next one reads. So each rank has tables of its own,
which learn from its own games, and now and then all ranks put together what has changed since the last time (local
SGD). To add up the changes of a weight would move it too far: each rank has answered the same errors. Their mean would
move it too little: errors that one rank alone has seen would be forgotten by half. With Δw the change of a weight and
Δm what temporal coherence has added to its magnitude, the sum of the errors' sizes that one rank has seen,

    w  ←  w + Σ Δw · (FEW + Δm) / (FEW + Σ Δm)

which is the sum while few errors were seen, the mean weighted by them once there are many, and the whole change if only
one rank has any. What temporal coherence keeps adds up as if one process had seen all errors.

Only the cells that some rank has changed are sent: a tenth of all, between two merges.
"""

from __future__ import annotations

import numpy as np
import torch
from numba import float32, int32, int64, uint64

from othello_nn.kernels.bits import lowest_square
from othello_nn.kernels.jit import kernel
from othello_nn.learn.distributed import Group
from othello_nn.learn.td.online import LinearTables

FEW = 10.0
"""A sum of errors' sizes that counts as small; the error of a value is 0.2 on average. Tried from 1 to 100: with two
ranks early learning gains from more, with four from less (``benchmarks/run.py ranks-learning`` compares with one)."""
WORD = 64
"""Cells in a word of the set of changed ones."""


@kernel()
def mark_changes(tables, common, changed):
    """Set the bits of ``changed`` [words] whose cells differ in any of the arrays, bit by bit."""
    cells = tables[0].size
    for word in range(changed.size):
        first, bits = int64(word * WORD), uint64(0)
        last, any_change = min(first + int64(WORD), cells), int32(0)
        for cell in range(first, last):  # most words have none: this loop is short and without a branch
            any_change |= tables[0][cell] ^ common[0][cell]
            any_change |= tables[1][cell] ^ common[1][cell]
            any_change |= tables[2][cell] ^ common[2][cell]
        if any_change != int32(0):
            for cell in range(first, last):
                differs = (tables[0][cell] ^ common[0][cell]) | (tables[1][cell] ^ common[1][cell])
                differs |= tables[2][cell] ^ common[2][cell]
                if differs != int32(0):
                    bits |= uint64(1) << uint64(cell - first)
        changed[word] = bits


@kernel()
def read_changes(tables, common, changed, few, coherent, changes):
    """Write this rank's part of the merge ``[3, changed cells]``: Δw weighted, Δsums, Δmagnitudes."""
    index = int64(0)
    for word in range(changed.size):
        bits = changed[word]
        while bits != uint64(0):
            cell = int64(word * WORD) + lowest_square(bits)
            bits &= bits - uint64(1)
            change = tables[0][cell] - common[0][cell]
            seen = tables[2][cell] - common[2][cell]
            if not coherent:  # nothing is known but whether
                seen = float32(1) if change != float32(0) else float32(0)
            changes[0, index] = change * (few + seen)
            changes[1, index] = tables[1][cell] - common[1][cell]
            changes[2, index] = seen
            index += int64(1)


@kernel()
def apply_changes(tables, common, changed, few, coherent, changes):
    """Move the common tables by what all ranks have added up, and this rank's with them."""
    index = int64(0)
    for word in range(changed.size):
        bits = changed[word]
        while bits != uint64(0):
            cell = int64(word * WORD) + lowest_square(bits)
            bits &= bits - uint64(1)
            seen = few + changes[2, index]
            if seen > float32(0):
                common[0][cell] += changes[0, index] / seen
            common[1][cell] += changes[1, index]
            if coherent:
                common[2][cell] += changes[2, index]
            for array in range(3):
                tables[array][cell] = common[array][cell]
            index += int64(1)


class Merger:
    """Keeps the tables as they were after the last merge, when all ranks had the same."""

    def __init__(self, tables: LinearTables, group: Group, coherent: bool):
        self.tables, self.group, self.coherent = tables, group, coherent
        self.begin()

    def begin(self) -> None:
        """The tables are the same on all ranks now."""
        self._common = tuple(array.copy() for array in self._arrays())

    def merge(self) -> None:
        """Make them the same again. Collective."""
        tables, few = self._arrays(), np.float32(FEW if self.coherent else 0)
        changed = np.empty(-(-tables[0].size // WORD), np.uint64)
        mark_changes(_bits(tables), _bits(self._common), changed)
        self.group.all_reduce(torch.from_numpy(changed.view(np.int64)), torch.distributed.ReduceOp.BOR)
        changes = np.empty((3, int(np.bitwise_count(changed).sum())), np.float32)
        read_changes(tables, self._common, changed, few, self.coherent, changes)
        self.group.all_reduce(torch.from_numpy(changes))
        apply_changes(tables, self._common, changed, few, self.coherent, changes)

    def _arrays(self) -> tuple[np.ndarray, ...]:
        return tuple(a.reshape(-1) for a in (self.tables.weights, self.tables.sums, self.tables.magnitudes))


def _bits(arrays: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    return tuple(array.view(np.int32) for array in arrays)
