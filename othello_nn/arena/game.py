"""One game between two players: who plays it, from where, and what came of it. ``workers.py`` plays many at once.

Whatever a player does wrong costs it the game and nothing else: a crash, an illegal move, an overstepped clock, a
program that hangs.
"""

from __future__ import annotations

import operator
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from othello_nn.arena.openings import Opening
from othello_nn.game.move import Move
from othello_nn.game.position import Position
from othello_nn.game.record import Game, MoveNote, single_line
from othello_nn.game.rules import PASS
from othello_nn.game.syntax import move_name
from othello_nn.players import Choice, Line, Player, PlayerFailure, PlayerStopped

# A game that was not lost on the board counts as lost by every disc.
LOST_DISCS = 64


@dataclass(frozen=True)
class Effort:
    """What a side spent on a game."""

    moves: int = 0
    nodes: int = 0
    seconds: float = 0.0

    def __add__(self, other: Effort) -> Effort:
        return Effort(self.moves + other.moves, self.nodes + other.nodes, self.seconds + other.seconds)

    @property
    def nodes_per_move(self) -> float | None:
        return self.nodes / self.moves if self.moves else None

    @property
    def seconds_per_move(self) -> float | None:
        return self.seconds / self.moves if self.moves else None


@dataclass(frozen=True)
class Pairing:
    """One game to be played; ``black`` and ``white`` are numbers of players."""

    number: int
    opening: Opening
    black: int
    white: int


@dataclass(frozen=True)
class PlayedGame:
    """A finished game. In a match player A is number 0."""

    number: int
    black: int
    white: int
    game: Game
    black_effort: Effort = Effort()
    white_effort: Effort = Effort()
    log: str = ""
    """Of a forfeited game: what was last said to the program and by it."""

    @property
    def black_margin(self) -> int:
        assert self.game.result is not None
        return self.game.result

    @property
    def a_is_black(self) -> bool:
        return self.black == 0

    @property
    def margin(self) -> int:
        """In discs, for player A."""
        return self.black_margin if self.a_is_black else -self.black_margin

    @property
    def lost_on_time(self) -> bool:
        return self.game.ending == "time"

    @property
    def forfeited(self) -> bool:
        """The loser failed to play on; ``game.comment`` has the reason."""
        return self.game.ending == "forfeit"

    @property
    def loser(self) -> int:
        """Of a game with a winner."""
        return self.white if self.black_margin > 0 else self.black


@dataclass
class _Side:
    """A player in its game: what its clock shows and what it has spent."""

    player: Player
    remaining: float | None
    effort: Effort = Effort()
    failure: PlayerFailure | None = None

    def begin(self, rng: random.Random) -> None:
        """Before the first move, and before the clock runs. A player that cannot begin fails when it has to move."""
        try:
            self.player.new_game(rng)
        except PlayerFailure as failure:
            self.failure = failure
        except Exception as error:
            self.failure = _crash(error)

    def move(self, position: Position, line: Line) -> tuple[Move, MoveNote]:
        """Ask for a move and keep the clock. What is no move is a ``PlayerFailure``."""
        if self.failure is not None:
            raise self.failure
        started = time.perf_counter()
        try:
            choice = self.player.choose(position, self.remaining, line)
            seconds = time.perf_counter() - started
            self.effort += Effort(1, choice.nodes, seconds)
            # A player may be anybody's: what it answers is looked at as carefully as what a program writes.
            move = _checked_move(choice, position)
            return move, MoveNote(choice.score, seconds)
        except PlayerFailure:
            raise
        except Exception as error:
            raise _crash(error) from error
        finally:
            if self.remaining is not None:
                self.remaining -= time.perf_counter() - started

    @property
    def is_out_of_time(self) -> bool:
        return self.remaining is not None and self.remaining < 0


def _crash(error: Exception) -> PlayerFailure:
    return PlayerFailure(f"crashed: {type(error).__name__}: {error}")


def _checked_move(choice: Choice, position: Position) -> Move:
    move = None if choice.move is None else operator.index(choice.move)
    if move not in position.legal_moves:
        shown = "no move" if move is None else move_name(move) if -1 <= move < 64 else str(move)
        legal = ", ".join(map(move_name, position.legal_moves))
        raise PlayerFailure(f"{shown} is not legal here; legal moves: {legal}")
    assert move is not None
    return Move(move)


def play_game(
    pairing: Pairing,
    black: Player,
    white: Player,
    clock_seconds: float | None = None,
    stopped: Callable[[], bool] = lambda: False,
    seed: int = 0,
) -> PlayedGame | None:
    """One game, or None if ``stopped`` or a stopped player says so on the way. Who oversteps the clock or fails to play
    on loses.

    Chance is drawn from the seed, the number of the game and the player's number.
    """
    opening = pairing.opening
    position, moves = opening.position, list(opening.moves)
    notes: list[MoveNote | None] = [None] * len(moves)
    sides = {True: _Side(black, clock_seconds), False: _Side(white, clock_seconds)}
    for side, number in ((sides[True], pairing.black), (sides[False], pairing.white)):
        side.begin(random.Random(f"game {seed} {pairing.number} {number}"))
    ending, reason, log = "", "", ""
    while not position.is_over and not ending:
        side = sides[position.black_to_move]
        move, note = PASS, None
        if not position.must_pass:
            try:
                move, note = side.move(position, Line(opening.start, tuple(moves)))
            except PlayerStopped:
                return None
            except PlayerFailure as failure:
                ending = "time" if failure.timed_out and side.remaining is not None else "forfeit"
                reason, log = str(failure), failure.log
            if stopped():
                return None
            if side.is_out_of_time:
                ending, reason, log = "time", "", ""
        if not ending:
            position = position.play(move)
            moves.append(move)
            notes.append(note)
    lost = -LOST_DISCS if position.black_to_move else LOST_DISCS
    clock = _clock_text(clock_seconds)
    game = Game(
        start=opening.start,
        moves=tuple(moves),
        notes=tuple(notes),
        black=black.name,
        white=white.name,
        result=lost if ending else None,
        ending=ending,
        comment=single_line(reason),
        black_clock=clock,
        white_clock=clock,
        place="othello_nn",
    )
    efforts = (sides[True].effort, sides[False].effort)
    return PlayedGame(pairing.number, pairing.black, pairing.white, game, *efforts, log)


def _clock_text(seconds: float | None) -> str:
    """Minutes and seconds, as GGF writes a time control."""
    if seconds is None:
        return ""
    minutes, rest = divmod(round(seconds, 2), 60)
    return f"{int(minutes):02d}:{rest:05.2f}".removesuffix(".00")
