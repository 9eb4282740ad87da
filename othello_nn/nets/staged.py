"""Nets made of nets: ``Staged`` blends several over the course of a game, ``Doubled`` has one for each colour.

Both take a net as a pattern, copy it and start every copy afresh: ``Staged(TriangleNet(maps=12))``.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from othello_nn.kinds import DoubledOptions, NetOptions, StagedOptions
from othello_nn.nets.base import Net, count_discs, make_net, needs_colour, piece_planes, squash, unsquash

Pattern = Net | NetOptions | Mapping[str, Any]
"""What is copied: a net, or the configuration of one."""


def _config_of(net: Pattern) -> NetOptions | Mapping[str, Any]:
    return net.config if isinstance(net, Net) else net


def _copies(net: Pattern, options: NetOptions, count: int) -> list[Net]:
    """Nets like ``net``, whose options are these, each started afresh."""
    net = net if isinstance(net, Net) else make_net(options)
    copies = [copy.deepcopy(net) for _ in range(count)]
    for each in copies:
        each.reset_parameters()
    return copies


class Staged(Net):
    """Leouski's application coefficients: value = Σ_i coefficients[n, i] · value of net i, with n discs on the board.

    ``coefficients`` ``[65, nets]`` are exp(−(n − centre)² / width²). They do not add up to 1 (1.21 with 34 discs), so
    the blend can pass ±1. With ``gate="learned"`` they are only where training starts. With ``gate="network"``
    (Leouski's future work) a small network of the position adds to them: at first nothing.
    """

    def __init__(self, net: Pattern, **given: Any):
        options = StagedOptions(_config_of(net), **given)  # type: ignore[arg-type]
        super().__init__(options)
        self.centres, self.width, self.gate = options.centres, options.width, options.gate
        nets = _copies(net, options.net, len(self.centres))
        self.nets = nn.ModuleList(nets)
        self.scale = nets[0].scale
        coefficients = self._gaussians()
        if self.gate == "learned":
            self.coefficients = nn.Parameter(coefficients)
        else:
            self.register_buffer("coefficients", coefficients)
        if self.gate == "network":
            self.gate_hidden = nn.Linear(128, options.gate_units)
            self.gate_output = nn.Linear(options.gate_units, len(self.centres))
            self._reset_gate(None)

    @property
    def config(self) -> dict[str, Any]:
        return super().config | {"net": self._inner[0].config}

    @property
    def _inner(self) -> list[Net]:
        return [net for net in self.nets if isinstance(net, Net)]

    def _gaussians(self) -> Tensor:
        table = [[math.exp(-(((n - centre) / self.width) ** 2)) for centre in self.centres] for n in range(65)]
        return torch.tensor(table)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        for net in self._inner:
            net.reset_parameters(generator)
        with torch.no_grad():
            self.coefficients.copy_(self._gaussians())
        if self.gate == "network":
            self._reset_gate(generator)

    def say_nothing(self) -> None:
        for net in self._inner:
            net.say_nothing()

    def _reset_gate(self, generator: torch.Generator | None) -> None:
        bound = 128**-0.5
        with torch.no_grad():
            for parameter in self.gate_hidden.parameters():
                parameter.uniform_(-bound, bound, generator=generator)
            for parameter in self.gate_output.parameters():
                parameter.zero_()  # at first the coefficients are the fixed ones

    def blend(self, mover: Tensor, opponent: Tensor) -> Tensor:
        """The coefficients of positions, ``[N, nets]``."""
        coefficients = self.coefficients.index_select(0, count_discs(mover, opponent))
        if self.gate != "network":
            return coefficients
        squares = piece_planes(mover, opponent, self.coefficients.dtype).flatten(1).narrow(1, 0, 128)
        return coefficients + self.gate_output(squash(self.gate_hidden(squares)))

    def forward(self, mover: Tensor, opponent: Tensor, black_to_move: Tensor | None = None) -> Tensor:
        """The blend itself."""
        values = torch.stack([net(mover, opponent, black_to_move) for net in self._inner], 1)  # [N, nets]
        return (self.blend(mover, opponent) * values).sum(1)

    def discs(self, mover: Tensor, opponent: Tensor, black_to_move: Tensor | None = None) -> Tensor:
        return self.scale * unsquash(self(mover, opponent, black_to_move))


class Doubled(Net):
    """Two nets, ``black`` for positions with black to move and ``white`` for the others."""

    def __init__(self, net: Pattern):
        options = DoubledOptions(_config_of(net))  # type: ignore[arg-type]
        super().__init__(options)
        self.black, self.white = _copies(net, options.net, 2)
        self.scale = self.black.scale

    @property
    def config(self) -> dict[str, Any]:
        return super().config | {"net": self.black.config}

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        self.black.reset_parameters(generator)
        self.white.reset_parameters(generator)

    def discs(self, mover: Tensor, opponent: Tensor, black_to_move: Tensor | None = None) -> Tensor:
        colour = needs_colour(black_to_move, "a doubled net")
        black, white = (net.discs(mover, opponent, colour) for net in (self.black, self.white))
        return torch.where(colour, black, white)

    def forward(self, mover: Tensor, opponent: Tensor, black_to_move: Tensor | None = None) -> Tensor:
        colour = needs_colour(black_to_move, "a doubled net")
        black, white = (net(mover, opponent, colour) for net in (self.black, self.white))
        return torch.where(colour, black, white)
