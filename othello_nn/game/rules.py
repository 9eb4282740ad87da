"""The rules of Othello on bit masks, written to be checked by eye.

Read this first: everything else in the package rests on it, and the fast kernels are tested against it. A square is an
int 0..63, row by row from the top left (a1 = 0, b1 = 1, ..., h8 = 63); bit i of a mask is square i. There are no
colours here, only the side to move (`mover`) and the other side (`opponent`).

>>> legal_mask(START_MOVER, START_OPPONENT).bit_count()
4
>>> [perft(START_MOVER, START_OPPONENT, depth) for depth in range(1, 5)]
[4, 12, 56, 244]
"""

from othello_nn.game.move import Move

PASS = Move(-1)
"""The move of a side that has no legal square while the other side has one."""

FULL_MASK = (1 << 64) - 1
START_MOVER = 1 << 28 | 1 << 35
"""Black's discs at the start: e4 and d5."""
START_OPPONENT = 1 << 27 | 1 << 36
"""White's discs at the start: d4 and e5."""

DIRECTIONS = ((-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1))
"""(row step, column step) of the eight lines that meet in a square."""


def _ray(square: int, row_step: int, column_step: int) -> tuple[int, ...]:
    """The one-bit masks of the squares met when walking from `square` to the edge, nearest first."""
    row, column = divmod(square, 8)
    bits = []
    while 0 <= (row := row + row_step) < 8 and 0 <= (column := column + column_step) < 8:
        bits.append(1 << (8 * row + column))
    return tuple(bits)


# A ray of one square has no room for a flipped disc and the disc that outflanks it, so it is left out.
RAYS = tuple(tuple(ray for step in DIRECTIONS if len(ray := _ray(square, *step)) > 1) for square in range(64))
"""RAYS[square]: the lines along which a disc put on `square` can flip others."""

_FIRST_STEPS = tuple(sum(ray[0] for ray in rays) for rays in RAYS)
"""_FIRST_STEPS[square]: the neighbours of `square` that could be flipped by a move there."""


def squares_in(mask: int) -> list[int]:
    """The squares of a mask, ascending.

    >>> squares_in(0b1011)
    [0, 1, 3]
    """
    squares = []
    while mask:
        lowest = mask & -mask
        squares.append(lowest.bit_length() - 1)
        mask ^= lowest
    return squares


def flips_mask(mover: int, opponent: int, square: int) -> int:
    """The discs that turn over when the mover plays `square`; 0 means the move is not legal.

    Assumes that `square` is empty (it is not looked at) and that the two masks do not overlap.
    """
    flips = 0
    for ray in RAYS[square]:
        run = 0
        for bit in ray:
            if opponent & bit:
                run |= bit
            else:
                # The run ends here: one of the mover's discs outflanks it, an empty square (or the edge) does not.
                if mover & bit:
                    flips |= run
                break
    return flips


def legal_mask(mover: int, opponent: int) -> int:
    """The empty squares on which the mover flips at least one disc."""
    legal = 0
    for square in squares_in(~(mover | opponent) & FULL_MASK):
        if _FIRST_STEPS[square] & opponent and flips_mask(mover, opponent, square):
            legal |= 1 << square
    return legal


def play(mover: int, opponent: int, square: int) -> tuple[int, int]:
    """The masks after a legal move or PASS, already swapped: (new mover, new opponent). Legality is not checked."""
    if square == PASS:
        return opponent, mover
    flips = flips_mask(mover, opponent, square)
    return opponent ^ flips, mover | flips | 1 << square


def final_score(mover: int, opponent: int) -> int:
    """The mover's margin in discs when the game ends here. Empty squares go to the winner; a draw is 0."""
    margin = mover.bit_count() - opponent.bit_count()
    empties = 64 - mover.bit_count() - opponent.bit_count()
    if margin > 0:
        return margin + empties
    if margin < 0:
        return margin - empties
    return 0


def perft(mover: int, opponent: int, depth: int) -> int:
    """How many move sequences of `depth` plies there are.

    A pass is a ply. A game that ends earlier counts as one sequence, however many plies are left. This is the count
    that gives 24,571,284 at depth 10; without the 228 games that end in nine moves it would be 24,571,056.
    """
    if depth == 0:
        return 1
    legal = legal_mask(mover, opponent)
    if not legal:
        if not legal_mask(opponent, mover):
            return 1
        return perft(opponent, mover, depth - 1)
    return sum(perft(*play(mover, opponent, square), depth - 1) for square in squares_in(legal))


def solve(mover: int, opponent: int) -> int:
    """The final score for the mover with best play by both sides: negamax to the end, nothing pruned.

    The oracle for the endgame solver. Every move sequence is walked, so keep to ten empties or fewer.
    """
    legal = legal_mask(mover, opponent)
    if legal:
        return max(-solve(*play(mover, opponent, square)) for square in squares_in(legal))
    if legal_mask(opponent, mover):
        return -solve(opponent, mover)
    return final_score(mover, opponent)


def _image(square: int, k: int) -> int:
    row, column = divmod(square, 8)
    if k & 1:
        column = 7 - column
    if k & 2:
        row = 7 - row
    if k & 4:
        row, column = column, row
    return 8 * row + column


SYMMETRIES = tuple(tuple(_image(square, k) for square in range(64)) for k in range(8))
"""SYMMETRIES[k][square]: where `square` goes under symmetry k. The bits of k are three steps, done in this order:
1 mirrors the columns (a and h change places), 2 mirrors the rows (1 and 8), 4 swaps columns and rows.

k  what it is                                 a1 goes to
0  identity                                   a1
1  mirror, left and right                     h1
2  mirror, top and bottom                     a8
3  half turn                                  h8
4  reflection in the diagonal a1-h8           a1
5  quarter turn anticlockwise                 a8
6  quarter turn clockwise                     h1
7  reflection in the diagonal h1-a8           h8
"""


def inverse_symmetry(k: int) -> int:
    """The symmetry that undoes symmetry k. Only the two quarter turns are not their own inverse."""
    return {5: 6, 6: 5}.get(k, k)


def transform_square(square: int, k: int) -> int:
    """Where a square goes under symmetry k; PASS stays PASS."""
    return PASS if square == PASS else SYMMETRIES[k][square]


def transform_mask(mask: int, k: int) -> int:
    """The image of a mask under symmetry k."""
    images = SYMMETRIES[k]
    return sum(1 << images[square] for square in squares_in(mask))
