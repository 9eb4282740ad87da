"""What ``minibatch.py`` does, in PyTorch: the same fit on any device, with nothing that waits for it."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from othello_nn.learn.data.vectors import Vectors
from othello_nn.learn.td.embedding import FIRST_DECAY, SECOND_DECAY, TINY, tied_cells
from othello_nn.nets import NTupleNet
from othello_nn.nets.base import count_discs

ASKED = 1 << 16
"""Positions that are evaluated at once where nothing is learnt."""


class DeviceFit:
    """The weights of a net on their way, moved by tensor operations."""

    def __init__(self, net: NTupleNet, device: str):
        self._net = net.to(device)
        self.vectors = Vectors.of(net)
        self._weights, self._sizes, self._heads, self._first, self._second = (
            torch.from_numpy(part.copy()).to(device) for part in self.vectors[:5]
        )
        self._tied = torch.from_numpy(tied_cells(net.shapes)).to(device)
        self._updates, self._device = 0, device
        self.apart = net.stages == 1
        """Each stage has tables of its own; until then all read and move the first one's."""

    def take(self) -> None:
        """Go on with the numbers in ``vectors``."""
        for tensor, part in zip(self._tensors, self.vectors, strict=False):
            tensor.copy_(torch.from_numpy(part))
        self._updates = int(self.vectors.counts[0])

    def give(self) -> None:
        """Write the numbers into ``vectors``; this waits for the device."""
        if not self.apart:
            for tensor in (self._weights, self._sizes):
                in_stages = tensor.view(self._net.stages, -1, *tensor.shape[1:])
                in_stages[1:] = in_stages[:1]
        for tensor, part in zip(self._tensors, self.vectors, strict=False):
            part[:] = tensor.cpu().numpy()
        self.vectors.counts[0] = self._updates

    @property
    def _tensors(self) -> tuple[Tensor, ...]:
        return self._weights, self._sizes, self._heads, self._first, self._second

    def learn(
        self, movers: np.ndarray, opponents: np.ndarray, labels: np.ndarray, rate: float, head_rate: float
    ) -> Tensor:
        """One minibatch; the sum of its squared errors in discs, which the device may still be working on."""
        mover, opponent = self._boards(movers, opponents)
        wanted = self._sent(torch.from_numpy(labels))
        cells, numbers = self._read(mover, opponent)
        sums = F.embedding_bag(cells, self._weights, mode="sum").requires_grad_()
        heads = self._heads.detach().requires_grad_()
        errors = wanted - self._discs(sums, heads, numbers)
        by_sums, by_heads = torch.autograd.grad(0.5 * errors.square().sum(), (sums, heads))
        with torch.no_grad():
            squares = by_sums.square().mean(1, keepdim=True).expand(cells.shape)
            flat = cells.reshape(-1)
            self._sizes.index_add_(0, flat, squares.reshape(-1))
            steps = (rate / self._sizes[flat].sqrt()).view(*cells.shape, 1) * -by_sums.unsqueeze(1)
            self._weights.index_add_(0, flat, steps.view(len(flat), -1))
            self._move_heads(-by_heads / len(labels), head_rate)
            return errors.detach().square().sum()

    def keep_within(self, limit: float) -> None:
        """Leave no number of the tables further from 0."""
        self._weights.clamp_(-limit, limit)

    def _move_heads(self, gradient: Tensor, rate: float) -> None:
        self._updates += 1
        self._first.lerp_(gradient, 1 - FIRST_DECAY)
        self._second.lerp_(gradient.square(), 1 - SECOND_DECAY)
        sizes = (self._second / (1 - SECOND_DECAY**self._updates)).sqrt() + TINY
        self._heads += rate / (1 - FIRST_DECAY**self._updates) * self._first / sizes

    def discs(self, movers: np.ndarray, opponents: np.ndarray) -> np.ndarray:
        """What the net says of positions ``[N]``, float32."""
        found = []
        with torch.no_grad():
            for first in range(0, len(movers), ASKED):
                part = slice(first, first + ASKED)
                cells, numbers = self._read(*self._boards(movers[part], opponents[part]))
                sums = F.embedding_bag(cells, self._weights, mode="sum")
                found.append(self._discs(sums, self._heads, numbers))
        return torch.cat(found).cpu().numpy()

    def _boards(self, movers: np.ndarray, opponents: np.ndarray) -> tuple[Tensor, Tensor]:
        mover, opponent = (self._sent(torch.from_numpy(each.view(np.int64))) for each in (movers, opponents))
        return mover, opponent

    def _sent(self, tensor: Tensor) -> Tensor:
        if self._device.startswith("cuda"):
            return tensor.pin_memory().to(self._device, non_blocking=True)
        return tensor.to(self._device)

    def _read(self, mover: Tensor, opponent: Tensor) -> tuple[Tensor, Tensor]:
        """The cells ``[N, lookups + 1]`` and the number of the head ``[N]`` of each position."""
        net = self._net
        cells = self._tied[net._cells(mover, opponent)]
        if self.apart and net.stages > 1:
            cells = cells + net._row_starts(mover, opponent)
        return cells, net._head_of_discs.index_select(0, count_discs(mover, opponent))

    def _discs(self, sums: Tensor, heads: Tensor, numbers: Tensor) -> Tensor:
        dim, units = self._net.dim, self._net.units
        each = heads.index_select(0, numbers)  # [N, size]
        skip, hidden, bias, output, constant = each.split([dim, dim * units, units, units, 1], 1)
        active = F.relu(torch.einsum("ni,niu->nu", sums, hidden.view(-1, dim, units)) + bias)
        return (sums * skip).sum(1) + (active * output).sum(1) + constant.squeeze(1)
