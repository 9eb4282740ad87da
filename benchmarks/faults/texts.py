"""Damaged records, boards, tuples, settings, players and journals. Read ``trials.py`` first.

A ``Reader`` is a parser with what it takes to try it: inputs that are good, pieces that mean something to it, and how
an input is read and looked at. Here good inputs are damaged by chance; ``guided.py`` looks for ways through the code.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.faults.trials import Damage, Trial, Wrong
from othello_nn.arena.openings import leouski60
from othello_nn.arena.tournament import Journal, TournamentResult, play_tournament, round_robin
from othello_nn.arena.workers import Entrant
from othello_nn.config import Config, load_preset, preset_names
from othello_nn.game import Position, parse_transcript
from othello_nn.game.formats.files import (
    format_ggf,
    format_obf,
    format_sgf,
    format_transcripts,
    parse_ggf,
    parse_obf,
    parse_sgf,
    parse_transcripts,
    parse_wthor,
)
from othello_nn.game.formats.obf import ObfEntry
from othello_nn.game.record import Game, MoveNote
from othello_nn.game.rules import PASS, flips_mask, legal_mask, play
from othello_nn.nets.tuple_sets import tuple_set
from othello_nn.players.catalog import find_player
from othello_nn.players.classic.league_tuples import Tuple, format_tuples, parse_tuples, tuples_evaluator
from othello_nn.players.spec import KEYS

SEED = 1


@dataclass(frozen=True)
class Reader:
    """How a kind of input is tried."""

    samples: list[bytes]
    """Good inputs."""
    words: list[bytes]
    """Pieces of such inputs."""
    read: Callable[[bytes], object]
    """Reads an input, and looks that what was made of it is right; an ``OthelloError`` refuses it."""
    demanding: bool = True
    """Whether all samples must be accepted: else they are only where the damage begins."""


def trial_of(make: Callable[[], Reader]) -> Trial:
    """Its good inputs, damaged."""
    reader = make()
    damage = Damage(reader.samples, reader.words)

    def trial(rng: random.Random) -> bool:
        data, whole = damage(rng)
        try:
            reader.read(data)
        except ValueError as error:
            if whole and reader.demanding:
                raise Wrong(f"a good input is refused: {str(error)[:200]}") from None
            raise
        return True

    return trial


def text_of(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def random_game(rng: random.Random, plies: int = 80) -> Game:
    """By random legal play, with what a record may hold."""
    position, moves = Position.start(), []
    while not position.is_over and len(moves) < plies:
        move = PASS if position.must_pass else rng.choice(position.legal_moves)
        position = position.play(move)
        moves.append(move)
    notes = tuple(MoveNote(rng.uniform(-64, 64), rng.uniform(0, 9)) for _ in moves)
    return Game(moves=tuple(moves), notes=notes, black="Ann [1]", white="B\\ob", date="2026-01-02", place="here")


def some_games() -> list[Game]:
    rng = random.Random(SEED)
    return [random_game(rng, plies) for plies in (3, 20, 80, 80)]


def check_game(game: Game) -> None:
    """Replayed with the plain rules, every move must be legal and the result that of the board."""
    mover, opponent = game.start.mover, game.start.opponent
    for move in game.moves:
        if move == PASS:
            legal = not legal_mask(mover, opponent) and legal_mask(opponent, mover)
        else:
            legal = not (mover | opponent) >> move & 1 and flips_mask(mover, opponent, move)
        if not legal:
            raise Wrong(f"an illegal move {move} was accepted")
        mover, opponent = play(mover, opponent, move)
    if (game.final.mover, game.final.opponent) != (mover, opponent):
        raise Wrong("the final position is not that of the moves")
    if game.final.is_over and game.ending in ("", "agreed") and game.result != game.final.black_score():
        raise Wrong("the result is not that of the board")


def _essence(games: list[Game]) -> list[tuple[Any, ...]]:
    return [(game.start, game.moves, game.result) for game in games]


def _of_games(parse: Callable[[str], list[Game]], write: Callable[[list[Game]], str], words: list[bytes]) -> Reader:
    games = some_games()

    def read(data: bytes) -> None:
        found = parse(text_of(data))
        for game in found:
            check_game(game)
        if found and all(game.moves for game in found) and _essence(parse(write(found))) != _essence(found):
            raise Wrong("what was read is another game when it is written and read again")

    return Reader([write(games[:1]).encode(), write(games[1:]).encode()], words, read)


TREE = [
    b"(;",
    b";)",
    b")",
    b"]",
    b"[",
    b"\\",
    b"B[",
    b"W[pass]",
    b"GM[Othello]",
    b"BO[8 ",
    b"RE[",
    b"TI[",
    b"//",
    b"\n",
]


def ggf() -> Reader:
    return _of_games(parse_ggf, format_ggf, TREE)


def sgf() -> Reader:
    return _of_games(parse_sgf, format_sgf, [*TREE, b"AB[", b"AW[", b"PL[W]", b"SZ[8]", b"(;GM[2]"])


def transcripts() -> Reader:
    return _of_games(
        parse_transcripts, format_transcripts, [b"f5", b"D6", b"--", b"pa", b"1.", b"#", b"\n", b" ", b"z9"]
    )


def wthor() -> Reader:
    records = []
    for game in some_games():
        squares = [move for move in game.moves if move != PASS]
        moves = bytes(10 * (square // 8 + 1) + square % 8 + 1 for square in squares)
        records.append(struct.pack("<HHHBB60s", 0, 1, 2, game.final.black_discs, 32, moves))
    whole = struct.pack("<4BIHH4B", 19, 99, 12, 31, len(records), 0, 1997, 8, 0, 0, 0) + b"".join(records)
    sample = _accepted_part(whole, len(records))

    def read(data: bytes) -> None:
        for game in parse_wthor(data):
            check_game(game)

    return Reader([sample], [b"\0", b"\xff", b"\x0b", b"\x58", sample[:16]], read)


def _accepted_part(data: bytes, count: int) -> bytes:
    """The file without the games that are unfinished, which WTHOR has no way to say of."""
    header, size = data[:16], (len(data) - 16) // count
    games = [data[16 + size * number :][:size] for number in range(count)]
    kept = []
    for game in games:
        try:
            parse_wthor(header[:4] + (1).to_bytes(4, "little") + header[8:] + game)
            kept.append(game)
        except ValueError:
            continue
    return header[:4] + len(kept).to_bytes(4, "little") + header[8:] + b"".join(kept)


def obf() -> Reader:
    rng = random.Random(SEED)
    entries = []
    for plies in (10, 30, 50):
        position = random_game(rng, plies).final
        entries.append(ObfEntry(position, {move: rng.randint(-64, 64) for move in position.legal_moves}))

    def read(data: bytes) -> None:
        found = parse_obf(text_of(data))
        for entry in found:
            for move in entry.scores:
                entry.position.play(move)
        if [(e.position, e.scores) for e in parse_obf(format_obf(found))] != [(e.position, e.scores) for e in found]:
            raise Wrong("what was read is another list when it is written and read again")

    words = [b";", b":", b"X", b"O", b"-", b"a1:", b"+64", b" ", b"\n", b"%"]
    return Reader([format_obf(entries).encode()], words, read)


def boards() -> Reader:
    games = some_games()
    samples = [game.final.to_text().encode() for game in games] + [str(games[1].final).encode(), b"start", b"f5d6c3"]

    def read(data: bytes) -> None:
        position = Position.parse(text_of(data))
        if position.mover & position.opponent or Position.parse(position.to_text()) != position:
            raise Wrong("a position that is another when it is written and read again")

    words = [b"X", b"O", b"-", b"*", b"o", b" ", b"\n", b"X to move", b"/", b"f5", b"|"]
    return Reader(samples, words, read, demanding=False)


def moves() -> Reader:
    samples = ["".join(f"{'abcdefgh'[m % 8]}{m // 8 + 1}" for m in game.moves if m != PASS) for game in some_games()]

    def read(data: bytes) -> None:
        check_game(Game(moves=tuple(parse_transcript(text_of(data)))))

    words = [b"f5", b"--", b"pass", b"PA", b"1.", b" ", b"\t", b"h9"]
    return Reader([text.encode() for text in samples], words, read, demanding=False)


def tuples() -> Reader:
    rng = random.Random(SEED)
    made = [
        Tuple((squares,), tuple(rng.uniform(-5, 5) for _ in range(3 ** len(squares))))
        for squares in tuple_set("all-2")[:8]
    ]

    def read(data: bytes) -> None:
        found = parse_tuples(text_of(data))
        if parse_tuples(format_tuples(found)) != found:
            raise Wrong("what was read are other tuples when they are written and read again")
        tuples_evaluator(found, "damaged")

    samples = [format_tuples(made).encode(), format_tuples(made[:1]).encode()]
    return Reader(samples, [b"{", b"}", b" ", b"2", b"63", b"\n"], read)


def _check_config(config: Config) -> None:
    if Config.from_dict(config.as_dict()) != config:
        raise Wrong("a configuration that is another when it is written and read again")


def settings() -> Reader:
    """``--set KEY=VALUE``, several at once, a line each; the first sign says for which preset."""
    configs = [load_preset(name) for name in preset_names()]
    flat = []
    for number, config in enumerate(configs):
        for name, value in config.as_dict().items():
            inner = value.items() if isinstance(value, dict) else [("", value)]
            flat += [
                bytes([number]) + f"{name}{'.' if key else ''}{key}={json.dumps(item)}".encode() for key, item in inner
            ]
    words = [
        b"=",
        b".",
        b"[",
        b"]",
        b"{",
        b"}",
        b'"',
        b"net.",
        b"td.",
        b"kind=",
        b"true",
        b"auto",
        b",",
        b"net.net.net.",
    ]

    def read(data: bytes) -> None:
        if data:
            _check_config(configs[data[0] % len(configs)].changed(text_of(data[1:]).split("\n")))

    return Reader(flat, [*words, b"\n", *(line[1:] + b"\n" for line in flat[::7])], read, demanding=False)


def config_files() -> Reader:
    """A run's config.json."""
    from othello_nn.learn.runs import Run

    samples = [json.dumps(load_preset(name).as_dict()).encode() for name in preset_names()]
    folder = Path("damaged")
    folder.mkdir()

    def read(data: bytes) -> None:
        (folder / "config.json").write_bytes(data)
        _check_config(Run.open(Path(), "damaged").config)

    words = [b"{", b"}", b"[", b"]", b'"', b":", b",", b"null", b"true", b'"net":', b'"kind":', b"\xff"]
    return Reader(samples, words, read)


def players() -> Reader:
    """What is typed for a player; it is looked up, not made."""
    samples = [b"champion:depth=4,threads=2", b"swh", b"mobility:nodes=1000,probcut=off", b"gtp:true -x:timeout=5"]
    words = [f"{key}=".encode() for key in KEYS] + [b":", b",", b"=", b"gtp:", b"nboard:", b"module:", b"tuples:", b"'"]
    return Reader(samples, words, lambda data: find_player(text_of(data)), demanding=False)


def journals() -> Reader:
    names, openings, path = ["swh", "most-discs", "random"], leouski60()[:2], Path("games.jsonl")
    play_tournament(names, openings, 4, journal=Journal(path, {"players": names}))
    pairings = round_robin([Entrant(name) for name in names], openings, 4)
    sample = path.read_bytes()
    lines = sample.splitlines(keepends=True)
    words = [b"\n", b"{", b"}", b"[", b"]", b'"', b":", b",", b"null", b'"moves": ', b'"result": ', *lines[:2]]

    def read(data: bytes) -> None:
        path.write_bytes(data)
        with Journal(path, {"players": names}) as journal:
            found = journal.games(pairings)
        for one in found:
            check_game(one.game)
        for standing in TournamentResult(tuple(names), tuple(found), 0.0).standings():
            json.dumps(standing.as_dict(), allow_nan=False)

    return Reader([sample, b"".join(lines[:3])], words, read)


READERS: dict[str, Callable[[], Reader]] = {
    "GGF": ggf,
    "SGF": sgf,
    "WTHOR": wthor,
    "OBF": obf,
    "transcripts": transcripts,
    "moves": moves,
    "boards": boards,
    "League tuples": tuples,
    "--set": settings,
    "config.json": config_files,
    "players": players,
    "journals": journals,
}
KINDS: dict[str, Callable[[], Trial]] = {name: partial(trial_of, make) for name, make in READERS.items()}
