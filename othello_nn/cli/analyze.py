"""The command ``analyze``: what a player thinks of the moves of a game, as IAGO did it (Rosenbloom 1981, section 5).

For each position the player first finds its own move. The move that was played is then judged by searching the position
after it one ply less deep, so that both values come from the same depth; where the player's move was solved, it is
solved, too. Two moves agree if they are the same or lead to symmetric positions, or if both are solved and end the
game with the same score. Passes are no choice, and are neither judged nor counted.
"""

from __future__ import annotations

import json
import random
import sys
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from othello_nn.cli.base import INTERRUPTED, UsageError
from othello_nn.cli.components import Analyst, check_picture, write_picture
from othello_nn.cli.positions import default_player
from othello_nn.cli.terminal.board import find_style
from othello_nn.cli.verdicts import SIDES, graph_svg, show_heading, show_move, show_story, show_summary
from othello_nn.errors import InvalidMoveError, shorten
from othello_nn.game.formats.files import read_games
from othello_nn.game.notation import move_name
from othello_nn.game.position import Position
from othello_nn.game.record import Game
from othello_nn.game.rules import PASS
from othello_nn.game.syntax import scan_moves
from othello_nn.players.base import Line, Player
from othello_nn.players.catalog import make_player
from othello_nn.players.simple import OnePlyPlayer
from othello_nn.players.spec import PlayerSpec, parse_spec
from othello_nn.program import PLAY, note
from othello_nn.progress import progress

if TYPE_CHECKING:
    from othello_nn.engine import Engine
    from othello_nn.players.searching import SearchPlayer

ANALYSIS_SECONDS = 0.5
"""For a move, where the player's own limits are not said: a game of 60 moves in about a minute."""


class Verdict(NamedTuple):
    """A player's own move and what it thinks of it, in discs for the side to move."""

    move: int
    value: float
    exact: bool
    depth: int
    shift: float = 0.0
    """What calibration has added to the value."""


@dataclass(frozen=True)
class Judged:
    """One move of a game beside the one that the player would have made."""

    game: int
    """Its number in the file, from 1."""
    number: int
    """The move's, from 1, passes not counted."""
    position: Position
    move: int
    value: float
    best: Verdict
    exact: bool
    """Both values are results with best play."""

    @property
    def loss(self) -> float:
        """Discs that the move gave away. A selective search may think more of it than of its own move: that is none."""
        return max(0.0, self.best.value - self.value)

    @property
    def agrees(self) -> bool:
        return is_equivalent(self.position, self.move, self.best.move) or (self.exact and self.value == self.best.value)

    def as_dict(self) -> dict[str, Any]:
        return {
            "game": self.game,
            "number": self.number,
            "side": SIDES[self.position.black_to_move],
            "move": move_name(self.move),
            "value": self.value,
            "best": move_name(self.best.move),
            "best_value": self.best.value,
            "loss": self.loss,
            "agrees": self.agrees,
            "exact": self.exact,
            "depth": self.best.depth,
            "position": self.position.to_text(),
        }


def is_equivalent(position: Position, move: int, other: int) -> bool:
    """The moves are the same up to symmetry of the position."""
    return move == other or position.play(move).canonical() == position.play(other).canonical()


# --- judging ---------------------------------------------------------------------------------------------------------


class Judge(Protocol):
    """Who says what moves are worth."""

    def best(self, position: Position, line: Line) -> Verdict: ...

    def played(self, position: Position, move: int, best: Verdict, line: Line) -> tuple[float, bool]:
        """The value of a move, which does not end the game, and whether it is exact."""
        ...


class EngineJudge:
    """A player that searches with the engine. Each position is judged on its own: what was found before is forgotten.

    Of a search that its limit cut short, the last complete iteration counts. Win, draw or loss alone is no value in
    discs: where the search ended with that, the iteration before it counts.
    """

    def __init__(self, player: SearchPlayer):
        self.player = player

    def best(self, position: Position, line: Line) -> Verdict:
        from othello_nn.engine import Limit

        engine = self._engine(position)
        engine.clear()
        found: list[Any] = []
        if position.empties <= self.player.solve_from:
            found.append(engine.solve(position))
        else:
            engine.search(position, self.player.limit, lambda result: None if result.wld else found.append(result))
        result = found[-1] if found else engine.search(position, Limit(depth=1))
        assert result.move is not None  # positions to judge have a move
        return Verdict(result.move, result.score + 0.0, result.exact, result.depth, result.score - result.raw_score)

    def played(self, position: Position, move: int, best: Verdict, line: Line) -> tuple[float, bool]:
        from othello_nn.engine import Limit

        engine, after = self._engine(position), position.play(move)
        if best.exact:
            return 0.0 - engine.solve(after).score, True
        if best.depth == 1:
            return best.shift - static_discs(engine, after), False
        limit = Limit(depth=best.depth - 1)
        if limit.depth == after.empties:
            # A selective search to the end that could not be proved: the proof has no more time for this move.
            limit = replace(self.player.limit, depth=limit.depth)
        result = engine.search(after, limit)
        # Raw scores of neighbouring depths can be compared; calibrated ones stand on lines of their own.
        return (0.0 - result.score if result.exact else best.shift - result.raw_score), result.exact

    def _engine(self, position: Position) -> Engine:
        return self.player.engines[position.black_to_move]


def static_discs(engine: Engine, position: Position) -> float:
    """The evaluator's value of a position: a search of no depth."""
    import numpy as np

    from othello_nn.engine.leaf.door import score_all
    from othello_nn.engine.oneply import new_scratch
    from othello_nn.engine.score import SCORE_DISC

    scores, scratch = np.empty(1, np.int64), new_scratch()
    movers, opponents = np.array([position.mover], np.uint64), np.array([position.opponent], np.uint64)
    score_all(engine.leaf, scratch.ctypes.data, movers, opponents, scores)
    return int(scores[0]) / SCORE_DISC


class PlayerJudge:
    """Any other player that gives scores. How deep it looks is its own affair."""

    def __init__(self, player: Player):
        self.player = player

    def best(self, position: Position, line: Line) -> Verdict:
        choice = self.player.choose(position, line=line)
        if choice.score is None or choice.move is None:
            raise UsageError(
                f"{self.player.name} does not say what positions are worth, so it cannot judge moves; take a player "
                "that searches, such as champion"
            )
        return Verdict(choice.move, choice.score, choice.exact, choice.depth)

    def played(self, position: Position, move: int, best: Verdict, line: Line) -> tuple[float, bool]:
        after, moves = position.play(move), (*line.moves, move)
        sign = -1.0
        if after.must_pass:
            after, moves, sign = after.play(PASS), (*moves, PASS), 1.0
        verdict = self.best(after, Line(line.start, moves))
        return sign * verdict.value + 0.0, best.exact and verdict.exact


def make_judge(player: Player, spec: PlayerSpec) -> Judge:
    """A judge that asks this player, made from ``spec``; chance (``epsilon``) has no part in its judgement."""
    from othello_nn.engine import Limit
    from othello_nn.players.searching import SearchPlayer, square_evaluator

    if isinstance(player, OnePlyPlayer):
        player = SearchPlayer(spec, square_evaluator(player.weights), Limit(depth=1), random.Random(0))
    return EngineJudge(player) if isinstance(player, SearchPlayer) else PlayerJudge(player)


def judge_game(game: Game, judge: Judge, game_number: int = 1) -> Iterator[Judged]:
    """The moves of a game one after the other, passes left out."""
    number, position = 0, game.start
    for i, move in enumerate(game.moves):
        if move != PASS:
            number += 1
            line = Line(game.start, game.moves[:i])
            best = judge.best(position, line)
            after = position.play(move)
            if is_equivalent(position, move, best.move):
                value, exact = best.value, best.exact
            elif after.is_over:
                value, exact = 0.0 - after.final_score(), best.exact
            else:
                value, exact = judge.played(position, move, best, line)
            yield Judged(game_number, number, position, move, value, best, exact and best.exact)
        position = position.play(move)


# --- the command -----------------------------------------------------------------------------------------------------


def analyze(arguments: Namespace) -> int:
    """``play.py analyze``."""
    games = _chosen(_read(" ".join(arguments.words).strip()), arguments.number)
    total = sum(_choices(game) for _, game in games)
    if not total:
        raise UsageError("there is no move to judge: the game has not begun")
    check_picture(arguments.picture, len(games))
    spec = parse_spec(default_player() if arguments.player is None else arguments.player)
    player = make_player(spec, seconds=ANALYSIS_SECONDS)
    judge = make_judge(player, spec)
    analyst = None
    searching = judge.player if isinstance(judge, EngineJudge) else None
    if arguments.components or (arguments.picture and Analyst.can_be_made_of(searching)):
        analyst = Analyst.of(searching, spec.name)
    everything: list[Judged] = []
    current: list[Judged] = []  # of the game that is being judged
    interrupted = False
    in_colour = find_style(sys.stdout).palette is not None
    # Beside a bar on the same terminal long lines are wrapped, which JSON does not survive.
    with progress("thinking", total, quiet=arguments.json and sys.stdout.isatty()) as bar:
        try:
            player.warm_up()
            for number, game in games:
                current = []
                if analyst is not None:
                    analyst.moves.clear()
                for judged in judge_game(game, judge, number):
                    if not current and not arguments.json:
                        show_heading(number, game, len(games))
                    current.append(judged)
                    everything.append(judged)
                    more = {} if analyst is None else analyst.add(judged)
                    if arguments.json:
                        print(json.dumps(judged.as_dict() | more), flush=True)
                    else:
                        show_move(judged, in_colour)
                    bar.update(len(everything), f"game {number}, move {judged.number}")
                if not arguments.json:
                    show_summary(current)
                    show_story(game, current)
                    if analyst is not None:
                        analyst.show()
        except KeyboardInterrupt:
            interrupted = True
        finally:
            player.close()
    if interrupted:
        if not arguments.json:
            show_summary(current)
            if analyst is not None:
                analyst.show()
        note(PLAY, f"interrupted after {len(everything)} of {total} moves")
        return INTERRUPTED
    if len(games) > 1 and not arguments.json:
        print(f"\nall {len(games)} games")
        show_summary(everything)
    if arguments.picture and analyst is not None:
        analyst.draw(arguments.picture, _title(spec, games[0][1]))
    elif arguments.picture:
        write_picture(arguments.picture, graph_svg(_title(spec, games[0][1]), everything))
    return 0


def _title(spec: PlayerSpec, game: Game) -> str:
    names = f", {game.black or 'black'} against {game.white or 'white'}" if game.black or game.white else ""
    return f"What {spec.text} expects{names}"


def _read(text: str) -> list[Game]:
    """The games of a file, or the one that is written out."""
    if not text:
        raise UsageError("no game is given: write its moves, such as f5d6c3, or the name of a file of games")
    if not Path(text).exists():
        try:
            return [Game(moves=tuple(scan_moves(text)), passes_left_out=True)]
        except InvalidMoveError as error:
            if Path(text).suffix or "/" in text:
                raise UsageError(f"there is no file {shorten(text)}") from None
            raise UsageError(f"{shorten(text)} is neither a file nor a game: {error}") from None
    try:
        games = read_games(text)
    except OSError as error:
        raise UsageError(f"{text!r} cannot be read: {error.strerror or error}") from None
    if not games:
        raise UsageError(f"{text!r} holds no games")
    return games


def _chosen(games: list[Game], number: int | None) -> list[tuple[int, Game]]:
    """The games to judge, with their numbers in the file."""
    numbered = list(enumerate(games, start=1))
    if number is None:
        return numbered
    if number > len(games):
        raise UsageError(f"there is no game {number}: {'one is' if len(games) == 1 else f'{len(games)} are'} given")
    return numbered[number - 1 : number]


def _choices(game: Game) -> int:
    return sum(move != PASS for move in game.moves)
