"""A game in the terminal. Read ``session.py`` first."""
