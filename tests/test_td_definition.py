"""Numba's and torch's targets against their definition and each other: 1,000 games, every option they share."""

import ast
import dataclasses
import itertools
import math
import random
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from linear import linear
from strategies import scattered

from othello_nn.config import TD
from othello_nn.engine.leaf.compile import compile_net
from othello_nn.engine.leaf.tables import weighted_squares
from othello_nn.engine.score import SCORE_DISC
from othello_nn.game import rules
from othello_nn.learn.distributed import Group
from othello_nn.learn.td import numba_targets, optim, targets, torch_targets
from othello_nn.learn.td.actor import Exploration, play_numbered
from othello_nn.learn.td.batch import as_masks, boards
from othello_nn.learn.td.learners import float_state
from othello_nn.learn.td.online_learner import OnlineLearner
from othello_nn.learn.td.targets import OUTCOMES, SEARCH_PLIES, UNKNOWN, Row, game_targets, lambda_returns, search_value
from othello_nn.learn.td.torch_learner import TorchLearner
from othello_nn.learn.td.trajectory import Trajectory
from othello_nn.nets import load_net, make_net

SCALE = 10.0
GAMES_EACH = 250
ALIKE = 1e-4
LAMBDAS = (0.0, 0.3, 0.7, 1.0)
EXACT_EMPTIES = (0, 8)
DEPTHS = sorted(set(SEARCH_PLIES.values()) - {0})


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def squares(seed: int):
    rng = random.Random(seed)
    return weighted_squares(f"squares-{seed}", [rng.uniform(-1.5, 1.5) for _ in range(64)])


NET, RIVAL = squares(1), squares(2)


def by_torch(mover, opponent, black_to_move=None) -> torch.Tensor:
    """``NET`` as a torch net: the same leaves, so that nothing is left to differ but targets."""
    discs = NET.discs(*(board.numpy().view(np.uint64) for board in (mover, opponent)))
    return torch.tanh(torch.from_numpy(discs) / (2 * SCALE))


def plain(mover: int, opponent: int, black_to_move: bool) -> float:
    discs = NET.discs(np.array([mover], np.uint64), np.array([opponent], np.uint64))
    return targets.squashed(float(discs[0]), SCALE)


def rows_of(games: Trajectory, game: int) -> list[Row]:
    used = slice(int(games.length[game]))
    masks = (as_masks(board[used, game]) for board in (games.mover, games.opponent))
    flags = (flag[used, game].tolist() for flag in (games.black_to_move, games.explored))
    return [Row(*row) for row in zip(*masks, *flags, strict=True)]


@dataclasses.dataclass(frozen=True)
class Played:
    """Games with all that targets are made of."""

    games: Trajectory
    rows: list[list[Row]]
    values: torch.Tensor
    exact: torch.Tensor
    """Margins."""
    compiled: dict[tuple[int, str], torch.Tensor]
    """Values of searches by depth and outcome: Numba's."""
    on_tensors: dict[tuple[int, str], torch.Tensor]
    """And torch's."""


@pytest.fixture(scope="module")
def played() -> list[Played]:
    """Self-play and a fixed opponent, random moves cut and not: 1,000 games."""
    found = []
    for number, (cut, rival) in enumerate(itertools.product((True, False), (None, RIVAL))):
        exploration = Exploration(0.2, 6, cut=cut)
        games = play_numbered(NET, exploration, 5, GAMES_EACH * number, GAMES_EACH, rival=rival)
        rows = [rows_of(games, game) for game in range(games.games)]
        fields = games.mover, games.opponent, games.black_to_move
        values = torch.where(games.mask, by_torch(*(field.reshape(-1) for field in fields)).view(games.mover.shape), 0)
        exact = numba_targets.exact_margins(*fields[:2], max(EXACT_EMPTIES))
        compiled = {
            (plies, kind): numba_targets.search_values(NET, games, plies=plies, scale=SCALE, kind=kind)
            for plies, kind in itertools.product(DEPTHS, OUTCOMES)
        }
        found.append(Played(games, rows, values, exact, compiled, searched_on_tensors(games)))
    return found


def searched_on_tensors(games: Trajectory) -> dict[tuple[int, str], torch.Tensor]:
    """By depth and outcome. With more than twenty moves to go none of these games ends so soon: wins need no search."""
    fields = games.mover, games.opponent, games.black_to_move
    late = games.mask & (torch.arange(60).unsqueeze(1) >= games.length - 20)
    found = {}
    for plies in DEPTHS:
        values = torch.full(games.mover.shape, math.nan, dtype=torch.float64)
        for kind, searched in {"margin": games.mask, "win": late}.items():
            rows = (field[searched] for field in fields)
            values = values.clone()
            values[searched] = torch_targets.search_values(by_torch, *rows, plies=plies, scale=SCALE, kind=kind)
            found[plies, kind] = values
    return found


# --- search ----------------------------------------------------------------------------------------------------------


def events(mover: int, opponent: int, plies: int) -> set[tuple[str, int]]:
    """What a search meets: passes, finished games and wipe-outs, with the plies that were left."""
    legal = rules.legal_mask(mover, opponent)
    if not legal and not rules.legal_mask(opponent, mover):
        return {("over", plies)} | ({("wipe-out", plies)} if not mover or not opponent else set())
    if not plies:
        return set()
    found = set() if legal else {("pass", plies)}
    for square in rules.squares_in(legal) or [rules.PASS]:
        found |= events(*rules.play(mover, opponent, square), plies - 1)
    return found


def single_rows(positions: list[tuple[int, int]]) -> Trajectory:
    """Games of one row, for searches of positions that games seldom reach."""
    mover, opponent = (boards(side).unsqueeze(0) for side in zip(*positions, strict=True))
    no = torch.zeros(mover.shape, dtype=torch.bool)
    each = torch.ones(len(positions), dtype=torch.int64)
    return Trajectory(mover, opponent, no.to(torch.int8), no, no, each, 0 * each)


def test_both_search_values_are_alike_on_whole_games(played):
    compared = 0
    for one, kind in itertools.product(played, itertools.product(DEPTHS, OUTCOMES)):
        known = one.games.mask & ~one.compiled[kind].isnan()
        assert torch.equal(known, one.games.mask & ((one.games.mover | one.games.opponent) != -1)), (
            "all but full boards"
        )
        assert (one.compiled[kind] - one.on_tensors[kind])[known].abs().max() < ALIKE
        compared += int(known.sum())
    assert compared > 80_000


@pytest.mark.parametrize("kind", OUTCOMES)
@pytest.mark.parametrize("plies", DEPTHS)
def test_both_search_values_are_the_definition(played, plies, kind):
    """A row of every game, late ones more often: there games end and sides pass."""
    rng, seen = random.Random(3), set()
    for one in played:
        for game, rows in enumerate(one.rows):
            if not rows:
                continue
            t = min(rng.randrange(len(rows)), rng.randrange(len(rows))) if game % 8 == 0 else len(rows) - 2 - game % 4
            if t < 0:
                continue
            mover, opponent, black, _ = rows[t]
            seen |= events(mover, opponent, plies)
            expected = search_value(plain, mover, opponent, black, plies, SCALE, kind)
            assert float(one.compiled[plies, kind][t, game]) == pytest.approx(expected, abs=ALIKE)
            assert float(one.on_tensors[plies, kind][t, game]) == pytest.approx(expected, abs=ALIKE)
    assert seen >= {("over", 0), ("over", plies - 1), ("pass", 1), ("pass", plies)}


@pytest.mark.parametrize("plies", [1, 2, 3])
@pytest.mark.parametrize("kind", OUTCOMES)
def test_searches_of_boards_full_of_passes_and_ends(kind, plies):
    positions = [p for p in scattered(4, 250, 1, 5) if p[0] | p[1]]
    seen = set().union(*(events(*p, 2) for p in positions))
    assert seen == set(itertools.product(("over", "wipe-out"), (0, 1, 2))) | {("pass", 1), ("pass", 2)}
    games = single_rows(positions)
    expected = [search_value(plain, *p, False, plies, SCALE, kind) for p in positions]
    how = {"plies": plies, "scale": SCALE, "kind": kind}
    compiled = numba_targets.search_values(NET, games, **how)
    on_tensors = torch_targets.search_values(by_torch, games.mover, games.opponent, games.black_to_move, **how)
    assert compiled[0].tolist() == pytest.approx(expected, abs=ALIKE)
    assert on_tensors[0].tolist() == pytest.approx(expected, abs=ALIKE)


@pytest.mark.parametrize("plies", [1, 2])
def test_searches_of_a_net_that_sees_colours(plies):
    net = make_net({"kind": "ntuple", "tuples": [[0, 1, 2, 3]], "view": "negation"})
    with torch.no_grad():
        # Sums of these are the same in any order and are not rounded in a leaf.
        net.weight.copy_(torch.randint(-400, 400, net.weight.shape, generator=torch.Generator().manual_seed(1)) / 128)
    games = play_numbered(compile_net(net.config, float_state(net)), Exploration(0.4, 8), 10, 0, 40)
    fields, how = (games.mover, games.opponent, games.black_to_move), {"plies": plies, "scale": SCALE}
    compiled = numba_targets.search_values(compile_net(net.config, float_state(net)), games, **how, exact_empties=9)
    on_tensors = torch_targets.search_values(net, *fields, **how)
    known = ~compiled.isnan()
    empties = 64 - torch.tensor([mask.bit_count() for mask in as_masks(games.mover | games.opponent)])
    assert torch.equal(known, games.mask & (empties.view(known.shape) > 9))
    assert (compiled - on_tensors)[known].abs().max() < ALIKE
    blind = torch_targets.search_values(lambda m, o, b: net(m, o, ~b), *fields, **how)
    assert (compiled - blind)[known].abs().max() > 0.1, "or the colour makes no difference"


@pytest.mark.parametrize("net", ["triangle", "league", "champion", "embedding", "extreme"])
def test_searches_of_real_nets(net):
    """Float weights, blends that pass ±1, embeddings: whatever a leaf says, both searches make the same of it.

    A value on the edge of two steps of a leaf may fall either way, by the order in which floats are added up.
    """
    if net in ("triangle", "league", "champion"):
        made = load_net(net)
    else:
        made = make_net({"kind": "ntuple", "tuples": "all-3", "stages": 2, "dim": 4 if net == "embedding" else 1})
        spread = {"embedding": 0.3, "extreme": 8.0}[net]
        made.weight.detach().normal_(0, spread, generator=torch.Generator().manual_seed(1))
    compiled_net = compile_net(made.config, float_state(made))
    games = play_numbered(compiled_net, Exploration(0.3, 8), 11, 0, 25)
    fields, how = (games.mover, games.opponent, games.black_to_move), {"plies": 2, "scale": made.scale}
    compiled = numba_targets.search_values(compiled_net, games, **how)
    on_tensors = torch_targets.search_values(made, *fields, **how)
    known = ~compiled.isnan()
    difference = (compiled - on_tensors)[known].abs()
    step = 0.5 / made.scale / SCORE_DISC
    # The compiled net's embeddings are rounded to 16 bits, which may be some steps.
    rounded = net in ("embedding", "champion")
    assert difference.max() < (8 if rounded else 1.01) * step
    assert (difference > ALIKE).float().mean() < (0.7 if rounded else 0.02)
    assert on_tensors[known].abs().max() <= 1
    if net == "extreme":
        unbounded = made(*(field[games.mask] for field in fields)).abs()
        assert (unbounded > targets.squashed(63, made.scale)).any(), "or no leaf says too much"


def test_a_leaf_claims_no_wipe_out():
    assert [targets.leaf_value(value, SCALE) for value in (-1.2, 1.0)] == [
        targets.squashed(discs, SCALE) for discs in (-62, 62)
    ]
    values = torch.tensor([-1.2, -0.3, 0.0, 0.123, 0.99, 1.0], dtype=torch.float64)
    assert torch_targets.leaf_values(values, SCALE).tolist() == pytest.approx(
        [targets.leaf_value(value, SCALE) for value in values.tolist()], abs=1e-9
    )
    assert targets.leaf_value(targets.squashed(3.126, SCALE), SCALE) == targets.squashed(3.125, SCALE)


def test_searches_by_threads(played):
    games = played[0].games
    how = {"plies": 2, "scale": SCALE}
    one, two = (numba_targets.search_values(NET, games, **how, threads=threads) for threads in (1, 2))
    assert torch.equal(one.nan_to_num(9), two.nan_to_num(9))


# --- targets ---------------------------------------------------------------------------------------------------------


def options() -> list[TD]:
    every = itertools.product(LAMBDAS, OUTCOMES, SEARCH_PLIES, EXACT_EMPTIES)
    return [TD(lam=lam, outcome=kind, targets=how, exact_empties=empties) for lam, kind, how, empties in every]


def compiled_targets(one: Played, td: TD) -> torch.Tensor:
    """As the on-line learner has them."""
    games, win = one.games, td.outcome == "win"
    unknown = torch.full(games.mover.shape, math.nan)
    searched = one.compiled[SEARCH_PLIES[td.targets], td.outcome] if SEARCH_PLIES[td.targets] else unknown
    exact = one.exact if td.exact_empties else unknown
    values, sign, explored, searched = (x.T.numpy() for x in (one.values.float(), games.sign, games.explored, searched))
    final = numba_targets.outcomes(games.margin.numpy(), SCALE, win)
    exact = numba_targets.outcomes(exact.T.numpy(), SCALE, win)
    found = np.zeros((games.games, games.rows), np.float32)
    for game, n in enumerate(games.length.tolist()):
        hints = searched[game], exact[game]
        columns = values[game, :n], sign[game], explored[game]
        numba_targets.returns_of(*columns, final[game], np.float32(td.lam), *hints, found[game])
    return torch.from_numpy(found).T


def targets_on_tensors(one: Played, td: TD) -> torch.Tensor:
    """As the torch learner has them."""
    final, exact = (torch_targets.outcome(margin, SCALE, td.outcome) for margin in (one.games.margin, one.exact))
    searched = one.on_tensors[SEARCH_PLIES[td.targets], td.outcome] if SEARCH_PLIES[td.targets] else None
    return torch_targets.lambda_returns(
        one.values, one.games, final, td.lam, exact if td.exact_empties else None, searched
    )


def defined_targets(one: Played, td: TD) -> torch.Tensor:
    found = torch.zeros(one.games.mover.shape, dtype=torch.float64)
    for game, rows in enumerate(one.rows):
        used = slice(len(rows))
        unknown = [UNKNOWN] * len(rows)
        searched = (
            one.on_tensors[SEARCH_PLIES[td.targets], td.outcome][used, game].tolist()
            if SEARCH_PLIES[td.targets]
            else unknown
        )
        margins = one.exact[used, game].tolist() if td.exact_empties else unknown
        exact = [m if math.isnan(m) else targets.outcome(m, SCALE, td.outcome) for m in margins]
        final = targets.outcome(int(one.games.margin[game]), SCALE, td.outcome)
        values = one.values[used, game].tolist()
        found[used, game] = torch.tensor(
            lambda_returns(rows, values, final, td.lam, searched, exact), dtype=torch.float64
        )
    return found


@pytest.mark.parametrize("td", options(), ids=lambda td: f"{td.lam}-{td.outcome}-{td.targets}-{td.exact_empties}")
def test_all_options_on_all_games(played, td):
    for one in played:
        expected = defined_targets(one, td)
        assert (compiled_targets(one, td) - expected).abs().max() < ALIKE
        assert (targets_on_tensors(one, td) - expected).abs().max() < ALIKE
        assert (expected - one.values)[one.games.mask].abs().mean() > 0.05


def test_options_matter(played):
    """Each of them changes targets, so none is compared with itself."""
    found = [torch.cat([defined_targets(one, td) for one in played[:2]], 1) for td in options()[::3]]
    for first, second in itertools.combinations(found, 2):
        assert (first - second).abs().max() > 0.1


@pytest.mark.parametrize(("kind", "how"), [("margin", "minimax"), ("win", "minimax"), ("margin", "returns")])
def test_whole_games_by_the_definition_alone(played, kind, how):
    """Searches and endings included, with the plain solver."""
    td = TD(lam=0.6, outcome=kind, targets=how, exact_empties=4)
    for one in played:
        known = dataclasses.replace(one, exact=numba_targets.exact_margins(one.games.mover, one.games.opponent, 4))
        for game in (0, 1):
            rows = one.rows[game]
            expected = game_targets(rows, int(one.games.margin[game]), plain, td, SCALE)
            for found in (compiled_targets(known, td), targets_on_tensors(known, td)):
                assert found[: len(rows), game].tolist() == pytest.approx(expected, abs=ALIKE)


def row(black_to_move: bool, explored: bool = False) -> Row:
    return Row(0, 0, black_to_move, explored)


@pytest.mark.parametrize(
    ("rows", "hints", "expected"),
    [
        ([row(False), row(True)], {}, [-0.25 * 0.5 - 0.75 * 0.9, 0.9]),
        ([row(False), row(False)], {}, [0.25 * 0.5 + 0.75 * 0.9, 0.9]),
        ([row(False), row(True, explored=True)], {}, [0.2, 0.9]),
        ([row(False), row(True)], {"searched": [0.4, 0.6]}, [0.25 * 0.4 - 0.75 * 0.9, 0.9]),
        ([row(False), row(True, explored=True)], {"searched": [0.4, UNKNOWN]}, [0.4, 0.9]),
        ([row(False), row(True, explored=True)], {"searched": [0.4, 0.6], "exact": [0.8, UNKNOWN]}, [0.8, 0.9]),
        ([row(False), row(True)], {"exact": [UNKNOWN, -0.3]}, [-0.25 * 0.5 + 0.75 * 0.3, -0.3]),
    ],
    ids=["a turn", "a pass", "explored", "searched", "searched and explored", "solved", "built on a solved row"],
)
def test_the_definition_on_two_rows(rows, hints, expected):
    hints = {"searched": [UNKNOWN] * 2, "exact": [UNKNOWN] * 2} | hints
    assert lambda_returns(rows, [0.2, 0.5], 0.9, 0.75, **hints) == pytest.approx(expected)


def test_outcomes():
    for kind, margin in itertools.product(OUTCOMES, (-64, -2, 0, 2, 64)):
        expected = targets.outcome(margin, SCALE, kind)
        assert numba_targets.outcomes(np.array([margin, np.nan]), SCALE, kind == "win") == pytest.approx(
            [expected, np.nan], abs=1e-6, nan_ok=True
        )
        assert float(torch_targets.outcome(torch.tensor(margin), SCALE, kind)) == pytest.approx(expected, abs=1e-6)
    assert [targets.outcome(margin, SCALE, "win") for margin in (-2, 0, 2)] == [-1, 0, 1]
    assert targets.outcome(10, SCALE, "margin") == pytest.approx(2 / (1 + math.exp(-1)) - 1)


# --- learners --------------------------------------------------------------------------------------------------------


def config_with(*settings: str):
    small = ["net.tuples=[[0, 1, 2], [9, 18]]", "net.stages=2", "td.batch_games=1", "td.augment=false"]
    return linear(*small, *settings)


@pytest.mark.parametrize("settings", list(itertools.product(OUTCOMES, SEARCH_PLIES, EXACT_EMPTIES)), ids=str)
def test_both_learners_see_the_same_errors(settings):
    kind, how, empties = settings
    config = config_with(f"td.outcome={kind}", f"td.targets={how}", f"td.exact_empties={empties}")
    online = OnlineLearner(config, make_net(config.net), Group(), 1)
    torchy = TorchLearner(config, make_net(config.net), Group(), 1, "cpu")
    experience = online._played(0, NET)
    assert (experience.searched is not None, experience.exact is not None) == (how == "minimax", empties > 0)
    one, other = (learner._learn(experience, learner.targets(experience)) for learner in (online, torchy))
    assert one == pytest.approx(other, rel=1e-4)


def test_a_search_is_the_same_before_and_on_the_device():
    """The first weights of this net are 0, so that leaves are equal too, and games that end decide."""
    config = config_with("td.outcome=win", "td.targets=minimax", "td.batch_games=30", "td.epsilon=1.0")
    learner = TorchLearner(config, make_net(config.net), Group(), 1, "cpu")
    experience = learner._on_device(0)
    found = numba_targets.search_values(learner.evaluator(), experience.games, plies=2, scale=SCALE, kind="win")
    known = ~found.isnan()
    assert torch.allclose(experience.searched[known], found[known], atol=ALIKE)
    assert set(found[known].tolist()) == {-1.0, 0.0, 1.0}


# --- a new target ----------------------------------------------------------------------------------------------------


def test_config_knows_all_targets():
    for how in SEARCH_PLIES:
        assert config_with(f"td.targets={how}").td.targets == how


def test_a_new_target_is_two_lines(monkeypatch):
    """As ``docs/extending.md`` has them: here the best move's value, a search one ply deep."""
    page = (Path(__file__).parent.parent / "docs" / "extending.md").read_text(encoding="utf-8")
    part = page.partition("## A new TD target")[2].partition("## ")[0]
    files = dict(re.findall(r"\*\*`([^`]+)`\*\*.*?```python\n(.*?)```", part, re.DOTALL))
    assert list(files) == ["othello_nn/config.py", "othello_nn/learn/td/targets.py"]
    choices, plies = (ast.literal_eval(code.partition("=")[2].strip()) for code in files.values())
    for name, depth in plies.items():
        monkeypatch.setitem(SEARCH_PLIES, name, depth)
    option = TD.options()["targets"]
    assert set(choices) == {*option.choices, "best-move"} == set(SEARCH_PLIES), "and a line more, the page says"
    monkeypatch.setitem(TD.__dataclass_fields__["targets"].metadata["option"].__dict__, "choices", choices)
    config = config_with("td.outcome=win", "td.targets=best-move")
    online = OnlineLearner(config, make_net(config.net), Group(), 1)
    torchy = TorchLearner(config, make_net(config.net), Group(), 1, "cpu")
    experience = online._played(0, NET)
    rows = rows_of(experience.games, 0)[:-1]
    expected = [search_value(plain, *row[:3], 1, SCALE, "win") for row in rows]
    assert experience.searched[: len(rows), 0].tolist() == pytest.approx(expected, abs=ALIKE)
    one, other = (learner._learn(experience, learner.targets(experience)) for learner in (online, torchy))
    assert one == pytest.approx(other, rel=1e-4)
    there = torchy._on_device(0)
    not_full = (there.games.mover | there.games.opponent) != -1
    assert torch.equal(there.searched.isfinite(), there.games.mask & not_full)


def test_compiled_definitions_are_compiled_again_when_they_change():
    """``kernels/jit.py`` stamps the cache with all modules that hold this word."""
    for module in (targets, optim):
        assert b"numba" in Path(module.__file__).read_bytes()
