"""λ-returns, 2-ply values and exact endings against slow plain versions; proof that none of it waits for a device."""

import dataclasses
import math
import random

import numpy as np
import pytest
import torch
from strategies import endings, scattered
from torch import Tensor, nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)
from torch.overrides import TorchFunctionMode

from othello_nn.errors import OthelloError
from othello_nn.game import rules
from othello_nn.game.rules import squares_in
from othello_nn.learn.td import numba_targets, selfplay, torch_targets
from othello_nn.learn.td.batch import boards, popcount, unpack
from othello_nn.learn.td.numba_targets import exact_margins
from othello_nn.learn.td.selfplay import Dice, play
from othello_nn.learn.td.targets import leaf_value
from othello_nn.learn.td.torch_targets import lambda_returns, outcome, search_games, search_values
from othello_nn.learn.td.trajectory import Trajectory
from othello_nn.nets import make_net

NAN = float("nan")


@pytest.fixture(autouse=True)
def _one_thread():
    """Threads that wait for each other on a busy machine take longer than the work."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class Linear(nn.Module):
    """A small net: a weight for each square and side, two more sets for the colours."""

    def __init__(self, device="cpu", dtype=torch.float32):
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(2, 128, device=device, dtype=dtype))

    @classmethod
    def exact(cls, seed: int) -> "Linear":
        """In multiples of 2^-16, so that sums in float64 do not depend on their order."""
        net, rng = cls(dtype=torch.float64), random.Random(seed)
        drawn = [[rng.randrange(-400, 400) / 2**16 for _ in range(128)] for _ in range(2)]
        net.weights.data = torch.tensor(drawn, dtype=torch.float64)
        return net

    def forward(self, mover, opponent, black_to_move=None):
        squares = torch.cat((unpack(mover), unpack(opponent)), -1).to(self.weights.dtype)
        white, black = (squares @ self.weights.T).unbind(-1)
        return torch.where(black_to_move, black, white)

    def one(self, mover: int, opponent: int, black_to_move: bool) -> float:
        weights = self.weights[int(black_to_move)].tolist()
        return sum(weights[i] for i in squares_in(mover)) + sum(weights[64 + i] for i in squares_in(opponent))


# --- outcomes --------------------------------------------------------------------------------------------------------


def test_outcome():
    margins = torch.tensor([-64, -2, 0, 2, 64])
    expected = [2 / (1 + math.exp(-margin / 10)) - 1 for margin in margins.tolist()]
    assert outcome(margins, 10.0).tolist() == pytest.approx(expected, abs=1e-6)
    assert outcome(margins, 10.0, "win").tolist() == [-1, -1, 0, 1, 1]
    for kind in ("margin", "win"):
        assert outcome(torch.tensor([NAN, 4.0]), 10.0, kind).isnan().tolist() == [True, False]
    with pytest.raises(OthelloError, match="unknown outcome 'margins'; did you mean 'margin'"):
        outcome(margins, 10.0, "margins")


# --- λ-returns -------------------------------------------------------------------------------------------------------


def random_case(seed: int, rows: int = 12, games: int = 40, exact_share: float = 0.0):
    """A trajectory with everything that matters for targets drawn at random; float64, so that sums agree closely."""
    rng = np.random.default_rng(seed)
    length = torch.from_numpy(rng.integers(0, rows + 1, games))
    length[:3] = torch.tensor([0, 1, rows])
    mask = torch.arange(rows).unsqueeze(1) < length
    sign = torch.from_numpy(rng.choice([-1, 1], (rows, games)))
    sign = torch.where(torch.arange(rows).unsqueeze(1) < length - 1, sign, 0).to(torch.int8)
    explored = torch.from_numpy(rng.random((rows, games)) < 0.25) & mask
    boards_like = torch.zeros((rows, games), dtype=torch.int64)
    margin = torch.from_numpy(rng.integers(-3, 4, games) * 2)
    trajectory = Trajectory(boards_like, boards_like, sign, explored, mask, length, margin)
    values = torch.from_numpy(rng.uniform(-1, 1, (rows, games)))
    exact = torch.from_numpy(
        np.where(rng.random((rows, games)) < exact_share, rng.uniform(-1, 1, (rows, games)), np.nan)
    )
    return trajectory, values, exact


def forward_view(values, sign, explored, exact, final, lam, t) -> float:
    """The target of row t of one game as a sum over n-step returns, up to where the chain ends."""
    last = len(values) - 1
    if not math.isnan(exact[t]):
        return exact[t]
    if t == last:
        return final
    if explored[t + 1]:
        return values[t]
    total, view, weight = 0.0, 1, 1.0
    for s in range(t + 1, last + 1):
        view *= sign[s - 1]
        total += weight * (1 - lam) * view * values[s]
        weight *= lam
        if not math.isnan(exact[s]):
            return total + weight * view * exact[s]
        if s == last:
            return total + weight * view * final
        if explored[s + 1]:
            return total + weight * view * values[s]
    raise AssertionError


@pytest.mark.parametrize("lam", [0.0, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("exact_share", [0.0, 0.2])
def test_lambda_returns_are_the_forward_view(lam, exact_share):
    trajectory, values, exact = random_case(1, exact_share=exact_share)
    final = outcome(trajectory.margin.double(), 10.0)
    assert (final == 0).any(), "draws are among them"
    found = lambda_returns(values, trajectory, final, lam, exact if exact_share else None)
    for game, length in enumerate(trajectory.length.tolist()):
        columns = [tensor[:length, game].tolist() for tensor in (values, trajectory.sign, trajectory.explored, exact)]
        expected = [forward_view(*columns, final[game].item(), lam, t) for t in range(length)]
        assert found[:length, game].tolist() == pytest.approx(expected, abs=1e-12)
        assert not found[length:, game].any()


@pytest.mark.parametrize("kind", ["margin", "win"])
@pytest.mark.parametrize("against", [False, True])
def test_lambda_one_is_the_result_for_the_side_to_move(kind, against):
    """Real games, with passes: with λ = 1 and no exploration every row's target is the outcome for its mover."""
    net = Linear.exact(1)
    opponent = Linear.exact(2) if against else None
    # Against an opponent chance is not exploration, so games differ; in self-play ties make them differ.
    zero = Linear(dtype=torch.float64)
    trajectory = play(net if against else zero, 200, Dice.seeded(1), epsilon=0.2 * against, opponent=opponent)
    assert not trajectory.explored.any()
    if not against:
        assert (trajectory.sign == 1).any(), "passes are among them"
    values = torch.linspace(-1, 1, trajectory.rows, dtype=torch.float64).unsqueeze(1).expand(trajectory.mover.shape)
    last = (trajectory.length - 1).unsqueeze(0)
    black_margin = torch.where(trajectory.black_to_move.gather(0, last), 1, -1) * trajectory.margin
    for_mover = torch.where(trajectory.black_to_move, 1, -1) * black_margin
    found = lambda_returns(values, trajectory, outcome(trajectory.margin.double(), 10.0, kind), 1.0)
    expected = torch.where(trajectory.mask, outcome(for_mover.double(), 10.0, kind), 0)
    torch.testing.assert_close(found, expected)
    assert len(expected.unique()) > 2


def test_lambda_zero_looks_one_row_ahead():
    sign = torch.tensor([[-1], [1], [-1], [0]], dtype=torch.int8)
    explored = torch.tensor([[True], [False], [False], [True]])
    empty = torch.zeros((4, 1), dtype=torch.int64)
    trajectory = Trajectory(empty, empty, sign, explored, explored, torch.tensor([4]), torch.tensor([0]))
    values = torch.tensor([[0.1], [0.2], [0.3], [0.4]])
    found = lambda_returns(values, trajectory, torch.tensor([0.9]), 0.0).flatten().tolist()
    # Row 0 turns, row 1 passes, row 2 is followed by a random move, row 3 ends the game.
    assert found == pytest.approx([-0.2, 0.3, 0.3, 0.9])


def test_lambda_is_checked():
    trajectory, values, _ = random_case(2)
    with pytest.raises(OthelloError, match=r"lam is 1\.1"):
        lambda_returns(values, trajectory, values[0], 1.1)


# --- 2-ply search ----------------------------------------------------------------------------------------------------


def plain_minimax(net: Linear, mover: int, opponent: int, black: bool, depth: int, seen: set) -> float:
    legal = rules.legal_mask(mover, opponent)
    if not legal and not rules.legal_mask(opponent, mover):
        seen.add(("over", depth))
        return math.tanh(rules.final_score(mover, opponent) / 20)
    if depth == 0:
        return leaf_value(net.one(mover, opponent, black), 10.0)
    if not legal:
        seen.add(("pass", depth))
    children = [rules.play(mover, opponent, square) for square in squares_in(legal) or [rules.PASS]]
    return max(-plain_minimax(net, *child, not black, depth - 1, seen) for child in children)


def search_sample() -> list[tuple[int, int]]:
    late = endings(3, 30, 0, 4) + scattered(4, 250, 0, 5)
    return random.Random(5).sample(endings(3, 10, 5, 60), 120) + late


@pytest.mark.parametrize("chunk", [20, 100, 10_000])
def test_search_values_are_plain_minimax(chunk):
    net, positions, rng = Linear.exact(3), search_sample(), random.Random(6)
    blacks = [rng.random() < 0.5 for _ in positions]
    seen: set = set()
    expected = [plain_minimax(net, *p, black, 2, seen) for p, black in zip(positions, blacks, strict=True)]
    assert seen == {("over", 0), ("over", 1), ("over", 2), ("pass", 1), ("pass", 2)}
    mover, opponent = boards(m for m, _ in positions), boards(o for _, o in positions)
    found = search_values(net, mover, opponent, torch.tensor(blacks), plies=2, scale=10.0, chunk=chunk)
    assert found.tolist() == pytest.approx(expected, abs=1e-6)
    assert len(found.unique()) > 150


def test_search_values_count_wins():
    positions = [p for p in search_sample() if not rules.legal_mask(*p) and not rules.legal_mask(*p[::-1])]
    assert len(positions) > 30
    mover, opponent = boards(m for m, _ in positions), boards(o for _, o in positions)
    black = torch.zeros(len(positions), dtype=torch.bool)
    found = search_values(Linear.exact(3), mover, opponent, black, plies=2, scale=10.0, kind="win")
    assert found.tolist() == [np.sign(rules.final_score(*p)) for p in positions]


def test_search_values_without_room_are_the_nets_own(monkeypatch):
    net, positions = Linear.exact(3), endings(8, 4, 20, 45)
    mover, opponent = boards(m for m, _ in positions), boards(o for _, o in positions)
    black = torch.ones(len(positions), dtype=torch.bool)
    right = search_values(net, mover, opponent, black, plies=2, scale=10.0)
    monkeypatch.setattr(torch_targets, "GRANDCHILDREN_EACH", 30)
    cut = search_values(net, mover, opponent, black, plies=2, scale=10.0)
    own = net(mover, opponent, black)
    searched = cut == right
    assert torch.equal(cut, torch.where(searched, right, own))
    assert 5 < searched.sum() < len(positions) - 5


def test_search_values_of_nothing():
    none = torch.zeros(0, dtype=torch.int64)
    assert search_values(Linear(), none, none, none.bool(), plies=2, scale=10.0).shape == (0,)
    one = torch.ones(3, dtype=torch.int64)
    assert search_values(Linear(), one, one, one.bool(), plies=2, scale=10.0, used=one.bool(), room=0).isnan().all()


@pytest.mark.parametrize("room", [None, 90, 20])
def test_only_used_rows_are_searched(room):
    net, positions, rng = Linear.exact(3), search_sample()[:200], random.Random(9)
    mover, opponent = (boards(side).view(20, 10) for side in zip(*positions, strict=True))
    black, used = (
        torch.ones(20, 10, dtype=torch.bool),
        torch.tensor([rng.random() < 0.3 for _ in range(200)]).view(20, 10),
    )
    asked = []

    def counting(mover, opponent, black_to_move):
        asked.append(len(mover))
        return net(mover, opponent, black_to_move)

    how = {"plies": 2, "scale": 10.0, "chunk": 64}
    found = search_values(counting, mover, opponent, black, used=used, room=room, **how)
    known = used & (used.flatten().cumsum(0).view(20, 10) <= (room or 200))
    assert 30 < used.sum() < 90
    assert (known.sum() == used.sum()) == (room != 20)
    assert torch.equal(~found.isnan(), known)
    assert torch.equal(found[known], search_values(net, mover, opponent, black, **how)[known])
    assert sum(asked[1::2]) == (room or 200), "each position is asked for once more, in case its replies have no room"


@pytest.mark.parametrize("against", [False, True])
@pytest.mark.parametrize("exact_empties", [0, 45])
def test_rows_of_games_are_searched_where_targets_need_it(against, exact_empties):
    net = Linear.exact(3)
    games = play(net, 70, Dice.seeded(1), epsilon=0.3, opponent=Linear.exact(4) if against else None)
    how = {"plies": 1, "scale": 10.0}
    found = search_games(net, games, **how, exact_empties=exact_empties, against=against)
    empties = 64 - popcount(games.mover | games.opponent)
    assert torch.equal(~found.isnan(), games.mask & (empties > exact_empties))
    every = search_values(net, games.mover, games.opponent, games.black_to_move, **how)
    known = ~found.isnan()
    assert torch.equal(found[known], every[known])


@pytest.mark.parametrize("rows", [1 << 16, 1000, 7])
def test_a_net_may_be_asked_in_parts(rows, monkeypatch):
    net, positions = Linear.exact(3), search_sample()[:100]
    mover, opponent = (boards(side) for side in zip(*positions, strict=True))
    black = torch.ones(100, dtype=torch.bool)
    whole = search_values(net, mover, opponent, black, plies=1, scale=10.0)
    monkeypatch.setattr(torch_targets, "NET_ROWS", rows)
    assert torch.equal(search_values(net, mover, opponent, black, plies=1, scale=10.0), whole)


def test_a_device_takes_larger_chunks_than_a_processors_cache():
    on_cpu, on_device = (torch_targets.default_chunk(torch.device(name), 2) for name in ("cpu", "cuda"))
    assert 64 < on_cpu < 300
    assert on_device == 32 * on_cpu + 17, "2^20 leaves of 144"


# --- exact endings ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2, 1000])
def test_exact_margins_are_negamax(threads):
    positions = random.Random(7).sample(endings(9, 40, 0, 6), 200) + scattered(10, 100, 0, 5) + endings(9, 3, 7, 30)
    random.Random(8).shuffle(positions)
    mover, opponent = boards(m for m, _ in positions), boards(o for _, o in positions)
    found = exact_margins(mover, opponent, 6, threads)
    expected = [rules.solve(m, o) if 64 - (m | o).bit_count() <= 6 else NAN for m, o in positions]
    assert found.dtype == torch.float32
    np.testing.assert_array_equal(found.numpy(), np.array(expected, np.float32))
    assert sum(map(math.isnan, expected)) > 20


def test_exact_margins_solve_equal_positions_once(monkeypatch):
    positions = list(dict.fromkeys(endings(11, 10, 1, 5)))
    solved = []
    really = numba_targets._solved

    def counted(found, threads):
        solved.append(found.shape)
        return really(found, threads)

    monkeypatch.setattr(numba_targets, "_solved", counted)
    mover, opponent = boards(m for m, _ in positions), boards(o for _, o in positions)
    once = exact_margins(mover, opponent, 5)
    many = exact_margins(mover.repeat(3, 1), opponent.repeat(3, 1), 5)
    assert solved == [(2, len(positions))] * 2
    assert torch.equal(many, once.repeat(3, 1))
    assert exact_margins(mover, opponent, 0).isnan().all()


# --- nothing waits for the device ------------------------------------------------------------------------------------


class WithoutDriver(TorchFunctionMode):
    """Lets fake CUDA tensors be indexed and inverted in a CPU build of torch.

    Some Python methods ask for CUDA's driver before anyone hears of fake tensors, so they fail whether or not what they
    do needs data. This calls the operators beneath them, which know the difference.
    """

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is Tensor.__invert__:
            return torch.bitwise_not(args[0])
        if func is Tensor.nonzero:
            return torch.ops.aten.nonzero(args[0])
        if func is Tensor.__getitem__:
            return self.subscript(*args)
        return func(*args, **(kwargs or {}))

    @staticmethod
    def subscript(tensor, key):
        """``tensor[key]``."""
        keys = list(key) if isinstance(key, tuple) else [key]
        if Ellipsis in [k for k in keys if not isinstance(k, Tensor)]:
            at = next(i for i, k in enumerate(keys) if k is Ellipsis)
            used = sum(k is not None for k in keys) - 1
            keys[at : at + 1] = [slice(None)] * (tensor.dim() - used)
        indices: list = []
        for k in keys:
            dim = len(indices)
            if isinstance(k, int):
                tensor = tensor.select(dim, k)
                continue
            if k is None:
                tensor = tensor.unsqueeze(dim)
            elif isinstance(k, slice):
                tensor = torch.ops.aten.slice(tensor, dim, k.start, k.stop, 1 if k.step is None else k.step)
            elif k.dtype == torch.bool:
                torch.ops.aten.nonzero(k)  # as indexing does; this raises
            indices.append(k if isinstance(k, Tensor) else None)
        return tensor if all(index is None for index in indices) else torch.ops.aten.index(tensor, indices)


def whole_path(device: str, dice: Dice) -> Tensor:
    """Games, targets and a search on one device, as the trainer does it."""
    net = Linear(device)
    for opponent in (None, Linear(device)):
        trajectory = play(net, 70, dice, epsilon=0.1, opening_plies=4, opponent=opponent)
        values = net(trajectory.mover, trajectory.opponent, trajectory.black_to_move)
        final = outcome(trajectory.margin, 10.0)
        against = opponent is not None
        searched = search_games(net, trajectory, plies=2, scale=10.0, against=against, exact_empties=50)
        result = lambda_returns(values, trajectory, final, 0.7, None, searched)
    return result


def test_the_path_runs_on_a_device_without_data(monkeypatch):
    def copies_from_the_host(*args, **kwargs):
        raise AssertionError("a constant is copied from the host")

    # Fake tensors would let a copy pass, but on a GPU it waits.
    for name in ("tensor", "as_tensor", "from_numpy"):
        monkeypatch.setattr(torch, name, copies_from_the_host)
    monkeypatch.setattr(selfplay, "MOST_MOVES", 4)  # every ply is the same code
    with FakeTensorMode(), torch.no_grad(), WithoutDriver():
        result = whole_path("cuda", Dice("cuda", None))
    assert result.device.type == "cuda"
    assert result.shape == (4, 70)


def without_data(net: nn.Module) -> None:
    """Put fake CUDA tensors in the place of a net's parameters and buffers; `to` would ask for the driver."""
    for module in net.modules():
        for tensors in (module._parameters, module._buffers):
            for name, tensor in tensors.items():
                if tensor is not None:
                    empty = torch.empty(tensor.shape, dtype=tensor.dtype, device="cuda")
                    tensors[name] = nn.Parameter(empty) if isinstance(tensor, nn.Parameter) else empty


@pytest.mark.parametrize(
    "config",
    [
        {"kind": "triangle"},
        {"kind": "staged", "net": {"kind": "triangle", "empties": True}, "gate": "learned"},
        {"kind": "ntuple", "tuples": "edges"},
        {"kind": "ntuple", "tuples": "edges", "dim": 4, "shared": True, "view": "negation"},
        {"kind": "doubled", "net": {"kind": "triangle", "symmetric": True}},
    ],
    ids=str,
)
def test_nets_play_on_a_device_without_data(config, monkeypatch):
    net = make_net(config)
    monkeypatch.setattr(selfplay, "MOST_MOVES", 2)
    with FakeTensorMode(), torch.no_grad(), WithoutDriver():
        without_data(net)
        trajectory = play(net, 70, Dice("cuda", None))
        row = trajectory.mover[0], trajectory.opponent[0], trajectory.black_to_move[0]
        values = search_values(net, *row, plies=2, scale=10.0)
    assert values.device.type == "cuda"
    assert values.shape == (70,)


@pytest.mark.parametrize(
    ("step", "error"),
    [
        (lambda x: x[~(x > 3)[x]], DynamicOutputShapeException),
        (lambda x: x.nonzero(), DynamicOutputShapeException),
        (lambda x: x.sum().item(), DataDependentOutputException),
        (lambda x: 1 if x.any() else 2, DataDependentOutputException),
        (lambda x: x + torch.arange(8), RuntimeError),
        (lambda x: x[~x[x + 1 - 1]] + x[2:4, None][..., None, :], None),
    ],
    ids=["boolean index", "nonzero", "item", "branch", "mixed devices", "no violation"],
)
def test_that_proof_would_find_a_violation(step, error, monkeypatch):
    """The control: inside a net that self-play calls, each of these is an error on a device without data."""

    def net(mover, opponent, black_to_move):
        step(torch.arange(8, device=mover.device) % 8)
        return torch.zeros(mover.shape, device=mover.device)

    monkeypatch.setattr(selfplay, "MOST_MOVES", 4)
    play(net, 2, Dice.seeded(1))
    with FakeTensorMode(), torch.no_grad(), WithoutDriver():
        if error is None:
            play(net, 2, Dice("cuda", None))
        else:
            with pytest.raises(error, match="cpu" if error is RuntimeError else "aten"):
                play(net, 2, Dice("cuda", None))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_path_never_synchronises_a_gpu():
    dice = Dice.seeded(1, "cuda")
    with torch.no_grad():
        whole_path("cuda", dice)  # the first run may set up libraries
        torch.cuda.set_sync_debug_mode("error")
        try:
            result = whole_path("cuda", dice)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert result.isfinite().all()


def test_training_step_on_the_meta_device():
    """A loss on targets and its gradient need no data either."""
    real = play(Linear(), 8, Dice.seeded(1))
    trajectory = Trajectory(**{f.name: getattr(real, f.name).to("meta") for f in dataclasses.fields(Trajectory)})
    net = Linear("meta")
    values = net(trajectory.mover, trajectory.opponent, trajectory.black_to_move)
    target = lambda_returns(values, trajectory, outcome(trajectory.margin, 10.0), 0.7)
    assert not target.requires_grad
    loss = ((values - target).square() * trajectory.mask).sum() / trajectory.length.sum()
    loss.backward()
    assert net.weights.grad is not None
    assert net.weights.grad.shape == (2, 128)
    assert net.weights.grad.device.type == "meta"


def test_a_training_step_moves_values_towards_their_targets():
    trajectory = play(Linear(), 50, Dice.seeded(1))
    net = Linear()
    optimiser = torch.optim.SGD(net.parameters(), lr=0.05)
    losses = []
    for _ in range(20):
        values = net(trajectory.mover, trajectory.opponent, trajectory.black_to_move)
        target = lambda_returns(values, trajectory, outcome(trajectory.margin, 10.0), 1.0)
        loss = ((values - target).square() * trajectory.mask).sum() / trajectory.mask.sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.95 * losses[0]
