"""The command ``tournament``: everybody against everybody, ratings, a cross table."""

from __future__ import annotations

import json
import math
from argparse import Namespace
from contextlib import ExitStack

from othello_nn.arena.game import PlayedGame
from othello_nn.arena.openings import Opening
from othello_nn.arena.tournament import Journal, Standing, TournamentResult, play_tournament, round_robin
from othello_nn.cli.base import INTERRUPTED, UsageError
from othello_nn.cli.matches import (
    check_save,
    effort_text,
    entrants,
    explain_count,
    report_forfeits,
    save_games,
    wanted_openings,
)
from othello_nn.program import PLAY, note
from othello_nn.progress import Progress, progress


def run(arguments: Namespace) -> int:
    """``play.py tournament``."""
    names = [name.strip() for name in arguments.players]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"{twice!r} is named twice; everybody plays once against everybody else")
    if len(names) < 2:
        raise UsageError("a tournament needs at least two players")
    check_save(arguments.save)
    openings = wanted_openings(arguments)
    with ExitStack() as stack:
        journal = None
        if arguments.journal is not None:
            journal = stack.enter_context(Journal(arguments.journal, _settings(arguments, names)))
        return _play(arguments, names, openings, journal)


def _play(arguments: Namespace, names: list[str], openings: list[Opening], journal: Journal | None) -> int:
    players = entrants(names)
    planned = len(round_robin(players, openings, arguments.games))
    pairs = len(players) * (len(players) - 1) // 2
    explain_count(arguments, planned, pairs * (arguments.games or 0), len(openings))
    with progress("playing", planned) as bar:
        result = play_tournament(
            players,
            openings,
            arguments.games,
            jobs=arguments.jobs,
            seed=arguments.seed,
            clock_seconds=arguments.clock,
            journal=journal,
            on_game=_Progress(bar, planned, journal).add,
        )
    report_forfeits(result.played)
    if arguments.json:
        for standing in result.standings():
            print(json.dumps(standing.as_dict()))
    else:
        _show(result)
    save_games(arguments.save, [one.game for one in result.played])
    if result.interrupted:
        again = "; the same command goes on from here" if journal is not None else ""
        note(PLAY, f"interrupted after {len(result.played)} of {planned} games{again}")
        return INTERRUPTED
    return 0


def _settings(arguments: Namespace, names: list[str]) -> dict[str, object]:
    """What a journal must have been begun with."""
    same = {name: getattr(arguments, name) for name in ("openings", "games", "seed", "clock", "balance")}
    return {"players": names} | same


class _Progress:
    """The bar: games that the journal already held count as done."""

    def __init__(self, bar: Progress, planned: int, journal: Journal | None):
        self.bar, self.planned = bar, planned
        self.done = 0 if journal is None else len(journal)
        bar.update(self.done)

    def add(self, one: PlayedGame) -> None:
        self.done += 1
        self.bar.update(self.done, f"{one.game.black} – {one.game.white} {one.black_margin:+d}")


def _show(result: TournamentResult) -> None:
    """Ratings, then who scored what against whom."""
    if not result.played:
        print("no game was finished")
        return
    standings = result.standings()
    width = max(len(standing.player) for standing in standings)
    before = f" ({result.resumed} of them from the journal)" if result.resumed else ""
    print(f"{len(result.played)} games{before}, {result.seconds:.1f} s")
    print(f"  #  {'player':{width}s}    Elo     95%     score  games   spent")
    for standing in standings:
        print(f"{standing.rank:3d}  {standing.player:{width}s}  {_figures(standing)}")
    print("\nscore against")
    ranks = "".join(f"{standing.rank:6d}" for standing in standings)
    print(f"  #  {'':{width}s}{ranks}")
    for standing in standings:
        cells = "".join("     -" if other is standing else _cell(standing.against[other.player]) for other in standings)
        print(f"{standing.rank:3d}  {standing.player:{width}s}{cells}")


def _figures(standing: Standing) -> str:
    rating = standing.rating
    spread = rating.high - rating.elo
    score = "-" if standing.score is None else f"{standing.score:.3f}"
    words = [f"{rating.elo:+5.0f}   {f'±{spread:.0f}' if math.isfinite(spread) else 'unknown':>7s}   {score:>5s}"]
    words.append(f"{standing.games:5d}   {effort_text(standing.effort)}")
    lost = {"on time": standing.time_losses, "by forfeit": len(standing.forfeits)}
    words += [f"lost {how} {count}" for how, count in lost.items() if count]
    return "  ".join(words[:2]) + "".join(f", {word}" for word in words[2:])


def _cell(score: float | None) -> str:
    return "     ·" if score is None else f"{score:6.3f}"
