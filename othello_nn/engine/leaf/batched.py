"""Leaves of a net that does not compile: a function that judges many positions at once.

    engine = Engine(BatchedEvaluator("mine", discs, batch=256))

``discs`` may be anything: ``nets/batched.py`` makes one of a torch net, on any device. ``known.py`` has the memory of
the values and ``batcher.py`` the queue before the net, ``engine/speculate.py`` the search, ``engine/rounds.py`` how it
takes turns with the net. Values become scores as those of compiled nets do: within ±62 discs, in steps of 1/128. The
arithmetic of a net may depend on what else is in its batch, in the last bits; within a search a position has one value,
that of its first batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from othello_nn.engine.leaf.batcher import Batcher
from othello_nn.engine.leaf.door import rounded_score
from othello_nn.engine.leaf.mobility import Mobility
from othello_nn.errors import OthelloError
from othello_nn.kernels.jit import kernel
from othello_nn.search_options import BATCH

Discs = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""Movers and opponents, uint64 ``[N]``, and black_to_move, bool ``[N]``, to discs for the mover, float32 ``[N]``."""


class LeafError(OthelloError):
    """A net that fails while it is searched with, or whose values are none."""


@dataclass(frozen=True, eq=False)
class BatchedEvaluator:
    """A net for the search, asked for at most ``batch`` positions a call. Players that share it share its calls."""

    name: str
    discs: Discs
    batch: int = BATCH.default
    info: dict[str, Any] = field(default_factory=dict)
    batcher: Batcher = field(init=False, repr=False)

    leaf = Mobility()
    """What the solver orders its moves by: exact scores need no net."""

    def __post_init__(self):
        BATCH.check("batch", self.batch)
        object.__setattr__(self, "batcher", Batcher(self.scores, self.batch))

    def scores(self, positions: np.ndarray) -> np.ndarray:
        """``[N]`` int64 in units of ``SCORE_DISC`` for positions ``[N, 3]``: mover, opponent, 0 if black is to move."""
        movers, opponents, colours = (column.copy() for column in positions.T)  # a net may want them in a row
        try:
            discs = np.asarray(self.discs(movers, opponents, colours == 0), np.float32)
        except Exception as error:
            reason = " ".join(str(error).split()) or "no reason given"
            raise LeafError(f"the net {self.name} failed: {type(error).__name__}: {reason}") from error
        if discs.shape != movers.shape:
            raise LeafError(f"the net {self.name} gave {list(discs.shape)} values for {len(movers)} positions")
        scores = np.empty(len(discs), np.int64)
        if not _round(np.ascontiguousarray(discs), scores):
            raise LeafError(f"the net {self.name} gave a value that is not a finite number")
        return scores


@kernel("boolean(Array(float32, 1, 'C', readonly=True), int64[::1])")
def _round(discs, scores):
    """Discs as scores; false if one of them is no number."""
    for i in range(scores.size):
        if not np.isfinite(discs[i]):
            return False
        scores[i] = rounded_score(discs[i])
    return True
