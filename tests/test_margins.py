"""Long matches of the benchmarks: one that was stopped goes on, and comes to the same."""

import pytest

from benchmarks import margins
from benchmarks.margins import Margins, play_pairs, score_of
from benchmarks.probcut import sprt_after
from othello_nn.arena.match import play_match
from othello_nn.arena.openings import make_openings

A, B = "mobility:depth=2", "wystan:depth=1"


@pytest.fixture
def clean(tmp_path, monkeypatch):
    """A checkout without changes, and a cache of its own."""
    monkeypatch.setattr(margins, "user_cache", lambda: tmp_path)
    monkeypatch.setattr(margins, "machine_facts", lambda: {"revision": "abc", "dirty": False})
    return tmp_path


def test_a_match_that_was_stopped_goes_on(clean, monkeypatch):
    openings = make_openings("random:6", 10, 1)
    asked = []

    def counted(a, b, some, **rest):
        asked.append(len(some))
        return play_match(a, b, some, **rest)

    monkeypatch.setattr(margins, "play_match", counted)
    first = Margins("match", {"nodes": 1})
    play_pairs(A, B, openings, first, 1, enough=lambda known: len(known) >= 6, chunk=3)
    second = Margins("match", {"nodes": 1})
    assert second.known == first.known
    assert len(second.known) == 6
    play_pairs(A, B, openings, second, 1, chunk=3)
    assert asked == [3, 3, 3, 1]

    whole = play_match(A, B, openings)
    assert [margin for pair in second.known for margin in pair] == [one.margin for one in whole.played]
    score = score_of(second.known)
    assert (score.games, score.wins, score.draws, score.losses) == (20, whole.wins, whole.draws, whole.losses)
    assert (score.score, score.interval, score.elo) == (whole.score, whole.interval, whole.elo)
    assert Margins("match", {"nodes": 2}).known == []
    second.forget()
    assert Margins("match", {"nodes": 1}).known == []
    assert list((clean / "othello_nn").iterdir()) == []


def test_nothing_is_kept_where_there_are_changes(clean, monkeypatch):
    monkeypatch.setattr(margins, "machine_facts", lambda: {"revision": "abc", "dirty": True})
    Margins("match", {}).add([(2, -2)])
    Margins("match", {}, keep=False).add([(2, -2)])
    assert list(clean.iterdir()) == []


def test_the_test_counts_pairs():
    assert sprt_after([(10, 4), (10, -4), (0, -4), (-2, -6)]).pairs == (1, 1, 1, 0, 1)
    better = [(10, 4), (2, -2)] * 200
    assert sprt_after(better).decision == "accept"
    assert sprt_after([(-black, -white) for black, white in better]).decision == "reject"
