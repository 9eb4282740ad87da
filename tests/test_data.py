"""Positions of searched games: what they say, and how they are kept."""

import itertools
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from othello_nn.engine import Engine, Limit, Options
from othello_nn.engine.leaf.tables import weighted_squares
from othello_nn.game import Position, rules
from othello_nn.learn.data.labels import FEWEST, firsts, labels, later_records, lines
from othello_nn.learn.data.searched import Play, searched_games
from othello_nn.learn.data.store import ASIDE, EXACT, PASSED, RECORD, Part, StoreError, read

EVALUATOR = weighted_squares("squares", [4.0 if square in (0, 7, 56, 63) else 0.1 for square in range(64)])
PLAY = Play(depth=2, solve=8, opening_plies=10, latest=8)


@pytest.fixture(scope="module")
def records() -> np.ndarray:
    return searched_games(EVALUATOR, PLAY, seed=3, first=0, games=48)


def empties_of(records: np.ndarray) -> np.ndarray:
    return 64 - np.bitwise_count(records["mover"] | records["opponent"]).astype(int)


def successors(record) -> list[tuple[int, int]]:
    """Positions after each move, with whoever can move as mover; the last of a game as it stands."""
    mover, opponent = int(record["mover"]), int(record["opponent"])
    found = []
    for square in rules.squares_in(rules.legal_mask(mover, opponent)):
        there = rules.play(mover, opponent, square)
        found.append(there if rules.legal_mask(*there) else there[::-1])
    return found


def test_firsts_are_new_up_to_symmetry(records):
    seen: set[Position] = set()
    expected = []
    turned = records[:200].copy()
    for row in turned:
        image = Position(int(row["mover"]), int(row["opponent"])).symmetries()[5]
        row["mover"], row["opponent"] = image.mover, image.opponent
    both = np.concatenate([records, turned])
    for row in both:
        position = Position(int(row["mover"]), int(row["opponent"])).canonical()
        expected.append(position not in seen)
        seen.add(position)
    assert firsts(both).tolist() == expected
    assert not any(expected[len(records) :])
    assert sum(expected) > len(records) // 2


# --- games -----------------------------------------------------------------------------------------------------------


def test_records_are_games(records):
    """Each follows from the one before by a legal move, to the end of the game, whose result all of them have."""
    passes = 0
    for number in range(48):
        game = records[records["game"] == number]
        assert len(game)
        for one, after in itertools.pairwise(game):
            assert (int(after["mover"]), int(after["opponent"])) in successors(one)
            passed = bool(one["flags"] & PASSED)
            passes += passed
            assert int(after["margin"]) == int(one["margin"]) * (1 if passed else -1)
        last = game[-1]
        ends = [rules.final_score(*there) for there in successors(last) if not rules.legal_mask(*there)]
        assert int(last["margin"]) in [score for end in ends for score in (end, -end)]
    assert passes
    assert set(np.unique(records["game"])) == set(range(48))


def test_games_differ_and_reach_all_stages(records):
    first = [records[records["game"] == number][0] for number in range(48)]
    assert len({(int(one["mover"]), int(one["opponent"])) for one in first}) == 48
    empties = empties_of(np.array(first))
    assert empties.max() > 48
    assert empties.min() < 20


def test_endings_are_exact(records):
    exact = records[records["flags"] & EXACT != 0]
    assert (empties_of(exact) <= PLAY.solve).all()
    assert (empties_of(records[records["flags"] & EXACT == 0]) > PLAY.solve).all()
    assert np.array_equal(exact["searched"], 128 * exact["margin"].astype(int))
    for one in exact[empties_of(exact) <= 5][::7]:
        assert rules.solve(int(one["mover"]), int(one["opponent"])) == int(one["margin"])


def test_searches_are_the_engines(records):
    engine = Engine(EVALUATOR, Options(table_mb=1, probcut=False))
    for one in records[records["flags"] & EXACT == 0][::97]:
        position = Position(int(one["mover"]), int(one["opponent"]), True)
        engine.clear()
        assert int(one["searched"]) == round(128 * engine.search(position, Limit(depth=PLAY.depth)).score)


def test_games_hang_on_their_numbers_alone(records):
    again = searched_games(EVALUATOR, PLAY, seed=3, first=16, games=32, threads=2)
    assert np.array_equal(again, records[records["game"] >= 16])
    other = searched_games(EVALUATOR, PLAY, seed=4, first=0, games=16)
    assert not np.array_equal(other["mover"][:50], records["mover"][:50])


def test_labels_mix_searches_and_results(records):
    assert np.array_equal(labels(records, 1.0), records["margin"])
    assert np.allclose(labels(records, 0.0), records["searched"] / 128)
    mixed = labels(records, 0.6)
    for row in range(len(records) - 1):
        one = records[row]
        ahead = float(one["margin"])
        if records[row + 1]["game"] == one["game"]:
            ahead = mixed[row + 1] * (1 if one["flags"] & PASSED else -1)
        assert mixed[row] == pytest.approx(0.6 * ahead + 0.4 * one["searched"] / 128, abs=1e-4)


def test_later_records_are_of_the_same_game_and_side(records):
    found = later_records(records, 20)
    empties, followed = empties_of(records), 0
    for row, later in enumerate(found):
        if later < 0:
            continue
        path = records[row:later]
        assert (records["game"][row : later + 1] == records["game"][row]).all()
        assert empties[later] <= 20
        changes = np.count_nonzero(path["flags"] & PASSED == 0)
        assert changes % 2 == 0  # the same side is to move
        assert records["margin"][later] == records["margin"][row]
        between = [i for i in range(row, later) if empties[i] <= 20]  # all have the other side to move
        assert all(np.count_nonzero(records["flags"][row:i] & PASSED == 0) % 2 for i in between)
        followed += later > row + 1
    assert followed > 100
    assert (found[empties <= 20] == np.flatnonzero(empties <= 20)).all()


def test_positions_beside_a_game(records):
    """Games are as without them; each stands after its game and follows from one of its positions, not by the move
    played, with what a search or the solver says of it."""
    both = searched_games(EVALUATOR, replace(PLAY, aside=1.0), seed=3, first=0, games=48)
    beside = both["flags"] & ASIDE != 0
    assert np.array_equal(both[~beside], records)
    assert 0.2 < beside.mean() < 0.5
    engine = Engine(EVALUATOR, Options(table_mb=1, probcut=False))
    for number in range(0, 48, 6):
        mine = both[both["game"] == number]
        flags = mine["flags"] & ASIDE
        assert (np.diff(flags.astype(int)) >= 0).all()
        game = mine[flags == 0]
        played = {(int(one["mover"]), int(one["opponent"])) for one in game}
        reached = {there for one in game for there in _replies(one)}
        for one in mine[flags != 0]:
            board = int(one["mover"]), int(one["opponent"])
            assert board in reached - played
            engine.clear()
            position = Position(*board, True)
            if one["flags"] & EXACT:
                assert int(one["searched"]) == 128 * int(one["margin"]) == 128 * engine.solve(position).score
            else:
                assert int(one["searched"]) == round(128 * engine.search(position, Limit(depth=PLAY.depth)).score)


def _replies(record) -> list[tuple[int, int]]:
    mover, opponent = int(record["mover"]), int(record["opponent"])
    return [rules.play(mover, opponent, square) for square in rules.squares_in(rules.legal_mask(mover, opponent))]


def test_labels_beside_a_game_are_the_searches():
    records = searched_games(EVALUATOR, replace(PLAY, aside=1.0), seed=3, first=0, games=8)
    beside, mixed = records["flags"] & ASIDE != 0, labels(records, 0.6)
    assert np.allclose(mixed[beside], records["searched"][beside] / 128)
    assert np.array_equal(mixed[~beside], labels(records[~beside], 0.6))


def test_lines_calibrate_searches():
    """Searches that say half of the truth and one disc more are put right; solved positions and others are not
    touched."""
    rng = np.random.default_rng(1)
    made = np.zeros(4 * FEWEST, RECORD)
    made["mover"], made["opponent"] = (1 << 20) - 1, 1 << 63  # 43 empties
    made["opponent"][-FEWEST // 2 :] |= np.uint64(1 << 62)  # 42, too few for a line
    made["margin"] = rng.integers(-20, 21, len(made))
    made["searched"] = 64 * made["margin"].astype(int) + 128
    made["flags"][::5] = EXACT
    made["game"] = np.arange(len(made))
    found = lines([made[:FEWEST], made[FEWEST:]])
    assert found[43] == pytest.approx([2.0, -2.0], abs=1e-4)
    assert found[42] == pytest.approx([1.0, 0.0])
    right, exact = empties_of(made) == 43, made["flags"] & EXACT != 0
    calibrated = labels(made, 0.0, found)
    assert calibrated[right & ~exact] == pytest.approx(made["margin"][right & ~exact].astype(float), abs=1e-3)
    assert calibrated[exact | ~right] == pytest.approx(made["searched"][exact | ~right] / 128, abs=1e-4)


# --- files -----------------------------------------------------------------------------------------------------------


def some(count: int, seed: int = 0) -> np.ndarray:
    made = np.zeros(count, RECORD)
    made["mover"] = np.random.default_rng(seed).integers(0, 2**63, count)
    return made


def test_positions_come_back(tmp_path):
    with Part.create(tmp_path / "0", "recipe") as part:
        part.append(some(5))
        part.append(some(7, 1))
        assert (part.portions, part.records) == (2, 12)
    with Part.create(tmp_path / "0", "recipe") as part:
        assert (part.portions, part.records) == (2, 12)
        part.append(some(3, 2))
    with Part.create(tmp_path / "1", "recipe") as part:
        part.append(some(2, 3))
    first, second = read(tmp_path, check=True)
    assert isinstance(first, np.memmap)
    assert np.array_equal(first, np.concatenate([some(5), some(7, 1), some(3, 2)]))
    assert len(second) == 2


def test_another_recipe_and_another_writer_are_refused(tmp_path):
    with Part.create(tmp_path / "0", "recipe") as part:
        part.append(some(5))
        with pytest.raises(StoreError, match="another process is adding"):
            Part.create(tmp_path / "0", "recipe")
    with pytest.raises(StoreError, match="made with other settings"):
        Part.create(tmp_path / "0", "other")


@pytest.mark.parametrize("cut", range(1, 16))
def test_an_index_cut_anywhere_loses_the_last_portion_alone(tmp_path, cut):
    with Part.create(tmp_path / "0", "recipe") as part:
        part.append(some(5))
        part.append(some(7, 1))
    index = tmp_path / "0.index"
    index.write_bytes(index.read_bytes()[:-cut])
    assert len(read(tmp_path, check=True)[0]) == 5
    with Part.create(tmp_path / "0", "recipe") as part:
        assert (part.portions, part.records) == (1, 5)
        part.append(some(7, 1))
    assert np.array_equal(read(tmp_path, check=True)[0], np.concatenate([some(5), some(7, 1)]))


def test_forged_boards_are_refused(tmp_path):
    """Their checksum fits, but a square of both colours has no cell in any table."""
    forged = some(5)
    forged["opponent"][3] = forged["mover"][3]
    with Part.create(tmp_path / "0", "recipe") as part:
        part.append(some(5))
        part.append(forged)
    with pytest.raises(StoreError, match="portion 1 has boards with both colours on a square"):
        read(tmp_path, check=True)


def test_what_is_damaged_is_said(tmp_path):
    with pytest.raises(StoreError, match="there are no positions"):
        read(tmp_path)
    with Part.create(tmp_path / "0", "recipe") as part:
        part.append(some(50))
    path = tmp_path / "0.positions"
    data = path.read_bytes()
    path.write_bytes(data[:100] + bytes([data[100] ^ 1]) + data[101:])
    assert len(read(tmp_path)[0]) == 50
    with pytest.raises(StoreError, match="portion 0 is damaged"):
        read(tmp_path, check=True)
    path.write_bytes(data[:-1])
    for reader in (lambda: read(tmp_path), lambda: Part.create(tmp_path / "0", "recipe")):
        with pytest.raises(StoreError, match="shorter than its index says"):
            reader()
    path.unlink()
    with pytest.raises(StoreError, match="is not there"):
        read(tmp_path)
    (tmp_path / "0.index").write_bytes(b"something else")
    with pytest.raises(StoreError, match="no index of positions"):
        read(tmp_path)


def test_a_full_disk_leaves_the_part_as_it_was(tmp_path, monkeypatch):
    with Part.create(tmp_path / "0", "recipe") as part:
        part.append(some(5))
        written, real = [], Part._write

        def full(file, content):
            written.append(content)
            if len(written) == 2:
                raise OSError(28, "No space left on device")
            real(file, content)

        monkeypatch.setattr(Part, "_write", staticmethod(full))
        with pytest.raises(OSError, match="No space left") as refused:
            part.append(some(9, 1))
        assert refused.value.filename == str(tmp_path / "0.positions")
        monkeypatch.setattr(Part, "_write", staticmethod(real))
        part.append(some(2, 2))
    assert np.array_equal(read(tmp_path, check=True)[0], np.concatenate([some(5), some(2, 2)]))


WRITER = """
import sys
import numpy as np
from pathlib import Path
from othello_nn.learn.data.store import RECORD, Part
with Part.create(Path(sys.argv[1]) / "0", "recipe") as part:
    print(part.portions, flush=True)
    for number in range(part.portions, 10_000):
        records = np.zeros(1 + number % 50, RECORD)
        records["game"] = number
        part.append(records)
        print(number, flush=True)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no kill -9 here")
def test_a_killed_writer_loses_nothing_that_was_said(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parent.parent)}
    for told in (40, 7, 90):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], env=environment, stdout=subprocess.PIPE, text=True
        )
        said = [int(process.stdout.readline()) for _ in range(told)]
        process.kill()
        process.wait()
        process.stdout.close()
        (records,) = read(tmp_path, check=True)
        games, counts = np.unique(records["game"], return_counts=True)
        assert games[-1] >= said[-1]
        assert np.array_equal(games, np.arange(len(games)))
        assert np.array_equal(counts, 1 + games % 50)
