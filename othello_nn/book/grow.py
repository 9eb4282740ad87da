"""Where a book's positions come from: games, its own leaves, games of its own, and the best move for every reply."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator

from othello_nn.book.answer import OpenBook
from othello_nn.book.canonical import Key, canonical, children, discs_of, position_of
from othello_nn.book.graph import Book
from othello_nn.book.store import Store
from othello_nn.game.position import Position
from othello_nn.game.record import Game
from othello_nn.game.rules import PASS
from othello_nn.resources import BOOK_DISCS

PLY_DISCS = 1.0
"""What a ply further from the start weighs when a leaf is chosen, against so many discs of worse moves on the way."""
LEAVES_AT_ONCE = 8
"""Leaves that are added before the whole book is looked at again for the next."""


def _discs(position: Position) -> int:
    return 64 - position.empties


def add_game(book: Book, game: Game, discs: int = BOOK_DISCS) -> int:
    """Put a game into the book, as far as it has so many discs; how many positions are new."""
    return book.add(position for position in game.positions() if _discs(position) <= discs)


# --- deepening -------------------------------------------------------------------------------------------------------


def deepen(book: Book, count: int, discs: int) -> Iterator[int]:
    """Add ``count`` positions where the book ends and play is likely to go on; yields how many are added so far."""
    added = book.add([Position.start()])
    while added < count:
        found = book_ends(book.store, min(LEAVES_AT_ONCE, count - added), discs)
        if not found:
            return
        for key in found:
            added += book.add([position_of(key)])
            yield added


def book_ends(store: Store, count: int, discs: int) -> list[Key]:
    """The positions just outside of the book that are reached with the least loss on the way.

    The loss of a way is what its moves are worth less than the best ones, for both sides, and ``PLY_DISCS`` a ply.
    """
    start, _ = canonical(Position.start())
    waiting: list[tuple[float, Key]] = [(0.0, start)]
    seen: set[Key] = set()
    found: list[Key] = []
    while waiting and len(found) < count:
        loss, key = heapq.heappop(waiting)
        if key in seen:
            continue
        seen.add(key)
        node = store.get(key)
        if node is None:
            found.append(key)
            continue
        for move, child in children(key).items():
            after = store.get(child)
            value = None if after is None else 0.0 - after.value
            if after is None and move == node.rest:
                value = node.bound
            if value is not None and discs_of(child) <= discs:
                heapq.heappush(waiting, (loss + node.value - value + PLY_DISCS, child))
    return found


# --- games of its own ------------------------------------------------------------------------------------------------


def play_games(book: Book, count: int, discs: int, margin_discs: float, rng: random.Random) -> Iterator[int]:
    """Add games of the judge against itself: from the book while it lasts, with variety; yields how many are done."""
    for done in range(1, count + 1):
        book.add(_game(book, discs, margin_discs, rng))
        yield done


def _game(book: Book, discs: int, margin_discs: float, rng: random.Random) -> list[Position]:
    # Positions as the book knows them: then what the judge says of one is not asked again when it is added.
    positions, answers = [_known(Position.start())], OpenBook(book.store)
    while not (position := positions[-1]).is_over and _discs(position) <= discs:
        found = answers.choose(position, margin_discs, rng)
        move = PASS if position.must_pass else book.judge(position).move if found is None else found.move
        positions.append(_known(position.play(move)))
    return [position for position in positions if _discs(position) <= discs]


def _known(position: Position) -> Position:
    return position_of(canonical(position)[0])


# --- the best move for every reply -----------------------------------------------------------------------------------


def add_replies(book: Book, discs: int) -> Iterator[int]:
    """The book of the tournament report: one side's best move, every move of the other, up to so many discs.

    For either side; yields how many positions are added so far.
    """
    added, before = 0, -1
    start, _ = canonical(Position.start())
    while added > before:  # what was added last may have changed what is best elsewhere
        before, replies = added, _Replies(book, discs)
        for walk in (replies.own(start), replies.other(start)):
            for new in walk:
                added += new
                yield added


class _Replies:
    def __init__(self, book: Book, discs: int):
        self.book, self.discs = book, discs
        self._seen: set[tuple[str, Key]] = set()

    def _is_new(self, side: str, key: Key) -> bool:
        if discs_of(key) > self.discs or (side, key) in self._seen:
            return False
        self._seen.add((side, key))
        return True

    def own(self, key: Key) -> Iterator[int]:
        """Where the side to move plays its best move. Another one may become the best: then it is looked at, too."""
        if self._is_new("own", key):
            yield self.book.add([position_of(key)])
            while (after := self.book.after_best(key)) is not None and ("other", after) not in self._seen:
                if discs_of(after) > self.discs:
                    return
                yield from self.other(after)

    def other(self, key: Key) -> Iterator[int]:
        """Where every move of the side to move is looked at, and first: then it needs no search of its own."""
        if self._is_new("other", key):
            for child in children(key).values():
                yield from self.own(child)
            yield self.book.add([position_of(key)])
