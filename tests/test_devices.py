"""Every preset on every device, as far as it can be shown without a GPU: here ``cuda:0`` is the CPU under another name.

What an update does on a device that is really another one, ``test_update.py`` shows with tensors of no content.
"""

import numpy as np
import pytest
import torch
from linear import linear
from torch.overrides import TorchFunctionMode

import train as program
from othello_nn.config import load_preset, preset_names
from othello_nn.engine.leaf.compile import why_not_compiled
from othello_nn.learn.data import learner as searched
from othello_nn.learn.distributed import Group
from othello_nn.learn.launches import Launches
from othello_nn.learn.make import choose_place, make_learner
from othello_nn.learn.td.embedding_learner import EmbeddingLearner
from othello_nn.learn.td.learners import float_state
from othello_nn.learn.td.online_learner import OnlineLearner
from othello_nn.learn.td.torch_learner import TorchLearner
from othello_nn.learn.watch.logger import Logger

GPU = "cuda:0"
UPDATES = 10
TUPLES = "net.tuples=[[0, 1, 2], [9, 18]]"
GAMES = ["searched.positions=[1000]", "searched.depth=[1]", "searched.solve=4", "searched.passes=[50]"]
SMALL = {
    "backwards": [TUPLES, "backwards.positions=[40]", "backwards.solve_empties=4", "backwards.depth=2"],
    "evolve": ["evolve.parents=2", "evolve.offspring=3", "evolve.double_games=1", "evolve.generations=20"],
    "all2": ["policy.batch_games=2", "policy.critic=all-1"],
    "triangle-leouski": ["net.maps=1", "leouski.exact_below=4"],
    "champion": ["init=", "net.tuples=edges", "net.dim=4", "net.heads=3", "searched.minibatch=64", *GAMES],
    "triangle-searched": ["net.maps=2", "searched.minibatch=64", *GAMES],
    "triangle": ["net.maps=2", "td.exact_empties=4"],
}
"""What makes a preset quick, besides few games and short tuples."""


class Renamed(TorchFunctionMode):
    """The GPU is the CPU."""

    def __torch_function__(self, function, types, arguments=(), keywords=None):
        here = [torch.device("cpu") if each in (GPU, torch.device(GPU)) else each for each in arguments]
        keywords = {name: "cpu" if str(value) == GPU else value for name, value in (keywords or {}).items()}
        return function(*here, **keywords)


class RenamedGenerator(torch.Generator):
    def __new__(cls, device="cpu"):
        return super().__new__(cls, "cpu")


@pytest.fixture
def gpu(monkeypatch):
    """A machine that says it has a GPU."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch, "Generator", RenamedGenerator)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: pinned.append(len(tensor)) or tensor)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    pinned: list[int] = []
    with Renamed():
        yield pinned
    torch.set_num_threads(threads)


def small(preset: str):
    config = load_preset(preset)
    settings = list(SMALL.get(preset, []))
    if config.learner == "td":
        settings += ["td.batch_games=4"]
        if config.net["kind"] == "ntuple":
            settings += [TUPLES, "net.stages=2"]
    return config.changed(settings, games=4 * UPDATES)


ON_LINE = ("quick", "ntuple", "league", "embedding")


@pytest.mark.parametrize("preset", preset_names())
def test_every_preset_learns_where_a_gpu_is(preset, gpu, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(searched, "SLAB", 256)
    monkeypatch.setattr(searched, "PORTION", 32)
    monkeypatch.setattr(searched, "SHOWN", 1)
    config = small(preset)
    auto, place = (choose_place(config, device) for device in ("auto", "cuda"))
    assert auto.why, "who decides says why"
    assert auto.device == ("cpu" if preset in ON_LINE else place.device)
    assert place.device == (GPU if config.learner in ("td", "searched") else "cpu")
    assert bool(place.why) == (place.device == "cpu")
    learner = make_learner(config, place.device, Group(), 1)
    found, counted = [], Launches()
    while len(found) < UPDATES and learner.progress < 1:
        games = learner.play()  # `test_device.py` counts there, with tensors that are not on a CPU
        with counted:
            found.append(learner.update(games, learner.targets(games)))
    assert not counted.waits or place.device == "cpu", "nobody has asked for a number yet"
    assert all(np.isfinite(list(metrics.values())).all() for metrics in found)
    assert learner.games > 0
    by_actors = place.device == GPU and not why_not_compiled(config.net)
    assert bool(gpu) == by_actors, "games come by way of memory that the device reads by itself"


def test_the_choice_is_said_in_one_line(gpu, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Logger, "pictures", lambda *arguments: None)
    settings = [word for setting in SMALL["evolve"] for word in ("--set", setting)]
    settings += ["--set", "evolve.generations=1", "--set", "measure.double_games=2", "--set", "measure.probcut=0"]
    assert program.main(["--preset", "evolve", "--device", "cuda", "--threads", "1", *settings]) == 0
    line = "runs/evolve-1: ntuple net of 289 weights on cpu (where the learner 'evolve' works), 1 threads\n"
    assert line in capfd.readouterr().err


@pytest.mark.parametrize("kind", ["tc", "sgd"])
def test_a_run_goes_on_on_another_device(kind, gpu):
    """The same numbers, whoever wrote them and whoever reads them; and games that were pending."""
    config = linear(TUPLES, "net.stages=2", "td.batch_games=4", f"optim.kind={kind}", "games=400")
    on_gpu, on_cpu = (make_learner(config, device, Group(), 1) for device in (GPU, "cpu"))
    assert (type(on_gpu), type(on_cpu)) == (TorchLearner, OnlineLearner)
    for _ in range(3):
        on_gpu.step()
    state = {name: np.array(array) for name, array in on_gpu.state().items()}
    on_cpu.restore(state)
    assert on_cpu.games == 12
    assert np.array_equal(on_cpu.tables.weights, on_gpu.net().weight.detach().numpy())
    again = make_learner(config, GPU, Group(), 1)
    again.restore({name: np.array(array) for name, array in on_cpu.state().items()})
    found = again.state()
    assert state.keys() <= found.keys()
    for name, array in state.items():
        assert found[name] == pytest.approx(array, rel=1e-5, nan_ok=True), name
    if kind == "tc":
        assert state["optimiser.0.sums"].any()
    for learner in (on_cpu, again):
        assert np.isfinite(list(learner.step().values())).all()
        assert learner.games == 16


def test_an_embedding_net_goes_on_on_another_device(gpu, capfd):
    """By its weights: the two learners keep different things of its cells, and say so."""
    config = small("embedding").changed(games=400)
    on_gpu, on_cpu, again = (make_learner(config, device, Group(), 1) for device in (GPU, "cpu", GPU))
    assert (type(on_gpu), type(on_cpu)) == (TorchLearner, EmbeddingLearner)
    for _ in range(3):
        on_cpu.step()
    on_gpu.restore({name: np.array(array) for name, array in on_cpu.state().items()})
    assert on_gpu.games == 12
    for name, array in float_state(on_cpu.net()).items():
        assert np.array_equal(array, float_state(on_gpu.net())[name]), name
    assert "its weights go on, the sizes of their steps begin anew" in capfd.readouterr().err
    on_gpu.step()
    on_cpu.restore({name: np.array(array) for name, array in on_gpu.state().items()})
    again.restore({name: np.array(array) for name, array in on_cpu.state().items()})
    assert again.games == on_cpu.games == 16
    for learner in (on_cpu, again):
        assert np.isfinite(list(learner.step().values())).all()
