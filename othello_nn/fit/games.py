"""Games to take positions from: a random opening, then an engine's play with a random move now and then."""

from __future__ import annotations

import random
from collections.abc import Iterator

from othello_nn.engine.driver import Engine, Limit
from othello_nn.game.position import Position
from othello_nn.game.rules import PASS

OPENING_PLIES, DEPTH = 8, 2


def noisy_game(engine: Engine, rng: random.Random, noise: float) -> Iterator[Position]:
    """The positions of a game from the start to its end, each found when it is asked for; ``noise`` is a share."""
    position = Position.start()
    yield position
    while not position.is_over:
        if position.must_pass:
            move = PASS
        elif position.empties > 60 - OPENING_PLIES or rng.random() < noise:
            move = rng.choice(position.legal_moves)
        else:
            found = engine.search(position, Limit(depth=DEPTH)).move
            assert found is not None  # the game is not over
            move = found
        position = position.play(move)
        yield position
