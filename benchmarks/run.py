"""Measure the engine and the learner, learning, one benchmark or several.

    python benchmarks/run.py --list
    python benchmarks/run.py perft playouts
    python benchmarks/run.py solve endings.obf --threads 2
    python benchmarks/run.py keyano-table1 --write-docs
    python benchmarks/run.py all --quick                     everything in small: does it run?

Each benchmark prints its table as markdown and appends one line to benchmarks/results.jsonl (not with `--no-record`).
Exit code 1 if a result is wrong, 2 for bad usage.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # this clone's package, installed or not

from benchmarks import (
    accuracy,
    against,
    ahead,
    batched,
    book,
    champion,
    device,
    embedding,
    evolution,
    faults,
    games,
    harness,
    ladder,
    learner,
    learning,
    own_nets,
    papers,
    probcut,
    proofs,
    quick,
    ranks,
    solving,
    speed,
    strength,
    triangles,
    web,
)
from benchmarks.harness import BENCHMARKS, BenchmarkError, Settings
from othello_nn.errors import did_you_mean
from othello_nn.game import OthelloError

# Importing a module registers its benchmarks; they are listed and run in this order.
MODULES = (
    speed,
    solving,
    ahead,
    batched,
    champion,
    device,
    papers,
    probcut,
    proofs,
    learning,
    quick,
    ladder,
    learner,
    embedding,
    evolution,
    own_nets,
    ranks,
    strength,
    triangles,
    accuracy,
    against,
    faults,
    web,
    book,
    games,
)
NAMES = [name for module in MODULES for name, item in BENCHMARKS.items() if item.run.__module__ == module.__name__]
EVERYTHING = "all"
INTERRUPTED = 130


def _parser() -> argparse.ArgumentParser:
    head, _, rest = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="benchmarks/run.py",
        description=head,
        epilog=rest,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="benchmarks (see --list), or all; FILE.obf for solve")
    parser.add_argument("--list", action="store_true", help="what can be measured, one line each")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs; nothing is recorded")
    parser.add_argument("--no-record", action="store_true", help="only print")
    parser.add_argument("--write-docs", action="store_true", help="put the tables into the pages of docs/")
    parser.add_argument("--threads", type=int, metavar="N", help="threads of solve and own (1) and of threads (2)")
    parser.add_argument("--table-mb", type=float, metavar="MB", help="transposition table, where not part of the test")
    parser.add_argument("--evaluator", metavar="NET", help="a net's name, a run's or a file (champion)")
    parser.add_argument("--minutes", type=float, metavar="M", help="training of each net in embedding-… (3; sizes 1)")
    parser.add_argument("--inputs", type=int, metavar="N", help="what `faults` tries in all (20,000; long: 1,000,000)")
    parser.add_argument(
        "--kind",
        action="append",
        default=[],
        metavar="K",
        help="`faults` of this kind alone, such as 'full disk'; again",
    )
    parser.add_argument("--revision", metavar="R", help="what `against` compares with, such as HEAD~1")
    return parser


def _choose(words: Sequence[str]) -> tuple[list[str], tuple[Path, ...]]:
    """Benchmarks to run and files for them, from the words of the command line."""
    files = tuple(Path(word) for word in words if word.lower().endswith(".obf"))
    names = [word for word in words if not word.lower().endswith(".obf")]
    for name in names:
        if name not in BENCHMARKS and name != EVERYTHING:
            raise BenchmarkError(f"unknown benchmark {name!r}; {did_you_mean(name, [*NAMES, EVERYTHING])}")
    if EVERYTHING in names:
        rest = {name for name, item in BENCHMARKS.items() if item.needs_revision or (item.needs_files and not files)}
        names = [name for name in NAMES if name not in rest]
    if not names:
        raise BenchmarkError("no benchmark is named; --list shows them")
    if needy := [name for name in names if BENCHMARKS[name].needs_files and not files]:
        raise BenchmarkError(f"{needy[0]} needs files: {needy[0]} FILE.obf …")
    if files and not any(BENCHMARKS[name].takes_files for name in names):
        raise BenchmarkError(f"{names[0]} takes no files; 'solve' does")
    return names, files


def _measure(name: str, settings: Settings, keep: bool, document: bool) -> bool:
    """Run one benchmark; false if what it found is wrong."""
    print(f"{name} …", file=sys.stderr, flush=True)
    report = BENCHMARKS[name].run(settings)
    machine = harness.machine_facts()
    words = [name, *(path.name for path in settings.files if BENCHMARKS[name].takes_files)]
    words += [] if settings.threads is None else ["--threads", str(settings.threads)]
    words += [] if settings.minutes is None else ["--minutes", f"{settings.minutes:g}"]
    words += [] if settings.inputs is None else ["--inputs", str(settings.inputs)]
    words += [word for kind in settings.kinds for word in ("--kind", shlex.quote(kind))]
    words += ["--revision", str(settings.revision)] if BENCHMARKS[name].needs_revision else []
    text = f"{report.markdown}\n\n{harness.provenance(' '.join(words), machine)}"
    if report.failure is not None:
        print(f"run.py: {name}: {report.failure}", file=sys.stderr)
    if keep:
        harness.record(name, report, machine)
    place = f"{name}-kinds" if settings.kinds else name  # some kinds must not take the place of all
    if document and report.failure is None and not harness.write_docs(place, text):
        print(f"note: no page of docs/ has a place for {place}", file=sys.stderr)
    print(f"{text}\n", flush=True)
    return report.failure is None


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    if arguments.list:
        width = max(map(len, NAMES))
        for name in NAMES:
            print(f"{name:{width}}  {BENCHMARKS[name].summary}")
        return 0
    try:
        names, files = _choose(arguments.names)
        if arguments.quick and arguments.write_docs:
            raise BenchmarkError("--quick measures nothing worth writing down: leave out --quick or --write-docs")
        engine = (arguments.threads, arguments.table_mb, arguments.evaluator)
        sizes = (arguments.minutes, arguments.inputs, tuple(arguments.kind))
        settings = Settings(arguments.quick, *engine, files, arguments.revision, *sizes)
        keep = not (arguments.quick or arguments.no_record)
        results = [_measure(name, settings, keep, arguments.write_docs) for name in names]
    except OthelloError as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("run.py: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone (`| head`); nothing is left to be told, at exit neither.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
