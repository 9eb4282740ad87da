"""Several ranks: cores pooled, tables merged, gradients added up, runs that stop and go on as if they had not.

Two processes are started once, as torchrun would start them (which takes longer to start itself than most of this).
They do everything that needs them, one thing after the other, and leave files for the tests to look at. Only to pool
cores on several machines there is a third.
"""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from linear import LINEAR
from safetensors.numpy import load_file
from torch.distributed import ReduceOp

import train as program
from othello_nn.checkpoint import read_meta
from othello_nn.cli.train import _cores
from othello_nn.config import load_preset
from othello_nn.learn import distributed
from othello_nn.learn.distributed import Group, pool_cores
from othello_nn.learn.learner import first_net
from othello_nn.learn.make import plays_in_threads
from othello_nn.learn.runs import Run
from othello_nn.learn.td import merge
from othello_nn.learn.td.learners import float_state
from othello_nn.learn.td.merge import FEW, Merger
from othello_nn.learn.td.online import LinearTables
from othello_nn.learn.td.torch_learner import TorchLearner
from othello_nn.learn.trainer import Trainer
from othello_nn.learn.watch.logger import Logger
from othello_nn.nets import make_net

ROOT = Path(__file__).resolve().parent.parent
TABLES = (*LINEAR, "net.tuples=[[0, 1, 2], [9, 18]]", "net.stages=2", "td.batch_games=8", "games=800")
TRIANGLE = ("net.maps=2", "td.batch_games=8", "td.exact_empties=4", "games=800", "optim.minibatch=128")


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


# --- the merge -------------------------------------------------------------------------------------------------------


class Pair(Group):
    """Two ranks in two threads of this process."""

    slots: list[torch.Tensor | None] = [None, None]  # noqa: RUF012 (shared on purpose)
    both = threading.Barrier(2)

    def all_reduce(self, tensor, operation=ReduceOp.SUM):
        self.slots[self.rank] = tensor.clone()
        self.both.wait()
        first, second = self.slots
        tensor.copy_(first | second if operation == ReduceOp.BOR else first + second)
        self.both.wait()
        return tensor


def merged(change, *, coherent: bool = True, stages: int = 1) -> tuple[LinearTables, list[np.ndarray]]:
    """The tables of two ranks after a merge, and as they were before ``change(tables, rank)`` on each of them."""
    rng = np.random.default_rng(1)
    net = make_net({"kind": "ntuple", "tuples": [[0, 1, 2], [9, 18]]})
    ranks = [LinearTables(net.shapes, stages, net.scale) for _ in range(2)]
    start = [rng.uniform(1, 2, ranks[0].weights.shape).astype(np.float32) for _ in range(3)]
    for tables in ranks:
        tables.weights[:], tables.sums[:], tables.magnitudes[:] = start
    mergers = [Merger(tables, Pair(rank, 2), coherent) for rank, tables in enumerate(ranks)]
    for rank, tables in enumerate(ranks):
        change(tables, rank)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(Merger.merge, mergers))
    for name in ("weights", "sums", "magnitudes"):
        assert np.array_equal(getattr(ranks[0], name), getattr(ranks[1], name)), name
    return ranks[0], start


def test_a_merge_by_hand(monkeypatch):
    monkeypatch.setattr(merge, "FEW", 3.0)

    def change(tables, rank):
        if rank == 0:  # cell 2 is this rank's alone
            tables.weights[0, 2] += 2
            tables.sums[0, 2] -= 0.5
            tables.magnitudes[0, 2] += 1.5
        # Both have seen something of cell 4, of cell 6 very much, and of cell 8 nothing worth a step.
        tables.weights[0, 4] += (1, 3)[rank]
        tables.sums[0, 4] += (1, -2)[rank]
        tables.magnitudes[0, 4] += (1, 5)[rank]
        tables.weights[0, 6] += (2, -2)[rank]
        tables.magnitudes[0, 6] += (3000, 1000)[rank]
        tables.sums[0, 8] += (0.25, 0.5)[rank]

    found, (weights, sums, magnitudes) = merged(change)
    assert found.weights[0, 2] == pytest.approx(weights[0, 2] + 2)
    assert found.sums[0, 2] == pytest.approx(sums[0, 2] - 0.5)
    assert found.magnitudes[0, 2] == pytest.approx(magnitudes[0, 2] + 1.5)
    # 1 with weight 3 + 1, 3 with weight 3 + 5, over 3 + 1 + 5.
    assert found.weights[0, 4] == pytest.approx(weights[0, 4] + 28 / 9)
    assert found.sums[0, 4] == pytest.approx(sums[0, 4] - 1)
    assert found.magnitudes[0, 4] == pytest.approx(magnitudes[0, 4] + 6)
    # With so many errors it is the mean, weighted by them: three quarters of 2, one of −2.
    assert found.weights[0, 6] == pytest.approx(weights[0, 6] + 1, abs=0.01)
    assert found.weights[0, 8] == weights[0, 8]
    assert found.sums[0, 8] == pytest.approx(sums[0, 8] + 0.75)
    same = np.ones_like(weights, bool)
    same[0, [2, 4, 6, 8]] = False
    assert np.array_equal(found.weights[same], weights[same])


def test_plain_steps_are_averaged_over_the_ranks_that_made_them():
    def change(tables, rank):
        tables.weights[0, 3] += (1, 0)[rank]
        tables.weights[0, 5] += (1, 3)[rank]

    found, (weights, _, magnitudes) = merged(change, coherent=False)
    assert found.weights[0, 3] == pytest.approx(weights[0, 3] + 1)
    assert found.weights[0, 5] == pytest.approx(weights[0, 5] + 2)
    assert np.array_equal(found.magnitudes, magnitudes)


def test_a_merge_of_many_cells_is_the_formula():
    """More than one word of them, some on one rank, some on both, some on none."""
    rng = np.random.default_rng(2)
    deltas = rng.uniform(-1, 1, (2, 3, 7, 37)).astype(np.float32)
    deltas[:, 2] = np.abs(deltas[:, 2]) * 40
    deltas *= rng.random((2, 1, 7, 37)) < 0.3

    def change(tables, rank):
        for array, delta in zip((tables.weights, tables.sums, tables.magnitudes), deltas[rank], strict=True):
            array += delta

    found, (weights, sums, magnitudes) = merged(change, stages=7)
    moves, seen = deltas[:, 0], deltas[:, 2]
    expected = weights + (moves * (FEW + seen)).sum(0) / (FEW + seen.sum(0))
    assert found.weights == pytest.approx(expected, abs=1e-4)
    assert found.sums == pytest.approx(sums + deltas[:, 1].sum(0), abs=1e-4)
    assert found.magnitudes == pytest.approx(magnitudes + seen.sum(0), abs=1e-3)


# --- two processes ---------------------------------------------------------------------------------------------------


LEARNERS = {
    "triangle": load_preset("triangle").changed(
        [*TRIANGLE, "optim.kind=sgd", "optim.rate=0.3", "optim.minibatch=0", "td.augment=false"]
    ),
    "tables": load_preset("quick").changed([*TABLES, "net.shared=true", "td.augment=false"]),
    "plain": load_preset("quick").changed(
        [*TABLES, "net.shared=true", "td.augment=false", "optim.kind=sgd", "optim.rate=100.0"]
    ),
    "adam": load_preset("triangle").changed(TRIANGLE),
    "online": load_preset("quick").changed([*TABLES, "td.batch_games=128"]),
    "sgd": load_preset("quick").changed([*TABLES, "td.batch_games=128", "optim.kind=sgd"]),
}
MEASURE = ("measure.double_games=2", "measure.seconds=1000.0", "measure.pictures_seconds=1000.0", "measure.probcut=0")
PRESETS = {"quick": (*TABLES, "games=1600", "td.batch_games=16"), "triangle": (*TRIANGLE, "games=128")}
STOPS = {"quick": (1, 20), "triangle": (0, 3)}
"""The rank that hears Ctrl-C, and the step in which it does."""


def words(preset: str, run: str, threads: int = 1) -> list[str]:
    settings = (*PRESETS[preset], *MEASURE)
    return ["--preset", preset, "--threads", str(threads), "--run", run, *(w for s in settings for w in ("--set", s))]


POOLING = """
import os, sys
import torch
from othello_nn.learn import distributed

def pool(rank, port):
    '''Two ranks of one core on one machine and one on another: two go on, and everything is between those two.'''
    os.environ |= {"WORLD_SIZE": "3", "MASTER_PORT": port}
    os.environ |= {"LOCAL_WORLD_SIZE": "1" if rank == 2 else "2", "LOCAL_RANK": str(rank % 2)}
    group, threads = distributed.pool_cores(distributed.join("cpu"), 1)
    assert (group.rank, group.size, threads) == [(0, 2, 2), (0, 1, 0), (1, 2, 1)][rank]
    if threads:
        assert group.all_reduce(torch.tensor([1.0 + rank])) == 4
        assert group.any(rank == 2, False) == [True, False]
        assert group.broadcast(f"rank {rank}") == "rank 0"
        assert group.gather(rank) == ([0, 2] if group.is_rank_0 else [])
        group.barrier()
    assert distributed.wait_for_all()
    distributed.leave()
    os.environ |= {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1", "LOCAL_RANK": "0"}

if __name__ == "__main__":
    pool(2, sys.argv[1])
"""
SCRIPT = """
import json, os, signal, sys
import numpy as np, torch
import train
from pooling import pool
from othello_nn.config import Config
from othello_nn.learn import distributed
from othello_nn.learn.make import make_learner
from othello_nn.learn.td.learners import float_state
from othello_nn.learn.td.online_learner import OnlineLearner
from othello_nn.learn.td.torch_learner import TorchLearner
from othello_nn.learn.watch.logger import Logger

torch.set_num_threads(1)
task, ports = json.load(open("task.json")), iter(sys.argv[1:])
pool(int(os.environ["RANK"]), next(ports))
os.environ["MASTER_PORT"] = next(ports)
group = distributed.join("cpu")
assert (group.size, group.local_size) == (2, 1)
assert group.any(group.rank == 1, False) == [True, False]
assert group.broadcast(f"rank {group.rank}") == "rank 0"
assert group.gather(group.rank) == ([0, 1] if group.is_rank_0 else [])
one, two = group.all_reduce_flat([torch.tensor(1.0), torch.full((2, 3), float(group.rank))])
assert one == 2 and two.tolist() == [[1, 1, 1], [1, 1, 1]]
for name, values in task["learners"].items():
    learner = make_learner(Config.from_dict(values), "cpu", group, 1)
    metrics = [learner.step() for _ in range(2)]
    assert learner.synchronised
    arrays = {f"net.{key}": array for key, array in float_state(learner.net()).items()}
    arrays["games"] = np.array([learner.games])
    arrays["losses"] = np.array([found["loss/td_error"] for found in metrics])
    np.savez(f"{name}-{group.rank}.npz", **arrays)
group.barrier()
distributed.leave()

Logger.pictures = lambda *arguments: None
codes = []
for words, stop, local_size in task["runs"]:
    learner_class = TorchLearner if "triangle" in words else OnlineLearner
    original, taken = learner_class.play, 0

    def play(self):
        global taken
        taken += 1
        if [group.rank, taken] == stop:
            os.kill(os.getpid(), signal.SIGINT)
        return original(self)

    learner_class.play = play
    os.environ["MASTER_PORT"] = next(ports)
    os.environ |= {"LOCAL_WORLD_SIZE": str(local_size), "LOCAL_RANK": str(group.rank % local_size)}
    codes.append(train.main(words))
    learner_class.play = original
json.dump(codes, open(f"codes-{group.rank}.json", "w"))
"""


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """The folder where ranks have done what ``POOLING``, ``LEARNERS`` and ``PRESETS`` say."""
    folder = tmp_path_factory.mktemp("ranks")
    runs = []
    for preset, stop in STOPS.items():
        runs += [(words(preset, f"{preset}-straight"), None, 1), (words(preset, f"{preset}-stopped"), stop, 1)]
        runs += [(["--resume", f"{preset}-stopped", "--threads", "1"], None, 1)]
    runs += [(words(preset, f"{preset}-pooled"), None, 2) for preset in PRESETS]
    learners = {name: config.as_dict() for name, config in LEARNERS.items()}
    (folder / "task.json").write_text(json.dumps({"learners": learners, "runs": runs}))
    (folder / "pooling.py").write_text(POOLING)
    (folder / "ranks.py").write_text(SCRIPT)
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2 + len(runs))]
    ports = [str(free.getsockname()[1]) for free in sockets]
    for free in sockets:
        free.close()
    group = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "PYTHONPATH": str(ROOT)}
    commands = [[sys.executable, script, *ports] for script in ("ranks.py", "ranks.py", "pooling.py")]
    logs = [(folder / f"rank-{rank}.txt").open("w") for rank in range(len(commands))]
    started = [
        subprocess.Popen(command, cwd=folder, env=os.environ | group | {"RANK": str(rank)}, stdout=log, stderr=log)
        for rank, (command, log) in enumerate(zip(commands, logs, strict=True))
    ]
    try:
        for process in started:
            process.wait(timeout=180)
    finally:
        for process, log in zip(started, logs, strict=True):
            process.kill()
            process.wait()
            log.close()
    for rank, process in enumerate(started):
        assert process.returncode == 0, (folder / f"rank-{rank}.txt").read_text()
    return folder


DYING = """
import os, signal, sys
from othello_nn.learn import distributed

group = distributed.join("cpu")
group.barrier()
if group.rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    for _ in range(10**6):
        group.any(True)
except distributed.RankError as error:
    print(error)
    distributed.leave()
    sys.exit(error.exit_code)
"""


def test_a_rank_that_is_killed_is_one_line_of_the_others(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    group = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "PYTHONPATH": str(ROOT)}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", DYING],
            env=os.environ | group | {"RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    said = [process.communicate(timeout=180)[0] for process in started]
    assert [process.returncode for process in started] == [1, -9]
    assert said[0].startswith("another rank has ended or cannot be reached; --resume goes on")
    assert said[0].count("\n") == 1


def test_a_state_is_saved_only_when_all_ranks_have_the_same(tmp_path):
    """A run that is killed goes on from such a state; rank 0's own tables between two merges are not the run's."""

    class Learner:
        steps, progress, games = 0, 0.0, 0
        synchronised = property(lambda self: self.steps % 4 == 0)

    config = load_preset("quick").changed(["measure.save_seconds=0.01"])
    trainer, saved = Trainer(Run(tmp_path, config), Learner(), Group(), 1), []
    trainer._started = time.monotonic()
    for _ in range(20):
        time.sleep(0.011)
        assert not trainer.done()
        trainer.learner.steps += 1
        if trainer.save_is_due:
            saved.append(trainer.learner.steps)
    assert saved == [4, 8, 12, 16, 20]


@pytest.mark.parametrize("name", LEARNERS)
def test_ranks_end_with_the_same_weights(ranks, name):
    found = [dict(np.load(ranks / f"{name}-{rank}.npz")) for rank in range(2)]
    losses = [arrays.pop("losses") for arrays in found]
    for key, array in found[0].items():
        assert np.array_equal(array, found[1][key]), key
    first = float_state(first_net(LEARNERS[name]))
    assert any(not np.array_equal(found[0][f"net.{key}"], array) for key, array in first.items())
    # Where gradients are added up so are errors; tables tell of the games of their own rank.
    assert np.array_equal(losses[0], losses[1]) == (name not in ("online", "sgd"))


@pytest.mark.parametrize(("name", "exact"), [("triangle", True), ("plain", True), ("tables", False)])
def test_two_ranks_learn_as_one_with_all_their_games(ranks, name, exact):
    """The batches of the first two steps are played with the first weights, so they are the same games. For temporal
    coherence a rank takes the other's rows to be as crowded as its own."""
    config, found = LEARNERS[name], dict(np.load(ranks / f"{name}-0.npz"))
    alone = TorchLearner(config.changed(["td.batch_games=16"]), first_net(config), Group(), 1, "cpu")
    losses = [alone.step()["loss/td_error"] for _ in range(2)]
    assert found["games"] == [32]
    assert found["losses"] == pytest.approx(losses, rel=1e-4 if exact else 1e-2)
    first = float_state(first_net(config))
    for key, array in float_state(alone.net()).items():
        assert found[f"net.{key}"] == pytest.approx(array, abs=1e-5 if exact else 0.1), key
    assert max(np.abs(array - first[key]).max() for key, array in float_state(alone.net()).items()) > 1e-3


@pytest.mark.parametrize("preset", PRESETS)
def test_two_ranks_that_were_stopped_and_resumed_end_in_the_same_net(ranks, preset):
    codes = [json.loads((ranks / f"codes-{rank}.json").read_text()) for rank in range(2)]
    place = 3 * list(PRESETS).index(preset)
    heard = [130 if rank == STOPS[preset][0] else 0 for rank in range(2)]
    assert [each[place : place + 3] for each in codes] == [[0, code, 0] for code in heard]
    for name in ("state", "net"):
        straight, stopped = (
            load_file(ranks / f"runs/{preset}-{run}/{name}.safetensors") for run in ("straight", "stopped")
        )
        assert straight.keys() == stopped.keys()
        for key, array in straight.items():
            assert array.tobytes() == stopped[key].tobytes(), f"{name} {key}"
        if name == "state":
            assert straight["world_size"] == [2]
            assert not np.array_equal(straight["pending.mover"], straight["rank1.pending.mover"])
            assert any(key.startswith("earlier.") for key in straight)
    nets = (ranks / f"runs/{preset}-{run}/net.safetensors" for run in ("straight", "stopped"))
    metrics = [read_meta(path)["info"]["metrics"] for path in nets]
    assert metrics[0] == metrics[1]
    assert "score/earlier" in metrics[0]


def test_another_number_of_ranks(ranks, monkeypatch, capfd):
    """One process goes on with the weights, and says that the games are others."""
    monkeypatch.chdir(ranks)
    monkeypatch.setattr(Logger, "pictures", lambda *arguments: None)
    before = load_file("runs/triangle-straight/state.safetensors")
    assert program.main(["--resume", "triangle-straight", "--games", "144", "--threads", "1"]) == 0
    said = capfd.readouterr().err
    assert "train.py: ranks of this run: 2 before, 1 now; it goes on from its weights, with other games\n" in said
    assert "from 128 games on" in said
    after = load_file("runs/triangle-straight/state.safetensors")
    assert after["games"] == [144]
    assert "world_size" not in after
    assert not [key for key in after if key.startswith("rank1.")]
    assert after["steps"] == before["steps"] + 2


@pytest.mark.parametrize("preset", PRESETS)
def test_two_ranks_that_pool_their_cores_end_in_the_net_of_one_process(ranks, monkeypatch, preset):
    place = 3 * len(PRESETS) + list(PRESETS).index(preset)
    assert [json.loads((ranks / f"codes-{rank}.json").read_text())[place] for rank in range(2)] == [0, 0]
    monkeypatch.chdir(ranks)
    monkeypatch.setattr(Logger, "pictures", lambda *arguments: None)
    assert program.main(words(preset, f"{preset}-alone", threads=2)) == 0
    for name in ("state", "net"):
        pooled, alone = (load_file(f"runs/{preset}-{run}/{name}.safetensors") for run in ("pooled", "alone"))
        assert pooled.keys() == alone.keys()
        for key, array in pooled.items():
            assert array.tobytes() == alone[key].tobytes(), f"{name} {key}"
    said = (ranks / "rank-0.txt").read_text()
    assert f"runs/{preset}-pooled: " in said
    assert said.count("on cpu, 2 threads (the cores of 2 ranks)\n") == len(PRESETS)


# --- whose cores -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "group", "threads"), [(None, Group(0, 4, 2), 4), (3, Group(0, 2, 2), 3), (None, Group(), 8)]
)
def test_ranks_share_the_cores_of_their_machine(monkeypatch, given, group, threads):
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert _cores(given, group) == threads


@pytest.mark.parametrize(
    ("machines", "expected"),
    [
        ([(1, 1)], [(0, 1, 1, 1)]),
        ([(2, 1)], [(0, 1, 1, 2), None]),
        ([(3, 1)], [(0, 1, 1, 3), None, None]),
        ([(2, 2)], [(0, 2, 2, 2), (1, 2, 2, 2)]),
        ([(1, 1), (1, 1)], [(0, 2, 1, 1), (1, 2, 1, 1)]),
        ([(4, 1), (2, 4)], [(0, 4, 2, 2), (1, 4, 2, 2), None, None, (2, 4, 2, 4), (3, 4, 2, 4)]),
    ],
)
def test_ranks_with_less_than_two_cores_pool_them(monkeypatch, machines, expected):
    """Machines with so many ranks of so many cores; of each rank its place in the new group and its cores."""
    size = sum(ranks for ranks, _ in machines)
    told, both = [False] * size, threading.Barrier(size)

    def all_gather(flags, flag):
        told[local.rank] = flag
        both.wait()
        flags[:] = told

    local = threading.local()
    monkeypatch.setattr(distributed.dist, "all_gather_object", all_gather)
    monkeypatch.setattr(distributed.dist, "new_group", lambda ranks: tuple(ranks))

    def pooled(rank: int, ranks: int, number: int, cores: int):
        local.rank = rank
        group, threads = pool_cores(Group(rank, size, ranks, number), cores)
        assert group.processes is None or group.processes[group.rank] == rank
        return (group.rank, group.size, group.local_size, threads) if threads else None

    places = [(ranks, number, cores) for ranks, cores in machines for number in range(ranks)]
    with ThreadPoolExecutor(size) as pool:
        assert list(pool.map(lambda rank: pooled(rank, *places[rank]), range(size))) == expected


@pytest.mark.parametrize(
    ("config", "device", "pools"),
    [
        (load_preset("quick"), "cpu", True),
        (load_preset("triangle"), "cpu", True),
        (load_preset("triangle"), "cuda", False),
        (load_preset("backwards"), "cpu", False),
        (load_preset("quick").changed(net={"kind": "dense"}), "cpu", False),
    ],
)
def test_cores_are_pooled_where_threads_play(config, device, pools):
    assert plays_in_threads(config, device) == pools
