"""One update of any net: what it says, how wrong that is, which way its weights move. Read ``optim.py`` first.

Everything has a fixed shape, rows that are not in use have weight 0, and nothing waits for the device. Tables
(``NTupleNet.weight``) are not given a gradient as large as they are: a *tap* on the sum of the cells that a row read
says what the row asks of each of them. With ``optim.compile`` the way to the loss and back is compiled as one graph
and the moves as another, on a GPU in CUDA graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from othello_nn.config import Config
from othello_nn.learn.distributed import Group
from othello_nn.learn.td.optim import RULES, Asked, Rule, State, Table
from othello_nn.nets import Net, NTupleNet
from othello_nn.nets.ntuple import Tap

HEAD_SHARE = 0.001
"""With temporal coherence all that is no table moves by Adam, at this share of the rate: both fall together."""


class Rows(NamedTuple):
    """Positions with what the net should say of them: all ``[N]``."""

    mover: Tensor
    opponent: Tensor
    black_to_move: Tensor
    returns: Tensor
    weight: Tensor
    """float32: 1, or 0 for a row that is not in use."""

    def at(self, index: Tensor) -> Rows:
        return Rows(*(column.index_select(0, index) for column in self))


class Flat:
    """Parameters as one tensor, whose views they become: moving it takes as many launches as moving one of them."""

    def __init__(self, parameters: list[nn.Parameter], rule: Rule):
        self.parameters, self.rule = parameters, rule
        self.numbers = torch.cat([parameter.detach().reshape(-1) for parameter in parameters])
        self.state = rule.begin(self.numbers, False)
        for parameter, part in zip(parameters, self._parts(self.numbers), strict=True):
            parameter.data = part

    def _parts(self, numbers: Tensor) -> list[Tensor]:
        """A number for each weight, in the shapes of the parameters; a single number is everybody's."""
        if not numbers.dim():
            return [numbers] * len(self.parameters)
        parts = numbers.split([parameter.numel() for parameter in self.parameters])
        return [part.view(parameter.shape) for part, parameter in zip(parts, self.parameters, strict=True)]

    def states(self) -> dict[int, State]:
        """What the rule keeps, by the identity of the parameter."""
        parts = {name: self._parts(numbers) for name, numbers in self.state.items()}
        return {
            id(parameter): {name: shares[number] for name, shares in parts.items()}
            for number, parameter in enumerate(self.parameters)
        }


class Update:
    """Moves the weights of a net, the same way on all ranks."""

    def __init__(self, net: Net, config: Config, group: Group):
        self.net, self.config, self.group = net, config, group
        self.loss_kind, self.scale = config.td.loss, net.scale
        self.rule = rule = RULES[config.optim.kind]
        device = next(net.parameters()).device
        self.rate = torch.zeros((), device=device)
        """The learning rate now: a tensor, so that a captured update reads the new one."""
        self._nets = [module for module in net.modules() if isinstance(module, NTupleNet)]
        self._tables = [Table(each.weight.detach().view(-1, each.dim), rule, group.size) for each in self._nets]
        self._shares = [self._share(each) for each in self._nets]
        weights = {id(each.weight) for each in self._nets}
        dense = [each for each in self.parameters() if id(each) not in weights]
        types = dict.fromkeys(each.dtype for each in dense)
        # Temporal coherence is for tables: what all positions read never comes to agree.
        others = RULES["adam"] if rule.coherent else rule
        self._flat = [Flat([each for each in dense if each.dtype == dtype], others) for dtype in types]
        self._flat_share = HEAD_SHARE if rule.coherent else 1.0
        self._loss: Callable[..., Any] = self.loss
        self._move: Callable[..., Any] = self.move
        if config.optim.compile:
            for tensor in self._kept():
                torch._dynamo.mark_static_address(tensor)  # a CUDA graph may write where they are
            mode = "reduce-overhead" if device.type == "cuda" else "default"
            self._loss = torch.compile(self.loss, fullgraph=True, dynamic=False, mode=mode)
            self._move = torch.compile(self.move, fullgraph=True, dynamic=False, mode=mode)

    def _kept(self) -> list[Tensor]:
        """All tensors that stay where they are and change from update to update."""
        numbers = [self.rate, *(flat.numbers for flat in self._flat)]
        for table in self._tables:
            numbers += table.buffers
        states = [*(flat.state for flat in self._flat), *(table.state for table in self._tables)]
        return [*numbers, *(tensor for state in states for tensor in state.values())]

    def _share(self, table: NTupleNet) -> float:
        """What the rate is for the gradient by one weight of a table. Of temporal coherence the rate counts in errors
        of the value that all lookups share, as in ``online.py``."""
        if not self.rule.coherent:
            return 1.0
        per_error = 2 if self.loss_kind == "logistic" else 1
        return per_error * table.scale**2 / table.reads

    def __call__(self, rows: Rows) -> None:
        taps = [torch.zeros(len(rows.mover), table.dim, device=self.rate.device) for table in self._nets]
        loss, indices = self._loss(rows, [tap.requires_grad_() for tap in taps])
        wanted = [*taps, *(parameter for flat in self._flat for parameter in flat.parameters)]
        gradients = torch.autograd.grad(loss, wanted, allow_unused=True)
        found = [
            torch.zeros_like(each) if gradient is None else gradient
            for each, gradient in zip(wanted, gradients, strict=True)
        ]
        self._move(rows.weight, indices, found[: len(taps)], found[len(taps) :])

    def loss(self, rows: Rows, taps: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """The loss, summed over the rows, and the cells ``[N, lookups]`` that were read of each table."""
        for table, zeros in zip(self._nets, taps, strict=True):
            table.tap = Tap(zeros)
        boards = rows.mover, rows.opponent, rows.black_to_move
        if self.loss_kind == "squared":
            losses = 0.5 * (self.net(*boards) - rows.returns).square()
        else:
            logits = self.net.discs(*boards) / self.scale
            losses = F.binary_cross_entropy_with_logits(logits, (1 + rows.returns) / 2, reduction="none")
        indices = []
        for table in self._nets:
            indices.append(table.tap.indices.to(torch.int64))  # type: ignore[union-attr]
            table.tap = None
        return (losses * rows.weight).sum(), indices

    @torch.no_grad()
    def move(self, weight: Tensor, indices: list[Tensor], asked: list[Tensor], gradients: list[Tensor]) -> None:
        """By what the rows asked of the sums of cells they read, and the gradients of all other parameters."""
        for table, gradient, places in zip(self._tables, asked, indices, strict=True):
            table.ask(gradient, weight, places)
        rows, joined = weight.sum(), []
        for flat in self._flat:
            joined.append(torch.cat([each.reshape(-1) for each in gradients[: len(flat.parameters)]]))
            gradients = gradients[len(flat.parameters) :]
        if self.group.size > 1:
            sums = [table.taken_all() for table in self._tables]
            rows, *added = self.group.all_reduce_flat([rows, *joined, *sums])
            joined, sums = added[: len(joined)], added[len(joined) :]
            found = [table.split(each) for table, each in zip(self._tables, sums, strict=True)]
        else:
            found = [table.taken(places) for table, places in zip(self._tables, indices, strict=True)]
        rows = rows.clamp(min=1)
        for table, share, each in zip(self._tables, self._shares, found, strict=True):
            # Sums become means; but temporal coherence counts what is asked of each cell by itself.
            mean = each if self.rule.coherent else replace(each, step=each.step / rows)
            table.move(mean, self.rate * share)
        for flat, gradient in zip(self._flat, joined, strict=True):
            flat.rule.move(flat.numbers, flat.state, Asked.whole(gradient / rows), self.rate * self._flat_share)

    def states(self) -> list[State]:
        """What the optimiser keeps, in the order of the net's parameters."""
        ids = {id(net.weight): table.state for net, table in zip(self._nets, self._tables, strict=True)}
        for flat in self._flat:
            ids |= flat.states()
        return [ids[id(parameter)] for parameter in self.parameters()]

    def parameters(self) -> list[nn.Parameter]:
        return [parameter for parameter in self.net.parameters() if parameter.requires_grad]
