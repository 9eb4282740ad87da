"""Many games at once on one device, each move the best at 1-ply for a net, with some chance mixed in.

Read ``batch.py``, ``ply.py`` and ``trajectory.py`` first. All games make their n-th move together in a fixed loop of 60
plies; finished games stand still. All afterstates of all games go through the net in one call a ply. Nothing waits for
the device: the loop queues its work and the result is a ``Trajectory`` of tensors that are still being computed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from othello_nn.config import TD
from othello_nn.errors import OthelloError
from othello_nn.learn.td.batch import MOST_CHILDREN, Rays, final_score
from othello_nn.learn.td.batch import play as play_square
from othello_nn.learn.td.ply import (
    BLACK,
    MOVED,
    PASSED,
    Players,
    ValueFunction,
    compiled_ply,
    moved,
    one_ply,
    pays,
    room_for,
    start,
    to_move,
)
from othello_nn.learn.td.trajectory import MOST_MOVES, Trajectory


class Dice:
    """The source of chance on a device: the same seed on the same device gives the same numbers.

    ``generator=None`` takes torch's own stream, for a device that cannot hold a generator (fake tensors in tests).
    """

    def __init__(self, device: torch.device | str, generator: torch.Generator | None):
        self.device = torch.device(device)
        self.generator = generator

    @classmethod
    def seeded(cls, seed: int, device: torch.device | str = "cpu") -> Dice:
        return cls(device, torch.Generator(device).manual_seed(seed))

    def uniform(self, *shape: int) -> Tensor:
        """float32 numbers in [0, 1)."""
        return torch.rand(shape, generator=self.generator, device=self.device)


@dataclass(frozen=True, eq=False)
class Turn:
    """What is to be decided at a ply, for B games; where a game is over, ``legal`` is 0."""

    ply: int
    mover: Tensor
    opponent: Tensor
    legal: Tensor
    black: Tensor
    """bool [B]: black is to move."""


Chooser = Callable[[Turn], tuple[Tensor, Tensor]]
"""Squares (int64 [B], legal where the game goes on) and which of these moves are exploration (bool [B])."""


@torch.no_grad()
def rollout(
    choose: Chooser, games: int, device: torch.device | str = "cpu", learner_black: Tensor | None = None
) -> Trajectory:
    """Play ``games`` games with the moves that ``choose`` gives.

    With ``learner_black`` (bool [B], the learner's colour) only the learner's afterstates are recorded.
    """
    standing, plies, marked = start(games, device), [], []
    for ply in range(MOST_MOVES):
        turn = to_move(standing)
        mover, opponent = turn.boards.unbind()
        square, explored = choose(Turn(ply, mover, opponent, turn.legal, turn.black))
        square_mask = torch.where(turn.legal != 0, 1 << square, 0)
        standing = moved(turn, torch.stack(play_square(mover, opponent, square_mask)))
        plies.append(standing)
        marked.append(explored)
    return _gather(torch.stack(plies), torch.stack(marked), learner_black)


def _gather(plies: Tensor, explored: Tensor, learner_black: Tensor | None) -> Trajectory:
    """The recorded rows of all plies ``[T, 3, B]``, moved up to the front of their games."""
    mover, opponent, marks = plies.unbind(1)
    black, moving, passed = (marks & mark != 0 for mark in (BLACK, MOVED, PASSED))
    # A finished game stands still, so the last ply's boards are the final ones, with the last row's mover as mover.
    margin = final_score(mover[-1], opponent[-1])
    fields = [mover, opponent, explored, black]
    if learner_black is None:
        recorded = moving
        sign = torch.where(passed, 1, -1).roll(-1, 0)
        fields = [torch.where(recorded, field, torch.zeros_like(field)) for field in fields]
    else:
        recorded = moving & (black != learner_black)
        margin = torch.where(black[-1] == learner_black, -margin, margin)  # every row's mover is the learner's opponent
        sign = torch.ones_like(mover)
        row = torch.where(recorded, recorded.cumsum(0) - 1, len(plies))
        fields = [_compact(field, row) for field in fields]
    length = recorded.sum(0)
    followed = torch.arange(len(plies), device=mover.device).unsqueeze(1) < length - 1
    sign = torch.where(followed, sign, 0).to(torch.int8)
    return Trajectory(fields[0], fields[1], sign, fields[2], fields[3], length, margin)


def _compact(field: Tensor, row: Tensor) -> Tensor:
    """``[T, B]`` with each element moved to the given row of its game; what goes to row T is dropped."""
    out = torch.zeros((field.shape[0] + 1, field.shape[1]), dtype=field.dtype, device=field.device)
    return out.scatter_(0, row, field)[:-1]


@torch.no_grad()
def play(
    net: ValueFunction,
    games: int,
    dice: Dice,
    *,
    epsilon: float = 0.1,
    opening_plies: int = 0,
    opponent: ValueFunction | None = None,
    cut: bool = True,
    capacity: int | None = None,
    compiled: bool | None = None,
) -> Trajectory:
    """Games of ``net`` against itself, or against ``opponent``, on the device of ``dice``, where the nets must be.

    Each game begins with 0 to ``opening_plies`` random moves, any number being as likely; then either side makes a
    random move with probability ``epsilon``, else the one whose afterstate is worth least to the other side, ties
    being decided by chance. In self-play all random moves count as explored; without ``cut`` only those of the opening.

    With ``opponent``, ``net`` is black in even games and white in odd ones, and only its afterstates are recorded. A
    random move is then explored only in the opening: later chance is a part of the world whose value is learnt.

    ``capacity`` is the number of afterstates that one ply of all games has room for, at least one a game; if left out,
    what games were measured to need. Of moves beyond it see ``ply.one_ply``.

    ``compiled`` plies take half a minute to be made and are then faster; if left out, a GPU gets them. Chance is the
    same either way, so the games are too, unless values that are nearly equal are rounded another way.
    """
    options = TD.options()
    for name, option, value in (
        ("games", options["batch_games"], games),
        ("epsilon", options["epsilon"], epsilon),
        ("opening_plies", options["opening_plies"], opening_plies),
    ):
        option.check(name, value)
    if capacity is not None and capacity < games:
        raise OthelloError(f"capacity is {capacity}; it must be at least 1 a game, that is {games}")
    device = dice.device
    learner_black = None if opponent is None else torch.arange(games, device=device) % 2 == 0
    # Chance is drawn outside of the ply: whether a move is random, and which of its equals it is.
    opening = (dice.uniform(games) * (opening_plies + 1)).long().clamp(max=opening_plies)
    in_opening = torch.arange(MOST_MOVES, device=device).unsqueeze(1) < opening
    random = in_opening | (dice.uniform(MOST_MOVES, games) < epsilon)
    step = compiled_ply if (pays(device) if compiled is None else compiled) else one_ply
    players, rays = Players(net, opponent, learner_black), Rays.on(device)
    standing, plies = start(games, device), []
    for ply in range(MOST_MOVES):
        room = room_for(games, ply) if capacity is None else capacity
        standing = step(standing, random[ply], dice.uniform(games, MOST_CHILDREN), players, room, rays)
        plies.append(standing)
    return _gather(torch.stack(plies), random if opponent is None and cut else in_opening, learner_black)
