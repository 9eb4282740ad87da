"""Curves over the moves of a game as an SVG picture: one panel below the other, each with a scale of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

WIDTH, LEFT, RIGHT = 760, 170, 20
"""In pixels: the picture, the names to the left of the panels, and what is left free on the right."""
TOP, PANEL, GAP, FOOT = 44, 64, 14, 34
MOVES = 60
EVERY = 10
PAPER, INK, GREY, RULE, FILL, CURVE = "#ffffff", "#1c1e22", "#696e76", "#d6d9de", "#f6f7f9", "#1854aa"


def curves_svg(title: str, numbers: Sequence[int], curves: Mapping[str, Sequence[float]], unit: str) -> str:
    """A panel for each curve, whose values belong to the moves of these numbers; 0 is in its middle."""
    parts = head(title, TOP + len(curves) * (PANEL + GAP) + FOOT)
    for place, (name, values) in enumerate(curves.items()):
        parts += _panel(TOP + place * (PANEL + GAP), name, numbers, values)
    bottom = TOP + len(curves) * (PANEL + GAP)
    parts.append(f'<g font-size="11" fill="{GREY}" text-anchor="middle">')
    parts += [f'<text x="{x_of(move):.1f}" y="{bottom + 4}">{move}</text>' for move in range(0, MOVES + 1, EVERY)]
    foot = f"for black, in {unit}, against the number of the move"
    return "".join([*parts, f'</g><text x="16" y="{bottom + 24}" font-size="11" fill="{GREY}">{foot}</text></svg>'])


def head(title: str, height: int) -> list[str]:
    """The beginning of a picture: its size, its paper, its title."""
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        'role="img" font-family="system-ui, sans-serif">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="{PAPER}"/>',
        f'<text x="16" y="26" font-size="15" fill="{INK}">{escape(title)}</text>',
    ]


def x_of(move: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * move / MOVES


def _panel(top: float, name: str, numbers: Sequence[int], values: Sequence[float]) -> list[str]:
    largest = max((abs(value) for value in values), default=0.0) or 1.0
    middle, half = top + PANEL / 2, PANEL / 2 - 4
    digits = 0 if largest >= 100 else 1
    parts = [
        f'<rect x="{LEFT}" y="{top}" width="{WIDTH - LEFT - RIGHT}" height="{PANEL}" fill="{FILL}"/>',
        f'<path d="M{LEFT} {middle}H{WIDTH - RIGHT}" stroke="{RULE}" stroke-width="1.5"/>',
        *(f'<path d="M{x_of(move):.1f} {top}v{PANEL}" stroke="{RULE}"/>' for move in range(EVERY, MOVES, EVERY)),
        f'<text x="16" y="{middle + 4}" font-size="13" fill="{INK}">{escape(name)}</text>',
        f'<g font-size="10" fill="{GREY}" text-anchor="end">'
        f'<text x="{LEFT - 6}" y="{top + 10}">{largest:+,.{digits}f}</text>'
        f'<text x="{LEFT - 6}" y="{top + PANEL - 2}">{-largest:+,.{digits}f}</text></g>',
    ]
    points = " ".join(
        f"{x_of(number):.1f},{middle - half * value / largest:.1f}"
        for number, value in zip(numbers, values, strict=True)
    )
    return [*parts, f'<polyline points="{points}" fill="none" stroke="{CURVE}" stroke-width="1.8"/>']
