"""The players there are, by name, and ``make_player``, which makes one from its specification."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from othello_nn.players.base import Player, PlayerError
from othello_nn.players.simple import FEWEST_DISCS, MOST_DISCS, SWH, OnePlyPlayer, RandomPlayer, SquareWeights
from othello_nn.players.spec import KEYS, PlayerSpec, did_you_mean, parse_spec

if TYPE_CHECKING:
    from othello_nn.engine import Limit

CHECKPOINTS = Path(__file__).resolve().parent.parent.parent / "checkpoints"
SUFFIX = ".safetensors"
TUPLES = "tuples:"
BEST = "champion"
_SHIPPED = {
    BEST: "the strongest net",
    "league": "the Othello League's specialist, which knows how to beat swh at depth=1 and little else",
    "triangle": "Leouski's triangle net with application coefficients",
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
    spec: str | PlayerSpec, rng: random.Random | None = None, *, seconds: float = DEFAULT_SECONDS
) -> Player:
    """The player that ``NAME[:key=value,…]`` stands for; NAME is in ``player_names()`` or the path of an evaluator.

    ``rng`` is where its chance comes from (seed 0 if left out), ``seconds`` its time for a move if the specification
    sets no limit.
    """
    spec = parse_spec(spec) if isinstance(spec, str) else spec
    entry = _find(spec)
    for key in spec.given:
        if key not in entry.keys:
            raise PlayerError(f"{spec.name} has no key {key!r}; it takes {', '.join(entry.keys) or 'none'}")
    return entry.make(spec, rng or random.Random(0), seconds)


def player_names() -> dict[str, Entry]:
    """Every name with what it plays, the checkpoints that are there included."""
    names = dict(_BUILT_IN)
    for path in sorted(CHECKPOINTS.glob(f"*{SUFFIX}")):
        what = _SHIPPED.get(path.stem, f"the net checkpoints/{path.name}")
        names.setdefault(path.stem, _evaluator_entry(f"search with {what}", path))
    return names


def best_player_name() -> str:
    """The strongest evaluator at hand: the one that comes with the program, or else the one that needs no file."""
    return BEST if (CHECKPOINTS / f"{BEST}{SUFFIX}").is_file() else "mobility"


def _find(spec: PlayerSpec) -> Entry:
    names = player_names()
    if spec.name in names:
        return names[spec.name]
    if spec.name.startswith(TUPLES):
        return _tuples_entry(spec.name.removeprefix(TUPLES))
    path = Path(spec.name)
    if spec.name.endswith(SUFFIX):
        return _evaluator_entry(f"search with the evaluator {path.name}", path)
    if spec.name == BEST:
        raise PlayerError(f"{BEST!r} needs checkpoints/{BEST}{SUFFIX}, which is not there; 'mobility' needs no file")
    if ":" in spec.name:
        raise PlayerError(f"{spec.name!r} is no player: behind the colon come key=value pairs, such as swh:depth=3")
    advice = did_you_mean(spec.name, [*names, f"a path that ends in {SUFFIX}"])
    raise PlayerError(f"unknown player {spec.name!r}; {advice}")


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


def _make_mobility(spec: PlayerSpec, rng: random.Random, seconds: float) -> Player:
    from othello_nn.engine.evaluate import Mobility
    from othello_nn.players.searching import SearchPlayer

    return SearchPlayer(spec, Mobility(), _time_limit(seconds), rng)


def _make_keyano(spec: PlayerSpec, rng: random.Random, seconds: float) -> Player:
    from othello_nn.players.keyano import shipped_keyano
    from othello_nn.players.searching import SearchPlayer

    return SearchPlayer(spec, shipped_keyano(), _time_limit(seconds), rng)


def _evaluator_entry(description: str, path: Path) -> Entry:
    def make(spec: PlayerSpec, rng: random.Random, seconds: float) -> Player:
        from othello_nn.players.searching import SearchPlayer, table_evaluator

        return SearchPlayer(spec, table_evaluator(path), _time_limit(seconds), rng)

    return Entry(description, tuple(KEYS), f"seconds={DEFAULT_SECONDS}", make)


def _tuples_entry(file: str) -> Entry:
    def make(spec: PlayerSpec, rng: random.Random, seconds: float) -> Player:
        from othello_nn.engine import Limit
        from othello_nn.players.searching import SearchPlayer
        from othello_nn.players.tuples import load_tuples

        if not file:
            raise PlayerError(f"{spec.text!r} names no file; write tuples:FILE")
        return SearchPlayer(spec, load_tuples(file), Limit(depth=1), rng)

    return Entry(f"search with the n-tuples in {Path(file).name}", tuple(KEYS), "depth=1", make)


def _time_limit(seconds: float) -> Limit:
    from othello_nn.engine import Limit

    return Limit(seconds=seconds)


def _squares_entry(description: str, weights: SquareWeights) -> Entry:
    return Entry(description, tuple(KEYS), "depth=1", _squares_maker(weights))


_BUILT_IN = {
    "random": Entry("any legal move", (), "", _make_random),
    "most-discs": _squares_entry("turns as many discs as it can", MOST_DISCS),
    "fewest-discs": _squares_entry("keeps as few discs as it can", FEWEST_DISCS),
    "swh": _squares_entry("Standard WPC Heuristic: a weight for each square, the papers' usual opponent", SWH),
    "mobility": Entry(
        "search with a hand-written evaluator: moves, corners, stable discs",
        tuple(KEYS),
        f"seconds={DEFAULT_SECONDS}",
        _make_mobility,
    ),
    "keyano": Entry(
        "search with the evaluation of Brockington's KEYANO: mobility curves, lost regions, patterns",
        tuple(KEYS),
        f"seconds={DEFAULT_SECONDS}",
        _make_keyano,
    ),
}
