"""``train.py --compare``: two or more runs side by side, as a table and a picture of how strong they became."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, TextIO

from othello_nn.checkpoint import read_meta
from othello_nn.cli.base import Failure, UsageError
from othello_nn.config import Config, flat
from othello_nn.errors import shorten
from othello_nn.sparkline import can_show_sparkline, sparkline

SCORE = "score/swh"
"""The curve that is compared: declared in ``learn/watch/strength.py``, which would load torch."""
WIDTH, HEIGHT, LEFT, RIGHT, TOP, FOOT = 760, 400, 56, 150, 44, 48
"""In pixels: the picture, and what is left free around the curves."""
INKS = ("#1854aa", "#c0392b", "#1e8449", "#8e44ad", "#b9770e", "#117a8b", "#5d6d7e", "#7b241c")
_PAPER, _INK, _GREY, _RULE = "#ffffff", "#1c1e22", "#696e76", "#d6d9de"


@dataclass(frozen=True)
class Shown:
    """A run as far as it is compared."""

    name: str
    config: Config
    info: dict[str, Any]
    """What its net's file says of it; empty before the first save."""
    curve: list[tuple[int, float]]
    """Games, and the score against the Standard WPC Heuristic."""

    @classmethod
    def read(cls, name: str, runs: Path) -> Shown:
        from othello_nn.learn.runs import Run

        run = Run.open(runs, name)
        info = read_meta(run.net_path)["info"] if run.net_path.is_file() else {}
        return cls(run.name, run.config, info, read_curve(run.folder, SCORE))


def read_curve(folder: Path, tag: str) -> list[tuple[int, float]]:
    """A curve of a run as TensorBoard has it: steps and values."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    return [(point.step, point.value) for point in events.Scalars(tag)] if tag in events.Tags()["scalars"] else []


def compare(names: Sequence[str], runs: Path, picture: str | None, out: TextIO) -> None:
    """Print the table, and draw the picture if its name is given."""
    if len(names) < 2:
        raise UsageError("--compare takes two or more runs")
    if picture is not None and Path(picture).suffix.lower() != ".svg":
        raise UsageError(f"--picture {picture!r}: the name must end in .svg")
    shown = [Shown.read(name, runs) for name in names]
    for line in (*_strength_table(shown, can_show_sparkline(out)), "", *_settings_table(shown)):
        print(line.rstrip(), file=out)
    if picture is not None:
        try:
            Path(picture).write_text(curves_over_games(shown), encoding="utf-8")
        except OSError as error:
            raise Failure(f"the picture could not be written to {picture!r}: {error.strerror or error}") from None


def _strength_table(shown: Sequence[Shown], has_blocks: bool) -> list[str]:
    width = max(len("run"), *(len(each.name) for each in shown))
    lines = [f"{'run':{width}s}  {'games':>11s}  {'time':>8s}  random    swh"]
    for each in shown:
        scores = each.info.get("metrics", {})
        cells = [f"{scores[tag]:6.3f}" if tag in scores else "     -" for tag in ("score/random", SCORE)]
        seconds = f"{each.info['seconds']:,} s" if "seconds" in each.info else "-"
        curve = sparkline([score for _, score in each.curve], 0, 1, 40) if has_blocks else ""
        lines.append(
            f"{each.name:{width}s}  {each.info.get('games', 0):11,d}  {seconds:>8s}  {cells[0]} {cells[1]}  {curve}"
        )
    return lines


def _settings_table(shown: Sequence[Shown]) -> list[str]:
    """The settings in which the runs differ."""
    settings = [flat(each.config.as_dict()) for each in shown]
    names = list(dict.fromkeys(name for each in settings for name in each if name != "description"))
    rows = [[name, *(shorten(each.get(name, "-")) for each in settings)] for name in names]
    differing = [row for row in rows if len(set(row[1:])) > 1]
    if not differing:
        return ["the settings are the same"]
    table = [["setting", *(each.name for each in shown)], *differing]
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    return ["  ".join(f"{cell:{width}s}" for cell, width in zip(row, widths, strict=True)) for row in table]


def curves_over_games(shown: Sequence[Shown]) -> str:
    """The scores against games as an SVG picture; games on a logarithmic scale, the untrained net at its left end."""
    steps = [step for each in shown for step, _ in each.curve if step]
    low, high = math.log10(min(steps, default=1)), math.log10(max(steps, default=10))
    low, high = math.floor(low), max(math.ceil(high), math.floor(low) + 1)

    def x(games: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (math.log10(max(games, 10**low)) - low) / (high - low)

    def y(score: float) -> float:
        return HEIGHT - FOOT - (HEIGHT - TOP - FOOT) * score

    title = "Score at 1-ply against the Standard WPC Heuristic"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'role="img" font-family="system-ui, sans-serif">',
        f'<title>{title}</title><rect width="{WIDTH}" height="{HEIGHT}" fill="{_PAPER}"/>',
        f'<text x="16" y="26" font-size="15" fill="{_INK}">{title}</text><g font-size="11" fill="{_GREY}">',
    ]
    for tenth in range(0, 11, 2):
        parts.append(f'<path d="M{LEFT} {y(tenth / 10):.1f}H{WIDTH - RIGHT}" stroke="{_RULE}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y(tenth / 10) + 4:.1f}" text-anchor="end">{tenth / 10:.1f}</text>')
    for power in range(low, high + 1):
        parts.append(f'<path d="M{x(10**power):.1f} {TOP}V{HEIGHT - FOOT}" stroke="{_RULE}"/>')
        where = f'x="{x(10**power):.1f}" y="{HEIGHT - FOOT + 18}"'
        parts.append(f'<text {where} text-anchor="middle">{10**power:,}</text>')
    parts.append(f'<text x="{LEFT}" y="{HEIGHT - 10}">games learnt from</text></g>')
    for number, each in enumerate(shown):
        ink, line = INKS[number % len(INKS)], TOP + 8 + 20 * number
        points = " ".join(f"{x(games):.1f},{y(score):.1f}" for games, score in each.curve)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{ink}" stroke-width="2"/>')
        parts.append(f'<rect x="{WIDTH - RIGHT + 12}" y="{line - 4}" width="14" height="4" fill="{ink}"/>')
        name = escape(each.name if len(each.name) < 18 else f"{each.name[:16]}…")
        parts.append(f'<text x="{WIDTH - RIGHT + 32}" y="{line + 3}" font-size="12" fill="{_INK}">{name}</text>')
    return "".join([*parts, "</svg>"])
