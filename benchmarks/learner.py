"""Learning by autograd: as much from a game as learning on line, and what an update asks of a device."""

from __future__ import annotations

import os
import time
from functools import partial
from typing import Any

import torch

from benchmarks.harness import Report, Settings, benchmark, markdown_table
from benchmarks.quick import config_before
from othello_nn.arena.league import league
from othello_nn.config import Config, load_preset
from othello_nn.engine.leaf.compile import Evaluator, compile_net
from othello_nn.learn.distributed import Group
from othello_nn.learn.launches import Launches
from othello_nn.learn.learner import Learner, first_net
from othello_nn.learn.td.learners import TDLearner, float_state
from othello_nn.learn.td.online_learner import OnlineLearner
from othello_nn.learn.td.torch_learner import TorchLearner

OPENING_PLIES = 7
THREADS = os.cpu_count() or 1


def _trained(learner: Learner) -> tuple[Evaluator, float]:
    """The net after its run, as it would be saved, and games a second."""
    started = time.monotonic()
    while learner.progress < 1:
        learner.step()
    seconds = time.monotonic() - started
    net = learner.net()
    return compile_net(net.config, float_state(net)), learner.games / seconds


@benchmark("batched-learner", "linear nets learnt in batches against the same learnt on line, equal games, 1-ply")
def batched_learner(settings: Settings) -> Report:
    torch.set_num_threads(1)
    games, double_games = settings.size(80_000, 1_000), settings.size(2_000, 20)
    rows, values = [], {}
    six_stages = config_before().changed(["td.epsilon=0.1", "td.cut=true"])
    for name, config in {"`ntuple`": load_preset("ntuple"), "six stages": six_stages}.items():
        config = config.changed(games=games)
        rival, speed = _trained(OnlineLearner(config, first_net(config), Group(), THREADS))
        rows.append((f"{name}, on line", f"{speed:,.0f}", "", ""))
        ways = {"in batches": config, "in batches, three passes": config.changed(["td.passes=3"])}
        for way, told in ways.items():
            net, speed = _trained(TorchLearner(told, first_net(told), Group(), THREADS, "cpu"))
            result = league(net, rival, double_games, 0.0, seed=1, threads=THREADS, opening_plies=OPENING_PLIES)
            low, high = result.interval or (0.0, 0.0)
            rows.append((f"{name}, {way}", f"{speed:,.0f}", f"{result.score:.3f}", f"{low:.3f} to {high:.3f}"))
            values[f"{name.strip('`')}, {way}"] = {"score": result.score, "low": low, "high": high}
    header = ("learnt", "games/s", "against the net learnt on line", "95%")
    worst = min(value["score"] or 0.0 for way, value in values.items() if "passes" not in way)
    parameters = {"games": games, "double_games": double_games, "threads": THREADS}
    return Report(worst, "score", markdown_table(header, rows), values, parameters)


KINDS = {
    "linear, temporal coherence": (config_before, []),
    "embeddings of 8, temporal coherence": (config_before, ["net.dim=8"]),
    "embeddings of 8, Adam": (config_before, ["net.dim=8", "optim.kind=adam", "optim.rate=0.01"]),
    "triangle nets, Adam": (partial(load_preset, "triangle"), ["td.targets=returns", "td.exact_empties=0"]),
}


@benchmark("update-speed", "targets and updates by autograd alone on one core: games/s, launches and waits")
def update_speed(settings: Settings) -> Report:
    torch.set_num_threads(1)
    rows, values = [], {}
    for name, (base, changes) in KINDS.items():
        config = base().changed(changes)
        learner = TorchLearner(config, first_net(config), Group(), THREADS, "cpu")
        values[name] = found = _updates(learner, config, settings)
        cells = (f"{found['games']:,.0f}", found["rows"], found["launches"], found["waits"])
        rows.append((name, *map(str, cells)))
    header = ("net", "games/s", "positions of an update", "launches of an update", "waits of a step")
    first = next(iter(values.values()))["games"]
    return Report(first, "games/s", markdown_table(header, rows), values, {"threads": 1})


def _updates(learner: TDLearner, config: Config, settings: Settings) -> dict[str, Any]:
    games = learner.play()
    learner.state()  # those who play ahead have finished: the core is the learner's
    learner._learn(games, learner.targets(games))
    seconds, repeats = [], settings.size(5, 1)
    for _ in range(repeats):
        started = time.perf_counter()
        learner._learn(games, learner.targets(games))
        seconds.append(time.perf_counter() - started)
    with Launches() as step:
        learner._learn(games, learner.targets(games))
    assert isinstance(learner, TorchLearner)
    parts = learner.parts(learner.targets(games).rows, learner.dice())
    with Launches() as update:
        learner.improve(parts[0])
    return {
        "games": config.td.batch_games / sorted(seconds)[repeats // 2],
        "rows": len(parts[0].mover),
        "launches": update.launches,
        "waits": step.waits.total(),
    }
