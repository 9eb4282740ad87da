"""Games between equals who search, from openings of all kinds: what a net can learn values from.

A game begins with random plies, goes on at 1-ply with some share of random moves down to some number of empties
(``kernels/chance.draw_noise``: each game has its own share and number), so that positions of all kinds and stages come
up. From there on it is played without chance: every move is the best of a search, and from ``solve`` empties the best
there is. These positions are kept, each with its search's value and the game's result, which is what they are worth
between players of this strength. ``labels.py`` mixes the two.

Beside some of them another is kept that was not played (``ASIDE``): the one that 1-ply would have chosen, or any. It
has no result, only a search's value. Games alone show a net the best moves; what it must tell them from is here.

Which games are played depends on the seed and their numbers only, not on threads or portions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import int64, uint64

from othello_nn.engine.leaf.compile import Evaluator, leaf_pair
from othello_nn.engine.midgame import INFINITY, root
from othello_nn.engine.oneply import new_scratch, one_ply
from othello_nn.engine.probcut import DEPTH_LEVEL, SELECTIVITY_LEVELS, ProbCut
from othello_nn.engine.score import SCORE_DISC
from othello_nn.engine.ttable import TranspositionTable
from othello_nn.engine.workspace import EVERYTHING, PROBCUT, PROBCUT_CUTS, PROBCUT_T, SELECTIVITY, SWITCHES, Workspace
from othello_nn.errors import OthelloError
from othello_nn.kernels.bits import legal_of, lowest_square, popcount, store_i64
from othello_nn.kernels.board import ONE, START, ZERO, final_score, play, side_to_move
from othello_nn.kernels.chance import (
    ALWAYS,
    below,
    chance_move,
    draw_noise,
    happens,
    next_random,
    noise_chances,
    random_move,
    random_stream,
)
from othello_nn.kernels.jit import kernel
from othello_nn.kernels.parallel import in_threads, parts_of
from othello_nn.learn.data.store import ASIDE, EXACT, PASSED, RECORD

MOST_MOVES = 34
"""Moves that a position can have, with room to spare."""
MOST_RECORDS = 120
"""Positions that a game can give: its own, and one beside each."""
TOGETHER = 16
"""Games that share a transposition table: few, so that all threads have work; not one, since clearing takes time."""
TABLE_MB = 2.0
LOOK_AHEAD = 6
"""Plies of the search that orders the moves before a proof."""


@kernel()
def sort_moves(moves, values, count):
    """Best first. An insertion sort: the order hardly changes from one depth to the next."""
    for i in range(1, count):
        move, value = moves[i], values[i]
        j = int64(i - 1)
        while j >= int64(0) and values[j] < value:
            moves[j + 1], values[j + 1] = moves[j], values[j]
            j -= int64(1)
        moves[j + 1], values[j + 1] = move, value


@kernel()
def best_by_search(ev, workspace, mover, opponent, moves, values, count, depth, level):
    """The value of a search of this depth; ``moves`` has the best one first. Deepens by two plies at a time."""
    store_i64(workspace, int64(SELECTIVITY), int64(level))
    score = int64(0)
    plies = int64(2 - (depth & int64(1)))
    while plies <= depth:
        values[:count] = -INFINITY
        low, high = int64(-INFINITY), int64(INFINITY)
        score = root(ev, workspace, mover, opponent, moves[:count], values[:count], low, high, plies)
        sort_moves(moves, values, count)
        plies += int64(2)
    return score


@kernel()
def best_by_proof(ev, workspace, mover, opponent, moves, values, count, empties, level, score, is_known):
    """The exact value; ``moves`` has a best move first. If the value ``is_known``, a move that has it is enough."""
    if not is_known and empties > int64(LOOK_AHEAD):
        best_by_search(ev, workspace, mover, opponent, moves, values, count, int64(LOOK_AHEAD), level)
    store_i64(workspace, int64(SELECTIVITY), int64(0))
    low, high = int64(-INFINITY), int64(INFINITY)
    if is_known:
        low, high = int64(score - 1), score
    values[:count] = -INFINITY
    score = root(ev, workspace, mover, opponent, moves[:count], values[:count], low, high, empties)
    sort_moves(moves, values, count)
    return score


@kernel()
def list_moves(legal, moves):
    """Write the squares of ``legal``; how many there are."""
    count = int64(0)
    while legal != ZERO:
        moves[count] = lowest_square(legal)
        legal &= legal - ONE
        count += int64(1)
    return count


@kernel()
def aside_move(ev, scratch, mover, opponent, legal, empties, state):
    """A move that a player might have made instead: 1-ply's choice or any, each half of the time."""
    at_random, state = happens(int64(ALWAYS // 2), state)
    if at_random:
        return random_move(legal, state)
    return one_ply(ev, scratch, mover, opponent, legal, empties, state)


@kernel()
def play_searched(
    ev, workspace, scratch, seed, first, games, opening_plies, latest, depth, solve, aside, level, records
):
    """Write the records of games number ``first`` and on; how many there are. ``records`` has room for ``MOST_RECORDS``
    a game: first those of the game, in its order, then those beside it.

    ``latest``: chance ends with at least so many empties left. ``aside``: chances of 2³² of a position beside one.
    """
    moves, values = np.zeros(MOST_MOVES, np.int64), np.zeros(MOST_MOVES, np.int64)
    movers, opponents = np.zeros(60, np.uint64), np.zeros(60, np.uint64)  # those beside the game
    written = int64(0)
    for number in range(games):
        state = next_random(random_stream(seed, uint64(first + number)))
        mover, opponent = START
        empties = int64(60)
        opening = int64(60) - below(state, int64(opening_plies + 1))
        noisy, noise, state = draw_noise(opening, latest, state)
        begin, asides, score, is_known = written, int64(0), int64(0), False
        beside = random_stream(~seed, uint64(first + number))  # games are the same with asides or without
        while True:
            mover, opponent, legal, passed = side_to_move(mover, opponent)
            if passed:
                score = -score
                if written > begin:
                    records[written - 1].flags |= PASSED
            if legal == ZERO:
                break
            square, state = chance_move(legal, noise_chances(empties, opening, noisy, noise), state)
            if square < int64(0) and empties > noisy:
                square, state = one_ply(ev, scratch, mover, opponent, legal, empties, state)
            if square < int64(0):
                count = list_moves(legal, moves)
                exact = empties <= solve
                if exact:
                    score = best_by_proof(
                        ev, workspace, mover, opponent, moves, values, count, empties, level, score, is_known
                    )
                    is_known = True
                else:
                    score = best_by_search(ev, workspace, mover, opponent, moves, values, count, depth, level)
                square = moves[0]
                record = records[written]
                record.mover, record.opponent, record.searched = mover, opponent, score
                record.flags, record.game = EXACT if exact else 0, first + number
                written += int64(1)
                is_aside, beside = happens(aside, beside)
                if is_aside:
                    other, beside = aside_move(ev, scratch, mover, opponent, legal, empties, beside)
                    if other != square:
                        movers[asides], opponents[asides] = play(mover, opponent, other)
                        asides += int64(1)
            mover, opponent = play(mover, opponent, square)
            empties -= int64(1)
            score = -score
        # From the last record back: its mover is the side to move now, unless that side passed.
        margin = final_score(mover, opponent)
        for row in range(written - 1, begin - 1, -1):
            margin = margin if records[row].flags & PASSED else -margin
            records[row].margin = margin
        for i in range(asides):
            mover, opponent = movers[i], opponents[i]
            legal = legal_of(mover, opponent)
            if legal == ZERO:
                continue
            count, empties = list_moves(legal, moves), int64(64) - popcount(mover | opponent)
            exact = empties <= solve
            if exact:
                score = best_by_proof(
                    ev, workspace, mover, opponent, moves, values, count, empties, level, int64(0), False
                )
            else:
                score = best_by_search(ev, workspace, mover, opponent, moves, values, count, depth, level)
            record = records[written]
            record.mover, record.opponent, record.searched = mover, opponent, score
            record.flags, record.game = ASIDE | (EXACT if exact else 0), first + number
            record.margin = score // int64(SCORE_DISC) if exact else 0
            written += int64(1)
    return written


@dataclass(frozen=True)
class Play:
    """How the games are played."""

    depth: int = 6
    solve: int = 14
    opening_plies: int = 12
    """Games begin with 0 to so many random plies."""
    latest: int = 14
    """With so many empties left, chance has ended in all games."""
    aside: float = 0.0
    """The share of positions beside which another is kept, one that was not played."""


def searched_games(evaluator: Evaluator, how: Play, seed: int, first: int, games: int, threads: int = 1) -> np.ndarray:
    """The records of games number ``first`` and on, in order."""
    as_black, as_white = leaf_pair(evaluator)
    if as_black is not as_white:
        raise OthelloError("searched games are for nets that do not look at the colour to move")
    fitted = getattr(evaluator, "probcut", None)
    rows = None if fitted is None else ProbCut.of(fitted).rows()

    def work(part: slice) -> np.ndarray:
        # A table of its own for each part: what a search finds in it must not hang on which thread came first.
        workspace = Workspace(TranspositionTable(TABLE_MB), np.zeros(8, np.uint8))
        workspace[SWITCHES] = EVERYTHING if rows is not None else EVERYTHING & ~PROBCUT_CUTS
        workspace[PROBCUT] = 0 if rows is None else rows.ctypes.data
        workspace[PROBCUT_T] = round(1024 * (SELECTIVITY_LEVELS[DEPTH_LEVEL] or 0))
        level = 0 if rows is None else DEPTH_LEVEL
        count, scratch = part.stop - part.start, new_scratch()
        records = np.zeros(MOST_RECORDS * count, RECORD)
        numbers = np.uint64(seed), first + part.start, count
        limits = how.opening_plies, how.latest, how.depth, how.solve, round(ALWAYS * how.aside), level
        written = play_searched(as_black, workspace.address, scratch.ctypes.data, *numbers, *limits, records)
        return records[:written]

    return np.concatenate(in_threads(work, parts_of(games, TOGETHER), threads))
