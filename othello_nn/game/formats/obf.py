"""OBF, the format of endgame suites: positions with the scores of some moves, one a line.

A line is `<64 signs> X; A2:+38; C7:+36;` and scores are for the side to move. `%` starts a comment.

>>> [entry] = parse_obf("---------------------------OX------XO--------------------------- X; F5:+0; D3:+0; % start")
>>> entry.best_score, sorted(entry.best_moves)
(0, [d3, f5])
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from othello_nn.errors import OthelloError, shorten
from othello_nn.game.notation import move_name, parse_board, parse_move
from othello_nn.game.position import Position
from othello_nn.game.record import ErrorHandler, Game, RecordError, collect
from othello_nn.game.rules import PASS

_SCORE = re.compile(r"\s*([^:\s]+)\s*:\s*([+-]?[0-9]{1,3})\s*")


@dataclass(frozen=True, slots=True)
class ObfEntry:
    """A position and what is known of its moves, checked: the moves are legal and the scores possible."""

    position: Position
    scores: dict[int, int] = field(default_factory=dict)
    """Move (0..63 or PASS) to the final margin in discs for the side to move."""

    def __post_init__(self) -> None:
        for move, score_discs in self.scores.items():
            self.position.play(move)  # raises the error that says what could be played
            if not -64 <= score_discs <= 64:
                raise RecordError(f"{move_name(move)} cannot score {score_discs}: margins go from -64 to 64")

    @property
    def best_score(self) -> int | None:
        """The score of the best moves listed, None if none are."""
        return max(self.scores.values(), default=None)

    @property
    def best_moves(self) -> frozenset[int]:
        """All moves listed with the best score."""
        return frozenset(move for move, score_discs in self.scores.items() if score_discs == self.best_score)

    def as_game(self) -> Game:
        """A game from this position in which nothing was played; a best score that is listed is its exact result."""
        if self.best_score is None:
            return Game(start=self.position)
        margin = self.best_score if self.position.black_to_move else -self.best_score
        return Game(start=self.position, theoretical_result=margin, theoretical_empties=self.position.empties)


def parse_obf(text: str, on_error: ErrorHandler | None = None) -> list[ObfEntry]:
    """The positions of an OBF text. With `on_error`, lines that cannot be used are reported to it and left out."""
    lines = ((number, line.split("%")[0]) for number, line in enumerate(text.split("\n"), start=1))
    return list(collect((item for item in lines if item[1].strip()), _read_line, on_error))


def _read_line(numbered_line: tuple[int, str]) -> ObfEntry:
    number, line = numbered_line
    board, *parts = line.split(";")
    try:
        return ObfEntry(parse_board(board), _read_scores(parts))
    except OthelloError as error:
        raise RecordError(f"line {number}: {error}", line=number) from error


def _read_scores(parts: list[str]) -> dict[int, int]:
    scores: dict[int, int] = {}
    for part in parts:
        if not part.strip():
            continue
        match = _SCORE.fullmatch(part)
        if match is None:
            raise RecordError(f"{shorten(part.strip())} is not a move with its score; one looks like A2:+38")
        move = parse_move(match[1])
        if move in scores:
            raise RecordError(f"{move_name(move)} is listed twice")
        scores[move] = int(match[2])
    return scores


def format_obf(entries: Iterable[ObfEntry]) -> str:
    """Positions as OBF, moves from the best score down."""
    return "".join(f"{_format_entry(entry)}\n" for entry in entries)


def _format_entry(entry: ObfEntry) -> str:
    ranked = sorted(entry.scores.items(), key=lambda item: (-item[1], item[0]))
    names = ((("PS" if move == PASS else move_name(move).upper()), score_discs) for move, score_discs in ranked)
    return "".join([f"{entry.position.to_text()};", *(f" {name}:{score_discs:+d};" for name, score_discs in names)])
