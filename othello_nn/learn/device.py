"""Where a net is trained."""

from __future__ import annotations

import torch

from othello_nn.config import ConfigError


def choose_device(name: str, local_rank: int = 0) -> str:
    """The device that a word stands for, if this machine has it."""
    if name == "cpu" or (name == "auto" and not torch.cuda.is_available()):
        return "cpu"
    if name in ("auto", "cuda"):
        name = f"cuda:{local_rank}"
    if not name.startswith("cuda:") or not name[5:].isdigit():
        raise ConfigError(f"unknown device {name!r}; choose from auto, cpu, cuda, cuda:N")
    if not torch.cuda.is_available():
        raise ConfigError(f"device {name}: torch finds no CUDA GPU here; --device cpu works everywhere")
    if int(name[5:]) >= torch.cuda.device_count():
        raise ConfigError(f"device {name}: there are {torch.cuda.device_count()} GPUs, counted from cuda:0")
    return name
