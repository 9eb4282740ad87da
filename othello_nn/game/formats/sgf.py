"""SGF (FF[4], GM[2]): read the main line of each game, write games. Read `properties.py` first.

Squares are written `f5`. Files of other programs also use SGF's letter pairs, `fe` for the same square; the two cannot
be mixed up, since a letter pair has no digit. A game from another start carries it as AB, AW and PL.
"""

import re
from collections.abc import Iterable

from othello_nn.errors import InvalidMoveError, OthelloError, shorten
from othello_nn.game.formats.properties import GameTree, Property, format_properties, format_solved, read_trees
from othello_nn.game.notation import move_name, parse_move
from othello_nn.game.position import Position
from othello_nn.game.record import (
    DECIDED,
    ColouredMove,
    ErrorHandler,
    Game,
    MoveNote,
    collect,
    format_number,
    parse_number,
)
from othello_nn.game.rules import PASS, squares_in
from othello_nn.game.syntax import COLOUR_WORDS, square_name

_FIELDS = frozenset({"GM", "SZ", "PB", "PW", "DT", "PC", "EV", "GC", "RE", "BR", "WR", "TM", "OT", "PL", "TH"})
_CENTRE = 1 << 27 | 1 << 28 | 1 << 35 | 1 << 36
_LETTER_PAIR = re.compile(r"([a-h])([a-h])")
_RESULT = re.compile(r"(?P<winner>[bw]|black|white)\s*\+\s*(?P<margin>.*)", re.IGNORECASE)
_DECIDED = {"r": "resigned", "resign": "resigned", "t": "time", "time": "time"}
_DECIDED |= {"f": "forfeit", "forfeit": "forfeit"}
_SIDES = COLOUR_WORDS | {"1": True, "2": False}


def parse_sgf(text: str, on_error: ErrorHandler | None = None) -> list[Game]:
    """The games of an SGF text. With `on_error`, games that cannot be used are reported to it and left out."""
    return list(collect(read_trees(text), _read_game, on_error))


def _read_game(tree: GameTree) -> Game:
    if tree.announced is not None:
        raise tree.error("a number stands before the game; SGF has no game count")
    fields = tree.single_values(_FIELDS)
    if (kind := fields.get("GM", "").strip()) != "2":
        raise tree.error(f"this is not an SGF game of Othello: GM is {shorten(kind)}, not 2")
    if (size := fields.get("SZ", "8").strip()) not in ("8", "8:8"):
        raise tree.error(f"the board has size {shorten(size)}; only 8 can be read")
    coloured = _read_moves(tree)
    start = _read_start(tree, fields.get("PL"), first_by_black=coloured[0][0] if coloured else True)
    result, ending = _read_result(tree, fields.get("RE", ""))
    clock = f"{fields.get('TM', '')} {fields.get('OT', '')}"
    return tree.make_game(
        start,
        coloured,
        fields,
        result=result,
        ending=ending,
        # A rank such as `5d` is no rating in numbers, and is left out.
        black_rating=parse_number(fields.get("BR", "")),
        white_rating=parse_number(fields.get("WR", "")),
        black_clock=clock,
        white_clock=clock,
    )


def _read_point(text: str) -> int:
    name = text.strip().lower()
    if pair := _LETTER_PAIR.fullmatch(name):
        return parse_move(pair[1] + str("abcdefgh".index(pair[2]) + 1))
    return parse_move(name)


def _read_moves(tree: GameTree) -> list[ColouredMove]:
    """Every move of the main line as (by black, move, note). V, the value of a node, is for black; notes are not."""
    moves: list[ColouredMove] = []
    for node in tree.nodes:
        value = next((parse_number(item.values[0]) for item in node if item.name == "V"), None)
        for item in node:
            if item.name in ("AB", "AW", "AE", "PL") and moves:
                raise tree.error(f"{item.name} (line {item.line}) changes the board after the first move")
            if item.name not in ("B", "W"):
                continue
            by_black = item.name == "B"
            note = None if value is None else MoveNote(value if by_black else -value)
            moves.append((by_black, _read_move(tree, item), note))
    return moves


def _read_move(tree: GameTree, item: Property) -> int:
    if len(item.values) > 1:
        raise tree.error(f"{item.name} (line {item.line}) has {len(item.values)} values; a move has one")
    if item.values[0].strip().lower() in ("", "tt"):  # a pass, as SGF files of Go write it
        return PASS
    try:
        return _read_point(item.values[0])
    except OthelloError as error:
        raise tree.error(f"{item.name} (line {item.line}): {error}") from error


def _read_start(tree: GameTree, player: str | None, first_by_black: bool) -> Position:
    """The position before the first move: the usual one unless AB, AW or AE set up another.

    The side to move in a setup without PL is whoever moves first.
    """
    masks = {"AB": 0, "AW": 0, "AE": 0}
    for item in tree.properties():
        if item.name in masks:
            try:
                for value in item.values:
                    masks[item.name] |= _read_area(value)
            except OthelloError as error:
                raise tree.error(f"{item.name} (line {item.line}): {error}") from error
    black, white, empty = masks.values()
    side = "" if player is None else player.strip().lower()
    if player is not None and side not in _SIDES:
        raise tree.error(f"PL {shorten(player)} is no side to move; use B or W")
    if not black | white | empty:
        start = Position.start()
        return Position.from_discs(start.black, start.white, _SIDES.get(side, True))
    if empty & (black | white) or (black | white | empty) & _CENTRE != _CENTRE:
        # SGF does not say whether a setup replaces the four discs of the usual start or is added to them.
        raise tree.error("AB, AW and AE must give each of d4, e4, d5 and e5, and no square twice")
    try:
        return Position.from_discs(black, white, _SIDES.get(side, first_by_black))
    except OthelloError as error:
        raise tree.error(f"AB and AW: {error}") from error


def _read_area(text: str) -> int:
    """The mask of a square `d4` or a rectangle `c3:f6`."""
    corners = [_read_point(name) for name in text.split(":")]
    if len(corners) > 2 or PASS in corners:
        raise InvalidMoveError(f"{shorten(text)} is not a square or a rectangle such as c3:f6")
    (top, left), (bottom, right) = divmod(corners[0], 8), divmod(corners[-1], 8)
    if top > bottom or left > right:
        raise InvalidMoveError(f"rectangle {shorten(text)} does not go from top left to bottom right")
    return sum(1 << (8 * row + column) for row in range(top, bottom + 1) for column in range(left, right + 1))


def _read_result(tree: GameTree, text: str) -> tuple[int | None, str]:
    """(black's margin or None, ending). Who resigned or ran out of time lost all 64 discs, as game servers count it."""
    result = text.strip().lower()
    if result in ("", "?", "void"):
        return None, ""
    if result in ("0", "draw"):
        return 0, ""
    match = _RESULT.fullmatch(result)
    if match is not None:
        sign = 1 if _SIDES[match["winner"]] else -1
        if match["margin"] in _DECIDED:
            return 64 * sign, _DECIDED[match["margin"]]
        if not match["margin"]:
            return None, ""
        margin = parse_number(match["margin"])
        if margin is not None and margin == int(margin) and margin > 0:
            return sign * int(margin), ""
    raise tree.error(f"RE {shorten(text)} is not a result; one looks like B+12, W+R, B+T or 0")


def format_sgf(games: Iterable[Game]) -> str:
    """Games as SGF, one a line. What SGF has no place for is left out: seconds, unequal clocks, the margin of a
    resigned game, the game type of GGF."""
    return "".join(f"{_format_game(game)}\n" for game in games)


def _format_game(game: Game) -> str:
    clock = game.black_clock if game.black_clock == game.white_clock else ""
    header = [
        ("FF", "4"),
        ("GM", "2"),
        ("SZ", "8"),
        ("CA", "UTF-8"),
        ("PB", game.black),
        ("PW", game.white),
        ("BR", "" if game.black_rating is None else format_number(game.black_rating)),
        ("WR", "" if game.white_rating is None else format_number(game.white_rating)),
        ("DT", game.date),
        ("PC", game.place),
        ("EV", game.event),
        ("GC", game.comment),
        ("TM" if parse_number(clock) is not None else "OT", clock),
        ("RE", _format_result(game)),
        ("TH", format_solved(game)),
    ]
    nodes = [format_properties(header) + _format_start(game.start)]
    by_black = game.start.black_to_move
    for move, note in zip(game.moves, game.notes or [None] * len(game.moves), strict=True):
        node = f"{'B' if by_black else 'W'}[{'PA' if move == PASS else move_name(move)}]"
        if note is not None and note.score_discs is not None:
            node += f"V[{format_number(note.score_discs if by_black else -note.score_discs)}]"
        nodes.append(node)
        by_black = not by_black
    return f"(;{';'.join(nodes)})"


def _format_start(start: Position) -> str:
    if start == Position.start():
        return ""
    areas = [("AB", start.black), ("AW", start.white), ("AE", start.empty_mask & _CENTRE)]
    points = [(name, "".join(f"[{square_name(square)}]" for square in squares_in(mask))) for name, mask in areas]
    setup = "".join(f"{name}{squares}" for name, squares in points if squares)
    return f"{setup}PL[{'B' if start.black_to_move else 'W'}]"


def _format_result(game: Game) -> str:
    if game.result is None:
        return "?"
    winner = "B" if game.result > 0 else "W"
    if game.ending in DECIDED:
        # A lost game needs a winner; where the record has none, saying nothing is all that is true.
        return "?" if game.result == 0 else f"{winner}+{game.ending[0].upper()}"
    return "0" if game.result == 0 else f"{winner}+{abs(game.result)}"
