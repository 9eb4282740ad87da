"""Multi-ProbCut: how well a shallow search predicts a deep one, fitted for the evaluator in use.

For a search of depth d with e empty squares, ``predicted(d) = slope · shallow + offset`` with a deviation σ; where the
prediction leaves the window by t·σ the search trusts it. The three are smooth functions of (e, d, shallow depth), fitted by
``fit`` from positions searched at every depth, so that they also reach depths too expensive to sample. A search to the
end of the game is just d = e. The levels of t trade trust for speed; level 0 cuts nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from othello_nn.engine.ttable import SCORE_DISC

# Deviations allowed for at each level; level 0 is a full-width search. Higher levels cut more.
SELECTIVITY_LEVELS = (None, 3.3, 2.6, 2.0, 1.5, 1.1)
MIDGAME_LEVEL = 5
MIN_DEPTH = 3
TERMS = 7


def shallow_depth(depth: int) -> int:
    """The depth whose result predicts ``depth``: about half, of the same parity, since odd and even depths differ."""
    return 2 * (depth // 4) + (depth & 1)


def terms(empties, depth, shallow) -> np.ndarray:
    """The regression's terms for log σ, ``[…, TERMS]``."""
    e, d, s = (np.asarray(x, float) / 10 for x in (empties, depth, shallow))
    return np.stack([np.ones_like(e), e, d, s, e * e, d * d, e * d], axis=-1)


@dataclass(frozen=True, eq=False)
class ProbCut:
    """Fitted coefficients: ``[TERMS]`` for log σ in discs; slope 1 and offset 0 stand unless given."""

    log_sigma: np.ndarray

    def __post_init__(self):
        if self.log_sigma.shape != (TERMS,):
            raise ValueError(f"ProbCut needs {TERMS} coefficients, not {self.log_sigma.shape}")

    def sigma(self, empties, depth, shallow) -> np.ndarray:
        """Deviation in discs."""
        return np.exp(terms(empties, depth, shallow) @ self.log_sigma)

    def rows(self) -> np.ndarray:
        """``[65 empties, 65 depths, 4]`` int32 for the search: shallow depth, slope in 1/1024, offset, deviation."""
        table = np.zeros((65, 65, 4), np.int32)
        for depth in range(MIN_DEPTH, 61):
            shallow = shallow_depth(depth)
            empties = np.arange(depth, 65)
            sigma = np.clip(self.sigma(empties, np.full_like(empties, depth), np.full_like(empties, shallow)), 0.5, 24)
            table[depth:, depth] = np.stack(
                [np.full_like(empties, shallow), np.full_like(empties, 1024), np.zeros_like(empties), np.rint(sigma * SCORE_DISC)],
                axis=-1,
            )
        return table
