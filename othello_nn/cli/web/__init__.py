"""``play.py serve``: a board in the browser. Begin with ``session.py``: what one tab can do."""
