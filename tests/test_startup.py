"""Starting: compiled code is found again by the next process, and only while the sources are what they were."""

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import othello_nn
from othello_nn.kernels import jit as compiling

SOLVE = """
from othello_nn import Position
from othello_nn.engine import Engine, Limit, Options
from othello_nn.engine.leaf.tables import weighted_squares
board = "-XOO-----XOOO---X-OXOOXXXXOOXXOXXOXXOXOXOOOOOOXX--XOOO-----O--O- X"
print(Engine(options=Options(table_mb=4)).solve(Position.parse(board)).score)
engine = Engine(weighted_squares("squares", [1.0] * 64), Options(table_mb=4))
print(engine.search(Position.start(), Limit(depth=4)).depth)
"""
LEAF = """
import numpy as np
from othello_nn.engine.leaf.tables import weighted_squares
evaluator = weighted_squares("squares", [1.0] * 64)
leaf, scratch = evaluator.leaf, np.zeros(64, np.int64)
type(leaf).begin(leaf, scratch.ctypes.data, np.uint64(7), np.uint64(8))
print(type(leaf).score(leaf, scratch.ctypes.data, np.uint64(7), np.uint64(8), 60))
"""


def run_fresh(code: str) -> tuple[str, str]:
    """Output and messages of a new process."""
    environment = os.environ | {"PYTHONPATH": str(Path(othello_nn.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_a_second_process_starts_from_the_cache():
    run_fresh(SOLVE)  # compiles, unless another test already has
    assert run_fresh(SOLVE) == ("-4.0\n4\n", "")


def test_an_evaluator_called_on_its_own_leaves_the_cache_as_it_was():
    """Its functions are parts of a search; a cache that cannot find them again would grow with every start."""
    folder = Path(othello_nn.__file__).parent
    run_fresh(LEAF)
    before = sorted(folder.rglob("*.nbc"))
    out, err = run_fresh(LEAF)
    assert out == f"{2 * 128}\n"
    assert err == ""
    assert sorted(folder.rglob("*.nbc")) == before


# --- the stamp -------------------------------------------------------------------------------------------------------


@pytest.fixture
def package(tmp_path, monkeypatch) -> Iterator[Path]:
    """A package of two modules, one of whose kernels calls the other's."""
    folder = tmp_path / "stamped"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "inner.py").write_text(INNER)
    (folder / "outer.py").write_text(OUTER)
    (folder / "plain.py").write_text("VALUE = 1\n")
    monkeypatch.setattr(compiling, "PACKAGE", folder)
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    forget()
    compiling.package_stamp.cache_clear()


INNER = """import numba
from othello_nn.kernels.jit import kernel

@kernel("int64(int64)")
def step(n):
    return n + 1
"""
OUTER = """import numba
from othello_nn.kernels.jit import kernel
from stamped.inner import step

@kernel("int64(int64)")
def twice(n):
    return step(step(n))
"""


def forget() -> None:
    """As if the process were new: modules, stamp and announcement."""
    for name in [name for name in sys.modules if name.startswith("stamped")]:
        del sys.modules[name]
    importlib.invalidate_caches()
    compiling.package_stamp.cache_clear()
    compiling._announce.cache_clear()


def load_outer():
    forget()
    return importlib.import_module("stamped.outer")


def rewrite(path: Path, text: str) -> None:
    """Write a source file and make sure that Python itself notices, however coarse the clock of the file system."""
    later = path.stat().st_mtime + 10
    path.write_text(text)
    os.utime(path, (later, later))


def hits(kernel) -> int:
    return sum(kernel.stats.cache_hits.values())


def test_the_stamp_follows_every_module_with_kernels(package):
    def stamp() -> str:
        compiling.package_stamp.cache_clear()
        return compiling.package_stamp()

    first = stamp()
    assert stamp() == first
    rewrite(package / "plain.py", "VALUE = 2\n")
    assert stamp() == first  # no kernels: nothing to compile again
    rewrite(package / "inner.py", INNER.replace("n + 1", "n + 2"))
    second = stamp()
    assert second != first
    (package / "deeper").mkdir()
    (package / "deeper" / "more.py").write_text(INNER)
    assert stamp() not in (first, second)
    (package / "deeper" / "more.py").unlink()
    rewrite(package / "inner.py", INNER)
    assert stamp() == first


def test_unchanged_sources_are_not_compiled_again(package, capfd):
    outer = load_outer()
    assert (outer.twice(5), hits(outer.twice)) == (7, 0)
    assert "compiling" in capfd.readouterr().err
    outer = load_outer()
    assert (outer.twice(5), hits(outer.twice), hits(outer.step)) == (7, 1, 1)
    assert capfd.readouterr().err == ""


def test_a_change_in_one_module_compiles_its_callers_again(package, capfd):
    """Numba's own cache would go on using the old `step` inside `twice`, whose file has not changed."""
    assert load_outer().twice(5) == 7
    rewrite(package / "inner.py", INNER.replace("n + 1", "n + 10"))
    capfd.readouterr()
    outer = load_outer()
    assert (outer.twice(5), hits(outer.twice)) == (25, 0)
    assert capfd.readouterr().err.count("compiling") == 1  # once a process, however many kernels


def test_a_kernel_with_a_signature_takes_only_these_types(package):
    twice = load_outer().twice
    assert len(twice.signatures) == 1
    with pytest.raises(TypeError):
        twice("five")
