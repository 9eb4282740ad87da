"""`python -O` takes out assertions: it must play the same games."""

import json
import subprocess
import sys
from pathlib import Path

from patience import HANG_SECONDS

ROOT = Path(__file__).resolve().parent.parent
CODE = """
import json
from othello_nn.arena.match import play_match
from othello_nn.arena.openings import random_openings
assert print("assertions") is None
result = play_match("champion:depth=2", "swh:depth=2,epsilon=0.2", random_openings(6, 2, seed=3), 4, seed=5)
print(json.dumps([[str(move) for move in one.game.moves] for one in result.played]))
"""


def games(*flags: str) -> tuple[bool, list[list[str]]]:
    """Whether assertions were made, and the games."""
    command = [sys.executable, *flags, "-c", CODE]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=4 * HANG_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    *asserted, last = done.stdout.splitlines()
    return bool(asserted), json.loads(last)


def test_the_same_games_without_assertions():
    asserted, expected = games()
    assert asserted
    assert len(expected) == 4
    assert games("-O") == (False, expected)
