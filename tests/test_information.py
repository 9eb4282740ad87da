"""Information gain of squares: cases that can be worked out by hand, and games of our own."""

import itertools
import math

import numpy as np
import pytest

from othello_nn.engine.oneply import new_scratch
from othello_nn.fit.information import (
    entropy,
    gains,
    information_gain,
    main,
    play_games,
    square_classes,
    state_counts,
)
from othello_nn.game import rules
from othello_nn.players.classic.features import shipped_features


def test_entropy_in_bits():
    assert list(entropy(np.array([[5, 5], [7, 0], [0, 0]]))) == [1, 0, 0]
    assert entropy(np.array([1, 3])) == pytest.approx(2 - 0.75 * math.log2(3))


def test_gains_that_are_known():
    assert information_gain(np.array([[0, 4], [4, 0], [2, 2]])) == pytest.approx(2 / 3), (
        "a third of the games stays open"
    )
    assert information_gain(np.array([[3, 3], [5, 5], [1, 1]])) == 0
    assert information_gain(np.array([[0, 9], [0, 3], [0, 1]])) == 0, (
        "where the winner is known there is nothing to gain"
    )
    # Half of the games are open and half at three to one: 1 − ½·1 − ½·H(¼) less what the unequal total takes away.
    quarter, total = entropy(np.array([1, 3])), entropy(np.array([3, 5]))
    assert information_gain(np.array([[2, 2], [1, 3], [0, 0]])) == pytest.approx(total - (1 + quarter) / 2)


def test_states_are_counted_over_a_class():
    """Two games: black wins with a1 against h1, and loses with nothing in the corners but white on a8."""
    blacks, whites = np.array([1 << 0, 0], np.uint64), np.array([1 << 7, 1 << 56], np.uint64)
    counts = state_counts(blacks, whites, np.array([True, False]), [0, 7, 56, 63])
    assert counts.tolist() == [[0, 1], [1, 1], [3, 2]]  # black, white, empty; lost, won


def test_ten_classes():
    classes = square_classes()
    assert list(classes) == ["a1", "b1", "c1", "d1", "b2", "c2", "d2", "c3", "d3", "d4"]
    assert sorted(square for squares in classes.values() for square in squares) == list(range(64))
    assert classes["a1"] == [0, 7, 56, 63]
    assert len(classes["b1"]) == 8


def test_games_are_legal_and_end_with_their_margin():
    blacks, whites, margins = np.zeros((20, 61), np.uint64), np.zeros((20, 61), np.uint64), np.zeros(20, np.int64)
    play_games(shipped_features().leaf, new_scratch().ctypes.data, np.uint64(5), blacks, whites, margins)
    for i in range(20):
        boards = [(int(blacks[i, e]), int(whites[i, e])) for e in range(60, -1, -1)]
        assert boards[0] == (rules.START_MOVER, rules.START_OPPONENT)
        for (black, white), after in itertools.pairwise(boards):
            black_moves = [rules.play(black, white, s)[::-1] for s in rules.squares_in(rules.legal_mask(black, white))]
            white_moves = [rules.play(white, black, s) for s in rules.squares_in(rules.legal_mask(white, black))]
            if black_moves or white_moves:
                assert after in black_moves + white_moves
            else:
                assert after == (black, white)
        assert margins[i] == rules.final_score(*boards[-1])
    assert len(set(margins)) > 5


def test_corners_tell_more_than_the_centre(capsys):
    found = gains(400, 1, [20])
    assert max(found, key=lambda name: found[name][0]) == "a1"
    assert main(["--games", "50", "--every", "20"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "| empties | 40 | 20 | 0 |"
    assert len(lines) == 12
    assert lines[2].startswith("| a1 | 0.")


def test_mistakes_are_explained(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--games", "0"])
    assert end.value.code == 2
    message = "error: argument --games: '0' is not a whole number from 1 to 1,000,000\n"
    assert capsys.readouterr().err == message
