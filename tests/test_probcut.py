"""Multi-ProbCut: the fit finds what was put in, the search uses it to save nodes, and exact scores stay exact."""

import random
from dataclasses import replace

import numpy as np
import pytest
from net_oracle import squares_checkpoint
from strategies import endings

from othello_nn.checkpoint import Checkpoint
from othello_nn.engine import Engine, Limit, Options
from othello_nn.engine.leaf.compile import with_checks
from othello_nn.engine.leaf.mobility import Mobility
from othello_nn.engine.leaf.tables import TableEvaluator, weighted_squares
from othello_nn.engine.probcut import (
    KINDS,
    LINE_TERMS,
    MIN_DEPTH,
    NOT_CUT,
    PLAIN_MIN_DEPTH,
    SELECTIVITY_LEVELS,
    SLOPE,
    TERMS,
    ProbCut,
    kind_of,
    shallow_depth,
    terms,
)
from othello_nn.engine.score import SCORE_DISC
from othello_nn.engine.workspace import EVERYTHING, PROBCUT_CUTS
from othello_nn.fit.probcut import FitError, fit, fit_plain, main, measure, sample_positions
from othello_nn.game import Position
from othello_nn.game.rules import transform_square

# log σ: four discs, more at a distance, less when the shallow search is deep.
LOG_SIGMA = np.array([1.4, 0.05, -0.01, 0.2, -0.1, 0.3, 0.1, 0.2])
PLAIN = LOG_SIGMA[:6]
"""Numbers as older files have them: σ alone."""
LINES = np.tile([1.0, 0.0, 0.0, 0.0, 0.0], (KINDS, 1))


ROW = [20, -3, 11, 8, 8, 11, -3, 20, -3, -7, -4, 1, 1, -4, -7, -3]


def squares_evaluator(probcut=PLAIN) -> TableEvaluator:
    """Corners good, the squares beside them bad."""
    weights = [*ROW, *([0] * 32), *ROW[8:], *ROW[:8]]
    return replace(weighted_squares("squares", weights, per_disc=4.0), probcut=probcut)


def save_squares(path) -> Checkpoint:
    """A net of much the same, in a file."""
    weights = [0] * 64
    for square, weight in ((0, 20), (1, -3), (2, 11), (3, 8), (9, -7), (10, -4), (11, 1)):
        for k in range(8):
            weights[transform_square(square, k)] = weight
    checkpoint = with_checks(squares_checkpoint(weights, per_disc=4.0))
    checkpoint.save(path)
    return checkpoint


def test_shallow_depths():
    for depth in range(MIN_DEPTH, 61):
        shallow = shallow_depth(depth)
        assert (depth - shallow) % 2 == 0
        assert depth / 2 - 1 <= shallow <= depth / 2 + 1
        assert shallow < depth


def test_levels_trust_more_and_more():
    deviations = SELECTIVITY_LEVELS[1:]
    assert SELECTIVITY_LEVELS[0] is None
    assert list(deviations) == sorted(deviations, reverse=True)
    assert all(deviation > 0 for deviation in deviations)


def test_rows_are_what_the_search_reads():
    lines = LINES.copy()
    lines[kind_of(3, 1)] = [0.8, 0.1, 1.5, 2.0, -4.0]  # at 40 empties the stage is a half: 0.85 v + 1.5
    rows = ProbCut(LOG_SIGMA, lines).rows()
    assert (rows.shape, rows.dtype, rows.flags.c_contiguous) == ((65, 65, 4), np.int32, True)
    for empties, depth in ((20, 8), (40, 3), (24, 24), (60, 60), (12, 6), (30, 2)):
        shallow = shallow_depth(depth)
        sigma = min(max(np.exp(float(terms(empties, depth, shallow) @ LOG_SIGMA)), 0.5), 24)
        slope, offset = (0.85, 1.5) if (empties, depth) == (40, 3) else (1, 0)
        expected = [shallow, round(sigma * SCORE_DISC), round(offset * SCORE_DISC), round(SLOPE / slope)]
        assert rows[empties, depth].tolist() == expected
    # Every row that a search can look at is filled.
    reachable = [rows[empties, depth] for empties in range(2, 61) for depth in range(MIN_DEPTH, empties + 1)]
    assert np.min(reachable, axis=0)[[0, 1, 3]].min() >= 0


def test_older_numbers_cut_as_they_did():
    rows = ProbCut.of(PLAIN).rows()
    assert (rows[:, :PLAIN_MIN_DEPTH, 0] == NOT_CUT).all()
    for empties, depth in ((20, 8), (40, 3), (24, 24)):
        sigma = np.exp(float(terms(empties, depth, shallow_depth(depth))[:6] @ PLAIN))
        assert rows[empties, depth].tolist() == [shallow_depth(depth), round(sigma * SCORE_DISC), 0, SLOPE]


def test_numbers_there_and_back():
    whole = ProbCut(LOG_SIGMA, LINES + np.arange(LINE_TERMS))
    again = ProbCut.of(whole.numbers())
    assert (again.log_sigma == whole.log_sigma).all()
    assert (again.lines == whole.lines).all()
    assert (ProbCut.of(PLAIN).numbers() == PLAIN).all()


@pytest.mark.parametrize("numbers", [np.zeros(5), np.zeros(TERMS), np.full(6, np.nan)])
def test_wrong_coefficients(numbers):
    with pytest.raises(ValueError, match="ProbCut"):
        ProbCut.of(numbers)


def test_fit_finds_lines_and_deviations():
    """Values drawn by known lines with known deviations: the fit must give these back, also between sampled depths."""
    lines = LINES.copy()
    lines[kind_of(5, 1)] = [0.8, 0.1, 1.0, 0.5, 0.0]
    truth, rng = ProbCut(LOG_SIGMA, lines), np.random.default_rng(1)
    samples = []
    for _ in range(16000):
        empties, deep = int(rng.integers(12, 55)), int(rng.integers(MIN_DEPTH, 11))
        shallow, value = int(rng.integers(0, deep)), float(rng.normal(0, 8))
        slope, offset = truth.line(empties, deep, shallow)
        error = rng.normal(0, truth.sigma(empties, deep, shallow))
        samples.append((empties, {shallow: value, deep: float(slope * value + offset + error)}))
    fitted = fit(samples)
    for empties in (16, 30, 45):
        for depth in (2, 4, 5, 9, 10):
            asked = empties, depth, shallow_depth(depth)
            assert fitted.sigma(*asked) == pytest.approx(truth.sigma(*asked), rel=0.2)
            for found, expected in zip(fitted.line(*asked), truth.line(*asked), strict=True):
                assert found == pytest.approx(expected, abs=0.5)
            assert fitted.line(*asked)[0] == pytest.approx(truth.line(*asked)[0], abs=0.06)


def test_samples_are_positions_to_search():
    engine = Engine(squares_evaluator(), Options(table_mb=1, probcut=False))
    first = list(sample_positions(engine, random.Random(2), 12))
    assert len(first) == 12
    assert all(position.legal_mask and 10 <= position.empties <= 54 for position in first)
    assert len({position.empties for position in first}) > 6
    assert first == list(sample_positions(engine, random.Random(2), 12))


def test_measure_has_a_value_for_each_depth():
    engine = Engine(squares_evaluator(), Options(table_mb=1, probcut=False))
    position = Position(*endings(3, 1, 12, 12)[0])
    values = measure(engine, position, depth=5, solve_empties=14)
    assert sorted(values) == [0, 1, 2, 3, 4, 5, position.empties]
    assert values[position.empties] == engine.solve(position).score
    engine.clear()
    assert values[4] == engine.search(position, Limit(depth=4)).score
    assert sorted(measure(engine, position, depth=5, solve_empties=10)) == [0, 1, 2, 3, 4, 5]
    assert values[0] == engine.evaluator.discs(np.array([position.mover]), np.array([position.opponent]))[0]


# --- in the search ---------------------------------------------------------------------------------------------------


def total(evaluator, depth: int, **options) -> tuple[int, list[float]]:
    """Nodes and scores of fixed-depth searches."""
    nodes, scores = 0, []
    for pair in endings(4, 2, 24, 40)[::4]:
        result = Engine(evaluator, Options(table_mb=1, **options)).search(Position(*pair), Limit(depth=depth))
        nodes, scores = nodes + result.nodes, [*scores, result.score]
    return nodes, scores


def test_the_deviation_alone_counts_a_shift_as_an_error():
    """Deep results three discs above shallow ones: a line knows, while a deviation about them must allow for it."""
    rng, samples, shift, spread = np.random.default_rng(2), [], 3.0, 2.0
    for _ in range(12000):
        empties, deep = int(rng.integers(12, 55)), int(rng.integers(3, 11))
        shallow, value = int(rng.integers(0, deep)), float(rng.normal(0, 8))
        samples.append((empties, {shallow: value, deep: value + shift + float(rng.normal(0, spread))}))
    plain, lines = fit_plain(samples), fit(samples)
    assert plain.lines is None
    assert plain.numbers().shape == PLAIN.shape
    for depth in (4, 5, 8, 9):
        asked = 30, depth, shallow_depth(depth)
        assert plain.sigma(*asked) == pytest.approx(np.hypot(shift, spread), rel=0.15)
        assert lines.sigma(*asked) == pytest.approx(spread, rel=0.15)
    assert plain.rows()[40, PLAIN_MIN_DEPTH - 1, 0] == NOT_CUT
    with pytest.raises(FitError):
        fit_plain(samples[:20])


def test_on_when_fitted_and_only_then():
    evaluator = squares_evaluator()
    fitted, full = total(evaluator, 8), total(evaluator, 8, probcut=False)
    assert fitted[0] < 0.9 * full[0]
    assert full == total(replace(evaluator, probcut=None), 8)
    assert full == total(evaluator, 8, switches=EVERYTHING & ~PROBCUT_CUTS)
    # Nothing to go by: an evaluator without a fit searches the full width.
    assert total(Mobility(), 6) == total(Mobility(), 6, probcut=False)


def test_single_cuts_at_one_depth_alone():
    rows = ProbCut(LOG_SIGMA, LINES).rows(single=True)
    assert {int(depth) for depth in np.nonzero((rows[:, :, 0] != NOT_CUT).any(0))[0]} == {8}
    assert (rows[20:30, 8] == ProbCut(LOG_SIGMA, LINES).rows()[20:30, 8]).all()
    evaluator = squares_evaluator(ProbCut(LOG_SIGMA, LINES).numbers())
    full, single, multi = (total(evaluator, 9, probcut=way)[0] for way in (False, "single", True))
    assert multi < single < full


def test_trust_is_the_users():
    evaluator = squares_evaluator()
    careful, usual, bold = (total(evaluator, 8, trust=trust)[0] for trust in (2.5, 1.1, 0.5))
    assert careful > usual > bold
    assert usual == total(evaluator, 8)[0]


def test_confidence_is_that_of_the_deviations_that_are_trusted():
    evaluator = squares_evaluator()
    assert Engine(Mobility()).confidence == 1
    assert Engine(evaluator, Options(probcut=False)).confidence == 1
    assert Engine(evaluator).confidence == pytest.approx(0.7287, abs=1e-4)  # 1.1 deviations on either side
    assert Engine(evaluator, Options(trust=2.0)).confidence == pytest.approx(0.9545, abs=1e-4)


def test_trust_follows_the_deviation():
    """With a huge deviation nothing is cut; the smaller it is, the more."""
    wide, usual, narrow = (
        total(squares_evaluator(np.array([constant, 0, 0, 0, 0, 0])), 8)[0] for constant in (3.2, 1.4, -0.7)
    )
    assert wide > usual > narrow


def test_values_stay_near():
    evaluator = squares_evaluator()
    selective, full = total(evaluator, 8)[1], total(evaluator, 8, probcut=False)[1]
    assert np.mean(np.abs(np.subtract(selective, full))) < 3


@pytest.mark.parametrize("driver", ["negascout", "mtdf"])
def test_exact_scores_stay_exact(driver):
    """Selective looks before the solution order its moves; their bounds must never be taken for exact ones.

    The deviations are far too small, so that the selective values are often wrong.
    """
    careless = squares_evaluator(np.array([-0.7, 0, 0, 0, 0, 0]))
    engine = Engine(careless, Options(table_mb=4, search=driver))
    plain = Engine(Mobility(), Options(table_mb=4))
    wrong = 0
    for pair in endings(5, 4, 14, 18):
        position, looks = Position(*pair), []
        result = engine.solve(position, on_iteration=looks.append)
        expected = plain.solve(position)
        assert (result.score, result.exact, result.selectivity) == (expected.score, True, 0)
        assert engine.solve(position, wld=True).score == np.sign(expected.score)
        wrong += any(look.score != result.score for look in looks if look.selectivity)
    assert wrong > 5


def test_selective_results_are_not_called_exact():
    looks = []
    [pair] = endings(6, 1, 18, 18)
    Engine(squares_evaluator(), Options(table_mb=4)).solve(Position(*pair), on_iteration=looks.append)
    assert any(look.selectivity for look in looks)
    assert [look.exact for look in looks] == [False] * (len(looks) - 1) + [True]
    assert all(not look.exact for look in looks if look.selectivity)


def test_lines_move_the_cuts():
    """A line that adds to every prediction cuts sooner above the window and later below it; the sum of its uses, here,
    is a search that believes too much in the side to move."""
    generous = LINES.copy()
    generous[:, 2] = 6.0
    fair, careless = (total(squares_evaluator(ProbCut(LOG_SIGMA, lines).numbers()), 7) for lines in (LINES, generous))
    assert fair[0] != careless[0]
    full = total(squares_evaluator(), 7, probcut=False)
    assert fair[0] < 0.8 * full[0]
    off = [np.mean(np.abs(np.subtract(each[1], full[1]))) for each in (fair, careless)]
    assert off[0] < off[1]


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_command_fits_and_stores(tmp_path, capsys):
    path = tmp_path / "squares.safetensors"
    saved = save_squares(path)
    arguments = [str(path), "--positions", "150", "--depth", "5", "--solve", "13", "--seed", "3"]
    assert main(arguments) == 0
    fitted = Checkpoint.load(path)
    assert fitted.probcut.shape == (TERMS + KINDS * LINE_TERMS,)
    assert np.isfinite(fitted.probcut).all()
    assert (fitted.arrays["weight"] == saved.arrays["weight"]).all()
    assert (fitted.checks.discs == saved.checks.discs).all()
    out, err = capsys.readouterr()
    assert "σ in discs" in out
    assert "150/150 positions" in err
    assert main(arguments) == 0
    assert (Checkpoint.load(path).probcut == fitted.probcut).all()  # same seed, same fit
    sigma = ProbCut.of(fitted.probcut).sigma(30, 5, shallow_depth(5))
    assert 0.5 < sigma < 20


@pytest.mark.parametrize("positions", ["1", "8"])
def test_too_few_positions_to_fit(positions, tmp_path, capsys):
    path = tmp_path / "squares.safetensors"
    save_squares(path)
    before = path.read_bytes()
    code = main([str(path), "--positions", positions, "--depth", "4", "--solve", "1"])
    assert code in (1, 2)
    assert "positions" in capsys.readouterr().err
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [None, b"no evaluator"])
def test_the_command_refuses_other_files(content, tmp_path, capsys):
    path = tmp_path / "other.safetensors"
    if content is not None:
        path.write_bytes(content)
    assert main([str(path)]) == 2
    message = capsys.readouterr().err
    assert message.startswith("error: ")
    assert "other.safetensors" in message
    assert message.count("\n") == 1
