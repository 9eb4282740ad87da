"""The examples in the docstrings and in README run."""

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import othello_nn

README = Path(__file__).parent.parent / "README.md"
WITH_EXAMPLES = {
    "othello_nn",
    "othello_nn.arena.openings",
    "othello_nn.arena.statistics",
    "othello_nn.collection.sources",
    "othello_nn.config",
    "othello_nn.fit.keyano_statistics",
    "othello_nn.game.formats.obf",
    "othello_nn.game.move",
    "othello_nn.game.notation",
    "othello_nn.game.position",
    "othello_nn.game.record",
    "othello_nn.game.rules",
    "othello_nn.game.syntax",
    "othello_nn.kernels.parallel",
    "othello_nn.kinds",
    "othello_nn.learn.td.batch",
    "othello_nn.nets",
    "othello_nn.nets.registry",
    "othello_nn.nets.tuple_sets",
    "othello_nn.options",
    "othello_nn.players",
    "othello_nn.players.classic.league_tuples",
    "othello_nn.players.external.gtp",
    "othello_nn.players.spec",
}
"""Modules that had examples when this was written: they must not lose them. Those of all others run too."""
MODULES = ["othello_nn", *(module.name for module in pkgutil.walk_packages(othello_nn.__path__, "othello_nn."))]


@pytest.mark.parametrize("name", [name for name in MODULES if not name.endswith("__main__")])
def test_docstring_examples(name):
    results = doctest.testmod(importlib.import_module(name))
    assert results.failed == 0
    assert results.attempted > 0 or name not in WITH_EXAMPLES, f"{name} has lost its examples"


def test_readme_examples():
    results = doctest.testfile(str(README), module_relative=False, encoding="utf-8")
    assert results.attempted > 0, "README has lost its examples"
    assert results.failed == 0
