"""The opponent that knows mobility and stability: what it counts, and that it plays."""

import pytest
from strategies import endings
from test_kernels import stable_by_definition

from othello_nn.arena.match import play_match
from othello_nn.arena.openings import random_openings
from othello_nn.engine import Limit
from othello_nn.engine.leaf.mobility import Mobility
from othello_nn.game import Position, rules
from othello_nn.players import make_player, player_names
from othello_nn.players.classic.wystan import WYSTAN

CORNERS = (0, 7, 56, 63)


def potential(mover: int, opponent: int) -> int:
    """Empty squares beside an opposing disc."""
    taken, found = mover | opponent, 0
    for square in rules.squares_in(~taken & 2**64 - 1):
        rank, file = divmod(square, 8)
        around = [(rank + i, file + j) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j]
        found += any(0 <= r < 8 and 0 <= f < 8 and opponent >> (8 * r + f) & 1 for r, f in around)
    return found


def value(mover: int, opponent: int) -> float:
    """In discs, from the reasons that the module gives for its weights."""
    total = 0.0
    for sign, own, other in ((1, mover, opponent), (-1, opponent, mover)):
        total += sign * rules.legal_mask(own, other).bit_count()
        total += sign * potential(own, other) / 2
        total += sign * sum(6 for corner in CORNERS if own >> corner & 1)
        if (own | other) & sum(1 << corner for corner in CORNERS):
            total += sign * 2 * stable_by_definition(own, other).bit_count()
    return min(max(total, -62.0), 62.0)


def test_it_counts_what_it_says():
    player = make_player("wystan:depth=1")
    checked = 0
    for mover, opponent in endings(11, 6, 12, 56)[::9]:
        position = Position(mover, opponent)
        after = [position.play(move) for move in position.legal_moves]
        if after and all(next_one.opponent and next_one.legal_mask for next_one in after):
            best = -min(value(next_one.mover, next_one.opponent) for next_one in after)
            assert player.choose(position).score == pytest.approx(best, abs=1e-9)
            checked += 1
    assert checked > 15


def test_it_shares_the_compiled_search_of_mobility():
    assert type(WYSTAN) is Mobility
    assert Mobility() != WYSTAN
    assert make_player("wystan:depth=2").engine.evaluator is WYSTAN
    assert make_player("wystan", seconds=0.02).limit == Limit(seconds=0.02)
    assert player_names()["wystan"].default == "seconds=0.1"


def test_it_knows_more_than_square_weights():
    result = play_match("wystan:depth=2", "swh:depth=2", random_openings(7, 10, seed=1), 20)
    assert result.score > 0.65
