"""Move: a number to programs, a square to people."""

import copy
import json
import pickle
import random

import numpy as np
import pytest
from hypothesis import given
from strategies import masks, quick

from othello_nn import PASS, InvalidMoveError, Move, Position
from othello_nn.engine import Engine, Limit, Options
from othello_nn.game import move_name, parse_move, parse_transcript
from othello_nn.game.move import moves_in
from othello_nn.game.record import Game
from othello_nn.game.rules import squares_in
from othello_nn.players import make_player

F5 = Move("f5")
BEFORE_PASS = "e6f6d3e7e8d8g6f8"  # black has no move now


def test_it_shows_its_name():
    assert (str(F5), repr(F5), f"{F5}", f"{F5:>4}|{F5:4}|") == ("f5", "f5", "f5", "  f5|f5  |")
    assert (str(PASS), repr(PASS), f"{PASS}") == ("pass", "pass", "pass")
    assert "%s %d" % (F5, F5) == "f5 37"  # noqa: UP031 (the old way of formatting is what is looked at)
    assert [str(Move(number)) for number in range(-1, 64)] == [move_name(number) for number in range(-1, 64)]


def test_it_is_the_number():
    assert isinstance(F5, int)
    assert F5 == 37 == Move(37) == Move(np.int64(37)) == Move(F5)
    assert (Move("pass"), Move(-1), hash(F5)) == (PASS, PASS, hash(37))
    assert {37: "a"}[F5] == "a"
    assert (1 << F5, F5 + 1, divmod(F5, 8), sorted([F5, 3, PASS])) == (1 << 37, 38, (4, 5), [-1, 3, 37])
    assert type(F5 + 0) is int


@pytest.mark.parametrize("name", ["f5", "F5", " f5 "])
def test_parse(name):
    assert Move.parse(name) is Move(name) is parse_move(name) is F5


@pytest.mark.parametrize("name", ["--", "pa", "PS", "Pass"])
def test_parse_pass(name):
    assert Move.parse(name) is Move(name) is PASS


@pytest.mark.parametrize("what", ["z9", "", "f55", 64, -2, 3.0, None, True])
def test_what_is_no_move(what):
    with pytest.raises(InvalidMoveError):
        Move(what)


def test_copies_are_the_same_object():
    """Whether pickled, copied or made again."""
    for move in (F5, PASS):
        assert pickle.loads(pickle.dumps(move)) is copy.copy(move) is copy.deepcopy(move) is Move(int(move)) is move


def test_files_and_arrays_hold_numbers():
    assert json.dumps({"move": F5, "line": [F5, PASS], F5: 0}) == '{"move": 37, "line": [37, -1], "37": 0}'
    array = np.array(Position.start().legal_moves)
    assert (array.dtype, array.tolist()) == (np.int64, [19, 26, 37, 44])
    assert np.array([F5, PASS], np.int8).tolist() == [37, -1]


@quick
@given(masks)
def test_moves_of_a_mask(mask):
    moves = moves_in(mask)
    assert moves == tuple(squares_in(mask))
    assert {type(move) for move in moves} <= {Move}


def all_moves(moves) -> bool:
    return bool(moves) and all(type(move) is Move for move in moves)


def test_positions_records_and_transcripts_give_moves():
    assert str(Position.start().legal_moves) == "(d3, c4, f5, e6)"
    assert all_moves(parse_transcript(f"{BEFORE_PASS}e3"))
    assert all_moves(Game(moves=(37, 43, 18)).moves)


def test_searches_give_moves():
    engine = Engine(options=Options(table_mb=1))
    ending = Position.parse("-XOO-----XOOO---X-OXOOXXXXOOXXOXXOXXOXOXOOOOOOXX--XOOO-----O--O- X")
    for result in (
        engine.search(Position.start(), Limit(depth=4)),
        engine.search(Position.parse(BEFORE_PASS), Limit(depth=4)),
        engine.solve(ending),
    ):
        assert all_moves((result.move, *result.pv))
        assert result.pv[0] == result.move


@pytest.mark.parametrize("spec", ["random", "most-discs", "swh", "swh:epsilon=1", "mobility:depth=2"])
def test_players_choose_moves(spec):
    player = make_player(spec, random.Random(1))
    for position in (Position.start(), Position.parse(BEFORE_PASS)):
        choice = player.choose(position)
        assert all_moves((choice.move, *choice.pv))
