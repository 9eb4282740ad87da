"""What the two programs are called: as the user started them.

Texts speak of ``play.py`` and ``train.py``, which a checkout has at its top. Installed by pip they are ``othello`` and
``othello-train``, and whoever typed that should read it in help and messages.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from othello_nn import resources

PLAY, TRAIN = "play.py", "train.py"
INSTALLED = {PLAY: "othello", TRAIN: "othello-train"}
_MENTION = re.compile(r"(?:python )?(?<![\w/\\])(play\.py|train\.py)")  # but not the end of a path


def is_installed() -> bool:
    """Whether this process is one of the installed commands, or ``python -m`` with the package or a module of it."""
    started = Path(sys.argv[0])
    return started.stem in INSTALLED.values() or started.resolve().parent == Path(__file__).resolve().parent


def program(script: str) -> str:
    """The name of ``PLAY`` or ``TRAIN``, for the beginning of a message."""
    return INSTALLED[script] if is_installed() else script


def command(script: str) -> str:
    """What to type to start it."""
    return INSTALLED[script] if is_installed() else f"python {script}"


def as_started(text: str) -> str:
    """A text of ours, which speaks of ``play.py`` and ``python train.py``, with the names that the user knows."""
    return _MENTION.sub(lambda match: INSTALLED[match[1]], text) if is_installed() else text


def torchrun_program() -> str:
    """The program that trains, as torchrun wants to be told of it."""
    if not is_installed():
        return TRAIN
    # An editable install has the commands, but its train.py stays at the top of the checkout.
    return "-m othello_nn.train" if Path(__file__).with_name(TRAIN).exists() else str(resources.TRAIN)


def note(script: str, message: object) -> None:
    """One line on stderr, after the program's name: what went wrong, or what else the user should know."""
    print(f"{program(script)}: {message}", file=sys.stderr)
