"""Learning by autograd: any net, device and optimiser. Read ``learners.py`` first."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from othello_nn.config import Config
from othello_nn.engine.leaf.compile import Evaluator, compile_net
from othello_nn.learn.distributed import Group
from othello_nn.learn.learner import Arrays, first_net, seed_of
from othello_nn.learn.td import torch_targets
from othello_nn.learn.td.asking import Sparing
from othello_nn.learn.td.batch import transform
from othello_nn.learn.td.learners import Experience, TDLearner, float_state
from othello_nn.learn.td.numba_targets import exact_margins
from othello_nn.learn.td.optim import TemporalCoherence, entries_of
from othello_nn.learn.td.rivals import TorchOpponent
from othello_nn.learn.td.selfplay import Dice, play
from othello_nn.learn.td.statistics import error_metrics, error_sums
from othello_nn.learn.td.targets import SEARCH_PLIES
from othello_nn.learn.td.torch_targets import lambda_returns, outcome
from othello_nn.nets import Net, NTupleNet
from othello_nn.nets.base import count_discs

OPTIMISERS = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD, "tc": TemporalCoherence}
VALUE_ROWS = 1 << 16  # positions evaluated at a time where no gradient is needed


class Rows(NamedTuple):
    """The positions of a batch of games, with what the net says of them and what it should: all ``[N]``."""

    mover: Tensor
    opponent: Tensor
    black_to_move: Tensor
    values: Tensor
    returns: Tensor


class TorchLearner(TDLearner):
    """Any net, by autograd and an optimiser; all ranks move the same weights."""

    def __init__(self, config: Config, net: Net, group: Group, threads: int, device: str):
        super().__init__(config, group, threads, device)
        self._net = net.eval()
        tables = {module.weight: module for module in net.modules() if isinstance(module, NTupleNet)}
        coherent = config.optim.kind == "tc"
        for table in tables.values():
            # Temporal coherence has to know every time a weight was read; Adam cannot do with a sparse gradient.
            table.sparse = coherent
        self._tables = tables if coherent else {}
        groups = [{"params": [parameter], "lr": self._step_size(parameter)} for parameter in net.parameters()]
        self.optimiser = OPTIMISERS[config.optim.kind](groups, lr=self.rate)

    def _like(self, config: Config) -> TorchLearner:
        return TorchLearner(config, first_net(config).to(self.device), self.group, self.threads, self.device)

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
        rival = TorchOpponent(td.opponent, self.device) if td.opponent else None
        net = Sparing(self._net)
        games = play(
            net,
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
            searched = torch_targets.search_values(net, *rows, plies=plies, scale=self._net.scale, kind=td.outcome)
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
        with self._net.learning(seed_of(self.config.seed, self.steps, self.group.rank, 4)):
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
