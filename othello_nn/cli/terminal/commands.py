"""What can be typed during a game in the terminal: ``obey`` and the commands behind it. Read ``session.py`` first."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from othello_nn.cli.main import USER_COLOURS
from othello_nn.cli.terminal.board import ASCII
from othello_nn.cli.terminal.game import COLOURS, GameInPlay
from othello_nn.cli.terminal.thinking import at_level, checked, explain, level_of, title
from othello_nn.cli.web.levels import LEVELS, RATINGS
from othello_nn.errors import IllegalMoveError, OthelloError, did_you_mean, shorten
from othello_nn.game.move import PASS_NAMES
from othello_nn.game.notation import move_name, parse_transcript
from othello_nn.game.position import Position
from othello_nn.game.rules import PASS
from othello_nn.players.catalog import best_player_name, player_names
from othello_nn.players.spec import parse_spec

if TYPE_CHECKING:
    from othello_nn.cli.terminal.session import Session

_LIKE_SQUARES = re.compile(r"([a-z][0-9])+")
JUDGING_SECONDS = 0.2
"""For each move of a game that is judged at the board: a whole game in some twenty seconds."""
_YES, _NO = ("y", "yes"), ("n", "no")


class TerminalInputError(OthelloError):
    """What was typed is no command, or cannot be done now, or not like this."""


@dataclass(frozen=True)
class Command:
    """What follows the name, what it does in words, and the function that does it with the words that follow."""

    operands: str
    meaning: str
    run: Callable[[Session, str], None]


def obey(session: Session, text: str) -> None:
    """Do what was typed; an OthelloError says why not."""
    word, _, rest = text.replace("\0", "").strip().partition(" ")
    name = word.lower()
    if session.game.is_over and session.interactive and name in (*_YES, *_NO):
        name = "new" if name in _YES else "quit"
    if not name and session.paused:
        name = "go"
    if not name:
        return
    if _LIKE_SQUARES.fullmatch(name) or name in PASS_NAMES:
        _move(session, *_in_single_moves(name, rest))
        return
    COMMANDS[find_command(name)].run(session, rest.strip())


def find_command(word: str) -> str:
    """The command that was meant: by its name, another name for it, or a beginning that no other one has."""
    name = _ALIASES.get(word.lower(), word.lower())
    if name in COMMANDS:
        return name
    meant = [each for each in COMMANDS if len(name) > 1 and each.startswith(name) and each.isalpha()]
    if len(meant) == 1:
        return meant[0]
    if meant:
        raise TerminalInputError(f"{shorten(word)} can be {' or '.join(meant)}")
    raise TerminalInputError(f"unknown command {shorten(word)}; {did_you_mean(name, COMMANDS)}")


def complete(session: Session, typed: str) -> list[str]:
    """The words that what was typed can become: a command, what can follow it, or a legal move."""
    *before, word = typed.lstrip().lower().split(" ")
    moves = [] if session.game.is_over else [move_name(move) for move in session.game.position.legal_moves]
    words: Iterable[str] = (*moves, *COMMANDS)
    if before:
        words = moves
        with contextlib.suppress(TerminalInputError):
            if not _LIKE_SQUARES.fullmatch(before[0]):
                words = _FOLLOWING.get(find_command(before[0]), ())
    return [f"{each} " for each in words if each.lower().startswith(word)]


def _in_single_moves(name: str, rest: str) -> list[str]:
    """``f5 d6 c3`` and ``f5d6c3`` are three moves."""
    moves: list[str] = []
    for word in (name, *rest.lower().split()):
        if word in PASS_NAMES:
            moves.append(word)
        elif _LIKE_SQUARES.fullmatch(word):
            moves += re.findall("..", word)
        else:
            raise TerminalInputError(f"{shorten(word)} is not a square; only moves can follow a move")
    return moves


def _move(session: Session, *names: str) -> None:
    """The move of the side to move. Of several, each is the next side's, so that a line can be tried; none is played
    if one is illegal, and passes need not be written."""
    game = session.game
    if game.loser is not None:
        raise IllegalMoveError(f"{names[0]} cannot be played: the game is over")
    position = game.position
    played: list[str | int] = []
    for number, name in enumerate(names, start=1):
        if position.must_pass and name not in PASS_NAMES and not position.is_over and played:
            played.append(PASS)
            position = position.play(PASS)
        try:
            position = position.play(name)
        except OthelloError as error:
            raise (error if len(names) == 1 else IllegalMoveError(f"move {number} of {len(names)}: {error}")) from None
        played.append(name)
    for move in played:
        game.play(move)
    session.changed()


def _undo(session: Session, words: str) -> None:
    if not re.fullmatch("[1-9]?[0-9]?", words) or words == "0":
        raise TerminalInputError(f"undo takes a number of turns, not {shorten(words)}")
    if session.game.late is not None:
        raise TerminalInputError("time cannot be taken back; new begins another game")
    if session.game.resigned is not None:
        session.game.resigned = None
        session.changed()
        return
    may = session.is_human if session.human_sides else lambda black: True
    if not sum(session.game.take_back(may) for _ in range(int(words or 1))):
        raise TerminalInputError("there is no move of yours to take back")
    session.changed()


def _redo(session: Session, words: str) -> None:
    if not re.fullmatch("[1-9]?[0-9]?", words) or words == "0":
        raise TerminalInputError(f"redo takes a number of turns, not {shorten(words)}")
    if session.game.loser is not None or not sum(session.game.redo() for _ in range(int(words or 1))):
        raise TerminalInputError("nothing was taken back that could be played again")
    session.changed()


def _resign(session: Session, words: str) -> None:
    if session.game.is_over:
        raise TerminalInputError("the game is over already")
    if not session.human_sides:
        raise TerminalInputError("you play neither side; quit ends the game")
    one = len(session.human_sides) == 1
    session.game.resigned = session.human_sides[0] if one else session.game.black_to_move


def _hint(session: Session, words: str) -> None:
    if session.game.is_over:
        raise TerminalInputError("the game is over; undo or new gives something to think about")
    if words.lower() == "all" or words.lower().startswith("all "):
        _hint_all(session, words[3:].strip())
        return
    thinker = session.make_thinker(checked(parse_spec(words))) if words else session.thinker
    choice = session.ask(thinker)
    assert choice.move is not None
    thoughts = explain(choice, session.game.black_to_move)
    session.say(f"{thinker.spec.text} would play {move_name(choice.move)}{thoughts}")
    if words:
        thinker.close()


def _hint_all(session: Session, words: str) -> None:
    """The values of all legal moves, on their squares and in a line, best first."""
    from othello_nn.cli.web.values import mind_spec

    name = parse_spec(words).name if words else session.thinker.spec.name
    entry = player_names().get(name)
    if entry is None or not entry.keys:
        raise TerminalInputError(f"{name} does not say what moves are worth; hint all champion asks one that does")
    thinker = session.make_thinker(parse_spec(mind_spec(name)))
    try:
        found = session.ask_values(thinker)
    finally:
        thinker.close()
    ranked = sorted(found.moves, key=lambda move: -found.moves[move])
    session.draw_board({move: f"{round(value) + 0:+d}" for move, value in found.moves.items()})
    told = [f"{move_name(move)} {value_text(found.moves[move], move in found.exact)}" for move in ranked]
    depth = "" if len(found.exact) == len(ranked) else f" (depth {found.depth})"
    session.say(f"{name}, for {COLOURS[session.game.black_to_move]}: {', '.join(told)}{depth}")


def _analyze(session: Session, words: str) -> None:
    """The mistakes of the game so far, its curve, and where it was lost."""
    from othello_nn.cli.verdicts import HEADING, curve_line, mark_of, move_line, story_line

    record = session.game.record(session.side_name(True), session.side_name(False))
    if session.game.last_turn is None:
        raise TerminalInputError("there is no move to judge yet")
    name = words or session.thinker.spec.name
    entry = player_names().get(name)
    if not words and (entry is None or not entry.keys):
        name = best_player_name()  # the player itself does not say what moves are worth
    spec = checked(at_level(parse_spec(name), f"seconds={JUDGING_SECONDS}") if ":" not in name else parse_spec(name))
    thinker = session.make_thinker(spec)
    try:
        judged = session.judge(thinker, record)
    finally:
        thinker.close()
    marked = [one for one in judged if mark_of(one)]
    for line in [HEADING, *map(move_line, marked)] if marked else ["no mistakes"]:
        session.say(line)
    for side, colour in COLOURS.items():
        own = [one for one in judged if one.position.black_to_move == side]
        session.say(
            f"{colour}: {len(own)} move{'s' * (len(own) != 1)}, {sum(one.loss for one in own):.1f} discs given away"
        )
    if len(judged) > 1 and session.style.signs is not ASCII:
        session.say(curve_line(judged))
    person = session.human_sides[0] if len(session.human_sides) == 1 else None
    if text := story_line(record, judged, person):
        session.say(text)


def value_text(value: float, exact: bool) -> str:
    """In discs; a whole number and a sign of equality if it is the result with best play."""
    return f"={value:+.0f}" if exact else f"{round(value, 1) + 0.0:+.1f}"


def _level(session: Session, words: str) -> None:
    if words:
        session.set_player(at_level(session.thinker.spec, words))
        session.paused = session.failed = False
        session.say(f"the player is now {title(session.thinker.spec)}")
        return
    spec = session.thinker.spec
    for number, level in enumerate(LEVELS, start=1):
        mark = "*" if level is level_of(spec) else " "
        rating = RATINGS.get((spec.name, level.name), "")
        session.say(f"{mark}{number}  {level.name:10s} {rating:>4}  {level.meaning}")
    session.say(f"now: {title(spec)}")


def _swap(session: Session, words: str) -> None:
    if len(session.human_sides) != 1:
        raise TerminalInputError("there are no sides to swap; new black or new white begins a game against the player")
    session.set_colour("white" if session.colour == "black" else "black")
    session.changed()
    session.say(f"you play {session.colour} now")


def _moves(session: Session, words: str) -> None:
    position = session.game.position
    if not session.game.is_over:
        legal = " ".join(move_name(move) for move in position.legal_moves)
        session.say(f"legal for {COLOURS[position.black_to_move]}: {legal}")
    session.say(f"game: {session.game.transcript}")


def _board(session: Session, words: str) -> None:
    session.draw_board()


def _show(session: Session, words: str) -> None:
    if words.lower() not in ("on", "off"):
        raise TerminalInputError("write show on or show off")
    session.show = words.lower() == "on"
    session.say(f"the player's thoughts are {'shown' if session.show else 'hidden'}")


def _save(session: Session, words: str, overwrite: bool = False) -> None:
    from othello_nn.game.formats.files import write_games

    if not words:
        raise TerminalInputError("save needs the name of a file that ends in .ggf, .sgf or .txt")
    path = _path(words)
    if path.exists() and path not in session.saved and not overwrite:
        raise TerminalInputError(f"{words} is there already; save! {words} overwrites it")
    record = session.game.record(session.side_name(True), session.side_name(False))
    try:
        write_games(path, [record])
    except OSError as error:
        raise TerminalInputError(f"the game could not be saved in {words}: {error.strerror or error}") from None
    session.saved.add(path)
    session.say(f"saved in {words}")


def _overwrite(session: Session, words: str) -> None:
    _save(session, words, overwrite=True)


def _load(session: Session, words: str) -> None:
    start, moves = _find_game(words)
    session.begin(GameInPlay(start, session.clock_seconds, moves))


def _find_game(words: str) -> tuple[Position, tuple[int, ...]]:
    """Start and moves from `FILE`, `FILE N` or a transcript."""
    from othello_nn.game.formats.files import read_games

    if not words:
        raise TerminalInputError("load needs the name of a file, or a transcript such as f5d6c3")
    name, number = words, None
    if not _path(words).exists() and (parts := re.fullmatch(r"(.*\S)\s+([0-9]{1,6})", words)):
        name, number = parts[1], int(parts[2])
    path = _path(name)
    if not path.exists():
        try:
            return Position.start(), tuple(parse_transcript(words))
        except OthelloError as error:
            raise TerminalInputError(f"there is no file {shorten(name)}, and as a transcript: {error}") from None
    try:
        games = read_games(path)
    except OSError as error:
        raise TerminalInputError(f"{name} cannot be read: {error.strerror or error}") from None
    wanted = len(games) if number is None else number
    if not 1 <= wanted <= len(games):
        raise TerminalInputError(f"{name} holds {len(games) or 'no'} games; there is no game {wanted or 'to load'}")
    return games[wanted - 1].start, games[wanted - 1].moves


def _path(words: str) -> Path:
    try:
        return Path(words).expanduser()
    except RuntimeError:  # ~name, and nobody has that name
        return Path(words)


def _new(session: Session, words: str) -> None:
    if words and words.lower() not in USER_COLOURS:
        raise TerminalInputError(f"{shorten(words)} is no colour; {did_you_mean(words, USER_COLOURS)}")
    session.set_colour(words.lower() or session.wanted_colour)
    session.begin(GameInPlay(session.first_start, session.clock_seconds))
    session.say(session.greeting())


def _go(session: Session, words: str) -> None:
    if not session.paused:
        raise TerminalInputError("it is your turn; hint tells what the player would do")
    session.paused = False


def _help(session: Session, words: str) -> None:
    session.say(f"  {'f5':22s} a move: column and row; passes are played for you")
    session.say(f"  {'f5 d6 c3':22s} several moves, in turn for both sides")
    for name, command in COMMANDS.items():
        session.say(f"  {f'{name} {command.operands}':22s} {command.meaning}")
    session.say(
        "A command may be shortened to a beginning that tells it from the others, undo, redo and hint to a letter."
    )


def _quit(session: Session, words: str) -> None:
    session.done = True


COMMANDS = {
    "undo": Command("[N]", "back to your last turn, or N turns", _undo),
    "redo": Command("[N]", "forward again, as far as nothing else was played", _redo),
    "hint": Command(
        "[all] [PLAYER]", "what the player, or another, would do here; all: what all moves are worth", _hint
    ),
    "analyze": Command("[PLAYER]", "the mistakes of the game so far, and where it was lost", _analyze),
    "level": Command("[N|NAME|PLAYER]", f"1 to {len(LEVELS)}, club, keys such as depth=6, or another player", _level),
    "swap": Command("", "change sides", _swap),
    "moves": Command("", "the legal moves, and the game so far", _moves),
    "board": Command("", "draw the board again", _board),
    "show": Command("on|off", "what the player thinks of its moves", _show),
    "save": Command("FILE", "write the game: .ggf, .sgf or .txt", _save),
    "save!": Command("FILE", "the same, over a file that is there", _overwrite),
    "load": Command("FILE [N]", "go on with a game of a file, or from moves: f5d6c3", _load),
    "resign": Command("", "give the game up", _resign),
    "new": Command("[COLOR]", f"another game, as {', '.join(USER_COLOURS)}", _new),
    "go": Command("", "let the player go on after an interruption", _go),
    "help": Command("", "this list", _help),
    "quit": Command("", "end (also q, exit, Ctrl-D)", _quit),
}
_ALIASES = {"q": "quit", "exit": "quit", "?": "help", "h": "hint", "u": "undo", "r": "redo", "analyse": "analyze"}
"""Other names. No other single letter does anything: it is soon typed by mistake."""
_FOLLOWING = {
    "show": ("on", "off"),
    "new": USER_COLOURS,
    "hint": ("all",),
    "level": tuple(level.name.lower() for level in LEVELS),
}
"""Words that can follow a command."""
