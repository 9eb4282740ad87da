"""Code that another process compiles while a run has other work."""

import sys
import time

import pytest

from othello_nn.kernels import jit
from othello_nn.learn.watch import ahead
from othello_nn.learn.watch.ahead import LADDER, SEARCH, CompiledAhead
from othello_nn.nets import NTupleNet, export

NET = export(NTupleNet("all-1"))


@pytest.fixture
def program(monkeypatch):
    """Stands for the other process: it does what it is told here."""

    def is_to(do: str) -> None:
        monkeypatch.setattr(ahead, "PROGRAM", [sys.executable, "-c", do])

    yield is_to
    jit.when_compiling(None)


def test_nothing_is_begun_as_long_as_nothing_has_to_be_compiled(program):
    program("raise SystemExit")
    made = CompiledAhead(lambda: pytest.fail("nobody needs a net"))
    made.wait(LADDER)
    made.close()
    jit._announce()  # nor is it after the end


def test_what_is_made_is_waited_for_once_and_the_rest_is_given_up(program, tmp_path):
    begun = tmp_path / "begun"
    program(f"import sys, time; print('{LADDER}', flush=True); open({str(begun)!r}, 'x').close(); time.sleep(600)")
    made = CompiledAhead(lambda: NET)
    jit._announce()
    jit._announce()  # the second one begins no second process: it could not make the file
    made.wait(LADDER)
    made.wait(LADDER)
    process = made._process
    assert process is not None
    assert process.poll() is None
    started = time.monotonic()
    made.close()
    assert process.poll() is not None
    assert time.monotonic() - started < 60
    made.wait(SEARCH)  # comes back at once


def test_a_process_that_fails_is_not_waited_for(program):
    program("raise SystemExit(1)")
    made = CompiledAhead(lambda: NET)
    jit._announce()
    made.wait(LADDER)
    made.wait(SEARCH)
    made.close()


def test_a_full_disk_costs_no_more_than_the_help(program, monkeypatch, tmp_path):
    program("raise SystemExit")

    def full() -> None:
        raise OSError(28, "No space left on device")

    made = CompiledAhead(full)
    jit._announce()
    made.wait(LADDER)
    made.close()
    monkeypatch.setattr(ahead, "PROGRAM", [str(tmp_path / "not there")])
    made = CompiledAhead(lambda: NET)
    jit._announce()
    made.wait(SEARCH)
    made.close()


def test_without_a_cache_nobody_would_find_what_is_made(program, monkeypatch):
    monkeypatch.setattr(ahead, "cache_folder", lambda: None)
    made = CompiledAhead(lambda: pytest.fail("nobody needs a net"))
    jit._announce()
    made.close()


def test_the_other_process_makes_the_ladder_then_the_search(tmp_path, capsys):
    NET.save(tmp_path / "net.safetensors")
    ahead.main(str(tmp_path / "net.safetensors"))
    assert capsys.readouterr().out.split() == [LADDER, SEARCH]
    assert not list(tmp_path.iterdir())
