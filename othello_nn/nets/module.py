"""Any ``nn.Module`` as a net: ``ModuleNet`` puts boards in and takes a margin out. ``docs/own-net.md`` is the page.

The class is the user's, and a plain module. Its ``forward`` gets ``planes``, float32 ``[N, 3, 8, 8]`` (the mover's
discs, the opponent's, the empty squares; a1 at [0, 0], h1 at [0, 7]) or, if the class says ``inputs = "bitboards"``,
``mover`` and ``opponent``, int64 ``[N]``. It gives ``[N]`` or ``[N, 1]``: the expected margin for the side to move in
units of ``scale`` discs, any number.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from othello_nn.checkpoint import check_positions
from othello_nn.errors import did_you_mean
from othello_nn.kinds import ModuleOptions
from othello_nn.modules import checked_options, in_a_line, named_class
from othello_nn.nets.base import Net, NetError, piece_planes

INPUTS = ("planes", "bitboards")
TRIED = 3
"""Positions that a new module is tried with, so that what is wrong shows before a game is played."""
ROWS = {"cpu": 512}
"""Positions that go through a module at a time where no gradient is wanted: more do not fit a CPU's cache."""
MOST_ROWS = 1 << 16


class ModuleNet(Net):
    """``ModuleNet(ResNet, width=64)``: a module of that class, told these options, as a net like any other.

    By configuration the class is a ``source``, ``FILE.py:Class``, that the user has named (``othello_nn/modules.py``).
    """

    def __init__(
        self,
        source: str | type[nn.Module],
        told: Mapping[str, Any] | None = None,
        scale: float = 10.0,
        **more: Any,
    ):
        made_of = named_class(source) if isinstance(source, str) else source
        if not (isinstance(made_of, type) and issubclass(made_of, nn.Module)):
            raise NetError(f"a net is made of a class of torch.nn.Module, not of {made_of!r}")
        place = source if isinstance(source, str) else source_of(made_of)
        checked = checked_options(made_of, dict(told or {}) | more)
        own = ModuleOptions(place, checked, scale)
        super().__init__(own)
        self.made_of, self.told, self.scale = made_of, own.told, own.scale
        self.inputs = getattr(made_of, "inputs", INPUTS[0])
        if self.inputs not in INPUTS:
            raise NetError(f"{self.title}.inputs is {self.inputs!r}; {did_you_mean(str(self.inputs), INPUTS)}")
        self.module = self._made(int(torch.randint(2**62, ())))
        self.eval()

    @property
    def title(self) -> str:
        return self.made_of.__name__

    def _made(self, seed: int) -> nn.Module:
        """A new module, whose first weights hang on the seed alone, in float32. It is asked once: a module may make
        some of its weights only then, and what it does wrong is said now."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            try:
                module = self.made_of(**self.told)
            except Exception as error:
                words = ", ".join(f"{name}={value!r}" for name, value in self.told.items())
                raise NetError(f"{self.title}({words}) failed: {self._reason(error)}") from None
            module.float().eval()
            self._try(module)
        return module

    def _reason(self, error: Exception) -> str:
        file = inspect.getsourcefile(self.made_of) if self.made_of.__module__ != "__main__" else None
        return in_a_line(error, Path(file) if file else None)

    @torch.no_grad()
    def _try(self, module: nn.Module) -> None:
        movers, opponents, _ = check_positions(TRIED)
        mover, opponent = (torch.from_numpy(board.view(np.int64)) for board in (movers, opponents))
        inputs = self._inputs(mover, opponent)
        try:
            found = module(*inputs)
        except Exception as error:
            given = ", ".join(f"{str(each.dtype).removeprefix('torch.')} {list(each.shape)}" for each in inputs)
            raise NetError(f"{self.title}.forward failed on {self.inputs} {given}: {self._reason(error)}") from None
        if not torch.isfinite(self._checked(found, TRIED)).all():
            raise NetError(f"{self.title}.forward gave numbers that are not finite, with its first weights")

    def _inputs(self, mover: Tensor, opponent: Tensor) -> tuple[Tensor, ...]:
        return (mover, opponent) if self.inputs == "bitboards" else (piece_planes(mover, opponent),)

    def _checked(self, found: Any, rows: int) -> Tensor:
        """``[N]`` float32. Only what the host knows is looked at: the device is not asked."""
        if isinstance(found, Tensor) and found.is_floating_point() and found.shape in ((rows,), (rows, 1)):
            return found.reshape(-1).float()
        what = f"{found.dtype} {list(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
        raise NetError(
            f"{self.title}.forward gave {what.removeprefix('torch.')} for {rows} positions; expected a float tensor "
            f"[{rows}] or [{rows}, 1]: the margin for the side to move, in units of {self.scale:g} discs"
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """As the class itself starts; buffers such as running means, too."""
        seed = int(torch.randint(2**62, (), generator=generator))
        self.module.load_state_dict(self._made(seed).state_dict())

    def discs(self, mover: Tensor, opponent: Tensor, black_to_move: Tensor | None = None) -> Tensor:
        rows = ROWS.get(mover.device.type, MOST_ROWS)
        if self.training or torch.is_grad_enabled() or len(mover) <= rows:
            return self._discs(mover, opponent)
        parts = zip(mover.split(rows), opponent.split(rows), strict=True)
        return torch.cat([self._discs(*part) for part in parts])

    def _discs(self, mover: Tensor, opponent: Tensor) -> Tensor:
        return self.scale * self._checked(self.module(*self._inputs(mover, opponent)), len(mover))


def source_of(made_of: type) -> str:
    """Where a class comes from, as ``FILE.py:Class``; one in no file, such as a notebook's, gets a name only."""
    try:
        file = inspect.getsourcefile(made_of)
    except (OSError, TypeError):
        file = None
    return f"{file or 'notebook.py'}:{made_of.__name__}"
