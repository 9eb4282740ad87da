"""How long a test waits. A machine that is busy with other things must not fail a test."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

HANG_SECONDS = 60.0
"""What takes longer hangs. Use it only where a hang would take far longer still, and everything else far less."""


LOOK_SECONDS = 0.02
RESTED_LOOKS = 5


def wait_for_work(process: subprocess.Popen, seconds: float) -> None:
    """Until a process has worked for so long, which takes longer on a busy machine than on the clock."""
    for _, ticks in _looks(process, seconds):
        if ticks / os.sysconf("SC_CLK_TCK") >= seconds:
            return


def wait_for_rest(process: subprocess.Popen) -> None:
    """Until a process waits for something: one that is ready to work, but kept from it by others, does not."""
    rested, before = 0, -1
    for state, ticks in _looks(process, 10 * RESTED_LOOKS * LOOK_SECONDS):
        rested = rested + 1 if state == "S" and ticks == before else 0
        before = ticks
        if rested == RESTED_LOOKS:
            return


def runs(process: int) -> bool:
    try:
        # The state stands behind the name in brackets; Z is a dead process that nobody has asked about yet.
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def has_ended(process: int) -> bool:
    until = time.monotonic() + HANG_SECONDS
    while runs(process) and time.monotonic() < until:
        time.sleep(0.01)
    return not runs(process)


def _looks(process: subprocess.Popen, seconds: float) -> Iterator[tuple[str, int]]:
    """What a process does and how long it has worked, again and again; without Linux, nothing after some seconds."""
    deadline = time.monotonic() + HANG_SECONDS
    path = Path(f"/proc/{process.pid}/stat")
    if not path.exists():
        time.sleep(seconds)
        return
    while process.poll() is None and time.monotonic() < deadline:
        facts = path.read_text().rpartition(")")[2].split()
        yield facts[0], sum(map(int, facts[11:13]))
        time.sleep(LOOK_SECONDS)
