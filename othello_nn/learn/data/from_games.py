"""Positions of games that somebody has played, as a part of what a net learns from. Read ``store.py`` first.

A file of games (``searched.games``) becomes records once, in one portion, beside those that the run makes itself; a run
that goes on finds them there. A position is worth what came of its game. Where the exact result from some number of
empties on is known (``play.py convert --correct``, WTHOR's theoretical scores), positions up to there have that, and
those after it what was played. Games that were given up or lost on time say nothing without an exact result.

A position that comes in many games, or images of it, is kept once with the mean of its results: unlike players without
chance, people play on differently from it, and each result says something. A solved position has its score.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from othello_nn.collection.replay import replayed
from othello_nn.collection.sources import read_source
from othello_nn.config import ConfigError
from othello_nn.engine.score import SCORE_DISC
from othello_nn.errors import OthelloError
from othello_nn.game.record import DECIDED, Game
from othello_nn.learn.data.labels import board_keys
from othello_nn.learn.data.store import EXACT, INDEX, RECORD, Part, read

FOLDER = "games"
STRIDE = 68_000_000
"""Records of a game have numbers so far apart, by their empties: each stands for itself, since neighbours may have been
left out. A multiple of the learner's ``TESTED``, so that a game is tested, or learnt from, as a whole."""
UNKNOWN = 127
"""For a margin that is not known."""


class GamePositions:
    """The positions of a file of games, in the folder of a run's positions."""

    def __init__(self, file: str, *, resumed: bool):
        self.file = Path(file)
        # What is wrong with the games of a new run is said before it has a folder.
        self._records = None if resumed else self._read()
        self._part: np.ndarray | None = None

    def part(self, folder: Path) -> np.ndarray:
        """The records, mapped into memory; made now, unless they are there."""
        if self._part is None:
            place = folder / FOLDER
            if self.file.exists() or not place.joinpath(f"0{INDEX}").exists():
                with Part.create(place / "0", f"games {self._digest()}") as part:
                    if not part.portions:
                        part.append(self._read() if self._records is None else self._records)
            [self._part] = read(place, check=True)
            self._records = None
        return self._part

    def _digest(self) -> str:
        try:
            return hashlib.sha256(self.file.read_bytes()).hexdigest()
        except OSError as error:
            raise ConfigError(f"searched.games: {str(self.file)!r} cannot be read: {error.strerror or error}") from None

    def _read(self) -> np.ndarray:
        self._digest()
        try:
            records = game_records(read_source(str(self.file)))
        except OthelloError as error:
            advice = f"play.py convert {self.file.name} clean.ggf leaves out what cannot be used"
            raise ConfigError(f"searched.games: {error}; {advice}") from None
        if not len(records):
            raise ConfigError(f"searched.games: {str(self.file)!r} has no positions with a known result")
        return records


def game_records(games: Sequence[Game]) -> np.ndarray:
    """The positions of games as records (``RECORD``), each once, in the order of the games."""
    if not games:
        return np.zeros(0, RECORD)
    positions = replayed(games)
    empties, margins, solved = positions.empties, *_worth(games, positions.games, positions.empties)
    can_move = np.array([bool(game.final.legal_mask) for game in games])[positions.games]
    # From the last position nothing was played: it is over, or only what was solved there is known.
    kept = (margins != UNKNOWN) & (~positions.last | (solved & can_move))
    rows = np.flatnonzero(kept)
    if not len(rows):
        return np.zeros(0, RECORD)
    margins = np.where(positions.black_to_move, margins, -margins)[rows].astype(float)
    movers, opponents, solved = positions.movers[rows], positions.opponents[rows], solved[rows]
    first, worth, exact = _merged(movers, opponents, margins, solved)
    records = np.zeros(len(first), RECORD)
    records["mover"], records["opponent"] = movers[first], opponents[first]
    records["searched"] = np.rint(worth * SCORE_DISC)
    records["margin"] = np.rint(worth)
    records["flags"] = np.where(exact, EXACT, 0)
    records["game"] = positions.games[rows][first] + STRIDE * empties[rows][first]
    return records


def _worth(games: Sequence[Game], numbers: np.ndarray, empties: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Black's margin for each position ``[N]`` of the game with its number, and whether it was solved there."""
    solved_at, exact, played = np.full((3, len(games)), UNKNOWN)
    for i, game in enumerate(games):
        if game.theoretical_result is not None and game.theoretical_empties is not None:
            solved_at[i], exact[i] = game.theoretical_empties, game.theoretical_result
        if game.result is not None and game.ending not in DECIDED:
            played[i] = game.result
    return np.where(empties >= solved_at[numbers], exact[numbers], played[numbers]), empties == solved_at[numbers]


def _merged(
    movers: np.ndarray, opponents: np.ndarray, margins: np.ndarray, solved: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The first row of each position up to symmetry, in order, its mean margin, and whether that is exact."""
    keys = np.zeros(len(movers), np.uint64)
    board_keys(movers, opponents, keys)
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    all_sums, all_counts = np.bincount(inverse, margins), np.bincount(inverse)
    sums, counts = np.bincount(inverse, margins * solved), np.bincount(inverse, solved)
    exact = counts > 0
    worth = np.where(exact, sums / np.maximum(counts, 1), all_sums / all_counts)
    order = np.argsort(first)
    return first[order], worth[order], exact[order]
