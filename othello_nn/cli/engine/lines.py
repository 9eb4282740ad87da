"""What another program says to our engine, line by line, and that it has gone.

The lines are read in a thread of their own, so that their end is seen while the player thinks. Then nobody may be left
who would wait for it: what was asked is still answered, for a script's sake, but with little more thought. If nobody
reads our answers either, the program ends at once, even in the middle of a compilation.
"""

from __future__ import annotations

import io
import os
import queue
import select
import threading
import time
from collections.abc import Callable, Iterator
from typing import TextIO

from othello_nn.cli.engine.thread import WAKE_SECONDS

# A GUI that talks without end is read no faster than it is answered; what is beyond the longest line is left out.
WAITING_LINES, LONGEST_LINE, CHUNK = 10_000, 2**20, 2**16
LOOK_SECONDS = 0.05


class Lines:
    """The lines of a stream. ``on_end`` is called when it ends, ``on_deserted`` when besides nobody reads ``out``; both
    by the thread that reads."""

    def __init__(
        self, stream: TextIO, out: TextIO, on_end: Callable[[], object], on_deserted: Callable[[], object]
    ) -> None:
        self._stream, self._out = stream, out
        self._on_end, self._on_deserted = on_end, on_deserted
        self._lines: queue.Queue[str | None] = queue.Queue(WAITING_LINES)
        threading.Thread(target=self._read, name="input", daemon=True).start()

    def __iter__(self) -> Iterator[str]:
        while True:
            try:
                line = self._lines.get(timeout=WAKE_SECONDS)
            except queue.Empty:
                continue
            if line is None:
                return
            yield line

    def _read(self) -> None:
        try:
            for line in _lines_of(self._stream):
                self._lines.put(line)
        finally:
            self._on_end()
            self._lines.put(None)
        while (deserted := is_deserted(self._out)) is False:
            time.sleep(LOOK_SECONDS)
        if deserted:
            self._on_deserted()


def _lines_of(stream: TextIO) -> Iterator[str]:
    """Not by the stream's own reader where it is a file: Python could not end while that waits in another thread."""
    try:
        handle = stream.fileno()
    except (AttributeError, io.UnsupportedOperation):
        yield from stream
        return
    begun = b""
    while chunk := _chunk(handle):
        *whole, begun = (begun[:LONGEST_LINE] + chunk).split(b"\n")
        for line in whole:
            yield line.decode("utf-8", "replace")
    if begun:
        yield begun.decode("utf-8", "replace")


def _chunk(handle: int) -> bytes:
    try:
        return os.read(handle, CHUNK)
    except OSError:  # a terminal that has gone
        return b""


def is_deserted(out: TextIO) -> bool | None:
    """Whether nobody reads what goes into a pipe or socket any more; None if that cannot be found out."""
    try:
        watched = select.poll()
        watched.register(out.fileno(), 0)
    except (AttributeError, ValueError, OSError):  # no such call on this system, no such file
        return None
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in watched.poll(0))
