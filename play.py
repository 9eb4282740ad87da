"""Othello from the command line: play, solve, find moves, count, and let players meet.

    python play.py                             a game against the champion
    python play.py serve                       the board in the browser
    python play.py solve POSITION              the exact result of a position, and the moves that lead to it
    python play.py bestmove f5d6c3             the best move after some moves
    python play.py match champion swh          two players, many games
    python play.py --help                      everything else

``othello_nn/cli/main.py`` is where it begins.
"""

import sys

from othello_nn.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
