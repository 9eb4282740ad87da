"""Exact scores: the endgame kernels and `Engine.solve` against plain negamax, on tens of thousands of positions.

The oracle (`benchmarks/faults/solver.py`) is compiled too, or it would allow only hundreds; it shares no code with the
package and is compared with `rules.solve` first.
"""

import os
import random
from pathlib import Path

import numpy as np
import pytest
from strategies import endings, scattered

from benchmarks.faults.solver import negamax
from othello_nn.engine import Engine, Limit, Options, solve
from othello_nn.engine.endgame import end_node
from othello_nn.engine.last import last1, last2, last3, last4, last_squares
from othello_nn.engine.ttable import TranspositionTable
from othello_nn.engine.workspace import NODES, Workspace
from othello_nn.game import PASS, Position, parse_square, rules
from othello_nn.game.formats.obf import parse_obf
from othello_nn.game.rules import FULL_MASK, squares_in

word = np.uint64
SMALL = Options(table_mb=1)


# --- the oracle ------------------------------------------------------------------------------------------------------


def true_score(mover: int, opponent: int) -> int:
    """Plain negamax up to seven empties, alpha-beta above."""
    empties = 64 - (mover | opponent).bit_count()
    return negamax(word(mover), word(opponent), -64, 64, empties > 7, False)


def test_the_oracle_is_the_rules():
    for mover, opponent in endings(1, 60, 0, 5) + scattered(2, 300, 0, 6):
        assert true_score(mover, opponent) == rules.solve(mover, opponent)


def test_the_oracle_may_prune():
    for mover, opponent in endings(3, 100, 7, 8) + endings(4, 20, 9, 9) + scattered(5, 500, 5, 8):
        everything = negamax(word(mover), word(opponent), -64, 64, False, False)
        assert negamax(word(mover), word(opponent), -64, 64, True, False) == everything


# --- kernels ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def workspace() -> Workspace:
    """Memory for a search, with a table so small that it overflows at once."""
    return Workspace(TranspositionTable(0.01), np.zeros(8, np.uint8))


def windows(rng: random.Random, score: int) -> list[tuple[int, int]]:
    """All of it, two null windows near the score and any window, in any order: each finds what the last one stored."""
    near, far, alpha = score + rng.randint(-3, 2), score + rng.randint(-9, 8), rng.randint(-65, 64)
    found = [(-64, 64), (near, near + 1), (far, far + 1), (alpha, rng.randint(alpha + 1, 65))]
    rng.shuffle(found)
    return found


def check_bounds(found: int, score: int, alpha: int, beta: int) -> None:
    """Fail-soft: a result below the window is an upper bound, above it a lower bound, inside it the score."""
    if found <= alpha:
        assert score <= found
    elif found >= beta:
        assert score >= found
    else:
        assert score == found


def test_last_square():
    """Each square empty on boards of any colour; and where nobody can play, so that the square goes to the winner."""
    rng = random.Random(6)
    for square in range(64):
        near = sum({bit for ray in rules.RAYS[square] for bit in ray}) | 1 << square
        boards = []
        for share in (0.05, 0.5, 0.95) * 30:
            boards.append(sum(1 << i for i in range(64) if rng.random() < share))
        # All lines through the square in one colour, the rest so that the discs are nearly even.
        for share in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6) * 4:
            rest = sum(1 << i for i in range(64) if rng.random() < share) & ~near
            boards += [near | rest, FULL_MASK ^ near ^ rest]
        for board in boards:
            mover = board & ~(1 << square)
            assert last1(word(mover), square) == rules.solve(mover, FULL_MASK ^ mover ^ 1 << square)


@pytest.mark.parametrize("empties", [0, 1, 2, 3, 4])
def test_last_empties_in_any_window(empties, workspace):
    rng = random.Random(empties)
    address = workspace.address
    for mover, opponent in endings(7, 500, empties, empties) + scattered(8, 1500, empties, empties):
        score = true_score(mover, opponent)
        squares = squares_in(~(mover | opponent) & FULL_MASK)
        rng.shuffle(squares)
        for alpha, beta in windows(rng, score):
            pair = word(mover), word(opponent), alpha, beta
            check_bounds(last_squares(*pair, empties, address), score, alpha, beta)
            if empties == 2:
                check_bounds(last2(*pair, *squares), score, alpha, beta)
            if empties == 3:
                check_bounds(last3(*pair, address), score, alpha, beta)
            if empties == 4:
                check_bounds(last4(*pair, address), score, alpha, beta)


def check_end_node(boards, workspace: Workspace, seed: int) -> None:
    rng = random.Random(seed)
    for mover, opponent in boards:
        empties = 64 - (mover | opponent).bit_count()
        score = true_score(mover, opponent)
        for alpha, beta in windows(rng, score):
            found = end_node(word(mover), word(opponent), alpha, beta, empties, workspace.address)
            check_bounds(found, score, alpha, beta)


@pytest.mark.parametrize(
    ("games", "fewest", "most"), [(2000, 0, 8), (900, 9, 9), (500, 10, 10), (60, 11, 11), (15, 12, 12)]
)
def test_end_node_on_games(games, fewest, most, workspace):
    check_end_node(endings(9 + fewest, games, fewest, most), workspace, seed=fewest)


@pytest.mark.parametrize(("boards", "fewest", "most"), [(12000, 0, 8), (1500, 9, 10), (60, 11, 11)])
def test_end_node_on_scattered_boards(boards, fewest, most, workspace):
    """Here passes, games that end early and wipe-outs are common, and the first assertions say so."""
    drawn = scattered(20 + fewest, boards, fewest, most)
    kinds = [(Position(*pair).must_pass, Position(*pair).is_over, abs(true_score(*pair)) == 64) for pair in drawn[:300]]
    assert all(any(kind) for kind in zip(*kinds, strict=True))
    check_end_node(drawn, workspace, seed=fewest)


@pytest.mark.slow
def test_end_node_on_twelve_empties(workspace):
    check_end_node(endings(30, 1200, 11, 12), workspace, seed=12)
    check_end_node(scattered(31, 400, 11, 12), workspace, seed=13)


def test_end_node_counts_its_nodes(workspace):
    [(mover, opponent)] = endings(32, 1, 10, 10)
    end_node(word(mover), word(opponent), -64, 64, 10, workspace.address)
    first = workspace[NODES]
    assert first > 100
    end_node(word(opponent), word(mover), -64, 64, 10, workspace.address)
    assert workspace[NODES] > first


# --- the engine's solver ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(options=SMALL)


def check_solution(engine: Engine, mover: int, opponent: int, black_to_move: bool = True) -> None:
    """Score, best move, principal variation and win/draw/loss of one position."""
    position, score = Position(mover, opponent, black_to_move), true_score(mover, opponent)
    result = engine.solve(position)
    assert (result.score, result.exact, result.wld) == (score, True, False)
    if position.is_over:
        assert (result.move, result.pv) == (None, ())
        return
    after = position.play(result.move)
    assert -true_score(after.mover, after.opponent) == score
    assert result.pv[0] == result.move
    final = position.replay(result.pv)
    assert final.is_over
    assert final.final_score() * (1 if final.black_to_move == position.black_to_move else -1) == score
    result = engine.solve(position, wld=True)
    assert (result.score, result.exact, result.wld) == (np.sign(score), True, True)
    after = position.play(result.move)
    assert np.sign(-true_score(after.mover, after.opponent)) == np.sign(score)


@pytest.mark.parametrize(("games", "fewest", "most"), [(150, 0, 8), (100, 9, 10), (10, 11, 12)])
def test_solve_games(games, fewest, most, engine):
    for i, (mover, opponent) in enumerate(endings(40 + fewest, games, fewest, most)):
        check_solution(engine, mover, opponent, black_to_move=bool(i % 2))


def test_solve_scattered_boards(engine):
    for i, (mover, opponent) in enumerate(scattered(50, 1500, 0, 9)):
        check_solution(engine, mover, opponent, black_to_move=bool(i % 2))


def test_solve_a_finished_game(engine):
    over = Position(0b1111000, 0b11)
    assert over.is_over
    result = engine.solve(over)
    assert (result.move, result.score, result.exact, result.pv) == (None, 60, True, ())


def test_win_draw_loss_of_a_finished_game_is_a_sign_too(engine):
    for over, sign in ((Position(0b1111000, 0b11), 1), (Position(0b11, 0b1111000), -1), (Position(0b11, 0b11000), 0)):
        result = engine.solve(over, wld=True)
        assert (result.move, result.score, result.wld) == (None, sign, True)


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_a_wipe_out_far_from_the_end(depth, engine):
    """The shortest win, from a move before: 64 to 0 with 51 squares empty. Any depth must see it."""
    result = engine.search(Position.parse("e6f4e3f6g5d6e7f5"), Limit(depth=depth))
    assert (result.score, result.move) == (64, parse_square("c5"))


def test_solve_a_pass(engine):
    passes = [pair for pair in endings(60, 1000, 4, 8) if Position(*pair).must_pass]
    assert len(passes) > 20
    for mover, opponent in passes:
        result = engine.solve(Position(mover, opponent))
        assert (result.move, result.pv[0], result.score) == (PASS, PASS, true_score(mover, opponent))
        check_solution(engine, mover, opponent)


def test_the_one_line_form(engine):
    [(mover, opponent)] = endings(61, 1, 9, 9)
    position = Position(mover, opponent)
    assert solve(position, options=SMALL).score == true_score(mover, opponent)
    assert solve(position, wld=True, options=SMALL).score == np.sign(true_score(mover, opponent))


@pytest.mark.slow
def test_solve_twelve_empties(engine):
    for mover, opponent in endings(70, 250, 12, 12):
        check_solution(engine, mover, opponent)


@pytest.mark.slow
def test_endgame_suites():
    """Score and best move of every position of the OBF files named in OTHELLO_OBF, separated as in PATH."""
    files = os.environ.get("OTHELLO_OBF")
    if not files:
        pytest.skip("no endgame suites: set OTHELLO_OBF to one or more OBF files")
    engine = Engine()
    for name in files.split(os.pathsep):
        for number, entry in enumerate(parse_obf(Path(name).read_text(encoding="utf-8")), start=1):
            result = engine.solve(entry.position)
            assert (result.score, result.exact) == (entry.best_score, True), f"{name}, position {number}"
            assert result.move in entry.best_moves, f"{name}, position {number}"
