"""GGF, the format of the Generic Game Server and of NBoard: read and write. Read `properties.py` first.

A game is one line: `(;GM[Othello]PB[..]PW[..]RE[+12.000]BO[8 <64> *]B[d3//0.01]W[c5/2.39/0.01];)`. A move is
`square[/evaluation[/seconds]]`, and `RE` is black's margin with a flag for resigned (`:r`), time (`:t`) or an agreed
score (`:s`).
"""

import re
from collections.abc import Iterable, Iterator

from othello_nn.errors import OthelloError, shorten
from othello_nn.game.formats.properties import GameTree, format_properties, format_solved, read_trees
from othello_nn.game.notation import move_name, parse_board, parse_move
from othello_nn.game.position import Position
from othello_nn.game.record import (
    ColouredMove,
    ErrorHandler,
    Game,
    MoveNote,
    RecordError,
    collect,
    format_number,
    parse_number,
)
from othello_nn.game.rules import PASS

_FIELDS = frozenset({"GM", "PC", "EV", "DT", "PB", "PW", "RB", "RW", "TI", "TB", "TW", "TY", "RE", "BO", "GC", "TH"})
_FLAGS = {"r": "resigned", "t": "time", "s": "agreed"}
_ENDING_FLAGS = {ending: f":{flag}" for flag, ending in _FLAGS.items()} | {"forfeit": ":r"}
_RESULT = re.compile(r"([^:]*)(?::\s*([a-z]))?", re.IGNORECASE)
_BOARD = re.compile(r"\s*([0-9]{1,3})\s*(.*)", re.DOTALL)


def parse_ggf(text: str, on_error: ErrorHandler | None = None) -> list[Game]:
    """The games of a GGF text. With `on_error`, games that cannot be used are reported to it and left out."""
    return list(collect(_checked_counts(read_trees(text)), _read_game, on_error))


def _checked_counts(trees: Iterable[GameTree]) -> Iterator[GameTree]:
    """The same games, with an error when a game count in the file does not match the games that follow it."""
    announced, seen, since = None, 0, 0

    def check() -> None:
        if announced is not None and seen != announced:
            raise RecordError(f"line {since}: {announced} games are announced, but {seen} follow", line=since)

    for tree in trees:
        if tree.announced is not None:
            check()
            announced, seen, since = tree.announced, 0, tree.line
        seen += 1
        yield tree
    check()


def _read_game(tree: GameTree) -> Game:
    fields = tree.single_values(_FIELDS)
    if fields.get("GM", "").strip().lower() != "othello":
        raise tree.error(f"this is not a GGF game of Othello: GM is {shorten(fields.get('GM', ''))}")
    start = _read_board(tree, fields["BO"]) if "BO" in fields else Position.start()
    coloured: list[ColouredMove] = [
        (item.name == "B", *_read_move(tree, value))
        for item in tree.properties()
        if item.name in ("B", "W")
        for value in item.values
    ]
    variant = fields.get("TY", "")
    result, ending = _read_result(tree, fields.get("RE", ""), variant)
    clock = fields.get("TI", "")
    return tree.make_game(
        start,
        coloured,
        fields,
        result=result,
        ending=ending,
        # Ratings are no part of the game, and files have all sorts of things there: what is no number is left out.
        black_rating=parse_number(fields.get("RB", "")),
        white_rating=parse_number(fields.get("RW", "")),
        black_clock=fields.get("TB", clock),
        white_clock=fields.get("TW", clock),
        variant="" if variant.strip() == "8" else variant,
    )


def _read_board(tree: GameTree, text: str) -> Position:
    match = _BOARD.fullmatch(text)
    if match is None:
        raise tree.error(f"BO[{shorten(text)}] does not start with the size of the board")
    if int(match[1]) != 8:
        raise tree.error(f"the board has size {match[1]}; only 8 (8×8 squares) can be read")
    try:
        return parse_board(match[2])
    except OthelloError as error:
        raise tree.error(f"BO, after the size: {error}") from error


def _read_move(tree: GameTree, value: str) -> tuple[int, MoveNote]:
    name, *numbers = value.split("/")
    if len(numbers) > 2:
        raise tree.error(f"move {shorten(value)} has too many parts: square/evaluation/seconds")
    try:
        move = parse_move(name)
    except OthelloError as error:
        raise tree.error(str(error)) from error
    found = [parse_number(number) for number in numbers]
    for number, text in zip(found, numbers, strict=True):
        if number is None and text.strip():
            raise tree.error(f"move {shorten(value)}: {shorten(text)} is not a number")
    score_discs, seconds = [*found, None, None][:2]
    return move, MoveNote(score_discs, seconds)


def _read_result(tree: GameTree, text: str, variant: str) -> tuple[int | None, str]:
    """(black's margin or None, ending). An empty result or `?` is no result."""
    match = _RESULT.fullmatch(text.strip())
    if match is None or (flag := (match[2] or "").lower()) not in ("", *_FLAGS):
        raise tree.error(f"RE {shorten(text)} is not a result; one looks like +12.000 or -64.00:r")
    ending = _FLAGS.get(flag, "")
    number = match[1].strip()
    # Anti games (a) count the other way round and komi games (k) add to the count: not a margin in discs.
    if number in ("", "?") or "a" in variant.lower() or "k" in variant.lower():
        return None, ending
    margin = parse_number(number)
    if margin is None or margin != int(margin):
        raise tree.error(f"RE {shorten(text)} is not a whole number of discs")
    return int(margin), ending


def format_ggf(games: Iterable[Game]) -> str:
    """Games as GGF, one a line."""
    return "".join(f"{_format_game(game)}\n" for game in games)


def _format_game(game: Game) -> str:
    signs = game.start.board_string().replace("X", "*")
    rows = " ".join(signs[index : index + 8] for index in range(0, 64, 8))
    result = "?" if game.result is None else f"{game.result:+d}.000"
    clocks = [("TB", game.black_clock), ("TW", game.white_clock)]
    if game.black_clock == game.white_clock:
        clocks = [("TI", game.black_clock)]
    header = [
        ("GM", "Othello"),
        ("PC", game.place),
        ("EV", game.event),
        ("GC", game.comment),  # SGF's; GGF has no comment of its own, and readers skip what they do not know
        ("DT", game.date),
        ("PB", game.black),
        ("PW", game.white),
        ("RB", "" if game.black_rating is None else format_number(game.black_rating)),
        ("RW", "" if game.white_rating is None else format_number(game.white_rating)),
        *clocks,
        ("TY", game.variant or "8"),
        ("RE", result + _ENDING_FLAGS.get(game.ending, "")),
        ("TH", format_solved(game)),
        ("BO", f"8 {rows} {'*' if game.start.black_to_move else 'O'}"),
    ]
    return f"(;{format_properties(header)}{''.join(_format_moves(game))};)"


def _format_moves(game: Game) -> Iterator[str]:
    by_black = game.start.black_to_move
    for move, note in zip(game.moves, game.notes or [None] * len(game.moves), strict=True):
        value = "PA" if move == PASS else move_name(move)
        if note is not None:
            score = "" if note.score_discs is None else format_number(note.score_discs)
            seconds = "" if note.seconds is None else f"/{format_number(note.seconds)}"
            value += f"/{score}{seconds}"
        yield f"{'B' if by_black else 'W'}[{value}]"
        by_black = not by_black
