"""Where nets are found: those that come with the program, and those of a user's runs. Imports nothing heavy."""

from __future__ import annotations

from pathlib import Path


def _taken_along(name: str) -> Path:
    """What lies at the top of a checkout. An installed package has no top: the build puts it inside (``setup.py``)."""
    package = Path(__file__).resolve().parent
    return package / name if (package / name).exists() else package.parent / name


CHECKPOINTS = _taken_along("checkpoints")
"""The nets that come with the program."""
TRAIN = _taken_along("train.py")
"""The program that trains."""
SUFFIX = ".safetensors"
BEST = "champion"
"""The strongest of them."""
RUNS = Path("runs")
"""Where runs are, unless another folder is named."""
