"""The picture of the browser's board in README: a game that is analysed, with the values of two players.

    python benchmarks/board_picture.py docs/board.png

Needs chromium and the extra ``dev``. The game is LOGISTELLO 33-31 KEYANO, as printed in the KEYANO paper.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # this clone's package, installed or not

from benchmarks.web import HOST, launch_chromium, start_server

GAME = (
    "d3c5e6f5f6e3d6f7g6c4c6e7d7g5f4c8h6c7d8e8f3h4g4c3b3h3g3d2b4b5c2a4e2c1d1a3a6a5a2h2b6e1b2a1b1g2h1h5f2a7f1h7h8g1g7g8f8"
    "b7a8b8"
)
PLY = 38
WIDTH, HEIGHT = 1060, 740
WAIT_MS = 300_000


def main(path: str) -> int:
    driver, browser = launch_chromium()
    process, port = start_server()
    try:
        context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        for key, value in {"values": "true", "other": '"iago"'}.items():
            context.add_init_script(f"localStorage.setItem('othello.{key}', '{value}')")
        page = context.new_page()
        page.goto(f"http://{HOST}:{port}/#{GAME}@{PLY}")
        page.locator("[data-mind='1']").first.wait_for(timeout=WAIT_MS)
        page.keyboard.press("a")
        page.locator("#losses").wait_for(timeout=WAIT_MS)
        page.locator("#progress").wait_for(state="hidden", timeout=WAIT_MS)
        page.locator(".thought.first b.exact").wait_for(timeout=WAIT_MS)
        page.screenshot(path=path)
    finally:
        browser.close()
        driver.stop()
        process.kill()
        process.communicate()
    shrink(path)
    print(f"{path}: {Path(path).stat().st_size / 1000:.0f} kB")
    return 0


def shrink(path: str) -> None:
    """The same picture with 64 shades of each colour, which the eye does not miss and PNG packs far better."""
    from PIL import Image  # TensorBoard brings it along

    with Image.open(path) as picture:
        small = picture.convert("RGB").point(lambda shade: shade & 0b11111100 | 2)
    small.save(path, optimize=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
