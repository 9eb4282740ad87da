"""A board as SVG, for notebooks and web pages.

The picture has a frame of its own, so it looks the same on a white and on a dark page; and it has no ids, so many of
them can stand on one page without meaning each other's colours.
"""

from othello_nn.game.rules import squares_in

CELL, FRAME, FOOT = 40, 24, 36
"""In pixels: a square, the frame around the board, and the line of text that takes its place below."""
BOARD = 8 * CELL
WIDTH, HEIGHT = FRAME + BOARD + FRAME, FRAME + BOARD + FOOT

_FRAME, _FELT, _LINES, _INK = "#39434b", "#2f8a57", "#1d6a40", "#dde3e7"
_DISCS = {True: ("#111415", "#23282b"), False: ("#dfe3e4", "#fbfcfc")}
"""A disc's edge and its face: black, white."""


def board_svg(black: int, white: int, legal: int, black_to_move: bool | None) -> str:
    """The discs of the two colours, dots on the squares of `legal`, and below whose turn it is (None: nobody's)."""
    turn = "Game over" if black_to_move is None else f"{'Black' if black_to_move else 'White'} to move"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'role="img" font-family="system-ui, sans-serif">',
        f"<title>{turn}; black {black.bit_count()}, white {white.bit_count()}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="10" fill="{_FRAME}"/>',
        *_names(),
        *_field(),
    ]
    for mask, is_black in ((black, True), (white, False)):
        parts += [_disc(*_centre(square), 16, is_black) for square in squares_in(mask)]
    ink = _DISCS[bool(black_to_move)][0]
    for x, y in map(_centre, squares_in(legal)):
        parts.append(f'<circle cx="{x}" cy="{y}" r="5" fill="{ink}" fill-opacity="0.55"/>')
    return "".join([*parts, *_foot(black.bit_count(), white.bit_count(), turn), "</svg>"])


def _centre(square: int) -> tuple[int, int]:
    row, column = divmod(square, 8)
    return FRAME + CELL * column + CELL // 2, FRAME + CELL * row + CELL // 2


def _names() -> list[str]:
    """a to h above the board, 1 to 8 beside it."""
    parts = [f'<g fill="{_INK}" font-size="12" text-anchor="middle">']
    for index, column in enumerate("abcdefgh"):
        middle = FRAME + CELL * index + CELL // 2
        parts.append(f'<text x="{middle}" y="{FRAME - 8}">{column}</text>')
        parts.append(f'<text x="{FRAME // 2}" y="{middle + 4}">{index + 1}</text>')
    return [*parts, "</g>"]


def _field() -> list[str]:
    """The felt, its lines, and the four dots of a real board."""
    lines = "".join(
        f"M{FRAME} {FRAME + CELL * line}h{BOARD}M{FRAME + CELL * line} {FRAME}v{BOARD}" for line in range(1, 8)
    )
    dots = "".join(
        f'<circle cx="{FRAME + CELL * column}" cy="{FRAME + CELL * row}" r="3"/>' for row in (2, 6) for column in (2, 6)
    )
    return [
        f'<rect x="{FRAME}" y="{FRAME}" width="{BOARD}" height="{BOARD}" rx="3" fill="{_FELT}"/>',
        f'<path d="{lines}" stroke="{_LINES}" stroke-width="1.5"/>',
        f'<g fill="{_LINES}">{dots}</g>',
    ]


def _disc(x: int, y: int, radius: int, is_black: bool) -> str:
    edge, face = _DISCS[is_black]
    return (
        f'<circle cx="{x}" cy="{y + 1.5}" r="{radius}" fill="black" fill-opacity="0.3"/>'
        f'<circle cx="{x}" cy="{y}" r="{radius}" fill="{edge}"/>'
        f'<circle cx="{x}" cy="{y - 1}" r="{radius - 2}" fill="{face}"/>'
    )


def _foot(black: int, white: int, turn: str) -> list[str]:
    """Whose turn it is on the left, the discs of both on the right."""
    middle, right = FRAME + BOARD + FOOT // 2, FRAME + BOARD
    return [
        f'<g fill="{_INK}" font-size="14"><text x="{FRAME}" y="{middle + 5}">{turn}</text>',
        _disc(right - 98, middle, 8, True),
        f'<text x="{right - 84}" y="{middle + 5}">{black}</text>',
        _disc(right - 40, middle, 8, False),
        f'<text x="{right - 26}" y="{middle + 5}">{white}</text></g>',
    ]
