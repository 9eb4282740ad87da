"""Our players behind GTP and NBoard's protocol: every command, and that no line can do harm."""

import io
import os
import re
import shlex
import sys
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from patience import HANG_SECONDS
from strategies import quick

import othello_nn
from othello_nn.cli import main as cli
from othello_nn.cli.engine import thread as engine
from othello_nn.cli.engine.gtp import GtpEngine
from othello_nn.cli.engine.nboard import NBoardEngine, search_line
from othello_nn.cli.engine.thread import PlayerThread
from othello_nn.game import PASS, Position
from othello_nn.game.formats.sgf import format_sgf
from othello_nn.game.notation import parse_transcript
from othello_nn.game.record import Game
from othello_nn.players.base import Choice

START = Position.start()
PASSING = "d3c3e6d2d1e1b2c1"  # black has to pass after it, and white can play a3
SHORTEST = "f5d6c5f4e7f6g5e6e3"  # the game is over: white has no disc left
GOGUI_RULES = ["game_id", "board", "board_size", "legal_moves", "side_to_move", "final_result"]
COMMANDS = [
    "protocol_version",
    "name",
    "version",
    "known_command",
    "list_commands",
    "quit",
    "boardsize",
    "clear_board",
    "komi",
    "play",
    "genmove",
    "reg_genmove",
    "undo",
    "showboard",
    "time_settings",
    "time_left",
    "final_score",
    "set_game",
    "list_games",
    "loadsgf",
    *(f"gogui-rules_{name}" for name in GOGUI_RULES),
    "othello_nn-warm_up",
]


@pytest.fixture
def gtp():
    thinker = PlayerThread("swh")
    yield GtpEngine(thinker)
    assert thinker.close()


def play(gtp: GtpEngine, transcript: str) -> None:
    for number, move in enumerate(re.findall("..", transcript)):
        assert gtp.answer(f"play {'bw'[number % 2]} {move}") == "="


# --- GTP -------------------------------------------------------------------------------------------------------------


def test_gtp_lists_its_commands(gtp):
    assert gtp.answer("list_commands") == "= " + "\n".join(COMMANDS)
    assert gtp.answer("known_command play") == "= true"
    assert gtp.answer("known_command fly") == gtp.answer("known_command") == "= false"


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("protocol_version", "= 2"),
        ("12 protocol_version", "=12 2"),
        ("name", "= othello_nn swh"),
        ("version", f"= {othello_nn.__version__}"),
        ("  \tname\t# who are you?\r\n", "= othello_nn swh"),
        ("na\x07me", "= othello_nn swh"),
        ("", None),
        ("   # only a comment", None),
        ("3 boardsize 8", "=3"),
        ("boardsize 19", "? unacceptable size"),
        ("komi 6.5", "="),
        ("list_games", "= Othello"),
        ("set_game Othello", "="),
        ("gogui-rules_game_id", "= Othello"),
        ("gogui-rules_board_size", "= 8"),
        ("gogui-rules_side_to_move", "= black"),
        ("gogui-rules_legal_moves", "= D3 C4 F5 E6"),
        ("gogui-rules_final_result", "= unknown"),
        ("quit", "="),
    ],
)
def test_gtp_answers(gtp, line, answer):
    assert gtp.answer(line) == answer


MALFORMED = [
    ("7", "?7 syntax error"),
    ("fly", "? unknown command"),
    ("4 PLAY black f5", "?4 unknown command"),
    ("play black", "? syntax error: play takes 2 arguments, not 1"),
    ("play green f5", "? syntax error: green is no colour"),
    ("play black z9", "? illegal move: 'z9' is not a square"),
    ("play white f4", "? illegal move: it is not white's turn"),
    ("play black a1", "? illegal move: a1 flips nothing"),
    ("play black pass", "? illegal move: passing is not allowed"),
    ("genmove white", "? illegal move: it is not white's turn"),
    ("genmove", "? syntax error: genmove takes 1 arguments, not 0"),
    ("boardsize eight", "? syntax error"),
    ("komi much", "? syntax error"),
    ("final_score", "? cannot score: the game is not over"),
    ("set_game Go", "? unknown game"),
    ("time_settings 1 2", "? syntax error"),
    ("time_settings 1 -2 3", "? syntax error: -2"),
    ("time_settings nan 2 3", "? syntax error: nan"),
    ("time_left black soon 0", "? syntax error: soon"),
    ("time_left green 1 0", "? syntax error: green"),
    ("loadsgf /nowhere/x.sgf", "? cannot load file: No such file"),
    ("loadsgf . 2", "? cannot load file: Is a directory"),
    ("loadsgf x.sgf first", "? syntax error: not the number of a move"),
]


def test_malformed_commands_change_nothing(gtp):
    play(gtp, "f5d6")
    before = gtp.game, list(gtp._before), vars(gtp.clock).copy()
    for line, answer in MALFORMED:
        found = gtp.answer(line)
        assert found.startswith(answer), line
        assert "\n" not in found
        assert (gtp.game, gtp._before, vars(gtp.clock)) == before, line


def test_gtp_plays(gtp):
    play(gtp, "F5d6")
    shown = gtp.answer("showboard")
    assert shown == f"=\n{START.replay('f5d6')}"
    thought = gtp.answer("reg_genmove black")
    assert gtp.game.final == START.replay("f5d6")
    assert gtp.answer("genmove black") == thought
    assert gtp.game.final == START.replay(f"f5d6{thought[2:]}")
    assert gtp.answer("undo") == "="
    assert gtp.answer("showboard") == shown
    assert [gtp.answer("undo")[0] for _ in range(3)] == ["=", "=", "?"]
    assert gtp.game.final == START
    play(gtp, "f5")
    gtp.answer("clear_board")
    assert gtp.game.final == START
    assert gtp.answer("undo").startswith("? cannot undo")


def test_gtp_rows_as_gogui_has_them(gtp):
    play(gtp, "f5")
    rows = gtp.answer("gogui-rules_board").splitlines()
    assert rows[0] == "="
    assert rows[8] == ". . . . . . . ."  # row 1 is the last
    assert rows[4] == ". . . X X X . ."


def test_gtp_passes(gtp):
    play(gtp, PASSING)
    assert gtp.answer("gogui-rules_legal_moves") == "= PASS"
    assert gtp.answer("reg_genmove black") == "= PASS"
    # A pass may be left out, and is then taken back with the move after it ...
    assert gtp.answer("play white a3") == "="
    assert gtp.game.moves[-2:] == (PASS, 16)
    gtp.answer("undo")
    assert gtp.answer("genmove white")[2:] in ("A3", "B4", "D6")
    gtp.answer("undo")
    # ... or told, or made by being asked.
    assert gtp.answer("play black PASS") == "="
    assert gtp.game.final.black_to_move is False
    gtp.answer("undo")
    assert gtp.answer("genmove black") == "= PASS"
    assert gtp.game.moves[-1] == PASS
    gtp.answer("undo")
    assert gtp.game.moves == tuple(parse_transcript(PASSING))


def test_gtp_after_the_end(gtp):
    play(gtp, SHORTEST)
    assert gtp.answer("final_score") == "= B+64"
    assert gtp.answer("gogui-rules_final_result") == "= Black wins by 64"
    assert gtp.answer("gogui-rules_legal_moves") == "="
    assert gtp.answer("genmove white") == gtp.answer("genmove black") == "= PASS"
    assert len(gtp.game.moves) == 9


def test_gtp_loads_games(gtp, tmp_path):
    path = tmp_path / "game.sgf"
    path.write_text(format_sgf([Game(moves=tuple(parse_transcript("f5d6c3")))]))
    assert gtp.answer(f"loadsgf {path}") == "="
    assert gtp.game.final == START.replay("f5d6c3")
    gtp.answer("undo")
    assert gtp.game.final == START.replay("f5d6")
    assert gtp.answer(f"loadsgf {path} 2") == "="
    assert gtp.game.final == START.replay("f5")
    path.write_text("(;GM[1])")
    assert gtp.answer(f"loadsgf {path}").startswith("? cannot load file: line 1")
    path.write_text("")
    assert gtp.answer(f"loadsgf {path}") == "? cannot load file: it holds no game"
    assert gtp.game.final == START.replay("f5")


@pytest.mark.skipif(os.name != "posix", reason="devices and pipes of POSIX")
def test_gtp_loads_nothing_without_an_end(gtp, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert gtp.answer("loadsgf /dev/zero") == "? cannot load file: it is a device, not a file"
    assert gtp.answer(f"loadsgf {tmp_path / 'pipe'}") == "? cannot load file: it is a pipe, not a file"


def test_gtp_time(gtp):
    asked = []
    gtp.thinker.choose = lambda game, remaining: (asked.append((remaining, gtp.thinker.seconds)), Choice(37))[1]
    gtp.answer("reg_genmove black")
    gtp.answer("time_settings 0 10 5")
    gtp.answer("reg_genmove black")
    gtp.answer("time_settings 60 10 5")
    gtp.answer("reg_genmove black")
    gtp.answer("time_left black 12 0")
    gtp.answer("reg_genmove black")
    gtp.answer("time_left black 7 3")
    gtp.answer("reg_genmove black")
    gtp.answer("time_settings 60 0 0")
    gtp.answer("time_left black -1 0")
    gtp.answer("reg_genmove black")
    gtp.answer("time_settings 0 0 0")
    gtp.answer("reg_genmove black")
    assert asked == [(None, None), (None, 1.8), (60, None), (12, None), (None, 1.8), (0.01, None), (None, None)]


def test_time_and_depth_are_for_players_that_play_by_time(monkeypatch):
    made = []
    monkeypatch.setattr(engine, "make_player", lambda spec, seconds: made.append((spec.given, seconds)) or FakePlayer())
    for spec, wanted in [("mobility", {"depth": 5}), ("mobility:seconds=2", {"seconds": 2.0}), ("swh", {})]:
        thinker = PlayerThread(spec)
        thinker.depth = 5
        assert thinker.choose(Game(), None).move == 37
        assert made[-1] == (wanted, engine.ENGINE_SECONDS)
        assert thinker.close()


class FakePlayer:
    """Always plays f5, once it is let."""

    ready = threading.Event()
    ready.set()

    def choose(self, position, remaining=None, line=None):
        return Choice(37, 1.25, False, 3, (37, 43), 1000, 0.5)

    def warm_up(self):
        assert self.ready.wait(30)

    def new_game(self, rng=None):
        pass

    stop = close = lambda self: None


def test_handshakes_are_answered_before_the_player_is_ready(monkeypatch):
    waiting = threading.Event()

    class SlowPlayer(FakePlayer):
        ready = waiting

    monkeypatch.setattr(engine, "make_player", lambda spec, seconds: SlowPlayer())
    thinker = PlayerThread("mobility")
    gtp, out = GtpEngine(thinker), io.StringIO()
    assert [gtp.answer(line) for line in ("name", "boardsize 8", "clear_board")] == ["= othello_nn mobility", "=", "="]
    nboard = NBoardEngine(thinker)

    def lines():
        yield from ("nboard 2", "set depth 8", "ping 1", "go", "ping 2")
        assert out.getvalue().split("\n") == ["set myname othello_nn mobility", "pong 1", "pong 2", ""]
        thread = threading.Thread(target=gtp.answer, args=["othello_nn-warm_up"])
        thread.start()
        thread.join(0.1)
        assert thread.is_alive()
        waiting.set()
        thread.join(30)
        assert not thread.is_alive()
        yield "go"

    nboard.run(lines(), out)
    assert out.getvalue().count("===") == 1
    assert thinker.close()


@quick
@given(
    st.lists(
        st.one_of(
            st.text(max_size=30).filter(lambda text: "\n" not in text),
            st.builds(
                lambda *words: " ".join(words),
                st.sampled_from(COMMANDS),
                st.sampled_from(["", "black", "white", "8", "f5", "-1", "é", "1e99"]),
                st.sampled_from(["", "f5", "d6", "f6", "pass", "0", "inf"]),
                st.sampled_from(["", "0", "7"]),
            ),
        ),
        max_size=12,
    )
)
def test_no_line_can_do_harm(lines):
    thinker = PlayerThread("swh")
    gtp, nboard = GtpEngine(thinker), NBoardEngine(thinker)
    for line in lines:
        before = gtp.game
        answer = gtp.answer(line)
        assert answer is None or re.fullmatch(r"[=?][0-9]*( [^\n]+)?(\n[^\n]+)*", answer)
        assert gtp.game == before or answer.startswith("=")
    nboard.run(lines, io.StringIO())
    thinker.finish()
    assert thinker.close()


# --- NBoard ----------------------------------------------------------------------------------------------------------


def nboard(*lines: str, player: str = "swh") -> list[str]:
    """What the engine says to these lines."""
    thinker, out = PlayerThread(player), io.StringIO()
    NBoardEngine(thinker).run(lines, out)
    assert thinker.close()
    return out.getvalue().splitlines()


def test_nboard_goes():
    said = nboard("nboard 2", "set depth 10", "set contempt 3", "move F5", "D6//1.5", "ping 7", "go", "fly me")
    assert said[:3] == ["set myname othello_nn swh", "pong 7", "status thinking"]
    assert re.fullmatch(r"nodestats [0-9]+ [0-9.]+", said[3])
    move, score, seconds = said[4].removeprefix("=== ").split("/")
    assert Position.parse("f5d6").play(move)
    assert (float(score), float(seconds)) == (0.44, 0.0)
    assert said[5:] == ["status waiting"]


def test_nboard_sets_games():
    board = Position.parse(PASSING).board_string().replace("X", "*")
    game = f"(;GM[Othello]PC[NBoard]PB[a]PW[b]RE[?]TI[15:00]TY[8]BO[8 {board} *];)"
    assert "=== PA//0.00" in nboard(f"set game {game}", "go")
    said = nboard(f"set game {game}", "move PA", "hint 1")
    assert re.fullmatch(r"search (A3|B4|D6) -?[0-9.]+ 0 1", said[1])
    assert nboard(f"set game {game}", "move A3", "move A3")[0].startswith("status error: move 3 (a3): a3 is occupied")
    started = Position.parse("f5").board_string().replace("X", "*")
    assert nboard(f"set game (;GM[Othello]BO[8 {started} O]W[d6]B[c3];)", "move A1")[0].startswith(
        "status error: move 3"
    )


def test_nboard_hints():
    said = nboard("move F5", "move D6", "hint 9")
    found = {line.split()[1][:2]: float(line.split()[2]) for line in said if line.startswith("search ")}
    assert set(found) == {"C3", "C4", "C5", "C6", "C7"}
    assert max(found, key=found.get) == "C6"
    assert sum(line.startswith("search ") for line in nboard("hint")) == 1


def test_nboard_analyzes():
    said = nboard(*(f"move {move}" for move in re.findall("..", SHORTEST)), "analyze")
    found = [line.split()[1:] for line in said if line.startswith("analysis ")]
    assert [int(made) for made, _ in found] == list(range(9, -1, -1))
    assert float(found[0][1]) == -64  # for white, who would be to move
    assert nboard("learn") == ["learned"]
    over = nboard(*(f"move {move}" for move in re.findall("..", SHORTEST)), "go")
    assert over == ["status the game is over", "status waiting"]


def test_nboard_complains_and_changes_nothing():
    lines = ["move A1", "move Z9", "move", "move PA", "set game nothing", "set game", "set depth deep", "set depth 0"]
    said = nboard(*lines, "hint 0", "move F5", "move D6", "go")
    assert [line.startswith("status error: ") for line in said[:9]] == [True] * 9
    assert said[9] == "status thinking"
    assert said[11].startswith("=== C6/0.44/")


def test_nboard_ping_stops_thinking(tmp_path):
    script = tmp_path / "sleeper.py"
    script.write_text(
        "import sys, time\n"
        "for line in sys.stdin:\n"
        "    if line.startswith('genmove'): time.sleep(1000)\n"
        "    print('= 2' if line.startswith('protocol') else '=', end='\\n\\n', flush=True)\n"
    )
    thinker, out = PlayerThread(f"gtp:{shlex.join([sys.executable, str(script)])}"), io.StringIO()

    def lines():
        yield "go"
        until = time.monotonic() + HANG_SECONDS
        while "status thinking" not in out.getvalue() and time.monotonic() < until:
            time.sleep(0.01)
        started = time.monotonic()
        yield "ping 5"
        assert time.monotonic() - started < HANG_SECONDS
        yield "quit"

    NBoardEngine(thinker).run(lines(), out)
    assert out.getvalue() == "status thinking\npong 5\n"
    assert thinker.close()


def test_search_lines():
    assert search_line(Choice(37, 1.5, False, 7, (37, PASS, 18))) == "search F5PAC3 1.50 0 7"
    assert search_line(Choice(37, -2.0, True, 9)) == "search F5 -2.00 0 100%"
    assert search_line(Choice(37, 1.0, True, 9), wld=True) == "search F5 1.00 0 100%W"


def test_a_searching_player_is_heard_and_can_be_compared():
    said = nboard("set depth 2", "hint 4", player="mobility")
    depths = [line.split()[4] for line in said if line.startswith("search ")]
    assert depths == ["1", "2", "2", "2", "2", "2"]
    # The four first moves are images of each other.
    assert len({line.split()[2] for line in said if line.startswith("search ") and line.split()[4] == "2"}) == 1


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_engine_ends_with_its_input(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO("1 name\n2 genmove b\n"))
    assert cli.main(["engine", "gtp", "--player", "swh"]) == 0
    assert re.fullmatch(r"=1 othello_nn swh\n\n=2 [C-F][3-6]\n\n", capsys.readouterr().out)
    monkeypatch.setattr(sys, "stdin", io.StringIO("go\n"))
    assert cli.main(["engine", "nboard", "--player", "swh"]) == 0
    assert "\n=== " in capsys.readouterr().out


def test_a_wrong_player_is_said_at_once(capsys):
    assert cli.main(["engine", "gtp", "--player", "swhh"]) == 2
    assert capsys.readouterr().err.startswith("play.py: unknown player 'swhh'")
    assert cli.main(["engine", "gtp", "--player", "nowhere.safetensors"]) == 2
    assert capsys.readouterr().err == "play.py: there is no net at 'nowhere.safetensors'\n"
    assert cli.main(["engine", "uci"]) == 2
    assert "invalid choice: 'uci'" in capsys.readouterr().err


def test_a_player_that_cannot_be_made_is_an_error_to_each_question(capsys, tmp_path):
    path = tmp_path / "damaged.safetensors"
    path.write_bytes(b"not at all")
    thinker = PlayerThread(str(path))
    gtp = GtpEngine(thinker)
    assert gtp.answer("genmove black").startswith(f"? {path}: not a readable safetensors file")
    assert gtp.game.moves == ()
    assert thinker.close()
    assert f"play.py: {path}: not a readable safetensors file" in capsys.readouterr().err
