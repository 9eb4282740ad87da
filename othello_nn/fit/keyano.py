"""Fit the opponent ``keyano`` to games of the shipped champion, and print what KEYANO's paper prints of its own fit.

    python -m othello_nn.fit.keyano --games 250000 --seed 1

The games are played first, then come the steps of the paper: values of all pattern configurations, with a small neural
net for those that were rarely seen; mobility curves; what a lost region costs; weights of the four terms for each
number of moves; at last Multi-ProbCut for the search. ``keyano_statistics.py`` has the regressions.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from othello_nn.engine.leaf.compile import shipped_evaluator
from othello_nn.engine.leaf.shapes import mirrored_cells
from othello_nn.engine.probcut import ProbCut, shallow_depth
from othello_nn.errors import OthelloError
from othello_nn.fit.keyano_games import CHUNK, SOLVED_EMPTIES, play_games
from othello_nn.fit.keyano_statistics import (
    WELL_SAMPLED,
    blended_value,
    fit_coefficients,
    fit_curves,
    lost_of,
    mobility_of,
    pattern_means,
)
from othello_nn.fit.labels import Labelled
from othello_nn.fit.probcut import fit_evaluator
from othello_nn.fit.tool import add_numbers, check_place, exit_code, parser_of, tell
from othello_nn.options import Whole
from othello_nn.players.classic.keyano import FITTED, KeyanoEvaluator
from othello_nn.players.classic.keyano_kernels import COUNTS, PATTERNS, SHAPES, TERMS, UNIT, WEIGHT_UNIT, WEIGHTS

SHOWN_MOVES = (20, 30, 40, 50)  # of the paper's Table 4
PARITY_COSTS = range(0, 129, 8)  # candidates, in mobility units; the paper's choice is 64
HIDDEN, STEPS, BATCH, RATE = 64, 12_000, 128, 4e-3  # of the net for rare configurations
NET_SCALE = 16.0  # discs that are 1 to the net
TESTED = 10  # one well-sampled configuration in so many is kept from the net, to tell its error
FEWEST_TAUGHT = 50  # with fewer well-sampled configurations the estimate is their mean
PROBCUT_DEPTH, PROBCUT_SOLVE = 8, 16
LARGEST_DISCS = 64.0


@dataclass(frozen=True)
class PatternReport:
    """How a pattern's table came about. Errors are root mean squares in discs over configurations kept from the net."""

    name: str
    cells: int
    seen: int
    well_sampled: int
    net_error: float
    spread: float


@dataclass(frozen=True, eq=False)
class Fit:
    """The evaluator and what the fit found on the way."""

    evaluator: KeyanoEvaluator
    patterns: list[PatternReport]
    correlations: dict[str, list[float]]
    """The paper's Table 4: kind of mobility → correlation with the label at ``SHOWN_MOVES``."""
    parity_costs: dict[int, float]
    """Candidate → mean of the correlations at ``SHOWN_MOVES``."""


# --- pattern values --------------------------------------------------------------------------------------------------


def net_estimates(squares: tuple[int, ...], counts: np.ndarray, means: np.ndarray, seed: int):
    """``[3^n]``: an estimate for each configuration, by a net that learns the well-sampled ones, each once.

    With it come the net's error and the spread of the values on configurations kept from it.
    """
    import torch

    same = mirrored_cells(squares)
    known = np.flatnonzero((counts >= WELL_SAMPLED) & (same.min(axis=0) == np.arange(len(counts))))
    if len(known) < FEWEST_TAUGHT:
        return np.full(len(counts), means[known].mean() if len(known) else 0.0), float("nan"), float("nan")
    digits = np.stack([np.arange(len(counts)) // 3**d % 3 for d in range(len(squares))], axis=1)  # 0 opponent, 2 mover
    inputs = torch.from_numpy(np.concatenate([digits == 0, digits == 2], axis=1).astype(np.float32))
    images, targets = torch.from_numpy(same), torch.from_numpy((means / NET_SCALE).astype(np.float32))
    known = np.random.default_rng(seed).permutation(known)
    tested, taught = (torch.from_numpy(part) for part in np.split(known, [len(known) // TESTED]))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = (torch.nn.Linear(inputs.shape[1], HIDDEN), torch.nn.Tanh(), torch.nn.Linear(HIDDEN, HIDDEN))
        net = torch.nn.Sequential(*layers, torch.nn.Tanh(), torch.nn.Linear(HIDDEN, 1))
        optimizer = torch.optim.Adam(net.parameters(), lr=RATE)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
        for _ in range(STEPS):
            batch = taught[torch.randint(len(taught), (BATCH,))]
            shown = images[torch.randint(len(images), (BATCH,)), batch]  # mirror images are to come out alike
            loss = (net(inputs[shown]).squeeze(1) - targets[batch]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        with torch.no_grad():
            raw = NET_SCALE * net(inputs).squeeze(1).double().numpy()
    estimates = raw[same].mean(axis=0)
    kept = tested.numpy()
    error = float(np.sqrt(np.square(estimates[kept] - means[kept]).mean()))
    return np.clip(estimates, -LARGEST_DISCS, LARGEST_DISCS), error, float(means[kept].std())


def fit_patterns(leaf: Any, data: Labelled, seed: int) -> tuple[np.ndarray, list[PatternReport]]:
    """``[cells]`` in discs: the value of every configuration."""
    counts, means = pattern_means(leaf, data)
    values, reports = np.zeros(SHAPES.cells), []
    for number, (name, squares) in enumerate(PATTERNS.items()):
        start = SHAPES.table_starts[number]
        part = slice(start, start + 3 ** len(squares))
        estimates, error, spread = net_estimates(squares, counts[part], means[part], seed + number)
        values[part] = blended_value(counts[part], means[part], estimates)
        seen, well = int((counts[part] > 0).sum()), int((counts[part] >= WELL_SAMPLED).sum())
        reports.append(PatternReport(name, 3 ** len(squares), seen, well, error, spread))
        tell(f"values of {name}: {well:,} of {3 ** len(squares):,} configurations well sampled")
    return values, reports


# --- all steps -------------------------------------------------------------------------------------------------------


def _parity(data: Labelled, curves: np.ndarray, exact: np.ndarray):
    """Correlations as in the paper's Table 4, and the cost of a lost region that does best over these stages."""
    played = np.bitwise_count(data.movers | data.opponents) - 4
    table: dict[str, list[float]] = {"exact": [], "approximate": [], "approximate + parity": []}
    by_cost = np.zeros((len(SHOWN_MOVES), len(PARITY_COSTS)))
    for stage, moves in enumerate(SHOWN_MOVES):
        part = data.pick(played == moves)
        approximate, lost = mobility_of(curves, part, False), lost_of(part) @ np.array([1.0, -1.0])
        table["exact"].append(_correlation(mobility_of(exact, part, True), part.labels))
        by_cost[stage] = [_correlation(approximate - cost * lost, part.labels) for cost in PARITY_COSTS]
    best = int(by_cost.mean(axis=0).argmax())
    table["approximate"], table["approximate + parity"] = by_cost[:, 0].tolist(), by_cost[:, best].tolist()
    return table, dict(zip(PARITY_COSTS, by_cost.mean(axis=0).tolist(), strict=True)), PARITY_COSTS[best]


def _correlation(values: np.ndarray, labels: np.ndarray) -> float:
    if len(labels) < 2 or not values.std() or not labels.std():
        return 0.0
    return float(np.corrcoef(values, labels)[0, 1])


def fit(data: Labelled, seed: int) -> Fit:
    """Everything but ProbCut, from labelled positions."""
    import torch

    torch.set_num_threads(1)  # nets this small only lose by sharing
    nothing = KeyanoEvaluator.of(np.zeros(SHAPES.cells), np.zeros((2, COUNTS)), np.zeros((65, WEIGHTS)), 0)
    values, patterns = fit_patterns(nothing.leaf, data, seed)
    curves = fit_curves(data, exact=False)
    correlations, costs, parity = _parity(data, curves, fit_curves(data, exact=True))
    tell("mobility curves fitted")
    terms = KeyanoEvaluator.of(values, curves, np.zeros((65, WEIGHTS)), parity)
    coefficients = fit_coefficients(terms.leaf, data)
    tell("weights of the terms fitted")
    return Fit(KeyanoEvaluator.of(values, curves, coefficients, parity), patterns, correlations, costs)


def show(found: Fit) -> None:
    """The tables, on stdout."""
    evaluator = found.evaluator
    print("pattern          cells   seen  100 times   net's error (spread), discs")
    for one in found.patterns:
        print(f"{one.name:14s} {one.cells:7,} {one.seen:6,} {one.well_sampled:10,}", end="   ")
        print(f"{one.net_error:.2f} ({one.spread:.2f})")
    print(f"\ncorrelation with the final disc difference after {', '.join(map(str, SHOWN_MOVES))} moves")
    for name, row in found.correlations.items():
        print(f"{name:21s} " + "  ".join(f"{value:.3f}" for value in row))
    shown = {cost: found.parity_costs[cost] for cost in (0, 16, 32, 64, 128)}
    print(
        f"\na lost region costs {evaluator.parity // UNIT}; mean correlation with other costs: "
        + ", ".join(f"{cost}: {value:.4f}" for cost, value in shown.items())
    )
    counts = (0, 1, 2, 3, 5, 7, 10, 15, 20, 25, 30, 35)
    print("\nvalue of a number of flipping directions (four units are a disc)")
    print("directions   " + "".join(f"{count:6}" for count in counts))
    for name, curve in zip(("whole board", "a quarter"), evaluator.curves / UNIT, strict=True):
        print(f"{name:13s}" + "".join(f"{curve[count]:6.0f}" for count in counts))
    print("\nmoves   " + "".join(f"{name:>10s}" for name in (*TERMS, "constant")))
    for moves in range(5, 60, 5):
        row = evaluator.coefficients[60 - moves] / WEIGHT_UNIT
        print(f"{moves:5}   " + "".join(f"{weight:10.4f}" for weight in row))
    if evaluator.probcut is not None:
        fitted = ProbCut.of(evaluator.probcut)
        cells = "  ".join(f"{d}: {float(fitted.sigma(30, d, shallow_depth(d))):.1f}" for d in (4, 6, 8, 10))
        print(f"\nProbCut: deviation in discs at 30 empties, by depth  {cells}")


# --- the command -----------------------------------------------------------------------------------------------------

NUMBERS = {
    "games": Whole(250_000, "games to play, some minutes", 10),
    "seed": Whole(1, "of games, nets and ProbCut's positions", 0),
    "depth": Whole(2, "plies the champion looks ahead in the games", 1),
    "probcut": Whole(400, "positions to fit ProbCut to; 0: none", 0),
}


def _recipe(args: argparse.Namespace, found: Fit, positions: int) -> dict[str, Any]:
    command = f"python -m othello_nn.fit.keyano --games {args.games} --seed {args.seed} --depth {args.depth}"
    return {
        "command": f"{command} --probcut {args.probcut}",
        "player": "champion",
        "solved_empties": SOLVED_EMPTIES,
        "positions": positions,
        "correlations": {name: [round(x, 4) for x in row] for name, row in found.correlations.items()},
        "correlations_after_moves": list(SHOWN_MOVES),
        "well_sampled": {one.name: one.well_sampled for one in found.patterns},
    }


def run(args: argparse.Namespace) -> None:
    """Play, fit, save, show."""
    check_place(args.out)
    champion = shipped_evaluator()
    if champion is None:
        raise OthelloError("the games need checkpoints/champion.safetensors, which is not there")
    started = time.perf_counter()

    def on_progress(done: int) -> None:
        if done * 10 // args.games != (done - CHUNK) * 10 // args.games:
            tell(f"{done:,}/{args.games:,} games, {time.perf_counter() - started:.0f} s")

    data = play_games(champion.leaf, args.games, args.seed, args.depth, on_progress)
    found = fit(data, args.seed)
    evaluator = replace(found.evaluator, info=_recipe(args, found, len(data.labels)))
    evaluator.save(args.out)
    if args.probcut:
        tell(f"{args.out} written, as yet without ProbCut")
        probcut = fit_evaluator(evaluator, args.probcut, PROBCUT_DEPTH, PROBCUT_SOLVE, args.seed)
        evaluator = replace(evaluator, probcut=probcut.numbers())
        evaluator.save(args.out)
    show(replace(found, evaluator=evaluator))
    tell(f"{args.out} written, {time.perf_counter() - started:.0f} s in all")


def main(argv: list[str] | None = None) -> int:
    parser = parser_of("fit.keyano", __doc__)
    add_numbers(parser, NUMBERS)
    parser.add_argument(
        "--out", type=Path, default=FITTED, help="file to write (default: the one that keyano plays with)"
    )
    args = parser.parse_args(argv)
    return exit_code(lambda: run(args))


if __name__ == "__main__":
    sys.exit(main())
