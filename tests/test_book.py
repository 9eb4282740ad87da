"""The opening book: values against a full minimax, the file against kill −9, damage and other writers."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from othello_nn.book import Book, BookError, Judgement, OpenBook
from othello_nn.book import canonical as keys
from othello_nn.book.graph import Addition
from othello_nn.book.grow import add_game, add_replies, book_ends, deepen, play_games
from othello_nn.book.store import Node, Store
from othello_nn.game import PASS, Position
from othello_nn.game.formats.files import parse_transcripts
from othello_nn.game.record import Game
from othello_nn.game.rules import inverse_symmetry, transform_square
from othello_nn.resources import BOOK, CHECKPOINTS
from tests.strategies import FINISHED, choices, play_out, positions, quick

ROOT = Path(__file__).resolve().parent.parent


def static(key: bytes) -> float:
    """A value for every position, drawn by its key: from −8 to 8, with many ties."""
    position = keys.position_of(key)
    return float(position.final_score()) if position.is_over else zlib.crc32(key) % 33 / 2 - 8


class StaticJudge:
    """Looks one ply ahead with ``static``; writes down what it was asked."""

    def __init__(self):
        self.asked: list[tuple[bytes, tuple[int, ...] | None]] = []

    def __call__(self, position, moves=None):
        key, _ = keys.canonical(position)
        assert key == keys._key(position.mover, position.opponent)
        self.asked.append((key, None if moves is None else tuple(moves)))
        after = keys.children(key)
        values = {move: 0.0 - static(after[move]) for move in (after if moves is None else moves)}
        best = max(values, key=values.get)
        return Judgement(best, values[best], 1)


def minimax(store: Store) -> dict[bytes, float]:
    """Every value of the book from nothing but which positions are in it: the oracle."""
    known, found = {key for key, _ in store.items()}, {}

    def value(key: bytes) -> float:
        if key not in known:
            return static(key)
        if key not in found:
            after = keys.children(key)
            found[key] = max((0.0 - value(child) for child in after.values()), default=static(key))
        return found[key]

    for key in known:
        value(key)
    return found


def check(store: Store) -> None:
    values = minimax(store)
    for key, node in store.items():
        assert node.value == values[key]
        after = keys.children(key)
        if after:
            child = after[node.best]
            assert 0.0 - values.get(child, static(child)) == node.value
        outside = [move for move, child in after.items() if child not in values]
        assert (node.bound is None) == (not outside)
        assert node.rest is None or node.rest in outside
        assert node.rest is None or node.bound == max(0.0 - static(after[move]) for move in outside)


# --- keys ------------------------------------------------------------------------------------------------------------


@quick
@given(positions())
def test_keys_are_those_of_the_plain_symmetries(position):
    key, k = keys.canonical(position)
    image, plain = position.transform(k), position.canonical()
    assert keys.masks_of(key) == (image.mover, image.opponent) == (plain.mover, plain.opponent)
    occupied = position.mover | position.opponent
    assert keys._images(occupied) == tuple(one.mover | one.opponent for one in position.symmetries())
    for move in position.legal_moves or ((PASS,) if position.must_pass else ()):
        child = keys.children(key)[transform_square(move, k)]
        assert child == keys.canonical(position.play(move))[0]
        shape_before = keys.shape(occupied)
        assert move == PASS or shape_before in keys.shapes_before(child)
        assert move != PASS or keys.before_pass(child) == key


# --- values ----------------------------------------------------------------------------------------------------------


@quick
@given(st.lists(choices(1, 70), min_size=1, max_size=3), st.integers(0, 2**32 - 1))
def test_values_are_those_of_a_full_minimax(games, seed):
    rng = random.Random(seed)
    with Book(_fresh(), StaticJudge()) as book:
        for drawn in games:
            path = Game(moves=tuple(play_out(drawn)[1])).positions()
            book.add(rng.sample(path, rng.randint(1, len(path))))  # with gaps, and in any order
            check(book.store)
        for drawn in games:
            add_game(book, Game(moves=tuple(play_out(drawn)[1])), 64)
        check(book.store)


_FOLDER: list[Path] = []


@pytest.fixture(autouse=True)
def _folder(tmp_path_factory):
    _FOLDER[:] = [tmp_path_factory.mktemp("books")]


def _fresh() -> Path:
    return _FOLDER[0] / f"{time.monotonic_ns()}.book"


def test_every_way_to_a_position_hears_of_it():
    """Several ways lead to one position; all of them were in the book before it."""
    ways: dict[bytes, set[bytes]] = {}
    level = {keys.canonical(Position.start())[0]}
    for _ in range(6):
        level = {child for key in level for child in keys.children(key).values()}
    for key in level:
        for child in keys.children(key).values():
            ways.setdefault(child, set()).add(key)
    target = max(ways, key=lambda child: (len(ways[child]), child))
    assert len(ways[target]) >= 3
    with Book(_fresh(), StaticJudge()) as book:
        book.add(keys.position_of(key) for key in ways[target])
        assert Addition(book.store, StaticJudge()).parents(target) == ways[target]
        book.add([keys.position_of(target)])
        check(book.store)


def test_a_pass_is_a_way_like_any_other():
    [game] = parse_transcripts(FINISHED)
    path = game.positions()
    assert PASS in game.moves
    with Book(_fresh(), StaticJudge()) as book:
        for position in reversed(path):
            book.add([position])
        check(book.store)


def test_others_are_searched_again_only_when_the_best_move_drops():
    judge = StaticJudge()
    with Book(_fresh(), judge) as book:
        rng, again = random.Random(5), 0
        book.add([Position.start()])
        for _ in range(150):
            before = dict(book.store.items())
            judge.asked.clear()
            key = rng.choice(sorted(before))
            after = sorted(set(keys.children(key).values()) - set(before))
            if not after:
                continue
            book.add([keys.position_of(rng.choice(after))])
            now = dict(book.store.items())
            assert sum(moves is None for _, moves in judge.asked) <= 1  # the new position itself
            for asked, moves in judge.asked:
                if moves is not None:
                    again += 1
                    old = before.get(asked)
                    into = [0.0 - now[c].value for c in keys.children(asked).values() if c in now]
                    bound = judge_bound(asked) if old is None else old.bound
                    assert max(into) < bound
        assert again > 10


def judge_bound(key: bytes) -> float:
    return StaticJudge()(keys.position_of(key)).value


def test_the_book_of_the_program_is_sound():
    store = Store(CHECKPOINTS / BOOK)
    nodes = dict(store.items())
    assert store.damage() == ""
    assert len(nodes) >= 1000
    for key, node in nodes.items():
        after = keys.children(key)
        values = {move: 0.0 - nodes[child].value for move, child in after.items() if child in nodes}
        if node.rest is not None:
            assert after[node.rest] not in nodes
            values[node.rest] = node.bound
        assert values[node.best] == node.value == max(values.values())
        if len(values) < len(after) and node.rest is None:
            assert node.bound <= node.value  # else one of the others might be better
    store.close()


# --- growing ---------------------------------------------------------------------------------------------------------


def test_leaves_are_deepened_where_play_goes():
    with Book(_fresh(), StaticJudge()) as book:
        assert list(deepen(book, 40, 20))[-1] == 40
        check(book.store)
        assert all(keys.discs_of(key) <= 20 for key, _ in book.store.items())
        nodes = dict(book.store.items())

        def ways_out(key: bytes, loss: float):
            if key not in nodes:
                yield loss, key
                return
            for move, child in keys.children(key).items():
                value = 0.0 - nodes[child].value if child in nodes else static_rest(nodes[key], move)
                if value is not None:
                    yield from ways_out(child, loss + nodes[key].value - value + 1)

        least: dict[bytes, float] = {}
        for loss, key in ways_out(keys.canonical(Position.start())[0], 0.0):
            least[key] = min(loss, least.get(key, loss))
        found = book_ends(book.store, 5, 20)
        assert [least[key] for key in found] == sorted(least.values())[:5]


def static_rest(node: Node, move: int) -> float | None:
    return node.bound if move == node.rest else None


def test_every_reply_is_answered():
    """The tournament report's book: up to 10 discs each of the other side's moves meets a best move in the book."""
    with Book(_fresh(), StaticJudge()) as book:
        list(add_replies(book, 10))
        check(book.store)
        answers = OpenBook(book.store)

        def walk(position: Position, own: bool) -> int:
            if 64 - position.empties > 10:
                return 0
            found = answers.best(position)
            assert found is not None
            moves = [found.move] if own else position.legal_moves
            return 1 + sum(walk(position.play(move), not own) for move in moves)

        assert walk(Position.start(), True) > 60
        assert walk(Position.start(), False) > 60


def test_games_of_its_own_differ_and_repeat_with_the_seed():
    def grown(seed: int, margin: float) -> dict:
        with Book(_fresh(), StaticJudge()) as book:
            assert list(play_games(book, 5, 14, margin, random.Random(seed))) == [1, 2, 3, 4, 5]
            check(book.store)
            return dict(book.store.items())

    assert grown(1, 4.0) == grown(1, 4.0) != grown(2, 4.0)
    assert len(grown(1, 0.0)) < len(grown(1, 4.0))


# --- answers ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def grown():
    path = _fresh()
    with Book(path, StaticJudge()) as book:
        list(deepen(book, 60, 30))
    answers = OpenBook(path)
    yield answers
    answers.close()


def test_all_images_get_the_same_answer(grown):
    position = Position.parse("f5")
    value = grown.best(position).value
    for k in range(8):
        image = position.transform(k)
        found = grown.best(image)
        assert found.value == value
        assert found.move in image.legal_moves
        back = image.play(found.move).transform(inverse_symmetry(k))
        assert keys.canonical(back)[0] == keys.canonical(position.play(grown.best(position).move))[0]
        assert grown.moves(image)[0].value == value


def test_variety_stays_within_the_margin(grown):
    rng, position = random.Random(0), Position.parse("f5")
    known = {one.move: one.value for one in grown.moves(position)}
    assert len(known) == 3
    for margin in (0.0, 0.5, 3.0, 64.0):
        seen = {grown.choose(position, margin, rng).move for _ in range(60)}
        allowed = {move for move, value in known.items() if value >= max(known.values()) - margin}
        assert seen == allowed if margin else seen <= allowed
    assert grown.choose(Position.parse(FINISHED[:40]), 1.0, rng) is None


# --- the file --------------------------------------------------------------------------------------------------------


WRITER = """
import sys
from pathlib import Path
from othello_nn.book import Book
from othello_nn.game.record import Game
from tests.strategies import play_out
from tests.test_book import StaticJudge
import random
seed, count = int(sys.argv[2]), int(sys.argv[3])
book, rng = Book(sys.argv[1], StaticJudge()), random.Random(seed)
for number in range(count):
    path = Game(moves=tuple(play_out(rng.choices(range(60), k=24))[1])).positions()
    book.add(path)
    print(number, flush=True)
"""


def start_writer(path: Path, seed: int, count: int) -> subprocess.Popen:
    words = [sys.executable, "-c", WRITER, str(path), str(seed), str(count)]
    return subprocess.Popen(words, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE)


def written_games(seed: int, count: int) -> list[list[Position]]:
    rng = random.Random(seed)
    return [Game(moves=tuple(play_out(rng.choices(range(60), k=24))[1])).positions() for _ in range(count)]


@pytest.mark.parametrize("seed", range(3))
def test_a_killed_writer_loses_at_most_its_last_addition(seed):
    path, rng = _fresh(), random.Random(seed)
    writer = start_writer(path, seed, 10_000)
    told = [writer.stdout.readline() for _ in range(5)]
    time.sleep(rng.random() / 20)
    writer.send_signal(signal.SIGKILL)
    told += writer.communicate()[0].splitlines()
    games = written_games(seed, len(told) + 1)
    with Book(path, StaticJudge(), create=False) as book:
        check(book.store)
        found = {key for key, _ in book.store.items()}
        assert {keys.canonical(position)[0] for game in games[:-1] for position in game} <= found
        last = {keys.canonical(position)[0] for position in games[-1]}
        sure = {keys.canonical(position)[0] for game in games[:-1] for position in game}
        assert found in (sure, sure | last)
        assert book.store.damage() == ""
        book.add(games[-1])


def test_two_writers_make_one_book():
    path = _fresh()
    writers = [start_writer(path, seed, 25) for seed in (1, 2)]
    assert [writer.wait(300) for writer in writers] == [0, 0]
    for writer in writers:
        writer.stdout.close()
    store = Store(path)
    wanted = {keys.canonical(p)[0] for seed in (1, 2) for game in written_games(seed, 25) for p in game}
    assert {key for key, _ in store.items()} == wanted
    check(store)
    assert store.damage() == ""
    store.close()


def test_what_another_has_written_meanwhile_is_seen():
    """The second writer adds while the first one searches: the first one's values take that into account."""
    path, games = _fresh(), written_games(3, 2)
    other = Book(path, StaticJudge())

    class Slow(StaticJudge):
        def __call__(self, position, moves=None):
            if not self.asked:
                other.add(games[1])
            return super().__call__(position, moves)

    with Book(path, Slow()) as book:
        book.add(games[0])
        check(book.store)
        assert len(book.store) == len({keys.canonical(p)[0] for game in games for p in game})
    other.close()


def test_a_failed_addition_leaves_nothing():
    class Failing(StaticJudge):
        def __call__(self, position, moves=None):
            if len(self.asked) == 7:
                raise RuntimeError
            return super().__call__(position, moves)

    path, game = _fresh(), written_games(3, 1)[0]
    with Book(path, Failing()) as book:
        with pytest.raises(RuntimeError):
            book.add(game)
        assert len(book.store) == 0


def read_all(path: Path) -> None:
    book = OpenBook(path)
    try:
        list(book.store.items())
        book.moves(Position.start())
    finally:
        book.close()


def message(path: Path) -> str:
    with pytest.raises(BookError) as error:
        read_all(path)
    text = str(error.value)
    assert "\n" not in text
    assert str(path) in text
    return text


def test_a_book_in_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(BookError, match=r"cannot be made: there is no folder '.*none'$"):
        Store(tmp_path / "none" / "new.book", create=True)


def test_what_is_no_book_is_said_in_one_line(tmp_path):
    assert "there is no book" in message(tmp_path / "none.book")
    (tmp_path / "text.book").write_text("f5d6c3\n" * 100)
    assert "no opening book" in message(tmp_path / "text.book")
    (tmp_path / "empty.book").touch()
    assert "no opening book" in message(tmp_path / "empty.book")
    assert "not a file" in message(tmp_path)
    other = sqlite3.connect(tmp_path / "other.book")
    other.execute("CREATE TABLE positions (key)")
    other.commit()
    other.close()
    assert "no opening book" in message(tmp_path / "other.book")
    with pytest.raises(BookError, match="no opening book"):
        Book(tmp_path / "other.book", StaticJudge())


def test_damage_is_said_in_one_line(tmp_path):
    path = tmp_path / "damaged.book"
    with Book(path, StaticJudge()) as book:
        list(deepen(book, 150, 30))
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xff" * 3000 + content[7096:])
    assert "damaged" in message(path)
    path.write_bytes(content[: len(content) // 2])
    assert "damaged" in message(path)
    path.write_bytes(content)
    store = Store(path)
    key = keys.canonical(Position.start())[0]
    with store.writing():
        store.put([(key, Node(99.0, 1, 1, 99.0, 1))])
    store.close()
    assert "values that none can have" in message(path)


def test_a_book_that_may_only_be_read_is_read(grown):
    path = grown.store.path
    path.chmod(0o444)
    answers = OpenBook(path)
    assert answers.best(Position.start()) is not None
    answers.close()
