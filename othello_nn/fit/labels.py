"""Positions with what they are worth: the exact score where few squares are empty, else what searches say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import float32, int64

from othello_nn.engine.endgame import end_node
from othello_nn.engine.leaf.door import leaf_begin
from othello_nn.engine.midgame import INFINITY, node
from othello_nn.engine.score import NO_MOVE, SCORE_DISC
from othello_nn.engine.ttable import TranspositionTable
from othello_nn.engine.workspace import (
    EVERYTHING,
    FRAME_BYTES,
    FRAME_FEATURES,
    FRAMES,
    PROBCUT_CUTS,
    SWITCHES,
    Workspace,
)
from othello_nn.kernels.bits import popcount
from othello_nn.kernels.jit import kernel

TABLE_MB = 2
FOCUS_DISCS = 24
"""Games are decided near zero: a position so many discs away counts half."""


def label_workspace(table_mb: float = TABLE_MB) -> Workspace:
    """Memory for searches at full width, with a table of its own: what they find hangs on no other search."""
    workspace = Workspace(TranspositionTable(table_mb), np.zeros(8, np.uint8))
    workspace[SWITCHES] = EVERYTHING & ~PROBCUT_CUTS
    return workspace


@kernel()
def label_positions(ev, workspace, movers, opponents, solve_empties, depth, labels):
    """Write what each position is worth to its mover, in discs: solved, or the mean of two searches."""
    for i in range(movers.size):
        mover, opponent = movers[i], opponents[i]
        empties = int64(64) - popcount(mover | opponent)
        if empties <= solve_empties:
            labels[i] = float32(end_node(mover, opponent, int64(-64), int64(64), empties, workspace))
            continue
        features = workspace + int64(FRAMES) + empties * int64(FRAME_BYTES) + int64(FRAME_FEATURES)
        total = int64(0)
        for plies in (int64(depth - int64(1)), depth):
            leaf_begin(ev, features, mover, opponent)
            low, high = int64(-INFINITY), int64(INFINITY)
            total += node(ev, workspace, mover, opponent, low, high, plies, int64(NO_MOVE))
        labels[i] = float32(total) / float32(2 * SCORE_DISC)


@dataclass(frozen=True, eq=False)
class Labelled:
    """Positions ``[N]`` uint64 with what they are worth to the mover, ``[N]`` in discs."""

    movers: np.ndarray
    opponents: np.ndarray
    labels: np.ndarray

    def pick(self, index) -> Labelled:
        return Labelled(self.movers[index], self.opponents[index], self.labels[index])

    @staticmethod
    def joined(parts: Sequence[Labelled]) -> Labelled:
        columns = zip(*((part.movers, part.opponents, part.labels) for part in parts), strict=True)
        return Labelled(*(np.concatenate(column) for column in columns))
