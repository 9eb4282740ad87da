"""A linear net that is cheap to train and learns on line: what several tests make small and take apart.

The numbers are written out, so that a change of the preset, which is for those who train, changes no test of the
learner.
"""

from othello_nn.config import Config, load_preset

LINEAR = (
    "net.tuples=patterns", "net.stages=6", "net.dim=1", "td.lambda=0.9", "td.epsilon=0.3", "td.opening_plies=6",
    "td.cut=false", "td.batch_games=256", "optim.rate=1.0", "optim.final_rate=0.0",
)  # fmt: skip
"""On top of the preset ``quick``, as ``--set`` takes them."""


def linear(*settings: str) -> Config:
    return load_preset("quick").changed([*LINEAR, *settings])
