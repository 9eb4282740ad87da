"""Programs that mean harm, or are broken as if they did: they talk without end, and refuse to go.

What they say is bounded wherever it is kept: in memory, in the journal and in what the user reads.
"""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from patience import HANG_SECONDS, has_ended, wait_for_work

from othello_nn.arena.match import play_match
from othello_nn.arena.openings import make_openings
from othello_nn.game import Position
from othello_nn.players import PlayerFailure, make_player
from othello_nn.players.base import LOG_CHARACTERS, MESSAGE_CHARACTERS

ROOT = Path(__file__).resolve().parent.parent
START = Position.start()
MEGABYTE = 2**20
linux = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is looked up in /proc")
posix = pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="needs POSIX signals")

HOSTILE = """
import os, signal, sys, time
how, log = sys.argv[1:]
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
child = how == "thinks" and os.fork() == 0  # it ignores that it should end, too
with open(log, "a") as file:
    print(os.getpid(), file=file)
while child:
    time.sleep(600)
text = "x" * 60_000 + "\\n"

def flood(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        os.write(1, text.encode())

for line in sys.stdin:
    command = line.split()[0]
    if command == "nboard":
        print("set myname", text)
    elif command == "ping":
        print("pong", line.split()[1])
    elif command == "go":
        if how == "a line without end":
            text = text.strip()
            flood(600)
        elif how == "a story without end":
            flood(600)
        elif how == "many digits":
            nines = "9" * 5000
            print(f"search D3 {nines} 0 {nines}\\nnodestats {nines} 1\\n=== D3/{nines}")
    elif command == "genmove":
        if how == "an answer without end":
            os.write(1, b"= D3\\n")
            flood(600)
        elif how == "a line without end":
            text = text.strip()
            flood(600)
        elif how == "a long refusal":
            print("? " + text, end="\\n")
        elif how == "last words":
            os.write(2, text.encode() * 30)
            sys.exit(text)
        elif how == "thinks":
            time.sleep(600)
        else:
            print("= D3", end="\\n\\n", flush=True)
        if how == "between moves":
            flood(600)
    elif command == "protocol_version":
        print("= 2", end="\\n\\n")
    else:
        print("= ", end="\\n\\n")
    sys.stdout.flush()
"""


@pytest.fixture
def hostile(tmp_path):
    """How to write such a player; in the end all of them must be gone."""
    script, log = tmp_path / "hostile.py", tmp_path / "log"
    script.write_text(HOSTILE)

    def write(protocol: str, how: str) -> str:
        return f"{protocol}:{shlex.join([sys.executable, str(script), how, str(log)])}"

    yield write
    assert all(has_ended(int(number)) for number in log.read_text().split())


# --- what they say is bounded ----------------------------------------------------------------------------------------

REASONS = {
    ("gtp", "an answer without end"): "talks without end: more than",
    ("gtp", "a line without end"): "talks without end: more than",
    ("nboard", "a line without end"): "talks without end: more than",
    ("nboard", "a story without end"): "talks without end: more than",
    ("gtp", "a long refusal"): "makes no move: xxxxx",
    ("gtp", "last words"): "has ended with exit code 1: xxxxx",
}


@pytest.mark.parametrize(("protocol", "how"), REASONS)
def test_one_clear_reason(hostile, protocol, how):
    player = make_player(hostile(protocol, how))
    with pytest.raises(PlayerFailure, match=r"^[^\n]*$") as error:
        player.choose(START)
    player.close()
    assert REASONS[protocol, how] in str(error.value)
    assert len(str(error.value)) <= MESSAGE_CHARACTERS
    assert not error.value.timed_out
    assert len(error.value.log) <= LOG_CHARACTERS
    assert "xxxxx" in error.value.log


def test_digits_by_the_thousand_are_no_crash(hostile):
    player = make_player(hostile("nboard", "many digits"))
    choice = player.choose(START)
    player.close()
    assert (choice.move, choice.score, choice.depth, choice.nodes) == (19, None, 0, 0)
    assert len(player.engine_name) < 200


GROWTH = """
import resource, sys, time
from othello_nn.game import Position
from othello_nn.players import PlayerFailure, make_player

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

player = make_player(sys.argv[1])
player.warm_up()
before = peak()
try:
    player.choose(Position.start())
    time.sleep(2)  # of flood
    player.choose(Position.parse("d3c3"))
    reason = "none"
except PlayerFailure as failure:
    reason = str(failure)
player.close()
print(peak() - before, reason)
"""


@linux
@pytest.mark.parametrize(
    ("protocol", "how"), [("gtp", "an answer without end"), ("gtp", "between moves"), ("nboard", "a line without end")]
)
def test_memory_is_bounded(hostile, protocol, how):
    command = [sys.executable, "-c", GROWTH, hostile(protocol, how)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANG_SECONDS, check=True)
    kilobytes, reason = done.stdout.split(maxsplit=1)
    assert "talks without end" in reason
    assert int(kilobytes) < 64 * MEGABYTE / 1024


def test_the_journal_of_a_flooded_tournament_is_short(hostile, tmp_path):
    from othello_nn.cli.main import main

    journal = tmp_path / "games.jsonl"
    words = [hostile("gtp", "an answer without end"), hostile("gtp", "last words"), "--openings", "all:1"]
    assert main(["tournament", *words, "--games", "2", "--journal", str(journal)]) == 0
    _, *lines = map(json.loads, journal.read_text().splitlines())
    assert [line["ending"] for line in lines] == ["forfeit"] * 2
    assert journal.stat().st_size < 100_000


def test_a_players_own_story_is_cut_too():
    class Talker:
        name, varies = "talker", False

        def choose(self, position, remaining=None, line=None):
            raise PlayerFailure("x" * 10**6, "y" * 10**7)

        new_game = warm_up = stop = close = lambda self, *rest: None

    (first, *_) = play_match(Talker, "most-discs", make_openings("all:1", None)[:1]).played
    assert len(first.game.comment) <= MESSAGE_CHARACTERS
    assert len(first.log) <= LOG_CHARACTERS


# --- they go when we go ----------------------------------------------------------------------------------------------


def start(*words: str) -> subprocess.Popen:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    pipe = subprocess.PIPE
    command = [sys.executable, str(ROOT / "play.py"), *words]
    return subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, encoding="utf-8")


def programs(tmp_path: Path, count: int, process: subprocess.Popen) -> list[int]:
    """The programs and their children, once they are all there."""
    while process.poll() is None:
        with open(tmp_path / "log", "a+") as file:  # noqa: PTH123
            file.seek(0)
            found = [int(number) for number in file.read().split()]
        if len(found) >= count:
            return found
        time.sleep(0.02)
    raise AssertionError(process.communicate())


@pytest.fixture
def heeded():
    """Programs begin by heeding SIGHUP, also where the tests were started so that they do not (``nohup``)."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@posix
@pytest.mark.usefixtures("heeded")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("command", ["match", "tournament", "engine"])
def test_a_signal_ends_the_programs_too(hostile, tmp_path, command, number):
    first, second = hostile("gtp", "thinks"), f"{hostile('gtp', 'thinks')}:timeout=600"
    journal = tmp_path / "games.jsonl"
    words = {
        "match": ["match", first, second, "--jobs", "2"],
        "tournament": ["tournament", first, second, "--journal", str(journal), "--jobs", "2"],
        "engine": ["engine", "gtp", "--player", first],
    }[command]
    process = start(*words)
    if command == "engine":
        process.stdin.write("genmove black\n")
        process.stdin.flush()
    started = programs(tmp_path, 2 if command == "engine" else 8, process)
    process.send_signal(number)
    out, err = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 128 + number, (out, err)
    assert "Traceback" not in err
    assert all(has_ended(number) for number in started)
    assert not journal.exists(), "a game that was stopped is nobody's loss"


@posix
def test_an_ignored_signal_stays_ignored(tmp_path):
    """As under nohup."""
    process = subprocess.Popen(
        ["nohup", sys.executable, str(ROOT / "play.py"), "engine", "gtp", "--player", "swh"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
        env=os.environ | {"PYTHONPATH": str(ROOT)}, cwd=tmp_path,
    )  # fmt: skip
    process.stdin.write("name\n")
    process.stdin.flush()
    assert process.stdout.readline() == "= othello_nn swh\n"
    process.send_signal(signal.SIGHUP)
    out, _ = process.communicate("list_games\n", timeout=HANG_SECONDS)
    assert "= Othello" in out
    assert process.returncode == 0


# --- we go when they go ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("protocol", "output"), [("gtp", "is still read"), ("nboard", "is closed too")])
def test_thinking_ends_with_the_input(protocol, output):
    process = start("engine", protocol, "--player", "mobility:seconds=600")
    handshake = ("othello_nn-warm_up\n", "=") if protocol == "gtp" else ("nboard 2\n", "set myname")
    process.stdin.write(handshake[0])
    process.stdin.flush()
    assert process.stdout.readline().startswith(handshake[1])
    process.stdin.write("genmove black\n" if protocol == "gtp" else "go\n")
    process.stdin.flush()
    wait_for_work(process, 1)
    process.stdin.close()
    if output == "is closed too":
        process.stdout.close()
        process.wait(HANG_SECONDS)
    else:
        said = process.stdout.read()
        process.stdout.close()
        process.wait(HANG_SECONDS)
        assert ("= " if protocol == "gtp" else "\n=== ") in said, "what was asked is still answered"
    assert "Traceback" not in process.stderr.read()
    process.stderr.close()


def test_what_was_asked_before_the_end_is_answered():
    process = start("engine", "gtp", "--player", "mobility:seconds=600")
    out, err = process.communicate("genmove black\nplay white c3\ngenmove black\nshowboard\n", timeout=HANG_SECONDS)
    assert process.returncode == 0
    assert out.count("\n= ") + out.startswith("= ") >= 2, (out, err)
