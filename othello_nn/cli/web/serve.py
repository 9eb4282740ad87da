"""``play.py serve``: the board in the browser."""

from __future__ import annotations

import errno
import gc
import os
import socket
import sys
import threading
import webbrowser
from argparse import Namespace
from contextlib import suppress
from typing import Any

from othello_nn.cli.base import INTERRUPTED, Failure
from othello_nn.cli.web.levels import Guests
from othello_nn.players.catalog import find_player
from othello_nn.program import PLAY, command

HOST = "127.0.0.1"
SWITCH_SECONDS = 0.001
"""How long a thread may keep Python from the others: clicks are to be answered while something is loaded."""
SHUTDOWN_SECONDS = 1
REPLY_SECONDS = 0.5
"""How long the computer waits at least before it moves, so that one's own move can be seen."""


def serve(arguments: Namespace) -> int:
    """``play.py serve``."""
    players = tuple(arguments.guests or ())
    for spec in players:
        find_player(spec)  # says what is wrong with it before anything is opened
    gc.disable()  # until everything is loaded
    listener = listen(arguments.port)
    port = listener.getsockname()[1]
    try:
        _, server = make_server(port, players)
    except ModuleNotFoundError as error:
        listener.close()
        if error.name and error.name.startswith("othello_nn"):
            raise
        raise Failure(
            f"the package {error.name!r} is not installed for {sys.executable}: the browser's board needs "
            "`python -m pip install 'othello-nn[web]'`, in a checkout `python -m pip install -e '.[web]'`"
        ) from None
    sys.setswitchinterval(SWITCH_SECONDS)
    address = f"http://{HOST}:{port}/"
    print(f"The board is at {address}  (Ctrl-C ends it)", flush=True)
    if not arguments.no_open:
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    with suppress(KeyboardInterrupt):
        server.run([listener])
    listener.close()
    sys.stdout.flush()
    sys.stderr.flush()
    if threading.active_count() > 1:
        os._exit(INTERRUPTED)  # Python would wait for a compilation that nobody needs any more
    return INTERRUPTED


def make_server(port: int, players: tuple[str, ...] = (), reply_seconds: float = REPLY_SECONDS) -> tuple[Any, Any]:
    """The app and the server that runs it."""
    import uvicorn

    from othello_nn.cli.web.app import LARGEST_MESSAGE, create_app

    app = create_app(port, Guests(players), reply_seconds)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        ws="websockets-sansio",
        ws_max_size=LARGEST_MESSAGE,
        ws_per_message_deflate=False,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    return app, uvicorn.Server(config)


def listen(port: int) -> socket.socket:
    """A socket at a port of this machine, 0 for any; a ``Failure`` if it is taken."""
    try:
        return socket.create_server((HOST, port))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            other = f"{command(PLAY)} serve --port {port + 1 if port < 65535 else 0}"
            raise Failure(f"port {port} is taken, perhaps by another board; take another one: {other}") from None
        raise Failure(f"port {port} cannot be used: {error.strerror or error}") from None
