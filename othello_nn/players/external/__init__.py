"""Other programs as players. Read ``process.py`` first, then ``player.py``, then ``gtp.py`` or ``nboard.py``."""
