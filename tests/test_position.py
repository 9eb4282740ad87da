"""Position: construction, play, errors, symmetry, text."""

import dataclasses
import pickle
from xml.etree import ElementTree

import pytest
from hypothesis import given
from strategies import masks, positions, quick, symmetry_numbers

import othello_nn
from othello_nn import PASS, IllegalMoveError, InvalidMoveError, InvalidPositionError, OthelloError, Position
from othello_nn.game.position import complete_moves

BEFORE_PASS = "e6f6d3e7e8d8g6f8"  # black has no move now; white plays e3 next
SHORTEST_GAME = "e6f4e3f6g5d6e7f5c5"
HUGE = pytest.param(10**5000, id="huge")  # Python refuses to print it


def squares(text: str) -> tuple[int, ...]:
    return tuple(sorted("abcdefgh".index(name[0]) + 8 * (int(name[1]) - 1) for name in text.split()))


def test_start():
    start = Position.start()
    assert (start.black, start.white) == (1 << 28 | 1 << 35, 1 << 27 | 1 << 36)
    assert start.black_to_move
    assert start.legal_moves == squares("d3 c4 f5 e6")
    assert (start.empties, start.mover_discs, start.opponent_discs) == (60, 2, 2)
    assert not start.must_pass
    assert not start.is_over
    assert start.outcome() is None


def test_four_plies_make_244_sequences_236_positions_60_up_to_symmetry():
    layer = [Position.start()]
    for _ in range(4):
        layer = [position.play(move) for position in layer for move in position.legal_moves]
    assert len(layer) == 244
    assert len(set(layer)) == 236
    assert len({position.canonical() for position in layer}) == 60


def test_play_takes_names_numbers_and_other_integers():
    class Index:
        def __index__(self) -> int:
            return 37

    start = Position.start()
    after = start.play("f5")
    assert after == start.play("F5 ") == start.play(37) == start.play(Index())
    assert after.black == start.black | 1 << 37 | 1 << 36
    assert after.white == 1 << 27
    assert not after.black_to_move
    assert start == Position.start()  # nothing happened to it


@pytest.mark.parametrize("move", ["z9", "f9", "", "f", "f55", 64, 99, -2, None, 3.0, True, "ｆ5", HUGE])
def test_what_is_no_move_is_invalid(move):
    with pytest.raises(InvalidMoveError):
        Position.start().play(move)


@pytest.mark.parametrize(
    ("moves", "move", "message"),
    [
        ("", "e4", "e4 is occupied; legal moves: d3, c4, f5, e6"),
        ("d3c3", "d3", "d3 is occupied; legal moves: b3, c4, f5, e6"),
        ("", "a1", "a1 flips nothing; legal moves: d3, c4, f5, e6"),
        ("", "pass", "passing is not allowed; legal moves: d3, c4, f5, e6"),
        (BEFORE_PASS, "e3", "e3 flips nothing; there is no legal move: pass"),
        (SHORTEST_GAME, "a1", "a1 cannot be played: the game is over"),
        (SHORTEST_GAME, PASS, "pass cannot be played: the game is over"),
    ],
)
def test_illegal_moves_say_why(moves, move, message):
    with pytest.raises(IllegalMoveError) as caught:
        Position.start().replay(moves).play(move)
    assert str(caught.value) == message


def test_errors_are_value_errors_of_ours_and_distinct():
    for error in (InvalidMoveError, IllegalMoveError, InvalidPositionError):
        assert issubclass(error, OthelloError)
        assert issubclass(error, ValueError)
    assert not issubclass(InvalidMoveError, IllegalMoveError)
    assert not issubclass(IllegalMoveError, InvalidMoveError)


@pytest.mark.parametrize("name", ["pass", "PA", "ps", "--", PASS])
def test_a_pass_is_explicit_and_the_only_move(name):
    position = Position.parse(BEFORE_PASS)
    assert position.must_pass
    assert not position.is_over
    assert position.legal_moves == ()
    passed = position.play(name)
    assert (passed.mover, passed.opponent) == (position.opponent, position.mover)
    assert passed.black_to_move is not position.black_to_move


def test_replay_puts_passes_in():
    explicit = Position.parse(BEFORE_PASS).play(PASS).play("e3")
    assert Position.parse(BEFORE_PASS + "e3") == Position.parse(BEFORE_PASS + "--e3") == explicit
    assert Position.start().replay([*["e6", "f6", "d3", "e7", "e8", "d8", "g6", "f8", "e3"]]) == explicit


def test_complete_moves_can_insist_on_passes():
    before = Position.parse(BEFORE_PASS)
    assert complete_moves(before, ["e3"])[0] == (PASS, 20)
    assert complete_moves(before, [PASS, 20], passes_left_out=False)[0] == (PASS, 20)
    with pytest.raises(IllegalMoveError, match=r"move 1 \(e3\): e3 flips nothing; there is no legal move: pass"):
        complete_moves(before, ["e3"], passes_left_out=False)


def test_passes_after_the_end_are_dropped_but_moves_are_not():
    assert complete_moves(Position.start(), [*_names(SHORTEST_GAME), PASS, PASS])[0][-1] != PASS
    with pytest.raises(IllegalMoveError, match=r"move 11 .*the game is over"):
        complete_moves(Position.start(), [*_names(SHORTEST_GAME), PASS, "a1"])


def _names(transcript: str) -> list[str]:
    return [transcript[i : i + 2] for i in range(0, len(transcript), 2)]


def test_scores_and_outcomes():
    over = Position.parse(SHORTEST_GAME)
    assert over.is_over
    assert not over.must_pass
    assert (over.final_score(), over.black_score(), over.outcome()) == (-64, 64, "black")
    swapped = Position.from_discs(over.white, over.black)
    assert (swapped.final_score(), swapped.black_score(), swapped.outcome()) == (-64, -64, "white")
    assert Position(0b1, 0b100).outcome() == "draw"
    with pytest.raises(OthelloError, match="not over"):
        Position.start().final_score()
    with pytest.raises(OthelloError, match="not over"):
        Position.start().black_score()


@pytest.mark.parametrize(
    ("mover", "opponent", "message"),
    [
        (1 << 28, 1 << 28, "e4"),
        (-1, 0, "mover must be a mask of 64 bits"),
        (0, 1 << 64, "opponent must be a mask of 64 bits"),
        ("x", 0, "mover must be a 64-bit mask, not 'x'"),
        (0, 1.5, "opponent must be a 64-bit mask"),
        pytest.param(10**5000, 0, "mover must be a mask of 64 bits", id="huge"),
    ],
)
def test_impossible_masks_are_refused(mover, opponent, message):
    with pytest.raises(InvalidPositionError, match=message):
        Position(mover, opponent)


def test_positions_are_immutable_values():
    position = Position.start()
    with pytest.raises(dataclasses.FrozenInstanceError):
        position.mover = 0
    assert position == Position(position.mover, position.opponent)
    assert position != Position(position.mover, position.opponent, black_to_move=False)
    assert len({position, Position.start()}) == 1
    assert pickle.loads(pickle.dumps(position)) == position


def test_other_integer_types_become_plain_ints():
    np = pytest.importorskip("numpy")
    start = Position.start()
    position = Position(np.uint64(start.mover), np.uint64(start.opponent), np.bool_(True))
    assert position == start
    assert [type(value) for value in (position.mover, position.opponent, position.black_to_move)] == [int, int, bool]
    assert start.play(np.int8(37)) == start.play(37)


@quick
@given(positions())
def test_text_reads_back(position):
    text = position.to_text()
    assert text == f"{position.board_string()} {'X' if position.black_to_move else 'O'}"
    assert Position.parse(text) == position
    assert Position.parse(" ".join(text).lower()) == position


@quick
@given(masks, masks)
def test_any_board_reads_back(first, second):
    for black_to_move in (True, False):
        position = Position.from_discs(first & ~second, second, black_to_move)
        assert (position.black, position.white) == (first & ~second, second)
        assert Position.parse(position.to_text()) == position
        assert position.black_discs + position.white_discs + position.empties == 64
        assert position.board_string().count("X") == position.black_discs


@quick
@given(positions(), symmetry_numbers)
def test_symmetry(position, k):
    image = position.transform(k)
    assert image == position.symmetries()[k]
    assert image.canonical() == position.canonical()
    assert position.canonical() in position.symmetries()
    assert all(
        (position.canonical().mover, position.canonical().opponent) <= (p.mover, p.opponent)
        for p in position.symmetries()
    )
    assert (image.empties, image.is_over, image.must_pass) == (position.empties, position.is_over, position.must_pass)


@quick
@given(positions())
def test_exactly_one_of_move_pass_over(position):
    assert [bool(position.legal_moves), position.must_pass, position.is_over].count(True) == 1
    for move in position.legal_moves:
        after = position.play(move)
        assert after.empties == position.empties - 1
        assert after.black_to_move is not position.black_to_move
        assert after.opponent_discs + after.mover_discs == position.mover_discs + position.opponent_discs + 1


def test_str_shows_the_board_with_a_dot_on_each_legal_move():
    lines = str(Position.parse("f5d6")).splitlines()
    assert lines[0] == "  a b c d e f g h"
    assert lines[6] == "6 - - . O - - - -"
    assert "".join(lines[:9]).count(".") == 5
    assert lines[-1] == "Black (X) to move; black 3, white 3, 58 empty"
    assert str(Position.parse("f5")).splitlines()[-1].startswith("White (O) to move")
    assert str(Position.parse(SHORTEST_GAME)).splitlines()[-1] == "Game over; black 13, white 0, 51 empty"


@quick
@given(positions())
def test_repr_reads_back_and_so_do_the_rows_of_str(position):
    *board, exactly = repr(position).splitlines()
    assert "\n".join(board) == str(position)
    assert eval(exactly) == position
    rows = "".join(line[1:] for line in str(position).splitlines()[1:9])
    assert Position.parse(f"{rows} {'X' if position.black_to_move else 'O'}") == position


def drawn(position: Position) -> tuple[str, list[ElementTree.Element]]:
    """The title and the circles of a position's picture."""
    picture = ElementTree.fromstring(position._repr_svg_())
    name = "{http://www.w3.org/2000/svg}"
    return picture.findtext(f"{name}title"), list(picture.iter(f"{name}circle"))


@quick
@given(positions())
def test_svg_draws_every_disc_and_every_legal_move(position):
    title, circles = drawn(position)
    assert title.endswith(f"; black {position.black_discs}, white {position.white_discs}")

    def count(radius: int, square: int | None = None) -> int:
        row, column = (None, None) if square is None else divmod(square, 8)
        return sum(
            circle.get("r") == str(radius)
            and (square is None or (circle.get("cx"), circle.get("cy")) == (str(44 + 40 * column), str(44 + 40 * row)))
            for circle in circles
        )

    assert [square for square in range(64) if count(16, square)] == [
        square for square in range(64) if (position.black | position.white) >> square & 1
    ]
    assert tuple(square for square in range(64) if count(5, square)) == position.legal_moves
    assert (count(16), count(5)) == (2 * (64 - position.empties), len(position.legal_moves))  # a disc has a shadow


def test_svg_tells_the_colours_apart_and_whose_turn_it_is():
    title, circles = drawn(Position.parse("f5"))
    assert title == "White to move; black 4, white 1"
    fills = [circle.get("fill") for circle in circles if circle.get("r") == "14"]  # the faces of the discs
    assert sorted(map(fills.count, set(fills))) == [1, 4]
    assert drawn(Position.parse(SHORTEST_GAME))[0] == "Game over; black 13, white 0"
    assert "id=" not in Position.start()._repr_svg_()  # ids of two pictures on a page would be the same


def test_version_matches_the_project_file(pytestconfig):
    tomllib = pytest.importorskip("tomllib")
    project = tomllib.loads((pytestconfig.rootpath / "pyproject.toml").read_text(encoding="utf-8"))
    assert othello_nn.__version__ == project["project"]["version"]
