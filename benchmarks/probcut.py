"""What ProbCut's lines are worth: the champion as it is against itself with the deviation alone, until that is decided.

Before there were lines, a shallow result was taken as it is (a = 1, b = 0) with a deviation about it, and depths from 3
on were cut. That form is fitted here anew to the same net, with as many positions as the champion's own fit has had,
and plays with the same number of nodes. ``docs/search.md`` shows the table.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.harness import Report, Settings, benchmark, markdown_table
from benchmarks.margins import CHUNK, SEED, Margins, Pair, play_pairs, score_of
from benchmarks.strength import JOBS
from othello_nn.arena.openings import make_openings
from othello_nn.arena.sprt import ACCEPT, REJECT, Sprt
from othello_nn.checkpoint import Checkpoint
from othello_nn.engine.probcut import MIN_DEPTH, PLAIN_MIN_DEPTH, SELECTIVITY_LEVELS, TIMED_LEVEL
from othello_nn.fit.probcut import fit_plain, searched_samples
from othello_nn.learn.data.learner import PROBCUT
from othello_nn.progress import progress

ELO0, ELO1 = 0, 10
NODES, MOST_GAMES = 10_000, 10_000
BALANCE = 4.0  # discs: a game that is decided by its opening tells nothing
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


def plain_net(settings: Settings, folder: Path) -> Path:
    """The net in a file of its own, with a ProbCut of the old form."""
    how = PROBCUT | ({"positions": 150, "depth": 5, "solve_empties": 13} if settings.quick else {})
    with progress("fitting", how["positions"]) as bar:
        samples = searched_samples(settings.tables, **how, seed=SEED, on_position=lambda at, of: bar.update(at))
    path = folder / "plain.safetensors"
    replace(Checkpoint.load(settings.checkpoint), probcut=fit_plain(samples).numbers()).save(path)
    return path


@benchmark("probcut-sprt", f"ProbCut with lines against the deviation alone, equal nodes: SPRT {ELO0},{ELO1}")
def probcut_sprt(settings: Settings) -> Report:
    nodes, most = settings.size(NODES, 500), settings.size(MOST_GAMES, 8)
    asked = {"nodes": nodes, "openings": f"random:8 within {BALANCE:g}", "most_games": most}
    asked |= settings.describe_evaluator()
    margins = Margins("probcut-sprt", asked, not settings.quick)
    with progress("choosing openings"):
        openings = make_openings("random:8", most // 2, SEED, BALANCE)
    limits = f"nodes={nodes},table=8"
    with tempfile.TemporaryDirectory() as name:
        players = f"{settings.checkpoint}:{limits}", f"{plain_net(settings, Path(name))}:{limits}"
        play_pairs(*players, openings, margins, JOBS, is_decided, settings.size(CHUNK, 2))
    margins.forget()
    test, found = sprt_after(margins.known), score_of(margins.known)
    t, (low, high) = SELECTIVITY_LEVELS[TIMED_LEVEL], found.interval
    row = (
        f"a, b and σ, from depth {MIN_DEPTH} (as it is), against σ alone, from depth {PLAIN_MIN_DEPTH}",
        f"{found.games:,}", found.wins, found.draws, found.losses, f"{found.score:.3f}", f"{low:.3f} to {high:.3f}",
        "" if found.elo is None else f"{found.elo:+.1f}", f"{test.llr:+.2f} of ±{test.bound:.2f}",
        VERDICTS[test.decision],
    )  # fmt: skip
    header = (f"{nodes:,} nodes a move, t = {t}", "games", "won", "drawn", "lost", "score", "95%", "Elo", "LLR",
              f"test of {ELO0:+d} against {ELO1:+d} Elo")  # fmt: skip
    values = found.as_dict() | {"sprt": test.as_dict()}
    return Report(found.elo or 0.0, "Elo", markdown_table(header, [row]), values, asked)
