"""Games between equals who search, from openings of all kinds: what a net can learn values from.

A game begins with random plies, goes on at 1-ply with some share of random moves down to some number of empties
(``kernels/chance.draw_noise``: each game has its own share and number), so that positions of all kinds and stages come
up. From there on it is played without chance: every move is the best of a search, and from ``solve`` empties the best
there is. These positions are kept, each with its search's value and the game's result, which is what they are worth
between players of this strength. ``labels`` mixes the two.

Which games are played depends on the seed and their numbers only, not on threads or portions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import float32, int64, uint64

from othello_nn.engine.leaf.compile import Evaluator, leaf_pair
from othello_nn.engine.midgame import INFINITY, root
from othello_nn.engine.oneply import new_scratch, one_ply
from othello_nn.engine.probcut import MIDGAME_LEVEL, SELECTIVITY_LEVELS, ProbCut
from othello_nn.engine.score import SCORE_DISC
from othello_nn.engine.ttable import TranspositionTable
from othello_nn.engine.workspace import EVERYTHING, PROBCUT, PROBCUT_CUTS, PROBCUT_T, SELECTIVITY, SWITCHES, Workspace
from othello_nn.errors import OthelloError
from othello_nn.kernels.bits import lowest_square, store_i64
from othello_nn.kernels.board import ONE, START, ZERO, final_score, play, side_to_move
from othello_nn.kernels.chance import below, chance_move, draw_noise, next_random, noise_chances, random_stream
from othello_nn.kernels.jit import kernel
from othello_nn.kernels.parallel import in_threads, parts_of
from othello_nn.learn.data.store import EXACT, PASSED, RECORD

MOST_MOVES = 34
"""Moves that a position can have, with room to spare."""
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
def play_searched(ev, workspace, scratch, seed, first, games, opening_plies, latest, depth, solve, level, records):
    """Write the records of games number ``first`` and on; how many there are. ``records`` has room for 60 a game.

    ``latest``: chance ends with at least so many empties left.
    """
    moves, values = np.zeros(MOST_MOVES, np.int64), np.zeros(MOST_MOVES, np.int64)
    written = int64(0)
    for number in range(games):
        state = next_random(random_stream(seed, uint64(first + number)))
        mover, opponent = START
        empties = int64(60)
        opening = int64(60) - below(state, int64(opening_plies + 1))
        noisy, noise, state = draw_noise(opening, latest, state)
        begin, score, is_known = written, int64(0), False
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
                count = int64(0)
                while legal != ZERO:
                    moves[count] = lowest_square(legal)
                    legal &= legal - ONE
                    count += int64(1)
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
            mover, opponent = play(mover, opponent, square)
            empties -= int64(1)
            score = -score
        # From the last record back: its mover is the side to move now, unless that side passed.
        margin = final_score(mover, opponent)
        for row in range(written - 1, begin - 1, -1):
            margin = margin if records[row].flags & PASSED else -margin
            records[row].margin = margin
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


def searched_games(evaluator: Evaluator, how: Play, seed: int, first: int, games: int, threads: int = 1) -> np.ndarray:
    """The records of games number ``first`` and on, in order."""
    as_black, as_white = leaf_pair(evaluator)
    if as_black is not as_white:
        raise OthelloError("searched games are for nets that do not look at the colour to move")
    fitted = getattr(evaluator, "probcut", None)
    rows = None if fitted is None else ProbCut(fitted).rows()

    def work(part: slice) -> np.ndarray:
        # A table of its own for each part: what a search finds in it must not hang on which thread came first.
        workspace = Workspace(TranspositionTable(TABLE_MB), np.zeros(8, np.uint8))
        workspace[SWITCHES] = EVERYTHING if rows is not None else EVERYTHING & ~PROBCUT_CUTS
        workspace[PROBCUT] = 0 if rows is None else rows.ctypes.data
        workspace[PROBCUT_T] = round(1024 * (SELECTIVITY_LEVELS[MIDGAME_LEVEL] or 0))
        level = 0 if rows is None else MIDGAME_LEVEL
        count, scratch = part.stop - part.start, new_scratch()
        records = np.zeros(60 * count, RECORD)
        numbers = np.uint64(seed), first + part.start, count
        limits = how.opening_plies, how.latest, how.depth, how.solve, level
        written = play_searched(as_black, workspace.address, scratch.ctypes.data, *numbers, *limits, records)
        return records[:written]

    return np.concatenate(in_threads(work, parts_of(games, TOGETHER), threads))


@kernel()
def mixed_labels(movers, searched, margins, flags, games, lam, labels):
    """Write λ's mixture for each record, in discs; records of a game stand together, in their order."""
    target = float32(0)
    for row in range(movers.size - 1, -1, -1):
        if row == movers.size - 1 or games[row] != games[row + 1]:
            target = float32(margins[row])
        elif flags[row] & PASSED == 0:
            target = -target
        target = lam * target + (float32(1) - lam) * float32(searched[row]) / float32(SCORE_DISC)
        labels[row] = target


def labels(records: np.ndarray, lam: float) -> np.ndarray:
    """What each position is worth to its mover, float32 in discs: λ = 1 is the game's result, 0 the search's value; in
    between, each position's search has a part in those before it, as in TD(λ)."""
    found = np.zeros(len(records), np.float32)
    fields = (np.ascontiguousarray(records[name]) for name in ("mover", "searched", "margin", "flags", "game"))
    mixed_labels(*fields, np.float32(lam), found)
    return found
