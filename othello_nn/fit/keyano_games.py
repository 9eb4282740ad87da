"""Games for the fit of ``keyano``: many different ones, with what every position of them is worth.

A game begins with random moves, goes on with random ones now and then, and from some point on a good player makes all
moves, by a shallow search. Only positions after the last random move are kept: chance says nothing about those before.
Where few squares are left a position is solved; the positions before have the score of the first one that was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import int64, uint64

from othello_nn.engine.endgame import end_node
from othello_nn.engine.midgame import INFINITY, root
from othello_nn.engine.ttable import TranspositionTable
from othello_nn.engine.workspace import EVERYTHING, PROBCUT_CUTS, SWITCHES, Workspace
from othello_nn.game.rules import START_MOVER, START_OPPONENT
from othello_nn.kernels.bits import flips_of, legal_of, lowest_square, popcount
from othello_nn.kernels.board import ONE, ZERO, final_score, nth_square
from othello_nn.kernels.chance import below, next_random, random_stream
from othello_nn.kernels.jit import kernel

SOLVED_EMPTIES = 12
FEWEST_RANDOM, MOST_RANDOM = 2, 12  # moves that open a game
LAST_NOISE = 14  # empties: from here on no move is random
ROWS = 72  # positions of a game that are kept; 60 moves and as many passes as there ever are
UNKNOWN = 127  # the label of a row that is not used
CHUNK = 1 << 9  # games played with one transposition table
TABLE_MB = 1.0
_START = np.uint64(START_MOVER), np.uint64(START_OPPONENT)


@kernel()
def play_labelled(ev, workspace, seed, first, depth, squares, values, signs, movers, opponents, labels):
    """Fill ``[games, ROWS]`` with the positions of games number ``first`` and on, and their worth to the mover.

    ``squares``, ``values`` and ``signs`` are room to work in: the moves of a position, and whose turn each row was.
    """
    for game in range(movers.shape[0]):
        state = next_random(random_stream(seed, uint64(first + game)))
        opening = int64(60 - FEWEST_RANDOM) - below(state, int64(MOST_RANDOM - FEWEST_RANDOM + 1))
        state = next_random(state)
        noisy = opening - below(state, int64(opening - int64(LAST_NOISE) + int64(1)))
        state = next_random(state)
        noise = int64(8) << below(state, int64(5))  # of 256: 3, 6, 12, 25 or 50 %
        mover, opponent = _START
        sign, empties, row, kept = int64(1), int64(60), int64(0), int64(0)
        result = int64(UNKNOWN)  # for the side that began
        passed = False
        while True:
            if empties <= int64(SOLVED_EMPTIES):
                worth = sign * end_node(mover, opponent, int64(-64), int64(64), empties, workspace)
                if result == int64(UNKNOWN):
                    result = worth
            else:
                worth = int64(UNKNOWN)
            if row < int64(ROWS):
                movers[game, row], opponents[game, row], labels[game, row] = mover, opponent, worth
                signs[row] = sign
                row += int64(1)
            moves = legal_of(mover, opponent)
            if moves == ZERO:
                if passed:
                    break
                mover, opponent, sign, passed = opponent, mover, -sign, True
                continue
            passed = False
            state = next_random(state)
            if empties > opening or (empties > noisy and below(state, int64(256)) < noise):
                state = next_random(state)
                square = nth_square(moves, below(state, popcount(moves)))
                kept = row
            else:
                count = int64(0)
                while moves != ZERO:
                    squares[count] = lowest_square(moves)
                    moves &= moves - ONE
                    count += int64(1)
                root(
                    ev, workspace, mover, opponent, squares[:count], values[:count],
                    int64(-INFINITY), int64(INFINITY), depth,
                )  # fmt: skip
                square = squares[np.argmax(values[:count])]
            turned = flips_of(mover, opponent, square)
            mover, opponent, sign = opponent ^ turned, mover ^ turned ^ (ONE << uint64(square)), -sign
            empties -= int64(1)
        if result == int64(UNKNOWN):
            result = sign * final_score(mover, opponent)
        # The last two rows are those of a game that is over, where there is nothing to judge.
        for i in range(row):
            worth = result if labels[game, i] == UNKNOWN else int64(labels[game, i])
            labels[game, i] = worth * signs[i] if kept <= i < row - int64(2) else int64(UNKNOWN)


@dataclass(frozen=True, eq=False)
class Labelled:
    """Positions ``[N]`` uint64 with their worth to the mover, ``[N]`` int8 in discs."""

    movers: np.ndarray
    opponents: np.ndarray
    labels: np.ndarray


def play_games(
    leaf: Any, games: int, seed: int, depth: int, on_progress: Callable[[int], object] | None = None
) -> Labelled:
    """The positions of so many games by a player with this leaf evaluator, in order; ``on_progress`` counts games."""
    parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    room = np.zeros(64, np.int64), np.zeros(64, np.int64), np.zeros(ROWS, np.int64)
    for first in range(0, games, CHUNK):
        rows = min(CHUNK, games - first), ROWS
        movers, opponents = np.zeros(rows, np.uint64), np.zeros(rows, np.uint64)
        labels = np.full(rows, UNKNOWN, np.int8)
        workspace = Workspace(TranspositionTable(TABLE_MB), np.zeros(8, np.uint8))
        workspace[SWITCHES] = EVERYTHING & ~PROBCUT_CUTS
        numbers = np.uint64(seed), first, depth
        play_labelled(leaf, workspace.address, *numbers, *room, movers, opponents, labels)
        used = labels != UNKNOWN
        parts.append((movers[used], opponents[used], labels[used]))
        if on_progress is not None:
            on_progress(first + rows[0])
    return Labelled(*(np.concatenate(column) for column in zip(*parts, strict=True)))
