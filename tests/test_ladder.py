"""Games in step, and the ladder that nets in training are rated against."""

import math

import numpy as np
import pytest
import torch

from benchmarks.ladder import play_rungs
from othello_nn.arena.league import league
from othello_nn.arena.lockstep import Boards, CompiledSide, play_games, random_starts, score_in_step
from othello_nn.arena.rating import rating_among, ratings
from othello_nn.checkpoint import check_positions
from othello_nn.engine.leaf.compile import compile_net
from othello_nn.game.position import Position
from othello_nn.learn.td.learners import float_state
from othello_nn.learn.td.rivals import opponent_evaluator
from othello_nn.learn.watch import ladder as ladder_module
from othello_nn.learn.watch.ladder import ELO, ELO_HIGH, ELO_LOW, LEOUSKI, RUNG, RUNGS, Ladder, rating_of, rung
from othello_nn.learn.watch.sides import TorchSide
from othello_nn.nets import Doubled, Net, NTupleNet, TriangleNet


def filled(net: Net, seed: int = 3) -> Net:
    """The net with small weights of whole eighths: its value is the same however it is added up."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randint(-2, 3, parameter.shape, generator=generator) / 8)
    return net


def evaluator_of(net: Net):
    return compile_net(net.config, float_state(net))


def value(net: Net, position: Position) -> float:
    """For the side to move; a game that is over is worth its result."""
    if position.is_over:
        return float(position.final_score())
    sides = (torch.tensor([np.uint64(side).astype(np.int64)]) for side in (position.mover, position.opponent))
    return net.discs(*sides, torch.tensor([position.black_to_move])).item()


def worth(net: Net, position: Position, plies: int) -> float:
    """Minimax, as a reader would write it; a pass is a ply."""
    if not plies or position.is_over:
        return value(net, position)
    if position.must_pass:
        return -worth(net, position.play("pass"), plies - 1)
    return max(-worth(net, position.play(move), plies - 1) for move in position.legal_moves)


@pytest.mark.parametrize("kind", ["ntuple", "doubled"])
def test_two_plies_find_a_best_move(kind):
    config = {"kind": "ntuple", "tuples": "all-2"}
    net = filled(Doubled(config) if kind == "doubled" else NTupleNet("all-2"))
    positions = [Position(int(m), int(o), bool(b)) for m, o, b in zip(*check_positions(120, seed=5), strict=True)]
    side = CompiledSide(evaluator_of(net), 2)
    checked = 0
    for position in positions:
        if not position.legal_moves:
            continue
        at = Boards.of([position])
        square = int(side.squares(at.movers, at.opponents, position.black_to_move, np.ones(1, np.uint64))[0])
        values = {move: -worth(net, position.play(move), 1) for move in position.legal_moves}
        assert values[square] == max(values.values()), position
        checked += len(values) > 1
    assert checked > 80


def test_games_in_step_are_games_of_the_league():
    """The same openings, the same players: only chance among equal moves differs."""
    a, b = evaluator_of(filled(TriangleNet(maps=3))), opponent_evaluator("swh")
    expected = league(a, b, 200, 0.0, seed=4, opening_plies=7)
    found = score_in_step(CompiledSide(a), CompiledSide(b), random_starts(200, 7, 4), 4)
    assert found == pytest.approx(expected.score, abs=0.06)


def test_games_are_legal_to_their_ends():
    side = CompiledSide(opponent_evaluator("random"))
    played = play_games(side, side, random_starts(5, 7, 1), seed=1, keep=True)
    for game in range(5):
        line = [at.where(numbers == game) for numbers, at in played.path if game in numbers]
        positions = [Position(int(at.movers[0]), int(at.opponents[0]), bool(at.blacks[0])) for at in line]
        ends = played.ends
        last = Position(int(ends.movers[game]), int(ends.opponents[game]), bool(ends.blacks[game]))
        for before, after in zip(positions, [*positions[1:], last], strict=True):
            following = [before.play(move) for move in before.legal_moves]
            following += [each.play("pass") for each in following if each.must_pass]
            # At the end it does not matter whose turn it would be.
            assert after in following or (
                after.is_over and after.black_discs in {each.black_discs for each in following}
            )
        assert last.is_over
        assert last.black_score() == played.margins[game]


def test_a_net_in_torch_plays_as_its_compiled_twin():
    net = filled(NTupleNet("all-3", stages=2))
    with torch.no_grad():
        net.weight.add_(torch.randn(net.weight.shape, generator=torch.Generator().manual_seed(1)) / 8)  # no equals
    starts = random_starts(20, 7, 2)
    sides = (TorchSide(net), CompiledSide(evaluator_of(net)))
    in_torch, compiled = (play_games(side, rung("swh"), starts, 2).margins for side in sides)
    assert (in_torch == compiled).mean() > 0.6  # compiled weights are rounded


# --- ratings ---------------------------------------------------------------------------------------------------------


def test_a_rating_among_known_players_is_that_of_them_all():
    known = np.array([0.0, 200.0, 500.0])
    for true in (-100.0, 250.0, 700.0):
        points = 10_000 / (1 + 10 ** ((known - true) / 400))
        found = rating_among(points, np.full(3, 10_000), known)
        assert found.elo == pytest.approx(true, abs=3)
        assert found.low < true < found.high


def test_intervals_shrink_with_the_games_and_are_those_of_a_round_robin():
    few, many = (rating_among(np.array([n / 2]), np.array([n]), np.array([100.0])) for n in (100, 10_000))
    assert few.elo == pytest.approx(many.elo) == 100
    assert (few.high - few.low) / (many.high - many.low) == pytest.approx(10, rel=0.02)
    both = ratings(np.array([[0, 50], [50, 0]]), np.array([[0, 100], [100, 0]]))
    assert few.high - few.low == pytest.approx(2 * (both[0].high - both[0].low), rel=0.01)  # there the mean of two is 0


def test_who_wins_or_loses_all_has_a_rating():
    for points in (0.0, 50.0):
        found = rating_among(np.array([points]), np.array([50]), np.array([0.0]))
        assert all(map(math.isfinite, (found.elo, found.low, found.high)))


def test_rungs_are_as_strong_as_they_are_said_to_be():
    """If one has changed: python benchmarks/run.py ladder measures them again."""
    _, elos = play_rungs(150)
    assert elos.keys() == RUNGS.keys()
    for name, elo in elos.items():
        assert elo == pytest.approx(RUNGS[name], abs=60), name


@pytest.mark.parametrize("name", ["wystan", "iago"])
def test_a_rung_rated_like_a_net_gets_its_own_rating(name):
    side = rung(name)
    found = Ladder(60, 7, 1).scores(side, side.evaluator)
    assert found.keys() == {ELO, ELO_LOW, ELO_HIGH, LEOUSKI, *(RUNG.of(each) for each in RUNGS)}
    assert found[ELO_LOW] < found[ELO] < found[ELO_HIGH]
    assert found[ELO] == pytest.approx(RUNGS[name], abs=90)
    assert found[RUNG.of(name)] == pytest.approx(0.5, abs=0.15)
    if name == "wystan":
        assert found[LEOUSKI] == pytest.approx(0.5, abs=0.2)


def test_the_ladder_rests_and_waits_for_its_code(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(ladder_module.time, "monotonic", lambda: clock[0])
    measured = Ladder(1, 1, 1)
    assert not measured.is_due(last=True), "nobody has prepared it"
    measured.prepare(None)
    assert measured.is_due(last=True)
    assert measured.is_due(last=False)
    net = filled(NTupleNet("all-1"))
    found = measured.scores(TorchSide(net), None)
    assert LEOUSKI not in found
    measured._took = 2.0
    assert not measured.is_due(last=False)
    assert measured.is_due(last=True)
    clock[0] = 21.0
    assert measured.is_due(last=False)


def test_scores_become_ratings():
    assert rating_of({"random": 0.5, "wystan": 0.2}, 400).elo == pytest.approx(0, abs=20)
    assert rating_of(dict.fromkeys(RUNGS, 1.0), 400).elo > RUNGS["champion"]
