"""Generations of searched games: positions are made, a net learns them and plays the next."""

import json

import numpy as np
import pytest
import torch

import train as program
from othello_nn.checkpoint import check_positions
from othello_nn.config import ConfigError, load_preset
from othello_nn.engine.leaf.compile import compile_checkpoint, load_evaluator
from othello_nn.game import Position
from othello_nn.kernels.parallel import parts_of
from othello_nn.learn.data import calibrate
from othello_nn.learn.data import learner as module
from othello_nn.learn.data.device import DeviceFit
from othello_nn.learn.data.labels import firsts, labels, lines
from othello_nn.learn.data.learner import SearchedLearner
from othello_nn.learn.data.minibatch import CompiledFit
from othello_nn.learn.data.searched import Play
from othello_nn.learn.data.store import StoreError, read
from othello_nn.learn.distributed import Group
from othello_nn.learn.watch.logger import Logger
from othello_nn.nets import NTupleNet, export
from othello_nn.players import make_player

SMALL = [
    "init=",
    "net.tuples=edges",
    "net.dim=4",
    "net.hidden=8",
    "net.heads=4",
    "searched.positions=[2500, 5000]",
    "searched.depth=[1, 2]",
    "searched.solve=6",
    "searched.latest=10",
    "searched.passes=[3]",
    "searched.minibatch=128",
    "searched.bits=16",
]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(module, "PORTION", 32)
    monkeypatch.setattr(module, "SLAB", 1000)
    monkeypatch.setattr(module, "TESTED", 4)
    monkeypatch.setattr(module, "CALIBRATED", (60, 180))
    monkeypatch.setattr(calibrate, "HOW", Play(depth=2, solve=6, opening_plies=16, latest=10))
    monkeypatch.setattr(calibrate, "PROVEN", 8)
    monkeypatch.setattr(module, "PROBCUT", {"positions": 160, "depth": 5, "solve_empties": 8})


def made(folder, *settings: str, device: str = "cpu") -> SearchedLearner:
    learner = SearchedLearner(load_preset("champion").changed([*SMALL, *settings]), Group(), 1, device)
    learner.folder = folder
    return learner


def run(learner: SearchedLearner, steps: int = 10**6) -> list[dict]:
    found = []
    while learner.progress < 1 and len(found) < steps:
        found.append(dict(learner.step()))
    return found


def test_generations(tmp_path):
    """Progress rises to 1; the error on games kept from the fit falls; the second generation is the first's net's."""
    learner = made(tmp_path)
    progress, metrics = [0.0], []
    while learner.progress < 1:
        metrics.append(learner.step())
        progress.append(learner.progress)
    assert (np.diff(progress) >= 0).all()
    assert progress[-1] == 1
    errors = [each[module.TEST] for each in metrics if module.TEST in each]
    assert errors[-1] < 0.8 * errors[0]
    assert learner.generation == 2
    assert learner.probcut is not None
    first, second = (read(tmp_path / "positions" / f"generation-{number}", check=True) for number in (1, 2))
    assert len(first[0]) >= 2500
    assert len(second[0]) >= 5000
    # All that was kept and new was learnt from: the first generation's once more with the second's.
    to_learn = [int((firsts(part) & (part["game"] % module.TESTED != 0)).sum()) for part in (first[0], second[0])]
    learnt = 3 * (2 * to_learn[0] + to_learn[1])
    assert learner.games == len(first[0]) + len(second[0]) + learnt


def test_each_generation_has_its_lambda(tmp_path):
    learner = made(tmp_path, "searched.lambda=[0.2, 1]", "searched.window=1", "searched.passes=1")
    learnt = []
    while learner.progress < 1:
        if learner.fitting and learner.learnt == 0:
            learnt.append(learner._loaded().labels)
        learner.step()
    parts = [read(tmp_path / "positions" / f"generation-{number}", check=True)[0] for number in (1, 2)]
    for found, part, lam in zip(learnt, parts, (0.2, 1.0), strict=True):
        new = firsts(part)
        wanted = labels(part, lam, lines([part[new]]))[new & (part["game"] % module.TESTED != 0)]
        assert np.array_equal(found, wanted)


def test_each_generation_has_its_window_and_passes(tmp_path):
    learner = made(tmp_path, "searched.window=[2, 1]", "searched.passes=[3, 2]", "searched.head_rate=[0.02, 0]")
    heads = []
    while learner.progress < 1:
        if learner.generation == 1 and learner.fitting:
            heads.append(learner._fit.vectors.heads.copy())
        learner.step()
    first, second = (read(tmp_path / "positions" / f"generation-{number}", check=True)[0] for number in (1, 2))
    to_learn = [int((firsts(part) & (part["game"] % module.TESTED != 0)).sum()) for part in (first, second)]
    assert learner.games == len(first) + len(second) + 3 * to_learn[0] + 2 * to_learn[1]
    assert len(heads) > 1
    assert all(np.array_equal(heads[0], each) for each in heads)  # the last generation's do not move


@pytest.mark.parametrize(
    "settings",
    [
        (),
        ("net.stages=3", "searched.common=1"),
        ("searched.onward=1",),
        ("net.stages=3", "searched.common=9", "searched.onward=1"),
    ],
)
def test_a_stopped_run_goes_on_as_if_it_had_not(tmp_path, settings):
    whole = made(tmp_path / "whole", *settings)
    steps = len(run(whole))
    for stop in (1, 4, steps // 2, steps - 3, steps):
        folder = tmp_path / str(stop)
        begun = made(folder, *settings)
        run(begun, stop)
        state = {name: array.copy() for name, array in begun.state().items()}
        run(begun, 2)  # which were never saved
        if begun._part is not None:
            begun._part.close()
        again = made(folder, *settings)
        again.restore(state)
        run(again)
        for name, array in whole.state().items():
            assert np.array_equal(array, again.state()[name]), (stop, name)


def test_a_fit_goes_on_from_the_net_before(tmp_path):
    """It begins as that net, which then learns; so does the first, from ``init``."""
    learner = made(tmp_path / "a", "searched.onward=1")
    movers, opponents, _ = check_positions()
    said = None
    while not (learner.generation == 1 and learner.fitting):
        said = learner._fit.discs(movers, opponents)
        learner.step()
    assert said is not None
    assert learner._fit.discs(movers, opponents) == pytest.approx(said, abs=1e-3)
    run(learner)
    after = learner._fit.discs(movers, opponents)
    assert np.abs(after - said).max() > 0.1
    path = tmp_path / "net.safetensors"
    export(learner.net(), quantise=False).save(path)
    third = made(tmp_path / "b", f"init={path}", "searched.onward=1", "searched.positions=[2500]")
    assert third._fit.discs(movers, opponents) == pytest.approx(after, abs=1e-3)
    with pytest.raises(ConfigError, match="another shape"):
        made(tmp_path / "c", f"init={path}", "searched.onward=2", "net.dim=8")


def test_what_has_moved_before_moves_less(tmp_path):
    """A fit that goes on begins with cells as settled as many passes leave them, and with the weights as they were."""
    learner = made(tmp_path, "searched.onward=1")
    while not (learner.generation == 1 and learner.fitting):
        learner.step()
    learner._next_slab()
    data, before = learner._loaded(), learner._fit.vectors.weights.copy()
    learner._settle(data)
    settled = learner._fit.vectors
    assert np.array_equal(settled.weights, before)
    assert not settled.counts.any()
    assert not settled.second.any()
    anew = CompiledFit(learner.net(), 1024, 1)
    for part in parts_of(len(data.labels), 1024):
        anew.learn(data.movers[part], data.opponents[part], data.labels[part], 0.0, 0.0)
    moved = anew.vectors.sizes - 1
    assert (moved > 0).any()
    assert settled.sizes - 1 == pytest.approx(module.SETTLED * moved, rel=1e-2, abs=0.1)


def test_the_mean_over_the_last_steps(tmp_path):
    """With a short memory it is the last steps' weights; it comes through a state."""
    plain, averaged = (
        made(tmp_path / "a", "searched.positions=[2500]"),
        made(tmp_path / "b", "searched.positions=[2500]", "searched.average=0.6"),
    )
    seen = []
    while averaged.progress < 1:
        averaged.step()
        if averaged.fitting and averaged.learnt:
            seen.append(averaged._fit.vectors.weights.copy())
        if len(seen) == 3:
            state = {name: array.copy() for name, array in averaged.state().items()}
            averaged = made(tmp_path / "b", "searched.positions=[2500]", "searched.average=0.6")
            averaged.restore(state)
    run(plain)
    seen.append(plain._fit.vectors.weights)  # the last step's, which the mean has replaced
    mean = seen[0]
    for weights in seen[1:]:
        mean = 0.6 * mean + 0.4 * weights
    assert averaged._fit.vectors.weights == pytest.approx(mean, abs=1e-5)
    assert np.abs(mean - plain._fit.vectors.weights).max() > 1e-4


def test_tables_of_eight_bits(tmp_path):
    """They stay small while they are learnt, and in the end nothing is lost by eight bits."""
    learner = made(tmp_path, "searched.positions=[2500]", "searched.bits=8", "searched.rate=2")
    run(learner)
    weights = learner._fit.vectors.weights * 128
    assert np.abs(weights).max() == 127  # with such a rate some want to be larger
    assert (weights == np.rint(weights)).all()
    evaluator = compile_checkpoint(export(learner.net()), "eight")
    assert evaluator.weights.dtype == np.int8
    movers, opponents, _ = check_positions()
    wanted = np.clip(learner._fit.discs(movers, opponents), -62, 62)
    assert evaluator.discs(movers, opponents) == pytest.approx(wanted, abs=1e-2)


def test_a_device_keeps_tables_small_too(tmp_path):
    fit = DeviceFit(made(tmp_path)._net, "cpu")
    fit.vectors.weights[:] = 5.0
    fit.take()
    fit.keep_within(0.5)
    fit.give()
    assert (fit.vectors.weights == 0.5).all()


def test_bits_that_cannot_be():
    """Said with the settings, not after the run that the champion starts from."""
    with pytest.raises(ConfigError, match=r"searched\.bits is 12; it must be 8 or 16"):
        load_preset("champion").changed(["searched.bits=12"])


def test_games_that_are_not_there_are_missed_first(tmp_path, capsys):
    words = ["--preset", "champion", "--runs", str(tmp_path), "--set", "searched.games=no.ggf"]
    assert program.main(words) == 2
    assert "searched.games: there is no file 'no.ggf'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_fit_that_no_longer_improves_ends(tmp_path):
    patient, hasty = (made(tmp_path / name, "searched.positions=[2500]", f"searched.patience={name}") for name in "05")
    for learner in (patient, hasty):
        run(learner)
    assert patient.generation == hasty.generation == 1
    stuck = made(
        tmp_path / "5", "searched.positions=[2500]", "searched.patience=2", "searched.rate=0", "searched.head_rate=0"
    )
    run(stuck)
    assert stuck.games < patient.games


def test_positions_of_another_player_are_not_mixed_in(tmp_path):
    first = made(tmp_path)
    first.step()
    first._part.close()
    other = made(tmp_path, "searched.aside=0.25")
    with pytest.raises(StoreError, match="made with other settings"):
        other.step()


def test_states_of_another_shape_are_refused(tmp_path):
    learner = made(tmp_path)
    state = learner.state()
    state["net.weights"] = state["net.weights"][:-1]
    with pytest.raises(ValueError, match=r"net\.weights has the shape"):
        made(tmp_path).restore(state)


@pytest.mark.parametrize(
    ("net", "message"),
    [
        ({"kind": "dense"}, "dense nets cannot be compiled"),
        ({"kind": "staged", "net": {"kind": "triangle"}, "centres": [4, 19, 34, 49, 64]}, "at most 4 nets"),
        ({"kind": "ntuple", "tuples": "edges", "view": "negation"}, "must not look at the colour"),
    ],
)
def test_only_nets_that_play_the_games_are_fitted(net, message):
    with pytest.raises(ConfigError, match=message):
        SearchedLearner(load_preset("champion").changed(net=net, init=""), Group(), 1, "cpu")


def test_triangles_learn_from_the_same_positions(tmp_path):
    settings = [each for each in SMALL if not each.startswith("net.")] + ["searched.head_rate=0.01"]
    triangles = {"kind": "staged", "net": {"kind": "triangle", "maps": 3}}

    def begun() -> SearchedLearner:
        learner = SearchedLearner(load_preset("champion").changed(settings, net=triangles), Group(), 1, "cpu")
        learner.folder = tmp_path
        return learner

    learner = begun()
    errors = [each[module.TEST] for each in run(learner) if module.TEST in each]
    assert errors[-1] < 0.9 * errors[0]
    assert learner.generation == 2
    state, again = {name: array.copy() for name, array in learner.state().items()}, begun()
    again.restore(state)
    for name, parameter in learner.net().state_dict().items():
        assert torch.equal(parameter, again.net().state_dict()[name])


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("init=nobody", "init: there is no net 'nobody'"),
        ("init=coloured.safetensors", "looks at the colour to move; searched games need one that does not"),
        ("searched.folder=taken/here", "Not a directory"),
        ("net.heads=1", "only n-tuple nets with dim > 1, several heads and no shared row are fitted"),
    ],
)
def test_what_is_wrong_is_said_before_there_is_a_run(setting, message, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    export(NTupleNet(tuples="edges", view="negation")).save("coloured.safetensors")
    (tmp_path / "taken").write_text("a file")
    words = [word for each in [*SMALL, setting] for word in ("--set", each)]
    assert program.main(["--preset", "champion", *words, "--threads", "1"]) in (1, 2)
    said = capfd.readouterr().err.removeprefix("compiling (first run only) …\n")
    assert message in said
    assert said.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_a_run_leaves_a_player_with_probcut(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Logger, "pictures", lambda *arguments: None)
    settings = [*SMALL, "measure.double_games=2", "measure.probcut=0", "searched.folder=kept"]
    words = [word for setting in settings for word in ("--set", setting)]
    assert program.main(["--preset", "champion", *words, "--json", "--threads", "1"]) == 0
    facts = json.loads(capfd.readouterr().out)
    assert facts["finished"]
    assert (tmp_path / "kept" / "generation-2" / "0.positions").exists()
    evaluator = load_evaluator("runs/champion-1/net.safetensors")
    assert evaluator.probcut is not None
    assert evaluator.calibration is not None
    assert make_player("champion-1:depth=3").choose(Position.start()).move in Position.start().legal_moves
