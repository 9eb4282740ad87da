"""A table evaluator from nothing, from the endgame backwards: games, exact ends, regression.

    python -m othello_nn.learn.bootstrap checkpoints/pattern.safetensors

No torch, no data from outside. Each round plays games with the evaluator of the round before, the first with
``Mobility``: some random plies, then noise of random strength and length, then the best move at 1-ply until
``SOLVE_EMPTIES`` squares are left. From there on every position is solved. Then the stages learn one after the other,
from the end of the game to its beginning: a late stage from exact scores, an earlier one from searches of
``SEARCH_DEPTH`` plies that end in the stage just learnt. Weights are fitted by stochastic gradient descent on the
squared error in discs, each position as a random one of its eight images. About ten minutes on two cores.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numba import float32, int64, uint64

from othello_nn.checkpoint import Checkpoint
from othello_nn.engine.alphabeta import INFINITY, node
from othello_nn.engine.compile import with_checks
from othello_nn.engine.endgame import end_node
from othello_nn.engine.evaluate import Mobility, leaf_begin, leaf_child, leaf_score
from othello_nn.engine.tables import PATTERNS, Shapes, TableEvaluator, mirrored_cells, stages_of_empties
from othello_nn.engine.ttable import NO_MOVE, SCORE_DISC, TranspositionTable
from othello_nn.engine.workspace import (
    EVERYTHING,
    FRAME_BYTES,
    FRAME_FEATURES,
    FRAMES,
    PROBCUT_CUTS,
    SWITCHES,
    Workspace,
)
from othello_nn.game.bits import flips_of, legal_of, load_i16, lowest_square, popcount
from othello_nn.game.compiling import kernel
from othello_nn.game.kernels import ONE, ZERO, next_random, nth_square, transform

SOLVE_EMPTIES = 12
SEARCH_DEPTH = 4
STAGES, STAGE_EMPTIES = 15, 4
FOCUS_DISCS = 24
RATES = (0.4, 0.4, 0.3, 0.2, 0.15, 0.1, 0.07, 0.05, 0.03, 0.02)  # of each epoch; divided by the number of lookups
START = (np.uint64(1 << 28 | 1 << 35), np.uint64(1 << 27 | 1 << 36))


@kernel()
def _below(state, n):
    """A number in 0…n−1 from the high bits of a random state."""
    high = (state * np.uint64(0x2545F4914F6CDD1D)) >> np.uint64(32)
    return int64((high * uint64(n)) >> np.uint64(32))


@kernel()
def _greedy(ev, workspace, mover, opponent, moves, empties):
    """The move with the best 1-ply value."""
    here = workspace + int64(FRAMES) + empties * int64(FRAME_BYTES) + int64(FRAME_FEATURES)
    there = here - int64(FRAME_BYTES)
    leaf_begin(ev, here, mover, opponent)
    best, best_square = int64(1 << 30), int64(0)
    while moves != ZERO:
        square = lowest_square(moves)
        moves &= moves - ONE
        turned = flips_of(mover, opponent, square)
        leaf_child(ev, there, here, square, turned)
        value = leaf_score(
            ev, there, opponent ^ turned, mover ^ turned ^ (ONE << uint64(square)), int64(empties - int64(1))
        )
        if value < best:
            best, best_square = value, square
    return best_square


@kernel()
def play_games(ev, workspace, state, games, movers, opponents, labels):
    """Fill the arrays with labelled positions of ``games`` games; the number of positions."""
    filled = int64(0)
    for _ in range(games):
        if filled + 70 > movers.size:
            break
        mover, opponent = START
        empties = int64(60)
        # Up to twelve random plies make the game its own; then noise of some strength down to some number of empties.
        state = next_random(state)
        opening = int64(60) - _below(state, int64(13))
        state = next_random(state)
        noisy = opening - _below(state, int64(opening - SOLVE_EMPTIES + 4))
        state = next_random(state)
        noise = int64(13) << _below(state, int64(5))  # of 256: 5, 10, 20, 40 or 80 %
        first = filled
        sign = int64(1)  # whose view: the side to move at the end of the recorded part
        while True:
            moves = legal_of(mover, opponent)
            if moves == ZERO:
                mover, opponent, sign = opponent, mover, -sign
                moves = legal_of(mover, opponent)
                if moves == ZERO:
                    break
            if empties <= int64(SOLVE_EMPTIES):
                break
            if empties <= noisy:
                movers[filled], opponents[filled], labels[filled] = mover, opponent, float32(sign)
                filled += 1
            state = next_random(state)
            if empties > opening or (empties > noisy and _below(state, int64(256)) < noise):
                state = next_random(state)
                square = nth_square(moves, _below(state, popcount(moves)))
            else:
                square = _greedy(ev, workspace, mover, opponent, moves, empties)
            turned = flips_of(mover, opponent, square)
            mover, opponent, sign = opponent ^ turned, mover ^ turned ^ (ONE << uint64(square)), -sign
            empties -= int64(1)
        value = end_node(mover, opponent, int64(-64), int64(64), empties, workspace)
        for i in range(first, filled):
            labels[i] = float32(value * sign) * labels[i]
        # The ending itself: half of the moves random, each position solved.
        while moves != ZERO and empties > int64(0):
            movers[filled], opponents[filled], labels[filled] = mover, opponent, float32(value)
            filled += 1
            state = next_random(state)
            square = _greedy(ev, workspace, mover, opponent, moves, empties)
            if _below(state, int64(256)) < int64(128):
                state = next_random(state)
                square = nth_square(moves, _below(state, popcount(moves)))
            turned = flips_of(mover, opponent, square)
            mover, opponent = opponent ^ turned, mover ^ turned ^ (ONE << uint64(square))
            empties -= int64(1)
            moves = legal_of(mover, opponent)
            if moves == ZERO:
                mover, opponent = opponent, mover
                moves = legal_of(mover, opponent)
                if moves == ZERO:
                    break
            value = end_node(mover, opponent, int64(-64), int64(64), empties, workspace)
    return filled


@kernel()
def fit_epoch(ev, scratch, origins, used, weights, movers, opponents, labels, order, rate, state):
    """One pass of gradient descent over a stage in the given order; the mean squared error in discs."""
    squared = 0.0
    for index in order:
        state = next_random(state)
        image = _below(state, int64(8))
        leaf_begin(ev, scratch, transform(movers[index], image), transform(opponents[index], image))
        total = float32(0)
        for lane in range(used):
            total += weights[origins[lane] + load_i16(scratch, int64(2 * lane))]
        error = labels[index] - total
        squared += error * error
        # Games are decided near zero: a lopsided position teaches less than its large error would.
        step = rate * error / (float32(1) + (labels[index] / float32(FOCUS_DISCS)) ** 2)
        for lane in range(used):
            weights[origins[lane] + load_i16(scratch, int64(2 * lane))] += step
    return squared / max(order.size, 1)


@kernel()
def search_values(ev, workspace, movers, opponents, depth, labels):
    """Write the value in discs of a search of each position that is not solved already."""
    for i in range(movers.size):
        empties = int64(64) - popcount(movers[i] | opponents[i])
        if empties > int64(SOLVE_EMPTIES):
            features = workspace + int64(FRAMES) + empties * int64(FRAME_BYTES) + int64(FRAME_FEATURES)
            leaf_begin(ev, features, movers[i], opponents[i])
            window = int64(-INFINITY), int64(INFINITY)
            value = node(ev, workspace, movers[i], opponents[i], window[0], window[1], depth, int64(NO_MOVE))
            labels[i] = float32(value) / float32(SCORE_DISC)


@dataclass(frozen=True)
class Data:
    """Positions with what they are worth to the mover, in discs."""

    movers: np.ndarray
    opponents: np.ndarray
    labels: np.ndarray

    def pick(self, index) -> Data:
        return Data(self.movers[index], self.opponents[index], self.labels[index])

    @property
    def empties(self) -> np.ndarray:
        return 64 - np.bitwise_count(self.movers | self.opponents).astype(np.int64)


def _seeded(*numbers: int) -> np.uint64:
    """A generator's state that differs for every tuple of numbers; never 0."""
    return np.uint64(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] | 1)


def _parallel(work, jobs: list) -> list:
    """``work(job)`` for each job, each in its own thread; kernels release the GIL."""
    with ThreadPoolExecutor(len(jobs)) as pool:
        return list(pool.map(work, jobs))


def generate(ev, games: int, seed: int, cores: int) -> Data:
    """The distinct positions of so many games."""

    def work(job):
        workspace = Workspace(TranspositionTable(4), np.zeros(8, np.uint8))
        size = games // cores * 62
        movers, opponents, labels = np.zeros(size, np.uint64), np.zeros(size, np.uint64), np.zeros(size, np.float32)
        filled = play_games(ev, workspace.address, _seeded(seed, job), games // cores, movers, opponents, labels)
        return movers[:filled], opponents[:filled], labels[:filled]

    data = Data(*(np.concatenate(column) for column in zip(*_parallel(work, list(range(cores))), strict=True)))
    _, first = np.unique(data.movers * np.uint64(0x9E3779B97F4A7C15) ^ data.opponents, return_index=True)
    return data.pick(first)


def relabel(evaluator: TableEvaluator, data: Data, cores: int) -> None:
    """Replace the labels of positions not yet solved by searches."""

    def work(part):
        workspace = Workspace(TranspositionTable(8), np.zeros(8, np.uint8))
        workspace[SWITCHES] = EVERYTHING & ~PROBCUT_CUTS
        search_values(
            evaluator.leaf, workspace.address, data.movers[part], data.opponents[part], SEARCH_DEPTH, data.labels[part]
        )

    size = len(data.labels)
    _parallel(work, [slice(i * size // cores, (i + 1) * size // cores) for i in range(cores)])


def fit(data: Data, weights: np.ndarray, shapes: Shapes, rates: Sequence[float], seed: int, cores: int) -> float:
    """Gradient descent in place, an epoch for each rate; the last epoch's error.

    Threads share the weights without locks: a rare lost update only adds noise.
    """
    template = TableEvaluator("fit", shapes, np.zeros((1, shapes.cells), np.int16), np.zeros(65, np.int64))
    rng = np.random.default_rng(seed)
    used = len(shapes.placements) + 1
    origins = shapes.origins.astype(np.int64)
    error = 0.0
    for epoch, rate in enumerate(rates):
        parts = np.array_split(rng.permutation(len(data.labels)), cores)

        def work(job, parts=parts, rate=rate, epoch=epoch):
            scratch = np.zeros(64, np.int64)
            state = _seeded(seed, epoch, job)
            arrays = (data.movers, data.opponents, data.labels, parts[job])
            step = np.float32(rate / used)
            return fit_epoch(template.leaf, scratch.ctypes.data, origins, used, weights, *arrays, step, state)

        error = float(np.mean(_parallel(work, list(range(cores)))))
    return error


def learn_backwards(data: Data, shapes: Shapes, per_stage: int, seed: int, cores: int) -> np.ndarray:
    """Weights ``[STAGES, cells]`` in discs, each stage learnt after the one that follows it in a game."""
    weights = np.zeros((STAGES, shapes.cells), np.float32)
    rng = np.random.default_rng(seed)
    empties = data.empties
    for stage in range(STAGES):
        # One square of each neighbour as well, so that values do not jump at the border.
        first, last = STAGE_EMPTIES * stage - 1, STAGE_EMPTIES * (stage + 1)
        here = np.flatnonzero((empties >= max(first, 1)) & (empties <= last))
        if stage:
            weights[stage] = weights[stage - 1]
        if len(here) < 1000:
            continue
        sample = data.pick(rng.permutation(here)[:per_stage])
        relabel(quantised("so far", shapes, weights), sample, cores)
        test = len(sample.labels) // 20
        fit(sample.pick(slice(test, None)), weights[stage], shapes, RATES, seed + stage, cores)
        error = fit(sample.pick(slice(test)), weights[stage].copy(), shapes, [0.0], seed, 1)
        what = f"{first + 1}–{last - 1} empties: {len(sample.labels):,} positions"
        print(f"  {what}, error {error**0.5:.2f} discs", file=sys.stderr)
    return weights


def symmetric(weights: np.ndarray, shapes: Shapes) -> np.ndarray:
    """The mean over cells that mirror images of a position read, so that all eight evaluate alike."""
    weights = weights.copy()
    tables = {placement.table: placement.squares for placement in reversed(shapes.placements)}
    for table, squares in tables.items():
        start = shapes.table_starts[table]
        cells = start + mirrored_cells(squares)  # [images, 3^n]
        weights[:, cells[0]] = weights[:, cells].mean(axis=1)
    return weights


def quantised(name: str, shapes: Shapes, weights: np.ndarray) -> TableEvaluator:
    limit = np.iinfo(np.int16).max
    scaled = np.clip(np.rint(weights * SCORE_DISC), -limit, limit).astype(np.int16)
    return TableEvaluator(name, shapes, scaled, stages_of_empties(STAGES))


def checkpoint(evaluator: TableEvaluator, recipe: dict) -> Checkpoint:
    """The evaluator as the n-tuple net that it is."""
    tuples = [list(squares) for squares in PATTERNS]
    net: dict[str, Any] = {"kind": "ntuple", "tuples": tuples, "tuple_set": "patterns"}
    net |= {"stages": STAGES, "shared": False, "dim": 1, "hidden": 16, "view": "inversion", "scale": 10.0}
    return with_checks(Checkpoint(net | {"sparse": False}, {"weight": evaluator.weights}, recipe))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m othello_nn.learn.bootstrap", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("out", type=Path, help="checkpoint to write, .safetensors")
    parser.add_argument("--games", type=int, nargs="+", default=[60_000, 400_000], help="games of each round")
    parser.add_argument("--per-stage", type=int, default=1_000_000, help="most positions for a stage")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args(argv)
    if not args.out.parent.is_dir():
        parser.error(f"no such folder: {args.out.parent}")
    shapes = Shapes.symmetric(PATTERNS)
    leaf, evaluator = Mobility(), None
    for number, games in enumerate(args.games, 1):
        started = time.perf_counter()
        data = generate(leaf, games, args.seed + number, args.cores)
        seconds = time.perf_counter() - started
        print(f"round {number}: {games:,} games, {len(data.labels):,} positions, {seconds:.0f} s", file=sys.stderr)
        weights = symmetric(learn_backwards(data, shapes, args.per_stage, args.seed + number, args.cores), shapes)
        recipe = {"command": "python -m othello_nn.learn.bootstrap", "games": args.games, "round": number}
        recipe |= {"seed": args.seed, "per_stage": args.per_stage}
        evaluator = quantised(args.out.stem, shapes, weights)
        leaf = evaluator.leaf
        checkpoint(evaluator, recipe).save(args.out)
    print(f"{args.out}: now fit its ProbCut with  python -m othello_nn.engine.fit_probcut {args.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
