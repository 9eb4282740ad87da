"""``play.py convert``: formats, filters, exact results, what a kill leaves behind, and the figures of a collection."""

import io
import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from patience import HANG_SECONDS
from strategies import FINISHED, play_out, quick, symmetry_numbers, wthor, wthor_game
from strategies import games as any_games

from othello_nn.cli import main as cli
from othello_nn.collection.correct import (
    Solutions,
    SolutionsError,
    corrected,
    cut_short,
    point_of,
    solve_all,
    unsolved,
)
from othello_nn.collection.replay import replayed
from othello_nn.collection.sources import symmetric_key
from othello_nn.collection.statistics import statistics_of
from othello_nn.engine.leaf.mobility import Mobility
from othello_nn.game import PASS, Position, rules
from othello_nn.game.formats.files import parse_transcripts, read_games, read_obf, write_games
from othello_nn.game.record import Game, RecordError
from othello_nn.game.rules import SYMMETRIES

ROOT = Path(__file__).resolve().parent.parent
LOGISTELLO = (
    "d3c5e6f5f6e3d6f7g6c4c6e7d7g5f4c8h6c7d8e8f3h4g4c3b3h3g3d2b4b5c2a4e2c1d1a3a6a5a2h2b6e1b2a1b1g2h1h5f2a7f1h7h8g1g7g8f8b7"
    "a8b8"
)


def random_games(count: int, seed: int = 0) -> list[Game]:
    rng = random.Random(seed)
    return [Game(moves=tuple(play_out(rng.choices(range(60), k=70))[1])) for _ in range(count)]


@pytest.fixture
def play(capsys):
    def call(*words: object) -> tuple[int, str, str]:
        code = cli.main([str(word) for word in words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def some(tmp_path) -> Path:
    """Games of two years, one of them twice (once turned), one unfinished, one that is none."""
    first, other = parse_transcripts(f"{FINISHED}\n{LOGISTELLO}")
    turned = tuple(PASS if move == PASS else SYMMETRIES[7][move] for move in first.moves)
    kept = [
        Game(moves=first.moves, black="Ann", white="Bob", date="1997.03.01"),
        Game(moves=turned, black="Carl", white="Ann", date="1997"),
        Game(moves=other.moves, black="LOGISTELLO", white="KEYANO", date="5 May 1998"),
        Game(moves=other.moves[:40], black="Bob", white="Dan"),
    ]
    write_games(tmp_path / "some.ggf", kept)
    with (tmp_path / "some.ggf").open("a") as file:
        file.write("(;GM[Othello]PB[Eve]PW[Fay]B[a1];)\n")
    return tmp_path / "some.ggf"


# --- formats ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".ggf", ".sgf", ".txt"])
def test_games_go_from_format_to_format(play, some, tmp_path, suffix):
    out = tmp_path / f"out{suffix}"
    code, said, notes = play("convert", some, out)
    assert code == 0
    assert said == f"{out}: 4 written of 5 that were read (1 cannot be used)\n"
    assert "left out: some.ggf: line 5, game 5: move 1 (a1)" in notes
    wanted = read_games(some, on_error=lambda error: None)
    found = read_games(out)
    assert [game.moves for game in found] == [game.moves for game in wanted]
    if suffix != ".txt":
        assert [(game.black, game.date) for game in found] == [(game.black, game.date) for game in wanted]


def test_several_files_of_several_formats(play, tmp_path):
    (tmp_path / "a.wtb").write_bytes(wthor([wthor_game(LOGISTELLO, 33, theoretical=31)], depth=20))
    (tmp_path / "b.txt").write_text(f"{FINISHED}\n")
    (tmp_path / "c.obf").write_text(f"{Position.start().to_text()}; F5:+0;\n")
    out = tmp_path / "all.ggf"
    assert play("convert", tmp_path / "a.wtb", tmp_path / "b.txt", tmp_path / "c.obf", out)[0] == 0
    first, second, third = read_games(out)
    assert (first.result, first.theoretical_result, first.theoretical_empties) == (2, -2, 20)
    assert (second.result, second.theoretical_result) == (44, None)
    assert (third.moves, third.theoretical_result, third.theoretical_empties) == ((), 0, 60)
    assert play("convert", out, tmp_path / "all.txt")[1].endswith(
        "(1 from another start, which a transcript cannot say)\n"
    )


def test_pipes(monkeypatch, capsysbinary):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(f"{FINISHED}\n".encode())))
    assert cli.main(["convert", "-", "-", "--to", "sgf"]) == 0
    out, notes = capsysbinary.readouterr()
    assert out.startswith(b"(;FF[4]GM[2]")
    assert notes == b"stdout: 1 written of 1 that were read\n"
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(out)))
    assert cli.main(["convert", "-", "-", "--to", "txt"]) == 0
    assert capsysbinary.readouterr().out == f"{FINISHED}\n".encode()


def test_positions_of_games(play, some, tmp_path):
    out = tmp_path / "out.obf"
    assert play("convert", some, out, "--by", "KEYANO")[0] == 0
    entries = read_obf(out)
    assert len(entries) == 60
    assert [entry.position.empties for entry in entries] == list(range(60, 0, -1))
    assert not any(entry.scores for entry in entries)


def test_an_exact_result_that_is_none(tmp_path):
    (tmp_path / "bad.ggf").write_text("(;GM[Othello]TH[61 +2]B[f5];)\n")
    with pytest.raises(RecordError, match=r"TH '61 \+2' is not empties"):
        read_games(tmp_path / "bad.ggf")


# --- filters ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "written", "reason"),
    [
        (["--years", "1997"], 2, "2 of other years"),
        (["--years", "1997-1998"], 3, "1 of other years"),
        (["--by", "ann"], 2, "2 of other players"),
        (["--by", "keyano", "--by", "dan"], 2, "2 of other players"),
        (["--complete"], 3, "1 not played to the end"),
        (["--result", "black"], 3, "1 with another result"),
        (["--distinct"], 3, "1 there already"),
    ],
)
def test_filters(play, some, tmp_path, words, written, reason):
    code, out, _ = play("convert", some, tmp_path / "out.ggf", *words)
    assert code == 0
    assert f": {written} written of 5 that were read (1 cannot be used; {reason})" in out
    assert len(read_games(tmp_path / "out.ggf")) == written


@quick
@given(any_games(), symmetry_numbers)
def test_a_game_and_its_images_are_the_same(game, k):
    moves = tuple(PASS if move == PASS else SYMMETRIES[k][move] for move in game.moves)
    assert symmetric_key(Game(start=game.start.transform(k), moves=moves)) == symmetric_key(game)
    if game.moves:
        assert symmetric_key(Game(start=game.start, moves=game.moves[:-1])) != symmetric_key(game)


def test_json(play, some, tmp_path):
    code, out, _ = play("convert", some, tmp_path / "out.ggf", "--json", "--complete", "--distinct")
    found = json.loads(out)
    assert (code, found["read"], found["bad"], found["written"]) == (0, 5, 1, 2)
    assert found["left_out"] == {"not played to the end": 1, "there already": 1}
    assert found["correct"] is None


# --- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["some.ggf"], 2, "say where the games of 'some.ggf' go"),
        (["none.ggf", "out.ggf"], 2, "there is no file 'none.ggf'"),
        (["some.ggf", "out.wtb"], 2, "'out.wtb': files of WTHOR are read, not written; .ggf, .sgf, .txt, .obf are"),
        (["some.ggf", "out.xyz"], 2, "say with --to what 'out.xyz' is to be: ggf, sgf, txt, obf"),
        (["some.ggf", "-"], 2, "say with --to what stdout is to be"),
        (["some.ggf", "some.ggf"], 2, "'some.ggf' is read; write to another file"),
        (["some.ggf", "no/out.ggf"], 2, "there is no folder 'no'"),
        (["some.ggf", "-", "--to", "ggf", "--json"], 2, "so --json cannot"),
        (["some.ggf", "out.ggf", "--years", "97"], 2, "--years '97' is no year such as 1997"),
        (["some.ggf", "out.ggf", "--years", "1999-1998"], 2, "no span such as 1990-1999"),
        (["some.ggf", "out.ggf", "--cut"], 2, "say --correct N, too"),
        (["some.ggf", "out.ggf", "--picture", "a.svg"], 2, "--picture draws --statistics"),
        (["some.ggf", "--statistics", "--correct", "12"], 2, "--correct means nothing: convert them first"),
        (["some.ggf", "out.ggf", "--correct", "31"], 2, "--correct"),
        (["some.ggf", "out.ggf", "--years", "1901"], 1, "there are no games left of 5 that were read"),
        (["some.ggf", "out.ggf", "--strict"], 2, "some.ggf: line 5, game 5: move 1 (a1)"),
        ([".", "out.ggf"], 2, "'.' cannot be read: "),
    ],
)
def test_mistakes_are_told_in_a_line(play, some, tmp_path, monkeypatch, words, code, message):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    found, out, notes = play("convert", *words)
    assert (found, out) == (code, "")
    last = notes.splitlines()[-1]
    assert message in last
    assert "Traceback" not in notes
    assert sorted(tmp_path.iterdir()) == before


# --- the solver ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("empties", [0, 6, 8])
def test_corrected_results_are_those_of_plain_negamax(empties):
    games = random_games(8, seed=3)
    solutions = Solutions()
    for _ in solve_all(unsolved(games, empties, solutions), solutions, Mobility(), 2):
        pass
    for game in games:
        point = next((p for p in game.positions() if p.empties <= empties), game.final)
        score = rules.solve(point.mover, point.opponent)
        found = corrected(game, empties, solutions)
        assert found is not None
        assert found.theoretical_result == (score if point.black_to_move else -score)
        assert found.theoretical_empties == point.empties
        assert (found.moves, found.result) == (game.moves, game.result)
        cut = cut_short(found)
        assert (cut.result, cut.final.empties) == (found.theoretical_result, point.empties)


def test_what_is_followed():
    game = random_games(1, seed=9)[0]
    assert point_of(game, 60) == game.start
    assert point_of(Game(moves=game.moves[:20]), 30) is None
    assert point_of(Game(moves=game.moves[:20]), 45).empties == 45
    over_early = parse_transcripts("e6f4e3f6g5d6e7f5c5")[0]
    assert over_early.final.is_over
    assert point_of(over_early, 20) == over_early.final
    assert corrected(over_early, 20, Solutions()).theoretical_result == 64


def test_correct(play, some, tmp_path):
    out = tmp_path / "out.ggf"
    code, said, _ = play("convert", some, out, "--correct", 8, "--jobs", 2)
    assert code == 0
    assert "3 games solved from 8 empties on; " in said
    assert "1 games stopped before that and stay as they are" in said
    assert not (tmp_path / "out.ggf.solved").exists()
    games = read_games(out)
    assert [game.theoretical_empties for game in games] == [8, 8, 8, None]
    assert games[0].theoretical_result == games[1].theoretical_result  # images of each other
    point = games[2].positions()[52]
    assert games[2].theoretical_result == rules.solve(point.mover, point.opponent) * (1 if point.black_to_move else -1)
    # Once more, for programs that know nothing of it, and as positions.
    assert play("convert", out, tmp_path / "cut.txt", "--correct", 8, "--cut", "--complete")[0] == 0
    assert [game.final.empties for game in read_games(tmp_path / "cut.txt")] == [8, 8, 8]
    found = json.loads(play("convert", out, tmp_path / "out.obf", "--correct", 8, "--json")[1])["correct"]
    assert (found["games"], found["solved"], found["too_short"], found["listed_otherwise"]) == (3, 2, 1, 0)
    for entry in read_obf(tmp_path / "out.obf"):
        [move] = entry.best_moves
        after = entry.position.play(move)
        assert entry.best_score == -rules.solve(after.mover, after.opponent)


def test_what_is_known_is_not_solved_again(play, some, tmp_path):
    journal = tmp_path / "out.ggf.solved"
    games = read_games(some, on_error=lambda error: None)
    with Solutions(journal) as solutions:
        [first, *_] = unsolved(games, 10, solutions)
        solutions.add(first, 64, first.legal_moves[0])  # which is not true, and shows where it came from
    with journal.open("ab") as file:
        file.write(b'{"position": "cut of')
    code, _, notes = play("convert", some, tmp_path / "out.ggf", "--correct", 10)
    assert code == 0
    assert "1 positions were solved already" in notes
    assert abs(read_games(tmp_path / "out.ggf")[0].theoretical_result) == 64


def test_journals_that_cannot_be_used(tmp_path):
    path = tmp_path / "a.solved"
    with Solutions(path) as first:
        first.add(Position.start(), 0, Position.start().legal_moves[0])
        with pytest.raises(SolutionsError, match="is in use"):
            Solutions(path)
    text = path.read_text()
    for wrong, message in (
        ("not ours\n", "no journal of solved positions"),
        (text.replace('"score": 0', '"score": 65'), "line 2 is no solved position"),
        (text.replace('"move": "', '"move": "a1'), "line 2 is no solved position"),
        ("not ours", "no journal of solved positions"),
    ):
        path.write_text(wrong)
        with pytest.raises(SolutionsError, match=message):
            Solutions(path)
        assert path.read_text() == wrong


def test_a_solution_serves_all_images():
    position = Position.parse(FINISHED[:90])
    solutions = Solutions()
    solutions.add(position, 4, position.legal_moves[0])
    for k, image in enumerate(position.symmetries()):
        assert solutions.get(image).score == 4
        assert solutions.get(image).move == SYMMETRIES[k][position.legal_moves[0]]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kill -9 is of POSIX")
def test_killed_in_the_middle(tmp_path):
    write_games(tmp_path / "in.ggf", random_games(60, seed=1))
    words = [sys.executable, str(ROOT / "play.py"), "convert", "in.ggf", "out.ggf", "--correct", "16"]
    journal = tmp_path / "out.ggf.solved"
    first = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.DEVNULL)
    limit = time.monotonic() + HANG_SECONDS
    while not (journal.exists() and journal.read_bytes().count(b"\n") > 3) and time.monotonic() < limit:
        time.sleep(0.01)
    first.kill()
    first.wait()
    known = journal.read_bytes().count(b"\n") - 1
    assert known >= 3
    assert not (tmp_path / "out.ggf").exists()
    second = subprocess.run([*words, "--json"], cwd=tmp_path, capture_output=True, timeout=HANG_SECONDS, check=True)
    found = json.loads(second.stdout)["correct"]
    assert (found["known"], found["games"]) == (known, 60)
    assert found["solved"] <= 60 - known
    assert not journal.exists()
    assert len(read_games(tmp_path / "out.ggf")) == 60


# --- statistics ------------------------------------------------------------------------------------------------------


def test_positions_are_replayed():
    games = random_games(5, seed=2)
    found = replayed(games)
    plain = [
        (position.mover, position.opponent, position.black_to_move, number)
        for number, game in enumerate(games)
        for position in game.positions()
        if position.legal_mask or position == game.final
    ]
    columns = found.movers, found.opponents, found.black_to_move, found.games
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == plain
    assert found.last.sum() == 5


def test_figures_of_a_game_are_its_own():
    [game] = parse_transcripts(FINISHED)
    found = statistics_of([game])
    for position in (p for p in game.positions() if p.legal_mask):
        made = 60 - position.empties
        assert found.means["moves"][made] == len(position.legal_moves)
        assert found.means["black_discs"][made] == position.black_discs
        assert found.means["lead"][made] == abs(position.black_discs - position.white_discs)
        assert found.means["white_moves"][made] == rules.legal_mask(position.white, position.black).bit_count()
    assert found.means["black_stable"][0] == 0
    assert found.means["black_stable"][59] == 53  # in the end none can be taken
    figures = found.as_dict()
    assert (figures["mean_moves"], figures["mean_passes"], figures["black_wins"]) == (59, 2, 1)
    assert (figures["mean_margin"], figures["margins"]["48"], figures["margins"]["40"]) == (44, 1, 0)
    assert figures["curves"]["moves"][60] is None


def test_figures_of_several_are_means():
    games = random_games(30, seed=4)
    whole, each = statistics_of(games), [statistics_of([game]) for game in games]
    for name in ("moves", "white_discs", "white_stable"):
        for made in (0, 17, 40, 55):
            values = [one.means[name][made] for one in each if one.positions[made]]
            assert whole.means[name][made] == pytest.approx(np.nanmean(values))
            assert whole.spreads[name][made] == pytest.approx(np.nanstd(values), abs=1e-6)
    assert whole.points[0] == pytest.approx(3.5)  # four moves, then three
    assert sum(whole.openings.values()) == 30
    assert sum(whole.histogram.values()) == 30
    assert statistics_of(parse_transcripts("f5d6\nc4c3\nd3c5\ne6f6\nf5f4")).openings == {
        "perpendicular": 1 + 1,
        "diagonal": 1 + 1,
        "parallel": 1,
    }


def test_statistics(play, some, tmp_path):
    picture = tmp_path / "some.svg"
    code, out, _ = play("convert", some, "--statistics", "--picture", picture)
    assert code == 0
    assert out.startswith("4 games, 3 of them played to the end: ")
    assert "black wins 3 (100.0%), draws 0 (0.0%), white wins 0 (0.0%)" in out
    rows = [line.split() for line in out.splitlines()[-13:]]
    assert rows[0][:3] == ["0", "4", "4.0"]
    assert [len(row) for row in rows] == [10] * len(rows)
    tree = ElementTree.fromstring(picture.read_text(encoding="utf-8"))
    assert len(tree.findall("{http://www.w3.org/2000/svg}polyline")) == 8
    found = json.loads(play("convert", some, some, "--statistics", "--json")[1])
    assert (found["games"], len(found["curves"]["lead"])) == (8, 61)


def test_statistics_of_exact_results(play, some, tmp_path):
    play("convert", some, tmp_path / "out.sgf", "--correct", 8)
    code, out, _ = play("convert", tmp_path / "out.sgf", "--statistics")
    assert code == 0
    assert "solved 3: " in out
