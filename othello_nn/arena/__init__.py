"""Where players meet. ``match.py`` plays two of them against each other, ``openings.py`` says from where, and
``statistics.py`` what a score means."""
