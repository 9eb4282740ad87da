"""The League: the measure against a plain game of the same chances, its figures, its players, the command."""

import json
import math
import os
import random
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from strategies import endings
from test_cli import finish, one_line, run, start

from othello_nn.arena.league import LeaguePlayer, LeagueResult, league, league_player, random_opening
from othello_nn.arena.statistics import wilson_interval
from othello_nn.cli import main as cli
from othello_nn.engine.leaf.compile import ColouredEvaluator
from othello_nn.engine.leaf.mobility import Mobility
from othello_nn.engine.leaf.tables import weighted_squares
from othello_nn.engine.oneply import evaluated_move, new_scratch, one_ply
from othello_nn.game import rules
from othello_nn.kernels.chance import below, next_random, random_stream
from othello_nn.players import PlayerError
from othello_nn.players.classic.league_tuples import load_tuples
from othello_nn.players.searching import square_evaluator
from othello_nn.players.simple import FEWEST_DISCS, MOST_DISCS, SWH

FIGURE_7 = Path(__file__).parent / "fixtures" / "figure7.tuples"
WORD = 2**64 - 1


@pytest.fixture(scope="module")
def swh():
    return square_evaluator(SWH)


@pytest.fixture(scope="module")
def figure7():
    return load_tuples(FIGURE_7)


# --- a plain game of the same chances --------------------------------------------------------------------------------


class Chance:
    """The random numbers of the kernels in Python's integers."""

    def __init__(self, seed: int, index: int):
        state = 0
        for word in (seed & WORD, index):
            state = state + word + 0x9E3779B97F4A7C15 & WORD
            state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & WORD
            state = (state ^ state >> 27) * 0x94D049BB133111EB & WORD
            state ^= state >> 31
        self.state = max(state, 1)

    def draw(self) -> int:
        """32 random bits."""
        self.state ^= self.state >> 12
        self.state ^= self.state << 25 & WORD
        self.state ^= self.state >> 27
        return (self.state * 0x2545F4914F6CDD1D & WORD) >> 32

    def below(self, n: int) -> int:
        return self.draw() * n >> 32


def plain_choice(weights, chance: Chance, mover: int, opponent: int, legal: list[int]) -> int:
    """1-ply by square weights, ties as the kernel breaks them."""
    best, chosen, equals = -math.inf, -1, 0
    for square in legal:
        other, own = rules.play(mover, opponent, square)
        value = weights.value(own, other)
        if value > best:
            best, chosen, equals = value, square, 1
        elif value == best:
            equals += 1
            if chance.below(equals) == 0:
                chosen = square
    return chosen


def plain_game(weights: dict[bool, object], epsilon: float, chance: Chance, mover: int, opponent: int, black: bool):
    """Black's margin of a game; ``weights`` by colour."""
    while True:
        legal = rules.squares_in(rules.legal_mask(mover, opponent))
        if not legal:
            mover, opponent, black = opponent, mover, not black
            legal = rules.squares_in(rules.legal_mask(mover, opponent))
            if not legal:
                margin = rules.final_score(mover, opponent)
                return margin if black else -margin
        if chance.draw() < epsilon * 2**32:
            square = legal[chance.below(len(legal))]
        else:
            square = plain_choice(weights[black], chance, mover, opponent, legal)
        mover, opponent, black = *rules.play(mover, opponent, square), not black


@pytest.mark.parametrize(
    ("a", "b", "epsilon", "plies"),
    [(SWH, FEWEST_DISCS, 0.1, 0), (MOST_DISCS, SWH, 0.0, 7), (SWH, SWH, 0.3, 4), (MOST_DISCS, FEWEST_DISCS, 0.0, 20)],
)
def test_games_are_those_of_a_plain_game_with_the_same_chances(a, b, epsilon, plies):
    seed = 5
    result = league(square_evaluator(a), square_evaluator(b), 40, epsilon, seed, opening_plies=plies)
    assert len({tuple(pair) for pair in result.margins.tolist()}) > 10
    for number, (as_black, as_white) in enumerate(result.margins.tolist()):
        opening = [int(part) for part in random_opening(np.uint64(seed), number, plies)]
        opening[2] = bool(opening[2])
        assert as_black == plain_game({True: a, False: b}, epsilon, Chance(seed, 2 * number), *opening)
        assert as_white == -plain_game({True: b, False: a}, epsilon, Chance(seed, 2 * number + 1), *opening)


def test_the_kernels_chances_are_the_plain_ones():
    for seed, index in [(0, 0), (1, 2), (2, 1), (WORD, WORD)]:
        chance = Chance(seed, index)
        state = random_stream(np.uint64(seed), np.uint64(index))
        for n in range(1, 20):
            state = next_random(np.uint64(state))
            assert below(np.uint64(state), n) == chance.below(n)
    assert len({int(random_stream(np.uint64(s), np.uint64(i))) for s in range(50) for i in range(50)}) == 2500


@pytest.mark.parametrize("plies", [0, 1, 7, 30, 50])
def test_random_openings_are_positions_of_games(plies):
    parts = [random_opening(np.uint64(3), number, plies) for number in range(50)]
    assert len({part[:2] for part in parts}) == (1 if plies == 0 else 4 if plies == 1 else 50)
    for mover, opponent, black in parts:
        assert int(mover) & int(opponent) == 0
        assert bool(black) == (plies % 2 == 0)
        # Passes count as plies, so there may be fewer discs.
        assert 4 + plies - 12 <= (int(mover) | int(opponent)).bit_count() <= 4 + plies
        assert rules.legal_mask(int(mover), int(opponent)) or rules.legal_mask(int(opponent), int(mover))


# --- one ply ---------------------------------------------------------------------------------------------------------


def choose(leaf, mover: int, opponent: int, kernel=one_ply, *more, state: int = 1) -> tuple[int, int]:
    scratch = new_scratch()
    moves = np.uint64(rules.legal_mask(mover, opponent))
    empties = 64 - (mover | opponent).bit_count()
    words = np.uint64(mover), np.uint64(opponent)
    square, state = kernel(leaf, scratch.ctypes.data, *words, moves, empties, np.uint64(state), *more)
    return int(square), int(state)


def test_one_ply_takes_the_move_that_is_worst_for_the_other_side():
    leaf = Mobility()
    several = 0
    for mover, opponent in endings(seed=1, games=20, fewest=2, most=60):
        legal = rules.squares_in(rules.legal_mask(mover, opponent))
        if not legal:
            continue
        values = {}
        for square in legal:
            other, own = rules.play(mover, opponent, square)
            empties = 64 - (other | own).bit_count()
            values[square] = Mobility.score(leaf, 0, np.uint64(other), np.uint64(own), empties) if other else -math.inf
        assert values[choose(leaf, mover, opponent)[0]] == min(values.values())
        several += len(set(values.values())) > 1
    assert several > 500


def test_ties_are_broken_by_chance_each_as_likely():
    """At the start all four moves turn one disc."""
    leaf = square_evaluator(MOST_DISCS).leaf
    states = [int(random_stream(np.uint64(1), np.uint64(i))) for i in range(4000)]
    drawn = [choose(leaf, rules.START_MOVER, rules.START_OPPONENT, state=state) for state in states]
    assert sorted({square for square, _ in drawn}) == rules.squares_in(
        rules.legal_mask(rules.START_MOVER, rules.START_OPPONENT)
    )
    counts = np.unique([square for square, _ in drawn], return_counts=True)[1]
    assert np.abs(counts - 1000).max() < 130  # more than four standard deviations
    assert all(after != before for (_, after), before in zip(drawn, states, strict=True))


def test_a_wipe_out_is_taken_whatever_the_evaluator_says():
    """c1 turns both of the opponent's discs; b2 turns one, which a player who wants few discs would like better."""
    bits = {name: 1 << 8 * (int(name[1]) - 1) + "abcdefgh".index(name[0]) for name in ("a1", "c3", "d2", "b1", "c2")}
    mover, opponent = bits["a1"] | bits["c3"] | bits["d2"], bits["b1"] | bits["c2"]
    assert {2, 9} <= set(rules.squares_in(rules.legal_mask(mover, opponent)))
    assert rules.play(mover, opponent, 2)[0] == 0
    leaf = square_evaluator(FEWEST_DISCS).leaf
    assert choose(leaf, mover, opponent)[0] == 2
    assert choose(leaf, mover, opponent, evaluated_move, False)[0] == 9  # unless only the evaluator is asked


# --- the measure -----------------------------------------------------------------------------------------------------


def test_neither_threads_nor_chunks_have_a_part_in_the_result(swh):
    one = league(swh, Mobility(), 300, seed=7)
    assert (one.margins == league(swh, Mobility(), 300, seed=7, threads=3).margins).all()
    # A longer run is cut into other chunks, and begins with the same games.
    assert (one.margins == league(swh, Mobility(), 21_000, seed=7, threads=2).margins[:300]).all()
    assert (one.margins != league(swh, Mobility(), 300, seed=8).margins).any()
    assert (one.margins[:, 0] != one.margins[:, 1]).any()


def test_a_player_may_have_an_evaluator_for_each_colour(swh):
    both = league(LeaguePlayer("", swh, Mobility()), swh, 100)
    assert (both.margins[:, 0] == league(swh, swh, 100).margins[:, 0]).all()
    assert (both.margins[:, 1] == league(Mobility(), swh, 100).margins[:, 1]).all()
    against = league(swh, LeaguePlayer("", Mobility(), swh), 100)
    assert (against.margins[:, 0] == league(swh, swh, 100).margins[:, 0]).all()
    assert (against.margins[:, 1] == league(swh, Mobility(), 100).margins[:, 1]).all()
    coloured = ColouredEvaluator("", black_to_move=Mobility(), white_to_move=swh)
    assert (league(coloured, swh, 100).margins == both.margins).all()


def test_with_epsilon_1_nobody_is_asked(swh):
    margins = league(swh, Mobility(), 500, epsilon=1.0).margins
    assert (margins == league(Mobility(), swh, 500, epsilon=1.0).margins).all()
    own = league(LeaguePlayer("", swh, swh, 1.0), LeaguePlayer("", swh, swh, 1.0), 500, epsilon=0.0)
    assert (margins == own.margins).all()


def test_an_own_epsilon_goes_before_the_leagues(swh):
    steady = league(LeaguePlayer("", swh, swh, 0.0), swh, 1000, epsilon=0.5)
    assert steady.score > 0.7
    assert (league(swh, swh, 200).margins == league(LeaguePlayer("", swh, swh, 0.1), swh, 200).margins).all()


def test_swh_is_as_good_as_itself_and_better_than_chance(swh):
    even = league(swh, swh, 4000, seed=1)
    assert even.low < 0.5 < even.high
    assert even.high - even.low < 0.03
    assert abs(even.mean_margin) < 1.5
    chance = league(league_player("random"), league_player("swh"), 1000)
    assert 0.1 < chance.score < 0.3
    assert league(swh, league_player("random"), 1000).score == pytest.approx(1 - chance.score, abs=0.05)


def test_the_best_player_of_the_paper_scores_as_printed(figure7, swh):
    """0.9592 ± 0.0012 over 50,000 double games; ± 0.0042 is what 4,000 can tell."""
    result = league(figure7, swh, 4000)
    assert result.low < 0.9592 < result.high
    assert result.high - result.low < 0.01


@pytest.mark.slow
def test_the_best_player_of_the_paper_over_more_games(figure7, swh):
    """0.9592 in the text and 0.9584 under the figure, both ± 0.0012."""
    assert 0.9580 < league(figure7, swh, 200_000, threads=2).score < 0.9604


def test_openings_are_the_same_in_both_games():
    """Without chance in the play, a player against itself then gives and takes the same, but for a tie now and then."""
    rng = random.Random(3)
    squares = weighted_squares("few ties", [rng.uniform(-0.9, 0.9) for _ in range(64)])
    result = league(squares, squares, 200, epsilon=0.0, opening_plies=9)
    assert (result.margins[:, 0] == -result.margins[:, 1]).mean() > 0.75
    assert len(set(result.margins[:, 0].tolist())) > 20
    with_chance = league(squares, squares, 200, epsilon=0.1, opening_plies=9).margins
    assert (with_chance[:, 0] == -with_chance[:, 1]).mean() < 0.25


def test_figures_come_from_the_margins():
    margins = np.array([[10, -4], [2, 6], [0, -8], [-64, 64]] * 50, np.int8)
    result = LeagueResult(margins, seconds=4.0)
    assert (result.wins, result.draws, result.losses, result.double_games) == (200, 50, 150, 200)
    assert result.score == pytest.approx((200 + 25) / 400)
    assert result.mean_margin == pytest.approx(6 / 8)
    assert result.games_per_second == 100
    # Double games of ½, 1, ¼ and ½: variance 0.0742 about the mean 0.5625.
    scores = np.array([0.5, 1, 0.25, 0.5] * 50)
    spread = 1.959964 * scores.std(ddof=1) / math.sqrt(200)
    assert result.interval == pytest.approx((0.5625 - spread, 0.5625 + spread))
    assert json.loads(json.dumps(result.as_dict()))["high"] == pytest.approx(0.5625 + spread)


@pytest.mark.parametrize(
    ("pairs", "score"),
    [([[1, 1]] * 1000, 1.0), ([[-1, -1]] * 40, 0.0), ([[1, -1]] * 100, 0.5), ([[1, -1], [1, 1]], 0.75)],
    ids=["only wins", "only losses", "all alike", "few"],
)
def test_where_the_spread_means_nothing_wilsons_interval_is_given(pairs, score):
    result = LeagueResult(np.array(pairs, np.int8), 1.0)
    assert result.score == score
    assert (result.low, result.high) == wilson_interval(score, len(pairs))
    assert result.high - result.low > 0.003


def test_ctrl_c_keeps_what_was_played(swh):
    def interrupt(done: int) -> None:
        if done >= 300:
            raise KeyboardInterrupt

    result = league(swh, swh, 10_000, on_progress=interrupt)
    assert result.interrupted
    assert 300 <= result.double_games < 10_000
    assert (result.margins == league(swh, swh, result.double_games).margins).all()


def test_without_a_game_there_are_no_figures():
    empty = LeagueResult(np.zeros((0, 2), np.int8), 0.0, interrupted=True)
    assert (empty.score, empty.low, empty.high, empty.mean_margin, empty.games_per_second) == (None,) * 4 + (0.0,)


def test_progress_ends_with_all_games(swh):
    seen: list[int] = []
    league(swh, swh, 230, threads=2, on_progress=seen.append)
    assert seen == [50, 100, 150, 200, 230]


@pytest.mark.parametrize(
    "wrong", [{"double_games": 0}, {"threads": 0}, {"epsilon": 1.5}, {"opening_plies": 51}, {"epsilon": math.nan}]
)
def test_impossible_leagues_are_refused(swh, wrong):
    with pytest.raises(ValueError, match=r"League|probability"):
        league(swh, swh, **({"double_games": 1} | wrong))


# --- players ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["swh", "most-discs", "fewest-discs", "swh:depth=1", "swh:depth=1,epsilon=0.5"])
def test_named_players_have_the_evaluator_of_their_name(name, swh):
    player = league_player(name)
    assert player.name == name
    evaluator = player.black
    assert evaluator.name == name.partition(":")[0]
    assert player.white is evaluator
    assert player.epsilon == (0.5 if "epsilon" in name else None)


def test_searching_players_play_one_ply(figure7):
    assert league_player(f"tuples:{FIGURE_7}").black is figure7
    assert isinstance(league_player("mobility:epsilon=0").white, Mobility)
    assert league_player("mobility:epsilon=0").epsilon == 0
    assert league_player("random").epsilon == 1


@pytest.mark.parametrize("keys", ["depth=2", "seconds=1", "solve=10", "threads=2", "epsilon=0.1,nodes=5"])
def test_other_keys_are_refused(keys):
    with pytest.raises(PlayerError, match="the League is 1-ply"):
        league_player(f"swh:{keys}")


def test_programs_cannot_play_one_ply():
    with pytest.raises(PlayerError, match="cannot play in the League"):
        league_player("gtp:gtp-rhino")


# --- the command -----------------------------------------------------------------------------------------------------


@pytest.fixture
def play(capsys):
    """Run a command in this process: (exit code, stdout, stderr)."""

    def call(*words: str) -> tuple[int, str, str]:
        code = cli.main(["league", *words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_the_command_prints_the_figures(play, swh):
    words = ("random", "--double-games", "300", "--seed", "3", "--jobs", "2")
    code, out, error = play(*words, "--json")
    assert (code, error) == (0, "")
    found = json.loads(one_line(out))
    expected = league(LeaguePlayer("", swh, swh, 1.0), swh, 300, seed=3)
    assert found["player"] == "random"
    assert found["against"] == "swh"
    assert {key: found[key] for key in ("double_games", "epsilon", "seed", "openings")} == {
        "double_games": 300,
        "epsilon": 0.1,
        "seed": 3,
        "openings": "none",
    }
    same = ("score", "low", "high", "wins", "draws", "losses", "mean_margin")
    assert {key: found[key] for key in same} == {key: expected.as_dict()[key] for key in same}
    assert found["games_per_second"] == pytest.approx(600 / found["seconds"])
    code, out, _ = play(*words)
    assert code == 0
    assert f"score {expected.score:.4f} (95%: {expected.low:.4f} to {expected.high:.4f})" in out


def test_the_command_has_openings_and_another_opponent(play, swh):
    words = ("swh", "--against", "mobility", "--double-games", "60", "--epsilon", "0", "--openings", "random:7")
    code, out, _ = play(*words, "--json")
    assert code == 0
    expected = league(swh, Mobility(), 60, 0.0, opening_plies=7)
    assert json.loads(out)["mean_margin"] == expected.mean_margin
    assert "openings random:7" in play(*words)[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("swh:depth=4",), "the League is 1-ply"),
        (("swh", "--against", "swh:seconds=1"), "the League is 1-ply"),
        (("shw",), "did you mean 'swh'"),
        (("tuples:no.such",), "no.such"),
        (("swh", "--epsilon", "1.5"), "not a probability"),
        (("swh", "--epsilon", "nan"), "not a probability"),
        (("swh", "--openings", "leouski60"), "write none, or random:N"),
        (("swh", "--openings", "random:51"), "1 to 50 plies"),
        (("swh", "--double-games", "0"), "not a whole number from 1"),
        (("swh", "--double-game", "5"), "did you mean '--double-games'"),
        ((), "required: A"),
    ],
)
def test_mistakes_are_told_in_one_line(play, words, message):
    code, out, error = play(*words)
    assert (code, out) == (2, "")
    assert message in one_line(error)


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_prints_the_result_so_far():
    assert run("league", "swh", "--double-games", "1").returncode == 0  # compiles, where that is still to be done
    for seconds in (3, 6, 12, 24):  # a busy machine may still be starting
        process = start("league", "swh", "--double-games", "10000000", "--json")
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        out, error = finish(process)
        if out and json.loads(one_line(out))["double_games"]:
            break
    assert process.returncode == 130
    found = json.loads(one_line(out))
    assert found["interrupted"]
    assert 0 < found["double_games"] < found["planned"] == 10_000_000
    assert f"interrupted after {found['double_games']} of 10000000 double games" in one_line(error)
