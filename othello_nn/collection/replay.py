"""Games as arrays of their positions: what statistics and learners go through, at a hundred thousand games or more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import int64

from othello_nn.game.record import Game
from othello_nn.game.rules import PASS
from othello_nn.kernels.board import play
from othello_nn.kernels.jit import kernel

_PASS = int(PASS)
_BEGUN = np.dtype([("mover", "<u8"), ("opponent", "<u8"), ("black", "<i8")])


class Positions(NamedTuple):
    """Positions ``[N]``, game by game in order: one before each move, and the one after the last.

    A position before a pass is left out, since its side has nothing to choose.
    """

    movers: np.ndarray  # uint64
    opponents: np.ndarray
    black_to_move: np.ndarray  # bool
    games: np.ndarray  # int32: the number of the game, from 0
    last: np.ndarray  # bool: nothing was played from here

    @property
    def empties(self) -> np.ndarray:
        return 64 - np.bitwise_count(self.movers | self.opponents).astype(np.int64)

    @property
    def blacks(self) -> np.ndarray:
        return np.where(self.black_to_move, self.movers, self.opponents)

    @property
    def whites(self) -> np.ndarray:
        return np.where(self.black_to_move, self.opponents, self.movers)


@kernel()
def replay_games(starts, ends, moves, begun, movers, opponents, black_to_move, games, last):
    """Play the moves ``starts[i]`` to ``ends[i]`` of each game from the position that ``begun`` has (mover, opponent,
    whether black moves); how many positions there are. All moves are legal."""
    written = int64(0)
    for game in range(starts.size):
        mover, opponent, black = begun[game].mover, begun[game].opponent, begun[game].black
        for i in range(starts[game], ends[game] + 1):
            ended = i == ends[game]
            move = int64(_PASS) if ended else int64(moves[i])
            if ended or move != int64(_PASS):
                movers[written], opponents[written] = mover, opponent
                black_to_move[written], games[written], last[written] = black != 0, game, ended
                written += int64(1)
            if ended:
                break
            if move == int64(_PASS):
                mover, opponent = opponent, mover
            else:
                mover, opponent = play(mover, opponent, move)
            black = 1 - black
    return written


def replayed(games: Sequence[Game]) -> Positions:
    """All positions of these games."""
    begun = np.array([(g.start.mover, g.start.opponent, g.start.black_to_move) for g in games], _BEGUN)
    ends = np.cumsum([len(game.moves) for game in games], dtype=np.int64)
    starts = np.concatenate(([0], ends[:-1])).astype(np.int64)
    moves = np.fromiter((int(move) for game in games for move in game.moves), np.int8)
    most = len(moves) + len(games)
    room = Positions(
        np.zeros(most, np.uint64),
        np.zeros(most, np.uint64),
        np.zeros(most, bool),
        np.zeros(most, np.int32),
        np.zeros(most, bool),
    )
    count = replay_games(starts, ends, moves, begun, *room)
    return Positions(*(array[:count] for array in room))
