"""Collections of games: how long it takes to correct the results of one."""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.harness import Report, Settings, benchmark, markdown_table
from othello_nn.collection.correct import Solutions, corrected, solve_all, unsolved
from othello_nn.engine.leaf.tables import LeafEvaluator
from othello_nn.game.position import Position
from othello_nn.game.record import Game
from othello_nn.learn.data.searched import Play, searched_games

GAMES = 3_000
HOW = Play(depth=2, solve=0, opening_plies=12, latest=20)
EMPTIES = (12, 14, 16)
YEAR_EMPTIES, YEAR_BAR_SECONDS = 16, 600.0
"""A WTHOR year has about ``GAMES`` games: corrected "in minutes", ten of them at most."""


def made_games(count: int, evaluator: LeafEvaluator, jobs: int = 1) -> list[Game]:
    """Games of a net against itself, with chance at first; each begins where chance has ended."""
    records = searched_games(evaluator, HOW, seed=0, first=0, games=count, threads=jobs)
    ends = np.flatnonzero(np.diff(records["game"])) + 1
    return [_game(part) for part in np.split(records, ends)]


def _game(records: np.ndarray) -> Game:
    """The game of a player's records, without its last move, which no record follows."""
    occupied = [int(record["mover"] | record["opponent"]) for record in records]
    moves = [(after & ~before).bit_length() - 1 for before, after in itertools.pairwise(occupied)]
    start = Position(int(records[0]["mover"]), int(records[0]["opponent"]))
    return Game(start=start, moves=tuple(moves), result=int(records[0]["margin"]), passes_left_out=True)


@benchmark("correct-games", "results of a year's games corrected by the solver")
def correct_games(settings: Settings) -> Report:
    count, jobs = settings.size(GAMES, 20), settings.threads or 2
    games = made_games(count, settings.tables, jobs)
    rows, values, worst = [], {}, None
    for empties in EMPTIES:
        with tempfile.TemporaryDirectory() as folder, Solutions(Path(folder, "games.solved")) as solutions:
            positions = unsolved(games, empties, solutions)
            begun, cpu = time.perf_counter(), time.process_time()
            for _ in solve_all(positions, solutions, settings.evaluator, jobs):
                pass
            seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
            exact = [one for game in games if (one := corrected(game, empties, solutions)) is not None]
        losses = [abs((one.theoretical_result or 0) - (one.result or 0)) for one in exact]
        bar = f"≤ {YEAR_BAR_SECONDS:.0f} s" if empties == YEAR_EMPTIES else ""
        rows.append(
            (empties, len(positions), f"{seconds:.1f} s", f"{cpu:.1f} s", bar, f"{statistics.mean(losses):.1f}")
        )
        values[str(empties)] = {"seconds": seconds, "cpu_seconds": cpu, "positions": len(positions)}
        if empties == YEAR_EMPTIES:
            worst = seconds
    assert worst is not None
    header = ("empties", "positions", "time", "CPU time", "bar", "discs given away after that")
    table = markdown_table(header, rows, f"{count:,} games, {jobs} jobs")
    slow = worst > YEAR_BAR_SECONDS and not settings.quick
    failure = "slower than the bar" if slow else None
    return Report(worst, "s", table, values, {"games": count, "jobs": jobs}, failure)
