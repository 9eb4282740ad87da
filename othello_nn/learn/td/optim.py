"""Temporal coherence learning: a rate of its own for every weight, from how well its errors agree (Beal and Smith).

A weight keeps the sum of the steps it was asked to make, and the sum of their sizes. While all point one way, their
quotient |Σδ| / Σ|δ| is 1 and the weight moves at the full rate; once they only scatter, it tends to 0 and the weight
comes to rest. ``coherence`` defines it and is compiled by numba for the kernel of ``online.py``; the optimiser here is
for everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer


def coherence(total: float, magnitude: float) -> float:
    """|Σδ| / Σ|δ| of a weight: the share of the rate at which it moves, 1 if it was never asked to."""
    return abs(total) / magnitude if magnitude > 0 else 1.0


class TemporalCoherence(Optimizer):
    """Gradient descent with the rate ``lr · |Σg| / Σ|g|`` for each weight.

    A sparse gradient is taken as what it is made of, one entry for every time a weight was read: a weight moves by the
    mean of its entries, and the sums count each of them. Weights that were not read stay as they are, and so do their
    sums. A dense gradient is one entry for each weight, unless the parameter has an attribute ``entries``: how many
    entries the gradient adds up, and their sizes, two tensors like it.
    """

    def __init__(self, parameters: Iterable[Any], lr: float = 1.0):
        if not lr >= 0:
            raise ValueError(f"lr is {lr}; it must not be negative")
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One update of every parameter that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["sums"], state["magnitudes"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
                update = _sparse_update if parameter.grad.is_sparse else _dense_update
                update(parameter, parameter.grad, state["sums"], state["magnitudes"], group["lr"])
        return loss


def _dense_update(parameter: Tensor, gradient: Tensor, sums: Tensor, magnitudes: Tensor, lr: float) -> None:
    count, size = getattr(parameter, "entries", None) or (torch.ones_like(gradient), gradient.abs())
    parameter.add_(gradient / count.clamp(min=1) * coherences(sums, magnitudes), alpha=-lr)
    sums.add_(gradient)
    magnitudes.add_(size)


def _sparse_update(parameter: Tensor, gradient: Tensor, sums: Tensor, magnitudes: Tensor, lr: float) -> None:
    total, count, size = (part.coalesce() for part in (gradient, *entries_of(gradient)))
    where = tuple(total.indices())
    rates = coherences(sums[where], magnitudes[where])
    parameter.index_put_(where, -lr * rates * total.values() / count.values(), accumulate=True)
    sums.index_put_(where, total.values(), accumulate=True)
    magnitudes.index_put_(where, size.values(), accumulate=True)


def entries_of(gradient: Tensor) -> tuple[Tensor, Tensor]:
    """How many entries a sparse gradient has for each weight, and their sizes: two sparse tensors like it."""
    places, entries = gradient._indices(), gradient._values()
    count, size = (
        torch.sparse_coo_tensor(places, values, gradient.shape, check_invariants=False)
        for values in (torch.ones_like(entries), entries.abs())
    )
    return count, size


def coherences(sums: Tensor, magnitudes: Tensor) -> Tensor:
    """``coherence`` of each weight."""
    return torch.where(magnitudes > 0, sums.abs() / magnitudes, 1.0)
