"""``play.py book``: build an opening book, add games, look into it, play with it."""

from __future__ import annotations

import json
import random
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from othello_nn.arena.journal import is_journal, read_journal
from othello_nn.book import Book, OpenBook
from othello_nn.book.grow import add_game, add_replies, deepen, play_games
from othello_nn.cli.base import INTERRUPTED, Failure, UsageError
from othello_nn.cli.main import BOOK_DEPTH, parse
from othello_nn.cli.positions import default_player, read_position
from othello_nn.errors import OthelloError
from othello_nn.game.formats.files import parse_transcripts, read_games
from othello_nn.game.position import Position
from othello_nn.game.record import Game
from othello_nn.players.catalog import make_player
from othello_nn.players.judge import PlayerJudge
from othello_nn.players.spec import parse_spec
from othello_nn.program import PLAY, note
from othello_nn.progress import progress
from othello_nn.resources import find_book


def book(arguments: Namespace) -> int:
    """``play.py book``."""
    return {"build": _build, "add": _add, "show": _show, "play": _play}[arguments.action](arguments)


def _open(arguments: Namespace) -> Book:
    """The book to be written, with its judge. A judge that asked the book would only repeat it."""
    spec = parse_spec(arguments.player or f"{default_player()}:depth={BOOK_DEPTH}")
    return Book(arguments.book, PlayerJudge(make_player(replace(spec, book=None))))


# --- build and add ---------------------------------------------------------------------------------------------------


def _build(arguments: Namespace) -> int:
    if arguments.replies is None and arguments.leaves is None and arguments.games is None:
        raise UsageError("say how the book is to grow: --replies DISCS, --leaves N or --games N")
    with _open(arguments) as found:
        steps: list[tuple[str, int | None, Iterator[int]]] = []
        if arguments.replies is not None:
            steps.append(("positions", None, add_replies(found, arguments.replies)))
        if arguments.leaves is not None:
            steps.append(("leaves", arguments.leaves, deepen(found, arguments.leaves, arguments.discs)))
        if arguments.games is not None:
            rng = random.Random(f"book {arguments.seed}")
            games = play_games(found, arguments.games, arguments.discs, arguments.margin, rng)
            steps.append(("games", arguments.games, games))
        return _grow(found, steps)


def _add(arguments: Namespace) -> int:
    games = [game for word in arguments.words for game in _games(word.strip())]
    with _open(arguments) as found:

        def add() -> Iterator[int]:
            for number, game in enumerate(games, start=1):
                add_game(found, game, arguments.discs)
                yield number

        return _grow(found, [("games", len(games), add())])


def _games(word: str) -> list[Game]:
    """The games of a file, or the one that is written out."""
    path = Path(word)
    try:
        if path.is_file():
            return read_journal(path) if is_journal(path) else read_games(path)
        return parse_transcripts(word)
    except OSError as error:
        raise UsageError(f"{word!r} cannot be read: {error.strerror or error}") from None
    except OthelloError as error:
        if path.is_file():
            raise
        raise UsageError(f"{word!r} is neither a file nor a game: {error}") from None


def _grow(found: Book, steps: list[tuple[str, int | None, Iterator[int]]]) -> int:
    before, interrupted = len(found.store), False
    try:
        for what, total, step in steps:
            with progress(what, total) as bar:
                for done in step:
                    bar.update(done=done, text=what if total else f"{what}: {done:,}")
    except KeyboardInterrupt:
        interrupted = True
    after = len(found.store)
    print(f"{found.store.path}: {after:,} positions, {after - before:,} of them new")
    if interrupted:
        note(PLAY, "interrupted; what was added stays")
    return INTERRUPTED if interrupted else 0


# --- show and play ---------------------------------------------------------------------------------------------------


def _show(arguments: Namespace) -> int:
    arguments.book = str(find_book(arguments.book))
    found = OpenBook(arguments.book)
    try:
        if arguments.check and (damage := found.store.damage()):
            raise Failure(f"{arguments.book!r} is damaged: {damage}")
        position = read_position(arguments.position or ["start"])
        _show_position(found, position, arguments)
    finally:
        found.close()
    return 0


def _show_position(found: OpenBook, position: Position, arguments: Namespace) -> None:
    moves, line = found.moves(position), found.line(position)
    if arguments.json:
        known = [{"move": str(one.move), "value": one.value, "depth": one.depth} for one in moves]
        fields = {"position": position.to_text(), "positions": len(found), "moves": known, "line": list(map(str, line))}
        print(json.dumps(fields))
        return
    if not moves:
        print("this position is not in the book")
    for one in moves:
        print(f"{one.move}  {one.value:+6.2f}  {f'searched, depth {one.depth}' if one.depth else 'in the book'}")
    if line:
        print(f"line {' '.join(map(str, line))}")
    print(f"{arguments.book}: {len(found):,} positions{', sound' if arguments.check else ''}")


def _play(arguments: Namespace) -> int:
    """A game as ``play.py`` alone begins it, against a player with the book."""
    from othello_nn.cli.terminal.session import play

    arguments.book = str(find_book(arguments.book))
    OpenBook(arguments.book).close()  # what is wrong with it is said before the game begins
    spec = arguments.player or default_player()
    keys = f"book={arguments.book},margin={arguments.margin:g}"
    joined = f"{spec}{',' if parse_spec(spec).given else ':'}{keys}"
    return play(parse(["--player", joined, "--color", arguments.color]))
