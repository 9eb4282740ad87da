"""A match: two players, many openings, both colours from each.

    result = play_match("champion:depth=4", "swh", make_openings("leouski60", None))
    result.score, result.interval

Games run in threads, one pair of players each: the compiled search works without the GIL. Chance is drawn from the seed
and the number of the game, so that the same seed gives the same games whatever the number of threads (limits in seconds
aside).
"""

from __future__ import annotations

import math
import queue
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from othello_nn.arena.openings import Opening
from othello_nn.arena.statistics import elo_difference, wilson_interval
from othello_nn.game.game_record import Game, MoveNote
from othello_nn.game.rules import PASS
from othello_nn.players import Player, make_player

# A game lost on time counts as lost by every disc.
TIME_LOSS_DISCS = 64
# How often a match that is being stopped tells its players to hurry.
STOP_SECONDS = 0.02
# Not every system lets Ctrl-C end a wait that has no end of its own.
WAKE_SECONDS = 0.5

PlayerMaker = Callable[[], Player]


@dataclass(frozen=True)
class Pairing:
    """One game to be played."""

    number: int
    opening: Opening
    a_is_black: bool


@dataclass(frozen=True)
class PlayedGame:
    """A finished game of a match."""

    number: int
    a_is_black: bool
    game: Game

    @property
    def margin(self) -> int:
        """In discs, for player A."""
        assert self.game.result is not None
        return self.game.result if self.a_is_black else -self.game.result

    @property
    def lost_on_time(self) -> bool:
        return self.game.ending == "time"


@dataclass(frozen=True)
class MatchResult:
    """The games so far and what they say about player A; figures that need a game are None without one."""

    a: str
    b: str
    played: tuple[PlayedGame, ...]
    seconds: float = field(compare=False)
    interrupted: bool = False

    @property
    def games(self) -> int:
        return len(self.played)

    @property
    def wins(self) -> int:
        return sum(one.margin > 0 for one in self.played)

    @property
    def draws(self) -> int:
        return sum(one.margin == 0 for one in self.played)

    @property
    def losses(self) -> int:
        return sum(one.margin < 0 for one in self.played)

    @property
    def score(self) -> float | None:
        """A win is 1, a draw ½."""
        return (self.wins + self.draws / 2) / self.games if self.games else None

    @property
    def interval(self) -> tuple[float | None, float | None]:
        """Wilson's 95% interval of the score; see ``statistics.py``."""
        return (None, None) if self.score is None else wilson_interval(self.score, self.games)

    @property
    def elo(self) -> float | None:
        return None if self.score is None else elo_difference(self.score)

    @property
    def mean_margin(self) -> float | None:
        return sum(one.margin for one in self.played) / self.games if self.games else None

    def time_losses(self, of_a: bool) -> int:
        return sum(one.lost_on_time and (one.margin < 0) == of_a for one in self.played)

    def as_dict(self) -> dict[str, object]:
        """The figures as ``play.py match --json`` prints them."""
        low, high = self.interval
        return {
            "a": self.a,
            "b": self.b,
            "games": self.games,
            "wins": self.wins,
            "draws": self.draws,
            "losses": self.losses,
            "score": self.score,
            "low": low,
            "high": high,
            "elo": self.elo,
            "elo_low": None if low is None else elo_difference(low),
            "elo_high": None if high is None else elo_difference(high),
            "mean_margin": self.mean_margin,
            "time_losses_a": self.time_losses(of_a=True),
            "time_losses_b": self.time_losses(of_a=False),
            "seconds": self.seconds,
            "interrupted": self.interrupted,
        }


def pair_up(openings: Sequence[Opening], games: int | None, varied: bool) -> list[Pairing]:
    """Each opening with both colours. Only if chance has a part (``varied``) are openings used again for more games.

    An odd number of games is made even; None means every opening once.
    """
    pairs = len(openings) if games is None else math.ceil(games / 2)
    if not varied:
        pairs = min(pairs, len(openings))
    return [
        Pairing(2 * pair + colour, openings[pair % len(openings)], a_is_black=colour == 0)
        for pair in range(pairs)
        for colour in range(2)
    ]


def play_game(
    opening: Opening,
    black: Player,
    white: Player,
    clock_seconds: float | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> Game | None:
    """One game, or None if ``stopped`` says so on the way. With a clock, who oversteps it loses."""
    position, moves = opening.position, list(opening.moves)
    notes: list[MoveNote | None] = [None] * len(moves)
    remaining = {True: clock_seconds, False: clock_seconds}
    result, ending = None, ""
    while not position.is_over:
        if position.must_pass:
            move, note = PASS, None
        else:
            side = position.black_to_move
            started = time.perf_counter()
            choice = (black if side else white).choose(position, remaining[side])
            seconds = time.perf_counter() - started
            if stopped():
                return None
            assert choice.move is not None
            move, note = choice.move, MoveNote(choice.score, seconds)
            left = remaining[side]
            if left is not None:
                remaining[side] = left = left - seconds
                if left < 0:
                    result, ending = (-TIME_LOSS_DISCS if side else TIME_LOSS_DISCS), "time"
                    break
        position = position.play(move)
        moves.append(move)
        notes.append(note)
    clock = _clock_text(clock_seconds)
    return Game(
        start=opening.start,
        moves=tuple(moves),
        notes=tuple(notes),
        black=black.name,
        white=white.name,
        result=result,
        ending=ending,
        black_clock=clock,
        white_clock=clock,
        place="othello_nn",
    )


def _clock_text(seconds: float | None) -> str:
    """Minutes and seconds, as GGF writes a time control."""
    return "" if seconds is None else f"{int(seconds // 60):02d}:{seconds % 60:05.2f}".removesuffix(".00")


class _Match:
    """A match in progress: games that wait, games that are done, and the flag that ends it."""

    def __init__(
        self, pairs: list[tuple[Player, Player]], pairings: list[Pairing], seed: int, clock_seconds: float | None
    ):
        self.pairs, self.seed, self.clock_seconds = pairs, seed, clock_seconds
        self.done: queue.SimpleQueue[PlayedGame | Exception | None] = queue.SimpleQueue()
        self.stopping = threading.Event()
        self._waiting, self._lock = iter(pairings), threading.Lock()
        self._threads = [
            threading.Thread(target=self._work, args=(pair,), name=f"game-{i}", daemon=True)
            for i, pair in enumerate(pairs)
        ]
        for thread in self._threads:
            thread.start()

    def games(self) -> Iterator[PlayedGame]:
        """The games as they end."""
        working = len(self._threads)
        while working:
            try:
                item = self.done.get(timeout=WAKE_SECONDS)
            except queue.Empty:
                continue
            if isinstance(item, Exception):
                raise item
            if item is None:
                working -= 1
            else:
                yield item

    def stop(self) -> None:
        """End the games that run. A search may begin just after its player was told to stop, so tell it again."""
        self.stopping.set()
        for thread in self._threads:
            while thread.is_alive():
                for player in (player for pair in self.pairs for player in pair):
                    player.stop()
                thread.join(STOP_SECONDS)

    def _work(self, pair: tuple[Player, Player]) -> None:
        """What each thread does: one game after the other with its own two players."""
        try:
            while not self.stopping.is_set():
                with self._lock:
                    pairing = next(self._waiting, None)
                one = None if pairing is None else self._play(pairing, pair)
                if one is None:
                    break
                self.done.put(one)
        except Exception as error:
            self.done.put(error)
        finally:
            self.done.put(None)

    def _play(self, pairing: Pairing, pair: tuple[Player, Player]) -> PlayedGame | None:
        for side, player in enumerate(pair):
            player.new_game(random.Random(f"game {self.seed} {pairing.number} {side}"))
        black, white = pair if pairing.a_is_black else pair[::-1]
        game = play_game(pairing.opening, black, white, self.clock_seconds, self.stopping.is_set)
        return None if game is None else PlayedGame(pairing.number, pairing.a_is_black, game)


def play_match(
    a: str | PlayerMaker,
    b: str | PlayerMaker,
    openings: Sequence[Opening],
    games: int | None = None,
    *,
    jobs: int = 1,
    seed: int = 0,
    clock_seconds: float | None = None,
    on_game: Callable[[PlayedGame], object] | None = None,
) -> MatchResult:
    """Play a match; ``a`` and ``b`` are specifications or functions that make a player.

    Fewer games than asked for are played where deterministic players would only repeat themselves. ``on_game`` is told
    of each game as it ends. Ctrl-C ends the match and returns what was played, marked as interrupted.
    """
    if jobs < 1 or not openings or (games is not None and games < 1):
        raise ValueError("a match needs at least one job, one opening and one game")
    first = (_make(a), _make(b))
    for player in first:
        player.warm_up()
    pairings = pair_up(openings, games, varied=first[0].varies or first[1].varies)
    jobs = min(jobs, len(pairings))
    pairs = [first, *((_make(a), _make(b)) for _ in range(jobs - 1))]
    started, interrupted = time.perf_counter(), False
    played: list[PlayedGame] = []
    match = _Match(pairs, pairings, seed, clock_seconds)
    try:
        for one in match.games():
            played.append(one)
            if on_game is not None:
                on_game(one)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        match.stop()
    in_order = tuple(sorted(played, key=lambda one: one.number))
    return MatchResult(first[0].name, first[1].name, in_order, time.perf_counter() - started, interrupted)


def _make(player: str | PlayerMaker) -> Player:
    return make_player(player) if isinstance(player, str) else player()
