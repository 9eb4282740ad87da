"""kill −9 at any moment, and disks that are full: what was begun goes on, and ends as if nothing had been.

Read ``trials.py`` first. Programs are run in copies of a process that has imported everything, so that a run of a
second takes a second.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.faults.texts import some_games
from benchmarks.faults.trials import LOOK_SECONDS, Trial, Wrong

PATIENCE = 900.0
"""Seconds after which a program hangs: what it has to do first may be to compile."""
MEASURE = ("measure.double_games=2", "measure.seconds=1000.0", "measure.pictures_seconds=1000.0", "measure.probcut=0")
OFTEN = "measure.save_seconds=0.01"
_TABLES = ("net.tuples=[[0, 1, 2], [9, 18]]", "td.batch_games=16")
PRESETS: dict[str, tuple[str, ...]] = {
    "quick": (*_TABLES, "net.stages=2", "net.dim=4", "net.hidden=4", "games=1600", "measure.probcut=150"),
    "ntuple": (*_TABLES, "net.stages=2", "games=1600"),
    "league": (*_TABLES, "games=1600"),
    "embedding": (*_TABLES, "net.stages=2", "net.dim=4", "net.hidden=4", "games=800"),
    "triangle": ("net.maps=2", "td.batch_games=8", "td.exact_empties=4", "optim.minibatch=128", "games=64"),
    "own": ("td.batch_games=8", "optim.minibatch=128", "games=64"),
    "triangle-leouski": ("net.maps=2", "leouski.exact_below=2", "games=12"),
    "evolve": (
        "net.tuples=all-1", "evolve.parents=3", "evolve.offspring=5", "evolve.double_games=10",
        "evolve.generations=40",
    ),
    "backwards": (
        "net.tuples=[[11, 19, 27, 35], [18, 19, 20, 21]]", "net.stages=3",
        "backwards.positions=[210, 250]", "backwards.solve_empties=6", "backwards.depth=2",
    ),
    "champion": (
        "init=", "net.tuples=edges", "net.dim=4", "net.hidden=8", "net.heads=4", "searched.positions=[1500, 2500]",
        "searched.depth=[1, 2]", "searched.solve=6", "searched.latest=10", "searched.passes=[2]",
        "searched.minibatch=128",
    ),
    "triangle-searched": (
        "init=", "net.maps=2", "searched.positions=[2500]", "searched.depth=[1]", "searched.solve=6",
        "searched.latest=10", "searched.passes=[2]", "searched.minibatch=128",
    ),
}  # fmt: skip
"""Each preset, as small as it can be."""
IN_RANKS = ("quick", "ntuple", "league", "embedding", "triangle", "own", "champion")
"""Those that several processes can learn together."""


class Programs:
    """Copies of this process that run a program each, in a folder of their own."""

    def __init__(self, run: Callable[[list[str]], int]):
        self.run = run

    def start(self, words: Sequence[str], folder: Path, ranks: int = 1, largest_file: int | None = None) -> list[int]:
        """Begin it, as torchrun would if there are several ranks; the numbers of its processes."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        group = {"WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        started = []
        for rank in range(ranks):
            child = os.fork()
            if child == 0:
                environment = group | {"RANK": rank, "LOCAL_RANK": 0} if ranks > 1 else {}
                self._work(words, folder, environment, largest_file)
            started.append(child)
        return started

    def _work(self, words: Sequence[str], folder: Path, environment: dict[str, Any], largest_file: int | None) -> None:
        code = 99
        try:
            os.environ.update({name: str(value) for name, value in environment.items()})
            os.chdir(folder)
            said = os.open("said.txt", os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
            for stream in (1, 2):
                os.dup2(said, stream)
            if largest_file is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file,) * 2)
            code = self.run(list(words))
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def finish(self, started: Sequence[int]) -> list[int]:
        """Their exit codes, those of killed ones negative."""
        codes, until = [], time.monotonic() + PATIENCE
        for child in started:
            while not (ended := os.waitpid(child, os.WNOHANG))[0]:
                if time.monotonic() > until:
                    kill(started)
                    raise Wrong("a program hangs")
                time.sleep(0.005)
            codes.append(os.waitstatus_to_exitcode(ended[1]))
        return codes

    def __call__(
        self, words: Sequence[str], folder: Path, ranks: int = 1, largest_file: int | None = None
    ) -> list[int]:
        return self.finish(self.start(words, folder, ranks, largest_file))

    def killed(self, words: Sequence[str], folder: Path, seconds: Sequence[float]) -> None:
        """Run it, and kill −9 its processes so much later."""
        started = self.start(words, folder, len(seconds))
        begun = time.monotonic()
        for child, when in sorted(zip(started, seconds, strict=True), key=lambda pair: pair[1]):
            while time.monotonic() < begun + when and not _is_over(child):
                time.sleep(min(LOOK_SECONDS, max(0.0, begun + when - time.monotonic())))
            kill([child])
        self.finish(started)


def _is_over(process: int) -> bool:
    return os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def kill(processes: Sequence[int]) -> None:
    for process in processes:
        os.kill(process, signal.SIGKILL)  # not collected yet, so it is still ours


def fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _check_words(folder: Path) -> None:
    said = (folder / "said.txt").read_text(errors="replace")
    if "Traceback" in said:
        raise Wrong(f"a traceback: {said[said.rindex('Traceback') :][-600:]}")


# --- training --------------------------------------------------------------------------------------------------------


def trainer() -> Programs:
    """``train.py``, imported; without pictures, and in portions that suit small runs."""
    import torch

    import train
    from othello_nn.learn import backwards, make  # noqa: F401 (so that every copy has them)
    from othello_nn.learn import trainer as around
    from othello_nn.learn.data import calibrate, learner
    from othello_nn.learn.data.searched import Play
    from othello_nn.learn.watch.logger import Logger

    torch.set_num_threads(1)
    Logger.pictures = Logger.histograms = lambda *_: None  # type: ignore[method-assign, assignment]
    backwards.SLAB = 100
    learner.PORTION, learner.SLAB, learner.TESTED, learner.CALIBRATED = 32, 500, 4, (40, 200)
    calibrate.HOW, calibrate.PROVEN = Play(depth=2, solve=6, opening_plies=16, latest=10), 8
    around.PROBCUT_DEPTH, around.PROBCUT_SOLVE = 4, 8
    learner.PROBCUT = {"positions": 160, "depth": 4, "solve_empties": 6}
    return Programs(lambda words: train.main(words))


def words(preset: str, run: str = "run") -> list[str]:
    settings = (*MEASURE, OFTEN, *PRESETS[preset])
    return [
        "--preset",
        preset,
        "--run",
        run,
        "--runs",
        "runs",
        "--threads",
        "1",
        *(w for s in settings for w in ("--set", s)),
    ]


RESUME = ["--resume", "run", "--runs", "runs", "--threads", "1"]


def _contents(folder: Path) -> dict[str, Any]:
    """What a run has come to: state, net and how strong it was found."""
    from safetensors.numpy import load_file

    from othello_nn.checkpoint import read_meta

    found: dict[str, Any] = {"metrics": read_meta(folder / "runs/run/net.safetensors")["info"]["metrics"]}
    for name in ("state", "net"):
        for key, array in load_file(folder / f"runs/run/{name}.safetensors").items():
            found[f"{name} {key}"] = (str(array.dtype), array.shape, array.tobytes())
    return found


def _check_same(wanted: dict[str, Any], folder: Path) -> None:
    found = _contents(folder)
    if found.keys() != wanted.keys():
        raise Wrong(f"other contents: {sorted(found.keys() ^ wanted.keys())[:5]}")
    if different := [key for key in wanted if found[key] != wanted[key]]:
        raise Wrong(f"resumed to another end: {', '.join(different[:5])}")


class _Training:
    """A preset's run, once without harm; then what any harm must come to."""

    def __init__(self, preset: str, ranks: int):
        self.preset, self.ranks, self.program = preset, ranks, trainer()
        straight = fresh(Path("straight").resolve())
        self.program(words(preset), straight, ranks)  # compiles
        fresh(straight)
        begun = time.monotonic()
        codes = self.program(words(preset), straight, ranks)
        self.seconds = time.monotonic() - begun
        if any(codes):
            raise RuntimeError(f"{preset} ended with {codes}: {(straight / 'said.txt').read_text()[-1500:]}")
        self.wanted = _contents(straight)
        self.largest = max(path.stat().st_size for path in (straight / "runs/run").iterdir())

    def again(self, folder: Path) -> list[str]:
        """How to go on with what is there."""
        if (folder / "runs/run/state.safetensors").exists():
            return RESUME
        shutil.rmtree(folder / "runs", ignore_errors=True)
        return words(self.preset)

    def finish(self, folder: Path) -> None:
        codes = self.program(self.again(folder), folder, self.ranks)
        _check_words(folder)
        if any(codes):
            raise Wrong(f"ended with {codes}: {(folder / 'said.txt').read_text()[-600:]}")
        _check_same(self.wanted, folder)


def killed_training(preset: str, ranks: int) -> Trial:
    training = _Training(preset, ranks)

    def trial(rng: random.Random) -> bool:
        folder = fresh(Path("killed").resolve())
        for _ in range(rng.randint(1, 2)):
            when = rng.uniform(0.0, training.seconds)
            apart = [when + rng.uniform(0, 0.1) for _ in range(ranks)]  # ranks do not die in the same instant
            training.program.killed(training.again(folder), folder, apart)
        training.finish(folder)
        return True

    return trial


def full_disk_training(preset: str) -> Trial:
    """No file may grow beyond a size: the run says what could not be saved, and goes on from what was."""
    training = _Training(preset, 1)

    def trial(rng: random.Random) -> bool:
        folder = fresh(Path("full").resolve())
        room = rng.randint(0, int(1.2 * training.largest))
        (code,) = training.program(training.again(folder), folder, 1, room)
        _check_words(folder)
        if code not in (0, 1, 2):
            raise Wrong(f"ended with {code} on a full disk")
        training.finish(folder)
        return code == 0

    return trial


# --- tournaments and files -------------------------------------------------------------------------------------------

PLAYERS = ["swh", "most-discs", "random"]


def _tournament() -> tuple[Programs, list[str], dict[int, Any], float]:
    from othello_nn.cli import main, matches, tournaments  # noqa: F401 (so that every copy has them)

    program = Programs(lambda words: main.main(words))
    words = ["tournament", *PLAYERS, "--games", "10", "--seed", "5", "--journal", "games.jsonl", "--save", "games.ggf"]
    straight = fresh(Path("straight").resolve())
    program(words, straight)
    fresh(straight)
    begun = time.monotonic()
    if program(words, straight) != [0]:
        raise RuntimeError((straight / "said.txt").read_text()[-1500:])
    return program, words, _games(straight), time.monotonic() - begun


def _games(folder: Path) -> dict[int, Any]:
    lines = [json.loads(line) for line in (folder / "games.jsonl").read_text().splitlines()][1:]
    games = {line["number"]: (line["moves"], line["result"], line["names"]) for line in lines}
    if len(games) != len(lines):
        raise Wrong("a game was played twice")
    return games


def killed_tournament() -> Trial:
    program, words, wanted, seconds = _tournament()

    def trial(rng: random.Random) -> bool:
        folder = fresh(Path("killed").resolve())
        for _ in range(rng.randint(1, 3)):
            program.killed(words, folder, [rng.uniform(0, seconds)])
        if program(words, folder) != [0]:
            raise Wrong((folder / "said.txt").read_text()[-600:])
        _check_words(folder)
        if _games(folder) != wanted:
            raise Wrong("resumed to other games")
        return True

    return trial


def full_disk_tournament() -> Trial:
    program, words, wanted, _ = _tournament()
    largest = Path("straight/games.jsonl").stat().st_size

    def trial(rng: random.Random) -> bool:
        folder = fresh(Path("full").resolve())
        (code,) = program(words, folder, 1, rng.randint(0, int(1.2 * largest)))
        _check_words(folder)
        if code not in (0, 1, 2):
            raise Wrong(f"ended with {code} on a full disk")
        if program(words, folder) != [0]:
            raise Wrong((folder / "said.txt").read_text()[-600:])
        if _games(folder) != wanted:
            raise Wrong("resumed to other games")
        return code == 0

    return trial


def killed_saving() -> Trial:
    """A file is replaced again and again until its writer is killed: it is one of the two, whole."""
    from othello_nn.files import write_whole
    from othello_nn.game.formats.ggf import format_ggf

    games = some_games()
    contents = format_ggf(games).encode() * 200, format_ggf(games[:2]).encode() * 300

    def write(words: list[str]) -> int:
        for number in range(10**6):
            write_whole(Path(words[0]), contents[number % 2])
        return 0

    program = Programs(write)

    def trial(rng: random.Random) -> bool:
        path = fresh(Path("saving").resolve()) / "games.ggf"
        program.killed([str(path)], path.parent, [rng.uniform(0, 0.05)])
        if path.exists() and path.read_bytes() not in contents:
            raise Wrong(f"a file of {path.stat().st_size} bytes, neither the old one nor the new")
        return path.exists()

    return trial


def kinds() -> dict[str, Callable[[], Trial]]:
    """By what is done to what: each preset alone, and in ranks where it can be."""
    found: dict[str, Callable[[], Trial]] = {}
    for preset in PRESETS:
        found[f"kill -9, {preset}"] = partial(killed_training, preset, 1)
        if preset in IN_RANKS:
            found[f"kill -9, {preset}, two ranks"] = partial(killed_training, preset, 2)
    found["kill -9, tournament"] = killed_tournament
    found["kill -9, saving"] = killed_saving
    found["full disk, quick"] = partial(full_disk_training, "quick")
    found["full disk, tournament"] = full_disk_tournament
    return found
