"""The rules on torch tensors against the compiled and the readable ones."""

import random

import numpy as np
import pytest
import torch
from strategies import endings, scattered

from othello_nn.game import rules
from othello_nn.game.rules import FULL_MASK, PASS, START_MOVER, START_OPPONENT, squares_in
from othello_nn.kernels import board
from othello_nn.learn.td import batch

word = np.uint64


@pytest.fixture(scope="module")
def sample() -> list[tuple[int, int]]:
    """Positions of whole random games, and boards that no game reaches."""
    return endings(1, 40, 0, 60) + scattered(2, 1500, 0, 60)


def tensors(positions):
    return batch.boards(mover for mover, _ in positions), batch.boards(opponent for _, opponent in positions)


def random_masks(seed: int, count: int) -> list[int]:
    rng = random.Random(seed)
    edges = [0, FULL_MASK, 1 << 63, 1, FULL_MASK ^ 1 << 63]
    return edges + [rng.getrandbits(64) for _ in range(count)]


def test_masks_and_back():
    masks = random_masks(1, 500)
    board = batch.boards(masks)
    assert batch.as_masks(board) == masks
    assert (board < 0).any()
    squares = batch.unpack(board)
    assert [[i for i in range(64) if row[i]] for row in squares.tolist()] == [squares_in(mask) for mask in masks]
    assert torch.equal(batch.pack(squares), board)


def test_popcount():
    masks = random_masks(2, 2000)
    assert batch.popcount(batch.boards(masks)).tolist() == [mask.bit_count() for mask in masks]


def test_legal_moves(sample):
    mover, opponent = tensors(sample)
    expected = [int(board.legal_moves(word(m), word(o))) for m, o in sample]
    assert batch.as_masks(batch.legal_moves(mover, opponent)) == expected
    some = range(0, len(sample), 50)
    assert [expected[i] for i in some] == [rules.legal_mask(*sample[i]) for i in some]


def test_flips_on_every_empty_square(sample):
    cases = [(m, o, square) for m, o in sample for square in squares_in(~(m | o) & FULL_MASK)]
    assert len(cases) > 50_000
    mover, opponent = tensors([case[:2] for case in cases])
    turned = batch.as_masks(batch.flips(mover, opponent, batch.boards(1 << square for _, _, square in cases)))
    assert turned == [int(board.flips(word(m), word(o), square)) for m, o, square in cases]
    assert max(mask.bit_count() for mask in turned) >= 12


def test_play_and_pass(sample):
    moves = [(m, o, (squares_in(rules.legal_mask(m, o)) or [PASS])[-1]) for m, o in sample[::7]]
    assert sum(square == PASS for _, _, square in moves) > 50
    mover, opponent = tensors([move[:2] for move in moves])
    square_mask = batch.boards(0 if square == PASS else 1 << square for _, _, square in moves)
    after = batch.play(mover, opponent, square_mask)
    assert list(zip(*map(batch.as_masks, after), strict=True)) == [rules.play(*move) for move in moves]


def test_any_shape_and_broadcasting(sample):
    mover, opponent = tensors(sample[:60])
    flat = batch.legal_moves(mover, opponent)
    assert torch.equal(batch.legal_moves(mover.view(3, 4, 5), opponent.view(3, 4, 5)).flatten(), flat)
    squares = batch.boards(1 << square for square in range(64))
    grid = batch.flips(mover.unsqueeze(1), opponent.unsqueeze(1), squares)
    assert torch.equal(grid[7], batch.flips(mover[7], opponent[7], squares))
    legal = (grid != 0) & ~batch.unpack(mover | opponent)
    assert torch.equal(batch.pack(legal), flat)


def test_final_score(sample):
    mover, opponent = tensors(sample)
    expected = [rules.final_score(m, o) for m, o in sample]
    assert batch.final_score(mover, opponent).tolist() == expected
    assert {64, -64, 0} <= set(expected)


@pytest.mark.parametrize("symmetry", range(8))
def test_transform_with_one_symmetry(symmetry):
    masks = random_masks(3, 200)
    image = batch.as_masks(batch.transform(batch.boards(masks), symmetry))
    assert image == [rules.transform_mask(mask, symmetry) for mask in masks]


def test_transform_with_a_symmetry_for_each_board():
    masks = random_masks(4, 400)
    symmetries = [random.Random(i).randrange(8) for i in range(len(masks))]
    image = batch.as_masks(batch.transform(batch.boards(masks), torch.tensor(symmetries)))
    assert image == [rules.transform_mask(mask, k) for mask, k in zip(masks, symmetries, strict=True)]


def plain_children(positions, with_passes=False):
    """(parent, square, new mover, new opponent) by the readable rules."""
    found = []
    for parent, (mover, opponent) in enumerate(positions):
        squares = squares_in(rules.legal_mask(mover, opponent))
        if with_passes and not squares and rules.legal_mask(opponent, mover):
            squares = [PASS]
        found += [(parent, square, *rules.play(mover, opponent, square)) for square in squares]
    return found


def listed(children: batch.Children):
    """The valid slots, which must come first; the others must be empty boards of parent 0."""
    count = int(children.valid.sum())
    assert children.valid[:count].all()
    for tensor in (children.parent, children.mover, children.opponent):
        assert not tensor[count:].any()
    columns = children.parent.tolist(), children.square.tolist()
    boards = batch.as_masks(children.mover), batch.as_masks(children.opponent)
    return list(zip(*columns, *boards, strict=True))[:count]


def stacked(positions):
    return torch.stack(tensors(positions))


@pytest.mark.parametrize("count", [1, 63, 64, 700])
@pytest.mark.parametrize("fair", [False, True])
def test_expand_lists_all_children_in_order(sample, count, fair):
    positions = random.Random(count).sample(sample, count)
    boards = stacked(positions)
    children = batch.expand(boards, batch.legal_moves(*boards), 24 * count, fair=fair)
    expected = plain_children(positions)
    assert listed(children) == expected
    assert children.capacity == len(children.valid) == 24 * count
    assert int(children.dropped) == 0
    assert children.complete.all()
    parents = [parent for parent, *_ in expected]
    assert children.count.tolist() == [parents.count(parent) for parent in range(count)]
    firsts = {parent: parents.index(parent) for parent in parents}
    assert {parent: int(children.first[parent]) for parent in firsts} == firsts


def test_expand_with_passes(sample):
    positions = sample[::5]
    boards = stacked(positions)
    legal, replies = batch.legal_moves(*boards), batch.legal_moves(*boards.flip(0))
    children = batch.expand(boards, legal, 24 * len(positions), passes=(legal == 0) & (replies != 0))
    expected = plain_children(positions, with_passes=True)
    assert sum(square == PASS for _, square, _, _ in expected) > 20
    assert listed(children) == expected


def test_expand_counts_what_does_not_fit(sample):
    positions = sample[:300]
    expected = plain_children(positions)
    boards = stacked(positions)
    legal = batch.legal_moves(*boards)
    for capacity in (0, 1, 500, len(expected) - 1, len(expected), len(expected) + 1):
        children = batch.expand(boards, legal, capacity)
        assert listed(children) == expected[:capacity]
        assert int(children.dropped) == max(0, len(expected) - capacity)
        cut = {parent for parent, *_ in expected[capacity:]}
        assert children.complete.tolist() == [parent not in cut for parent in range(len(positions))]


def test_where_room_is_short_the_widest_positions_lose_moves(sample):
    positions = sample[:300]
    expected = plain_children(positions)
    widths = [sum(parent == at for parent, *_ in expected) for at in range(300)]
    boards = stacked(positions)
    legal = batch.legal_moves(*boards)
    cut = set()
    for capacity in (300, 301, 900, len(expected) - 1, len(expected)):
        most = max(m for m in range(1, 35) if sum(min(width, m) for width in widths) <= capacity)
        kept = [child for i, child in enumerate(expected) if sum(c[0] == child[0] for c in expected[:i]) < most]
        children = batch.expand(boards, legal, capacity, fair=True)
        assert listed(children) == kept
        assert {parent for parent, *_ in kept} == {at for at in range(300) if widths[at]}, "each keeps a move"
        assert children.complete.all(), "what is listed has room"
        cut.add(len(expected) - len(kept))
    assert len(cut) > 3
    assert 0 in cut


def test_the_widest_known_position_fits():
    mover, opponent = 0x0008640A38240001, 0x00760250464A6C00
    legal = rules.legal_mask(mover, opponent)
    assert legal.bit_count() == batch.MOST_CHILDREN
    for fair in (False, True):
        children = batch.expand(stacked([(mover, opponent)]), batch.boards([legal]), batch.MOST_CHILDREN, fair=fair)
        assert listed(children) == plain_children([(mover, opponent)])
        assert int(children.dropped) == 0


def test_start():
    legal = batch.legal_moves(batch.boards([START_MOVER]), batch.boards([START_OPPONENT]))
    assert squares_in(batch.as_masks(legal)[0]) == [19, 26, 37, 44]
