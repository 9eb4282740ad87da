"""N-tuples in the League's text format: reading, writing, errors, and the player a file makes."""

import os
import random
from pathlib import Path

import numpy as np
import pytest
from strategies import endings

from othello_nn.engine.oneply import new_scratch
from othello_nn.errors import OthelloError
from othello_nn.game import Position, rules
from othello_nn.players import make_player
from othello_nn.players.classic.league_tuples import (
    LARGEST_DISCS,
    LeagueFormatError,
    Tuple,
    format_tuples,
    parse_tuples,
    read_tuples,
    tuples_evaluator,
    write_tuples,
)

FIGURE_7 = Path(__file__).parent / "fixtures" / "figure7.tuples"
SMALL = "{ 2 { 2 2 { 0 1 } { 63 62 } { 1 2 3 4 5 6 7 8 9 } } { 1 1 { 27 } { -1 0 1e-2 } } }"


def plain_value(tuples: list[Tuple], own: int, other: int) -> float:
    """The sum as the format defines it: the player is black, the first square the most significant digit."""
    total = 0.0
    for one in tuples:
        for squares in one.placements:
            cell = 0
            for square in squares:
                cell = 3 * cell + (2 if own >> square & 1 else 0 if other >> square & 1 else 1)
            total += one.weights[cell]
    return total


def test_the_printed_player_is_read():
    tuples = read_tuples(FIGURE_7)
    assert len(tuples) == 32
    assert sum(len(one.weights) for one in tuples) == 288
    assert sum(len(one.placements) for one in tuples) == 210  # all pairs of neighbours
    assert len({frozenset(squares) for one in tuples for squares in one.placements}) == 210
    assert tuples[0].placements[:2] == ((6, 7), (55, 63))
    assert tuples[-1].weights[-1] == -42.70


@pytest.mark.parametrize("tuples", [read_tuples(FIGURE_7), parse_tuples(SMALL)], ids=["figure 7", "small"])
def test_the_evaluator_has_the_sums_of_the_tuples(tuples):
    evaluator = tuples_evaluator(tuples, "tuples")
    leaf, scratch = evaluator.leaf, new_scratch()
    boards = endings(seed=2, games=6, fewest=0, most=60)
    plain, compiled = [], []
    for other, own in boards:  # after the player's move the other side is the mover
        plain.append(plain_value(tuples, own, other))
        type(leaf).begin(leaf, scratch.ctypes.data, np.uint64(other), np.uint64(own))
        empties = 64 - (own | other).bit_count()
        compiled.append(type(leaf).score(leaf, scratch.ctypes.data, np.uint64(other), np.uint64(own), empties))
    scale = np.dot(plain, compiled) / np.dot(plain, plain)
    assert scale < 0
    assert len(set(compiled)) > (300 if len(tuples) == 32 else 20)
    assert np.abs(np.array(compiled) - scale * np.array(plain)).max() < 1  # units of 1/128 disc
    assert np.abs(compiled).max() <= 128 * LARGEST_DISCS


def test_tuples_are_written_as_they_were(tmp_path):
    tuples = [*read_tuples(FIGURE_7), *parse_tuples(SMALL), Tuple(((5,),), (1 / 3, -1e-300, 12345678.9))]
    write_tuples(tmp_path / "some.tuples", tuples)
    assert read_tuples(tmp_path / "some.tuples") == tuples
    assert parse_tuples(format_tuples(tuples).replace(" ", "\n\t ").replace("{ ", "{")) == tuples
    assert len(format_tuples(tuples).splitlines()) == 2 * len(tuples) + 2


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (SMALL, "", "line 1: the text ends where an opening brace should follow"),
        ("{ 2 {", "2 {", "line 1: '2' where an opening brace should be"),
        ("{ 2 {", "{ two {", "line 1: 'two' where the number of tuples should be"),
        ("{ 2 {", "{ 0 {", "line 1: '0' where the number of tuples should be"),
        ("{ 2 {", "{ 3 {", "line 1: '}' where the opening brace of tuple 3 of 3 should be"),
        ("{ 2 {", "{ 1 {", "line 1: '{' where the closing brace behind 1 tuples should be"),
        ("{ 1 1 {", "\n{ 11 1 {", "line 2: '11' where the size of tuple 2 of 2, 1 to 10, should be"),
        ("{ 1 1 {", "\n\n{ 1 2 {", "line 3: '-1' where a square 0 to 63 should be"),
        ("{ 63 62 }", "{ 63 64 }", "'64' where a square 0 to 63 should be"),
        ("{ 63 62 }", "{ 63 -2 }", "'-2' where a square 0 to 63 should be"),
        ("{ 63 62 }", "{ 63 63 }", "a placement of tuple 1 of 2 has a square twice"),
        ("{ 63 62 }", "{ 63 62 61 }", "'61' where the closing brace behind 2 squares should be"),
        ("4 5 6", "4 five 6", "'five' where weight 5 of 9 should be"),
        ("4 5 6", "4 nan 6", "'nan' where weight 5 of 9 should be"),
        ("4 5 6", "4 5_0 6", "'5_0' where weight 5 of 9 should be"),
        ("7 8 9", "7 8", "'}' where weight 9 of 9 should be"),
        ("7 8 9", "7 8 9 10", "'10' where the closing brace behind 9 weights should be"),
        ("1e-2 } } }", "1e-2 } }\n", "the text ends where the closing brace behind 2 tuples should follow"),
        ("1e-2 } } }", "1e-2 } } }\n}", "line 2: '}' after the end"),
    ],
)
def test_errors_name_the_line_and_the_word(old, new, message):
    assert old in SMALL
    with pytest.raises(LeagueFormatError) as error:
        parse_tuples(SMALL.replace(old, new), "some.tuples")
    assert message in str(error.value)
    assert str(error.value).startswith("some.tuples, line ")


def test_files_that_are_no_texts_are_refused(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe{ 1")
    for path in (tmp_path / "binary", tmp_path / "missing", tmp_path):
        with pytest.raises(LeagueFormatError, match=str(path)):
            read_tuples(path)


@pytest.mark.skipif(os.name != "posix", reason="devices and pipes of POSIX")
def test_what_has_no_end_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, what in ((Path("/dev/zero"), "a device"), (tmp_path / "pipe", "a pipe")):
        with pytest.raises(LeagueFormatError, match=f"'{path}' cannot be read: it is {what}, not a file"):
            read_tuples(path)
        with pytest.raises(LeagueFormatError, match=f"it is {what}, not a file"):
            make_player(f"tuples:{path}")


def test_weights_whose_sum_is_no_number():
    with pytest.raises(LeagueFormatError, match="3 finite weights, none beyond ±1e"):
        Tuple(((0,), (63,)), (-1e308, 0.0, 1e308))
    large = Tuple(((0,), (63,)), (-1e30, 0.0, 1e30))
    assert tuples_evaluator([large, large], "large").discs(*(np.array([x], np.uint64) for x in (1, 2**63))) == 0


@pytest.mark.parametrize(
    ("placements", "weights"),
    [((), (1.0,)), (((1,), (1, 2)), (0.0,) * 3), (((1, 1),), (0.0,) * 9), (((64,),), (0.0,) * 3), (((1,),), (0.0,))],
)
def test_a_tuple_is_checked(placements, weights):
    with pytest.raises(LeagueFormatError, match="needs"):
        Tuple(placements, weights)


def test_a_file_of_tuples_is_a_player():
    tuples = read_tuples(FIGURE_7)
    player = make_player(f"tuples:{FIGURE_7}")
    rng = random.Random(4)
    for mover, opponent in rng.sample(endings(seed=4, games=5, fewest=5, most=50), 40):
        legal = rules.squares_in(rules.legal_mask(mover, opponent))
        if len(legal) < 2:
            continue
        values = {square: plain_value(tuples, *rules.play(mover, opponent, square)[::-1]) for square in legal}
        choice = player.choose(Position(mover, opponent))
        assert choice.depth == 1
        # 1/128 disc is 3 of the player's own units.
        assert values[choice.move] == pytest.approx(max(values.values()), abs=4)
    deeper = make_player(f"tuples:{FIGURE_7}:depth=3").choose(Position.start())
    assert deeper.depth == 3
    for wrong, message in (("tuples:", "names no file"), ("tuples:no.such", "no.such")):
        with pytest.raises(OthelloError, match=message):
            make_player(wrong)
