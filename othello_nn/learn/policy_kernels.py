"""Games of a policy against a fixed opponent, and the gradient of its score, compiled. Read ``policy.py`` first.

The policy's value of a move is minus the sum of its tables at the position that the move leads to, seen by the side
that is to move there, as everywhere in the engine. Of a position's moves only differences count, so that each move
needs no more than the lookups which it changes: some twenty of all-2's 210.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import int64, uint64

from othello_nn.engine.leaf.shapes import Shapes
from othello_nn.engine.oneply import evaluated_move
from othello_nn.kernels.bits import flips_of, lowest_square, popcount
from othello_nn.kernels.board import ONE, START, ZERO, final_score, play, side_to_move
from othello_nn.kernels.chance import chance_move, next_random, random_stream
from othello_nn.kernels.jit import kernel

MOST_TURNS = 64
"""Of one side in a game: more than there are."""
MOST_MOVES = 40
"""Of a position: more than have ever been found."""
POINTS, SQUARED, ERROR, TURNS, ENTROPY, CHOICES = range(6)
"""The statistics, all sums: points won; squares of the advantages and of the critic's errors, over turns; turns; the
entropy of choices, in nats; choices."""
STATISTICS = 6


class Lookups(NamedTuple):
    """Where tuples lie on the board, for kernels."""

    origins: np.ndarray
    """``[lookups]`` int32: the cell of an empty board."""
    starts: np.ndarray
    """``[65]`` int32: where each square's part of the next two begins."""
    lookup: np.ndarray
    """int32: the lookups that a square is part of."""
    power: np.ndarray
    """int32: what a digit of the square is worth there."""

    @classmethod
    def of(cls, shapes: Shapes) -> Lookups:
        touched: list[list[tuple[int, int]]] = [[] for _ in range(64)]
        for number, placement in enumerate(shapes.placements):
            for digit, square in enumerate(placement.squares):
                touched[square].append((number, 3**digit))
        flat = np.array([pair for pairs in touched for pair in pairs], np.int32).reshape(-1, 2)
        starts = np.cumsum([0, *map(len, touched)]).astype(np.int32)
        origins = [shapes.table_starts[p.table] + (3 ** len(p.squares) - 1) // 2 for p in shapes.placements]
        return cls(np.array(origins, np.int32), starts, flat[:, 0].copy(), flat[:, 1].copy())


class Work(NamedTuple):
    """Memory for one thread."""

    here: np.ndarray
    """``[lookups]`` int32: the cells of the position."""
    there: np.ndarray
    """``[lookups]`` int32: those after a move, where they differ."""
    stamps: np.ndarray
    """``[lookups]`` int64: the last move that changed a lookup."""
    clock: np.ndarray
    """``[1]`` int64."""
    old: np.ndarray
    """``[moves, lookups]`` int32: the cells that a move changes …"""
    new: np.ndarray
    """… and what they become."""
    changed: np.ndarray
    """``[moves]`` int64: how many."""
    chances: np.ndarray
    """``[moves]``: the policy's probabilities."""
    squares: np.ndarray
    """``[moves]`` int64."""
    scores: np.ndarray
    """``[turns, cells]`` float32: the gradients of the log-probabilities of what was chosen."""
    chosen: np.ndarray
    """``[turns]`` bool: whether the policy had a choice there, so that there is a gradient."""
    cells: np.ndarray
    """``[turns, critic's lookups]`` int32: the critic's cells."""
    stages: np.ndarray
    """``[turns]`` int64: its stages."""
    values: np.ndarray
    """``[turns + 1]``: what the critic says, and the result."""
    returns: np.ndarray
    """``[turns + 1]``: λ-returns."""

    @classmethod
    def of(cls, policy: Shapes, critic: Shapes) -> Work:
        lookups = len(policy.placements)
        return cls(
            np.zeros(lookups, np.int32), np.zeros(lookups, np.int32), np.zeros(lookups, np.int64),
            np.zeros(1, np.int64), np.zeros((MOST_MOVES, lookups), np.int32), np.zeros((MOST_MOVES, lookups), np.int32),
            np.zeros(MOST_MOVES, np.int64), np.zeros(MOST_MOVES), np.zeros(MOST_MOVES, np.int64),
            np.zeros((MOST_TURNS, policy.cells), np.float32), np.zeros(MOST_TURNS, np.bool_),
            np.zeros((MOST_TURNS, len(critic.placements)), np.int32), np.zeros(MOST_TURNS, np.int64),
            np.zeros(MOST_TURNS + 1), np.zeros(MOST_TURNS + 1),
        )  # fmt: skip


@kernel()
def write_cells(lookups, cells, twos, zeros):
    """The cells of a position in which ``twos`` are digit 2 and ``zeros`` digit 0."""
    cells[:] = lookups.origins
    for discs, sign in ((twos, int64(1)), (zeros, int64(-1))):
        while discs != ZERO:
            square = lowest_square(discs)
            discs &= discs - ONE
            for i in range(lookups.starts[square], lookups.starts[square + 1]):
                cells[lookups.lookup[i]] += np.int32(sign * lookups.power[i])


@kernel()
def weigh_move(lookups, weights, work, number, square, turned):
    """What a move changes about the sum of the tables; which cells, is kept under its ``number``."""
    work.clock[0] += int64(1)
    clock, count = work.clock[0], int64(0)
    touched = work.old[number]  # lookups at first, cells in the end
    squares = turned | (ONE << uint64(square))
    while squares != ZERO:
        at = lowest_square(squares)
        squares &= squares - ONE
        digits = int64(1) if at == square else int64(2)  # it was empty, or the opponent's
        for i in range(lookups.starts[at], lookups.starts[at + 1]):
            lookup = lookups.lookup[i]
            if work.stamps[lookup] != clock:
                work.stamps[lookup] = clock
                work.there[lookup] = work.here[lookup]
                touched[count] = lookup
                count += int64(1)
            work.there[lookup] -= np.int32(digits * lookups.power[i])
    total = 0.0
    for i in range(count):
        lookup = touched[i]
        old, new = work.here[lookup], work.there[lookup]
        work.old[number, i], work.new[number, i] = old, new
        total += weights[new] - weights[old]
    work.changed[number] = count
    return total


@kernel()
def choose(lookups, weights, work, mover, opponent, moves, score, state):
    """A move by the policy's probabilities, their entropy and the random state.

    ``score`` [cells] becomes the gradient of the chosen one's log-probability.
    """
    write_cells(lookups, work.here, opponent, mover)
    count, best = int64(0), -np.inf
    while moves != ZERO:
        square = lowest_square(moves)
        moves &= moves - ONE
        value = -weigh_move(lookups, weights, work, count, square, flips_of(mover, opponent, square))
        work.squares[count], work.chances[count] = square, value
        best = max(best, value)
        count += int64(1)
    total = 0.0
    for i in range(count):
        work.chances[i] = np.exp(work.chances[i] - best)
        total += work.chances[i]
    state = next_random(state)
    point = np.float64((state * np.uint64(0x2545F4914F6CDD1D)) >> np.uint64(11)) / 2.0**53 * total
    chosen, sum_before = int64(-1), 0.0
    entropy = 0.0
    for i in range(count):
        sum_before += work.chances[i]
        if chosen < int64(0) and (point < sum_before or i == count - 1):
            chosen = int64(i)
        work.chances[i] /= total
        entropy -= work.chances[i] * np.log(max(work.chances[i], 1e-300))
    score[:] = np.float32(0.0)
    for i in range(count):
        by = np.float32(work.chances[i] - (1.0 if i == chosen else 0.0))  # the value is minus the sum of the tables
        for j in range(work.changed[i]):
            score[work.new[i, j]] += by
            score[work.old[i, j]] -= by
    return work.squares[chosen], entropy, state


@kernel()
def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


@kernel()
def play_game(rival, scratch, lookups, weights, critic, tables, work, chances, is_first, state, statistics):
    """One game; the number of the policy's turns. Fills ``work``'s scores, cells and values."""
    mover, opponent = START
    mine, turns = is_first, int64(0)
    empties = int64(60)
    while True:
        mover, opponent, moves, passed = side_to_move(mover, opponent)
        mine = mine != passed
        if moves == ZERO:
            margin = final_score(mover, opponent)
            margin = margin if mine else -margin
            work.values[turns] = 1.0 if margin > int64(0) else 0.5 if margin == int64(0) else 0.0
            return turns
        square, state = chance_move(moves, chances, state)
        if mine:
            cells = work.cells[turns]
            write_cells(critic, cells, mover, opponent)
            work.stages[turns] = (empties - int64(1)) * tables.shape[0] // int64(60)
            table = tables[work.stages[turns]]
            total = table[0]
            for i in range(cells.size):
                total += table[cells[i]]
            work.values[turns] = sigmoid(total)
            work.chosen[turns] = square < int64(0) and popcount(moves) > int64(1)
            if work.chosen[turns]:
                square, entropy, state = choose(
                    lookups, weights, work, mover, opponent, moves, work.scores[turns], state
                )
                statistics[ENTROPY] += entropy
            elif square < int64(0):
                square = lowest_square(moves)
            turns += int64(1)
        elif square < int64(0):
            square, state = evaluated_move(rival, scratch, mover, opponent, moves, empties, state, False)
        mover, opponent = play(mover, opponent, square)
        mine = not mine
        empties -= int64(1)


@kernel()
def add_square(matrix, vector):
    """``matrix`` + ``vector`` · ``vector``ᵀ. Not left to BLAS, whose sums hang on its number of threads."""
    for i in range(vector.size):
        by = np.float64(vector[i])
        if by != 0.0:
            row = matrix[i]
            for j in range(vector.size):
                row[j] += by * vector[j]


@kernel()
def play_games(
    rival, scratch, lookups, weights, critic, tables, work, chances, lam, rate, seed, first, games, is_first, gradient,
    fisher, fisher_choices, statistics,
):  # fmt: skip
    """So many games: their policy gradient is added to ``gradient`` [cells], the first choices' part in Fisher's matrix
    to ``fisher`` [cells, cells], and the critic's ``tables`` learn game by game."""
    step = rate / np.float64(critic.origins.size)
    for game in range(games):
        number = first + int64(game)
        state = random_stream(seed, uint64(number))
        turns = play_game(rival, scratch, lookups, weights, critic, tables, work, chances, is_first, state, statistics)
        result = work.values[turns]
        work.returns[turns] = result
        statistics[POINTS] += result
        for turn in range(turns - 1, -1, -1):
            value = work.values[turn]
            returned = (1.0 - lam) * work.values[turn + 1] + lam * work.returns[turn + 1]
            work.returns[turn] = returned
            advantage = returned - value
            statistics[SQUARED] += advantage * advantage
            statistics[ERROR] += (result - value) ** 2
            if work.chosen[turn]:
                by, score = np.float32(advantage), work.scores[turn]
                for i in range(gradient.size):
                    gradient[i] += by * score[i]
                if statistics[CHOICES] < fisher_choices:
                    add_square(fisher, score)
                statistics[CHOICES] += 1.0
            by = step * advantage
            table, cells = tables[work.stages[turn]], work.cells[turn]
            table[0] += by
            for i in range(cells.size):
                table[cells[i]] += by
        statistics[TURNS] += np.float64(turns)
