"""Learning: games, targets, learners, and the trainer that drives them. Read ``learner.py`` first, then ``td/``."""
