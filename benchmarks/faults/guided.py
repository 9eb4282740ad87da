"""Parsers, tried by a fuzzer that sees which way an input has taken through their code.

    pip install -e '.[fuzz]'
    python -m benchmarks.faults.guided                          every parser, 100,000 inputs each
    python -m benchmarks.faults.guided SGF --runs 5000000       one of them, for longer
    python -m benchmarks.faults.guided SGF --keep               what led somewhere new goes into the corpus

Damage by chance (``texts.py``) seldom gets past the first check. Atheris keeps each input that reaches code which none
reached before and goes on from there. Those that it has found so far are the corpus, a file of ``corpus/`` for each
parser: where the next one begins, and what the tests read again without atheris. What counts as wrong stands in
``trials.py``; read it and ``texts.py`` first.
"""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import json
import mmap
import os
import re
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.faults import protocols, stored, texts
from benchmarks.faults.texts import Reader
from benchmarks.faults.trials import LONGEST_LINE, NoTrialError, Tally, Wrong, fast_folder, is_clear
from othello_nn.errors import OthelloError, did_you_mean

ROOT = Path(__file__).resolve().parent.parent.parent
CORPUS = Path(__file__).resolve().parent / "corpus"
READERS: dict[str, Callable[[], Reader]] = texts.READERS | protocols.READERS | {"net configs": stored.net_configs}
CODE = tuple(f"othello_nn.{name}" for name in (
    "game.", "config", "options", "kinds", "checkpoint", "players.spec", "players.catalog", "cli.engine.",
    "players.classic.league_tuples", "arena.journal", "learn.runs", "nets.registry", "nets.tuple_sets",
))  # fmt: skip
"""The modules whose ways are told apart: those that read. Kernels are compiled, and have none."""
LONGEST, HANG_SECONDS, MEMORY_MB = 4000, 20, 2000
RUNS, SEED = 100_000, 1
PROGRAM = "benchmarks.faults.guided"
"""The module that is run for ``work``."""
MOST_KEPT = 40
"""Inputs of a parser's corpus."""
_COUNTS = struct.Struct("3q")  # tried, refused, accepted


def is_there() -> bool:
    return importlib.util.find_spec("atheris") is not None


def corpus_of(kind: str) -> list[bytes]:
    """The inputs kept for a parser."""
    path = _corpus_path(kind)
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line).encode("latin-1") for line in lines]


def _corpus_path(kind: str) -> Path:
    return CORPUS / f"{re.sub('[^a-z]+', '-', kind.lower()).strip('-')}.jsonl"


def try_guided(kind: str, runs: int, seed: int = SEED, keep: bool = False) -> Tally:
    """So many inputs in a process of its own. The fuzzer ends with the first that is wrong."""
    with tempfile.TemporaryDirectory(prefix="guided-", dir=fast_folder()) as name:
        folder = Path(name)
        for part in ("begin", "found", "work"):
            (folder / part).mkdir()
        for number, data in enumerate(corpus_of(kind)):
            (folder / "begin" / str(number)).write_bytes(data)
        done = _fuzz(kind, folder, [f"-runs={runs}", f"-seed={seed}", str(folder / "found"), str(folder / "begin")])
        tried, refused, accepted = _COUNTS.unpack((folder / "counts").read_bytes())
        tally = Tally(kind, tried, refused, accepted)
        if done.returncode:
            tally.wrong.append(f"{kind}: {_what_was_wrong(done, folder)}")
        elif not tried:
            raise NoTrialError(f"the fuzzer has tried nothing: {done.stderr[-500:]}")
        elif keep:
            _keep(kind, [path.read_bytes() for path in (folder / "found").iterdir()])
        return tally


def _keep(kind: str, found: list[bytes]) -> None:
    """Add to a corpus what led somewhere new, short and long ones alike, as far as there is room."""
    kept = corpus_of(kind)
    new = sorted(set(found) - set(kept), key=lambda data: (len(data), data))
    room = min(len(new), max(0, MOST_KEPT - len(kept)))
    kept += [new[number * len(new) // room] for number in range(room)]
    CORPUS.mkdir(exist_ok=True)
    lines = [json.dumps(data.decode("latin-1")) + "\n" for data in kept]
    _corpus_path(kind).write_text("".join(lines), encoding="utf-8")


def _fuzz(kind: str, folder: Path, words: list[str]) -> subprocess.CompletedProcess[str]:
    bounds = [f"-max_len={LONGEST}", f"-timeout={HANG_SECONDS}", f"-rss_limit_mb={MEMORY_MB}"]
    command = [sys.executable, "-m", PROGRAM, "--work", str(folder), kind]
    places = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    return subprocess.run(
        [*command, *bounds, f"-artifact_prefix={folder}/wrong-", *words],
        cwd=folder / "work", env=os.environ | {"PYTHONPATH": places}, capture_output=True, text=True, errors="replace",
    )  # fmt: skip


def _what_was_wrong(done: subprocess.CompletedProcess[str], folder: Path) -> str:
    inputs = [path.read_bytes() for path in folder.glob("wrong-*")]
    words = done.stdout + done.stderr
    said = re.findall(r"Uncaught Python exception: *=+\n(.*)", words) + re.findall(r"ERROR: libFuzzer: (.*)", words)
    reason = next(iter(said), f"ended with {done.returncode}: {done.stderr[-300:]}")
    return f"{reason[:300]}; input: {inputs[0][:500] if inputs else None!r}"


# --- in a process of its own -----------------------------------------------------------------------------------------


def _functions() -> Iterator[Any]:
    """All functions and methods of the modules that read."""
    for name, module in list(sys.modules.items()):
        if not name.startswith(CODE):
            continue
        for item in list(vars(module).values()):
            inner = list(vars(item).values()) if inspect.isclass(item) else [item]
            for one in inner:
                one = getattr(one, "fget", None) or inspect.unwrap(getattr(one, "__func__", one))
                if inspect.isfunction(one) and one.__module__ == name:
                    yield one


def work(folder: Path, kind: str, words: list[str]) -> None:
    import atheris

    reader = READERS[kind]()
    for function in set(_functions()):
        atheris.instrument_func(function)
    with (folder / "counts").open("w+b") as file:
        file.truncate(_COUNTS.size)
        shared = mmap.mmap(file.fileno(), _COUNTS.size)
    tally = Tally(kind)

    def try_input(data: bytes) -> None:
        tally.tried += 1
        try:
            reader.read(data)
            tally.accepted += 1
        except OthelloError as error:
            tally.refused += 1
            if not is_clear(str(error)):
                raise Wrong(f"not one clear line: {str(error)[:LONGEST_LINE]!r}") from None
        finally:
            _COUNTS.pack_into(shared, 0, tally.tried, tally.refused, tally.accepted)

    for number, sample in enumerate(reader.samples):
        (folder / "begin" / f"sample-{number}").write_bytes(sample[:LONGEST])
    dictionary = folder / "words"
    dictionary.write_text("".join(f'"{_escaped(word)}"\n' for word in reader.words if 0 < len(word) < 60))
    atheris.Setup([sys.argv[0], *words, f"-dict={dictionary}"], try_input)
    atheris.Fuzz()


def _escaped(word: bytes) -> str:
    return "".join(chr(sign) if chr(sign).isalnum() and sign < 128 else f"\\x{sign:02x}" for sign in word)


def main(argv: list[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] == ["--work"]:
        work(Path(argv[1]), argv[2], argv[3:])
    head, _, rest = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="guided", description=head, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kinds", nargs="*", metavar="PARSER", help=f"any of {', '.join(READERS)} (all)")
    parser.add_argument("--runs", type=int, default=RUNS, metavar="N", help=f"inputs for each ({RUNS:,})")
    parser.add_argument("--seed", type=int, default=SEED, metavar="S", help="of the fuzzer's chance")
    parser.add_argument("--keep", action="store_true", help="put what led somewhere new into the corpus")
    args = parser.parse_args(argv)
    if unknown := [kind for kind in args.kinds if kind not in READERS]:
        parser.error(f"unknown parser {unknown[0]!r}; {did_you_mean(unknown[0], list(READERS))}")
    if not is_there():
        parser.error("atheris is not installed; pip install -e '.[fuzz]'")
    wrong = 0
    for kind in args.kinds or READERS:
        found = try_guided(kind, args.runs, args.seed, args.keep)
        print(f"{kind}: {found.tried:,} tried, {found.accepted:,} accepted, {len(found.wrong)} wrong", flush=True)
        for line in found.wrong:
            print(f"  {line}")
        wrong += len(found.wrong)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
