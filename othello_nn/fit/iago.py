"""Measure in games what Rosenbloom's paper leaves open about IAGO's evaluation, and print it.

    python -m othello_nn.fit.iago

Games begin with random moves and go on with a shallow search by the shipped net, with a random move now and then. From
their positions come ``iago_edges.CHANCES``, how often an edge square can be played by what stands beside it, and
``iago.SCALE``, the one number with which ``62 · value / (|value| + SCALE)`` comes nearest to the games' results in
discs (least squares).
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator

import numpy as np

from othello_nn.engine.driver import Engine, Options
from othello_nn.engine.leaf.compile import shipped_evaluator
from othello_nn.engine.score import LEAF_LIMIT, SCORE_DISC
from othello_nn.fit.games import OPENING_PLIES, noisy_game
from othello_nn.fit.tool import add_numbers, exit_code, parser_of
from othello_nn.game.position import Position
from othello_nn.options import Whole
from othello_nn.players.classic.iago import iago_evaluator
from othello_nn.players.classic.iago_edges import turns_on_edge

NOISES = (0.0, 0.1, 0.3)
RANKS = [[8 * line + i for i in range(8)] for line in (0, 7)]
FILES = [[8 * i + line for i in range(8)] for line in (0, 7)]
FIRST, LAST = 4, 50  # empties of the positions that the scale is fitted to: between the opening and the solver


def play_games(games: int, rng: random.Random) -> Iterator[list[Position]]:
    """The positions of each game, the last one over."""
    engine = Engine(shipped_evaluator(), Options(table_mb=1))
    for _ in range(games):
        yield list(noisy_game(engine, rng, rng.choice(NOISES)))


def count_chances(positions: list[Position]) -> np.ndarray:
    """[3, 3, 2] by own and other neighbours: how often an edge square was empty and how often it could be played.

    Corners are left out, and so are squares where a disc would be turned along the edge.
    """
    counts, turns = np.zeros((3, 3, 2), np.int64), turns_on_edge()
    for position in positions:
        legal = position.legal_mask
        for edge in RANKS + FILES:
            own = [position.mover >> square & 1 for square in edge]
            other = [position.opponent >> square & 1 for square in edge]
            number = sum((own[i] + 2 * other[i]) * 3**i for i in range(8))
            for i in range(1, 7):
                if not (own[i] or other[i] or turns[i, number]):
                    cell = counts[own[i - 1] + own[i + 1], other[i - 1] + other[i + 1]]
                    cell += (1, legal >> edge[i] & 1)
    return counts


def fit_scale(values: np.ndarray, results: np.ndarray) -> tuple[float, float]:
    """The best scale, to 1%, and the root mean square error in discs."""
    scales = np.exp(np.arange(np.log(1e4), np.log(1e7), 0.01))
    most = LEAF_LIMIT / SCORE_DISC
    errors = [np.sqrt(np.mean((results - most * values / (np.abs(values) + scale)) ** 2)) for scale in scales]
    best = int(np.argmin(errors))
    return float(scales[best]), float(errors[best])


NUMBERS = {"games": Whole(1000, "games to play", 1), "seed": Whole(1, "of the random moves")}


def run(games: int, seed: int) -> None:
    """Play, measure, print."""
    positions, results = [], []
    for game in play_games(games, random.Random(seed)):
        black = game[-1].black_score()
        for position in game[OPENING_PLIES:-1]:
            positions.append(position)
            results.append(black if position.black_to_move else -black)
    counts = count_chances(positions)
    print(f"{len(positions):,} positions of {games:,} games")
    for own, other in zip(*np.nonzero(counts[:, :, 0]), strict=True):
        seen, legal = counts[own, other]
        print(f"{own} own and {other} other neighbours: {legal / seen:.3f} of {seen:,}")
    chosen = [i for i, position in enumerate(positions) if FIRST <= position.empties <= LAST]
    movers, opponents = (
        np.array([getattr(positions[i], side) for i in chosen], np.uint64) for side in ("mover", "opponent")
    )
    scale, error = fit_scale(iago_evaluator().values(movers, opponents), np.array(results, float)[chosen])
    print(f"scale {scale:,.0f}, error {error:.1f} discs, {len(chosen):,} positions of {FIRST} to {LAST} empties")


def main(argv: list[str] | None = None) -> int:
    parser = parser_of("fit.iago", __doc__)
    add_numbers(parser, NUMBERS)
    args = parser.parse_args(argv)

    def work() -> None:
        run(args.games, args.seed)

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main())
