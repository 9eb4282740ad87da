"""Inputs by the thousand, each of which must be refused with one clear line or do what it says. Read this first.

A kind of fault is a function that makes a *trial*, a function of a random number generator: it makes an input, hands it
to the program and returns True if that was accepted, after having looked that what came of it is right. An input that
cannot be used must be an ``OthelloError`` of one line. Everything else is wrong: any other error, a crash, a hang,
memory without bounds, and what was accepted but became something else (``Wrong``).

Trials run in processes of their own, so that a crash is counted and not suffered; chance comes from the number of a
trial, so that it can be tried again alone.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import resource
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from othello_nn.errors import OthelloError

Trial = Callable[[random.Random], bool]
LONGEST_LINE = 2000
HANG_SECONDS = 60.0
LOOK_SECONDS = 0.05
TOLD_SECONDS = 60.0
"""Between two lines of a kind that takes long."""
MEMORY = 2 << 30
"""What a trial may allocate beyond what its process had before."""
LEAST_ROOM = 1 << 30
SHOWN = 10
_COUNTS = struct.Struct("5q")  # the number at work, tried, refused, accepted, wrong


class NoTrialError(OthelloError):
    """Trials that cannot even begin."""


class Wrong(Exception):
    """What must not happen."""


def is_clear(text: str) -> bool:
    """Whether an error says what it says in one line."""
    return "\n" not in text and 0 < len(text) <= LONGEST_LINE


@dataclass
class Tally:
    """What came of the inputs of one kind."""

    kind: str
    tried: int = 0
    refused: int = 0
    accepted: int = 0
    wrong: list[str] = field(default_factory=list)

    def add(self, number: object, trial: Callable[[], bool]) -> None:
        """Count one trial, whatever comes of it."""
        self.tried += 1
        try:
            accepted = trial()
        except OthelloError as error:
            text = str(error)
            if not is_clear(text):
                self.wrong.append(f"{self.kind} {number}: not one clear line: {text[:LONGEST_LINE]!r}")
            self.refused += 1
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{Path(where.filename).name}:{where.lineno}"
            self.wrong.append(f"{self.kind} {number}: {type(error).__name__} at {place}: {str(error)[:300]}")
        else:
            self.accepted += accepted
            self.refused += not accepted


def fast_folder() -> str | None:
    """Where files are in memory, if there is such a place: most trials write one, and waiting for a disk tries nothing.

    Who is killed leaves the same behind there; what a power cut leaves is tried by ``tests/test_torn_writes.py``.
    """
    place = "/dev/shm"
    return place if os.access(place, os.W_OK) and shutil.disk_usage(place).free > LEAST_ROOM else None


def try_many(
    kind: str, make: Callable[[], Trial], count: int, seed: int, first: int = 0, patience: float = HANG_SECONDS
) -> Tally:
    """So many trials in a process of their own; after one that crashes or hangs another process goes on behind it."""
    tally, number = Tally(kind), first
    with tempfile.TemporaryDirectory(prefix="faults-", dir=fast_folder()) as folder:
        while number < first + count:
            numbers = range(number, first + count)
            number = _try_until_crash(tally, make, numbers, seed, Path(folder), patience)
    return tally


def _try_until_crash(
    tally: Tally, make: Callable[[], Trial], numbers: range, seed: int, folder: Path, patience: float
) -> int:
    """Add to a tally what one process finds; the number of the next trial."""
    shared, said = mmap.mmap(-1, _COUNTS.size), folder / "wrong.jsonl"
    _COUNTS.pack_into(shared, 0, numbers.start - 1, 0, 0, 0, 0)
    said.write_text("")
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        _work(tally.kind, make, numbers, seed, folder, shared, said)
    status = _watch(child, shared, patience, f"{tally.kind}: {{}} of {numbers.stop}")
    at, tried, refused, accepted, _ = _COUNTS.unpack_from(shared, 0)
    tally.tried, tally.refused, tally.accepted = tally.tried + tried, tally.refused + refused, tally.accepted + accepted
    tally.wrong += [json.loads(line) for line in said.read_text().splitlines()]
    if status == "":
        return numbers.stop
    if at < numbers.start:
        raise NoTrialError(f"the trials of {tally.kind} cannot be prepared: {status}; {_last_words(folder)}")
    tally.tried += 1
    tally.wrong.append(f"{tally.kind} {at}: {status}")
    return at + 1


def _work(kind: str, make: Callable[[], Trial], numbers: range, seed: int, folder: Path, shared, said: Path) -> None:
    """In a process of its own; does not return."""
    code = 1
    try:
        words = os.open(folder / "words.txt", os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
        for stream in (1, 2):
            os.dup2(words, stream)
        os.chdir(folder)
        trial, tally = make(), Tally(kind)
        pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else 0
        if pages:
            resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY,) * 2)
        with said.open("a") as file:
            for number in numbers:
                _COUNTS.pack_into(shared, 0, number, tally.tried, tally.refused, tally.accepted, 0)
                before = len(tally.wrong)
                tally.add(number, lambda number=number: trial(random.Random(f"{seed} {kind} {number}")))
                for line in tally.wrong[before:]:
                    file.write(json.dumps(line) + "\n")
                    file.flush()
        _COUNTS.pack_into(shared, 0, numbers.stop, tally.tried, tally.refused, tally.accepted, 0)
        code = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _watch(child: int, shared, patience: float, line: str) -> str:
    """Wait for a process, as long as it gets on, and tell how far it is; what was wrong with it, if anything."""
    before, changed, told = -2, time.monotonic(), time.monotonic()
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return "" if code == 0 else f"ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        now = _COUNTS.unpack_from(shared, 0)[0]
        if now != before:
            before, changed = now, time.monotonic()
        if time.monotonic() - told > TOLD_SECONDS:
            print(f"    {line.format(max(now, 0))}", file=sys.stderr, flush=True)
            told = time.monotonic()
        if time.monotonic() - changed > patience:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return f"hangs for {patience:.0f} s"
        time.sleep(LOOK_SECONDS)


def _last_words(folder: Path) -> str:
    return " ".join((folder / "words.txt").read_text(errors="replace")[-800:].split())


# --- damage ----------------------------------------------------------------------------------------------------------

NUMBERS = [
    b"0",
    b"-1",
    b"1e999",
    b"nan",
    b"inf",
    b"-0.0",
    b"65",
    b"99999999999",
    b"9" * 400,
    b"9" * 5000,
    b"1" + b"0" * 30,
]
COUNTS = (2, 10, 100, 1000, 20_000)
OFTEN = (16, 8, 4, 2, 1)
"""How often a piece is put in so many times: the longest inputs take nearly all the time, and say mostly the same."""


class Damage:
    """Makes damaged inputs of good ones. One in fifty stays whole: it must be accepted, or nothing is tested here."""

    def __init__(self, samples: list[bytes], words: list[bytes]):
        self.samples, self.words = samples, words

    def __call__(self, rng: random.Random) -> tuple[bytes, bool]:
        """An input, and whether it is whole."""
        data = rng.choice(self.samples)
        if rng.random() < 0.02:
            return data, True
        for _ in range(1 + int(rng.expovariate(0.7))):
            data = self._once(data, rng)
        return data, False

    def _once(self, data: bytes, rng: random.Random) -> bytes:
        low, high = sorted((rng.randint(0, len(data)), rng.randint(0, len(data))))
        near = min(high, low + rng.randint(0, 12))
        match rng.randrange(9):
            case 0:  # one bit
                return (
                    data[:low] + bytes([data[low] ^ 1 << rng.randrange(8)]) + data[low + 1 :]
                    if low < len(data)
                    else data
                )
            case 1:  # one sign
                return data[:low] + bytes([rng.randrange(256)]) + data[low + 1 :]
            case 2:
                return data[:low] + data[near:]
            case 3:
                return data[:low] + data[low:near] * rng.choice(COUNTS[:3]) + data[near:]
            case 4:
                return data[:low] + rng.choice(self.words) + data[near:]
            case 5:
                return data[:low] + rng.choice(self.words) * rng.choices(COUNTS, OFTEN)[0] + data[low:]
            case 6:
                return data[:low] + rng.choice(NUMBERS) + data[near:]
            case 7:
                return data[:low]
            case _:  # the head of one and the tail of another
                other = rng.choice(self.samples)
                return data[:low] + other[rng.randint(0, len(other)) :]
