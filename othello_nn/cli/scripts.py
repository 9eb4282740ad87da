"""``othello-train``, as pip installs it. (``othello`` is ``main.py`` itself.)"""

from __future__ import annotations

import importlib.util
import sys

from othello_nn.resources import TRAIN


def train() -> int:
    """The ``main`` of train.py: one file, whether it lies at the top of a checkout or in an installed package."""
    spec = importlib.util.spec_from_file_location("train", TRAIN)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["train"] = module
    spec.loader.exec_module(module)
    return module.main(sys.argv[1:])
