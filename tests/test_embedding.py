"""The compiled learner of embedding nets: against autograd, against plain Python, and as a whole."""

import random

import numpy as np
import pytest
import torch

from othello_nn.arena.league import LeaguePlayer, league
from othello_nn.config import ConfigError, load_preset
from othello_nn.engine.leaf.compile import EMBEDDED_ERROR, compile_checkpoint, compile_net, cross_check, leaf_pair
from othello_nn.engine.leaf.embedded import EmbeddedEvaluator
from othello_nn.engine.leaf.tables import weighted_squares
from othello_nn.engine.score import SCORE_DISC
from othello_nn.learn.distributed import Group
from othello_nn.learn.learner import first_net
from othello_nn.learn.make import make_learner, make_td_learner
from othello_nn.learn.td import embedding
from othello_nn.learn.td.actor import Exploration, play_numbered
from othello_nn.learn.td.batch import as_masks, transform
from othello_nn.learn.td.embedding import ROWS, SIZE, SUM, UPDATES, tied_cells
from othello_nn.learn.td.embedding_learner import HEAD_SHARE, EmbeddingLearner
from othello_nn.learn.td.learners import Experience, float_state
from othello_nn.learn.td.numba_targets import exact_margins, search_values
from othello_nn.learn.td.optim import coherence
from othello_nn.learn.td.rivals import opponent_evaluator
from othello_nn.learn.td.targets import UNKNOWN, Row, lambda_returns, outcome, squashed
from othello_nn.learn.td.torch_learner import TorchLearner
from othello_nn.nets import export, load_net

SCALE = 10.0
TUPLES = [[0, 1, 2], [9, 18], [27]]
SMALL = [f"net.tuples={TUPLES}", "net.stages=3", "net.dim=4", "net.hidden=6", "td.batch_games=8", "games=4000"]


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def learner_of(*settings: str, threads: int = 1, **values) -> EmbeddingLearner:
    config = load_preset("embedding").changed([*SMALL, *settings], **values)
    learner = make_learner(config, "cpu", Group(), threads)
    assert isinstance(learner, EmbeddingLearner)
    return learner


def stirred(learner: EmbeddingLearner, size: float = 0.5) -> EmbeddingLearner:
    """With weights that are not nearly zero, so that all parts of the net matter."""
    rng = np.random.default_rng(1)
    tables = learner.tables
    tables.set_weights(rng.normal(0, size, tables.rows.shape).astype(np.float32))
    tables.learnt.head[:] = rng.normal(0, 0.5, tables.learnt.head.shape)
    return learner


def batch(games: int = 4, seed: int = 3):
    rng = random.Random(5)
    player = weighted_squares("squares", [rng.uniform(-1, 1) for _ in range(64)])
    return play_numbered(player, Exploration(0.15, 4), seed, 0, games)


def boards(games, game: int):
    return games.mover[: games.length[game], game], games.opponent[: games.length[game], game]


# --- against autograd ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("sizes", [("net.dim=4",), ("net.dim=8", "net.shared=true"), ("net.dim=3", "net.hidden=17")])
def test_the_gradient_is_autograd_s(loss, sizes):
    """One game, λ = 1, plain descent: all rows are judged before one moves, so a cell moves by the sum over its rows.

    The step counts in errors of the value, twice the logistic loss's derivative by the squash's argument.
    """
    settings = ["optim.kind=sgd", "optim.rate=0.5", "td.lambda=1.0", "td.augment=false", f"td.loss={loss}", *sizes]
    learner, games = stirred(learner_of(*settings)), batch(1)
    net = learner.net().double()
    before = net.weight.detach().clone()
    mover, opponent = boards(games, 0)
    steps = [outcome(int(games.margin[0]), SCALE, "margin")]
    for t in reversed(range(len(mover) - 1)):  # nothing explored may stand in the way of the result
        steps.insert(0, float(games.sign[t, 0]) * steps[0])
    games = batch(1)
    games.explored[:] = False
    targets = torch.tensor(steps, dtype=torch.float64)
    if loss == "logistic":
        logits = net.discs(mover, opponent) / SCALE
        total = torch.nn.functional.binary_cross_entropy_with_logits(logits, (1 + targets) / 2, reduction="sum")
    else:
        total = 0.5 * (net(mover, opponent) - targets).square().sum()
    total.backward()
    net.float()
    learner._learn(Experience(games), (None, None))
    reads = learner.tables._room.cells.shape[1]
    per_gradient = 0.5 * SCALE**2 / reads * (2 if loss == "logistic" else 1)
    moved = learner.tables.rows - before.numpy()
    expected = -per_gradient * net.weight.grad.numpy()
    assert np.abs(expected).max() > 0.05
    assert np.abs(moved - expected).max() < 1e-5 * per_gradient
    gradients = [parameter.grad.numpy() for parameter in (*net.hidden.parameters(), *net.output.parameters())]
    flat = np.concatenate([gradient.ravel() for gradient in gradients])
    assert np.abs(flat).max() > 0.1
    assert np.abs(learner.tables.learnt.gradient - flat).max() < 1e-5
    assert learner.tables.learnt.counts.tolist() == [0, len(mover)]


# --- against plain Python --------------------------------------------------------------------------------------------


class Plain:
    """The rule in words of Python and numpy, in double precision."""

    def __init__(self, learner: EmbeddingLearner, coherent: bool, logistic: bool, kind: str):
        self.net, tables = learner.net(), learner.tables
        self.weights, self.coherent, self.logistic, self.kind = tables.rows.astype(np.float64), coherent, logistic, kind
        self.flat = self.weights.reshape(-1, tables.dim)
        self.sums, self.sizes = (np.zeros(len(self.flat)) for _ in range(2))
        self.head = [part.astype(np.float64) for part in (tables.head.hidden, tables.head.bias, tables.head.output)]
        self.head.append(np.array(tables.head.output_bias))
        self.gradient = [np.zeros_like(part) for part in self.head]
        self.first, self.second = ([np.zeros_like(part) for part in self.head] for _ in range(2))
        self.updates = self.rows = 0

    def cells(self, mover, opponent) -> np.ndarray:
        """Through all rows of the tables, with the tied ones in their place."""
        cells, tied = self.net.shapes.cells, tied_cells(self.net.shapes)
        indices = self.net.indices(mover, opponent).numpy()
        own = indices // cells * cells + tied[indices % cells]
        return np.concatenate([own, self.net.stages * cells + tied[indices % cells]], 1)

    def learn(self, games, game: int, rate: float, lam: float, searched, exact) -> None:
        cells = self.cells(*boards(games, game))
        sums = [self.flat[read].sum(0) for read in cells]
        hidden, bias, output, constant = self.head
        active = [np.maximum(hidden @ total + bias, 0) for total in sums]
        discs = [total[0] + output @ units + constant for total, units in zip(sums, active, strict=True)]
        values = [squashed(float(each), SCALE) for each in discs]
        rows = [Row(*row) for row in zip(*self.columns(games, game), strict=True)]
        known = [
            [UNKNOWN] * len(rows) if hint is None else hint[: len(rows), game].tolist() for hint in (searched, exact)
        ]
        known[1] = [margin if np.isnan(margin) else outcome(margin, SCALE, self.kind) for margin in known[1]]
        final = outcome(int(games.margin[game]), SCALE, self.kind)
        targets = lambda_returns(rows, values, final, lam, *known)
        for read, total, units, value, target in zip(cells, sums, active, values, targets, strict=True):
            error = (target - value) * (1 if self.logistic else (1 - value**2) / 2)
            slope = -error / SCALE * (0.5 if self.logistic else 1)
            by_units = output * (units > 0)
            by_sums = by_units @ hidden + np.eye(1, len(total))[0]
            for part, change in zip(self.gradient, (np.outer(by_units, total), by_units, units, 1.0), strict=True):
                part += slope * change
            for cell in read:
                share = coherence(self.sums[cell], self.sizes[cell]) if self.coherent else 1.0
                self.flat[cell] += rate * share * error * SCALE / len(read) * by_sums
                self.sums[cell] += error
                self.sizes[cell] += abs(error)
        self.rows += len(rows)
        if self.rows >= embedding.HEAD_ROWS:
            self.move_head(rate)

    def move_head(self, rate: float) -> None:
        self.updates += 1
        for part, gradient, first, second in zip(self.head, self.gradient, self.first, self.second, strict=True):
            mean = gradient / self.rows
            first += 0.1 * (mean - first)
            second += 0.001 * (mean**2 - second)
            corrected = first / (1 - 0.9**self.updates), second / (1 - 0.999**self.updates)
            part -= HEAD_SHARE * rate * corrected[0] / (np.sqrt(corrected[1]) + 1e-8)
            gradient[...] = 0
        self.rows = 0

    @staticmethod
    def columns(games, game: int):
        mover, opponent = (as_masks(board) for board in boards(games, game))
        flags = (column[: len(mover), game].tolist() for column in (games.black_to_move, games.explored))
        return mover, opponent, *flags


@pytest.mark.parametrize(
    ("kind", "loss", "result", "hinted"),
    [("tc", "logistic", "margin", False), ("tc", "squared", "win", True), ("sgd", "logistic", "margin", True)],
)
def test_steps_are_what_plain_python_computes(kind, loss, result, hinted):
    settings = [f"optim.kind={kind}", "optim.rate=0.1", "optim.final_rate=0", f"td.loss={loss}", f"td.outcome={result}"]
    learner, games = stirred(learner_of(*settings, "net.shared=true", "td.lambda=0.6")), batch(11)
    plain = Plain(learner, kind == "tc", loss == "logistic", result)
    searched = exact = None
    if hinted:
        searched = search_values(learner.evaluator(), games, plies=2, scale=SCALE, kind=result, exact_empties=6)
        exact = exact_margins(games.mover, games.opponent, 6)
    for game in range(games.games):
        plain.learn(games, game, 0.1, 0.6, searched, exact)
    experience = Experience(games, searched, exact)
    learner._learn(experience, learner.targets(experience))
    tables, learnt = learner.tables, learner.tables.learnt
    assert np.abs(tables.rows - plain.weights).max() < 2e-4
    assert np.abs(plain.weights).max() > 1
    if kind == "tc":
        assert np.abs(learnt.coherence[:, SUM] - plain.sums).max() < 1e-3
        assert np.abs(learnt.coherence[:, SIZE] - plain.sizes).max() < 1e-3
    assert learnt.counts.tolist() == [plain.updates, plain.rows]
    assert learnt.counts[UPDATES] == 2
    assert learnt.counts[ROWS] > 0
    for part, expected in zip(("hidden", "bias", "output", "output_bias"), plain.head, strict=True):
        assert getattr(tables.head, part) == pytest.approx(expected, abs=2e-5)


# --- what plays, and what is saved -----------------------------------------------------------------------------------


def differences(evaluator, net, games) -> np.ndarray:
    """By how much the compiled values differ from torch's, beyond the rounding of scores."""
    used = games.mask
    mover, opponent = games.mover[used], games.opponent[used]
    found = evaluator.discs(*(board.numpy().view(np.uint64) for board in (mover, opponent)))
    with torch.no_grad():
        wanted = net.discs(mover, opponent).clamp(-62, 62).numpy()
    return np.abs(found - wanted) - 0.5 / SCORE_DISC


@pytest.mark.parametrize(
    "settings",
    [("net.dim=8",), ("net.shared=true", "net.dim=3"), ("net.tuples=all-2", "net.dim=4"), ("td.augment=false",)],
)
@pytest.mark.parametrize("size", [0.05, 2.0])
def test_the_actors_evaluator_is_the_net(settings, size):
    learner, games = stirred(learner_of(*settings), size), batch(20)
    learner.tables.learnt.head[:] *= 0.5
    net = learner.net()
    own = learner.evaluator()
    assert isinstance(own, EmbeddedEvaluator)
    compiled = compile_net(net.config, float_state(net))
    for evaluator in (own, compiled):
        assert differences(evaluator, net, games).max() < EMBEDDED_ERROR
    again = learner.evaluator()
    learner._learn(Experience(games), (None, None))
    moved = learner.evaluator()
    rows = tuple(board[20].numpy().view(np.uint64) for board in (games.mover, games.opponent))
    assert np.array_equal(own.discs(*rows), again.discs(*rows)), "two copies, which learning does not touch"
    assert not np.array_equal(own.discs(*rows), moved.discs(*rows))


def test_an_evaluator_s_memory_is_used_again_when_nobody_has_it():
    tables = learner_of("net.tuples=edges").tables  # which is looked up as it stands
    first, second = tables.evaluator(), tables.evaluator()
    place = first.leaf.weights
    assert second.leaf.weights != place
    del first
    third = tables.evaluator()
    assert third.leaf.weights == place
    tables.learnt.weights[5] = np.nan
    with pytest.raises(ValueError, match="not finite"):
        tables.evaluator()


def test_images_are_learnt_at_once():
    """A net that has learnt a few games says the same of a position's eight images; without images it does not."""
    games = batch(8)
    mover, opponent = (board[30] for board in (games.mover, games.opponent))
    for images in ("true", "false"):
        learner = learner_of(f"td.augment={images}", "optim.rate=1.0", "net.tuples=[[0, 1, 8], [9, 18]]")
        learner._learn(Experience(games), (None, None))
        with torch.no_grad():
            values = torch.stack(
                [
                    learner.net().discs(*(transform(board, torch.full_like(board, k)) for board in (mover, opponent)))
                    for k in range(8)
                ]
            )
        spread = (values.max(0).values - values.min(0).values).max()
        assert spread < 1e-4 if images == "true" else spread > 0.1
    assert values.abs().max() > 1


def test_a_trained_net_is_saved_and_compiled():
    learner = learner_of("net.tuples=patterns", "td.batch_games=64", "net.dim=8", "net.hidden=16", "net.shared=true")
    for _ in range(4):
        learner.step()
    learner.tables.learnt.weights[:] *= 8  # as large as after millions of games
    checkpoint = export(learner.net())
    evaluator = compile_checkpoint(checkpoint, "embedded")
    net = load_net(checkpoint)
    assert torch.equal(net.weight, learner.net().weight.half().float())
    assert differences(evaluator, net, batch(20)).max() < EMBEDDED_ERROR
    cross_check(learner.evaluator(), checkpoint.checks)


# --- runs ------------------------------------------------------------------------------------------------------------


def test_a_run_that_was_stopped_goes_on_as_if_not():
    settings = ["net.shared=true", "td.targets=minimax", "td.exact_empties=4", "optim.final_rate=0.1"]
    whole, before, after = (learner_of(*settings) for _ in range(3))
    for _ in range(8):
        whole.step()
    for _ in range(3):
        before.step()
    after.restore({name: array.copy() for name, array in before.state().items()})
    for _ in range(5):
        after.step()
    one, other = whole.state(), after.state()
    assert one.keys() == other.keys()
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], name)
    assert whole.tables.learnt.counts[UPDATES] > 10
    assert "rate/coherence" in whole.details()


def test_a_state_of_another_shape_is_refused():
    state = learner_of().state()
    with pytest.raises(ValueError, match="has the shape"):
        learner_of("net.stages=2").restore(state)
    state["cells.sums"] = state["cells.sums"][1:]
    with pytest.raises(ValueError, match="sums has the shape"):
        learner_of().restore(state)


def test_a_run_by_autograd_goes_on_in_compiled_code(capsys):
    """With its weights, as near as tied cells can be; how far each weight had come by its errors is not known."""
    config = load_preset("embedding").changed([*SMALL, "td.augment=false"])
    before = TorchLearner(config, first_net(config), Group(), 1, "cpu")
    before.step()
    after = learner_of("td.augment=false")
    after.restore(before.state())
    assert "begin anew" in capsys.readouterr().err
    assert torch.equal(after.net().weight, before.net().weight)
    assert (after.games, after.steps) == (8, 1)
    after.step()
    before.restore(after.state())
    assert "begin anew" in capsys.readouterr().err
    assert torch.equal(after.net().weight, before.net().weight)
    before.step()


def test_threads_have_no_part_in_the_result():
    states = []
    for threads in (1, 3):
        learner = learner_of("net.tuples=edges", "td.batch_games=150", threads=threads)
        for _ in range(3):
            learner.step()
        states.append(learner.state())
    for name, array in states[0].items():
        assert np.array_equal(array, states[1][name]), name


def test_it_learns():
    """Thousands of games, which take seconds, beat random moves nearly always."""
    learner = learner_of("net.tuples=rows+diagonals", "net.dim=8", "net.hidden=16", "td.batch_games=256")
    chance = LeaguePlayer("random", *leaf_pair(opponent_evaluator("random")), epsilon=1.0)
    first = league(learner.evaluator(), chance, 200, 0.0, seed=1, opening_plies=7).score
    while learner.progress < 1:
        metrics = learner.step()
    assert league(learner.evaluator(), chance, 200, 0.0, seed=1, opening_plies=7).score > max(0.9, first + 0.1)
    assert metrics["loss/explained_variance"] > 0.5
    assert metrics["rate/learning"] == pytest.approx(learner.rate)


def test_who_learns_embeddings(capsys):
    def learner(*settings: str, group=None):
        config = load_preset("embedding").changed([*SMALL, *settings])
        return make_td_learner(config, "cpu", group or Group(), 1)

    assert isinstance(learner("optim.kind=sgd"), EmbeddingLearner)
    assert isinstance(learner("optim.kind=adam", "optim.rate=0.001"), TorchLearner)
    assert isinstance(learner("net.dim=17"), TorchLearner)
    assert isinstance(learner("net.view=negation"), TorchLearner)
    assert not capsys.readouterr().err
    assert isinstance(learner(group=Group(rank=0, size=2)), TorchLearner)
    assert "these ranks learn by autograd" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="game by game"):
        learner("optim.minibatch=512")
