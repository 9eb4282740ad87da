"""Scores that mean discs: lines through searches' scores, and what the engine says by them."""

from dataclasses import replace

import numpy as np
import pytest

from othello_nn.checkpoint import Checkpoint
from othello_nn.engine import Engine, Limit, Options
from othello_nn.engine.calibration import DEPTHS, SMOOTH, TERMS, Calibration
from othello_nn.fit.calibration import fit_calibration, proven
from othello_nn.game import Position
from othello_nn.learn.data import calibrate
from othello_nn.learn.data.searched import Play, searched_games
from othello_nn.learn.data.store import EXACT
from othello_nn.resources import shipped_nets
from tests.test_data import EVALUATOR


def lines(slope: float = 1.0, offset: float = 0.0) -> np.ndarray:
    made = np.zeros((DEPTHS, TERMS))
    made[:, 0], made[:, 2:SMOOTH] = slope, offset
    return made


def test_terms_by_depth_and_stage():
    made = lines()
    made[0] = [2.0, 0.5, 0, 0, 0, 3.0, 5.0, 1.0, 0, 0]
    made[6, 2:SMOOTH], made[7, 2:SMOOTH] = 7.0, 8.0
    calibration = Calibration(made)
    # At 40 empties the stage is a half, and it is half way from 36 to 44.
    assert calibration.discs(10.0, 40, 1) == pytest.approx(20 + 2.5 + 4)
    assert calibration.discs(0.0, 52, 1) == calibration.discs(0.0, 60, 1) == 1  # nothing is drawn out beyond the knots
    assert [calibration.discs(0.0, 30, depth) for depth in (7, 8, 9, 10, 11, 20)] == [7, 8, 7, 8, 7, 8]
    assert calibration.discs(60.0, 30, 1) == 64
    assert calibration.discs(-60.0, 30, 1) == -64


def test_odd_and_even_numbers_of_empties():
    made = lines()
    made[0, SMOOTH:] = 2.0, 0.8
    calibration = Calibration(made)
    assert calibration.discs(5.0, 30, 1) == pytest.approx(5 - 1)
    assert calibration.discs(5.0, 31, 1) == pytest.approx(5 + 1 + 0.4 / 20)
    assert calibration.discs(5.0, 20, 1) == pytest.approx(5 - 1 + 0.2)
    assert calibration.discs(5.0, 31, 2) == 5


def test_files_from_before_do_not_tell_odd_from_even():
    before = lines(1.2, 3.0)[:, :SMOOTH]
    for empties in (30, 31):
        assert Calibration(before).discs(10.0, empties, 4) == pytest.approx(15)


@pytest.mark.parametrize("wrong", [np.zeros((DEPTHS, 4)), np.full((DEPTHS, TERMS), np.nan)])
def test_wrong_numbers_are_refused(wrong):
    with pytest.raises(ValueError, match="calibration"):
        replace(EVALUATOR, calibration=wrong)


def test_the_engine_tells_calibrated_scores_and_plays_the_same():
    position = Position.start().play("f5").play("d6").play("c3")
    plain = Engine(EVALUATOR, Options(table_mb=1))
    told = Engine(replace(EVALUATOR, calibration=lines(1.5, 2.0)), Options(table_mb=1))
    for depth in (1, 4):
        before, after = (engine.search(position, Limit(depth=depth)) for engine in (plain, told))
        assert after.raw_score == before.score == before.raw_score
        assert after.score == pytest.approx(1.5 * before.score + 2)
        assert (after.move, after.nodes, after.pv) == (before.move, before.nodes, before.pv)


def test_proven_scores_stay_what_they_are():
    ending = Position.parse("--X-OXX-OXXXOOXOXOXXO-OXXXOXOOXOXXOOXOX-XXOOOOX-XOOOOOXOXOOOOOO- X")
    engine = Engine(replace(EVALUATOR, calibration=lines(0.5, 1.0)), Options(table_mb=1))
    assert engine.solve(ending).score == 16
    assert engine.solve(ending, wld=True).score == 1
    assert engine.search(ending, Limit(depth=ending.empties)).score == 16


def test_proven_values_are_the_solvers():
    records = searched_games(EVALUATOR, Play(depth=1, solve=8, latest=10), seed=3, first=0, games=30)
    exact = records[records["flags"] & EXACT != 0]
    found = proven(EVALUATOR, exact["mover"].copy(), exact["opponent"].copy(), threads=2)
    assert len(found) > 100
    assert np.array_equal(found, exact["margin"])


def test_a_fit_finds_the_lines_that_results_were_made_by():
    records = searched_games(EVALUATOR, Play(depth=1, solve=4, latest=10), seed=2, first=0, games=40)
    records = records[64 - np.bitwise_count(records["mover"] | records["opponent"]) > DEPTHS][:600]
    movers, opponents = (np.ascontiguousarray(records[name]) for name in ("mover", "opponent"))
    engine, margins = Engine(EVALUATOR, Options(table_mb=1)), np.zeros(len(records))
    for row, record in enumerate(records):
        position = Position(int(record["mover"]), int(record["opponent"]), True)
        if not position.must_pass:
            margins[row] = 0.5 * engine.search(position, Limit(depth=3)).score - 1
    fitted = fit_calibration(EVALUATOR, movers, opponents, margins, threads=2)
    truth = lines(0.5, -1.0)[0]
    assert fitted.lines[2] == pytest.approx(truth, abs=0.1)
    assert fitted.lines[0] != pytest.approx(truth, abs=0.1)


def test_few_positions_change_little():
    """One game with an odd result is no reason to doubt every score of its stage."""
    records = searched_games(EVALUATOR, Play(depth=1, solve=4, latest=10), seed=2, first=0, games=40)
    empties = 64 - np.bitwise_count(records["mover"] | records["opponent"])
    records = records[(empties > DEPTHS) & (empties < 36)][:400]
    movers, opponents = (np.ascontiguousarray(records[name]) for name in ("mover", "opponent"))
    fitted = fit_calibration(EVALUATOR, movers, opponents, np.full(len(records), 20.0), threads=2)
    assert (np.abs(fitted.lines[:, 2 + 5]) < 0.2).all()  # at 52 empties
    assert (fitted.lines[:, 2 + 1] > 1).all()


def test_a_net_is_calibrated_again(tmp_path, capsys):
    """Lines for every depth are stored, and nothing else in the file changes."""
    path = tmp_path / "net.safetensors"
    before = Checkpoint.load(shipped_nets()["triangle"])
    before.save(path)
    assert calibrate.main([str(path), "--games", "60", "--positions", "1200"]) == 0
    after = Checkpoint.load(path)
    assert after.calibration is not None
    assert after.calibration.shape == (DEPTHS, TERMS)
    assert (after.calibration[:, 0] > 0.5).all()
    assert (after.calibration[:, 0] < 1.5).all()
    assert np.ptp(after.calibration[:, 2:]) > 0.1
    assert after.arrays.keys() == before.arrays.keys()
    assert all(np.array_equal(array, before.arrays[name]) for name, array in after.arrays.items())
    assert after.info == before.info | {"calibration": {"games": 60, "positions": 1200, "seed": 1}}
    capsys.readouterr()
    assert calibrate.main([str(tmp_path / "none.safetensors")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
