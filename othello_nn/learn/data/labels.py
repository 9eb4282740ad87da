"""What searched positions are worth: λ-mixtures of the searches along a game and of its result.

A search's value is first put through a line of its own for each number of empties, the one that makes it agree best
with the results of its games. So whoever searched, labels neither shrink leads nor lean to a side, at whatever depth;
what a net is told by searches is calibrated by what came of them.

Players without chance play on alike from alike positions, so what comes early comes again and again, each time with the
same result, which says as little as one game does. ``firsts`` tells what is new.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import float32, int64, uint64

from othello_nn.engine.score import SCORE_DISC
from othello_nn.kernels.board import transform
from othello_nn.kernels.chance import next_random
from othello_nn.kernels.jit import kernel
from othello_nn.learn.data.store import ASIDE, EXACT, PASSED

FEWEST = 500
"""Positions with so many empties, at least, make a line; below, searches count as they are."""
SLAB = 1 << 22


def empties_of(records: np.ndarray) -> np.ndarray:
    """``[N]`` int64."""
    return 64 - np.bitwise_count(records["mover"] | records["opponent"]).astype(np.int64)


def lines(parts: Sequence[np.ndarray]) -> np.ndarray:
    """``[65, 2]`` float32: by the number of empties, slope and offset (in discs) of the results over the searches'
    values, by least squares over all parts."""
    sums = np.zeros((65, 5))
    for part in parts:
        for first in range(0, len(part), SLAB):
            records = part[first : first + SLAB]
            records = records[records["flags"] & (EXACT | ASIDE) == 0]
            empties, x, y = empties_of(records), records["searched"] / SCORE_DISC, records["margin"].astype(float)
            for column, value in enumerate((np.ones_like(x), x, y, x * x, x * y)):
                sums[:, column] += np.bincount(empties, value, 65)
    count, x, y, xx, xy = sums.T
    found = np.tile(np.array([1, 0], np.float32), (65, 1))
    spread = count * xx - x * x
    fitted = (count >= FEWEST) & (spread > 0)
    found[fitted, 0] = ((count * xy - x * y) / np.where(spread > 0, spread, 1))[fitted]
    found[fitted, 1] = ((y - found[:, 0] * x) / np.maximum(count, 1))[fitted]
    return found


@kernel()
def board_keys(movers, opponents, keys):
    """Write a number for each position that its eight images share, and hardly any others."""
    for row in range(keys.size):
        least = ~uint64(0)
        for symmetry in range(8):
            mover, opponent = transform(movers[row], int64(symmetry)), transform(opponents[row], int64(symmetry))
            least = min(least, next_random(mover ^ next_random(opponent)))
        keys[row] = least


def firsts(records: np.ndarray) -> np.ndarray:
    """``[N]`` bool: whether a record's position, or an image of it, is not in one of those before it."""
    keys = np.zeros(len(records), np.uint64)
    board_keys(np.ascontiguousarray(records["mover"]), np.ascontiguousarray(records["opponent"]), keys)
    new = np.zeros(len(records), bool)
    new[np.unique(keys, return_index=True)[1]] = True
    return new


def later_records(records: np.ndarray, empties: int) -> np.ndarray:
    """``[N]`` int64: for each record of a game the first one of the same game, itself or later, that has at most so
    many empties and the same side to move; −1 where there is none, and for records beside the game.

    Between the two both sides have made as many moves, and so as many mistakes.
    """
    found = np.full(len(records), -1, np.int64)
    rows = np.flatnonzero(records["flags"] & ASIDE == 0)
    games, near = records["game"][rows], empties_of(records)[rows] <= empties
    # The side to move changes from record to record, but where the other side passed.
    changes = (records["flags"][rows] & PASSED == 0).astype(np.int64)
    sides = (np.cumsum(changes) - changes) % 2
    nearest, game = [-1, -1], -1
    for i in range(len(rows) - 1, -1, -1):
        if games[i] != game:
            nearest, game = [-1, -1], games[i]
        if near[i]:
            nearest[sides[i]] = rows[i]
        found[rows[i]] = nearest[sides[i]]
    return found


@kernel()
def mixed_labels(searched, margins, flags, games, lam, labels):
    """Write λ's mixture for each record, in discs; records of a game stand together, in their order."""
    target, game = float32(0), int64(-1)
    for row in range(labels.size - 1, -1, -1):
        if flags[row] & ASIDE:
            labels[row] = searched[row]
            continue
        if games[row] != game:
            target, game = float32(margins[row]), int64(games[row])
        elif flags[row] & PASSED == 0:
            target = -target
        target = lam * target + (float32(1) - lam) * searched[row]
        labels[row] = target


def labels(records: np.ndarray, lam: float, calibration: np.ndarray | None = None) -> np.ndarray:
    """What each position is worth to its mover, float32 in discs: λ = 1 is the game's result, 0 the search's value; in
    between, each position's search has a part in those before it, as in TD(λ). Positions beside the game have their
    search's value. ``calibration`` are ``lines``."""
    found = np.zeros(len(records), np.float32)
    searched = records["searched"].astype(np.float32) / np.float32(SCORE_DISC)
    if calibration is not None:
        slope, offset = calibration[empties_of(records)].T
        searched = np.where(records["flags"] & EXACT, searched, slope * searched + offset)
    fields = (np.ascontiguousarray(records[name]) for name in ("margin", "flags", "game"))
    mixed_labels(searched, *fields, np.float32(lam), found)
    return found
