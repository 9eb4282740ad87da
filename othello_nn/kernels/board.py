"""The rules of Othello at machine speed: compiled functions over pairs of 64-bit words.

Every kernel takes the mover's and the opponent's discs (bit i is square i, a1 = 0 … h8 = 63), assumes that the input is
legal, and allocates nothing. The public API, which checks its input, is ``position.Position``; the readable oracle that
tests compare these functions with is ``rules``. The instructions underneath are in ``bits``.
"""

from __future__ import annotations

import numpy as np
from numba import int64, uint64

from othello_nn.game.rules import START_MOVER, START_OPPONENT
from othello_nn.kernels.bits import byte_swap, flips_of, legal_of, lowest_square, popcount
from othello_nn.kernels.jit import kernel

ZERO, ONE = np.uint64(0), np.uint64(1)
START = np.uint64(START_MOVER), np.uint64(START_OPPONENT)
"""The first position: the mover's and the opponent's discs."""
CORNERS = np.uint64(0x8100000000000081)
BORDER = np.uint64(0xFF818181818181FF)
NOT_A_FILE = np.uint64(0xFEFEFEFEFEFEFEFE)
NOT_H_FILE = np.uint64(0x7F7F7F7F7F7F7F7F)


@kernel("uint64(uint64, uint64)")
def legal_moves(mover, opponent):
    return legal_of(mover, opponent)


@kernel("uint64(uint64, uint64, int64)")
def flips(mover, opponent, square):
    return flips_of(mover, opponent, square)


@kernel("UniTuple(uint64, 2)(uint64, uint64, int64, uint64)", inline=True)
def after(mover, opponent, square, turned):
    """The boards after a move that turns ``turned``, seen from the other side: (new mover, new opponent).

    Inlined, it costs the search nothing (``jit.kernel`` says why that must be asked for).
    """
    return opponent ^ turned, mover ^ turned ^ (ONE << uint64(square))


@kernel("UniTuple(uint64, 2)(uint64, uint64, int64)")
def play(mover, opponent, square):
    """The boards after a legal move, seen from the other side: (new mover, new opponent)."""
    return after(mover, opponent, square, flips_of(mover, opponent, square))


@kernel("Tuple((uint64, uint64, uint64, boolean))(uint64, uint64)", inline=True)
def side_to_move(mover, opponent):
    """Who can move: its discs, the other side's, its moves, and whether ``mover`` had to pass for it.

    Without moves the game is over.
    """
    moves = legal_of(mover, opponent)
    if moves != ZERO:
        return mover, opponent, moves, False
    return opponent, mover, legal_of(opponent, mover), True


@kernel("int64(uint64, uint64)")
def mobility(mover, opponent):
    return popcount(legal_of(mover, opponent))


@kernel("uint64(uint64)")
def neighbours(discs):
    """The squares next to any of ``discs`` in the eight directions, and the discs themselves."""
    row = discs | ((discs << ONE) & NOT_A_FILE) | ((discs >> ONE) & NOT_H_FILE)
    return row | (row << np.uint64(8)) | (row >> np.uint64(8))


@kernel("int64(uint64, uint64)")
def potential_mobility(mover, opponent):
    """Empty squares beside an opposing disc: where ``mover`` may come to play."""
    return popcount(neighbours(opponent) & ~(mover | opponent))


@kernel("int64(uint64, uint64)")
def final_score(mover, opponent):
    """Disc difference for ``mover`` at the end of a game; the empty squares go to the winner."""
    mine, theirs = popcount(mover), popcount(opponent)
    if mine > theirs:
        return 64 - 2 * theirs
    if mine < theirs:
        return 2 * mine - 64
    return int64(0)


@kernel("uint64(uint64)")
def odd_regions(empty):
    """The 4×4 quarters of the board that hold an odd number of empty squares, as whole quarters."""
    fold = empty ^ (empty >> np.uint64(2))
    fold ^= fold >> ONE
    fold ^= fold >> np.uint64(16)
    fold ^= fold >> np.uint64(8)
    return (fold & np.uint64(0x0000001100000011)) * np.uint64(0x0F0F0F0F)


# --- stable discs ----------------------------------------------------------------------------------------------------


def _off_board(shift: int, steps: int) -> np.uint64:
    """Squares whose ``steps`` predecessors along ``shift`` (towards lower squares) leave the board."""
    d_rank, d_file = {1: (0, 1), 8: (1, 0), 9: (1, 1), 7: (1, -1)}[abs(shift)]
    if shift < 0:
        d_rank, d_file = -d_rank, -d_file
    mask = 0
    for square in range(64):
        rank, file = square // 8 - steps * d_rank, square % 8 - steps * d_file
        if not (0 <= rank < 8 and 0 <= file < 8):
            mask |= 1 << square
    return np.uint64(mask)


_OUT_7 = tuple(_off_board(7, n) for n in (1, 2, 4))
_OUT_9 = tuple(_off_board(9, n) for n in (1, 2, 4))
_OUT_B7 = tuple(_off_board(-7, n) for n in (1, 2, 4))
_OUT_B9 = tuple(_off_board(-9, n) for n in (1, 2, 4))


@kernel("uint64(uint64, uint64, UniTuple(uint64, 3), UniTuple(uint64, 3))")
def _full_diagonals(discs, shift, out_up, out_down):
    """Squares of diagonals without an empty square: AND along both ways, the outside counting as full."""
    up = discs & ((discs << shift) | out_up[0])
    up &= (up << (shift * np.uint64(2))) | out_up[1]
    up &= (up << (shift * np.uint64(4))) | out_up[2]
    down = discs & ((discs >> shift) | out_down[0])
    down &= (down >> (shift * np.uint64(2))) | out_down[1]
    down &= (down >> (shift * np.uint64(4))) | out_down[2]
    return up & down


@kernel("uint64(uint64)")
def _full_ranks(discs):
    full = discs & (discs >> np.uint64(4))
    full &= full >> np.uint64(2)
    full &= full >> ONE
    return (full & np.uint64(0x0101010101010101)) * np.uint64(0xFF)


@kernel("uint64(uint64)")
def _full_files(discs):
    full = discs & ((discs >> np.uint64(32)) | (discs << np.uint64(32)))
    full &= (full >> np.uint64(16)) | (full << np.uint64(48))
    return full & ((full >> np.uint64(8)) | (full << np.uint64(56)))


@kernel("uint64(uint64, uint64)")
def stable_discs(mover, opponent):
    """Discs of ``mover`` that can never be turned: a lower bound, cheap enough for a search node.

    A disc is safe along an axis if the whole line is full, if it stands at the board's end of that line, or if a safe
    disc of its own colour stands next to it on the line; safe along all four axes, it is stable. Grown to a fixed
    point.
    """
    discs = mover | opponent
    ranks = _full_ranks(discs) | ~(NOT_A_FILE & NOT_H_FILE)
    files = _full_files(discs) | np.uint64(0xFF000000000000FF)
    rising = _full_diagonals(discs, np.uint64(7), _OUT_7, _OUT_B7) | BORDER
    falling = _full_diagonals(discs, np.uint64(9), _OUT_9, _OUT_B9) | BORDER
    stable = mover & ranks & files & rising & falling
    while True:
        near_rank = ranks | ((stable << ONE) & NOT_A_FILE) | ((stable >> ONE) & NOT_H_FILE)
        near_file = files | (stable << np.uint64(8)) | (stable >> np.uint64(8))
        near_rising = rising | ((stable << np.uint64(7)) & NOT_H_FILE) | ((stable >> np.uint64(7)) & NOT_A_FILE)
        near_falling = falling | ((stable << np.uint64(9)) & NOT_A_FILE) | ((stable >> np.uint64(9)) & NOT_H_FILE)
        grown = mover & near_rank & near_file & near_rising & near_falling
        if grown == stable:
            return stable
        stable = grown


# --- symmetry --------------------------------------------------------------------------------------------------------


@kernel("uint64(uint64)")
def mirror_files(board):
    """a ↔ h."""
    board = ((board >> ONE) & np.uint64(0x5555555555555555)) | ((board & np.uint64(0x5555555555555555)) << ONE)
    two, four = np.uint64(2), np.uint64(4)
    board = ((board >> two) & np.uint64(0x3333333333333333)) | ((board & np.uint64(0x3333333333333333)) << two)
    return ((board >> four) & np.uint64(0x0F0F0F0F0F0F0F0F)) | ((board & np.uint64(0x0F0F0F0F0F0F0F0F)) << four)


@kernel("uint64(uint64)")
def transpose(board):
    """Mirror on the a1–h8 diagonal, by three delta swaps."""
    t = (board ^ (board >> np.uint64(7))) & np.uint64(0x00AA00AA00AA00AA)
    board ^= t ^ (t << np.uint64(7))
    t = (board ^ (board >> np.uint64(14))) & np.uint64(0x0000CCCC0000CCCC)
    board ^= t ^ (t << np.uint64(14))
    t = (board ^ (board >> np.uint64(28))) & np.uint64(0x00000000F0F0F0F0)
    return board ^ t ^ (t << np.uint64(28))


@kernel("uint64(uint64, int64)")
def transform(board, symmetry):
    """Image under symmetry 0…7: bit 0 mirrors the files, then bit 1 the ranks, then bit 2 transposes."""
    if symmetry & 1:
        board = mirror_files(board)
    if symmetry & 2:
        board = byte_swap(board)
    if symmetry & 4:
        board = transpose(board)
    return board


# --- whole games -----------------------------------------------------------------------------------------------------


@kernel("int64(uint64, uint64, int64)")
def perft(mover, opponent, depth):
    """Number of move sequences of ``depth`` plies; a pass is a ply, and a finished game counts once.

    The last ply is counted, not played.
    """
    if depth == int64(0):
        return int64(1)
    moves = legal_of(mover, opponent)
    if moves == ZERO:
        if legal_of(opponent, mover) == ZERO:
            return int64(1)
        return perft(opponent, mover, int64(depth - 1))
    if depth == int64(1):
        return popcount(moves)
    leaves = int64(0)
    if depth == int64(2):
        while moves != ZERO:
            square = lowest_square(moves)
            moves &= moves - ONE
            next_mover, next_opponent = play(mover, opponent, square)
            # Passes and ends are one leaf each, so the last ply needs no call.
            leaves += max(popcount(legal_of(next_mover, next_opponent)), int64(1))
        return leaves
    while moves != ZERO:
        square = lowest_square(moves)
        moves &= moves - ONE
        next_mover, next_opponent = play(mover, opponent, square)
        leaves += perft(next_mover, next_opponent, int64(depth - 1))
    return leaves


@kernel("int64(uint64, int64)")
def nth_square(mask, n):
    """The ``n``-th set square of ``mask``, counting from 0; ``n`` must be below its population."""
    while n > int64(0):
        mask &= mask - ONE
        n -= int64(1)
    return lowest_square(mask)
