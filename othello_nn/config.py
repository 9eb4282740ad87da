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
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from othello_nn.errors import OthelloError, did_you_mean, shorten
from othello_nn.kinds import KINDS, net_options, option_names, own_options
from othello_nn.options import Flag, Number, Option, OptionError, Section, Several, Whole, Word, declared
from othello_nn.resources import NET_FILE

PRESETS = Path(__file__).resolve().parent / "presets"
DEFAULT_PRESET = "quick"
OWN_PRESET = "own"
"""How a net learns that is named without a preset."""
TARGETS = ("returns", "minimax")
"""What ``td.targets`` can be; ``learn/td/targets.py`` says what they are."""
NO_NET = "a configuration needs a section net with the kind of net to train"


class ConfigError(OptionError):
    """A configuration that makes no sense; the message says which option, and what it could be."""


class Settings(Section):
    """A section of a configuration."""

    error: ClassVar[type[OthelloError]] = ConfigError


@dataclass(frozen=True)
class TD(Settings):
    """Temporal-difference learning from games (``learn/td/learners.py``)."""

    place = "td"

    lam: float = declared(
        Number(0.7, "λ: 0 learns from the next position alone, 1 from the result alone", 0, 1), "lambda"
    )
    batch_games: int = declared(Whole(256, "games played with the same weights, of each process", 1, 1_000_000))
    epsilon: float = declared(Number(0.1, "probability of a random move", 0, 1))
    opening_plies: int = declared(Whole(6, "each game begins with 0 to so many random moves", 0, 60))
    cut: bool = declared(
        Flag(
            True,
            "a random move says nothing about the positions before it; if false, chance is a part of the world, as in "
            "the League's ε-Othello",
        )
    )
    opponent: str = declared(
        Word(
            "",
            "a fixed opponent instead of self-play; only the learner's own positions are learnt",
            ("", "swh", "random", "most-discs", "fewest-discs"),
        )
    )
    outcome: str = declared(
        Word("margin", "what a finished game is worth: the squashed margin, or only who won", ("margin", "win"))
    )
    targets: str = declared(
        Word(
            "returns",
            "what stands for the next position's value in the λ-return: its own, or a 2-ply search from this position",
            TARGETS,
        )
    )
    exact_empties: int = declared(
        Whole(0, "positions with at most so many empty squares learn their solved score", 0, 16)
    )
    loss: str = declared(
        Word("logistic", "the error whose gradient is followed; `squared` is Leouski's", ("logistic", "squared"))
    )
    ahead: int = declared(
        Whole(
            1,
            "batches played ahead while the net learns: games are played with the weights of so many steps before; "
            "nets that cannot be compiled play in turns with the learning, unless their endings are to be solved",
            1,
            64,
        )
    )
    passes: int = declared(
        Whole(1, "batches learnt from in a step: the new one, and others chosen again from those kept", 1, 100)
    )
    replay: int = declared(
        Whole(0, "batches kept to be learnt from again, besides the new one; they are a part of a run's state", 0, 1000)
    )
    augment: bool = declared(
        Flag(True, "augmentation: learn each game, or position, as a random one of its eight symmetric images")
    )


@dataclass(frozen=True)
class Optim(Settings):
    """How weights move (``learn/td/optim.py``, ``learn/td/online.py``)."""

    place = "optim"

    kind: str = declared(
        Word(
            "tc",
            "temporal coherence (of tables; Adam for all else), Adam, or plain gradient descent",
            ("tc", "adam", "sgd"),
        )
    )
    rate: float = declared(
        Number(
            1.0,
            "the learning rate; of temporal coherence, the share of an error that all lookups of a position together "
            "correct at first",
            0,
            1000,
        )
    )
    final_rate: float = declared(Number(0.0, "the rate falls geometrically to this over the run; 0 keeps it", 0, 1000))
    minibatch: int = declared(
        Whole(
            0,
            "positions of one update; 0 leaves it to the learner: 1,024 by temporal coherence, else 512, or each game "
            "in turn where tables learn on line",
            0,
            10_000_000,
        )
    )
    compile: bool = declared(
        Flag(False, "compile the updates of nets that learn by autograd (torch.compile, on a GPU with CUDA graphs)")
    )


@dataclass(frozen=True)
class Backwards(Settings):
    """Learning from the endgame backwards (``learn/backwards.py``)."""

    place = "backwards"

    positions: tuple[int, ...] = declared(
        Several((60_000, 300_000), "positions for a stage, in each round", Whole(None, "", 1), "whole numbers", low=1)
    )
    solve_empties: int = declared(Whole(12, "positions with at most so many empty squares are solved", 1, 20))
    depth: int = declared(Whole(4, "plies of the searches that label all others", 2, 12))


def _by_generation(default: tuple[float, ...], about: str, each: Option) -> Several:
    """A setting that each generation may have of its own; a number alone is for all of them."""
    what = "whole numbers" if isinstance(each, Whole) else "numbers"
    return Several(default, about, each, what, low=1, or_one=True)


@dataclass(frozen=True)
class Searched(Settings):
    """Learning from searched games, in generations (``learn/data/learner.py``)."""

    place = "searched"

    positions: tuple[int, ...] = declared(
        _by_generation(
            (1_000_000, 4_000_000),
            "positions that each generation makes; 0 makes none, with `searched.games`",
            Whole(None, "", 0),
        )
    )
    depth: tuple[int, ...] = declared(
        _by_generation(
            (4, 6), "plies of a generation's searches; the last goes for all after it", Whole(None, "", 1, 20)
        )
    )
    solve: int = declared(Whole(14, "positions with at most so many empty squares are solved", 0, 24))
    opening_plies: int = declared(Whole(16, "each game begins with 0 to so many random moves", 0, 50))
    latest: int = declared(Whole(14, "chance ends, in all games, with so many empty squares left", 0, 60))
    aside: float = declared(
        Number(0.5, "share of the positions beside which another is kept, one that was not played", 0, 1)
    )
    lam: tuple[float, ...] = declared(
        _by_generation(
            (0.7,),
            "λ of each generation: 0 learns what a position's search says, 1 the result of its game",
            Number(None, "", 0, 1),
        ),
        "lambda",
    )
    window: tuple[int, ...] = declared(
        _by_generation(
            (2,),
            "generations whose positions each net learns from: its own and those before",
            Whole(None, "", 1, 100),
        )
    )
    passes: tuple[int, ...] = declared(
        _by_generation(
            (2,),
            "times that a generation's net sees each position; the last goes for all after it",
            Whole(None, "", 1, 1000),
        )
    )
    onward: int = declared(
        Whole(0, "in the last so many generations a net begins as the one before (the first as `init`), not anew", 0)
    )
    common: int = declared(
        Whole(1, "passes in which all stages of an embedding net have their tables in common; then each has its own", 0)
    )
    minibatch: int = declared(Whole(1024, "positions of one update", 1, 1 << 17))
    bits: int = declared(
        Whole(
            16, "of an embedding's numbers; 8 keep them within ±127/128, and a search has half as much to read", 8, 16
        )
    )
    average: float = declared(
        Number(
            0.0,
            "the net is a mean over the fit's last steps, of 131,072 positions: so much of it stays each",
            0,
            0.9999,
        )
    )
    patience: int = declared(
        Whole(0, "a fit ends when its test error has not fallen in so many of its 40 tests; 0: never", 0)
    )
    rate: float = declared(Number(0.08, "learning rate of the tables, which falls to nothing along a cosine", 0, 100))
    head_rate: tuple[float, ...] = declared(
        _by_generation(
            (0.02,), "learning rate of the networks behind them, likewise, of each generation", Number(None, "", 0, 100)
        )
    )
    folder: str = declared(Word("", "where the positions are kept; without it, in the run's folder"))
    games: str = declared(
        Word("", "a file of games, whose positions are learnt in every generation beside those that are made")
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bits not in (8, 16):  # said before the run that this one starts from is made
            raise ConfigError(f"searched.bits is {self.bits}; it must be 8 or 16")


@dataclass(frozen=True)
class Leouski(Settings):
    """Leouski's training as printed (``learn/leouski.py``)."""

    place = "leouski"

    alpha: float = declared(Number(0.05, "the learning rate", 0, 10))
    ignore: float = declared(Number(0.1, "probability that the search ignores a better move", 0, 0.99))
    exact_below: int = declared(Whole(11, "with fewer empty squares the game is searched to its end", 0, 16))


@dataclass(frozen=True)
class Evolve(Settings):
    """Jaśkowski's evolution strategy (``learn/evolve.py``)."""

    place = "evolve"

    parents: int = declared(Whole(10, "individuals that a generation keeps", 1, 100_000))
    offspring: int = declared(Whole(90, "children of each generation", 1, 100_000))
    generations: int = declared(Whole(5000, "generations of the run", 1, 10_000_000))
    sigma: float = declared(Number(1.0, "standard deviation of a mutation", 0, 1000))
    double_games: int = declared(
        Whole(1000, "double games against the Standard WPC Heuristic, for one fitness", 1, 1_000_000)
    )
    epsilon: float = declared(Number(0.1, "probability of a random move in these games", 0, 1))


@dataclass(frozen=True)
class Policy(Settings):
    """The policy gradient of the League score (``learn/policy.py``)."""

    place = "policy"

    batch_games: int = declared(Whole(4000, "games of each colour for one step of the weights", 1, 1_000_000))
    epsilon: float = declared(Number(0.1, "probability of a random move in these games, for both sides", 0, 1))
    lam: float = declared(
        Number(0.9, "λ: 0 believes the critic's next value, 1 the result of the game alone", 0, 1), "lambda"
    )
    rate: float = declared(Number(12.0, "how many natural gradients a step goes", 1e-6, 1000))
    final_rate: float = declared(Number(2.0, "the rate falls geometrically to this over the run; 0 keeps it", 0, 1000))
    damping: float = declared(
        Number(0.001, "share of its mean diagonal that is added to the diagonal of Fisher's matrix", 1e-9, 1000)
    )
    memory: float = declared(Number(0.95, "share of Fisher's matrix that stays from one step to the next", 0, 0.9999))
    critic: str = declared(Word("patterns", "the critic's tuples"))
    critic_stages: int = declared(Whole(1, "tables that the critic has, by the number of empties", 1, 60))
    critic_rate: float = declared(
        Number(0.12, "the critic's learning rate: the share of an error that goes to its logit", 0, 100)
    )


@dataclass(frozen=True)
class Measure(Settings):
    """What is played to watch progress, and how often things are written."""

    place = "measure"

    seconds: float = declared(Number(10.0, "between two measurements of strength", 0.1, 1e6))
    double_games: int = declared(Whole(500, "double games against each opponent, in one measurement", 1, 100_000))
    pictures_seconds: float = declared(Number(60.0, "between two sets of pictures and histograms", 0.1, 1e6))
    save_seconds: float = declared(Number(60.0, "between two saves of the training state", 0.01, 1e6))
    probcut: int = declared(
        Whole(400, "positions searched at the end, to fit the ProbCut that the net plays with; 0: none", 0, 100_000)
    )


@dataclass(frozen=True)
class Config(Settings):
    """What a run as a whole is told.

    ``net`` is complete: what was not given has its default, so that a run goes on as it began.
    """

    LEARNERS: ClassVar[tuple[str, ...]] = ("td", "backwards", "searched", "leouski", "evolve", "policy")

    net: dict[str, Any]
    preset: str = declared(Word("", "the preset that the run was made from"))
    description: str = declared(Word("", "what the preset is, in a line"))
    learner: str = declared(Word("td", "how the net learns; each learner has a section of its own below", LEARNERS))
    games: int = declared(
        Whole(
            100_000,
            "games to learn from, of all processes together; learners that do not count games have their own measure",
            1,
            10**12,
        )
    )
    init: str = declared(
        Word("", "a net to start from instead of an empty one: a shipped net's name, a run's, or a file's path")
    )
    seed: int = declared(Whole(1, "of all chance", 0, 2**62))
    device: str = declared(Word("auto", "auto, cpu, cuda or cuda:N"))
    td: TD = field(default_factory=TD)
    optim: Optim = field(default_factory=Optim)
    backwards: Backwards = field(default_factory=Backwards)
    searched: Searched = field(default_factory=Searched)
    leouski: Leouski = field(default_factory=Leouski)
    evolve: Evolve = field(default_factory=Evolve)
    policy: Policy = field(default_factory=Policy)
    measure: Measure = field(default_factory=Measure)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.net, Mapping):
            raise ConfigError(NO_NET)
        object.__setattr__(self, "net", net_options(self.net).as_dict())

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """The inverse of ``as_dict``; unknown keys are errors."""
        cls.check_names(values)
        made = {"net": None, **values}
        for name, section in SECTIONS.items():
            if name in made:
                given = made[name]
                if not isinstance(given, Mapping):
                    raise ConfigError(f"{name} is {shorten(given)}; it must be a section of options")
                given = {RENAMED.get((name, key), key): value for key, value in given.items()}
                section.check_names(given)
                made[name] = section.of(given)
        config = cls.of(made)
        for name, section in SECTIONS.items():  # runs of earlier versions have all of them, those unused as they are
            if name not in config.sections and getattr(config, name) != section():
                raise ConfigError(f"the section {name!r} {_unlooked(config.learner)}")
        return config

    def as_dict(self) -> dict[str, Any]:
        """As TOML or JSON would hold it. Sections of other learners are left out."""
        unused = SECTIONS.keys() - set(self.sections)
        return {name: value for name, value in super().as_dict().items() if name not in unused}

    @property
    def recipe(self) -> dict[str, Any]:
        """How a net is made, for others: without the places on this machine. A run that was named by its file is called
        by its name."""
        made = self.as_dict()
        init = Path(self.init)
        if init.is_absolute():
            made["init"] = init.parent.name if init.name == NET_FILE else init.name
        if "searched" in made:
            made["searched"] |= {"folder": "", "games": Path(self.searched.games).name}
        return made

    @property
    def differences(self) -> dict[str, tuple[Any, Any]]:
        """Settings that are not as in the preset, by their dotted names: the preset's value and this one's. None where
        the preset is no longer there to compare with."""
        if self.preset not in preset_names():
            return {}
        before, now = (flat(each.as_dict()) for each in (load_preset(self.preset), self))
        names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
        return {name: (before.get(name), now.get(name)) for name in names}

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
            _assign(config, path.strip(), _parse(text.strip()))
        if config["learner"] != self.learner:  # what the other one was told
            config = {name: value for name, value in config.items() if name not in self.sections or name == "measure"}
        return Config.from_dict(config)


def flat(values: Mapping[str, Any], place: str = "") -> dict[str, Any]:
    """Nested sections as one, with dotted names."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= flat(value, f"{place}{name}.") if isinstance(value, Mapping) else {f"{place}{name}": value}
    return found


SECTIONS: dict[str, type[Settings]] = {
    section.place: section for section in (TD, Optim, Backwards, Searched, Leouski, Evolve, Policy, Measure)
}
"""The sections with options, by name."""


RENAMED = {("td", "images"): "augment"}
"""Options that had another name in runs of earlier versions."""


def sections_of(learner: str) -> tuple[str, ...]:
    """The sections that a learner looks at."""
    return ("td", "optim", "measure") if learner == "td" else (learner, "measure")


def _unlooked(learner: str) -> str:
    return f"does nothing here: the learner {learner!r} looks at {', '.join(sections_of(learner))}"


def preset_names() -> list[str]:
    return sorted(path.stem for path in PRESETS.glob("*.toml"))


def load_preset(name: str) -> Config:
    path = PRESETS / f"{name}.toml"
    if name not in preset_names():
        raise ConfigError(f"unknown preset {name!r}; {did_you_mean(name, preset_names())}")
    return Config.from_dict(tomllib.loads(path.read_text(encoding="utf-8")) | {"preset": name})


# --- settings as they are typed ---------------------------------------------------------------------------------------


def _parse(text: str) -> Any:
    """A value as TOML reads it; anything else is a word."""
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # also of a number of thousands of digits, or as many brackets
        return text
    return value if isinstance(value, bool | int | float | str | list | dict) else text  # dates are words here


def _assign(config: dict[str, Any], path: str, value: Any) -> None:
    names = path.split(".")
    if names[0] == "net" and len(names) > 1:
        _assign_net(config, names[1:], value, path)
    elif names[0] not in Config.fields():
        raise ConfigError(f"unknown option {path!r}; {did_you_mean(names[0], Config.fields())}")
    elif names[0] in SECTIONS and len(names) == 2:
        # It may have been set just before.
        learner = Config.options()["learner"].check("learner", config["learner"], ConfigError)
        used = sections_of(learner)
        if names[0] not in used:
            raise ConfigError(f"{path!r} {_unlooked(learner)}")
        config[names[0]] = dict(config.get(names[0], {})) | {names[1]: value}
    elif names[0] in SECTIONS or len(names) > 1:
        raise ConfigError(f"{path!r} is no option; write section.key=value, such as td.lambda=0.7")
    else:
        config[names[0]] = value


def _assign_net(config: dict[str, Any], names: list[str], value: Any, path: str) -> None:
    """Into the outermost net that knows the option: ``net.maps`` reaches the triangle net inside a staged one."""
    if not isinstance(config["net"], dict):
        raise ConfigError(NO_NET)
    config["net"] = net = _copied(config["net"])
    while len(names) > 1 and isinstance(net.get(names[0]), dict):
        net, names = (net if names[0] == "options" else net[names[0]]), names[1:]
    known: list[str] = []
    while True:
        options, own = ["kind", *option_names(net.get("kind"))], own_options(net)
        known += [*options, *own]
        if names[0] in known or not isinstance(net.get("net"), dict):
            break
        net = net["net"]
    if names[0] in own and len(names) == 1:  # of a user's class
        net["options"] = dict(net.get("options") or {}) | {names[0]: own[names[0]].check(path, value, ConfigError)}
        return
    if names[0] not in options or len(names) > 1:
        raise ConfigError(f"unknown option {path!r}; {did_you_mean(names[-1], known)}")
    if names[0] == "tuples":
        net.pop("tuple_set", None)
    net[names[0]] = value


def _copied(net: dict[str, Any]) -> dict[str, Any]:
    return {key: _copied(value) if isinstance(value, dict) else value for key, value in net.items()}


# --- the tables in docs/training.md ----------------------------------------------------------------------------------

BEGIN, END = "<!-- begin options -->", "<!-- end options -->"


def options_tables() -> str:
    """Every option of a run and of a net, in Markdown. ``python -m othello_nn.config PAGE`` writes them into a page."""
    parts: list[tuple[str, type[Section], str]] = [("The run", Config, "")]
    parts += [(f"`[{name}]`", section, f"{name}.") for name, section in SECTIONS.items()]
    parts += [(f'`[net]` with `kind = "{kind}"`', options, "net.") for kind, options in KINDS.items()]
    return "\n\n".join(_table(*part) for part in parts)


def _table(title: str, section: type[Section], place: str) -> str:
    about = (section.__doc__ or "").partition("\n")[0].replace("``", "`")
    lines = [f"**{title}.** {about}", "", "| option | can be | default | meaning |", "|---|---|---|---|"]
    for name, option in section.options().items():
        default = "" if option.default is dataclasses.MISSING else f"`{_typed(option.default)}`"
        lines.append(f"| `{place}{name}` | {option.values} | {default} | {option.sentence} |")
    return "\n".join(lines)


def _typed(value: Any) -> str:
    """A value as it is typed behind ``--set KEY=``."""
    return value if value and isinstance(value, str) else json.dumps(value)


def with_tables(page: str) -> str:
    """A page with the tables between its two marks brought up to date."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ConfigError(f"there is no {BEGIN} … {END} in the page")
    return f"{before}{begin}\n{options_tables()}\n{end}{after}"


if __name__ == "__main__":
    import sys

    path = Path(sys.argv[1])
    path.write_text(with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")
