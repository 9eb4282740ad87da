"""The player with learnt weights of features: each feature by its definition, the fit, the file, the play."""

import random
import shutil
import sys

import numpy as np
import pytest
from strategies import endings, scattered
from test_kernels import stable_by_definition

from othello_nn.arena.match import play_match
from othello_nn.arena.openings import random_openings
from othello_nn.checkpoint import Checkpoint, CheckpointError
from othello_nn.engine import Limit
from othello_nn.engine.leaf.door import score_all
from othello_nn.engine.oneply import new_scratch
from othello_nn.engine.score import LEAF_LIMIT, SCORE_DISC
from othello_nn.fit import features as fit_features
from othello_nn.fit.features import Recipe, fit, greedy_move, labelled, least_squares, main, mixed_move, stage_empties
from othello_nn.game import Position, rules
from othello_nn.game.rules import squares_in
from othello_nn.kernels.chance import random_stream
from othello_nn.players import PlayerError, make_player, player_names
from othello_nn.players.classic import features
from othello_nn.players.classic.features import (
    COUNT,
    SHIPPED,
    STAGES,
    TERMS,
    FeatureEvaluator,
    shipped_features,
    term_values,
)
from othello_nn.players.classic.wystan import WYSTAN

FULL = 2**64 - 1
TINY = Recipe(positions=60, depth=3, solve_empties=4, seed=3)
OF_A_SIDE = ("score", "mobility", "corners", "frontier", "stability", "access", "edges", "X-squares")
OF_THE_TURN = ("global parity", "local parity", "turn")


def columns(boards: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    movers, opponents = zip(*boards, strict=True)
    return np.array(movers, np.uint64), np.array(opponents, np.uint64)


def boards_of_all_kinds() -> list[tuple[int, int]]:
    return endings(21, 8, 0, 60)[::3] + scattered(22, 150, 0, 40)


# --- the features ----------------------------------------------------------------------------------------------------


def around(square: int) -> list[int]:
    rank, file = divmod(square, 8)
    near = [(rank + i, file + j) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j]
    return [8 * r + f for r, f in near if 0 <= r < 8 and 0 <= f < 8]


def regions_by_definition(empty: int) -> list[set[int]]:
    left, found = set(squares_in(empty)), []
    while left:
        waiting, region = [left.pop()], set()
        while waiting:
            square = waiting.pop()
            region.add(square)
            waiting += [other for other in around(square) if other in left]
            left -= set(waiting)
        found.append(region)
    return found


def side_by_definition(own: int, other: int) -> dict[str, int]:
    """What is counted for one side."""
    discs, empty, legal = squares_in(own), ~(own | other) & FULL, set(squares_in(rules.legal_mask(own, other)))
    on_edge = [square for square in discs if square // 8 in (0, 7) or square % 8 in (0, 7)]
    return {
        "score": len(discs),
        "mobility": len(legal),
        "corners": sum(square in (0, 7, 56, 63) for square in discs),
        "frontier": sum(any(empty >> other & 1 for other in around(square)) for square in discs),
        "stability": stable_by_definition(own, other).bit_count(),
        "access": sum(bool(region & legal) for region in regions_by_definition(empty)),
        "edges": sum(square not in (0, 7, 56, 63) for square in on_edge),
        "X-squares": sum(square in (9, 14, 49, 54) for square in discs),
    }


def terms_by_definition(mover: int, opponent: int) -> list[float]:
    mine, theirs = side_by_definition(mover, opponent), side_by_definition(opponent, mover)
    values: dict[str, float] = {name: mine[name] - theirs[name] for name in mine}
    empty = ~(mover | opponent) & FULL
    regions = len(regions_by_definition(empty))
    # Whoever makes the last move of an odd number of moves also makes the first.
    values["global parity"] = 1 if empty.bit_count() % 2 else -1
    last_in_mine, last_in_theirs = regions // 2, regions // 2
    if regions % 2:
        last_in_mine += values["global parity"] == 1
        last_in_theirs += values["global parity"] == -1
    values["local parity"] = (last_in_mine - last_in_theirs) / max(regions, 1)
    values["turn"] = 1
    return [values[name] for name in TERMS]


def test_every_feature_is_that_of_the_definition():
    boards = boards_of_all_kinds()
    found = term_values(*columns(boards))
    wanted = np.array([terms_by_definition(*board) for board in boards])
    for i, name in enumerate(TERMS):
        assert np.allclose(found[:, i], wanted[:, i], atol=1e-3), name  # more than 11 regions are rounded
    assert (np.ptp(wanted, axis=0) > 0)[:-1].all(), "each of them differs among these boards"
    assert len({len(regions_by_definition(~(m | o) & FULL)) for m, o in boards}) > 8


def test_a_position_counted_by_hand():
    """Black, to move, holds a1, a2 and b2, the first two for good, and can play d2; white holds c2 and cannot move."""
    black, white = 1 << 0 | 1 << 8 | 1 << 9, 1 << 10
    values = dict(zip(TERMS, term_values(*columns([(black, white)]))[0], strict=True))
    assert values == {
        "score": 2,
        "mobility": 1,
        "corners": 1,
        "frontier": 2,
        "stability": 2,
        "global parity": -1,
        "access": 1,
        "local parity": -1,
        "edges": 1,
        "X-squares": 1,
        "turn": 1,
    }


def test_images_have_the_same_features():
    boards = boards_of_all_kinds()[::4]
    expected = term_values(*columns(boards))
    for image in range(1, 8):
        seen = [(rules.transform_mask(m, image), rules.transform_mask(o, image)) for m, o in boards]
        assert np.array_equal(term_values(*columns(seen)), expected)


def test_what_changes_sides_with_the_colours():
    movers, opponents = columns(boards_of_all_kinds())
    here, there = term_values(movers, opponents), term_values(opponents, movers)
    assert set(OF_A_SIDE) | set(OF_THE_TURN) == set(TERMS)
    for i, name in enumerate(TERMS):
        assert np.array_equal(there[:, i], here[:, i] * (-1 if name in OF_A_SIDE else 1)), name


def scores(evaluator: FeatureEvaluator, boards: list[tuple[int, int]]) -> np.ndarray:
    found, movers = np.zeros(len(boards), np.int64), columns(boards)
    score_all(evaluator.leaf, 0, *movers, found)
    return found


def test_a_score_is_the_weighted_sum_of_its_stage():
    weights = np.random.default_rng(1).normal(0, 1.5, (STAGES, COUNT)).astype(np.float32)
    boards = boards_of_all_kinds()
    stages = [min((64 - (m | o).bit_count()) // 2, 29) for m, o in boards]
    discs = (term_values(*columns(boards)) * weights[stages]).sum(1)
    limit = LEAF_LIMIT / SCORE_DISC
    assert scores(FeatureEvaluator("x", weights), boards) / SCORE_DISC == pytest.approx(
        np.clip(discs, -limit, limit), abs=0.5 / SCORE_DISC + 1e-4
    )
    assert (np.abs(discs) > limit).any()
    assert (np.abs(discs) < limit).sum() > len(boards) // 2


# --- the fit ---------------------------------------------------------------------------------------------------------


def test_stages_cover_the_game():
    covered = [
        empties for stage in range(STAGES) for empties in range(stage_empties(stage)[0], stage_empties(stage)[1] + 1)
    ]
    assert covered == list(range(1, 61))


def test_the_greedy_move_turns_the_most():
    for mover, opponent in endings(5, 2, 1, 60):
        legal = rules.legal_mask(mover, opponent)
        if legal:
            turned = {square: rules.flips_mask(mover, opponent, square).bit_count() for square in squares_in(legal)}
            assert turned[greedy_move(*map(np.uint64, (mover, opponent, legal)))] == max(turned.values())


def test_moves_are_mixed_as_in_the_report():
    position = Position.parse("f5d6c3d3c4f4c5b3")
    board = np.uint64(position.mover), np.uint64(position.opponent), np.uint64(position.legal_mask)
    greedy = greedy_move(*board)
    best = make_player("wystan:depth=1").choose(position).move
    assert greedy != best
    states = [np.uint64(random_stream(np.uint64(7), np.uint64(i))) for i in range(4000)]
    scratch = new_scratch()
    chosen = [mixed_move(WYSTAN, scratch.ctypes.data, *board, position.empties, state)[0] for state in states]
    by_chance = 0.10 / len(position.legal_moves)
    for move in position.legal_moves:
        expected = by_chance + 0.20 * (move == greedy) + 0.70 * (move == best)
        assert chosen.count(move) / len(chosen) == pytest.approx(expected, abs=0.03)


def test_positions_are_of_their_stage_and_solved_where_few_are_empty():
    zeros = np.zeros((STAGES, COUNT), np.float32)
    data = labelled(2, zeros, Recipe(positions=80, depth=3, solve_empties=5))
    boards = [(int(m), int(o)) for m, o in zip(data.movers, data.opponents, strict=True)]
    assert {64 - (m | o).bit_count() for m, o in boards} == {4, 5}
    assert len(set(boards)) == len(boards) > 70
    assert all(rules.legal_mask(m, o) for m, o in boards)
    assert list(data.labels[:25]) == [rules.solve(m, o) for m, o in boards[:25]]


def test_values_come_from_stages_already_learnt():
    weights = np.random.default_rng(2).normal(0, 1, (STAGES, COUNT)).astype(np.float32)
    before = labelled(12, weights, TINY)
    weights[12:] = 500
    assert np.array_equal(labelled(12, weights, TINY).labels, before.labels)
    weights[11] += 1
    assert not np.array_equal(labelled(12, weights, TINY).labels, before.labels)


def test_least_squares_finds_the_weights_that_made_the_labels():
    values = term_values(*columns(endings(6, 40, 20, 40)))
    truth = np.random.default_rng(4).normal(0, 1, COUNT)
    truth[7] = truth[9] = 0
    values[:, [7, 9]] = 0  # of two terms nothing is seen
    near = np.full(COUNT, 0.25)
    found = least_squares(values, values @ truth, near)
    assert found[[7, 9]] == pytest.approx([0.25, 0.25])
    seen = [i for i in range(COUNT) if i not in (7, 9)]
    assert found[seen] == pytest.approx(truth[seen], abs=0.2)


def test_the_score_says_most_at_the_end():
    """As in the report, which knew no stable discs: with one square empty, the discs decide."""
    data = labelled(0, np.zeros((STAGES, COUNT), np.float32), Recipe(positions=400))
    used = [i for i, name in enumerate(TERMS) if name != "stability"]
    values = term_values(data.movers, data.opponents)[:, used]
    weights = least_squares(values, data.labels, np.zeros(len(used)))
    said = np.abs(weights) * values.std(0)
    assert np.argmax(said) == TERMS.index("score")
    assert said[0] > 4 * np.sort(said)[-2]
    assert weights[0] == pytest.approx(1, abs=0.1)


def test_a_small_fit_from_the_command_line(tmp_path, capsys):
    words = ["--positions", "40", "--depth", "3", "--seed", "3", "--without", "X-squares"]
    first, again = tmp_path / "first.safetensors", tmp_path / "again.safetensors"
    assert main([*words, "--out", str(first)]) == 0
    done = capsys.readouterr()
    assert done.out == f"weights in {first}\n"
    assert len(done.err.splitlines()) >= STAGES
    assert " 4 to  5 empties: " in done.err
    made = FeatureEvaluator.load(first)
    assert (
        made.info["recipe"] | {"positions": 40, "depth": 3, "seed": 3, "without": ["X-squares"]} == made.info["recipe"]
    )
    assert len(made.info["error_discs"]) == STAGES
    assert not made.weights[:, TERMS.index("X-squares")].any()
    assert made.weights[:25, TERMS.index("mobility")].all()
    assert main([*words, "--out", str(again)]) == 0
    same = FeatureEvaluator.load(again)
    assert np.array_equal(same.weights, made.weights), "the same seed, the same weights"
    assert same.info == made.info
    other = fit(Recipe(positions=40, depth=3, seed=4))
    assert not np.array_equal(other.weights, made.weights)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--positions", "0"], "--positions: '0' is not a whole number from 1 to 10,000,000"),
        (["--depth", "2"], "--depth: '2' is not a whole number from 3 to 20"),
        (["--seed", "-1"], "--seed: '-1' is not a whole number from 0 to"),
        (["--without", "corner"], "there is no feature 'corner'; choose from score, mobility, "),
        (["--out", "nowhere/x.safetensors"], "there is no folder 'nowhere' for the result"),
        (["--out", "."], "'.' is a folder; name a file for the result"),
    ],
)
def test_mistakes_are_explained_before_the_work_begins(words, message, capsys):
    with pytest.raises(SystemExit) as end:
        sys.exit(main(words))
    assert end.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error
    assert error.count("\n") == 1


def test_an_interrupted_fit_saves_nothing(monkeypatch, tmp_path, capsys):
    def press(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(fit_features, "label_positions", press)
    assert main(["--positions", "10", "--out", str(tmp_path / "x.safetensors")]) == 130
    assert capsys.readouterr().err == "interrupted; nothing was saved\n"
    assert not list(tmp_path.iterdir())


# --- the file --------------------------------------------------------------------------------------------------------


def rewritten(path, net=None, **arrays):
    found = Checkpoint.load(path)
    Checkpoint(net or found.net, arrays or found.arrays, found.info).save(path)


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-40]), "not a readable safetensors file"),
        (lambda path: rewritten(path, {"kind": "ntuple"}), "a net of kind 'ntuple', not weights of features"),
        (lambda path: rewritten(path, {"kind": "features", "terms": ["luck"]}), "its features are not those"),
        (lambda path: rewritten(path, weights=np.zeros((29, COUNT), np.float32)), "not float32 [29, 11]"),
        (lambda path: rewritten(path, weights=np.zeros((30, COUNT), np.int16)), "not int16 [30, 11]"),
        (lambda path: rewritten(path, weights=np.full((30, COUNT), 1e5, np.float32)), "within ±1000 discs"),
        (lambda path: rewritten(path, other=np.zeros((30, COUNT), np.float32)), "one array, 'weights', not ['other']"),
    ],
)
def test_a_damaged_file_is_refused(harm, message, tmp_path):
    path = tmp_path / "features.safetensors"
    shutil.copy(SHIPPED, path)
    assert np.array_equal(FeatureEvaluator.load(path).weights, shipped_features().weights)
    harm(path)
    with pytest.raises(CheckpointError) as error:
        FeatureEvaluator.load(path)
    assert message in str(error.value)
    assert str(error.value).startswith(str(path))
    assert "\n" not in str(error.value)


def test_without_its_file_the_player_says_how_to_make_it(monkeypatch, tmp_path):
    monkeypatch.setattr(features, "SHIPPED", tmp_path / "features.safetensors")
    shipped_features.cache_clear()
    with pytest.raises(PlayerError, match=r"not there; python -m othello_nn\.fit\.features makes it"):
        make_player("features")
    shipped_features.cache_clear()


def test_the_shipped_weights_are_those_of_the_default_recipe():
    recipe = shipped_features().info["recipe"]
    assert recipe == {**Recipe().__dict__, "without": []}
    assert fit_features.SHIPPED == SHIPPED


def test_the_shipped_weights_know_what_players_know():
    weights = dict(zip(TERMS, shipped_features().weights.T, strict=True))
    assert weights["score"][0] + weights["stability"][0] == pytest.approx(1, abs=0.15), "at the end discs are discs"
    middle = slice(5, 21)  # 10 to 41 empties
    for good in ("mobility", "corners", "stability", "access"):
        assert (weights[good][middle] > 0).all(), good
    for bad in ("frontier", "X-squares"):
        assert (weights[bad][middle] < 0).all(), bad
    # The report: the side with fewer discs in the first half of the game often ends up winning.
    assert (np.abs(weights["score"][15:21]) < 0.3).all()


# --- the player ------------------------------------------------------------------------------------------------------


def test_the_player_searches_with_the_shipped_weights():
    player = make_player("features:depth=1")
    assert player.engine.evaluator is shipped_features()
    assert make_player("features", seconds=0.02).limit == Limit(seconds=0.02)
    assert player_names()["features"].default == "seconds=0.1"
    boards = [board for board in endings(9, 3, 10, 50) if rules.legal_mask(*board)]
    for mover, opponent in random.Random(1).sample(boards, 12):
        after = [rules.play(mover, opponent, square) for square in squares_in(rules.legal_mask(mover, opponent))]
        if all(rules.legal_mask(*board) for board in after):
            choice = player.choose(Position(mover, opponent))
            assert choice.score == -scores(shipped_features(), after).min() / SCORE_DISC


def test_weights_of_ones_own_play_by_their_path(tmp_path):
    path = tmp_path / "mine.safetensors"
    weights = np.zeros((STAGES, COUNT), np.float32)
    weights[:, TERMS.index("mobility")] = 1
    FeatureEvaluator("mine", weights).save(path)
    # After f5 white can play d6, f4 and f6, and black, were it to move again, three squares too.
    assert make_player(f"{path}:depth=1").choose(Position.start()).score == 0


def test_it_beats_square_weights():
    result = play_match("features:depth=2", "swh:depth=2", random_openings(7, 10, seed=1), 20)
    assert result.score > 0.75
