"""What a piece of code asks of a device, counted without one: launches, bytes moved, and waits.

Run the code in a ``Launches()`` block, on the CPU or on fake tensors. A **launch** is an operation that writes a
tensor: on a GPU one kernel, now and then a few. Views and empty memory are none. A **wait** is an operation for which
the host has to know what is in the device's memory, so that it stops until all work queued before is done: ``item``,
``nonzero``, an index by booleans, a copy between devices. Work for a device should have none.
``kernels_when_compiled`` counts what is left of the launches after ``torch.compile``.

>>> with Launches() as counted:
...     numbers = torch.arange(6).view(2, 3)
...     numbers = numbers[:, 1:] + 1
...     odd = numbers[numbers % 2 == 1]
>>> counted.launches, dict(counted.waits)
(5, {'index by booleans': 1})
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# By the names of operators, without their overloads.
WAITING = {"_local_scalar_dense", "nonzero", "masked_select", "unique", "_unique2", "unique_dim", "equal", "is_nonzero"}
WITHOUT_WORK = {"empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided", "lift_fresh", "_unsafe_view"}
COPIES = {"_to_copy", "copy_"}
LOOKUPS = {"index", "index_select", "gather", "embedding"}
BAGS = {"_embedding_bag", "_embedding_bag_forward_only"}
INDEXED = {"index", "index_put", "index_put_"}


class Launches(TorchDispatchMode):
    """Counts what is done inside the block."""

    def __init__(self) -> None:
        super().__init__()
        self.by_name: Counter[str] = Counter()
        """Launches by operator."""
        self.waits: Counter[str] = Counter()
        self.bytes_by_name: Counter[str] = Counter()
        """Read and written: whole tensors, but of a table that is looked up only what is taken out."""

    @property
    def launches(self) -> int:
        return self.by_name.total()

    @property
    def bytes(self) -> int:
        return self.bytes_by_name.total()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.split("::")[1]
        given, made = _tensors((args, kwargs)), _tensors(result)
        if reason := _why_it_waits(name, args, given + made):
            self.waits[reason] += 1
        if not (func.is_view or name in WITHOUT_WORK):
            self.by_name[name] += 1
            self.bytes_by_name[name] += sum(map(_size, made)) + _bytes_read(name, given, made)
        return result


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def _why_it_waits(name: str, args: Any, tensors: list[Tensor]) -> str:
    if name in WAITING:
        return "item" if name == "_local_scalar_dense" else name
    if name in COPIES and len({tensor.device.type for tensor in tensors}) > 1:
        return "copy between devices"
    if name in INDEXED and any(index.dtype == torch.bool for index in _tensors(args[1])):
        return "index by booleans"
    return ""


def _size(tensor: Tensor) -> int:
    """Bytes in memory: along a dimension that was expanded there is only one element."""
    lengths = (length for length, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride)
    return math.prod(lengths) * tensor.element_size() if tensor.numel() else 0


def _bytes_read(name: str, given: list[Tensor], made: list[Tensor]) -> int:
    if name in BAGS:
        table, places, *rest = given
        row = _size(table) // len(table)
        return places.numel() * row + _size(places) + sum(map(_size, rest))
    if name in LOOKUPS:
        return _size(made[0]) + sum(map(_size, given[1:]))
    return sum(map(_size, given))


# In the code that inductor writes: calls of libraries, of which views do no work; and memory for what a kernel writes.
_LIBRARY_CALL = re.compile(r"^ +(?:\w+ = )?(?:extern_kernels\.|torch\.ops\.aten\.(?!view|reshape))\w+", re.MULTILINE)
_BUFFER = re.compile(r"empty_strided_\w+\(\(([\d, ]*)\), \([\d, ]*\), torch\.(\w+)\)")


class Compiled(NamedTuple):
    """What ``torch.compile`` made of a function, all graphs together."""

    graphs: int
    kernels: int
    """Loops over tensors that were written, and calls of libraries."""
    bytes: int
    """Memory for what kernels hand on to each other. What they look up in a table is not counted."""


def kernels_when_compiled(work: Callable[[], Any]) -> Compiled:
    """Compile anew all that ``work`` calls which is to be compiled, and count. Takes a C++ compiler and its time."""
    import torch._inductor.metrics as metrics
    from torch._inductor import config
    from torch._inductor.utils import run_and_get_code

    torch._dynamo.reset()
    metrics.reset()
    with config.patch(fx_graph_cache=False):  # what comes from the cache is not counted
        _, codes = run_and_get_code(work)
    code = "\n".join(codes)
    buffers = [
        math.prod(int(length) for length in shape.split(",") if length.strip()) * getattr(torch, dtype).itemsize
        for shape, dtype in _BUFFER.findall(code)
    ]
    return Compiled(len(codes), metrics.generated_kernel_count + len(_LIBRARY_CALL.findall(code)), sum(buffers))
