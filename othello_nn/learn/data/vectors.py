"""Everything that fitting an embedding net changes, as arrays: its tables, its heads, and how far each has moved."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from othello_nn.learn.td.embedding import tied_cells
from othello_nn.nets import NetError, NTupleNet

FIRST_SIZE = 1.0
"""What a cell's sum of squares begins with, in discs²: a cell that is read for the first time is not thrown about."""


class Vectors(NamedTuple):
    """All float32 but the counts. Of cells that are tied one stands for all, the others are not looked at."""

    weights: np.ndarray  # [stages · cells, dim]
    sizes: np.ndarray  # [stages · cells]: Adagrad's sums of squares
    heads: np.ndarray  # [heads, size]: skip [dim], hidden [dim, units], bias [units], output [units], constant
    first: np.ndarray  # like heads: Adam's moments
    second: np.ndarray
    counts: np.ndarray  # [1] int64: minibatches so far

    @classmethod
    def of(cls, net: NTupleNet) -> Vectors:
        """At the beginning, with the weights of a net."""
        if net.dim == 1 or net.heads == 1 or (net.shared and net.stages > 1) or net.view != "inversion":
            raise NetError("only n-tuple nets with dim > 1, several heads and no shared row are fitted, by inversion")
        weights, skip, hidden, bias, output, constants = (
            part.detach().cpu().numpy()
            for part in (net.weight.flatten(0, 1), net.skip, *net.hidden.parameters(), *net.output.parameters())
        )
        inputs = hidden.transpose(0, 2, 1).reshape(net.heads, -1)
        heads = np.concatenate([skip, inputs, bias, output, constants[:, None]], axis=1)
        sizes = np.full(len(weights), FIRST_SIZE, np.float32)
        return cls(weights.copy(), sizes, heads, np.zeros_like(heads), np.zeros_like(heads), np.zeros(1, np.int64))

    def put_into(self, net: NTupleNet) -> NTupleNet:
        """The net, with these weights."""
        dim, units = net.dim, net.units
        skip, hidden, bias, output, constants = np.split(
            self.heads, np.cumsum([dim, dim * units, units, units]), axis=1
        )
        values = {
            net.weight: self.weights.reshape(net.stages, -1, dim)[:, tied_cells(net.shapes)],
            net.skip: skip,
            net.hidden.weight: hidden.reshape(-1, dim, units).transpose(0, 2, 1),
            net.hidden.bias: bias,
            net.output.weight: output,
            net.output.bias: constants[:, 0],
        }
        with torch.no_grad():
            for parameter, value in values.items():
                parameter.copy_(torch.from_numpy(np.ascontiguousarray(value)))
        return net
