"""WTHOR, the database of the French Othello federation: read games (.wtb), players (.jou) and tournaments (.trn).

All three are little-endian binary files with the same 16-byte header. A game is 68 bytes: tournament, black, white,
black's discs at the end, black's discs with perfect play from some number of empties on, and 60 moves without passes.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from othello_nn.errors import OthelloError
from othello_nn.game.record import ErrorHandler, Game, RecordError, collect

HEADER_BYTES = 16
GAME_BYTES = 68
PLAYER_BYTES = 20
TOURNAMENT_BYTES = 26
DEFAULT_THEORETICAL_EMPTIES = 22

_HEADER = struct.Struct("<4BIHH4B")
_GAME = struct.Struct("<3H2B60s")

# A move is 10·row + column: a1 = 11, b1 = 12, ..., h8 = 88.
_SQUARES = {10 * row + column: 8 * (row - 1) + column - 1 for row in range(1, 9) for column in range(1, 9)}


@dataclass(frozen=True, slots=True)
class WthorHeader:
    games: int
    names: int
    year: int
    board_size: int
    solitaire: int
    theoretical_empties: int


def parse_wthor(
    data: bytes,
    players: Sequence[str] = (),
    tournaments: Sequence[str] = (),
    on_error: ErrorHandler | None = None,
) -> list[Game]:
    """The games of a .wtb file.

    `players` and `tournaments` come from `parse_wthor_names`; without them the games carry numbers ("player 12"). A
    game that stops before its end keeps the score it was given. With `on_error`, games that cannot be used are
    reported to it and left out.
    """
    header = _read_header(data)
    if header.board_size not in (0, 8):
        raise RecordError(f"byte 12: the board has size {header.board_size}; only 8 (or 0) can be read", byte=12)
    if header.solitaire:
        raise RecordError("byte 13: this is a file of solitaires (problems), not of games", byte=13)
    _check_length(data, header.games, GAME_BYTES, "games")
    date = str(header.year) if header.year else ""

    def name_of(number: int, names: Sequence[str], kind: str) -> str:
        if not names:
            return f"{kind} {number}"
        if number >= len(names):
            raise OthelloError(f"{kind} {number} is not in the list of {len(names)} names; is it a newer file's list?")
        return names[number]

    def read_game(index: int) -> Game:
        offset = HEADER_BYTES + GAME_BYTES * index
        tournament, black, white, discs, theoretical_discs, moves = _GAME.unpack_from(data, offset)
        try:
            return Game(
                moves=_read_moves(moves),
                passes_left_out=True,
                black=name_of(black, players, "player"),
                white=name_of(white, players, "player"),
                event=name_of(tournament, tournaments, "tournament"),
                date=date,
                result=_margin(discs),
                theoretical_result=_margin(theoretical_discs),
                theoretical_empties=header.theoretical_empties,
            )
        except OthelloError as error:
            raise RecordError(f"game {index + 1} (byte {offset}): {error}", byte=offset) from error

    return list(collect(range(header.games), read_game, on_error))


def parse_wthor_names(data: bytes, record_bytes: int) -> list[str]:
    """The names of a .jou file (`record_bytes=PLAYER_BYTES`) or a .trn file (`record_bytes=TOURNAMENT_BYTES`)."""
    header = _read_header(data)
    _check_length(data, header.names, record_bytes, "names")
    ends = range(HEADER_BYTES, len(data), record_bytes)
    return [data[start : start + record_bytes].split(b"\0")[0].decode("latin-1") for start in ends]


def _read_header(data: bytes) -> WthorHeader:
    if len(data) < HEADER_BYTES:
        raise RecordError(f"byte {len(data)}: the file ends inside its 16-byte header", byte=len(data))
    _, _, _, _, games, names, year, board_size, solitaire, empties, _ = _HEADER.unpack_from(data)
    return WthorHeader(games, names, year, board_size, solitaire, empties or DEFAULT_THEORETICAL_EMPTIES)


def _check_length(data: bytes, count: int, record_bytes: int, what: str) -> None:
    expected = HEADER_BYTES + count * record_bytes
    if len(data) == expected:
        return
    place = min(len(data), expected)
    problem = "the file is cut off" if len(data) < expected else "something follows the last one"
    raise RecordError(
        f"byte {place}: the header announces {count} {what} of {record_bytes} bytes, {expected} bytes in all, but the "
        f"file has {len(data)}: {problem}",
        byte=place,
    )


def _read_moves(data: bytes) -> tuple[int, ...]:
    played = data.rstrip(b"\0")
    try:
        return tuple([_SQUARES[byte] for byte in played])
    except KeyError:
        number, byte = next((number, byte) for number, byte in enumerate(played, 1) if byte not in _SQUARES)
        if byte == 0:
            raise OthelloError(f"move {number} is missing, but moves follow it") from None
        raise OthelloError(f"move {number} is {byte}, which is no square (11 is a1, 88 is h8)") from None


def _margin(black_discs: int) -> int:
    if black_discs > 64:
        raise OthelloError(f"black cannot have {black_discs} discs")
    return 2 * black_discs - 64
