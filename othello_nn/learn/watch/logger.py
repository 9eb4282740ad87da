"""Writes TensorBoard's scalars, histograms and pictures. Read ``curves.py`` first."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from othello_nn.checkpoint import check_positions
from othello_nn.config import Config, flat
from othello_nn.learn.watch.curves import curve, find_curve
from othello_nn.learn.watch.ladder import ELO, ELO_HIGH, ELO_LOW, LEOUSKI
from othello_nn.learn.watch.probes import ask
from othello_nn.learn.watch.strength import RANDOM, SWH, Self
from othello_nn.nets import Net, NTupleNet
from othello_nn.program import TRAIN, note

WEIGHTS = curve("weights/*", "histogram of a parameter")
VALUES = curve("values/discs", "histogram of what the net says of a fixed set of positions of random games, in discs")
CONFIG = curve("config", "the configuration of the run: what differs from the preset, then everything")
VECTORS = curve("projector", "embedding nets: a table's vectors by their contents, in TensorBoard's projector")


class Margin(NamedTuple):
    """A chart of one curve between two others."""

    value: str
    low: str
    high: str


LAYOUT: dict[str, dict[str, list[str] | Margin]] = {
    "strength": {
        "Elo against the ladder": Margin(ELO, ELO_LOW, ELO_HIGH),
        "score": ["score/.*"],
        "score by rung": ["ladder/.*"],
    },
    "learning": {"loss": ["loss/td_error"], "error by empty squares": ["td_error/.*"], "rate": ["rate/.*"]},
    "speed": {"speed": ["speed/.*"]},
}
"""TensorBoard's page of custom scalars: what matters most first, curves of a kind in one chart, by their tags."""
HISTOGRAM_SIZE = 50_000
COMPARED = (ELO, SWH, RANDOM, LEOUSKI)
"""The scores beside the settings on the page of hyperparameters."""
UNCOMPARED = "description", "device", "measure.", "net.tuples"
"""Settings that have no say in what is learnt, or are too long for a table: it shows the first five by name."""
VECTOR_FILE, LABEL_FILE = "vectors.tsv", "vectors-contents.tsv"


class Logger:
    """Writes a run's curves. ``games`` is the horizontal axis of all of them."""

    def __init__(self, folder: Path, games: int = 0):
        from torch.utils.tensorboard import SummaryWriter

        # Points that a killed process wrote after the state it is resumed from are taken back.
        self._folder = folder
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
            group: {
                name: ["Margin" if isinstance(tags, Margin) else "Multiline", list(tags)]
                for name, tags in charts.items()
            }
            for group, charts in LAYOUT.items()
        }
        self._write(self._writer.add_custom_scalars, layout)
        self._write_settings(config)

    def _write_settings(self, config: Config) -> None:
        """The settings for the page of hyperparameters, where runs are rows: with the scores that are in this run."""
        from torch.utils.tensorboard.summary import hparams

        plain = {
            name: value if isinstance(value, bool | int | float | str) else json.dumps(value)
            for name, value in flat(config.as_dict()).items()
            if not name.startswith(UNCOMPARED) and value not in (None, "")
        }
        writer: Any = self._writer.file_writer
        for summary in hparams(plain, dict.fromkeys(COMPARED, 0.0)):
            self._write(writer.add_summary, summary)

    def projector(self, net: Net) -> None:
        """The vectors of an embedding net for TensorBoard's projector, in place of those that were there before."""
        if not isinstance(net, NTupleNet) or net.dim == 1:
            return
        from othello_nn.learn.watch.contributions import table_vectors

        found = table_vectors(net)
        rows = ["\t".join(f"{number:.5g}" for number in vector) for vector in found.vectors.tolist()]
        labels = ["contents\tworth in discs\town discs\topponent's\tempty"]
        labels += [
            f"{each}\t{worth:.2f}\t{each.count('X')}\t{each.count('O')}\t{each.count('-')}"
            for each, worth in zip(found.contents, found.worths.tolist(), strict=True)
        ]
        settings = (
            f'embeddings {{\n  tensor_name: "{found.shape}"\n  tensor_path: "{VECTOR_FILE}"\n'
            f'  metadata_path: "{LABEL_FILE}"\n}}'
        )
        for name, lines in ((VECTOR_FILE, rows), (LABEL_FILE, labels), ("projector_config.pbtxt", [settings])):
            self._write((self._folder / name).write_text, "\n".join(lines) + "\n", encoding="utf-8")

    def scalars(self, metrics: dict[str, float], games: int) -> None:
        for tag, value in metrics.items():
            find_curve(tag)  # nothing is drawn that nobody explains
            self._write(self._writer.add_scalar, tag, value, games)

    def pictures(self, net: Net, others: dict[str, np.ndarray], games: int, earlier: Self | None = None) -> None:
        """Those of a net, of its games, and what else its learner has to show."""
        from othello_nn.learn.watch.games import CALIBRATION, STRIP, picture_of_calibration, picture_of_strip
        from othello_nn.learn.watch.pictures import one_thread, pictures

        found = pictures(net) | others
        with one_thread():
            if games:
                found[CALIBRATION] = picture_of_calibration(net)
            if earlier is not None:
                found[STRIP] = picture_of_strip(net, games, earlier)
        for tag, image in found.items():
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
