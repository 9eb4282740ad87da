"""Every parser on nonsense, cut-off input and damaged input.

Two promises: nothing but our own errors comes out, and what is accepted is a real game, every move of it legal.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import FINISHED, games, positions, quick, wthor, wthor_game, wthor_names

from othello_nn.game import OthelloError, Position, parse_board, parse_move, parse_square, parse_transcript
from othello_nn.game.formats.files import (
    Game,
    ObfEntry,
    RecordError,
    format_ggf,
    format_obf,
    format_sgf,
    parse_ggf,
    parse_obf,
    parse_sgf,
    parse_transcripts,
    parse_wthor,
    parse_wthor_names,
    read_games,
)
from othello_nn.game.rules import PASS, flips_mask, legal_mask, play


def check_game(game: Game) -> None:
    """Replay with the rules alone."""
    mover, opponent = game.start.mover, game.start.opponent
    for move in game.moves:
        if move == PASS:
            assert not legal_mask(mover, opponent)
            assert legal_mask(opponent, mover)
        else:
            assert not (mover | opponent) >> move & 1
            assert flips_mask(mover, opponent, move)
        mover, opponent = play(mover, opponent, move)
    assert (game.final.mover, game.final.opponent) == (mover, opponent)
    if game.final.is_over and game.ending in ("", "agreed"):
        assert game.result == game.final.black_score()


def check_games(found: list[Game]) -> None:
    for game in found:
        check_game(game)


def check_entries(found: list[ObfEntry]) -> None:
    for entry in found:
        for move in entry.scores:
            entry.position.play(move)


def check_position(position: Position) -> None:
    assert not position.mover & position.opponent
    assert Position.parse(position.to_text()) == position


def check_moves(moves: list[int]) -> None:
    check_game(Game(moves=tuple(moves)))


def ignore(_: object) -> None:
    pass


RECORD_PARSERS = [
    (parse_ggf, check_games),
    (parse_sgf, check_games),
    (parse_transcripts, check_games),
    (parse_obf, check_entries),
]
TEXT_PARSERS = [
    *RECORD_PARSERS,
    (Position.parse, check_position),
    (parse_board, check_position),
    (parse_transcript, check_moves),
    (parse_square, ignore),
    (parse_move, ignore),
]


def feed(parse, check, given_input, error=OthelloError) -> bool:
    """Whether the input was accepted. An exception of another kind, or a wrong game, fails the test."""
    try:
        found = parse(given_input)
    except error:
        return False
    check(found)
    return True


def damaged(original: str | bytes, draw: st.DrawFn, piece: st.SearchStrategy) -> str | bytes:
    """The original with up to three cuts, insertions, replacements, repetitions or swaps."""
    for _ in range(draw(st.integers(1, 3))):
        first, second = sorted(draw(st.tuples(*[st.integers(0, len(original))] * 2)))
        near = min(second, first + 3)
        original = draw(
            st.sampled_from(
                [
                    original[:first],
                    original[second:],
                    original[:first] + original[near:],
                    original[:first] + draw(piece) + original[first:],
                    original[:first] + draw(piece) + original[near:],
                    original[:second] + original[first:],
                    original[second:] + original[:first],
                ]
            )
        )
    return original


pieces = st.text(max_size=4) | st.sampled_from(
    [
        "]",
        "[",
        "(",
        ")",
        ";",
        "\\",
        "/",
        ":",
        "-",
        "--",
        "8",
        "B[a1]",
        "W[]",
        "AB[d4]",
        "RE[B+2]",
        "9" * 5000,
        "²",
        "\0",
    ]
)


@st.composite
def damaged_records(draw: st.DrawFn) -> str:
    write = draw(st.sampled_from([format_ggf, format_sgf, None]))
    if write is None:
        entry = ObfEntry(position := draw(positions()), dict.fromkeys(position.legal_moves, 4))
        original = format_obf([entry])
    else:
        original = write([draw(games()), Game(moves=tuple(parse_transcript(FINISHED)))])
    return damaged(original, draw, pieces)


@st.composite
def damaged_notation(draw: st.DrawFn) -> str:
    original = draw(st.sampled_from([FINISHED, "1. F5 d6 2. C3", Position.start().to_text(), "start", "f5"]))
    return damaged(original, draw, pieces)


@pytest.mark.parametrize(("parse", "check"), TEXT_PARSERS)
@quick
@given(text=st.text() | st.text("()[];:\\/+-.0123456789abcdefghABGMWXORE* \n"))
def test_random_text(parse, check, text):
    feed(parse, check, text)


@quick
@given(damaged_notation())
def test_damaged_notation(text):
    for parse, check in TEXT_PARSERS:
        feed(parse, check, text)


@quick
@given(damaged_records())
def test_damaged_records(text):
    for parse, check in RECORD_PARSERS:
        feed(parse, check, text, error=RecordError)
        errors: list[RecordError] = []
        # Leaving damaged games out must not let anything else through.
        feed(lambda text, parse=parse, errors=errors: parse(text, errors.append), check, text, error=RecordError)


@pytest.mark.parametrize(("write", "parse"), [(format_ggf, parse_ggf), (format_sgf, parse_sgf)])
def test_every_cut_of_a_record_is_noticed(write, parse):
    text = write([Game(moves=tuple(parse_transcript(FINISHED)), black="Ann")]).rstrip()
    for length in range(1, len(text)):
        assert not feed(parse, check_games, text[:length], error=RecordError), text[:length]


WTHOR_FILE = wthor([wthor_game(FINISHED, 54), wthor_game("f5d6c3", 20)])


def test_every_cut_of_a_wthor_file_is_noticed():
    for length in range(len(WTHOR_FILE)):
        assert not feed(parse_wthor, check_games, WTHOR_FILE[:length], error=RecordError)


@st.composite
def damaged_wthor(draw: st.DrawFn) -> bytes:
    original = draw(st.sampled_from([WTHOR_FILE, wthor_names(["Ann", "Bob"], 20), b""]))
    return draw(st.binary(max_size=200)) if not original else damaged(original, draw, st.binary(max_size=3))


@quick
@given(damaged_wthor(), st.integers(0, 200), st.integers(0, 255))
def test_damaged_wthor(data, index, value):
    changed = WTHOR_FILE[:index] + bytes([value]) + WTHOR_FILE[index + 1 :]  # the length still fits
    for given_data in (data, changed):
        feed(parse_wthor, check_games, given_data, error=RecordError)
        feed(lambda data: parse_wthor_names(data, 20), ignore, given_data, error=RecordError)


@quick
@given(
    st.binary(max_size=300) | damaged_wthor() | damaged_records().map(lambda text: text.encode("utf-8", "replace")),
    st.sampled_from(["", ".ggf", ".sgf", ".wtb", ".txt", ".jou", ".obf"]),
)
def test_damaged_files(tmp_path_factory, data, suffix):
    path = tmp_path_factory.getbasetemp() / f"damaged{suffix}"
    path.write_bytes(data)
    try:
        feed(read_games, check_games, path, error=RecordError)
    finally:
        path.unlink()  # a damaged .jou must not lie beside the next .wtb
