"""The command ``analyze``: what a player thinks of the moves of a game, as IAGO did it (Rosenbloom 1981, section 5).

For each position the player first finds its own move. The move that was played is then judged by searching the position
after it one ply less deep, so that both values come from the same depth; where the player's move was solved, it is
solved, too. Two moves agree if they are the same or lead to symmetric positions, or if both are solved and end the
game with the same score. Passes are no choice, and are neither judged nor counted.
"""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from othello_nn.cli.base import INTERRUPTED, UsageError
from othello_nn.cli.components import Analyst, check_picture, write_picture
from othello_nn.cli.judges import EngineJudge, Judged, judge_game, make_judge
from othello_nn.cli.positions import default_player
from othello_nn.cli.terminal.board import find_style
from othello_nn.cli.verdicts import graph_svg, show_heading, show_move, show_story, show_summary
from othello_nn.errors import InvalidMoveError, shorten
from othello_nn.game.formats.files import read_games
from othello_nn.game.record import Game
from othello_nn.game.rules import PASS
from othello_nn.game.syntax import scan_moves
from othello_nn.players.catalog import make_player
from othello_nn.players.spec import PlayerSpec, parse_spec
from othello_nn.program import PLAY, note
from othello_nn.progress import progress

if TYPE_CHECKING:
    pass

ANALYSIS_SECONDS = 0.5
"""For a move, where the player's own limits are not said: a game of 60 moves in about a minute."""


def analyze(arguments: Namespace) -> int:
    """``play.py analyze``."""
    games = _chosen(_read(" ".join(arguments.words).strip()), arguments.number)
    total = sum(_choices(game) for _, game in games)
    if not total:
        raise UsageError("there is no move to judge: the game has not begun")
    check_picture(arguments.picture, len(games))
    spec = parse_spec(default_player() if arguments.player is None else arguments.player)
    player = make_player(spec, seconds=ANALYSIS_SECONDS)
    judge = make_judge(player, spec)
    analyst = None
    searching = judge.player if isinstance(judge, EngineJudge) else None
    if arguments.components or (arguments.picture and Analyst.can_be_made_of(searching)):
        analyst = Analyst.of(searching, spec.name)
    everything: list[Judged] = []
    current: list[Judged] = []  # of the game that is being judged
    interrupted = False
    in_colour = find_style(sys.stdout).palette is not None
    # Beside a bar on the same terminal long lines are wrapped, which JSON does not survive.
    with progress("thinking", total, quiet=arguments.json and sys.stdout.isatty()) as bar:
        try:
            player.warm_up()
            for number, game in games:
                current = []
                if analyst is not None:
                    analyst.moves.clear()
                for judged in judge_game(game, judge, number):
                    if not current and not arguments.json:
                        show_heading(number, game, len(games))
                    current.append(judged)
                    everything.append(judged)
                    more = {} if analyst is None else analyst.add(judged)
                    if arguments.json:
                        print(json.dumps(judged.as_dict() | more), flush=True)
                    else:
                        show_move(judged, in_colour)
                    bar.update(len(everything), f"game {number}, move {judged.number}")
                if not arguments.json:
                    show_summary(current)
                    show_story(game, current)
                    if analyst is not None:
                        analyst.show()
        except KeyboardInterrupt:
            interrupted = True
        finally:
            player.close()
    if interrupted:
        if not arguments.json:
            show_summary(current)
            if analyst is not None:
                analyst.show()
        note(PLAY, f"interrupted after {len(everything)} of {total} moves")
        return INTERRUPTED
    if len(games) > 1 and not arguments.json:
        print(f"\nall {len(games)} games")
        show_summary(everything)
    if arguments.picture and analyst is not None:
        analyst.draw(arguments.picture, _title(spec, games[0][1]))
    elif arguments.picture:
        write_picture(arguments.picture, graph_svg(_title(spec, games[0][1]), everything))
    return 0


def _title(spec: PlayerSpec, game: Game) -> str:
    names = f", {game.black or 'black'} against {game.white or 'white'}" if game.black or game.white else ""
    return f"What {spec.text} expects{names}"


def _read(text: str) -> list[Game]:
    """The games of a file, or the one that is written out."""
    if not text:
        raise UsageError("no game is given: write its moves, such as f5d6c3, or the name of a file of games")
    if not Path(text).exists():
        try:
            return [Game(moves=tuple(scan_moves(text)), passes_left_out=True)]
        except InvalidMoveError as error:
            if Path(text).suffix or "/" in text:
                raise UsageError(f"there is no file {shorten(text)}") from None
            raise UsageError(f"{shorten(text)} is neither a file nor a game: {error}") from None
    try:
        games = read_games(text)
    except OSError as error:
        raise UsageError(f"{text!r} cannot be read: {error.strerror or error}") from None
    if not games:
        raise UsageError(f"{text!r} holds no games")
    return games


def _chosen(games: list[Game], number: int | None) -> list[tuple[int, Game]]:
    """The games to judge, with their numbers in the file."""
    numbered = list(enumerate(games, start=1))
    if number is None:
        return numbered
    if number > len(games):
        raise UsageError(f"there is no game {number}: {'one is' if len(games) == 1 else f'{len(games)} are'} given")
    return numbered[number - 1 : number]


def _choices(game: Game) -> int:
    return sum(move != PASS for move in game.moves)
