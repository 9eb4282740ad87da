"""A trained net as one self-describing safetensors file: ``Checkpoint.save`` and ``Checkpoint.load``.

Everything that trains writes this, everything that plays reads it, and neither needs the other: NumPy and safetensors
are enough. ``nets`` makes a torch net of it, ``engine/leaf/compile.py`` an evaluator for the search. In the file,

* the metadata hold ``format`` (name and version), ``net`` (the net's configuration, JSON), ``info`` (recipe, metrics,
  versions: anything JSON), ``unit`` (see ``UNIT``) and a checksum of the whole file (``files.py``);
* the tensors are the net's own, as ``net.NAME``, what was fitted to its searches, as ``probcut`` and ``calibration``,
  and ``checks.…``: some positions with the values the net had for them when it was saved, for whoever rebuilds it to
  compare with.
"""

from __future__ import annotations

import contextlib
import functools
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from othello_nn.errors import OthelloError
from othello_nn.files import plain_file, sealed, why_damaged, write_whole
from othello_nn.game import rules

FORMAT_NAME, FORMAT_VERSION = "othello_nn.net", 1
FORMAT = f"{FORMAT_NAME}/{FORMAT_VERSION}"
UNIT = 128
"""Weights stored as integers of 16 or 8 bits are in 1/UNIT of a disc."""
LARGEST = 1e6
"""The largest weight, in discs or without a unit: what is made of so many by any net, or by the search, still is a
number; beyond, infinities meet."""
CHECKED_POSITIONS = 64
_NET, _CHECKS = "net.", "checks."
_STATE_TYPES = (np.float32, np.float16, np.int16, np.int8, np.int64)
_STATE_WORDS = "float32, float16, int16, int8 or int64"
_META = frozenset(("format", "unit", "net", "info"))
_CHECK_TYPES = {"movers": "uint64", "opponents": "uint64", "black_to_move": "bool", "discs": "float64"}


class CheckpointError(OthelloError):
    """A file that is no checkpoint, or contents that cannot be one."""


@dataclass(frozen=True, eq=False)
class Checks:
    """Positions with a net's values. All arrays are [N]; ``discs`` is the expected final margin for the mover."""

    movers: np.ndarray  # uint64
    opponents: np.ndarray  # uint64
    black_to_move: np.ndarray  # bool; only some nets look at it
    discs: np.ndarray  # float64, not limited to ±64

    def __post_init__(self):
        for name, kind in _CHECK_TYPES.items():
            array = getattr(self, name)
            if array.dtype != kind or array.shape != self.movers.shape or array.ndim != 1:
                raise CheckpointError(f"checks.{name} must be {kind} [N], not {array.dtype} {list(array.shape)}")
        if (self.movers & self.opponents).any():
            raise CheckpointError("a position of the checks has both sides on one square")
        if not np.isfinite(self.discs).all():
            raise CheckpointError("checks.discs holds numbers that are not finite")


@functools.cache  # a net is saved many times in a run, and these games are played in Python
def check_positions(count: int = CHECKED_POSITIONS, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Movers, opponents and black_to_move of positions from random games, over all numbers of empties."""
    rng = random.Random(seed)
    found: list[tuple[int, int, bool]] = []
    while len(found) < count:
        mover, opponent, black = rules.START_MOVER, rules.START_OPPONENT, True
        for _ in range(rng.randint(0, 59)):
            squares = rules.squares_in(rules.legal_mask(mover, opponent))
            if not squares and not rules.legal_mask(opponent, mover):
                break
            move = rng.choice(squares) if squares else rules.PASS
            mover, opponent, black = *rules.play(mover, opponent, move), not black
        found.append((mover, opponent, black))
    movers, opponents, blacks = zip(*found, strict=True)
    return np.array(movers, np.uint64), np.array(opponents, np.uint64), np.array(blacks, bool)


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A net and what is known about it.

    ``arrays`` is its state: float32 or float16, or int16 or int8 in 1/``UNIT`` of a disc, or int64 for what is counted
    (how many batches a normalising layer has seen).
    """

    net: dict[str, Any]
    arrays: dict[str, np.ndarray]
    info: dict[str, Any] = field(default_factory=dict)
    probcut: np.ndarray | None = None
    checks: Checks | None = None
    calibration: np.ndarray | None = None

    def __post_init__(self):
        _check_dictionaries(self.net, self.info)
        for name, array in self.arrays.items():
            if array.dtype not in _STATE_TYPES:
                raise CheckpointError(f"array {name!r} must be {_STATE_WORDS}, not {array.dtype}")
            if array.dtype.kind == "f":
                self._check_floats(name, array)
        if self.probcut is not None and (
            self.probcut.dtype.kind != "f" or self.probcut.ndim != 1 or not np.isfinite(self.probcut).all()
        ):
            raise CheckpointError("probcut must be a row of finite numbers")
        if self.calibration is not None and (
            self.calibration.dtype.kind != "f" or not np.isfinite(self.calibration).all()
        ):
            raise CheckpointError("calibration must be finite numbers")

    def _check_floats(self, name: str, array: np.ndarray) -> None:
        if not np.isfinite(array).all():
            raise CheckpointError(f"array {name!r} holds numbers that are not finite")
        if self.net["kind"] == "module" or float(np.finfo(array.dtype).max) < LARGEST:
            return  # a user's layers may count what they like
        largest = max(array.max(initial=0), array.min(initial=0), key=abs)
        if abs(largest) > LARGEST:
            raise CheckpointError(f"array {name!r} holds {largest:g}; the largest weight is {LARGEST:g}")

    @property
    def float_arrays(self) -> dict[str, np.ndarray]:
        """The arrays in float32, those in 1/``UNIT`` of a disc too; counts stay what they are."""
        unit = {np.dtype(kind): np.float32(size) for kind, size in ((np.int16, UNIT), (np.int8, UNIT), (np.float16, 1))}
        return {
            name: array.astype(np.float32) / unit[array.dtype] if array.dtype in unit else array
            for name, array in self.arrays.items()
        }

    def save(self, path: str | Path) -> None:
        """Write the file in one step: whoever reads meanwhile, and whatever goes wrong, finds the old one or the new.

        An ``OSError`` names the file.
        """
        tensors = {_NET + name: array for name, array in self.arrays.items()}
        if self.probcut is not None:
            tensors["probcut"] = self.probcut.astype(np.float32)
        if self.calibration is not None:
            tensors["calibration"] = self.calibration.astype(np.float32)
        if self.checks is not None:
            tensors |= {_CHECKS + name: getattr(self.checks, name) for name in _CHECK_TYPES}
        meta = {"format": FORMAT, "unit": str(UNIT)}
        meta |= {name: _dump(name, value) for name, value in (("net", self.net), ("info", self.info))}
        write_whole(Path(path), sealed(tensors, meta))

    @classmethod
    def load(cls, path: str | Path) -> Checkpoint:
        """Read a file; a ``CheckpointError`` of one line says what is wrong with it."""
        with _opened(path) as (file, meta):
            if reason := why_damaged(path, file.metadata(), _META):
                raise CheckpointError(f"{path}: damaged checkpoint ({reason})")
            tensors = {}
            for name in file.keys():  # noqa: SIM118 (not a dict)
                try:
                    tensors[name] = file.get_tensor(name)
                except (TypeError, AttributeError, KeyError):  # a type that NumPy does not have
                    raise CheckpointError(f"{path}: array {name!r} must be {_STATE_WORDS}") from None
        try:
            checks = None
            if any(name.startswith(_CHECKS) for name in tensors):
                checks = Checks(**{name: tensors.pop(_CHECKS + name) for name in _CHECK_TYPES})
            probcut, calibration = (tensors.pop(name, None) for name in ("probcut", "calibration"))
            arrays = {name.removeprefix(_NET): array for name, array in tensors.items() if name.startswith(_NET)}
            if unknown := [name for name in tensors if not name.startswith(_NET)]:
                raise CheckpointError(f"it holds an unknown array {unknown[0]!r}")
            return cls(meta["net"], arrays, meta["info"], probcut, checks, calibration)
        except KeyError as error:
            raise CheckpointError(f"{path}: damaged checkpoint ({error.args[0]} is missing)") from None
        except ValueError as error:
            raise CheckpointError(f"{path}: damaged checkpoint ({error})") from None


def _check_dictionaries(net: Any, info: Any) -> None:
    for name, value in (("net", net), ("info", info)):
        if not isinstance(value, dict):
            raise CheckpointError(f"{name} must be a dictionary, not {type(value).__name__}")
    if not isinstance(net.get("kind"), str):
        raise CheckpointError("the net's configuration does not say its kind")


def read_meta(path: str | Path) -> dict[str, Any]:
    """``format``, ``net`` and ``info`` of a file, without its arrays, and so without a look at its checksum."""
    with _opened(path) as (_, meta):
        return {name: meta[name] for name in ("format", "net", "info")}


@contextlib.contextmanager
def _opened(path: str | Path) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The open file and its metadata, read and checked."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(plain_file(path), framework="numpy") as file:
            yield file, _checked_meta(path, file.metadata() or {})
    except SafetensorError as error:
        reason = " ".join(str(error).split())
        raise CheckpointError(f"{path}: not a readable safetensors file ({reason})") from None


def _checked_meta(path: str | Path, meta: dict[str, str]) -> dict[str, Any]:
    name, _, version = meta.get("format", "").partition("/")
    if name != FORMAT_NAME:
        raise CheckpointError(f"{path}: not a checkpoint of this program (format {meta.get('format')!r})")
    if version != str(FORMAT_VERSION):
        raise CheckpointError(
            f"{path}: this is version {version!r} of the format {FORMAT_NAME}, this program reads {FORMAT_VERSION}"
        )
    try:
        if meta["unit"] != str(UNIT):
            raise CheckpointError(f"its unit is 1/{meta['unit']} of a disc, not 1/{UNIT}")
        net, info = json.loads(meta["net"]), json.loads(meta["info"])
        _check_dictionaries(net, info)
        return {"format": meta["format"], "net": net, "info": info}
    except KeyError as error:
        raise CheckpointError(f"{path}: damaged checkpoint ({error.args[0]} is missing)") from None
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: damaged checkpoint ({error})") from None


def _dump(name: str, value: dict[str, Any]) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{name} cannot be written as JSON: {error}") from None
