"""A user's own nn.Module: named, trained, resumed, saved and loaded; and what is never imported."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import train as program
from othello_nn import modules
from othello_nn.checkpoint import Checkpoint
from othello_nn.config import ConfigError, load_preset
from othello_nn.engine import Engine, Limit, Options
from othello_nn.engine.leaf.compile import CompileError, compile_checkpoint
from othello_nn.game import Position, rules
from othello_nn.kinds import NetError
from othello_nn.learn.distributed import Group
from othello_nn.learn.learner import first_net
from othello_nn.learn.make import make_learner
from othello_nn.learn.td.asking import Duel, Sparing
from othello_nn.learn.td.rivals import TorchOpponent
from othello_nn.learn.td.torch_learner import TorchLearner
from othello_nn.learn.watch import strength
from othello_nn.learn.watch.logger import Logger
from othello_nn.learn.watch.strength import Strength, torch_score
from othello_nn.modules import ModuleError, name_class, named_class
from othello_nn.nets import ModuleNet, export, load_net, make_net
from othello_nn.nets.base import piece_planes
from othello_nn.players import PlayerError, make_player

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "resnet.py"
SMALL = """
import torch
from torch import nn

class Small(nn.Module):
    modes = []

    def __init__(self, *, width: int = 4, drop: float = 0.25, norm: bool = True, act: str = "relu"):
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3, padding=1)
        self.norm = nn.BatchNorm2d(width) if norm else nn.Identity()
        self.drop = nn.Dropout(drop)
        self.out = nn.Linear(64 * width, 1)
        self.act = getattr(torch, act)

    def forward(self, planes):
        Small.modes.append((self.training, torch.is_grad_enabled()))
        return self.out(self.drop(self.act(self.norm(self.conv(planes)))).flatten(1))
"""
QUICK = (
    "td.batch_games=8",
    "games=16",
    "measure.double_games=2",
    "measure.probcut=0",
    "measure.seconds=1000",
    "optim.minibatch=64",
)


@pytest.fixture(autouse=True)
def _threads():
    """One: so small tensors are not worth a second, least of all while other tests run."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def own(tmp_path, monkeypatch):
    """An empty folder with a net of one's own, of a user who has named nothing yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(modules.sys, "platform", "linux")
    new_process(monkeypatch)
    (tmp_path / "net.py").write_text(SMALL)
    return tmp_path


def new_process(monkeypatch) -> None:
    """Nothing is named but what is remembered."""
    monkeypatch.setattr(modules, "_named", set())
    modules._import.cache_clear()


@pytest.fixture
def train(own, monkeypatch, capfd):
    """train.py in that folder, without pictures and without games to measure: (exit code, stdout, stderr)."""
    monkeypatch.setattr(Logger, "pictures", lambda *arguments: None)
    monkeypatch.setattr(strength, "torch_score", lambda *arguments: 0.5)
    monkeypatch.setattr(strength.Ladder, "prepare", lambda *arguments: None)  # without it, it is never climbed

    def call(*argv: str, settings: tuple[str, ...] = QUICK) -> tuple[int, str, str]:
        capfd.readouterr()
        words = [word for setting in settings for word in ("--set", setting)]
        code = program.main([*argv, "--threads", "1", *words])
        out, err = capfd.readouterr()
        assert "Traceback" not in out + err
        return code, out, err

    return call


def boards(count: int = 20) -> tuple[torch.Tensor, torch.Tensor]:
    from othello_nn.checkpoint import check_positions

    movers, opponents, _ = check_positions(count, 3)
    return torch.from_numpy(movers.view(np.int64)), torch.from_numpy(opponents.view(np.int64))


# --- its options -----------------------------------------------------------------------------------------------------


def test_its_parameters_are_its_options(train, own):
    settings = ("net.width=6", "net.norm=false", "net.scale=5")
    code, out, _ = train("--net", "net.py:Small", "--print-config", settings=settings)
    net = json.loads(out)["net"]
    options = {"width": 6, "drop": 0.25, "norm": False, "act": "relu"}
    assert (code, net) == (0, {"kind": "module", "source": f"{own}/net.py:Small", "options": options, "scale": 5.0})
    made = make_net(net)
    assert made.module.conv.out_channels == 6
    assert (made.config, made.scale, made.title) == (net, 5.0, "Small")


def test_registered_kinds_go_through_the_same_door(train):
    code, out, _ = train("--net", "dense", "--print-config", settings=("net.hidden=12",))
    assert (code, json.loads(out)["net"]) == (0, {"kind": "dense", "hidden": 12, "scale": 10.0})


@pytest.mark.parametrize(
    ("name", "setting", "message"),
    [
        ("net.py:Small", "net.widht=3", "unknown option 'net.widht'; did you mean 'width'?"),
        ("net.py:Small", "net.width=wide", "net.width is 'wide'; it must be a whole number"),
        ("net.py:Small", "net.drop=true", "net.drop is True; it must be a number"),
        ("net.py:Small", "net.norm=1", "net.norm is 1; it must be true or false"),
        ("net.py:Small", "net.act=3", "net.act is 3; it must be a word"),
        ("net.py:Smal", "games=8", "net.py has no class 'Smal'; did you mean 'Small'?"),
        ("net.py:torch", "games=8", "it must be a class of torch.nn.Module"),
        ("gone.py:Small", "games=8", "gone.py cannot be read: No such file or directory"),
        ("net.py", "games=8", "--net net.py: choose from triangle, ntuple"),
        ("dens", "games=8", "--net dens: did you mean 'dense'?; or write FILE.py:Class"),
        ("net.txt:Small", "games=8", "'net.txt:Small' names no class; write FILE.py:Class"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(train, own, name, setting, message):
    code, out, err = train("--net", name, "--run", "x", settings=(setting,))
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1
    assert not (own / "runs").exists()


@pytest.mark.parametrize(
    ("signature", "message"),
    [
        ("width", "Own.__init__ needs 'width'; every parameter of a net must be a keyword with a default"),
        ("scale=1.0", "Own.__init__ has a parameter 'scale', which every net has; rename it"),
    ],
)
def test_parameters_that_cannot_be(own, signature, message):
    text = f"from torch import nn\nclass Own(nn.Module):\n    def __init__(self, {signature}): super().__init__()\n"
    (own / "odd.py").write_text(text)
    with pytest.raises(ModuleError) as error:
        ModuleNet(name_class("odd.py:Own"))
    assert str(error.value) == message


def test_parameters_that_cannot_be_typed_keep_their_default(own):
    made = "class Own(nn.Module):\n    def __init__(self, a=3, b=None, c=(1, 2), d: float = 2, *more, **others):\n"
    (own / "odd.py").write_text(f"from torch import nn\n{made}        super().__init__()\n")
    options = modules.class_options(name_class("odd.py:Own"))
    assert {name: option.default for name, option in options.items()} == {"a": 3, "d": 2.0}


# --- what it is given, and what it gives -----------------------------------------------------------------------------


def module_with(forward: str, before: str = "", more: str = "", name: str = "odd.py") -> type:
    body = f"        super().__init__()\n        self.w = nn.Parameter(torch.ones(64))\n{before}"
    text = "import torch\nfrom torch import nn\nclass Own(nn.Module):\n"
    text += f"{more}    def __init__(self):\n{body}    def forward(self, *inputs):\n        {forward}\n"
    Path(name).write_text(text)
    return name_class(f"{name}:Own")


def test_planes_are_the_board():
    mover, opponent = boards()
    planes = piece_planes(mover, opponent)
    assert planes.dtype == torch.float32
    for i in range(len(mover)):
        sides = [int(side[i]) & rules.FULL_MASK for side in (mover, opponent)]
        sides.append(~(sides[0] | sides[1]) & rules.FULL_MASK)
        wanted = [[[side >> (8 * rank + file) & 1 for file in range(8)] for rank in range(8)] for side in sides]
        assert planes[i].tolist() == wanted


def test_planes_or_bitboards_in_margins_in_units_of_the_scale_out(own):
    mover, opponent = boards()
    by_planes = module_with("return ((inputs[0][:, 0] - inputs[0][:, 1]).flatten(1) @ self.w).unsqueeze(1)")
    discs = ModuleNet(by_planes, scale=4.0).discs(mover, opponent)
    mine, theirs = ([(int(mask) & rules.FULL_MASK).bit_count() for mask in side] for side in (mover, opponent))
    counts = [a - b for a, b in zip(mine, theirs, strict=True)]
    assert discs.tolist() == [4.0 * count for count in counts]
    inside = (
        "return (torch.stack([(inputs[0] >> i & 1) - (inputs[1] >> i & 1) for i in range(64)], 1)).float() @ self.w"
    )
    by_bits = ModuleNet(module_with(inside, more="    inputs = 'bitboards'\n", name="bits.py"), scale=4.0)
    assert by_bits.discs(mover, opponent).tolist() == discs.tolist()
    assert by_bits(mover, opponent).tolist() == torch.tanh(discs / 8).tolist()
    with torch.no_grad():  # in parts
        many = by_bits.discs(mover.repeat(100), opponent.repeat(100))
    assert many.tolist() == discs.tolist() * 100


@pytest.mark.parametrize(
    ("forward", "message"),
    [
        (
            "return inputs[0]",
            "Own.forward gave float32 [3, 3, 8, 8] for 3 positions; expected a float tensor [3] or [3, 1]",
        ),
        ("return inputs[0].sum()", "Own.forward gave float32 [] for 3 positions"),
        ("return inputs[0].sum((1, 2, 3)).long()", "Own.forward gave int64 [3] for 3 positions"),
        ("return (inputs[0], 1)", "Own.forward gave tuple for 3 positions"),
        ("return inputs[0].sum((1, 2, 3)) / 0", "Own.forward gave numbers that are not finite"),
        ("return inputs[0] @ torch.ones(5)", "Own.forward failed on planes float32 [3, 3, 8, 8]: RuntimeError: "),
        ("return undefined", "NameError: name 'undefined' is not defined (line 8 of "),
    ],
)
def test_what_a_module_does_wrong_is_said_before_a_game_is_played(own, forward, message):
    with pytest.raises(NetError) as error:
        ModuleNet(module_with(forward))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_other_mistakes_in_the_file(own):
    with pytest.raises(NetError, match=r"Own\(\) failed: ValueError: no \(line 7 of .*odd\.py\)"):
        ModuleNet(module_with("return 0", "        raise ValueError('no')\n"))
    with pytest.raises(NetError, match=r"Own\.inputs is 'plane'; did you mean 'planes'\?"):
        ModuleNet(module_with("return 0", more="    inputs = 'plane'\n", name="odd2.py"))
    for name, text, message in (
        ("a.py", "class Own(:", r"a\.py cannot be imported: SyntaxError"),
        ("b.py", "import nothing_like_it", r"No module named 'nothing_like_it' \(line 1 of "),
        ("c.py", "raise SystemExit(3)", r"c\.py cannot be imported: SystemExit: 3"),
    ):
        (own / name).write_text(text)
        with pytest.raises(ModuleError, match=message):
            name_class(f"{name}:Own")


def test_a_file_may_import_its_neighbours(own):
    (own / "neighbour.py").write_text(SMALL)
    (own / "main.py").write_text("from neighbour import Small\nclass Large(Small): pass\n")
    assert ModuleNet(name_class("main.py:Large")).title == "Large"
    with pytest.raises(ModuleError, match=r"Small is only imported by .*; name the file that defines it"):
        name_class("main.py:Small")


# --- chance, modes ---------------------------------------------------------------------------------------------------


def test_first_weights_hang_on_the_seed_alone(own):
    name_class("net.py:Small")
    config = load_preset("own").changed(net={"kind": "module", "source": "net.py:Small"})
    first = []
    for seed, noise in ((1, 5), (1, 6), (2, 5)):
        torch.manual_seed(noise)
        learner = make_learner(config.changed(seed=seed), "cpu", Group(), 1)
        first.append(learner.net().module.conv.weight.clone())
        drawn = torch.rand(1)
        torch.manual_seed(noise)
        make_learner(config.changed(seed=seed), "cpu", Group(), 1)
        assert torch.rand(1) == drawn
    assert torch.equal(first[0], first[1])
    assert not torch.equal(first[0], first[2])


def test_it_trains_while_it_learns_and_judges_while_it_plays(own):
    small = name_class("net.py:Small")
    config = load_preset("own").changed(QUICK, net={"kind": "module", "source": "net.py:Small"})
    learner = make_learner(config, "cpu", Group(), 1)
    small.modes.clear()
    learner.step()
    assert {training == gradient for training, gradient in small.modes} == {True}
    assert {training for training, _ in small.modes} == {True, False}
    net = learner.net()
    assert not net.training
    assert torch.equal(net(*boards()), net(*boards()))  # nothing is forgotten by chance
    assert net.module.norm.num_batches_tracked == 7
    assert not torch.equal(net.module.norm.running_mean, torch.zeros(4))


# --- training, resuming, files ---------------------------------------------------------------------------------------


def test_train_resume_and_load(train, own, monkeypatch):
    """Stopped and resumed it ends in the same net, bit for bit: weights, running means and counts."""
    code, _, err = train("--net", "net.py:Small", "--run", "whole")
    assert code == 0
    assert "runs/whole: Small net of 377 weights on cpu" in err
    new_process(monkeypatch)  # its file is remembered
    assert train("--net", "net.py:Small", "--run", "part", "--games", "8")[0] == 0
    assert train("--resume", "part", "--games", "16", settings=())[0] == 0
    whole, part = (Checkpoint.load(f"runs/{name}/net.safetensors") for name in ("whole", "part"))
    assert whole.net == part.net
    for name, array in whole.arrays.items():
        assert np.array_equal(array, part.arrays[name]), name
    counted = whole.arrays["module.norm.num_batches_tracked"]
    assert (counted.dtype, int(counted)) == (np.int64, 14)
    new_process(monkeypatch)
    mover, opponent = (torch.from_numpy(side.view(np.int64)) for side in (whole.checks.movers, whole.checks.opponents))
    for module in (None, "net.py:Small", name_class("net.py:Small")):
        net = load_net("whole", module)
        assert not net.training
        with torch.no_grad():
            assert net.discs(mover, opponent).numpy() == pytest.approx(whole.checks.discs, abs=1e-5)
    with pytest.raises(CompileError, match="a net of a user's own class cannot be compiled"):
        compile_checkpoint(whole)
    with pytest.raises(NetError, match="a triangle net is no module of a user's own"):
        load_net(export(make_net({"kind": "triangle", "maps": 1})), module="net.py:Small")


def test_a_net_may_start_from_another_run(train, own):
    assert train("--net", "net.py:Small", "--run", "first")[0] == 0
    code, _, err = train("--net", "net.py:Small", "--run", "second", settings=(*QUICK, "init=first", "net.drop=0"))
    assert code == 0, err
    code, _, err = train("--net", "net.py:Small", "--run", "third", settings=(*QUICK, "init=first", "net.width=5"))
    assert code == 2
    assert "holds a net of another shape" in err


def test_all_kinds_of_state_are_kept(own):
    lines = (
        "self.register_buffer('seen', torch.tensor([True, False]))",
        "self.register_buffer('level', torch.tensor(7, dtype=torch.uint8))",
        "self.narrow = nn.Parameter(torch.ones(2).half())",
    )
    more = "".join(f"        {line}\n" for line in lines)
    export(ModuleNet(module_with("return inputs[0].flatten(1)[:, :64] @ self.w", more))).save("x.safetensors")
    back = load_net(Path("x.safetensors")).module
    assert (back.seen.tolist(), back.seen.dtype) == ([True, False], torch.bool)
    assert (int(back.level), back.level.dtype) == (7, torch.uint8)
    assert back.narrow.dtype == torch.float32


def test_a_failure_at_the_start_leaves_no_run_behind(train, own, monkeypatch):
    def fail(*arguments):
        raise NetError("no strength")

    monkeypatch.setattr(Strength, "scores", fail)
    code, _, err = train("--net", "net.py:Small", "--run", "x")
    assert (code, list((own / "runs").iterdir())) == (2, [])
    assert "no strength" in err


def test_a_failure_in_the_first_step_leaves_none_either_and_a_later_one_does(train, own, monkeypatch):
    def fail(self, games):
        raise NetError("no targets")

    with monkeypatch.context() as patched:
        patched.setattr(TorchLearner, "targets", fail)
        code, _, err = train("--net", "dense", "--run", "x")
    assert (code, list((own / "runs").iterdir())) == (2, [])
    assert "no targets" in err

    def fail_later(self, games, targets=TorchLearner.targets):
        if self.games == 8:
            raise NetError("too late")
        return targets(self, games)

    monkeypatch.setattr(TorchLearner, "targets", fail_later)
    assert train("--net", "dense", "--run", "late")[0] == 2
    assert (own / "runs" / "late" / "config.json").is_file()


# --- what nobody has named -------------------------------------------------------------------------------------------

EVIL = "from pathlib import Path\nPath('mark').touch()\n" + SMALL


@pytest.fixture
def strange(own, monkeypatch):
    """Somebody else's run: its file would leave a mark if it were imported."""
    net = ModuleNet(name_class("net.py:Small"))
    (own / "evil.py").write_text(EVIL)
    config = net.config | {"source": f"{own}/evil.py:Small"}
    folder = own / "runs" / "strange"
    folder.mkdir(parents=True)
    checkpoint = export(net)
    Checkpoint(config, checkpoint.arrays, {}, None, checkpoint.checks).save(folder / "net.safetensors")
    given = load_preset("own").as_dict() | {"net": config}
    (folder / "config.json").write_text(json.dumps(given))
    (folder / "state.safetensors").write_bytes(b"")
    return folder


def test_a_file_that_was_not_named_is_never_imported(train, strange):
    with pytest.raises(NetError) as error:
        load_net(strange / "net.safetensors")
    assert f"this net is the class Small of {strange.parent.parent}/evil.py, which nobody has named here" in str(
        error.value
    )
    assert "module:FILE.py:Class" in str(error.value)
    with pytest.raises(PlayerError):
        make_player("strange:depth=1")
    for words, settings in (
        (("--resume", "strange"), ()),
        (("--run", "x"), ('net={kind = "module", source = "evil.py:Small"}', "net.width=3")),
        (("--run", "x"), ('net={kind = "module", source = "evil.py:Small"}',)),
    ):
        code, _, err = train(*words, settings=settings)
        assert code == 2
        assert len(err.splitlines()) == 1
    config = load_preset("own").changed(["init=strange"], net={"kind": "module", "source": "net.py:Small"})
    weights = load_net("strange", module="net.py:Small").state_dict()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in first_net(config).state_dict().items())
    assert not Path("mark").exists()
    assert load_net("strange", module="net.py:Small").title == "Small"  # the user's own file will do
    assert not Path("mark").exists()
    assert load_net("strange", module="evil.py:Small").title == "Small"  # named by the user
    assert Path("mark").exists()


def test_a_named_file_is_asked_for_the_named_class_only(own):
    (own / "two.py").write_text(SMALL + "\nclass Other(Small): pass\n")
    name_class("two.py:Small")
    assert named_class("two.py:Small")
    with pytest.raises(ModuleError, match="which nobody has named here"):
        named_class("two.py:Other")


@pytest.mark.parametrize("memory", ["no JSON", '{"a": 1}', "[3, null]", None])
def test_what_cannot_be_remembered_stops_nothing(own, monkeypatch, memory):
    place = modules.memory_file()
    if memory is None:
        place.parent.parent.parent.mkdir(exist_ok=True)
        (own / "state").write_text("a file where the folder should be")
    else:
        place.parent.mkdir(parents=True)
        place.write_text(memory)
    assert name_class("net.py:Small")
    assert named_class("net.py:Small")
    new_process(monkeypatch)
    if memory is None:
        with pytest.raises(ModuleError, match="which nobody has named here"):
            named_class("net.py:Small")
    else:
        assert named_class("net.py:Small")


def test_a_file_that_was_moved_or_changed(train, own, monkeypatch):
    assert train("--net", "net.py:Small", "--run", "a", "--games", "8")[0] == 0
    (own / "net.py").rename(own / "new.py")
    with pytest.raises(NetError, match=r"net\.py cannot be read: No such file or directory; name the file with"):
        load_net("a")
    code, _, err = train("--resume", "a", settings=())
    assert code == 2
    assert "net.py cannot be read" in err
    code, _, err = train("--resume", "a", "--net", "new.py:Small", "--games", "16", settings=())
    assert code == 0, err
    assert load_net("a").config["source"].endswith("new.py:Small")
    (own / "new.py").write_text(SMALL.replace("Small", "Renamed"))
    with pytest.raises(NetError, match=r"new\.py has no class 'Small'"):
        load_net("a")
    (own / "new.py").write_text(SMALL.replace("3, padding=1", "5, padding=2"))
    with pytest.raises(NetError, match=r"'module\.conv\.weight' has the shape \(4, 3, 3, 3\), expected \(4, 3, 5, 5\)"):
        load_net("a")
    (own / "new.py").write_text(SMALL.replace("self.out", "self.last"))
    with pytest.raises(NetError, match=r"'module\.last\.bias' is missing"):
        load_net("a")
    (own / "new.py").write_text(SMALL.replace("drop: float = 0.25, ", "").replace("nn.Dropout(drop)", "nn.Identity()"))
    with pytest.raises(NetError, match="unknown option 'drop' of Small"):
        load_net("a")
    code, _, err = train("--resume", "a", "--net", "dense", settings=())
    assert (code, "--net cannot go with --resume here" in err) == (2, True)


# --- measuring in torch ----------------------------------------------------------------------------------------------


def test_scores_in_torch_are_those_of_compiled_games():
    """The Standard WPC Heuristic against random moves, both ways; and who wins against whom adds up."""
    from othello_nn.arena.league import LeaguePlayer, league
    from othello_nn.engine.leaf.compile import leaf_pair
    from othello_nn.learn.td.rivals import opponent_evaluator

    swh, chance = (TorchOpponent(name, "cpu") for name in ("swh", "random"))
    found = torch_score(swh, chance, 200, 0.1, 0, 5)
    random = LeaguePlayer("random", *leaf_pair(opponent_evaluator("random")), epsilon=1.0)
    assert found == pytest.approx(league(opponent_evaluator("swh"), random, 2000, 0.1).score, abs=0.07)
    assert torch_score(swh, chance, 40, 0.1, 5, 5) + torch_score(chance, swh, 40, 0.1, 5, 5) == 1


def test_nobody_is_asked_about_what_is_not_there():
    asked = []

    def judge(mover, opponent, black_to_move):
        asked.append((mover.tolist(), black_to_move.tolist()))
        return mover.float()

    boards = torch.tensor([1, 2, 0, 4]), torch.tensor([8, 16, 0, 32]), torch.tensor([True, False, False, True])
    assert Sparing(judge)(*boards).tolist() == [1, 2, 0, 4]
    assert asked.pop()[0] == [1, 2, 4]
    assert Duel(judge, lambda m, o, b: -m.float())(*boards).tolist() == [-1, 2, 0, -4]
    assert asked == [([2], [False])]


def test_slow_nets_are_measured_by_fewer_games(own, monkeypatch):
    counts, clock = [], iter(range(0, 1000, 8))
    monkeypatch.setattr(strength, "torch_score", lambda net, rival, count, *more: counts.append(count) or 0.5)
    monkeypatch.setattr(strength.time, "monotonic", lambda: next(clock))  # 8 seconds a measurement
    name_class("net.py:Small")
    learner = make_learner(
        load_preset("own").changed(net={"kind": "module", "source": "net.py:Small"}), "cpu", Group(), 1
    )
    measured = Strength(500, 1, 1, seconds=1000)
    monkeypatch.setattr(measured.ladder, "prepare", lambda evaluator: None)  # without it, it is never climbed
    for _ in range(3):
        assert measured.scores(learner).keys() == {"score/random", "score/swh"}
    assert counts == [16, 16, 300, 300, 500, 500]  # 150 of 1,000 seconds, and never more than is wanted


def test_pictures_and_histograms_of_any_net(own, tmp_path):
    from othello_nn.learn.watch.pictures import pictures

    name_class("net.py:Small")
    net = make_net({"kind": "module", "source": "net.py:Small", "options": {"width": 1}})
    assert {"pictures/squares", "pictures/edges", "pictures/game"} == set(pictures(net))
    logger = Logger(tmp_path / "log")
    logger.histograms(net, 1)
    logger.close()
    staged = make_net({"kind": "staged", "net": {"kind": "dense", "hidden": 2}, "gate": "network"})
    assert "pictures/coefficients" in pictures(staged)


# --- the example -----------------------------------------------------------------------------------------------------


def test_the_example_is_short():
    assert 30 <= len(EXAMPLE.read_text().splitlines()) <= 60


def test_the_example_learns_in_seconds(own):
    name_class(f"{EXAMPLE}:ResNet")
    net = {"kind": "module", "source": f"{EXAMPLE}:ResNet", "options": {"width": 8, "blocks": 1}}
    settings = ("td.batch_games=64", "optim.minibatch=64", "optim.rate=0.003")
    learner = make_learner(load_preset("own").changed(settings, net=net, games=448), "cpu", Group(), 1)
    chance = TorchOpponent("random", "cpu")
    before = torch_score(learner.net(), chance, 60, 0.0, 7, 1)
    while learner.progress < 1:
        learner.step()
    after = torch_score(learner.net(), chance, 60, 0.0, 7, 1)
    assert after > 0.65
    assert after > before + 0.1


def test_config_errors_are_the_kind_that_train_py_prints(own):
    name_class("net.py:Small")
    with pytest.raises(ConfigError):
        load_preset("own").changed(["net.widht=3"], net={"kind": "module", "source": "net.py:Small"})
    module_with("return inputs[0].sum((1, 2, 3))", "        self.w.requires_grad_(False)\n")
    config = load_preset("own").changed(net={"kind": "module", "source": "odd.py:Own"})
    with pytest.raises(ConfigError, match="Own has no weights that could learn"):
        make_learner(config, "cpu", Group(), 1)


@pytest.mark.parametrize(
    "net",
    [
        {"kind": "dense", "hidden": 8},
        {"kind": "staged", "net": {"kind": "triangle", "maps": 2}, "gate": "network", "gate_units": 3},
    ],
    ids=["dense", "gate"],
)
def test_other_nets_that_do_not_compile_train_and_play_too(own, net):
    learner = make_learner(load_preset("own").changed(QUICK, net=net), "cpu", Group(), 1)
    before = {name: tensor.clone() for name, tensor in learner.net().state_dict().items()}
    learner.step()
    learner.step()
    fixed = {"coefficients"}
    assert {name for name, tensor in learner.net().state_dict().items() if torch.equal(tensor, before[name])} <= fixed
    export(learner.net()).save("net.safetensors")
    assert load_net("net.safetensors").config == learner.net().config
    with pytest.raises(CompileError, match="cannot be compiled"):
        compile_checkpoint(Checkpoint.load("net.safetensors"))
    position = Position.start().play("f5")
    assert make_player("net.safetensors:depth=2").choose(position).move in position.legal_moves


def test_the_example_never_waits_for_the_device(own):
    net = ModuleNet(name_class(f"{EXAMPLE}:ResNet"), width=4, blocks=1)
    mover = torch.empty(2000, dtype=torch.int64, device="meta")  # where nothing can be asked for
    with torch.no_grad():
        for result in (net.to("meta")(mover, mover), net.discs(mover, mover)):
            assert (result.device.type, result.shape, result.dtype) == ("meta", (2000,), torch.float32)


# --- players ---------------------------------------------------------------------------------------------------------


def test_it_plays_by_its_run_by_its_file_and_by_its_class(train, own, monkeypatch):
    assert train("--net", "net.py:Small", "--run", "mine")[0] == 0
    position = Position.start().play("f5")
    scores = {}
    for spec in ("mine:depth=2", "runs/mine/net.safetensors:depth=2,batch=7", "module:net.py:Small:net=mine,depth=2"):
        choice = make_player(spec).choose(position)
        assert choice.move in position.legal_moves
        scores[spec] = choice.score
        new_process(monkeypatch)
    assert len(set(scores.values())) == 1
    first = make_player("module:net.py:Small:depth=2").choose(position).score
    assert first == make_player("module:net.py:Small:depth=2,device=cpu").choose(position).score
    assert first not in scores.values()
    found = Engine(load_net("mine"), Options(table_mb=1)).search(position, Limit(depth=2))
    assert found.score in scores.values()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("module:net.py:Smal:depth=1", "has no class 'Smal'; did you mean 'Small'?"),
        ("module:gone.py:Small:depth=1", "gone.py cannot be read: No such file or directory"),
        ("module:net.py:depth=1", "'net.py' names no class; write FILE.py:Class"),
        ("module:net.py:Small:net=nobody", "there is no net 'nobody'"),
        ("module:net.py:Small:net=triangle", "a staged net is no module of a user's own"),
        ("champion:net=mine", "champion has no key 'net'"),
    ],
)
def test_players_that_cannot_be_made(own, spec, message):
    with pytest.raises(PlayerError) as error:
        make_player(spec)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
