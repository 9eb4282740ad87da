"""How far values are from their targets, added up over rows, batches and processes, and what curves show of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

import numpy as np
import torch
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


@torch.no_grad()
def error_sums_of(empties: Tensor, values: Tensor, targets: Tensor, weight: Tensor) -> Tensor:
    """``error_sums`` of rows on a device, which is not waited for; rows of weight 0 do not count."""
    bands = torch.arange(BANDS, device=empties.device).unsqueeze(1)
    chosen = ((empties // 10).clamp(max=BANDS - 1) == bands).to(torch.float64)  # [BANDS, N]
    targets, error = targets.to(torch.float64), (targets - values).to(torch.float64)
    columns = torch.stack((error.square(), torch.ones_like(error), targets, targets.square()), 1)
    return chosen @ torch.where(weight.unsqueeze(1) > 0, columns, 0.0)


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


class LateMetrics(Mapping[str, float]):
    """``error_metrics`` of sums that a device may still be working on: whoever reads a number waits for it."""

    def __init__(self, sums: Tensor, others: Mapping[str, float]):
        self._sums, self._others = sums, others

    @property
    def ready(self) -> bool:
        """Nobody has to be waited for."""
        return self._sums.device.type == "cpu"

    def __or__(self, others: Mapping[str, float]) -> LateMetrics:
        """With more numbers, which are there already."""
        return LateMetrics(self._sums, {**self._others, **others})

    @cached_property
    def _numbers(self) -> dict[str, float]:
        return {**error_metrics(self._sums.cpu()), **self._others}

    def __getitem__(self, tag: str) -> float:
        return self._numbers[tag]

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)
