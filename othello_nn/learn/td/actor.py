"""Games on the CPU: the 1-ply player of ``engine/oneply.py`` against itself or a fixed rival, many times over.

The Numba twin of ``selfplay.py``: the same rules, the same ``Trajectory``, some ten times as many games a second. (A
move that wipes the other side out is played here unasked; there the net is asked about it too.) Each game's chance
comes from (seed, number of the game), so the games do not depend on threads or batches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numba import int64, uint64

from othello_nn.engine.leaf.compile import Evaluator, leaf_pair
from othello_nn.engine.oneply import new_scratch, one_ply
from othello_nn.kernels.board import START, ZERO, final_score, play, side_to_move
from othello_nn.kernels.chance import ALWAYS, below, chance_move, next_random, random_stream
from othello_nn.kernels.jit import kernel
from othello_nn.kernels.parallel import in_threads, parts_of
from othello_nn.learn.td.trajectory import MOST_MOVES, Trajectory

CHUNK = 64  # games a thread plays at a time


@kernel()
def play_games(
    as_black,
    as_white,
    rival_black,
    rival_white,
    scratch,
    seed,
    first,
    epsilon,
    opening_plies,
    against,
    cut,
    movers,
    opponents,
    sign,
    explored,
    black_to_move,
    length,
    margin,
):
    """Fill the arrays ``[games, 60]`` and ``[games]`` of a trajectory with games number ``first`` and on.

    ``epsilon`` is in 2⁻³². ``against``: a rival has the other colour, the learner is black in even games and only its
    afterstates are recorded. ``cut``: random moves after the opening count as explored.
    """
    for game in range(movers.shape[0]):
        index = int64(first + game)
        learner_black = index & int64(1) == int64(0)
        state = next_random(random_stream(seed, uint64(index)))
        opening = int64(60) - below(state, int64(opening_plies + 1))
        mover, opponent = START
        black, empties, row = True, int64(60), int64(0)
        while True:
            mover, opponent, moves, passed = side_to_move(mover, opponent)
            black = black != passed
            if moves == ZERO:
                break
            learners = not against or black == learner_black
            in_opening = empties > opening
            square, state = chance_move(moves, int64(ALWAYS) if in_opening else int64(epsilon), state)
            chance = square >= int64(0) and (in_opening or cut)
            if square < int64(0):
                if learners:
                    if black:
                        square, state = one_ply(as_black, scratch, mover, opponent, moves, empties, state)
                    else:
                        square, state = one_ply(as_white, scratch, mover, opponent, moves, empties, state)
                elif black:
                    square, state = one_ply(rival_black, scratch, mover, opponent, moves, empties, state)
                else:
                    square, state = one_ply(rival_white, scratch, mover, opponent, moves, empties, state)
            mover, opponent = play(mover, opponent, square)
            black = not black
            empties -= int64(1)
            if learners:
                movers[game, row], opponents[game, row] = mover, opponent
                explored[game, row], black_to_move[game, row] = chance, black
                if row > int64(0):
                    sign[game, row - 1] = 1 if black == black_to_move[game, row - 1] else -1
                row += int64(1)
        length[game] = row
        # Only a game that ends before the learner's first move has no row; black's view will do for it.
        last_black = black_to_move[game, row - 1] if row > int64(0) else True
        score = final_score(mover, opponent)
        margin[game] = score if black == last_black else -score


@dataclass(frozen=True)
class Exploration:
    """How chance enters the games that are learnt from."""

    epsilon: float = 0.1
    opening_plies: int = 0
    """Each game begins with 0 to so many random moves."""
    cut: bool = True
    """A random move tells nothing about what came before; if false, chance is a part of the world."""


def play_numbered(
    net: Evaluator,
    exploration: Exploration,
    seed: int,
    first: int,
    games: int,
    *,
    rival: Evaluator | None = None,
    threads: int = 1,
) -> Trajectory:
    """Games number ``first`` and on of ``net`` against itself or ``rival``, as ``selfplay.play`` records them."""
    rows, each = (games, MOST_MOVES), (games,)
    arrays = {"mover": np.zeros(rows, np.uint64), "opponent": np.zeros(rows, np.uint64)}
    arrays |= {"sign": np.zeros(rows, np.int8), "explored": np.zeros(rows, np.bool_)}
    arrays |= {"black_to_move": np.zeros(rows, np.bool_)}
    arrays |= {"length": np.zeros(each, np.int64), "margin": np.zeros(each, np.int64)}
    leaves = (*leaf_pair(net), *leaf_pair(net if rival is None else rival))
    against = rival is not None
    chance = (int(exploration.epsilon * ALWAYS), exploration.opening_plies, against, exploration.cut and not against)

    def work(part: slice) -> None:
        scratch = new_scratch()
        numbers = (scratch.ctypes.data, np.uint64(seed), first + part.start)
        play_games(*leaves, *numbers, *chance, *(array[part] for array in arrays.values()))

    in_threads(work, parts_of(games, CHUNK), threads)
    tensors = {name: torch.from_numpy(_signed(array)) for name, array in arrays.items()}
    return Trajectory(**{name: tensor.T if tensor.dim() == 2 else tensor for name, tensor in tensors.items()})


def _signed(array: np.ndarray) -> np.ndarray:
    return array.view(np.int64) if array.dtype == np.uint64 else array
