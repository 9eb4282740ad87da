"""Which device a word stands for."""

from __future__ import annotations

import torch

from othello_nn.kinds import NetError


def choose_device(name: str, local_rank: int = 0) -> str:
    """What ``auto``, ``cpu``, ``cuda`` or ``cuda:N`` stands for on this machine, where this process has the number
    ``local_rank``; a ``NetError`` if it is not there."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name == "cpu" or (name == "auto" and not count):
        return "cpu"
    kind, _, number = (f"cuda:{local_rank}" if name in ("auto", "cuda") else name).partition(":")
    if kind != "cuda" or not number.isdecimal():
        raise NetError(f"unknown device {name!r}; choose from auto, cpu, cuda, cuda:N")
    device = f"cuda:{int(number)}"
    if not count:
        raise NetError(f"device {device}: torch finds no CUDA GPU here; cpu works everywhere")
    if int(number) >= count:
        raise NetError(f"device {device}: there are {count} GPUs, counted from cuda:0")
    return device
