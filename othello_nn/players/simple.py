"""Players in plain Python that look one move ahead at most: chance, disc counters, weighted squares.

A weighted piece counter gives each square a number; the value of a position is the sum over the own discs minus the sum
over the opponent's. It looks at each position after its own move and takes the best, ties by chance. Seen from the
other side its value is the same with the opposite sign, so that playing "by output negation" and seeing each board
as the mover come to the same thing.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from othello_nn.game.position import Position
from othello_nn.game.rules import flips_mask, squares_in
from othello_nn.players.base import BasePlayer, Choice, forced_choice


@dataclass(frozen=True)
class SquareWeights:
    """64 whole numbers, a1 to h8, and how many of them make a disc: whole, so that equal sums are equal."""

    name: str
    weights: tuple[int, ...]
    per_disc: int
    ties_are_common: bool = False

    def value(self, own: int, other: int) -> int:
        weights = self.weights
        return sum(weights[square] for square in squares_in(own)) - sum(weights[square] for square in squares_in(other))


MOST_DISCS = SquareWeights("most-discs", (1,) * 64, 1, ties_are_common=True)
FEWEST_DISCS = SquareWeights("fewest-discs", (-1,) * 64, 1, ties_are_common=True)

# The Standard WPC Heuristic of Yoshioka and others, in hundredths: the opponent that Othello papers measure themselves
# with. One quarter of the board says it all. With 16 hundredths to a disc the largest sum, 55 discs, is within what the
# search's evaluators may say (62), and each weight is a whole number of the search's units (128 a disc).
_SWH_CORNER = (
    (100, -25, 10, 5),
    (-25, -25, 1, 1),
    (10, 1, 5, 2),
    (5, 1, 2, 1),
)
SWH = SquareWeights(
    "swh", tuple(_SWH_CORNER[min(row, 7 - row)][min(column, 7 - column)] for row in range(8) for column in range(8)), 16
)


class RandomPlayer(BasePlayer):
    """Any legal move, each as likely."""

    def __init__(self, name: str, rng: random.Random):
        super().__init__(name, rng, varies=True)

    def pick(self, position: Position, remaining: float | None) -> Choice:
        return forced_choice(position) or Choice(self.rng.choice(position.legal_moves))


class OnePlyPlayer(BasePlayer):
    """The best position after its own move, by square weights; among equals, chance decides."""

    def __init__(self, name: str, rng: random.Random, weights: SquareWeights, epsilon: float = 0.0):
        super().__init__(name, rng, epsilon, varies=weights.ties_are_common)
        self.weights = weights

    def pick(self, position: Position, remaining: float | None) -> Choice:
        if forced := forced_choice(position):
            return forced
        values = {}
        for square in position.legal_moves:
            flips = flips_mask(position.mover, position.opponent, square)
            values[square] = self.weights.value(position.mover | flips | 1 << square, position.opponent ^ flips)
        best = max(values.values())
        move = self.rng.choice([square for square, value in values.items() if value == best])
        return Choice(move, best / self.weights.per_disc, depth=1, pv=(move,), nodes=len(values))
