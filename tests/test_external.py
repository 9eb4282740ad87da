"""Other programs as players: what they are told, and that nothing they do harms us.

The programs are small scripts, each bad in its own way, and where it is installed a real one: Debian's gtp-rhino.
"""

import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from patience import HANG_SECONDS, has_ended, runs

from othello_nn.arena.match import play_match
from othello_nn.arena.openings import make_openings
from othello_nn.game import PASS, Position
from othello_nn.game.notation import move_name, parse_transcript
from othello_nn.players import Line, PlayerError, PlayerFailure, make_player, parse_spec
from othello_nn.players.external.gtp import drawn_board

ROOT = Path(__file__).resolve().parent.parent
START = Position.start()
PASSING = "d3c3e6d2d1e1b2c1"  # black has to pass after it, and white can play a3
OTHER_START = Position.parse(f"{'-' * 18}OOOX{'-' * 5}OOX{'-' * 6}XXX{'-' * 25} X")

GTP_FAKE = """
import os, subprocess, sys, time
how, commands, log, *answers = sys.argv[1:]
known = ["protocol_version", "name", "list_commands", "play", "clear_board", "boardsize", "genmove", *commands.split()]

def reply(text="", sign="="):
    print(sign, text, end="\\n\\n", flush=True)

if how == "dies at once":
    sys.exit("the weights are missing")
if how == "never answers":
    time.sleep(60)
with open(log, "a") as file:
    print("pid", os.getpid(), file=file)
    if how == "has a child":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        print("pid", child.pid, file=file)
for line in sys.stdin:
    with open(log, "a") as file:
        file.write(line)
    command = line.split()[0]
    if command == "protocol_version":
        reply("1" if how == "is too old" else "2")
    elif command == "list_commands":
        reply("\\n".join(known))
    elif command not in known and command != "quit":
        reply("unknown command", "?")
    elif how == "refuses passes" and line.endswith(" PASS\\n"):
        reply("syntax error", "?")
    elif command == "showboard":
        reply("cannot be made out" if how == "draws nothing" else answers.pop(0).replace("/", "\\n"))
    elif command == "genmove":
        if how == "crashes":
            sys.exit("Segmentation fault, or so")
        if how == "hangs" or how == "has a child":
            time.sleep(60)
        if how == "refuses":
            reply("I would rather not", "?")
        if how == "complains":
            print("a long story\\n" * 20000, file=sys.stderr)
        if how == "chatters":
            print("thinking\\n", flush=True)
        if how == "talks without end":
            while True:
                print("la la la", flush=True)
                time.sleep(0.01)
        reply(answers.pop(0))
    else:
        reply()
    if command == "quit":
        break
"""

NBOARD_FAKE = """
import sys, time
how, log, *answers = sys.argv[1:]
for line in sys.stdin:
    with open(log, "a") as file:
        file.write(line)
    command, *words = line.split()
    if command == "nboard":
        print("set myname Fake 1")
    elif command == "ping":
        print("search F5 99.00 0 12 of a position before\\npong", *words)
    elif command == "go":
        if how == "hangs":
            time.sleep(60)
        if how == "crashes":
            sys.exit(3)
        print("status thinking\\nnodestats 123456 0.5")
        print("search D3-C5 1.25 0 14 and more words" if how != "proves" else "search D3C5 4 0 100%")
        print("===", answers.pop(0))
    sys.stdout.flush()
"""


@pytest.fixture
def engine(tmp_path):
    """Make a player that is one of the scripts; all of them are closed in the end."""
    made = []

    def make(protocol, how="plays", *answers, commands="undo", keys=""):
        script = tmp_path / f"{protocol} fake.py"
        script.write_text(GTP_FAKE if protocol == "gtp" else NBOARD_FAKE)
        words = [sys.executable, str(script), how, *([commands] if protocol == "gtp" else []), str(tmp_path / "log")]
        player = make_player(f"{protocol}:{shlex.join([*words, *answers])}{keys}")
        made.append(player)
        return player

    yield make
    for player in made:
        player.close()


def greet_and_lose_patience(player) -> None:
    """From now on the program counts as hung at once; but however long the machine takes to start it, it is started."""
    player.warm_up()
    player.spec = replace(player.spec, timeout=0.4)


def heard(tmp_path) -> list[str]:
    """What the script was told, without the greeting and the process numbers, and forgotten for the next time."""
    lines = [line for line in (tmp_path / "log").read_text().splitlines() if not line.startswith("pid ")]
    (tmp_path / "log").write_text("")
    greeting = ("protocol_version", "name", "list_commands", "boardsize", "nboard", "ping")
    return [line for line in lines if line.split()[0] not in greeting]


def process_numbers(tmp_path) -> list[int]:
    return [int(line.split()[1]) for line in (tmp_path / "log").read_text().splitlines() if line.startswith("pid ")]


def line(text: str) -> Line:
    """The moves of a transcript, with the pass after it if there has to be one."""
    moves = tuple(parse_transcript(text))
    return Line(START, (*moves, PASS) if START.replay(moves).must_pass else moves)


def choose(player, text: str, remaining=None, told=True):
    road = line(text)
    position = START.replay(road.moves)
    return player.choose(position, remaining, road if told else None)


# --- how they are written --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name", "keys"),
    [
        ("gtp:edax -level 5", "gtp:edax -level 5", {}),
        ("gtp:edax -level 5:seconds=2", "gtp:edax -level 5", {"seconds": 2.0}),
        ("gtp:/opt/my engine/x --opt=a:b", "gtp:/opt/my engine/x --opt=a:b", {}),
        ("gtp:x --opt=a:b=c:timeout=5,epsilon=0.1", "gtp:x --opt=a:b=c", {"timeout": 5.0, "epsilon": 0.1}),
        ("gtp:x --log:level=3", "gtp:x --log:level=3", {}),
        ("gtp:x '--opt=a:depth=3'", "gtp:x '--opt=a:depth=3'", {}),
        ("nboard:C:/edax.exe -nboard:depth=8", "nboard:C:/edax.exe -nboard", {"depth": 8}),
        ("nboard:x host:80,depth=3", "nboard:x host:80,depth=3", {}),
    ],
)
def test_keys_are_told_from_the_command(text, name, keys):
    spec = parse_spec(text)
    assert (spec.name, spec.given) == (name, keys)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gtp:", "no command is given"),
        ("gtp:no-such-engine -x", "'no-such-engine' is not there, nor a program on the PATH"),
        (f"gtp:{ROOT / 'README.md'}", "is not a program that can be started"),
        ("gtp:'x", "cannot be read: no closing quotation"),
        (f"gtp:{sys.executable}:depth=3", "has no key 'depth'; it takes seconds, epsilon, timeout; what belongs"),
        (f"nboard:{sys.executable}:seconds=3", "has no key 'seconds'; it takes depth, epsilon, timeout"),
        (f"gtp:{sys.executable}:timeout=never", "timeout is 'never'"),
        ("swh:timeout=3", "swh has no key 'timeout'"),
    ],
)
def test_mistakes_are_explained(text, message):
    with pytest.raises(PlayerError, match=r"^[^\n]*$") as error:
        make_player(text)
    assert message in str(error.value)


def test_a_home_folder_may_be_written_short(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "x").write_text("#!/bin/sh\n")
    (tmp_path / "x").chmod(0o755)
    assert make_player("gtp:~/x -gtp").words == [str(tmp_path / "x"), "-gtp"]


# --- what GTP engines are told ---------------------------------------------------------------------------------------


def test_only_what_is_new_is_told(engine, tmp_path):
    player = engine("gtp", "plays", "c3", "C4", "PASS", "G5")
    assert choose(player, "f5d6").move == 18
    assert heard(tmp_path) == ["clear_board", "play black F5", "play white D6", "genmove black"]
    choose(player, "f5d6c3d3")
    assert heard(tmp_path) == ["play white D3", "genmove black"]
    assert player.engine_name == ""
    with pytest.raises(PlayerFailure, match="'PASS', which is not legal; legal moves: c2, "):
        choose(player, "f5d6c3d3c4f4")


def test_moves_are_taken_back(engine, tmp_path):
    player = engine("gtp", "plays", "C3", "F6", "E6")
    choose(player, "f5d6")
    heard(tmp_path)
    choose(player, "f5")
    assert heard(tmp_path) == ["undo", "undo", "genmove white"]
    choose(player, "f5d6c4d3")
    assert heard(tmp_path) == ["undo", "play white D6", "play black C4", "play white D3", "genmove black"]


def test_a_new_game_is_begun_and_not_come_to_by_taking_back(engine, tmp_path):
    player = engine("gtp", "plays", "C3", "F6")
    choose(player, "f5d6")
    heard(tmp_path)
    player.new_game()
    choose(player, "f5")
    assert heard(tmp_path) == ["clear_board", "play black F5", "genmove white"]


def test_without_undo_the_game_is_told_again(engine, tmp_path):
    player = engine("gtp", "plays", "C3", "F6", commands="")
    choose(player, "f5d6")
    heard(tmp_path)
    choose(player, "f5")
    assert heard(tmp_path) == ["clear_board", "play black F5", "genmove white"]


@pytest.mark.parametrize("how", ["plays", "refuses passes"])
def test_passes_are_told_but_need_not_be_taken(engine, tmp_path, how):
    player = engine("gtp", how, "a3", "A3", "D6")
    assert choose(player, PASSING).move == 16
    assert heard(tmp_path)[-3:] == ["play white C1", "play black PASS", "genmove white"]
    choose(player, PASSING)
    # Once it has passed by itself, nobody knows how many moves an undo takes back.
    assert heard(tmp_path)[0] == ("undo" if how == "plays" else "clear_board")
    choose(player, PASSING[:-2])
    assert heard(tmp_path)[0] == "clear_board"


def test_the_moves_are_found_if_nobody_tells_them(engine, tmp_path):
    player = engine("gtp", "plays", "C3", "C4", "F6")
    choose(player, "f5d6", told=False)
    assert heard(tmp_path) == ["clear_board", "play black F5", "play white D6", "genmove black"]
    choose(player, "f5d6c3d3", told=False)
    assert heard(tmp_path) == ["play white D3", "genmove black"]
    choose(player, "f5", told=False)
    assert heard(tmp_path) == ["undo"] * 4 + ["genmove white"]


def test_another_start_is_loaded_from_a_file(engine, tmp_path):
    shown = str(OTHER_START).replace("\n", "/")
    legal = OTHER_START.legal_moves[0]
    name = move_name(legal)
    player = engine("gtp", "plays", shown, name, commands="loadsgf showboard")
    assert player.choose(OTHER_START, None, Line(OTHER_START, ())).move == legal
    loaded = heard(tmp_path)[1]
    assert loaded.startswith("loadsgf ")
    assert not Path(loaded.split()[1]).exists()
    assert engine("gtp", "draws nothing", name, commands="loadsgf showboard").choose(OTHER_START).move == legal
    other = str(START).replace("\n", "/")
    with pytest.raises(PlayerFailure, match="did not set up the start"):
        engine("gtp", "plays", other, name, commands="loadsgf showboard").choose(OTHER_START)
    with pytest.raises(PlayerFailure, match="it has no command loadsgf"):
        engine("gtp", "plays", name).choose(OTHER_START)


def test_drawn_boards_are_read_in_several_styles():
    rhino = "Next move: White\n    a b c\n" + "\n".join(f"  {n} . . . . X O . ." for n in range(1, 9))
    assert drawn_board(rhino) == "----XO--" * 8
    upside_down = "\n".join(f"{n}|*|o|-|-|-|-|-|-| {n}" for n in range(8, 0, -1))
    assert drawn_board(upside_down) == "XO------" * 8
    assert drawn_board("no board") is None


def test_our_own_command_is_only_for_us(engine, tmp_path):
    engine("gtp", commands="othello_nn-warm_up").warm_up()
    assert heard(tmp_path) == ["othello_nn-warm_up"]
    engine("gtp").warm_up()
    assert heard(tmp_path) == []


def test_time_is_told(engine, tmp_path):
    clocks = "time_settings time_left"
    choose(engine("gtp", "plays", "C3", commands=clocks, keys=":seconds=2.5"), "f5d6")
    assert heard(tmp_path)[1] == "time_settings 0 2 1"
    player = engine("gtp", "plays", "C3", "C4", commands=clocks)
    choose(player, "f5d6", remaining=30.9)
    assert heard(tmp_path)[-3:] == ["time_settings 30 0 0", "time_left black 30 0", "genmove black"]
    choose(player, "f5d6c3d3", remaining=20)
    assert heard(tmp_path)[-2:] == ["time_left black 20 0", "genmove black"]
    with pytest.raises(PlayerError, match="has no command time_settings"):
        engine("gtp", "plays", keys=":seconds=2").warm_up()


# --- what goes wrong -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "answer", "message"),
    [
        ("plays", "xyzzy", "answered 'xyzzy', which is no move"),
        ("plays", "", "answered '', which is no move"),
        ("plays", "A1", "answered 'A1', which is not legal; legal moves: c3, c4, c5, c6, c7"),
        ("plays", "resign", "resigned"),
        ("refuses", "", "makes no move: I would rather not"),
        ("crashes", "", "has ended with exit code 1: Segmentation fault, or so"),
    ],
)
def test_failures_say_what_happened(engine, how, answer, message):
    player = engine("gtp", how, answer)
    with pytest.raises(PlayerFailure, match=r"^[^\n]*$") as error:
        choose(player, "f5d6")
    assert message in str(error.value)
    assert not error.value.timed_out
    assert error.value.log.startswith("> boardsize 8\n< =\n> clear_board\n< =\n> play black F5\n")
    last = error.value.log.split("> genmove black\n")[1].splitlines()[0]
    others = {"crashes": "! Segmentation fault, or so", "refuses": "< ? I would rather not"}
    assert last == others.get(how, f"< = {answer}".strip())


@pytest.mark.parametrize("how", ["hangs", "talks without end"])
def test_a_program_that_hangs_is_not_waited_for(engine, how):
    player = engine("gtp", how)
    greet_and_lose_patience(player)
    started = time.monotonic()
    with pytest.raises(PlayerFailure, match=r"did not answer '[a-z_ ]+' in time") as error:
        choose(player, "f5d6")
    assert error.value.timed_out
    assert time.monotonic() - started < HANG_SECONDS


def test_a_game_clock_ends_the_wait(engine, monkeypatch):
    monkeypatch.setattr("othello_nn.players.external.player.GRACE_SECONDS", 0.1)
    player = engine("gtp", "hangs")
    player.warm_up()
    started = time.monotonic()
    with pytest.raises(PlayerFailure, match="in time"):
        choose(player, "f5d6", remaining=0.3)
    assert 0.3 < time.monotonic() - started < HANG_SECONDS


@pytest.mark.parametrize(("how", "answer"), [("complains", "C3"), ("chatters", "C3"), ("plays", " c3 ")])
def test_harmless_habits(engine, how, answer):
    assert choose(engine("gtp", how, answer), "f5d6").move == 18


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("dies at once", "has ended with exit code 1: the weights are missing"),
        ("never answers", "did not answer 'protocol_version' in time"),
        ("is too old", "speaks version '1' of GTP"),
    ],
)
def test_a_program_that_does_not_start_is_a_players_mistake(engine, monkeypatch, how, message):
    if how == "never answers":
        monkeypatch.setattr("othello_nn.players.external.player.GREETING_SECONDS", 0.2)
    player = engine("gtp", how)
    with pytest.raises(PlayerError, match=r"^[^\n]*$") as error:
        player.warm_up()
    assert message in str(error.value)


def test_after_a_failure_a_new_game_begins_with_a_new_process(engine, tmp_path):
    player = engine("gtp", "plays", "A1", "C3")
    for _ in range(2):
        with pytest.raises(PlayerFailure, match="'A1'"):
            choose(player, "f5d6")
    (first,) = process_numbers(tmp_path)
    assert has_ended(first)
    player.new_game()
    with pytest.raises(PlayerFailure, match="'A1'"):
        choose(player, "f5d6")
    assert len(process_numbers(tmp_path)) == 2


def test_no_process_is_started_by_making_a_player(engine, tmp_path):
    engine("gtp")
    assert not (tmp_path / "log").exists()


def test_all_processes_end_together(engine, tmp_path):
    player = engine("gtp", "has a child")
    greet_and_lose_patience(player)
    numbers = process_numbers(tmp_path)
    assert len(numbers) == 2
    assert all(runs(number) and os.getsid(number) != os.getsid(0) for number in numbers)
    with pytest.raises(PlayerFailure):
        choose(player, "f5d6")
    assert all(has_ended(number) for number in numbers)


@pytest.mark.parametrize("ending", ["close", "forgotten", "Ctrl-C"])
def test_no_process_is_left_behind(tmp_path, ending):
    script, log = tmp_path / "fake.py", tmp_path / "log"
    script.write_text(GTP_FAKE)
    command = shlex.join([sys.executable, str(script), "has a child", "", str(log)])
    program = f"""
from othello_nn.players import make_player
import time
player = make_player({f"gtp:{command}"!r})
player.warm_up()
if {ending!r} == "close":
    player.close()
print("ready", flush=True)
if {ending!r} == "Ctrl-C":
    time.sleep(60)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout.readline() == b"ready\n"
    if ending == "Ctrl-C":
        process.send_signal(signal.SIGINT)
    process.communicate(timeout=HANG_SECONDS)
    assert all(has_ended(number) for number in process_numbers(tmp_path))


def test_stop_ends_the_wait_and_the_player_can_go_on(engine):
    player = engine("gtp", "hangs")
    player.warm_up()
    player.stop()  # nothing is running, so nothing is stopped
    caught = []

    def play():
        try:
            choose(player, "f5d6")
        except PlayerFailure as failure:
            caught.append(failure)

    thread = threading.Thread(target=play)
    thread.start()
    until = time.monotonic() + HANG_SECONDS
    while thread.is_alive() and time.monotonic() < until:
        player.stop()
        thread.join(0.02)
    assert not thread.is_alive()
    assert "was stopped" in str(caught[0])


def test_random_moves_are_the_players_own(engine, tmp_path):
    player = engine("gtp", "crashes", keys=":epsilon=1")
    assert choose(player, "f5d6").move in START.replay("f5d6").legal_moves
    assert player.varies
    assert not engine("gtp").varies


# --- NBoard ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", ["d3/1.50/0.3", "D3 1.50 0.3", "D3/1.50"])
def test_nboard_answers(engine, tmp_path, answer):
    choice = choose(engine("nboard", "plays", answer, keys=":depth=8"), "")
    assert (choice.move, choice.score, choice.depth, choice.nodes, choice.pv) == (19, 1.5, 14, 123456, (19, 34))
    told = heard(tmp_path)
    assert told[0] == "set depth 8"
    assert told[1].startswith("set game (;GM[Othello]")
    assert told[2:] == ["go"]


def test_nboard_is_told_moves(engine, tmp_path):
    player = engine("nboard", "proves", "C3", "D3//0.1", "F6")
    choose(player, "f5d6")
    assert heard(tmp_path)[2:] == ["move F5", "move D6", "go"]
    proved = choose(player, "f5d6c3", remaining=60)
    assert heard(tmp_path) == ["move C3", "go"]
    assert (proved.score, proved.exact) == (4.0, True)
    choose(player, "f5")
    assert [text.split("(")[0] for text in heard(tmp_path)] == ["set game ", "move F5", "go"]
    assert player.engine_name == "Fake 1"


def test_nboard_can_be_given_any_start(engine, tmp_path):
    legal = OTHER_START.legal_moves[0]
    player = engine("nboard", "plays", move_name(legal))
    assert player.choose(OTHER_START).move == legal
    rows = OTHER_START.board_string().replace("X", "*")
    assert f"BO[8 {' '.join(rows[i : i + 8] for i in range(0, 64, 8))} *]" in heard(tmp_path)[1]


@pytest.mark.parametrize(
    ("how", "answer", "message"),
    [
        ("plays", "A1/0/0", "answered 'A1', which is not legal"),
        ("plays", "", "answered '', which is no move"),
        ("crashes", "", "has ended with exit code 3"),
        ("hangs", "", "in time"),
    ],
)
def test_nboard_failures(engine, how, answer, message):
    player = engine("nboard", how, answer)
    if how == "hangs":
        greet_and_lose_patience(player)
    with pytest.raises(PlayerFailure) as error:
        choose(player, "f5d6")
    assert message in str(error.value)


# --- whole games -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["gtp", "nboard"])
def test_our_own_engine_can_be_driven(protocol):
    command = shlex.join([sys.executable, str(ROOT / "play.py"), "engine", protocol, "--player", "swh"])
    player, same = make_player(f"{protocol}:{command}"), make_player("swh")
    position, moves = START, ()
    try:
        while not position.is_over:
            choice = player.choose(position, None, Line(START, moves))
            if protocol == "nboard" and not position.must_pass:
                assert choice.score == pytest.approx(same.choose(position).score, abs=0.01)
            position, moves = position.play(choice.move), (*moves, choice.move)
    finally:
        player.close()
    assert player.engine_name == "othello_nn swh"


def test_our_own_engine_can_be_given_any_start_over_gtp():
    command = shlex.join([sys.executable, str(ROOT / "play.py"), "engine", "gtp", "--player", "swh"])
    player = make_player(f"gtp:{command}")
    try:
        assert player.choose(OTHER_START).move in OTHER_START.legal_moves
    finally:
        player.close()


MOODY = """
import os, signal, sys, time
how, root = sys.argv[1:]
sys.path.insert(0, root)
from othello_nn import Position
from othello_nn.game.notation import move_name
asked, position = 0, Position.start()
for line in sys.stdin:
    command, *words = line.split()
    text = {"protocol_version": "2", "list_commands": "play\\ngenmove\\nclear_board"}.get(command, "")
    if command == "clear_board":
        position = Position.start()
    elif command == "play":
        position = position.play(words[1].lower())
    elif command == "genmove":
        asked += 1
        if asked == 4 and how == "is killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if asked == 4 and how == "hangs":
            time.sleep(600)
        move = position.legal_moves[0]
        position = position.play(move)
        text = "xyzzy" if asked == 4 else move_name(move)
    print("=", text, end="\\n\\n", flush=True)
"""


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("is killed", "the program was ended by signal 9"),
        ("hangs", "the program did not answer 'genmove"),
        ("talks rubbish", "the program answered 'xyzzy'"),
    ],
)
def test_an_engine_that_fails_in_mid_game_loses_it_and_the_match_goes_on(tmp_path, how, reason):
    script = tmp_path / "moody.py"
    script.write_text(MOODY)
    words = shlex.join([sys.executable, str(script), how, str(ROOT)])
    patience = ":timeout=10" if how == "hangs" else ""  # a thousand times what an answer takes
    result = play_match("most-discs", f"gtp:{words}{patience}", make_openings("all:1", None)[:1], jobs=2)
    assert (result.games, result.wins) == (2, 2)
    assert [one.game.ending for one in result.played] == ["forfeit"] * 2
    assert all(reason in one.game.comment for one in result.played), result.played[0].game.comment
    assert all(one.white_effort.moves + one.black_effort.moves > 5 for one in result.played)  # it was in mid-game
    assert "> genmove" in result.played[0].log


def test_a_match_with_a_real_engine():
    try:
        make_player("gtp:gtp-rhino")
    except PlayerError:
        pytest.skip("gtp-rhino (Debian's grhino) is not installed")
    result = play_match("random", "gtp:gtp-rhino --level=1", make_openings("leouski60", 2, 0), 4, jobs=2)
    assert result.games == 4
    assert result.losses >= 3
