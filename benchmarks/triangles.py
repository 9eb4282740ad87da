"""Leouski's future work, measured: triangle nets with more maps, empty squares as inputs, more stages and other gates,
all fitted to the same searched games, and what the best of them could ever reach."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from benchmarks.harness import ROOT, Report, Settings, benchmark, markdown_table
from othello_nn.arena.match import MatchResult, play_match
from othello_nn.arena.openings import make_openings
from othello_nn.config import load_preset
from othello_nn.engine.leaf.shapes import TRIANGLE
from othello_nn.learn.data.learner import TEST, Data, SearchedLearner
from othello_nn.learn.distributed import Group
from othello_nn.nets import Net, export

THREADS = os.cpu_count() or 1
SEED, PASSES = 5, 2
FOLDER = ROOT / "runs" / "triangle-nets"
"""Where the positions stay: the next run of the benchmark finds them there."""
LOOKING, RIVAL = "depth=2,solve=10", "wystan:depth=2"
OTHER_OPENINGS = ("random:8", 200, 7)
FOUR = {"centres": [10, 26, 42, 58], "width": 10.0}  # as many as the compiled search blends


def _staged(maps: int, *, blend: dict[str, Any] | None = None, **inner: Any) -> dict[str, Any]:
    return {"kind": "staged", "net": {"kind": "triangle", "maps": maps} | inner} | (blend or {})


# A triangle's ten squares hold 3^10 things: a table of them says whatever any number of symmetric maps could say.
TABLES: dict[str, Any] = {"kind": "staged", "net": {"kind": "ntuple", "tuples": [list(TRIANGLE)]}}
BY_TABLE = ("searched.head_rate=0.2", "searched.minibatch=16384")  # cells are moved one by one, in discs
MORE = {"symmetric": True, "empties": True}
NETS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "12 maps, as Leouski's": (_staged(12), ()),
    "48 maps, symmetric": (_staged(48, symmetric=True), ()),
    "… learned coefficients": (_staged(48, symmetric=True, blend={"gate": "learned"}), ()),
    "12 maps, symmetric, empties": (_staged(12, **MORE), ()),
    "48 maps, symmetric, empties": (_staged(48, **MORE), ()),
    "… and learned coefficients": (_staged(48, **MORE, blend={"gate": "learned"}), ()),
    "… four narrower nets": (_staged(48, **MORE, blend=FOUR), ()),
    "… mean of the last steps": (_staged(48, **MORE), ("searched.average=0.8",)),
    "96 maps, symmetric, empties": (_staged(96, **MORE), ()),
    "tables": (TABLES, BY_TABLE),
    "tables, four narrower": (TABLES | FOUR, BY_TABLE),
}


@benchmark("triangle-nets", "triangle nets with more maps, inputs, stages and gates, fitted to the same searched games")
def triangle_nets(settings: Settings) -> Report:
    torch.set_num_threads(1)
    rows, found = [], {}
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) if settings.quick else FOLDER
        for name, (net, changes) in NETS.items():
            learner, error = fitted(net, changes, kept, settings)
            known, other = (
                _match(learner.net(), openings, settings) for openings in (("leouski60", None), OTHER_OPENINGS)
            )
            weights = sum(parameter.numel() for parameter in learner.net().parameters())
            won = 60 * known.wins / known.games
            found[name] = {"weights": weights, "error": error, "won": won, "score": other.score}
            rows.append((name, f"{weights:,}", f"{error:.2f}", f"{won:.1f}", _score(known), _score(other)))
            print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)
    header = (
        "three nets unless said, blended",
        "weights",
        "test error, discs",
        "won of 60",
        "score, 95%",
        "400 other games, 95%",
    )
    searched = learner.options
    parameters = {"positions": searched.positions[0], "passes": searched.passes[0], "seed": SEED, "rival": RIVAL}
    best = max(item["won"] for item in found.values())
    return Report(best, "won of 60", markdown_table(header, rows), found, parameters)


def _score(result: MatchResult) -> str:
    return "{:.3f} ({:.3f} to {:.3f})".format(result.score, *result.interval)


class Fit(SearchedLearner):
    """Nets that look two plies ahead need no ProbCut, whose fit takes as long as theirs."""

    def _fit_searches(self, data: Data | None) -> None:
        pass


def fitted(net: dict[str, Any], changes: tuple[str, ...], folder: Path, settings: Settings) -> tuple[Fit, float]:
    """The learner after its run, and its last test error. The first of them makes the positions of all."""
    positions, depth = settings.size(1_500_000, 1_500), settings.size(6, 1)
    size = [f"searched.positions=[{positions}]", f"searched.depth=[{depth}]", f"searched.passes=[{PASSES}]"]
    config = load_preset("triangle-searched").changed(
        [*size, f"searched.folder={folder}", *changes], net=net, seed=SEED
    )
    learner, error = Fit(config, Group(), THREADS, "cpu"), 0.0
    while learner.progress < 1:
        error = learner.step().get(TEST, error)
    return learner, error


def _match(net: Net, openings: tuple[Any, ...], settings: Settings) -> MatchResult:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.safetensors"
        export(net).save(path)
        chosen = make_openings(*openings)[: 2 if settings.quick else None]
        return play_match(f"{path}:{LOOKING}", RIVAL, chosen, jobs=1 if settings.quick else THREADS, seed=1)
