"""``python benchmarks/run.py faults``: what breaks, tried by the thousand and counted.

Everything that can be given to the program is given to it damaged; what can be killed is killed and must go on as if it
had not been; disks are full; other programs mean harm; the solver is compared with plain negamax. What is counted as
wrong stands in ``trials.py``. ``--inputs N`` says how much is tried: 20,000 takes some minutes, 1,000,000 some hours.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import partial

from benchmarks.faults import deaths, protocols, solver, stored, texts
from benchmarks.faults.checked import try_checked
from benchmarks.faults.deaths import PATIENCE
from benchmarks.faults.trials import HANG_SECONDS, SHOWN, Tally, Trial, try_many
from benchmarks.harness import BenchmarkError, Report, Settings, benchmark, markdown_table

INPUTS, QUICK_INPUTS, SEED = 20_000, 600, 1
CHECKED = "states, forged, bounds checked"


def plan(inputs: int, only: str | None = None) -> list[tuple[str, str, Callable[[], Trial], int, float]]:
    """(row of the table, kind, how it is tried, how often, how long it may take) for so many inputs in all.

    With ``only`` one preset stands for all of them.
    """
    found: list[tuple[str, str, Callable[[], Trial], int, float]] = []

    def add(
        row: str, kinds: dict[str, Callable[[], Trial]], share: float, least: int = 1, patience: float = HANG_SECONDS
    ):
        """A share of the inputs for each of the kinds."""
        count = max(least, round(share * inputs))
        found.extend((row or kind, kind, make, count, patience) for kind, make in kinds.items())

    add("", texts.KINDS, 0.06)
    add("", protocols.KINDS, 0.06)
    add("", {name: stored.KINDS[name] for name in ("nets, damaged", "states, damaged")}, 0.06, patience=PATIENCE)
    add("", {"nets, forged": stored.forged_nets}, 0.002, patience=PATIENCE)
    trained = [name for name in deaths.PRESETS if only in (None, name)]
    forged = partial(stored.forged_states, [name for name in stored.STATES if name in trained])
    add("", {"states, forged": forged}, 0.002, patience=PATIENCE)
    add("solver against negamax", {"solver": solver.solver}, 0.05)
    add("hostile engines", {"hostile engines": protocols.hostile_engines}, 0.0005, 3, PATIENCE)
    # A hundred kills in a million inputs, and each preset at least once.
    presets = {name: partial(deaths.killed_training, name, 1) for name in trained}
    ranks = {name: partial(deaths.killed_training, name, 2) for name in trained if name in deaths.IN_RANKS}
    add("kill -9 of training", presets, 0.000006, 1, 2 * PATIENCE)
    add("kill -9 of training in two ranks", ranks, 0.000006, 1, 2 * PATIENCE)
    add("kill -9 of a tournament", {"tournament": deaths.killed_tournament}, 0.0005, 3, PATIENCE)
    add("kill -9 of saving", {"saving": deaths.killed_saving}, 0.005, 3, PATIENCE)
    add("full disk, training", {"full disk": partial(deaths.full_disk_training, "quick")}, 0.00002, 2, 2 * PATIENCE)
    add("full disk, tournament", {"full disk": deaths.full_disk_tournament}, 0.0005, 3, PATIENCE)
    return found


@benchmark("faults", "damaged inputs, kills, full disks, hostile engines: tried, refused, accepted, wrong (--inputs N)")
def faults(settings: Settings) -> Report:
    if not hasattr(os, "fork"):
        raise BenchmarkError("faults are tried in copies of this process, and this system makes none")
    inputs = settings.inputs or settings.size(INPUTS, QUICK_INPUTS)
    rows: dict[str, Tally] = {}
    seconds: dict[str, float] = {}

    def count(row: str, found: Tally, begun: float) -> None:
        total = rows.setdefault(row, Tally(row))
        total.tried += found.tried
        total.refused += found.refused
        total.accepted += found.accepted
        total.wrong += found.wrong
        seconds[row] = seconds.get(row, 0.0) + time.monotonic() - begun
        print(f"  {found.kind}: {found.tried} tried, {len(found.wrong)} wrong", file=sys.stderr, flush=True)
        for line in found.wrong[:SHOWN]:
            print(f"    {line}", file=sys.stderr, flush=True)

    for row, kind, make, times, patience in plan(inputs, "quick" if settings.quick else None):
        begun = time.monotonic()
        count(row, try_many(kind, make, times, SEED, patience=patience), begun)
    if not settings.quick:  # it compiles everything once more
        begun = time.monotonic()
        count(CHECKED, try_checked(CHECKED, max(20, inputs // 1000), SEED), begun)
    return _report(list(rows.values()), seconds, inputs)


def _report(rows: list[Tally], seconds: dict[str, float], inputs: int) -> Report:
    table = [
        (
            row.kind,
            f"{row.tried:,}",
            f"{row.refused:,}",
            f"{row.accepted:,}",
            len(row.wrong),
            f"{seconds[row.kind]:.0f}",
        )
        for row in rows
    ]
    tried, wrong = sum(row.tried for row in rows), [line for row in rows for line in row.wrong]
    sums = (sum(row.refused for row in rows), sum(row.accepted for row in rows))
    table.append(("all", f"{tried:,}", *(f"{number:,}" for number in sums), len(wrong), f"{sum(seconds.values()):.0f}"))
    return Report(
        len(wrong),
        "wrong",
        markdown_table(("kind", "tried", "refused", "accepted", "wrong", "s"), table),
        {row.kind: {"tried": row.tried, "refused": row.refused, "wrong": len(row.wrong)} for row in rows},
        {"inputs": inputs, "seed": SEED, "tried": tried},
        f"{len(wrong)} of {tried:,} are wrong; the first: {wrong[0]}" if wrong else None,
    )
