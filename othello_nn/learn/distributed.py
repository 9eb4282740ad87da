"""Several processes that train one net, the ranks of a group: each plays its own games, rank 0 measures and writes.

``torchrun`` starts them and says in the environment which rank each is; without it there is one process, and nothing
here does anything.

A rank wants two cores: it learns on one while the next games are played on the other. Ranks of a machine that have less
pool their cores (``pool_cores``): some go on with the cores of all, and the others wait for the end of the run. Threads
share what each process needs a copy of, the net and its tables, and never wait for those of another.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import ReduceOp

from othello_nn.errors import OthelloError

A_LONG_RUN = timedelta(days=365)
"""No rank waits longer for the others to end."""
CORES = 2
"""Of a rank: to learn from a game takes about as long as to play it."""


class RankError(OthelloError):
    """The ranks cannot talk to each other: one has been killed, or its machine is gone."""

    exit_code = 1


@contextmanager
def _with_the_others() -> Iterator[None]:
    """While ranks talk to each other: what torch says of one that is not there becomes one line."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise RankError(
            f"another rank has ended or cannot be reached; --resume goes on from what was saved ({reason})"
        ) from None


@dataclass(frozen=True)
class Group:
    """The ranks, as one of them sees it. Every method but ``is_rank_0`` is collective: all ranks must call it."""

    rank: int = 0
    size: int = 1
    local_size: int = 1
    """Ranks on this machine, which share its cores."""
    local_rank: int = 0
    processes: Any = None
    """Torch's name for them; none if they are all that torchrun started."""

    @property
    def is_rank_0(self) -> bool:
        """This rank measures, logs and saves."""
        return self.rank == 0

    def all_reduce(self, tensor: Tensor, operation: Any = ReduceOp.SUM) -> Tensor:
        """The sum of a tensor over the ranks, in place."""
        if self.size > 1:
            with _with_the_others():
                dist.all_reduce(tensor, operation, self.processes)
        return tensor

    def all_reduce_flat(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The sums of several tensors of one type, sent as one: every message costs time, however short it is."""
        if self.size == 1:
            return list(tensors)
        flat = self.all_reduce(torch.cat([tensor.reshape(-1) for tensor in tensors]))
        parts = flat.split([tensor.numel() for tensor in tensors])
        return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]

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
        with _with_the_others():
            dist.broadcast_object_list(words, group=self.processes)
        return words[0]

    def gather(self, item: Any) -> list[Any]:
        """The items of all ranks, on rank 0; nothing on the others."""
        if self.size == 1:
            return [item]
        items = [None] * self.size if self.is_rank_0 else None
        with _with_the_others():
            dist.gather_object(item, items, group=self.processes)
        return items or []

    def barrier(self) -> None:
        """Until every rank is here."""
        if self.size > 1:
            with _with_the_others():
                dist.barrier(self.processes)


def join(device: str) -> Group:
    """The group that torchrun started this process in; one of its own if it did not."""
    if "WORLD_SIZE" not in os.environ or "RANK" not in os.environ:
        return Group()
    if not dist.is_initialized():
        # Flags and names go from CPU to CPU also where gradients go from GPU to GPU.
        with _with_the_others():
            dist.init_process_group("cpu:gloo,cuda:nccl" if device.startswith("cuda") else "gloo")
    local = (int(os.environ.get(name, default)) for name, default in (("LOCAL_WORLD_SIZE", "1"), ("LOCAL_RANK", "0")))
    return Group(dist.get_rank(), dist.get_world_size(), *local)


def pool_cores(group: Group, threads: int) -> tuple[Group, int]:
    """The ranks that go on where each had ``threads`` cores, and how many this one has now; a rank without any is by
    itself. Collective."""
    if group.size == 1:
        return group, threads
    cores = group.local_size * threads
    staying = min(group.local_size, max(1, cores // CORES))
    stays = [False] * group.size
    with _with_the_others():
        dist.all_gather_object(stays, group.local_rank < staying)
    if all(stays):
        return group, threads
    ranks = [rank for rank, stay in enumerate(stays) if stay]
    with _with_the_others():
        processes = dist.new_group(ranks)
    if group.rank not in ranks:
        return Group(), 0
    return Group(ranks.index(group.rank), len(ranks), staying, group.local_rank, processes), cores // staying


def wait_for_all() -> bool:
    """Until every rank of torchrun's is here, which may take as long as a run; false if one has failed before."""
    try:
        dist.monitored_barrier(timeout=A_LONG_RUN)
    except RuntimeError:
        return False
    return True


def leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()
