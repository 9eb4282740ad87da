"""Options: values as they are given, typed and shown, and what is said of those that cannot be."""

import argparse
import dataclasses
import doctest
import math
from dataclasses import dataclass

import pytest

from othello_nn import kinds, options
from othello_nn.config import SECTIONS, Config
from othello_nn.engine import Limit, Options
from othello_nn.errors import OthelloError
from othello_nn.kinds import KINDS
from othello_nn.options import (
    Flag,
    Number,
    OptionError,
    Section,
    Several,
    Whole,
    Word,
    add_flag,
    declared,
    shown,
)
from othello_nn.players.spec import KEYS

DEPTH = Whole(6, "plies", 1, 60)
SHARE = Number(0.5, "a share", 0, 1)
DRIVER = Word("negascout", "the driver", ("negascout", "alphabeta"))
SIZES = Several((3,), "sizes", Whole(None, "", 1), "whole numbers", 1, 3)
LAMBDAS = Several((0.7,), "a share of each", Number(None, "", 0, 1), "numbers", 1, or_one=True)
EVERY = [
    *(option for section in (Config, *SECTIONS.values(), *KINDS.values()) for option in section.options().values()),
    *KEYS.values(),
]


@pytest.mark.parametrize("module", [options, kinds])
def test_examples(module):
    results = doctest.testmod(module)
    assert results.attempted > 0
    assert results.failed == 0


@pytest.mark.parametrize(
    ("option", "value", "kept"),
    [
        (DEPTH, 1, 1),
        (DEPTH, 60, 60),
        (SHARE, 1, 1.0),
        (SHARE, 0.25, 0.25),
        (Number(0.0, ""), -1e300, -1e300),
        (Flag(False, ""), True, True),
        (DRIVER, "alphabeta", "alphabeta"),
        (Word("", ""), "Any words", "Any words"),
        (SIZES, [1, 2], (1, 2)),
        (SIZES, (5,), (5,)),
        (LAMBDAS, 1, (1.0,)),
        (LAMBDAS, [0.7, 0.9], (0.7, 0.9)),
    ],
)
def test_values_that_are_kept(option, value, kept):
    found = option.check("it", value)
    assert found == kept
    assert type(found) is type(kept)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        (DEPTH, 0, "it is 0; it must be a whole number from 1 to 60"),
        (DEPTH, 61, "it is 61; it must be a whole number from 1 to 60"),
        (DEPTH, 6.0, "it is 6.0; it must be a whole number from 1 to 60"),
        (DEPTH, True, "it is True; it must be a whole number from 1 to 60"),
        pytest.param(DEPTH, 10**5000, "it is a huge number; it must be a whole number from 1 to 60", id="huge"),
        pytest.param(Number(0.0, ""), 10**5000, "it is a huge number; it must be a number", id="too huge for a float"),
        (SHARE, math.nan, "it is nan; it must be a number from 0 to 1"),
        (SHARE, "0.5", "it is '0.5'; it must be a number from 0 to 1"),
        (SHARE, False, "it is False; it must be a number from 0 to 1"),
        (Number(0.0, ""), math.inf, "it is inf; it must be a number"),
        (Number(0.0, "", 1e-3), 0.0, "it is 0.0; it must be a number from 0.001"),
        (Whole(0, "", 0, 10**7), -1, "it is -1; it must be a whole number from 0 to 10,000,000"),
        (Flag(False, ""), 1, "it is 1; it must be true or false"),
        (DRIVER, "alfabeta", "it is 'alfabeta'; did you mean 'alphabeta'?"),
        (DRIVER, "mcts", "it is 'mcts'; it must be negascout or alphabeta"),
        (DRIVER, 3, "it is 3; it must be negascout or alphabeta"),
        (Word("", ""), 3, "it is 3; it must be a word"),
        (SIZES, [], "it is []; it must be a list of 1 to 3 whole numbers"),
        (SIZES, "123", "it is '123'; it must be a list of 1 to 3 whole numbers"),
        (SIZES, [1, 0], "one of it is 0; it must be a whole number from 1"),
        (SIZES, 2, "it is 2; it must be a list of 1 to 3 whole numbers"),
        (LAMBDAS, 2, "one of it is 2; it must be a number from 0 to 1"),
        (LAMBDAS, True, "it is True; it must be a number from 0 to 1 or a list of numbers"),
    ],
)
def test_values_that_are_refused(option, value, message):
    with pytest.raises(OptionError) as caught:
        option.check("it", value)
    assert str(caught.value) == message


def test_the_error_is_the_askers():
    class MineError(OthelloError):
        pass

    for option in (DEPTH, SIZES):
        with pytest.raises(MineError):
            option.check("it", "x", MineError)
    with pytest.raises(MineError):
        SIZES.check("it", [0], MineError)


@pytest.mark.parametrize(
    ("option", "text", "value"),
    [
        (DEPTH, "12", 12),
        (SHARE, "1e-1", 0.1),
        (Flag(None, "", ("on", "off")), "ON", True),
        (Flag(None, "", ("on", "off")), "off", False),
        (Flag(False, ""), "true", True),
        (DRIVER, "AlphaBeta", "alphabeta"),
        (Word("", ""), "As Typed", "As Typed"),
    ],
)
def test_typed_values(option, text, value):
    assert option.read(text) == value


@pytest.mark.parametrize(
    ("option", "text"), [(DEPTH, "61"), (DEPTH, "six"), (SHARE, "nan"), (Flag(False, ""), "on"), (DRIVER, "mcts")]
)
def test_typed_values_that_are_refused(option, text):
    with pytest.raises(ValueError):  # noqa: PT011 (whoever reads it says what was typed)
        option.read(text)


def test_shown():
    values = (1, 9999, 10_000, 2**62, 0.5, 1.0, -3.0, 1e-7, math.inf, True, "word", "", (4.0, 34.5))
    assert [shown(value) for value in values] == [
        *("1", "9999", "10,000", "4,611,686,018,427,387,904", "0.5", "1", "-3", "1e-07", "inf"),
        *("true", "word", '""', "[4, 34.5]"),
    ]


def test_every_declared_option_accepts_its_default_and_explains_itself():
    assert len(EVERY) > 60
    for option in EVERY:
        assert len(option.values) > 2
        assert len(option.sentence) > 4, option
        assert not option.sentence.endswith("."), option
        assert "|" not in option.sentence + option.values, "it stands in a table"
        if option.default not in (None, dataclasses.MISSING):
            assert option.check("it", option.default) == option.default


# --- sections --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Small(Section):
    place = "small"

    lam: float = declared(SHARE, "lambda")
    depth: int = declared(DEPTH)
    sizes: tuple[int, ...] = declared(SIZES)
    note: str = ""


def test_a_section_by_its_names_in_files():
    small = Small.of({"lambda": 1, "sizes": [1, 2]})
    assert small == Small(lam=1.0, sizes=(1, 2))
    assert small.as_dict() == {"lambda": 1.0, "depth": 6, "sizes": [1, 2], "note": ""}
    assert Small.of(small.as_dict()) == small
    assert list(Small.options()) == ["lambda", "depth", "sizes"]


def test_a_section_is_checked_when_it_is_made():
    with pytest.raises(OptionError, match=r"^small\.lambda is 2; it must be a number from 0 to 1$"):
        Small(lam=2)
    with pytest.raises(OptionError, match=r"^unknown option 'small\.dept' of mine; did you mean 'depth'\?$"):
        Small.check_names(["lambda", "dept"], " of mine")
    Small.check_names(["lambda", "note"])


# --- flags -----------------------------------------------------------------------------------------------------------


def test_flags(capsys):
    parser = argparse.ArgumentParser(prog="it")
    add_flag(parser, "--depth", "N", DEPTH)
    add_flag(parser, "--share", "S", Number(None, "100% of it", 0, 1, "a share"))
    assert vars(parser.parse_args([])) == {"depth": 6, "share": None}
    assert vars(parser.parse_args(["--depth", "3", "--share", "1"])) == {"depth": 3, "share": 1.0}
    assert "plies (6)" in parser.format_help()
    assert "100% of it\n" in parser.format_help()
    with pytest.raises(SystemExit):
        parser.parse_args(["--share", "2"])
    assert "argument --share: '2' is not a share from 0 to 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: Limit(nodes=10**30), "limit.nodes is 1000000000000000000000000000000; it must be a whole"),
        (lambda: Limit(nodes=10**5000), "limit.nodes is a huge number; it must be a whole number from 1"),
        (lambda: Limit(seconds=10**400), "limit.seconds is 1000"),
        (lambda: Options(table_mb=10**30), "table_mb is 1000"),
    ],
)
def test_limits_of_a_search_have_limits(made, words):
    with pytest.raises(OptionError) as refused:
        made()
    assert str(refused.value).startswith(words)
