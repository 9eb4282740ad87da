"""A round robin: everybody meets everybody from the same openings with both colours, and ratings come of it.

    result = play_tournament(["champion:depth=2", "swh", "random"], make_openings("random:8", 20), 40)
    result.standings()

With a ``Journal`` (``journal.py``) each game is on disk when it ends, and a tournament that was stopped, however it
was, can go on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np

from othello_nn.arena.game import Effort, Pairing, PlayedGame
from othello_nn.arena.journal import Journal, TournamentError
from othello_nn.arena.match import pair_up
from othello_nn.arena.openings import Opening
from othello_nn.arena.rating import Rating, ratings
from othello_nn.arena.workers import Entrant, PlayerMaker, Workers

__all__ = [
    "Journal",
    "Standing",
    "TournamentError",
    "TournamentResult",
    "play_tournament",
    "round_robin",
]


@dataclass(frozen=True)
class Standing:
    """How one player did."""

    rank: int
    player: str
    rating: Rating
    wins: int
    draws: int
    losses: int
    effort: Effort
    time_losses: int
    forfeits: tuple[str, ...]
    """The reasons of the games it lost by failing to play on."""
    against: dict[str, float | None]
    """Its mean score against each of the others; None where they have not met."""

    @property
    def games(self) -> int:
        return self.wins + self.draws + self.losses

    @property
    def score(self) -> float | None:
        return (self.wins + self.draws / 2) / self.games if self.games else None

    def as_dict(self) -> dict[str, object]:
        """The figures as ``play.py tournament --json`` prints them."""
        figures: dict[str, object] = {name: getattr(self, name) for name in ("rank", "player", "games", "score")}
        figures |= {"elo": self.rating.elo} | {
            name: value if np.isfinite(value) else None
            for name, value in (("low", self.rating.low), ("high", self.rating.high))
        }
        figures |= {name: getattr(self, name) for name in ("wins", "draws", "losses", "against", "time_losses")}
        figures |= {"forfeits": list(self.forfeits)}
        return figures | {
            "seconds_per_move": self.effort.seconds_per_move,
            "nodes_per_move": self.effort.nodes_per_move,
        }


@dataclass(frozen=True)
class TournamentResult:
    """The games so far."""

    players: tuple[str, ...]
    played: tuple[PlayedGame, ...]
    seconds: float = field(compare=False)
    interrupted: bool = False
    resumed: int = 0
    """Of the games, those that the journal already held; ``seconds`` is without them."""

    def tables(self) -> tuple[np.ndarray, np.ndarray]:
        """``[players, players]``: what each scored against each, and in how many games."""
        count = len(self.players)
        points, games = np.zeros((count, count)), np.zeros((count, count), int)
        for one in self.played:
            black = 0.5 + 0.5 * np.sign(one.black_margin)
            points[one.black, one.white] += black
            points[one.white, one.black] += 1 - black
            games[one.black, one.white] += 1
            games[one.white, one.black] += 1
        return points, games

    def standings(self) -> list[Standing]:
        """The players, strongest first."""
        points, games = self.tables()
        rated = ratings(points, games)
        order = sorted(range(len(self.players)), key=lambda player: -rated[player].elo)
        return [self._standing(rank, player, rated[player], points, games) for rank, player in enumerate(order, 1)]

    def _standing(self, rank: int, player: int, rating: Rating, points: np.ndarray, games: np.ndarray) -> Standing:
        margins, effort, time_losses, forfeits = [], Effort(), 0, []
        for one in self.played:
            if player not in (one.black, one.white):
                continue
            is_black = one.black == player
            margins.append(one.black_margin if is_black else -one.black_margin)
            effort += one.black_effort if is_black else one.white_effort
            if margins[-1] < 0:
                time_losses += one.lost_on_time
                forfeits += [one.game.comment] if one.forfeited else []
        against = {
            name: points[player, other] / games[player, other] if games[player, other] else None
            for other, name in enumerate(self.players)
            if other != player
        }
        counts = (sum(m > 0 for m in margins), sum(m == 0 for m in margins), sum(m < 0 for m in margins))
        return Standing(rank, self.players[player], rating, *counts, effort, time_losses, tuple(forfeits), against)


def round_robin(players: Sequence[Entrant], openings: Sequence[Opening], games: int | None) -> list[Pairing]:
    """Every pair of players with ``games`` games, in rounds: after each opening everybody has met everybody."""
    pairings: list[Pairing] = []
    for first in range(len(players)):
        for second in range(first + 1, len(players)):
            varied = players[first].varies or players[second].varies
            pairings += pair_up(openings, games, varied, (first, second), len(pairings))
    # Numbers stay with the games, whatever the order they are played in: chance depends on them.
    turn: dict[tuple[int, int], int] = {}
    rounds = []
    for pairing in pairings:
        pair = (min(pairing.black, pairing.white), max(pairing.black, pairing.white))
        turn[pair] = turn.get(pair, -1) + 1
        rounds.append((turn[pair] // 2, pairing.number))
    return [pairing for _, pairing in sorted(zip(rounds, pairings, strict=True), key=lambda item: item[0])]


def play_tournament(
    players: Sequence[str | PlayerMaker | Entrant],
    openings: Sequence[Opening],
    games: int | None = None,
    *,
    jobs: int = 1,
    seed: int = 0,
    clock_seconds: float | None = None,
    journal: Journal | None = None,
    on_game: Callable[[PlayedGame], object] | None = None,
) -> TournamentResult:
    """Let everybody meet everybody in ``games`` games (None: every opening with both colours).

    A player that crashes, hangs or plays illegally loses that game, and the tournament goes on. Ctrl-C ends it and
    returns what was played, marked as interrupted. The journal is closed in the end.
    """
    if jobs < 1 or not openings or len(players) < 2 or (games is not None and games < 1):
        raise ValueError("a tournament needs two players, and at least one job, one opening and one game")
    entrants = [player if isinstance(player, Entrant) else Entrant(player) for player in players]
    names = tuple(entrant.name for entrant in entrants)
    if len(set(names)) < len(names):
        raise ValueError(f"players of a tournament need different names, not {', '.join(names)}")
    started, interrupted, resumed = time.perf_counter(), False, 0
    played: list[PlayedGame] = []
    try:
        pairings = round_robin(entrants, openings, games)
        if journal is not None:
            played += journal.games(pairings)
            done, resumed = {one.number for one in played}, len(played)
            pairings = [pairing for pairing in pairings if pairing.number not in done]
        for entrant in entrants if pairings else []:
            entrant.warm_up()
        workers = Workers(entrants, pairings, min(jobs, max(len(pairings), 1)), seed, clock_seconds)
        with closing(workers.games()) as finished:
            for one in finished:
                played.append(one)
                if journal is not None:
                    journal.add(one)
                if on_game is not None:
                    on_game(one)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        for entrant in entrants:
            entrant.close()
        if journal is not None:
            journal.close()
    in_order = tuple(sorted(played, key=lambda one: one.number))
    return TournamentResult(names, in_order, time.perf_counter() - started, interrupted, resumed)
