"""The commands about players: ``players`` and ``match``."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from othello_nn.arena.game import Effort, PlayedGame
from othello_nn.arena.match import MatchResult, pair_up, play_match
from othello_nn.arena.openings import LEOUSKI60, Opening, make_openings
from othello_nn.arena.sprt import ACCEPT, LARGEST_ELO, REJECT, Sprt
from othello_nn.arena.workers import Entrant
from othello_nn.cli.base import INTERRUPTED, Failure, UsageError
from othello_nn.cli.saving import why_unwritable
from othello_nn.game.record import Game
from othello_nn.players.catalog import player_names
from othello_nn.players.spec import KEYS
from othello_nn.program import PLAY, note
from othello_nn.progress import Progress, progress
from othello_nn.resources import BEST, find_net

SAVED_AS = (".ggf", ".sgf")
SHOWN_FORFEITS = 10
# A test of a few Elo points takes thousands of games, each pair from an opening of its own.
SPRT_OPENINGS, SPRT_GAMES = "random:8", 10_000


def players(arguments: Namespace) -> int:
    """``play.py players``."""
    if arguments.export or arguments.player:
        return _export(arguments)
    names = player_names()
    if arguments.json:
        for name, entry in names.items():
            fields = {
                "name": name,
                "description": entry.description,
                "default": entry.default,
                "keys": list(entry.keys),
            }
            print(json.dumps(fields))
        return 0
    for name, entry in names.items():
        print(f"{name:14s} {entry.description}{f' ({entry.default})' if entry.default else ''}")
    print(f"{'RUN, FILE':14s} search with a net of your own: a run's name, or a path that ends in .safetensors")
    print(f"{'module:FILE.py:Class':14s} search with an nn.Module of your own, and net=RUN for its weights")
    print(f"{'tuples:FILE':14s} n-tuples in the Othello League's text format (depth=1; view=negation)")
    print(f"{'gtp:COMMAND':14s} another program that speaks GTP, such as gtp:gtp-rhino (timeout=60)")
    print(f"{'nboard:COMMAND':14s} another program that speaks NBoard's protocol (depth=12,timeout=60)")
    if BEST not in names:
        print(f"note: checkpoints/{BEST}.safetensors is not there, so {BEST!r} cannot play", file=sys.stderr)
    print(
        "\nA player is NAME[:key=value,…], such as champion:seconds=0.5,threads=2. In brackets: what it does unasked."
    )
    for key, option in KEYS.items():
        print(f"  {key:8s} {option.sentence} ({option.values})")
    return 0


def _export(arguments: Namespace) -> int:
    """Write a net as a player of the League."""
    if not (arguments.export and arguments.player):
        raise UsageError("--export FILE.player and --player A go together, as in --export mine.player --player league")
    path = Path(arguments.export)
    if reason := why_unwritable(path):
        raise UsageError(f"--export {arguments.export!r}: {reason}")
    from othello_nn.players.classic.league_export import league_tuples
    from othello_nn.players.classic.league_tuples import write_tuples

    tuples, view = league_tuples(find_net(arguments.player))
    try:
        write_tuples(path, tuples)
    except OSError as error:
        raise Failure(f"{arguments.export!r} could not be written: {error.strerror or error}") from None
    weights, player = sum(len(one.weights) for one in tuples), f"tuples:{path}"
    player += "" if view == "inversion" else f":view={view}"
    if arguments.json:
        print(
            json.dumps({"file": str(path), "player": player, "tuples": len(tuples), "weights": weights, "view": view})
        )
    else:
        print(f"{path}: {len(tuples)} tuples, {weights:,} weights, meant for {view}; play it as {player}")
    return 0


def match(arguments: Namespace) -> int:
    """``play.py match``."""
    sprt = _sprt(arguments.sprt)
    if sprt is not None:
        # A test may take long: by default there are enough openings for it.
        arguments.openings = arguments.openings or SPRT_OPENINGS
        arguments.games = arguments.games or SPRT_GAMES
    check_save(arguments.save)
    openings = wanted_openings(arguments)
    # Both players are made before anything is played, so that what is wrong with them is said first.
    a, b = entrants((arguments.a, arguments.b))
    planned = len(pair_up(openings, arguments.games, varied=a.varies or b.varies))
    explain_count(arguments, planned, arguments.games or 0, len(openings))
    with progress("playing", planned) as bar:
        result = play_match(
            a,
            b,
            openings,
            arguments.games,
            jobs=arguments.jobs,
            seed=arguments.seed,
            clock_seconds=arguments.clock,
            sprt=sprt,
            on_game=_Standing(bar).add,
        )
    report_forfeits(result.played)
    if arguments.json:
        extra = {"openings": arguments.openings, "seed": arguments.seed, "planned": planned}
        print(json.dumps(result.as_dict() | extra))
    else:
        _show(result)
    save_games(arguments.save, [one.game for one in result.played])
    if result.interrupted:
        note(PLAY, f"interrupted after {result.games} of {planned} games")
        return INTERRUPTED
    return 0


def entrants(players: Sequence[str]) -> list[Entrant]:
    """The players of a match or a tournament; if one of them cannot be made, the others are let go of."""
    made: list[Entrant] = []
    try:
        for player in players:
            made.append(Entrant(player))
    except BaseException:
        for entrant in made:
            entrant.close()
        raise
    return made


def _sprt(text: str | None) -> Sprt | None:
    if text is None:
        return None
    try:
        low, high = map(float, text.split(","))
        return Sprt(low, high)
    except ValueError:
        raise UsageError(
            f"--sprt {text!r}: write two Elo differences within ±{LARGEST_ELO}, the smaller first, such as 0,20"
        ) from None


class _Standing:
    """The score while the match runs, for the progress bar."""

    def __init__(self, bar: Progress):
        self.bar, self.wins, self.draws, self.losses = bar, 0, 0, 0

    def add(self, one: PlayedGame) -> None:
        self.wins += one.margin > 0
        self.draws += one.margin == 0
        self.losses += one.margin < 0
        done = self.wins + self.draws + self.losses
        self.bar.update(done, f"+{self.wins} ={self.draws} -{self.losses}")


def wanted_openings(arguments: Namespace) -> list[Opening]:
    """The openings that a command line asks for."""
    arguments.openings = arguments.openings or LEOUSKI60
    wanted = None if arguments.games is None else (arguments.games + 1) // 2
    with progress("choosing openings"):
        return make_openings(arguments.openings, wanted, arguments.seed, arguments.balance)


def explain_count(arguments: Namespace, planned: int, asked: int, openings: int) -> None:
    """Say where the number of games is not the one that was asked for."""
    if arguments.games is None or planned == asked:
        return
    if planned > asked:
        reason = "every opening is played with both colours"
    else:
        reason = (
            f"{arguments.openings} has {openings} openings and players that leave nothing to chance would only repeat "
            "their games (longer random openings, such as random:10, or epsilon=… make more)"
        )
    print(f"note: {planned} games instead of {asked}: {reason}", file=sys.stderr)


def check_save(save: str | None) -> None:
    """See before anything is played that the games can be written in the end."""
    if save is None:
        return
    path = Path(save)
    if path.suffix.lower() not in SAVED_AS:
        raise UsageError(f"--save {save!r}: the name must end in {' or '.join(SAVED_AS)}")
    if reason := why_unwritable(path):
        raise UsageError(f"--save {save!r}: {reason}")


def save_games(save: str | None, games: Sequence[Game]) -> None:
    """Write the games, after what came out was shown: that is not lost if they cannot be written."""
    if save is None:
        return
    from othello_nn.game.formats.files import write_games

    try:
        write_games(save, games)
    except OSError as error:
        raise Failure(f"the games could not be saved in {save!r}: {error.strerror or error}") from None


def report_forfeits(played: Sequence[PlayedGame]) -> None:
    """Say on stderr who lost a game by failing to play on, and why; of the first, what was said until then."""
    forfeited = [one for one in played if one.forfeited or (one.lost_on_time and one.game.comment)]
    for number, one in enumerate(forfeited):
        game = one.game
        loser, side = (game.white, "white") if one.black_margin > 0 else (game.black, "black")
        how = "on time" if one.lost_on_time else "by forfeit"
        if number == SHOWN_FORFEITS:
            print(f"… and {len(forfeited) - number} more games", file=sys.stderr)
            break
        print(f"game {one.number + 1}: {loser} ({side}) lost {how}: {game.comment}", file=sys.stderr)
        if one.log and number == 0:
            print("\n".join(f"    {line}" for line in one.log.splitlines()), file=sys.stderr)


def _show(result: MatchResult) -> None:
    """The result in a few lines for people."""
    if not result.games:
        print(f"{result.a} against {result.b}: no game was finished")
        return
    low, high = result.interval
    repeated = "" if result.distinct == result.games else f" ({result.games - result.distinct} of them repetitions)"
    print(f"{result.a} against {result.b}, {result.games} games{repeated}")
    print(
        f"wins {result.wins}, draws {result.draws}, losses {result.losses}; score {result.score:.3f} "
        f"(95%: {low:.3f} to {high:.3f}), Elo difference {_elo(result)}, mean margin {result.mean_margin:+.1f} discs",
    )
    for player, name in enumerate((result.a, result.b)):
        lost = {"lost on time": result.time_losses(player), "lost by forfeit": len(result.forfeits(player))}
        words = [f"{name}: {effort_text(result.effort(player))}"]
        words += [f"{what} {count}" for what, count in lost.items() if count]
        print(", ".join(words))
    if result.sprt is not None:
        print(_sprt_text(result.sprt))
    print(f"{result.seconds:.1f} s, {result.games / max(result.seconds, 1e-9):.1f} games/s")


def effort_text(effort: Effort) -> str:
    """What a player spent on a move."""
    if effort.seconds_per_move is None:
        return "no move made"
    nodes = f", {effort.nodes_per_move:,.0f} nodes" if effort.nodes else ""
    return f"{1000 * effort.seconds_per_move:,.1f} ms{nodes} a move"


def _sprt_text(test: Sprt) -> str:
    verdict = {
        ACCEPT: f"accepted: at least {test.elo1:+g} Elo",
        REJECT: f"rejected: at most {test.elo0:+g} Elo",
        "": "not decided",
    }[test.decision]
    return (
        f"test of {test.elo0:+g} against {test.elo1:+g} Elo: {verdict} (LLR {test.llr:+.2f}, bounds ±{test.bound:.2f})"
    )


def _elo(result: MatchResult) -> str:
    figures = result.as_dict()
    low, high = (figures[key] for key in ("elo_low", "elo_high"))
    value = f"{result.elo:+.0f}" if result.elo is not None else "beyond measure"
    return f"{value} ({'-∞' if low is None else f'{low:+.0f}'} to {'+∞' if high is None else f'{high:+.0f}'})"
