"""Players of the literature, rebuilt from what was printed: IAGO, KEYANO, WYSTAN, the features of a tournament report,
the Othello League's n-tuples. Each file says what its paper leaves open; ``fit/`` measures it."""
