"""Chance in compiled code: random numbers from a state of one word, and games of random moves."""

from __future__ import annotations

import numpy as np
from numba import int64, uint64

from othello_nn.kernels.bits import flips_of, legal_of, popcount
from othello_nn.kernels.board import ONE, ZERO, final_score, nth_square
from othello_nn.kernels.jit import kernel


@kernel("uint64(uint64)")
def next_random(state):
    """One step of the xorshift64* generator's state; multiply by an odd constant for output bits."""
    state ^= state >> np.uint64(12)
    state ^= state << np.uint64(25)
    return state ^ (state >> np.uint64(27))


@kernel("int64(uint64, int64)")
def below(state, n):
    """A number in 0…n−1 from the high bits of a random state; ``n`` at most 2³²."""
    high_bits = (state * np.uint64(0x2545F4914F6CDD1D)) >> np.uint64(32)
    return int64((high_bits * uint64(n)) >> np.uint64(32))


@kernel("uint64(uint64, uint64)")
def random_stream(seed, index):
    """A first state for ``next_random``, never 0: neighbouring seeds or indices give unrelated streams."""
    state = ZERO
    for word in (seed, index):
        # Each word is added with a Weyl step, and the sum scattered by xorshifts and odd multipliers (splitmix64's).
        state += word + np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state ^= state >> np.uint64(31)
    return max(state, ONE)


@kernel("int64(uint64, uint64, uint64)")
def random_playout(mover, opponent, seed):
    """Score for ``mover`` after uniformly random moves to the end. ``seed`` must not be 0."""
    sign = int64(1)
    state = seed
    while True:
        moves = legal_of(mover, opponent)
        if moves == ZERO:
            mover, opponent, sign = opponent, mover, -sign
            moves = legal_of(mover, opponent)
            if moves == ZERO:
                return sign * final_score(mover, opponent)
        state = next_random(state)
        square = nth_square(moves, below(state, popcount(moves)))
        turned = flips_of(mover, opponent, square)
        mover, opponent, sign = opponent ^ turned, mover ^ turned ^ (ONE << uint64(square)), -sign


@kernel("void(uint64, uint64, uint64, int64[::1])")
def random_playouts(mover, opponent, seed, scores):
    """Fill ``scores`` with independent playouts' results for ``mover``."""
    for i in range(scores.size):
        # Weyl steps keep the streams of neighbouring games apart.
        scores[i] = random_playout(mover, opponent, (seed + uint64(i)) * np.uint64(0x9E3779B97F4A7C15) | ONE)
