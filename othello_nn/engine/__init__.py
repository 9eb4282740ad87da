"""Search and exact endgame solver over bitboards. Start with ``driver.py``: limits, results, the ``Engine``."""

from othello_nn.engine.driver import Engine, Limit, Options, Result, search, solve

__all__ = ["Engine", "Limit", "Options", "Result", "search", "solve"]
