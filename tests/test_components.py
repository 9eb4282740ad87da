"""``play.py analyze --components``: the terms add up to the evaluation, belong to what is expected, and are shown."""

import json
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from strategies import endings, scattered

from othello_nn.cli import main as cli
from othello_nn.cli.components import Analyst, expected_position
from othello_nn.cli.judges import Verdict, judge_game, make_judge
from othello_nn.engine import Engine, Limit
from othello_nn.engine.leaf.mobility import Mobility
from othello_nn.engine.score import LEAF_LIMIT, SCORE_DISC
from othello_nn.game import Position
from othello_nn.game.formats.files import write_games
from othello_nn.game.notation import parse_transcript
from othello_nn.game.record import Game
from othello_nn.players import make_player, parse_spec
from othello_nn.players.classic.components import Components, components_of
from othello_nn.players.classic.features import shipped_features
from othello_nn.players.classic.iago import SCALE, iago_evaluator
from othello_nn.players.classic.keyano import shipped_keyano

GAME = "d3c5e6f5f6e3d6f7g6c4c6e7d7g5f4c8h6c7d8e8f3h4g4c3b3h3g3d2b4b5"  # LOGISTELLO against KEYANO
SHORT = GAME[:24]
EVALUATORS = {"iago": iago_evaluator, "keyano": shipped_keyano, "features": shipped_features}
NAMES = {
    "iago": ("edges", "internal stability", "current mobility", "potential mobility"),
    "keyano": ("mobility", "lost regions", "vectors", "corners", "edges", "constant"),
}


def of(name: str) -> Components:
    found = components_of(EVALUATORS[name]())
    assert found is not None
    return found


def discs(name: str, total: float) -> float:
    """What the search makes of the sum."""
    if name == "iago":
        return LEAF_LIMIT / SCORE_DISC * total / (abs(total) + SCALE)
    return min(max(total, -LEAF_LIMIT / SCORE_DISC), LEAF_LIMIT / SCORE_DISC)


def said(name: str, position: Position) -> float:
    """The leaf's own value: that of a search of one ply, whose best move leads there, is its negation."""
    from othello_nn.cli.judges import static_discs

    return static_discs(Engine(EVALUATORS[name]()), position)


@pytest.fixture
def play(capsys):
    def call(*words: str) -> tuple[int, str, str]:
        code = cli.main(["analyze", *words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.mark.parametrize("name", EVALUATORS)
def test_components_add_up_to_the_evaluation(name):
    components, boards = of(name), [Position(*pair) for pair in endings(3, 2, 1, 56)]
    rows = np.array([components.values(position) for position in boards])
    for position, row in zip(boards, rows, strict=True):
        assert discs(name, row.sum()) == pytest.approx(said(name, position), abs=0.6 / SCORE_DISC)
    # None of them is a stand-in that never says anything.
    assert (np.abs(rows).max(axis=0) > 0).all()
    assert len(components.names) == rows.shape[1]
    assert components.names == NAMES.get(name, components.names)


def test_lost_regions_are_told_apart_from_mobility():
    """Black can take h8 and never a1, white nothing at all: one region more is lost to white."""
    position = Position.parse(f"-{'X' * 61}O- X")
    values = dict(zip(of("keyano").names, of("keyano").values(position), strict=True))
    assert values["lost regions"] > 0
    without = components_of(shipped_keyano().with_terms(parity=0))
    assert without is not None
    others = dict(zip(without.names, without.values(position), strict=True))
    assert others == values | {"lost regions": 0.0}


@pytest.mark.parametrize("name", ["iago", "features"])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_they_belong_to_the_position_that_the_search_expects(name, depth):
    """At full width the value of a move is the evaluation of that position, from the mover's side."""
    text = f"{name}:depth={depth}"
    judge = make_judge(make_player(text), parse_spec(text))
    analyst = Analyst.of(judge.player, name)
    for one in judge_game(Game(moves=tuple(parse_transcript(GAME))), judge):
        fields = analyst.add(one)
        expected = Position.parse(fields["expected"])
        assert one.position.empties - expected.empties == depth
        for_mover = sum(fields["components"].values()) * (1 if one.position.black_to_move else -1)
        assert discs(name, for_mover) == pytest.approx(one.best.value, abs=0.6 / SCORE_DISC)


def test_the_expected_line_may_pass():
    engine, passes = Engine(Mobility()), 0
    for position in (Position(*pair) for pair in scattered(13, 400, 8, 30)):
        if not position.legal_moves:
            continue
        result = engine.search(position, Limit(depth=3))
        expected = expected_position(engine, position, Verdict(result.move, result.score, False, 3))
        if expected is not None:
            assert position.empties - expected.empties == 3
            passes += expected.black_to_move == position.black_to_move
    assert passes > 3


def test_the_expected_line_may_end_the_game():
    engine, shortest_win = Engine(Mobility()), Position.parse("e6f4e3f6g5d6e7f5")
    result = engine.search(shortest_win, Limit(depth=3))
    assert result.score == 64
    assert expected_position(engine, shortest_win, Verdict(result.move, result.score, False, 3)) is None


def test_the_table(play):
    code, out, _ = play(SHORT, "--player", "iago:depth=2", "--components")
    assert code == 0
    head, table = out.split("what it expects to come, for black, in IAGO's units\n")
    assert head.startswith("move  side")
    names, *lines = table.splitlines()
    assert names.split("  ")[0] == "move"
    assert all(name in names for name in (*NAMES["iago"], "sum"))
    assert len(lines) == 12
    for number, line in enumerate(lines, start=1):
        shown, _, *values = line.split()
        assert int(shown) == number
        assert sum(map(int, values[:-1])) == pytest.approx(int(values[-1]), abs=2.5)


def test_json(play):
    code, out, _ = play(SHORT, "--player", "keyano:depth=2", "--components", "--json")
    assert code == 0
    lines = [json.loads(line) for line in out.splitlines()]
    assert len(lines) == 12
    for line in lines:
        assert tuple(line["components"]) == NAMES["keyano"]
        assert Position.parse(line["expected"]).empties == 60 - (line["number"] - 1) - 2
    out = play(SHORT, "--player", "keyano:depth=2", "--json")[1]
    assert "components" not in json.loads(out.splitlines()[0])


def test_a_solved_end_has_no_components(play, tmp_path):
    path = tmp_path / "game.sgf"
    start = Position.parse("-XOO-----XOOO---X-OXOOXXXXOOXXOXXOXXOXOXOOOOOOXX--XOOOX-XX-OX-OX X")
    moves = []
    for _ in range(3):
        moves.append(start.replay(moves).legal_moves[0])
    write_games(path, [Game(start=start, moves=tuple(moves))])
    solved = f"iago:depth=2,solve={start.empties - 1}"
    lines = [json.loads(line) for line in play(str(path), "--player", solved, "--json", "--components")[1].splitlines()]
    assert [line["components"] is None for line in lines] == [False, True, True]
    assert [line["expected"] is None for line in lines] == [False, True, True]
    out = play(str(path), "--player", solved, "--components")[1]
    assert len(out.split("IAGO's units\n")[1].splitlines()) == 2


def test_the_picture(play, tmp_path):
    path = tmp_path / "iago.svg"
    code, out, _ = play(SHORT, "--player", "iago:depth=2", "--picture", str(path))
    assert code == 0
    assert "what it expects" in out
    root = ElementTree.parse(path).getroot()
    space = "{http://www.w3.org/2000/svg}"
    curves = root.findall(f".//{space}polyline")
    assert len(curves) == len(NAMES["iago"]) + 1
    assert {len(curve.attrib["points"].split()) for curve in curves} == {12}
    words = {element.text for element in root.iter(f"{space}text")}
    assert {*NAMES["iago"], "sum"} <= words
    assert any("iago:depth=2" in (word or "") for word in words)
    # The curve goes up where the sum does.
    sums = [int(line.split()[-1]) for line in out.splitlines()[-12:]]
    heights = [float(point.split(",")[1]) for point in curves[-1].attrib["points"].split()]
    assert heights.index(min(heights)) == sums.index(max(sums))


def test_the_picture_of_a_player_without_components(play, tmp_path):
    path = tmp_path / "values.svg"
    code, out, _ = play(SHORT, "--player", "mobility:depth=1", "--picture", str(path))
    assert code == 0
    assert "what it expects" not in out
    root = ElementTree.parse(path).getroot()
    space = "{http://www.w3.org/2000/svg}"
    words = {element.text for element in root.iter(f"{space}text")}
    assert {"value", "lost by black", "lost by white"} <= words
    curves = root.findall(f".//{space}polyline")
    assert {len(curve.attrib["points"].split()) for curve in curves} == {12}
    _, black, white = ([float(point.split(",")[1]) for point in c.attrib["points"].split()] for c in curves)
    assert black == sorted(black), "downwards: what was given away only grows"
    assert white == sorted(white, reverse=True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--player", "mobility:depth=1", "--components"), "mobility has no components to show; take --player iago, "),
        (("--player", "swh", "--components"), "swh has no components to show"),
        (("--player", "iago:depth=1", "--picture", "x.png"), "the name must end in .svg"),
        (("--player", "iago:depth=1", "--picture", "nowhere/x.svg"), "there is no folder 'nowhere'"),
    ],
)
def test_mistakes_are_explained(play, words, message):
    code, out, err = play(SHORT, *words)
    assert (code, out) == (2, "")
    assert message in err


def test_a_picture_shows_one_game(play, tmp_path):
    games = tmp_path / "games.txt"
    games.write_text(f"{SHORT}\n{SHORT[:6]}\n", encoding="utf-8")
    words = (str(games), "--player", "iago:depth=1", "--picture", str(tmp_path / "x.svg"))
    code, _, err = play(*words)
    assert code == 2
    assert "--picture shows one game, and 2 are given; --game N takes one of them" in err
    assert play(*words, "--game", "2")[0] == 0
    assert (tmp_path / "x.svg").exists()
