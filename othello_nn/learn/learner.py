"""What the trainer trains: anything that gets better step by step. ``make_learner`` gives the one that is configured.

Chance in a learner comes from (seed, number of the step), never from a global state, so that a run which is stopped
and restored goes on as if it had never stopped.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from othello_nn.config import Config, ConfigError
from othello_nn.engine.compile import Evaluator
from othello_nn.learn.processes import Processes
from othello_nn.nets import Net, NTupleNet, make_net

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


def make_learner(config: Config, device: str, processes: Processes, threads: int) -> Learner:
    """The learner of a configuration, at its beginning."""
    if config.learner == "td":
        from othello_nn.learn.td import make_td_learner

        return make_td_learner(config, device, processes, threads)
    if processes.count > 1:
        raise ConfigError(f"the learner {config.learner!r} works in one process; torchrun is for 'td'")
    if device != "cpu":
        raise ConfigError(f"the learner {config.learner!r} works on the CPU; leave out --device {device}")
    net = make_net(config.net)
    if config.learner == "backwards":
        from othello_nn.learn.backwards import BackwardsLearner

        if not isinstance(net, NTupleNet):
            raise ConfigError(f"learning backwards is for n-tuple nets, not {net.kind}")
        return BackwardsLearner(net, config.backwards, seed=config.seed, threads=threads)
    raise ConfigError(f"unknown learner {config.learner!r}")
