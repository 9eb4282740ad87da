"""Writes TensorBoard's scalars, histograms and pictures. Read ``curves.py`` first."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from othello_nn.checkpoint import check_positions
from othello_nn.config import Config
from othello_nn.learn.watch.curves import curve, find_curve
from othello_nn.learn.watch.probes import ask
from othello_nn.nets import Net
from othello_nn.program import TRAIN, note

WEIGHTS = curve("weights/*", "histogram of a parameter")
VALUES = curve("values/discs", "histogram of what the net says of a fixed set of positions of random games, in discs")
CONFIG = curve("config", "the configuration of the run: what differs from the preset, then everything")
LAYOUT = {
    "strength": {"score at 1-ply": ["score/.*"]},
    "learning": {"loss": ["loss/td_error"], "error by empty squares": ["td_error/.*"], "rate": ["rate/.*"]},
    "speed": {"speed": ["speed/.*"]},
}
"""TensorBoard's page of custom scalars: what matters most first, curves of a kind in one chart, by their tags."""
HISTOGRAM_SIZE = 50_000


class Logger:
    """Writes a run's curves. ``games`` is the horizontal axis of all of them."""

    def __init__(self, folder: Path, games: int = 0):
        from torch.utils.tensorboard import SummaryWriter

        # Points that a killed process wrote after the state it is resumed from are taken back.
        self._writer = SummaryWriter(str(folder), purge_step=games + 1 if games else None)
        self._broken = False
        self._hook_before, threading.excepthook = threading.excepthook, self._thread_failed

    def begin(self, config: Config) -> None:
        """What there is to say before anything is learnt: the settings, and which curves belong together."""
        rows = [f"| `{name}` | {before} | {now} |" for name, (before, now) in config.differences.items()]
        head = [
            f"Settings that are not the preset's ({config.preset}):",
            "",
            "| setting | preset | here |",
            "|---|---|---|",
        ]
        text = json.dumps(config.as_dict(), indent=2, ensure_ascii=False)
        lines = [*head, *rows, "", "All settings:", ""] if rows else []
        lines += [f"    {line}" for line in text.splitlines()]
        self._write(self._writer.add_text, CONFIG, "\n".join(lines), 0)
        layout = {
            group: {name: ["Multiline", tags] for name, tags in charts.items()} for group, charts in LAYOUT.items()
        }
        self._write(self._writer.add_custom_scalars, layout)

    def scalars(self, metrics: dict[str, float], games: int) -> None:
        for tag, value in metrics.items():
            find_curve(tag)  # nothing is drawn that nobody explains
            self._write(self._writer.add_scalar, tag, value, games)

    def pictures(self, net: Net, others: dict[str, np.ndarray], games: int) -> None:
        """Those of a net, and what else its learner has to show."""
        from othello_nn.learn.watch.pictures import pictures

        for tag, image in (pictures(net) | others).items():
            find_curve(tag)
            self._write(self._writer.add_image, tag, image, games, dataformats="HWC")

    def histograms(self, net: Net, games: int) -> None:
        for name, parameter in net.named_parameters():
            values = parameter.detach().reshape(-1).cpu()
            values = values[values != 0][: 20 * HISTOGRAM_SIZE]
            if len(values) > HISTOGRAM_SIZE:
                values = values[:: len(values) // HISTOGRAM_SIZE]
            if len(values):
                self._write(self._writer.add_histogram, WEIGHTS.of(name), values.numpy(), games)
        movers, opponents, black = check_positions(256)
        discs = ask(net, (movers, opponents, black))
        self._write(self._writer.add_histogram, VALUES, discs, games)

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
            note(TRAIN, f"curves cannot be written: {error.strerror or error}; training goes on")

    def _thread_failed(self, failure: threading.ExceptHookArgs) -> None:
        """TensorBoard writes in a thread of its own; ``_write`` gets to know its error too, and says so in a line."""
        if not isinstance(failure.exc_value, OSError):
            self._hook_before(failure)


class Silence:
    """The logger of a rank that does not write."""

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: None
