"""The server: one page, one WebSocket, and everything else refused.

Only this machine is listened to. That alone does not keep other web pages out, which the user's browser would let speak
to 127.0.0.1, perhaps under a name of their own (DNS rebinding): so every request must name this server as its host, and
a WebSocket must come from the server's own page. Files are a fixed list, read once: no path leads to any other.
"""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager, suppress
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from othello_nn.cli.web.levels import Guests
from othello_nn.cli.web.pool import Pool
from othello_nn.cli.web.session import Session
from othello_nn.cli.web.values import mind_spec
from othello_nn.players.catalog import best_player_name

TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
LARGEST_MESSAGE = 32_768
"""Bytes; a longer one ends the connection."""
MOST_TABS = 32
MESSAGES_A_SECOND, BURST = 100, 200
"""A page that says more is made to wait, so that the others are heard."""
MOST_BAD = 50
"""Messages in a row that were none: then it is no page of ours."""
POLICY, TRY_LATER = 1008, 1013
"""WebSocket close codes."""

Scope = MutableMapping[str, Any]


class Guard:
    """Lets through what comes from this machine's own page."""

    def __init__(self, app: Callable[..., Awaitable[None]], hosts: frozenset[str], tabs: Tabs):
        self.app, self.hosts, self.tabs = app, hosts, tabs

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        hosts = [value.decode("latin-1").lower() for name, value in scope["headers"] if name == b"host"]
        origins = [value.decode("latin-1").lower() for name, value in scope["headers"] if name == b"origin"]
        own = len(hosts) == 1 and hosts[0] in self.hosts
        if scope["type"] == "websocket":
            if own and len(origins) == 1 and origins[0].removeprefix("http://") == hosts[0]:
                await self.app(scope, receive, send)
            else:
                await send({"type": "websocket.close", "code": POLICY})
        elif own:
            await self.app(scope, receive, send)
        else:
            await Response("this server answers its own page only\n", 403, HEADERS)(scope, receive, send)


def allowed_hosts(port: int) -> frozenset[str]:
    names = ("127.0.0.1", "localhost")
    return frozenset({f"{name}:{port}" for name in names} | (set(names) if port == 80 else set()))


class Tabs:
    """Connections, each with a session of its own."""

    def __init__(self, guests: Guests, reply_seconds: float):
        self.guests, self.reply_seconds = guests, reply_seconds
        self.pool = Pool(os.cpu_count() or 1)
        self.open = 0

    async def connect(self, socket: WebSocket) -> None:
        """One tab, from its first word to its last."""
        if self.open >= MOST_TABS:
            await socket.accept()
            await socket.close(TRY_LATER, "too many boards are open")
            return
        self.open += 1
        session = Session(self.pool, self.guests, asyncio.get_running_loop(), self.reply_seconds)
        telling: asyncio.Task[None] | None = None
        try:
            await socket.accept()
            telling = asyncio.create_task(_tell(socket, session))
            await _listen(socket, session)
        except WebSocketDisconnect:
            pass
        finally:
            self.open -= 1
            session.close()
            if telling is not None:
                telling.cancel()
                with suppress(asyncio.CancelledError):
                    await telling


async def _tell(socket: WebSocket, session: Session) -> None:
    """Send what is in the outbox; while the page reads, newer news take the place of older ones."""
    with suppress(WebSocketDisconnect, RuntimeError):
        while True:
            await session.news.wait()
            session.news.clear()
            while session.outbox:
                kind = next(iter(session.outbox))
                await socket.send_json(session.outbox.pop(kind))


async def _listen(socket: WebSocket, session: Session) -> None:
    clock = asyncio.get_running_loop().time
    allowance, last, bad = float(BURST), clock(), 0
    while socket.application_state == WebSocketState.CONNECTED:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            return
        now = clock()
        allowance, last = min(BURST, allowance + (now - last) * MESSAGES_A_SECOND) - 1, now
        if allowance < 0:
            await asyncio.sleep(-allowance / MESSAGES_A_SECOND)
        text = message.get("text")
        done = session.handle(text if text is not None else "")
        bad = 0 if done else bad + 1
        if bad > MOST_BAD:
            await socket.close(POLICY, "these are no messages of the page")
            return


def create_app(port: int, guests: Guests, reply_seconds: float) -> Guard:
    """The whole server, for 127.0.0.1 and this port."""
    tabs = Tabs(guests, reply_seconds)
    routes: list[Any] = [WebSocketRoute("/ws", tabs.connect)]
    for file in sorted(files("othello_nn.cli.web").joinpath("page").iterdir(), key=lambda file: file.name):
        kind = TYPES.get(file.name.rpartition(".")[2])
        if kind is not None:
            path = "/" if file.name == "index.html" else f"/{file.name}"
            routes.append(Route(path, _file(file.read_bytes(), kind)))

    @asynccontextmanager
    async def lifespan(app: Starlette):
        tabs.pool.bench.prepare(mind_spec(best_player_name()), collect_garbage_again)  # loaded while the page is
        yield
        tabs.pool.close()

    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={404: _refuse, 405: _refuse})
    app.router.redirect_slashes = False
    return Guard(app, allowed_hosts(port), tabs)


def collect_garbage_again() -> None:
    """After the start, during which nothing becomes garbage and looking for it takes a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.enable()


def _file(content: bytes, kind: str):
    async def answer(request: Request) -> Response:
        return Response(content, 200, HEADERS, kind)

    return answer


async def _refuse(request: Request, error: Any) -> Response:
    return Response("there is nothing here\n", error.status_code, HEADERS, "text/plain")
