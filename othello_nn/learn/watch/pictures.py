"""Pictures of what a net has learnt, for TensorBoard. Read ``nets/base.py`` first; ``drawing.py`` holds the brushes.

``pictures(net)`` gives a picture for each tag below that applies to the net. ``probes.py`` defines what a thing is
worth to its owner, in discs, whatever the net.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn

from othello_nn.engine.leaf.shapes import stages_of_empties
from othello_nn.game.position import Position
from othello_nn.learn.watch import drawing
from othello_nn.learn.watch.contributions import contributions
from othello_nn.learn.watch.curves import curve
from othello_nn.learn.watch.drawing import AXIS, HEADER, LEGEND, MARGIN, WIDTH, Plot, Sheet
from othello_nn.learn.watch.naming import shape_name
from othello_nn.learn.watch.probes import (
    BANDS,
    EDGES,
    RIM,
    ask,
    boards_of,
    coefficients_by_discs,
    edge_table_worths,
    edge_worths,
    on_board,
    ordered_maps,
    sample_game,
    square_worths,
)
from othello_nn.nets.base import Net
from othello_nn.nets.ntuple import NTupleNet
from othello_nn.nets.staged import Doubled, Staged
from othello_nn.nets.triangle import TriangleNet

SQUARES = curve("pictures/squares", "what an own disc is worth on each square, early, in the middle and late")
EDGE = curve("pictures/edges", "what well-known edges are worth to their owner")
GAME = curve("pictures/game", "the net's opinion along a sample game")
TRIANGLE = curve("pictures/triangle", "the triangle net's maps, laid out on the board")
COEFFICIENTS = curve("pictures/coefficients", "application coefficients, or the learned gate, over the game")
STAGES = curve("pictures/stages", "what each shape contributes to the score, in discs, by stage")
MOST_MAPS, MOST_SHAPES, MOST_PARTS = 12, 16, 6
"""Of what there is more of, so much is shown."""
SQUARE_LIMIT, EDGE_LIMIT, CONTRIBUTION_LIMIT = 6.0, 16.0, 6.0
"""Discs with the full colour, and beyond. Colours mean the same in all pictures, so that TensorBoard's slider shows a
net grow; the numbers are written beside them."""


def pictures(net: Net, sample: Sequence[Position] | None = None) -> dict[str, np.ndarray]:
    """Tag → picture, uint8 ``[height, width, 3]``. ``sample`` is a game for ``pictures/game``, position by position;
    without it a game of our own is shown."""
    with one_thread():
        found = {
            SQUARES: _picture_of_squares(net),
            EDGE: _picture_of_edges(net),
            GAME: _picture_of_game(net, sample or sample_game()),
            TRIANGLE: _picture_of_maps(net),
            COEFFICIENTS: _picture_of_coefficients(net),
            STAGES: _picture_of_stages(net),
        }
    return {tag: sheet.array() for tag, sheet in found.items() if sheet is not None}


@contextmanager
def one_thread() -> Iterator[None]:
    """Training has other programs on the same cores, often, and then the many small operations here spend their time
    waiting for each other's threads: on two busy cores two threads took two to seven times as long as one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _parts(net: Net, name: str = "") -> Iterator[tuple[str, Net]]:
    """The plain nets that a net is made of, with what they are for."""
    inner: list[tuple[str, nn.Module]]
    if isinstance(net, Doubled):
        inner = [("black's net", net.black), ("white's net", net.white)]
    elif isinstance(net, Staged):
        inner = [(f"about {centre:g} discs", each) for centre, each in zip(net.centres, net.nets, strict=True)]
    else:
        yield name, net
        return
    for part, each in inner:
        assert isinstance(each, Net)
        yield from _parts(each, f"{name}, {part}" if name else part)


def _few_parts(net: Net) -> list[tuple[str, Net]]:
    """The parts, or some of them, evenly spread."""
    parts = list(_parts(net))
    if len(parts) <= MOST_PARTS:
        return parts
    return [parts[i * (len(parts) - 1) // (MOST_PARTS - 1)] for i in range(MOST_PARTS)]


def _sides(net: Net) -> dict[str, bool | None]:
    """Who is to move: a net with one for each colour is shown for each, others once."""
    if any(isinstance(each, Doubled) for each in net.modules()):
        return {"black's net": True, "white's net": False}
    return {"": None}


# Squares.


def _picture_of_squares(net: Net) -> Sheet:
    sides = _sides(net)
    values = np.stack([square_worths(net, black) for black in sides.values()])
    limit = SQUARE_LIMIT
    cell, above = 33, 26
    row = above + 8 * cell + AXIS + 8
    sheet = Sheet(
        HEADER + row * len(sides) + LEGEND,
        "What a disc on each square is worth",
        "In discs of the final margin: half of what the net's value changes by when the disc changes colour,",
        "whatever stands there, on the average of 96 random boards.",
    )
    step = (WIDTH - 2 * MARGIN + 12) / len(BANDS)
    for i, side in enumerate(sides):
        for j, (band, empties) in enumerate(BANDS.items()):
            left, top = MARGIN + AXIS + j * step, HEADER + i * row + above
            words = f"{band}, {empties[0]} to {empties[-1]} empty" + (f", {side}" if side else "")
            sheet.text(left, top - 8, words, 13, "ls")
            drawing.draw_board(sheet, left, top, cell, values[i, j], limit)
    drawing.draw_legend(sheet, limit, "discs", "bad to have", "good to have")
    return sheet


# Edges.


def _picture_of_edges(net: Net) -> Sheet:
    groups = {side or "whole net": edge_worths(net, black) for side, black in _sides(net).items()}
    table = edge_table_worths(net)
    if table is not None:
        groups["edge's table alone"] = table
    limit = EDGE_LIMIT
    cell, row, column, names = 17, 42, 66, 390
    width = names + len(groups) * (3 * column + 18) + MARGIN
    sheet = Sheet(
        HEADER + 36 + row * len(EDGES) + LEGEND,
        "What edges are worth",
        "In discs of the final margin, to the owner of the dark discs, averaged over whose turn it is,",
        "on 96 random boards. The edge and its X-squares, b2 and g2 in the row below, are emptied first.",
        width=width,
    )
    for i, (name, edge, x_squares) in enumerate(EDGES):
        top = HEADER + 36 + i * row
        _draw_edge(sheet, MARGIN, top, cell, edge, x_squares)
        sheet.text(MARGIN + 8 * cell + 14, top + cell, name, 13, "lm")
    for g, (name, values) in enumerate(groups.items()):
        left = names + g * (3 * column + 18)
        sheet.text(left + 1.5 * column, HEADER + 4, name, 13)
        for j, band in enumerate(BANDS):
            sheet.text(left + (j + 0.5) * column, HEADER + 23, band, 11, colour=drawing.GREY)
            for i in range(len(EDGES)):
                box = (left + j * column, HEADER + 36 + i * row, column, 2 * cell + 1)
                drawing.draw_value(sheet, box, values[i, j], limit, 13)
    drawing.draw_legend(sheet, limit, "discs", "bad", "good")
    return sheet


def _draw_edge(sheet: Sheet, left: float, top: float, cell: float, edge: str, x_squares: str) -> None:
    signs = dict(zip(RIM, edge + x_squares, strict=True))
    for square in range(16):
        x, y = left + square % 8 * cell, top + square // 8 * cell
        sheet.box(x, y, cell - 1, cell - 1, drawing.FELT)
        sign = signs.get(square, "-")
        if sign != "-":
            fill = drawing.BLACK_DISC if sign == "X" else drawing.WHITE_DISC
            sheet.disc(x + (cell - 1) / 2, y + (cell - 1) / 2, 0.38 * cell, fill)


# A game.


def _picture_of_game(net: Net, game: Sequence[Position]) -> Sheet:
    sign = np.where([position.black_to_move for position in game], 1, -1)
    opinions = ask(net, boards_of(game)) * sign
    lead = [position.black_discs - position.white_discs for position in game]
    margin = game[-1].black_score() if game[-1].is_over else None
    sheet = Sheet(
        440,
        "The net's opinion along a game",
        "The final margin it expects, for black, at each position; beyond 64 discs it is drawn at the border.",
    )
    last = max(10, math.ceil((len(game) - 1) / 10) * 10)
    field = (MARGIN + 34, HEADER + 28, WIDTH - 2 * MARGIN - 46, 440 - HEADER - 28 - 52)
    plot = Plot(sheet, field, range(0, last + 1, 10), range(-64, 65, 16), "moves played")
    plot.curve(list(enumerate(map(float, lead))), (176, 180, 188), 1.5)
    key = [("net's value", drawing.CURVES[0]), ("discs on the board, black's minus white's", (176, 180, 188))]
    if margin is not None:
        plot.level(margin, drawing.CURVES[1])
        key.append((f"final margin {margin:+d}", drawing.CURVES[1]))
    plot.curve(list(enumerate(opinions.tolist())), drawing.CURVES[0])
    plot.key(key)
    return sheet


# Triangle nets.


def _picture_of_maps(net: Net) -> Sheet | None:
    parts = [(name, *ordered_maps(each)) for name, each in _few_parts(net) if isinstance(each, TriangleNet)]
    if not parts:
        return None
    maps, inputs = parts[0][1].shape
    largest = drawing.nice_limit(np.stack([weights for _, weights, _ in parts]))
    shown = min(maps, MOST_MAPS)
    columns = 6 if len(parts) == 1 else 8 if shown <= 8 else 12
    step = (WIDTH - 2 * MARGIN + 8) / columns
    cell = (step - 10) / 8
    boards = ["disc", "empty"] if inputs > 10 else [""]
    block = 20 + len(boards) * (8 * cell + 6) + 8
    lines = math.ceil(shown / columns)
    top, part_height = HEADER, lines * block + (24 if len(parts) > 1 else 6)
    below = " Under each map: the weights of empty squares." if inputs > 10 else ""
    sheet = Sheet(
        HEADER + len(parts) * part_height + LEGEND,
        "Maps of the triangle net" + (f", {shown} of {maps}" if shown < maps else ""),
        "Ten weights each, on all eight triangles of the board. Above a map: the mean size of its output weights.",
        f"Blue is good for the mover; full colour is a weight of {drawing.short(largest, largest)}." + below,
    )
    for name, weights, sizes in parts:
        if len(parts) > 1:
            sheet.text(MARGIN, top + 14, name, 13, "ls")
            top += 18
        for i in range(shown):
            left, y = MARGIN + i % columns * step, top + i // columns * block
            sheet.text(left + 4 * cell, y + 10, drawing.short(sizes[i], limit=0.1), 11, colour=drawing.GREY)
            for j in range(len(boards)):
                values = on_board(weights[i, 10 * j : 10 * j + 10])
                drawing.draw_board(sheet, left, y + 20 + j * (8 * cell + 6), cell, values / largest, 1.0, numbers=False)
        top += part_height - (18 if len(parts) > 1 else 0)
    drawing.draw_legend(sheet, 1.0, "", "own disc is bad", "own disc is good")
    return sheet


# Staged nets.


def _picture_of_coefficients(net: Net) -> Sheet | None:
    staged = [each for each in net.modules() if isinstance(each, Staged)]
    if not staged:
        return None
    names = ["black's net", "white's net"] if len(staged) == 2 else [""] * len(staged)
    tables = np.stack([coefficients_by_discs(each) for each in staged])
    by_network = staged[0].gate == "network"
    finite = tables[np.isfinite(tables)]
    step = drawing.nice_limit(finite) / 4
    below, above = (math.ceil(max(0.0, float((sign * finite).max(initial=0))) / step - 1e-6) for sign in (-1, 1))
    y_ticks = [step * i for i in range(-below, max(above, 1) + 1)]
    field_height = 250
    sheet = Sheet(
        HEADER + len(staged) * (field_height + 90),
        "How the nets are blended",
        f"The value is the sum of the nets' values times these coefficients ({staged[0].gate}).",
        "Those of a network hang on the position: here, their mean over random games." if by_network else "",
    )
    for i, (each, table, name) in enumerate(zip(staged, tables, names, strict=True)):
        top = HEADER + i * (field_height + 90) + 28
        if name:
            sheet.text(WIDTH - MARGIN, top - 14, name, 13, "rm")
        field = (MARGIN + 40, top, WIDTH - 2 * MARGIN - 52, field_height)
        plot = Plot(sheet, field, range(4, 65, 10), y_ticks, "discs on the board")
        colours = [drawing.CURVES[j % len(drawing.CURVES)] for j in range(len(each.centres))]
        for j, colour in enumerate(colours):
            plot.curve([(float(n), float(table[n, j])) for n in range(4, 65)], colour)
        form = "about {:g} discs" if len(colours) <= 4 else "{:g} discs"
        key = [(form.format(centre), colour) for centre, colour in zip(each.centres, colours, strict=True)]
        plot.key(key, room=100 if name else 0)
    return sheet


# Stages of n-tuple nets.


def _picture_of_stages(net: Net) -> Sheet | None:
    parts = [(name, each) for name, each in _few_parts(net) if isinstance(each, NTupleNet) and each.stages > 1]
    if not parts:
        return None
    first = parts[0][1]
    values = np.stack([contributions(each) for _, each in parts])  # [parts, shapes, stages]
    most = MOST_SHAPES if len(parts) == 1 else MOST_SHAPES // 2
    shown = list(range(len(first.tuples)))
    of_all = ""
    if len(first.tuples) > most:
        shown = sorted(np.argsort(-np.nan_to_num(values).mean((0, 2)), kind="stable")[:most].tolist())
        of_all = f" The {most} of {len(first.tuples)} shapes with the largest."
    row, left, top = 30, MARGIN + 140, HEADER
    above = 20 if parts[0][0] else 4
    part_height = above + row * len(shown) + 44
    sheet = Sheet(
        HEADER + len(parts) * part_height + LEGEND,
        "What each shape contributes",
        "In discs: how far the value moves, in the mean of random boards, if a shape says what it says on the average.",
        f"The opening is on the left.{of_all}",
    )
    for part, (name, each) in enumerate(parts):
        sheet.text(left, top + 6, name, 13, "lm")
        for i, shape in enumerate(shown):
            _draw_shape(sheet, MARGIN, top + above + i * row, (row - 4) / 8, each.tuples[shape])
            sheet.text(left - 8, top + above + (i + 0.5) * row - 2, shape_name(each.tuples[shape]), 11, "rm")
        _draw_stage_cells(sheet, each, left, top + above, row, values[part, shown])
        top += part_height
    drawing.draw_legend(sheet, CONTRIBUTION_LIMIT, "discs", "", "", drawing.rising)
    return sheet


def _draw_shape(sheet: Sheet, left: float, top: float, cell: float, squares: Sequence[int]) -> None:
    for square in range(64):
        fill = drawing.INK if square in squares else drawing.RULE
        sheet.box(left + square % 8 * cell, top + square // 8 * cell, cell - 0.67, cell - 0.67, fill)


def _draw_stage_cells(sheet: Sheet, net: NTupleNet, left: float, top: float, row: float, values: np.ndarray) -> None:
    """``values`` ``[shapes, stages]``, the opening on the left."""
    width = (WIDTH - MARGIN - left) / net.stages
    every = math.ceil(46 / width)
    bottom = top + row * len(values)
    for stage in range(net.stages):
        x = left + (net.stages - 1 - stage) * width
        for i, value in enumerate(values[:, stage].tolist()):
            _draw_size(sheet, (x, top + i * row, width, row - 2), value, CONTRIBUTION_LIMIT)
        if stage % every == 0:
            empties = np.flatnonzero(stages_of_empties(net.stages)[:61] == stage)
            words = f"{empties[-1]}-{empties[0]}" if len(empties) > 1 else f"{empties[0]}"
            sheet.text(x + width / 2, bottom + 8, words, 11, colour=drawing.GREY)
    sheet.text(left + net.stages * width / 2, bottom + 26, "empty squares", 12, colour=drawing.GREY)


def _draw_size(sheet: Sheet, box: tuple[float, float, float, float], value: float, limit: float) -> None:
    if box[2] >= 30:
        drawing.draw_value(sheet, box, value, limit, 11)
    else:
        sheet.box(box[0], box[1], box[2] - 0.67, box[3] - 1, drawing.rising(value, limit))
