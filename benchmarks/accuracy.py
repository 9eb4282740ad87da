"""How right an evaluator is: its searches against solved positions that nothing was tuned on.

    python benchmarks/accuracy.py            makes benchmarks/positions/solved.obf, or goes on with it
    python benchmarks/run.py accuracy        --evaluator takes any net
    python benchmarks/run.py calibration     what its scores mean, with more positions of fewer empties

The positions come from games of their own: some random plies, then searches of depth 6 by the champion of the day. A
line holds all best moves of a position with their exact score; with more than ``ALL_BEST`` empties, one of them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.harness import POSITIONS, Report, Settings, benchmark, markdown_table, read_positions
from othello_nn.engine import Engine, Limit, Options
from othello_nn.engine.driver import _Work
from othello_nn.engine.leaf.compile import shipped_evaluator
from othello_nn.engine.score import SCORE_DISC
from othello_nn.game import PASS, Position
from othello_nn.game.formats.obf import ObfEntry, format_obf, parse_obf
from othello_nn.learn.data.searched import Play, searched_games
from othello_nn.progress import progress

SOLVED = POSITIONS / "solved.obf"
WANTED = {20: 60, 21: 60, 22: 60, 23: 60, 24: 60, 25: 60, 26: 100, 27: 40, 28: 24, 30: 8}
"""How many positions with so many empties. Each empty square more takes about twice as long to solve."""
ALL_BEST = 24
"""To prove that every other move is worse takes longer than to solve the position."""
SEED = 2011
TABLE_MB = 512.0
PLENTY = 10**15  # nodes
DEPTHS = (1, 2, 3, 4, 5, 6, 7, 8)


# --- making the file -------------------------------------------------------------------------------------------------


def sampled(empties: int, count: int) -> list[Position]:
    """Positions with so many empties and a choice of moves, one from a game."""
    evaluator = shipped_evaluator()
    assert evaluator is not None
    how = Play(depth=6, solve=0, opening_plies=16, latest=34)
    games = searched_games(evaluator, how, SEED, 1000 * empties, (4 if empties > how.latest else 2) * count)
    found: dict[int, Position] = {}
    left = 64 - np.bitwise_count(games["mover"] | games["opponent"]).astype(int)
    for record in games[left == empties]:
        position = Position(int(record["mover"]), int(record["opponent"]), True)
        if len(position.legal_moves) > 1:
            found.setdefault(int(record["game"]), position)
    return list(found.values())[:count]


def best_moves(engine: Engine, position: Position) -> ObfEntry:
    """The best moves with their score: once that is proven, a null window decides about each other move."""
    engine.clear()
    result = engine.solve(position)
    assert result.move is not None
    score = round(result.score)
    best = {int(result.move): score}
    for move in position.legal_moves if position.empties <= ALL_BEST else ():
        child = position.play(move)
        if move == result.move:
            continue
        if child.is_over or child.must_pass:
            value = -engine.solve(child).score
        else:
            # Worth at least the score to us: at most its opposite to the other side.
            least = -score * SCORE_DISC
            work = _Work(child, Limit(nodes=PLENTY), time.perf_counter(), None, np.array(child.legal_moves, np.int64))
            found = engine._root(work, child.empties, least, least + 1)
            assert found is not None
            value = score if found <= least else score - 2
        if value >= score:
            best[int(move)] = score
    return ObfEntry(position, best)


def missing() -> Iterator[Position]:
    text = SOLVED.read_text(encoding="utf-8") if SOLVED.exists() else ""
    there = [entry.position.empties for entry in parse_obf(text)]
    for empties, count in WANTED.items():
        yield from sampled(empties, count)[there.count(empties) :]


def main() -> int:
    engine = Engine(shipped_evaluator(), Options(table_mb=TABLE_MB))
    positions = list(missing())
    if not SOLVED.exists():
        known = f"all best moves (one, with more than {ALL_BEST} empties)"
        about = f"From our own games, with their exact score and {known}, seed {SEED}"
        SOLVED.write_text(f"% {about}: python benchmarks/accuracy.py\n", encoding="utf-8")
    with progress("solving", len(positions)) as bar:
        for number, position in enumerate(positions):
            line = format_obf([best_moves(engine, position)])
            with SOLVED.open("a", encoding="utf-8") as file:
                file.write(line)
            bar.update(number + 1)
    return 0


# --- measuring -------------------------------------------------------------------------------------------------------


def line_through(scores: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """Slope of the truth over the scores, and the mean by which scores are too high."""
    slope = float(np.polyfit(scores, truth, 1)[0])
    return slope, float((scores - truth).mean())


@benchmark("accuracy", "an evaluator's searches of depth 1 to 8 against solved positions of 20 to 30 empties")
def accuracy(settings: Settings) -> Report:
    entries = read_positions(SOLVED)[:: settings.size(1, 30)]
    engine = Engine(settings.evaluator, Options(table_mb=settings.table_mb or 64))
    truth = np.array([entry.best_score for entry in entries], float)
    asked = [entry.position.empties <= ALL_BEST for entry in entries]
    rows, values = [], {}
    for depth in DEPTHS[: settings.size(len(DEPTHS), 4)]:
        scores, right, nodes = np.zeros(len(entries)), 0, 0
        for i, entry in enumerate(entries):
            engine.clear()
            result = engine.search(entry.position, Limit(depth=depth))
            scores[i], nodes = result.score, nodes + result.nodes
            right += asked[i] and result.move in entry.best_moves
        error = float(np.abs(scores - truth).mean())
        slope, bias = line_through(scores, truth)
        share = right / sum(asked)
        values[f"depth {depth}"] = {"error": error, "slope": slope, "bias": bias, "best": share, "nodes": nodes}
        rows.append((depth, f"{share:.1%}", f"{error:.2f}", f"{slope:.2f}", f"{bias:+.2f}", f"{nodes:,}"))
    header = (
        "depth",
        f"best move, up to {ALL_BEST} empties",
        "mean error, discs",
        "slope of truth over score",
        "bias, discs",
        "nodes",
    )
    last = values[f"depth {DEPTHS[: settings.size(len(DEPTHS), 4)][-1]}"]["error"]
    return Report(last, "discs", markdown_table(header, rows), values, {"positions": len(entries)})


# --- calibration -----------------------------------------------------------------------------------------------------

SOLVED_NOW = {12: 300, 13: 300, 14: 300, 15: 300, 16: 300, 17: 200, 18: 200, 19: 100}
"""Positions with so many empties that the benchmark solves itself."""
PLAYED_ON = dict.fromkeys(range(32, 41), 60)
"""And that nobody can solve: they are played on by searches of ``PLAYED_DEPTH``, then solved."""
PLAYED_DEPTH, PLAYED_EMPTIES = 8, 18
GROUPS = {
    "12 to 15": (12, 15),
    "16 to 19": (16, 19),
    "20 to 24": (20, 24),
    "25 to 30": (25, 30),
    "32 to 40, played on": (32, 40),
}
SLOPES, MOST_BIAS = (0.95, 1.05), 0.5


def played_on(engine: Engine, position: Position) -> float:
    """What a position is worth by good play, to its mover: once the same side is to move with few empties, so that both
    have made as many moves and mistakes, the position is solved."""
    black = position.black_to_move
    while not position.is_over and (position.empties > PLAYED_EMPTIES or position.black_to_move != black):
        engine.clear()
        move = PASS if position.must_pass else engine.search(position, Limit(depth=PLAYED_DEPTH)).move
        assert move is not None
        position = position.play(move)
    engine.clear()
    score = engine.solve(position).score
    return score if position.black_to_move == black else -score


@benchmark("calibration", "slope and bias of an evaluator's scores at depth 1 to 8, by the number of empties")
def calibration(settings: Settings) -> Report:
    """A figure is out of bounds only if it is so by more than two standard errors: few positions prove little."""
    engine = Engine(settings.evaluator, Options(table_mb=settings.table_mb or 64))
    found: dict[int, list[tuple[Position, float]]] = {}
    for entry in read_positions(SOLVED):
        found.setdefault(entry.position.empties, []).append((entry.position, float(entry.best_score)))
    for empties, count in SOLVED_NOW.items():
        for position in sampled(empties, settings.size(count, 4)):
            engine.clear()
            found.setdefault(empties, []).append((position, engine.solve(position).score))
    for empties, count in PLAYED_ON.items():
        for position in sampled(empties, settings.size(count, 2)):
            found.setdefault(empties, []).append((position, played_on(engine, position)))
    rows, values, wrong = [], {}, []
    for name, (fewest, most) in GROUPS.items():
        group = [each for empties, some in found.items() if fewest <= empties <= most for each in some]
        group = group[:: settings.size(1, 20)]
        if len(group) < 2:
            continue  # none of them is solved yet
        truth = np.array([score for _, score in group])
        cells = []
        for depth in DEPTHS:
            scores = np.zeros(len(group))
            for i, (position, _) in enumerate(group):
                engine.clear()
                scores[i] = engine.search(position, Limit(depth=depth)).score
            slope, bias = line_through(scores, truth)
            errors = scores - truth
            doubt = 2 * float(errors.std()) / max(len(group), 1) ** 0.5
            slope_doubt = doubt / max(float(scores.std()), 1e-9)
            if abs(bias) > MOST_BIAS + doubt or not SLOPES[0] - slope_doubt <= slope <= SLOPES[1] + slope_doubt:
                wrong.append(f"{name} empties at depth {depth}")
            cells.append(f"{slope:.2f}, {bias:+.1f}")
            values[f"{name}, depth {depth}"] = {"slope": slope, "bias": bias, "doubt": doubt}
        rows.append((f"{name} ({len(group)})", *cells))
    header = ("empties (positions)", *(f"depth {depth}" for depth in DEPTHS))
    worst = max(abs(value["bias"]) for value in values.values())
    failure = f"not calibrated: {', '.join(wrong)}" if wrong and not settings.quick else None
    parameters = {"solved_now": SOLVED_NOW, "played_on": PLAYED_ON} | settings.describe_evaluator()
    return Report(worst, "discs, largest bias", markdown_table(header, rows), values, parameters, failure)


if __name__ == "__main__":
    sys.exit(main())
