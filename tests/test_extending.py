"""What docs/extending.md tells to write works: its code is taken from the page and put where the page says."""

import dataclasses
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from linear import linear

from othello_nn import kinds
from othello_nn.checkpoint import Checkpoint
from othello_nn.config import ConfigError, load_preset, options_tables
from othello_nn.engine import Engine, Limit, Options
from othello_nn.engine.leaf import compile as compile_module
from othello_nn.engine.leaf.blended import BlendedEvaluator
from othello_nn.engine.leaf.compile import CompileError, compile_checkpoint
from othello_nn.engine.leaf.tables import TableEvaluator
from othello_nn.game import Position
from othello_nn.kinds import NetError
from othello_nn.learn.distributed import Group
from othello_nn.learn.make import make_learner
from othello_nn.learn.td import learners
from othello_nn.learn.watch import curves
from othello_nn.learn.watch.logger import Logger
from othello_nn.nets import export, load_net, make_net

PAGE = Path(__file__).resolve().parent.parent / "docs" / "extending.md"
SQUARES = {"kind": "squares", "tempo": True}


def code_on_the_page(title: str = "A new kind of net") -> dict[str, str]:
    """The Python code under each file's name, in the part of the page with this title."""
    part = PAGE.read_text(encoding="utf-8").partition(f"## {title}")[2].partition("\n## ")[0]
    pattern = r"\*\*`(othello_nn/[\w/]+\.py)`\*\*.*?```python\n(.*?)```"
    return dict(re.findall(pattern, part, re.DOTALL))


def add_to(module: types.ModuleType, code: str, name: str, monkeypatch) -> object:
    """What the code defines under a name, as if it stood at the end of the module."""
    scope = dict(vars(module))
    exec(compile(code, str(PAGE), "exec"), scope)
    monkeypatch.setattr(module, name, scope[name], raising=False)
    return scope[name]


@pytest.fixture
def without_a_rule(monkeypatch):
    """The net of the page, declared and built, as long as nobody has told the compiler."""
    code = code_on_the_page()
    options = add_to(kinds, code["othello_nn/kinds.py"], "SquaresOptions", monkeypatch)
    monkeypatch.setitem(kinds.KINDS, options.kind, options)
    module = types.ModuleType(options.net_class.split(":")[0])
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(code["othello_nn/nets/squares.py"], str(PAGE), "exec"), vars(module))


@pytest.fixture
def squares(without_a_rule, monkeypatch):
    """The net of the page, as a kind like any other."""
    monkeypatch.setattr(compile_module, "SquaresOptions", kinds.SquaresOptions, raising=False)
    code = code_on_the_page()["othello_nn/engine/leaf/compile.py"]
    monkeypatch.setitem(compile_module.RULES, "squares", add_to(compile_module, code, "_squares", monkeypatch))


def test_the_page_touches_three_files():
    assert list(code_on_the_page()) == [
        "othello_nn/kinds.py",
        "othello_nn/nets/squares.py",
        "othello_nn/engine/leaf/compile.py",
    ]


def test_settings_and_tables_know_the_new_kind(squares):
    config = load_preset("quick").changed(['net={kind = "squares"}', "net.tempo=true"])
    assert config.net == SQUARES | {"scale": 10.0}
    with pytest.raises(ConfigError, match=r"unknown option 'net\.temop'; did you mean 'tempo'\?"):
        config.changed(["net.temop=true"])
    with pytest.raises(NetError, match="tempo is 3; it must be true or false"):
        config.changed(["net.tempo=3"])
    assert "| `net.tempo` | true or false | `false` | a constant for the side to move |" in options_tables()


def test_it_trains_is_saved_and_plays(squares, tmp_path):
    small = ("td.batch_games=16", "optim.kind=adam", "optim.rate=0.01")
    learner = make_learner(linear(*small).changed(net=SQUARES, games=32), "cpu", Group(), 1)
    before = learner.net().weight.detach().clone()
    while learner.progress < 1:
        learner.step()
    assert not torch.equal(learner.net().weight, before)
    export(learner.net()).save(tmp_path / "squares.safetensors")
    checkpoint = Checkpoint.load(tmp_path / "squares.safetensors")
    assert torch.equal(load_net(checkpoint).weight, learner.net().weight)
    evaluator = compile_checkpoint(checkpoint)  # compared with the net's own values
    assert type(evaluator) is TableEvaluator
    assert Engine(evaluator, Options(table_mb=1)).search(Position.start(), Limit(depth=3)).depth == 3
    damaged = checkpoint.arrays | {"tempo": checkpoint.arrays["tempo"] + np.float32(1)}
    with pytest.raises(CompileError, match="damaged weights"):
        compile_checkpoint(dataclasses.replace(checkpoint, arrays=damaged))


def test_it_can_stand_inside_other_nets(squares):
    staged = make_net({"kind": "staged", "net": SQUARES})
    assert type(compile_checkpoint(export(staged))) is BlendedEvaluator
    doubled = compile_checkpoint(export(make_net({"kind": "doubled", "net": SQUARES})))
    assert doubled.lookups == 8


def test_without_a_rule_it_trains_nowhere_silently(without_a_rule):
    net = make_net(SQUARES)
    assert net.config == SQUARES | {"scale": 10.0}
    for checkpoint in (export(net), export(make_net({"kind": "staged", "net": SQUARES}))):
        with pytest.raises(CompileError, match="squares nets cannot be compiled: the search has no rule for them"):
            compile_checkpoint(checkpoint)


def test_nothing_of_it_stays():
    assert "squares" not in kinds.KINDS
    assert "squares" not in compile_module.RULES
    with pytest.raises(NetError, match="unknown kind of net 'squares'"):
        make_net(SQUARES)


def test_a_curve_is_one_file(monkeypatch, tmp_path):
    curves.all_curves()  # loads whoever declares one, once and for all tests
    monkeypatch.setattr(curves, "_DECLARED", dict(curves._DECLARED))
    code = code_on_the_page("A new curve")
    assert list(code) == ["othello_nn/learn/td/learners.py"]
    with_length = add_to(learners, code["othello_nn/learn/td/learners.py"], "with_length", monkeypatch)
    learner = make_learner(load_preset("quick").changed(["td.batch_games=16"]), "cpu", Group(), 1)
    games = learner.play()
    metrics = with_length(learner.update(games, learner.targets(games)), games.games)
    assert 50 < metrics["games/moves"] <= 60
    logger = Logger(tmp_path)
    logger.scalars(metrics, 16)
    logger.close()
    assert "| `games/moves` | mean number of moves of the games learnt from |" in curves.table()
