"""The nets that are trained. Read ``base.py`` for what a net is, then ``triangle.py``, ``tuple_sets.py``,
``ntuple.py``, ``staged.py`` for nets made of nets, ``module.py`` for those of a user's own class, ``registry.py`` for
nets by configuration and in files, and ``batched.py`` for how the search asks a net that does not compile.

>>> net = Staged(TriangleNet(maps=12))
>>> sum(parameter.numel() for parameter in net.parameters())  # three nets of 313
939
"""

from othello_nn.nets.base import Net, NetError, make_net
from othello_nn.nets.batched import batched_evaluator
from othello_nn.nets.dense import DenseNet
from othello_nn.nets.module import ModuleNet
from othello_nn.nets.ntuple import NTupleNet
from othello_nn.nets.registry import export, load_net
from othello_nn.nets.staged import Doubled, Staged
from othello_nn.nets.triangle import TriangleNet

__all__ = [
    "DenseNet",
    "Doubled",
    "ModuleNet",
    "NTupleNet",
    "Net",
    "NetError",
    "Staged",
    "TriangleNet",
    "batched_evaluator",
    "export",
    "load_net",
    "make_net",
]
