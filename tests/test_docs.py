"""The examples in the docstrings and in README run."""

import doctest
import importlib
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
MODULES_WITH_EXAMPLES = [
    "othello_nn",
    "othello_nn.arena.openings",
    "othello_nn.arena.statistics",
    "othello_nn.game.move",
    "othello_nn.game.record",
    "othello_nn.game.notation",
    "othello_nn.game.formats.obf",
    "othello_nn.game.position",
    "othello_nn.game.rules",
    "othello_nn.game.syntax",
    "othello_nn.players",
    "othello_nn.players.external.gtp",
    "othello_nn.players.spec",
]


@pytest.mark.parametrize("name", MODULES_WITH_EXAMPLES)
def test_docstring_examples(name):
    results = doctest.testmod(importlib.import_module(name))
    assert results.attempted > 0, f"{name} has lost its examples"
    assert results.failed == 0


def test_readme_examples():
    results = doctest.testfile(str(README), module_relative=False, encoding="utf-8")
    assert results.attempted > 0, "README has lost its examples"
    assert results.failed == 0
