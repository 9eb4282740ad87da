"""The nets: what they compute, against plain Python written from the definitions; gradients; configurations; files."""

import doctest
import json
import math
from functools import cache

import numpy as np
import pytest
import torch
from strategies import endings
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from othello_nn.checkpoint import Checkpoint
from othello_nn.game import rules
from othello_nn.game.syntax import parse_square
from othello_nn.kinds import KINDS
from othello_nn.nets import (
    DenseNet,
    Doubled,
    Net,
    NetError,
    NTupleNet,
    Staged,
    TriangleNet,
    export,
    load_net,
    make_net,
    registry,
)
from othello_nn.nets.base import boards, count_discs, squash, unsquash

CONFIGS = {
    "triangle": {"kind": "triangle", "maps": 5},
    "triangle-empties": {"kind": "triangle", "maps": 3, "empties": True, "scale": 7.0},
    "triangle-symmetric": {"kind": "triangle", "maps": 4, "symmetric": True},
    "all-2": {"kind": "ntuple", "tuples": "all-2"},
    "stages": {"kind": "ntuple", "tuples": "rand-4x5+corners", "stages": 7, "shared": True, "seed": 5},
    "one-stage-shared": {"kind": "ntuple", "tuples": "all-1", "shared": True},
    "negation": {"kind": "ntuple", "tuples": "all-3", "stages": 3, "view": "negation", "scale": 20.0},
    "embedding": {"kind": "ntuple", "tuples": "rows+all-1", "dim": 4, "hidden": 6, "stages": 2, "shared": True},
    "heads": {"kind": "ntuple", "tuples": "rows+corners", "dim": 6, "hidden": 9, "heads": 7},
    "dense": {"kind": "dense", "hidden": 7, "scale": 5.0},
    "staged-triangle": {"kind": "staged", "net": {"kind": "triangle", "maps": 2}},
    "staged-network": {"kind": "staged", "net": {"kind": "dense", "hidden": 3}, "gate": "network", "gate_units": 5},
    "staged-learned": {
        "kind": "staged",
        "net": {"kind": "ntuple", "tuples": "all-1"},
        "centres": [10, 50.5],
        "width": 9,
    }
    | {"gate": "learned"},
    "doubled": {"kind": "doubled", "net": {"kind": "triangle", "maps": 2}},
    "doubled-staged": {"kind": "doubled", "net": {"kind": "staged", "net": {"kind": "ntuple", "view": "negation"}}},
}
every_net = pytest.mark.parametrize("name", CONFIGS)


@cache
def positions(count: int = 120) -> tuple[tuple[int, int, bool], ...]:
    """Positions with every number of empties from 0 to 60; the colour is any, as the nets do not check it."""
    rng = np.random.default_rng(8)
    found = endings(seed=3, games=40, fewest=0, most=60)
    picked = [found[i] for i in rng.choice(len(found), count, replace=False)]
    picked += [(rules.START_MOVER, rules.START_OPPONENT), (rules.FULL_MASK, 0), (0, rules.FULL_MASK)]
    return tuple((mover, opponent, bool(rng.integers(2))) for mover, opponent in picked)


def as_tensors(chosen) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    movers, opponents, black = zip(*chosen, strict=True)
    masks = (torch.from_numpy(np.array(masks, np.uint64).view(np.int64)) for masks in (movers, opponents))
    return *masks, torch.tensor(black)


def random_net(config: dict, seed: int = 0) -> Net:
    """With all parameters random, also those that start at 0; in float64."""
    net = make_net(config).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.uniform_(-0.5, 0.5, generator=generator)
    return net


# --- the oracle: the definitions, a position at a time ---------------------------------------------------------------


def plain_squash(x: float) -> float:
    return 2 / (1 + math.exp(-x)) - 1


def plain_content(mover: int, opponent: int, square: int) -> int:
    return (mover >> square & 1) - (opponent >> square & 1)


def plain_triangle(config, arrays, mover, opponent) -> float:
    base = [parse_square(name) for name in ("a1", "b1", "c1", "d1", "b2", "c2", "d2", "c3", "d3", "d4")]
    total = float(arrays["output_bias"])
    for k in range(8):
        inputs = [plain_content(mover, opponent, rules.transform_square(square, k)) for square in base]
        if config["empties"]:
            inputs += [1 - abs(x) for x in inputs]
        for m in range(config["maps"]):
            unit = m if config["symmetric"] else (m, k)
            argument = sum(w * x for w, x in zip(arrays["weights"][m], inputs, strict=True)) + arrays["biases"][unit]
            total += arrays["outputs"][unit] * plain_squash(argument)
    return config["scale"] * total


def plain_dense(config, arrays, mover, opponent) -> float:
    inputs = [plain_content(mover, opponent, square) for square in range(64)]
    total = float(arrays["output_bias"])
    for unit in range(config["hidden"]):
        argument = sum(w * x for w, x in zip(arrays["weights"][:, unit], inputs, strict=True)) + arrays["biases"][unit]
        total += arrays["outputs"][unit] * plain_squash(argument)
    return config["scale"] * total


def plain_coefficients(config, arrays, mover, opponent) -> list[float]:
    row = arrays["coefficients"][(mover | opponent).bit_count()].tolist()
    if config["gate"] != "network":
        return row
    inputs = [side >> square & 1 for side in (mover, opponent) for square in range(64)]
    arguments = arrays["gate_hidden.weight"] @ inputs + arrays["gate_hidden.bias"]
    units = [plain_squash(argument) for argument in arguments]
    return (row + arrays["gate_output.weight"] @ units + arrays["gate_output.bias"]).tolist()


def plain_ntuple(config, arrays, mover, opponent, black_to_move) -> float:
    if config["view"] == "negation" and not black_to_move:
        return -plain_ntuple(config, arrays, opponent, mover, True)
    stages, empties = config["stages"], 64 - (mover | opponent).bit_count()
    rows = [min(empties * stages // 60, stages - 1)]
    if config["shared"] and stages > 1:
        rows.append(stages)
    total = sum(arrays["weight"][row, 0] for row in rows)
    start = 1
    for squares in config["tuples"]:
        seen = set()
        for k in range(8):
            image = [rules.transform_square(square, k) for square in squares]
            if frozenset(image) in seen:
                continue
            # Of a tuple that is its own mirror image, two orders of the squares could be meant. The engine's counts.
            image = list(engine_order(tuple(squares), frozenset(image)))
            seen.add(frozenset(image))
            digits = [plain_content(mover, opponent, square) + 1 for square in image]
            cell = start + sum(digit * 3**j for j, digit in enumerate(digits))
            total = total + sum(arrays["weight"][row, cell] for row in rows)
        start += 3 ** len(squares)
    if config["dim"] == 1:
        return float(total)
    if config["heads"] > 1:
        empties = 64 - mover.bit_count() - opponent.bit_count()
        head = min(empties * config["heads"] // 60, config["heads"] - 1)
        hidden = np.maximum(arrays["hidden.weight"][head] @ total + arrays["hidden.bias"][head], 0)
        return float(
            arrays["skip"][head] @ total + arrays["output.weight"][head] @ hidden + arrays["output.bias"][head]
        )
    hidden = np.maximum(arrays["hidden.weight"] @ total + arrays["hidden.bias"], 0)
    return float(total[0] + (arrays["output.weight"] @ hidden + arrays["output.bias"])[0])


@cache
def engine_order(squares: tuple[int, ...], image: frozenset[int]) -> tuple[int, ...]:
    from othello_nn.engine.leaf.shapes import symmetric_placements

    return next(placement for placement in symmetric_placements(squares) if frozenset(placement) == image)


def part(arrays, prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def scale_of(config) -> float:
    return config["scale"] if "scale" in config else scale_of(config["net"])


def plain_value(config, arrays, mover, opponent, black_to_move) -> float:
    if config["kind"] == "staged":
        row = plain_coefficients(config, arrays, mover, opponent)
        return sum(
            row[i] * plain_value(config["net"], part(arrays, f"nets.{i}."), mover, opponent, black_to_move)
            for i in range(len(config["centres"]))
        )
    if config["kind"] == "doubled":
        colour = "black." if black_to_move else "white."
        return plain_value(config["net"], part(arrays, colour), mover, opponent, black_to_move)
    return plain_squash(plain_discs(config, arrays, mover, opponent, black_to_move) / config["scale"])


def plain_discs(config, arrays, mover, opponent, black_to_move) -> float:
    if config["kind"] == "triangle":
        return plain_triangle(config, arrays, mover, opponent)
    if config["kind"] == "dense":
        return plain_dense(config, arrays, mover, opponent)
    if config["kind"] == "ntuple":
        return plain_ntuple(config, arrays, mover, opponent, black_to_move)
    value = plain_value(config, arrays, mover, opponent, black_to_move)
    return scale_of(config) * 2 * math.atanh(max(min(value, 1 - 1e-6), 1e-6 - 1))


@every_net
def test_nets_compute_what_is_defined(name):
    net = random_net(CONFIGS[name])
    config, arrays = net.config, {key: tensor.numpy() for key, tensor in net.state_dict().items()}
    with torch.no_grad():
        values, discs = (f(*as_tensors(positions())).tolist() for f in (net, net.discs))
    expected = [plain_value(config, arrays, *position) for position in positions()]
    assert values == pytest.approx(expected, abs=1e-9)
    assert discs == pytest.approx([plain_discs(config, arrays, *position) for position in positions()], abs=1e-6)
    assert np.std(values) > 0.01


@every_net
def test_a_configuration_builds_the_same_net(name):
    net = random_net(CONFIGS[name]).float()
    config = json.loads(json.dumps(net.config))
    twin = make_net(config)
    assert twin.config == net.config == config
    twin.load_state_dict(net.state_dict())
    assert torch.equal(net(*as_tensors(positions())), twin(*as_tensors(positions())))


# --- boards and squashes ---------------------------------------------------------------------------------------------


def test_boards_and_counts():
    chosen = [*positions(), (1 << 63, 1, True), (1, 1 << 63, True), (0, 0, True)]
    mover, opponent, _ = as_tensors(chosen)
    expected = [[plain_content(m, o, square) for square in range(64)] for m, o, _ in chosen]
    assert boards(mover, opponent).tolist() == expected
    assert boards(mover, opponent, torch.float64).dtype == torch.float64
    assert boards(mover.repeat_interleave(2)[::2], opponent).tolist() == expected  # not contiguous
    assert count_discs(mover, opponent).tolist() == [(m | o).bit_count() for m, o, _ in chosen]


def test_squash_and_its_inverse():
    x = torch.linspace(-12, 12, 97, dtype=torch.float64)
    assert squash(x).tolist() == pytest.approx([plain_squash(float(each)) for each in x], abs=1e-12)
    assert unsquash(squash(x)).tolist() == pytest.approx(x.tolist(), abs=1e-6)
    edge = torch.tensor([-2.0, -1.0, 0.0, 1.0, 2.0], requires_grad=True)
    unsquash(edge).sum().backward()
    assert edge.grad is not None
    assert edge.grad.isfinite().all()
    assert 14 < unsquash(edge)[-1] < 15
    assert torch.equal(unsquash(edge), -unsquash(edge).flip(0))


# --- parameters and symmetry -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("net", "count"),
    [
        (TriangleNet(), 313),
        (TriangleNet(maps=1), 10 + 8 + 8 + 1),
        (TriangleNet(empties=True), 313 + 120),
        (TriangleNet(symmetric=True), 120 + 12 + 12 + 1),
        (Staged(TriangleNet(maps=12)), 3 * 313),
        (Staged(TriangleNet(maps=12), gate="learned"), 3 * 313 + 3 * 65),
        (Staged(TriangleNet(maps=12), gate="network"), 3 * 313 + 128 * 16 + 16 + 16 * 3 + 3),
        (Doubled(TriangleNet()), 2 * 313),
        (DenseNet(), 6337),
        (NTupleNet(), 288 + 1),
        (NTupleNet(stages=3), 3 * 289),
        (NTupleNet(stages=3, shared=True), 4 * 289),
        (NTupleNet(dim=4, hidden=5), 4 * 289 + 4 * 5 + 5 + 5 + 1),
    ],
)
def test_parameter_counts(net, count):
    assert sum(parameter.numel() for parameter in net.parameters()) == count


def test_where_nets_start():
    triangle = TriangleNet(maps=200)
    for parameter in (triangle.weights, triangle.biases, triangle.outputs):
        assert -1 <= parameter.min() < -0.98
        assert 0.98 < parameter.max() <= 1
    assert not NTupleNet(stages=2).weight.any()
    net = NTupleNet(tuples="all-1", dim=3)
    mover, opponent, _ = as_tensors(positions())
    first = net.weight[..., 0].reshape(-1)[net.indices(mover, opponent)].sum(1)
    assert torch.allclose(net.discs(mover, opponent), first, atol=1e-6)
    assert first.abs().max() > 0
    generators = [torch.Generator().manual_seed(seed) for seed in (1, 1, 2)]
    starts = []
    for generator in generators:
        net.reset_parameters(generator)
        starts.append([parameter.detach().clone() for parameter in net.parameters()])
    assert all(map(torch.equal, starts[0], starts[1]))
    assert not torch.equal(starts[0][0], starts[2][0])


def turned(k: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return as_tensors([(rules.transform_mask(m, k), rules.transform_mask(o, k), b) for m, o, b in positions()])


def is_invariant(net: Net, k: int) -> bool:
    return torch.allclose(net(*as_tensors(positions())), net(*turned(k)), atol=1e-9)


def test_the_plain_triangle_net_has_none_of_the_symmetries():
    net = random_net({"kind": "triangle"})
    assert [k for k in range(8) if is_invariant(net, k)] == [0]


def test_turning_a_board_is_turning_the_units_of_the_plain_triangle_net():
    net, other = (random_net({"kind": "triangle"}) for _ in range(2))
    for k in range(1, 8):
        # What triangle t sees on the board is what its image sees on the turned board.
        corners = [{rules.transform_square(square, t) for square in (0, 1, 9)} for t in range(8)]
        order = [corners.index({rules.transform_square(square, k) for square in corner}) for corner in corners]
        with torch.no_grad():
            for name in ("biases", "outputs"):
                getattr(other, name)[:, order] = getattr(net, name)
        assert torch.allclose(net(*as_tensors(positions())), other(*turned(k)), atol=1e-9)


@pytest.mark.parametrize("name", ["triangle-symmetric", "staged"])
def test_the_symmetric_triangle_net_has_them_all(name):
    config = {"kind": "triangle", "maps": 6, "symmetric": True, "empties": True}
    net = random_net(config if name != "staged" else {"kind": "staged", "net": config})
    assert all(is_invariant(net, k) for k in range(8))


@pytest.mark.parametrize("symmetric", [False, True])
def test_a_staged_triangle_net_that_says_nothing_can_still_learn(symmetric):
    net = random_net({"kind": "staged", "net": {"kind": "triangle", "maps": 96, "symmetric": symmetric}})
    net.say_nothing()
    values = net(*as_tensors(positions()))
    assert torch.equal(values, torch.zeros_like(values))
    (values - 0.5).square().sum().backward()
    assert all((inner.outputs.grad != 0).any() for inner in net.nets)


def test_the_triangle_net_without_biases_is_odd():
    mover, opponent, _ = as_tensors(positions())
    for empties, odd in ((False, True), (True, False)):
        net = random_net({"kind": "triangle", "empties": empties})
        assert not torch.allclose(net(mover, opponent), -net(opponent, mover), atol=1e-3)
        with torch.no_grad():
            net.biases.zero_()
            net.output_bias.zero_()
        assert torch.allclose(net(mover, opponent), -net(opponent, mover), atol=1e-9) is odd


def test_an_ntuple_net_has_the_symmetries_of_its_placements():
    """A tuple that is its own mirror image is looked up once, in one order: only tied cells would make it symmetric."""
    assert not is_invariant(random_net({"kind": "ntuple", "tuples": [[1, 8]]}), 4)
    net = random_net({"kind": "ntuple", "tuples": [[0, 1, 10], [8, 17, 12, 30]], "stages": 4, "shared": True})
    assert all(is_invariant(net, k) for k in range(8))


# --- stages ----------------------------------------------------------------------------------------------------------


def test_application_coefficients():
    table = Staged(TriangleNet(maps=1)).coefficients
    assert table.shape == (65, 3)
    assert table[[4, 34, 64], [0, 1, 2]].tolist() == [1, 1, 1]
    assert table[34].tolist() == pytest.approx([math.exp(-2.25), 1, math.exp(-2.25)])  # 0.105
    assert table[24].tolist() == pytest.approx([math.exp(-1), math.exp(-0.25), math.exp(-4)])
    assert table[4].tolist() == pytest.approx([1, math.exp(-2.25), math.exp(-9)])


def test_a_gate_that_is_a_network_starts_as_the_fixed_one_and_learns_from_the_position():
    torch.manual_seed(1)
    net = Staged(TriangleNet(maps=2), gate="network")
    fixed = Staged(TriangleNet(maps=2))
    fixed.load_state_dict({name: tensor for name, tensor in net.state_dict().items() if "gate_" not in name})
    rows = as_tensors(positions())
    assert torch.equal(net(*rows), fixed(*rows))
    optimiser = torch.optim.Adam([*net.gate_hidden.parameters(), *net.gate_output.parameters()], 0.03)
    wanted = torch.where(rows[0] & 1 != 0, 0.9, -0.9)  # which no coefficients by the number of discs can give
    losses = []
    for _ in range(60):
        optimiser.zero_grad()
        losses.append((net(*rows) - wanted).square().mean())
        losses[-1].backward()
        optimiser.step()
    assert losses[-1] < 0.5 * losses[0]
    blends = net.blend(*rows[:2])
    same = [(a == b).all() for a, b in zip(blends, fixed.blend(*rows[:2]), strict=True)]
    assert not any(same)


def test_staged_nets_start_apart_and_learn_through_the_blend():
    pattern = TriangleNet(maps=2)
    net = Staged(pattern, gate="learned")
    weights = [each.weights for each in (pattern, *net.nets)]
    assert all(not torch.equal(a, b) for i, a in enumerate(weights) for b in weights[:i])
    mover, opponent, _ = as_tensors(
        [position for position in positions() if (position[0] | position[1]).bit_count() == 64]
    )
    net(mover, opponent).sum().backward()
    sizes = [each.weights.grad.abs().sum().item() for each in net.nets]
    assert sizes[0] < 1e-2 * sizes[2]  # with all squares full the first net has a coefficient of e^−9
    assert 0 < sizes[1] < sizes[2]
    gate = net.coefficients.grad
    assert gate[64].abs().min() > 0
    assert not gate[:64].any()


def test_stages_have_their_rows():
    net = NTupleNet("all-1", stages=4)
    with torch.no_grad():
        net.weight[:, 0] = torch.arange(4.0)
    chosen = [((1 << discs) - 1, 0, True) for discs in range(4, 65)]
    mover, opponent, _ = as_tensors(chosen)
    expected = [min((64 - discs) * 4 // 60, 3) for discs in range(4, 65)]
    assert net.discs(mover, opponent).tolist() == expected
    assert expected[0] == 3
    assert expected[-1] == 0
    indices = net.indices(mover, opponent)
    assert indices.dtype == torch.int64
    assert indices.shape == (61, 64 + 1)
    assert (indices // net.shapes.cells).tolist() == [[row] * 65 for row in expected]
    assert indices[:, -1].tolist() == [row * net.shapes.cells for row in expected]


# --- colours ---------------------------------------------------------------------------------------------------------


def test_inversion_and_negation():
    mover, opponent, black = as_tensors(positions())
    inversion = random_net({"kind": "ntuple", "tuples": "all-2"})
    negation = make_net(inversion.config | {"view": "negation"}).double()
    negation.load_state_dict(inversion.state_dict())
    always = torch.ones_like(black)
    assert torch.equal(inversion(mover, opponent, black), inversion(mover, opponent, ~black))
    assert torch.equal(negation(mover, opponent, always), inversion(mover, opponent))  # black sees what it would see
    assert torch.equal(negation(mover, opponent, black), -negation(opponent, mover, ~black))  # one board, one judgement
    assert not torch.allclose(inversion(mover, opponent), -inversion(opponent, mover), atol=1e-2)


def test_doubled():
    mover, opponent, black = as_tensors(positions())
    net = Doubled(Staged(TriangleNet(maps=2)))
    assert not torch.allclose(net.black(mover, opponent), net.white(mover, opponent), atol=1e-3)
    expected = torch.where(black, net.black(mover, opponent), net.white(mover, opponent))
    assert torch.equal(net(mover, opponent, black), expected)


@pytest.mark.parametrize("name", ["negation", "doubled", "doubled-staged"])
def test_nets_that_see_colours_ask_for_them(name):
    net = make_net(CONFIGS[name])
    for function in (net, net.discs):
        with pytest.raises(ValueError, match="give black_to_move with the positions"):
            function(*as_tensors(positions())[:2])


# --- gradients -------------------------------------------------------------------------------------------------------


@every_net
def test_gradients_are_those_of_finite_differences(name):
    net = random_net(CONFIGS[name], seed=4)
    inputs = as_tensors(positions()[:12])
    goal = torch.linspace(-1, 1, 12, dtype=torch.float64)

    def loss() -> torch.Tensor:
        return ((net(*inputs) - goal) ** 2).sum()

    loss().backward()
    rng = np.random.default_rng(1)
    for parameter in net.parameters():
        assert parameter.grad is not None
        flat, gradient = parameter.data.view(-1), parameter.grad.view(-1)
        active = gradient.nonzero().view(-1).numpy()
        assert len(active)
        for i in [*rng.choice(active, 4), int(rng.integers(len(flat)))]:
            before, sides = flat[i].item(), []
            for step in (1e-5, -1e-5):
                flat[i] = before + step
                with torch.no_grad():
                    sides.append(loss().item())
            flat[i] = before
            assert gradient[i].item() == pytest.approx((sides[0] - sides[1]) / 2e-5, rel=1e-4, abs=1e-7)


@pytest.mark.parametrize(
    "options", [{}, {"stages": 3, "shared": True}, {"dim": 3}, {"dim": 2, "stages": 2, "shared": True}]
)
def test_sparse_gradients_are_the_dense_ones(options):
    dense = random_net({"kind": "ntuple", "tuples": "all-2"} | options)
    sparse = make_net(dense.config | {"sparse": True}).double()
    sparse.load_state_dict(dense.state_dict())
    for net in (dense, sparse):
        (net(*as_tensors(positions())) ** 2).sum().backward()
    assert sparse.weight.grad.is_sparse
    assert not dense.weight.grad.is_sparse
    assert torch.allclose(sparse.weight.grad.to_dense(), dense.weight.grad, atol=1e-12)
    assert dense.weight.grad.any()


def test_a_sparse_optimiser_takes_them():
    net = NTupleNet("all-1", stages=2, sparse=True)
    optimiser = torch.optim.SparseAdam(net.parameters(), lr=0.1)
    inputs = as_tensors(positions())
    goal = torch.linspace(-1, 1, len(inputs[0]))
    losses = []
    for _ in range(20):
        optimiser.zero_grad()
        loss = ((net(*inputs) - goal) ** 2).mean()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]


# --- devices and formats ---------------------------------------------------------------------------------------------


def on_fake_gpu(net: Net) -> Net:
    """The same net with tensors of no content on a GPU that need not exist; only inside a FakeTensorMode."""
    for module in net.modules():
        for tensors in (module._parameters, module._buffers):
            for name, tensor in [(name, tensor) for name, tensor in tensors.items() if tensor is not None]:
                empty = torch.empty(tensor.shape, dtype=tensor.dtype, device="cuda")
                tensors[name] = nn.Parameter(empty) if isinstance(tensor, nn.Parameter) else empty
    return net


@every_net
def test_forward_never_waits_for_the_device(name):
    net = make_net(CONFIGS[name])
    with FakeTensorMode(), torch.no_grad():
        net = on_fake_gpu(net)
        mover = torch.empty(10, dtype=torch.int64, device="cuda")
        black = torch.empty(10, dtype=torch.bool, device="cuda")
        for function in (net, net.discs):
            result = function(mover, mover, black)
            assert (result.device.type, result.shape, result.dtype) == ("cuda", (10,), torch.float32)


def test_waiting_for_the_device_would_be_noticed():
    class Waiting(TriangleNet):
        def discs(self, mover, opponent, black_to_move=None):
            return super().discs(mover, opponent) * mover.sum().item()

    net = Waiting(maps=1)
    with FakeTensorMode(), torch.no_grad():
        mover = torch.empty(10, dtype=torch.int64, device="cuda")
        net = on_fake_gpu(net)
        with pytest.raises(Exception, match="_local_scalar_dense"):
            net(mover, mover)


@every_net
def test_backward_on_the_meta_device(name):
    net = make_net(CONFIGS[name]).to("meta")
    mover = torch.empty(10, dtype=torch.int64, device="meta")
    net(mover, mover, torch.empty(10, dtype=torch.bool, device="meta")).sum().backward()
    for parameter in net.parameters():
        assert parameter.grad is not None
        assert parameter.grad.shape == parameter.shape
        assert parameter.grad.device.type == "meta"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@every_net
def test_on_a_gpu(name):
    net = random_net(CONFIGS[name]).float()
    inputs = as_tensors(positions())
    expected = net(*inputs)
    on_gpu, there = net.to("cuda"), [tensor.to("cuda") for tensor in inputs]
    torch.cuda.set_sync_debug_mode("error")
    try:
        values = on_gpu(*there)
        values.sum().backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.allclose(values.cpu(), expected, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_indices_are_exact_in_every_precision(dtype):
    net = NTupleNet("patterns", stages=15)
    mover, opponent, _ = as_tensors(positions())
    exact = net.indices(mover, opponent)
    with torch.autocast("cpu", dtype):
        assert torch.equal(net.indices(mover, opponent), exact)
    assert torch.equal(net.to(dtype).indices(mover, opponent), exact)
    assert exact.max() > 2**20  # far beyond what these formats can count to


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # of torch by torch
def test_nothing_breaks_the_graph():
    """What torch.compile needs; the eager backend wants no compiler."""
    for name in ("staged-triangle", "negation"):
        net = make_net(CONFIGS[name])
        inputs = as_tensors(positions())
        compiled = torch.compile(net, backend="eager", fullgraph=True)
        assert torch.allclose(compiled(*inputs), net(*inputs))


# --- configurations --------------------------------------------------------------------------------------------------


def test_registry_examples():
    import othello_nn.nets as package

    for module in (registry, package):
        results = doctest.testmod(module)
        assert results.attempted > 0
        assert results.failed == 0
    assert {"triangle", "ntuple", "dense", "staged", "doubled", "module"} <= KINDS.keys()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("triangle", "a net's configuration is a mapping with a kind, not 'triangle'"),
        ({}, "a net's configuration needs a kind; choose from triangle, ntuple"),
        ({"kind": "triangel"}, "unknown kind of net 'triangel'; did you mean 'triangle'?"),
        ({"kind": ["ntuple"]}, "unknown kind of net ['ntuple'];"),
        ({"kind": "triangle", "mapz": 3}, "unknown option 'mapz' of a triangle net; did you mean 'maps'?"),
        ({"kind": "ntuple", "stage": 3}, "unknown option 'stage' of a ntuple net; did you mean 'stages'?"),
        ({"kind": "staged"}, "a staged net needs the option 'net'"),
        ({"kind": "staged", "net": {"kind": "triangle", "mapz": 3}}, "did you mean 'maps'?"),
        ({"kind": "doubled", "net": 3}, "a net or its configuration is needed, not 3"),
        ({"kind": "triangle", "maps": 0}, "maps is 0; it must be a whole number from 1 to"),
        ({"kind": "triangle", "maps": True}, "maps is True; it must be a whole number"),
        ({"kind": "triangle", "maps": 3.0}, "maps is 3.0; it must be a whole number"),
        ({"kind": "triangle", "empties": 1}, "empties is 1; it must be true or false"),
        ({"kind": "triangle", "scale": -1}, "scale is -1; it must be a number from 0.1 to 1000"),
        ({"kind": "triangle", "scale": math.nan}, "scale is nan; it must be a number"),
        ({"kind": "ntuple", "tuples": "al-2"}, "did you mean 'all-2'?"),
        ({"kind": "ntuple", "tuples": [[0, 99]]}, "whole numbers from 0 (a1) to 63 (h8)"),
        ({"kind": "ntuple", "tuple_set": 3}, "tuple_set is 3; it must be the name of a set"),
        ({"kind": "ntuple", "tuples": [[1]], "tuple_set": 3}, "tuple_set is 3; it must be the name of a set"),
        ({"kind": "ntuple", "stages": 61}, "stages is 61; it must be a whole number from 1 to 60"),
        ({"kind": "ntuple", "dim": 0}, "dim is 0; it must be a whole number"),
        ({"kind": "ntuple", "view": "inverse"}, "view is 'inverse'; did you mean 'inversion'?"),
        ({"kind": "ntuple", "seed": -1}, "seed is -1; it must be a whole number"),
        ({"kind": "ntuple", "tuples": "rand-700x10", "stages": 60}, "too many: take fewer stages or shorter tuples"),
        ({"kind": "staged", "net": {"kind": "triangle"}, "gate": "learn"}, "gate is 'learn'; did you mean 'learned'?"),
        ({"kind": "staged", "net": {"kind": "triangle"}, "centres": []}, "centres is []; it must be a list of 1 to 16"),
        ({"kind": "staged", "net": {"kind": "triangle"}, "centres": [4, "x"]}, "one of centres is 'x'; it must be"),
        ({"kind": "staged", "net": {"kind": "triangle"}, "width": 0}, "width is 0; it must be a number from 0.1"),
    ],
)
def test_configurations_that_cannot_be_used(config, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the message is compared below)
        make_net(config)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_stored_configuration_names_its_tuples():
    config = NTupleNet("rand-3x4", seed=7).config
    assert config["tuple_set"] == "rand-3x4"
    assert config["seed"] == 7
    assert [len(squares) for squares in config["tuples"]] == [4, 4, 4]
    assert make_net(config).tuples == NTupleNet("rand-3x4", seed=7).tuples
    assert "seed" not in NTupleNet("all-2").config


# --- files -----------------------------------------------------------------------------------------------------------


@every_net
def test_a_net_survives_its_file(name, tmp_path):
    net = random_net(CONFIGS[name]).float()
    checkpoint = export(net, {"games": 12}, checks=50, seed=3, quantise=False)
    checkpoint.save(tmp_path / "net.safetensors")
    loaded = load_net(tmp_path / "net.safetensors")
    assert loaded.config == net.config
    assert torch.equal(loaded(*as_tensors(positions())), net(*as_tensors(positions())))
    stored = Checkpoint.load(tmp_path / "net.safetensors")
    assert stored.info == {"games": 12}
    assert stored.checks is not None
    checks = zip(
        stored.checks.movers.tolist(), stored.checks.opponents.tolist(), stored.checks.black_to_move, strict=True
    )
    arrays = {key: array.astype(np.float64) for key, array in stored.arrays.items()}
    expected = [plain_discs(net.config, arrays, *position) for position in checks]
    assert len(expected) == 50
    assert stored.checks.discs.tolist() == pytest.approx(expected, rel=1e-3, abs=1e-3)
    assert len({round(each, 6) for each in expected}) > 30


def test_tables_are_quantised():
    net = random_net({"kind": "ntuple", "tuples": "all-2", "stages": 3, "shared": True}).float()
    checkpoint = export(net)
    weight = checkpoint.arrays["weight"]
    assert weight.dtype == np.int16
    assert np.array_equal(weight, np.rint(net.weight.detach().numpy() * 128))
    loaded = load_net(checkpoint)
    difference = (loaded.weight - net.weight).abs().max()
    assert 0 < difference <= 0.5 / 128 + 1e-6
    assert torch.equal(loaded.weight * 128, torch.from_numpy(weight).float())
    assert checkpoint.checks is not None
    movers, opponents = (
        torch.from_numpy(masks.view(np.int64)) for masks in (checkpoint.checks.movers, checkpoint.checks.opponents)
    )
    assert checkpoint.checks.discs.tolist() == loaded.discs(movers, opponents).tolist()  # of what is in the file
    assert export(net, checks=0).checks is None
    vectors = random_net(CONFIGS["embedding"]).float()
    assert export(vectors, quantise=False).arrays["weight"].dtype == np.float32
    halves = export(vectors)
    assert halves.arrays["weight"].dtype == np.float16
    assert 0 < (load_net(halves).weight - vectors.weight).abs().max() <= 2**-11 * vectors.weight.abs().max()
    with torch.no_grad():
        vectors.weight.copy_((vectors.weight * 128).round().clamp(-127, 127) / 128)
    eighths = export(vectors)
    assert eighths.arrays["weight"].dtype == np.int8
    assert torch.equal(load_net(eighths).weight, vectors.weight)


def test_what_does_not_fit_is_refused_not_cut():
    net = NTupleNet("all-1", stages=2, shared=True)
    with torch.no_grad():
        net.weight[1, 3] = 255.9
        assert export(net).arrays["weight"][1, 3] == round(255.9 * 128)
        net.weight[1, 3] = -256.2
    with pytest.raises(
        ValueError, match=r"a weight of 256\.2 discs does not fit 16 bits .*; export with quantise=False"
    ):
        export(net)
    assert export(net, quantise=False).arrays["weight"][1, 3] == np.float32(-256.2)
    with torch.no_grad():
        net.weight[1, 3] = 200
        net.weight[2, 3] = 100  # each fits, but what is looked up is their sum
    with pytest.raises(NetError, match=r"a weight of 300\.0 discs"):
        export(net)
    with torch.no_grad():
        net.weight[0, 0] = math.nan
    with pytest.raises(NetError, match="weight holds numbers that are not finite"):
        export(net)


def test_files_whose_arrays_are_not_the_nets():
    checkpoint = export(TriangleNet(maps=2))
    for change, message in (
        ({"maps": 3}, r"'weights' has the shape \(2, 10\), expected \(3, 10\)"),
        ({"kind": "staged", "net": checkpoint.net}, "'biases' is not part of such a net"),
    ):
        config = checkpoint.net | change if "net" not in change else change
        with pytest.raises(NetError, match=f"the checkpoint: {message}"):
            load_net(Checkpoint(net=config, arrays=checkpoint.arrays))
    arrays = {name: array for name, array in checkpoint.arrays.items() if name != "outputs"}
    with pytest.raises(NetError, match="'outputs' is missing"):
        load_net(Checkpoint(net=checkpoint.net, arrays=arrays))
