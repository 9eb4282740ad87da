"""A user's own net: a class in a file that the user has named, and never any other.

A checkpoint tells where the class of its net was, ``FILE.py:Class``. Importing a file runs it, and a checkpoint may
come from anybody: so only what the user has named is imported, by ``train.py --net FILE.py:Class``, by the player
``module:FILE.py:Class`` or from Python. What was named is remembered in a file of the user's own, outside of all runs,
so that a run made here is found by its name tomorrow. No torch is needed until a class is loaded.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import inspect
import json
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from othello_nn.errors import OthelloError, did_you_mean, shorten
from othello_nn.files import write_whole
from othello_nn.options import Flag, Number, Option, Whole, Word

HOW = "FILE.py:Class"
REMEMBERED = Path("othello_nn") / "modules.json"
"""Below the folder where the user's programs keep what they remember."""
RESERVED = ("kind", "source", "options", "scale", "net")
"""Options of every net of this kind, which a class cannot have for itself."""


class ModuleError(OthelloError):
    """A class that cannot be found, imported or used, or that the user has not named."""


def split_source(source: str) -> tuple[Path, str]:
    """File and class of ``FILE.py:Class``."""
    file, colon, name = source.rpartition(":")
    if not colon or not file.endswith(".py") or not name.isidentifier():
        raise ModuleError(f"{shorten(source)} names no class; write {HOW}, such as examples/resnet.py:ResNet")
    return Path(file), name


def full_source(source: str) -> str:
    """The same with the whole path of the file: it means the same in every folder."""
    file, name = split_source(source)
    return f"{file.expanduser().resolve()}:{name}"


# --- what the user has named -----------------------------------------------------------------------------------------

_named: set[str] = set()
"""By this process, in full."""


def name_class(source: str) -> type:
    """The class that the user names here and now: imported, and remembered."""
    source = full_source(source)
    found = _class_at(source)
    _remember(source)
    return found


def named_class(source: str, how: str = "") -> type:
    """The class that a checkpoint or a configuration asks for; a ``ModuleError`` unless the user has named it."""
    full = full_source(source)
    if full not in _named and full not in _remembered():
        file, name = split_source(source)
        raise ModuleError(
            f"this net is the class {name} of {file}, which nobody has named here, so it is not imported; "
            + (how or f"if you trust that file: --net {HOW} in train.py, module:{HOW}:net=NET as a player")
        )
    return _class_at(full)


def memory_file() -> Path:
    """Where the names are kept. (What a user's programs remember has a place of its own on every system.)"""
    if sys.platform == "win32":
        home = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        home = Path.home() / "Library" / "Application Support"
    else:
        home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / REMEMBERED


def _remembered() -> set[str]:
    with contextlib.suppress(OSError, ValueError, RuntimeError):  # the last one is Python's where a user has no home
        names = json.loads(memory_file().read_text(encoding="utf-8"))
        if isinstance(names, list):
            return {name for name in names if isinstance(name, str)}
    return set()


def _remember(source: str) -> None:
    """For this process, and for later ones if there is a folder for it: a name is worth no command."""
    _named.add(source)
    known = _remembered()
    if source in known:
        return
    with contextlib.suppress(OSError, RuntimeError):
        path = memory_file()
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_whole(path, json.dumps(sorted(known | {source}), indent=1).encode())


# --- importing -------------------------------------------------------------------------------------------------------


def _class_at(full: str) -> type:
    file, name = split_source(full)
    try:
        state = file.stat()
    except OSError as error:
        raise ModuleError(f"{file} cannot be read: {error.strerror or error}; name the file with {HOW}") from None
    module = _import(file, state.st_mtime_ns, state.st_size)
    return checked_class(getattr(module, name, None), file, name, vars(module))


def checked_class(found: Any, file: Path, name: str, others: Mapping[str, Any]) -> type:
    """A class of nets that the file itself defines: what it imports from elsewhere was not named."""
    from torch import nn

    def is_net(thing: Any) -> bool:
        return isinstance(thing, type) and issubclass(thing, nn.Module)

    own = [word for word, thing in others.items() if is_net(thing) and thing.__module__ == others.get("__name__")]
    if found is None:
        raise ModuleError(f"{file} has no class {name!r}; " + (did_you_mean(name, own) if own else "it defines no net"))
    if not is_net(found):
        raise ModuleError(f"{name} of {file} is {shorten(found)}; it must be a class of torch.nn.Module")
    if name not in own:
        raise ModuleError(f"{name} is only imported by {file}; name the file that defines it")
    return found


@functools.lru_cache(maxsize=16)
def _import(file: Path, mtime_ns: int, size: int) -> Any:
    """The file as a module; one that has changed is imported again."""
    digest = hashlib.sha256(bytes(file)).hexdigest()[:12]
    name = f"own_net_{digest}_{file.stem}"  # apart from all others, whatever the file is called
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(name)
    sys.modules[name] = module
    try:
        with _importable(file.parent):
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        if before is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before
        raise ModuleError(f"{file} cannot be imported: {in_a_line(error, file)}") from None
    return module


@contextlib.contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """A file may import its neighbours, as a program may. They come last, so that they hide nothing."""
    sys.path.append(str(folder))
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(str(folder))


def in_a_line(error: BaseException, file: Path | None = None) -> str:
    """What went wrong in somebody's code, and in which line of the file."""
    words = (str(error).strip().splitlines() or [""])[0]
    what = f"{type(error).__name__}: {words}" if words else type(error).__name__
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if file and frame.filename == str(file)]
    return f"{what} (line {frames[-1].lineno} of {file})" if frames else what


# --- its options -----------------------------------------------------------------------------------------------------


def class_options(found: type) -> dict[str, Option]:
    """The parameters of a class that have a default: a whole number, a number, true or false, a word."""
    options: dict[str, Option] = {}
    for name, parameter in inspect.signature(found).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.default is parameter.empty or parameter.kind is parameter.POSITIONAL_ONLY:
            raise ModuleError(
                f"{found.__name__}.__init__ needs {name!r}; every parameter of a net must be a keyword with a default"
            )
        option = _option_of(parameter.default, parameter.annotation)
        if option is None:
            continue  # what cannot be typed keeps its default
        if name in RESERVED:
            raise ModuleError(f"{found.__name__}.__init__ has a parameter {name!r}, which every net has; rename it")
        options[name] = option
    return options


def _option_of(default: Any, annotation: Any) -> Option | None:
    if type(default) is int and annotation in (float, "float"):
        return Number(float(default), "")
    kinds: dict[type, type[Option]] = {bool: Flag, int: Whole, float: Number, str: Word}
    return kinds[type(default)](default, "") if type(default) in kinds else None


def checked_options(found: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """All options of a class, those given in place of their defaults; a ``ModuleError`` if there is no such option."""
    options = class_options(found)
    for name in given:
        if name not in options:
            near = did_you_mean(name, options) if options else "it has none"
            raise ModuleError(f"unknown option {name!r} of {found.__name__}; {near}")
    return {name: option.check(name, given.get(name, option.default), ModuleError) for name, option in options.items()}
