"""What a net looks at: how much each pattern, or each disc, has to do with its score of a position.

An evaluator made of lookups reads a table for each pattern on the board. A pattern's contribution is what the score
would lose if the pattern said, instead of what it says here, what it says on average in positions with about as many
empties: that is fair to tables whose entries all hold some of the score's constant part, and it means the same for sums
of tables, blended nets, and embeddings with a network behind them. Any other evaluator is asked about discs instead:
half of what the score would change by if the disc had the other colour.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from othello_nn.checkpoint import check_positions
from othello_nn.engine.leaf.blended import BlendedEvaluator
from othello_nn.engine.leaf.door import score_all
from othello_nn.engine.leaf.embedded import EmbeddedEvaluator
from othello_nn.engine.leaf.tables import LeafEvaluator
from othello_nn.engine.oneply import new_scratch
from othello_nn.engine.score import SCORE_DISC
from othello_nn.game.position import Position
from othello_nn.game.rules import squares_in

SAMPLE, NEAR_EMPTIES = 600, 4
"""Positions that averages are taken over: those of so many from random games that have about as many empties."""
PATTERNS, DISCS = "patterns", "discs"


@dataclass(frozen=True)
class Look:
    """Contributions in discs for the side to move."""

    kind: str
    score: float
    squares: list[float]
    """[64]: a pattern's contribution is spread evenly over its squares."""
    patterns: list[tuple[tuple[int, ...], float]]
    """The squares of each pattern with its contribution, the largest first; none if discs were asked about."""


def look_at(engine: Any, position: Position) -> Look:
    """What the evaluator of an engine makes of a position, without a search."""
    evaluator = engine.evaluator
    if isinstance(evaluator, LeafEvaluator):
        return _patterns(evaluator, position)
    return _discs(engine, position)


# --- patterns --------------------------------------------------------------------------------------------------------


def _patterns(evaluator: LeafEvaluator, position: Position) -> Look:
    movers, opponents = np.array([position.mover], np.uint64), np.array([position.opponent], np.uint64)
    entries = _entries(evaluator, movers, opponents, position.empties)[0]  # [lookups, …]
    usual = _usual_entries(evaluator, position.empties)  # [lookups, …]
    value = _value_of_sums(evaluator, position.empties)
    constant = _scaled(evaluator, evaluator.weights[evaluator.stage_of_empties[position.empties], 0])
    total = entries.sum(axis=0) + constant
    score = value(total[None])[0]
    parts = score - value(total - entries + usual)
    squares = np.zeros(64)
    placements = evaluator.shapes.placements
    for placement, part in zip(placements, parts, strict=True):
        squares[list(placement.squares)] += part / len(placement.squares)
    ranked = np.argsort(-np.abs(parts))
    patterns = [(tuple(sorted(placements[i].squares)), float(parts[i])) for i in ranked]
    return Look(PATTERNS, float(score), squares.tolist(), patterns)


def _scaled(evaluator: LeafEvaluator, weights: np.ndarray) -> np.ndarray:
    """Weights as they are summed: discs, or what a network takes."""
    if isinstance(evaluator, EmbeddedEvaluator):
        return weights * np.float32(evaluator.quantum)
    return weights / SCORE_DISC if weights.dtype == np.int16 else weights.astype(np.float64)


def _entries(evaluator: LeafEvaluator, movers: np.ndarray, opponents: np.ndarray, empties: int) -> np.ndarray:
    """``[N, lookups, …]``: what each lookup reads in each position."""
    bits = np.arange(64, dtype=np.uint64)
    own, other = ((masks[:, None] >> bits & np.uint64(1)).astype(np.int64) for masks in (movers, opponents))
    shapes = evaluator.shapes
    lookups = len(shapes.placements)
    deltas = shapes.deltas[:, :lookups].astype(np.int64)
    cells = shapes.origins[:lookups] + (own - other) @ deltas  # [N, lookups]
    return _scaled(evaluator, evaluator.weights[evaluator.stage_of_empties[empties]][cells])


@lru_cache(maxsize=1)
def _sample() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    movers, opponents, _ = check_positions(SAMPLE, seed=1)
    empties = np.array([64 - (int(m) | int(o)).bit_count() for m, o in zip(movers, opponents, strict=True)])
    return movers, opponents, empties


@lru_cache(maxsize=256)
def _usual_entries(evaluator: LeafEvaluator, empties: int) -> np.ndarray:
    """``[lookups, …]``: the mean of what each lookup reads where there are about as many empties."""
    movers, opponents, counts = _sample()
    near = np.abs(counts - empties) <= NEAR_EMPTIES
    return _entries(evaluator, movers[near], opponents[near], empties).mean(axis=0)


def _value_of_sums(evaluator: LeafEvaluator, empties: int) -> Callable[[np.ndarray], np.ndarray]:
    """From sums of lookups ``[N, …]`` to discs ``[N]``."""
    if isinstance(evaluator, EmbeddedEvaluator):
        head = evaluator.heads[evaluator.head_of_empties[empties]]

        def through_head(sums: np.ndarray) -> np.ndarray:
            units = np.maximum(sums @ head.hidden.T + head.bias, 0)
            return sums @ head.skip + units @ head.output + head.output_bias

        return through_head
    if isinstance(evaluator, BlendedEvaluator):
        coefficients, scale = evaluator.coefficients[empties], evaluator.scale

        def blended(sums: np.ndarray) -> np.ndarray:
            values = np.clip(np.tanh(sums / 2) @ coefficients, -0.999999, 0.999999)
            return scale * 2 * np.arctanh(values)

        return blended
    return lambda sums: np.asarray(sums, float)


# --- discs -----------------------------------------------------------------------------------------------------------


def _discs(engine: Any, position: Position) -> Look:
    discs = squares_in(position.mover | position.opponent)
    masks = [0, *(1 << square for square in discs)]
    movers = np.array([position.mover ^ mask for mask in masks], np.uint64)
    opponents = np.array([position.opponent ^ mask for mask in masks], np.uint64)
    scores = _static(engine, movers, opponents, position.black_to_move)
    squares = [0.0] * 64
    for square, score in zip(discs, scores[1:], strict=True):
        squares[square] = float(scores[0] - score) / 2
    return Look(DISCS, float(scores[0]), squares, [])


def _static(engine: Any, movers: np.ndarray, opponents: np.ndarray, black_to_move: bool) -> np.ndarray:
    if engine.is_batched:
        colours = np.full(len(movers), black_to_move)
        return np.asarray(engine.evaluator.discs(movers, opponents, colours), float)
    scores, scratch = np.empty(len(movers), np.int64), new_scratch()
    score_all(engine.leaf, scratch.ctypes.data, movers, opponents, scores)
    return scores / SCORE_DISC
