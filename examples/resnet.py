"""A small residual network, to be copied.

    python train.py --net examples/resnet.py:ResNet --run mynet-1 --minutes 5
    python train.py --net examples/resnet.py:ResNet --set net.width=64 --run mynet-2
    python play.py match mynet-1:depth=2 swh:depth=2

Change what you like, and keep what ``docs/own-net.md`` asks of a net.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Block(nn.Module):
    """Two convolutions beside a path that leaves everything as it is."""

    def __init__(self, width: int):
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.second = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.first_norm, self.second_norm = nn.BatchNorm2d(width), nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        inner = F.relu(self.first_norm(self.first(x)))
        return F.relu(x + self.second_norm(self.second(inner)))


class ResNet(nn.Module):
    """Planes ``[N, 3, 8, 8]`` in (mover's discs, opponent's, empty squares), the margin ``[N]`` in units of
    ``net.scale`` discs out. Every keyword with a default is an option: ``--set net.width=64``."""

    def __init__(self, *, width: int = 32, blocks: int = 2, hidden: int = 32):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(blocks)))
        self.squeeze = nn.Conv2d(width, 4, 1)
        self.hidden = nn.Linear(4 * 64, hidden)
        self.output = nn.Linear(hidden, 1)

    def forward(self, planes: Tensor) -> Tensor:
        planes = planes.contiguous(memory_format=torch.channels_last)  # a quarter faster on a CPU
        x = self.blocks(F.relu(self.stem(planes)))  # [N, width, 8, 8]
        x = F.relu(self.squeeze(x)).flatten(1)  # [N, 256]
        return self.output(F.relu(self.hidden(x))).squeeze(1)
