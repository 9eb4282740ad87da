"""Tools that fit what players need and no paper prints, each a command: ``python -m othello_nn.fit.NAME --help`` with
features, information, iago, keyano or probcut. Read ``labels.py`` first: positions with what they are worth."""
