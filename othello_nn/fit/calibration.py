"""Fit the meaning of an evaluator's scores (``engine/calibration.py``) to positions whose values are known."""

from __future__ import annotations

import numpy as np

from othello_nn.engine.calibration import DEPTHS, KNOTS, TERMS, Calibration, terms
from othello_nn.engine.driver import Engine, Limit, Options
from othello_nn.engine.leaf.tables import LeafEvaluator
from othello_nn.fit.probcut import FitError
from othello_nn.fit.tool import tell
from othello_nn.game.position import Position
from othello_nn.kernels.parallel import in_threads, parts_of

TOO_FEW = "too few positions to calibrate an evaluator's scores; they stay as they are"
TABLE_MB = 4.0
PORTION = 500
# What is known before anything was measured: that the line is the score itself, but for so much. Where there are few
# positions, they then change little.
SLOPE_SPREAD, OFFSET_SPREAD = 0.1, 0.5
TINY = 1e-9


def scores_of(evaluator: LeafEvaluator, movers: np.ndarray, opponents: np.ndarray) -> np.ndarray:
    """``[N, DEPTHS]``: what searches of each depth say, as they play, before any calibration; NaN where a position has
    no move or is solved at that depth."""
    engine = Engine(evaluator, Options(table_mb=TABLE_MB))
    found = np.full((len(movers), DEPTHS), np.nan)
    for row, (mover, opponent) in enumerate(zip(movers, opponents, strict=True)):
        position = Position(int(mover), int(opponent), True)
        if position.is_over or position.must_pass:
            continue
        engine.clear()
        for depth in range(1, min(DEPTHS, position.empties - 1) + 1):
            found[row, depth - 1] = engine.search(position, Limit(depth=depth)).raw_score
    return found


def proven(evaluator: LeafEvaluator, movers: np.ndarray, opponents: np.ndarray, threads: int = 1) -> np.ndarray:
    """``[N]`` float32: the exact values of positions with few empties."""
    evaluator.laid_out()

    def solve(part: slice) -> list[float]:
        engine = Engine(evaluator, Options(table_mb=TABLE_MB))
        pairs = zip(movers[part], opponents[part], strict=True)
        return [engine.solve(Position(int(mover), int(opponent), True)).score for mover, opponent in pairs]

    return np.concatenate(in_threads(solve, parts_of(len(movers), PORTION), threads)).astype(np.float32)


def fit_calibration(
    evaluator: LeafEvaluator, movers: np.ndarray, opponents: np.ndarray, margins: np.ndarray, threads: int = 1
) -> Calibration:
    """Least squares of the results over the scores, for each depth, held back by what is likely before; stderr is told
    how far it is."""
    if len(movers) == 0:
        raise FitError(TOO_FEW)
    parts = parts_of(len(movers), PORTION)
    evaluator.laid_out()
    found: list[np.ndarray] = []

    def told(scores: np.ndarray) -> None:
        found.append(scores)
        if len(found) % 8 == 0 or len(found) == len(parts):
            tell(f"{min(len(found) * PORTION, len(movers))}/{len(movers)} positions searched for the calibration")

    in_threads(lambda part: scores_of(evaluator, movers[part], opponents[part]), parts, threads, told)
    scores = np.concatenate(found)
    empties = 64 - np.bitwise_count(movers | opponents).astype(int)
    lines = []
    for depth in range(DEPTHS):
        # With fewer empties than the first knot a line would lean towards positions that are solved in no time.
        known = np.flatnonzero(~np.isnan(scores[:, depth]) & (empties >= KNOTS[0]))
        if len(known) < 100:
            raise FitError(TOO_FEW)
        rows, said = terms(scores[known, depth], empties[known]), scores[known, depth]
        lines.append(_line(rows, margins[known] - said))
    return Calibration(np.array(lines))


def _line(rows: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """The line that takes the errors away: ridge regression, as strong as what no line explains asks for."""
    freely, *_ = np.linalg.lstsq(rows, errors, rcond=None)
    spreads = np.array([SLOPE_SPREAD] * 2 + [OFFSET_SPREAD] * (TERMS - 2))
    held_back = np.diag(np.mean((errors - rows @ freely) ** 2) / spreads**2 + TINY)
    line = np.linalg.solve(rows.T @ rows + held_back, rows.T @ errors)
    line[0] += 1
    return line
