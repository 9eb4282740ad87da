"""Text to positions and moves, and back: square names, transcripts, boards.

`syntax.py` says what the characters mean and `position.py` what is legal; here the two meet. For whole files of games
go on with `formats/files.py`.

>>> moves = parse_transcript("1. F5 d6 2. C3")
>>> format_transcript(moves)
'f5d6c3'
>>> parse_board("---------------------------O*------*O--------------------------- *") == Position.start()
True
"""

from collections.abc import Iterable

from othello_nn.game.move import Move
from othello_nn.game.position import Position, complete_moves
from othello_nn.game.rules import PASS
from othello_nn.game.syntax import move_name, parse_move, parse_square, scan_board, scan_moves, square_name

__all__ = [
    "format_transcript",
    "move_name",
    "parse_board",
    "parse_move",
    "parse_square",
    "parse_transcript",
    "square_name",
]

_START = Position.start()


def parse_transcript(text: str, start: Position = _START) -> list[Move]:
    """The moves of a transcript, all legal from `start`, with PASS written out wherever a side had to pass.

    Case and spaces do not matter, move numbers (`1.`) are skipped, and a pass may be left out or written `--`, `pa`,
    `ps` or `pass`. Errors name the number of the move and the reason.
    """
    return list(complete_moves(start, scan_moves(text))[0])


def format_transcript(moves: Iterable[int]) -> str:
    """Moves as one lower-case word. Passes are left out: they follow from the board."""
    return "".join(square_name(move) for move in moves if move != PASS)


def parse_board(text: str) -> Position:
    """A position from 64 signs (a1, b1 ... h8) and the side to move; an error gives the index of the character."""
    return Position.from_discs(*scan_board(text))
