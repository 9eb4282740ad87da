"""``@kernel``: Numba's ``njit`` with the project's options and a disk cache that notices every change.

Numba keys its cache by the file that defines a function, so after an update a caller in an unchanged file would keep
the old code of what it calls. Here every cached function is stamped with the state of all modules that hold kernels:
change one of them and all are compiled again. Compiling takes seconds, so the first compilation of a process says so
on stderr.

The compiled code lies in the user's cache folder, in a checkout as in an installed package: a folder for each package,
so that two of them do not fight, and in it one for each Python, Numba and stamp. What nobody will load again is removed
when a new one is made. The cache can never stop the program: what cannot be read is compiled again, as is what is not
to the bit what was written (every file ends with its checksum), a user without a cache folder gets one beside the
sources, and where nothing can be written nothing is kept.
"""

from __future__ import annotations

import functools
import hashlib
import io
import os
import shutil
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numba
from numba.core import caching, typeinfer
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher

PACKAGE = Path(__file__).resolve().parent.parent
OWNER = "package.txt"
"""The file that tells whose code a folder of the cache holds."""


@functools.cache
def package_stamp() -> str:
    """Changes whenever a module with kernels or intrinsics does."""
    state = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_bytes()
        if b"numba" in text:
            state.update(text)
    return state.hexdigest()


def user_cache() -> Path:
    """Where this user's programs keep what they can make again; Numba's own setting goes before the system's."""
    if chosen := numba.config.CACHE_DIR:  # type: ignore[attr-defined]  # made when Numba reads its settings
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


@functools.cache
def cache_folder() -> Path | None:
    """The folder of this package, Python, Numba and stamp, made if need be; None if that cannot be done."""
    for place in (user_cache, lambda: PACKAGE / "__pycache__"):
        with suppress(OSError, RuntimeError):  # the latter is Python's where a user has no home
            return _made_in(place() / "othello_nn")
    return None


def _made_in(root: Path) -> Path:
    package = root / f"{PACKAGE.parent.name}-{_digest(bytes(PACKAGE))}"
    version = f"{sys.implementation.cache_tag}-numba{numba.__version__}-"
    folder = package / f"{version}{package_stamp()[:12]}"
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        (package / OWNER).write_text(str(PACKAGE), encoding="utf-8")
        _sweep(package, version, folder)
    return folder


def _sweep(package: Path, version: str, current: Path) -> None:
    """Remove the code of this package's other stamps, and all code of packages that are no longer there."""
    for folder in package.glob(f"{version}*"):
        if folder != current:
            shutil.rmtree(folder, ignore_errors=True)
    for owner in package.parent.glob(f"*/{OWNER}"):
        with suppress(OSError, ValueError):
            if not Path(owner.read_text(encoding="utf-8")).is_dir():
                shutil.rmtree(owner.parent, ignore_errors=True)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]


_when_compiling: Callable[[], None] | None = None


def when_compiling(act: Callable[[], None] | None) -> None:
    """Call this once, as soon as anything has to be compiled; None takes that back."""
    global _when_compiling
    _when_compiling = act


def _announce() -> None:
    global _when_compiling
    _say()
    act, _when_compiling = _when_compiling, None
    if act is not None:
        act()


@functools.cache
def _say() -> None:
    when = "first run only" if cache_folder() is not None else "every run: there is no folder to keep the code in"
    print(f"compiling ({when}) …", file=sys.stderr, flush=True)


class _Locator(caching.InTreeCacheLocator):
    """Where the code of a function lies: in folders like those of the sources, whose modules share names."""

    def __init__(self, py_func, py_file):
        super().__init__(py_func, py_file)
        folder, self._path = cache_folder(), Path(py_file).resolve()
        assert folder is not None  # `_cache` has seen to it
        self._is_ours = self._path.is_relative_to(PACKAGE)
        home = self._path.parent
        self._cache_path = str(
            folder / (home.relative_to(PACKAGE) if self._is_ours else f"outside-{_digest(bytes(home))}")
        )

    def get_source_stamp(self):
        """A user's own kernel changes with its file, too."""
        return package_stamp() if self._is_ours else (package_stamp(), _digest(self._path.read_bytes()))

    @classmethod
    def from_function(cls, py_func, py_file):
        return cls(py_func, py_file)


class _CacheImpl(caching.CompileResultCacheImpl):
    _locator_classes = [_Locator]  # noqa: RUF012 (Numba's own attribute)


class _CheckedFiles(caching.IndexDataCacheFile):
    """An index and code, each with its checksum behind it: a flipped bit in code would run, and do anything."""

    @contextmanager
    def _open_for_write(self, filepath) -> Iterator[io.BytesIO]:
        with super()._open_for_write(filepath) as file:
            content = io.BytesIO()
            yield content
            file.write(content.getvalue() + _checksum(content.getvalue()))

    def _load_index(self):
        if not Path(self._index_path).exists():
            return {}
        _check(self._index_path)
        return super()._load_index()

    def _load_data(self, name):
        _check(self._data_path(name))
        return super()._load_data(name)  # pickles have an end: what is behind it is not looked at


def _checksum(content: bytes) -> bytes:
    return zlib.crc32(content).to_bytes(4, "little")


def _check(path: str) -> None:
    content = Path(path).read_bytes()
    if content[-4:] != _checksum(content[:-4]):
        raise ValueError(f"{path} is damaged")


class _Files:
    """A function's files: an index and the code of each signature.

    Numba has one index for all signatures, which nobody can read who lacks one of their types: the evaluator of
    somebody's own program would shut everybody else out.
    """

    def __init__(self, folder: str, name: str, stamp: object):
        self._folder, self._name, self._stamp = folder, name, stamp

    def _of(self, key: tuple[Any, ...]) -> _CheckedFiles:
        return _CheckedFiles(self._folder, f"{self._name}-{_digest(str(key[0]).encode())}", self._stamp)

    def load(self, key):
        return self._of(key).load(key)

    def save(self, key, data):
        files = self._of(key)
        try:
            files.save(key, data)
        except Exception:  # an index that cannot be read; a folder that cannot be written fails again
            files.flush()
            files.save(key, data)


class _KernelCache(caching.FunctionCache):
    _impl_class = _CacheImpl

    def __init__(self, function):
        super().__init__(function)
        self._cache_file: Any = _Files(self.cache_path, self._impl.filename_base, self._impl.locator.get_source_stamp())

    def load_overload(self, sig, target_context):
        found = None
        with suppress(Exception):  # damaged, or of types that are not there: whatever it is, compile again
            found = super().load_overload(sig, target_context)
        if found is None:
            _announce()
        return found

    def save_overload(self, sig, data):
        with suppress(Exception):  # a full disk, a folder of somebody else's: the code works without being kept
            super().save_overload(sig, data)


def _cache(function):
    """Where a function's code is kept: nowhere, if nothing can be written or the function is typed and in no file."""
    if cache_folder() is None or not Path(function.__code__.co_filename).is_file():
        _announce()
        return caching.NullCache()
    return _KernelCache(function)


class _Typed(CPUDispatcher):
    """A function of one signature, which is not asked for before somebody calls it, from Python or in a kernel that is
    compiled. Most are only called by others, whose code holds theirs: to load them all would take a third of a second
    whenever the program starts."""

    awaited: str | None = None
    """The signature, until it is compiled."""

    def _make(self) -> None:
        with global_compiler_lock:  # of two threads the second finds it done
            if self.awaited is None:
                return
            signature, self.awaited = self.awaited, None
            try:
                with typeinfer.register_dispatcher(self):  # it may call itself
                    self.compile(signature)
            except BaseException:
                self.awaited = signature
                raise
            self.disable_compile()

    def _compile_for_args(self, *arguments, **keywords):
        """The first call from Python. Numba calls what is returned without another look at the arguments."""
        self._make()
        this: Any = self  # with what Numba does not declare
        [(signature, found)] = this.overloads.items()
        given = [self.typeof_pyval(argument) for argument in arguments]
        if any(self.typingctx.can_convert(*pair) is None for pair in zip(given, signature, strict=True)):
            this._explain_matching_error(*arguments)  # as it does for all later calls
        return found.entry_point

    def get_call_template(self, args, kws):
        """The first call in a kernel."""
        self._make()
        return super().get_call_template(args, kws)


def kernel(signature: str | None = None, *, cached: bool = True, inline: bool = False):
    """Compile a function for the search: cached, free of the GIL, C's division, no bounds checks.

    With a signature it is compiled (or loaded) for these types only, when it is first used; explicit types are also
    what keeps cached recursion sound. Without one, it is compiled for each evaluator type that calls it.
    ``cached=False`` is for a
    function made inside another, which a cache could not find again; its callers keep a copy of it in theirs. With
    ``inline`` its code always becomes a part of its callers'; by itself LLVM does not do so with every small function
    that returns a tuple, which then goes through memory (4 % of a random game for ``chance.random_move``).
    """

    def decorate(function):
        dispatcher: Any = numba.njit(nogil=True, error_model="numpy", forceinline=inline)(function)
        if cached:
            dispatcher._cache = _cache(function)
        if signature is not None:
            dispatcher.__class__ = _Typed
            dispatcher.awaited = signature
        return dispatcher

    return decorate
