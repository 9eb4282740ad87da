"""Many games: read from several files, filtered, counted, and their results corrected by the solver.

Read ``sources.py`` first. ``play.py convert`` (``cli/convert.py``) is made of these, and ``learn/data/from_games.py``
learns from what they give.
"""
