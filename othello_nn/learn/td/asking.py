"""Who is asked about which positions, when games are played by torch (``selfplay.py``).

A list of children has room for more than there are, and in a game between two only one of them is to be asked. On a
GPU everybody is asked about everything, since to find out who need not be would be to wait for the device. A CPU knows:
there, and with a large net, asking about what is not there would take most of the time.
"""

from __future__ import annotations

import torch
from torch import Tensor

from othello_nn.learn.td.selfplay import ValueFunction


class Sparing:
    """A net on a CPU that is asked about boards with discs on them; the value of all others is 0."""

    def __init__(self, net: ValueFunction):
        self._net = net

    def __call__(self, mover: Tensor, opponent: Tensor, black_to_move: Tensor) -> Tensor:
        values = torch.zeros(mover.shape, dtype=torch.float32)
        return _fill(values, (mover | opponent) != 0, self._net, (mover, opponent, black_to_move))


class Duel:
    """Two players as one: ``black`` is asked what is left to white after black's moves, ``white`` the other way
    round. So a game of this function against itself is one of black against white."""

    def __init__(self, black: ValueFunction, white: ValueFunction):
        self._black, self._white = black, white

    def __call__(self, mover: Tensor, opponent: Tensor, black_to_move: Tensor) -> Tensor:
        rows = mover, opponent, black_to_move
        if mover.device.type != "cpu":
            return torch.where(black_to_move, self._white(*rows).float(), self._black(*rows).float())
        values, used = torch.zeros(mover.shape, dtype=torch.float32), (mover | opponent) != 0
        _fill(values, used & black_to_move, self._white, rows)
        return _fill(values, used & ~black_to_move, self._black, rows)


def _fill(values: Tensor, where: Tensor, net: ValueFunction, rows: tuple[Tensor, ...]) -> Tensor:
    """``values`` with the net's own where they are asked for."""
    places = where.nonzero().squeeze(1)
    if len(places):
        values[places] = net(*(row[places] for row in rows)).float()
    return values
