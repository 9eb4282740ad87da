"""Learn the weights of the ``features`` player, from the endgame backwards.

    python -m othello_nn.fit.features
    python -m othello_nn.fit.features --positions 1000 --out mine.safetensors

Stages of two plies are learnt one after the other, the last of the game first. Each has positions of its own, from
games whose moves are random (10 %), greedy (20 %: turn the most discs) or the best at 1-ply (70 %), as in the
tournament report. What they are worth is asked of the exact solver with few empties, else of a search that ends in
stages already learnt (``fit/labels.py``): so the truth travels backwards. ``learn/backwards.py`` does the same for
n-tuple nets.

The report changed its weights a little after each position, towards the value that the search had found. The same
squared error has its minimum where a linear equation says, so here a stage is one least-squares fit, without a learning
rate. As in ``learn/backwards.py``, lopsided positions count for less. Where a stage's positions say little about a
weight (there are no corners to learn from in the opening) it stays near that of the stage after.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numba import int64, uint64

from othello_nn.engine.oneply import new_scratch, one_ply
from othello_nn.fit.labels import FOCUS_DISCS, Labelled, label_positions, label_workspace
from othello_nn.fit.tool import add_numbers, check_place, exit_code, parser_of, tell
from othello_nn.kernels.bits import flips_of, lowest_square, popcount
from othello_nn.kernels.board import ONE, START, ZERO, play, side_to_move
from othello_nn.kernels.chance import below, next_random, random_move, random_stream
from othello_nn.kernels.jit import kernel
from othello_nn.kernels.parallel import parts_of
from othello_nn.options import Section, Whole, declared
from othello_nn.players.classic.features import COUNT, SHIPPED, STAGES, TERMS, FeatureEvaluator, term_values
from othello_nn.players.classic.wystan import WYSTAN

RANDOM_PERCENT, GREEDY_PERCENT = 10, 20  # the report's
SOLVE_EMPTIES = 15  # its last 14 plies, rounded up to a whole stage
# It searched 8 plies. Here that took six times as long, and the weights scored 0.527 ± 0.069 in 200 games at depth 4
# against those from 6.
DEPTH = 6
POSITIONS = 4000
# A weight is pulled towards that of the stage learnt before as strongly as by so many positions with one more of its
# term: of no account where there are thousands.
PULL = 20.0
CHUNK = 100  # positions labelled in one step: between steps the program listens to Ctrl-C
TESTED = 10  # one position in so many is kept from the fit, to tell its error


@dataclass(frozen=True)
class Recipe(Section):
    """How weights are learnt; stored with them."""

    positions: int = declared(Whole(POSITIONS, "games for each stage, of which every one gives a position", 1, 10**7))
    # The value is the mean of a search of so many plies and one of one less. Both must leave the stage's two plies.
    depth: int = declared(Whole(DEPTH, "plies of the searches", 3, 20))
    solve_empties: int = declared(
        Whole(SOLVE_EMPTIES, "positions with at most so many empty squares are solved", 2, 24)
    )
    seed: int = declared(Whole(1, "of the games", 0, 2**32))
    without: tuple[str, ...] = ()
    """Terms that are left out: their weights stay 0."""

    def __post_init__(self):
        super().__post_init__()
        for term in self.without:
            if term not in TERMS:
                raise ValueError(f"there is no feature {term!r}; choose from {', '.join(TERMS)}")


@kernel("int64(uint64, uint64, uint64)")
def greedy_move(mover, opponent, moves):
    """The one of ``moves`` (not empty) that turns the most discs."""
    most, best = int64(0), int64(-1)
    while moves != ZERO:
        square = lowest_square(moves)
        moves &= moves - ONE
        turned = popcount(flips_of(mover, opponent, square))
        if turned > most:
            most, best = turned, square
    return best


@kernel()
def mixed_move(ev, scratch, mover, opponent, moves, empties, state):
    """One of ``moves`` (not empty), random, greedy or the best at 1-ply, and the random state after it."""
    state = next_random(state)
    kind = below(state, int64(100))
    if kind < int64(RANDOM_PERCENT):
        return random_move(moves, state)
    if kind < int64(RANDOM_PERCENT + GREEDY_PERCENT):
        return greedy_move(mover, opponent, moves), state
    return one_ply(ev, scratch, mover, opponent, moves, empties, state)


@kernel()
def mixed_game(ev, scratch, state, target):
    """The first position with a move and at most ``target`` empties of one game, and the random state after it.

    A game that ends before gives one without discs.
    """
    mover, opponent = START
    empties = int64(60)
    while True:
        mover, opponent, moves, _ = side_to_move(mover, opponent)
        if moves == ZERO:
            return ZERO, ZERO, state
        if empties <= target:
            return mover, opponent, state
        square, state = mixed_move(ev, scratch, mover, opponent, moves, empties, state)
        mover, opponent = play(mover, opponent, square)
        empties -= int64(1)


@kernel()
def sample_positions(ev, scratch, seed, fewest, most, movers, opponents):
    """One position with ``fewest``…``most`` empties, and a move to make, from each of so many games."""
    for i in range(movers.size):
        state = random_stream(seed, uint64(i))
        mover = opponent = ZERO
        while mover == ZERO:
            state = next_random(state)
            target = fewest + below(state, int64(most - fewest + 1))
            mover, opponent, state = mixed_game(ev, scratch, state, target)
        movers[i], opponents[i] = mover, opponent


def stage_empties(stage: int) -> tuple[int, int]:
    """Fewest and most empties of a stage's positions."""
    return max(2 * stage, 1), 2 * stage + 1 if stage < STAGES - 1 else 60


def labelled(stage: int, weights: np.ndarray, recipe: Recipe) -> Labelled:
    """A stage's distinct positions with what they are worth, by weights of which the later stages are learnt."""
    movers, opponents = np.zeros(recipe.positions, np.uint64), np.zeros(recipe.positions, np.uint64)
    scratch, seed = new_scratch(), np.uint64(recipe.seed * STAGES + stage)
    sample_positions(WYSTAN, scratch.ctypes.data, seed, *stage_empties(stage), movers, opponents)
    movers, opponents = np.unique(np.stack([movers, opponents]), axis=1)
    evaluator, labels = FeatureEvaluator("so far", weights), np.zeros(len(movers), np.float32)
    workspace, limits = label_workspace(), (recipe.solve_empties, recipe.depth)
    for part in parts_of(len(labels), CHUNK):
        label_positions(evaluator.leaf, workspace.address, movers[part], opponents[part], *limits, labels[part])
    return Labelled(movers, opponents, labels)


def least_squares(values: np.ndarray, labels: np.ndarray, near: np.ndarray) -> np.ndarray:
    """The weights that give ``labels`` from ``values`` [N, terms] with the least squared error, pulled to ``near``."""
    # Games are decided near zero: a lopsided position counts for less.
    counted = values.T / (1 + (labels / FOCUS_DISCS) ** 2)
    return np.linalg.solve(counted @ values + PULL * np.eye(len(near)), counted @ labels + PULL * near)


def fit(recipe: Recipe, on_stage: Callable[[int, int, float], None] | None = None) -> FeatureEvaluator:
    """Learn all stages. ``on_stage`` is told each stage, its positions, and its error in discs on those not fitted."""
    weights = np.zeros((STAGES, COUNT), np.float32)
    used = [i for i, term in enumerate(TERMS) if term not in recipe.without]
    errors = []
    for stage in range(STAGES):
        data = labelled(stage, weights, recipe)
        values = term_values(data.movers, data.opponents)[:, used]
        tested = np.random.default_rng(stage).permutation(len(values)) % TESTED == 0
        near = weights[max(stage - 1, 0), used].astype(np.float64)
        weights[stage, used] = least_squares(values[~tested], data.labels[~tested], near)
        misses = values[tested] @ weights[stage, used] - data.labels[tested]
        errors.append(round(float(np.sqrt(np.mean(misses**2))), 3))
        if on_stage is not None:
            on_stage(stage, len(values), errors[-1])
    return FeatureEvaluator("features", weights, {"recipe": asdict(recipe), "error_discs": errors})


def main(argv: Sequence[str] | None = None) -> int:
    parser = parser_of("fit.features", __doc__)
    add_numbers(parser, Recipe.options())
    parser.add_argument(
        "--without", action="append", default=[], metavar="FEATURE", help="leave it out; may be repeated"
    )
    parser.add_argument("--out", type=Path, default=SHIPPED, metavar="FILE", help="default: what `features` plays with")
    args = parser.parse_args(argv)
    started = time.perf_counter()

    def on_stage(stage: int, positions: int, error: float) -> None:
        fewest, most = stage_empties(stage)
        line = f"{fewest:2} to {most:2} empties: {positions} positions, error {error:.2f} discs"
        tell(f"{line}, {time.perf_counter() - started:.0f} s")

    def work() -> None:
        recipe = Recipe(args.positions, args.depth, args.solve_empties, args.seed, tuple(args.without))
        check_place(args.out)
        fit(recipe, on_stage).save(args.out)
        print(f"weights in {args.out}")

    return exit_code(work, "interrupted; nothing was saved")


if __name__ == "__main__":
    sys.exit(main())
