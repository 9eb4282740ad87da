"""The command ``league``: a 1-ply player's score by the Othello League's measure."""

from __future__ import annotations

import json
import sys
from argparse import Namespace

from othello_nn.arena.league import MAX_OPENING_PLIES, LeagueResult, league, league_player
from othello_nn.cli.base import INTERRUPTED, UsageError
from othello_nn.program import PLAY, note
from othello_nn.progress import progress


def run(arguments: Namespace) -> int:
    """``play.py league``."""
    plies = _opening_plies(arguments.openings)
    a, b = league_player(arguments.player), league_player(arguments.against)
    planned = arguments.double_games
    if not plies and not any(arguments.epsilon if p.epsilon is None else p.epsilon for p in (a, b)):
        print(
            "note: without random moves only ties vary the games; --openings random:7 makes them differ",
            file=sys.stderr,
        )
    with progress("playing", planned) as bar:
        result = league(
            a,
            b,
            planned,
            arguments.epsilon,
            arguments.seed,
            arguments.jobs,
            opening_plies=plies,
            on_progress=bar.update,
        )
    if arguments.json:
        asked = {"player": a.name, "against": b.name, "epsilon": arguments.epsilon}
        asked |= {"openings": arguments.openings, "seed": arguments.seed, "planned": planned}
        print(json.dumps(asked | result.as_dict()))
    else:
        _show(arguments, result)
    if result.interrupted:
        note(PLAY, f"interrupted after {result.double_games} of {planned} double games")
        return INTERRUPTED
    return 0


def _opening_plies(text: str) -> int:
    if text == "none":
        return 0
    word, _, plies = text.partition(":")
    if word != "random" or not (plies.isascii() and plies.isdigit()) or not 1 <= int(plies) <= MAX_OPENING_PLIES:
        raise UsageError(f"--openings {text!r}: write none, or random:N with 1 to {MAX_OPENING_PLIES} plies")
    return int(plies)


def _show(arguments: Namespace, result: LeagueResult) -> None:
    """The result in three lines for people."""
    rivals = f"{arguments.player} against {arguments.against}"
    if result.score is None:
        print(f"{rivals}: no double game was finished")
        return
    openings = "" if arguments.openings == "none" else f", openings {arguments.openings}"
    print(f"{rivals}, {result.double_games:,} double games, epsilon {arguments.epsilon:g}{openings}")
    print(
        f"score {result.score:.4f} (95%: {result.low:.4f} to {result.high:.4f}); wins {result.wins}, "
        f"draws {result.draws}, losses {result.losses}, mean margin {result.mean_margin:+.1f} discs"
    )
    print(f"{result.seconds:.1f} s, {result.games_per_second:,.0f} games/s")
