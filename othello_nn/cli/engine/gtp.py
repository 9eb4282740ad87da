"""GTP, the Go Text Protocol, from the engine's side: GoGui, Quarry and matches of engines drive a player with it.

A command is a line, ``[id] name arguments``; the answer ``=[id] text`` or ``?[id] error``, and an empty line. A command
that fails changes nothing. Read ``engine.py`` first.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from typing import TextIO

from othello_nn import __version__
from othello_nn.cli.engine.thread import PlayerThread, with_move
from othello_nn.errors import OthelloError
from othello_nn.files import plain_file
from othello_nn.game.formats.sgf import parse_sgf
from othello_nn.game.position import Position
from othello_nn.game.record import Game
from othello_nn.game.rules import PASS
from othello_nn.game.syntax import COLOUR_NAMES, COLOUR_WORDS, move_name, parse_move
from othello_nn.players.external.gtp import WARM_UP

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_INTEGER = re.compile(r"[0-9]{1,18}")
# Of the time for a move as the other program counts it, this much is spent; the rest is for pipes and threads.
TIME_SHARE = 0.9
LEAST_SECONDS = 0.01


class GtpError(OthelloError):
    """A command that cannot be done; the message is the answer."""


class _Clock:
    """GTP's time: first the main time, then so many seconds for every so many moves."""

    def __init__(self, main: float = 0.0, extra: float = 0.0, moves: int = 0):
        self.left = {True: main, False: main}
        self.main = main
        self.a_move = TIME_SHARE * extra / moves if extra > 0 and moves > 0 else None

    def remaining(self, black: bool) -> float | None:
        """What a side has for all of its moves; None if its time goes by the move, or is not limited."""
        if self.main <= 0 or (self.left[black] <= 0 and self.a_move is not None):
            return None
        return max(self.left[black], LEAST_SECONDS)


class GtpEngine:
    """A game, a clock, and what each command does to them."""

    def __init__(self, thinker: PlayerThread):
        self.thinker = thinker
        self.game, self.clock = Game(), _Clock()
        self._before: list[Game] = []
        """The games that ``undo`` goes back to."""
        self._quit = False
        self._commands: dict[str, tuple[Callable[..., str], int, int]] = {
            # name: what it does, the least and the largest number of arguments
            "protocol_version": (lambda: "2", 0, 0),
            "name": (lambda: self.thinker.name, 0, 0),
            "version": (lambda: __version__, 0, 0),
            "known_command": (lambda name="": "true" if name in self._commands else "false", 0, 1),
            "list_commands": (lambda: "\n".join(self._commands), 0, 0),
            "quit": (self._end, 0, 0),
            "boardsize": (self._board_size, 1, 1),
            "clear_board": (lambda: self._new_game(Game()), 0, 0),
            "komi": (self._komi, 1, 1),
            "play": (self._play, 2, 2),
            "genmove": (self._generate, 1, 1),
            "reg_genmove": (lambda colour: self._think(colour)[1], 1, 1),
            "undo": (self._undo, 0, 0),
            "showboard": (lambda: f"\n{self.game.final}", 0, 0),
            "time_settings": (self._time_settings, 3, 3),
            "time_left": (self._time_left, 3, 3),
            "final_score": (self._final_score, 0, 0),
            "set_game": (self._set_game, 1, 1),
            "list_games": (lambda: "Othello", 0, 0),
            "loadsgf": (self._load, 1, 2),
            "gogui-rules_game_id": (lambda: "Othello", 0, 0),
            "gogui-rules_board": (self._rules_board, 0, 0),
            "gogui-rules_board_size": (lambda: "8", 0, 0),
            "gogui-rules_legal_moves": (self._rules_moves, 0, 0),
            "gogui-rules_side_to_move": (lambda: COLOUR_NAMES[self.game.final.black_to_move], 0, 0),
            "gogui-rules_final_result": (self._rules_result, 0, 0),
            WARM_UP: (self._warm_up, 0, 0),
        }

    def run(self, lines: Iterable[str], out: TextIO) -> None:
        """Answer commands until ``quit`` or the end of the input."""
        for line in lines:
            if (answer := self.answer(line)) is not None:
                out.write(f"{answer}\n\n")
                out.flush()
            if self._quit:
                break

    def answer(self, line: str) -> str | None:
        """The answer to a line, without the empty line after it; None if the line holds no command."""
        words = _CONTROL.sub("", line).partition("#")[0].split()
        number = words.pop(0) if words and _INTEGER.fullmatch(words[0]) else ""
        if not words:
            return f"?{number} syntax error" if number else None
        try:
            text = self._do(words[0], words[1:])
        except OthelloError as error:
            return f"?{number} {' '.join(str(error).split())}"
        space = " " if text and not text.startswith("\n") else ""
        return f"={number}{space}{text}"

    def _do(self, name: str, arguments: list[str]) -> str:
        if name not in self._commands:
            raise GtpError("unknown command")
        function, least, most = self._commands[name]
        if not least <= len(arguments) <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            raise GtpError(f"syntax error: {name} takes {wanted} arguments, not {len(arguments)}")
        return function(*arguments)

    # --- the session -------------------------------------------------------------------------------------------------

    def _end(self) -> str:
        self._quit = True
        return ""

    def _warm_up(self) -> str:
        self.thinker.wait_until_warm()
        return ""

    def _board_size(self, size: str) -> str:
        if size != "8":
            raise GtpError("unacceptable size" if _INTEGER.fullmatch(size) else "syntax error: not a size")
        return self._new_game(Game())

    def _set_game(self, name: str) -> str:
        if name.lower() not in ("othello", "reversi"):
            raise GtpError("unknown game: only Othello is played here")
        return ""

    def _komi(self, komi: str) -> str:
        _number(komi)  # Othello has none, but GUIs for Go always say it
        return ""

    # --- the game ----------------------------------------------------------------------------------------------------

    def _new_game(self, game: Game, before: list[Game] | None = None) -> str:
        self.game, self._before = game, before or []
        self.clock.left = dict.fromkeys(self.clock.left, self.clock.main)
        self.thinker.new_game()
        return ""

    def _turn(self, colour: str) -> Game:
        """The game at a turn of this colour, after the other's pass if it has to."""
        if colour.lower() not in COLOUR_WORDS:
            raise GtpError(f"syntax error: {colour} is no colour")
        if self.game.final.black_to_move == COLOUR_WORDS[colour.lower()] or self.game.final.is_over:
            return self.game
        if not self.game.final.must_pass:
            raise GtpError(f"illegal move: it is not {colour}'s turn")
        return Game(self.game.start, (*self.game.moves, PASS))

    def _put(self, game: Game) -> None:
        self._before.append(self.game)
        self.game = game

    def _play(self, colour: str, vertex: str) -> str:
        game = self._turn(colour)
        try:
            move = parse_move(vertex)
            game.final.play(move)
        except OthelloError as error:
            raise GtpError(f"illegal move: {error}") from None
        self._put(with_move(game, move))
        return ""

    def _undo(self) -> str:
        if not self._before:
            raise GtpError("cannot undo: no move has been played")
        self.game = self._before.pop()
        return ""

    def _think(self, colour: str) -> tuple[Game, str, int | None]:
        game = self._turn(colour)
        position = game.final
        if position.is_over or position.must_pass:
            return game, "PASS", PASS if position.must_pass else None
        black = position.black_to_move
        remaining = self.clock.remaining(black)
        self.thinker.seconds = self.clock.a_move if remaining is None else None
        started = time.monotonic()
        choice = self.thinker.choose(game, remaining)
        if remaining is not None:
            self.clock.left[black] -= time.monotonic() - started
        assert choice.move is not None
        return game, move_name(choice.move).upper(), choice.move

    def _generate(self, colour: str) -> str:
        game, name, move = self._think(colour)
        if move is not None:
            self._put(with_move(game, move))
        return name

    def _load(self, path: str, before: str | None = None) -> str:
        """A game from a file; with a number, up to the position before that move, counted from 1."""
        if before is not None and not (_INTEGER.fullmatch(before) and int(before) > 0):
            raise GtpError("syntax error: not the number of a move")
        try:
            games = parse_sgf(plain_file(path).read_text(encoding="utf-8", errors="replace"))
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise GtpError(f"cannot load file: {reason}") from None
        if not games:
            raise GtpError("cannot load file: it holds no game")
        start, moves = games[0].start, games[0].moves
        if before is not None:
            moves = moves[: int(before) - 1]
        return self._new_game(Game(start, moves), [Game(start, moves[:number]) for number in range(len(moves))])

    # --- time --------------------------------------------------------------------------------------------------------

    def _time_settings(self, main: str, extra: str, moves: str) -> str:
        self.clock = _Clock(_number(main, 0), _number(extra, 0), int(_number(moves, 0)))
        return ""

    def _time_left(self, colour: str, seconds: str, moves: str) -> str:
        if colour.lower() not in COLOUR_WORDS:
            raise GtpError(f"syntax error: {colour} is no colour")
        left, in_extra = _number(seconds), _number(moves, 0) > 0
        # Beyond the main time each move has its share, whatever is left of it.
        self.clock.left[COLOUR_WORDS[colour.lower()]] = 0.0 if in_extra else left
        if not in_extra:
            self.clock.main = max(self.clock.main, left)
        return ""

    # --- results and GoGui's rules -----------------------------------------------------------------------------------

    def _final_score(self) -> str:
        if not self.game.final.is_over:
            raise GtpError("cannot score: the game is not over")
        margin = self.game.final.black_score()
        return "0" if margin == 0 else f"{'B' if margin > 0 else 'W'}+{abs(margin)}"

    def _rules_board(self) -> str:
        # GoGui, made for Go, has row 1 at the bottom and wants the top row first.
        signs = self.game.final.board_string().replace("-", ".")
        return "\n" + "\n".join(" ".join(signs[8 * row : 8 * row + 8]) for row in range(7, -1, -1))

    def _rules_moves(self) -> str:
        position: Position = self.game.final
        moves = (PASS,) if position.must_pass else position.legal_moves
        return " ".join(move_name(move).upper() for move in moves)

    def _rules_result(self) -> str:
        if (outcome := self.game.final.outcome()) is None:
            return "unknown"
        if outcome == "draw":
            return "Draw"
        return f"{outcome.capitalize()} wins by {abs(self.game.final.black_score())}"


def _number(text: str, least: float = -1e9) -> float:
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not least <= number <= 1e9:
        raise GtpError(f"syntax error: {text} is not a number that can be used here")
    return number
