"""Finished games as a learner wants them: the positions it judged, and how values pass from one to the next.

``selfplay.py`` makes these, ``targets.py`` turns them into what a net should have said.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from othello_nn.errors import OthelloError, did_you_mean

MOST_MOVES = 60
"""Every move adds a disc, so no game has more."""

_ROWS = {
    "mover": torch.int64,
    "opponent": torch.int64,
    "sign": torch.int8,
    "explored": torch.bool,
    "black_to_move": torch.bool,
}
_GAMES = {"length": torch.int64, "margin": torch.int64}


@dataclass(frozen=True, eq=False)
class Trajectory:
    """B games, up to T afterstates each.

    Row t of a game is the position after its t-th recorded move, with the side that did not make it as mover, even if
    that side has to pass. Rows from ``length`` on are 0.
    """

    mover: Tensor
    """int64 [T, B]"""
    opponent: Tensor
    """int64 [T, B]: made the move."""
    sign: Tensor
    """int8 [T, B]: how the value of row t+1 looks to the mover of row t. −1 after a turn; +1 if the view stays, since
    that mover passed or only one side's afterstates are recorded; 0 in a game's last row and beyond."""
    explored: Tensor
    """bool [T, B]: move t was random, so what follows says nothing about the rows before."""
    black_to_move: Tensor
    """bool [T, B]: the mover of the row is black."""
    length: Tensor
    """int64 [B]: rows used."""
    margin: Tensor
    """int64 [B]: the final score in discs for the mover of the last row."""

    def __post_init__(self) -> None:
        if self.mover.dim() != 2:
            raise OthelloError(f"a trajectory's mover must be [rows, games], not {list(self.mover.shape)}")
        for name, dtype in (_ROWS | _GAMES).items():
            tensor = getattr(self, name)
            shape = self.mover.shape if name in _ROWS else self.mover.shape[1:]
            if tensor.shape != shape or tensor.dtype != dtype:
                found = f"{tensor.dtype} {list(tensor.shape)}"
                raise OthelloError(f"a trajectory's {name} must be {dtype} {list(shape)}, not {found}")

    @property
    def rows(self) -> int:
        """T."""
        return self.mover.shape[0]

    @property
    def games(self) -> int:
        """B."""
        return self.mover.shape[1]

    @property
    def mask(self) -> Tensor:
        """bool [T, B]: the row is in use."""
        return torch.arange(self.rows, device=self.length.device).unsqueeze(1) < self.length

    def mapped(self, change: Callable[[Tensor], Tensor]) -> Trajectory:
        """With every tensor changed, as by a copy to another place."""
        return Trajectory(**{name: change(tensor) for name, tensor in self._tensors().items()})

    def to(self, device: torch.device | str) -> Trajectory:
        return self.mapped(lambda tensor: tensor.to(device))

    @staticmethod
    def concatenate(parts: Sequence[Trajectory]) -> Trajectory:
        """The games of all parts, in this order, with as many rows as the longest part."""
        if not parts:
            raise OthelloError("there are no trajectories to concatenate")
        rows = max(part.rows for part in parts)

        def joined(name: str) -> Tensor:
            tensors = [getattr(part, name) for part in parts]
            if name in _ROWS:
                tensors = [torch.nn.functional.pad(tensor, (0, 0, 0, rows - tensor.shape[0])) for tensor in tensors]
            return torch.cat(tensors, dim=-1)

        return Trajectory(**{name: joined(name) for name in _ROWS | _GAMES})

    def arrays(self) -> dict[str, np.ndarray]:
        """The fields as NumPy arrays on the host, to be saved with a run's state."""
        return {name: tensor.cpu().numpy() for name, tensor in self._tensors().items()}

    @staticmethod
    def from_arrays(arrays: Mapping[str, np.ndarray]) -> Trajectory:
        """The inverse of ``arrays``, which may come from a file."""
        fields = _ROWS | _GAMES
        for name in arrays:
            if name not in fields:
                raise OthelloError(f"unknown array {name!r} of a trajectory; {did_you_mean(name, fields)}")
        if missing := [name for name in fields if name not in arrays]:
            raise OthelloError(f"a trajectory lacks the array {missing[0]!r}")
        made = Trajectory(**{name: torch.from_numpy(np.array(arrays[name])) for name in fields})
        made._check_values()
        return made

    def _check_values(self) -> None:
        """An error unless the numbers are those of games: kernels take them for places in memory."""
        if self.rows > MOST_MOVES:
            raise OthelloError(f"a trajectory has at most {MOST_MOVES} rows, not {self.rows}")
        for name, low, high in (("length", 0, self.rows), ("margin", -64, 64), ("sign", -1, 1)):
            numbers = getattr(self, name)
            if ((numbers < low) | (numbers > high)).any():
                what = " rows" if name == "length" else ""
                raise OthelloError(f"a trajectory's {name} must be from {low} to {high}{what}")
        for name in ("explored", "black_to_move"):
            if (getattr(self, name).view(torch.uint8) > 1).any():
                raise OthelloError(f"a trajectory's {name} must be true or false")
        if (self.mover & self.opponent).any():
            raise OthelloError("a trajectory has a mover and an opponent on one square")

    def _tensors(self) -> dict[str, Tensor]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
