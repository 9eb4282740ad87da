"""This revision against an earlier one, in one run: is anything slower, are node counts the same?

Both are cloned into a temporary folder and measured in turns by their own benchmarks, so that a machine whose speed
changes from minute to minute changes it for both. Files go to `solve`, for positions of one's own.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.harness import ROOT, BenchmarkError, Report, Settings, benchmark, markdown_table

MEASURED = ("perft", "playouts", "midgame", "own", "selfplay", "league-speed")
ROUNDS = 5
BAR = 0.98
SECONDS = "s"
"""The unit in which less is better."""


@benchmark(
    "against",
    "speeds and node counts of this revision over those of --revision, measured in turns",
    takes_files=True,
    needs_revision=True,
)
def against(settings: Settings) -> Report:
    if settings.revision is None:
        raise BenchmarkError("against needs a revision to compare with: against --revision HEAD~1")
    names = MEASURED[:1] if settings.quick else (*MEASURED, *(["solve"] if settings.files else []))
    revisions = {"old": settings.revision, "new": "HEAD"}
    with tempfile.TemporaryDirectory() as folder:
        trees = [_clone(Path(folder) / which, revision) for which, revision in revisions.items()]
        for tree in trees:
            _measure(tree, names, settings, "--quick")  # compiles
        found: list[dict[str, list[dict[str, Any]]]] = [{name: [] for name in names} for _ in trees]
        for _ in range(settings.size(ROUNDS, 1)):
            for tree, results in zip(trees, found, strict=True):
                for name, line in _measure(tree, names, settings).items():
                    results[name].append(line)
    old, new = found
    rows, ratios, changed = [], {}, []
    for name in names:
        unit = new[name][0]["unit"]
        medians = [statistics.median(line["value"] for line in lines[name]) for lines in (old, new)]
        ratios[name] = medians[0] / medians[1] if unit == SECONDS else medians[1] / medians[0]
        nodes = [_node_counts(lines[name][0]["values"]) for lines in (old, new)]
        same = "–" if not nodes[0] else ("same" if nodes[0] == nodes[1] else "changed")
        changed += [name] if same == "changed" else []
        rows.append((name, unit, f"{medians[0]:,.4g}", f"{medians[1]:,.4g}", f"{ratios[name]:.3f}", same))
    header = ("benchmark", "unit", f"at {settings.revision}", "now", "speed, now over then", "nodes")
    slower = [name for name, ratio in ratios.items() if ratio < BAR]
    failure = f"slower than {BAR} of {settings.revision}: {', '.join(slower)}" if slower else None
    return Report(
        value=min(ratios.values()),
        unit="least ratio",
        markdown=markdown_table(header, rows, f"Median of {settings.size(ROUNDS, 1)} rounds in turns."),
        values={"ratios": ratios, "node_counts_changed": changed},
        parameters={"revision": settings.revision, "rounds": settings.size(ROUNDS, 1)},
        failure=f"node counts changed: {', '.join(changed)}" if changed else failure,
    )


def _clone(folder: Path, revision: str) -> Path:
    """A clean copy of the repository at a revision."""
    try:
        _git("clone", "-q", "--shared", str(ROOT), str(folder))
        _git("-C", str(folder), "checkout", "-q", revision)
    except subprocess.CalledProcessError as error:
        raise BenchmarkError(f"there is no revision {revision!r} here ({error.stderr.strip()})") from None
    return folder


def _git(*words: str) -> None:
    subprocess.run(["git", *words], check=True, capture_output=True, text=True)


def _node_counts(values: Any) -> list[int]:
    """All counts of nodes in what a benchmark recorded."""
    if not isinstance(values, dict):
        return []
    here = [values["nodes"]] if isinstance(values.get("nodes"), int) else []
    return here + [count for inner in values.values() for count in _node_counts(inner)]


def _measure(tree: Path, names: tuple[str, ...], settings: Settings, *words: str) -> dict[str, dict[str, Any]]:
    """What a clone's own benchmarks record, by name; nothing with ``--quick``, which records nothing."""
    results = tree / "benchmarks" / "results.jsonl"
    before = len(results.read_text(encoding="utf-8").splitlines())
    files = [str(path.resolve()) for path in settings.files if "solve" in names]
    command = [sys.executable, "benchmarks/run.py", *names, *files, *words]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchmarkError(f"a benchmark failed: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}")
    lines = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()[before:]]
    return {line["name"]: line for line in lines}
