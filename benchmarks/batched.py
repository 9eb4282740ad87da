"""Search with nets that are asked in batches: how much of their speed is left, what batches save, what games share.

The residual net is a small one of the usual kind with random weights, since its speed is what matters; the champion's
net, asked through torch although it could be compiled, is there for trees as they are with a net that knows something.
"""

from __future__ import annotations

import statistics
import time
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.harness import Report, Settings, benchmark, markdown_table, shipped_positions, warmed
from othello_nn.arena.match import play_match
from othello_nn.arena.openings import Opening, make_openings
from othello_nn.engine import Engine, Limit, Options, rounds
from othello_nn.engine.leaf.batched import BatchedEvaluator
from othello_nn.game import Position
from othello_nn.nets import NTupleNet, batched_evaluator, load_net
from othello_nn.nets.base import boards
from othello_nn.players import make_player

DEPTHS = (2, 3, 4, 5)
DEVICE_SECONDS = 0.002
"""What a call of a net may take on a device that is far away, however few its positions are."""


class ResidualNet(nn.Module):
    """Two planes, ``blocks`` residual blocks of 3×3 convolutions, and a linear layer over all squares."""

    def __init__(self, width: int = 32, blocks: int = 2):
        super().__init__()
        self.first = nn.Conv2d(2, width, 3, padding=1)
        self.convolutions = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(2 * blocks))
        self.last = nn.Linear(64 * width, 1)

    def discs(self, mover: Tensor, opponent: Tensor, black_to_move: Tensor | None = None) -> Tensor:
        board = boards(mover, opponent).view(-1, 1, 8, 8)
        x = F.relu(self.first(torch.cat((board.clamp(min=0), -board.clamp(max=0)), 1)))
        for one, other in zip(self.convolutions[::2], self.convolutions[1::2], strict=True):
            x = F.relu(x + other(F.relu(one(x))))
        return 20 * self.last(x.flatten(1)).squeeze(1)


RESIDUAL, EMBEDDING, CHAMPION = "residual net, 2 × 32", "n-tuple net, dim=32", "the champion's net in torch"
SIZES = {RESIDUAL: (256, 5), EMBEDDING: (1024, 6), CHAMPION: (1024, 6)}
"""Batches that suit a net on a CPU, and a depth that takes it some tenths of a second."""


def _net(name: str) -> Any:
    """Not all are a ``Net``: what matters is that they have ``discs``."""
    torch.manual_seed(1996)
    if name == CHAMPION:
        return load_net("champion")
    return ResidualNet() if name == RESIDUAL else NTupleNet(tuples="patterns", dim=32)


@contextmanager
def _one_core():
    """Torch on one thread: the share of a net's speed is the same on more, and can be measured on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _Recorded:
    """A net's evaluator that keeps what it was asked, to ask it again."""

    def __init__(self, name: str, batch: int):
        net = _net(name)
        self.plain = batched_evaluator(net, batch=batch, name=name)
        self.asked: list[tuple[np.ndarray, ...]] = []
        self.evaluator = BatchedEvaluator(name, self._discs, batch)

    def _discs(self, *positions: np.ndarray) -> np.ndarray:
        self.asked.append(positions)
        return self.plain.discs(*positions)

    def ask_again(self) -> tuple[int, int, float]:
        """Positions, calls, and processor time for the same positions in full batches without a search."""
        columns = [np.concatenate(column) for column in zip(*self.asked, strict=True)]
        begun = time.process_time()
        self.plain.discs(*columns)
        seconds = time.process_time() - begun
        calls = len(self.asked)
        self.asked.clear()
        return len(columns[0]), calls, seconds


def _search_all(engine: Engine, positions: list[Position], depth: int) -> tuple[int, float]:
    """Nodes and seconds for a search of each position, each as if it were the first."""
    nodes, seconds = 0, 0.0
    for position in positions:
        engine.clear()
        result = engine.search(position, Limit(depth=depth))
        nodes, seconds = nodes + result.nodes, seconds + result.seconds
    return nodes, seconds


@benchmark("batched-leaves", "leaves of a batched search a second, against the net's own speed")
def batched_leaves(settings: Settings) -> Report:
    positions = shipped_positions("midgame.obf")[:: settings.size(4, 10)]
    rows, ratios = [], {}
    with _one_core():
        for name in (RESIDUAL, EMBEDDING):
            batch, depth = SIZES[name]
            depth -= settings.size(0, 2)
            recorded = _Recorded(name, batch)
            engine = warmed(Engine(recorded.evaluator, Options(table_mb=16)))
            recorded.asked.clear()
            shares, own, sizes = [], [], []
            for _ in range(settings.repeats()):  # by turns, since the machine's speed changes
                begun = time.process_time()
                _search_all(engine, positions, depth)
                searching = time.process_time() - begun
                count, calls, alone = recorded.ask_again()
                shares.append(alone / searching)
                own.append(count / alone)
                sizes.append(count / calls)
            share, speed = statistics.median(shares), statistics.median(own)
            ratios[name] = share
            figures = (f"{speed:,.0f}", f"{speed * share:,.0f}", f"{share:.2f}", f"{sizes[0]:.0f}")
            rows.append((f"{name}, depth {depth}", batch, *figures))
    header = ("net", "batch", "positions/s alone", "in the search", "share", "positions a call")
    caption = f"{len(positions)} midgame positions; processor time of one core."
    worst = min(ratios.values())
    return Report(
        worst,
        "of the net's speed",
        markdown_table(header, rows, caption),
        values={name: round(ratio, 3) for name, ratio in ratios.items()},
        parameters={"sizes": SIZES, "positions": len(positions)},
    )


@benchmark("batched-depths", "nodes and time of a batched search by depth, against one position at a time")
def batched_depths(settings: Settings) -> Report:
    positions = shipped_positions("midgame.obf")[:: settings.size(4, 10)]
    rows, values = [], {}
    with _one_core():
        for name in (RESIDUAL, CHAMPION):  # with random weights, one will do
            net = _net(name)
            engines = [
                warmed(Engine(batched_evaluator(net, batch=size, name=name), Options(table_mb=16)))
                for size in (1, SIZES[name][0], 4096)
            ]
            for depth in DEPTHS[: settings.size(4, 2)]:
                cells = []
                for engine in engines:
                    nodes, seconds = _search_all(engine, positions, depth)
                    cells.append((nodes / len(positions), 1000 * seconds / len(positions)))
                values[f"{name}, depth {depth}"] = [round(ms, 2) for _, ms in cells]
                rows.append((f"{name}, depth {depth}", *(f"{n:,.0f} · {ms:,.1f} ms" for n, ms in cells)))
    header = ("nodes · time a position", "one by one", "in batches", "batch=4096")
    caption = f"{len(positions)} midgame positions, one core; the batches are those of `batched-leaves`."
    one, many = next(reversed(values.values()))[:2]
    return Report(one / many, "times as fast as one by one", markdown_table(header, rows, caption), values=values)


@benchmark("batched-guesses", "calls and positions of a batched search by how far it trusts its guesses")
def batched_guesses(settings: Settings) -> Report:
    positions, depth = shipped_positions("midgame.obf")[:: settings.size(2, 10)], settings.size(6, 4)
    ways = {
        "what is foreseen, in calls as small as it is": (0.0, 0),
        "filled to half a batch (in use)": (rounds.FILL, rounds.LEAST_WIDE),
        "filled to a whole batch": (1.0, 0),
        "all leaves of last nodes": (0.0, 1),
        "whole frontiers of two plies": (0.0, 2),
    }
    rows, values = [], {}
    with _one_core():
        for batch in (256, 4096):
            evaluator = batched_evaluator(_net(CHAMPION), batch=batch)
            engine = warmed(Engine(evaluator, Options(table_mb=16)))
            for way, (fill, wide) in ways.items():
                calls, asked = evaluator.batcher.calls, evaluator.batcher.positions
                with mock.patch.multiple(rounds, FILL=fill, LEAST_WIDE=wide):
                    _search_all(engine, positions, depth)
                calls, asked = evaluator.batcher.calls - calls, evaluator.batcher.positions - asked
                values[f"{way}, {batch}"] = (calls, asked)
                rows.append((f"{way}, batch={batch}", f"{calls:,}", f"{asked:,}", f"{asked / calls:.0f}"))
    header = ("what is asked for", "calls", "positions", "positions a call")
    caption = f"The champion's net in torch, {len(positions)} midgame positions to depth {depth}."
    calls, asked = values["filled to half a batch (in use), 256"]
    return Report(asked, "positions", markdown_table(header, rows, caption), values=values, parameters={"depth": depth})


@benchmark("batched-games", "games of a match that share a net's batches")
def batched_games(settings: Settings) -> Report:
    openings = make_openings("random:8", settings.size(8, 2), 1)
    rows, speedups = [], {}
    with _one_core():
        inner = batched_evaluator(_net(EMBEDDING))

        def distant(*positions: np.ndarray) -> np.ndarray:
            time.sleep(DEVICE_SECONDS)
            return inner.discs(*positions)

        modelled = f"the same, each call {1000 * DEVICE_SECONDS:.0f} ms longer"
        for name, discs, batch in ((EMBEDDING, inner.discs, 256), (modelled, distant, 4096)):
            alone = 0.0
            for jobs in (1, 2, 4, 8):
                speed, size = _play(BatchedEvaluator(name, discs, batch), openings, jobs)
                alone = alone or speed
                speedups[f"{name}, {jobs} at once"] = round(speed / alone, 2)
                rows.append((f"{name}, {jobs} at once", f"{speed:.2f}", f"{speed / alone:.2f}", f"{size:.0f}"))
    header = ("games", "games/s", "times one", "positions a call")
    caption = f"{2 * len(openings)} games at depth 3 against `swh`, the net on one core; the longer calls are a model."
    table = markdown_table(header, rows, caption)
    return Report(max(speedups.values()), "times one game at a time", table, values=speedups)


def _play(evaluator: BatchedEvaluator, openings: list[Opening], jobs: int) -> tuple[float, float]:
    """Games a second, and positions a call."""
    warmed(Engine(evaluator, Options(table_mb=1)))
    batcher = evaluator.batcher
    calls, positions = batcher.calls, batcher.positions
    result = play_match(lambda: make_player("net:depth=3", net=evaluator), "swh", openings, jobs=jobs)
    return result.games / result.seconds, (batcher.positions - positions) / (batcher.calls - calls)
