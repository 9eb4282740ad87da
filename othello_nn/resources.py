"""Where nets are found: those that come with the program, and those of a user's runs. Imports nothing heavy."""

from __future__ import annotations

import os
import re
from pathlib import Path

from othello_nn.errors import OthelloError, did_you_mean, nearest


def _taken_along(name: str) -> Path:
    """What lies at the top of a checkout. An installed package has no top: the build puts it inside (``setup.py``)."""
    package = Path(__file__).resolve().parent
    return package / name if (package / name).exists() else package.parent / name


CHECKPOINTS = _taken_along("checkpoints")
"""The nets that come with the program."""
TRAIN = _taken_along("train.py")
"""The program that trains."""
SUFFIX = ".safetensors"
BOOK = "opening.book"
"""The opening book that is used where none is named: the user's own in this folder, or the one in ``CHECKPOINTS``."""
BOOK_DISCS = 34
"""How far games are added to a book, unless told otherwise: the last positions have so many discs."""
BEST = "champion"
"""The strongest of them."""
RUNS = Path("runs")
"""Where runs are, unless another folder is named."""
NET_FILE, CONFIG_FILE = f"net{SUFFIX}", "config.json"
"""A run's net, once there is one, and what it was told. A folder with either of them is a run."""
SHOWN_RUNS = 10
"""Lists of names hold so many runs, the newest."""
_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class NoNetError(OthelloError):
    """There is no net where one was said to be."""


class UnknownNetError(NoNetError):
    """No net, run or file has this name."""


def find_net(name: str, runs: Path = RUNS) -> Path:
    """The file of a net by its name. What is found first counts:

    1. a net that comes with the program: ``champion``;
    2. a run in the folder ``runs``: ``quick-1``;
    3. a run by the path of its folder, ``runs/quick-1``, or a net by the path of its file.
    """
    shipped = shipped_nets().get(name)
    if shipped is not None:
        return shipped
    folder = find_run(name, runs)
    path = Path(name) if folder is None else folder / NET_FILE
    if is_file(path):
        return path
    if folder is not None:
        raise NoNetError(f"the run {folder.name!r} has no net yet: it is saved while the run goes on, and at its end")
    if os.path.isdir(path):  # noqa: PTH112 (as `is_file`)
        raise NoNetError(f"{name!r} is a folder without a net: there is no {NET_FILE} in it")
    if name.endswith(SUFFIX) or path.name != name:
        raise NoNetError(f"there is no net at {name!r}")
    raise UnknownNetError(f"there is no net {name!r}; {other_name(name, runs)}")


def find_book(name: str = "on") -> Path:
    """The file of an opening book: the one named, or unless one is the user's own, or else the one of the program."""
    if name not in ("on", BOOK):
        return Path(name)
    shipped = CHECKPOINTS / BOOK
    return shipped if is_file(shipped) and not is_file(Path(BOOK)) else Path(BOOK)


def find_run(name: str, runs: Path = RUNS) -> Path | None:
    """The folder of a run by its name, or by the path of the folder; None if there is no such run."""
    places = [*([runs / name] if is_run_name(name) else []), Path(name)]
    return next((place for place in places if any(is_file(place / file) for file in (CONFIG_FILE, NET_FILE))), None)


def is_file(path: Path) -> bool:
    """Whether there is such a file; also of a name that is too long to be one, of which a ``Path`` complains."""
    return os.path.isfile(path)  # noqa: PTH113


def is_run_name(name: str) -> bool:
    """Whether a run could be called this: letters, digits, dots, underscores and hyphens, no path."""
    return _RUN_NAME.fullmatch(name) is not None


def shipped_nets() -> dict[str, Path]:
    """The nets that come with the program, by name."""
    return {path.stem: path for path in sorted(CHECKPOINTS.glob(f"*{SUFFIX}"))}


def trained_nets(runs: Path = RUNS) -> dict[str, Path]:
    """The nets of runs by the run's name, the newest first."""
    found = []
    for path in runs.glob(f"*/{NET_FILE}"):
        try:
            found.append((-path.stat().st_mtime_ns, path))
        except OSError:  # removed meanwhile
            continue
    return {path.parent.name: path for _, path in sorted(found)}


def other_name(name: str, runs: Path = RUNS, others: tuple[str, ...] = ()) -> str:
    """The end of a message about an unknown name: the nearest one of ``others`` and all nets, or a list of names."""
    shipped = [word for word in shipped_nets() if word not in others]
    trained = [word for word in trained_nets(runs) if word not in others]
    names = [*others, *shipped, *trained]
    near = nearest(name, names)
    few = [*others, *shipped, *trained[:SHOWN_RUNS], f"a path that ends in {SUFFIX}"]
    return did_you_mean(name, few if near is None else names)
