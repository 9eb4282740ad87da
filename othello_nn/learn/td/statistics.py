"""How far values are from their targets, added up over rows, batches and processes, and what curves show of it."""

from __future__ import annotations

import numpy as np
from numba import int64
from torch import Tensor

from othello_nn.kernels.jit import kernel
from othello_nn.learn.watch.curves import curve

BANDS = 6
"""Stages of the game: ten empties each."""
SQUARED, COUNT, TARGETS, TARGETS_SQUARED = range(4)
TD_ERROR = curve(
    "loss/td_error",
    "mean squared difference between the values and their targets (values are between −1 and 1)",
    short="loss",
    live=True,
)
EXPLAINED = curve(
    "loss/explained_variance",
    "share of the targets' variance that the values explain: 1 is perfect, 0 no better than a constant",
)
ERRORS = curve("td_error/*", "the same as loss/td_error, for positions with so many empty squares")


@kernel()
def error_sums(empties, values, targets):
    """``[BANDS, 4]`` float64: squared errors, rows, targets and squared targets of rows ``[N]``, by empties.

    In compiled code, since torch's threads would take the cores from those that play meanwhile.
    """
    sums = np.zeros((BANDS, 4))
    for i in range(targets.size):
        band = min(empties[i] // int64(10), int64(BANDS - 1))
        error = targets[i] - values[i]
        sums[band, SQUARED] += error * error
        sums[band, COUNT] += 1
        sums[band, TARGETS] += targets[i]
        sums[band, TARGETS_SQUARED] += targets[i] * targets[i]
    return sums


def error_metrics(sums: Tensor) -> dict[str, float]:
    """Mean squared error of the values, by stage of the game and in all, and the share of variance they explain."""
    squared, count, total, total_squared = sums.sum(0).tolist()
    count = max(count, 1.0)
    metrics: dict[str, float] = {TD_ERROR: squared / count}
    variance = total_squared / count - (total / count) ** 2
    if variance > 0:
        metrics[EXPLAINED] = 1 - metrics[TD_ERROR] / variance
    for band, (band_squared, band_count, *_) in enumerate(sums.tolist()):
        if band_count:
            metrics[ERRORS.of(f"empties_{10 * band:02d}-{10 * band + 9:02d}")] = band_squared / band_count
    return metrics
