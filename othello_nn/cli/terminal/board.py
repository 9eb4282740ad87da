"""The board in a terminal: signs and colours that the terminal can show, and a picture of a position made of them.

Signs and colours are chosen separately, so that a terminal without either still shows a board that lines up. Nothing
here prints.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import TextIO

from othello_nn.game.position import Position
from othello_nn.game.rules import PASS

COLUMNS = "abcdefgh"
FRAMED_WIDTH, PANEL_WIDTH = 31, 36
"""Columns that a board with a frame takes, and those that must be free beside it for the panel."""
SQUARE, LARGE_SQUARE = (3, 1), (6, 3)
"""Columns and lines of a square with a frame around the board, and of one on a large board."""
LARGE_HEIGHT = 36
"""Lines of a terminal that has room for a large board, and as many below it as there are on a small one."""
PANEL_GAP = "    "
# Languages whose terminals often draw discs two columns wide, which would bend every row.
_WIDE_SIGNS = ("ja", "ko", "zh")
_RESET = "\x1b[0m"


@dataclass(frozen=True)
class Signs:
    """What stands for discs, legal moves and the frame: its four corners row by row, a flat and an upright piece."""

    black: str
    white: str
    legal: str
    frame: str
    painted_white: str
    """White's disc where colours tell the sides apart."""
    edge: str
    """The line between two squares, on a painted board."""
    large: tuple[str, ...] = ()
    """The lines of a large disc, in a painted square. Without them no board is large."""


LARGE_DISC = ("▗▄▄▖ ", "▐██▌ ", "▝▀▀▘ ")
UNICODE = Signs("●", "○", "·", "┌┐└┘─│", painted_white="●", edge="▏", large=LARGE_DISC)
ASCII = Signs("X", "O", ".", "++++-|", painted_white="O", edge=" ")


@dataclass(frozen=True)
class Palette:
    """ANSI colours of the board, its lines, discs and legal moves; then the board under the last move and its flips."""

    board: str
    edge: str
    black: str
    white: str
    legal: str
    last: str
    flipped: str


PALETTE_256 = Palette("48;5;28", "38;5;22", "38;5;16", "1;38;5;231", "38;5;157", "48;5;136", "48;5;71")
PALETTE_16 = Palette("42", "30", "30", "1;97", "97", "43", "46")


@dataclass(frozen=True)
class Style:
    """How to draw."""

    signs: Signs = ASCII
    palette: Palette | None = None
    width: int = 80
    height: int = 24

    @property
    def framed(self) -> bool:
        return self.width >= FRAMED_WIDTH

    @property
    def is_large(self) -> bool:
        """Large discs are told apart by their colour alone."""
        room = self.width >= FRAMED_WIDTH + 8 * (LARGE_SQUARE[0] - SQUARE[0]) + PANEL_WIDTH
        return room and self.height >= LARGE_HEIGHT and self.palette is not None and bool(self.signs.large)

    @property
    def square(self) -> tuple[int, int]:
        """Columns and lines of a square inside a frame."""
        return LARGE_SQUARE if self.is_large else SQUARE

    @property
    def board_width(self) -> int:
        """Columns of a board with its frame."""
        return FRAMED_WIDTH + 8 * (self.square[0] - SQUARE[0])

    @property
    def has_panel_beside(self) -> bool:
        return self.width >= self.board_width + PANEL_WIDTH

    @property
    def panel_room(self) -> int:
        """Columns for a line of the panel."""
        return self.width - self.board_width - len(PANEL_GAP) if self.has_panel_beside else self.width

    def disc(self, black: bool) -> str:
        """One disc on a bit of board, for text beside it."""
        if self.palette is None:
            return self.signs.black if black else self.signs.white
        return _painted(
            f" {self.signs.black if black else self.signs.painted_white} ",
            self.palette.board,
            self.palette.black if black else self.palette.white,
        )


def find_style(stream: TextIO, *, ascii_only: bool = False, environment: Mapping[str, str] = os.environ) -> Style:
    """What a stream can show: colours only at a terminal that has them, Unicode only where it can be encoded."""
    at_terminal = stream.isatty()
    size = shutil.get_terminal_size() if at_terminal else os.terminal_size((80, 24))
    unicode = not ascii_only and _can_encode(stream) and not (at_terminal and _draws_wide(environment))
    palette = None
    if at_terminal and not ascii_only and moves_cursor(environment) and not environment.get("NO_COLOR"):
        many = "256" in environment.get("TERM", "") or environment.get("COLORTERM")
        palette = PALETTE_256 if many else PALETTE_16
    return Style(UNICODE if unicode else ASCII, palette, size.columns, size.lines)


def moves_cursor(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a terminal understands ANSI codes at all. The old console of Windows does not."""
    if os.name == "nt" and not {"WT_SESSION", "TERM", "ANSICON"} & set(environment):
        return False
    return environment.get("TERM", "dumb" if os.name != "nt" else "") != "dumb"


def _can_encode(stream: TextIO) -> bool:
    try:
        "".join(part for sign in astuple(UNICODE) for part in sign).encode(stream.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _draws_wide(environment: Mapping[str, str]) -> bool:
    language = next((environment[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if environment.get(name)), "")
    return language[:2] in _WIDE_SIGNS


def draw(
    position: Position,
    style: Style,
    panel: Sequence[str] = (),
    *,
    last: int = PASS,
    flipped: int = 0,
    legal: int = 0,
    texts: Mapping[int, str] | None = None,
) -> list[str]:
    """The lines of a picture. ``panel`` is text, beside the board if there is room and below it if not.

    ``last`` is the square to mark as played last (PASS: none), ``flipped`` and ``legal`` are masks, ``texts`` are of at
    most three signs, for empty squares.
    """
    columns, lines = style.square if style.framed else (2, 1)

    def row_line(row: int, line: int) -> str:
        squares = range(8 * row, 8 * row + 8)
        return "".join(
            _cell(position, each, style, last, flipped, legal, (texts or {}).get(each, ""), line) for each in squares
        )

    rows = [row_line(row, line) for row in range(8) for line in range(lines)]
    below = [text for text in panel if text]
    if not style.framed:
        names = "  " + " ".join(COLUMNS)
        return [names, *(f"{row + 1}{cells}".rstrip() for row, cells in enumerate(rows)), *below]
    left_top, right_top, left_bottom, right_bottom, flat, upright = list(style.signs.frame)
    names = "   " + "".join(f"{' ' * ((columns - 1) // 2)}{name}".ljust(columns) for name in COLUMNS).rstrip()
    board = [f"  {left_top}{flat * 8 * columns}{right_top}"]
    for number, cells in enumerate(rows):
        row = str(number // lines + 1) if number % lines == lines // 2 else " "
        board.append(f"{row} {upright}{cells}{upright} {row}")
    board += [f"  {left_bottom}{flat * 8 * columns}{right_bottom}"]
    if not style.has_panel_beside:
        return [names, *(line.rstrip() for line in board), names, *below]
    beside = ["", *[""] * (4 * (lines - 1)), *panel, *[""] * len(board)]  # in the middle of a large board
    board = [f"{line}{PANEL_GAP}{text}".rstrip() for line, text in zip(board, beside, strict=False)]
    return [names, *board, names]


def _cell(
    position: Position, square: int, style: Style, last: int, flipped: int, legal: int, text: str, line: int
) -> str:
    """One line of a square: three columns in a frame, two without it; six on a large board."""
    bit, signs, palette = 1 << square, style.signs, style.palette
    sign, ink = " ", "legal"
    if position.black & bit:
        sign, ink = signs.black, "black"
    elif position.white & bit:
        sign, ink = signs.white if palette is None else signs.painted_white, "white"
    elif legal & bit:
        sign = signs.legal
    if palette is not None:
        ground = palette.last if square == last else palette.flipped if flipped & bit else palette.board
        if text and style.framed and not style.is_large:
            return _painted(f"{text:>3s}", ground, palette.legal)
        if style.is_large:
            inside = signs.large[line] if ink != "legal" else f"{text or sign:^5s}" if line == 1 else " " * 5
            edge = _painted(signs.edge if square % 8 else " ", ground, palette.edge)
            return edge + _painted(inside, ground, getattr(palette, ink))
        edge = _painted(signs.edge if style.framed and square % 8 else " ", ground, palette.edge)
        return edge + _painted(f"{sign} " if style.framed else sign, ground, getattr(palette, ink))
    if text and style.framed:
        return f"{text:>3s}"
    if square == last:
        return f"[{sign}]" if style.framed else f">{sign}"
    if sign == " " and not style.framed:
        sign = "-"  # without a frame, nothing else shows where the board is
    return f" {sign} " if style.framed else f" {sign}"


def _painted(text: str, ground: str, ink: str) -> str:
    return f"\x1b[{ground};{ink}m{text}{_RESET}"
