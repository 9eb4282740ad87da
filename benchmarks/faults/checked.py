"""Forged training states once more, in kernels that look where they read and write (``NUMBA_BOUNDSCHECK``).

Kernels do not look by themselves, so a write beside an array may go unnoticed for long. The switch is read when Numba
is imported, and the code it makes must not be mixed with the other: so this is a program of its own, with a cache of
its own. Its first run compiles everything once more.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

from benchmarks.faults.trials import NoTrialError, Tally

ROOT = Path(__file__).resolve().parent.parent.parent
PRESETS = ["quick", "embedding", "triangle-leouski", "backwards"]
"""Those whose kernels are handed what a state holds."""


def try_checked(kind: str, count: int, seed: int) -> Tally:
    """Start this module as a program, and take over what it has counted."""
    from othello_nn.kernels.jit import user_cache

    cache = user_cache() / "othello_nn" / "checked"
    settings = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "benchmarks.faults.checked", kind, str(count), str(seed)]
    done = subprocess.run(command, env=os.environ | settings, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoTrialError(f"the trials of {kind} cannot be prepared: {' '.join(done.stderr[-800:].split())}")
    return Tally(**json.loads(done.stdout))


def main(kind: str, count: str, seed: str) -> None:
    import numba

    from benchmarks.faults.deaths import PATIENCE
    from benchmarks.faults.stored import forged_states
    from benchmarks.faults.trials import try_many

    assert numba.config.BOUNDSCHECK  # type: ignore[attr-defined]
    found = try_many(kind, partial(forged_states, PRESETS), int(count), int(seed), patience=4 * PATIENCE)
    print(json.dumps(vars(found)))


if __name__ == "__main__":
    main(*sys.argv[1:])
