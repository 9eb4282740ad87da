"""Positions of searched games, by the million: ``searched.py`` plays them, ``store.py`` keeps them on disk."""
