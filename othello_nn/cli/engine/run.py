"""``play.py engine gtp|nboard``: our engine behind another program's board."""

from __future__ import annotations

import os
import sys
from argparse import Namespace

from othello_nn.cli.base import INTERRUPTED
from othello_nn.cli.engine.gtp import GtpEngine
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
    code = 0
    try:
        protocol.run(sys.stdin, sys.stdout)
    except KeyboardInterrupt:
        code = INTERRUPTED
    if not thinker.close():
        # The other program has gone, and the compiler would work on for nobody.
        sys.stdout.flush()
        os._exit(code)
    return code
