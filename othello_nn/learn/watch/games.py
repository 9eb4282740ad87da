"""Pictures of games that a net plays for them: what it said and what came of it; a game against its earlier self."""

from __future__ import annotations

import numpy as np

from othello_nn.arena.lockstep import Boards, Played, play_games, random_starts
from othello_nn.engine.leaf.compile import why_not_compiled
from othello_nn.game.position import Position
from othello_nn.game.rules import squares_in
from othello_nn.learn.data.picture import picture_of_errors
from othello_nn.learn.watch import drawing
from othello_nn.learn.watch.curves import curve
from othello_nn.learn.watch.drawing import HEADER, MARGIN, WIDTH, Sheet
from othello_nn.learn.watch.sides import discs_of, side_of
from othello_nn.learn.watch.strength import Self
from othello_nn.nets.base import Net

CALIBRATION = curve(
    "pictures/calibration",
    "games of the net against itself: error by empty squares, and the real margin by the one that it predicted",
)
STRIP = curve(
    "pictures/strip", "boards of a game that the net just played against its earlier self, with both opinions"
)
GAMES, TORCH_GAMES, OPENING_PLIES = 192, 48, 7
"""Games against itself, each begun by so many random plies; fewer of a net that does not compile."""
LARGEST_ERROR = 28
"""Discs: the top of the scale."""
COLUMNS, ROWS, EVERY = 6, 2, 5
"""Boards of a strip, one every so many moves."""


def picture_of_calibration(net: Net, seed: int = 0) -> np.ndarray:
    """uint8 ``[height, width, 3]``."""
    side = side_of(net)
    count = TORCH_GAMES if why_not_compiled(net.config) else GAMES
    played = play_games(side, side, random_starts(count, OPENING_PLIES, seed), seed, keep=True)
    found, margins, empties = said_and_came(net, played)
    return picture_of_errors(
        np.clip(np.nan_to_num(found), -64, 64),
        margins,
        empties,
        title="What it predicted and what came of it",
        words=f"{count} games against itself at 1-ply, for black. Above: how far the net was from their results. "
        "Below: the mean result by what it said.",
        largest=LARGEST_ERROR,
    )


def said_and_came(net: Net, played: Played) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of all positions of games: what the net says, the result, both for black, and the empty squares."""
    boards = _joined([at for _, at in played.path])
    margins = np.concatenate([played.margins[games] for games, _ in played.path])
    empties = 64 - np.bitwise_count(boards.movers | boards.opponents).astype(np.int64)
    return np.where(boards.blacks, 1, -1) * discs_of(net, boards), margins, empties


def picture_of_strip(net: Net, games: int, earlier: Self, seed: int = 0) -> np.ndarray:
    """uint8 ``[height, width, 3]``: the net as it is, black, against the net as it was."""
    before = earlier.put_into(net)
    # Chance decides between equal moves only, so that each pair of nets has its own game, and the same one again.
    played = play_games(side_of(net), side_of(before), Boards.of([Position.start()]), seed, keep=True)
    path = [*(at for _, at in played.path), played.ends]
    margin = int(played.margins[0])
    shown = [min(EVERY * (i + 1), len(path) - 1) for i in range(COLUMNS * ROWS)]
    step, below = (WIDTH - 2 * MARGIN + 16) / COLUMNS, 42
    cell = (step - 16) / 8
    result = f"Black wins {margin:+d}." if margin > 0 else f"White wins {-margin:+d}." if margin else "A draw."
    sheet = Sheet(
        HEADER + ROWS * (8 * cell + below) + 4,
        "A game against its earlier self",
        f"Black: the net with {games:,} games. White: with {earlier.games:,}. {result}",
        "Under each board: moves played, and the final margin for black that the net, and its earlier self, expect.",
    )
    now, then = (discs_of(each, _joined(path)) for each in (net, before))
    for i, at in enumerate(shown):
        left, top = MARGIN + i % COLUMNS * step, HEADER + i // COLUMNS * (8 * cell + below)
        sign = 1 if path[at].blacks[0] else -1
        new = _occupied(path[at]) & ~_occupied(path[at - 1])
        _draw_position(sheet, left, top, cell, path[at], new)
        words = f"{_occupied(path[at]).bit_count() - 4}"
        said = "  ".join(_whole(sign * each[at]) for each in (now, then))
        sheet.text(left, top + 8 * cell + 14, words, 12, "lm")
        sheet.text(left + 8 * cell, top + 8 * cell + 14, said, 12, "rm", drawing.GREY)
    return sheet.array()


def _joined(path: list[Boards]) -> Boards:
    return Boards(*(np.concatenate([getattr(at, name) for at in path]) for name in ("movers", "opponents", "blacks")))


def _occupied(at: Boards) -> int:
    return int(at.movers[0] | at.opponents[0])


def _whole(discs: float) -> str:
    return f"{round(discs):+d}" if np.isfinite(discs) else "n/a"


def _draw_position(sheet: Sheet, left: float, top: float, cell: float, at: Boards, new: int) -> None:
    """A board with its discs; ``new`` is the disc of the last move, which has a dot."""
    sheet.box(left, top, 8 * cell, 8 * cell, drawing.FELT)
    for i in range(1, 8):
        sheet.line([(left + i * cell, top), (left + i * cell, top + 8 * cell)], drawing.FELT_LINE, 0.67)
        sheet.line([(left, top + i * cell), (left + 8 * cell, top + i * cell)], drawing.FELT_LINE, 0.67)
    black, white = (at.movers[0], at.opponents[0]) if at.blacks[0] else (at.opponents[0], at.movers[0])
    for discs, fill in ((black, drawing.BLACK_DISC), (white, drawing.WHITE_DISC)):
        for square in squares_in(int(discs)):
            x, y = left + (square % 8 + 0.5) * cell, top + (square // 8 + 0.5) * cell
            sheet.disc(x, y, 0.4 * cell, fill)
            if new >> square & 1:
                sheet.disc(x, y, 0.13 * cell, drawing.RED)
