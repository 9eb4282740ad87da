"""What docs/own-net.md tells to type works, in small: its commands in their order, its code, its message."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch

import train as program
from othello_nn import modules
from othello_nn.cli import main as cli
from othello_nn.learn.watch import strength
from othello_nn.learn.watch.logger import Logger
from othello_nn.nets import ModuleNet, NetError
from othello_nn.nets.base import piece_planes

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "own-net.md"
SMALL = ("net.width=4", "net.blocks=1", "td.batch_games=4", "measure.seconds=1000", "optim.minibatch=128")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def commands() -> list[list[str]]:
    return [shlex.split(line) for block in blocks("sh") for line in block.splitlines()]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with the examples in it, of a user who has named nothing; no pictures, no games to measure."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(modules, "_named", set())
    monkeypatch.setattr(Logger, "pictures", lambda *arguments: None)
    monkeypatch.setattr(strength, "torch_score", lambda *arguments: 0.5)
    monkeypatch.setattr(strength.Ladder, "prepare", lambda *arguments: None)  # without it, it is never climbed
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "resnet.py").write_bytes((ROOT / "examples" / "resnet.py").read_bytes())
    threads = torch.get_num_threads()
    yield tmp_path
    torch.set_num_threads(threads)


def in_small(words: list[str]) -> list[str]:
    """A command of the page with a few games of a small net instead of minutes of a large one."""
    if "match" in words:
        words = [word.replace("mynet-1,depth=2", "mynet-1,depth=1").replace(":depth=2", ":depth=1") for word in words]
        words = [*words, *([] if "--games" in words else ["--games", "2"]), "--openings", "random:1"]
        return [{"mynet-1": "mynet-1:depth=1", "champion": "champion:depth=1"}.get(word, word) for word in words]
    if "--net" in words:
        return [*words, "--games", "4", "--threads", "1", *(word for each in SMALL for word in ("--set", each))]
    return [*words, "--games", "8", "--threads", "1"] if "--resume" in words else words


def test_the_commands_of_the_page(here, monkeypatch, capfd):
    told = commands()
    assert len(told) == 11
    for words in told:
        if words[0] == "tensorboard" or words[2] == "--player":  # a game in the terminal has its own tests
            continue
        assert words[0] == "python"
        main = program.main if words[1] == "train.py" else cli.main
        code = main(in_small(words[2:]))
        out, err = capfd.readouterr()
        assert code == 0, (words, err)
        assert out
        monkeypatch.setattr(modules, "_named", set())  # each command is a process of its own
    assert sorted(path.name for path in (here / "runs").iterdir()) == [f"mynet-{number}" for number in (1, 2, 3, 4)]


def test_the_code_of_the_page(here):
    scope: dict = {"__name__": "page"}
    for block in blocks("python"):
        exec(block, scope)
    net, again = scope["net"], scope["again"]
    assert net.config["options"] == {"hidden": 32, "drop": 0.1}
    mover, opponent = torch.tensor([0x0000000810000000]), torch.tensor([0x0000001008000000])
    assert torch.equal(net(mover, opponent), again(mover, opponent))
    corner = piece_planes(torch.tensor([1]), torch.tensor([1 << 7])).numpy()
    assert (corner[0, 0, 0, 0], corner[0, 1, 0, 7], corner[0, 2].sum()) == (1, 1, 62)
    assert np.array_equal(corner.sum(1), np.ones((1, 8, 8)))


def test_the_message_on_the_page(here):
    class Mine(torch.nn.Module):
        def forward(self, planes):
            return planes[:, 0, 0]

    with pytest.raises(NetError) as error:
        ModuleNet(Mine)
    assert f"train.py: {error.value}\n" in PAGE.read_text(encoding="utf-8")
