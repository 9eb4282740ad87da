"""Square names, transcripts and boards as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import choices, play_out, positions, quick

from othello_nn.game import (
    PASS,
    IllegalMoveError,
    InvalidMoveError,
    InvalidPositionError,
    Position,
    format_transcript,
    move_name,
    parse_board,
    parse_move,
    parse_square,
    parse_transcript,
    square_name,
)

START_BOARD = "---------------------------OX------XO---------------------------"
WITH_PASS = "e6f6d3e7e8d8g6f8e3"  # black passes before e3

# Two games printed in the paper on Keyano, black first.
LOGISTELLO_KEYANO = (
    "d3c5e6f5f6e3d6f7g6c4c6e7d7g5f4c8h6c7d8e8f3h4g4c3b3h3g3d2b4b5c2a4e2c1d1a3a6a5a2h2b6e1b2a1b1g2h1h5f2a7f1h7h8g1g7g8"
    "f8b7a8b8"
)
HANNIBAL_KEYANO = (
    "e6f4d3c4c3d6f6c6f5g5f3e7f7g6e8g3b5f2c5f8g8c7b6e3h6b4h5e2a5a4a3d7d8g4b3b8d2b7h4h3h2a6c2d1c1a2g1f1e1b2a8c8a7h8g2h7"
    "g7h1a1b1"
)


@pytest.mark.parametrize(("transcript", "black", "white"), [(LOGISTELLO_KEYANO, 33, 31), (HANNIBAL_KEYANO, 32, 32)])
def test_printed_games_end_with_the_printed_scores(transcript, black, white):
    moves = parse_transcript(transcript)
    final = Position.start().replay(moves)
    assert final.is_over
    assert (final.black_discs, final.white_discs) == (black, white)
    assert final.black_score() == black - white
    assert format_transcript(moves) == transcript


def test_square_names():
    assert [square_name(square) for square in (0, 1, 7, 8, 37, 63)] == ["a1", "b1", "h1", "a2", "f5", "h8"]
    assert all(parse_square(square_name(square)) == square for square in range(64))
    assert all(parse_square(square_name(square).upper()) == square for square in range(64))
    assert (move_name(PASS), move_name(37)) == ("pass", "f5")
    assert [parse_move(name) for name in ("--", "pa", "PS", "Pass", "H8")] == [PASS, PASS, PASS, PASS, 63]


@pytest.mark.parametrize("text", ["i1", "a0", "a9", "1a", "", "a", "a11", "pass"])
def test_bad_square_names(text):
    with pytest.raises(InvalidMoveError, match="such as f5"):
        parse_square(text)


@pytest.mark.parametrize("square", [-1, 64])
def test_numbers_that_are_no_squares(square):
    with pytest.raises(InvalidMoveError, match=r"0 \(a1\) to 63 \(h8\)"):
        square_name(square)


@pytest.mark.parametrize(
    "text",
    [
        "f5d6c3",
        "F5D6C3",
        " f5 d6\n c3 ",
        "f 5 d 6 c 3",
        "1. F5 d6 2. C3",
        "1.f5 2.d6 3.c3",
        "1. f5 1... d6 2. c3",
        "f5, d6, c3",
    ],
)
def test_transcript_spellings(text):
    assert parse_transcript(text) == [37, 43, 18]


@pytest.mark.parametrize("written", ["", "--", "pa", "PS", "pass", " -- ", " 5. -- "])
def test_a_pass_may_be_left_out_or_written(written):
    expected = [parse_square(WITH_PASS[i : i + 2]) for i in range(0, 16, 2)] + [PASS, parse_square("e3")]
    assert parse_transcript(WITH_PASS[:16] + written + WITH_PASS[16:]) == expected
    assert format_transcript(expected) == WITH_PASS


def test_transcript_from_another_start():
    start = Position.parse(WITH_PASS[:16])
    assert parse_transcript("e3", start) == [PASS, 20]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("f5d6i9", InvalidMoveError, "move 3, character index 4: 'i9'"),
        ("f5d", InvalidMoveError, "move 2, character index 2: 'd'"),
        ("f5 33-31", InvalidMoveError, "move 2, character index 3"),
        ("f5f5", IllegalMoveError, r"move 2 \(f5\): f5 is occupied"),
        ("d3c3d3", IllegalMoveError, r"move 3 \(d3\): d3 is occupied"),  # though discs beside it could be outflanked
        ("f5 a1", IllegalMoveError, r"move 2 \(a1\): a1 flips nothing; legal moves: f4, d6, f6"),
        ("f5c4", IllegalMoveError, r"move 2 \(c4\): c4 flips nothing"),  # black could, but it is white's turn
        ("f5--", IllegalMoveError, r"move 2 \(pass\): passing is not allowed"),
        ("e6f4e3f6g5d6e7f5c5a1", IllegalMoveError, r"move 10 \(a1\): a1 cannot be played: the game is over"),
    ],
)
def test_transcript_errors_name_the_move(text, error, message):
    with pytest.raises(error, match=message):
        parse_transcript(text)


@quick
@given(choices())
def test_transcripts_read_back(drawn):
    final, moves = play_out(drawn)
    while moves and moves[-1] == PASS:  # a transcript does not show a pass at its very end
        moves.pop()
    assert parse_transcript(format_transcript(moves)) == moves
    numbered = " ".join(f"{ply // 2 + 1}. {move_name(move)}" for ply, move in enumerate(moves))
    assert parse_transcript(numbered) == moves
    assert Position.start().replay(moves).empties == final.empties


@pytest.mark.parametrize("black", "Xx*bB")
@pytest.mark.parametrize("white", "OowW")
@pytest.mark.parametrize("empty", "-._")
def test_board_signs(black, white, empty):
    text = START_BOARD.translate(str.maketrans("XO-", black + white + empty))
    assert parse_board(f"{text} {black}") == Position.start()
    assert parse_board(f"{text}{white}") == Position(Position.start().white, Position.start().black, False)


def test_digits_are_a_style_of_their_own():
    text = START_BOARD.replace("X", "0").replace("O", "1")
    assert parse_board(f"{text} 0") == parse_board(f"{text} X") == Position.start()
    with pytest.raises(InvalidPositionError, match="character index 27: '0' among letters"):
        parse_board(START_BOARD.replace("O", "0") + " X")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (START_BOARD, "side to move is missing"),
        (START_BOARD[:-1], "only 63 signs"),
        (START_BOARD + " X X", "character index 67: 'X' follows"),
        (START_BOARD + " -", "character index 65: '-' is no side"),
        (START_BOARD[:10] + "?" + START_BOARD[11:] + " X", r"character index 10: '\?' is not a board sign"),
        ("  " + START_BOARD[:10] + "é", "character index 12: 'é' is not a board sign"),
        ("", "only 0 signs"),
    ],
)
def test_board_errors_name_the_character(text, message):
    with pytest.raises(InvalidPositionError, match=message):
        parse_board(text)


def test_parse_tells_boards_from_transcripts():
    assert Position.parse(" START ") == Position.start()
    assert Position.parse(START_BOARD + " X") == Position.start()
    assert Position.parse("f5d6") == Position.start().play("f5").play("d6")
    with pytest.raises(InvalidPositionError, match="character index 3: 'q'"):
        Position.parse("---q" + START_BOARD[4:] + " X")  # a board with a typing mistake, not a transcript
    with pytest.raises(InvalidMoveError, match="move 1"):
        Position.parse("strat")
    with pytest.raises(InvalidPositionError, match="give `start`"):
        Position.parse("  ")


@quick
@given(positions(), st.sampled_from(["X O -", "* O -", "b w .", "B W _", "0 1 -", "x o ."]), st.integers(1, 16))
def test_boards_read_back_in_any_style_and_spacing(position, style, width):
    signs = position.to_text().translate(str.maketrans("XO-", style.replace(" ", "")))
    board, side = signs.split()
    spaced = "\n".join(board[i : i + width] for i in range(0, 64, width))
    assert parse_board(f"{spaced} {side}") == position
