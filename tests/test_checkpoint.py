"""Checkpoint files: what is written is read back, a failed write leaves the old file, and other files are refused."""

import errno
import json
import os
import random
import resource
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from net_oracle import random_checkpoint

from othello_nn.checkpoint import FORMAT, LARGEST, Checkpoint, CheckpointError, Checks, check_positions, read_meta
from othello_nn.engine import Engine, Limit, Options
from othello_nn.engine.leaf.compile import load_evaluator, with_checks
from othello_nn.game import Position
from othello_nn.resources import CHECKPOINTS

NET = {"kind": "ntuple", "tuples": [[0, 1, 2], [27, 36]], "stages": 3, "scale": 10.0}
INFO = {"games": 12, "note": "λ = 0.5", "curve": [0.1, 0.2]}


def small() -> Checkpoint:
    bare = random_checkpoint(NET, 1)
    bare = Checkpoint(NET, bare.arrays, INFO, np.linspace(-1, 1, 6).astype(np.float32))
    return with_checks(bare)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A checkpoint and its file."""
    checkpoint, path = small(), tmp_path_factory.mktemp("nets") / "small.safetensors"
    checkpoint.save(path)
    return checkpoint, path


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


# --- there and back --------------------------------------------------------------------------------------------------


def test_round_trip(saved):
    checkpoint, path = saved
    assert names(path.parent) == [path.name]  # nothing is left behind
    loaded = Checkpoint.load(str(path))
    assert (loaded.net, loaded.info) == (NET, INFO)
    assert loaded.arrays.keys() == {"weight"}
    assert loaded.arrays["weight"].tobytes() == checkpoint.arrays["weight"].tobytes()
    assert (loaded.probcut == checkpoint.probcut).all()
    for name in ("movers", "opponents", "black_to_move", "discs"):
        assert (getattr(loaded.checks, name) == getattr(checkpoint.checks, name)).all()


def test_arrays_of_any_shape(tmp_path):
    arrays = {
        "a.b": np.float32(3.5).reshape(()),
        "c": np.arange(12, dtype=np.int16).reshape(3, 4).T,
        "none": np.zeros((0, 2), "f"),
    }
    Checkpoint({"kind": "x"}, arrays).save(tmp_path / "x.safetensors")
    loaded = Checkpoint.load(tmp_path / "x.safetensors")
    for name, array in arrays.items():
        assert loaded.arrays[name].shape == array.shape
        assert (loaded.arrays[name] == array).all()
    assert loaded.probcut is None
    assert loaded.checks is None
    assert loaded.info == {}


def test_integers_are_128ths_of_a_disc():
    floats = Checkpoint({"kind": "x"}, {"w": np.array([64, -3], np.int16), "v": np.ones(1, np.float32)}).float_arrays
    assert floats["w"].dtype == np.float32
    assert floats["w"].tolist() == [0.5, -3 / 128]
    assert floats["v"].tolist() == [1.0]


def test_metadata_alone(saved):
    assert read_meta(saved[1]) == {"format": "othello_nn.net/1", "net": NET, "info": INFO}


def test_everyone_may_read_it(saved):
    assert stat.S_IMODE(saved[1].stat().st_mode) == 0o644


def test_saving_again_replaces_the_file(saved, tmp_path):
    path = tmp_path / "again.safetensors"
    path.write_text("something else")
    saved[0].save(path)
    assert Checkpoint.load(path).info == INFO
    assert names(tmp_path) == ["again.safetensors"]


def test_reading_needs_no_torch_and_no_numba(saved):
    code = (
        "import sys; from othello_nn.checkpoint import Checkpoint, read_meta\n"
        f"Checkpoint.load({str(saved[1])!r}); read_meta({str(saved[1])!r})\n"
        "assert not {'numba', 'torch'} & set(sys.modules), 'reading a checkpoint imported too much'"
    )
    subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[1], check=True, timeout=60)


def test_check_positions_cover_a_game():
    movers, opponents, blacks = check_positions()
    empties = 64 - np.bitwise_count(movers | opponents)
    assert not (movers & opponents).any()
    assert empties.max() > 50
    assert empties.min() < 12
    assert 10 < blacks.sum() < 54
    assert (check_positions()[0] == movers).all()
    assert (check_positions(seed=1)[0] != movers).any()


# --- what cannot be saved --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"net": {}}, "kind"),
        ({"net": []}, "dictionary"),
        ({"info": None}, "dictionary"),
        ({"arrays": {"w": np.zeros(2)}}, "'w' must be float32, float16, int16, int8 or int64, not float64"),
        ({"arrays": {"w": np.array([1, np.nan], np.float32)}}, "'w' holds numbers that are not finite"),
        ({"arrays": {"w": np.array([1, -2e6], np.float32)}}, "'w' holds -2e\\+06; the largest weight is 1e\\+06"),
        ({"probcut": np.full(6, np.inf)}, "probcut"),
        ({"probcut": np.zeros((2, 3))}, "probcut"),
    ],
)
def test_contents_that_no_checkpoint_can_have(change, message):
    with pytest.raises(CheckpointError, match=message):
        Checkpoint(**({"net": {"kind": "x"}, "arrays": {}} | change))


def test_checks_must_be_positions_with_values():
    one, two = np.array([1], np.uint64), np.array([2], np.uint64)
    black, discs = np.array([True]), np.array([0.5])
    Checks(one, two, black, discs)
    with pytest.raises(CheckpointError, match="both sides"):
        Checks(one, one, black, discs)
    with pytest.raises(CheckpointError, match="finite"):
        Checks(one, two, black, discs * np.nan)
    with pytest.raises(CheckpointError, match=r"checks\.opponents must be uint64"):
        Checks(one, two.astype(np.int64), black, discs)
    with pytest.raises(CheckpointError, match=r"checks\.discs must be float64 \[N\], not float64 \[2\]"):
        Checks(one, two, black, np.zeros(2))


def test_what_json_cannot_hold(tmp_path):
    for info in ({"x": object()}, {"loss": float("nan")}):
        with pytest.raises(CheckpointError, match="info cannot be written as JSON"):
            Checkpoint({"kind": "x"}, {}, info).save(tmp_path / "x.safetensors")
    assert names(tmp_path) == []


# --- writing that fails ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["fsync", "replace", "chmod"])
def test_a_full_disk_leaves_the_old_file(step, saved, tmp_path, monkeypatch):
    path = tmp_path / "net.safetensors"
    path.write_bytes(b"the old one")

    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, step, full)
    with pytest.raises(OSError, match="No space left on device") as failure:
        saved[0].save(path)
    monkeypatch.undo()
    assert failure.value.errno == errno.ENOSPC
    assert failure.value.filename == str(path)
    assert names(tmp_path) == ["net.safetensors"]
    assert path.read_bytes() == b"the old one"


def test_an_interrupted_write_leaves_nothing_behind(saved, tmp_path, monkeypatch):
    def interrupted(descriptor):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        saved[0].save(tmp_path / "net.safetensors")
    monkeypatch.undo()
    assert names(tmp_path) == []


def test_what_a_killed_process_left_is_removed_once_it_is_old(saved, tmp_path):
    path = tmp_path / "net.safetensors"
    old, young, others = (tmp_path / f".{name}.tmp" for name in (f"{path.name}.old", f"{path.name}.young", "x.old"))
    for left in (old, young, others):
        left.write_bytes(b"half of it")
    for left in (old, others):
        os.utime(left, (1e9, 1e9))
    saved[0].save(path)
    assert names(tmp_path) == sorted([path.name, young.name, others.name]), "somebody may still be writing it"


def test_the_content_is_on_disk_before_it_has_the_name(saved, tmp_path, monkeypatch):
    steps, fsync, replace = [], os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda descriptor: (steps.append("fsync"), fsync(descriptor)))
    monkeypatch.setattr(os, "replace", lambda old, new: (steps.append("replace"), replace(old, new)))
    saved[0].save(tmp_path / "net.safetensors")
    assert steps == ["fsync", "replace"]


def test_folders_that_cannot_be_written(saved, tmp_path):
    for path in (tmp_path / "nowhere" / "net.safetensors", saved[1] / "net.safetensors"):
        with pytest.raises(OSError) as failure:  # noqa: PT011 (the file name is what matters)
            saved[0].save(path)
        assert failure.value.filename == str(path)
    assert names(tmp_path) == []


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_no_permission(saved, tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError) as failure:
        saved[0].save(tmp_path / "net.safetensors")
    tmp_path.chmod(0o700)
    assert failure.value.filename == str(tmp_path / "net.safetensors")


# --- files that are no checkpoints -----------------------------------------------------------------------------------


def expect_refusal(path, *words: str, load=Checkpoint.load) -> str:
    with pytest.raises(ValueError) as refusal:  # noqa: PT011 (what it must say is checked below)
        load(path)
    message = str(refusal.value)
    assert str(path) in message
    assert "\n" not in message
    for word in words:
        assert word in message
    return message


@pytest.mark.parametrize("content", [b"", b"\0" * 7, b"\0" * 64, b"\xff" * 300, b"not an evaluator\n" * 30])
def test_other_files(content, tmp_path):
    path = tmp_path / "other.safetensors"
    path.write_bytes(content)
    expect_refusal(path, "not a readable safetensors file")
    expect_refusal(path, "not a readable safetensors file", load=read_meta)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.safetensors"):
        Checkpoint.load(tmp_path / "nothing.safetensors")


def test_truncated_files(saved, tmp_path):
    content = saved[1].read_bytes()
    path = tmp_path / "cut.safetensors"
    for length in [1, 8, 9, 100, 500, len(content) // 2, len(content) - 1]:
        path.write_bytes(content[:length])
        expect_refusal(path)


def test_damaged_files(saved, tmp_path):
    """Any byte of the header changed: refused, or read as an evaluator that can be used. Nothing else may happen."""
    content = bytearray(saved[1].read_bytes())
    header = int.from_bytes(content[:8], "little") + 8
    path = tmp_path / "damaged.safetensors"
    rng = random.Random(11)
    refusals = []
    for _ in range(1500):
        damaged = bytearray(content)
        for _ in range(rng.randint(1, 2)):
            damaged[rng.randrange(header)] = rng.choice((0, 34, 44, 45, 48, 49, 57, 93, 123, 255, rng.randrange(256)))
        path.write_bytes(damaged)
        try:
            load_evaluator(path).leaf  # noqa: B018
        except ValueError as error:
            refusals.append(str(error))
    assert len(refusals) > 300
    assert all(str(path) in refusal and "\n" not in refusal for refusal in refusals)


def test_one_flipped_bit_anywhere_is_refused(saved, tmp_path):
    content = saved[1].read_bytes()
    header = int.from_bytes(content[:8], "little") + 8
    path = tmp_path / "flipped.safetensors"
    rng = random.Random(3)
    places = [*range(8 * header), *rng.sample(range(8 * header, 8 * len(content)), 1000)]
    for place in places:
        damaged = bytearray(content)
        damaged[place // 8] ^= 1 << place % 8
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError) as refusal:
            Checkpoint.load(path)
        assert "\n" not in str(refusal.value)
    assert "its checksum is not that of what it holds" in str(refusal.value)


@pytest.mark.parametrize("path", sorted(CHECKPOINTS.glob("*.safetensors")), ids=lambda path: path.stem)
def test_the_nets_that_come_with_the_program_are_whole(path):
    Checkpoint.load(path)
    meta = json.loads(path.read_bytes()[8 : 8 + int.from_bytes(path.read_bytes()[:8], "little")])["__metadata__"]
    assert "crc32" in meta


def test_a_file_without_a_checksum_is_older_and_read(saved, tmp_path):
    path = rewritten(saved, tmp_path)
    assert b"crc32" not in path.read_bytes()
    assert Checkpoint.load(path).info == INFO


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes of POSIX")
def test_what_has_no_end_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, what in ((tmp_path / "pipe", "a pipe"), (Path("/dev/zero"), "a device")):
        for load in (Checkpoint.load, read_meta):
            with pytest.raises(OSError, match=f"it is {what}, not a file"):
                load(path)


def rewritten(saved, tmp_path, arrays=None, **meta):
    """The saved file with other arrays or metadata; None takes one away. It has no checksum."""
    from safetensors import safe_open
    from safetensors.numpy import save_file

    with safe_open(saved[1], framework="numpy") as file:
        metadata = file.metadata() | {"crc32": None} | meta
        tensors = {name: file.get_tensor(name) for name in file.keys()} | (arrays or {})  # noqa: SIM118
    path = tmp_path / "rewritten.safetensors"
    keep = {name: value for name, value in metadata.items() if value is not None}
    save_file({name: value for name, value in tensors.items() if value is not None}, path, metadata=keep)
    return path


def test_rewriting_alone_does_no_harm(saved, tmp_path):
    assert load_evaluator(rewritten(saved, tmp_path, info="{}")).name == "rewritten"


@pytest.mark.parametrize(
    ("meta", "words"),
    [
        ({"format": None}, ["not a checkpoint of this program"]),
        ({"format": "othello_nn.tables/1"}, ["not a checkpoint of this program", "othello_nn.tables/1"]),
        ({"format": "othello_nn.net/2"}, ["version '2'", "reads 1"]),
        ({"format": FORMAT + "0"}, ["version '10'", "reads 1"]),
        ({"unit": "64"}, ["unit"]),
        ({"unit": None}, ["unit is missing"]),
        ({"net": None}, ["net is missing"]),
        ({"net": "{"}, ["damaged"]),
        ({"net": "[1]"}, ["dictionary"]),
        ({"net": "{}"}, ["kind"]),
        ({"net": "[" * 100_000}, ["damaged"]),
        ({"info": None}, ["info is missing"]),
        ({"info": "3"}, ["dictionary"]),
    ],
    ids=lambda value: str(value)[:40],
)
def test_wrong_metadata(meta, words, saved, tmp_path):
    expect_refusal(rewritten(saved, tmp_path, **meta), *words)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        (
            {"net.weight": np.zeros((3, 37), np.float64)},
            ["'weight' must be float32, float16, int16, int8 or int64, not float64"],
        ),
        ({"net.weight": np.full((3, 37), np.nan, np.float32)}, ["not finite"]),
        ({"something": np.zeros(1, np.float32)}, ["unknown array 'something'"]),
        ({"checks.discs": None}, ["checks.discs is missing"]),
        ({"checks.discs": np.zeros(64, np.float32)}, ["checks.discs must be float64"]),
        ({"checks.movers": np.zeros(3, np.uint64)}, ["checks."]),
        ({"probcut": np.full(6, np.nan, np.float32)}, ["probcut"]),
        ({"probcut": np.zeros(6, np.int64)}, ["probcut"]),
    ],
    ids=str,
)
def test_wrong_arrays(arrays, words, saved, tmp_path):
    expect_refusal(rewritten(saved, tmp_path, arrays), *words)


def net_with(**changes) -> str:
    return json.dumps(NET | changes)


@pytest.mark.parametrize(
    ("meta", "words"),
    [
        ({"net": net_with(kind="ntupel")}, ["unknown kind of net 'ntupel'; did you mean 'ntuple'?"]),
        ({"net": net_with(stage=3)}, ["unknown option 'stage' of a ntuple net; did you mean 'stages'?"]),
        ({"net": net_with(stages=4)}, ["'weight' must be [4, 37], not [3, 37]"]),
        ({"net": net_with(stages="3")}, ["stages is '3'; it must be a whole number from 1 to 60"]),
        ({"net": net_with(stages=0)}, ["stages"]),
        ({"net": net_with(dim=2)}, ["'weight' must be [3, 37, 2]"]),
        ({"net": net_with(view="sideways")}, ["inversion or negation"]),
        ({"net": net_with(shared=True)}, ["'weight' must be [4, 37]"]),
        ({"net": net_with(tuples=[[0, 1, 64], [27, 36]])}, ["squares 0…63"]),
        ({"net": net_with(tuples=[[0, 1, -1], [27, 36]])}, ["squares 0…63"]),
        ({"net": net_with(tuples=[[0, 1, 1], [27, 36]])}, ["squares 0…63"]),
        ({"net": net_with(tuples=[[0, 1, "a1"], [27, 36]])}, ["squares 0…63"]),
        ({"net": net_with(tuples=[[0, 1, 1.5], [27, 36]])}, ["squares 0…63"]),
        ({"net": net_with(tuples="all-2")}, ["squares 0…63"]),
        ({"net": net_with(tuples=None)}, ["tuples is None; it must be", "a list of lists of squares"]),
        ({"net": net_with(tuples=[list(range(11)), [27, 36]])}, ["squares"]),
        ({"arrays": {"net.weight": None}}, ["'weight' is missing"]),
        ({"arrays": {"net.weight": np.zeros((3, 36), np.int16)}}, ["[3, 37]"]),
        ({"arrays": {"net.weight": np.zeros(37, np.int16)}}, ["[3, 37]"]),
        ({"arrays": {"probcut": np.zeros(5, np.float32)}}, ["ProbCut"]),
    ],
    ids=lambda value: str(value)[:60],
)
def test_nets_that_cannot_be_compiled(meta, words, saved, tmp_path):
    """A file in order, but not a net: said when an evaluator is made of it."""
    expect_refusal(rewritten(saved, tmp_path, **meta), *words, load=load_evaluator)


# --- files that ask for too much -------------------------------------------------------------------------------------


def nested(depth: int) -> dict:
    net: dict = {"kind": "triangle", "maps": 1}
    for _ in range(depth - 1):
        net = {"kind": "staged", "net": net, "centres": [32.0] * 16}
    return net


HUGE = {
    "a name": (NET | {"tuples": "all-2"}, "the tuples of a saved net are lists of squares, not the name 'all-2'"),
    "a device": (NET | {"tuples": "/dev/zero"}, "not the name '/dev/zero'"),
    "a path": (NET | {"tuples": "/etc/passwd"}, "not the name '/etc/passwd'"),
    "inside": ({"kind": "doubled", "net": NET | {"tuples": "/etc/passwd"}}, "not the name '/etc/passwd'"),
    "many cells": (
        NET | {"tuples": [[*range(first, first + 10)] for first in range(0, 50)], "stages": 60, "dim": 256},
        "its configuration is of a net of 45,349,651,489 numbers, and it holds 111",
    ),
    "many copies": (nested(4), "numbers, and it holds 111"),
    "many copies of much": ({"kind": "staged", "net": {"kind": "dense", "hidden": 65536}}, "and it holds 111"),
    "five in each other": (nested(5), "nets are nested 5 deep or more; the most is 4"),
    "hundreds in each other": (nested(300), "nets are nested 5 deep or more; the most is 4"),
    "no kind": ({"kind": []}, "does not say its kind"),
    "no kind inside": ({"kind": "doubled", "net": {"kind": []}}, "unknown kind of net []"),
    "no centres": (nested(2) | {"centres": 5}, "centres is 5; it must be a list of 1 to 16 numbers of discs"),
    "no tuples": (NET | {"tuples": [5]}, "squares"),
}


@pytest.mark.parametrize("case", HUGE)
def test_files_that_ask_for_too_much(case, saved, tmp_path):
    """They are refused in one line that names them, before anything is made of them."""
    from othello_nn.nets import load_net
    from othello_nn.players import make_player

    net, words = HUGE[case]
    if case == "many copies":  # a kind of net that the next level copies sixteen times
        net["net"]["net"]["net"]["maps"] = 100
    path = rewritten(saved, tmp_path, net=json.dumps(net))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    expect_refusal(path, words, load=load_net)
    expect_refusal(path, load=load_evaluator)
    expect_refusal(path, load=lambda path: make_player(str(path)))
    unit = 1 if sys.platform == "darwin" else 1024
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit < 200_000_000


TUPLES = {"kind": "ntuple", "tuples": [[0, 1, 2], [27, 36]]}
LARGE = {
    "linear": TUPLES | {"stages": 3, "shared": True},
    "vectors": TUPLES | {"dim": 4, "hidden": 9},
    "heads": TUPLES | {"dim": 16, "hidden": 20, "heads": 3},
    "triangle": {"kind": "triangle", "maps": 3},
    "staged": {"kind": "staged", "net": {"kind": "triangle", "maps": 3}, "gate": "learned"},
}


@pytest.mark.parametrize("name", LARGE)
def test_the_largest_weights_still_give_numbers(name, tmp_path):
    """Nothing that a file may hold makes a sum that is no number, or a score beyond what a game can end with."""
    import torch

    from othello_nn.nets import load_net, make_net

    net, rng = make_net(LARGE[name]), np.random.default_rng(1)
    shapes = {key: tuple(tensor.shape) for key, tensor in net.state_dict().items()}
    arrays = {key: rng.choice(np.float32([-LARGEST, LARGEST]), shape) for key, shape in shapes.items()}
    Checkpoint(net.config, arrays).save(path := tmp_path / "large.safetensors")
    movers, opponents, _ = check_positions()
    evaluator = load_evaluator(path)
    assert np.abs(evaluator.discs(movers, opponents)).max() <= 62
    mover, opponent = (torch.from_numpy(boards.view(np.int64)) for boards in (movers, opponents))
    assert torch.isfinite(load_net(path).discs(mover, opponent)).all()
    engine = Engine(evaluator, Options(table_mb=1))
    assert all(abs(engine.search(Position.start(), Limit(depth=depth)).score) <= 64 for depth in (1, 4))
    for key, shape in shapes.items():
        with pytest.raises(CheckpointError, match=r"holds 3e\+38; the largest weight is 1e\+06"):
            Checkpoint(net.config, arrays | {key: np.full(shape, 3e38, np.float32)})


@pytest.mark.parametrize("name", [*LARGE, "dense", "doubled", "gate"])
def test_the_numbers_of_a_net_are_known_before_it_is_made(name):
    from othello_nn.kinds import net_options
    from othello_nn.nets import make_net
    from othello_nn.nets.registry import count_numbers

    more = {
        "dense": {"kind": "dense", "hidden": 5},
        "doubled": {"kind": "doubled", "net": {"kind": "triangle", "symmetric": True, "empties": True}},
        "gate": {"kind": "staged", "net": TUPLES, "gate": "network", "gate_units": 7},
    }
    config = (LARGE | more)[name]
    made = make_net(config).state_dict()
    assert count_numbers(net_options(config)) == sum(tensor.numel() for tensor in made.values())
