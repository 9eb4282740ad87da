"""What a position in the book is worth, and how that reaches all positions before it (Delteil 1993; KEYANO, section 4).

A position is worth what its best move is: of the moves that lead to positions in the book their value, of all others
what a search has found. The search of a new position gives its best move and with that a bound for all others. So
moves that lead out of the book are searched again only when the best move leads into the book and has dropped below the
bound: one of the others may now be better.

When a position is added, or its value changes, every position from which a move leads to it is looked at again, and so
on to the start. Many ways lead to a position: its parents are found by the squares that hold discs, not remembered from
the game that was added.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from othello_nn.book.canonical import (
    Key,
    before_pass,
    canonical,
    children,
    discs_of,
    position_of,
    shape_of,
    shapes_before,
)
from othello_nn.book.store import HIGHEST, Node, Store
from othello_nn.game.position import Position

REMEMBERED = 10_000
"""Searches that a book remembers while it is added to."""


@dataclass(frozen=True)
class Judgement:
    """The best of some moves, and what it is worth to the side to move, in discs."""

    move: int
    value: float
    depth: int


class Judge(Protocol):
    """Who searches for the book."""

    def __call__(self, position: Position, moves: Sequence[int] | None = None) -> Judgement:
        """The best of all moves, or of these only. The game is not over; a pass is a move."""
        ...


class Book:
    """A book that is added to. What is added at once is written at once."""

    def __init__(self, path: str | Path, judge: Judge, *, create: bool = True):
        self.store, self.judge = Store(path, create=create), _remembered(judge)

    def close(self) -> None:
        self.store.close()

    def __enter__(self) -> Book:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, positions: Iterable[Position]) -> int:
        """Put positions into the book that are not there yet; how many those were."""
        keys = list(dict.fromkeys(canonical(position)[0] for position in positions))
        # Searches take long, and others may want to write meanwhile: the file is locked only after them. If somebody
        # has written in between, it is done again, with what was searched at hand.
        version = self.store.version()
        addition = Addition(self.store, self.judge)
        addition.add(keys)
        if not addition.changed:
            return 0
        with self.store.writing():
            if self.store.version() != version:
                addition = Addition(self.store, self.judge)
                addition.add(keys)
            self.store.put(addition.changed.items())
        return addition.added

    def after_best(self, key: Key) -> Key | None:
        """The position after the best move; None if the book does not know it or the game is over."""
        node = self.store.get(key)
        return None if node is None or node.best is None else children(key)[node.best]

    def __contains__(self, position: Position) -> bool:
        return self.store.get(canonical(position)[0]) is not None


class Addition:
    """What changes in a book when positions are added: in memory, over what the file holds."""

    def __init__(self, store: Store, judge: Judge):
        self.store, self.judge = store, judge
        self.changed: dict[Key, Node] = {}
        self.added = 0
        self._read: dict[Key, Node | None] = {}
        self._new: dict[int, list[Key]] = {}
        """New positions, by shape."""

    def add(self, keys: Iterable[Key]) -> None:
        waiting = [_turn(key) for key in keys if self._get(key) is None]
        heapq.heapify(waiting)
        while waiting:
            *_, key = turn = heapq.heappop(waiting)
            while waiting and waiting[0] == turn:
                heapq.heappop(waiting)
            node = self._get(key)
            if node is None:
                settled = self._new_node(key)
                self._new.setdefault(shape_of(key), []).append(key)
                self.added += 1
            else:
                settled = self._settled(key, node)
            if settled != node:
                self.changed[key] = settled
            if node is None or settled.value != node.value:
                for parent in self.parents(key):
                    heapq.heappush(waiting, _turn(parent))

    def _get(self, key: Key) -> Node | None:
        if key in self.changed:
            return self.changed[key]
        if key not in self._read:
            self._read[key] = self.store.get(key)
        return self._read[key]

    def _new_node(self, key: Key) -> Node:
        position = position_of(key)
        if position.is_over:
            return Node(float(position.final_score()), None, None, None, 0)
        if all(self._get(child) is not None for child in children(key).values()):
            return self._settled(key, Node(0.0, None, None, None, 0))
        found = self.judge(position)
        value = _kept(found.value)
        return self._settled(key, Node(value, found.move, found.move, value, found.depth))

    def _settled(self, key: Key, node: Node) -> Node:
        """A position's values, from those of the positions after it."""
        after = {move: self._get(child) for move, child in children(key).items()}
        known = {move: 0.0 - child.value for move, child in after.items() if child is not None}
        outside = [move for move, child in after.items() if child is None]
        best = max(known, key=lambda move: known[move], default=None)
        if not outside:
            node = replace(node, rest=None, bound=None)
        elif node.rest in known:
            node = replace(node, rest=None)
        if outside and node.rest is None and (best is None or node.bound is None or known[best] < node.bound):
            # The best move has dropped: one of those outside of the book may be better now. (That there is no move or
            # no bound is seen only while another process writes; then all is worked out again.)
            found = self.judge(position_of(key), outside)
            node = replace(node, rest=found.move, bound=_kept(found.value), depth=found.depth)
        if node.rest is not None and node.bound is not None and (best is None or node.bound > known[best]):
            return replace(node, value=node.bound, best=node.rest)
        assert best is not None
        return replace(node, value=known[best], best=best)

    def parents(self, key: Key) -> set[Key]:
        """The positions of the book from which one move leads to this one."""
        found: set[Key] = set()
        for shape in shapes_before(key):
            found.update(self.store.with_shape(shape), self._new.get(shape, ()))
        parents = {parent for parent in found if key in children(parent).values()}
        passed = before_pass(key)
        return parents | ({passed} if passed is not None and self._get(passed) is not None else set())


def _turn(key: Key) -> tuple[int, bool, Key]:
    """Those with most discs come first: when it is a position's turn, all that comes after it is settled."""
    return -discs_of(key), position_of(key).must_pass, key


def _kept(value: float) -> float:
    """A value as the book keeps it: no search can promise more than all discs."""
    return min(max(float(value), -HIGHEST), HIGHEST) + 0.0


def _remembered(judge: Judge) -> Callable[..., Judgement]:
    found: dict[tuple[Position, tuple[int, ...] | None], Judgement] = {}

    def ask(position: Position, moves: Sequence[int] | None = None) -> Judgement:
        question = position, None if moves is None else tuple(moves)
        if question not in found:
            if len(found) >= REMEMBERED:
                found.clear()
            found[question] = judge(position, moves)
        return found[question]

    return ask
