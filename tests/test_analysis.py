"""``play.py analyze``: values and losses against the plain solver, agreement, what is printed, mistakes."""

import itertools
import json
import random
import re

import pytest
from strategies import FINISHED

from othello_nn.cli import analyze as analysis
from othello_nn.cli import main as cli
from othello_nn.cli import verdicts
from othello_nn.cli.judges import EngineJudge, Judged, PlayerJudge, Verdict, is_equivalent, judge_game, make_judge
from othello_nn.engine import Engine, Limit, Result
from othello_nn.engine.leaf.mobility import Mobility
from othello_nn.game import PASS, Position, rules
from othello_nn.game.formats.files import write_games
from othello_nn.game.notation import parse_transcript
from othello_nn.game.record import Game
from othello_nn.players import make_player
from othello_nn.players.base import BasePlayer, Choice, Line
from othello_nn.players.simple import SWH
from othello_nn.players.spec import parse_spec

# LOGISTELLO 33-31 KEYANO and HANNIBAL 32-32 KEYANO, as printed in the KEYANO paper.
LOGISTELLO = (
    "d3c5e6f5f6e3d6f7g6c4c6e7d7g5f4c8h6c7d8e8f3h4g4c3b3h3g3d2b4b5c2a4e2c1d1a3a6a5a2h2b6e1b2a1b1g2h1h5f2a7f1h7h8g1g7g8f8"
    "b7a8b8"
)
HANNIBAL = (
    "e6f4d3c4c3d6f6c6f5g5f3e7f7g6e8g3b5f2c5f8g8c7b6e3h6b4h5e2a5a4a3d7d8g4b3b8d2b7h4h3h2a6c2d1c1a2g1f1e1b2a8c8a7h8g2h7g7"
    "h1a1b1"
)
FIELDS = {
    "game",
    "number",
    "side",
    "move",
    "value",
    "best",
    "best_value",
    "loss",
    "agrees",
    "exact",
    "depth",
    "position",
}


@pytest.fixture
def play(capsys):
    """Run ``analyze`` in this process: (exit code, stdout, stderr)."""

    def call(*words: str) -> tuple[int, str, str]:
        code = cli.main(["analyze", *words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def judge_of(text: str):
    return make_judge(make_player(text), parse_spec(text))


def game_of(transcript: str) -> Game:
    return Game(moves=tuple(parse_transcript(transcript)))


class Teller(BasePlayer):
    """Plays the first legal move and says how many discs it has more than the other side."""

    def __init__(self):
        super().__init__("teller", random.Random(0))
        self.lines: list[Line | None] = []

    def choose(self, position: Position, remaining: float | None = None, line: Line | None = None) -> Choice:
        self.lines.append(line)
        return Choice(position.legal_moves[0], float(position.mover_discs - position.opponent_discs), depth=7)


# --- values and losses -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transcript", [FINISHED, LOGISTELLO, HANNIBAL])
def test_the_end_is_judged_exactly(transcript):
    judged = list(judge_game(game_of(transcript), judge_of("mobility:depth=1,solve=7")))
    assert [one.number for one in judged] == list(range(1, len(transcript) // 2 + 1))  # passes are not counted
    solved = [one for one in judged if one.position.empties <= 7]
    assert [one.exact for one in judged] == [one in solved for one in judged]
    for one in solved:
        best = rules.solve(one.position.mover, one.position.opponent)
        after = one.position.play(one.move)
        value = -rules.solve(after.mover, after.opponent)
        assert (one.best.value, one.value) == (best, value)
        assert one.loss == best - value
        assert one.agrees == (best == value)
    assert (sum(one.loss for one in solved) > 0) == (transcript == FINISHED)  # random moves lose something


def test_different_moves_with_the_same_exact_result_agree():
    position = Position.parse(LOGISTELLO[:112])
    values = {}
    for move in position.legal_moves:
        after = position.play(move)
        values[move] = -rules.solve(after.mover, after.opponent)
    best = [move for move in values if values[move] == max(values.values())]
    assert len(best) == 2  # f8, which was played, and b8
    assert not is_equivalent(position, *best)
    for move, value in values.items():
        (one,) = judge_game(Game(start=position, moves=(move,)), judge_of("mobility:depth=4"))
        assert one.agrees == (move in best)
        assert (one.value, one.exact) == (value, True)


def test_exact_values_follow_from_each_other():
    """What a move is worth is what the other side then has, with the sign turned; passes keep the side."""
    game = game_of(HANNIBAL)
    ending = Game(start=game.positions()[-13], moves=game.moves[-12:])
    solved = list(judge_game(ending, judge_of("mobility:depth=12")))
    assert [one.exact for one in solved] == [True] * 12
    for one, after in itertools.pairwise(solved):
        sign = 1 if one.position.black_to_move == after.position.black_to_move else -1
        assert one.value == sign * after.best.value
    assert solved[-1].value == 0  # 32-32


def test_both_moves_are_searched_to_the_same_depth():
    """Without selective search, no move is worth more than the best and the best is worth what it was said to be."""
    judge = judge_of("mobility:depth=3")
    for position in (Position.start(), Position.parse(LOGISTELLO[:40]), Position.parse(HANNIBAL[:70])):
        line = Line(position, ())
        best = judge.best(position, line)
        assert best.depth == 3
        values = {move: judge.played(position, move, best, line) for move in position.legal_moves}
        assert max(value for value, _ in values.values()) == best.value
        assert values[best.move] == (best.value, False)
        deep = Engine(Mobility()).search(position.play(best.move), Limit(depth=2))
        assert -deep.score == best.value


def test_one_ply_judges_the_board_after_the_move():
    judged = list(judge_game(game_of(LOGISTELLO[:60]), judge_of("swh")))
    for one in judged:
        after = one.position.play(one.move)
        assert one.value == SWH.value(after.opponent, after.mover) / SWH.per_disc
        assert one.best.value >= one.value
        assert one.best.depth == 1


def test_symmetric_moves_agree():
    assert is_equivalent(Position.start(), *parse_transcript("f5")[:1], *parse_transcript("d3")[:1])
    assert not is_equivalent(Position.parse("f5"), 43, 45)  # d6 is perpendicular, f6 diagonal
    best = next(judge_game(game_of("f5"), judge_of("mobility:depth=2"))).best.move
    for first in ("d3", "c4", "f5", "e6"):
        one = next(judge_game(game_of(first), judge_of("mobility:depth=2")))
        assert one.agrees
        assert (one.loss, one.best.move) == (0, best)


def test_win_draw_or_loss_is_no_value_in_discs():
    """A search that ends with only that is judged by the iteration before it."""
    position = Position.parse("f5d6")

    class Winner:
        def clear(self) -> None: ...

        def search(self, position, limit, on_iteration=None):
            for depth, wld, score in ((4, False, 3.5), (5, False, 2.5), (58, True, 1.0)):
                result = Result(position.legal_moves[depth % 2], score, wld, depth, (), 0, 0.0, wld=wld)
                if on_iteration is not None:
                    on_iteration(result)
            return result

    player = make_player("mobility:depth=1")
    player.engines = (Winner(), Winner())
    verdict = EngineJudge(player).best(position, Line(position, ()))
    assert verdict[:4] == (position.legal_moves[1], 2.5, False, 5)


def test_a_player_without_an_engine_is_asked_twice():
    teller = Teller()
    judge = PlayerJudge(teller)
    game = game_of(FINISHED)
    judged = list(judge_game(game, judge))
    assert all(line is not None and line.start == game.start for line in teller.lines)
    for one in judged[:-1]:
        assert one.best.value == one.position.mover_discs - one.position.opponent_discs
        if not one.agrees:
            after = one.position.play(one.move)
            assert one.value == after.opponent_discs - after.mover_discs  # also where the other side must pass
    assert any(one.position.play(one.move).must_pass for one in judged)
    assert any(line.moves and line.moves[-1] == PASS for line in teller.lines)


# --- what is printed -------------------------------------------------------------------------------------------------


def test_json_is_one_object_a_move(play):
    code, out, _ = play(FINISHED, "--player", "mobility:depth=2", "--json")
    assert code == 0
    found = [json.loads(line) for line in out.splitlines()]
    assert len(found) == 59
    position = Position.start()
    for number, one in enumerate(found, 1):
        if position.must_pass:
            position = position.play(PASS)
        assert set(one) >= FIELDS
        assert (one["game"], one["number"], one["position"]) == (1, number, position.to_text())
        assert one["side"] == ("black" if position.black_to_move else "white")
        assert one["loss"] == max(0, one["best_value"] - one["value"])
        assert one["exact"] == (position.empties <= 2)
        position = position.play(one["move"])
    assert position.is_over


def test_a_table_for_people(play):
    code, out, error = play(*["d3", "c5", "e6", "f5"], "--player", "mobility:depth=2")
    assert (code, error) == (0, "")
    table, summary, _ = out.split("\n\n")
    heading, *rows = table.splitlines()
    assert heading.split() == ["move", "side", "played", "value", "best", "value", "loss", "depth"]
    assert [row.split()[:3] for row in rows] == [
        [str(i), side, move]
        for i, (side, move) in enumerate(zip(["black", "white"] * 2, ["d3", "c5", "e6", "f5"], strict=True), 1)
    ]
    assert rows[0].split()[-2:] == ["=", "2"]
    assert [line.split()[:2] for line in summary.splitlines()[1:]] == [["black", "2"], ["white", "2"]]


def test_solved_moves_are_summed_up_apart(play):
    _, out, _ = play(FINISHED, "--player", "mobility:depth=1,solve=8")
    lines = {line.split()[0]: line.split() for line in out.split("\n\n")[1].splitlines()}
    assert set(lines) == {"moves", "black", "estimated", "solved", "white"}
    judged = list(judge_game(game_of(FINISHED), judge_of("mobility:depth=1,solve=8")))
    white = [one for one in judged if one.exact and not one.position.black_to_move]
    worst = max(white, key=lambda one: one.loss)
    assert lines["solved"][1:5] == [
        str(len(white)),
        f"{sum(one.agrees for one in white) / len(white):.0%}",
        f"{sum(one.loss for one in white) / len(white):.2f}",
        f"{sum(one.loss for one in white):.1f}",
    ]
    assert lines["solved"][5:] == [f"{worst.number}.", rules_name(worst.move), "lost", f"{worst.loss:.1f}"]
    assert max(map(len, out.splitlines())) <= 80


def rules_name(move: int) -> str:
    return "abcdefgh"[move % 8] + str(move // 8 + 1)


@pytest.mark.parametrize("suffix", [".ggf", ".sgf", ".txt"])
def test_a_file_of_games(play, tmp_path, suffix):
    path = tmp_path / f"games{suffix}"
    first = Game(moves=game_of("f5d6c3").moves, black="Ann", white="Bob")
    write_games(path, [first, game_of(LOGISTELLO)])
    code, out, _ = play(str(path), "--player", "swh")
    assert code == 0
    names = "" if suffix == ".txt" else ": Ann against Bob"
    assert out.startswith(f"game 1{names}\n")
    assert "\ngame 2: +2 for black\n" in out
    assert "\nall 2 games\n" in out
    sums = dict(line.split()[:2] for line in out.rpartition("\n\n")[2].splitlines())
    assert (sums["black"], sums["white"]) == ("32", "31")
    assert "  game 2, " in out.splitlines()[-1] + out.splitlines()[-2]
    assert max(map(len, out.splitlines())) <= 80
    code, out, _ = play(str(path), "--player", "swh", "--game", "2", "--json")
    assert code == 0
    assert [json.loads(line)["game"] for line in out.splitlines()] == [2] * 60


def test_ctrl_c_sums_up_what_was_done(play, monkeypatch):
    class Interrupted(EngineJudge):
        asked = 0

        def best(self, position, line):
            self.asked += 1
            if self.asked > 3:
                raise KeyboardInterrupt
            return super().best(position, line)

    monkeypatch.setattr("othello_nn.cli.judges.EngineJudge", Interrupted)
    code, out, error = play("f5d6c3d3c4", "--player", "mobility:depth=1")
    assert code == 130
    assert error == "play.py: interrupted after 3 of 5 moves\n"
    assert [line.split()[:2] for line in out.splitlines()[-2:]] == [["black", "2"], ["white", "1"]]
    code, out, _ = play("f5d6c3d3c4", "--player", "mobility:depth=1", "--json")
    assert code == 130
    assert [json.loads(line)["number"] for line in out.splitlines()] == [1, 2, 3]


def test_half_a_second_a_move_unless_it_is_told_otherwise(play, monkeypatch):
    made = []

    def make(spec, *arguments, **keywords):
        made.append((spec.name, keywords["seconds"]))
        return make_player("mobility:depth=1")

    monkeypatch.setattr(analysis, "make_player", make)
    assert play("f5")[0] == 0
    assert made[0][0] in ("champion", "mobility")
    assert made[0][1] == analysis.ANALYSIS_SECONDS == 0.5


# --- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no game is given"),
        (["nowhere.ggf"], "there is no file 'nowhere.ggf'"),
        (["f5d9"], "'f5d9' is neither a file nor a game: move 2"),
        (["f5a1"], "move 2 (a1): a1 flips nothing; legal moves: "),
        (["empty.txt"], "'empty.txt' holds no games"),
        (["bad.txt"], "bad.txt: line 2: move 2 (a1): a1 flips nothing"),
        (["empty.ggf"], "empty.ggf"),
        (["."], "'.' cannot be read: Is a directory"),
        (["f5", "--game", "2"], "there is no game 2: one is given"),
        (["f5", "--game", "0"], "'0' is not a whole number from 1"),
        (["f5", "--player", "random"], "random does not say what positions are worth"),
        (["f5", "--player", "champoin"], "unknown player 'champoin'"),
        (["begun.ggf"], "there is no move to judge"),
        (["f5", "--jsno"], "did you mean '--json'?"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_two(play, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.txt").write_text("# nothing\n")
    (tmp_path / "empty.ggf").write_text("")
    (tmp_path / "bad.txt").write_text("f5d6\nf5a1\n")
    write_games(tmp_path / "begun.ggf", [Game()])
    code, out, error = play(*words)
    assert (code, out) == (2, "")
    assert error.startswith("play.py: ")
    assert error.count("\n") == 1
    assert message in error


# --- marks, curve, story ---------------------------------------------------------------------------------------------


def judged_as(value: float, best: float, exact: bool = False) -> Judged:
    position = Position.parse("f5")  # at the start all moves are symmetric, and none a mistake
    verdict = Verdict(position.legal_moves[0], best, exact, 4)
    return Judged(1, 2, position, position.legal_moves[1], value, verdict, exact)


def test_mistakes_are_marked_and_coloured(capsys):
    assert [verdicts.mark_of(judged_as(5.0 - loss, 5.0)) for loss in (0.0, 3.9, 4.0, 9.9, 10.0)] == [
        "",
        "",
        "?",
        "?",
        "??",
    ]
    assert verdicts.mark_of(judged_as(0.0, 2.0, exact=True)) == "?", "a win given away"
    verdicts.show_move(judged_as(-7.0, 5.0), in_colour=True)
    verdicts.show_move(judged_as(-7.0, 5.0))
    verdicts.show_move(judged_as(4.0, 5.0), in_colour=True)
    bad, plain, fine = capsys.readouterr().out.splitlines()
    assert bad == f"\x1b[1;31m{plain}\x1b[0m"
    assert "?? " in plain
    assert "\x1b" not in fine


def test_the_curve_and_where_the_game_was_lost(play):
    code, out, _ = play(LOGISTELLO, "--player", "mobility:depth=1,solve=8")
    assert code == 0
    curve, story = out.splitlines()[-2:]
    assert re.fullmatch(r"black  [▁-█]{60}  [+-]\d+ to [+-]\d+", curve)
    assert re.fullmatch(
        r"(Black|White) (lost it at|gave away most at) \d+\. [a-h][1-8] \(-\d+\): [a-h][1-8] was right\.", story
    )
    code, out, _ = play("f5d6c3", "--player", "mobility:depth=1")
    assert re.search("^black  [▁-█]{3}  ", out, re.MULTILINE)
    assert "was right" not in out, "it is not over"
