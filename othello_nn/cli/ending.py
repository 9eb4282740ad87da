"""SIGTERM and SIGHUP: the programs that play here end with this one, within a second and whatever it is doing.

Python runs a signal's handler in the main thread, and only between two steps of its own: a compiler can keep it waiting
for long. So a thread hears of signals, too. It ends the programs at once; the main thread has ``GRACE_SECONDS`` more to
leave by the usual way.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

GRACE_SECONDS = 0.5


class Terminated(SystemExit):
    """The end by a signal, with the exit code that a shell gives it."""

    def __init__(self, number: int):
        super().__init__(128 + number)


def end_programs() -> None:
    """End the other programs that play here; if their module was never imported there are none."""
    if external := sys.modules.get("othello_nn.players.external.process"):
        external.end_all()


@contextmanager
def programs_end_with_us() -> Iterator[None]:
    """What the signals mean while a command runs. One that is ignored, as under nohup, stays so."""
    usual = (number for name in ("SIGTERM", "SIGHUP") if (number := getattr(signal, name, None)) is not None)
    ours = [number for number in usual if signal.getsignal(number) is signal.SIG_DFL]
    if os.name != "posix" or threading.current_thread() is not threading.main_thread() or not ours:
        yield
        return
    heard, told = os.pipe()
    os.set_blocking(told, False)
    watcher = threading.Thread(target=_watch, args=(heard, set(ours)), name="signals", daemon=True)
    watcher.start()
    wakeup = signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    for number in ours:
        signal.signal(number, _raise)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(wakeup)
        os.close(told)
        watcher.join()
        os.close(heard)


def _raise(number: int, frame: object) -> None:
    raise Terminated(number)


def _watch(heard: int, ours: set[int]) -> None:
    while numbers := os.read(heard, 64):
        if found := ours & set(numbers):
            end_programs()
            timer = threading.Timer(GRACE_SECONDS, os._exit, [128 + min(found)])
            timer.daemon = True
            timer.start()
