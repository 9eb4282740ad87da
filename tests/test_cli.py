"""The command line: what is printed where, exit codes, and what is said about mistakes.

Programs are started for what only a program can show (imports, signals, pipes, terminals); the rest runs in this
process.
"""

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from patience import HANG_SECONDS, wait_for_work

from othello_nn.cli import main as cli
from othello_nn.cli import positions as solving
from othello_nn.engine import Options, solve
from othello_nn.game import Position
from othello_nn.game.formats.files import read_games
from othello_nn.game.formats.obf import ObfEntry
from othello_nn.game.rules import perft
from othello_nn.players import parse_spec

ROOT = Path(__file__).resolve().parent.parent
# An ending from random play, with the scores that the plain negamax of `rules.solve` gives its moves. Like many boards
# it begins as an option would.
SMALL = "--X-OXX-OXXXOOXOXOXXO-OXXXOXOOXOXXOOXOX-XXOOOOX-XOOOOOXOXOOOOOO- X"
LISTED = f"{SMALL}; d1:+16; h1:+14; h8:+2; f3:-4; a1:-6; h5:-8;"
WRONG = f"{SMALL}; d1:+14; h1:+14;"
COMMANDS = [
    "serve",
    "solve",
    "bestmove",
    "analyze",
    "perft",
    "players",
    "match",
    "tournament",
    "league",
    "book",
    "convert",
    "engine",
]


def start(*words: str, **keywords) -> subprocess.Popen:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | keywords
    return subprocess.Popen([sys.executable, str(ROOT / "play.py"), *words], env=environment, encoding="utf-8", **pipes)


def finish(process: subprocess.Popen) -> tuple[str, str]:
    try:
        return process.communicate(timeout=HANG_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        raise


def run(*words: str) -> subprocess.CompletedProcess:
    process = start(*words)
    out, error = finish(process)
    return subprocess.CompletedProcess(words, process.returncode, out, error)


@pytest.fixture
def play(capsys):
    """Run a command in this process: (exit code, stdout, stderr)."""

    def call(*words: str) -> tuple[int, str, str]:
        code = cli.main(words)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def one_line(text: str) -> str:
    assert text.endswith("\n")
    assert text.count("\n") == 1
    assert "Traceback" not in text
    return text.strip()


# --- help ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [(), *((command,) for command in COMMANDS)])
def test_help_is_quick_and_imports_nothing_heavy(words):
    code = (
        "import sys; sys.argv = ['play.py', *sys.argv[1:], '--help']\n"
        "import runpy\n"
        "try: runpy.run_path('play.py', run_name='__main__')\n"
        "except SystemExit as end: assert not end.code\n"
        "print(sorted({'numpy', 'numba', 'torch', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=ROOT, capture_output=True, encoding="utf-8", timeout=HANG_SECONDS
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"
    assert "examples:" in done.stdout
    assert "python play.py" in done.stdout


def test_help_names_every_command_and_no_other(play):
    with pytest.raises(SystemExit) as end:
        play("--help")
    assert end.value.code == 0
    assert list(cli._COMMANDS) == COMMANDS


def test_the_examples_in_the_help_can_be_typed():
    texts = [cli.MAIN_EXAMPLES, *(command[3] for command in cli._COMMANDS.values())]
    lines = [line.strip() for text in texts for line in text.splitlines() if line.startswith("  python play.py ")]
    assert len(lines) > 12
    for line in lines:
        arguments = cli.parse(line.split("     ")[0].split()[2:])
        for spec in (getattr(arguments, name, None) for name in ("a", "b", "player")):
            assert spec is None or set(parse_spec(spec).name) <= set("abcdefghijklmnopqrstuvwxyz-")
        if getattr(arguments, "position", None):
            solving.read_position(arguments.position)


def test_without_a_command_a_game_begins():
    done = run()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("You play black against ")
    assert done.stdout.endswith("end of input\ngame: no moves yet\n")


# --- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sovle", "start"], "unknown command 'sovle'; did you mean 'solve'?"),
        (["--player", "rndom"], "unknown player 'rndom'; did you mean 'random'?"),
        (["--player", "swh:dept=1"], "did you mean 'depth'?"),
        (["--player", "random", "--level", "3"], "random has no key 'depth'"),
        (["--level", "99", "--player", "swh"], "there is no level 99; levels go from 1 (easy) to 9 (hard)"),
        (["--colour", "white"], "play.py cannot use '--colour'; did you mean '--color'?"),
        (["--color", "blue"], "invalid choice: 'blue'"),
        (["--clock", "0"], "'0' is not a number of seconds"),
        (["--position", "f5a1"], "move 2 (a1): a1 flips nothing"),
        (["--player", "swh", "slove"], "play.py cannot use 'slove'; see play.py --help"),
        (["--player", "swh", "perft", "3"], "a command comes first, as in play.py perft --help"),
        (["solve", "--jsno", "start"], "solve cannot use '--jsno'; did you mean '--json'?"),
        (["solve"], "no position is given"),
        (["solve", "z9"], "does not start with a square"),
        (["solve", "f5a1"], "move 2 (a1): a1 flips nothing; legal moves: "),
        (["solve", SMALL[:64]], "the side to move is missing"),
        (["solve", f"-{SMALL}"], "follows a board that was already complete"),
        (["solve", SMALL[:40]], "a board has 64 squares"),
        (["solve", "start", "--file", "x.obf"], "a position or --file, not both"),
        (["solve", "--file", "nowhere.obf"], "'nowhere.obf' cannot be read: No such file or directory"),
        (["solve", "start", "--threads", "0"], "'0' is not a whole number from 1"),
        (["solve", "start", "--threads", "65"], "'65' is not a whole number from 1 to 64"),
        (["solve", "start", "--seconds", "nan"], "'nan' is not a number of seconds"),
        (["bestmove", "start", "--player", "champoin"], "unknown player 'champoin'"),
        (["bestmove", "start", "--player", "swh:dept=1"], "did you mean 'depth'?"),
        (["perft", "x"], "'x' is not a whole number from 0"),
        (["perft", "99"], "40 is the most"),
        (["perft"], "DEPTH"),
        (["match", "swh"], "required: B"),
        (["match", "swh", "rndom"], "unknown player 'rndom'; did you mean 'random'?"),
        (["match", "swh", "random", "f5"], "match cannot use 'f5'"),
        (["match", "swh", "random", "--openings", "nowhere"], "no openings 'nowhere'"),
        (["match", "swh", "random", "--save", "games.doc"], "must end in .ggf or .sgf"),
        (["match", "swh", "random", "--save", "nowhere/games.ggf"], "there is no folder 'nowhere'"),
        (["players", "--all"], "players cannot use '--all'"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_two(play, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    code, out, error = play(*words)
    assert (code, out) == (2, "")
    assert message in one_line(error)


def test_a_damaged_line_is_named(play, tmp_path):
    path = tmp_path / "bad.obf"
    path.write_text(f"% two positions\n{LISTED}\n{SMALL[:30]} X;\n")
    code, out, error = play("solve", "--file", str(path))
    assert (code, out) == (2, "")
    assert "bad.obf: line 3: a board has 64 squares" in one_line(error)


def test_a_mistake_in_a_real_program_has_no_traceback():
    done = run("bestmove", "a1")
    assert done.returncode == 2
    assert "legal moves: d3, c4, f5, e6" in one_line(done.stderr)


# --- solve -----------------------------------------------------------------------------------------------------------


def test_solve_in_a_program_of_its_own():
    done = run("solve", *SMALL.split(), "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(one_line(done.stdout))
    assert {"position", "empties", "score", "best", "pv", "nodes", "seconds"} <= set(found)
    assert (found["position"], found["empties"], found["exact"]) == (SMALL, 8, True)
    assert (found["score"], found["best"], found["pv"][0]) == (16, "d1", "d1")
    Position.parse(SMALL).replay(" ".join(found["pv"]))


@pytest.mark.parametrize(
    "text", [SMALL, SMALL.lower(), SMALL.replace("-", "."), Position.start().to_text(), "f5 d6 c3"]
)
def test_positions_may_be_one_word_or_several(text):
    expected, words = Position.parse(text), text.split()
    for line in ([text], words, ["--json", *words], [words[0], "--json", *words[1:]], ["--threads", "2", *words]):
        assert solving.read_position(cli.parse(["solve", *line]).position) == expected


def test_solve_for_people(play):
    code, out, _ = play("solve", SMALL)
    assert code == 0
    assert out.startswith("score +16, best d1\nline d1")
    assert "8 empties" in out
    assert play("solve", "--wld", SMALL)[1].startswith("win, best ")
    code, out, _ = play("solve", f"{'X' * 60}---- O")
    assert (code, out.splitlines()[0]) == (0, "score -64, the game is over")


def test_a_file_is_checked_against_its_scores(play, tmp_path):
    path = tmp_path / "suite.obf"
    path.write_text(f"% a suite\n{LISTED}\n{WRONG}\n{SMALL};\n")
    code, out, _ = play("solve", "--file", str(path))
    assert code == 1
    _, right, wrong, _, total = out.splitlines()
    assert right.endswith("right")
    assert wrong.endswith("wrong: +14 with d1, h1 is listed")
    assert total.startswith("3 positions: 1 right, 1 wrong, 1 without a listed score; ")
    code, out, _ = play("solve", "--file", str(path), "--json")
    found = [json.loads(line) for line in out.splitlines()]
    assert code == 1
    assert [(one["number"], one["right"], one["score"]) for one in found] == [
        (1, True, 16),
        (2, False, 16),
        (3, None, 16),
    ]


@pytest.mark.parametrize(
    ("listed", "right"),
    [(LISTED, True), (WRONG, True), (f"{SMALL}; d1:-2; h1:-2;", False), (f"{SMALL}; a1:+0;", False)],
)
def test_win_draw_loss_is_checked_by_its_sign(play, tmp_path, listed, right):
    path = tmp_path / "suite.obf"
    path.write_text(listed)
    code, out, _ = play("solve", "--file", str(path), "--wld", "--json")
    found = json.loads(out)
    assert (code, found["right"], found["score"], found["wld"]) == (0 if right else 1, right, 1, True)


def test_a_best_move_that_is_not_listed_is_wrong():
    position = Position.parse(SMALL)
    result = solve(position, options=Options(table_mb=1))
    assert solving.is_right(ObfEntry(position, {3: 16}), result, wld=False)
    assert not solving.is_right(ObfEntry(position, {7: 16}), result, wld=False)
    assert solving.is_right(ObfEntry(position), result, wld=False) is None


@pytest.mark.parametrize("words", [["-"], ["--file", "-"]])
def test_stdin_is_a_file(play, monkeypatch, words):
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{LISTED}\n"))
    code, out, _ = play("solve", *words)
    assert code == 0
    assert "1 positions: 1 right, 0 wrong" in out
    monkeypatch.setattr(sys, "stdin", io.StringIO("% nothing\n"))
    code, _, error = play("solve", *words)
    assert (code, one_line(error)) == (2, "play.py: stdin holds no positions")


def test_what_is_not_solved_in_time_is_a_failure(play):
    code, out, error = play("solve", "f5d6c3d3c4", "--seconds", "0.05", "--json")
    assert code == 1
    assert json.loads(out)["exact"] is False
    assert "not solved within 0.05 seconds" in error


# --- bestmove --------------------------------------------------------------------------------------------------------


def test_bestmove_in_a_program_of_its_own():
    done = run("bestmove", "f5", "d6", "--player", "mobility:depth=4", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(one_line(done.stdout))
    assert {"move", "score", "exact", "depth", "pv", "nodes", "seconds"} <= set(found)
    assert found["depth"] == 4
    Position.parse("f5d6").play(found["move"])
    assert found["pv"][0] == found["move"]


def test_bestmove_for_people(play):
    code, out, _ = play("bestmove", "start", "--player", "mobility:depth=3")
    assert code == 0
    assert out.split()[0] in ("d3", "c4", "f5", "e6")
    assert "mobility:depth=3, depth 3, " in out
    code, out, _ = play("bestmove", f"{'O' * 62}X- X", "--player", "swh")
    assert (code, out.split()[0]) == (0, "pass")
    code, out, _ = play("bestmove", f"{'X' * 60}---- O", "--json", "--player", "random")
    assert json.loads(out)["move"] is None


def test_bestmove_has_a_second_unless_it_is_told_otherwise(play, monkeypatch):
    monkeypatch.setattr(solving, "BESTMOVE_SECONDS", 0.05)
    code, out, _ = play("bestmove", "start", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["player"] in ("champion", "mobility")
    assert found["depth"] > 1
    seeds = [
        json.loads(play("bestmove", "start", "--player", "random", "--seed", str(s), "--json")[1]) for s in range(9)
    ]
    assert len({found["move"] for found in seeds}) > 1


# --- perft -----------------------------------------------------------------------------------------------------------


def test_perft_in_a_program_of_its_own():
    done = run("perft", "7", "--json", "start")
    assert done.returncode == 0, done.stderr
    found = json.loads(one_line(done.stdout))
    assert (found["depth"], found["nodes"]) == (7, 55092)
    assert found["seconds"] > 0


def test_perft_counts_in_pieces_what_it_counts_at_once(play, monkeypatch):
    assert json.loads(play("perft", "9", "--json")[1])["nodes"] == 3005288
    monkeypatch.setattr(solving, "PERFT_PIECE", 3)
    assert json.loads(play("perft", "8", "--json")[1])["nodes"] == 390216
    assert json.loads(play("perft", "0", "--json")[1])["nodes"] == 1
    # Near the end there are passes, and games that are over before the depth is reached.
    ending = Position.parse(SMALL)
    assert json.loads(play("perft", "9", SMALL, "--json")[1])["nodes"] == perft(ending.mover, ending.opponent, 9)
    assert play("perft", "3")[1].startswith("perft 3: 56 leaves, ")


# --- players and match -----------------------------------------------------------------------------------------------


def test_players_are_listed(play):
    code, out, _ = play("players")
    assert code == 0
    for name in ("random", "most-discs", "fewest-discs", "swh", "mobility"):
        assert sum(line.startswith(f"{name} ") for line in out.splitlines()) == 1
    keys = ("depth", "nodes", "seconds", "solve", "epsilon", "gives", "threads", "probcut", "trust", "search", "table")
    for key in (*keys, "clock"):
        assert f"\n  {key} " in out
    code, out, _ = play("players", "--json")
    assert {"random", "swh", "mobility"} <= {json.loads(line)["name"] for line in out.splitlines()}


def test_match_in_a_program_of_its_own(tmp_path):
    saved = tmp_path / "games.ggf"
    done = run("match", "random", "swh", "--games", "20", "--json", "--seed", "3", "--save", str(saved))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found = json.loads(one_line(done.stdout))
    assert {"a", "b", "games", "wins", "draws", "losses", "score", "low", "high", "elo", "seconds"} <= set(found)
    assert found["wins"] + found["draws"] + found["losses"] == found["games"] == 20
    assert found["score"] == (found["wins"] + found["draws"] / 2) / 20 < 0.5
    assert found["low"] < found["score"] < found["high"]
    games = read_games(saved)
    assert len(games) == 20
    margins = [game.result if game.black == "random" else -game.result for game in games]
    assert sum(margin > 0 for margin in margins) == found["wins"]
    assert sum(margins) / 20 == found["mean_margin"]


def test_the_seed_decides_a_match(play):
    def outcome(seed: str) -> tuple:
        words = ("match", "random", "most-discs", "--games", "20", "--openings", "random:6", "--json", "--seed", seed)
        found = json.loads(play(*words)[1])
        return found["wins"], found["mean_margin"]

    assert outcome("1") == outcome("1")
    assert outcome("1") != outcome("2")


def test_a_match_for_people(play, tmp_path):
    path = tmp_path / "openings.txt"
    path.write_text("f5d6\nf5f6\n")
    code, out, error = play("match", "swh:depth=2", "mobility:depth=1", "--games", "9", "--openings", str(path))
    assert code == 0
    assert out.startswith("swh:depth=2 against mobility:depth=1, 4 games\nwins ")
    assert "Elo difference" in out
    assert "note: 4 games instead of 9" in error
    code, out, error = play("match", "random", "swh", "--games", "1", "--openings", "random:8")
    assert "note: 2 games instead of 1: every opening is played with both colours" in error


def test_a_match_as_a_test(play):
    words = ("match", "swh", "random", "--sprt", "0,100", "--games", "400")
    code, out, _ = play(*words)
    assert code == 0
    assert "test of +0 against +100 Elo: accepted: at least +100 Elo (LLR +" in out
    found = json.loads(play(*words, "--json")[1])
    assert (found["sprt"]["decision"], found["openings"]) == ("accept", "random:8")
    assert found["games"] < 400
    for bad in ("10", "10,0", "a,b", "1,2,3", "0,inf", "0,100000", "nan,0"):
        code, _, error = play("match", "swh", "random", "--sprt", bad)
        assert code == 2
        assert "write two Elo differences" in one_line(error)


def test_a_match_with_a_clock(play):
    words = ("match", "mobility:depth=2", "swh", "--games", "2", "--clock", "60", "--openings", "random:10", "--json")
    found = json.loads(play(*words)[1])
    assert (found["games"], found["time_losses_a"], found["time_losses_b"]) == (2, 0, 0)


# --- signals, pipes and terminals ------------------------------------------------------------------------------------

posix_only = pytest.mark.skipif(os.name != "posix", reason="signals and terminals of POSIX")


@posix_only
def test_ctrl_c_ends_a_match_and_keeps_its_games(tmp_path):
    saved = tmp_path / "games.sgf"
    process = start("match", "random", "swh", "--games", "100000", "--json", "--save", str(saved))
    wait_for_work(process, 1.5)
    process.send_signal(signal.SIGINT)
    out, error = finish(process)
    assert process.returncode == 130
    found = json.loads(one_line(out))
    assert found["interrupted"]
    assert 0 < found["games"] < 100000
    assert f"interrupted after {found['games']} of 100000 games" in error
    assert "Traceback" not in error
    assert len(read_games(saved)) == found["games"]


@posix_only
def test_a_full_disk_is_one_line():
    with open("/dev/full", "w") as full:  # noqa: PTH123 (a device)
        done = subprocess.run(
            [sys.executable, "play.py", "players"],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=HANG_SECONDS,
        )
    assert done.returncode == 1
    assert one_line(done.stderr).startswith("play.py: the output cannot be written: No space left")


@posix_only
@pytest.mark.parametrize("words", [("match", "swh", "random", "--openings"), ("analyze",), ("solve", "--file")])
def test_devices_without_end_are_refused(play, words):
    code, _, error = play(*words, "/dev/zero")
    assert code == 2
    assert "is a device, not a file" in one_line(error)


@pytest.mark.skipif(sys.platform != "linux", reason="others promise memory that they do not have")
def test_a_table_that_no_memory_is_there_for(play):
    code, _, error = play("bestmove", "start", "--player", "swh:depth=1,table=1048576")
    assert code == 2
    assert "there is no memory for a table of 1.04858e+06 MB" in one_line(error)


def test_a_number_of_thousands_of_digits_is_not_repeated(play):
    code, _, error = play("bestmove", "start", "--player", f"swh:depth={'3' * 5000}")
    assert code == 2
    assert len(one_line(error)) < 400


def test_a_missing_package_is_named(play, monkeypatch):
    def missing(name):
        raise ModuleNotFoundError("No module named 'numba'", name="numba")

    monkeypatch.setattr(cli.importlib, "import_module", missing)
    code, _, error = play("bestmove", "start")
    assert code == 1
    assert "the package 'numba' is not installed" in one_line(error)


@posix_only
def test_a_closed_pipe_is_no_accident():
    read, write = os.pipe()
    os.close(read)
    process = start("players", stdout=write)
    os.close(write)
    _, error = finish(process)
    assert "Traceback" not in error
    assert "BrokenPipe" not in error


@posix_only
def test_progress_is_for_terminals_and_never_on_stdout():
    import pty

    terminal, other_end = pty.openpty()
    process = start("match", "random", "swh", "--games", "60", "--json", stderr=other_end)
    os.close(other_end)
    seen = b""
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:  # the program has gone
            break
        if not part:
            break
        seen += part
    out, _ = finish(process)
    os.close(terminal)
    assert b"/60" in seen
    assert json.loads(one_line(out))["games"] == 60
