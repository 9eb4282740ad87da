"""From a trained net to an evaluator for the search: ``compile_checkpoint``, checked against the net's own values.

Every evaluator has

* ``leaf``: what the compiled search takes (``door.py``);
* ``name``, ``info``, and ``probcut`` and ``calibration`` if they were fitted;
* ``lookups``: table cells read for one value;
* ``discs(movers, opponents)``: the leaf's values for many positions, within ±62 discs and to 1/128.

Nets become tables: a triangle net eight of 3^10 cells, an n-tuple net its own, added into larger shapes where that
saves lookups (``fusion.py``). A sum of tables is a ``TableEvaluator``, several nets blended by stage a
``BlendedEvaluator``, embeddings with a network behind them an ``EmbeddedEvaluator``. A net whose value depends on the
colour to move becomes two evaluators, a ``ColouredEvaluator``. ``RULES`` says for each kind how. No torch is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from othello_nn.checkpoint import UNIT, Checkpoint, Checks, check_positions
from othello_nn.engine.leaf.blended import NETS, BlendedEvaluator
from othello_nn.engine.leaf.embedded import DIMS, EmbeddedEvaluator, Head, quantised
from othello_nn.engine.leaf.fusion import fusion_of
from othello_nn.engine.leaf.shapes import TRIANGLE, Placement, Shapes, stages_of_empties
from othello_nn.engine.leaf.tables import LeafEvaluator, TableEvaluator
from othello_nn.engine.score import LEAF_LIMIT, SCORE_DISC
from othello_nn.errors import OthelloError
from othello_nn.game.rules import SYMMETRIES
from othello_nn.kinds import (
    DoubledOptions,
    ModuleOptions,
    NetOptions,
    NTupleOptions,
    StagedOptions,
    TriangleOptions,
    net_options,
)
from othello_nn.resources import BEST, shipped_nets

Arrays = dict[str, np.ndarray]
BLOCK = 3**7  # cells of a triangle's table at a time
# What a compiled value may differ by from the net's, in discs, beyond the rounding of scores: float32 sums in another
# order; embeddings rounded to 16 bits, whose errors (a quantum of about 10⁻⁴, some fifty of them, mostly cancelling)
# reach a few thousandths; single precision before the inverse of Squash, which near ±1 makes much of little.
FLOAT_ERROR, RELATIVE_ERROR, EMBEDDED_ERROR, VALUE_ERROR = 1e-3, 1e-5, 0.05, 1e-6


class CompileError(OthelloError):
    """A net that cannot be compiled, or that the compiled evaluator does not agree with."""


@dataclass(frozen=True, eq=False)
class ColouredEvaluator:
    """Two evaluators, by the colour to move in the positions that they judge, each for the side to move."""

    name: str
    black_to_move: LeafEvaluator
    white_to_move: LeafEvaluator
    any_depth: bool = True
    """Each may judge all leaves of its player's search; if false, only those right after the player's own move."""
    info: dict[str, Any] = field(default_factory=dict)

    @property
    def lookups(self) -> int:
        return self.black_to_move.lookups

    def after_move(self, black: bool) -> LeafEvaluator:
        """What a 1-ply player of a colour asks: after its own move the other colour is to move."""
        return self.white_to_move if black else self.black_to_move

    def laid_out(self) -> ColouredEvaluator:
        """As ``LeafEvaluator.laid_out``."""
        self.black_to_move.laid_out()
        self.white_to_move.laid_out()
        return self

    def discs(self, movers: np.ndarray, opponents: np.ndarray, black_to_move: np.ndarray) -> np.ndarray:
        """As ``LeafEvaluator.discs``, with the colour to move of each position, bool ``[N]``."""
        black, white = (part.discs(movers, opponents) for part in (self.black_to_move, self.white_to_move))
        return np.where(black_to_move, black, white)


Evaluator = LeafEvaluator | ColouredEvaluator
"""What judges positions in a search: one for all of them, or one for each colour to move."""


def leaf_pair(evaluator: Evaluator | Any) -> tuple[Any, Any]:
    """The leaves that a 1-ply player asks after its own move: as black, and as white. A leaf stands for itself."""
    if isinstance(evaluator, ColouredEvaluator):
        return evaluator.after_move(True).leaf, evaluator.after_move(False).leaf
    leaf = getattr(evaluator, "leaf", evaluator)
    return leaf, leaf


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
    path = shipped_nets().get(BEST)
    evaluator = None if path is None else load_evaluator(path)
    assert evaluator is None or isinstance(evaluator, LeafEvaluator)
    return evaluator


def compile_checkpoint(checkpoint: Checkpoint, name: str = "") -> Evaluator:
    """The evaluator of a net, compared with the values that the net had when it was saved."""
    fitted = checkpoint.probcut, checkpoint.calibration
    evaluator = compile_net(checkpoint.net, checkpoint.arrays, name, checkpoint.info, *fitted)
    if checkpoint.checks is not None:
        cross_check(evaluator, checkpoint.checks)
    return evaluator


def compile_net(
    config: dict[str, Any],
    arrays: Arrays,
    name: str = "",
    info: dict[str, Any] | None = None,
    probcut: np.ndarray | None = None,
    calibration: np.ndarray | None = None,
) -> Evaluator:
    """The evaluator of a net given by its configuration and its state; nothing is compared."""
    common: dict[str, Any] = {"name": name, "info": info or {}, "probcut": probcut, "calibration": calibration}
    options = net_options(config)
    if reason := why_not_compiled(options):
        raise CompileError(reason)
    if isinstance(options, DoubledOptions):
        inner = options.net
        black, white = (_compile(inner, _inner(arrays, side), common) for side in ("black", "white"))
        return ColouredEvaluator(name, black, white, info=common["info"])
    if options.sees_colours:
        black, white = (_compile(options, arrays, common, white) for white in (False, True))
        return ColouredEvaluator(name, black, white, any_depth=False, info=common["info"])
    return _compile(options, arrays, common)


def why_not_compiled(net: NetOptions | dict[str, Any]) -> str:
    """Why a net of these options cannot become an evaluator for the compiled search; nothing if it can."""
    options = net if isinstance(net, NetOptions) else net_options(net)
    if isinstance(options, DoubledOptions):
        if isinstance(options.net, DoubledOptions) or options.net.sees_colours:
            return "a doubled net of nets that look at the colour themselves cannot be compiled"
        return _refusal(options.net)
    return _refusal(options)


def cross_check(evaluator: Evaluator, checks: Checks) -> None:
    """``CompileError`` unless the evaluator gives the values of the checks, as far as its arithmetic allows."""
    limit = LEAF_LIMIT / SCORE_DISC
    wanted = np.clip(checks.discs, -limit, limit)
    part: LeafEvaluator
    if isinstance(evaluator, ColouredEvaluator):
        found = evaluator.discs(checks.movers, checks.opponents, checks.black_to_move)
        part = evaluator.black_to_move
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


# --- the arrays of a net ---------------------------------------------------------------------------------------------


def _array(arrays: Arrays, name: str, *shape: int) -> np.ndarray:
    if name not in arrays:
        raise CompileError(f"the net's array {name!r} is missing")
    if arrays[name].shape != shape:
        raise CompileError(f"the net's array {name!r} must be {list(shape)}, not {list(arrays[name].shape)}")
    return arrays[name]


def _float_array(arrays: Arrays, name: str, *shape: int) -> np.ndarray:
    array = _array(arrays, name, *shape)
    if array.dtype in (np.int16, np.int8):
        return array.astype(np.float32) / np.float32(UNIT)
    return array.astype(np.float32, copy=False)


def _inner(arrays: Arrays, prefix: str) -> Arrays:
    """The arrays of a net inside a net."""
    return {name.removeprefix(f"{prefix}."): array for name, array in arrays.items() if name.startswith(f"{prefix}.")}


# --- one net ---------------------------------------------------------------------------------------------------------

Parts = tuple[type[LeafEvaluator], dict[str, Any]]
"""A class of evaluators, and what it is made of besides the name, the facts and ProbCut."""


def _compile(options: NetOptions, arrays: Arrays, common: dict[str, Any], white: bool = False) -> LeafEvaluator:
    """A net of one value. ``white``: for positions with white to move, of a net whose tables see black and white."""
    evaluator, parts = _parts(options, arrays, white)
    return evaluator(**parts, **common)


def _parts(options: NetOptions, arrays: Arrays, white: bool) -> Parts:
    if reason := _refusal(options):
        raise CompileError(reason)
    return RULES[options.kind](options, arrays, white)


def _refusal(options: NetOptions) -> str:
    """Why a net of one value cannot be compiled; nothing if it can."""
    if isinstance(options, DoubledOptions):
        return "a doubled net inside another cannot be compiled"
    if isinstance(options, ModuleOptions):
        return "a net of a user's own class cannot be compiled"
    if options.kind not in RULES:
        return f"{options.kind} nets cannot be compiled: the search has no rule for them"
    if isinstance(options, NTupleOptions) and options.dim > max(DIMS):
        return f"an n-tuple net with dim={options.dim} cannot be compiled; the most is {max(DIMS)}"
    if isinstance(options, StagedOptions):
        if options.gate == "network":
            return "a staged net whose gate is a network cannot be compiled"
        if len(options.centres) > NETS:
            return f"at most {NETS} nets can be blended, not {len(options.centres)}"
        if isinstance(options.net, StagedOptions) or getattr(options.net, "dim", 1) > 1:
            return "only staged nets of triangle nets or of n-tuple nets with dim=1 can be compiled"
        return _refusal(options.net)
    return ""


def _staged(options: StagedOptions, arrays: Arrays, white: bool) -> Parts:
    inner: Any = options.net  # like every net that becomes tables, it has a scale
    nets = len(options.centres)
    coefficients = _float_array(arrays, "coefficients", 65, nets)[::-1]  # by discs → by empties
    blended: dict[str, Any] = {}
    for i in range(nets):
        _, parts = _parts(inner, _inner(arrays, f"nets.{i}"), white)
        table = parts["weights"]
        if not blended:
            blended = parts | {"weights": np.empty((*table.shape, nets), np.float32)}
        blended["weights"][..., i] = table / np.float32(inner.scale * (UNIT if table.dtype == np.int16 else 1))
    return BlendedEvaluator, blended | {"coefficients": coefficients, "scale": inner.scale}


# --- n-tuple nets ----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=16)
def _shapes_of(tuples: tuple[tuple[int, ...], ...]) -> Shapes:
    return Shapes.symmetric(tuples)


def _ntuple(options: NTupleOptions, arrays: Arrays, white: bool) -> Parts:
    shapes, weights = _tuple_tables(options, arrays)
    if options.dim > 1:
        return _embedding(options, shapes, weights, arrays, white)
    if white:
        weights = -seen_from_behind(shapes, weights)
    fusion = fusion_of(shapes)
    if fusion.changes:
        shapes, weights = fusion.shapes, fusion.apply(weights)
    if weights.dtype.kind == "i":
        fits = np.abs(weights).max(initial=0) <= np.iinfo(np.int16).max
        weights = weights.astype(np.int16) if fits else weights.astype(np.float32) / np.float32(UNIT)
    stages = stages_of_empties(options.stages)
    return TableEvaluator, {"shapes": shapes, "weights": weights, "stage_of_empties": stages}


def _tuple_tables(options: NTupleOptions, arrays: Arrays) -> tuple[Shapes, np.ndarray]:
    """Shapes, and weights [rows, cells] or [rows, cells, dim] with the shared row added in, whole or float."""
    if isinstance(options.tuples, str):
        raise CompileError(f"the tuples of the net must be lists of squares 0…63, not the name {options.tuples!r}")
    try:
        shapes = _shapes_of(options.tuples)
    except (TypeError, IndexError, ValueError) as error:
        raise CompileError(f"the tuples of the net must be lists of squares 0…63 ({error})") from None
    stages, dim = options.stages, options.dim
    shared = options.shared and stages > 1
    shape = (stages + shared, shapes.cells, *([dim] if dim > 1 else []))
    weights = _array(arrays, "weight", *shape)
    if weights.dtype == np.int16 or (weights.dtype == np.int8 and (dim == 1 or shared)):
        weights = weights.astype(np.int32)
    elif weights.dtype == np.float16:
        weights = weights.astype(np.float32)
    if shared:
        weights = weights[:-1] + weights[-1]
    return shapes, weights


def seen_from_behind(shapes: Shapes, weights: np.ndarray) -> np.ndarray:
    """Weights [rows, cells, …] that give for (mover, opponent) what these give for (opponent, mover)."""
    turned = weights.copy()
    for start, size in zip(shapes.table_starts, shapes.sizes, strict=True):
        turned[:, start : start + 3**size] = weights[:, start : start + 3**size][
            :, ::-1
        ]  # digits 0 and 2 change places
    return turned


def _embedding(options: NTupleOptions, shapes: Shapes, weights: np.ndarray, arrays: Arrays, white: bool) -> Parts:
    heads = _heads(options, arrays)
    if white:
        weights, heads = seen_from_behind(shapes, weights), tuple(head.negated() for head in heads)
    fusion = fusion_of(shapes)
    if weights.dtype == np.int8 and not fusion.changes:
        whole, quantum = weights, 1 / UNIT  # as the leaf reads them
    else:
        if weights.dtype.kind == "i":
            weights = weights.astype(np.float32) / np.float32(UNIT)
        whole, quantum = quantised(fusion.apply(weights))
    tables = {"shapes": fusion.shapes, "weights": whole, "stage_of_empties": stages_of_empties(options.stages)}
    behind = {"heads": heads, "head_of_empties": stages_of_empties(options.heads)}
    return EmbeddedEvaluator, tables | behind | {"quantum": quantum}


def _heads(options: NTupleOptions, arrays: Arrays) -> tuple[Head, ...]:
    """The networks behind the sums: one that corrects their first number, or several, each with a skip of its own."""
    dim, hidden, heads = options.dim, options.hidden, options.heads
    if heads == 1:
        skip = np.eye(1, dim, dtype=np.float32)
        sizes = {"hidden.weight": (hidden, dim), "hidden.bias": (hidden,), "output.weight": (1, hidden)}
    else:
        skip = _float_array(arrays, "skip", heads, dim)
        both = heads, hidden
        sizes = {"hidden.weight": (*both, dim), "hidden.bias": both, "output.weight": both}
    weight, bias, output = (_float_array(arrays, name, *size) for name, size in sizes.items())
    constants = _float_array(arrays, "output.bias", heads)
    each = zip(skip, weight.reshape(heads, hidden, dim), bias.reshape(heads, hidden), output, constants, strict=True)
    return tuple(Head(*parts[:4], float(parts[4])) for parts in each)


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


def _triangle(options: TriangleOptions, arrays: Arrays, white: bool) -> Parts:
    """Every input of a triangle, put through the net."""
    maps, inputs, symmetric = options.maps, 20 if options.empties else 10, options.symmetric
    shapes, scale = _triangle_shapes(symmetric), np.float32(options.scale)
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
    return TableEvaluator, {"shapes": shapes, "weights": table, "stage_of_empties": np.zeros(65, np.int64)}


RULES: dict[str, Callable[[Any, Arrays, bool], Parts]] = {"triangle": _triangle, "ntuple": _ntuple, "staged": _staged}
"""How a kind of net becomes an evaluator: from its options and its arrays, for white to move if its tables see that."""
