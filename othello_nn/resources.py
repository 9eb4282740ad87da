"""Where nets are found: those that come with the program, and those of a user's runs. Imports nothing heavy."""

from __future__ import annotations

from pathlib import Path

CHECKPOINTS = Path(__file__).resolve().parent.parent / "checkpoints"
"""The nets that come with the program."""
SUFFIX = ".safetensors"
BEST = "champion"
"""The strongest of them."""
