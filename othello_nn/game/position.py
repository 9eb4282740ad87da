"""Position: one immutable board with a side to move, and the checked way to play on it.

Read `rules.py` first; it does the work, on masks. This is the face of it for people and programs: moves are checked,
errors say what could have been played, and nothing is changed in place.

>>> position = Position.start().play("f5").play("d6")
>>> position  # dots are legal moves; a notebook draws the board
  a b c d e f g h
1 - - - - - - - -
2 - - - - - - - -
3 - - . - - - - -
4 - - . O X - - -
5 - - . O X X - -
6 - - . O - - - -
7 - - . - - - - -
8 - - - - - - - -
Black (X) to move; black 3, white 3, 58 empty
Position.parse('---------------------------OX------OXX-----O-------------------- X')
>>> position.play("a1")
Traceback (most recent call last):
othello_nn.errors.IllegalMoveError: a1 flips nothing; legal moves: c3, c4, c5, c6, c7
>>> Position.parse(position.to_text()) == position == Position.parse("f5d6")
True
"""

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from othello_nn.errors import IllegalMoveError, InvalidPositionError, OthelloError, shorten
from othello_nn.game import rules
from othello_nn.game.move import Move, moves_in
from othello_nn.game.rules import (
    FULL_MASK,
    PASS,
    START_MOVER,
    START_OPPONENT,
    final_score,
    flips_mask,
    squares_in,
    transform_mask,
)
from othello_nn.game.svg import board_svg
from othello_nn.game.syntax import looks_like_board, move_name, parse_move, scan_board, scan_moves, square_name

# Whoever plays asks several times for the moves of a position: is it over, must I pass, what may I play.
legal_mask = lru_cache(maxsize=1024)(rules.legal_mask)


@dataclass(frozen=True, slots=True, repr=False)
class Position:
    """A board and whose turn it is. Equal positions hash alike; the colour to move is part of the position."""

    mover: int
    """Mask of the discs of the side to move."""
    opponent: int
    """Mask of the discs of the other side."""
    black_to_move: bool = True

    def __post_init__(self) -> None:
        for field in ("mover", "opponent"):
            value = getattr(self, field)
            if type(value) is not int:
                # numpy integers would overflow in the shifts of the rules, so only plain ints are kept.
                try:
                    value = operator.index(value)
                except TypeError:
                    raise InvalidPositionError(f"{field} must be a 64-bit mask, not {shorten(value)}") from None
                object.__setattr__(self, field, value)
            if not 0 <= value <= FULL_MASK:
                raise InvalidPositionError(f"{field} must be a mask of 64 bits (0 to 2**64 - 1), not {shorten(value)}")
        if overlap := self.mover & self.opponent:
            raise InvalidPositionError(f"both sides have a disc on {_names(overlap)}; a square holds one disc at most")
        if type(self.black_to_move) is not bool:
            object.__setattr__(self, "black_to_move", bool(self.black_to_move))

    # Making positions.

    @classmethod
    def start(cls) -> "Position":
        """The usual start: black to move."""
        return cls(START_MOVER, START_OPPONENT, True)

    @classmethod
    def from_discs(cls, black: int, white: int, black_to_move: bool = True) -> "Position":
        """A position from the masks of the two colours."""
        return cls(black, white, True) if black_to_move else cls(white, black, False)

    @classmethod
    def parse(cls, text: str) -> "Position":
        """A position from `start`, from 64 signs and a side to move, or from a transcript played from the start.

        >>> Position.parse("F5 d6 C3").empties
        57
        """
        if text.strip().lower() == "start":
            return cls.start()
        if not text.strip():
            raise InvalidPositionError("no position: give `start`, 64 signs and a side to move, or moves such as f5d6")
        if looks_like_board(text):
            return cls.from_discs(*scan_board(text))
        return cls.start().replay(text)

    # Looking at them.

    @property
    def black(self) -> int:
        """Mask of the black discs."""
        return self.mover if self.black_to_move else self.opponent

    @property
    def white(self) -> int:
        """Mask of the white discs."""
        return self.opponent if self.black_to_move else self.mover

    @property
    def empty_mask(self) -> int:
        return ~(self.mover | self.opponent) & FULL_MASK

    @property
    def empties(self) -> int:
        """How many squares are empty."""
        return self.empty_mask.bit_count()

    @property
    def mover_discs(self) -> int:
        return self.mover.bit_count()

    @property
    def opponent_discs(self) -> int:
        return self.opponent.bit_count()

    @property
    def black_discs(self) -> int:
        return self.black.bit_count()

    @property
    def white_discs(self) -> int:
        return self.white.bit_count()

    @property
    def legal_mask(self) -> int:
        return legal_mask(self.mover, self.opponent)

    @property
    def legal_moves(self) -> tuple[Move, ...]:
        """The squares that may be played, ascending. Empty when the side to move must pass or the game is over.

        >>> Position.start().legal_moves
        (d3, c4, f5, e6)
        """
        return moves_in(self.legal_mask)

    @property
    def must_pass(self) -> bool:
        """The side to move has no legal square and the other side has one: PASS is the only move."""
        return not self.legal_mask and bool(legal_mask(self.opponent, self.mover))

    @property
    def is_over(self) -> bool:
        """Neither side has a legal move."""
        return not self.legal_mask and not legal_mask(self.opponent, self.mover)

    def final_score(self) -> int:
        """The margin in discs for the side to move at the end of the game; empties go to the winner."""
        if not self.is_over:
            raise OthelloError("the game is not over, so there is no final score; play on, or solve the position")
        return final_score(self.mover, self.opponent)

    def black_score(self) -> int:
        """The final margin in discs for black."""
        score_discs = self.final_score()
        return score_discs if self.black_to_move else -score_discs

    def outcome(self) -> str | None:
        """`black`, `white` or `draw` when the game is over, otherwise None."""
        if not self.is_over:
            return None
        score_discs = self.black_score()
        return "draw" if score_discs == 0 else "black" if score_discs > 0 else "white"

    # Playing.

    def play(self, move: str | int) -> "Position":
        """The position after a move: a name ("f5", "pass") or a number (0..63, PASS). A pass has to be played too."""
        square = parse_move(move)
        if square == PASS:
            if not self.must_pass:
                raise IllegalMoveError(_why_not(self.mover, self.opponent, PASS))
            return Position(self.opponent, self.mover, not self.black_to_move)
        bit = 1 << square
        flips = 0 if (self.mover | self.opponent) & bit else flips_mask(self.mover, self.opponent, square)
        if not flips:
            raise IllegalMoveError(_why_not(self.mover, self.opponent, square))
        return Position(self.opponent ^ flips, self.mover | flips | bit, not self.black_to_move)

    def replay(self, moves: str | Iterable[str | int]) -> "Position":
        """The position after several moves, a transcript or a list. Passes may be left out.

        >>> Position.start().replay("f5 f6").to_text()
        '---------------------------OX------XOX-------O------------------ X'
        """
        numbers = scan_moves(moves) if isinstance(moves, str) else moves
        return complete_moves(self, numbers)[1]

    # Symmetry.

    def transform(self, k: int) -> "Position":
        """The image under symmetry k = 0..7 (`rules.SYMMETRIES` tells them apart)."""
        return Position(transform_mask(self.mover, k), transform_mask(self.opponent, k), self.black_to_move)

    def symmetries(self) -> tuple["Position", ...]:
        """All eight images, in the order of `rules.SYMMETRIES`; some are equal when the position is symmetric."""
        return tuple(self.transform(k) for k in range(8))

    def canonical(self) -> "Position":
        """The image with the smallest (mover, opponent): the same for all eight images of a position."""
        return min(self.symmetries(), key=lambda image: (image.mover, image.opponent))

    # Writing.

    def board_string(self) -> str:
        """The 64 squares from a1 to h8: X black, O white, - empty."""
        black, white = self.black, self.white
        return "".join("X" if black >> i & 1 else "O" if white >> i & 1 else "-" for i in range(64))

    def to_text(self) -> str:
        """The strict form that `parse` reads back: 64 signs, a space, X or O to move."""
        return f"{self.board_string()} {'X' if self.black_to_move else 'O'}"

    def __repr__(self) -> str:
        """The board, since that is what a prompt should show, and a last line that tells exactly what it is."""
        return f"{self}\nPosition.parse({self.to_text()!r})"

    def __str__(self) -> str:
        """The board for a terminal, with a dot on every legal move."""
        signs, legal = self.board_string(), self.legal_mask
        signs = "".join("." if legal >> square & 1 else sign for square, sign in enumerate(signs))
        lines = ["  a b c d e f g h"]
        lines += [f"{row + 1} {' '.join(signs[8 * row : 8 * row + 8])}" for row in range(8)]
        side = "Black (X)" if self.black_to_move else "White (O)"
        turn = "Game over" if self.is_over else f"{side} to move"
        lines.append(f"{turn}; black {self.black_discs}, white {self.white_discs}, {self.empties} empty")
        return "\n".join(lines)

    def _repr_svg_(self) -> str:
        """The board for a notebook."""
        return board_svg(self.black, self.white, self.legal_mask, None if self.is_over else self.black_to_move)


def complete_moves(
    start: Position, moves: Iterable[str | int], *, passes_left_out: bool = True
) -> tuple[tuple[Move, ...], Position]:
    """Play `moves` from `start`: the same moves with every pass written out, and the last position.

    With `passes_left_out`, a pass is put in where the side to move has no legal square and the next move needs it; a
    pass after the last move is not added. Passes written after the end of the game say nothing and are dropped. An
    error names the number of the move, counted as given.
    """
    mover, opponent, black_to_move = start.mover, start.opponent, start.black_to_move
    played: list[Move] = []
    # Thousands of games are read through this loop: a legal square costs one walk over its rays, and the full list of
    # legal moves is made only where a move fails.
    for number, given in enumerate(moves, start=1):
        move = parse_move(given)
        if move == PASS:
            if not legal_mask(mover, opponent):
                if legal_mask(opponent, mover):
                    mover, opponent, black_to_move = opponent, mover, not black_to_move
                    played.append(PASS)
                continue
            raise IllegalMoveError(f"move {number} (pass): {_why_not(mover, opponent, PASS)}")
        bit = 1 << move
        free = not (mover | opponent) & bit
        flips = flips_mask(mover, opponent, move) if free else 0
        if not flips and free and passes_left_out and not legal_mask(mover, opponent):
            flips = flips_mask(opponent, mover, move)
            if flips:
                mover, opponent, black_to_move = opponent, mover, not black_to_move
                played.append(PASS)
        if not flips:
            raise IllegalMoveError(f"move {number} ({square_name(move)}): {_why_not(mover, opponent, move)}")
        mover, opponent, black_to_move = opponent ^ flips, mover | flips | bit, not black_to_move
        played.append(move)
    return tuple(played), Position(mover, opponent, black_to_move)


def _names(mask: int) -> str:
    return ", ".join(square_name(square) for square in squares_in(mask))


def _why_not(mover: int, opponent: int, move: int) -> str:
    """Why an illegal move is illegal, and what could be played instead."""
    legal = legal_mask(mover, opponent)
    if not legal and not legal_mask(opponent, mover):
        return f"{move_name(move)} cannot be played: the game is over"
    advice = f"legal moves: {_names(legal)}" if legal else "there is no legal move: pass"
    if move == PASS:
        return f"passing is not allowed; {advice}"
    if (mover | opponent) >> move & 1:
        return f"{square_name(move)} is occupied; {advice}"
    return f"{square_name(move)} flips nothing; {advice}"
