"""What a score is worth: its 95% interval, and the difference in Elo points it stands for."""

from __future__ import annotations

import math

Z_95 = 1.959964


def wilson_interval(score: float, games: int) -> tuple[float, float]:
    """Wilson's 95% interval for a mean score of ``games`` games, draws counted as half.

    It holds for few games and for scores near 0 and 1, where the usual ± is empty. Draws, and openings played with both
    colours, make the true spread smaller, so it errs on the careful side.

    >>> [round(bound, 3) for bound in wilson_interval(1.0, 10)]
    [0.722, 1.0]
    """
    if games < 1:
        raise ValueError("an interval needs at least one game")
    centre = score + Z_95**2 / (2 * games)
    spread = Z_95 * math.sqrt(score * (1 - score) / games + Z_95**2 / (4 * games**2))
    scale = 1 + Z_95**2 / games
    # At the ends the formula is exact but for rounding, and the Elo difference needs the true 0 and 1.
    low = 0.0 if score <= 0 else (centre - spread) / scale
    high = 1.0 if score >= 1 else (centre + spread) / scale
    return low, high


def elo_difference(score: float) -> float | None:
    """The rating difference at which ``score`` is expected; None for 0 and 1, which no finite difference explains.

    >>> round(elo_difference(0.75))
    191
    """
    if not 0 < score < 1:
        return None
    return 400 * math.log10(score / (1 - score))


def expected_score(elo: float) -> float:
    """What a player that much stronger scores on average; the inverse of ``elo_difference``.

    >>> round(expected_score(191), 3)
    0.75
    """
    return 1 / (1 + 10 ** (-elo / 400))
