"""The statistics of a collection of games as a table and as a picture."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from othello_nn.cli.curves import CURVE, FILL, GREY, INK, LEFT, RIGHT, RULE, TOP, WIDTH, head, x_of
from othello_nn.collection.statistics import BIN, Statistics

EVERY = 5
"""Moves between two lines of the table."""
PANEL, GAP, FOOT = 128, 44, 0
"""In pixels: a panel, the room below it for its scale and the next one's name, and what is left at the end."""
WHITE = "#d1791f"
"""White's curves: on paper they cannot be white."""
_COLUMNS = {
    "moves": "to choose",
    "black_moves": "black's",
    "white_moves": "white's",
    "black_discs": "black",
    "white_discs": "white",
    "lead": "lead",
    "black_stable": "black",
    "white_stable": "white",
}
_GROUPS = (("moves", 3), ("discs", 3), ("stable", 2))


# --- the table -------------------------------------------------------------------------------------------------------


def statistics_lines(found: Statistics) -> list[str]:
    """Sentences, then the means by the number of moves made."""
    width = 10
    groups = "".join(f"{name:>{width * count}s}" for name, count in _GROUPS)
    lines = [*_sentences(found), "", f"{'':15s}{groups}"]
    lines.append(f"{'made':>4s}{'positions':>11s}{''.join(f'{name:>{width}s}' for name in _COLUMNS.values())}")
    for number in range(0, len(found.positions), EVERY):
        if found.positions[number]:
            values = (found.means[name][number] for name in _COLUMNS)
            cells = "".join(f"{'-' if np.isnan(value) else f'{value:.1f}':>{width}s}" for value in values)
            lines.append(f"{number:4d}{found.positions[number]:11,d}{cells}")
    return lines


def _sentences(found: Statistics) -> list[str]:
    figures = found.as_dict()
    lines = [
        f"{found.games:,} games, {found.complete:,} of them played to the end: {figures['mean_moves']:.1f} moves "
        f"({figures['fewest_moves']} to {figures['most_moves']}) and {figures['mean_passes']:.2f} passes a game, "
        f"{figures['mean_choice']:.1f} moves to choose from"
    ]
    if len(found.margins):
        count = len(found.margins)
        won = ", ".join(
            f"{what} {figures[name]:,} ({figures[name] / count:.1%})"
            for what, name in (("black wins", "black_wins"), ("draws", "draws"), ("white wins", "white_wins"))
        )
        lines.append(
            f"{won}; black's margin {figures['mean_margin']:+.1f} on average, the winner's {figures['mean_lead']:.1f}"
        )
    if exact := figures.get("exact"):
        lines.append(
            f"solved {exact['games']:,}: {exact['other_result']:,} have another result than on the board, "
            f"{exact['other_winner']:,} another winner; {exact['mean_loss']:.1f} discs between the two on average"
        )
    if total := sum(found.openings.values()):
        shares = ", ".join(f"{name} {count / total:.0%}" for name, count in found.openings.items())
        lines.append(f"openings: {shares}")
    return lines


# --- the picture -----------------------------------------------------------------------------------------------------


def statistics_svg(found: Statistics) -> str:
    """The curves over the moves of a game, and how often each margin came."""
    pairs = np.arange(len(found.points)) * 2 + 0.5
    numbers, means = np.arange(61.0), found.means
    lead = ("difference", CURVE, numbers, means["lead"])
    panels = [
        ("moves to choose from, mean of both sides", [("", CURVE, pairs, found.points)]),
        ("moves that each side has", _both(numbers, means, "moves")),
        ("discs, and the difference without its sign", [*_both(numbers, means, "discs"), lead]),
        ("stable discs", _both(numbers, means, "stable")),
    ]
    height = TOP + (len(panels) + 1) * (PANEL + GAP) + FOOT
    title = f"{found.games:,} games" if found.games > 1 else "One game"
    parts = head(f"{title}: means after so many moves" if found.games > 1 else f"{title}, move by move", height)
    top = TOP + 14
    for name, curves in panels:
        parts += _panel(top, name, curves)
        top += PANEL + GAP
    parts += _bars(top, found)
    return "".join([*parts, "</svg>"])


Curve = tuple[str, str, np.ndarray, np.ndarray]
"""Name, colour, places and values."""


def _both(numbers: np.ndarray, means: dict[str, np.ndarray], what: str) -> list[Curve]:
    return [(side, colour, numbers, means[f"{side}_{what}"]) for side, colour in (("black", INK), ("white", WHITE))]


def _frame(top: float, name: str, largest: float, steps: Sequence[float]) -> list[str]:
    """A panel with its name above it and lines at some values."""
    parts = [
        f'<text x="{LEFT}" y="{top - 6}" font-size="12" fill="{INK}">{name}</text>',
        f'<rect x="{LEFT}" y="{top}" width="{WIDTH - LEFT - RIGHT}" height="{PANEL}" fill="{FILL}"/>',
    ]
    for value in steps:
        y = top + PANEL * (1 - value / largest)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="{RULE}"/>')
        parts.append(
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" font-size="10" fill="{GREY}" text-anchor="end">{value:,.0f}</text>'
        )
    return parts


def _scale(largest: float) -> tuple[float, list[float]]:
    """The upper end of a scale, and the values that are written beside it."""
    step = next(base * 10**power for power in range(9) for base in (1, 2, 5) if largest <= 5 * base * 10**power)
    count = int(np.ceil(max(largest, step) / step))
    return float(count * step), [float(i * step) for i in range(count + 1)]


def _panel(top: float, name: str, curves: Sequence[Curve]) -> list[str]:
    largest, steps = _scale(float(max(np.nanmax(values) for *_, values in curves)))
    parts = _frame(top, name, largest, steps)
    parts.append(f'<g font-size="10" fill="{GREY}" text-anchor="middle">')
    parts += [f'<text x="{x_of(move):.1f}" y="{top + PANEL + 14}">{move}</text>' for move in range(0, 61, 10)]
    parts.append("</g>")
    for place, (key, colour, places, values) in enumerate(curves):
        there = np.isfinite(values)
        points = " ".join(
            f"{x_of(x):.1f},{top + PANEL * (1 - y / largest):.1f}"
            for x, y in zip(places[there], values[there], strict=True)
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
        if key:
            y = top + 22 + 18 * place
            parts.append(f'<path d="M24 {y - 4}h22" stroke="{colour}" stroke-width="2.5"/>')
            parts.append(f'<text x="52" y="{y}" font-size="12" fill="{INK}">{key}</text>')
    return parts


def _bars(top: float, found: Statistics) -> list[str]:
    """Games by black's margin."""
    counts = found.histogram
    largest, steps = _scale(max(1, *counts.values()))
    parts = _frame(top, "games by black's margin in discs", largest, steps)
    width = (WIDTH - LEFT - RIGHT) / len(counts)
    for place, (middle, count) in enumerate(counts.items()):
        x, height = LEFT + place * width, PANEL * count / largest
        colour = CURVE if middle == 0 else INK if middle > 0 else WHITE
        parts.append(
            f'<rect x="{x + 2:.1f}" y="{top + PANEL - height:.1f}" width="{width - 4:.1f}" height="{height:.1f}" '
            f'fill="{colour}"><title>{middle:+d} ± {BIN // 2}: {count:,}</title></rect>'
        )
        parts.append(
            f'<text x="{x + width / 2:.1f}" y="{top + PANEL + 14}" font-size="10" fill="{GREY}" '
            f'text-anchor="middle">{middle and f"{middle:+d}"}</text>'
        )
    return parts
