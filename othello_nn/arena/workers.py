"""Many games at once, in threads: the compiled search works without the GIL.

``Workers`` plays a list of pairings, each thread with players of its own, which ``Entrant`` makes. Read ``game.py``
first, which plays the games.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import suppress

from othello_nn.arena.game import Pairing, PlayedGame, play_game
from othello_nn.players import Player, PlayerError, make_player

# How often players of a match that is being stopped are told to hurry.
STOP_SECONDS = 0.02
# Not every system lets Ctrl-C end a wait that has no end of its own.
WAKE_SECONDS = 0.5

PlayerMaker = Callable[[], Player]


class Workers:
    """Plays pairings in threads. Chance is drawn from the seed and the number of the game, so that the same seed gives
    the same games whatever the number of threads (limits in seconds aside)."""

    def __init__(
        self,
        makers: Sequence[PlayerMaker],
        pairings: Iterable[Pairing],
        jobs: int = 1,
        seed: int = 0,
        clock_seconds: float | None = None,
    ):
        self._makers, self._seed, self._clock_seconds = makers, seed, clock_seconds
        self._done: queue.SimpleQueue[PlayedGame | BaseException | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._waiting, self._lock = iter(pairings), threading.Lock()
        self._players: list[dict[int, Player]] = [{} for _ in range(jobs)]
        self._threads = [
            threading.Thread(target=self._work, args=(players,), name=f"game-{i}", daemon=True)
            for i, players in enumerate(self._players)
        ]

    def games(self) -> Generator[PlayedGame]:
        """The games as they end. Whoever stops listening, or presses Ctrl-C, ends those that run."""
        working = len(self._threads)
        try:
            for thread in self._threads:
                thread.start()
            while working:
                try:
                    item = self._done.get(timeout=WAKE_SECONDS)
                except queue.Empty:
                    continue
                if isinstance(item, BaseException):
                    raise item
                if item is None:
                    working -= 1
                else:
                    yield item
        finally:
            self._stop()

    def _stop(self) -> None:
        """End the games that run. A search may begin just after its player was told to stop, so tell it again."""
        self._stopping.set()
        while alive := [thread for thread in self._threads if thread.is_alive()]:
            for players in self._players:
                for player in list(players.values()):
                    player.stop()
            alive[0].join(STOP_SECONDS)

    def _work(self, players: dict[int, Player]) -> None:
        """What each thread does: one game after the other with players of its own."""
        try:
            while not self._stopping.is_set():
                with self._lock:
                    pairing = next(self._waiting, None)
                one = None if pairing is None else self._play(pairing, players)
                if one is None:
                    break
                self._done.put(one)
        except BaseException as error:
            self._done.put(error)
        finally:
            for player in players.values():
                player.close()
            self._done.put(None)

    def _play(self, pairing: Pairing, players: dict[int, Player]) -> PlayedGame | None:
        for number in (pairing.black, pairing.white):
            if number not in players:
                players[number] = self._makers[number]()
                # The first of its kind could be started; if this one cannot, it fails when it has to move.
                with suppress(PlayerError):
                    players[number].warm_up()
        black, white = players[pairing.black], players[pairing.white]
        return play_game(pairing, black, white, self._clock_seconds, self._stopping.is_set, self._seed)


class Entrant:
    """A player to be made as often as there are threads. The first is made at once: what is wrong with it shows now."""

    def __init__(self, player: str | PlayerMaker):
        self._make: PlayerMaker = (lambda: make_player(player)) if isinstance(player, str) else player
        first = self._make()
        self.name, self.varies = first.name, first.varies
        self._ready = [first]

    def __call__(self) -> Player:
        try:
            return self._ready.pop()
        except IndexError:
            return self._make()

    def warm_up(self) -> None:
        """Have the first one compile now what the others will share."""
        for player in self._ready:
            player.warm_up()

    def close(self) -> None:
        """Let go of the first one if nobody took it."""
        while self._ready:
            self._ready.pop().close()
