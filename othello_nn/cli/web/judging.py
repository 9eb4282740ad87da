"""The analysis of a whole game: every move beside the best one, quickly first, then again and deeper.

``cli/judges.py`` judges a move; here are the passes over the game, what is remembered between them, and the story that
the judgements tell: marks, what each side gave away, and the move at which the game was lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from othello_nn.cli.judges import Judged, judge_game, make_judge
from othello_nn.cli.web.pool import Turn
from othello_nn.cli.web.values import TABLE_MB
from othello_nn.game.notation import move_name
from othello_nn.game.position import Position
from othello_nn.game.record import Game
from othello_nn.game.rules import PASS
from othello_nn.players.spec import parse_spec

PASSES = ((4, 10, 0.2), (10, 16, 0.5), (14, 20, 2.0))
"""Depth, empties from which moves are solved, and seconds at most for a move that is not. The first is there at once,
the last takes about a minute; players without ProbCut do not get as deep."""
MARKS = ((10.0, "??"), (4.0, "?"))
"""Discs that a move gives away, and what stands behind it."""
MOST_REMEMBERED = 5000


@dataclass(frozen=True)
class Judgement:
    """A move as the page shows it, in discs for the side to move."""

    judged: Judged
    level: int
    """Which pass has judged it."""

    @property
    def mark(self) -> str:
        found = self.judged
        if found.agrees:
            return ""
        turned = found.exact and _sign(found.best.value) > _sign(found.value)  # who wins with best play has changed
        return next((mark for least, mark in MARKS if found.loss >= least), "?" if turned else "")


class Judgements:
    """What one player has found out about moves, however often they are met. Deeper ones replace the others."""

    def __init__(self) -> None:
        self._found: dict[tuple[Position, int], Judgement] = {}

    def get(self, position: Position, move: int) -> Judgement | None:
        return self._found.get((position, move))

    def add(self, judgement: Judgement) -> bool:
        """False if a better one is there already."""
        key = judgement.judged.position, judgement.judged.move
        before = self._found.get(key)
        if before is not None and not _is_better(judgement, before):
            return False
        if len(self._found) >= MOST_REMEMBERED:
            del self._found[next(iter(self._found))]
        self._found[key] = judgement
        return True


def _is_better(one: Judgement, other: Judgement) -> bool:
    return (one.judged.exact, one.level) > (other.judged.exact, other.level)


def judge_all(
    mind: str,
    moves: Sequence[tuple[Position, int]],
    known: Mapping[tuple[Position, int], Judgement | None],
    report: Callable[[Judgement, int, int], None],
) -> Callable[[Turn], Iterator[None]]:
    """Work for the pool: judge moves in all passes; ``report`` hears of each, and how many of how many are done."""

    def work(turn: Turn) -> Iterator[None]:
        done, total = 0, len(PASSES) * len(moves)
        for level, (depth, solve, seconds) in enumerate(PASSES):
            spec = f"{mind}:depth={depth},seconds={seconds},solve={solve},table={TABLE_MB}"
            for position, move in moves:
                found = known[position, move]
                while found is None or not (found.judged.exact or found.level >= level):
                    player = yield from turn.lend(spec)
                    try:
                        judged = next(judge_game(Game(position, (move,)), make_judge(player, parse_spec(spec))))
                        complete = not turn.over()
                    finally:
                        turn.give_back()
                    if complete:
                        found = Judgement(judged, level)
                        break
                    yield  # the search may have been cut short: it is done again
                done += 1
                report(found, done, total)
                yield

    return work


# --- the story -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Story:
    """What the judgements of a game come to."""

    losses: dict[bool, float]
    """Discs given away by each side, True for black."""
    turning: int | None
    """The ply of the move at which the game was lost; None if no move stands out."""
    text: str


def tell_story(
    moves: Sequence[int], found: Sequence[Judgement | None], margin: int | None, person: bool | None
) -> Story:
    """``found`` has an entry for each move (None: not judged, or a pass); ``person`` is the side of the one who reads.

    The game was lost at the last move of the loser that gave the win, or the draw, away; if there was none, at the
    move that gave away most.
    """
    losses = {True: 0.0, False: 0.0}
    for one in found:
        if one is not None:
            losses[one.judged.position.black_to_move] += one.judged.loss
    if not margin:
        return Story(losses, None, "")
    loser = margin < 0
    own = [
        (ply, one.judged)
        for ply, one in enumerate(found)
        if one is not None and one.judged.position.black_to_move == loser and one.judged.loss >= 1.0
    ]
    thrown = [(ply, one) for ply, one in own if one.best.value > -1.0 and one.value < 0.0]
    if not own:
        return Story(losses, None, "")
    ply, worst = max(thrown, key=lambda item: item[0]) if thrown else max(own, key=lambda item: item[1].loss)
    number = 1 + sum(move != PASS for move in moves[:ply])
    who = "You" if person == loser else ("Black" if loser else "White")
    verb = "lost it at" if thrown else "gave away most at"
    best = move_name(worst.best.move)
    text = f"{who} {verb} {number}. {move_name(worst.move)} (−{worst.loss:.0f}): {best} was right."
    return Story(losses, ply, text)


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def as_row(ply: int, one: Judgement) -> dict[str, Any]:
    """A judgement for the page: values are black's."""
    judged = one.judged
    sign = 1 if judged.position.black_to_move else -1
    return {
        "ply": ply,
        "value": round(sign * judged.value, 2) + 0.0,
        "best": move_name(judged.best.move),
        "best_value": round(sign * judged.best.value, 2) + 0.0,
        "loss": round(judged.loss, 2),
        "agrees": judged.agrees,
        "mark": one.mark,
        "exact": judged.exact,
        "depth": judged.best.depth,
    }
