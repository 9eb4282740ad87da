"""Whatever somebody has on the clipboard: a game or a position, recognised by its look.

Transcripts with or without numbers, a page of PlayOK with its headers, boards of 64 signs in one line or in eight, GGF,
SGF, OBF, lines of NBoard's protocol, and links to this page. The formats have their readers in ``game/formats``; here
is only how they are told apart, and an error that says how the text was read and what is wrong with it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

from othello_nn.errors import OthelloError
from othello_nn.game.formats.files import parse_games, parse_obf
from othello_nn.game.position import Position, complete_moves
from othello_nn.game.record import Game
from othello_nn.game.syntax import looks_like_board, scan_moves

_TREE = re.compile(r"\(\s*;")
_HEADER = re.compile(r"^\s*\[\s*(\w+)\s+\"([^\"\n]*)\"\s*\]\s*$", re.MULTILINE)
_SCORE = re.compile(r"(?<![\w-])(?:[0-9]{1,2}\s*[-:]\s*[0-9]{1,2}|1/2-1/2|\*)\s*$")
_NBOARD_MOVE = re.compile(r"^\s*move\s+(\S+)", re.MULTILINE)
_LINK = re.compile(r"(?:\S+://\S*?)?#([\w.~%/=&+@-]*)")
_BOARD_AND_MOVES = re.compile(r"\s*((?:[-.XOxo*_]\s*){64}[XOxo*])\s+([a-hA-H][1-8].*)", re.DOTALL)


class PasteError(OthelloError):
    """A text that is neither a game nor a position."""


@dataclass(frozen=True)
class Pasted:
    """What was found: where the game begins, its moves with all passes, and what it was taken for."""

    start: Position
    moves: tuple[int, ...]
    kind: str
    note: str = ""
    """More to be said: names, or that more games were there."""
    ply: int | None = None
    """Which position was meant, where a link says it."""


def read_pasted(text: str) -> Pasted:
    """The game or the position in a text; ``PasteError`` if it holds none."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").strip("\ufeff \n\t`\"'")
    if not text:
        raise PasteError("there is nothing to read: copy a game or a position first")
    for what, looks, read in _KINDS:
        if looks(text):
            try:
                return read(text)
            except OthelloError as error:
                raise PasteError(f"read as {what}: {error}") from None
    raise PasteError("this is neither a game nor a position: write moves such as f5d6c3, or 64 signs and a side")


# --- each kind -------------------------------------------------------------------------------------------------------


def _link(text: str) -> Pasted:
    match = _LINK.fullmatch(text)
    assert match is not None
    return read_fragment(match[1])


def read_fragment(fragment: str) -> Pasted:
    """The end of a link: ``f5d6c3``, ``f5d6c3@2`` (the position after two moves), ``<64><side>/moves@ply``."""
    words, _, ply = unquote(fragment).partition("@")
    board, slash, moves = words.rpartition("/")
    start = Position.parse(board) if slash else Position.start()
    if not slash and looks_like_board(moves) and moves:
        start, moves = Position.parse(moves), ""
    played, _ = complete_moves(start, scan_moves(moves))
    if ply and not (ply.isascii() and ply.isdigit() and len(ply) < 4):
        raise PasteError(f"{ply[:10]!r} is no number of moves")
    return Pasted(start, played, "link", ply=int(ply) if ply else None)


def write_fragment(start: Position, moves: str, ply: int | None) -> str:
    """The end of a link, as ``read_fragment`` reads it."""
    board = "" if start == Position.start() else start.to_text().replace(" ", "") + "/"
    return f"{board}{moves}{'' if ply is None else f'@{ply}'}"


def _tree(text: str) -> Pasted:
    games = parse_games(text[_tree_start(text) :])
    if not games:
        raise PasteError("it holds no game")
    return _of_game(games[0], "SGF" if _is_sgf(text) else "GGF", len(games))


def _tree_start(text: str) -> int:
    match = _TREE.search(text)
    assert match is not None
    return match.start()


def _is_sgf(text: str) -> bool:
    return bool(re.search(r"\bGM\s*\[\s*[0-9]", text))


def _of_game(game: Game, kind: str, games: int = 1) -> Pasted:
    names = f"{game.black or 'black'} – {game.white or 'white'}" if game.black or game.white else ""
    more = f"the first of {games} games" if games > 1 else ""
    return Pasted(game.start, game.moves, kind, ", ".join(part for part in (names, more) if part))


def _headed(text: str) -> Pasted:
    """As PlayOK writes games: lines in brackets, numbered moves, the score at the end."""
    names = {name.lower(): value for name, value in _HEADER.findall(text)}
    found = _moves(_HEADER.sub("", text))
    players = f"{names['black']} – {names['white']}" if {"black", "white"} <= names.keys() else ""
    return Pasted(found.start, found.moves, "a numbered game", players)


def _obf(text: str) -> Pasted:
    entries = parse_obf(text)
    if not entries:
        raise PasteError("it holds no position")
    more = f"the first of {len(entries)} positions" if len(entries) > 1 else ""
    return Pasted(entries[0].position, (), "OBF", more)


def _board(text: str) -> Pasted:
    return Pasted(Position.parse(text), (), "board")


def _board_and_moves(text: str) -> Pasted:
    match = _BOARD_AND_MOVES.fullmatch(text)
    assert match is not None
    start = Position.parse(match[1])
    return Pasted(start, complete_moves(start, scan_moves(match[2]))[0], "board and moves")


def _protocol(text: str) -> Pasted:
    moves = " ".join(move.partition("/")[0] for move in _NBOARD_MOVE.findall(text))
    return Pasted(Position.start(), complete_moves(Position.start(), scan_moves(moves))[0], "NBoard")


def _moves(text: str) -> Pasted:
    text = _SCORE.sub("", text.strip()).strip()
    if text.lower() in ("", "start"):
        return Pasted(Position.start(), (), "start")
    return Pasted(Position.start(), complete_moves(Position.start(), scan_moves(text))[0], "transcript")


_KINDS = (
    ("a game in GGF or SGF", lambda text: _TREE.search(text) is not None, _tree),
    ("a game with headers", lambda text: _HEADER.search(text) is not None, _headed),
    ("a link", lambda text: _LINK.fullmatch(text) is not None, _link),
    ("positions in OBF", lambda text: ";" in text and looks_like_board(text.split(";")[0]), _obf),
    ("a board with moves", lambda text: _BOARD_AND_MOVES.fullmatch(text) is not None, _board_and_moves),
    ("a board", looks_like_board, _board),
    ("lines of NBoard", lambda text: _NBOARD_MOVE.match(text) is not None, _protocol),
    ("moves", lambda text: True, _moves),
)
