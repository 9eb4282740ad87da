"""Transposition table: what a search has learnt about a position, keyed by the position itself.

An entry is three 64-bit words: mover, opponent and data. Both board words are stored XORed with the data, so that an
entry half written by another thread never matches its key: no locks are needed, and a hit is always about exactly
this position. ``data`` packs, from the lowest bits,

    lower bound (16) · upper bound (16) · best square (8) · depth (8) · selectivity (8) · age (8)

with bounds in score units (``SCORE_DISC`` a disc, for the side to move). ``depth`` is the height of the search that
made the bounds; a search to the end has depth = empties. Selectivity 0 means that no ProbCut was used.

Entries live in buckets of ``WAYS`` neighbours; the shallowest entry of an older search is overwritten first.
"""

from __future__ import annotations

import mmap

import numpy as np
from numba import int64, uint64

from othello_nn.engine.score import NO_MOVE, SCORE_MAX
from othello_nn.errors import OthelloError
from othello_nn.kernels.bits import load_u64, prefetch, store_u64
from othello_nn.kernels.board import ZERO
from othello_nn.kernels.jit import kernel

ENTRY_BYTES = 24
WAYS = 4

_U16 = np.uint64(0xFFFF)
_U8 = np.uint64(0xFF)


class TranspositionTable:
    """Memory for about ``megabytes`` MB of entries; the count is rounded down to a power of two."""

    def __init__(self, megabytes: float = 128):
        entries = int(megabytes * 2**20) // ENTRY_BYTES
        if entries < 2 * WAYS:
            raise ValueError(f"a transposition table needs at least 0.001 MB, not {megabytes}")
        self.entries = 1 << (entries.bit_length() - 1)
        size = (self.entries + WAYS) * ENTRY_BYTES
        # Anonymous pages come zeroed and cost nothing until touched. Huge pages save most TLB misses; only private
        # ones may be.
        try:
            if hasattr(mmap, "MADV_HUGEPAGE"):
                self._memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
                self._memory.madvise(mmap.MADV_HUGEPAGE)
            else:
                self._memory = mmap.mmap(-1, size)
        except OSError as error:
            raise OthelloError(f"there is no memory for a table of {megabytes:g} MB ({error.strerror})") from None
        self.words = np.frombuffer(self._memory, dtype=np.uint64)
        self.age = 1

    @property
    def address(self) -> int:
        return self.words.ctypes.data

    @property
    def mask(self) -> int:
        return self.entries - 1

    def clear(self) -> None:
        self.words[:] = 0
        self.age = 1

    def new_search(self) -> None:
        """Older entries stay usable but give way first."""
        self.age = self.age % 255 + 1


@kernel("uint64(uint64, uint64)")
def position_hash(mover, opponent):
    mixed = mover * np.uint64(0x9E3779B97F4A7C15) ^ (opponent * np.uint64(0xC2B2AE3D27D4EB4F) >> np.uint64(7))
    mixed ^= opponent * np.uint64(0x165667B19E3779F9)
    return mixed ^ (mixed >> np.uint64(32))


@kernel("int64(int64, uint64, uint64, uint64)")
def bucket_address(table, mask, mover, opponent):
    return table + int64(position_hash(mover, opponent) & mask) * int64(ENTRY_BYTES)


@kernel("void(int64, uint64, uint64, uint64)")
def table_prefetch(table, mask, mover, opponent):
    address = bucket_address(table, mask, mover, opponent)
    prefetch(address)
    prefetch(address + int64(64))


@kernel("uint64(int64, uint64, uint64)")
def table_probe(bucket, mover, opponent):
    """The data word for this position, 0 if there is none."""
    for way in range(WAYS):
        offset = int64(way * ENTRY_BYTES)
        data = load_u64(bucket, offset + int64(16))
        if load_u64(bucket, offset) == mover ^ data and load_u64(bucket, offset + int64(8)) == opponent ^ data:
            return data
    return ZERO


@kernel("int64(uint64)")
def data_lower(data):
    return int64(np.int16(data & _U16))


@kernel("int64(uint64)")
def data_upper(data):
    return int64(np.int16((data >> np.uint64(16)) & _U16))


@kernel("int64(uint64)")
def data_move(data):
    return int64((data >> np.uint64(32)) & _U8)


@kernel("int64(uint64)")
def data_depth(data):
    return int64((data >> np.uint64(40)) & _U8)


@kernel("int64(uint64)")
def data_selectivity(data):
    return int64((data >> np.uint64(48)) & _U8)


@kernel("uint64(int64, int64, int64, int64, int64, int64)")
def pack_data(lower, upper, move, depth, selectivity, age):
    return (
        (uint64(lower) & _U16)
        | ((uint64(upper) & _U16) << np.uint64(16))
        | (uint64(move) << np.uint64(32))
        | (uint64(depth) << np.uint64(40))
        | (uint64(selectivity) << np.uint64(48))
        | (uint64(age) << np.uint64(56))
    )


@kernel("void(int64, uint64, uint64, int64, int64, int64, int64, int64, int64, int64)")
def table_store(bucket, mover, opponent, alpha, beta, score, move, depth, selectivity, age):
    """Record ``score`` of a search with window (alpha, beta); bounds from the same kind of search are kept too."""
    lower, upper = int64(-SCORE_MAX), int64(SCORE_MAX)
    if score > alpha:
        lower = score
    if score < beta:
        upper = score
    victim, victim_worth = int64(0), int64(1 << 30)
    for way in range(WAYS):
        offset = int64(way * ENTRY_BYTES)
        data = load_u64(bucket, offset + int64(16))
        if load_u64(bucket, offset) == mover ^ data and load_u64(bucket, offset + int64(8)) == opponent ^ data:
            if data_depth(data) == depth and data_selectivity(data) == selectivity:
                # Bounds that contradict each other come from different windows of a selective search: trust the newer.
                if data_lower(data) <= upper:
                    lower = max(lower, data_lower(data))
                if data_upper(data) >= lower:
                    upper = min(upper, data_upper(data))
                if score <= alpha and data_move(data) != int64(NO_MOVE):
                    move = data_move(data)
            victim = offset
            break
        # Depth counts, an older search's entry is worth less than any of this one, empty entries least.
        worth = data_depth(data) * 4 - data_selectivity(data)
        if int64(data >> np.uint64(56)) == age:
            worth += 1024
        if worth < victim_worth:
            victim, victim_worth = offset, worth
    data = pack_data(lower, upper, move, depth, selectivity, age)
    store_u64(bucket, victim + int64(16), data)
    store_u64(bucket, victim, mover ^ data)
    store_u64(bucket, victim + int64(8), opponent ^ data)
