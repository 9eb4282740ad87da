"""What self-play and targets ask of a device, counted on the CPU: few launches, no waits, one graph a ply."""

import dataclasses

import pytest
import torch
from torch._dynamo.utils import counters
from torch._subclasses.fake_tensor import FakeTensorMode

from othello_nn.game.rules import START_MOVER, START_OPPONENT
from othello_nn.learn.launches import Launches, kernels_when_compiled
from othello_nn.learn.td import batch, ply, selfplay
from othello_nn.learn.td.rivals import TorchOpponent
from othello_nn.learn.td.selfplay import Dice, play
from othello_nn.learn.td.torch_targets import lambda_returns, outcome, search_games
from othello_nn.learn.td.trajectory import Trajectory
from othello_nn.nets import make_net

EMBEDDING = {"kind": "ntuple", "tuples": "edges", "stages": 3, "dim": 4}
NETS = {
    "embedding": EMBEDDING,
    "shared": EMBEDDING | {"shared": True, "view": "negation"},
    "triangle": {"kind": "triangle"},
    "staged": {"kind": "staged", "net": {"kind": "triangle", "empties": True}, "gate": "learned"},
}
# torch's own compiler warns of itself.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


@pytest.fixture(autouse=True)
def _afresh():
    """No graphs of other tests, and one thread: threads that wait for each other take longer than the work."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    ply._graphs.clear()
    torch._dynamo.reset()
    counters.clear()
    yield
    ply._graphs.clear()
    torch.set_num_threads(threads)


def equal(first: Trajectory, second: Trajectory) -> bool:
    return all(torch.equal(getattr(first, f.name), getattr(second, f.name)) for f in dataclasses.fields(Trajectory))


def exact_net():
    """An embedding net whose sums are the same in any order: whole numbers, and the first of a cell is its worth."""
    net = make_net(EMBEDDING)
    with torch.no_grad():
        net.weight.copy_(torch.randint(-40, 40, net.weight.shape, generator=torch.Generator().manual_seed(1)))
        net.output.weight.fill_(0)
    return net


def ply_of(net, games: int, rival=None) -> tuple:
    """The arguments of ``one_ply`` in the middle of the room's table."""
    colours = None if rival is None else torch.arange(games) % 2 == 0
    chance = torch.zeros(games, dtype=torch.bool), torch.rand(games, batch.MOST_CHILDREN)
    players = ply.Players(net, rival, colours)
    return ply.start(games, "cpu"), *chance, players, ply.room_for(games, 20), batch.Rays.on("cpu")


# --- launches --------------------------------------------------------------------------------------------------------


def launches(work) -> int:
    with torch.no_grad(), Launches() as counted:
        work()
    assert not counted.waits
    return counted.launches


def test_launches_of_the_rules():
    mover, opponent = batch.boards([START_MOVER] * 9), batch.boards([START_OPPONENT] * 9)
    rays = batch.Rays.on("cpu")
    assert launches(lambda: batch.legal_moves(mover, opponent, rays)) <= 34
    assert launches(lambda: batch.flips(mover, opponent, batch.boards([1 << 19] * 9), rays)) <= 37 + 1


@pytest.mark.parametrize("name", NETS)
def test_launches_of_a_ply(name):
    arguments = ply_of(make_net(NETS[name]), 70)
    assert launches(lambda: ply.one_ply(*arguments)) <= 250
    against = ply_of(make_net(NETS[name]), 70, TorchOpponent("swh", "cpu"))
    assert launches(lambda: ply.one_ply(*against)) <= 270


def test_what_counts_as_a_launch():
    numbers = torch.arange(12)
    with Launches() as counted:
        grid = numbers.view(3, 4)[1:].t().unsqueeze(0).expand(5, 4, 2)
        torch.empty(7)
    assert counted.launches == counted.bytes == 0
    with Launches() as counted:
        grid + 1  # 8 numbers read, 40 written
        torch.zeros(100)[numbers[:3]]  # 100 written, 3 looked up by 3 indices, 3 written
    assert counted.by_name == {"add": 1, "zeros": 1, "index": 1}
    assert counted.bytes == 8 * 8 + 40 * 8 + 400 + 12 + 24 + 12


@pytest.mark.parametrize(
    ("work", "reason"),
    [
        (lambda x: x.sum().item(), "item"),
        (lambda x: 1 if x.any() else 2, "item"),
        (lambda x: x.nonzero(), "nonzero"),
        (lambda x: x[x > 3], "index by booleans"),
        (lambda x: x.masked_fill_(x > 3, 0), None),
        (lambda x: torch.equal(x, x + 1), "equal"),
        (lambda x: x.to(torch.float32), None),
        (lambda x: x[x], None),
    ],
)
def test_what_counts_as_a_wait(work, reason):
    with Launches() as counted:
        work(torch.arange(8))
    assert set(counted.waits) - {"nonzero"} == ({reason} if reason else set()) - {"nonzero"}
    assert bool(counted.waits) == bool(reason)


def test_a_copy_between_devices_is_a_wait():
    with FakeTensorMode(), Launches() as counted:
        torch.ops.aten._to_copy(torch.empty(3), device="cuda")
    assert counted.waits == {"copy between devices": 1}


# --- waits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("rival", [None, "swh"])
def test_games_and_targets_never_wait(name, rival, monkeypatch):
    monkeypatch.setattr(selfplay, "MOST_MOVES", 3)  # every ply is the same code
    net, dice = make_net(NETS[name]), Dice.seeded(1)
    opponent = TorchOpponent(rival, "cpu") if rival else None
    with torch.no_grad(), Launches() as counted:
        games = play(net, 66, dice, opening_plies=2, opponent=opponent)
        searched = search_games(net, games, plies=2, scale=net.scale, against=rival is not None, exact_empties=50)
        values = net(*(field.reshape(-1) for field in (games.mover, games.opponent, games.black_to_move)))
        final = outcome(games.margin, net.scale)
        targets = lambda_returns(values.view(games.mover.shape), games, final, 0.7, None, searched)
    assert not counted.waits
    assert counted.launches > 1000
    assert targets.isfinite().all()


# --- one graph -------------------------------------------------------------------------------------------------------


def with_backend(backend) -> None:
    ply._graphs["cpu"] = torch.compile(ply.one_ply, fullgraph=True, dynamic=False, backend=backend)


def graphs_made() -> int:
    return counters["stats"]["unique_graphs"]


@pytest.mark.parametrize("name", ["shared", "staged"])
def test_a_ply_is_one_graph(name):
    """`fullgraph` makes a break an error. All plies with as much room share a graph, and games do not change."""
    net = make_net(NETS[name])
    with_backend("eager")
    games = play(net, 64, Dice.seeded(1), opening_plies=5, compiled=True)
    assert graphs_made() == len({room for _, room in ply.ROOMS})
    assert not counters["graph_break"]
    assert equal(games, play(net, 64, Dice.seeded(1), opening_plies=5))
    with torch.no_grad():
        next(net.parameters()).normal_()
    made = graphs_made()
    play(net, 64, Dice.seeded(2), opening_plies=3, epsilon=0.3, compiled=True)
    assert graphs_made() == made, "neither new weights nor other chance need a new graph"


def test_a_ply_against_a_rival_is_one_graph():
    """One for all batches: a learner makes its rival, and what it wraps its net in, anew for each."""

    class Wrapped:
        def __init__(self, net):
            self._net = net

        def __call__(self, *rows):
            return self._net(*rows)

    net = make_net(EMBEDDING)
    with_backend("eager")
    for seed in range(3):
        how = {"opponent": TorchOpponent("swh", "cpu"), "capacity": 700}
        games = play(Wrapped(net), 64, Dice.seeded(seed), **how, compiled=True)
        assert equal(games, play(net, 64, Dice.seeded(seed), **how))
    assert graphs_made() == 1


def test_the_proof_finds_a_break():
    def asks(mover, opponent, black_to_move):
        print("once a ply")
        return mover.float()

    compiled = torch.compile(ply.one_ply, fullgraph=True, dynamic=False, backend="eager")
    with pytest.raises(torch._dynamo.exc.Unsupported):
        compiled(*ply_of(asks, 64))


def test_what_cannot_be_compiled_is_played_all_the_same(capsys):
    def broken(graph, inputs):
        raise RuntimeError("no such machine")

    with_backend(broken)
    net = make_net(EMBEDDING)
    games = play(net, 8, Dice.seeded(1), compiled=True)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("train.py: games are played without compiling, which failed: ")
    assert "no such machine" in line
    assert equal(games, play(net, 8, Dice.seeded(1)))


@pytest.mark.skipif(not ply.has_compiler(), reason="there is no C++ compiler")
def test_compiled_games():
    """The one test that takes a real compiler: few kernels, and the same games."""
    net, found = exact_net(), []
    made = kernels_when_compiled(lambda: found.append(play(net, 40, Dice.seeded(1), compiled=True, capacity=400)))
    assert made.graphs == 1
    assert 10 < made.kernels <= 30
    assert equal(found[0], play(net, 40, Dice.seeded(1), capacity=400))
