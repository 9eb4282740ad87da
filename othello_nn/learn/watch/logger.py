"""Training as a person sees it: TensorBoard's scalars, histograms and pictures, and one line at a terminal.

``TAGS`` lists every tag that can appear; ``docs/training.md`` explains them with the same words.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import torch

from othello_nn.checkpoint import check_positions
from othello_nn.nets import Net

TAGS = {
    "loss/td_error": "mean squared difference between the values and their targets (values are between −1 and 1)",
    "loss/explained_variance": "share of the targets' variance that the values explain: 1 is perfect, 0 no better "
    "than a constant",
    "td_error/*": "the same error for positions with so many empty squares",
    "rate/learning": "learning rate",
    "rate/coherence": "temporal coherence: how well a weight's errors agree, 0 to 1, mean over those that have moved",
    "speed/games_per_second": "games played and learnt from, all processes together",
    "score/random": "score at 1-ply against random moves, from random openings",
    "score/swh": "score at 1-ply against the Standard WPC Heuristic in the Othello League, ε = 0.1",
    "score/earlier": "score at 1-ply against the net itself with at most half its games, from random openings",
    "backwards/error_discs": "learning backwards: error of the stage just learnt, in discs, on positions kept from it",
    "backwards/stage": "learning backwards: the stage just learnt, 0 is the end of the game",
    "backwards/round": "learning backwards: the round, whose games were played with the net of the round before",
    "backwards/positions": "learning backwards: distinct positions that the stage was learnt from",
    "games/black_score": "Leouski's training: black's score against white in the games learnt from",
    "games/black_margin": "Leouski's training: black's mean margin in these games, in discs",
    "fitness/best": "evolution: League score of the best individual, over the games of one generation",
    "fitness/parents": "evolution: mean League score of those that become parents",
    "fitness/mean": "evolution: mean League score of all individuals",
    "fitness/new_parents": "evolution: share of the parents that were born in this generation",
    "weights/*": "histogram of a parameter",
    "values/discs": "histogram of what the net says of a fixed set of positions of random games, in discs",
    "pictures/squares": "what an own disc is worth on each square, early, in the middle and late",
    "pictures/edges": "what well-known edges are worth to their owner",
    "pictures/triangle": "the triangle net's maps, laid out on the board",
    "pictures/coefficients": "application coefficients, or the learned gate, over the game",
    "pictures/game": "the net's opinion along a sample game",
    "pictures/stages": "size of the weights by shape and stage",
    "config": "the configuration of the run, as text",
}
HISTOGRAM_SIZE = 50_000


def known_tag(tag: str) -> bool:
    return any(fnmatchcase(tag, pattern) for pattern in TAGS)


class Monitor:
    """Writes a run's curves. ``games`` is the horizontal axis of all of them."""

    def __init__(self, folder: Path, games: int = 0):
        from torch.utils.tensorboard import SummaryWriter

        # Points that a killed process wrote after the state it is resumed from are taken back.
        self._writer = SummaryWriter(str(folder), purge_step=games + 1 if games else None)
        self._broken = False
        self._hook_before, threading.excepthook = threading.excepthook, self._thread_failed

    def config(self, values: dict[str, Any]) -> None:
        text = json.dumps(values, indent=2, ensure_ascii=False)
        self._write(self._writer.add_text, "config", "\n".join(f"    {line}" for line in text.splitlines()), 0)

    def scalars(self, metrics: dict[str, float], games: int) -> None:
        for tag, value in metrics.items():
            if not known_tag(tag):
                raise ValueError(f"the tag {tag!r} is not in TAGS")
            self._write(self._writer.add_scalar, tag, value, games)

    def pictures(self, net: Net, games: int) -> None:
        from othello_nn.learn.watch.pictures import pictures

        for tag, image in pictures(net).items():
            self._write(self._writer.add_image, tag, image, games, dataformats="HWC")

    def histograms(self, net: Net, games: int) -> None:
        for name, parameter in net.named_parameters():
            values = parameter.detach().reshape(-1).cpu()
            values = values[values != 0][: 20 * HISTOGRAM_SIZE]
            if len(values) > HISTOGRAM_SIZE:
                values = values[:: len(values) // HISTOGRAM_SIZE]
            if len(values):
                self._write(self._writer.add_histogram, f"weights/{name}", values.numpy(), games)
        movers, opponents, black = check_positions(256)
        device = next(net.parameters()).device
        mover, opponent = (torch.from_numpy(board.view(np.int64)).to(device) for board in (movers, opponents))
        with torch.no_grad():
            discs = net.discs(mover, opponent, torch.from_numpy(black).to(device))
        self._write(self._writer.add_histogram, "values/discs", discs.cpu().numpy(), games)

    def flush(self) -> None:
        self._write(self._writer.flush)

    def close(self) -> None:
        self._write(self._writer.close)
        threading.excepthook = self._hook_before

    def _write(self, write: Callable[..., Any], *arguments: Any, **keywords: Any) -> None:
        """Curves are not worth a run: on a full disk training goes on without them."""
        if self._broken:
            return
        try:
            write(*arguments, **keywords)
        except OSError as error:
            self._broken = True
            print(f"train.py: curves cannot be written: {error.strerror or error}; training goes on", file=sys.stderr)

    def _thread_failed(self, failure: threading.ExceptHookArgs) -> None:
        """TensorBoard writes in a thread of its own; ``_write`` gets to know its error too, and says so in a line."""
        if not isinstance(failure.exc_value, OSError):
            self._hook_before(failure)


class Silence:
    """The monitor of a process that does not lead."""

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: None
