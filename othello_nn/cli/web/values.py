"""Values on every legal square, sharper and sharper: the position after each move is searched one ply deeper each time.

All moves of a depth are compared by raw scores and told with the calibration of the position before them, as
``analyze`` does it. Near the end of the game the moves are solved, which is told apart as exact.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from othello_nn.cli.judges import static_discs
from othello_nn.cli.web.pool import Turn
from othello_nn.game.position import Position

SOLVE_AFTER = ((14, 4), (18, 8), (22, 12), (25, 16))
"""With so many empties, moves are solved after so many plies: by then the solver has a good order of moves."""
DEEPEST = 24
MOST_SECONDS = 30.0
"""Of search for a position; then it rests, and a laptop stays cool."""
GOOD_DEPTH, GOOD_SECONDS = 10, 1.0
"""Then the values can be looked at, and other things come first."""
TABLE_MB = 16
REPORT_SECONDS = 0.1
"""Reports come no faster than this, but for the last."""


def mind_spec(name: str) -> str:
    """How the player of this name is asked for values: to any depth."""
    return f"{name}:depth={DEEPEST},table={TABLE_MB}"


@dataclass(frozen=True)
class Value:
    """What a move is worth to the side to move, in discs."""

    raw: float
    depth: int
    exact: bool
    line: tuple[int, ...]
    """The moves that are expected, with this one."""


@dataclass(frozen=True)
class Values:
    """What is known of a position's moves so far."""

    position: Position
    moves: dict[int, float]
    depths: dict[int, int]
    exact: frozenset[int]
    best: int
    line: tuple[int, ...]
    depth: int
    """To which all moves have been searched."""
    confidence: int
    """Percent: how likely a selective search is to find what a full one would. 100 if nothing is left out."""
    done: bool
    nodes: int


class Sharpener:
    """The values of one position by one player, from the last search on."""

    def __init__(self, position: Position):
        self.position = position
        self.values: dict[int, Value] = {}
        self.depth, self.nodes, self.seconds = 0, 0, 0.0
        self.goal = 1
        self._left: list[int] = list(position.legal_moves)
        self.deepest = DEEPEST
        self.told = 0.0
        """When values were last told."""

    @property
    def done(self) -> bool:
        solved = len(self.values) == len(self.position.legal_moves) and all(v.exact for v in self.values.values())
        return solved or self.depth >= self.deepest or self.seconds > MOST_SECONDS

    @property
    def is_news(self) -> bool:
        """There are values of all moves, and they have not been told just now."""
        complete = len(self.values) == len(self.position.legal_moves)
        return complete and (self.done or time.monotonic() - self.told > REPORT_SECONDS)

    def step(self, player: Any, turn: Turn) -> bool:
        """Search one move, the best ones first; false if that was cut short."""
        move = self._left[0]
        engine = player.engines[self.position.black_to_move]
        self.deepest = min(DEEPEST, player.limit.depth)
        begun = time.monotonic()
        value = self._search(engine, move, turn)
        self.seconds += time.monotonic() - begun
        if value is None:
            return False
        before = self.values.get(move)
        if before is None or value.exact or value.depth > before.depth:
            self.values[move] = value
        del self._left[0]
        if not self._left:
            self._next_goal()
        return True

    def _next_goal(self) -> None:
        empties = self.position.empties
        self.depth = self.goal
        reach = next((after for most, after in SOLVE_AFTER if empties <= most), DEEPEST)
        self.goal = empties if self.goal >= reach else self.goal + 1
        ranked = sorted(self.values, key=lambda move: -self.values[move].raw)
        self._left = [move for move in ranked if not self.values[move].exact]

    def _search(self, engine: Any, move: int, turn: Turn) -> Value | None:
        from othello_nn.engine import Limit

        after = self.position.play(move)
        if after.is_over:
            return Value(0.0 - after.final_score(), self.goal, True, (move,))
        if self.goal == 1 and not engine.is_batched:
            return Value(0.0 - static_discs(engine, after), 1, False, (move,))
        depth = min(max(self.goal - 1, 1), after.empties)

        def go_on(_: Any) -> bool:
            return not turn.over()

        if depth == after.empties:
            result = engine.solve(after, on_iteration=go_on)
        else:
            result = engine.search(after, Limit(depth=depth), go_on)
        self.nodes += result.nodes
        if not result.exact and result.depth < depth:
            return None
        value = 0.0 - (result.score if result.exact else result.raw_score)
        return Value(value, self.goal, result.exact, (move, *result.pv))

    def report(self, engine: Any) -> Values:
        """What is known now. Moves that have been searched deeper than others are compared with them all the same."""
        values, position = self.values, self.position
        best = max(values, key=lambda move: (values[move].raw, -move))
        shifts: dict[int, float] = {}
        for depth in {value.depth for value in values.values()}:
            top = max(value.raw for value in values.values() if value.depth == depth)
            shifts[depth] = engine.calibrated(top, position.empties, depth) - top
        told = {move: value.raw if value.exact else value.raw + shifts[value.depth] for move, value in values.items()}
        exact = frozenset(move for move, value in values.items() if value.exact)
        depths = {move: value.depth for move, value in values.items()}
        return Values(
            position, told, depths, exact, best, values[best].line, self.depth,
            round(100 * engine.confidence), self.done, self.nodes,
        )  # fmt: skip


def sharpen(
    minds: tuple[str, ...], position: Position, report: Callable[[str, Values], None], relaxed: int
) -> Callable[[Turn], Iterator[None]]:
    """Work for the pool: the values of one or two players on a position. Both get the same time, and once they are
    good enough to look at, the rest has the urgency ``relaxed``."""

    def work(turn: Turn) -> Iterator[None]:
        states = {mind: Sharpener(position) for mind in minds}
        while left := {mind: state for mind, state in states.items() if not state.done}:
            mind, state = min(left.items(), key=lambda item: (item[1].goal > 1, item[1].seconds))
            yield from _one_depth(turn, mind, state, report)
            if all(
                state.done or state.depth >= GOOD_DEPTH or state.seconds > GOOD_SECONDS for state in states.values()
            ):
                turn.relax(relaxed)

    return work


def _one_depth(turn: Turn, mind: str, state: Sharpener, report: Callable[[str, Values], None]) -> Iterator[None]:
    goal = state.goal
    while state.goal == goal and not state.done:
        player = yield from turn.lend(mind_spec(mind))
        try:
            engine = player.engines[state.position.black_to_move]
            while state.goal == goal and not state.done and not turn.over():
                if not state.step(player, turn):
                    break
                if state.is_news:
                    state.told = time.monotonic()
                    report(mind, state.report(engine))
        finally:
            turn.give_back()
        yield
