"""Teach a net Othello by playing.

    python train.py                                 a net that plays, in half a minute on a laptop's CPU
    python train.py --preset league                 the Othello League's specialist: over 0.99 in some minutes
    python train.py --preset triangle               Leouski's net with application coefficients
    python train.py --preset champion               the strongest: from searched self-play, in some hours
    python train.py --resume quick-1                go on with a run
    tensorboard --logdir runs                       watch it learn
    python train.py --help                          everything else

This is the loop. ``othello_nn/learn/learner.py`` says what a learner is, ``learn/td/targets.py`` what TD(λ) is,
``learn/trainer.py`` does what is around the loop, and ``othello_nn/cli/train.py`` reads the command line.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from othello_nn.cli.train import Job, run_command

if TYPE_CHECKING:
    from othello_nn.learn.trainer import Summary


def train(job: Job) -> Summary:
    """One run, to its last game. Under torchrun each rank is here with games of its own; rank 0 measures and writes."""
    from othello_nn.learn.make import make_learner  # imports torch, which takes seconds
    from othello_nn.learn.trainer import Trainer

    # A net and how it learns; then its folder, with curves, the state to resume from, the net for players.
    learner = make_learner(job.config, job.device, job.group, job.threads, resumed=job.resumed)
    run = job.make_run()
    trainer = Trainer(run, learner, job.group, job.threads, minutes=job.minutes, quiet=job.quiet)
    if job.resumed:
        trainer.resume()
    job.announce(run, learner)
    with trainer:
        while not trainer.done():  # by its games, its minutes, or Ctrl-C
            games = learner.play()  # games by the net as it is now
            targets = learner.targets(games)  # what it should have said of their positions
            metrics = learner.update(games, targets)  # its weights move that way
            trainer.log(metrics)
            if trainer.time_to_measure.due():
                trainer.measure()  # games at 1-ply against fixed opponents, and against its earlier self
            if trainer.time_to_show.due():
                trainer.show()  # pictures of what it has learnt
            if trainer.save_is_due:
                trainer.save()
    return trainer.summary


def main(argv: Sequence[str] | None = None) -> int:
    return run_command(train, argv)


if __name__ == "__main__":
    sys.exit(main())
