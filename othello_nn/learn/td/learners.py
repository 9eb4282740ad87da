"""TD(λ) self-play: games, targets, updates. Read ``trajectory.py`` and ``targets.py`` first.

A step learns from one batch of games. On a CPU the next batch is played meanwhile by the compiled net in other threads
(``actor.py``), with the weights from before the step; on a GPU games and learning take turns on the device
(``selfplay.py``). Two learners share this:

* ``OnlineLearner`` moves the tables of a linear n-tuple net game by game in a kernel (``online.py``), on the CPU; ranks
  learn apart and merge their tables now and then (``merge.py``);
* ``TorchLearner`` takes any net, device and optimiser; ranks add up their gradients in every update.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from othello_nn.config import Config, ConfigError
from othello_nn.engine.leaf.compile import Evaluator, compile_net
from othello_nn.engine.leaf.shapes import symmetric
from othello_nn.learn.distributed import Group
from othello_nn.learn.learner import Arrays, Learner, first_net, is_out_of_memory, seed_of
from othello_nn.learn.td import numba_targets, torch_targets
from othello_nn.learn.td.actor import Exploration, play_numbered
from othello_nn.learn.td.batch import transform
from othello_nn.learn.td.merge import Merger
from othello_nn.learn.td.numba_targets import exact_margins
from othello_nn.learn.td.online import LinearTables
from othello_nn.learn.td.optim import TemporalCoherence, entries_of
from othello_nn.learn.td.selfplay import Dice, play
from othello_nn.learn.td.statistics import error_metrics, error_sums
from othello_nn.learn.td.targets import SEARCH_PLIES
from othello_nn.learn.td.torch_targets import lambda_returns, outcome
from othello_nn.learn.td.trajectory import Trajectory
from othello_nn.learn.watch.curves import curve
from othello_nn.nets import Net, NTupleNet
from othello_nn.nets.base import count_discs

OPTIMISERS = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD, "tc": TemporalCoherence}
VALUE_ROWS = 1 << 16  # positions evaluated at a time where no gradient is needed
MERGE_GAMES = 128
"""Games of a rank for each stage of its tables between two merges: then a cell has seen about as much, however many
stages there are, and a merge takes about the same share of the time."""
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


class Rows(NamedTuple):
    """The positions of a batch of games, with what the net says of them and what it should: all ``[N]``."""

    mover: Tensor
    opponent: Tensor
    black_to_move: Tensor
    values: Tensor
    returns: Tensor


def make_td_learner(config: Config, device: str, group: Group, threads: int) -> Learner:
    """The fastest learner for a configuration."""
    net = first_net(config)
    online = device == "cpu" and config.optim.kind in ("tc", "sgd")
    if online and isinstance(net, NTupleNet) and net.dim == 1 and net.view == "inversion" and not net.shared:
        if config.optim.minibatch:
            raise ConfigError("optim.minibatch does nothing here: this net learns game by game; take optim.kind=adam")
        return OnlineLearner(config, net, group, threads)
    return TorchLearner(config, net.to(device), group, threads, device)


class _TDLearner(Learner):
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

    def play(self) -> Experience:
        if self.device != "cpu":
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
            size = arrays[name.removesuffix("sums") + "magnitudes"]
            moved = size > 0
            rates.append(np.abs(arrays[name][moved]) / size[moved])
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
                print(f"train.py: {now}; it goes on from its weights, with other games", file=sys.stderr)
        self._pending = Experience.from_arrays(pending, self.device) if pending else None

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
                make_td_learner(smaller, self.device, self.group, self.threads).step()
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


def opponent_evaluator(name: str) -> Evaluator:
    """A fixed opponent for 1-ply games."""
    from othello_nn.players.searching import square_evaluator
    from othello_nn.players.simple import FEWEST_DISCS, MOST_DISCS, SWH, SquareWeights

    zero = SquareWeights("random", (0,) * 64, 1)  # all moves are equal, and chance decides
    return square_evaluator({"swh": SWH, "most-discs": MOST_DISCS, "fewest-discs": FEWEST_DISCS, "random": zero}[name])


class OnlineLearner(_TDLearner):
    """Tables that learn from every game in turn. Several ranks have tables of their own, and merge them."""

    _net: NTupleNet

    def __init__(self, config: Config, net: NTupleNet, group: Group, threads: int):
        super().__init__(config, group, threads, "cpu")
        self._net = net
        self.tables = LinearTables(net.shapes, net.stages, net.scale)
        self.tables.weights[:] = net.weight.detach().numpy()
        self._merger = Merger(self.tables, group, config.optim.kind == "tc") if group.size > 1 else None
        self._merge_steps = max(1, round(MERGE_GAMES * net.stages / config.td.batch_games))

    @property
    def synchronised(self) -> bool:
        return self._merger is None or self.steps % self._merge_steps == 0 or self.progress >= 1

    def _synchronise(self) -> None:
        if self._merger is not None:
            self._merger.merge()

    def net(self) -> Net:
        weights = self.tables.weights
        if self.config.td.images:  # learnt from either side of every mirror, so what differs between them is chance
            weights = symmetric(weights, self.tables.shapes)
        with torch.no_grad():
            self._net.weight.copy_(torch.from_numpy(weights))
        return self._net

    def evaluator(self) -> Evaluator:
        return self.tables.evaluator()

    def targets(self, games: Experience) -> tuple[np.ndarray | None, np.ndarray | None]:
        """What searches and the solver say. The λ-returns follow in the kernel, game by game: each moves the weights
        that the next one's are made of."""
        searched, exact = (None if hint is None else hint.numpy() for hint in (games.searched, games.exact))
        return searched, exact

    def _learn(self, games: Experience, targets: tuple[np.ndarray | None, np.ndarray | None]) -> dict[str, float]:
        td = self.config.td
        searched, exact = targets
        statistics = self.tables.learn(
            games.games,
            rate=self.rate,
            lam=td.lam,
            seed=seed_of(self.config.seed, self._batch) if td.images else None,
            coherent=self.config.optim.kind == "tc",
            logistic=td.loss == "logistic",
            win=td.outcome == "win",
            searched=searched,
            exact=exact,
        )
        return error_metrics(torch.from_numpy(statistics))

    def _weights_state(self) -> Arrays:
        tables = self.tables
        return {"weights": tables.weights, "sums": tables.sums, "magnitudes": tables.magnitudes}

    def _restore_weights(self, arrays: Arrays) -> None:
        for name in ("weights", "sums", "magnitudes"):
            # Compiled code does not look where it reads.
            if arrays[name].shape != self.tables.weights.shape:
                raise ValueError(f"{name} has the shape {arrays[name].shape}")
            setattr(self.tables, name, arrays[name].astype(np.float32))
        if self._merger is not None:
            self._merger.begin()


class TorchLearner(_TDLearner):
    """Any net, by autograd and an optimiser; all ranks move the same weights."""

    def __init__(self, config: Config, net: Net, group: Group, threads: int, device: str):
        super().__init__(config, group, threads, device)
        self._net = net
        tables = {module.weight: module for module in net.modules() if isinstance(module, NTupleNet)}
        coherent = config.optim.kind == "tc"
        for table in tables.values():
            # Temporal coherence has to know every time a weight was read; Adam cannot do with a sparse gradient.
            table.sparse = coherent
        self._tables = tables if coherent else {}
        groups = [{"params": [parameter], "lr": self._step_size(parameter)} for parameter in net.parameters()]
        self.optimiser = OPTIMISERS[config.optim.kind](groups, lr=self.rate)

    def net(self) -> Net:
        return self._net

    def evaluator(self) -> Evaluator:
        return compile_net(self._net.config, float_state(self._net))

    def _step_size(self, parameter: nn.Parameter) -> float:
        """The optimiser's rate. Of temporal coherence on tables, the rate counts in errors of the value that all
        lookups share, as in ``online.py``; this is what it means for the gradient by one weight."""
        if parameter not in self._tables:
            return self.rate
        net = self._tables[parameter]
        per_error = 2 if self.config.td.loss == "logistic" else 1
        lookups = (len(net.shapes.placements) + 1) * (2 if len(net.weight) > net.stages else 1)
        return self.rate * per_error * net.scale**2 / lookups

    def _on_device(self) -> Experience:
        """Games and targets by the net itself, where it is; only exact endings come from the host."""
        td = self.config.td
        dice = Dice.seeded(seed_of(self.config.seed, self.steps, self.group.rank), self.device)
        rival = _TorchOpponent(td.opponent, self.device) if td.opponent else None
        games = play(
            self._net,
            td.batch_games,
            dice,
            epsilon=td.epsilon,
            opening_plies=td.opening_plies,
            opponent=rival,
            cut=td.cut,
        )
        searched = exact = None
        if td.exact_empties:
            exact = exact_margins(games.mover, games.opponent, td.exact_empties, self.threads)
        if plies := SEARCH_PLIES[td.targets]:
            rows = games.mover, games.opponent, games.black_to_move
            searched = torch_targets.search_values(
                self._net, *rows, plies=plies, scale=self._net.scale, kind=td.outcome
            )
        return Experience(games, searched, exact)

    def targets(self, games: Experience) -> Rows:
        """The λ-returns of all positions, from what the net says of them now."""
        td, played, scale = self.config.td, games.games, self._net.scale
        used = played.mask.reshape(-1).nonzero().squeeze(1)
        mover, opponent, black = (
            field.reshape(-1)[used] for field in (played.mover, played.opponent, played.black_to_move)
        )
        found = torch.cat(list(self._values(mover, opponent, black)))
        values = torch.zeros(played.mask.numel(), device=used.device).scatter_(0, used, found).view(played.mover.shape)
        final = outcome(played.margin, scale, td.outcome)
        exact = None if games.exact is None else outcome(games.exact, scale, td.outcome)
        returns = lambda_returns(values, played, final, td.lam, exact, games.searched).reshape(-1)[used]
        return Rows(mover, opponent, black, found, returns)

    def _learn(self, games: Experience, targets: Rows) -> dict[str, float]:
        for group in self.optimiser.param_groups:
            group["lr"] = self._step_size(group["params"][0])
        dice = Dice.seeded(seed_of(self.config.seed, self.steps, self.group.rank, 2), self.device)
        mover, opponent = targets.mover, targets.opponent
        if self.config.td.images:
            image = (dice.uniform(len(mover)) * 8).long().clamp(max=7)
            mover, opponent = transform(mover, image), transform(opponent, image)
        self._descend(mover, opponent, targets.black_to_move, targets.returns, dice)
        columns = 64 - count_discs(mover, opponent), targets.values, targets.returns
        statistics = torch.from_numpy(error_sums(*(column.cpu().numpy() for column in columns)))
        return error_metrics(self.group.all_reduce(statistics.to(self.device)).cpu())

    @torch.no_grad()
    def _values(self, *rows: Tensor):
        for first in range(0, len(rows[0]), VALUE_ROWS):
            yield self._net(*(row[first : first + VALUE_ROWS] for row in rows))

    def _descend(self, mover: Tensor, opponent: Tensor, black: Tensor, targets: Tensor, dice: Dice) -> None:
        """Updates on parts of the rows in random order: as many on every rank, whatever its number of rows."""
        size, games = self.config.optim.minibatch, self.config.td.batch_games
        updates = max(1, games * 60 // size) if size else 1
        order = dice.uniform(len(targets)).argsort()
        for part in order.tensor_split(updates):
            self.optimiser.zero_grad()
            loss = self._loss(mover[part], opponent[part], black[part], targets[part])
            loss.backward()
            rows: float | Tensor = max(len(part), 1)
            if self.group.size > 1:
                rows = self._add_up_gradients(len(part)).clamp(min=1)
            for parameter in self._net.parameters():
                # Sums become means. Of a table, temporal coherence takes the mean over the reads of each weight.
                if parameter.grad is not None and parameter not in self._tables:
                    parameter.grad /= rows
            self.optimiser.step()

    def _add_up_gradients(self, rows: int) -> Tensor:
        """Give all ranks the sum of their gradients; the sum of their rows.

        Sparse gradients become dense ones, since each rank has its own cells; what they were made of goes with them as
        the parameter's ``entries`` (see ``optim.py``).
        """
        parameters = list(self._net.parameters())
        gradients = [torch.zeros_like(each) if each.grad is None else each.grad for each in parameters]
        parts = [(gradient, *entries_of(gradient)) if gradient.is_sparse else (gradient,) for gradient in gradients]
        dense = [part.to_dense() for each in parts for part in each]
        total, *sums = self.group.all_reduce_flat([torch.tensor(float(rows), device=self.device), *dense])
        for parameter, each in zip(parameters, parts, strict=True):
            found, sums = sums[: len(each)], sums[len(each) :]
            parameter.grad = found[0]
            if len(each) > 1:
                parameter.entries = tuple(found[1:])  # type: ignore[attr-defined]
        return total

    def _loss(self, mover: Tensor, opponent: Tensor, black: Tensor, targets: Tensor) -> Tensor:
        """Summed over the rows."""
        if self.config.td.loss == "squared":
            return 0.5 * (self._net(mover, opponent, black) - targets).square().sum()
        logits = self._net.discs(mover, opponent, black) / self._net.scale
        return F.binary_cross_entropy_with_logits(logits, (1 + targets) / 2, reduction="sum")

    def _weights_state(self) -> Arrays:
        arrays = {f"net.{name}": array for name, array in float_state(self._net).items()}
        for number, state in self.optimiser.state_dict()["state"].items():
            arrays |= {f"optimiser.{number}.{name}": np.asarray(value.cpu()) for name, value in state.items()}
        return arrays

    def _restore_weights(self, arrays: Arrays) -> None:
        tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
        self._net.load_state_dict({n.removeprefix("net."): t for n, t in tensors.items() if n.startswith("net.")})
        saved = self.optimiser.state_dict()
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            if name.startswith("optimiser."):
                _, number, key = name.split(".")
                state.setdefault(int(number), {})[key] = tensor
        self.optimiser.load_state_dict({"state": state, "param_groups": saved["param_groups"]})


class _TorchOpponent:
    """A fixed opponent's square weights, as a net-like function on a device."""

    def __init__(self, name: str, device: str):
        from othello_nn.players.simple import FEWEST_DISCS, MOST_DISCS, SWH

        table = {"swh": SWH.weights, "most-discs": MOST_DISCS.weights, "fewest-discs": FEWEST_DISCS.weights}
        self._weights = torch.tensor(table.get(name, (0,) * 64), dtype=torch.float32, device=device)

    def __call__(self, mover: Tensor, opponent: Tensor, black_to_move: Tensor) -> Tensor:
        from othello_nn.nets.base import boards

        return boards(mover, opponent) @ self._weights


def float_state(net: Net) -> Arrays:
    return {name: tensor.detach().cpu().numpy().copy() for name, tensor in net.state_dict().items()}
