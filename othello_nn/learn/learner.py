"""What is trained: a net on its way, which gets better step by step. ``make.py`` gives the learner that is configured.

A step is three calls, as ``train.py`` makes them. They mean

==============  ==================================  ==============================  ===============================
learner         ``play``                            ``targets``                     ``update``
==============  ==================================  ==============================  ===============================
td              games of the net against itself     λ-returns of their positions    gradient steps
backwards       positions of one stage, from games  the solver's and searches'      the fit, once a stage has all
leouski         numbers of the next games           (found in the game, by search)  each game, then its gradient
evolve          League games of a generation        who has the best scores         they become the parents
policy          League games of a chance player     the natural gradient            a step along it
searched        games by search, then their         λ-mixtures of searches and      positions are kept, then
                positions, generation by generation results                         minibatches learnt
==============  ==================================  ==============================  ===============================

Chance in a learner comes from (seed, number of the step), never from a global state, so that a run which is stopped
and restored goes on as if it had never stopped.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from othello_nn.checkpoint import read_meta
from othello_nn.config import Config, ConfigError
from othello_nn.engine.leaf.compile import Evaluator
from othello_nn.errors import OthelloError
from othello_nn.kernels.chance import seed_word
from othello_nn.nets import ModuleNet, Net, load_net, make_net
from othello_nn.resources import NoNetError, find_net

Arrays = dict[str, np.ndarray]
MOST_COUNTED = 10**15
"""Of games, steps and the like: no run comes near it, and nothing that is made of it leaves 64 bits."""


class TrainingError(OthelloError):
    """Training had to stop; what was saved is still there."""

    exit_code = 1


class Learner(ABC):
    """A net on its way."""

    games: int = 0
    """What it has learnt from: games, or positions for a learner without games."""
    folder: Path = Path()
    """The run's, for what is too large for a state."""
    unit: str = "games"
    """What ``games`` counts."""
    keeps_floats: bool = False
    """Its weights are too fine for the 16-bit integers that tables are saved as."""
    probcut: np.ndarray | None = None
    calibration: np.ndarray | None = None
    """What was fitted to the net's searches, to be saved with it."""
    when_diverged: str = ""
    """What to change about a run whose numbers have grown beyond all bounds."""

    @property
    @abstractmethod
    def progress(self) -> float:
        """The share of the run that is done, 0 to 1."""

    @property
    def synchronised(self) -> bool:
        """All ranks have the same weights: only then is a run saved, or at its end."""
        return True

    @abstractmethod
    def play(self) -> Any:
        """What this step learns from, made by the net as it stands."""

    @abstractmethod
    def targets(self, games: Any) -> Any:
        """What the net should have said of it."""

    @abstractmethod
    def update(self, games: Any, targets: Any) -> Mapping[str, float]:
        """Move the weights towards the targets; what was found, by curve. Reading it may wait for a device."""

    def step(self) -> Mapping[str, float]:
        """The three, for those who only want a better net."""
        games = self.play()
        return self.update(games, self.targets(games))

    def details(self) -> dict[str, float]:
        """What takes longer to find out and is asked for now and then, by curve."""
        return {}

    def pictures(self) -> dict[str, np.ndarray]:
        """What only this learner has to show, by curve, besides pictures of its net: uint8 ``[height, width, 3]``."""
        return {}

    def meters(self) -> dict[str, float]:
        """What the clock says, by curve, since it was last asked: unlike all else it differs from run to run."""
        return {}

    def when_out_of_memory(self) -> str:
        """What to change about a run that did not fit."""
        return ""

    @abstractmethod
    def net(self) -> Net:
        """The net as it stands, to be measured and saved; it may go on changing."""

    @abstractmethod
    def evaluator(self) -> Evaluator:
        """The net for games, in a copy of its own."""

    @abstractmethod
    def state(self) -> Arrays:
        """Everything that ``restore`` needs to go on exactly from here. All ranks ask for it together, and rank 0
        gets the state of them all."""

    @abstractmethod
    def restore(self, arrays: Arrays) -> None: ...


# --- what a state holds is looked at: compiled code does not look where it reads --------------------------------------


def counts_in(arrays: Mapping[str, np.ndarray], name: str, many: int = 1) -> list[int]:
    """So many whole numbers of a state."""
    found = arrays[name]
    if found.shape != (many,) or found.dtype.kind != "i" or not ((found >= 0) & (found <= MOST_COUNTED)).all():
        raise ValueError(f"{name} must be {many} whole numbers from 0 to {MOST_COUNTED:,}")
    return found.tolist()


def array_in(arrays: Mapping[str, np.ndarray], name: str, like: np.ndarray) -> np.ndarray:
    """An array of a state, if it can take the place of another."""
    found = arrays[name]
    if found.shape != like.shape:
        raise ValueError(f"{name} has the shape {found.shape}, not {like.shape}")
    if found.dtype != like.dtype:
        raise ValueError(f"{name} is of type {found.dtype}, not {like.dtype}")
    if found.dtype.kind == "f" and not np.isfinite(found).all():
        raise ValueError(f"{name} holds numbers that are not finite")
    return found


def is_out_of_memory(error: BaseException) -> bool:
    """Torch's CPU allocator says so only in its words."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
    )


def first_net(config: Config) -> Net:
    """The net that learning starts from, on the CPU: ``init``'s weights, or fresh ones that hang on the seed alone."""
    net = make_net(config.net)
    if not any(parameter.requires_grad for parameter in net.parameters()):
        raise ConfigError(f"{net.title} has no weights that could learn")
    net.reset_parameters(torch.Generator().manual_seed(seed_of(config.seed, 1)))
    if config.init:
        path = init_path(config)
        # Somebody's weights may be put into the user's own class; theirs is not asked for.
        given = load_net(path, module=net.made_of if isinstance(net, ModuleNet) else None)
        if not _is_alike(given, net):
            raise ConfigError(f"init: {path} holds a net of another shape than this run's")
        net.load_state_dict(given.state_dict())
    return net


def origin(config: Config) -> dict[str, Any]:
    """The recipe of the net that ``init`` names, with that of the net before it, and so on; none without ``init``, or
    if the file is no longer there."""
    try:
        info = read_meta(init_path(config))["info"] if config.init else {}
    except OthelloError:
        return {}
    return info.get("recipe", {}) | {key: info[key] for key in ("started_from",) if key in info}


def _is_alike(given: Net, net: Net) -> bool:
    """Whether a net can have another's weights. Which of a user's options have a say in that, only its state shows."""
    if not isinstance(net, ModuleNet):
        return _shape(given.config) == _shape(net.config)
    theirs, ours = ({name: tensor.shape for name, tensor in each.state_dict().items()} for each in (given, net))
    return theirs == ours


def _shape(config: dict[str, Any]) -> dict[str, Any]:
    """What two nets must have in common to have the same weights: not the name of their tuples, nor how they learn."""
    kept = {key: value for key, value in config.items() if key not in ("tuple_set", "seed", "sparse")}
    return {key: _shape(value) if isinstance(value, dict) else value for key, value in kept.items()}


def init_path(config: Config) -> Path:
    """The file of the net that ``init`` names."""
    try:
        return find_net(config.init)
    except NoNetError as error:
        raise ConfigError(f"init: {error}") from None


def seed_of(*numbers: int) -> int:
    """A seed that differs for every tuple of numbers, within what all generators take."""
    return seed_word(*numbers) >> 1
