"""One ply of many games: a pure function of tensors, which a compiler can make into a few kernels.

Read ``batch.py`` first. Chance comes in as tensors, nothing depends on the number of the ply but the room for children,
and nothing is asked of the device: so ``torch.compile`` makes one graph of it, net and all, where the same operations
one by one are some 150 launches (``benchmarks/run.py device-ply``). A GPU that is fed launch by launch spends its time
waiting for the next one.
"""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from othello_nn.game.rules import START_MOVER, START_OPPONENT
from othello_nn.learn.td.batch import MOST_CHILDREN, Children, Rays, expand, legal_moves
from othello_nn.program import TRAIN, note

ValueFunction = Callable[[Tensor, Tensor, Tensor], Tensor]
"""``net(mover, opponent, black_to_move)``: values [N] for the mover; a ``Net`` or anything like it."""

# Room for children per game, from the ply on that stands before it. Measured by `benchmarks/run.py device-room`: the
# mean over 64 or more games that chance has a part in is below these at every ply, whoever plays. Few distinct numbers,
# since each is a graph to compile.
ROOMS = ((0, 8), (6, 14), (50, 8))
SMALL_BATCH = 64
"""Below so many games the mean is no guide, and each has room for any position."""
GRAPHS_MOST = 64
"""Graphs kept of one process: as many nets, numbers of games and rooms."""


class Players(NamedTuple):
    """Who plays B games."""

    net: ValueFunction
    rival: ValueFunction | None = None
    """The other side, if it is not the net itself."""
    net_black: Tensor | None = None
    """bool [B]: the net's colour against the rival."""


class Decision(NamedTuple):
    """What is to be decided at a ply of B games, after the passes that were due."""

    boards: Tensor
    """int64 [2, B]: mover, opponent."""
    black: Tensor
    """bool [B]: black is to move."""
    legal: Tensor
    """int64 [B]: the legal moves, 0 if the game is over."""
    passed: Tensor
    """bool [B]: the side whose turn it was had no move."""


# Between two plies games are one tensor, int64 [3, B]: mover, opponent, and these marks added up. One is copied in a
# launch, and the last ply's must be copied before the next, since a CUDA graph always writes to the same place.
BLACK, MOVED, PASSED = 1, 2, 4  # black is to move; the last ply was a move, not the end; a pass came before it


def start(games: int, device: torch.device | str) -> Tensor:
    """So many games at the start."""
    first = (START_MOVER, START_OPPONENT, BLACK)
    return torch.stack([torch.full((games,), number, dtype=torch.int64, device=device) for number in first])


def room_for(games: int, ply: int) -> int:
    """Slots for the children of all games at a ply."""
    if games < SMALL_BATCH:
        return games * MOST_CHILDREN
    return games * next(room for first, room in reversed(ROOMS) if ply >= first)


def to_move(games: Tensor, rays: Rays | None = None) -> Decision:
    """A side that cannot move passes, and the other side makes the move of this ply."""
    boards, black = games[:2], games[2] & BLACK != 0
    swapped = boards.flip(0)
    moves, replies = legal_moves(boards, swapped, rays).unbind()
    passed = (moves == 0) & (replies != 0)
    legal = torch.where(passed, replies, moves)
    return Decision(torch.where(passed, swapped, boards), black ^ passed, legal, passed)


def moved(turn: Decision, after: Tensor) -> Tensor:
    """The games with the boards ``after`` [2, B] where they go on."""
    moving = turn.legal != 0
    marks = (turn.black ^ moving) + moving * MOVED + turn.passed * PASSED  # BLACK is 1
    return torch.cat((torch.where(moving, after, turn.boards), marks.unsqueeze(0)))


def one_ply(games: Tensor, random: Tensor, pick: Tensor, players: Players, capacity: int, rays: Rays) -> Tensor:
    """The games after every game's next move: any one where ``random`` (bool [B]) holds, else one whose afterstate is
    worth least to the other side. ``pick`` (float [B, MOST_CHILDREN], 0 or more) decides between equals: the one with
    the greatest number.

    There must be at least as many slots as games. Of games whose moves have no room only the first few are considered
    (see ``batch.expand``).
    """
    turn = to_move(games, rays)
    children = expand(turn.boards, turn.legal, capacity, fair=True, rays=rays)
    slot = _chosen(children, _values(children, turn.black, players), random, pick)
    return moved(turn, children.boards[:, slot])


def _values(children: Children, black: Tensor, players: Players) -> Tensor:
    """What each child is worth to the side that is then to move, for the net or the rival, whoever made the move."""
    net, rival, net_black = players
    boards = children.mover, children.opponent, ~black[children.parent]
    values = net(*boards)
    if rival is None or net_black is None:
        return values
    by_net = (black == net_black)[children.parent]
    return torch.where(by_net, values, rival(*boards).to(values.dtype))


def _chosen(children: Children, values: Tensor, random: Tensor, pick: Tensor) -> Tensor:
    """The slot of each game's move; any slot where a game is over."""
    place = torch.arange(MOST_CHILDREN, device=values.device)
    slots = (children.first.unsqueeze(1) + place).clamp_(max=children.capacity - 1)
    there = place < children.count.unsqueeze(1)
    values = torch.where(there, values[slots], torch.inf)
    # Written so that a net that has come to NaN plays at random, not off the board.
    worse = values > values.amin(1, keepdim=True)
    candidates = there & ~(worse & ~random.unsqueeze(1))
    # The greatest of so many uniform numbers is as likely to be any of them.
    place = torch.where(candidates, pick, -1).argmax(1)
    return (children.first + place).clamp_(max=children.capacity - 1)


# --- compiled --------------------------------------------------------------------------------------------------------


_graphs: dict[str, Any] = {}
"""The compiled ply by type of device. It keeps a graph for each kind of net, number of games and room that it meets;
nets that differ in weights alone share one."""


def pays(device: torch.device) -> bool:
    """Whether to compile the ply without being asked to: on a GPU, where it can be done at all.

    On a CPU it gains a little and takes half a minute, and needs a C++ compiler.
    """
    return device.type == "cuda" and importlib.util.find_spec("triton") is not None


def has_compiler() -> bool:
    """Whether there is what ``torch.compile`` needs on a CPU."""
    return any(shutil.which(name) for name in ("g++", "clang++", "c++"))


def compiled_ply(games: Tensor, *rest: Any) -> Tensor:
    """``one_ply`` compiled; if that fails, as it is, now and for the rest of the process, with a line that says so."""
    device = games.device.type
    if isinstance(games, FakeTensor):  # no data, so nothing to run
        return one_ply(games, *rest)
    if device not in _graphs:
        # A CUDA graph replays the kernels without the host, which else could not launch them as fast as they run.
        mode = "reduce-overhead" if device == "cuda" else None
        _graphs[device] = torch.compile(  # type: ignore[call-overload]  # which does not know recompile_limit
            one_ply, fullgraph=True, dynamic=False, mode=mode, recompile_limit=GRAPHS_MOST
        )
    try:
        return _graphs[device](games, *rest).clone()
    except torch._dynamo.exc.TorchDynamoException as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        note(TRAIN, f"games are played without compiling, which failed: {' '.join(lines[:2])}")
        _graphs[device] = one_ply
        return one_ply(games, *rest)
