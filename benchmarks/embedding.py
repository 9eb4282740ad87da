"""The embedding net beside the linear one: how fast it learns, and how strong it is after equal games and equal time.

Both are trained as their presets say, on all cores, by turns of some seconds: whatever else the machine does then
slows both alike. They play as a run would save them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from benchmarks.harness import Report, Settings, benchmark, markdown_table
from othello_nn.arena.league import LeagueResult, league
from othello_nn.config import Config, load_preset
from othello_nn.engine.leaf.compile import Evaluator, compile_net
from othello_nn.learn.distributed import Group
from othello_nn.learn.make import make_learner
from othello_nn.learn.td.learners import float_state

EMBEDDING, LINEAR = PRESETS = ("embedding", "ntuple")
THREADS = os.cpu_count() or 1
OPENING_PLIES = 7
MINUTES = 3.0
TURN_SECONDS = 4.0
DOUBLE_GAMES = 1_000
FIRST_SECONDS, FIRST_GAMES = 180 / 16, 50_000
"""Of a curve's first points; each has twice as much as the one before."""
SIZES: tuple[tuple[str, ...], ...] = (
    ("net.dim=4",),
    ("net.hidden=8",),
    ("net.dim=16", "net.hidden=32"),
    ("net.shared=true",),
    ("net.stages=6",),
    ("net.stages=3",),
    ("net.stages=1",),
    ("td.augment=false",),
    ("td.lambda=0.4",),
    ("td.lambda=0.9",),
    ("td.epsilon=0.05",),
    ("td.epsilon=0.2",),
    ("td.exact_empties=8",),
    ("optim.final_rate=0",),
    ("optim.rate=1", "optim.final_rate=0"),
)
"""What is changed about the preset, one thing at a time."""


@dataclass
class Racer:
    """A net in training, with what it has used up so far."""

    config: Config
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    kept: dict[Any, Evaluator] = field(default_factory=dict)

    def __post_init__(self):
        self.learner = make_learner(self.config, "cpu", Group(), THREADS)

    @property
    def games(self) -> int:
        return self.learner.games

    def step(self) -> None:
        started, cpu = time.perf_counter(), time.process_time()
        self.learner.step()
        self.seconds += time.perf_counter() - started
        self.cpu_seconds += time.process_time() - cpu

    def player(self) -> Evaluator:
        """Itself, as it stands, in a copy."""
        net = self.learner.net()
        return compile_net(net.config, float_state(net))


def _race(configs: Sequence[Config], seconds: float, marks: Sequence[Any] = ()) -> list[Racer]:
    """Each trained for so many seconds, in turns. ``marks`` are seconds (float) and games (int) to keep players of."""
    racers = [Racer(config) for config in configs]
    while behind := [racer for racer in racers if racer.seconds < seconds]:
        for racer in behind:
            until = min(racer.seconds + TURN_SECONDS, seconds)
            while racer.seconds < until:
                racer.step()
                for mark in marks:
                    reached = racer.games if isinstance(mark, int) else racer.seconds
                    if reached >= mark and mark not in racer.kept:
                        racer.kept[mark] = racer.player()
    return racers


def _of_length(preset: str, seconds: float, warm_seconds: float, changes: Sequence[str] = ()) -> Config:
    """A preset with as many games as it will play in this time, so that its rates fall over just that."""
    config = load_preset(preset).changed(changes)
    racer = Racer(config)
    racer.step()  # compiles
    games, started = racer.games, racer.seconds
    while racer.seconds - started < warm_seconds:
        racer.step()
    speed = (racer.games - games) / (racer.seconds - started)
    return config.changed(games=max(1, round(speed * seconds)))


def _match(one: Evaluator, other: Evaluator, settings: Settings) -> LeagueResult:
    games = settings.size(DOUBLE_GAMES, 20)
    return league(one, other, games, 0.0, seed=1, threads=THREADS, opening_plies=OPENING_PLIES)


def _shown(result: LeagueResult) -> str:
    low, high = result.interval or (0.0, 1.0)
    return f"{result.score:.3f} ({low:.3f} to {high:.3f})"


def _minutes(settings: Settings) -> float:
    return settings.minutes if settings.minutes is not None else MINUTES / settings.size(1, 180)


@benchmark("embedding-speed", "1-ply self-play with learning, embeddings of 8 and a linear net, games/s on all cores")
def embedding_speed(settings: Settings) -> Report:
    torch.set_num_threads(1)
    racers = [Racer(load_preset(preset)) for preset in PRESETS]
    speeds: dict[str, list[float]] = {preset: [] for preset in PRESETS}
    for turn in range(settings.repeats() + 1):
        for preset, racer in zip(PRESETS, racers, strict=True):
            games, seconds = racer.games, racer.seconds
            for _ in range(settings.size(20, 2)):
                racer.step()
            if turn:  # the first compiles, and its players know nothing yet
                speeds[preset].append((racer.games - games) / (racer.seconds - seconds))
    rows = []
    for preset, racer in zip(PRESETS, racers, strict=True):
        middle = sorted(speeds[preset])[len(speeds[preset]) // 2]
        rows.append((f"`{preset}`", THREADS, f"{middle:,.0f}", f"{1e6 * racer.cpu_seconds / racer.games:.0f}"))
        speeds[preset] = [middle]
    header = ("preset", "cores", "games/s", "µs of a core a game")
    values = {preset: found[0] for preset, found in speeds.items()}
    return Report(values[EMBEDDING], "games/s", markdown_table(header, rows), values, {"threads": THREADS})


@benchmark("embedding-against-linear", "the embedding net against the linear one, each trained for --minutes (3)")
def embedding_against_linear(settings: Settings) -> Report:
    torch.set_num_threads(1)
    seconds = 60 * _minutes(settings)
    configs = [_of_length(preset, seconds, seconds / 20) for preset in PRESETS]
    racers = _race(configs, seconds)
    result = _match(racers[0].player(), racers[1].player(), settings)
    rows = [
        (f"`{preset}`", f"{racer.games:,}", f"{racer.seconds:.0f}", f"{racer.cpu_seconds:.0f}", score)
        for preset, racer, score in zip(PRESETS, racers, (_shown(result), ""), strict=True)
    ]
    header = ("preset", "games", "seconds", "seconds of a core", f"score in {2 * result.double_games:,} games at 1-ply")
    values = {preset: racer.games for preset, racer in zip(PRESETS, racers, strict=True)}
    values |= {"low": (result.interval or (0.0, 1.0))[0]}
    parameters = {"seconds": seconds, "threads": THREADS, "double_games": result.double_games}
    return Report(result.score or 0.0, "score", markdown_table(header, rows), values, parameters)


@benchmark("embedding-curve", "the embedding net against the linear one as they learn, at equal games and equal time")
def embedding_curve(settings: Settings) -> Report:
    torch.set_num_threads(1)
    seconds, smaller = 60 * _minutes(settings), settings.size(1, 180)
    games = [FIRST_GAMES // smaller * 2**i for i in range(8)]
    times = [FIRST_SECONDS / smaller * 2**i for i in range(5)]
    times = [time for time in times if time < seconds] + [seconds]
    embedding, linear = _race([_of_length(preset, seconds, seconds / 20) for preset in PRESETS], seconds, games + times)
    values: dict[str, dict[str, float]] = {"games": {}, "seconds": {}}
    rows: list[tuple[str, ...]] = []
    for mark in [*games, *times]:
        if mark not in embedding.kept or mark not in linear.kept:
            continue
        result = _match(embedding.kept[mark], linear.kept[mark], settings)
        more = ""
        if isinstance(mark, int) and 4 * mark in linear.kept:
            more = _shown(_match(embedding.kept[mark], linear.kept[4 * mark], settings))
        kind, text = ("games", f"{mark:,} games") if isinstance(mark, int) else ("seconds", f"{mark:.0f} s")
        rows.append((text, _shown(result), more))
        values[kind][str(mark)] = result.score or 0.0
    header = ("after", "against the linear net after as much", "after four times as many games")
    note = f"In {seconds:.0f} s: {embedding.games:,} games of `{EMBEDDING}`, {linear.games:,} of `{LINEAR}`."
    text = f"{markdown_table(header, rows)}\n\n{note}"
    parameters = {"seconds": seconds, "threads": THREADS, "double_games": settings.size(DOUBLE_GAMES, 20)}
    last = list(values["seconds"].values())[-1]
    return Report(last, "score", text, values, parameters)


@benchmark("embedding-sizes", "what sizes and rates of embedding nets are worth: the preset changed, against itself")
def embedding_sizes(settings: Settings) -> Report:
    torch.set_num_threads(1)
    seconds = 60 * (settings.minutes if settings.minutes is not None else 1 / settings.size(1, 120))
    ways = [(), *SIZES]
    configs = [_of_length(EMBEDDING, seconds, seconds / 20, changes) for changes in ways]
    racers = _race(configs, seconds)
    preset = racers[0].player()
    rows, values = [], {}
    for changes, racer in zip(ways, racers, strict=True):
        result = _match(racer.player(), preset, settings) if changes else None
        name = " ".join(f"`{change}`" for change in changes) or "the preset"
        micros = f"{1e6 * racer.cpu_seconds / racer.games:.0f}"
        rows.append((name, f"{racer.games:,}", micros, _shown(result) if result else ""))
        if result:
            values[" ".join(changes)] = result.score or 0.0
    header = ("changed", f"games in {seconds:.0f} s", "µs of a core a game", "score against the preset")
    parameters = {"seconds": seconds, "threads": THREADS, "double_games": settings.size(DOUBLE_GAMES, 20)}
    return Report(max(values.values()), "score", markdown_table(header, rows), values, parameters)
