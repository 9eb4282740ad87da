"""The kinds of nets there are, and their options: declared here, and nowhere else.

``nets`` builds a net from them, ``engine/leaf/compile.py`` an evaluator for the search, and ``config.py`` knows by them
what ``--set net.maps=24`` means. ``docs/extending.md`` adds a kind; ``docs/own-net.md`` needs none, since the kind
``module`` stands for every class that a user names. No torch is needed.

>>> options = net_options({"kind": "staged", "net": {"kind": "triangle", "maps": 24}})
>>> options.net.maps, options.centres
(24, (4.0, 34.0, 64.0))
>>> net_options({"kind": "triangle", "map": 24})
Traceback (most recent call last):
othello_nn.kinds.NetError: unknown option 'map' of a triangle net; did you mean 'maps'?
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from othello_nn.errors import OthelloError, did_you_mean, shorten
from othello_nn.modules import class_options, full_source, named_class
from othello_nn.options import Flag, Number, Option, Section, Several, Whole, Word, declared

DEEPEST = 4
"""Nets may be in each other so deep, and no further: each level has many copies of the next."""
SCALE = Number(10.0, "discs that make the squash's argument 1: of a margin of so many, the value is 0.46", 0.1, 1000)


class NetError(OthelloError):
    """A net that cannot be built, or was not given what it needs."""


@dataclass(frozen=True)
class NetOptions(Section):
    """The options of one kind of net, checked when they are made."""

    error: ClassVar[type[OthelloError]] = NetError
    kind: ClassVar[str]
    net_class: ClassVar[str]
    """Where the net's class is, MODULE:NAME; it is imported when a net is made."""

    @property
    def sees_colours(self) -> bool:
        """Its tables see black and white instead of mover and opponent."""
        return False

    def as_dict(self) -> dict[str, Any]:
        """The net's configuration: its kind and every option, as JSON can hold them."""
        return {"kind": self.kind} | super().as_dict()


class InnerNet(Option):
    """The configuration of a net inside a net, kept as its options."""

    @property
    def values(self) -> str:
        return "the configuration of a net"

    def converted(self, value: Any) -> NetOptions:
        return value if isinstance(value, NetOptions) else net_options(value)

    def check(self, name: str, value: Any, error: type[OthelloError] = NetError) -> NetOptions:
        if not isinstance(value, NetOptions | Mapping):
            raise error(f"a net or its configuration is needed, not {shorten(value)}")
        if _depth(value) >= DEEPEST:
            raise error(f"nets are nested {_depth(value) + 1} deep or more; the most is {DEEPEST}")
        return self.converted(value)  # what is wrong inside is said there


def _depth(net: Any) -> int:
    """How many nets are in each other, the outermost counted; no further than it matters."""
    depth = 0
    while isinstance(net, NetOptions | Mapping) and depth < DEEPEST:
        net, depth = net.get("net") if isinstance(net, Mapping) else getattr(net, "net", None), depth + 1
    return depth


class Tuples(Option):
    """The name of a set, or the squares themselves. ``nets/tuple_sets.py`` knows the sets and looks at the squares."""

    @property
    def values(self) -> str:
        return "the name of a set, or a list of lists of squares"

    def converted(self, value: Any) -> str | tuple[Any, ...]:
        if isinstance(value, str):
            return value
        if not isinstance(value, Sequence) or not value:
            raise ValueError
        return tuple(tuple(squares) if isinstance(squares, list) else squares for squares in value)


class Source(Option):
    """Where a user's class is. Looking at the words imports nothing."""

    @property
    def values(self) -> str:
        return "`FILE.py:Class`"

    def converted(self, value: Any) -> str:
        if not isinstance(value, str):
            raise ValueError
        return full_source(value)


class Values(Option):
    """What a user's class is told: words with numbers, words or truth values. Only the class knows which there are."""

    @property
    def values(self) -> str:
        return "a section of whole numbers, numbers, words, true or false"

    def converted(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise ValueError
        if not all(isinstance(name, str) and type(each) in (bool, int, float, str) for name, each in value.items()):
            raise ValueError
        return dict(value)


INNER = InnerNet(dataclasses.MISSING, "the net that is copied, a section of its own")


@dataclass(frozen=True)
class TriangleOptions(NetOptions):
    """Leouski's triangle net: eight triangles of the board see the same few weights."""

    kind = "triangle"
    net_class = "othello_nn.nets.triangle:TriangleNet"

    maps: int = declared(Whole(12, "maps: each is ten weights, which all eight triangles of the board share", 1, 4096))
    empties: bool = declared(Flag(False, "ten more weights a map, for inputs that are 1 where a square is empty"))
    symmetric: bool = declared(Flag(False, "one bias and one output weight a map instead of eight"))
    scale: float = declared(SCALE)


@dataclass(frozen=True)
class NTupleOptions(NetOptions):
    """Tables of weights, looked up by the contents of a few squares each and added up."""

    kind = "ntuple"
    net_class = "othello_nn.nets.ntuple:NTupleNet"

    tuples: str | tuple[tuple[int, ...], ...] = declared(
        Tuples("all-2", "the squares that are looked up together: a set such as `patterns` or `rows+all-3`, or lists")
    )
    tuple_set: str = declared(
        Word("", "where a list of tuples came from; written by the program", (), "the name of a set")
    )
    stages: int = declared(Whole(1, "parts of the game by the number of empties, each with its own tables", 1, 60))
    shared: bool = declared(
        Flag(False, "one more row of tables, added in every stage, so that what is rare in one is learnt from others")
    )
    dim: int = declared(
        Whole(1, "numbers in a cell: 1 is discs, more are a vector that goes through a hidden layer", 1, 256)
    )
    hidden: int = declared(Whole(16, "units of that hidden layer", 1, 4096))
    heads: int = declared(
        Whole(
            1,
            "such hidden layers, each for a part of the game by the number of empties; each weighs the sum anew",
            1,
            60,
        )
    )
    view: str = declared(
        Word(
            "inversion",
            "what the tables see: mover and opponent, or (`negation`) black and white, with the value turned for white",
            ("inversion", "negation"),
        )
    )
    scale: float = declared(SCALE)
    sparse: bool = declared(Flag(False, "gradients of the tables as sparse tensors"))
    seed: int = declared(Whole(0, "of random sets of tuples", 0, 2**63 - 1))

    @property
    def sees_colours(self) -> bool:
        return self.view == "negation"


@dataclass(frozen=True)
class DenseOptions(NetOptions):
    """A fully connected net, of the size that Leouski compares his triangles with: 64 squares, 96 units, one value."""

    kind = "dense"
    net_class = "othello_nn.nets.dense:DenseNet"

    hidden: int = declared(Whole(96, "units of the hidden layer; each sees all 64 squares", 1, 65536))
    scale: float = declared(SCALE)


@dataclass(frozen=True)
class StagedOptions(NetOptions):
    """Copies of a net, blended over the course of a game by Leouski's application coefficients."""

    kind = "staged"
    net_class = "othello_nn.nets.staged:Staged"

    net: NetOptions = field(metadata={"option": INNER})
    centres: tuple[float, ...] = declared(
        Several(
            (4.0, 34.0, 64.0),
            "the number of discs at which each copy counts most; there are as many copies",
            Number(None, "", 0, 64),
            "numbers of discs",
            1,
            16,
        )
    )
    width: float = declared(Number(20.0, "discs after which a copy's share has fallen to 1/e", 0.1, 1000))
    gate: str = declared(
        Word(
            "fixed",
            "whether the coefficients stay, are where learning starts, or are corrected by a network of the position",
            ("fixed", "learned", "network"),
        )
    )
    gate_units: int = declared(Whole(16, "hidden units of that network, which sees both sides' discs", 1, 4096))

    @property
    def sees_colours(self) -> bool:
        return self.net.sees_colours


@dataclass(frozen=True)
class DoubledOptions(NetOptions):
    """Two copies of a net, one for positions with black to move and one for the others."""

    kind = "doubled"
    net_class = "othello_nn.nets.staged:Doubled"

    net: NetOptions = field(metadata={"option": INNER})


@dataclass(frozen=True)
class ModuleOptions(NetOptions):
    """Any `nn.Module`: a class in a file that the user has named by `--net FILE.py:Class` (see own-net.md)."""

    kind = "module"
    net_class = "othello_nn.nets.module:ModuleNet"

    source: str = field(metadata={"option": Source(dataclasses.MISSING, "the class; written by `--net`")})
    told: dict[str, Any] = field(
        default_factory=dict,
        metadata={
            "option": Values({}, "the class's own options; `--set net.width=64` sets `net.options.width`"),
            "key": "options",
        },
    )
    scale: float = declared(SCALE)


KINDS: dict[str, type[NetOptions]] = {
    options.kind: options
    for options in (TriangleOptions, NTupleOptions, DenseOptions, StagedOptions, DoubledOptions, ModuleOptions)
}
"""The options of each kind of net, by the name that ``kind`` has in a configuration."""


def net_options(config: Mapping[str, Any]) -> NetOptions:
    """The options in a net's configuration; what it does not say has its default. A ``NetError`` if it cannot be."""
    if not isinstance(config, Mapping):
        raise NetError(f"a net's configuration is a mapping with a kind, not {shorten(config)}")
    given = dict(config)
    kind = given.pop("kind", None)
    if kind is None:
        raise NetError(f"a net's configuration needs a kind; choose from {', '.join(KINDS)}")
    if not isinstance(kind, str) or kind not in KINDS:
        raise NetError(f"unknown kind of net {shorten(kind)}; {did_you_mean(str(kind), KINDS)}")
    KINDS[kind].check_names(given, whose=f" of a {kind} net")
    for name, option in KINDS[kind].options().items():
        if option.default is dataclasses.MISSING and name not in given:
            raise NetError(f"a {kind} net needs the option {name!r}")
    return KINDS[kind].of(given)


def option_names(kind: Any) -> tuple[str, ...]:
    """The options that a kind of net has; none if there is no such kind."""
    return tuple(KINDS[kind].fields()) if isinstance(kind, str) and kind in KINDS else ()


def own_options(net: Mapping[str, Any]) -> dict[str, Option]:
    """The options of the user's class that a configuration names; none for other kinds."""
    source = net.get("source")
    if net.get("kind") != ModuleOptions.kind or not isinstance(source, str):
        return {}
    return class_options(named_class(source))
