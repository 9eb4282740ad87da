"""Several processes that train one net, the ranks of a group: each plays its own games, rank 0 measures and writes.

``torchrun`` starts them and says in the environment which rank each is; without it there is one process, and nothing
here does anything.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn

from othello_nn.learn.td.optim import entries_of


@dataclass(frozen=True)
class Group:
    """The ranks, as one of them sees it. Every method but ``is_rank_0`` is collective: all ranks must call it."""

    rank: int = 0
    size: int = 1
    local_size: int = 1
    """Ranks on this machine, which share its cores."""

    @property
    def is_rank_0(self) -> bool:
        """This rank measures, logs and saves."""
        return self.rank == 0

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Add up every parameter's gradient over the ranks.

        Sparse gradients become dense ones, since each rank has its own cells; what they were made of goes with them as
        the parameter's ``entries`` (see ``optim.py``).
        """
        if self.size == 1:
            return
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            if parameter.grad.is_sparse:
                entries = tuple(self.all_reduce(part.to_dense()) for part in entries_of(parameter.grad))
                parameter.entries = entries  # type: ignore[attr-defined]
                parameter.grad = parameter.grad.to_dense()
            dist.all_reduce(parameter.grad)

    def all_reduce(self, tensor: Tensor) -> Tensor:
        """The sum of a tensor over the ranks, in place."""
        if self.size > 1:
            dist.all_reduce(tensor)
        return tensor

    def any(self, *flags: bool) -> list[bool]:
        """Of each flag, whether some rank raises it; all of them get the same answer."""
        if self.size == 1:
            return list(flags)
        return (self.all_reduce(torch.tensor(flags, dtype=torch.float32)) > 0).tolist()

    def broadcast(self, word: str) -> str:
        """Rank 0's word."""
        if self.size == 1:
            return word
        words = [word]
        dist.broadcast_object_list(words)
        return words[0]

    def barrier(self) -> None:
        """Until every rank is here."""
        if self.size > 1:
            dist.barrier()


def join(device: str) -> Group:
    """The group that torchrun started this process in; one of its own if it did not."""
    if "WORLD_SIZE" not in os.environ or "RANK" not in os.environ:
        return Group()
    if not dist.is_initialized():
        # Flags and names go from CPU to CPU also where gradients go from GPU to GPU.
        dist.init_process_group("cpu:gloo,cuda:nccl" if device.startswith("cuda") else "gloo")
    return Group(dist.get_rank(), dist.get_world_size(), int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()
