"""How long a test waits. A machine that is busy with other things must not fail a test."""

import os
import subprocess
import time
from pathlib import Path

HANG_SECONDS = 60.0
"""What takes longer hangs. Use it only where a hang would take far longer still, and everything else far less."""


def wait_for_work(process: subprocess.Popen, seconds: float) -> None:
    """Until a process has worked for so long, which takes longer on a busy machine than on the clock."""
    deadline = time.monotonic() + HANG_SECONDS
    path = Path(f"/proc/{process.pid}/stat")
    if not path.exists():  # no Linux
        time.sleep(seconds)
        return
    while process.poll() is None and time.monotonic() < deadline:
        ticks = sum(map(int, path.read_text().rpartition(")")[2].split()[11:13]))
        if ticks / os.sysconf("SC_CLK_TCK") >= seconds:
            return
        time.sleep(0.02)
