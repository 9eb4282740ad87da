"""Pictures for TensorBoard: the numbers behind them on nets whose worth is known, and what is drawn where."""

import math
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
import torch
from strategies import FINISHED

from othello_nn.arena.lockstep import play_games, random_starts
from othello_nn.engine.leaf.shapes import symmetric_placements
from othello_nn.game import rules
from othello_nn.game.position import Position
from othello_nn.game.syntax import parse_square
from othello_nn.learn.watch import drawing, probes
from othello_nn.learn.watch.contributions import contributions, table_vectors
from othello_nn.learn.watch.drawing import LEGEND, Plot, Sheet, diverging, draw_board, nice_limit, short
from othello_nn.learn.watch.games import picture_of_calibration, picture_of_strip, said_and_came
from othello_nn.learn.watch.naming import shape_name
from othello_nn.learn.watch.pictures import pictures
from othello_nn.learn.watch.sides import side_of
from othello_nn.learn.watch.strength import Self
from othello_nn.nets import DenseNet, Doubled, Net, NTupleNet, Staged, TriangleNet, make_net
from othello_nn.nets.tuple_sets import tuple_set

ALWAYS = {"squares", "edges", "game"}
KINDS = {
    "ntuple": ({"kind": "ntuple", "tuples": "all-2"}, set()),
    "ntuple-stages": ({"kind": "ntuple", "tuples": "patterns", "stages": 15, "shared": True}, {"stages"}),
    "ntuple-many": ({"kind": "ntuple", "tuples": "all-3", "stages": 60, "view": "negation"}, {"stages"}),
    "embedding": ({"kind": "ntuple", "tuples": "edges+all-1", "dim": 8, "stages": 2}, {"stages"}),
    "triangle": ({"kind": "triangle", "maps": 24, "empties": True}, {"triangle"}),
    "small-triangle": ({"kind": "triangle", "maps": 1, "symmetric": True}, {"triangle"}),
    "staged-triangle": ({"kind": "staged", "net": {"kind": "triangle", "maps": 12}}, {"triangle", "coefficients"}),
    "staged-ntuple": (
        {"kind": "staged", "net": {"kind": "ntuple", "tuples": "rows", "stages": 3}, "centres": [10, 10, 50.5, 60]},
        {"coefficients", "stages"},
    ),
    "sixteen": (
        {"kind": "doubled", "net": {"kind": "staged", "net": {"kind": "triangle"}, "centres": list(range(4, 65, 4))}},
        {"triangle", "coefficients"},
    ),
    "doubled": ({"kind": "doubled", "net": {"kind": "ntuple", "tuples": "all-1"}}, set()),
    "doubled-staged": (
        {"kind": "doubled", "net": {"kind": "staged", "net": {"kind": "triangle", "maps": 3}, "gate": "learned"}},
        {"triangle", "coefficients"},
    ),
    "staged-doubled": (
        {"kind": "staged", "net": {"kind": "doubled", "net": {"kind": "triangle", "maps": 9}}},
        {"triangle", "coefficients"},
    ),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def fill(net: Net, size: float) -> Net:
    """The net with normal weights of that size; with a size that is not finite, all of them that."""
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for parameter in net.parameters():
            if math.isfinite(size):
                parameter.normal_(0, size, generator=generator)
            else:
                parameter.fill_(size)
    return net


def corner_net(own: float, opponents: float, stages: int = 1, stage: int | None = None, **options) -> NTupleNet:
    """An n-tuple net that knows only what a disc in a corner is worth."""
    net = NTupleNet("all-1", stages=stages, **options)
    table = net.tuples.index((0,))
    with torch.no_grad():
        start = net.shapes.table_starts[table]
        rows = slice(None) if stage is None else stage
        net.weight[rows, start] = opponents
        net.weight[rows, start + 2] = own
    return net


def corners(worth: float) -> np.ndarray:
    board = np.zeros(64)
    board[[0, 7, 56, 63]] = worth
    return board


@pytest.fixture
def sheets(monkeypatch) -> list[Sheet]:
    """The sheets that are drawn, in order."""
    drawn: list[Sheet] = []
    array = Sheet.array
    monkeypatch.setattr(Sheet, "array", lambda sheet: drawn.append(sheet) or array(sheet))
    return drawn


def overlap(a: drawing.Label, b: drawing.Label) -> bool:
    return a.box[0] < b.box[2] and b.box[0] < a.box[2] and a.box[1] < b.box[3] and b.box[1] < a.box[3]


def check_labels(sheet: Sheet) -> None:
    """No words are cut off by the border, none lie on others, and all are in the font."""
    for label in sheet.labels:
        left, top, right, bottom = label.box
        assert 0 <= left < right <= sheet.width, label
        assert 0 <= top < bottom <= sheet.height, label
        assert label.words.isascii(), label
    by_height = sorted(sheet.labels, key=lambda label: label.box[1])
    for i, label in enumerate(by_height):
        for other in by_height[i + 1 :]:
            if other.box[1] >= label.box[3]:
                break
            assert not overlap(label, other), (label, other)


# All kinds of nets.


@every_kind
def test_tags_and_pictures_of_every_kind(kind, sheets):
    config, more = KINDS[kind]
    threads = torch.get_num_threads()
    net = fill(make_net(config), 0.5)
    found = pictures(net)
    assert found.keys() == {f"pictures/{name}" for name in ALWAYS | more}
    for tag, picture in found.items():
        height, width, colours = picture.shape
        assert picture.dtype == np.uint8
        assert colours == 3
        assert 500 <= width <= 900, tag
        assert 300 <= height <= 1300, tag
    for sheet in sheets:
        check_labels(sheet)
    assert torch.get_num_threads() == threads
    assert all(parameter.grad is None for parameter in net.parameters())


@pytest.mark.parametrize("kind", ["ntuple-stages", "embedding", "triangle", "staged-ntuple", "doubled-staged"])
@pytest.mark.parametrize("size", [0.0, 1e-3, 1e12, math.nan, math.inf])
def test_any_weights_can_be_drawn(kind, size, sheets):
    """A fresh net is all zeros, and training that diverges must not end with an error of the pictures."""
    pictures(fill(make_net(KINDS[kind][0]), size))
    for sheet in sheets:
        check_labels(sheet)


def test_the_same_net_gives_the_same_pictures():
    net = fill(TriangleNet(maps=3), 1.0)
    first, second = pictures(net), pictures(net)
    assert all((first[tag] == second[tag]).all() for tag in first)


# Worth.


def test_sample_boards_have_the_empties_of_their_bands_in_all_images():
    movers, opponents, blacks = probes.sample_boards()
    for band, (name, empties) in enumerate(probes.BANDS.items()):
        for i, expected in enumerate(empties):
            first = Position(int(movers[band, i, 0]), int(opponents[band, i, 0]), bool(blacks[band, i, 0]))
            assert first.empties == expected, name
            images = [
                Position(int(movers[band, i, k]), int(opponents[band, i, k]), first.black_to_move) for k in range(8)
            ]
            assert tuple(images) == first.symmetries()
    assert blacks.any()
    assert not blacks.all()


def test_worth_of_a_corner_is_shown_in_the_corners_only():
    worths = probes.square_worths(corner_net(own=3.0, opponents=-1.0))  # 3 to move, 1 for the other side: 2 on average
    assert worths.shape == (3, 64)
    np.testing.assert_allclose(worths, np.tile(corners(2.0), (3, 1)), atol=1e-5)


@pytest.mark.parametrize("band", range(3))
def test_worth_goes_by_the_part_of_the_game(band):
    worths = probes.square_worths(corner_net(3.0, -3.0, stages=3, stage=2 - band))  # stage 0 is the end
    for each in range(3):
        np.testing.assert_allclose(worths[each], corners(3.0 if each == band else 0.0), atol=1e-5)


@pytest.mark.parametrize("triangle", range(8))
def test_a_net_without_symmetry_has_a_map_without_symmetry(triangle):
    net = fill(TriangleNet(maps=2), 0.0)
    with torch.no_grad():
        net.weights[1, 1] = 0.8  # b1 and its images
        net.outputs[1, triangle] = 0.5
    expected = np.zeros(64)
    expected[rules.SYMMETRIES[triangle][parse_square("b1")]] = net.scale * 0.5 * math.tanh(0.4)
    assert not probes.is_symmetric(net)
    np.testing.assert_allclose(probes.square_worths(net), np.tile(expected, (3, 1)), atol=1e-5)


def test_symmetric_nets_take_a_short_cut_to_the_same_worths():
    net = fill(TriangleNet(maps=6, symmetric=True), 0.7)
    squares = np.uint64(1) << np.arange(64, dtype=np.uint64)
    with torch.no_grad():
        assert probes.is_symmetric(net)
        short_cut = probes.square_worths(net)
        full = probes.worth(net, squares, np.zeros_like(squares), squares)
    assert np.abs(full).max() > 0.5
    np.testing.assert_allclose(short_cut, full, atol=1e-3)


def test_doubled_nets_are_shown_for_each_colour(sheets):
    net = Doubled(NTupleNet("all-1"))
    net.black, net.white = corner_net(2.0, -2.0), corner_net(-5.0, 5.0)
    np.testing.assert_allclose(probes.square_worths(net, black=True)[0], corners(2.0), atol=1e-5)
    np.testing.assert_allclose(probes.square_worths(net, black=False)[0], corners(-5.0), atol=1e-5)
    pictures(net)
    words = [label.words for label in sheets[0].labels]
    assert (words.count("2.0"), words.count("-5.0")) == (12, 12)


def test_a_net_that_sees_the_colours_is_told_them():
    net = corner_net(3.0, -3.0, view="negation")
    for black in (True, False, None):
        np.testing.assert_allclose(probes.square_worths(net, black)[1], corners(3.0), atol=1e-5)


# Edges.


def edge_cell(net: NTupleNet, signs: str) -> int:
    """The cell of an edge by plain counting: digit 0 opponent, 1 empty, 2 mover, the first square least."""
    return net.shapes.table_starts[0] + sum("O-X".index(sign) * 3**j for j, sign in enumerate(signs))


def test_worth_of_an_edge_by_its_table_and_by_the_whole_net():
    net = NTupleNet("edges", stages=3, shared=True)
    with torch.no_grad():
        net.weight[0, edge_cell(net, "-XXXXXX---")] = 5.0
        net.weight[0, edge_cell(net, "-OOOOOO---")] = -7.0
        net.weight[3, edge_cell(net, "XOOOOOO---")] = 4.0  # the shared row: in all parts of the game
    names = [name for name, *_ in probes.EDGES]
    table, whole = probes.edge_table_worths(net), probes.edge_worths(net)
    expected = np.zeros((len(names), 3))
    expected[names.index("balanced six"), 2] = 6.0
    expected[names.index("corner against a full edge")] = 2.0
    np.testing.assert_allclose(table, expected, atol=1e-6)
    # On the whole board clearing the edge makes a board earlier, and filling it later: not all stay in their stage.
    np.testing.assert_allclose(whole[:, 0], expected[:, 0], atol=1e-5)
    np.testing.assert_allclose(whole[names.index("corner against a full edge")], 2.0, atol=0.1)
    assert 3.0 < whole[names.index("balanced six"), 2] <= 6.0
    assert np.abs(whole[[i for i, name in enumerate(names) if not expected[i].any()]]).max() < 0.1


def test_edges_without_x_squares_leave_those_configurations_out(sheets):
    net = NTupleNet("rows")
    with torch.no_grad():
        net.weight[0, net.shapes.table_starts[0] + 3**8 - 1] = 8.0  # eight own discs in a row
    table = probes.edge_table_worths(net)
    for (name, _, x_squares), values in zip(probes.EDGES, table, strict=True):
        assert np.isnan(values).all() == (x_squares != "--"), name
    np.testing.assert_allclose(table[0], 4.0)
    pictures(net)
    assert sum(label.words == "n/a" for label in sheets[1].labels) == 6


@pytest.mark.parametrize(
    "net", [NTupleNet("all-2"), NTupleNet("edges", dim=2), TriangleNet(maps=1), Staged(NTupleNet("edges"))]
)
def test_nets_without_a_table_of_edges_have_only_the_whole_net(net, sheets):
    assert probes.edge_table_worths(net) is None
    pictures(net)
    words = [label.words for label in sheets[1].labels]
    assert "whole net" in words
    assert "edge's table alone" not in words


# Triangle maps and sizes of weights.


def test_maps_come_by_the_size_of_their_outputs_with_good_as_positive():
    net = fill(TriangleNet(maps=3), 0.0)
    with torch.no_grad():
        net.weights[:] = torch.arange(30.0).reshape(3, 10)
        net.outputs[0] = 0.25
        net.outputs[1] = -0.75
        net.outputs[2] = torch.tensor([1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    weights, sizes = probes.ordered_maps(net)
    np.testing.assert_allclose(sizes, [0.75, 0.5, 0.25])
    np.testing.assert_allclose(weights, [-np.arange(10.0, 20), np.arange(20.0, 30), np.arange(10.0)])


def test_a_map_is_laid_out_on_all_triangles():
    board = probes.on_board(np.arange(10.0))
    for names, value in (("a1 h1 a8 h8", 0), ("b1 a2 g8 h7", 1), ("d1 e1 a4 h5", 3), ("c3 f6", 7), ("d4 e5", 9)):
        assert {board[parse_square(name)] for name in names.split()} == {value}


@pytest.mark.parametrize("options", [{}, {"view": "negation"}, {"shared": True}])
def test_a_shape_contributes_what_the_value_would_lose(options):
    """A constant and a table that says the same of everything contribute nothing, however large they are."""
    net = NTupleNet([[0], [9]], stages=2, **options)
    with torch.no_grad():
        net.weight[:, 0] = 100.0
        net.weight[:, net.shapes.table_starts[1] :] = 50.0
        net.weight[1, net.shapes.table_starts[0]] = -2.0
        net.weight[1, net.shapes.table_starts[0] + 2] = 2.0
    found = contributions(net)
    assert found.shape == (2, 2)
    np.testing.assert_allclose(found[1], 0, atol=1e-4)
    assert found[0, 1] > 0.1, "the first half of the game, in which corners are taken now and then"
    np.testing.assert_allclose(found[0, 0], 0, atol=1e-4)


def test_contributions_of_embeddings_are_in_discs():
    """An embedding net whose first number is the sum and whose network adds nothing is a linear one."""
    linear, vectors = NTupleNet("edges", stages=3), NTupleNet("edges", stages=3, dim=4)
    fill(linear, 0.5)
    with torch.no_grad():
        vectors.weight.zero_()
        vectors.weight[..., 0] = linear.weight
    np.testing.assert_allclose(contributions(vectors), contributions(linear), rtol=1e-4)


def test_vectors_are_those_of_the_contents_they_are_named_by():
    net = fill(NTupleNet("edges+all-1", stages=2, dim=4), 0.1)
    found = table_vectors(net)
    assert found.shape == "edge and 2 X"
    assert found.vectors.shape == (len(found.contents), 4)
    assert len(set(found.contents)) == len(found.contents) > 50
    where = found.contents.index("-" * 10)
    middle = net.shapes.table_starts[0] + (3**10 - 1) // 2
    np.testing.assert_allclose(found.vectors[where], net.weight[1, middle].detach().numpy())
    own = next(each for each in found.contents if each.count("X") == 1 and "O" not in each)
    cell = middle + 3 ** own.index("X")
    np.testing.assert_allclose(
        found.vectors[found.contents.index(own)], net.weight[1, cell].detach().numpy(), rtol=1e-5
    )
    assert np.isfinite(found.worths).all()
    assert found.worths.std() > 0


@pytest.mark.parametrize("set_name", ["patterns", "wide"])
def test_every_shape_of_ours_has_a_name_of_its_own(set_name):
    names = [shape_name(squares) for squares in tuple_set(set_name)]
    assert len(set(names)) == len(names)
    assert not any(" from " in name for name in names)
    for squares in tuple_set(set_name):
        for image in symmetric_placements(squares):
            assert shape_name(image) == shape_name(squares)


# Games.


def test_colours_mean_the_same_in_all_pictures(sheets):
    """Two frames of a film: another net, the same scale."""
    for size in (0.01, 2.0):
        pictures(fill(NTupleNet("patterns", stages=6), size))
    half = len(sheets) // 2
    for first, second in zip(sheets[:half], sheets[half:], strict=True):
        bars = [
            [label.words for label in sheet.labels if label.box[1] > sheet.height - LEGEND] for sheet in (first, second)
        ]
        assert bars[0] == bars[1]


def test_what_a_net_said_is_beside_what_came_of_it():
    net = corner_net(5.0, -5.0)
    side = side_of(net)
    played = play_games(side, side, random_starts(4, 7, 1), 1, keep=True)
    said, came, empties = said_and_came(net, played)
    assert len(said) == len(came) == len(empties) == sum(len(numbers) for numbers, _ in played.path)
    assert set(came.tolist()) <= set(played.margins.tolist())
    assert empties.max() <= 53
    at = played.path[-1][1].where(np.array([0]))
    corners_of = [int(each[0]) & 0x8100000000000081 for each in (at.movers, at.opponents)]
    lead = 5.0 * (corners_of[0].bit_count() - corners_of[1].bit_count()) * (1 if at.blacks[0] else -1)
    row = sum(len(numbers) for numbers, _ in played.path[:-1])
    assert said[row] == pytest.approx(lead)


@pytest.mark.parametrize("net", [NTupleNet("patterns", stages=2), TriangleNet(maps=2), DenseNet()])
def test_games_are_drawn(net, sheets):
    fill(net, 0.2)
    before = Self.of(64, fill(make_net(net.config), 0.1))
    assert picture_of_calibration(net).shape[1:] == (900, 3)
    strip = picture_of_strip(net, 1024, before)
    assert strip.shape[1:] == (900, 3)
    for sheet in sheets:
        check_labels(sheet)
    words = " ".join(label.words for label in sheets[-1].labels)
    assert "1,024 games" in words
    assert "with 64." in words
    assert any(ending in words for ending in ("Black wins", "White wins", "draw"))


# The game.


def game_of(moves: str) -> list[Position]:
    game = [Position.start()]
    for move in [moves[i : i + 2] for i in range(0, len(moves), 2)]:
        if game[-1].must_pass:
            game.append(game[-1].play(rules.PASS))
        game.append(game[-1].play(move))
    return game


def test_the_built_in_game_is_a_whole_game():
    game = probes.sample_game()
    assert game[0] == Position.start()
    assert game[-1].is_over
    for before, after in pairwise(game):
        assert after in [before.play(move) for move in before.legal_moves or (rules.PASS,)]


def test_the_final_margin_is_shown_once_the_game_is_over(sheets):
    game = game_of(FINISHED)
    net = NTupleNet("all-1")
    pictures(net, game)
    assert "final margin +44" in [label.words for label in sheets[-1].labels]
    pictures(net, game[:-1])
    assert sheets[-1].labels[0].words == "The net's opinion along a game"
    assert not any(label.words.startswith("final margin") for label in sheets[-1].labels)


@pytest.mark.parametrize("discs", [32.0, -48.0])
def test_the_opinion_is_drawn_from_blacks_view(discs, sheets):
    net = NTupleNet("all-1", view="negation")
    with torch.no_grad():
        net.weight[0, 0] = discs  # for black, whoever is to move
    picture = pictures(net)["pictures/game"].astype(int)
    heights = {label.words: (label.box[1] + label.box[3]) / 2 for label in sheets[-1].labels if label.box[2] < 50}
    in_row = (np.abs(picture - drawing.CURVES[0]).sum(2) < 60).sum(1)
    assert in_row.max() > 700
    assert np.argmax(in_row) == pytest.approx(heights[f"{discs:g}"], abs=2)


# Drawing.


def test_a_board_is_drawn_with_a1_at_the_top_left():
    sheet = Sheet(300, "a title", width=300)
    values = np.zeros(64)
    values[parse_square("a1")], values[parse_square("g2")], values[parse_square("h8")] = 2.0, -2.0, math.nan
    draw_board(sheet, 40, 60, 20, values, limit=2.0, numbers=False)
    picture = sheet.array()
    for square in range(64):
        rank, file = divmod(square, 8)
        expected = {0: drawing.BLUE, 14: drawing.RED, 63: drawing.UNKNOWN}.get(square, drawing.NEAR_ZERO)
        assert tuple(picture[60 + 20 * rank + 10, 40 + 20 * file + 10]) == expected, square


def test_colours_go_from_red_to_blue_as_far_as_the_limit():
    assert diverging(-4, 4) == diverging(-9, 4) == drawing.RED
    assert diverging(4, 4) == diverging(math.inf, 4) == drawing.BLUE
    assert diverging(0, 4) == drawing.NEAR_ZERO
    red, _, blue = diverging(1, 4)
    assert drawing.BLUE[0] < red < blue < 255


@pytest.mark.parametrize(
    ("values", "limit"),
    [
        ([0.0], 1),
        ([0.3, -0.9], 1),
        ([1.01], 1.5),
        ([-12.0, 3.0], 15),
        ([99.0, math.nan, math.inf], 100),
        ([0.002], 0.002),
    ],
)
def test_limits_are_round_and_large_enough(values, limit):
    assert nice_limit(np.array(values)) == pytest.approx(limit)


@pytest.mark.parametrize(
    ("value", "limit", "words"),
    [
        (3.14, 5, "3.1"),
        (-0.04, 5, "0.0"),
        (-12.6, 20, "-13"),
        (9.97, 10, "10"),
        (0.123, 0.2, "0.12"),
        (-0.0123, 0.02, "-.012"),
        (-123456.0, 2e5, "-1e5"),
        (math.nan, 1, "n/a"),
        (-math.inf, 1, "-inf"),
    ],
)
def test_numbers_are_short(value, limit, words):
    assert short(value, limit) == words


def test_plots_put_what_is_beyond_them_on_the_border():
    plot = Plot(Sheet(200, "a title", width=400), (50, 60, 300, 100), (0, 10), (-5, 0, 5), "moves")
    assert plot.at(0, 5) == (50, 60)
    assert plot.at(5, 0) == (200, 110)
    assert plot.at(20, -99) == (350, 160)


def test_pillow_is_not_imported_before_it_is_needed():
    code = "import sys, othello_nn.learn.watch.drawing; sys.exit('PIL' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
