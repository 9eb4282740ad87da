"""What all commands share: how the command line is read, and how a command ends."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any, NoReturn

from othello_nn.program import as_started

INTERRUPTED = 130
"""The exit code after Ctrl-C."""


class UsageError(Exception):
    """The command line cannot be understood."""


class Failure(Exception):
    """What was asked for could not be done."""


class CommandParser(argparse.ArgumentParser):
    """Errors as exceptions of one line, help with examples as they were written."""

    def __init__(self, *arguments: Any, **keywords: Any):
        keywords |= {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}
        super().__init__(*arguments, **keywords)
        self.prog = as_started(self.prog)

    def format_help(self) -> str:
        return as_started(super().format_help())

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


def give_up_stdout() -> None:
    """The reader of our output has gone (`| head`), or its disk is full: at exit nothing is left to be told."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def missing_package(error: ModuleNotFoundError) -> str:
    """What to say where a package that the program needs is not installed; what is missing of our own is a bug."""
    if error.name is None or error.name.startswith("othello_nn"):
        raise error
    return f"the package {error.name!r} is not installed for {sys.executable}: python -m pip install -e . installs it"
