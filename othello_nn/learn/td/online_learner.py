"""Learning on line: the tables of a linear n-tuple net move after every game. Read ``learners.py`` first."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from othello_nn.config import Config
from othello_nn.engine.leaf.compile import Evaluator
from othello_nn.engine.leaf.shapes import symmetric
from othello_nn.learn.distributed import Group
from othello_nn.learn.learner import Arrays, array_in, seed_of
from othello_nn.learn.td.learners import Experience, TDLearner
from othello_nn.learn.td.merge import Merger
from othello_nn.learn.td.online import LinearTables
from othello_nn.nets import Net, NTupleNet

MERGE_GAMES = 128
"""Games of a rank for each stage of its tables between two merges: then a cell has seen about as much, however many
stages there are, and a merge takes about the same share of the time."""


class OnlineLearner(TDLearner):
    """Tables that learn from every game in turn. Several ranks have tables of their own, and merge them."""

    _net: NTupleNet

    def __init__(self, config: Config, net: NTupleNet, group: Group, threads: int):
        super().__init__(config, group, threads, "cpu")
        self._net = net
        self.tables = LinearTables(net.shapes, net.stages, net.scale)
        self.tables.weights[:] = net.weight.detach().numpy()
        self._merger = Merger(self.tables, group, config.optim.kind == "tc") if group.size > 1 else None
        self._merge_steps = max(1, round(MERGE_GAMES * net.stages / config.td.batch_games))

    @property
    def synchronised(self) -> bool:
        return self._merger is None or self.steps % self._merge_steps == 0 or self.progress >= 1

    def _synchronise(self) -> None:
        if self._merger is not None:
            self._merger.merge()

    def _like(self, config: Config) -> OnlineLearner:
        return OnlineLearner(config, self._net, self.group, self.threads)

    def net(self) -> Net:
        weights = self.tables.weights
        if self.config.td.augment:  # learnt from either side of every mirror, so what differs between them is chance
            weights = symmetric(weights, self.tables.shapes)
        with torch.no_grad():
            self._net.weight.copy_(torch.from_numpy(weights))
        return self._net

    def evaluator(self) -> Evaluator:
        return self.tables.evaluator()

    def targets(self, games: Experience) -> tuple[np.ndarray | None, np.ndarray | None]:
        """What searches and the solver say. The λ-returns follow in the kernel, game by game: each moves the weights
        that the next one's are made of."""
        searched, exact = (None if hint is None else hint.numpy() for hint in (games.searched, games.exact))
        return searched, exact

    def _learn(self, games: Experience, targets: tuple[np.ndarray | None, np.ndarray | None]) -> Tensor:
        td = self.config.td
        searched, exact = targets
        chance = (self._batch, self._pass) if self._pass else (self._batch,)
        statistics = self.tables.learn(
            games.games,
            rate=self.rate,
            lam=td.lam,
            seed=seed_of(self.config.seed, *chance) if td.augment else None,
            coherent=self.config.optim.kind == "tc",
            logistic=td.loss == "logistic",
            win=td.outcome == "win",
            searched=searched,
            exact=exact,
        )
        return torch.from_numpy(statistics)

    def _weights_state(self) -> Arrays:
        tables = self.tables
        return {"weights": tables.weights, "sums": tables.sums, "magnitudes": tables.magnitudes}

    def _restore_weights(self, arrays: Arrays) -> None:
        arrays = as_table_state(arrays, self.config)
        for name in ("weights", "sums", "magnitudes"):
            setattr(self.tables, name, array_in(arrays, name, self.tables.weights).copy())
        if self._merger is not None:
            self._merger.begin()


# --- one state for both learners: a run that began on one device goes on on another ----------------------------------

_KEPT = ("sums", "magnitudes")


def _error(config: Config) -> float:
    """The error of a value behind a gradient by a weight, of which the sums are those of a gradient."""
    return -(2 if config.td.loss == "logistic" else 1) * config.net["scale"]


def as_table_state(arrays: Arrays, config: Config) -> Arrays:
    """What ``OnlineLearner`` restores, also from what ``TorchLearner`` has saved of such a net."""
    if "net.weight" not in arrays:
        return arrays
    weights, error = arrays["net.weight"], _error(config)
    sums, sizes = (arrays.get(f"optimiser.0.{name}", np.zeros_like(weights)).reshape(weights.shape) for name in _KEPT)
    kept = {"sums": error * sums, "magnitudes": abs(error) * sizes}
    return arrays | {"weights": weights} | {name: array.astype(np.float32) for name, array in kept.items()}


def as_torch_state(arrays: Arrays, config: Config) -> Arrays:
    """What ``TorchLearner`` restores, also from what ``OnlineLearner`` has saved."""
    if "weights" not in arrays:
        return arrays
    error = _error(config)
    kept = arrays["sums"] / error, arrays["magnitudes"] / abs(error)
    return (
        arrays
        | {"net.weight": arrays["weights"]}
        | {f"optimiser.0.{name}": array.astype(np.float32) for name, array in zip(_KEPT, kept, strict=True)}
    )
