"""Everything that can play. ``make_player("swh")``, ``make_player("champion:seconds=0.5,threads=2")``.

Read ``base.py`` for what a player is, ``spec.py`` for how one is written down, ``simple.py`` and ``searching.py`` for
the players themselves, ``catalog.py`` for the names. Nothing here imports Numba until a player that searches is made.

>>> import random
>>> from othello_nn import Position
>>> player = make_player("most-discs", random.Random(1))
>>> player.choose(Position.start().play("f5")).score  # a reply that leaves three discs to three
0.0
"""

from othello_nn.players.base import Choice, Line, Player, PlayerError, PlayerFailure, PlayerStopped
from othello_nn.players.catalog import best_player_name, make_player, player_names
from othello_nn.players.spec import PlayerSpec, parse_spec

__all__ = [
    "Choice",
    "Line",
    "Player",
    "PlayerError",
    "PlayerFailure",
    "PlayerSpec",
    "PlayerStopped",
    "best_player_name",
    "make_player",
    "parse_spec",
    "player_names",
]
