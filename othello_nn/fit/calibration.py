"""Fit the meaning of an evaluator's scores (``engine/calibration.py``) to games whose results are known."""

from __future__ import annotations

import numpy as np

from othello_nn.engine.calibration import DEPTHS, Calibration, terms
from othello_nn.engine.driver import Engine, Limit, Options
from othello_nn.engine.leaf.tables import LeafEvaluator
from othello_nn.fit.probcut import FitError
from othello_nn.fit.tool import tell
from othello_nn.game.position import Position
from othello_nn.kernels.parallel import in_threads, parts_of

TABLE_MB = 4.0
PORTION = 500


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


def fit_calibration(
    evaluator: LeafEvaluator, movers: np.ndarray, opponents: np.ndarray, margins: np.ndarray, threads: int = 1
) -> Calibration:
    """Least squares of the results over the scores, for each depth; stderr is told how far it is."""
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
        known = np.flatnonzero(~np.isnan(scores[:, depth]))
        if len(known) < 100:
            raise FitError("too few positions to calibrate an evaluator's scores; they stay as they are")
        rows = terms(scores[known, depth], empties[known])
        lines.append(np.linalg.lstsq(rows, margins[known].astype(float), rcond=None)[0])
    return Calibration(np.array(lines))
