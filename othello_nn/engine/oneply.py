"""The 1-ply player as a kernel: look at each position after one's own move, and take the one that is worst for the
other side.

League games and self-play are made of this, of random moves (``kernels/chance.py``) and of the rules. It asks any
evaluator through the door of ``leaf/door.py``; read that first.
"""

from __future__ import annotations

import numpy as np
from numba import int64

from othello_nn.engine.leaf.door import leaf_begin, leaf_child, leaf_score
from othello_nn.engine.leaf.lanes import FEATURE_BYTES
from othello_nn.kernels.bits import flips_of, lowest_square
from othello_nn.kernels.board import ONE, ZERO, after
from othello_nn.kernels.chance import below, next_random
from othello_nn.kernels.jit import kernel

SCRATCH_BYTES = 2 * FEATURE_BYTES  # those before the move and those after it


def new_scratch() -> np.ndarray:
    """Memory for ``one_ply``, one for each thread: pass its ``ctypes.data`` and keep it alive."""
    return np.zeros(SCRATCH_BYTES // 8, np.int64)


@kernel()
def evaluated_move(ev, scratch, mover, opponent, moves, empties, state, sees_wipe_outs):
    """``one_ply``, which may be blind to wipe-outs: then the evaluator alone decides."""
    there = scratch + int64(FEATURE_BYTES)
    leaf_begin(ev, scratch, mover, opponent)
    best, best_square, equals = int64(1 << 62), int64(-1), int64(0)
    while moves != ZERO:
        square = lowest_square(moves)
        moves &= moves - ONE
        turned = flips_of(mover, opponent, square)
        if sees_wipe_outs and turned == opponent:
            return square, state
        leaf_child(ev, there, scratch, square, turned)
        next_mover, next_opponent = after(mover, opponent, square, turned)
        value = leaf_score(ev, there, next_mover, next_opponent, int64(empties - int64(1)))
        if value < best:
            best, best_square, equals = value, square, int64(1)
        elif value == best:
            # The n-th of several equals takes the place of those before it once in n times: each is as likely.
            equals += int64(1)
            state = next_random(state)
            if below(state, equals) == int64(0):
                best_square = square
    return best_square, state


@kernel()
def one_ply(ev, scratch, mover, opponent, moves, empties, state):
    """The best of ``moves`` (not empty) at 1-ply, and the random state after it; among equals chance decides.

    A move that leaves the other side no disc wins at once, whatever the evaluator says.
    """
    return evaluated_move(ev, scratch, mover, opponent, moves, empties, state, True)
