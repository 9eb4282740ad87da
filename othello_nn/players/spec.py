"""How a player is written: ``NAME[:key=value,…]``, such as ``champion:seconds=0.5,threads=2``.

The name of another program is its command, which may hold colons and equal signs itself. Its keys are only what stands
behind the last colon, and only if every word before an equal sign there is a key and there is no space or quote: so a
last word that looks like keys but is part of the command is put in quotes.

>>> parse_spec("swh:depth=3,epsilon=0.1")
PlayerSpec(name='swh', text='swh:depth=3,epsilon=0.1', depth=3, epsilon=0.1)
>>> parse_spec("module:examples/resnet.py:ResNet:net=mynet-1").name
'module:examples/resnet.py:ResNet'
>>> parse_spec("gtp:edax -gtp --log=a:b=c:seconds=2").name
'gtp:edax -gtp --log=a:b=c'
>>> parse_spec("swh:dept=3")
Traceback (most recent call last):
othello_nn.players.base.PlayerError: unknown key 'dept' in 'swh:dept=3'; did you mean 'depth'?
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import Any

from othello_nn.errors import did_you_mean, shorten
from othello_nn.options import Amount, Flag, Number, Option, Whole, Word
from othello_nn.players.base import PlayerError
from othello_nn.search_options import (
    BATCH,
    CLOCK,
    DEPTH,
    DEVICE,
    DRIVER,
    NODES,
    PROBCUT,
    SECONDS,
    TABLE_MB,
    THREADS,
    TRUST,
)

_KEYS_FOLLOW = re.compile(r":(?=[A-Za-z_-]*=)")
LONGEST_SHOWN = 200
"""Characters of a specification that a message repeats."""
LIMITS = ("depth", "nodes", "seconds")
COMMANDS = GTP, NBOARD = "gtp:", "nboard:"
"""What stands before the command of another program."""


@dataclass(frozen=True)
class PlayerSpec:
    """A player as it was asked for; what was not said is None."""

    name: str
    text: str = ""
    """The whole specification, as written: the player's name in results."""
    depth: int | None = None
    nodes: int | None = None
    seconds: float | None = None
    solve: int | None = None
    epsilon: float | None = None
    gives: float | None = None
    threads: int | None = None
    probcut: bool | str | None = None
    trust: float | None = None
    search: str | None = None
    table: float | None = None
    clock: str | None = None
    device: str | None = None
    batch: int | None = None
    timeout: float | None = None
    net: str | None = None
    view: str | None = None
    book: str | None = None
    margin: float | None = None
    mobility: bool | None = None
    parity: float | None = None
    vectors: bool | None = None
    corners: bool | None = None
    edges: bool | None = None

    @property
    def given(self) -> dict[str, Any]:
        """The keys that were said."""
        return {key: value for key in KEYS if (value := getattr(self, key)) is not None}

    @property
    def is_command(self) -> bool:
        """The player is another program."""
        return self.name.startswith(COMMANDS)

    @property
    def is_limited(self) -> bool:
        """Depth, nodes or seconds were said, so no default applies."""
        return any(getattr(self, key) is not None for key in LIMITS)

    def __repr__(self) -> str:
        fields = {"name": self.name, "text": self.text} | self.given
        return f"PlayerSpec({', '.join(f'{key}={value!r}' for key, value in fields.items())})"


KEYS: dict[str, Option] = {
    "depth": DEPTH,
    "nodes": NODES,
    "seconds": dataclasses.replace(SECONDS, low=1e-3, high=1e6),  # other programs are told it, too
    "solve": Whole(None, "empties from which the end is solved, however long it takes", 0, 60),
    "epsilon": Number(None, "probability of a random move", 0, 1),
    "gives": Number(None, "discs given away in a game, in expectation, to play weaker", 0, 300),
    "threads": THREADS.left_open,
    "probcut": PROBCUT.left_open,
    "trust": TRUST,
    "search": DRIVER.left_open,
    "table": TABLE_MB.left_open,
    "clock": CLOCK.left_open,
    "device": DEVICE.left_open,
    "batch": BATCH.left_open,
    "timeout": Number(None, "seconds after which a silent program counts as hung", 1e-3, 1e6),
    "net": Word(None, "the weights of `module:FILE.py:Class`: a run's name or a file", (), "a run's name or a path"),
    "view": Word(None, "how the player of `tuples:FILE` sees the board", ("inversion", "negation")),
    "book": Word(None, "the opening book: `on` is opening.book in this folder", (), "on, off or a file"),
    "margin": Number(None, "discs that a move from the book may be worse than its best, for variety", 0, 64),
}
TERMS: dict[str, Option] = {
    "mobility": Flag(None, "the mobility curves of keyano", ("on", "off")),
    "parity": Amount(None, "what a lost region costs keyano; the paper has 64", 0, 1000),
    "vectors": Flag(None, "the patterns of lines of keyano", ("on", "off")),
    "corners": Flag(None, "the patterns of corners of keyano", ("on", "off")),
    "edges": Flag(None, "the patterns of edges of keyano", ("on", "off")),
}
"""Parts of an evaluation that can be switched off."""
KEYS |= TERMS
assert set(KEYS) == {field.name for field in dataclasses.fields(PlayerSpec)} - {"name", "text"}
_KEY = rf"(?:{'|'.join(KEYS)})=[^\s,:'\"]*"
_LAST_KEYS = re.compile(rf":(?={_KEY}(?:,{_KEY})*$)")


def parse_spec(text: str) -> PlayerSpec:
    """Name and keys, each value checked; whether the name is known is for ``catalog.make_player`` to say."""
    text = text.strip()
    # A path may hold colons: the keys begin at the first colon with a `word=` behind it. A command may hold that too.
    name, *rest = (_LAST_KEYS if text.startswith(COMMANDS) else _KEYS_FOLLOW).split(text, maxsplit=1)
    if not name:
        raise PlayerError(f"no player is named in {text!r}; write NAME or NAME:key=value,…")
    values: dict[str, Any] = {}
    for item in rest[0].split(",") if rest else []:
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals:
            raise PlayerError(f"{item.strip()!r} in {text!r} has no value; write key=value")
        if key not in KEYS:
            raise PlayerError(f"unknown key {key!r} in {text!r}; {did_you_mean(key, KEYS)}")
        if key in values:
            raise PlayerError(f"{key!r} is given twice in {text!r}")
        try:
            values[key] = KEYS[key].read(value)
        except ValueError:
            where = shorten(text, LONGEST_SHOWN)
            raise PlayerError(f"{key} is {shorten(value)} in {where}; it must be {KEYS[key].values}") from None
    return PlayerSpec(name, text, **values)
