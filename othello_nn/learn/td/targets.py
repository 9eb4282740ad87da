"""What a net should have said: λ-returns of whole games, values of a 2-ply search, exact endings.

Read ``trajectory.py`` first. Values are for the mover, squashed into −1…1; ``outcome`` makes one of a final score. All
but ``exact_values``, which solves endings on the host's cores, stays on the device and never waits for it.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from numba import float32, int64
from torch import Tensor

from othello_nn.engine.endgame import end_node
from othello_nn.engine.ttable import TranspositionTable
from othello_nn.engine.workspace import Workspace
from othello_nn.errors import OthelloError, did_you_mean
from othello_nn.kernels.bits import popcount
from othello_nn.kernels.jit import kernel
from othello_nn.learn.td.batch import (
    CHILDREN_MOST,
    SMALL_BATCH,
    default_capacity,
    expand,
    final_score,
    legal_moves,
)
from othello_nn.learn.td.selfplay import Evaluator
from othello_nn.learn.td.trajectory import Trajectory

OUTCOMES = ("margin", "win")
GRANDCHILDREN_EACH = 256
"""Room for replies per position of a chunk of ``minimax2``; a mean over positions of all stages is below 100."""
TABLE_MB = 4.0
"""Each solving thread's table: endings are small."""


def outcome(margin: Tensor, scale: float, kind: str = "margin") -> Tensor:
    """A final score in discs as a value: ``margin`` squashes it, ``win`` keeps only who won. NaN stays NaN."""
    if kind not in OUTCOMES:
        raise OthelloError(f"unknown outcome {kind!r}; {did_you_mean(kind, OUTCOMES)}")
    margin = margin.to(torch.get_default_dtype()) if not margin.is_floating_point() else margin
    if kind == "margin":
        return torch.tanh(margin / (2 * scale))
    return torch.where(margin.isnan(), margin, margin.sign())


@torch.no_grad()
def lambda_returns(
    values: Tensor,
    trajectory: Trajectory,
    final: Tensor,
    lam: float,
    exact: Tensor | None = None,
    searched: Tensor | None = None,
) -> Tensor:
    """TD(λ)'s targets ``[T, B]`` for the rows of whole games, by one scan from the end; 0 beyond a game's end.

    ``values`` [T, B] is what the net says of the rows, ``final`` [B] the outcome for the mover of the last row, which
    is that row's target. Before it, the target mixes the next row's value (weight 1 − λ) and the next row's target
    (weight λ), seen from this side. If the next move was explored, it tells nothing about this row: the target is the
    row's own value, so the error is 0. Where ``exact`` [T, B] is not NaN, it is the target, and the rows before build
    on it. Where ``searched`` [T, B] is not NaN, this value of a search from the row itself stands for the next row's
    value, and after an explored move for the whole target, since a search does not ask what was played.
    """
    if not 0 <= lam <= 1:
        raise OthelloError(f"lam is {lam}; it must be from 0 to 1")
    mask, sign = trajectory.mask, trajectory.sign.to(values.dtype)
    last = trajectory.length - 1
    targets: list[Tensor] = []  # from the last row to the first
    for t in reversed(range(trajectory.rows)):
        target = final
        if targets:
            ahead = sign[t] * ((1 - lam) * values[t + 1] + lam * targets[-1])
            ahead = torch.where(trajectory.explored[t + 1], values[t], ahead)
            if searched is not None:
                far = torch.where(trajectory.explored[t + 1], searched[t], sign[t] * targets[-1])
                ahead = torch.where(searched[t].isnan(), ahead, (1 - lam) * searched[t] + lam * far)
            target = torch.where(last == t, final, ahead)
        if exact is not None:
            target = torch.where(exact[t].isnan(), target, exact[t])
        targets.append(torch.where(mask[t], target, 0))
    return torch.stack(targets[::-1])


# --- search ----------------------------------------------------------------------------------------------------------


@torch.no_grad()
def minimax2(
    net: Evaluator,
    mover: Tensor,
    opponent: Tensor,
    black_to_move: Tensor,
    *,
    scale: float,
    kind: str = "margin",
    chunk: int = 256,
) -> Tensor:
    """Values ``[N]`` of a full search two plies deep, for the mover; boards and colours are ``[N]``.

    A pass is a ply. A finished game, at any depth, counts its outcome, everything else at the end of the search what
    the net says. Positions are searched ``chunk`` at a time, which bounds the memory. A chunk takes every n-th position
    of the input, so that it has a share of all stages of the games if the input is in their order: should its replies
    still not fit, the positions left out get the net's own value, that is, no error to learn from.
    """
    (positions,) = mover.shape
    if chunk < 1:
        raise OthelloError(f"chunk is {chunk}; it must be at least 1")
    parts = -(-positions // chunk)
    values = [
        _search(net, mover[part::parts], opponent[part::parts], black_to_move[part::parts], scale, kind)
        for part in range(parts)
    ]
    if not values:
        return torch.zeros(0, device=mover.device)
    order = torch.cat([torch.arange(part, positions, parts, device=mover.device) for part in range(parts)])
    found = torch.cat(values)
    return torch.zeros_like(found).scatter_(0, order, found)


def _search(net: Evaluator, mover: Tensor, opponent: Tensor, black: Tensor, scale: float, kind: str) -> Tensor:
    small = len(mover) < SMALL_BATCH
    room = len(mover) * (CHILDREN_MOST * CHILDREN_MOST if small else GRANDCHILDREN_EACH)
    legal, passes, over = _situation(mover, opponent)
    children = expand(mover, opponent, legal, default_capacity(len(mover)), passes)
    # Slots that are not in use are empty boards, where no one can move: they have no children.
    child_legal, child_passes, child_over = _situation(children.mover, children.opponent)
    leaves = expand(children.mover, children.opponent, child_legal, room, child_passes)
    _, _, leaf_over = _situation(leaves.mover, leaves.opponent)
    leaf = net(leaves.mover, leaves.opponent, black[children.parent][leaves.parent])
    leaf = torch.where(leaf_over, outcome(final_score(leaves.mover, leaves.opponent), scale, kind).to(leaf.dtype), leaf)
    child = _best(-leaf, leaves.parent, leaves.valid, len(children.mover))
    child_end = outcome(final_score(children.mover, children.opponent), scale, kind).to(leaf.dtype)
    child = torch.where(child_over, child_end, child)
    value = _best(-child, children.parent, children.valid, len(mover))
    value = torch.where(over, outcome(final_score(mover, opponent), scale, kind).to(leaf.dtype), value)
    missing = torch.zeros_like(mover).scatter_reduce_(
        0, children.parent, (children.valid & ~leaves.complete).long(), "amax"
    )
    return torch.where(children.complete & (missing == 0), value, net(mover, opponent, black))


def _situation(mover: Tensor, opponent: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The legal moves, whether the mover must pass, whether the game is over."""
    legal, replies = legal_moves(torch.stack((mover, opponent)), torch.stack((opponent, mover)))
    return legal, (legal == 0) & (replies != 0), (legal | replies) == 0


def _best(values: Tensor, parent: Tensor, valid: Tensor, parents: int) -> Tensor:
    """``[parents]``: the greatest value of each parent's children, −∞ if it has none."""
    out = torch.full((parents,), -torch.inf, dtype=values.dtype, device=values.device)
    return out.scatter_reduce_(0, parent, torch.where(valid, values, -torch.inf), "amax")


# --- exact endings ---------------------------------------------------------------------------------------------------


@kernel("void(uint64[::1], uint64[::1], int64, float32[::1])")
def _solve_all(movers, opponents, workspace, margins):
    for i in range(movers.size):
        empties = int64(64) - popcount(movers[i] | opponents[i])
        margins[i] = float32(end_node(movers[i], opponents[i], int64(-64), int64(64), empties, workspace))


def exact_values(mover: Tensor, opponent: Tensor, max_empties: int, threads: int = 1) -> Tensor:
    """The final margin for the mover with best play from here on, in discs; NaN with more than ``max_empties`` left.

    Boards of any shape on any device give float32 of the same shape there. The work is done by the endgame solver on
    ``threads`` cores of the host, so this waits for the device. Equal positions are solved once.
    """
    boards = np.stack([board.cpu().numpy().reshape(-1).view(np.uint64) for board in (mover, opponent)])
    empties = 64 - np.bitwise_count(boards[0] | boards[1]).astype(np.int64)
    margins = np.full(empties.shape, np.nan, np.float32)
    late = np.flatnonzero(empties <= max_empties)
    if len(late):
        order = late[np.lexsort(boards[:, late])]
        changes = (boards[:, order[1:]] != boards[:, order[:-1]]).any(0)
        first = np.concatenate(([True], changes))
        margins[order] = _solved(boards[:, order[first]], threads)[np.cumsum(first) - 1]
    return torch.from_numpy(margins).reshape(mover.shape).to(mover.device)


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
