"""Nets that do not compile: what the example of ``docs/own-net.md`` learns in minutes, and Leouski's comparisons."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from benchmarks.harness import ROOT, BenchmarkError, Report, Settings, benchmark, markdown_table
from othello_nn.arena.match import play_match
from othello_nn.arena.openings import make_openings
from othello_nn.config import load_preset
from othello_nn.learn.distributed import Group
from othello_nn.learn.make import make_learner
from othello_nn.learn.td.rivals import TorchOpponent
from othello_nn.learn.watch.strength import LEAGUE_EPSILON, OPENING_PLIES, torch_score
from othello_nn.nets import Net, export, load_net

EXAMPLE = ROOT / "examples" / "resnet.py"
MINUTES = 5
LOOKING = "depth=2,solve=10"
BAR = 0.90
QUICK = ("net.width=4", "net.blocks=1", "td.batch_games=4", "measure.double_games=1")
TRIANGLE = {"kind": "triangle", "maps": 12}
COMPARED: dict[str, dict[str, Any]] = {
    "triangle net": TRIANGLE,
    "fully connected": {"kind": "dense"},
    "three triangle nets, fixed coefficients": {"kind": "staged", "net": TRIANGLE},
    "the same, learned coefficients": {"kind": "staged", "net": TRIANGLE, "gate": "learned"},
    "the same, coefficients by a network": {"kind": "staged", "net": TRIANGLE, "gate": "network"},
}


def _scores(net: Net, double_games: int) -> tuple[float, float]:
    """At 1-ply against random moves, from random openings, and against SWH as in the League."""
    chance, swh = (TorchOpponent(name, "cpu") for name in ("random", "swh"))
    seed = 11  # not that of training
    return (
        torch_score(net, chance, double_games, 0.0, OPENING_PLIES, seed),
        torch_score(net, swh, double_games, LEAGUE_EPSILON, 0, seed),
    )


@benchmark("own-net", f"the example of a user's own net after {MINUTES} minutes of `train.py` on all cores, at 1-ply")
def own_net(settings: Settings) -> Report:
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, str(ROOT / "train.py"), "--net", f"{EXAMPLE}:ResNet", "--run", "bench", "--json"]
        small = [word for each in QUICK for word in ("--set", each)]
        words += ["--games", "4", "--threads", "1", *small] if settings.quick else ["--minutes", str(MINUTES)]
        environment = os.environ | {"PYTHONPATH": str(ROOT), "XDG_STATE_HOME": folder}
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BenchmarkError(f"train.py failed: {done.stderr.strip().splitlines()[-1]}")
        facts = json.loads(done.stdout)
        net = load_net(os.path.join(folder, facts["net"]), module=f"{EXAMPLE}:ResNet")  # noqa: PTH118 (a str)
    random, swh = _scores(net, settings.size(100, 2))
    games, speed = facts["games"], facts["games"] / facts["seconds"]
    weights = sum(parameter.numel() for parameter in net.parameters())
    rows = [(f"{weights:,}", f"{games:,}", f"{speed:.0f}", f"{random:.3f}", f"{swh:.3f}")]
    header = ("weights", "games", "games/s, with measuring", "against random", "against SWH, ε = 0.1")
    failure = None if settings.quick or random >= BAR else f"{random:.3f} against random moves is below {BAR}"
    found = {"games": games, "swh": swh}
    return Report(random, "score against random", markdown_table(header, rows), found, failure=failure)


@benchmark(
    "leouski-curves", "the triangle net and the fully connected one by Leouski's training, curves against wystan"
)
def leouski_curves(settings: Settings) -> Report:
    torch.set_num_threads(1)
    games, points = settings.size(15_000, 40), settings.size(5, 2)
    seeds = range(1, settings.size(2, 1) + 1)
    curves: dict[str, list[list[float]]] = {}
    for name in ("triangle net", "fully connected"):
        for seed in seeds:
            net = {"kind": "doubled", "net": COMPARED[name]}
            learner = make_learner(
                load_preset("triangle-leouski").changed(net=net, games=games, seed=seed), "cpu", Group(), 1
            )
            wins = [_wins_of_60(learner.net(), settings.quick)]
            for point in range(1, points + 1):
                while learner.progress < point / points:
                    learner.step()
                wins.append(_wins_of_60(learner.net(), settings.quick))
            curves.setdefault(name, []).append(wins)
            if not settings.quick:
                print(f"{name}, seed {seed}: {wins}", file=sys.stderr, flush=True)
    rows = [
        (f"{games * point // points:,}", *(", ".join(f"{run[point]:.1f}" for run in runs) for runs in curves.values()))
        for point in range(points + 1)
    ]
    header = ("games", *(f"{name}: won of 60, by seed" for name in curves))
    best = max(max(run) for run in curves["triangle net"])
    return Report(best, "won of 60", markdown_table(header, rows), curves, {"games": games, "seeds": len(seeds)})


def _wins_of_60(net: Net, quick: bool) -> float:
    """Points against wystan in two games from each of Leouski's openings, halved, as he counted."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.safetensors"
        export(net).save(path)
        openings = make_openings("leouski60", None)[: 2 if quick else None]
        result = play_match(f"{path}:{LOOKING}", f"wystan:{LOOKING}", openings, jobs=1, seed=1)
    return 60 * result.score


@benchmark("leouski-nets", "triangles against a fully connected net, and three kinds of gates, at equal games")
def leouski_nets(settings: Settings) -> Report:
    games, rows, found = settings.size(20_000, 4), [], {}
    torch.set_num_threads(1)
    for name, net in COMPARED.items():
        few = ["td.batch_games=4"] if settings.quick else []
        learner = make_learner(load_preset("own").changed(few, net=net, games=games), "cpu", Group(), 1)
        while learner.progress < 1:
            learner.step()
        random, swh = _scores(learner.net(), settings.size(250, 2))
        weights = sum(parameter.numel() for parameter in learner.net().parameters())
        found[name] = swh
        rows.append((name, f"{weights:,}", f"{random:.3f}", f"{swh:.3f}"))
    header = ("net", "weights", "against random", "against SWH, ε = 0.1")
    caption = f"{games:,} games of self-play each, with the settings of the preset `own`; at 1-ply."
    return Report(found["triangle net"], "score against SWH", markdown_table(header, rows, caption), found)
