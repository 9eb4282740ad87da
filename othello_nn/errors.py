"""What can be wrong with what a user gives, and the words to say it in. Nothing else of the package is needed here."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

LONGEST_MESSAGE = 1000


class OthelloError(ValueError):
    """Input that cannot be used. Every error the game layer raises about its input is one of these.

    A message repeats what was given, but not at any length.
    """

    def __init__(self, message: object = ""):
        super().__init__(cut(str(message), LONGEST_MESSAGE))


class InvalidMoveError(OthelloError):
    """Not a move at all, on any board: "z9", 99."""


class IllegalMoveError(OthelloError):
    """A well-formed move that cannot be played here."""


class InvalidPositionError(OthelloError):
    """Not a board: a wrong sign, a wrong number of squares, overlapping masks."""


def shorten(value: object, limit: int = 40) -> str:
    """A value as it is quoted in error messages: its repr, cut when it is long."""
    try:
        text = repr(value)
    except ValueError:  # Python does not print integers of thousands of digits
        return "a huge number"
    return text if len(text) <= limit else text[: limit - 3] + "..."


def cut(text: str, limit: int) -> str:
    """A text, or its beginning if it is long."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def nearest(word: str, choices: Iterable[str]) -> str | None:
    """The choice that was probably meant, if there is one like it."""
    near = difflib.get_close_matches(word.lower(), list(choices), n=1)
    return near[0] if near else None


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """The end of an error message: the nearest valid word, or all of them if none is near."""
    choices = list(choices)
    near = nearest(word, choices)
    return f"did you mean {near!r}?" if near is not None else f"choose from {', '.join(choices)}"
