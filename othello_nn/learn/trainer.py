"""The training loop: steps, and now and then a measurement, a picture, a save.

A learner (``learner.py``) does the learning, a ``Run`` keeps it on disk, a ``Monitor`` shows it. Everything that is
done by the clock (measuring, saving) leaves the learning untouched: the same seed gives the same net however often the
run is measured, saved, stopped and resumed.
"""

from __future__ import annotations

import math
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from othello_nn.checkpoint import Checkpoint
from othello_nn.config import Config, ConfigError
from othello_nn.engine.leaf.compile import compile_net
from othello_nn.errors import OthelloError
from othello_nn.learn.distributed import Processes
from othello_nn.learn.learner import Learner, origin
from othello_nn.learn.make import make_learner
from othello_nn.learn.runs import Run, versions
from othello_nn.learn.td.learners import float_state
from othello_nn.learn.watch.logger import Monitor, Silence
from othello_nn.learn.watch.strength import Strength
from othello_nn.nets import NetError, export
from othello_nn.progress import progress

LOG_SECONDS = 1.0
BAR = 1000  # the progress bar counts in thousandths of the run


class TrainingError(OthelloError):
    """Training had to stop; what was saved is still there."""

    exit_code = 1


@dataclass(frozen=True)
class Summary:
    """How a run ended."""

    games: int
    seconds: float
    scores: dict[str, float]
    interrupted: bool
    finished: bool
    unsaved: str = ""
    """Why the last save failed, if it did."""


class _Timer:
    """Says when something is due again."""

    def __init__(self, seconds: float):
        self.seconds, self.last = seconds, time.monotonic()

    def due(self) -> bool:
        if time.monotonic() - self.last < self.seconds:
            return False
        self.last = time.monotonic()
        return True


class Trainer:
    """Trains a run until its games are played, its minutes are over, or Ctrl-C."""

    def __init__(
        self,
        run: Run,
        learner: Learner,
        processes: Processes,
        threads: int,
        *,
        minutes: float | None = None,
        quiet=False,
    ):
        self.run, self.config, self.processes, self.quiet = run, run.config, processes, quiet
        self.learner = learner
        self.strength = Strength(self.config.measure.double_games, self.config.seed, threads)
        self.minutes = minutes
        self.scores: dict[str, float] = {}
        self._stop = False
        self._unsaved = ""
        self._origin = origin(self.config)

    def resume(self) -> None:
        """Go on from the state saved last."""
        arrays = self.run.load_state()
        try:
            self.learner.restore(arrays)
        except (KeyError, ValueError, RuntimeError) as error:
            raise TrainingError(f"{self.run.state_path}: does not fit this run ({error})") from None

    def train(self) -> Summary:
        """The loop. In several processes all take part in it; one of them measures, logs and saves."""
        started, first_games = time.monotonic(), self.learner.games
        measure, leads = self.config.measure, self.processes.leads
        monitor: Any = Monitor(self.run.folder, first_games) if leads else Silence()
        log, score, picture, save = (
            _Timer(s) for s in (LOG_SECONDS, measure.seconds, measure.pictures_seconds, measure.save_seconds)
        )
        before = started, first_games
        metrics: dict[str, float] = {}
        with self._stoppable(), progress("training", BAR, counted=False, quiet=self.quiet or not leads) as bar:
            if leads and not first_games:
                monitor.config(self.config.as_dict())
                self._measure(monitor)
                self._show(monitor)
            while self.learner.progress < 1 and not self._stopped(started):
                metrics = self._step()
                if not leads:
                    continue
                if log.due() or any(tag.startswith("backwards/") for tag in metrics):
                    now = time.monotonic(), self.learner.games
                    metrics["speed/games_per_second"] = (now[1] - before[1]) / max(now[0] - before[0], 1e-9)
                    before = now
                    monitor.scalars(metrics, self.learner.games)
                    bar.update(int(BAR * self.learner.progress), self._line(metrics))
                if score.due():
                    self._measure(monitor)
                if picture.due():
                    self._show(monitor)
                if save.due():
                    self._save(started)
            if leads:
                monitor.scalars(metrics, self.learner.games)
                self._measure(monitor)
                self._show(monitor)
                self._save(started)
                monitor.close()
        self.processes.wait()
        seconds, finished = time.monotonic() - started, self.learner.progress >= 1
        return Summary(self.learner.games, seconds, self.scores, self._stop, finished, self._unsaved)

    def _step(self) -> dict[str, float]:
        try:
            metrics = self.learner.step()
        except (RuntimeError, MemoryError) as error:
            if not _is_out_of_memory(error):
                raise
            metrics = None
        if metrics is None:  # out here, where the error no longer holds on to what the step had allocated
            raise TrainingError(_out_of_memory(self.config, self.learner))
        if wrong := [tag for tag, number in metrics.items() if not math.isfinite(number)]:
            advice = "; start anew with a lower optim.rate" if self.config.learner == "td" else ""
            raise TrainingError(f"training has diverged: {wrong[0]} is {metrics[wrong[0]]}{advice}")
        return metrics

    def _measure(self, monitor: Any) -> None:
        # The net as it is saved, which may be smoother than the one that plays the games to learn from.
        net = self.learner.net()
        evaluator = compile_net(net.config, float_state(net))
        self.scores = self.strength.scores(evaluator, self.learner.games)
        monitor.scalars(self.scores, self.learner.games)
        monitor.flush()

    def _show(self, monitor: Any) -> None:
        net = self.learner.net()
        monitor.scalars(self.learner.details(), self.learner.games)
        monitor.pictures(net, self.learner.games)
        monitor.histograms(net, self.learner.games)

    def _save(self, started: float) -> None:
        """The state, then the net. If that fails, training goes on: the disk may have room again next time."""
        try:
            self.run.save_state(self.learner.state())
            self.run.save_net(self.checkpoint(time.monotonic() - started))
            self._unsaved = ""
        except (OSError, NetError) as error:
            what, reason = self.run.net_path, str(error)
            if isinstance(error, OSError):
                what, reason = error.filename, error.strerror or str(error)
            if not self._unsaved:
                print(f"train.py: {what} could not be saved: {reason}; training goes on", file=sys.stderr)
            self._unsaved = reason

    def checkpoint(self, seconds: float) -> Checkpoint:
        """The net as players take it, with the recipe that made it."""
        info = {"recipe": self.config.as_dict(), "games": self.learner.games, "seconds": round(seconds)}
        info["progress"] = self.learner.progress
        info |= {"metrics": {tag: round(score, 4) for tag, score in self.scores.items()}, "versions": versions()}
        if self._origin:
            info["started_from"] = self._origin
        # Evolved weights may be smaller than the unit that 16 bits count in.
        net, quantise = self.learner.net(), self.config.learner != "evolve"
        try:
            return export(net, info, quantise=quantise)
        except NetError:  # a weight that 16 bits cannot hold
            return export(net, info, quantise=False)

    def _line(self, metrics: dict[str, float]) -> str:
        """Short enough for a terminal of 80 columns, with the bar and the times."""
        line = f"{_short(self.learner.games)} games {_short(metrics['speed/games_per_second'])}/s"
        if (loss := metrics.get("loss/td_error")) is not None:
            line += f" loss {loss:.3f}"
        if (score := self.scores.get("score/swh")) is not None:
            line += f" swh {score:.2f}"
        return line

    def _stopped(self, started: float) -> bool:
        late = self.minutes is not None and time.monotonic() - started >= 60 * self.minutes
        return self.processes.any(self._stop or late)

    @contextmanager
    def _stoppable(self) -> Iterator[None]:
        """Ctrl-C ends the loop after the step at hand; a second one ends the program."""

        def stop(number, frame) -> None:
            self._stop = True
            signal.signal(signal.SIGINT, signal.default_int_handler)

        try:
            before = signal.signal(signal.SIGINT, stop)
        except ValueError:  # not in the main thread, where nobody presses Ctrl-C
            yield
            return
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


def _short(number: float) -> str:
    """1234567 as 1.2M."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.0f}"


def _is_out_of_memory(error: Exception) -> bool:
    """Torch's CPU allocator says so only in its words."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in str(error)


def _out_of_memory(config: Config, learner: Learner) -> str:
    """What to say, after trying which batch would have fitted."""
    if config.learner != "td":
        return "out of memory"
    games = config.td.batch_games
    device, processes, threads = (getattr(learner, name) for name in ("device", "processes", "threads"))
    fitting = games // 2
    while fitting and processes.count == 1:
        if device.startswith("cuda"):
            torch.cuda.empty_cache()
        try:
            make_learner(config.changed([f"td.batch_games={fitting}"]), device, processes, threads).step()
        except (RuntimeError, MemoryError) as error:
            if not _is_out_of_memory(error):
                raise
            fitting //= 2
        else:
            return f"out of memory with td.batch_games={games}; {fitting} would fit: --set td.batch_games={fitting}"
    return f"out of memory with td.batch_games={games}; try --set td.batch_games={max(games // 4, 1)}"


def choose_device(name: str, local_rank: int = 0) -> str:
    """The device that a word stands for, if this machine has it."""
    if name == "cpu" or (name == "auto" and not torch.cuda.is_available()):
        return "cpu"
    if name in ("auto", "cuda"):
        name = f"cuda:{local_rank}"
    if not name.startswith("cuda:") or not name[5:].isdigit():
        raise ConfigError(f"unknown device {name!r}; choose from auto, cpu, cuda, cuda:N")
    if not torch.cuda.is_available():
        raise ConfigError(f"device {name}: torch finds no CUDA GPU here; --device cpu works everywhere")
    if int(name[5:]) >= torch.cuda.device_count():
        raise ConfigError(f"device {name}: there are {torch.cuda.device_count()} GPUs, counted from cuda:0")
    return name
