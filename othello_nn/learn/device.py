"""Where a net is trained, and how numbers get there and back without anybody waiting for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Place:
    """Where a run learns."""

    device: str
    why: str = ""
    """In a few words, if somebody else than the user decided it."""


def pinned(tensor: Tensor, device: str) -> Tensor:
    """A tensor of the host in memory from which a GPU can fetch it while everybody goes on; else as it is."""
    return tensor.pin_memory() if device.startswith("cuda") else tensor


def begin_copy(tensors: Mapping[str, Tensor]) -> Callable[[], dict[str, np.ndarray]]:
    """Begin to copy tensors to the host as they are now, after all that was queued before; a call of the result waits
    for the copies."""
    devices = {tensor.device.type for tensor in tensors.values()}
    if devices <= {"cpu"}:
        copies = {name: tensor.detach().clone() for name, tensor in tensors.items()}
        return lambda: {name: copy.numpy() for name, copy in copies.items()}
    copies = {
        name: torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor.detach(), non_blocking=True)
        for name, tensor in tensors.items()
    }
    arrived = torch.cuda.Event()
    arrived.record()

    def wait() -> dict[str, np.ndarray]:
        arrived.synchronize()
        return {name: copy.numpy() for name, copy in copies.items()}

    return wait
