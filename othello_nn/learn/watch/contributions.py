"""What each shape of an n-tuple net has to do with its scores, whatever its cells hold, and the vectors of embeddings.

The size of weights says little: large ones may stand where no game comes, or cancel each other. A shape's
*contribution* is what the net's value would change by, in discs, if the shape said what it says on the average instead
of what it says here, all its placements together: the mean size of that over positions of random games. It means the
same for sums of tables and for embeddings with a network behind them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from othello_nn.engine.leaf.shapes import stages_of_empties
from othello_nn.learn.watch.naming import shape_name
from othello_nn.learn.watch.probes import boards_of, device_of, random_positions
from othello_nn.nets.ntuple import NTupleNet

GAMES = 32
"""Random games whose positions are asked about: so many for each number of empties."""
MIDDLE = 30
"""Empties of the position whose vectors are shown."""
MOST_VECTORS = 1500


@dataclass(frozen=True, eq=False)
class Readings:
    """What positions with so many empties read."""

    cells: Tensor
    """``[N, lookups]`` of a row."""
    entries: Tensor
    """``[N, lookups, dim]``."""
    total: Tensor
    """``[N, dim]``, the constant included."""
    value: Callable[[Tensor], Tensor]
    """Discs ``[…]`` of sums ``[…, dim]``."""


@torch.no_grad()
def readings(net: NTupleNet, empties: int) -> Readings:
    movers, opponents, blacks = boards_of([random_positions(seed)[empties] for seed in range(GAMES)])
    if net.view == "negation":  # black's discs come first, whoever is to move
        movers, opponents = np.where(blacks, movers, opponents), np.where(blacks, opponents, movers)
    sides = (torch.from_numpy(side.view(np.int64)).to(device_of(net)) for side in (movers, opponents))
    cells = net._cells(*sides).long()
    stage = int(stages_of_empties(net.stages)[empties])
    table = row_of(net, stage)
    entries = table[cells]
    lookups = len(net.shapes.placements)
    return Readings(cells[:, :lookups], entries[:, :lookups], entries.sum(1), _value(net, empties))


def row_of(net: NTupleNet, stage: int) -> Tensor:
    """``[cells, dim]``: what a stage reads, with what all of them share."""
    weight = net.weight.detach()
    row = weight[stage] + weight[-1] if len(weight) > net.stages else weight[stage]
    return row.unsqueeze(1) if net.dim == 1 else row


def _value(net: NTupleNet, empties: int) -> Callable[[Tensor], Tensor]:
    if net.dim == 1:
        return lambda sums: sums.squeeze(-1)
    if net.heads == 1:
        return lambda sums: sums.select(-1, 0) + net.output(F.relu(net.hidden(sums))).squeeze(-1)
    head = int(stages_of_empties(net.heads)[empties])

    def through_head(sums: Tensor) -> Tensor:
        flat = sums.reshape(-1, sums.shape[-1])
        numbers = torch.full((len(flat),), head, device=flat.device)
        return net._by_heads(flat, numbers).view(sums.shape[:-1])

    return through_head


@torch.no_grad()
def contributions(net: NTupleNet) -> np.ndarray:
    """Float64 ``[shapes, stages]``, in discs."""
    of_shape = torch.tensor([each.table for each in net.shapes.placements], device=device_of(net))
    sums = np.zeros((len(net.tuples), net.stages))
    counts = np.zeros(net.stages)
    for empties in range(1, 61):
        found, stage = readings(net, empties), int(stages_of_empties(net.stages)[empties])
        rows, _, dim = found.entries.shape
        parts = found.entries.new_zeros(rows, len(net.tuples), dim).index_add_(1, of_shape, found.entries)
        without = found.total.unsqueeze(1) - parts + parts.mean(0)
        changes = (found.value(found.total).unsqueeze(1) - found.value(without)).abs().mean(0)
        sums[:, stage] += changes.double().cpu().numpy()
        counts[stage] += 1
    with np.errstate(invalid="ignore"):  # a net that has diverged
        return sums / np.maximum(counts, 1)


# --- vectors ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Vectors:
    """A table of an embedding net: what it holds for the contents that come up most in random games."""

    shape: str
    vectors: np.ndarray
    """``[n, dim]``."""
    contents: list[str]
    """Of the shape's squares, in their order: X the mover's disc, O the opponent's, - nothing."""
    worths: np.ndarray
    """``[n]``: what the net's value changes by, in discs, where these contents take the place of the usual."""


@torch.no_grad()
def table_vectors(net: NTupleNet) -> Vectors:
    """Of the first shape of the net, in the middle of the game."""
    near = [readings(net, empties) for empties in range(MIDDLE - 10, MIDDLE + 11)]
    lookups = [i for i, each in enumerate(net.shapes.placements) if each.table == 0]
    cells, counts = torch.cat([each.cells[:, lookups].reshape(-1) for each in near]).unique(return_counts=True)
    cells = cells[counts.argsort(descending=True, stable=True)[:MOST_VECTORS]]
    vectors = row_of(net, int(stages_of_empties(net.stages)[MIDDLE]))[cells]
    middle = readings(net, MIDDLE)
    usual, total = middle.entries[:, lookups[0]].mean(0), middle.total.mean(0)
    worths = middle.value(total - usual + vectors) - middle.value(total)
    digits = (cells - net.shapes.table_starts[0]).cpu().numpy()
    length = len(net.tuples[0])
    contents = ["".join("O-X"[digit // 3**i % 3] for i in range(length)) for digit in digits.tolist()]
    return Vectors(shape_name(net.tuples[0]), vectors.cpu().numpy(), contents, worths.double().cpu().numpy())
