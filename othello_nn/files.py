"""Files that are whole, or not used: written in one step, with a checksum, and read only if they are files.

A safetensors file that is sealed has the checksum of all its bytes among its metadata, so that one flipped bit anywhere
in it is noticed. Files from before there were checksums have none, and are believed.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import tempfile
import time
import zlib
from collections.abc import Mapping, Set
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

MODE = 0o644  # what is written is meant to be shared; temporary files are the owner's alone
LEFT_OVER_SECONDS = 600.0
"""Nobody takes so long to write a file: what is older was left by a process that was killed."""
CHECKSUM = "crc32"
"""The metadata that seal a file. Against accidents, not against forgers, and many times as fast as what stops those."""
_UNKNOWN = "00000000"  # stands for the checksum where the checksum is taken


def plain_file(path: str | os.PathLike[str]) -> Path:
    """The path of a file that has an end; an ``OSError`` for a device or a pipe, which may have none."""
    path = Path(path)
    if path.exists() and not path.is_file() and not path.is_dir():
        what = "a pipe" if path.is_fifo() else "a socket" if path.is_socket() else "a device"
        raise OSError(errno.EINVAL, f"it is {what}, not a file", str(path))
    return path


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file by new content, or leave everything as it was."""
    remove_leftovers(path, LEFT_OVER_SECONDS)
    partial = None
    try:
        handle, partial = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        with open(handle, "wb") as file:  # noqa: PTH123 (an open descriptor)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # a full disk may show only here
        os.chmod(partial, MODE)  # noqa: PTH101
        os.replace(partial, path)  # noqa: PTH105 (tests let this fail)
        partial = None
    except OSError as error:
        # mkstemp would name the temporary file.
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
    finally:
        if partial is not None:
            with contextlib.suppress(OSError):
                os.unlink(partial)  # noqa: PTH108


def remove_leftovers(path: Path, seconds: float = 0) -> None:
    """Remove what processes that were killed have left of a file half written, if it is at least so old."""
    before = time.time() - seconds
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        with contextlib.suppress(OSError):  # somebody else was faster
            if left.stat().st_mtime <= before:
                left.unlink()


# --- the seal --------------------------------------------------------------------------------------------------------


def sealed(tensors: Mapping[str, np.ndarray], meta: Mapping[str, str]) -> bytes:
    """The content of a safetensors file with its checksum."""
    import numpy as np
    from safetensors.numpy import save

    arrays = {name: np.asarray(array, order="C") for name, array in tensors.items()}
    content = save(arrays, {**meta, CHECKSUM: _UNKNOWN})
    return content.replace(_entry(_UNKNOWN), _entry(f"{zlib.crc32(content):08x}"), 1)


def _entry(checksum: str) -> bytes:
    """As it stands in the header. Nowhere before it can be the same: in names and values quotes are escaped."""
    return f'"{CHECKSUM}":"{checksum}"'.encode()


def why_damaged(path: str | os.PathLike[str], meta: Mapping[str, str], known: Set[str]) -> str:
    """What is wrong with a safetensors file with these metadata; nothing if its bytes are those that were written.

    Other metadata than those that are ``known`` are wrong, too: one of them may have been the checksum.
    """
    if unknown := sorted(meta.keys() - known - {CHECKSUM}):
        return f"unknown metadata {unknown[0]!r}"
    if CHECKSUM not in meta:
        return ""
    content = Path(path).read_bytes()
    given, unsealed = _entry(meta[CHECKSUM]), _entry(_UNKNOWN)
    start = content.find(given)
    found = zlib.crc32(content[:start])
    found = zlib.crc32(unsealed, found)
    found = zlib.crc32(memoryview(content)[start + len(given) :], found)
    return "" if meta[CHECKSUM] == f"{found:08x}" else "its checksum is not that of what it holds"
