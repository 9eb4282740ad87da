"""A server of the board for tests, in a thread of this process, and a page's end of the conversation."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from patience import HANG_SECONDS

from othello_nn.cli.web.serve import HOST, listen, make_server


class LocalServer:
    """A running server."""

    def __init__(self, reply_seconds: float = 0.0, port: int = 0):
        self.listener = listen(port)
        self.port = self.listener.getsockname()[1]
        self.address = f"http://{HOST}:{self.port}"
        self.app, self._server = make_server(self.port, (), reply_seconds)
        self._thread = threading.Thread(target=lambda: self._server.run([self.listener]), daemon=True)
        self._thread.start()
        wait_until(lambda: self._server.started)

    @property
    def tabs(self):
        return self.app.tabs

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(HANG_SECONDS)
        self.listener.close()
        assert not self._thread.is_alive()


@contextmanager
def local_server(reply_seconds: float = 0.0) -> Iterator[LocalServer]:
    server = LocalServer(reply_seconds)
    try:
        yield server
    finally:
        server.close()


def wait_until(condition: Callable[[], Any], seconds: float = HANG_SECONDS) -> Any:
    """What the condition gives, once it gives something."""
    until = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < until, "nothing happened"
        time.sleep(0.01)
    return found


class Tab:
    """A WebSocket as a page has one, with the news of each kind that came last."""

    def __init__(self, server: LocalServer):
        from websockets.sync.client import connect

        address = f"ws://{HOST}:{server.port}/ws"
        self._connection = connect(address, origin=server.address, compression=None, close_timeout=0.5)
        self.socket = self._connection.__enter__()
        self.news: dict[str, dict[str, Any]] = {}

    def say(self, type: str, **fields: Any) -> None:
        self.socket.send(json.dumps({"type": type} | fields))

    def hear(self, type: str, wanted: Callable[[dict[str, Any]], Any] = lambda _: True) -> dict[str, Any]:
        """The next news of a type that is as wanted."""
        until = time.monotonic() + HANG_SECONDS
        while True:
            news = json.loads(self.socket.recv(timeout=until - time.monotonic()))
            self.news[news["type"]] = news
            if news["type"] == type and wanted(news):
                return news

    def ask(self, type: str, answer: str = "state", **fields: Any) -> dict[str, Any]:
        self.say(type, **fields)
        return self.hear(answer)

    def close(self) -> None:
        self._connection.__exit__(None, None, None)
