"""Power cuts in the middle of writing, at every step of it: what is found afterwards is the old file or the new one.

``Disk`` stands between the program and its files. It counts what is done to them, and at some step the power goes: what
was not yet synced is lost, or there, or there in part, and nothing that the program would still do happens.
"""

import builtins
import io
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest

from othello_nn.arena.openings import leouski60
from othello_nn.arena.tournament import Journal, play_tournament
from othello_nn.checkpoint import Checkpoint
from othello_nn.config import load_preset
from othello_nn.game.formats.files import write_games
from othello_nn.game.notation import parse_transcript
from othello_nn.game.record import Game
from othello_nn.learn.data.store import RECORD, Part, read
from othello_nn.learn.runs import Run

FATES = {"lost": 0.0, "a little": 0.01, "half": 0.5, "kept": 1.0}
"""The share of what was not synced that is there afterwards."""
MOST_STEPS = 60


class PowerCutError(BaseException):
    """Not to be caught by anybody."""


class Disk:
    """The functions by which files are written, with a power cut at one of their steps."""

    def __init__(self, monkeypatch, at: int, fate: str):
        self.at, self.fate, self.steps, self.files = at, fate, 0, []
        opened = open
        for module in (builtins, io):
            monkeypatch.setattr(module, "open", lambda *words, **rest: self.opened(opened(*words, **rest)))
        for module, name in ((os, "replace"), (os, "unlink"), (os, "chmod"), (os, "ftruncate"), (tempfile, "mkstemp")):
            monkeypatch.setattr(module, name, self.counted(getattr(module, name)))
        monkeypatch.setattr(os, "fsync", self.synced(os.fsync))

    def step(self) -> None:
        self.steps += 1
        if self.steps == self.at:
            for file in self.files:
                file.lose(self.fate)
        if self.steps >= self.at:
            raise PowerCutError

    def counted(self, function):
        def call(*words, **rest):
            self.step()
            return function(*words, **rest)

        return call

    def synced(self, fsync):
        def call(handle):
            self.step()
            for file in self.files:
                if os.path.sameopenfile(file.handle, handle):
                    file.size = os.fstat(handle).st_size
            return fsync(handle)

        return call

    def opened(self, file):
        if not file.writable():
            return file
        self.files.append(File(self, file))
        return self.files[-1]

    def close(self) -> None:
        for file in self.files:
            file.file.close()
            os.close(file.handle)


class File:
    """An open file: what is written to it since it was last synced may be lost."""

    def __init__(self, disk: Disk, file):
        self.disk, self.file, self.handle = disk, file, os.dup(file.fileno())
        self.size = os.fstat(self.handle).st_size

    def write(self, data) -> int:
        self.disk.step()
        written = self.file.write(data)
        self.file.flush()
        return written

    def truncate(self, size=None):
        self.disk.step()
        return self.file.truncate(size)

    def lose(self, fate: str) -> None:
        now = os.fstat(self.handle).st_size
        if now > self.size:
            os.truncate(self.handle, self.size + int(FATES[fate] * (now - self.size)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def __getattr__(self, name):
        return getattr(self.file, name)


def cut_everywhere(monkeypatch, prepare, write, found):
    """Write with a cut at every step; ``found`` tells what is there: the old (0) or the new (1). Both must come up."""
    seen = set()
    for at in range(1, MOST_STEPS):
        for fate in FATES:
            prepare()
            with monkeypatch.context() as patch:
                disk = Disk(patch, at, fate)
                try:
                    write()
                except PowerCutError:
                    pass
                finally:
                    disk.close()
            seen.add(found())
        if disk.steps < at:
            break
    assert at < MOST_STEPS
    assert at > 2, "the layer has seen what was written"
    assert seen == {0, 1}


def one_of(path: Path, contents: tuple[bytes, bytes]) -> int:
    return contents.index(path.read_bytes())


def test_games(tmp_path, monkeypatch):
    path, games = tmp_path / "games.ggf", [Game(moves=tuple(parse_transcript("f5d6c3")))]
    contents = []
    for count in (1, 50):
        write_games(path, games * count)
        contents.append(path.read_bytes())
    cut_everywhere(
        monkeypatch,
        lambda: path.write_bytes(contents[0]),
        lambda: write_games(path, games * 50),
        lambda: one_of(path, tuple(contents)),
    )


def test_a_net(tmp_path, monkeypatch):
    path = tmp_path / "net.safetensors"
    nets = [Checkpoint({"kind": "x"}, {"weight": np.full(1000, value, np.float32)}) for value in (1, 2)]
    nets[0].save(path)
    old = path.read_bytes()

    def found() -> int:
        return int(Checkpoint.load(path).arrays["weight"].sum() == 2000)

    cut_everywhere(monkeypatch, lambda: path.write_bytes(old), lambda: nets[1].save(path), found)


def test_a_state(tmp_path, monkeypatch):
    run = Run(tmp_path, load_preset("quick"))
    states = [{"games": np.full(500, value)} for value in (1, 2)]
    run.save_state(states[0])
    old = run.state_path.read_bytes()

    def found() -> int:
        return int(run.load_state()["games"].sum() == 1000)

    cut_everywhere(monkeypatch, lambda: run.state_path.write_bytes(old), lambda: run.save_state(states[1]), found)


def test_a_journal(tmp_path, monkeypatch):
    path, names, openings = tmp_path / "t.jsonl", ["swh", "most-discs"], leouski60()[:1]
    first, second = play_tournament(names, openings).played

    def prepare():
        path.unlink(missing_ok=True)
        with Journal(path, {}) as journal:
            journal.add(first)

    def write():
        with Journal(path, {}) as journal:
            journal.add(second)

    def found() -> int:
        with Journal(path, {}) as journal:
            return len(journal) - 1

    cut_everywhere(monkeypatch, prepare, write, found)


def test_the_first_line_of_a_journal(tmp_path, monkeypatch):
    path, names, openings = tmp_path / "t.jsonl", ["swh", "most-discs"], leouski60()[:1]
    first, _ = play_tournament(names, openings).played

    def write():
        with Journal(path, {}) as journal:
            journal.add(first)

    def found() -> int:
        with Journal(path, {}) as journal:
            return len(journal)

    cut_everywhere(monkeypatch, lambda: path.unlink(missing_ok=True), write, found)


def test_positions(tmp_path, monkeypatch):
    folder = tmp_path / "positions"

    def prepare():
        for path in folder.glob("*"):
            path.unlink()
        with Part.create(folder / "0", "recipe") as part:
            part.append(np.zeros(5, RECORD))

    new = np.zeros(7, RECORD)
    new["mover"] = new["game"] = 1

    def write():
        with Part.create(folder / "0", "recipe") as part:
            part.append(new)

    def found() -> int:
        with Part.create(folder / "0", "recipe"):
            pass
        return {5: 0, 12: 1}[sum(len(records) for records in read(folder, check=True))]

    cut_everywhere(monkeypatch, prepare, write, found)


def test_the_layer_notices_what_is_not_written_in_one_step(tmp_path, monkeypatch):
    path = tmp_path / "careless"
    contents = b"old" * 1000, b"new" * 2000
    with pytest.raises(ValueError, match="not in"):
        cut_everywhere(
            monkeypatch,
            lambda: path.write_bytes(contents[0]),
            lambda: path.open("wb").write(contents[1]),
            lambda: one_of(path, contents),
        )
