"""How strong is it by now? A few thousand games at 1-ply, which take a fraction of a second.

A net that does not compile plays them in torch, where it is: as many as a share of the time between two measurements
allows, which for a large net on a CPU are few, and their scores rough.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from othello_nn.arena.league import LeaguePlayer, league
from othello_nn.arena.lockstep import CompiledSide
from othello_nn.engine.leaf.compile import Evaluator, compile_net, leaf_pair, why_not_compiled
from othello_nn.learn.learner import MOST_COUNTED, Arrays, Learner, array_in
from othello_nn.learn.td.asking import Duel
from othello_nn.learn.td.learners import float_state
from othello_nn.learn.td.rivals import TorchOpponent, opponent_evaluator
from othello_nn.learn.td.selfplay import Dice, ValueFunction, play
from othello_nn.learn.watch.curves import curve
from othello_nn.learn.watch.ladder import Ladder
from othello_nn.learn.watch.sides import TorchSide
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
FEW = 16
"""Double games of the first measurement of a net that plays in torch, and the fewest of any."""
SHARE = 0.15
"""Of the time between two measurements, what such a net may spend on one."""
LADDER = 4
"""The ladder has six rungs: a quarter of the double games is played on each."""


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

    def put_into(self, like: Net) -> Net:
        """Its weights in a copy of a net of its kind."""
        made = copy.deepcopy(like)
        made.load_state_dict({name: torch.from_numpy(array) for name, array in self.arrays.items()})
        return made


class Strength:
    """Scores against random moves, the Standard WPC Heuristic, and the net as it was when it had half its games."""

    def __init__(self, double_games: int, seed: int, threads: int, seconds: float = math.inf):
        self.double_games, self.seed, self.threads = double_games, seed, threads
        self._seconds, self._affordable = SHARE * seconds, float(FEW)
        self._swh, self._random = opponent_evaluator("swh"), opponent_evaluator("random")
        self.ladder = Ladder(max(1, double_games // LADDER), seed, threads)
        self.selves: list[Self] = []
        """The last two of a series in which each has at least twice the games of the one before."""
        self._unrated: list[Self] = []
        """Such a series of those that were measured before the ladder could be climbed."""

    def remember(self, learner: Learner) -> None:
        """Keep the net if its games have doubled: asked after every step, so that no clock has a part in it."""
        if not self.selves or (learner.games and learner.games >= 2 * self.selves[-1].games):
            self.selves = [*self.selves[-1:], Self.of(learner.games, learner.net())]

    def scores(self, learner: Learner, last: bool = False) -> dict[str, float]:
        """By curve. 1-ply, both colours; against SWH as in the League, else from random openings. The ladder is climbed
        when that is due, and for the ``last`` time."""
        if why_not_compiled(learner.net().config):
            return self._torch_scores(learner.games, learner.net(), last)
        now = Self.of(learner.games, learner.net())
        self.ladder.prepare(now.evaluator)
        chance = LeaguePlayer("random", *leaf_pair(self._random), epsilon=1.0)
        scores: dict[str, float] = {
            RANDOM: self._score(now, chance, 0.0, OPENING_PLIES),
            SWH: self._score(now, self._swh, LEAGUE_EPSILON, 0),
        }
        if earlier := self.earlier(now.games):
            scores[EARLIER] = self._score(now, earlier.evaluator, 0.0, OPENING_PLIES)
        if self.ladder.is_due(last):
            scores |= self._climb(now)
        elif not self.ladder.climbed and (not self._unrated or now.games >= max(1, 2 * self._unrated[-1].games)):
            self._unrated.append(now)
        return scores

    def late_ratings(self) -> Iterator[tuple[int, dict[str, float]]]:
        """Once the ladder has been climbed, the games and the scores on it of nets that came too early for it."""
        unrated, self._unrated = self._unrated, []
        for each in unrated:
            yield each.games, self._climb(each)

    def _climb(self, now: Self) -> dict[str, float]:
        return self.ladder.scores(CompiledSide(now.evaluator), now.evaluator)

    def earlier(self, games: int) -> Self | None:
        """The last of the selves with at most half so many games."""
        return next((each for each in reversed(self.selves) if games and each.games <= games // 2), None)

    def _torch_scores(self, games: int, net: Net, last: bool) -> dict[str, float]:
        """The same games as far as there is time for them, by the net itself."""
        self.ladder.prepare(None)
        count, began = int(min(self.double_games, self._affordable)), time.monotonic()
        device = str(next(net.parameters()).device)
        scores: dict[str, float] = {
            RANDOM: torch_score(net, TorchOpponent("random", device), count, 0.0, OPENING_PLIES, self.seed, device),
            SWH: torch_score(net, TorchOpponent("swh", device), count, LEAGUE_EPSILON, 0, self.seed, device),
        }
        if earlier := self.earlier(games):
            scores[EARLIER] = torch_score(net, earlier.put_into(net), count, 0.0, OPENING_PLIES, self.seed, device)
        if self.ladder.is_due(last):
            scores |= self.ladder.scores(TorchSide(net), None, max(1, count // LADDER))
        self._affordable = max(FEW, count * self._seconds / max(time.monotonic() - began, 1e-9))
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
                if not (games.isdecimal() and int(games) <= MOST_COUNTED):
                    raise ValueError(f"{key} is of no number of games")
                found.setdefault(int(games), {})[name] = array
        now = float_state(net)
        for each in found.values():
            if each.keys() != now.keys():
                raise ValueError("an earlier net has another shape")
            for name in now:
                array_in(each, name, now[name])
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


def torch_score(
    net: ValueFunction,
    rival: ValueFunction,
    double_games: int,
    epsilon: float,
    opening_plies: int,
    seed: int,
    device: str = "cpu",
) -> float:
    """The score of ``net`` at 1-ply over so many games as black and as many as white, with the same chance."""
    points = 0.0
    for black, white, sign in ((net, rival, 1), (rival, net, -1)):
        dice = Dice.seeded(seed, device)
        # Not compiled: the rivals change, and each new one would be compiled again.
        duel = Duel(black, white)
        games = play(duel, double_games, dice, epsilon=epsilon, opening_plies=opening_plies, compiled=False)
        last = (games.length - 1).clamp(min=0).unsqueeze(0)
        black_to_move = games.black_to_move.gather(0, last).squeeze(0)
        margin = torch.where(black_to_move, games.margin, -games.margin) * sign
        points += float((margin > 0).sum() + 0.5 * (margin == 0).sum())
    return points / (2 * double_games)
