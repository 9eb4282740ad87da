"""Forged nets, states and positions once more, in kernels that look where they read and write (``NUMBA_BOUNDSCHECK``).

Kernels do not look by themselves, so a write beside an array may go unnoticed for long. The switch is read when Numba
is imported, and the code it makes must not be mixed with the other: so this is a program of its own, with a cache of
its own. Its first run compiles everything once more, which takes some minutes. All kernels that are handed arrays from
files are run: those of leaf evaluators of every kind under search and solver, of the learners of every preset, and
of the fit to stored positions.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.faults import stored
from benchmarks.faults.trials import NoTrialError, Tally, Trial

ROOT = Path(__file__).resolve().parent.parent.parent
KINDS: dict[str, Callable[[], Trial]] = {
    "states, forged": stored.forged_states,
    "nets, forged": stored.forged_nets,
    "positions, forged": stored.forged_positions,
}


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
    from benchmarks.faults.trials import try_many

    assert numba.config.BOUNDSCHECK  # type: ignore[attr-defined]
    found = try_many(kind, KINDS[kind], int(count), int(seed), patience=4 * PATIENCE)
    print(json.dumps(vars(found)))


if __name__ == "__main__":
    main(*sys.argv[1:])
