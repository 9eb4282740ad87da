"""Another program as a process that is talked to in lines: nothing it does may hang or crash this one.

A thread of its own reads what the program says, so that every wait can have an end; another keeps the last lines of its
stderr, where programs say why they die. The program runs in a session of its own: Ctrl-C at the terminal is for us, who
then end it together with whatever it has started; so does ``end_all`` with all of them, when this process is to end.

What a program says is bounded wherever it waits or is kept. Read ``player.py`` next.
"""

from __future__ import annotations

import contextlib
import os
import queue
import shlex
import shutil
import signal
import subprocess
import threading
import time
import weakref
from collections import deque
from pathlib import Path

from othello_nn.errors import cut
from othello_nn.players.base import PlayerError, PlayerFailure, PlayerStopped

# Debian puts its engines where root's PATH does not look.
GAME_FOLDERS = ("/usr/games", "/usr/local/games")
LOG_LINES, STDERR_LINES, LOGGED_CHARACTERS = 40, 20, 200
# A program that talks without end is read no faster than its lines are used, and a line without end is cut: so no more
# than their product waits in memory.
WAITING_LINES, LONGEST_LINE = 1000, 8192
ANSWER_CHARACTERS = 2**20
"""What a program may say before the answer to the last line it was sent is complete. None says a hundredth of it."""
QUIT_SECONDS = 1.0
"""What a program gets to end by itself."""
_EXIT_SECONDS, _POLL_SECONDS = 0.5, 0.01


def split_command(command: str) -> list[str]:
    """The words of a command, as a shell reads them, with the program's full path in front; a PlayerError if none."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise PlayerError(f"the command {command!r} cannot be read: {str(error).lower()}") from None
    if not words:
        raise PlayerError("no command is given; write gtp:COMMAND or nboard:COMMAND")
    if words[0].startswith("~/"):  # in quotes, where the shell leaves it alone
        words[0] = str(Path.home() / words[0][2:])
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *GAME_FOLDERS])
    program = shutil.which(words[0], path=path)
    if program is None:
        there = Path(words[0]).exists()
        what = "is not a program that can be started" if there else "is not there, nor a program on the PATH"
        raise PlayerError(f"{words[0]!r} {what} (command {command!r})")
    return [program, *words[1:]]


class Stopped(PlayerStopped):
    """A wait was ended by ``interrupt``."""


_running: weakref.WeakSet[EngineProcess] = weakref.WeakSet()
_registry, _all_end = threading.Lock(), threading.Event()


def end_all() -> None:
    """End every program at once, for good: this process ends, too. Not to be called by a signal handler, which may have
    interrupted what it waits for."""
    with _registry:
        _all_end.set()
        found = list(_running)
    for process in found:
        process.interrupt()
        process.strike()


class EngineProcess:
    """A running program. Every failure is a ``PlayerFailure`` with the last exchange as its log.

    One thread sends and reads; ``interrupt`` may be called from any.
    """

    def __init__(self, words: list[str]):
        self._log: deque[str] = deque(maxlen=LOG_LINES)
        self._errors: deque[str] = deque(maxlen=STDERR_LINES)
        self._lines: queue.Queue[str | None] = queue.Queue(WAITING_LINES)
        self._interrupted = threading.Event()
        self._heard = 0
        self._collecting, self._collected, self._killed = threading.Lock(), False, False
        with _registry:
            if _all_end.is_set():
                raise Stopped("no program is started any more: this one is being ended")
            self._start(words)
            _running.add(self)
        self._threads = [
            threading.Thread(target=read, name=f"engine-{part}", daemon=True)
            for part, read in (("stdout", self._read_lines), ("stderr", self._read_errors))
        ]
        for thread in self._threads:
            thread.start()

    def _start(self, words: list[str]) -> None:
        try:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise PlayerFailure(f"the program cannot be started: {reason}") from None

    # --- the two readers ---------------------------------------------------------------------------------------------

    def _read_lines(self) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(ValueError, OSError):  # closed while it was being read
            while line := self._process.stdout.readline(LONGEST_LINE):
                self._lines.put(line.rstrip())
        self._lines.put(None)

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        with contextlib.suppress(ValueError, OSError):
            while line := self._process.stderr.readline(LONGEST_LINE):
                self._errors.append(cut(line.rstrip(), LOGGED_CHARACTERS))

    # --- talking -----------------------------------------------------------------------------------------------------

    def send(self, line: str) -> None:
        assert self._process.stdin is not None
        self._log.append(cut(f"> {line}", LOGGED_CHARACTERS))
        self._heard = 0
        try:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
        except (OSError, ValueError):
            raise self._ended() from None

    def read(self, deadline: float, waiting_for: str) -> str:
        """The next line. ``deadline`` is a time of ``time.monotonic``, ``waiting_for`` a word for the error."""
        while True:
            left = deadline - time.monotonic()
            if self._interrupted.is_set():
                raise Stopped(f"the program was stopped while it was to answer {waiting_for!r}", self.log)
            try:
                if left <= 0:  # even if there are lines: a program that talks without end has not answered either
                    raise queue.Empty
                line = self._lines.get(timeout=left)
            except queue.Empty:
                raise PlayerFailure(
                    f"the program did not answer {waiting_for!r} in time", self.log, timed_out=True
                ) from None
            if line is None:
                raise self._ended()
            if line:
                self._log.append(cut(f"< {line}", LOGGED_CHARACTERS))
            self._heard += len(line) + 1
            if self._heard > ANSWER_CHARACTERS:
                raise self.failure(
                    f"talks without end: more than {ANSWER_CHARACTERS:,} characters, and the answer to "
                    f"{waiting_for!r} is not complete"
                )
            if line or not self._interrupted.is_set():
                return line

    def interrupt(self) -> None:
        """End the wait that is running, and every later one."""
        self._interrupted.set()
        with contextlib.suppress(queue.Full):
            self._lines.put_nowait("")

    @property
    def interrupted(self) -> bool:
        return self._interrupted.is_set()

    def forget(self) -> None:
        """Begin a new log."""
        self._log.clear()

    @property
    def log(self) -> str:
        """What was last said to (>) and by (<) the program, and its last words on stderr (!)."""
        return "\n".join([*self._log, *(f"! {line}" for line in list(self._errors))])

    def failure(self, message: str) -> PlayerFailure:
        return PlayerFailure(f"the program {message}", self.log)

    def _ended(self) -> PlayerFailure:
        """The failure of a program that has ended by itself, or closed its output, which comes to the same."""
        if self._interrupted.is_set():
            return Stopped("the program was stopped", self.log)
        until = time.monotonic() + _EXIT_SECONDS
        status = None
        if hasattr(os, "waitid"):
            # Looked at, not collected: until ``kill`` the process number must stay ours.
            flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
            with contextlib.suppress(ChildProcessError):
                while (status := os.waitid(os.P_PID, self._process.pid, flags)) is None and time.monotonic() < until:
                    time.sleep(_POLL_SECONDS)
        self._threads[1].join(_EXIT_SECONDS)
        how = "has closed its output"
        if status is not None:
            exited = status.si_code == os.CLD_EXITED
            how = (
                f"has ended with exit code {status.si_status}" if exited else f"was ended by signal {status.si_status}"
            )
        last = next((line.strip() for line in reversed(list(self._errors)) if line.strip()), "")
        return self.failure(f"{how}{f': {last}' if last else ''}")

    # --- ending ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ask the program to end, and see to it."""
        with contextlib.suppress(PlayerFailure):
            self.send("quit")
        with contextlib.suppress(OSError):
            self._process.stdin.close()  # type: ignore[union-attr]
        until = time.monotonic() + QUIT_SECONDS
        with contextlib.suppress(PlayerFailure):
            while True:
                self.read(until, "quit")
        self.kill()

    def strike(self) -> None:
        """End the program and all that it has started, without looking after the rest. May be called by any thread."""
        # Not yet collected, so the number of the process cannot have become another's.
        with self._collecting, contextlib.suppress(ProcessLookupError, PermissionError):
            if self._collected:
                return
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()

    def kill(self) -> None:
        """End the program and all that it has started, at once."""
        if self._killed:
            return
        self._killed = True
        self.strike()
        with self._collecting:
            self._process.wait()
            self._collected = True
        until = time.monotonic() + _EXIT_SECONDS
        while any(thread.is_alive() for thread in self._threads) and time.monotonic() < until:
            with contextlib.suppress(queue.Empty):
                while True:  # the reader may wait for room
                    self._lines.get_nowait()
            self._threads[0].join(_POLL_SECONDS)
        # What has left the group may hold on to a pipe. Then its reader, which only waits, is left alone.
        readers = (self._threads[0], self._process.stdout), (self._threads[1], self._process.stderr)
        for pipe in [self._process.stdin, *(pipe for thread, pipe in readers if not thread.is_alive())]:
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
