"""Judging the moves of a game: what a player would have done, and what it thinks of what was done (``analyze.py``)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from othello_nn.cli.base import UsageError
from othello_nn.game.notation import move_name
from othello_nn.game.position import Position
from othello_nn.game.record import Game
from othello_nn.game.rules import PASS
from othello_nn.players.base import Line, Player
from othello_nn.players.simple import OnePlyPlayer
from othello_nn.players.spec import PlayerSpec

if TYPE_CHECKING:
    from othello_nn.engine import Engine
    from othello_nn.players.searching import SearchPlayer

SIDES = {True: "black", False: "white"}


class Verdict(NamedTuple):
    """A player's own move and what it thinks of it, in discs for the side to move."""

    move: int
    value: float
    exact: bool
    depth: int
    shift: float = 0.0
    """What calibration has added to the value."""


@dataclass(frozen=True)
class Judged:
    """One move of a game beside the one that the player would have made."""

    game: int
    """Its number in the file, from 1."""
    number: int
    """The move's, from 1, passes not counted."""
    position: Position
    move: int
    value: float
    best: Verdict
    exact: bool
    """Both values are results with best play."""

    @property
    def loss(self) -> float:
        """Discs that the move gave away. A selective search may think more of it than of its own move: that is none."""
        return max(0.0, self.best.value - self.value)

    @property
    def agrees(self) -> bool:
        return is_equivalent(self.position, self.move, self.best.move) or (self.exact and self.value == self.best.value)

    def as_dict(self) -> dict[str, Any]:
        return {
            "game": self.game,
            "number": self.number,
            "side": SIDES[self.position.black_to_move],
            "move": move_name(self.move),
            "value": self.value,
            "best": move_name(self.best.move),
            "best_value": self.best.value,
            "loss": self.loss,
            "agrees": self.agrees,
            "exact": self.exact,
            "depth": self.best.depth,
            "position": self.position.to_text(),
        }


def is_equivalent(position: Position, move: int, other: int) -> bool:
    """The moves are the same up to symmetry of the position."""
    return move == other or position.play(move).canonical() == position.play(other).canonical()


# --- judging ---------------------------------------------------------------------------------------------------------


class Judge(Protocol):
    """Who says what moves are worth."""

    def best(self, position: Position, line: Line) -> Verdict: ...

    def played(self, position: Position, move: int, best: Verdict, line: Line) -> tuple[float, bool]:
        """The value of a move, which does not end the game, and whether it is exact."""
        ...


class EngineJudge:
    """A player that searches with the engine. Each position is judged on its own: what was found before is forgotten.

    Of a search that its limit cut short, the last complete iteration counts. Win, draw or loss alone is no value in
    discs: where the search ended with that, the iteration before it counts.
    """

    def __init__(self, player: SearchPlayer):
        self.player = player

    def best(self, position: Position, line: Line) -> Verdict:
        from othello_nn.engine import Limit

        engine = self._engine(position)
        engine.clear()
        found: list[Any] = []
        if position.empties <= self.player.solve_from:
            found.append(engine.solve(position))
        else:
            engine.search(position, self.player.limit, lambda result: None if result.wld else found.append(result))
        result = found[-1] if found else engine.search(position, Limit(depth=1))
        assert result.move is not None  # positions to judge have a move
        return Verdict(result.move, result.score + 0.0, result.exact, result.depth, result.score - result.raw_score)

    def played(self, position: Position, move: int, best: Verdict, line: Line) -> tuple[float, bool]:
        from othello_nn.engine import Limit

        engine, after = self._engine(position), position.play(move)
        if best.exact:
            return 0.0 - engine.solve(after).score, True
        if best.depth == 1:
            return best.shift - static_discs(engine, after), False
        limit = Limit(depth=best.depth - 1)
        if limit.depth == after.empties:
            # A selective search to the end that could not be proved: the proof has no more time for this move.
            limit = replace(self.player.limit, depth=limit.depth)
        result = engine.search(after, limit)
        # Raw scores of neighbouring depths can be compared; calibrated ones stand on lines of their own.
        return (0.0 - result.score if result.exact else best.shift - result.raw_score), result.exact

    def _engine(self, position: Position) -> Engine:
        return self.player.engines[position.black_to_move]


def static_discs(engine: Engine, position: Position) -> float:
    """The evaluator's value of a position: a search of no depth."""
    import numpy as np

    from othello_nn.engine.leaf.door import score_all
    from othello_nn.engine.oneply import new_scratch
    from othello_nn.engine.score import SCORE_DISC

    scores, scratch = np.empty(1, np.int64), new_scratch()
    movers, opponents = np.array([position.mover], np.uint64), np.array([position.opponent], np.uint64)
    score_all(engine.leaf, scratch.ctypes.data, movers, opponents, scores)
    return int(scores[0]) / SCORE_DISC


class PlayerJudge:
    """Any other player that gives scores. How deep it looks is its own affair."""

    def __init__(self, player: Player):
        self.player = player

    def best(self, position: Position, line: Line) -> Verdict:
        choice = self.player.choose(position, line=line)
        if choice.score is None or choice.move is None:
            raise UsageError(
                f"{self.player.name} does not say what positions are worth, so it cannot judge moves; take a player "
                "that searches, such as champion"
            )
        return Verdict(choice.move, choice.score, choice.exact, choice.depth)

    def played(self, position: Position, move: int, best: Verdict, line: Line) -> tuple[float, bool]:
        after, moves = position.play(move), (*line.moves, move)
        sign = -1.0
        if after.must_pass:
            after, moves, sign = after.play(PASS), (*moves, PASS), 1.0
        verdict = self.best(after, Line(line.start, moves))
        return sign * verdict.value + 0.0, best.exact and verdict.exact


def make_judge(player: Player, spec: PlayerSpec) -> Judge:
    """A judge that asks this player, made from ``spec``; chance (``epsilon``) has no part in its judgement."""
    from othello_nn.engine import Limit
    from othello_nn.players.searching import SearchPlayer, square_evaluator

    if isinstance(player, OnePlyPlayer):
        player = SearchPlayer(spec, square_evaluator(player.weights), Limit(depth=1), random.Random(0))
    return EngineJudge(player) if isinstance(player, SearchPlayer) else PlayerJudge(player)


def judge_game(game: Game, judge: Judge, game_number: int = 1) -> Iterator[Judged]:
    """The moves of a game one after the other, passes left out."""
    number, position = 0, game.start
    for i, move in enumerate(game.moves):
        if move != PASS:
            number += 1
            line = Line(game.start, game.moves[:i])
            best = judge.best(position, line)
            after = position.play(move)
            if is_equivalent(position, move, best.move):
                value, exact = best.value, best.exact
            elif after.is_over:
                value, exact = 0.0 - after.final_score(), best.exact
            else:
                value, exact = judge.played(position, move, best, line)
            yield Judged(game_number, number, position, move, value, best, exact and best.exact)
        position = position.play(move)


# --- the command -----------------------------------------------------------------------------------------------------
