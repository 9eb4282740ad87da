"""Move: an int that shows itself as a square.

To the rules, to arrays and to files a move is a number: 0 (a1) to 63 (h8), or -1 for a pass. People read names, so the
moves that the package answers with print as such, and remain numbers in everything else. There are 65 of them, made
once: `Move(37)` costs no memory. (As a constant inside a Numba kernel it has to be `int(move)`: LLVM would be handed
the name.)

>>> Move("f5"), Move(37), Move("pass")
(f5, f5, pass)
>>> Move("F5") == 37, 1 << Move("c1"), f"{Move('f5'):>4}"
(True, 4, '  f5')
>>> Move("z9")
Traceback (most recent call last):
othello_nn.errors.InvalidMoveError: 'z9' is not a square: give a column a-h and a row 1-8, such as f5
"""

import operator

from othello_nn.errors import InvalidMoveError, shorten

SQUARE_NAMES = tuple(f"{column}{row}" for row in range(1, 9) for column in "abcdefgh")
PASS_NAMES = frozenset({"--", "pa", "ps", "pass"})

# A pass is -1, and that is also its place in these: the last one.
_NAMES = (*SQUARE_NAMES, "pass")
_NUMBERS = {name: square for square, name in enumerate(SQUARE_NAMES)} | dict.fromkeys(PASS_NAMES, -1)


class Move(int):
    """A square or a pass. `Move("f5")`, `Move(37)`: equal to the number, hashed like it, shown by its name."""

    __slots__ = ()

    def __new__(cls, move: str | int) -> "Move":
        """A move by name or number; what is neither is an `InvalidMoveError`."""
        if isinstance(move, str):
            return cls.parse(move)
        try:
            number = operator.index(move)  # other integer types, such as numpy's
        except TypeError:
            number = 64
        if isinstance(move, bool) or not -1 <= number <= 63:
            raise InvalidMoveError(f"{shorten(move)} is not a move: give a name ('f5', 'pass'), 0..63 or PASS (-1)")
        return MOVES[number]

    @classmethod
    def parse(cls, text: str) -> "Move":
        """The move with this name, in either case."""
        name = text.strip().lower()
        number = _NUMBERS.get(name)
        if number is None:
            raise InvalidMoveError(f"{shorten(name)} is not a square: give a column a-h and a row 1-8, such as f5")
        return MOVES[number]

    def __repr__(self) -> str:
        return _NAMES[self]

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(_NAMES[self], spec)


MOVES = tuple(int.__new__(Move, number) for number in (*range(64), -1))
"""MOVES[square] for a square, MOVES[-1] for a pass."""
_IN_ROW = tuple(
    tuple(tuple(MOVES[8 * row + column] for column in range(8) if mask >> column & 1) for mask in range(256))
    for row in range(8)
)
"""_IN_ROW[row][mask]: the squares of one row of a board, for each of its 256 masks."""


def moves_in(mask: int) -> tuple[Move, ...]:
    """The squares of a mask as moves, ascending.

    >>> moves_in(0b1011)
    (a1, b1, d1)
    """
    one, two, three, four, five, six, seven, eight = mask.to_bytes(8, "little")
    in_one, in_two, in_three, in_four, in_five, in_six, in_seven, in_eight = _IN_ROW
    return (
        in_one[one] + in_two[two] + in_three[three] + in_four[four]
        + in_five[five] + in_six[six] + in_seven[seven] + in_eight[eight]
    )  # fmt: skip
