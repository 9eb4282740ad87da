"""Batched self-play against plain games by the readable rules, and the choices it makes by chance."""

import dataclasses
import random

import numpy as np
import pytest
import torch
from strategies import FINISHED

from othello_nn.errors import OthelloError
from othello_nn.game import PASS, rules
from othello_nn.game.notation import parse_transcript
from othello_nn.game.rules import START_MOVER, START_OPPONENT, squares_in
from othello_nn.learn.td.batch import as_masks, unpack
from othello_nn.learn.td.selfplay import Dice, play, rollout
from othello_nn.learn.td.trajectory import Trajectory


@pytest.fixture(autouse=True)
def _one_thread():
    """Threads that wait for each other on a busy machine take longer than the work."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class WholeNumberNet:
    """A linear net whose sums are exact in float64, so that no order of adding up can change a move.

    Black and white to move have their own weights: it notices if it is told the wrong colour.
    """

    def __init__(self, seed: int):
        rng = random.Random(seed)
        self.weights = torch.tensor([[rng.randrange(-(2**20), 2**20) for _ in range(128)] for _ in "wb"]).double()

    def __call__(self, mover, opponent, black_to_move):
        squares = torch.cat((unpack(mover), unpack(opponent)), -1).double()
        white, black = (squares @ self.weights.T).unbind(-1)
        return torch.where(black_to_move, black, white)

    def one(self, mover: int, opponent: int, black_to_move: bool) -> float:
        weights = self.weights[int(black_to_move)]
        return sum(weights[i].item() for i in squares_in(mover)) + sum(
            weights[64 + i].item() for i in squares_in(opponent)
        )


def constant(mover, opponent, black_to_move):
    return torch.zeros(mover.shape)


def games_of(trajectory: Trajectory):
    """For each game its rows (mover, opponent, black to move, sign, explored) and its margin."""
    columns = [
        np.array(as_masks(trajectory.mover), dtype=object).reshape(trajectory.rows, -1),
        np.array(as_masks(trajectory.opponent), dtype=object).reshape(trajectory.rows, -1),
        trajectory.black_to_move.numpy(),
        trajectory.sign.numpy(),
        trajectory.explored.numpy(),
    ]
    for game in range(trajectory.games):
        length = int(trajectory.length[game])
        for column in columns:
            assert not column[length:, game].any(), "rows beyond the length must be 0"
        yield list(zip(*(column[:length, game] for column in columns), strict=True)), int(trajectory.margin[game])


def check_by_replay(trajectory: Trajectory) -> int:
    """Every row must follow legally from the one before, and the margin from the last; the number of passes."""
    passes = 0
    for rows, margin in games_of(trajectory):
        mover, opponent, black = START_MOVER, START_OPPONENT, True
        for t, (row_mover, row_opponent, row_black, sign, _) in enumerate(rows):
            legal = rules.legal_mask(mover, opponent)
            if not legal:
                assert rows[t - 1][3] == 1, "a pass must keep the sign"
                mover, opponent, black = opponent, mover, not black
                legal = rules.legal_mask(mover, opponent)
                passes += 1
            elif t:
                assert rows[t - 1][3] == -1
            children = [rules.play(mover, opponent, square) for square in squares_in(legal)]
            assert (row_mover, row_opponent) in children
            mover, opponent, black = row_mover, row_opponent, not black
            assert row_black == black
            assert (sign == 0) == (t == len(rows) - 1)
        assert not rules.legal_mask(mover, opponent)
        assert not rules.legal_mask(opponent, mover)
        assert margin == rules.final_score(mover, opponent)
    return passes


def plain_game(black_net: WholeNumberNet, white_net: WholeNumberNet):
    """A game without chance by the readable rules: (afterstate's mover, opponent, black to move) and the final one."""
    mover, opponent, black, rows = START_MOVER, START_OPPONENT, True, []
    while True:
        squares = squares_in(rules.legal_mask(mover, opponent))
        if not squares:
            if not rules.legal_mask(opponent, mover):
                return rows
            mover, opponent, black = opponent, mover, not black
            continue
        net = black_net if black else white_net
        children = [rules.play(mover, opponent, square) for square in squares]
        values = [net.one(*child, not black) for child in children]
        assert values.count(min(values)) == 1
        mover, opponent = children[values.index(min(values))]
        black = not black
        rows.append((mover, opponent, black))


# --- whole games -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("net", "epsilon"), [(constant, 0.0), (WholeNumberNet(1), 0.3)])
def test_every_row_follows_from_the_one_before(net, epsilon):
    trajectory = play(net, 150, Dice.seeded(1), epsilon=epsilon, opening_plies=6)
    assert trajectory.rows == 60
    assert trajectory.games == 150
    assert check_by_replay(trajectory) > 50
    assert torch.equal(trajectory.mask.sum(0), trajectory.length)


@pytest.mark.parametrize("seed", range(6))
def test_the_best_move_is_made(seed):
    net = WholeNumberNet(seed)
    expected = plain_game(net, net)
    trajectory = play(net, 2, Dice.seeded(seed), epsilon=0.0)
    for rows, margin in games_of(trajectory):
        assert [row[:3] for row in rows] == expected
        assert margin == rules.final_score(*expected[-1][:2])
    assert not trajectory.explored.any()


@pytest.mark.parametrize("seed", range(6))
def test_against_an_opponent_only_the_learner_is_recorded(seed):
    net, other = WholeNumberNet(seed), WholeNumberNet(100 + seed)
    trajectory = play(net, 4, Dice.seeded(seed), epsilon=0.0, opponent=other)
    for game, (rows, margin) in enumerate(games_of(trajectory)):
        learner_black = game % 2 == 0
        expected = plain_game(net, other) if learner_black else plain_game(other, net)
        assert [row[:3] for row in rows] == [row for row in expected if row[2] != learner_black]
        mover, opponent, black = expected[-1]
        final = rules.final_score(mover, opponent)
        assert margin == (final if black != learner_black else -final)
        assert [row[3] for row in rows] == [1] * (len(rows) - 1) + [0]


def test_a_known_game_with_two_passes():
    moves = [square for square in parse_transcript(FINISHED) if square != PASS]
    trajectory = rollout(
        lambda turn: (torch.tensor([moves[turn.ply] if turn.ply < 59 else 0]), torch.tensor([False])), 1
    )
    assert int(trajectory.length) == len(moves) == 59
    assert int((trajectory.sign == 1).sum()) == 2
    black_margin = int(trajectory.margin) * (1 if trajectory.black_to_move[58, 0] else -1)
    assert black_margin == 44
    assert check_by_replay(trajectory) == 2


def test_games_end_early_by_wipe_out():
    """White is wiped out in nine moves; the game then stands still."""
    moves = parse_transcript("e6f4e3f6g5d6e7f5c5")
    trajectory = rollout(
        lambda turn: (torch.tensor([moves[turn.ply] if turn.ply < 9 else 0]), torch.tensor([False])), 1
    )
    assert int(trajectory.length) == 9
    assert int(trajectory.margin) == -64
    assert not trajectory.black_to_move[8, 0]
    check_by_replay(trajectory)


# --- chance ----------------------------------------------------------------------------------------------------------


def test_same_seed_same_games():
    first, again, other = (play(WholeNumberNet(1), 30, Dice.seeded(seed), opening_plies=4) for seed in (5, 5, 6))
    for field in dataclasses.fields(Trajectory):
        assert torch.equal(getattr(first, field.name), getattr(again, field.name))
    assert not torch.equal(first.mover, other.mover)


def test_ties_are_decided_evenly():
    """Four first moves of equal worth, then random games: each about a quarter, within four deviations."""
    trajectory = play(constant, 2000, Dice.seeded(3), epsilon=0.0)
    first = trajectory.opponent[0].unique(return_counts=True)[1]
    assert len(first) == 4
    assert (first - 500).abs().max() < 4 * (2000 * 3 / 16) ** 0.5
    assert not trajectory.explored.any()


def test_openings_are_random_and_of_even_length():
    net = WholeNumberNet(2)
    trajectory = play(net, 1000, Dice.seeded(4), epsilon=0.0, opening_plies=4)
    plies = trajectory.explored.sum(0)
    assert torch.equal(trajectory.explored, torch.arange(60).unsqueeze(1) < plies)
    counts = plies.bincount(minlength=5)
    assert len(counts) == 5
    assert (counts - 200).abs().max() < 4 * (1000 * 4 / 25) ** 0.5
    chosen = trajectory.opponent[0]
    greedy = chosen[plies == 0].unique()
    assert len(greedy) == 1
    share = (chosen[plies > 0] == greedy).double().mean()
    assert abs(share - 0.25) < 4 * (0.1875 / 800) ** 0.5


def test_epsilon_moves_are_marked():
    trajectory = play(WholeNumberNet(3), 400, Dice.seeded(5), epsilon=0.2)
    share = trajectory.explored.sum() / trajectory.length.sum()
    assert abs(share - 0.2) < 0.015
    assert len(trajectory.mover[5].unique()) > 50


def test_against_an_opponent_only_the_opening_is_marked():
    trajectory = play(WholeNumberNet(3), 300, Dice.seeded(6), epsilon=0.5, opening_plies=6, opponent=WholeNumberNet(4))
    assert trajectory.explored.any(0).double().mean() > 0.5
    assert not trajectory.explored[3:].any()
    assert len(trajectory.mover[12].unique()) > 250, "epsilon moves are made all the same"
    even = torch.arange(300) % 2 == 0
    assert torch.equal(trajectory.black_to_move, trajectory.mask & ~even)


# --- odd cases -------------------------------------------------------------------------------------------------------


def test_too_little_room_still_makes_legal_games():
    """Down to a move a game: then it is the first one, whatever the net says."""
    check_by_replay(play(WholeNumberNet(1), 40, Dice.seeded(1), capacity=60))
    (rows, _), *_ = games_of(play(WholeNumberNet(1), 40, Dice.seeded(1), capacity=40))
    mover, opponent = START_MOVER, START_OPPONENT
    for row_mover, row_opponent, *_ in rows[:8]:
        mover, opponent = rules.play(mover, opponent, squares_in(rules.legal_mask(mover, opponent))[0])
        assert (row_mover, row_opponent) == (mover, opponent)
    with pytest.raises(OthelloError, match="capacity is 39; it must be at least 1 a game, that is 40"):
        play(WholeNumberNet(1), 40, Dice.seeded(1), capacity=39)


def test_room_that_is_enough_changes_nothing():
    tight, wide = (play(WholeNumberNet(1), 100, Dice.seeded(1), capacity=room) for room in (None, 3400))
    assert equal(tight, wide)


def test_a_broken_net_plays_at_random():
    trajectory = play(lambda mover, opponent, black: torch.full(mover.shape, torch.nan), 40, Dice.seeded(1), epsilon=0)
    check_by_replay(trajectory)
    assert len(trajectory.opponent[0].unique()) == 4


@pytest.mark.parametrize("wrong", [{"epsilon": 1.5}, {"epsilon": float("nan")}, {"opening_plies": -1}, {"games": 0}])
def test_wrong_settings(wrong):
    (name,) = wrong
    with pytest.raises(OthelloError, match=f"^{name} is "):
        play(constant, **({"games": 1, "dice": Dice.seeded(1)} | wrong))


# --- trajectories ----------------------------------------------------------------------------------------------------


def equal(first: Trajectory, second: Trajectory) -> bool:
    return all(torch.equal(getattr(first, f.name), getattr(second, f.name)) for f in dataclasses.fields(Trajectory))


def test_arrays_and_back():
    trajectory = play(constant, 5, Dice.seeded(1))
    arrays = trajectory.arrays()
    assert equal(Trajectory.from_arrays(arrays), trajectory)
    with pytest.raises(OthelloError, match="unknown array 'lenght' of a trajectory; did you mean 'length'"):
        Trajectory.from_arrays(arrays | {"lenght": arrays["length"]})
    with pytest.raises(OthelloError, match="lacks the array 'margin'"):
        Trajectory.from_arrays({name: array for name, array in arrays.items() if name != "margin"})


def test_concatenate_pads_shorter_games():
    long, short = play(constant, 3, Dice.seeded(1)), play(constant, 2, Dice.seeded(2), opponent=constant)
    rows = {f.name: getattr(short, f.name) for f in dataclasses.fields(Trajectory)}
    rows = {name: tensor[:40] if tensor.dim() == 2 else tensor for name, tensor in rows.items()}
    joined = Trajectory.concatenate([long, Trajectory(**rows), long])
    assert joined.games == 8
    assert joined.rows == 60
    assert list(games_of(joined)) == [*games_of(long), *games_of(short), *games_of(long)]


def test_fields_are_checked():
    trajectory = play(constant, 3, Dice.seeded(1))
    with pytest.raises(OthelloError, match=r"sign must be torch.int8 \[60, 3\], not torch.float32"):
        dataclasses.replace(trajectory, sign=trajectory.sign.float())
    with pytest.raises(OthelloError, match=r"length must be torch.int64 \[3\], not torch.int64 \[2\]"):
        dataclasses.replace(trajectory, length=trajectory.length[:2])
