"""Curves: what TensorBoard shows, declared where it is computed.

    BEST = curve("fitness/best", "League score of the best individual")
    …
    return {BEST: 0.93}

A curve is its tag with a sentence that explains it. The logger refuses a tag that nobody declared, and
``docs/training.md`` has the table that ``table`` makes of them all.
"""

from __future__ import annotations

import importlib
import pkgutil
from fnmatch import fnmatchcase


class Curve(str):
    """A tag, to be used as one. ``*`` at its end stands for any ending: ``SQUARES.of("a1")`` is one of them."""

    meaning: str
    short: str
    """Its name where there is little room, as in a run's result."""
    live: bool
    """Shown in the terminal's line too."""
    digits: int
    """Decimals of its numbers where they are written."""
    sparse: bool
    """Its points are few and none may be left out; others are thinned to one a second."""

    def of(self, ending: str) -> str:
        return self.removesuffix("*") + ending


_DECLARED: dict[str, Curve] = {}


def curve(
    tag: str, meaning: str, *, short: str = "", live: bool = False, sparse: bool = False, digits: int = 3
) -> Curve:
    """Declare a curve; the result is its tag."""
    if tag in _DECLARED:
        raise ValueError(f"the curve {tag!r} is declared twice")
    made = _DECLARED[tag] = Curve(tag)
    made.meaning, made.short, made.live, made.sparse, made.digits = meaning, short or tag, live, sparse, digits
    return made


def find_curve(tag: str) -> Curve:
    """The declaration of a tag."""
    for pattern, declared in _DECLARED.items():
        if fnmatchcase(tag, pattern):
            return declared
    raise ValueError(f"nobody declares the curve {tag!r}")


def all_curves() -> list[Curve]:
    """Every curve that training can show, by tag: all modules that may declare one are loaded for it."""
    import othello_nn.learn

    for module in pkgutil.walk_packages(othello_nn.learn.__path__, "othello_nn.learn."):
        importlib.import_module(module.name)
    return sorted(_DECLARED.values())


def table() -> str:
    """The curves as a table of Markdown."""
    rows = [f"| `{each}` | {each.meaning} |" for each in all_curves()]
    return "\n".join([*_HEAD, *rows])


_HEAD = ("| tag | meaning |", "|---|---|")


def with_table(page: str) -> str:
    """A page with its table of curves brought up to date. ``python -m othello_nn.learn.watch.curves PAGE`` does it."""
    before, head, rest = page.partition("\n".join(_HEAD))
    if not head:
        raise ValueError("the page has no table of curves")
    return before + table() + "\n\n" + rest.partition("\n\n")[2]


if __name__ == "__main__":
    import sys
    from pathlib import Path

    from othello_nn.learn.watch import curves  # as the others know it: run as a program, this module is another one

    path = Path(sys.argv[1])
    path.write_text(curves.with_table(path.read_text(encoding="utf-8")), encoding="utf-8")
