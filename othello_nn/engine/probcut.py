"""Multi-ProbCut: how far a shallow search may be trusted to predict a deep one.

With e empty squares, a search of depth d finds a·v + b, where v is what a search of depth s < d has found, but for an
error of deviation σ; a, b and σ depend on e, d and s. Where that prediction leaves the window by t·σ, the search trusts
it. A solution is a search with d = e, and depth 0 is the evaluator alone. The levels of t trade trust for speed; level
0 cuts nothing. ``fit/probcut.py`` fits the numbers to an evaluator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from othello_nn.engine.score import SCORE_DISC

# Deviations allowed for at each level; level 0 is a full-width search. Higher levels cut more.
SELECTIVITY_LEVELS = (None, 3.3, 2.6, 2.0, 1.5, 1.1, 0.9)
DEPTH_LEVEL = 5
"""Of searches that end at a depth: who asks for one wants its judgement."""
TIMED_LEVEL = 6
"""Of those that end with the time or a number of nodes: to look further is worth more than to be sure."""
MIN_DEPTH = 2
"""At depth 1 the moves' leaves cost hardly more than the prediction."""
PLAIN_MIN_DEPTH = 3
"""The least depth for numbers without lines, which were fitted to searches alone."""
SINGLE_DEPTH = 8  # from depth 4: Buro's choice
TERMS, PLAIN_TERMS = 8, 6
KINDS, LINE_TERMS = 6, 5
NOT_CUT = -1
SLOPE = 1024  # of the unit in which the search has 1 / a


def shallow_depth(depth: int) -> int:
    """The depth whose result predicts ``depth``: about half, of the same parity, since odd and even depths differ."""
    return 2 * (depth // 4) + (depth & 1)


def terms(empties, depth, shallow) -> np.ndarray:
    """The terms of log σ, ``[…, TERMS]``: powers of d − s and of s, the stage, whether d is the end of the game,
    whether there is no shallow search at all, and whether one depth is odd and the other even.

    Powers stay sane far outside the sampled depths, where a polynomial in d does not.
    """
    e, d, s = (np.asarray(x, float) for x in (empties, depth, shallow))
    stage = e / 10
    flags = (d >= e).astype(float), (s == 0).astype(float), (d - s) % 2
    return np.stack([np.ones_like(e), stage, stage**2, np.log(d - s), np.log(s + 1), *flags], axis=-1)


def line_terms(value, empties) -> np.ndarray:
    """The terms of a prediction, ``[…, LINE_TERMS]``: those of a·v, then those of b."""
    value, stage = np.asarray(value, float), (np.asarray(empties, float) - 30) / 20
    value, stage = np.broadcast_arrays(value, stage)
    return np.stack([value, value * stage, np.ones_like(stage), stage, stage**2], axis=-1)


def kind_of(depth, shallow) -> np.ndarray:
    """Which line predicts this: odd and even depths have theirs, each from the evaluator alone, from odd and from even
    depths."""
    depth, shallow = (np.asarray(x, int) for x in (depth, shallow))
    return 3 * (depth & 1) + np.where(shallow == 0, 0, 1 + (shallow & 1))


@dataclass(frozen=True, eq=False)
class ProbCut:
    """``log_sigma`` [TERMS] gives σ in discs, ``lines`` [KINDS, LINE_TERMS] a and b.

    Without lines a = 1 and b = 0; so it is for searches to the end, too: few empties can be solved for a fit, and a
    line through them misleads with many.
    """

    log_sigma: np.ndarray
    lines: np.ndarray | None = None

    def __post_init__(self):
        if self.log_sigma.shape != (TERMS,):
            raise ValueError(f"ProbCut needs {TERMS} terms of σ, not {self.log_sigma.shape}")
        if self.lines is not None and self.lines.shape != (KINDS, LINE_TERMS):
            raise ValueError(f"ProbCut needs {KINDS} × {LINE_TERMS} terms of lines, not {self.lines.shape}")
        if not np.isfinite(self.numbers()).all():
            raise ValueError("ProbCut's coefficients must be finite numbers")

    @classmethod
    def of(cls, numbers: np.ndarray) -> Self:
        """From a row of numbers: those of ``numbers``, or ``PLAIN_TERMS`` of log σ alone."""
        if numbers.shape == (PLAIN_TERMS,):
            return cls(np.append(numbers, np.zeros(TERMS - PLAIN_TERMS)))
        if numbers.shape != (TERMS + KINDS * LINE_TERMS,):
            sizes = f"{PLAIN_TERMS} or {TERMS + KINDS * LINE_TERMS}"
            raise ValueError(f"ProbCut needs {sizes} coefficients, not {numbers.shape}")
        return cls(numbers[:TERMS], numbers[TERMS:].reshape(KINDS, LINE_TERMS))

    def numbers(self) -> np.ndarray:
        """As a checkpoint keeps it."""
        if self.lines is None:
            return self.log_sigma[:PLAIN_TERMS]
        return np.concatenate([self.log_sigma, self.lines.ravel()])

    def sigma(self, empties, depth, shallow) -> np.ndarray:
        """Deviation in discs."""
        return np.exp(terms(empties, depth, shallow) @ self.log_sigma)

    def line(self, empties, depth, shallow) -> tuple[np.ndarray, np.ndarray]:
        """a, and b in discs."""
        if self.lines is None:
            ones = np.ones(np.shape(empties))
            return ones, 0 * ones
        of = self.lines[kind_of(depth, shallow)]
        nothing = (line_terms(0.0, empties) * of).sum(-1)
        is_end = np.asarray(depth) >= np.asarray(empties)
        slope = (line_terms(1.0, empties) * of).sum(-1) - nothing
        return np.where(is_end, 1.0, slope), np.where(is_end, 0.0, nothing)

    def rows(self, *, single: bool = False) -> np.ndarray:
        """``[65 empties, 65 depths, 4]`` int32 for the search: shallow depth or ``NOT_CUT``, deviation and b in score
        units, and 1 / a in 1/``SLOPE``. ``single``: at ``SINGLE_DEPTH`` alone, as ProbCut was at first."""
        table = np.zeros((65, 65, 4), np.int32)
        table[:, :, 0] = NOT_CUT
        depths = range(PLAIN_MIN_DEPTH if self.lines is None else MIN_DEPTH, 61)
        for depth in (SINGLE_DEPTH,) if single else depths:
            empties, shallow = np.arange(depth, 65), shallow_depth(depth)
            asked = empties, np.full(len(empties), depth), np.full(len(empties), shallow)
            slope, offset = self.line(*asked)
            table[depth:, depth, 0] = shallow
            table[depth:, depth, 1] = np.rint(np.clip(self.sigma(*asked), 0.5, 24) * SCORE_DISC)
            table[depth:, depth, 2] = np.rint(np.clip(offset, -24, 24) * SCORE_DISC)
            table[depth:, depth, 3] = np.rint(SLOPE / np.clip(slope, 0.5, 2))
        return table
