"""The sequential test: its ratio, its error rates, and that it ends a match."""

import math
import random

import pytest

from othello_nn.arena.match import play_match
from othello_nn.arena.openings import random_openings
from othello_nn.arena.sprt import ACCEPT, REJECT, SCORES, Sprt, _likeliest
from othello_nn.arena.statistics import expected_score


def simulated(elo: float, test: Sprt, seed: int, most: int = 4000) -> Sprt:
    """A match of pairs whose games are won with the probability that the difference gives, draws being rare."""
    rng = random.Random(seed)
    win = expected_score(elo) - 0.02
    for game in range(2 * most):
        draw = rng.random()
        test = test.after(game // 2, 1 if draw < win else 0 if draw < win + 0.04 else -1)
        if game % 2 and test.decision:
            break
    return test


def test_pairs_are_counted_whatever_the_order():
    test = Sprt(0, 10)
    for opening, margin in ((0, 5), (1, -3), (1, 2), (0, 0), (2, -1), (2, -9), (3, 4)):
        test = test.after(opening, margin)
    assert test.pairs == (1, 0, 1, 1, 0)
    assert test.halves == {3: 2}


@pytest.mark.parametrize("counts", [[3, 7, 20, 9, 4], [1, 1e-3, 1e-3, 1e-3, 30], [1e-3, 1e-3, 5, 1e-3, 1e-3]])
@pytest.mark.parametrize("mean", [0.2, 0.5, 0.55, 0.9])
def test_the_likeliest_distribution_has_the_mean_and_none_is_likelier(counts, mean):
    best = _likeliest(counts, mean)
    assert sum(best) == pytest.approx(1, abs=1e-6)
    assert sum(p * score for p, score in zip(best, SCORES, strict=True)) == pytest.approx(mean, abs=1e-6)

    def likelihood(probabilities):
        return sum(count * math.log(p) for count, p in zip(counts, probabilities, strict=True))

    # Steps that keep sum and mean: probability moved from two neighbours to what lies between them, or back.
    for middle in (1, 2, 3):
        for step in (1e-6, -1e-6):
            other = list(best)
            for index, share in ((middle - 1, -0.5), (middle, 1.0), (middle + 1, -0.5)):
                other[index] += share * step
            if min(other) > 0:
                assert likelihood(other) <= likelihood(best) + 1e-9


def test_the_ratio_by_hand():
    """Where only 0 and 1 occur, this is Wald's test for a coin."""
    test = Sprt(0, 100, pairs=(40, 0, 0, 0, 60))
    by_hand = sum(
        n * math.log(p1 / p0) for n, p0, p1 in ((60, 0.5, expected_score(100)), (40, 0.5, expected_score(-100)))
    )
    assert test.llr == pytest.approx(by_hand, rel=0.01)


def test_errors_are_as_rare_as_promised():
    verdicts = [simulated(0, Sprt(0, 120), seed).decision for seed in range(100)]
    assert verdicts.count(ACCEPT) <= 11  # 5% of 100 is 5, and 11 is 2.7 deviations more
    assert verdicts.count(REJECT) >= 89
    verdicts = [simulated(120, Sprt(0, 120), seed).decision for seed in range(100)]
    assert verdicts.count(REJECT) <= 11
    assert verdicts.count(ACCEPT) >= 89


def test_a_clear_difference_takes_few_games():
    assert sum(simulated(300, Sprt(0, 20), 1).pairs) < 200
    assert simulated(300, Sprt(0, 20), 1).decision == ACCEPT


@pytest.mark.parametrize(
    ("elo0", "elo1", "alpha"),
    [(5, 5, 0.05), (10, 0, 0.05), (0, math.inf, 0.05), (0, 1e5, 0.05), (math.nan, 5, 0.05), (0, 10, 0.5), (0, 10, 0)],
)
def test_hypotheses_must_make_sense(elo0, elo1, alpha):
    with pytest.raises(ValueError, match="must be"):
        Sprt(elo0, elo1, alpha)


def test_a_match_ends_when_it_is_decided():
    openings = random_openings(8, 100, seed=1)
    result = play_match("swh", "random", openings, 200, sprt=Sprt(0, 50), jobs=2)
    assert result.sprt.decision == ACCEPT
    assert 2 * sum(result.sprt.pairs) <= result.games < 200
    assert result.as_dict()["sprt"]["decision"] == "accept"
    short = play_match("swh", "random", openings[:2], sprt=Sprt(0, 1))
    assert short.as_dict()["sprt"]["decision"] == "undecided"
