"""The command line of ``play.py``: what can be typed, and what is said when it was wrong.

Only words are handled here. A command's own module is imported when the command runs, so that ``--help`` answers at
once: nothing here may import NumPy, Numba or torch.

Results go to stdout, notes, progress and errors to stderr. Exit codes: 0 done, 1 what was asked for failed, 2 bad usage
or input, 130 interrupted by Ctrl-C (what was done until then has been printed).
"""

from __future__ import annotations

import argparse
import errno
import importlib
import re
import sys
from collections.abc import Callable, Sequence

from othello_nn.cli import convert_arguments
from othello_nn.cli.base import (
    INTERRUPTED,
    CommandParser,
    Failure,
    UsageError,
    give_up_stdout,
    missing_package,
)
from othello_nn.cli.ending import programs_end_with_us
from othello_nn.errors import OthelloError, did_you_mean
from othello_nn.options import Number, Whole, add_flag
from othello_nn.players.base import PlayerFailure
from othello_nn.program import PLAY, note, program
from othello_nn.resources import BOOK, BOOK_DISCS
from othello_nn.search_options import TABLE_MB, THREADS

_OPTION = re.compile(r"--?[A-Za-z][A-Za-z-]*(=.*)?", re.DOTALL)
LONGEST_OPTION = 20
USER_COLOURS = ("black", "white", "random", "both", "none")
"""What a user may want to play."""
BOOK_DEPTH = 10
"""How deep positions are searched for a book, unless told otherwise."""
_BOARD = "-XOO-----XOOO---X-OXOOXXXXOOXXOXXOXXOXOXOOOOOOXX--XOOO-----O--O- X"

MAIN_EXAMPLES = f"""\
examples:
  python play.py                                     a game against the champion
  python play.py serve                               the board in the browser
  python play.py --player swh --color white --clock 300
  python play.py solve {_BOARD}
  python play.py solve --file endings.obf --threads 2
  python play.py bestmove f5d6c3d3c4 --player champion:seconds=2
  python play.py analyze games.ggf --game 2
  python play.py match champion:depth=4 swh --jobs 2
  python play.py league champion --double-games 5000
  python play.py convert games.wtb games.ggf --correct 16
  python play.py perft 10

A position is `start`, a transcript (f5d6c3, passes may be left out), or 64 signs from a1 to h8 (X black, O white,
- empty) and the side to move. `play.py COMMAND --help` tells more about a command.
exit codes: 0 done, 1 what was asked for failed, 2 bad usage or input, 130 interrupted
"""


def _seconds(sentence: str) -> Number:
    return Number(None, sentence, 1e-3, what="a number of seconds")


def _add_position(parser: argparse.ArgumentParser, nothing: str = "") -> None:
    parser.add_argument(
        "position", nargs="*", metavar="POSITION", help=f"start, moves, or 64 signs and a side{nothing}"
    )


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object a line and nothing else")


def _game_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("a game in the terminal, without a command")
    group.add_argument("--player", metavar="A", help="your opponent (the best at hand, with a second for a move)")
    group.add_argument(
        "--color",
        choices=USER_COLOURS,
        default="black",
        help="what you play (black); both: two people; none: the player against itself",
    )
    group.add_argument("--level", metavar="N", help="1 (easy) to 9 (hard), or keys such as depth=6")
    add_flag(group, "--clock", "SECONDS", _seconds("time of each side for the whole game"))
    group.add_argument("--position", dest="start", nargs="+", metavar="POSITION", help="where the game begins (start)")
    group.add_argument("--ascii", action="store_true", help="a board of plain letters, without colours")
    group.add_argument("--show", action="store_true", help="show what the player thinks of its moves")
    add_flag(group, "--seed", "S", Whole(None, "of the player's chance and --color random (another each time)"))


def _solve_arguments(parser: argparse.ArgumentParser) -> None:
    _add_position(parser, "; - for a file from stdin")
    parser.add_argument("--file", metavar="F.obf", help="solve every position of an OBF file (- for stdin)")
    parser.add_argument("--wld", action="store_true", help="only win (1), draw (0) or loss (-1): faster")
    add_flag(parser, "--threads", "N", THREADS)
    add_flag(parser, "--seconds", "S", _seconds("give up on a position after this time"))
    add_flag(parser, "--table-mb", "MB", TABLE_MB)
    _add_json(parser)


def _bestmove_arguments(parser: argparse.ArgumentParser) -> None:
    _add_position(parser)
    parser.add_argument("--player", metavar="A", help="who is asked (the best evaluator at hand, for 1 second)")
    add_flag(parser, "--seed", "S", Whole(0, "for players that leave things to chance"))
    _add_json(parser)


def _analyze_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="GAME", help="moves, or a file of games: GGF, SGF, WTHOR, text")
    parser.add_argument("--player", metavar="A", help="who judges (the best evaluator at hand, half a second a move)")
    add_flag(parser, "--game", "N", Whole(None, "only the N-th game of a file", 1), dest="number")
    parser.add_argument(
        "--components", action="store_true", help="what the values are made of (iago, keyano, features)"
    )
    parser.add_argument("--picture", metavar="FILE.svg", help="draw the components over the game")
    _add_json(parser)


def _players_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--export", metavar="FILE.player", help="write the net of --player as n-tuples in the Othello League's format"
    )
    parser.add_argument("--player", metavar="A", help="the net to write: its name, a run's, or a path")
    _add_json(parser)


def _perft_arguments(parser: argparse.ArgumentParser) -> None:
    add_flag(parser, "depth", "DEPTH", Whole(None, "plies", 0))
    _add_position(parser, " (start)")
    _add_json(parser)


def _add_games(parser: argparse.ArgumentParser, each: str) -> None:
    """What a match and a tournament have in common."""
    add_flag(parser, "--games", "N", Whole(None, f"how many{each} (every opening with both colours)", 1))
    parser.add_argument(
        "--openings",
        metavar="SET",
        help="leouski60: all 4-ply positions up to symmetry (default); all:4: all 236 of them; random:8: eight random "
        "plies; or a file of transcripts or boards, one a line",
    )
    balance = "only openings that a search finds within so many discs of even"
    add_flag(parser, "--balance", "DISCS", Number(None, balance, 0, what="a number of discs"))
    add_flag(parser, "--jobs", "J", Whole(1, "games at the same time", 1))
    add_flag(parser, "--seed", "S", Whole(0, "of random moves and openings"))
    add_flag(parser, "--clock", "SECONDS", _seconds("time of each side for a game; overstepping it loses"))
    parser.add_argument("--save", metavar="FILE.ggf", help="write the games (.ggf or .sgf)")
    _add_json(parser)


def _match_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="A", help="a player, NAME[:key=value,…]; see play.py players")
    parser.add_argument("b", metavar="B", help="its opponent")
    parser.add_argument(
        "--sprt",
        metavar="ELO0,ELO1",
        help="stop as soon as it is decided whether A is at most ELO0 or at least ELO1 better (errors 5%%; openings "
        "random:8, at most 10000 games unless said otherwise)",
    )
    _add_games(parser, "")


def _tournament_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("players", nargs="+", metavar="A", help="players, NAME[:key=value,…]; see play.py players")
    parser.add_argument(
        "--journal", metavar="FILE", help="write each game down as it ends; the same command goes on after a stop"
    )
    _add_games(parser, " for each pair of players")


def _league_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("player", metavar="A", help="a player that looks one ply ahead: NAME or NAME:epsilon=…")
    parser.add_argument(
        "--against",
        "--opponent",
        default="swh",
        metavar="B",
        help="its opponent (swh); random-wpc: another random weighted piece counter for each double game",
    )
    add_flag(parser, "--double-games", "N", Whole(50_000, "two games each, one a colour", 1, 10**7))
    epsilon = "probability of a random move, for both; a player's own epsilon=… goes before it"
    add_flag(parser, "--epsilon", "E", Number(0.1, epsilon, 0, 1, "a probability"))
    parser.add_argument(
        "--openings",
        default="none",
        metavar="SET",
        help="none (default), or random:7: seven random plies, the same for both games of a double game",
    )
    add_flag(parser, "--seed", "S", Whole(0, "of everything that is random"))
    add_flag(parser, "--jobs", "J", Whole(1, "threads; the result is the same", 1))
    _add_json(parser)


def _serve_arguments(parser: argparse.ArgumentParser) -> None:
    add_flag(parser, "--port", "P", Whole(8000, "where to listen on 127.0.0.1; 0: any free port", 0, 65535))
    parser.add_argument("--no-open", action="store_true", help="do not open the page in the browser")
    parser.add_argument(
        "--player",
        dest="guests",
        action="append",
        metavar="A",
        help="one more player to choose, such as 'gtp:gtp-rhino'; may be repeated",
    )


def _add_book(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--book", metavar="FILE", default=BOOK, help=f"the book ({BOOK} in this folder)")


def _add_judge(parser: argparse.ArgumentParser) -> None:
    _add_book(parser)
    parser.add_argument("--player", metavar="A", help=f"who judges positions (the best at hand, depth={BOOK_DEPTH})")


def _book_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="build|add|show|play", required=True)
    build = actions.add_parser("build", help="begin a book, or let it grow by itself")
    last = "positions with more discs are left out"
    add_flag(
        build, "--replies", "DISCS", Whole(None, "to so many discs: a side's best move, all of the other's", 4, 64)
    )
    add_flag(build, "--leaves", "N", Whole(None, "positions to add where the book ends and play is likely to go on", 1))
    add_flag(build, "--games", "N", Whole(None, "games to add of the judge against itself", 1))
    add_flag(build, "--discs", "N", Whole(BOOK_DISCS, f"{last}, with --leaves and --games", 5, 64))
    add_flag(build, "--margin", "DISCS", Number(1.0, "variety of --games: what a move may be worse", 0, 64))
    add_flag(build, "--seed", "S", Whole(0, "of that variety"))
    _add_judge(build)
    add = actions.add_parser("add", help="put games into it")
    add.add_argument("words", nargs="+", metavar="GAME", help="moves, or files: GGF, SGF, WTHOR, text, a journal")
    add_flag(add, "--discs", "N", Whole(BOOK_DISCS, last, 4, 64))
    _add_judge(add)
    show = actions.add_parser("show", help="what it knows of a position, or how much it knows")
    _add_position(show)
    show.add_argument("--check", action="store_true", help="see that the whole file is sound")
    _add_book(show)
    _add_json(show)
    play = actions.add_parser("play", help="a game in the terminal against a player with the book")
    play.add_argument("--color", choices=USER_COLOURS, default="black", help="what you play (black)")
    add_flag(play, "--margin", "DISCS", Number(1.0, "what a move from the book may be worse than its best", 0, 64))
    _add_judge(play)


def _engine_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("protocol", choices=("gtp", "nboard"), help="what the other program speaks")
    parser.add_argument("--player", metavar="A", help="who plays (the best evaluator at hand, for 1 second a move)")


_COMMANDS: dict[str, tuple[str, Callable[[argparse.ArgumentParser], None], str, str]] = {
    # name: what it does, its arguments, its module and function, examples
    "serve": (
        "the board in the browser: play, see what nets think, go through games",
        _serve_arguments,
        "web.serve:serve",
        """\
  python play.py serve
  python play.py serve --port 0 --no-open
  python play.py serve --player 'gtp:gtp-rhino' --player champion:seconds=20
Only this machine can reach it. docs/browser.md tells what the page can do; on the page, ? lists the keys.
""",
    ),
    "solve": (
        "the exact result of a position, or of a file of them",
        _solve_arguments,
        "positions:solve",
        f"""\
  python play.py solve {_BOARD}
  python play.py solve --wld {_BOARD}
  python play.py solve --file endings.obf --threads 2     checks the scores listed in the file
exit code 1 if a position could not be solved in time or its result is not the one listed
""",
    ),
    "bestmove": (
        "the best move and what it is worth",
        _bestmove_arguments,
        "positions:bestmove",
        """\
  python play.py bestmove start
  python play.py bestmove f5d6c3d3c4 --player champion:seconds=2,threads=2
  python play.py bestmove f5d6 --player swh --json
""",
    ),
    "analyze": (
        "what should have been played in a game: values, losses, agreement",
        _analyze_arguments,
        "analyze:analyze",
        """\
  python play.py analyze f5d6c3d3c4f4f6 --player champion:depth=10
  python play.py analyze games.ggf --game 2
  python play.py analyze games.ggf --player iago --json
  python play.py analyze games.ggf --game 2 --player iago:depth=6 --picture iago.svg
Loss is the value of the player's own move less that of the move played, in discs, both from the same depth of search.
= marks agreement: the same move, a symmetric one, or one with the same exact result. Ctrl-C sums up what was done.
""",
    ),
    "perft": (
        "count move sequences: a test of rules and speed",
        _perft_arguments,
        "positions:perft",
        """\
  python play.py perft 10                24,571,284
  python play.py perft 9 f5d6
A pass is a ply; a game that ends earlier counts once.
""",
    ),
    "players": (
        "what can play, one line each",
        _players_arguments,
        "matches:players",
        """\
  python play.py players
  python play.py players --export mine.player --player league
A linear n-tuple net of one stage can be a player of the Othello League: what is written plays as tuples:mine.player.
""",
    ),
    "match": (
        "let two players meet, from many openings with both colours",
        _match_arguments,
        "matches:match",
        """\
  python play.py match champion:depth=4 swh
  python play.py match random most-discs --games 1000 --openings random:6 --seed 7
  python play.py match champion champion:probcut=off --clock 10 --jobs 2 --save games.ggf
  python play.py match champion:nodes=20000 champion:nodes=20000,probcut=off --sprt 0,20
Scores are A's: a win 1, a draw 1/2; low and high bound the score with 95% confidence (Wilson's interval over games).
Players that leave nothing to chance play each opening once with each colour, however many games are asked for. A
player that oversteps its clock, crashes, hangs or plays illegally loses that game by 64 discs, and the match goes on.
Ctrl-C prints the result so far, saves the games, and exits with 130.
""",
    ),
    "tournament": (
        "everybody against everybody: ratings with intervals and a cross table",
        _tournament_arguments,
        "tournaments:run",
        """\
  python play.py tournament champion:depth=2 triangle:depth=2 mobility:depth=2 swh:depth=2 --openings random:8
  python play.py tournament champion mobility swh random --games 20 --jobs 2 --journal games.jsonl
Ratings are Elo points around the players' mean, with 95% intervals (Bradley-Terry model). With --journal every game is
kept: the same command goes on after Ctrl-C, a crash or a power cut. What a player does wrong costs it that game only.
""",
    ),
    "league": (
        "the Othello League's measure: 1-ply, random moves now and then, double games",
        _league_arguments,
        "league:run",
        """\
  python play.py league champion
  python play.py league random --double-games 2000 --json
  python play.py league champion --against mobility --epsilon 0 --openings random:7 --jobs 2
  python play.py league champion --opponent random-wpc --epsilon 0
A player may also be tuples:FILE, n-tuples in the League's text format (tuples:FILE:view=negation by output negation).
Against random-wpc, whose 64 weights are drawn from -1 to 1 for each double game, the score is the player's expected
utility. Scores are A's: a win 1, a draw 1/2; low and high bound the score with 95% confidence, each double game being
one sample. Ctrl-C prints the result so far and exits with 130.
""",
    ),
    "book": (
        "an opening book: build it, add games, look into it, play with it",
        _book_arguments,
        "book:book",
        """\
  python play.py book build --leaves 200
  python play.py book build --replies 12 --player champion:depth=12
  python play.py book build --games 20 --discs 30 --book mine.book
  python play.py book add games.ggf f5d6c3d3c4f4f6
  python play.py book show f5d6c3
  python play.py book play --color white
Any player that searches uses it: champion:book=on, or book=FILE and margin=DISCS for variety. Each addition is whole or
not there at all, whatever happens; several processes may add to one book. See docs/book.md.
""",
    ),
    "convert": (
        "games from one format to another; results corrected by the solver; statistics",
        convert_arguments.add_arguments,
        "convert:convert",
        convert_arguments.EXAMPLES,
    ),
    "engine": (
        "a player for other programs: a graphical board, a tournament",
        _engine_arguments,
        "engine.run:engine",
        """\
  python play.py engine nboard
  python play.py engine gtp --player champion:seconds=5,threads=2
Commands are read from stdin, answers go to stdout. Limits in the player's specification go before those that the
other program sets.
""",
    ),
}


def build_parser(*, commands: bool = True) -> argparse.ArgumentParser:
    """The whole command line, or that of a game alone."""
    parser = CommandParser(
        prog=PLAY, description="Othello: play, solve, find moves, let players meet.", epilog=MAIN_EXAMPLES
    )
    _game_arguments(parser)
    parser.set_defaults(command=None)
    if not commands:
        return parser
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, (summary, add_arguments, _, examples) in _COMMANDS.items():
        description = f"{summary[0].upper()}{summary[1:]}."
        command = subparsers.add_parser(name, help=summary, description=description, epilog=f"examples:\n{examples}")
        add_arguments(command)
    return parser


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Read the command line; what is wrong with it is a UsageError."""
    # A board often begins with an empty square, `-`, which argparse would take for an option; a space hides that.
    words = [f" {word}" if _may_be_board(word) else word for word in argv]
    is_game = not words or words[0].startswith("-")
    if not is_game and words[0] not in _COMMANDS:
        raise UsageError(f"unknown command {words[0].strip()!r}; {did_you_mean(words[0].strip(), _COMMANDS)}")
    parser = build_parser(commands=not is_game or bool({"-h", "--help"} & set(words)))
    arguments, extra = parser.parse_known_args(words)
    options = [word for word in extra if word.startswith("-")]
    if options or (extra and "position" not in arguments):
        where = f"{program(PLAY)} {arguments.command or ''}".rstrip()
        if is_game and not options and extra[0] in _COMMANDS:
            raise UsageError(f"a command comes first, as in {where} {extra[0]} --help")
        known = _option_names(parser, arguments.command)
        near = did_you_mean(options[0].split("=")[0], known) if options else f"see {where} --help"
        raise UsageError(f"{arguments.command or program(PLAY)} cannot use {(options or extra)[0].strip()!r}; {near}")
    if extra:
        arguments.position += extra  # the words of a position may stand on both sides of an option
    return arguments


def _may_be_board(word: str) -> bool:
    return (
        word[:1] == "-"
        and len(word) > 2
        and not (_OPTION.fullmatch(word) and ("=" in word or len(word) <= LONGEST_OPTION))
    )


def _option_names(parser: argparse.ArgumentParser, command: str | None) -> list[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction) and command is not None:
            parser = action.choices[command]
    return [name for action in parser._actions for name in action.option_strings if name.startswith("--")]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the result is the exit code."""
    try:
        arguments = parse(sys.argv[1:] if argv is None else argv)
        module, function = (_COMMANDS[arguments.command][2] if arguments.command else "terminal.session:play").split(
            ":"
        )
        with programs_end_with_us():
            return getattr(importlib.import_module(f"othello_nn.cli.{module}"), function)(arguments)
    except (Failure, PlayerFailure) as error:
        return _complain(error, 1)
    except (UsageError, OthelloError) as error:
        return _complain(error, 2)
    except ModuleNotFoundError as error:
        return _complain(missing_package(error), 1)
    except KeyboardInterrupt:
        return _complain("interrupted", INTERRUPTED)
    except BrokenPipeError:
        give_up_stdout()
        return 1
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        give_up_stdout()
        return _complain(f"the output cannot be written: {error.strerror}", 1)


def _complain(error: object, code: int) -> int:
    note(PLAY, error)
    return code
