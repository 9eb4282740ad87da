"""Alpha-beta over leaves that are evaluated in batches: where a value is not known yet, a guess stands for it.

A net that answers in batches is fast only if it is asked for many positions at once, while alpha-beta wants one value
after the other. So a *run* of this search takes the values that are known (``leaf/known.py``), puts what it misses into
the queue, and behaves as if what it expects were true: it cuts where the guess would cut and goes on to the next move
where it would not. So it walks along the tree that the search will most probably need, and the leaves that it misses
on its way are the batch. When the net has answered, the search runs again from its root: what was settled is in the
transposition table, what was guessed is now known or guessed from more. A run that misses nothing is the search itself,
so guesses decide how much is evaluated, never what comes out of it.

The last plies are thus one batch, as far as the tree is foreseen. How far beyond that is a matter of room: at nodes of
depth ``WIDE`` and less nothing is left out on a guess, so that 1 means that all leaves of a last node are asked for
together, 2 whole frontiers of two plies, and so on. ``rounds.py`` widens a run whose batch is too small for the device.

``UNSURE`` says after each call whether its result rests on a guess; if so, it is not remembered. Read ``midgame.py``
first: the steps are the same, without what a compiled evaluator alone makes cheap. A leaf is what it is there, except
that a game which is over is always scored by its discs.
"""

from __future__ import annotations

from numba import int64

from othello_nn.engine.leaf.known import FULL, PENDING, UNSURE, WIDE, known_prefetch, known_value, want_value
from othello_nn.engine.midgame import INFINITY
from othello_nn.engine.ordering import learnt_key, note_cut, take_best
from othello_nn.engine.score import NO_MOVE, SCORE_DISC, SCORE_MAX
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
    CHILD_CUTS,
    FRAME_BYTES,
    FRAMES,
    MOVE_BYTES,
    NODES,
    NULL_WINDOWS,
    ROOT_DONE,
    STOP,
    SWITCHES,
    TABLE,
    TABLE_AGE,
    TABLE_CUTS,
    TABLE_MASK,
    TABLE_MOVE,
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
from othello_nn.kernels.board import CORNERS, ONE, ZERO, after, final_score
from othello_nn.kernels.jit import kernel

# A move about which nothing is known is taken to be worth this much less than its node, and a reply more, for ordering.
STRANGER, REPLY = 2 * SCORE_DISC, SCORE_DISC // 4


@kernel("void(int64, boolean)")
def _set_unsure(leaves, unsure):
    store_i64(leaves, int64(UNSURE), int64(unsure))


@kernel("void(int64)")
def _count_node(workspace):
    store_i64(workspace, int64(NODES), load_i64(workspace, int64(NODES)) + int64(1))


@kernel("boolean(int64, int64)")
def _must_end(leaves, workspace):
    """Whether this run is over: the caller wants it, or the queue is full."""
    if load_i64(load_i64(workspace, int64(STOP)), int64(0)) != int64(0):
        store_i64(workspace, int64(ABORTED), int64(1))
    return load_i64(workspace, int64(ABORTED)) != int64(0) or load_i64(leaves, int64(FULL)) != int64(0)


@kernel("int64(int64, uint64, uint64, uint64, uint64)")
def _leaf(leaves, mover, opponent, colour, moves):
    """The value of a leaf whose mover has ``moves``: by its discs if the game is over, else what is known of it."""
    if moves == ZERO and legal_of(opponent, mover) == ZERO:
        return final_score(mover, opponent) * int64(SCORE_DISC)
    return known_value(leaves, mover, opponent, colour)


@kernel("int64(int64, uint64, uint64)")
def _frame(workspace, mover, opponent):
    """The move list of a position."""
    return workspace + int64(FRAMES) + (int64(64) - popcount(mover | opponent)) * int64(FRAME_BYTES)


@kernel("int64(int64, int64, uint64, uint64, uint64, uint64)")
def _list_moves(leaves, frame, mover, opponent, colour, moves):
    """Write the moves as (square, flips), and have fetched what is known of the positions after them; their number."""
    count = int64(0)
    while moves != ZERO:
        square = lowest_square(moves)
        moves &= moves - ONE
        turned = flips_of(mover, opponent, square)
        next_mover, next_opponent = after(mover, opponent, square, turned)
        known_prefetch(leaves, next_mover, next_opponent, ~colour)
        store_i64(frame, count * int64(MOVE_BYTES), square)
        store_u64(frame, count * int64(MOVE_BYTES) + int64(8), turned)
        count += int64(1)
    return count


@kernel("int64(int64, int64, uint64, uint64, uint64, uint64, int64, int64)")
def _last_node(leaves, workspace, mover, opponent, colour, moves, beta, guess):
    """Depth 1: all leaves, as far as they are known; the others are asked for, the likely cuts first."""
    missing = _frame(workspace, mover, opponent)
    moves_here = _list_moves(leaves, missing, mover, opponent, colour, moves)
    best, known, count = int64(-INFINITY), int64(0), int64(0)
    for i in range(moves_here):
        offset = int64(i) * int64(MOVE_BYTES)
        square, turned = load_i64(missing, offset), load_u64(missing, offset + int64(8))
        next_mover, next_opponent = after(mover, opponent, square, turned)
        replies = legal_of(next_mover, next_opponent)
        value = _leaf(leaves, next_mover, next_opponent, ~colour, replies)
        if value < int64(PENDING):
            best = max(best, -value)
            known += int64(1)
        else:
            key = -(popcount(replies) + popcount(replies & CORNERS))
            store_i64(missing, count * int64(MOVE_BYTES), (key << int64(8)) | square)
            store_u64(missing, count * int64(MOVE_BYTES) + int64(8), turned)
            count += int64(1)
    if count == int64(0) or best >= beta:
        _set_unsure(leaves, False)
        return best
    # Where a cut is expected, one move will often do for it: docs/search.md has what more at once would cost.
    wanted = count
    if guess >= beta and known == int64(0) and load_i64(leaves, int64(WIDE)) < int64(1):
        wanted = int64(1)
    for _ in range(wanted):
        square = take_best(missing, count) & int64(255)
        turned = load_u64(missing, int64(8))
        next_mover, next_opponent = after(mover, opponent, square, turned)
        want_value(leaves, next_mover, next_opponent, ~colour)
        missing += int64(MOVE_BYTES)
        count -= int64(1)
    _set_unsure(leaves, True)
    return max(best, guess)


@kernel("int64(int64, int64, uint64, uint64, uint64, int64, int64, int64, int64, int64)")
def node(leaves, workspace, mover, opponent, colour, alpha, beta, depth, hint, previous):
    """Score of a position, or a guess at it. ``hint`` is what its parent would expect of it."""
    # 1. This run is over.
    if _must_end(leaves, workspace):
        _set_unsure(leaves, True)
        return hint
    # 2. Out of depth. No move: pass, or the game is over. A pass costs no depth.
    moves = legal_of(mover, opponent)
    if depth <= int64(0):
        value = _leaf(leaves, mover, opponent, colour, moves)
        _set_unsure(leaves, value >= int64(PENDING))
        if value >= int64(PENDING):
            want_value(leaves, mover, opponent, colour)
            return hint
        return value
    if moves == ZERO:
        if legal_of(opponent, mover) == ZERO:
            _set_unsure(leaves, False)
            return final_score(mover, opponent) * int64(SCORE_DISC)
        return -node(
            leaves, workspace, opponent, mover, ~colour, int64(-beta), int64(-alpha), depth, int64(-hint),
            int64(NO_MOVE),
        )  # fmt: skip
    # 3. What the table knows.
    switches = load_i64(workspace, int64(SWITCHES))
    table, mask = load_i64(workspace, int64(TABLE)), load_u64(workspace, int64(TABLE_MASK))
    bucket = bucket_address(table, mask, mover ^ colour, opponent)
    table_move, guess = int64(NO_MOVE), known_value(leaves, mover, opponent, colour)
    if guess >= int64(PENDING):
        guess = hint
    data = table_probe(bucket, mover ^ colour, opponent)
    if data != ZERO:
        lower, upper = data_lower(data), data_upper(data)
        if switches & TABLE_CUTS and data_depth(data) >= depth and data_selectivity(data) == int64(0):
            if lower >= beta or lower == upper:
                _set_unsure(leaves, False)
                return lower
            if upper <= alpha:
                _set_unsure(leaves, False)
                return upper
        if switches & TABLE_MOVE:
            table_move = data_move(data)
        guess = min(max(guess, lower), upper)
    # 4. The last ply.
    age = load_i64(workspace, int64(TABLE_AGE))
    if depth == int64(1):
        best = _last_node(leaves, workspace, mover, opponent, colour, moves, beta, guess)
        if load_i64(leaves, int64(UNSURE)) == int64(0):
            _count_node(workspace)
            table_store(bucket, mover ^ colour, opponent, alpha, beta, best, int64(NO_MOVE), depth, int64(0), age)
        return best
    # 5. Order the moves by what the net has said of them, in a deeper or a shallower look, and else by the replies.
    empties, here = int64(64) - popcount(mover | opponent), _frame(workspace, mover, opponent)
    count = _list_moves(leaves, here, mover, opponent, colour, moves)
    for i in range(count):
        offset = int64(i) * int64(MOVE_BYTES)
        square, turned = load_i64(here, offset), load_u64(here, offset + int64(8))
        next_mover, next_opponent = after(mover, opponent, square, turned)
        if next_mover == ZERO:
            _set_unsure(leaves, False)
            return int64(SCORE_MAX)
        value = known_value(leaves, next_mover, next_opponent, ~colour)
        child = table_probe(
            bucket_address(table, mask, next_mover ^ ~colour, next_opponent), next_mover ^ ~colour, next_opponent
        )
        if child != ZERO:
            # 6. A child that is known to be good enough ends the node.
            settled = data_depth(child) >= depth - int64(1) and data_selectivity(child) == int64(0)
            if switches & CHILD_CUTS and switches & TABLE_CUTS and settled and -data_upper(child) >= beta:
                _set_unsure(leaves, False)
                return -data_upper(child)
            if value >= int64(PENDING):
                value = -guess
            value = min(max(value, data_lower(child)), data_upper(child))
        if square == table_move:
            key = int64(1 << 30)
        elif value < int64(PENDING):
            key = -value
        else:
            replies = legal_of(next_mover, next_opponent)
            key = guess - int64(STRANGER) - (popcount(replies) + popcount(replies & CORNERS)) * int64(REPLY)
            key += learnt_key(workspace, switches, empties, previous, square) * int64(REPLY // 16)
        store_i64(here, offset, (key << int64(8)) | square)
    # 7. Search: the first move with the whole window, the others only to show that they are not better. What a guess
    #    says raises alpha and cuts, too, unless this node is to be looked at in full.
    is_wide = depth <= load_i64(leaves, int64(WIDE))
    next_depth = int64(depth - int64(1))
    best, best_move, sure_best = int64(-INFINITY), int64(NO_MOVE), int64(-INFINITY)
    expected, unsure, tried = guess, False, int64(0)
    while count > int64(0):
        square = take_best(here, count) & int64(255)
        turned = load_u64(here, int64(8))
        here += int64(MOVE_BYTES)
        count -= int64(1)
        next_mover, next_opponent = after(mover, opponent, square, turned)
        low = max(alpha, sure_best if is_wide else best)
        top = beta
        if tried > int64(0) and switches & NULL_WINDOWS:
            top = low + int64(1)
        score = -node(
            leaves, workspace, next_mover, next_opponent, ~colour, int64(-top), int64(-low), next_depth,
            int64(-expected), square,
        )  # fmt: skip
        sure = load_i64(leaves, int64(UNSURE)) == int64(0)
        if top <= score and score < beta and not _must_end(leaves, workspace):
            score = -node(
                leaves, workspace, next_mover, next_opponent, ~colour, int64(-beta), int64(-score), next_depth,
                int64(-score), square,
            )  # fmt: skip
            sure = sure and load_i64(leaves, int64(UNSURE)) == int64(0)
        tried += int64(1)
        if score > best:
            best, best_move = score, square
        if sure and score >= beta:
            note_cut(workspace, switches, empties, depth, previous, square, tried)
            best, unsure = score, False
            break
        if _must_end(leaves, workspace):
            _set_unsure(leaves, True)
            return best
        if sure:
            sure_best = max(sure_best, score)
        else:
            unsure = True
        if best >= beta and not is_wide:
            break
        expected = best  # the moves after the first are expected to be no better
    _set_unsure(leaves, unsure)
    # 8. Remember what is sure.
    if not unsure:
        _count_node(workspace)
        table_store(bucket, mover ^ colour, opponent, alpha, beta, best, best_move, depth, int64(0), age)
    return best


@kernel("int64(int64, int64, uint64, uint64, uint64, int64[::1], int64[::1], int64, int64, int64, int64)")
def root(leaves, workspace, mover, opponent, colour, moves, values, alpha, beta, depth, guess):
    """Search the moves in the order given and write their values, as far as they are sure, as ``midgame.root`` does.

    ROOT_DONE is the number of moves at the front that are sure: the result of a search that ends before it is whole.
    """
    switches = load_i64(workspace, int64(SWITCHES))
    is_wide = depth <= load_i64(leaves, int64(WIDE))
    next_depth = int64(depth - int64(1))
    best, sure_best, expected, unsure = int64(-INFINITY), int64(-INFINITY), guess, False
    store_i64(workspace, int64(ROOT_DONE), int64(0))
    for i in range(moves.size):
        square = moves[i]
        turned = flips_of(mover, opponent, square)
        next_mover, next_opponent = after(mover, opponent, square, turned)
        low = max(alpha, sure_best if is_wide else best)
        top = beta
        if i > 0 and switches & NULL_WINDOWS:
            top = low + int64(1)
        score = -node(
            leaves, workspace, next_mover, next_opponent, ~colour, int64(-top), int64(-low), next_depth,
            int64(-expected), square,
        )  # fmt: skip
        sure = load_i64(leaves, int64(UNSURE)) == int64(0)
        if top <= score and score < beta and not _must_end(leaves, workspace):
            score = -node(
                leaves, workspace, next_mover, next_opponent, ~colour, int64(-beta), int64(-score), next_depth,
                int64(-score), square,
            )  # fmt: skip
            sure = sure and load_i64(leaves, int64(UNSURE)) == int64(0)
        best = max(best, score)
        if sure and (not unsure or score >= beta):
            values[i] = score
            if not unsure:
                store_i64(workspace, int64(ROOT_DONE), int64(i + 1))
        if sure and score >= beta:
            best, unsure = score, False
            break
        if sure:
            sure_best = max(sure_best, score)
        else:
            unsure = True
        if _must_end(leaves, workspace):
            unsure = True
            break
        if best >= beta and not is_wide:
            break
        expected = best
    _set_unsure(leaves, unsure)
    return best
