"""A player that is another program behind NBoard's protocol (version 2). Read ``player.py`` first.

Commands have no answers, save ``ping``, so every question begins with one: what comes after the ``pong`` is about the
position that was just set. Any position can be set, as a game in GGF.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

from othello_nn.errors import OthelloError, cut
from othello_nn.game.formats.ggf import format_ggf
from othello_nn.game.position import Position
from othello_nn.game.record import Game, parse_number
from othello_nn.game.rules import PASS
from othello_nn.game.syntax import move_name, scan_moves
from othello_nn.players.base import Choice
from othello_nn.players.external.player import NAME_CHARACTERS, ExternalPlayer
from othello_nn.players.spec import PlayerSpec

DEFAULT_DEPTH = 12
"""The protocol wants a depth to be set before anything is asked."""


class NBoardPlayer(ExternalPlayer):
    """``nboard:COMMAND``. The protocol has no time for a move; a game clock is told with the game."""

    def __init__(self, spec: PlayerSpec, command: str, rng: random.Random):
        super().__init__(spec, command, rng)
        self._pings = itertools.count(1)

    def greet(self) -> None:
        self.process.send("nboard 2")
        self.process.send(f"set depth {self.spec.depth or DEFAULT_DEPTH}")
        self._synchronise()

    def begin(self, start: Position, remaining: float | None) -> None:
        clock = "" if remaining is None else f"{int(remaining // 60):02d}:{int(remaining % 60):02d}"
        game = Game(start, black="black", white="white", black_clock=clock, white_clock=clock, place="othello_nn")
        self.process.send(f"set game {format_ggf([game]).strip()}")

    def tell(self, move: int, by_black: bool) -> None:
        self.process.send(f"move {'PA' if move == PASS else move_name(move).upper()}")

    def take_back(self, moves: tuple[int, ...]) -> bool:
        return False

    def ask(self, position: Position, remaining: float | None) -> tuple[str, Choice]:
        self._synchronise()
        self.process.send("go")
        said = Choice(None)
        while not (line := self.read("go")).startswith("==="):
            said = _add(said, line)
        # `=== F5/1.50/0.3`, where a number may be left out; some programs put spaces where the slashes should be.
        move, *numbers = line[3:].strip().split("/") if "/" in line else line[3:].split() or [""]
        score = parse_number(numbers[0]) if numbers else None
        return move.strip(), said if score is None else replace(said, score=score)

    def _synchronise(self) -> None:
        number = next(self._pings)
        self.process.send(f"ping {number}")
        while (line := self.read("ping").split()) != ["pong", str(number)]:
            if line[:2] == ["set", "myname"]:
                self.engine_name = cut(" ".join(line[2:]), NAME_CHARACTERS)


def _add(said: Choice, line: str) -> Choice:
    """What is known with one more line of ``nodestats`` or ``search``; other lines say nothing that is needed."""
    match line.split():
        case ["nodestats", count, *_] if (nodes := parse_number(count)) is not None:
            return replace(said, nodes=int(nodes))
        case ["search" | "book", moves, value, _, reached, *_]:
            try:
                pv = tuple(scan_moves(moves.replace("-", " ")))
            except OthelloError:
                pv = ()
            depth = max(0, int(parse_number(reached) or 0))  # or a percentage
            return replace(said, score=parse_number(value), exact=reached == "100%", depth=depth, pv=pv)
    return said
