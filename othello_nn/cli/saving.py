"""Games into files: looked at before they are played, written in one step when they are."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from othello_nn.checkpoint import write_whole
from othello_nn.game.formats.files import format_games
from othello_nn.game.record import Game


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
            file.write(b"games")
    except (OSError, ValueError) as error:
        return f"the folder {str(path.parent)!r} cannot be written: {getattr(error, 'strerror', None) or error}"
    return None


def save_in_one_step(path: Path, games: Sequence[Game]) -> None:
    """Write games by the ending of the name; an ``OSError`` leaves an older file as it was."""
    write_whole(path, format_games(path, games))
