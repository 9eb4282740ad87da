"""Results corrected by the solver: what a game was worth from some number of empties on, whatever was played then.

"In games between poor opponents, the winner is usually the person who makes the second-to-last game-theoretic mistake"
(Brockington 1997): a result says more about a position if the end is played as well as possible. A game is followed to
the first position with N empties, and that is solved. ``Game.theoretical_result`` holds what was found, as in WTHOR's
files; the moves and the result on the board stay what they were.

Each position is solved once, its images too. What is solved is written down at once (``Solutions``), so that work that
was stopped, by Ctrl-C or ``kill -9``, is not done again.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from othello_nn.book.canonical import Key, canonical, position_of
from othello_nn.engine import Engine, Limit, Options
from othello_nn.errors import OthelloError
from othello_nn.game.notation import move_name, parse_move
from othello_nn.game.position import Position, complete_moves
from othello_nn.game.record import Game
from othello_nn.game.rules import PASS, SYMMETRIES
from othello_nn.locked import InUseError, LockedLines

FORMAT = "othello_nn solved 1"
TABLE_MB = 16.0
SYNC_SECONDS = 2.0
"""A power cut loses what was solved in so much time; a killed process loses nothing."""
STOP_SECONDS = 0.02
# Not every system lets Ctrl-C end a wait that has no end of its own.
WAKE_SECONDS = 0.5


class SolutionsError(OthelloError):
    """A journal of solved positions that cannot be gone on with."""


@dataclass(frozen=True)
class Solved:
    """The exact score in discs for the side to move, and a move that reaches it; PASS if the game is over."""

    score: int
    move: int


# --- the journal -----------------------------------------------------------------------------------------------------


class Solutions:
    """Solved positions by their keys (``book/canonical.py``), in memory and, with a path, in a file of JSON lines.

    A solution is true whatever it was needed for, so the file may be taken up with other games or another N.
    """

    def __init__(self, path: Path | None = None):
        self._known: dict[Key, Solved] = {}
        self._lock, self._file = threading.Lock(), None
        self._synced = time.monotonic()
        self.path = path
        if path is None:
            return
        try:
            self._file = LockedLines(path)
            self._take_up(self._file)
        except InUseError:
            raise SolutionsError(f"{str(path)!r} is in use: another process corrects the same games") from None
        except OSError as error:
            raise SolutionsError(f"{str(path)!r} cannot be used: {error.strerror or error}") from None
        except BaseException:
            self.close()
            raise

    def _take_up(self, file: LockedLines) -> None:
        data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        if not whole and not _HEADER.startswith(data):
            raise SolutionsError(f"{str(self.path)!r} is no journal of solved positions; move it out of the way")
        for number, line in enumerate(whole.split(b"\n")[:-1], start=1):
            try:
                fields = json.loads(line)
                if number == 1:
                    if fields != {"format": FORMAT}:
                        raise ValueError
                    continue
                key, solved = _read_line(fields)
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
                what = "no journal of solved positions" if number == 1 else f"line {number} is no solved position"
                raise SolutionsError(f"{str(self.path)!r}: {what}; remove the file to begin again") from None
            self._known[key] = solved
        if len(whole) < len(data):
            file.keep(len(whole))

    def __len__(self) -> int:
        return len(self._known)

    def get(self, position: Position) -> Solved | None:
        """What is known of a position, or of an image of it."""
        key, k = canonical(position)
        found = self._known.get(key)
        if found is None or found.move == PASS:
            return found
        return Solved(found.score, SYMMETRIES[k].index(found.move))

    def add(self, position: Position, score: int, move: int) -> None:
        """May be called from any thread."""
        key, k = canonical(position)
        solved = Solved(score, move if move == PASS else SYMMETRIES[k][move])
        with self._lock:
            self._known[key] = solved
            if self._file is None:
                return
            fields = {"position": position_of(key).to_text(), "score": score, "move": move_name(solved.move)}
            due = time.monotonic() - self._synced >= SYNC_SECONDS
            try:
                self._file.append(json.dumps(fields).encode() + b"\n", _HEADER, sync=due)
            except OSError as error:
                raise SolutionsError(f"{str(self.path)!r} cannot be written: {error.strerror or error}") from None
            if due:
                self._synced = time.monotonic()

    def remove(self) -> None:
        """Remove the file: what it was for is done."""
        if self._file is not None:
            self._file.remove()

    def close(self) -> None:
        """Let others have the file. May be called again."""
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Solutions:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_HEADER = json.dumps({"format": FORMAT}).encode() + b"\n"


def _read_line(fields: dict[str, Any]) -> tuple[Key, Solved]:
    """A line as ``Solutions.add`` writes it; whatever is not of the right kind is an error."""
    position, score = Position.parse(fields["position"]), fields["score"]
    key, _ = canonical(position)
    move = parse_move(fields["move"])
    if position_of(key) != position or type(score) is not int or not -64 <= score <= 64:
        raise ValueError
    if not position.is_over:
        position.play(move)  # an error unless it is legal
    return key, Solved(score, move)


# --- games -----------------------------------------------------------------------------------------------------------


def point_of(game: Game, empties: int) -> Position | None:
    """The first position of a game with at most so many empties, after a pass that is due there; None if the game
    stopped before. A game that was over before has its last position."""
    squares = max(0, game.start.empties - empties)
    if game.start.empties - game.final.empties < squares:
        return game.final if game.final.is_over else None
    played, count = 0, 0
    while count < squares:
        count += game.moves[played] != PASS
        played += 1
    position = complete_moves(game.start, game.moves[:played])[1]
    return position.play(PASS) if position.must_pass else position


def corrected(game: Game, empties: int, solutions: Solutions) -> Game | None:
    """The game with its exact result from so many empties on; None if it stopped before."""
    point = point_of(game, empties)
    if point is None:
        return None
    score = solved_at(point, solutions).score
    margin = score if point.black_to_move else -score
    return replace(game, theoretical_result=margin, theoretical_empties=point.empties)


def cut_short(game: Game) -> Game:
    """A corrected game that ends where it was solved, with the exact result as its result: for programs that know
    nothing of exact results."""
    assert game.theoretical_empties is not None
    played, left = 0, game.start.empties - game.theoretical_empties
    while left:
        left -= game.moves[played] != PASS
        played += 1
    return replace(
        game,
        moves=game.moves[:played],
        notes=game.notes[:played],
        result=game.theoretical_result,
        ending="",
    )


def solved_at(position: Position, solutions: Solutions) -> Solved:
    """What is known of a position that was to be solved."""
    if position.is_over:
        return Solved(position.final_score(), PASS)
    found = solutions.get(position)
    assert found is not None, "it was not solved"
    return found


def unsolved(games: Sequence[Game], empties: int, solutions: Solutions) -> list[Position]:
    """The positions that have to be solved, each once, and none that is known."""
    found: dict[Key, Position] = {}
    for game in games:
        point = point_of(game, empties)
        if point is not None and not point.is_over and solutions.get(point) is None:
            found.setdefault(canonical(point)[0], point)
    return list(found.values())


def solve_all(positions: Sequence[Position], solutions: Solutions, evaluator: Any, jobs: int = 1) -> Generator[int]:
    """Solve positions in as many threads as there are jobs, and tell how many are done after each.

    ``evaluator`` orders moves. Whoever stops listening, or presses Ctrl-C, ends the solving at hand.
    """
    solver = _Solver(evaluator, solutions)
    solver.warm_up()
    pool = ThreadPoolExecutor(jobs, thread_name_prefix="solve")
    ended: queue.SimpleQueue[Future[None]] = queue.SimpleQueue()
    futures = [pool.submit(solver.solve, position) for position in positions]
    for future in futures:
        future.add_done_callback(ended.put)
    done = 0
    try:
        while done < len(futures):
            with suppress(queue.Empty):
                ended.get(timeout=WAKE_SECONDS).result()
                done += 1
                yield done
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        solver.stop(futures)
        pool.shutdown()


class _Solver:
    """An engine for each thread."""

    def __init__(self, evaluator: Any, solutions: Solutions):
        self._evaluator, self._solutions = evaluator, solutions
        self._mine = threading.local()
        self._engines: list[Engine] = []
        self._stopping = threading.Event()

    def _engine(self) -> Engine:
        engine = getattr(self._mine, "engine", None)
        if engine is None:
            engine = self._mine.engine = Engine(self._evaluator, Options(table_mb=TABLE_MB))
            self._engines.append(engine)
        return engine

    def warm_up(self) -> None:
        """Compile now what all threads share."""
        Engine(self._evaluator, Options(table_mb=1.0)).search(Position.start(), Limit(depth=1))

    def solve(self, position: Position) -> None:
        if self._stopping.is_set():
            return
        result = self._engine().solve(position)
        if result.exact and result.move is not None:  # else it was stopped
            self._solutions.add(position, int(result.score), int(result.move))

    def stop(self, futures: Sequence[Future[None]]) -> None:
        """End what is at work. A search may begin just after its engine was told to stop, so tell it again."""
        self._stopping.set()
        while any(one.running() for one in futures):
            for engine in list(self._engines):
                engine.stop()
            time.sleep(STOP_SECONDS)
