"""Multi-ProbCut: how well a shallow search predicts a deep one, fitted for the evaluator in use.

    python -m othello_nn.engine.probcut checkpoints/pattern.safetensors

For a search of depth d with e empty squares, the result of a search of depth s < d is right but for an error of
deviation σ(e, d, s); where that result leaves the window by t·σ, the search trusts it. σ is a smooth function fitted
to positions searched at every depth and, near the end, solved (a solution is a search with d = e), so that it also
covers depths too expensive to sample. The levels of t trade trust for speed; level 0 cuts nothing. The command fits
an evaluator and stores the result in its file.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from othello_nn.engine.ttable import SCORE_DISC
from othello_nn.game.position import Position
from othello_nn.game.rules import PASS

# Deviations allowed for at each level; level 0 is a full-width search. Higher levels cut more.
SELECTIVITY_LEVELS = (None, 3.3, 2.6, 2.0, 1.5, 1.1)
MIDGAME_LEVEL = 5
MIN_DEPTH = 3
TERMS = 6


def shallow_depth(depth: int) -> int:
    """The depth whose result predicts ``depth``: about half, of the same parity, since odd and even depths differ."""
    return 2 * (depth // 4) + (depth & 1)


def terms(empties, depth, shallow) -> np.ndarray:
    """The terms of log σ, ``[…, TERMS]``: powers of d − s and of s, the stage, and whether d is the end of the game.

    Powers stay sane far outside the sampled depths, where a polynomial in d does not.
    """
    e, d, s = (np.asarray(x, float) for x in (empties, depth, shallow))
    stage = e / 10
    return np.stack([np.ones_like(e), stage, stage**2, np.log(d - s), np.log(s + 1), (d >= e).astype(float)], axis=-1)


@dataclass(frozen=True, eq=False)
class ProbCut:
    """Fitted coefficients of log σ (in discs), ``[TERMS]``."""

    log_sigma: np.ndarray

    def __post_init__(self):
        if self.log_sigma.shape != (TERMS,):
            raise ValueError(f"ProbCut needs {TERMS} coefficients, not {self.log_sigma.shape}")
        if not np.isfinite(self.log_sigma).all():
            raise ValueError("ProbCut's coefficients must be finite numbers")

    def sigma(self, empties, depth, shallow) -> np.ndarray:
        """Deviation in discs."""
        return np.exp(terms(empties, depth, shallow) @ self.log_sigma)

    def rows(self) -> np.ndarray:
        """``[65 empties, 65 depths, 2]`` int32 for the search: shallow depth and deviation in score units."""
        table = np.zeros((65, 65, 2), np.int32)
        for depth in range(MIN_DEPTH, 61):
            shallow = shallow_depth(depth)
            empties = np.arange(depth, 65)
            sigma = np.clip(self.sigma(empties, np.full(len(empties), depth), np.full(len(empties), shallow)), 0.5, 24)
            table[depth:, depth, 0] = shallow
            table[depth:, depth, 1] = np.rint(sigma * SCORE_DISC)
        return table


def sample_positions(engine, rng: random.Random, count: int) -> Iterator[Position]:
    """Positions of games with a noisy opening and reasonable play after it, spread over the numbers of empties."""
    from othello_nn.engine.driver import Limit

    while count:
        position, target, noise = Position.start(), rng.randint(12, 54), rng.choice((0.1, 0.3, 0.6))
        while position.empties > target and not position.is_over:
            if position.must_pass:
                position = position.play(PASS)
            elif position.empties > 52 or rng.random() < noise:
                position = position.play(rng.choice(position.legal_moves))
            else:
                position = position.play(engine.search(position, Limit(depth=2)).move)
        if not position.is_over and not position.must_pass:
            count -= 1
            yield position


def measure(engine, position: Position, depth: int, solve_empties: int) -> dict[int, float]:
    """Value at each depth, full width; with few enough empties the exact score stands at depth = empties."""
    from othello_nn.engine.driver import Limit

    values: dict[int, float] = {}

    def note(result):
        values[result.depth] = result.score

    engine.search(position, Limit(depth=min(depth, position.empties - 1)), on_iteration=note)
    if position.empties <= solve_empties:
        values[position.empties] = engine.solve(position).score
    return values


def fit(samples: list[tuple[int, dict[int, float]]]) -> ProbCut:
    """Least squares of log root-mean-square error over groups of alike (empties, deep, shallow)."""
    groups: dict[tuple[int, int, int], list[float]] = {}
    for empties, values in samples:
        for deep in values:
            for shallow in values:
                # Only pairs that the search could use: same parity, about half.
                if deep >= MIN_DEPTH and 1 <= shallow <= deep - 2 and (deep - shallow) % 2 == 0:
                    error = values[deep] - values[shallow]
                    groups.setdefault((empties // 3 * 3 + 1, deep, shallow), []).append(error)
    rows, targets, weights = [], [], []
    for (empties, deep, shallow), errors in groups.items():
        if len(errors) >= 8:
            rows.append(terms(empties, deep, shallow))
            targets.append(0.5 * np.log(np.mean(np.square(errors)) + 0.05))
            weights.append(np.sqrt(len(errors)))
    if len(rows) < 2 * TERMS:
        raise ValueError("too few positions, or too shallow, to fit ProbCut; take more positions")
    scale = np.array(weights)[:, None]
    coefficients, *_ = np.linalg.lstsq(np.array(rows) * scale, np.array(targets) * scale[:, 0], rcond=None)
    return ProbCut(coefficients)


def main(argv: list[str] | None = None) -> int:
    from othello_nn.engine.driver import Engine, Options
    from othello_nn.engine.tables import TableEvaluator

    parser = argparse.ArgumentParser(prog="python -m othello_nn.engine.probcut", description=__doc__.partition("\n")[0])
    parser.add_argument("checkpoint", help="table evaluator to fit; the result is stored in the same file")
    parser.add_argument("--positions", type=int, default=800)
    parser.add_argument("--depth", type=int, default=9, help="deepest search (default 9)")
    parser.add_argument("--solve", type=int, default=18, help="solve positions of up to this many empties (default 18)")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(argv)
    try:
        evaluator = TableEvaluator.load(args.checkpoint)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    engine = Engine(evaluator, Options(probcut=False))
    samples = []
    for i, position in enumerate(sample_positions(engine, random.Random(args.seed), args.positions), 1):
        samples.append((position.empties, measure(engine, position, args.depth, args.solve)))
        if i % 50 == 0:
            print(f"{i}/{args.positions} positions", file=sys.stderr, flush=True)
    try:
        fitted = fit(samples)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    replace(evaluator, probcut=fitted.log_sigma).save(args.checkpoint)
    for empties in (12, 16, 20, 24, 32, 40, 48):
        depths = [d for d in (4, 6, 8, 10, empties) if d <= empties]
        cells = "  ".join(f"{d}:{float(fitted.sigma(empties, d, shallow_depth(d))):.1f}" for d in depths)
        print(f"empties {empties:2}  σ in discs at depth  {cells}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
