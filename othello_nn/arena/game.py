"""One game between two players, and many of them at once.

Whatever a player does wrong costs it the game and nothing else: a crash, an illegal move, an overstepped clock, a
program that hangs. ``play_game`` plays one game; ``Workers`` plays a list of pairings in threads, each with its own
players, since the compiled search works without the GIL.
"""

from __future__ import annotations

import operator
import queue
import random
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from othello_nn.arena.openings import Opening
from othello_nn.game.move import Move
from othello_nn.game.position import Position
from othello_nn.game.record import Game, MoveNote, single_line
from othello_nn.game.rules import PASS
from othello_nn.game.syntax import move_name
from othello_nn.players import Choice, Line, Player, PlayerError, PlayerFailure, make_player

# A game that was not lost on the board counts as lost by every disc.
LOST_DISCS = 64
# How often players of a match that is being stopped are told to hurry.
STOP_SECONDS = 0.02
# Not every system lets Ctrl-C end a wait that has no end of its own.
WAKE_SECONDS = 0.5

PlayerMaker = Callable[[], Player]


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
    """One game, or None if ``stopped`` says so on the way. Who oversteps the clock or fails to play on loses.

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


class Workers:
    """Plays pairings in threads. Chance is drawn from the seed and the number of the game, so that the same seed gives
    the same games whatever the number of threads (limits in seconds aside)."""

    def __init__(
        self,
        makers: Sequence[PlayerMaker],
        pairings: Iterable[Pairing],
        jobs: int = 1,
        seed: int = 0,
        clock_seconds: float | None = None,
    ):
        self._makers, self._seed, self._clock_seconds = makers, seed, clock_seconds
        self._done: queue.SimpleQueue[PlayedGame | BaseException | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._waiting, self._lock = iter(pairings), threading.Lock()
        self._players: list[dict[int, Player]] = [{} for _ in range(jobs)]
        self._threads = [
            threading.Thread(target=self._work, args=(players,), name=f"game-{i}", daemon=True)
            for i, players in enumerate(self._players)
        ]

    def games(self) -> Generator[PlayedGame]:
        """The games as they end. Whoever stops listening, or presses Ctrl-C, ends those that run."""
        working = len(self._threads)
        try:
            for thread in self._threads:
                thread.start()
            while working:
                try:
                    item = self._done.get(timeout=WAKE_SECONDS)
                except queue.Empty:
                    continue
                if isinstance(item, BaseException):
                    raise item
                if item is None:
                    working -= 1
                else:
                    yield item
        finally:
            self._stop()

    def _stop(self) -> None:
        """End the games that run. A search may begin just after its player was told to stop, so tell it again."""
        self._stopping.set()
        for thread, players in zip(self._threads, self._players, strict=True):
            while thread.is_alive():
                for player in list(players.values()):
                    player.stop()
                thread.join(STOP_SECONDS)

    def _work(self, players: dict[int, Player]) -> None:
        """What each thread does: one game after the other with players of its own."""
        try:
            while not self._stopping.is_set():
                with self._lock:
                    pairing = next(self._waiting, None)
                one = None if pairing is None else self._play(pairing, players)
                if one is None:
                    break
                self._done.put(one)
        except BaseException as error:
            self._done.put(error)
        finally:
            for player in players.values():
                player.close()
            self._done.put(None)

    def _play(self, pairing: Pairing, players: dict[int, Player]) -> PlayedGame | None:
        for number in (pairing.black, pairing.white):
            if number not in players:
                players[number] = self._makers[number]()
                with suppress(
                    PlayerError
                ):  # the first of its kind could be started; this one fails when it has to move
                    players[number].warm_up()
        black, white = players[pairing.black], players[pairing.white]
        return play_game(pairing, black, white, self._clock_seconds, self._stopping.is_set, self._seed)


class Entrant:
    """A player to be made as often as there are threads. The first is made at once: what is wrong with it shows now."""

    def __init__(self, player: str | PlayerMaker):
        self._make: PlayerMaker = (lambda: make_player(player)) if isinstance(player, str) else player
        first = self._make()
        self.name, self.varies = first.name, first.varies
        self._ready = [first]

    def __call__(self) -> Player:
        try:
            return self._ready.pop()
        except IndexError:
            return self._make()

    def warm_up(self) -> None:
        """Have the first one compile now what the others will share."""
        for player in self._ready:
            player.warm_up()

    def close(self) -> None:
        """Let go of the first one if nobody took it."""
        while self._ready:
            self._ready.pop().close()
