"""What the commands of this folder have in common: their help, what they tell on the way, and how they end."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

from othello_nn.errors import OthelloError
from othello_nn.options import Option, add_flag

WRONG, INTERRUPTED = 2, 130


class _Parser(argparse.ArgumentParser):
    """Errors of one line, as ``exit_code`` says all others."""

    def error(self, message: str) -> NoReturn:
        self.exit(WRONG, f"error: {message}\n")


def parser_of(name: str, document: str | None) -> argparse.ArgumentParser:
    """For ``python -m othello_nn.NAME``, whose help is the module's own text."""
    head, _, rest = (document or "").partition("\n")
    return _Parser(
        prog=f"python -m othello_nn.{name}",
        description=head,
        epilog=rest,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def add_numbers(parser: argparse.ArgumentParser, numbers: Mapping[str, Option]) -> None:
    """A flag for each number."""
    for name, option in numbers.items():
        add_flag(parser, f"--{name.replace('_', '-')}", "N", option)


def tell(text: str) -> None:
    """A line about how far it is, on stderr."""
    print(text, file=sys.stderr, flush=True)


def check_place(path: Path) -> None:
    """An error unless a file can be written there: better before the work than after it."""
    if not path.parent.is_dir():
        raise OthelloError(f"there is no folder {str(path.parent)!r} for the result")
    if path.is_dir():
        raise OthelloError(f"{str(path)!r} is a folder; name a file for the result")
    try:
        tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise OthelloError(f"{str(path)!r} cannot be written: {error.strerror or error}") from None


def exit_code(work: Callable[[], object], interrupted: str = "interrupted") -> int:
    """Do the work: 0, or a line on stderr that says what is wrong (2) or that Ctrl-C was pressed (130)."""
    try:
        work()
    except (OSError, ValueError) as error:
        tell(f"error: {error}")
        return WRONG
    except KeyboardInterrupt:
        tell(interrupted)
        return INTERRUPTED
    return 0
