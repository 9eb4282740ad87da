"""The examples in the docstrings run."""

import doctest
import importlib

import pytest

MODULES_WITH_EXAMPLES = [
    "othello_nn",
    "othello_nn.game.game_record",
    "othello_nn.game.notation",
    "othello_nn.game.obf",
    "othello_nn.game.position",
    "othello_nn.game.rules",
    "othello_nn.game.syntax",
]


@pytest.mark.parametrize("name", MODULES_WITH_EXAMPLES)
def test_docstring_examples(name):
    results = doctest.testmod(importlib.import_module(name))
    assert results.attempted > 0, f"{name} has lost its examples"
    assert results.failed == 0
