"""``wystan``: an opponent that knows mobility and stability, with weights set by hand.

Leouski measured his nets against WYSTAN, a program by Jeff Clouse that was never published; he says of it only that its
evaluation has several high-level features such as mobility and stability. This is a program of that kind, not a copy of
that one: how its results compare with his is not known.

It looks at the four things of ``engine/leaf/mobility.py`` and shares its code. Each weight is an estimate of
what a thing adds to the final margin, made before any game was played with it:

* a move more to choose from is a tempo, and a tempo about one disc;
* an empty square beside an opposing disc is a move about every other time until late in the game, so half of that;
* a stable disc is one disc at the end for certain, and as much again for what leans on it;
* a corner anchors six more squares of its two edges, three on each: if every other one of them becomes a stable disc,
  they are worth three of those. The corner's own disc is counted among the stable ones.
"""

from __future__ import annotations

from othello_nn.engine.leaf.mobility import Mobility
from othello_nn.engine.score import SCORE_DISC

STABLE_DISC = 2 * SCORE_DISC
WYSTAN = Mobility(move=SCORE_DISC, potential=SCORE_DISC // 2, corner=3 * STABLE_DISC, stable=STABLE_DISC)
