"""``analyze --components``: what the player's evaluation is made of, move by move (Rosenbloom 1981, section 5.3).

The components are those "determined by search": of the position at the end of the line that the player expects. They
are shown from black's point of view throughout, so that they are curves over the game. Where the end of the game was
solved nothing is evaluated, and there are none.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from othello_nn.cli.base import Failure, UsageError
from othello_nn.cli.curves import curves_svg
from othello_nn.game.notation import move_name
from othello_nn.game.position import Position
from othello_nn.game.rules import PASS

if TYPE_CHECKING:
    from othello_nn.cli.judges import Judged, Verdict
    from othello_nn.engine import Engine
    from othello_nn.players.classic.components import Components
    from othello_nn.players.searching import SearchPlayer

SUM = "sum"
WITH_COMPONENTS = "iago, keyano or features"


@dataclass(frozen=True)
class Expected:
    """The position that a search expects, and the components of its evaluation, for black."""

    position: Position
    values: dict[str, float]

    @property
    def total(self) -> float:
        return sum(self.values.values())


class Analyst:
    """Finds the components behind what a player judges, and shows those of one game."""

    def __init__(self, player: SearchPlayer, components: Components):
        self.player, self.components = player, components
        self.moves: list[tuple[Judged, Expected | None]] = []

    @staticmethod
    def can_be_made_of(player: SearchPlayer | None) -> bool:
        from othello_nn.players.classic.components import components_of

        return player is not None and components_of(player.evaluator) is not None

    @classmethod
    def of(cls, player: SearchPlayer | None, name: str) -> Analyst:
        from othello_nn.players.classic.components import components_of

        components = None if player is None else components_of(player.evaluator)
        if player is None or components is None:
            raise UsageError(f"{name} has no components to show; take --player {WITH_COMPONENTS}")
        return cls(player, components)

    def add(self, judged: Judged) -> dict[str, Any]:
        """Another move of the game, and what is said of it in JSON."""
        expected = self._expected(judged)
        self.moves.append((judged, expected))
        if expected is None:
            return {"components": None, "expected": None}
        return {"components": expected.values, "expected": expected.position.to_text()}

    def _expected(self, judged: Judged) -> Expected | None:
        """What the player's own move leads to; None if that is the end of the game."""
        engine = self.player.engines[judged.position.black_to_move]
        leaf = expected_position(engine, judged.position, judged.best)
        if leaf is None:
            return None
        sign = 1.0 if leaf.black_to_move else -1.0
        values = [sign * value + 0.0 for value in self.components.values(leaf)]
        return Expected(leaf, dict(zip(self.components.names, values, strict=True)))

    def show(self) -> None:
        """A line for each move that was estimated."""
        names, unit = (*self.components.names, SUM), self.components.unit
        digits = 2 if unit == "discs" else 0
        widths = [max(len(name), 8) for name in names]
        print(f"\nwhat it expects to come, for black, in {unit}")
        print(f"move  best  {'  '.join(f'{name:>{width}s}' for name, width in zip(names, widths, strict=True))}")
        for judged, expected in self.moves:
            if expected is not None:
                values = (*expected.values.values(), expected.total)
                cells = (f"{value:+{width}.{digits}f}" for value, width in zip(values, widths, strict=True))
                print(f"{judged.number:4d}  {move_name(judged.best.move):4s}  {'  '.join(cells)}", flush=True)

    def draw(self, path: str, title: str) -> None:
        """The components as curves over the game."""
        seen = [(judged.number, expected) for judged, expected in self.moves if expected is not None]
        curves = {name: [expected.values[name] for _, expected in seen] for name in self.components.names}
        curves[SUM] = [expected.total for _, expected in seen]
        write_picture(path, curves_svg(title, [number for number, _ in seen], curves, self.components.unit))


def write_picture(path: str, picture: str) -> None:
    try:
        Path(path).write_text(picture, encoding="utf-8")
    except OSError as error:
        raise Failure(f"the picture could not be written to {path!r}: {error.strerror or error}") from None


def expected_position(engine: Engine, position: Position, best: Verdict) -> Position | None:
    """The end of the line behind a verdict: each further move is that of a search one ply less deep."""
    from othello_nn.engine import Limit

    if best.exact:
        return None
    position = position.play(best.move)
    for depth in range(best.depth - 1, 0, -1):
        if position.must_pass:
            position = position.play(PASS)
        move = engine.search(position, Limit(depth=depth)).move
        if move is None:
            return None
        position = position.play(move)
    return None if position.is_over else position


def check_picture(path: str | None, games: int) -> None:
    """See before anything is judged that a picture can be drawn in the end."""
    if path is None:
        return
    if Path(path).suffix.lower() != ".svg":
        raise UsageError(f"--picture {path!r}: the name must end in .svg")
    if not Path(path).parent.is_dir():
        raise UsageError(f"--picture {path!r}: there is no folder {str(Path(path).parent)!r}")
    if games > 1:
        raise UsageError(f"--picture shows one game, and {games} are given; --game N takes one of them")
