"""A player that searches with the engine. Importing this module imports Numba."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from othello_nn.book import OpenBook
from othello_nn.checkpoint import read_meta
from othello_nn.engine import Engine, Limit, Options, Result
from othello_nn.engine.clock import make_clock
from othello_nn.engine.leaf.batched import BatchedEvaluator
from othello_nn.engine.leaf.compile import ColouredEvaluator, Evaluator, load_evaluator, why_not_compiled
from othello_nn.engine.leaf.tables import TableEvaluator, weighted_squares
from othello_nn.game.position import Position
from othello_nn.players.base import BasePlayer, Choice, PlayerError
from othello_nn.players.simple import SquareWeights
from othello_nn.players.spec import PlayerSpec
from othello_nn.players.weakening import chances, share_of_move
from othello_nn.resources import find_book
from othello_nn.search_options import CLOCK, MAX_DEPTH

# A shallow search fills a fraction of this, and both are cleared before every game.
SHALLOW_DEPTH, SHALLOW_TABLE_MB, TABLE_MB = 6, 1.0, 64.0
# Where limits meet a game clock, a move gets an equal share of it as if so many more were to come; solving gets twice
# that, since a game that is solved once needs no more time.
SPARE_MOVES, SOLVING_SHARES = 4, 2
# A player that gives discs away looks at every move by itself, so not as deep as it could.
GIVING_DEPTH, MOST_GIVING_DEPTH = 6, 8
# Files that hold no net, and who reads them.
FITTED_KINDS = {"features": "classic.features:FeatureEvaluator", "keyano": "classic.keyano:KeyanoEvaluator"}


class SearchPlayer(BasePlayer):
    """Searches within its limits; from ``solve`` empties on it plays the end exactly.

    Under a game clock, limits are kept as far as the clock allows; a player that would only have its default time for
    each move divides the clock over the game instead, as ``engine/clock.py`` does it.
    """

    def __init__(self, spec: PlayerSpec, evaluator: Any, default: Limit, rng: random.Random):
        super().__init__(spec.text, rng, spec.epsilon or 0.0)
        self.solve_from = spec.solve or 0
        self.gives_discs = spec.gives or 0.0
        self.varies |= self.gives_discs > 0
        self.limit = Limit(spec.depth, spec.nodes, spec.seconds) if spec.is_limited else default
        divided = not spec.is_limited and (spec.clock is not None or default.depth is None)
        self.clock = make_clock(spec.clock or CLOCK.default) if divided else None
        options = _options(spec, self.limit)
        if isinstance(evaluator, ColouredEvaluator):
            if not evaluator.any_depth and (self.limit.depth != 1 or self.solve_from):
                raise PlayerError(f"{spec.name} judges positions after its own move only; write {spec.name}:depth=1")
            # A search of odd depth ends with the other side to move. At even depths it ends with its player to move,
            # and without a fixed depth it may: then each colour asks the net that knows its own turns.
            odd = self.limit.depth is not None and self.limit.depth % 2 == 1
            white, black = (evaluator.after_move(colour if odd else not colour) for colour in (False, True))
            self.engines = (Engine(white, options), Engine(black, options))
        else:
            self.engines = (Engine(evaluator, options),) * 2
        if spec.trust is not None and not self.engine.is_selective:
            reason = "probcut is off" if spec.probcut is False else "no ProbCut was fitted to it"
            raise PlayerError(f"trust={spec.trust:g} says nothing for {spec.name}: {reason}; leave it out")
        self.evaluator = evaluator
        self._spec_book, self.margin_discs = spec.book, spec.margin or 0.0
        self.book: OpenBook | None = None
        self.open_book()
        self.varies |= self.book is not None and self.margin_discs > 0
        self.on_iteration: Callable[[Result], bool | None] | None = None
        """Told of each finished iteration; it may return False to end the search."""

    @property
    def engine(self) -> Engine:
        """The engine; of a player that has one for each colour, black's."""
        return self.engines[True]

    def pick(self, position: Position, remaining: float | None) -> Choice:
        if self.gives_discs and len(position.legal_moves) > 1:
            return self._give_away(position)
        if self.book is not None and (found := self.book.choose(position, self.margin_discs, self.rng)) is not None:
            line = self.book.line(position.play(found.move))
            return Choice(found.move, found.value, depth=found.depth, pv=(found.move, *line))
        return choice_of(self._think(position, remaining))

    def open_book(self) -> None:
        """Look for the opening book that was asked for, if one was; again, if there is a new one."""
        if self.book is not None:
            self.book.close()
        wanted = self._spec_book not in (None, "off")
        self.book = OpenBook(find_book(str(self._spec_book))) if wanted else None

    def _give_away(self, position: Position) -> Choice:
        """A move drawn by what the moves are worth, each searched to the same depth; see ``weakening.py``."""
        depth = min(self.limit.depth or GIVING_DEPTH, MOST_GIVING_DEPTH)
        engine, moves = self.engines[position.black_to_move], position.legal_moves
        found = [engine.search(position.play(move), Limit(depth=max(1, depth - 1))) for move in moves]
        values = [0.0 - (result.score if result.exact else result.raw_score) for result in found]
        [i] = self.rng.choices(range(len(moves)), chances(values, share_of_move(self.gives_discs)))
        nodes, seconds = sum(result.nodes for result in found), sum(result.seconds for result in found)
        return Choice(moves[i], values[i], found[i].exact, depth, (moves[i], *found[i].pv), nodes, seconds)

    def _think(self, position: Position, remaining: float | None) -> Result:
        engine, solving = self.engines[position.black_to_move], position.empties <= self.solve_from
        if remaining is not None and self.clock is not None and not solving:
            return self.clock.think(engine, position, remaining, self.on_iteration)
        limit = Limit(depth=MAX_DEPTH) if solving else self.limit
        if remaining is not None:
            share = max(remaining, 0.001) / ((position.empties + 1) // 2 + SPARE_MOVES)
            share *= SOLVING_SHARES if solving else 1
            limit = replace(limit, seconds=min(share, limit.seconds or share))
        if solving:
            result = engine.solve(position, limit=limit, on_iteration=self.on_iteration)
        else:
            result = engine.search(position, limit, self.on_iteration)
        if result.depth or result.exact:
            return result
        # Out of time before a single ply: any move would do for the limit, but not for the player.
        return engine.search(position, Limit(depth=1))

    def new_game(self, rng: random.Random | None = None) -> None:
        super().new_game(rng)
        for engine in set(self.engines):
            engine.clear()
        if self.clock is not None:
            self.clock.new_game()

    def warm_up(self) -> None:
        # What such a search leaves in the table is true. To clear all of it would take as long as all the rest.
        for engine in set(self.engines):
            engine.search(Position.start(), Limit(depth=1))

    def stop(self) -> None:
        for engine in set(self.engines):
            engine.stop()

    def close(self) -> None:
        if self.book is not None:
            self.book.close()


def choice_of(result: Result) -> Choice:
    """What a search found, as a player says it."""
    found = result.move, result.score, result.exact, result.depth, result.pv, result.nodes, result.seconds
    return Choice(*found, None if result.raw_score == result.score else result.raw_score)


def _options(spec: PlayerSpec, limit: Limit) -> Options:
    shallow = limit.depth is not None and limit.depth <= SHALLOW_DEPTH and (spec.solve or 0) <= SHALLOW_DEPTH
    given = {key: spec.given[key] for key in ("threads", "probcut", "trust", "search") if key in spec.given}
    return Options(table_mb=spec.table or (SHALLOW_TABLE_MB if shallow else TABLE_MB), **given)


def table_evaluator(path: Path, device: str | None = None, batch: int | None = None) -> Evaluator | BatchedEvaluator:
    """The evaluator in a file, loaded once however many players use it: compiled if that can be done, else a torch net
    on ``device`` that is asked for ``batch`` positions at once. Both are for the latter only."""
    try:
        return _load(path, path.stat().st_mtime_ns, device, batch)
    except FileNotFoundError:
        raise PlayerError(f"there is no evaluator at {str(path)!r}") from None
    except OSError as error:
        raise PlayerError(f"{str(path)!r} cannot be read: {error.strerror or error}") from None
    except PlayerError:
        raise
    except ValueError as error:
        raise PlayerError(str(error) if str(path) in str(error) else f"{path}: {error}") from None


def net_evaluator(net: Any, name: str, device: str | None = None, batch: int | None = None) -> Any:
    """What the search makes of a torch net; an evaluator stays what it is."""
    if device is None and batch is None:
        return net.as_evaluator(name) if hasattr(net, "as_evaluator") else net
    if not hasattr(net, "as_evaluator") or not why_not_compiled(net.config):
        raise PlayerError(f"{name} is not evaluated in batches; leave out {'batch' if device is None else 'device'}=")
    from othello_nn.nets import batched_evaluator

    try:
        return batched_evaluator(net, device or "auto", batch, name)
    except ValueError as error:
        raise PlayerError(str(error)) from None


@lru_cache(maxsize=8)
def _load(path: Path, mtime_ns: int, device: str | None, batch: int | None) -> Any:
    meta = read_meta(path)
    net = meta["net"]
    fitted = isinstance(net, dict) and net.get("kind") in FITTED_KINDS
    if not fitted and why_not_compiled(net):
        from othello_nn.nets import batched_evaluator, load_net

        return batched_evaluator(load_net(path), device or "auto", batch, path.stem, meta["info"])
    if device is not None or batch is not None:
        key = "device" if device is not None else "batch"
        raise PlayerError(f"{path.stem} is compiled for the CPU and asked for one position at a time; leave out {key}=")
    if fitted:
        module, name = FITTED_KINDS[net["kind"]].split(":")
        return getattr(importlib.import_module(f"othello_nn.players.{module}"), name).load(path)
    return load_evaluator(path).laid_out()


@lru_cache(maxsize=8)
def square_evaluator(weights: SquareWeights) -> TableEvaluator:
    """Square weights as an evaluator for the search."""
    return weighted_squares(weights.name, weights.weights, weights.per_disc).laid_out()
