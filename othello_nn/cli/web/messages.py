"""What a page may say to the server: one dataclass a message, checked before anything is done.

A message is a JSON object whose ``type`` is the name of a class here in lower case; the other keys are its fields.
Whatever else arrives is a ``MessageError`` that says what was wrong with it, and changes nothing. A player is written
``human`` or ``NAME@LEVEL``: only names that the server has offered can be chosen, never a file or a command.
"""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from typing import Any, get_type_hints

from othello_nn.errors import OthelloError, did_you_mean, shorten

MOST_TEXT = 20_000
"""Characters of what can be pasted: hundreds of games would fit, one is read."""
MOST_NAME, MOST_MOVES, MOST_PLY = 200, 600, 200
MOST_CLOCK = 24 * 3600.0
FORMATS = ("ggf", "sgf", "svg", "txt")


class MessageError(OthelloError):
    """A message that is not one of these."""


def _check_text(name: str, value: str, most: int) -> None:
    if len(value) > most:
        raise MessageError(f"{name} has {len(value)} characters; {most} are the most")


@dataclass(frozen=True)
class Message:
    """What all messages share: texts are short, numbers are numbers."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, str):
                _check_text(field.name, value, field.metadata.get("most", MOST_NAME))
            elif type(value) is float and not 0 <= value <= MOST_CLOCK:
                raise MessageError(f"{field.name} is {value}; it must be 0 to {MOST_CLOCK:g} seconds")
            elif type(value) is int and not 0 <= value <= MOST_PLY:
                raise MessageError(f"{field.name} is {shorten(value)}; it must be 0 to {MOST_PLY}")


def _long(most: int, default: Any = dataclasses.MISSING) -> Any:
    return dataclasses.field(default=default, metadata={"most": most})


@dataclass(frozen=True)
class New(Message):
    """Another game: from a position with moves behind it, a named opening, or a random balanced one."""

    black: str = "human"
    white: str = "human"
    start: str = "start"
    moves: str = _long(MOST_MOVES, "")
    opening: str = ""
    link: str = _long(MOST_MOVES, "")
    """The end of a link to a game, in the place of start and moves."""
    clock: float = 0.0
    """Seconds of each side for the game; 0 is none."""
    ply: int = MOST_PLY
    """Which position of the game is shown; the last, if there are fewer moves."""
    black_left: float = 0.0
    white_left: float = 0.0
    """What the clocks show, where a game goes on; 0: all of it."""
    paused: bool = False


@dataclass(frozen=True)
class Seats(Message):
    """Others play on from here."""

    black: str
    white: str


@dataclass(frozen=True)
class Play(Message):
    """A move at a ply: a click that comes too late, when the board has changed, is no move."""

    square: str
    ply: int


@dataclass(frozen=True)
class Goto(Message):
    """Look at the position after so many moves."""

    ply: int


@dataclass(frozen=True)
class Undo(Message):
    """Back to one's last turn, or before the last change."""


@dataclass(frozen=True)
class Redo(Message):
    """Take back the taking back."""


@dataclass(frozen=True)
class Resign(Message):
    """The person to move, or the only one who plays, gives up."""


@dataclass(frozen=True)
class Pause(Message):
    """Computers wait, or go on."""

    on: bool


@dataclass(frozen=True)
class Hint(Message):
    """What should I play?"""


@dataclass(frozen=True)
class Minds(Message):
    """Whose values are shown, on the squares (``values``) and over the game; ``other`` may be nobody, empty."""

    mind: str
    other: str = ""
    values: bool = True
    look: bool = False
    """Also show what the first of them looks at."""


@dataclass(frozen=True)
class Analyze(Message):
    """Judge every move of the game, or stop it."""

    on: bool


@dataclass(frozen=True)
class Paste(Message):
    """A game or a position in any format."""

    text: str = _long(MOST_TEXT)


@dataclass(frozen=True)
class Export(Message):
    """The game as a file."""

    format: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.format not in FORMATS:
            raise MessageError(f"there is no format {shorten(self.format)}; {did_you_mean(self.format, FORMATS)}")


TYPES: dict[str, type[Message]] = {cls.__name__.lower(): cls for cls in Message.__subclasses__()}
_HINTS = {cls: get_type_hints(cls) for cls in TYPES.values()}


def parse(text: str) -> Message:
    """The message in a text, or a ``MessageError``."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise MessageError("this is not JSON") from None
    if not isinstance(found, dict):
        raise MessageError("a message is an object with a type")
    name = found.pop("type", None)
    cls = TYPES.get(name) if isinstance(name, str) else None
    if cls is None:
        raise MessageError(f"there is no message {shorten(name)}")
    kinds = _HINTS[cls]
    values = {key: _value(f"{name}.{shorten(key)}", value, kinds.get(key)) for key, value in found.items()}
    missing = [
        field.name
        for field in dataclasses.fields(cls)
        if field.name not in values and field.default is dataclasses.MISSING
    ]
    if missing:
        raise MessageError(f"{name} needs {missing[0]}")
    return cls(**values)


def _value(place: str, value: Any, kind: type | None) -> Any:
    if kind is None:
        raise MessageError(f"{place} is not part of the message")
    if kind is float and type(value) is int and abs(value) < 1e9:
        value = float(value)
    if type(value) is not kind or (isinstance(value, float) and not math.isfinite(value)):
        raise MessageError(f"{place} must be of type {kind.__name__}, not {shorten(value)}")
    return value
