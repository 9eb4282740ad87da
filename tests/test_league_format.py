"""N-tuples in the League's text format: reading, writing, errors, and the player a file makes."""

import json
import os
import random
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from strategies import endings

from othello_nn.arena.league import league_player
from othello_nn.cli.main import main
from othello_nn.engine.oneply import new_scratch
from othello_nn.errors import OthelloError
from othello_nn.game import Position, rules
from othello_nn.nets import NTupleNet, export
from othello_nn.players import make_player
from othello_nn.players.base import PlayerError
from othello_nn.players.classic.league_tuples import (
    LARGEST_DISCS,
    LeagueFormatError,
    Tuple,
    format_tuples,
    parse_tuples,
    read_tuples,
    tuples_evaluator,
    write_tuples,
)

FIGURE_7 = Path(__file__).parent / "fixtures" / "figure7.tuples"
SMALL = "{ 2 { 2 2 { 0 1 } { 63 62 } { 1 2 3 4 5 6 7 8 9 } } { 1 1 { 27 } { -1 0 1e-2 } } }"


def plain_value(tuples: list[Tuple], own: int, other: int) -> float:
    """The sum as the format defines it: the player is black, the first square the most significant digit."""
    total = 0.0
    for one in tuples:
        for squares in one.placements:
            cell = 0
            for square in squares:
                cell = 3 * cell + (2 if own >> square & 1 else 0 if other >> square & 1 else 1)
            total += one.weights[cell]
    return total


def test_the_printed_player_is_read():
    tuples = read_tuples(FIGURE_7)
    assert len(tuples) == 32
    assert sum(len(one.weights) for one in tuples) == 288
    assert sum(len(one.placements) for one in tuples) == 210  # all pairs of neighbours
    assert len({frozenset(squares) for one in tuples for squares in one.placements}) == 210
    assert tuples[0].placements[:2] == ((6, 7), (55, 63))
    assert tuples[-1].weights[-1] == -42.70


@pytest.mark.parametrize("tuples", [read_tuples(FIGURE_7), parse_tuples(SMALL)], ids=["figure 7", "small"])
def test_the_evaluator_has_the_sums_of_the_tuples(tuples):
    evaluator = tuples_evaluator(tuples, "tuples")
    leaf, scratch = evaluator.leaf, new_scratch()
    boards = endings(seed=2, games=6, fewest=0, most=60)
    plain, compiled = [], []
    for other, own in boards:  # after the player's move the other side is the mover
        plain.append(plain_value(tuples, own, other))
        type(leaf).begin(leaf, scratch.ctypes.data, np.uint64(other), np.uint64(own))
        empties = 64 - (own | other).bit_count()
        compiled.append(type(leaf).score(leaf, scratch.ctypes.data, np.uint64(other), np.uint64(own), empties))
    scale = np.dot(plain, compiled) / np.dot(plain, plain)
    assert scale < 0
    assert len(set(compiled)) > (300 if len(tuples) == 32 else 20)
    assert np.abs(np.array(compiled) - scale * np.array(plain)).max() < 1  # units of 1/128 disc
    assert np.abs(compiled).max() <= 128 * LARGEST_DISCS


def test_tuples_are_written_as_they_were(tmp_path):
    tuples = [*read_tuples(FIGURE_7), *parse_tuples(SMALL), Tuple(((5,),), (1 / 3, -1e-300, 12345678.9))]
    write_tuples(tmp_path / "some.tuples", tuples)
    assert read_tuples(tmp_path / "some.tuples") == tuples
    assert parse_tuples(format_tuples(tuples).replace(" ", "\n\t ").replace("{ ", "{")) == tuples
    assert len(format_tuples(tuples).splitlines()) == 2 * len(tuples) + 2


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (SMALL, "", "line 1: the text ends where an opening brace should follow"),
        ("{ 2 {", "2 {", "line 1: '{' where the size of tuple 1 of 2, 1 to 10, should be"),
        ("{ 2 {", "{ two {", "line 1: 'two' where the number of tuples should be"),
        ("{ 2 {", "{ 0 {", "line 1: '0' where the number of tuples should be"),
        ("{ 2 {", "{ 3 {", "line 1: '}' where the opening brace of tuple 3 of 3 should be"),
        ("{ 2 {", "{ 1 {", "line 1: '{' where the closing brace behind 1 tuples should be"),
        ("{ 1 1 {", "\n{ 11 1 {", "line 2: '11' where the size of tuple 2 of 2, 1 to 10, should be"),
        ("{ 1 1 {", "\n\n{ 1 2 {", "line 3: '-1' where a square 0 to 63 should be"),
        ("{ 63 62 }", "{ 63 64 }", "'64' where a square 0 to 63 should be"),
        ("{ 63 62 }", "{ 63 -2 }", "'-2' where a square 0 to 63 should be"),
        ("{ 63 62 }", "{ 63 63 }", "a placement of tuple 1 of 2 has a square twice"),
        ("{ 63 62 }", "{ 63 62 61 }", "'61' where the closing brace behind 2 squares should be"),
        ("4 5 6", "4 five 6", "'five' where weight 5 of 9 should be"),
        ("4 5 6", "4 nan 6", "'nan' where weight 5 of 9 should be"),
        ("4 5 6", "4 5_0 6", "'5_0' where weight 5 of 9 should be"),
        ("7 8 9", "7 8", "'}' where weight 9 of 9 should be"),
        ("7 8 9", "7 8 9 10", "'10' where the closing brace behind 9 weights should be"),
        ("1e-2 } } }", "1e-2 } }\n", "the text ends where the closing brace behind 2 tuples should follow"),
        ("1e-2 } } }", "1e-2 } } }\n}", "line 2: '}' after the end"),
    ],
)
def test_errors_name_the_line_and_the_word(old, new, message):
    assert old in SMALL
    with pytest.raises(LeagueFormatError) as error:
        parse_tuples(SMALL.replace(old, new), "some.tuples")
    assert message in str(error.value)
    assert str(error.value).startswith("some.tuples, line ")


def test_files_that_are_no_texts_are_refused(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe{ 1")
    for path in (tmp_path / "binary", tmp_path / "missing", tmp_path):
        with pytest.raises(LeagueFormatError, match=str(path)):
            read_tuples(path)


@pytest.mark.skipif(os.name != "posix", reason="devices and pipes of POSIX")
def test_what_has_no_end_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, what in ((Path("/dev/zero"), "a device"), (tmp_path / "pipe", "a pipe")):
        with pytest.raises(LeagueFormatError, match=f"'{path}' cannot be read: it is {what}, not a file"):
            read_tuples(path)
        with pytest.raises(LeagueFormatError, match=f"it is {what}, not a file"):
            make_player(f"tuples:{path}")


def test_weights_whose_sum_is_no_number():
    with pytest.raises(LeagueFormatError, match="3 finite weights, none beyond ±1e"):
        Tuple(((0,), (63,)), (-1e308, 0.0, 1e308))
    large = Tuple(((0,), (63,)), (-1e30, 0.0, 1e30))
    assert tuples_evaluator([large, large], "large").discs(*(np.array([x], np.uint64) for x in (1, 2**63))) == 0


@pytest.mark.parametrize(
    ("placements", "weights"),
    [((), (1.0,)), (((1,), (1, 2)), (0.0,) * 3), (((1, 1),), (0.0,) * 9), (((64,),), (0.0,) * 3), (((1,),), (0.0,))],
)
def test_a_tuple_is_checked(placements, weights):
    with pytest.raises(LeagueFormatError, match="needs"):
        Tuple(placements, weights)


def test_a_file_of_tuples_is_a_player():
    tuples = read_tuples(FIGURE_7)
    player = make_player(f"tuples:{FIGURE_7}")
    rng = random.Random(4)
    for mover, opponent in rng.sample(endings(seed=4, games=5, fewest=5, most=50), 40):
        legal = rules.squares_in(rules.legal_mask(mover, opponent))
        if len(legal) < 2:
            continue
        values = {square: plain_value(tuples, *rules.play(mover, opponent, square)[::-1]) for square in legal}
        choice = player.choose(Position(mover, opponent))
        assert choice.depth == 1
        # 1/128 disc is 3 of the player's own units.
        assert values[choice.move] == pytest.approx(max(values.values()), abs=4)
    deeper = make_player(f"tuples:{FIGURE_7}:depth=3").choose(Position.start())
    assert deeper.depth == 3
    for wrong, message in (("tuples:", "names no file"), ("tuples:no.such", "no.such")):
        with pytest.raises(OthelloError, match=message):
            make_player(wrong)


# --- without braces, by output negation, and nets as files -----------------------------------------------------------


@pytest.mark.parametrize("tuples", [read_tuples(FIGURE_7), parse_tuples(SMALL)], ids=["figure 7", "small"])
def test_braces_may_be_left_out(tuples):
    text = format_tuples(tuples).replace("{", "").replace("}", "")
    assert parse_tuples(text) == tuples
    assert parse_tuples(f"\n  {' '.join(text.split())}") == tuples


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("2 2 2", "2 2 3", "'27' where the size of tuple 2 of 2"),  # two weights were taken for a placement
        ("63 62", "63 64", "'64' where a square 0 to 63 should be"),
        ("2 2 2", "two 2 2", "'two' where an opening brace should be"),
        ("2 2 2", "2 { 2 2", "'{' where the size of tuple 1 of 2, 1 to 10, should be"),
        ("1e-2", "1e-2 7", "'7' after the end"),
        ("0 1e-2", "0", "the text ends where weight 3 of 3 should follow"),
    ],
)
def test_errors_without_braces(old, new, message):
    text = " ".join(SMALL.replace("{", "").replace("}", "").split())
    assert text.startswith("2 2 2 0 1 63 62 1 2 3")
    text = text.replace(old, new, 1)
    with pytest.raises(LeagueFormatError, match=re.escape(message)):
        parse_tuples(text)


def test_a_player_by_output_negation(tmp_path):
    """Black looks for the largest sum of the board as it is, white for the smallest."""
    tuples = read_tuples(FIGURE_7)
    (tmp_path / "plain.player").write_text(format_tuples(tuples).replace("{", "").replace("}", ""))
    player = make_player(f"tuples:{tmp_path / 'plain.player'}:view=negation")
    rng, differs = random.Random(6), 0
    for mover, opponent in rng.sample(endings(seed=6, games=5, fewest=5, most=50), 60):
        position = Position(mover, opponent, rng.random() < 0.5)
        if len(position.legal_moves) < 2:
            continue
        after = {move: position.play(move) for move in position.legal_moves}
        sign = 1 if position.black_to_move else -1
        values = {move: sign * plain_value(tuples, board.black, board.white) for move, board in after.items()}
        choice = player.choose(position)
        assert values[choice.move] == pytest.approx(max(values.values()), abs=4)
        inverted = {move: plain_value(tuples, board.opponent, board.mover) for move, board in after.items()}
        differs += choice.move != max(inverted, key=inverted.__getitem__)
    assert differs > 5


def test_keys_of_tuples():
    assert league_player(f"tuples:{FIGURE_7}:view=negation").black is not None
    with pytest.raises(PlayerError, match="judges positions after its own move only"):
        make_player(f"tuples:{FIGURE_7}:view=negation,depth=2")
    with pytest.raises(PlayerError, match=r"view is 'both' in .*; it must be inversion or negation"):
        make_player(f"tuples:{FIGURE_7}:view=both")
    with pytest.raises(PlayerError, match="swh has no key 'view'"):
        make_player("swh:view=negation")


@pytest.mark.parametrize("view", ["inversion", "negation"])
def test_a_net_becomes_a_player_of_the_league(tmp_path, view, capsys):
    """What is written gives the net's own values: the constant is in there, and the file is read back as it was."""
    net = NTupleNet(tuples="all-2+edges", view=view)
    with torch.no_grad():
        net.weight.normal_(0, 1, generator=torch.Generator().manual_seed(1))
        net.weight[0, 0] = 2.5
    export(net, quantise=False).save(tmp_path / "net.safetensors")
    words = ["players", "--export", str(tmp_path / "net.player"), "--player", str(tmp_path / "net.safetensors")]
    assert main([*words, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["view"] == view
    assert said["player"].endswith("net.player" if view == "inversion" else "net.player:view=negation")
    tuples = read_tuples(tmp_path / "net.player")
    assert said["tuples"] == len(tuples)
    for number, (mover, opponent) in enumerate(endings(seed=3, games=2, fewest=2, most=58)[::4]):
        black = number % 2 == 0
        boards = (torch.tensor([np.uint64(mask).astype(np.int64)]) for mask in (mover, opponent))
        value = float(net.discs(*boards, torch.tensor([black])).detach())
        if view == "inversion":  # the mover is who answers the player's move
            found = -plain_value(tuples, opponent, mover)
        else:
            found = plain_value(tuples, mover, opponent) if black else -plain_value(tuples, opponent, mover)
        assert found == pytest.approx(value, abs=1e-3)
    assert make_player(said["player"]).choose(Position.start()).move is not None


def test_the_league_net_is_itself_again(tmp_path, capsys):
    path = tmp_path / "league.player"
    assert main(["players", "--export", str(path), "--player", "league"]) == 0
    assert "11 tuples, 167,265 weights, meant for inversion" in capsys.readouterr().out
    first, second = (make_player(spec) for spec in ("league:depth=1", f"tuples:{path}"))
    boards = random.Random(1).sample(endings(seed=8, games=6, fewest=4, most=56), 60)
    positions = [p for p in (Position(*board) for board in boards) if p.legal_mask]
    same = sum(first.choose(position).move == second.choose(position).move for position in positions)
    assert same >= 0.95 * len(positions)  # scores are whole numbers of 1/128 disc, of other discs: some become equal


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--player", "champion"], "go together"),
        (["--export", "a.player"], "go together"),
        (["--export", "a.player", "--player", "champion"], "its cells hold vectors (dim="),
        (["--export", "a.player", "--player", "triangle"], "it is a staged net; the League's players are sums"),
        (["--export", "a.player", "--player", "staged.safetensors"], "it has 3 stages, each with its own tables"),
        (["--export", "a.player", "--player", "legue"], "there is no net 'legue'; did you mean 'league'?"),
        (["--export", "no/a.player", "--player", "league"], "there is no folder 'no'"),
    ],
)
def test_why_a_net_is_no_such_player(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    export(NTupleNet(tuples="all-1", stages=3)).save(tmp_path / "staged.safetensors")
    assert main(["players", *words]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "a.player").exists()
