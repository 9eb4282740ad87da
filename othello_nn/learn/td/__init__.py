"""TD(λ): learning from one's own games. Read ``trajectory.py`` for what a game leaves behind, ``targets.py`` for what a
net should have said, then ``learners.py``, which puts games, targets and updates together."""
