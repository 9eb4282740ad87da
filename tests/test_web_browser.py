"""The page in a real browser: Debian's chromium, driven by Playwright. Skipped, with a reason, where one is missing.

The server runs in this process, without the pause that lets people see the computer's moves.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from patience import HANG_SECONDS
from web_server import HOST, LocalServer, local_server, wait_until

from othello_nn.game import Position
from othello_nn.game.formats.files import parse_games

pytest.importorskip("starlette", reason="the extra web is not installed")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None:
    pytest.skip("there is no chromium: apt-get install chromium", allow_module_level=True)

expect = playwright.expect
ROOT = Path(__file__).resolve().parent.parent
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# LOGISTELLO 33-31 KEYANO, as printed in the KEYANO paper.
LOGISTELLO = (
    "d3c5e6f5f6e3d6f7g6c4c6e7d7g5f4c8h6c7d8e8f3h4g4c3b3h3g3d2b4b5c2a4e2c1d1a3a6a5a2h2b6e1b2a1b1g2h1h5f2a7f1h7h8g1g7g8f8"
    "b7a8b8"
)
ENDING = "--X-OXX-OXXXOOXOXOXXO-OXXXOXOOXOXXOOXOX-XXOOOOX-XOOOOOXOXOOOOOO- X"
PHONE, DESK = {"width": 360, "height": 740}, {"width": 1600, "height": 1000}


@pytest.fixture(scope="module")
def server():
    with local_server() as server:
        yield server


@pytest.fixture(scope="module")
def chromium():
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


GONE = "WebSocket", "ERR_CONNECTION_", "ERR_SOCKET_", "ERR_EMPTY_RESPONSE"
"""What a browser says of a server that is not there, or is gone while it answers, which some of the tests are about."""
CUT_SHORT = "ERR_CONTENT_LENGTH_MISMATCH"
"""What it says where the server was killed in the middle of a file; of one that lives, it is a fault."""


@pytest.fixture
def open_page(chromium, server):
    """``open_page(link, **context)``: a page that is ready. Whatever it complains about fails the test."""
    contexts, complaints = [], []

    def open_page(
        link: str = "",
        *,
        address: str = server.address,
        settings: dict | None = None,
        forgiven: tuple[str, ...] = GONE,
        **options,
    ):
        context = chromium.new_context(**{"viewport": DESK, "reduced_motion": "reduce"} | options)
        contexts.append(context)
        context.set_default_timeout(1000 * HANG_SECONDS)
        for key, value in ({"seats": SEATS} | (settings or {})).items():
            name, text = f"othello.{key}", json.dumps(json.dumps(value))
            context.add_init_script(f"localStorage.getItem('{name}') ?? localStorage.setItem('{name}', {text})")
        page = context.new_page()
        page.on(
            "console",
            lambda message: (
                message.type == "error"
                and not any(word in message.text for word in forgiven)
                and complaints.append(message.text)
            ),
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(f"{address}/{link}")
        expect(page.locator(".piece").first).to_be_visible(timeout=1000 * HANG_SECONDS)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not complaints


SEATS = {"side": "both", "players": ["random", "random"], "levels": ["own", "own"]}


def against(side: str = "black", player: str = "random", level: str = "own") -> dict:
    return {"seats": {"side": side, "players": [player, player], "levels": [level, level]}}


def play(page, *squares: str) -> None:
    for square in squares:
        count = moves(page).count()
        page.click(f"[data-square={square}]")
        expect(moves(page)).not_to_have_count(count)


def moves(page):
    return page.locator("#moves button")


def transcript(page) -> str:
    return "".join(re.findall(r"[a-h][1-8]", "".join(moves(page).all_inner_texts())))


def status(page):
    return page.locator("#status")


def slow(**options):
    return {"timeout": 1000 * HANG_SECONDS} | options


# --- playing ---------------------------------------------------------------------------------------------------------


def test_the_board_is_there_with_its_legal_moves(open_page):
    page = open_page()
    expect(page.locator(".piece")).to_have_count(4)
    expect(page.locator(".dot")).to_have_count(4)
    expect(status(page)).to_have_text("Black to move")
    assert page.title() == "Othello"


def test_a_move_is_played_and_answered(open_page):
    page = open_page(settings=against())
    page.click("[data-square=f5]")
    expect(moves(page)).to_have_count(2, **slow())
    expect(status(page)).to_have_text("Black to move")
    expect(page.locator("#black .count")).to_have_text("3")


def test_a_square_that_is_no_move_does_nothing(open_page):
    page = open_page()
    page.click("[data-square=a1]")
    play(page, "f5")
    assert transcript(page) == "f5"


def test_a_whole_game_is_played_judged_and_explained(open_page):
    page = open_page(settings=against())
    for _ in range(70):
        expect(status(page)).to_have_text(re.compile("Black to move|wins|draw"), **slow())
        if "to move" not in status(page).inner_text():
            break
        count = moves(page).count()
        page.click("[data-square].legal >> nth=0")
        expect(moves(page)).not_to_have_count(count)
    expect(status(page)).to_have_text(re.compile("wins|draw"))
    assert Position.start().replay(transcript(page)).is_over
    expect(page.locator("#losses")).to_contain_text("Given away, by champion", **slow())  # judged without being asked


def test_playing_white(open_page):
    page = open_page(settings=against("white"))
    expect(moves(page)).to_have_count(1, **slow())
    expect(status(page)).to_have_text("White to move")


def test_undo_takes_back_a_whole_turn_and_redo_plays_it_again(open_page):
    page = open_page(settings=against())
    page.click("[data-square=f5]")
    expect(moves(page)).to_have_count(2, **slow())
    before = transcript(page)
    page.click("#undo")
    expect(moves(page)).to_have_count(0)
    expect(page.locator(".piece")).to_have_count(4)
    page.click("#redo")
    expect(moves(page)).to_have_count(2)
    assert transcript(page) == before


def test_undo_has_no_end(open_page):
    page = open_page()
    play(page, "f5", "d6", "c3", "d3", "c4")
    for left in range(4, -1, -1):
        page.keyboard.press("u")
        expect(moves(page)).to_have_count(left)
    for count in range(1, 6):
        page.keyboard.press("r")
        expect(moves(page)).to_have_count(count)
    assert transcript(page) == "f5d6c3d3c4"
    expect(page.locator("#redo")).to_be_disabled()


def test_a_new_game_from_the_dialog(open_page):
    page = open_page()
    page.keyboard.press("n")
    page.click("text=Watch")
    page.select_option("#player-1", "fewest-discs")
    page.select_option("#player-2", "random")
    page.click("#start")
    expect(status(page)).to_have_text(re.compile("wins|draw"), **slow())
    expect(page.locator("#black .name")).to_have_text("fewest-discs")


def test_a_named_opening_and_the_position_on_the_board(open_page):
    page = open_page()
    page.keyboard.press("n")
    page.select_option("#from", "opening Tiger")
    page.click("#start")
    expect(page.locator("#opening")).to_have_text("Tiger opening")
    assert transcript(page) == "c4e3f6e6f5"
    page.keyboard.press("n")
    page.select_option("#from", "here")
    page.click("#start")
    expect(moves(page)).to_have_count(0)
    expect(page.locator(".piece")).to_have_count(9)


def test_a_random_balanced_opening(open_page):
    page = open_page()
    page.keyboard.press("n")
    page.select_option("#from", "random")
    page.click("#start")
    expect(moves(page)).to_have_count(8, **slow())


def test_watching_can_be_paused(open_page):
    page = open_page(settings=against("none", "champion", "Champion"))
    expect(page.locator("#pause")).to_be_visible()
    expect(moves(page)).not_to_have_count(0, **slow())
    page.keyboard.press(" ")
    expect(page.locator("#pause")).to_have_text("Go on")
    count = moves(page).count()
    page.wait_for_timeout(200)
    assert moves(page).count() == count
    page.click("#pause")
    expect(moves(page)).not_to_have_count(count, **slow())


def test_resigning(open_page):
    page = open_page(settings=against())
    page.click("[data-square=f5]")
    expect(moves(page)).to_have_count(2, **slow())
    page.click("#resign")
    expect(status(page)).to_have_text("Black resigns: White wins")


def test_the_clock_runs(open_page):
    page = open_page()
    page.keyboard.press("n")
    page.select_option("#clock", "60")
    page.click("#start")
    expect(page.locator("#white .clock")).to_have_text("1:00")
    play(page, "f5")
    expect(page.locator("#white .clock")).to_have_text("0:59", **slow())
    expect(page.locator("#black .clock")).to_have_text("1:00")


def test_a_hint_marks_a_square(open_page):
    page = open_page(f"#{ENDING.replace(' ', '')}")
    page.keyboard.press("h")
    expect(page.locator(".hint")).to_be_visible(**slow())
    expect(page.locator(".note").last).to_contain_text("d1, +16")


# --- thinking --------------------------------------------------------------------------------------------------------


def test_values_appear_sharpen_and_go(open_page):
    page = open_page("#f5d6c3")
    page.keyboard.press("v")
    expect(page.locator(".value")).to_have_count(page.locator(".square.legal").count(), **slow())
    expect(page.locator(".best")).to_have_count(1)
    depths = {int(depth) for depth in page.locator(".deep").all_text_contents()}
    wait_until(
        lambda: page.wait_for_timeout(50) or min(map(int, page.locator(".deep").all_text_contents())) > max(depths)
    )
    expect(page.locator(".thought")).to_contain_text("deep, 73 %")
    page.keyboard.press("v")
    expect(page.locator(".value")).to_have_count(0)


def test_exact_values_are_told_apart(open_page):
    page = open_page(f"#{ENDING.replace(' ', '')}")
    page.keyboard.press("v")
    expect(page.locator(".thought")).to_contain_text("exact, 100 %", **slow())
    legal = page.locator(".square.legal").count()
    expect(page.locator(".value.exact")).to_have_count(legal)
    expect(page.locator("[data-value=d1]")).to_have_text("+16")


def test_two_minds_side_by_side(open_page):
    page = open_page("#f5d6c3d3")
    page.keyboard.press("v")
    page.select_option("#other", "swh")
    legal = page.locator(".square.legal").count()
    for mind in (0, 1):
        expect(page.locator(f"[data-mind='{mind}']")).to_have_count(legal, **slow())
    expect(page.locator(".curve")).to_have_count(0)  # one position is known: a point, and no line
    expect(page.locator(".point")).to_have_count(2)
    page.locator("body").click(position={"x": 5, "y": 500})
    page.keyboard.press("a")
    expect(page.locator(".curve.second")).to_have_count(1, **slow())
    expect(page.locator(".curve")).to_have_count(2)


def test_what_the_net_looks_at(open_page):
    page = open_page("#f5d6c3d3c4f4f6")
    page.keyboard.press("l")
    expect(page.locator(".heat").first).to_be_visible(**slow())
    expect(page.locator("#looks")).to_contain_text("on average at this stage")
    page.hover("#looks li >> nth=0")
    named = page.locator("#looks li span").first.inner_text().split()
    expect(page.locator(".spot")).to_have_count(len(named))


def test_analysis_marks_moves_draws_a_curve_and_names_the_turning_point(open_page):
    page = open_page(f"#{LOGISTELLO}")
    page.keyboard.press("a")
    expect(page.locator("#progress")).to_be_visible()
    expect(page.locator("#losses")).to_contain_text("Given away, by champion", **slow())
    told = re.compile(r"White lost it at \d+\. [a-h][1-8] \(−\d+\): [a-h][1-8] was right\.")  # 42. e1, once solved
    expect(page.locator("#story")).to_have_text(told, **slow())
    expect(page.locator(".moves em.q:not(:empty)").first).to_be_attached()
    expect(page.locator(".graph .turning")).to_have_count(1)
    page.keyboard.press("a")
    expect(page.locator("#analyze")).to_have_text("Analyse")


def test_passes_are_not_counted_as_moves(open_page):
    page = open_page("#c4c3e6b4a4a5b2a3c1")  # black has no move after a3
    expect(page.locator("#where")).to_have_text("9 of 9")
    expect(page.locator("#moves")).to_contain_text("pass")
    expect(page.locator(".graph")).to_contain_text("move 9")


def test_the_graph_draws_no_line_over_what_is_not_known(open_page):
    page = open_page(f"#{LOGISTELLO}@30")
    page.keyboard.press("v")
    expect(page.locator(".graph .point")).to_have_count(2, **slow())  # the position that is shown, and the result
    expect(page.locator(".graph .curve")).to_have_count(0)


def test_the_graph_leads_to_a_ply_by_click_and_drag(open_page):
    page = open_page(f"#{LOGISTELLO}")
    box = page.locator("#graph").bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.click(box["x"] + box["width"] / 2, middle)
    expect(page.locator("#where")).to_have_text(re.compile(r"^(28|29|30) of 60"))
    page.mouse.move(box["x"] + box["width"] / 2, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + 3, middle, steps=5)
    page.mouse.up()
    expect(page.locator("#where")).to_have_text("0 of 60")
    expect(page.locator(".piece")).to_have_count(4)


def test_going_through_a_game(open_page):
    page = open_page(f"#{LOGISTELLO}")
    expect(page.locator("#where")).to_have_text("60 of 60")
    page.keyboard.press("Home")
    expect(page.locator("#where")).to_have_text("0 of 60")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    expect(page.locator("#where")).to_have_text("3 of 60")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#where")).to_have_text("2 of 60")
    moves(page).nth(9).click()
    expect(page.locator("#where")).to_have_text("10 of 60")
    page.keyboard.press("End")
    expect(page.locator("#where")).to_have_text("60 of 60")


# --- in and out ------------------------------------------------------------------------------------------------------

BOARD = Position.start().to_text().replace("X", "*")
RECORD = f"(;GM[Othello]PB[Ann]PW[Bob]RE[?]TI[5:00]TY[8]BO[8 {BOARD}]B[F5]W[D6]B[C3];)"


@pytest.mark.parametrize(
    "text",
    [
        "F5 d6 c3",
        "1. f5 d6 2. c3 40-24",
        '[Black "A"]\n[White "B"]\n1. f5 d6 2. c3',
        RECORD,
        "(;GM[2];B[f5];W[d6];B[c3])",
    ],
)
def test_a_game_is_pasted(open_page, text):
    page = open_page()
    page.keyboard.press("p")
    page.fill("#paste-text", text)
    page.click("#paste-read")
    expect(page.locator("#paste-dialog")).to_be_hidden()
    assert transcript(page) == "f5d6c3"


def test_a_board_is_pasted_from_the_clipboard(open_page):
    page = open_page()
    page.evaluate(
        """text => {
            const data = new DataTransfer();
            data.setData("text", text);
            document.body.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true }));
        }""",
        ENDING,
    )
    expect(page.locator(".piece")).to_have_count(64 - Position.parse(ENDING).empties)


def test_what_cannot_be_read_is_explained_and_can_be_mended(open_page):
    page = open_page()
    page.keyboard.press("p")
    page.fill("#paste-text", "f5d6c3z9")
    page.click("#paste-read")
    expect(page.locator("#paste-error")).to_contain_text("move 4, character index 6")
    page.fill("#paste-text", "f5d6c3")
    page.click("#paste-read")
    expect(page.locator("#paste-dialog")).to_be_hidden()
    assert transcript(page) == "f5d6c3"


def test_the_board_is_edited(open_page):
    page = open_page()
    page.keyboard.press("e")
    page.click("#edit-clear")
    expect(page.locator(".piece")).to_have_count(0)
    page.click("[data-square=d4]")
    page.click(".editor .disc.white")
    page.click("[data-square=d5]")
    page.click("[data-square=h8]")
    page.click("[data-square=h8]")  # and off again
    page.click("#edit-done")
    expect(page.locator("#editor")).to_be_hidden()
    expect(page.locator(".square.legal")).to_have_count(1)
    play(page, "d6")
    expect(page.locator("#black .count")).to_have_text("3")
    expect(status(page)).to_contain_text("Black wins")


def test_an_edited_board_without_a_move_is_refused(open_page):
    page = open_page()
    page.keyboard.press("e")
    page.click("#edit-clear")
    page.click("#edit-done")
    expect(page.locator(".note.bad")).to_contain_text("the game is over")
    expect(page.locator("#editor")).to_be_visible()
    page.click("#edit-cancel")
    expect(page.locator(".piece")).to_have_count(4)


def test_the_editor_stays_open_while_the_game_is_the_same(open_page):
    page = open_page("#f5d6c3d3")
    states = []

    def hear(text: str) -> None:
        if json.loads(text)["type"] == "state":
            states.append(text)

    page.on("websocket", lambda socket: socket.on("framereceived", hear))
    page.reload()
    expect(moves(page)).to_have_count(4)

    def press_v() -> None:
        """Values on or off, which is answered with the state of the game."""
        before = len(states)
        page.keyboard.press("v")
        wait_until(lambda: page.wait_for_timeout(20) or len(states) > before)

    page.keyboard.press("e")
    page.click("#edit-clear")
    page.click("[data-square=d4]")
    press_v()
    expect(page.locator("#editor")).to_be_visible()
    expect(page.locator(".piece")).to_have_count(1)
    page.click("#edit-done")
    expect(page.locator(".note.bad")).to_contain_text("the game is over")  # refused, and can be mended
    press_v()
    expect(page.locator("#editor")).to_be_visible()
    page.keyboard.press("Home")  # another position is looked at
    expect(page.locator("#editor")).to_be_hidden()
    expect(page.locator("#where")).to_have_text("0 of 4")


def test_the_board_that_is_there_can_be_edited_to_itself(open_page):
    page = open_page()
    page.keyboard.press("e")
    page.click("#edit-done")
    expect(page.locator("#editor")).to_be_hidden()
    play(page, "f5")


def test_computers_wait_while_the_board_is_edited(open_page):
    page = open_page(settings=against("none", "champion", "Champion"))
    expect(moves(page)).not_to_have_count(0, **slow())
    count = moves(page).count()
    page.keyboard.press("e")
    page.click("#edit-clear")
    page.wait_for_timeout(3200)  # three moves
    expect(page.locator(".piece")).to_have_count(0)
    page.click("#edit-cancel")
    assert moves(page).count() <= count + 1  # one may have been on its way
    expect(page.locator("#pause")).to_have_text("Pause")
    count = moves(page).count()
    expect(moves(page)).not_to_have_count(count, **slow())


def test_the_moves_the_board_and_a_link_are_copied(open_page, server):
    page = open_page("#f5d6c3@1", permissions=["clipboard-read", "clipboard-write"])
    expect(page.locator("#where")).to_have_text("1 of 3")
    copied = {}
    for what in ("transcript", "board", "link"):
        page.click("#more summary")
        page.click(f"[data-copy={what}]")
        expect(page.locator(".note").last).to_contain_text("Copied")
        copied[what] = page.evaluate("navigator.clipboard.readText()")
    assert copied == {
        "transcript": "f5d6c3",
        "board": Position.parse("f5").to_text(),
        "link": f"{server.address}/#f5d6c3@1",
    }


@pytest.mark.parametrize("kind", ["ggf", "svg"])
def test_files_are_downloaded(open_page, kind):
    page = open_page("#f5d6c3")
    page.click("#more summary")
    with page.expect_download() as waiting:
        page.click(f"[data-export={kind}]")
    text = Path(waiting.value.path()).read_text(encoding="utf-8")
    assert waiting.value.suggested_filename == f"othello.{kind}"
    if kind == "ggf":
        [game] = parse_games(text)
        assert len(game.moves) == 3
    else:
        assert text.startswith("<svg")


def test_a_link_that_leads_nowhere_is_explained(open_page):
    page = open_page("#f5z9")
    expect(page.locator(".note.bad")).to_contain_text("the link leads nowhere: move 2")
    expect(page.locator(".piece")).to_have_count(4)


def test_a_link_opens_and_a_reload_keeps_the_game(open_page):
    page = open_page("#f5d6c3d3@2")
    expect(page.locator("#where")).to_have_text("2 of 4")
    page.keyboard.press("End")
    play(page, "c4")
    page.reload()
    expect(moves(page)).to_have_count(5)
    assert page.url.endswith("#f5d6c3d3c4")


# --- tabs and servers ------------------------------------------------------------------------------------------------


def test_two_tabs_are_two_games(open_page):
    first, second = open_page(), open_page()
    first.keyboard.press("v")
    second.keyboard.press("v")
    play(first, "f5", "d6")
    play(second, "d3")
    assert (transcript(first), transcript(second)) == ("f5d6", "d3")
    for page in (first, second):
        expect(page.locator(".value").first).to_be_visible(**slow())


def test_a_closed_tab_stops_its_search(open_page, server):
    wait_until(lambda: not server.tabs.pool.busy)
    page = open_page("#f5d6c3")
    page.keyboard.press("v")
    expect(page.locator(".value").first).to_be_visible(**slow())
    assert server.tabs.pool.busy
    page.close()
    wait_until(lambda: not server.tabs.pool.busy)


def test_a_server_that_is_killed_and_started_again(open_page):
    words = [sys.executable, str(ROOT / "play.py"), "serve", "--no-open", "--port"]

    def start(port: int) -> tuple[subprocess.Popen, int]:
        process = subprocess.Popen([*words, str(port)], stdout=subprocess.PIPE, text=True)
        return process, int(process.stdout.readline().split(":")[2].split("/")[0])

    process, port = start(0)
    try:
        page = open_page(address=f"http://{HOST}:{port}", forgiven=(*GONE, CUT_SHORT))
        play(page, "f5", "d6", "c3")
        process.kill()
        process.communicate()
        expect(page.locator("#connection")).to_be_visible(**slow())
        page.click("[data-square=d3]")  # is lost, and harms nothing
        process, _ = start(port)
        expect(page.locator("#connection")).to_be_hidden(**slow())
        play(page, "d3")
        assert transcript(page) == "f5d6c3d3"
    finally:
        process.kill()
        process.communicate()


# --- looks -----------------------------------------------------------------------------------------------------------


def test_a_phone_shows_everything_in_its_width(open_page):
    page = open_page("#f5d6c3", viewport=PHONE)
    page.keyboard.press("v")
    expect(page.locator(".value").first).to_be_visible(**slow())
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    box = page.locator("#board svg").bounding_box()
    assert box["width"] > 330
    assert box["x"] >= 0
    assert box["y"] + box["height"] < PHONE["height"]
    for button in page.locator(".actions button:visible, .nav button:visible").all():
        size = button.bounding_box()
        assert size["x"] >= 0
        assert size["x"] + size["width"] <= PHONE["width"]
        assert size["height"] >= 30
    page.click("[data-square=d3]")
    expect(moves(page)).to_have_count(4)
    expect(page.locator("#resign")).to_be_visible()
    row = [button.bounding_box()["y"] for button in page.locator(".actions > button:visible, #more").all()]
    assert len(row) == 6
    assert max(row) - min(row) < 5  # none in a line of its own
    page.click("#help")
    assert page.locator("#help-dialog").evaluate("dialog => dialog.scrollTop") == 0


def test_a_desk_shows_board_and_panels_without_scrolling(open_page):
    page = open_page("#f5d6c3", viewport=DESK)
    assert page.evaluate("document.documentElement.scrollWidth") <= DESK["width"]
    board = page.locator("#board svg").bounding_box()
    moves_list = page.locator("#moves").bounding_box()
    actions = page.locator(".actions").bounding_box()
    assert board["width"] > 700
    assert moves_list["x"] > board["x"] + board["width"]
    assert actions["y"] + actions["height"] < DESK["height"]
    assert moves_list["y"] < DESK["height"]


def test_both_themes_and_the_switch_between_them(open_page):
    background = "getComputedStyle(document.body).backgroundColor"
    light, dark = open_page(color_scheme="light"), open_page(color_scheme="dark")
    assert light.evaluate(background) != dark.evaluate(background)
    light.keyboard.press("t")
    assert light.evaluate(background) == dark.evaluate(background)
    light.reload()
    assert light.evaluate(background) == dark.evaluate(background)


def test_discs_turn_over_where_motion_is_welcome(open_page):
    page = open_page(reduced_motion="no-preference")
    play(page, "f5")
    assert page.locator(".piece.placed").count() == 1
    assert page.locator(".piece.flipped").count() == 1
    expect(page.locator(".piece.is-b")).to_have_count(4)


# --- keyboard and screen reader --------------------------------------------------------------------------------------


def test_the_board_is_played_with_the_keyboard_and_announced(open_page):
    page = open_page()
    announced = page.locator("#announce")
    page.keyboard.press("ArrowDown")  # onto the board, at d4
    expect(announced).to_have_text("d4, white")
    page.keyboard.press("ArrowUp")
    expect(announced).to_have_text("d3, legal move")
    page.keyboard.press("Enter")
    expect(announced).to_have_text("Black d3. White to move.")
    page.keyboard.press("ArrowLeft")
    expect(announced).to_have_text("c3, legal move")
    page.keyboard.press("Enter")
    expect(announced).to_have_text("White c3. Black to move.")
    page.keyboard.press("Escape")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#where")).to_have_text("1 of 2")


def test_the_keys_are_listed(open_page):
    page = open_page()
    page.keyboard.press("?")
    expect(page.locator("#help-dialog")).to_be_visible()
    for key in "uhavlnpert?":
        assert page.locator(f"#help-dialog kbd:text-is('{key}')").count() == 1
    page.keyboard.press("Escape")
    expect(page.locator("#help-dialog")).to_be_hidden()


def test_everything_has_a_name_for_screen_readers(open_page):
    page = open_page("#f5")
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("button, select, textarea, input, summary")]
            .filter((node) => !(node.textContent.trim() || node.getAttribute("aria-label") || node.labels?.length))
            .map((node) => node.outerHTML)"""
    )
    assert nameless == []
    assert page.locator("#board svg").get_attribute("aria-label")


def test_a_second_server_is_another_place(open_page):
    other = LocalServer()
    try:
        page = open_page(address=other.address)
        play(page, "f5")
        assert other.tabs.open == 1
    finally:
        page.close()
        other.close()
