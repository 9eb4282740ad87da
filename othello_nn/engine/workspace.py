"""A search thread's private memory, laid out by hand, so that a recursive call passes one address.

Header fields are 64-bit words at fixed byte offsets; after them come the ordering tables, then one frame for each
number of empty squares: a move list and the evaluator's features. A search never holds two live frames with the same
number of empties, since every move fills a square and a pass uses no frame.
"""

from __future__ import annotations

import numpy as np
from numba import int64

from othello_nn.engine.leaf.lanes import FEATURE_BYTES
from othello_nn.engine.ttable import TranspositionTable
from othello_nn.kernels.bits import load_i64, store_i64
from othello_nn.kernels.jit import kernel

# Header words (byte offsets).
NODES = 0  # positions visited
NODE_LIMIT = 8  # stop when NODES reaches it
STOP = 16  # address of a word shared by all threads of a search; not 0 means stop
ABORTED = 24  # 1 once this thread has seen a reason to stop; results above it are void
TABLE = 32  # transposition table's address
TABLE_MASK = 40
TABLE_AGE = 48
SWITCHES = 56  # Switch bits
CUT_NODES = 64  # nodes left by a beta cut-off
CUT_FIRST = 72  # … of these, at the first move searched
CUT_MOVES = 80  # moves searched at cut nodes
PROBCUT = 88  # address of the fitted ProbCut parameters, 0 if there are none
PROBCUT_T = 96  # deviations to allow for, in 1/1024
SELECTIVITY = 104  # level of the above as stored in the table, 0 = nothing is cut on probability
ROOT_DONE = 120  # root moves finished in this iteration
BUSY = 128  # address of the table of positions other threads are in; 0 with one thread
SIDE = 136  # 0 or 1: with the number of empties it tells who is to move; kept for RATED_RESPONSES only
KILLERS = 192  # [64 empties · 2] squares
HISTORY = KILLERS + 64 * 16  # [64 squares] of the mover
RESPONSES = HISTORY + 64 * 8  # [65 last moves · 64 squares]
FRAMES = RESPONSES + 65 * 64 * 8
# One frame: moves of (key, flips), twice the most there can be since each may be put off once; then the
# features.
MOVE_BYTES = 16
FRAME_FEATURES = 72 * MOVE_BYTES
FRAME_BYTES = FRAME_FEATURES + FEATURE_BYTES
# Behind the frames, what only the papers' own ways of ordering need.
NEXT_KILLERS = FRAMES + 65 * FRAME_BYTES  # as KILLERS and HISTORY: what the iteration that is running learns, …
NEXT_HISTORY = NEXT_KILLERS + 64 * 16  # … where its moves are ordered by what the one before has learnt
RATINGS = NEXT_HISTORY + 64 * 8  # [2 sides · 65 last moves · 64 squares]
SIZE = RATINGS + 2 * 65 * 64 * 8


# Bits of SWITCHES: each part of the search can be turned off for measurement.
TABLE_CUTS = 1  # bounds from the transposition table
TABLE_MOVE = 2  # its best move first
KILLER_MOVES = 4
HISTORY_ORDER = 8
RESPONSE_ORDER = 16  # IAGO's response killers
MOBILITY_ORDER = 32
EVALUATOR_ORDER = 64
SQUARE_ORDER = 128  # a fixed order, corners first
CHILD_CUTS = 256  # enhanced transposition cut-offs
INTERNAL_DEEPENING = 512
PROBCUT_CUTS = 1024
NULL_WINDOWS = 2048  # NegaScout instead of plain alpha-beta
STABILITY_CUTS = 4096
# How the papers have it where we do otherwise. A search in batches (``speculate.py``) knows none of them.
PASS_COSTS = 1 << 13  # the tournament report: a pass takes a ply of the depth, but for exact searches
TWO_PLIES = 1 << 14  # the tournament report: only every second depth is searched (read by the driver)
STATIC_KILLERS = 1 << 15  # in place of KILLER_MOVES: those of the iteration before
STATIC_HISTORY = 1 << 16  # KEYANO, in place of HISTORY_ORDER: that of the iterations before
RATED_RESPONSES = 1 << 17  # IAGO, in place of RESPONSE_ORDER: every legal response is rated, halved between moves
# The bits above all switches: with fewer empties than this number the table's best move is not tried first.
TABLE_MOVE_EMPTIES = 24
# What plays best.
EVERYTHING = 8191 & ~SQUARE_ORDER & ~HISTORY_ORDER & ~RESPONSE_ORDER


class Workspace:
    """Owns the memory; kernels see only ``address``."""

    def __init__(self, table: TranspositionTable, stop: np.ndarray):
        self._memory = np.zeros(SIZE // 8 + 16, dtype=np.int64)
        start = -self._memory.ctypes.data % 64 // 8
        self.words = self._memory[start : start + SIZE // 8]
        self.table, self.stop = table, stop
        self[STOP] = stop.ctypes.data
        self[TABLE] = table.address
        self[TABLE_MASK] = table.mask
        self[TABLE_AGE] = table.age
        self[NODE_LIMIT] = np.iinfo(np.int64).max

    @property
    def address(self) -> int:
        return self.words.ctypes.data

    def forget(self) -> None:
        """Nothing has been learnt about the order of moves."""
        for begin, end in ((KILLERS, FRAMES), (NEXT_KILLERS, SIZE)):
            self.words[begin // 8 : end // 8] = 0

    def begin_search(self) -> None:
        """Another move of the game: IAGO halves what it has learnt, so that the current move's killers count most."""
        if self[SWITCHES] & RATED_RESPONSES:
            self.words[RATINGS // 8 :] >>= 1

    def begin_iteration(self) -> None:
        """What is static within an iteration takes up what the one before has learnt."""
        for switch, begin, end, learnt in (
            (STATIC_KILLERS, KILLERS, HISTORY, NEXT_KILLERS),
            (STATIC_HISTORY, HISTORY, RESPONSES, NEXT_HISTORY),
        ):
            if self[SWITCHES] & switch:
                self.words[begin // 8 : end // 8] = self.words[learnt // 8 : (learnt + end - begin) // 8]

    def __getitem__(self, offset: int) -> int:
        return int(self.words[offset // 8])

    def __setitem__(self, offset: int, value: int) -> None:
        self.words[offset // 8] = value


@kernel("boolean(int64)")
def must_stop(workspace):
    """Count a node and look whether the search is to end: asked to, or out of nodes."""
    nodes = load_i64(workspace, int64(NODES)) + int64(1)
    store_i64(workspace, int64(NODES), nodes)
    if load_i64(load_i64(workspace, int64(STOP)), int64(0)) != int64(0) or nodes > load_i64(
        workspace, int64(NODE_LIMIT)
    ):
        store_i64(workspace, int64(ABORTED), int64(1))
        return True
    return False
