"""Kernels in threads: they hold no lock, so that threads can work on parts of the same arrays at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def parts_of(count: int, size: int) -> list[slice]:
    """``count`` rows in parts of ``size``.

    >>> parts_of(5, 2)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return [slice(first, min(first + size, count)) for first in range(0, count, size)]


def in_threads(
    work: Callable[[T], R], items: Iterable[T], threads: int, on_done: Callable[[R], object] | None = None
) -> list[R]:
    """What ``work`` makes of each item, in order; ``on_done`` is told of each as soon as all before it are done too.

    Ctrl-C, or an error of one of them, ends it: the items at work are waited for, no other is begun.
    """
    pool, results = ThreadPoolExecutor(threads), []
    try:
        for result in pool.map(work, items):
            results.append(result)
            if on_done is not None:
                on_done(result)
    finally:
        pool.shutdown(cancel_futures=True)
    return results
