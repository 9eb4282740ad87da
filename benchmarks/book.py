"""The opening book at a million positions, what it is worth, and under kill −9."""

from __future__ import annotations

import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness import ROOT, Report, Settings, benchmark, markdown_table
from othello_nn.arena.match import MatchResult, play_match
from othello_nn.arena.openings import Opening
from othello_nn.book import Book, Judgement
from othello_nn.book.canonical import Key, canonical, canonical_masks, children, discs_of, position_of
from othello_nn.book.store import Node, Store
from othello_nn.game.position import Position
from othello_nn.resources import BEST, BOOK, CHECKPOINTS

POSITIONS, ASKED, OPENED = 1_000_000, 2_000, 5
KILLS, GAME_PLIES = 50, 24
MATCHES = {"6 to 8": (6, 8), "9 to 11": (9, 11), "12 to 15": (12, 15)}
"""Where the matches begin: all positions of the book with so many discs, but no more than ``MOST_OPENINGS`` of them."""
MATCH_DEPTHS, MOST_OPENINGS, BALANCE = (4, 8), 250, 6.0
OPEN_BAR, ANSWER_BAR = 0.2, 1e-3
OPENING = """
import json, sys, time
from othello_nn.book import OpenBook
from othello_nn.book.canonical import position_of
keys = [bytes.fromhex(key) for key in json.load(open(sys.argv[2]))]
begun = time.perf_counter()
book = OpenBook(sys.argv[1])
assert book.best(position_of(keys[-1]))
opened = time.perf_counter() - begun
best, all_moves = [], []
for key in keys:
    for times, ask in ((best, book.best), (all_moves, book.moves)):
        position, begun = position_of(key), time.perf_counter()
        assert ask(position)
        times.append(time.perf_counter() - begun)
print(json.dumps([opened, best, all_moves]))
"""
WRITING = "import sys; from benchmarks.book import write; write(sys.argv[1], int(sys.argv[2]))"


# --- a million positions ---------------------------------------------------------------------------------------------


def random_line(rng: random.Random, plies: int) -> list[Position]:
    """The positions of a game by chance."""
    line = [Position.start()]
    while len(line) <= plies and (moves := line[-1].legal_moves):
        line.append(line[-1].play(rng.choice(moves)))
    return line


def fill(path: Path, count: int) -> list[Key]:
    """A book of so many positions; those among them that were played and have a move, for questions.

    Most are boards by chance, which nobody has to play: what a file costs depends on how many there are.
    """
    rng = random.Random(0)
    played = {canonical(p)[0] for _ in range(count // 500) for p in random_line(rng, 30) if p.legal_mask}
    keys = set(played)
    while len(keys) < count:
        occupied = rng.getrandbits(64) & rng.getrandbits(64)
        mover = occupied & rng.getrandbits(64)
        smallest = canonical_masks(mover, occupied ^ mover)[:2]
        keys.add(b"".join(mask.to_bytes(8, "big") for mask in smallest))
    store = Store(path, create=True)
    with store.writing():
        store.put((key, _node(key if key in played else None)) for key in sorted(keys))
    store.close()
    return rng.sample(sorted(played), min(ASKED, len(played)))


def _node(key: Key | None) -> Node:
    move = 0 if key is None else next(iter(children(key)))
    return Node(0.5, move, move, 0.5, 10)


@benchmark("book", "the opening book: a million positions opened and asked")
def book(settings: Settings) -> Report:
    count = settings.size(POSITIONS, 2_000)
    with tempfile.TemporaryDirectory() as folder:
        path, questions = Path(folder, "large.book"), Path(folder, "keys.json")
        questions.write_text(json.dumps([key.hex() for key in fill(path, count)]))
        megabytes = path.stat().st_size / 1e6
        runs = []
        for _ in range(settings.size(OPENED, 1)):
            words = [sys.executable, "-c", OPENING, str(path), str(questions)]
            done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True)
            runs.append(json.loads(done.stdout))
    opened = statistics.median(run[0] for run in runs)
    best, moves = (statistics.median(statistics.median(run[i]) for run in runs) for i in (1, 2))
    slowest = statistics.median(statistics.quantiles(run[2], n=100)[-1] for run in runs)
    rows = [
        ("opened in a new process, with its first answer", f"{opened * 1e3:.1f} ms", f"< {OPEN_BAR * 1e3:.0f} ms"),
        ("best move, median", f"{best * 1e3:.3f} ms", f"< {ANSWER_BAR * 1e3:.0f} ms"),
        ("all moves that are known, median", f"{moves * 1e3:.3f} ms", f"< {ANSWER_BAR * 1e3:.0f} ms"),
        ("all moves that are known, 99th percentile", f"{slowest * 1e3:.3f} ms", ""),
    ]
    slow = opened >= OPEN_BAR or max(best, moves) >= ANSWER_BAR
    table = markdown_table(("a book", "found", "bar"), rows, f"{count:,} positions, {megabytes:.0f} MB")
    found = {"open_seconds": opened, "best_seconds": best, "moves_seconds": moves, "moves_99_seconds": slowest}
    failure = "slower than the bar" if slow and not settings.quick else None
    return Report(opened, "s", table, found, {"positions": count, "megabytes": megabytes}, failure)


# --- what it is worth -------------------------------------------------------------------------------------------------


def openings_in_book(fewest: int, most: int, count: int) -> list[Opening]:
    """So many of the positions of the program's book with such a number of discs, nearly even ones."""
    store = Store(CHECKPOINTS / BOOK)
    nodes = sorted((key, node) for key, node in store.items() if fewest <= discs_of(key) <= most)
    store.close()
    even = [key for key, node in nodes if abs(node.value) <= BALANCE and position_of(key).legal_mask]
    return [Opening(position_of(key)) for key in random.Random(0).sample(even, min(count, len(even)))]


@benchmark("book-match", "the champion with the program's book against itself without, from positions of the book")
def book_match(settings: Settings) -> Report:
    """An opening is one draw, worth the mean of its two games: the interval is that of a mean of such draws."""
    rows, values, jobs = [], {}, os.cpu_count() or 1
    book_file = CHECKPOINTS / BOOK
    for depth in MATCH_DEPTHS[: settings.size(len(MATCH_DEPTHS), 1)]:
        for name, (fewest, most) in MATCHES.items():
            openings = openings_in_book(fewest, most, settings.size(MOST_OPENINGS, 2))
            player = f"{BEST}:depth={depth}"
            result = play_match(f"{player},book={book_file}", player, openings, jobs=1 if settings.quick else jobs)
            low, high = _interval(result)
            cells = f"{result.wins}, {result.draws}, {result.losses}", f"{result.score:.3f}", f"{low:.3f} to {high:.3f}"
            rows.append((f"`{player}`", f"{len(openings)} with {name}", *cells))
            facts = {"score": result.score, "low": low, "high": high, "games": result.games}
            values[f"depth {depth}, {name} discs"] = facts
    header = ("player", "openings, by discs", "won, drawn, lost", "score with the book", "95%")
    first = next(iter(values.values()))["score"]
    return Report(first, "score", markdown_table(header, rows), values, {"balance_discs": BALANCE})


def _interval(result: MatchResult) -> tuple[float, float]:
    points: dict[int, list[float]] = {}
    for one in result.played:  # two in a row are from one opening
        points.setdefault(one.number // 2, []).append(0.5 + 0.5 * ((one.margin > 0) - (one.margin < 0)))
    means = [statistics.mean(some) for some in points.values()]
    half = 1.96 * statistics.stdev(means) / len(means) ** 0.5 if len(means) > 1 else 0.5
    return statistics.mean(means) - half, statistics.mean(means) + half


# --- kill −9 ---------------------------------------------------------------------------------------------------------


class Material:
    """A judge that knows every value beforehand: discs after the move. Fast, so that writing is most of the work."""

    def __call__(self, position: Position, moves: Sequence[int] | None = None) -> Judgement:
        key, _ = canonical(position)
        values = {m: 0.0 - material(child) for m, child in children(key).items() if moves is None or m in moves}
        best = max(values, key=lambda move: values[move])
        return Judgement(best, values[best], 1)


def material(key: Key) -> float:
    return float(int.from_bytes(key[:8], "big").bit_count() - int.from_bytes(key[8:], "big").bit_count())


def write(path: str, seed: int) -> None:
    """Add games until somebody ends it; say so after each."""
    rng = random.Random(seed)
    with Book(path, Material()) as found:
        for number in range(10**9):
            found.add(random_line(rng, GAME_PLIES))
            os.write(1, f"{number}\n".encode())


def what_is_wrong(path: Path, seed: int, told: int) -> str:
    """What a killed writer has left behind that it should not have; nothing if all is well."""
    rng = random.Random(seed)
    games = [{canonical(p)[0] for p in random_line(rng, GAME_PLIES)} for _ in range(told + 1)]
    sure = set().union(*games[:-1])
    store = Store(path)
    try:
        nodes = dict(store.items())
        if damage := store.damage():
            return damage
        if nodes.keys() not in (sure, sure | games[-1]):
            return f"{len(sure - nodes.keys())} positions are lost, {len(nodes.keys() - sure - games[-1])} too many"
        for key in nodes:
            after = (nodes[child].value if child in nodes else material(child) for child in children(key).values())
            if nodes[key].value != max(0.0 - value for value in after):
                return "a value is not that of the best move"
    finally:
        store.close()
    return ""


@benchmark("book-kills", "kill −9 while games are added to the opening book")
def book_kills(settings: Settings) -> Report:
    kills, rng, wrong, added, journals = settings.size(KILLS, 2), random.Random(1), [], 0, 0
    for seed in range(kills):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "killed.book")
            words = [sys.executable, "-c", WRITING, str(path), str(seed)]
            writer = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE)
            assert writer.stdout is not None
            first = writer.stdout.readline()
            time.sleep(rng.random() * 0.3)
            writer.send_signal(signal.SIGKILL)
            told = len((first + writer.communicate()[0]).splitlines())
            journals += path.with_name(f"{path.name}-journal").exists()
            added += told
            if found := what_is_wrong(path, seed, told):
                wrong.append(found)
    rows = [(f"{kills}", added, journals, len(wrong), "0")]
    header = ("kill −9", "additions before", "in the middle of writing", "lost more than the last", "bar")
    values = {"added": added, "in_mid_write": journals, "wrong": wrong}
    return Report(len(wrong), "lost", markdown_table(header, rows), values, failure=wrong[0] if wrong else None)
