"""What ``python train.py`` gives to those who type it for the first time: how soon, and how strong."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

from benchmarks.harness import ROOT, BenchmarkError, Report, Settings, benchmark, markdown_table
from benchmarks.learning import OPENING_PLIES, THREADS, score_of, trained
from othello_nn.arena.league import LeaguePlayer, league, league_player
from othello_nn.config import Config
from othello_nn.learn.td.rivals import opponent_evaluator
from othello_nn.nets import export

BEFORE = ROOT / "benchmarks" / "quick-before.toml"
SECONDS_BAR, SCORE_BAR, SCORE_AIM = 60.0, 0.5, 0.7
"""From nothing to a net that is ready to play, on two quiet cores; and against the net of the preset before."""


def config_before() -> Config:
    """The preset as it was: a linear net, from games with much chance."""
    return Config.from_dict(tomllib.loads(BEFORE.read_text(encoding="utf-8")))


@benchmark("quick", "`python train.py` in a clone without caches: first point, end, and how strong the net is")
def quick(settings: Settings) -> Report:
    """The bars: a minute, and half the points against the net that the preset before left, in 2,000 games at 1-ply."""
    with tempfile.TemporaryDirectory() as folder:
        clone, words = Path(folder) / "clone", ["--games", "2000"] if settings.quick else []
        first, seconds, facts = _first_run(clone, words)
        player = league_player(str(clone / facts["net"]))
        rival = _net_before(Path(folder) / "before.safetensors", settings)
    swh = league(player, opponent_evaluator("swh"), settings.size(50_000, 100))
    openings, threads = OPENING_PLIES, THREADS
    chance = league(player, league_player("random"), settings.size(5_000, 100), 0.0, opening_plies=openings)
    match = league(player, rival, settings.size(1_000, 20), 0.0, seed=1, threads=threads, opening_plies=openings)
    score, (low, high) = match.score or 0.0, match.interval or (0.0, 0.0)
    cells = f"{score:.3f} ({low:.3f} to {high:.3f})", f"{chance.score:.4f}", f"{swh.score:.3f}"
    header = ("first point", "finished", "games", "against the preset before", "random", "SWH, ε = 0.1")
    table = markdown_table(header, [(f"{first:.0f} s", f"{seconds:.0f} s", f"{facts['games']:,}", *cells)])
    values = {"first_seconds": first, "seconds": seconds, "random": chance.score, "swh": swh.score}
    values |= {"elo": facts["scores"]["elo"], "before": {"score": score, "low": low, "high": high}}
    parameters = {"games": facts["games"], "double_games": match.double_games, "opening_plies": openings}
    parameters |= {"seconds_bar": SECONDS_BAR, "score_bar": SCORE_BAR, "score_aim": SCORE_AIM}
    short = [f"{seconds:.0f} s"] if seconds > SECONDS_BAR else []
    short += [f"{score:.3f} against the preset before"] if score < SCORE_BAR else []
    failure = f"beyond the bar: {', '.join(short)}" if short and not settings.quick else None
    return Report(seconds, "s", table, values, parameters, failure)


def _first_run(clone: Path, words: list[str]) -> tuple[float, float, dict]:
    """Seconds to the first point of the curve and to the end, and what the run says of itself."""
    shutil.copytree(ROOT, clone, ignore=shutil.ignore_patterns("__pycache__", ".git", ".venv", "runs", ".*_cache"))
    words = [sys.executable, "train.py", "--json", "--run", "bench", *words]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["PYTHONPATH"] = str(clone)
    started = time.monotonic()
    process = subprocess.Popen(
        words, cwd=clone, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    first = _seconds_to_first_point(clone / "runs" / "bench", started, process)
    out, errors = process.communicate()
    seconds = time.monotonic() - started
    if process.returncode:
        raise BenchmarkError(f"train.py failed: {errors.strip().splitlines()[-1]}")
    return first, seconds, json.loads(out)


def _seconds_to_first_point(run: Path, started: float, process: subprocess.Popen) -> float:
    """Until TensorBoard has a score to show."""
    while process.poll() is None:
        for path in run.glob("events.*"):
            if b"score/swh" in path.read_bytes():
                return time.monotonic() - started
        time.sleep(0.2)
    return time.monotonic() - started


def _net_before(path: Path, settings: Settings) -> LeaguePlayer:
    """What the preset before leaves, with its seed, as a run saves it."""
    config = config_before()
    (learner, _) = next(trained(config.changed(games=settings.size(config.games, 1_000))))
    export(learner.net()).save(path)
    return league_player(str(path))


@benchmark("chance", "a linear net from games with much and with little chance: SWH score is not strength")
def chance(settings: Settings) -> Report:
    games = settings.size(config_before().games, 1_000)
    ways = {
        "ε = 0.3, chance is learnt": [],
        "ε = 0.1, chance is learnt": ["td.epsilon=0.1"],
        "ε = 0.1, chance is cut out": ["td.epsilon=0.1", "td.cut=true"],
    }
    nets = {}
    for way, changes in ways.items():
        (learner, _) = next(trained(config_before().changed(changes, games=games)))
        nets[way] = learner.evaluator()
    first, swh, champion = next(iter(nets.values())), opponent_evaluator("swh"), league_player("champion")
    double_games = settings.size(2_000, 20)
    rows, values = [], {}
    for way, net in nets.items():
        scores = [score_of(net, swh, settings.size(20_000, 20), 0.1, 0)]
        scores += [score_of(net, rival, double_games, 0.0, OPENING_PLIES) for rival in (first, champion)]
        rows.append((way, *(f"{score:.3f}" for score in scores)))
        values[way] = scores
    header = ("training", "SWH, ε = 0.1", "the first of these, ε = 0", "`champion`, ε = 0")
    text = markdown_table(header, rows)
    return Report(values[next(iter(ways))][0], "score", text, values, {"games": games, "double_games": double_games})
