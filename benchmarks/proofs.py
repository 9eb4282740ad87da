"""Whether a smaller net than the champion's would order the moves of an exact solution better for its time.

The solver's selective looks are made by the champion and fill the table; then another net orders the moves of the
proof, which takes almost all of the time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from benchmarks.accuracy import SOLVED
from benchmarks.champion import BEFORE, champion_of
from benchmarks.harness import BenchmarkError, Report, Settings, benchmark, markdown_table, read_positions
from benchmarks.triangles import FOLDER, fitted
from othello_nn.engine import Engine, Options, Result
from othello_nn.engine import workspace as ws
from othello_nn.engine.driver import _Step, _Work
from othello_nn.engine.leaf.compile import shipped_evaluator
from othello_nn.engine.score import SCORE_DISC
from othello_nn.game.formats.obf import ObfEntry
from othello_nn.nets import export
from othello_nn.players.searching import table_evaluator

COUNTS = {20: 12, 22: 9, 24: 6, 26: 3}
"""Positions with so many empties."""
CHAMPION = "the champion: 62 lookups × 16"
SMALL = {f"embeddings, 46 × {dim}": {"kind": "ntuple", "tuples": "patterns", "dim": dim} for dim in (4, 2)}
FIT = ("searched.bits=8", "searched.head_rate=0.02")


class Looks(Engine):
    """Does everything but the proof."""

    def _solve_steps(self, work: _Work, wld: bool) -> Iterator[_Step]:
        yield from (step for step in super()._solve_steps(work, wld) if step.level)


class Proof(Engine):
    """Goes on where the looks have ended, with their table."""

    def __init__(self, evaluator: Any, looks: Looks):
        super().__init__(evaluator, Options(table_mb=0.01))
        self.table, self.found = looks.table, None
        for space in self._workspaces:
            space.table = self.table
            space[ws.TABLE], space[ws.TABLE_MASK] = self.table.address, self.table.mask

    found: Result | None
    """What the looks have found."""

    def _solve_steps(self, work: _Work, wld: bool) -> Iterator[_Step]:
        assert self.found is not None
        first = self.found.move
        work.moves[:] = sorted(work.moves, key=lambda move: move != first)
        work.score, work.last = round(self.found.score * SCORE_DISC), _Step(work.position.empties, 1)
        yield _Step(work.position.empties, 0, wld)


@benchmark("proof-nets", "exact solutions whose moves are ordered by a smaller net than the champion's")
def proof_nets(settings: Settings) -> Report:
    champion = shipped_evaluator()
    if champion is None:
        raise BenchmarkError("the champion is needed")
    torch.set_num_threads(1)
    looks = Looks(champion, Options(table_mb=128))
    with tempfile.TemporaryDirectory() as folder:
        nets = {CHAMPION: champion} | _smaller(Path(folder), settings)
    proofs = {name: Proof(net, looks) for name, net in nets.items()}
    rows, values = [], {}
    entries = read_positions(SOLVED)
    for proof in proofs.values():
        _solved(looks, proof, entries[0])  # compiles it
    for empties, count in list(COUNTS.items())[: settings.size(len(COUNTS), 1)]:
        chosen = [entry for entry in entries if entry.position.empties == empties][: settings.size(count, 1)]
        totals = {name: [0, 0.0] for name in nets}
        for entry in chosen:
            for name, proof in proofs.items():  # one after the other: a noisy machine is noisy for all
                result = _solved(looks, proof, entry)
                totals[name][0] += result.nodes
                totals[name][1] += result.seconds
        for name, (nodes, seconds) in totals.items():
            speed, (of_nodes, of_time) = nodes / seconds / 1e6, totals[CHAMPION]
            cells = f"{nodes:,}", f"{nodes / of_nodes:.2f}", f"{speed:.1f}", f"{seconds / of_time:.2f}"
            rows.append((f"{empties} ({len(chosen)})", name, *cells))
            values[f"{empties}: {name}"] = {"nodes": nodes, "seconds": seconds}
    header = ("empties (positions)", "who orders the proof's moves", "nodes", "of the champion's", "Mn/s", "time")
    slowest = max(COUNTS if not settings.quick else list(COUNTS)[:1])
    times = {name: values[f"{slowest}: {name}"]["seconds"] for name in nets}
    best = min(times[name] / times[CHAMPION] for name in nets if name != CHAMPION)
    return Report(best, "of the champion's time, the best other net", markdown_table(header, rows), values)


def _smaller(folder: Path, settings: Settings) -> dict[str, Any]:
    nets = {f"linear tables, 46 × 1 (the champion of {BEFORE})": table_evaluator(champion_of(BEFORE, folder))}
    for name, net in SMALL.items():
        path = folder / f"{net['dim']}.safetensors"
        kept = folder if settings.quick else FOLDER
        learner, _ = fitted(net | {"hidden": 8, "heads": 60}, FIT, kept, settings)
        export(learner.net()).save(path)
        nets[f"{name}, 8 hidden"] = table_evaluator(path)
    return nets


def _solved(looks: Looks, proof: Proof, entry: ObfEntry) -> Result:
    looks.clear()
    proof.found = looks.solve(entry.position)
    result = proof.solve(entry.position)
    if not result.exact or result.score != entry.best_score:
        raise BenchmarkError(f"{entry.position.to_text()} is {entry.best_score:+}, not {result.score:+.0f}")
    return result
