"""Measurements of the engine. Start with ``run.py``; ``harness.py`` is what the benchmarks share."""
