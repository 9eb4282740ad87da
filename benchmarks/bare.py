"""Searches as the papers ran them, without what the driver adds by default.

``Engine.search`` always deepens step by step, keeps its best root move in front and opens each depth with a narrow
window. Two of the papers' experiments were made without some of that; ``BareEngine`` leaves it out and is used for
nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from othello_nn.engine import Engine, Limit, Result
from othello_nn.engine import workspace as ws
from othello_nn.engine.driver import _Step, _Work
from othello_nn.engine.ordering import square_key
from othello_nn.engine.ttable import bucket_address, data_lower, data_upper, table_probe
from othello_nn.game import PASS, Position

RootOrder = Literal["generated", "square", "last best"]
NEVER_SAVED = 64


class BareEngine(Engine):
    """An engine whose first ply and windows can be kept as simple as in 1982."""

    def search_at(self, position: Position, depth: int) -> Result:
        """One full-width search of this depth with the widest window, not preceded by shallower ones."""
        return self._run(position, lambda work: iter((_Step(depth),)), Limit(depth=depth), None)

    def deepen(self, position: Position, depth: int, saved: int, order: RootOrder) -> int:
        """Nodes of the last iteration of a search that deepens ply by ply, each with the widest window.

        ``saved`` is the number of top plies whose order is kept from one iteration to the next: 1 sorts the root moves
        by their last values, 3 also begins the nodes of the next two plies with their last best move. With 0, ``order``
        rules at the root too.
        """
        saved_empties = position.empties - saved + 1 if saved else NEVER_SAVED
        self._workspaces[0][ws.SWITCHES] = self._switches() | max(saved_empties, 0) << ws.TABLE_MOVE_EMPTIES
        nodes = [0]

        def steps(work: _Work) -> Iterator[_Step]:
            for step in range(1, depth + 1):
                work.last = _Step(0)  # no value to aim a narrow window at
                self._order_root(work, saved, order)
                yield _Step(step)

        self._run(position, steps, Limit(depth=depth), lambda result: nodes.append(result.nodes))
        return nodes[-1] - nodes[-2]

    def _order_root(self, work: _Work, saved: int, order: RootOrder) -> None:
        if saved:
            values = [self._last_value(work.position.play(int(move))) for move in work.moves]
            known = np.array([value for value in values if value is not None])
            if len(known) == len(work.moves):
                work.moves = work.moves[np.argsort(-known, kind="stable")]
        elif order == "generated":
            work.moves = np.sort(work.moves)
        elif order == "square":
            work.moves = np.array(sorted(sorted(work.moves), key=lambda move: -square_key(move)), np.int64)
        # Otherwise as the last iteration left them: its best move in front.

    def _last_value(self, child: Position) -> int | None:
        """The value of the move that led to ``child`` in the last iteration: exact, or what it is at most."""
        passed = child.must_pass  # a position without a move is remembered from the other side
        at = child.play(PASS) if passed else child
        mover, opponent = np.uint64(at.mover), np.uint64(at.opponent)
        bucket = bucket_address(self.table.address, np.uint64(self.table.mask), mover, opponent)
        data = table_probe(bucket, mover, opponent)
        if not data:
            return None
        return int(data_upper(data)) if passed else -int(data_lower(data))
