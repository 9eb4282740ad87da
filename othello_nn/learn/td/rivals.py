"""The fixed opponents that a net can learn against (``td.opponent``): square weights, compiled and in torch."""

from __future__ import annotations

import torch
from torch import Tensor

from othello_nn.engine.leaf.compile import Evaluator
from othello_nn.nets.base import boards
from othello_nn.players.searching import square_evaluator
from othello_nn.players.simple import FEWEST_DISCS, MOST_DISCS, SWH, SquareWeights

RIVALS = {
    "swh": SWH,
    "most-discs": MOST_DISCS,
    "fewest-discs": FEWEST_DISCS,
    "random": SquareWeights("random", (0,) * 64, 1),  # all moves are equal, and chance decides
}


def opponent_evaluator(name: str) -> Evaluator:
    """A fixed opponent for compiled games."""
    return square_evaluator(RIVALS[name])


class TorchOpponent:
    """A fixed opponent's square weights, as a net-like function on a device."""

    def __init__(self, name: str, device: str):
        self._weights = torch.tensor(RIVALS[name].weights, dtype=torch.float32, device=device)

    def __call__(self, mover: Tensor, opponent: Tensor, black_to_move: Tensor) -> Tensor:
        return boards(mover, opponent) @ self._weights
