"""A fully connected net, for comparison with the triangles. Read ``triangle.py`` first.

Leouski's question is what his shared weights are worth: beside a triangle net of 313 parameters stands one whose 96
hidden units (as many as eight triangles have with twelve maps) each see the whole board, with weights of their own:
64·96 + 96 + 96 + 1 = 6,337. It has to learn each symmetry by itself.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from othello_nn.kinds import DenseOptions
from othello_nn.nets.base import Net, boards, squash


class DenseNet(Net):
    """Hidden units over inputs +1 mover, −1 opponent, 0 empty. Its options are ``DenseOptions``."""

    def __init__(self, **given: Any):
        options = DenseOptions(**given)
        super().__init__(options)
        self.scale = options.scale
        self.weights = nn.Parameter(torch.empty(64, options.hidden))
        self.biases = nn.Parameter(torch.empty(options.hidden))
        self.outputs = nn.Parameter(torch.empty(options.hidden))
        self.output_bias = nn.Parameter(torch.empty(()))
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Small enough for the sum of 64 inputs, and of the hidden units, to be of the size of one."""
        bounds = (64**-0.5, 64**-0.5, len(self.outputs) ** -0.5, len(self.outputs) ** -0.5)
        with torch.no_grad():
            for parameter, bound in zip(self.parameters(), bounds, strict=True):
                parameter.uniform_(-bound, bound, generator=generator)

    def discs(self, mover: Tensor, opponent: Tensor, black_to_move: Tensor | None = None) -> Tensor:
        hidden = squash(boards(mover, opponent, self.weights.dtype) @ self.weights + self.biases)
        return self.scale * (hidden @ self.outputs + self.output_bias)
