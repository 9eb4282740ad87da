"""A whole-game clock: how long to think about this move, so that the time lasts to the end of the game.

    clock = make_clock("iago")
    result = clock.think(engine, position, remaining_seconds)

Read ``driver.py`` first. A player keeps one clock and calls ``think`` at each of its turns, passes too, with what is left on
its own side. The clock sees a new game begin when the number of empty squares does not fall, and takes what is left then for
the time of the whole game. Two ways to divide it:

``iago``      Rosenbloom's IAGO (1982): a share of the time left that depends on the move number; iterative deepening, a new
              iteration only if enough of it can be done, and an end at 1.3 times the share.
``predict``   a later tournament program's: equal shares, and one search to a depth predicted from the branching factor and the
              time per node of the last two; ended at twice the share and begun again, since the table remembers.

The first search of an engine may compile it. Search once to depth 1 before starting the clock.
"""

from __future__ import annotations

import difflib
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

Listener = Callable[[Result], bool | None] | None

# Kept back for accidents: IAGO's 2½ of 30 minutes. In very short games a share of the clock is less than one stall of a busy
# machine (up to 80 ms seen with four programs on two cores), so there the reserve is the time of two of those.
RESERVE = 1 / 12
STALLS_SECONDS = 0.2
MOST_RESERVE = 1 / 4
# What a move costs beside its search: IAGO's 10 seconds for turning discs are threads, protocols and pipes here. Measured in
# play, as the median of the last moves: one stall is an accident, several are the way things are.
LEAST_OVERHEAD_SECONDS = 0.001
OVERHEAD_MOVES = 7
# A search is not worth its thread below this; a look of two plies, or to the end of a nearly full board, takes no longer.
LEAST_SEARCH_SECONDS = 0.002
QUICK_DEPTH = 2
QUICK_SOLVE_EMPTIES = 8
# One move never takes more than this part of what can be spent.
MOST_OF_CLOCK = 0.65


class GameClock(ABC):
    """What every clock does: the reserve, the overhead, and moves that need no thought. Subclasses divide the rest."""

    abort: float
    """A search is ended at this many times its share."""

    def __init__(self) -> None:
        self.new_game()

    def new_game(self) -> None:
        """Forget the last game. ``think`` does this by itself when the board has become emptier."""
        self.game_seconds = 0.0
        self.solved = False
        self._last_empties = 65
        self._last_remaining = 0.0
        self._last_searched = 0.0
        self._overheads: deque[float] = deque([LEAST_OVERHEAD_SECONDS], OVERHEAD_MOVES)

    @property
    def reserve_seconds(self) -> float:
        """Never planned with."""
        return max(RESERVE * self.game_seconds, min(MOST_RESERVE * self.game_seconds, STALLS_SECONDS))

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
        share = self.allotment(empties, remaining_seconds)
        if len(position.legal_moves) < 2 or share < LEAST_SEARCH_SECONDS:
            result = self._quick(engine, position)
        else:
            result = self._search(engine, position, remaining_seconds, on_iteration)
            if not result.depth:  # not even one ply: the move would be any legal one
                look = self._quick(engine, position)
                result = replace(look, seconds=result.seconds + look.seconds)
        self.solved |= result.exact and not result.wld
        self._last_searched = result.seconds
        return result

    def allotment(self, empties: int, remaining_seconds: float) -> float:
        """This move's share of the time in seconds, for the search alone; 0 or less: play at once."""
        return self.fraction(empties) * self._usable(remaining_seconds) - self.overhead_seconds

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
            # Time that is added to the clock after a move makes this negative: then nothing can be learnt from it.
            self._overheads.append(max(0.0, self._last_remaining - remaining - self._last_searched))
        self._last_empties, self._last_remaining = empties, remaining

    def _usable(self, remaining: float) -> float:
        return max(0.0, remaining - self.reserve_seconds)

    def _hard_limit(self, share: float, remaining: float) -> float:
        return min(self.abort * share, MOST_OF_CLOCK * self._usable(remaining))

    def _quick(self, engine: Engine, position: Position) -> Result:
        """A move at once: forced, or there is no time. No limit in seconds, which could pass before the thread awakes."""
        empties = position.empties
        return engine.search(position, Limit(depth=empties if empties <= QUICK_SOLVE_EMPTIES else QUICK_DEPTH))


# --- IAGO's division -------------------------------------------------------------------------------------------------

# The curve of marginal values. IAGO's is known only as a figure; this one has its reasons in `marginal_values`.
FIRST_MOVE_VALUE = 0.05
OPENING_VALUE = 0.5
PEAK_VALUE = 2.0
RISE_EMPTIES = 12
SOLVED_DECAY = 0.6
LEAST_VALUE = 0.02
# No move may take more than this of what is left, so that there is something for a 31st or a 33rd.
MOST_FRACTION = 0.5
# An exact solution takes about this long at 14 empties, and twice as long with each further one.
SOLVE_14_SECONDS = 0.010
SOLVE_GROWTH = 2.0
PEAK_SHARE = 0.1  # of the game's time, that the move at the peak gets
# The first root move takes this part of an iteration, the others share the rest: polled while searching 24 positions.
FIRST_MOVE_SHARE = 0.3
ENOUGH_ROOT_MOVES = 3
# An iteration takes 2.6 times the last one (the same 24 positions; one ratio is off by a factor of 1.8), so what a search
# measures of itself counts only with this as two more ratios.
TYPICAL_BRANCHING = 2.6
TYPICAL_WEIGHT = 2
RECENT_ITERATIONS = 4
MOST_BRANCHING = 8.0  # a jump from what the table knew to what it did not is no branching factor
MEASURABLE_SECONDS = 0.0003


def solver_reach(game_seconds: float) -> int:
    """From how many empties the end will be solved, in a game of this length: the peak's share of it must do."""
    solve_seconds = max(PEAK_SHARE * game_seconds, 1e-6)
    return min(26, max(12, round(14 + math.log(solve_seconds / SOLVE_14_SECONDS, SOLVE_GROWTH))))


@cache
def marginal_values(solver_empties: int) -> tuple[float, ...]:
    """What time is worth at move 1…60 (index 0 unused); the odd and the even moves each sum to 1.

    The first move is a choice between mirror images. Then the value rises, since later choices decide more and are searched
    closer to the end, to a peak where the solver can just take over: one solution there makes all later moves perfect, and
    nothing spent afterwards can mend a move that was played without it. After the peak a solution costs about a third a
    ply, and the table holds most of it already, so the values fall as fast; they serve the games that were not solved.
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
    """The part of the time left to give to move 1…60: its value among those of one's own moves from there on, cut back
    at the end where a pass by the opponent would leave nothing for the next one."""
    values = marginal_values(solver_empties)
    return (0.0, *(min(MOST_FRACTION, values[number] / sum(values[number::2])) for number in range(1, 61)))


def next_iteration_seconds(iterations: Sequence[float]) -> float:
    """How long the next iteration may take, from the seconds of those so far. An average over an even number of plies, as
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
            return self.solved or result.seconds + part * next_iteration_seconds(iterations) <= share

        return engine.search(position, Limit(seconds=self._hard_limit(share, remaining)), go_on)


# --- the predicted depth ---------------------------------------------------------------------------------------------

FIRST_SEARCHES = 2
FIRST_DEPTH = 8
LEAST_DEPTH, MOST_DEPTH = 4, 16
ROUNDING = 0.7
SAME_DEPTH_TRIES = 2
EXHAUSTIVE_EMPTIES = 14
# All tries of a move together. Searches here deepen step by step, so one that was ended has a move to play.
MOST_RESTARTS_SHARE = 0.25


class PredictedDepthClock(GameClock):
    """Equal shares; one search to the depth that the last two say can be afforded."""

    abort = 2.0

    def new_game(self) -> None:
        super().new_game()
        self._searches: deque[tuple[int, int, float]] = deque(maxlen=FIRST_SEARCHES)  # depth, nodes, seconds

    def fraction(self, empties: int) -> float:
        return 1 / max(1, (empties + 1) // 2)

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
        until = remaining - max(self.abort * self.fraction(empties), MOST_RESTARTS_SHARE) * self._usable(remaining)
        left, nodes = remaining, 0
        best: Result | None = None
        while True:
            share = self.allotment(empties, left)
            seconds = self._hard_limit(share, left)
            if best is not None and (share < LEAST_SEARCH_SECONDS or left <= until):
                break
            if best is None and (empties <= EXHAUSTIVE_EMPTIES or self.solved):
                depth = empties
                result = engine.solve(position, limit=Limit(seconds=seconds), on_iteration=on_iteration)
            else:
                depth = self.depth(share)
                while depth > LEAST_DEPTH and tries[depth] >= SAME_DEPTH_TRIES:
                    depth -= 2
                tries[depth] += 1
                result = engine.search(position, Limit(depth=depth, seconds=seconds), on_iteration)
            nodes, left = nodes + result.nodes, left - result.seconds
            if best is None or result.exact or result.depth >= best.depth:
                best = result
            # Begin again only what ran out of time: a search that ended early was stopped by someone.
            if result.exact or result.depth >= depth or result.seconds < seconds:
                break
        # Two plies later, a search two plies shallower is read from the table and says nothing about branching.
        from_table = bool(self._searches) and best.depth <= self._searches[-1][0] - 2
        if best.depth and nodes and not best.exact and not from_table:
            self._searches.append((best.depth, nodes, remaining - left))
        return replace(best, nodes=nodes, seconds=remaining - left)


CLOCKS: dict[str, type[GameClock]] = {"iago": IagoClock, "predict": PredictedDepthClock}


def make_clock(name: str = "iago") -> GameClock:
    """A clock by name.

    >>> make_clock("iagoo")
    Traceback (most recent call last):
    ValueError: unknown clock 'iagoo'; did you mean 'iago'?
    """
    if name in CLOCKS:
        return CLOCKS[name]()
    near = difflib.get_close_matches(name, CLOCKS, 1)
    advice = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(CLOCKS)}"
    raise ValueError(f"unknown clock {name!r}; {advice}")
