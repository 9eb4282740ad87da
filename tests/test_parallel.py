"""Work in threads: order, what is told on the way, and how it ends early."""

import threading

import numpy as np
import pytest

from othello_nn.kernels.parallel import in_threads, parts_of


@pytest.mark.parametrize(("count", "size"), [(0, 3), (1, 3), (3, 3), (10, 3), (10, 100)])
def test_parts_cover_everything_once(count, size):
    rows = np.arange(count)
    parts = parts_of(count, size)
    assert [row for part in parts for row in rows[part]] == list(range(count))
    assert all(part.stop - part.start <= size for part in parts)
    assert len(parts) == -(-count // size)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_order_and_are_told_as_they_come(threads):
    told = []
    assert in_threads(lambda n: n * n, range(20), threads, told.append) == [n * n for n in range(20)]
    assert told == [n * n for n in range(20)]


def test_threads_work_at_the_same_time():
    both = threading.Barrier(2, timeout=60)
    assert sorted(in_threads(lambda _: both.wait(), range(2), 2)) == [0, 1]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, ValueError])
def test_after_an_interruption_nothing_is_begun(stop):
    begun, before = [], set(threading.enumerate())  # a learner of another test may still have its own
    go_on = threading.Event()

    def work(number: int) -> int:
        begun.append(number)
        if number:
            go_on.wait(60)
        return number

    def told(number: int) -> None:
        go_on.set()  # whoever was at work may finish; the others wait for a thread
        raise stop

    with pytest.raises(stop):
        in_threads(work, range(100), 1, told)
    assert len(begun) < 100
    assert begun == list(range(len(begun)))
    assert set(threading.enumerate()) <= before


def test_an_error_in_a_thread_is_the_callers():
    def work(number: int) -> int:
        if number == 3:
            raise ZeroDivisionError
        return number

    told = []
    with pytest.raises(ZeroDivisionError):
        in_threads(work, range(50), 2, told.append)
    assert told == [0, 1, 2]
