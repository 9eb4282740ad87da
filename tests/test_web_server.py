"""The server as a page and as an enemy meets it: conversations over a real socket, without a browser."""

import http.client
import json
import random
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from patience import HANG_SECONDS
from web_server import HOST, LocalServer, Tab, local_server, wait_until

from benchmarks.web import attack
from othello_nn.cli import main as cli
from othello_nn.cli.web.app import HEADERS, MOST_TABS
from othello_nn.cli.web.serve import listen
from othello_nn.game import Position
from othello_nn.game.formats.files import parse_games
from othello_nn.game.notation import parse_transcript

websockets = pytest.importorskip("websockets", reason="the extra web is not installed")
ROOT = Path(__file__).resolve().parent.parent
ENDING = "--X-OXX-OXXXOOXOXOXXO-OXXXOXOOXOXXOOXOX-XXOOOOX-XOOOOOXOXOOOOOO- X"

# LOGISTELLO 33-31 KEYANO, as printed in the KEYANO paper.
LOGISTELLO = (
    "d3c5e6f5f6e3d6f7g6c4c6e7d7g5f4c8h6c7d8e8f3h4g4c3b3h3g3d2b4b5c2a4e2c1d1a3a6a5a2h2b6e1b2a1b1g2h1h5f2a7f1h7h8g1g7g8f8"
    "b7a8b8"
)


@pytest.fixture(scope="module")
def server():
    with local_server() as server:
        yield server


@pytest.fixture
def tab(server):
    tab = Tab(server)
    yield tab
    tab.close()


# --- a game ----------------------------------------------------------------------------------------------------------


def test_the_page_is_welcomed_with_players_levels_and_openings(tab):
    welcome = tab.hear("welcome")
    assert welcome["players"][0]["name"] == "champion"
    assert {"random", "swh", "iago"} <= {player["name"] for player in welcome["players"]}
    assert "random" not in welcome["minds"]
    assert {"Tiger", "Rose"} <= set(welcome["openings"])


def test_a_game_against_a_player(tab):
    state = tab.ask("new", white="random@own")
    rng = random.Random(1)
    while not state["over"]:
        assert state["black_to_move"]
        tab.say("play", square=rng.choice(state["legal"]), ply=state["ply"])
        state = tab.hear("state", lambda new: new["over"] or new["black_to_move"])
    assert state["result"]
    assert state["margin"] == Position.parse(state["position"]).black_score()
    assert len(parse_transcript(state["transcript"])) == len(state["moves"])


def test_undo_and_redo_against_a_player_are_whole_turns(tab):
    tab.ask("new", white="random@own")
    tab.say("play", square="f5", ply=0)
    answered = tab.hear("state", lambda new: len(new["moves"]) == 2)
    assert tab.ask("undo")["moves"] == []
    assert tab.ask("redo")["moves"] == answered["moves"]


def test_two_players_can_be_watched_and_paused(tab):
    tab.say("new", black="random@own", white="random@own")
    tab.hear("state", lambda new: len(new["moves"]) > 3)
    tab.say("pause", on=True)
    paused = tab.hear("state", lambda new: new["paused"])
    tab.say("goto", ply=0)
    assert tab.hear("state", lambda new: new["ply"] == 0)["moves"] == paused["moves"]
    tab.say("pause", on=False)
    assert tab.hear("state", lambda new: new["over"])["result"]


def test_a_click_that_comes_too_late_is_no_move(tab):
    tab.ask("new")
    tab.ask("play", square="f5", ply=0)
    state = tab.ask("play", square="d3", ply=0)
    assert state["moves"] == ["f5"]


def test_what_is_wrong_is_said_and_changes_nothing(tab):
    before = tab.ask("new")
    for fields, reason in (
        ({"type": "play", "square": "a1", "ply": 0}, "flips nothing"),
        ({"type": "new", "start": "X" * 64}, "side to move is missing"),
        ({"type": "new", "start": f"{'X' * 64} X"}, "the game is over"),
        ({"type": "new", "opening": "Nobody's"}, "no opening"),
        ({"type": "new", "black": "gtp:sh@own"}, "there is no player"),
        ({"type": "analyze", "on": True}, "no move to judge"),
        ({"type": "redo"}, "nothing to play again"),
    ):
        tab.socket.send(json.dumps(fields))
        note = tab.hear("note")
        assert note["error"]
        assert reason in note["text"]
    assert tab.ask("goto", ply=0)["position"] == before["position"]


def test_openings(tab):
    state = tab.ask("new", opening="Tiger")
    assert (state["opening"], state["transcript"]) == ("Tiger", "c4e3f6e6f5")
    tab.say("new", opening="random")
    assert len(tab.hear("state", lambda new: new["transcript"] != "c4e3f6e6f5")["moves"]) == 8


def test_a_clock_that_runs_out_ends_the_game(tab):
    state = tab.ask("new", clock=0.3)
    assert state["clocks"]["running"] is None  # before the first move
    tab.say("play", square="f5", ply=0)
    assert tab.hear("state", lambda new: new["over"])["result"] == "White has run out of time: Black wins"


def test_files(tab):
    tab.ask("new", moves="f5d6c3")
    [game] = parse_games(tab.ask("export", "file", format="ggf")["text"])
    assert len(game.moves) == 3
    assert tab.ask("export", "file", format="svg")["text"].startswith("<svg")
    assert tab.ask("export", "file", format="txt")["text"] == "f5d6c3\n"
    assert parse_games(tab.ask("export", "file", format="sgf")["text"])


# --- thoughts --------------------------------------------------------------------------------------------------------


def test_values_sharpen_and_depths_only_grow(tab):
    tab.ask("new", moves="f5d6c3")
    tab.say("minds", mind="champion")
    depths = []
    while not depths or depths[-1] < 8:
        news = tab.hear("values")
        assert set(news["moves"]) == set(tab.news["state"]["legal"])
        assert news["best"] in news["moves"]
        depths.append(news["depth"])
    assert depths == sorted(depths)
    assert len(depths) > 1


def test_values_of_an_ending_are_exact(tab):
    tab.ask("new", start=ENDING)
    tab.say("minds", mind="champion")
    news = tab.hear("values", lambda news: news["done"])
    assert all(move["exact"] for move in news["moves"].values())
    assert (news["best"], news["moves"]["d1"]["value"]) == ("d1", 16)


def test_values_belong_to_the_position_that_is_shown(tab):
    tab.ask("new")
    tab.say("minds", mind="champion")
    tab.hear("values")
    for square in ("f5", "d6", "c3", "d3"):
        tab.say("play", square=square, ply=tab.news["state"]["ply"])
        state = tab.hear("state", lambda new, square=square: new["last"] == square)
        news = tab.hear("values")  # nothing about the position before comes after the move
        assert news["position"] == state["position"]


def test_the_whole_game_is_judged_and_can_be_stopped(tab):
    tab.ask("new", moves=LOGISTELLO)
    tab.say("minds", mind="champion", values=False)
    tab.say("analyze", on=True)
    news = tab.hear("analysis", lambda news: len(news["minds"][0]["rows"]) == 60)
    [mind] = news["minds"]
    assert all(row["exact"] for row in mind["rows"][-8:])
    assert mind["losses"]["black"] + mind["losses"]["white"] == pytest.approx(
        sum(row["loss"] for row in mind["rows"]), abs=0.3
    )
    assert tab.news["state"]["analyzes"]
    assert not tab.ask("analyze", on=False)["analyzes"]


def test_two_minds(tab):
    tab.ask("new", moves="f5d6c3d3c4")
    tab.say("minds", mind="champion", other="swh")
    wanted = {"champion", "swh"}
    while wanted:
        wanted.discard(tab.hear("values")["mind"])
    tab.say("analyze", on=True)
    news = tab.hear("analysis", lambda news: all(len(mind["rows"]) == 5 for mind in news["minds"]))
    assert [mind["mind"] for mind in news["minds"]] == ["champion", "swh"]


@pytest.mark.parametrize(("mind", "kind"), [("champion", "patterns"), ("swh", "patterns"), ("mobility", "discs")])
def test_what_a_net_looks_at(tab, mind, kind):
    state = tab.ask("new", moves="f5d6c3d3c4f4f6")
    tab.say("minds", mind=mind, values=False, look=True)
    news = tab.hear("look")
    assert (news["mind"], news["kind"], news["position"]) == (mind, kind, state["position"])
    assert len(news["squares"]) == 64
    assert any(news["squares"])
    assert bool(news["patterns"]) == (kind == "patterns")


def test_a_hint(tab):
    state = tab.ask("new", start=ENDING)
    assert tab.ask("hint", "hint")["move"] in state["legal"]


def test_a_closed_tab_stops_its_search(server):
    tab = Tab(server)
    tab.ask("new")
    tab.say("minds", mind="champion")
    tab.hear("values", lambda news: news["depth"] > 8)
    assert server.tabs.pool.busy
    tab.close()
    wait_until(lambda: not server.tabs.pool.busy)


def test_tabs_are_independent(server):
    tabs = [Tab(server) for _ in range(3)]
    for tab, moves in zip(tabs, ("f5", "d3c5", "e6f6f5"), strict=True):
        assert tab.ask("new", moves=moves)["transcript"] == moves
        tab.say("minds", mind="champion")
    for tab in tabs:
        assert tab.hear("values", lambda news: news["depth"] >= 6)["position"] == tab.news["state"]["position"]
        tab.close()


# --- enemies ---------------------------------------------------------------------------------------------------------


def request(server: LocalServer, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(HOST, server.port, timeout=HANG_SECONDS)
    connection.putrequest(method, path, skip_host="Host" in headers, skip_accept_encoding=True)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    if answer.status < 500:
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    connection.close()
    return answer.status, body


def knock(server: LocalServer, *headers: str) -> int:
    """The status of a WebSocket's handshake."""
    common = "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"
    lines = "GET /ws HTTP/1.1", *headers, *common, "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "", ""
    with socket.create_connection((HOST, server.port)) as plain:
        plain.sendall("\r\n".join(lines).encode())
        return int(plain.recv(1000).split()[1])


def test_the_page_and_nothing_else_is_served(server):
    status, page = request(server, "/")
    assert status == 200
    assert b"<title>Othello</title>" in page
    for path in ("/style.css", "/app.js", "/board.js", "/icon.svg"):
        assert request(server, path)[0] == 200
    secrets = (
        "/../pyproject.toml",
        "/..%2f..%2fmessages.py",
        "/messages.py",
        "//etc/passwd",
        "/page/",
        "/%00",
        "/ws",
        "/x",
    )
    for path in secrets:
        status, body = request(server, path)
        assert status == 404
        assert body == b"there is nothing here\n"
    assert request(server, "/", "POST")[0] == 405
    assert request(server, "/", "DELETE")[0] == 405


def test_foreign_hosts_are_refused(server):
    for host in ("evil.example", f"evil.example:{server.port}", HOST, f"{HOST}:1", "", f"{HOST}:{server.port}.evil"):
        assert request(server, "/", Host=host)[0] in (400, 403)
    assert request(server, "/", Host=f"localhost:{server.port}")[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "https://127.0.0.1:1"},
        {"Origin": "http://localhost:{port}"},
        {"Host": "evil.example:{port}", "Origin": "http://evil.example:{port}"},
    ],
)
def test_foreign_pages_get_no_socket(server, headers):
    headers = {name: value.format(port=server.port) for name, value in headers.items()}
    host = headers.get("Host", f"{HOST}:{server.port}")
    assert knock(server, f"Host: {host}", f"Origin: {headers['Origin']}") == 403


def test_nobody_without_an_origin_gets_a_socket(server):
    host = f"Host: {HOST}:{server.port}"
    assert knock(server, host) == 403
    assert knock(server, host, f"Origin: {server.address}", f"Origin: {server.address}") in (400, 403)
    assert knock(server, host, f"Origin: {server.address}") == 101


def test_a_message_that_is_too_long_ends_the_connection_alone(server, tab):
    other = Tab(server)
    other.socket.send("x" * 200_000)
    with pytest.raises(websockets.exceptions.ConnectionClosed):
        other.hear("never")
    assert tab.ask("new")["moves"] == []


def test_whoever_says_only_nonsense_is_shown_the_door(server, tab):
    other = Tab(server)
    for _ in range(60):
        other.socket.send("nonsense")
    with pytest.raises(websockets.exceptions.ConnectionClosed) as caught:
        other.hear("never")
    assert caught.value.rcvd.code == 1008
    assert tab.ask("new")["moves"] == []


def test_a_flood_does_not_keep_others_waiting(server, tab):
    flood = Tab(server)
    for i in range(300):
        flood.say("goto", ply=i % 60)
    started = time.monotonic()
    tab.ask("new")
    assert time.monotonic() - started < 5
    flood.close()


def test_too_many_tabs_are_told_to_come_later(server):
    tabs = [Tab(server) for _ in range(MOST_TABS)]
    for tab in tabs:
        tab.hear("welcome")
    late = Tab(server)
    with pytest.raises(websockets.exceptions.ConnectionClosed) as caught:
        late.hear("welcome")
    assert caught.value.rcvd.code == 1013
    for tab in tabs:
        tab.close()
    wait_until(lambda: not server.tabs.open)
    again = Tab(server)
    assert again.hear("welcome")
    again.close()


def test_a_page_that_does_not_read_costs_little(server):
    tab = Tab(server)
    for i in range(150):
        tab.say("goto", ply=i % 3)
        tab.say("export", format="svg")
    assert tab.hear("file")
    tab.close()


def test_a_little_of_everything_hostile(server, tab):
    wrong: list[str] = []
    attack(server.port, random.Random(5), 400, 20, (ROOT / "pyproject.toml").read_bytes()[:40], wrong)
    assert wrong == []
    assert tab.ask("new")["moves"] == []
    tab.say("new")
    wait_until(lambda: server.tabs.open == 1)


# --- the command -----------------------------------------------------------------------------------------------------


def test_a_port_that_is_taken(capsys):
    with listen(0) as taken:
        port = taken.getsockname()[1]
        assert cli.main(["serve", "--port", str(port), "--no-open"]) == 1
    assert f"port {port} is taken" in capsys.readouterr().err


def test_a_player_that_is_none_is_said_before_anything_opens(capsys):
    assert cli.main(["serve", "--player", "champoin", "--no-open"]) == 2
    assert "did you mean 'champion'" in capsys.readouterr().err


def test_serve_says_where_it_is_and_ends_with_ctrl_c():
    words = [sys.executable, str(ROOT / "play.py"), "serve", "--port", "0", "--no-open", "--player", "champion:depth=3"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline()
        port = int(line.split(":")[2].split("/")[0])
        connection = http.client.HTTPConnection(HOST, port, timeout=HANG_SECONDS)
        connection.request("GET", "/")
        assert connection.getresponse().status == 200
        connection.close()
        process.send_signal(2)
        _, errors = process.communicate(timeout=HANG_SECONDS)
    assert line.startswith("The board is at http://127.0.0.1:")
    assert (process.returncode, errors) == (130, "")


def test_without_the_packages_it_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert cli.main(["serve", "--port", "0", "--no-open"]) == 1
    assert "othello-nn[web]" in capsys.readouterr().err
