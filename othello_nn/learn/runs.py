"""A training run on disk: ``runs/NAME`` with its configuration, the state to go on from, the net so far, its curves.

config.json         what was asked for
state.safetensors   everything that resuming needs; written in one step, so it is whole whenever the process dies
net.safetensors     the net so far, for players
events.out.…        TensorBoard's
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from othello_nn.checkpoint import Checkpoint, read_meta
from othello_nn.config import Config
from othello_nn.errors import OthelloError, did_you_mean, shorten
from othello_nn.files import remove_leftovers, sealed, why_damaged, write_whole
from othello_nn.players.catalog import is_built_in
from othello_nn.resources import CONFIG_FILE, NET_FILE, RUNS, find_run, is_run_name

FORMAT_NAME, FORMAT_VERSION = "othello_nn.state", 1
_META = frozenset(("format", "config"))


class RunError(OthelloError):
    """A run that cannot be started or resumed."""


@dataclass(frozen=True)
class Run:
    """A folder, and the configuration it was made for."""

    folder: Path
    config: Config

    @classmethod
    def create(cls, root: Path, name: str | None, config: Config) -> Run:
        """A new run; without a name it is called after its preset and the next number."""
        cls.check_target(root, name)
        if name is None:
            number = 1
            while (root / f"{config.preset}-{number}").exists():
                number += 1
            name = f"{config.preset}-{number}"
        folder = root / name
        run = cls(folder, config)
        try:
            folder.mkdir(parents=True)
            run.write_config()
        except OSError as error:
            with suppress(OSError):
                folder.rmdir()
            raise RunError(f"{folder} cannot be made: {error.strerror or error}") from None
        return run

    @staticmethod
    def check_target(root: Path, name: str | None) -> None:
        """See that a run of this name could be made, if one is given, without making it."""
        if name is not None and not is_run_name(name):
            raise RunError(
                f"{shorten(name)} cannot be a run's name: letters, digits, '.', '_' and '-', first a letter or a digit"
            )
        if name is not None and is_built_in(name):
            raise RunError(f"a run cannot be called {name!r}, since a player is called that; choose another --run")
        if name is not None and (root / name).exists():
            raise RunError(
                f"there is a run {name!r} already; go on with it by --resume {name}, or choose another --run"
            )
        there = next((place for place in (root, *root.parents) if place.exists()), root)
        try:
            with tempfile.TemporaryFile(dir=there):
                pass
        except OSError as error:
            raise RunError(f"{root / (name or '')} cannot be made: {error.strerror or error}") from None

    @classmethod
    def open(cls, root: Path, name: str) -> Run:
        """A run that was begun before, by its name or the path of its folder."""
        folder = find_run(name, root)
        if folder is None or not (folder / CONFIG_FILE).is_file():
            names = sorted(path.parent.name for path in root.glob(f"*/{CONFIG_FILE}"))
            near = did_you_mean(name, names) if names else f"there are none in {root}"
            raise RunError(f"there is no run {name!r}; {near}")
        try:
            values = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise RunError(f"{folder / CONFIG_FILE} is damaged: {error}") from None
        if not isinstance(values, dict):
            raise RunError(f"{folder / CONFIG_FILE} is damaged: it holds no settings")
        return cls(folder, Config.from_dict(values))

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def player(self) -> str:
        """What its net is called where players are named."""
        return self.name if self.folder.parent == RUNS else str(self.folder)

    @property
    def state_path(self) -> Path:
        return self.folder / "state.safetensors"

    @property
    def net_path(self) -> Path:
        return self.folder / NET_FILE

    @property
    def finished(self) -> bool:
        """All its games were learnt when its net was saved."""
        return self.net_path.is_file() and read_meta(self.net_path)["info"].get("progress") == 1

    def remove_if_unused(self) -> None:
        """Take back what ``create`` made, and the curves, unless there is a state or a net to keep."""
        if self.state_path.exists() or self.net_path.exists():
            return
        with suppress(OSError):
            for path in (self.folder / CONFIG_FILE, *self.folder.glob("events.out.*")):
                path.unlink()
            self.folder.rmdir()

    def clean(self) -> None:
        """Remove what a process that was killed has left half written. Nobody else works on the run."""
        for path in (self.state_path, self.net_path, self.folder / CONFIG_FILE):
            remove_leftovers(path)

    def write_config(self) -> None:
        text = json.dumps(self.config.as_dict(), indent=2, ensure_ascii=False)
        write_whole(self.folder / CONFIG_FILE, text.encode())

    def save_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Replace the state; an ``OSError`` leaves the one before as it was."""
        meta = {"format": f"{FORMAT_NAME}/{FORMAT_VERSION}", "config": json.dumps(self.config.as_dict())}
        write_whole(self.state_path, sealed(arrays, meta))

    def load_state(self) -> dict[str, np.ndarray]:
        """The arrays of the last state saved."""
        from safetensors import SafetensorError, safe_open

        if not self.state_path.is_file():
            raise RunError(f"the run {self.name!r} was stopped before its first state was saved: start it anew")
        try:
            with safe_open(self.state_path, framework="numpy") as file:
                meta = file.metadata() or {}
                name, _, version = meta.get("format", "").partition("/")
                if name != FORMAT_NAME:
                    raise RunError(f"{self.state_path}: not a training state of this program")
                if version != str(FORMAT_VERSION):
                    raise RunError(
                        f"{self.state_path}: this is version {version} of the format {name}, "
                        f"this program reads {FORMAT_VERSION}"
                    )
                if reason := why_damaged(self.state_path, meta, _META):
                    raise RunError(f"{self.state_path}: damaged: {reason}")
                return {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a dict)
        except (SafetensorError, TypeError, AttributeError) as error:  # the others are types that NumPy does not have
            reason = " ".join(str(error).split())
            raise RunError(f"{self.state_path}: not a readable training state ({reason})") from None

    def save_net(self, checkpoint: Checkpoint) -> None:
        checkpoint.save(self.net_path)


def versions() -> dict[str, str]:
    """What a result has to be read with."""
    import platform
    from importlib import metadata

    packages = ("torch", "numpy", "numba")
    found: dict[str, Any] = {"python": platform.python_version()}
    return found | {package: metadata.version(package) for package in packages}
