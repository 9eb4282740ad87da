"""The Othello League's measure: 1-ply players, a random move now and then, double games.

    result = league(evaluator, square_evaluator(SWH), double_games=50_000)
    result.score, result.interval

In a double game each side is black once. Both make a random legal move with probability ε (the League's is 0.1), else
the move whose position is best by their evaluator, which alone decides: that a move wins at once is not seen unless the
evaluator sees it. (If wipe-outs were seen, SWH would gain by it, and the n-tuple paper's best player would score 0.958
instead of the 0.959 that is printed there and measured here.) A win is 1, a draw ½.

Every game has its own random stream, made from the seed and the game's number, so that neither threads nor chunks have
a part in the result. The same goes for the opponents of ``random-wpc``, who change from double game to double game: the
mean score against them is called expected utility (``random_wpc.py``).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numba import int64, uint64

from othello_nn.arena import random_wpc
from othello_nn.arena.random_wpc import DrawnSquares, draw_weights
from othello_nn.arena.statistics import Z_95, wilson_interval
from othello_nn.engine.leaf.compile import ColouredEvaluator
from othello_nn.engine.oneply import evaluated_move, new_scratch
from othello_nn.kernels.bits import legal_of, popcount
from othello_nn.kernels.board import START, ZERO, final_score, play, side_to_move
from othello_nn.kernels.chance import ALWAYS, chance_move, random_move, random_stream
from othello_nn.kernels.jit import kernel
from othello_nn.kernels.parallel import in_threads, parts_of
from othello_nn.players.base import PlayerError
from othello_nn.players.catalog import make_player
from othello_nn.players.simple import SWH, OnePlyPlayer, RandomPlayer
from othello_nn.players.spec import parse_spec

MAX_OPENING_PLIES = 50
# Chunks are what Ctrl-C and the progress bar wait for: a fraction of a second at 20,000 games a second.
SMALLEST_CHUNK, LARGEST_CHUNK = 50, 1000
# With fewer double games, or fewer points lost (or won), the spread that was measured says too little.
FEW_DOUBLE_GAMES, FEW_POINTS = 30, 10
_OPENINGS = 0x4F70656E  # sets the streams of openings apart from those of games


@kernel("Tuple((uint64, uint64, boolean))(uint64, int64, int64)")
def random_opening(seed, number, plies):
    """Opening ``number``: the mover's and the opponent's discs, and whether black is to move. The game is not over."""
    state = random_stream(seed ^ uint64(_OPENINGS), uint64(number))
    while True:
        mover, opponent = START
        black = True
        for _ in range(plies):  # a pass is one
            moves = legal_of(mover, opponent)
            if moves == ZERO:
                mover, opponent = opponent, mover
            else:
                square, state = random_move(moves, state)
                mover, opponent = play(mover, opponent, square)
            black = not black
        if legal_of(mover, opponent) | legal_of(opponent, mover) != ZERO:
            return mover, opponent, black


@kernel()
def league_game(a, b, a_chances, b_chances, a_moves_first, scratch, mover, opponent, state):
    """The margin for player A of one game from a position; ``…_chances`` of 2³² that a move is random."""
    a_to_move = a_moves_first
    empties = int64(64) - popcount(mover | opponent)
    while True:
        mover, opponent, moves, passed = side_to_move(mover, opponent)
        a_to_move = a_to_move != passed
        if moves == ZERO:
            margin = final_score(mover, opponent)
            return margin if a_to_move else -margin
        square, state = chance_move(moves, a_chances if a_to_move else b_chances, state)
        if square < int64(0):
            if a_to_move:
                square, state = evaluated_move(a, scratch, mover, opponent, moves, empties, state, False)
            else:
                square, state = evaluated_move(b, scratch, mover, opponent, moves, empties, state, False)
        mover, opponent = play(mover, opponent, square)
        a_to_move = not a_to_move
        empties -= int64(1)


@kernel()
def league_games(a, b, a_chances, b_chances, a_is_black, scratch, seed, plies, first, margins):
    """Fill ``margins`` [n] with A's of one colour's games in the double games ``first`` … ``first`` + n − 1."""
    for i in range(margins.size):
        number = first + int64(i)
        mover, opponent, black = random_opening(seed, number, plies)
        state = random_stream(seed, uint64(int64(2) * number + (int64(0) if a_is_black else int64(1))))
        margins[i] = league_game(a, b, a_chances, b_chances, black == a_is_black, scratch, mover, opponent, state)


@kernel()
def drawn_games(a, b, weights, a_chances, b_chances, a_is_black, scratch, seed, plies, first, margins):
    """``league_games`` with ``weights`` [64] of ``b``, a ``DrawnSquares``, drawn anew for each double game."""
    for i in range(margins.size):
        draw_weights(seed, first + int64(i), weights)
        league_games(
            a, b, a_chances, b_chances, a_is_black, scratch, seed, plies, first + int64(i), margins[i : i + 1]
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class LeaguePlayer:
    """Who plays: evaluators, or their compiled leaves, as black and as white (usually the same)."""

    name: str
    black: Any
    white: Any
    epsilon: float | None = None
    """Its own probability of a random move, in place of the League's."""
    is_drawn: bool = False
    """It is another random WPC player in each double game, and has no evaluator of its own."""

    def __post_init__(self):
        _check_epsilon(self.epsilon or 0.0)

    @classmethod
    def of(cls, evaluator: Any, name: str = "", epsilon: float | None = None) -> LeaguePlayer:
        """A player with an evaluator of the engine, or with the two of a ``ColouredEvaluator``."""
        if isinstance(evaluator, ColouredEvaluator):
            return cls(name, evaluator.after_move(True), evaluator.after_move(False), epsilon)
        return cls(name, evaluator, evaluator, epsilon)

    def leaf(self, is_black: bool) -> Any:
        evaluator = self.black if is_black else self.white
        return getattr(evaluator, "leaf", evaluator)

    def chances(self, epsilon: float) -> int:
        return round((epsilon if self.epsilon is None else self.epsilon) * ALWAYS)


def league_player(text: str) -> LeaguePlayer:
    """The League player that ``NAME[:epsilon=…]`` stands for: any player whose evaluator the engine can ask."""
    from othello_nn.players.searching import SearchPlayer, square_evaluator

    spec, unable = parse_spec(text), "cannot play in the League: it has no evaluator that looks one ply ahead"
    if spec.is_command:
        raise PlayerError(f"{text!r} {unable}")
    for key, value in spec.given.items():
        if key not in ("epsilon", "view") and (key, value) != ("depth", 1):
            raise PlayerError(f"{key} in {text!r}: the League is 1-ply; a player takes no keys but epsilon and depth=1")
    if spec.name == random_wpc.NAME:
        return LeaguePlayer(spec.text, None, None, spec.epsilon, is_drawn=True)
    # Depth 1 is said for all who can hear it, so that no player sets memory aside for a deeper search.
    player = make_player(spec if spec.name == "random" else replace(spec, depth=1))
    if isinstance(player, RandomPlayer):
        return LeaguePlayer.of(square_evaluator(SWH), spec.text, 1.0)  # the evaluator is never asked
    if isinstance(player, OnePlyPlayer):
        return LeaguePlayer.of(square_evaluator(player.weights), spec.text, spec.epsilon)
    if isinstance(player, SearchPlayer):
        white, black = (engine.evaluator for engine in player.engines)
        return LeaguePlayer(spec.text, black, white, spec.epsilon)
    raise PlayerError(f"{text!r} {unable}")


@dataclass(frozen=True, eq=False)
class LeagueResult:
    """What player A did; figures that need a game are None without one."""

    margins: np.ndarray  # [double games, 2] int8: discs for A, as black and as white
    seconds: float
    interrupted: bool = field(default=False)

    @property
    def double_games(self) -> int:
        return len(self.margins)

    @property
    def wins(self) -> int:
        return int((self.margins > 0).sum())

    @property
    def draws(self) -> int:
        return int((self.margins == 0).sum())

    @property
    def losses(self) -> int:
        return int((self.margins < 0).sum())

    @cached_property
    def scores(self) -> np.ndarray:
        """``[double games]``: the mean of the two games of each."""
        return (1 + np.sign(self.margins).mean(axis=1)) / 2

    @property
    def score(self) -> float | None:
        return float(self.scores.mean()) if self.double_games else None

    @property
    def interval(self) -> tuple[float | None, float | None]:
        """95% for the score, from the variance of the double games' scores: a double game is one sample.

        Where nearly all are alike, or few were played, that variance means little; then Wilson's interval is given for
        as many games as there were double games, which errs on the careful side.
        """
        if self.score is None:
            return None, None
        count, variance = self.double_games, float(self.scores.var())
        if count < FEW_DOUBLE_GAMES or count * min(self.score, 1 - self.score) < FEW_POINTS or not variance:
            return wilson_interval(self.score, count)
        spread = Z_95 * math.sqrt(variance / (count - 1))
        return max(self.score - spread, 0.0), min(self.score + spread, 1.0)

    @property
    def low(self) -> float | None:
        return self.interval[0]

    @property
    def high(self) -> float | None:
        return self.interval[1]

    @property
    def mean_margin(self) -> float | None:
        return float(self.margins.mean()) if self.double_games else None

    @property
    def games_per_second(self) -> float:
        return 2 * self.double_games / max(self.seconds, 1e-9)

    def as_dict(self) -> dict[str, object]:
        """The figures as ``play.py league --json`` prints them."""
        names = "double_games score low high wins draws losses mean_margin seconds games_per_second interrupted"
        return {name: getattr(self, name) for name in names.split()}


def league(
    a: Any,
    b: Any,
    double_games: int = 50_000,
    epsilon: float = 0.1,
    seed: int = 0,
    threads: int = 1,
    opening_plies: int = 0,
    on_progress: Callable[[int], object] | None = None,
) -> LeagueResult:
    """Play A against B, each an evaluator of the engine or a ``LeaguePlayer``.

    With ``opening_plies`` each double game begins with so many random plies, the same in both games. ``on_progress`` is
    told how many double games are done. Ctrl-C ends it and returns what was played, marked as interrupted.
    """
    if double_games < 1 or threads < 1 or not 0 <= opening_plies <= MAX_OPENING_PLIES:
        raise ValueError(f"the League needs a double game, a thread and 0 to {MAX_OPENING_PLIES} opening plies")
    _check_epsilon(epsilon)
    a, b = (p if isinstance(p, LeaguePlayer) else LeaguePlayer.of(p) for p in (a, b))
    if a.is_drawn:
        raise PlayerError(f"{random_wpc.NAME} is an opponent, another one in each double game; name a player first")
    margins = np.zeros((2, double_games), np.int8)
    played = np.zeros(double_games, bool)

    def play_part(part: slice) -> int:
        scratch, weights = new_scratch(), np.zeros(64, np.int32)
        drawn = DrawnSquares(weights.ctypes.data)
        for colour, a_is_black in enumerate((True, False)):
            how = (
                a.chances(epsilon), b.chances(epsilon), a_is_black, scratch.ctypes.data, np.uint64(seed % 2**64),
                opening_plies, part.start, margins[colour, part],
            )  # fmt: skip
            if b.is_drawn:
                drawn_games(a.leaf(a_is_black), drawn, weights, *how)
            else:
                league_games(a.leaf(a_is_black), b.leaf(not a_is_black), *how)
        played[part] = True
        return part.stop

    play_part(slice(0, 0))  # compiles, before the threads and the clock start
    chunk = min(max(double_games // 200, SMALLEST_CHUNK), LARGEST_CHUNK)
    started, interrupted = time.perf_counter(), False
    try:
        in_threads(play_part, parts_of(double_games, chunk), threads, on_progress)
    except KeyboardInterrupt:
        interrupted = True
    return LeagueResult(margins[:, played].T, time.perf_counter() - started, interrupted)


def _check_epsilon(epsilon: float) -> None:
    if not 0 <= epsilon <= 1:
        raise ValueError(f"epsilon is a probability, not {epsilon!r}")
