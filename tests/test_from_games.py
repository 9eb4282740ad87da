"""Games that somebody has played, as what a net learns from: alone, or beside those that the run makes."""

import json
import random
from dataclasses import replace

import numpy as np
import pytest
from strategies import FINISHED

import train as program
from othello_nn.config import ConfigError, load_preset
from othello_nn.game import PASS, Position
from othello_nn.game.formats.files import parse_transcripts, write_games
from othello_nn.game.record import Game
from othello_nn.learn.data import calibrate
from othello_nn.learn.data import learner as module
from othello_nn.learn.data.from_games import STRIDE, GamePositions, game_records
from othello_nn.learn.data.labels import firsts, labels, lines
from othello_nn.learn.data.learner import SearchedLearner
from othello_nn.learn.data.searched import Play
from othello_nn.learn.data.store import EXACT, StoreError
from othello_nn.learn.distributed import Group
from othello_nn.players import make_player

SMALL = [
    "init=",
    "net.tuples=edges",
    "net.dim=4",
    "net.hidden=8",
    "net.heads=4",
    "searched.positions=[0]",
    "searched.passes=[3]",
    "searched.minibatch=128",
]


def random_games(count: int, seed: int = 0) -> list[Game]:
    rng, found = random.Random(seed), []
    for _ in range(count):
        position, moves = Position.start(), []
        while not position.is_over:
            moves.append(rng.choice(position.legal_moves) if position.legal_mask else PASS)
            position = position.play(moves[-1])
        found.append(Game(moves=tuple(moves)))
    return found


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(module, "PORTION", 32)
    monkeypatch.setattr(module, "SLAB", 1000)
    monkeypatch.setattr(module, "CALIBRATED", (60, 180))
    monkeypatch.setattr(calibrate, "HOW", Play(depth=2, solve=6, opening_plies=16, latest=10))
    monkeypatch.setattr(calibrate, "PROVEN", 8)
    monkeypatch.setattr(module, "PROBCUT", {"positions": 160, "depth": 5, "solve_empties": 8})


def made(folder, *settings: str, resumed: bool = False) -> SearchedLearner:
    config = load_preset("champion").changed([*SMALL, *settings])
    learner = SearchedLearner(config, Group(), 1, "cpu", resumed=resumed)
    learner.folder = folder
    return learner


def run(learner: SearchedLearner, steps: int = 10**6) -> list[dict]:
    found = []
    while learner.progress < 1 and len(found) < steps:
        found.append(dict(learner.step()))
    return found


def worth(records: np.ndarray) -> dict[tuple[int, int], tuple[float, bool]]:
    return {
        (int(r["mover"]), int(r["opponent"])): (float(r["searched"]) / 128, bool(r["flags"] & EXACT)) for r in records
    }


def test_positions_have_the_result_of_their_game():
    [game] = parse_transcripts(FINISHED)
    assert game.result == 44
    found = worth(game_records([game]))
    positions = [position for position in game.positions() if position.legal_mask]
    assert len(found) == len(positions) == 59
    for position in positions:
        wanted = 44 if position.black_to_move else -44
        assert found[position.mover, position.opponent] == (wanted, False)


def test_exact_results_count_up_to_where_they_were_found():
    [game] = parse_transcripts(FINISHED)
    solved = replace(game, theoretical_result=-6, theoretical_empties=20)
    found = worth(game_records([solved]))
    for position in (p for p in game.positions() if p.legal_mask):
        margin = -6 if position.empties >= 20 else 44
        wanted = margin if position.black_to_move else -margin
        assert found[position.mover, position.opponent] == (wanted, position.empties == 20)


def test_what_says_nothing_is_left_out():
    [game] = parse_transcripts(FINISHED)
    begun = game.moves[:30]
    assert len(game_records([Game(moves=begun)])) == 0
    assert len(game_records([Game(moves=begun, result=-64, ending="resigned")])) == 0
    assert len(game_records([Game(moves=begun, result=8, ending="agreed")])) == 30
    # A game that ends where it was solved, as convert --cut writes it: the last position counts, too.
    cut = Game(moves=begun, result=8, theoretical_result=8, theoretical_empties=30)
    assert [bool(flags & EXACT) for flags in game_records([cut])["flags"]] == [False] * 30 + [True]
    assert len(game_records([])) == 0


def test_a_position_of_many_games_has_their_mean():
    [game] = parse_transcripts(FINISHED)
    start = Position.parse(FINISHED[:40])
    margins = (10, 4, -5)
    games = [Game(start=start, moves=(start.legal_moves[0],), result=m) for m in margins]
    images = [Game(start=image, moves=(image.legal_moves[0],), result=2) for image in start.symmetries()[1:2]]
    [record] = game_records([*games, *images])
    mean = (sum(margins) + 2) / 4 * (1 if start.black_to_move else -1)
    assert record["searched"] == round(128 * mean)
    solved = replace(games[0], theoretical_result=30, theoretical_empties=start.empties)
    [record] = game_records([*games, solved])
    assert (record["margin"], record["flags"]) == (30 if start.black_to_move else -30, EXACT)
    assert game.result == 44


@pytest.mark.parametrize("lam", [0.0, 0.7, 1.0])
def test_labels_are_the_results_whatever_lambda_is(lam):
    records = game_records(random_games(60))
    assert firsts(records).all()
    found = labels(records, lam, lines([records]))
    assert np.abs(found - records["searched"] / 128).max() <= 0.51  # margins are whole, means are not
    assert STRIDE % module.TESTED == 0
    assert 61 * STRIDE < 2**32


def corner_games(count: int) -> list[Game]:
    """One move of each of many games, whose result is what the corners say: something that can be learnt."""
    found, corners = [], 1 | 1 << 7 | 1 << 56 | 1 << 63
    for game in random_games(count, seed=5):
        for position in (p for p in game.positions()[35:55] if p.legal_mask and p.empties > 2):
            margin = 16 * ((position.black & corners).bit_count() - (position.white & corners).bit_count())
            found.append(Game(start=position, moves=(position.legal_moves[0],), result=margin))
    return [game for game in found if not game.final.is_over]


def test_a_net_learns_from_games_alone(tmp_path):
    write_games(tmp_path / "games.ggf", corner_games(120))
    learner = made(tmp_path, f"searched.games={tmp_path / 'games.ggf'}", "searched.passes=[20]")
    metrics = run(learner)
    errors = [each[module.TEST] for each in metrics if module.TEST in each]
    assert errors[-1] < 0.7 * errors[0]
    assert learner.generation == 1
    own = list((tmp_path / "positions" / "generation-1").glob("*.positions"))
    assert [path.stat().st_size for path in own] == [0]


def test_games_stand_beside_what_is_made(tmp_path):
    write_games(tmp_path / "games.ggf", random_games(40))
    settings = ["searched.positions=[1000]", "searched.depth=[1]", "searched.solve=4", "searched.latest=10"]
    plain = made(tmp_path / "plain", *settings)
    run(plain)
    both = made(tmp_path / "both", *settings, f"searched.games={tmp_path / 'games.ggf'}")
    run(both)
    records = game_records(random_games(40))
    learnt = int((records["game"] % module.TESTED != 0).sum())
    assert both.games == plain.games + 3 * learnt


def test_a_stopped_run_goes_on_as_if_it_had_not(tmp_path):
    file = tmp_path / "games.ggf"
    write_games(file, random_games(60))
    setting = f"searched.games={file}"
    whole = made(tmp_path / "whole", setting)
    steps = len(run(whole))
    begun = made(tmp_path / "stopped", setting)
    run(begun, steps // 2)
    state = {name: array.copy() for name, array in begun.state().items()}
    run(begun, 1)
    file.unlink()  # what was read is kept
    again = made(tmp_path / "stopped", setting, resumed=True)
    again.restore(state)
    run(again)
    for name, array in whole.state().items():
        assert np.array_equal(array, again.state()[name]), name


def test_other_games_are_not_gone_on_with(tmp_path):
    file = tmp_path / "games.ggf"
    write_games(file, random_games(3))
    GamePositions(str(file), resumed=False).part(tmp_path)
    write_games(file, random_games(3, seed=1))
    with pytest.raises(StoreError, match="other settings"):
        GamePositions(str(file), resumed=True).part(tmp_path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["searched.games=none.ggf"], "searched.games: 'none.ggf' cannot be read: No such file"),
        (["searched.games=bad.txt"], "searched.games: bad.txt: line 1: .*; play.py convert bad.txt clean.ggf leaves"),
        (["searched.games=begun.txt"], "has no positions with a known result"),
        ([], "searched.positions: a generation that makes none needs searched.games"),
    ],
)
def test_what_is_wrong_is_said_at_once(tmp_path, monkeypatch, settings, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.txt").write_text("f5f5\n")
    (tmp_path / "begun.txt").write_text("f5d6\n")
    with pytest.raises(ConfigError, match=message):
        made(tmp_path, *settings)


def test_from_the_command_line_to_a_player(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_games(tmp_path / "games.sgf", random_games(60))
    settings = [*SMALL, "measure.double_games=2", "searched.games=games.sgf"]
    words = ["--preset", "champion", "--run", "a", "--device", "cpu", "--threads", "1", "--json"]
    assert program.main([*words, *(word for setting in settings for word in ("--set", setting))]) == 0
    capsys.readouterr()
    config = json.loads((tmp_path / "runs" / "a" / "config.json").read_text())
    assert config["searched"]["games"] == str(tmp_path / "games.sgf")
    assert make_player("a:depth=1").choose(Position.start()).move is not None


def test_a_fit_of_which_all_positions_are_kept_for_the_test_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "TESTED", 1)
    write_games(tmp_path / "games.ggf", random_games(2))
    with pytest.raises(StoreError, match="nothing to learn from"):
        run(made(tmp_path, f"searched.games={tmp_path / 'games.ggf'}"))
