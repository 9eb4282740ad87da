"""A player that is another program behind GTP, the Go Text Protocol, which Othello programs use too.

A command is a line; the answer is ``= text`` or ``? error`` and then an empty line. Programs differ in small things,
and it is for us to be generous: squares in either case, passes that the program has made by itself and refuses to be
told, commands that it does not have. Read ``player.py`` first.
"""

from __future__ import annotations

import random
import re
import tempfile
from pathlib import Path

from othello_nn.errors import cut, shorten
from othello_nn.game.formats.sgf import format_sgf
from othello_nn.game.position import Position
from othello_nn.game.record import Game
from othello_nn.game.rules import PASS
from othello_nn.game.syntax import COLOUR_NAMES, move_name
from othello_nn.players.base import Choice
from othello_nn.players.external.player import NAME_CHARACTERS, ExternalPlayer
from othello_nn.players.spec import PlayerSpec

# A row of a board as programs draw it: its number, eight signs with or without spaces, and perhaps more beside them.
_ROW = re.compile(r"\s*([1-8])[\s|]+((?:[Xx*Oo._-][\s|]*){8})(?=$|\s|[1-8])")
WARM_UP = "othello_nn-warm_up"
"""A command of our own: answered when the player is ready to think. GTP has none for it."""


class _Refused(Exception):
    """The program answered with an error."""


class GtpPlayer(ExternalPlayer):
    """``gtp:COMMAND``. ``seconds`` is told as byo-yomi for one move, a game clock as main time."""

    plays_its_move = True

    def __init__(self, spec: PlayerSpec, command: str, rng: random.Random):
        super().__init__(spec, command, rng)
        self._commands: set[str] = set()
        self._passes_by_itself = False
        self._clocked = False
        """It knows that there is a game clock."""

    def greet(self) -> None:
        try:
            version = self._command("protocol_version")
        except _Refused as refusal:
            raise self.process.failure(f"does not say which version of GTP it speaks: {refusal}") from None
        if version.split()[:1] != ["2"]:
            raise self.process.failure(f"speaks version {shorten(version)} of GTP; only 2 is known here")
        self.engine_name = cut(self._try("name") or "", NAME_CHARACTERS)
        self._commands = set((self._try("list_commands") or "").split())
        if self.spec.seconds is not None and not self._has("time_settings"):
            raise self.process.failure("has no command time_settings, so it cannot be given seconds=…; leave them out")
        if "set_game" in self._commands:  # programs that play several games
            self._try("set_game Othello")

    def prepare(self) -> None:
        if WARM_UP in self._commands:
            self._try(WARM_UP)

    def begin(self, start: Position, remaining: float | None) -> None:
        if "boardsize" in self._commands:
            self._must("boardsize 8", "does not play on 8×8 squares")
        self._must("clear_board", "cannot begin a game")
        self._passes_by_itself = self._clocked = False
        if self.spec.seconds is not None:
            self._must(f"time_settings 0 {_whole_seconds(self.spec.seconds)} 1", "does not take the time of a move")
        if start != Position.start():
            self._set_up(start)

    def tell(self, move: int, by_black: bool) -> None:
        try:
            self._command(f"play {COLOUR_NAMES[by_black]} {move_name(move).upper()}")
        except _Refused as refusal:
            if move != PASS:
                raise self.process.failure(f"refuses the move {move_name(move)}: {refusal}") from None
            # It has passed by itself. If not, it will refuse the next move.
            self._passes_by_itself = True

    def take_back(self, moves: tuple[int, ...]) -> bool:
        # Whether a pass that a program has made by itself is taken back with the move before it, nobody knows.
        if "undo" not in self._commands or PASS in moves or self._passes_by_itself:
            return False
        return all(self._try("undo") is not None for _ in moves)

    def ask(self, position: Position, remaining: float | None) -> tuple[str, Choice]:
        colour = COLOUR_NAMES[position.black_to_move]
        if remaining is not None and self.spec.seconds is None:
            seconds = _whole_seconds(remaining)
            if not self._clocked and "time_settings" in self._commands:
                self._try(f"time_settings {seconds} 0 0")
            self._clocked = True
            if "time_left" in self._commands:
                self._try(f"time_left {colour} {seconds} 0")
        try:
            answer = self._command(f"genmove {colour}")
        except _Refused as refusal:
            raise self.process.failure(f"makes no move: {refusal}") from None
        if answer.strip().lower() == "resign":
            raise self.process.failure("resigned")
        return answer.strip(), Choice(None)

    # --- exchanges ---------------------------------------------------------------------------------------------------

    def _has(self, command: str) -> bool:
        """Whether the program lists a command, or has not said what it has."""
        return not self._commands or command in self._commands

    def _command(self, command: str) -> str:
        """Send a command; the text of the answer."""
        self.process.send(command)
        while not (line := self.read(command)).startswith(("=", "?")):
            pass  # what programs say in between is not for us
        refused, text = line.startswith("?"), [line[1:].strip()]
        while line := self.read(command):
            text.append(line)
        if refused:
            raise _Refused(" ".join(text).strip() or "no reason given")
        return "\n".join(text)

    def _try(self, command: str) -> str | None:
        """The answer to a command that may as well be refused."""
        try:
            return self._command(command)
        except _Refused:
            return None

    def _must(self, command: str, otherwise: str) -> None:
        try:
            self._command(command)
        except _Refused as refusal:
            raise self.process.failure(f"{otherwise}: {refusal}") from None

    # --- other positions ---------------------------------------------------------------------------------------------

    def _set_up(self, start: Position) -> None:
        """Have a position other than the usual start loaded from a file, the only way GTP has for it."""
        if "loadsgf" not in self._commands:
            raise self.process.failure("cannot be given a start other than the usual one: it has no command loadsgf")
        with tempfile.TemporaryDirectory(prefix="othello-") as folder:
            path = Path(folder) / "start.sgf"
            path.write_text(format_sgf([Game(start)]), encoding="utf-8")
            self._must(f"loadsgf {path}", "cannot load another start than the usual one")
        shown = self._try("showboard") if self._has("showboard") else None
        board = None if shown is None else drawn_board(shown)
        if board is not None and board != start.board_string():
            raise self.process.failure("did not set up the start that it was given: its board is another")


def drawn_board(text: str) -> str | None:
    """The 64 signs of a board as ``showboard`` draws it, or None where that cannot be made out.

    >>> drawn_board(str(Position.parse("f5d6"))) == Position.parse("f5d6").board_string()
    True
    """
    rows: dict[int, str] = {}
    for line in text.splitlines():
        if row := _ROW.match(line):
            rows.setdefault(int(row[1]), re.sub(r"[\s|]", "", row[2]))
    if sorted(rows) != list(range(1, 9)):
        return None
    signs = "".join(rows[number] for number in range(1, 9))
    return signs.translate(str.maketrans("x*o._", "XXO--"))


def _whole_seconds(seconds: float) -> int:
    """GTP knows whole seconds only; less than one would be none."""
    return max(1, int(seconds))
