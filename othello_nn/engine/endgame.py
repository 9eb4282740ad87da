"""The end of the game without an evaluator: exact scores in discs, from a dozen empties down.

``end_node`` is the working horse of every exact solve. It sorts moves so that the opponent is left with the fewest
replies (fastest first) and prefers quarters with an odd number of empties; cuts by stable discs and the transposition
table; and hands over to ``last5``, which only orders by parity, and ``last.py`` for the last four squares. Above
``EVALUATOR_EMPTIES`` squares ``midgame.py`` orders moves better, with an evaluator.

Scores are fail-soft: ≤ alpha an upper bound, ≥ beta a lower bound, in between exact.
"""

from __future__ import annotations

from numba import int64, uint64

from othello_nn.engine.last import NO_SCORE, last4, last_squares
from othello_nn.engine.ordering import take_best
from othello_nn.engine.score import NO_MOVE, SCORE_DISC
from othello_nn.engine.ttable import (
    bucket_address,
    data_depth,
    data_lower,
    data_move,
    data_selectivity,
    data_upper,
    table_probe,
    table_store,
)
from othello_nn.engine.workspace import (
    ABORTED,
    FRAME_BYTES,
    FRAMES,
    MOVE_BYTES,
    NODES,
    TABLE,
    TABLE_AGE,
    TABLE_MASK,
    must_stop,
)
from othello_nn.kernels.bits import (
    flips_of,
    legal_of,
    load_i64,
    load_u64,
    lowest_square,
    popcount,
    store_i64,
    store_u64,
)
from othello_nn.kernels.board import CORNERS, ONE, ZERO, after, final_score, neighbours, odd_regions, stable_discs
from othello_nn.kernels.jit import kernel

ETC_EMPTIES = 11
TABLE_EMPTIES = 9
DISC = SCORE_DISC


@kernel("int64(uint64, uint64, int64, int64, int64)")
def last5(mover, opponent, alpha, beta, workspace):
    """Five empties: parity ordering alone."""
    store_i64(workspace, int64(NODES), load_i64(workspace, int64(NODES)) + int64(1))
    moves = legal_of(mover, opponent)
    if moves == ZERO:
        if legal_of(opponent, mover) == ZERO:
            return final_score(mover, opponent)
        return -last5(opponent, mover, int64(-beta), int64(-alpha), workspace)
    best = NO_SCORE
    group = moves & odd_regions(~(mover | opponent))
    rest = moves ^ group
    if group == ZERO:
        group, rest = rest, group
    while True:
        while group != ZERO:
            square = lowest_square(group)
            group &= group - ONE
            turned = flips_of(mover, opponent, square)
            next_mover, next_opponent = after(mover, opponent, square, turned)
            score = -last4(next_mover, next_opponent, int64(-beta), int64(-max(alpha, best)), workspace)
            if score > best:
                best = score
                if best >= beta:
                    return best
        if rest == ZERO:
            return best
        group, rest = rest, ZERO


@kernel("int64(uint64, uint64, int64)")
def stability_bound(mover, opponent, alpha):
    """An upper bound of the mover's score from the opponent's stable discs; 64 where they cannot matter for alpha."""
    if 64 - 2 * popcount(opponent) > alpha or opponent & CORNERS == ZERO:
        return int64(64)
    return 64 - 2 * popcount(stable_discs(opponent, mover))


@kernel("int64(uint64, uint64, int64, int64, int64, int64)")
def end_node(mover, opponent, alpha, beta, empties, workspace):
    """Exact score of a position, by fail-soft alpha-beta."""
    if empties <= int64(5):
        if empties == int64(5):
            return last5(mover, opponent, alpha, beta, workspace)
        return last_squares(mover, opponent, alpha, beta, empties, workspace)
    if must_stop(workspace):
        return int64(0)
    # 1. Stable discs.
    bound = stability_bound(mover, opponent, alpha)
    if bound <= alpha:
        return bound
    # 2. Moves, passes, the end.
    moves = legal_of(mover, opponent)
    if moves == ZERO:
        if legal_of(opponent, mover) == ZERO:
            return final_score(mover, opponent)
        return -end_node(opponent, mover, int64(-beta), int64(-alpha), empties, workspace)
    # 3. What the table knows.
    table, mask = load_i64(workspace, int64(TABLE)), load_u64(workspace, int64(TABLE_MASK))
    bucket = bucket_address(table, mask, mover, opponent)
    table_move = int64(NO_MOVE)
    data = ZERO
    if empties >= int64(TABLE_EMPTIES):
        data = table_probe(bucket, mover, opponent)
    if data != ZERO:
        table_move = data_move(data)
        if data_depth(data) == empties and data_selectivity(data) == int64(0):
            lower, upper = data_lower(data) // DISC, data_upper(data) // DISC
            if lower >= beta or lower == upper:
                return lower
            if upper <= alpha:
                return upper
    # 4. Order the moves; with enough empties, ask the table about each child first.
    frame = workspace + int64(FRAMES) + empties * int64(FRAME_BYTES)
    odd = odd_regions(~(mover | opponent))
    count = int64(0)
    while moves != ZERO:
        square = lowest_square(moves)
        moves &= moves - ONE
        turned = flips_of(mover, opponent, square)
        next_mover, next_opponent = after(mover, opponent, square, turned)
        if empties > int64(ETC_EMPTIES):
            child = table_probe(bucket_address(table, mask, next_mover, next_opponent), next_mover, next_opponent)
            if child != ZERO and data_depth(child) == empties - 1 and data_selectivity(child) == int64(0):
                score = -(data_upper(child) // DISC)
                if score >= beta:
                    return score
        if square == table_move:
            key = int64(1 << 20)
        else:
            replies = legal_of(next_mover, next_opponent)
            key = -(popcount(replies) + popcount(replies & CORNERS)) * int64(16)
            key -= popcount(neighbours(next_opponent) & ~(next_mover | next_opponent)) * int64(2)
            if (ONE << uint64(square)) & odd != ZERO:
                key += int64(8)
        offset = count * int64(MOVE_BYTES)
        store_i64(frame, offset, (key << int64(8)) | square)
        store_u64(frame, offset + int64(8), turned)
        count += int64(1)
    # 5. Search.
    best, best_move = NO_SCORE, int64(NO_MOVE)
    here = frame
    while count > int64(0):
        square = take_best(here, count) & int64(255)
        turned = load_u64(here, int64(8))
        here += int64(MOVE_BYTES)
        count -= int64(1)
        next_mover, next_opponent = after(mover, opponent, square, turned)
        low = max(alpha, best)
        score = -end_node(next_mover, next_opponent, int64(-beta), int64(-low), int64(empties - 1), workspace)
        if load_i64(workspace, int64(ABORTED)) != int64(0):
            return int64(0)
        if score > best:
            best, best_move = score, square
            if best >= beta:
                break
    # 6. Remember.
    if empties >= int64(TABLE_EMPTIES):
        table_store(
            bucket,
            mover,
            opponent,
            alpha * DISC,
            beta * DISC,
            best * DISC,
            best_move,
            empties,
            int64(0),
            load_i64(workspace, int64(TABLE_AGE)),
        )
    return best
