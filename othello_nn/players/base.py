"""What a player is: asked for a move, it answers with a ``Choice``."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Protocol

from othello_nn.errors import OthelloError, cut
from othello_nn.game.position import Position
from othello_nn.game.rules import PASS

MESSAGE_CHARACTERS, LOG_CHARACTERS = 500, 20_000
"""What is kept of a failure's message and of its log, however long the story is."""


class PlayerError(OthelloError):
    """A player that cannot be made from what was written; the message says why and what could be written instead."""


class PlayerFailure(OthelloError):
    """A player that cannot go on with its game: it has crashed, hangs, or answers with what is no move.

    The message is one line; ``log`` holds what was last said to and by it, for whoever has to find out why.
    """

    def __init__(self, message: str, log: str = "", *, timed_out: bool = False):
        super().__init__(cut(message, MESSAGE_CHARACTERS))
        self.log, self.timed_out = log[-LOG_CHARACTERS:], timed_out


class PlayerStopped(PlayerFailure):
    """A player that was told to stop, and has no move because of it: nothing that it could lose a game for."""


@dataclass(frozen=True)
class Line:
    """How a position came about. Programs behind a protocol want to be told the moves, not the position."""

    start: Position
    moves: tuple[int, ...]
    """Squares and PASS: every pass is there."""


@dataclass(frozen=True)
class Choice:
    """A move and what the player thinks of it. ``move`` is None only if the game is over.

    The players of this package answer with a ``Move``, which prints as its square; any int will do.
    """

    move: int | None
    score: float | None = None
    """In discs for the side to move; None if the player does not judge positions."""
    exact: bool = False
    """The score is the result of the game with best play."""
    depth: int = 0
    pv: tuple[int, ...] = ()
    nodes: int = 0
    seconds: float = 0.0
    raw_score: float | None = None
    """The score before calibration, to be compared with those of other depths; None if it is the same."""


class Player(Protocol):
    """What the arena needs. A player serves one game at a time; make one for each thread."""

    name: str
    varies: bool
    """Chance has a part in its moves: from the same opening it can play more than one game."""

    def choose(self, position: Position, remaining: float | None = None, line: Line | None = None) -> Choice:
        """A legal move, or a ``PlayerFailure``.

        ``remaining`` is what the player's clock shows in seconds, None if there is no clock. ``line`` leads to
        ``position``, where it is known.
        """
        ...

    def new_game(self, rng: random.Random | None = None) -> None:
        """Forget the game before, and from now on draw chance from ``rng`` if one is given."""
        ...

    def warm_up(self) -> None:
        """Do now what would slow down the first move: have the search compiled before a clock runs."""
        ...

    def stop(self) -> None:
        """Hurry: end the running ``choose`` early. May be called from any thread."""
        ...

    def close(self) -> None:
        """Let go of what outlives a game, such as the process of another program. The player plays no more."""
        ...


class BasePlayer:
    """The parts that all players of this package share: a name, chance, and random moves with probability epsilon."""

    def __init__(self, name: str, rng: random.Random, epsilon: float = 0.0, varies: bool = False):
        self.name, self.rng, self.epsilon = name, rng, epsilon
        self.varies = varies or epsilon > 0

    def choose(self, position: Position, remaining: float | None = None, line: Line | None = None) -> Choice:
        if self.epsilon and (legal := position.legal_moves) and self.rng.random() < self.epsilon:
            return Choice(self.rng.choice(legal))
        return self.pick(position, remaining)

    def pick(self, position: Position, remaining: float | None) -> Choice:
        raise NotImplementedError

    def new_game(self, rng: random.Random | None = None) -> None:
        if rng is not None:
            self.rng = rng

    def warm_up(self) -> None:
        """Nothing to compile in a player that does not search."""

    def stop(self) -> None:
        """Nothing to end in a player that does not search."""

    def close(self) -> None:
        """Nothing to let go of: memory is Python's."""


def forced_choice(position: Position) -> Choice | None:
    """The choice where there is none: the game is over, or the side to move must pass."""
    if position.legal_mask:
        return None
    if position.is_over:
        return Choice(None, float(position.final_score()), exact=True)
    return Choice(PASS, pv=(PASS,))
