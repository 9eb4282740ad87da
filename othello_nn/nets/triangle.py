"""Leouski's triangle net: eight triangles of the board see the same few weights. Read ``base.py`` first.

The symmetry axes of the board cut it into eight triangles of ten squares (those on a diagonal belong to two). A map is
ten weights, used by eight hidden units, one a triangle; each hidden unit has a bias and an output weight of its own.
Twelve maps have 12·10 + 96 + 96 + 1 = 313 parameters.

What that makes of the board's symmetries: turning a position moves what one triangle saw to another one. The plain net
is not the same function of the turned board, as units of a map have different biases and outputs; with these tied
(``symmetric=True``) it is, for all eight symmetries. Without biases it is odd: swapping the colours changes its sign.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from othello_nn.engine.leaf.shapes import TRIANGLE
from othello_nn.game.rules import SYMMETRIES
from othello_nn.kinds import TriangleOptions
from othello_nn.nets.base import Net, boards, squash

TRIANGLES = tuple(tuple(images[square] for square in TRIANGLE) for images in SYMMETRIES)
"""TRIANGLES[k]: the squares of triangle k, in the order of ``TRIANGLE``'s."""


class TriangleNet(Net):
    """Hidden units ``[maps, 8]`` over inputs +1 mover, −1 opponent, 0 empty. Its options are ``TriangleOptions``."""

    _spread: Tensor

    def __init__(self, **given: Any):
        options = TriangleOptions(**given)
        super().__init__(options)
        self.maps, self.empties, self.symmetric = options.maps, options.empties, options.symmetric
        self.scale = options.scale
        units = (self.maps,) if self.symmetric else (self.maps, 8)
        self.weights = nn.Parameter(torch.empty(self.maps, 20 if self.empties else 10))
        self.biases = nn.Parameter(torch.empty(units))
        self.outputs = nn.Parameter(torch.empty(units))
        self.output_bias = nn.Parameter(torch.empty(()))
        squares = torch.tensor(TRIANGLES)  # [8, 10]
        spread = (squares.unsqueeze(-1) == torch.arange(64)).to(self.weights.dtype)
        self.register_buffer("_spread", spread, persistent=False)  # [8, 10, 64]
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.uniform_(-1, 1, generator=generator)

    def discs(self, mover: Tensor, opponent: Tensor, black_to_move: Tensor | None = None) -> Tensor:
        board = boards(mover, opponent, self.weights.dtype)
        # The shared weights are spread over the whole board: one product with [64, 8 · maps] is faster than
        # picking ten squares of each triangle, though most of it is multiplying by zero.
        units = board @ self._matrix(self.weights.narrow(1, 0, 10))
        if self.empties:
            units = units + (1 - board.abs()) @ self._matrix(self.weights.narrow(1, 10, 10))
        hidden = squash(units + self._of_units(self.biases))
        return self.scale * (hidden @ self._of_units(self.outputs) + self.output_bias)

    def _of_units(self, parameter: Tensor) -> Tensor:
        """``[maps · 8]``, a number for each hidden unit."""
        return (parameter.unsqueeze(1).expand(-1, 8) if self.symmetric else parameter).reshape(-1)

    def _matrix(self, weights: Tensor) -> Tensor:
        """``[64, maps · 8]`` from ``[maps, 10]``."""
        return torch.einsum("mj,tjs->smt", weights, self._spread).reshape(64, -1)
