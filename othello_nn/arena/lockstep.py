"""Many games at once, move by move: whoever is to move is asked about all its positions together.

    score_in_step(CompiledSide(evaluator), CompiledSide(other), random_starts(100, 7, seed=1))

``league.py`` compiles a kernel for every pair of evaluators. Here each side has a kernel of its own, so that a new kind
of net costs one compilation to meet any number of opponents; and a side may be anything that names moves for positions,
such as a net that does not compile. A side looks one ply ahead, or two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numba import int64, uint64

from othello_nn.arena.league import random_opening
from othello_nn.engine.leaf.compile import leaf_pair
from othello_nn.engine.leaf.door import leaf_begin, leaf_child, leaf_score
from othello_nn.engine.leaf.lanes import FEATURE_BYTES
from othello_nn.engine.oneply import evaluated_move, new_scratch
from othello_nn.engine.score import SCORE_DISC
from othello_nn.game.position import Position
from othello_nn.kernels.bits import flips_of, legal_of, lowest_square, popcount
from othello_nn.kernels.board import ONE, ZERO, after, final_score, play, side_to_move
from othello_nn.kernels.chance import below, next_random, random_stream
from othello_nn.kernels.jit import kernel


@kernel()
def worst_reply(ev, scratch, mover, opponent, empties):
    """What a position is worth to the side that is *not* to move, after the reply that is best for the other one."""
    there = scratch + int64(FEATURE_BYTES)
    replies = legal_of(mover, opponent)
    leaf_begin(ev, scratch, mover, opponent)
    if replies == ZERO:
        if legal_of(opponent, mover) == ZERO:
            return int64(SCORE_DISC) * final_score(opponent, mover)
        leaf_begin(ev, there, opponent, mover)
        return int64(leaf_score(ev, there, opponent, mover, int64(empties)))
    worst = int64(1 << 62)
    while replies != ZERO:
        square = lowest_square(replies)
        replies &= replies - ONE
        turned = flips_of(mover, opponent, square)
        next_mover, next_opponent = after(mover, opponent, square, turned)
        if legal_of(next_mover, next_opponent) | legal_of(next_opponent, next_mover) == ZERO:
            value = int64(SCORE_DISC) * final_score(next_mover, next_opponent)
        else:
            leaf_child(ev, there, scratch, square, turned)
            value = int64(leaf_score(ev, there, next_mover, next_opponent, int64(empties - int64(1))))
        worst = min(worst, value)
    return worst


@kernel()
def two_ply_move(ev, scratch, mover, opponent, moves, empties, state):
    """The best of ``moves`` by looking at each reply; among equals chance decides."""
    best, best_square, equals = int64(-1 << 62), int64(-1), int64(0)
    while moves != ZERO:
        square = lowest_square(moves)
        moves &= moves - ONE
        next_mover, next_opponent = play(mover, opponent, square)
        value = worst_reply(ev, scratch, next_mover, next_opponent, int64(empties - int64(1)))
        if value > best:
            best, best_square, equals = value, square, int64(1)
        elif value == best:
            equals += int64(1)
            state = next_random(state)
            if below(state, equals) == int64(0):
                best_square = square
    return best_square, state


@kernel()
def one_ply_moves(ev, scratch, movers, opponents, states, squares):
    """Fill ``squares`` [n] with a move for each position [n], all of which have one; ``states`` [n] go on."""
    for i in range(movers.size):
        moves = legal_of(movers[i], opponents[i])
        empties = int64(64) - popcount(movers[i] | opponents[i])
        chosen = evaluated_move(ev, scratch, movers[i], opponents[i], moves, empties, states[i], False)
        squares[i], states[i] = chosen


@kernel()
def two_ply_moves(ev, scratch, movers, opponents, states, squares):
    """``one_ply_moves`` at depth 2; apart from it, since evaluators take seconds to compile and few need both."""
    for i in range(movers.size):
        moves = legal_of(movers[i], opponents[i])
        empties = int64(64) - popcount(movers[i] | opponents[i])
        squares[i], states[i] = two_ply_move(ev, scratch, movers[i], opponents[i], moves, empties, states[i])


@kernel("void(uint64[::1], uint64[::1], boolean[::1], int64[::1], boolean[::1])")
def advance(movers, opponents, blacks, squares, over):
    """Play a square in each game that is not over, −1 for none, and let those pass that must. All arrays are [n]."""
    for i in range(movers.size):
        if over[i]:
            continue
        mover, opponent = movers[i], opponents[i]
        if squares[i] >= int64(0):
            mover, opponent = play(mover, opponent, squares[i])
            blacks[i] = not blacks[i]
        mover, opponent, moves, passed = side_to_move(mover, opponent)
        movers[i], opponents[i], over[i] = mover, opponent, moves == ZERO
        blacks[i] = blacks[i] != passed


class Side(Protocol):
    """Who names moves."""

    def squares(self, movers: np.ndarray, opponents: np.ndarray, black: bool, states: np.ndarray) -> np.ndarray:
        """int64 ``[n]``: a legal move in each position (uint64 ``[n]``), black's or white's turn in all of them.
        ``states`` ``[n]`` are random streams, to be moved on where chance decides."""


class CompiledSide:
    """A side with an evaluator of the engine, which looks ``plies`` ahead: one or two."""

    def __init__(self, evaluator: Any, plies: int = 1):
        self.plies = plies
        self.evaluator = evaluator  # a leaf holds addresses: what is there must live as long
        leaves = leaf_pair(evaluator)
        # A net for each colour to move: after two plies that is the side's own.
        self._leaves = leaves if plies == 1 else leaves[::-1]

    def squares(self, movers: np.ndarray, opponents: np.ndarray, black: bool, states: np.ndarray) -> np.ndarray:
        found, scratch = np.empty(len(movers), np.int64), new_scratch()
        leaf = self._leaves[0 if black else 1]
        choose = one_ply_moves if self.plies == 1 else two_ply_moves
        choose(leaf, scratch.ctypes.data, movers, opponents, states, found)
        return found


@dataclass(eq=False)
class Boards:
    """Positions: the mover's and the opponent's discs, uint64, and whether black is to move, bool; all ``[n]``."""

    movers: np.ndarray
    opponents: np.ndarray
    blacks: np.ndarray

    @classmethod
    def of(cls, positions: Sequence[Position]) -> Boards:
        movers = np.array([each.mover for each in positions], np.uint64)
        opponents = np.array([each.opponent for each in positions], np.uint64)
        return cls(movers, opponents, np.array([each.black_to_move for each in positions], bool))

    def where(self, rows: np.ndarray) -> Boards:
        return Boards(self.movers[rows], self.opponents[rows], self.blacks[rows])


def random_starts(count: int, plies: int, seed: int) -> Boards:
    """So many openings of random plies: those of the League with this seed."""
    found = [random_opening(np.uint64(seed % 2**64), number, plies) for number in range(count)]
    movers, opponents, blacks = zip(*found, strict=True)
    return Boards(np.array(movers, np.uint64), np.array(opponents, np.uint64), np.array(blacks, bool))


@dataclass(frozen=True, eq=False)
class Played:
    """Games in their order."""

    margins: np.ndarray
    """int64 ``[games]``: black's."""
    path: list[tuple[np.ndarray, Boards]]
    """For each move the numbers of the games that were not over, and their positions, if they were kept."""
    ends: Boards
    """The last positions ``[games]``."""


def play_games(black: Side, white: Side, starts: Boards, seed: int = 0, keep: bool = False, first: int = 0) -> Played:
    """A game from each start; ``keep`` the positions. Chance comes from the seed and the game's number, from ``first``
    on."""
    movers, opponents, blacks = starts.movers.copy(), starts.opponents.copy(), starts.blacks.copy()
    count = len(movers)
    states = np.array([random_stream(uint64(seed % 2**64), uint64(first + i)) for i in range(count)], np.uint64)
    squares, over = np.full(count, -1, np.int64), np.zeros(count, bool)
    path: list[tuple[np.ndarray, Boards]] = []
    advance(movers, opponents, blacks, squares, over)
    while not over.all():
        if keep:
            going = np.flatnonzero(~over)
            path.append((going, Boards(movers, opponents, blacks).where(going)))
        for side, colour in ((black, True), (white, False)):
            rows = np.flatnonzero(~over & (blacks == colour))
            if len(rows):
                chance = states[rows]
                squares[rows] = side.squares(movers[rows], opponents[rows], colour, chance)
                states[rows] = chance
        advance(movers, opponents, blacks, squares, over)
    margins = np.array([final_score(mover, opponent) for mover, opponent in zip(movers, opponents, strict=True)])
    return Played(np.where(blacks, margins, -margins), path, Boards(movers, opponents, blacks))


def score_in_step(side: Side, other: Side, starts: Boards, seed: int = 0) -> float:
    """The score of ``side`` with both colours from each start: wins and half the draws."""
    as_black = play_games(side, other, starts, seed).margins
    as_white = -play_games(other, side, starts, seed, first=len(starts.movers)).margins
    return float((1 + np.sign(np.concatenate((as_black, as_white)))).mean() / 2)
