"""The game of a tab, its clocks, and the pool that thinks for it: without a server and without a search."""

import random
import threading
import time

import pytest
from patience import HANG_SECONDS
from web_server import wait_until

from othello_nn.cli.web.game import BrowserGame, Clocks, Course
from othello_nn.cli.web.pool import Bench, Pool
from othello_nn.errors import IllegalMoveError
from othello_nn.game import PASS, Position
from othello_nn.game.notation import format_transcript, parse_transcript
from othello_nn.players.base import BasePlayer, PlayerError
from othello_nn.players.weakening import chances, share_of_move

START = Position.start()


# --- the game --------------------------------------------------------------------------------------------------------


def played(moves: str) -> BrowserGame:
    game = BrowserGame()
    for i in range(0, len(moves), 2):
        game.play(moves[i : i + 2])
    return game


def test_undo_goes_back_to_the_start_and_redo_to_the_end():
    game = played("f5d6c3d3")
    seen = [game.course]
    while game.undo():
        seen.append(game.course)
    assert game.course == Course()
    assert not game.can_undo
    for course in reversed(seen[:-1]):
        assert game.redo()
        assert game.course == course
    assert not game.redo()


def test_a_move_in_the_middle_begins_another_line_which_can_be_undone():
    game = played("f5d6c3d3")
    game.goto(2)
    assert not game.is_last
    game.play("c4")
    assert format_transcript(game.course.moves) == "f5d6c4"
    assert game.undo()
    assert format_transcript(game.course.moves) == "f5d6c3d3"
    assert game.course.ply == 2


def test_undo_until_it_is_enough_or_not_at_all():
    game = played("f5d6c3")
    assert game.undo(lambda: game.final.black_to_move)
    assert format_transcript(game.course.moves) == "f5d6"
    assert not game.undo(lambda: game.course.moves == (1,))
    assert format_transcript(game.course.moves) == "f5d6"
    assert game.can_undo
    assert game.can_redo


def test_passes_play_themselves():
    rng, found = random.Random(4), 0
    for _ in range(30):
        game = BrowserGame()
        while not game.is_over:
            game.play(rng.choice(game.position.legal_moves))
            assert not game.position.must_pass
        found += PASS in game.course.moves
    assert found > 3


def test_an_illegal_move_changes_nothing():
    game = played("f5")
    before = game.course
    with pytest.raises(IllegalMoveError, match="a1 flips nothing"):
        game.play("a1")
    assert game.course == before


def test_resigning_and_running_out_of_time():
    game = played("f5d6")
    game.end(resigned=True)
    assert (game.is_over, game.margin, game.result) == (True, -64, "Black resigns: White wins")
    record = game.record("Ann", "Bob")
    assert (record.ending, record.result) == ("resigned", -64)
    with pytest.raises(IllegalMoveError, match="over"):
        game.play("c3")
    game.undo()
    game.end(late=False)
    assert game.result == "White has run out of time: Black wins"
    assert game.record("Ann", "Bob").ending == "time"


def test_clocks():
    now = [0.0]
    clocks = Clocks(10, now=lambda: now[0])
    assert clocks.left(True) == 10
    clocks.run(True)
    now[0] = 4
    assert clocks.left(True) == 6
    clocks.run(False)
    now[0] = 20
    assert (clocks.left(True), clocks.left(False)) == (6, 0)
    clocks.run(None)
    now[0] = 30
    assert clocks.left(True) == 6
    assert Clocks().left(True) is None


# --- the pool --------------------------------------------------------------------------------------------------------


class Idler(BasePlayer):
    """A player that does nothing but note that it was told to stop or closed."""

    def __init__(self):
        super().__init__("idler", random.Random(0))
        self.stopped, self.closed = threading.Event(), False

    def stop(self):
        self.stopped.set()

    def close(self):
        self.closed = True


@pytest.fixture
def pool():
    pool = Pool(2, Bench(lambda spec: Idler()))
    yield pool
    assert pool.close(HANG_SECONDS)


def fail(error: Exception) -> None:
    raise AssertionError from error


def busy(log: list, name: str, steps: int = 10**9):
    def work(turn):
        for _ in range(steps):
            log.append(name)
            time.sleep(0.001)
            yield

    return work


def test_owners_share_the_threads(pool):
    logs = {owner: [] for owner in range(6)}
    tasks = [pool.submit(owner, 0, busy(log, "x"), fail) for owner, log in logs.items()]
    wait_until(lambda: all(len(log) > 20 for log in logs.values()))
    for task in tasks:
        pool.cancel(task)
    wait_until(lambda: pool.busy == 0)
    counts = [len(log) for log in logs.values()]
    assert max(counts) < 60 * min(counts)  # everybody had a turn, and nobody all of them


def test_an_owner_has_one_search_at_a_time_the_most_urgent_first(pool):
    log, running = [], []

    def work(name):
        def steps(turn):
            for _ in range(30):
                assert not running
                running.append(name)
                time.sleep(0.001)
                running.pop()
                log.append(name)
                yield

        return steps

    pool.submit("me", 3, work("late"), fail)
    wait_until(lambda: log)
    pool.submit("me", 1, work("early"), fail)
    wait_until(lambda: pool.busy == 0)
    assert log.count("late") == log.count("early") == 30
    assert log[-1] == "late"
    first = log.index("early")
    assert log[first : first + 30] == ["early"] * 30


def test_a_cancelled_task_stops_its_player_and_is_not_heard_of(pool):
    begun, heard = threading.Event(), []

    def work(turn):
        player = yield from turn.lend("x")
        try:
            begun.set()
            assert player.stopped.wait(HANG_SECONDS)
        finally:
            turn.give_back()
        yield
        heard.append("late")

    task = pool.submit("me", 0, work, fail)
    assert begun.wait(HANG_SECONDS)
    pool.cancel(task)
    wait_until(lambda: pool.busy == 0)
    assert not heard
    assert len(pool.bench) == 1


def test_an_owner_that_goes_takes_everything_along(pool):
    log = []
    for urgency in range(4):
        pool.submit("me", urgency, busy(log, "x"), fail)
    wait_until(lambda: log)
    pool.drop("me")
    wait_until(lambda: pool.busy == 0)
    count = len(log)
    time.sleep(0.05)
    assert len(log) == count


def test_while_a_player_is_made_others_work():
    ready = threading.Event()

    def make(spec):
        assert ready.wait(HANG_SECONDS)
        return Idler()

    pool = Pool(1, Bench(make))
    log, told = [], []

    def work(turn):
        yield from turn.lend("slow")
        turn.give_back()
        log.append("slow")
        yield

    pool.submit("me", 5, work, fail, told.append)
    wait_until(lambda: told == ["slow"])
    pool.submit("me", 1, busy(log, "quick", 3), fail)
    pool.submit("you", 1, busy(log, "other", 3), fail)
    wait_until(lambda: len(log) == 6)
    ready.set()
    wait_until(lambda: pool.busy == 0)
    assert log[-1] == "slow"
    assert told == ["slow", ""]
    assert pool.close(HANG_SECONDS)


def test_what_fails_is_told_and_the_thread_goes_on():
    def make(spec):
        raise PlayerError("there is no such player")

    pool = Pool(1, Bench(make))
    errors, log = [], []

    def work(turn):
        yield from turn.lend("nobody")

    pool.submit("me", 0, work, errors.append)
    pool.submit("you", 0, busy(log, "x", 3), fail)
    wait_until(lambda: pool.busy == 0)
    assert [str(error) for error in errors] == ["there is no such player"]
    assert log == ["x"] * 3
    assert pool.close(HANG_SECONDS)


def test_players_are_used_again_and_few_are_kept(pool):
    made = []

    def work(spec):
        def steps(turn):
            player = yield from turn.lend(spec)
            made.append(player)
            turn.give_back()

        return steps

    for _ in range(3):
        pool.submit("me", 0, work("same"), fail)
        wait_until(lambda: pool.busy == 0)
    assert len(set(made)) == 1
    for i in range(20):
        pool.submit("me", 0, work(f"player {i}"), fail)
        wait_until(lambda: pool.busy == 0)
    assert len(pool.bench) <= 8
    assert made[0].closed


# --- giving discs away -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [0.1, 0.5, 2.0, 4.0])
def test_the_expected_loss_is_what_was_asked_for(loss):
    values = [3.0, 2.5, 1.0, -4.0, -12.0]
    probabilities = chances(values, loss)
    assert sum(probabilities) == pytest.approx(1)
    assert sum(p * (3.0 - v) for p, v in zip(probabilities, values, strict=True)) == pytest.approx(loss, rel=1e-3)
    assert sorted(probabilities, reverse=True) == probabilities


def test_nobody_plays_worse_than_chance():
    assert chances([3.0, 1.0], 50.0) == pytest.approx([0.5, 0.5], rel=1e-3)
    assert share_of_move(30) == 1


def test_transcripts_are_the_games(pool):
    moves = "f5d6c3d3c4f4f6"
    assert played(moves).final == START.replay(parse_transcript(moves))
