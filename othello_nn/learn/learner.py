"""What the trainer trains: anything that gets better step by step. ``make_learner`` gives the one that is configured.

Chance in a learner comes from (seed, number of the step), never from a global state, so that a run which is stopped
and restored goes on as if it had never stopped.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from othello_nn.checkpoint import read_meta
from othello_nn.config import Config, ConfigError
from othello_nn.engine.leaf.compile import Evaluator
from othello_nn.errors import OthelloError
from othello_nn.kernels.chance import seed_word
from othello_nn.learn.runs import RUNS
from othello_nn.nets import Net, load_net, make_net
from othello_nn.resources import CHECKPOINTS

Arrays = dict[str, np.ndarray]


class Learner(Protocol):
    """A net on its way. ``games`` counts what it has learnt from: games, or positions for a learner without games."""

    games: int

    @property
    def progress(self) -> float:
        """The share of the run that is done, 0 to 1."""
        ...

    def step(self) -> dict[str, float]:
        """One update; what it found, by TensorBoard tag."""
        ...

    def details(self) -> dict[str, float]:
        """What takes longer to find out and is asked for now and then, by TensorBoard tag."""
        ...

    def net(self) -> Net:
        """The net as it stands, to be saved; it may go on changing."""
        ...

    def evaluator(self) -> Evaluator:
        """The same for games, in a copy of its own."""
        ...

    def state(self) -> Arrays:
        """Everything that ``restore`` needs to go on exactly from here."""
        ...

    def restore(self, arrays: Arrays) -> None: ...


def first_net(config: Config) -> Net:
    """The net that learning starts from, on the CPU: ``init``'s weights, or fresh ones that hang on the seed alone."""
    net = make_net(config.net)
    net.reset_parameters(torch.Generator().manual_seed(seed_of(config.seed, 1)))
    if config.init:
        path = _checkpoint_path(config.init)
        given = load_net(path)
        if _shape(given.config) != _shape(net.config):
            raise ConfigError(f"init: {path} holds a net of another shape than this run's")
        net.load_state_dict(given.state_dict())
    return net


def origin(config: Config) -> dict[str, Any]:
    """The recipe of the net that ``init`` names; none without it, or if the file is no longer there."""
    try:
        return read_meta(_checkpoint_path(config.init))["info"].get("recipe", {}) if config.init else {}
    except OthelloError:
        return {}


def _shape(config: dict[str, Any]) -> dict[str, Any]:
    """What two nets must have in common to have the same weights: not the name of their tuples, nor how they learn."""
    kept = {key: value for key, value in config.items() if key not in ("tuple_set", "seed", "sparse")}
    return {key: _shape(value) if isinstance(value, dict) else value for key, value in kept.items()}


def _checkpoint_path(name: str) -> Path:
    places = [Path(name), RUNS / name / "net.safetensors", CHECKPOINTS / f"{name}.safetensors"]
    for path in places:
        if path.is_file():
            return path
    raise ConfigError(f"init: there is no net {name!r}: neither a file, nor a run in {RUNS}, nor in checkpoints")


def seed_of(*numbers: int) -> int:
    """A seed that differs for every tuple of numbers, within what all generators take."""
    return seed_word(*numbers) >> 1
