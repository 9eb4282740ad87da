"""Expected utility: random WPC players, another one in each double game."""

import json

import numpy as np
import pytest
from test_cli import one_line, run
from test_league import Chance, plain_game

from othello_nn.arena.league import league, league_player, random_opening
from othello_nn.arena.random_wpc import UNIT, DrawnSquares, draw_weights
from othello_nn.engine.oneply import evaluated_move, new_scratch
from othello_nn.game import rules
from othello_nn.players import PlayerError
from othello_nn.players.searching import square_evaluator
from othello_nn.players.simple import SWH, SquareWeights


def drawn(seed: int, number: int) -> np.ndarray:
    weights = np.zeros(64, np.int32)
    draw_weights(np.uint64(seed), number, weights)
    return weights


def test_weights_are_uniform_and_their_own_in_each_double_game():
    weights = np.stack([drawn(3, number) for number in range(2000)]) / UNIT
    assert -1 <= weights.min() < -0.999
    assert 0.999 < weights.max() <= 1
    assert np.abs(weights.mean(axis=0)).max() < 0.07  # a square's deviation is 0.013
    assert weights.std() == pytest.approx(3**-0.5, abs=0.005)
    assert np.abs(np.corrcoef(weights[:, :8].T)[~np.eye(8, dtype=bool)]).max() < 0.1
    assert np.array_equal(drawn(3, 5), drawn(3, 5))
    assert not np.array_equal(drawn(3, 5), drawn(4, 5))


def test_games_are_those_of_plain_ones():
    seed, plies, epsilon = 5, 3, 0.2
    result = league(square_evaluator(SWH), league_player("random-wpc"), 30, epsilon, seed, opening_plies=plies)
    for number, (as_black, as_white) in enumerate(result.margins.tolist()):
        rival = SquareWeights("drawn", tuple(map(int, drawn(seed, number))), 1)
        opening = [int(part) for part in random_opening(np.uint64(seed), number, plies)]
        opening[2] = bool(opening[2])
        assert as_black == plain_game({True: SWH, False: rival}, epsilon, Chance(seed, 2 * number), *opening)
        assert as_white == -plain_game({True: rival, False: SWH}, epsilon, Chance(seed, 2 * number + 1), *opening)


def test_it_takes_the_move_that_weighs_most():
    weights = np.zeros(64, np.int32)
    leaf, scratch = DrawnSquares(weights.ctypes.data), new_scratch()
    start = np.uint64(rules.START_MOVER), np.uint64(rules.START_OPPONENT)
    moves = np.uint64(rules.legal_mask(*map(int, start)))
    for square in rules.squares_in(int(moves)):
        weights[:] = 0
        weights[square] = 5
        chosen, _ = evaluated_move(leaf, scratch.ctypes.data, *start, moves, 60, np.uint64(1), False)
        assert chosen == square


def test_threads_do_not_matter_and_a_good_player_wins():
    swh, opponent = square_evaluator(SWH), league_player("random-wpc")
    one, three = (league(swh, opponent, 400, 0.0, seed=2, threads=threads) for threads in (1, 3))
    assert np.array_equal(one.margins, three.margins)
    assert 0.75 < one.score < 0.95
    assert one.low < one.score < one.high
    assert league(league_player("random"), opponent, 400, 0.0, seed=2).score == pytest.approx(0.5, abs=0.1)


def test_the_command():
    words = ["league", "swh", "--double-games", "50", "--json", "--epsilon", "0"]
    found = json.loads(run(*words, "--opponent", "random-wpc").stdout)
    assert found["against"] == "random-wpc"
    assert found["score"] == league(square_evaluator(SWH), league_player("random-wpc"), 50, 0.0).score
    assert json.loads(run(*words, "--against", "random-wpc").stdout)["score"] == found["score"]


def test_it_is_an_opponent():
    with pytest.raises(PlayerError, match="random-wpc is an opponent"):
        league(league_player("random-wpc"), square_evaluator(SWH), 1)
    assert "name a player first" in one_line(run("league", "random-wpc").stderr)
    assert "keys but epsilon" in one_line(run("league", "swh", "--against", "random-wpc:depth=3").stderr)
