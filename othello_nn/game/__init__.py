"""The game: rules, positions, notation and game records, in plain Python.

Read in this order: `rules` (masks), `move` (a number with a name), `syntax` (what characters mean), `position` (the
class everyone uses), `notation` (transcripts and boards), `record` (a played game), then `formats`: one module per file
format (`ggf`, `sgf`, `wthor`, `obf`) and `files`, which picks the right one. The record modules are imported where they
are needed, not here: this package is loaded at every start of the program.
"""

from othello_nn.errors import IllegalMoveError, InvalidMoveError, InvalidPositionError, OthelloError
from othello_nn.game.move import Move
from othello_nn.game.notation import (
    format_transcript,
    move_name,
    parse_board,
    parse_move,
    parse_square,
    parse_transcript,
    square_name,
)
from othello_nn.game.position import Position
from othello_nn.game.rules import PASS

__all__ = [
    "PASS",
    "IllegalMoveError",
    "InvalidMoveError",
    "InvalidPositionError",
    "Move",
    "OthelloError",
    "Position",
    "format_transcript",
    "move_name",
    "parse_board",
    "parse_move",
    "parse_square",
    "parse_transcript",
    "square_name",
]
