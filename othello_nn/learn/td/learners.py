"""TD(λ) self-play: games, targets, updates. Read ``trajectory.py`` and ``targets.py`` first.

A step learns from one batch of games. On a CPU the next batch is played meanwhile by the compiled net in other threads
(``actor.py``), with the weights from before the step; on a GPU games and learning take turns on the device
(``selfplay.py``). Two learners share this:

* ``online_learner.py`` moves the tables of a linear n-tuple net game by game in a kernel (``online.py``), on the CPU;
  ranks learn apart and merge their tables now and then (``merge.py``);
* ``torch_learner.py`` takes any net, device and optimiser; ranks add up their gradients in every update.
"""

from __future__ import annotations

from abc import abstractmethod
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from othello_nn.config import Config, ConfigError
from othello_nn.engine.leaf.compile import Evaluator, why_not_compiled
from othello_nn.learn.distributed import Group
from othello_nn.learn.learner import Arrays, Learner, is_out_of_memory, seed_of
from othello_nn.learn.td import numba_targets
from othello_nn.learn.td.actor import Exploration, play_numbered
from othello_nn.learn.td.numba_targets import exact_margins
from othello_nn.learn.td.optim import coherences
from othello_nn.learn.td.rivals import opponent_evaluator
from othello_nn.learn.td.targets import SEARCH_PLIES
from othello_nn.learn.td.trajectory import Trajectory
from othello_nn.learn.watch.curves import curve
from othello_nn.nets import Net
from othello_nn.program import TRAIN, note

RATE = curve("rate/learning", "learning rate")
COHERENCE = curve(
    "rate/coherence",
    "temporal coherence: how well a weight's errors agree, 0 to 1, mean over those that have moved",
)


@dataclass(frozen=True, eq=False)
class Experience:
    """A batch of games with what searches and the solver say of its rows: ``[T, B]``, NaN where unknown."""

    games: Trajectory
    searched: Tensor | None = None
    """Values, −1…1."""
    exact: Tensor | None = None
    """Margins in discs."""

    def arrays(self) -> Arrays:
        hints = {"searched": self.searched, "exact": self.exact}
        known = {name: tensor.cpu().numpy() for name, tensor in hints.items() if tensor is not None}
        return self.games.arrays() | known

    @staticmethod
    def from_arrays(arrays: Arrays, device: str) -> Experience:
        hints = {
            name: torch.from_numpy(arrays.pop(name)).to(device) for name in ("searched", "exact") if name in arrays
        }
        return Experience(Trajectory.from_arrays(arrays).to(device), hints.get("searched"), hints.get("exact"))


class TDLearner(Learner):
    """What both learners share: playing ahead, counting, and the state of a run."""

    when_diverged = "start anew with a lower optim.rate"
    _net: Net

    def __init__(self, config: Config, group: Group, threads: int, device: str):
        self.config, self.group, self.threads, self.device = config, group, threads, device
        self.games = 0
        self.steps = 0
        self._pool = ThreadPoolExecutor(1)
        self._pending: Experience | None = None
        self._ahead: Future[Experience] | None = None
        self._exploration = Exploration(config.td.epsilon, config.td.opening_plies, config.td.cut)

    @property
    def progress(self) -> float:
        return min(self.games / self.config.games, 1.0)

    @property
    def rate(self) -> float:
        """The learning rate now: constant, or falling geometrically over the run."""
        first, last = self.config.optim.rate, self.config.optim.final_rate
        return first * (last / first) ** self.progress if last and first else first

    @cached_property
    def _is_not_compiled(self) -> bool:
        """The net plays its games itself, on a CPU too."""
        return bool(why_not_compiled(self._net.config))

    def play(self) -> Experience:
        if self.device != "cpu" or self._is_not_compiled:
            return self._on_device()
        if self._pending is None:
            self._pending = self._played(self._batch, self.evaluator())
        # The next games are played while this step learns, with the weights from before it.
        self._ahead = self._pool.submit(self._played, self._batch + self.group.size, self.evaluator())
        return self._pending

    @property
    def _batch(self) -> int:
        """The number of the batch that is learnt next; all ranks count together, and chance comes from the number."""
        return self.games // self.config.td.batch_games + self.group.rank

    def update(self, games: Experience, targets: Any) -> dict[str, float]:
        metrics = self._learn(games, targets)
        self.steps += 1
        self.games += self.config.td.batch_games * self.group.size
        if self.synchronised:
            self._synchronise()
        self._pending = self._ahead.result() if self._ahead is not None else None
        return metrics | {RATE: self.rate}

    def details(self) -> dict[str, float]:
        arrays = self._weights_state()
        sums = [name for name in arrays if name.endswith("sums")]
        rates = []
        for name in sums:
            total, size = (
                torch.from_numpy(arrays[name.removesuffix("sums") + kind]) for kind in ("sums", "magnitudes")
            )
            rates.append(coherences(total, size)[size > 0].numpy())
        together = np.concatenate(rates) if rates else np.zeros(0)
        return {COHERENCE: float(together.mean())} if together.size else {}

    @abstractmethod
    def _learn(self, games: Experience, targets: Any) -> dict[str, float]:
        """Move the weights; the statistics of the errors as metrics."""

    def _synchronise(self) -> None:
        """Make the weights of all ranks the same, if they learn apart."""

    def _played(self, batch: int, evaluator: Evaluator) -> Experience:
        """The games of a batch, by the compiled net, with the values that the targets need."""
        td, count = self.config.td, self.config.td.batch_games
        rival = opponent_evaluator(td.opponent) if td.opponent else None
        games = play_numbered(
            evaluator,
            self._exploration,
            seed_of(self.config.seed),
            batch * count,
            count,
            rival=rival,
            threads=self.threads,
        )
        searched = exact = None
        if td.exact_empties:
            exact = exact_margins(games.mover, games.opponent, td.exact_empties, self.threads)
        if plies := SEARCH_PLIES[td.targets]:
            searched = numba_targets.search_values(
                evaluator,
                games,
                plies=plies,
                scale=self._net.scale,
                kind=td.outcome,
                exact_empties=td.exact_empties,
                threads=self.threads,
            )
        return Experience(games, searched, exact)

    def _on_device(self) -> Experience:
        raise ConfigError(f"this learner works on the CPU, not on {self.device}")

    def state(self) -> Arrays:
        arrays = {"games": np.array([self.games]), "steps": np.array([self.steps])} | self._weights_state()
        if self.group.size > 1:
            arrays["world_size"] = np.array([self.group.size])
        # Of what a rank has, only the games that it has played ahead are its own.
        for rank, pending in enumerate(self.group.gather({} if self._pending is None else self._pending.arrays())):
            arrays |= {_pending_name(rank) + name: array for name, array in pending.items()}
        return arrays

    def restore(self, arrays: Arrays) -> None:
        self.games, self.steps = int(arrays["games"][0]), int(arrays["steps"][0])
        self._restore_weights(arrays)
        ranks, prefix = int(arrays.get("world_size", [1])[0]), _pending_name(self.group.rank)
        pending = {name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)}
        if ranks != self.group.size:
            pending = {}  # they would be other games with other numbers: played anew
            if self.group.is_rank_0:
                now = f"ranks of this run: {ranks} before, {self.group.size} now"
                note(TRAIN, f"{now}; it goes on from its weights, with other games")
        self._pending = Experience.from_arrays(pending, self.device) if pending else None

    @abstractmethod
    def _like(self, config: Config) -> TDLearner:
        """A learner of this class at the beginning of another run."""

    @abstractmethod
    def _weights_state(self) -> Arrays: ...

    @abstractmethod
    def _restore_weights(self, arrays: Arrays) -> None: ...

    def when_out_of_memory(self) -> str:
        """Which batch would have fitted: found by trying."""
        games = self.config.td.batch_games
        fitting = games // 2
        while fitting and self.group.size == 1:
            if self.device.startswith("cuda"):
                torch.cuda.empty_cache()
            smaller = self.config.changed([f"td.batch_games={fitting}"])
            try:
                self._like(smaller).step()
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                fitting //= 2
            else:
                return f"with td.batch_games={games}; {fitting} would fit: --set td.batch_games={fitting}"
        return f"with td.batch_games={games}; try --set td.batch_games={max(games // 4, 1)}"


def _pending_name(rank: int) -> str:
    """What the names of a rank's games in a state begin with."""
    return f"rank{rank}.pending." if rank else "pending."


def float_state(net: Net) -> Arrays:
    return {name: tensor.detach().cpu().numpy().copy() for name, tensor in net.state_dict().items()}
