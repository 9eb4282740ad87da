"""How much a square tells about the winner: information gain for each class of squares and stage of the game.

    python -m othello_nn.fit.information
    python -m othello_nn.fit.information --games 20000 --every 6

The tournament report chose features by it (its section 5.2.2). Games are played as for ``fit/features.py``, with the
weights of the ``features`` player: mostly its best moves at 1-ply, some greedy, some random. A square is black, white
or empty. Its gain is what knowing that takes away, on average, from the uncertainty about who wins, in bits:
H(winner) − Σ P(state) · H(winner | state). Symmetric squares are one class, their games counted together; drawn games
are left out.

The formula in the report weighs each state by the chance of winning in it, not by that of the state itself, as gain is
defined. The definition is used here.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
from numba import int64, uint64

from othello_nn.engine.oneply import new_scratch
from othello_nn.fit.features import mixed_move
from othello_nn.fit.tool import add_numbers, exit_code, parser_of
from othello_nn.game.rules import transform_square
from othello_nn.game.syntax import square_name
from othello_nn.kernels.board import START, ZERO, final_score, play, side_to_move
from othello_nn.kernels.chance import random_stream
from othello_nn.kernels.jit import kernel
from othello_nn.options import Whole
from othello_nn.players.classic.features import shipped_features

NUMBERS = {
    "games": Whole(5000, "games to play", 1, 10**6),
    "every": Whole(6, "plies from one column to the next", 1, 60),
    "seed": Whole(1, "of the games", 0, 2**32),
}
BLACK, WHITE, EMPTY = 0, 1, 2


@kernel()
def play_games(ev, scratch, seed, blacks, whites, margins):
    """Play games; note the discs at each number of empties, [games, 61], and black's margin at the end, [games].

    A game that ends early leaves its last position at all numbers of empties below.
    """
    for i in range(margins.size):
        state = random_stream(seed, uint64(i))
        mover, opponent = START
        black_to_move = True
        for empties in range(60, -1, -1):
            black, white = (mover, opponent) if black_to_move else (opponent, mover)
            blacks[i, empties], whites[i, empties] = black, white
            mover, opponent, moves, passed = side_to_move(mover, opponent)
            black_to_move = black_to_move != passed
            if moves != ZERO:
                square, state = mixed_move(ev, scratch, mover, opponent, moves, int64(empties), state)
                mover, opponent = play(mover, opponent, square)
                black_to_move = not black_to_move
        margins[i] = final_score(black, white)


def square_classes() -> dict[str, list[int]]:
    """The squares that symmetries take into each other, by the name of the first: ten classes."""
    classes: dict[int, list[int]] = {}
    for square in range(64):
        classes.setdefault(min(transform_square(square, k) for k in range(8)), []).append(square)
    return {square_name(first): squares for first, squares in classes.items()}


def entropy(counts: np.ndarray) -> np.ndarray:
    """In bits, of the outcomes counted along the last axis; 0 where nothing was counted."""
    total = counts.sum(-1, keepdims=True)
    shares = counts / np.maximum(total, 1)
    return -np.where(shares > 0, shares * np.log2(np.where(shares > 0, shares, 1)), 0).sum(-1)


def information_gain(counts: np.ndarray) -> float:
    """What knowing the state tells about the outcome, in bits, from counts [states, outcomes]."""
    shares = counts.sum(-1) / max(counts.sum(), 1)
    return float(entropy(counts.sum(0)) - (shares * entropy(counts)).sum())


def state_counts(blacks: np.ndarray, whites: np.ndarray, black_wins: np.ndarray, squares: Sequence[int]) -> np.ndarray:
    """How often one of ``squares`` was black, white or empty in games that black lost and won: [3, 2].

    Boards are [N] uint64, ``black_wins`` [N] bool.
    """
    counts = np.zeros((3, 2))
    for square in squares:
        states = np.full(len(blacks), EMPTY)
        for state, discs in ((BLACK, blacks), (WHITE, whites)):
            states[discs >> np.uint64(square) & np.uint64(1) == 1] = state
        np.add.at(counts, (states, black_wins.astype(int)), 1)
    return counts


def gains(games: int, seed: int, empties: Sequence[int]) -> dict[str, list[float]]:
    """The gain of each class of squares at each of ``empties``, in bits, from games of the ``features`` player."""
    blacks, whites = np.zeros((games, 61), np.uint64), np.zeros((games, 61), np.uint64)
    margins, scratch = np.zeros(games, np.int64), new_scratch()
    play_games(shipped_features().leaf, scratch.ctypes.data, np.uint64(seed), blacks, whites, margins)
    decided = margins != 0
    wins = margins[decided] > 0
    return {
        name: [
            information_gain(state_counts(blacks[decided, count], whites[decided, count], wins, squares))
            for count in empties
        ]
        for name, squares in square_classes().items()
    }


def main(argv: Sequence[str] | None = None) -> int:
    parser = parser_of("fit.information", __doc__)
    add_numbers(parser, NUMBERS)
    args = parser.parse_args(argv)

    def work() -> None:
        empties = range(60 - args.every, -1, -args.every)
        found = gains(args.games, args.seed, empties)
        print("| empties | " + " | ".join(map(str, empties)) + " |")
        print("|---" * (len(empties) + 1) + "|")
        for name, row in found.items():
            print(f"| {name} | " + " | ".join(f"{gain:.3f}" for gain in row) + " |")

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main())
