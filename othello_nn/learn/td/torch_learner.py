"""Learning by autograd: any net, device and optimiser. Read ``learners.py`` first, then ``update.py``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from othello_nn.config import Config
from othello_nn.engine.leaf.compile import Evaluator, compile_net
from othello_nn.learn.device import begin_copy, pinned
from othello_nn.learn.distributed import Group
from othello_nn.learn.learner import Arrays, array_in, first_net, seed_of
from othello_nn.learn.td import torch_targets
from othello_nn.learn.td.asking import Sparing
from othello_nn.learn.td.batch import transform
from othello_nn.learn.td.learners import Experience, TDLearner, float_state, restore_net
from othello_nn.learn.td.numba_targets import exact_margins
from othello_nn.learn.td.online_learner import as_torch_state
from othello_nn.learn.td.rivals import TorchOpponent
from othello_nn.learn.td.selfplay import Dice, play
from othello_nn.learn.td.statistics import error_sums_of
from othello_nn.learn.td.targets import SEARCH_PLIES
from othello_nn.learn.td.torch_targets import lambda_returns, outcome
from othello_nn.learn.td.update import Rows, Update
from othello_nn.nets import Net
from othello_nn.nets.base import count_discs
from othello_nn.program import TRAIN, note

MINIBATCHES = {"tc": 1024, "adam": 512, "sgd": 512}
"""Positions of an update by the kind of optimiser, unless ``optim.minibatch`` says otherwise. Temporal coherence learns
as well from large ones (``benchmarks/run.py batched-learner``)."""
VALUE_ROWS = 1 << 16  # positions evaluated at a time where no gradient is needed


class Judged(NamedTuple):
    """The rows of a batch of games ``[N]``, with what the net says of them now."""

    rows: Rows
    values: Tensor


class TorchLearner(TDLearner):
    """Any net, by autograd and an optimiser; all ranks move the same weights."""

    def __init__(self, config: Config, net: Net, group: Group, threads: int, device: str):
        super().__init__(config, group, threads, device)
        self._net = net.eval()
        self.improve = Update(net, config, group)

    def _like(self, config: Config) -> TorchLearner:
        return TorchLearner(config, first_net(config).to(self.device), self.group, self.threads, self.device)

    def net(self) -> Net:
        return self._net

    def evaluator(self) -> Evaluator:
        return compile_net(self._net.config, float_state(self._net))

    def _playing_net(self) -> Callable[[], Evaluator]:
        weights = begin_copy(self._net.state_dict())
        return lambda: compile_net(self._net.config, weights())

    def _on_device(self, step: int) -> Experience:
        """Games and searches by the net itself, where it is."""
        td = self.config.td
        dice = Dice.seeded(seed_of(self.config.seed, step, self.group.rank), self.device)
        rival = TorchOpponent(td.opponent, self.device) if td.opponent else None
        net = Sparing(self._net) if self.device == "cpu" else self._net
        games = play(
            net,
            td.batch_games,
            dice,
            epsilon=td.epsilon,
            opening_plies=td.opening_plies,
            opponent=rival,
            cut=td.cut,
        )
        searched = None
        if plies := SEARCH_PLIES[td.targets]:
            searched = torch_targets.search_games(
                net,
                games,
                plies=plies,
                scale=self._net.scale,
                kind=td.outcome,
                exact_empties=td.exact_empties,
                against=rival is not None,
            )
        return Experience(games, searched)

    def _solved_later(self, ahead: int) -> Callable[[], Experience]:
        played = self._on_device(self.steps + ahead)
        arrived = begin_copy({"mover": played.games.mover, "opponent": played.games.opponent})

        def solve() -> Experience:
            mover, opponent = (torch.from_numpy(board) for board in arrived().values())
            exact = exact_margins(mover, opponent, self.config.td.exact_empties, self.threads)
            return replace(played, exact=pinned(exact, self.device))

        return solve

    def targets(self, games: Experience) -> Judged:
        """The λ-returns of all positions, from what the net says of them now."""
        td, played, scale = self.config.td, games.games, self._net.scale
        mover, opponent, black = (field.reshape(-1) for field in (played.mover, played.opponent, played.black_to_move))
        values = torch.cat(list(self._values(mover, opponent, black)))
        final = outcome(played.margin, scale, td.outcome)
        exact = None if games.exact is None else outcome(games.exact, scale, td.outcome)
        grid = values.view(played.mover.shape)
        returns = lambda_returns(grid, played, final, td.lam, exact, games.searched).reshape(-1)
        weight = played.mask.reshape(-1).to(returns.dtype)
        return Judged(Rows(mover, opponent, black, returns, weight), values)

    def _learn(self, games: Experience, targets: Judged) -> Tensor:
        rows = targets.rows
        self.improve.rate.fill_(self.rate)
        dice = self.dice()
        empties = 64 - count_discs(rows.mover, rows.opponent)
        statistics = error_sums_of(empties, targets.values, rows.returns, rows.weight)
        if self.config.td.augment:
            image = (dice.uniform(len(rows.mover)) * 8).long().clamp(max=7)
            rows = rows._replace(mover=transform(rows.mover, image), opponent=transform(rows.opponent, image))
        with self._net.learning(seed_of(self.config.seed, self.steps, self.group.rank, 4 + 1000 * self._pass)):
            for part in self.parts(rows, dice):
                self.improve(part)
        return self.group.all_reduce(statistics)

    @torch.no_grad()
    def _values(self, *rows: Tensor):
        for first in range(0, len(rows[0]), VALUE_ROWS):
            yield self._net(*(row[first : first + VALUE_ROWS] for row in rows))

    def dice(self) -> Dice:
        """The chance of this step's updates."""
        number = 2 + self._pass
        return Dice.seeded(seed_of(self.config.seed, self.steps, self.group.rank, number), self.device)

    def parts(self, rows: Rows, dice: Dice) -> list[Rows]:
        """Rows for each update: all that are in use once, in random order, the same number each time. What is left
        over is filled with some of them again, of weight 0: layers that normalise see positions, not gaps."""
        count, optim = len(rows.mover), self.config.optim
        updates = max(1, count // (optim.minibatch or MINIBATCHES[optim.kind]))
        size = -(-count // updates)
        used = rows.weight.sum().to(torch.int64).clamp(min=1)
        in_use_first = (dice.uniform(count) + (rows.weight == 0)).argsort()
        places = dice.uniform(updates * size).argsort()
        mixed = rows.at(in_use_first.index_select(0, places % used))
        mixed = mixed._replace(weight=mixed.weight * (places < used))
        return [Rows(*part) for part in zip(*(column.split(size) for column in mixed), strict=True)]

    def _synchronise(self) -> None:
        """What layers count while they learn, such as the means of a batch normalisation, becomes the ranks' mean."""
        counted = [buffer for buffer in self._net.buffers() if buffer.is_floating_point()]
        if self.group.size > 1 and counted:
            for buffer, total in zip(counted, self.group.all_reduce_flat(counted), strict=True):
                buffer.copy_(total / self.group.size)

    def _weights_state(self) -> Arrays:
        arrays = {f"net.{name}": array for name, array in float_state(self._net).items()}
        for number, state in enumerate(self.improve.states()):
            arrays |= {f"optimiser.{number}.{name}": value.cpu().numpy().copy() for name, value in state.items()}
        return arrays

    def _restore_weights(self, arrays: Arrays) -> None:
        arrays = as_torch_state(arrays, self.config)
        restore_net(self._net, arrays)
        if "cells.sums" in arrays:
            note(
                TRAIN, "this run has learnt game by game so far; its weights go on, the sizes of their steps begin anew"
            )
            return
        for number, state in enumerate(self.improve.states()):
            for name, value in state.items():
                key = f"optimiser.{number}.{name}"
                saved = array_in({key: arrays[key].reshape(-1)}, key, value.reshape(-1).cpu().numpy())
                value.copy_(torch.from_numpy(np.array(saved)).view(value.shape))
