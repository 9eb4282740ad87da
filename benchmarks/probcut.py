"""What ProbCut's lines are worth: the champion as it is against itself with the deviation alone, until that is decided.

Before there were lines, a shallow result was taken as it is (a = 1, b = 0) with a deviation about it, and depths from 3
on were cut. That form is fitted here anew to the same net, with as many positions as the champion's own fit has had,
and plays with the same number of nodes. ``docs/search.md`` shows the table.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import BenchmarkError, Report, Settings, benchmark, machine_facts, markdown_table
from benchmarks.strength import JOBS
from othello_nn.arena.match import play_match
from othello_nn.arena.openings import Opening, make_openings
from othello_nn.arena.sprt import ACCEPT, REJECT, Sprt
from othello_nn.arena.statistics import elo_difference, wilson_interval
from othello_nn.checkpoint import Checkpoint
from othello_nn.engine.probcut import PLAIN_MIN_DEPTH, SELECTIVITY_LEVELS, TIMED_LEVEL
from othello_nn.fit.probcut import fit_plain, searched_samples
from othello_nn.kernels.jit import user_cache
from othello_nn.learn.data.learner import PROBCUT
from othello_nn.progress import progress

SEED = 1
ELO0, ELO1 = 0, 10
NODES = 10_000
MOST_GAMES = 12_000
CHUNK = 100
"""Openings between two looks at the test: games end in any order, and what is decided must not depend on it."""
BALANCE = 4.0  # discs: what is decided by its opening tells nothing
OTHERS = (SELECTIVITY_LEVELS[TIMED_LEVEL], 0.7)
"""Deviations that the old form allows for: as many as the new one, and fewer, which did it good in earlier trials."""
VERDICTS = {ACCEPT: f"at least {ELO1:+d} Elo", REJECT: f"at most {ELO0:+d} Elo", "": "not decided"}


class Margins:
    """What the games ended with, in the user's cache folder, so that a test that was stopped goes on.

    It is that of one revision and one set of settings: where there are changes nothing is kept.
    """

    def __init__(self, settings: dict[str, Any], keep: bool):
        machine = machine_facts()
        self.known: list[tuple[int, int]] = []
        """For every opening, in its order: the margins of the game with black and of that with white."""
        self._path: Path | None = None
        if keep and not machine["dirty"]:
            key = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]
            self._path = user_cache() / "othello_nn" / f"probcut-sprt-{machine['revision']}-{key}.jsonl"
        if self._path is not None and self._path.exists():
            for line in self._path.read_text(encoding="utf-8").splitlines():
                self.known += [(black, white) for black, white in json.loads(line)]

    def add(self, margins: Sequence[tuple[int, int]]) -> None:
        self.known += margins
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(margins) + "\n")

    def forget(self) -> None:
        """The benchmark is over."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def played_out(a: str, b: str, openings: Sequence[Opening], margins: Margins, first: Sprt, chunk: int) -> Sprt:
    """Play until the test is decided or there are no more openings; ``margins`` then has the games that counted."""
    test, done = first, 0
    with progress("playing", 2 * len(openings)) as bar:
        while done < len(openings) and not test.decision:
            if len(margins.known) <= done:
                result = play_match(a, b, openings[done : done + chunk], jobs=JOBS, seed=SEED)
                if result.interrupted:
                    raise KeyboardInterrupt
                if failed := [one.game.comment for one in result.played if one.forfeited]:
                    raise BenchmarkError(f"a player failed: {failed[0]}")
                found = [one.margin for one in result.played]
                margins.add(list(zip(found[::2], found[1::2], strict=True)))
            for opening in range(done, min(done + chunk, len(margins.known))):
                for margin in margins.known[opening]:
                    test = test.after(opening, margin)
            done = min(done + chunk, len(margins.known))
            bar.update(2 * done, f"LLR {test.llr:+.2f}")
            print(f"  {2 * done} games: LLR {test.llr:+.2f} of ±{test.bound:.2f}", file=sys.stderr, flush=True)
    return test


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
    with progress("choosing openings"):
        openings = make_openings("random:8", most // 2, SEED, BALANCE)
    rows, values, kept = [], {}, []
    with tempfile.TemporaryDirectory() as name:
        plain = plain_net(settings, Path(name))
        asked = {
            "nodes": nodes,
            "openings": f"random:8 within {BALANCE:g}",
            "most_games": most,
            **settings.describe_evaluator(),
        }
        for trust in OTHERS:
            print(f"  against t = {trust}", file=sys.stderr)
            limits = f"nodes={nodes},table=8"
            kept.append(margins := Margins(asked | {"trust": trust}, not settings.quick))
            test = played_out(
                f"{settings.checkpoint}:{limits}", f"{plain}:{limits},trust={trust}", openings, margins,
                Sprt(ELO0, ELO1), settings.size(CHUNK, 2),
            )  # fmt: skip
            row, values[f"t = {trust}"] = _row(test, margins)
            rows.append((f"σ alone, from depth {PLAIN_MIN_DEPTH}, t = {trust}", *row))
    for margins in kept:
        margins.forget()
    header = (f"a, b and σ, from depth 2, t = {SELECTIVITY_LEVELS[TIMED_LEVEL]}, against", "games", "won", "drawn",
              "lost", "score", "95%", "Elo", "LLR", f"test of {ELO0:+d} against {ELO1:+d}")  # fmt: skip
    same = values[f"t = {OTHERS[0]}"]
    return Report(same["elo"] or 0.0, "Elo", markdown_table(header, rows), values, asked)


def _row(test: Sprt, margins: Margins) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A line of the table, and its figures."""
    pairs = sum(test.pairs)
    found = np.array(margins.known[:pairs]).ravel()
    won, drawn, lost = (int(count.sum()) for count in (found > 0, found == 0, found < 0))
    score = (won + drawn / 2) / len(found)
    low, high = wilson_interval(score, len(found))
    elo = elo_difference(score)
    figures = {"games": len(found), "wins": won, "draws": drawn, "losses": lost, "score": score, "low": low,
               "high": high, "elo": elo, "mean_margin": float(found.mean()), "sprt": test.as_dict()}  # fmt: skip
    row = (f"{len(found):,}", won, drawn, lost, f"{score:.3f}", f"{low:.3f} to {high:.3f}",
           "" if elo is None else f"{elo:+.1f}", f"{test.llr:+.2f}", VERDICTS[test.decision])  # fmt: skip
    return row, figures
