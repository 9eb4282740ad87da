"""How long exact solutions take: on files of positions, on our own, and with several threads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness import POSITIONS, BenchmarkError, Report, Settings, benchmark, markdown_table, read_positions
from othello_nn.cli.positions import is_right
from othello_nn.engine import Engine, Result
from othello_nn.game import move_name
from othello_nn.game.formats.obf import ObfEntry
from othello_nn.progress import progress

ENDGAMES = POSITIONS / "endgames.obf"
PARALLEL_EMPTIES = range(22, 25)
QUICK_EMPTIES = 20
QUICK_POSITIONS = 2


def _solve_alone(engine: Engine, entry: ObfEntry) -> Result:
    engine.clear()  # what an earlier position left in the table is no help that a user would have
    return engine.solve(entry.position)


def _few(settings: Settings, entries: list[ObfEntry]) -> list[ObfEntry]:
    """All entries, or for a quick look the first few that do not take long."""
    if not settings.quick:
        return entries
    return sorted(entries, key=lambda entry: entry.position.empties)[:QUICK_POSITIONS]


def _row(label: str, entry: ObfEntry, result: Result, right: bool | None) -> tuple[str, ...]:
    verdict = {True: "right", False: "**wrong**", None: ""}[right]
    speed = result.nodes / max(result.seconds, 1e-9) / 1e6
    best = "" if result.move is None else move_name(result.move)
    return (
        label,
        str(entry.position.empties),
        f"{result.score:+.0f}",
        best,
        f"{result.nodes:,}",
        f"{result.seconds:.3f}",
        f"{speed:.1f}",
        verdict,
    )


def _solve_files(settings: Settings, files: Sequence[Path]) -> Report:
    numbered = [
        (f"{path.name} {number}" if len(files) > 1 else str(number), entry)
        for path in files
        for number, entry in enumerate(_few(settings, read_positions(path)), start=1)
    ]
    threads = settings.threads or 1
    engine = settings.engine(threads=threads)
    rows: list[tuple[str, ...]] = []
    verdicts: list[bool | None] = []
    results: list[Result] = []
    with progress("solving", len(numbered)) as bar:
        for done, (label, entry) in enumerate(numbered, start=1):
            result = _solve_alone(engine, entry)
            results.append(result)
            verdicts.append(is_right(entry, result, wld=False))
            rows.append(_row(label, entry, result, verdicts[-1]))
            bar.update(done)
    nodes, seconds = sum(r.nodes for r in results), sum(r.seconds for r in results)
    right, wrong = verdicts.count(True), verdicts.count(False)
    speed = nodes / max(seconds, 1e-9) / 1e6
    verdict = f"{right} right" + (f", **{wrong} wrong**" if wrong else "") if right or wrong else "no scores listed"
    rows.append(("**total**", "", "", "", f"{nodes:,}", f"**{seconds:.3f}**", f"{speed:.1f}", verdict))
    return Report(
        value=seconds,
        unit="s",
        markdown=markdown_table(("position", "empties", "score", "best", "nodes", "seconds", "Mn/s", "check"), rows),
        values={"nodes": nodes, "positions": len(results), "right": right, "wrong": wrong, "mnodes_per_second": speed}
        | {"seconds_each": [round(result.seconds, 4) for result in results]},
        parameters={"files": [path.name for path in files], "threads": threads, "table_mb": engine.options.table_mb}
        | settings.describe_evaluator(),
        failure=f"{wrong} of {len(results)} results are wrong" if wrong else None,
    )


@benchmark("solve", "exact solutions of the positions in FILE.obf …, total seconds", takes_files=True, needs_files=True)
def solve(settings: Settings) -> Report:
    return _solve_files(settings, settings.files)


@benchmark("own", "exact solutions of our own positions of 20–24 empties, total seconds")
def own(settings: Settings) -> Report:
    return _solve_files(settings, [ENDGAMES])


@benchmark("threads", "one thread against two (or --threads N) on our positions of 22–24 empties")
def threads(settings: Settings) -> Report:
    count = settings.threads or 2
    if count < 2:
        raise BenchmarkError("threads compares one thread with --threads 2 or more")
    entries = [entry for entry in read_positions(ENDGAMES) if entry.position.empties in PARALLEL_EMPTIES]
    entries = _few(settings, entries)
    if not entries:
        raise BenchmarkError(f"{ENDGAMES.name} holds no positions of 22–24 empties")
    one, several = settings.engine(threads=1), settings.engine(threads=count)
    rows: list[tuple[str, ...]] = []
    different = 0
    totals = {"one": 0.0, "several": 0.0}
    with progress("solving", len(entries)) as bar:
        for number, entry in enumerate(entries, start=1):
            # Side by side in time: a noisy machine is then noisy for both.
            alone, together = _solve_alone(one, entry), _solve_alone(several, entry)
            totals["one"] += alone.seconds
            totals["several"] += together.seconds
            different += alone.score != together.score
            score = (
                f"{alone.score:+.0f}"
                if alone.score == together.score
                else f"{alone.score:+.0f} / {together.score:+.0f}"
            )
            ratio = alone.seconds / together.seconds
            times = (f"{alone.seconds:.3f}", f"{together.seconds:.3f}", f"{ratio:.2f}")
            rows.append(
                (str(number), str(entry.position.empties), score, *times, f"{together.nodes / alone.nodes:.2f}")
            )
            bar.update(number)
    ratio = totals["one"] / totals["several"]
    rows.append(("**total**", "", "", f"{totals['one']:.3f}", f"{totals['several']:.3f}", f"**{ratio:.2f}**", ""))
    header = ("position", "empties", "score", "1 thread, s", f"{count} threads, s", "speed-up", "nodes")
    return Report(
        value=ratio,
        unit="x",
        markdown=markdown_table(header, rows),
        values={"seconds_one": totals["one"], "seconds_several": totals["several"], "different_scores": different},
        parameters={"threads": count, "positions": len(entries), "table_mb": one.options.table_mb}
        | settings.describe_evaluator(),
        failure=f"{different} scores differ between one thread and {count}" if different else None,
    )
