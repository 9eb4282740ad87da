"""Many games at once on one device, each move the best at 1-ply for a net, with some chance mixed in.

Read ``batch.py`` and ``trajectory.py`` first. All games make their n-th move together in a fixed loop of 60 plies;
finished games stand still. All afterstates of all games go through the net in one call a ply. Nothing waits for the
device: the loop queues its work and the result is a ``Trajectory`` of tensors that are still being computed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from othello_nn.config import TD
from othello_nn.game.rules import START_MOVER, START_OPPONENT
from othello_nn.learn.td.batch import SQUARES, expand, final_score, legal_moves, unpack
from othello_nn.learn.td.batch import play as play_square
from othello_nn.learn.td.trajectory import MOST_MOVES, Trajectory

ValueFunction = Callable[[Tensor, Tensor, Tensor], Tensor]
"""``net(mover, opponent, black_to_move)``: values [N] for the mover; a ``Net`` or anything like it."""


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
    mover = torch.full((games,), START_MOVER, dtype=torch.int64, device=device)
    opponent = torch.full((games,), START_OPPONENT, dtype=torch.int64, device=device)
    black = torch.ones(games, dtype=torch.bool, device=device)
    rows: list[tuple[Tensor, ...]] = []
    for ply in range(MOST_MOVES):
        # A side that cannot move passes, and the other side makes the move of this ply.
        moves, replies = legal_moves(torch.stack((mover, opponent)), torch.stack((opponent, mover)))
        passed = (moves == 0) & (replies != 0)
        mover, opponent = torch.where(passed, opponent, mover), torch.where(passed, mover, opponent)
        legal, black = torch.where(passed, replies, moves), black ^ passed
        moving = legal != 0
        square, explored = choose(Turn(ply, mover, opponent, legal, black))
        square_mask = torch.where(moving, 1 << square, 0)
        next_mover, next_opponent = play_square(mover, opponent, square_mask)
        recorded = moving if learner_black is None else moving & (black == learner_black)
        mover, opponent = torch.where(moving, next_mover, mover), torch.where(moving, next_opponent, opponent)
        black = black ^ moving
        rows.append((mover, opponent, explored, black, recorded, passed))
    return _gather(rows, learner_black)


def _gather(rows: list[tuple[Tensor, ...]], learner_black: Tensor | None) -> Trajectory:
    """The recorded rows of all plies, moved up to the front of their games."""
    mover, opponent, explored, black, recorded, passed = (torch.stack(column) for column in zip(*rows, strict=True))
    length = recorded.sum(0)
    # A finished game stands still, so the last ply's boards are the final ones, with the last row's mover as mover.
    margin = final_score(mover[-1], opponent[-1])
    if learner_black is None:
        sign = torch.where(passed, 1, -1).roll(-1, 0)
        fields = [mover, opponent, explored, black]
        fields = [torch.where(recorded, field, torch.zeros_like(field)) for field in fields]
    else:
        margin = torch.where(black[-1] == learner_black, -margin, margin)  # every row's mover is the learner's opponent
        sign = torch.ones_like(mover)
        row = torch.where(recorded, recorded.cumsum(0) - 1, len(rows))
        fields = [_compact(field, row) for field in (mover, opponent, explored, black)]
    followed = torch.arange(len(rows), device=mover.device).unsqueeze(1) < length - 1
    sign = torch.where(followed, sign, 0).to(torch.int8)
    return Trajectory(fields[0], fields[1], sign, fields[2], fields[3], length, margin)


def _compact(field: Tensor, row: Tensor) -> Tensor:
    """``[T, B]`` with each element moved to the given row of its game; what goes to row T is dropped."""
    out = torch.zeros((field.shape[0] + 1, field.shape[1]), dtype=field.dtype, device=field.device)
    return out.scatter_(0, row, field)[:-1]


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
) -> Trajectory:
    """Games of ``net`` against itself, or against ``opponent``, on the device of ``dice``, where the nets must be.

    Each game begins with 0 to ``opening_plies`` random moves, any number being as likely; then either side makes a
    random move with probability ``epsilon``, else the one whose afterstate is worth least to the other side, ties
    being decided by chance. In self-play all random moves count as explored; without ``cut`` only those of the opening.

    With ``opponent``, ``net`` is black in even games and white in odd ones, and only its afterstates are recorded. A
    random move is then explored only in the opening: later chance is a part of the world whose value is learnt.

    ``capacity`` is the number of afterstates that one ply of all games has room for (see ``batch.expand``). Moves
    beyond it are not considered; a game all of whose moves are beyond it makes a random one.
    """
    options = TD.options()
    for name, option, value in (
        ("games", options["batch_games"], games),
        ("epsilon", options["epsilon"], epsilon),
        ("opening_plies", options["opening_plies"], opening_plies),
    ):
        option.check(name, value)
    learner_black = None
    if opponent is not None:
        learner_black = torch.arange(games, device=dice.device) % 2 == 0
    # The product may round up to the bound that the number itself stays below.
    opening = (dice.uniform(games) * (opening_plies + 1)).long().clamp(max=opening_plies)

    def choose(turn: Turn) -> tuple[Tensor, Tensor]:
        in_opening = turn.ply < opening
        random = in_opening | (dice.uniform(games) < epsilon)
        values = _child_values(turn, net, opponent, learner_black, capacity)
        legal = unpack(turn.legal)
        # Written so that a net that has come to NaN plays at random, not off the board.
        best = legal & ~(values > values.amin(1, keepdim=True))
        candidates = torch.where(random.unsqueeze(1), legal, best)
        # The greatest of so many uniform numbers is as likely to be any of them.
        square = torch.where(candidates, dice.uniform(games, SQUARES), -1).argmax(1)
        return square, random if opponent is None and cut else in_opening

    return rollout(choose, games, dice.device, learner_black)


def _child_values(
    turn: Turn, net: ValueFunction, opponent: ValueFunction | None, learner_black: Tensor | None, capacity: int | None
) -> Tensor:
    """``[B, 64]``: what the position after each move is worth to the side that is then to move; ∞ off the list."""
    games = len(turn.mover)
    children = expand(turn.mover, turn.opponent, turn.legal, capacity)
    boards = children.mover, children.opponent, ~turn.black[children.parent]
    values = net(*boards)
    if opponent is not None and learner_black is not None:
        learner_moves = (turn.black == learner_black)[children.parent]
        values = torch.where(learner_moves, values, opponent(*boards).to(values.dtype))
    cell = torch.where(children.valid, children.parent * SQUARES + children.square, games * SQUARES)
    grid = torch.full((games * SQUARES + 1,), torch.inf, dtype=values.dtype, device=values.device)
    return grid.scatter_(0, cell, values)[:-1].view(games, SQUARES)
