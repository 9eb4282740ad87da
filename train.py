"""Teach a net Othello by playing.

    python train.py                                 a net that plays, in half a minute on a laptop's CPU
    python train.py --preset league                 the Othello League's specialist: over 0.99 in some minutes
    python train.py --preset triangle               Leouski's net with application coefficients
    python train.py --preset champion               the strongest: from the endgame backwards, most of an hour
    python train.py --resume quick-1                go on with a run
    tensorboard --logdir runs                       watch it learn
    python train.py --help                          everything else

``othello_nn/cli/train.py`` is where it begins, ``othello_nn/learn/trainer.py`` is the loop.
"""

import sys

from othello_nn.cli.train import main

if __name__ == "__main__":
    sys.exit(main())
