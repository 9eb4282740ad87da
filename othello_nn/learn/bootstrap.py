"""A table evaluator from nothing, from the endgame backwards: games, exact ends, regression. No torch, both cores.

    python -m othello_nn.learn.bootstrap --minutes 20 --out checkpoints/pattern.safetensors

Each round plays games with the evaluator of the round before (the first with ``Mobility``): a noisy opening of random length,
then the best move at 1-ply until ``SOLVE_EMPTIES`` squares are left, where the solver gives the true score. Every position
after the noise learns that score; so do positions of the solved ending, each with its own. The later rounds replace the
game's outcome by a search of ``SEARCH_DEPTH`` plies with the evaluator just learnt, whose leaves are one stage nearer to the
solved end. Weights are fitted by stochastic gradient descent on the squared error in discs.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from dataclasses import dataclass

import numpy as np
from numba import float32, int64, uint64

from othello_nn.engine.endgame import end_node
from othello_nn.engine.evaluate import Mobility, leaf_begin, leaf_child, leaf_score
from othello_nn.engine.search import EVERYTHING, INFINITY, PROBCUT_CUTS, node
from othello_nn.engine.tables import PATTERNS, Shapes, TableEvaluator
from othello_nn.engine.ttable import NO_MOVE, SCORE_DISC, TranspositionTable
from othello_nn.engine.workspace import FRAME_BYTES, FRAME_FEATURES, FRAMES, SWITCHES, Workspace
from othello_nn.game.bits import flips_of, legal_of, load_i16, lowest_square, popcount
from othello_nn.game.compiling import kernel
from othello_nn.game.kernels import ONE, ZERO, next_random, nth_square, transform

SOLVE_EMPTIES = 12
STAGE_EMPTIES = 4
FOCUS_DISCS = 24
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
    """Fill the arrays with labelled positions of ``games`` games; the number of positions and the generator's state."""
    filled = int64(0)
    for _ in range(games):
        if filled + 70 > movers.size:
            break
        mover, opponent = START
        empties = int64(60)
        # Eight random plies make the game its own; then noise of some strength down to some number of empties.
        state = next_random(state)
        noisy = int64(52) - _below(state, int64(52 - SOLVE_EMPTIES + 4))
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
            if empties > int64(52) or (empties > noisy and _below(state, int64(256)) < noise):
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
    return filled, state


@kernel()
def fit_epoch(ev, scratch, origins, used, weights, movers, opponents, labels, order, rate, state):
    """One pass of gradient descent in the given order, each position as a random image. Mean squared error in discs."""
    squared = 0.0
    count = int64(0)
    stages = weights.shape[0]
    for index in order:
        state = next_random(state)
        image = _below(state, int64(8))
        mover, opponent = transform(movers[index], image), transform(opponents[index], image)
        empties = int64(64) - popcount(movers[index] | opponents[index])
        leaf_begin(ev, scratch, mover, opponent)
        home = min(empties // int64(STAGE_EMPTIES), stages - 1)
        # Games are decided near zero: a lopsided position teaches less than its large error would.
        close = float32(1) / (float32(1) + (labels[index] / float32(FOCUS_DISCS)) ** 2)
        # A position also teaches the stage whose border it is next to, so that values do not jump there.
        other = home
        if empties % int64(STAGE_EMPTIES) == 0 and home > 0:
            other = home - 1
        elif empties % int64(STAGE_EMPTIES) == STAGE_EMPTIES - 1 and home < stages - 1:
            other = home + 1
        for stage in range(min(home, other), max(home, other) + 1):
            total = float32(0)
            for lane in range(used):
                total += weights[stage, origins[lane] + load_i16(scratch, int64(2 * lane))]
            error = labels[index] - total
            if stage == home:
                squared += error * error
                count += 1
            step = rate * error * close
            for lane in range(used):
                weights[stage, origins[lane] + load_i16(scratch, int64(2 * lane))] += step
    return squared / count, state


@kernel()
def search_values(ev, workspace, movers, opponents, depth, labels):
    """Write the value in discs of a search of each position, to the end of the game where that is near."""
    for i in range(movers.size):
        empties = int64(64) - popcount(movers[i] | opponents[i])
        if empties <= int64(SOLVE_EMPTIES):
            labels[i] = float32(end_node(movers[i], opponents[i], int64(-64), int64(64), empties, workspace))
            continue
        features = workspace + int64(FRAMES) + empties * int64(FRAME_BYTES) + int64(FRAME_FEATURES)
        leaf_begin(ev, features, movers[i], opponents[i])
        value = node(ev, workspace, movers[i], opponents[i], int64(-INFINITY), int64(INFINITY), depth, int64(NO_MOVE))
        labels[i] = float32(value) / float32(SCORE_DISC)


@dataclass
class Data:
    movers: np.ndarray
    opponents: np.ndarray
    labels: np.ndarray


def _both_cores(work, jobs):
    """Run ``work(job)`` for each job in its own thread; kernels release the GIL."""
    results: list = [None] * len(jobs)

    def run(i):
        results[i] = work(jobs[i])

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def generate(ev, games: int, seed: int, cores: int) -> Data:
    def work(job):
        table, stop = TranspositionTable(4), np.zeros(8, np.uint8)
        workspace = Workspace(table, stop)
        state = np.uint64((seed * 1000 + job) * 0x9E3779B97F4A7C15 % 2**64 | 1)
        share = games // cores
        movers, opponents = np.zeros(share * 62, np.uint64), np.zeros(share * 62, np.uint64)
        labels = np.zeros(share * 62, np.float32)
        filled, _ = play_games(ev, workspace.address, state, share, movers, opponents, labels)
        return movers[:filled], opponents[:filled], labels[:filled]

    parts = _both_cores(work, list(range(cores)))
    return Data(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def relabel(ev, data: Data, depth: int, cores: int) -> None:
    """Replace the labels by searches with an evaluator."""

    def work(part):
        workspace = Workspace(TranspositionTable(8), np.zeros(8, np.uint8))
        workspace[SWITCHES] = EVERYTHING & ~PROBCUT_CUTS
        search_values(ev, workspace.address, data.movers[part], data.opponents[part], depth, data.labels[part])

    size = len(data.labels)
    _both_cores(work, [slice(i * size // cores, (i + 1) * size // cores) for i in range(cores)])


def fit(data: Data, weights: np.ndarray, shapes: Shapes, rates: list[float], seed: int, cores: int) -> float:
    """Gradient descent over the data, in place; threads share the weights without locks (rare collisions only add noise)."""
    template = TableEvaluator("fit", shapes, np.zeros((1, shapes.cells), np.int16), np.zeros(65, np.int64))
    rng = np.random.default_rng(seed)
    used = len(shapes.placements) + 1
    origins = shapes.origins.astype(np.int64)
    error = 0.0
    for epoch, rate in enumerate(rates):
        order = rng.permutation(len(data.labels))
        parts = np.array_split(order, cores)

        def work(job, parts=parts, rate=rate, epoch=epoch):
            scratch = np.zeros(64, np.int64)
            state = np.uint64((seed * 7919 + epoch * 31 + job) * 0x9E3779B97F4A7C15 % 2**64 | 1)
            return fit_epoch(
                template.leaf, scratch.ctypes.data, origins, used, weights,
                data.movers, data.opponents, data.labels, parts[job], np.float32(rate / used), state,
            )  # fmt: skip

        error = float(np.mean([result[0] for result in _both_cores(work, list(range(cores)))]))
    return error


def quantised(name: str, shapes: Shapes, weights: np.ndarray, info: dict) -> TableEvaluator:
    scaled = np.clip(np.rint(weights * SCORE_DISC), -32767, 32767).astype(np.int16)
    stages = np.minimum(np.arange(65) // STAGE_EMPTIES, len(weights) - 1)
    return TableEvaluator(name, shapes, scaled, stages, info)
