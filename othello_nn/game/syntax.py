"""What the characters mean: names of squares and moves, the signs of a board, the tokens of a transcript.

Nothing here knows the rules; `position.py` and `notation.py` build on it. Reading is generous (case and spaces do not
matter), and what cannot be read is an error that says where.
"""

import re

from othello_nn.errors import InvalidMoveError, InvalidPositionError, shorten
from othello_nn.game.move import MOVES, SQUARE_NAMES, Move
from othello_nn.game.rules import PASS

_SQUARES = {name: square for square, name in enumerate(SQUARE_NAMES)}

COLOUR_NAMES = {True: "black", False: "white"}
COLOUR_WORDS = {"b": True, "black": True, "w": False, "white": False}
"""What a colour is called, and what it may be called, in lower case; True is black."""
BLACK_SIGNS = "Xx*bB0"
WHITE_SIGNS = "OowW1"
EMPTY_SIGNS = "-._"
_BOARD_SIGNS = frozenset(BLACK_SIGNS + WHITE_SIGNS + EMPTY_SIGNS)

# One step through a transcript: what may stand between moves, then a move (a square or a pass), if any is left.
_BETWEEN_MOVES = re.compile(r"(?:\s|,|[0-9]{1,3}\s*\.+)*")
_MOVE = re.compile(r"([a-h])\s*([1-8])|pass|pa|ps|--", re.IGNORECASE | re.ASCII)


def square_name(square: int) -> str:
    """The name of a square.

    >>> square_name(37)
    'f5'
    """
    if not 0 <= square <= 63:
        raise InvalidMoveError(f"{square} is not a square: squares are 0 (a1) to 63 (h8)")
    return SQUARE_NAMES[square]


def move_name(move: int) -> str:
    """The name of a square, or `pass`."""
    return "pass" if move == PASS else square_name(move)


def parse_square(text: str) -> int:
    """The square with this name, in either case.

    >>> parse_square("F5")
    37
    """
    square = _SQUARES.get(text.strip().lower())
    if square is None:
        raise InvalidMoveError(f"{shorten(text)} is not a square: give a column a-h and a row 1-8, such as f5")
    return square


def parse_move(move: str | int) -> Move:
    """A move given by name or number. The same as `Move(move)`, faster: whole games pass through here."""
    if type(move) is Move:
        return move
    if type(move) is int and -1 <= move <= 63:
        return MOVES[move]
    return Move(move)


def scan_moves(text: str) -> list[Move]:
    """The moves written in a transcript, as they stand there; whether they are legal is not looked at.

    Spaces, commas and move numbers (`12.`) may stand between moves; passes are `--`, `pa`, `ps` or `pass`.
    """
    moves: list[Move] = []
    index = _end_of(_BETWEEN_MOVES, text, 0)
    while index < len(text):
        match = _MOVE.match(text, index)
        if match is None:
            raise InvalidMoveError(
                f"move {len(moves) + 1}, character index {index}: {shorten(text[index : index + 8])} "
                "does not start with a square such as f5 or a pass (--)"
            )
        column, row = match.groups()
        moves.append(PASS if column is None else MOVES[_SQUARES[column.lower() + row]])
        index = _end_of(_BETWEEN_MOVES, text, match.end())
    return moves


def _end_of(pattern: re.Pattern[str], text: str, index: int) -> int:
    match = pattern.match(text, index)
    return index if match is None else match.end()


def looks_like_board(text: str) -> bool:
    """Whether text is meant as a board rather than a transcript: most of its characters are board signs.

    A transcript is half digits and half letters, of which few are also board signs, so a board with a typing mistake
    is still recognised, and reported as a board.
    """
    signs = [character in _BOARD_SIGNS for character in text if not character.isspace()]
    return 2 * sum(signs) > len(signs)


def scan_board(text: str) -> tuple[int, int, bool]:
    """A board as (black mask, white mask, black to move): 64 signs from a1 to h8, then the side; spaces are ignored.

    Black is `X x * b B 0`, white `O o w W 1`, empty `- . _`. The digits are a style of their own: among letters a 0 is
    far more often a mistyped O, and to read it as black would be a guess.
    """
    signs = [(index, sign) for index, sign in enumerate(text) if not sign.isspace()]
    for index, sign in signs[:65]:
        if sign not in _BOARD_SIGNS:
            raise InvalidPositionError(
                f"character index {index}: {sign!r} is not a board sign; black is X or *, white is O, empty is - or ."
            )
    if len(signs) == 64:
        raise InvalidPositionError("the side to move is missing: add X (black) or O (white) after the 64 squares")
    if len(signs) < 64:
        raise InvalidPositionError(f"a board has 64 squares and a side to move; these are only {len(signs)} signs")
    if len(signs) > 65:
        index, sign = signs[65]
        raise InvalidPositionError(f"character index {index}: {sign!r} follows a board that was already complete")

    discs = [(index, sign) for index, sign in signs[:64] if sign not in EMPTY_SIGNS]
    digits = [index for index, sign in discs if sign in "01"]
    if digits and len(digits) < len(discs):
        raise InvalidPositionError(
            f"character index {digits[0]}: {text[digits[0]]!r} among letters; use 0 and 1 (black and white) for all "
            "discs or for none (the letter O is white)"
        )
    side_index, side = signs[64]
    if side in EMPTY_SIGNS:
        raise InvalidPositionError(f"character index {side_index}: {side!r} is no side to move; use X or O")
    black = sum(1 << square for square, (_, sign) in enumerate(signs[:64]) if sign in BLACK_SIGNS)
    white = sum(1 << square for square, (_, sign) in enumerate(signs[:64]) if sign in WHITE_SIGNS)
    return black, white, side in BLACK_SIGNS
