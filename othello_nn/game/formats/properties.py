"""The syntax GGF and SGF share: games in parentheses, nodes after semicolons, properties as NAME[value][value].

This is only the syntax; `ggf.py` and `sgf.py` say what the properties mean. Inside a value a backslash takes the next
character literally, so `\\]` is a bracket. (GGF has no rule of its own for that; one rule for both lets every name be
written and read back.)
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from othello_nn.errors import OthelloError, shorten
from othello_nn.game.position import Position
from othello_nn.game.record import ColouredMove, Game, RecordError, colour_moves

_SPACE = re.compile(r"\s*")
_NAME = re.compile(r"[A-Za-z]+")
_VALUE = re.compile(r"\[([^\]\\]*(?:\\.[^\]\\]*)*)\]", re.DOTALL)
_COUNT = re.compile(r"[0-9]{1,9}")
_SOLVED = re.compile(r"([0-9]{1,2})\s+([+-]?[0-9]{1,2})")
_ESCAPE = re.compile(r"\\(\r\n|.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Property:
    name: str
    values: tuple[str, ...]
    line: int


@dataclass(slots=True)
class GameTree:
    """One game of a file: its main line (the first variation at every branch), node by node."""

    number: int
    """Counted from 1."""
    line: int
    announced: int | None = None
    """The game count that stood before it, as GGF files have it."""
    nodes: list[list[Property]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"line {self.line}, game {self.number}"

    def error(self, message: str) -> RecordError:
        return RecordError(f"{self.name}: {message}", line=self.line)

    def properties(self) -> Iterator[Property]:
        for node in self.nodes:
            yield from node

    def single_values(self, names: frozenset[str]) -> dict[str, str]:
        """The values of those of the named properties that are there. Each may be given once, with one value."""
        found: dict[str, str] = {}
        for item in self.properties():
            if item.name in names:
                if item.name in found or len(item.values) > 1:
                    raise self.error(f"{item.name} (line {item.line}) is given more than once; keep one value")
                found[item.name] = item.values[0]
        return found

    def make_game(self, start: Position, coloured: list[ColouredMove], values: dict[str, str], **fields) -> Game:
        """The checked Game; what is wrong with it is reported as being in this place of the file.

        `values` are the single values of the game, from which those are taken that GGF and SGF call by the same name.
        """
        moves, notes = colour_moves(coloured, start.black_to_move)
        try:
            return Game(
                start=start,
                moves=tuple(moves),
                notes=tuple(notes),
                black=values.get("PB", ""),
                white=values.get("PW", ""),
                date=values.get("DT", ""),
                place=values.get("PC", ""),
                event=values.get("EV", ""),
                comment=values.get("GC", ""),
                **self._solved(values.get("TH", "")),
                **fields,
            )
        except OthelloError as error:
            raise self.error(str(error)) from error

    def _solved(self, text: str) -> dict[str, Any]:
        """The exact result in TH, our own property in both formats: `16 -4` is black's margin from 16 empties on."""
        if not text.strip():
            return {}
        match = _SOLVED.fullmatch(text.strip())
        if match is None or int(match[1]) > 60 or abs(int(match[2])) > 64:
            raise self.error(
                f"TH {shorten(text)} is not empties and black's exact margin from there; one looks like 16 -4"
            )
        return {"theoretical_empties": int(match[1]), "theoretical_result": int(match[2])}


def format_solved(game: Game) -> str:
    """The value of TH; nothing if the exact result is not known."""
    if game.theoretical_result is None or game.theoretical_empties is None:
        return ""
    return f"{game.theoretical_empties} {game.theoretical_result:+d}"


class _Scanner:
    """A place in a text, with the little that the grammar needs to move on from there."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.index = 0
        self._counted_to = 0
        self._line = 1

    @property
    def line(self) -> int:
        # Counted on from the last time it was asked for: from the start, a long file would take quadratic time.
        self._line += self.text.count("\n", self._counted_to, self.index)
        self._counted_to = self.index
        return self._line

    def skip_space(self) -> str:
        """Move over white space; the character found there, or "" at the end of the text."""
        self.take(_SPACE)
        return self.text[self.index : self.index + 1]

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self.text, self.index)
        if match is not None:
            self.index = match.end()
        return match


def read_trees(text: str) -> Iterator[GameTree]:
    """The games of a text, one after the other."""
    scanner = _Scanner(text)
    number = 0
    announced = None
    while sign := scanner.skip_space():
        line = scanner.line
        if sign == "(":
            number += 1
            tree = GameTree(number, line, announced)
            _read_tree(scanner, tree)
            announced = None
            yield tree
        elif announced is None and (count := scanner.take(_COUNT)):
            announced = int(count[0])
        else:
            found = shorten(text[scanner.index : scanner.index + 12])
            raise RecordError(f"line {line}: {found} stands where a game should start with '(;'", line=line)
    if announced:
        line = scanner.line
        raise RecordError(f"line {line}: {announced} games are announced, but none follows", line=line)


def _read_tree(scanner: _Scanner, tree: GameTree) -> None:
    """Read one game, from its '(' to the matching ')', and keep the nodes of its main line."""
    depth = 0
    on_main_line = True
    previous = ""
    while sign := scanner.skip_space():
        if sign == "(":
            depth += 1
        elif sign == ")":
            depth -= 1
            on_main_line = False  # the first branch has ended; all that follows are alternatives to it
        elif sign == ";":
            if previous == ")":
                raise _bad(scanner, tree, "a move after the end of a variation")
            if on_main_line:
                tree.nodes.append([])
        else:
            item = _read_property(scanner, tree)
            if previous not in (";", "property"):
                raise _bad(scanner, tree, f"property {item.name} without a ';' before it")
            if on_main_line:
                tree.nodes[-1].append(item)
            previous = "property"
            continue
        previous = sign
        scanner.index += 1
        if depth == 0:
            return
    raise tree.error("this game has no end: a ')' is missing, the file may be cut off")


def _read_property(scanner: _Scanner, tree: GameTree) -> Property:
    line = scanner.line
    name = scanner.take(_NAME)
    if name is None:
        found = shorten(scanner.text[scanner.index : scanner.index + 12])
        raise _bad(scanner, tree, f"{found} is no property; one looks like PB[name]")
    values = []
    while scanner.skip_space() == "[":
        value = scanner.take(_VALUE)
        if value is None:
            raise _bad(scanner, tree, f"the value of {shorten(name[0])} has no closing ']'")
        values.append(unescape(value[1]))
    if not values:
        raise _bad(scanner, tree, f"property {shorten(name[0])} has no value in brackets")
    return Property(_short_name(name[0]), tuple(values), line)


def _bad(scanner: _Scanner, tree: GameTree, message: str) -> RecordError:
    return RecordError(f"line {scanner.line}, game {tree.number}: {message}", line=scanner.line)


def _short_name(name: str) -> str:
    """Old SGF files write GaMe for GM: small letters are only there for the reader. GGF files may write gm."""
    capitals = "".join(letter for letter in name if letter.isupper())
    return capitals or name.upper()


def unescape(value: str) -> str:
    """The text of a value. An escaped line break is a line wrapped by the writer, and vanishes."""
    return _ESCAPE.sub(lambda match: "" if match[1] in ("\n", "\r", "\r\n") else match[1], value)


def escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("]", "\\]")


def format_properties(pairs: list[tuple[str, str]]) -> str:
    """NAME[value] for every pair that has a value."""
    return "".join(f"{name}[{escape(value)}]" for name, value in pairs if value)
