"""Drawing with Pillow: a sheet with a title, colour scales, boards, tables and curves. Read ``pictures.py`` for what
is drawn with it.

Everything is drawn ``FINENESS`` times as large and made smaller, which smooths shapes and spaces letters well. Pillow
comes with TensorBoard and is imported when a sheet is made, not before. The font is the one inside Pillow, the same on
every machine; it has little beyond ASCII (no minus sign, no Greek), so labels keep to that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

Colour = tuple[int, int, int]
Point = tuple[float, float]

FINENESS = 3
WIDTH = 900
MARGIN = 16
HEADER = 70
"""Height of the title and two lines under it."""
LEGEND = 54
"""Height of a colour bar with its numbers."""
AXIS = 18
"""Room for the rank's number beside a board."""

PAPER, INK, GREY, RULE = (255, 255, 255), (28, 30, 34), (105, 110, 118), (214, 217, 222)
UNKNOWN = (190, 190, 190)
"""For what is not a number, as in a net that has diverged."""
BLUE, RED, NEAR_ZERO = (24, 84, 170), (190, 38, 42), (250, 250, 250)
FELT, FELT_LINE, BLACK_DISC, WHITE_DISC = (62, 130, 92), (46, 104, 72), (24, 26, 28), (248, 248, 244)
CURVES = ((24, 84, 170), (222, 128, 20), (40, 140, 90), (150, 70, 165), (190, 38, 42), (90, 96, 106))


@cache
def _font(size: int) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(size)


@dataclass(frozen=True)
class Label:
    """Words on a sheet and the box they fill (left, top, right, bottom)."""

    words: str
    box: tuple[float, float, float, float]


class Sheet:
    """A picture being drawn. Coordinates are pixels of the finished picture from its top left corner."""

    def __init__(self, height: float, title: str, *explanation: str, width: float = WIDTH):
        from PIL import Image, ImageDraw

        self.width, self.height = round(width), round(height)
        self._image = Image.new("RGB", (self.width * FINENESS, self.height * FINENESS), PAPER)
        self._draw = ImageDraw.Draw(self._image)
        self.labels: list[Label] = []
        self.text(MARGIN, 24, title, size=20, anchor="ls")
        for line, words in enumerate(explanation):
            self.text(MARGIN, 43 + 16 * line, words, size=12, anchor="ls", colour=GREY)

    def box(self, left: float, top: float, width: float, height: float, fill: Colour) -> None:
        corners = (left, top, left + width, top + height)
        x0, y0, x1, y1 = (round(at * FINENESS) for at in corners)
        self._draw.rectangle((x0, y0, max(x1 - 1, x0), max(y1 - 1, y0)), fill)

    def disc(self, x: float, y: float, radius: float, fill: Colour) -> None:
        self._draw.ellipse([at * FINENESS for at in (x - radius, y - radius, x + radius, y + radius)], fill)

    def line(self, points: Sequence[Point], colour: Colour, width: float = 1.0) -> None:
        fine = [(x * FINENESS, y * FINENESS) for x, y in points]
        self._draw.line(fine, colour, round(width * FINENESS), joint="curve")

    def dashes(self, start: Point, end: Point, colour: Colour, width: float = 1.5) -> None:
        """A straight line of six-pixel dashes."""
        steps = max(1, int(math.dist(start, end) / 6))
        ends = [tuple(a + (b - a) * i / steps for a, b in zip(start, end, strict=True)) for i in range(steps + 1)]
        for i in range(0, steps, 2):
            self.line([(ends[i][0], ends[i][1]), (ends[i + 1][0], ends[i + 1][1])], colour, width)

    def text(self, x: float, y: float, words: str, size: int = 12, anchor: str = "mm", colour: Colour = INK) -> None:
        """``anchor`` is Pillow's: l, m or r across, then a (top), m or s (base line)."""
        if not words:
            return
        font, at = _font(size * FINENESS), (x * FINENESS, y * FINENESS)
        left, top, right, bottom = (edge / FINENESS for edge in self._draw.textbbox(at, words, font, anchor))
        self.labels.append(Label(words, (left, top, right, bottom)))
        self._draw.text(at, words, colour, font, anchor)

    def array(self) -> np.ndarray:
        """The picture, uint8 ``[height, width, 3]``."""
        return np.array(self._image.reduce(FINENESS))


# Colours and numbers.


def nice_limit(values: np.ndarray) -> float:
    """A round number that no finite value passes; 1 when all are 0. Round, so that it changes seldom in training."""
    finite = np.abs(values[np.isfinite(values)])
    largest = float(finite.max()) if finite.size else 0.0
    if largest < 1e-9:
        return 1.0
    power = 10.0 ** math.floor(math.log10(largest))
    return next(
        (step * power for step in (1, 1.5, 2, 3, 4, 5, 6, 8) if largest <= step * power * (1 + 1e-9)), 10 * power
    )


def short(value: float, limit: float = 1.0) -> str:
    """A number in five signs at most, with more decimals where none of its kind passes a small ``limit``."""
    if not math.isfinite(value):
        return "n/a" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if abs(value) >= 999.5:
        return f"{value:.0e}".replace("e+0", "e").replace("e+", "e")
    decimals = 0 if abs(value) >= 9.95 else 1 if limit >= 1 else 2 if limit >= 0.1 else 3
    words = f"{round(value, decimals) + 0.0:.{decimals}f}"  # adding 0 makes -0 into 0
    return words.replace("0.", ".", 1) if decimals == 3 else words


def _between(low: Colour, high: Colour, part: float) -> Colour:
    red, green, blue = (round(a + (b - a) * part) for a, b in zip(low, high, strict=True))
    return red, green, blue


def diverging(value: float, limit: float) -> Colour:
    """Blue above 0, red below, near white at 0, full colour at ±``limit`` and beyond."""
    if math.isnan(value):
        return UNKNOWN
    part = min(abs(value) / limit, 1.0)
    return _between(NEAR_ZERO, BLUE if value > 0 else RED, part)


def rising(value: float, limit: float) -> Colour:
    """Near white at 0, blue at ``limit``."""
    return diverging(abs(value), limit)


def ink_on(fill: Colour) -> Colour:
    return INK if 0.3 * fill[0] + 0.59 * fill[1] + 0.11 * fill[2] > 140 else PAPER


# Parts of pictures.


def draw_value(sheet: Sheet, box: tuple[float, float, float, float], value: float, limit: float, size: int) -> None:
    """A coloured cell (left, top, width, height) with its number."""
    left, top, width, height = box
    fill = diverging(value, limit)
    sheet.box(left, top, width - 1, height - 1, fill)
    sheet.text(left + (width - 1) / 2, top + (height - 1) / 2, short(value, limit), size, colour=ink_on(fill))


def draw_board(
    sheet: Sheet, left: float, top: float, cell: float, values: np.ndarray, limit: float, numbers: bool = True
) -> None:
    """``values`` ``[64]`` as colours, a1 at the top left with its corner at (left, top).

    With ``numbers`` each is written in its square, and the board has its coordinates (``AXIS`` pixels to the left
    and below).
    """
    sheet.box(left - 1, top - 1, 8 * cell + 1, 8 * cell + 1, RULE)
    for square, value in enumerate(values.tolist()):
        rank, file = divmod(square, 8)
        x, y = left + file * cell, top + rank * cell
        if numbers:
            draw_value(sheet, (x, y, cell, cell), value, limit, 11)
        else:
            sheet.box(x, y, cell - 1 / FINENESS, cell - 1 / FINENESS, diverging(value, limit))
    if numbers:
        for i in range(8):
            sheet.text(left - AXIS / 2, top + (i + 0.5) * cell, str(i + 1), 11, colour=GREY)
            sheet.text(left + (i + 0.5) * cell, top + 8 * cell + AXIS / 2, "abcdefgh"[i], 11, colour=GREY)


def draw_legend(sheet: Sheet, limit: float, unit: str, low: str, high: str, scale=diverging) -> None:
    """A bar of the colours at the bottom of the sheet, its ends named, with numbers."""
    width, top = 320, sheet.height - LEGEND + 10
    left = (sheet.width - width) / 2
    smallest = -limit if scale is diverging else 0.0
    for i in range(width):
        sheet.box(left + i, top, 1, 14, scale(smallest + (limit - smallest) * (i + 0.5) / width, limit))
    ticks = 4 if scale is diverging else 2
    for i in range(ticks + 1):
        value = smallest + (limit - smallest) * i / ticks
        sheet.text(left + width * i / ticks, top + 24, f"{value:g}", 11, colour=GREY)
    if unit:
        sheet.text(sheet.labels[-1].box[2] + 4, top + 24, unit, 11, "lm", GREY)
    sheet.text(left - 10, top + 7, low, 11, "rm", GREY)
    sheet.text(left + width + 10, top + 7, high, 11, "lm", GREY)


class Plot:
    """Axes: ``box`` is (left, top, width, height) of the field, ``x`` and ``y`` are the ranges with their ticks."""

    def __init__(
        self,
        sheet: Sheet,
        box: tuple[float, float, float, float],
        x_ticks: Sequence[float],
        y_ticks: Sequence[float],
        x_name: str,
        x_words: Sequence[str] | None = None,
    ):
        """``x_words`` are written at the ticks in place of their numbers."""
        self.sheet, self.box = sheet, box
        self.x_range, self.y_range = (x_ticks[0], x_ticks[-1]), (y_ticks[0], y_ticks[-1])
        left, top, width, height = box
        for tick in y_ticks:
            y = self.at(x_ticks[0], tick)[1]
            sheet.line([(left, y), (left + width, y)], GREY if tick == 0 else RULE)
            sheet.text(left - 8, y, f"{tick:g}", 11, "rm", GREY)
        for tick, words in zip(x_ticks, x_words or [f"{tick:g}" for tick in x_ticks], strict=True):
            x = self.at(tick, y_ticks[0])[0]
            sheet.line([(x, top), (x, top + height)], RULE)
            sheet.text(x, top + height + 12, words, 11, colour=GREY)
        sheet.text(left + width / 2, top + height + 30, x_name, 12, colour=GREY)

    def at(self, x: float, y: float) -> Point:
        """Where a point is on the sheet; what lies beyond the field is put on its border."""
        left, top, width, height = self.box
        across = (x - self.x_range[0]) / (self.x_range[1] - self.x_range[0])
        up = (y - self.y_range[0]) / (self.y_range[1] - self.y_range[0])
        return left + width * min(max(across, 0.0), 1.0), top + height * (1 - min(max(up, 0.0), 1.0))

    def curve(self, points: Sequence[Point], colour: Colour, width: float = 2.0) -> None:
        """A curve with a gap where a number is missing."""
        run: list[Point] = []
        for x, y in [*points, (0.0, math.nan)]:
            if not math.isnan(y):
                run.append(self.at(x, y))
                continue
            if len(run) > 1:
                self.sheet.line(run, colour, width)
            run = []

    def level(self, y: float, colour: Colour) -> None:
        self.sheet.dashes(self.at(self.x_range[0], y), self.at(self.x_range[1], y), colour)

    def key(self, names: Sequence[tuple[str, Colour]], room: float = 0.0) -> None:
        """The names of the curves above the field, in as many lines as they need; ``room`` is kept free beside them."""
        left, top, width, _ = self.box
        lines: list[list[tuple[float, str, Colour]]] = [[]]
        x = 0.0
        for words, colour in names:
            length = 24 + _font(12 * FINENESS).getlength(words) / FINENESS
            if lines[-1] and x + length > width - room:
                lines.append([])
                x = 0.0
            lines[-1].append((left + x, words, colour))
            x += length + 22
        for i, line in enumerate(reversed(lines)):
            y = top - 14 - 18 * i
            for x, words, colour in line:
                self.sheet.box(x, y - 2, 18, 3, colour)
                self.sheet.text(x + 24, y, words, 12, "lm")
