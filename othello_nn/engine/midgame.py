"""Alpha-beta with an evaluator at its leaves: one recursive routine for the midgame and for high empties.

``node`` searches to a depth, or, when the depth reaches the end of the game, exactly, handing over to
``endgame.end_node`` for the last ``END_EMPTIES`` squares. It is compiled once for each evaluator class. ``root`` is
the same for the first ply, where the caller keeps the moves' order and values. Scores are units of ``SCORE_DISC`` a
disc for the side to move, fail-soft.

What a search needs besides the position is in its thread's ``workspace``; drivers, limits and threads are in
``driver.py``.
"""

from __future__ import annotations

from numba import int64, uint64

from othello_nn.engine.endgame import end_node, stability_bound
from othello_nn.engine.leaf.door import leaf_begin, leaf_child, leaf_order_depth, leaf_score
from othello_nn.engine.ordering import learnt_key, note_cut, rate_responses, square_key, take_best, turn_side
from othello_nn.engine.probcut import NOT_CUT, SLOPE
from othello_nn.engine.score import NO_MOVE, SCORE_DISC, SCORE_MAX
from othello_nn.engine.threads import busy_slot, enter, is_busy, leave
from othello_nn.engine.ttable import (
    bucket_address,
    data_depth,
    data_lower,
    data_move,
    data_selectivity,
    data_upper,
    table_prefetch,
    table_probe,
    table_store,
)
from othello_nn.engine.workspace import (
    ABORTED,
    BUSY,
    CHILD_CUTS,
    EVALUATOR_ORDER,
    FRAME_BYTES,
    FRAME_FEATURES,
    FRAMES,
    INTERNAL_DEEPENING,
    MOBILITY_ORDER,
    MOVE_BYTES,
    NODES,
    NULL_WINDOWS,
    PASS_COSTS,
    PROBCUT,
    PROBCUT_CUTS,
    PROBCUT_T,
    RATED_RESPONSES,
    ROOT_DONE,
    SELECTIVITY,
    SQUARE_ORDER,
    STABILITY_CUTS,
    SWITCHES,
    TABLE,
    TABLE_AGE,
    TABLE_CUTS,
    TABLE_MASK,
    TABLE_MOVE,
    TABLE_MOVE_EMPTIES,
    must_stop,
)
from othello_nn.kernels.bits import (
    flips_of,
    legal_of,
    load_i32,
    load_i64,
    load_u64,
    lowest_square,
    popcount,
    store_i64,
    store_u64,
)
from othello_nn.kernels.board import CORNERS, ONE, ZERO, after, final_score, odd_regions
from othello_nn.kernels.jit import kernel

INFINITY = SCORE_MAX + 1
END_EMPTIES = 11  # from here on the evaluator no longer pays for itself
CHILD_CUT_DEPTH = 4
DEEPENING_DEPTH = 6
SHARED_DEPTH = 12  # nodes of at least this depth are divided among threads
PUT_OFF = -(1 << 44)  # keys below it belong to moves put off once
PROBCUT_ROW = 16  # bytes; see probcut.rows


@kernel()
def frontier(ev, workspace, mover, opponent, moves, alpha, beta, empties):
    """Depth 1: every move's leaf, no ordering, no table."""
    frame = workspace + int64(FRAMES) + empties * int64(FRAME_BYTES) + int64(FRAME_FEATURES)
    below = frame - int64(FRAME_BYTES)
    best = int64(-INFINITY)
    nodes = int64(0)
    while moves != ZERO:
        square = lowest_square(moves)
        moves &= moves - ONE
        turned = flips_of(mover, opponent, square)
        next_mover, next_opponent = after(mover, opponent, square, turned)
        nodes += int64(1)
        if next_mover == ZERO:
            best = int64(SCORE_MAX)
            break
        leaf_child(ev, below, frame, square, turned)
        score = -leaf_score(ev, below, next_mover, next_opponent, int64(empties - int64(1)))
        if score > best:
            best = score
            if best >= beta:
                break
    store_i64(workspace, int64(NODES), load_i64(workspace, int64(NODES)) + nodes)
    return best


@kernel()
def node(ev, workspace, mover, opponent, alpha, beta, depth, previous):
    """Score of a position whose features are in its frame. ``previous`` is the move that led here."""
    empties = int64(64) - popcount(mover | opponent)
    # 1. The end of the game is near: exact scores.
    if depth >= empties:
        depth = empties
        if empties <= int64(END_EMPTIES):
            low = alpha // int64(SCORE_DISC)
            high = -((-beta) // int64(SCORE_DISC))
            return end_node(mover, opponent, low, high, empties, workspace) * int64(SCORE_DISC)
    # 2. Out of time; out of depth.
    if must_stop(workspace):
        return int64(0)
    frame = workspace + int64(FRAMES) + empties * int64(FRAME_BYTES)
    features = frame + int64(FRAME_FEATURES)
    if depth <= int64(0):
        if mover == ZERO:  # wiped out
            return int64(-SCORE_MAX)
        return leaf_score(ev, features, mover, opponent, empties)
    # 3. No move: pass, or the game is over. A pass costs no depth, unless it is asked to.
    moves = legal_of(mover, opponent)
    if moves == ZERO:
        if legal_of(opponent, mover) == ZERO:
            return final_score(mover, opponent) * int64(SCORE_DISC)
        leaf_begin(ev, features, opponent, mover)
        switches = load_i64(workspace, int64(SWITCHES))
        if switches & PASS_COSTS and depth < empties:
            depth -= int64(1)
        if switches & RATED_RESPONSES:
            turn_side(workspace)
        score = -node(ev, workspace, opponent, mover, int64(-beta), int64(-alpha), depth, int64(NO_MOVE))
        if switches & RATED_RESPONSES:
            turn_side(workspace)
        return score
    if depth == int64(1):
        return frontier(ev, workspace, mover, opponent, moves, alpha, beta, empties)
    # 4. The opponent's stable discs bound the score.
    switches = load_i64(workspace, int64(SWITCHES))
    if switches & STABILITY_CUTS:
        bound = stability_bound(mover, opponent, alpha // int64(SCORE_DISC)) * int64(SCORE_DISC)
        if bound <= alpha:
            return bound
    # 5. What the table knows.
    table, mask = load_i64(workspace, int64(TABLE)), load_u64(workspace, int64(TABLE_MASK))
    selectivity = load_i64(workspace, int64(SELECTIVITY))
    bucket = bucket_address(table, mask, mover, opponent)
    table_move = int64(NO_MOVE)
    data = table_probe(bucket, mover, opponent)
    if data != ZERO:
        if switches & TABLE_MOVE and empties >= switches >> int64(TABLE_MOVE_EMPTIES):
            table_move = data_move(data)
        if switches & TABLE_CUTS and data_depth(data) >= depth and data_selectivity(data) <= selectivity:
            lower, upper = data_lower(data), data_upper(data)
            if lower >= beta or lower == upper:
                return lower
            if upper <= alpha:
                return upper
    # 6. ProbCut: a shallow search, or none, says that the deep one would almost surely leave the window.
    shallow, row = int64(NOT_CUT), int64(0)
    if switches & PROBCUT_CUTS and selectivity > int64(0) and beta - alpha == int64(1):
        row = load_i64(workspace, int64(PROBCUT)) + (empties * int64(65) + depth) * int64(PROBCUT_ROW)
        shallow = load_i32(row, int64(0))
    if shallow >= int64(0):
        deviation, offset, scale = load_i32(row, int64(4)), load_i32(row, int64(8)), load_i32(row, int64(12))
        margin = deviation * load_i64(workspace, int64(PROBCUT_T)) // int64(1024)
        static = leaf_score(ev, features, mover, opponent, empties)
        high, low = (beta + margin - offset) * scale // int64(SLOPE), (alpha - margin - offset) * scale // int64(SLOPE)
        if high < int64(SCORE_MAX) and static >= high - deviation:
            score = static
            if shallow > int64(0):
                score = node(ev, workspace, mover, opponent, int64(high - int64(1)), high, shallow, previous)
                if load_i64(workspace, int64(ABORTED)) != int64(0):
                    return int64(0)
            if score >= high:
                return beta
        if low > int64(-SCORE_MAX) and static <= low + deviation:
            score = static
            if shallow > int64(0):
                score = node(ev, workspace, mover, opponent, low, int64(low + int64(1)), shallow, previous)
                if load_i64(workspace, int64(ABORTED)) != int64(0):
                    return int64(0)
            if score <= low:
                return alpha
    # 7. No move from the table where one is worth having: find it with less depth.
    if (
        switches & INTERNAL_DEEPENING
        and table_move == int64(NO_MOVE)
        and depth >= int64(DEEPENING_DEPTH)
        and depth < empties
    ):
        node(ev, workspace, mover, opponent, alpha, beta, int64(depth - int64(4)), previous)
        if load_i64(workspace, int64(ABORTED)) != int64(0):
            return int64(0)
        data = table_probe(bucket, mover, opponent)
        if data != ZERO and switches & TABLE_MOVE:
            table_move = data_move(data)
    # 8. Order the moves.
    below = features - int64(FRAME_BYTES)
    odd = odd_regions(~(mover | opponent))
    child_cuts = switches & CHILD_CUTS and depth >= int64(CHILD_CUT_DEPTH)
    count = int64(0)
    while moves != ZERO:
        square = lowest_square(moves)
        moves &= moves - ONE
        turned = flips_of(mover, opponent, square)
        next_mover, next_opponent = after(mover, opponent, square, turned)
        if next_mover == ZERO:
            return int64(SCORE_MAX)
        if child_cuts:
            table_prefetch(table, mask, next_mover, next_opponent)
        if square == table_move:
            key = int64(1 << 30)
        else:
            key = int64(0)
            if depth < empties:
                key = learnt_key(workspace, switches, empties, previous, square)
            if switches & SQUARE_ORDER:
                key += square_key(square)
            if switches & MOBILITY_ORDER:
                replies = legal_of(next_mover, next_opponent)
                key -= (popcount(replies) + popcount(replies & CORNERS)) * int64(16)
                if (ONE << uint64(square)) & odd != ZERO:
                    key += int64(8)
            if switches & EVALUATOR_ORDER and depth >= leaf_order_depth(ev):
                leaf_child(ev, below, features, square, turned)
                value = leaf_score(ev, below, next_mover, next_opponent, int64(empties - int64(1)))
                # Near the end the fewest replies matter more than a guess at the score.
                key -= value >> (int64(5) if depth == empties else int64(3))
        offset = count * int64(MOVE_BYTES)
        store_i64(frame, offset, (key << int64(8)) | square)
        store_u64(frame, offset + int64(8), turned)
        count += int64(1)
    # 9. A child that the table already knows to be good enough ends the node. It was prefetched in step 8.
    if child_cuts:
        for i in range(count):
            offset = int64(i) * int64(MOVE_BYTES)
            square, turned = load_i64(frame, offset) & int64(255), load_u64(frame, offset + int64(8))
            next_mover, next_opponent = after(mover, opponent, square, turned)
            child = table_probe(bucket_address(table, mask, next_mover, next_opponent), next_mover, next_opponent)
            known = child != ZERO and data_depth(child) >= depth - 1 and data_selectivity(child) <= selectivity
            if known and -data_upper(child) >= beta:
                return -data_upper(child)
    # 10. Search: the first move with the whole window, the others only to show that they are not better.
    best, best_move = int64(-INFINITY), int64(NO_MOVE)
    here = frame
    tried = int64(0)
    busy = load_i64(workspace, int64(BUSY))
    if depth < int64(SHARED_DEPTH):
        busy = int64(0)
    slot = int64(0)
    while count > int64(0):
        key = take_best(here, count)
        square = key & int64(255)
        turned = load_u64(here, int64(8))
        here += int64(MOVE_BYTES)
        count -= int64(1)
        next_mover, next_opponent = after(mover, opponent, square, turned)
        if busy != int64(0):
            slot = busy_slot(busy, next_mover, next_opponent)
            if tried > int64(0) and key > int64(PUT_OFF) and is_busy(slot, next_mover, next_opponent):
                # Another thread is in there: come back after the others.
                offset = count * int64(MOVE_BYTES)
                store_i64(here, offset, int64(2 * PUT_OFF) + square)
                store_u64(here, offset + int64(8), turned)
                count += int64(1)
                continue
            enter(slot, next_mover, next_opponent)
        low = max(alpha, best)
        leaf_child(ev, below, features, square, turned)
        next_depth = int64(depth - int64(1))
        if tried > int64(0) and switches & NULL_WINDOWS and low + int64(1) < beta:
            score = -node(
                ev, workspace, next_mover, next_opponent, int64(-low - int64(1)), int64(-low), next_depth, square
            )
            if low < score and score < beta and load_i64(workspace, int64(ABORTED)) == int64(0):
                score = -node(ev, workspace, next_mover, next_opponent, int64(-beta), int64(-score), next_depth, square)
        else:
            score = -node(ev, workspace, next_mover, next_opponent, int64(-beta), int64(-low), next_depth, square)
        if load_i64(workspace, int64(ABORTED)) != int64(0):
            return int64(0)
        if busy != int64(0):
            leave(slot, next_mover, next_opponent)
        tried += int64(1)
        if score > best:
            best, best_move = score, square
            if best >= beta:
                note_cut(workspace, switches, empties, depth, previous, square, tried)
                break
    # 11. Remember.
    if switches & RATED_RESPONSES:
        best_response = best_move if best > alpha else int64(NO_MOVE)
        rate_responses(workspace, mover, opponent, empties, previous, best_response)
    table_store(
        bucket, mover, opponent, alpha, beta, best, best_move, depth, selectivity, load_i64(workspace, int64(TABLE_AGE))
    )
    return best


@kernel()
def root(ev, workspace, mover, opponent, moves, values, alpha, beta, depth):
    """Search the moves in the order given and write their values; a value ≤ the best before it is only a bound.

    The number of finished moves is left in ROOT_DONE, so that an aborted iteration still counts for what it has done.
    """
    empties = int64(64) - popcount(mover | opponent)
    features = workspace + int64(FRAMES) + empties * int64(FRAME_BYTES) + int64(FRAME_FEATURES)
    below = features - int64(FRAME_BYTES)
    switches = load_i64(workspace, int64(SWITCHES))
    leaf_begin(ev, features, mover, opponent)
    best = int64(-INFINITY)
    store_i64(workspace, int64(ROOT_DONE), int64(0))
    for i in range(moves.size):
        square = moves[i]
        turned = flips_of(mover, opponent, square)
        next_mover, next_opponent = after(mover, opponent, square, turned)
        low = max(alpha, best)
        next_depth = int64(depth - int64(1))
        leaf_child(ev, below, features, square, turned)
        if i > 0 and switches & NULL_WINDOWS and low + int64(1) < beta:
            score = -node(
                ev, workspace, next_mover, next_opponent, int64(-low - int64(1)), int64(-low), next_depth, square
            )
            if low < score and score < beta and load_i64(workspace, int64(ABORTED)) == int64(0):
                score = -node(ev, workspace, next_mover, next_opponent, int64(-beta), int64(-score), next_depth, square)
        else:
            score = -node(ev, workspace, next_mover, next_opponent, int64(-beta), int64(-low), next_depth, square)
        if load_i64(workspace, int64(ABORTED)) != int64(0):
            break
        values[i] = score
        store_i64(workspace, int64(ROOT_DONE), int64(i + 1))
        if score > best:
            best = score
            if best >= beta:
                break
    return best
