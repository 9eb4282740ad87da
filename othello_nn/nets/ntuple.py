"""N-tuple nets: tables of weights, looked up by the contents of a few squares each and added up.

``tuple_sets.py`` says which squares. With ``dim=1`` a cell holds discs and their sum is the prediction. With more, a
cell holds a vector, the sum of the vectors goes through a small hidden layer, and that is a correction to its first
number. The game has ``stages`` by the number of empties, each with tables of its own; ``shared=True`` adds tables that
serve all of them, so that what is rare in one stage is learnt from the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from othello_nn.engine.leaf.shapes import Shapes
from othello_nn.errors import shorten
from othello_nn.nets.base import Net, NetError, boards, count_discs, flag, needs_colour, one_of, scale_option, whole
from othello_nn.nets.tuple_sets import check_tuples, tuple_set

VIEWS = ("inversion", "negation")
SMALL = 0.01
"""Standard deviation of the first embeddings, in discs."""
HALF = 5
"""Digits added up in one matrix product. Sums of five balanced ternary digits are at most 121, which the narrowest
floating-point formats hold exactly: TF32 and autocast cannot change an index."""


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


def _dim(shape: torch.Size) -> int:
    return shape[2] if len(shape) == 3 else 1


class NTupleNet(Net):
    """``weight`` is ``[rows, cells]`` in discs, or ``[rows, cells, dim]``; cell 0 of a row is a constant term.

    tuples   the name of a set (``tuple_sets.py``; ``seed`` is for random ones), or a list of lists of squares
    stages   rows of ``weight``; stage 0 is the end of the game
    shared   one more row, the last, added in every stage (with one stage it would be the same thing twice: left out)
    view     ``inversion``: the mover's discs are digit 2, whoever it is; ``negation``: black's are, and the value is
             negated when white is to move
    sparse   the gradient of ``weight`` is a sparse tensor
    """

    kind = "ntuple"
    _powers: Tensor
    _origins: Tensor

    def __init__(
        self,
        tuples: str | Sequence[Sequence[int]] = "all-2",
        dim: int = 1,
        stages: int = 1,
        shared: bool = False,
        hidden: int = 16,
        view: str = "inversion",
        scale: float = 10.0,
        sparse: bool = False,
        seed: int = 0,
        tuple_set: str = "",
    ):
        super().__init__()
        self._choose_tuples(tuples, tuple_set, seed)
        self.dim = whole("dim", dim, 1, 256)
        self.stages = whole("stages", stages, 1, 60)
        self.shared = flag("shared", shared)
        self.units = whole("hidden", hidden, 1, 4096)
        self.view = one_of("view", view, VIEWS)
        self.scale = scale_option(scale)
        self.sparse = flag("sparse", sparse)
        rows = self.stages + (1 if self._has_shared_row else 0)
        size = (rows, self.shapes.cells)
        if rows * self.shapes.cells >= 2**31:
            raise NetError(
                f"{rows} rows of {self.shapes.cells} cells are too many: take fewer stages or shorter tuples"
            )
        self.weight = nn.Parameter(torch.empty(size if dim == 1 else (*size, dim)))
        if dim > 1:
            self.hidden = nn.Linear(dim, hidden)
            self.output = nn.Linear(hidden, 1)
        self._make_index_tables()
        self.reset_parameters()

    def _choose_tuples(self, tuples: str | Sequence[Sequence[int]], name: str, seed: int) -> None:
        self.seed = whole("seed", seed, 0, 2**63 - 1)
        if isinstance(tuples, str):
            self.tuples, name = tuple_set(tuples, seed), tuples
        else:
            self.tuples = check_tuples(tuples)
        if not isinstance(name, str):
            raise NetError(f"tuple_set is {shorten(name)}; it must be the name of a set")
        self.tuple_set = name
        self.shapes = Shapes.symmetric(self.tuples)

    def _make_index_tables(self) -> None:
        """``_powers`` ``[halves, 64, lookups + 1]``: what a disc of the mover adds to each index; ``_origins``
        ``[lookups + 1]``: the cells of an empty board. The constant's come last, and no disc changes them."""
        placements = self.shapes.placements
        halves = 1 if max(self.shapes.sizes) <= HALF else 2
        powers = [[[0.0] * (len(placements) + 1) for _ in range(64)] for _ in range(halves)]
        origins = []
        for lookup, placement in enumerate(placements):
            for digit, square in enumerate(placement.squares):
                powers[digit // HALF][square][lookup] = 3.0 ** (digit % HALF)
            all_empty = (3 ** len(placement.squares) - 1) // 2
            origins.append(self.shapes.table_starts[placement.table] + all_empty)
        self.register_buffer("_powers", torch.tensor(powers), persistent=False)
        self.register_buffer("_origins", torch.tensor([*origins, 0], dtype=torch.int32), persistent=False)

    @property
    def _has_shared_row(self) -> bool:
        return self.shared and self.stages > 1

    @property
    def config(self) -> dict[str, Any]:
        """``tuples`` is the list itself and ``tuple_set`` only says where it came from."""
        config: dict[str, Any] = {"kind": self.kind, "tuples": [list(squares) for squares in self.tuples]}
        config |= {"tuple_set": self.tuple_set, "stages": self.stages, "shared": self.shared, "dim": self.dim}
        config |= {"hidden": self.units, "view": self.view, "scale": self.scale, "sparse": self.sparse}
        return config | ({"seed": self.seed} if "rand-" in self.tuple_set else {})

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

    def indices(self, mover: Tensor, opponent: Tensor) -> Tensor:
        """The cells read, int64 ``[N, lookups + 1]``, counted through all rows of ``weight``; the last is the stage's
        constant. Those of the shared row are not among them."""
        return (self._cells(mover, opponent) + self._row_starts(mover, opponent)).to(torch.int64)

    def _row_starts(self, mover: Tensor, opponent: Tensor) -> Tensor:
        """The first cell of each position's stage, int32 ``[N, 1]``."""
        stage = (64 - count_discs(mover, opponent)) * self.stages // 60
        return (stage.clamp(max=self.stages - 1) * self.shapes.cells).to(torch.int32).unsqueeze(1)

    def _cells(self, mover: Tensor, opponent: Tensor) -> Tensor:
        """Cells of a row, int32 ``[N, lookups + 1]``: moving indices through memory is what takes the time."""
        board = boards(mover, opponent, self._powers.dtype)
        low, *high = ((board @ powers).to(torch.int32) for powers in self._powers.unbind())
        return (low + 3**HALF * high[0] if high else low) + self._origins

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
        sums: Tensor = _SumOfCells.apply(self.weight, indices, self.sparse)
        if self.dim == 1:
            return sums
        return sums.select(1, 0) + self.output(F.relu(self.hidden(sums))).squeeze(1)
