"""The TD learners: which one learns what, targets on a device, states that come back."""

import os
import sys
import threading
import time

import numpy as np
import pytest
import torch
from linear import linear
from patience import HANG_SECONDS

from othello_nn.config import Config, ConfigError, load_preset
from othello_nn.engine.leaf.compile import ColouredEvaluator
from othello_nn.kernels.parallel import in_threads
from othello_nn.learn.distributed import Group
from othello_nn.learn.learner import first_net, seed_of
from othello_nn.learn.make import make_learner
from othello_nn.learn.td import learners, torch_learner
from othello_nn.learn.td.actor import Exploration, play_numbered
from othello_nn.learn.td.ahead import LESS_URGENT, Ahead
from othello_nn.learn.td.embedding_learner import EmbeddingLearner
from othello_nn.learn.td.learners import Experience, float_state
from othello_nn.learn.td.online_learner import OnlineLearner
from othello_nn.learn.td.rivals import TorchOpponent, opponent_evaluator
from othello_nn.learn.td.statistics import BANDS, error_metrics, error_sums, error_sums_of
from othello_nn.learn.td.torch_learner import TorchLearner
from othello_nn.nets import export, make_net
from othello_nn.nets.base import count_discs

TUPLES = "net.tuples=[[0, 1, 2], [9, 18]]"


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def online(*settings: str) -> Config:
    return linear(TUPLES, "net.stages=2", "td.batch_games=8", "games=800", *settings)


def triangle(*settings: str) -> Config:
    small = ["net.maps=2", "td.batch_games=8", "td.exact_empties=4", "games=800", "optim.minibatch=128"]
    return load_preset("triangle").changed([*small, *settings])


def learner_of(config: Config):
    return make_learner(config, "cpu", Group(), 1)


# --- which learner ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ((), OnlineLearner),
        (("optim.kind=sgd",), OnlineLearner),
        (("net.tuples=all-2",), OnlineLearner),
        (("optim.kind=adam", "optim.rate=0.01"), TorchLearner),
        (("net.view=negation",), TorchLearner),
        (("net.shared=true",), TorchLearner),
        (("net.dim=2",), EmbeddingLearner),
        (("net.dim=2", "optim.kind=adam", "optim.rate=0.01"), TorchLearner),
    ],
)
def test_the_learner_fits_the_net(settings, kind):
    learner = learner_of(online(*settings))
    assert type(learner) is kind
    first, second = learner.step(), learner.step()
    assert learner.games == 16
    assert learner.progress == 16 / 800
    for metrics in (first, second):
        assert metrics["loss/td_error"] > 0
        assert np.isfinite(list(metrics.values())).all()
    assert float_state(learner.net()).keys() == float_state(first_net(learner.config)).keys()


def test_a_minibatch_where_there_is_none():
    with pytest.raises(ConfigError, match=r"optim\.minibatch does nothing here: this net learns game by game"):
        learner_of(online("optim.minibatch=64"))


@pytest.mark.parametrize("settings", [("net.view=negation",), ("net.shared=true",), ("net.dim=4",)])
@pytest.mark.parametrize("size", [64, 100_000])
def test_temporal_coherence_stays_calm_in_batches(settings, size):
    """A batch asks a weight hundreds of times at once; the sum of it all would throw it far off."""
    config = online(*settings, f"optim.minibatch={size}", "td.batch_games=32", "games=3200")
    learner = TorchLearner(config, first_net(config), Group(), 1, "cpu")
    losses = [learner.step()["loss/td_error"] for _ in range(8)]
    assert max(losses) < 0.1, "the variance of the targets, about"


def test_nets_that_ask_for_sparse_gradients_learn_too():
    learner_of(online("optim.kind=adam", "net.sparse=true", "net.dim=2")).step()


# --- rates -----------------------------------------------------------------------------------------------------------


def test_the_rate_falls_geometrically():
    learner = learner_of(online("optim.rate=1.0", "optim.final_rate=0.01"))
    rates = []
    for games in (0, 200, 400, 800, 900):
        learner.games = games
        rates.append(learner.rate)
    assert rates == pytest.approx([1, 0.01**0.25, 0.1, 0.01, 0.01])
    assert learner_of(online("optim.rate=0.5")).rate == 0.5
    assert learner_of(online("optim.rate=0.0", "optim.final_rate=0.1")).rate == 0


def test_the_rate_reaches_the_optimiser():
    learner = learner_of(triangle("optim.rate=0.1", "optim.final_rate=0.001", "games=16"))
    rates = []
    for _ in range(3):
        rates.append(learner.step()["rate/learning"])
        assert learner.improve.rate.item() == pytest.approx(0.1 * 0.1 ** (len(rates) - 1))
    assert rates == pytest.approx([0.01, 0.001, 0.001])


# --- states ----------------------------------------------------------------------------------------------------------


CONFIGS = {
    "online": online(),
    "hints": online("td.targets=minimax", "td.exact_empties=4", "optim.final_rate=0.1"),
    "rival": online("td.opponent=swh", "td.outcome=win"),
    "ahead": online("td.ahead=3"),
    "again": online("td.passes=3", "td.replay=2"),
    "adam": triangle(),
    "adam again": triangle("td.passes=2", "td.replay=1", "td.ahead=2"),
    "sgd": triangle("optim.kind=sgd", "td.targets=returns"),
    "tc": online("net.dim=2"),
    "doubled": online(
        'net={kind = "doubled", net = {kind = "triangle", maps = 2}}', "optim.kind=adam", "optim.rate=0.01"
    ),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_restored_learner_goes_on_as_if_it_had_never_stopped(name):
    config = CONFIGS[name]
    straight, before = learner_of(config), learner_of(config)
    expected = [straight.step() for _ in range(5)]
    found = [before.step(), before.step()]
    after = learner_of(config)
    after.restore({key: np.array(array) for key, array in before.state().items()})
    assert after.games == before.games
    found += [after.step() for _ in range(3)]
    assert found == expected
    states = straight.state(), after.state()
    assert states[0].keys() == states[1].keys()
    for key, array in states[0].items():
        assert np.array_equal(array, states[1][key], equal_nan=array.dtype.kind == "f"), key


@pytest.mark.parametrize("other", [online("net.stages=3"), online("net.tuples=all-2")])
def test_a_state_of_another_net_is_refused(other):
    learner = learner_of(other)
    with pytest.raises(ValueError, match="weights has the shape"):
        learner.restore(learner_of(online()).state())


def test_the_seed_decides():
    one, same, other = (learner_of(online(f"seed={seed}")) for seed in (1, 1, 2))
    losses = [[learner.step()["loss/td_error"] for _ in range(3)] for learner in (one, same, other)]
    assert losses[0] == losses[1] != losses[2]
    assert seed_of(1, 2) != seed_of(2, 1) != seed_of(1, 2, 0)
    assert 0 <= seed_of(5) < 2**63


@pytest.mark.parametrize("name", ["online", "hints", "adam"])
def test_threads_change_nothing(name):
    one, two = (make_learner(CONFIGS[name], "cpu", Group(), threads) for threads in (1, 2))
    assert [one.step() for _ in range(3)] == [two.step() for _ in range(3)]


# --- a net to start from ---------------------------------------------------------------------------------------------


def test_a_run_starts_from_another_net(tmp_path):
    """The one that is named, however its tuples were named and its gradients were kept."""
    learner = learner_of(online())
    learner.step()
    path = tmp_path / "first.safetensors"
    export(learner.net(), quantise=False).save(path)
    begun = learner_of(online(f"init={path}", "net.sparse=true"))
    assert torch.equal(begun.net().weight, learner.net().weight)
    assert begun.tables.weights.any()
    assert begun.games == 0
    with pytest.raises(ConfigError, match="holds a net of another shape"):
        learner_of(online(f"init={path}", "net.stages=3"))
    with pytest.raises(ConfigError, match="there is no net 'nowhere'"):
        learner_of(online("init=nowhere"))


# --- games played ahead, and games learnt again -----------------------------------------------------------------------


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("kind", [OnlineLearner, TorchLearner])
def test_the_lag_between_weights_and_games_is_fixed(depth, kind, monkeypatch):
    """However long anything takes: batch n + depth is played with the weights from before step n."""
    config = online(f"td.ahead={depth}")
    learner = kind(config, first_net(config), Group(), 1, *(["cpu"] if kind is TorchLearner else []))
    probe = play_numbered(opponent_evaluator("random"), Exploration(0.0), 1, 0, 1)
    boards = [np.ascontiguousarray(board[20:40, 0].numpy()).view(np.uint64) for board in (probe.mover, probe.opponent)]
    used, before = {}, []
    original = kind._played

    def played(self, batch, evaluator):
        used[batch] = evaluator.discs(*boards)
        time.sleep(0.01 * (batch % 3))
        return original(self, batch, evaluator)

    monkeypatch.setattr(kind, "_played", played)
    for _ in range(6):
        before.append(learner.evaluator().discs(*boards))
        learner.step()
    learner.state()  # waits for what is being played
    assert sorted(used) == list(range(6 + depth))
    for batch, values in used.items():
        assert np.array_equal(values, before[max(batch - depth, 0)])
    assert not np.array_equal(before[0], before[-1])


def test_who_waits_for_whom():
    queue: Ahead[int] = Ahead(2)
    begun = threading.Event()

    def slowly(number: int) -> int:
        begun.wait(60)
        time.sleep(0.05)
        return number

    for number in range(2):
        queue.begin(lambda number=number: slowly(number))
    queue.meters()
    begun.set()
    assert [queue.take(), queue.take()] == [0, 1]
    found = queue.meters()
    assert found["queue/learner_waits"] > 0.5 > found["queue/actors_wait"]
    assert found["queue/ready"] < 1
    queue.begin(lambda: 2)
    queue.begin(lambda: 3)
    assert queue.pending() == [2, 3]
    time.sleep(0.05)
    assert queue.take() == 2
    found = queue.meters()
    assert found["queue/learner_waits"] < 0.5 < found["queue/actors_wait"]
    assert found["queue/ready"] == 2
    queue.restore([7, 8])
    assert (len(queue), queue.take(), queue.pending()) == (2, 7, [8])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux knows how urgent a thread is")
def test_those_who_play_give_way_to_the_learner():
    def niceness() -> int:
        return os.getpriority(os.PRIO_PROCESS, 0)

    before = niceness()
    queue: Ahead[list[int]] = Ahead(1)
    queue.begin(lambda: in_threads(lambda _: niceness(), range(2), 2))
    assert queue.take() == [min(19, before + LESS_URGENT)] * 2
    assert niceness() == before


def solving(*changes: str) -> Config:
    """Games by a net that does not compile, whose endings are solved."""
    return load_preset("own").changed(["td.batch_games=4", "net.hidden=4", "td.exact_empties=6", *changes], games=64)


def test_endings_of_games_on_the_device_are_solved_while_the_net_learns(monkeypatch):
    """The solver of batch 1 is held up until step 0 has been learnt: whoever waited for it would wait for ever."""
    learnt, solved, original = threading.Event(), [], torch_learner.exact_margins

    def later(mover, opponent, *how):
        assert not solved or learnt.wait(HANG_SECONDS)
        solved.append(threading.current_thread() is threading.main_thread())
        return original(mover, opponent, *how)

    monkeypatch.setattr(torch_learner, "exact_margins", later)
    learner = learner_of(solving())
    games = learner.play()
    learner.update(games, learner.targets(games))
    assert solved == [False]
    learnt.set()
    learner.step()
    assert len(solved) >= 2
    assert not any(solved)
    empties = 64 - count_discs(games.games.mover, games.games.opponent)
    assert torch.equal(~games.exact.isnan(), empties <= 6)
    assert set(learner.meters()) >= {"queue/learner_waits", "queue/actors_wait"}


def test_solved_games_on_the_device_go_on_where_they_stopped():
    whole, first, second = (learner_of(solving()) for _ in range(3))
    for _ in range(4):
        whole.step()
    for _ in range(2):
        first.step()
    second.restore(first.state())
    for _ in range(2):
        second.step()
    states = whole.state(), second.state()
    assert states[0].keys() == states[1].keys()
    assert all(np.array_equal(states[0][name], states[1][name], equal_nan=True) for name in states[0])


def test_an_error_of_the_players_reaches_the_learner(monkeypatch):
    learner = learner_of(online())
    monkeypatch.setattr(learner, "_played", lambda *arguments: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        learner.step()


@pytest.mark.parametrize("replay", [0, 3])
def test_games_are_learnt_again(replay, monkeypatch):
    learner = learner_of(online("td.passes=3", f"td.replay={replay}"))
    taken = []
    monkeypatch.setattr(learner, "_learn", lambda games, targets: taken.append(games) or torch.zeros(BANDS, 4))
    new = []
    for _ in range(6):
        games = learner.play()
        new.append(games)
        learner.update(games, learner.targets(games))
    assert len(taken) == 18
    assert [id(games) for games in taken[::3]] == [id(games) for games in new], "new ones first"
    for step in range(6):
        pool = [id(games) for games in new[max(0, step - replay) : step + 1]]
        assert all(id(games) in pool for games in taken[3 * step : 3 * step + 3])
    older = [games for step in range(6) for games in taken[3 * step : 3 * step + 3] if games is not new[step]]
    assert bool(older) == bool(replay)
    assert len(learner._kept) == replay


# --- opponents -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["swh", "most-discs", "fewest-discs", "random"])
def test_fixed_opponents_judge_alike_everywhere(name):
    games = play_numbered(opponent_evaluator("random"), Exploration(0.0), 1, 0, 4)
    mover, opponent = (board[:50].reshape(-1) for board in (games.mover, games.opponent))
    compiled = opponent_evaluator(name).discs(mover.numpy().view(np.uint64), opponent.numpy().view(np.uint64))
    by_torch = TorchOpponent(name, "cpu")(mover, opponent, torch.zeros_like(mover, dtype=torch.bool)).numpy()
    if name == "random":
        assert not compiled.any()
        assert not by_torch.any()
        return
    inside = np.abs(compiled) < 60
    ratio = (compiled @ by_torch) / (by_torch @ by_torch)
    assert ratio > 0
    assert compiled[inside] == pytest.approx(ratio * by_torch[inside], abs=0.1)


# --- on a device -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [("td.targets=minimax", "td.exact_empties=4"), ("td.opponent=swh", "td.outcome=win"), ("td.cut=false",)],
)
def test_games_and_targets_where_the_net_is(settings):
    """What a GPU does, here on the CPU."""
    learner = learner_of(triangle(*settings))
    experience, again = learner._on_device(0), learner._on_device(0)
    assert torch.equal(experience.games.mover, again.games.mover), "chance hangs on the step alone"
    assert experience.exact is None, "nobody waits for these"
    if learner.config.td.exact_empties:
        experience = learner._solved_later(0)()
        assert torch.equal(experience.games.mover, again.games.mover)
    used = experience.games.mask
    if experience.searched is not None:
        empties = 64 - count_discs(experience.games.mover, experience.games.opponent)
        needed = used & (empties > learner.config.td.exact_empties)
        assert torch.equal(experience.searched.isfinite(), needed), "the solver knows the others"
    if experience.exact is not None:
        known = ~experience.exact.isnan()
        assert known.any()
        assert not (known & ~used).any()
    if learner.config.td.opponent:
        assert torch.equal(experience.games.black_to_move, used & (torch.arange(8) % 2 == 1))
    before = float_state(learner.net())
    metrics = error_metrics(learner._learn(experience, learner.targets(experience)))
    assert metrics["loss/td_error"] > 0
    assert any(not np.array_equal(array, before[name]) for name, array in float_state(learner.net()).items())


def test_a_net_that_cannot_be_compiled_plays_where_it_learns(monkeypatch):
    """In turns with the learning, without playing ahead, unless there is something to solve meanwhile."""
    monkeypatch.setattr(learners, "why_not_compiled", lambda net: "only here")
    monkeypatch.setattr(TorchLearner, "_played", None)
    learner = learner_of(triangle("td.exact_empties=0"))
    assert learner.step()["loss/td_error"] > 0
    assert (learner.games, learner.steps) == (8, 1)
    assert not [name for name in learner.state() if name.startswith("pending")]
    assert learner.meters() == {}


def test_coloured_nets_play_with_both_evaluators():
    learner = learner_of(CONFIGS["doubled"])
    assert isinstance(learner.evaluator(), ColouredEvaluator)


# --- updates ---------------------------------------------------------------------------------------------------------


def test_a_whole_batch_is_one_step_of_gradient_descent():
    """Plain descent on the mean error, against autograd."""
    config = triangle("optim.kind=sgd", "optim.rate=0.5", "optim.minibatch=100000", "td.augment=false", "td.lambda=1.0")
    config = config.changed(["td.targets=returns", "td.exact_empties=0", "td.cut=false", "optim.final_rate=0.0"])
    learner = learner_of(config)
    games = play_numbered(learner.evaluator(), Exploration(0.2, 0, cut=False), 5, 0, 8)
    net = make_net(config.net)
    net.load_state_dict(learner.net().state_dict())
    used = games.mask
    values = net(games.mover[used], games.opponent[used])
    # With λ = 1 and nothing cut, every target is the outcome, seen from the row's side.
    sides = torch.where(games.black_to_move, 1, -1)
    last = sides.gather(0, games.length.unsqueeze(0) - 1)
    targets = torch.tanh((games.margin * last * sides) / (2 * net.scale))[used]
    loss = 0.5 * (values - targets).square().mean()
    loss.backward()
    expected = {name: (p - 0.5 * p.grad).detach() for name, p in net.named_parameters()}
    metrics = error_metrics(learner._learn(Experience(games), learner.targets(Experience(games))))
    assert metrics["loss/td_error"] == pytest.approx(2 * loss.item(), rel=1e-4)
    for name, parameter in learner.net().named_parameters():
        assert torch.allclose(parameter, expected[name], atol=1e-6), name


@pytest.mark.parametrize(("size", "updates"), [(0, 1), (128, 3), (130, 3), (480, 1), (100_000, 1)])
def test_minibatches(size, updates):
    """All of one size, so that they can be captured; every row once."""
    learner = learner_of(triangle(f"optim.minibatch={size}", "td.augment=false"))
    seen = []
    learner.improve = lambda rows: seen.append(rows)
    learner.improve.rate = torch.zeros(())
    games = play_numbered(learner.evaluator(), Exploration(0.1), 5, 0, 8)
    learner._learn(Experience(games), learner.targets(Experience(games)))
    assert len(seen) == updates
    assert len({len(rows.mover) for rows in seen}) == 1
    found = [
        pair for rows in seen for pair, weight in zip(zip(*rows[:2], strict=True), rows.weight, strict=True) if weight
    ]
    assert all(weight in (0, 1) for rows in seen for weight in rows.weight)
    used = games.mask
    expected = list(zip(games.mover[used], games.opponent[used], strict=True))
    as_numbers = [sorted((int(mover), int(opponent)) for mover, opponent in pairs) for pairs in (found, expected)]
    assert as_numbers[0] == as_numbers[1]


def test_statistics_by_stage_of_the_game():
    games = play_numbered(opponent_evaluator("swh"), Exploration(0.3), 5, 0, 6)
    used = games.mask
    mover, opponent = games.mover[used], games.opponent[used]
    rng = torch.Generator().manual_seed(1)
    values, targets = (torch.rand(len(mover), generator=rng) * 2 - 1 for _ in range(2))
    columns = 64 - count_discs(mover, opponent), values, targets
    sums = torch.from_numpy(error_sums(*(column.numpy() for column in columns)))
    padded = [torch.cat((column, column[:7])) for column in columns]
    weight = (torch.arange(len(mover) + 7) < len(mover)).float()
    assert torch.allclose(error_sums_of(*padded, weight), sums, rtol=1e-5)
    metrics = error_metrics(sums)
    errors = (targets - values).square()
    assert metrics["loss/td_error"] == pytest.approx(errors.mean().item(), rel=1e-5)
    explained = 1 - errors.mean() / targets.var(correction=0)
    assert metrics["loss/explained_variance"] == pytest.approx(explained.item(), rel=1e-3)
    empties = torch.tensor(
        [64 - (int(m) & 2**64 - 1 | int(o) & 2**64 - 1).bit_count() for m, o in zip(mover, opponent, strict=True)]
    )
    for band in range(BANDS):
        mean = errors[empties // 10 == band].mean().item()
        assert metrics[f"td_error/empties_{10 * band:02d}-{10 * band + 9:02d}"] == pytest.approx(mean, rel=1e-4)
