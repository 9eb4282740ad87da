"""Ratings from the results of many players against each other: the Bradley–Terry model in Elo points.

A player that is d points stronger is expected to score 1 / (1 + 10^(−d/400)). The ratings are those that make the
results likeliest; their mean is 0. Each pair of players that has met is given one more game, a draw: without it a
player that won all its games would be infinitely strong.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from othello_nn.arena.statistics import Z_95

PRIOR_GAMES = 1.0
ELO = 400 / math.log(10)  # points in a unit of the logistic function
STEPS, TOLERANCE = 200, 1e-9


@dataclass(frozen=True)
class Rating:
    """In Elo points, with its 95% interval."""

    elo: float
    low: float
    high: float


def ratings(points: np.ndarray, games: np.ndarray) -> list[Rating]:
    """One rating for each player. ``points[i, j]`` is what i scored against j in ``games[i, j]`` games.

    Newton's steps on the log likelihood, which is concave. Intervals are those of the ratings against the mean of all,
    from the likelihood's curvature. Players that have not met, directly or through others, cannot be compared: their
    intervals are infinite.
    """
    games = np.asarray(games, float) + np.where(np.asarray(games) > 0, PRIOR_GAMES, 0)
    points = np.asarray(points, float) + np.where(games > 0, PRIOR_GAMES / 2, 0)
    n = len(games)
    strengths = np.zeros(n)
    groups = _connected(games > 0)
    for _ in range(STEPS):
        expected = 1 / (1 + np.exp(strengths[None, :] - strengths[:, None]))
        slope = (points - games * expected).sum(axis=1)
        step = np.linalg.pinv(_curvature(games, expected)) @ slope
        # Far from the top the curvature says too little: a step is at most a factor e in the odds.
        step *= min(1.0, 1.0 / max(np.abs(step).max(), 1e-300))
        strengths += step
        strengths -= strengths.mean()
        if np.abs(step).max() < TOLERANCE:
            break
    expected = 1 / (1 + np.exp(strengths[None, :] - strengths[:, None]))
    spread = Z_95 * np.sqrt(np.clip(np.diag(np.linalg.pinv(_curvature(games, expected))), 0, None))
    if n > 1 and len(groups) > 1:
        spread[:] = np.inf
    return [Rating(*(ELO * x for x in (s, s - d, s + d))) for s, d in zip(strengths, spread, strict=True)]


def _curvature(games: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """The log likelihood's second derivatives with the sign turned: [players, players]."""
    weights = games * expected * (1 - expected)
    np.fill_diagonal(weights, 0)
    return np.diag(weights.sum(axis=1)) - weights


def _connected(met: np.ndarray) -> list[set[int]]:
    """Groups of players that are linked by games."""
    groups: list[set[int]] = []
    for player in range(len(met)):
        linked = {player} | {int(other) for other in np.flatnonzero(met[player])}
        touching = [group for group in groups if group & linked]
        groups = [group for group in groups if not group & linked] + [linked.union(*touching)]
    return groups


def rating_among(points: np.ndarray, games: np.ndarray, known: np.ndarray) -> Rating:
    """The rating of one player that scored ``points[j]`` in ``games[j]`` games against players of ``known`` ratings.

    These stay as they are, so that ratings found at different times can be compared. With each of them one more game is
    counted, a draw, as in ``ratings``. The interval is that of the chance in these games: where strength is not one
    number, as always, other opponents would give another rating.
    """
    played = np.asarray(games, float) + np.where(np.asarray(games) > 0, PRIOR_GAMES, 0)
    won = np.asarray(points, float) + np.where(played > 0, PRIOR_GAMES / 2, 0)
    levels, strength = np.asarray(known, float) / ELO, 0.0
    curvature = 0.0
    for _ in range(STEPS):
        expected = 1 / (1 + np.exp(levels - strength))
        curvature = float((played * expected * (1 - expected)).sum())
        step = float((won - played * expected).sum()) / max(curvature, 1e-300)
        strength += max(-1.0, min(1.0, step))
        if abs(step) < TOLERANCE:
            break
    spread = Z_95 / math.sqrt(max(curvature, 1e-300))
    return Rating(*(ELO * x for x in (strength, strength - spread, strength + spread)))
