"""Tournaments: who meets whom, ratings, and that a stopped one goes on as if it had not been."""

import errno
import json
import os
import random
import sys

import numpy as np
import pytest

from othello_nn.arena.openings import Opening, leouski60
from othello_nn.arena.rating import ELO, ratings
from othello_nn.arena.statistics import elo_difference
from othello_nn.arena.tournament import Journal, TournamentError, play_tournament, round_robin
from othello_nn.arena.workers import Entrant
from othello_nn.cli.main import main
from othello_nn.game import Position
from othello_nn.game.formats.files import read_games
from othello_nn.players.base import BasePlayer, Choice

PLAYERS = ["swh", "most-discs", "random"]
OPENINGS = leouski60()[:3]
SETTINGS = {"players": PLAYERS, "games": 6}


class Broken(BasePlayer):
    def __init__(self):
        super().__init__("broken", random.Random(0))

    def pick(self, position, remaining):
        return Choice(0)


# --- ratings ---------------------------------------------------------------------------------------------------------


def test_two_players_are_rated_as_their_score_says():
    points, games = np.array([[0, 750], [250, 0]]), np.array([[0, 1000], [1000, 0]])
    first, second = ratings(points, games)
    assert first.elo - second.elo == pytest.approx(elo_difference(0.75), abs=1)
    assert first.elo == pytest.approx(-second.elo)
    # The difference of two ratings has twice the spread of each, and the score's own is √(¾·¼/1000) · 1.96.
    spread = 1.96 * np.sqrt(0.75 * 0.25 / 1000) * ELO / (0.75 * 0.25)
    assert 2 * (first.high - first.elo) == pytest.approx(spread, rel=0.01)


def test_ratings_are_those_that_made_the_results():
    rng = np.random.default_rng(1)
    true = np.array([300.0, 100, 0, -50, -350])
    expected = 1 / (1 + 10 ** ((true[None] - true[:, None]) / 400))
    inside = 0
    for _ in range(40):
        games = np.full((5, 5), 100)
        np.fill_diagonal(games, 0)
        points = np.triu(rng.binomial(games, expected), 1)
        points = points + np.tril(games - points.T, -1)
        inside += sum(r.low <= elo - true.mean() <= r.high for r, elo in zip(ratings(points, games), true, strict=True))
    assert 180 <= inside <= 198  # of 200: the intervals hold 95%


def test_a_perfect_score_has_a_finite_rating():
    first, second = ratings(np.array([[0, 20], [0, 0]]), np.array([[0, 20], [20, 0]]))
    assert 400 < first.elo - second.elo < 1000
    assert first.low > second.low


def test_players_that_never_met_cannot_be_compared():
    games = np.zeros((4, 4))
    games[0, 1] = games[1, 0] = games[2, 3] = games[3, 2] = 10
    assert all(np.isinf(rating.high) for rating in ratings(games / 2, games))


# --- tournaments -----------------------------------------------------------------------------------------------------


def test_everybody_meets_everybody_in_rounds():
    pairings = round_robin([Entrant(name) for name in PLAYERS], OPENINGS, None)
    assert len(pairings) == 3 * 6
    assert sorted(pairing.number for pairing in pairings) == list(range(18))
    meetings = {(pairing.black, pairing.white, pairing.opening) for pairing in pairings}
    assert len(meetings) == 18
    first_round = pairings[:6]
    assert {pairing.opening for pairing in first_round} == {OPENINGS[0]}


def test_a_tournament_with_a_player_that_fails():
    result = play_tournament([*PLAYERS, Broken], OPENINGS, jobs=2, seed=1)
    assert len(result.played) == 6 * 6
    standings = {standing.player: standing for standing in result.standings()}
    assert [standing.rank for standing in standings.values()] == [1, 2, 3, 4]
    broken = standings["broken"]
    assert (broken.rank, broken.losses, len(broken.forfeits)) == (4, 18, 18)
    assert broken.forfeits[0].startswith("a1 is not legal here")
    swh = standings["swh"]
    assert swh.against["broken"] == 1.0
    assert swh.games == swh.wins + swh.draws + swh.losses == 18
    points, games = result.tables()
    assert points.sum() == len(result.played)
    assert (games == games.T).all()
    assert sum(standing.rating.elo for standing in standings.values()) == pytest.approx(0, abs=1e-6)


def test_a_stopped_tournament_goes_on_as_if_it_had_not_been(tmp_path):
    path = tmp_path / "games.jsonl"
    whole = play_tournament(PLAYERS, OPENINGS, 6, seed=4)

    def stop_after_five(one):
        nonlocal count
        count += 1
        if count == 5:
            raise KeyboardInterrupt

    count = 0
    part = play_tournament(PLAYERS, OPENINGS, 6, seed=4, journal=Journal(path, SETTINGS), on_game=stop_after_five)
    assert part.interrupted
    assert len(part.played) == 5
    with path.open("ab") as file:
        file.write(b'{"number": 17, "bla')  # the process died while it wrote
    rest = play_tournament(PLAYERS, OPENINGS, 6, seed=4, journal=Journal(path, SETTINGS), jobs=2)
    assert [one.game.moves for one in rest.played] == [one.game.moves for one in whole.played]
    lines = path.read_text().splitlines()
    assert len(lines) == 1 + 18
    again = play_tournament(PLAYERS, OPENINGS, 6, seed=4, journal=Journal(path, SETTINGS), on_game=pytest.fail)
    assert [one.game.result for one in again.played] == [one.game.result for one in whole.played]
    assert [one.game for one in again.played] == [one.game for one in rest.played]
    assert again.resumed == 18
    assert again.played[0].black_effort.moves == rest.played[0].black_effort.moves > 5


def test_a_forfeited_game_is_kept(tmp_path):
    settings = {"players": ["broken", "swh"]}
    start = [Opening(Position.parse("f5d6"))]  # a board, so the game may have no moves at all
    for _ in range(2):
        result = play_tournament([Broken, "swh"], start, journal=Journal(tmp_path / "t.jsonl", settings))
        assert [one.game.ending for one in result.played] == ["forfeit"] * 2
        assert result.standings()[1].forfeits[0].startswith("a1 is not legal")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("hello\n", "line 1: this is not a JSON object"),
        ("{}\n", "is no tournament"),
        (
            '{"format": "othello_nn tournament 1", "settings": {"players": ["swh"], "games": 6}}\n',
            "was begun with players",
        ),
    ],
)
def test_a_file_that_does_not_fit_is_left_alone(tmp_path, content, message):
    path = tmp_path / "t.jsonl"
    path.write_text(content)
    with pytest.raises(TournamentError, match=message):
        Journal(path, SETTINGS)
    assert path.read_text() == content


def test_a_damaged_game_is_named(tmp_path):
    path = tmp_path / "t.jsonl"
    header = {"format": "othello_nn tournament 1", "settings": SETTINGS}
    for line in ('{"number": 0, "black": 0, "white": 1, "moves": [0]}', '{"number": 0, "names": []}'):
        path.write_text(f"{json.dumps(header)}\n{line}\n")
        with pytest.raises(TournamentError, match="line 2: no game of this tournament"):
            play_tournament(PLAYERS, OPENINGS, 6, journal=Journal(path, SETTINGS))


@pytest.mark.parametrize("seconds", [10**400, 1e300, -1, True, None, float("nan")], ids=lambda value: str(value)[:6])
def test_a_time_that_nobody_can_have_thought_is_refused(tmp_path, seconds):
    path = tmp_path / "t.jsonl"
    play_tournament(PLAYERS, OPENINGS, 2, journal=Journal(path, SETTINGS))
    header, game, *rest = path.read_text().splitlines()
    damaged = json.loads(game)
    damaged["black_effort"]["seconds"] = seconds
    path.write_text("\n".join([header, json.dumps(damaged), *rest]) + "\n")
    with pytest.raises(TournamentError, match="line 2"):
        play_tournament(PLAYERS, OPENINGS, 2, journal=Journal(path, SETTINGS))


def test_games_from_other_openings_are_not_mixed_in(tmp_path):
    path = tmp_path / "t.jsonl"
    play_tournament(PLAYERS, OPENINGS, 2, journal=Journal(path, SETTINGS))
    before = path.read_text()
    with pytest.raises(TournamentError, match="its players or openings are others"):
        play_tournament(PLAYERS, leouski60()[3:6], 2, journal=Journal(path, SETTINGS))
    assert path.read_text() == before


def test_a_journal_begins_with_the_first_game(tmp_path, capsys):
    path = tmp_path / "t.jsonl"
    assert main(["tournament", "swh", "rnadom", "--journal", str(path)]) == 2
    assert not path.exists()
    assert main(["tournament", "swh", "random", "--games", "2", "--journal", str(path)]) == 0
    assert len(path.read_text().splitlines()) == 3
    assert main(["tournament", "swh", "random", "--games", "2", "--journal", str(path)]) == 0
    assert "2 games (2 of them from the journal)" in capsys.readouterr().out
    assert main(["tournament", "swh", "random", "--journal", "/dev/null"]) == 2
    assert "it is not a file" in capsys.readouterr().err


@pytest.mark.parametrize("bad", [{"jobs": 0}, {"games": 0}])
def test_bad_arguments(bad):
    with pytest.raises(ValueError, match="at least one"):
        play_tournament(PLAYERS, OPENINGS, **bad)
    with pytest.raises(ValueError, match="two players"):
        play_tournament(["swh"], OPENINGS)
    with pytest.raises(ValueError, match="different names"):
        play_tournament(["swh", "swh"], OPENINGS)


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_command_prints_ratings_and_a_cross_table(tmp_path, capsys):
    saved, journal = tmp_path / "games.ggf", tmp_path / "t.jsonl"
    words = ["tournament", *PLAYERS, "--games", "4", "--openings", "all:2", "--save", str(saved)]
    words += ["--journal", str(journal)]
    assert main(words) == 0
    shown = capsys.readouterr()
    out = shown.out.splitlines()
    assert out[0].startswith("12 games, ")
    assert out[1].split()[:4] == ["#", "player", "Elo", "95%"]
    assert {line.split()[1] for line in out[2:5]} == set(PLAYERS)
    assert out[6] == "score against"
    assert sum(float(cell) for line in out[8:11] for cell in line.split()[2:] if cell != "-") == pytest.approx(3)
    assert len(read_games(saved)) == 12
    assert main([*words, "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["rank"] for line in lines] == [1, 2, 3]
    assert all(line["low"] < line["elo"] < line["high"] and line["games"] == 8 for line in lines)
    assert set(lines[0]["against"]) == set(PLAYERS) - {lines[0]["player"]}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["swh", "swh"], "'swh' is named twice"),
        (["swh"], "two players"),
        (["swh", "rnadom"], "did you mean 'random'?"),
        (["swh", "random", "--openings", "nowhere.txt"], "no openings 'nowhere.txt'"),
        (["swh", "random", "--journal", "nowhere/t.jsonl"], "'nowhere/t.jsonl' cannot be"),
        (["swh", "random", "--save", "x.png"], "must end in .ggf or .sgf"),
        (["swh", "random", "--balance", "-1"], "is not a number of discs"),
    ],
)
def test_mistakes_are_explained(words, message, capsys):
    assert main(["tournament", *words]) == 2
    assert message in capsys.readouterr().err


# --- the journal on disk ---------------------------------------------------------------------------------------------

needs_locks = pytest.mark.skipif(sys.platform == "win32", reason="files are locked otherwise there")


@needs_locks
def test_two_tournaments_do_not_share_a_journal(tmp_path):
    path = tmp_path / "t.jsonl"
    first, message = Journal(path, SETTINGS), r"^'.*t\.jsonl' is in use: another tournament is writing it$"
    with pytest.raises(TournamentError, match=message):
        Journal(path, SETTINGS)
    first.close()
    assert not path.exists(), "nothing was played"
    play_tournament(PLAYERS, OPENINGS, 2, journal=Journal(path, SETTINGS))
    with Journal(path, SETTINGS) as again:
        assert len(again) == 6
    assert len(path.read_text().splitlines()) == 7


@needs_locks
def test_the_second_command_says_so_and_plays_nothing(tmp_path, capsys):
    path = tmp_path / "t.jsonl"
    words = ["tournament", "swh", "random", "--games", "2", "--journal", str(path)]
    with Journal(path, {}):
        assert main(words) == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith("is in use: another tournament is writing it")
    assert main(words) == 0
    assert len(path.read_text().splitlines()) == 3


def test_every_game_is_on_disk_when_it_is_told_of(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.fstat(handle).st_size))
    path, sizes = tmp_path / "t.jsonl", []

    def look(one):
        sizes.append(path.stat().st_size)
        assert sizes[-1] in synced

    play_tournament(PLAYERS, OPENINGS, 2, journal=Journal(path, SETTINGS), on_game=look)
    assert len(set(sizes)) == 6


@pytest.mark.parametrize(
    "damage", [b"[" * 100_000, b'{"number": ' + b"9" * 5000 + b"}", b'{"a":' * 50_000, b"\xff\xfe"]
)
def test_damaged_lines_are_one_clear_line(tmp_path, damage):
    path = tmp_path / "t.jsonl"
    header = json.dumps({"format": "othello_nn tournament 1", "settings": SETTINGS}).encode()
    for content, line in ((damage + b"\n", 1), (header + b"\n" + damage + b"\n", 2)):
        path.write_bytes(content)
        with pytest.raises(TournamentError, match=rf"^[^\n]*line {line}: this is not a JSON object$"):
            Journal(path, SETTINGS)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("black_effort", {"moves": "many", "nodes": 0, "seconds": 0.0}),
        ("black_effort", {"moves": 1e400, "nodes": 0, "seconds": 0.0}),
        ("white_effort", {"moves": -1, "nodes": 0, "seconds": 0.0}),
        ("white_effort", {"moves": 1, "nodes": 0, "seconds": float("nan")}),
        ("log", 7),
        ("comment", ["x"]),
        ("names", ["only one"]),
        ("names", [1, 2]),
        ("notes", [["x", None]]),
        ("result", 1000),
        ("result", 3.5),
        ("number", True),
        ("number", 0.0),
        ("ending", "boredom"),
        ("clock", 5),
    ],
)
def test_a_game_with_wrong_values_is_named(tmp_path, field, value):
    path = tmp_path / "t.jsonl"
    play_tournament(PLAYERS, OPENINGS, 2, journal=Journal(path, SETTINGS))
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:2], json.dumps(json.loads(lines[2]) | {field: value}), ""]))
    with pytest.raises(TournamentError, match=r"^[^\n]*line 3: no game of this tournament"):
        play_tournament(PLAYERS, OPENINGS, 2, journal=Journal(path, SETTINGS))


def test_a_full_disk_leaves_the_journal_whole(tmp_path, monkeypatch):
    path = tmp_path / "t.jsonl"
    whole = play_tournament(PLAYERS, OPENINGS, 2, seed=4)

    def fill(handle):
        nonlocal room
        room -= 1
        if room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")

    room = 3
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fill)
        with pytest.raises(TournamentError, match="cannot be written: No space left on device"):
            play_tournament(PLAYERS, OPENINGS, 2, seed=4, journal=Journal(path, SETTINGS))
    assert path.read_bytes().endswith(b"\n")
    rest = play_tournament(PLAYERS, OPENINGS, 2, seed=4, journal=Journal(path, SETTINGS))
    assert rest.resumed >= 2
    assert [one.game.moves for one in rest.played] == [one.game.moves for one in whole.played]
