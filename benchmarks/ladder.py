"""The ladder that nets in training are rated against: its rungs against each other."""

from __future__ import annotations

import os
from itertools import combinations

import numpy as np

from benchmarks.harness import Report, Settings, benchmark, markdown_table
from othello_nn.arena.lockstep import random_starts, score_in_step
from othello_nn.arena.rating import ratings
from othello_nn.kernels.parallel import in_threads
from othello_nn.learn.watch.ladder import PLIES, RUNGS, rung

DOUBLE_GAMES, SEED = 5_000, 2
TOLERANCE = 20.0
"""Elo that a rung may be away from what it is said to be."""


def play_rungs(double_games: int, seed: int = SEED) -> tuple[dict[tuple[str, str], float], dict[str, float]]:
    """The score of each pair of rungs, and the ratings that follow, with random moves at 0."""
    names, starts = list(RUNGS), random_starts(double_games, PLIES, seed)
    pairs = list(combinations(names, 2))
    for name in names:
        rung(name)  # made before threads ask for it
    found = in_threads(
        lambda pair: score_in_step(rung(pair[0]), rung(pair[1]), starts, seed), pairs, os.cpu_count() or 1
    )
    scores = dict(zip(pairs, found, strict=True))
    games = np.full((len(names), len(names)), 2 * double_games)
    np.fill_diagonal(games, 0)
    points = np.zeros(games.shape)
    for (a, b), score in scores.items():
        i, j = names.index(a), names.index(b)
        points[i, j], points[j, i] = 2 * double_games * score, 2 * double_games * (1 - score)
    elos = [rating.elo for rating in ratings(points, games)]
    return scores, {name: elo - elos[names.index("random")] for name, elo in zip(names, elos, strict=True)}


@benchmark("ladder", "the rungs of the ladder that training is watched by, against each other")
def ladder(settings: Settings) -> Report:
    double_games = settings.size(DOUBLE_GAMES, 50)
    scores, elos = play_rungs(double_games)
    names = list(RUNGS)

    def score(a: str, b: str) -> str:
        if a == b:
            return ""
        return f"{scores[a, b] if (a, b) in scores else 1 - scores[b, a]:.3f}"

    rows = [(f"`{a}`", f"{elos[a]:.0f}", RUNGS[a], *(score(a, b) for b in names)) for a in names]
    table = markdown_table(("rung at 1-ply", "Elo", "in use", *(f"`{name}`" for name in names)), rows)
    off = {name: elo - RUNGS[name] for name, elo in elos.items() if abs(elo - RUNGS[name]) > TOLERANCE}
    wrong = ", ".join(f"{name} is {elos[name]:.0f}, not {RUNGS[name]}" for name in off)
    failure = f"RUNGS in learn/watch/ladder.py: {wrong}" if wrong and not settings.quick else None
    return Report(
        max(elos.values()),
        "Elo of the champion at 1-ply",
        table,
        {"elo": elos},
        {"double_games": double_games},
        failure,
    )
