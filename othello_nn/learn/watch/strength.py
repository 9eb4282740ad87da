"""How strong is it by now? A few thousand games at 1-ply, which take a fraction of a second."""

from __future__ import annotations

from othello_nn.arena.league import LeaguePlayer, league
from othello_nn.engine.leaf.compile import Evaluator
from othello_nn.learn.td.actor import leaf_pair
from othello_nn.learn.td.learners import opponent_evaluator

LEAGUE_EPSILON = 0.1
OPENING_PLIES = 7


class Strength:
    """Scores against random moves, the Standard WPC Heuristic, and the net as it was when it had half its games."""

    def __init__(self, double_games: int, seed: int, threads: int):
        self.double_games, self.seed, self.threads = double_games, seed, threads
        self._swh, self._random = opponent_evaluator("swh"), opponent_evaluator("random")
        self.selves: list[tuple[int, Evaluator]] = []
        """Earlier selves: one from each doubling of the games."""

    def scores(self, evaluator: Evaluator, games: int) -> dict[str, float]:
        """By TensorBoard tag. 1-ply, both colours; against SWH as in the League, else from random openings."""
        chance = LeaguePlayer("random", *leaf_pair(self._random), epsilon=1.0)
        scores = {
            "score/random": self._score(evaluator, chance, 0.0, OPENING_PLIES),
            "score/swh": self._score(evaluator, self._swh, LEAGUE_EPSILON, 0),
        }
        if earlier := [self_ for count, self_ in self.selves if count <= games // 2]:
            scores["score/earlier"] = self._score(evaluator, earlier[-1], 0.0, OPENING_PLIES)
        if not self.selves or games >= 2 * self.selves[-1][0]:
            self.selves = [*self.selves[-1:], (max(games, 1), evaluator)]
        return scores

    def _score(self, evaluator: Evaluator, opponent: object, epsilon: float, opening_plies: int) -> float:
        result = league(
            evaluator,
            opponent,
            self.double_games,
            epsilon,
            seed=self.seed,
            threads=self.threads,
            opening_plies=opening_plies,
        )
        return result.score or 0.0
