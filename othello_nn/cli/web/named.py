"""Openings that have names, as players call them, and which of them a game has gone through.

Written from black's first move c4. A position is known however it came about and whichever way the board is turned.
"""

from __future__ import annotations

from functools import cache

from othello_nn.game.position import Position, complete_moves
from othello_nn.game.syntax import scan_moves

OPENINGS: dict[str, str] = {
    "Parallel": "c4c5",
    "Diagonal": "c4c3",
    "X-square": "c4c3d3c5b2",
    "Snake": "c4c3d3c5b3",
    "Pyramid": "c4c3d3c5b3f3",
    "Heath": "c4c3d3c5b4",
    "Heath-Bat": "c4c3d3c5b4d2d6",
    "Heath-Chimney": "c4c3d3c5b4e3",
    "Raccoon Dog": "c4c3d3c5b5",
    "Hamilton": "c4c3d3c5b6",
    "Lollipop": "c4c3d3c5b6c6b5",
    "Cow": "c4c3d3c5d6",
    "Chimney": "c4c3d3c5d6e3",
    "Cow Bat": "c4c3d3c5d6f4b4",
    "Rose v Toth": "c4c3d3c5d6f4f5",
    "Tanida": "c4c3d3c5d6f4f5d2",
    "Perpendicular": "c4e3",
    "Mimura": "c4e3f4c5d6e6",
    "Shaman": "c4e3f4c5d6f3c6",
    "Inoue": "c4e3f4c5d6f3d3",
    "IAGO": "c4e3f4c5d6f3d3c3",
    "Bhagat": "c4e3f4c5d6f3e2",
    "Rose": "c4e3f4c5d6f3e6",
    "Flat": "c4e3f4c5d6f3e6c3d3e2",
    "Rotating Flat": "c4e3f4c5d6f3e6c3d3e2b5",
    "Horse": "c4e3f4c5e6",
    "No-Cat": "c4e3f5b4",
    "Swallow": "c4e3f5b4f3",
    "Italian": "c4e3f5e6d3",
    "Cat": "c4e3f5e6f4",
    "Sakaguchi": "c4e3f5e6f4c5d6c6f7f3",
    "Berner": "c4e3f5e6f4c5d6c6f7g5g6",
    "Bent Ganglion": "c4e3f6b4",
    "Tiger": "c4e3f6e6f5",
    "Stephenson": "c4e3f6e6f5c5c3",
    "No-Kung": "c4e3f6e6f5c5c3b4",
    "Comp'Oth": "c4e3f6e6f5c5c3c6",
    "Lightning Bolt": "c4e3f6e6f5c5c3c6d6",
    "Kung": "c4e3f6e6f5c5c3g5",
    "Leader's Tiger": "c4e3f6e6f5c5d3",
    "Brightwell": "c4e3f6e6f5c5d6",
    "Ishii": "c4e3f6e6f5c5f4g5g4f3c6d3d6",
    "Rose-Birdie": "c4e3f6e6f5c5f4g6f7",
    "Greenberg": "c4e3f6e6f5c5f4g6f7g5",
    "Ralle": "c4e3f6e6f5g6",
}


def opening_moves(name: str) -> tuple[int, ...]:
    """The moves of an opening; KeyError if it has another name."""
    return tuple(complete_moves(Position.start(), scan_moves(OPENINGS[name]))[0])


@cache
def _by_position() -> dict[Position, str]:
    return {Position.parse(moves).canonical(): name for name, moves in OPENINGS.items()}


def opening_name(positions: list[Position]) -> str:
    """The last opening with a name among the positions of a game; nothing if there is none."""
    longest = max(len(moves) for moves in OPENINGS.values()) // 2
    names = _by_position()
    found = [names[image] for position in positions[: longest + 1] if (image := position.canonical()) in names]
    return found[-1] if found else ""
