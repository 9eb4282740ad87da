"""``play.py engine gtp|nboard``: our engine behind another program's board."""

from __future__ import annotations

import os
import sys
import threading
from argparse import Namespace

from othello_nn.cli.base import INTERRUPTED
from othello_nn.cli.ending import end_programs
from othello_nn.cli.engine.gtp import GtpEngine
from othello_nn.cli.engine.lines import Lines
from othello_nn.cli.engine.nboard import NBoardEngine
from othello_nn.cli.engine.thread import PlayerThread
from othello_nn.cli.positions import default_player


def engine(arguments: Namespace) -> int:
    """``play.py engine``."""
    thinker = PlayerThread(arguments.player or default_player())
    for stream in (sys.stdin, sys.stdout):
        # What is no text is the other program's mistake, and for the protocol to complain about.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")
    protocol = (GtpEngine if arguments.protocol == "gtp" else NBoardEngine)(thinker)
    hurry = threading.Thread(target=thinker.hurry, name="hurry", daemon=True)
    lines = Lines(sys.stdin, sys.stdout, on_end=hurry.start, on_deserted=_leave)
    code = 0
    try:
        protocol.run(lines, sys.stdout)
    except KeyboardInterrupt:
        code = INTERRUPTED
    finally:
        closed = thinker.close()
    if not closed or sys.stdin is sys.__stdin__:
        # The other program has gone: the compiler would work on for nobody, and to take Python with its compiled code
        # apart takes longer than all the rest (0.3 s).
        sys.stdout.flush()
        os._exit(code)
    return code


def _leave() -> None:
    end_programs()
    os._exit(1)
