"""Questions to a net about things on the board, and its weights in order: the numbers behind ``pictures.py``.

*Worth* is asked of the net as a whole, so that all kinds of nets can be compared: put a thing on the board as the
mover's, put the same thing there as the opponent's, and halve the difference of the net's discs. That is what it is
worth to its owner, averaged over whose turn it is. The rest of the board comes from ``sample_boards``, a few dozen
positions of random games that never change; nothing is asked of the rules, so a disc may stand where no game put it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from functools import cache
from itertools import chain

import numpy as np
import torch
from torch import nn

from othello_nn.engine.leaf.shapes import stages_of_empties
from othello_nn.game import rules
from othello_nn.game.position import Position
from othello_nn.nets.base import Net
from othello_nn.nets.ntuple import NTupleNet
from othello_nn.nets.staged import Staged
from othello_nn.nets.triangle import TRIANGLES, TriangleNet

BANDS = {"opening": range(44, 56), "middle": range(24, 36), "end": range(4, 16)}
"""Numbers of empties. A picture by parts of the game averages over one position for each, in eight symmetries."""
EDGES = (
    ("full edge", "XXXXXXXX", "--"),
    ("balanced six", "-XXXXXX-", "--"),
    ("balanced six, X-square taken", "-XXXXXX-", "X-"),
    ("unbalanced five", "-XXXXX--", "--"),
    ("four in the middle", "--XXXX--", "--"),
    ("two A-squares", "--X--X--", "--"),
    ("corner with two neighbours", "XXX-----", "--"),
    ("corner against a full edge", "XOOOOOO-", "--"),
    ("corner alone", "X-------", "--"),
    ("C-square alone", "-X------", "--"),
    ("X-square alone", "--------", "X-"),
    ("wedge between two", "--OXO---", "--"),
    ("hole that invites a wedge", "-XX-XXX-", "--"),
)
"""Name, the squares a1 to h1, then b2 and g2: X the owner's discs, O the other side's."""
RIM = (*range(8), 9, 14)
"""The squares of a configuration of ``EDGES``, in its order."""
BATCH = 16384
GAMES = 12
"""Random games that a gate is asked about."""

Boards = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Movers and opponents, uint64, and black_to_move, bool, of one shape."""


@cache
def sample_boards() -> Boards:
    """``[3, 12, 8]``: for each number of empties of each band a position of a random game, in all symmetries."""
    found = [random_positions(seed)[empties] for band in BANDS.values() for seed, empties in enumerate(band)]
    movers, opponents, blacks = boards_of([position.transform(k) for position in found for k in range(8)])
    return movers.reshape(3, 12, 8), opponents.reshape(3, 12, 8), blacks.reshape(3, 12, 8)


@cache
def random_positions(seed: int) -> dict[int, Position]:
    """The positions of a random game by their empties; of games that end early the next one is taken."""
    rng = random.Random(seed)
    while True:
        position, found = Position.start(), {}
        while moves := position.legal_moves or ((rules.PASS,) if position.must_pass else ()):
            found[position.empties] = position
            position = position.play(rng.choice(moves))
        if len(found) == 60:
            return found


@cache
def sample_game() -> tuple[Position, ...]:
    """A game to look at: black takes the move that turns most discs, white any."""
    rng = random.Random(5)
    game = [Position.start()]
    while not game[-1].is_over:
        position = game[-1]
        moves = position.legal_moves or (rules.PASS,)
        if position.black_to_move and len(moves) > 1:
            move = max(moves, key=lambda square: position.play(square).opponent_discs)
        else:
            move = rng.choice(moves)
        game.append(position.play(move))
    return tuple(game)


def boards_of(positions: Sequence[Position]) -> Boards:
    masks = [np.array([getattr(each, side) for each in positions], np.uint64) for side in ("mover", "opponent")]
    return masks[0], masks[1], np.array([each.black_to_move for each in positions])


def device_of(net: nn.Module) -> torch.device:
    """Where a net is; one without any numbers of its own is everywhere."""
    tensor = next(chain(net.parameters(), net.buffers()), None)
    return torch.device("cpu") if tensor is None else tensor.device


@torch.no_grad()
def ask(net: Net, boards: Boards) -> np.ndarray:
    """The net's discs, float64, in the shape of the boards."""
    device = device_of(net)
    movers, opponents, blacks = (np.ascontiguousarray(each).reshape(-1) for each in np.broadcast_arrays(*boards))
    answers = []
    for first in range(0, len(movers), BATCH):
        part = slice(first, first + BATCH)
        mover, opponent = (torch.from_numpy(side[part].view(np.int64)).to(device) for side in (movers, opponents))
        answers.append(net.discs(mover, opponent, torch.from_numpy(blacks[part]).to(device)).double().cpu())
    return torch.cat(answers).numpy().reshape(np.broadcast_shapes(*(each.shape for each in boards)))


def is_symmetric(net: Net) -> bool:
    """Whether the net thinks the same of the eight images of a board, as far as the sample shows."""
    discs = ask(net, sample_boards())
    return np.allclose(discs, discs[..., :1], rtol=1e-4, atol=1e-3, equal_nan=True)


def worth(
    net: Net,
    own: np.ndarray,
    other: np.ndarray,
    cleared: np.ndarray,
    black: bool | None = None,
    images: int = 8,
) -> np.ndarray:
    """What things are worth to their owner in discs, float64 ``[3, things]``, averaged over the boards of a band.

    A thing is three masks (uint64 ``[things]``): squares with the owner's discs, with the other side's, and all that
    are cleared before they are put there. ``black`` says who is to move; without it the boards do. ``images`` is how
    many of the symmetric images of the boards are used.
    """
    movers, opponents, blacks = (each[..., :images, None] for each in sample_boards())
    if black is not None:
        blacks = np.full_like(blacks, black)
    movers, opponents = movers & ~cleared, opponents & ~cleared
    swapped = [np.stack(pair) for pair in ((movers | own, movers | other), (opponents | other, opponents | own))]
    as_own, as_other = ask(net, (swapped[0], swapped[1], blacks))
    with np.errstate(invalid="ignore"):  # a net that has diverged says inf, and inf - inf is nan
        return (as_own - as_other).mean((1, 2)) / 2


# Squares and edges.


def square_worths(net: Net, black: bool | None = None) -> np.ndarray:
    """What a disc on each square is worth, ``[3, 64]``: opening, middle, end."""
    squares = np.uint64(1) << np.arange(64, dtype=np.uint64)
    nothing = np.zeros_like(squares)
    if not is_symmetric(net):
        return worth(net, squares, nothing, squares, black)
    # The mean over the images of the boards is that over the images of the square: an eighth of the work.
    once = worth(net, squares, nothing, squares, black, images=1)
    return once[:, np.array(rules.SYMMETRIES)].mean(1)


def _edge_masks() -> tuple[np.ndarray, np.ndarray]:
    """The owner's and the other side's discs of every configuration, uint64."""
    signs = [edge + x_squares for _, edge, x_squares in EDGES]
    own, other = ([sum(1 << RIM[i] for i in range(10) if each[i] == which) for each in signs] for which in "XO")
    return np.array(own, np.uint64), np.array(other, np.uint64)


def edge_worths(net: Net, black: bool | None = None) -> np.ndarray:
    """What the configurations of ``EDGES`` are worth on the edge a1 to h1, ``[edges, 3]``; ``RIM`` is cleared first."""
    own, other = _edge_masks()
    rim = np.full_like(own, sum(1 << square for square in RIM))
    return worth(net, own, other, rim, black).T


def edge_table_worths(net: Net) -> np.ndarray | None:
    """The same by the table of the edge alone, if the net has one; nan where a configuration needs squares that the
    table does not see."""
    if not isinstance(net, NTupleNet) or net.dim > 1:
        return None
    for placement in net.shapes.placements:
        if set(range(8)) <= set(placement.squares) <= set(RIM):
            break
    else:
        return None
    values = np.full((len(EDGES), len(BANDS)), math.nan)
    for i, (_, edge, x_squares) in enumerate(EDGES):
        signs = dict(zip(RIM, edge + x_squares, strict=True))
        if any(sign != "-" for square, sign in signs.items() if square not in placement.squares):
            continue
        steps = [(3**j, signs[square]) for j, square in enumerate(placement.squares)]
        disc_sum = sum(power * ((sign == "X") - (sign == "O")) for power, sign in steps)
        middle = net.shapes.table_starts[placement.table] + (3 ** len(steps) - 1) // 2
        pair = net.weight.detach()[:, [middle + disc_sum, middle - disc_sum]].double().cpu().numpy()
        with np.errstate(invalid="ignore"):
            rows = (pair[:, 0] - pair[:, 1]) / 2
        shared = rows[-1] if len(rows) > net.stages else 0.0
        for j, band in enumerate(BANDS.values()):
            values[i, j] = np.mean(rows[stages_of_empties(net.stages)[band]] + shared)
    return values


# Weights.


def ordered_maps(net: TriangleNet) -> tuple[np.ndarray, np.ndarray]:
    """The maps by falling mean size of their output weights: weights ``[maps, 10 or 20]`` and these means ``[maps]``.

    A map with all its signs turned is the same map; here it has those with which its outputs add up to more than 0.
    """
    outputs = net.outputs.detach().double().cpu().reshape(net.maps, -1).numpy()
    sizes = np.abs(outputs).mean(1)
    order = np.argsort(-sizes, kind="stable")
    signs = np.where(outputs.sum(1) < 0, -1.0, 1.0)
    weights = net.weights.detach().double().cpu().numpy() * signs[:, None]
    return weights[order], sizes[order]


@torch.no_grad()
def coefficients_by_discs(net: Staged) -> np.ndarray:
    """What a staged net blends its copies by, ``[65, nets]``; of a gate that looks at the position, the mean over some
    random games, and what it starts from where games have no position."""
    table = net.coefficients.detach().double().cpu().numpy().copy()
    if net.gate != "network":
        return table
    games = [random_positions(seed) for seed in range(GAMES)]
    for empties in games[0]:
        movers, opponents, _ = boards_of([game[empties] for game in games])
        mover, opponent = (torch.from_numpy(side.view(np.int64)).to(device_of(net)) for side in (movers, opponents))
        table[64 - empties] = net.blend(mover, opponent).mean(0).double().cpu().numpy()
    return table


def on_board(triangle: np.ndarray) -> np.ndarray:
    """Ten numbers ``[10]`` on all the squares that they stand for ``[64]``."""
    board = np.zeros(64)
    for squares in TRIANGLES:
        board[list(squares)] = triangle
    return board
