"""What every net is: boards in, the value for the side to move out. Read this first, then ``triangle.py``.

Positions are two int64 tensors ``[N]``, bit i = square i (bit 63, h8, makes a number negative). A net predicts the
final margin in discs for the mover, and as ``value`` the squashed margin, between −1 and 1 and the thing that is
trained. Nothing here or in the nets asks the device for a number, so a GPU is never waited for.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from othello_nn.errors import OthelloError, did_you_mean, shorten

VALUE_LIMIT = 1 - 1e-6
"""Values are cut to ±this before they become discs (±145 discs with the usual scale): atanh(1) is infinite."""


class NetError(OthelloError):
    """A net that cannot be built, or was not given what it needs."""


def squash(x: Tensor) -> Tensor:
    """2 / (1 + e^−x) − 1, which is tanh(x / 2)."""
    return torch.tanh(x / 2)


def unsquash(value: Tensor) -> Tensor:
    """The inverse of ``squash``; values at or beyond ±1 give the largest finite result, with gradient 0."""
    return 2 * torch.atanh(value.clamp(-VALUE_LIMIT, VALUE_LIMIT))


def boards(mover: Tensor, opponent: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Squares as numbers ``[N, 64]``: +1 mover, −1 opponent, 0 empty."""
    return (_bits(mover) - _bits(opponent)).to(dtype)


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


_KINDS: dict[str, type[Net]] = {}
"""Every class of net by its kind; a class enters when it is defined."""


class Net(nn.Module):
    """A function of positions. ``make_net(net.config)`` builds another of the same shape."""

    kind: ClassVar[str]
    scale: float
    """Discs that make the squash's argument 1."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "kind" in vars(cls):
            _KINDS[cls.kind] = cls

    @property
    def config(self) -> dict[str, Any]:
        """The kind and every option, as JSON can hold them."""
        raise NotImplementedError

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Start afresh, with the parameters where they are."""
        raise NotImplementedError

    def discs(self, mover: Tensor, opponent: Tensor, black_to_move: Tensor | None = None) -> Tensor:
        """The expected final margin for the mover ``[N]``, unbounded.

        ``black_to_move`` (bool ``[N]``) is for nets that see the colours; the others do not look at it.
        """
        raise NotImplementedError

    def forward(self, mover: Tensor, opponent: Tensor, black_to_move: Tensor | None = None) -> Tensor:
        """The value for the mover ``[N]``: the squashed margin."""
        return squash(self.discs(mover, opponent, black_to_move) / self.scale)


def net_kinds() -> tuple[str, ...]:
    """The names that ``kind`` can have."""
    return tuple(_KINDS)


def net_options(kind: Any) -> tuple[str, ...]:
    """The options that a kind of net has; none if there is no such kind."""
    return tuple(inspect.signature(_KINDS[kind]).parameters) if kind in _KINDS else ()


def make_net(config: Mapping[str, Any]) -> Net:
    """A new net. What the configuration does not say has the default of the net's class."""
    if not isinstance(config, Mapping):
        raise NetError(f"a net's configuration is a mapping with a kind, not {shorten(config)}")
    options = dict(config)
    kind = options.pop("kind", None)
    if kind is None:
        raise NetError(f"a net's configuration needs a kind; choose from {', '.join(_KINDS)}")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise NetError(f"unknown kind of net {shorten(kind)}; {did_you_mean(str(kind), _KINDS)}")
    valid = inspect.signature(_KINDS[kind]).parameters
    for option in options:
        if option not in valid:
            raise NetError(f"unknown option {option!r} of a {kind} net; {did_you_mean(str(option), valid)}")
    for option, parameter in valid.items():
        if parameter.default is parameter.empty and option not in options:
            raise NetError(f"a {kind} net needs the option {option!r}")
    return _KINDS[kind](**options)


def needs_colour(black_to_move: Tensor | None, what: str) -> Tensor:
    if black_to_move is None:
        raise NetError(f"{what} sees the colours: give black_to_move with the positions")
    return black_to_move


# Checks of options. Each returns the value, or says in one line what it must be.


def whole(name: str, value: Any, low: int, high: int) -> int:
    if type(value) is not int or not low <= value <= high:
        raise NetError(f"{name} is {shorten(value)}; it must be a whole number from {low} to {high}")
    return value


def number(name: str, value: Any, low: float, high: float) -> float:
    if type(value) not in (int, float) or not math.isfinite(value) or not low <= value <= high:
        raise NetError(f"{name} is {shorten(value)}; it must be a number from {low:g} to {high:g}")
    return float(value)


def flag(name: str, value: Any) -> bool:
    if type(value) is not bool:
        raise NetError(f"{name} is {shorten(value)}; it must be true or false")
    return value


def one_of(name: str, value: Any, choices: Iterable[str]) -> str:
    choices = list(choices)
    if value not in choices:
        raise NetError(f"{name} is {shorten(value)}; {did_you_mean(str(value), choices)}")
    return value


def scale_option(value: Any) -> float:
    return number("scale", value, 0.1, 1000)
