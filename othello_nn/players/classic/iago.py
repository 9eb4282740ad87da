"""IAGO's evaluation: Rosenbloom's hand-made judgement of a position, the classical opponent of 1981.

From "A World-Championship-Level Othello Program", section 4.4. With move = discs played since the start,

    Eval = ESAC(move) · EdgeStability + 36 · InternalStability + CMAC(move) · CurrentMobility + 99 · PotentialMobility
    ESAC = 312 + 6.24 · move,  CMAC = 50 + 2 · move up to move 25, then 75 + move

where each component lies in ±1000. The coefficients tell how the paper brought them there: 312 and 6.24 are 5 and 0.1
times 62.4, and 62,400 is the largest sum of four corner values, 8 · 7,800; 36 internal discs in ±1000 with a
coefficient of 36 are 1000 a disc; three measures that share 99 have 33 each. So in the kernels below

    Eval = (5 + move / 10) · corners + 1000 · internal + CMAC · current + 33 · (potential of each of three measures).

Where the paper leaves something open:

* the board is the one at the leaf for all terms. IAGO counted one side's moves and the internal discs a ply earlier to
  save time; with a transposition table a leaf may not depend on how it was reached;
* the side that has the choice between the two edges of a corner is the side to move; after the corner has been given
  up, the side that owns the x-square, since the other one has just moved there;
* "can immediately flip into the corner by way of the x-square" is asked of the board as it stands, whoever is to move
  (IAGO itself left this test out by mistake, says footnote 15; here it is made);
* the factor of footnote 17, for a corner disc that only one of the four corner values sees, is 2, on the change that
  the disc makes.

The search wants discs: ``SCALE`` makes them of IAGO's units. Read ``engine/leaf/door.py`` and ``iago_edges.py`` first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

import numpy as np
from numba import float64, int64, uint64

from othello_nn.engine.leaf.door import no_begin, no_child
from othello_nn.engine.score import LEAF_LIMIT
from othello_nn.kernels.bits import flips_of, legal_of, load_i16, popcount
from othello_nn.kernels.board import BORDER, CORNERS, NOT_A_FILE, NOT_H_FILE, ONE, ZERO, neighbours
from othello_nn.kernels.jit import kernel
from othello_nn.players.classic.iago_edges import EDGES, edge_values, edges_after, inverse_edges

SCALE = 525_000.0
"""Units at which the score is half of the 62 discs that a leaf may claim. Fitted to the results of 1,000 games by
``python -m othello_nn.fit.iago``."""

CORNER_FACTOR = 2.0  # a disc on the board counts in both corner values of its edge, one only thought of in one
INTERNAL, POTENTIAL = 1000, 33
LAST_RANK = np.uint64(56)
EIGHT, SEVEN, NINE = np.uint64(8), np.uint64(7), np.uint64(9)
_A_FILE = np.uint64(0x0101010101010101)
_GATHER = np.uint64(0x0102040810204080)  # times a file: its squares in the highest byte, rank 1 lowest


class Iago(NamedTuple):
    """What the kernels need: addresses; ``IagoEvaluator`` owns the memory behind them."""

    ternary: int  # [256] int16: Σ bit i · 3^i
    edges: int  # [EDGES · 2] int16: an edge's value for the mover with the mover, and with the opponent to move
    taken: int  # [2 ends · 2 sides · EDGES] int16: the edge after the mover's, the opponent's disc in its empty corner


# --- stability -------------------------------------------------------------------------------------------------------


@kernel("uint64(uint64, uint64)")
def rank_byte(discs, shift):
    """The bits of the rank that begins at bit ``shift``, file a lowest."""
    return (discs >> shift) & np.uint64(0xFF)


@kernel("uint64(uint64, uint64)")
def file_byte(discs, shift):
    """The bits of the file that begins at bit ``shift``, rank 1 lowest."""
    return (((discs >> shift) & _A_FILE) * _GATHER) >> LAST_RANK


@kernel()
def _edge(ev, own, other):
    """The number of an edge, from the bits of its eight squares for both sides."""
    return load_i16(ev.ternary, int64(own) * int64(2)) + int64(2) * load_i16(ev.ternary, int64(other) * int64(2))


@kernel()
def _two_edges(ev, first, second, mover_chooses):
    """Value of two edges for the mover: one side chooses where it plays first, and is second on the other edge."""
    here = load_i16(ev.edges, first * int64(4)) + load_i16(ev.edges, second * int64(4) + int64(2))
    there = load_i16(ev.edges, first * int64(4) + int64(2)) + load_i16(ev.edges, second * int64(4))
    return max(here, there) if mover_chooses else min(here, there)


@kernel()
def _corner(ev, mover, opponent, first, first_end, second, second_end, corner, x_square, move):
    """Value of a corner: its two edges, corrected for what an x-square disc gives away."""
    existing = float64(_two_edges(ev, first, second, True))
    x_bit = ONE << uint64(x_square)
    if (mover | opponent) & x_bit == ZERO or (mover | opponent) & (ONE << uint64(corner)) != ZERO:
        return existing
    mine = mover & x_bit != ZERO
    side = int64(1) if mine else int64(0)  # who takes the corner
    new_first = load_i16(ev.taken, ((first_end * int64(2) + side) * int64(EDGES) + first) * int64(2))
    new_second = load_i16(ev.taken, ((second_end * int64(2) + side) * int64(EDGES) + second) * int64(2))
    change = float64(_two_edges(ev, new_first, new_second, mine)) - existing
    if (change < 0.0) != mine:
        return existing  # the owner of the x-square does not mind
    turned = flips_of(opponent, mover, corner) if mine else flips_of(mover, opponent, corner)
    chance = 1.0 if turned & x_bit != ZERO else 1.0 - move / 120.0
    return existing + CORNER_FACTOR * chance * change


@kernel()
def corner_sum(ev, mover, opponent, move):
    """The four corner values, at most 62,400 without x-squares: EdgeStability before it is brought to ±1000."""
    top = _edge(ev, rank_byte(mover, ZERO), rank_byte(opponent, ZERO))
    bottom = _edge(ev, rank_byte(mover, LAST_RANK), rank_byte(opponent, LAST_RANK))
    left = _edge(ev, file_byte(mover, ZERO), file_byte(opponent, ZERO))
    right = _edge(ev, file_byte(mover, SEVEN), file_byte(opponent, SEVEN))
    zero, one = int64(0), int64(1)
    total = _corner(ev, mover, opponent, top, zero, left, zero, int64(0), int64(9), move)
    total += _corner(ev, mover, opponent, top, one, right, zero, int64(7), int64(14), move)
    total += _corner(ev, mover, opponent, bottom, zero, left, one, int64(56), int64(49), move)
    return total + _corner(ev, mover, opponent, bottom, one, right, one, int64(63), int64(54), move)


@kernel("uint64(uint64)")
def anchored_discs(discs):
    """One side's stable discs as IAGO finds them: grown from its corners.

    A disc joins if along each of the four lines through it one neighbour is off the board or has already joined.
    """
    stable = discs & CORNERS
    while True:
        rank = ~(NOT_A_FILE & NOT_H_FILE) | ((stable << ONE) & NOT_A_FILE) | ((stable >> ONE) & NOT_H_FILE)
        file = np.uint64(0xFF000000000000FF) | (stable << EIGHT) | (stable >> EIGHT)
        rising = BORDER | ((stable << SEVEN) & NOT_H_FILE) | ((stable >> SEVEN) & NOT_A_FILE)
        falling = BORDER | ((stable << NINE) & NOT_A_FILE) | ((stable >> NINE) & NOT_H_FILE)
        grown = discs & rank & file & rising & falling
        if grown == stable:
            return stable
        stable = grown


@kernel("int64(uint64, uint64)")
def internal_stability(mover, opponent):
    """Stable discs off the edges, the mover's less the opponent's."""
    if (mover | opponent) & CORNERS == ZERO:
        return int64(0)
    return popcount(anchored_discs(mover) & ~BORDER) - popcount(anchored_discs(opponent) & ~BORDER)


# --- mobility --------------------------------------------------------------------------------------------------------


@kernel("int64(int64, int64)")
def compared(own, other):
    """The paper's equation 1: two counts as one number in ±1000, in which 4 to 1 is more than 15 to 11."""
    return int64(1000.0 * (own - other) / (own + other + 2))  # towards 0


@kernel("int64(uint64, uint64)")
def current_mobility(mover, opponent):
    """Squares that only one side can play count twice for it, those that both can once for each."""
    mine, theirs = legal_of(mover, opponent), legal_of(opponent, mover)
    return compared(popcount(mine) + popcount(mine & ~theirs), popcount(theirs) + popcount(theirs & ~mine))


@kernel("int64(uint64, uint64)")
def contacts(discs, empty):
    """Pairs of a disc and an empty square next to each other."""
    left, right = (discs << ONE) & NOT_A_FILE, (discs >> ONE) & NOT_H_FILE
    total = popcount(left & empty) + popcount(right & empty)
    for row in (left, discs, right):
        total += popcount((row << EIGHT) & empty) + popcount((row >> EIGHT) & empty)
    return total


@kernel("int64(uint64, uint64)")
def potential_mobility(mover, opponent):
    """Three measures, each compared and then summed, in ±3000. What the other side's discs have is a side's own good:
    frontier discs, empty squares beside discs, and for each disc the empty squares beside it."""
    empty = ~(mover | opponent)
    near = neighbours(empty)
    total = compared(popcount(opponent & near), popcount(mover & near))
    total += compared(popcount(neighbours(opponent) & empty), popcount(neighbours(mover) & empty))
    return total + compared(contacts(opponent, empty), contacts(mover, empty))


# --- all of it -------------------------------------------------------------------------------------------------------


@kernel("int64(int64)")
def mobility_coefficient(move):
    """CMAC."""
    return int64(50) + int64(2) * move if move <= int64(25) else int64(75) + move


@kernel()
def iago_value(ev, mover, opponent, empties):
    """Eval for the mover, in IAGO's units."""
    move = int64(60) - empties
    value = (5.0 + 0.1 * move) * corner_sum(ev, mover, opponent, move)
    value += INTERNAL * internal_stability(mover, opponent)
    value += mobility_coefficient(move) * current_mobility(mover, opponent)
    return value + POTENTIAL * potential_mobility(mover, opponent)


@kernel()
def iago_values(ev, movers, opponents, values):
    """``iago_value`` of each position, [N] float64."""
    for i in range(movers.size):
        values[i] = iago_value(ev, movers[i], opponents[i], int64(64) - popcount(movers[i] | opponents[i]))


@kernel()
def _score(ev, features, mover, opponent, empties):
    # x / (1 + |x|) flattens slowly: the highest values that there are still differ by whole units.
    value = iago_value(ev, mover, opponent, empties)
    return int64(np.rint(LEAF_LIMIT * value / (abs(value) + SCALE)))


Iago.begin, Iago.child, Iago.score = no_begin, no_child, _score  # type: ignore[attr-defined]


@dataclass(frozen=True, eq=False)
class IagoEvaluator:
    """The evaluator with the tables it looks into."""

    name: str = "iago"
    tables: tuple[np.ndarray, ...] = field(default_factory=lambda: _tables())
    probcut = None

    @property
    def leaf(self) -> Iago:
        return Iago(*(table.ctypes.data for table in self.tables))

    def values(self, movers: np.ndarray, opponents: np.ndarray) -> np.ndarray:
        """[N] float64: Eval of positions [N] uint64 in IAGO's units."""
        values = np.empty(len(movers))
        iago_values(self.leaf, movers, opponents, values)
        return values


def _tables() -> tuple[np.ndarray, ...]:
    """The memory behind the fields of ``Iago``."""
    ternary = (np.arange(256)[:, None] >> np.arange(8) & 1) @ 3 ** np.arange(8)
    values = edge_values()
    edges = np.stack([values, -values[inverse_edges()]], axis=1)
    taken = edges_after()[:, [0, 7]].swapaxes(0, 1)
    return tuple(np.ascontiguousarray(table, np.int16) for table in (ternary, edges, taken))


@cache
def iago_evaluator() -> IagoEvaluator:
    """The one evaluator that all players share."""
    return IagoEvaluator()
