"""Damaged lines to our engine, and programs that mean us harm. Read ``trials.py`` first."""

from __future__ import annotations

import io
import random
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.faults.texts import Reader, some_games, text_of
from benchmarks.faults.trials import Damage, Trial, Wrong
from othello_nn.arena.match import play_match
from othello_nn.arena.openings import make_openings
from othello_nn.cli.engine.gtp import GtpEngine
from othello_nn.cli.engine.nboard import NBoardEngine
from othello_nn.cli.engine.thread import PlayerThread
from othello_nn.errors import OthelloError
from othello_nn.game.formats.ggf import format_ggf
from othello_nn.game.formats.sgf import format_sgf

ANSWER = re.compile(r"[=?][0-9]*( [^\n]*)?(\n[^\n]+)*")
SQUARES = [b"f5", b"D6", b"a1", b"PASS", b"z9", b"h8"]
GTP = """protocol_version; name; version; known_command play; list_commands; boardsize 8; clear_board; komi 6.5;
play black f5; play white d6; genmove black; genmove white; reg_genmove b; undo; showboard; time_settings 60 10 5;
time_left black 30 0; final_score; set_game Othello; list_games; loadsgf game.sgf; loadsgf game.sgf 3;
gogui-rules_board; gogui-rules_legal_moves; gogui-rules_final_result"""
MOST_LINES = 50
NBOARD = "nboard 2; set depth 3; set contempt 5; move F5; D6//1.5; hint 2; go; learn; analyze; ping 3"


class RefusedError(OthelloError):
    """What a protocol says with an answer of its own."""


def _commands(text: str) -> list[bytes]:
    return [line.strip().encode() for line in text.split(";")]


def _answered(engine: GtpEngine, line: str) -> bool:
    """Whether a line is accepted; an answer must look like one, and a failure must leave everything as it was."""
    before = engine.game
    answer = engine.answer(line)
    if answer is None:
        return True
    if not ANSWER.fullmatch(answer) or len(answer) > 10_000 + 2 * len(line.encode()):
        raise Wrong(f"not an answer: {answer[:200]!r}")
    if answer.startswith("?") and engine.game != before:
        raise Wrong("a command that failed has changed the game")
    return answer.startswith("=")


def gtp() -> Reader:
    """A session of some lines."""
    Path("game.sgf").write_text(format_sgf(some_games()[1:2]))
    thinker = PlayerThread("most-discs")

    def read(data: bytes) -> None:
        engine = GtpEngine(thinker)
        answered = [_answered(engine, line) for line in text_of(data).split("\n")[:MOST_LINES]]
        if not all(answered):
            raise RefusedError("an error was told")

    commands = _commands(GTP)
    words = [b"\n", b" ", b"\t", b"#", b"7 ", b"\x07", b"black", b"w", *SQUARES]
    return Reader([*commands, b"\n".join(commands)], words, read, demanding=False)


def gtp_lines() -> Trial:
    """To an engine that goes on, so that its state is any state that such lines lead to."""
    reader, engine = gtp(), GtpEngine(PlayerThread("most-discs"))
    damage = Damage(reader.samples[:-1], reader.words)

    def trial(rng: random.Random) -> bool:
        return _answered(engine, text_of(damage(rng)[0]).split("\n")[0])

    return trial


def nboard() -> Reader:
    """A session of some lines, and a ping that must be answered after them."""
    thinker = PlayerThread("most-discs")

    def read(data: bytes) -> None:
        lines = [line for line in text_of(data).split("\n")[:MOST_LINES] if line.split(" ")[0].strip() != "quit"]
        out = io.StringIO()
        NBoardEngine(thinker).run([*lines, "ping 99"], out)
        if "pong 99\n" not in out.getvalue():
            raise Wrong(f"a ping is not answered after {lines!r}"[:500])
        if "status error" in out.getvalue():
            raise RefusedError("an error was told")

    games = [f"set game {format_ggf([game]).strip()}".encode() for game in some_games()]
    words = [b"\n", b" ", b"//", b"set ", b"move ", b"(;", b"]", *SQUARES]
    return Reader([*_commands(NBOARD), *games], words, read, demanding=False)


def nboard_lines() -> Trial:
    reader = nboard()
    damage = Damage(reader.samples, reader.words)

    def trial(rng: random.Random) -> bool:
        reader.read(b"\n".join(damage(rng)[0] for _ in range(rng.randint(1, 4))))
        return True

    return trial


# --- programs as players ---------------------------------------------------------------------------------------------

HOSTILE = """
import os, random, sys, time
rng = random.Random(sys.argv[1])
habits = "dies floods line rubbish refuses empty closes half digits nul early slow".split()
habit, at, asked = rng.choice(habits), rng.randint(1, 12), 0
junk = bytes(rng.randrange(256) for _ in range(5000))

def say(text):
    os.write(1, text if isinstance(text, bytes) else text.encode())

def forever(text):
    while True:
        say(text)

for line in sys.stdin:
    asked += 1
    words = line.split() or [""]
    gtp = words[0] not in ("nboard", "set", "move", "ping", "go")
    if asked > at:
        if habit == "dies":
            os._exit(rng.randrange(256))
        elif habit == "floods":
            forever("= D3\\n" + "x" * 3000 + "\\n")
        elif habit == "line":
            forever("=" * 5000)
        elif habit == "rubbish":
            say(junk)
        elif habit == "refuses":
            say("? " + "no " * 2000 + "\\n\\n")
        elif habit == "empty":
            say("\\n" * 100)
        elif habit == "closes":
            os.close(1)
            time.sleep(600)
        elif habit == "half":
            say("= D")
            os._exit(0)
        elif habit == "digits":
            nines = "9" * 5000
            say(f"search D3 {nines} 0 {nines}\\n=== D3/{nines}\\n= {nines}\\n\\n")
        elif habit == "nul":
            say(b"= D3\\0\\0\\n\\n=== D3\\0\\n")
        elif habit == "early":
            say("= D3\\n\\n" * 50 + "=== F5\\n" * 50 + "pong 1\\npong 2\\n")
        elif habit == "slow":
            time.sleep(600)
    if words[0] == "protocol_version":
        say("= 2\\n\\n")
    elif words[0] == "ping":
        say("pong " + words[1] + "\\n")
    elif words[0] == "go":
        say("=== D3\\n")
    elif words[0] == "genmove":
        say("= D3\\n\\n")
    elif gtp:
        say("=\\n\\n")
"""


def hostile_engines() -> Trial:
    """Two games against a program that goes wrong at some moment: it loses them, for a reason of one line."""
    script = Path("hostile.py").resolve()
    script.write_text(HOSTILE)
    openings = make_openings("all:1", None)[:1]

    def trial(rng: random.Random) -> bool:
        words = shlex.join([sys.executable, str(script), str(rng.random())])
        result = play_match("most-discs", f"{rng.choice(('gtp', 'nboard'))}:{words}:timeout=1", openings)
        if result.games != 2 or result.wins != 2:
            raise Wrong(f"{result.games} games, {result.wins} won")
        for one in result.played:
            if not one.forfeited or "\n" in one.game.comment or not 0 < len(one.game.comment) <= 500:
                raise Wrong(f"not a clear reason: {one.game.comment!r}")
            if len(one.log) > 20_000:
                raise Wrong(f"a log of {len(one.log)} characters")
        return False

    return trial


READERS: dict[str, Callable[[], Reader]] = {"GTP": gtp, "NBoard": nboard}
KINDS: dict[str, Callable[[], Trial]] = {"GTP lines": gtp_lines, "NBoard lines": nboard_lines}
