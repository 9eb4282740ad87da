"""The commands about positions: ``solve``, ``bestmove`` and ``perft``."""

from __future__ import annotations

import json
import random
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

from othello_nn.cli.base import INTERRUPTED, Failure, UsageError
from othello_nn.game.formats.files import read_obf
from othello_nn.game.formats.obf import ObfEntry, parse_obf
from othello_nn.game.notation import move_name
from othello_nn.game.position import Position
from othello_nn.game.rules import PASS
from othello_nn.players.base import Choice, Player
from othello_nn.players.catalog import best_player_name, make_player
from othello_nn.players.spec import parse_spec
from othello_nn.program import PLAY, note
from othello_nn.progress import Progress, progress
from othello_nn.resources import BEST, find_net

BESTMOVE_SECONDS = 1.0
# Perft counts in pieces of this depth, a tenth of a second each, so that it can show progress and be interrupted.
PERFT_PIECE = 10
MAX_PERFT = 40


def read_position(words: list[str]) -> Position:
    """A position from one or several words of the command line."""
    text = " ".join(words).strip()
    if not text:
        raise UsageError("no position is given: write start, moves such as f5d6, or 64 signs and the side to move")
    return Position.parse(text)


def default_player() -> str:
    """The best player at hand; if that is not the one that should be there, a note says so."""
    name = best_player_name()
    if name != BEST:
        print(f"note: checkpoints/{BEST}.safetensors is not there; using {name!r}", file=sys.stderr)
    return name


def _names(moves: tuple[int, ...]) -> list[str]:
    return [move_name(move) for move in moves]


def _whole_if_possible(score: float | None) -> float | int | None:
    return int(score) if score is not None and score == int(score) else score


def _score_text(score: float | None) -> str:
    return "-" if score is None else f"{score:+.0f}" if score == int(score) else f"{score:+.2f}"


def _speed(nodes: int, seconds: float) -> str:
    return f"{nodes / max(seconds, 1e-9) / 1e6:.1f} Mn/s"


def _json_line(fields: dict[str, Any]) -> None:
    print(json.dumps(fields), flush=True)


# --- solve -----------------------------------------------------------------------------------------------------------


def solve(arguments: Namespace) -> int:
    """``play.py solve``."""
    source = arguments.file
    if arguments.position == ["-"] and source is None:
        source, arguments.position = "-", []
    if source is not None and arguments.position:
        raise UsageError("give a position or --file, not both")
    # What the user wrote is checked before the engine is loaded.
    entries = [ObfEntry(read_position(arguments.position))] if source is None else _read_entries(source)
    solver = _Solver(arguments)
    return solver.one(entries[0]) if source is None else solver.many(entries)


def _read_entries(source: str) -> list[ObfEntry]:
    try:
        entries = parse_obf(sys.stdin.read()) if source == "-" else read_obf(source)
    except OSError as error:
        raise UsageError(f"{source!r} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UsageError("stdin is not text") from None
    if not entries:
        raise UsageError(f"{'stdin' if source == '-' else repr(source)} holds no positions")
    return entries


class _Solver:
    """An engine set up as the command line says, and the ways to show what it finds."""

    def __init__(self, arguments: Namespace):
        from othello_nn.engine import Engine, Limit, Options

        self.arguments = arguments
        self.engine = Engine(best_evaluator(), Options(threads=arguments.threads, table_mb=arguments.table_mb))
        self.engine.search(Position.start(), Limit(depth=1))  # compiled now: the times shown are of solving alone
        self.engine.clear()
        self.limit = None if arguments.seconds is None else Limit(seconds=arguments.seconds)

    def run(self, entry: ObfEntry, bar: Progress, text: str):
        def report(result) -> None:
            bar.update(text=f"{text} depth {result.depth}, {result.nodes / 1e6:,.0f} million nodes")

        return self.engine.solve(entry.position, wld=self.arguments.wld, limit=self.limit, on_iteration=report)

    def one(self, entry: ObfEntry) -> int:
        with progress("solving") as bar:
            result = self.run(entry, bar, "solving:")
        if self.arguments.json:
            _json_line(self.fields(entry, result))
        else:
            outcome = _outcome(result)
            best = "the game is over" if result.move is None else f"best {move_name(result.move)}"
            print(f"{outcome}, {best}{'' if result.exact else ' (not solved: an estimate)'}")
            if result.pv:
                print(f"line {' '.join(_names(result.pv))}")
            print(
                f"{entry.position.empties} empties, {result.nodes:,} nodes, {result.seconds:.3f} s, "
                f"{_speed(result.nodes, result.seconds)}"
            )
        if not result.exact:
            raise Failure(f"not solved within {self.arguments.seconds} seconds")
        return 0

    def many(self, entries: list[ObfEntry]) -> int:
        verdicts: list[bool | None] = []
        nodes, seconds, interrupted = 0, 0.0, False
        if not self.arguments.json:
            print("   #  empties  score  best        nodes   seconds   Mn/s  check", flush=True)
        # Beside a bar on the same terminal long lines are wrapped, which JSON does not survive.
        with progress("solving", len(entries), quiet=self.arguments.json and sys.stdout.isatty()) as bar:
            try:
                for number, entry in enumerate(entries, start=1):
                    self.engine.clear()  # each position on its own, whatever came before
                    result = self.run(entry, bar, f"position {number}:")
                    right = is_right(entry, result, self.arguments.wld)
                    verdicts.append(right)
                    nodes, seconds = nodes + result.nodes, seconds + result.seconds
                    self.show(number, entry, result, right)
                    bar.update(done=number)
            except KeyboardInterrupt:
                interrupted = True
        right_count, wrong_count = verdicts.count(True), verdicts.count(False)
        if not self.arguments.json:
            unchecked = verdicts.count(None)
            print(
                f"{len(verdicts)} positions: {right_count} right, {wrong_count} wrong"
                f"{f', {unchecked} without a listed score' if unchecked else ''}; "
                f"{nodes:,} nodes, {seconds:.3f} s, {_speed(nodes, seconds)}"
            )
        if interrupted:
            note(PLAY, f"interrupted after {len(verdicts)} of {len(entries)} positions")
            return INTERRUPTED
        return 1 if wrong_count else 0

    def show(self, number: int, entry: ObfEntry, result, right: bool | None) -> None:
        if self.arguments.json:
            _json_line(self.fields(entry, result) | {"right": right, "number": number})
            return
        best = "-" if result.move is None else move_name(result.move)
        check = {True: "right", False: f"wrong: {_listed(entry)}" if result.exact else "not solved", None: ""}[right]
        speed = result.nodes / max(result.seconds, 1e-9) / 1e6
        print(
            f"{number:4d}  {entry.position.empties:7d}  {_score_text(result.score):>5s}  {best:>4s}  "
            f"{result.nodes:11,d}  {result.seconds:8.3f}  {speed:5.1f}  {check}".rstrip(),
            flush=True,
        )

    def fields(self, entry: ObfEntry, result) -> dict[str, Any]:
        return {
            "position": entry.position.to_text(),
            "empties": entry.position.empties,
            "score": _whole_if_possible(result.score),
            "best": None if result.move is None else move_name(result.move),
            "pv": _names(result.pv),
            "nodes": result.nodes,
            "seconds": result.seconds,
            "exact": result.exact,
            "wld": self.arguments.wld,
        }


def best_evaluator():
    """What guides the solver: it orders moves, and the result is exact with any evaluator."""
    from othello_nn.engine.leaf.mobility import Mobility
    from othello_nn.players.searching import table_evaluator

    name = default_player()
    return table_evaluator(find_net(BEST)) if name == BEST else Mobility()


def is_right(entry: ObfEntry, result, wld: bool) -> bool | None:
    """Whether a result is the listed one; None if nothing is listed. A position that was not solved is not right."""
    best = entry.best_score
    if not result.exact:
        return False
    if best is None:
        return None
    if not wld:
        return result.score == best and result.move in entry.best_moves
    # Any move that keeps the result is as good; one that is not listed cannot be judged.
    return result.score == sign_of(best) and sign_of(entry.scores.get(result.move, best)) == sign_of(best)


def sign_of(score: float) -> int:
    return (score > 0) - (score < 0)


def _listed(entry: ObfEntry) -> str:
    return f"{_score_text(entry.best_score)} with {', '.join(_names(tuple(sorted(entry.best_moves))))} is listed"


def _outcome(result) -> str:
    if result.wld and result.exact:
        return {1: "win", 0: "draw", -1: "loss"}[int(result.score)]
    return f"score {_score_text(result.score)}"


# --- bestmove --------------------------------------------------------------------------------------------------------


def bestmove(arguments: Namespace) -> int:
    """``play.py bestmove``."""
    position = read_position(arguments.position)
    spec = parse_spec(default_player() if arguments.player is None else arguments.player)
    player = make_player(spec, random.Random(arguments.seed), seconds=BESTMOVE_SECONDS)
    choice, interrupted = _ask(player, position)
    if arguments.json:
        _json_line(_choice_fields(choice) | {"position": position.to_text(), "player": player.name})
    else:
        _show_choice(choice, player.name)
    return INTERRUPTED if interrupted else 0


def _ask(player: Player, position: Position) -> tuple[Choice, bool]:
    """The player's choice, and whether Ctrl-C cut it short: then it is the best found until then."""
    found: list[Choice] = []
    with progress("thinking") as bar:
        if hasattr(player, "on_iteration"):
            from othello_nn.players.searching import choice_of

            def report(result) -> None:
                found.append(choice_of(result))
                move = move_name(result.move)
                bar.update(text=f"thinking: {move} {_score_text(result.score)} at depth {result.depth}")

            player.warm_up()
            player.on_iteration = report
        try:
            return player.choose(position), False
        except KeyboardInterrupt:
            if not found:
                raise
            return found[-1], True


def _choice_fields(choice: Choice) -> dict[str, Any]:
    return {
        "move": None if choice.move is None else move_name(choice.move),
        "score": _whole_if_possible(choice.score),
        "exact": choice.exact,
        "depth": choice.depth,
        "pv": _names(choice.pv),
        "nodes": choice.nodes,
        "seconds": choice.seconds,
    }


def _show_choice(choice: Choice, name: str) -> None:
    if choice.move is None:
        print(f"the game is over, {_score_text(choice.score)} for the side to move")
        return
    score = "" if choice.score is None else f"  score {_score_text(choice.score)}{' (exact)' if choice.exact else ''}"
    print(f"{move_name(choice.move)}{score}")
    if choice.pv:
        print(f"line {' '.join(_names(choice.pv))}")
    if choice.nodes:
        speed = f", {_speed(choice.nodes, choice.seconds)}" if choice.seconds else ""
        print(f"{name}, depth {choice.depth}, {choice.nodes:,} nodes, {choice.seconds:.3f} s{speed}")


# --- perft -----------------------------------------------------------------------------------------------------------


def perft(arguments: Namespace) -> int:
    """``play.py perft``."""
    if arguments.depth > MAX_PERFT:
        raise UsageError(f"depth {arguments.depth} would take for ever; {MAX_PERFT} is the most that can be asked for")
    position = read_position(arguments.position or ["start"])
    import numpy as np

    from othello_nn.kernels import board

    def count(piece: Position, depth: int) -> int:
        return int(board.perft(np.uint64(piece.mover), np.uint64(piece.opponent), np.int64(depth)))

    leaves, started = 0, time.perf_counter()
    ahead = max(0, arguments.depth - PERFT_PIECE)
    with progress("counting") as bar:
        for piece, depth in _pieces(position, arguments.depth, ahead):
            leaves += 1 if depth is None else count(piece, depth)
            bar.update(text=f"counting: {leaves:,}")
    seconds = time.perf_counter() - started
    speed = leaves / max(seconds, 1e-9)
    if arguments.json:
        figures = {"depth": arguments.depth, "nodes": leaves, "seconds": seconds, "leaves_per_second": speed}
        _json_line(figures | {"position": position.to_text()})
    else:
        print(f"perft {arguments.depth}: {leaves:,} leaves, {seconds:.3f} s, {speed / 1e6:,.1f} million leaves/s")
    return 0


def _pieces(position: Position, depth: int, ahead: int) -> Iterator[tuple[Position, int | None]]:
    """The positions ``ahead`` plies on, with the depth left there; None where the game is over, which is one leaf."""
    if ahead == 0:
        yield position, depth
    elif position.is_over:
        yield position, None
    else:
        for move in position.legal_moves or (PASS,):
            yield from _pieces(position.play(move), depth - 1, ahead - 1)
