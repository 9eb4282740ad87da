"""Threads over one tree: who is where, so that nobody searches the same move at the same time.

All threads search the root with the same window over a shared transposition table. Before a thread enters a child
that is not the first of its node, it looks whether another thread is inside the same position; if so, it puts the
move off until the others are done, and then usually finds the answer in the table. (This is ABDADA in the simplified
form that keeps the marks in a table of their own.) Marks are hints: a lost or stale one costs time, never
correctness.
"""

from __future__ import annotations

import numpy as np
from numba import int64

from othello_nn.engine.ttable import position_hash
from othello_nn.kernels.bits import load_u64, store_u64
from othello_nn.kernels.board import ZERO
from othello_nn.kernels.jit import kernel

SLOTS = 4096


class BusyTable:
    """Hashes of the positions that threads are in."""

    def __init__(self):
        self.marks = np.zeros(SLOTS, np.uint64)

    @property
    def address(self) -> int:
        return self.marks.ctypes.data


@kernel("int64(int64, uint64, uint64)")
def busy_slot(busy, mover, opponent):
    return busy + int64(position_hash(mover, opponent) & np.uint64(SLOTS - 1)) * int64(8)


@kernel("boolean(int64, uint64, uint64)")
def is_busy(slot, mover, opponent):
    return load_u64(slot, int64(0)) == position_hash(mover, opponent)


@kernel("void(int64, uint64, uint64)")
def enter(slot, mover, opponent):
    store_u64(slot, int64(0), position_hash(mover, opponent))


@kernel("void(int64, uint64, uint64)")
def leave(slot, mover, opponent):
    if is_busy(slot, mover, opponent):
        store_u64(slot, int64(0), ZERO)
