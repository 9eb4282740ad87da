"""Fitting any net to labelled positions by autograd: triangles, staged nets, and whatever else compiles."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from othello_nn.engine.calibration import MOST_DISCS
from othello_nn.learn.data.device import ASKED
from othello_nn.learn.td.embedding import FIRST_DECAY, SECOND_DECAY, TINY
from othello_nn.nets import Net
from othello_nn.nets.base import squash, unsquash


class Moved(NamedTuple):
    """All parameters of a net in a row, and Adam's moments; float32 but the counts."""

    weights: np.ndarray
    first: np.ndarray
    second: np.ndarray
    counts: np.ndarray  # [1] int64: minibatches so far

    def put_into(self, net: Net) -> Net:
        """The net, with these weights."""
        parts = torch.from_numpy(self.weights).split([each.numel() for each in net.parameters()])
        with torch.no_grad():
            for parameter, part in zip(net.parameters(), parts, strict=True):
                parameter.copy_(part.view_as(parameter))
        return net


class ModuleFit:
    """The parameters of a net on their way. What is fitted is the squashed margin, as in self-play."""

    apart = True  # nothing is common to stages but what the net itself shares

    def __init__(self, net: Net, device: str):
        self._net = net.to(device)
        self._weights = parameters_to_vector(net.parameters()).detach().clone()
        vector_to_parameters(self._weights, net.parameters())  # views: what moves here moves the net
        self._first, self._second = torch.zeros_like(self._weights), torch.zeros_like(self._weights)
        self._updates, self._device = 0, device
        weights, first, second = (each.cpu().numpy().copy() for each in self._tensors)
        self.vectors = Moved(weights, first, second, np.zeros(1, np.int64))

    @property
    def _tensors(self) -> tuple[Tensor, ...]:
        return self._weights, self._first, self._second

    def take(self) -> None:
        """Go on with the numbers in ``vectors``."""
        for tensor, part in zip(self._tensors, self.vectors, strict=False):
            tensor.copy_(torch.from_numpy(part))
        self._updates = int(self.vectors.counts[0])

    def give(self) -> None:
        """Write the numbers into ``vectors``; this waits for the device."""
        for tensor, part in zip(self._tensors, self.vectors, strict=False):
            part[:] = tensor.cpu().numpy()
        self.vectors.counts[0] = self._updates

    def learn(
        self, movers: np.ndarray, opponents: np.ndarray, labels: np.ndarray, rate: float, head_rate: float
    ) -> Tensor:
        """One minibatch, at ``head_rate``; the sum of squared errors in discs, on which the device may still work."""
        wanted, parameters = self._sent(labels), list(self._net.parameters())
        with self._net.learning(self._updates):
            value = self._net(self._sent(movers.view(np.int64)), self._sent(opponents.view(np.int64)))
        error = value - squash(wanted / self._net.scale)
        gradients = torch.autograd.grad(0.5 * error.square().mean(), parameters)
        with torch.no_grad():
            self._move(torch.cat([each.reshape(-1) for each in gradients]), head_rate)
            return (_within(unsquash(value) * self._net.scale) - wanted).square().sum()

    def _move(self, gradient: Tensor, rate: float) -> None:
        self._updates += 1
        self._first.lerp_(gradient, 1 - FIRST_DECAY)
        self._second.lerp_(gradient.square(), 1 - SECOND_DECAY)
        sizes = (self._second / (1 - SECOND_DECAY**self._updates)).sqrt() + TINY
        self._weights -= rate / (1 - FIRST_DECAY**self._updates) * self._first / sizes

    def discs(self, movers: np.ndarray, opponents: np.ndarray) -> np.ndarray:
        """What the net says of positions ``[N]``, float32."""
        found = []
        with torch.no_grad():
            for first in range(0, len(movers), ASKED):
                both = (self._sent(each[first : first + ASKED].view(np.int64)) for each in (movers, opponents))
                found.append(_within(self._net.discs(*both)))
        return torch.cat(found).cpu().numpy()

    def _sent(self, array: np.ndarray) -> Tensor:
        tensor = torch.from_numpy(array)
        if self._device.startswith("cuda"):
            return tensor.pin_memory().to(self._device, non_blocking=True)
        return tensor.to(self._device)


def _within(discs: Tensor) -> Tensor:
    """A squashed margin tells 64 discs from 100 no more than a game does."""
    return discs.clamp(-MOST_DISCS, MOST_DISCS)
