"""Learning backwards: its positions, labels and fits against plain ones, and stopping at any step."""

import numpy as np
import pytest
import torch
from strategies import endings

from othello_nn.config import Backwards, ConfigError
from othello_nn.game import rules
from othello_nn.game.rules import squares_in
from othello_nn.learn import backwards
from othello_nn.learn.backwards import BackwardsLearner, Labelled, fit, symmetric
from othello_nn.learn.td.batch import transform
from othello_nn.nets import make_net

# Shapes of the centre: on those of the edge, early positions read one cell many times, which a fit cannot bear.
NET = {"kind": "ntuple", "tuples": [[11, 19, 27, 35], [18, 19, 20, 21], [27, 28, 36]], "stages": 4}
OPTIONS = Backwards(positions=(250, 300), solve_empties=6, depth=2)


def learner(threads: int = 1, options: Backwards = OPTIONS, seed: int = 3) -> BackwardsLearner:
    return BackwardsLearner(make_net(NET), options, seed=seed, threads=threads)


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    """So that a stage takes several steps, and a step several parts."""
    monkeypatch.setattr(backwards, "SLAB", 128)
    monkeypatch.setattr(backwards, "CHUNK", 40)


def finished(made: BackwardsLearner) -> list[dict[str, float]]:
    found = []
    while made.progress < 1:
        found.append(made.step())
    return found


@pytest.fixture(scope="module")
def whole():
    """A learner that went all the way, with its metrics."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backwards, "SLAB", 128)
        patch.setattr(backwards, "CHUNK", 40)
        made = learner()
        return made, finished(made)


# --- the run ---------------------------------------------------------------------------------------------------------


def test_stages_are_learnt_from_the_end_in_rounds(whole):
    made, metrics = whole
    assert made.games == 4 * (250 + 300)
    assert made.progress == 1
    learnt = [(step["backwards/round"], step["backwards/stage"]) for step in metrics if step]
    assert learnt == [(1, 0), (1, 1), (1, 2), (1, 3), (2, 0), (2, 1), (2, 2), (2, 3)]
    assert len(metrics) == 4 * 2 + 4 * 3, "250 positions take two slabs of 128, 300 take three"
    errors = [step["backwards/error_discs"] for step in metrics if "backwards/error_discs" in step]
    assert len(errors) >= 6
    assert all(0 < error < 40 for error in errors)


@pytest.mark.parametrize("threads", [2, 5])
def test_threads_change_nothing(whole, threads):
    again = learner(threads)
    finished(again)
    assert np.array_equal(again.weights, whole[0].weights)


def test_another_seed_gives_another_net(whole):
    other = learner(seed=4)
    finished(other)
    assert not np.array_equal(other.weights, whole[0].weights)


@pytest.mark.parametrize("stops", [(1,), (2, 7), (8,), (9, 10), (19,)])
def test_stopped_and_restored_it_learns_the_same(whole, stops):
    """Inside a stage, between stages, between rounds."""
    made, done = learner(), 0
    for stop in stops:
        for _ in range(stop - done):
            made.step()
        done = stop
        state = {name: array.copy() for name, array in made.state().items()}
        made = learner()
        made.restore(state)
    finished(made)
    assert made.games == whole[0].games
    assert np.array_equal(made.weights, whole[0].weights)
    assert np.array_equal(made.player.weights, whole[0].player.weights)


def test_a_state_of_another_shape_is_refused(whole):
    state = whole[0].state()
    with pytest.raises(ValueError, match="weights has the shape"):
        learner().restore(state | {"weights": state["weights"][:2]})
    with pytest.raises(ValueError, match="player has the shape"):
        learner().restore(state | {"player": state["player"][:, :-1]})


@pytest.mark.parametrize("odd", [{"dim": 4}, {"shared": True}, {"view": "negation"}])
def test_nets_it_cannot_teach(odd):
    with pytest.raises(ConfigError, match="learning backwards is for n-tuple nets of dim 1"):
        BackwardsLearner(make_net(NET | odd), OPTIONS)


def test_the_net_is_what_was_learnt(whole):
    made = whole[0]
    net = made.net()
    assert torch.equal(net.weight, torch.from_numpy(made.weights))
    boards = np.array(endings(5, 3, 2, 50), np.uint64)
    mover, opponent = (torch.from_numpy(np.ascontiguousarray(column).view(np.int64)) for column in boards.T)
    with torch.no_grad():
        expected = net.discs(mover, opponent).numpy()
    # Each of the table's cells is rounded to 1/128 of a disc for the search.
    found = made.evaluator().discs(*np.ascontiguousarray(boards.T))
    assert found == pytest.approx(np.clip(expected, -62, 62), abs=17 / 256 + 0.01)
    for image in range(1, 8):
        number = torch.full_like(mover, image)
        seen = net.discs(transform(mover, number), transform(opponent, number)).detach().numpy()
        assert seen == pytest.approx(expected, abs=1e-3), "all images are worth the same"


# --- parts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", [0, 2, 3])
def test_positions_have_a_move_and_the_empties_of_their_stage(stage):
    made = learner()
    fewest, most = made._empties(stage)
    data = made._sampled(5, stage, 0, 200)
    empties = [64 - (int(m) | int(o)).bit_count() for m, o in zip(data.movers, data.opponents, strict=True)]
    assert min(empties) >= fewest
    assert max(empties) <= most
    assert len(set(empties)) > (most - fewest) // 2
    assert all(rules.legal_mask(int(m), int(o)) for m, o in zip(data.movers, data.opponents, strict=True))
    assert len({(int(m), int(o)) for m, o in zip(data.movers, data.opponents, strict=True)}) == len(data.movers)


def test_which_empties_a_stage_is_learnt_from():
    """Of 4 stages with 15 numbers of empties each: one more on each side, but never a finished or unopened game."""
    assert [learner()._empties(stage) for stage in range(4)] == [(1, 15), (14, 30), (29, 45), (44, 60)]


def minimax(leaf, mover: int, opponent: int, depth: int) -> float:
    """Discs for the mover. A pass costs no depth; out of depth nobody looks whether there is a move."""
    if not depth and (mover | opponent).bit_count() < 64:
        return leaf(mover, opponent) if mover else -64.0
    legal = squares_in(rules.legal_mask(mover, opponent))
    if not legal:
        if not rules.legal_mask(opponent, mover):
            return float(rules.final_score(mover, opponent))
        return -minimax(leaf, opponent, mover, depth)
    return max(-minimax(leaf, *rules.play(mover, opponent, square), depth - 1) for square in legal)


def test_labels_are_solved_or_searched(whole):
    made = learner(options=Backwards(positions=(400,), solve_empties=6, depth=3))
    made.weights[:] = whole[0].weights
    evaluator = made.evaluator()

    def leaf(mover: int, opponent: int) -> float:
        return float(evaluator.discs(np.array([mover], np.uint64), np.array([opponent], np.uint64))[0])

    data = made._sampled(5, 0, 0, 100)
    solved = searched = 0
    for mover, opponent, label in zip(data.movers, data.opponents, made._labels(data), strict=True):
        mover, opponent, label = int(mover), int(opponent), float(label)
        empties = 64 - (mover | opponent).bit_count()
        if empties <= 6 and solved < 15:
            solved += 1
            assert label == rules.solve(mover, opponent)
        elif empties > 6 and searched < 15:
            searched += 1
            expected = (minimax(leaf, mover, opponent, 2) + minimax(leaf, mover, opponent, 3)) / 2
            assert label == pytest.approx(expected, abs=1 / 64)
    assert solved == searched == 15


def test_a_fit_is_plain_gradient_descent():
    """One epoch at one rate over a few positions, with the same order and images as the kernel draws."""
    net = make_net({"kind": "ntuple", "tuples": [[0, 1, 10]]})  # images of one placement are all in the table
    boards = np.array(endings(6, 2, 10, 40)[:60], np.uint64)
    labels = np.random.default_rng(1).uniform(-40, 40, len(boards)).astype(np.float32)
    data = Labelled(boards[:, 0].copy(), boards[:, 1].copy(), labels)
    weights = np.zeros(net.shapes.cells, np.float32)
    error = fit(data, weights, net.shapes, (0.4,), 9)
    plain = np.zeros(net.shapes.cells)
    mover, opponent = (torch.from_numpy(board.view(np.int64)) for board in (data.movers, data.opponents))
    cells = net.indices(mover, opponent).numpy()
    squared = []
    for index in np.random.default_rng(9).permutation(len(labels)):
        miss = labels[index] - plain[cells[index]].sum()
        squared.append(miss**2)
        for cell in cells[index]:
            plain[cell] += 0.4 / cells.shape[1] * miss / (1 + (labels[index] / backwards.FOCUS_DISCS) ** 2)
    assert weights == pytest.approx(plain, abs=1e-3)
    assert error == pytest.approx(np.mean(squared), rel=1e-4)
    assert np.abs(plain).max() > 1


def test_fitting_finds_the_weights_that_made_the_labels():
    net = make_net({"kind": "ntuple", "tuples": [[0, 1, 2]]})
    truth = symmetric(np.random.default_rng(2).normal(0, 3, net.shapes.cells).astype(np.float32), net.shapes)
    boards = np.array(endings(7, 60, 5, 45), np.uint64)
    mover, opponent = (torch.from_numpy(np.ascontiguousarray(column).view(np.int64)) for column in boards.T)
    labels = truth[net.indices(mover, opponent).numpy()].sum(1).astype(np.float32)
    data = Labelled(boards[:, 0].copy(), boards[:, 1].copy(), labels)
    weights = np.zeros_like(truth)
    first = fit(data, weights.copy(), net.shapes, (0.0,), 1)
    assert fit(data, weights, net.shapes, backwards.RATES, 1) < 0.05 * first


def test_a_stage_with_too_few_positions_keeps_the_weights_of_the_one_before():
    """There are few positions after three moves; the opening stage has what the stage after it had."""
    few = BackwardsLearner(make_net(NET | {"stages": 30}), Backwards(positions=(220,), solve_empties=4, depth=2))
    metrics = [step for step in finished(few) if step]
    assert metrics[-1]["backwards/stage"] == 29
    assert metrics[-1]["backwards/positions"] < backwards.FEWEST
    assert "backwards/error_discs" not in metrics[-1]
    assert few.weights[28].any()
    assert np.array_equal(few.weights[29], few.weights[28])
