"""Long matches of players that leave nothing to chance, kept game by game, so that one that was stopped goes on.

margins = Margins("keyano-table2", {"nodes": 100_000, …})
play_pairs(a, b, openings, margins)
score_of(margins.known).score
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import BenchmarkError, machine_facts
from othello_nn.arena.match import play_match
from othello_nn.arena.openings import Opening
from othello_nn.arena.statistics import elo_difference, wilson_interval
from othello_nn.kernels.jit import user_cache

SEED = 1
CHUNK = 50
"""Openings between two looks: games end in any order, and nothing may depend on it."""

Pair = tuple[int, int]
"""The margins of the game with black and of that with white, from one opening."""


class Margins:
    """What the games ended with, by opening, in the user's cache folder.

    It is that of one revision and one set of settings: where there are changes, nothing is kept.
    """

    def __init__(self, name: str, settings: dict[str, Any], keep: bool = True):
        machine = machine_facts()
        self.known: list[Pair] = []
        self._path: Path | None = None
        if keep and not machine["dirty"]:
            key = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]
            self._path = user_cache() / "othello_nn" / f"{name}-{machine['revision']}-{key}.jsonl"
        if self._path is not None and self._path.exists():
            for line in self._path.read_text(encoding="utf-8").splitlines():
                self.known += [(black, white) for black, white in json.loads(line)]

    def add(self, pairs: Sequence[Pair]) -> None:
        self.known += pairs
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(pairs) + "\n")

    def forget(self) -> None:
        """The benchmark is over."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def play_pairs(
    a: str,
    b: str,
    openings: Sequence[Opening],
    margins: Margins,
    jobs: int,
    enough: Callable[[Sequence[Pair]], bool] = lambda known: False,
    chunk: int = CHUNK,
) -> None:
    """Play each opening with both colours, some at a time, until there are no more or it is ``enough``."""
    while len(margins.known) < len(openings) and not enough(margins.known):
        first = len(margins.known)
        result = play_match(a, b, openings[first : first + chunk], jobs=jobs, seed=SEED)
        if result.interrupted:
            raise KeyboardInterrupt
        if failed := [one.game.comment for one in result.played if one.forfeited]:
            raise BenchmarkError(f"a player failed: {failed[0]}")
        found = [one.margin for one in result.played]
        margins.add(list(zip(found[::2], found[1::2], strict=True)))


@dataclass(frozen=True)
class Score:
    """What the games say about the first player."""

    games: int
    wins: int
    draws: int
    losses: int
    mean_margin: float

    @property
    def score(self) -> float:
        return (self.wins + self.draws / 2) / self.games

    @property
    def interval(self) -> tuple[float, float]:
        return wilson_interval(self.score, self.games)

    @property
    def elo(self) -> float | None:
        return elo_difference(self.score)

    def as_dict(self) -> dict[str, Any]:
        low, high = self.interval
        return vars(self) | {"score": self.score, "low": low, "high": high, "elo": self.elo}


def score_of(pairs: Sequence[Pair]) -> Score:
    found = [margin for pair in pairs for margin in pair]
    counts = (sum(margin > 0 for margin in found), found.count(0), sum(margin < 0 for margin in found))
    return Score(len(found), *counts, sum(found) / len(found))
