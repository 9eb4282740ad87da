"""Positions on disk: an array that grows, can be mapped into memory, and survives whatever kills its writer.

A part is two files. ``NAME.positions`` is nothing but records (``RECORD``), one after the other, so that it can be
mapped as it is. ``NAME.index`` has an entry for each portion that was appended: how many records the part then has,
and checksums. A portion counts once its entry is on disk; what a writer left unfinished is cut off by the next one, and
readers never see it. Several processes write a part each, into one folder.

>>> import tempfile
>>> folder = Path(tempfile.mkdtemp())
>>> with Part.create(folder / "0", "a recipe") as part:
...     part.append(np.zeros(3, RECORD))
>>> sum(len(records) for records in read(folder))
3
"""

from __future__ import annotations

import hashlib
import os
import zlib
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np

from othello_nn.errors import OthelloError

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows, where a file that is open for writing is the writer's own anyway
    fcntl = None

RECORD = np.dtype(
    [
        ("mover", "<u8"),
        ("opponent", "<u8"),
        ("searched", "<i2"),  # what a search says of the position, for the mover, in 1/128 of a disc
        ("margin", "i1"),  # the game's result for the mover
        ("flags", "u1"),
        # Its number within the part: neighbours with the same number follow each other in a game, unless ``ASIDE``.
        ("game", "<u4"),
    ]
)
EXACT, PASSED, ASIDE = 1, 2, 4
"""Flags: ``searched`` is the solved score; the other side had no move after this position's, so the next has the same
mover; the position was not played, and has no result but a solved one."""
MAGIC = b"othello_nn.positions/1\n"
HEADER = 64  # bytes: the magic, and the digest of the recipe
_ENTRY = np.dtype([("records", "<u8"), ("checksum", "<u4"), ("own", "<u4")])
"""Records so far, checksum of the portion, checksum of the entry itself."""
POSITIONS, INDEX = ".positions", ".index"


class StoreError(OthelloError):
    """Files that hold no positions, or not those that were expected."""


def _entry(records: int, portion: bytes) -> bytes:
    entry = np.zeros(1, _ENTRY)
    entry["records"], entry["checksum"] = records, zlib.crc32(portion)
    entry["own"] = zlib.crc32(entry.tobytes()[:12])
    return entry.tobytes()


def _header(recipe: str) -> bytes:
    digest = hashlib.sha256(recipe.encode()).hexdigest()[: HEADER - len(MAGIC) - 1]
    return (MAGIC + digest.encode()).ljust(HEADER - 1) + b"\n"


def _entries(path: Path) -> np.ndarray:
    """The whole entries of an index, up to the first that is not."""
    data = path.read_bytes()
    if len(data) < HEADER or not data.startswith(MAGIC):
        raise StoreError(f"{path}: no index of positions, or one of another version")
    whole = (len(data) - HEADER) // _ENTRY.itemsize
    entries = np.frombuffer(data, _ENTRY, whole, HEADER)
    good = [zlib.crc32(entry.tobytes()[:12]) == int(entry["own"]) for entry in entries]
    rising = np.diff(entries["records"].astype(np.int64), prepend=0) > 0
    wrong = np.flatnonzero(~(np.array(good, bool) & rising))
    return entries[: wrong[0]] if len(wrong) else entries


class Part:
    """One writer's positions. ``portions`` counts what was appended, so that a writer knows where it stopped."""

    _file: IO[bytes]
    _data: IO[bytes]

    def __init__(self, path: Path, recipe: str):
        self.path = path
        self._index, self._records = (path.with_name(path.name + suffix) for suffix in (INDEX, POSITIONS))
        self._recipe = _header(recipe)
        self.portions = self.records = 0

    @classmethod
    def create(cls, path: Path, recipe: str) -> Part:
        """To write: a new part, or the one that is there, if its positions were made by the same recipe."""
        part = cls(path, recipe)
        path.parent.mkdir(parents=True, exist_ok=True)
        part._file = open(part._index, "a+b")  # noqa: SIM115, PTH123 (closed by ``close``)
        try:
            part._resume()
        except BaseException:
            part._file.close()
            raise
        return part

    def _resume(self) -> None:
        try:
            if fcntl is not None:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StoreError(f"{self._index}: another process is adding positions to it") from None
        if self._index.stat().st_size < HEADER:  # new, or its writer died at once
            self._file.truncate(0)
            self._write(self._file, self._recipe)
        self._file.seek(0)
        if self._file.read(HEADER) != self._recipe:
            raise StoreError(f"{self._index}: its positions were made with other settings; take another folder")
        entries = _entries(self._index)
        self.portions = len(entries)
        self.records = int(entries["records"][-1]) if len(entries) else 0
        self._data = open(self._records, "a+b")  # noqa: SIM115, PTH123
        if self._records.stat().st_size < self.records * RECORD.itemsize:
            self._data.close()
            raise StoreError(f"{self._records}: shorter than its index says")
        self._data.truncate(self.records * RECORD.itemsize)
        self._file.truncate(HEADER + self.portions * _ENTRY.itemsize)

    @staticmethod
    def _write(file: IO[bytes], content: bytes) -> None:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())

    def append(self, records: np.ndarray) -> None:
        """Add a portion. If the disk is full, or the process dies, it is as if this had never been called."""
        portion = np.ascontiguousarray(records, RECORD).tobytes()
        whole = self.records * RECORD.itemsize
        try:
            self._write(self._data, portion)
            self._write(self._file, _entry(self.records + len(records), portion))
        except OSError as error:
            self._data.truncate(whole)
            self._file.truncate(HEADER + self.portions * _ENTRY.itemsize)
            raise OSError(error.errno, error.strerror, str(self._records)) from None
        self.portions += 1
        self.records += len(records)

    def close(self) -> None:
        self._data.close()
        self._file.close()

    def __enter__(self) -> Part:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read(folder: Path, check: bool = False) -> list[np.ndarray]:
    """The positions of all parts in a folder, mapped into memory; ``check`` compares them with their checksums."""
    found: list[np.ndarray] = []
    for index in sorted(folder.glob(f"*{INDEX}")):
        path, entries = index.with_suffix(POSITIONS), _entries(index)
        if not len(entries):
            continue
        count = int(entries["records"][-1])
        try:
            if path.stat().st_size < count * RECORD.itemsize:
                raise StoreError(f"{path}: shorter than its index says")
            records = np.memmap(path, RECORD, "r", shape=(count,))
        except FileNotFoundError:
            raise StoreError(f"{path}: is not there, but its index is") from None
        if check:
            _check(path, records, entries)
        found.append(records)
    if not found:
        raise StoreError(f"{folder}: there are no positions")
    return found


def _check(path: Path, records: np.ndarray, entries: np.ndarray) -> None:
    first = 0
    for number, entry in enumerate(entries):
        if zlib.crc32(records[first : int(entry["records"])].tobytes()) != int(entry["checksum"]):
            raise StoreError(f"{path}: portion {number} is damaged")
        portion = records[first : int(entry["records"])]
        if (portion["mover"] & portion["opponent"]).any():  # kernels would read, and learn, beside their tables
            raise StoreError(f"{path}: portion {number} has boards with both colours on a square")
        first = int(entry["records"])
