"""Several ranks against one process: how fast they train, and how well they learn from the same number of games.

Both run ``train.py`` as people do, by itself and under torchrun, and look at what it leaves.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.harness import ROOT, BenchmarkError, Report, Settings, benchmark, markdown_table
from othello_nn.arena.league import league, league_player

RANKS = 2
GAMES = {"quick": 240_000, "ntuple": 160_000, "league": 320_000, "triangle": 6_000}
"""Some ten seconds of each preset."""
SPEED_REPEATS = 5
LEARNING = ("--preset", "ntuple", "--set", "net.stages=6", "--set", "td.batch_games=256")
"""Linear tables, which are merged; others learn alike however many ranks there are."""
LEARNING_GAMES = 60_000
OPENING_PLIES = 7


def _train(folder: Path, ranks: int, threads: int, *words: str) -> Path:
    """The run that ``train.py`` leaves: one process, or ranks with so many threads each."""
    name = f"ranks-{len(list(folder.glob('runs/*')))}"
    launch = [sys.executable]
    if ranks > 1:
        launch += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), "--"]
    command = [*launch, str(ROOT / "train.py"), "--json", "--run", name, "--threads", str(threads), *words]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchmarkError(f"{' '.join(command[1:])} failed: {done.stderr.strip().splitlines()[-1]}")
    return folder / "runs" / name


def _games_per_second(run: Path) -> float:
    """Of the second half of a run, by the points of its curve: nothing is compiled any more."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run), size_guidance={"scalars": 0})
    events.Reload()
    points = events.Scalars("speed/games_per_second")
    half = [point for point in points if point.step >= points[-1].step / 2]
    if len(half) < 2:  # too short to say more
        return points[-1].value
    return (half[-1].step - half[0].step) / (half[-1].wall_time - half[0].wall_time)


@benchmark("ranks", "games/s of two ranks under torchrun against one process with two threads, in turn")
def ranks(settings: Settings) -> Report:
    rows, values = [], {}
    for preset, games in GAMES.items():
        words = ("--preset", preset, "--games", str(settings.size(games, games // 40)))
        speeds: dict[int, list[float]] = {1: [], RANKS: []}
        with tempfile.TemporaryDirectory() as folder:
            _train(Path(folder), 1, RANKS, "--preset", preset, "--games", "1")  # compiles what is not yet
            for repeat in range(settings.size(SPEED_REPEATS, 1)):
                # What else a machine does changes: a ratio is of two runs next to each other, in either order.
                for count in sorted(speeds, reverse=bool(repeat % 2)):
                    speeds[count].append(_games_per_second(_train(Path(folder), count, RANKS // count, *words)))
        one, many = (statistics.median(found) for found in speeds.values())
        ratio = statistics.median(after / before for before, after in zip(*speeds.values(), strict=True))
        rows.append((f"`{preset}`", f"{one:,.0f}", f"{many:,.0f}", f"{ratio:.2f}"))
        values[preset] = {"one": speeds[1], "ranks": speeds[RANKS], "ratio": ratio}
    header = ("preset", f"one process, {RANKS} threads, games/s", f"{RANKS} ranks, games/s", "ratio of neighbours")
    lowest = min(found["ratio"] for found in values.values())
    return Report(lowest, "ratio", markdown_table(header, rows), values, {"ranks": RANKS, "games": GAMES})


@benchmark("ranks-learning", "two ranks that merge their tables against one process, from the same number of games")
def ranks_learning(settings: Settings) -> Report:
    """With two threads each, ranks do not pool their cores. On fewer cores that is slower, and learns the same."""
    seeds = range(1, settings.size(3, 1) + 1)
    games = settings.size(LEARNING_GAMES, 2_000)
    ways = {"one process": (1, games), f"{RANKS} ranks": (RANKS, games), "one process, half the games": (1, games // 2)}
    with tempfile.TemporaryDirectory() as folder:
        nets = {
            way: [
                _train(Path(folder), count, RANKS, *LEARNING, "--games", str(number), "--seed", str(seed))
                for seed in seeds
            ]
            for way, (count, number) in ways.items()
        }
        players = {way: [league_player(str(run / "net.safetensors")) for run in runs] for way, runs in nets.items()}
    swh, chance = league_player("swh"), league_player("random")
    double_games = settings.size(5_000, 20)
    rows, values = [], {}
    for way, learnt in players.items():
        scores = {
            "swh": [_score(player, swh, double_games, 0.1, 0) for player in learnt],
            "random": [_score(player, chance, double_games, 0.0, OPENING_PLIES) for player in learnt],
            "one process": [
                _score(player, other, double_games, 0.0, OPENING_PLIES)
                for player in learnt
                for other in players["one process"]
            ],
        }
        values[way] = scores
        rows.append((way, *(f"{statistics.mean(found):.4f}" for found in scores.values())))
    header = (f"{games:,} games of a linear net", "SWH, ε = 0.1", "random", "the nets of one process, ε = 0")
    match = statistics.mean(values[f"{RANKS} ranks"]["one process"])
    parameters = {"games": games, "seeds": len(seeds), "double_games": double_games, "ranks": RANKS}
    return Report(match, "score", markdown_table(header, rows), values, parameters)


def _score(player, opponent, double_games: int, epsilon: float, plies: int) -> float:
    result = league(player, opponent, double_games, epsilon, seed=1, threads=RANKS, opening_plies=plies)
    return result.score or 0.0
