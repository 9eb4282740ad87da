"""Positions to measure with: a random opening, then depth-2 play by an evaluator that needs no file.

    python benchmarks/midgames.py            writes benchmarks/positions/midgame.obf and stages.obf again

The files are kept in the repository, so that figures stay comparable when the search or its default evaluator changes.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.harness import POSITIONS
from othello_nn.engine import Engine, Limit, Options
from othello_nn.engine.leaf.mobility import Mobility
from othello_nn.game import PASS, Position

OPENING_PLIES = 8
PLAY_DEPTH = 2
SEED = 1996
MIDGAME_EMPTIES = tuple(range(26, 46))  # twenty positions, as many as KEYANO was measured with
# IAGO's six: two each from moves 1–15, 16–30 and 31–45.
STAGES_EMPTIES = (52, 48, 42, 36, 26, 20)


def after_best(engine: Engine, position: Position, depth: int) -> Position:
    """The position after the engine's choice; there must be a legal move."""
    move = engine.search(position, Limit(depth=depth)).move
    assert move is not None
    return position.play(move)


def played_position(engine: Engine, rng: random.Random, empties: int) -> Position:
    """A position with so many empties and at least two legal moves, from a game of its own."""
    while True:
        position = Position.start()
        while position.empties > empties and not position.is_over:
            if position.must_pass:
                position = position.play(PASS)
            elif 60 - position.empties < OPENING_PLIES:
                position = position.play(rng.choice(position.legal_moves))
            else:
                position = after_best(engine, position, PLAY_DEPTH)
        if len(position.legal_moves) >= 2:
            return position


def played_positions(empties: Iterable[int], seed: int = SEED) -> list[Position]:
    """One position for each number of empties; the same seed gives the same positions."""
    engine, rng = Engine(Mobility(), Options(table_mb=1)), random.Random(seed)
    positions = []
    for count in empties:
        positions.append(played_position(engine, rng, count))
        engine.clear()
    return positions


def main() -> int:
    for name, empties in (("midgame.obf", MIDGAME_EMPTIES), ("stages.obf", STAGES_EMPTIES)):
        how = f"{OPENING_PLIES} random plies, then depth {PLAY_DEPTH} by Mobility(), seed {SEED}"
        lines = [
            f"% {how}: python benchmarks/midgames.py",
            *(f"{position.to_text()};" for position in played_positions(empties)),
        ]
        (POSITIONS / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
