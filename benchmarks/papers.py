"""Measured again: KEYANO's Table 1, the tournament report's Figure 1 and what else it does in a search of its own way,
IAGO's Table 4-1.

All of them count nodes, so that they come out the same on any machine. ``docs/search.md`` shows them with the
originals.
"""

from __future__ import annotations

import itertools
import statistics
from typing import Any

import numpy as np

from benchmarks.bare import BareEngine, RootOrder
from benchmarks.harness import Report, Settings, benchmark, markdown_table, shipped_positions, warmed
from benchmarks.midgames import after_best
from othello_nn.arena.openings import random_openings
from othello_nn.engine import Engine, Limit, Options, Result
from othello_nn.engine.leaf.tables import weighted_squares
from othello_nn.engine.ttable import ENTRY_BYTES
from othello_nn.engine.workspace import (
    EVALUATOR_ORDER,
    EVERYTHING,
    KILLER_MOVES,
    MOBILITY_ORDER,
    NULL_WINDOWS,
    PASS_COSTS,
    RATED_RESPONSES,
    RESPONSE_ORDER,
    SQUARE_ORDER,
    TABLE_CUTS,
    TABLE_MOVE,
    TWO_PLIES,
)
from othello_nn.game import PASS, Position
from othello_nn.kernels import board
from othello_nn.progress import progress
from othello_nn.search_options import Driver

# --- KEYANO, Table 1 -------------------------------------------------------------------------------------------------

KEYANO_DEPTH = 10
KEYANO_NODES = {20: 974_614, 18: 978_746, 16: 1_001_342, 14: 1_058_428, 10: 1_272_702}  # by log2 of the entries
KEYANO_ALPHABETA = 1.07


def _average_nodes(settings: Settings, positions: list[Position], depth: int, bits: int, search: Driver) -> float:
    table_mb = 2**bits * ENTRY_BYTES / 2**20
    engine = settings.engine(table_mb=table_mb, probcut=False, search=search)
    assert engine.table.entries == 2**bits
    nodes = []
    for position in positions:
        engine.clear()
        nodes.append(engine.search(position, Limit(depth=depth)).nodes)
    return statistics.mean(nodes)


@benchmark("keyano-table1", "KEYANO's Table 1: nodes of 10-ply searches by size of the transposition table")
def keyano_table1(settings: Settings) -> Report:
    depth = settings.size(KEYANO_DEPTH, 6)
    positions = shipped_positions("midgame.obf")[: settings.size(20, 4)]
    found = {}
    with progress("searching", len(KEYANO_NODES) + 1) as bar:
        for done, bits in enumerate(KEYANO_NODES, start=1):
            found[bits] = _average_nodes(settings, positions, depth, bits, "negascout")
            bar.update(done)
        alphabeta = _average_nodes(settings, positions, depth, max(found), "alphabeta") / found[max(found)]
    rows = [(f"2^{bits}", *_size_cells(found, bits), *_size_cells(KEYANO_NODES, bits)) for bits in KEYANO_NODES]
    rows.append(("αβ for NegaScout", "", f"{alphabeta - 1:+.1%}", "", f"{KEYANO_ALPHABETA - 1:+.0%}"))
    header = ("entries", f"nodes, depth {depth}", "over 2^20", "KEYANO: nodes, depth 10", "over 2^20")
    return Report(
        value=found[min(found)] / found[max(found)] - 1,
        unit="nodes with 2^10 entries over those with 2^20",
        markdown=markdown_table(header, rows),
        values={"average_nodes": found, "alphabeta_over_negascout": alphabeta},
        parameters={"depth": depth, "positions": len(positions), "probcut": False} | settings.describe_evaluator(),
    )


def _size_cells(nodes: dict[int, Any], bits: int) -> tuple[str, str]:
    return f"{nodes[bits]:,.0f}", f"{nodes[bits] / nodes[max(nodes)] - 1:+.2%}"


# --- the tournament report, Figure 1 ---------------------------------------------------------------------------------

FIGURE_DEPTH, FIGURE_OPPONENT_DEPTH = 6, 4
FIGURE_SEED = 2004
FIGURE_OPENING_PLIES = 4
BIN = 8  # discs
DRIVERS: dict[Driver, str] = {"alphabeta": "αβ", "negascout": "NegaScout", "mtdf": "MTD(f)"}
REPORT_TABLE = TABLE_CUTS | TABLE_MOVE
# Nothing; the report's table with its best move first; all that our search has, iterative deepening included.
VARIANTS = {"plain": 0, "table": REPORT_TABLE, "full": EVERYTHING}


def _greedy_games(count: int) -> list[list[Position]]:
    """Positions that a disc counter of depth 6 had to move in, against one of depth 4, game by game."""
    engine = warmed(Engine(_disc_counter(), Options(table_mb=4)))
    games = []
    for number, opening in enumerate(random_openings(FIGURE_OPENING_PLIES, count, FIGURE_SEED)):
        position, positions = opening.position, []
        engine.clear()
        while position.empties > FIGURE_DEPTH + 1 and not position.is_over:
            if position.must_pass:
                position = position.play(PASS)
                continue
            ours = position.black_to_move == (number % 2 == 0)
            if ours:
                positions.append(position)
            depth = FIGURE_DEPTH if ours else FIGURE_OPPONENT_DEPTH
            position = after_best(engine, position, depth)
        games.append(positions)
    return games


def _disc_counter():
    return weighted_squares("discs", [1.0] * 64)


def _figure_nodes(evaluator, games: list[list[Position]], driver: Driver, variant: str) -> dict[int, list[int]]:
    """Nodes of each search, by bin of discs. The table lasts for a game, as in the report."""
    switches = VARIANTS[variant] | NULL_WINDOWS
    engine = warmed(BareEngine(evaluator, Options(search=driver, table_mb=48, probcut=False, switches=switches)))
    nodes: dict[int, list[int]] = {}
    for positions in games:
        engine.clear()
        for position in positions:
            if variant == "full":
                result = engine.search(position, Limit(depth=FIGURE_DEPTH))
            else:
                result = engine.search_at(position, FIGURE_DEPTH)
            nodes.setdefault((64 - position.empties) // BIN * BIN, []).append(result.nodes)
    return nodes


def _figure_table(found: dict[tuple[str, Driver], dict[int, list[int]]], caption: str) -> str:
    bins = sorted({start for nodes in found.values() for start in nodes})
    rows = [
        (f"{start}–{start + BIN - 1}", *(f"{statistics.mean(nodes[start]):,.0f}" for nodes in found.values()))
        for start in bins
    ]
    rows.append(("**all**", *(f"**{_mean_all(nodes):,.0f}**" for nodes in found.values())))
    plain = _mean_all(found["plain", "alphabeta"])
    rows.append(("of plain αβ", *(f"{_mean_all(nodes) / plain:.0%}" for nodes in found.values())))
    header = ("discs", *(f"{DRIVERS[driver]} {variant}" for variant, driver in found))
    return markdown_table(header, rows, caption)


def _mean_all(nodes: dict[int, list[int]]) -> float:
    return statistics.mean(value for values in nodes.values() for value in values)


@benchmark(
    "report-figure1", "the tournament report's Figure 1: αβ, NegaScout, MTD(f) with and without table and ordering"
)
def report_figure1(settings: Settings) -> Report:
    games = _greedy_games(settings.size(10, 1))
    trained = f"evaluator {settings.describe_evaluator()['evaluator']}"
    evaluators = {"disc counter": _disc_counter(), trained: settings.evaluator}
    cases = [(variant, driver) for variant in VARIANTS for driver in DRIVERS]
    tables, means = [], {}
    with progress("searching", len(evaluators) * len(cases)) as bar:
        for place, (name, evaluator) in enumerate(evaluators.items()):
            found = {}
            for done, (variant, driver) in enumerate(cases, start=1):
                found[variant, driver] = _figure_nodes(evaluator, games, driver, variant)
                bar.update(place * len(cases) + done)
            tables.append(_figure_table(found, f"Nodes of a depth-{FIGURE_DEPTH} search, {name}:"))
            means[name] = {f"{driver} {variant}": _mean_all(nodes) for (variant, driver), nodes in found.items()}
    return Report(
        value=means["disc counter"]["mtdf plain"] / means["disc counter"]["alphabeta plain"],
        unit="nodes of plain MTD(f) over plain αβ, disc counter",
        markdown="\n\n".join(tables),
        values={"mean_nodes": means},
        parameters={"depth": FIGURE_DEPTH, "games": len(games), "positions": sum(map(len, games)), "seed": FIGURE_SEED}
        | settings.describe_evaluator(),
    )


# --- the tournament report: passes and deepening ---------------------------------------------------------------------

CHOICES = {
    "a pass is free, every depth (ours)": 0,
    "a pass costs a ply": PASS_COSTS,
    "every second depth": TWO_PLIES,
    "both (the report)": PASS_COSTS | TWO_PLIES,
}


def _choice_searches(evaluator, games: list[list[Position]], driver: Driver, choice: int) -> list[list[Result]]:
    """The iterations of each search; the table lasts for a game."""
    switches = EVERYTHING | choice
    engine = warmed(Engine(evaluator, Options(search=driver, table_mb=48, probcut=False, switches=switches)))
    searches = []
    for positions in games:
        engine.clear()
        for position in positions:
            iterations: list[Result] = []
            engine.search(position, Limit(depth=FIGURE_DEPTH), iterations.append)
            searches.append(iterations)
    return searches


def _mean_change(searches: list[list[Result]]) -> float:
    """By how many discs a value differs from that of the iteration before."""
    pairs = (pair for iterations in searches for pair in itertools.pairwise(iterations))
    return statistics.mean(abs(later.raw_score - earlier.raw_score) for earlier, later in pairs)


@benchmark("report-choices", "the tournament report's search: a pass costs a ply, only every second depth is searched")
def report_choices(settings: Settings) -> Report:
    games = _greedy_games(settings.size(10, 1))
    trained = f"evaluator {settings.describe_evaluator()['evaluator']}"
    tables: list[str] = []
    values: dict[str, dict[str, dict[str, float]]] = {}
    for name, evaluator in {"disc counter": _disc_counter(), trained: settings.evaluator}.items():
        values[name], moves = {}, {}
        for line, choice in CHOICES.items():
            found = {driver: _choice_searches(evaluator, games, driver, choice) for driver in DRIVERS}
            nodes = {driver: statistics.mean(one[-1].nodes for one in searches) for driver, searches in found.items()}
            moves[line] = [one[-1].move for one in found["negascout"]]
            same = statistics.mean(a == b for a, b in zip(moves[line], next(iter(moves.values())), strict=True))
            values[name][line] = nodes | {"change": _mean_change(found["negascout"]), "same_move": same}
        rows = [
            (line, *(f"{item[driver]:,.0f}" for driver in DRIVERS), f"{item['change']:.2f}", f"{item['same_move']:.1%}")
            for line, item in values[name].items()
        ]
        caption = f"Searches of depth {FIGURE_DEPTH}, all iterations counted, {name}:"
        header = ("", *(f"{word}, nodes" for word in DRIVERS.values()), "value changes by, discs", "move as ours")
        tables.append(markdown_table(header, rows, caption))
    ours, report = (values["disc counter"][line]["negascout"] for line in (next(iter(CHOICES)), "both (the report)"))
    return Report(
        value=report / ours,
        unit="nodes of the report's NegaScout over ours, disc counter",
        markdown="\n\n".join(tables),
        values=values,
        parameters={"depth": FIGURE_DEPTH, "games": len(games), "positions": sum(map(len, games)), "seed": FIGURE_SEED}
        | settings.describe_evaluator(),
    )


# --- IAGO, Table 4-1 -------------------------------------------------------------------------------------------------

IAGO_DEPTH = 8
RAW_DEPTH = 6  # plies over which the unpruned branching factor is counted
SAVED = (0, 1, 3)
RATED = "response killers"
IAGO_ORDERS: dict[str, tuple[int, RootOrder]] = {
    "move generation": (0, "generated"),
    "square value": (SQUARE_ORDER, "square"),
    "killers by move number": (KILLER_MOVES, "last best"),
    RATED: (RATED_RESPONSES, "last best"),
    "response killers, ours": (RESPONSE_ORDER, "last best"),
}
IAGO_FACTORS = {
    0: ("5.6 (1.3)", "5.4 (1.8)", "4.4 (0.8)", "4.2 (0.8)"),
    1: ("5.5 (1.2)", "5.1 (1.6)", "4.5 (0.8)", "4.3 (0.9)"),
    3: ("4.7 (0.9)", "4.4 (1.0)", "4.2 (0.7)", "4.1 (0.8)"),
}
IAGO_MINIMUM = "3.9 (0.8)"
OUR_ORDER = TABLE_MOVE | KILLER_MOVES | MOBILITY_ORDER | EVALUATOR_ORDER


def branching_factor(nodes: int, depth: int) -> float:
    """The branching of the uniform tree of this depth with so many nodes below its root."""
    low, high = 1.0, float(nodes)
    for _ in range(100):
        middle = (low + high) / 2
        if sum(middle**ply for ply in range(1, depth + 1)) < nodes:
            low = middle
        else:
            high = middle
    return low


def minimal_factor(position: Position, depth: int) -> float:
    """The least that αβ can attain (Slagle and Dixon): leaves of the minimal tree, given the unpruned branching."""
    leaves = board.perft(np.uint64(position.mover), np.uint64(position.opponent), np.int64(RAW_DEPTH))
    raw = leaves ** (1 / RAW_DEPTH)
    return (raw ** -(-depth // 2) + raw ** (depth // 2) - 1) ** (1 / depth)


def _factor_cell(factors: list[float]) -> str:
    return f"{statistics.mean(factors):.2f} ({statistics.stdev(factors):.2f})"


def _order_engine(settings: Settings, switches: int, search: Driver = "alphabeta") -> BareEngine:
    options = Options(search=search, table_mb=settings.table_mb or 48, probcut=False, switches=switches)
    return warmed(BareEngine(settings.evaluator, options))


def _two_plies_on(settings: Settings, positions: list[Position], depth: int, kept: bool) -> list[float]:
    """Branching factors of the player's next search, with the ratings of the one before or with none."""
    switches, order = IAGO_ORDERS[RATED]
    engine, guide = _order_engine(settings, switches | TABLE_MOVE), _order_engine(settings, EVERYTHING, "negascout")
    found = []
    for position in positions:
        engine.clear()
        engine.deepen(position, depth, max(SAVED), order)
        guide.clear()
        later = after_best(guide, after_best(guide, position, depth), depth)
        engine.table.clear() if kept else engine.clear()
        found.append(branching_factor(engine.deepen(later, depth, max(SAVED), order), depth))
    return found


@benchmark("iago-table4-1", "IAGO's Table 4-1: branching factor by plies of the tree saved and ordering of the rest")
def iago_table(settings: Settings) -> Report:
    positions, depth = shipped_positions("stages.obf"), settings.size(IAGO_DEPTH, 4)

    def factors(engine: BareEngine, saved: int, order: RootOrder) -> list[float]:
        found = []
        for position in positions:
            engine.clear()
            found.append(branching_factor(engine.deepen(position, depth, saved, order), depth))
        return found

    measured: dict[tuple[int, str], list[float]] = {}
    with progress("searching", len(SAVED) * len(IAGO_ORDERS)) as bar:
        for saved in SAVED:
            for name, (switches, order) in IAGO_ORDERS.items():
                measured[saved, name] = factors(_order_engine(settings, switches | TABLE_MOVE), saved, order)
                bar.update(len(measured))
    minimum = [minimal_factor(position, depth) for position in positions]
    ours = factors(_order_engine(settings, OUR_ORDER), depth, "last best")
    cutting = factors(_order_engine(settings, EVERYTHING, "negascout"), depth, "last best")
    forgotten, halved = (_two_plies_on(settings, positions, depth, kept) for kept in (False, True))

    rows = []
    for saved in SAVED:
        printed = (*(f" · {factor}" for factor in IAGO_FACTORS[saved]), "")
        cells = (_factor_cell(measured[saved, name]) + his for name, his in zip(IAGO_ORDERS, printed, strict=True))
        rows.append((f"{saved} {'ply' if saved == 1 else 'plies'} saved", *cells))
    blank = [""] * (len(IAGO_ORDERS) - 1)
    rows.append(("minimal attainable", f"{_factor_cell(minimum)} · {IAGO_MINIMUM}", *blank))
    rows.append(("our ordering, αβ without table cuts", f"{_factor_cell(ours)}", *blank))
    rows.append(("our whole search, NegaScout", f"{_factor_cell(cutting)}", *blank))
    means = {f"{name}, {saved} saved": statistics.mean(found) for (saved, name), found in measured.items()}
    means |= {"minimum": statistics.mean(minimum), "ours": statistics.mean(ours), "search": statistics.mean(cutting)}
    means |= {"two plies on, forgotten": statistics.mean(forgotten), "two plies on, halved": statistics.mean(halved)}
    table = markdown_table((f"depth {depth}: ours · IAGO's", *IAGO_ORDERS), rows)
    later = (
        f"Two plies later in the game, {max(SAVED)} plies saved: {_factor_cell(halved)} with the ratings of the search "
        f"before, halved; {_factor_cell(forgotten)} without them."
    )
    return Report(
        value=means["ours"],
        unit="branching factor",
        markdown=f"{table}\n\n{later}",
        values={"means": means},
        parameters={"depth": depth, "positions": len(positions), "probcut": False} | settings.describe_evaluator(),
    )
