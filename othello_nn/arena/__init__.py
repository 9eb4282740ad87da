"""Where players meet. Read ``game.py`` for one game and ``workers.py`` for many at once; ``match.py`` is two players,
``tournament.py`` everybody, ``league.py`` the Othello League's measure. ``openings.py`` says from where they play, and
``statistics.py`` what a score means."""
