"""The game in the terminal: what is drawn, what can be typed, and how it ends.

The loop runs in this process, with typed lines in a string and players that need no compiler.
"""

import _thread
import io
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from patience import HANG_SECONDS, wait_for_rest
from strategies import FINISHED

from othello_nn.cli.main import main
from othello_nn.cli.terminal import thinking
from othello_nn.cli.terminal.board import ASCII, PALETTE_16, PALETTE_256, UNICODE, Style, draw, find_style
from othello_nn.cli.terminal.commands import COMMANDS, complete
from othello_nn.cli.terminal.game import GameInPlay, clock_text
from othello_nn.cli.terminal.session import Session
from othello_nn.cli.terminal.thinking import at_level, explain, title
from othello_nn.cli.web.levels import LEVELS
from othello_nn.game import Position, move_name
from othello_nn.game.formats.files import read_games
from othello_nn.players import Choice, PlayerError, PlayerFailure, make_player, parse_spec

ROOT = Path(__file__).resolve().parent.parent
ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# Black takes c1 and c3 in any order; white can never move.
TWO_MOVES = Position.parse(f"XO{'-' * 14}XO{'-' * 46} X")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def play(*lines: str, player: str = "swh", seed: int = 1, terminal: bool = False, **keywords) -> tuple[str, Session]:
    """Type lines; what was printed, and the session after it. The exit code is ``session.code``."""
    kind = Terminal if terminal else io.StringIO
    typed, shown = kind("".join(f"{line}\n" for line in lines)), kind()
    session = Session(player, typed, shown, seed=seed, **keywords)
    session.code = session.run()
    return shown.getvalue(), session


def replies(text: str) -> list[str]:
    """What was said, without boards and prompts."""
    board = re.compile(r"( *[a-h]  b |    a  b|  [+┌└]|[1-8] [|│]|$)")
    return [line for line in text.splitlines() if not board.match(line) and "> " not in line]


# --- the board -------------------------------------------------------------------------------------------------------


def test_the_plain_board():
    text, _ = play("f5", "q", ascii_only=True, clock_seconds=300.0)
    assert (
        text
        == """\
You play black against swh. A move is a square, such as f5; help tells what else can be typed.

    a  b  c  d  e  f  g  h
  +------------------------+
1 |                        | 1    move 1
2 |                        | 2
3 |          .             | 3    X Black  2  05:00  you
4 |       .  O  X          | 4    O White  2  05:00  swh
5 |          X  O  .       | 5
6 |             .          | 6    Black to move
7 |                        | 7
8 |                        | 8
  +------------------------+
    a  b  c  d  e  f  g  h
Black> f5
White plays f6

    a  b  c  d  e  f  g  h
  +------------------------+
1 |                        | 1    move 3
2 |                        | 2
3 |          .             | 3    X Black  3  05:00  you
4 |       .  O  X          | 4    O White  3  05:00  swh
5 |          X  O  X       | 5
6 |             . [O]      | 6    Black to move
7 |                .       | 7    last: White f6
8 |                        | 8
  +------------------------+
    a  b  c  d  e  f  g  h
Black> q
game: f5f6
"""
    )


@pytest.mark.parametrize("signs", [UNICODE, ASCII])
@pytest.mark.parametrize("palette", [None, PALETTE_16, PALETTE_256])
@pytest.mark.parametrize("width", [20, 40, 80])
def test_boards_line_up_and_show_every_square(signs, palette, width):
    game = GameInPlay(Position.start(), moves=(37, 43, 18))
    position, last = game.position, 18
    style = Style(signs, palette, width)
    lines = draw(position, style, ["one", "", "two"], last=last, flipped=game.last_flips, legal=position.legal_mask)
    plain = [ANSI.sub("", line) for line in lines]
    assert all(len(line) <= width for line in plain)
    rows = [line for line in plain if line[:1] in tuple("12345678")]
    first, step = (4, 3) if style.framed else (2, 2)
    assert [line.index("a") for line in plain if " b " in line] == [first] * (2 if style.framed else 1)
    for row, line in enumerate(rows):
        line = line.ljust(width)
        for column in range(8):
            bit = 1 << 8 * row + column
            white = signs.white if palette is None else signs.painted_white
            empty = " " if style.framed or palette else "-"
            expected = (
                signs.black
                if position.black & bit
                else white
                if position.white & bit
                else signs.legal
                if position.legal_mask & bit
                else empty
            )
            assert line[first + step * column] == expected
    assert ("one" in rows[0]) == (width == 80)
    assert any("one" in line for line in plain)
    if palette is not None:
        painted = lines[plain.index(rows[last // 8])]
        assert painted.count(f"\x1b[{palette.last};") == 2  # the edge of the square and the square
        assert sum(line.count(f"\x1b[{palette.flipped};") for line in lines) == 2 * game.last_flips.bit_count()


def test_flips_and_the_last_turn_are_those_before_a_pass():
    game = GameInPlay(TWO_MOVES)
    game.play("c1")
    game.play("pass")
    assert (game.last_turn, move_name(game.moves[0]), game.last_flips, game.number) == (0, "c1", 1 << 1, 2)


class Stream(io.StringIO):
    def __init__(self, terminal: bool, encoding: str):
        super().__init__()
        self.terminal, self.named = terminal, encoding

    def isatty(self) -> bool:
        return self.terminal

    @property
    def encoding(self) -> str:
        return self.named


@pytest.mark.parametrize(
    ("terminal", "encoding", "environment", "signs", "palette"),
    [
        (True, "utf-8", {"TERM": "xterm-256color"}, UNICODE, PALETTE_256),
        (True, "utf-8", {"TERM": "vt220"}, UNICODE, PALETTE_16),
        (True, "utf-8", {"TERM": "xterm", "NO_COLOR": "1"}, UNICODE, None),
        (True, "utf-8", {"TERM": "xterm", "NO_COLOR": ""}, UNICODE, PALETTE_16),
        (True, "utf-8", {"TERM": "dumb"}, UNICODE, None),
        (True, "utf-8", {"TERM": "xterm-256color", "LANG": "ja_JP.UTF-8"}, ASCII, PALETTE_256),
        (True, "iso8859-1", {"TERM": "xterm"}, ASCII, PALETTE_16),
        (False, "utf-8", {"TERM": "xterm-256color"}, UNICODE, None),
        (False, "ascii", {}, ASCII, None),
        (False, "no such encoding", {}, ASCII, None),
    ],
)
def test_signs_and_colours_are_those_a_terminal_has(terminal, encoding, environment, signs, palette):
    style = find_style(Stream(terminal, encoding), environment=environment)
    assert (style.signs, style.palette) == (signs, palette)
    style = find_style(Stream(terminal, encoding), ascii_only=True, environment=environment)
    assert (style.signs, style.palette) == (ASCII, None)


def test_what_cannot_be_encoded_is_still_said():
    shown = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    assert Session("swh", io.StringIO("ünknown\nf5\n"), shown, seed=1).run() == 0
    text = shown.buffer.getvalue().decode("ascii")
    assert "unknown command '?nknown'" in text
    assert "[O]" in text


# --- moves and commands ----------------------------------------------------------------------------------------------


def test_mistakes_are_explained_and_the_game_goes_on():
    text, session = play(
        "a1", "d4", "z9", "udno", "pass", "F5", "undo 0", "show", "go", "level 10", "new blue", "hint x"
    )
    assert [line for line in replies(text)[1:] if not line.startswith("White plays")] == [
        "a1 flips nothing; legal moves: d3, c4, f5, e6",
        "d4 is occupied; legal moves: d3, c4, f5, e6",
        "'z9' is not a square: give a column a-h and a row 1-8, such as f5",
        "unknown command 'udno'; did you mean 'undo'?",
        "passing is not allowed; legal moves: d3, c4, f5, e6",
        "undo takes a number of turns, not '0'",
        "write show on or show off",
        "it is your turn; hint tells what the player would do",
        "there is no level 10; levels go from 1 (easy) to 9 (hard)",
        "'blue' is no colour; choose from black, white, random, both, none",
        f"unknown player 'x'; choose from {', '.join(thinking.player_names())}, a path that ends in .safetensors",
        "end of input",
        "game: f5f6",
    ]
    assert session.code == 0


def test_help_lists_every_command_and_each_is_known():
    text, _ = play("help")
    names = [line.split()[0] for line in text.splitlines() if line.startswith("  ") and line[2].islower()]
    assert len(names) > 12
    for name in names[1:]:
        text, _ = play(name, player="random")
        assert "unknown" not in text


def test_undo_goes_back_to_the_users_turns_over_passes():
    text, session = play("c1", "undo", "undo", "moves", "c3", "c1", "undo 2", start=TWO_MOVES)
    assert text.count("White has no legal move and passes.") == 2
    assert "there is no move of yours to take back" in text
    assert "legal for Black: c1 c3" in text
    assert "Game over: Black wins, 64 to 0 (58 empty squares counted for the winner). You have won!" in text
    assert session.game.position == TWO_MOVES
    text, session = play("f5", "e6", "undo")
    assert session.game.position == Position.parse("f5f6")
    # As white, the player's own first move is not the user's to take back.
    assert "no move of yours" in play("undo", colour="white")[0]


def test_what_was_taken_back_comes_again_until_something_else_is_played():
    text, session = play("f5", "e6", "u 2", "redo", "board", "r", "redo")
    assert len(session.game.moves) == 4
    assert text.count("nothing was taken back that could be played again") == 1
    assert text.count("move 3") == 3  # after f5, after the first redo, and on request
    text, session = play("f5", "undo", "e6", "redo")
    assert "nothing was taken back" in text
    assert move_name(session.game.moves[0]) == "e6"
    text, session = play("c1", "c3", "undo 2", "redo 2", start=TWO_MOVES)  # with the passes between them
    assert session.game.is_over
    assert text.count("Game over: ") == 2
    assert "redo takes a number of turns, not 'x'" in play("redo x")[0]


def test_who_resigns_has_lost_all_discs(tmp_path):
    path = tmp_path / "given-up.ggf"
    text, session = play("f5", "resign", "e6", "resign", f"save {path}", "redo", "undo", "e6")
    assert "Game over: Black has resigned: White wins. You have lost." in text
    assert "e6 cannot be played: the game is over" in text
    assert "the game is over already" in text
    assert (read_games(path)[0].result, read_games(path)[0].ending) == (-64, "resigned")
    assert len(session.game.moves) == 4  # undo has taken back the resignation alone
    assert "Game over: White has resigned: Black wins." in play("f5", "resign", colour="both")[0]


def test_several_moves_are_played_in_turn():
    for line in ("f5 d6 c3", "F5D6C3", "f5 d6c3"):
        assert play(line, colour="both")[1].game.transcript == "f5d6c3"
    assert play("f5 d6", player="swh")[1].game.transcript == "f5d6"
    text, session = play("f5 d6 a1", "f5 save")
    assert "move 3 of 3: a1 flips nothing" in text
    assert "'save' is not a square; only moves can follow a move" in text
    assert not session.game.moves
    assert play("c1 c3", start=TWO_MOVES)[1].game.is_over  # white's pass need not be written


def test_short_forms():
    text, _ = play("mov", "sho on", "re", "n", "sav")
    assert "legal for Black" in text
    assert "thoughts are shown" in text
    assert "'re' can be redo or resign" in text
    assert "unknown command 'n'" in text
    assert "save needs" in text


def test_words_are_completed():
    session = Session("swh", io.StringIO(), io.StringIO())
    assert complete(session, "") == ["d3 ", "c4 ", "f5 ", "e6 ", *(f"{name} " for name in COMMANDS)]
    assert complete(session, "un") == ["undo "]
    assert complete(session, "show o") == ["on ", "off "]
    assert complete(session, "new w") == ["white "]
    assert complete(session, "quit ") == []


def test_a_side_that_cannot_move_passes_whoever_it_is():
    text, session = play(colour="white", start=TWO_MOVES)
    assert text.count("White has no legal move and passes.") == 1
    assert "Game over: Black wins, 64 to 0 (58 empty squares counted for the winner). You have lost." in text
    assert (session.code, session.game.moves[1]) == (0, -1)


def test_sides_are_swapped():
    text, session = play("f5", "swap", "swap")
    assert "you play white now\nBlack plays " in text
    assert session.colour == "black"
    assert "no sides to swap" in play("swap", colour="both")[0]


def test_two_people_and_none():
    text, session = play("f5", "d6", "undo", "hint", colour="both")
    assert session.game.position == Position.parse("f5")
    assert "swh would play f6: +0.2 for White" in text
    text, session = play("save! out.doc", player="random", colour="none")
    assert session.game.is_over
    assert re.search(r"Game over: (Black|White) wins, \d+ to \d+\.\ngame: ([a-h][1-8])+\ngame over> ", text)
    assert text.count("│ 1    game over") == 1
    assert play(player="random", colour="none")[1].game.moves == session.game.moves
    assert play(player="random", colour="none", seed=2)[1].game.moves != session.game.moves


def test_a_random_colour_is_drawn_anew_for_each_game():
    text, _ = play(*["new"] * 20, colour="random")
    assert {"You play black", "You play white"} == set(re.findall("You play (?:black|white)", text))
    text, session = play("new white", "new")
    assert session.colour == "white"


@pytest.mark.parametrize("name", ["game.ggf", "game.sgf", "game.txt"])
def test_a_saved_game_can_be_loaded(tmp_path, name):
    path = tmp_path / name
    text, session = play("f5", f"save {path}", "moves", f"save {path}")
    assert text.count(f"saved in {path}") == 2  # it is this game's own file
    text, _ = play("f5", f"save! {path}", "new", f"save {path}")
    assert text.count(f"saved in {path}") == 1  # another game's
    assert "is there already" in text
    play("f5", f"save! {path}")
    (game,) = read_games(path)
    assert list(game.moves) == session.game.moves
    if name != "game.txt":
        assert (game.black, game.white) == ("human", "swh")
    text, again = play("c4", f"load {path}", f"save {path}", "moves")
    assert again.game.moves == session.game.moves
    assert f"{path} is there already; save! {path} overwrites it" in text
    assert play(f"load {path}", "undo", f"save! {path}")[0].count("saved in") == (name != "game.txt")


def test_games_come_from_files_by_number_and_from_transcripts(tmp_path):
    path = tmp_path / "games.txt"
    path.write_text("f5d6\nf5f6\nc4c3\n")

    def loaded(words: str) -> tuple[str, str]:
        text, session = play(f"load {words}")
        return session.game.transcript, text

    assert loaded(str(path))[0] == "c4c3"
    assert loaded(f"{path} 1")[0] == "f5d6"
    assert loaded("F5 d6 c3 d3")[0] == "f5d6c3d3"
    assert f"{path} holds 3 games; there is no game 4" in loaded(f"{path} 4")[1]
    assert "there is no file 'f5a1', and as a transcript: move 2 (a1): a1 flips nothing" in loaded("f5a1")[1]
    assert "cannot be read: Is a directory" in loaded(str(tmp_path))[1]
    assert "load needs" in loaded("")[1]
    assert "there is no file '~nobody/x'" in loaded("~nobody/x")[1]
    path.write_text("")
    assert "holds no games" in loaded(str(path))[1]
    text, _ = play("save", "save x.doc", f"save {tmp_path}/nowhere/x.ggf", f"save {tmp_path}/\0x.ggf\0")
    assert text.count("save needs") == 1
    assert "games can be written as .ggf, .sgf, .txt" in text
    assert "could not be saved" in text
    assert (tmp_path / "x.ggf").is_file()  # the signs that no name may hold are left out


def test_levels_change_the_player():
    text, session = play(
        "level 3", "level", "f5", "level most-discs", "level epsilon=0.5", "level depth=x", "level bob"
    )
    assert "the player is now swh, Casual\n" in text
    assert "*3  Casual           gives away 50 discs a game\n" in text
    assert session.thinker.spec.text == "most-discs:epsilon=0.5"
    assert "depth is 'x' in 'most-discs:depth=x'" in text
    assert "unknown player 'bob'" in text
    assert "random has no key 'depth'; it takes none" in play("level 1", player="random")[0]


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("5", "swh:threads=2,depth=4,gives=10"),
        ("club", "swh:threads=2,depth=4,gives=25"),
        ("Relentless", "swh:threads=2,seconds=5"),
        ("seconds=2", "swh:threads=2,seconds=2"),
        ("threads=1,nodes=9", "swh:threads=1,nodes=9"),
        ("random", "random"),
        ("swh:depth=1", "swh:depth=1"),
    ],
)
def test_a_level_replaces_what_makes_a_player_strong_and_keeps_the_rest(level, expected):
    assert at_level(parse_spec("swh:depth=9,threads=2,epsilon=0.1,solve=4,gives=3"), level).text == expected


def test_levels_have_names():
    assert title(parse_spec("champion:depth=4,gives=25")) == "champion, Club"
    assert title(parse_spec("champion:depth=5")) == "champion:depth=5"
    assert at_level(parse_spec("swh"), "champion").text == "champion"  # the player, not the level of that name
    text, _ = play("level", player="champion")
    assert " 4  Club       1710  gives away 25 discs a game\n" in text
    assert play(player="swh:depth=6,solve=12")[0].startswith("You play black against swh, Expert.")


def test_hint_all_puts_values_on_the_squares(monkeypatch):
    text, _ = play("hint all", "hint all random", player="swh", start=Position.parse("f5"), colour="white")
    [told] = [line for line in text.splitlines() if line.startswith("swh, for White: ")]
    values = dict(re.findall(r"([a-h][1-8]) ([+-]\d+\.\d)", told))
    assert values.keys() == {"d6", "f4", "f6"}
    assert list(values.values()) == sorted(values.values(), key=float, reverse=True)
    assert re.search(r"6 [|│].*[+-]\d.*[+-]\d", text)
    assert "random does not say what moves are worth" in text
    depth = re.compile(r" \(depth (\d+)\)$", re.MULTILINE)
    deep = int(depth.search(text)[1])
    text, _ = play("hint all", player="swh", start=Position.parse(FINISHED[:-8]), colour="both")
    assert re.search(r"^swh, for (Black|White): [a-h][1-8] =[+-]\d+(, [a-h][1-8] =[+-]\d+)*$", text, re.MULTILINE)
    monkeypatch.setattr(thinking, "VALUES_SECONDS", 0.0)
    text, _ = play("hint all", player="swh", start=Position.parse("f5"), colour="white")
    assert int(depth.search(text)[1]) < deep, "every move has a value, and then time is over"


def test_a_game_is_judged_at_the_board():
    assert "there is no move to judge yet" in play("analyze", colour="both")[0]
    text, _ = play("f5 f6 e6 f4", "analyze mobility:depth=2", player="random", colour="both")
    assert "Black: 2 moves, " in text
    assert "White: 2 moves, " in text
    curve = re.compile("^black  [▁-█]+  ", re.MULTILINE)
    assert curve.search(text)
    assert not curve.search(play("f5 f6", "analyze mobility:depth=2", colour="both", ascii_only=True)[0])


def test_every_level_is_a_player_that_can_be_made():
    for number in range(1, len(LEVELS) + 1):
        assert at_level(parse_spec("champion"), str(number)).given
    for number in ("0", "-1", "10"):
        with pytest.raises(PlayerError, match="there is no level"):
            at_level(parse_spec("swh"), number)


def test_thoughts_are_shown_on_request():
    assert "White plays f6\n" in play("f5")[0]
    assert "White plays f6: +0.2 for White, depth 1, 3 positions\n" in play("show on", "f5")[0]
    assert "White plays f6\n" in play("show off", "f5", show=True)[0]


def test_thoughts_in_words():
    assert explain(Choice(19), True) == ""
    short = Choice(19, -0.04, depth=1, pv=(19,), nodes=1, seconds=0.01)
    assert explain(short, True) == ": +0.0 for Black, depth 1, 1 positions"
    long = Choice(19, -6.0, True, 20, tuple(range(20)), 1234567, 1.25)
    assert explain(long, False) == (
        ": -6 (exact) for White, depth 20, 1,234,567 positions, 1.2 s, line a1 b1 c1 d1 e1 f1 g1 h1 a2 b2 c2 d2 ..."
    )


# --- players that fail, think long, or count -------------------------------------------------------------------------


class Scripted:
    """A player whose ``choose`` is given; it keeps what it was told."""

    varies = False

    def __init__(self, choose):
        self.name, self._choose = "swh", choose
        self.asked, self.games, self.closed, self.stopped = [], 0, 0, threading.Event()

    def choose(self, position, remaining=None, line=None):
        self.asked.append((position, remaining, line))
        return self._choose(self, position)

    def new_game(self, rng=None):
        self.games += 1

    def warm_up(self):
        pass

    def stop(self):
        self.stopped.set()

    def close(self):
        self.closed += 1


@pytest.fixture
def scripted(monkeypatch):
    """Replace ``swh`` by a player that answers with the given function."""
    made: list[Scripted] = []

    def use(choose) -> list[Scripted]:
        def make(spec, *arguments, **keywords):
            if spec.name != "swh":
                return make_player(spec, *arguments, **keywords)
            made.append(Scripted(choose))
            return made[-1]

        monkeypatch.setattr(thinking, "make_player", make)
        return made

    return use


def first_move(player, position) -> Choice:
    return Choice(position.legal_moves[0])


def test_a_player_hears_of_games_moves_and_the_end(scripted):
    made = scripted(first_move)
    play("f5", "undo", "f5", "new", "d3", clock_seconds=100.0)
    (player,) = made
    assert (player.games, player.closed, len(player.asked)) == (2, 1, 3)
    for position, remaining, line in player.asked:
        assert line.start.replay(line.moves) == position
        assert 0 < remaining <= 100


def test_a_failing_player_leaves_the_game_to_the_user(scripted, tmp_path):
    def fail(player, position):
        raise PlayerFailure("it has crashed")

    made = scripted(fail)
    path = tmp_path / "kept.ggf"
    text, session = play("f5", "go", f"save {path}", "level most-discs", "e6", "undo 2")
    assert text.count("swh cannot go on: it has crashed") == 2
    assert len(read_games(path)[0].moves) == 1
    assert all(player.closed == 1 for player in made)
    assert session.code == 0
    text, session = play("f5")
    assert (session.code, text.splitlines()[-1]) == (1, "game: f5")
    text, session = play("f5", "d6", "undo")  # a move for the player, and back
    assert session.game.position == Position.start()


def test_an_illegal_answer_is_a_failure_too(scripted):
    scripted(lambda player, position: Choice(0))
    assert "swh cannot go on: a1 flips nothing" in play("f5")[0]


def test_ctrl_c_hurries_a_player_and_a_second_one_ends_the_game(scripted):
    def slow(player, position):
        _thread.interrupt_main()
        assert player.stopped.wait(HANG_SECONDS)
        return Choice(position.legal_moves[0])

    scripted(slow)
    text, session = play("f5")
    assert "White plays" in text
    assert session.code == 0
    text, session = play("save! x", colour="none")  # the player against itself stops there
    assert (len(session.game.moves), session.paused) == (1, True)

    over = threading.Event()

    def deaf(player, position):
        _thread.interrupt_main()
        assert player.stopped.wait(HANG_SECONDS)
        _thread.interrupt_main()
        over.wait(HANG_SECONDS)
        return Choice(position.legal_moves[0])

    scripted(deaf)
    text, session = play("f5")
    over.set()
    assert (session.code, text.splitlines()[-2:]) == (130, ["interrupted", "game: f5"])


def test_ctrl_c_at_the_prompt_prints_the_game():
    class Impatient(io.StringIO):
        def readline(self):
            if line := super().readline():
                return line
            raise KeyboardInterrupt

    shown = io.StringIO()
    assert Session("swh", Impatient("f5\n"), shown, seed=1).run() == 130
    assert shown.getvalue().endswith("interrupted\ngame: f5f6\n")


class Clock:
    """Time that passes only when something takes time."""

    def __init__(self):
        self.seconds = 0.0

    def typed(self, *lines: tuple[float, str]) -> io.StringIO:
        clock = self

        class Typed(io.StringIO):
            waits = iter(seconds for seconds, _ in lines)

            def readline(self):
                clock.seconds += next(self.waits, 0.0)
                return super().readline()

        return Typed("".join(f"{line}\n" for _, line in lines))

    def __call__(self) -> float:
        return self.seconds


def test_who_runs_out_of_time_loses(tmp_path, scripted):
    clock, shown = Clock(), io.StringIO()
    path = tmp_path / "late.ggf"
    typed = clock.typed((50, "f5"), (40, "moves"), (20, "c4"), (0, "c4"), (0, "undo"), (0, f"save {path}"))
    session = Session("swh", typed, shown, seed=1, clock_seconds=100.0, now=clock, ascii_only=True)
    assert session.run() == 0
    text = shown.getvalue()
    assert "X Black  3  00:50  you" in text
    assert "Game over: Black has run out of time: White wins. You have lost." in text
    assert "c4 cannot be played: the game is over" in text
    assert "time cannot be taken back" in text
    (game,) = read_games(path)
    assert (game.result, game.ending, game.black_clock) == (-64, "time", "01:40")

    def slow(player, position):
        clock.seconds += 101
        return first_move(player, position)

    scripted(slow)
    shown = io.StringIO()
    Session("swh", clock.typed((1, "f5")), shown, clock_seconds=100.0, now=clock).run()
    assert "Game over: White has run out of time: Black wins. You have won!" in shown.getvalue()
    assert [clock_text(seconds) for seconds in (0, 0.2, 59.5, 61, 6000)] == [
        "00:00",
        "00:01",
        "01:00",
        "01:01",
        "100:00",
    ]


@pytest.mark.skipif(os.name == "nt", reason="needs alarms")
def test_a_clock_does_not_wait_for_the_user():
    class Asleep(io.StringIO):
        def readline(self):
            if not self.tell():
                self.seek(1)
                time.sleep(1000)
            return ""

    shown, started = io.StringIO(), time.monotonic()
    assert Session("swh", Asleep(" "), shown, clock_seconds=0.05).run() == 0
    assert "Black has run out of time" in shown.getvalue()
    assert time.monotonic() - started < HANG_SECONDS


# --- at a terminal, in a pipe ----------------------------------------------------------------------------------------


@pytest.fixture
def at_terminal(monkeypatch):
    for name, value in {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24", "LANG": "C.UTF-8"}.items():
        monkeypatch.setenv(name, value)
    for name in ("NO_COLOR", "LC_ALL", "LC_CTYPE"):
        monkeypatch.delenv(name, raising=False)


def test_the_reply_is_drawn_over_the_users_move(at_terminal):
    text, _ = play("f5", "q", terminal=True)
    before, first, draft, reply = text.split("\x1b[H\x1b[J")
    assert before.endswith("\n" * 23)  # what was on the screen is pushed up, once
    assert "You play black" in first  # what was said above the board is shown again below it
    assert draft.count("\x1b[48;5;136;") == 2
    assert draft.endswith("White plays f6\n")
    assert "White plays f6\nBlack> " in reply
    assert "\x1b[48;5;28;" in reply


def test_boards_follow_each_other_where_there_is_no_room_to_draw_in_place(at_terminal, monkeypatch):
    monkeypatch.setenv("LINES", "17")
    assert "\x1b[H" not in play("f5", "q", terminal=True)[0]


def test_a_large_board_where_there_is_room():
    game = GameInPlay(Position.start(), moves=(37, 43, 18))
    style = Style(UNICODE, PALETTE_256, 91, 36)
    for other in (
        Style(UNICODE, PALETTE_256, 90, 36),
        Style(UNICODE, PALETTE_256, 91, 35),
        Style(UNICODE, None, 200, 99),
    ):
        assert not other.is_large
    assert not Style(ASCII, PALETTE_256, 200, 99).is_large
    assert style.is_large
    lines = draw(game.position, style, ["one"], legal=game.position.legal_mask, texts={19: "+12"})
    plain = [ANSI.sub("", line) for line in lines]
    assert len(plain) == 28
    assert max(map(len, plain)) <= 91
    assert sum(line.count("▐██▌") for line in plain) == 7
    assert sum(line.count("·") for line in plain) == len(game.position.legal_moves) - 1
    [row] = [line for line in plain if line.startswith("3")]
    assert row.index("▐██▌") == 3 + 2 * 6 + 1
    assert row.index("+12") == 3 + 3 * 6 + 2
    assert any("one" in line for line in plain)


def test_another_game_is_offered_only_at_a_terminal(at_terminal):
    text, session = play("c1", "c3", "yes", "c3", "c1", "no", "f5", terminal=True, start=TWO_MOVES)
    assert text.count("another game? (yes or no) ") == 2
    assert session.stdin.read() == "f5\n"
    assert "another game" not in play("c1", "c3", start=TWO_MOVES)[0]


def test_long_lines_are_broken_between_words(at_terminal, monkeypatch):
    monkeypatch.setenv("COLUMNS", "34")
    text, _ = play("help", "level", terminal=True, player="swh:epsilon=0.123456789,depth=1", clock_seconds=60.0)
    assert max(len(ANSI.sub("", line)) for line in text.replace("> ", ">\n").splitlines()) <= 34


def test_a_pipe_in_a_program_of_its_own():
    done = subprocess.run(
        [sys.executable, "play.py", "--player", "swh", "--seed", "1", "--color", "black"],
        cwd=ROOT,
        input=b"f5\n\xff\xfe\na1\nquit\n",
        capture_output=True,
        env=os.environ | {"PYTHONIOENCODING": "utf-8"},
        timeout=60,
    )
    text = done.stdout.decode()
    assert (done.returncode, done.stderr) == (0, b"")
    assert "\x1b" not in text
    assert "Black> f5\nWhite plays f6\n" in text
    assert "a1 flips nothing; legal moves: d3, c4, e6, f7\n" in text
    assert text.endswith("Black> quit\ngame: f5f6\n")


def test_the_first_board_needs_no_compiler_and_the_end_does_not_wait_for_it():
    code = (
        "import os, sys, io\n"
        "from othello_nn.cli import main as cli\nfrom othello_nn.cli.terminal import session as terminal\n"
        "def draw(self):\n"
        "    print(sorted({'numpy', 'numba', 'torch', 'rich'} & set(sys.modules)), self.thinker.busy)\n"
        "terminal.Session.draw_board = draw\n"
        "sys.stdin = io.StringIO('quit\\n')\n"
        "sys.exit(cli.main(['--player', 'mobility']))"
    )
    pipes = {"capture_output": True, "encoding": "utf-8", "timeout": HANG_SECONDS}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, **pipes)
    assert (done.returncode, done.stderr) == (0, "")
    assert "[] False\n" in done.stdout


@pytest.mark.skipif(os.name == "nt", reason="needs a pseudo-terminal")
def test_ctrl_c_at_a_real_terminal():
    import pty

    terminal, other_end = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "play.py", "--player", "swh", "--seed", "1"],
        cwd=ROOT,
        env=os.environ | {"TERM": "xterm", "PYTHONIOENCODING": "utf-8"},
        stdin=other_end,
        stdout=other_end,
        stderr=other_end,
    )
    os.close(other_end)
    shown = ""

    def wait_for(text: str) -> None:
        nonlocal shown
        while text not in shown:
            assert select.select([terminal], [], [], HANG_SECONDS)[0], shown
            shown += os.read(terminal, 4096).decode(errors="replace")

    try:
        wait_for("Black> ")
        os.write(terminal, b"F5\n")
        wait_for("White plays f6")
        shown = shown.partition("White plays f6")[2]
        wait_for("Black> ")
        # A signal between the prompt and the wait for a key would be noticed at the next key only.
        wait_for_rest(process)
        process.send_signal(signal.SIGINT)
        wait_for("game: f5f6")
        assert process.wait(HANG_SECONDS) == 130
        assert "Traceback" not in shown
    finally:
        process.kill()
        process.wait()
        os.close(terminal)


def test_flags_reach_the_game(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("moves\n"))
    words = ["--player", "most-discs", "--level", "depth=1", "--color", "white", "--ascii", "--show", "--clock", "60"]
    assert main([*words, "--seed", "3", "--position", "f5", "d6"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("You play white against most-discs:depth=1.")
    assert "X Black  3  01:00  most-discs:depth=1" in text
    assert re.search(r"Black plays c[3-7]: [+-]\d\.\d for Black, depth 1", text)
