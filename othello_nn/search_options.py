"""What a search can be told, said once: for the engine, for players' keys and for flags of commands.

Like ``kinds.py`` for nets it stands outside: the command line reads it before Numba is loaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from othello_nn.options import Number, Option, Whole, Word

Driver = Literal["negascout", "alphabeta", "mtdf"]
MAX_DEPTH = 60
SINGLE = "single"


@dataclass(frozen=True)
class Selection(Option):
    """Whether and how a search is selective: True at many depths, ``SINGLE`` at one, False not at all."""

    @property
    def values(self) -> str:
        return "on, off, multi or single"

    def converted(self, value: Any) -> bool | str:
        if type(value) is not bool and value != SINGLE:
            raise ValueError
        return value

    def parsed(self, text: str) -> bool | str:
        words: dict[str, bool | str] = {"on": True, "multi": True, "off": False, SINGLE: SINGLE}
        if text.lower() not in words:
            raise ValueError
        return words[text.lower()]


# When it ends.
DEPTH = Whole(None, "plies to look ahead; 1 is the position after one's own move", 1, MAX_DEPTH)
NODES = Whole(None, "positions to search for a move", 1, 10**15)
# So short, since the last second of a game is shared by all moves to come.
SECONDS = Number(None, "time for a move", 1e-6)

# How it is done.
DRIVER = Word("negascout", "the search driver", get_args(Driver))
THREADS = Whole(1, "threads of one search", 1, 64)
TABLE_MB = Number(128.0, "memory of the search", 0.01, 2**20, "a number of megabytes")
PROBCUT = Selection(
    True, "selective search, where the evaluator was fitted for it: at all depths (on, multi) or at depth 8 only"
)
TRUST = Number(None, "deviations that ProbCut allows for: with less it cuts more; 0.9, and 1.1 to a depth", 0.05, 10)
DEVICE = Word("auto", "where a net that does not compile is evaluated", (), "auto, cpu, cuda or cuda:N")
BATCH = Whole(256, "positions that such a net is asked for at once: 256 on a CPU, 4096 on a GPU", 1, 2**20)
CLOCK = Word("iago", "how the time of a whole game is divided", ("iago", "predict"))
