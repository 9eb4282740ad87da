"""Fit Multi-ProbCut to an evaluator and store the result in its file.

    python -m othello_nn.fit.probcut checkpoints/champion.safetensors

Positions are searched at every depth and, near the end, solved; ``engine/probcut.ProbCut`` is the smooth function
through the errors, so that it also covers depths too expensive to sample.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from othello_nn.checkpoint import Checkpoint
from othello_nn.engine.driver import Engine, Limit, Options
from othello_nn.engine.leaf.compile import ColouredEvaluator, compile_checkpoint
from othello_nn.engine.leaf.tables import LeafEvaluator
from othello_nn.engine.probcut import (
    KINDS,
    PLAIN_MIN_DEPTH,
    PLAIN_TERMS,
    TERMS,
    ProbCut,
    kind_of,
    line_terms,
    shallow_depth,
    terms,
)
from othello_nn.errors import OthelloError
from othello_nn.fit.games import noisy_game
from othello_nn.fit.tool import add_numbers, exit_code, parser_of, tell
from othello_nn.game.position import Position
from othello_nn.options import Whole
from othello_nn.resources import find_net


class FitError(OthelloError, ValueError):
    """Too little to fit anything to."""


FEWEST_OF_A_LINE = 50
TOO_FEW = "too few positions, or too shallow, to fit ProbCut; take more positions"
EMPTIES, NOISES = (12, 54), (0.1, 0.3, 0.6)
NUMBERS = {
    "positions": Whole(800, "positions to search", 1),
    "depth": Whole(9, "deepest search", 2, 60),
    "solve": Whole(18, "solve positions of up to so many empties", 0, 30),
    "seed": Whole(1, "of the positions"),
}


def sample_positions(engine, rng: random.Random, count: int) -> Iterator[Position]:
    """Positions of games with a noisy opening and reasonable play after it, spread over the numbers of empties."""
    while count:
        target, noise = rng.randint(*EMPTIES), rng.choice(NOISES)
        for position in noisy_game(engine, rng, noise):
            if position.empties <= target:
                break
        if not position.is_over and not position.must_pass:
            count -= 1
            yield position


def measure(engine, position: Position, depth: int, solve_empties: int) -> dict[int, float]:
    """Value at each depth, full width; with few enough empties the exact score stands at depth = empties."""
    values = {0: float(engine.evaluator.discs(*_boards(position))[0])}

    def note(result):
        values[result.depth] = result.raw_score

    engine.search(position, Limit(depth=min(depth, position.empties - 1)), on_iteration=note)
    if position.empties <= solve_empties:
        values[position.empties] = engine.solve(position).score
    return values


def _boards(position: Position) -> tuple[np.ndarray, np.ndarray]:
    return np.array([position.mover], np.uint64), np.array([position.opponent], np.uint64)


Sample = tuple[int, dict[int, float]]
"""The number of empties, and the value at each depth."""


def fit(samples: list[Sample]) -> ProbCut:
    """Lines by least squares; then log σ, likewise, through what errors they leave."""
    pairs = _pairs(samples)
    empties, deep, shallow, wanted, found = pairs.T
    kinds, is_end = kind_of(deep, shallow), deep >= empties
    lines = np.tile(np.array([1.0, 0, 0, 0, 0]), (KINDS, 1))
    for kind in range(KINDS):
        chosen = (kinds == kind) & ~is_end
        if chosen.sum() >= FEWEST_OF_A_LINE:
            asked = line_terms(found[chosen], empties[chosen])
            lines[kind] = np.linalg.lstsq(asked, wanted[chosen], rcond=None)[0]
    errors = wanted - np.where(is_end, found, (line_terms(found, empties) * lines[kinds]).sum(-1))
    return ProbCut(_log_sigma(empties, deep, shallow, errors, TERMS), lines)


def fit_plain(samples: list[Sample]) -> ProbCut:
    """The deviation alone, about what the shallow search has found: a = 1 and b = 0, from ``PLAIN_MIN_DEPTH`` on.

    Of pairs that such a search could use: a shallow search of one ply at least, and of the same parity.
    """
    pairs = _pairs(samples)
    far, near = pairs[:, 1], pairs[:, 2]
    empties, deep, shallow, wanted, found = pairs[(far >= PLAIN_MIN_DEPTH) & (near >= 1) & ((far - near) % 2 == 0)].T
    numbers = _log_sigma(empties, deep, shallow, wanted - found, PLAIN_TERMS)
    return ProbCut.of(numbers)


def _pairs(samples: list[Sample]) -> np.ndarray:
    """``[pairs, 5]``: empties, deep and shallow depth, and what was found at both."""
    pairs = [
        (empties, deep, shallow, values[deep], values[shallow])
        for empties, values in samples
        for deep in values
        for shallow in values
        if shallow < deep
    ]
    if not pairs:
        raise FitError(TOO_FEW)
    return np.array(pairs, float)


def _log_sigma(empties, deep, shallow, errors, count: int) -> np.ndarray:
    """The first ``count`` terms of log σ: least squares of log root-mean-square error over groups of alike (empties,
    deep, shallow)."""
    groups: dict[tuple[float, float, float], list[float]] = {}
    for key, error in zip(zip(empties // 3 * 3 + 1, deep, shallow, strict=True), errors, strict=True):
        groups.setdefault(key, []).append(error)
    rows, targets, weights = [], [], []
    for (stage, far, near), group in groups.items():
        if len(group) >= 8:
            rows.append(terms(stage, far, near)[:count])
            targets.append(0.5 * np.log(np.mean(np.square(group)) + 0.05))
            weights.append(np.sqrt(len(group)))
    if len(rows) < 2 * count:
        raise FitError(TOO_FEW)
    scale = np.array(weights)[:, None]
    coefficients, *_ = np.linalg.lstsq(np.array(rows) * scale, np.array(targets) * scale[:, 0], rcond=None)
    return coefficients


def _tell(number: int, positions: int) -> None:
    if number % 50 == 0:
        tell(f"{number}/{positions} positions searched for ProbCut")


def fit_evaluator(evaluator: LeafEvaluator, positions: int, depth: int, solve_empties: int, seed: int) -> ProbCut:
    """Search and solve so many positions with the evaluator, and fit what was found; stderr is told how far it is."""
    return fit_watched(evaluator, positions, depth, solve_empties, seed, _tell)


def fit_watched(
    evaluator: LeafEvaluator,
    positions: int,
    depth: int,
    solve_empties: int,
    seed: int,
    on_position: Callable[[int, int], None],
) -> ProbCut:
    """The same for a caller who is told after each position: how many are done, and of how many."""
    return fit(searched_samples(evaluator, positions, depth, solve_empties, seed, on_position))


def searched_samples(
    evaluator: LeafEvaluator,
    positions: int,
    depth: int,
    solve_empties: int,
    seed: int,
    on_position: Callable[[int, int], None],
) -> list[Sample]:
    """What there is to be fitted: so many positions, searched and solved."""
    engine, samples = Engine(evaluator, Options(probcut=False)), []
    for number, position in enumerate(sample_positions(engine, random.Random(seed), positions), 1):
        samples.append((position.empties, measure(engine, position, depth, solve_empties)))
        on_position(number, positions)
    return samples


def run(path: Path, positions: int, depth: int, solve_empties: int, seed: int) -> None:
    """Fit, save, show."""
    checkpoint = Checkpoint.load(path)
    evaluator = compile_checkpoint(checkpoint, path.stem)
    if isinstance(evaluator, ColouredEvaluator):
        raise OthelloError(f"{path}: ProbCut needs a net that does not look at the colour to move")
    fitted = fit_evaluator(evaluator, positions, depth, solve_empties, seed)
    replace(checkpoint, probcut=fitted.numbers()).save(path)
    for empties in (12, 16, 20, 24, 32, 40, 48):
        depths = [d for d in (4, 6, 8, 10, empties) if d <= empties]
        cells = "  ".join(f"{d}:{float(fitted.sigma(empties, d, shallow_depth(d))):.1f}" for d in depths)
        print(f"empties {empties:2}  σ in discs at depth  {cells}")


def main(argv: list[str] | None = None) -> int:
    parser = parser_of("fit.probcut", __doc__)
    parser.add_argument("net", help="net to fit: a run's name or a file; the result is stored in the same file")
    add_numbers(parser, NUMBERS)
    args = parser.parse_args(argv)

    def work() -> None:
        run(find_net(args.net), args.positions, args.depth, args.solve, args.seed)

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main())
