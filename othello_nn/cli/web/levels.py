"""How strong the computer plays, for people: levels with names, and who can sit at the board.

The weaker levels give discs away on purpose (``players/weakening.py``). Ratings are from a tournament of the levels
against each other and some others, `python benchmarks/run.py levels`, whose table is in docs/strength.md; a player at a
level that was not measured has none. ``swh`` at 1-ply is 1000 by definition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from othello_nn.errors import did_you_mean
from othello_nn.players.base import PlayerError
from othello_nn.players.catalog import Entry, player_names
from othello_nn.resources import BEST

HUMAN = "human"
FIXED = "own"
"""The level of a player that has none: it plays as it does."""


@dataclass(frozen=True)
class Level:
    """A strength with a name: what is written behind the player's name, and what that means."""

    name: str
    keys: str
    meaning: str


LEVELS = (
    Level("Newcomer", "depth=4,gives=180", "gives away six discs a move"),
    Level("Beginner", "depth=4,gives=100", "gives away 100 discs a game"),
    Level("Casual", "depth=4,gives=50", "gives away 50 discs a game"),
    Level("Club", "depth=4,gives=25", "gives away 25 discs a game"),
    Level("Strong", "depth=4,gives=10", "gives away 10 discs a game"),
    Level("Expert", "depth=6,solve=12", "looks six moves ahead, solves the last 12"),
    Level("Master", "depth=10,solve=16", "looks ten moves ahead, solves the last 16"),
    Level("Champion", "seconds=1", "a second for a move"),
    Level("Relentless", "seconds=5", "five seconds for a move"),
)
RATINGS: dict[tuple[str, str], int] = {
    (BEST, "Master"): 2080,
    (BEST, "Expert"): 1990,
    (BEST, "Strong"): 1730,
    (BEST, "Club"): 1710,
    (BEST, "Casual"): 1480,
    (BEST, "Beginner"): 1380,
    (BEST, "Newcomer"): 1100,
    ("random", FIXED): 840,
}
"""By player and level, to the nearest ten."""


@dataclass(frozen=True)
class Seat:
    """Who has a colour: a person, or a player at a level."""

    player: str = HUMAN
    level: str = ""

    @property
    def is_person(self) -> bool:
        return self.player == HUMAN

    @property
    def text(self) -> str:
        """As messages write it."""
        return HUMAN if self.is_person else f"{self.player}@{self.level}"

    @property
    def title(self) -> str:
        """For people, and for records of the game."""
        if self.is_person:
            return "You"
        return self.player if self.level == FIXED else f"{self.player}, {self.level}"

    @property
    def spec(self) -> str:
        """What ``make_player`` takes."""
        if self.level == FIXED:
            return self.player
        level = next(level for level in LEVELS if level.name == self.level)
        return f"{self.player}:{level.keys}"


class Guests:
    """The players that can be chosen: those of the catalog, and those that whoever started the server has named.

    A page can only choose from these: it cannot name a file, a command or a key.
    """

    def __init__(self, extra: tuple[str, ...] = ()):
        self.extra = extra

    def _entries(self) -> dict[str, Entry]:
        return player_names()

    def seat(self, text: str) -> Seat:
        """The seat that a message means."""
        if text == HUMAN:
            return Seat()
        player, _, level = text.rpartition("@")
        entries = self._entries()
        if player not in entries and player not in self.extra:
            raise PlayerError(f"there is no player {player[:40]!r}; {did_you_mean(player, [*entries, *self.extra])}")
        levels = self.levels_of(player, entries)
        if level not in levels:
            raise PlayerError(f"{player} has no level {level[:40]!r}; {did_you_mean(level, levels)}")
        return Seat(player, level)

    def levels_of(self, player: str, entries: dict[str, Entry]) -> list[str]:
        if player in self.extra or not entries[player].keys:
            return [FIXED]
        return [level.name for level in LEVELS]

    def mind(self, name: str) -> str:
        """A player whose values can be shown."""
        names = self.minds()
        if name not in names:
            raise PlayerError(f"nobody called {name[:40]!r} says what moves are worth; {did_you_mean(name, names)}")
        return name

    def minds(self) -> list[str]:
        """Players that search, the best first."""
        names = [name for name, entry in self._entries().items() if entry.keys]
        return sorted(names, key=lambda name: (name != BEST, names.index(name)))

    def offered(self) -> dict[str, Any]:
        """Everything that a page lets one choose from."""
        entries = self._entries()
        order = [*self.minds(), *(name for name in entries if not entries[name].keys), *self.extra]
        return {
            "players": [
                {
                    "name": name,
                    "about": entries[name].description if name in entries else "named when the server was started",
                    "levels": self.levels_of(name, entries),
                }
                for name in order
            ],
            "levels": [{"name": level.name, "about": level.meaning} for level in LEVELS],
            "ratings": {f"{player}@{level}": rating for (player, level), rating in RATINGS.items()},
            "minds": self.minds(),
        }
