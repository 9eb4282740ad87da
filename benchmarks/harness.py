"""What all benchmarks share: a registry, the settings of a run, timing, and where results go.

A benchmark is a function from ``Settings`` to ``Report``, registered under the name that is typed:

    @benchmark("perft", "move sequences counted, one core")
    def perft(settings: Settings) -> Report: ...

``run.py`` calls it, prints the report's markdown, appends one line to ``results.jsonl`` and, if asked to, puts the
markdown between the markers of that name in a page of ``docs/``.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, cached_property
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

from othello_nn.engine import Engine, Limit, Options
from othello_nn.engine.leaf.mobility import Mobility
from othello_nn.engine.leaf.tables import LeafEvaluator
from othello_nn.game import OthelloError, Position
from othello_nn.game.formats.files import read_obf
from othello_nn.game.formats.obf import ObfEntry
from othello_nn.players.searching import table_evaluator
from othello_nn.resources import BEST, find_net, shipped_nets

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results.jsonl"
POSITIONS = ROOT / "benchmarks" / "positions"
DOCS = ROOT / "docs"
REPEATS = 5
VERSIONED = ("numba", "llvmlite", "numpy")


class BenchmarkError(OthelloError):
    """A benchmark that cannot be run as asked."""


@dataclass(frozen=True)
class Settings:
    """What was asked for on the command line; None leaves the choice to the benchmark."""

    quick: bool = False
    threads: int | None = None
    table_mb: float | None = None
    evaluator_name: str | None = None
    files: tuple[Path, ...] = ()
    revision: str | None = None
    minutes: float | None = None
    inputs: int | None = None
    kinds: tuple[str, ...] = ()

    def __post_init__(self):
        if self.inputs is not None and self.inputs < 1:
            raise BenchmarkError(f"--inputs is {self.inputs}; it must be at least 1")
        if self.minutes is not None and not 0 < self.minutes < 1e4:
            raise BenchmarkError(f"--minutes is {self.minutes}; it must be more than 0")
        given: dict[str, Any] = {"threads": self.threads, "table_mb": self.table_mb}
        try:
            Options(**{name: value for name, value in given.items() if value is not None})
        except ValueError as error:
            raise BenchmarkError(str(error)) from None

    @property
    def checkpoint(self) -> Path:
        """The file of the net asked for, else that of the trained evaluator."""
        return find_net(self.evaluator_name or BEST)

    @cached_property
    def evaluator(self) -> LeafEvaluator | Mobility:
        """The evaluator asked for, else the trained one, else, with a note, the one that needs no file."""
        if self.evaluator_name is None and BEST not in shipped_nets():
            print(f"note: checkpoints/{BEST}.safetensors is not there; using Mobility()", file=sys.stderr)
            return Mobility()
        path = self.checkpoint
        evaluator = table_evaluator(path)
        if not isinstance(evaluator, LeafEvaluator):
            raise BenchmarkError(f"{path.name} looks at the colour to move; benchmarks need one evaluator for both")
        return evaluator

    @property
    def tables(self) -> LeafEvaluator:
        """The same, where only a table evaluator will do."""
        if not isinstance(self.evaluator, LeafEvaluator):
            raise BenchmarkError("this benchmark needs a table evaluator: give --evaluator NET")
        return self.evaluator

    def engine(self, evaluator=None, **options: Any) -> Engine:
        """An engine ready to be timed: compiled, and its memory touched."""
        if self.table_mb is not None:
            options.setdefault("table_mb", self.table_mb)
        return warmed(Engine(self.evaluator if evaluator is None else evaluator, Options(**options)))

    def size(self, full: int, quick: int) -> int:
        return quick if self.quick else full

    def repeats(self) -> int:
        return self.size(REPEATS, 1)

    def describe_evaluator(self) -> dict[str, Any]:
        """Enough to tell two evaluators apart, without the place where the file is."""
        evaluator = self.evaluator
        if not isinstance(evaluator, LeafEvaluator):
            return {"evaluator": "mobility"}
        digest = hashlib.sha256(evaluator.weights.tobytes()).hexdigest()[:12]
        fitted = evaluator.probcut is not None
        return {"evaluator": evaluator.name, "evaluator_sha256": digest, "evaluator_has_probcut": fitted}


@dataclass(frozen=True)
class Report:
    """What a benchmark found. ``failure`` says what was wrong if a result was not the right one."""

    value: float
    unit: str
    markdown: str
    values: dict[str, Any] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    failure: str | None = None


@dataclass(frozen=True)
class Benchmark:
    name: str
    summary: str
    run: Callable[[Settings], Report]
    takes_files: bool = False
    needs_files: bool = False
    needs_revision: bool = False


BENCHMARKS: dict[str, Benchmark] = {}


def benchmark(name: str, summary: str, **kinds: bool):
    """Register a function under the name that is typed."""

    def register(function: Callable[[Settings], Report]):
        BENCHMARKS[name] = Benchmark(name, summary, function, **kinds)
        return function

    return register


# --- measuring -------------------------------------------------------------------------------------------------------


AnyEngine = TypeVar("AnyEngine", bound=Engine)


def warmed(engine: AnyEngine) -> AnyEngine:
    """Compile the search outside any timer; clearing touches the table's pages once."""
    engine.search(Position.start(), Limit(depth=1))
    engine.clear()
    return engine


def median_seconds(work: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Median time of ``work`` and its last result."""
    times, result = [], None
    for _ in range(repeats):
        started = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - started)
    return statistics.median(times), result


def read_positions(path: Path) -> list[ObfEntry]:
    """The entries of an OBF file, or an error that names it as the user knows it."""
    try:
        entries = read_obf(path)
    except OSError as error:
        name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
        raise BenchmarkError(f"'{name}' cannot be read: {error.strerror or error}") from None
    if not entries:
        raise BenchmarkError(f"{path.name} holds no positions")
    return entries


def shipped_positions(name: str) -> list[Position]:
    return [entry.position for entry in read_positions(POSITIONS / name)]


# --- showing ---------------------------------------------------------------------------------------------------------


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "") -> str:
    """A markdown table: first column to the left, the others to the right."""
    lines = [f"| {' | '.join(header)} |", f"|---|{'---:|' * (len(header) - 1)}"]
    lines += [f"| {' | '.join(str(cell) for cell in row)} |" for row in rows]
    return "\n".join([caption, "", *lines] if caption else lines)


def provenance(command: str, machine: dict[str, Any]) -> str:
    """The line under a table: how to make it again, and where it was made."""
    dirty = "+changes" if machine["dirty"] else ""
    return (
        f"*`python benchmarks/run.py {command}` at {machine['revision']}{dirty}, {machine['cpu']}, "
        f"Numba {machine['versions']['numba']}, {machine['date'][:10]}.*"
    )


def write_docs(name: str, text: str, folder: Path = DOCS) -> bool:
    """Replace what stands between the markers of ``name`` in the page that has them; false if none has."""
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    for path in sorted(folder.glob("*.md")):
        page = path.read_text(encoding="utf-8")
        if pattern.search(page):
            path.write_text(pattern.sub(lambda _: f"{begin}\n{text}\n{end}", page), encoding="utf-8")
            return True
    return False


# --- recording -------------------------------------------------------------------------------------------------------


def _git(*words: str) -> str:
    try:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def _cpu_model() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor() or platform.machine()


@cache
def _this_machine() -> dict[str, Any]:
    # Results and the pages made from them change with every run: they do not make the code another one.
    changed = _git("status", "--porcelain", "--", ".", ":!benchmarks/results.jsonl", ":!docs")
    versions = {"python": platform.python_version()} | {name: metadata.version(name) for name in VERSIONED}
    revision = _git("rev-parse", "--short", "HEAD") or "unknown"
    return {"revision": revision, "dirty": bool(changed), "cpu": _cpu_model(), "versions": versions}


def machine_facts() -> dict[str, Any]:
    """What a figure has to be read with: revision, processor, versions and date."""
    return _this_machine() | {"date": datetime.now(UTC).isoformat(timespec="seconds")}


def record(name: str, report: Report, machine: dict[str, Any], path: Path = RESULTS) -> None:
    """Append one line to ``results.jsonl``."""
    facts = {"name": name, "value": report.value, "unit": report.unit, "values": report.values}
    line = json.dumps(facts | machine | {"parameters": report.parameters}, ensure_ascii=False)
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")
