"""Sets of n-tuples: their sizes, and what is said about names and files that cannot be used."""

import doctest
import itertools
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import quick

from othello_nn.engine.leaf.shapes import LONGEST, PATTERNS
from othello_nn.errors import OthelloError
from othello_nn.game import rules
from othello_nn.nets import tuple_sets as module
from othello_nn.nets.tuple_sets import (
    MOST_SNAKES,
    TupleSetError,
    check_tuples,
    lookups,
    read_tuples,
    tuple_set,
    weights,
)


def images(squares) -> set[frozenset[int]]:
    return {frozenset(symmetry[square] for square in squares) for symmetry in rules.SYMMETRIES}


def assert_all_different(tuples) -> None:
    seen: set[frozenset[int]] = set()
    for squares in tuples:
        assert len(set(squares)) == len(squares)
        assert frozenset(squares) not in seen, squares
        seen |= images(squares)


def test_examples():
    results = doctest.testmod(module)
    assert results.attempted > 0
    assert results.failed == 0


@pytest.mark.parametrize(
    ("name", "count", "cells", "placements"),
    [
        ("all-1", 10, 30, 64),
        ("all-2", 32, 288, 210),
        ("all-3", 24, 648, 168),
        ("all-4", 21, 1701, 130),
        ("all-5", 14, 14 * 243, 96),
        ("all-6", 12, 12 * 729, 66),
        ("all-7", 6, 6 * 2187, 40),
        ("all-8", 5, 5 * 6561, 18),  # the eight ranks, the eight files and two diagonals
        ("patterns", 11, 167265, 46),
        ("edges", 1, 3**10, 4),
        ("corners", 2, 3**9 + 3**10, 12),
        ("rows", 4, 4 * 3**8, 16),
        ("diagonals", 5, 3**8 + 3**7 + 3**6 + 3**5 + 3**4, 18),
        ("rows+corners", 6, 4 * 3**8 + 3**9 + 3**10, 28),
        ("all-1+all-1", 10, 30, 64),
        ("all-8+rows", 5, 5 * 6561, 18),  # the rows are among the straight lines
    ],
)
def test_counts(name, count, cells, placements):
    tuples = tuple_set(name)
    assert (len(tuples), weights(tuples), lookups(tuples)) == (count, cells, placements)
    assert_all_different(tuples)


def test_straight_tuples_are_every_straight_line():
    """Counted another way: all lines through the rays of the rules, not only up to symmetry."""
    for length in range(2, 9):
        lines = set()
        for square in range(64):
            for row_step, column_step in rules.DIRECTIONS:
                row, column = divmod(square, 8)
                line = [(row + i * row_step, column + i * column_step) for i in range(length)]
                if all(0 <= r < 8 and 0 <= c < 8 for r, c in line):
                    lines.add(frozenset(8 * r + c for r, c in line))
        assert set().union(*(images(squares) for squares in tuple_set(f"all-{length}"))) == lines


def test_the_families_are_the_patterns():
    assert tuple_set("patterns") == PATTERNS
    parts = tuple_set("edges+corners+rows+diagonals")
    assert set(PATTERNS) == set(parts) - {tuple(range(8))}  # the edge row is part of the edge with its X-squares


@quick
@given(st.integers(1, 20), st.integers(2, LONGEST), st.integers(0, 2**32))
def test_random_snakes(count, length, seed):
    tuples = tuple_set(f"rand-{count}x{length}", seed)
    assert [len(squares) for squares in tuples] == [length] * count
    assert_all_different(tuples)
    for squares in tuples:
        for here, there in itertools.pairwise(squares):
            assert max(abs(here // 8 - there // 8), abs(here % 8 - there % 8)) == 1


def test_the_seed_chooses_the_snakes():
    assert tuple_set("rand-8x4", 3) == tuple_set("rand-8×4", 3)
    assert tuple_set("rand-8x4", 3) != tuple_set("rand-8x4", 4)
    assert tuple_set("rand-8x4") == tuple_set("rand-8x4", 0)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("patern", "unknown tuple set 'patern'; did you mean 'patterns'?"),
        ("al-2", "unknown tuple set 'al-2'; did you mean 'all-2'?"),
        ("rows+", "unknown tuple set ''; choose from patterns,"),
        ("all-9", "all-9: a straight tuple has 1 to 8 squares, not 9"),
        ("all-0", "all-0: a straight tuple has 1 to 8 squares, not 0"),
        ("rand-3x11", f"1 to {MOST_SNAKES} tuples of 1 to {LONGEST} squares"),
        ("rand-0x4", f"1 to {MOST_SNAKES} tuples of 1 to {LONGEST} squares"),
        ("rand-11x1", "only 10 different snakes of 1 squares"),
        ("no/such.txt", "no/such.txt: tuples cannot be read: No such file"),
        ("rows+no.txt", "no.txt: tuples cannot be read: No such file"),
        (".", ".: tuples cannot be read: Is a directory"),
        ("/dev/zero", "/dev/zero: tuples cannot be read: it is a device, not a file"),
        ("rows+a.pipe", "a.pipe: tuples cannot be read: it is a pipe, not a file"),
    ],
)
def test_names_that_cannot_be_used(name, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("a.pipe")
    with pytest.raises(TupleSetError) as caught:
        tuple_set(name)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, OthelloError)


def test_a_file(tmp_path):
    path = tmp_path / "my+tuples.txt"
    path.write_text("# corners first\na1 b1 A2\n\n  h8 g8 f8 e8  # an edge\n")
    assert tuple_set(str(path)) == ((0, 1, 8), (63, 62, 61, 60))
    assert read_tuples(path) == tuple_set(str(path))
    plain = tmp_path / "tuples.txt"
    plain.write_text("c3 d4\n")
    assert tuple_set(f"all-1+{plain}")[-1] == (18, 27)
    assert len(tuple_set(f"all-1+{plain}")) == 11


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a1 b1\n# fine\na1 z9\n", "line 3: 'z9' is not a square"),
        ("a1 b1 a1\n", "line 1: a tuple has each square once"),
        ("a1 b1\nh8 h7\n", "line 2: these are the squares of line 1, up to symmetry"),
        ("\na1 b1 c1 d1 e1 f1 g1 h1 a2 b2 c2\n", "line 2: a tuple has 1 to 10 squares, not 11"),
        ("# nothing\n\n", "there are no tuples in it"),
    ],
)
def test_files_that_cannot_be_used(tmp_path, text, message):
    path = tmp_path / "tuples.txt"
    path.write_text(text)
    with pytest.raises(TupleSetError) as caught:
        tuple_set(str(path))
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)


def test_a_file_that_is_no_text(tmp_path):
    path = tmp_path / "tuples.bin"
    path.write_bytes(b"\xff\xfe\x00a1")
    with pytest.raises(TupleSetError, match="not a text file"):
        tuple_set(str(path))


@pytest.mark.parametrize(
    ("tuples", "message"),
    [
        ([], "must be the name of a set or a list"),
        (7, "must be the name of a set or a list"),
        ([3], "a tuple must be a list of squares, not 3"),
        (["a1"], "a tuple must be a list of squares, not 'a1'"),
        ([[0, 64]], "whole numbers from 0"),
        ([[True]], "whole numbers from 0"),
        ([[0.0]], "whole numbers from 0"),
        ([[]], "1 to 10 squares, not 0"),
        ([[1, 2], [3, 3]], "each square once"),
    ],
)
def test_lists_that_cannot_be_used(tuples, message):
    with pytest.raises(TupleSetError, match=message):
        check_tuples(tuples)
    assert check_tuples([[0, 1], (9,)]) == ((0, 1), (9,))
