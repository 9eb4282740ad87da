"""What a training run is told: frozen dataclasses, filled from a preset (``presets/*.toml``) and ``--set`` options.

>>> config = load_preset("quick").changed(["td.lambda=0.8", "net.stages=3"])
>>> config.td.lam, config.net["stages"]
(0.8, 3)
>>> config.changed(["td.lamda=0.8"])
Traceback (most recent call last):
othello_nn.config.ConfigError: unknown option 'td.lamda'; did you mean 'lambda'?
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from othello_nn.errors import OthelloError, did_you_mean, shorten

PRESETS = Path(__file__).resolve().parent / "presets"
DEFAULT_PRESET = "quick"


class ConfigError(OthelloError):
    """A configuration that makes no sense; the message says which option, and what it could be."""


def _option(default: Any, low: float | None = None, high: float | None = None, key: str = "", choices: Any = ()) -> Any:
    """A field with the values it can have; ``key`` is its name in files where Python's would not do."""
    return field(default=default, metadata={"low": low, "high": high, "key": key, "choices": tuple(choices)})


class Section:
    """Fields checked against their metadata when made."""

    def __post_init__(self) -> None:
        for item in dataclasses.fields(self):  # type: ignore[arg-type]
            _check(item, getattr(self, item.name))


@dataclass(frozen=True)
class TD(Section):
    """Temporal-difference learning from games (``learn/td/learners.py``)."""

    lam: float = _option(0.7, 0, 1, key="lambda")
    """λ: 0 learns from the next position alone, 1 from the result alone."""
    batch_games: int = _option(256, 1, 1_000_000)
    """Games played with the same weights, of each process."""
    epsilon: float = _option(0.1, 0, 1)
    """Probability of a random move."""
    opening_plies: int = _option(6, 0, 60)
    """Each game begins with 0 to so many random moves."""
    cut: bool = _option(True)
    """A random move says nothing about the positions before it. If false, chance is a part of the world, as in the
    League's ε-Othello."""
    opponent: str = _option("", choices=("", "swh", "random", "most-discs", "fewest-discs"))
    """A fixed opponent instead of self-play; only the learner's own positions are learnt."""
    outcome: str = _option("margin", choices=("margin", "win"))
    """What a finished game is worth: the squashed margin, or only who won."""
    targets: str = _option("returns", choices=("returns", "minimax"))
    """What stands for the next position's value in the λ-return: its own, or a 2-ply search from this position."""
    exact_empties: int = _option(0, 0, 16)
    """Positions with at most so many empty squares learn their solved score."""
    loss: str = _option("logistic", choices=("logistic", "squared"))
    """The error whose gradient is followed; `squared` is Leouski's."""
    images: bool = _option(True)
    """Learn each game, or position, as a random one of its eight symmetric images."""


@dataclass(frozen=True)
class Optim(Section):
    """How weights move (``learn/td/optim.py``, ``learn/td/online.py``)."""

    kind: str = _option("tc", choices=("tc", "adam", "sgd"))
    """Temporal coherence, Adam, or plain gradient descent."""
    rate: float = _option(1.0, 0, 1000)
    """Of temporal coherence: the share of an error that all lookups of a position together correct at first."""
    final_rate: float = _option(0.0, 0, 1000)
    """The rate falls geometrically to this over the run; 0 keeps it."""
    minibatch: int = _option(0, 0, 10_000_000)
    """Positions of one update; 0 takes a batch's games as one. Nets learnt on line take each game in turn."""


@dataclass(frozen=True)
class Backwards(Section):
    """Learning from the endgame backwards (``learn/backwards.py``)."""

    positions: tuple[int, ...] = _option((60_000, 300_000))
    """Positions for a stage, in each round."""
    solve_empties: int = _option(12, 1, 20)
    """Positions with at most so many empty squares are solved."""
    depth: int = _option(4, 2, 12)
    """Plies of the searches that label all others."""

    def __post_init__(self) -> None:
        super().__post_init__()
        rounds: Any = self.positions
        if type(rounds) is not tuple or not rounds or any(type(count) is not int or count < 1 for count in rounds):
            raise ConfigError(f"backwards.positions is {shorten(self.positions)}; it must be a list of whole numbers")


@dataclass(frozen=True)
class Leouski(Section):
    """Leouski's training as printed (``learn/leouski.py``)."""

    alpha: float = _option(0.05, 0, 10)
    """The learning rate."""
    ignore: float = _option(0.1, 0, 0.99)
    """Probability that the search ignores a better move."""
    exact_below: int = _option(11, 0, 16)
    """With fewer empty squares the game is searched to its end."""


@dataclass(frozen=True)
class Evolve(Section):
    """Jaśkowski's evolution strategy (``learn/evolve.py``)."""

    parents: int = _option(10, 1, 100_000)
    offspring: int = _option(90, 1, 100_000)
    generations: int = _option(5000, 1, 10_000_000)
    sigma: float = _option(1.0, 0, 1000)
    """Standard deviation of a mutation."""
    double_games: int = _option(1000, 1, 1_000_000)
    """Against the Standard WPC Heuristic, for one fitness."""
    epsilon: float = _option(0.1, 0, 1)


@dataclass(frozen=True)
class Measure(Section):
    """What is played to watch progress, and how often things are written."""

    seconds: float = _option(10.0, 0.1, 1e6)
    """Between two measurements of strength."""
    double_games: int = _option(500, 1, 100_000)
    """Against each opponent, in one measurement."""
    pictures_seconds: float = _option(60.0, 0.1, 1e6)
    """Between two sets of pictures and histograms."""
    save_seconds: float = _option(60.0, 0.01, 1e6)
    """Between two saves of the training state."""


@dataclass(frozen=True)
class Config(Section):
    """A whole run."""

    LEARNERS: ClassVar[tuple[str, ...]] = ("td", "backwards", "leouski", "evolve")

    net: dict[str, Any]
    preset: str = _option("")
    description: str = _option("")
    learner: str = _option("td", choices=LEARNERS)
    games: int = _option(100_000, 1, 10**12)
    """Games to learn from, of all processes together; learners that do not count games have their own measure."""
    init: str = _option("")
    """A net to start from instead of an empty one: a run's name, a shipped checkpoint's, or a file's path."""
    seed: int = _option(1, 0, 2**62)
    device: str = _option("auto")
    """auto, cpu, cuda or cuda:N."""
    td: TD = field(default_factory=TD)
    optim: Optim = field(default_factory=Optim)
    backwards: Backwards = field(default_factory=Backwards)
    leouski: Leouski = field(default_factory=Leouski)
    evolve: Evolve = field(default_factory=Evolve)
    measure: Measure = field(default_factory=Measure)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """The inverse of ``as_dict``; unknown keys are errors."""
        return _build(cls, values, "")

    def as_dict(self) -> dict[str, Any]:
        """As TOML or JSON would hold it. Sections of other learners are left out."""
        values: dict[str, Any] = {}
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            if isinstance(value, Section):
                if item.name in self.sections:
                    values[item.name] = {_key(part): _plain(getattr(value, part.name)) for part in _fields(value)}
            else:
                values[item.name] = value
        return values

    @property
    def sections(self) -> tuple[str, ...]:
        """The sections that this run's learner looks at."""
        return sections_of(self.learner)

    def changed(self, settings: Sequence[str] = (), **values: Any) -> Config:
        """With ``section.key=value`` settings, as they are typed, and top-level values changed."""
        config = self.as_dict() | values
        for setting in settings:
            path, equals, text = setting.partition("=")
            if not equals:
                raise ConfigError(f"{shorten(setting)} has no value; write section.key=value, such as td.lambda=0.7")
            _assign(config, self, path.strip(), _parse(text.strip()))
        return Config.from_dict(config)


def sections_of(learner: str) -> tuple[str, ...]:
    return ("td", "optim", "measure") if learner == "td" else (learner, "measure")


def preset_names() -> list[str]:
    return sorted(path.stem for path in PRESETS.glob("*.toml"))


def load_preset(name: str) -> Config:
    path = PRESETS / f"{name}.toml"
    if name not in preset_names():
        raise ConfigError(f"unknown preset {name!r}; {did_you_mean(name, preset_names())}")
    return Config.from_dict(tomllib.loads(path.read_text(encoding="utf-8")) | {"preset": name})


# --- making and checking ---------------------------------------------------------------------------------------------


def _fields(section: Any) -> tuple[dataclasses.Field, ...]:
    return dataclasses.fields(section)


def _key(item: dataclasses.Field) -> str:
    return item.metadata.get("key") or item.name


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _build(kind: type, values: Mapping[str, Any], where: str) -> Any:
    if not isinstance(values, Mapping):
        raise ConfigError(f"{where.rstrip('.')} is {shorten(values)}; it must be a section of options")
    items = {_key(item): item for item in dataclasses.fields(kind)}
    made: dict[str, Any] = {}
    for key, value in values.items():
        if key not in items:
            raise ConfigError(f"unknown option '{where}{key}'; {did_you_mean(key, items)}")
        item = items[key]
        factory = item.default_factory
        if isinstance(factory, type) and issubclass(factory, Section):
            value = _build(factory, value, f"{where}{key}.")
        made[item.name] = tuple(value) if isinstance(value, list) else value
    if "net" in items and not isinstance(made.get("net"), dict):
        raise ConfigError("a configuration needs a section net with the kind of net to train")
    return kind(**made)


def _check(item: dataclasses.Field, value: Any) -> None:
    """One line that says what the value of a field must be, if it is not."""
    kind: Any = type(item.default)
    if item.default is dataclasses.MISSING or kind is tuple:
        return
    name, meta = _key(item), item.metadata
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        words = {int: "a whole number", float: "a number", str: "a word", bool: "true or false"}
        raise ConfigError(f"{name} is {shorten(value)}; it must be {words[kind]}")
    if meta.get("choices") and value not in meta["choices"]:
        raise ConfigError(f"{name} is {shorten(value)}; {did_you_mean(value, meta['choices'])}")
    low, high = meta.get("low"), meta.get("high")
    if low is not None and not low <= value <= high:  # also false for NaN
        raise ConfigError(f"{name} is {value}; it must be from {low:g} to {high:g}")


def _parse(text: str) -> Any:
    """A value as TOML reads it; anything else is a word."""
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    return value if isinstance(value, bool | int | float | str | list | dict) else text  # dates are words here


def _assign(config: dict[str, Any], current: Config, path: str, value: Any) -> None:
    names = path.split(".")
    if names[0] == "net" and len(names) > 1:
        _assign_net(config, names[1:], value, path)
        return
    places = {_key(item): item for item in dataclasses.fields(Config)}
    if names[0] not in places:
        raise ConfigError(f"unknown option {path!r}; {did_you_mean(names[0], places)}")
    section = getattr(current, names[0])
    if isinstance(section, Section) and len(names) == 2:
        used = sections_of(config["learner"])  # it may have been set just before
        if names[0] not in used:
            raise ConfigError(
                f"{path!r} does nothing here: the learner {config['learner']!r} looks at {', '.join(used)}"
            )
        config[names[0]] = dict(config.get(names[0], {})) | {names[1]: value}
    elif isinstance(section, Section) or len(names) > 1:
        raise ConfigError(f"{path!r} is no option; write section.key=value, such as td.lambda=0.7")
    else:
        config[names[0]] = value


def _assign_net(config: dict[str, Any], names: list[str], value: Any, path: str) -> None:
    """Into the outermost net that knows the option: ``net.maps`` reaches the triangle net inside a staged one."""
    from othello_nn.nets.base import net_options

    config["net"] = net = _copied(config["net"])
    while len(names) > 1 and isinstance(net.get(names[0]), dict):
        net, names = net[names[0]], names[1:]
    known: list[str] = []
    while True:
        options = ["kind", *net_options(net.get("kind"))]
        known += options
        if names[0] in options or not isinstance(net.get("net"), dict):
            break
        net = net["net"]
    if names[0] not in options or len(names) > 1:
        raise ConfigError(f"unknown option {path!r}; {did_you_mean(names[-1], known)}")
    if names[0] == "tuples":
        net.pop("tuple_set", None)
    net[names[0]] = value


def _copied(net: dict[str, Any]) -> dict[str, Any]:
    return {key: _copied(value) if isinstance(value, dict) else value for key, value in net.items()}
