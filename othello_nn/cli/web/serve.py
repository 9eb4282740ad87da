"""``play.py serve``: the board in the browser."""

from __future__ import annotations

import errno
import os
import socket
import sys
import threading
import webbrowser
from argparse import Namespace

from othello_nn.cli.base import INTERRUPTED, Failure
from othello_nn.cli.web.levels import Guests
from othello_nn.players.catalog import find_player
from othello_nn.program import PLAY, command

HOST = "127.0.0.1"
SWITCH_SECONDS = 0.001
"""How long a thread may keep Python from the others: clicks are to be answered while something is loaded."""
SHUTDOWN_SECONDS = 1


def serve(arguments: Namespace) -> int:
    """``play.py serve``."""
    for spec in arguments.player or ():
        find_player(spec)  # says what is wrong with it before anything is opened
    listener = _listen(arguments.port)
    port = listener.getsockname()[1]
    try:
        import uvicorn

        from othello_nn.cli.web.app import LARGEST_MESSAGE, create_app
    except ModuleNotFoundError as error:
        listener.close()
        if error.name and error.name.startswith("othello_nn"):
            raise
        raise Failure(
            f"the package {error.name!r} is not installed for {sys.executable}: the browser's board needs "
            "`python -m pip install 'othello-nn[web]'`, in a checkout `python -m pip install -e '.[web]'`"
        ) from None
    sys.setswitchinterval(SWITCH_SECONDS)
    app = create_app(port, Guests(tuple(arguments.player or ())))
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
    address = f"http://{HOST}:{port}/"
    print(f"The board is at {address}  (Ctrl-C ends it)", flush=True)
    if not arguments.no_open:
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    try:
        uvicorn.Server(config).run([listener])
    except KeyboardInterrupt:
        pass
    finally:
        listener.close()
    sys.stdout.flush()
    sys.stderr.flush()
    if threading.active_count() > 1:
        os._exit(INTERRUPTED)  # Python would wait for a compilation that nobody needs any more
    return INTERRUPTED


def _listen(port: int) -> socket.socket:
    try:
        return socket.create_server((HOST, port))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            other = f"{command(PLAY)} serve --port {port + 1 if port < 65535 else 0}"
            raise Failure(f"port {port} is taken, perhaps by another board; take another one: {other}") from None
        raise Failure(f"port {port} cannot be used: {error.strerror or error}") from None
