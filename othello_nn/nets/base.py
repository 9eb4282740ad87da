"""What every net is: boards in, the value for the side to move out. Read this first, then ``triangle.py``.

Positions are two int64 tensors ``[N]``, bit i = square i (bit 63, h8, makes a number negative). A net predicts the
final margin in discs for the mover, and as ``value`` the squashed margin, between −1 and 1 and the thing that is
trained. Nothing here or in the nets asks the device for a number, so a GPU is never waited for.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from othello_nn.kinds import NetError, NetOptions, net_options

VALUE_LIMIT = 1 - 1e-6
"""Values are cut to ±this before they become discs (±145 discs with the usual scale): atanh(1) is infinite."""


def squash(x: Tensor) -> Tensor:
    """2 / (1 + e^−x) − 1, which is tanh(x / 2)."""
    return torch.tanh(x / 2)


def unsquash(value: Tensor) -> Tensor:
    """The inverse of ``squash``; values at or beyond ±1 give the largest finite result, with gradient 0."""
    return 2 * torch.atanh(value.clamp(-VALUE_LIMIT, VALUE_LIMIT))


def boards(mover: Tensor, opponent: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Squares as numbers ``[N, 64]``: +1 mover, −1 opponent, 0 empty."""
    return (_bits(mover) - _bits(opponent)).to(dtype)


def piece_planes(mover: Tensor, opponent: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Planes of 0 and 1, ``[N, 3, 8, 8]``: the mover's discs, the opponent's, the empty squares."""
    both = torch.stack((mover, opponent, (mover | opponent) ^ -1), 1)
    return _bits(both).view(-1, 3, 8, 8).to(dtype)


def _bits(board: Tensor) -> Tensor:
    """``[N, 64]`` int8, 0 or 1. By bytes: with 64-bit numbers throughout it takes three times as long."""
    shifts = torch.arange(8, dtype=torch.uint8, device=board.device)
    by_rank = board.contiguous().view(torch.uint8).view(-1, 8, 1)
    return ((by_rank >> shifts) & 1).view(torch.int8).view(-1, 64)


def count_discs(mover: Tensor, opponent: Tensor) -> Tensor:
    """Discs on the board, int64 ``[N]``: sums of neighbouring bits, then pairs, then nibbles, then bytes."""
    x = mover | opponent
    x = x - ((x >> 1) & 0x5555555555555555)
    x = (x & 0x3333333333333333) + ((x >> 2) & 0x3333333333333333)
    x = (x + (x >> 4)) & 0x0F0F0F0F0F0F0F0F
    return (x * 0x0101010101010101) >> 56


class Net(nn.Module):
    """A function of positions. ``make_net(net.config)`` builds another of the same shape.

    What a net can be told is declared in ``kinds.py``; its constructor takes these options as keywords.
    """

    options: NetOptions
    scale: float
    """Discs that make the squash's argument 1."""
    as_evaluator: ClassVar[Callable[..., Any]]
    """What ``Engine`` makes of a net; ``batched.py``, which is built on this module, puts it here."""

    def __init__(self, options: NetOptions):
        super().__init__()
        self.options = options

    @property
    def kind(self) -> str:
        return self.options.kind

    @property
    def title(self) -> str:
        """What it is called where people read it."""
        return self.kind

    @property
    def config(self) -> dict[str, Any]:
        """The kind and every option, as JSON can hold them."""
        return self.options.as_dict()

    @contextmanager
    def learning(self, seed: int) -> Iterator[None]:
        """As long as weights move: layers that normalise or forget do so, by chance that hangs on the seed alone."""
        device = next(self.parameters()).device
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.manual_seed(seed)
            self.train()
            try:
                yield
            finally:
                self.eval()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Start afresh, with the parameters where they are."""
        raise NotImplementedError

    def say_nothing(self) -> None:
        """After ``reset_parameters``: begin with the value 0, for nets that could begin far from it."""

    def discs(self, mover: Tensor, opponent: Tensor, black_to_move: Tensor | None = None) -> Tensor:
        """The expected final margin for the mover ``[N]``, unbounded.

        ``black_to_move`` (bool ``[N]``) is for nets that see the colours; the others do not look at it.
        """
        raise NotImplementedError

    def forward(self, mover: Tensor, opponent: Tensor, black_to_move: Tensor | None = None) -> Tensor:
        """The value for the mover ``[N]``: the squashed margin."""
        return squash(self.discs(mover, opponent, black_to_move) / self.scale)


def make_net(config: Mapping[str, Any] | NetOptions) -> Net:
    """A new net. What the configuration does not say has its default.

    It is there to judge (``eval``) whenever it is not ``learning``.
    """
    options = config if isinstance(config, NetOptions) else net_options(config)
    module, name = options.net_class.split(":")
    return getattr(importlib.import_module(module), name)(**vars(options)).eval()


def needs_colour(black_to_move: Tensor | None, what: str) -> Tensor:
    if black_to_move is None:
        raise NetError(f"{what} sees the colours: give black_to_move with the positions")
    return black_to_move
