"""The regressions of ``fit/keyano.py``: pattern values, mobility curves and stage weights from labelled positions.

Every regression is linear, so a pass over the positions gathers its normal equations, and ``non_negative_fit`` solves
them. Read ``keyano_kernels.py`` first for what is fitted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int64

from othello_nn.engine.leaf.door import leaf_begin
from othello_nn.engine.leaf.shapes import mirrored_cells
from othello_nn.engine.oneply import new_scratch
from othello_nn.fit.labels import Labelled
from othello_nn.kernels.bits import legal_of, load_i16, popcount
from othello_nn.kernels.board import ZERO
from othello_nn.kernels.jit import kernel
from othello_nn.players.classic.keyano_kernels import (
    CORNER_LANES,
    COUNTS,
    EDGE_ENDS,
    EDGE_LANES,
    PATTERNS,
    QUARTERS,
    SHAPES,
    UNIT,
    VECTOR_LANES,
    WEIGHTS,
    count_in,
    curve_value,
    direction_planes,
    keyano_terms,
    lost_regions,
)

WELL_SAMPLED = 100  # from so many positions on, their mean is a pattern's value
MOBILITY_PER_DISC = 4  # the unit of the mobility curves
WINDOW = 2  # moves to both sides that count for the weights of a number of moves
_ENDS = tuple(np.uint64(ends) for ends in EDGE_ENDS)


# --- passes over the positions ---------------------------------------------------------------------------------------


@kernel()
def count_patterns(ev, scratch, origins, movers, opponents, labels, counts, sums):
    """Add each position to the number of times, and the sum of labels, of every configuration that it shows."""
    edges = VECTOR_LANES + CORNER_LANES
    for i in range(movers.size):
        leaf_begin(ev, scratch, movers[i], opponents[i])
        for lane in range(edges + EDGE_LANES):
            place = int64(lane)
            if lane >= edges and (movers[i] | opponents[i]) & _ENDS[lane - edges] != ZERO:
                place += int64(EDGE_LANES)
            cell = origins[place] + load_i16(scratch, int64(2) * place)
            counts[cell] += 1
            sums[cell] += labels[i]


@kernel("UniTuple(uint64, 4)(uint64, uint64, boolean)")
def planes_of(mover, opponent, exact):
    """Flipping directions, or with ``exact`` moves, in the same form."""
    if exact:
        return legal_of(mover, opponent), ZERO, ZERO, ZERO
    return direction_planes(mover, opponent)


@kernel()
def curve_equations(movers, opponents, labels, exact, gram, target):
    """Normal equations of both curves, ``[2, COUNTS + 1, …]``: a count of the mover's is +1, of the opponent's −1.

    The last unknown is a constant: what having the move is worth.
    """
    places, signs = np.zeros(9, np.int64), np.zeros(9)
    for i in range(movers.size):
        mine, theirs = planes_of(movers[i], opponents[i], exact), planes_of(opponents[i], movers[i], exact)
        for curve in range(2):
            used = 0
            for quarter in QUARTERS:
                part = quarter if curve else ~ZERO
                places[used], signs[used] = min(count_in(mine, part), int64(COUNTS - 1)), 1.0
                places[used + 1], signs[used + 1] = min(count_in(theirs, part), int64(COUNTS - 1)), -1.0
                used += 2
                if curve == 0:
                    break
            places[used], signs[used] = COUNTS, 1.0
            for a in range(used + 1):
                target[curve, places[a]] += signs[a] * labels[i]
                for b in range(used + 1):
                    gram[curve, places[a], places[b]] += signs[a] * signs[b]


@kernel()
def mobility_values(curves, movers, opponents, exact, values):
    """The mobility term of each position, without regions, in 1/UNIT."""
    for i in range(movers.size):
        mine, theirs = planes_of(movers[i], opponents[i], exact), planes_of(opponents[i], movers[i], exact)
        values[i] = curve_value(curves, mine) - curve_value(curves, theirs)


@kernel()
def count_lost(movers, opponents, lost):
    """``[N, 2]``: the regions that the mover, and the opponent, has lost."""
    for i in range(movers.size):
        mover, opponent = movers[i], opponents[i]
        lost[i, 0] = lost_regions(mover, opponent, legal_of(mover, opponent))
        lost[i, 1] = lost_regions(opponent, mover, legal_of(opponent, mover))


@kernel()
def stage_equations(ev, scratch, movers, opponents, labels, gram, target):
    """Normal equations of the weights for each number of moves played, ``[61, WEIGHTS, …]``."""
    row = np.ones(WEIGHTS)
    for i in range(movers.size):
        leaf_begin(ev, scratch, movers[i], opponents[i])
        mobility, vectors, corners, edges = keyano_terms(ev, scratch, movers[i], opponents[i])
        row[0], row[1], row[2], row[3] = mobility / UNIT, vectors / UNIT, corners / UNIT, edges / UNIT
        played = popcount(movers[i] | opponents[i]) - int64(4)
        for a in range(WEIGHTS):
            target[played, a] += row[a] * labels[i]
            for b in range(WEIGHTS):
                gram[played, a, b] += row[a] * row[b]


# --- what is made of them --------------------------------------------------------------------------------------------


def non_negative_fit(gram: np.ndarray, target: np.ndarray, free: np.ndarray) -> np.ndarray:
    """The x of least squares with x ≥ 0 except where ``free``, by Lawson and Hanson's active sets.

    ``gram`` [n, n] and ``target`` [n] are the normal equations. What no equation speaks of is 0.
    """
    scale = np.sqrt(np.maximum(np.diag(gram), 1e-12))
    gram, target = gram / np.outer(scale, scale), target / scale
    tolerance = 1e-10 * max(np.abs(target).max(), 1e-12)
    x, used = np.zeros(len(target)), free & (np.diag(gram) > 0.5)
    for _ in range(10 * len(target)):
        while True:
            best = np.zeros(len(target))
            best[used] = np.linalg.lstsq(gram[np.ix_(used, used)], target[used], rcond=None)[0]
            below = used & ~free & (best <= 0)
            if not below.any():
                break
            x += (x[below] / (x[below] - best[below])).min() * (best - x)  # as far as all stay positive
            used &= free | (x > 1e-12)
            x[~used] = 0.0
        x = best
        slope = np.where(used | free, 0.0, target - gram @ x)
        if slope.max() <= tolerance:
            break
        used[slope.argmax()] = True
    return x / scale


def fit_curves(data: Labelled, exact: bool) -> np.ndarray:
    """``[2, COUNTS]``: what a number of directions is worth on the whole board and in a quarter, in mobility units.

    One direction more is never worth less than nothing, and none at all is worth 0. Counts that the games never showed
    have the value of the largest that they did.
    """
    gram, target = np.zeros((2, COUNTS + 1, COUNTS + 1)), np.zeros((2, COUNTS + 1))
    curve_equations(data.movers, data.opponents, data.labels, exact, gram, target)
    steps = np.tri(COUNTS + 1)  # a curve as the sum of its steps
    steps[COUNTS, :COUNTS] = 0.0
    curves = np.zeros((2, COUNTS))
    for curve in range(2):
        equations = steps.T @ gram[curve] @ steps, steps.T @ target[curve]
        equations[0][0, :] = equations[0][:, 0] = equations[1][0] = 0.0  # the value of no direction
        rises = non_negative_fit(*equations, np.arange(COUNTS + 1) == COUNTS)
        curves[curve] = MOBILITY_PER_DISC * np.cumsum(rises[:COUNTS])
    return curves


def mobility_of(curves: np.ndarray, data: Labelled, exact: bool) -> np.ndarray:
    """``[N]``: the mobility term in its units, without regions."""
    whole = np.rint(curves * UNIT).astype(np.int32)
    values = np.zeros(len(data.labels))
    mobility_values(whole.ctypes.data, data.movers, data.opponents, exact, values)
    return values / UNIT


def lost_of(data: Labelled) -> np.ndarray:
    """``[N, 2]`` int8: regions lost by the mover and by the opponent."""
    lost = np.zeros((len(data.labels), 2), np.int8)
    count_lost(data.movers, data.opponents, lost)
    return lost


def pattern_means(leaf: Any, data: Labelled) -> tuple[np.ndarray, np.ndarray]:
    """``[cells]`` each: how often a configuration or its mirror image was seen, and the mean label where it was."""
    counts, sums, scratch = np.zeros(SHAPES.cells), np.zeros(SHAPES.cells), new_scratch()
    count_patterns(leaf, scratch.ctypes.data, SHAPES.origins, data.movers, data.opponents, data.labels, counts, sums)
    for start, squares in zip(SHAPES.table_starts, PATTERNS.values(), strict=True):
        same = mirrored_cells(squares).min(axis=0)  # each cell's representative
        for array in (counts, sums):
            array[start : start + len(same)] = np.bincount(same, array[start : start + len(same)], len(same))[same]
    return counts, sums / np.maximum(counts, 1)


def blended_value(count, mean, estimate):
    """A configuration's value: the estimate stands for the samples that are missing.

    >>> float(round(blended_value(20, -4.0, -8.0), 6))
    -7.2
    """
    share = np.minimum(count, WELL_SAMPLED) / WELL_SAMPLED
    return share * mean + (1 - share) * estimate


def fit_coefficients(leaf: Any, data: Labelled) -> np.ndarray:
    """``[65, WEIGHTS]`` by empties: for each number of moves, from positions with up to ``WINDOW`` more or less."""
    gram, target = np.zeros((61, WEIGHTS, WEIGHTS)), np.zeros((61, WEIGHTS))
    stage_equations(leaf, new_scratch().ctypes.data, data.movers, data.opponents, data.labels, gram, target)
    seen = np.flatnonzero(gram[:, -1, -1])
    coefficients = np.zeros((65, WEIGHTS))
    for empties in range(65):
        played = min(max(60 - empties, seen[0]), seen[-1])  # where no game speaks, as in the nearest that does
        part = slice(max(played - WINDOW, 0), played + WINDOW + 1)
        coefficients[empties] = non_negative_fit(
            gram[part].sum(axis=0), target[part].sum(axis=0), np.arange(WEIGHTS) == WEIGHTS - 1
        )
    return coefficients
