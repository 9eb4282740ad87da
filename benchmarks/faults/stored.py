"""Damaged and forged nets and training states. Read ``trials.py`` first.

*Damaged* is what a disk does: any bytes. It must be noticed, whatever it is. *Forged* files have a checksum that fits,
so that what is wrong with their contents has to be found there: shapes, types, numbers, names and configurations.
Forged nets may be accepted if they can be played with, forged states if they can be learnt from.
"""

from __future__ import annotations

import json
import math
import os
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.faults.deaths import Programs, fresh, trainer, words
from benchmarks.faults.texts import Reader, text_of
from benchmarks.faults.trials import Damage, Trial, Wrong
from othello_nn.checkpoint import Checkpoint
from othello_nn.files import sealed
from othello_nn.game.position import Position

NETS: dict[str, dict[str, Any]] = {
    "table": {"kind": "ntuple", "tuples": [[0, 1, 2], [9, 18]], "stages": 2},
    "embedding": {"kind": "ntuple", "tuples": [[0, 1, 2], [9, 18]], "dim": 4, "hidden": 4},
    "triangle": {"kind": "staged", "net": {"kind": "triangle", "maps": 2}},
    "doubled": {"kind": "doubled", "net": {"kind": "staged", "net": {"kind": "triangle", "maps": 2}}},
    "dense": {"kind": "dense"},
}
VALUES = (
    0, -1, 1, 2, 61, 65, 10**6, 2**31, 2**63, 10**30, -0.5, 1e-9, 1e30, 1e308, "", "x", "/dev/zero", "patterns", True,
    None, [], [[]], [[64]], [[0, 0]], {}, {"kind": "ntuple"}, [0] * 1000,
)  # fmt: skip
NUMBERS = (0, -1, 1, 59, 60, 61, 64, 127, -128, 255, 2**15, 2**31 - 1, 2**62, 1e-30, 1e9, 1e30, math.nan, math.inf)
POSITIONS = [Position.parse(text) for text in ("start", "f5", "f5d6c3d3c4f4")]


KEYS = ("kind", "tuples", "stages", "dim", "hidden", "heads", "net", "maps", "ntuple", "staged", "triangle", "doubled")


def saved_nets() -> dict[str, Path]:
    """A small net of each kind, in files."""
    import torch

    from othello_nn.nets import export, make_net

    torch.manual_seed(1)
    found = {}
    for name, config in NETS.items():
        found[name] = Path(f"{name}.safetensors").resolve()
        net = make_net(config)
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.copy_(torch.randn_like(parameter) / 8)
        export(net, {"recipe": {"seed": 1}, "games": 7}).save(found[name])
    return found


def _essence(checkpoint: Checkpoint) -> dict[str, Any]:
    arrays = dict(checkpoint.arrays) | {"probcut": checkpoint.probcut, "calibration": checkpoint.calibration}
    arrays |= {} if checkpoint.checks is None else vars(checkpoint.checks)
    held = {name: None if array is None else (str(array.dtype), array.tobytes()) for name, array in arrays.items()}
    return {"net": checkpoint.net, "info": checkpoint.info} | held


WORDS = [b'"', b"{", b"}", b"[", b"]", b":", b",", b"F32", b"I16", b"data_offsets", b"\\", b"\0", b"net", b"\xff" * 8]


def damaged_nets() -> Trial:
    originals = [(path.read_bytes(), _essence(Checkpoint.load(path))) for path in saved_nets().values()]
    path = Path("damaged.safetensors")

    def trial(rng: random.Random) -> bool:
        content, wanted = rng.choice(originals)
        path.write_bytes(_damaged(content, rng))
        if _essence(Checkpoint.load(path)) != wanted:
            raise Wrong("another net than was saved is accepted")
        return True

    return trial


def _damaged(content: bytes, rng: random.Random) -> bytes:
    """One bit anywhere, or worse; mostly near the beginning, where the header is."""
    if rng.random() < 0.3:
        at = rng.randrange(8 * len(content))
        return content[: at // 8] + bytes([content[at // 8] ^ 1 << at % 8]) + content[at // 8 + 1 :]
    header = 8 + int.from_bytes(content[:8], "little")
    if rng.random() < 0.7:
        return Damage([content[:header]], WORDS)(rng)[0] + content[header:]
    return Damage([content], WORDS)(rng)[0]


def _read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as file:
        meta = {key: value for key, value in file.metadata().items() if key != "crc32"}
        return {name: file.get_tensor(name) for name in file.keys()}, meta  # noqa: SIM118 (not a dict)


def net_configs() -> Reader:
    """What a net's file says of the net, with a checksum that fits; then it is compiled, as a player would."""
    from othello_nn.engine.leaf.compile import compile_checkpoint

    arrays, meta = _read(saved_nets()["table"])
    path = Path("configured.safetensors")

    def read(data: bytes) -> None:
        path.write_bytes(sealed(arrays, meta | {"net": text_of(data)}))
        compile_checkpoint(Checkpoint.load(path), "configured")

    words = [b"{", b"}", b"[", b"]", b'"', b":", b",", b"null", *(word.encode() for word in KEYS)]
    return Reader([json.dumps(config).encode() for config in NETS.values()], words, read, demanding=False)


def forged_nets() -> Trial:
    from othello_nn.players import make_player

    originals = [_read(path) for path in saved_nets().values()]
    path = Path("forged.safetensors").resolve()

    def trial(rng: random.Random) -> bool:
        arrays, meta = rng.choice(originals)
        arrays, meta = dict(arrays), dict(meta)
        if rng.random() < 0.6:
            name = rng.choice(("net", "net", "net", "info"))
            meta[name] = json.dumps(_forged_value(json.loads(meta[name]), rng))
        else:
            _forge_arrays(arrays, rng)
        path.write_bytes(sealed(arrays, meta))
        player = make_player(f"{path}:depth={rng.randint(1, 3)},table=1")
        for position in POSITIONS:
            choice = player.choose(position)
            if choice.move not in position.legal_moves or not abs(choice.score or 0.0) <= 64:
                raise Wrong(f"plays {choice.move} for {choice.score}")
        return True

    return trial


def _forged_value(value: Any, rng: random.Random) -> Any:
    """The same with something in it replaced, left out or put in."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        match rng.randrange(6):
            case 0:
                return {name: item for name, item in value.items() if name != key}
            case 1:
                return value | {rng.choice(("kind", "net", "tuples", "dim", "heads", "x")): rng.choice(VALUES)}
            case 2 if rng.random() < 0.1:
                for _ in range(rng.choice((3, 10, 300))):
                    value = {"kind": "staged", "net": value}
                return value
        return value | {key: _forged_value(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.8:
        at = rng.randrange(len(value))
        return [*value[:at], _forged_value(value[at], rng), *value[at + 1 :]]
    return rng.choice(VALUES)


def _forge_arrays(arrays: dict[str, np.ndarray], rng: random.Random) -> None:
    name = rng.choice(list(arrays))
    array = arrays[name]
    match rng.randrange(7):
        case 0:
            del arrays[name]
        case 1:
            arrays[f"{name}{rng.choice(('x', '0', '.y'))}"] = array
        case 2:
            arrays[name] = array.reshape(-1)[: rng.randint(0, array.size)]
        case 3:
            arrays[name] = np.concatenate([array.reshape(-1)] * rng.randint(2, 4))
        case 4:
            with np.errstate(all="ignore"):
                arrays[name] = array.astype(rng.choice(("f4", "f8", "f2", "i1", "i2", "i4", "i8", "u8", "?")))
        case _:
            changed = array.copy().reshape(-1)
            for _ in range(rng.randint(1, 3) if changed.size else 0):
                number = rng.choice(NUMBERS)
                with np.errstate(all="ignore"):
                    if changed.dtype.kind == "f":
                        changed[rng.randrange(changed.size)] = number
                    else:
                        whole = int(number) if math.isfinite(number) else -1
                        bits = np.array([whole % 2**64], np.uint64).view(np.int64)
                        changed[rng.randrange(changed.size)] = bits.astype(changed.dtype)[0]
            arrays[name] = changed.reshape(array.shape)


# --- states ----------------------------------------------------------------------------------------------------------


class _States:
    """The state of a small run of each preset, in the middle of it."""

    def __init__(self, presets: list[str]):
        from othello_nn.learn.runs import Run

        program: Programs = trainer()
        self.runs = {}
        for preset in presets:
            folder = Path(preset).resolve()
            stop_midway(program, preset, folder)
            self.runs[preset] = Run.open(folder / "runs", "run")
        self.contents = {preset: run.state_path.read_bytes() for preset, run in self.runs.items()}


def stop_midway(program: Programs, preset: str, folder: Path, when: Callable[[Any], bool] = lambda _: True) -> None:
    """Have a run killed when it has saved its first state, or the first with a learner of which something is true."""
    from othello_nn.learn.trainer import Trainer

    def run_and_die(arguments: list[str]) -> int:
        save = Trainer.save

        def save_and_die(trainer: Trainer) -> None:
            save(trainer)
            if when(trainer.learner):
                os.kill(os.getpid(), signal.SIGKILL)

        Trainer.save = save_and_die  # type: ignore[method-assign]
        return program.run(arguments)

    fresh(folder)
    if Programs(run_and_die)(words(preset), folder) != [-signal.SIGKILL]:
        raise RuntimeError(f"{preset} could not be stopped: {(folder / 'said.txt').read_text()[-1500:]}")


def damaged_states() -> Trial:
    states = _States(["quick", "triangle"])
    wanted = {preset: _bytes_of(run.load_state()) for preset, run in states.runs.items()}

    def trial(rng: random.Random) -> bool:
        preset, run = rng.choice(list(states.runs.items()))
        run.state_path.write_bytes(_damaged(states.contents[preset], rng))
        if _bytes_of(run.load_state()) != wanted[preset]:
            raise Wrong("another state than was saved is accepted")
        return True

    return trial


def _bytes_of(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    return {name: (str(array.dtype), array.shape, array.tobytes()) for name, array in arrays.items()}


STATES = ["quick", "ntuple", "triangle", "own", "triangle-leouski", "evolve", "backwards", "champion"]


def forged_states(presets: list[str] | None = None) -> Trial:
    from othello_nn.learn.distributed import Group
    from othello_nn.learn.make import make_learner
    from othello_nn.learn.trainer import Trainer

    states = _States(presets or STATES)
    read = {preset: _read(run.state_path) for preset, run in states.runs.items()}

    def trial(rng: random.Random) -> bool:
        preset, run = rng.choice(list(states.runs.items()))
        arrays, meta = dict(read[preset][0]), read[preset][1]
        for _ in range(rng.randint(1, 2)):
            _forge_arrays(arrays, rng)
        run.state_path.write_bytes(sealed(arrays, meta))
        learner = make_learner(run.config, "cpu", Group(), 1, resumed=True)
        Trainer(run, learner, Group(), 1).resume()
        learner.step()
        return True

    return trial


def forged_positions() -> Trial:
    """The positions that a searched run learns from, with checksums that fit: any boards, values and numbers."""
    from othello_nn.learn.data.store import HEADER, INDEX, POSITIONS, RECORD, _entry
    from othello_nn.learn.distributed import Group
    from othello_nn.learn.make import make_learner
    from othello_nn.learn.runs import Run
    from othello_nn.learn.trainer import Trainer

    folder = Path("champion-fitting").resolve()
    stop_midway(trainer(), "champion", folder, lambda learner: learner.fitting)
    run = Run.open(folder / "runs", "run")
    [index] = (run.folder / "positions").glob(f"generation-1/*{INDEX}")
    header, good = index.read_bytes()[:HEADER], np.fromfile(index.with_suffix(POSITIONS), RECORD)

    def trial(rng: random.Random) -> bool:
        records = good.copy()
        for _ in range(rng.randint(1, 20)):
            at = slice(first := rng.randrange(len(records)), first + rng.choice((1, 10, len(records))))
            name = rng.choice(RECORD.names or ())
            whole = rng.choice((0, 1, 2**63, 2**64 - 1, rng.getrandbits(64)))
            records[name][at] = np.array([whole], np.uint64).astype(RECORD[name])[0]
        index.with_suffix(POSITIONS).write_bytes(records.tobytes())
        index.write_bytes(header + _entry(len(records), records.tobytes()))
        learner = make_learner(run.config, "cpu", Group(), 1, resumed=True)
        Trainer(run, learner, Group(), 1).resume()
        learner.step()
        return True

    return trial


KINDS: dict[str, Callable[[], Trial]] = {
    "nets, damaged": damaged_nets,
    "nets, forged": forged_nets,
    "states, damaged": damaged_states,
    "states, forged": forged_states,
}
