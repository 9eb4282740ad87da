"""The rules on masks, against a second implementation that shares no code or data with the first."""

import pytest
from hypothesis import given
from strategies import masks, positions, quick, symmetry_numbers

from othello_nn.game import PASS, Position
from othello_nn.game.rules import (
    FULL_MASK,
    START_MOVER,
    START_OPPONENT,
    SYMMETRIES,
    final_score,
    flips_mask,
    inverse_symmetry,
    legal_mask,
    perft,
    play,
    solve,
    squares_in,
    transform_mask,
    transform_square,
)

SHORTEST_GAME = "e6f4e3f6g5d6e7f5c5"  # black wipes white out with the ninth move


def grid_flips(mover: int, opponent: int, square: int) -> int:
    """The flips of a move, on a grid of characters with a border."""
    grid = ["#" * 10]
    for row in range(8):
        cells = [(mover >> (8 * row + c) & 1) + 2 * (opponent >> (8 * row + c) & 1) for c in range(8)]
        grid.append("#" + "".join(".MO"[cell] for cell in cells) + "#")
    grid.append("#" * 10)
    row, column = square // 8 + 1, square % 8 + 1
    flipped = set()
    for down in (-1, 0, 1):
        for right in (-1, 0, 1):
            length = 1
            while grid[row + down * length][column + right * length] == "O":
                length += 1
            if (down or right) and grid[row + down * length][column + right * length] == "M":
                flipped |= {(row + down * i - 1) * 8 + column + right * i - 1 for i in range(1, length)}
    return sum(1 << square for square in flipped)


@pytest.mark.parametrize(("depth", "count"), list(enumerate([4, 12, 56, 244, 1396, 8200], start=1)))
def test_perft_from_the_start(depth, count):
    assert perft(START_MOVER, START_OPPONENT, depth) == count


def test_perft_counts_a_pass_as_a_ply_and_an_ended_game_once():
    before_pass = Position.parse("e6f6d3e7e8d8g6f8")
    assert before_pass.must_pass
    passed = before_pass.play(PASS)
    assert perft(before_pass.mover, before_pass.opponent, 1) == 1
    assert perft(before_pass.mover, before_pass.opponent, 2) == len(passed.legal_moves)
    over = Position.parse(SHORTEST_GAME)
    assert [perft(over.mover, over.opponent, depth) for depth in (0, 1, 5)] == [1, 1, 1]
    # From two plies before, one sequence ends early and still counts.
    nearly = Position.parse(SHORTEST_GAME[:-2])
    after = [nearly.play(move) for move in nearly.legal_moves]
    assert perft(nearly.mover, nearly.opponent, 2) == sum(len(p.legal_moves) or 1 for p in after)
    assert any(p.is_over for p in after)


@quick
@given(masks, masks)
def test_flips_and_legal_moves_on_any_board(first, second):
    mover, opponent = first & ~second, second & ~first
    expected = 0
    for square in squares_in(~(mover | opponent) & FULL_MASK):
        flips = grid_flips(mover, opponent, square)
        assert flips_mask(mover, opponent, square) == flips
        expected |= bool(flips) << square
    assert legal_mask(mover, opponent) == expected


@quick
@given(positions())
def test_flips_and_legal_moves_in_games(position):
    mover, opponent = position.mover, position.opponent
    squares = squares_in(position.empty_mask)
    assert legal_mask(mover, opponent) == sum(1 << s for s in squares if grid_flips(mover, opponent, s))
    for square in squares_in(legal_mask(mover, opponent)):
        flips = grid_flips(mover, opponent, square)
        assert play(mover, opponent, square) == (opponent & ~flips, mover | flips | 1 << square)


def test_play_pass_swaps_the_sides():
    assert play(5, 2, PASS) == (2, 5)


@pytest.mark.parametrize(
    ("mover", "opponent", "score"),
    [
        (0b1110, 0b1, 62),  # 3-1 with 60 empties, all to the winner: 63-1
        (0b1, 0b1110, -62),
        (0b11, 0b1100, 0),  # a draw: the empties go to nobody
        (0b1, 0, 64),
        (0, 0b1, -64),
        (0, 0, 0),
        (FULL_MASK >> 31, FULL_MASK ^ FULL_MASK >> 31, 2),  # 33-31 on a full board
    ],
)
def test_final_score_gives_empties_to_the_winner(mover, opponent, score):
    assert final_score(mover, opponent) == score


def test_final_score_of_the_shortest_game():
    over = Position.parse(SHORTEST_GAME)
    assert final_score(over.mover, over.opponent) == -64  # white is to move and has no disc


def search_by_positions(position: Position) -> int:
    """Best play to the end through the checked API."""
    if position.is_over:
        return position.final_score()
    return max(-search_by_positions(position.play(move)) for move in position.legal_moves or (PASS,))


@quick
@given(positions(min_plies=55))
def test_solve_is_best_play(position):
    if position.empties <= 5:
        assert solve(position.mover, position.opponent) == search_by_positions(position)


def test_solve_by_hand():
    a1, b1, c1 = 1, 2, 4
    assert solve(c1, b1) == 64  # a1 takes the opponent's only disc
    assert legal_mask(b1, a1) == 0
    assert solve(b1, a1) == -64  # no move: pass, and the opponent's c1 takes ours
    assert solve(a1, c1) == 0  # over: one each


def test_symmetries_are_the_eight_of_the_square():
    assert len(set(SYMMETRIES)) == 8
    assert SYMMETRIES[0] == tuple(range(64))
    # They keep neighbours neighbours, so there are no other candidates.
    for images in SYMMETRIES:
        for square in range(63):
            if square % 8 != 7:
                (row, column), (row2, column2) = divmod(images[square], 8), divmod(images[square + 1], 8)
                assert abs(row - row2) + abs(column - column2) == 1


def test_symmetries_go_where_the_table_says():
    a1, b1, h1, a8, h8 = 0, 1, 7, 56, 63
    assert [SYMMETRIES[k][a1] for k in range(8)] == [a1, h1, a8, h8, a1, a8, h1, h8]
    assert SYMMETRIES[4][b1] == 8  # a2: columns and rows swapped
    assert SYMMETRIES[5][b1] == 48  # a7: anticlockwise, the top row becomes the left column read upwards
    assert SYMMETRIES[6][b1] == 15  # h2: clockwise, the top row becomes the right column


@quick
@given(masks, symmetry_numbers)
def test_inverse_symmetry_undoes(mask, k):
    assert transform_mask(transform_mask(mask, k), inverse_symmetry(k)) == mask
    assert transform_mask(mask, k) == sum(1 << transform_square(square, k) for square in squares_in(mask))
    assert transform_square(PASS, k) == PASS


@quick
@given(positions(), symmetry_numbers)
def test_legal_moves_turn_with_the_board(position, k):
    turned = legal_mask(transform_mask(position.mover, k), transform_mask(position.opponent, k))
    assert turned == transform_mask(legal_mask(position.mover, position.opponent), k)
