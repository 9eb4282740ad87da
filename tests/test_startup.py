"""Starting: compiled code is found again by the next process, and only while the sources are what they were.

Nothing that may happen to the cache stops a program.
"""

import errno
import importlib
import io
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numba
import pytest
from numba.core import caching
from patience import HANG_SECONDS

import othello_nn
from othello_nn.kernels import jit

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
from othello_nn.kernels.board import legal_moves
legal_moves(np.uint64(7), np.uint64(8))
evaluator = weighted_squares("squares", [1.0] * 64)
leaf, scratch = evaluator.leaf, np.zeros(64, np.int64)
type(leaf).begin(leaf, scratch.ctypes.data, np.uint64(7), np.uint64(8))
print(type(leaf).score(leaf, scratch.ctypes.data, np.uint64(7), np.uint64(8), 60))
"""


def run_fresh(code: str, **variables: str) -> tuple[str, str]:
    """Output and messages of a new process."""
    environment = os.environ | {"PYTHONPATH": str(Path(othello_nn.__file__).parents[1])} | variables
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_a_second_process_starts_from_the_cache():
    run_fresh(SOLVE)  # compiles, unless another test already has
    assert run_fresh(SOLVE) == ("-4.0\n4\n", "")  # whatever is not in the cache would have been announced


def test_an_evaluator_called_on_its_own_leaves_the_cache_as_it_was(tmp_path):
    """Its functions are parts of a search; a cache that cannot find them again would grow with every start."""
    mine = {"NUMBA_CACHE_DIR": str(tmp_path)}  # other tests write to everybody's meanwhile
    run_fresh(LEAF, **mine)
    before = sorted(tmp_path.rglob("*.nbc"))
    assert before
    assert run_fresh(LEAF, **mine) == (f"{2 * 128}\n", "")
    assert sorted(tmp_path.rglob("*.nbc")) == before


# --- the stamp -------------------------------------------------------------------------------------------------------


@pytest.fixture
def package(tmp_path, monkeypatch) -> Iterator[Path]:
    """A package of two modules, one of whose kernels calls the other's, and an empty cache."""
    folder = tmp_path / "stamped"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "inner.py").write_text(INNER)
    (folder / "outer.py").write_text(OUTER)
    (folder / "plain.py").write_text("VALUE = 1\n")
    monkeypatch.setattr(jit, "PACKAGE", folder)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    forget()


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
    jit.package_stamp.cache_clear()
    jit.cache_folder.cache_clear()
    jit._say.cache_clear()


def import_outer():
    forget()
    return importlib.import_module("stamped.outer")


def load_outer():
    """The module, and its kernel loaded or compiled: that is done when it is first called."""
    outer = import_outer()
    if hasattr(outer, "twice"):
        outer.twice(0)
    return outer


def rewrite(path: Path, text: str) -> None:
    """Write a source file and make sure that Python itself notices, however coarse the clock of the file system."""
    later = path.stat().st_mtime + 10
    path.write_text(text)
    os.utime(path, (later, later))


def hits(kernel) -> int:
    return sum(kernel.stats.cache_hits.values())


def test_the_stamp_follows_every_module_with_kernels(package):
    def stamp() -> str:
        jit.package_stamp.cache_clear()
        return jit.package_stamp()

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
    assert (outer.twice(5), hits(outer.twice), hits(outer.step)) == (7, 1, 0)  # its callers hold its code
    assert capfd.readouterr().err == ""


def test_a_kernel_is_loaded_when_it_is_first_used(package):
    load_outer()
    outer = import_outer()
    assert (hits(outer.twice), len(outer.twice.overloads)) == (0, 0)
    assert outer.twice(5) == 7
    assert (hits(outer.twice), len(outer.twice.overloads)) == (1, 1)


def test_a_change_in_one_module_compiles_its_callers_again(package, capfd):
    """Numba's own cache would go on using the old `step` inside `twice`, whose file has not changed."""
    assert load_outer().twice(5) == 7
    rewrite(package / "inner.py", INNER.replace("n + 1", "n + 10"))
    capfd.readouterr()
    outer = load_outer()
    assert (outer.twice(5), hits(outer.twice)) == (25, 0)
    assert capfd.readouterr().err.count("compiling") == 1  # once a process, however many kernels


def test_a_kernel_with_a_signature_takes_only_these_types(package):
    twice = import_outer().twice
    with pytest.raises(TypeError):
        twice("five")  # the first call, which compiles it
    assert twice(5) == 7
    with pytest.raises(TypeError):
        twice("five")
    assert len(twice.signatures) == 1


# --- the cache -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("platform", "environment", "folder"),
    [
        ("linux", {"HOME": "/home/ann"}, "/home/ann/.cache"),
        ("linux", {"HOME": "/home/ann", "XDG_CACHE_HOME": ""}, "/home/ann/.cache"),
        ("linux", {"HOME": "/home/ann", "XDG_CACHE_HOME": "/fast"}, "/fast"),
        ("darwin", {"HOME": "/Users/ann"}, "/Users/ann/Library/Caches"),
        ("win32", {"LOCALAPPDATA": "/C/ann/AppData/Local"}, "/C/ann/AppData/Local"),
    ],
)
def test_the_cache_is_where_the_system_wants_it(monkeypatch, platform, environment, folder):
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert jit.user_cache() == Path(folder)


def test_numba_cache_dir_goes_before(monkeypatch, tmp_path):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    assert jit.user_cache() == tmp_path


def test_the_package_itself_stays_clean(package):
    load_outer()
    files = [path.name for path in jit.cache_folder().rglob("*.nbc")]
    assert sorted(name.split("-")[0] for name in files) == ["inner.step", "outer.twice"]
    assert not list(package.rglob("*.nb?"))


def test_another_stamp_takes_the_place_of_the_last(package):
    load_outer()
    first = jit.cache_folder()
    (other_python := first.with_name("cpython-399-numba0.99-0123")).mkdir()
    rewrite(package / "inner.py", INNER.replace("n + 1", "n + 2"))
    load_outer()
    second = jit.cache_folder()
    assert second != first
    assert not first.exists()
    assert second.is_dir()
    assert other_python.is_dir()


def test_two_packages_do_not_share_and_one_that_is_gone_is_forgotten(package, monkeypatch, tmp_path):
    load_outer()
    mine = jit.cache_folder()
    other = tmp_path / "elsewhere" / "stamped"
    shutil.copytree(package, other)
    monkeypatch.setattr(jit, "PACKAGE", other)
    forget()
    assert jit.package_stamp().startswith(mine.name.rpartition("-")[2])  # the same sources
    theirs = jit.cache_folder()
    assert theirs.parent != mine.parent
    assert mine.is_dir()
    shutil.rmtree(other)
    monkeypatch.setattr(jit, "PACKAGE", package)
    rewrite(package / "inner.py", INNER.replace("n + 1", "n + 2"))
    load_outer()
    assert not theirs.parent.exists()


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
@pytest.mark.parametrize("damage", [b"", b"no pickle", None], ids=["empty", "nonsense", "cut"])
def test_what_is_damaged_is_compiled_again_and_replaced(package, capfd, suffix, damage):
    load_outer()
    for path in jit.cache_folder().rglob(f"*.{suffix}"):
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2] if damage is None else damage)
    capfd.readouterr()
    outer = load_outer()
    assert (outer.twice(5), hits(outer.twice)) == (7, 0)
    assert "compiling (first run only)" in capfd.readouterr().err
    outer = load_outer()
    assert (outer.twice(5), hits(outer.twice)) == (7, 1)


def test_without_a_cache_folder_the_code_lies_beside_the_sources(package, tmp_path):
    (tmp_path / "cache").write_text("a file where the folder should be")
    load_outer()
    assert hits(load_outer().twice) == 1
    assert list((package / "__pycache__").rglob("outer.twice*.nbc"))


def test_without_any_folder_everything_is_compiled_every_time(package, capfd, tmp_path):
    for place in (tmp_path / "cache", package / "__pycache__"):
        place.write_text("a file where the folder should be")
    for _ in range(2):
        outer = load_outer()
        assert (outer.twice(5), hits(outer.twice)) == (7, 0)
        assert "compiling (every run: " in capfd.readouterr().err


def test_a_cache_that_cannot_be_written_to_is_left_alone(package, monkeypatch):
    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(caching.IndexDataCacheFile, "_open_for_write", full)
    outer = load_outer()
    assert outer.twice(5) == 7
    assert not list(jit.cache_folder().rglob("*.nb?"))


ANY = """import numba
from othello_nn.kernels.jit import kernel

@kernel()
def first(pair):
    return pair[0]
"""
OWN = "from typing import NamedTuple\n\nclass Pair(NamedTuple):\n    left: int\n    right: int\n"


def test_types_of_another_program_do_not_stand_in_the_way(package, tmp_path):
    """Its evaluator is a class that nobody else has: code compiled for it must not hide the code for others."""
    (package / "outer.py").write_text(ANY)
    (tmp_path / "own.py").write_text(OWN)
    assert load_outer().first((1, 2)) == 1
    outer = load_outer()
    assert outer.first(importlib.import_module("own").Pair(3, 4)) == 3
    assert hits(outer.first) == 0
    (tmp_path / "own.py").unlink()
    del sys.modules["own"]
    outer = load_outer()
    assert (outer.first((1, 2)), hits(outer.first)) == (1, 1)


def test_an_entry_that_names_a_class_which_is_gone_is_compiled_again(package, tmp_path, capfd):
    """Two programs may call their evaluator the same. Numba tells them apart by what is in the entry, and cannot read
    it where one of the classes is not there any more."""
    (package / "outer.py").write_text(ANY)
    for name in ("own", "theirs"):
        (tmp_path / f"{name}.py").write_text(OWN)
    assert load_outer().first(importlib.import_module("own").Pair(3, 4)) == 3
    (tmp_path / "own.py").unlink()
    del sys.modules["own"]
    capfd.readouterr()
    outer, pair = load_outer(), importlib.import_module("theirs").Pair
    assert (outer.first(pair(5, 6)), hits(outer.first)) == (5, 0)
    assert "compiling (first run only)" in capfd.readouterr().err
    outer = load_outer()
    assert (outer.first(pair(5, 6)), hits(outer.first)) == (5, 1)
    del sys.modules["theirs"]


def test_a_class_of_another_program_stays_out_of_the_shared_index(package, tmp_path):
    (package / "outer.py").write_text(ANY)
    (tmp_path / "own.py").write_text(OWN)
    load_outer().first((1, 2))
    shared = {path: path.read_bytes() for path in jit.cache_folder().rglob("*.nbi")}
    load_outer().first(importlib.import_module("own").Pair(3, 4))
    del sys.modules["own"]
    after = {path: path.read_bytes() for path in jit.cache_folder().rglob("*.nbi")}
    assert len(after) == len(shared) + 1
    assert {path: after[path] for path in shared} == shared
    assert all(b"Pair" not in data for data in shared.values())


def test_a_kernel_outside_the_package_changes_with_its_file(package, tmp_path):
    module = tmp_path / "stamped_beside.py"
    module.write_text(INNER)
    for text, result, found in ((INNER, 6, 0), (INNER, 6, 1), (INNER.replace("n + 1", "n + 2"), 7, 0)):
        rewrite(module, text)
        forget()
        step = importlib.import_module("stamped_beside").step
        assert (step(5), hits(step)) == (result, found)


def test_a_kernel_that_is_in_no_file_is_not_kept(package):
    namespace: dict = {}
    forget()
    exec(INNER, namespace)
    assert (namespace["step"](5), hits(namespace["step"])) == (6, 0)
    assert not list(jit.cache_folder().rglob("*.nb?"))


# --- each thing that can happen to a file of the cache costs a compilation, and no more -------------------------------


def flipped(data: bytes, place: float) -> bytes:
    """With one bit changed, so far into it."""
    changed = bytearray(data)
    changed[int(place * (len(data) - 1))] ^= 1
    return bytes(changed)


def of_another_version(data: bytes) -> bytes:
    """An index as another Numba writes it: its version comes first."""
    stream = io.BytesIO(data[:-4])
    pickle.load(stream)
    content = pickle.dumps("0.0.1", protocol=-1) + stream.read()
    return content + jit._checksum(content)


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
@pytest.mark.parametrize("place", [0, 0.1, 0.3, 0.5, 0.7, 0.9, 1])
def test_a_flipped_bit_is_noticed(package, suffix, place):
    """In the machine code it would otherwise run."""
    load_outer()
    for path in jit.cache_folder().rglob(f"*.{suffix}"):
        path.write_bytes(flipped(path.read_bytes(), place))
    outer = load_outer()
    assert (outer.twice(5), hits(outer.twice), hits(outer.step)) == (7, 0, 0)
    outer = load_outer()
    assert (outer.twice(5), hits(outer.twice), hits(outer.step)) == (7, 1, 0)  # its callers hold its code


def test_what_another_version_wrote_is_compiled_again(package):
    load_outer()
    for path in jit.cache_folder().rglob("*.nbi"):
        path.write_bytes(of_another_version(path.read_bytes()))
    outer = load_outer()
    assert (outer.twice(5), hits(outer.twice)) == (7, 0)
    assert hits(load_outer().twice) == 1


def test_code_without_its_index_and_an_index_without_its_code(package):
    for suffix in ("nbi", "nbc"):
        load_outer()
        for path in jit.cache_folder().rglob(f"*.{suffix}"):
            path.unlink()
        outer = load_outer()
        assert (outer.twice(5), hits(outer.twice)) == (7, 0)
        assert hits(load_outer().twice) == 1


def test_a_folder_where_a_file_should_be(package):
    load_outer()
    for path in list(jit.cache_folder().rglob("*.nb?")):
        path.unlink()
        path.mkdir()
    for _ in range(2):
        outer = load_outer()
        assert (outer.twice(5), hits(outer.twice)) == (7, 0)


@pytest.mark.parametrize("call", ["open", "replace", "write"])
def test_a_folder_that_cannot_be_written(package, monkeypatch, call):
    """Whoever may do everything is refused nothing, so the system's refusal is played."""

    def refused(*arguments, **keywords):
        raise PermissionError(errno.EACCES, "Permission denied")

    if call == "open":
        monkeypatch.setattr(caching, "open", refused, raising=False)
    elif call == "replace":
        monkeypatch.setattr(os, "replace", refused)
    else:
        monkeypatch.setattr(jit, "_checksum", refused)
    outer = load_outer()
    assert outer.twice(5) == 7
    monkeypatch.undo()
    assert not [path for path in package.parent.rglob("*.nb?*") if path.is_file()], "nothing half written"


FULL = """
import resource, sys
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), hard))
sys.path.insert(0, sys.argv[2])
from othello_nn.kernels import jit
from pathlib import Path
jit.PACKAGE = Path(sys.argv[2]) / "stamped"
from stamped.outer import twice
print(twice(5), sum(twice.stats.cache_hits.values()))
"""


def start_full(package: Path, most_bytes: int) -> subprocess.Popen:
    environment = os.environ | {"PYTHONPATH": str(Path(othello_nn.__file__).parents[1])}
    environment |= {"NUMBA_CACHE_DIR": str(package.parent / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", FULL, str(most_bytes), str(package.parent)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=environment, **pipes)


def answer(process: subprocess.Popen) -> str:
    out, err = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    return out


@pytest.mark.skipif(os.name != "posix", reason="a limit of POSIX")
@pytest.mark.parametrize("most_bytes", [0, 10, 2000])
def test_a_disk_that_is_full_while_code_is_written(package, most_bytes):
    """At the first compilation there is room for nothing, for half a name, for an index without its code."""
    assert answer(start_full(package, most_bytes)) == "7 0\n"
    assert answer(start_full(package, 10**9)) == "7 0\n"
    assert answer(start_full(package, 10**9)) == "7 1\n"


@pytest.mark.skipif(os.name != "posix", reason="a limit of POSIX")
def test_two_processes_at_once(package):
    both = [start_full(package, 10**9) for _ in range(2)]
    assert {answer(process).split()[0] for process in both} == {"7"}
    assert answer(start_full(package, 10**9)) == "7 1\n"
