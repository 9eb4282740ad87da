"""Nets by name: those that come with the program, runs, files, and what is said when there is none."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from net_oracle import squares_checkpoint

from othello_nn import resources
from othello_nn.cli import main as cli
from othello_nn.config import load_preset
from othello_nn.learn.runs import Run, RunError
from othello_nn.nets import load_net
from othello_nn.players import PlayerError, make_player, player_names
from othello_nn.players.catalog import is_built_in
from othello_nn.players.simple import SWH
from othello_nn.resources import (
    BEST,
    CHECKPOINTS,
    SHOWN_RUNS,
    NoNetError,
    UnknownNetError,
    find_net,
    find_run,
    trained_nets,
)

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """A folder of a user's own, with nothing in it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def add_run(name: str, folder: str = "runs", net: bool = True, seconds: int = 1000) -> Path:
    run = Path(folder) / name
    run.mkdir(parents=True)
    (run / "config.json").write_text("{}")
    path = run / "net.safetensors"
    if net:
        squares_checkpoint(SWH.weights, SWH.per_disc).save(path)
        os.utime(path, (seconds, seconds))
    return path


# --- what is found ---------------------------------------------------------------------------------------------------


def test_shipped_nets_runs_and_files(here):
    path = add_run("quick-1")
    assert find_net("champion") == CHECKPOINTS / "champion.safetensors"
    for name in ("quick-1", "runs/quick-1", "runs/quick-1/", str(here / "runs" / "quick-1"), str(path)):
        assert find_net(name).resolve() == here / path
    assert find_run("quick-1") == find_run("runs/quick-1") == Path("runs/quick-1")
    assert find_run("champion") is None


def test_a_net_is_loaded_by_its_name(here):
    path = add_run("quick-1")
    assert torch.equal(load_net("quick-1").weight, load_net(path).weight)
    assert load_net("champion").kind == "ntuple"
    with pytest.raises(UnknownNetError, match="did you mean 'champion'"):
        load_net("champoin")


def test_what_is_found_first(here):
    """A shipped net, then a run, then a path."""
    run = add_run("champion")
    assert find_net("champion") == CHECKPOINTS / "champion.safetensors"
    assert find_net("runs/champion") == run
    Path("quick-1").write_bytes(b"a file")
    assert find_net("quick-1") == Path("quick-1")
    run = add_run("quick-1")
    assert find_net("quick-1") == run


def test_runs_in_another_folder(here):
    path = add_run("mine-1", "elsewhere")
    assert find_net("mine-1", Path("elsewhere")) == path
    with pytest.raises(UnknownNetError):
        find_net("mine-1")
    with pytest.raises(UnknownNetError):
        find_net("quick-1", Path("elsewhere"))
    assert make_player("mine-1:depth=1", runs=Path("elsewhere")).name == "mine-1:depth=1"
    assert "mine-1" in player_names(Path("elsewhere"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("champoin", "there is no net 'champoin'; did you mean 'champion'?"),
        ("qick-1", "there is no net 'qick-1'; did you mean 'quick-1'?"),
        (
            "zzz",
            "there is no net 'zzz'; choose from all2, champion, league, triangle-searched, triangle, quick-1, "
            "a path that ends in .safetensors",
        ),
        ("runs/quick-2", "there is no net at 'runs/quick-2'"),
        ("mine.safetensors", "there is no net at 'mine.safetensors'"),
        ("new", "the run 'new' has no net yet: it is saved while the run goes on, and at its end"),
        ("runs/new", "the run 'new' has no net yet: it is saved while the run goes on, and at its end"),
        ("runs", "'runs' is a folder without a net: there is no net.safetensors in it"),
        (".", "'.' is a folder without a net: there is no net.safetensors in it"),
        ("../quick-1", "there is no net at '../quick-1'"),
    ],
)
def test_what_is_said_when_there_is_none(here, name, message):
    add_run("quick-1")
    add_run("new", net=False)
    with pytest.raises(NoNetError) as caught:
        find_net(name)
    assert str(caught.value) == message


def test_many_runs_are_not_all_listed(here):
    for number in range(SHOWN_RUNS + 5):
        add_run(f"quick-{number}", seconds=1000 + number)
    newest = [f"quick-{number}" for number in range(SHOWN_RUNS + 4, 4, -1)]
    assert list(trained_nets())[:SHOWN_RUNS] == newest
    with pytest.raises(UnknownNetError, match=f"triangle, {', '.join(newest)}, a path"):
        find_net("zzz")
    assert [name for name in player_names() if name.startswith("quick-")] == newest
    assert find_net("quick-0") == Path("runs/quick-0/net.safetensors")


def test_no_net_is_shipped(here, monkeypatch):
    monkeypatch.setattr(resources, "CHECKPOINTS", here)
    with pytest.raises(UnknownNetError, match="there is no net 'champion'; choose from a path that ends in"):
        find_net(BEST)


# --- players and commands --------------------------------------------------------------------------------------------


def test_a_run_is_a_player(here):
    add_run("mine-1")
    for name in ("mine-1", "runs/mine-1", "runs/mine-1/net.safetensors"):
        player = make_player(f"{name}:depth=1")
        assert player.name == f"{name}:depth=1"
        assert player.evaluator.lookups > 0
    assert player_names()["mine-1"].description == "search with the net of the run runs/mine-1"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mine-2", "unknown player 'mine-2'; did you mean 'mine-1'?"),
        ("runs/mine-2", "there is no net at 'runs/mine-2'"),
        ("new:depth=2", "the run 'new' has no net yet"),
        ("runs", "'runs' is a folder without a net"),
    ],
)
def test_runs_that_cannot_play(here, name, message):
    add_run("mine-1")
    add_run("new", net=False)
    with pytest.raises(PlayerError) as caught:
        make_player(name)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "words",
    [
        ("bestmove", "start", "--player", "mine-1:depth=1"),
        ("match", "mine-1:depth=1", "runs/mine-1:depth=1", "--games", "2"),
        ("league", "mine-1", "--double-games", "2"),
        ("analyze", "f5d6", "--player", "mine-1:depth=1"),
    ],
    ids=lambda words: words[0],
)
def test_every_command_knows_runs_by_name(here, words, capsys):
    add_run("mine-1")
    assert cli.main(words) == 0, capsys.readouterr().err


def test_the_list_of_players_names_runs_and_imports_nothing_heavy(here):
    add_run("mine-1")
    code = (
        "import sys; from othello_nn.players import player_names\n"
        "print(list(player_names())[-1], sorted({'numpy', 'numba', 'torch'} & set(sys.modules)))"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "mine-1 []\n"


# --- names of runs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["champion", "swh", "random", "keyano"])
def test_a_run_cannot_take_a_players_name(here, name):
    assert is_built_in(name)
    with pytest.raises(RunError, match=f"a run cannot be called '{name}', since a player is called that"):
        Run.create(Path("runs"), name, load_preset("quick"))
    assert not Path("runs").exists()


def test_what_a_run_is_called_as_a_player(here):
    for folder, name in (("runs", "quick-1"), ("elsewhere", "elsewhere/quick-1")):
        run = Run.create(Path(folder), None, load_preset("quick"))
        assert run.player == name
        squares_checkpoint(SWH.weights, SWH.per_disc).save(run.net_path)
        assert find_net(run.player) == run.net_path
        assert Run.open(Path(folder), "quick-1").config == run.config
        assert Run.open(Path("runs"), f"{folder}/quick-1").folder == run.folder
