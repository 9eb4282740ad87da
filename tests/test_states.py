"""Training states: whatever is in a file, compiled code reads only what it can read, and one flipped bit is noticed."""

import random
import resource
from pathlib import Path

import numpy as np
import pytest
import test_backwards
import test_embedding
import test_evolve
import test_leouski
import test_policy
import test_searched
import test_td
import test_train
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from othello_nn.learn.learner import Learner

# The fixtures of `train.py` in an empty folder.
train_and_draw, train, mistake = test_train.train_and_draw, test_train.train, test_train.mistake
ROWS = 60


def searched() -> Learner:
    return test_searched.made(Path())


def torch_learner() -> Learner:
    return test_td.learner_of(test_td.triangle())


def online() -> Learner:
    return test_td.learner_of(test_td.online("td.exact_empties=4", "td.targets=minimax", "td.replay=1"))


MADE = {
    "online": online,
    "torch": torch_learner,
    "embedding": test_embedding.learner_of,
    "backwards": test_backwards.learner,
    "leouski": lambda: test_leouski.learner(games_per_step=1),
    "evolve": lambda: test_evolve.learner(),
    "policy": lambda: test_policy.learner(),
    "searched": searched,
}
STATES: dict[str, dict[str, np.ndarray]] = {}


def state_of(name: str) -> dict[str, np.ndarray]:
    """A copy of the state of a learner that has made a step, or half a stage."""
    if name not in STATES:
        learner = MADE[name]()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(test_backwards.backwards, "SLAB", 128)
            if name != "searched":
                learner.step()
        STATES[name] = learner.state()
    return {key: np.array(array) for key, array in STATES[name].items()}


@pytest.mark.parametrize("name", MADE)
def test_a_state_as_it_was_is_restored(name):
    MADE[name]().restore(state_of(name))


def with_value(array: np.ndarray, value: float) -> np.ndarray:
    """The array with its last number changed."""
    changed = array.copy()
    changed.reshape(-1)[-1] = value
    return changed


def refusal(name: str, **changes) -> str:
    state = state_of(name)
    for key, change in changes.items():
        assert key in state, f"{name} has no {key}, but {', '.join(state)}"
        state[key] = change(state[key])
    with pytest.raises(ValueError) as refused:  # noqa: PT011 (each says what it is about)
        MADE[name]().restore(state)
    said = str(refused.value)
    assert "\n" not in said
    assert any(key.rpartition(".")[2] in said for key in changes), said
    return said


def shorter(array):
    return array[:-1]


def empty(array):
    return array[:0]


def number(value):
    return lambda array: with_value(array, value)


PENDING = {
    "longer than its rows": ("length", number(ROWS + 1)),
    "a length below 0": ("length", number(-1)),
    "a huge length": ("length", number(2**62)),
    "no such sign": ("sign", number(2)),
    "no such margin": ("margin", number(65)),
    "both on one square": ("mover", lambda mover: mover | -1),
    "fewer games": ("length", shorter),
    "a truth value of 2": ("explored", lambda array: with_value(array.view(np.uint8), 2).view(bool)),
}


@pytest.mark.parametrize("case", PENDING)
@pytest.mark.parametrize("name", ["online", "torch", "embedding"])
def test_pending_games(name, case):
    field, change = PENDING[case]
    refusal(name, **{f"pending.{field}": change})


@pytest.mark.parametrize("kind", ["pending", "kept"])
def test_games_are_no_longer_than_they_can_be(kind):
    fields = [key for key in state_of("online") if key.startswith(f"{kind}.")]
    by_game = {f"{kind}.length", f"{kind}.margin"}
    longer = {key: (lambda array: np.concatenate([array, array[:1]])) for key in fields if key not in by_game}
    assert "rows" in refusal_of_all("online", longer)


def refusal_of_all(name: str, changes) -> str:
    state = state_of(name)
    with pytest.raises(ValueError) as refused:  # noqa: PT011 (looked at by the caller)
        MADE[name]().restore(state | {key: change(state[key]) for key, change in changes.items()})
    return str(refused.value)


@pytest.mark.parametrize("hint", ["searched", "exact"])
@pytest.mark.parametrize(
    "change",
    [shorter, lambda array: array.T, lambda array: array.astype(np.float64), number(np.inf), number(1e30)],
    ids=["shorter", "turned", "of another type", "infinite", "too large"],
)
def test_hints(hint, change):
    refusal("online", **{f"pending.{hint}": change})
    refusal("online", **{f"kept.{hint}": change})


@pytest.mark.parametrize("name", ["online", "torch", "embedding", "leouski", "evolve", "policy"])
@pytest.mark.parametrize(
    "change",
    [empty, number(-1), number(2**62), lambda array: array.astype(np.float64), lambda array: array[None]],
    ids=["empty", "negative", "huge", "of another type", "of another shape"],
)
def test_counts(name, change):
    refusal(name, games=change)
    if name in ("online", "torch", "embedding", "policy"):
        refusal(name, steps=change)
    if name == "evolve":
        refusal(name, generation=change)


def test_more_steps_than_games():
    assert "steps" in refusal("online", steps=number(9), games=number(8))


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("online", "weights"),
        ("online", "magnitudes"),
        ("torch", "net.nets.0.weights"),
        ("torch", "optimiser.0.exp_avg"),
        ("embedding", "net.weight"),
        ("embedding", "cells.sums"),
        ("embedding", "head.second"),
        ("backwards", "weights"),
        ("backwards", "labels"),
        ("leouski", "black.weights"),
        ("evolve", "population"),
        ("policy", "weights"),
        ("policy", "fisher"),
        ("policy", "critic"),
        ("searched", "net.weights"),
        ("searched", "net.heads"),
    ],
)
def test_numbers_of_other_kinds(name, key):
    refusal(name, **{key: shorter})
    refusal(name, **{key: lambda array: array.astype(np.int16)})
    refusal(name, **{key: number(np.nan)})


def test_positions_of_a_stage():
    refusal("backwards", counts=lambda array: array[:1])
    refusal("backwards", counts=lambda array: array * 0 + [0, 9])
    refusal("backwards", counts=lambda array: array * 0 + [2**40, 0])
    refusal("backwards", counts=lambda array: array * 0 - 1)
    assert "has the shape" in refusal_of_all("backwards", {"movers": shorter})
    refusal("backwards", movers=lambda movers: movers.astype(np.int64))
    refusal("backwards", opponents=lambda opponents: opponents | np.uint64(2**64 - 1))
    refusal("backwards", labels=number(65))


@pytest.mark.parametrize(
    "where", [[0, 0, 0, 0], [3, 0, 0, 0, 0], [0, 2, 0, 0, 0], [0, 1, -1, 0, 0], [0, 1, 2**62, 5, 0], [0, 0, 0, 0, -1]]
)
def test_where_searched_games_are(where):
    refusal("searched", where=lambda _: np.array(where))


def test_what_was_fitted_to_a_net_of_searched_games():
    state = state_of("searched")
    for name, shape in (("probcut", 5), ("calibration", (8, 4))):
        with pytest.raises(ValueError, match="needs"):
            searched().restore(state | {name: np.zeros(shape, np.float32)})


# --- the file --------------------------------------------------------------------------------------------------------

RESUME = ("--resume", "mine", "--threads", "1")
STATE = Path("runs/mine/state.safetensors")


def test_one_flipped_bit_is_refused(train, mistake):
    train(*test_train.words("tables", "--games", "16", "--run", "mine"))
    whole = STATE.read_bytes()
    rng = random.Random(1)
    header = int.from_bytes(whole[:8], "little") + 8
    places = [*rng.sample(range(8, header), 8), *rng.sample(range(header, len(whole)), 8), 0]
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << rng.randrange(8)
        STATE.write_bytes(damaged)
        assert "state.safetensors: " in mistake(*RESUME)
    damaged = bytearray(whole)
    damaged[-1] ^= 1
    STATE.write_bytes(damaged)
    assert mistake(*RESUME).endswith("state.safetensors: damaged: its checksum is not that of what it holds")
    STATE.write_bytes(whole)
    assert train(*RESUME)[0] == 0


def test_a_state_without_a_checksum_is_older_and_resumed(train):
    train(*test_train.words("tables", "--games", "16", "--run", "mine"))
    with safe_open(STATE, framework="numpy") as file:
        meta = file.metadata()
    assert set(meta) == {"format", "config", "crc32"}
    save_file(load_file(STATE), STATE, {"format": meta["format"], "config": meta["config"]})
    assert train(*RESUME, "--games", "32")[0] == 0


def test_a_game_longer_than_its_rows_ends_in_one_line(train, mistake):
    """It once made compiled code write where it should not, and the process died."""
    train(*test_train.words("tables", "--games", "16", "--run", "mine"))
    arrays = load_file(STATE)
    arrays["pending.length"][:] = 5000
    save_file(arrays, STATE, {"format": "othello_nn.state/1"})
    said = mistake(*RESUME, "--games", "64", code=1)
    assert "does not fit this run (a trajectory's length must be from 0 to 60 rows" in said


@pytest.mark.parametrize(
    ("name", "array", "said"),
    [
        ("games", np.zeros(0, np.int64), "games must be 1 whole numbers"),
        ("steps", np.array([2**62]), "steps must be 1 whole numbers"),
        ("earlier.x.weight", np.zeros(3, np.float32), "earlier.x.weight"),
    ],
)
def test_counts_end_in_one_line(name, array, said, train, mistake):
    train(*test_train.words("tables", "--games", "16", "--run", "mine"))
    save_file(load_file(STATE) | {name: array}, STATE, {"format": "othello_nn.state/1"})
    assert said in mistake(*RESUME, code=1)


# --- saving ----------------------------------------------------------------------------------------------------------


def test_what_a_killed_process_left_is_removed(train):
    train(*test_train.words("tables", "--games", "16", "--run", "mine"))
    left = [STATE.with_name(f".{name}.safetensors.k1ll3d.tmp") for name in ("state", "net")]
    for path in left:
        path.write_bytes(b"half of it")
    (other := STATE.with_name(".notes.tmp")).write_text("somebody else's")
    assert train(*RESUME, "--games", "32")[0] == 0
    assert not any(path.exists() for path in left)
    assert other.exists()


def test_a_net_that_fits_is_saved_where_its_state_does_not(train):
    """The system itself refuses to let a file grow beyond what the net takes, which is less than the state."""
    train(*test_train.words("tables", "--games", "16", "--run", "mine"))
    state, net = STATE, STATE.with_name("net.safetensors")
    before = {path: path.read_bytes() for path in (state, net)}
    assert len(before[net]) + 2000 < len(before[state])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before[net]) + 1000, hard))
    try:
        code, _, err = train(*RESUME, "--games", "64")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert code == 1
    assert "runs/mine/state.safetensors could not be saved: File too large; training goes on" in err
    assert state.read_bytes() == before[state]
    assert net.read_bytes() != before[net]
    assert not list(STATE.parent.glob(".*.tmp"))
