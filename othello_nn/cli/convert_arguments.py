"""What can be typed behind ``play.py convert``. As ``main.py``, this imports nothing heavy."""

from __future__ import annotations

import argparse

from othello_nn.options import Whole, add_flag

TARGETS = {".ggf": "ggf", ".sgf": "sgf", ".txt": "txt", ".obf": "obf"}
"""Formats that can be written, by the ending of a name."""
RESULTS = ("black", "white", "draw")
MOST_CORRECTED = 30
"""Empties. More take hours a game."""

EXAMPLES = """\
  python play.py convert games.wtb games.ggf
  python play.py convert WTH_1997.wtb WTH_1998.wtb finals.sgf --by Tamenori --complete --distinct
  python play.py convert games.ggf corrected.ggf --correct 16 --jobs 2
  python play.py convert games.ggf endings.obf --correct 14     a position of each game, with its best move
  python play.py convert games.ggf - --to txt
  python play.py convert corrected.ggf --statistics --picture games.svg
Reads GGF, SGF, WTHOR, transcripts, OBF and a tournament's journal; - is stdin or stdout. Games that cannot be used are
named and left out (--strict stops instead). --correct leaves moves and results as they are and adds the exact result
(TH[16 -4] in GGF and SGF: black's margin from 16 empties on), for --statistics, for train.py and for --cut. What is
solved is kept in OUT.solved until OUT is written: the same command goes on after Ctrl-C, kill -9 or a power cut.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", nargs="+", metavar="IN", help="files of games, then OUT; with --statistics all of them are read"
    )
    parser.add_argument(
        "--to", choices=tuple(TARGETS.values()), help="what is written (the ending of OUT tells); txt: transcripts"
    )
    wanted = parser.add_argument_group("which games")
    wanted.add_argument("--years", metavar="A[-B]", help="only of these years")
    wanted.add_argument(
        "--by", action="append", metavar="NAME", help="only with a player whose name has this in it; may be repeated"
    )
    wanted.add_argument("--complete", action="store_true", help="only those that were played to the end")
    wanted.add_argument("--result", choices=RESULTS, help="only those that this side won, or that were drawn")
    wanted.add_argument("--distinct", action="store_true", help="each once; a mirrored or turned game is the same")
    wanted.add_argument("--strict", action="store_true", help="stop at the first game that cannot be used")
    solving = parser.add_argument_group("exact results")
    correct = "solve each game from so many empties on, and keep the exact result"
    add_flag(solving, "--correct", "N", Whole(None, correct, 0, MOST_CORRECTED))
    solving.add_argument(
        "--cut", action="store_true", help="end the games where they were solved, with the exact result as theirs"
    )
    add_flag(solving, "--jobs", "J", Whole(1, "games solved at the same time", 1))
    counting = parser.add_argument_group("what the games are like")
    counting.add_argument(
        "--statistics", action="store_true", help="lengths, results, moves, discs, stable discs; writes no games"
    )
    counting.add_argument("--picture", metavar="FILE.svg", help="draw the statistics")
    parser.add_argument("--json", action="store_true", help="print one JSON object a line and nothing else")
