"""Several processes that train one net: every rank plays its own games, gradients are added up, rank 0 speaks.

``torchrun`` starts them and says in the environment who is who; without it there is one process, and nothing here does
anything.
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
class Processes:
    """Which of how many processes this is."""

    rank: int = 0
    count: int = 1
    local_rank: int = 0

    @property
    def leads(self) -> bool:
        """This process logs and saves."""
        return self.rank == 0

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Add up every parameter's gradient over the processes.

        Sparse gradients become dense ones, since each process has its own cells; what they were made of goes with them
        as the parameter's ``entries`` (see ``optim.py``).
        """
        if self.count == 1:
            return
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            if parameter.grad.is_sparse:
                entries = tuple(self.sum(part.to_dense()) for part in entries_of(parameter.grad))
                parameter.entries = entries  # type: ignore[attr-defined]
                parameter.grad = parameter.grad.to_dense()
            dist.all_reduce(parameter.grad)

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum of a tensor over the processes, in place."""
        if self.count > 1:
            dist.all_reduce(tensor)
        return tensor

    def any(self, *flags: bool) -> list[bool]:
        """Of each flag, whether some process raises it; all of them get the same answer."""
        if self.count == 1:
            return list(flags)
        return (self.sum(torch.tensor(flags, dtype=torch.float32)) > 0).tolist()

    def told(self, word: str) -> str:
        """The leading process's word."""
        if self.count == 1:
            return word
        words = [word]
        dist.broadcast_object_list(words)
        return words[0]

    def wait(self) -> None:
        """Until every process is here."""
        if self.count > 1:
            dist.barrier()


def join(device: str) -> Processes:
    """This process among those that torchrun started; the only one if it did not."""
    if "WORLD_SIZE" not in os.environ or "RANK" not in os.environ:
        return Processes()
    if not dist.is_initialized():
        # Flags and names go from CPU to CPU also where gradients go from GPU to GPU.
        dist.init_process_group("cpu:gloo,cuda:nccl" if device.startswith("cuda") else "gloo")
    return Processes(dist.get_rank(), dist.get_world_size(), int(os.environ.get("LOCAL_RANK", "0")))


def leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()
