"""What a net should have said of each position of a game: TD(λ), defined once. Read ``trajectory.py`` first.

Everything here is plain and slow, to be checked by eye. ``numba_targets.py`` does the same for compiled nets on the
CPU's cores and ``torch_targets.py`` for any net on any device; both call ``row_target`` itself, and
``tests/test_td_definition.py`` holds all the rest of them against this module. What is what:

* **Value**: for the mover of a row, −1…1. A net's value is its expected margin in discs, squashed.
* **Outcome**: what a finished game is worth (``td.outcome``): ``margin`` squashes the final score, ``win`` is 1, 0, −1.
* **Last row**: its target is the outcome for its mover.
* **Every other row**: (1 − λ) · what comes next + λ · the next row's target, seen from this row's side. What comes next
  is the next row's value (``td.targets=returns``), or that of a 2-ply search from this row (``minimax``).
* **Pass**: rows are positions after moves, so a pass has no row; the next row then has the same mover, and its value
  keeps its sign. In the search a pass is a ply: all leaves have the row's own side to move, which must be so since
  values lean to the side to move and only those that lean alike can be compared.
* **Leaf of the search**: the net's value as the compiled search says it, within ±62 discs (only a finished game is
  worth more, whatever a net claims) and in steps of 1/128 of a disc.
* **Finished game in the search**: counts its outcome at any depth, the row itself and the leaves included; a net is
  never asked about a game that is over. A wipe-out is such a game, won by 64 discs.
* **Explored move**: was made by chance, so it tells nothing about the row before it. That row's target is its searched
  value, or if there is none its own value, which is no error to learn from.
* **cut**: random moves count as explored. Without it only those of the opening do; later chance is a part of the world.
* **Fixed opponent**: only the learner's afterstates are rows. Their mover is always the opponent, so values keep their
  sign; random moves count as explored in the opening only.
* **Solved row** (at most ``td.exact_empties`` empty squares): its target is the outcome with perfect play from there,
  whatever was played, searched or explored, and rows before build on it.

A new target touches two files: ``TARGETS`` in ``config.py`` for its name, ``SEARCH_PLIES`` here for its depth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from othello_nn.config import TD
from othello_nn.engine.score import LEAF_LIMIT, SCORE_DISC
from othello_nn.game.rules import PASS, final_score, legal_mask, play, solve, squares_in

OUTCOMES = ("margin", "win")
SEARCH_PLIES = {"returns": 0, "minimax": 2}
"""The values of ``td.targets``: depth of the search that says what comes next; 0 asks the next row instead."""
UNKNOWN = math.nan
NEARLY_ONE = 1 - 1e-6
"""A value of 1 would be infinitely many discs."""

PlainNet = Callable[[int, int, bool], float]
"""``net(mover, opponent, black_to_move)``: the value for the mover."""


class Row(NamedTuple):
    """One position of a game, after a move."""

    mover: int
    opponent: int
    black_to_move: bool
    explored: bool
    """The move that led here was made by chance."""


def squashed(discs: float, scale: float) -> float:
    """A margin as a value: 2 / (1 + e^(−discs/scale)) − 1."""
    return math.tanh(discs / scale / 2)


def outcome(margin: float, scale: float, kind: str) -> float:
    """What a finished game is worth to the side that has ``margin`` discs more, empty squares going to the winner."""
    if kind == "win":
        return float((margin > 0) - (margin < 0))
    return squashed(margin, scale)


def leaf_value(value: float, scale: float) -> float:
    """What a search makes of a net's value."""
    discs = 2 * scale * math.atanh(min(max(value, -NEARLY_ONE), NEARLY_ONE))
    score = min(max(round(discs * SCORE_DISC), -LEAF_LIMIT), LEAF_LIMIT)
    return squashed(score / SCORE_DISC, scale)


def search_value(
    net: PlainNet, mover: int, opponent: int, black_to_move: bool, plies: int, scale: float, kind: str
) -> float:
    """The value of a full search ``plies`` deep."""
    legal = legal_mask(mover, opponent)
    if not legal and not legal_mask(opponent, mover):
        return outcome(final_score(mover, opponent), scale, kind)
    if plies == 0:
        return leaf_value(net(mover, opponent, black_to_move), scale)
    children = [play(mover, opponent, square) for square in squares_in(legal) or [PASS]]
    return max(-search_value(net, *child, not black_to_move, plies - 1, scale, kind) for child in children)


def choose(condition: bool, one: Any, other: Any) -> Any:
    """``where`` for single numbers."""
    return one if condition else other


def row_target(where, lam, rest, value, next_value, next_target, next_explored, searched, is_last, final, exact) -> Any:
    """TD(λ)'s target of one row.

    Numbers of one game, or tensors with one for each of many games, between which ``where(condition, one, other)``
    chooses. ``rest`` is 1 − λ, ``value`` the net's own, ``next_value`` and ``next_target`` those of the next row seen
    from this side. ``searched`` and ``exact`` are NaN if unknown, which is the number that does not equal itself.
    """
    is_searched, is_exact = searched == searched, exact == exact
    # 1. What comes next and where it led, mixed by λ.
    near = where(is_searched, searched, next_value)
    target = rest * near + lam * next_target
    # 2. Where chance led says nothing.
    target = where(next_explored, where(is_searched, searched, value), target)
    # 3. Nothing comes after the last row.
    target = where(is_last, final, target)
    # 4. Knowing beats all.
    return where(is_exact, exact, target)


def lambda_returns(
    rows: Sequence[Row],
    values: Sequence[float],
    final: float,
    lam: float,
    searched: Sequence[float],
    exact: Sequence[float],
) -> list[float]:
    """The targets of a game's rows, from the last one back."""
    targets = [final] * len(rows)
    for t in reversed(range(len(rows))):
        is_last = t == len(rows) - 1
        after = t if is_last else t + 1
        sign = 1 if rows[after].black_to_move == rows[t].black_to_move else -1
        targets[t] = row_target(
            choose,
            lam,
            1 - lam,
            values[t],
            sign * values[after],
            sign * targets[after],
            rows[after].explored,
            searched[t],
            is_last,
            final,
            exact[t],
        )
    return targets


def game_targets(rows: Sequence[Row], margin: int, net: PlainNet, td: TD, scale: float) -> list[float]:
    """The targets of a game that the mover of its last row won by ``margin`` discs."""
    plies = SEARCH_PLIES[td.targets]
    values, searched, exact = [], [UNKNOWN] * len(rows), [UNKNOWN] * len(rows)
    for t, (mover, opponent, black_to_move, _) in enumerate(rows):
        values.append(net(mover, opponent, black_to_move))
        if plies:
            searched[t] = search_value(net, mover, opponent, black_to_move, plies, scale, td.outcome)
        if 64 - (mover | opponent).bit_count() <= td.exact_empties:
            exact[t] = outcome(solve(mover, opponent), scale, td.outcome)
    return lambda_returns(rows, values, outcome(margin, scale, td.outcome), td.lam, searched, exact)
