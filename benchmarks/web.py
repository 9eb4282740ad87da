"""The board in the browser: how soon it is there, how soon a click is answered, and what enemies can do to it."""

from __future__ import annotations

import gc
import json
import random
import shutil
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.harness import ROOT, BenchmarkError, Report, Settings, benchmark, markdown_table

HOST = "127.0.0.1"
BOARD_BAR, VALUE_BAR, CLICK_BAR = 1.0, 1.5, 0.1
STARTS, CLICKS, HOSTILE, DROPPED = 5, 200, 10_000, 200
GROWTH_MB = 50.0
FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync")


def start_server() -> tuple[subprocess.Popen, int]:
    """A server and its port."""
    words = [sys.executable, str(ROOT / "play.py"), "serve", "--port", "0", "--no-open"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT)
    assert process.stdout is not None
    return process, int(process.stdout.readline().split(":")[2].split("/")[0])


def launch_chromium() -> Any:
    """Playwright's driver and the browser, both to be ended."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        raise BenchmarkError("there is no chromium: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    driver = sync_playwright().start()
    return driver, driver.chromium.launch(executable_path=path, args=list(FLAGS))


# The moment at which the page shows four of a kind, by the clock that Python reads, too. A locator of Playwright's
# looks again after up to half a second, and would measure that.
_SHOWN = """(() => {
    localStorage.setItem("othello.values", "true");
    window.shown = {};
    const look = () => {
        for (const kind of [".square.legal", ".value"])
            if (!(kind in shown) && document.querySelectorAll(kind).length > 3) {
                shown[kind] = 0;
                requestAnimationFrame(() => setTimeout(() => { shown[kind] = Date.now() / 1000; }));
            }
    };
    new MutationObserver(look).observe(document, { subtree: true, childList: true, attributes: true });
})()"""
_ALL_SHOWN = """() => new Promise((resolve) => {
    const look = () => shown[".square.legal"] && shown[".value"] ? resolve(shown) : setTimeout(look, 20);
    look();
})"""
SETTLE_SECONDS = 1.0


@benchmark("web-start", "from `play.py serve` to a board that can be clicked and to the first value, in chromium")
def web_start(settings: Settings) -> Report:
    """The browser is open, as a user's is, and rests: what its own tab takes to be made is not the server's."""
    driver, browser = launch_chromium()
    boards, values = [], []
    try:
        for _ in range(settings.size(STARTS, 1) + 1):  # the first fills the caches of the disk
            context = browser.new_context()
            context.add_init_script(_SHOWN)
            page = context.new_page()
            time.sleep(SETTLE_SECONDS)
            begun = time.time()
            process, port = start_server()
            try:
                page.goto(f"http://{HOST}:{port}/", wait_until="commit")
                shown = page.evaluate(_ALL_SHOWN)
                boards.append(shown[".square.legal"] - begun)
                values.append(shown[".value"] - begun)
            finally:
                process.kill()
                process.communicate()
                context.close()
    finally:
        browser.close()
        driver.stop()
    board, value = statistics.median(boards[1:]), statistics.median(values[1:])
    rows = [
        ("board", f"{board:.2f} s", f"≤ {BOARD_BAR} s"),
        ("first value on the squares", f"{value:.2f} s", f"≤ {VALUE_BAR} s"),
    ]
    slow = board > BOARD_BAR or value > VALUE_BAR
    failure = "slower than the bar" if slow and not settings.quick else None
    found = {"board_seconds": boards[1:], "value_seconds": values[1:]}
    return Report(
        board, "s", markdown_table(("start of `play.py serve`", "median", "bar"), rows), found, failure=failure
    )


@benchmark("web-clicks", "a click answered while two tabs are being analysed, 95th percentile")
def web_clicks(settings: Settings) -> Report:
    driver, browser = launch_chromium()
    process, port = start_server()
    seconds = []
    try:
        pages = []
        for _ in range(2):
            context = browser.new_context(reduced_motion="reduce")
            seats = json.dumps({"side": "both", "players": ["random"] * 2, "levels": ["own"] * 2})
            context.add_init_script("localStorage.setItem('othello.values', 'true')")
            context.add_init_script(f"localStorage.setItem('othello.seats', {json.dumps(seats)})")
            page = context.new_page()
            page.goto(f"http://{HOST}:{port}/")
            page.wait_for_selector(".value", timeout=120_000)
            pages.append(page)
        rng = random.Random(1)
        for i in range(settings.size(CLICKS, 10)):
            seconds.append(pages[i % 2].evaluate(_CLICK, rng.random()))
            time.sleep(0.02)
    finally:
        browser.close()
        driver.stop()
        process.kill()
        process.communicate()
    ranked = sorted(seconds)
    high = ranked[int(0.95 * len(ranked))]
    rows = [
        ("95th percentile", f"{1000 * high:.0f} ms", f"≤ {1000 * CLICK_BAR:.0f} ms"),
        ("median", f"{1000 * statistics.median(seconds):.0f} ms", ""),
    ]
    failure = "slower than the bar" if high > CLICK_BAR and not settings.quick else None
    table = markdown_table((f"{len(seconds)} clicks, two tabs, values on", "to the drawn board", "bar"), rows)
    return Report(
        high, "s", table, {"median_seconds": statistics.median(seconds), "worst_seconds": ranked[-1]}, failure=failure
    )


# A click on a legal square, and the time until the page has drawn another board.
_CLICK = """(chance) => new Promise((resolve) => {
    if (!document.querySelectorAll(".square.legal").length) document.getElementById("undo").click();
    const look = () => {
        const legal = [...document.querySelectorAll(".square.legal")];
        if (!legal.length) return setTimeout(look, 10);
        const moves = () => document.querySelectorAll("#moves button").length;
        const before = moves(), begun = performance.now();
        legal[Math.floor(chance * legal.length)].dispatchEvent(new MouseEvent("click", { bubbles: true }));
        const wait = () => moves() !== before ? resolve((performance.now() - begun) / 1000) : setTimeout(wait, 0);
        wait();
    };
    look();
})"""


@benchmark("web-hostile", "hostile messages, requests and connections: no crash, no growth, no file")
def web_hostile(settings: Settings) -> Report:
    process, port = start_server()
    count, dropped = settings.size(HOSTILE, 300), settings.size(DROPPED, 10)
    secret = (ROOT / "pyproject.toml").read_bytes()[:40]
    wrong: list[str] = []
    try:
        rng = random.Random(0)
        attack(port, rng, count // 5, dropped // 5, secret, wrong)  # whatever is made once is made now
        gc.collect()
        before = _memory_mb(process.pid)
        attack(port, rng, count, dropped, secret, wrong)
        time.sleep(1.0)
        growth = _memory_mb(process.pid) - before
        open_files = len(list(Path(f"/proc/{process.pid}/fd").iterdir()))
        if process.poll() is not None:
            wrong.append("the server has ended")
        if not _plays(port):
            wrong.append("the server does not play any more")
        if growth > GROWTH_MB and not settings.quick:  # which has not made all its players yet
            wrong.append(f"it has grown by {growth:.0f} MB")
        if open_files > 100:
            wrong.append(f"{open_files} files are open")
    finally:
        process.kill()
        process.communicate()
    rows = [
        ("messages and requests", f"{count:,}"),
        ("connections opened and dropped", f"{dropped:,}"),
        ("memory grown by", f"{growth:.1f} MB"),
        ("files open at the end", open_files),
        ("crashes, leaks of files, refusals to play", len(wrong)),
    ]
    found = {"growth_mb": growth, "open_files": open_files, "messages": count, "dropped": dropped}
    failure = "; ".join(wrong[:3]) or None
    return Report(float(len(wrong)), "faults", markdown_table(("hostile", "found"), rows), found, failure=failure)


def _memory_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def _socket(port: int) -> Any:
    from websockets.sync.client import connect

    return connect(f"ws://{HOST}:{port}/ws", origin=f"http://{HOST}:{port}", compression=None, close_timeout=0.2)  # type: ignore[arg-type]


def _plays(port: int) -> bool:
    with _socket(port) as page:
        page.send(json.dumps({"type": "new", "white": "random@own"}))
        page.send(json.dumps({"type": "play", "square": "f5", "ply": 0}))
        for _ in range(20):
            news = json.loads(page.recv(timeout=20))
            if news["type"] == "state" and len(news["moves"]) == 2:
                return True
    return False


def attack(port: int, rng: random.Random, count: int, dropped: int, secret: bytes, wrong: list[str]) -> None:
    """Do what a server should survive; what it should not have done is added to ``wrong``."""
    for _ in range(dropped):
        plain = socket.create_connection((HOST, port))
        plain.sendall(
            rng.choice([b"", b"GET / HT", b"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n", rng.randbytes(99)])
        )
        plain.close()
    for _ in range(count // 4):
        _request(port, rng, secret, wrong)
    sent = 0
    while sent < count - count // 4:
        sent += _converse(port, rng, min(100, count - count // 4 - sent), secret, wrong)


_PATHS = (
    "/../pyproject.toml", "/..%2f..%2f..%2f..%2fpyproject.toml", "/%2e%2e/%2e%2e/pyproject.toml", "//pyproject.toml",
    "/page/../session.py", "/session.py", "/index.html/../../serve.py", "/etc/passwd", "/\\..\\pyproject.toml",
    "/ws", "/%00", "/?" + "x" * 3000,
)  # fmt: skip


def _request(port: int, rng: random.Random, secret: bytes, wrong: list[str]) -> None:
    plain = socket.create_connection((HOST, port), timeout=20)
    host = rng.choice([f"{HOST}:{port}", "evil.example", "x" * 500, "", f"{HOST}:{port}\r\nHost: evil"])
    method = rng.choice(["GET", "POST", "HEAD", "OPTIONS", "TRACE", "BREW", "GET"])
    try:
        plain.sendall(f"{method} {rng.choice(_PATHS)} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        answer = b""
        while piece := plain.recv(65536):
            answer += piece
        if secret in answer or b"root:" in answer:
            wrong.append("a file got out")
    except OSError:
        pass  # whoever sends nonsense may be hung up on
    finally:
        plain.close()


def _converse(port: int, rng: random.Random, count: int, secret: bytes, wrong: list[str]) -> int:
    """Messages of one connection, until it is closed; how many were sent."""
    from websockets.exceptions import ConnectionClosed

    sent = 0
    with _socket(port) as page:
        try:
            for _ in range(count):
                page.send(_message(rng))
                sent += 1
            while True:
                if secret.decode() in str(page.recv(timeout=0.01)):
                    wrong.append("a file got out")
        except (ConnectionClosed, TimeoutError):
            pass
    return max(sent, 1)


def _message(rng: random.Random) -> str | bytes:
    types = (
        "new",
        "seats",
        "play",
        "goto",
        "undo",
        "redo",
        "resign",
        "pause",
        "hint",
        "minds",
        "analyze",
        "paste",
        "export",
    )
    things: tuple[Any, ...] = (
        None, True, -1, 10**30, 1e308, "", "f5", "x" * 5000, "../../etc/passwd", "gtp:sh -c id@own",
        "champion@Club", "random@own", "champion", [], {}, [[]] * 50, "(;GM[Othello]BO[8", "\x00", "🙂" * 100, "start",
    )  # fmt: skip
    fields = (
        "black",
        "white",
        "start",
        "moves",
        "opening",
        "clock",
        "ply",
        "square",
        "on",
        "mind",
        "other",
        "values",
        "text",
        "format",
        "x",
    )
    kind = rng.random()
    if kind < 0.1:
        return rng.randbytes(rng.randrange(200))
    if kind < 0.2:
        return rng.choice(["{", "[" * 5000, "null", '"x"', "{}" * 100, "\u0000", "x" * 40_000, '{"type":' * 500])
    chosen = {name: rng.choice(things) for name in rng.sample(fields, rng.randrange(4))}
    return json.dumps({"type": rng.choice(types)} | chosen)
