"""NBoard's protocol, version 2, from the engine's side. Read ``engine.py`` first.

A command is a line and has no answer of its own; what is unknown is ignored. The player thinks beside the reading of
commands, so that ``ping`` is answered at once: what was thought before it is not heard of any more after the ``pong``.
A command that cannot be done changes nothing and is complained about in a ``status`` line.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from typing import Any, TextIO

from othello_nn.cli.engine.thread import PlayerThread, Task, choose, with_move
from othello_nn.errors import OthelloError, shorten
from othello_nn.game.formats.ggf import parse_ggf
from othello_nn.game.record import Game
from othello_nn.game.rules import PASS
from othello_nn.game.syntax import move_name, parse_move
from othello_nn.players.base import Choice, Player
from othello_nn.players.judge import learn_game, one_ply_less
from othello_nn.search_options import MAX_DEPTH

_BARE_MOVE = re.compile(r"(?:[a-h][1-8]|pa|ps|--)(?:/\S*)?", re.IGNORECASE)


class NBoardEngine:
    """A game, and what each command does to it or asks about it."""

    def __init__(self, thinker: PlayerThread):
        self.thinker = thinker
        self.game = Game()
        self._lock = threading.Lock()
        self._out: TextIO | None = None
        self._commands: dict[str, Callable[[str], None]] = {
            "nboard": lambda version: self._say(f"set myname {self.thinker.name}"),
            "set": self._set,
            "move": self._move,
            "hint": self._hint,
            "go": lambda _: self._think(Thoughts.go),
            "ping": self._ping,
            "learn": lambda _: self._learn(),
            "analyze": lambda _: self._think(Thoughts.analyze),
        }

    def run(self, lines: Iterable[str], out: TextIO) -> None:
        """Follow commands until ``quit`` or the end of the input; then what was asked is still answered."""
        self._out = out
        for line in lines:
            name, _, rest = line.strip().partition(" ")
            if name == "quit":
                return
            try:
                if name in self._commands:
                    self._commands[name](rest.strip())
                elif _BARE_MOVE.fullmatch(line.strip()):
                    self._move(line.strip())
            except OthelloError as error:
                self._say(f"status error: {' '.join(str(error).split())}")
        self.thinker.finish()

    def _say(self, line: str, task: Task | None = None) -> None:
        """Write a line, unless it comes from thoughts that nobody waits for any more."""
        with self._lock:
            if self._out is not None and not (task is not None and task.cancelled.is_set()):
                self._out.write(f"{line}\n")
                self._out.flush()

    # --- commands ----------------------------------------------------------------------------------------------------

    def _set(self, text: str) -> None:
        name, _, value = text.partition(" ")
        if name == "depth":
            self.thinker.depth = min(_whole(value, 1, 10**6), MAX_DEPTH)
        elif name == "game":
            games = parse_ggf(value)
            if len(games) != 1:
                raise OthelloError(f"set game needs one game in GGF, not {len(games)}")
            self.thinker.cancel()
            self.game = Game(games[0].start, games[0].moves)
            self.thinker.new_game()
        # `set contempt` would have draws valued for one side; the search values them at nothing.

    def _move(self, text: str) -> None:
        move = parse_move(text.partition("/")[0])
        if move == PASS and not self.game.final.must_pass:
            self.game.final.play(PASS)  # says why not
        game = with_move(self.game, move)
        self.thinker.cancel()
        self.game = game

    def _ping(self, number: str) -> None:
        self.thinker.cancel()
        self._say(f"pong {number}".strip())

    def _hint(self, count: str) -> None:
        moves = _whole(count or "1", 1, 64)
        self._think(lambda thoughts, game: thoughts.hints(game, moves))

    def _learn(self) -> None:
        """Put the game into the player's opening book, if it has one."""
        if self.thinker.spec.book in (None, "off"):
            self._say("learned")
        else:
            self._think(Thoughts.learn)

    def _think(self, work: Callable[[Thoughts, Game], None]) -> None:
        """Have ``work`` done in the player's thread, on the game as it is now."""
        game = self.game

        def run(player: Player, task: Task) -> None:
            thoughts = Thoughts(player, self.thinker, lambda line: self._say(line, task))
            thoughts.stopped = lambda: task.cancelled.is_set() or self.thinker.hurried
            try:
                work(thoughts, game)
            except Exception as error:
                self._say(f"status error: {' '.join(str(error).split())}", task)
                raise
            self._say("status waiting", task)

        self.thinker.start(run)


class Thoughts:
    """What a player is asked through the protocol, in its own thread, and how it says what it finds."""

    def __init__(self, player: Player, thinker: PlayerThread, say: Callable[[str], None]):
        self.player, self.thinker, self.say = player, thinker, say
        self.stopped: Callable[[], bool] = lambda: False
        self._wld = False
        """The last search found out only who wins."""

    def _choose(self, game: Game, aloud: bool = False) -> Choice:
        def hear(result: Any) -> None:
            self._wld = result.wld
            if aloud:
                self.say(search_line(result, result.wld))

        self._wld, self.thinker.listener = False, hear
        return choose(self.player, game)

    def go(self, game: Game) -> None:
        """The move that the player would make."""
        if game.final.is_over:
            self.say("status the game is over")
            return
        self.say("status thinking")
        choice = self._choose(game, aloud=True)
        assert choice.move is not None
        self.say(f"nodestats {choice.nodes} {choice.seconds:.2f}")
        score = "" if choice.score is None else f"{choice.score:.2f}"
        self.say(f"=== {nboard_move(choice.move)}/{score}/{choice.seconds:.2f}")

    def hints(self, game: Game, count: int) -> None:
        """The best move, then the others one by one, each as soon as it is among the ``count`` best so far."""
        self.say("status analyzing")
        best = self._choose(game, aloud=True)
        if best.move is not None:
            self.say(search_line(best, self._wld))
        scores = [] if best.score is None else [best.score]
        shift = 0.0 if best.score is None or best.raw_score is None else best.score - best.raw_score
        with one_ply_less(self.player):
            for move in game.final.legal_moves if count > 1 else ():
                reply = Choice(None) if move == best.move else self._choose(with_move(game, move))
                if reply.score is None:
                    continue
                # Raw scores of neighbouring depths can be compared; calibrated ones stand on lines of their own.
                raw = reply.score if reply.raw_score is None else reply.raw_score
                score = 0.0 - reply.score if reply.exact else shift - raw
                scores = sorted([*scores, score], reverse=True)[:count]
                if score >= scores[-1]:
                    found = Choice(move, score, reply.exact, reply.depth + 1, (move, *reply.pv))
                    self.say(search_line(found, self._wld))

    def learn(self, game: Game) -> None:
        """Put the game into the opening book; what is searched for that is searched as for a move."""
        self.say("status learning the game")
        self.thinker.listener = None
        learn_game(self.player, str(self.thinker.spec.book), game, self.stopped)
        self.say("learned")

    def analyze(self, game: Game) -> None:
        """Every position of the game from the last to the first, so that the search meets what it knows already."""
        self.say("status analyzing the game")
        for made in range(len(game.moves), -1, -1):
            choice = self._choose(Game(game.start, game.moves[:made]))
            if choice.score is not None:
                self.say(f"analysis {made} {choice.score:.2f}")


def nboard_move(move: int) -> str:
    return "PA" if move == PASS else move_name(move).upper()


def search_line(found: Any, wld: bool = False) -> str:
    """A line about a search, for the side to move. ``found`` is a choice of a player or a result of the search."""
    line = "".join(map(nboard_move, found.pv or (found.move,)))
    depth = f"100%{'W' if wld else ''}" if found.exact else str(found.depth)
    return f"search {line} {found.score or 0.0:.2f} 0 {depth}"


def _whole(text: str, low: int, high: int) -> int:
    if not (text.isdecimal() and len(text) < 10 and low <= int(text) <= high):
        raise OthelloError(f"{shorten(text)} is not a whole number from {low} to {high}")
    return int(text)
