"""The pictures of learning in README: how strong a net becomes, and what it has learnt by then.

    python benchmarks/learning_pictures.py docs/curve.png docs/learnt.png

Trains the preset ``quick`` with its seed, rates it at 0, 256, 512, 1,024 … games and at the end, and draws both.
"""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # this clone's package, installed or not

import numpy as np
from PIL import Image

from benchmarks.board_picture import shrink
from othello_nn.arena.lockstep import CompiledSide
from othello_nn.arena.rating import Rating
from othello_nn.config import load_preset
from othello_nn.learn.distributed import Group
from othello_nn.learn.make import make_learner
from othello_nn.learn.trainer import FIRST_FRAME
from othello_nn.learn.watch import drawing
from othello_nn.learn.watch.drawing import HEADER, MARGIN, WIDTH, Plot, Sheet
from othello_nn.learn.watch.ladder import ELO, ELO_HIGH, ELO_LOW, RUNGS, Ladder
from othello_nn.learn.watch.pictures import SQUARES, pictures
from othello_nn.learn.watch.strength import Self
from othello_nn.nets import Net

PRESET, DOUBLE_GAMES, HEIGHT = "quick", 500, 400
Point = tuple[int, Rating]


def main(curve_path: str, learnt_path: str) -> int:
    points, net = grow()
    for path, picture in ((curve_path, picture_of_curve(points)), (learnt_path, pictures(net)[SQUARES])):
        Image.fromarray(picture).save(path)
        shrink(path)
        print(f"{path}: {Path(path).stat().st_size / 1000:.0f} kB")
    return 0


def grow() -> tuple[list[Point], Net]:
    """A net's ratings on its way, by its games, and the net at the end."""
    threads = os.cpu_count() or 1
    learner = make_learner(load_preset(PRESET), "cpu", Group(), threads)
    ladder, points, due = Ladder(DOUBLE_GAMES, 1, threads), [], 0
    while True:
        if learner.games >= due or learner.progress >= 1:
            now = Self.of(learner.games, learner.net())
            scores = ladder.scores(CompiledSide(now.evaluator), now.evaluator)
            points.append((learner.games, Rating(*(scores[tag] for tag in (ELO, ELO_LOW, ELO_HIGH)))))
            due = max(FIRST_FRAME, 2 * due)
        if learner.progress >= 1:
            return points, learner.net()
        learner.step()


def picture_of_curve(points: list[Point]) -> np.ndarray:
    """uint8 ``[height, width, 3]``: the rating over games, which are on a logarithmic scale, and the rungs."""
    at = lambda games: math.log2(max(games, FIRST_FRAME / 2))  # noqa: E731
    first, last = at(0), at(points[-1][0])
    ticks = [first, *(float(power) for power in range(round(at(FIRST_FRAME)), round(last) + 1, 2)), last + 0.1]
    words = ["0", *(f"{2 ** round(tick):,}" for tick in ticks[1:-1]), ""]
    sheet = Sheet(
        HEIGHT,
        "A net grows up",
        "Elo at 1-ply of the net that python train.py teaches, with its 95% interval. Dashed: those it is rated by.",
    )
    field = (MARGIN + 40, HEADER, WIDTH - 2 * MARGIN - 140, HEIGHT - HEADER - 52)
    plot = Plot(sheet, field, ticks, range(0, 901, 100), "games learnt from", words)
    for name, elo in RUNGS.items():
        plot.level(elo, drawing.CURVES[5])
        sheet.text(field[0] + field[2] + 8, plot.at(last, elo)[1], name, 12, "lm")
    for bound in ("low", "high"):
        plot.curve([(at(games), getattr(rating, bound)) for games, rating in points], (160, 190, 226), 1.2)
    plot.curve([(at(games), rating.elo) for games, rating in points], drawing.CURVES[0], 2.5)
    return sheet.array()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
