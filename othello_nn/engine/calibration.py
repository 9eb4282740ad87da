"""What the score of a search means: how many discs a game is won by, on average, that was judged so.

A search takes the best of many uncertain values, and so believes in a little too much: for the mover at odd depths,
where it has the last word, and less, or for the other side, at even ones. What that comes to depends on the net. So
each depth has a line of results over scores, whose slope changes with the number of empties and whose offset goes, from
one of a few numbers of empties to the next, straight; odd numbers of empties have another offset than even ones, since
a net has learnt from games in which one side had the last move before the end was solved, and with it the last mistake.
``fit/calibration.py`` fits them; the engine tells its user calibrated scores, and compares raw ones inside.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

DEPTHS = 8
KNOTS = np.array([12, 20, 28, 36, 44, 52])
SMOOTH = 2 + len(KNOTS)
"""Terms that do not ask whether the number of empties is odd; files from before have no others."""
TERMS = SMOOTH + 2
MOST_DISCS = 64.0


def terms(scores, empties) -> np.ndarray:
    """``[…, TERMS]``: the score, also times the stage; how near the number of empties is to each of ``KNOTS``; whether
    it is odd (½) or even (−½), also times the stage."""
    scores, empties = np.asarray(scores, float), np.asarray(empties)
    odd = empties % 2 - 0.5
    empties = np.clip(empties.astype(float), KNOTS[0], KNOTS[-1])
    stage = (empties - 30) / 20
    near = np.maximum(0, 1 - np.abs(empties[..., None] - KNOTS) / (KNOTS[1] - KNOTS[0]))
    first, last = np.stack([scores, scores * stage], axis=-1), np.stack([odd, odd * stage], axis=-1)
    return np.concatenate([first, near, last], axis=-1)


@dataclass(frozen=True, eq=False)
class Calibration:
    """``lines`` is ``[DEPTHS, TERMS]``: the factors of ``terms`` for the searches of depth 1, 2, ….

    Deeper searches are read like the deepest of the same parity.
    """

    lines: np.ndarray

    def __post_init__(self):
        if self.lines.shape == (DEPTHS, SMOOTH):
            object.__setattr__(self, "lines", np.pad(self.lines, [(0, 0), (0, TERMS - SMOOTH)]))
        if self.lines.shape != (DEPTHS, TERMS):
            raise ValueError(f"a calibration needs {DEPTHS} × {TERMS} numbers, not {self.lines.shape}")
        if not np.isfinite(self.lines).all():
            raise ValueError("a calibration's numbers must be finite")

    def discs(self, score: float, empties: int, depth: int) -> float:
        """The discs that a search's score stands for."""
        row = depth - 1 if depth <= DEPTHS else DEPTHS - 1 - (DEPTHS - depth) % 2
        found = float(terms(score, empties) @ self.lines[row])
        return min(max(found, -MOST_DISCS), MOST_DISCS)
