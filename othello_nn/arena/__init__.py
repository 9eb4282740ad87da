"""Where players meet. ``match.py`` plays two of them against each other from ``openings.py``; ``statistics.py`` says what a
score means."""
