"""Games for the fit of ``keyano``: many different ones, with what every position of them is worth.

A game begins with random moves, goes on with random ones now and then, and from some point on a good player makes all
moves, by a shallow search. Only positions after the last random move are kept: chance says nothing about those before.
Where few squares are left a position is solved; the positions before have the score of the first one that was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import int64, uint64

from othello_nn.engine.endgame import end_node
from othello_nn.engine.midgame import INFINITY, root
from othello_nn.fit.labels import Labelled, label_workspace
from othello_nn.kernels.bits import legal_of, lowest_square
from othello_nn.kernels.board import ONE, START, ZERO, final_score, play
from othello_nn.kernels.chance import below, chance_move, draw_noise, next_random, noise_chances, random_stream
from othello_nn.kernels.jit import kernel
from othello_nn.kernels.parallel import parts_of

SOLVED_EMPTIES = 12
FEWEST_RANDOM, MOST_RANDOM = 2, 12  # moves that open a game
LAST_NOISE = 14  # empties: from here on no move is random
ROWS = 72  # positions of a game that are kept; 60 moves and as many passes as there ever are
UNKNOWN = 127  # the label of a row that is not used
CHUNK = 1 << 9  # games played with one transposition table
TABLE_MB = 1.0


@kernel()
def play_labelled(ev, workspace, seed, first, depth, squares, values, signs, movers, opponents, labels):
    """Fill ``[games, ROWS]`` with the positions of games number ``first`` and on, and their worth to the mover.

    ``squares``, ``values`` and ``signs`` are room to work in: the moves of a position, and whose turn each row was.
    """
    for game in range(movers.shape[0]):
        state = next_random(random_stream(seed, uint64(first + game)))
        opening = int64(60 - FEWEST_RANDOM) - below(state, int64(MOST_RANDOM - FEWEST_RANDOM + 1))
        noisy, noise, state = draw_noise(opening, int64(LAST_NOISE), state)
        mover, opponent = START
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
            square, state = chance_move(moves, noise_chances(empties, opening, noisy, noise), state)
            if square >= int64(0):
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
            mover, opponent = play(mover, opponent, square)
            sign, empties = -sign, empties - int64(1)
        if result == int64(UNKNOWN):
            result = sign * final_score(mover, opponent)
        # The last two rows are those of a game that is over, where there is nothing to judge.
        for i in range(row):
            worth = result if labels[game, i] == UNKNOWN else int64(labels[game, i])
            labels[game, i] = worth * signs[i] if kept <= i < row - int64(2) else int64(UNKNOWN)


def play_games(
    leaf: Any, games: int, seed: int, depth: int, on_progress: Callable[[int], object] | None = None
) -> Labelled:
    """The positions of so many games by a player with this leaf evaluator, in order, with labels in int8.

    ``on_progress`` counts games.
    """
    parts: list[Labelled] = []
    room = np.zeros(64, np.int64), np.zeros(64, np.int64), np.zeros(ROWS, np.int64)
    for part in parts_of(games, CHUNK):
        rows = part.stop - part.start, ROWS
        movers, opponents = np.zeros(rows, np.uint64), np.zeros(rows, np.uint64)
        labels = np.full(rows, UNKNOWN, np.int8)
        workspace = label_workspace(TABLE_MB)
        numbers = np.uint64(seed), part.start, depth
        play_labelled(leaf, workspace.address, *numbers, *room, movers, opponents, labels)
        parts.append(Labelled(movers, opponents, labels).pick(labels != UNKNOWN))
        if on_progress is not None:
            on_progress(part.stop)
    return Labelled.joined(parts)
