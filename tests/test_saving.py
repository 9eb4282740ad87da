"""``--save``, ``--journal`` and ``--run``: looked at before the first game, written in one step after the last."""

import errno
import os
import sys

import pytest

import train
from othello_nn.cli import main as cli
from othello_nn.cli import matches, tournaments
from othello_nn.cli.saving import why_unwritable
from othello_nn.game.formats.files import read_games, write_games
from othello_nn.game.notation import parse_transcript
from othello_nn.game.record import Game

GAMES = [Game(moves=tuple(parse_transcript("f5d6c3")))]


def full_disk(handle):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def nothing_is_played(monkeypatch):
    for module, name in ((matches, "play_match"), (tournaments, "play_tournament")):
        monkeypatch.setattr(module, name, lambda *_, **__: pytest.fail("a game is played"))


@pytest.fixture
def closed_folder(tmp_path, monkeypatch):
    """A folder where nothing can be written, also for root."""
    folder = tmp_path / "closed"
    folder.mkdir()
    original = os.open

    def open_elsewhere(path, flags, *rest, **keywords):
        if str(path).startswith(str(folder)) and flags & os.O_CREAT:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return original(path, flags, *rest, **keywords)

    monkeypatch.setattr(os, "open", open_elsewhere)
    return folder


@pytest.mark.parametrize("command", ["match", "tournament"])
@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("nowhere/x.ggf", "there is no folder"),
        ("folder.ggf", "it is a folder"),
        ("pipe.ggf", "it is not a file"),
        ("closed/x.ggf", "cannot be written: Permission denied"),
        ("x.doc", "must end in .ggf or .sgf"),
    ],
)
@pytest.mark.usefixtures("nothing_is_played", "closed_folder")
@pytest.mark.skipif(sys.platform == "win32", reason="there are no such pipes")
def test_a_target_is_looked_at_first(tmp_path, capsys, command, target, reason):
    (tmp_path / "folder.ggf").mkdir()
    os.mkfifo(tmp_path / "pipe.ggf")
    assert cli.main([command, "swh", "random", "--games", "2", "--save", str(tmp_path / target)]) == 2
    shown = capsys.readouterr().err
    assert reason in shown
    assert shown.count("\n") == 1
    assert not list(tmp_path.glob("**/.*")), "nothing is left of the look"


@pytest.mark.parametrize(("target", "reason"), [("nowhere/t.jsonl", "No such file"), (".", "it is not a file")])
@pytest.mark.usefixtures("nothing_is_played")
def test_a_journal_is_looked_at_first(tmp_path, capsys, target, reason):
    assert cli.main(["tournament", "swh", "random", "--journal", str(tmp_path / target)]) == 2
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize("name", ["games.ggf", "games.sgf", "games.txt"])
def test_a_full_disk_does_not_destroy_the_older_file(tmp_path, monkeypatch, name):
    path = tmp_path / name
    write_games(path, GAMES)
    before = path.read_bytes()
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_games(path, GAMES * 100)
    assert path.read_bytes() == before
    assert [found.name for found in tmp_path.iterdir()] == [name]


def test_a_match_that_cannot_be_saved_shows_its_result(tmp_path, monkeypatch, capsys):
    path = tmp_path / "games.ggf"
    write_games(path, GAMES)
    monkeypatch.setattr(os, "fsync", full_disk)
    assert cli.main(["match", "swh", "random", "--games", "2", "--save", str(path)]) == 1
    shown = capsys.readouterr()
    assert "score" in shown.out
    assert f"the games could not be saved in {str(path)!r}: No space left on device" in shown.err
    assert [game.moves for game in read_games(path)] == [game.moves for game in GAMES]


def test_a_good_target_is_left_alone(tmp_path):
    path = tmp_path / "games.ggf"
    assert why_unwritable(path) is None
    assert not path.exists()
    write_games(path, GAMES)
    before = path.read_bytes()
    assert why_unwritable(path) is None
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--run", "there"], "there is a run 'there' already"),
        (["--run", "../up"], "cannot be a run's name"),
        (["--run", "swh"], "since a player is called that"),
        (["--runs", "file/runs"], "cannot be made"),
    ],
)
def test_a_run_is_looked_at_before_the_net_that_it_starts_from(tmp_path, monkeypatch, capsys, words, reason):
    """A preset that starts from another's net trains that first, for minutes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "there").mkdir(parents=True)
    (tmp_path / "file").touch()
    monkeypatch.setattr(train, "train", lambda job: pytest.fail("a net is trained"))
    monkeypatch.setattr("othello_nn.cli.train.shipped_nets", dict)
    preset = ["--preset", "triangle", "--set", "init=quick", "--games", "100", "--runs", "runs"]
    assert train.main([*preset, *words]) == 2
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize("content", ["{", "[" * 100_000, "9" * 5000, "[]", '{"net": ' * 5000])
def test_a_damaged_configuration_is_one_line(tmp_path, capsys, content):
    (tmp_path / "runs" / "damaged").mkdir(parents=True)
    (tmp_path / "runs" / "damaged" / "config.json").write_text(content)
    assert train.main(["--resume", "damaged", "--runs", str(tmp_path / "runs")]) == 2
    said = capsys.readouterr().err.removeprefix("compiling (first run only) …\n")
    assert said.startswith("train.py: ")
    assert said.count("\n") == 1
