"""``features``: ten things that players look at, with weights learnt for every two plies of the game.

The first eight are those of the tournament report (its section 4), as differences between the mover's and the
opponent's side, or ±1 for one side's advantage:

* ``score``: discs; ``corners``: discs in corners; ``frontier``: discs beside an empty square;
* ``mobility``: legal moves; ``stability``: discs that can never be turned (``kernels/board.stable_discs``);
* ``global parity``: +1 if the mover will make the last move of the game, should nobody pass, else −1;
* ``access``: regions of empty squares into which a side can play. Squares are of one region if steps in the eight
  directions over empty squares connect them;
* ``local parity``: with an even number of regions each side expects to move last in as many; with an odd number the one
  with global parity in one more. The share of the regions that makes: global parity / regions, or 0.

``edges`` (edge squares without corners) and ``X-squares`` are what the report wanted to add when it had seen how much
they tell about the winner (section 5.2.2). ``turn`` is 1: what it is worth to be on move.

``fit/features.py`` learns the weights. Read ``engine/leaf/door.py`` first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import float32, int64

from othello_nn.checkpoint import Checkpoint, CheckpointError
from othello_nn.engine.leaf.door import no_begin, no_child, rounded_score
from othello_nn.kernels.bits import legal_of, load_i64, popcount
from othello_nn.kernels.board import BORDER, CORNERS, ONE, ZERO, neighbours, stable_discs
from othello_nn.kernels.jit import kernel
from othello_nn.players.base import PlayerError

KIND = "features"
TERMS = (
    "score",
    "mobility",
    "corners",
    "frontier",
    "stability",
    "global parity",
    "access",
    "local parity",
    "edges",
    "X-squares",
    "turn",
)
COUNT = len(TERMS)
STAGES = 30  # the report's two plies a stage; stage 0 is the end of the game
SHIPPED = Path(__file__).resolve().parent / "fitted" / "features.safetensors"
EDGES = BORDER & ~CORNERS
X_SQUARES = np.uint64(0x0042000000004200)
# Kernels count in whole numbers. Local parity is a fraction with the number of regions below: this is a multiple of
# 1, 3, … 11, and of more regions no game is made.
WHOLE_PARITY = 3465
DISC = 1 << 24  # weights for the kernel, of a disc; fine enough for those of a WHOLE_PARITY-th
LARGEST = 1000.0  # discs; sums of such weights are far from overflowing


@kernel()
def empty_regions(empty, mine, theirs):
    """How many regions, and into how many more the side with the moves ``mine`` can play than that with ``theirs``."""
    count = access = int64(0)
    while empty != ZERO:
        region = empty & (~empty + ONE)
        while True:
            grown = neighbours(region) & empty
            if grown == region:
                break
            region = grown
        count += int64(1)
        if mine & region != ZERO:
            access += int64(1)
        if theirs & region != ZERO:
            access -= int64(1)
        empty ^= region
    return count, access


@kernel()
def more(mine, theirs):
    """By how many squares the first mask is larger."""
    return popcount(mine) - popcount(theirs)


@kernel()
def terms_of(mover, opponent):
    """The ``TERMS`` of a position, whole numbers; local parity in ``WHOLE_PARITY``-ths."""
    empty = ~(mover | opponent)
    mine, theirs = legal_of(mover, opponent), legal_of(opponent, mover)
    count, access = empty_regions(empty, mine, theirs)
    parity = int64(2) * (popcount(empty) & int64(1)) - int64(1)
    local = int64(0)
    if count & int64(1):
        local = parity * (int64(WHOLE_PARITY) // count)
    beside = neighbours(empty)
    return (
        more(mover, opponent),
        more(mine, theirs),
        more(mover & CORNERS, opponent & CORNERS),
        more(mover & beside, opponent & beside),
        more(stable_discs(mover, opponent), stable_discs(opponent, mover)),
        parity,
        access,
        local,
        more(mover & EDGES, opponent & EDGES),
        more(mover & X_SQUARES, opponent & X_SQUARES),
        int64(1),
    )


@kernel("void(uint64[::1], uint64[::1], int64[:, ::1])")
def write_terms(movers, opponents, terms):
    """Write the terms of each position, [N, COUNT]."""
    for i in range(movers.size):
        values = terms_of(movers[i], opponents[i])
        for j in range(COUNT):
            terms[i, j] = values[j]


class Features(NamedTuple):
    """What the search takes; ``FeatureEvaluator`` owns the memory."""

    weights: int  # address of [STAGES, COUNT] int64 in 1/DISC of a disc


@kernel()
def _features_score(ev, features, mover, opponent, empties):
    stage = min(empties // int64(2), int64(STAGES - 1))
    row = ev.weights + stage * int64(8 * COUNT)
    values = terms_of(mover, opponent)
    total = int64(0)
    for i in range(COUNT):
        total += values[i] * load_i64(row, int64(8) * i)
    return rounded_score(float32(total) / float32(DISC))


Features.begin, Features.child, Features.score = no_begin, no_child, _features_score  # type: ignore[attr-defined]


def term_values(movers: np.ndarray, opponents: np.ndarray) -> np.ndarray:
    """The terms of positions ``[N]`` uint64: ``[N, COUNT]`` float64, as the weights take them."""
    terms = np.empty((len(movers), COUNT), np.int64)
    write_terms(np.ascontiguousarray(movers), np.ascontiguousarray(opponents), terms)
    values = terms.astype(np.float64)
    values[:, TERMS.index("local parity")] /= WHOLE_PARITY
    return values


@dataclass(frozen=True, eq=False)
class FeatureEvaluator:
    """Weights ``[STAGES, COUNT]`` float32, in discs for one more of a term; ``leaf`` is for the search."""

    name: str
    weights: np.ndarray
    info: dict[str, Any] = field(default_factory=dict)
    leaf: Features = field(init=False)
    """What the compiled search takes: an address into memory of this object, which must outlive its use."""

    def __post_init__(self):
        # Compiled code does not look where it reads.
        if self.weights.shape != (STAGES, COUNT) or self.weights.dtype != np.float32:
            shape = list(self.weights.shape)
            raise ValueError(f"weights must be float32 [{STAGES}, {COUNT}], not {self.weights.dtype} {shape}")
        if not (np.abs(self.weights) <= LARGEST).all():
            raise ValueError(f"weights must be numbers within ±{LARGEST:g} discs")
        weights = self.weights.astype(np.float64)
        weights[:, TERMS.index("local parity")] /= WHOLE_PARITY
        memory = np.rint(weights * DISC).astype(np.int64)
        object.__setattr__(self, "_memory", memory)
        object.__setattr__(self, "leaf", Features(memory.ctypes.data))

    def save(self, path: str | Path) -> None:
        """Write a file that ``load`` reads; an ``OSError`` names it."""
        Checkpoint({"kind": KIND, "terms": list(TERMS)}, {"weights": self.weights}, self.info).save(path)

    @classmethod
    def load(cls, path: str | Path) -> FeatureEvaluator:
        """Read a file; a ``CheckpointError`` of one line says what is wrong with it."""
        checkpoint = Checkpoint.load(path)
        if checkpoint.net["kind"] != KIND:
            raise CheckpointError(f"{path}: it holds a net of kind {checkpoint.net['kind']!r}, not weights of features")
        if checkpoint.net.get("terms") != list(TERMS):
            raise CheckpointError(f"{path}: its features are not those of this program; fit them again")
        if set(checkpoint.arrays) != {"weights"}:
            raise CheckpointError(f"{path}: it must hold one array, 'weights', not {sorted(checkpoint.arrays)}")
        try:
            return cls(Path(path).stem, checkpoint.arrays["weights"], checkpoint.info)
        except ValueError as error:
            raise CheckpointError(f"{path}: {error}") from None


@cache
def shipped_features() -> FeatureEvaluator:
    """The weights that come with the program."""
    try:
        return FeatureEvaluator.load(SHIPPED)
    except FileNotFoundError:
        fit = "python -m othello_nn.fit.features"
        raise PlayerError(f"'features' needs {str(SHIPPED)!r}, which is not there; {fit} makes it") from None
