"""Games and learning in compiled code against plain ones: the actor, the on-line learner, temporal coherence."""

import dataclasses
import itertools
import random

import numpy as np
import pytest
import torch
from linear import linear

from othello_nn.engine.leaf.tables import weighted_squares
from othello_nn.game import rules
from othello_nn.game.rules import START_MOVER, START_OPPONENT, squares_in
from othello_nn.learn.distributed import Group
from othello_nn.learn.td.actor import Exploration, play_numbered
from othello_nn.learn.td.batch import as_masks, transform
from othello_nn.learn.td.learners import Experience
from othello_nn.learn.td.numba_targets import exact_margins, search_values
from othello_nn.learn.td.online import LinearTables, coherence_of
from othello_nn.learn.td.online_learner import OnlineLearner
from othello_nn.learn.td.optim import RELAXATION, coherence, coherences
from othello_nn.learn.td.selfplay import Turn, rollout
from othello_nn.learn.td.statistics import error_metrics
from othello_nn.learn.td.targets import UNKNOWN, Row, lambda_returns, outcome, squashed
from othello_nn.learn.td.torch_learner import TorchLearner
from othello_nn.learn.td.trajectory import Trajectory
from othello_nn.nets import make_net

TUPLES = [[0, 1, 2], [9, 18], [27]]
SCALE = 10.0


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def squares(seed: int):
    """An evaluator without ties between moves, nearly always."""
    rng = random.Random(seed)
    return weighted_squares(f"squares-{seed}", [rng.uniform(-1, 1) for _ in range(64)])


def discs(evaluator, mover: int, opponent: int) -> float:
    return float(evaluator.discs(np.array([mover], np.uint64), np.array([opponent], np.uint64))[0])


def same(first: Trajectory, second: Trajectory) -> bool:
    return all(torch.equal(getattr(first, f.name), getattr(second, f.name)) for f in dataclasses.fields(Trajectory))


def games_of(trajectory: Trajectory):
    """(mover, opponent, explored, black to move) of each row of each game."""
    mover = np.array(as_masks(trajectory.mover), dtype=object).reshape(trajectory.rows, -1)
    opponent = np.array(as_masks(trajectory.opponent), dtype=object).reshape(trajectory.rows, -1)
    explored, black = trajectory.explored.numpy(), trajectory.black_to_move.numpy()
    for game in range(trajectory.games):
        rows = slice(int(trajectory.length[game]))
        columns = (column[rows, game].tolist() for column in (mover, opponent, explored, black))
        yield list(zip(*columns, strict=True))


# --- games -----------------------------------------------------------------------------------------------------------


def followed(trajectory: Trajectory) -> Trajectory:
    """The same moves once more, by ``rollout``."""
    occupied = trajectory.mover | trajectory.opponent
    before = torch.cat((torch.full((1, trajectory.games), START_MOVER | START_OPPONENT), occupied[:-1]))
    added = np.array(as_masks(occupied ^ before), dtype=object).reshape(trajectory.rows, -1)

    def choose(turn: Turn):
        legal = as_masks(turn.legal)
        for mask, square_mask in zip(legal, added[turn.ply], strict=True):
            assert not mask or (square_mask.bit_count() == 1 and square_mask & mask), "an illegal move"
        chosen = [s.bit_length() - 1 if mask else 0 for mask, s in zip(legal, added[turn.ply], strict=True)]
        return torch.tensor(chosen), trajectory.explored[turn.ply]

    return rollout(choose, trajectory.games)


@pytest.mark.parametrize(
    "exploration", [Exploration(0.0, 0), Exploration(0.3, 6), Exploration(0.3, 6, cut=False), Exploration(1.0, 0)]
)
def test_the_actor_records_what_rollout_would(exploration):
    trajectory = play_numbered(squares(1), exploration, 5, 0, 150)
    assert same(followed(trajectory), trajectory)
    if exploration.epsilon:
        assert (trajectory.sign == 1).sum() > 30, "some games have passes"
        assert len(trajectory.mover[20].unique()) > 140


def test_moves_are_the_best_but_for_the_explored_ones():
    evaluator = squares(2)
    trajectory = play_numbered(evaluator, Exploration(0.25, 4), 6, 0, 12)
    plain = explored = 0
    for rows in games_of(trajectory):
        mover, opponent = START_MOVER, START_OPPONENT
        for row_mover, row_opponent, chance, _ in rows:
            if not rules.legal_mask(mover, opponent):
                mover, opponent = opponent, mover
            children = [rules.play(mover, opponent, s) for s in squares_in(rules.legal_mask(mover, opponent))]
            least = min(discs(evaluator, *child) for child in children)
            if not chance and not any(child[0] == 0 for child in children):
                plain += 1
                assert discs(evaluator, row_mover, row_opponent) == least
            explored += chance
            mover, opponent = row_mover, row_opponent
    assert plain > 400
    assert 0.2 < explored / (plain + explored) < 0.4


def test_which_moves_count_as_explored():
    """The same games with and without the cut, and every explored move of the second is one of the opening."""
    cut, uncut = (play_numbered(squares(1), Exploration(0.2, 5, cut=cut), 7, 0, 600) for cut in (True, False))
    assert same(dataclasses.replace(cut, explored=uncut.explored), uncut)
    opening = uncut.explored.sum(0)
    assert torch.equal(uncut.explored, torch.arange(60).unsqueeze(1) < opening)
    counts = opening.bincount(minlength=6)
    assert len(counts) == 6
    assert (counts - 100).abs().max() < 4 * (600 * 5 / 36) ** 0.5
    assert not (uncut.explored & ~cut.explored).any()
    late = torch.arange(60).unsqueeze(1) >= 5
    share = (cut.explored & late).sum() / (cut.mask & late).sum()
    assert abs(share - 0.2) < 0.01


def test_games_depend_on_their_number_alone():
    whole = play_numbered(squares(3), Exploration(0.2, 6), 8, 1000, 150, threads=1)
    parts = [(1000, 40), (1040, 1), (1041, 109)]
    again = [play_numbered(squares(3), Exploration(0.2, 6), 8, first, games, threads=3) for first, games in parts]
    assert same(Trajectory.concatenate(again), whole)
    assert not same(play_numbered(squares(3), Exploration(0.2, 6), 9, 1000, 150), whole)
    assert len({tuple(row) for row in whole.mover.T.tolist()}) == 150


def plain_moves(black_player, white_player) -> list[int]:
    """A game at 1-ply without chance, by the readable rules."""
    mover, opponent, black, moves = START_MOVER, START_OPPONENT, True, []
    while legal := squares_in(rules.legal_mask(mover, opponent)) or squares_in(rules.legal_mask(opponent, mover)):
        if not rules.legal_mask(mover, opponent):
            mover, opponent, black = opponent, mover, not black
        children = [rules.play(mover, opponent, square) for square in legal]
        values = [
            -1000.0 if not child[0] else discs(black_player if black else white_player, *child) for child in children
        ]
        assert values.count(min(values)) == 1
        best = values.index(min(values))
        moves.append(legal[best])
        (mover, opponent), black = children[best], not black
    return moves


@pytest.mark.parametrize("seed", [11, 13, 14])
def test_against_a_rival_only_the_learner_is_recorded(seed):
    learner, rival = squares(seed), squares(100 + seed)
    trajectory = play_numbered(learner, Exploration(0.0, 0), seed, 6, 2, rival=rival)
    games = [plain_moves(learner, rival), plain_moves(rival, learner)]  # black in even games

    def choose(turn: Turn):
        chosen = [moves[turn.ply] if turn.ply < len(moves) else 0 for moves in games]
        return torch.tensor(chosen), torch.zeros(2, dtype=torch.bool)

    assert same(rollout(choose, 2, learner_black=torch.tensor([True, False])), trajectory)


def reachable(mover: int, opponent: int, row: tuple[int, int]) -> bool:
    """The learner's next afterstate, from one after which its rival (``mover``) is to move."""
    if not rules.legal_mask(mover, opponent):
        answers = [(opponent, mover)]
    else:
        answers = [rules.play(mover, opponent, square) for square in squares_in(rules.legal_mask(mover, opponent))]
    for own, other in answers:
        legal = squares_in(rules.legal_mask(own, other))
        if row in [rules.play(own, other, square) for square in legal]:
            return True
        must_pass = not legal and rules.legal_mask(other, own) and (own | other) != (mover | opponent)
        if must_pass and reachable(other, own, row):
            return True
    return False


def test_against_a_rival_with_chance():
    exploration = Exploration(0.5, 6)
    trajectory = play_numbered(squares(1), exploration, 3, 0, 200, rival=squares(2))
    even = torch.arange(200) % 2 == 0
    assert torch.equal(trajectory.black_to_move, trajectory.mask & ~even)
    assert torch.equal(trajectory.sign == 1, trajectory.mask & (torch.arange(60).unsqueeze(1) < trajectory.length - 1))
    assert trajectory.explored.any(0).double().mean() > 0.5, "openings are explored"
    assert not trajectory.explored[3:].any(), "chance after the opening is a part of the world"
    assert len(trajectory.mover[12].unique()) > 180
    for game, rows in enumerate(list(games_of(trajectory))[:6]):
        first = (START_MOVER, START_OPPONENT) if game % 2 else None
        for (mover, opponent, *_), (row_mover, row_opponent, *_) in itertools.pairwise(rows):
            assert reachable(mover, opponent, (row_mover, row_opponent))
        if first:
            assert reachable(*first, rows[0][:2])
        else:
            assert reachable(START_OPPONENT, START_MOVER, rows[0][:2]) or rows[0][0].bit_count() == 1


# --- learning game by game -------------------------------------------------------------------------------------------


def lookups(net, games: Trajectory, symmetry: int = 0) -> np.ndarray:
    """``[T, B, lookups]`` cells through all stages, by the torch net."""
    number = torch.full((games.mover.numel(),), symmetry)
    mover, opponent = (transform(board.reshape(-1), number) for board in (games.mover, games.opponent))
    return net.indices(mover, opponent).view(*games.mover.shape, -1).numpy()


def plain_learning(tables, cells, games, rate, lam, coherent, logistic, kind, searched, exact) -> np.ndarray:
    """The rule in words of Python, in float64, changing ``tables`` (weights, sums, magnitudes); squared errors."""
    weights, sums, magnitudes = tables
    used, squared = cells.shape[2], []
    for game, rows in enumerate(games_of(games)):
        values = [squashed(weights[cells[t, game]].sum(), SCALE) for t in range(len(rows))]
        search_values, margins = (
            [UNKNOWN] * len(rows) if hint is None else hint[: len(rows), game].tolist() for hint in (searched, exact)
        )
        exact_values = [margin if np.isnan(margin) else outcome(margin, SCALE, kind) for margin in margins]
        final = outcome(int(games.margin[game]), SCALE, kind)
        seen = [Row(mover, opponent, black, explored) for mover, opponent, explored, black in rows]
        targets = lambda_returns(seen, values, final, lam, search_values, exact_values)
        for t, (value, target) in enumerate(zip(values, targets, strict=True)):
            error = target - value
            squared.append(error**2)
            if not logistic:
                error *= (1 - value**2) / 2
            if error == 0:
                continue
            for cell in cells[t, game]:
                own = coherence(sums[cell], magnitudes[cell]) if coherent else 1.0
                weights[cell] += rate * own * error * SCALE / used
                sums[cell] += error
                magnitudes[cell] += abs(error)
    return np.array(squared)


def batch(games: int = 4, seed: int = 3, **options) -> Trajectory:
    return play_numbered(squares(5), Exploration(**({"epsilon": 0.15, "opening_plies": 4} | options)), seed, 0, games)


@pytest.mark.parametrize("logistic", [True, False])
@pytest.mark.parametrize(
    ("coherent", "win", "hinted"), [(True, False, False), (True, True, True), (False, False, True)]
)
def test_a_step_is_what_plain_python_computes(logistic, coherent, win, hinted):
    games, kind = batch(), "win" if win else "margin"
    searched = exact = None
    if hinted:
        searched = search_values(squares(6), games, plies=2, scale=SCALE, kind=kind, exact_empties=10)
        exact = exact_margins(games.mover, games.opponent, 6)
    net = make_net({"kind": "ntuple", "tuples": TUPLES, "stages": 3})
    tables = LinearTables(net.shapes, 3, SCALE)
    rng = np.random.default_rng(1)
    tables.weights[:] = rng.normal(0, 0.5, tables.weights.shape)
    plain = [tables.weights.astype(np.float64).ravel(), np.zeros(tables.weights.size), np.zeros(tables.weights.size)]
    statistics = tables.learn(
        games,
        rate=0.8,
        lam=0.6,
        coherent=coherent,
        logistic=logistic,
        win=win,
        searched=None if searched is None else searched.numpy(),
        exact=None if exact is None else exact.numpy(),
    )
    squared = plain_learning(plain, lookups(net, games), games, 0.8, 0.6, coherent, logistic, kind, searched, exact)
    assert np.abs(tables.weights.ravel() - plain[0]).max() < 2e-4
    assert np.abs(plain[0]).max() > 0.5
    if coherent:
        assert np.abs(tables.sums.ravel() - plain[1]).max() < 1e-3
        assert np.abs(tables.magnitudes.ravel() - plain[2]).max() < 1e-3
    metrics = error_metrics(torch.from_numpy(statistics))
    assert metrics["loss/td_error"] == pytest.approx(squared.mean(), rel=1e-4)
    assert statistics[:, 1].sum() == len(squared) == int(games.length.sum())


def test_more_lookups_than_the_vector_code_takes_at_once():
    """Pairs of neighbours: 210 lookups."""
    games = batch(2)
    net = make_net({"kind": "ntuple", "tuples": "all-2"})
    tables = LinearTables(net.shapes, 1, SCALE)
    plain = [np.zeros(tables.weights.size) for _ in range(3)]
    tables.learn(games, rate=1.0, lam=0.5)
    plain_learning(plain, lookups(net, games), games, 1.0, 0.5, True, True, "margin", None, None)
    assert np.abs(tables.weights.ravel() - plain[0]).max() < 1e-4
    with torch.no_grad():
        net.weight.copy_(torch.from_numpy(tables.weights))
        rows = games.mover[5], games.opponent[5]
        movers, opponents = (row.numpy().view(np.uint64) for row in rows)
        assert tables.evaluator().discs(movers, opponents) == pytest.approx(net.discs(*rows).numpy(), abs=0.02)


def test_a_game_is_learnt_under_a_random_symmetry():
    """All placements of a tuple share a table, so it shows only in a tuple that is its own mirror image."""
    games = batch(1, seed=9)
    assert abs(int(games.margin)) > 4
    net = make_net({"kind": "ntuple", "tuples": [[0, 1, 8]]})
    expected = []
    for symmetry in range(8):
        plain = [np.zeros(net.shapes.cells) for _ in range(3)]
        plain_learning(plain, lookups(net, games, symmetry), games, 1.0, 0.5, True, True, "margin", None, None)
        expected.append(plain[0])
    assert max(np.abs(one - expected[0]).max() for one in expected) > 0.1
    seen = set()
    for seed in range(20):
        tables = LinearTables(net.shapes, 1, SCALE)
        tables.learn(games, rate=1.0, lam=0.5, seed=seed)
        distances = [np.abs(tables.weights[0] - one).max() for one in expected]
        assert min(distances) < 1e-4
        seen.add(min(distances) == distances[0] or distances[0] < 1e-4)
    assert seen == {True, False}


def config_for(**options):
    settings = [f"net.tuples={TUPLES}", "net.stages=2", "td.batch_games=4", "td.augment=false"]
    return linear(*settings, *(f"{key.replace('__', '.')}={v}" for key, v in options.items()))


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_both_learners_move_a_weight_alike(loss):
    """One game, fresh weights: every row moves its cells by its error, in one update divided by its crowding."""
    config = config_for(td__loss=loss, optim__rate=0.5)
    games = batch(1, epsilon=0.0)
    online = OnlineLearner(config, make_net(config.net), Group(), 1)
    torchy = TorchLearner(config, make_net(config.net), Group(), 1, "cpu")
    one, other = (learner._learn(Experience(games), learner.targets(Experience(games))) for learner in (online, torchy))
    assert one.numpy() == pytest.approx(other.numpy(), rel=1e-4)
    rows = int(games.length)
    cells = lookups(online.net(), games)[:rows, 0]
    counts = np.bincount(cells.ravel(), minlength=online.net().weight.numel())
    moved, also = (learner.net().weight.detach().numpy().ravel() for learner in (online, torchy))
    fresh = TorchLearner(config, make_net(config.net), Group(), 1, "cpu")
    errors = fresh.targets(Experience(games)).rows.returns[:rows].numpy() * (1 if loss == "logistic" else 0.5)
    expected = np.zeros((2, len(counts)))
    for error, read in zip(errors, cells, strict=True):
        step = 0.5 * error * SCALE / len(read)
        np.add.at(expected[0], read, step)
        np.add.at(expected[1], read, step / max(counts[read].mean() / RELAXATION, 1))
    once = counts == 1  # what is read again in the game moves at another rate by then
    assert once.sum() > 5
    assert moved[once] == pytest.approx(expected[0][once], abs=1e-5)
    assert also == pytest.approx(expected[1], abs=1e-5)
    assert np.abs(expected[0]).max() > 3 * np.abs(expected[1]).max() > 0.1


# --- temporal coherence ----------------------------------------------------------------------------------------------


def test_coherence_is_how_well_steps_agree():
    cases = {(0.0, 0.0): 1, (3.0, 3.0): 1, (-3.0, 3.0): 1, (0.0, 2.0): 0, (-0.5, 2.0): 0.25, (1e-38, 2e-38): 0.5}
    totals, magnitudes = (torch.tensor(column) for column in zip(*cases, strict=True))
    assert [coherence(*case) for case in cases] == pytest.approx(list(cases.values()))
    assert [coherence_of(*case) for case in cases] == pytest.approx(list(cases.values()))
    assert coherences(totals, magnitudes).tolist() == pytest.approx(list(cases.values()))
