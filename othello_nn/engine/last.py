"""The last four empty squares, where an exact solver spends most of its time: straight-line code, no memory touched.

Scores are discs for the mover, fail-soft: a result ≤ alpha is an upper bound, one ≥ beta a lower bound, between them
it is exact. The squares come in the order in which to try them: those in quarters with an odd number of empties
first, since the player who moves last in a region keeps it. ``endgame.py`` calls ``last4``, or ``last_squares`` where
a search begins with fewer.

Each function returns its score only; nodes are counted by the caller through ``counter``, the address of an int64.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import int64, types, uint64

from othello_nn.kernels.bits import (
    I8,
    I64,
    flips_of,
    intrinsic,
    load_i64,
    lowest_square,
    popcount,
    ray_masks,
    store_i64,
)
from othello_nn.kernels.board import ONE, ZERO, after, final_score, odd_regions
from othello_nn.kernels.jit import kernel

NO_SCORE = np.int64(-99)


def _line_flips() -> list[int]:
    """``[8 · 256]``: discs turned by a move at position i of a line that is full but for i, given the mover's discs."""
    table = []
    for position in range(8):
        for discs in range(256):
            count = 0
            for step in (1, -1):
                run, at = 0, position + step
                while 0 <= at < 8 and not discs >> at & 1:
                    run, at = run + 1, at + step
                if 0 <= at < 8:
                    count += run
            table.append(count)
    return table


def _constant_array(module, name, kind, values, align):
    if name in module.globals:
        return module.globals[name]
    array = ir.ArrayType(kind, len(values))
    variable = ir.GlobalVariable(module, array, name)
    variable.linkage, variable.global_constant, variable.align = "internal", True, align
    variable.initializer = ir.Constant(array, [ir.Constant(kind, v) for v in values])
    return variable


def _diagonal_masks() -> list[int]:
    """``[64 · 2]``: both diagonals through each square, without the square itself."""
    masks = []
    for square in range(64):
        higher, lower = ray_masks(square)
        masks += [higher[2] | lower[2], higher[3] | lower[3]]
    return masks


@intrinsic
def last_flips(typingctx, mover, square):
    """Discs turned by ``mover`` on the only empty square: four lines, packed into bytes and looked up."""

    def codegen(context, builder, signature, args):
        board, at = args
        zero = ir.Constant(I64, 0)
        module = builder.module
        flips = _constant_array(module, "othello_nn.line_flips", I8, _line_flips(), 64)
        diagonals = _constant_array(module, "othello_nn.diagonals", I64, _diagonal_masks(), 64)

        def constant(value):
            return ir.Constant(I64, value)

        def count(position, packed):
            index = builder.add(builder.shl(position, constant(8)), packed)
            return builder.zext(builder.load(builder.gep(flips, [zero, index], inbounds=True)), I64)

        file, rank = builder.and_(at, constant(7)), builder.lshr(at, constant(3))
        row = builder.and_(builder.lshr(board, builder.and_(at, constant(56))), constant(255))
        column = builder.and_(builder.lshr(board, file), constant(0x0101010101010101))
        column = builder.lshr(builder.mul(column, constant(0x0102040810204080)), constant(56))
        total = builder.add(count(file, row), count(rank, column))
        first = builder.shl(at, constant(1))
        for i in (0, 1):
            index = builder.add(first, constant(i))
            mask = builder.load(builder.gep(diagonals, [zero, index], inbounds=True))
            line = builder.lshr(builder.mul(builder.and_(board, mask), constant(0x0101010101010101)), constant(56))
            total = builder.add(total, count(file, line))
        return total

    return types.int64(types.uint64, types.int64), codegen


@kernel("int64(uint64, int64)")
def last1(mover, square):
    """One empty square left."""
    discs = popcount(mover)
    turned = last_flips(mover, square)
    if turned > int64(0):
        return 2 * (discs + turned) - 62
    turned = last_flips(~mover ^ (ONE << uint64(square)), square)
    if turned > int64(0):
        return 2 * (discs - turned) - 64
    if 2 * discs > 63:
        return 2 * discs - 62
    return 2 * discs - 64


@kernel("int64(uint64, uint64, int64, int64, int64, int64)")
def last2(mover, opponent, alpha, beta, first, second):
    turned = flips_of(mover, opponent, first)
    best = NO_SCORE
    if turned != ZERO:
        best = -last1(opponent ^ turned, second)
        if best >= beta:
            return best
    turned = flips_of(mover, opponent, second)
    if turned != ZERO:
        return max(best, -last1(opponent ^ turned, first))
    if best != NO_SCORE:
        return best
    # A pass: the same for the other side, whose result is negated.
    turned = flips_of(opponent, mover, first)
    best = -NO_SCORE
    if turned != ZERO:
        best = last1(mover ^ turned, second)
        if best <= alpha:
            return best
    turned = flips_of(opponent, mover, second)
    if turned != ZERO:
        return min(best, last1(mover ^ turned, first))
    if best != -NO_SCORE:
        return best
    return final_score(mover, opponent)


@kernel("int64(uint64, uint64, int64, int64, int64, int64, int64)")
def _last3_moves(mover, opponent, alpha, beta, first, second, third):
    """Best over the moves on three squares, ``NO_SCORE`` if there is none."""
    best = NO_SCORE
    turned = flips_of(mover, opponent, first)
    if turned != ZERO:
        next_mover, next_opponent = after(mover, opponent, first, turned)
        best = -last2(next_mover, next_opponent, -beta, -alpha, second, third)
        if best >= beta:
            return best
    turned = flips_of(mover, opponent, second)
    if turned != ZERO:
        next_mover, next_opponent = after(mover, opponent, second, turned)
        score = -last2(next_mover, next_opponent, -beta, -max(alpha, best), first, third)
        if score >= beta:
            return score
        best = max(best, score)
    turned = flips_of(mover, opponent, third)
    if turned != ZERO:
        next_mover, next_opponent = after(mover, opponent, third, turned)
        score = -last2(next_mover, next_opponent, -beta, -max(alpha, best), first, second)
        best = max(best, score)
    return best


@kernel("int64(uint64, uint64, int64, int64, int64)")
def last3(mover, opponent, alpha, beta, counter):
    empty = ~(mover | opponent)
    odd = empty & odd_regions(empty)
    rest = empty ^ odd
    # Three in one quarter or one each: any order; else the single one first, then the pair.
    if odd == ZERO:
        odd, rest = rest, odd
    first = lowest_square(odd)
    rest |= odd & (odd - ONE)
    second = lowest_square(rest)
    third = lowest_square(rest & (rest - ONE))
    store_i64(counter, int64(0), load_i64(counter, int64(0)) + int64(4))
    best = _last3_moves(mover, opponent, alpha, beta, first, second, third)
    if best != NO_SCORE:
        return best
    best = _last3_moves(opponent, mover, -beta, -alpha, first, second, third)
    if best != NO_SCORE:
        return -best
    return final_score(mover, opponent)


@kernel("int64(uint64, uint64, int64, int64, int64, uint64)")
def _last4_moves(mover, opponent, alpha, beta, counter, empty):
    best = NO_SCORE
    group = empty & odd_regions(empty)
    rest = empty ^ group
    if group == ZERO:
        group, rest = rest, group
    while True:
        while group != ZERO:
            square = lowest_square(group)
            group &= group - ONE
            turned = flips_of(mover, opponent, square)
            if turned != ZERO:
                next_mover, next_opponent = after(mover, opponent, square, turned)
                score = -last3(next_mover, next_opponent, -beta, -max(alpha, best), counter)
                if score > best:
                    best = score
                    if best >= beta:
                        return best
        if rest == ZERO:
            return best
        group, rest = rest, ZERO


@kernel("int64(uint64, uint64, int64, int64, int64)")
def last4(mover, opponent, alpha, beta, counter):
    """Four empty squares left."""
    empty = ~(mover | opponent)
    best = _last4_moves(mover, opponent, alpha, beta, counter, empty)
    if best != NO_SCORE:
        return best
    best = _last4_moves(opponent, mover, -beta, -alpha, counter, empty)
    if best != NO_SCORE:
        return -best
    return final_score(mover, opponent)


@kernel("int64(uint64, uint64, int64, int64, int64, int64)")
def last_squares(mover, opponent, alpha, beta, empties, counter):
    """At most four empty squares left: where a search starts that late."""
    if empties == int64(4):
        return last4(mover, opponent, alpha, beta, counter)
    if empties == int64(3):
        return last3(mover, opponent, alpha, beta, counter)
    empty = ~(mover | opponent)
    if empties == int64(2):
        return last2(mover, opponent, alpha, beta, lowest_square(empty), lowest_square(empty & (empty - ONE)))
    if empties == int64(1):
        return last1(mover, lowest_square(empty))
    return final_score(mover, opponent)
