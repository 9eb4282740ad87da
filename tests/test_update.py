"""An update: the three ways to move, tables against plain loops, nothing that waits, one graph, one size."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from linear import linear
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from othello_nn.config import load_preset
from othello_nn.learn.distributed import Group
from othello_nn.learn.learner import first_net
from othello_nn.learn.td.optim import RELAXATION, RULES, Asked, Table, coherence
from othello_nn.learn.td.statistics import LateMetrics, error_sums_of
from othello_nn.learn.td.update import Rows, Update
from othello_nn.nets import make_net

CELLS, DIM, LOOKUPS = 12, 2, 3


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


# --- rules -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["adam", "sgd"])
def test_whole_tensors_move_as_torch_moves_them(kind):
    generator = torch.Generator().manual_seed(1)
    parameter = nn.Parameter(torch.rand(3, 4, generator=generator))
    ours, rule = parameter.detach().clone(), RULES[kind]
    state = rule.begin(ours, False)
    theirs = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[kind]([parameter], lr=0.1)
    for _ in range(20):
        parameter.grad = torch.randn(3, 4, generator=generator)
        theirs.step()
        rule.move(ours, state, Asked.whole(parameter.grad), torch.tensor(0.1))
    assert torch.allclose(ours, parameter, atol=1e-5)


def asked_of_rows(steps: int = 6, rows: int = 7):
    """For each step gradients ``[rows, DIM]``, weights, and cells; cell 0 is never read, and a row is not in use."""
    generator = torch.Generator().manual_seed(2)
    for _ in range(steps):
        weight = torch.ones(rows)
        weight[3] = 0
        gradient = torch.randn(rows, DIM, generator=generator) * weight.unsqueeze(1)
        yield gradient, weight, torch.randint(1, CELLS, (rows, LOOKUPS), generator=generator)


def plain_table(kind: str, rate: float) -> np.ndarray:
    """Cell by cell and number by number."""
    cells, sums, sizes, mean = (np.zeros((CELLS, DIM)) for _ in range(4))
    square, step = np.zeros(CELLS), np.zeros(CELLS)
    for gradient, weight, indices in asked_of_rows():
        rows = [(g, i) for g, w, i in zip(gradient.numpy(), weight, indices.numpy(), strict=True) if w]
        count = np.bincount(np.concatenate([i for _, i in rows]), minlength=CELLS)
        rates = np.array(
            [[coherence(s, m) for s, m in zip(*pair, strict=True)] for pair in zip(sums, sizes, strict=True)]
        )
        total, moved, size = (np.zeros((CELLS, DIM)) for _ in range(3))
        for g, read in rows:
            crowd = np.maximum((count[read, None] * rates[read]).mean(0) / RELAXATION, 1)
            for cell in read:
                total[cell] += g
                size[cell] += abs(g)
                moved[cell] += g / crowd
        if kind == "tc":
            cells -= rate * rates * moved
            sums += total
            sizes += size
        elif kind == "sgd":
            cells -= rate * total
        else:
            for cell in np.flatnonzero(count):
                step[cell] += 1
                mean[cell] = 0.9 * mean[cell] + 0.1 * total[cell]
                square[cell] = 0.999 * square[cell] + 0.001 * (total[cell] ** 2).mean()
                spread = np.sqrt(square[cell] / (1 - 0.999 ** step[cell]))
                cells[cell] -= rate * mean[cell] / (1 - 0.9 ** step[cell]) / spread
    return cells


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize("everything", [False, True])
def test_tables_move_as_a_plain_loop_moves_them(kind, everything):
    """By the cells that were read, or by all cells as after adding up over ranks."""
    table = Table(torch.zeros(CELLS, DIM), RULES[kind])
    for gradient, weight, indices in asked_of_rows():
        table.ask(gradient, weight, indices)
        asked = table.split(table.taken_all()) if everything else table.taken(indices)
        table.move(asked, torch.tensor(0.3))
    expected = plain_table(kind, 0.3)
    assert table.cells.numpy() == pytest.approx(expected, abs=1e-4)
    assert np.abs(expected).max() > 0.1
    assert not table.cells[0].any(), "never read"
    assert not table._sums.any()
    assert not table._counts.any(), "cleared for the next update"


def test_errors_shrink_however_many_rows_there_are():
    """The sum of what they ask would overshoot a hundred times."""
    generator = torch.Generator().manual_seed(3)
    indices = torch.randint(0, CELLS, (400, LOOKUPS), generator=generator)
    goal = torch.randn(CELLS, generator=generator)[indices].sum(1)
    table, errors = Table(torch.zeros(CELLS, 1), RULES["tc"]), []
    for _ in range(30):
        error = table.cells[indices].sum((1, 2)) - goal
        errors.append(error.square().mean().item())
        table.ask(error.unsqueeze(1), torch.ones(400), indices)
        table.move(table.taken(indices), torch.tensor(1 / LOOKUPS))
    assert max(errors) == errors[0]
    assert errors[-1] < 0.05 * errors[0]


def test_sums_do_not_depend_on_the_order_of_rows():
    """A GPU adds in any order."""
    gradient, weight, indices = next(asked_of_rows(rows=500))
    order = torch.randperm(500, generator=torch.Generator().manual_seed(4))
    found = []
    for rows in (torch.arange(500), order):
        table = Table(torch.zeros(CELLS, DIM), RULES["adam"])
        table.ask(gradient[rows], weight[rows], indices[rows])
        found.append(table.taken_all())
    assert torch.equal(*found)


# --- updates of nets -------------------------------------------------------------------------------------------------


SMALL = ("td.batch_games=8", "games=800")
NETS = {
    "linear": linear("net.tuples=all-2", "net.stages=3", *SMALL),
    "shared": linear("net.tuples=all-2", "net.stages=3", "net.shared=true", *SMALL),
    "embedding": linear("net.tuples=all-2", "net.dim=4", "optim.kind=adam", "optim.rate=0.01", *SMALL),
    "triangle": load_preset("triangle").changed(["net.maps=2", "net.gate=learned", *SMALL]),
    "doubled": linear('net={kind = "doubled", net = {kind = "ntuple", tuples = "all-1", view = "inversion"}}', *SMALL),
    "plain": linear("net.tuples=all-2", "optim.kind=sgd", "net.view=negation", *SMALL),
}


def rows_of(count: int, device: str = "cpu") -> Rows:
    """Discs anywhere: what is moved by them matters here, not whether they can be."""
    rng = np.random.default_rng(5)
    both = rng.integers(0, 2**63, (2, count))
    boards = (torch.from_numpy(board).to(device) for board in (both[0] & ~both[1], both[1] & ~both[0]))
    uniform = torch.from_numpy(rng.uniform(-0.9, 0.9, count).astype(np.float32)).to(device)
    black = torch.from_numpy(rng.integers(0, 2, count) == 1).to(device)
    return Rows(*boards, black, uniform, torch.ones(count, device=device))


def update_of(name: str, group: Group | None = None, settings: Sequence[str] = ()) -> Update:
    config = NETS[name].changed(settings)
    update = Update(first_net(config).train(), config, group or Group())
    update.rate.fill_(config.optim.rate)
    return update


def weights_of(update: Update) -> torch.Tensor:
    return torch.cat([parameter.detach().reshape(-1) for parameter in update.net.parameters()]).clone()


def loss_of(update: Update, rows: Rows) -> float:
    taps = [torch.zeros(len(rows.mover), net.dim) for net in update._nets]
    return update.loss(rows, taps)[0].item() / len(rows.mover)


@pytest.mark.parametrize("name", NETS)
def test_updates_make_the_loss_smaller(name):
    update, rows = update_of(name), rows_of(64)
    before = loss_of(update, rows)
    for _ in range(20):
        update(rows)
    assert loss_of(update, rows) < before - 0.01
    assert all(net.tap is None for net in update._nets)


@pytest.mark.parametrize("name", NETS)
def test_rows_that_are_not_in_use_change_nothing(name):
    """Except for the order of sums inside matrix products."""
    one, other = update_of(name), update_of(name)
    rows, more = rows_of(40), rows_of(48)
    more = Rows(*(torch.cat((column, extra[40:])) for column, extra in zip(rows, more, strict=True)))
    more.weight[40:] = 0
    for _ in range(3):
        one(rows)
        other(more)
    assert torch.allclose(weights_of(one), weights_of(other), atol=1e-5)
    assert not torch.equal(weights_of(one), weights_of(update_of(name)))


class Echo(Group):
    """A rank whose only neighbour has the same rows."""

    def all_reduce(self, tensor, operation=None):
        self.sent.append(tensor.numel())
        return tensor.mul_(2)


@pytest.mark.parametrize("name", ["embedding", "triangle", "plain"])
def test_ranks_add_up_in_one_message(name):
    """Twice the same rows have the same mean."""
    echo = Echo(0, 2)
    object.__setattr__(echo, "sent", [])
    one, other, rows = update_of(name), update_of(name, echo), rows_of(40)
    for _ in range(3):
        one(rows)
        other(rows)
    assert torch.allclose(weights_of(one), weights_of(other), atol=1e-4)
    assert len(echo.sent) == 3


# --- on a device -----------------------------------------------------------------------------------------------------


def elsewhere(update: Update, device: str) -> Update:
    """An update like this one, whose tensors have no content: on the ``meta`` device, or on a GPU that need not exist,
    which is only possible inside a FakeTensorMode."""
    net = update.net
    for module in net.modules():
        for tensors in (module._parameters, module._buffers):
            for name, tensor in list(tensors.items()):
                empty = torch.empty(tensor.shape, dtype=tensor.dtype, device=device)
                tensors[name] = nn.Parameter(empty) if isinstance(tensor, nn.Parameter) else empty
    return Update(net, update.config, Group())


def empty_rows(device: str) -> Rows:
    whole, numbers = (torch.empty(48, dtype=dtype, device=device) for dtype in (torch.int64, torch.float32))
    return Rows(whole, whole, whole > 0, numbers, numbers)


def places_of(update: Update) -> set[str]:
    tensors = [*update.parameters(), *(tensor for state in update.states() for tensor in state.values())]
    return {tensor.device.type for tensor in tensors}


@pytest.mark.parametrize("name", NETS)
def test_an_update_has_no_need_of_numbers(name):
    """Forward, backward and the moves on tensors without content: whoever looked at a number would find none, a shape
    that hangs on numbers would not be known."""
    update = elsewhere(update_of(name), "meta")
    update.rate.fill_(0.5)
    update(empty_rows("meta"))
    assert places_of(update) == {"meta"}
    with pytest.raises(RuntimeError, match="meta"):
        update.rate.item()


@pytest.mark.parametrize("name", NETS)
def test_an_update_never_waits_for_the_device(name, monkeypatch):
    """The same on a GPU in name, but for the backward pass, which torch does not imitate there: a tensor of the host
    among those of the device would be found."""
    update = update_of(name)
    # Torch without CUDA does not imitate a copy within the device.
    monkeypatch.setattr(torch.Tensor, "copy_", lambda to, source: to.zero_().add_(source))
    with FakeTensorMode(allow_non_fake_inputs=False):
        update = elsewhere(update, "cuda")
        rows = empty_rows("cuda")
        update.rate.fill_(0.5)
        taps = [torch.zeros(48, net.dim, device="cuda") for net in update._nets]
        with torch.no_grad():
            loss, indices = update.loss(rows, taps)
        gradients = [torch.empty_like(parameter) for flat in update._flat for parameter in flat.parameters]
        update.move(rows.weight, indices, taps, gradients)
        late = LateMetrics(error_sums_of(rows.mover, rows.returns, rows.returns, rows.weight), {})
        assert not late.ready
        assert loss.device.type == "cuda"
        assert places_of(update) == {"cuda"}
        with pytest.raises(Exception, match="_local_scalar_dense"):
            loss.item()


@pytest.mark.parametrize("name", ["linear", "embedding", "triangle"])
def test_an_update_is_two_graphs_without_a_break(name, monkeypatch):
    """The way to the loss with its way back, and the moves: ``fullgraph`` refuses anything that breaks. The graphs are
    traced here; to make machine code of them would take a minute."""
    compiled, traced = torch.compile, []

    def trace(function, *, fullgraph, dynamic, mode):
        traced.append((fullgraph, mode))
        return compiled(function, fullgraph=fullgraph, dynamic=dynamic, backend="aot_eager")

    monkeypatch.setattr(torch, "compile", trace)
    one, other, rows = update_of(name), update_of(name, settings=["optim.compile=true"]), rows_of(40)
    assert traced == [(True, "default")] * 2
    for rate in (0.1, 0.02):  # inside the graph the rate is a tensor: another one needs no other graph
        for update in (one, other):
            update.rate.fill_(rate)
            update(rows)
    assert torch.allclose(weights_of(one), weights_of(other), atol=1e-5)
    assert not torch.equal(weights_of(one), weights_of(update_of(name)))
    counters = torch._dynamo.utils.counters
    assert not counters["graph_break"]


def test_gradients_through_taps_are_those_of_autograd():
    net = make_net({"kind": "ntuple", "tuples": "all-2", "dim": 4, "stages": 2})
    config = NETS["embedding"].changed(["optim.kind=sgd", "optim.rate=1.0"], net=net.config)
    update, rows = Update(net, config, Group()), rows_of(30)
    update.rate.fill_(1.0)
    before = weights_of(update)
    logits = net.discs(*rows[:3]) / net.scale
    goal = (1 + rows.returns) / 2
    loss = nn.functional.binary_cross_entropy_with_logits(logits, goal)
    gradients = torch.autograd.grad(loss, list(net.parameters()))
    update(rows)
    moved = before - weights_of(update)
    assert torch.allclose(moved, torch.cat([gradient.reshape(-1) for gradient in gradients]), atol=1e-6)
    assert moved.abs().max() > 1e-4
