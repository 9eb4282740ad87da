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

import torch
from torch import Tensor

from othello_nn.game.rules import FULL_MASK, PASS, START_MOVER, START_OPPONENT

__all__ = [
    "START_MOVER",
    "START_OPPONENT",
    "Children",
    "as_masks",
    "boards",
    "default_capacity",
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
# Each axis: its shift, and the squares where a disc can be turned along it, those with a neighbour on both sides. No
# run of such discs wraps round an edge, and none holds the sign bit, so these masks also clean up after right shifts.
_AXES = (
    (1, 0x7E7E7E7E7E7E7E7E),
    (8, 0x00FFFFFFFFFFFF00),
    (7, 0x007E7E7E7E7E7E00),
    (9, 0x007E7E7E7E7E7E00),
)

CHILDREN_EACH = 24
"""Room for moves per position in a large batch. Games average 8 moves a position and 12 at their widest."""
CHILDREN_MOST = 34
"""Room per position in a small batch, where the average is no guide: the most that a search through random boards with
their centre filled has found, far more than games have."""
SMALL_BATCH = 64


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


def _shift(board: Tensor, by: int) -> Tensor:
    return board << by if by > 0 else board >> -by


def _run(start: Tensor, inner: Tensor, pairs: Tensor, by: int) -> Tensor:
    """The discs of ``inner`` in unbroken runs that begin beside ``start``, up to six, in one direction.

    ``pairs`` are the discs of ``inner`` whose predecessor is in ``inner`` too: two steps at a time.
    """
    run = _shift(start, by).bitwise_and_(inner)
    run |= _shift(run, by).bitwise_and_(inner)
    run |= _shift(run, 2 * by).bitwise_and_(pairs)
    run |= _shift(run, 2 * by).bitwise_and_(pairs)
    return run


def _directions(opponent: Tensor):
    """For each of the eight directions: its signed shift, and ``inner`` and ``pairs`` as ``_run`` wants them."""
    for shift, mask in _AXES:
        inner = opponent & mask
        pairs = (inner << shift).bitwise_and_(inner)
        yield shift, inner, pairs
        yield -shift, inner, pairs >> shift


def legal_moves(mover: Tensor, opponent: Tensor) -> Tensor:
    """The empty squares where the mover turns at least one disc."""
    mover, opponent = torch.broadcast_tensors(mover, opponent)
    legal = torch.zeros_like(mover)
    for by, inner, pairs in _directions(opponent):
        legal |= _shift(_run(mover, inner, pairs, by), by)
    return legal.bitwise_and_(~(mover | opponent))


def flips(mover: Tensor, opponent: Tensor, square_mask: Tensor) -> Tensor:
    """The discs that turn over when the mover plays the square of a one-bit mask; 0 if the mask is 0."""
    mover, opponent, square_mask = torch.broadcast_tensors(mover, opponent, square_mask)
    turned = torch.zeros_like(mover)
    for by, inner, pairs in _directions(opponent):
        run = _run(square_mask, inner, pairs, by)
        outflanked = _shift(run, by).bitwise_and_(mover) != 0
        turned |= run.mul_(outflanked)
    return turned


def play(mover: Tensor, opponent: Tensor, square_mask: Tensor) -> tuple[Tensor, Tensor]:
    """The boards after a move, already swapped: (new mover, new opponent). A mask of 0 is a pass."""
    turned = flips(mover, opponent, square_mask)
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
    mover: Tensor
    """int64 [capacity]: the side that did not make the move."""
    opponent: Tensor
    """int64 [capacity]: the side that made it."""
    valid: Tensor
    """bool [capacity]"""
    complete: Tensor
    """bool [N]: all children of the position found room."""
    dropped: Tensor
    """int64 []: how many children found no room."""


def default_capacity(positions: int) -> int:
    """Slots for the children of so many positions."""
    return positions * (CHILDREN_MOST if positions < SMALL_BATCH else CHILDREN_EACH)


def expand(
    mover: Tensor, opponent: Tensor, legal: Tensor, capacity: int | None = None, passes: Tensor | None = None
) -> Children:
    """The positions after each move in ``legal`` of each of the N positions; all inputs are ``[N]``.

    Where ``passes`` (bool) holds, the one child is the position after a pass. The list has ``capacity`` slots whatever
    the number of moves: shapes that depended on the data would stop the device to ask for it.
    """
    (positions,) = mover.shape
    capacity = default_capacity(positions) if capacity is None else capacity
    # A pass takes the place of a move on a1, so that it has one slot.
    choices = unpack(legal if passes is None else torch.where(passes, 1, legal))
    slot = choices.flatten().cumsum(0) - 1
    # What has no slot goes to one past the end, which is cut off again.
    slot = torch.where(choices.flatten() & (slot < capacity), slot, capacity)
    source = torch.arange(positions * SQUARES, device=mover.device)
    source = torch.zeros(capacity + 1, dtype=torch.int64, device=mover.device).scatter_(0, slot, source)[:-1]
    parent, square = source >> 6, source & 63
    counts = choices.sum(1)
    total = counts.sum()
    valid = torch.arange(capacity, device=mover.device) < total
    square_mask = torch.where(valid, 1 << square, 0)
    if passes is not None:
        square_mask = torch.where(passes[parent], 0, square_mask)
        square = torch.where(passes[parent], PASS, square)
    next_mover, next_opponent = play(mover[parent], opponent[parent], square_mask)
    return Children(
        parent=parent,
        square=square,
        mover=torch.where(valid, next_mover, 0),
        opponent=torch.where(valid, next_opponent, 0),
        valid=valid,
        complete=(counts == 0) | (counts.cumsum(0) <= capacity),
        dropped=(total - capacity).clamp(min=0),
    )
