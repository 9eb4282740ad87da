"""The player ``module:FILE.py:Class``: a search with a net of a user's own class. Importing this imports torch."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from othello_nn.errors import OthelloError
from othello_nn.modules import full_source, name_class
from othello_nn.nets import ModuleNet, batched_evaluator, load_net
from othello_nn.players.base import PlayerError
from othello_nn.resources import find_net


def own_evaluator(source: str, net: str | None, runs: Path, device: str | None, batch: int | None) -> Any:
    """The evaluator of a class that is named here, with the weights of a run or a file; without them, with its first
    ones. However many players use it, it is one, so that their questions go into one batch."""
    try:
        full = full_source(source)
        path = None if net is None else find_net(net, runs)
        written = [each.stat().st_mtime_ns for each in (Path(full.rpartition(":")[0]), path) if each is not None]
        return _loaded(full, path, tuple(written), device or "auto", batch)
    except OthelloError as error:
        raise PlayerError(str(error)) from None
    except OSError as error:
        raise PlayerError(f"{error.filename} cannot be read: {error.strerror or error}") from None


@lru_cache(maxsize=8)
def _loaded(source: str, path: Path | None, written: tuple[int, ...], device: str, batch: int | None) -> Any:
    if path is not None:
        net = load_net(path, module=source)
    else:
        net = ModuleNet(name_class(source))
        net.reset_parameters(torch.Generator().manual_seed(0))
    return batched_evaluator(net, device, batch, name=source.rpartition(":")[2])
