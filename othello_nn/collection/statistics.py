"""What a collection of games is like: IAGO's figures of games, over as many games as there are.

By the number of moves made (0 before the first, 60 on a full board; passes are no moves): discs of both sides and the
lead (Rosenbloom 1981, Figure 3-2), moves to choose from (Figure 3-5), stable discs of both (3-6) and moves of each side
(3-10). Of one game these are its own curves, of many their means. Besides: lengths, passes, results, openings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from othello_nn.collection.replay import Positions, replayed
from othello_nn.errors import OthelloError
from othello_nn.game.notation import parse_move
from othello_nn.game.position import Position
from othello_nn.game.record import Game
from othello_nn.game.rules import PASS, SYMMETRIES
from othello_nn.kernels.bits import popcount
from othello_nn.kernels.board import mobility, stable_discs
from othello_nn.kernels.jit import kernel

NUMBERS = 61
"""Moves made: 0 to 60."""
BIN = 8
"""Discs of the margins that are counted together."""
OPENINGS = {"d6": "perpendicular", "f6": "diagonal", "f4": "parallel"}
"""White's answers to f5, and what they are called (Figure 3-12)."""
CURVES = {
    "moves": "moves to choose from",
    "black_moves": "moves that black has, or would have",
    "white_moves": "moves that white has, or would have",
    "black_discs": "black's discs",
    "white_discs": "white's discs",
    "lead": "the absolute difference of discs",
    "black_stable": "black's stable discs",
    "white_stable": "white's stable discs",
}


@kernel()
def count_board(blacks, whites, moves, stable):
    """Write the number of moves and of stable discs of both sides ``[2, N]`` for boards ``[N]``."""
    for row in range(blacks.size):
        moves[0, row], moves[1, row] = mobility(blacks[row], whites[row]), mobility(whites[row], blacks[row])
        stable[0, row] = popcount(stable_discs(blacks[row], whites[row]))
        stable[1, row] = popcount(stable_discs(whites[row], blacks[row]))


@dataclass(frozen=True, eq=False)
class Statistics:
    """The figures of some games."""

    games: int
    complete: int
    """Played to the end."""
    lengths: np.ndarray
    """``[games]``: moves of each, passes not counted."""
    passes: np.ndarray
    margins: np.ndarray
    """Black's, of the games whose result is known."""
    solved: np.ndarray
    """``[N, 2]``: the exact result, and the one on the board, of the games that have both; black's."""
    openings: dict[str, int]
    positions: np.ndarray
    """``[61]``: positions of all games after so many moves."""
    moved: np.ndarray
    """``[61]``: those of them from which a move was made."""
    means: dict[str, np.ndarray]
    """``[61]`` for each of ``CURVES``; NaN where there is no position."""
    spreads: dict[str, np.ndarray]
    """Standard deviations, likewise."""

    @property
    def points(self) -> np.ndarray:
        """``[30]``: Figure 3-5. Moves to choose from, the first move of both sides, the second, and so on."""
        each = self.means["moves"][:60].reshape(30, 2)
        there = np.isfinite(each)
        return np.where(there.any(1), np.where(there, each, 0).sum(1) / np.maximum(there.sum(1), 1), np.nan)

    @property
    def histogram(self) -> dict[int, int]:
        """Games by black's margin, in steps of ``BIN`` discs around 0."""
        near = np.sign(self.margins) * ((np.abs(self.margins) + BIN // 2) // BIN * BIN)
        return {middle: int((near == middle).sum()) for middle in range(-64, 65, BIN)}

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it: means to three decimals, None where there are no positions."""
        margins = self.margins
        found: dict[str, Any] = {}
        if len(margins):
            found = {
                "black_wins": int((margins > 0).sum()),
                "draws": int((margins == 0).sum()),
                "white_wins": int((margins < 0).sum()),
                "mean_margin": _number(margins.mean()),
                "mean_lead": _number(np.abs(margins).mean()),
                "wiped_out": int((np.abs(margins) == 64).sum()),
                "margins": {str(middle): count for middle, count in self.histogram.items()},
            }
        if len(self.solved):
            exact, played = self.solved.T
            found["exact"] = {
                "games": len(exact),
                "other_result": int((exact != played).sum()),
                "other_winner": int((np.sign(exact) != np.sign(played)).sum()),
                "mean_loss": _number(np.abs(exact - played).mean()),
            }
        return {
            "games": self.games,
            "complete": self.complete,
            "mean_moves": _number(self.lengths.mean()),
            "fewest_moves": int(self.lengths.min()),
            "most_moves": int(self.lengths.max()),
            "mean_passes": _number(self.passes.mean()),
            "games_with_a_pass": int((self.passes > 0).sum()),
            **found,
            "openings": self.openings,
            "mean_choice": _number(np.nansum(self.means["moves"] * self.moved) / max(self.moved.sum(), 1)),
            "positions": self.positions.tolist(),
            "curves": {name: [_number(value) for value in self.means[name]] for name in CURVES},
            "spreads": {name: [_number(value) for value in self.spreads[name]] for name in CURVES},
        }


def _number(value: float) -> float | None:
    return round(float(value), 3) if np.isfinite(value) else None


def statistics_of(games: Sequence[Game]) -> Statistics:
    """The figures of these games, which must be at least one."""
    if not games:
        raise OthelloError("there are no games to count")
    positions = replayed(games)
    number = np.clip(60 - positions.empties, 0, 60)
    means, spreads = _curves(positions, number)
    passes = np.array([sum(move == PASS for move in game.moves) for game in games])
    solved = [(game.theoretical_result, game.result) for game in games]
    return Statistics(
        games=len(games),
        complete=sum(game.final.is_over for game in games),
        lengths=np.array([len(game.moves) for game in games]) - passes,
        passes=passes,
        margins=np.array([game.result for game in games if game.result is not None], int),
        solved=np.array([pair for pair in solved if None not in pair], int).reshape(-1, 2),
        openings=_openings(games),
        positions=np.bincount(number, minlength=NUMBERS),
        moved=np.bincount(number[~positions.last], minlength=NUMBERS),
        means=means,
        spreads=spreads,
    )


def _curves(positions: Positions, number: np.ndarray) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Means and standard deviations of ``CURVES`` by the number of moves made."""
    blacks, whites = positions.blacks, positions.whites
    moves, stable = np.zeros((2, len(blacks)), np.int64), np.zeros((2, len(blacks)), np.int64)
    count_board(blacks, whites, moves, stable)
    discs = [np.bitwise_count(board).astype(np.int64) for board in (blacks, whites)]
    everywhere, moving = np.ones(len(blacks), bool), ~positions.last
    values = {
        "moves": (np.where(positions.black_to_move, *moves), moving),
        "black_moves": (moves[0], moving),
        "white_moves": (moves[1], moving),
        "black_discs": (discs[0], everywhere),
        "white_discs": (discs[1], everywhere),
        "lead": (np.abs(discs[0] - discs[1]), everywhere),
        "black_stable": (stable[0], everywhere),
        "white_stable": (stable[1], everywhere),
    }
    means, spreads = {}, {}
    for name, (value, counted) in values.items():
        places, value = number[counted], value[counted].astype(float)
        count = np.bincount(places, minlength=NUMBERS).astype(float)
        count[count == 0] = np.nan
        means[name] = np.bincount(places, value, NUMBERS) / count
        squares = np.bincount(places, value * value, NUMBERS) / count
        spreads[name] = np.sqrt(np.maximum(squares - means[name] ** 2, 0))
    return means, spreads


def _openings(games: Sequence[Game]) -> dict[str, int]:
    """Games from the usual start by white's first move, up to symmetry."""
    found = dict.fromkeys(OPENINGS.values(), 0)
    start, first = Position.start(), parse_move("f5")
    for game in games:
        if game.start == start and len(game.moves) > 1:
            # Two symmetries take black's first move to f5: one takes the answer to one of the names.
            images = {SYMMETRIES[k][game.moves[1]] for k in range(8) if _keeps_start(k, game.moves[0], first)}
            found[next(name for square, name in OPENINGS.items() if parse_move(square) in images)] += 1
    return found


@cache
def _keeps_start(k: int, move: int, first: int) -> bool:
    """Whether a symmetry leaves the start as it is and takes a move to another."""
    return SYMMETRIES[k][move] == first and Position.start().transform(k) == Position.start()
