"""What ProbCut's lines are worth: the champion as it is against itself with the deviation alone, until that is decided.

Before there were lines, a shallow result was taken as it is (a = 1, b = 0) with a deviation about it, and depths from 3
on were cut. Here both forms are fitted anew to the same net and the same positions, and play with the same number of
nodes. The champion's own fit plays, too; but it was made from other positions and has another σ, so that the games say
as much about how widely to cut as about the form. ``docs/search.md`` shows the table.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.harness import Report, Settings, benchmark, markdown_table
from benchmarks.margins import CHUNK, SEED, Margins, Pair, play_pairs, score_of
from benchmarks.strength import JOBS
from othello_nn.arena.openings import make_openings
from othello_nn.arena.sprt import ACCEPT, REJECT, Sprt
from othello_nn.checkpoint import Checkpoint
from othello_nn.engine.probcut import (
    MIN_DEPTH,
    PLAIN_MIN_DEPTH,
    SELECTIVITY_LEVELS,
    TIMED_LEVEL,
    ProbCut,
    shallow_depth,
)
from othello_nn.fit.probcut import fit, fit_plain, searched_samples
from othello_nn.learn.data.learner import PROBCUT
from othello_nn.progress import progress

ELO0, ELO1 = 0, 10
NODES, MOST_GAMES = 10_000, 10_000
BALANCE = 4.0  # discs: a game that is decided by its opening tells nothing
LINES, PLAIN = "lines", "plain"
AGAIN, SHIPPED = "fitted to the same positions", "as shipped"
TYPICAL = 32, 6  # empties and depth
VERDICTS = {ACCEPT: f"at least {ELO1:+d} Elo", REJECT: f"at most {ELO0:+d} Elo", "": "not decided"}


def sprt_after(pairs: Sequence[Pair]) -> Sprt:
    """The test after these games."""
    test = Sprt(ELO0, ELO1)
    for opening, pair in enumerate(pairs):
        for margin in pair:
            test = test.after(opening, margin)
    return test


def is_decided(pairs: Sequence[Pair]) -> bool:
    if not pairs:
        return False
    test = sprt_after(pairs)
    print(f"  {2 * len(pairs)} games: LLR {test.llr:+.2f} of ±{test.bound:.2f}", file=sys.stderr, flush=True)
    return bool(test.decision)


def fitted_nets(settings: Settings, folder: Path) -> dict[str, Path]:
    """The net in files of its own, with both forms of ProbCut fitted to the same positions."""
    how = PROBCUT | ({"positions": 150, "depth": 5, "solve_empties": 13} if settings.quick else {})
    with progress("fitting", how["positions"]) as bar:
        samples = searched_samples(settings.tables, **how, seed=SEED, on_position=lambda at, of: bar.update(at))
    nets = {}
    for form, fitted in {LINES: fit(samples), PLAIN: fit_plain(samples)}.items():
        nets[form] = folder / f"{form}.safetensors"
        replace(Checkpoint.load(settings.checkpoint), probcut=fitted.numbers()).save(nets[form])
    return nets


def width_of(net: Path) -> float:
    """A typical deviation, in discs."""
    numbers = Checkpoint.load(net).probcut
    assert numbers is not None
    return float(ProbCut.of(numbers).sigma(*TYPICAL, shallow_depth(TYPICAL[1])))


@benchmark("probcut-sprt", f"ProbCut with lines against the deviation alone, equal nodes: SPRT {ELO0},{ELO1}")
def probcut_sprt(settings: Settings) -> Report:
    nodes, most = settings.size(NODES, 500), settings.size(MOST_GAMES, 8)
    asked = {"nodes": nodes, "openings": f"random:8 within {BALANCE:g}", "most_games": most}
    asked |= settings.describe_evaluator()
    with progress("choosing openings"):
        openings = make_openings("random:8", most // 2, SEED, BALANCE)
    limits, rows, values, kept = f"nodes={nodes},table=8", [], {}, []
    with tempfile.TemporaryDirectory() as name:
        nets = fitted_nets(settings, Path(name))
        for first, net in {AGAIN: nets[LINES], SHIPPED: settings.checkpoint}.items():
            print(f"  {first}", file=sys.stderr)
            kept.append(margins := Margins("probcut-sprt", asked | {"first": first}, not settings.quick))
            players = f"{net}:{limits}", f"{nets[PLAIN]}:{limits}"
            play_pairs(*players, openings, margins, JOBS, is_decided, settings.size(CHUNK, 2))
            widths = width_of(net), width_of(nets[PLAIN])
            row, values[first] = _row(margins.known, widths)
            rows.append((f"a, b and σ, from depth {MIN_DEPTH}, {first}", *row))
    for margins in kept:
        margins.forget()
    against = (
        f"{nodes:,} nodes a move, t = {SELECTIVITY_LEVELS[TIMED_LEVEL]}; against σ alone, from depth {PLAIN_MIN_DEPTH}"
    )
    header = (against, "σ, of both", "games", "won", "drawn", "lost", "score", "95%", "Elo", "LLR",
              f"test of {ELO0:+d} against {ELO1:+d} Elo")  # fmt: skip
    return Report(values[AGAIN]["elo"] or 0.0, "Elo", markdown_table(header, rows), values, asked)


def _row(pairs: Sequence[Pair], widths: tuple[float, float]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A line of the table, and its figures."""
    test, found = sprt_after(pairs), score_of(pairs)
    low, high = found.interval
    row = (
        "{:.2f}, {:.2f}".format(*widths),
        f"{found.games:,}", found.wins, found.draws, found.losses, f"{found.score:.3f}", f"{low:.3f} to {high:.3f}",
        "" if found.elo is None else f"{found.elo:+.1f}", f"{test.llr:+.2f} of ±{test.bound:.2f}",
        VERDICTS[test.decision],
    )  # fmt: skip
    return row, found.as_dict() | {"sigma": widths, "sprt": test.as_dict()}
