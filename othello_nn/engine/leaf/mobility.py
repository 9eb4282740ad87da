"""An evaluator written by hand: it needs no training and no file."""

from __future__ import annotations

from typing import NamedTuple

from numba import int64

from othello_nn.engine.leaf.door import no_begin, no_child
from othello_nn.engine.score import LEAF_LIMIT, SCORE_DISC
from othello_nn.kernels.bits import popcount
from othello_nn.kernels.board import CORNERS, ZERO, mobility, potential_mobility, stable_discs
from othello_nn.kernels.jit import kernel


class Mobility(NamedTuple):
    """Moves, potential moves, corners and stable discs, weighted by hand: needs no training."""

    move: int = SCORE_DISC
    potential: int = SCORE_DISC // 3
    corner: int = 6 * SCORE_DISC
    stable: int = 2 * SCORE_DISC


@kernel()
def _mobility_score(ev, features, mover, opponent, empties):
    value = ev.move * (mobility(mover, opponent) - mobility(opponent, mover))
    value += ev.potential * (potential_mobility(mover, opponent) - potential_mobility(opponent, mover))
    if (mover | opponent) & CORNERS != ZERO:
        value += ev.corner * (popcount(mover & CORNERS) - popcount(opponent & CORNERS))
        value += ev.stable * (popcount(stable_discs(mover, opponent)) - popcount(stable_discs(opponent, mover)))
    return min(max(value, int64(-LEAF_LIMIT)), int64(LEAF_LIMIT))


Mobility.begin, Mobility.child, Mobility.score = no_begin, no_child, _mobility_score  # type: ignore[attr-defined]
