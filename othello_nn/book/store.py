"""The file of a book: an SQLite database with one row for each position, found by its key in one probe.

What belongs together is written in one transaction with a rollback journal: a process that is killed loses at most what
it was adding, and the next one that opens the file, even to read it, takes back what is half written. Several processes
may read and write the same book: they wait for each other.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from othello_nn.book.canonical import KEY_BYTES, Key, shape_of
from othello_nn.errors import OthelloError
from othello_nn.game.rules import PASS

APPLICATION, FORMAT = 0x4F54424B, 1
"""What tells a book from other databases."""
WAIT_SECONDS = 60.0
"""How long a process waits for another one that writes."""
HIGHEST = 64.0
_EMPTY = "CREATE TABLE positions (key BLOB PRIMARY KEY, shape INTEGER NOT NULL, value REAL NOT NULL, best INTEGER, \
rest INTEGER, bound REAL, depth INTEGER NOT NULL) WITHOUT ROWID"
_COLUMNS = "value, best, rest, bound, depth"


class BookError(OthelloError):
    """A book that cannot be read, or not be written."""


@dataclass(frozen=True, slots=True)
class Node:
    """A position in the book. Moves are those of the position that its key stands for."""

    value: float
    """What it is worth to the side to move, in discs."""
    best: int | None
    """The move that is worth this much; None if the game is over."""
    rest: int | None
    """The best of the moves that lead out of the book, if it is known; else all of them are worth ``bound`` at most."""
    bound: float | None
    """What ``rest`` is worth; None if no move leads out of the book."""
    depth: int
    """Of the search that found ``bound``."""

    @property
    def is_sound(self) -> bool:
        """Whether these can be the values of a position: else the file is damaged."""
        moves = all(move is None or (type(move) is int and PASS <= move < 64) for move in (self.best, self.rest))
        values = all(type(x) is float and -HIGHEST <= x <= HIGHEST for x in (self.value, self.bound) if x is not None)
        return moves and values and self.value is not None and type(self.depth) is int


class Store:
    """A book's file. ``create`` makes a new one where there is none."""

    def __init__(self, path: str | Path, *, create: bool = False):
        self.path = Path(path)
        if self.path.exists() and not self.path.is_file():
            raise BookError(f"{str(path)!r} cannot be used: it is not a file")
        if not create and not self.path.exists():
            raise BookError(f"there is no book {str(path)!r}")
        if not self.path.absolute().parent.is_dir():
            raise BookError(f"the book {str(path)!r} cannot be made: there is no folder {str(self.path.parent)!r}")
        with self._explained():
            self._file = self._connect(create)
            try:
                if create:
                    self._begin()
                self._check()
            except BaseException:
                self._file.close()
                raise

    def _connect(self, create: bool) -> sqlite3.Connection:
        # Who only reads may have to take back what a killed process has half written, so it asks for more than reading.
        mode = "rwc" if create else "rw" if os.access(self.path, os.W_OK) else "ro"
        name = f"file:{quote(str(self.path.absolute()))}?mode={mode}"
        file = sqlite3.connect(name, WAIT_SECONDS, uri=True, isolation_level=None, check_same_thread=False)
        file.execute("PRAGMA synchronous = FULL")
        return file

    def _begin(self) -> None:
        """Make the tables of a new file; two processes may want to."""
        with self.writing():
            if self._pragma("application_id") == 0 and not self._tables():
                self._file.execute(_EMPTY)
                self._file.execute("CREATE INDEX by_shape ON positions (shape)")
                self._file.execute(f"PRAGMA application_id = {APPLICATION}")
                self._file.execute(f"PRAGMA user_version = {FORMAT}")

    def _check(self) -> None:
        if self._pragma("application_id") != APPLICATION or self._tables() != ["positions"]:
            raise BookError(f"{str(self.path)!r} is no opening book")
        if (version := self._pragma("user_version")) != FORMAT:
            raise BookError(f"{str(self.path)!r} has format {version}, which this program does not know")

    def _pragma(self, name: str) -> int:
        return self._file.execute(f"PRAGMA {name}").fetchone()[0]

    def _tables(self) -> list[str]:
        return [name for (name,) in self._file.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """What SQLite complains of, as one line that names the file."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise BookError(f"the book {str(self.path)!r} cannot be used: {error}") from None
        except (sqlite3.DatabaseError, OverflowError) as error:
            raise BookError(f"{str(self.path)!r} is damaged, or no opening book: {error}") from None

    # --- reading -----------------------------------------------------------------------------------------------------

    def get(self, key: Key) -> Node | None:
        with self._explained():
            row = self._file.execute(f"SELECT {_COLUMNS} FROM positions WHERE key = ?", (key,)).fetchone()
        return None if row is None else self._node(row)

    def _node(self, row: tuple) -> Node:
        node = Node(*row)
        if not node.is_sound:
            raise BookError(f"{str(self.path)!r} is damaged: a position has values that none can have")
        return node

    def with_shape(self, shape: int) -> list[Key]:
        """The positions whose discs stand on these squares, up to symmetry."""
        with self._explained():
            return [key for (key,) in self._file.execute("SELECT key FROM positions WHERE shape = ?", (shape,))]

    def __len__(self) -> int:
        with self._explained():
            return self._file.execute("SELECT count(*) FROM positions").fetchone()[0]

    def items(self) -> Iterator[tuple[Key, Node]]:
        """Every position, in no particular order."""
        with self._explained():
            for key, *row in self._file.execute(f"SELECT key, {_COLUMNS} FROM positions"):
                if type(key) is not bytes or len(key) != KEY_BYTES:
                    raise BookError(f"{str(self.path)!r} is damaged: it holds what is no position")
                yield key, self._node(tuple(row))

    def damage(self) -> str:
        """What SQLite finds wrong with the whole file; nothing if it is sound."""
        with self._explained():
            found = self._file.execute("PRAGMA integrity_check(1)").fetchone()[0]
        return "" if found == "ok" else " ".join(str(found).split())

    # --- writing -----------------------------------------------------------------------------------------------------

    def version(self) -> int:
        """Another number whenever somebody else has written."""
        with self._explained():
            return self._pragma("data_version")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Nobody else writes meanwhile; afterwards everything is in the file, or after an error nothing."""
        with self._explained():
            self._file.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._file.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._file.execute("ROLLBACK")
                raise

    def put(self, nodes: Iterable[tuple[Key, Node]]) -> None:
        """Add or replace positions, inside of ``writing``."""
        rows = ((key, shape_of(key), n.value, n.best, n.rest, n.bound, n.depth) for key, n in nodes)
        self._file.executemany("INSERT OR REPLACE INTO positions VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    def close(self) -> None:
        self._file.close()
