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
    _squares: Tensor

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
        self.register_buffer("_squares", squares.reshape(-1), persistent=False)
        spread = (squares.unsqueeze(-1) == torch.arange(64)).to(self.weights.dtype)
        self.register_buffer("_spread", spread, persistent=False)  # [8, 10, 64]
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.uniform_(-1, 1, generator=generator)

    def say_nothing(self) -> None:
        """No output weights. Those that start within ±1 add up: with many maps to values near ±1, where the squash is
        flat and hardly anything is learnt, above all by symmetric nets early in a game, when all triangles look alike.
        """
        with torch.no_grad():
            self.outputs.zero_()
            self.output_bias.zero_()

    def discs(self, mover: Tensor, opponent: Tensor, black_to_move: Tensor | None = None) -> Tensor:
        board = boards(mover, opponent, self.weights.dtype)
        return self.scale * ((self._tied(board) if self.symmetric else self._untied(board)) + self.output_bias)

    def _untied(self, board: Tensor) -> Tensor:
        # The shared weights are spread over the whole board: one product with [64, 8 · maps] is faster than
        # picking ten squares of each triangle, though most of it is multiplying by zero.
        units = board @ self._matrix(self.weights.narrow(1, 0, 10))
        if self.empties:
            units = units + (1 - board.abs()) @ self._matrix(self.weights.narrow(1, 10, 10))
        return squash(units + self.biases.reshape(-1)) @ self.outputs.reshape(-1)

    def _tied(self, board: Tensor) -> Tensor:
        # All triangles are rows of the same product here: picking squares pays, more so the more maps there are.
        inputs = board.index_select(1, self._squares).view(-1, 10)
        if self.empties:
            inputs = torch.cat((inputs, 1 - inputs.abs()), 1)
        hidden = squash(torch.addmm(self.biases, inputs, self.weights.t()))
        return (hidden @ self.outputs).view(-1, 8).sum(1)

    def _matrix(self, weights: Tensor) -> Tensor:
        """``[64, maps · 8]`` from ``[maps, 10]``."""
        return torch.einsum("mj,tjs->smt", weights, self._spread).reshape(64, -1)
