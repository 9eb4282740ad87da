"""The sequential probability ratio test: how many games decide between two hypotheses about a difference in Elo.

    test = Sprt(0, 10)
    test = test.after(opening, margin)   # for every game
    test.decision                        # "", "accept" or "reject"

H0 says that A is at most ``elo0`` better than B, H1 that it is at least ``elo1``. A sample is a pair of games from one
opening with both colours, whose score is 0, ¼, ½, ¾ or 1: two games from a lopsided opening share its luck, and a test
that took them for two would believe in more than was shown. The ratio compares the likeliest distributions of these
five scores whose means are those of H0 and H1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from othello_nn.arena.statistics import expected_score

SCORES = (0.0, 0.25, 0.5, 0.75, 1.0)
# An outcome that was not seen yet is not impossible.
UNSEEN = 1e-3
LARGEST_ELO = 2000
ACCEPT, REJECT = "accept", "reject"


@dataclass(frozen=True)
class Sprt:
    """The state of a test; ``after`` gives the next one."""

    elo0: float
    elo1: float
    alpha: float = 0.05
    """Probability of accepting H1 where H0 is true, and of H0 where H1 is."""
    pairs: tuple[int, ...] = (0, 0, 0, 0, 0)
    """How often each of ``SCORES`` was seen."""
    halves: dict[int, int] = field(default_factory=dict)
    """Openings of which one game is known, with its result for A: 0, 1 (a draw) or 2."""

    def __post_init__(self):
        if not -LARGEST_ELO <= self.elo0 < self.elo1 <= LARGEST_ELO:
            raise ValueError(
                f"hypotheses must be two differences within ±{LARGEST_ELO}, the smaller first, not {self.elo0:g} and "
                f"{self.elo1:g}"
            )
        if not 0 < self.alpha < 0.5:
            raise ValueError(f"the probability of an error must be above 0 and below 0.5, not {self.alpha}")

    def after(self, opening: int, margin: int) -> Sprt:
        """With one more game, from the opening of that number; ``margin`` is A's."""
        points = 1 + (margin > 0) - (margin < 0)
        if opening not in self.halves:
            return replace(self, halves=self.halves | {opening: points})
        halves = dict(self.halves)
        pairs = list(self.pairs)
        pairs[points + halves.pop(opening)] += 1
        return replace(self, pairs=tuple(pairs), halves=halves)

    @property
    def bound(self) -> float:
        """The log likelihood ratio that decides: above it for H1, below its negative for H0."""
        return math.log((1 - self.alpha) / self.alpha)

    @property
    def llr(self) -> float:
        """The log likelihood ratio of H1 against H0."""
        if not any(self.pairs):
            return 0.0
        counts = [count or UNSEEN for count in self.pairs]
        low, high = (_likeliest(counts, expected_score(elo)) for elo in (self.elo0, self.elo1))
        return sum(count * math.log(p1 / p0) for count, p0, p1 in zip(counts, low, high, strict=True))

    @property
    def decision(self) -> str:
        llr = self.llr
        return ACCEPT if llr >= self.bound else REJECT if llr <= -self.bound else ""

    def as_dict(self) -> dict[str, object]:
        decided = self.decision or "undecided"
        figures = {"elo0": self.elo0, "elo1": self.elo1, "alpha": self.alpha, "pairs": list(self.pairs)}
        return figures | {"llr": self.llr, "bound": self.bound, "decision": decided}


def _likeliest(counts: Sequence[float], mean: float) -> list[float]:
    """The probabilities of ``SCORES`` that explain the counts best among those with this mean.

    With Lagrange's multipliers they are f / (1 + x (s − mean)), f being the frequencies, for the one x where they have
    that mean. The sum that must vanish falls as x grows, so halving finds it.
    """
    frequencies = [count / sum(counts) for count in counts]
    offsets = [score - mean for score in SCORES]
    low, high = -1 / max(offsets), -1 / min(offsets)  # beyond these a probability would be negative
    for _ in range(60):
        x = (low + high) / 2
        total = sum(f * offset / (1 + x * offset) for f, offset in zip(frequencies, offsets, strict=True))
        low, high = (x, high) if total > 0 else (low, x)
    x = (low + high) / 2
    return [f / (1 + x * offset) for f, offset in zip(frequencies, offsets, strict=True)]
