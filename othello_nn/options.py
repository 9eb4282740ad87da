"""Options: what a value may be, said once for all who take it.

A file, a setting of a run, a net, a key of a player and a flag of a command are all given values. An ``Option`` says
what they may be, what is taken if nothing is said, and what it is for; a ``Section`` is a frozen dataclass of options,
checked when it is made. Plain Python, since the command line needs it before anything heavy is loaded.

>>> threads = Whole(1, "threads of one search", 1, 64)
>>> threads.read("2")
2
>>> threads.check("threads", 65)
Traceback (most recent call last):
othello_nn.options.OptionError: threads is 65; it must be a whole number from 1 to 64
>>> Word("fixed", "whether coefficients are learnt", ("fixed", "learned")).check("gate", "learn")
Traceback (most recent call last):
othello_nn.options.OptionError: gate is 'learn'; did you mean 'learned'?
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from othello_nn.errors import OthelloError, did_you_mean, nearest, shorten

SEPARATED_FROM = 10_000
"""Numbers from here on are shown with their thousands set apart."""


class OptionError(OthelloError):
    """An option that is not there, or a value that it cannot have; the message says which, and what it could be."""


@dataclass(frozen=True)
class Option:
    """A value that can be chosen. ``default`` is None where saying nothing is a choice of its own."""

    default: Any
    sentence: str
    """What it is for, as it stands in a table or behind a flag: without a capital and a full stop."""

    @property
    def values(self) -> str:
        """What it can be, to stand behind ``it must be``."""
        raise NotImplementedError

    def converted(self, value: Any) -> Any:
        """The value as it is kept; a ``ValueError`` if it cannot be one."""
        raise NotImplementedError

    def parsed(self, text: str) -> Any:
        """What a text stands for, which need not be a possible value; a ``ValueError`` if it is nothing at all."""
        return text

    def advice(self, value: Any) -> str:
        return f"it must be {self.values}"

    def check(self, name: str, value: Any, error: type[OthelloError] = OptionError) -> Any:
        """The value as it is kept, or one line that says what it must be."""
        try:
            return self.converted(value)
        except ValueError:
            raise error(f"{name} is {shorten(value)}; {self.advice(value)}") from None

    def read(self, text: str) -> Any:
        """The value that was typed; a ``ValueError`` if it cannot be one."""
        return self.converted(self.parsed(text))

    @property
    def left_open(self) -> Self:
        """The same option where it need not be said: somebody else has the default."""
        return dataclasses.replace(self, default=None)


@dataclass(frozen=True)
class Whole(Option):
    low: float = -math.inf
    high: float = math.inf
    what: str = "a whole number"

    @property
    def values(self) -> str:
        return self.what + _range(self.low, self.high)

    def converted(self, value: Any) -> int:
        if type(value) is not int or not self.low <= value <= self.high:
            raise ValueError
        return value

    def parsed(self, text: str) -> int:
        return int(text)


@dataclass(frozen=True)
class Number(Option):
    """Kept as a float; a whole number will do."""

    low: float = -math.inf
    high: float = math.inf
    what: str = "a number"

    @property
    def values(self) -> str:
        return self.what + _range(self.low, self.high)

    def converted(self, value: Any) -> float:
        if type(value) not in (int, float) or not abs(value) <= sys.float_info.max:  # also false for NaN
            raise ValueError
        if not self.low <= value <= self.high:
            raise ValueError
        return float(value)

    def parsed(self, text: str) -> float:
        return float(text)


@dataclass(frozen=True)
class Amount(Number):
    """A number, ``off``, which is 0, or ``on``: the amount that somebody else knows, kept as True."""

    @property
    def values(self) -> str:
        return f"on, off or {super().values}"

    def converted(self, value: Any) -> Any:
        return True if value is True else super().converted(value)

    def parsed(self, text: str) -> Any:
        words = {"on": True, "off": 0.0}
        return words[text.lower()] if text.lower() in words else super().parsed(text)


@dataclass(frozen=True)
class Flag(Option):
    words: tuple[str, str] = ("true", "false")
    """What yes and no are called where they are typed."""

    @property
    def values(self) -> str:
        return " or ".join(self.words)

    def converted(self, value: Any) -> bool:
        if type(value) is not bool:
            raise ValueError
        return value

    def parsed(self, text: str) -> bool:
        return not self.words.index(text.lower())


@dataclass(frozen=True)
class Word(Option):
    """One of ``choices``, or any text if there are none."""

    choices: tuple[str, ...] = ()
    what: str = "a word"

    @property
    def values(self) -> str:
        *most, last = (shown(choice) for choice in self.choices or (self.what,))
        return f"{', '.join(most)} or {last}" if most else last

    def converted(self, value: Any) -> str:
        if not isinstance(value, str) or (self.choices and value not in self.choices):
            raise ValueError
        return value

    def parsed(self, text: str) -> str:
        return text.lower() if self.choices else text

    def advice(self, value: Any) -> str:
        near = nearest(value, self.choices) if isinstance(value, str) else None
        return super().advice(value) if near is None else f"did you mean {near!r}?"


@dataclass(frozen=True)
class Several(Option):
    """A list of ``low`` to ``high`` values, kept as a tuple; ``what`` is what they are called."""

    each: Option
    what: str
    low: int = 0
    high: float = math.inf
    or_one: bool = False
    """A number may stand for the list that has it alone."""

    @property
    def values(self) -> str:
        bounds = f"{self.low} to {self.high} " if math.isfinite(self.high) else ""
        return f"{f'{self.each.values} or ' if self.or_one else ''}a list of {bounds}{self.what}"

    def converted(self, value: Any) -> tuple[Any, ...]:
        if self.or_one and type(value) in (int, float):
            return (value,)
        if isinstance(value, str) or not isinstance(value, Sequence) or not self.low <= len(value) <= self.high:
            raise ValueError
        return tuple(value)

    def check(self, name: str, value: Any, error: type[OthelloError] = OptionError) -> tuple[Any, ...]:
        return tuple(self.each.check(f"one of {name}", item, error) for item in super().check(name, value, error))


def _range(low: float, high: float) -> str:
    if math.isfinite(high):
        return f" from {shown(low)} to {shown(high)}"
    return f" from {shown(low)}" if math.isfinite(low) else ""


def shown(value: Any) -> str:
    """A value as people write it: ``10,000,000``, ``0.001``, ``true``, ``""`` for an empty word."""
    if type(value) is float or type(value) is int:
        whole = math.isfinite(value) and value == int(value)
        return (f"{int(value):,}" if abs(value) >= SEPARATED_FROM else str(int(value))) if whole else f"{value:g}"
    if isinstance(value, tuple):
        return f"[{', '.join(map(shown, value))}]"
    return str(value).lower() if type(value) is bool else value or '""'


# --- sections --------------------------------------------------------------------------------------------------------


def declared(option: Option, key: str = "") -> Any:
    """A field of a section; ``key`` is its name in files where Python's would not do."""
    return dataclasses.field(default=option.default, metadata={"option": option, "key": key})


class Section:
    """A frozen dataclass whose fields are options (``declared``); it may have others, which it checks itself."""

    place: ClassVar[str] = ""
    """The section that an option stands in, for messages."""
    error: ClassVar[type[OthelloError]] = OptionError

    def __post_init__(self) -> None:
        for item in dataclasses.fields(self):  # type: ignore[arg-type]
            option, value = item.metadata.get("option"), getattr(self, item.name)
            if option is None or value is option.default is None:
                continue
            object.__setattr__(self, item.name, option.check(self.placed(_key(item)), value, self.error))

    @classmethod
    def placed(cls, name: str) -> str:
        """The name of an option with its section."""
        return f"{cls.place}.{name}" if cls.place else name

    @classmethod
    def fields(cls) -> dict[str, str]:
        """The names of all fields in Python, by their names in files."""
        return {_key(item): item.name for item in dataclasses.fields(cls)}  # type: ignore[arg-type]

    @classmethod
    def options(cls) -> dict[str, Option]:
        """The options that were declared, by their names in files."""
        items = dataclasses.fields(cls)  # type: ignore[arg-type]
        return {_key(item): item.metadata["option"] for item in items if "option" in item.metadata}

    @classmethod
    def check_names(cls, names: Iterable[str], whose: str = "") -> None:
        """An error unless all of these are fields; ``whose`` may say where they are missing: `` of a triangle net``."""
        known = cls.fields()
        for name in names:
            if name not in known:
                raise cls.error(f"unknown option {cls.placed(name)!r}{whose}; {did_you_mean(str(name), known)}")

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Any:
        """The section with values by their names in files, which must be known."""
        return cls(**{cls.fields()[name]: value for name, value in values.items()})

    def as_dict(self) -> dict[str, Any]:
        """Every value by its name in files, as TOML or JSON would hold it; the inverse of ``of``."""
        return {key: _plain(getattr(self, name)) for key, name in self.fields().items()}


def _key(item: dataclasses.Field) -> str:
    return item.metadata.get("key") or item.name


def _plain(value: Any) -> Any:
    if isinstance(value, Section):
        return value.as_dict()
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value


# --- flags -----------------------------------------------------------------------------------------------------------


def flag_type(option: Option) -> Callable[[str], Any]:
    """An option as argparse's ``type``."""

    def read(text: str) -> Any:
        try:
            return option.read(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not {option.values}") from None

    return read


def add_flag(parser: argparse._ActionsContainer, flag: str, metavar: str, option: Option, **keywords: Any) -> None:
    """A flag for an option; its help is the option's sentence, and the default in brackets if there is one."""
    default = "" if option.default is None else f" ({shown(option.default)})"
    words = f"{option.sentence}{default}".replace("%", "%%")
    parser.add_argument(flag, type=flag_type(option), default=option.default, metavar=metavar, help=words, **keywords)
