"""Bitboards by the thousand: the rules of Othello on torch tensors of any shape, on any device.

Read ``game/rules.py`` first; this is the same for int64 tensors, bit i of an element being square i (so h8 is the sign
bit). Every function is elementwise unless its docstring gives shapes, and input is assumed legal. Nothing here waits
for the device: no ``item``, ``nonzero`` or boolean index, no constants copied from the host, so a GPU's queue never
runs dry. Torch lacks two instructions. There is no unsigned shift: an arithmetic right shift drags the sign bit along,
so its result is always masked. There is no population count: ``popcount`` adds up bit fields.

>>> mover, opponent = boards([START_MOVER]), boards([START_OPPONENT])
>>> popcount(legal_moves(mover, opponent))
tensor([4])
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from othello_nn.game.rules import FULL_MASK, PASS, START_MOVER, START_OPPONENT

__all__ = [
    "START_MOVER",
    "START_OPPONENT",
    "Children",
    "Rays",
    "as_masks",
    "boards",
    "expand",
    "final_score",
    "flips",
    "legal_moves",
    "pack",
    "play",
    "popcount",
    "transform",
    "unpack",
]

SQUARES = 64
FILES_INNER = 0x7E7E7E7E7E7E7E7E
RANKS_INNER = 0x00FFFFFFFFFFFF00

MOST_CHILDREN = 34
"""The most moves of one position: the most that a search through random boards with their centre filled has found, far
more than games have."""


class Rays(NamedTuple):
    """The four axes of the board as lanes ``[4]``: a row, a falling diagonal, a file, a rising one.

    One operation then works along all four, where a loop over the directions would launch eight. They are computed on
    the device, since a copy from the host would wait for it. Whoever needs them often makes them once.
    """

    step: Tensor
    """How far apart two neighbours are: 1, 7, 8, 9."""
    two_steps: Tensor
    inner: Tensor
    """The squares with a neighbour on both sides, where a disc can be turned. No run of such discs wraps round an edge,
    and none holds the sign bit, so these masks also clean up after right shifts."""

    @classmethod
    def on(cls, device: torch.device | str) -> Rays:
        lane = torch.arange(4, device=device)
        step = torch.where(lane == 0, 1, lane + 6)
        by_file = torch.where(lane == 2, -1, FILES_INNER)
        return cls(step, 2 * step, torch.where(lane == 0, by_file, by_file & RANKS_INNER))

    def beside(self, board: Tensor) -> Rays:
        """Shaped so that a board of this shape gets the lanes as a first dimension."""
        return Rays(*(lanes.view(4, *(1 for _ in board.shape)) for lanes in self))


def signed(mask: int) -> int:
    """A mask of ``rules`` as the int64 with the same bits."""
    return mask - (1 << 64) if mask >> 63 else mask


def boards(masks: Iterable[int], device: torch.device | str = "cpu") -> Tensor:
    """Masks of ``rules`` as a tensor; for tests and the host, since it copies to the device."""
    return torch.tensor([signed(mask) for mask in masks], dtype=torch.int64, device=device)


def as_masks(board: Tensor) -> list[int]:
    """The inverse of ``boards``."""
    return [mask & FULL_MASK for mask in board.flatten().tolist()]


def unpack(board: Tensor) -> Tensor:
    """``[..., 64]`` bool: whether each square is in the mask."""
    return (board.unsqueeze(-1) >> torch.arange(SQUARES, device=board.device)) & 1 != 0


def pack(squares: Tensor) -> Tensor:
    """The inverse of ``unpack``: ``[..., 64]`` bool to ``[...]``."""
    return (squares.long() << torch.arange(SQUARES, device=squares.device)).sum(-1)


def popcount(board: Tensor) -> Tensor:
    """How many squares are in the mask."""
    fields = board - ((board >> 1) & 0x5555555555555555)
    fields = (fields & 0x3333333333333333) + ((fields >> 2) & 0x3333333333333333)
    fields = (fields + (fields >> 4)) & 0x0F0F0F0F0F0F0F0F
    return (fields * 0x0101010101010101) >> 56  # the top byte is at most 64, so never negative


def _runs(start: Tensor, inner: Tensor, rays: Rays) -> tuple[Tensor, Tensor]:
    """The discs of ``inner`` in unbroken runs of up to six that begin beside ``start``, up and down each axis.

    ``pairs`` are the discs of ``inner`` whose predecessor is in ``inner`` too: two steps at a time.
    """
    step, two_steps, _ = rays
    pairs = (inner << step).bitwise_and_(inner)
    up = (start << step).bitwise_and_(inner)
    up |= (up << step).bitwise_and_(inner)
    up |= (up << two_steps).bitwise_and_(pairs)
    up |= (up << two_steps).bitwise_and_(pairs)
    pairs = pairs >> step
    down = (start >> step).bitwise_and_(inner)
    down |= (down >> step).bitwise_and_(inner)
    down |= (down >> two_steps).bitwise_and_(pairs)
    down |= (down >> two_steps).bitwise_and_(pairs)
    return up, down


def _joined(lanes: Tensor) -> Tensor:
    """The squares in any of the four lanes."""
    half = lanes[:2] | lanes[2:]
    return half[0] | half[1]


def legal_moves(mover: Tensor, opponent: Tensor, rays: Rays | None = None) -> Tensor:
    """The empty squares where the mover turns at least one disc."""
    mover, opponent = torch.broadcast_tensors(mover, opponent)
    rays = (rays or Rays.on(mover.device)).beside(mover)
    up, down = _runs(mover, opponent & rays.inner, rays)
    beyond = (up << rays.step).bitwise_or_(down >> rays.step)
    return _joined(beyond).bitwise_and_(~(mover | opponent))


def flips(mover: Tensor, opponent: Tensor, square_mask: Tensor, rays: Rays | None = None) -> Tensor:
    """The discs that turn over when the mover plays the square of a one-bit mask; 0 if the mask is 0."""
    mover, opponent, square_mask = torch.broadcast_tensors(mover, opponent, square_mask)
    rays = (rays or Rays.on(mover.device)).beside(mover)
    up, down = _runs(square_mask, opponent & rays.inner, rays)
    up *= (up << rays.step).bitwise_and_(mover) != 0
    down *= (down >> rays.step).bitwise_and_(mover) != 0
    return _joined(up.bitwise_or_(down))


def play(mover: Tensor, opponent: Tensor, square_mask: Tensor, rays: Rays | None = None) -> tuple[Tensor, Tensor]:
    """The boards after a move, already swapped: (new mover, new opponent). A mask of 0 is a pass."""
    turned = flips(mover, opponent, square_mask, rays)
    return opponent ^ turned, mover ^ turned ^ square_mask


def final_score(mover: Tensor, opponent: Tensor) -> Tensor:
    """The mover's margin in discs when the game ends here; empty squares go to the winner."""
    mine, theirs = popcount(mover), popcount(opponent)
    margin = mine - theirs
    return margin + margin.sign() * (SQUARES - mine - theirs)


# --- symmetry --------------------------------------------------------------------------------------------------------


def _exchange(board: Tensor, by: int, low_mask: int) -> Tensor:
    """Swap neighbouring fields of ``by`` bits; ``low_mask`` is the lower one of each pair."""
    return ((board >> by) & low_mask) | ((board & low_mask) << by)


def _mirror_files(board: Tensor) -> Tensor:
    board = _exchange(board, 1, 0x5555555555555555)
    board = _exchange(board, 2, 0x3333333333333333)
    return _exchange(board, 4, 0x0F0F0F0F0F0F0F0F)


def _mirror_ranks(board: Tensor) -> Tensor:
    board = _exchange(board, 8, 0x00FF00FF00FF00FF)
    board = _exchange(board, 16, 0x0000FFFF0000FFFF)
    return _exchange(board, 32, 0x00000000FFFFFFFF)


def _transpose(board: Tensor) -> Tensor:
    for by, mask in ((7, 0x00AA00AA00AA00AA), (14, 0x0000CCCC0000CCCC), (28, 0x00000000F0F0F0F0)):
        difference = (board ^ (board >> by)) & mask
        board = board ^ difference ^ (difference << by)
    return board


def transform(board: Tensor, symmetry: int | Tensor) -> Tensor:
    """Image under symmetry 0…7 of ``rules.SYMMETRIES``, one for all boards or one for each."""
    for bit, mirror in ((1, _mirror_files), (2, _mirror_ranks), (4, _transpose)):
        if isinstance(symmetry, Tensor):
            board = torch.where(symmetry & bit != 0, mirror(board), board)
        elif symmetry & bit:
            board = mirror(board)
    return board


# --- all moves of all positions --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Children:
    """The positions after one ply from each of N positions, in one list of fixed size, parent by parent.

    Slots that are not ``valid`` hold an empty board and parent 0, so that they can be looked up and evaluated like the
    rest.
    """

    parent: Tensor
    """int64 [capacity]: which of the N positions."""
    square: Tensor
    """int64 [capacity]: the move, or PASS."""
    boards: Tensor
    """int64 [2, capacity]: ``mover`` and ``opponent``."""
    valid: Tensor
    """bool [capacity]"""
    first: Tensor
    """int64 [N]: the slot of each position's first child, if it has room."""
    count: Tensor
    """int64 [N]: how many children each position has, in room or not."""

    @property
    def mover(self) -> Tensor:
        """int64 [capacity]: the side that did not make the move."""
        return self.boards[0]

    @property
    def opponent(self) -> Tensor:
        """int64 [capacity]: the side that made it."""
        return self.boards[1]

    @property
    def capacity(self) -> int:
        return self.boards.shape[1]

    @property
    def complete(self) -> Tensor:
        """bool [N]: all children of the position found room."""
        return (self.count == 0) | (self.first + self.count <= self.capacity)

    @property
    def dropped(self) -> Tensor:
        """int64 []: how many children found no room."""
        return (self.count.sum() - self.capacity).clamp(min=0)


def expand(
    positions: Tensor,
    legal: Tensor,
    capacity: int,
    *,
    passes: Tensor | None = None,
    fair: bool = False,
    rays: Rays | None = None,
) -> Children:
    """The positions after each move in ``legal`` ``[N]`` of N ``positions`` ``[2, N]``: mover, opponent.

    Where ``passes`` (bool) holds, the one child is the position after a pass. The list has ``capacity`` slots whatever
    the number of moves: shapes that depended on the data would stop the device to ask for it. What does not fit is left
    out from the end of the list; with ``fair`` it is the last moves of the widest positions, and if there are at least
    N slots each position keeps a move.
    """
    device = positions.device
    # A pass takes the place of a move on a1, so that it has one slot.
    choices = unpack(legal if passes is None else torch.where(passes, 1, legal))
    rank = choices.cumsum(1)
    count = rank[:, -1]
    if fair:
        count = torch.minimum(count, _fair_share(count, capacity))
        choices &= rank <= count.unsqueeze(1)
    end = count.cumsum(0)
    first = end - count
    # What has no slot goes to one past the end, which is cut off again.
    slot = torch.where(choices, rank + (first - 1).unsqueeze(1), capacity).clamp_(max=capacity)
    source = torch.arange(legal.numel() * SQUARES, device=device)
    source = torch.zeros(capacity + 1, dtype=torch.int64, device=device).scatter_(0, slot.view(-1), source)[:-1]
    parent, square = source >> 6, source & 63
    valid = torch.arange(capacity, device=device) < end[-1:]
    square_mask = valid.long() << square
    if passes is not None:
        passed = passes[parent]
        square_mask = torch.where(passed, 0, square_mask)
        square = torch.where(passed, PASS, square)
    # Nothing can be turned on an empty board: slots that are not in use stay empty.
    before = positions[:, parent] * valid
    turned = flips(before[0], before[1], square_mask, rays)
    # As ``play`` does it, for both sides at once.
    side = torch.arange(2, device=device).unsqueeze(1)
    after = before.flip(0) ^ (turned | square_mask * side)
    return Children(parent=parent, square=square, boards=after, valid=valid, first=first, count=count)


def _fair_share(count: Tensor, capacity: int) -> Tensor:
    """The most children of one position with which those of all have room; int64 []."""
    share = torch.arange(1, MOST_CHILDREN + 1, device=count.device)
    return (torch.minimum(count, share.unsqueeze(1)).sum(1) <= capacity).sum()
