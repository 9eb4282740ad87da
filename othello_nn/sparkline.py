"""A curve in one line of text: ▁▂▅▇."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

BLOCKS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], low: float, high: float, width: int = 60) -> str:
    """A block for each value between ``low`` and ``high``; of more than ``width`` values, evenly chosen ones and the
    last.

    >>> sparkline([0, 1, 2, 3, 9], 0, 7)
    '▁▂▃▄█'
    """
    if len(values) > width:
        values = [values[i * (len(values) - 1) // (width - 1)] for i in range(width)]
    top = len(BLOCKS) - 1
    return "".join(BLOCKS[min(top, max(0, round(top * (value - low) / (high - low))))] for value in values)


def can_show_sparkline(stream: TextIO) -> bool:
    """Whether a stream's encoding has the blocks."""
    try:
        BLOCKS.encode(stream.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
