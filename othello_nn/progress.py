"""Progress on stderr: a bar for people at a terminal. In a pipe or a file, nothing, or a plain line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Progress(Protocol):
    """Something to report progress to."""

    def update(self, done: int | None = None, text: str | None = None) -> None: ...


class _Silent:
    def update(self, done: int | None = None, text: str | None = None) -> None:
        pass


class _Lines:
    """A plain line every so many seconds."""

    def __init__(self, total: int | None, seconds: float):
        self._total, self._seconds = total, seconds
        self._last = time.monotonic()

    def update(self, done: int | None = None, text: str | None = None) -> None:
        if time.monotonic() - self._last < self._seconds:
            return
        self._last = time.monotonic()
        share = f"{done / self._total:4.0%}  " if done is not None and self._total else ""
        print(f"{share}{text or ''}", file=sys.stderr, flush=True)


class _Bar:
    def __init__(self, progress, task):
        self._progress, self._task = progress, task

    def update(self, done: int | None = None, text: str | None = None) -> None:
        self._progress.update(self._task, completed=done, description=text)


@contextmanager
def progress(
    text: str,
    total: int | None = None,
    *,
    counted: bool = True,
    quiet: bool = False,
    plain_seconds: float | None = None,
) -> Iterator[Progress]:
    """A bar that fills up to ``total``, or without a total a sign of life with the time that has passed.

    ``counted`` shows how many of the total are done; a narrower bar without it leaves room for the text. Without a
    terminal, a line is printed every ``plain_seconds``, if they are given.
    """
    if quiet or not sys.stderr.isatty():
        yield _Silent() if quiet or plain_seconds is None else _Lines(total, plain_seconds)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as RichProgress

    columns = [SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()]
    if total is not None:
        columns[1:1] = [BarColumn(bar_width=24), MofNCompleteColumn()] if counted else [BarColumn(bar_width=12)]
        columns += [TextColumn("left:"), TimeRemainingColumn()]
    # Results printed meanwhile must not end up inside the bar; a stdout that is not the terminal is left alone.
    shared = sys.stdout.isatty()
    with RichProgress(
        *columns, console=Console(stderr=True), transient=True, redirect_stdout=shared, redirect_stderr=True
    ) as live:
        yield _Bar(live, live.add_task(text, total=total))
