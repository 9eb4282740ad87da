"""A picture of what a net says of games that it did not learn from, beside what came of them."""

from __future__ import annotations

import numpy as np

from othello_nn.learn.watch import drawing
from othello_nn.learn.watch.drawing import HEADER, MARGIN, WIDTH, Plot, Sheet

FEWEST = 30
"""Positions that a point of a curve stands for, at least."""
BIN = 4
"""Discs of the net's value that make one point."""
PLOT_HEIGHT, GAP = 250, 92
_WORDS = "Above: how far the net is from their results. Below: the mean result by what the net says of a position."


def picture_of_errors(
    found: np.ndarray,
    margins: np.ndarray,
    empties: np.ndarray,
    title: str = "Games kept from the fit",
    words: str = _WORDS,
    largest: int = 16,
) -> np.ndarray:
    """uint8 ``[height, width, 3]``: errors by the number of empties, and results by the net's value. All ``[N]``."""
    sheet = Sheet(
        HEADER + 28 + 2 * PLOT_HEIGHT + GAP + 52,
        title,
        words,
    )
    errors = found - margins
    size = lambda rows: float(np.sqrt(np.square(errors[rows]).mean()))  # noqa: E731
    bias = lambda rows: float(errors[rows].mean())  # noqa: E731
    result = lambda rows: float(margins[rows].mean())  # noqa: E731
    left, width, top = MARGIN + 34, WIDTH - 2 * MARGIN - 46, HEADER + 28
    above = Plot(sheet, (left, top, width, PLOT_HEIGHT), range(0, 61, 10), range(-4, largest + 1, 4), "empty squares")
    every = range(1, 61)
    above.curve(_points(every, empties, size), drawing.CURVES[0])
    above.curve(_points(every, empties, bias), drawing.CURVES[1])
    above.key([("root of the mean squared error, discs", drawing.CURVES[0]), ("mean error, discs", drawing.CURVES[1])])
    top += PLOT_HEIGHT + GAP
    below = Plot(sheet, (left, top, width, PLOT_HEIGHT), range(-64, 65, 16), range(-64, 65, 16), "discs, says the net")
    below.curve([(-64.0, -64.0), (64.0, 64.0)], (176, 180, 188), 1.5)
    values = np.rint(found / BIN).astype(int) * BIN
    late = empties <= 30
    bins = range(-64, 65, BIN)
    below.curve(_points(bins, np.where(late, values, 999), result), drawing.CURVES[0])
    below.curve(_points(bins, np.where(late, 999, values), result), drawing.CURVES[1])
    below.key([("result with up to 30 empty squares", drawing.CURVES[0]), ("with more", drawing.CURVES[1])])
    return sheet.array()


def _points(places, where: np.ndarray, number) -> list[tuple[float, float]]:
    """A number for each place that enough rows are at."""
    rows = {place: np.flatnonzero(where == place) for place in places}
    return [(float(place), number(some) if len(some) >= FEWEST else float("nan")) for place, some in rows.items()]
