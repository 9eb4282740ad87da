"""Leaf values that are known, and those that are wanted: the memory of a search whose net answers in batches.

``speculate.py`` asks here for the value of a position. If it is not known, the position goes into a queue, once, and
the search goes on with a guess; when the queue is full or nothing more is wanted, ``rounds.py`` has the net evaluate it
and stores the values. A value stays until the search is over, which is what makes a search come to its end: every round
adds values to a finite tree. So the memory grows with need, up to ``MOST_ENTRIES``.

An entry is three 64-bit words: mover, opponent, value. Nets may look at the colour to move, so it is part of the key:
where white is to move, the mover's word is inverted (no position looks like that, as both sides would share squares).
Header fields are words at fixed byte offsets, as in ``workspace.py``. All kernels assume that no other thread is at
work here; ``rounds.py`` sees to it.
"""

from __future__ import annotations

import numpy as np
from numba import int64

from othello_nn.engine.ttable import position_hash
from othello_nn.kernels.bits import load_i64, load_u64, prefetch, store_i64, store_u64
from othello_nn.kernels.board import ZERO
from othello_nn.kernels.jit import kernel

# Header words (byte offsets).
ENTRIES = 0  # address of the entries
MASK = 8  # how many there are, less one: a power of two
USED = 16
QUEUED = 24  # positions in the queue
ROOM = 32  # … and how many may be there
FULL = 40  # 1 once a position found no room
UNSURE = 48  # whether what the search last returned rests on a guess
WIDE = 56  # at nodes of no more depth than this, moves are looked at though a guess says that they need not be
QUEUE = 64  # address of the queue: mover, opponent and colour, a word each
HEADER_WORDS = 9

ENTRY_BYTES = 24
PENDING, UNKNOWN = 1 << 20, 1 << 21
"""In the place of a value: it is in a queue, or the position has been seen and nobody has asked."""
FIRST_ENTRIES, MOST_ENTRIES = 1 << 14, 1 << 24  # 400 kB, 400 MB
# Entries are found by looking from their place on to the next free one: with more than this in use, it takes long.
FILLED = 0.7
# A search begins with what the ones before it knew, unless that is more than this.
KEPT_ENTRIES = 1 << 20

BLACK, WHITE = np.uint64(0), ~np.uint64(0)
"""The colour to move, as a mask for the mover's word in keys."""


class KnownLeaves:
    """Owns the memory of one engine: values, and one queue at a time. Kernels see only ``address``."""

    def __init__(self, most_entries: int = MOST_ENTRIES):
        self.most_entries = most_entries
        self.words = np.zeros(HEADER_WORDS, np.int64)
        self._allot(FIRST_ENTRIES)

    @property
    def address(self) -> int:
        return self.words.ctypes.data

    def __getitem__(self, offset: int) -> int:
        return int(self.words[offset // 8])

    def __setitem__(self, offset: int, value: int) -> None:
        self.words[offset // 8] = value

    def _allot(self, entries: int) -> None:
        self._entries = np.zeros((entries, ENTRY_BYTES // 8), np.uint64)
        self[ENTRIES], self[MASK], self[USED] = self._entries.ctypes.data, entries - 1, 0

    def clear(self) -> None:
        """Forget all values. Memory that has grown is kept, since growing takes longer than clearing, but not all."""
        if len(self._entries) > 2 * KEPT_ENTRIES:
            self._allot(FIRST_ENTRIES)
        self._entries[:] = 0
        self[USED] = 0

    def new_search(self) -> None:
        """Make room if earlier searches have left much."""
        if self[USED] > KEPT_ENTRIES:
            self.clear()

    def open_queue(self, queue: np.ndarray, room: int) -> int:
        """Let the search fill ``queue``, ``[N, 3]`` uint64, with at most ``room`` positions; as many as there will be.

        Fewer if the memory cannot grow any more, none if it is full.
        """
        needed = self[USED] + room
        while needed > FILLED * (self[MASK] + 1) and 2 * (self[MASK] + 1) <= self.most_entries:
            old, used = self._entries, self[USED]
            self._allot(2 * len(old))
            _move_entries(self.address, old)
            self[USED] = used
        room = max(0, min(room, int(FILLED * (self[MASK] + 1)) - self[USED], len(queue)))
        self[QUEUE], self[QUEUED], self[ROOM], self[FULL] = queue.ctypes.data, 0, room, 0
        return room

    def store(self, queue: np.ndarray, scores: np.ndarray | None) -> None:
        """The values of a queue's positions; None if nobody will find them out."""
        if scores is None:
            scores = np.full(len(queue), UNKNOWN, np.int64)
        _store_values(self.address, queue, scores)


@kernel("int64(int64, uint64, uint64)")
def entry_of(leaves, key, opponent):
    """Address of the position's entry, or of the free one where it belongs."""
    entries, mask = load_i64(leaves, int64(ENTRIES)), load_u64(leaves, int64(MASK))
    place = position_hash(key, opponent) & mask
    while True:
        entry = entries + int64(place) * int64(ENTRY_BYTES)
        there = load_u64(entry, int64(8))
        # The opponent has discs wherever a net is asked.
        if there == ZERO or (there == opponent and load_u64(entry, int64(0)) == key):
            return entry
        place = (place + np.uint64(1)) & mask


@kernel("void(int64, uint64, uint64, uint64)")
def known_prefetch(leaves, mover, opponent, colour):
    """The entry will soon be asked for."""
    place = position_hash(mover ^ colour, opponent) & load_u64(leaves, int64(MASK))
    prefetch(load_i64(leaves, int64(ENTRIES)) + int64(place) * int64(ENTRY_BYTES))


@kernel("int64(int64, uint64, uint64, uint64)")
def known_value(leaves, mover, opponent, colour):
    """The value for the mover, ``PENDING`` or ``UNKNOWN``."""
    entry = entry_of(leaves, mover ^ colour, opponent)
    if load_u64(entry, int64(8)) == ZERO:
        return int64(UNKNOWN)
    return load_i64(entry, int64(16))


@kernel("void(int64, uint64, uint64, uint64)")
def want_value(leaves, mover, opponent, colour):
    """Put the position into the queue if it is not in one; ``FULL`` is set where there is no room for it."""
    entry = entry_of(leaves, mover ^ colour, opponent)
    is_new = load_u64(entry, int64(8)) == ZERO
    if not is_new and load_i64(entry, int64(16)) != int64(UNKNOWN):
        return
    queued = load_i64(leaves, int64(QUEUED))
    if queued >= load_i64(leaves, int64(ROOM)):
        store_i64(leaves, int64(FULL), int64(1))
        return
    if is_new:
        store_i64(leaves, int64(USED), load_i64(leaves, int64(USED)) + int64(1))
    store_u64(entry, int64(0), mover ^ colour)
    store_u64(entry, int64(8), opponent)
    store_i64(entry, int64(16), int64(PENDING))
    place = load_i64(leaves, int64(QUEUE)) + queued * int64(24)
    store_u64(place, int64(0), mover)
    store_u64(place, int64(8), opponent)
    store_u64(place, int64(16), colour)
    store_i64(leaves, int64(QUEUED), queued + int64(1))


@kernel("void(int64, uint64[:, ::1], int64[::1])")
def _store_values(leaves, queue, scores):
    for i in range(scores.size):
        entry = entry_of(leaves, queue[i, 0] ^ queue[i, 2], queue[i, 1])
        store_i64(entry, int64(16), scores[i])


@kernel("void(int64, uint64[:, ::1])")
def _move_entries(leaves, old):
    """Put the entries of a smaller memory into this one."""
    for i in range(old.shape[0]):
        if old[i, 1] != ZERO:
            entry = entry_of(leaves, old[i, 0], old[i, 1])
            for word in range(3):
                store_u64(entry, int64(8 * word), old[i, word])
