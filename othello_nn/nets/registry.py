"""Nets by configuration, and nets to and from checkpoint files.

>>> make_net({"kind": "triangle", "maps": 24}).config
{'kind': 'triangle', 'maps': 24, 'empties': False, 'symmetric': False, 'scale': 10.0}
>>> make_net({"kind": "triangle", "map": 24})
Traceback (most recent call last):
othello_nn.kinds.NetError: unknown option 'map' of a triangle net; did you mean 'maps'?
"""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import torch

from othello_nn.checkpoint import UNIT, Checkpoint, Checks, check_positions
from othello_nn.engine.leaf.embedded import eight_bits
from othello_nn.errors import OthelloError, shorten
from othello_nn.kinds import (
    DenseOptions,
    DoubledOptions,
    ModuleOptions,
    NetOptions,
    NTupleOptions,
    StagedOptions,
    TriangleOptions,
    net_options,
)
from othello_nn.modules import name_class
from othello_nn.nets.base import Net, NetError, make_net
from othello_nn.nets.module import ModuleNet
from othello_nn.nets.ntuple import NTupleNet
from othello_nn.nets.tuple_sets import check_tuples
from othello_nn.resources import find_net

LITTLE = 1 << 20
"""Numbers that a net may ask for whatever its file holds: 4 MB, so that what is wrong can be said of its arrays."""


def export(
    net: Net, info: dict[str, Any] | None = None, checks: int = 64, seed: int = 0, quantise: bool = True
) -> Checkpoint:
    """A net as a checkpoint, with ``checks`` positions of random games and what the net says of them.

    The tables of an n-tuple net become 16-bit integers, ``UNIT`` to a disc, or 16-bit floats if their cells are
    vectors, unless ``quantise`` is False; the checks are those of the net as it will be read back.
    """
    arrays = {name: _array(name, tensor) for name, tensor in net.state_dict().items()}
    if quantise and isinstance(net, NTupleNet):
        if net.dim == 1:
            arrays["weight"] = _quantised(arrays["weight"], shared=net.weight.shape[0] > net.stages)
        elif np.abs(arrays["weight"]).max(initial=0) < np.finfo(np.float16).max:
            arrays["weight"] = _smallest(arrays["weight"])
    bare = Checkpoint(net=net.config, arrays=arrays, info=dict(info or {}))
    if not checks:
        return bare
    as_read = copy.deepcopy(net).cpu().eval()
    _put_in(as_read, bare, "the net")
    return dataclasses.replace(bare, checks=_checks(as_read, checks, seed))


def _array(name: str, tensor: Any) -> np.ndarray:
    """A part of a net's state as files hold it."""
    if not isinstance(tensor, torch.Tensor) or tensor.is_complex():
        raise NetError(f"{name} is no tensor of real numbers: the net cannot be saved")
    kept = torch.float32 if tensor.is_floating_point() else torch.int64
    array = tensor.detach().to("cpu", kept).numpy().copy()
    if not np.isfinite(array).all():
        raise NetError(f"{name} holds numbers that are not finite: the net cannot be saved")
    return array


def _checks(net: Net, count: int, seed: int) -> Checks:
    movers, opponents, black_to_move = check_positions(count, seed)
    with torch.no_grad():
        mover, opponent = (torch.from_numpy(boards.view(np.int64)) for boards in (movers, opponents))
        discs = net.discs(mover, opponent, torch.from_numpy(black_to_move))
    return Checks(movers, opponents, black_to_move, discs.numpy().astype(np.float64))


def _smallest(weight: np.ndarray) -> np.ndarray:
    """Embeddings as int8 if that changes nothing, because the net was fitted so (``searched.bits``), or float16."""
    if (quanta := eight_bits(weight)) is not None:
        return quanta
    return weight.astype(np.float16)


def _quantised(weight: np.ndarray, shared: bool) -> np.ndarray:
    """int16, or an error if a weight does not fit, or would not once the shared row (the last) is added to it."""
    quanta = np.rint(weight.astype(np.float64) * UNIT)
    largest = max(np.abs(quanta).max(), np.abs(quanta[:-1] + quanta[-1]).max() if shared else 0.0)
    limit = np.iinfo(np.int16).max
    if largest > limit:
        raise NetError(
            f"a weight of {largest / UNIT:.1f} discs does not fit 16 bits (at most {limit / UNIT:.1f}); "
            "export with quantise=False"
        )
    return quanta.astype(np.int16)


def load_net(source: Checkpoint | str | Path, module: type[torch.nn.Module] | str | None = None) -> Net:
    """The net of a checkpoint, of a file, or by its name (``find_net``), in float32 on the CPU.

    ``module`` is the class of a net that is a user's own, or where it is, ``FILE.py:Class``. Without it that must have
    been named before (``othello_nn/modules.py``): a file alone makes nobody's code run.
    """
    where = "the checkpoint" if isinstance(source, Checkpoint) else str(source)
    if not isinstance(source, Checkpoint):
        source = Checkpoint.load(find_net(source) if isinstance(source, str) else source)
    try:
        options = net_options(source.net)
        _check_size(options, sum(array.size for array in source.arrays.values()))
        net = make_net(options) if module is None else _of_class(options, module)
    except OthelloError as error:
        raise NetError(f"{where}: {error}") from None
    _put_in(net, source, where)
    return net


def _check_size(options: NetOptions, held: int) -> None:
    """A file is somebody's: memory is only asked for what it holds itself, or for little."""
    if (asked := count_numbers(options)) > max(2 * held, LITTLE):
        raise NetError(f"its configuration is of a net of {asked:,} numbers, and it holds {held:,}")


def count_numbers(options: NetOptions) -> int:
    """How many numbers a net's state has, found without making it; 0 for kinds of which only the net itself knows."""
    match options:
        case TriangleOptions(maps=maps):
            return maps * (20 if options.empties else 10) + 2 * maps * (1 if options.symmetric else 8) + 1
        case DenseOptions(hidden=hidden):
            return (64 + 2) * hidden + 1
        case NTupleOptions(tuples=str()):
            raise NetError(f"the tuples of a saved net are lists of squares, not the name {shorten(options.tuples)}")
        case NTupleOptions(tuples=tuple(tuples), stages=stages, dim=dim, hidden=hidden, heads=heads):
            cells = 1 + sum(3 ** len(squares) for squares in check_tuples(tuples))
            head = (dim + 2) * hidden + 1 + (dim if heads > 1 else 0)
            return (stages + (options.shared and stages > 1)) * cells * dim + (heads * head if dim > 1 else 0)
        case StagedOptions(centres=centres):
            gate = (128 + 1 + len(centres)) * options.gate_units + len(centres) if options.gate == "network" else 0
            return len(centres) * (count_numbers(options.net) + 65) + gate
        case DoubledOptions(net=inner):
            return 2 * count_numbers(inner)
    return 0


def _of_class(options: NetOptions, module: type[torch.nn.Module] | str) -> ModuleNet:
    if not isinstance(options, ModuleOptions):
        raise NetError(f"a {options.kind} net is no module of a user's own")
    made_of = name_class(module) if isinstance(module, str) else module
    return ModuleNet(made_of, options.told, options.scale)


def _put_in(net: Net, source: Checkpoint, where: str) -> None:
    """Give a net the weights of a checkpoint."""
    state = net.state_dict()
    if state.keys() != source.arrays.keys():
        odd = sorted(state.keys() ^ source.arrays.keys())
        raise NetError(f"{where}: {odd[0]!r} is {'missing' if odd[0] in state else 'not part of such a net'}")
    for name, array in source.float_arrays.items():
        if array.shape != tuple(state[name].shape):
            raise NetError(f"{where}: {name!r} has the shape {array.shape}, expected {tuple(state[name].shape)}")
        state[name] = torch.from_numpy(array).to(state[name].dtype)
    net.load_state_dict(state)
