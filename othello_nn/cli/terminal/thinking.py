"""A player that is made, warmed up and asked in threads of its own, while the main thread keeps the keyboard.

A player that searches takes a second to load, and far longer on the very first run, when it is compiled. None of that
may keep a board from being shown, and Ctrl-C must work meanwhile.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO

from othello_nn.cli.terminal.game import COLOURS
from othello_nn.cli.web.levels import LEVELS, Level
from othello_nn.game.notation import move_name
from othello_nn.game.position import Position
from othello_nn.players.base import Choice, Line, Player, PlayerError
from othello_nn.players.catalog import make_player, player_names
from othello_nn.players.spec import LIMITS, PlayerSpec, parse_spec
from othello_nn.resources import BEST

if TYPE_CHECKING:
    from othello_nn.cli.judges import Judged
    from othello_nn.cli.web.values import Values
    from othello_nn.game.record import Game

FRIENDLY_SECONDS = 1.0
"""Time for a move of a searching player without limits: people do not wait longer, and it is strong already."""
VALUES_SECONDS = 2.0
"""For the values of all moves of a position."""
LINE_MOVES = 12
"""Moves of an expected line that are shown; the rest is guesswork and would fill the screen."""
TICK_SECONDS = 0.05
STOP_SECONDS = 0.02


# A level says how strong a player is, so it replaces all keys that do; threads or the search's memory stay.
_STRENGTH = {*LIMITS, "epsilon", "solve", "gives"}


def at_level(spec: PlayerSpec, level: str) -> PlayerSpec:
    """The same player at a level (``3``, ``club``) or with other keys (``depth=6``), or another player altogether."""
    level = level.strip()
    if level.lstrip("+-").isdigit():
        number = int(level)
        if not 1 <= number <= len(LEVELS):
            raise PlayerError(f"there is no level {level}; levels go from 1 (easy) to {len(LEVELS)} (hard)")
        level = LEVELS[number - 1].keys
    elif named := [each for each in LEVELS if each.name.lower() == level.lower() != BEST]:
        level = named[0].keys
    elif "=" not in level.partition(":")[0]:
        return checked(parse_spec(level))
    kept = spec.text.removeprefix(spec.name).removeprefix(":").split(",")
    replaced = _STRENGTH | {item.partition("=")[0].strip() for item in level.split(",")}
    keys = [item for item in kept if item and item.partition("=")[0].strip() not in replaced]
    return checked(parse_spec(f"{spec.name}:{','.join([*keys, level])}"))


def level_of(spec: PlayerSpec) -> Level | None:
    """The level that a player has by its keys."""
    return next((level for level in LEVELS if spec.text == f"{spec.name}:{level.keys}"), None)


def title(spec: PlayerSpec) -> str:
    """Who a player is, for people: with its level, if it has one."""
    level = level_of(spec)
    return spec.text if level is None else f"{spec.name}, {level.name}"


def checked(spec: PlayerSpec) -> PlayerSpec:
    """The specification, if such a player can be made; what is wrong with it is said before a game begins."""
    entry = player_names().get(spec.name)
    if entry is None or not set(spec.given) <= set(entry.keys):
        make_player(spec).close()  # knows best what is wrong; or it is a file, which has to be looked at
    return spec


def score_text(choice: Choice) -> str:
    """A score in discs for the side to move; whole if it is the exact result."""
    if choice.score is None:
        return ""
    return f"{choice.score:+.0f} (exact)" if choice.exact else f"{round(choice.score, 1) + 0.0:+.1f}"  # no -0.0


def explain(choice: Choice, black: bool) -> str:
    """What a player thinks of its move, to stand behind that move; empty if it does not judge moves."""
    if choice.score is None:
        return ""
    parts = [f": {score_text(choice)} for {COLOURS[black]}"]
    if choice.depth:
        parts.append(f"depth {choice.depth}")
    if choice.nodes:
        parts.append(f"{choice.nodes:,} positions")
    if choice.seconds >= 0.1:
        parts.append(f"{choice.seconds:.1f} s")
    line = [move_name(move) for move in choice.pv]
    if len(line) > 1:
        parts.append(f"line {' '.join(line[:LINE_MOVES])}{' ...' if len(line) > LINE_MOVES else ''}")
    return ", ".join(parts)


class Thinker:
    """One player. Only the main thread may call it, and only ``prepare`` does not wait."""

    def __init__(self, spec: PlayerSpec, seed: str):
        self.spec, self.seed = spec, seed
        self.thought: Choice | None = None
        """While it thinks: the best move so far, of a player that tells."""
        self.hurried = False
        """Ctrl-C has ended its last thoughts early."""
        self._games = 0
        self._begun = False
        self._making: _Task | None = None
        self._choosing: _Task | None = None

    @property
    def busy(self) -> bool:
        """Something is still under way that Python would wait for at its end."""
        return any(task is not None and task.is_running for task in (self._making, self._choosing))

    def prepare(self) -> None:
        """Make the player and warm it up in the background."""
        if self._making is None:
            self._making = _Task(self._make)
            self._making.start()

    def wait_until_ready(self, tick: Callable[[], object] = lambda: None) -> None:
        """Wait for ``prepare``. ``tick`` is called now and then meanwhile; what went wrong is raised here."""
        self.prepare()
        assert self._making is not None
        self._making.wait(tick)

    def new_game(self) -> None:
        """The next question is the first of a game."""
        self._begun = False

    def ask(self, position: Position, remaining: float | None, line: Line, tick: Callable[[], object]) -> Choice:
        """The player's move. Ctrl-C hurries it: then the best found so far counts. A second Ctrl-C is passed on."""
        self.wait_until_ready()
        assert self._making is not None
        player: Player = self._making.result
        self.thought, self.hurried = None, False
        if not self._begun:
            self._games += 1
            player.new_game(random.Random(f"{self.seed} {self._games}"))
            self._begun = True
        self._choosing = task = _Task(lambda: player.choose(position, remaining, line))
        try:
            task.start()
            return task.wait(tick)
        except KeyboardInterrupt:
            self.hurried = True
            # A search may begin just after its player was told to stop, so it is told again.
            return task.wait(player.stop, STOP_SECONDS)

    def values(self, position: Position, tick: Callable[[], object]) -> Values:
        """What every legal move is worth, all searched to the same depth, deeper and deeper while there is time.
        Ctrl-C ends it early."""
        from othello_nn.cli.web.values import Sharpener

        self.wait_until_ready(tick)
        assert self._making is not None
        player = self._making.result
        deadline, state = _Deadline(VALUES_SECONDS), Sharpener(position)

        def enough() -> bool:
            return deadline.over() and len(state.values) == len(position.legal_moves)

        def sharpen() -> Values:
            while not (state.done or enough()):
                state.step(player, deadline)  # type: ignore[arg-type]  # all it asks of a turn is whether it is over
            return state.report(player.engines[position.black_to_move])

        def check() -> None:
            tick()
            if enough():
                player.stop()  # a search by itself looks at the time only between two depths

        self._choosing = task = _Task(sharpen)
        try:
            task.start()
            return task.wait(check)
        except KeyboardInterrupt:
            deadline.end()
            return task.wait(check, STOP_SECONDS)

    def judge(self, game: Game, tick: Callable[[list[Judged]], object]) -> list[Judged]:
        """What the player thinks of each move of a game. ``tick`` is shown what there is by then; Ctrl-C ends it early,
        and what was judged until then counts."""
        from othello_nn.cli.judges import judge_game, make_judge

        self.wait_until_ready()
        assert self._making is not None
        player, found, ended = self._making.result, [], threading.Event()

        def judge() -> list[Judged]:
            for judged in judge_game(game, make_judge(player, self.spec)):
                if ended.is_set():  # its search was cut short
                    break
                found.append(judged)
            return found

        self._choosing = task = _Task(judge)
        try:
            task.start()
            return task.wait(lambda: tick(found))
        except KeyboardInterrupt:
            ended.set()
            return task.wait(player.stop, STOP_SECONDS)

    def close(self) -> None:
        """The player is not needed any more; one that is still being made is left to itself. May be called again."""
        if self._making is not None and not self.busy and self._making.result is not None:
            self._making.result.close()
            self._making.result = None

    def _make(self) -> Player:
        player: Any = make_player(self.spec, random.Random(self.seed), seconds=FRIENDLY_SECONDS)
        player.warm_up()
        if hasattr(player, "on_iteration"):
            from othello_nn.players.searching import choice_of

            def report(result) -> None:
                self.thought = choice_of(result)

            player.on_iteration = report
        return player


class _Deadline:
    """Says when so many seconds are over, or somebody has had enough."""

    def __init__(self, seconds: float):
        self._end = time.monotonic() + seconds

    def over(self) -> bool:
        return time.monotonic() > self._end

    def end(self) -> None:
        self._end = 0.0


class _Task(threading.Thread):
    """A call in the background."""

    def __init__(self, call: Callable[[], Any]):
        super().__init__(name="player", daemon=True)
        self.result: Any = None
        self.error: BaseException | None = None
        self._call = call
        self._done = threading.Event()

    def run(self) -> None:
        try:
            self.result = self._call()
        except BaseException as error:
            self.error = error
        finally:
            self._done.set()

    @property
    def is_running(self) -> bool:
        return self.ident is not None and not self._done.is_set()

    def wait(self, tick: Callable[[], object] = lambda: None, seconds: float = TICK_SECONDS) -> Any:
        while not self._done.wait(seconds):
            tick()
        if self.error is not None:
            raise self.error
        return self.result


class BackgroundNotes:
    """A stderr that keeps what other threads than the main one say, which would end up in the line being typed."""

    def __init__(self, stream: TextIO):
        self._stream = stream
        self._said: list[str] = []

    def write(self, text: str) -> int:
        if threading.current_thread() is threading.main_thread():
            return self._stream.write(text)
        self._said.append(text)
        return len(text)

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def tell(self) -> bool:
        """Pass on what was kept, such as that something is being compiled; false if there was nothing."""
        said, self._said = self._said, []
        self._stream.write("".join(said))
        self._stream.flush()
        return bool(said)
