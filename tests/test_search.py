"""The search: equal to plain minimax and to exact scores whatever is switched on, and on two threads."""

import itertools
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache

import numba
import numpy as np
import pytest
from strategies import endings, scattered

from othello_nn.engine import Engine, Limit, Options, search
from othello_nn.engine.endgame import end_node
from othello_nn.engine.leaf.door import leaf_begin, leaf_score
from othello_nn.engine.leaf.mobility import Mobility
from othello_nn.engine.leaf.tables import weighted_squares
from othello_nn.engine.midgame import INFINITY, node
from othello_nn.engine.score import NO_MOVE, SCORE_DISC, SCORE_MAX
from othello_nn.engine.ttable import TranspositionTable, data_lower, table_probe, table_store
from othello_nn.engine.workspace import (
    CHILD_CUTS,
    EVALUATOR_ORDER,
    EVERYTHING,
    FRAME_BYTES,
    FRAME_FEATURES,
    FRAMES,
    HISTORY,
    HISTORY_ORDER,
    INTERNAL_DEEPENING,
    KILLER_MOVES,
    KILLERS,
    MOBILITY_ORDER,
    NULL_WINDOWS,
    PASS_COSTS,
    PROBCUT_CUTS,
    RATED_RESPONSES,
    RATINGS,
    RESPONSE_ORDER,
    SIZE,
    SQUARE_ORDER,
    STABILITY_CUTS,
    STATIC_HISTORY,
    STATIC_KILLERS,
    SWITCHES,
    TABLE_CUTS,
    TABLE_MOVE,
    TWO_PLIES,
    Workspace,
)
from othello_nn.game import PASS, Position
from othello_nn.kernels.board import final_score, flips, legal_moves

word = np.uint64
ONE = np.uint64(1)
DRIVERS = ["negascout", "alphabeta", "mtdf"]
SWITCH_BITS = {
    "table cuts": TABLE_CUTS,
    "table move": TABLE_MOVE,
    "killers": KILLER_MOVES,
    "history": HISTORY_ORDER,
    "responses": RESPONSE_ORDER,
    "mobility": MOBILITY_ORDER,
    "evaluator": EVALUATOR_ORDER,
    "squares": SQUARE_ORDER,
    "static killers": STATIC_KILLERS,
    "static history": STATIC_HISTORY,
    "rated responses": RATED_RESPONSES,
    "child cuts": CHILD_CUTS,
    "internal deepening": INTERNAL_DEEPENING,
    "null windows": NULL_WINDOWS,
}
ALL_BITS = sum(SWITCH_BITS.values())
ORDERINGS = KILLER_MOVES | HISTORY_ORDER | RESPONSE_ORDER | MOBILITY_ORDER | EVALUATOR_ORDER | SQUARE_ORDER
# Stable discs bound the true score, which an evaluator's value may exceed: with them a search is better than minimax.
EVALUATOR_ONLY = EVERYTHING & ~STABILITY_CUTS


@cache
def evaluator(name: str):
    if name == "mobility":
        return Mobility()
    # No symmetry, so that a feature read on the wrong square shows.
    return weighted_squares(name, np.random.default_rng(5).normal(0, 3, 64), per_disc=1.0)


def leaf_of(name: str):
    found = evaluator(name)
    return getattr(found, "leaf", found)


def sample(seed: int, games: int, fewest: int, most: int) -> list[Position]:
    """Positions with something to choose."""
    found = [Position(*pair) for pair in endings(seed, games, fewest, most)]
    return [position for position in found if position.legal_mask]


# --- minimax ---------------------------------------------------------------------------------------------------------


@numba.njit
def minimax(ev, scratch, mover, opponent, depth, pass_cost):
    """The value that a search of a depth smaller than the empties must find: no pruning, features always from scratch.

    A pass costs ``pass_cost`` plies, and a move that leaves the opponent no disc wins everything.
    """
    if mover == np.uint64(0):
        return np.int64(-SCORE_MAX)
    if depth == 0:
        empties = 0
        for square in range(64):
            empties += 1 - np.int64((mover | opponent) >> np.uint64(square) & ONE)
        leaf_begin(ev, scratch, mover, opponent)
        return np.int64(leaf_score(ev, scratch, mover, opponent, np.int64(empties)))
    legal = legal_moves(mover, opponent)
    if legal == np.uint64(0):
        if legal_moves(opponent, mover) == np.uint64(0):
            return np.int64(final_score(mover, opponent) * SCORE_DISC)
        return -minimax(ev, scratch, opponent, mover, depth - pass_cost, pass_cost)
    best = np.int64(-2 * SCORE_MAX)
    for square in range(64):
        if legal >> np.uint64(square) & ONE:
            turned = flips(mover, opponent, square)
            child = mover | turned | ONE << np.uint64(square)
            best = max(best, -minimax(ev, scratch, opponent ^ turned, child, depth - 1, pass_cost))
    return best


@cache
def minimax_value(name: str, position: Position, depth: int, pass_cost: int = 0) -> float:
    """In discs. Kept, since every driver and switch is compared with the same values."""
    scratch = np.zeros(256, np.int64)
    mover, opponent = word(position.mover), word(position.opponent)
    value = minimax(leaf_of(name), scratch.ctypes.data, mover, opponent, depth, pass_cost)
    return value / SCORE_DISC


def check_against_minimax(
    name: str, options: Options, positions: list[Position], depth: int, pass_cost: int = 0
) -> None:
    engine = Engine(evaluator(name), options)
    for position in positions:
        engine.clear()  # values of other depths are not this depth's minimax
        result = engine.search(position, Limit(depth=depth))
        assert (result.depth, result.exact) == (depth, False)
        assert result.score == minimax_value(name, position, depth, pass_cost)
        after = position.play(result.move)
        assert -minimax_value(name, after, depth - 1, pass_cost) == result.score
        assert result.pv[0] == result.move
        position.replay(result.pv)


def off(bits: int, **options) -> Options:
    return Options(table_mb=0.1, probcut=False, switches=EVALUATOR_ONLY & ~bits, **options)


@pytest.mark.parametrize("name", ["mobility", "squares"])
@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("table", [True, False], ids=["table", "no table"])
def test_alpha_beta_is_minimax(name, driver, table):
    options = off(0 if table else TABLE_CUTS | TABLE_MOVE | CHILD_CUTS, search=driver)
    for depth in (1, 2, 3, 4):
        check_against_minimax(name, options, sample(depth, 1, 8, 55), depth)
    check_against_minimax(name, options, sample(5, 1, 8, 50)[::6], 6)


@pytest.mark.parametrize("name", ["mobility", "squares"])
@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("switched_off", [*SWITCH_BITS, "orderings", "everything"])
def test_each_switch_off_leaves_minimax(name, driver, switched_off):
    bits = {"orderings": ORDERINGS, "everything": ALL_BITS}.get(switched_off, SWITCH_BITS.get(switched_off))
    check_against_minimax(name, off(bits, search=driver), sample(11, 1, 9, 50)[::5], 5)


@pytest.mark.parametrize("switched_on", list(SWITCH_BITS))
def test_each_switch_alone_leaves_minimax(switched_on):
    options = off(ALL_BITS & ~SWITCH_BITS[switched_on])
    check_against_minimax("squares", options, sample(12, 1, 10, 50)[::5], 5)


@cache
def before_passes() -> list[Position]:
    """Positions in front of a pass or an early end, where depth is easily miscounted."""
    found = [Position.parse("e6f4e3f6g5d6e7"), Position.parse("e6f4e3f6g5d6e7f5")]  # the shortest win
    for position in (Position(*pair) for pair in scattered(13, 400, 8, 30)):
        children = [position.play(move) for move in position.legal_moves]
        if any(child.must_pass or child.is_over for child in children):
            found.append(position)
    assert len(found) > 30
    return found


def test_minimax_through_passes_and_wipe_outs():
    for name in ("mobility", "squares"):
        for depth in (2, 3, 4):
            check_against_minimax(name, off(0), before_passes(), depth)


# --- as the papers have it -------------------------------------------------------------------------------------------


def on(bits: int, **options) -> Options:
    return replace(off(0, **options), switches=EVALUATOR_ONLY | bits)


def test_a_pass_that_costs_a_ply():
    for name in ("mobility", "squares"):
        for depth in (1, 2, 3, 4):
            check_against_minimax(name, on(PASS_COSTS), before_passes(), depth, pass_cost=1)
    differs = [minimax_value("squares", p, 3) != minimax_value("squares", p, 3, 1) for p in before_passes()]
    assert sum(differs) > 5


def test_a_pass_costs_nothing_in_an_exact_search():
    engine = Engine(options=Options(table_mb=4, switches=EVERYTHING | PASS_COSTS))
    for position, score in endgames():
        assert engine.solve(position).score == score


def depths_searched(limit: Limit, switches: int) -> list[int]:
    depths: list[int] = []
    engine = Engine(Mobility(), Options(table_mb=1, switches=switches))
    engine.search(Position.start(), limit, lambda result: depths.append(result.depth))
    return depths


def test_every_second_depth():
    both = EVERYTHING | TWO_PLIES
    assert depths_searched(Limit(depth=6), EVERYTHING) == [1, 2, 3, 4, 5, 6]
    assert depths_searched(Limit(depth=6), both) == [2, 4, 6]
    assert depths_searched(Limit(depth=5), both) == [1, 3, 5]
    assert depths_searched(Limit(nodes=20_000), both)[:3] == [2, 4, 6]
    check_against_minimax("squares", on(TWO_PLIES), sample(11, 1, 9, 50)[::5], 5)
    engine = Engine(options=Options(table_mb=4, switches=both))
    for position, score in endgames()[:3]:
        assert engine.search(position, Limit(depth=60)).score == score


@pytest.mark.parametrize(("switch", "begin", "end"), [(STATIC_KILLERS, KILLERS, HISTORY), (STATIC_HISTORY, HISTORY, 0)])
def test_what_is_static_changes_between_iterations_only(switch, begin, end):
    """Within an iteration its moves are ordered by what the one before has left."""
    engine = Engine(Mobility(), Options(table_mb=1, probcut=False, switches=EVERYTHING & ~KILLER_MOVES | switch))
    (space,) = engine._workspaces
    part = slice(begin // 8, (end or HISTORY + 64 * 8) // 8)
    seen: list[np.ndarray] = []
    kept = type(space).begin_iteration

    def begin_iteration() -> None:
        if seen:
            assert (space.words[part] == seen[-1]).all()  # as the iteration found it
        kept(space)
        seen.append(space.words[part].copy())

    space.begin_iteration = begin_iteration
    engine.search(Position.parse(GAMES[0][:40]), Limit(depth=7))
    changes = [not (one == other).all() for one, other in itertools.pairwise(seen)]
    assert len(seen) == 7
    assert not seen[0].any()
    assert sum(changes) > 3


def ratings(engine: Engine) -> np.ndarray:
    """[side that responds, last move, response]."""
    (space,) = engine._workspaces
    return space.words[RATINGS // 8 : SIZE // 8].reshape(2, 65, 64)


def test_legal_responses_are_rated_and_halved_between_moves():
    switches = RATED_RESPONSES | TABLE_MOVE
    engine = Engine(Mobility(), Options(table_mb=1, search="alphabeta", probcut=False, switches=switches))
    position = Position.start()
    engine.search(position, Limit(depth=3))
    found = ratings(engine).copy()
    # With two plies to go white answers black's first move, whatever it was: a node is worth 1 to each answer that is
    # legal there, and 16 to the best if there was one.
    best = 0
    for move in position.legal_moves:
        legal = position.play(move).legal_moves
        rated = found[0, move]
        assert {square for square in range(64) if rated[square]} == set(legal)
        nodes = rated[list(legal)].min()
        times_best, rest = np.divmod(rated[list(legal)] - nodes, 16)
        assert not rest.any()
        assert times_best.sum() <= nodes <= 3
        best += times_best.sum()
    assert best > 0
    assert not found[1].any()  # black's own second moves are at depth 1, where nothing is ordered
    engine.search(position, Limit(depth=1))
    assert (ratings(engine) == found // 2).all()
    engine.clear()
    assert not ratings(engine).any()


def test_a_pass_gives_the_response_to_the_other_side():
    """Black answers black's pass: with as many empties the other side is on move."""
    for position in before_passes():
        passing = [move for move in position.legal_moves if position.play(move).must_pass]
        if passing and position.black_to_move:
            break
    engine = Engine(Mobility(), Options(table_mb=1, search="alphabeta", probcut=False, switches=RATED_RESPONSES))
    engine.search(position, Limit(depth=3))
    after_pass = set().union(*(position.play(move).play(PASS).legal_moves for move in passing))
    assert {int(square) for square in np.flatnonzero(ratings(engine)[1, NO_MOVE])} == after_pass
    assert not ratings(engine)[0, NO_MOVE].any()


@pytest.mark.parametrize("name", ["mobility", "squares"])
def test_node_in_any_window_is_fail_soft(name):
    """The recursive routine itself; a table that remembers one window's bounds must not spoil the next one."""
    rng = random.Random(14)
    workspace = Workspace(TranspositionTable(0.1), np.zeros(8, np.uint8))
    workspace[SWITCHES] = EVALUATOR_ONLY & ~PROBCUT_CUTS
    leaf = leaf_of(name)
    for position in sample(15, 2, 10, 50)[::2]:
        workspace.table.clear()
        mover, opponent = word(position.mover), word(position.opponent)
        features = workspace.address + FRAMES + position.empties * FRAME_BYTES + FRAME_FEATURES
        value = round(minimax_value(name, position, 5) * SCORE_DISC)
        for _ in range(6):
            alpha = value + rng.randint(-500, 400)
            beta = rng.choice((alpha + 1, alpha + rng.randint(1, 1000), INFINITY))
            write_features(leaf, features, mover, opponent)
            found = node(leaf, workspace.address, mover, opponent, alpha, beta, 5, NO_MOVE)
            assert value <= found if found <= alpha else value >= found if found >= beta else value == found


@numba.njit
def write_features(ev, features, mover, opponent):
    leaf_begin(ev, features, mover, opponent)


# --- exact scores ----------------------------------------------------------------------------------------------------


@cache
def endgames() -> list[tuple[Position, float]]:
    """Positions above the solver's own routine, so that the evaluator's search takes part, and their scores."""
    engine = Engine(options=Options(table_mb=4))
    return [(position, engine.solve(position).score) for position in sample(21, 10, 13, 14)]


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("name", ["mobility", "squares"])
def test_exact_scores_do_not_depend_on_driver_or_evaluator(name, driver):
    engine = Engine(evaluator(name), Options(search=driver, table_mb=4))
    for position, score in endgames():
        result = engine.solve(position)
        assert (result.score, result.exact) == (score, True)
        assert engine.solve(position, wld=True).score == np.sign(score)


@pytest.mark.parametrize("switched_off", [*SWITCH_BITS, "stability", "table", "everything"])
def test_exact_scores_do_not_depend_on_switches(switched_off):
    more = {"stability": STABILITY_CUTS, "table": TABLE_CUTS | TABLE_MOVE | CHILD_CUTS, "everything": EVERYTHING}
    engine = Engine(options=Options(table_mb=4, switches=EVERYTHING & ~(more | SWITCH_BITS)[switched_off]))
    for position, score in endgames():
        assert engine.solve(position).score == score


@pytest.mark.parametrize("table_mb", [0.01, 0.3, 64])
def test_exact_scores_do_not_depend_on_the_table(table_mb):
    """The smallest table holds 256 positions: hardly anything stays in it for long."""
    engine = Engine(options=Options(table_mb=table_mb))
    for position, score in endgames():
        result = engine.solve(position)
        assert result.score == score
        final = position.replay(result.pv)
        assert final.is_over
        assert final.black_score() == (score if position.black_to_move else -score)


def test_a_search_deep_enough_is_exact():
    engine = Engine(options=Options(table_mb=4))
    for position, score in endgames()[:6]:
        result = engine.search(position, Limit(depth=position.empties))
        assert (result.score, result.exact, result.depth) == (score, True, position.empties)
        result = engine.search(position, Limit(depth=60))
        assert (result.score, result.exact) == (score, True)


def test_a_used_table_still_gives_exact_scores():
    """What earlier searches of other depths, windows and positions left behind is only ever a help."""
    engine = Engine(options=Options(table_mb=1))
    for position, score in endgames():
        engine.search(position, Limit(depth=8))
        engine.solve(position, wld=True)
        assert engine.solve(position).score == score
        after = position.play(engine.solve(position).move)
        assert engine.solve(after).score == -score


# --- threads ---------------------------------------------------------------------------------------------------------


def test_two_threads_give_the_scores_of_one():
    """A thousand positions, each solved over the table of all before it."""
    positions = sample(31, 520, 12, 13)[:1000]
    assert len(positions) == 1000
    one, two = Engine(options=Options(table_mb=2)), Engine(options=Options(threads=2, table_mb=2))
    for position in positions:
        expected, result = one.solve(position), two.solve(position)
        assert (result.score, result.exact) == (expected.score, True)
        after = position.play(result.move)
        assert position.replay(result.pv).is_over
        if result.move != expected.move:
            assert one.solve(after).score == -expected.score


@pytest.mark.parametrize("driver", DRIVERS)
def test_two_threads_search_the_same_tree(driver):
    for name in ("mobility", "squares"):
        one, two = (Engine(evaluator(name), off(0, search=driver, threads=threads)) for threads in (1, 2))
        for position in sample(32, 1, 16, 40)[::8]:
            assert two.search(position, Limit(depth=9)).score == one.search(position, Limit(depth=9)).score


def test_two_solvers_share_a_table():
    """Two threads, each with its own workspace, over a table of 256 entries: every entry is fought for."""
    boards = endings(33, 150, 10, 12)
    table, stop = TranspositionTable(0.01), np.zeros(8, np.uint8)

    def scores(order: list[int], table: TranspositionTable) -> dict[int, int]:
        workspace, found = Workspace(table, stop), {}
        for i in order:
            mover, opponent = boards[i]
            empties = 64 - (mover | opponent).bit_count()
            found[i] = end_node(word(mover), word(opponent), -64, 64, empties, workspace.address)
        return found

    everything = list(range(len(boards)))
    alone = scores(everything, TranspositionTable(4))
    with ThreadPoolExecutor(2) as pool:
        # The same positions at the same time, then in opposite orders.
        for orders in ([everything, everything], [everything, everything[::-1]]):
            for future in [pool.submit(scores, order, table) for order in orders]:
                assert future.result() == alone


@numba.njit(nogil=True)
def hammer(bucket, movers, opponents, rounds):
    """Store bounds that follow from the position, and count entries found with other bounds."""
    wrong = 0
    for i in range(rounds):
        mover, opponent = movers[i % movers.size], opponents[i % movers.size]
        score = np.int64(mover % np.uint64(1000)) - 500
        table_store(bucket, mover, opponent, -SCORE_MAX, SCORE_MAX, score, i % 64, i % 60, 0, 1)
        mover, opponent = movers[i * 7 % movers.size], opponents[i * 7 % movers.size]
        data = table_probe(bucket, mover, opponent)
        if data != np.uint64(0) and data_lower(data) != np.int64(mover % np.uint64(1000)) - 500:
            wrong += 1
    return wrong


def test_half_written_entries_are_never_found():
    """Two threads fill and read one bucket as fast as they can."""
    table, rng = TranspositionTable(0.01), np.random.default_rng(34)
    movers, opponents = rng.integers(1, 2**63, (2, 97), dtype=np.uint64)
    hammer(table.address, movers, opponents, 1)
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(hammer, table.address, movers, opponents, 15_000_000) for _ in range(2)]
        assert [future.result() for future in futures] == [0, 0]


# --- what else a search says -----------------------------------------------------------------------------------------


# LOGISTELLO against KEYANO and HANNIBAL against KEYANO, as printed in the paper on KEYANO.
GAMES = (
    "d3c5e6f5f6e3d6f7g6c4c6e7d7g5f4c8h6c7d8e8f3h4g4c3b3h3g3d2b4b5c2a4e2c1d1a3a6a5a2h2b6e1b2a1b1g2h1h5f2a7f1h7h8g1g7g8f8b7a8b8",
    "e6f4d3c4c3d6f6c6f5g5f3e7f7g6e8g3b5f2c5f8g8c7b6e3h6b4h5e2a5a4a3d7d8g4b3b8d2b7h4h3h2a6c2d1c1a2g1f1e1b2a8c8a7h8g2h7g7h1a1b1",
)
SIGNATURE_NODES = 967_828


def test_node_count_signature():
    """The search visits exactly as many nodes as when this number was written down.

    A change that should not change the search (a faster kernel, a tidier module) must leave the number alone. If a
    change is meant to alter the search, measure that it pays, then put the number that this test prints in its place.
    """
    engine = Engine(Mobility(), Options(table_mb=16, probcut=False))
    nodes = 0
    for game in GAMES:
        for plies in (8, 16, 24, 32, 46):
            engine.clear()
            position = Position.parse(game[: 2 * plies])
            nodes += engine.search(position, Limit(depth=8 if plies < 46 else 60)).nodes
    assert nodes == SIGNATURE_NODES


def test_cut_statistics_add_up():
    result = search(Position.parse(GAMES[0][:40]), limit=Limit(depth=9), options=Options(table_mb=4, probcut=False))
    assert 0 < result.cut_first <= result.cut_nodes <= result.cut_moves < result.nodes
    assert result.cut_first > 0.8 * result.cut_nodes  # the first move is usually the right one, or ordering is broken


def test_the_same_search_twice_is_the_same_search():
    def run() -> tuple:
        result = Engine(options=Options(table_mb=1)).search(Position.parse(GAMES[1][:30]), Limit(depth=8))
        return result.move, result.score, result.nodes, result.pv

    assert run() == run()


def test_clear_forgets():
    engine = Engine(options=Options(table_mb=4))
    first, again = (engine.search(Position.start(), Limit(depth=8)).nodes for _ in range(2))
    assert again < first
    engine.clear()
    assert engine.search(Position.start(), Limit(depth=8)).nodes == first


def test_symmetric_positions_have_the_same_value():
    position = Position.parse(GAMES[0][:36])
    engine = Engine(options=Options(table_mb=4))
    assert len({engine.search(image, Limit(depth=6)).score for image in position.symmetries()}) == 1
