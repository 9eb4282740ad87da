"""The net that is fitted to searched games: how fast it is fitted, and whether it beats the champion before it."""

from __future__ import annotations

import itertools
import os
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.harness import ROOT, BenchmarkError, Report, Settings, benchmark, markdown_table, median_seconds
from benchmarks.strength import JOBS, SEED, _figures, _match, _match_table
from othello_nn.arena.openings import make_openings
from othello_nn.arena.rating import ratings
from othello_nn.checkpoint import Checkpoint
from othello_nn.config import load_preset
from othello_nn.engine.leaf.compile import shipped_evaluator
from othello_nn.learn.data.minibatch import CompiledFit
from othello_nn.learn.data.searched import Play, searched_games
from othello_nn.nets import NTupleNet, make_net
from othello_nn.resources import BEST

LEAST_SPEED = 150_000
TIMED_SECONDS = "0.1"
BALANCE = 4
"""Discs from even that the timed games' openings may be, as ``match --balance`` judges them: others are decided."""
BARS = {"1-ply": 0.55, f"{TIMED_SECONDS} s a move": 0.62}
BEFORE = "c07c96e"
"""The last revision whose champion is linear tables."""


@benchmark("fit-speed", "positions of searched games that the champion's net learns from in a second, on all cores")
def fit_speed(settings: Settings) -> Report:
    config = load_preset("champion")
    threads = settings.threads or os.cpu_count() or 1
    net = make_net(config.net)
    evaluator = shipped_evaluator()
    if evaluator is None or not isinstance(net, NTupleNet):
        raise BenchmarkError("the champion is needed to play games")
    games = settings.size(6000, 64)
    records = searched_games(evaluator, Play(depth=1, solve=4, latest=8), SEED, 0, games, threads)
    size = config.searched.minibatch
    count = len(records) // size * size
    order = np.random.default_rng(SEED).permutation(len(records))[:count]
    movers, opponents = (np.ascontiguousarray(records[name][order]) for name in ("mover", "opponent"))
    labels = records["margin"][order].astype(np.float32)
    fit = CompiledFit(net, size, threads)

    def learn() -> float:
        rates = config.searched.rate, config.searched.head_rate[0]
        parts = (slice(first, first + size) for first in range(0, count, size))
        return sum(fit.learn(movers[part], opponents[part], labels[part], *rates) for part in parts)

    first = learn()  # compiles, too
    seconds, last = median_seconds(learn, settings.repeats())
    speed = count / seconds
    failure = None
    if not last < first:
        failure = "the error did not fall"
    elif not settings.quick and speed < LEAST_SPEED:
        failure = f"only {speed:,.0f} positions/s"
    lookups = len(net.shapes.placements)
    rows = [(f"{lookups} × {net.dim}", threads, f"{count:,}", f"{speed:,.0f}")]
    header = ("lookups × numbers", "threads", "positions", "positions/s")
    parameters = {"lookups": lookups, "dim": net.dim, "minibatch": size, "threads": threads}
    return Report(speed, "positions/s", markdown_table(header, rows), {"positions": count}, parameters, failure)


@benchmark(
    "champion-match", "the net of --evaluator (champion) against the champion of --revision, 1-ply and 0.1 s a move"
)
def champion_match(settings: Settings) -> Report:
    """Time is shared fairly only on a quiet machine: one game for each core."""
    revision = settings.revision or BEFORE
    net = str(settings.checkpoint)
    with tempfile.TemporaryDirectory() as folder:
        rival = champion_of(revision, Path(folder))
        one_ply = make_openings("random:7", settings.size(1000, 4), SEED)
        timed = make_openings("random:8", settings.size(200, 2), SEED, balance=BALANCE)
        results = {
            "1-ply": _match(f"{net}:depth=1", f"{rival}:depth=1", one_ply),
            f"{TIMED_SECONDS} s a move": _match(
                f"{net}:seconds={TIMED_SECONDS}", f"{rival}:seconds={TIMED_SECONDS}", timed
            ),
        }
    short = [name for name, bar in BARS.items() if (results[name].score or 0.0) < bar]
    failure = f"below the bar: {', '.join(short)}" if short and not settings.quick else None
    values = {name: _figures(result) for name, result in results.items()}
    parameters = {"revision": revision, "jobs": JOBS} | settings.describe_evaluator()
    header = f"`{settings.evaluator_name or BEST}` against the champion of {revision}"
    return Report(results["1-ply"].score or 0.0, "score", _match_table(results, header), values, parameters, failure)


CHAMPIONS = {
    "linear tables, by TD": BEFORE,
    "embeddings, second generation": "2fae46b",
    "third generation": "f20443e",
    "fourth, of 8 bits": "35621bb",
    "sixth, of 97.5 M positions": "28aa4b8",
    "seventh, which went on with 59 M: the champion": None,
}
"""All that were shipped, by revision."""
RUNGS = {"1-ply": ("depth=1", "random:7", 1000, None), "20,000 nodes a move": ("nodes=20000", "random:8", 100, BALANCE)}
"""How they meet: limit, openings, how many of them, how near to even."""


@benchmark("champions", "all champions so far against each other, at 1-ply and with equal nodes: Elo with intervals")
def champions(settings: Settings) -> Report:
    names, values = list(CHAMPIONS), {}
    cells: list[list[str]] = [[] for _ in names]
    with tempfile.TemporaryDirectory() as folder:
        nets = [
            str(settings.checkpoint if revision is None else champion_of(revision, Path(folder)))
            for revision in CHAMPIONS.values()
        ]
        for rung, (limit, plies, count, balance) in RUNGS.items():
            openings = make_openings(plies, settings.size(count, 2), SEED, balance=balance)
            points, counts = np.zeros((2, len(names), len(names)))
            for i, j in itertools.combinations(range(len(names)), 2):
                result = _match(f"{nets[i]}:{limit}", f"{nets[j]}:{limit}", openings)
                counts[i, j] = counts[j, i] = result.games
                points[i, j] = (result.score or 0.0) * result.games
                points[j, i] = result.games - points[i, j]
            rated = ratings(points, counts)
            for row, rating in zip(cells, rated, strict=True):
                row.append(f"{rating.elo - rated[0].elo:+.0f} ± {rating.high - rating.elo:.0f}")
            values[rung] = {"elo": [rating.elo for rating in rated], "points": points.tolist()}
    header = ("champion", "revision", *(f"Elo, {rung}" for rung in RUNGS))
    rows = [(name, CHAMPIONS[name] or "this", *row) for name, row in zip(names, cells, strict=True)]
    last = values["1-ply"]["elo"]
    games = {rung: 2 * count for rung, (_, _, count, _) in RUNGS.items()}
    return Report(last[-1] - last[0], "Elo at 1-ply over the first", markdown_table(header, rows), values, games)


def champion_of(revision: str, folder: Path) -> Path:
    """The file of an earlier champion."""
    name = f"{revision}:checkpoints/{BEST}.safetensors"
    done = subprocess.run(["git", "-C", str(ROOT), "show", name], capture_output=True, check=False)
    if done.returncode:
        raise BenchmarkError(f"there is no {name} here")
    path = folder / f"champion-{revision}.safetensors"
    path.write_bytes(done.stdout)
    # What a score means was once written otherwise, and has no part in how a net plays.
    replace(Checkpoint.load(path), calibration=None).save(path)
    return path
