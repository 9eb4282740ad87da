"""KEYANO's evaluation: the compiled terms against their definition in plain Python, the fit, and the file.

The oracle walks lines square by square and reads the tables through names of squares; nothing of it is shared with the
kernels but the numbers that are looked up.
"""

import doctest
import errno
import itertools
import sys
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from strategies import endings, scattered

from othello_nn.arena.match import play_match
from othello_nn.arena.openings import make_openings
from othello_nn.checkpoint import Checkpoint, CheckpointError
from othello_nn.engine.leaf.shapes import symmetric
from othello_nn.engine.score import LEAF_LIMIT
from othello_nn.fit import keyano as fit_keyano
from othello_nn.fit import keyano_statistics, tool
from othello_nn.fit.keyano_games import SOLVED_EMPTIES, play_games
from othello_nn.fit.keyano_statistics import blended_value, lost_of, non_negative_fit
from othello_nn.game import OthelloError, Position, rules
from othello_nn.game.syntax import parse_square
from othello_nn.players import PlayerError, make_player
from othello_nn.players.classic import keyano
from othello_nn.players.classic.keyano import FITTED, KeyanoEvaluator, shipped_keyano
from othello_nn.players.classic.keyano_kernels import COUNTS, PATTERNS, SHAPES, WEIGHTS, keyano_terms

word = np.uint64
TABLES = {  # a placement of each pattern, written anew; the rest are its mirror images
    "vectors": [
        "a8 b8 c8 d8 e8 f8 g8 h8",
        "b1 b2 b3 b4 b5 b6 b7 b8",
        "h1 g2 f3 e4 d5 c6 b7 a8",
        "a2 b3 c4 d5 e6 f7 g8",
    ],
    "corners": ["h8 g8 f8 h7 g7 f7 h6 g6 f6"],
    "edges": ["b8 c8 d8 e8 f8 g8 c7 d7 e7 f7", "a8 b8 c8 d8 e8 f8 g8 h8 b7 g7"],
}


def squares_of(names: str) -> list[int]:
    return [parse_square(name) for name in names.split()]


# --- the oracle ------------------------------------------------------------------------------------------------------


def directions(mover: int, opponent: int) -> dict[int, int]:
    """For each empty square, the directions in which a disc of the mover's there would flip others."""
    found = {}
    for square in range(64):
        if (mover | opponent) >> square & 1:
            continue
        count = 0
        for row_step, column_step in rules.DIRECTIONS:
            row, column, passed = square // 8 + row_step, square % 8 + column_step, 0
            while 0 <= row < 8 and 0 <= column < 8 and opponent >> (8 * row + column) & 1:
                row, column, passed = row + row_step, column + column_step, passed + 1
            count += bool(passed and 0 <= row < 8 and 0 <= column < 8 and mover >> (8 * row + column) & 1)
        found[square] = count
    return found


def regions(mover: int, opponent: int) -> list[set[int]]:
    left = {square for square in range(64) if not (mover | opponent) >> square & 1}
    found = []
    while left:
        region, border = set(), [left.pop()]
        while border:
            square = border.pop()
            region.add(square)
            near = {s for s in left if max(abs(s // 8 - square // 8), abs(s % 8 - square % 8)) == 1}
            left -= near
            border += near
        found.append(region)
    return found


def lost(mover: int, opponent: int) -> int:
    """Regions that the mover cannot enter now, nor with the second of two moves."""
    moves = {square for square, count in directions(mover, opponent).items() if count}
    entered = set(moves)
    for square in moves:
        turned = rules.flips_mask(mover, opponent, square)
        after = directions(mover | turned | 1 << square, opponent & ~turned)
        entered |= {second for second, count in after.items() if count}
    return sum(not region & entered for region in regions(mover, opponent))


def curve_value(evaluator: KeyanoEvaluator, mover: int, opponent: int) -> int:
    counts = directions(mover, opponent)
    whole, quarter = evaluator.curves.tolist()
    value = whole[min(sum(counts.values()), COUNTS - 1)]
    for rows, columns in itertools.product((range(4), range(4, 8)), repeat=2):
        value += quarter[min(sum(counts.get(8 * r + c, 0) for r in rows for c in columns), COUNTS - 1)]
    return value


def looked_up(evaluator: KeyanoEvaluator, names: str, mover: int, opponent: int, is_edge: bool) -> int:
    """The sum over the different mirror images of the squares, in an order that the table's own squares have."""
    wanted = set(squares_of(names))
    number, base, to_names = next(
        (number, base, symmetry)
        for number, base in enumerate(PATTERNS.values())
        for symmetry in rules.SYMMETRIES
        if {symmetry[square] for square in base} == wanted
    )
    total, seen = 0, set()
    for symmetry in rules.SYMMETRIES:
        squares = [symmetry[to_names[square]] for square in base]
        if frozenset(squares) in seen:
            continue
        seen.add(frozenset(squares))
        if is_edge:
            ends = [symmetry[square] for square in squares_of("a8 h8 b7 g7")]
            bare = not any((mover | opponent) >> square & 1 for square in ends)
            if bare != ("c7" in names):
                continue
        digits = [1 + (mover >> square & 1) - (opponent >> square & 1) for square in squares]
        cell = SHAPES.table_starts[number] + sum(digit * 3**i for i, digit in enumerate(digits))
        total += int(evaluator.weights[0, cell])
    return total


def plain_terms(evaluator: KeyanoEvaluator, mover: int, opponent: int) -> tuple[int, ...]:
    mobility = curve_value(evaluator, mover, opponent) - curve_value(evaluator, opponent, mover)
    mobility -= evaluator.parity * (lost(mover, opponent) - lost(opponent, mover))
    sums = [
        sum(looked_up(evaluator, names, mover, opponent, term == "edges") for names in TABLES[term]) for term in TABLES
    ]
    return mobility, *sums


def plain_score(evaluator: KeyanoEvaluator, mover: int, opponent: int) -> int:
    row = evaluator.coefficients[64 - (mover | opponent).bit_count()].tolist()
    terms = *plain_terms(evaluator, mover, opponent), 128
    score = round(sum(weight * term for weight, term in zip(row, terms, strict=True)) / 65536)
    return min(max(score, -LEAF_LIMIT), LEAF_LIMIT)


# --- helpers ---------------------------------------------------------------------------------------------------------


@cache
def random_evaluator() -> KeyanoEvaluator:
    rng = np.random.default_rng(5)
    values = symmetric(rng.uniform(-30, 30, SHAPES.cells), SHAPES)
    curves = np.cumsum(rng.uniform(0, 9, (2, COUNTS)), axis=1)
    return KeyanoEvaluator.of(values, curves, rng.uniform(0, 0.2, (65, WEIGHTS)), 24.5)


@cache
def boards() -> list[tuple[int, int]]:
    """Of games, and boards of chance, which are full of lost regions and moves in many directions."""
    return endings(4, 4, 0, 60)[::3] + scattered(4, 60, 3, 40)


def terms_of(evaluator: KeyanoEvaluator, mover: int, opponent: int) -> tuple[int, ...]:
    features, leaf = np.zeros(64, np.int64), evaluator.leaf
    type(leaf).begin(leaf, features.ctypes.data, word(mover), word(opponent))
    return keyano_terms(leaf, features.ctypes.data, word(mover), word(opponent))


def columns(pairs) -> tuple[np.ndarray, np.ndarray]:
    movers, opponents = zip(*pairs, strict=True)
    return np.array(movers, np.uint64), np.array(opponents, np.uint64)


# --- the terms -------------------------------------------------------------------------------------------------------


def test_terms_and_score_are_their_definition():
    evaluator = random_evaluator()
    scores = evaluator.discs(*columns(boards())) * 128
    for (mover, opponent), score in zip(boards(), scores, strict=True):
        assert terms_of(evaluator, mover, opponent) == plain_terms(evaluator, mover, opponent)
        assert score == plain_score(evaluator, mover, opponent)


def test_the_boards_show_all_that_terms_are_about():
    """Or the comparison above would say little."""
    counts = [count for mover, opponent in boards() for count in directions(mover, opponent).values()]
    assert set(counts) >= {0, 1, 2, 3, 4}
    assert {lost(*board) for board in boards()} >= {0, 1, 2}
    second_move = 0
    for mover, opponent in boards():
        moves = rules.squares_in(rules.legal_mask(mover, opponent))
        second_move += lost(mover, opponent) < sum(not region & set(moves) for region in regions(mover, opponent))
    assert second_move > 5


def test_a_move_in_eight_directions_counts_eight_times():
    mover = sum(1 << square for square in squares_of("b2 d2 f2 b4 f4 b6 d6 f6"))
    opponent = sum(1 << square for square in squares_of("c3 d3 e3 c4 e4 c5 d5 e5"))
    assert directions(mover, opponent)[parse_square("d4")] == 8
    evaluator = KeyanoEvaluator.of(
        np.zeros(SHAPES.cells), np.stack([np.arange(COUNTS), np.zeros(COUNTS)]), np.zeros((65, WEIGHTS)), 0
    )
    expected = sum(directions(mover, opponent).values()) - sum(directions(opponent, mover).values())
    assert terms_of(evaluator, mover, opponent) == (128 * expected, 0, 0, 0)


def test_lost_regions():
    a1, g8, h8 = (1 << parse_square(name) for name in ("a1", "g8", "h8"))
    opponent = g8
    mover = (1 << 64) - 1 ^ (a1 | g8 | h8)
    # The mover can take h8 and never a1; the other side can do nothing at all.
    assert (lost(mover, opponent), lost(opponent, mover)) == (1, 2)
    found = lost_of(keyano_statistics.Labelled(*columns([(mover, opponent)]), np.zeros(1, np.int8)))
    assert found.tolist() == [[1, 2]]


def test_the_edge_is_chosen_by_corners_and_x_squares():
    """With 1 in the table of inner edges and 100 in that of outer ones, the sum tells how many of each were read."""
    inner, outer = (list(PATTERNS).index(name) for name in ("inner edge", "outer edge"))
    values = np.zeros(SHAPES.cells)
    values[SHAPES.table_starts[inner] :] = 1
    values[SHAPES.table_starts[outer] :] = 100
    evaluator = KeyanoEvaluator.of(values, np.zeros((2, COUNTS)), np.zeros((65, WEIGHTS)), 0)
    for name, expected in (("c1", 4), ("b1", 4), ("c2", 4), ("b2", 202), ("a1", 202), ("g7", 202), ("d4", 4)):
        assert terms_of(evaluator, 1 << parse_square(name), 1 << parse_square("e5"))[3] == 128 * expected, name
    corners = sum(1 << square for square in squares_of("a1 h8"))
    assert terms_of(evaluator, corners, 1 << parse_square("e5"))[3] == 128 * 400


def test_features_after_a_move_are_those_of_the_new_position():
    leaf = random_evaluator().leaf
    memory = np.zeros((3, 64), np.int64)
    here, child, fresh = (row.ctypes.data for row in memory)
    tried = 0
    for mover, opponent in boards()[::4]:
        type(leaf).begin(leaf, here, word(mover), word(opponent))
        for square in rules.squares_in(rules.legal_mask(mover, opponent)):
            turned = rules.flips_mask(mover, opponent, square)
            type(leaf).child(leaf, child, here, square, word(turned))
            type(leaf).begin(leaf, fresh, word(opponent ^ turned), word(mover ^ turned | 1 << square))
            assert (memory[1] == memory[2]).all()
            tried += 1
    assert tried > 100


def test_all_symmetries_have_one_value():
    for evaluator in (random_evaluator(), shipped_keyano()):
        values = [
            evaluator.discs(*columns([tuple(rules.transform_mask(side, k) for side in board) for board in boards()]))
            for k in range(8)
        ]
        assert all((value == values[0]).all() for value in values)
        assert len(set(values[0])) > len(values[0]) / 2


# --- its switches ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mobility", "parity", "vectors", "corners", "edges"])
def test_each_term_can_be_switched_off(name):
    """What is left is the sum without it; the oracle's numbers are those of the whole evaluator."""
    evaluator = random_evaluator()
    scores = evaluator.with_terms(**{name: False}).discs(*columns(boards())) * 128
    differs = 0
    for (mover, opponent), score in zip(boards(), scores, strict=True):
        *weights, constant = evaluator.coefficients[64 - (mover | opponent).bit_count()].tolist()
        penalty = evaluator.parity * (lost(mover, opponent) - lost(opponent, mover))
        mobility, *patterns = plain_terms(evaluator, mover, opponent)
        parts = {
            "mobility": weights[0] * (mobility + penalty),
            "parity": -weights[0] * penalty,
            **{
                key: w * term
                for key, w, term in zip(("vectors", "corners", "edges"), weights[1:], patterns, strict=True)
            },
        }
        total = sum(value for key, value in parts.items() if key != name) + constant * 128
        assert score == min(max(round(total / 65536), -LEAF_LIMIT), LEAF_LIMIT)
        differs += parts[name] != 0
    assert differs > 20


def test_the_price_of_a_lost_region_can_be_the_papers():
    evaluator = random_evaluator().with_terms(parity=64)
    for mover, opponent in boards()[::3]:
        assert terms_of(evaluator, mover, opponent) == plain_terms(evaluator, mover, opponent)
    assert evaluator.parity == 64 * 128
    assert random_evaluator().with_terms().parity == random_evaluator().parity


def test_players_with_switches():
    def parts(text: str) -> KeyanoEvaluator:
        return make_player(f"keyano:depth=1,{text}").evaluator

    assert make_player("keyano:depth=1").evaluator is shipped_keyano()
    assert parts("parity=off").parity == 0
    assert parts("parity=on").parity == shipped_keyano().parity
    assert parts("parity=64").parity == 64 * 128
    assert parts("parity=64") is parts("parity=64")
    assert not parts("mobility=off").curves.any()
    for place, name in enumerate(("vectors", "corners", "edges"), start=1):
        assert not parts(f"{name}=off").coefficients[:, place].any()
    assert (parts("edges=on").coefficients == shipped_keyano().coefficients).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("keyano:parity=much", "it must be on, off or a number from 0 to 1000"),
        ("keyano:parity=-1", "it must be on, off or a number from 0 to 1000"),
        ("keyano:edges=1", "it must be on or off"),
        ("iago:parity=off", "iago has no key 'parity'"),
    ],
)
def test_wrong_switches_are_explained(text, message):
    with pytest.raises(PlayerError) as error:
        make_player(text)
    assert message in str(error.value)


# --- the fit ---------------------------------------------------------------------------------------------------------


def test_rare_configurations_are_blended_with_the_estimate():
    """The paper's example: seen 20 times with a mean of −4, estimated at −8."""
    assert blended_value(20, -4.0, -8.0) == pytest.approx(-7.2)
    assert blended_value(0, 0.0, -8.0) == -8
    assert blended_value(100, -4.0, -8.0) == blended_value(5000, -4.0, 60.0) == -4
    assert doctest.testmod(keyano_statistics) == (0, 1)


def test_non_negative_fits_against_all_choices_of_zeros():
    rng = np.random.default_rng(2)
    free = np.arange(5) == 4
    bound = 0
    for _ in range(40):
        rows, wanted = rng.normal(size=(30, 5)) @ rng.normal(size=(5, 5)), rng.normal(size=30)
        best, best_error = None, np.inf
        for zeros in itertools.product((False, True), repeat=4):
            used = ~np.array([*zeros, False])
            x = np.zeros(5)
            x[used] = np.linalg.lstsq(rows[:, used], wanted, rcond=None)[0]
            error = np.square(rows @ x - wanted).sum()
            if (x[:4] >= 0).all() and error < best_error:
                best, best_error = x, error
        assert non_negative_fit(rows.T @ rows, rows.T @ wanted, free) == pytest.approx(best, abs=1e-6)
        bound += bool((best[:4] == 0).any())
    assert bound > 10


def test_games_are_labelled_with_their_results():
    data = play_games(random_evaluator().leaf, 12, seed=3, depth=1)
    empties = 64 - np.bitwise_count(data.movers | data.opponents).astype(int)
    rows = list(zip(data.movers.tolist(), data.opponents.tolist(), data.labels.tolist(), empties.tolist(), strict=True))
    solved = [row for row in rows if row[3] <= 5]
    assert len(solved) > 40
    for mover, opponent, label, _ in solved:
        assert rules.solve(mover, opponent) == label
    carried = 0
    for (mover, opponent, label, left), (next_mover, next_opponent, next_label, next_left) in itertools.pairwise(rows):
        if left == next_left:  # a pass
            assert (next_mover, next_opponent, next_label) == (opponent, mover, -label)
        elif left == next_left + 1:
            square = ((next_mover | next_opponent) ^ (mover | opponent)).bit_length() - 1
            assert rules.play(mover, opponent, square) == (next_mover, next_opponent)
            if next_left >= SOLVED_EMPTIES:
                assert next_label == -label
                carried += 1
    assert carried > 100
    again = play_games(random_evaluator().leaf, 12, seed=3, depth=1)
    assert (again.movers == data.movers).all()
    assert (again.labels == data.labels).all()


def test_a_small_fit_from_games_to_a_player(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(fit_keyano, "shipped_evaluator", random_evaluator)  # any evaluator can play the games
    monkeypatch.setattr(fit_keyano, "STEPS", 50)
    path = tmp_path / "small.safetensors"
    assert fit_keyano.main(["--games", "60", "--depth", "1", "--probcut", "0", "--out", str(path)]) == 0
    shown = capsys.readouterr()
    assert "approximate + parity" in shown.out
    assert f"{path} written" in shown.err
    fitted = KeyanoEvaluator.load(path)
    assert fitted.info["command"].endswith("--games 60 --seed 1 --depth 1 --probcut 0")
    assert (np.diff(fitted.curves) >= 0).all()
    assert (fitted.coefficients[:, :4] >= 0).all()
    # It has learnt something: its values go with the results of other games.
    data = play_games(random_evaluator().leaf, 30, seed=9, depth=1)
    assert np.corrcoef(fitted.discs(data.movers, data.opponents), data.labels)[0, 1] > 0.4
    monkeypatch.setattr(keyano, "FITTED", path)
    shipped_keyano.cache_clear()
    try:
        assert make_player("keyano:depth=1").evaluator.info == fitted.info
    finally:
        shipped_keyano.cache_clear()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--games", "3"], "argument --games: '3' is not a whole number from 10"),
        (["--depth", "0"], "argument --depth: '0' is not a whole number from 1"),
        (["--seed", "-1"], "argument --seed: '-1' is not a whole number from 0"),
        (["--out", "nowhere/x.safetensors"], "there is no folder 'nowhere' for the result"),
    ],
)
def test_mistakes_in_the_command_are_explained(arguments, message, capsys):
    with pytest.raises(SystemExit) as end:
        sys.exit(fit_keyano.main(arguments))
    assert end.value.code == 2
    assert capsys.readouterr().err == f"error: {message}\n"


def test_a_file_that_cannot_be_written_is_noticed_before_the_games(tmp_path, monkeypatch, capsys):
    def refuse(**where):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(tool.tempfile, "TemporaryFile", refuse)
    monkeypatch.setattr(fit_keyano, "play_games", None)
    assert fit_keyano.main(["--out", str(tmp_path / "x")]) == 2
    assert capsys.readouterr().err == f"error: {str(tmp_path / 'x')!r} cannot be written: Read-only file system\n"


# --- the file that is shipped ----------------------------------------------------------------------------------------


def test_the_shipped_curves_rise_ever_more_slowly():
    shipped = shipped_keyano()
    for curve, third in zip(shipped.curves, (8, 3), strict=True):  # up to counts that games show every day
        assert curve[0] == 0
        assert (np.diff(curve) >= 0).all()
        rises = np.diff(curve[: 3 * third + 1 : third])
        assert rises[0] > rises[1] > rises[2] > 0
    assert (shipped.coefficients[:, :4] >= 0).all()
    assert shipped.parity > 0
    assert FITTED.stat().st_size < 1 << 20
    assert shipped.info["command"].startswith("python -m othello_nn.fit.keyano")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"curves": None}, "curves is missing"),
        ({"curves": np.zeros((2, 7), np.float32)}, "curves must be float32 [2, 36], not float32 [2, 7]"),
        ({"patterns": np.zeros(SHAPES.cells, np.float32)}, "patterns must be int16"),
        ({"coefficients": np.full((65, 5), 1 << 14, np.float32)}, "coefficients holds numbers that are too large"),
        ({"more": np.zeros(1, np.float32)}, "unknown array 'more'"),
    ],
)
def test_a_damaged_file_is_explained(change, message, tmp_path):
    path, whole = tmp_path / "keyano.safetensors", Checkpoint.load(FITTED)
    arrays = {name: array for name, array in (whole.arrays | change).items() if array is not None}
    replace(whole, arrays=arrays).save(path)
    for load in (KeyanoEvaluator.load, lambda path: make_player(f"{path}:depth=1")):
        with pytest.raises(OthelloError) as error:
            load(path)
        assert message in str(error.value)
        assert "\n" not in str(error.value)


def test_a_file_of_something_else_is_explained(tmp_path, monkeypatch):
    path = tmp_path / "keyano.safetensors"
    with pytest.raises(CheckpointError, match="a net of kind 'features', not keyano's"):
        KeyanoEvaluator.load(FITTED.with_name("features.safetensors"))
    path.write_bytes(FITTED.read_bytes()[:5000])
    with pytest.raises(CheckpointError, match="not a readable safetensors file"):
        KeyanoEvaluator.load(path)
    monkeypatch.setattr(keyano, "FITTED", tmp_path / "nowhere.safetensors")
    shipped_keyano.cache_clear()
    with pytest.raises(PlayerError, match=r"fit\.keyano makes it"):
        make_player("keyano")
    shipped_keyano.cache_clear()


def test_a_file_of_ones_own_plays_by_its_path():
    position = Position.parse("f5d6c3d3c4")
    assert (
        make_player(f"{FITTED}:depth=3").choose(position).score == make_player("keyano:depth=3").choose(position).score
    )


def test_it_beats_swh_at_the_same_depth():
    result = play_match("keyano:depth=2", "swh:depth=2", make_openings("random:6", 10, 1), 20)
    assert result.games == 20
    assert result.score > 0.8
