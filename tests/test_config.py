"""Configurations: presets, settings as they are typed, and what is said of those that make no sense."""

import dataclasses
import doctest
import json
import subprocess
import sys
from pathlib import Path

import pytest

from othello_nn import config as config_module
from othello_nn.config import TD, Config, ConfigError, load_preset, preset_names, with_tables
from othello_nn.kinds import NetError
from othello_nn.learn.distributed import Group
from othello_nn.learn.make import make_learner
from othello_nn.nets import make_net

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "training.md"
QUICK = load_preset("quick")
TRIANGLE = load_preset("triangle")


def refused(call, *arguments, **keywords) -> str:
    with pytest.raises((ConfigError, NetError)) as caught:
        call(*arguments, **keywords)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_the_examples_in_the_docstring():
    results = doctest.testmod(config_module)
    assert results.attempted == 3
    assert results.failed == 0


# --- presets ---------------------------------------------------------------------------------------------------------


def test_the_presets_that_are_documented_are_there():
    assert {"quick", "ntuple", "triangle", "triangle-leouski", "champion", "league", "evolve", "embedding"} <= set(
        preset_names()
    )


def test_a_recipe_names_no_places(tmp_path):
    config = load_preset("champion").changed(
        ["searched.folder=/data/here"], init=str(tmp_path / "ntuple-3" / "net.safetensors")
    )
    assert config.recipe["init"] == "ntuple-3"
    assert config.recipe["searched"]["folder"] == ""
    assert Config.from_dict(config.recipe).searched.positions == config.searched.positions
    assert load_preset("quick").changed(init="/nets/mine.safetensors").recipe["init"] == "mine.safetensors"
    assert load_preset("quick").changed(init="runs/quick-1").recipe["init"] == "runs/quick-1"


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_loads_and_comes_back_from_json(name):
    config = load_preset(name)
    assert config.preset == name
    assert 20 < len(config.description) < 120
    again = Config.from_dict(json.loads(json.dumps(config.as_dict())))
    assert again == config
    assert again.changed() == config
    make_net(config.net)
    assert set(config.as_dict()) & {
        "td",
        "optim",
        "backwards",
        "searched",
        "leouski",
        "evolve",
        "policy",
        "measure",
    } == set(config.sections)


@pytest.mark.parametrize("name", [name for name in preset_names() if not load_preset(name).init])
def test_every_preset_has_its_learner(name):
    learner = make_learner(load_preset(name), "cpu", Group(), 1)
    assert learner.games == 0
    assert learner.progress == 0
    assert learner.net().kind == load_preset(name).net["kind"]


def test_an_unknown_preset():
    assert refused(load_preset, "champoin") == "unknown preset 'champoin'; did you mean 'champion'?"
    assert refused(load_preset, "../presets/quick").startswith("unknown preset '../presets/quick'")


# --- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "path", "value"),
    [
        ("td.lambda=0.25", ("td", "lam"), 0.25),
        ("td.lambda = 1", ("td", "lam"), 1.0),
        ("td.cut=true", ("td", "cut"), True),
        ("td.opponent=swh", ("td", "opponent"), "swh"),
        ('td.opponent=""', ("td", "opponent"), ""),
        ("td.batch_games=1_024", ("td", "batch_games"), 1024),
        ("optim.kind=adam", ("optim", "kind"), "adam"),
        ("measure.seconds=2.5", ("measure", "seconds"), 2.5),
        ("games=77", ("games",), 77),
        ("seed=9", ("seed",), 9),
        ("description=2024-01-01", ("description",), "2024-01-01"),
    ],
)
def test_settings_reach_their_place(setting, path, value):
    found = QUICK.changed([setting])
    for name in path:
        found = getattr(found, name)
    assert found == value
    assert type(found) is type(value)


def test_settings_leave_the_rest_and_the_original_alone():
    before = QUICK.as_dict()
    changed = QUICK.changed(["td.epsilon=0.5", "net.stages=2"], seed=5)
    expected = before | {"seed": 5, "td": before["td"] | {"epsilon": 0.5}, "net": before["net"] | {"stages": 2}}
    assert changed.as_dict() == expected
    assert QUICK.as_dict() == before


def test_the_last_of_two_settings_counts():
    assert QUICK.changed(["td.lambda=0.1", "td.epsilon=0.2", "td.lambda=0.3"]).td == dataclasses.replace(
        QUICK.td, lam=0.3, epsilon=0.2
    )


def test_settings_of_nets_inside_nets():
    inner = TRIANGLE.changed(["net.maps=5", "net.net.symmetric=true", "net.width=12.5"]).net
    expected = {"kind": "triangle", "maps": 5, "empties": False, "symmetric": True, "scale": 10.0}
    given = {"kind": "staged", "net": expected, "centres": [4, 34, 64], "width": 12.5}
    assert inner == given | {"gate": "fixed", "gate_units": 16}
    assert TRIANGLE.net["net"] == expected | {"maps": 12, "symmetric": False}, "the original is as it was"
    doubled = load_preset("triangle-leouski").changed(["net.maps=7"]).net
    assert doubled["net"]["net"]["maps"] == 7
    explicit = QUICK.changed(["net.tuples=[[0, 1], [9, 18]]"]).net
    assert make_net(explicit).tuples == ((0, 1), (9, 18))


def test_a_learner_set_before_its_options():
    config = QUICK.changed(["learner=backwards", "backwards.depth=3", "backwards.positions=[10, 20]"])
    assert config.backwards.depth == 3
    assert config.backwards.positions == (10, 20)
    assert config.sections == ("backwards", "measure")
    assert "td" not in config.as_dict()


# --- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("td.lamda=0.5", "unknown option 'td.lamda'; did you mean 'lambda'?"),
        ("td.lam=0.5", "unknown option 'td.lam'; did you mean 'lambda'?"),
        ("tdd.lambda=0.5", "unknown option 'tdd.lambda'; did you mean 'td'?"),
        ("gmaes=5", "unknown option 'gmaes'; did you mean 'games'?"),
        ("net.stage=5", "unknown option 'net.stage'; did you mean 'stages'?"),
        ("td.lambda", "'td.lambda' has no value; write section.key=value, such as td.lambda=0.7"),
        ("td=3", "'td' is no option; write section.key=value, such as td.lambda=0.7"),
        ("td.lambda.x=3", "'td.lambda.x' is no option; write section.key=value, such as td.lambda=0.7"),
        ("games.x=3", "'games.x' is no option; write section.key=value, such as td.lambda=0.7"),
        ("backwards.depth=3", "'backwards.depth' does nothing here: the learner 'td' looks at td, optim, measure"),
        ("evolve.sigma=3", "'evolve.sigma' does nothing here: the learner 'td' looks at td, optim, measure"),
        ("td.lambda=1.5", "td.lambda is 1.5; it must be a number from 0 to 1"),
        ("td.lambda=nan", "td.lambda is nan; it must be a number from 0 to 1"),
        ("td.lambda=many", "td.lambda is 'many'; it must be a number from 0 to 1"),
        ("td.lambda=true", "td.lambda is True; it must be a number from 0 to 1"),
        ("td.batch_games=2.5", "td.batch_games is 2.5; it must be a whole number from 1 to 1,000,000"),
        ("td.batch_games=0", "td.batch_games is 0; it must be a whole number from 1 to 1,000,000"),
        ("td.cut=1", "td.cut is 1; it must be true or false"),
        ("td.opponent=shw", "td.opponent is 'shw'; did you mean 'swh'?"),
        ("td.opponent=3", 'td.opponent is 3; it must be "", swh, random, most-discs or fewest-discs'),
        ("optim.kind=adma", "optim.kind is 'adma'; did you mean 'adam'?"),
        ("learner=backward", "learner is 'backward'; did you mean 'backwards'?"),
        ("seed=-1", "seed is -1; it must be a whole number from 0 to 4,611,686,018,427,387,904"),
        ("net.stages=0", "stages is 0; it must be a whole number from 1 to 60"),
        ("net.kind=triangel", "unknown kind of net 'triangel'; did you mean 'triangle'?"),
        ("net.kind=triangle", "unknown option 'tuples' of a triangle net; choose from maps, empties, symmetric, scale"),
        ("net=5", "a configuration needs a section net with the kind of net to train"),
        (f"games={'9' * 400}", f"games is {'9' * 37}...; it must be a whole number from 1 to 1,000,000,000,000"),
        (f"games={'9' * 5000}", f"games is '{'9' * 36}...; it must be a whole number from 1 to 1,000,000,000,000"),
        (f"td.lambda={'[' * 5000}", f"td.lambda is '{'[' * 36}...; it must be a number from 0 to 1"),
    ],
)
def test_what_is_said_of_a_mistake(setting, message):
    assert refused(QUICK.changed, [setting]) == message


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["net=5", "net.maps=3"], "a configuration needs a section net with the kind of net to train"),
        (["learner=5", "td.lambda=0.5"], "learner is 5; it must be td, backwards, searched, leouski, evolve or policy"),
        (
            ["learner=[]", "td.lambda=0.5"],
            "learner is []; it must be td, backwards, searched, leouski, evolve or policy",
        ),
        (["net.kind=[]", "net.maps=3"], "unknown option 'net.maps'; choose from kind"),
    ],
)
def test_what_is_said_of_two_that_do_not_go_together(settings, message):
    assert refused(QUICK.changed, settings) == message


@pytest.mark.parametrize("name", ["net.map=3", "net.net.map=3"])
def test_unknown_options_of_nets_inside_nets(name):
    path = name.partition("=")[0]
    assert refused(TRIANGLE.changed, [name]) == f"unknown option {path!r}; did you mean 'maps'?"


def test_options_of_other_learners_are_refused():
    said = refused(load_preset("backwards").changed, ["td.lambda=0.5"])
    assert said == "'td.lambda' does nothing here: the learner 'backwards' looks at backwards, measure"
    said = refused(load_preset("evolve").changed, ["optim.rate=0.5"])
    assert said == "'optim.rate' does nothing here: the learner 'evolve' looks at evolve, measure"


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        ("[]", "backwards.positions is []; it must be a list of whole numbers"),
        ("7", "backwards.positions is 7; it must be a list of whole numbers"),
        ("[5, 0]", "one of backwards.positions is 0; it must be a whole number from 1"),
        ("[5, 2.5]", "one of backwards.positions is 2.5; it must be a whole number from 1"),
        ('["five"]', "one of backwards.positions is 'five'; it must be a whole number from 1"),
    ],
)
def test_rounds_of_learning_backwards(positions, message):
    assert refused(load_preset("backwards").changed, [f"backwards.positions={positions}"]) == message


def test_a_file_whose_learner_was_lost_is_refused():
    """Else its run would go on with another learner, and forget what it was told."""
    values = load_preset("backwards").as_dict()
    del values["learner"]
    with pytest.raises(
        ConfigError, match="the section 'backwards' does nothing here: the learner 'td' looks at td, op"
    ):
        Config.from_dict(values)


def test_another_learner_forgets_what_the_first_was_told():
    config = load_preset("quick").changed(["learner=evolve", "evolve.parents=3"])
    assert config.td == Config.from_dict({"net": config.net}).td != load_preset("quick").td
    assert config.evolve.parents == 3
    assert config.measure == load_preset("quick").measure


def test_files_are_checked_too():
    values = QUICK.as_dict()
    assert refused(Config.from_dict, values | {"sede": 3}) == "unknown option 'sede'; did you mean 'seed'?"
    assert refused(Config.from_dict, values | {"td": {"epsilonn": 0.1}}).startswith("unknown option 'td.epsilonn'")
    assert refused(Config.from_dict, values | {"td": 3}) == "td is 3; it must be a section of options"
    assert "needs a section net" in refused(Config.from_dict, {"games": 3})
    assert refused(TD, epsilon=2.0) == "td.epsilon is 2.0; it must be a number from 0 to 1"


def test_the_page_on_training_holds_every_option():
    page = PAGE.read_text(encoding="utf-8")
    assert with_tables(page) == page, "python -m othello_nn.config docs/training.md brings it up to date"
    assert "| `td.lambda` | a number from 0 to 1 | `0.7` | λ: 0 learns from" in page
    assert "| `net.maps` | a whole number from 1 to 4096 | `12` |" in page
    assert "begin options" in refused(with_tables, "# A page without marks")


def test_a_run_of_an_earlier_version_is_read():
    values = QUICK.as_dict()
    values["td"]["images"] = not values["td"].pop("augment")
    assert Config.from_dict(values) == QUICK.changed(["td.augment=false"])


def test_settings_need_nothing_heavy():
    code = (
        "import sys; from othello_nn.config import load_preset\n"
        "load_preset('triangle').changed(['net.maps=24', 'net.width=3'])\n"
        "assert not {'numpy', 'numba', 'torch'} & set(sys.modules), 'a setting imported too much'"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)


def test_configurations_cannot_be_changed_in_place():
    with pytest.raises(dataclasses.FrozenInstanceError):
        QUICK.td.lam = 0.5
