"""Fused shapes: fewer lookups, and the same sum for every position."""

import itertools
import random
import time

import numpy as np
import pytest
from test_tables import boards, plain_value, random_shapes

from othello_nn.engine.leaf.fusion import Fusion, board_lines, fuse
from othello_nn.engine.leaf.shapes import PATTERNS, Placement, Shapes
from othello_nn.engine.leaf.tables import TableEvaluator
from othello_nn.nets.tuple_sets import tuple_set


def check_sums(shapes: Shapes, seed: int, stages: int = 2) -> Shapes:
    """Integer weights, so that sums are exact: the same by definition before and after."""
    rng = np.random.default_rng(seed)
    weights = rng.integers(-20, 21, (stages, shapes.cells)).astype(np.int16)
    fused_shapes, fused = fuse(shapes, weights)
    stage_of_empties = rng.integers(0, stages, 65)
    before = TableEvaluator("before", shapes, weights, stage_of_empties)
    after = TableEvaluator("after", fused_shapes, fused.astype(np.int16), stage_of_empties)
    for mover, opponent in boards()[::3]:
        assert plain_value(after, mover, opponent) == plain_value(before, mover, opponent)
    return fused_shapes


def test_the_lines_of_the_board():
    lines = board_lines()
    assert len(lines) == len({frozenset(line) for line in lines}) == 42
    assert sorted(map(len, lines)) == sorted([8] * 16 + [2, 3, 4, 5, 6, 7] * 4 + [8] * 2)
    for line in lines:
        assert len({b - a for a, b in itertools.pairwise(line)}) == 1
        assert {line[1] - line[0]} <= {1, 8, 9, 7}


@pytest.mark.parametrize(
    ("name", "lookups", "tables"), [("all-1", 8, 4), ("all-2", 42, 11), ("all-3", 38, 10), ("all-4", 34, 9)]
)
def test_systematic_tuples_become_lines(name, lookups, tables):
    shapes = check_sums(Shapes.symmetric(tuple_set(name)), seed=1)
    assert (len(shapes.placements), len(shapes.sizes)) == (lookups, tables)
    assert max(shapes.sizes) == 8


@pytest.mark.parametrize("name", ["rand-8x4", "rand-12x5", "rand-20x3", "rand-8x8+all-1"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_tuples_become_few_enough(name, seed):
    given = Shapes.symmetric(tuple_set(name, seed))
    shapes = check_sums(given, seed)
    assert len(shapes.placements) <= min(63, len(given.placements))
    assert max(shapes.sizes) <= 10
    # Merged with all their images, shapes keep sharing tables.
    assert len(shapes.sizes) < len(shapes.placements) / 2


@pytest.mark.parametrize("seed", range(5))
def test_any_shapes(seed):
    """No symmetry at all, small shapes inside large ones, shared tables."""
    rng = random.Random(seed)
    shapes = random_shapes(rng, 30, longest=8)
    inside = [Placement(p.table, p.squares) for p in shapes.placements if len(p.squares) < 3]
    larger = tuple(dict.fromkeys(sum((p.squares for p in inside), ())))[:9]
    sizes = (*shapes.sizes, len(larger)) if larger else shapes.sizes
    extra = (Placement(len(shapes.sizes), larger),) if larger else ()
    check_sums(Shapes(sizes, shapes.placements + extra), seed)


def test_lookups_inside_another():
    edge, pair, other = Placement(0, (7, 5, 6, 3, 4)), Placement(1, (4, 7)), Placement(1, (0, 63))
    shapes = check_sums(Shapes((5, 2), (edge, pair, other)), seed=3)
    assert sorted(len(p.squares) for p in shapes.placements) == [2, 5]


def test_a_lookup_that_is_there_twice_counts_twice():
    pair = Placement(0, (0, 9))
    assert len(check_sums(Shapes((2,), (pair, pair, Placement(0, (9, 0)))), seed=4).placements) == 1


def test_nothing_changes_without_a_gain():
    shapes = Shapes.symmetric(PATTERNS)
    weights = np.zeros((1, shapes.cells), np.int16)
    same, untouched = fuse(shapes, weights)
    assert same is shapes
    assert untouched is weights
    assert not Fusion(shapes).changes


def test_too_many_lookups():
    rng = random.Random(5)
    placements = tuple(Placement(0, tuple(rng.sample(range(64), 8))) for _ in range(80))
    with pytest.raises(ValueError, match=r"80 lookups become \d+ by joining .* more than the 63"):
        Fusion(Shapes((8,), placements))


def test_vectors_of_weights_and_floats():
    shapes = Shapes.symmetric(tuple_set("all-2"))
    fusion, rng = Fusion(shapes), np.random.default_rng(6)
    weights = rng.normal(size=(2, shapes.cells, 3)).astype(np.float32)
    fused = fusion.apply(weights)
    assert fused.dtype == np.float32
    for i in range(3):
        assert np.abs(fusion.apply(weights[:, :, i].astype(np.float64)) - fused[:, :, i]).max() < 1e-5
    with pytest.raises(ValueError, match="289 cells"):
        fusion.apply(weights[:, 1:])


@pytest.mark.slow  # by the clock
def test_applying_is_fast():
    """An evolution strategy fuses ninety nets a generation; the aim is 2 ms, here with room for a busy machine."""
    shapes = Shapes.symmetric(tuple_set("all-2"))
    fusion, weights = Fusion(shapes), np.ones((1, shapes.cells), np.float32)
    seconds = []
    for _ in range(10):
        begun = time.perf_counter()
        fusion.apply(weights)
        seconds.append(time.perf_counter() - begun)
    assert min(seconds) < 0.01


def test_many_random_tuples_are_joined_in_time():
    """Of a cube of their number it would be many times as long: 17 s for eighty of them, once."""
    begun = time.perf_counter()
    shapes = Fusion(Shapes.symmetric(tuple_set("rand-80x3", 1))).shapes
    assert len(shapes.placements) <= 63
    assert time.perf_counter() - begun < 8  # 0.4 on a machine with nothing else to do


@pytest.mark.parametrize(("count", "size"), [(120, 3), (250, 2), (128, 8), (3000, 4)])
def test_what_is_too_much_is_soon_refused(count, size):
    rng = random.Random(5)
    tuples = [rng.sample(range(64), size) for _ in range(count)]
    begun = time.perf_counter()
    with pytest.raises(ValueError, match=r"lookups (become \d+|are|of \d+ shapes are) .*(more than|too many)"):
        Fusion(Shapes.symmetric(tuples))
    assert time.perf_counter() - begun < 15


def test_shapes_without_symmetry_are_bounded_too():
    rng = random.Random(6)
    placements = tuple(Placement(i, tuple(rng.sample(range(64), 3))) for i in range(1000))
    with pytest.raises(ValueError, match=r"1000 lookups of \d+ shapes are too many to be joined"):
        Fusion(Shapes((3,) * 1000, placements))


def test_joined_tables_have_a_largest_size():
    """A file of a megabyte may stand for tables of many gigabytes."""
    shapes = Shapes.symmetric(tuple_set("rand-20x3", 1))
    fusion = Fusion(shapes)
    thin = np.broadcast_to(np.float32(0), (60, shapes.cells, 2000))
    with pytest.raises(ValueError, match="too large to be compiled"):
        fusion.apply(thin)
