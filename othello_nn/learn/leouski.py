"""Leouski's training as he printed it in 1995: two nets, black's and white's, learn by playing each other: his triangle
nets, or the fully connected ones that he compared them with.

At each of its turns t a net says P_t, what the position is worth to it. A search of two plies (its own move and the
reply, judged by the same net) gives P_{t+1} and the move; with fewer than eleven empty squares the search goes to the
end of the game, and P_{t+1} is the squashed margin. Then Δw = α (P_{t+1} − P_t) ∇P_t, which is TD(0). Updates are added
up and made when the game is over. With application coefficients (``nets/staged.py``) P is the blend of several nets and
its gradient goes through the blend.

Where the report leaves a choice, this is ours:

* Chance: "a better move was ignored versus already considered one with probability 0.1" holds for the side's own moves
  in searches of two plies, considered from a1 to h8; P_{t+1} is the result of the search as it went, so the value of
  the move that is made. Exhaustive searches ignore nothing, and what they find is the margin that the game ends with.
* A side that must pass in the search passes, as its ply; a game that ends inside the search has its squashed margin.
  A side that must pass in the game has no turn, and learns nothing.

Read ``nets/triangle.py`` first, then ``triangle_kernels.py``, which computes the nets. All games are played in turn by
one thread: each begins with what the last one taught.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numba import int64, uint64

from othello_nn.config import Leouski
from othello_nn.engine.endgame import end_node
from othello_nn.engine.leaf.compile import Evaluator, compile_net
from othello_nn.errors import OthelloError
from othello_nn.fit.labels import label_workspace
from othello_nn.kernels.bits import flips_of, legal_of, lowest_square, popcount
from othello_nn.kernels.board import ONE, START, ZERO, after, final_score, play, side_to_move
from othello_nn.kernels.chance import ALWAYS, happens, random_stream
from othello_nn.kernels.jit import kernel
from othello_nn.learn.learner import Learner, array_in, counts_in
from othello_nn.learn.td.statistics import TD_ERROR
from othello_nn.learn.td.trajectory import MOST_MOVES
from othello_nn.learn.triangle_kernels import (
    AFTER_MOVE,
    AFTER_REPLY,
    BLACK,
    ROOT,
    Hyperparameters,
    Nets,
    Patches,
    Work,
    add_gradient,
    advance,
    begin,
    squash,
    value_at,
)
from othello_nn.learn.watch.curves import curve
from othello_nn.nets import make_net
from othello_nn.nets.base import Net
from othello_nn.nets.dense import DenseNet
from othello_nn.nets.staged import Doubled, Staged
from othello_nn.nets.triangle import TRIANGLES, TriangleNet

SIDES = ("black", "white")
BLACK_SCORE = curve("games/black_score", "Leouski's training: black's score against white in the games learnt from")
BLACK_MARGIN = curve("games/black_margin", "Leouski's training: black's mean margin in these games, in discs")
TABLE_MB = 1.0  # endings of ten squares need little
SQUARED, TURNS, MARGIN, POINTS = range(4)  # of the statistics: sums over games; margin and points are black's

# --- the game --------------------------------------------------------------------------------------------------------


@kernel()
def value_of_move(nets, work, hyper, colour, mover, opponent, square, enough):
    """What a move is worth after the worst reply; anything ≤ ``enough`` if it is no more than that.

    The sums of the position must be at the root. All leaves have the mover's side to move again.
    """
    turned = flips_of(mover, opponent, square)
    other, own = after(mover, opponent, square, turned)
    discs = popcount(own | other)
    advance(nets, work, AFTER_MOVE, colour, square, turned, 1.0)
    replies = legal_of(other, own)
    if replies == ZERO:
        if legal_of(own, other) == ZERO:
            return squash(final_score(own, other) / hyper.scale)
        return value_at(nets, work, AFTER_MOVE, colour, discs)
    worst = np.inf
    while replies != ZERO and worst > enough:
        reply = lowest_square(replies)
        replies &= replies - ONE
        turned = flips_of(other, own, reply)
        mine, theirs = after(other, own, reply, turned)
        if legal_of(mine, theirs) | legal_of(theirs, mine) == ZERO:
            value = squash(final_score(mine, theirs) / hyper.scale)
        else:
            advance(nets, work, AFTER_REPLY, colour, reply, turned, -1.0)
            value = value_at(nets, work, AFTER_REPLY, colour, discs + 1)
        worst = min(worst, value)
    return worst


@kernel("Tuple((int64, int64))(uint64, uint64, uint64, int64, int64)")
def solve(mover, opponent, moves, empties, workspace):
    """The best move, and the margin in discs that it leads to."""
    best, best_square = int64(-65), int64(-1)
    while moves != ZERO and best < int64(64):
        square = lowest_square(moves)
        moves &= moves - ONE
        other, own = play(mover, opponent, square)
        high = -max(best, int64(-64))  # a move that is no better need not be known more closely
        margin = -end_node(other, own, int64(-64), int64(high), int64(empties - 1), workspace)
        if margin > best:
            best, best_square = margin, square
    return best_square, best


@kernel()
def search(nets, work, hyper, workspace, colour, mover, opponent, moves, state):
    """The move found, its value and the random state; the sums of the position must be at the root."""
    empties = int64(64) - popcount(mover | opponent)
    if empties < hyper.exact_below:
        square, margin = solve(mover, opponent, moves, empties, workspace)
        return square, squash(margin / hyper.scale), state
    best, best_square = -np.inf, int64(-1)
    while moves != ZERO:
        square = lowest_square(moves)
        moves &= moves - ONE
        value = value_of_move(nets, work, hyper, colour, mover, opponent, square, best)
        if best_square >= 0:
            if not value > best:
                continue
            is_ignored, state = happens(hyper.ignore, state)
            if is_ignored:
                continue
        best, best_square = value, square
    return best_square, best, state


@kernel()
def play_game(nets, work, hyper, workspace, state):
    """Play a game and record its turns in ``work``; how many there were, and black's margin."""
    mover, opponent = START
    colour, turns = int64(BLACK), int64(0)
    while True:
        mover, opponent, moves, passed = side_to_move(mover, opponent)
        if passed:
            colour = int64(1) - colour
        if moves == ZERO:
            margin = final_score(mover, opponent)
            return turns, (margin if colour == BLACK else -margin)
        begin(nets, work, colour, mover, opponent)
        work.predictions[turns] = value_at(nets, work, ROOT, colour, popcount(mover | opponent))
        square, target, state = search(nets, work, hyper, workspace, colour, mover, opponent, moves, state)
        work.movers[turns], work.opponents[turns], work.colours[turns] = mover, opponent, colour
        work.targets[turns] = target
        turns += int64(1)
        mover, opponent = play(mover, opponent, square)
        colour = int64(1) - colour


@kernel()
def gradient_of_game(nets, gradient, work, hyper, turns):
    """Write Σ (P_{t+1} − P_t) ∇P_t over the recorded turns."""
    for i in range(gradient.everything.size):
        gradient.everything[i] = 0.0
    for turn in range(turns):
        error = work.targets[turn] - work.predictions[turn]
        mover, opponent = work.movers[turn], work.opponents[turn]
        add_gradient(nets, gradient, work, work.colours[turn], mover, opponent, error, hyper)
    if hyper.symmetric:  # the eight share a parameter, and so the sum of their gradients
        for array in (gradient.biases, gradient.outputs):
            for colour in range(2):
                for k in range(array.shape[2]):
                    total = 0.0
                    for t in range(array.shape[1]):
                        total += array[colour, t, k]
                    for t in range(array.shape[1]):
                        array[colour, t, k] = total


@kernel()
def train(nets, gradient, work, hyper, workspace, seed, first, count, statistics):
    """Games ``first`` … ``first + count − 1``, each followed by its update. A game's number makes its chances."""
    for number in range(first, first + count):
        turns, margin = play_game(nets, work, hyper, workspace, random_stream(seed, uint64(number)))
        gradient_of_game(nets, gradient, work, hyper, turns)
        for i in range(gradient.everything.size):
            nets.everything[i] += hyper.alpha * gradient.everything[i]
        for turn in range(turns):
            statistics[SQUARED] += (work.targets[turn] - work.predictions[turn]) ** 2
        statistics[TURNS] += turns
        statistics[MARGIN] += margin
        statistics[POINTS] += 1.0 if margin > 0 else (0.5 if margin == 0 else 0.0)


# --- the learner -----------------------------------------------------------------------------------------------------


class LeouskiLearner(Learner):
    """Trains ``{"kind": "doubled", "net": …}`` with a triangle net in it, a staged one of triangle nets, or a fully
    connected one."""

    def __init__(
        self,
        config: Mapping[str, Any],
        options: Leouski,
        *,
        total_games: int,
        games_per_step: int = 20,
        seed: int = 0,
    ):
        net = make_net(config)
        inner = net.black if isinstance(net, Doubled) else net
        parts = list(inner.nets) if isinstance(inner, Staged) else [inner]
        first = parts[0]
        self._is_dense = isinstance(inner, DenseNet)
        if not isinstance(net, Doubled) or not isinstance(first, DenseNet if self._is_dense else TriangleNet):
            raise OthelloError(
                "Leouski's training is for a doubled net of triangle nets, staged or not, or of fully connected ones"
            )
        net.reset_parameters(torch.Generator().manual_seed(seed))
        self.games, self.seed, self.games_per_step, self.total_games = 0, seed, games_per_step, total_games
        self._config, self._staged, self._parts = net.config, isinstance(inner, Staged), len(parts)
        assert isinstance(first, DenseNet | TriangleNet)
        if isinstance(first, DenseNet):
            self._maps, self._symmetric, inputs = len(first.outputs), False, 64
        else:
            self._maps, self._symmetric, inputs = first.maps, first.symmetric, 20 if first.empties else 10
        self._patches = Patches.of(np.arange(64)[None] if self._is_dense else np.array(TRIANGLES))
        learned = isinstance(inner, Staged) and inner.gate == "learned"
        chosen = options.alpha, round(options.ignore * ALWAYS), options.exact_below
        self.hyper = Hyperparameters(*chosen, first.scale, self._symmetric, learned)
        self.nets, self.gradient = (self._new_nets(inputs) for _ in range(2))
        self.work = self._new_work()
        self.workspace = label_workspace(TABLE_MB)
        self._set({name: tensor.double().numpy() for name, tensor in net.state_dict().items()})

    @property
    def progress(self) -> float:
        return min(self.games / self.total_games, 1.0)

    def _new_nets(self, inputs: int) -> Nets:
        columns, patches = self._parts * self._maps, len(self._patches.squares)
        shapes = (
            (2, inputs, columns),
            (2, patches, columns),
            (2, patches, columns),
            (2, self._parts),
            (2, 65, self._parts),
        )
        ends = np.cumsum([np.prod(shape) for shape in shapes])
        everything = np.zeros(ends[-1])
        views = (part.reshape(shape) for part, shape in zip(np.split(everything, ends[:-1]), shapes, strict=True))
        return Nets(everything, *views)

    def _new_work(self) -> Work:
        columns, patches = self._parts * self._maps, len(self._patches.squares)
        sums, hidden = np.zeros((3, patches, columns)), np.zeros((patches, columns))
        boards = np.zeros(MOST_MOVES, np.uint64), np.zeros(MOST_MOVES, np.uint64)
        turns = np.zeros(MOST_MOVES, np.int64), np.zeros(MOST_MOVES), np.zeros(MOST_MOVES)
        return Work(self._patches, sums, hidden, np.zeros(columns), np.zeros(self._parts), *boards, *turns)

    def play(self) -> range:
        """The numbers of the next games. Each is played with what the last one taught, so not before ``update``."""
        return range(self.games, self.games + self.games_per_step)

    def targets(self, games: range) -> None:
        """None before the games: the search at each turn finds its target."""

    def update(self, games: range, targets: None) -> dict[str, float]:
        """Play each game and learn from it, one after the other."""
        statistics = np.zeros(4)
        seed = np.uint64(self.seed % 2**64)
        numbers = games.start, len(games)
        train(self.nets, self.gradient, self.work, self.hyper, self.workspace.address, seed, *numbers, statistics)
        self.games += len(games)
        if not np.isfinite(self.nets.everything).all():
            raise OthelloError(f"the nets have grown beyond all bounds after {self.games} games; lower alpha")
        return {
            TD_ERROR: float(statistics[SQUARED] / statistics[TURNS]),
            BLACK_SCORE: float(statistics[POINTS] / len(games)),
            BLACK_MARGIN: float(statistics[MARGIN] / len(games)),
        }

    def net(self) -> Net:
        """A new net with the weights as they are."""
        net = make_net(self._config)
        net.load_state_dict({name: torch.from_numpy(array).float() for name, array in self._arrays().items()})
        return net

    def evaluator(self) -> Evaluator:
        arrays = {name: array.astype(np.float32) for name, array in self._arrays().items()}
        return compile_net(self._config, arrays, "leouski")

    def state(self) -> dict[str, np.ndarray]:
        """The net's arrays in float64, and the number of games, which makes the chances of those to come."""
        return self._arrays() | {"games": np.array([self.games])}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        (self.games,) = counts_in(arrays, "games")
        self._set({name: array_in(arrays, name, now) for name, now in self._arrays().items()})

    def _arrays(self) -> dict[str, np.ndarray]:
        """Copies of the parameters as the net's ``state_dict`` names and shapes them."""
        arrays = {}
        for colour, side in enumerate(SIDES):
            for i in range(self._parts):
                for name, view in self._views(colour, i).items():
                    is_one = (self._symmetric or self._is_dense) and name in ("biases", "outputs")  # for all patches
                    array = view.T[..., 0] if is_one else view.T
                    arrays[self._name(side, i) + name] = np.array(array, order="C")
            if self._staged:
                arrays[f"{side}.coefficients"] = self.nets.coefficients[colour].copy()
        return arrays

    def _set(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.nets.coefficients[...] = 1.0
        for colour, side in enumerate(SIDES):
            for i in range(self._parts):
                for name, view in self._views(colour, i).items():
                    view[...] = arrays[self._name(side, i) + name].T
            if self._staged:
                self.nets.coefficients[colour] = arrays[f"{side}.coefficients"]

    def _views(self, colour: int, i: int) -> dict[str, np.ndarray]:
        """The parameters of one net, each turned round: ``[…, maps]``."""
        nets, maps = self.nets, slice(i * self._maps, (i + 1) * self._maps)
        views = {name: getattr(nets, name)[colour, :, maps] for name in ("weights", "biases", "outputs")}
        if self._is_dense:  # whose weights are [64, units]
            views["weights"] = views["weights"].T
        return views | {"output_bias": nets.output_bias[colour, i : i + 1].reshape(())}

    def _name(self, side: str, i: int) -> str:
        return f"{side}.nets.{i}." if self._staged else f"{side}."
