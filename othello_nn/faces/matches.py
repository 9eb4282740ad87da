"""The commands about players: ``players`` and ``match``."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from pathlib import Path

from othello_nn.arena.match import MatchResult, PlayedGame, pair_up, play_match
from othello_nn.arena.openings import Opening, make_openings
from othello_nn.faces.cli import INTERRUPTED, Failure, UsageError
from othello_nn.faces.progress import Progress, progress
from othello_nn.players.catalog import BEST, make_player, player_names
from othello_nn.players.spec import KEYS

SAVED_AS = (".ggf", ".sgf")


def players(arguments: Namespace) -> int:
    """``play.py players``."""
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
    print(f"{'FILE':14s} search with a net of your own, a path that ends in .safetensors")
    print(f"{'tuples:FILE':14s} n-tuples in the Othello League's text format (depth=1)")
    print(f"{'gtp:COMMAND':14s} another program that speaks GTP, such as gtp:gtp-rhino (timeout=60)")
    print(f"{'nboard:COMMAND':14s} another program that speaks NBoard's protocol (depth=12,timeout=60)")
    if BEST not in names:
        print(f"note: checkpoints/{BEST}.safetensors is not there, so {BEST!r} cannot play", file=sys.stderr)
    print(
        "\nA player is NAME[:key=value,…], such as champion:seconds=0.5,threads=2. In brackets: what it does unasked."
    )
    for key, explained in KEYS.items():
        print(f"  {key:8s} {explained.meaning} ({explained.values})")
    return 0


def match(arguments: Namespace) -> int:
    """``play.py match``."""
    openings = _openings(arguments)
    # Both players are made once here, so that what is wrong with them is said before anything is played.
    both = (make_player(arguments.a), make_player(arguments.b))
    _check_save(arguments.save)
    planned = len(pair_up(openings, arguments.games, varied=any(player.varies for player in both)))
    _explain(arguments, planned, len(openings))
    del both
    with progress("playing", planned) as bar:
        result = play_match(
            arguments.a,
            arguments.b,
            openings,
            arguments.games,
            jobs=arguments.jobs,
            seed=arguments.seed,
            clock_seconds=arguments.clock,
            on_game=_Standing(bar).add,
        )
    _save(arguments.save, result)
    if arguments.json:
        extra = {"openings": arguments.openings, "seed": arguments.seed, "planned": planned}
        print(json.dumps(result.as_dict() | extra))
    else:
        _show(result)
    if result.interrupted:
        print(f"play.py: interrupted after {result.games} of {planned} games", file=sys.stderr)
        return INTERRUPTED
    return 0


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


def _openings(arguments: Namespace) -> list[Opening]:
    wanted = None if arguments.games is None else (arguments.games + 1) // 2
    return make_openings(arguments.openings, wanted, arguments.seed)


def _explain(arguments: Namespace, planned: int, openings: int) -> None:
    """Say where the number of games is not the one that was asked for."""
    if arguments.games is None or planned == arguments.games:
        return
    if planned > arguments.games:
        reason = "every opening is played with both colours"
    else:
        reason = (
            f"{arguments.openings} has {openings} openings and these players would only repeat their games "
            "(longer random openings, such as random:10, or epsilon=… make more)"
        )
    print(f"note: {planned} games instead of {arguments.games}: {reason}", file=sys.stderr)


def _check_save(save: str | None) -> None:
    if save is None:
        return
    path = Path(save)
    if path.suffix.lower() not in SAVED_AS:
        raise UsageError(f"--save {save!r}: the name must end in {' or '.join(SAVED_AS)}")
    if not path.parent.is_dir():
        raise UsageError(f"--save {save!r}: there is no folder {str(path.parent)!r}")


def _save(save: str | None, result: MatchResult) -> None:
    if save is None:
        return
    from othello_nn.game.records import write_games

    try:
        write_games(save, [one.game for one in result.played])
    except OSError as error:
        _show(result, sys.stderr)
        raise Failure(f"the games could not be saved in {save!r}: {error.strerror or error}") from None


def _show(result: MatchResult, file=None) -> None:
    """The result in three lines for people."""
    if not result.games:
        print(f"{result.a} against {result.b}: no game was finished", file=file)
        return
    low, high = result.interval
    print(f"{result.a} against {result.b}, {result.games} games", file=file)
    print(
        f"wins {result.wins}, draws {result.draws}, losses {result.losses}; score {result.score:.3f} "
        f"(95%: {low:.3f} to {high:.3f}), Elo difference {_elo(result)}, mean margin {result.mean_margin:+.1f} discs",
        file=file,
    )
    lost = [
        f"{name} {count}"
        for name, count in ((result.a, result.time_losses(True)), (result.b, result.time_losses(False)))
        if count
    ]
    if lost:
        print(f"lost on time: {', '.join(lost)}", file=file)
    print(f"{result.seconds:.1f} s, {result.games / max(result.seconds, 1e-9):.1f} games/s", file=file)


def _elo(result: MatchResult) -> str:
    figures = result.as_dict()
    low, high = (figures[key] for key in ("elo_low", "elo_high"))
    value = f"{result.elo:+.0f}" if result.elo is not None else "beyond measure"
    return f"{value} ({'-∞' if low is None else f'{low:+.0f}'} to {'+∞' if high is None else f'{high:+.0f}'})"
