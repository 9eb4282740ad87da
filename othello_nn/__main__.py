"""``python -m othello_nn``: the same as ``othello`` and ``play.py``."""

import sys

from othello_nn.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
