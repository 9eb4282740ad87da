"""Which move first: what earlier cut-offs say about a square, and picking the best key from a move list.

A move list is an array of (key, flips) words in a frame of the workspace; the low byte of a key is the square. The keys
themselves are put together in ``endgame.py`` and ``midgame.py``, a sixteenth of an opponent's reply being the unit.
"""

from __future__ import annotations

from numba import int64

from othello_nn.engine.score import NO_MOVE
from othello_nn.engine.workspace import (
    CUT_FIRST,
    CUT_MOVES,
    CUT_NODES,
    HISTORY,
    HISTORY_ORDER,
    KILLER_MOVES,
    KILLERS,
    MOVE_BYTES,
    NEXT_HISTORY,
    NEXT_KILLERS,
    RATED_RESPONSES,
    RATINGS,
    RESPONSE_ORDER,
    RESPONSES,
    SIDE,
    STATIC_HISTORY,
    STATIC_KILLERS,
)
from othello_nn.kernels.bits import legal_of, load_i64, load_u64, lowest_square, store_i64, store_u64
from othello_nn.kernels.board import ONE, ZERO
from othello_nn.kernels.jit import kernel

# Asked for together, so that all that is off by default costs one look at the switches.
SELDOM_NOTED = HISTORY_ORDER | STATIC_HISTORY | RESPONSE_ORDER | STATIC_KILLERS
SELDOM_ASKED = HISTORY_ORDER | STATIC_HISTORY | RESPONSE_ORDER | RATED_RESPONSES
# IAGO raises a response's rating "by a small amount whenever it is a legal response, and by a large amount whenever it
# is the best response (or the cause of a cutoff in the search)". How much that is, it does not say.
LEGAL_RATING, BEST_RATING = 1, 16
LARGEST_RATING = 1 << 29  # below the key of the table's move


@kernel("int64(int64, int64)")
def take_best(moves, count):
    """Move the entry with the highest key of ``count`` entries to the front and return the key."""
    best, best_key = int64(0), load_i64(moves, int64(0))
    for i in range(1, count):
        key = load_i64(moves, int64(i) * int64(MOVE_BYTES))
        if key > best_key:
            best, best_key = int64(i), key
    if best != int64(0):
        offset = best * int64(MOVE_BYTES)
        flips = load_u64(moves, offset + int64(8))
        store_i64(moves, offset, load_i64(moves, int64(0)))
        store_u64(moves, offset + int64(8), load_u64(moves, int64(8)))
        store_i64(moves, int64(0), best_key)
        store_u64(moves, int64(8), flips)
    return best_key


@kernel("void(int64, int64)")
def _note_killer(killers, square):
    first = load_i64(killers, int64(0))
    if first != square:
        store_i64(killers, int64(8), first)
        store_i64(killers, int64(0), square)


@kernel("void(int64, int64)")
def _add(cell, value):
    store_i64(cell, int64(0), load_i64(cell, int64(0)) + value)


@kernel("void(int64, int64, int64, int64, int64, int64, int64)")
def note_cut(workspace, switches, empties, depth, previous, square, tried):
    """A beta cut-off by the ``tried``-th move: statistics, killers, history and responses."""
    store_i64(workspace, int64(CUT_NODES), load_i64(workspace, int64(CUT_NODES)) + int64(1))
    store_i64(workspace, int64(CUT_MOVES), load_i64(workspace, int64(CUT_MOVES)) + tried)
    if tried == int64(1):
        store_i64(workspace, int64(CUT_FIRST), load_i64(workspace, int64(CUT_FIRST)) + int64(1))
    if switches & KILLER_MOVES:
        _note_killer(workspace + int64(KILLERS) + empties * int64(16), square)
    if switches & SELDOM_NOTED:
        if switches & STATIC_KILLERS:
            _note_killer(workspace + int64(NEXT_KILLERS) + empties * int64(16), square)
        if switches & HISTORY_ORDER:
            _add(workspace + int64(HISTORY) + square * int64(8), depth * depth)
        if switches & STATIC_HISTORY:
            _add(workspace + int64(NEXT_HISTORY) + square * int64(8), depth * depth)
        if switches & RESPONSE_ORDER:
            _add(workspace + int64(RESPONSES) + (previous * int64(64) + square) * int64(8), depth * depth)


@kernel("int64(int64, int64, int64)")
def _ratings_of(workspace, empties, previous):
    """The address of the ratings [64 squares] of the responses to ``previous``, a move by the side not to move."""
    side = (empties + load_i64(workspace, int64(SIDE))) & int64(1)
    return workspace + int64(RATINGS) + (side * int64(65) + previous) * int64(64 * 8)


@kernel("void(int64, uint64, uint64, int64, int64, int64)")
def rate_responses(workspace, mover, opponent, empties, previous, best):
    """A node is done: raise what was legal there a little, and ``best``, if there was such a move, much."""
    ratings = _ratings_of(workspace, empties, previous)
    moves = legal_of(mover, opponent)
    while moves != ZERO:
        _add(ratings + lowest_square(moves) * int64(8), int64(LEGAL_RATING))
        moves &= moves - ONE
    if best != int64(NO_MOVE):
        _add(ratings + best * int64(8), int64(BEST_RATING))


@kernel("void(int64)")
def turn_side(workspace):
    """A pass, or its end: the other side is to move with as many empties."""
    store_i64(workspace, int64(SIDE), load_i64(workspace, int64(SIDE)) ^ int64(1))


@kernel("int64(int64)")
def _log2(value):
    bits = int64(0)
    while value > int64(0):
        value >>= int64(1)
        bits += int64(1)
    return bits


@kernel("int64(int64, int64, int64, int64, int64)")
def learnt_key(workspace, switches, empties, previous, square):
    """Killers, history and responses as an ordering key, in units comparable with a sixteenth of a reply.

    Ratings are a key as they are, beside which nothing else counts.
    """
    key = int64(0)
    if switches & (KILLER_MOVES | STATIC_KILLERS):
        killer = workspace + int64(KILLERS) + empties * int64(16)
        if square == load_i64(killer, int64(0)):
            key += int64(24)
        elif square == load_i64(killer, int64(8)):
            key += int64(12)
    if switches & SELDOM_ASKED:
        if switches & (HISTORY_ORDER | STATIC_HISTORY):
            key += _log2(load_i64(workspace + int64(HISTORY), square * int64(8))) * int64(4)
        if switches & RESPONSE_ORDER:
            key += _log2(load_i64(workspace + int64(RESPONSES), (previous * int64(64) + square) * int64(8))) * int64(4)
        if switches & RATED_RESPONSES:
            key += min(load_i64(_ratings_of(workspace, empties, previous), square * int64(8)), int64(LARGEST_RATING))
    return key


@kernel("int64(int64)")
def square_key(square):
    """A fixed value of a square: corners, then away from the corners, X-squares last."""
    file, rank = square & int64(7), square >> int64(3)
    file, rank = min(file, int64(7) - file), min(rank, int64(7) - rank)
    if file + rank == int64(0):
        return int64(200)
    if file <= int64(1) and rank <= int64(1):
        return int64(-100) - int64(50) * file * rank
    if file == int64(0) or rank == int64(0):
        return int64(40)
    if file == int64(1) or rank == int64(1):
        return int64(-40)
    return int64(0)
