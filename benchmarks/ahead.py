"""By how many plies a solution of the end is ahead of a midgame search that takes as long: IAGO's n + 5 and n + 7.

For each position: the time until an iterative search has finished depth 1, 2, 3 …, and the time to solve it, exactly
and for win, draw or loss. If the solution takes as long as depth n, it is (empties − n) plies ahead; 1 is the least
that can be found, since a search of depth = empties is a solution. IAGO searched at full width; against a search with
ProbCut, which reaches much deeper, the same solution is fewer plies ahead. The driver's ``EXACT_AHEAD`` and
``WLD_AHEAD`` come from here.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from itertools import pairwise

from benchmarks.harness import Report, Settings, benchmark, markdown_table
from benchmarks.midgames import played_positions
from othello_nn.engine import Engine, Limit
from othello_nn.engine.driver import EXACT_AHEAD, WLD_AHEAD
from othello_nn.game import Position
from othello_nn.progress import progress

EMPTIES = (16, 18, 20, 22)
POSITIONS_EACH = 8
SEED = 1982
KINDS = {"exact": "exact", "wld": "win/draw/loss"}
IAGO = {"exact": 5, "wld": 7}


def _solve_seconds(engine: Engine, position: Position, wld: bool) -> float:
    """Seconds until the score was known; the principal variation that follows is no part of the comparison."""
    times: list[float] = []
    engine.clear()
    engine.solve(position, wld=wld, on_iteration=lambda result: times.append(result.seconds))
    return times[-1]


def _depth_seconds(engine: Engine, position: Position, enough: float) -> list[float]:
    """Seconds until depth 1, 2, … was finished, up to the first that took longer than ``enough``."""
    times: list[float] = []

    def note(result) -> bool:
        times.append(result.seconds)
        return result.seconds <= enough

    engine.clear()
    engine.search(position, Limit(depth=position.empties - 1), on_iteration=note)
    return times


def equal_depth(times: list[float], seconds: float) -> float:
    """The depth that takes ``seconds``, on a logarithmic scale between two depths; the last if none takes so long."""
    if seconds <= times[0]:
        return 1.0
    for depth, (before, after) in enumerate(pairwise(times), start=1):
        if seconds <= after:
            return depth + math.log(seconds / before) / math.log(after / before)
    return float(len(times))


@dataclass(frozen=True)
class _Lead:
    """Plies ahead of each kind of solution, by empties, against one kind of search."""

    plies: dict[str, dict[int, list[float]]]

    def median(self, kind: str, empties: int | None = None) -> float:
        by_empties = self.plies[kind]
        chosen = by_empties.values() if empties is None else [by_empties[empties]]
        return statistics.median(x for found in chosen for x in found)

    @property
    def suggested(self) -> dict[str, int]:
        return {kind: round(self.median(kind)) for kind in KINDS}


def _leads(settings: Settings, positions: list[Position], searchers: dict[str, Engine]) -> dict[str, _Lead]:
    solver = settings.engine()
    leads = {name: _Lead({kind: {p.empties: [] for p in positions} for kind in KINDS}) for name in searchers}
    with progress("solving and searching", len(positions)) as bar:
        for done, position in enumerate(positions, start=1):
            seconds = {kind: _solve_seconds(solver, position, kind == "wld") for kind in KINDS}
            for name, engine in searchers.items():
                times = _depth_seconds(engine, position, max(seconds.values()))
                for kind in KINDS:
                    depth = equal_depth(times, seconds[kind])
                    leads[name].plies[kind][position.empties].append(position.empties - depth)
            bar.update(done)
    return leads


@benchmark("ahead", "plies by which solving reaches further than searching in the same time, 16–22 empties")
def ahead(settings: Settings) -> Report:
    each = settings.size(POSITIONS_EACH, 2)
    counts = EMPTIES[:2] if settings.quick else EMPTIES
    positions = played_positions([empties for empties in counts for _ in range(each)], SEED)
    searchers = {"full width": settings.engine(probcut=False)}
    if getattr(settings.evaluator, "probcut", None) is not None:
        searchers["ProbCut"] = settings.engine()
    leads = _leads(settings, positions, searchers)
    columns = [(lead, kind) for lead in leads.values() for kind in KINDS]
    rows: list[tuple[str, ...]] = [
        (f"{empties} empties", *(f"{lead.median(kind, empties):.1f}" for lead, kind in columns)) for empties in counts
    ]
    in_use = {"exact": EXACT_AHEAD, "wld": WLD_AHEAD}
    used = (str(in_use[kind][name == "ProbCut"]) for name in leads for kind in KINDS)
    rows += [
        ("**median of all**", *(f"**{lead.median(kind):.1f}**" for lead, kind in columns)),
        ("suggested", *(str(lead.suggested[kind]) for lead, kind in columns)),
        ("in use (`EXACT_AHEAD`, `WLD_AHEAD`)", *used),
        ("IAGO", *(str(IAGO[kind]) if name == "full width" else "" for name in leads for kind in KINDS)),
    ]
    header = ("plies ahead", *(f"{KINDS[kind]}, {name} search" for name in leads for kind in KINDS))
    figures = {
        name: {kind: {"median": lead.median(kind), "suggested": lead.suggested[kind]} for kind in KINDS}
        for name, lead in leads.items()
    }
    return Report(
        value=leads["full width"].median("exact"),
        unit="plies",
        markdown=markdown_table(header, rows),
        values=figures,
        parameters={"empties": list(counts), "positions_each": each, "seed": SEED} | settings.describe_evaluator(),
    )
