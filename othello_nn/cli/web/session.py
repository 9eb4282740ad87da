"""One tab: its game, who plays it, what is being thought about, and what the page has yet to be told.

Read ``messages.py`` for what a page can ask, ``game.py`` for the game, ``pool.py`` for who thinks. A session lives in
the event loop: only that thread touches it. Thoughts are done elsewhere and come back through ``_later``; each carries
the position that it is about, and what belongs to another one is dropped. The page is told the newest of everything:
``outbox`` has one entry for each kind of news, so a page that reads slowly misses steps in between and nothing else.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from othello_nn.cli.terminal.game import COLOURS
from othello_nn.cli.web import messages
from othello_nn.cli.web.game import BrowserGame, Clocks, Course
from othello_nn.cli.web.judging import Judgement, Judgements
from othello_nn.cli.web.levels import Guests, Seat
from othello_nn.cli.web.messages import Message
from othello_nn.cli.web.named import OPENINGS, opening_moves
from othello_nn.cli.web.news import analysis_news, file_news, state_news
from othello_nn.cli.web.paste import read_fragment, read_pasted
from othello_nn.cli.web.pool import Pool
from othello_nn.cli.web.thoughts import Thoughts
from othello_nn.errors import OthelloError
from othello_nn.game.position import Position, complete_moves
from othello_nn.game.rules import PASS
from othello_nn.game.syntax import scan_moves
from othello_nn.players.base import Choice

RANDOM_OPENING = "random"
MOST_NOTES = 20


class Session:
    """What a tab shows. The computer waits ``reply_seconds`` at least before it moves: people want to see it."""

    def __init__(self, pool: Pool, guests: Guests, loop: asyncio.AbstractEventLoop, reply_seconds: float):
        self.guests, self.loop, self.reply_seconds = guests, loop, reply_seconds
        self.game = BrowserGame()
        self.clocks = Clocks()
        self.seats: dict[bool, Seat] = {True: Seat(), False: Seat()}
        self.paused = False
        self.minds: tuple[str, ...] = ()
        self.shows_values = self.shows_look = self.analyzes = False
        self.judgements: dict[str, Judgements] = {}
        self.outbox: dict[str, dict[str, Any]] = {}
        self.news = asyncio.Event()
        self.closed = False
        self._thoughts = Thoughts(pool, self)
        self.version = self._notes = 0
        self._changed_at = 0.0
        self._flag: asyncio.TimerHandle | None = None
        self._reply: asyncio.TimerHandle | None = None
        self._told_over = False
        self._handlers: dict[type[Message], Callable[[Any], None]] = {
            messages.New: self._new,
            messages.Seats: self._sit,
            messages.Play: self._play,
            messages.Goto: self._goto,
            messages.Undo: lambda _: self._travel(self.game.undo, "there is nothing to take back"),
            messages.Redo: lambda _: self._travel(self.game.redo, "there is nothing to play again"),
            messages.Resign: self._resign,
            messages.Pause: self._pause,
            messages.Hint: lambda _: self._thoughts.hint(self.game.position),
            messages.Minds: self._set_minds,
            messages.Analyze: self._analyze,
            messages.Paste: self._paste,
            messages.Export: self._export,
        }
        self.tell("welcome", self.guests.offered() | {"openings": list(OPENINGS)})

    # --- talking to the page -----------------------------------------------------------------------------------------

    def handle(self, text: str) -> bool:
        """Do what a message says; false if it was none, or could not be done, which the page is told."""
        try:
            message = messages.parse(text)
            self._handlers[type(message)](message)
        except OthelloError as error:
            self.note(str(error), error=True)
            return False
        return True

    def tell(self, kind: str, news: dict[str, Any], place: str = "") -> None:
        """Have the page told; what was to be told of the same kind and place, and was not yet, is out of date."""
        self.outbox.pop(kind + place, None)  # the newest comes last
        self.outbox[kind + place] = {"type": kind} | news
        self.news.set()

    def note(self, text: str, *, error: bool = False) -> None:
        """A line for people."""
        self._notes += 1
        self.tell("note", {"text": text, "error": error}, f" {self._notes % MOST_NOTES}")

    def later(self, call: Callable[..., None], *arguments: Any) -> None:
        """From a thread of the pool: have something done here, unless the tab has gone."""

        def run() -> None:
            if not self.closed:
                call(*arguments)

        try:
            self.loop.call_soon_threadsafe(run)
        except RuntimeError:
            return  # the server has ended

    def close(self) -> None:
        """The tab has gone: its thoughts end."""
        self.closed = True
        self._thoughts.close()
        for timer in (self._flag, self._reply):
            if timer is not None:
                timer.cancel()

    # --- messages ----------------------------------------------------------------------------------------------------

    def _new(self, message: messages.New) -> None:
        seats = {True: self.guests.seat(message.black), False: self.guests.seat(message.white)}
        if message.link:
            self._seat(seats, message)
            self._follow(message.link)
            return
        start = Position.parse(message.start)
        moves: tuple[int, ...] = complete_moves(start, scan_moves(message.moves))[0]
        if message.opening == RANDOM_OPENING:
            self._seat(seats, message)
            self._thoughts.random_opening()
            return
        if message.opening:
            if message.opening not in OPENINGS:
                raise OthelloError(f"no opening is called {message.opening[:40]!r}")
            start, moves = Position.start(), opening_moves(message.opening)
        if start.is_over and not moves:
            raise OthelloError("in this position the game is over: neither side has a move")
        self._seat(seats, message)
        self._begin(start, moves, message.ply)

    def _follow(self, link: str) -> None:
        """Show what a link leads to; the start, if that is nothing."""
        try:
            found = read_fragment(link)
        except OthelloError as error:
            self.note(f"the link leads nowhere: {error}", error=True)
            self._begin(Position.start(), ())
            return
        self.paused = True  # a game that is looked at does not go on by itself
        self._begin(found.start, found.moves, found.ply)

    def _seat(self, seats: dict[bool, Seat], message: messages.New) -> None:
        self.seats, self.paused = seats, message.paused
        left = {True: message.black_left or message.clock, False: message.white_left or message.clock}
        self.clocks = Clocks(message.clock, {side: min(time, message.clock) for side, time in left.items()})

    def _begin(self, start: Position, moves: tuple[int, ...], ply: int | None = None) -> None:
        if start.must_pass and not moves:
            moves = (PASS,)
        self.game.change(Course(start, moves, len(moves) if ply is None else min(ply, len(moves))))
        self.analyzes = False
        self._told_over = self.game.is_over  # only a game that is played to its end here is judged unasked
        self.changed()

    def begin_random(self, moves: tuple[int, ...]) -> None:
        """A balanced opening has been found."""
        self._begin(Position.start(), moves)

    def _sit(self, message: messages.Seats) -> None:
        self.seats = {True: self.guests.seat(message.black), False: self.guests.seat(message.white)}
        self.paused = False
        self.changed()

    def _play(self, message: messages.Play) -> None:
        if message.ply != self.game.course.ply:
            self.changed()  # the page shows something old
            return
        side = self.game.position.black_to_move
        if self.game.is_last and not self.seats[side].is_person and not self.paused and not self.game.is_over:
            raise OthelloError(f"it is {COLOURS[side]}'s turn, and {self.seats[side].title} is thinking")
        self.game.play(message.square)
        self.changed()

    def _goto(self, message: messages.Goto) -> None:
        self.game.goto(message.ply)
        self.changed()

    def _travel(self, travel: Callable[..., bool], nothing: str) -> None:
        if not travel(self._is_own_turn):
            raise OthelloError(nothing)
        self.changed()

    def _is_own_turn(self) -> bool:
        """A person is to move, or nobody is a person."""
        seats = self.seats.values()
        if not any(seat.is_person for seat in seats):
            self.paused = True  # or the move would be made again at once
            return True
        return self.game.final.is_over or self.seats[self.game.final.black_to_move].is_person

    def _resign(self, _: messages.Resign) -> None:
        people = [side for side, seat in self.seats.items() if seat.is_person]
        if self.game.is_over or not people:
            raise OthelloError("there is no game to give up")
        side = self.game.final.black_to_move
        self.game.end(resigned=side if side in people else people[0])
        self.changed()

    def _pause(self, message: messages.Pause) -> None:
        self.paused = message.on
        if not message.on:
            self.game.goto(len(self.game.course.moves))
        self.changed()

    def _set_minds(self, message: messages.Minds) -> None:
        minds = [self.guests.mind(message.mind)]
        if message.other and message.other != message.mind:
            minds.append(self.guests.mind(message.other))
        self.minds, self.shows_values, self.shows_look = tuple(minds), message.values, message.look
        self.changed()

    def _analyze(self, message: messages.Analyze) -> None:
        self.analyzes = message.on
        if message.on and not self.game.course.moves:
            self.analyzes = False
            raise OthelloError("there is no move to judge yet")
        self.changed()

    def _paste(self, message: messages.Paste) -> None:
        found = read_pasted(message.text)
        self.paused = True  # a game that is looked at does not go on by itself
        self.clocks = Clocks()
        ply = found.ply if found.ply is not None else len(found.moves)
        self._begin(found.start, found.moves, ply)
        if found.kind == "link":
            return
        count = sum(move != PASS for move in found.moves)
        self.note(f"{found.kind}: {f'{count} moves' if count else 'a position'}{f' ({found.note})' * bool(found.note)}")

    def _export(self, message: messages.Export) -> None:
        self.tell("file", file_news(self, message.format))

    # --- what follows from a change ----------------------------------------------------------------------------------

    @property
    def waits_for_computer(self) -> bool:
        """A player of ours is to move."""
        game = self.game
        if game.is_over or not game.is_last or self.paused:
            return False
        return not self.seats[game.position.black_to_move].is_person

    def changed(self) -> None:
        """Something is different: tell the page, and think about what is wanted now."""
        self.version += 1
        self._changed_at = time.monotonic()
        if self._reply is not None:
            self._reply.cancel()
            self._reply = None
        self._run_clocks()
        just_over = self.game.is_over and not self._told_over
        self._told_over = self.game.is_over
        people = sum(seat.is_person for seat in self.seats.values())
        self.analyzes |= just_over and people == 1 and bool(self.game.course.moves)
        self.tell("state", state_news(self))
        self._thoughts.plan()
        self.tell_analysis()

    def _run_clocks(self) -> None:
        game, side = self.game, self.game.final.black_to_move
        begun = bool(game.course.moves) or not self.seats[side].is_person
        runs = begun and not game.is_over and not (self.paused and not self.seats[side].is_person)
        self.clocks.run(side if runs else None)
        if self._flag is not None:
            self._flag.cancel()
            self._flag = None
        left = self.clocks.left(side)
        if runs and left is not None:
            self._flag = self.loop.call_later(left + 0.02, self._time_up, side)

    def _time_up(self, side: bool) -> None:
        if not self.closed and self.clocks.running == side and not self.game.is_over:
            if self.clocks.left(side):
                self._run_clocks()
                return
            self.game.end(late=side)
            self.changed()

    # --- what was thought --------------------------------------------------------------------------------------------

    def reply(self, position: Position, choice: Choice) -> None:
        """The computer has chosen. It plays after a moment, so that its move can be seen."""
        move = choice.move
        if self.game.position != position or not self.waits_for_computer or move is None:
            return
        wait = self._changed_at + self.reply_seconds - time.monotonic()

        def play() -> None:
            self._reply = None
            if not self.closed and self.game.position == position and self.waits_for_computer:
                self.game.play(move)
                self.changed()

        if wait <= 0:
            play()
        else:
            self._reply = self.loop.call_later(wait, play)

    def judged(self, mind: str, judgement: Judgement, done: int, total: int) -> None:
        """A move of the game has been judged."""
        self.judgements.setdefault(mind, Judgements()).add(judgement)
        self._thoughts.progress[mind] = done, total
        self.tell_analysis()

    def known(self, mind: str, position: Position, move: int) -> Judgement | None:
        found = self.judgements.get(mind)
        return None if found is None else found.get(position, move)

    def tell_analysis(self) -> None:
        """Everything that is known about the moves of the game."""
        if not self.judgements or not self.minds:
            return
        self.tell("analysis", analysis_news(self, self._thoughts.progress, self._thoughts.is_judging))

    def all_judged(self) -> None:
        """The analysis has come to its end."""
        self.analyzes = False
        self.tell("state", state_news(self))
        self.tell_analysis()
