"""IAGO's evaluation: each term against a slow reading of the paper, what the paper says of it, and how it plays."""

import random
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from strategies import positions, quick, scattered, symmetry_numbers

from othello_nn.arena.match import play_match
from othello_nn.arena.openings import random_openings
from othello_nn.engine.leaf.door import score_all
from othello_nn.engine.score import LEAF_LIMIT
from othello_nn.fit import iago as fit_iago
from othello_nn.game import Position
from othello_nn.game.rules import FULL_MASK, flips_mask, legal_mask, squares_in, transform_mask
from othello_nn.game.syntax import parse_square
from othello_nn.players import make_player
from othello_nn.players.classic import iago, iago_edges
from othello_nn.players.classic.iago import compared, iago_evaluator
from othello_nn.players.classic.iago_edges import CHANCES, ITERATIONS, edge_values, inverse_edges

# --- a slow IAGO: edges are strings of X (own), O (other) and . ------------------------------------------------------

EDGE_WEIGHTS = {"stable": (700, 1200, 1000, 1000), "semi": (None, 200, 200, 200), "unstable": (None, -25, 75, 50)}
CORNERS = {0: (9, 1, 8), 7: (14, -1, 8), 56: (49, 1, -8), 63: (54, -1, -8)}
"""Corner: its x-square, and the steps to the next square along its rank and along its file."""


def number(edge: str) -> int:
    return sum(".XO".index(sign) * 3**i for i, sign in enumerate(edge))


def edge_of(index: int) -> str:
    return "".join(".XO"[index // 3**i % 3] for i in range(8))


ALL_EDGES = [edge_of(index) for index in range(3**8)]


def inverse(edge: str) -> str:
    return edge.translate(str.maketrans("XO", "OX"))


@cache
def put(edge: str, square: int, sign: str) -> str:
    """The edge after a disc on an empty square, with what it turns."""
    signs = list(edge)
    signs[square] = sign
    for step in (-1, 1):
        run, there = [], square + step
        while 0 <= there < 8 and edge[there] == inverse(sign):
            run.append(there)
            there += step
        if 0 <= there < 8 and edge[there] == sign:
            for turned in run:
                signs[turned] = sign
    return "".join(signs)


def empty_squares(edge: str) -> list[int]:
    return [square for square in range(8) if edge[square] == "."]


@cache
def turnable(edge: str) -> frozenset[int]:
    """The discs that some sequence of discs on the edge turns."""
    found: set[int] = set()
    for square in empty_squares(edge):
        for sign in "XO":
            after = put(edge, square, sign)
            found |= {i for i in range(8) if edge[i] != "." and after[i] != edge[i]}
            found |= {i for i in turnable(after) if edge[i] != "."}
    return frozenset(found)


def safety(edge: str, square: int) -> str:
    if square not in turnable(edge):
        return "stable"
    enemy = inverse(edge[square])
    exposed = any(put(edge, empty, enemy)[square] == enemy for empty in empty_squares(edge))
    return "unstable" if exposed else "semi"


def static_value(edge: str) -> float:
    total = 0
    for square, sign in enumerate(edge):
        if sign != ".":
            weight = EDGE_WEIGHTS[safety(edge, square)][min(square, 7 - square)]
            total += weight if sign == "X" else -weight
    return total


def chance(edge: str, square: int) -> float:
    if put(edge, square, "X").count("X") > edge.count("X") + 1:
        return 1.0
    if square in (0, 7):
        return 0.0
    beside = edge[square - 1] + edge[square + 1]
    return CHANCES[beside.count("X")][beside.count("O")]


@cache
def slow_edge_table() -> dict[str, float]:
    values = {edge: static_value(edge) for edge in ALL_EDGES}
    for _ in range(5):
        before = dict(values)
        for edge in sorted(ALL_EDGES, key=lambda edge: edge.count(".")):
            alternatives = [(-before[inverse(edge)], 1.0)]
            for square in empty_squares(edge):
                alternatives.append((-values[inverse(put(edge, square, "X"))], chance(edge, square)))
            expected, left = 0.0, 1.0
            for value, probability in sorted(alternatives, reverse=True):
                expected += left * probability * value
                left *= 1 - probability
            values[edge] = expected
    return values


def slow_corner(mover: int, opponent: int, corner: int, move: int) -> float:
    """The two edges that meet in a corner, and what a disc on the x-square between them costs."""
    x_square, *steps = CORNERS[corner]

    def sign(square: int) -> str:
        return "X" if mover >> square & 1 else "O" if opponent >> square & 1 else "."

    def worth(edge: str, mover_is_first: bool) -> float:
        # The table as the program keeps it, in whole numbers.
        return round(slow_edge_table()[edge]) if mover_is_first else -round(slow_edge_table()[inverse(edge)])

    def pair(first: str, second: str, mover_chooses: bool) -> float:
        options = [worth(first, True) + worth(second, False), worth(first, False) + worth(second, True)]
        return max(options) if mover_chooses else min(options)

    edges = ["".join(sign(corner + i * step) for i in range(8)) for step in steps]  # both from the corner on
    existing = pair(*edges, mover_chooses=True)
    owner = sign(x_square)
    if owner == "." or sign(corner) != ".":
        return existing
    taker = inverse(owner)
    new = pair(*(put(edge, 0, taker) for edge in edges), mover_chooses=owner == "X")
    if (new >= existing) if owner == "X" else (new <= existing):
        return existing
    turned = flips_mask(opponent, mover, corner) if owner == "X" else flips_mask(mover, opponent, corner)
    probability = 1 if turned >> x_square & 1 else 1 - move / 120
    return existing + 2 * probability * (new - existing)


def beside(square: int) -> list[int]:
    row, column = divmod(square, 8)
    around = [(row + i, column + j) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j]
    return [8 * r + c for r, c in around if 0 <= r < 8 and 0 <= c < 8]


def slow_stable(discs: int) -> set[int]:
    """The algorithm of section 4.4.1.2 for one side, step by step."""
    stable = {corner for corner in CORNERS if discs >> corner & 1}
    unprocessed = set(stable)

    def holds(square: int) -> bool:
        row, column = divmod(square, 8)
        for i, j in ((0, 1), (1, 0), (1, 1), (1, -1)):
            ends = [(row + i, column + j), (row - i, column - j)]
            if not any(not (0 <= r < 8 and 0 <= c < 8) or 8 * r + c in stable for r, c in ends):
                return False
        return True

    while unprocessed:
        for square in beside(unprocessed.pop()):
            if discs >> square & 1 and square not in stable and holds(square):
                stable.add(square)
                unprocessed.add(square)
    return stable


def inner(squares) -> int:
    return sum(0 < square // 8 < 7 and 0 < square % 8 < 7 for square in squares)


def slow_compared(own: int, other: int) -> int:
    size = 1000 * abs(own - other) // (own + other + 2)
    return size if own >= other else -size


def slow_current(mover: int, opponent: int) -> int:
    mine, theirs = legal_mask(mover, opponent), legal_mask(opponent, mover)
    shared = (mine & theirs).bit_count()
    return slow_compared(2 * (mine & ~theirs).bit_count() + shared, 2 * (theirs & ~mine).bit_count() + shared)


def slow_measures(mover: int, opponent: int) -> list[int]:
    empty = set(squares_in(~(mover | opponent) & FULL_MASK))

    def measures(discs: int) -> tuple[int, int, int]:
        contacts = [(disc, square) for disc in squares_in(discs) for square in beside(disc) if square in empty]
        return len({disc for disc, _ in contacts}), len({square for _, square in contacts}), len(contacts)

    return [slow_compared(own, other) for own, other in zip(measures(opponent), measures(mover), strict=True)]


def slow_value(mover: int, opponent: int) -> float:
    """The paper's sum, with its components in ±1000."""
    move = (mover | opponent).bit_count() - 4
    edge_stability = sum(slow_corner(mover, opponent, corner, move) for corner in CORNERS) / 62.4
    internal = 1000 * (inner(slow_stable(mover)) - inner(slow_stable(opponent))) / 36
    potential = sum(slow_measures(mover, opponent)) / 3
    coefficient = 50 + 2 * move if move <= 25 else 75 + move
    return (
        (312 + 6.24 * move) * edge_stability
        + 36 * internal
        + coefficient * slow_current(mover, opponent)
        + 99 * potential
    )


def words(pairs) -> tuple[np.ndarray, np.ndarray]:
    return tuple(np.array(side, np.uint64) for side in zip(*pairs, strict=True))


def values(pairs) -> np.ndarray:
    return iago_evaluator().values(*words(pairs))


def scores(pairs) -> np.ndarray:
    movers, opponents = words(pairs)
    found = np.empty(len(movers), np.int64)
    score_all(iago_evaluator().leaf, 0, movers, opponents, found)
    return found


def corner_sum(position: Position) -> float:
    move = 60 - position.empties
    return iago.corner_sum(
        iago_evaluator().leaf, np.uint64(position.mover), np.uint64(position.opponent), np.int64(move)
    )


def board(discs: dict[str, str], side: str = "X") -> Position:
    """A board from what stands on it: `{"X": "a1 b1", "O": "c1"}`."""
    masks = [sum(1 << parse_square(name) for name in discs.get(sign, "").split()) for sign in "XO"]
    return Position.from_discs(*masks, black_to_move=side == "X")


# --- the kernels are the paper ---------------------------------------------------------------------------------------


def test_the_edge_table_is_the_slow_one():
    table = slow_edge_table()
    assert edge_values().tolist() == pytest.approx([table[edge] for edge in ALL_EDGES], abs=0.5 + 1e-6)
    assert ITERATIONS == 5


@quick
@given(positions())
def test_every_term_is_the_slow_one(position):
    mover, opponent = position.mover, position.opponent
    move = 60 - position.empties
    words = np.uint64(mover), np.uint64(opponent)
    assert corner_sum(position) == pytest.approx(sum(slow_corner(mover, opponent, c, move) for c in CORNERS), abs=1e-6)
    assert iago.internal_stability(*words) == inner(slow_stable(mover)) - inner(slow_stable(opponent))
    assert iago.current_mobility(*words) == slow_current(mover, opponent)
    assert iago.potential_mobility(*words) == sum(slow_measures(mover, opponent))
    assert values([(mover, opponent)])[0] == pytest.approx(slow_value(mover, opponent), rel=1e-9, abs=1e-6)


def test_full_of_corners_and_x_squares():
    """Boards that games seldom reach: many corners, x-squares beside empty corners, one side nearly gone."""
    pairs = scattered(5, 120, 1, 40)
    assert values(pairs) == pytest.approx(np.array([slow_value(*pair) for pair in pairs]), rel=1e-9, abs=1e-6)


# --- what the paper says ---------------------------------------------------------------------------------------------


def test_the_coefficients():
    assert [iago.mobility_coefficient(move) for move in (1, 24, 25, 26, 60)] == [52, 98, 100, 101, 135]
    # The paper's coefficients come from components in ±1000, and these are the largest there are.
    full = Position.from_discs(FULL_MASK, 0)
    assert corner_sum(full) == 62.4 * 1000 == 8 * iago_edges.LARGEST
    assert iago.internal_stability(np.uint64(FULL_MASK), np.uint64(0)) * iago.INTERNAL == 36 * 1000
    assert 3 * iago.POTENTIAL == 99
    assert values([(FULL_MASK, 0)])[0] == pytest.approx((312 + 6.24 * 60) * 1000 + 36 * 1000)


def test_the_comparison_of_two_counts():
    assert compared(4, 1) > compared(15, 11) > 0  # the paper's example
    assert (compared(4, 1), compared(15, 11)) == (428, 142)
    for own in range(70):
        assert compared(own, own) == 0
        assert 0 <= compared(own, 0) < 1000
        for other in range(70):
            assert compared(own, other) == -compared(other, own) == slow_compared(own, other)


@pytest.mark.parametrize(
    ("edge", "stable"),
    [
        ("OOO.....", "012"),  # beside a stable disc of its own colour
        ("XOOXXOXO", "01234567"),  # no empty square left
        ("XOO.X..O", "07"),
        ("XX.XOOXX", "014567"),  # the only empty square is needed to turn the disc beside it (figure 3-8a)
        ("X..XOOXX", "067"),
        (".XXXXXX.", ""),
    ],
)
def test_stable_formations_on_an_edge(edge, stable):
    found = iago_edges.stable_on_edge()[number(edge)]
    assert "".join(map(str, np.flatnonzero(found))) == stable


def test_the_side_to_move_can_turn_an_edge_round():
    """Footnote 14 and figure 3-3b: with c8 next, either side makes seven squares of the bottom edge its own."""
    seven = 700 + 1200 + 4 * 1000 + 1200
    mine, theirs = int(edge_values()[number("XO.XXXX.")]), -int(edge_values()[number("OX.OOOO.")])
    assert mine == seven
    # If they get c8, h8 follows: they hold seven then, with the corner at the other end not theirs.
    after_c8 = edge_values()[number("XOOXXXX.")]
    assert after_c8 == -(seven - 700)
    assert after_c8 < theirs < 0 < mine  # it turns nothing along the edge, so they cannot be sure of it


def test_what_makes_an_edge_good():
    worth = {edge: int(edge_values()[number(edge)]) for edge in ALL_EDGES}
    assert worth["XX......"] > worth["X......."] > worth["..X....."] > worth[".X......"]
    assert worth[".OX....."] > worth["..X....."] + 3000  # a corner that can be taken at once
    assert worth["XXXXXXXX"] == max(worth.values()) == 7800 == -min(worth.values())
    assert all(worth[edge] == worth[edge[::-1]] for edge in ALL_EDGES)
    # Nobody has to play on the edge: to move is at least as good as to have left it alone the time before.
    assert (edge_values(5).astype(int) + edge_values(4)[inverse_edges()] >= -1).all()


def test_an_x_square_costs_the_corner_unless_the_corner_is_taken():
    plain = {"X": "d4 e5", "O": "e4 d5"}
    empty, x_square = (corner_sum(board({**plain, "X": plain["X"] + extra})) for extra in ("", " b2"))
    assert x_square < empty == 0
    taken, both = (corner_sum(board({**plain, "X": plain["X"] + extra})) for extra in (" a1", " a1 b2"))
    assert 0 < taken == both


def test_an_x_square_on_an_open_diagonal_costs_the_whole_corner():
    """p = 1 if the corner can be taken through the x-square, 1 - move/120 if not: the edges are empty in both."""
    closed = board({"X": "b2 c3 e4", "O": "e5 d5"})  # d4 is empty
    open_diagonal = board({"X": "b2 c3", "O": "d4 d5 e4"})
    move = 60 - closed.empties
    assert open_diagonal.empties == closed.empties
    assert corner_sum(closed) == pytest.approx((1 - move / 120) * corner_sum(open_diagonal))
    assert corner_sum(open_diagonal) < 0


def test_internal_stability_of_figure_4_6():
    """b7, c7, f7 and g7 are found from the bottom edge; d7 and e7 cannot be turned either, but are the other side's."""
    bottom = " ".join(f"{column}8" for column in "abcdefgh")
    position = board({"X": f"{bottom} a7 b7 c7 f7 g7 h7", "O": "d7 e7"})
    assert iago.internal_stability(np.uint64(position.black), np.uint64(position.white)) == 4
    assert iago.internal_stability(np.uint64(position.white), np.uint64(position.black)) == -4


@quick
@given(positions(), symmetry_numbers)
def test_symmetric_positions_are_worth_the_same(position, symmetry):
    pair = position.mover, position.opponent
    image = tuple(transform_mask(mask, symmetry) for mask in pair)
    first, second = values([pair, image])
    assert first == pytest.approx(second, rel=1e-12, abs=1e-6)
    assert len(set(scores([pair, image]))) == 1


@quick
@given(positions())
def test_what_is_good_for_one_side_is_bad_for_the_other(position):
    """The turn matters on the edges only."""
    both = np.uint64(position.mover), np.uint64(position.opponent)
    for term in (iago.internal_stability, iago.current_mobility, iago.potential_mobility):
        assert term(*both) == -term(*both[::-1])


def test_the_start_is_even():
    assert values([(Position.start().mover, Position.start().opponent)])[0] == 0


def test_scores_keep_the_order_and_are_never_flat():
    pairs = [*scattered(6, 400, 0, 50), (FULL_MASK, 0), (FULL_MASK ^ 1 << 27, 1 << 27), (0, FULL_MASK)]
    found, units = scores(pairs), values(pairs)
    order = np.argsort(units, kind="stable")
    assert (np.diff(found[order]) >= 0).all()
    assert np.abs(found).max() < LEAF_LIMIT
    assert found[-3] > found[-2] > 0
    apart = np.diff(units[order]) > 2000
    assert apart.sum() > 100
    assert (np.diff(found[order])[apart] > 0).all()
    assert np.array_equal(np.sign(found), np.sign(np.where(np.abs(units) < 40, 0, units)))


# --- the player ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rival", ["most-discs:depth=2", "swh:depth=2"])
def test_it_beats_the_simple_strategies_at_equal_depth(rival):
    result = play_match("iago:depth=2", rival, random_openings(7, 12, seed=1), 24)
    assert result.games == 24
    assert result.score >= 0.8


def test_the_fit_finds_the_scale_that_made_the_results():
    rng = np.random.default_rng(3)
    units = rng.normal(0, 2e5, 2000)
    results = 62 * units / (np.abs(units) + 3e5)
    scale, error = fit_iago.fit_scale(units, results)
    assert scale == pytest.approx(3e5, rel=0.01)
    assert error < 0.2


def test_the_fit_counts_edge_squares_by_their_neighbours():
    # Black plays a3 over b3: no neighbours. d1 has an own one on the left, and e1 would turn nothing.
    position = board({"X": "c3 c1", "O": "b3 h4"})
    counts = fit_iago.count_chances([position])
    assert counts[:, :, 0].sum() == 24 - 2  # six squares an edge, less c1 and h4
    assert counts[1, 0].tolist() == [2, 0]
    assert counts[0, 1].tolist() == [2, 0]
    assert counts[0, 0].tolist() == [18, 1]


def test_the_fit_is_a_command(capsys):
    assert fit_iago.main(["--games", "2"]) == 0
    out = capsys.readouterr().out
    assert "0 own and 0 other neighbours: 0." in out
    assert "scale " in out


def test_the_player_is_in_the_catalog():
    player = make_player("iago", random.Random(0))
    assert player.engine.evaluator is iago_evaluator()
    assert player.limit.seconds == 0.1
    assert make_player("iago:depth=3").choose(Position.start()).depth == 3
