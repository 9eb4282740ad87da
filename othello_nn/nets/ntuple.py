"""N-tuple nets: tables of weights, looked up by the contents of a few squares each and added up.

``tuple_sets.py`` says which squares. With ``dim=1`` a cell holds discs and their sum is the prediction. With more, a
cell holds a vector, the sum of the vectors goes through a small hidden layer, and that is a correction to its first
number. The game has ``stages`` by the number of empties, each with tables of its own; ``shared=True`` adds tables that
serve all of them, so that what is rare in one stage is learnt from the others. With several ``heads`` each part of the
game has a hidden layer of its own instead, which also weighs the sum anew, behind tables that all have in common.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from othello_nn.engine.leaf.shapes import Shapes, stages_of_empties
from othello_nn.kinds import NTupleOptions
from othello_nn.nets.base import Net, NetError, count_discs, needs_colour
from othello_nn.nets.tuple_sets import check_tuples, tuple_set

SMALL = 0.01
"""Standard deviation of the first embeddings, in discs."""


class _SumOfCells(torch.autograd.Function):
    """Σ over the lookups of ``weight`` ``[rows, cells]`` or ``[rows, cells, dim]`` at ``indices`` ``[N, lookups]``.

    ``embedding_bag`` does the forward pass. Its own backward pass is many times slower on a CPU when a cell is one
    number, and cannot give a sparse gradient to a weight seen through a view.
    """

    @staticmethod
    def forward(ctx, weight: Tensor, indices: Tensor, sparse: bool) -> Tensor:
        ctx.save_for_backward(indices)
        ctx.shape, ctx.sparse = weight.shape, sparse
        sums = F.embedding_bag(indices, weight.reshape(-1, _dim(weight.shape)), mode="sum")
        return sums.squeeze(1) if weight.dim() == 2 else sums

    @staticmethod
    def backward(ctx, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = gradients
        (indices,) = ctx.saved_tensors
        rows, cells, *dim = ctx.shape
        each = gradient.unsqueeze(1).expand(-1, indices.shape[1], *dim).reshape(-1, *dim)
        flat = indices.reshape(-1)
        if ctx.sparse:
            places = torch.stack((flat // cells, flat % cells)).to(torch.int64)
            return torch.sparse_coo_tensor(places, each, ctx.shape, check_invariants=False), None, None
        summed = gradient.new_zeros(rows * cells, *dim).index_add_(0, flat, each)
        return summed.view(ctx.shape), None, None


class Tap:
    """Where a learner gets hold of a table's gradient, which would be as large as the table.

    While an ``NTupleNet`` has one, its weight itself has no gradient: that of ``zeros``, which are added to the sums,
    is what a row asks of every cell it read.
    """

    def __init__(self, zeros: Tensor):
        self.zeros = zeros
        """``[N, dim]``, for as many positions as the net is asked about."""
        self.indices: Tensor | None = None
        """int32 ``[N, lookups]``: the cells that were read, counted through all rows of the weight."""


def _dim(shape: torch.Size) -> int:
    return shape[2] if len(shape) == 3 else 1


class _Layers(nn.Module):
    """The weights of as many layers as there are heads: ``weight`` ``[heads, *size]``, and a bias for each output."""

    def __init__(self, heads: int, *size: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(heads, *size))
        self.bias = nn.Parameter(torch.empty(heads, *size[:-1]))


class NTupleNet(Net):
    """``weight`` is ``[rows, cells]`` in discs, or ``[rows, cells, dim]``; cell 0 of a row is a constant term.

    Its options are ``NTupleOptions``. A stage is a row of ``weight``, 0 the end of the game, and ``shared`` one more,
    the last (with one stage it would be the same thing twice: left out). By ``inversion`` the mover's discs are digit
    2, whoever it is; by ``negation`` black's are, and the value is negated when white is to move.
    """

    _by_byte: Tensor
    _origins: Tensor
    _stage_starts: Tensor
    _head_of_discs: Tensor

    def __init__(self, *values: Any, **given: Any):
        options = NTupleOptions(*values, **given)
        if isinstance(options.tuples, str):
            tuples, name = tuple_set(options.tuples, options.seed), options.tuples
        else:
            tuples, name = check_tuples(options.tuples), options.tuple_set
        super().__init__(replace(options, tuples=tuples, tuple_set=name))
        self.tuples, self.tuple_set, self.seed = tuples, name, options.seed
        self.shapes = Shapes.symmetric(tuples)
        self.stages, self.shared, self.view = options.stages, options.shared, options.view
        self.dim, self.units, self.heads = options.dim, options.hidden, options.heads
        self.scale, self.sparse = options.scale, options.sparse
        self.tap: Tap | None = None
        rows = self.stages + (1 if self._has_shared_row else 0)
        size = (rows, self.shapes.cells)
        if rows * self.shapes.cells >= 2**31:
            raise NetError(
                f"{rows} rows of {self.shapes.cells} cells are too many: take fewer stages or shorter tuples"
            )
        self.weight = nn.Parameter(torch.empty(size if self.dim == 1 else (*size, self.dim)))
        if self.dim > 1:
            self._make_heads()
        self._make_index_tables()
        self.reset_parameters()

    def _make_heads(self) -> None:
        """One network behind the sums, or one for each part of the game."""
        if self.heads == 1:
            self.hidden: nn.Linear | _Layers = nn.Linear(self.dim, self.units)
            self.output: nn.Linear | _Layers = nn.Linear(self.units, 1)
            return
        self.skip = nn.Parameter(torch.empty(self.heads, self.dim))
        self.hidden = _Layers(self.heads, self.units, self.dim)
        self.output = _Layers(self.heads, self.units)
        numbers = torch.tensor(stages_of_empties(self.heads)[::-1].tolist(), dtype=torch.int32)
        self.register_buffer("_head_of_discs", numbers, persistent=False)

    def _make_index_tables(self) -> None:
        """``_by_byte`` ``[2 * 8 * 256, lookups + 1]``: what the discs in a rank of the mover, then of the opponent, add
        to each index; ``_origins`` ``[lookups + 1]``: the cells of an empty board. The constant's come last, and no
        disc changes them. ``_stage_starts`` ``[65]``: the first cell of the stage with so many discs."""
        placements = self.shapes.placements
        powers = torch.zeros(8, 8, len(placements) + 1)
        origins = []
        for lookup, placement in enumerate(placements):
            for digit, square in enumerate(placement.squares):
                powers[square // 8, square % 8, lookup] = 3.0**digit
            all_empty = (3 ** len(placement.squares) - 1) // 2
            origins.append(self.shapes.table_starts[placement.table] + all_empty)
        discs = (torch.arange(256).unsqueeze(1) >> torch.arange(8) & 1).float()
        for_mover = (discs @ powers).flatten(0, 1)
        # Sums of at most ten digits are exact in float32. Kept as whole numbers with the same bits, since a net that is
        # cast to a narrower format would take the table along.
        by_byte = torch.cat((for_mover, -for_mover)).view(torch.int32)
        self.register_buffer("_by_byte", by_byte, persistent=False)
        self.register_buffer("_origins", torch.tensor([*origins, 0], dtype=torch.int32), persistent=False)
        starts = stages_of_empties(self.stages)[::-1] * self.shapes.cells
        self.register_buffer("_stage_starts", torch.tensor(starts.tolist(), dtype=torch.int32), persistent=False)

    @property
    def _has_shared_row(self) -> bool:
        return self.shared and self.stages > 1

    @property
    def reads(self) -> int:
        """Cells that one position reads, constants included."""
        return (len(self.shapes.placements) + 1) * (2 if self._has_shared_row else 1)

    @property
    def config(self) -> dict[str, Any]:
        """``tuples`` is the list itself, and ``tuple_set`` and ``seed`` only say where it came from."""
        config = super().config
        return config if "rand-" in self.tuple_set else {key: config[key] for key in config if key != "seed"}

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        with torch.no_grad():
            if self.dim == 1:
                self.weight.zero_()
                return
            self.weight.normal_(0, SMALL, generator=generator)
            bound = self.dim**-0.5
            for parameter in self.hidden.parameters():
                parameter.uniform_(-bound, bound, generator=generator)
            for parameter in self.output.parameters():
                parameter.zero_()  # at first the net is the first number of the sum
            if self.heads > 1:
                self.skip.copy_(torch.eye(1, self.dim).expand_as(self.skip))
                for parameter in self.hidden.parameters():
                    parameter.copy_(parameter[:1].expand_as(parameter))  # all heads start alike

    def indices(self, mover: Tensor, opponent: Tensor) -> Tensor:
        """The cells read, int64 ``[N, lookups + 1]``, counted through all rows of ``weight``; the last is the stage's
        constant. Those of the shared row are not among them."""
        return (self._cells(mover, opponent) + self._row_starts(mover, opponent)).to(torch.int64)

    def _row_starts(self, mover: Tensor, opponent: Tensor) -> Tensor:
        """The first cell of each position's stage, int32 ``[N, 1]``."""
        return self._stage_starts.index_select(0, count_discs(mover, opponent)).unsqueeze(1)

    def _cells(self, mover: Tensor, opponent: Tensor) -> Tensor:
        """Cells of a row, int32 ``[N, lookups + 1]``: moving indices through memory is what takes the time.

        Eight ranks of two sides are sixteen rows of a table to add up, a fifth of the time of a matrix product with the
        64 squares.
        """
        ranks = torch.stack((mover, opponent), 1).view(torch.uint8).view(-1, 16)
        rows = ranks + torch.arange(0, 16 * 256, 256, dtype=torch.int32, device=ranks.device)
        table = self._by_byte.view(torch.float32)
        if torch.compiler.is_compiling() and table.device.type != "cpu":
            # Joined with what comes before and after; step by step it would fill memory, and a CPU takes twice as long.
            digits = table[rows].sum(1)
        else:
            digits = F.embedding_bag(rows, table, mode="sum")
        return digits.to(torch.int32) + self._origins

    def discs(self, mover: Tensor, opponent: Tensor, black_to_move: Tensor | None = None) -> Tensor:
        if self.view == "inversion":
            return self._sum(mover, opponent)
        colour = needs_colour(black_to_move, 'an n-tuple net with view="negation"')
        for_black = self._sum(torch.where(colour, mover, opponent), torch.where(colour, opponent, mover))
        return torch.where(colour, for_black, -for_black)

    def _sum(self, mover: Tensor, opponent: Tensor) -> Tensor:
        """The margin for the side whose discs are digit 2."""
        cells = self._cells(mover, opponent)
        indices = cells + self._row_starts(mover, opponent)
        if self._has_shared_row:
            indices = torch.cat((indices, cells + self.stages * self.shapes.cells), 1)
        if self.tap is None:
            sums: Tensor = _SumOfCells.apply(self.weight, indices, self.sparse)
        else:
            self.tap.indices = indices
            sums = F.embedding_bag(indices, self.weight.detach().view(-1, self.dim), mode="sum") + self.tap.zeros
            sums = sums.squeeze(1) if self.dim == 1 else sums
        if self.dim == 1:
            return sums
        if self.heads == 1:
            return sums.select(1, 0) + self.output(F.relu(self.hidden(sums))).squeeze(1)
        return self._by_heads(sums, self._head_of_discs.index_select(0, count_discs(mover, opponent)))

    def _by_heads(self, sums: Tensor, numbers: Tensor) -> Tensor:
        """The value of each row of ``sums`` by the head with its number. All heads' units are found at once, since
        gathering a head's weights for each row would take more memory than the tables do."""
        units = F.relu(F.linear(sums, self.hidden.weight.flatten(0, 1), self.hidden.bias.flatten()))
        by_head = units.view(-1, self.heads, self.units).mul(self.output.weight).sum(2)
        values = by_head + F.linear(sums, self.skip, self.output.bias)
        return values.gather(1, numbers.to(torch.int64).unsqueeze(1)).squeeze(1)
