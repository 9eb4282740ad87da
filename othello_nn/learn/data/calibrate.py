"""Find out what a net's scores mean, by games that it plays for the purpose alone; again, for a net that is there:

    python -m othello_nn.learn.data.calibrate checkpoints/champion.safetensors

The positions are those of the games; what they are worth, the solver says of a later position of the same game. Leads
melt in games of shallow searches, and scores that were measured by them would be too small: these look deeper than
those that a net learns from.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from othello_nn.checkpoint import Checkpoint
from othello_nn.engine.calibration import Calibration
from othello_nn.engine.leaf.compile import compile_checkpoint
from othello_nn.engine.leaf.tables import LeafEvaluator
from othello_nn.errors import OthelloError
from othello_nn.fit.calibration import fit_calibration, proven
from othello_nn.fit.tool import add_numbers, exit_code, parser_of, tell
from othello_nn.learn.data.labels import empties_of, firsts, later_records
from othello_nn.learn.data.searched import Play, searched_games
from othello_nn.options import Whole
from othello_nn.resources import find_net

PROVEN = 16
"""Empties of the positions that are solved."""
HOW = Play(depth=8, solve=12, opening_plies=16, latest=12)
PORTION = 512
TOLD = 4
"""Portions from one line of progress to the next."""
NUMBERS = {
    "games": Whole(8000, "games to play", 1),
    "positions": Whole(20_000, "positions to search, all stages alike", 60),
    "seed": Whole(1, "of the games"),
}


def chosen(records: np.ndarray, new: np.ndarray, count: int) -> np.ndarray:
    """Rows of some ``new`` records, at most ``count``, all stages alike."""
    empties, rng = empties_of(records), np.random.default_rng(0)
    empties[~new] = -1
    each = count // 60
    return np.concatenate([rng.permutation(np.flatnonzero(empties == number))[:each] for number in range(61)])


def calibrated(evaluator: LeafEvaluator, games: int, count: int, seed: int, threads: int = 1) -> Calibration:
    """What the evaluator's scores mean, by so many games of its own, of which ``count`` positions are searched.

    A position is worth what the solver says of a later one of its game (``later_records``), or, where there is none,
    its result.
    """
    parts = []
    for first in range(0, games, PORTION):
        parts.append(searched_games(evaluator, HOW, seed, first, min(PORTION, games - first), threads))
        if first // PORTION % TOLD == 0 or first + PORTION >= games:
            tell(f"{min(first + PORTION, games)}/{games} games played for the calibration")
    records = np.concatenate(parts)
    rows = chosen(records, firsts(records), count)
    ends = later_records(records, PROVEN)[rows]
    solved = ends >= 0
    margins = records["margin"][rows].astype(np.float32)
    if solved.any():
        last = records[ends[solved]]
        margins[solved] = proven(evaluator, last["mover"].copy(), last["opponent"].copy(), threads)
    movers, opponents = (records[name][rows] for name in ("mover", "opponent"))
    return fit_calibration(evaluator, movers, opponents, margins, threads)


def run(path: Path, games: int, positions: int, seed: int, threads: int) -> None:
    checkpoint = Checkpoint.load(path)
    evaluator = compile_checkpoint(checkpoint, path.stem)
    if not isinstance(evaluator, LeafEvaluator):
        raise OthelloError(f"{path} looks at the colour to move: its scores are not calibrated")
    found = calibrated(evaluator, games, positions, seed, threads)
    info = checkpoint.info | {"calibration": {"games": games, "positions": positions, "seed": seed}}
    replace(checkpoint, calibration=found.lines, info=info).save(path)
    tell(f"stored in {path}")


def main(argv: list[str] | None = None) -> int:
    parser = parser_of("learn.data.calibrate", __doc__)
    parser.add_argument("net", help="a net's name, a run's or a file; the result is stored in the same file")
    add_numbers(parser, NUMBERS)
    args = parser.parse_args(argv)

    def work() -> None:
        run(find_net(args.net), args.games, args.positions, args.seed, os.cpu_count() or 1)

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main())
