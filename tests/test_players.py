"""Players: how they are written down, and that they play as their names say."""

import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from net_oracle import discs_of, random_checkpoint, squares_checkpoint
from patience import HANG_SECONDS
from strategies import positions, quick

from othello_nn import resources
from othello_nn.engine import Engine, Limit, Options
from othello_nn.engine.leaf.mobility import Mobility
from othello_nn.game import PASS, Position
from othello_nn.game.rules import solve as oracle_solve
from othello_nn.players import PlayerError, best_player_name, make_player, parse_spec, player_names
from othello_nn.players.searching import SearchPlayer, square_evaluator
from othello_nn.players.simple import SWH, OnePlyPlayer

ROOT = Path(__file__).resolve().parent.parent
MUST_PASS = f"{'O' * 62}X- X"  # only white can play h8
OVER = f"{'X' * 60}{'-' * 4} X"


def random_position(plies: int, seed: int) -> Position:
    rng, position = random.Random(seed), Position.start()
    while 60 - position.empties < plies and not position.is_over:
        position = position.play(rng.choice(position.legal_moves or (PASS,)))
    return position


# --- specifications --------------------------------------------------------------------------------------------------


def test_every_key_is_read():
    spec = parse_spec(
        "mobility:depth=6,nodes=1000,seconds=0.5,solve=12,epsilon=0.1,threads=2,probcut=off,trust=1.2,search=mtdf,table=8,clock=predict"
    )
    assert spec.given == {
        "depth": 6,
        "nodes": 1000,
        "seconds": 0.5,
        "solve": 12,
        "epsilon": 0.1,
        "threads": 2,
        "probcut": False,
        "trust": 1.2,
        "search": "mtdf",
        "table": 8.0,
        "clock": "predict",
    }
    assert spec.name == "mobility"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rnadom", "unknown player 'rnadom'; did you mean 'random'?"),
        ("mobilty:depth=3", "unknown player 'mobilty'; did you mean 'mobility'?"),
        ("zzz", "unknown player 'zzz'; choose from random, "),
        ("swh:dept=3", "unknown key 'dept' in 'swh:dept=3'; did you mean 'depth'?"),
        ("swh:depth=0", "depth is '0' in 'swh:depth=0'; it must be a whole number from 1 to 60"),
        ("swh:depth=three", "it must be a whole number from 1 to 60"),
        ("swh:epsilon=nan", "it must be a number from 0 to 1"),
        ("swh:probcut=maybe", "it must be on, off, multi or single"),
        ("swh:search=mcts", "it must be negascout, alphabeta or mtdf"),
        ("swh:depth=1,depth=2", "'depth' is given twice"),
        ("swh:depth=1,solve", "'solve' in 'swh:depth=1,solve' has no value"),
        ("swh:depth", "behind the colon come key=value pairs"),
        ("random:depth=3", "random has no key 'depth'; it takes none"),
        (":depth=3", "no player is named"),
        ("", "no player is named"),
        ("nowhere/x.safetensors", "there is no net at 'nowhere/x.safetensors'"),
    ],
)
def test_mistakes_are_explained(text, message):
    with pytest.raises(PlayerError) as error:
        make_player(text)
    assert message in str(error.value)


def test_a_path_may_hold_colons():
    spec = parse_spec(r"C:\nets\a.safetensors:depth=2")
    assert spec.name == r"C:\nets\a.safetensors"
    assert spec.depth == 2


def test_a_file_that_is_no_evaluator_is_an_error(tmp_path):
    path = tmp_path / "x.safetensors"
    path.write_bytes(b"not at all")
    with pytest.raises(PlayerError, match="not a readable safetensors file"):
        make_player(str(path))


def test_the_shipped_checkpoint_is_found_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr(resources, "CHECKPOINTS", tmp_path)
    assert best_player_name() == "mobility"
    with pytest.raises(PlayerError, match=r"'champion' needs checkpoints/champion\.safetensors"):
        make_player("champion")
    squares_checkpoint(SWH.weights, SWH.per_disc).save(tmp_path / "champion.safetensors")
    assert best_player_name() == "champion"
    assert "champion" in player_names()
    position = random_position(20, 5)
    # The player's own tables are rounded to integers.
    expected = pytest.approx(make_player("swh:depth=2").choose(position).score, abs=8 * 0.5 / 128 + 0.01)
    assert make_player("champion:depth=2").choose(position).score == expected


def test_simple_players_need_no_numba():
    code = (
        "import sys; from othello_nn import Position; from othello_nn.players import make_player\n"
        "for name in ('random', 'most-discs', 'fewest-discs', 'swh:epsilon=0.1'):\n"
        "    make_player(name).choose(Position.start())\n"
        "assert not {'numpy', 'numba', 'torch'} & set(sys.modules), 'a simple player imported too much'"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=HANG_SECONDS)


# --- playing ---------------------------------------------------------------------------------------------------------


@quick
@given(positions(max_plies=58))
def test_disc_counters_turn_the_most_and_the_fewest(position):
    if not position.legal_moves:
        return
    counts = {move: position.play(move).opponent_discs for move in position.legal_moves}
    rng = random.Random(1)
    assert counts[make_player("most-discs", rng).choose(position).move] == max(counts.values())
    assert counts[make_player("fewest-discs", rng).choose(position).move] == min(counts.values())


def test_swh_weights_are_those_of_the_table():
    assert SWH.weights[:8] == (100, -25, 10, 5, 5, 10, -25, 100)
    assert SWH.weights[8:16] == (-25, -25, 1, 1, 1, 1, -25, -25)
    assert SWH.weights[16:24] == (10, 1, 5, 2, 2, 5, 1, 10)
    assert SWH.weights[24:32] == (5, 1, 2, 1, 1, 2, 1, 5)
    assert SWH.weights[32:] == SWH.weights[31::-1]
    assert sum(map(abs, SWH.weights)) / SWH.per_disc < 62


@pytest.mark.parametrize("plies", [0, 8, 20, 33, 47, 55])
def test_one_ply_is_the_search_of_depth_one(plies):
    engine = Engine(square_evaluator(SWH), Options(table_mb=0.1))
    for seed in range(5):
        position = random_position(plies, seed)
        choice = make_player("swh", random.Random(seed)).choose(position)
        found = engine.search(position, Limit(depth=1))
        assert choice.score == found.score
        after = position.play(choice.move)
        assert SWH.value(after.opponent, after.mover) / SWH.per_disc == found.score


def test_ties_are_broken_by_the_given_chance():
    moves = {make_player("swh", random.Random(seed)).choose(Position.start()).move for seed in range(30)}
    assert moves == set(Position.start().legal_moves)


def test_the_same_seed_plays_the_same():
    def game(seed: int) -> list[int]:
        player, position, moves = make_player("swh:epsilon=0.3"), Position.start(), []
        player.new_game(random.Random(seed))
        while not position.is_over:
            moves.append(player.choose(position).move)
            position = position.play(moves[-1])
        return moves

    assert game(1) == game(1)
    assert game(1) != game(2)


def test_a_player_that_gives_discs_away_plays_worse_by_its_own_judgement():
    position, exact = Position.parse("f5d6c3d3c4f4f6"), make_player("mobility:depth=3")
    values = {move: -exact.choose(position.play(move)).score for move in position.legal_moves}
    best = max(values.values())

    def mean_loss(spec: str) -> float:
        player = make_player(spec, random.Random(1))
        assert player.varies
        return sum(best - values[player.choose(position).move] for _ in range(60)) / 60

    assert values
    assert mean_loss("mobility:depth=4,gives=15") < mean_loss("mobility:depth=4,gives=90")
    assert not make_player("mobility:depth=4").varies


def test_epsilon_one_is_a_random_player():
    player = make_player("most-discs:epsilon=1", random.Random(3))
    position = random_position(12, 1)
    moves = {player.choose(position).move for _ in range(200)}
    assert moves == set(position.legal_moves)
    assert player.varies


@pytest.mark.parametrize("name", ["random", "most-discs", "swh", "mobility:depth=2"])
def test_passes_and_finished_games(name):
    player = make_player(name)
    passing, over = Position.parse(MUST_PASS), Position.parse(OVER)
    assert passing.must_pass
    assert player.choose(passing).move == PASS
    assert over.is_over
    choice = player.choose(over)
    assert choice.move is None
    assert choice.exact
    assert choice.score == over.final_score()


def test_limits_reach_the_engine():
    player = make_player("mobility:depth=3,threads=2,search=alphabeta,table=2")
    assert isinstance(player, SearchPlayer)
    assert player.limit == Limit(depth=3)
    assert player.engine.options == Options(search="alphabeta", threads=2, table_mb=2)
    assert player.choose(Position.start()).depth == 3
    assert make_player("mobility", seconds=0.02).limit == Limit(seconds=0.02)
    assert isinstance(make_player("swh:depth=1"), OnePlyPlayer)
    assert make_player("swh:depth=2").choose(random_position(10, 1)).depth == 2


def test_solve_plays_the_end_exactly():
    player = make_player("mobility:depth=1,solve=9,table=1")
    for seed in range(4):
        position = random_position(52, seed)
        choice = player.choose(position)
        assert choice.exact
        assert choice.score == oracle_solve(position.mover, position.opponent)
    assert not player.choose(random_position(48, 1)).exact


def test_an_evaluator_file_plays(tmp_path):
    path = tmp_path / "corners.safetensors"
    weights = [0] * 64
    for corner in (0, 7, 56, 63):
        weights[corner] = 1
    squares_checkpoint(weights).save(path)
    choice = make_player(f"{path}:depth=1").choose(Position.parse("f5d6c3d3c4"))
    assert choice.score == 0
    assert choice.depth == 1


PAIRS = {"kind": "ntuple", "tuples": [[0, 1], [27, 36]], "stages": 2, "scale": 10.0}


@pytest.mark.parametrize("net", [{"kind": "doubled", "net": PAIRS}, PAIRS | {"view": "negation"}])
def test_each_colour_has_its_own_evaluator(net, tmp_path):
    """At 1-ply a player asks the net about the position after its move, with the other colour to move."""
    path, checkpoint = tmp_path / "coloured.safetensors", random_checkpoint(net, 1)
    checkpoint.save(path)
    player = make_player(f"{path}:depth=1")
    for plies in range(4, 24):
        position = random_position(plies, plies)
        after = [position.play(move) for move in position.legal_moves]
        values = [discs_of(net, checkpoint.arrays, p.mover, p.opponent, p.black_to_move) for p in after]
        choice = player.choose(position)
        assert choice.score == pytest.approx(-min(values), abs=0.01)
    if "view" in net:
        for keys in ("", ":depth=2", ":depth=1,solve=8"):
            with pytest.raises(PlayerError, match="depth=1"):
                make_player(f"{path}{keys}")
    else:
        assert make_player(f"{path}:depth=3").choose(position).depth == 3


@pytest.mark.parametrize(
    "spec", ["mobility", "mobility:clock=predict", "mobility:depth=20", "mobility:solve=40,table=4"]
)
def test_a_clock_is_respected(spec):
    player = make_player(spec)
    player.warm_up()
    player.new_game()
    for plies in (10, 30):
        choice = player.choose(random_position(plies, 1), remaining=1.0)
        assert choice.move is not None
        assert choice.depth > 0
        assert choice.seconds < HANG_SECONDS, "by its limits alone it would think for hours"


def test_search_players_use_mobility_by_name():
    assert make_player("mobility:depth=1").engine.evaluator == Mobility()


@pytest.mark.parametrize(
    ("spec", "reason"),
    [("iago:trust=1.2", "no ProbCut was fitted"), ("champion:depth=2,probcut=off,trust=1.2", "probcut is off")],
)
def test_trust_in_a_probcut_that_is_not_there_is_refused(spec, reason):
    with pytest.raises(PlayerError, match=reason):
        make_player(spec)
    assert make_player("champion:depth=2,trust=1.2").choose(Position.start().play("f5")).depth == 2
