"""Lookup-table evaluators: what the compiled leaf adds up, and what a file must be to become one."""

import json
import random
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import endings, positions, quick

from othello_nn.engine.evaluate import LEAF_LIMIT
from othello_nn.engine.tables import (
    FORMAT,
    PATTERNS,
    Placement,
    Shapes,
    TableEvaluator,
    symmetric_placements,
    weighted_squares,
)
from othello_nn.engine.ttable import SCORE_DISC
from othello_nn.game import Position, rules

word = np.uint64
SCRATCH = 256  # int64 words: two frames of up to 128 features of 16 bits, apart


def random_shapes(rng: random.Random, lookups: int, longest: int = 7) -> Shapes:
    """Any squares in any order; some placements share a table."""
    sizes, placements = [], []
    for _ in range(lookups):
        if sizes and rng.random() < 0.3:
            table = rng.randrange(len(sizes))
        else:
            table = len(sizes)
            sizes.append(rng.randint(1, longest))
        placements.append(Placement(table, tuple(rng.sample(range(64), sizes[table]))))
    return Shapes(tuple(sizes), tuple(placements))


def random_evaluator(shapes: Shapes, seed: int, largest: int = 200, stages: int = 3) -> TableEvaluator:
    rng = np.random.default_rng(seed)
    weights = rng.integers(-largest, largest + 1, (stages, shapes.cells)).astype(np.int16)
    return TableEvaluator(f"random {seed}", shapes, weights, rng.integers(0, stages, 65))


def plain_value(evaluator: TableEvaluator, mover: int, opponent: int) -> int:
    """The definition: digits 0 opponent, 1 empty, 2 mover, first square least significant; cell 0 is the constant."""
    empties = 64 - (mover | opponent).bit_count()
    weights = evaluator.weights[evaluator.stage_of_empties[empties]]
    starts = [1]
    for size in evaluator.shapes.sizes:
        starts.append(starts[-1] + 3**size)
    total = int(weights[0])
    for placement in evaluator.shapes.placements:
        digits = [1 + (mover >> square & 1) - (opponent >> square & 1) for square in placement.squares]
        total += int(weights[starts[placement.table] + sum(digit * 3**i for i, digit in enumerate(digits))])
    return min(max(total, -LEAF_LIMIT), LEAF_LIMIT)


class Leaf:
    """The compiled functions of an evaluator, called one by one."""

    def __init__(self, evaluator: TableEvaluator):
        self.evaluator, self.ev = evaluator, evaluator.leaf
        self.kind = type(self.ev)
        self.memory = np.zeros(SCRATCH, np.int64)
        self.here, self.there = self.memory.ctypes.data, self.memory.ctypes.data + 4 * SCRATCH
        self.features = self.memory.view(np.int16)

    def value(self, mover: int, opponent: int, at: int | None = None) -> int:
        empties = 64 - (mover | opponent).bit_count()
        if at is None:
            self.kind.begin(self.ev, self.here, word(mover), word(opponent))
        return self.kind.score(self.ev, at or self.here, word(mover), word(opponent), empties)

    def child_features(self, mover: int, opponent: int, square: int) -> np.ndarray:
        """Of the position after a move, from those of the position before."""
        self.kind.begin(self.ev, self.here, word(mover), word(opponent))
        flips = rules.flips_mask(mover, opponent, square)
        self.kind.child(self.ev, self.there, self.here, square, word(flips))
        return self.features[2 * SCRATCH : 2 * SCRATCH + 64].copy()

    def fresh_features(self, mover: int, opponent: int) -> np.ndarray:
        self.kind.begin(self.ev, self.there, word(mover), word(opponent))
        return self.features[2 * SCRATCH : 2 * SCRATCH + 64].copy()


@cache
def boards() -> list[tuple[int, int]]:
    return endings(1, 3, 0, 60)[::2]


@pytest.mark.parametrize("lookups", [0, 1, 15, 16, 31, 32, 47, 48, 63])
def test_a_leaf_is_the_sum_of_its_lookups(lookups):
    """On both sides of each compiled size; one lane always belongs to the constant term."""
    evaluator = random_evaluator(random_shapes(random.Random(lookups), lookups), seed=lookups)
    leaf = Leaf(evaluator)
    for mover, opponent in boards():
        assert leaf.value(mover, opponent) == plain_value(evaluator, mover, opponent)


def test_tables_of_ten_squares():
    """The longest: their features just fit into 16 bits."""
    evaluator = random_evaluator(random_shapes(random.Random(1), 20, longest=10), seed=2)
    assert max(evaluator.shapes.sizes) == 10
    leaf = Leaf(evaluator)
    for mover, opponent in boards():
        assert leaf.value(mover, opponent) == plain_value(evaluator, mover, opponent)
    everything = random_evaluator(Shapes((10,), (Placement(0, tuple(range(10))),)), seed=3)
    for mover, opponent in ((2**64 - 1, 0), (0, 2**64 - 1)):
        assert Leaf(everything).value(mover, opponent) == plain_value(everything, mover, opponent)


def test_a_leaf_never_claims_a_wipe_out():
    evaluator = random_evaluator(random_shapes(random.Random(4), 63), seed=4, largest=32767)
    leaf = Leaf(evaluator)
    values = [leaf.value(mover, opponent) for mover, opponent in boards()]
    assert values == [plain_value(evaluator, mover, opponent) for mover, opponent in boards()]
    assert {LEAF_LIMIT, -LEAF_LIMIT} <= set(values)
    assert LEAF_LIMIT < 64 * SCORE_DISC


@pytest.mark.parametrize("lookups", [9, 30, 46, 63])
def test_child_features_are_those_of_the_child(lookups):
    shapes = Shapes.symmetric(PATTERNS) if lookups == 46 else random_shapes(random.Random(lookups), lookups)
    leaf = Leaf(random_evaluator(shapes, seed=6))
    for mover, opponent in boards():
        for square in rules.squares_in(rules.legal_mask(mover, opponent)):
            child = rules.play(mover, opponent, square)
            features = leaf.child_features(mover, opponent, square)
            assert leaf.value(*child, at=leaf.there) == plain_value(leaf.evaluator, *child)
            assert (features == leaf.fresh_features(*child)).all()


def symmetric_evaluator(tuples, seed: int) -> TableEvaluator:
    """Random weights, but the same for both readings of a shape that a symmetry maps to itself, such as an edge."""
    evaluator = random_evaluator(Shapes.symmetric(tuples), seed, stages=2)
    for squares, start in zip(tuples, evaluator.shapes.table_starts, strict=True):
        places = 3 ** np.arange(len(squares))
        digits = np.arange(3 ** len(squares))[:, None] // places % 3
        readings = []
        for k in range(8):
            image = [rules.transform_square(square, k) for square in squares]
            if set(image) == set(squares):
                readings.append(digits[:, [image.index(square) for square in squares]] @ places)
        table = evaluator.weights[:, start : start + len(digits)]
        table[:] = table[:, np.min(readings, axis=0)]
    return evaluator


def check_images(evaluator: TableEvaluator, position: Position) -> None:
    leaf = Leaf(evaluator)
    assert len({leaf.value(image.mover, image.opponent) for image in position.symmetries()}) == 1


@quick
@given(positions())
def test_every_image_evaluates_alike(position):
    check_images(pattern_evaluator(), position)


@quick
@given(st.lists(st.lists(st.integers(0, 63), min_size=1, max_size=5, unique=True), min_size=1, max_size=7), positions())
def test_every_image_evaluates_alike_for_any_tuples(tuples, position):
    check_images(symmetric_evaluator(tuples, seed=7), position)


@cache
def pattern_evaluator() -> TableEvaluator:
    return symmetric_evaluator(PATTERNS, seed=5)


def test_every_image_evaluates_alike_in_the_evaluator_that_ships():
    path = Path(__file__).parents[1] / "checkpoints" / "pattern.safetensors"
    if not path.exists():
        pytest.skip("no checkpoints/pattern.safetensors")
    evaluator = TableEvaluator.load(path)
    for mover, opponent in boards():
        check_images(evaluator, Position(mover, opponent))


def test_seen_from_the_other_side_features_are_negated():
    leaf = Leaf(pattern_evaluator())
    for mover, opponent in boards():
        assert (leaf.fresh_features(mover, opponent) == -leaf.fresh_features(opponent, mover)).all()


# --- shapes ----------------------------------------------------------------------------------------------------------


def test_placements_are_the_distinct_images():
    a1, b1, c3, d4, e5 = 0, 1, 18, 27, 36
    assert len(symmetric_placements([a1])) == 4
    assert len(symmetric_placements([b1])) == 8
    assert len(symmetric_placements([c3, d4])) == 4  # on a diagonal
    assert len(symmetric_placements([d4, e5])) == 2
    assert len(symmetric_placements([a1, b1, c3])) == 8
    for squares in symmetric_placements([a1, b1]):
        assert abs(squares[0] - squares[1]) in (1, 8)
        assert squares[0] in (0, 7, 56, 63)


def test_the_patterns_are_46_lookups():
    shapes = Shapes.symmetric(PATTERNS)
    assert (len(shapes.placements), shapes.lanes) == (46, 48)
    assert {square for placement in shapes.placements for square in placement.squares} == set(range(64))


def test_too_many_lookups():
    shapes = random_shapes(random.Random(8), 64, longest=2)
    with pytest.raises(ValueError, match="64 lookups are more than the 63"):
        random_evaluator(shapes, seed=8).leaf  # noqa: B018


@pytest.mark.parametrize(
    ("sizes", "placement"),
    [
        ((2,), Placement(0, (3, 64))),
        ((2,), Placement(0, (-1, 3))),
        ((2,), Placement(1, (3, 4))),
        ((2,), Placement(-1, (3, 4))),
        ((2,), Placement(0, (3, 4, 5))),  # would read beyond its table
        ((2,), Placement(0, (3, 3))),
        ((11,), Placement(0, tuple(range(11)))),  # features of 16 bits hold ten squares
    ],
)
def test_impossible_shapes(sizes, placement):
    """Compiled code does not look where it reads, so what it is given must be checked before."""
    with pytest.raises(ValueError, match=r"square|table|size|long"):
        random_evaluator(Shapes(sizes, (placement,)), seed=9).leaf  # noqa: B018


@pytest.mark.parametrize(
    ("weights", "stages", "message"),
    [
        (np.zeros((1, 10), np.float32), np.zeros(65, int), "int16"),
        (np.zeros((1, 11), np.int16), np.zeros(65, int), "10 cells"),
        (np.zeros((1, 10), np.int16), np.zeros(64, int), "stage"),
        (np.zeros((1, 10), np.int16), np.ones(65, int), "stage"),
        (np.zeros((1, 10), np.int16), np.full(65, -1), "stage"),
    ],
)
def test_weights_must_fit_the_shapes(weights, stages, message):
    with pytest.raises(ValueError, match=message):
        TableEvaluator("wrong", Shapes((2,), (Placement(0, (0, 1)),)), weights, stages)


# --- weighted squares ------------------------------------------------------------------------------------------------


@quick
@given(positions(), st.integers(0, 2**32 - 1))
def test_weighted_squares_is_a_dot_product(position, seed):
    weights = np.random.default_rng(seed).integers(-20, 21, 64)
    leaf = Leaf(weighted_squares("squares", weights.tolist(), per_disc=4.0))
    signs = [(position.mover >> square & 1) - (position.opponent >> square & 1) for square in range(64)]
    expected = int(np.dot(weights, signs)) * SCORE_DISC // 4  # integers of 1/4 disc: no rounding
    assert leaf.value(position.mover, position.opponent) == min(max(expected, -LEAF_LIMIT), LEAF_LIMIT)


def test_weights_too_large_for_16_bits():
    with pytest.raises(ValueError, match="weights of heavy are too large"):
        weighted_squares("heavy", [100.0] * 64)


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A small evaluator and its file."""
    shapes = Shapes.symmetric([(0, 1, 2), (27, 36)])
    evaluator = random_evaluator(shapes, seed=10)
    info = {"games": 12, "note": "λ = 0.5"}
    evaluator = TableEvaluator(
        "small", shapes, evaluator.weights, evaluator.stage_of_empties, info, np.linspace(-1, 1, 6).astype(np.float32)
    )
    path = tmp_path_factory.mktemp("tables") / "small.safetensors"
    evaluator.save(path)
    return evaluator, path


def test_round_trip(saved):
    evaluator, path = saved
    assert [file.name for file in path.parent.iterdir()] == [path.name]  # nothing is left behind
    loaded = TableEvaluator.load(str(path))
    assert (loaded.name, loaded.shapes, loaded.info) == (evaluator.name, evaluator.shapes, evaluator.info)
    for name in ("weights", "stage_of_empties", "probcut"):
        assert (getattr(loaded, name) == getattr(evaluator, name)).all()
    for mover, opponent in boards():
        assert Leaf(loaded).value(mover, opponent) == plain_value(evaluator, mover, opponent)


def test_round_trip_without_probcut(tmp_path):
    evaluator = weighted_squares("squares", list(range(64)), per_disc=8)
    evaluator.save(tmp_path / "squares.safetensors")
    loaded = TableEvaluator.load(tmp_path / "squares.safetensors")
    assert loaded.probcut is None
    assert (loaded.weights == evaluator.weights).all()


def test_saving_again_replaces_the_file(saved, tmp_path):
    evaluator, _ = saved
    path = tmp_path / "again.safetensors"
    path.write_text("something else")
    evaluator.save(path)
    assert TableEvaluator.load(path).name == "small"


def expect_refusal(path) -> None:
    with pytest.raises(ValueError) as refusal:  # noqa: PT011 (what it must say is checked below)
        TableEvaluator.load(path)
    assert str(path) in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("content", [b"", b"\0" * 7, b"\0" * 64, b"\xff" * 300, b"not an evaluator\n" * 30])
def test_other_files(content, tmp_path):
    path = tmp_path / "other.safetensors"
    path.write_bytes(content)
    expect_refusal(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(OSError, match=r"nothing\.safetensors"):
        TableEvaluator.load(tmp_path / "nothing.safetensors")


def test_truncated_files(saved, tmp_path):
    content = saved[1].read_bytes()
    path = tmp_path / "cut.safetensors"
    for length in [1, 8, 9, 100, 500, len(content) // 2, len(content) - 1]:
        path.write_bytes(content[:length])
        expect_refusal(path)


def test_damaged_files(saved, tmp_path):
    """Any byte of the header changed: refused, or read as an evaluator that can be used. Nothing else may happen."""
    content = bytearray(saved[1].read_bytes())
    header = int.from_bytes(content[:8], "little") + 8
    path = tmp_path / "damaged.safetensors"
    rng = random.Random(11)
    refusals = []
    for _ in range(1500):
        damaged = bytearray(content)
        for _ in range(rng.randint(1, 2)):
            damaged[rng.randrange(header)] = rng.choice((0, 34, 44, 45, 48, 49, 57, 93, 123, 255, rng.randrange(256)))
        path.write_bytes(damaged)
        try:
            TableEvaluator.load(path).leaf  # noqa: B018
        except ValueError as error:
            refusals.append(str(error))
    assert len(refusals) > 300
    assert all(str(path) in refusal for refusal in refusals)


def rewritten(saved, tmp_path, arrays=None, **meta):
    """The saved file with other arrays or metadata; None takes one away."""
    from safetensors import safe_open
    from safetensors.numpy import save_file

    with safe_open(saved[1], framework="numpy") as file:
        metadata = file.metadata() | meta
        tensors = {name: file.get_tensor(name) for name in file.keys()} | (arrays or {})  # noqa: SIM118
    path = tmp_path / "rewritten.safetensors"
    keep = {name: value for name, value in metadata.items() if value is not None}
    save_file({name: value for name, value in tensors.items() if value is not None}, path, metadata=keep)
    return path


def test_rewriting_alone_does_no_harm(saved, tmp_path):
    assert TableEvaluator.load(rewritten(saved, tmp_path, name="renamed")).name == "renamed"


@pytest.mark.parametrize(
    "meta",
    [
        {"format": None},
        {"format": FORMAT + "0"},
        {"name": None},
        {"sizes": None},
        {"sizes": "[3, 3]"},
        {"sizes": "[3"},
        {"sizes": '["a", 2]'},
        {"placements": None},
        {"placements": "[[]]"},
        {"placements": "3"},
        {"placements": json.dumps([[0, 1, 2, 64]])},
        {"placements": json.dumps([[0, 1, 2, -3]])},
        {"placements": json.dumps([[7, 1, 2, 3]])},
        {"placements": json.dumps([[0, 1, 2, 3, 4]])},
        {"placements": json.dumps([[0, "a1", 2, 3]])},
        {"placements": json.dumps([[0, 1.5, 2, 3]])},
        {"info": "{"},
        {"unit": "64"},
    ],
    ids=str,
)
def test_wrong_metadata(meta, saved, tmp_path):
    expect_refusal(rewritten(saved, tmp_path, **meta))


@pytest.mark.parametrize(
    "arrays",
    [
        {"weights": None},
        {"weights": np.zeros((3, 37), np.float32)},
        {"weights": np.zeros((3, 36), np.int16)},
        {"weights": np.zeros(37, np.int16)},
        {"weights": np.zeros((0, 37), np.int16)},
        {"stage_of_empties": None},
        {"stage_of_empties": np.full(65, 3, np.int16)},
        {"stage_of_empties": np.zeros(60, np.int16)},
        {"probcut": np.zeros(5, np.float32)},
        {"probcut": np.full(6, np.nan, np.float32)},
    ],
    ids=lambda arrays: " ".join(f"{k} {'-' if v is None else (v.shape, v.dtype)}" for k, v in arrays.items()),
)
def test_wrong_arrays(arrays, saved, tmp_path):
    assert saved[0].shapes.cells == 37
    expect_refusal(rewritten(saved, tmp_path, arrays))
