"""A position as the book knows it: one of its eight images, as 16 bytes.

The book asks for thousands of images while a game is added. ``game.rules.transform_mask`` walks over the discs of a
mask; here the three steps that a symmetry is made of are done on whole bytes. Its numbers are those of
``game.rules.SYMMETRIES``.

>>> key, k = canonical(Position.parse("f5"))
>>> all(canonical(image)[0] == key for image in Position.parse("f5").symmetries())
True
>>> position = Position.parse("f5").transform(k)
>>> (position.mover, position.opponent) == masks_of(key)
True
"""

from __future__ import annotations

from othello_nn.game.position import Position
from othello_nn.game.rules import PASS, play, squares_in

Key = bytes
KEY_BYTES = 16
_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def _images(mask: int) -> tuple[int, ...]:
    """All eight images, in the order of ``SYMMETRIES``."""
    upright = mask.to_bytes(8, "little")
    turned = _transposed(mask).to_bytes(8, "little")
    # A symmetry mirrors first and swaps columns and rows last: after the swap the two mirrors have changed places.
    return (*_mirrored(upright), *(_mirrored(turned)[k] for k in (0, 2, 1, 3)))


def _mirrored(rows: bytes) -> tuple[int, int, int, int]:
    """Itself, left and right mirrored, top and bottom mirrored, both."""
    across = rows.translate(_REVERSED)
    return (
        int.from_bytes(rows, "little"),
        int.from_bytes(across, "little"),
        int.from_bytes(rows, "big"),
        int.from_bytes(across, "big"),
    )


def _transposed(mask: int) -> int:
    """Columns and rows change places: blocks of 1, 2 and 4 squares across the diagonal."""
    for shift, kept in ((7, 0x00AA00AA00AA00AA), (14, 0x0000CCCC0000CCCC), (28, 0x00000000F0F0F0F0)):
        difference = (mask ^ (mask >> shift)) & kept
        mask ^= difference ^ (difference << shift)
    return mask


def canonical_masks(mover: int, opponent: int) -> tuple[int, int, int]:
    """The smallest image (mover, opponent), and the number of the symmetry that leads there."""
    return min(zip(_images(mover), _images(opponent), range(8), strict=True))


def canonical(position: Position) -> tuple[Key, int]:
    """The key of a position, and the symmetry that leads from it to the position that the key stands for."""
    mover, opponent, k = canonical_masks(position.mover, position.opponent)
    return _key(mover, opponent), k


def _key(mover: int, opponent: int) -> Key:
    return mover.to_bytes(8, "big") + opponent.to_bytes(8, "big")


def masks_of(key: Key) -> tuple[int, int]:
    return int.from_bytes(key[:8], "big"), int.from_bytes(key[8:], "big")


def position_of(key: Key) -> Position:
    """The position that a key stands for. A book does not know colours: it is black's turn."""
    return Position(*masks_of(key))


def discs_of(key: Key) -> int:
    mover, opponent = masks_of(key)
    return (mover | opponent).bit_count()


def shape(occupied: int) -> int:
    """The smallest image of the squares that hold discs, as a signed number of 64 bits, which files can hold.

    The position before a move has the discs of the one after it but one: so its shape is one of a few.
    """
    smallest = min(_images(occupied))
    return smallest - (1 << 64) if smallest >> 63 else smallest


def shape_of(key: Key) -> int:
    mover, opponent = masks_of(key)
    return shape(mover | opponent)


def children(key: Key) -> dict[int, Key]:
    """The key after each move; a pass is one. Nothing if the game is over."""
    mover, opponent = masks_of(key)
    position = Position(mover, opponent)
    if position.legal_mask:
        return {move: _key(*canonical_masks(*play(mover, opponent, move))[:2]) for move in position.legal_moves}
    return {PASS: _key(*canonical_masks(opponent, mover)[:2])} if position.must_pass else {}


def shapes_before(key: Key) -> set[int]:
    """The shapes that a position may have had before its last move, which was no pass."""
    mover, opponent = masks_of(key)
    return {shape((mover | opponent) ^ 1 << square) for square in squares_in(opponent)}


def before_pass(key: Key) -> Key | None:
    """The position from which a pass leads here, if there is one."""
    mover, opponent = masks_of(key)
    before = Position(opponent, mover)
    return _key(*canonical_masks(opponent, mover)[:2]) if before.must_pass else None
