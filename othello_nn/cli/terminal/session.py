"""``play.py`` without a command: a game in the terminal, or from a pipe.

Read ``game.py`` for the game that is being played, ``thinking.py`` for the player behind it, ``board.py`` for the
picture, and ``commands.py`` for what can be typed. Here are the turns: who moves, what is shown, and how it ends.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import random
import signal
import sys
import textwrap
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from othello_nn.cli.base import INTERRUPTED
from othello_nn.cli.positions import default_player, read_position
from othello_nn.cli.terminal.board import draw, find_style, moves_cursor
from othello_nn.cli.terminal.commands import complete, obey
from othello_nn.cli.terminal.game import COLOURS, GameInPlay, clock_text
from othello_nn.cli.terminal.thinking import BackgroundNotes, Thinker, at_level, checked, explain, score_text, title
from othello_nn.errors import OthelloError
from othello_nn.game.notation import move_name
from othello_nn.game.position import Position
from othello_nn.game.record import Game, MoveNote
from othello_nn.game.rules import PASS
from othello_nn.players.base import Choice
from othello_nn.players.spec import PlayerSpec, parse_spec

if TYPE_CHECKING:
    from othello_nn.cli.judges import Judged
    from othello_nn.cli.web.values import Values

BOARD_LINES, SPARE_LINES = 12, 6
"""Of a board of the usual size, and those that must be free below it where boards are drawn in place."""
HUMAN_SIDES = {"black": (True,), "white": (False,), "both": (True, False), "none": ()}


def play(arguments: Namespace) -> int:
    """``play.py`` without a command."""
    start = read_position(arguments.start or ["start"])
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")  # a strange byte is a typing mistake like any other
    session = Session(
        arguments.player or default_player(),
        sys.stdin,
        sys.stdout,
        start=start,
        colour=arguments.color,
        level=arguments.level,
        clock_seconds=arguments.clock,
        ascii_only=arguments.ascii,
        show=arguments.show,
        seed=arguments.seed,
    )
    code = session.run()
    if session.unfinished:
        # Python would wait for a compilation that nobody needs any more.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


class _TimeUp(Exception):
    """The clock of the side that is to type a move has run out."""


class Session:
    """One sitting: game after game until the user has had enough."""

    def __init__(
        self,
        player: str,
        stdin: TextIO,
        stdout: TextIO,
        *,
        start: Position | None = None,
        colour: str = "black",
        level: str | None = None,
        clock_seconds: float | None = None,
        ascii_only: bool = False,
        show: bool = False,
        seed: int | None = None,
        now: Callable[[], float] = time.monotonic,
    ):
        self.stdin, self.stdout, self.now = stdin, stdout, now
        self.interactive = stdin.isatty() and stdout.isatty()
        self.ascii_only, self.show, self.clock_seconds = ascii_only, show, clock_seconds
        self.style = find_style(stdout, ascii_only=ascii_only)
        self.seed = random.SystemRandom().randrange(2**32) if seed is None else seed
        self.rng = random.Random(f"colours {self.seed}")
        spec = parse_spec(player)
        self.thinkers: list[Thinker] = []
        self.thinker: Thinker
        self.set_player(checked(spec) if level is None else at_level(spec, level))
        self.first_start = start or Position.start()
        self.set_colour(colour)
        self.failed = False
        self._news: list[str] = []
        """What was said since something was last typed: a board that is drawn over it shows it again."""
        self._made_room = False
        self.begin(GameInPlay(self.first_start, clock_seconds))

    # --- who plays ---------------------------------------------------------------------------------------------------

    @property
    def unfinished(self) -> bool:
        """A thread is still at work that the end of the program would have to wait for."""
        return any(thinker.busy for thinker in self.thinkers)

    def make_thinker(self, spec: PlayerSpec) -> Thinker:
        thinker = Thinker(spec, f"player {self.seed} {len(self.thinkers)}")
        self.thinkers.append(thinker)
        return thinker

    def set_player(self, spec: PlayerSpec) -> None:
        """Play against this one from now on."""
        for thinker in self.thinkers:
            thinker.close()
        self.thinker = self.make_thinker(spec)

    def set_colour(self, colour: str) -> None:
        """What the user plays, and in new games wants to play."""
        self.wanted_colour = colour
        self.colour = self.rng.choice(["black", "white"]) if colour == "random" else colour
        self.human_sides = HUMAN_SIDES[self.colour]

    def is_human(self, black: bool) -> bool:
        return black in self.human_sides

    def side_name(self, black: bool) -> str:
        """Who has a colour, as records name them."""
        return "human" if self.is_human(black) else self.thinker.spec.text

    def begin(self, game: GameInPlay) -> None:
        """Go on with this game, whatever was on the board before."""
        self.game = game
        self.saved: set[Path] = set()  # where this game is, which may be written again
        self.done = False
        self.changed()
        self.thinker.new_game()

    def changed(self) -> None:
        """The board or the sides have changed: show it, and let the game go on."""
        self.stale, self.told_end, self.paused = True, False, False

    # --- the sitting -------------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Play until the end; the result is the exit code."""
        self.notes = BackgroundNotes(sys.stderr)
        with contextlib.redirect_stderr(self.notes):
            return self._run()

    def _run(self) -> int:
        if self.interactive:
            self._make_editable()
        self.say(self.greeting())
        self.draw_board()
        try:
            while not self.done:
                self._turn()
        except EOFError:
            self.say("" if self.interactive else "end of input")
        except KeyboardInterrupt:
            self.say("\ninterrupted")
            self.tell_moves()
            return INTERRUPTED
        finally:
            for thinker in self.thinkers:
                thinker.close()
        if not self.told_end:
            self.tell_moves()
        return 1 if self.failed else 0

    def _make_editable(self) -> None:
        """Give ``input`` a line that can be edited, a history, and words that Tab completes."""
        with contextlib.suppress(ImportError):
            import readline

            def completed(word: str, number: int) -> str | None:
                found = complete(self, readline.get_line_buffer()[: readline.get_endidx()])
                return found[number] if number < len(found) else None

            readline.set_completer_delims(" ")
            readline.set_completer(completed)
            # macOS has editline behind the same name.
            binding = "bind ^I rl_complete" if "libedit" in (readline.__doc__ or "") else "tab: complete"
            readline.parse_and_bind(binding)

    def greeting(self) -> str:
        """Who plays whom."""
        name = title(self.thinker.spec)
        who = {
            "both": "Two people play; hint asks " + name,
            "none": f"{name} plays against itself; Ctrl-C interrupts it",
        }.get(self.colour, f"You play {self.colour} against {name}")
        return f"{who}. A move is a square, such as f5; help tells what else can be typed."

    def _turn(self) -> None:
        game = self.game
        if len(self.human_sides) < 2:
            self.thinker.prepare()  # while the user looks at the board
        if game.is_over and not self.told_end:
            self._tell_end()
        elif game.is_over or self.paused:
            self._command()
        elif game.position.must_pass:
            self.say(f"{COLOURS[game.black_to_move]} has no legal move and passes.")
            game.play(PASS)
            self.stale = True
        elif self.is_human(game.black_to_move):
            self._command()
        else:
            self._engine_turn()

    def _tell_end(self) -> None:
        if self.stale or self.game.loser is not None:
            self.draw_board()
        self.told_end = True
        result = f"Game over: {self.game.result()}."
        if len(self.human_sides) == 1 and (margin := self.game.margin()):
            result += " You have won!" if self.is_human(margin > 0) else " You have lost."
        self.say(result)
        self.tell_moves()

    # --- the user's turn ---------------------------------------------------------------------------------------------

    def _command(self) -> None:
        if self.stale:
            self.draw_board()
        left = None if self.game.is_over or self.paused else self.game.remaining[self.game.black_to_move]
        started = self.now()
        try:
            text = self._read(left)
        except _TimeUp:
            self.say("")
            self.game.spend(math.inf)
            return
        if left is not None:
            self.game.spend(self.now() - started)
            if self.game.loser is not None:
                return
        try:
            obey(self, text)
        except OthelloError as error:
            self.say(str(error))

    def _prompt(self) -> str:
        if self.game.is_over:
            return "another game? (yes or no) " if self.interactive else "game over> "
        return f"{COLOURS[self.game.black_to_move]}> "

    def _read(self, seconds: float | None) -> str:
        """What is typed next. From a pipe it is shown behind the prompt, as if it had been typed."""
        prompt = self._prompt()
        self._news.clear()
        with _alarm(seconds):
            if self.interactive and self.stdin is sys.stdin:
                return input(prompt)
            if self.interactive:
                self.write(prompt)
            line = self.stdin.readline()
        if not line:
            raise EOFError
        if not self.interactive:
            self.say(f"{prompt}{line.strip()}")
        return line

    # --- the player's turn -------------------------------------------------------------------------------------------

    def _engine_turn(self) -> None:
        game, side = self.game, self.game.black_to_move
        if self.stale and self._draws_in_place:
            self.draw_board()  # the user's move, while the player thinks
        try:
            choice = self.ask(self.thinker, game.remaining[side])
            assert choice.move is not None
            if game.is_over:
                return
            game.play(choice.move, MoveNote(choice.score, choice.seconds or None))
        except OthelloError as error:
            self.failed = self.paused = True
            self.set_player(self.thinker.spec)
            self.say(f"{self.thinker.spec.text} cannot go on: {error}")
            self.say("The game is kept. Go on with: go (try again), level, swap, undo, save or quit; or move for it.")
            return
        self.failed, self.stale = False, True
        self.paused = self.thinker.hurried and not self.human_sides
        self.say(f"{COLOURS[side]} plays {move_name(choice.move)}{explain(choice, side) if self.show else ''}")
        if not self.human_sides:
            self.draw_board()

    def ask(self, thinker: Thinker, remaining: float | None = None) -> Choice:
        """A player's choice in the position on the board; with a clock, its time is taken."""
        live = self.interactive and moves_cursor()

        def thinking() -> None:
            text = f"{COLOURS[self.game.black_to_move]} is thinking"
            if self.show and (best := thinker.thought) is not None and best.move is not None:
                text = f"{text}: {move_name(best.move)} {score_text(best)}, depth {best.depth}"
            if live:
                self.write(f"\r\x1b[K{text[: self.style.width - 1]}")

        thinker.wait_until_ready(self.notes.tell)
        started = self.now()
        try:
            choice = thinker.ask(self.game.position, remaining, self.game.line, thinking)
        finally:
            if live:
                self.write("\r\x1b[K")
        if remaining is not None:
            self.game.spend(self.now() - started)
        return choice

    def ask_values(self, thinker: Thinker) -> Values:
        """What a player thinks of all moves in the position on the board; a clock does not run meanwhile."""
        live = self.interactive and moves_cursor()
        if live:
            self.write("looking at every move")
        try:
            return thinker.values(self.game.position, self.notes.tell)
        finally:
            if live:
                self.write("\r\x1b[K")

    def judge(self, thinker: Thinker, game: Game) -> list[Judged]:
        """What a player thinks of the moves of a game."""
        live = self.interactive and moves_cursor()
        total = sum(move != PASS for move in game.moves)

        def tick(found: list[Judged]) -> None:
            if live:
                self.write(f"\r\x1b[Kjudging move {len(found) + 1} of {total} (Ctrl-C ends it)")

        thinker.wait_until_ready(self.notes.tell)
        try:
            return thinker.judge(game, tick)
        finally:
            if live:
                self.write("\r\x1b[K")

    # --- output ------------------------------------------------------------------------------------------------------

    def write(self, text: str) -> None:
        if encoding := self.stdout.encoding:
            text = text.encode(encoding, "replace").decode(encoding)
        self.stdout.write(text)
        self.stdout.flush()

    def say(self, text: str) -> None:
        """A line for people; at a terminal it is broken between words."""
        if self.interactive and len(text) >= self.style.width:
            text = textwrap.fill(text, self.style.width - 1, subsequent_indent="  ", break_on_hyphens=False)
        self._news.append(text)
        self.write(f"{text}\n")

    def tell_moves(self) -> None:
        """The game as it can be typed again: in one word, however long the line."""
        self.write(f"game: {self.game.transcript}\n")

    def draw_board(self, values: Mapping[int, str] | None = None) -> None:
        """The board, with texts on squares if they are given. A terminal shows it in place of the one before, and what
        is new below it; elsewhere it follows."""
        picture = self._picture(values or {})
        if self._draws_in_place:
            # What was on the screen before the first board is pushed up, where it can be scrolled back to.
            room = "" if self._made_room else "\n" * (self.style.height - 1)
            self._made_room = True
            self.write(f"{room}\x1b[H\x1b[J")
            picture = [*picture[1:], *self._news]
        self.write("\n".join([*picture, ""]))
        self.stale = False

    @property
    def _draws_in_place(self) -> bool:
        """Only where the terminal has room for the whole board and some lines below it."""
        return self.interactive and moves_cursor() and self.style.height >= BOARD_LINES + SPARE_LINES

    def _picture(self, values: Mapping[int, str]) -> list[str]:
        self.style = find_style(self.stdout, ascii_only=self.ascii_only)
        game, position = self.game, self.game.position
        turn = game.last_turn
        last = PASS if turn is None else game.moves[turn]
        human = not game.is_over and self.is_human(game.black_to_move)
        picture = draw(
            position,
            self.style,
            self._panel(turn),
            last=last,
            flipped=game.last_flips,
            legal=position.legal_mask if human or self.paused else 0,
            texts=values,
        )
        return ["", *picture]

    def _panel(self, turn: int | None) -> list[str]:
        game, position = self.game, self.game.position
        lines = [f"move {game.number}" if not game.is_over else "game over", ""]
        for black, discs in ((True, position.black_discs), (False, position.white_discs)):
            left = game.remaining[black]
            clock = "" if left is None else f"  {clock_text(left)}"
            name = "human" if self.is_human(black) else title(self.thinker.spec)
            name = "you" if self.human_sides == (black,) else name
            room = self.style.panel_room - len(f" X  {COLOURS[black]} {discs:2d}{clock}  ")
            lines.append(
                f"{self.style.disc(black)} {COLOURS[black]} {discs:2d}{clock}  {name[: max(0, room)]}".rstrip()
            )
        lines.append("")
        if not game.is_over:
            lines.append(f"{COLOURS[game.black_to_move]} to move")
        if turn is not None:
            lines.append(f"last: {COLOURS[game.positions[turn].black_to_move]} {move_name(game.moves[turn])}")
        return lines


@contextlib.contextmanager
def _alarm(seconds: float | None) -> Iterator[None]:
    """Raise _TimeUp after so many seconds, where the system has such alarms; elsewhere time is looked at afterwards."""
    if seconds is None or not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(*_) -> None:
        raise _TimeUp

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds + 0.001)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
