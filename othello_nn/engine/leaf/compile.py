"""From a trained net to an evaluator for the search: ``compile_checkpoint``, checked against the net's own values.

Every evaluator has

* ``leaf``: what the compiled search takes (``door.py``);
* ``name``, ``info``, and ``probcut`` if it was fitted;
* ``lookups``: table cells read for one value;
* ``discs(movers, opponents)``: the leaf's values for many positions, within ±62 discs and to 1/128.

Nets become tables: a triangle net eight of 3^10 cells, an n-tuple net its own, added into larger shapes where that
saves lookups (``fusion.py``). A sum of tables is a ``TableEvaluator``, several nets blended by stage a
``BlendedEvaluator``, embeddings with a network behind them an ``EmbeddedEvaluator``. A net whose value depends on the
colour to move becomes two evaluators, a ``ColouredEvaluator``. No torch is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from othello_nn.checkpoint import UNIT, Checkpoint, Checks, check_positions
from othello_nn.engine.leaf.blended import BlendedEvaluator
from othello_nn.engine.leaf.embedded import DIMS, EmbeddedEvaluator, Head, quantised
from othello_nn.engine.leaf.fusion import fusion_of
from othello_nn.engine.leaf.shapes import Placement, Shapes, stages_of_empties
from othello_nn.engine.leaf.tables import LeafEvaluator, TableEvaluator
from othello_nn.engine.score import LEAF_LIMIT, SCORE_DISC
from othello_nn.errors import OthelloError
from othello_nn.game.rules import SYMMETRIES
from othello_nn.resources import BEST, CHECKPOINTS, SUFFIX

Arrays = dict[str, np.ndarray]
TRIANGLE = (0, 1, 2, 3, 9, 10, 11, 18, 19, 27)  # a1 b1 c1 d1 b2 c2 d2 c3 d3 d4
BLOCK = 3**7  # cells of a triangle's table at a time
OPTIONS: dict[str, tuple[str, ...]] = {
    "triangle": ("maps", "empties", "symmetric", "scale"),
    "ntuple": ("tuples", "tuple_set", "stages", "shared", "dim", "hidden", "view", "scale", "sparse", "seed"),
    "staged": ("net", "centres", "width", "gate"),
    "doubled": ("net",),
}
# What a compiled value may differ by from the net's, in discs, beyond the rounding of scores: float32 sums in another
# order; embeddings rounded to 16 bits, whose errors (a quantum of about 10⁻⁴, some fifty of them, mostly cancelling)
# reach a few thousandths; single precision before the inverse of Squash, which near ±1 makes much of little.
FLOAT_ERROR, RELATIVE_ERROR, EMBEDDED_ERROR, VALUE_ERROR = 1e-3, 1e-5, 0.05, 1e-6


class CompileError(OthelloError):
    """A net that cannot be compiled, or that the compiled evaluator does not agree with."""


@dataclass(frozen=True, eq=False)
class ColouredEvaluator:
    """Two evaluators, by the colour of a 1-ply player who asks: after its own move, so with the other colour to move.

    ``black`` judges positions with white to move, ``white`` those with black to move, both for the side to move.
    """

    name: str
    black: LeafEvaluator
    white: LeafEvaluator
    any_depth: bool = True
    """Each may judge all leaves of its player's search; if false, only those right after the player's own move."""
    info: dict[str, Any] = field(default_factory=dict)

    @property
    def lookups(self) -> int:
        return self.black.lookups

    def discs(self, movers: np.ndarray, opponents: np.ndarray, black_to_move: np.ndarray) -> np.ndarray:
        """As ``LeafEvaluator.discs``, with the colour to move of each position, bool ``[N]``."""
        return np.where(black_to_move, self.white.discs(movers, opponents), self.black.discs(movers, opponents))


Evaluator = LeafEvaluator | ColouredEvaluator


def load_evaluator(path: str | Path) -> Evaluator:
    """The evaluator of a checkpoint file; its name is the file's."""
    checkpoint = Checkpoint.load(path)
    try:
        return compile_checkpoint(checkpoint, Path(path).stem)
    except ValueError as error:
        raise CompileError(f"{path}: {error}") from None


@cache
def shipped_evaluator() -> LeafEvaluator | None:
    """The evaluator that comes with the program; None where the package was taken without it."""
    path = CHECKPOINTS / f"{BEST}{SUFFIX}"
    evaluator = load_evaluator(path) if path.is_file() else None
    assert evaluator is None or isinstance(evaluator, LeafEvaluator)
    return evaluator


def compile_checkpoint(checkpoint: Checkpoint, name: str = "") -> Evaluator:
    """The evaluator of a net, compared with the values that the net had when it was saved."""
    evaluator = compile_net(checkpoint.net, checkpoint.arrays, name, checkpoint.info, checkpoint.probcut)
    if checkpoint.checks is not None:
        cross_check(evaluator, checkpoint.checks)
    return evaluator


def compile_net(
    config: dict[str, Any],
    arrays: Arrays,
    name: str = "",
    info: dict[str, Any] | None = None,
    probcut: np.ndarray | None = None,
) -> Evaluator:
    """The evaluator of a net given by its configuration and its state; nothing is compared."""
    common: dict[str, Any] = {"name": name, "info": info or {}, "probcut": probcut}
    kind = _checked_kind(config)
    if kind == "doubled":
        inner = config["net"]
        if _checked_kind(inner) == "doubled" or _sees_black(inner):
            raise CompileError("a doubled net of nets that look at the colour themselves cannot be compiled")
        to_move = {side: _compile(inner, _inner(arrays, side), common) for side in ("black", "white")}
        return ColouredEvaluator(name, black=to_move["white"], white=to_move["black"], info=common["info"])
    if _sees_black(config):
        black_to_move, white_to_move = (_compile(config, arrays, common, white) for white in (False, True))
        return ColouredEvaluator(name, white_to_move, black_to_move, any_depth=False, info=common["info"])
    return _compile(config, arrays, common)


def cross_check(evaluator: Evaluator, checks: Checks) -> None:
    """``CompileError`` unless the evaluator gives the values of the checks, as far as its arithmetic allows."""
    limit = LEAF_LIMIT / SCORE_DISC
    wanted = np.clip(checks.discs, -limit, limit)
    part: LeafEvaluator
    if isinstance(evaluator, ColouredEvaluator):
        found = evaluator.discs(checks.movers, checks.opponents, checks.black_to_move)
        part = evaluator.black
    else:
        found, part = evaluator.discs(checks.movers, checks.opponents), evaluator
    allowed = np.full(len(wanted), 0.5 / SCORE_DISC)
    if isinstance(part, EmbeddedEvaluator):
        allowed += EMBEDDED_ERROR
    elif part.weights.dtype == np.int16:
        allowed += (
            0.5 / UNIT * (part.lookups + 1)
        )  # the net may have been rounded to integers after its values were taken
    else:
        allowed += FLOAT_ERROR + RELATIVE_ERROR * np.abs(wanted)
    if isinstance(part, BlendedEvaluator):
        allowed += VALUE_ERROR * 2 * part.scale * np.cosh(wanted / part.scale / 2) ** 2
    wrong = np.flatnonzero(~(np.abs(found - wanted) <= allowed))
    if len(wrong):
        first = wrong[0]
        raise CompileError(
            f"the compiled evaluator gives {found[first]:+.3f} discs where the net had {wanted[first]:+.3f}, and "
            f"differs in {len(wrong)} of {len(wanted)} checks: damaged weights, or another version of the net"
        )


def with_checks(checkpoint: Checkpoint) -> Checkpoint:
    """A checkpoint that no torch net was there to check: its compiled evaluator's own values as ``checks``."""
    evaluator = compile_net(checkpoint.net, checkpoint.arrays)
    movers, opponents, black_to_move = check_positions()
    if isinstance(evaluator, ColouredEvaluator):
        discs = evaluator.discs(movers, opponents, black_to_move)
    else:
        discs = evaluator.discs(movers, opponents)
    return replace(checkpoint, checks=Checks(movers, opponents, black_to_move, discs))


# --- reading a configuration -----------------------------------------------------------------------------------------


def _checked_kind(config: dict[str, Any]) -> str:
    """The kind of net, all of whose options are known."""
    from othello_nn.errors import did_you_mean

    if not isinstance(config, dict) or not isinstance(kind := config.get("kind"), str):
        raise CompileError("the net's configuration does not say its kind")
    if kind not in OPTIONS:
        raise CompileError(f"unknown kind of net {kind!r}; {did_you_mean(kind, OPTIONS)}")
    for key in config:
        if key != "kind" and key not in OPTIONS[kind]:
            raise CompileError(f"unknown option {key!r} of a {kind} net; {did_you_mean(key, OPTIONS[kind])}")
    if kind in ("staged", "doubled"):
        _checked_kind(config.get("net", {}))
    return kind


def _sees_black(config: dict[str, Any]) -> bool:
    """Whether its tables see black and white, not mover and opponent."""
    if config["kind"] in ("staged", "doubled"):
        return _sees_black(config["net"])
    view = config.get("view", "inversion")
    if view not in ("inversion", "negation"):
        raise CompileError(f"the view of a net is inversion or negation, not {view!r}")
    return view == "negation"


def _option(config: dict[str, Any], name: str, default: Any, valid: Callable[[Any], bool]) -> Any:
    value = config.get(name, default)
    if type(value) is not type(default) and not (type(default) is float and type(value) is int):
        raise CompileError(f"{name} of a {config['kind']} net must be {type(default).__name__}, not {value!r}")
    if not valid(value):
        raise CompileError(f"{name} of a {config['kind']} net cannot be {value!r}")
    return value


def _scale(config: dict[str, Any]) -> float:
    return float(_option(config, "scale", 10.0, lambda scale: 0 < scale < 1e6))


def _array(arrays: Arrays, name: str, *shape: int) -> np.ndarray:
    if name not in arrays:
        raise CompileError(f"the net's array {name!r} is missing")
    if arrays[name].shape != shape:
        raise CompileError(f"the net's array {name!r} must be {list(shape)}, not {list(arrays[name].shape)}")
    return arrays[name]


def _float_array(arrays: Arrays, name: str, *shape: int) -> np.ndarray:
    array = _array(arrays, name, *shape)
    return (
        array.astype(np.float32) / np.float32(UNIT) if array.dtype == np.int16 else array.astype(np.float32, copy=False)
    )


def _inner(arrays: Arrays, prefix: str) -> Arrays:
    """The arrays of a net inside a net."""
    return {name.removeprefix(f"{prefix}."): array for name, array in arrays.items() if name.startswith(f"{prefix}.")}


# --- one net ---------------------------------------------------------------------------------------------------------


def _compile(config: dict[str, Any], arrays: Arrays, common: dict[str, Any], white: bool = False) -> LeafEvaluator:
    """A net of one value. ``white``: for positions with white to move, of a net whose tables see black and white."""
    kind = config["kind"]
    if kind == "staged":
        return _staged(config, arrays, common, white)
    if kind == "ntuple" and config.get("dim", 1) != 1:
        return _embedding(config, arrays, common, white)
    if kind not in ("triangle", "ntuple"):
        raise CompileError(f"a {kind} net inside another cannot be compiled")
    shapes, weights, stages = _tables(config, arrays, white)
    return TableEvaluator(shapes=shapes, weights=weights, stage_of_empties=stages, **common)


def _tables(config: dict[str, Any], arrays: Arrays, white: bool) -> tuple[Shapes, np.ndarray, np.ndarray]:
    """Shapes, weights [rows, cells] in discs (or int16 in 1/UNIT) and the row for each number of empties."""
    if config["kind"] == "triangle":
        return *_triangle_tables(config, arrays), np.zeros(65, np.int64)
    shapes, weights, stages = _tuple_tables(config, arrays)
    if white:
        weights = -seen_from_behind(shapes, weights)
    fusion = fusion_of(shapes)
    if fusion.changes:
        shapes, weights = fusion.shapes, fusion.apply(weights)
    if weights.dtype.kind == "i":
        fits = np.abs(weights).max(initial=0) <= np.iinfo(np.int16).max
        weights = weights.astype(np.int16) if fits else weights.astype(np.float32) / np.float32(UNIT)
    return shapes, weights, stages


def _staged(config: dict[str, Any], arrays: Arrays, common: dict[str, Any], white: bool) -> BlendedEvaluator:
    inner, nets = config["net"], len(config.get("centres", ()))
    if inner["kind"] not in ("triangle", "ntuple") or inner.get("dim", 1) != 1:
        raise CompileError("only staged nets of triangle nets or of n-tuple nets with dim=1 can be compiled")
    if not nets:
        raise CompileError("a staged net needs centres")
    coefficients = _float_array(arrays, "coefficients", 65, nets)[::-1]  # by discs → by empties
    scale = _scale(inner)
    weights: np.ndarray | None = None
    for i in range(nets):
        shapes, table, stages = _tables(inner, _inner(arrays, f"nets.{i}"), white)
        if weights is None:
            weights = np.empty((*table.shape, nets), np.float32)
        weights[..., i] = table / np.float32(scale * (UNIT if table.dtype == np.int16 else 1))
    assert weights is not None
    return BlendedEvaluator(
        shapes=shapes, weights=weights, stage_of_empties=stages, coefficients=coefficients, scale=scale, **common
    )


# --- n-tuple nets ----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=16)
def _shapes_of(tuples: tuple[tuple[int, ...], ...]) -> Shapes:
    return Shapes.symmetric(tuples)


def _tuple_tables(config: dict[str, Any], arrays: Arrays) -> tuple[Shapes, np.ndarray, np.ndarray]:
    """As ``_tables``, with the shared row added in; weights are [rows, cells] or [rows, cells, dim], whole or float."""
    try:
        shapes = _shapes_of(tuple(tuple(squares) for squares in config["tuples"]))
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise CompileError(f"the tuples of the net must be lists of squares 0…63 ({error})") from None
    stages = _option(config, "stages", 1, lambda stages: 1 <= stages <= 60)
    dim = _option(config, "dim", 1, lambda dim: dim >= 1)
    shared = _option(config, "shared", False, lambda _: True) and stages > 1
    shape = (stages + shared, shapes.cells, *([dim] if dim > 1 else []))
    weights = _array(arrays, "weight", *shape)
    if weights.dtype == np.int16:
        weights = weights.astype(np.int32)
    if shared:
        weights = weights[:-1] + weights[-1]
    return shapes, weights, stages_of_empties(stages)


def seen_from_behind(shapes: Shapes, weights: np.ndarray) -> np.ndarray:
    """Weights [rows, cells, …] that give for (mover, opponent) what these give for (opponent, mover)."""
    turned = weights.copy()
    for start, size in zip(shapes.table_starts, shapes.sizes, strict=True):
        turned[:, start : start + 3**size] = weights[:, start : start + 3**size][
            :, ::-1
        ]  # digits 0 and 2 change places
    return turned


def _embedding(config: dict[str, Any], arrays: Arrays, common: dict[str, Any], white: bool) -> EmbeddedEvaluator:
    shapes, weights, stages = _tuple_tables(config, arrays)
    dim, hidden = weights.shape[2], _option(config, "hidden", 16, lambda hidden: hidden >= 1)
    if dim > max(DIMS):
        raise CompileError(f"an n-tuple net with dim={dim} cannot be compiled; the most is {max(DIMS)}")
    skip = np.zeros(dim, np.float32)
    skip[0] = 1.0
    head = Head(
        skip,
        _float_array(arrays, "hidden.weight", hidden, dim),
        _float_array(arrays, "hidden.bias", hidden),
        _float_array(arrays, "output.weight", 1, hidden)[0],
        float(_float_array(arrays, "output.bias", 1)[0]),
    )
    if white:
        weights, head = seen_from_behind(shapes, weights), head.negated()
    if weights.dtype.kind == "i":
        weights = weights.astype(np.float32) / np.float32(UNIT)
    fusion = fusion_of(shapes)
    whole, quantum = quantised(fusion.apply(weights))
    return EmbeddedEvaluator(
        shapes=fusion.shapes, weights=whole, stage_of_empties=stages, quantum=quantum, head=head, **common
    )


# --- triangle nets ---------------------------------------------------------------------------------------------------


@cache
def _triangle_shapes(shared: bool) -> Shapes:
    """The eight triangles, each with its own table, or all with one."""
    images = [tuple(symmetry[square] for square in TRIANGLE) for symmetry in SYMMETRIES]
    sizes = (len(TRIANGLE),) * (1 if shared else 8)
    return Shapes(sizes, tuple(Placement(0 if shared else k, squares) for k, squares in enumerate(images)))


@cache
def _triangle_inputs() -> np.ndarray:
    """``[20, 3^10]`` float32: the discs (−1, 0, +1) and the empty squares (0, 1) of each cell."""
    size = len(TRIANGLE)
    discs = np.arange(3**size) // 3 ** np.arange(size)[:, None] % 3 - 1
    return np.concatenate([discs, discs == 0]).astype(np.float32)


def _triangle_tables(config: dict[str, Any], arrays: Arrays) -> tuple[Shapes, np.ndarray]:
    """Every input of a triangle, put through the net: shapes and weights [1, cells], in discs."""
    maps = _option(config, "maps", 12, lambda maps: maps >= 1)
    inputs = 20 if _option(config, "empties", False, lambda _: True) else 10
    symmetric = _option(config, "symmetric", False, lambda _: True)
    shapes, scale = _triangle_shapes(symmetric), np.float32(_scale(config))
    per_map = (maps,) if symmetric else (maps, 8)
    weights = _float_array(arrays, "weights", maps, inputs)
    biases = _float_array(arrays, "biases", *per_map).reshape(maps, -1)
    outputs = _float_array(arrays, "outputs", *per_map).reshape(maps, -1) * scale
    table = np.empty((1, shapes.cells), np.float32)
    table[0, 0] = scale * _float_array(arrays, "output_bias")
    # Squash(x) = tanh(x/2): half of everything. In blocks that stay in the cache, which is several times as fast.
    inputs_of_cells, half = _triangle_inputs()[:inputs], np.float32(0.5)
    for first in range(0, inputs_of_cells.shape[1], BLOCK):
        cells = slice(first, first + BLOCK)
        halves = (weights * half) @ inputs_of_cells[:, cells]  # [maps, BLOCK]
        for k, start in enumerate(shapes.table_starts):
            units = np.tanh(halves + biases[:, k, None] * half)
            table[0, start : start + 3 ** len(TRIANGLE)][cells] = outputs[:, k] @ units
    return shapes, table
