"""How strong is it, in one number? An Elo rating against a ladder of opponents that never change.

A score against one opponent says little: it is soon near 1, or it is that of a specialist. The ladder has six rungs,
each at 1-ply, and the games begin with random plies. Their ratings are those of a round robin among them, with random
moves at 0 (``python benchmarks/run.py ladder`` plays it again); a net's rating is the one that makes its results
against them likeliest. Since the rungs' ratings are fixed, those of all runs can be compared.

Beside it *Leouski's curve*: wins against ``wystan`` from all his 60 openings, both sides at depth 2, as he watched his
nets grow.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from othello_nn.arena.league import league_player
from othello_nn.arena.lockstep import Boards, CompiledSide, Side, random_starts, score_in_step
from othello_nn.arena.openings import leouski60
from othello_nn.arena.rating import Rating, rating_among
from othello_nn.engine.leaf.compile import Evaluator, shipped_evaluator
from othello_nn.game.position import Position
from othello_nn.kernels.parallel import in_threads
from othello_nn.learn.td.rivals import opponent_evaluator
from othello_nn.learn.watch.curves import curve

RUNGS = {"random": 0, "wystan": 244, "swh": 409, "keyano": 505, "iago": 554, "champion": 826}
"""Elo of each, by ``python benchmarks/run.py ladder``."""
PLIES = 7
"""Random ones that a game begins with."""
ELO = curve(
    "elo/ladder",
    "strength at 1-ply as Elo against a fixed ladder: random moves (at 0), swh, wystan, iago, keyano and the champion",
    short="elo",
    digits=0,
    live=True,
)
ELO_LOW = curve("elo/low", "lower end of the rating's 95% interval", digits=0)
ELO_HIGH = curve("elo/high", "upper end of the rating's 95% interval", digits=0)
RUNG = curve("ladder/*", "score at 1-ply against a rung of the ladder, from random openings")
LEOUSKI = curve(
    "score/leouski",
    "Leouski's curve: score against wystan from all 60 openings of four plies, both colours, both at depth 2",
    short="leouski",
)
REST = 10
"""The ladder is climbed again after so many times as long as it took: a tenth of the time at most."""
PATIENCE = 2.0
"""Seconds that a run waits at its beginning for the rungs: kept code is loaded by then, other is still compiled."""


@cache
def rung(name: str, plies: int = 1) -> CompiledSide:
    """One of ``RUNGS``."""
    if name == "random":
        return CompiledSide(opponent_evaluator("random"), plies)
    evaluator: Any = shipped_evaluator() if name == "champion" else league_player(name).black
    return CompiledSide(evaluator, plies)


@cache
def rungs() -> dict[str, int]:
    """Those that are here: a package may have been taken without its nets."""
    return {name: elo for name, elo in RUNGS.items() if name != "champion" or shipped_evaluator() is not None}


class Ladder:
    """Measures now and then: ``double_games`` against each rung. Chance comes from the seed.

    Its code may have to be compiled, which takes ten seconds or twenty, once: that is done beside the training.
    """

    def __init__(self, double_games: int, seed: int, threads: int):
        self.double_games, self.seed, self.threads = double_games, seed, threads
        self._ended, self._took = -math.inf, 0.0
        self._making: threading.Thread | None = None
        self._given_up = False
        self.wait: Callable[[], None] = lambda: None
        """Called between two things that may have to be compiled: another process may be about to have made them."""

    def prepare(self, evaluator: Evaluator | None) -> None:
        """Begin to make what is needed to measure nets like this one."""
        if self._making is None:
            self._making = threading.Thread(target=self.make, args=(evaluator,), name="ladder")
            self._making.start()
            self._making.join(PATIENCE)

    def close(self) -> None:
        """Nobody will ask any more."""
        self._given_up = True

    def make(self, evaluator: Evaluator | None) -> None:
        """Compile, or load, all that is needed to measure nets like this one."""
        start = Boards.of([Position.start()])
        wanted: list[Callable[[], CompiledSide]] = [partial(rung, name) for name in rungs()]
        if evaluator is not None:
            own = [partial(CompiledSide, evaluator, plies) for plies in (1, 2)]
            wanted = [*own, *wanted, partial(rung, "wystan", 2)]
        for make in wanted:
            if not self._given_up:
                make().squares(start.movers, start.opponents, True, np.zeros(1, np.uint64))
                self.wait()

    @property
    def climbed(self) -> bool:
        """Whether anybody has been measured."""
        return self._ended > -math.inf

    def is_due(self, last: bool) -> bool:
        """Whether to climb now. The last measurement of a run is made in any case, and waits for the code."""
        if self._making is None:
            return False
        if last:
            self._making.join()
        return not self._making.is_alive() and (last or time.monotonic() - self._ended >= REST * self._took)

    def scores(self, side: Side, evaluator: Evaluator | None, double_games: int | None = None) -> dict[str, float]:
        """By curve: the rating with its interval, what it was made of, and Leouski's, which needs an evaluator."""
        began = time.monotonic()
        count = double_games or self.double_games
        starts, names = random_starts(count, PLIES, self.seed), list(rungs())
        # Torch's nets have threads of their own, and no two of theirs should meet.
        threads = 1 if evaluator is None else self.threads
        found = in_threads(lambda name: score_in_step(side, rung(name), starts, self.seed), names, threads)
        rating = rating_of(dict(zip(names, found, strict=True)), 2 * count)
        scores: dict[str, float] = {ELO: rating.elo, ELO_LOW: rating.low, ELO_HIGH: rating.high}
        scores |= {RUNG.of(name): score for name, score in zip(names, found, strict=True)}
        if evaluator is not None:
            scores[LEOUSKI] = score_in_step(CompiledSide(evaluator, 2), rung("wystan", 2), leouski_starts(), self.seed)
        self._ended, self._took = time.monotonic(), time.monotonic() - began
        return scores


@cache
def leouski_starts() -> Boards:
    return Boards.of([opening.position for opening in leouski60()])


def rating_of(scores: dict[str, float], games: int) -> Rating:
    """The rating by scores against rungs, in so many games against each."""
    points = games * np.array(list(scores.values()))
    return rating_among(points, np.full(len(scores), games), np.array([RUNGS[name] for name in scores]))
