"""A match: two players, many openings, both colours from each.

    result = play_match("champion:depth=4", "swh", make_openings("leouski60", None))
    result.score, result.interval

``workers.py`` plays the games. With a sequential test (``sprt.py``) the match ends as soon as the result is decided.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from othello_nn.arena.game import Effort, Pairing, PlayedGame
from othello_nn.arena.openings import Opening
from othello_nn.arena.sprt import Sprt
from othello_nn.arena.statistics import elo_difference, wilson_interval
from othello_nn.arena.workers import Entrant, PlayerMaker, Workers

A, B = 0, 1


@dataclass(frozen=True)
class MatchResult:
    """The games so far and what they say about player A; figures that need a game are None without one."""

    a: str
    b: str
    played: tuple[PlayedGame, ...]
    seconds: float = field(compare=False)
    interrupted: bool = False
    sprt: Sprt | None = None

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

    @property
    def distinct(self) -> int:
        """Games that are no repetition of another, with the same colours and the same moves."""
        return len({(one.a_is_black, one.game.start, one.game.moves) for one in self.played})

    def effort(self, player: int) -> Effort:
        """What A (0) or B (1) spent in all."""
        parts = (one.black_effort if one.black == player else one.white_effort for one in self.played)
        return sum(parts, Effort())

    def time_losses(self, player: int) -> int:
        return sum(one.lost_on_time and one.loser == player for one in self.played)

    def forfeits(self, player: int) -> list[PlayedGame]:
        """The games that A (0) or B (1) lost by failing to play on."""
        return [one for one in self.played if one.forfeited and one.loser == player]

    def as_dict(self) -> dict[str, object]:
        """The figures as ``play.py match --json`` prints them."""
        low, high = self.interval
        figures = {
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
            "distinct": self.distinct,
        }
        for letter, player in (("a", A), ("b", B)):
            effort = self.effort(player)
            figures |= {
                f"seconds_per_move_{letter}": effort.seconds_per_move,
                f"nodes_per_move_{letter}": effort.nodes_per_move,
                f"time_losses_{letter}": self.time_losses(player),
                f"forfeits_{letter}": [one.game.comment for one in self.forfeits(player)],
            }
        test = {} if self.sprt is None else {"sprt": self.sprt.as_dict()}
        return figures | test | {"seconds": self.seconds, "interrupted": self.interrupted}


def pair_up(
    openings: Sequence[Opening], games: int | None, varied: bool, players: tuple[int, int] = (A, B), first: int = 0
) -> list[Pairing]:
    """Each opening with both colours. Only if chance has a part (``varied``) are openings used again for more games.

    An odd number of games is made even; None means every opening once. Games are numbered from ``first``.
    """
    pairs = len(openings) if games is None else math.ceil(games / 2)
    if not varied:
        pairs = min(pairs, len(openings))
    return [
        Pairing(first + 2 * pair + turn, openings[pair % len(openings)], *colours)
        for pair in range(pairs)
        for turn, colours in enumerate((players, players[::-1]))
    ]


def play_match(
    a: str | PlayerMaker | Entrant,
    b: str | PlayerMaker | Entrant,
    openings: Sequence[Opening],
    games: int | None = None,
    *,
    jobs: int = 1,
    seed: int = 0,
    clock_seconds: float | None = None,
    sprt: Sprt | None = None,
    on_game: Callable[[PlayedGame], object] | None = None,
) -> MatchResult:
    """Play a match; ``a`` and ``b`` are specifications or functions that make a player.

    Fewer games than asked for are played where deterministic players would only repeat themselves, and where ``sprt``
    is decided earlier. ``on_game`` is told of each game as it ends. Ctrl-C ends the match and returns what was played,
    marked as interrupted.
    """
    if jobs < 1 or not openings or (games is not None and games < 1):
        raise ValueError("a match needs at least one job, one opening and one game")
    both = [player if isinstance(player, Entrant) else Entrant(player) for player in (a, b)]
    started, interrupted = time.perf_counter(), False
    played: list[PlayedGame] = []
    try:
        for entrant in both:
            entrant.warm_up()
        pairings = pair_up(openings, games, varied=any(entrant.varies for entrant in both))
        workers = Workers(both, pairings, min(jobs, len(pairings)), seed, clock_seconds)
        started = time.perf_counter()
        with closing(workers.games()) as finished:
            for one in finished:
                played.append(one)
                if on_game is not None:
                    on_game(one)
                if sprt is not None and (sprt := sprt.after(one.number // 2, one.margin)).decision:
                    break
    except KeyboardInterrupt:
        interrupted = True
    finally:
        for entrant in both:
            entrant.close()
    in_order = tuple(sorted(played, key=lambda one: one.number))
    return MatchResult(both[A].name, both[B].name, in_order, time.perf_counter() - started, interrupted, sprt)
