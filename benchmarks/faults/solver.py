"""The solver against plain negamax: every line played out, or alpha-beta and nothing more where that takes too long."""

from __future__ import annotations

import random

import numba
import numpy as np

from benchmarks.faults.trials import Trial, Wrong
from othello_nn.engine import Engine, Options
from othello_nn.game.position import Position

ONE = np.uint64(1)
MOST_EMPTIES, PLAIN_EMPTIES = 10, 7


@numba.njit
def _flips(mover, opponent, square):
    flips = np.uint64(0)
    for row_step in range(-1, 2):
        for column_step in range(-1, 2):
            row, column = square // 8 + row_step, square % 8 + column_step
            run = np.uint64(0)
            while 0 <= row < 8 and 0 <= column < 8:
                bit = ONE << np.uint64(8 * row + column)
                if not opponent & bit:
                    if mover & bit:
                        flips |= run
                    break
                run |= bit
                row, column = row + row_step, column + column_step
    return flips


@numba.njit
def _count(mask):
    count = 0
    while mask:
        mask &= mask - ONE
        count += 1
    return count


@numba.njit  # not cached: Numba's cache is unsound for recursion
def negamax(mover, opponent, alpha, beta, prune, passed):
    """Score of best play, in discs, empties to the winner. Without ``prune`` every line is played out; with it this is
    alpha-beta and nothing more."""
    best = np.int64(-99)
    for square in range(64):
        bit = ONE << np.uint64(square)
        flips = np.uint64(0) if (mover | opponent) & bit else _flips(mover, opponent, square)
        if flips:
            low = max(alpha, best)
            best = max(best, -negamax(opponent ^ flips, mover | flips | bit, -beta, -low, prune, False))
            if prune and best >= beta:
                return best
    if best > -99:
        return best
    if not passed:
        return -negamax(opponent, mover, -beta, -alpha, prune, True)
    mine, theirs = _count(mover), _count(opponent)
    if mine == theirs:
        return np.int64(0)
    return np.int64(64 - 2 * theirs if mine > theirs else 2 * mine - 64)


@numba.njit
def _played(mover, opponent, empties, chance):
    """The position that random moves lead to, with so many empties left, or more if the game is over before."""
    passed = False
    while 64 - _count(mover | opponent) > empties:
        count, chosen, chosen_flips = 0, 0, np.uint64(0)
        for square in range(64):
            bit = ONE << np.uint64(square)
            flips = np.uint64(0) if (mover | opponent) & bit else _flips(mover, opponent, square)
            if flips:
                count += 1
                chance = chance * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
                if (chance >> np.uint64(33)) % np.uint64(count) == 0:  # each legal move is as likely as the others
                    chosen, chosen_flips = square, flips
        if count:
            mover, opponent = opponent ^ chosen_flips, mover | chosen_flips | ONE << np.uint64(chosen)
        elif passed:
            break
        else:
            mover, opponent = opponent, mover
        passed = count == 0
    return mover, opponent


def true_score(position: Position) -> int:
    prune = position.empties > PLAIN_EMPTIES
    return int(negamax(np.uint64(position.mover), np.uint64(position.opponent), -64, 64, prune, False))


def ending(rng: random.Random) -> Position:
    """From a random game, or a board filled at random: those are full of passes, early ends and wipe-outs."""
    empties = rng.randint(0, MOST_EMPTIES)
    if rng.random() < 0.5:
        squares = rng.sample(range(64), 64 - empties)
        share = rng.choice((0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98))
        mover = sum(1 << square for square in squares if rng.random() < share)
        return Position(mover, sum(1 << square for square in squares) ^ mover)
    start = Position.start()
    played = _played(np.uint64(start.mover), np.uint64(start.opponent), empties, np.uint64(rng.getrandbits(64)))
    position = Position(*(int(mask) for mask in played))
    return position if position.empties <= MOST_EMPTIES else ending(rng)


def solver() -> Trial:
    engine = Engine(options=Options(table_mb=1))

    def trial(rng: random.Random) -> bool:
        position = ending(rng)
        wanted, found = true_score(position), engine.solve(position)
        if not found.exact or found.score != wanted:
            raise Wrong(f"{position.to_text()} is worth {wanted}, not {found.score}")
        line = position.replay(found.pv) if found.pv else position
        if not line.is_over or (line.black_score() if position.black_to_move else -line.black_score()) != wanted:
            raise Wrong(f"{position.to_text()}: its line does not lead to {wanted}")
        won = engine.solve(position, wld=True)
        if won.score != np.sign(wanted):
            raise Wrong(f"{position.to_text()}: win, draw or loss is {np.sign(wanted)}, not {won.score}")
        return True

    return trial
