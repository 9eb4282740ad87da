"""Play worse on purpose, by discs rather than by blunders: so many are given away in a game, in expectation.

A player that now and then moves at random plays like a master who sometimes falls asleep. Here every move is drawn from
all legal ones, with probabilities ∝ exp(−loss / temperature), where the loss is what the move gives away by the
player's own judgement, and the temperature is such that the expected loss is the move's part of what is to be given
away. So small mistakes are common, large ones rare, and how many discs it comes to is what was asked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

MOVES_OF_A_SIDE = 30
HALVINGS = 40
COLDEST, HOTTEST = 1e-3, 1e4


def share_of_move(gives_discs: float) -> float:
    """What one move is to give away, of a whole game's discs."""
    return gives_discs / MOVES_OF_A_SIDE


def chances(values: Sequence[float], loss_discs: float) -> list[float]:
    """Probabilities of moves with these values, such that the expected loss is ``loss_discs``.

    Where even a move by pure chance would lose less than that, it is pure chance.

    >>> [round(chance, 2) for chance in chances([4.0, 2.0, -6.0], 1.0)]
    [0.63, 0.34, 0.03]
    >>> [round(chance, 2) for chance in chances([1.0, 1.0], 5.0)]
    [0.5, 0.5]
    """
    best = max(values)
    losses = [best - value for value in values]
    cold, hot = COLDEST, HOTTEST
    for _ in range(HALVINGS):
        middle = math.sqrt(cold * hot)
        if _expected(_weights(losses, middle), losses) < loss_discs:
            cold = middle
        else:
            hot = middle
    return _weights(losses, cold)


def _weights(losses: Sequence[float], temperature: float) -> list[float]:
    weights = [math.exp(-loss / temperature) for loss in losses]
    total = sum(weights)
    return [weight / total for weight in weights]


def _expected(probabilities: Sequence[float], losses: Sequence[float]) -> float:
    return sum(p * loss for p, loss in zip(probabilities, losses, strict=True))
