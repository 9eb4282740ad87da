"""Game records: the Game class, GGF, SGF, OBF and transcripts, whole and damaged. WTHOR: `test_wthor.py`."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import FINISHED, games, plain_games, positions, quick

from othello_nn.game import PASS, IllegalMoveError, Position, format_transcript, parse_transcript
from othello_nn.game.formats.files import (
    Game,
    MoveNote,
    ObfEntry,
    RecordError,
    format_ggf,
    format_obf,
    format_sgf,
    format_transcripts,
    parse_ggf,
    parse_obf,
    parse_sgf,
    parse_transcripts,
    read_games,
    read_obf,
    write_games,
)

START_BOARD = "---------------------------OX------XO---------------------------"
GGF_BOARD = "BO[8 -------- -------- -------- ---O*--- ---*O--- -------- -------- -------- *]"


def finished(**fields) -> Game:
    return Game(moves=tuple(parse_transcript(FINISHED)), **fields)


# The Game class.


def test_game_is_replayed_when_made():
    game = finished(black="Ann")
    assert game.moves.count(PASS) == 2
    assert game.final.is_over
    assert game.result == 44  # filled in
    assert len(game.positions()) == len(game.moves) + 1
    assert game.positions()[-1] == game.final
    assert dataclasses.replace(game, white="Bob").white == "Bob"
    with pytest.raises(IllegalMoveError, match=r"move 1 \(a1\)"):
        Game(moves=(0,))
    with pytest.raises(IllegalMoveError, match="no legal move: pass"):
        Game(moves=tuple(move for move in game.moves if move != PASS))
    left_out = Game(moves=tuple(move for move in game.moves if move != PASS), passes_left_out=True)
    assert left_out.moves == game.moves


def test_result_of_a_finished_game_must_fit_the_board():
    assert finished(result=44).result == 44
    assert finished(result=43).result == 44  # the discs counted without the empty square
    with pytest.raises(RecordError, match=r"says \+12 for black, but the moves end the game with \+44 .53 black, 10"):
        finished(result=12)
    with pytest.raises(RecordError, match="end the game"):
        finished(result=12, ending="agreed")
    assert finished(result=-64, ending="time").result == -64
    assert Game(moves=(37,), result=12).result == 12  # adjudicated
    assert Game(moves=(37,)).result is None
    with pytest.raises(RecordError, match="impossible"):
        Game(result=65)
    with pytest.raises(RecordError, match="ending 'bored' is not one of"):
        Game(ending="bored")


def test_notes_belong_to_moves():
    assert Game(moves=(37, 43), notes=(MoveNote(1.5), None)).notes == (MoveNote(1.5), None)
    assert Game(moves=(37,), notes=(MoveNote(),)).notes == ()
    with pytest.raises(RecordError, match="1 notes for 2 moves"):
        Game(moves=(37, 43), notes=(MoveNote(1.5),))
    for value in (float("nan"), float("inf"), 1e12):
        with pytest.raises(RecordError, match="seconds is"):
            MoveNote(seconds=value)


# GGF.


def test_ggf_as_servers_write_it():
    text = f"""2
        (;GM[Othello]PC[GGS/os]DT[2003.12.15_13:24:03.MST]PB[Ann]PW[Bob]RB[2197.01]RW[2199.72]TI[05:00//02:00]TY[8]
        RE[+3.000:r]{GGF_BOARD}B[d3//0.01]W[c5/2.39/0.01]B[E6/-1];)
        (;gm[othello]PB[x]PW[y]TB[1:00]TW[2:00]TY[s8r18]RE[?]
        BO[8
        ---------------------------O*------*O--------------------------- * ] ;)"""
    first, second = parse_ggf(text)
    assert (first.place, first.date, first.black, first.white) == ("GGS/os", "2003.12.15_13:24:03.MST", "Ann", "Bob")
    assert (first.black_rating, first.white_rating) == (2197.01, 2199.72)
    assert (first.black_clock, first.white_clock, first.variant) == ("05:00//02:00", "05:00//02:00", "")
    assert (first.result, first.ending) == (3, "resigned")
    assert first.moves == (19, 34, 44)
    assert first.notes == (MoveNote(None, 0.01), MoveNote(2.39, 0.01), MoveNote(-1.0))
    assert (second.result, second.moves, second.variant) == (None, (), "s8r18")
    assert (second.black_clock, second.white_clock) == ("1:00", "2:00")


@pytest.mark.parametrize("written", ["B[PA]", "b[pass//1.5]", "B[pa]", "B[--]", ""])
def test_ggf_passes(written):
    moves = parse_transcript("e6f6d3e7e8d8g6f8e3")
    text = format_ggf([Game(moves=tuple(moves))])
    assert text.count("B[PA]") == 1
    assert parse_ggf(text.replace("B[PA]", written))[0].moves == tuple(moves)


def test_ggf_without_board_or_result_starts_as_usual():
    assert parse_ggf("(;GM[Othello]B[f5];)")[0] == Game(moves=(37,))


def test_ggf_results_of_anti_and_komi_games_are_not_margins():
    text = format_ggf([finished()])
    assert "RE[+44.000]" in text
    for variant in ("8a", "8k"):
        game = parse_ggf(text.replace("TY[8]", f"TY[{variant}]").replace("RE[+44.000]", "RE[-12.500]"))[0]
        assert (game.result, game.variant) == (44, variant)


@quick
@given(st.lists(games(), max_size=3))
def test_ggf_reads_back(many):
    text = format_ggf(many)
    assert text.count("\n") == len(many)
    assert parse_ggf(text) == many
    assert parse_ggf(f"{len(many)}\n{text}") == many


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(;GM[Othello]B[a1];)", r"line 1, game 1: move 1 \(a1\): a1 flips nothing"),
        ("(;GM[Othello]W[f5];)", r"line 1, game 1: move 1 \(pass\): passing is not allowed"),
        ("(;GM[Othello]B[z9];)", "game 1: 'z9' is not a square"),
        ("(;GM[Othello]B[f5/x];)", "'x' is not a number"),
        ("(;GM[Othello]B[f5/1/2/3];)", "too many parts"),
        ("(;GM[Othello]\n\nB[f5]", "line 1, game 1: this game has no end"),
        ("(;GM[Othello];)\n(;GM[Othello]PB[x", "line 2, game 2: the value of 'PB' has no closing"),
        ("(;GM[Othello]PB;)", "'PB' has no value"),
        ("(;GM[Othello]PB[a]PB[b];)", "PB .line 1. is given more than once"),
        ("(;GM[Amazons];)", "not a GGF game of Othello: GM is 'Amazons'"),
        ("(;PB[x];)", "not a GGF game"),
        ("(GM[Othello];)", "property GM without a ';'"),
        ("(;GM[Othello]BO[10 -- *];)", "size 10"),
        ("(;GM[Othello]BO[---];)", "size of the board"),
        (f"(;GM[Othello]BO[8 {START_BOARD}];)", "BO, after the size: the side to move is missing"),
        ("(;GM[Othello]RE[+12.5];)", "not a whole number"),
        ("(;GM[Othello]RE[+12:x];)", "not a result"),
        ("(;GM[Othello]RE[99];)", "99 discs is impossible"),
        ("2 (;GM[Othello];)", "line 1: 2 games are announced, but 1 follow"),
        ("1 (;GM[Othello];)\n(;GM[Othello];)", "line 1: 1 games are announced, but 2 follow"),
        ("2 (;GM[Othello];)\n1 (;GM[Othello];)", "line 1: 2 games are announced, but 1 follow"),
        ("3", "3 games are announced, but none follows"),
        ("(;GM[Othello];) junk", "line 1: 'junk' stands where a game should start"),
        ("(;GM[Othello]%;)", "'%;.' is no property"),
    ],
)
def test_ggf_errors_name_the_place(text, message):
    with pytest.raises(RecordError, match=message) as caught:
        parse_ggf(text)
    assert caught.value.line is not None


def test_ggf_contradicting_result():
    text = format_ggf([Game(), finished()])
    assert parse_ggf(text.replace("+44.000", "-64.000:t"))[1].result == -64
    with pytest.raises(RecordError, match=r"line 2, game 2: the result says \+12"):
        parse_ggf(text.replace("+44.000", "+12.000"))


def test_games_that_cannot_be_used_can_be_left_out():
    errors: list[RecordError] = []
    text = "(;GM[Othello]BO[10 ---- *];)\n(;GM[Othello]B[f5];)\n(;GM[Othello]B[a1];)\n"
    assert parse_ggf(text, errors.append) == [Game(moves=(37,))]
    assert [error.line for error in errors] == [1, 3]
    with pytest.raises(RecordError, match="no end"):  # this is no longer one game of many
        parse_ggf(text + "(;GM[Othello]", errors.append)


# SGF.


def test_sgf_as_others_write_it():
    text = r"""(;FF[4]GaMe[2]SZ[8]PB[Ann \] \\ B]PW[Bo\
b]RE[B+Resign]BR[5d]WR[1800]TM[300]C[a ( comment ; with signs \] in it]
    ;B[f5]V[-2];W[df](;B[C3];W[d3])(;B[c4];W[e3]))"""
    (game,) = parse_sgf(text)
    assert (game.black, game.white) == ("Ann ] \\ B", "Bob")
    assert (game.result, game.ending) == (64, "resigned")
    assert (game.black_rating, game.white_rating) == (None, 1800)
    assert (game.black_clock, game.white_clock) == ("300", "300")
    assert format_transcript(game.moves) == "f5d6c3d3"  # the first of the two variations
    assert game.notes == (MoveNote(-2.0), None, None, None)


@pytest.mark.parametrize("written", ["B[PA]", "B[]", "B[tt]", "B[pass]"])
def test_sgf_passes(written):
    moves = parse_transcript("e6f6d3e7e8d8g6f8e3")
    text = format_sgf([Game(moves=tuple(moves))])
    assert parse_sgf(text.replace("B[PA]", written))[0].moves == tuple(moves)
    assert parse_sgf(text.replace(";B[PA]", ""))[0].moves == tuple(moves)


def test_a_forfeit_keeps_its_reason():
    game = Game(moves=(37, 43), result=-64, ending="forfeit", comment="no answer within 5 seconds]")
    assert parse_sgf(format_sgf([game])) == [game]
    assert parse_ggf(format_ggf([game])) == [dataclasses.replace(game, ending="resigned")]


def in_sgf(game: Game) -> Game:
    """What is left of a game in SGF."""
    result, ending = game.result, game.ending
    if ending in ("resigned", "time"):
        result = 64 if (result or 0) > 0 else -64
    if ending == "agreed":
        ending = ""
    if game.ending in ("resigned", "time") and not game.result:
        result, ending = None, ""
    clock = game.black_clock if game.black_clock == game.white_clock else ""
    return dataclasses.replace(
        game,
        result=result,
        ending=ending,
        black_clock=clock,
        white_clock=clock,
        variant="",
        notes=tuple(note and MoveNote(note.score_discs) for note in game.notes),
    )


@quick
@given(st.lists(games(), max_size=3))
def test_sgf_reads_back(many):
    text = format_sgf(many)
    assert text.count("\n") == len(many)
    assert parse_sgf(text) == [in_sgf(game) for game in many]


@quick
@given(positions(), st.booleans())
def test_sgf_keeps_any_start(position, hollow):
    start = position
    if hollow:  # d4 and e4 empty: no game gets there, a setup may
        start = Position(start.mover & ~(3 << 27), start.opponent & ~(3 << 27), start.black_to_move)
    assert parse_sgf(format_sgf([Game(start=start)])) == [Game(start=start)]


def test_sgf_setup_forms():
    board = ["--------", "--------", "--XXX---", "--XXX---", "--XXO---", "--------", "--------", "--------"]
    setup = "AB[c3:e4][ce:de]AW[e5]"
    assert parse_sgf(f"(;GM[2]{setup}PL[white])")[0].start == Position.parse("".join(board) + " O")
    assert parse_sgf(f"(;GM[2]{setup};B[f6])")[0].start == Position.parse("".join(board) + " X")
    assert parse_sgf(f"(;GM[2]{setup};W[b2])")[0].start == Position.parse("".join(board) + " O")
    assert parse_sgf("(;GM[2]PL[W];W[e3])")[0].start == Position.parse(START_BOARD + " O")
    with pytest.raises(RecordError, match="both sides have a disc on c3, d3, c4, d4"):
        parse_sgf("(;GM[2]AB[c3:e5]AW[cc:dd])")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(;GM[1];B[dd])", "not an SGF game of Othello: GM is '1'"),
        ("(;GM[2]SZ[10])", "size '10'"),
        ("7 (;GM[2])", "no game count"),
        ("(;GM[2];B[f5];W[a1])", r"game 1: move 2 \(a1\)"),
        ("(;GM[2];B[f5]\n;W[q7])", r"W \(line 2\): 'q7' is not a square"),
        ("(;GM[2];B[f5][f6])", "has 2 values"),
        ("(;GM[2];B[f5];AB[a1])", "changes the board after the first move"),
        ("(;GM[2]AB[d4])", "must give each of d4, e4, d5 and e5"),
        ("(;GM[2]AB[d4:e5]AE[d4])", "no square twice"),
        ("(;GM[2]AB[e5:d4])", "does not go from top left"),
        ("(;GM[2]AB[a1:b2:c3])", "not a square or a rectangle"),
        ("(;GM[2]PL[X])", "PL 'X' is no side"),
        ("(;GM[2]RE[33-31])", "RE '33-31' is not a result"),
        ("(;GM[2]RE[B+1.5])", "not a result"),
        ("(;GM[2](;B[f5]);W[f6])", "after the end of a variation"),
        ("(;GM[2];B[f5]", "no end"),
        ("(;GM[2]))", "stands where a game should start"),
        ("hello", "line 1: 'hello' stands where"),
    ],
)
def test_sgf_errors_name_the_place(text, message):
    with pytest.raises(RecordError, match=message):
        parse_sgf(text)


def test_sgf_results():
    text = format_sgf([finished()])
    assert "RE[B+44]" in text
    for written, result, ending in [
        ("B+43", 44, ""),
        ("W+T", -64, "time"),
        ("w+forfeit", -64, "forfeit"),
        ("?", 44, ""),
        ("B+", 44, ""),
        ("Void", 44, ""),
    ]:
        (game,) = parse_sgf(text.replace("B+44", written))
        assert (game.result, game.ending) == (result, ending)
    for written in ("0", "Draw", "W+44", "B+12"):
        with pytest.raises(RecordError, match="the result says"):
            parse_sgf(text.replace("B+44", written))


# OBF.


def test_obf_as_suites_write_it():
    text = f"""% a suite
{START_BOARD} X; F5:+0; d3:0; C4:-2;   % made up

{START_BOARD.replace("X", "*")} *;
{Position.parse("e6f6d3e7e8d8g6f8").to_text()}; PS:+4;
"""
    first, second, third = parse_obf(text)
    assert first == ObfEntry(Position.start(), {37: 0, 19: 0, 26: -2})
    assert (first.best_score, first.best_moves) == (0, {37, 19})
    assert (second.scores, second.best_score, second.best_moves) == ({}, None, frozenset())
    assert third.scores == {PASS: 4}
    assert format_obf([first, third]).splitlines()[0] == f"{START_BOARD} X; D3:+0; F5:+0; C4:-2;"


@quick
@given(st.lists(st.tuples(positions(), st.lists(st.integers(-64, 64), max_size=20)), max_size=4))
def test_obf_reads_back(drawn):
    entries = []
    for position, scores in drawn:
        moves = position.legal_moves or ((PASS,) if position.must_pass else ())
        entries.append(ObfEntry(position, dict(zip(moves, scores, strict=False))))
    assert parse_obf(format_obf(entries)) == entries


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ("A1:+2;", "line 2: a1 flips nothing"),
        ("F5:+2; F5:+4;", "line 2: f5 is listed twice"),
        ("F5;", "line 2: 'F5' is not a move with its score"),
        ("F5:+200;", "line 2: f5 cannot score 200"),
        ("Z9:+2;", "line 2: 'z9' is not a square"),
        ("PS:+2;", "line 2: passing is not allowed"),
    ],
)
def test_obf_errors_name_the_line(scores, message):
    with pytest.raises(RecordError, match=message) as caught:
        parse_obf(f"% comment\n{START_BOARD} X; {scores}\n")
    assert caught.value.line == 2
    errors: list[RecordError] = []
    assert len(parse_obf(f"{START_BOARD} X;\n{START_BOARD} X; {scores}\n", errors.append)) == 1
    assert len(errors) == 1


# Files.


def test_read_games_tells_formats_by_content(tmp_path):
    game = Game(moves=(37, 43), black="Zoé")
    contents = {
        "ggf": format_ggf([game]).encode(),
        "counted": b"1\n" + format_ggf([game]).encode("latin-1"),
        "sgf": b"\xef\xbb\xbf" + format_sgf([game]).replace(";", "\r\n;").encode(),
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        assert read_games(tmp_path / name) == [game]
    (tmp_path / "lines").write_bytes(b"# openings\r\nf5d6\r\n\r\n% more\n1. F5 d6\n")
    assert read_games(str(tmp_path / "lines")) == [Game(moves=(37, 43))] * 2
    (tmp_path / "empty.sgf").write_bytes(b"")
    assert read_games(tmp_path / "empty.sgf") == []


def test_read_errors_name_the_file(tmp_path):
    for name, content, message in [
        ("a.ggf", b"(;GM[Othello]B[a1];)", "a.ggf: line 1, game 1: move 1"),
        ("a.wtb", b"short", "a.wtb: byte 5: the file ends"),
        ("a.txt", b"f5d6\n\nf5a1\n", "a.txt: line 3: move 2 .a1."),
        ("a.jou", b"", "a.jou holds no games: it is a list of players"),
        ("a.obf", b"", "a.obf holds no games: .* read_obf"),
    ]:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(RecordError, match=message):
            read_games(tmp_path / name)
    errors: list[RecordError] = []
    assert len(read_games(tmp_path / "a.txt", errors.append)) == 1
    assert [str(error)[:13] for error in errors] == ["a.txt: line 3"]
    (tmp_path / "b.obf").write_bytes(f"{START_BOARD} X;\nnonsense".encode())
    with pytest.raises(RecordError, match=r"b\.obf: line 2"):
        read_obf(tmp_path / "b.obf")
    with pytest.raises(FileNotFoundError):
        read_games(tmp_path / "missing.ggf")


@quick
@given(st.lists(plain_games, max_size=2))
def test_write_games_reads_back(tmp_path_factory, many):
    folder = tmp_path_factory.mktemp("games")
    write_games(folder / "a.ggf", many)
    assert read_games(folder / "a.ggf") == many
    write_games(folder / "a.SGF", many)
    assert read_games(folder / "a.SGF") == [in_sgf(game) for game in many]


def test_transcripts_read_back_and_refuse_what_they_cannot_hold(tmp_path):
    write_games(tmp_path / "a.txt", [finished(), Game(moves=(37,))])
    assert (tmp_path / "a.txt").read_text() == f"{FINISHED}\nf5\n"
    assert read_games(tmp_path / "a.txt") == [finished(), Game(moves=(37,))]
    assert parse_transcripts("") == []
    with pytest.raises(RecordError, match="game 2 does not start from the usual position"):
        format_transcripts([finished(), Game(start=Position.parse("f5"), moves=(43,))])
    with pytest.raises(RecordError, match="choose one of these endings"):
        write_games(tmp_path / "a.wtb", [])
    with pytest.raises(RecordError, match="half a character"):
        write_games(tmp_path / "b.ggf", [Game(black="\ud800")])
    assert not (tmp_path / "b.ggf").exists()
