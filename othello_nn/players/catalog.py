"""The players there are, by name, and ``make_player``, which makes one from its specification."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from othello_nn.players.base import Player, PlayerError
from othello_nn.players.simple import FEWEST_DISCS, MOST_DISCS, SWH, OnePlyPlayer, RandomPlayer, SquareWeights
from othello_nn.players.spec import GTP, KEYS, TERMS, PlayerSpec, parse_spec
from othello_nn.resources import (
    BEST,
    RUNS,
    SHOWN_RUNS,
    SUFFIX,
    NoNetError,
    UnknownNetError,
    find_net,
    other_name,
    shipped_nets,
    trained_nets,
)

if TYPE_CHECKING:
    from othello_nn.engine import Limit

TUPLES, MODULE = "tuples:", "module:"
TORCH_KEYS = ("device", "batch")
SEARCH_KEYS = tuple(key for key in KEYS if key not in ("timeout", "net", "view", *TORCH_KEYS, *TERMS))
NET_KEYS = (*SEARCH_KEYS, *TORCH_KEYS)
_SHIPPED = {
    BEST: "the strongest net",
    "league": "the Othello League's specialist, which knows how to beat swh at depth=1 and little else",
    "all2": "the n-tuple paper's 288 weights, beyond its record against swh at depth=1, and for nothing else",
    "triangle": "Leouski's triangle net with application coefficients",
    "triangle-searched": "the same with more maps, learnt from searched games: for depth=2 and more, not for depth=1",
}
DEFAULT_SECONDS = 0.1
"""Time for a move of a searching player without limits and without a clock: matches should not take hours."""

Maker = Callable[[PlayerSpec, random.Random, float], Player]


@dataclass(frozen=True)
class Entry:
    """A name in the catalog."""

    description: str
    keys: tuple[str, ...]
    default: str
    make: Maker


def make_player(
    spec: str | PlayerSpec,
    rng: random.Random | None = None,
    *,
    seconds: float = DEFAULT_SECONDS,
    runs: Path = RUNS,
    net: Any = None,
) -> Player:
    """The player that ``NAME[:key=value,…]`` stands for; NAME is in ``player_names()``, or what ``find_net`` knows.

    ``rng`` is where its chance comes from (seed 0 if left out), ``seconds`` its time for a move if the specification
    sets no limit, ``runs`` the folder where runs are found by their names. With ``net``, an evaluator or a torch net,
    the player searches with that, and NAME is only what it is called: ``make_player("mine:depth=2", net=net)``.
    """
    if net is not None:
        return _net_player(parse_spec(spec) if isinstance(spec, str) else spec, net, rng or random.Random(0), seconds)
    spec, entry = find_player(spec, runs)
    return entry.make(spec, rng or random.Random(0), seconds)


def find_player(spec: str | PlayerSpec, runs: Path = RUNS) -> tuple[PlayerSpec, Entry]:
    """The specification and what it stands for, checked as far as that can be done without making the player."""
    spec = parse_spec(spec) if isinstance(spec, str) else spec
    entry = _find(spec, runs)
    _check_keys(spec, entry.keys)
    return spec, entry


def _check_keys(spec: PlayerSpec, keys: tuple[str, ...]) -> None:
    for key in spec.given:
        if key not in keys:
            quotes = "; what belongs to the command has to be in quotes" if spec.is_command else ""
            raise PlayerError(f"{spec.name} has no key {key!r}; it takes {', '.join(keys) or 'none'}{quotes}")


def player_names(runs: Path = RUNS) -> dict[str, Entry]:
    """Names with what they play: those that come with the program, and the newest runs."""
    names = _built_in()
    for name, path in list(trained_nets(runs).items())[:SHOWN_RUNS]:
        names.setdefault(name, _evaluator_entry(f"search with the net of the run {path.parent}", path))
    return names


def is_built_in(name: str) -> bool:
    """Whether a player of this name comes with the program, so that nothing else can have it."""
    return name in _built_in()


def best_player_name() -> str:
    """The strongest evaluator at hand: the one that comes with the program, or else the one that needs no file."""
    return BEST if BEST in shipped_nets() else "mobility"


def _built_in() -> dict[str, Entry]:
    names = dict(_CLASSICAL)
    for name, path in shipped_nets().items():
        what = _SHIPPED.get(name, f"the net checkpoints/{path.name}")
        names.setdefault(name, _evaluator_entry(f"search with {what}", path))
    return names


def _find(spec: PlayerSpec, runs: Path) -> Entry:
    names = _built_in()
    if spec.name in names:
        return names[spec.name]
    if spec.name.startswith(TUPLES):
        return _tuples_entry(spec.name.removeprefix(TUPLES))
    if spec.name.startswith(MODULE):
        return _module_entry(spec.name.removeprefix(MODULE), runs)
    if spec.is_command:
        return _external_entry(spec.name)
    try:
        path = find_net(spec.name, runs)
    except UnknownNetError:
        raise PlayerError(_unknown(spec.name, runs)) from None
    except NoNetError as error:
        raise PlayerError(str(error)) from None
    return _evaluator_entry(f"search with the net {path}", path)


def _unknown(name: str, runs: Path) -> str:
    if name == BEST:
        return f"{BEST!r} needs checkpoints/{BEST}{SUFFIX}, which is not there; 'mobility' needs no file"
    if ":" in name:
        return f"{name!r} is no player: behind the colon come key=value pairs, such as swh:depth=3"
    return f"unknown player {name!r}; {other_name(name, runs, tuple(_CLASSICAL))}"


# --- the makers ------------------------------------------------------------------------------------------------------


def _make_random(spec: PlayerSpec, rng: random.Random, seconds: float) -> Player:
    return RandomPlayer(spec.text, rng)


def _squares_maker(weights: SquareWeights) -> Maker:
    def make(spec: PlayerSpec, rng: random.Random, seconds: float) -> Player:
        # One ply needs no engine, and so no compiler: the program starts at once.
        if set(spec.given) <= {"depth", "epsilon"} and spec.depth in (None, 1):
            return OnePlyPlayer(spec.text, rng, weights, spec.epsilon or 0.0)
        from othello_nn.engine import Limit
        from othello_nn.players.searching import SearchPlayer, square_evaluator

        return SearchPlayer(spec, square_evaluator(weights), Limit(depth=1), rng)

    return make


def _classical_entry(description: str, source: str) -> Entry:
    """A player whose evaluator is ``module:name`` of this project: the evaluator itself, or what makes it."""

    def make(spec: PlayerSpec, rng: random.Random, seconds: float) -> Player:
        from othello_nn.players.searching import SearchPlayer

        module, name = source.split(":")
        found = getattr(importlib.import_module(f"othello_nn.{module}"), name)
        return SearchPlayer(spec, found() if callable(found) else found, _time_limit(seconds), rng)

    return Entry(f"search with {description}", SEARCH_KEYS, f"seconds={DEFAULT_SECONDS}", make)


def _make_keyano(spec: PlayerSpec, rng: random.Random, seconds: float) -> Player:
    from othello_nn.players.classic.keyano import keyano_with
    from othello_nn.players.searching import SearchPlayer

    chosen = tuple((name, value) for name, value in spec.given.items() if name in TERMS)
    return SearchPlayer(spec, keyano_with(chosen), _time_limit(seconds), rng)


def _evaluator_entry(description: str, path: Path) -> Entry:
    def make(spec: PlayerSpec, rng: random.Random, seconds: float) -> Player:
        from othello_nn.players.searching import SearchPlayer, table_evaluator

        return SearchPlayer(spec, table_evaluator(path, spec.device, spec.batch), _time_limit(seconds), rng)

    return Entry(description, NET_KEYS, f"seconds={DEFAULT_SECONDS}", make)


def _net_player(spec: PlayerSpec, net: Any, rng: random.Random, seconds: float) -> Player:
    """A player with an evaluator, or a torch net, that the caller has."""
    from othello_nn.players.searching import SearchPlayer, net_evaluator

    _check_keys(spec, NET_KEYS)
    return SearchPlayer(spec, net_evaluator(net, spec.name, spec.device, spec.batch), _time_limit(seconds), rng)


def _tuples_entry(file: str) -> Entry:
    def make(spec: PlayerSpec, rng: random.Random, seconds: float) -> Player:
        from othello_nn.engine import Limit
        from othello_nn.players.classic.league_tuples import VIEWS, load_tuples
        from othello_nn.players.searching import SearchPlayer

        if not file:
            raise PlayerError(f"{spec.text!r} names no file; write tuples:FILE")
        return SearchPlayer(spec, load_tuples(file, spec.view or VIEWS[0]), Limit(depth=1), rng)

    return Entry(f"search with the n-tuples in {Path(file).name}", (*SEARCH_KEYS, "view"), "depth=1", make)


def _module_entry(source: str, runs: Path) -> Entry:
    def make(spec: PlayerSpec, rng: random.Random, seconds: float) -> Player:
        from othello_nn.players.own import own_evaluator
        from othello_nn.players.searching import SearchPlayer

        evaluator = own_evaluator(source, spec.net, runs, spec.device, spec.batch)
        return SearchPlayer(spec, evaluator, _time_limit(seconds), rng)

    return Entry(f"search with your own net {source}", (*NET_KEYS, "net"), f"seconds={DEFAULT_SECONDS}", make)


def _external_entry(name: str) -> Entry:
    protocol, command = name.split(":", maxsplit=1)

    def make(spec: PlayerSpec, rng: random.Random, seconds: float) -> Player:
        from othello_nn.players.external.gtp import GtpPlayer
        from othello_nn.players.external.nboard import NBoardPlayer

        return (GtpPlayer if f"{protocol}:" == GTP else NBoardPlayer)(spec, command, rng)

    # GTP has no command for a depth, NBoard none for the time of a move.
    limit = "seconds" if f"{protocol}:" == GTP else "depth"
    return Entry(f"the program {command.strip()!r}", (limit, "epsilon", "timeout"), "", make)


def _time_limit(seconds: float) -> Limit:
    from othello_nn.engine import Limit

    return Limit(seconds=seconds)


def _squares_entry(description: str, weights: SquareWeights) -> Entry:
    return Entry(description, SEARCH_KEYS, "depth=1", _squares_maker(weights))


_CLASSICAL = {
    "random": Entry("any legal move", (), "", _make_random),
    "most-discs": _squares_entry("turns as many discs as it can", MOST_DISCS),
    "fewest-discs": _squares_entry("keeps as few discs as it can", FEWEST_DISCS),
    "swh": _squares_entry("Standard WPC Heuristic: a weight for each square, the papers' usual opponent", SWH),
    "mobility": _classical_entry(
        "a hand-written evaluator: moves, corners, stable discs", "engine.leaf.mobility:Mobility"
    ),
    "wystan": _classical_entry(
        "mobility and stability, weighted by hand: in the spirit of Leouski's opponent", "players.classic.wystan:WYSTAN"
    ),
    "iago": _classical_entry(
        "IAGO's evaluation of 1981: edges, stable discs, mobility", "players.classic.iago:iago_evaluator"
    ),
    "keyano": Entry(
        "search with KEYANO's evaluation: mobility curves, lost regions, patterns",
        (*SEARCH_KEYS, *TERMS),
        f"seconds={DEFAULT_SECONDS}",
        _make_keyano,
    ),
    "features": _classical_entry(
        "ten classical features, their weights learnt from the endgame backwards",
        "players.classic.features:shipped_features",
    ),
}
