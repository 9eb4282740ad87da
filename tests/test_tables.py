"""Lookup-table evaluators: what the compiled leaf adds up. ``test_compile.py`` has those made of nets."""

import random
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import endings, positions, quick

from othello_nn.engine.leaf.compile import load_evaluator
from othello_nn.engine.leaf.shapes import PATTERNS, Placement, Shapes, symmetric_placements
from othello_nn.engine.leaf.tables import TableEvaluator, aligned, weighted_squares
from othello_nn.engine.score import LEAF_LIMIT, SCORE_DISC
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


def in_discs(evaluator: TableEvaluator) -> TableEvaluator:
    """The same with float32 weights, which hold these values exactly."""
    return replace(evaluator, weights=evaluator.weights.astype(np.float32) / SCORE_DISC)


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
    whole, floats = Leaf(evaluator), Leaf(in_discs(evaluator))
    assert type(whole.ev) is not type(floats.ev)
    for mover, opponent in boards():
        assert whole.value(mover, opponent) == plain_value(evaluator, mover, opponent)
        assert floats.value(mover, opponent) == plain_value(evaluator, mover, opponent)


def test_many_positions_at_once():
    evaluator = random_evaluator(random_shapes(random.Random(3), 20), seed=3)
    movers, opponents = (np.array(column, np.uint64) for column in zip(*boards(), strict=True))
    expected = [plain_value(evaluator, mover, opponent) / SCORE_DISC for mover, opponent in boards()]
    assert (evaluator.discs(movers, opponents) == expected).all()
    assert (in_discs(evaluator).discs(movers, opponents) == expected).all()
    assert evaluator.lookups == 20
    with pytest.raises(ValueError, match="as many"):
        evaluator.discs(movers, opponents[1:])


def test_float_scores_are_rounded_to_the_nearest():
    shapes, word_row = Shapes((1,), (Placement(0, (0,)),)), np.array([[0.0, 0.0, 0.0, 0.0]], np.float32)
    for discs, score in ((1 / 128, 1), (1.4 / 128, 1), (1.6 / 128, 2), (-1.6 / 128, -2), (500.0, LEAF_LIMIT)):
        word_row[0, 0] = discs
        assert Leaf(TableEvaluator("one", shapes, word_row.copy(), np.zeros(65, np.int64))).value(1, 2) == score


def test_large_tables_begin_a_cache_line():
    for cells in (100, 3_000_000):  # the second gets pages of its own
        array = np.arange(cells, dtype=np.int16)
        copy = aligned(array)
        assert copy.ctypes.data % 64 == 0
        assert (copy == array).all()


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
    check_images(champion_evaluator(), position)


@quick
@given(st.lists(st.lists(st.integers(0, 63), min_size=1, max_size=5, unique=True), min_size=1, max_size=7), positions())
def test_every_image_evaluates_alike_for_any_tuples(tuples, position):
    check_images(symmetric_evaluator(tuples, seed=7), position)


@cache
def champion_evaluator() -> TableEvaluator:
    return symmetric_evaluator(PATTERNS, seed=5)


def test_every_image_evaluates_alike_in_the_evaluator_that_ships():
    path = Path(__file__).parents[1] / "checkpoints" / "champion.safetensors"
    if not path.exists():
        pytest.skip("no checkpoints/champion.safetensors")
    evaluator = load_evaluator(path)
    assert evaluator.name == "champion"
    for mover, opponent in boards():
        check_images(evaluator, Position(mover, opponent))


def test_seen_from_the_other_side_features_are_negated():
    leaf = Leaf(champion_evaluator())
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
        (np.zeros((1, 10), np.float64), np.zeros(65, int), "int16"),
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
