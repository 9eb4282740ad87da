"""Triangle and dense nets computed directly, and their gradients: float64 kernels that allocate nothing. For
``leouski.py``.

What a hidden unit sees is a *patch* of the board: one of eight triangles of ten squares, or all 64 squares, the only
patch of a fully connected net.

Tables compiled for the search would have to be made anew after each game. Here the sums that go into the hidden units
are carried along from a position to those after it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import uint64

from othello_nn.kernels.bits import lowest_square, popcount
from othello_nn.kernels.board import ONE, ZERO
from othello_nn.kernels.jit import kernel

BLACK, WHITE = 0, 1
SATURATED = 40.0  # beyond this Squash is ±1 in double precision
ROOT, AFTER_MOVE, AFTER_REPLY = range(3)


class Patches(NamedTuple):
    """Which squares hidden units see together."""

    squares: np.ndarray  # [patches, size]
    patch: np.ndarray  # [64, 2]: the one or two patches of each square (−1: no second one) …
    place: np.ndarray  # … and as which of their squares

    @classmethod
    def of(cls, squares: np.ndarray) -> Patches:
        patch, place = np.full((64, 2), -1), np.zeros((64, 2), np.int64)
        for square in range(64):
            for n, (t, j) in enumerate(np.argwhere(square == squares)):
                patch[square, n], place[square, n] = t, j
        return cls(squares, patch, place)


class Nets(NamedTuple):
    """Both colours' nets (black's first), or their gradients: float64, views of one vector.

    A hidden unit is a patch and a column k = net · maps + map, a map of a fully connected net being one unit; a net
    that is not staged is a single one with coefficient 1. A symmetric net has equal rows of ``biases`` and ``outputs``.
    """

    everything: np.ndarray  # [all]
    weights: np.ndarray  # [2, size or twice that, columns]
    biases: np.ndarray  # [2, patches, columns]
    outputs: np.ndarray  # [2, patches, columns]
    output_bias: np.ndarray  # [2, nets]
    coefficients: np.ndarray  # [2, 65, nets] by discs on the board


class Work(NamedTuple):
    """Memory of a search, and the record of a game."""

    patches: Patches
    sums: np.ndarray  # [3, patches, columns]: what goes into the hidden units at the root and after one and two plies
    hidden: np.ndarray  # [patches, columns]
    columns: np.ndarray  # [columns]
    values: np.ndarray  # [nets]
    movers: np.ndarray  # [60] uint64: positions of the turns
    opponents: np.ndarray
    colours: np.ndarray  # [60] int64: who was to move
    predictions: np.ndarray  # [60]: P_t
    targets: np.ndarray  # [60]: P_{t+1}


class Hyperparameters(NamedTuple):
    """What stays the same in a training: how it learns, and of what kind the nets are."""

    alpha: float
    ignore: int  # chances of 2³² that a better move is not taken
    exact_below: int  # empties
    scale: float  # discs
    symmetric: bool
    learns_coefficients: bool


@kernel("float64(float64)")
def squash(x):
    """2 / (1 + e^−x) − 1 within 10⁻¹². eˣ is the 1024th power of a short series: loops over this become vector code."""
    y = min(max(x, -SATURATED), SATURATED) * (1 / 1024)
    power = 1 + y * (1 + y * (1 / 2 + y * (1 / 6 + y * (1 / 24))))
    for _ in range(10):
        power *= power
    return 1 - 2 / (1 + power)


@kernel()
def add_square(nets, work, level, colour, square, step, filled):
    """Change the sums for a square whose disc became ``step`` more the net's own; ``filled`` if it was empty."""
    size = work.patches.squares.shape[1]
    for n in range(2):
        t, j = work.patches.patch[square, n], work.patches.place[square, n]
        if t >= 0:
            for k in range(work.columns.size):
                work.sums[level, t, k] += step * nets.weights[colour, j, k]
            if filled and nets.weights.shape[1] > size:
                for k in range(work.columns.size):
                    work.sums[level, t, k] -= nets.weights[colour, size + j, k]


@kernel()
def begin(nets, work, colour, mover, opponent):
    """Write the sums of a position at the root, seen by the mover."""
    for t in range(work.hidden.shape[0]):
        for k in range(work.columns.size):
            work.sums[ROOT, t, k] = nets.biases[colour, t, k]
        for j in range(work.patches.squares.shape[1], nets.weights.shape[1]):  # as if all squares were empty
            for k in range(work.columns.size):
                work.sums[ROOT, t, k] += nets.weights[colour, j, k]
    discs = mover | opponent
    while discs != ZERO:
        square = lowest_square(discs)
        discs &= discs - ONE
        own = 1.0 if mover & (ONE << uint64(square)) != ZERO else -1.0
        add_square(nets, work, ROOT, colour, square, own, True)


@kernel()
def advance(nets, work, level, colour, square, turned, side):
    """Write the sums after a move at ``level`` from those before it; ``side`` is +1 for the net's own, −1 for not."""
    for t in range(work.hidden.shape[0]):
        for k in range(work.columns.size):
            work.sums[level, t, k] = work.sums[level - 1, t, k]
    add_square(nets, work, level, colour, square, side, True)
    while turned != ZERO:
        add_square(nets, work, level, colour, lowest_square(turned), 2 * side, False)
        turned &= turned - ONE


@kernel()
def value_at(nets, work, level, colour, discs):
    """P of the position whose sums are at ``level``, with so many discs on the board; ``values`` gets each net's."""
    columns, count = work.columns.size, work.values.size
    maps = columns // count
    for t in range(work.hidden.shape[0]):
        for k in range(columns):
            work.hidden[t, k] = nets.outputs[colour, t, k] * squash(work.sums[level, t, k])
    for k in range(columns):
        work.columns[k] = work.hidden[0, k]
    for t in range(1, work.hidden.shape[0]):
        for k in range(columns):
            work.columns[k] += work.hidden[t, k]
    value = 0.0
    for i in range(count):
        total = nets.output_bias[colour, i]
        for k in range(i * maps, (i + 1) * maps):
            total += work.columns[k]
        work.values[i] = squash(total)
        value += nets.coefficients[colour, discs, i] * work.values[i]
    return value


@kernel()
def add_gradient(nets, gradient, work, colour, mover, opponent, factor, hyper):
    """Add ``factor`` · ∇P of a position. P = Σ c_i Squash(b_i + Σ o Squash(sums)), and Squash' = (1 − Squash²) / 2."""
    begin(nets, work, colour, mover, opponent)
    discs = popcount(mover | opponent)
    value_at(nets, work, ROOT, colour, discs)
    columns, count, size = work.columns.size, work.values.size, work.patches.squares.shape[1]
    maps = columns // count
    for i in range(count):
        if hyper.learns_coefficients:
            gradient.coefficients[colour, discs, i] += factor * work.values[i]
        slope = factor * nets.coefficients[colour, discs, i] * (1 - work.values[i] ** 2) / 2
        gradient.output_bias[colour, i] += slope
        for k in range(i * maps, (i + 1) * maps):
            work.columns[k] = slope
    for t in range(work.hidden.shape[0]):
        for k in range(columns):
            unit = squash(work.sums[ROOT, t, k])
            gradient.outputs[colour, t, k] += work.columns[k] * unit
            # From here on ``hidden`` is the derivative by the unit's sum.
            work.hidden[t, k] = work.columns[k] * nets.outputs[colour, t, k] * (1 - unit * unit) / 2
            gradient.biases[colour, t, k] += work.hidden[t, k]
        for j in range(size):
            bit = ONE << uint64(work.patches.squares[t, j])
            own = 1.0 if mover & bit != ZERO else (-1.0 if opponent & bit != ZERO else 0.0)
            if own != 0.0:
                for k in range(columns):
                    gradient.weights[colour, j, k] += own * work.hidden[t, k]
            elif nets.weights.shape[1] > size:
                for k in range(columns):
                    gradient.weights[colour, size + j, k] += work.hidden[t, k]
