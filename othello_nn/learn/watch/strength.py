"""How strong is it by now? A few thousand games at 1-ply, which take a fraction of a second."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from othello_nn.arena.league import LeaguePlayer, league
from othello_nn.engine.leaf.compile import Evaluator, compile_net, leaf_pair
from othello_nn.learn.learner import Arrays, Learner
from othello_nn.learn.td.learners import float_state
from othello_nn.learn.td.rivals import opponent_evaluator
from othello_nn.learn.watch.curves import curve
from othello_nn.nets import Net

LEAGUE_EPSILON = 0.1
OPENING_PLIES = 7
RANDOM = curve("score/random", "score at 1-ply against random moves, from random openings", short="random")
SWH = curve(
    "score/swh",
    "score at 1-ply against the Standard WPC Heuristic in the Othello League, ε = 0.1",
    short="swh",
    live=True,
)
EARLIER = curve(
    "score/earlier",
    "score at 1-ply against the net itself with at most half its games, from random openings",
    short="earlier",
)
_STATE = "earlier."


@dataclass(frozen=True, eq=False)
class Self:
    """A net as it was after so many games."""

    games: int
    config: dict[str, Any]
    arrays: Arrays

    @classmethod
    def of(cls, games: int, net: Net) -> Self:
        return cls(games, net.config, float_state(net))

    @cached_property
    def evaluator(self) -> Evaluator:
        return compile_net(self.config, self.arrays)


class Strength:
    """Scores against random moves, the Standard WPC Heuristic, and the net as it was when it had half its games."""

    def __init__(self, double_games: int, seed: int, threads: int):
        self.double_games, self.seed, self.threads = double_games, seed, threads
        self._swh, self._random = opponent_evaluator("swh"), opponent_evaluator("random")
        self.selves: list[Self] = []
        """The last two of a series in which each has at least twice the games of the one before."""

    def remember(self, learner: Learner) -> None:
        """Keep the net if its games have doubled: asked after every step, so that no clock has a part in it."""
        if not self.selves or (learner.games and learner.games >= 2 * self.selves[-1].games):
            self.selves = [*self.selves[-1:], Self.of(learner.games, learner.net())]

    def scores(self, learner: Learner) -> dict[str, float]:
        """By curve. 1-ply, both colours; against SWH as in the League, else from random openings."""
        now = Self.of(learner.games, learner.net())
        chance = LeaguePlayer("random", *leaf_pair(self._random), epsilon=1.0)
        scores: dict[str, float] = {
            RANDOM: self._score(now, chance, 0.0, OPENING_PLIES),
            SWH: self._score(now, self._swh, LEAGUE_EPSILON, 0),
        }
        if earlier := [each for each in self.selves if each.games <= now.games // 2 and now.games]:
            scores[EARLIER] = self._score(now, earlier[-1].evaluator, 0.0, OPENING_PLIES)
        return scores

    def state(self) -> Arrays:
        """The earlier selves, to be saved with a run's state."""
        return {f"{_STATE}{each.games}.{name}": array for each in self.selves for name, array in each.arrays.items()}

    def restore(self, arrays: Arrays, net: Net) -> None:
        """The inverse of ``state``; ``net`` is any of the run's."""
        found: dict[int, Arrays] = {}
        for key, array in arrays.items():
            if key.startswith(_STATE):
                games, _, name = key.removeprefix(_STATE).partition(".")
                found.setdefault(int(games), {})[name] = array
        shapes = {name: array.shape for name, array in float_state(net).items()}
        for each in found.values():
            if {name: array.shape for name, array in each.items()} != shapes:
                raise ValueError("an earlier net has another shape")
        self.selves = [Self(games, net.config, found[games]) for games in sorted(found)]

    def _score(self, now: Self, opponent: object, epsilon: float, opening_plies: int) -> float:
        result = league(
            now.evaluator,
            opponent,
            self.double_games,
            epsilon,
            seed=self.seed,
            threads=self.threads,
            opening_plies=opening_plies,
        )
        return result.score or 0.0
