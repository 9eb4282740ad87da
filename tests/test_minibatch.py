"""Fitting embedding nets to labelled positions: the kernels against PyTorch, and on any number of threads."""

import numpy as np
import pytest
import torch

from othello_nn.engine.leaf.compile import compile_net
from othello_nn.game.rules import SYMMETRIES
from othello_nn.learn.data.device import DeviceFit
from othello_nn.learn.data.minibatch import CompiledFit
from othello_nn.learn.data.searched import Play, searched_games
from othello_nn.learn.data.vectors import Vectors
from othello_nn.nets import NetError, NTupleNet
from tests.test_data import EVALUATOR

RATES = 0.05, 0.02


def small_net(stages: int = 1) -> NTupleNet:
    net = NTupleNet(tuples="edges+corners", dim=8, hidden=8, heads=6, stages=stages)
    net.reset_parameters(torch.Generator().manual_seed(5))
    return net


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    records = searched_games(EVALUATOR, Play(depth=1, solve=6, latest=8), seed=8, first=0, games=128)
    fields = (np.ascontiguousarray(records[name][:3000]) for name in ("mover", "opponent"))
    return *fields, records["margin"][:3000].astype(np.float32)


def learn(fit, rows, size: int = 500) -> list[float]:
    movers, opponents, labels = rows
    parts = [slice(first, first + size) for first in range(0, len(labels), size)]
    return [float(fit.learn(movers[part], opponents[part], labels[part], *RATES)) for part in parts]


def test_kernels_do_what_autograd_says(rows):
    compiled, device = CompiledFit(small_net(), 500, threads=1), DeviceFit(small_net(), "cpu")
    assert learn(compiled, rows) == pytest.approx(learn(device, rows), rel=1e-4)
    device.give()
    for name, ours, theirs in zip(Vectors._fields, compiled.vectors, device.vectors, strict=True):
        assert np.allclose(ours, theirs, rtol=1e-3, atol=1e-4), name
    assert np.abs(compiled.vectors.heads - Vectors.of(small_net()).heads).max() > 0.01
    assert compiled.discs(*rows[:2]) == pytest.approx(device.discs(*rows[:2]), abs=1e-2)


@pytest.mark.parametrize("kind", [lambda net: CompiledFit(net, 500, threads=2), lambda net: DeviceFit(net, "cpu")])
def test_stages_begin_as_one(rows, kind):
    """What is learnt before they are apart is that of a net of one stage; then each stage learns for itself."""
    one, staged = kind(small_net()), kind(small_net(3))
    staged.vectors.weights[: len(one.vectors.weights)] = one.vectors.weights
    staged.vectors.heads[:] = one.vectors.heads
    staged.take()
    assert not staged.apart
    assert learn(staged, rows) == learn(one, rows)
    one.give()
    staged.give()
    together = staged.vectors.weights.reshape(3, -1, 8).copy()
    for stage in together:
        assert np.array_equal(stage, one.vectors.weights)
    said = staged.discs(*rows[:2])
    staged.apart = True
    assert np.array_equal(staged.discs(*rows[:2]), said)
    late = np.array([int(mover | opponent).bit_count() for mover, opponent in zip(*rows[:2], strict=True)]) > 44
    learn(staged, [each[late] for each in rows])
    staged.give()
    apart = staged.vectors.weights.reshape(3, -1, 8)
    assert np.array_equal(apart[1:], together[1:])
    assert np.abs(apart[0] - together[0]).max() > 0.01
    found = staged.discs(*rows[:2])
    assert np.abs(found - said)[late].max() > 0.1
    net = staged.vectors.put_into(small_net(3))
    boards = (torch.from_numpy(each.view(np.int64)) for each in rows[:2])
    with torch.no_grad():
        assert found == pytest.approx(net.discs(*boards).numpy(), abs=1e-3)


def test_kernels_do_what_autograd_says_of_stages(rows):
    compiled, device = CompiledFit(small_net(3), 500, threads=1), DeviceFit(small_net(3), "cpu")
    for fit in (compiled, device):
        learn(fit, rows)
        fit.give()
        fit.apart = True
    assert learn(compiled, rows) == pytest.approx(learn(device, rows), rel=1e-3)


def test_threads_change_nothing(rows):
    one, three = (CompiledFit(small_net(), 700, threads) for threads in (1, 3))
    assert learn(one, rows, 700) == learn(three, rows, 700)
    for name, ours, theirs in zip(Vectors._fields, one.vectors, three.vectors, strict=True):
        assert np.array_equal(ours, theirs), name


def test_a_fit_learns_and_is_the_net(rows):
    """The error falls; the net, its evaluator and the fit say the same, of all images of a position."""
    fit = CompiledFit(small_net(), 500, threads=2)
    first = sum(learn(fit, rows))
    for _ in range(10):
        last = sum(learn(fit, rows))
    assert last < 0.5 * first
    movers, opponents, _ = rows
    found = fit.discs(movers, opponents)
    net = fit.vectors.put_into(small_net())
    boards = (torch.from_numpy(each.view(np.int64)) for each in (movers, opponents))
    with torch.no_grad():
        assert found == pytest.approx(net.discs(*boards).numpy(), abs=1e-3)
    arrays = {name: tensor.numpy() for name, tensor in net.state_dict().items()}
    evaluator = compile_net(net.config, arrays)
    limited = np.clip(found, -62, 62)
    assert evaluator.discs(movers, opponents) == pytest.approx(limited, abs=0.05)
    for symmetry in SYMMETRIES:
        images = (_image(each[:200], symmetry) for each in (movers, opponents))
        assert fit.discs(*images) == pytest.approx(found[:200], abs=1e-3)


def _image(boards: np.ndarray, symmetry) -> np.ndarray:
    return np.array(
        [sum(1 << symmetry[square] for square in range(64) if int(board) >> square & 1) for board in boards], np.uint64
    )


def test_a_net_comes_back_from_vectors():
    net, other = small_net(), NTupleNet(tuples="edges+corners", dim=8, hidden=8, heads=6)
    with torch.no_grad():
        for parameter in net.parameters():
            if parameter is not net.weight:
                parameter.normal_(generator=torch.Generator().manual_seed(parameter.numel()))
    Vectors.of(net).put_into(other)
    for name, tensor in net.state_dict().items():
        if name != "weight":  # of which tied cells are made one
            assert torch.equal(tensor, other.state_dict()[name]), name


@pytest.mark.parametrize("options", [{"dim": 1}, {"heads": 1}, {"stages": 2, "shared": True}, {"view": "negation"}])
def test_other_nets_are_refused(options):
    net = NTupleNet(**{"tuples": "edges", "dim": 4, "heads": 2} | options)
    with pytest.raises(NetError, match="only n-tuple nets with dim > 1"):
        CompiledFit(net, 100, 1)
