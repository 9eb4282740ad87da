"""Matches: openings, pairing, results, clocks, and that the same seed gives the same games."""

import random
import threading
import time
from collections.abc import Callable

import pytest
from patience import HANG_SECONDS

from othello_nn.arena import statistics
from othello_nn.arena.game import Pairing, PlayedGame, play_game
from othello_nn.arena.match import A, B, MatchResult, pair_up, play_match
from othello_nn.arena.openings import Opening, OpeningError, all_openings, leouski60, make_openings, random_openings
from othello_nn.game import PASS, Position
from othello_nn.game.formats.files import read_games, write_games
from othello_nn.players import Line, PlayerError, PlayerFailure, make_player
from othello_nn.players.base import BasePlayer, Choice

START = [Opening(Position.start())]


def one_game(opening: Opening, black, white, **more) -> PlayedGame:
    played = play_game(Pairing(0, opening, A, B), black, white, **more)
    assert played is not None
    return played


class Dawdler(BasePlayer):
    """Plays the first legal move, after a while."""

    def __init__(self, seconds: float = 0.0, name: str = "dawdler", sleep: Callable[[float], None] = time.sleep):
        super().__init__(name, random.Random(0))
        self.seconds, self.sleep = seconds, sleep
        self.told: list[float | None] = []

    def pick(self, position: Position, remaining: float | None) -> Choice:
        self.told.append(remaining)
        self.sleep(self.seconds)
        return Choice(position.legal_moves[0])


# --- openings --------------------------------------------------------------------------------------------------------


def test_leouski60_is_every_four_ply_position_once():
    everything = leouski60()
    assert len(everything) == 60
    assert len({opening.position.canonical() for opening in everything}) == 60
    assert all(opening.position.empties == 56 for opening in everything)

    def sequences(position: Position, plies: int) -> list[Position]:
        if plies == 0:
            return [position]
        return [last for move in position.legal_moves for last in sequences(position.play(move), plies - 1)]

    reached = sequences(Position.start(), 4)
    assert len(reached) == 244
    assert {position.canonical() for position in reached} == {opening.position.canonical() for opening in everything}


def test_all_positions_after_some_plies():
    assert [len(all_openings(plies)) for plies in range(1, 6)] == [4, 12, 54, 236, 1288]
    assert len(make_openings("all:4", None)) == 236


def test_balanced_openings_are_even():
    from othello_nn.engine import Limit, search

    openings = make_openings("random:6", 8, seed=1, balance=1.5)
    assert len(openings) == 8
    assert all(abs(search(opening.position, limit=Limit(depth=6)).score) <= 1.5 for opening in openings)
    wide = make_openings("random:6", 8, seed=1)
    assert any(abs(search(opening.position, limit=Limit(depth=6)).score) > 1.5 for opening in wide)
    with pytest.raises(OpeningError, match="no opening within 0 discs"):
        make_openings("all:1", None, balance=0)


def test_random_openings_are_seeded_and_distinct():
    first = random_openings(8, 40, seed=3)
    assert first == random_openings(8, 40, seed=3)
    assert first != random_openings(8, 40, seed=4)
    assert len({opening.position.canonical() for opening in first}) == 40
    assert all(len(opening.moves) == 8 for opening in first)


def test_random_openings_end_where_there_are_no_more():
    assert len(random_openings(1, 10, seed=0)) == 1
    assert len(random_openings(2, 10, seed=0)) == 3  # parallel, diagonal, perpendicular


def test_openings_from_a_file(tmp_path):
    path = tmp_path / "openings.txt"
    path.write_text(
        f"# two lines of play and a board\nf5d6c3\n\nF5 f6 % diagonal\n{Position.start().to_text()}; f5:+0\nf5d6c3\n"
    )
    read = make_openings(str(path), None)
    assert [opening.position for opening in read] == [Position.parse(text) for text in ("f5d6c3", "f5f6", "start")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("f5\nf5a1\n", "openings.txt, line 2: move 2 (a1): a1 flips nothing"),
        (f"f5\n{'X' * 64} O\n", "line 2: "),
        ("# nothing\n", "holds no openings"),
        ("f5\n---X\n", "line 2: "),
    ],
)
def test_a_bad_file_of_openings_is_named_with_its_line(tmp_path, content, message):
    path = tmp_path / "openings.txt"
    path.write_text(content)
    with pytest.raises(OpeningError) as error:
        make_openings(str(path), None)
    assert message in str(error.value)


@pytest.mark.parametrize(
    "text", ["random:0", "random:x", "random:", "random:99", "leouski61", "all:0", "all:9", "all:x"]
)
def test_unknown_openings(text):
    with pytest.raises(OpeningError):
        make_openings(text, 10)


# --- pairing and statistics ------------------------------------------------------------------------------------------


def test_every_opening_is_played_with_both_colours():
    everything = leouski60()
    pairings = pair_up(everything, None, varied=False)
    assert len(pairings) == 120
    assert [pairing.number for pairing in pairings] == list(range(120))
    assert {(pairing.opening, pairing.black, pairing.white) for pairing in pairings} == {
        (opening, *colours) for opening in everything for colours in ((A, B), (B, A))
    }


def test_only_chance_uses_an_opening_twice():
    assert len(pair_up(leouski60(), 500, varied=False)) == 120
    repeated = pair_up(leouski60(), 500, varied=True)
    assert len(repeated) == 500
    assert repeated[120] == Pairing(120, repeated[0].opening, A, B)
    assert len(pair_up(leouski60(), 3, varied=False)) == 4


def test_wilson_interval_and_elo():
    low, high = statistics.wilson_interval(0.5, 100)
    assert low == pytest.approx(0.4038, abs=1e-4)
    assert high == pytest.approx(0.5962, abs=1e-4)
    assert statistics.wilson_interval(0.0, 7)[0] == 0.0
    assert statistics.wilson_interval(1.0, 7)[1] == 1.0
    assert statistics.elo_difference(0.5) == 0
    assert statistics.elo_difference(10 / 11) == pytest.approx(400)
    assert statistics.elo_difference(1.0) is None


# --- games -----------------------------------------------------------------------------------------------------------


def test_a_game_is_recorded_whole():
    opening = Opening(Position.start(), (37, 43))
    game = one_game(opening, make_player("most-discs"), make_player("fewest-discs")).game
    assert game.moves[:2] == opening.moves
    assert game.final.is_over
    assert game.result == game.final.black_score()
    assert len(game.notes) == len(game.moves)
    assert game.notes[0] is None
    assert all(note is not None for note, move in zip(game.notes[2:], game.moves[2:], strict=True) if move != PASS)


class Clock:
    """Time that passes only when somebody sleeps."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_who_oversteps_the_clock_loses(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("othello_nn.arena.game.time", clock)

    def slow_player() -> Dawdler:
        return Dawdler(0.02, "slow", clock.sleep)

    slow, quick = slow_player(), Dawdler(0.0, "quick", clock.sleep)
    game = one_game(START[0], slow, quick, clock_seconds=0.1).game
    assert (game.ending, game.result) == ("time", -64)
    assert not game.final.is_over
    assert slow.told[0] == 0.1
    assert all(before > after > 0 for before, after in zip(slow.told, slow.told[1:], strict=False))
    assert quick.told[-1] == 0.1

    result = play_match(slow_player, lambda: Dawdler(0.0, "quick", clock.sleep), START, clock_seconds=0.1)
    assert (result.games, result.losses, result.mean_margin) == (2, 2, -64)
    assert (result.time_losses(A), result.time_losses(B)) == (2, 0)


def test_without_a_clock_no_time_is_told():
    player = Dawdler()
    one_game(START[0], player, Dawdler())
    assert set(player.told) == {None}


# --- matches ---------------------------------------------------------------------------------------------------------


def test_swh_beats_chance():
    result = play_match("swh", "random", leouski60(), 60, seed=1)
    assert result.wins + result.draws + result.losses == result.games == 60
    assert result.score > 0.7
    low, high = result.interval
    assert 0 < low < result.score < high <= 1
    assert result.elo > 100
    assert result.mean_margin > 5
    assert sum(one.a_is_black for one in result.played) == 30
    assert {one.game.black for one in result.played if one.a_is_black} == {"swh"}


def test_a_search_beats_a_shallower_one():
    result = play_match("mobility:depth=4", "mobility:depth=1", leouski60(), 20, jobs=2)
    assert result.score > 0.7


def test_the_same_seed_gives_the_same_match_with_any_jobs():
    def moves(jobs: int, seed: int) -> list[tuple[int, ...]]:
        result = play_match("swh:epsilon=0.2", "mobility:depth=2", leouski60(), 12, jobs=jobs, seed=seed)
        return [one.game.moves for one in result.played]

    assert moves(1, 5) == moves(3, 5)
    assert moves(1, 5) != moves(1, 6)


def test_deterministic_players_do_not_repeat_themselves():
    result = play_match("mobility:depth=1", "mobility:depth=2", random_openings(6, 3, seed=0), 40)
    assert result.games == 6
    assert len({one.game.moves for one in result.played}) == 6


@pytest.mark.slow  # by the clock
def test_one_second_a_game_is_enough():
    result = play_match("mobility", "mobility:clock=predict,epsilon=0.1", START, 2, clock_seconds=1.0)
    assert result.games == 2
    assert not any(one.lost_on_time for one in result.played)


def test_games_survive_being_saved(tmp_path):
    result = play_match("random", "swh", random_openings(4, 3, seed=2), 6)
    games = [one.game for one in result.played]
    write_games(tmp_path / "games.ggf", games)
    assert [game.moves for game in read_games(tmp_path / "games.ggf")] == [game.moves for game in games]


def test_an_interrupted_match_keeps_its_games():
    def interrupt(one) -> None:
        raise KeyboardInterrupt

    started = time.perf_counter()
    result = play_match(lambda: Dawdler(), "mobility:seconds=0.05", START, 2, jobs=1, on_game=interrupt)
    assert result.interrupted
    assert result.games == 1
    assert time.perf_counter() - started < HANG_SECONDS
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("game")]


# --- players that fail -----------------------------------------------------------------------------------------------


class Faulty(BasePlayer):
    """Plays the first legal move until its fifth, or until the game begins; then something happens."""

    def __init__(self, happens, at_start: bool = False):
        super().__init__("faulty", random.Random(0))
        self.happens, self.at_start, self.asked, self.closed = happens, at_start, 0, False

    def new_game(self, rng=None):
        self.asked = 0
        if self.at_start:
            self.happens(Position.start())

    def pick(self, position, remaining):
        self.asked += 1
        return Choice(position.legal_moves[0]) if self.asked < 5 else self.happens(position)

    def close(self):
        self.closed = True


def fails(position):
    raise PlayerFailure("the program has ended with code 3", "> genmove b\n< ?")


def hangs(position):
    raise PlayerFailure("no answer within 1 second", timed_out=True)


def breaks(position):
    raise ZeroDivisionError("division by zero")


@pytest.mark.parametrize(
    ("happens", "reason"),
    [
        (fails, "the program has ended with code 3"),
        (breaks, "crashed: ZeroDivisionError: division by zero"),
        (hangs, "no answer within 1 second"),
        (lambda position: Choice(0), "a1 is not legal here; legal moves: "),
        (lambda position: Choice(PASS), "pass is not legal here"),
        (lambda position: Choice(None), "no move is not legal here"),
        (lambda position: Choice(99), "99 is not legal here"),
        (lambda position: Choice("f5"), "crashed: TypeError: "),
        (lambda position: None, "crashed: AttributeError: "),
        (lambda position: Choice(position.legal_moves[0], float("nan")), "crashed: RecordError: "),
    ],
)
def test_who_fails_loses_that_game_and_the_match_goes_on(happens, reason):
    made = []

    def make():
        made.append(Faulty(happens))
        return made[-1]

    result = play_match(make, "most-discs", leouski60()[:3], jobs=2)
    assert (result.games, result.losses, result.mean_margin) == (6, 6, -64)
    assert [one.game.ending for one in result.played] == ["forfeit"] * 6
    assert all(one.game.comment.startswith(reason) for one in result.forfeits(A))
    assert (len(result.forfeits(A)), len(result.forfeits(B)), result.time_losses(A)) == (6, 0, 0)
    assert all(player.closed for player in made)
    assert result.as_dict()["forfeits_a"][0].startswith(reason)


def test_a_program_that_hangs_loses_on_its_clock():
    one = one_game(START[0], Faulty(hangs), Dawdler(), clock_seconds=60)
    assert (one.game.ending, one.game.result, one.loser) == ("time", -64, A)


def test_a_player_that_cannot_begin_loses():
    one = one_game(START[0], Dawdler(), Faulty(fails, at_start=True))
    assert (one.game.result, one.game.comment, len(one.game.moves)) == (64, "the program has ended with code 3", 1)
    assert one.log == "> genmove b\n< ?"


def test_a_bug_at_the_start_of_a_game_loses_it():
    one = one_game(START[0], Faulty(breaks, at_start=True), Dawdler())
    assert (one.game.result, one.game.comment) == (-64, "crashed: ZeroDivisionError: division by zero")


def test_a_program_that_starts_in_one_thread_only_loses_in_the_other():
    made = []

    class Single(Faulty):
        def warm_up(self):
            if len(made) > 1:
                raise PlayerError("the program is already running")

        def new_game(self, rng=None):
            self.asked = 99 if self is not made[0] else -99

    def make():
        made.append(Single(fails))
        return made[-1]

    result = play_match(make, lambda: Dawdler(0.001), leouski60()[:4], jobs=2)
    assert result.games == 8
    assert 0 < len(result.forfeits(A)) < 8


def test_players_may_answer_with_numpy_numbers():
    import numpy as np

    class Numpy(Dawdler):
        def pick(self, position, remaining):
            return Choice(np.int64(position.legal_moves[0]), np.float32(1.5))

    assert one_game(START[0], Numpy(), Dawdler()).game.ending == ""


def test_players_are_told_the_line():
    told: list[tuple[Position, Line]] = []

    class Listener(Dawdler):
        def choose(self, position, remaining=None, line=None):
            told.append((position, line))
            return super().choose(position, remaining, line)

    one = one_game(Opening(Position.start(), (37, 43)), Listener(), make_player("most-discs"))
    assert told[0][1] == Line(Position.start(), (37, 43))
    for position, line in told:
        assert line.start.replay(line.moves) == position
        assert one.game.moves[: len(line.moves)] == line.moves


def test_effort_is_counted():
    result = play_match("mobility:depth=2", lambda: Dawdler(0.001), leouski60()[:2])
    a, b = result.effort(A), result.effort(B)
    assert a.moves + b.moves == sum(sum(move != PASS for move in one.game.moves[4:]) for one in result.played)
    assert a.nodes_per_move > 10
    assert b.nodes == 0
    assert b.seconds_per_move > 0.001
    figures = result.as_dict()
    assert figures["nodes_per_move_a"] == a.nodes_per_move
    assert figures["seconds_per_move_b"] == b.seconds_per_move


def test_a_match_without_games_has_no_score():
    figures = MatchResult("a", "b", (), 0.0).as_dict()
    assert [figures[key] for key in ("score", "low", "high", "elo", "elo_low", "elo_high", "mean_margin")] == [None] * 7


@pytest.mark.parametrize("bad", [{"jobs": 0}, {"games": 0}])
def test_bad_arguments(bad):
    with pytest.raises(ValueError, match="at least one"):
        play_match("random", "random", START, **bad)


def test_no_openings():
    with pytest.raises(ValueError, match="at least one"):
        play_match("random", "random", [])
