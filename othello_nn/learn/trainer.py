"""Everything around the loop in ``train.py``: when it ends, what is shown of it, what is kept.

A learner (``learner.py``) learns, a ``Run`` is its folder, a ``Logger`` writes its curves, ``Strength`` lets it play.
What is done by the clock (measuring, saving) leaves the learning untouched: the same seed gives the same net however
often the run is measured, saved, stopped and resumed. Of several ranks, rank 0 measures, shows and writes.
"""

from __future__ import annotations

import math
import shutil
import signal
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from othello_nn.checkpoint import Checkpoint
from othello_nn.engine.leaf.compile import ColouredEvaluator, CompileError, compile_checkpoint, why_not_compiled
from othello_nn.errors import OthelloError
from othello_nn.fit.probcut import FitError, fit_watched
from othello_nn.learn.distributed import Group
from othello_nn.learn.learner import Learner, TrainingError, is_out_of_memory, origin
from othello_nn.learn.runs import Run, versions
from othello_nn.learn.td.statistics import LateMetrics
from othello_nn.learn.watch.ahead import LADDER, SEARCH, CompiledAhead
from othello_nn.learn.watch.curves import curve, find_curve
from othello_nn.learn.watch.ladder import ELO, rungs
from othello_nn.learn.watch.logger import Logger, Silence
from othello_nn.learn.watch.strength import Self, Strength
from othello_nn.nets import Net, NetError, export
from othello_nn.program import TRAIN, note
from othello_nn.progress import Progress, progress
from othello_nn.sparkline import can_show_sparkline, sparkline

LOG_SECONDS = 1.0
PLAIN_SECONDS = 10.0
"""Between two lines of a run whose progress goes to a file."""
FIRST_FRAME, FRAMES_APART = 256, 4
"""The net is drawn at so many games and whenever it has so many times as many, so that TensorBoard's slider is a film
of the run. Early on much is learnt in a moment."""
SPARED = 5
"""That waits until so many times the duration of the last time has passed: it takes a sixth of the time."""
WIDE, SPARK = 100, 12
"""From so many columns on, a terminal's line has room for a curve of so many points."""
PROBCUT_DEPTH, PROBCUT_SOLVE = 7, 14
"""How deep positions are searched for ProbCut, and from how many empties on they are solved: some seconds for 400."""
FITTED_SHOWN = 20
BAR = 1000  # the progress bar counts in thousandths of the run
SPEED = curve("speed/games_per_second", "games played and learnt from, all processes together")


@dataclass(frozen=True)
class Summary:
    """How a run ended."""

    run: Run
    games: int
    unit: str
    """What ``games`` counts."""
    seconds: float
    results: dict[str, float]
    """The last scores, by the short names of their curves."""
    curve: tuple[float, ...]
    """The ratings on the ladder since the program was started."""
    top: float
    """The highest rung of the ladder."""
    interrupted: bool
    finished: bool
    unsaved: str = ""
    """Why the last save failed, if it did."""


Frame = tuple[Self, Self | None]
"""A net to be drawn, and its earlier self."""


class _StoppedError(Exception):
    """Ctrl-C, in the midst of what can be left out."""


class Timer:
    """Says when something is due again."""

    def __init__(self, seconds: float):
        self.seconds, self.last = seconds, time.monotonic()

    def due(self) -> bool:
        if time.monotonic() - self.last < self.seconds:
            return False
        self.last = time.monotonic()
        return True


class Growth:
    """Says when to measure: by a timer, and besides whenever the learner has twice the games."""

    def __init__(self, timer: Timer, learner: Learner):
        self._timer, self._learner = timer, learner
        self._games, self._ended, self._took = 0, -math.inf, 0.0

    @property
    def _grown(self) -> bool:
        return bool(self._games) and self._learner.games >= 2 * self._games

    def due(self) -> bool:
        rested = time.monotonic() - self._ended >= SPARED * self._took
        return self._timer.due() or (self._grown and rested)

    def done(self, seconds: float) -> None:
        """It is done, which has taken so long. From a net without games on, the first has one."""
        self._games, self._ended, self._took = max(1, self._learner.games), time.monotonic(), seconds


class Film(Growth):
    """Says when to draw: by a timer, and at 256 games, 1,024, 4,096 and so on, the same in all runs.

    These may follow each other faster than pictures are drawn: so the net is kept as it is then, and drawn later.
    """

    def __init__(self, timer: Timer, learner: Learner):
        super().__init__(timer, learner)
        self.frames: deque[Frame] = deque()
        self._next = frame_after(learner.games)

    def remember(self, strength: Strength) -> None:
        """Asked after every step."""
        games = self._learner.games
        if games >= self._next:
            self._next = frame_after(games)
            self.frames.append((Self.of(games, self._learner.net()), strength.earlier(games)))

    @property
    def _grown(self) -> bool:
        return bool(self.frames)


def frame_after(games: int) -> int:
    """The number of games at which the next picture is drawn.

    >>> [frame_after(games) for games in (0, 256, 1000, 1024, 70_000)]
    [256, 1024, 1024, 4096, 262144]
    """
    frame = FIRST_FRAME
    while frame <= games:
        frame *= FRAMES_APART
    return frame


class Trainer:
    """A run in the making: ``with Trainer(…) as trainer`` begins it, the end of the block measures and saves it."""

    def __init__(
        self,
        run: Run,
        learner: Learner,
        group: Group,
        threads: int,
        *,
        minutes: float | None = None,
        quiet: bool = False,
    ):
        self.run, self.config, self.learner, self.group = run, run.config, learner, group
        self.minutes, self.quiet = minutes, quiet
        learner.folder = run.folder
        measure = self.config.measure
        # The other ranks on this machine wait while rank 0 measures, so their cores are free.
        self.strength = Strength(measure.double_games, self.config.seed, threads * group.local_size, measure.seconds)
        self.scores: dict[str, float] = {}
        self.time_to_log = Timer(LOG_SECONDS)
        self.time_to_show = Film(Timer(measure.pictures_seconds), learner)
        self.time_to_measure = Growth(Timer(measure.seconds), learner)
        self._curve: list[float] = []
        self._time_to_save = Timer(measure.save_seconds)
        self._save = False
        """All ranks have found that it is time to save."""
        self._stop = False
        self._warm: float | None = None
        """When the first step had been made. It compiles what the others use, so minutes count from there."""
        self._unsaved = ""
        self._probcut: np.ndarray | None = None
        self._metrics: Mapping[str, float] = {}
        self._origin = origin(self.config)
        self._ahead: CompiledAhead | None = None
        self._open = ExitStack()
        self._logger: Any = Silence()
        self._bar: Progress | None = None

    @property
    def is_rank_0(self) -> bool:
        return self.group.is_rank_0

    def resume(self) -> None:
        """Go on from the state saved last."""
        arrays = self.run.load_state()
        try:
            self.strength.restore(arrays, self.learner.net())
            self.learner.restore(arrays)
        except (KeyError, ValueError, RuntimeError) as error:
            raise TrainingError(f"{self.run.state_path}: does not fit this run ({error})") from None

    # --- beginning and end -------------------------------------------------------------------------------------------

    def __enter__(self) -> Trainer:
        self._started, self._before = time.monotonic(), (time.monotonic(), self.learner.games)
        self._open.enter_context(self._stoppable())
        quiet = self.quiet or not self.is_rank_0
        shown = progress("training", BAR, counted=False, quiet=quiet, plain_seconds=PLAIN_SECONDS)
        self._bar = self._open.enter_context(shown)
        try:
            if self.is_rank_0:
                self._begin()
        except BaseException:
            self._open.close()
            self._give_up()
            raise
        return self

    def _begin(self) -> None:
        self.run.clean()
        if self.config.measure.probcut and not why_not_compiled(self.learner.net().config):
            ahead = self._ahead = CompiledAhead(lambda: self.checkpoint(0.0))
            self._open.callback(ahead.close)
            self.strength.ladder.wait = lambda: ahead.wait(LADDER)
        self._logger = Logger(self.run.folder, self.learner.games)
        self.strength.remember(self.learner)
        if not self.learner.games:
            self._logger.begin(self.config)
            self.measure()
            self.show()

    def _give_up(self) -> None:
        """A run that failed before it learnt anything leaves no folder behind: there is nothing to look at."""
        self.strength.ladder.close()
        self._logger.close()
        if self.is_rank_0 and not self.learner.games:
            self.run.remove_if_unused()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._open:
            if error is None:
                self._check_metrics()
                self._logger.scalars(self._metrics, self.learner.games)
                self.measure(last=True)
                self.show(last=True)
                self._logger.projector(self.learner.net())
                self.save()
                self.fit()
                self.group.barrier()
            self._logger.close()
        if error is not None:
            self._give_up()
        if error is not None and is_out_of_memory(error):
            traceback.clear_frames(trace)  # they hold on to what the step had allocated
            advice = self.learner.when_out_of_memory()
            raise TrainingError("out of memory" + (f" {advice}" if advice else "")) from None

    @property
    def summary(self) -> Summary:
        seconds, finished = time.monotonic() - self._started, self.learner.progress >= 1
        named = {find_curve(tag): score for tag, score in self.scores.items()}
        results = {each.short: round(score, each.digits + 1) for each, score in named.items() if each.short != each}
        return Summary(
            self.run,
            self.learner.games,
            self.learner.unit,
            seconds,
            results,
            tuple(self._curve),
            max(rungs().values()),
            self._stop,
            finished,
            self._unsaved,
        )

    def done(self) -> bool:
        """All games are learnt, the minutes are over, or Ctrl-C. All ranks get the same answer."""
        if not self.learner.synchronised:
            return False
        learning = 0.0 if self._warm is None else time.monotonic() - self._warm
        late = self.minutes is not None and learning >= 60 * self.minutes
        stop, self._save = self.group.any(self._stop or late, self.is_rank_0 and self._time_to_save.due())
        return stop or self.learner.progress >= 1

    @property
    def save_is_due(self) -> bool:
        """Whether to save after this step. Between two merges the ranks' tables differ, and rank 0's are not all."""
        return self._save and self.learner.synchronised

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

    # --- while it runs -----------------------------------------------------------------------------------------------

    def log(self, metrics: Mapping[str, float]) -> None:
        """What a step found, for the curves and the terminal: thinned, unless the learner says it only now and then.

        Numbers that a device is still working on are only looked at when they are shown.
        """
        self._metrics = metrics
        self._warm = self._warm or time.monotonic()
        if self.is_rank_0:
            self.strength.remember(self.learner)
            self.time_to_show.remember(self.strength)
        late = isinstance(metrics, LateMetrics) and not metrics.ready
        due = self.time_to_log.due()
        if late and not due:
            return
        self._check_metrics()
        if not self.is_rank_0:
            return
        if due or any(find_curve(tag).sparse for tag in metrics):
            now = time.monotonic(), self.learner.games
            speed = (now[1] - self._before[1]) / max(now[0] - self._before[0], 1e-9)
            self._before = now
            shown = {**metrics, **self.learner.meters(), SPEED: speed}
            self._logger.scalars(shown, self.learner.games)
            if self._bar is not None:
                self._bar.update(int(BAR * self.learner.progress), self._line(shown))

    def _check_metrics(self) -> None:
        """Numbers beyond all bounds end a run, before it is saved."""
        if wrong := [tag for tag, number in self._metrics.items() if not math.isfinite(number)]:
            advice = f"; {self.learner.when_diverged}" if self.learner.when_diverged else ""
            raise TrainingError(f"training has diverged: {wrong[0]} is {self._metrics[wrong[0]]}{advice}")

    def measure(self, last: bool = False) -> None:
        """Let the net play, as it would be saved: that may be smoother than what plays the games to learn from."""
        if self.is_rank_0:
            began = time.monotonic()
            found = self.strength.scores(self.learner, last)
            self.scores |= found
            self.time_to_measure.done(time.monotonic() - began)
            if ELO in found:
                for games, late in self.strength.late_ratings():
                    self._curve.append(late[ELO])
                    self._logger.scalars(late, games)
                self._curve.append(found[ELO])
            self._logger.scalars(found, self.learner.games)
            self._logger.flush()

    def show(self, last: bool = False) -> None:
        """Pictures and histograms: of the frames of the film that are due; else, and for the last time, of the net as
        it is now."""
        if not self.is_rank_0:
            return
        began, net, now = time.monotonic(), self.learner.net(), self.learner.games
        frames = self.time_to_show.frames
        is_now = last or not frames
        for frame, before in frames:
            if not (is_now and frame.games == now):
                self._draw(frame.put_into(net), {}, frame.games, before)
        frames.clear()
        if is_now:
            self._logger.scalars(self.learner.details(), now)
            self._draw(net, self.learner.pictures(), now, self.strength.earlier(now))
        self.time_to_show.done(time.monotonic() - began)

    def _draw(self, net: Net, others: dict[str, np.ndarray], games: int, earlier: Self | None) -> None:
        self._logger.pictures(net, others, games, earlier)
        self._logger.histograms(net, games)

    def save(self) -> None:
        """The state, then the net, which is smaller and may fit where the state does not. If that fails, training goes
        on: the disk may have room again next time."""
        self._check_metrics()
        state = self.learner.state()  # all ranks have a part in it
        if not self.is_rank_0:
            return
        seconds = time.monotonic() - self._started
        failed = [
            self._why_unsaved(self.run.state_path, lambda: self.run.save_state(state | self.strength.state())),
            self._why_unsaved(self.run.net_path, lambda: self.run.save_net(self.checkpoint(seconds))),
        ]
        lines = [line for line in failed if line]
        if lines and not self._unsaved:
            note(TRAIN, f"{lines[0][0]} could not be saved: {lines[0][1]}; training goes on")
        self._unsaved = lines[0][1] if lines else ""

    def fit(self) -> None:
        """Let the net that is left search selectively: fit ProbCut to it, unless its learner has, and save it again.

        Ctrl-C leaves it as it is. Of the run's state nothing changes, so that a run that goes on ends in another fit.
        """
        positions = self.config.measure.probcut
        if not self.is_rank_0 or self._stop or not positions or self.learner.probcut is not None:
            return
        made = self.checkpoint(seconds := time.monotonic() - self._started)
        try:
            evaluator = compile_checkpoint(made, self.run.name)
            if isinstance(evaluator, ColouredEvaluator):  # ProbCut is for one evaluator, not for two
                return
            if self._ahead is not None:
                self._ahead.wait(SEARCH)
            how = PROBCUT_DEPTH, PROBCUT_SOLVE, self.config.seed
            found = fit_watched(evaluator, positions, *how, self._tell_fitted)
        except (CompileError, _StoppedError):  # a net of the user's own, or one that is wanted now
            return
        except FitError as error:
            note(TRAIN, error)
            return
        self._probcut = found.numbers()
        if failed := self._why_unsaved(self.run.net_path, lambda: self.run.save_net(self.checkpoint(seconds))):
            self._unsaved = failed[1]

    def _tell_fitted(self, number: int, positions: int) -> None:
        if self._stop:
            raise _StoppedError
        if self._bar is not None and number % FITTED_SHOWN == 0:
            self._bar.update(BAR, f"fitting ProbCut: {number} of {positions} positions")

    def _why_unsaved(self, path: Path, save: Callable[[], None]) -> tuple[str, str] | None:
        """What could not be saved and why, if it could not."""
        try:
            save()
        except OSError as error:
            return error.filename or str(path), error.strerror or str(error)
        except OthelloError as error:
            return str(path), str(error)
        return None

    def checkpoint(self, seconds: float) -> Checkpoint:
        """The net as players take it, with the recipe that made it."""
        info = {"recipe": self.config.recipe, "games": self.learner.games, "seconds": round(seconds)}
        info["progress"] = self.learner.progress
        info |= {"metrics": {tag: round(score, 4) for tag, score in self.scores.items()}, "versions": versions()}
        if self._origin:
            info["started_from"] = self._origin
        net = self.learner.net()
        try:
            made = export(net, info, quantise=not self.learner.keeps_floats)
        except NetError:  # a weight that 16 bits cannot hold
            made = export(net, info, quantise=False)
        probcut = self._probcut if self.learner.probcut is None else self.learner.probcut
        return replace(made, probcut=probcut, calibration=self.learner.calibration)

    def _line(self, metrics: dict[str, float]) -> str:
        """Short enough for a terminal of 80 columns, with the bar and the times."""
        line = f"{_short(self.learner.games)} {self.learner.unit} {_short(metrics[SPEED])}/s"
        for tag, number in (metrics | self.scores).items():
            if (shown := find_curve(tag)).live:
                line += f" {shown.short} {number:.{shown.digits}f}"
        if len(self._curve) > 1 and shutil.get_terminal_size().columns >= WIDE and can_show_sparkline(sys.stderr):
            line += f" {sparkline(self._curve, 0, max(1.0, *self._curve), SPARK)}"
        return line


def _short(number: float) -> str:
    """1234567 as 1.2M."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.0f}"
