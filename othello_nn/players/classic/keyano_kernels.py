"""What KEYANO looks at, as kernels: flipping directions, regions a side has lost, sums of pattern values.

The mobility terms are computed from the board at every leaf, bit-parallel; the patterns are lanes of features that the
search keeps up to date from move to move (``engine/leaf/lanes.py``). ``keyano.py`` owns the numbers that are looked up.

* Approximate mobility counts pairs of an empty square and a direction in which a disc put there would flip others. The
  eight directions are eight boards; added up like binary numbers, square by square, they are four.
* An empty region is a set of empty squares connected in the eight directions. A side that can play into it neither now
  nor with the second of two moves in a row has lost it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import int64, types

from othello_nn.engine.leaf.lanes import emit_cells, emit_sum, feature_kernels, named_intrinsic
from othello_nn.engine.leaf.shapes import Shapes, symmetric_placements
from othello_nn.engine.score import LEAF_LIMIT, SCORE_DISC
from othello_nn.game.syntax import parse_square
from othello_nn.kernels.bits import (
    I16,
    I32,
    I64,
    emit_ends,
    intrinsic,
    legal_of,
    load_i32,
    lowest_square,
    popcount,
)
from othello_nn.kernels.board import ONE, ZERO, neighbours, play
from othello_nn.kernels.jit import kernel

COUNTS = 36  # entries of a curve: 0…34, and 35 or more
QUARTERS = tuple(np.uint64(0x0F0F0F0F << shift) for shift in (0, 4, 32, 36))
UNIT = SCORE_DISC  # table values and curves are in 1/UNIT
WEIGHT_UNIT = 1 << 16  # weights are in 1/WEIGHT_UNIT
TERMS = ("mobility", "vectors", "corners", "edges")
WEIGHTS = len(TERMS) + 1  # one for each term, and a constant


def _squares(names: str) -> tuple[int, ...]:
    return tuple(parse_square(name) for name in names.split())


# The last square of a list is the most significant digit of its index.
PATTERNS = {
    "edge": _squares("a1 b1 c1 d1 e1 f1 g1 h1"),
    "second rank": _squares("a2 b2 c2 d2 e2 f2 g2 h2"),
    "diagonal of 8": _squares("a1 b2 c3 d4 e5 f6 g7 h8"),
    "diagonal of 7": _squares("b1 c2 d3 e4 f5 g6 h7"),
    "corner": _squares("a1 b1 c1 a2 b2 c2 a3 b3 c3"),
    "inner edge": _squares("b1 c1 d1 e1 f1 g1 c2 d2 e2 f2"),
    "outer edge": _squares("a1 b1 c1 d1 e1 f1 g1 h1 b2 g2"),
}
SHAPES = Shapes.symmetric(tuple(PATTERNS.values()))
VECTOR_LANES, CORNER_LANES, EDGE_LANES = 14, 4, 4
# The squares that decide between the two edges, in the order of the edges' lanes: while corners and X-squares are empty
# the inner one is looked up, which has the four squares behind the edge instead.
EDGE_ENDS = tuple(sum(1 << square for square in image) for image in symmetric_placements(_squares("a1 h1 b2 g2")))


# --- mobility --------------------------------------------------------------------------------------------------------


def _add(builder, *bits):
    """Sum and carry of two or three boards of binary digits."""
    total, carry = builder.xor(bits[0], bits[1]), builder.and_(bits[0], bits[1])
    if len(bits) == 3:
        carry = builder.or_(carry, builder.and_(total, bits[2]))
        total = builder.xor(total, bits[2])
    return total, carry


@intrinsic
def direction_planes(typingctx, mover, opponent):
    """In how many directions a move of ``mover`` flips discs: boards of the binary digits 1, 2, 4 and 8."""

    def codegen(context, builder, signature, args):
        free = builder.not_(builder.or_(*args))
        ends = [
            [builder.and_(builder.extract_element(end, ir.Constant(I32, lane)), free) for lane in range(4)]
            for end in emit_ends(builder, *args)
        ]
        ones, twos = zip(*(_add(builder, *both) for both in zip(*ends, strict=True)), strict=True)
        first, carry_1 = _add(builder, *ones[:3])
        first, carry_2 = _add(builder, first, ones[3])
        left, carry_3 = _add(builder, *twos[:3])
        right, carry_4 = _add(builder, twos[3], carry_1, carry_2)
        second, carry_5 = _add(builder, left, right)
        planes = first, second, *_add(builder, carry_3, carry_4, carry_5)
        return context.make_tuple(builder, signature.return_type, planes)

    return types.UniTuple(types.uint64, 4)(types.uint64, types.uint64), codegen


@kernel("int64(UniTuple(uint64, 4), uint64)")
def count_in(planes, part):
    """The sum of the binary numbers on the squares of ``part``."""
    ones, twos = popcount(planes[0] & part), popcount(planes[1] & part)
    return ones + int64(2) * twos + int64(4) * popcount(planes[2] & part) + int64(8) * popcount(planes[3] & part)


@kernel("int64(int64, UniTuple(uint64, 4))")
def curve_value(curves, planes):
    """What so many directions are worth, over the whole board and in each quarter; ``curves`` is [2, COUNTS] int32."""
    value, whole = int64(0), int64(0)
    for quarter in QUARTERS:
        count = count_in(planes, quarter)
        value += load_i32(curves, int64(4) * (int64(COUNTS) + min(count, int64(COUNTS - 1))))
        whole += count
    return value + load_i32(curves, int64(4) * min(whole, int64(COUNTS - 1)))


@kernel("uint64(uint64, uint64)")
def connected(squares, empty):
    """All empty squares of the regions that ``squares``, themselves empty, lie in."""
    while True:
        grown = neighbours(squares) & empty
        if grown == squares or empty & ~grown == ZERO:  # mostly all is one region: no need to look once more
            return grown
        squares = grown


@kernel("int64(uint64, uint64, uint64)")
def lost_regions(mover, opponent, moves):
    """How many regions ``mover``, whose moves are given, cannot enter, not even with the second of two moves."""
    empty = ~(mover | opponent)
    rest = empty & ~connected(moves, empty)
    beside = neighbours(opponent)  # a square without an opposing disc beside it has none after a move either
    while moves != ZERO and rest & beside != ZERO:
        square = lowest_square(moves)
        moves &= moves - ONE
        theirs, mine = play(mover, opponent, square)
        entered = legal_of(mine, theirs) & rest
        if entered != ZERO:
            rest &= ~connected(entered, empty)
    lost = int64(0)
    while rest != ZERO:
        rest &= ~connected(rest & (~rest + ONE), empty)
        lost += int64(1)
    return lost


# --- patterns --------------------------------------------------------------------------------------------------------


def _sum_of(count: int):
    def sum_cells(typingctx, features, origins, weights):
        """Σ over the next ``count`` lanes of their cells."""

        def codegen(context, builder, signature, args):
            cells = emit_cells(builder, count, I16, *args)
            return builder.sext(emit_sum(builder, (builder.sext(cell, I32) for cell in cells), builder.add), I64)

        return types.int64(types.int64, types.int64, types.int64), codegen

    return named_intrinsic(sum_cells, count)


vector_sum, corner_sum = _sum_of(VECTOR_LANES), _sum_of(CORNER_LANES)


@intrinsic
def edge_sum(typingctx, features, origins, weights, discs):
    """Σ over the four edges of the one pattern of two that its corners and X-squares ask for."""

    def codegen(context, builder, signature, args):
        *where, discs = args
        cells = [builder.sext(cell, I32) for cell in emit_cells(builder, 2 * EDGE_LANES, I16, *where)]
        chosen = []
        for inner, outer, ends in zip(cells[:EDGE_LANES], cells[EDGE_LANES:], EDGE_ENDS, strict=True):
            bare = builder.icmp_unsigned("==", builder.and_(discs, ir.Constant(I64, ends)), ir.Constant(I64, 0))
            chosen.append(builder.select(bare, inner, outer))
        return builder.sext(emit_sum(builder, chosen, builder.add), I64)

    return types.int64(types.int64, types.int64, types.int64, types.uint64), codegen


# --- the evaluator ---------------------------------------------------------------------------------------------------


class Keyano(NamedTuple):
    """Fields of the evaluator: addresses (``keyano.KeyanoEvaluator`` owns the memory) and the parity term's weight."""

    deltas: int  # see lanes.py
    origins: int
    weights: int  # [cells] int16: the pattern values, in 1/UNIT of a disc
    stages: int
    curves: int  # [2, COUNTS] int32: whole board, quarter, in 1/UNIT
    coefficients: int  # [65, WEIGHTS] int32 by empties, in 1/WEIGHT_UNIT
    parity: int  # what a lost region costs, in 1/UNIT


@kernel()
def keyano_terms(ev, features, mover, opponent):
    """The four terms for the mover, in 1/UNIT."""
    mine, theirs = direction_planes(mover, opponent), direction_planes(opponent, mover)
    my_moves, their_moves = mine[0] | mine[1] | mine[2] | mine[3], theirs[0] | theirs[1] | theirs[2] | theirs[3]
    mobility = curve_value(ev.curves, mine) - curve_value(ev.curves, theirs)
    if ev.parity != int64(0):  # it is the dearest part
        lost = lost_regions(mover, opponent, my_moves) - lost_regions(opponent, mover, their_moves)
        mobility -= ev.parity * lost
    vectors = vector_sum(features, ev.origins, ev.weights)
    lane = int64(VECTOR_LANES)
    corners = corner_sum(features + int64(2) * lane, ev.origins + int64(4) * lane, ev.weights)
    lane += int64(CORNER_LANES)
    edges = edge_sum(features + int64(2) * lane, ev.origins + int64(4) * lane, ev.weights, mover | opponent)
    return mobility, vectors, corners, edges


@kernel()
def _keyano_score(ev, features, mover, opponent, empties):
    mobility, vectors, corners, edges = keyano_terms(ev, features, mover, opponent)
    row = ev.coefficients + empties * int64(4 * WEIGHTS)
    total = load_i32(row, int64(0)) * mobility + load_i32(row, int64(4)) * vectors
    total += load_i32(row, int64(8)) * corners + load_i32(row, int64(12)) * edges
    total += load_i32(row, int64(16)) * int64(UNIT)
    score = int64(np.rint(total / WEIGHT_UNIT))
    return min(max(score, int64(-LEAF_LIMIT)), int64(LEAF_LIMIT))


Keyano.begin, Keyano.child = feature_kernels(SHAPES.lanes)  # type: ignore[attr-defined]
Keyano.score = _keyano_score  # type: ignore[attr-defined]
