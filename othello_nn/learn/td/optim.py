"""How weights move: temporal coherence, Adam, or plain descent, for whole tensors and for the cells of tables.

Temporal coherence learning is a rate of its own for every weight, from how well its errors agree (Beal and Smith). A
weight keeps the sum of the steps it was asked to make, and the sum of their sizes. While all point one way, their
quotient |Σδ| / Σ|δ| is 1 and the weight moves at the full rate; once they only scatter, it tends to 0 and the weight
comes to rest. ``coherence`` defines it and is compiled by numba for the kernel of ``online.py``.

An update reads few of a table's cells, some of them many times. ``Table`` adds up what was asked of each cell in a
buffer as large as the table, reads the sums back for the cells that were read, and clears them again: nothing is
sorted, nothing as large as the table is gone through, and every shape is known beforehand. A cell that was read twice
is then moved twice, to the same place. The sums are whole numbers (fixed point), so that they do not depend on the
order in which a GPU adds them up. Nothing here waits for the device, and all that changes between two updates is
inside tensors: a CUDA graph can hold an update.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

State = dict[str, Tensor]
UNIT = 2.0**32
"""Sums count in 1/UNIT. They stay below 2³¹: some hundred thousand entries, each below ten thousand."""
BETAS, EPSILON = (0.9, 0.999), 1e-8
"""Adam's, as its paper has them."""


def coherence(total: float, magnitude: float) -> float:
    """|Σδ| / Σ|δ| of a weight: the share of the rate at which it moves, 1 if it was never asked to."""
    return abs(total) / magnitude if magnitude > 0 else 1.0


def coherences(sums: Tensor, magnitudes: Tensor) -> Tensor:
    """``coherence`` of each weight."""
    return torch.where(magnitudes > 0, sums.abs() / magnitudes, 1.0)


@dataclass(frozen=True, eq=False)
class Asked:
    """What an update asks of cells: all cells ``[C, …]`` of a tensor in order, or those at ``where``.

    A cell that comes several times in ``where`` has the same numbers each time.
    """

    step: Tensor
    """``[n, dim]``: against this the cells move."""
    total: Tensor
    """``[n, dim]``: gradients, added up."""
    size: Tensor
    """``[n, dim]``: their absolute values, added up."""
    count: Tensor
    """``[n, 1]``: how many there were; a cell with none stays as it is."""
    where: Tensor | None = None
    """int64 ``[n]``."""

    @staticmethod
    def whole(gradient: Tensor) -> Asked:
        """Of a tensor that is no table: each weight was asked once."""
        return Asked(gradient, gradient, gradient.abs(), gradient.new_ones(()))

    def of(self, cells: Tensor) -> Tensor:
        """The rows of ``[C, …]`` that this is about."""
        return cells if self.where is None else cells.index_select(0, self.where)

    def put(self, cells: Tensor, rows: Tensor) -> None:
        if self.where is None:
            cells.copy_(rows)
        else:
            cells.index_copy_(0, self.where, rows)


# --- three ways to move ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rule:
    """A way to move the cells ``[C, dim]`` of a table, or a tensor of any shape."""

    begin: Callable[[Tensor, bool], State]
    """What it keeps of a tensor; the flag says whether it is a table."""
    move: Callable[[Tensor, State, Asked, Tensor], None]
    """``move(cells, state, asked, rate)``, in place."""
    coherent: bool = False
    """It looks at every entry: at sizes too, and at what else moves."""


def _coherent_begin(cells: Tensor, is_table: bool) -> State:
    return {"sums": torch.zeros_like(cells), "magnitudes": torch.zeros_like(cells)}


def _coherent_move(cells: Tensor, state: State, asked: Asked, rate: Tensor) -> None:
    sums, magnitudes = asked.of(state["sums"]), asked.of(state["magnitudes"])
    asked.put(cells, asked.of(cells) - rate * coherences(sums, magnitudes) * asked.step)
    asked.put(state["sums"], sums + asked.total)
    asked.put(state["magnitudes"], magnitudes + asked.size)


def _adam_begin(cells: Tensor, is_table: bool) -> State:
    """A table keeps one second moment and one number of steps a cell: its cells come up at different times."""
    each = cells.new_zeros(len(cells), 1) if is_table else cells.new_zeros(())
    square = each if is_table else cells
    return {"exp_avg": torch.zeros_like(cells), "exp_avg_sq": torch.zeros_like(square), "step": each}


def _adam_move(cells: Tensor, state: State, asked: Asked, rate: Tensor) -> None:
    by_cell = state["step"].dim() > 0
    old = [asked.of(state[name]) for name in ("exp_avg", "exp_avg_sq")]
    step = (asked.of(state["step"]) if by_cell else state["step"]) + 1
    power = asked.step.square().mean(1, keepdim=True) if by_cell else asked.step.square()
    mean, square = torch.lerp(asked.step, old[0], BETAS[0]), torch.lerp(power, old[1], BETAS[1])
    # Moments that began at 0 are divided by the share of the steps that they hold: 1 − βⁿ.
    held = [-torch.expm1(step * math.log(beta)) for beta in BETAS]
    moved = asked.of(cells) - rate * (mean / held[0]) / ((square / held[1]).sqrt() + EPSILON)
    if not by_cell:
        state["step"].copy_(step)
        step = state["step"]
    else:
        read = asked.count > 0
        mean, square = torch.where(read, mean, old[0]), torch.where(read, square, old[1])
        moved = torch.where(read, moved, asked.of(cells))
        asked.put(state["step"], torch.where(read, step, asked.of(state["step"])))
    asked.put(state["exp_avg"], mean)
    asked.put(state["exp_avg_sq"], square)
    asked.put(cells, moved)


def _plain_begin(cells: Tensor, is_table: bool) -> State:
    return {}


def _plain_move(cells: Tensor, state: State, asked: Asked, rate: Tensor) -> None:
    asked.put(cells, asked.of(cells) - rate * asked.step)


RULES = {
    "tc": Rule(_coherent_begin, _coherent_move, coherent=True),
    "adam": Rule(_adam_begin, _adam_move),
    "sgd": Rule(_plain_begin, _plain_move),
}


# --- tables ----------------------------------------------------------------------------------------------------------


RELAXATION = 1.5
"""From 1 to 2, tried in ``benchmarks/run.py batched-learner``."""


class Table:
    """The cells ``[C, dim]`` of a table, moved in place by what the rows of updates ask of them.

    A row asks the same of each of the ``lookups`` cells that it read. If entries came one by one, each would move its
    cells by its own step, and those after it would ask for less. Added up they would move them far too far; but their
    mean leaves most of what a cell could learn from them. Temporal coherence therefore divides what a row asks for by
    the number of rows that move its cells, itself included: the mean over these cells of how many rows read each,
    times the cell's rate. So a position of rare cells moves them fully, and one of cells that everybody moves, its
    share. Were it the exact number, no error could grow however many rows there are; up to twice as much is still safe,
    and ``RELAXATION`` takes some of that, to learn more from an update.
    """

    def __init__(self, cells: Tensor, rule: Rule, ranks: int = 1):
        self.cells, self.rule, self.ranks = cells, rule, ranks
        self.state = rule.begin(cells, True)
        columns = (3 if rule.coherent else 1) * cells.shape[1] + 1
        self._sums = torch.zeros(len(cells), columns, dtype=torch.int64, device=cells.device)
        self._counts = torch.zeros(len(cells) if rule.coherent else 0, dtype=torch.int32, device=cells.device)

    @property
    def buffers(self) -> list[Tensor]:
        return [self.cells, self._sums, self._counts]

    def ask(self, gradient: Tensor, weight: Tensor, indices: Tensor) -> None:
        """Add up what rows ``[N, dim]`` ask of the cells at int64 ``[N, lookups]``; rows of weight 0 ask nothing."""
        columns = [gradient]
        if self.rule.coherent:
            columns = [gradient / self._crowding(weight, indices), gradient, gradient.abs()]
        fixed = (torch.cat([*columns, weight.unsqueeze(1)], 1) * UNIT).round().to(torch.int64)
        self._sums.index_add_(0, indices.reshape(-1), _each(fixed, indices.shape[1]))

    def _crowding(self, weight: Tensor, indices: Tensor) -> Tensor:
        """``[N, dim]``: what each row's wish is divided by. The other ranks have as many rows as this one."""
        where = indices.reshape(-1)
        self._counts.index_add_(0, where, _each(weight.to(torch.int32), indices.shape[1]))
        count = self._counts.index_select(0, where) * self.ranks
        self._counts.index_fill_(0, where, 0)
        sums, magnitudes = (self.state[name].index_select(0, where) for name in ("sums", "magnitudes"))
        moving = count.unsqueeze(1) * coherences(sums, magnitudes)
        return (moving.view(*indices.shape, -1).mean(1) / RELAXATION).clamp(min=1)

    def taken(self, indices: Tensor) -> Asked:
        """What was asked of the cells at ``indices``, which must be all that were asked for something."""
        where = indices.reshape(-1)
        found = self._sums.index_select(0, where)
        self._sums.index_fill_(0, where, 0)
        return self.split(found.to(torch.float32) / UNIT, where)

    def taken_all(self) -> Tensor:
        """What was asked of all cells, to be added up over ranks and then ``split``."""
        found = self._sums.to(torch.float32) / UNIT
        self._sums.zero_()
        return found

    def split(self, found: Tensor, where: Tensor | None = None) -> Asked:
        parts = 3 if self.rule.coherent else 1
        *sums, count = found.split([self.cells.shape[1]] * parts + [1], 1)
        return Asked(sums[0], sums[1 % parts], sums[2 % parts], count, where)

    def move(self, asked: Asked, rate: Tensor) -> None:
        self.rule.move(self.cells, self.state, asked, rate)


def _each(rows: Tensor, lookups: int) -> Tensor:
    """``[N, …]`` → ``[N · lookups, …]``: every row as often as it reads."""
    return rows.unsqueeze(1).expand(-1, lookups, *rows.shape[1:]).reshape(-1, *rows.shape[1:])
