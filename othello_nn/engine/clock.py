"""A whole-game clock: how long to think about this move, so that the time lasts to the end of the game.

    clock = make_clock("iago")
    result = clock.think(engine, position, remaining_seconds)

Read ``driver.py`` first. A player keeps one clock and calls ``think`` at each of its turns with what is left on its own
side. When the board is no fuller than at the last call, a new game has begun, and what is left is all its time. Search
once to depth 1 before a game: the first search of an engine may have to compile it. There are two clocks:

``iago``      Rosenbloom's IAGO (1982): a share of the time left that depends on the move number; iterative deepening, a
              new iteration only if enough of it can be done, and an end at 1.3 times the share.
``predict``   a later tournament program's: equal shares, one search to a depth predicted from the branching factor and
              the time per node of the last two; ended at twice the share and begun again, since the table remembers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from statistics import mean, median

from othello_nn.engine.driver import Engine, Limit, Result
from othello_nn.game.position import Position
from othello_nn.search_options import CLOCK

Listener = Callable[[Result], bool | None] | None

# Kept back for accidents: IAGO's 2½ of 30 minutes. In a very short game that is less than one stall of a busy machine
# (80 ms seen with four programs on two cores), so there it is the time of two. Nobody can use it after the game: over
# the last moves, which can meet ever fewer accidents, some of it is set free.
RESERVE, MOST_RESERVE, STALLS_SECONDS = 1 / 12, 0.4, 0.2
FULL_RESERVE_EMPTIES, LAST_RESERVE = 20, 0.4
# What a move costs beside its search: IAGO's 10 seconds for turning discs are threads, protocols and pipes here. It is
# measured in play, as the median of the last moves: one stall is an accident, several are the way things are. IAGO took
# it off each share; as the last shares can be smaller than it, that of all moves to come is taken off the clock here.
LEAST_OVERHEAD_SECONDS, OVERHEAD_MOVES = 0.001, 7
# A search is not worth its thread below this. Two plies, or an exact solution of so few empties, take no longer.
LEAST_SEARCH_SECONDS = 0.002
QUICK_DEPTH, QUICK_SOLVE_EMPTIES = 2, 10
MOST_OF_CLOCK = 0.65  # the largest part of what can be spent that one search may take


def own_moves(empties: int) -> int:
    """Moves still to make with this one, if nobody passes."""
    return max(1, (empties + 1) // 2)


class GameClock(ABC):
    """What every clock does: the reserve, the overhead, and moves that need no thought. Subclasses divide the rest."""

    abort: float  # a search is ended at this many times its share

    def __init__(self) -> None:
        self.new_game()

    def new_game(self) -> None:
        """Forget the last game. ``think`` does this by itself when the board has become emptier."""
        self.game_seconds = 0.0
        self.solved = False
        self._last_empties, self._last_remaining, self._searched = 65, 0.0, 0.0
        self._overheads: deque[float] = deque([LEAST_OVERHEAD_SECONDS], OVERHEAD_MOVES)

    def reserve_seconds(self, empties: int) -> float:
        """What is not to be spent at this point of the game."""
        whole = max(RESERVE * self.game_seconds, min(MOST_RESERVE * self.game_seconds, STALLS_SECONDS))
        return whole * (LAST_RESERVE + (1 - LAST_RESERVE) * min(1.0, empties / FULL_RESERVE_EMPTIES))

    @property
    def overhead_seconds(self) -> float:
        return max(LEAST_OVERHEAD_SECONDS, median(self._overheads))

    def think(
        self, engine: Engine, position: Position, remaining_seconds: float, on_iteration: Listener = None
    ) -> Result:
        """Choose a move with this much time left for the whole game. ``on_iteration`` is as for ``Engine.search``."""
        if not math.isfinite(remaining_seconds):
            raise ValueError(f"remaining_seconds must be a finite number, not {remaining_seconds}")
        empties = position.empties
        self._turn(empties, remaining_seconds)
        if len(position.legal_moves) < 2 or self.allotment(empties, remaining_seconds) < LEAST_SEARCH_SECONDS:
            result = self._quick(engine, position)
        else:
            result = self._search(engine, position, remaining_seconds, on_iteration)
            if not result.depth:  # not even one ply: the move would be any legal one
                look = self._quick(engine, position)
                result = replace(look, seconds=result.seconds + look.seconds)
        self.solved |= result.exact and not result.wld
        return result

    def allotment(self, empties: int, remaining_seconds: float) -> float:
        """This move's share of the time, for the search alone."""
        return self.fraction(empties) * self._usable(empties, remaining_seconds)

    @abstractmethod
    def fraction(self, empties: int) -> float:
        """The part of the usable time that a move with this many empty squares gets."""

    @abstractmethod
    def _search(self, engine: Engine, position: Position, remaining: float, on_iteration: Listener) -> Result:
        """Search a position with at least two moves and a share of the time that is worth it."""

    def _turn(self, empties: int, remaining: float) -> None:
        """Notice a new game; otherwise, learn what the last move cost beside its search."""
        if empties >= self._last_empties or not self.game_seconds:
            self.new_game()
            self.game_seconds = max(remaining, 0.0)
        else:
            # Negative if time is added after each move: then nothing can be learnt from it.
            self._overheads.append(max(0.0, self._last_remaining - remaining - self._searched))
        self._last_empties, self._last_remaining, self._searched = empties, remaining, 0.0

    def _usable(self, empties: int, remaining: float) -> float:
        return max(0.0, remaining - self.reserve_seconds(empties) - self.overhead_seconds * own_moves(empties))

    def _hard_limit(self, empties: int, remaining: float) -> float:
        return min(self.abort * self.fraction(empties), MOST_OF_CLOCK) * self._usable(empties, remaining)

    def _limited(self, search: Callable[..., Result], position: Position, limit: Limit, listener: Listener) -> Result:
        """Search, and note how much time was meant to be spent so: the rest of the move's is overhead."""
        result = search(position, limit=limit, on_iteration=listener)
        self._searched += min(result.seconds, limit.seconds or 0.0)
        return result

    def _quick(self, engine: Engine, position: Position) -> Result:
        """A move at once: forced, or out of time. No limit in seconds, which could pass before the thread wakes."""
        depth = position.empties if position.empties <= QUICK_SOLVE_EMPTIES else QUICK_DEPTH
        return engine.search(position, Limit(depth=max(1, depth)))


# --- IAGO's division -------------------------------------------------------------------------------------------------

# The curve of marginal values. IAGO's is known only as a figure; this one has its reasons in `marginal_values`.
FIRST_MOVE_VALUE, OPENING_VALUE, PEAK_VALUE, LEAST_VALUE = 0.05, 0.5, 2.0, 0.02
RISE_EMPTIES, SOLVED_DECAY = 12, 0.6
# No move may take more than this of what is left, so that there is something for a 31st or a 33rd.
MOST_FRACTION = 0.5
# An exact solution takes about this long at 14 empties, and twice as long with each further one.
SOLVE_14_SECONDS, SOLVE_GROWTH = 0.010, 2.0
PEAK_SHARE = 0.1  # of the game's time, that the move at the peak gets
# The first root move takes this part of an iteration, the others share the rest: polled while searching 24 positions.
FIRST_MOVE_SHARE, ENOUGH_ROOT_MOVES = 0.3, 3
# An iteration takes 2.6 times the last one (the same 24 positions; one ratio is off by a factor of 1.8), so what a
# search measures of itself counts only with this as two more ratios.
TYPICAL_BRANCHING, TYPICAL_WEIGHT = 2.6, 2
RECENT_ITERATIONS, MEASURABLE_SECONDS = 4, 0.0003
MOST_BRANCHING = 8.0  # a jump from what the table knew to what it did not is no branching factor
LEAST_PREDICTED_DEPTH = 5  # before it, an iteration that took long was interrupted by another program


def solver_reach(game_seconds: float) -> int:
    """From how many empties the end will be solved, in a game of this length: the peak's share of it must do."""
    solve_seconds = max(PEAK_SHARE * game_seconds, 1e-6)
    return min(26, max(12, round(14 + math.log(solve_seconds / SOLVE_14_SECONDS, SOLVE_GROWTH))))


@cache
def marginal_values(solver_empties: int) -> tuple[float, ...]:
    """What time is worth at move 1…60 (index 0 unused); the odd and the even moves each sum to 1.

    The first move is a choice between mirror images. Then the value rises, since later choices decide more and are
    searched closer to the end, to a peak where the solver can just take over: one solution there makes all later moves
    perfect, and nothing spent afterwards can mend a move played without it. Past the peak a solution costs a third to a
    half less with every ply, and the table holds most of it, so the values fall as fast; they serve unsolved games.
    """
    values = [0.0]
    for number in range(1, 61):
        ahead = 61 - number - solver_empties
        if ahead >= 0:
            value = OPENING_VALUE + (PEAK_VALUE - OPENING_VALUE) * math.exp(-ahead / RISE_EMPTIES)
        else:
            value = max(LEAST_VALUE, PEAK_VALUE * SOLVED_DECAY**-ahead)
        values.append(FIRST_MOVE_VALUE if number == 1 else value)
    sums = [sum(values[2::2]), sum(values[1::2])]
    return tuple(value / sums[number % 2] for number, value in enumerate(values))


@cache
def allocation_fractions(solver_empties: int) -> tuple[float, ...]:
    """The part of the time left for move 1…60: its value among those of one's own moves from there to the end, but cut
    back where a pass by the opponent would leave nothing for one more."""
    values = marginal_values(solver_empties)
    return (0.0, *(min(MOST_FRACTION, values[number] / sum(values[number::2])) for number in range(1, 61)))


def next_iteration_seconds(iterations: Sequence[float]) -> float:
    """How long the next iteration may take, from the seconds of those so far. Averaged over an even number of plies, as
    the two sides' branching factors differ."""
    measured = [
        math.log(min(MOST_BRANCHING, max(1.0, after / before)))
        for before, after in pairwise(iterations)
        if before >= MEASURABLE_SECONDS
    ][-RECENT_ITERATIONS:]
    total = TYPICAL_WEIGHT * math.log(TYPICAL_BRANCHING) + sum(measured)
    return iterations[-1] * math.exp(total / (TYPICAL_WEIGHT + len(measured)))


class IagoClock(GameClock):
    """A share by move number; iterations while they promise something; an end at 1.3 times the share."""

    abort = 1.3

    def fraction(self, empties: int) -> float:
        return allocation_fractions(solver_reach(self.game_seconds))[61 - min(60, max(1, empties))]

    def _search(self, engine: Engine, position: Position, remaining: float, on_iteration: Listener) -> Result:
        share = self.allotment(position.empties, remaining)
        root_moves = len(position.legal_moves)
        others = min(ENOUGH_ROOT_MOVES, root_moves) - 1
        part = FIRST_MOVE_SHARE + (1 - FIRST_MOVE_SHARE) * others / (root_moves - 1)
        iterations: list[float] = []

        def go_on(result: Result) -> bool:
            if on_iteration is not None and on_iteration(result) is False:
                return False
            iterations.append(result.seconds - sum(iterations))
            # Once solved, always solved: what the table lost is found again sooner than these estimates think.
            if self.solved or result.depth < LEAST_PREDICTED_DEPTH:
                return True
            return result.seconds + part * next_iteration_seconds(iterations) <= share

        limit = Limit(seconds=self._hard_limit(position.empties, remaining))
        return self._limited(engine.search, position, limit, go_on)


# --- the predicted depth ---------------------------------------------------------------------------------------------

FIRST_SEARCHES, FIRST_DEPTH = 2, 8
LEAST_DEPTH, MOST_DEPTH, ROUNDING = 4, 16, 0.7
SAME_DEPTH_TRIES, EXHAUSTIVE_EMPTIES = 2, 14
# All tries of a move together. Searches here deepen step by step, so one that was ended has a move to play.
MOST_RESTARTS_SHARE = 0.25


class PredictedDepthClock(GameClock):
    """Equal shares; one search to the depth that the last two say can be afforded."""

    abort = 2.0

    def new_game(self) -> None:
        super().new_game()
        self._searches: deque[tuple[int, int, float]] = deque(maxlen=FIRST_SEARCHES)  # depth, nodes, seconds
        self._last_depth = 0

    def fraction(self, empties: int) -> float:
        return 1 / own_moves(empties)

    def depth(self, share_seconds: float) -> int:
        """The depth to search to: even, so that the leaves always have the same side to move."""
        if len(self._searches) < FIRST_SEARCHES:
            return FIRST_DEPTH
        branching = max(1.5, mean(nodes ** (1 / depth) for depth, nodes, _ in self._searches))
        node_seconds = sum(s for _, _, s in self._searches) / sum(nodes for _, nodes, _ in self._searches)
        affordable = max(1.0, share_seconds / max(node_seconds, 1e-9))
        depth = math.floor(ROUNDING + math.log(affordable, branching))
        return min(MOST_DEPTH, max(LEAST_DEPTH, depth - depth % 2))

    def _search(self, engine: Engine, position: Position, remaining: float, on_iteration: Listener) -> Result:
        empties, tries = position.empties, Counter[int]()
        most_share = max(self.abort * self.fraction(empties), MOST_RESTARTS_SHARE)
        until = remaining - most_share * self._usable(empties, remaining)
        best, left, nodes = None, remaining, 0
        search: Callable[..., Result]
        while True:
            share, seconds = self.allotment(empties, left), self._hard_limit(empties, left)
            if best is not None and (share < LEAST_SEARCH_SECONDS or left <= until):
                break
            if best is None and (empties <= EXHAUSTIVE_EMPTIES or self.solved):
                depth, search, limit = empties, engine.solve, Limit(seconds=seconds)
            else:
                depth = self.depth(share)
                while depth > LEAST_DEPTH and tries[depth] >= SAME_DEPTH_TRIES:
                    depth -= 2
                tries[depth] += 1
                search, limit = engine.search, Limit(depth=depth, seconds=seconds)
            result = self._limited(search, position, limit, on_iteration)
            nodes, left = nodes + result.nodes, left - result.seconds
            if best is None or result.exact or result.depth >= best.depth:
                best = result
            # Begin again only what ran out of time: a search that ended early was stopped by someone.
            if result.exact or result.depth >= depth or result.seconds < seconds:
                break
        # Two plies later, a search two plies shallower is read from the table and says nothing about branching.
        if best.depth > max(0, self._last_depth - 2) and nodes and not best.exact:
            self._searches.append((best.depth, nodes, remaining - left))
        self._last_depth = best.depth
        return replace(best, nodes=nodes, seconds=remaining - left)


CLOCKS: dict[str, type[GameClock]] = {"iago": IagoClock, "predict": PredictedDepthClock}


def make_clock(name: str = CLOCK.default) -> GameClock:
    return CLOCKS[CLOCK.check("clock", name)]()
