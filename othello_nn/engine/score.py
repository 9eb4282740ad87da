"""Scores as the search counts them: whole numbers, ``SCORE_DISC`` to a disc, for the side to move."""

SCORE_DISC = 128
SCORE_MAX = 64 * SCORE_DISC
LEAF_LIMIT = SCORE_MAX - 2 * SCORE_DISC
"""What a leaf may say: a heuristic value never claims a wipe-out, only the solver may."""
NO_MOVE = 64
"""Stands for a square where there is none, in tables of moves."""
