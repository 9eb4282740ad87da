"""A small part of `benchmarks/run.py faults`, the same every time; and that the bench notices what is wrong."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.faults import checked, chosen, guided, plan, protocols, solver, stored, texts
from benchmarks.faults.trials import Tally
from benchmarks.harness import BenchmarkError

ROOT = Path(__file__).resolve().parent.parent
INPUTS = int(os.environ.get("OTHELLO_EXAMPLES", 150))
KINDS = texts.KINDS | protocols.KINDS | {"solver": solver.solver, "nets, damaged": stored.damaged_nets}


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_inputs(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trial, tally = KINDS[kind](), Tally(kind)
    for number in range(INPUTS):
        tally.add(number, lambda number=number: trial(random.Random(f"test {kind} {number}")))
    assert tally.wrong == []
    assert tally.tried == INPUTS == tally.refused + tally.accepted
    assert tally.accepted > 0, "nothing is tested where nothing gets through"
    assert tally.refused > 0 or kind == "solver"


NOTICED = """
import ctypes, json, os, signal, time
from benchmarks.faults import trials
from benchmarks.faults.trials import Wrong, try_many
from othello_nn.errors import OthelloError

trials.HANG_SECONDS = 1.0

def make():
    def trial(rng):
        match rng.choice(range(10)):
            case 0: ctypes.string_at(8)
            case 1: os._exit(3)
            case 2: time.sleep(100)
            case 3: raise Wrong("another")
            case 4: return [][1]
            case 5: raise OthelloError("two\\nlines")
            case 6: return len("x" * 10**11) > 0
            case 7: raise OthelloError("one line")
        return True
    return trial

found = try_many("bad", make, 40, 5, patience=1.0)
print(json.dumps([found.tried, found.refused, found.accepted, found.wrong]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="trials run in copies of a process")
def test_every_kind_of_harm_is_counted():
    done = subprocess.run([sys.executable, "-c", NOTICED], cwd=ROOT, capture_output=True, text=True, check=True)
    tried, refused, accepted, wrong = json.loads(done.stdout)
    assert tried == 40
    words = ("signal 11", "exit code 3", "hangs", "Wrong", "IndexError", "not one clear line", "MemoryError")
    counts = {word: sum(word in line for line in wrong) for word in words}
    assert min(counts.values()) > 0, counts
    assert sum(counts.values()) == len(wrong)
    assert refused > counts["not one clear line"]
    assert accepted > 0
    assert tried == accepted + refused + len(wrong) - counts["not one clear line"]


def test_kinds_are_chosen_by_a_part_of_their_name():
    found = [(row, f"{row}, {kind}", lambda: Tally("none")) for row, kind, *_ in plan(1000)]
    assert [part[0] for part in chosen(found, ["Full Disk"])] == ["full disk, training", "full disk, tournament"]
    assert chosen(found, []) == found
    assert {part[0] for part in chosen(found, ["GGF", "solver"])} == {"GGF", "solver against negamax"}
    with pytest.raises(BenchmarkError, match="no kind of fault is called 'jornals'; did you mean 'journals'"):
        chosen(found, ["GGF", "jornals"])


def test_a_long_run_is_long_enough():
    rows: dict[str, int] = {}
    for row, _, _, count, _ in plan(1_000_000):
        rows[row] = rows.get(row, 0) + count
    assert sum(rows.values()) >= 1_000_000
    assert rows["solver against negamax"] >= 50_000
    assert rows["kill -9 of training"] + rows["kill -9 of training in two ranks"] >= 100


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="trials run in copies of a process")
@pytest.mark.parametrize("kind", checked.KINDS)
def test_forged_files_in_kernels_that_look_where_they_write(kind):
    found = checked.try_checked(kind, 20, 1)
    assert found.wrong == []
    assert found.tried == 20


# --- guided by coverage ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", guided.READERS)
def test_what_a_fuzzer_found_is_read_or_refused(kind, tmp_path, monkeypatch):
    """The corpus, without the fuzzer: each input once led through code that no other had reached."""
    monkeypatch.chdir(tmp_path)
    reader, tally = guided.READERS[kind](), Tally(kind)
    corpus = guided.corpus_of(kind)
    for number, data in enumerate([*reader.samples, *corpus]):
        tally.add(number, lambda data=data: bool(reader.read(data) or True))
    assert tally.wrong == []
    assert len(corpus) >= 5
    assert tally.accepted > 0
    assert tally.refused > 0


BAD_READER = """
def read(data):
    if data[:1] == b"a":
        if data[1:2] == b"b":
            if data[2:3] == b"c":
                return [][1]
"""
BAD_PROGRAM = """
import json, sys
import bad_reader
from benchmarks.faults import guided
from benchmarks.faults.texts import Reader

guided.READERS["bad"] = lambda: Reader([b"x"], [b"y"], bad_reader.read)
guided.CODE, guided.PROGRAM = ("bad_reader",), "bad_program"
if sys.argv[1:]:
    guided.main()
else:
    found = guided.try_guided("bad", 100_000)
    print(json.dumps([found.tried, found.wrong]))
"""


@pytest.mark.skipif(not guided.is_there(), reason="atheris is an extra")
def test_the_fuzzer_finds_its_way_to_what_is_wrong(tmp_path):
    """Three letters that are looked at one after the other: by chance, one input in 16 million."""
    (tmp_path / "bad_reader.py").write_text(BAD_READER)
    (tmp_path / "bad_program.py").write_text(BAD_PROGRAM)
    places = os.pathsep.join(filter(None, (str(ROOT), str(tmp_path), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, str(tmp_path / "bad_program.py")]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": places}, capture_output=True, text=True, check=True)
    tried, wrong = json.loads(done.stdout)
    assert 0 < tried < 100_000
    assert len(wrong) == 1
    assert "IndexError" in wrong[0]
    assert "b'abc" in wrong[0]
