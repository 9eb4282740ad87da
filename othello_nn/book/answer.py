"""What the book tells a player: a move, with variety if that is wanted."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from othello_nn.book.canonical import canonical, children
from othello_nn.book.store import BookError, Store
from othello_nn.game.move import Move
from othello_nn.game.position import Position
from othello_nn.game.rules import inverse_symmetry, transform_square


@dataclass(frozen=True)
class BookMove:
    """A move and what it is worth to the side to move, in discs."""

    move: Move
    value: float
    depth: int
    """Of the search behind it, if the move leads out of the book; 0 if the book goes on."""


class OpenBook:
    """A book that is read."""

    def __init__(self, source: str | Path | Store):
        self.store = source if isinstance(source, Store) else Store(source)

    def close(self) -> None:
        self.store.close()

    def __len__(self) -> int:
        return len(self.store)

    def moves(self, position: Position) -> list[BookMove]:
        """The moves whose value the book knows, the best first; none if it does not know the position."""
        key, k = canonical(position)
        node = self.store.get(key)
        if node is None:
            return []
        back = inverse_symmetry(k)
        found = []
        for move, child in children(key).items():
            after = self.store.get(child)
            if after is not None:
                found.append(BookMove(Move(transform_square(move, back)), 0.0 - after.value, 0))
            elif move == node.rest and node.bound is not None:
                found.append(BookMove(Move(transform_square(move, back)), node.bound, node.depth))
        return sorted(found, key=lambda one: (-one.value, one.move))

    def best(self, position: Position) -> BookMove | None:
        """The best move: one probe."""
        key, k = canonical(position)
        node = self.store.get(key)
        if node is None or node.best is None:
            return None
        move = Move(transform_square(node.best, inverse_symmetry(k)))
        if move not in position.legal_moves:
            if position.must_pass:
                return None
            raise BookError(f"{str(self.store.path)!r} is damaged: {move} is not legal where it is the best move")
        return BookMove(move, node.value, node.depth if node.best == node.rest else 0)

    def choose(self, position: Position, margin_discs: float, rng: random.Random) -> BookMove | None:
        """One of the moves that are worth at most ``margin_discs`` less than the best; None if there is no such."""
        if margin_discs <= 0:
            return self.best(position)
        known = self.moves(position)
        good = [one for one in known if one.value >= known[0].value - margin_discs]
        return rng.choice(good) if good and position.legal_mask else None

    def line(self, position: Position) -> tuple[Move, ...]:
        """Best play as far as the book goes."""
        moves: list[Move] = []
        while not position.is_over:
            if position.must_pass:
                move = Move("pass")
            elif (found := self.best(position)) is not None:
                move = found.move
            else:
                break
            moves.append(move)
            position = position.play(move)
        while moves and moves[-1] == Move("pass"):
            moves.pop()
        return tuple(moves)
