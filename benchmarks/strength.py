"""How strong the players are: the papers' measures, matches, ratings. ``docs/strength.md`` shows the tables."""

from __future__ import annotations

import itertools
import os
import shlex
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from benchmarks.harness import ROOT, Report, Settings, benchmark, markdown_table, shipped_positions, warmed
from benchmarks.margins import Margins, Score, play_pairs, score_of
from othello_nn.arena.league import LeaguePlayer, LeagueResult, league, league_player
from othello_nn.arena.match import MatchResult, play_match
from othello_nn.arena.openings import Opening, make_openings
from othello_nn.arena.rating import Rating, ratings
from othello_nn.arena.tournament import Standing, TournamentResult, play_tournament
from othello_nn.cli.judges import judge_game, make_judge
from othello_nn.cli.web.levels import LEVELS
from othello_nn.engine import Engine, Limit, Options
from othello_nn.game.record import Game
from othello_nn.game.syntax import scan_moves
from othello_nn.players import PlayerError, make_player, parse_spec
from othello_nn.players.classic.keyano import shipped_keyano
from othello_nn.progress import progress
from othello_nn.resources import BEST

FIGURE_7 = ROOT / "tests" / "fixtures" / "figure7.tuples"
JOBS = os.cpu_count() or 1
SEED = 1
SWH_RATING = 1000
SHIPPED = ("champion", "triangle", "league")
CLASSICAL = ("iago", "keyano", "features", "wystan", "mobility")
SIMPLE = ("swh", "most-discs", "fewest-discs", "random")
PAPER = "Figure 7's player"
ALIKE = "probcut=off"
"""What is added where evaluations are compared at equal depth or time: some have a fitted ProbCut and others have none,
so that without it some would look deeper, or less closely, for another reason than how they evaluate."""

AnyResult = TypeVar("AnyResult", LeagueResult, MatchResult, TournamentResult)


def _one_ply(names: Sequence[str]) -> dict[str, LeaguePlayer]:
    return {name: league_player(f"tuples:{FIGURE_7}" if name == PAPER else name) for name in names}


def _interval(low: float | None, high: float | None, digits: int = 3) -> str:
    return f"{low:.{digits}f} to {high:.{digits}f}"


# --- the Othello League ----------------------------------------------------------------------------------------------

PRINTED_LOW, PRINTED_HIGH = 0.957, 0.961  # what the n-tuple paper's own figure allows for
PRINTED_SECONDS = 60


@benchmark("league-table", "the Othello League's measure of every player: 1-ply against SWH, ε = 0.1")
def league_table(settings: Settings) -> Report:
    games = settings.size(50_000, 100)
    players = _one_ply((PAPER, *SHIPPED, "all2", *CLASSICAL, *SIMPLE))
    found: dict[str, LeagueResult] = {}
    with progress("playing", len(players)) as bar:
        for done, (name, player) in enumerate(players.items(), start=1):
            found[name] = _whole(league(player, players["swh"], games, 0.1, SEED, JOBS))
            bar.update(done, name)
    order = sorted(found, key=lambda name: -(found[name].score or 0.0))
    rows = [
        (f"`{name}`" if name != PAPER else name, f"{result.score:.4f}", _interval(*result.interval, 4),
         f"{result.mean_margin:+.1f}", f"{result.games_per_second:,.0f}")
        for name, result in ((name, found[name]) for name in order)
    ]  # fmt: skip
    values = {name: {"score": r.score, "low": r.low, "high": r.high} for name, r in found.items()}
    printed, itself = found[PAPER], found["swh"]
    failure = None
    if not settings.quick:
        if not PRINTED_LOW <= (printed.score or 0.0) <= PRINTED_HIGH or printed.seconds > PRINTED_SECONDS:
            failure = f"Figure 7's player made {printed.score:.4f} in {printed.seconds:.0f} s"
        elif not itself.low <= 0.5 <= itself.high:  # type: ignore[operator]
            failure = f"SWH made {itself.score:.4f} against itself"
    return Report(
        printed.score or 0.0,
        "score",
        markdown_table(("1-ply against SWH, ε = 0.1", "score", "95%", "margin", "games/s"), rows),
        values | {"figure7_seconds": printed.seconds},
        {"double_games": games, "threads": JOBS},
        failure,
    )


@benchmark("specialist", "the same players against each other, ε = 0, random:7: an SWH score is not strength")
def specialist(settings: Settings) -> Report:
    games = settings.size(1_000, 20)
    players = _one_ply((PAPER, "league", "swh", "champion", "triangle", *CLASSICAL))
    names = list(players)
    points, counts = np.zeros((2, len(names), len(names)))
    pairs = list(itertools.combinations(range(len(names)), 2))
    with progress("playing", len(pairs)) as bar:
        for done, (i, j) in enumerate(pairs, start=1):
            result = _whole(league(players[names[i]], players[names[j]], games, 0.0, SEED, JOBS, opening_plies=7))
            counts[i, j] = counts[j, i] = 2 * games
            points[i, j] = (result.score or 0.0) * 2 * games
            points[j, i] = 2 * games - points[i, j]
            bar.update(done, f"{names[i]} – {names[j]}")
    rated = ratings(points, counts)
    scores = points / np.maximum(counts, 1)
    text = _cross_table(names, rated, scores)
    elo = {name: rating.elo for name, rating in zip(names, rated, strict=True)}
    values = {"elo": elo, "scores": scores.tolist(), "names": names}
    return Report(elo["champion"] - elo["league"], "Elo", text, values, {"double_games": games, "opening_plies": 7})


def _cross_table(names: Sequence[str], rated: Sequence[Rating], scores: np.ndarray) -> str:
    """Ratings and everybody's score against everybody, the strongest first."""
    order = sorted(range(len(names)), key=lambda i: -rated[i].elo)
    rows = []
    for rank, i in enumerate(order, start=1):
        cells = ["–" if i == j else _short(scores[i, j]) for j in order]
        elo = f"{rated[i].elo:+.0f} ± {rated[i].high - rated[i].elo:.0f}"
        rows.append((f"{rank}. {names[i] if names[i] == PAPER else f'`{names[i]}`'}", elo, *cells))
    return markdown_table(("player", "Elo", *map(str, range(1, len(names) + 1))), rows)


# --- matches ---------------------------------------------------------------------------------------------------------


def _match(a: str, b: str, openings: Sequence[Opening], jobs: int = JOBS) -> MatchResult:
    with progress(f"{a} – {b}", 2 * len(openings)) as bar:
        done = itertools.count(1)
        result = play_match(a, b, openings, jobs=jobs, seed=SEED, on_game=lambda one: bar.update(next(done)))
    return _whole(result)


def _whole(result: AnyResult) -> AnyResult:
    """A result that Ctrl-C cut short is none."""
    if result.interrupted:
        raise KeyboardInterrupt
    return result


def _match_table(results: dict[str, MatchResult], what: str) -> str:
    header = (what, "games", "won", "drawn", "lost", "score", "95%", "margin")
    return markdown_table(header, _match_rows(results))


def _match_rows(results: Mapping[str, MatchResult | Score]) -> list[tuple[Any, ...]]:
    return [
        (name, r.games, r.wins, r.draws, r.losses, f"{r.score:.3f}", _interval(*r.interval), f"{r.mean_margin:+.1f}")
        for name, r in results.items()
    ]


def _figures(result: MatchResult | Score) -> dict[str, Any]:
    names = ("games", "wins", "draws", "losses", "score", "low", "high", "mean_margin", "distinct")
    return {name: value for name, value in result.as_dict().items() if name in names}


def _least_score(results: Mapping[str, MatchResult | Score]) -> float:
    return min(result.score or 0.0 for result in results.values())


@benchmark("iago-matches", "IAGO against the simple strategies it left behind, all at depth 4")
def iago_matches(settings: Settings) -> Report:
    openings = make_openings("random:7", settings.size(122, 3), SEED)
    rivals = ("swh", "most-discs", "fewest-discs")
    results = {f"`{rival}`": _match("iago:depth=4", f"{rival}:depth=4", openings) for rival in rivals}
    least = _least_score(results)
    failure = None if settings.quick or least >= 0.9 else f"iago made only {least:.3f}"
    values = {name: _figures(result) for name, result in results.items()}
    parameters = {"openings": "random:7", "depth": 4}
    return Report(least, "score", _match_table(results, "`iago` against"), values, parameters, failure)


LEOUSKI_WINS = 54  # of 60, by his best net
LEOUSKI_PLAY = "depth=2,solve=10"


@benchmark("leouski-match", "Leouski's test: the triangle nets from his 60 openings against a mobility program")
def leouski_match(settings: Settings) -> Report:
    openings = make_openings("leouski60", None)[: settings.size(60, 2)]
    nets, rivals = ("triangle", "triangle-searched"), ("wystan:depth=1", "wystan:depth=2", "wystan:depth=2,solve=10")
    results = {(net, rival): _match(f"{net}:{LEOUSKI_PLAY}", rival, openings) for net in nets for rival in rivals}
    rows = []
    for (net, rival), result in results.items():
        black = sum(one.margin > 0 for one in result.played if one.a_is_black)
        won = f"{60 * result.wins / result.games:.1f}"
        cells = (black, result.wins - black, won, f"{result.score:.3f}", _interval(*result.interval))
        rows.append((f"`{net}`", f"`{rival}`", *map(str, cells)))
    header = (f"`{LEOUSKI_PLAY}`", "against", "won as black", "as white", "won of 60", "score", "95%")
    values = {f"{net} against {rival}": _figures(result) for (net, rival), result in results.items()}
    equal = results["triangle-searched", "wystan:depth=2"]
    won = 60 * equal.wins / equal.games
    failure = None if settings.quick or won >= LEOUSKI_WINS else f"at equal depth the net won only {won:.1f} of 60"
    return Report(won, "games of 60", markdown_table(header, rows), values, {"games": 120}, failure)


KEYANO_TRUST = 1.2  # as printed
TABLE2_PRINTED = (
    ("the paper: multi against off, 512,000 nodes", 70, "", "", "", "0.672", "", "+5.4"),
    ("the paper: multi against single", 70, "", "", "", "0.642", "", "+3.6"),
)


@benchmark("keyano-table2", "KEYANO's Table 2: Multi-ProbCut, ProbCut at one depth and full width, with equal nodes")
def keyano_table2(settings: Settings) -> Report:
    openings = make_openings("random:8", settings.size(200, 2), SEED)
    nodes = settings.size(100_000, 2_000)
    pairs = {"multi against off": ("multi", "off"), "multi against single": ("multi", "single")}
    pairs |= {"single against off": ("single", "off")}
    results, kept = {}, []
    for name, pair in pairs.items():
        players = (f"champion:nodes={nodes},trust={KEYANO_TRUST},probcut={way}" for way in pair)
        asked = {"nodes": nodes, "pair": pair, "openings": len(openings)} | settings.describe_evaluator()
        kept.append(margins := Margins("keyano-table2", asked, not settings.quick))
        play_pairs(*players, openings, margins, JOBS)
        results[name] = score_of(margins.known)
        print(f"  {name}: {results[name].score:.3f}", file=sys.stderr, flush=True)
    for margins in kept:
        margins.forget()
    least = _least_score(results)
    failure = None if settings.quick or least >= 0.5 else f"ProbCut made only {least:.3f}"
    values = {name: _figures(result) for name, result in results.items()}
    header = (
        f"{nodes:,} nodes a move, {KEYANO_TRUST} deviations",
        "games",
        "won",
        "drawn",
        "lost",
        "score",
        "95%",
        "margin",
    )
    table = markdown_table(header, [*_match_rows(results), *TABLE2_PRINTED])
    return Report(least, "score", table, values, {"nodes": nodes, "trust": KEYANO_TRUST}, failure)


PARITY_NODES = 10_000
PARITY_EXTRA = 1.15  # what the paper gave the program that does not pay for lost regions
PARITY_PRINTED = ("the paper: 64 against off", 70, "", "", "", "0.579", "0.462 to 0.687", "")


@benchmark("keyano-parity", "KEYANO's match: with lost regions against without them, which may search 15% more nodes")
def keyano_parity(settings: Settings) -> Report:
    openings = make_openings("random:8", settings.size(200, 2), SEED)
    nodes = settings.size(PARITY_NODES, 500)
    more = round(nodes * PARITY_EXTRA)
    pairs = {
        "64 against off": (("64", nodes), ("off", more)),
        "24 (ours) against off": (("on", nodes), ("off", more)),
        "64 against 24": (("64", nodes), ("on", nodes)),
    }
    results = {
        name: _match(*(f"keyano:nodes={budget},parity={price},probcut=off" for price, budget in pair), openings)
        for name, pair in pairs.items()
    }
    rows = [*_match_rows(results), PARITY_PRINTED]
    header = ("a lost region costs", "games", "won", "drawn", "lost", "score", "95%", "margin")
    values = {name: _figures(result) for name, result in results.items()}
    score = results["64 against off"].score or 0.0
    parameters = {"openings": "random:8", "nodes": nodes, "nodes_without": more, "probcut": False}
    return Report(score, "score", markdown_table(header, rows), values, parameters)


@benchmark(
    "keyano-parity-cost", "what lost regions cost KEYANO's search: nodes a second with and without them, in turns"
)
def keyano_parity_cost(settings: Settings) -> Report:
    positions, limit = shipped_positions("midgame.obf")[: settings.size(10, 2)], Limit(depth=settings.size(7, 4))
    prices = {"with lost regions": True, "without": 0.0}
    engines = {
        name: warmed(Engine(shipped_keyano().with_terms(parity=price), Options(probcut=False)))
        for name, price in prices.items()
    }
    speeds: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(settings.repeats()):
        for name, engine in engines.items():
            results = []
            for position in positions:
                engine.clear()
                results.append(engine.search(position, limit))
            speeds[name].append(sum(one.nodes for one in results) / sum(one.seconds for one in results))
    median = {name: statistics.median(found) for name, found in speeds.items()}
    faster = median["without"] / median["with lost regions"] - 1
    rows = [(name, f"{speed / 1e6:.2f}", "") for name, speed in median.items()]
    rows[1] = (*rows[1][:2], f"{faster:+.0%}")
    rows.append(("the paper, without", "", "+15%"))
    table = markdown_table((f"`keyano`, depth {limit.depth}", "Mn/s", "more nodes a second"), rows)
    parameters = {"depth": limit.depth, "positions": len(positions), "probcut": False}
    return Report(faster, "more nodes a second without", table, {"nodes_per_second": median}, parameters)


@benchmark("keyano-table3", "KEYANO's Table 3: what one and two plies more are worth")
def keyano_table3(settings: Settings) -> Report:
    openings = make_openings("random:8", settings.size(200, 2), SEED)
    depths = [(3, 2), (4, 3), (5, 4), (6, 5), (7, 6), (5, 3), (6, 4), (7, 5)]
    results = {
        f"{deep} plies against {shallow}": _match(
            f"champion:depth={deep},probcut=off", f"champion:depth={shallow},probcut=off", openings
        )
        for deep, shallow in depths[: settings.size(len(depths), 2)]
    }
    values = {name: _figures(result) for name, result in results.items()}
    score = results["4 plies against 3"].score or 0.0
    return Report(score, "score", _match_table(results, "`champion`"), values, {"depths": depths})


# --- IAGO's section 5 ------------------------------------------------------------------------------------------------

PRINTED_GAMES = {  # in the KEYANO paper
    "LOGISTELLO 33–31 KEYANO": (
        "d3c5e6f5f6e3d6f7g6c4c6e7d7g5f4c8h6c7d8e8f3h4g4c3b3h3g3d2b4b5c2a4e2c1d1a3a6a5a2h2b6e1b2a1b1g2h1h5f2a7f1h7h8"
        "g1g7g8f8b7a8b8"
    ),
    "HANNIBAL 32–32 KEYANO": (
        "e6f4d3c4c3d6f6c6f5g5f3e7f7g6e8g3b5f2c5f8g8c7b6e3h6b4h5e2a5a4a3d7d8g4b3b8d2b7h4h3h2a6c2d1c1a2g1f1e1b2a8c8a7"
        "h8g2h7g7h1a1b1"
    ),
}


@benchmark("agreement", "IAGO's section 5: how often players agree with the moves of two printed games")
def agreement(settings: Settings) -> Report:
    texts = list(PRINTED_GAMES.values())[: settings.size(2, 1)]
    games = [Game(moves=tuple(scan_moves(text)), passes_left_out=True) for text in texts]
    rows, values = [], {}
    for name in ("iago:depth=8,solve=15", "champion:depth=12,solve=18") if not settings.quick else ("iago:depth=2",):
        spec = parse_spec(name)
        judge = make_judge(make_player(spec), spec)
        moves = [judged for game in games for judged in judge_game(game, judge)]
        parts = {"estimated": [one for one in moves if not one.exact], "solved": [one for one in moves if one.exact]}
        cells, values[name] = [], {}
        for part, judged in {**parts, "all": moves}.items():
            agrees = sum(one.agrees for one in judged)
            loss = statistics.mean(one.loss for one in judged) if judged else 0.0
            values[name][part] = {"moves": len(judged), "agrees": agrees, "mean_loss": loss}
            cells.append(f"{agrees} of {len(judged)}" + (f" ({agrees / len(judged):.0%})" if judged else ""))
        rows.append((f"`{name}`", *cells, f"{values[name]['all']['mean_loss']:.2f}"))
    header = ("agrees with", "moves that it estimates", "that it solves", "all", "mean loss, discs")
    share = next(iter(values.values()))["all"]
    return Report(share["agrees"] / share["moves"], "share", markdown_table(header, rows), values)


# --- ratings ---------------------------------------------------------------------------------------------------------


@benchmark("opponents", "the classical players, the triangle net and the champion at depth 4, full width")
def opponents(settings: Settings) -> Report:
    names = [f"{name}:depth=4,{ALIKE}" for name in ("champion", "triangle", *CLASSICAL, "swh")]
    return _round_robin(settings, names, make_openings("random:7", settings.size(50, 1), SEED))


@benchmark("ratings", "all players in one round robin, at 1-ply and with 0.1 s a move")
def rating_table(settings: Settings) -> Report:
    names = [f"{name}:depth=1" for name in (*SHIPPED, *CLASSICAL)] + list(SIMPLE)
    seconds = settings.size(100, 5) / 1000
    names += [f"{name}:seconds={seconds:g},{ALIKE}" for name in (*SHIPPED, *CLASSICAL, "swh")]
    names = names if not settings.quick else names[-3:]
    return _round_robin(settings, names, make_openings("random:8", settings.size(4, 1), SEED))


@benchmark("levels", "the levels of the browser's board against each other: their ratings, swh being 1000")
def levels(settings: Settings) -> Report:
    titles = {f"{BEST}:{level.keys}": level.name for level in LEVELS if "seconds" not in level.keys}
    names = [*titles, "swh", "random"] if not settings.quick else [*list(titles)[:2], "swh"]
    openings = make_openings("random:8", settings.size(8, 1), SEED)
    with progress("playing", len(names) * (len(names) - 1) * len(openings)) as bar:
        done, jobs = itertools.count(1), settings.threads or JOBS
        result = play_tournament(names, openings, jobs=jobs, seed=SEED, on_game=lambda one: bar.update(next(done)))
    _whole(result)
    standings = result.standings()
    shift = SWH_RATING - next(standing.rating.elo for standing in standings if standing.player == "swh")
    rows = [
        (
            f"`{standing.player}`",
            titles.get(standing.player, ""),
            f"{standing.rating.elo + shift:.0f} ± {standing.rating.high - standing.rating.elo:.0f}",
            f"{standing.score:.2f}",
        )
        for standing in standings
    ]
    values = {standing.player: standing.rating.elo + shift for standing in standings}
    parameters = {"openings": len(openings), "games": len(result.played), "seconds": result.seconds}
    text = markdown_table(("player", "level", "rating", "score"), rows)
    return Report(standings[0].rating.elo + shift, "Elo", text, values, parameters)


def _round_robin(settings: Settings, names: Sequence[str], openings: Sequence[Opening]) -> Report:
    with progress("playing", len(names) * (len(names) - 1) * len(openings)) as bar:
        done = itertools.count(1)
        result = play_tournament(names, openings, jobs=JOBS, seed=SEED, on_game=lambda one: bar.update(next(done)))
    _whole(result)
    standings = result.standings()
    values = {
        s.player: {"elo": s.rating.elo, "low": s.rating.low, "high": s.rating.high, "against": s.against}
        for s in standings
    }
    forfeits = [reason for standing in standings for reason in standing.forfeits]
    failure = f"a player failed: {forfeits[0]}" if forfeits else None
    parameters = {"openings": len(openings), "games": len(result.played), "seconds": result.seconds}
    return Report(standings[0].rating.elo, "Elo", _standings_table(standings), values, parameters, failure)


def _standings_table(standings: list[Standing]) -> str:
    rows = []
    for standing in standings:
        cells = ["–" if o is standing else _short(standing.against[o.player]) for o in standings]
        elo = f"{standing.rating.elo:+.0f} ± {standing.rating.high - standing.rating.elo:.0f}"
        rows.append((f"{standing.rank}. `{standing.player}`", elo, *cells))
    return markdown_table(("player", "Elo", *(str(standing.rank) for standing in standings)), rows)


def _short(score: float | None) -> str:
    """Without the nought before the point: the table is wide."""
    return "·" if score is None else f"{score:.2f}".removeprefix("0")


# --- other programs --------------------------------------------------------------------------------------------------


RHINO = "gtp:gtp-rhino --level=3"


@benchmark("engines", "matches through GTP: against Rhino, and our own engine behind its own client")
def engines(settings: Settings) -> Report:
    openings = make_openings("random:6", settings.size(5, 1), SEED)
    words = [sys.executable, str(ROOT / "play.py"), "engine", "gtp", "--player", "champion:depth=4"]
    rivals = {"itself through GTP": f"gtp:{shlex.join(words[:-1])} '{words[-1]}'", "Rhino, level 3": RHINO}
    results, started = {}, time.perf_counter()
    for name, rival in rivals.items():
        try:
            results[name] = _match("champion:depth=4", rival, openings, jobs=1)
        except PlayerError as error:
            print(f"note: {name} is left out: {error}", file=sys.stderr)
    failed = [one.game.comment for result in results.values() for one in result.played if one.forfeited]
    values = {name: _figures(result) for name, result in results.items()}
    seconds = time.perf_counter() - started
    failure = f"a game was forfeited: {failed[0]}" if failed else None
    text = _match_table(results, "`champion:depth=4` against")
    return Report(seconds, "s", text, values, {"openings": "random:6"}, failure)
