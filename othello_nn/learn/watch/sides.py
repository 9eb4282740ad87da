"""Nets as players of many games at once: how to ask them for moves, compiled or not, and games to look at."""

from __future__ import annotations

import numpy as np

from othello_nn.arena.lockstep import Boards, CompiledSide, Side
from othello_nn.engine.leaf.compile import compile_net, why_not_compiled
from othello_nn.kernels.bits import flips_of, legal_of, lowest_square, popcount
from othello_nn.kernels.board import ONE, ZERO, after
from othello_nn.kernels.jit import kernel
from othello_nn.learn.watch.probes import ask
from othello_nn.nets.base import Net


@kernel("int64(uint64[::1], uint64[::1])")
def count_moves(movers, opponents):
    total = 0
    for i in range(movers.size):
        total += popcount(legal_of(movers[i], opponents[i]))
    return total


@kernel("void(uint64[::1], uint64[::1], uint64[::1], uint64[::1], int64[::1], int64[::1])")
def expand(movers, opponents, next_movers, next_opponents, squares, starts):
    """Fill arrays [moves] with all positions after a move of each position [n]; its first is at ``starts[n]``."""
    row = 0
    for i in range(movers.size):
        starts[i] = row
        moves = legal_of(movers[i], opponents[i])
        while moves != ZERO:
            square = lowest_square(moves)
            moves &= moves - ONE
            turned = flips_of(movers[i], opponents[i], square)
            next_movers[row], next_opponents[row] = after(movers[i], opponents[i], square, turned)
            squares[row] = square
            row += 1


class TorchSide:
    """A net at 1-ply, asked about all moves of all positions at once, where it is. Of equals the first is taken."""

    def __init__(self, net: Net):
        self.net = net

    def squares(self, movers: np.ndarray, opponents: np.ndarray, black: bool, states: np.ndarray) -> np.ndarray:
        total = count_moves(movers, opponents)
        children = np.empty(total, np.uint64), np.empty(total, np.uint64)
        squares, starts = np.empty(total, np.int64), np.empty(len(movers), np.int64)
        expand(movers, opponents, *children, squares, starts)
        values = np.nan_to_num(ask(self.net, (*children, np.full(total, not black))), nan=np.inf)
        ends = [*starts[1:].tolist(), total]
        best = [first + int(np.argmin(values[first:end])) for first, end in zip(starts.tolist(), ends, strict=True)]
        return squares[best]


def side_of(net: Net) -> Side:
    """A net as a player at 1-ply."""
    if why_not_compiled(net.config):
        return TorchSide(net)
    return CompiledSide(compile_net(net.config, {name: each.cpu().numpy() for name, each in net.state_dict().items()}))


def discs_of(net: Net, boards: Boards) -> np.ndarray:
    """What a net says of positions, in discs for the side to move."""
    return ask(net, (boards.movers, boards.opponents, boards.blacks))
