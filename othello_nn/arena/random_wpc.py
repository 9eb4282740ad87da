"""Random WPC players, against which *expected utility* is measured: a fresh one for each double game.

A weighted piece counter (WPC) has a weight for each of the 64 squares and takes the move after which its own discs
weigh most against the other side's. Here each weight is drawn uniformly from −1 … 1, and nothing ties the weights of
symmetric squares. A player's mean score against them says how it does against anybody, good or bad, while the League's
score says how it does against one opponent. Read ``league.py`` first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import int64, uint64

from othello_nn.engine.leaf.door import no_begin, no_child
from othello_nn.kernels.bits import load_i32, lowest_square
from othello_nn.kernels.board import ONE, ZERO
from othello_nn.kernels.chance import next_random, random_stream
from othello_nn.kernels.jit import kernel

NAME = "random-wpc"
UNIT = 1 << 24
"""Weights are whole numbers from −UNIT to UNIT."""
_WEIGHTS = 0x57504331  # sets the streams of weights apart from those of games and openings


class DrawnSquares(NamedTuple):
    """An evaluator of the engine whose weights are drawn anew for each double game."""

    weights: int
    """The address of 64 int32, to be kept by who made it."""


@kernel()
def _drawn_score(ev, features, mover, opponent, empties):
    value = int64(0)
    while mover != ZERO:
        value += int64(load_i32(ev.weights, lowest_square(mover) * int64(4)))
        mover &= mover - ONE
    while opponent != ZERO:
        value -= int64(load_i32(ev.weights, lowest_square(opponent) * int64(4)))
        opponent &= opponent - ONE
    return value


DrawnSquares.begin, DrawnSquares.child, DrawnSquares.score = no_begin, no_child, _drawn_score  # type: ignore[attr-defined]


@kernel("void(uint64, int64, int32[::1])")
def draw_weights(seed, number, weights):
    """The weights [64] of double game ``number``'s opponent."""
    state = random_stream(seed ^ uint64(_WEIGHTS), uint64(number))
    for square in range(weights.size):
        state = next_random(state)
        bits = (state * np.uint64(0x2545F4914F6CDD1D)) >> np.uint64(32)
        weights[square] = np.int32(int64((bits * uint64(2 * UNIT + 1)) >> np.uint64(32)) - int64(UNIT))
