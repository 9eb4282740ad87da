"""``python benchmarks/run.py faults``: what breaks, tried by the thousand and counted.

Everything that can be given to the program is given to it damaged; what can be killed is killed and must go on as if it
had not been; disks are full; other programs mean harm; the solver is compared with plain negamax. What is counted as
wrong stands in ``trials.py``. ``--inputs N`` says how much is tried: 20,000 takes minutes, 1,000,000 about an hour. A
run that was stopped goes on with the kind it was at, if it is started again at the same revision. ``--kind K`` tries
those kinds alone whose names contain K, as often as a whole run would; it may be given again.
"""

from __future__ import annotations

import json
import os
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from benchmarks.faults import deaths, protocols, solver, stored, texts
from benchmarks.faults.deaths import PATIENCE
from benchmarks.faults.trials import HANG_SECONDS, SHOWN, Tally, Trial, try_many
from benchmarks.harness import BenchmarkError, Report, Settings, benchmark, machine_facts, markdown_table
from othello_nn.errors import did_you_mean
from othello_nn.kernels.jit import user_cache

INPUTS, QUICK_INPUTS, SEED = 20_000, 600, 1
GUIDED, GUIDED_LEAST, GUIDED_ROW = 0.02, 1000, "parsers, guided by coverage"
CHECKED_LEAST = 20
DEAR = ("GGF", "SGF", "journals", "players", "config.json")
"""Those of which one input takes as long as ten or twenty of another kind."""


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

    dear = {name: make for name, make in texts.KINDS.items() if name in DEAR}
    add("", dear, 0.02)
    add("", {name: make for name, make in texts.KINDS.items() if name not in dear}, 0.08)
    add("", protocols.KINDS, 0.1)
    add("", {name: stored.KINDS[name] for name in ("nets, damaged", "states, damaged")}, 0.06, patience=PATIENCE)
    add("", {"nets, forged": stored.forged_nets}, 0.002, patience=PATIENCE)
    trained = [name for name in deaths.PRESETS if only in (None, name)]
    forged = partial(stored.forged_states, [name for name in stored.STATES if name in trained])
    add("", {"states, forged": forged}, 0.002, patience=PATIENCE)
    add("solver against negamax", {"solver": solver.solver}, 0.05)
    add("hostile engines", {"hostile engines": protocols.hostile_engines}, 0.0003, 3, PATIENCE)
    # A hundred kills in a million inputs, and each preset at least once.
    presets = {name: partial(deaths.killed_training, name, 1) for name in trained}
    ranks = {name: partial(deaths.killed_training, name, 2) for name in trained if name in deaths.IN_RANKS}
    add("kill -9 of training", presets, 0.000006, 1, 2 * PATIENCE)
    add("kill -9 of training in two ranks", ranks, 0.000006, 1, 2 * PATIENCE)
    add("kill -9 of a tournament", {"tournament": deaths.killed_tournament}, 0.0002, 3, PATIENCE)
    add("kill -9 of saving", {"saving": deaths.killed_saving}, 0.003, 3, PATIENCE)
    add("full disk, training", {"full disk": partial(deaths.full_disk_training, "quick")}, 0.00002, 2, 2 * PATIENCE)
    add("full disk, tournament", {"full disk": deaths.full_disk_tournament}, 0.0002, 3, PATIENCE)
    return found


class Progress:
    """What a run has found so far, by kind, in the user's cache folder: a long run that was stopped goes on from there.

    It is that of one revision and one number of inputs: where there are changes nothing is kept.
    """

    def __init__(self, inputs: int, kinds: Sequence[str] = ()):
        machine = machine_facts()
        self.done: dict[str, tuple[Tally, float]] = {}
        self._path: Path | None = None
        if not machine["dirty"]:
            self._path = user_cache() / "othello_nn" / f"faults-{machine['revision']}-{inputs}{_mark(kinds)}.jsonl"
        if self._path is not None and self._path.exists():
            for line in self._path.read_text(encoding="utf-8").splitlines():
                found = json.loads(line)
                self.done[found["part"]] = Tally(**found["tally"]), found["seconds"]

    def add(self, part: str, tally: Tally, seconds: float) -> None:
        self.done[part] = tally, seconds
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"part": part, "tally": vars(tally), "seconds": seconds}) + "\n")

    def forget(self) -> None:
        """The run is over."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def _mark(kinds: Sequence[str]) -> str:
    """What tells the files of runs of different kinds apart."""
    return f"-{zlib.crc32(repr(sorted(kinds)).encode()):08x}" if kinds else ""


def chosen(
    all_parts: Iterable[tuple[str, str, Callable[[], Tally]]], kinds: Sequence[str]
) -> list[tuple[str, str, Callable[[], Tally]]]:
    """Those whose row or name contains one of the words, or all of them if there are none."""
    found = list(all_parts)
    for word in kinds:
        if not any(word.lower() in f"{row}; {name}".lower() for row, name, _ in found):
            rows = list(dict.fromkeys(row for row, _, _ in found))
            raise BenchmarkError(f"no kind of fault is called {word!r}; {did_you_mean(word, rows)}")
    return [
        part for part in found if not kinds or any(word.lower() in f"{part[0]}; {part[1]}".lower() for word in kinds)
    ]


def parts(inputs: int, quick: bool) -> Iterator[tuple[str, str, Callable[[], Tally]]]:
    """All that is tried, in order: (row of the table, its name, what tries it)."""
    from benchmarks.faults import checked, guided  # programs of their own, which must not be imported twice

    for row, kind, make, times, patience in plan(inputs, "quick" if quick else None):
        yield row, f"{row}, {kind}", partial(try_many, kind, make, times, SEED, patience=patience)
    if quick:
        return
    if guided.is_there():
        for kind in guided.READERS:
            runs = max(GUIDED_LEAST, round(GUIDED * inputs))
            yield GUIDED_ROW, f"{GUIDED_ROW}, {kind}", partial(guided.try_guided, kind, runs)
    else:
        print("  note: no fuzzing guided by coverage: atheris is not installed", file=sys.stderr)
    for kind in checked.KINDS:  # compiles everything once more
        times = max(CHECKED_LEAST, inputs // 1000)
        yield f"{kind}, bounds checked", f"checked, {kind}", partial(checked.try_checked, kind, times, SEED)


@benchmark(
    "faults",
    "damaged inputs, kills, full disks, hostile engines: tried, refused, accepted, wrong (--inputs N, --kind K)",
)
def faults(settings: Settings) -> Report:
    if not hasattr(os, "fork"):
        raise BenchmarkError("faults are tried in copies of this process, and this system makes none")
    inputs = settings.inputs or settings.size(INPUTS, QUICK_INPUTS)
    rows: dict[str, Tally] = {}
    seconds: dict[str, float] = {}
    progress = Progress(inputs, settings.kinds)
    for row, name, work in chosen(parts(inputs, settings.quick), settings.kinds):
        before = "" if name not in progress.done else ", before"
        if not before:
            begun = time.monotonic()
            found = work()
            progress.add(name, found, time.monotonic() - begun)
        found, took = progress.done[name]
        print(
            f"  {name}: {found.tried} tried, {len(found.wrong)} wrong, {took:.1f} s{before}",
            file=sys.stderr,
            flush=True,
        )
        for line in found.wrong[:SHOWN]:
            print(f"    {line}", file=sys.stderr, flush=True)
        total = rows.setdefault(row, Tally(row))
        total.tried += found.tried
        total.refused += found.refused
        total.accepted += found.accepted
        total.wrong += found.wrong
        seconds[row] = seconds.get(row, 0.0) + took
    progress.forget()
    return _report(list(rows.values()), seconds, inputs, settings.kinds)


def _report(rows: list[Tally], seconds: dict[str, float], inputs: int, kinds: Sequence[str]) -> Report:
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
        {"inputs": inputs, "seed": SEED, "tried": tried} | ({"kinds": list(kinds)} if kinds else {}),
        f"{len(wrong)} of {tried:,} are wrong; the first: {wrong[0]}" if wrong else None,
    )
