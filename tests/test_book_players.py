"""The opening book from outside: the command, players, NBoard's ``learn``."""

import json
import random

import pytest

from othello_nn import resources
from othello_nn.arena.journal import Journal, is_journal, read_journal
from othello_nn.arena.openings import leouski60
from othello_nn.arena.tournament import play_tournament
from othello_nn.book import Book, OpenBook
from othello_nn.cli import main as cli
from othello_nn.game import Position
from othello_nn.game.formats.files import write_games
from othello_nn.players import make_player
from othello_nn.players.base import PlayerError, PlayerStopped
from othello_nn.players.judge import PlayerJudge
from tests.strategies import FINISHED
from tests.test_engine_protocols import nboard

JUDGE = ("--player", "swh:depth=2")


@pytest.fixture
def play(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> tuple[int, str, str]:
        code = cli.main(["book", *words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_a_book_is_built_added_to_and_shown(play, tmp_path):
    assert play("build", "--leaves", "20", *JUDGE)[:2] == (0, "opening.book: 20 positions, 20 of them new\n")
    code, out, _ = play("add", FINISHED, *JUDGE, "--discs", "12")
    assert (code, out.split(":")[0]) == (0, "opening.book")
    with_game = int(out.split()[1])
    assert 20 < with_game <= 29
    assert play("add", FINISHED, *JUDGE, "--discs", "12")[1].endswith(f"{with_game} positions, 0 of them new\n")
    code, out, _ = play("show", "e6", "--check")
    assert code == 0
    assert "in the book" in out
    assert out.endswith(f"opening.book: {with_game} positions, sound\n")
    code, out, _ = play("show", "--json")
    shown = json.loads(out)
    assert (shown["positions"], len(shown["moves"])) == (with_game, 4)
    assert play("show", FINISHED[:60])[1].startswith("this position is not in the book\n")
    assert play("build", "--replies", "6", "--games", "2", "--discs", "10", *JUDGE)[0] == 0


def test_games_come_from_files_and_journals(play, tmp_path):
    openings, settings = leouski60()[:2], {"test": 1}
    with Journal(tmp_path / "games.jsonl", settings) as journal:
        result = play_tournament(["random", "most-discs"], openings, journal=journal)
    games = read_journal(tmp_path / "games.jsonl")
    assert is_journal(tmp_path / "games.jsonl")
    assert len(games) == len(result.played) > 0
    with (tmp_path / "games.jsonl").open("ab") as file:
        file.write(b'{"cut off')
    assert len(read_journal(tmp_path / "games.jsonl")) == len(games)
    write_games(tmp_path / "games.ggf", games)
    assert not is_journal(tmp_path / "games.ggf")
    first = play("add", "games.jsonl", *JUDGE, "--discs", "10", "--book", "a.book")[1]
    second = play("add", "games.ggf", *JUDGE, "--discs", "10", "--book", "b.book")[1]
    assert first.replace("a.book", "b.book") == second


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("build",), "say how the book is to grow"),
        (("show",), "there is no book 'opening.book'"),
        (("play",), "there is no book 'opening.book'"),
        (("add", "f5f5"), "'f5f5' is neither a file nor a game: line 1: move 2 (f5)"),
        (("add", "none.ggf"), "'none.ggf' is neither a file nor a game"),
        (("build", "--leaves", "1", "--player", "random"), "random does not say what positions are worth"),
        (("show", "--book", "text.book"), "no opening book"),
        (("burn",), "invalid choice"),
    ],
)
def test_mistakes_are_one_line(play, tmp_path, words, message):
    (tmp_path / "text.book").write_text("f5d6\n" * 300)
    code, out, err = play(*words)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


@pytest.fixture
def book(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cli.main(["book", "build", "--leaves", "30", *JUDGE])
    return tmp_path / "opening.book"


def test_a_player_answers_from_its_book(book):
    player, position = make_player("swh:depth=2,book=on"), Position.parse("f5")
    choice = player.choose(position)
    answers = OpenBook(book)
    assert (choice.move, choice.score) == (answers.best(position).move, answers.best(position).value)
    assert (choice.nodes, player.varies) == (0, False)
    outside = Position.parse(FINISHED[:60])
    assert player.choose(outside).move == make_player("swh:depth=2").choose(outside).move
    assert make_player("swh:depth=2,book=off").choose(position).nodes > 0
    player.close()
    varied = make_player(f"swh:depth=2,book={book},margin=64", random.Random(1))
    assert varied.varies
    assert {varied.choose(position).move for _ in range(40)} == {one.move for one in answers.moves(position)}
    varied.close()
    answers.close()


@pytest.fixture(autouse=True)
def no_book_of_the_program(tmp_path_factory, monkeypatch):
    monkeypatch.setattr(resources, "CHECKPOINTS", tmp_path_factory.mktemp("checkpoints"))


def test_without_one_of_the_users_own_it_is_that_of_the_program(book):
    shipped = resources.CHECKPOINTS / "opening.book"
    book.rename(shipped)
    assert cli.main(["book", "show"]) == 0
    player = make_player("swh:depth=2,book=on")
    assert player.choose(Position.start()).nodes == 0
    player.close()
    size = shipped.stat().st_size
    nboard("move F5", "move F6", "move E6", "move F4", "move E3", "learn", player="swh:depth=2,book=on")
    assert (shipped.stat().st_size, book.exists()) == (size, True)
    answers = OpenBook(book)
    assert answers.best(Position.parse("f5f6e6f4e3")) is not None
    answers.close()


def test_a_book_that_is_not_there_is_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"there is no book 'opening\.book'"):
        make_player("swh:depth=2,book=on")
    with pytest.raises(PlayerError, match="has no key 'book'"):
        make_player("random:book=on")


def test_learn_adds_the_game(book, capsys):
    before = OpenBook(book)
    position = Position.parse("f5f6e6f4e3")
    assert before.best(position) is None
    moves = [f"move {move}" for move in ("F5", "F6", "E6", "F4", "E3")]
    said = nboard(*moves, "learn", player="swh:depth=2,book=on")
    assert said == ["status learning the game", "learned", "status waiting"]
    assert before.best(position) is not None
    before.close()
    assert nboard("learn", player="swh:depth=2") == ["learned"]


def test_what_a_player_finds_in_a_hurry_is_not_kept(tmp_path):
    judge = PlayerJudge(make_player("swh:depth=2"), lambda: True)
    with Book(tmp_path / "a.book", judge) as book:
        with pytest.raises(PlayerStopped):
            book.add([Position.start()])
        assert len(book.store) == 0


def test_a_judge_thinks_for_itself(book):
    player = make_player("swh:depth=3,book=on")
    found = PlayerJudge(player)(Position.start())
    plain = make_player("swh:depth=3").choose(Position.start())
    assert (found.move, found.value, found.depth) == (plain.move, plain.score, 3)
    some = PlayerJudge(player)(Position.parse("f5"), Position.parse("f5").legal_moves[:2])
    assert some.move in Position.parse("f5").legal_moves[:2]
    assert player.limit.depth == 3
    assert player.book is not None
    player.close()
