"""The n-tuple paper's experiment made again in small: Table IV and Figure 4 by its evolution strategy, and what a
gradient makes of the same 288 weights. ``docs/training.md`` shows the tables with the originals.
"""

from __future__ import annotations

import os
import statistics
import sys

from benchmarks.harness import ROOT, Report, Settings, benchmark, markdown_table
from othello_nn.arena.league import LeagueResult, league, league_player
from othello_nn.config import load_preset
from othello_nn.learn.evolve import EvolutionLearner
from othello_nn.nets.tuple_sets import tuple_set, weights
from othello_nn.players.classic.league_tuples import load_tuples

FIGURE_7 = ROOT / "tests" / "fixtures" / "figure7.tuples"
SEED = 20_261_118
"""Of the games that measure; no player was chosen by them."""
PRINTED: dict[tuple[str, str], float] = {
    ("all-1", "inversion"): 0.7362,
    ("all-2", "inversion"): 0.9401,
    ("all-3", "inversion"): 0.9379,
    ("all-4", "inversion"): 0.9122,
    ("rand-10x3", "inversion"): 0.8681,
    ("rand-8x4", "inversion"): 0.8454,
    ("rand-7x5", "inversion"): 0.8012,
    ("all-1", "negation"): 0.5946,
    ("rand-8x4", "negation"): 0.7698,
}
"""The means of Table IV: ten runs of 5,000 generations with 1,000 double games for a fitness."""
VIEWS = ("all-1", "rand-8x4")
"""Sets of Figure 4, whose runs are made with both views."""


def _threads() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@benchmark("evolution", "the n-tuple paper's Table IV and Figure 4 in small: nine architectures, (10+90) evolution")
def evolution(settings: Settings) -> Report:
    generations, double_games = settings.size(50, 2), settings.size(30, 1)
    seeds = range(1, settings.size(3, 1) + 1)
    points = sorted({max(1, generations * share // 50) for share in (2, 5, 10, 20, 35, 50)})
    scores: dict[tuple[str, str], list[list[float]]] = {}
    for name, view in PRINTED:
        for seed in seeds:
            found = _evolved(name, view, seed, points, double_games, settings)
            scores.setdefault((name, view), []).append(found)
            if not settings.quick:
                curve = ", ".join(f"{score:.4f}" for score in found)
                print(f"{name}, {view}, seed {seed}: {curve}", file=sys.stderr, flush=True)
    values = {f"{name} {view}": runs for (name, view), runs in scores.items()}
    parameters = {"generations": generations, "double_games": double_games, "seeds": len(seeds), "points": points}
    text = _table_4(scores) + "\n\n" + _figure_4(scores, points)
    return Report(statistics.mean(run[-1] for run in scores["all-2", "inversion"]), "score", text, values, parameters)


def _evolved(name: str, view: str, seed: int, points: list[int], double_games: int, settings: Settings) -> list[float]:
    """League scores of the fittest after so many generations: the last over many games, the others over fewer."""
    changes = [f"net.tuples={name}", f"net.view={view}", f"net.seed={seed}", f"evolve.double_games={double_games}"]
    config = load_preset("evolve").changed(changes)
    learner = EvolutionLearner(config.net, config.evolve, seed=seed, threads=_threads())
    swh, found = league_player("swh"), []
    for point in points:
        while learner.generation < point:
            learner.step()
        games = settings.size(5_000 if point == points[-1] else 1_000, 10)
        found.append(league(learner.evaluator(), swh, games, 0.1, SEED, _threads()).score or 0.0)
    return found


def _table_4(scores: dict[tuple[str, str], list[list[float]]]) -> str:
    rows = []
    for (name, view), runs in sorted(scores.items(), key=lambda item: -statistics.mean(run[-1] for run in item[1])):
        last = [run[-1] for run in runs]
        deviation = f"{statistics.stdev(last):.4f}" if len(last) > 1 else ""
        rows.append(
            (name, view, weights(tuple_set(name, 1)), f"{statistics.mean(last):.4f}", deviation,
             ", ".join(f"{score:.4f}" for score in last), f"{PRINTED[name, view]:.4f}")
        )  # fmt: skip
    header = ("tuples", "view", "weights", "mean score", "deviation", "by seed", "the paper's mean")
    return markdown_table(header, rows)


def _figure_4(scores: dict[tuple[str, str], list[list[float]]], points: list[int]) -> str:
    columns = [(name, view) for name in VIEWS for view in ("inversion", "negation")]
    rows = []
    for i, point in enumerate(points):
        means = [statistics.mean(run[i] for run in scores[column]) for column in columns]
        rows.append((point, *(f"{mean:.3f}" for mean in means)))
    return markdown_table(("generation", *(f"{name}, {view}" for name, view in columns)), rows)


@benchmark("all2", "288 weights in the League: the shipped `all2` beside Figure 7's player, also against random WPCs")
def all2(settings: Settings) -> Report:
    players = {"`all2`": league_player("all2"), "Figure 7's player": load_tuples(FIGURE_7)}
    rivals = {"swh": 0.1, "random-wpc": 0.0}
    games, rows, values = settings.size(200_000, 50), [], {}
    for rival, epsilon in rivals.items():
        for name, player in players.items():
            result = league(player, league_player(rival), games, epsilon, SEED, _threads())
            rows.append(
                (name, f"`{rival}`", f"{epsilon:g}", f"{2 * games:,}", f"{result.score:.4f}", _interval(result))
            )
            values[f"{name.strip('`')} {rival}"] = {"score": result.score, "low": result.low, "high": result.high}
    low = values["all2 swh"]["low"] or 0.0
    failure = None if settings.quick or low > BAR else f"the lower bound {low:.4f} is not above {BAR}"
    header = ("player", "against", "ε", "games", "score", "95%")
    return Report(low, "lower bound", markdown_table(header, rows), values, {"double_games": games}, failure)


BAR = 0.9592
"""What the n-tuple paper's record can be at most."""


def _interval(result: LeagueResult) -> str:
    return f"{result.low:.4f} to {result.high:.4f}"
