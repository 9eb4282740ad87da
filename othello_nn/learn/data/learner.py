"""Learning from searched games, in generations: the net before plays them, with search, and the next is fitted to them.

A generation has two parts. First positions are made and kept on disk (``searched.py``, ``store.py``), each with what a
search says of it and what came of its game; every rank and core plays. Then a fresh net is fitted to their λ-mixtures
(``labels.py``, ``minibatch.py``), tested on games that it does not learn from, and given its ProbCut, with which it
plays the next generation's games. The first generation is played by the net that ``init`` names, or, from nothing, by
one that counts moves.

Games that somebody has played can stand beside them, or in their place (``from_games.py``).

What the disk holds is never made twice: a run that was stopped goes on with the positions that are there.
"""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from othello_nn.checkpoint import UNIT, check_positions
from othello_nn.config import Config, ConfigError, Searched
from othello_nn.engine.calibration import Calibration
from othello_nn.engine.leaf.compile import ColouredEvaluator, Evaluator, compile_net, load_evaluator, why_not_compiled
from othello_nn.engine.leaf.embedded import LARGEST_8
from othello_nn.engine.leaf.mobility import Mobility
from othello_nn.engine.leaf.tables import LeafEvaluator
from othello_nn.engine.probcut import ProbCut
from othello_nn.fit.probcut import FitError, fit_evaluator
from othello_nn.kernels.parallel import parts_of
from othello_nn.learn.data.calibrate import calibrated
from othello_nn.learn.data.device import DeviceFit
from othello_nn.learn.data.from_games import GamePositions
from othello_nn.learn.data.labels import empties_of, firsts, labels, lines
from othello_nn.learn.data.minibatch import CompiledFit
from othello_nn.learn.data.module import ModuleFit
from othello_nn.learn.data.picture import picture_of_errors
from othello_nn.learn.data.searched import Play, searched_games
from othello_nn.learn.data.store import ASIDE, EXACT, Part, StoreError, read
from othello_nn.learn.data.vectors import FIRST_SIZE
from othello_nn.learn.distributed import Group
from othello_nn.learn.learner import (
    Arrays,
    Learner,
    TrainingError,
    array_in,
    counts_in,
    first_net,
    init_path,
    seed_of,
)
from othello_nn.learn.watch.curves import curve
from othello_nn.nets import Net, NTupleNet, make_net
from othello_nn.program import TRAIN, note

_Setting = TypeVar("_Setting")

PORTION = 512
"""Games that are played and written at a time."""
SLAB = 1 << 17
"""Positions that a step learns from."""
ANY_ERROR = 1e9
EIGHT = 8
"""``searched.bits`` of embeddings that are kept so small, and rounded in the end, that 8 bits hold them."""
AVERAGED = frozenset({"weights", "heads"})
TESTED = 40
"""One game in so many is kept from the fit, to tell its error."""
MOST_TESTED = 200_000
SHOWN = 40
"""Tests in the course of a fit."""
COST = 60
"""Making a position takes about as long as learning from it so many times: for the estimate of what is left."""
PROBCUT = {"positions": 600, "depth": 9, "solve_empties": 18}
SEES_COLOURS = "it must not look at the colour to move"
CALIBRATED = 8000, 20_000
"""Games that the net plays to find out what its scores mean, and positions of theirs that are searched."""
SMALL_FIT = 100
"""At most one of these games for so many positions that were learnt: a small run is not kept waiting."""
SETTLED, MOST_SETTLING = 16.0, 1 << 22
"""Where a fit goes on from the net before, cells have moved already, common ones most of all: their sums of squares
(``vectors.py``) begin as if its positions had been learnt so many times, which so many of them tell."""

GENERATION = curve("searched/generation", "searched games: the generation at hand", sparse=True)
POSITIONS = curve("searched/positions", "searched games: positions of this generation, on all ranks", sparse=True)
EXACT_SHARE = curve("searched/exact", "searched games: the share of new positions whose value is proven")
TRAINED = curve(
    "searched/train_error",
    "searched games: root of the mean squared error against labels, in discs, since the last test",
    sparse=True,
)
TEST = curve(
    "searched/test_error",
    "searched games: the same against the results of games kept from the fit",
    short="test error",
    live=True,
    sparse=True,
)
TEST_EXACT = curve(
    "searched/exact_error", "searched games: mean error, in discs, of tested positions that are solved", sparse=True
)
SLOPE = curve(
    "searched/slope", "searched games: slope of the results of tested games over the net's values", sparse=True
)
BY_EMPTIES = curve(
    "searched/error_empties_*", "searched games: as test_error, of positions with about so many empties", sparse=True
)
TESTED_GAMES = curve("pictures/tested", "searched games: errors by stage, and results by what the net says of them")
RATE = curve("searched/rate", "searched games: learning rate of the tables")


class Data:
    """The positions of a fit, with their labels; those of the last games are for the test."""

    def __init__(self, parts: list[np.ndarray], lam: float):
        movers, opponents, wanted = [], [], []
        tested: list[np.ndarray] = []
        for part in parts:
            new = firsts(part)
            # Each part was searched by one player: its searches have the same faults.
            found = labels(part, lam, lines([part[new]]))
            kept = new & (part["game"] % TESTED == 0)
            rest = new & ~kept
            movers.append(part["mover"][rest])
            opponents.append(part["opponent"][rest])
            wanted.append(found[rest])
            # What is not played to the end has no result to be tested with.
            tested.append(np.array(part[kept & (part["flags"] & (ASIDE | EXACT) != ASIDE)]))
        self.movers, self.opponents = np.concatenate(movers), np.concatenate(opponents)
        self.labels = np.concatenate(wanted)
        test = np.concatenate(tested)
        test = test[:: max(1, len(test) // MOST_TESTED)]
        self.test_movers, self.test_opponents = test["mover"].copy(), test["opponent"].copy()
        self.test_margins, self.test_exact = test["margin"].astype(np.float32), test["flags"] & EXACT != 0
        self.test_empties = empties_of(test)

    def metrics(self, found: np.ndarray) -> dict[str, float]:
        """How far what a net says of the tested positions is from their results."""
        margins = self.test_margins
        errors = found - margins
        metrics: dict[str, float] = {TEST: _root_mean(errors)}
        if self.test_exact.any():
            metrics[TEST_EXACT] = float(np.abs(errors[self.test_exact]).mean())
        if found.std() > 0:
            metrics[SLOPE] = float(np.cov(found, margins)[0, 1] / found.var(ddof=1))
        for empties in range(5, 60, 10):
            near = np.abs(self.test_empties - empties) <= 5
            if near.any():
                metrics[BY_EMPTIES.of(f"{empties:02}")] = _root_mean(errors[near])
        return metrics


def _root_mean(errors: np.ndarray) -> float:
    return float(np.sqrt(np.square(errors).mean())) if len(errors) else 0.0


class SearchedLearner(Learner):
    """Generations of positions and of nets. ``games`` counts positions: those made, and those learnt from.

    Every rank makes positions; rank 0 learns from those of all, whose folder they share.
    """

    unit = "positions"
    when_diverged = "take a lower searched.rate or searched.head_rate"

    def __init__(self, config: Config, group: Group, threads: int, device: str, *, resumed: bool = False):
        self.config, self.group, self.threads, self.device = config, group, threads, device
        self.options: Searched = config.searched
        self._net = make_net(config.net)
        if reason := why_not_compiled(self._net.options) or (SEES_COLOURS if self._net.options.sees_colours else ""):
            raise ConfigError(f"a net that learns from searched games also plays them: {reason}")
        self._eight = self.options.bits == EIGHT and isinstance(self._net, NTupleNet)
        self.generation = 0
        self._begin_fit(anew=resumed)  # a resumed run's net comes out of its state
        self.fitting = False
        """The positions of this generation are there, and the net learns from them."""
        self.learnt = 0
        self._count = 0
        """Positions that the fit at hand learns from, once it is known."""
        self.probcut: np.ndarray | None = None
        self._player: Any = None
        if 0 in self.options.positions and not self.options.games:
            raise ConfigError("searched.positions: a generation that makes none needs searched.games to learn from")
        self._games: GamePositions | None = None
        if self.options.games and group.is_rank_0:  # which learns
            self._games = GamePositions(self.options.games, resumed=resumed)
        if not resumed:  # what is wrong with a new run is said before it has a folder
            self._player = self._first_player()
            if self.options.folder:
                Path(self.options.folder).mkdir(parents=True, exist_ok=True)
        self._part: Part | None = None
        self._data: Data | None = None
        self._order: tuple[int, np.ndarray] | None = None
        self._squared: Any = 0.0
        self._rows = 0
        self._best, self._since = ANY_ERROR, 0
        """The lowest test error of this fit, and how many tests ago it was."""
        self._mean: dict[str, np.ndarray] = {}
        """The mean of the weights over the last steps, where the net is to be that."""
        self._tested: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    def pictures(self) -> dict[str, np.ndarray]:
        return {} if self._tested is None else {TESTED_GAMES: picture_of_errors(*self._tested)}

    def _begin_fit(self, anew: bool = False) -> None:
        """A net that knows nothing, or the one before, and what moves it."""
        self._fit: CompiledFit | DeviceFit | ModuleFit
        goes_on = not anew and self._goes_on
        if not goes_on:
            self._net.cpu().reset_parameters(torch.Generator().manual_seed(seed_of(self.config.seed, 1)))
        elif self.generation == 0:
            self._net.load_state_dict(first_net(self.config).state_dict())
        else:
            self._net = self.net().cpu()
        if not isinstance(self._net, NTupleNet):
            self._net.say_nothing()
            self._fit = ModuleFit(self._net, self.device)
        elif self.device == "cpu":
            self._fit = CompiledFit(self._net, self.options.minibatch, self.threads)
        else:
            self._fit = DeviceFit(self._net, self.device)
        if goes_on and not isinstance(self._fit, ModuleFit):
            self._fit.apart = True

    @property
    def _goes_on(self) -> bool:
        """This generation's net begins as the one before."""
        return self.generation >= len(self.options.positions) - self.options.onward

    @property
    def progress(self) -> float:
        wanted = self.options.positions
        making = [COST * count for count in wanted]
        played = 0 if self._games is None else len(self._games.part(self._positions))
        fits = [self._passes(i) * (played + sum(wanted[self._first_learnt(i) : i + 1])) for i in range(len(wanted))]
        done = float(sum(making[: self.generation]) + sum(fits[: self.generation]))
        if self.fitting:
            share = self.learnt / self._to_learn if self._data is not None else 0.0
            done += making[self.generation] + share * fits[self.generation]
        elif self.generation < len(wanted):
            done += min(COST * self._made, making[self.generation])
        whole = sum(making) + sum(fits)
        return done / whole if whole else self.generation / len(wanted)

    @property
    def _made(self) -> int:
        """Positions of this generation; the other ranks have about as many as this one."""
        return self.group.size * self._part.records if self._part is not None else 0

    # --- a step ------------------------------------------------------------------------------------------------------

    def play(self) -> np.ndarray | None:
        """The positions of some games; once there are enough, the numbers of those to learn from next."""
        if self.fitting:
            return self._next_slab() if self.group.is_rank_0 else None
        part = self._open_part()
        if self._made >= self.options.positions[self.generation]:
            return None
        seed = seed_of(self.config.seed, self.generation, self.group.rank)
        return searched_games(self._player, self._how(), seed, part.portions * PORTION, PORTION, self.threads)

    def targets(self, games: np.ndarray | None) -> np.ndarray | None:
        """What the positions to learn from are worth; new ones are only put by."""
        return self._loaded().labels[games] if self.fitting and games is not None else None

    def update(self, games: np.ndarray | None, targets: np.ndarray | None) -> dict[str, float]:
        """Keep new positions, or learn from those that are there."""
        return self._learn(games, targets) if self.fitting else self._keep(games)

    # --- making positions --------------------------------------------------------------------------------------------

    def _how(self) -> Play:
        options = self.options
        depth = _of_generation(options.depth, self.generation)
        return Play(depth, options.solve, options.opening_plies, options.latest, options.aside)

    def _open_part(self) -> Part:
        """This rank's part of the generation's positions, and who plays the games."""
        if self._part is None:
            if self.generation:
                self._player = self.evaluator()
            elif self._player is None:
                self._player = self._first_player()
            path = self._folder_of(self.generation) / str(self.group.rank)
            self._part = Part.create(path, f"{_digest(self._player)} {self._how()} {self.config.seed}")
            self.games += self._made
        return self._part

    def _first_player(self) -> Any:
        if not self.config.init:
            return Mobility()
        player = load_evaluator(init_path(self.config))
        if isinstance(player, ColouredEvaluator):
            raise ConfigError(
                f"init: {self.config.init} looks at the colour to move; searched games need one that does not"
            )
        return player

    def _folder_of(self, generation: int) -> Path:
        return self._positions / f"generation-{generation + 1}"

    @property
    def _positions(self) -> Path:
        """Where all positions are."""
        return Path(self.options.folder) if self.options.folder else self.folder / "positions"

    def _keep(self, games: np.ndarray | None) -> dict[str, float]:
        part = self._open_part()
        metrics: dict[str, float] = {}
        if games is not None:
            part.append(games)
            self.games += self.group.size * len(games)
            metrics[EXACT_SHARE] = float((games["flags"] & EXACT != 0).mean())
        (goes_on,) = self.group.any(self._made < self.options.positions[self.generation])
        if not goes_on:
            metrics |= {GENERATION: self.generation + 1.0, POSITIONS: float(self._made)}
            part.close()
            self._part = self._player = None
            self.fitting, self.learnt = True, 0
            self.probcut = self.calibration = None  # they are the last net's
            self._begin_fit()
        return metrics

    # --- learning from them ------------------------------------------------------------------------------------------

    def _loaded(self) -> Data:
        if self._data is None:
            learnt = range(self._first_learnt(self.generation), self.generation + 1)
            numbers = [number for number in learnt if self.options.positions[number]]
            parts = [] if self._games is None else [self._games.part(self._positions)]
            parts += [part for number in numbers for part in read(self._folder_of(number), check=True)]
            self._data = Data(parts, _of_generation(self.options.lam, self.generation))
            if not len(self._data.labels):
                raise StoreError(
                    f"{self._folder_of(self.generation)}: there is nothing to learn from; of a run's positions those "
                    f"of every {TESTED}th game, the first among them, are kept to test the net with"
                )
            if self._count not in (0, len(self._data.labels)):
                raise StoreError(f"{self._folder_of(self.generation)}: not the positions that this fit began with")
            self._count = len(self._data.labels)
        return self._data

    @property
    def _to_learn(self) -> int:
        """Positions of the whole fit, each as often as it is learnt."""
        return self._passes(self.generation) * len(self._loaded().labels)

    def _passes(self, generation: int) -> int:
        return _of_generation(self.options.passes, generation)

    def _first_learnt(self, generation: int) -> int:
        """The first generation whose positions this one's net learns from."""
        return max(0, generation + 1 - _of_generation(self.options.window, generation))

    def _next_slab(self) -> np.ndarray:
        count = len(self._loaded().labels)
        number, first = divmod(self.learnt, count)
        return self._order_of(number)[first : first + SLAB]

    def _order_of(self, number: int) -> np.ndarray:
        """In which order a pass learns."""
        if self._order is None or self._order[0] != number:
            rng = np.random.default_rng(seed_of(self.config.seed, self.generation, number, 2))
            self._order = number, rng.permutation(self._count)
        return self._order[1]

    def _learn(self, games: np.ndarray | None, targets: np.ndarray | None) -> dict[str, float]:
        metrics: dict[str, float] = {}
        goes_on = False
        if games is not None and targets is not None:
            data, options = self._loaded(), self.options
            total = self._to_learn
            self._take_apart()
            if self.learnt == 0 and self._goes_on:
                self._settle(data)
            before = SHOWN * self.learnt // total
            head_rate = _of_generation(options.head_rate, self.generation)
            for part in parts_of(len(games), options.minibatch):
                falling = 0.5 * (1 + math.cos(math.pi * self.learnt / total))
                rates = options.rate * falling, head_rate * falling
                chosen = games[part]
                self._squared += self._fit.learn(data.movers[chosen], data.opponents[chosen], targets[part], *rates)
                self.learnt += len(chosen)
            if self._eight and not isinstance(self._fit, ModuleFit):
                self._fit.keep_within(LARGEST_8 / UNIT)
            self.games += len(games)
            self._rows += len(games)
            metrics = {RATE: options.rate * falling}
            goes_on = self.learnt < total
            if isinstance(self._squared, float) and not math.isfinite(self._squared):
                raise TrainingError(f"training has diverged; {self.when_diverged}")
            if SHOWN * self.learnt // total > before:  # only here a device is waited for
                found = self._fit.discs(data.test_movers, data.test_opponents)
                self._tested = found, data.test_margins, data.test_empties
                metrics |= data.metrics(found) | {TRAINED: math.sqrt(float(self._squared) / self._rows)}
                self._squared, self._rows = 0.0, 0
                goes_on = goes_on and not self._is_stuck(metrics[TEST])
            self._average()
        (goes_on,) = self.group.any(goes_on)
        if not goes_on:
            self._end_fit()
        return metrics

    def _settle(self, data: Data) -> None:
        """Let each cell be as hard to move as if the net had seen such positions many times."""
        if isinstance(self._fit, ModuleFit):
            return
        vectors = self._fit.vectors
        vectors.sizes[:] = FIRST_SIZE
        self._fit.take()
        sample = self._order_of(0)[:MOST_SETTLING]
        for part in parts_of(len(sample), self.options.minibatch):
            chosen = sample[part]
            self._fit.learn(data.movers[chosen], data.opponents[chosen], data.labels[chosen], 0.0, 0.0)
        self._fit.give()
        vectors.sizes[:] = FIRST_SIZE + SETTLED * len(data.labels) / len(sample) * (vectors.sizes - FIRST_SIZE)
        for moments in (vectors.first, vectors.second, vectors.counts):
            moments[:] = 0
        self._fit.take()

    def _take_apart(self) -> None:
        """Give each stage tables of its own once they have been one for long enough."""
        if not self._fit.apart and self.learnt >= self.options.common * self._count:
            self._fit.give()
            self._fit.apart = True

    def _is_stuck(self, error: float) -> bool:
        """Whether the test error has not fallen for as long as there is patience."""
        self._best, self._since = (error, 0) if error < self._best else (self._best, self._since + 1)
        return 0 < self.options.patience <= self._since

    def _average(self) -> None:
        """Let the mean follow the weights."""
        if not self.options.average:
            return
        self._fit.give()
        now = self._fit.vectors._asdict()
        for name in AVERAGED & now.keys():
            mean = self._mean.setdefault(name, now[name].copy())
            mean += (1 - self.options.average) * (now[name] - mean)

    def _end_fit(self) -> None:
        """The net plays the next games: all ranks get it, with its ProbCut."""
        self._fit.give()
        for name, mean in self._mean.items():
            getattr(self._fit.vectors, name)[:] = mean
        if self._eight:
            weights = self._fit.vectors.weights
            weights[:] = np.rint(weights * np.float32(UNIT)) / np.float32(UNIT)
        self._fit.take()
        self._mean, self._best, self._since = {}, ANY_ERROR, 0
        if self.group.size > 1:
            for array in self._fit.vectors:
                if not self.group.is_rank_0:
                    array[:] = 0
                self.group.all_reduce(torch.from_numpy(array))
            self._fit.take()
        count, self._data, self._order = self._count, None, None
        self.fitting, self.learnt, self._count = False, 0, 0
        self.generation += 1
        self._fit_searches(count)

    def _fit_searches(self, count: int) -> None:
        """ProbCut for the net, which learnt from so many positions, and what its scores mean."""
        try:
            seed = seed_of(self.config.seed, self.generation, 3)
            self.probcut = fit_evaluator(self._leaf_evaluator(), **PROBCUT, seed=seed).numbers()
            if self.group.is_rank_0:  # which saves the net
                games, searched = CALIBRATED
                games = min(games, max(1, count // SMALL_FIT))
                self.calibration = calibrated(self._leaf_evaluator(), games, searched, seed, self.threads).lines
        except FitError as error:  # a small run; the net plays without
            if self.group.is_rank_0:
                note(TRAIN, error)

    # --- the net -----------------------------------------------------------------------------------------------------

    def net(self) -> Net:
        self._fit.give()
        return self._fit.vectors.put_into(self._net)  # type: ignore[arg-type]  # they are of this kind of net

    def evaluator(self) -> Evaluator:
        return self._leaf_evaluator()

    def _leaf_evaluator(self) -> LeafEvaluator:
        net = self.net()
        arrays = {name: tensor.cpu().numpy() for name, tensor in net.state_dict().items()}
        evaluator = compile_net(net.config, arrays, "learner", probcut=self.probcut)
        assert isinstance(evaluator, LeafEvaluator)
        return evaluator

    def state(self) -> Arrays:
        self._fit.give()
        arrays = {f"net.{name}": part.copy() for name, part in self._fit.vectors._asdict().items()}
        where = self.generation, self.fitting, self.learnt, self._count, self.games - self._made
        arrays["where"] = np.array(where)
        arrays["fit"] = np.array([self._best, self._since])
        arrays |= {f"mean.{name}": mean.copy() for name, mean in self._mean.items()}
        fitted = {"probcut": self.probcut, "calibration": self.calibration}
        return arrays | {name: array for name, array in fitted.items() if array is not None}

    def restore(self, arrays: Arrays) -> None:
        for name, part in self._fit.vectors._asdict().items():
            part[:] = array_in(arrays, f"net.{name}", part)
        self._fit.take()
        self.generation, fitting, self.learnt, self._count, self.games = counts_in(arrays, "where", 5)
        last = len(self.options.positions)
        most = self._passes(self.generation) * self._count
        if fitting > 1 or self.generation + fitting > last or self.learnt > most:
            raise ValueError(f"where is {arrays['where'].tolist()}, which this run cannot be at")
        self.fitting = bool(fitting)
        is_late = not fitting or self._goes_on or self.learnt > self.options.common * self._count
        self._fit.apart = self._fit.apart or is_late
        if "fit" in arrays:
            best, since = array_in(arrays, "fit", np.zeros(2))
            self._best, self._since = float(best), int(since)
        means = {name: f"mean.{name}" for name in AVERAGED if f"mean.{name}" in arrays}
        vectors = self._fit.vectors._asdict()
        self._mean = {name: array_in(arrays, key, vectors[name]).copy() for name, key in means.items()}
        self.probcut, self.calibration = arrays.get("probcut"), arrays.get("calibration")
        if self.probcut is not None:
            ProbCut.of(self.probcut)
        if self.calibration is not None:
            Calibration(self.calibration)


def _of_generation(settings: tuple[_Setting, ...], generation: int) -> _Setting:
    """One of a setting's numbers; the last goes for all generations after it."""
    return settings[min(generation, len(settings) - 1)]


def _digest(player: Any) -> str:
    """Tells players apart by what they say: positions of one are not mixed with those of another."""
    if not isinstance(player, LeafEvaluator):
        return type(player).__name__
    movers, opponents, _ = check_positions()
    said = player.discs(movers, opponents).tobytes()
    return hashlib.sha256(said + (b"" if player.probcut is None else player.probcut.tobytes())).hexdigest()
