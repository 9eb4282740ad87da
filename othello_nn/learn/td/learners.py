"""TD(λ) self-play: games, targets, updates. Read ``trajectory.py`` and ``targets.py`` first.

A step learns from one batch of games. A net that can be compiled plays the next ones meanwhile on the CPU's cores
(``actor.py``, ``ahead.py``), with the weights from before the step, wherever it learns; any other plays on the device
(``selfplay.py``), in turns with the learning. If the endings of such games are to be solved, they are begun before the
step too, and the cores solve them during it: nobody waits for the device. Two learners share this:

* ``online_learner.py`` moves the tables of a linear n-tuple net game by game in a kernel (``online.py``), on the CPU;
  ranks learn apart and merge their tables now and then (``merge.py``);
* ``torch_learner.py`` takes any net, device and optimiser; ranks add up their gradients in every update.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from othello_nn.config import Config
from othello_nn.engine.leaf.compile import Evaluator, why_not_compiled
from othello_nn.learn.device import pinned
from othello_nn.learn.distributed import Group
from othello_nn.learn.learner import Arrays, Learner, array_in, counts_in, is_out_of_memory, seed_of
from othello_nn.learn.td import numba_targets
from othello_nn.learn.td.actor import Exploration, play_numbered
from othello_nn.learn.td.ahead import Ahead
from othello_nn.learn.td.numba_targets import exact_margins
from othello_nn.learn.td.optim import coherences
from othello_nn.learn.td.rivals import opponent_evaluator
from othello_nn.learn.td.statistics import LateMetrics
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


HINTS = {"searched": 1000, "exact": 64}
"""What may be known of rows besides their games, and the largest number of each. Values are about 1, but blends of nets
may be more."""


@dataclass(frozen=True, eq=False)
class Experience:
    """A batch of games with what searches and the solver say of its rows: ``[T, B]``, NaN where unknown."""

    games: Trajectory
    searched: Tensor | None = None
    """Values, −1…1."""
    exact: Tensor | None = None
    """Margins in discs."""

    def _tensors(self) -> dict[str, Tensor]:
        hints = {"searched": self.searched, "exact": self.exact}
        return {name: tensor for name, tensor in hints.items() if tensor is not None}

    def arrays(self) -> Arrays:
        return self.games.arrays() | {name: tensor.cpu().numpy() for name, tensor in self._tensors().items()}

    @staticmethod
    def from_arrays(arrays: Arrays) -> Experience:
        """The inverse of ``arrays``; a ``ValueError`` if they are no games."""
        hints = {name: arrays.pop(name) for name in HINTS if name in arrays}
        games = Trajectory.from_arrays(arrays)
        for name, hint in hints.items():
            if hint.shape != tuple(games.mover.shape) or hint.dtype != np.float32:
                raise ValueError(f"{name} is {hint.dtype} {list(hint.shape)}, the games {list(games.mover.shape)}")
            if (np.abs(hint) > HINTS[name]).any():  # false for NaN, which stands for what is not known
                raise ValueError(f"{name} holds numbers beyond ±{HINTS[name]}")
        return Experience(games, **{name: torch.from_numpy(hint) for name, hint in hints.items()})

    def mapped(self, change: Callable[[Tensor], Tensor]) -> Experience:
        """With every tensor changed, as by a copy to another place."""
        hints = {name: change(tensor) for name, tensor in self._tensors().items()}
        return Experience(self.games.mapped(change), **hints)


class TDLearner(Learner):
    """What both learners share: playing ahead, counting, and the state of a run."""

    when_diverged = "start anew with a lower optim.rate"
    _net: Net

    def __init__(self, config: Config, group: Group, threads: int, device: str):
        self.config, self.group, self.threads, self.device = config, group, threads, device
        self.games = 0
        self.steps = 0
        self._pass = 0
        """0 while a step learns from new games, then the number of the repetition."""
        self._ahead: Ahead[Experience] = Ahead(config.td.ahead)
        self._kept: deque[Experience] = deque(maxlen=config.td.replay)
        self._plays_compiled = not why_not_compiled(config.net)
        self._exploration = Exploration(config.td.epsilon, config.td.opening_plies, config.td.cut)

    @property
    def progress(self) -> float:
        return min(self.games / self.config.games, 1.0)

    @property
    def rate(self) -> float:
        """The learning rate now: constant, or falling geometrically over the run."""
        first, last = self.config.optim.rate, self.config.optim.final_rate
        return first * (last / first) ** self.progress if last and first else first

    @property
    def _cores_help(self) -> bool:
        """Whether the CPU's cores have work to do for the games while the net learns."""
        return self._plays_compiled or bool(self.config.td.exact_empties)

    def play(self) -> Experience:
        if not self._cores_help:
            return self._on_device(self.steps)
        # What is played now is learnt ``depth`` steps on; at the beginning of a run there are some more to play.
        begun = self._by_actors() if self._plays_compiled else self._solved_later
        for ahead in range(len(self._ahead), self._ahead.depth + 1):
            self._ahead.begin(begun(ahead))
        games = self._ahead.take()
        return games if self.device == "cpu" else games.mapped(lambda each: each.to(self.device, non_blocking=True))

    def _by_actors(self) -> Callable[[int], Callable[[], Experience]]:
        """The work of playing the batch so many steps ahead, with the net as it stands now."""
        net, first, ranks = self._playing_net(), self._batch, self.group.size
        return lambda ahead: lambda: self._played(first + ahead * ranks, net())

    def _playing_net(self) -> Callable[[], Evaluator]:
        """The net as it stands now; it may be made into an evaluator later, by the thread that plays."""
        evaluator = self.evaluator()
        return lambda: evaluator

    @property
    def _batch(self) -> int:
        """The number of the batch that is learnt next; all ranks count together, and chance comes from the number."""
        return self.games // self.config.td.batch_games + self.group.rank

    def update(self, games: Experience, targets: Any) -> Mapping[str, float]:
        sums = self._learn(games, targets)
        for again in self._repeated(games):
            self._pass += 1
            self._learn(again, self.targets(again))
        self._pass = 0
        self.steps += 1
        self.games += self.config.td.batch_games * self.group.size
        if self.synchronised:
            self._synchronise()
        return LateMetrics(sums, {RATE: self.rate})

    def _repeated(self, games: Experience) -> list[Experience]:
        """What else this step learns from: batches at random out of the ring, this one's among them."""
        ring = [*self._kept, games]
        self._kept.append(games)
        random = np.random.default_rng(seed_of(self.config.seed, self.steps, self.group.rank, 3))
        return [ring[index] for index in random.integers(0, len(ring), self.config.td.passes - 1)]

    def meters(self) -> dict[str, float]:
        return self._ahead.meters() if self._cores_help else {}

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
    def _learn(self, games: Experience, targets: Any) -> Tensor:
        """Move the weights; the errors before, as ``statistics.error_sums`` adds them up."""

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
        return Experience(games, searched, exact).mapped(lambda each: pinned(each, self.device))

    def _on_device(self, step: int) -> Experience:
        """The games of a step by the net itself, where it is."""
        raise NotImplementedError

    def _solved_later(self, ahead: int) -> Callable[[], Experience]:
        """As ``_on_device``, so many steps ahead; what is left for the cores to do is to solve the endings."""
        raise NotImplementedError

    def state(self) -> Arrays:
        arrays = {"games": np.array([self.games]), "steps": np.array([self.steps])} | self._weights_state()
        if self.group.size > 1:
            arrays["world_size"] = np.array([self.group.size])
        # Of what a rank has, only its games are its own: those played ahead, and those kept to be learnt again.
        mine = {_PENDING: self._ahead.pending(), _KEPT: list(self._kept)}
        own = {
            f"{kind}{number or ''}.{name}": array
            for kind, batches in mine.items()
            for number, batch in enumerate(batches)
            for name, array in batch.arrays().items()
        }
        for rank, theirs in enumerate(self.group.gather(own)):
            arrays |= {_of_rank(rank) + name: array for name, array in theirs.items()}
        return arrays

    def restore(self, arrays: Arrays) -> None:
        (self.games,), (self.steps,) = counts_in(arrays, "games"), counts_in(arrays, "steps")
        if self.steps > self.games:
            raise ValueError(f"{self.steps} steps are more than {self.games} games")
        self._restore_weights(arrays)
        (ranks,) = counts_in(arrays, "world_size") if "world_size" in arrays else (1,)
        prefix = _of_rank(self.group.rank)
        own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        if ranks != self.group.size:
            own = {}  # they would be other games with other numbers: played anew
            if self.group.is_rank_0:
                now = f"ranks of this run: {ranks} before, {self.group.size} now"
                note(TRAIN, f"{now}; it goes on from its weights, with other games")
        pending, kept = (_batches(own, kind) for kind in (_PENDING, _KEPT))
        self._ahead.restore(pending)
        self._kept.extend(batch.mapped(lambda each: each.to(self.device)) for batch in kept)

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


_PENDING, _KEPT = "pending", "kept"
"""What the names of a batch's arrays in a state begin with; from the second batch on a number follows."""


def _of_rank(rank: int) -> str:
    """What the names of a rank's own arrays in a state begin with."""
    return f"rank{rank}." if rank else ""


def _batches(arrays: Arrays, kind: str) -> list[Experience]:
    """The batches of a kind in a rank's part of a state."""
    found: list[Experience] = []
    while True:
        prefix = f"{kind}{len(found) or ''}."
        batch = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        if not batch:
            return found
        found.append(Experience.from_arrays(batch))


def float_state(net: Net) -> Arrays:
    return {name: tensor.detach().cpu().numpy().copy() for name, tensor in net.state_dict().items()}


def restore_net(net: Net, arrays: Arrays) -> None:
    """A net's weights from a state, where they are called ``net.NAME``."""
    now = float_state(net)
    if odd := sorted({f"net.{name}" for name in now} ^ {name for name in arrays if name.startswith("net.")}):
        raise ValueError(f"{odd[0]} is {'missing' if odd[0] not in arrays else 'not part of this net'}")
    checked = {name: array_in(arrays, f"net.{name}", like) for name, like in now.items()}
    net.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in checked.items()})
