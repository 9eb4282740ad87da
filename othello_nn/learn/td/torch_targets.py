"""The targets of ``targets.py`` in torch: thousands of games at once on one device, which is never waited for."""

from __future__ import annotations

import torch
from torch import Tensor

from othello_nn.engine.score import LEAF_LIMIT, SCORE_DISC
from othello_nn.errors import OthelloError, did_you_mean
from othello_nn.learn.td.batch import MOST_CHILDREN, SQUARES, Rays, expand, final_score, legal_moves, popcount
from othello_nn.learn.td.ply import SMALL_BATCH, ValueFunction
from othello_nn.learn.td.targets import OUTCOMES, row_target
from othello_nn.learn.td.trajectory import Trajectory
from othello_nn.nets.base import squash, unsquash

# Room per position of a chunk of a search. Measured by `benchmarks/run.py device-room`: chunks of 64 positions or more
# from all stages of games need less, and so they do if the last 16 plies, which are narrow, are not searched.
CHILDREN_EACH = 14
GRANDCHILDREN_EACH = 144
DESCENDANTS_EACH = 12
"""How much more room each further ply gets."""
LEAVES = {"cpu": 1 << 15}
"""Slots for the leaves of a chunk: on a CPU, as many as its cache has room for."""
MANY_LEAVES = 1 << 20
"""On other devices, so many that a whole batch of games is a few chunks: each is some 300 launches."""
SPARE_ROWS = 3
"""By how many rows a game one side may make more than half of the moves, on average over many games."""
NET_ROWS = 1 << 16
"""Positions that a net is asked about at a time: a net that does more than look up its tables needs memory for each."""


def default_chunk(device: torch.device, plies: int) -> int:
    """How many positions to search at a time."""
    each = _room(SMALL_BATCH, plies) // SMALL_BATCH if plies else 1
    return max(2 * SMALL_BATCH, LEAVES.get(device.type, MANY_LEAVES) // each)


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
def search_games(
    net: ValueFunction,
    games: Trajectory,
    *,
    plies: int,
    scale: float,
    kind: str = "margin",
    exact_empties: int = 0,
    against: bool = False,
) -> Tensor:
    """``search_values`` of the games' rows ``[T, B]``, of those in use with more than ``exact_empties`` empty squares;
    NaN for the others, whose targets need no search.

    Games ``against`` an opponent have one side's rows, about half as many: should many more be in use, the last ones
    get NaN too, and their targets come from the rows that follow.
    """
    used = games.mask & (SQUARES - popcount(games.mover | games.opponent) > exact_empties)
    # A row has an empty square less than the one before, the first one 59.
    rows = max(59 - exact_empties, 0)
    if against and games.games >= SMALL_BATCH:
        rows = min(rows, rows // 2 + SPARE_ROWS)
    fields, room = (games.mover, games.opponent, games.black_to_move), rows * games.games
    return search_values(net, *fields, plies=plies, scale=scale, kind=kind, used=used, room=room)


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
    if not positions or room == 0:
        return torch.full(mover.shape, torch.nan, device=mover.device)
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
    return torch.where(complete, value, _asked(net, boards, black))


def _asked(net: ValueFunction, boards: Tensor, black: Tensor) -> Tensor:
    """The net's values ``[N]``."""
    parts = [part.split(NET_ROWS) for part in (boards[0], boards[1], black)]
    values = [net(*part) for part in zip(*parts, strict=True)]
    return values[0] if len(values) == 1 else torch.cat(values)


def _room(positions: int, ply: int) -> int:
    """Slots for what comes of so many positions in so many plies."""
    each = (CHILDREN_EACH, GRANDCHILDREN_EACH)[min(ply, 2) - 1] * DESCENDANTS_EACH ** max(ply - 2, 0)
    if positions >= SMALL_BATCH:
        return positions * each
    # Of a few positions the mean is no guide: the widest possible, or twice what many would have.
    return min(positions * MOST_CHILDREN**ply, 2 * SMALL_BATCH * each)


def _negamax(
    net: ValueFunction, boards: Tensor, black: Tensor, rooms: list[int], scale: float, kind: str, rays: Rays
) -> tuple[Tensor, Tensor]:
    """Values ``[N]`` of a search with a ply for each of ``rooms``, and whether each position's whole tree had room."""
    legal, replies = legal_moves(boards, boards.flip(0), rays).unbind()
    over = (legal | replies) == 0
    if not rooms:
        values, complete = leaf_values(_asked(net, boards, black), scale), torch.ones_like(over)
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
