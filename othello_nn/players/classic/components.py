"""What an evaluation is made of: the weighted terms of ``iago``, ``keyano`` and ``features``, position by position.

Rosenbloom looked at them move by move to see why a game was won (section 5.3). Each function gives the terms for the
side to move, in the evaluator's own unit; their sum is what it makes its score of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from othello_nn.engine.leaf.lanes import MOST_LANES
from othello_nn.game.position import Position
from othello_nn.players.classic import features, iago, keyano_kernels
from othello_nn.players.classic.features import FeatureEvaluator
from othello_nn.players.classic.iago import IagoEvaluator
from othello_nn.players.classic.keyano import KeyanoEvaluator
from othello_nn.players.classic.keyano_kernels import TERMS, UNIT, WEIGHT_UNIT


@dataclass(frozen=True)
class Components:
    """Names of the terms, what they are counted in, and their values for the side to move."""

    names: tuple[str, ...]
    unit: str
    values: Callable[[Position], list[float]]


def components_of(evaluator: Any) -> Components | None:
    """The components of an evaluator; None of one that has no terms to be told apart."""
    for kind, make in _KINDS.items():
        if isinstance(evaluator, kind):
            return make(evaluator)
    return None


def _sides(position: Position) -> tuple[np.uint64, np.uint64]:
    return np.uint64(position.mover), np.uint64(position.opponent)


def _of_iago(evaluator: IagoEvaluator) -> Components:
    def values(position: Position) -> list[float]:
        sides, move = _sides(position), np.int64(60 - position.empties)
        return [
            (5.0 + 0.1 * move) * iago.corner_sum(evaluator.leaf, *sides, move),
            float(iago.INTERNAL * iago.internal_stability(*sides)),
            float(iago.mobility_coefficient(move) * iago.current_mobility(*sides)),
            float(iago.POTENTIAL * iago.potential_mobility(*sides)),
        ]

    names = ("edges", "internal stability", "current mobility", "potential mobility")
    return Components(names, "IAGO's units", values)


def _of_keyano(evaluator: KeyanoEvaluator) -> Components:
    def values(position: Position) -> list[float]:
        mobility, vectors, corners, edges = _keyano_terms(evaluator, position)
        free = _keyano_terms(without_lost, position)[0]
        weights = evaluator.coefficients[position.empties] / (WEIGHT_UNIT * UNIT)
        terms = (free, mobility - free, vectors, corners, edges, UNIT)
        return [float(weight * term) for weight, term in zip(weights[[0, 0, 1, 2, 3, 4]], terms, strict=True)]

    without_lost = evaluator.with_terms(parity=0)
    return Components((TERMS[0], "lost regions", *TERMS[1:], "constant"), "discs", values)


def _keyano_terms(evaluator: KeyanoEvaluator, position: Position) -> tuple[int, ...]:
    lanes, leaf, sides = np.zeros(MOST_LANES, np.int16), evaluator.leaf, _sides(position)
    type(leaf).begin(leaf, lanes.ctypes.data, *sides)
    return keyano_kernels.keyano_terms(leaf, lanes.ctypes.data, *sides)


def _of_features(evaluator: FeatureEvaluator) -> Components:
    def values(position: Position) -> list[float]:
        stage = min(position.empties // 2, features.STAGES - 1)
        terms = features.term_values(*(np.array([side]) for side in _sides(position)))[0]
        return [float(weight * term) for weight, term in zip(evaluator.weights[stage], terms, strict=True)]

    return Components(features.TERMS, "discs", values)


_KINDS: dict[type, Callable[[Any], Components]] = {
    IagoEvaluator: _of_iago,
    KeyanoEvaluator: _of_keyano,
    FeatureEvaluator: _of_features,
}
