"""How fast nets play and learn, how strong the shipped ones are at 1-ply, and two questions of the papers answered."""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.harness import ROOT, Report, Settings, benchmark, markdown_table, median_seconds
from othello_nn.arena.league import LeagueResult, league, league_player
from othello_nn.arena.match import play_match
from othello_nn.arena.openings import make_openings
from othello_nn.config import Config, load_preset
from othello_nn.engine.leaf.compile import Evaluator, compile_net
from othello_nn.learn.distributed import Group
from othello_nn.learn.learner import Learner
from othello_nn.learn.make import make_learner
from othello_nn.learn.td.learners import float_state
from othello_nn.learn.td.rivals import opponent_evaluator
from othello_nn.nets import export
from othello_nn.players.classic.league_tuples import load_tuples

FIGURE_7 = ROOT / "tests" / "fixtures" / "figure7.tuples"
OPENING_PLIES = 7
THREADS = os.cpu_count() or 1


def trained(config: Config, points: int = 1) -> Iterator[tuple[Learner, int]]:
    """A learner after each of so many equal parts of its run."""
    torch.set_num_threads(1)
    learner = make_learner(config, "cpu", Group(), THREADS)
    for point in range(1, points + 1):
        while learner.progress < point / points:
            learner.step()
        yield learner, point


def _interval(result: LeagueResult) -> str:
    low, high = result.interval or (0.0, 0.0)
    return f"{low:.4f} to {high:.4f}"


# --- speed -----------------------------------------------------------------------------------------------------------


@benchmark("selfplay", "1-ply self-play with TD learning, 46 lookups in 15 stages, games/s on all cores")
def selfplay(settings: Settings) -> Report:
    torch.set_num_threads(1)
    learner = make_learner(load_preset("ntuple"), "cpu", Group(), THREADS)
    for _ in range(settings.size(25, 2)):  # past the first games, whose players know nothing yet
        learner.step()
    steps = settings.size(25, 2)
    games = learner.games
    seconds, _ = median_seconds(lambda: [learner.step() for _ in range(steps)], settings.repeats())
    speed = (learner.games - games) / settings.repeats() / seconds
    rows = [(f"{learner.games - games:,}", f"{THREADS}", f"{speed:,.0f}")]
    header = ("games played and learnt from", "cores", "games/s")
    return Report(speed, "games/s", markdown_table(header, rows), parameters={"preset": "ntuple", "threads": THREADS})


@benchmark("league-speed", "1-ply League games of the paper's best all-2 player, games/s on one core")
def league_speed(settings: Settings) -> Report:
    player, swh = load_tuples(FIGURE_7), opponent_evaluator("swh")
    games = settings.size(20_000, 200)
    league(player, swh, 100)
    seconds, result = median_seconds(lambda: league(player, swh, games), settings.repeats())
    speed = 2 * games / seconds
    rows = [(f"{2 * games:,}", f"{speed:,.0f}", f"{result.score:.4f}")]
    return Report(speed, "games/s", markdown_table(("games", "games/s", "score"), rows), {"score": result.score})


# --- strength --------------------------------------------------------------------------------------------------------


@benchmark("league-net", "the shipped `league` against SWH, ε = 0.1, 50,000 double games")
def league_net(settings: Settings) -> Report:
    return _against(settings, "league", [("swh", opponent_evaluator("swh"))], 50_000, 0.1, 0)


@benchmark("champion-net", "the shipped `champion` at 1-ply against Figure 7's player and the `quick` net, ε = 0")
def champion_net(settings: Settings) -> Report:
    config = load_preset("quick").changed(games=settings.size(load_preset("quick").games, 1_000))
    (learner, _) = next(trained(config))
    net = learner.net()  # as a run saves it
    rivals = [
        ("Figure 7's player", load_tuples(FIGURE_7)),
        ("the quick net", compile_net(net.config, float_state(net))),
    ]
    rivals.append(("swh", opponent_evaluator("swh")))
    return _against(settings, "champion", rivals, 1_000, 0.0, OPENING_PLIES)


def _against(
    settings: Settings, name: str, rivals: list[tuple[str, Any]], games: int, epsilon: float, plies: int
) -> Report:
    player = league_player(name)
    rows, values = [], {}
    for rival, evaluator in rivals:
        result = league(
            player, evaluator, settings.size(games, 20), epsilon, seed=1, threads=THREADS, opening_plies=plies
        )
        rows.append((rival, f"{2 * result.double_games:,}", f"{result.score:.4f}", _interval(result)))
        values[rival] = {"score": result.score, "low": (result.interval or (0.0, 0.0))[0]}
    header = (f"`{name}` against", "games", "score", "95%")
    parameters = {"double_games": games, "epsilon": epsilon, "opening_plies": plies}
    first = next(iter(values.values()))["score"] or 0.0
    return Report(first, "score", markdown_table(header, rows), values, parameters)


# --- the papers' questions -------------------------------------------------------------------------------------------


TUPLE_SETS = ("all-1", "all-2", "all-3", "all-4", "rand-10x3", "rand-8x4", "rand-7x5", "patterns")


@benchmark("tuples", "TD learning with systematic and random tuples: the n-tuple paper's open question (i)")
def tuples(settings: Settings) -> Report:
    seeds = range(1, settings.size(3, 1) + 1)
    games = settings.size(300_000, 2_000)
    swh = opponent_evaluator("swh")
    rows, values = [], {}
    for name in TUPLE_SETS:
        scores = []
        for seed in seeds:
            config = load_preset("league").changed([f"net.tuples={name}", f"net.seed={seed}"], games=games, seed=seed)
            (learner, _) = next(trained(config))
            scores.append(score_of(learner.evaluator(), swh, settings.size(10_000, 50), 0.1, 0))
        net = learner.net()
        weights = sum(3**size for size in net.shapes.sizes)  # type: ignore[union-attr]
        lookups = len(net.shapes.placements)  # type: ignore[union-attr]
        spread = f"{min(scores):.4f} to {max(scores):.4f}"
        rows.append((name, len(net.shapes.sizes), lookups, f"{weights:,}", f"{np.mean(scores):.4f}", spread))  # type: ignore[union-attr]
        values[name] = scores
    header = ("tuples", "tuples", "lookups", "weights", "mean League score", "lowest to highest seed")
    return Report(
        float(np.mean(values["all-2"])),
        "score",
        markdown_table(header, rows),
        values,
        {"games": games, "seeds": len(seeds)},
    )


@benchmark("staged", "Leouski's claim: with application coefficients the net learns better and steadier")
def staged(settings: Settings) -> Report:
    seeds = range(1, settings.size(3, 1) + 1)
    games, points = settings.size(15_000, 40), settings.size(10, 2)
    nets: dict[str, dict[str, Any]] = {"one net": {"kind": "triangle", "maps": 12}}
    nets["three, blended"] = {"kind": "staged", "net": nets["one net"]}
    curves: dict[str, list[list[float]]] = {}
    for name, net in nets.items():
        for seed in seeds:
            base = load_preset("triangle-leouski").changed(games=games, seed=seed, net={"kind": "doubled", "net": net})
            curve = [_as_leouski_measured(learner, settings.quick) for learner, _ in trained(base, points)]
            curves.setdefault(name, []).append(curve)
    rows = []
    half = points // 2
    for name, runs in curves.items():
        means = [statistics.mean(run[half:]) for run in runs]
        swings = [statistics.pstdev(run[half:]) for run in runs]
        best = [max(run) for run in runs]
        cells = [f"{statistics.mean(column):.3f}" for column in (means, swings, best)]
        rows.append((name, *cells, ", ".join(f"{mean:.3f}" for mean in means)))
    header = ("net", "mean score, second half", "its deviation within a run", "best point", "mean score by seed")
    text = markdown_table(header, rows) + "\n\n" + _curve_table(curves, games, points)
    difference = statistics.mean(map(statistics.mean, curves["three, blended"])) - statistics.mean(
        map(statistics.mean, curves["one net"])
    )
    return Report(difference, "score", text, {"curves": curves}, {"games": games, "seeds": len(seeds)})


def _as_leouski_measured(learner: Learner, quick: bool) -> float:
    """Score of a net that looks two plies ahead and solves the end, from the 60 openings with both colours."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.safetensors"
        export(learner.net()).save(path)
        limits = "depth=2,solve=10"
        openings = make_openings("leouski60", None)
        result = play_match(
            f"{path}:{limits}", f"mobility:{limits}", openings[: 2 if quick else None], jobs=THREADS, seed=1
        )
    return result.score


def _curve_table(curves: dict[str, list[list[float]]], games: int, points: int) -> str:
    """Ten points of each curve, the mean over seeds and the lowest and highest."""
    shown = [round(points * (i + 1) / min(10, points)) for i in range(min(10, points))]
    rows = []
    for point in shown:
        cells = []
        for runs in curves.values():
            scores = [run[point - 1] for run in runs]
            cells.append(f"{statistics.mean(scores):.3f} ({min(scores):.3f} to {max(scores):.3f})")
        rows.append((f"{games * point // points:,}", *cells))
    return markdown_table(("games", *(f"{name}: mean (lowest to highest)" for name in curves)), rows)


def score_of(evaluator: Evaluator, rival: Any, double_games: int, epsilon: float, plies: int) -> float:
    result = league(evaluator, rival, double_games, epsilon, seed=1, threads=THREADS, opening_plies=plies)
    return result.score or 0.0
