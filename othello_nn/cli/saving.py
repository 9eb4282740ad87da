"""Whether a file can be written, asked before there is anything to write."""

from __future__ import annotations

import tempfile
from pathlib import Path


def why_unwritable(path: Path) -> str | None:
    """Why a file cannot be written, or replaced if it is there; None if it can."""
    if not path.parent.is_dir():
        return f"there is no folder {str(path.parent)!r}"
    if path.is_dir():
        return "it is a folder"
    if path.exists() and not path.is_file():
        return "it is not a file"
    try:
        # As the file itself will be: written beside its place, then put there.
        with tempfile.NamedTemporaryFile(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent) as file:
            file.write(b"a line")
    except (OSError, ValueError) as error:
        return f"the folder {str(path.parent)!r} cannot be written: {getattr(error, 'strerror', None) or error}"
    return None
