"""Chance in compiled code: random numbers from a state of one word, random moves, and games of them.

A kernel that draws takes the state last and returns it last. Equal seeds give equal games only as long as each draws
the same numbers in the same order, so a draw is never left out because its result is not needed.
"""

from __future__ import annotations

import numpy as np
from numba import int64, uint64

from othello_nn.kernels.bits import popcount
from othello_nn.kernels.board import ONE, ZERO, final_score, nth_square, play, side_to_move
from othello_nn.kernels.jit import kernel

ALWAYS = 1 << 32
"""A probability is given as a whole number, its ``chances`` of 2³². These are all of them."""


def seed_word(*numbers: int) -> int:
    """A seed of 64 bits that differs for every tuple of numbers; zeros at the end make no difference."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])


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


@kernel("Tuple((boolean, uint64))(int64, uint64)", inline=True)
def happens(chances, state):
    """Whether something with so many ``chances`` of 2³² happens."""
    state = next_random(state)
    return below(state, int64(ALWAYS)) < chances, state


# --- moves -----------------------------------------------------------------------------------------------------------


@kernel("Tuple((int64, uint64))(uint64, uint64)", inline=True)
def random_move(moves, state):
    """One of ``moves`` (not empty), each as likely as the others."""
    state = next_random(state)
    return nth_square(moves, below(state, popcount(moves))), state


@kernel("Tuple((int64, uint64))(uint64, int64, uint64)", inline=True)
def chance_move(moves, chances, state):
    """With so many ``chances`` of 2³² a random one of ``moves`` (not empty), else −1: then the player is to choose."""
    is_random, state = happens(chances, state)
    if is_random:
        return random_move(moves, state)
    return int64(-1), state


@kernel("Tuple((int64, int64, uint64))(int64, int64, uint64)")
def draw_noise(opening, least, state):
    """A game's own noise: how many empties, from ``opening`` down to ``least``, are left when random moves end, and the
    chances of one until then: 3, 6, 12, 25 or 50 %."""
    state = next_random(state)
    noisy = opening - below(state, max(opening - least, int64(0)) + int64(1))
    state = next_random(state)
    return noisy, int64(ALWAYS // 32) << below(state, int64(5)), state


@kernel("int64(int64, int64, int64, int64)")
def noise_chances(empties, opening, noisy, noise):
    """The chances that a move of such a game is random: all above ``opening`` empties, none from ``noisy`` on."""
    if empties > opening:
        return int64(ALWAYS)
    return noise if empties > noisy else int64(0)


@kernel("int64(uint64, uint64, uint64)")
def random_playout(mover, opponent, seed):
    """Score for ``mover`` after uniformly random moves to the end. ``seed`` must not be 0."""
    sign = int64(1)
    state = seed
    while True:
        mover, opponent, moves, passed = side_to_move(mover, opponent)
        if passed:
            sign = -sign
        if moves == ZERO:
            return sign * final_score(mover, opponent)
        square, state = random_move(moves, state)
        mover, opponent = play(mover, opponent, square)
        sign = -sign


@kernel("void(uint64, uint64, uint64, int64[::1])")
def random_playouts(mover, opponent, seed, scores):
    """Fill ``scores`` with independent playouts' results for ``mover``."""
    for i in range(scores.size):
        # Weyl steps keep the streams of neighbouring games apart.
        scores[i] = random_playout(mover, opponent, (seed + uint64(i)) * np.uint64(0x9E3779B97F4A7C15) | ONE)
