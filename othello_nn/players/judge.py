"""A player as the judge of an opening book, and a game put into the book that the player uses."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from othello_nn.book import Book, Judgement
from othello_nn.book.grow import add_game
from othello_nn.game.position import Position
from othello_nn.game.record import Game
from othello_nn.players.base import Choice, Player, PlayerError, PlayerStopped
from othello_nn.resources import BOOK, find_book


@contextmanager
def one_ply_less(player: Any) -> Iterator[None]:
    """Let a player that searches to a depth look one ply less far: to as far from the position one move before."""
    limit = getattr(player, "limit", None)
    if limit is not None and limit.depth is not None and limit.depth > 1:
        player.limit = replace(limit, depth=limit.depth - 1)
    try:
        yield
    finally:
        if limit is not None:
            player.limit = limit


@contextmanager
def _without_book(player: Any) -> Iterator[None]:
    """Let a player think for itself."""
    book = getattr(player, "book", None)
    if book is not None:
        player.book = None
    try:
        yield
    finally:
        if book is not None:
            player.book = book


class PlayerJudge:
    """Judges positions by what a player says of them. Some moves only are judged by the positions after them."""

    def __init__(self, player: Player, stopped: Callable[[], bool] = lambda: False):
        """``stopped`` says whether the player was told to hurry: what it finds then is not worth keeping."""
        self.player, self.stopped = player, stopped

    def __call__(self, position: Position, moves: Sequence[int] | None = None) -> Judgement:
        with _without_book(self.player):
            if moves is None:
                choice = self.player.choose(position)
                assert choice.move is not None
                return Judgement(choice.move, self._score(choice), choice.depth)
            with one_ply_less(self.player):
                found = {move: self.player.choose(position.play(move)) for move in moves}
        values = {move: 0.0 - self._score(choice) for move, choice in found.items()}
        best = max(values, key=lambda move: values[move])
        return Judgement(best, values[best], found[best].depth + 1)

    def _score(self, choice: Choice) -> float:
        if self.stopped():
            raise PlayerStopped("stopped before the position was judged")
        if choice.score is None:
            raise PlayerError(f"{self.player.name} does not say what positions are worth: it cannot judge for a book")
        return choice.score


def learn_game(player: Any, name: str, game: Game, stopped: Callable[[], bool]) -> None:
    """Put a game into the book that a player was told to use; the book of the program is copied first."""
    path = find_book(name)
    if name == "on" and path != Path(BOOK):
        shutil.copyfile(path, BOOK)
        path = Path(BOOK)
    with Book(path, PlayerJudge(player, stopped)) as book:
        add_game(book, game)
    player.open_book()
