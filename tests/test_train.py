"""train.py as people use it: runs, resuming, signals, mistakes, full disks, TensorBoard, several processes.

Most of it runs in this process; programs are started for what only a program can show.
"""

import errno
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from linear import LINEAR, linear
from patience import HANG_SECONDS
from safetensors.numpy import load_file, save_file

import train as program
from othello_nn import checkpoint
from othello_nn.config import load_preset
from othello_nn.engine.leaf.compile import load_evaluator
from othello_nn.game import Position
from othello_nn.learn.distributed import Group
from othello_nn.learn.make import make_learner
from othello_nn.learn.runs import Run
from othello_nn.learn.td.online_learner import OnlineLearner
from othello_nn.learn.td.torch_learner import TorchLearner
from othello_nn.learn.trainer import Film, Growth, Timer, Trainer
from othello_nn.learn.watch import curves
from othello_nn.learn.watch.ladder import RUNGS, Ladder
from othello_nn.learn.watch.logger import LAYOUT, Logger
from othello_nn.learn.watch.probes import is_symmetric
from othello_nn.learn.watch.strength import Strength
from othello_nn.nets import make_net
from othello_nn.players import make_player
from othello_nn.progress import progress

ROOT = Path(__file__).resolve().parent.parent
MEASURE = ("measure.double_games=2", "measure.seconds=1000.0", "measure.pictures_seconds=1000.0", "measure.probcut=0")
TABLES = (*LINEAR, "net.tuples=[[0, 1, 2], [9, 18]]", "net.stages=2", "td.batch_games=16", *MEASURE)
TRIANGLE = ("net.maps=2", "td.batch_games=8", "td.exact_empties=4", "optim.minibatch=128", *MEASURE)
BACKWARDS = (
    "net.tuples=[[11, 19, 27, 35], [18, 19, 20, 21]]",
    "net.stages=3",
    "backwards.positions=[210, 250]",
    "backwards.solve_empties=6",
    "backwards.depth=2",
    *MEASURE,
)
KINDS = {"tables": ("quick", TABLES), "triangle": ("triangle", TRIANGLE), "backwards": ("backwards", BACKWARDS)}


def words(name: str, *more: str) -> list[str]:
    preset, settings = KINDS[name]
    return ["--preset", preset, "--threads", "1", *(w for s in settings for w in ("--set", s)), *more]


@pytest.fixture(autouse=True)
def _threads():
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def train_and_draw(tmp_path, monkeypatch, capfd):
    """train.py in this process and an empty folder: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def call(*argv: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = program.main(argv)
        out, err = capfd.readouterr()
        assert "Traceback" not in out + err
        return code, out, err

    return call


@pytest.fixture
def train(train_and_draw, monkeypatch):
    """The same without pictures, which take longer than a small run."""
    monkeypatch.setattr(Logger, "pictures", lambda *arguments: None)
    return train_and_draw


@pytest.fixture
def mistake(train):
    """The one line that is said of a mistake; nothing is left behind."""

    def call(*argv: str, code: int = 2) -> str:
        before = sorted(Path().rglob("*"))
        found, out, err = train(*argv)
        err = err.removeprefix("compiling (first run only) …\n")
        assert found == code
        assert out == ""
        assert err.startswith("train.py: ")
        assert err.count("\n") == 1
        assert sorted(Path().rglob("*")) == before
        return err.removeprefix("train.py: ").strip()

    return call


def arrays_of(run: str, name: str = "state") -> dict[str, np.ndarray]:
    return load_file(Path("runs") / run / f"{name}.safetensors")


def assert_same_runs(one: str, other: str) -> None:
    """Bit for bit: state and net, the net to be compared with among them; and how strong it was found."""
    for name in ("state", "net"):
        first, second = arrays_of(one, name), arrays_of(other, name)
        assert first.keys() == second.keys()
        for key, array in first.items():
            assert array.dtype == second[key].dtype
            assert array.tobytes() == second[key].tobytes(), f"{name} {key}"
    assert any(key.startswith("earlier.") for key in arrays_of(one))
    metrics = [checkpoint.read_meta(f"runs/{run}/net.safetensors")["info"]["metrics"] for run in (one, other)]
    assert metrics[0] == metrics[1]
    assert "score/earlier" in metrics[0]


# --- a run -----------------------------------------------------------------------------------------------------------


def test_a_run_and_what_it_leaves(train):
    code, out, err = train(*words("tables", "--games", "64"))
    assert code == 0
    assert out.startswith("play against it:  python play.py --player quick-1\nquick-1: finished\n64 games in ")
    assert re.search(r"\nscores at 1-ply: random \d\.\d+, swh ", out)
    assert "python play.py match quick-1 swh" in out
    assert "runs/quick-1: ntuple net of 74 weights on cpu, 1 threads" in err
    assert "tensorboard --logdir runs" in err
    [settings] = [line for line in err.splitlines() if line.startswith("quick (learner td, seed 1), ")]
    assert "games=64" in settings
    assert "td.batch_games=16" in settings
    assert "td.loss" not in settings  # as in the preset
    assert settings.endswith("; all settings: runs/quick-1/config.json")
    assert {path.name.split(".")[0] for path in Path("runs/quick-1").iterdir()} == {"config", "state", "net", "events"}
    config = json.loads(Path("runs/quick-1/config.json").read_text())
    assert config["games"] == 64
    assert config["net"]["stages"] == 2
    info = checkpoint.read_meta("runs/quick-1/net.safetensors")["info"]
    assert info["recipe"] == config
    assert info["games"] == 64
    assert {"score/random", "score/swh", "score/earlier", "elo/ladder"} <= info["metrics"].keys()
    assert info["versions"]["torch"] == torch.__version__
    code, out, err = train(*words("tables", "--games", "16"))
    assert "\nquick-2: finished" in out


def test_json_is_one_object_on_stdout(train):
    code, out, _ = train(*words("triangle", "--games", "8", "--run", "mine", "--json"))
    assert code == 0
    facts = json.loads(out)
    assert facts["run"] == "mine"
    assert facts["net"] == "runs/mine/net.safetensors"
    assert facts["games"] == 8
    assert facts["finished"] is True
    assert facts["scores"].keys() >= {"random", "swh", "earlier"}


def test_print_config_trains_nothing(train):
    code, out, err = train(*words("tables", "--print-config", "--seed", "7", "--games", "5"))
    assert (code, err) == (0, "")
    assert json.loads(out)["seed"] == 7
    assert load_preset("quick").from_dict(json.loads(out)).games == 5
    assert not Path("runs").exists()


def test_minutes_stop_a_run(train):
    code, out, _ = train(*words("tables", "--games", "1000000000", "--minutes", "0.01"))
    assert code == 0
    assert "quick-1: stopped; go on with: python train.py --resume quick-1" in out
    assert arrays_of("quick-1")["steps"][0] > 0


def test_trained_nets_play(train):
    """Two updates, saved, resumed, compiled, checked, played."""
    for name in ("tables", "triangle"):
        games = {"tables": 32, "triangle": 16}[name]
        train(*words(name, "--games", str(games), "--run", f"my-{name}"))
        train("--resume", f"my-{name}", "--games", str(2 * games), "--threads", "1")
        path = f"runs/my-{name}/net.safetensors"
        saved = checkpoint.Checkpoint.load(path)
        assert saved.info["games"] == 2 * games
        evaluator = load_evaluator(path)
        checks = saved.checks
        found = evaluator.discs(checks.movers, checks.opponents)
        assert found == pytest.approx(np.clip(checks.discs, -62, 62), abs=0.1)
        player, position, plies = make_player(f"my-{name}:depth=2"), Position.start(), 0
        while not position.is_over:
            position = position.play(player.choose(position).move)
            plies += 1
        assert plies >= 40


# --- resuming --------------------------------------------------------------------------------------------------------


def interrupt_after(monkeypatch, learner_class, steps: int) -> None:
    """Ctrl-C in the middle of a step."""
    original, taken = learner_class.play, 0

    def play(self):
        nonlocal taken
        taken += 1
        if taken == steps:
            os.kill(os.getpid(), signal.SIGINT)
        return original(self)

    monkeypatch.setattr(learner_class, "play", play)


@pytest.mark.parametrize("name", KINDS)
def test_a_run_that_was_stopped_and_resumed_ends_in_the_same_net(name, train, monkeypatch):
    from othello_nn.learn import backwards

    monkeypatch.setattr(backwards, "SLAB", 100)
    learner_class = {"tables": OnlineLearner, "triangle": TorchLearner, "backwards": backwards.BackwardsLearner}
    games = {"tables": "320", "triangle": "80", "backwards": "1"}[name]
    train(*words(name, "--games", games, "--run", "straight"))
    for stop in (3, 4):
        with monkeypatch.context() as patch:
            interrupt_after(patch, learner_class[name], stop)
            resume = ["--resume", "stopped", "--threads", "1"]
            code, out, err = train(*(resume if stop == 4 else words(name, "--games", games, "--run", "stopped")))
        assert code == 130
        assert "stopped: stopped; go on with: python train.py --resume stopped" in out
        assert arrays_of("stopped", "net").keys() == arrays_of("straight", "net").keys()
    code, out, err = train("--resume", "stopped", "--threads", "1")
    assert code == 0
    assert "games on" in err
    assert "stopped: finished" in out
    assert_same_runs("straight", "stopped")
    assert train("--resume", "runs/straight")[0] == 0, "a finished run has nothing more to do"
    assert_same_runs("straight", "stopped")


def test_measuring_and_saving_do_not_touch_the_learning(train_and_draw):
    train_and_draw(*words("tables", "--games", "96", "--run", "seldom"))
    busy = ("measure.seconds=0.1", "measure.pictures_seconds=0.1", "measure.save_seconds=0.01")
    train_and_draw(*words("tables", "--games", "96", "--run", "often", *(w for s in busy for w in ("--set", s))))
    assert_same_runs("seldom", "often")


DYING = """
import os, signal, sys, threading, time
import train
from othello_nn.learn.trainer import Growth, Timer, Trainer

name, seconds, enough, *argv = sys.argv[1:]
save, saved = Trainer.save, threading.Event()

def save_and_die(trainer):
    save(trainer)
    if not saved.is_set():
        saved.set()
        if name == "SIGINT":
            os.kill(os.getpid(), signal.SIGINT)
        else:
            threading.Timer(float(seconds), os.kill, (os.getpid(), signal.SIGKILL)).start()
    while name == "SIGKILL" and trainer.learner.games >= int(enough):
        time.sleep(1)

Trainer.save = save_and_die
sys.exit(train.main(argv))
"""
"""train.py with a signal after its first save: Ctrl-C at once, or kill -9 some time later, until when it is kept from
finishing."""


def die(signal_name: str, *argv: str, seconds: float = 0, games: int = 0) -> subprocess.CompletedProcess:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, "-c", DYING, signal_name, str(seconds), str(games // 2), *argv]
    pipes = {"stdin": subprocess.DEVNULL, "capture_output": True, "encoding": "utf-8"}
    return subprocess.run(command, env=environment, timeout=HANG_SECONDS, check=False, **pipes)


def test_a_killed_run_is_resumed_to_the_same_net(train):
    """kill -9 at random moments, then Ctrl-C, then to the end."""
    games, rng = 1600, random.Random(os.environ.get("OTHELLO_EXAMPLES", 5))
    train(*words("tables", "--games", str(games), "--run", "straight"))
    saving = ("--set", "measure.save_seconds=0.01")
    state, done = Path("runs/killed/state.safetensors"), []
    argv = words("tables", "--games", str(games), "--run", "killed", *saving)
    for _ in range(2):
        killed = die("SIGKILL", *argv, seconds=rng.uniform(0, 0.3), games=games)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        done.append(int(load_file(state)["games"][0]))
        argv = ["--resume", "killed", "--threads", "1"]
    stopped = die("SIGINT", *argv)
    assert stopped.returncode == 130, stopped.stderr
    assert "killed: stopped; go on with: python train.py --resume killed" in stopped.stdout
    assert "Traceback" not in stopped.stderr
    assert not set(stopped.stderr) & {"\r", "\x1b"}, "no progress bar in a pipe"
    done.append(int(load_file(state)["games"][0]))
    assert done == sorted(done)
    assert 0 < done[0] < done[-1] < games
    assert len(list(Path("runs/killed").glob(".*"))) <= 2, "a half-written file at most for each kill"
    assert train("--resume", "killed", "--threads", "1")[0] == 0
    assert_same_runs("straight", "killed")


# --- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--preset", "champoin"), "unknown preset 'champoin'; did you mean 'champion'?"),
        (("--presett", "quick"), "--presett"),
        (("--set", "td.lamda=0.5"), "unknown option 'td.lamda'; did you mean 'lambda'?"),
        (("--set", "td.lambda=x"), "lambda is 'x'; it must be a number"),
        (("--set", "net.stage=3"), "unknown option 'net.stage'; did you mean 'stages'?"),
        (("--set", f"games={'9' * 5000}"), "games is '999"),
        (("--set", "net.tuples=/dev/zero"), "/dev/zero: tuples cannot be read: it is a device, not a file"),
        (("--set", "net.stages=0"), "stages is 0; it must be a whole number from 1 to 60"),
        (("--set", "net.tuples=all-9"), "all-9"),
        (("--set", "net.kind=triangel"), "unknown kind of net 'triangel'; did you mean 'triangle'?"),
        (("--set", "net.kind=triangle"), "unknown option 'tuples' of a triangle net"),
        (("--set", "optim.minibatch=5"), "optim.minibatch does nothing here"),
        (("--set", "init=nowhere"), "init: there is no net 'nowhere'"),
        (("--set", "net.stages=2024-01-01"), "stages is '2024-01-01'"),
        (("--device", "cuda:99"), "cuda:99"),
        (("--device", "gpu"), "unknown device 'gpu'; choose from auto, cpu, cuda, cuda:N"),
        (("--device", "cuda:x"), "unknown device 'cuda:x'"),
        (("--games", "0"), "a whole number from 1"),
        (("--games", "many"), "a whole number from 1"),
        (("--seed", "-1"), "a whole number from 0"),
        (("--minutes", "nan"), "a number of minutes"),
        (("--run", "../escape"), "'../escape' cannot be a run's name"),
        (("--run", ".hidden"), "'.hidden' cannot be a run's name"),
        (("--run", "swh"), "a run cannot be called 'swh', since a player is called that"),
        (("--resume", "runs/nothing"), "there is no run 'runs/nothing'; there are none in runs"),
        (("--resume", "nothing"), "there is no run 'nothing'; there are none in runs"),
        (("--resume", "x", "--set", "td.lambda=0.5"), "--set cannot go with --resume"),
        (("--resume", "x", "--seed", "0"), "--seed cannot go with --resume"),
        (("--resume", "x", "--preset", "quick"), "--preset cannot go with --resume"),
        (("--resume", "x", "--print-config"), "--print-config shows a preset's settings"),
        (("--preset", "triangle-leouski", "--set", "td.lambda=0.5"), "'td.lambda' does nothing here"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(mistake, argv, message):
    assert message in mistake(*argv)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there(mistake):
    said = mistake("--device", "cuda")
    assert said == "device cuda:0: torch finds no CUDA GPU here; cpu works everywhere"


def test_learners_for_one_process_alone():
    with pytest.raises(ValueError, match="the learner 'backwards' works in one process; torchrun is for 'td'"):
        make_learner(load_preset("backwards"), "cpu", Group(0, 2), 1)


def test_mistakes_do_not_wait_for_torch():
    code = (
        "import sys; from train import main\n"
        "codes = main(['--preset', 'x']), main(['--set', 'td.lamda=1']), main(['--no']), main(['--print-config'])\n"
        "print(codes, 'torch' in sys.modules, file=sys.stderr)"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "(2, 2, 2, 0) False"


def test_a_run_that_is_there_already(train, mistake):
    train(*words("tables", "--games", "16", "--run", "mine"))
    said = mistake(*words("tables", "--run", "mine"))
    assert said == "there is a run 'mine' already; go on with it by --resume mine, or choose another --run"
    assert mistake("--resume", "mien") == "there is no run 'mien'; did you mean 'mine'?"


def test_states_that_cannot_be_resumed(train, mistake):
    train(*words("tables", "--games", "16", "--run", "mine"))
    state = Path("runs/mine/state.safetensors")
    whole, arrays = state.read_bytes(), load_file(state)
    resume = ("--resume", "mine", "--threads", "1")
    state.write_bytes(whole[: len(whole) // 2])
    assert "state.safetensors: not a readable training state (" in mistake(*resume)
    state.write_bytes(b"")
    assert "state.safetensors: not a readable training state (" in mistake(*resume)
    save_file(arrays, state, {"format": "othello_nn.state/2"})
    said = mistake(*resume)
    assert said.endswith("this is version 2 of the format othello_nn.state, this program reads 1")
    save_file(arrays, state)
    assert mistake(*resume).endswith("state.safetensors: not a training state of this program")
    meta = {"format": "othello_nn.state/1"}
    save_file({name: array for name, array in arrays.items() if name != "sums"}, state, meta)
    assert "does not fit this run ('sums')" in mistake(*resume, code=1)
    save_file(arrays | {"weights": arrays["weights"][:1]}, state, meta)
    assert "does not fit this run (weights has the shape" in mistake(*resume, code=1)
    save_file({name: array for name, array in arrays.items() if name != "pending.sign"}, state, meta)
    assert "does not fit this run (a trajectory lacks the array 'sign')" in mistake(*resume, code=1)
    state.unlink()
    assert "was stopped before its first state was saved: start it anew" in mistake(*resume)
    Path("runs/mine/config.json").write_text("{")
    assert "config.json is damaged: " in mistake(*resume)
    state.write_bytes(whole)


def test_a_net_to_start_from_is_not_asked_for_again(train):
    train(*words("tables", "--games", "16", "--run", "first"))
    train(*words("tables", "--games", "16", "--run", "second", "--set", "init=first"))
    Path("runs/first/net.safetensors").unlink()
    assert train("--resume", "second", "--games", "32", "--threads", "1")[0] == 0
    assert json.loads(Path("runs/second/config.json").read_text())["init"] == "first"


def test_runs_in_another_folder(train, tmp_path):
    elsewhere = tmp_path / "else" / "where"
    code, out, err = train(*words("tables", "--games", "16", "--run", "first", "--runs", str(elsewhere)))
    assert code == 0
    assert f"python play.py match {elsewhere}/first swh" in out
    assert f"tensorboard --logdir {elsewhere}" in err
    more = ("--runs", str(elsewhere), "--threads", "1")
    assert train("--resume", "first", "--games", "32", *more)[0] == 0
    assert train(*words("tables", "--games", "16", "--set", "init=first", *more))[0] == 0
    config = json.loads((elsewhere / "quick-1" / "config.json").read_text())
    assert config["init"] == str(elsewhere / "first" / "net.safetensors")
    code, out, _ = train(*words("tables", "--games", "1000000", "--minutes", "0.001", "--runs", str(elsewhere)))
    assert f"quick-2: stopped; go on with: python train.py --resume {elsewhere}/quick-2" in out
    assert train("--resume", str(elsewhere / "quick-2"), "--games", "4", "--threads", "1")[0] == 0
    assert not Path("runs").exists()


# --- when things go wrong --------------------------------------------------------------------------------------------


class FullDisk:
    """From now on files cannot be written, ``times`` times."""

    def __init__(self, monkeypatch, times: int):
        self.times, self.refused, self._fsync = times, 0, os.fsync
        monkeypatch.setattr(os, "fsync", self)

    def __call__(self, handle):
        if self.refused < self.times:
            self.refused += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._fsync(handle)


OFTEN = ("--set", "measure.save_seconds=0.01")


def test_a_disk_that_is_full_for_a_while(train, monkeypatch):
    train(*words("tables", "--games", "320", "--run", "straight"))
    original = OnlineLearner.play

    def play(self):
        if self.steps == 3:
            disks.append(FullDisk(monkeypatch, 4))
        time.sleep(0.011)
        return original(self)

    disks: list[FullDisk] = []
    monkeypatch.setattr(OnlineLearner, "play", play)
    code, _, err = train(*words("tables", "--games", "320", "--run", "full", *OFTEN))
    assert disks[0].refused == 4
    assert code == 0
    line = "train.py: runs/full/state.safetensors could not be saved: No space left on device; training goes on"
    assert err.count(line) == 1, "said once"
    assert_same_runs("straight", "full")


def test_a_disk_that_stays_full(train, monkeypatch):
    train(*words("tables", "--games", "64", "--run", "mine", *OFTEN))
    files = {path: path.read_bytes() for path in Path("runs/mine").glob("*.safetensors")}
    assert len(files) == 2
    assert train("--resume", "mine", "--games", "96", "--threads", "1")[0] == 0
    assert all(path.read_bytes() != content for path, content in files.items())
    files = {path: path.read_bytes() for path in files}
    config = Path("runs/mine/config.json")
    config.write_text(config.read_text().replace('"games": 96', '"games": 128'))
    FullDisk(monkeypatch, 10**6)
    code, out, err = train("--resume", "mine", "--threads", "1")
    assert code == 1
    assert "mine: finished" in out
    assert err.endswith("train.py: the run's last state is not saved: No space left on device\n")
    assert all(path.read_bytes() == content for path, content in files.items())
    assert not list(Path("runs/mine").glob(".*")), "no half-written files"
    code, out, err = train("--resume", "mine", "--games", "160", "--threads", "1")
    assert (code, err) == (1, "train.py: runs/mine/config.json: No space left on device\n")


def test_a_run_that_cannot_even_begin(mistake, monkeypatch, tmp_path):
    FullDisk(monkeypatch, 10**6)
    (tmp_path / "runs").mkdir()
    said = mistake(*words("tables", "--run", "mine"))
    assert said == "runs/mine cannot be made: No space left on device"


def test_curves_on_a_full_disk(tmp_path, capfd):
    """The system itself refuses to let the file grow; TensorBoard writes it in a thread of its own."""
    logger = Logger(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        for games in range(200):
            logger.scalars({"loss/td_error": 0.5, "score/random": 0.5}, games)
            logger.flush()
        logger.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert capfd.readouterr().err == "train.py: curves cannot be written: File too large; training goes on\n"


@pytest.mark.parametrize("fits", [6, 1, 0])
def test_out_of_memory(mistake, train, monkeypatch, fits):
    original = OnlineLearner.play
    train(*words("tables", "--games", "16", "--run", "mine"))

    def play(self):
        if self.config.td.batch_games > fits:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")
        return original(self)

    monkeypatch.setattr(OnlineLearner, "play", play)
    code, out, err = train("--resume", "mine", "--games", "64", "--threads", "1")
    assert code == 1
    assert out == ""
    said = {6: "4 would fit: --set td.batch_games=4", 1: "1 would fit: --set td.batch_games=1"}.get(
        fits, "try --set td.batch_games=4"
    )
    assert err.splitlines()[-1] == f"train.py: out of memory with td.batch_games=16; {said}"
    assert arrays_of("mine")["games"][0] == 16


def test_other_errors_are_not_taken_for_a_lack_of_memory(train, monkeypatch):
    def play(self):
        raise RuntimeError("the cat is on the keyboard")

    monkeypatch.setattr(OnlineLearner, "play", play)
    with pytest.raises(RuntimeError, match="cat"):
        train(*words("tables", "--games", "16"))


def test_a_diverging_run_says_so_and_keeps_what_it_had(train, monkeypatch):
    train(*words("tables", "--games", "16", "--run", "mine"))
    before, original = Path("runs/mine/net.safetensors").read_bytes(), OnlineLearner.play

    def play(self):
        self.tables.weights[:] = np.nan
        return original(self)

    monkeypatch.setattr(OnlineLearner, "play", play)
    code, _, err = train("--resume", "mine", "--games", "64", "--threads", "1")
    assert code == 1
    assert err.splitlines()[-1].startswith(
        "train.py: training has diverged: loss/td_error is nan; start anew with a low"
    )
    assert Path("runs/mine/net.safetensors").read_bytes() == before


def test_weights_too_large_for_16_bits_are_saved_all_the_same(train):
    train(*words("tables", "--games", "16", "--run", "mine"))
    arrays = arrays_of("mine")
    arrays["weights"][0, 0] = 300
    save_file(arrays, "runs/mine/state.safetensors", {"format": "othello_nn.state/1"})
    assert train("--resume", "mine", "--threads", "1")[0] == 0
    assert arrays_of("mine", "net")["net.weight"].max() == 300
    load_evaluator("runs/mine/net.safetensors")


# --- TensorBoard -----------------------------------------------------------------------------------------------------


def events_of(folder: str):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(folder, size_guidance={"images": 0, "scalars": 0, "tensors": 0, "histograms": 0})
    found.Reload()
    return found


@pytest.mark.parametrize("name", KINDS)
def test_the_curves_of_a_run(train_and_draw, name):
    games = {"tables": 64, "triangle": 16, "backwards": 1}[name]
    train_and_draw(*words(name, "--games", str(games), "--run", "mine"))
    events = events_of("runs/mine")
    tags = events.Tags()
    scalars, images, histograms = (set(tags[kind]) for kind in ("scalars", "images", "histograms"))
    texts = {tag.removesuffix("/text_summary") for tag in tags["tensors"]} - {"custom_scalars__config__"}
    assert texts == {"config"}
    [config] = events.Tensors("config/text_summary")[0].tensor_proto.string_val
    preset = load_preset(KINDS[name][0])
    assert (
        f"| `games` | {preset.games} | {json.loads(Path('runs/mine/config.json').read_text())['games']} |"
        in config.decode()
    )
    [layout] = events.Tensors("custom_scalars__config__")[0].tensor_proto.string_val
    assert layout.index(b"score/.*") < layout.index(b"loss/td_error")
    charts = [chart for group, charts in LAYOUT.items() if group != "speed" for chart in charts.values()]
    for pattern in (pattern for chart in charts for pattern in chart):  # a run of a second has no speed yet
        assert any(re.fullmatch(pattern, tag) for tag in scalars) or name == "backwards", pattern
    for tag in scalars | images | histograms | texts:
        assert curves.find_curve(tag)
    assert {f"score/{each}" for each in ("random", "swh", "earlier", "leouski")} <= scalars
    assert {"elo/ladder", "elo/low", "elo/high"} <= scalars
    assert {tag for tag in scalars if tag.startswith("ladder/")} == {f"ladder/{rung}" for rung in RUNGS}
    assert events.Scalars("elo/ladder")[-1].step == events.Scalars("score/swh")[-1].step, "the last is measured in full"
    assert {"pictures/calibration", "pictures/strip"} <= images
    assert {"_hparams_/experiment", "_hparams_/session_start_info"} <= events.summary_metadata.keys()
    started = events.summary_metadata["_hparams_/session_start_info"].plugin_data.content
    assert b"learner" in started
    assert b"measure." not in started  # five columns are shown at first: none for how the run is watched
    assert "values/discs" in histograms
    assert any(tag.startswith("weights/") for tag in histograms)
    pictures = {"pictures/squares", "pictures/edges", "pictures/game"}
    assert pictures | ({"pictures/triangle", "pictures/coefficients"} if name == "triangle" else set()) <= images
    if name == "backwards":
        assert {"backwards/stage", "backwards/round", "backwards/positions"} <= scalars
        games = 3 * (210 + 250)
    else:
        assert {"loss/td_error", "loss/explained_variance", "rate/learning"} <= scalars
        assert any(tag.startswith("td_error/empties_") for tag in scalars)
        assert events.Scalars("loss/td_error")[-1].step == games
    steps = [point.step for point in events.Scalars("score/swh")]
    assert (steps[0], steps[-1]) == (0, games)
    assert all(later >= 2 * earlier for earlier, later in pairwise(steps[:-1])), "the clock is set to never"
    assert all(0 <= point.value <= 1 for point in events.Scalars("score/random"))


def test_points_after_the_state_are_taken_back(train):
    """A killed run had gone further than its last state; the curve goes on from the state."""
    train(*words("tables", "--games", "64", "--run", "mine"))
    state = Path("runs/mine/state.safetensors").read_bytes()
    train("--resume", "mine", "--games", "128", "--threads", "1")
    Path("runs/mine/state.safetensors").write_bytes(state)
    time.sleep(1.1)  # event files are told apart by the second
    train("--resume", "mine", "--games", "96", "--threads", "1")
    steps = [point.step for point in events_of("runs/mine").Scalars("score/swh")]
    assert (steps[0], steps[-1]) == (0, 96)
    assert steps == sorted(steps)
    assert 64 in steps


def test_the_film_has_a_frame_at_256_games_and_fourfold():
    """However fast they follow each other: what cannot be drawn at once is drawn later, as it was."""

    class Counted:
        games = 0

        def net(self):
            return make_net({"kind": "ntuple", "tuples": "all-1"})

    learner = Counted()
    film = Film(Timer(1000.0), learner)
    film.done(1000.0)  # the last picture took long: no new one is drawn for hours
    for games in range(0, 5000, 128):
        learner.games = games
        film.remember(Strength(1, 1, 1))
        assert not film.due()
    assert [frame.games for frame, _ in film.frames] == [256, 1024, 4096]
    film.done(0.0)
    assert film.due()


def test_vectors_of_an_embedding_net_are_there_for_the_projector(tmp_path):
    logger = Logger(tmp_path)
    logger.projector(make_net({"kind": "ntuple", "tuples": "edges", "dim": 4}))
    logger.close()
    vectors = (tmp_path / "vectors.tsv").read_text().splitlines()
    labels = (tmp_path / "vectors-contents.tsv").read_text().splitlines()
    assert len(labels) == len(vectors) + 1
    assert {len(line.split("\t")) for line in vectors} == {4}
    assert {len(line.split("\t")) for line in labels} == {5}
    assert 'tensor_path: "vectors.tsv"' in (tmp_path / "projector_config.pbtxt").read_text()


def test_a_linear_net_has_no_vectors(tmp_path):
    logger = Logger(tmp_path)
    logger.projector(make_net({"kind": "ntuple", "tuples": "edges"}))
    logger.close()
    assert not list(tmp_path.glob("*.tsv"))


def test_the_net_is_measured_as_it_is_saved():
    """Live and at the end: with what was learnt from either side of a mirror put together."""
    config = linear("td.batch_games=64")
    learner = make_learner(config, "cpu", Group(), 1)
    for _ in range(3):
        learner.step()
    strength = Strength(20, 1, 1)
    assert is_symmetric(learner.net())
    live, last = (strength.scores(learner, last)["score/swh"] for last in (False, True))
    assert live == last
    strength.ladder.close()


def test_a_rating_begins_with_the_first_game(tmp_path, monkeypatch):
    """Where the ladder has to be compiled first, nets that came too early for it are rated when it is there."""
    learner = make_learner(linear(*TABLES), "cpu", Group(), 1)
    trainer = Trainer(Run(tmp_path, learner.config), learner, Group(), 1)
    trainer._logger = Logger(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Ladder, "is_due", lambda self, last: False)
        for _ in range(4):  # at 0, 16, 32 and 48 games; the last has not twice those of the one before
            trainer.measure()
            learner.step()
    assert not trainer._curve
    trainer.measure(last=True)
    learner.step()
    trainer.measure(last=True)
    trainer._logger.close()
    rated = events_of(str(tmp_path)).Scalars("elo/ladder")
    assert [point.step for point in rated] == [0, 16, 32, 64, 80]
    assert [point.value for point in rated] == pytest.approx(trainer._curve, rel=1e-4)


def test_unknown_tags_are_refused(tmp_path):
    logger = Logger(tmp_path)
    with pytest.raises(ValueError, match="nobody declares the curve 'loss/other'"):
        logger.scalars({"loss/other": 1.0}, 1)
    logger.close()


def test_every_curve_is_explained():
    page = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    assert curves.with_table(page) == page, "python -m othello_nn.learn.watch.curves docs/training.md"


def test_a_curve_is_declared_once():
    assert curves.find_curve("td_error/empties_00-09") == "td_error/*"
    with pytest.raises(ValueError, match="'loss/td_error' is declared twice"):
        curves.curve("loss/td_error", "again")


# --- golden curves ---------------------------------------------------------------------------------------------------

GOLDEN = {
    "tables": [0.04825, 0.04398, 0.04305, 0.04924, 0.06081, 0.03608, 0.04464, 0.03939, 0.02741, 0.03245],
    "triangle": [0.10382, 0.10116, 0.07172, 0.07459, 0.06995, 0.08021, 0.07831, 0.09015, 0.07044, 0.09264],
}
"""The first losses of small runs. Whoever changes learning on purpose, and has seen that it is better, changes them."""


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_curves(name):
    torch.set_num_threads(1)
    preset, settings = KINDS[name]
    games = {"tables": 320, "triangle": 160}[name]
    learner = make_learner(load_preset(preset).changed(settings, games=games), "cpu", Group(), 1)
    losses = [learner.step()["loss/td_error"] for _ in range(10)]
    assert losses == pytest.approx(GOLDEN[name], rel=1e-2)


# --- several processes -----------------------------------------------------------------------------------------------


def test_torchrun(tmp_path, monkeypatch):
    """Two processes with cores enough, one run, one report; games add up."""
    monkeypatch.chdir(tmp_path)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [*launch, str(ROOT / "train.py"), *words("triangle", "--games", "48", "--json", "--threads", "2")]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=2 * HANG_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["games"] == 48
    assert "2 processes" in done.stderr
    assert [path.name for path in Path("runs").iterdir()] == ["triangle-1"]
    assert len(list(Path("runs/triangle-1").glob("events*"))) == 1
    assert arrays_of("triangle-1")["steps"][0] == 3
    load_evaluator("runs/triangle-1/net.safetensors")
    run = Run.open(Path("runs"), "triangle-1")
    alone = Trainer(run, make_learner(run.config, "cpu", Group(), 1), Group(), 1)
    alone.resume()
    assert alone.learner.games == 48, "one process can go on with it"


# --- a preset that starts from another -------------------------------------------------------------------------------


FIRST = """
learner = "backwards"
net = {kind = "ntuple", tuples = [[11, 19, 27, 35], [18, 19, 20, 21]], stages = 3}
backwards = {positions = [210], solve_empties = 6, depth = 2}
measure = {double_games = 2, seconds = 1000.0, pictures_seconds = 1000.0, probcut = 0}
"""
SECOND = """
init = "first"
games = 32
net = {kind = "ntuple", tuples = [[11, 19, 27, 35], [18, 19, 20, 21]], stages = 3}
td = {batch_games = 16}
measure = {double_games = 2, seconds = 1000.0, pictures_seconds = 1000.0, probcut = 0}
"""


def test_a_preset_that_starts_from_another_trains_that_first(train, tmp_path, monkeypatch):
    presets = tmp_path / "presets"
    presets.mkdir()
    (presets / "first.toml").write_text(FIRST)
    (presets / "second.toml").write_text(SECOND)
    monkeypatch.setattr("othello_nn.config.PRESETS", presets)
    code, out, err = train("--preset", "second", "--threads", "1", "--json")
    assert code == 0, err
    assert json.loads(out)["run"] == "second-1"
    assert "second starts from the net of the preset first" in err
    assert "first: finished" in err
    info = checkpoint.read_meta("runs/second-1/net.safetensors")["info"]
    assert info["started_from"]["preset"] == "first"
    # The first net is there now, and is not trained again.
    before = Path("runs/first/net.safetensors").stat().st_mtime_ns
    code, out, err = train("--preset", "second", "--threads", "1", "--json")
    assert code == 0
    assert "starts from" not in err
    assert Path("runs/first/net.safetensors").stat().st_mtime_ns == before
    # Whoever starts from that net says so, and what it was started from.
    code, _, err = train("--preset", "second", "--threads", "1", "--set", "init=second-1", "--run", "third")
    assert code == 0, err
    origin = checkpoint.read_meta("runs/third/net.safetensors")["info"]["started_from"]
    assert (origin["preset"], origin["started_from"]["preset"]) == ("second", "first")


def test_runs_are_compared(train, mistake):
    train(*words("tables", "--games", "64", "--run", "one"))
    train(*words("tables", "--games", "128", "--run", "two", "--set", "td.lambda=0.25"))
    code, out, _ = train("--compare", "one", "runs/two", "--picture", "curves.svg")
    assert code == 0
    table, settings = out.split("\n\n")
    assert re.search(r"^one +64 +\d+ s +\d\.\d{3} +\d\.\d{3}  [▁-█]+$", table, re.MULTILINE)
    assert re.search(r"^two +128 ", table, re.MULTILINE)
    assert [line.split() for line in settings.splitlines()] == [
        ["setting", "one", "two"],
        ["games", "64", "128"],
        ["td.lambda", "0.9", "0.25"],
    ]
    curves = re.findall('polyline points="([^"]+)"', Path("curves.svg").read_text())
    assert len(curves) == 2
    for run, curve in zip(("one", "two"), curves, strict=True):
        heights = [float(point.split(",")[1]) for point in curve.split()]
        scores = [point.value for point in events_of(f"runs/{run}").Scalars("score/swh")]
        assert len(heights) == len(scores)
        assert heights.index(min(heights)) == scores.index(max(scores))
    assert mistake("--compare", "one") == "--compare takes two or more runs"
    assert mistake("--compare", "one", "tow") == "there is no run 'tow'; did you mean 'two'?"
    assert "must end in .svg" in mistake("--compare", "one", "two", "--picture", "x.png")
    assert "--picture is drawn of runs" in mistake("--picture", "x.svg")


# --- while it runs ---------------------------------------------------------------------------------------------------


def test_progress_in_a_file_is_a_plain_line_now_and_then(capfd):
    with progress("training", 1000, plain_seconds=0.0) as shown:
        shown.update(250, "64 games")
    with progress("training", 1000, plain_seconds=1000.0) as shown:
        shown.update(500, "128 games")
    with progress("training", 1000) as shown:
        shown.update(500, "256 games")
    assert capfd.readouterr() == ("", " 25%  64 games\n")


def test_minutes_count_from_the_first_step_which_compiles(train, monkeypatch):
    original = OnlineLearner.play

    def play(self):
        if not self.steps:
            time.sleep(0.2)
        return original(self)

    monkeypatch.setattr(OnlineLearner, "play", play)
    train(*words("tables", "--games", "1000000000", "--minutes", "0.002"))
    assert arrays_of("quick-1")["steps"][0] > 1


def test_a_net_is_measured_when_its_games_have_doubled():
    class Counted:
        games = 0

    growth = Growth(Timer(1000.0), Counted())
    assert not growth.due(), "nothing to grow from"
    growth.done(0.0)
    found = []
    for Counted.games in range(16, 1600, 16):
        if growth.due():
            found.append(Counted.games)
            growth.done(0.0)
    assert found == [16, 32, 64, 128, 256, 512, 1024]
    growth.done(1000.0)
    Counted.games = 10**6
    assert not growth.due(), "measuring must not take most of the time"
