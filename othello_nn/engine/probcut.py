"""Multi-ProbCut: how far a shallow search may be trusted to predict a deep one.

For a search of depth d with e empty squares, the result of a search of depth s < d is right but for an error of
deviation σ(e, d, s); where that result leaves the window by t·σ, the search trusts it. A solution is a search with
d = e. The levels of t trade trust for speed; level 0 cuts nothing. ``fit/probcut.py`` fits σ to an evaluator.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from othello_nn.engine.score import SCORE_DISC

# Deviations allowed for at each level; level 0 is a full-width search. Higher levels cut more.
SELECTIVITY_LEVELS = (None, 3.3, 2.6, 2.0, 1.5, 1.1)
MIDGAME_LEVEL = 5
MIN_DEPTH = 3
TERMS = 6


def shallow_depth(depth: int) -> int:
    """The depth whose result predicts ``depth``: about half, of the same parity, since odd and even depths differ."""
    return 2 * (depth // 4) + (depth & 1)


def terms(empties, depth, shallow) -> np.ndarray:
    """The terms of log σ, ``[…, TERMS]``: powers of d − s and of s, the stage, and whether d is the end of the game.

    Powers stay sane far outside the sampled depths, where a polynomial in d does not.
    """
    e, d, s = (np.asarray(x, float) for x in (empties, depth, shallow))
    stage = e / 10
    return np.stack([np.ones_like(e), stage, stage**2, np.log(d - s), np.log(s + 1), (d >= e).astype(float)], axis=-1)


@dataclass(frozen=True, eq=False)
class ProbCut:
    """Fitted coefficients of log σ (in discs), ``[TERMS]``."""

    log_sigma: np.ndarray

    def __post_init__(self):
        if self.log_sigma.shape != (TERMS,):
            raise ValueError(f"ProbCut needs {TERMS} coefficients, not {self.log_sigma.shape}")
        if not np.isfinite(self.log_sigma).all():
            raise ValueError("ProbCut's coefficients must be finite numbers")

    def sigma(self, empties, depth, shallow) -> np.ndarray:
        """Deviation in discs."""
        return np.exp(terms(empties, depth, shallow) @ self.log_sigma)

    def rows(self) -> np.ndarray:
        """``[65 empties, 65 depths, 2]`` int32 for the search: shallow depth and deviation in score units."""
        table = np.zeros((65, 65, 2), np.int32)
        for depth in range(MIN_DEPTH, 61):
            shallow = shallow_depth(depth)
            empties = np.arange(depth, 65)
            sigma = np.clip(self.sigma(empties, np.full(len(empties), depth), np.full(len(empties), shallow)), 0.5, 24)
            table[depth:, depth, 0] = shallow
            table[depth:, depth, 1] = np.rint(sigma * SCORE_DISC)
        return table
