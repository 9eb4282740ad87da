"""The games of a tournament in a file of JSON lines: first what is played, then a line for each finished game.

A line is on disk before anybody is told of its game. A file that was cut off in the middle of its last line, by a
killed process or a full disk, is good up to there. While a tournament runs the file is locked, so that no second one
plays the same games.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from othello_nn.arena.game import Effort, Pairing, PlayedGame
from othello_nn.errors import OthelloError, shorten
from othello_nn.game.position import Position
from othello_nn.game.record import Game, MoveNote
from othello_nn.game.rules import PASS
from othello_nn.locked import InUseError, LockedLines

FORMAT = "othello_nn tournament 1"
SHOWN_SETTING = 200
MOST_SECONDS = 1e9
"""That a side can have thought in a game: thirty years."""


class TournamentError(OthelloError):
    """A tournament that cannot be played as asked, or a journal that cannot be gone on with."""


class Journal:
    """A journal that is being written. It is locked until ``close``, which removes it if nothing was played."""

    _file: LockedLines

    def __init__(self, path: str | Path, settings: dict[str, Any]):
        """Take up a file that was begun with the same settings, or see that a new one can be written."""
        self.path = Path(path)
        self._settings = settings
        self._lines: list[dict[str, Any]] = []
        try:
            self._open()
        except OSError as error:
            raise TournamentError(f"{str(path)!r} cannot be used: {error.strerror or error}") from None

    def _open(self) -> None:
        if self.path.exists() and not self.path.is_file():
            raise TournamentError(f"{str(self.path)!r} cannot be used: it is not a file")
        try:
            self._file = LockedLines(self.path)
        except InUseError:
            raise TournamentError(f"{str(self.path)!r} is in use: another tournament is writing it") from None
        try:
            data = self._file.read()
            whole = data[: data.rfind(b"\n") + 1]
            if whole or not self._header.startswith(data):  # else its first writer was stopped at once
                self._lines = self._read(whole)
            if len(whole) < len(data):
                self._file.keep(len(whole))
        except BaseException:
            self.close()
            raise

    @property
    def _header(self) -> bytes:
        return _line({"format": FORMAT, "settings": self._settings})

    def close(self) -> None:
        """Let others have the file. May be called again."""
        self._file.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        """Games that were there when it was taken up."""
        return len({str(line.get("number")) for line in self._lines})

    def _read(self, data: bytes) -> list[dict[str, Any]]:
        lines = []
        for number, line in enumerate(data.split(b"\n")[:-1], start=1):
            try:
                lines.append(json.loads(line))
                if not isinstance(lines[-1], dict):
                    raise ValueError
            except (ValueError, RecursionError):
                raise TournamentError(f"{str(self.path)!r}, line {number}: this is not a JSON object") from None
        if not lines or lines[0].get("format") != FORMAT or not isinstance(lines[0].get("settings"), dict):
            raise TournamentError(f"{str(self.path)!r} is no tournament; name a new file or one that was begun by it")
        for name, wanted in self._settings.items():
            if (found := lines[0]["settings"].get(name)) != wanted:
                shown = shorten(found, SHOWN_SETTING), shorten(wanted, SHOWN_SETTING)
                raise TournamentError(
                    f"{str(self.path)!r} was begun with {name} {shown[0]}, not {shown[1]}; name another file"
                )
        return lines[1:]

    def games(self, pairings: Sequence[Pairing]) -> list[PlayedGame]:
        """The games that the file already holds. They must be some of these, from the same openings."""
        planned = {pairing.number: pairing for pairing in pairings}
        found = {}
        for number, line in enumerate(self._lines, start=2):
            try:
                one = _read_game(line)
                pairing = planned[one.number]
                game, opening = one.game, pairing.opening
                if (one.black, one.white, game.start) != (pairing.black, pairing.white, opening.start):
                    raise ValueError
                if game.moves[: len(opening.moves)] != opening.moves:
                    raise ValueError
            except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
                raise TournamentError(
                    f"{str(self.path)!r}, line {number}: no game of this tournament; its players or openings are others"
                ) from None
            found[one.number] = one
        return list(found.values())

    def add(self, one: PlayedGame) -> None:
        """Write a game down. If that fails the file is as it was before."""
        game = one.game
        notes = [None if note is None else [note.score_discs, note.seconds] for note in game.notes]
        fields = {
            "number": one.number,
            "black": one.black,
            "white": one.white,
            "names": [game.black, game.white],
            "start": game.start.to_text(),
            "moves": list(game.moves),
            "notes": notes,
            "result": game.result,
            "ending": game.ending,
            "comment": game.comment,
            "log": one.log,
            "clock": game.black_clock,
            "black_effort": asdict(one.black_effort),
            "white_effort": asdict(one.white_effort),
        }
        try:
            self._file.append(_line(fields), self._header)
        except OSError as error:
            raise TournamentError(f"{str(self.path)!r} cannot be written: {error.strerror or error}") from None


def is_journal(path: Path) -> bool:
    """Whether a file begins as a tournament's journal does."""
    with path.open("rb") as file:
        return file.read(len(FORMAT) + 20).startswith(json.dumps({"format": FORMAT}).encode()[:-1])


def read_journal(path: Path) -> list[Game]:
    """The games of a tournament, finished or not. A last line that was cut off is left out."""
    games = []
    for number, line in enumerate(path.read_bytes().split(b"\n")[1:-1], start=2):
        try:
            games.append(_read_game(json.loads(line)).game)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError):
            raise TournamentError(f"{str(path)!r}, line {number}: this is no game of a tournament") from None
    return games


def _line(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields).encode() + b"\n"


def _read_game(line: dict[str, Any]) -> PlayedGame:
    """A game as ``add`` writes it; whatever is not of the right kind is an error."""
    number, black_player, white_player = (_whole(line[name]) for name in ("number", "black", "white"))
    black, white = (_text(line["names"][side]) for side in (0, 1))
    game = Game(
        start=Position.parse(line["start"]),
        moves=tuple(_whole(move, PASS, 63) for move in line["moves"]),
        notes=tuple(None if note is None else MoveNote(*note) for note in line["notes"]),
        result=_whole(line["result"], -64, 64),
        ending=_text(line["ending"]),
        comment=_text(line["comment"]),
        black=black,
        white=white,
        black_clock=_text(line["clock"]),
        white_clock=line["clock"],
        place="othello_nn",
    )
    efforts = (_effort(**line["black_effort"]), _effort(**line["white_effort"]))
    return PlayedGame(number, black_player, white_player, game, *efforts, _text(line["log"]))


def _whole(value: Any, low: int = 0, high: int = 2**63) -> int:
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{shorten(value)} is no whole number from {low} to {high}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{shorten(value)} is no text")
    return value


def _effort(moves: Any, nodes: Any, seconds: Any) -> Effort:
    if type(seconds) not in (int, float) or not 0 <= seconds <= MOST_SECONDS:
        raise ValueError(f"{shorten(seconds)} is no time")
    return Effort(_whole(moves), _whole(nodes), float(seconds))
