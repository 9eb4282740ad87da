"""Our player as an engine for other programs. Read ``thread.py`` first, then ``gtp.py`` or ``nboard.py``."""
