"""A file of lines that one process at a time adds to, and that whatever kills the process leaves whole.

A line counts once its end is on disk: what a killed writer left of its last line is cut off by the next. While it is
open the file is locked, so that no second process does the same work. Closed without a line, it is removed.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows, where a file that another process writes cannot be removed at least
    fcntl = None


class InUseError(Exception):
    """Another process has the file."""


class LockedLines:
    """A file that is being written. All errors are ``OSError``, or ``InUseError`` at the beginning."""

    _file: IO[bytes]

    def __init__(self, path: Path):
        self.path = path
        self._file = self._locked()

    def _locked(self) -> IO[bytes]:
        """The file, opened and ours alone."""
        while True:
            file = self.path.open("a+b", buffering=0)  # else what failed to be written would be tried again
            try:
                if fcntl is None:
                    return file
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                with suppress(FileNotFoundError):
                    if os.path.samestat(os.fstat(file.fileno()), self.path.stat()):
                        return file
            except BlockingIOError:
                file.close()
                raise InUseError from None
            except BaseException:
                file.close()
                raise
            file.close()  # another process has removed it meanwhile, since it had nothing to keep

    def read(self) -> bytes:
        """All that is there, the last line perhaps cut off."""
        self._file.seek(0)
        return self._file.read()

    def keep(self, size: int) -> None:
        """Cut off what follows the first so many bytes."""
        self._file.truncate(size)

    def append(self, content: bytes, header: bytes = b"", sync: bool = True) -> None:
        """Add whole lines, after ``header`` if they are the first. If that fails the file is as it was before.

        With ``sync`` they are on disk before this returns; without, they survive the process, but no power cut.
        """
        size = 0
        try:
            size = self._file.seek(0, os.SEEK_END)
            left = memoryview(content if size else header + content)
            while left:
                left = left[self._file.write(left) :]
            if sync:
                os.fsync(self._file.fileno())  # a full disk may show only here
            if not size:
                self._sync_folder()
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._file.fileno(), size)
            raise

    def _sync_folder(self) -> None:
        """A new file is in its folder for good. Not every system can be asked for it."""
        with suppress(OSError):
            handle = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def remove(self) -> None:
        """The file has done its work."""
        if not self._file.closed:
            with suppress(OSError):
                self.path.unlink()
            self._file.close()

    def close(self) -> None:
        """Let others have the file. May be called again."""
        if self._file.closed:
            return
        with suppress(OSError):
            if os.fstat(self._file.fileno()).st_size == 0:
                self.path.unlink()
        self._file.close()
