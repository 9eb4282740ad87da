"""What a page may say, what can be pasted, who can be chosen: all without a server."""

import json
import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import quick

from othello_nn.cli.judges import Judged, Verdict
from othello_nn.cli.web import messages
from othello_nn.cli.web.judging import Judgement, Judgements, tell_story
from othello_nn.cli.web.levels import FIXED, LEVELS, RATINGS, Guests, Seat
from othello_nn.cli.web.messages import MOST_TEXT, TYPES, MessageError, parse
from othello_nn.cli.web.named import OPENINGS, opening_moves, opening_name
from othello_nn.cli.web.paste import PasteError, read_fragment, read_pasted, write_fragment
from othello_nn.errors import OthelloError
from othello_nn.game import PASS, Position
from othello_nn.game.formats.files import format_ggf, format_sgf
from othello_nn.game.notation import format_transcript, parse_transcript
from othello_nn.game.record import Game
from othello_nn.players.base import PlayerError
from othello_nn.players.spec import parse_spec

START = Position.start()
GAME = "f5d6c3d3c4f4f6"


# --- messages --------------------------------------------------------------------------------------------------------


def test_messages_are_read():
    assert parse('{"type": "play", "square": "f5", "ply": 3}') == messages.Play("f5", 3)
    assert parse('{"type": "new", "clock": 60}') == messages.New(clock=60.0)
    assert parse('{"type": "undo"}') == messages.Undo()
    assert {
        "new",
        "seats",
        "play",
        "goto",
        "undo",
        "redo",
        "resign",
        "pause",
        "hint",
        "minds",
        "analyze",
        "paste",
    } < set(TYPES)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "an object with a type"),
        ("{}", "no message None"),
        ('{"type": "eval"}', "no message 'eval'"),
        ('{"type": ["play"]}', "no message"),
        ('{"type": "play"}', "play needs square"),
        ('{"type": "play", "square": 5, "ply": 0}', "must be of type str"),
        ('{"type": "play", "square": "f5", "ply": true}', "must be of type int"),
        ('{"type": "play", "square": "f5", "ply": -1}', "must be 0 to 200"),
        ('{"type": "play", "square": "f5", "ply": 1e400}', "must be of type int"),
        ('{"type": "goto", "ply": ' + "9" * 4000 + "}", "goto.'ply'|not JSON|0 to 200"),
        ('{"type": "new", "clock": NaN}', "must be of type float"),
        ('{"type": "new", "clock": -5}', "0 to 86400"),
        ('{"type": "new", "moves": "' + "f5" * 1000 + '"}', "2000 characters"),
        ('{"type": "undo", "file": "/etc/passwd"}', "not part of the message"),
        ('{"type": "export", "format": "exe"}', "there is no format 'exe'"),
        (json.dumps({"type": "paste", "text": "x" * (MOST_TEXT + 1)}), "are the most"),
    ],
)
def test_what_is_no_message_is_refused_with_a_reason(text, reason):
    with pytest.raises(MessageError, match=reason):
        parse(text)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
fields = sorted({name for cls in TYPES.values() for name in cls.__dataclass_fields__})


@quick
@given(st.dictionaries(st.sampled_from(fields), json_values), st.sampled_from(sorted(TYPES)))
def test_any_object_is_a_message_or_an_error(found, name):
    try:
        message = parse(json.dumps(found | {"type": name}))
    except MessageError:
        return
    assert isinstance(message, TYPES[name])


@quick
@given(st.text())
def test_any_text_is_a_message_or_an_error(text):
    with pytest.raises(MessageError):
        parse(text)


# --- what can be pasted ----------------------------------------------------------------------------------------------

RECORD = Game(moves=tuple(parse_transcript(GAME)), black="Ann", white="Bob")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (GAME, "transcript"),
        ("F5 D6 C3 D3 C4 F4 F6", "transcript"),
        ("1. f5 d6 2. c3 d3 3. c4 f4 4. f6", "transcript"),
        ("1. f5 d6 2. c3 d3 3. c4 f4 4. f6 36-28", "transcript"),
        (
            '[Event "?"]\n[Black "Ann"]\n[White "Bob"]\n[Result "33-31"]\n\n1. f5 d6 2. c3 d3 3. c4 f4 4. f6 33-31',
            "a numbered game",
        ),
        (format_ggf([RECORD]), "GGF"),
        (format_ggf([RECORD, RECORD]), "GGF"),
        (format_sgf([RECORD]), "SGF"),
        (f"set game {format_ggf([RECORD])}", "GGF"),
        ("move F5\nmove D6/1.2/0.1\nmove C3\nmove d3\nmove c4\nmove f4\nmove f6", "NBoard"),
        (f"http://127.0.0.1:8000/#{GAME}", "link"),
        (f"#{GAME}@2", "link"),
        (f"{START.to_text()} {GAME}", "board and moves"),
        (f"\ufeff `{GAME}`\n", "transcript"),
    ],
)
def test_a_game_is_recognised(text, kind):
    found = read_pasted(text)
    assert (found.kind, found.start, format_transcript(found.moves)) == (kind, START, GAME)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (START.replay(GAME).to_text(), "board"),
        ("\n".join([*(START.replay(GAME).board_string()[8 * i : 8 * i + 8] for i in range(8)), "O"]), "board"),
        (f"{START.replay(GAME).to_text()}; B3:+2; G5:-3;", "OBF"),
    ],
)
def test_a_position_is_recognised(text, kind):
    found = read_pasted(text)
    assert (found.kind, found.start, found.moves) == (kind, START.replay(GAME), ())


def test_what_else_there_was_is_said():
    assert "Ann – Bob" in read_pasted(format_ggf([RECORD])).note
    assert "first of 2 games" in read_pasted(format_ggf([RECORD, RECORD])).note
    assert read_pasted(f"#{GAME}@2").ply == 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "nothing to read"),
        ("hello", "read as moves: move 1"),
        ("f5d6z9", "move 3, character index 4"),
        ("f5f4a1", r"move 3 \(a1\): a1 flips nothing"),
        ("X" * 64, "side to move is missing"),
        ("X" * 30 + "Q" + "-" * 33 + "X", "character index 30: 'Q' is not a board sign"),
        ("(;GM[Othello]BO[8", "read as a game in GGF or SGF"),
        (f"{START.to_text()}; a1:+2;", "read as positions in OBF: line 1: a1 flips nothing"),
        ("#f5d6@x", "read as a link"),
    ],
)
def test_an_error_says_how_it_was_read_and_what_is_wrong(text, reason):
    with pytest.raises(PasteError, match=reason):
        read_pasted(text)


@quick
@given(st.text(max_size=200) | st.text("abcdefgh12345678XO-.;:#(;)[]@/ \n", max_size=200))
def test_whatever_is_pasted_is_read_or_refused(text):
    try:
        found = read_pasted(text)
    except PasteError:
        return
    assert found.start.replay(found.moves)


@pytest.mark.parametrize("ply", [None, 3])
@pytest.mark.parametrize("start", [START, START.play("f5")])
def test_a_link_leads_back(start, ply):
    moves = GAME if start == START else GAME[2:]
    found = read_fragment(write_fragment(start, moves, ply))
    assert (found.start, format_transcript(found.moves), found.ply) == (start, moves, ply)


# --- openings and players --------------------------------------------------------------------------------------------


def test_named_openings_are_legal_and_known_from_any_side():
    for name in OPENINGS:
        position = START.replay(opening_moves(name))
        turned = position.transform(random.Random(name).randrange(8))
        assert opening_name([START, turned]) == name
    assert opening_name([START]) == ""


def test_seats():
    guests = Guests(("gtp:someone",))
    assert guests.seat("human").is_person
    assert (
        guests.seat("champion@Club").spec == f"champion:{next(level.keys for level in LEVELS if level.name == 'Club')}"
    )
    assert guests.seat(f"random@{FIXED}").spec == "random"
    assert guests.seat(f"gtp:someone@{FIXED}").spec == "gtp:someone"
    assert Seat("champion", "Club").title == "champion, Club"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "champion",
        "champion@",
        "champion@Nobody",
        "champion:depth=60@Club",
        "gtp:/bin/sh -c id@own",
        "module:x.py:X@own",
        "tuples:/etc/passwd@own",
        "/etc/passwd@Club",
        "../../runs/x@Club",
        "human@Club",
        "random@Club",
    ],
)
def test_only_what_was_offered_can_sit_at_the_board(text):
    with pytest.raises(PlayerError):
        Guests().seat(text)


@pytest.mark.parametrize("name", ["", "random", "human", "champion:depth=60", "gtp:/bin/sh", "/etc/passwd"])
def test_only_players_that_search_say_what_moves_are_worth(name):
    with pytest.raises(PlayerError):
        Guests().mind(name)


def test_ratings_are_those_of_the_table():
    page = (Path(__file__).resolve().parent.parent / "docs" / "strength.md").read_text(encoding="utf-8")
    table = page.partition("<!-- begin levels -->")[2].partition("<!-- end levels -->")[0]
    rated = dict(re.findall(r"^\| `([^`]+)` \|.*?\| (\d+) ± ", table, re.MULTILINE))
    assert len(RATINGS) == len(rated) - 1  # swh at 1-ply is no level
    for (player, level), rating in RATINGS.items():
        assert rating == pytest.approx(int(rated[Seat(player, level).spec]), abs=5)


def test_levels_are_specifications():
    for level in LEVELS:
        assert parse_spec(f"champion:{level.keys}").given


# --- the story of a game ---------------------------------------------------------------------------------------------


def judgement(ply: int, loss: float, best: float, *, level: int = 0, exact: bool = False) -> Judgement:
    moves = parse_transcript(GAME)
    position = START.replay(moves[:ply])
    other = next(move for move in position.legal_moves if move != moves[ply])
    return Judgement(
        Judged(1, ply + 1, position, moves[ply], best - loss, Verdict(other, best, exact, 8), exact), level
    )


def test_the_turning_point_is_the_last_move_that_gave_the_win_away():
    moves = parse_transcript(GAME)
    found = [judgement(0, 3, 4), None, judgement(2, 5, 2), None, judgement(4, 9, -3), None, None]
    story = tell_story(moves, found, margin=-20, person=True)
    assert story.turning == 2
    best = found[2].judged.best.move
    assert story.text == f"You lost it at 3. c3 (−5): {best} was right."
    assert story.losses == {True: 17.0, False: 0.0}
    assert tell_story(moves, found, margin=-20, person=None).text.startswith("Black lost it at 3.")
    assert tell_story(moves, found, margin=20, person=True).turning is None  # white made no mistake
    assert tell_story(moves, [None] * 7, margin=-2, person=True).text == ""


def test_marks():
    assert judgement(2, 12, 5).mark == "??"
    assert judgement(2, 5, 5).mark == "?"
    assert judgement(2, 2, 5).mark == ""
    assert judgement(2, 2, 1, exact=True).mark == "?"  # from a win to a loss


def test_a_deeper_judgement_never_gives_way():
    found = Judgements()
    position, move = judgement(2, 1, 1).judged.position, judgement(2, 1, 1).judged.move
    for one, stays in [((1, 1), True), ((2, 0), False), ((3, 2), True), ((4, 1), False)]:
        loss, level = one
        assert found.add(judgement(2, loss, 5, level=level)) == stays
    assert found.add(judgement(2, 6, 5, level=0, exact=True))
    assert not found.add(judgement(2, 7, 5, level=2))
    kept = found.get(position, move)
    assert kept is not None
    assert kept.judged.loss == 6
    assert found.get(position, PASS) is None


def test_errors_are_ours():
    assert issubclass(MessageError, OthelloError)
