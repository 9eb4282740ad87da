"""What train.py leaves is searched selectively: ProbCut is fitted at the end of a run, whatever has learnt."""

import os
import signal

import pytest
import test_train
from test_train import KINDS, assert_same_runs, interrupt_after, words

from othello_nn import checkpoint
from othello_nn.fit import probcut
from othello_nn.game import Position
from othello_nn.learn import trainer
from othello_nn.learn.td.online_learner import OnlineLearner
from othello_nn.players import make_player

train_and_draw, train = test_train.train_and_draw, test_train.train
FITTED = ("--set", "measure.probcut=150")


@pytest.fixture
def shallow(monkeypatch):
    """A fit of a second."""
    monkeypatch.setattr(trainer, "PROBCUT_DEPTH", 4)
    monkeypatch.setattr(trainer, "PROBCUT_SOLVE", 8)


@pytest.mark.parametrize("name", KINDS)
def test_a_net_is_left_with_its_probcut(name, train, shallow):
    """The same net as without, and players search it selectively."""
    games = {"tables": "320", "triangle": "16", "backwards": "1"}[name]
    train(*words(name, "--games", games, "--run", "plain"))
    assert train(*words(name, "--games", games, "--run", "fitted", *FITTED))[0] == 0
    plain, fitted = (checkpoint.Checkpoint.load(f"runs/{run}/net.safetensors") for run in ("plain", "fitted"))
    assert plain.probcut is None
    assert fitted.probcut is not None
    assert {key: array.tobytes() for key, array in plain.arrays.items()} == {
        key: array.tobytes() for key, array in fitted.arrays.items()
    }
    ways = ("runs/fitted/net.safetensors:depth=6", "runs/plain/net.safetensors:depth=6")
    nodes = [make_player(way).choose(Position.parse("f5d6c3")).nodes for way in ways]
    assert nodes[0] != nodes[1], "the search is the same"


def test_a_resumed_run_ends_in_the_same_probcut(train, shallow, monkeypatch):
    train(*words("tables", "--games", "320", "--run", "straight", *FITTED))
    with monkeypatch.context() as patch:
        interrupt_after(patch, OnlineLearner, 3)
        assert train(*words("tables", "--games", "320", "--run", "stopped", *FITTED))[0] == 130
    assert checkpoint.Checkpoint.load("runs/stopped/net.safetensors").probcut is None, "who stops it wants it now"
    assert train("--resume", "stopped", "--threads", "1")[0] == 0
    assert_same_runs("straight", "stopped")
    assert checkpoint.Checkpoint.load("runs/stopped/net.safetensors").probcut is not None


def test_ctrl_c_during_the_fit_leaves_the_net_as_it_is(train, shallow, monkeypatch):
    original, searched = probcut.measure, []

    def measure(*arguments):
        searched.append(arguments)
        if len(searched) == 5:
            os.kill(os.getpid(), signal.SIGINT)
        return original(*arguments)

    monkeypatch.setattr(probcut, "measure", measure)
    code, out, _ = train(*words("tables", "--games", "64", "--run", "mine", *FITTED))
    assert len(searched) == 5
    assert checkpoint.Checkpoint.load("runs/mine/net.safetensors").probcut is None
    assert code == 130
    assert "mine: finished" in out


def test_too_few_positions_for_a_probcut_are_said_in_a_line(train, shallow):
    code, _, err = train(*words("tables", "--games", "64", "--run", "mine", "--set", "measure.probcut=5"))
    assert code == 0
    assert "train.py: too few positions, or too shallow, to fit ProbCut; take more positions\n" in err
    assert checkpoint.Checkpoint.load("runs/mine/net.safetensors").probcut is None
