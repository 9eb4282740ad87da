"""``@kernel``: Numba's ``njit`` with the project's options and a disk cache that notices every change.

Numba keys its cache by the file that defines a function, so after an update a caller in an unchanged file would keep
the old code of what it calls. Here every cached function is stamped with the state of all modules that hold kernels:
change one of them and all are compiled again. Compiling takes seconds, so the first compilation of a process says so
on stderr.
"""

from __future__ import annotations

import functools
import hashlib
import sys
from pathlib import Path
from typing import Any

import numba
from numba.core import caching, typeinfer

PACKAGE = Path(__file__).resolve().parent.parent


@functools.cache
def package_stamp() -> str:
    """Changes whenever a module with kernels or intrinsics does."""
    state = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_bytes()
        if b"numba" in text:
            state.update(text)
    return state.hexdigest()


@functools.cache
def _announce() -> None:
    print("compiling (first run only) …", file=sys.stderr, flush=True)


class _BesidePackage(caching.InTreeCacheLocator):
    def get_source_stamp(self):
        return package_stamp()


class _InUserCache(caching.UserWideCacheLocator):
    """For a package in a folder that cannot be written."""

    def get_source_stamp(self):
        return package_stamp()


class _CacheImpl(caching.CompileResultCacheImpl):
    _locator_classes = [_BesidePackage, _InUserCache]  # noqa: RUF012 (Numba's own attribute)


class _KernelCache(caching.FunctionCache):
    _impl_class = _CacheImpl

    def load_overload(self, sig, target_context):
        found = super().load_overload(sig, target_context)
        if found is None:
            _announce()
        return found


def kernel(signature: str | None = None, *, cached: bool = True, inline: bool = False):
    """Compile a function for the search: cached, free of the GIL, C's division, no bounds checks.

    With a signature it is compiled (or loaded) at once and for these types only; explicit types are also what keeps
    cached recursion sound. Without one, it is compiled for each evaluator type that calls it. ``cached=False`` is for a
    function made inside another, which a cache could not find again; its callers keep a copy of it in theirs. With
    ``inline`` its code always becomes a part of its callers'; by itself LLVM does not do so with every small function
    that returns a tuple, which then goes through memory (4 % of a random game for ``chance.random_move``).
    """

    def decorate(function):
        dispatcher: Any = numba.njit(nogil=True, error_model="numpy", forceinline=inline)(function)
        if cached:
            dispatcher._cache = _KernelCache(function)
        if signature is not None:
            with typeinfer.register_dispatcher(dispatcher):  # a function may call itself before it has a name
                dispatcher.compile(signature)
            dispatcher.disable_compile()
        return dispatcher

    return decorate
