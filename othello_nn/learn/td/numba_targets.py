"""The targets of ``targets.py`` in compiled code: searches by a compiled net, solved endings, λ-returns of one game.

A leaf's value is within ±62 discs and in steps of 1/``SCORE_DISC``; that apart, these are the numbers of
``targets.py``.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from numba import float32, int64
from torch import Tensor

from othello_nn.engine.endgame import end_node
from othello_nn.engine.leaf.compile import Evaluator, leaf_pair
from othello_nn.engine.leaf.door import leaf_begin, leaf_child, leaf_score
from othello_nn.engine.leaf.lanes import FEATURE_BYTES
from othello_nn.engine.score import SCORE_DISC, SCORE_MAX
from othello_nn.engine.ttable import TranspositionTable
from othello_nn.engine.workspace import Workspace
from othello_nn.kernels.bits import flips_of, legal_of, lowest_square, popcount
from othello_nn.kernels.board import ONE, ZERO, after, final_score
from othello_nn.kernels.jit import kernel
from othello_nn.kernels.parallel import parts_of
from othello_nn.learn.td import targets
from othello_nn.learn.td.trajectory import Trajectory

WON = SCORE_MAX + 1
"""The score of a won game that counts no discs: more than any margin."""
INFINITY = WON + 1
SEARCH_CHUNK = 1 << 11  # rows a thread searches at a time
TABLE_MB = 4.0
"""Each solving thread's table: endings are small."""


@kernel("float32(float32, float32)")
def squashed(discs, scale):
    return float32(2) / (float32(1) + np.exp(-discs / scale)) - float32(1)


@kernel("float32(float32, float32, boolean)")
def outcome(margin, scale, win):
    """NaN stays NaN."""
    return np.sign(margin) if win else squashed(margin, scale)


@kernel("void(float32[::1], float32, boolean)")
def _to_outcomes(margins, scale, win):
    for i in range(margins.size):
        margins[i] = outcome(margins[i], scale, win)


def outcomes(margins: np.ndarray, scale: float, win: bool) -> np.ndarray:
    """Final scores in discs, of any shape, as values: float32, C-contiguous. NaN stays NaN."""
    values = np.array(margins, np.float32, order="C")
    _to_outcomes(values.reshape(-1), np.float32(scale), win)
    return values


# --- λ-returns -------------------------------------------------------------------------------------------------------


choose = kernel(cached=False)(targets.choose)
row_target = kernel(cached=False)(targets.row_target)


@kernel()
def returns_of(values, sign, explored, final, lam, searched, exact, returns):
    """λ-returns of one game with as many rows as ``values``; ``searched`` and ``exact`` are values, NaN if unknown."""
    last = int64(values.size - 1)
    value, target, next_explored = float32(0), float32(0), False
    for t in range(last, int64(-1), int64(-1)):
        next_value, next_target = float32(sign[t]) * value, float32(sign[t]) * target
        value = values[t]
        target = row_target(
            choose,
            lam,
            float32(1) - lam,
            value,
            next_value,
            next_target,
            next_explored,
            searched[t],
            t == last,
            final,
            exact[t],
        )
        returns[t], next_explored = target, explored[t]


# --- search ----------------------------------------------------------------------------------------------------------


@kernel()
def negamax(ev, features, mover, opponent, empties, plies, alpha, beta, win):
    """The score ``targets.search_value`` stands for, within a window. ``features`` are those of the position."""
    moves = legal_of(mover, opponent)
    if moves == ZERO and legal_of(opponent, mover) == ZERO:
        margin = final_score(mover, opponent)
        return np.sign(margin) * int64(WON) if win else margin * int64(SCORE_DISC)
    if plies == int64(0):
        return leaf_score(ev, features, mover, opponent, empties)
    there = features + int64(FEATURE_BYTES)
    plies = int64(plies - 1)
    if moves == ZERO:
        leaf_begin(ev, there, opponent, mover)
        return -negamax(ev, there, opponent, mover, empties, plies, int64(-beta), int64(-alpha), win)
    best = int64(-INFINITY)
    empties = int64(empties - 1)
    while moves != ZERO and best < beta:
        square = lowest_square(moves)
        moves &= moves - ONE
        turned = flips_of(mover, opponent, square)
        leaf_child(ev, there, features, square, turned)
        boards = after(mover, opponent, square, turned)
        low = int64(max(alpha, best))
        best = max(best, -negamax(ev, there, boards[0], boards[1], empties, plies, int64(-beta), int64(-low), win))
    return best


@kernel()
def search_rows(ev, scratch, movers, opponents, plies, exact_empties, scale, win, values):
    """Write the value of a search of each position with more than ``exact_empties`` empty squares."""
    for i in range(movers.size):
        mover, opponent = movers[i], opponents[i]
        empties = int64(64) - popcount(mover | opponent)
        if empties > exact_empties:
            leaf_begin(ev, scratch, mover, opponent)
            score = negamax(ev, scratch, mover, opponent, empties, plies, int64(-INFINITY), int64(INFINITY), win)
            if abs(score) == int64(WON):
                values[i] = float32(np.sign(score))
            else:
                values[i] = squashed(float32(score) / float32(SCORE_DISC), scale)


def search_values(
    net: Evaluator,
    games: Trajectory,
    *,
    plies: int,
    scale: float,
    kind: str = "margin",
    exact_empties: int = 0,
    threads: int = 1,
) -> Tensor:
    """``targets.search_value`` of each row ``[T, B]`` float32; NaN with at most ``exact_empties`` empty squares left.

    On ``threads`` cores of the host, where the games must be.
    """
    movers, opponents, black, used = (
        np.ascontiguousarray(field.T.numpy()).reshape(-1)
        for field in (games.mover, games.opponent, games.black_to_move, games.mask)
    )
    values = np.full(movers.shape, np.nan, np.float32)
    # After an even number of plies the row's own colour is to move: the one that a coloured evaluator's owner is not.
    on_black, on_white = leaf_pair(net)[:: -1 if plies % 2 == 0 else 1]
    groups = [(on_black, used)] if on_black is on_white else [(on_black, used & black), (on_white, used & ~black)]
    for leaf, chosen in groups:
        index = np.flatnonzero(chosen)
        found = np.full(len(index), np.nan, np.float32)

        def work(part: slice, leaf=leaf, index=index, found=found) -> None:
            scratch = np.zeros((plies + 1) * FEATURE_BYTES // 8, np.int64)
            boards = (board[index[part]].view(np.uint64) for board in (movers, opponents))
            how = plies, exact_empties, np.float32(scale), kind == "win"
            search_rows(leaf, scratch.ctypes.data, *boards, *how, found[part])

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, parts_of(len(index), SEARCH_CHUNK)))
        values[index] = found
    return torch.from_numpy(values.reshape(games.mover.T.shape)).T


# --- exact endings ---------------------------------------------------------------------------------------------------


@kernel("void(uint64[::1], uint64[::1], int64, float32[::1])")
def _solve_all(movers, opponents, workspace, margins):
    for i in range(movers.size):
        empties = int64(64) - popcount(movers[i] | opponents[i])
        margins[i] = float32(end_node(movers[i], opponents[i], int64(-64), int64(64), empties, workspace))


def exact_margins(mover: Tensor, opponent: Tensor, max_empties: int, threads: int = 1) -> Tensor:
    """The final margin for the mover with best play from here on, in discs; NaN with more than ``max_empties`` left.

    Boards of any shape give float32 of the same shape. The work is done by the endgame solver on ``threads`` cores of
    the host, where the boards must be. Equal positions are solved once.
    """
    boards = np.stack([board.numpy().reshape(-1).view(np.uint64) for board in (mover, opponent)])
    empties = 64 - np.bitwise_count(boards[0] | boards[1]).astype(np.int64)
    margins = np.full(empties.shape, np.nan, np.float32)
    late = np.flatnonzero(empties <= max_empties)
    if len(late):
        order = late[np.lexsort(boards[:, late])]
        changes = (boards[:, order[1:]] != boards[:, order[:-1]]).any(0)
        first = np.concatenate(([True], changes))
        margins[order] = _solved(boards[:, order[first]], threads)[np.cumsum(first) - 1]
    return torch.from_numpy(margins).reshape(mover.shape)


def _solved(boards: np.ndarray, threads: int) -> np.ndarray:
    """The margins of distinct positions ``[2, N]``, shared out among threads like cards, which evens out their work."""
    margins = np.empty(boards.shape[1], np.float32)

    def work(thread: int) -> None:
        workspace = Workspace(TranspositionTable(TABLE_MB), np.zeros(8, np.uint8))
        movers, opponents = np.ascontiguousarray(boards[:, thread::threads])
        part = np.empty(len(movers), np.float32)
        _solve_all(movers, opponents, workspace.address, part)
        margins[thread::threads] = part

    threads = max(1, min(threads, boards.shape[1]))
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))
    return margins
