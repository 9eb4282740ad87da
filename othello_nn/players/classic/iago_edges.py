"""IAGO's table of edges: what each of the 3^8 ways to fill an edge is worth to the side that moves next.

From Rosenbloom, "A World-Championship-Level Othello Program" (1981), section 4.4.1.1; ``iago.py`` looks the values up.
An edge is the number Σ digit · 3^i over its squares i = 0…7 from one corner to the other, with the digits 0 empty,
1 own disc, 2 the other side's. "Own" is the side whose value is asked for, and it is to move; with the other side to
move the value is that of the inverse edge (colours exchanged) with the sign turned.

First every disc has a static weight by its square and by how safe it is *on this edge* (the paper's Table 4-2):

* stable: whatever either side plays on the edge, legal along it or not, the disc is never turned. The paper lists the
  formations; here it is worked out for every edge from the filled ones backwards, which finds all of them;
* semi-stable: the other side's next disc on the edge cannot turn it;
* unstable: it can.

Then the table is worked out from the filled edges backwards, five times over. Own side puts a disc on an empty square
with some probability of being able to, or leaves the edge alone, which is always possible. It takes the best that it
can have, so the value is an expectation: best alternative first, each weighted by the probability that it can be
played and no better one could. After a disc, and after leaving the edge alone, the other side has the next move.
Leaving it alone leads to the same edge, which is not yet worked out: its value is taken from the iteration before, and
that is why there is more than one.

The probability is 1 for a move that turns a disc along the edge, otherwise 0 for a corner, and for the six squares
between "a function of the neighboring discs", which the paper does not give. ``CHANCES`` is measured.
"""

from __future__ import annotations

from functools import cache

import numpy as np

EDGES = 3**8
EMPTY, OWN, OTHER = 0, 1, 2
ITERATIONS = 5

# Table 4-2: corner, C-, A- and B-square, from the end of the edge inwards. A corner is never anything but stable.
STABLE = (700, 1200, 1000, 1000)
SEMI_STABLE = (0, 200, 200, 200)
UNSTABLE = (0, -25, 75, 50)
LARGEST = 2 * sum(STABLE)
"""The most an edge can be worth: all of it own."""

CHANCES = (
    (0.19, 0.67, 0.80),
    (0.26, 0.60, 0.0),
    (0.24, 0.0, 0.0),
)
"""CHANCES[own neighbours][other neighbours]: how often a square between the corners can be played without turning a
disc along the edge, at the turn of its own side. Counted in 1,000 games by ``python -m othello_nn.fit.iago``.
A square has two neighbours, so the cells with 0.0 do not occur."""

_POWERS = 3 ** np.arange(8)


@cache
def edge_digits() -> np.ndarray:
    """[EDGES, 8]: the squares of every edge."""
    return np.arange(EDGES)[:, None] // _POWERS % 3


@cache
def inverse_edges() -> np.ndarray:
    """[EDGES]: the edge with the colours exchanged."""
    digits = edge_digits()
    return np.where(digits == EMPTY, EMPTY, OWN + OTHER - digits) @ _POWERS


def play_on_edge(digits: np.ndarray, square: int) -> np.ndarray:
    """[N, 8]: edges after an own disc on ``square`` (which must be empty) and the discs it turns along the edge."""
    after = digits.copy()
    for end in range(8):
        between = slice(min(square, end) + 1, max(square, end))
        if abs(end - square) >= 2:
            outflanked = (digits[:, end] == OWN) & (digits[:, between] == OTHER).all(axis=1)
            after[outflanked, between] = OWN
    after[:, square] = OWN
    return after


@cache
def edges_after() -> np.ndarray:
    """[2, 8, EDGES]: the edge after an own disc (0) or the other side's (1) on a square, where that is empty."""
    own = np.stack([play_on_edge(edge_digits(), square) @ _POWERS for square in range(8)])
    inverse = inverse_edges()
    return np.stack([own, inverse[own[:, inverse]]])


def _layers() -> list[np.ndarray]:
    """The edges with 0, 1, … 8 empty squares."""
    empties = (edge_digits() == EMPTY).sum(axis=1)
    return [np.flatnonzero(empties == count) for count in range(9)]


def stable_on_edge() -> np.ndarray:
    """[EDGES, 8] bool: the discs that no sequence of discs on the edge can turn."""
    digits, after = edge_digits(), edges_after()
    turnable = np.zeros((EDGES, 8), bool)
    for edges in _layers()[1:]:
        for square in range(8):
            here = edges[digits[edges, square] == EMPTY]
            for side in range(2):
                there = after[side, square, here]
                turned = (digits[there] != digits[here]) & (digits[here] != EMPTY)
                turnable[here] |= turned | turnable[there]
    return (digits != EMPTY) & ~turnable


def turned_next() -> np.ndarray:
    """[EDGES, 8] bool: the discs that one disc of the side they do not belong to would turn."""
    digits, after = edge_digits(), edges_after()
    exposed = np.zeros((EDGES, 8), bool)
    for square in range(8):
        here = np.flatnonzero(digits[:, square] == EMPTY)
        for side in range(2):
            there = after[side, square, here]
            exposed[here] |= (digits[there] != digits[here]) & (digits[here] != EMPTY)
    return exposed


def static_values() -> np.ndarray:
    """[EDGES]: Table 4-2 summed over the discs, own ones positive, the other side's negative."""
    distance = np.minimum(np.arange(8), 7 - np.arange(8))  # from the nearer corner
    stable, semi, unstable = (np.array(weights)[distance] for weights in (STABLE, SEMI_STABLE, UNSTABLE))
    weights = np.where(stable_on_edge(), stable, np.where(turned_next(), unstable, semi))
    sign = np.array([0, 1, -1])[edge_digits()]
    return (sign * weights).sum(axis=1).astype(float)


@cache
def turns_on_edge() -> np.ndarray:
    """[8, EDGES] bool: an own disc on this empty square turns others along the edge."""
    own = (edge_digits() == OWN).sum(axis=1)
    return (own[edges_after()[0]] > own + 1) & (edge_digits().T == EMPTY)


def move_chances() -> np.ndarray:
    """[8, EDGES]: the probability that own side can play a square, 0 where it is taken."""
    digits = edge_digits()
    padded = np.pad(digits, [(0, 0), (1, 1)])  # nothing stands beyond a corner
    chances = np.zeros((8, EDGES))
    for square in range(8):
        beside = padded[:, [square, square + 2]]
        own, other = (beside == OWN).sum(axis=1), (beside == OTHER).sum(axis=1)
        chance = np.zeros(EDGES) if square in (0, 7) else np.array(CHANCES)[own, other]
        chances[square] = np.where(digits[:, square] == EMPTY, chance, 0.0)
    return np.where(turns_on_edge(), 1.0, chances)


@cache
def edge_values(iterations: int = ITERATIONS) -> np.ndarray:
    """[EDGES] int16: the value of every edge for own side, which has the next move."""
    inverse, after, chances = inverse_edges(), edges_after()[0], move_chances()
    values = static_values()
    for _ in range(iterations):
        before = values.copy()
        for edges in _layers()[1:]:
            alone = -before[inverse[edges]]
            # [9, edges of the layer]: what each square leads to, then leaving the edge alone.
            results = np.concatenate([-values[inverse[after[:, edges]]], alone[None]])
            chance = np.concatenate([chances[:, edges], np.ones((1, len(edges)))])
            order = np.argsort(-results, axis=0, kind="stable")
            results, chance = np.take_along_axis(results, order, 0), np.take_along_axis(chance, order, 0)
            none_better = np.cumprod(np.concatenate([np.ones((1, len(edges))), 1 - chance[:-1]]), axis=0)
            values[edges] = (none_better * chance * results).sum(axis=0)
    return np.rint(values).astype(np.int16)
