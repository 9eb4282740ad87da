"""Learning on line with vectors: the tables and the head of an embedding net. Read ``online_learner.py`` first."""

from __future__ import annotations

import numpy as np
import torch

from othello_nn.config import Config
from othello_nn.engine.leaf.compile import Evaluator
from othello_nn.engine.leaf.embedded import Head
from othello_nn.learn.distributed import Group
from othello_nn.learn.learner import Arrays
from othello_nn.learn.td.embedding import SIZE, SUM, EmbeddingTables
from othello_nn.learn.td.learners import Experience, TDLearner
from othello_nn.learn.td.statistics import error_metrics
from othello_nn.nets import Net, NTupleNet

HEAD_SHARE = 0.001
"""Adam's rate for the head, as a share of the tables' rate: both fall together."""


class EmbeddingLearner(TDLearner):
    """Tables of vectors that learn from every game in turn, in one process."""

    _net: NTupleNet

    def __init__(self, config: Config, net: NTupleNet, group: Group, threads: int):
        super().__init__(config, group, threads, "cpu")
        self._net = net
        shared = len(net.weight) > net.stages
        sizes = net.shapes, net.stages, shared, net.dim, net.units, net.scale
        self.tables = EmbeddingTables(*sizes, config.td.images)
        self.tables.set_weights(net.weight.detach().numpy())
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

    def _learn(self, games: Experience, targets: tuple[np.ndarray | None, np.ndarray | None]) -> dict[str, float]:
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
        return error_metrics(torch.from_numpy(statistics))

    def _weights_state(self) -> Arrays:
        learnt = self.tables.learnt._asdict()
        coherence = learnt.pop("coherence")
        return learnt | {"sums": coherence[:, SUM].copy(), "magnitudes": coherence[:, SIZE].copy()}

    def _restore_weights(self, arrays: Arrays) -> None:
        learnt = self.tables.learnt
        parts = learnt._asdict() | {"sums": learnt.coherence[:, SUM], "magnitudes": learnt.coherence[:, SIZE]}
        del parts["coherence"]
        for name, part in parts.items():
            if arrays[name].shape != part.shape:
                raise ValueError(f"{name} has the shape {arrays[name].shape}")
            part[:] = arrays[name]
