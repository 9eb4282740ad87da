"""Where the games of a match begin. Without different openings two deterministic players would repeat one game.

>>> len(leouski60())
60
>>> random_openings(8, 3, seed=1) == random_openings(8, 3, seed=1)
True
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from othello_nn.errors import OthelloError, shorten
from othello_nn.game.notation import parse_transcript
from othello_nn.game.position import Position
from othello_nn.game.rules import PASS
from othello_nn.game.syntax import looks_like_board

# What is written for a set; other words are files.
LEOUSKI60 = "leouski60"
ALL, MAX_ALL_PLIES = "all:", 7
RANDOM, MAX_RANDOM_PLIES = "random:", 50
RANDOM_COUNT = 50
# Random plies are drawn until so many in a row give nothing new: then there is hardly anything new left.
FRUITLESS_DRAWS = 2000


class OpeningError(OthelloError):
    """Openings that cannot be read or do not exist."""


@dataclass(frozen=True)
class Opening:
    """Moves to be played before the players are asked, from ``start``."""

    start: Position
    moves: tuple[int, ...] = ()

    @cached_property
    def position(self) -> Position:
        return self.start.replay(self.moves)


def make_openings(text: str, count: int | None, seed: int = 0, balance: float | None = None) -> list[Opening]:
    """The openings that ``leouski60``, ``all:PLIES``, ``random:PLIES`` or the path of a file stands for.

    ``count`` is how many are wanted (None: as many as a set has, 50 of the random ones). A fixed set is returned whole,
    in its order. With ``balance`` only those are taken that a search judges to be within so many discs of a draw.
    """
    keep = (lambda opening: True) if balance is None else Balanced(balance)
    if text.startswith(RANDOM):
        plies = _plies(text, RANDOM, MAX_RANDOM_PLIES)
        found = random_openings(plies, RANDOM_COUNT if count is None else count, seed, keep)
    else:
        if text == LEOUSKI60:
            found = leouski60()
        elif text.startswith(ALL):
            found = all_openings(_plies(text, ALL, MAX_ALL_PLIES))
        else:
            found = read_openings(text)
        found = [opening for opening in found if keep(opening)]
    if not found:
        within = "" if balance is None else f" within {balance:g} discs of a draw; allow more"
        raise OpeningError(f"{text!r} has no opening{within}")
    return found


def _plies(text: str, word: str, most: int) -> int:
    plies = text.removeprefix(word)
    if not plies.isascii() or not plies.isdigit() or not 1 <= int(plies) <= most:
        raise OpeningError(f"{text!r}: write {word}PLIES with 1 to {most} plies, such as {word}{min(most, 4)}")
    return int(plies)


class Balanced:
    """Whether an opening is worth at most so many discs to either side, by a search with the best evaluator at hand."""

    DEPTH = 6

    def __init__(self, discs: float):
        from othello_nn.players import best_player_name, make_player

        self.discs, self.player = discs, make_player(f"{best_player_name()}:depth={self.DEPTH}")

    def __call__(self, opening: Opening) -> bool:
        score = self.player.choose(opening.position).score
        assert score is not None
        return abs(score) <= self.discs


def all_openings(plies: int) -> list[Opening]:
    """All positions after so many plies: 236 after four, which 244 sequences lead to."""
    found = {Position.start(): Opening(Position.start())}
    for _ in range(plies):
        longer: dict[Position, Opening] = {}
        for position, opening in found.items():
            for move in position.legal_moves or (PASS,):
                longer.setdefault(position.play(move), Opening(opening.start, (*opening.moves, move)))
        found = longer
    return list(found.values())


def leouski60() -> list[Opening]:
    """All positions after four plies, one for each class of symmetric ones: Leouski's test set."""
    found: dict[Position, Opening] = {}
    for opening in all_openings(4):
        found.setdefault(opening.position.canonical(), opening)
    return list(found.values())


def random_openings(
    plies: int, count: int, seed: int, keep: Callable[[Opening], bool] = lambda opening: True
) -> list[Opening]:
    """Up to ``count`` positions after random moves, no two symmetric to each other; fewer if there are no more."""
    rng = random.Random(f"openings {seed}")
    seen: set[Position] = set()
    found: list[Opening] = []
    fruitless = 0
    while len(found) < count and fruitless < FRUITLESS_DRAWS:
        opening = _random_opening(plies, rng)
        key = None if opening is None else opening.position.canonical()
        fruitless += 1
        if opening is None or key is None or key in seen:
            continue
        seen.add(key)
        if keep(opening):
            found.append(opening)
            fruitless = 0
    return found


def _random_opening(plies: int, rng: random.Random) -> Opening | None:
    """Random moves from the start, or None where the game ended on the way."""
    position, moves = Position.start(), []
    for _ in range(plies):
        if position.is_over:
            return None
        move = rng.choice(position.legal_moves or (PASS,))
        position = position.play(move)
        moves.append(move)
    return None if position.is_over else Opening(Position.start(), tuple(moves))


def read_openings(path: str | Path) -> list[Opening]:
    """Transcripts or boards with the side to move, one a line, without repetitions; comments start with #, % or ;."""
    path = Path(path)
    if path.is_char_device():
        raise OpeningError(f"{str(path)!r} is a device, not a file")  # some have no end
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise OpeningError(f"{str(path)!r} is not a text file of openings") from None
    except FileNotFoundError:
        raise OpeningError(
            f"no openings {str(path)!r}: neither {LEOUSKI60}, {ALL}PLIES, {RANDOM}PLIES nor a file that exists"
        ) from None
    except OSError as error:
        raise OpeningError(f"{str(path)!r} cannot be read: {error.strerror}") from None
    found: dict[Position, Opening] = {}
    for number, line in enumerate(lines, start=1):
        text = line.split("%")[0].split("#")[0].split(";")[0].strip()
        if not text:
            continue
        try:
            opening = _read_opening(text)
        except OthelloError as error:
            raise OpeningError(f"{path.name}, line {number}: {error}") from None
        found.setdefault(opening.position, opening)
    if not found:
        raise OpeningError(f"{str(path)!r} holds no openings")
    return list(found.values())


def _read_opening(text: str) -> Opening:
    if looks_like_board(text) or text.lower() == "start":
        opening = Opening(Position.parse(text))
    else:
        opening = Opening(Position.start(), tuple(parse_transcript(text)))
    if opening.position.is_over:
        raise OpeningError(f"{shorten(text)} is the end of a game: there is nothing left to play")
    return opening
