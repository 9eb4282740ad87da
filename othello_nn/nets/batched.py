"""A torch net for the search: ``Engine(batched_evaluator(net))``, on any device.

``evaluator_of`` is what happens to a net that is given to an ``Engine`` as it is: it is compiled if that can be done,
since a compiled search is many times faster.

>>> from othello_nn import Engine, Limit, Position
>>> from othello_nn.nets import NTupleNet
>>> net = NTupleNet(tuples="all-2", dim=32)  # too wide for the compiled search
>>> Engine(net).search(Position.start(), Limit(depth=2)).depth
2
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch

from othello_nn.engine.leaf.batched import BatchedEvaluator
from othello_nn.engine.leaf.compile import compile_checkpoint, why_not_compiled
from othello_nn.engine.leaf.tables import LeafEvaluator
from othello_nn.nets.base import Net
from othello_nn.nets.device import choose_device
from othello_nn.nets.registry import export
from othello_nn.search_options import BATCH

DEFAULT_BATCH = {"cpu": BATCH.default, "cuda": 4096}
"""Positions a call, by the kind of device. On a CPU a compromise, timed by hand: a small convolutional net would like
16 to 64, a net of tables 512. That of a GPU is a guess, since none was there to be measured."""


def batched_evaluator(
    net: Net, device: str | torch.device = "cpu", batch: int | None = None, name: str = "", info: Any = None
) -> BatchedEvaluator:
    """The net as an evaluator for the search: a copy of it as it is now, which only evaluates, on ``device``.

    ``device`` may be a word that ``choose_device`` knows. ``batch`` is the most positions that are asked for at once.
    """
    device = torch.device(choose_device(device) if isinstance(device, str) else device)
    judge = copy.deepcopy(net).requires_grad_(False).eval().to(device)
    batch = DEFAULT_BATCH.get(device.type, DEFAULT_BATCH["cuda"]) if batch is None else batch

    def moved(array: np.ndarray) -> torch.Tensor:
        tensor = torch.from_numpy(array)
        return tensor if device.type == "cpu" else tensor.pin_memory().to(device, non_blocking=True)

    def discs(movers: np.ndarray, opponents: np.ndarray, black_to_move: np.ndarray) -> np.ndarray:
        boards = (np.ascontiguousarray(side, np.uint64).view(np.int64) for side in (movers, opponents))
        inputs = [moved(array) for array in (*boards, np.ascontiguousarray(black_to_move, bool))]
        with torch.inference_mode():
            parts = [judge.discs(*(each[i : i + batch] for each in inputs)) for i in range(0, len(movers), batch)]
            whole = parts[0] if len(parts) == 1 else torch.cat(parts) if parts else torch.empty(0)
            return whole.to("cpu", torch.float32).numpy()

    return BatchedEvaluator(name or net.kind, discs, batch, dict(info or {}))


def evaluator_of(net: Net, name: str = "") -> LeafEvaluator | BatchedEvaluator:
    """The net as the search wants it: compiled if it can be, else asked in batches on the device where it is.

    A compiled search has one leaf for both colours, so nets that look at the colour to move are asked in batches, too.
    """
    if not why_not_compiled(net.config):
        evaluator = compile_checkpoint(export(net, quantise=False), name or net.kind)
        if isinstance(evaluator, LeafEvaluator):
            return evaluator
    device = next((parameter.device for parameter in net.parameters()), "cpu")
    return batched_evaluator(net, device, name=name)


Net.as_evaluator = evaluator_of
