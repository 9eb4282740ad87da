"""WTHOR files, made here byte by byte, whole and damaged."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import FINISHED, choices, play_out, quick, wthor, wthor_game, wthor_names

from othello_nn.game import PASS, format_transcript, parse_transcript
from othello_nn.game.formats.files import Game, RecordError, parse_wthor, parse_wthor_names, read_games


def test_wthor_games_and_names():
    players = parse_wthor_names(wthor_names(["nobody", "Ann", "Zoé"], 20), 20)
    tournaments = parse_wthor_names(wthor_names(["Championnat du monde 19xx!!"[:26]], 26), 26)
    assert players == ["nobody", "Ann", "Zoé"]
    data = wthor([wthor_game(FINISHED, 54, theoretical=40), wthor_game("f5d6c3", 20)])
    first, second = parse_wthor(data, players, tournaments)
    assert first == Game(
        moves=tuple(parse_transcript(FINISHED)),
        black="Ann",
        white="Zoé",
        event="Championnat du monde 19xx!",
        date="1997",
        theoretical_result=16,
        theoretical_empties=22,
    )
    assert first.moves.count(PASS) == 2
    assert (second.moves, second.result) == ((37, 43, 18), -24)  # stopped early: the score it was given
    unnamed = parse_wthor(wthor([wthor_game("f5", 32)], year=0, size=0, depth=24))[0]
    assert (unnamed.black, unnamed.white, unnamed.event) == ("player 1", "player 2", "tournament 0")
    assert (unnamed.date, unnamed.theoretical_empties) == ("", 24)


GOOD = wthor_game(FINISHED, 54)


@pytest.mark.parametrize(
    ("data", "message", "byte"),
    [
        (b"", "ends inside its 16-byte header", 0),
        (wthor([])[:15], "ends inside its 16-byte header", 15),
        (wthor([GOOD])[:-1], "announces 1 games of 68 bytes, 84 bytes in all, but the file has 83", 83),
        (wthor([GOOD]) + b"\0", "something follows the last one", 84),
        (wthor([GOOD], size=10), "size 10", 12),
        (wthor([GOOD], kind=1), "solitaires", 13),
        (wthor([GOOD, wthor_game("f5f5", 32)]), r"game 2 \(byte 84\): move 2 \(f5\): f5 is occupied", 84),
        (wthor([GOOD.replace(b"\x41", b"\x5b")]), r"game 1 \(byte 16\): move .* is 91, which is no square", 16),
        (wthor([wthor_game("f5d6", 32).replace(b"\x38", b"\0", 1)]), "move 1 is missing", 16),
        (wthor([wthor_game(FINISHED, 40)]), r"game 1 .*the result says \+16 for black, but .* \+44", 16),
        (wthor([wthor_game("f5", 65)]), "black cannot have 65 discs", 16),
        (wthor([wthor_game("f5", 32, theoretical=99)]), "black cannot have 99 discs", 16),
        (wthor([wthor_game("f5", 32, black=3)]), "player 3 is not in the list of 3 names", 16),
    ],
)
def test_wthor_errors_name_the_byte(data, message, byte):
    with pytest.raises(RecordError, match=message) as caught:
        parse_wthor(data, players=["a", "b", "c"])
    assert caught.value.byte == byte


def test_wthor_name_files_must_have_the_announced_length():
    with pytest.raises(RecordError, match="announces 1 names of 20 bytes"):
        parse_wthor_names(wthor_names(["Ann"], 20)[:-1], 20)


@quick
@given(choices(min_plies=1), st.integers(0, 64))
def test_wthor_reads_any_game(drawn, discs):
    final, moves = play_out(drawn)
    discs = (64 + final.black_score()) // 2 if final.is_over else discs
    (game,) = parse_wthor(wthor([wthor_game(format_transcript(moves), discs)]))
    while moves[-1] == PASS:
        moves.pop()
    assert game.moves == tuple(moves)
    assert game.result == 2 * discs - 64


def test_a_year_of_wthor_takes_seconds():
    data = wthor([GOOD] * 4000)
    started = time.process_time()
    assert len(parse_wthor(data)) == 4000
    assert time.process_time() - started < 6  # 0.5 s on the machine this was written on; the aim is 2


def test_read_games_finds_the_names_beside_a_wthor_file(tmp_path):
    (tmp_path / "no-ending").write_bytes(wthor([GOOD]))
    (tmp_path / "WTH_1997.wtb").write_bytes(wthor([GOOD]))
    assert read_games(tmp_path / "no-ending") == read_games(tmp_path / "WTH_1997.wtb")
    assert read_games(tmp_path / "WTH_1997.wtb")[0].black == "player 1"
    (tmp_path / "WTHOR.JOU").write_bytes(wthor_names(["nobody", "Ann", "Bob"], 20))
    (tmp_path / "WTHOR.TRN").write_bytes(wthor_names(["Cup"], 26))
    (game,) = read_games(tmp_path / "WTH_1997.wtb")
    assert (game.black, game.white, game.event) == ("Ann", "Bob", "Cup")
    (tmp_path / "WTHOR.JOU").write_bytes(b"short")
    with pytest.raises(RecordError, match=r"WTHOR\.JOU: byte 5: the file ends inside"):
        read_games(tmp_path / "WTH_1997.wtb")
