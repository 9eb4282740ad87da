"""Compile what a run will need, in a process of its own, while this one has other work.

Compiling holds Python's lock, so that a thread would gain nothing. What the other process has made is found in the
cache (``kernels/jit.py``); where there is none, or where nothing has to be compiled, no process is begun. It is a help
and no more: where it cannot be had, the run compiles for itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from othello_nn.checkpoint import Checkpoint
from othello_nn.engine.driver import Engine, Limit, Options
from othello_nn.engine.leaf.compile import ColouredEvaluator, compile_checkpoint
from othello_nn.errors import OthelloError
from othello_nn.game.position import Position
from othello_nn.kernels.jit import PACKAGE, cache_folder, when_compiling
from othello_nn.learn.watch.ladder import Ladder

LADDER, SEARCH = "ladder", "search"
"""What is made, in this order."""
PROGRAM = [sys.executable, "-m", "othello_nn.learn.watch.ahead"]


class CompiledAhead:
    """The ladder and the search for nets like this one, from the moment on that anything has to be compiled."""

    def __init__(self, checkpoint: Callable[[], Checkpoint]):
        self._checkpoint = checkpoint
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._process: subprocess.Popen[str] | None = None
        self._made: set[str] = set()
        self._reading = threading.Lock()
        if cache_folder() is not None:
            when_compiling(self._begin)

    def _begin(self) -> None:
        with suppress(OSError, OthelloError):  # no room for the net, or for a process
            self._start()

    def _start(self) -> None:
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        path = Path(self._folder.name) / "net.safetensors"
        self._checkpoint().save(path)
        paths = [str(PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._process = subprocess.Popen(
            [*PROGRAM, str(path)],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # whatever fails there is done here, and fails here
            text=True,
            start_new_session=True,  # Ctrl-C is for the run, whose last measurement still needs what is made here
        )

    def wait(self, what: str) -> None:
        """Until it is made, or cannot be: then it is compiled when it is first used."""
        with self._reading:
            if self._process is not None and self._process.stdout is not None:
                while what not in self._made and (line := self._process.stdout.readline()):
                    self._made.add(line.strip())

    def close(self) -> None:
        """Nobody needs it any more."""
        when_compiling(None)
        if self._process is not None:
            self._process.kill()  # whoever waits for a line has its end now
            with self._reading:
                self._process.communicate()
                self._process = None
        if self._folder is not None:
            self._folder.cleanup()


def main(path: str) -> None:
    """What the other process does."""
    evaluator = compile_checkpoint(Checkpoint.load(path), "ahead")
    with suppress(OSError):
        Path(path).unlink()  # nothing is left behind if the run is killed
    ladder = Ladder(1, 0, 1)
    ladder.make(evaluator)
    print(LADDER, flush=True)
    if not isinstance(evaluator, ColouredEvaluator):  # ProbCut is for one evaluator, not for two
        Engine(evaluator, Options(table_mb=1, probcut=False)).search(Position.start(), Limit(depth=1))
    print(SEARCH, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
