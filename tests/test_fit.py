"""What the fitting tools share: their help and how they end, labelled positions, and games to take positions from."""

import errno
import importlib
import itertools
import random

import numpy as np
import pytest

from othello_nn.engine.driver import Engine, Limit, Options
from othello_nn.engine.leaf.mobility import Mobility
from othello_nn.errors import OthelloError
from othello_nn.fit import tool
from othello_nn.fit.games import DEPTH, OPENING_PLIES, noisy_game
from othello_nn.fit.labels import Labelled
from othello_nn.game import Position
from othello_nn.game.rules import PASS

TOOLS = ["features", "information", "iago", "keyano", "probcut"]


@pytest.mark.parametrize("name", TOOLS)
def test_every_tool_explains_itself(name, capsys):
    made = importlib.import_module(f"othello_nn.fit.{name}")
    with pytest.raises(SystemExit) as end:
        made.main(["--help"])
    assert end.value.code == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: python -m othello_nn.fit.{name} ")
    assert made.__doc__.partition("\n")[0] in shown
    commands = [line.split() for line in made.__doc__.splitlines() if line.startswith("    python")]
    assert commands
    for words in commands:
        assert words[:3] == ["python", "-m", f"othello_nn.fit.{name}"]
        assert all(word in shown for word in words if word.startswith("--"))


def test_how_a_tool_ends(capsys):
    def fails(error):
        raise error

    assert tool.exit_code(lambda: 7) == 0
    assert tool.exit_code(lambda: fails(OthelloError("no such thing"))) == 2
    assert tool.exit_code(lambda: fails(OSError(errno.ENOSPC, "disk full"))) == 2
    assert tool.exit_code(lambda: fails(KeyboardInterrupt())) == 130
    assert tool.exit_code(lambda: fails(KeyboardInterrupt()), "stopped") == 130
    out, err = capsys.readouterr()
    assert out == ""
    expected = ["error: no such thing", f"error: [Errno {errno.ENOSPC}] disk full", "interrupted", "stopped"]
    assert err.splitlines() == expected
    with pytest.raises(ZeroDivisionError):
        tool.exit_code(lambda: 1 // 0)


def test_where_a_result_can_be_written(tmp_path):
    tool.check_place(tmp_path / "new.safetensors")
    assert not list(tmp_path.iterdir())
    with pytest.raises(OthelloError, match=r"there is no folder '.*nowhere' for the result"):
        tool.check_place(tmp_path / "nowhere" / "x")
    with pytest.raises(OthelloError, match="is a folder; name a file for the result"):
        tool.check_place(tmp_path)


def test_labelled_positions_are_picked_and_joined():
    data = Labelled(np.arange(5, dtype=np.uint64), np.arange(5, 10, dtype=np.uint64), np.arange(5, dtype=np.int8))
    odd, rest = data.pick(data.labels % 2 == 1), data.pick(slice(0, None, 2))
    joined = Labelled.joined([odd, rest])
    assert joined.movers.tolist() == [1, 3, 0, 2, 4]
    assert joined.opponents.tolist() == [6, 8, 5, 7, 9]
    assert joined.labels.tolist() == [1, 3, 0, 2, 4]
    assert joined.labels.dtype == np.int8


def engine() -> Engine:
    return Engine(Mobility(), Options(table_mb=1))


def moved(before: Position, after: Position) -> int:
    """The move that leads from one position to the next."""
    return next(move for move in before.legal_moves or (PASS,) if before.play(move) == after)


@pytest.mark.parametrize("noise", [0.0, 0.3, 1.0])
def test_noisy_games_are_whole_games(noise):
    games = [list(noisy_game(engine(), random.Random(seed), noise)) for seed in range(12)]
    assert games == [list(noisy_game(engine(), random.Random(seed), noise)) for seed in range(12)]
    assert len({game[-1] for game in games}) == 12
    searched = best = 0
    for game in games:
        assert game[0] == Position.start()
        assert [position.is_over for position in game] == [False] * (len(game) - 1) + [True]
        for before, after in itertools.pairwise(game):
            move = moved(before, after)
            if 20 < before.empties <= 60 - OPENING_PLIES and move != PASS:
                searched += 1
                best += engine().search(before, Limit(depth=DEPTH)).move == move
        assert game[OPENING_PLIES].empties == 60 - OPENING_PLIES
    assert best == searched if not noise else best < searched * (1 - noise / 2)


def test_a_game_is_played_only_as_far_as_it_is_asked_for():
    rng, untouched = random.Random(4), random.Random(4)
    game = noisy_game(engine(), rng, 0.5)
    assert next(game) == Position.start()
    assert rng.getstate() == untouched.getstate()
