"""Nets compiled for the search: every kind against its definition in plain Python (``net_oracle.discs_of``)."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from net_oracle import discs_of, random_checkpoint
from strategies import endings
from test_startup import run_fresh

from othello_nn.checkpoint import Checkpoint, Checks, check_positions
from othello_nn.engine import Engine, Limit, Options
from othello_nn.engine.leaf.blended import BlendedEvaluator
from othello_nn.engine.leaf.compile import (
    ColouredEvaluator,
    CompileError,
    compile_checkpoint,
    compile_net,
    seen_from_behind,
    with_checks,
)
from othello_nn.engine.leaf.embedded import EmbeddedEvaluator, Head, quantised
from othello_nn.engine.leaf.lanes import MOST_LANES
from othello_nn.engine.leaf.shapes import PATTERNS, Shapes
from othello_nn.engine.leaf.tables import TableEvaluator
from othello_nn.game import Position, rules

TRIANGLE = {"kind": "triangle", "maps": 3, "scale": 10.0}
# Neighbours in a corner, a line with itself as an image, a shape with none, the board's centre.
TUPLES = [[0, 1], [3, 4, 2, 5], [8, 17, 26, 18, 10], [27, 28, 35, 36]]
NTUPLE = {"kind": "ntuple", "tuples": TUPLES, "stages": 4, "scale": 10.0}
STAGED = {"kind": "staged", "net": TRIANGLE, "centres": [4, 34, 64], "width": 20.0, "gate": "fixed"}
ALL_ONE = [[square] for square in (0, 1, 2, 3, 9, 10, 11, 18, 19, 27)]
ROUNDING = 0.5 / 128
FLOAT, EMBEDDED = ROUNDING + 1e-3, ROUNDING + 0.01

NETS = {
    "triangle": (TRIANGLE, TableEvaluator, FLOAT),
    "triangle with empties": (TRIANGLE | {"empties": True, "scale": 6.5}, TableEvaluator, FLOAT),
    "symmetric triangle": (TRIANGLE | {"symmetric": True}, TableEvaluator, FLOAT),
    "n-tuples": (NTUPLE, TableEvaluator, FLOAT),
    "n-tuples with a shared row": (NTUPLE | {"shared": True}, TableEvaluator, FLOAT),
    "one stage, nothing to share": (NTUPLE | {"shared": True, "stages": 1}, TableEvaluator, FLOAT),
    "single squares": (NTUPLE | {"tuples": ALL_ONE}, TableEvaluator, FLOAT),
    "dim 3": (NTUPLE | {"dim": 3, "hidden": 5}, EmbeddedEvaluator, EMBEDDED),
    "dim 8, shared": (NTUPLE | {"dim": 8, "hidden": 16, "shared": True}, EmbeddedEvaluator, EMBEDDED),
    "dim 16, 19 units": (NTUPLE | {"dim": 16, "hidden": 19, "tuples": ALL_ONE}, EmbeddedEvaluator, EMBEDDED),
    "staged triangles": (STAGED, BlendedEvaluator, FLOAT),
    "staged n-tuples": (STAGED | {"net": NTUPLE, "centres": [10, 50], "gate": "learned"}, BlendedEvaluator, FLOAT),
    "four stages": (
        STAGED | {"net": TRIANGLE | {"symmetric": True}, "centres": [4, 24, 44, 64]},
        BlendedEvaluator,
        FLOAT,
    ),
}
COLOURED = {
    "doubled triangle": ({"kind": "doubled", "net": TRIANGLE}, FLOAT),
    "doubled staged": ({"kind": "doubled", "net": STAGED}, FLOAT),
    "doubled embedding": ({"kind": "doubled", "net": NTUPLE | {"dim": 4}}, EMBEDDED),
    "negation": (NTUPLE | {"view": "negation", "shared": True}, FLOAT),
    "negation with dim 4": (NTUPLE | {"view": "negation", "dim": 4}, EMBEDDED),
    "staged negation": (STAGED | {"net": NTUPLE | {"view": "negation"}}, FLOAT),
}


@cache
def boards() -> list[tuple[int, int]]:
    """Of whole games; with passes, and one with a single colour left."""
    return [*endings(2, 2, 0, 60)[::3], (2**64 - 1, 0), (0, 2**63)]


def arrays_of(positions) -> tuple[np.ndarray, np.ndarray]:
    return tuple(np.array(column, np.uint64) for column in zip(*positions, strict=True))


def clipped(values) -> np.ndarray:
    return np.clip(np.array(values), -62, 62)


# --- every kind ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NETS)
def test_the_compiled_value_is_the_net_s(name):
    net, kind, tolerance = NETS[name]
    checkpoint = random_checkpoint(net, seed=len(name))
    evaluator = compile_checkpoint(checkpoint, name)
    assert type(evaluator) is kind
    assert evaluator.name == name
    expected = clipped([discs_of(net, checkpoint.arrays, *board) for board in boards()])
    assert np.ptp(expected) > 10  # something to be wrong about
    assert np.abs(evaluator.discs(*arrays_of(boards())) - expected).max() <= tolerance


@pytest.mark.parametrize("name", COLOURED)
def test_a_net_that_sees_the_colours(name):
    net, tolerance = COLOURED[name]
    checkpoint = random_checkpoint(net, seed=len(name))
    evaluator = compile_checkpoint(checkpoint, name)
    assert isinstance(evaluator, ColouredEvaluator)
    assert evaluator.any_depth == ("doubled" in name)
    movers, opponents = arrays_of(boards())
    values = {}
    for black in (True, False):
        values[black] = clipped([discs_of(net, checkpoint.arrays, *board, black) for board in boards()])
        found = evaluator.discs(movers, opponents, np.full(len(movers), black))
        assert np.abs(found - values[black]).max() <= tolerance
        # A player asks after its own move, with the other colour to move.
        asked = evaluator.after_move(not black).discs(movers, opponents)
        assert np.abs(asked - values[black]).max() <= tolerance
    assert np.abs(values[True] - values[False]).max() > 1


@pytest.mark.parametrize("net", [TRIANGLE | {"symmetric": True}, NTUPLE | {"tuples": [[0, 1], [8, 17, 26, 18, 11]]}])
def test_all_images_of_a_position_are_worth_the_same(net):
    evaluator = compile_checkpoint(random_checkpoint(net, 3))
    for mover, opponent in boards():
        images = [(rules.transform_mask(mover, k), rules.transform_mask(opponent, k)) for k in range(8)]
        assert np.ptp(evaluator.discs(*arrays_of(images))) <= 1 / 128 + 1e-9  # sums in another order


def test_every_image_against_the_definition():
    """A net with a bias for each triangle tells images apart, and each has to be right."""
    checkpoint = random_checkpoint(STAGED, 4)
    evaluator, (mover, opponent) = compile_checkpoint(checkpoint), boards()[7]
    images = [(rules.transform_mask(mover, k), rules.transform_mask(opponent, k)) for k in range(8)]
    expected = [discs_of(STAGED, checkpoint.arrays, *image) for image in images]
    assert np.ptp(expected) > 0.1
    assert np.abs(evaluator.discs(*arrays_of(images)) - expected).max() <= FLOAT


@pytest.mark.parametrize("name", ["staged triangles", "dim 8, shared", "n-tuples"])
def test_features_along_a_game_are_those_from_scratch(name):
    evaluator = compile_checkpoint(random_checkpoint(NETS[name][0], 5))
    leaf, kind = evaluator.leaf, type(evaluator.leaf)
    memory = np.zeros((2, 128), np.int64)
    features = memory.view(np.int16)[:, :MOST_LANES]  # what a score leaves behind them is its own
    here, there = memory[0].ctypes.data, memory[1].ctypes.data
    position, rng = Position.start(), np.random.default_rng(6)
    kind.begin(leaf, here, np.uint64(position.mover), np.uint64(position.opponent))
    while not position.is_over:
        if position.must_pass:
            position = position.play(rules.PASS)
            kind.begin(leaf, here, np.uint64(position.mover), np.uint64(position.opponent))
            continue
        move = int(rng.choice(position.legal_moves))
        flips = np.uint64(rules.flips_mask(position.mover, position.opponent, move))
        kind.child(leaf, there, here, move, flips)
        position = position.play(move)
        boards = np.uint64(position.mover), np.uint64(position.opponent)
        expected = evaluator.discs(np.array([boards[0]]), np.array([boards[1]]))[0]
        assert kind.score(leaf, there, *boards, position.empties) == expected * 128
        kind.begin(leaf, here, *boards)
        assert (features[0] == features[1]).all()


def test_integers_stay_integers():
    weights = np.random.default_rng(7).integers(-300, 300, (4, Shapes.symmetric(TUPLES).cells)).astype(np.int16)
    evaluator = compile_net(NTUPLE, {"weight": weights})
    assert evaluator.weights.dtype == np.int16
    expected = [discs_of(NTUPLE, {"weight": weights}, *board) for board in boards()]
    assert (evaluator.discs(*arrays_of(boards())) == clipped(expected)).all()


def test_integers_that_add_up_to_more_than_16_bits():
    """The shared row and the fused lookups are added before the search: too large for integers, they become floats."""
    for net in (NTUPLE | {"shared": True}, NTUPLE | {"tuples": ALL_ONE}):
        rows = net["stages"] + net.get("shared", False)
        rng, cells = np.random.default_rng(8), Shapes.symmetric(net["tuples"]).cells
        weights = (32000 * rng.choice([-1, 1], (rows, cells))).astype(np.int16)
        evaluator = compile_net(net, {"weight": weights})
        assert evaluator.weights.dtype == np.float32
        expected = [discs_of(net, {"weight": weights}, *board) for board in boards()]
        assert np.abs(evaluator.discs(*arrays_of(boards())) - clipped(expected)).max() <= ROUNDING


def test_tables_seen_from_behind():
    shapes, rng = Shapes.symmetric(TUPLES), np.random.default_rng(9)
    weights = rng.normal(size=(1, shapes.cells)).astype(np.float32)
    there, back = (
        TableEvaluator("", shapes, w, np.zeros(65, np.int64)) for w in (weights, seen_from_behind(shapes, weights))
    )
    movers, opponents = arrays_of(boards())
    assert (there.discs(movers, opponents) == back.discs(opponents, movers)).all()
    assert (there.discs(movers, opponents) != there.discs(opponents, movers)).any()


# --- arithmetic ------------------------------------------------------------------------------------------------------


def blended(constants, coefficients, scale: float) -> BlendedEvaluator:
    """Nets without lookups: only their constant terms, by stage."""
    constants = np.array(constants, np.float32)  # [65, nets]
    shapes = Shapes((), ())
    return BlendedEvaluator(
        "constants", shapes, constants[:, None], np.arange(65), coefficients=np.array(coefficients), scale=scale
    )


@pytest.mark.parametrize("scale", [4.5, 10.0, 30.0])
def test_squash_and_back(scale):
    """One net with coefficient 1: Squash and its inverse cancel over the whole range of scores."""
    discs = np.linspace(-80, 80, 65)
    evaluator = blended(discs[:, None] / scale, np.ones((65, 1)), scale)
    # With e squares empty, the constant of stage e: boards that differ only in the number of discs.
    movers = np.array([(1 << 64 - e) - 1 for e in range(65)], np.uint64)
    found = evaluator.discs(movers, np.zeros(65, np.uint64))
    allowed = ROUNDING + 1e-3 + 2e-6 * scale * np.cosh(clipped(discs) / scale / 2) ** 2
    assert (np.abs(found - clipped(discs)) <= allowed).all()
    assert 61.9 <= -found[0] <= 62
    assert 61.9 <= found[-1] <= 62


def test_the_error_of_squash():
    """Blends that cancel: what is left is the error of the arithmetic, blown up by a large scale."""
    scale, x = 1000.0, np.linspace(-40, 40, 65)
    other = np.array([math.tanh(v / 2) for v in x])
    # tanh(x/2) from the first net, minus the same from a net at 1 with the right coefficient.
    coefficients = np.stack([np.ones(65), -other / math.tanh(0.5)], axis=1)
    evaluator = blended(np.stack([x, np.ones(65)], axis=1), coefficients, scale)
    movers = np.array([(1 << 64 - e) - 1 for e in range(65)], np.uint64)
    error_discs = np.abs(evaluator.discs(movers, np.zeros(65, np.uint64)))
    assert error_discs.max() <= 2 * scale * 3e-7 + ROUNDING


def test_embeddings_are_never_clipped():
    weights = np.array([[[-7.5, 3.0], [0.001, 7.5]]], np.float32)
    whole, quantum = quantised(weights)
    assert whole.dtype == np.int16
    assert np.abs(whole).max() == 32767
    assert np.abs(whole * quantum - weights).max() <= quantum / 2 * 1.001
    assert quantised(np.zeros((1, 1, 4), np.float32))[0].tolist() == [[[0, 0, 0, 0]]]
    with pytest.raises(ValueError, match="finite"):
        quantised(np.where(weights == 7.5, np.float32(np.inf), weights))


def test_eight_bits_are_taken_where_nothing_is_lost():
    weights = np.array([[[0, 127], [-127, 3], [5, 0], [1, -1]]], np.float32) / 128
    whole, quantum = quantised(weights)
    assert whole.dtype == np.int8
    assert (whole * quantum == weights).all()
    for other in (weights * 128 / 127, weights * 2):
        assert quantised(other)[0].dtype == np.int16


@pytest.mark.parametrize("dim", [3, 8, 16])
@pytest.mark.parametrize("dtype", [np.int8, np.int16])
def test_sums_of_extreme_numbers_are_exact(dim: int, dtype: type):
    rng = np.random.default_rng(dim)
    shapes = Shapes.symmetric(PATTERNS)
    limit = np.iinfo(dtype).max
    weights = rng.choice([-limit, limit, 1, 0], (1, shapes.cells, dim)).astype(dtype)
    head = Head(
        rng.normal(size=dim) / 50,
        rng.normal(size=(5, dim)) / 50,
        rng.normal(size=5),
        rng.normal(size=5) / 50,
        0.25,
    )
    tables = "test", shapes, weights, np.zeros(65, np.int64)
    evaluator = EmbeddedEvaluator(*tables, quantum=1 / limit, heads=(head,))
    assert type(evaluator.leaf).__name__.endswith("of8" if dtype is np.int8 else "of16")
    movers, opponents, _ = check_positions()
    digits = np.stack([movers >> np.uint64(s) & np.uint64(1) for s in range(64)], 1).astype(np.int64)
    digits -= np.stack([opponents >> np.uint64(s) & np.uint64(1) for s in range(64)], 1).astype(np.int64)
    lanes = len(shapes.placements) + 1
    cells = (digits @ shapes.deltas.astype(np.int64) + shapes.origins)[:, :lanes]  # [N, lookups and the constant]
    sums = (weights[0, cells].astype(np.float64) / limit).sum(1)
    units = np.maximum(sums @ head.hidden.T + head.bias, 0)
    wanted = np.clip(sums @ head.skip + units @ head.output + 0.25, -62, 62)
    assert np.abs(evaluator.discs(movers, opponents) - wanted).max() < 0.02


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("net", "message"),
    [
        (STAGED | {"net": NTUPLE | {"dim": 4}}, "only staged nets of triangle nets or of n-tuple nets with dim=1"),
        (STAGED | {"net": STAGED}, "only staged nets"),
        (STAGED | {"centres": [4, 20, 34, 50, 64]}, "at most 4 nets can be blended, not 5"),
        ({"kind": "doubled", "net": {"kind": "doubled", "net": NTUPLE}}, "look at the colour themselves"),
        ({"kind": "doubled", "net": NTUPLE | {"view": "negation"}}, "look at the colour themselves"),
        (NTUPLE | {"dim": 17}, "dim=17 cannot be compiled; the most is 16"),
        (NTUPLE | {"tuples": [[a, b] for a in range(0, 64) for b in (22, 41)]}, "squares"),
    ],
    ids=str,
)
def test_nets_that_cannot_be_compiled(net, message):
    try:
        checkpoint = random_checkpoint(net, 1)
    except ValueError:  # no shapes, so no arrays
        checkpoint = Checkpoint(net, {})
    with pytest.raises(ValueError, match=message):
        compile_checkpoint(checkpoint)


def test_missing_and_misshapen_arrays():
    arrays = random_checkpoint(STAGED, 1).arrays
    for name in arrays:
        with pytest.raises(CompileError, match="is missing"):
            compile_net(STAGED, {other: array for other, array in arrays.items() if other != name})
        with pytest.raises(CompileError, match="must be"):
            compile_net(STAGED, arrays | {name: np.zeros((2, 3), np.float32)})


# --- the cross-check -------------------------------------------------------------------------------------------------


def checked(net: dict, seed: int = 1) -> Checkpoint:
    """A checkpoint whose checks are the oracle's."""
    checkpoint = random_checkpoint(net, seed)
    own = with_checks(checkpoint).checks
    rows = zip(own.movers.tolist(), own.opponents.tolist(), own.black_to_move.tolist(), strict=True)
    discs = np.array([discs_of(net, checkpoint.arrays, *row) for row in rows])
    return replace(checkpoint, checks=replace(own, discs=discs))


EVERY_KIND = {name: row[0] for name, row in (NETS | COLOURED).items()}


@pytest.mark.parametrize("name", EVERY_KIND)
def test_right_checks_pass(name):
    assert compile_checkpoint(checked(EVERY_KIND[name]), name).name == name


@pytest.mark.parametrize("name", ["triangle", "n-tuples", "dim 3", "staged triangles", "doubled triangle", "negation"])
def test_a_corrupted_weight_is_found(name):
    net = EVERY_KIND[name]
    checkpoint = checked(net)
    for array in checkpoint.arrays:
        if array.endswith(("weight", "weights", "outputs", "bias")):
            corrupted = {**checkpoint.arrays, array: checkpoint.arrays[array].copy()}
            at = corrupted[array].size // 2 if array != "weight" else 0  # cell 0 is in every sum
            corrupted[array].flat[at] += 1.5
            with pytest.raises(CompileError, match=r"gives [+-].* discs where the net had [+-].*: damaged weights"):
                compile_checkpoint(replace(checkpoint, arrays=corrupted))


def test_integer_weights_are_checked_as_well():
    cells = Shapes.symmetric(PATTERNS).cells
    net = {"kind": "ntuple", "tuples": [list(squares) for squares in PATTERNS], "stages": 1}
    weights = np.random.default_rng(1).integers(-50, 50, (1, cells)).astype(np.int16)
    checkpoint = with_checks(Checkpoint(net, {"weight": weights}))
    compile_checkpoint(checkpoint)
    with pytest.raises(CompileError, match="differs in 64 of 64 checks"):
        compile_checkpoint(replace(checkpoint, arrays={"weight": weights + np.int16(3)}))


def test_the_check_is_as_strict_as_it_says():
    """A tenth of a disc is noticed wherever the arithmetic is better than that."""
    for name in ("triangle", "dim 3", "staged n-tuples"):
        checkpoint = checked(EVERY_KIND[name])
        near = np.abs(checkpoint.checks.discs) < 30
        off = checkpoint.checks.discs + 0.1 * near
        with pytest.raises(CompileError, match=f"differs in {near.sum()} of 64"):
            compile_checkpoint(replace(checkpoint, checks=replace(checkpoint.checks, discs=off)))


def test_values_beyond_the_leaf_s_limit_agree():
    net = NTUPLE | {"stages": 1}
    weights = np.zeros((1, Shapes.symmetric(TUPLES).cells), np.float32)
    weights[0, 0] = 90.0
    one, two = np.array([1], np.uint64), np.array([2], np.uint64)
    checks = Checks(one, two, np.array([True]), np.array([90.0]))
    evaluator = compile_checkpoint(Checkpoint(net, {"weight": weights}, checks=checks))
    assert evaluator.discs(one, two) == [62.0]


# --- in the search ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["staged triangles", "dim 3"])
def test_one_ply_takes_the_best_afterstate(name):
    checkpoint = random_checkpoint(NETS[name][0], 2)
    engine = Engine(compile_checkpoint(checkpoint), Options(table_mb=1))
    for mover, opponent in boards()[2:8]:
        position = Position(mover, opponent)
        if position.legal_moves:
            after = {move: position.play(move) for move in position.legal_moves}
            values = {
                move: discs_of(checkpoint.net, checkpoint.arrays, p.mover, p.opponent) for move, p in after.items()
            }
            result = engine.search(position, Limit(depth=1))
            assert -result.score == pytest.approx(min(values.values()), abs=0.02)
            assert values[result.move] == pytest.approx(min(values.values()), abs=0.02)


CACHED = """
import numpy as np
from othello_nn import Position
from othello_nn.engine import Engine, Limit, Options
from othello_nn.engine.leaf.compile import compile_net
maps = {"weights": np.ones((1, 10), "f"), "biases": np.zeros((1, 8), "f"), "outputs": np.ones((1, 8), "f") / 16}
arrays = {f"nets.0.{name}": array for name, array in maps.items()} | {"nets.0.output_bias": np.zeros((), "f")}
net = {"kind": "staged", "net": {"kind": "triangle", "maps": 1, "scale": 10.0}, "centres": [34], "width": 20.0}
staged = compile_net(net, arrays | {"coefficients": np.ones((65, 1), "f")})
head = {"hidden.weight": np.ones((1, 2), "f"), "hidden.bias": np.ones(1, "f")}
head |= {"output.weight": np.ones((1, 1), "f"), "output.bias": np.ones(1, "f")}
embedding = {"kind": "ntuple", "tuples": [[0]], "stages": 1, "dim": 2, "hidden": 1}
embedded = compile_net(embedding, {"weight": np.zeros((1, 4, 2), "f")} | head)
for evaluator in (staged, embedded):
    result = Engine(evaluator, Options(table_mb=1)).search(Position.start(), Limit(depth=2))
    print(type(evaluator.leaf).__name__, result.depth, *evaluator.discs(np.zeros(1, np.uint64), np.zeros(1, np.uint64)))
"""


def test_a_second_process_finds_the_compiled_evaluators():
    run_fresh(CACHED)  # compiles, unless it already has
    out, err = run_fresh(CACHED)
    assert out == "Blended16 2 0.0\nEmbedded16x4of8 2 2.0\n"
    assert err == ""  # nothing says that it compiles
