"""Files of games: read whatever a user has, write GGF, SGF or transcripts.

`read_games` looks at the content, and at the ending of the name where the content does not tell. What a game is stands
in `record.py`; each format has a module of its own (`ggf.py`, `sgf.py`, `wthor.py`). Positions with scores
(`.obf`) are no games: `read_obf` reads them.
"""

import re
from collections.abc import Iterable
from os import PathLike
from pathlib import Path

from othello_nn.errors import OthelloError
from othello_nn.files import write_whole
from othello_nn.game.formats.ggf import format_ggf, parse_ggf
from othello_nn.game.formats.obf import ObfEntry, format_obf, parse_obf
from othello_nn.game.formats.sgf import format_sgf, parse_sgf
from othello_nn.game.formats.wthor import (
    GAME_BYTES,
    HEADER_BYTES,
    PLAYER_BYTES,
    TOURNAMENT_BYTES,
    parse_wthor,
    parse_wthor_names,
)
from othello_nn.game.notation import format_transcript
from othello_nn.game.position import Position
from othello_nn.game.record import ENDINGS, ErrorHandler, Game, MoveNote, RecordError, collect
from othello_nn.game.syntax import scan_moves

__all__ = [
    "ENDINGS",
    "Game",
    "MoveNote",
    "ObfEntry",
    "RecordError",
    "format_ggf",
    "format_obf",
    "format_sgf",
    "format_transcripts",
    "parse_content",
    "parse_games",
    "parse_ggf",
    "parse_obf",
    "parse_sgf",
    "parse_transcripts",
    "parse_wthor",
    "parse_wthor_names",
    "read_games",
    "read_obf",
    "write_games",
]

_TREE_START = re.compile(r"\s*(?:[0-9]+\s*)?\(\s*;")
_GAME_PROPERTY = re.compile(r"\bG[a-z]*M[a-z]*\s*\[\s*(\w+)\s*\]|\bgm\s*\[\s*(\w+)\s*\]")
_OBF_START = re.compile(r"(?:\s*%[^\n]*\n)*\s*(?:[^\s;%]\s*){65};")
_NOT_GAMES = {
    ".jou": "a list of players; give the .wtb file, and the list is found beside it",
    ".trn": "a list of tournaments; give the .wtb file, and the list is found beside it",
    ".obf": "a list of positions; read it with read_obf",
}


def read_games(path: str | PathLike[str], on_error: ErrorHandler | None = None) -> list[Game]:
    """The games of a file: GGF, SGF, WTHOR, or transcripts one a line.

    The first thing that is wrong is a RecordError that names the file and the place. With `on_error`, games that cannot
    be used are reported to it and left out; a file that cannot be taken apart into games is an error all the same.
    """
    path = Path(path)

    def report(error: RecordError) -> None:
        assert on_error is not None
        on_error(error.prefixed(path.name))

    if reason := _NOT_GAMES.get(path.suffix.lower()):
        raise RecordError(f"{path.name} holds no games: it is {reason}")
    data = _content(path)
    handler = None if on_error is None else report
    if path.suffix.lower() == ".wtb" or _looks_like_wthor(data):
        players = _names_beside(path, ".jou", PLAYER_BYTES)
        tournaments = _names_beside(path, ".trn", TOURNAMENT_BYTES)
        return _in_file(path, lambda: parse_wthor(data, players, tournaments, handler))
    return _in_file(path, lambda: parse_games(_decode(data), handler, path.suffix.lower()))


def parse_content(data: bytes, on_error: ErrorHandler | None = None) -> list[Game]:
    """The games of a file without a name, such as one from stdin; positions (OBF) are games without moves."""
    if _looks_like_wthor(data):
        return parse_wthor(data, on_error=on_error)
    text = _decode(data)
    if _OBF_START.match(text):
        return [entry.as_game() for entry in parse_obf(text, on_error)]
    return parse_games(text, on_error)


def parse_games(text: str, on_error: ErrorHandler | None = None, suffix: str = "") -> list[Game]:
    """The games of a text: GGF, SGF, or transcripts one a line. ``suffix`` decides where the text does not tell."""
    if not _TREE_START.match(text) and suffix not in (".ggf", ".sgf"):
        return parse_transcripts(text, on_error)
    return (parse_sgf if _is_sgf(text, suffix) else parse_ggf)(text, on_error)


def read_obf(path: str | PathLike[str], on_error: ErrorHandler | None = None) -> list[ObfEntry]:
    """The positions of an OBF file."""
    path = Path(path)
    return _in_file(path, lambda: parse_obf(_decode(_content(path)), on_error))


def write_games(path: str | PathLike[str], games: Iterable[Game]) -> None:
    """Write games in the format that the ending of the name says: .ggf, .sgf or .txt (transcripts).

    An ``OSError`` leaves an older file as it was.
    """
    path = Path(path)
    formats = {".ggf": format_ggf, ".sgf": format_sgf, ".txt": format_transcripts}
    if path.suffix.lower() not in formats:
        raise RecordError(f"{path.name}: games can be written as {', '.join(formats)}; choose one of these endings")
    try:
        data = formats[path.suffix.lower()](games).encode()
    except UnicodeEncodeError as error:
        raise RecordError(f"{path.name}: a name holds half a character ({error.reason}); correct it first") from error
    write_whole(path, data)


def parse_transcripts(text: str, on_error: ErrorHandler | None = None) -> list[Game]:
    """Games from the usual start, one transcript a line. Blank lines and lines that start with # or % are skipped."""
    lines = ((number, line.strip()) for number, line in enumerate(text.split("\n"), start=1))
    wanted = ((number, line) for number, line in lines if line and line[0] not in "#%")

    def read_line(numbered_line: tuple[int, str]) -> Game:
        number, line = numbered_line
        try:
            return Game(moves=tuple(scan_moves(line)), passes_left_out=True)
        except OthelloError as error:
            raise RecordError(f"line {number}: {error}", line=number) from error

    return list(collect(wanted, read_line, on_error))


def format_transcripts(games: Iterable[Game]) -> str:
    """One transcript a line. Games from another start have no transcript, and are refused."""
    lines = []
    for number, game in enumerate(games, start=1):
        if game.start != Position.start() or not game.moves:
            raise RecordError(f"game {number} does not start from the usual position with a move; write .ggf or .sgf")
        lines.append(f"{format_transcript(game.moves)}\n")
    return "".join(lines)


def _in_file(path: Path, parse):
    try:
        return parse()
    except RecordError as error:
        raise error.prefixed(path.name) from error


def _content(path: Path) -> bytes:
    if path.is_char_device():
        raise RecordError(f"{path} is a device, not a file")  # some have no end
    return path.read_bytes()


def _decode(data: bytes) -> str:
    """Text files are UTF-8, or Latin-1 if old; every byte means something in Latin-1, so this cannot fail."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _looks_like_wthor(data: bytes) -> bool:
    """The length fits the game count of the header. Text files do not pass: they have no NUL bytes."""
    if len(data) < HEADER_BYTES or b"\0" not in data:
        return False
    return len(data) == HEADER_BYTES + GAME_BYTES * int.from_bytes(data[4:8], "little")


def _is_sgf(text: str, suffix: str) -> bool:
    """SGF numbers its games (GM[2]) where GGF names them (GM[Othello])."""
    match = _GAME_PROPERTY.search(text)
    if match is None:
        return suffix == ".sgf"
    return (match[1] or match[2]).isdigit()


def _names_beside(path: Path, suffix: str, record_bytes: int) -> list[str]:
    """The WTHOR names that lie beside a .wtb file: the list with the same stem, or else the only one in the folder."""
    lists = sorted(file for file in path.parent.iterdir() if file.suffix.lower() == suffix)
    same_stem = [file for file in lists if file.stem.lower() == path.stem.lower()]
    chosen = same_stem or (lists if len(lists) == 1 else [])
    if not chosen:
        return []
    return _in_file(chosen[0], lambda: parse_wthor_names(chosen[0].read_bytes(), record_bytes))
