"""Learning on line with vectors: the tables and the head of an embedding net. Read ``online_learner.py`` first."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from othello_nn.config import Config
from othello_nn.engine.leaf.compile import Evaluator
from othello_nn.engine.leaf.embedded import Head
from othello_nn.learn.distributed import Group
from othello_nn.learn.learner import Arrays, array_in
from othello_nn.learn.td.embedding import SIZE, SUM, EmbeddingTables
from othello_nn.learn.td.learners import Experience, TDLearner, float_state, restore_net
from othello_nn.learn.td.update import HEAD_SHARE
from othello_nn.nets import Net, NTupleNet
from othello_nn.program import TRAIN, note


class EmbeddingLearner(TDLearner):
    """Tables of vectors that learn from every game in turn, in one process."""

    _net: NTupleNet

    def __init__(self, config: Config, net: NTupleNet, group: Group, threads: int):
        super().__init__(config, group, threads, "cpu")
        self._net = net
        shared = len(net.weight) > net.stages
        sizes = net.shapes, net.stages, shared, net.dim, net.units, net.scale
        self.tables = EmbeddingTables(*sizes, config.td.augment)
        self._take(net)

    def _take(self, net: NTupleNet, exactly: bool = False) -> None:
        """A net's weights into the tables and the head; ``exactly`` if it came from such tables."""
        self.tables.set_weights(net.weight.detach().numpy(), exactly)
        hidden, bias, output, constant = (
            parameter.detach().numpy() for layer in (net.hidden, net.output) for parameter in layer.parameters()
        )
        self.tables.set_head(Head(self.tables.head.skip, hidden, bias, output[0], float(constant[0])))

    def _like(self, config: Config) -> EmbeddingLearner:
        return EmbeddingLearner(config, self._net, self.group, self.threads)

    def net(self) -> Net:
        net, head = self._net, self.tables.head
        values = {
            net.weight: self.tables.weights(),
            net.hidden.weight: head.hidden,
            net.hidden.bias: head.bias,
            net.output.weight: head.output[None],
            net.output.bias: np.array([head.output_bias], np.float32),
        }
        with torch.no_grad():
            for parameter, value in values.items():
                parameter.copy_(torch.from_numpy(value))
        return net

    def evaluator(self) -> Evaluator:
        return self.tables.evaluator(self.threads)

    def targets(self, games: Experience) -> tuple[np.ndarray | None, np.ndarray | None]:
        """As ``OnlineLearner.targets``."""
        searched, exact = (None if hint is None else hint.numpy() for hint in (games.searched, games.exact))
        return searched, exact

    def _learn(self, games: Experience, targets: tuple[np.ndarray | None, np.ndarray | None]) -> Tensor:
        td, optim = self.config.td, self.config.optim
        searched, exact = targets
        statistics = self.tables.learn(
            games.games,
            rate=self.rate,
            head_rate=HEAD_SHARE * self.rate,
            lam=td.lam,
            coherent=optim.kind == "tc",
            logistic=td.loss == "logistic",
            win=td.outcome == "win",
            searched=searched,
            exact=exact,
        )
        return torch.from_numpy(statistics)

    def _weights_state(self) -> Arrays:
        """The net under the names that ``TorchLearner`` has for it, so that either goes on with what the other saved;
        and how it learns, which is each learner's own."""
        return {f"net.{name}": array for name, array in float_state(self.net()).items()} | {
            name: part.copy() for name, part in self._parts().items()
        }

    def _parts(self) -> Arrays:
        """What a state holds besides the net, as views."""
        learnt = self.tables.learnt
        cells = {"cells.sums": learnt.coherence[:, SUM], "cells.magnitudes": learnt.coherence[:, SIZE]}
        head = {"gradient": learnt.gradient, "first": learnt.first, "second": learnt.second, "counts": learnt.counts}
        return cells | {f"head.{name}": part for name, part in head.items()}

    def _restore_weights(self, arrays: Arrays) -> None:
        restore_net(self._net, arrays)
        parts = self._parts()
        own = bool(parts.keys() & arrays.keys())
        self._take(self._net, exactly=own)
        if not own:
            note(
                TRAIN, "this run has learnt by autograd so far; its weights go on, the sizes of their steps begin anew"
            )
            return
        for name, part in parts.items():
            part[:] = array_in(arrays, name, part)
