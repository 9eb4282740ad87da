"""The targets of ``targets.py`` in torch: thousands of games at once on one device, which is never waited for."""

from __future__ import annotations

import torch
from torch import Tensor

from othello_nn.engine.score import LEAF_LIMIT, SCORE_DISC
from othello_nn.errors import OthelloError, did_you_mean
from othello_nn.learn.td.batch import MOST_CHILDREN, Rays, expand, final_score, legal_moves
from othello_nn.learn.td.ply import SMALL_BATCH, ValueFunction
from othello_nn.learn.td.targets import OUTCOMES, row_target
from othello_nn.learn.td.trajectory import Trajectory
from othello_nn.nets.base import squash, unsquash

CHILDREN_EACH = 24
GRANDCHILDREN_EACH = 256
"""Room for positions two plies on, per position of a chunk of a search; their mean over all stages is below 100."""
DESCENDANTS_EACH = 12
"""How much more room each further ply gets."""


def default_chunk(device: torch.device, plies: int) -> int:
    return 256


def outcome(margin: Tensor, scale: float, kind: str = "margin") -> Tensor:
    """A final score in discs as a value: ``margin`` squashes it, ``win`` keeps only who won. NaN stays NaN."""
    if kind not in OUTCOMES:
        raise OthelloError(f"unknown outcome {kind!r}; {did_you_mean(kind, OUTCOMES)}")
    margin = margin.to(torch.get_default_dtype()) if not margin.is_floating_point() else margin
    if kind == "margin":
        return squash(margin / scale)
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

    ``values`` [T, B] is what the net says of the rows, ``final`` [B] the outcome for the mover of the last row.
    ``exact`` and ``searched`` [T, B] are the values of perfect play and of a search from each row, NaN where unknown.
    """
    if not 0 <= lam <= 1:
        raise OthelloError(f"lam is {lam}; it must be from 0 to 1")
    unknown = torch.full_like(final, torch.nan).expand(values.shape)
    exact, searched = (unknown if hint is None else hint for hint in (exact, searched))
    sign, last = trajectory.sign.to(values.dtype), trajectory.length - 1
    # After the end of a game comes nothing; its last row does not look.
    value = target = torch.zeros_like(final)
    explored = torch.zeros_like(last, dtype=torch.bool)
    targets: list[Tensor] = []  # from the last row to the first
    for t in reversed(range(trajectory.rows)):
        ahead = sign[t] * value, sign[t] * target, explored
        value, explored = values[t], trajectory.explored[t]
        target = row_target(torch.where, lam, 1 - lam, value, *ahead, searched[t], last == t, final, exact[t])
        targets.append(target)
    return torch.where(trajectory.mask, torch.stack(targets[::-1]), 0)


# --- search ----------------------------------------------------------------------------------------------------------


@torch.no_grad()
def search_values(
    net: ValueFunction,
    mover: Tensor,
    opponent: Tensor,
    black_to_move: Tensor,
    *,
    plies: int,
    scale: float,
    kind: str = "margin",
    used: Tensor | None = None,
    room: int | None = None,
    chunk: int | None = None,
) -> Tensor:
    """``targets.search_value`` of each position; boards and colours of any one shape give values of that shape.

    Of ``used`` (bool of that shape) only these are searched, and the others' values are NaN, as are those of used ones
    beyond ``room`` of them, which is all if left out. A smaller room is less work: how many are used is known to the
    device alone, so it works on as many as there is room for.

    Positions are searched ``chunk`` at a time, which bounds the memory. A chunk takes every n-th position of the input,
    so that it has a share of all stages of the games if the input is in their order: should its replies still not fit,
    the positions left out get the net's own value, that is, no error to learn from.
    """
    chunk = default_chunk(mover.device, plies) if chunk is None else chunk
    if chunk < 1:
        raise OthelloError(f"chunk is {chunk}; it must be at least 1")
    boards, black = torch.stack((mover.reshape(-1), opponent.reshape(-1))), black_to_move.reshape(-1)
    positions = black.numel()
    if not positions:
        return torch.zeros(mover.shape, device=mover.device)
    place = None
    if used is not None:
        place, source = _to_the_front(used.reshape(-1), positions if room is None else min(room, positions))
        boards, black, positions = boards[:, source], black[source], len(source)
    parts = -(-positions // chunk)
    rays = Rays.on(mover.device)
    found = [
        _searched(net, boards[:, part::parts], black[part::parts], plies, scale, kind, rays) for part in range(parts)
    ]
    order = torch.cat([torch.arange(part, positions, parts, device=mover.device) for part in range(parts)])
    joined = torch.cat(found)
    values = torch.empty_like(joined).scatter_(0, order, joined)
    if place is not None:
        values = torch.cat((values, torch.full_like(values[:1], torch.nan)))[place]
    return values.view(mover.shape)


def _to_the_front(used: Tensor, room: int) -> tuple[Tensor, Tensor]:
    """Where each of N positions goes in a list of the used ones, int64 [N], ``room`` for none of it; and which position
    each place of the list comes from, int64 [room], the first one where the list is longer than needed."""
    place = torch.where(used, used.cumsum(0) - 1, room).clamp_(max=room)
    source = torch.zeros(room + 1, dtype=torch.int64, device=used.device)
    return place, source.scatter_(0, place, torch.arange(len(used), device=used.device))[:-1]


def _searched(
    net: ValueFunction, boards: Tensor, black: Tensor, plies: int, scale: float, kind: str, rays: Rays
) -> Tensor:
    rooms = [_room(len(black), ply) for ply in range(1, plies + 1)]
    value, complete = _negamax(net, boards, black, rooms, scale, kind, rays)
    return torch.where(complete, value, net(boards[0], boards[1], black))


def _room(positions: int, ply: int) -> int:
    """Slots for what comes of so many positions in so many plies."""
    if positions < SMALL_BATCH:
        return positions * MOST_CHILDREN**ply
    each = (CHILDREN_EACH, GRANDCHILDREN_EACH)[min(ply, 2) - 1]
    return positions * each * DESCENDANTS_EACH ** max(ply - 2, 0)


def _negamax(
    net: ValueFunction, boards: Tensor, black: Tensor, rooms: list[int], scale: float, kind: str, rays: Rays
) -> tuple[Tensor, Tensor]:
    """Values ``[N]`` of a search with a ply for each of ``rooms``, and whether each position's whole tree had room."""
    legal, replies = legal_moves(boards, boards.flip(0), rays).unbind()
    over = (legal | replies) == 0
    if not rooms:
        values, complete = leaf_values(net(boards[0], boards[1], black), scale), torch.ones_like(over)
    else:
        # Slots that are not in use are empty boards, where no one can move: they have no children.
        children = expand(boards, legal, rooms[0], passes=(legal == 0) & (replies != 0), rays=rays)
        black = ~black[children.parent]
        below, below_complete = _negamax(net, children.boards, black, rooms[1:], scale, kind, rays)
        values = _best(-below, children.parent, children.valid, len(legal))
        missing = (children.valid & ~below_complete).long()
        missing = torch.zeros_like(legal).scatter_reduce_(0, children.parent, missing, "amax")
        complete = children.complete & (missing == 0)
    finished = outcome(final_score(*boards.unbind()), scale, kind).to(values.dtype)
    return torch.where(over, finished, values), complete


def leaf_values(values: Tensor, scale: float) -> Tensor:
    """``targets.leaf_value`` of each value."""
    scores = (scale * SCORE_DISC * unsquash(values)).round().clamp(-LEAF_LIMIT, LEAF_LIMIT)
    return squash(scores / (scale * SCORE_DISC))


def _best(values: Tensor, parent: Tensor, valid: Tensor, parents: int) -> Tensor:
    """``[parents]``: the greatest value of each parent's children, −∞ if it has none."""
    out = torch.full((parents,), -torch.inf, dtype=values.dtype, device=values.device)
    return out.scatter_reduce_(0, parent, torch.where(valid, values, -torch.inf), "amax")
