"""How fast the parts are: rules, playouts, leaves, midgame nodes, the first start; and how well moves are ordered."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba import int64

from benchmarks.harness import (
    ROOT,
    BenchmarkError,
    Report,
    Settings,
    benchmark,
    markdown_table,
    median_seconds,
    shipped_positions,
)
from othello_nn.engine import Engine, Limit
from othello_nn.engine.leaf.compile import compile_net
from othello_nn.engine.leaf.door import leaf_begin, leaf_child, leaf_score
from othello_nn.engine.leaf.lanes import FEATURE_BYTES
from othello_nn.engine.leaf.shapes import PATTERNS, Shapes
from othello_nn.engine.leaf.tables import LeafEvaluator
from othello_nn.engine.workspace import (
    EVERYTHING,
    HISTORY_ORDER,
    KILLER_MOVES,
    NULL_WINDOWS,
    STATIC_HISTORY,
    STATIC_KILLERS,
    TABLE_CUTS,
    TABLE_MOVE,
)
from othello_nn.game import Position
from othello_nn.kernels import board, chance
from othello_nn.kernels.bits import flips_of, legal_of, lowest_square, popcount
from othello_nn.kernels.board import ONE, START, ZERO, after
from othello_nn.resources import BEST

PERFT_LEAVES = {9: 3_005_288, 11: 212_258_800}
PLAYOUT_SEED = 1
MIDGAME = "midgame.obf"
# Fourteen empties, from a game as in midgames.py, and how `play.py solve` must begin its answer.
START_BOARD = "OXXOO--OOOXXXXXXOXOOXOXXOXOOOXOOOXXOOOOOOXXXOOOX-----OOX-------O X"
START_ANSWER = "score -22"
CACHED_STARTS = 5


@benchmark("perft", "move sequences of 11 plies from the start, M leaves/s on one core")
def perft(settings: Settings) -> Report:
    depth = settings.size(11, 9)
    seconds, leaves = median_seconds(lambda: int(board.perft(*START, np.int64(depth))), settings.repeats())
    speed = leaves / seconds / 1e6
    right = leaves == PERFT_LEAVES[depth]
    rows = [(depth, f"{leaves:,}", f"{seconds:.3f}", f"{speed:,.0f}")]
    return Report(
        value=speed,
        unit="M leaves/s",
        markdown=markdown_table(("perft depth", "leaves", "seconds", "M leaves/s"), rows),
        values={"leaves": leaves, "seconds": seconds},
        parameters={"depth": depth, "repeats": settings.repeats()},
        failure=None if right else f"{leaves:,} leaves at depth {depth}, not {PERFT_LEAVES[depth]:,}",
    )


@benchmark("playouts", "uniformly random games from the start, games/s on one core")
def playouts(settings: Settings) -> Report:
    scores = np.zeros(settings.size(100_000, 5_000), np.int64)
    seconds, _ = median_seconds(
        lambda: chance.random_playouts(*START, np.uint64(PLAYOUT_SEED), scores), settings.repeats()
    )
    speed, mean, wins = len(scores) / seconds, float(scores.mean()), float((scores > 0).mean())
    rows = [(f"{len(scores):,}", f"{seconds:.3f}", f"{speed:,.0f}", f"{mean:+.2f}", f"{wins:.1%}")]
    return Report(
        value=speed,
        unit="games/s",
        markdown=markdown_table(("random games", "seconds", "games/s", "black's mean score", "black wins"), rows),
        values={"seconds": seconds, "mean_score_discs": mean, "black_wins": wins},
        parameters={"games": len(scores), "seed": PLAYOUT_SEED, "repeats": settings.repeats()},
    )


# --- midgame ---------------------------------------------------------------------------------------------------------


def leaf_kernels():
    """Loops over positions, compiled where they are needed. Features are rows of ``FEATURE_BYTES``."""

    @numba.njit(nogil=True, error_model="numpy")
    def begin_all(ev, features, movers, opponents):
        for i in range(movers.size):
            leaf_begin(ev, features + int64(i * FEATURE_BYTES), movers[i], opponents[i])

    @numba.njit(nogil=True, error_model="numpy")
    def score_children(ev, features, child, movers, opponents):
        """Flips, features and value of the position after each legal move, as a search's last ply does it."""
        leaves, total = int64(0), int64(0)
        for i in range(movers.size):
            mover, opponent = movers[i], opponents[i]
            empties = int64(64) - popcount(mover | opponent)
            moves = legal_of(mover, opponent)
            while moves != ZERO:
                square = lowest_square(moves)
                moves &= moves - ONE
                turned = flips_of(mover, opponent, square)
                next_mover, next_opponent = after(mover, opponent, square, turned)
                leaf_child(ev, child, features + int64(i * FEATURE_BYTES), square, turned)
                total += leaf_score(ev, child, next_mover, next_opponent, int64(empties - int64(1)))
                leaves += int64(1)
        return leaves, total

    return begin_all, score_children


def _after(positions: list[Position], plies: int) -> list[Position]:
    """All positions a few plies on: thousands, so that the weights come from where they do in a search."""
    for _ in range(plies):
        positions = [position.play(move) for position in positions for move in position.legal_moves]
    return positions


def leaf_speed(evaluator: LeafEvaluator, positions: list[Position], repeats: int) -> tuple[float, int]:
    """Leaf evaluations a second on one core, and how many were timed."""
    begin_all, score_children = leaf_kernels()
    movers = np.array([position.mover for position in positions], np.uint64)
    opponents = np.array([position.opponent for position in positions], np.uint64)
    memory = np.zeros((len(positions) + 2) * FEATURE_BYTES, np.uint8)
    features = memory.ctypes.data + -memory.ctypes.data % 64
    child = features + len(positions) * FEATURE_BYTES
    begin_all(evaluator.leaf, features, movers, opponents)
    arguments = (evaluator.leaf, features, child, movers, opponents)
    _, once = score_children(*arguments)
    seconds, (leaves, total) = median_seconds(lambda: score_children(*arguments), repeats)
    if total != once:
        raise BenchmarkError("the same leaves gave two different sums")
    return leaves / seconds, int(leaves)


def _random_nets() -> dict[str, LeafEvaluator]:
    """An evaluator of each kind with random weights: what a leaf costs does not depend on what was learnt."""
    rng = np.random.default_rng(1)

    def normal(*shape: int) -> np.ndarray:
        return np.asarray(0.2 * rng.standard_normal(shape), np.float32)

    def triangle() -> dict[str, np.ndarray]:
        shapes = {"weights": (12, 10), "biases": (12, 8), "outputs": (12, 8), "output_bias": ()}
        return {name: normal(*shape) for name, shape in shapes.items()}

    def patterns(dim: int) -> LeafEvaluator:
        net = {"kind": "ntuple", "tuples": PATTERNS, "stages": 15, "dim": dim, "hidden": 16}
        cells = Shapes.symmetric(PATTERNS).cells
        arrays = {"weight": normal(15, cells) if dim == 1 else normal(15, cells, dim)}
        arrays |= {"hidden.weight": normal(16, dim), "hidden.bias": normal(16)}
        return compile_net(net, arrays | {"output.weight": normal(1, 16), "output.bias": normal(1)})

    single = {"kind": "triangle", "maps": 12, "scale": 10.0}
    staged = {"kind": "staged", "net": single, "centres": [4, 34, 64], "width": 20.0, "gate": "fixed"}
    three = {f"nets.{i}.{name}": array for i in range(3) for name, array in triangle().items()}
    return {
        "patterns, float32": patterns(1),
        "triangle net": compile_net(single, triangle()),
        "three triangle nets, staged": compile_net(staged, three | {"coefficients": normal(65, 3)}),
        **{f"patterns, embeddings of {dim}, 16 hidden units": patterns(dim) for dim in (4, 8, 16)},
    }


@benchmark("leaves", "leaf evaluations of each kind of evaluator, M/s on one core")
def leaves(settings: Settings) -> Report:
    positions = _after(shipped_positions(MIDGAME)[: settings.size(20, 4)], settings.size(2, 1))
    evaluators = {"patterns, int16": settings.tables} | _random_nets()
    speeds = {name: leaf_speed(each, positions, settings.repeats())[0] / 1e6 for name, each in evaluators.items()}
    rows = [(name, each.lookups, f"{speeds[name]:.1f}") for name, each in evaluators.items()]
    return Report(
        value=speeds["patterns, int16"],
        unit="M leaves/s",
        markdown=markdown_table(("flips, features and value of a child", "lookups", "M/s"), rows),
        values={"mleaves_per_second": speeds},
        parameters={"positions": len(positions), "repeats": settings.repeats()} | settings.describe_evaluator(),
    )


def _search_all(engine: Engine, positions: list[Position], depth: int, repeats: int) -> dict[str, float]:
    """Nodes and seconds (median over repetitions) of searching each position on its own, and the ordering counts."""

    def once() -> list:
        results = []
        for position in positions:
            engine.clear()
            results.append(engine.search(position, Limit(depth=depth)))
        return results

    runs = [once() for _ in range(repeats)]
    sums = {
        name: sum(getattr(result, name) for result in runs[-1])
        for name in ("nodes", "cut_nodes", "cut_first", "cut_moves")
    }
    # Result.seconds, not the wall clock: clearing the table is no part of a search.
    return sums | {"seconds": float(np.median([sum(result.seconds for result in run) for run in runs]))}


def _widths(evaluator) -> dict[str, bool]:
    """Without ProbCut, and with it where the evaluator was fitted for it."""
    fitted = getattr(evaluator, "probcut", None) is not None
    return {"full width": False} | ({"ProbCut": True} if fitted else {})


@benchmark("midgame", "fixed-depth searches with table lookups at the leaves, Mn/s on one thread, and leaves/s")
def midgame(settings: Settings) -> Report:
    evaluator = settings.tables
    positions, depth = shipped_positions(MIDGAME)[: settings.size(20, 4)], settings.size(10, 6)
    repeats = settings.size(3, 1)
    leaves_per_second, leaves = leaf_speed(evaluator, _after(positions, settings.size(3, 1)), settings.repeats())
    found = {
        name: _search_all(settings.engine(probcut=probcut), positions, depth, repeats)
        for name, probcut in _widths(evaluator).items()
    }
    speeds = {name: item["nodes"] / item["seconds"] / 1e6 for name, item in found.items()}
    lookups = evaluator.lookups
    rows = [
        (f"depth {depth}, {name}", f"{item['nodes']:,}", f"{item['seconds']:.2f}", f"{speeds[name]:.2f} Mn/s")
        for name, item in found.items()
    ]
    rows.append(
        ("leaf alone", f"{leaves:,}", f"{leaves / leaves_per_second:.3f}", f"{leaves_per_second / 1e6:.1f} M/s")
    )
    return Report(
        value=speeds["full width"],
        unit="Mn/s",
        markdown=markdown_table((f"{len(positions)} positions, {lookups} lookups", "nodes", "seconds", "speed"), rows),
        values={"searches": found, "mnodes_per_second": speeds, "leaves_per_second": leaves_per_second},
        parameters={"depth": depth, "positions": len(positions), "lookups": lookups, "repeats": repeats}
        | settings.describe_evaluator(),
    )


# What KEYANO orders by, and in what way it learns: history is static within an iteration, "only between iterations are
# the move lists sorted" by it; killers are "used in the standard way".
KEYANO_ORDER = TABLE_CUTS | TABLE_MOVE | NULL_WINDOWS
ORDERS = {
    "our order and history": EVERYTHING | HISTORY_ORDER,
    "our order and static history": EVERYTHING | STATIC_HISTORY,
    "our order, killers static": EVERYTHING & ~KILLER_MOVES | STATIC_KILLERS,
    "table move, killers, history": KEYANO_ORDER | KILLER_MOVES | HISTORY_ORDER,
    "table move, killers, static history (KEYANO)": KEYANO_ORDER | KILLER_MOVES | STATIC_HISTORY,
    "table move, killers and history static": KEYANO_ORDER | STATIC_KILLERS | STATIC_HISTORY,
}


@benchmark("ordering", "how often the first move searched at a cut node is the one that cuts, depth 10, by what orders")
def ordering(settings: Settings) -> Report:
    positions, depth = shipped_positions(MIDGAME)[: settings.size(20, 4)], settings.size(10, 6)
    engines: dict[str, dict[str, Any]] = {
        f"our order, {name}": {"probcut": probcut} for name, probcut in _widths(settings.evaluator).items()
    }
    engines |= {f"{name}, full width": {"probcut": False, "switches": bits} for name, bits in ORDERS.items()}
    values, rows = {}, []
    for name, options in engines.items():
        item = _search_all(settings.engine(**options), positions, depth, 1)
        first, moves = item["cut_first"] / item["cut_nodes"], item["cut_moves"] / item["cut_nodes"]
        values[name] = {"first": first, "moves": moves, "cut_nodes": item["cut_nodes"], "nodes": item["nodes"]}
        rows.append((name, f"{first:.1%}", f"{moves:.3f}", f"{item['cut_nodes']:,}", f"{item['nodes']:,}"))
    rows.append(("KEYANO, depth 10", "89–93%", "1.10", "", ""))
    header = (
        f"{len(positions)} positions, depth {depth}",
        "first move cuts",
        "moves at a cut node",
        "cut nodes",
        "nodes",
    )
    return Report(
        value=values["our order, full width"]["first"],
        unit="share of cut nodes",
        markdown=markdown_table(header, rows),
        values=values,
        parameters={"depth": depth, "positions": len(positions)} | settings.describe_evaluator(),
    )


# --- the first start -------------------------------------------------------------------------------------------------


def _copy_program(settings: Settings, target: Path) -> None:
    """The program as a fresh clone has it, with nothing compiled, and the evaluator that is measured."""
    shutil.copytree(ROOT / "othello_nn", target / "othello_nn", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "play.py", target)
    (target / "checkpoints").mkdir()
    if isinstance(settings.evaluator, LeafEvaluator):
        shutil.copy(settings.checkpoint, target / "checkpoints" / f"{BEST}.safetensors")


def _timed_start(folder: Path) -> tuple[float, str]:
    environment = {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"}
    command = [sys.executable, "play.py", "solve", *START_BOARD.split()]
    started = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    seconds = time.perf_counter() - started
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise BenchmarkError(f"play.py solve failed in a fresh copy of the program: {reason}")
    return seconds, done.stdout.splitlines()[0]


@benchmark("startup", "play.py solve in a fresh copy of the program: first start, and the same cached")
def startup(settings: Settings) -> Report:
    with tempfile.TemporaryDirectory() as name:
        _copy_program(settings, Path(name))
        first, answer = _timed_start(Path(name))
        again = [_timed_start(Path(name)) for _ in range(settings.size(CACHED_STARTS, 1))]
    cached = float(np.median([seconds for seconds, _ in again]))
    wrong = [text for text in (answer, *(text for _, text in again)) if not text.startswith(START_ANSWER)]
    return Report(
        value=first,
        unit="s",
        markdown=markdown_table(
            ("solve 14 empties", "seconds"), [("first ever start", f"{first:.1f}"), ("cached", f"{cached:.2f}")]
        ),
        values={"first_seconds": first, "cached_seconds": cached, "answer": answer},
        parameters={"cached_starts": len(again)} | settings.describe_evaluator(),
        failure=f"the answer was {wrong[0]!r}, not {START_ANSWER!r}" if wrong else None,
    )
