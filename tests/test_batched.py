"""Search with a net that is asked in batches: the values of plain minimax, the limits, the queue, and what can fail."""

import random
import threading
import time
from collections import Counter
from functools import cache

import numpy as np
import pytest
import torch
from patience import HANG_SECONDS
from strategies import endings, scattered

from othello_nn.arena.match import play_match
from othello_nn.arena.openings import make_openings
from othello_nn.engine import Engine, Limit, Options, search
from othello_nn.engine.driver import MAX_DEPTH
from othello_nn.engine.leaf import known
from othello_nn.engine.leaf.batched import BatchedEvaluator, LeafError
from othello_nn.engine.leaf.batcher import Batcher
from othello_nn.engine.leaf.door import score_all
from othello_nn.engine.leaf.mobility import Mobility
from othello_nn.engine.score import SCORE_DISC
from othello_nn.engine.workspace import EVERYTHING, STABILITY_CUTS, TABLE_CUTS, TABLE_MOVE
from othello_nn.game import PASS, Position
from othello_nn.nets import Doubled, NTupleNet, Staged, batched_evaluator, export
from othello_nn.nets.base import NetError
from othello_nn.nets.device import choose_device
from othello_nn.players import PlayerError, make_player
from othello_nn.players.searching import table_evaluator

DRIVERS = ["negascout", "alphabeta", "mtdf"]
SEEN: Counter[str] = Counter()
"""What the oracle has met."""
ENDS = [
    (18374686204784246780, 274887344128),
    (9178336030850217983, 36028797018966016),
    (18428729567286894587, 38654705664),
    (16059818266691238910, 2377900878129528833),
    (8870956020164034559, 342273571680157696),
    (14987979280179265527, 2305843009213693960),
    (14987834406770569214, 134217729),
    (18444198979168631807, 290271069732864),
]
"""Boards where a move can end the game with discs of both sides and empty squares, which is rare."""
MIDGAME = Position.parse("e6f4d3c4c3d6f6c6f5g5f3e7f7g6e8g3")


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """On a busy machine the threads of a small call wait for each other many times as long as it takes."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def randomised(net, seed: int = 0):
    """Weights with which values differ by discs."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.normal_(0, 0.7, generator=generator)
    return net


@cache
def small_net():
    """Too wide to be compiled."""
    return randomised(NTupleNet(tuples="rows", dim=32, hidden=4))


@cache
def coloured_net():
    """Says something else for each colour to move, and is no net that compiles."""
    return randomised(Staged(Doubled(NTupleNet(tuples="all-2")), centres=(20.0, 50.0)), 1)


NETS = {"embedding": small_net, "coloured": coloured_net}


class Judge:
    """A net that remembers its values, so that they do not depend on the batch by a bit."""

    def __init__(self, net):
        self.net, self.known = batched_evaluator(net), {}

    def __call__(self, movers, opponents, blacks):
        keys = list(zip(movers.tolist(), opponents.tolist(), blacks.tolist(), strict=True))
        new = [i for i, key in enumerate(keys) if key not in self.known]
        if new:
            values = self.net.discs(movers[new], opponents[new], blacks[new])
            self.known |= {keys[i]: value for i, value in zip(new, values, strict=True)}
        return np.array([self.known[key] for key in keys], np.float32)


@cache
def judge_of(name: str) -> Judge:
    return Judge(NETS[name]())


def evaluator(name: str, batch: int = 64) -> BatchedEvaluator:
    return BatchedEvaluator(name, judge_of(name), batch)


def leaf_values(name: str, positions: tuple[Position, ...]) -> list[int]:
    boards = [(p.mover, p.opponent, 0 if p.black_to_move else 2**64 - 1) for p in positions]
    return evaluator(name).scores(np.array(boards, np.uint64)).tolist()


@cache
def minimax(name: str, position: Position, depth: int) -> int:
    """Plain, in plain Python: a pass costs no depth, a game that is over is scored by its discs."""
    if position.is_over:
        SEEN["finished" if position.mover else "wiped out"] += 1
        return position.final_score() * SCORE_DISC
    if depth == 0:
        return leaf_values(name, (position,))[0]
    if position.must_pass:
        SEEN["pass"] += 1
        return -minimax(name, position.play(PASS), depth)
    after = tuple(position.play(move) for move in position.legal_moves)
    if depth == 1:
        leaf_values(name, after)  # all at once
    return max(-minimax(name, p, depth - 1) for p in after)


def sample(seed: int, count: int, fewest: int, most: int) -> list[Position]:
    """Positions of random games and of boards filled at random, both colours to move."""
    rng = random.Random(seed)
    pairs = rng.sample(endings(seed, 4, fewest, most), count) + scattered(seed, 3 * count, fewest, 12)
    found = [Position(*pair, black_to_move=rng.random() < 0.5) for pair in pairs if all(pair)]
    return [position for position in found if not position.is_over and position.legal_mask]


SAMPLE = sample(7, 12, 3, 50) + [Position(*pair) for pair in ENDS]


def check(name: str, position: Position, depth: int, engine: Engine) -> None:
    engine.clear()
    result = engine.search(position, Limit(depth=depth))
    assert (result.depth, result.exact) == (depth, False)
    assert result.score * SCORE_DISC == minimax(name, position, depth)
    assert -minimax(name, position.play(result.move), depth - 1) == minimax(name, position, depth)
    assert result.pv[0] == result.move
    position.replay(result.pv)


# --- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("switches", [EVERYTHING, EVERYTHING & ~(TABLE_CUTS | TABLE_MOVE)], ids=["table", "no table"])
def test_equals_minimax(name, driver, switches):
    engine = Engine(evaluator(name), Options(search=driver, table_mb=0.1, switches=switches))
    for position in SAMPLE:
        for depth in range(1, min(5, position.empties)):
            if len(position.legal_moves) ** depth < 1500:
                check(name, position, depth, engine)
    assert min(SEEN[event] for event in ("finished", "wiped out", "pass")) >= 4


@pytest.mark.parametrize("batch", [1, 7, 4096])
@pytest.mark.parametrize("threads", [1, 3])
def test_equals_minimax_whatever_the_batch(batch, threads):
    engine = Engine(evaluator("coloured", batch), Options(threads=threads, table_mb=0.1))
    for position in sample(8, 3, 8, 40):
        check("coloured", position, 2, engine)
    check("coloured", MIDGAME, 3, engine)


def test_the_table_is_kept_between_searches():
    engine = Engine(evaluator("embedding"), Options(table_mb=1))
    first = engine.search(MIDGAME, Limit(depth=4))
    calls = engine.evaluator.batcher.calls
    again = engine.search(MIDGAME, Limit(depth=4))
    assert (again.score, again.move) == (first.score, first.move)
    assert engine.evaluator.batcher.calls == calls  # nothing had to be asked
    engine.clear()
    assert engine.search(MIDGAME, Limit(depth=4)).nodes == first.nodes  # as if it were the first
    assert engine.evaluator.batcher.calls == 2 * calls


def test_the_protocol_gives_a_compiled_net_the_same_values():
    compiled = Mobility()

    def discs(movers, opponents, blacks):
        scores = np.empty(len(movers), np.int64)
        score_all(compiled, 0, movers, opponents, scores)
        return scores / SCORE_DISC

    batched = BatchedEvaluator("mobility", discs, 100)
    # Stable discs bound the true score, which an evaluator's value may exceed.
    options = Options(table_mb=1, probcut=False, switches=EVERYTHING & ~STABILITY_CUTS)
    for pair in endings(3, 1, 20, 50)[::4]:
        position = Position(*pair)
        for depth in (1, 2, 3, 4):
            one, other = (Engine(each, options).search(position, Limit(depth=depth)) for each in (compiled, batched))
            assert (other.score, other.depth) == (one.score, one.depth)


def test_scores_are_cut_and_rounded_as_a_leaf_is():
    values = np.array([100, -100, 0.126, 62.001, -61.9999], np.float32)
    batched = BatchedEvaluator("fixed", lambda movers, opponents, blacks: values)
    assert batched.scores(np.zeros((5, 3), np.uint64)).tolist() == [7936, -7936, 16, 7936, -7936]


def test_the_end_is_solved_without_the_net():
    def fails(*_):
        raise AssertionError

    engine = Engine(BatchedEvaluator("none", fails), Options(table_mb=1))
    for pair in endings(4, 2, 8, 9):
        position = Position(*pair)
        exact = Engine(options=Options(table_mb=1)).solve(position)
        for found in (engine.solve(position), engine.search(position, Limit(seconds=HANG_SECONDS))):
            assert (found.score, found.exact) == (exact.score, True)
        assert engine.solve(position, wld=True).score == np.sign(exact.score)


# --- limits ----------------------------------------------------------------------------------------------------------


def slow(seconds: float):
    """A net that takes so long for a position."""
    inner = judge_of("embedding")

    def discs(movers, opponents, blacks):
        time.sleep(seconds * len(movers))
        return inner(movers, opponents, blacks)

    return discs


@pytest.mark.parametrize("threads", [1, 2])
def test_nodes(threads):
    for nodes in (1, 30, 400, 3000):
        engine = Engine(evaluator("embedding"), Options(threads=threads, table_mb=1))
        result = engine.search(MIDGAME, Limit(nodes=nodes))
        assert result.move in MIDGAME.legal_moves
        assert nodes // 2 < result.nodes <= 1.3 * nodes + 20


@pytest.mark.parametrize("threads", [1, 2])
def test_seconds(threads):
    engine = Engine(BatchedEvaluator("slow", slow(0.0002), 4096), Options(threads=threads, table_mb=1))
    engine.search(MIDGAME, Limit(depth=1))  # now its speed is known
    begun = time.perf_counter()
    result = engine.search(MIDGAME, Limit(seconds=0.4))
    taken = time.perf_counter() - begun
    assert result.depth >= 1
    assert 0.4 <= taken < HANG_SECONDS / 2
    assert engine.evaluator.batcher.most_within(0.02) < 400  # a call of 4096 would have taken twice the time there is


def test_stop_from_another_thread():
    engine = Engine(BatchedEvaluator("slow", slow(0.001), 16), Options(threads=2, table_mb=1))
    threading.Timer(0.2, engine.stop).start()
    result = engine.search(MIDGAME, Limit(depth=MAX_DEPTH))
    assert result.move in MIDGAME.legal_moves
    assert 1 <= result.depth < 10


def test_iterations_are_reported_and_can_end_the_search():
    engine, reported = Engine(evaluator("embedding"), Options(table_mb=1)), []

    def listen(result):
        reported.append((result.depth, result.score))
        return result.depth < 3

    result = engine.search(MIDGAME, Limit(depth=9), on_iteration=listen)
    assert [depth for depth, _ in reported] == [1, 2, 3]
    assert reported[-1] == (result.depth, result.score)
    assert [score * SCORE_DISC for _, score in reported] == [minimax("embedding", MIDGAME, d) for d in (1, 2, 3)]


def test_a_memory_that_is_full_ends_the_search():
    engine = Engine(evaluator("embedding", 16), Options(table_mb=0.01))
    engine._batched.leaves.most_entries = 1 << 14
    result = engine.search(MIDGAME, Limit(depth=12))
    assert 3 <= result.depth < 12
    assert 0.6 * 2**14 < engine._batched.leaves[known.USED] <= 0.75 * 2**14


def test_the_memory_grows_and_keeps_its_values():
    leaves, rng = known.KnownLeaves(), np.random.default_rng(1)
    boards = rng.integers(1, 2**63, (40_000, 3), np.uint64)
    boards[:, 1] &= ~boards[:, 0]
    boards[:, 2] = np.where(boards[:, 2] & 1, known.WHITE, known.BLACK)
    for part in np.array_split(boards, 40):
        queue = np.zeros_like(part)
        assert leaves.open_queue(queue, len(part)) == len(part)
        for board in (*part, *part):  # the second time each is there already
            known.want_value(leaves.address, *board)
        assert leaves[known.QUEUED] == len(part)
        assert not leaves[known.FULL]
        assert (queue == part).all()
        assert known.known_value(leaves.address, *part[0]) == known.PENDING
        leaves.store(queue, (part[:, 0] % 8000).astype(np.int64))
    assert leaves[known.MASK] + 1 > known.FIRST_ENTRIES
    for mover, opponent, colour in boards[::7]:
        assert known.known_value(leaves.address, mover, opponent, colour) == mover % 8000
        assert known.known_value(leaves.address, mover, opponent, ~colour) == known.UNKNOWN
    leaves.clear()
    assert known.known_value(leaves.address, *boards[0]) == known.UNKNOWN


# --- the queue before the net ----------------------------------------------------------------------------------------


def asked_by(batcher: Batcher, count: int, stopped=lambda: False, size: int = 3):
    """So many threads, each asking for its own positions; their answers in order."""
    answers: list = [None] * count

    def ask(i):
        try:
            answers[i] = batcher.ask(np.full((size, 3), i, np.uint64), batcher.batch, stopped)
        except Exception as error:
            answers[i] = error

    threads = [threading.Thread(target=ask, args=(i,), daemon=True) for i in range(count)]
    for thread in threads:
        thread.start()
    return threads, answers


def joined(threads) -> None:
    for thread in threads:
        thread.join(HANG_SECONDS)
        assert not thread.is_alive()


class Gate:
    """A net that waits until it is let through, and notes how large its calls were."""

    def __init__(self, fails: bool = False):
        self.open, self.entered, self.sizes, self.fails = threading.Event(), threading.Event(), [], fails

    def __call__(self, positions):
        self.sizes.append(len(positions))
        self.entered.set()
        assert self.open.wait(HANG_SECONDS)
        if self.fails:
            raise LeafError("broken")
        return positions[:, 0].astype(np.int64)


def waiting(batcher: Batcher, count: int) -> None:
    deadline = time.monotonic() + HANG_SECONDS
    while len(batcher._waiting) < count and time.monotonic() < deadline:
        time.sleep(0.001)
    assert len(batcher._waiting) == count


def test_what_is_asked_meanwhile_becomes_one_call():
    gate = Gate()
    batcher = Batcher(gate, 24)
    first, early = asked_by(batcher, 1)
    assert gate.entered.wait(HANG_SECONDS)
    others, answers = asked_by(batcher, 10)
    waiting(batcher, 10)
    gate.open.set()
    joined(first + others)
    assert sorted(gate.sizes) == [3, 6, 24]  # no call is larger than the batch
    assert early[0].tolist() == [0, 0, 0]
    assert [answer.tolist() for answer in answers] == [[i] * 3 for i in range(10)]
    assert (batcher.calls, batcher.positions) == (3, 33)


def test_a_call_stays_as_small_as_those_in_it_want():
    gate = Gate()
    batcher = Batcher(gate, 100)
    first, _ = asked_by(batcher, 1)
    assert gate.entered.wait(HANG_SECONDS)
    others, _ = asked_by(batcher, 2)
    waiting(batcher, 2)
    thread = threading.Thread(target=batcher.ask, args=(np.zeros((2, 3), np.uint64), 4, lambda: False))
    thread.start()
    waiting(batcher, 3)
    gate.open.set()
    joined([*first, *others, thread])
    assert sorted(gate.sizes) == [2, 3, 6]


def test_who_is_stopped_does_not_wait():
    gate, stopped = Gate(), threading.Event()
    batcher = Batcher(gate, 8)
    first, _ = asked_by(batcher, 1)
    assert gate.entered.wait(HANG_SECONDS)
    others, answers = asked_by(batcher, 3, stopped.is_set)
    waiting(batcher, 3)
    stopped.set()
    batcher.wake()
    joined(others)  # though the net has not answered
    assert answers == [None] * 3
    gate.open.set()
    joined(first)
    assert gate.sizes == [3]


def test_a_failing_net_leaves_nobody_waiting():
    gate = Gate(fails=True)
    batcher = Batcher(gate, 100)
    first, early = asked_by(batcher, 1)
    assert gate.entered.wait(HANG_SECONDS)
    others, answers = asked_by(batcher, 4)
    waiting(batcher, 4)
    gate.open.set()
    joined(first + others)
    assert all(isinstance(answer, LeafError) for answer in early + answers)
    gate.fails = False
    again, answers = asked_by(batcher, 2)
    joined(again)
    assert [answer.tolist() for answer in answers] == [[0] * 3, [1] * 3]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda m: 1 / 0, "the net bad failed: ZeroDivisionError: division by zero"),
        (lambda m: np.full(len(m), np.nan, np.float32), "the net bad gave a value that is not a finite number"),
        (lambda m: np.zeros(len(m) + 1, np.float32), r"the net bad gave \[\d+\] values for \d+ positions"),
    ],
)
def test_a_failing_net_ends_the_search(threads, answer, message):
    calls = []

    def discs(movers, opponents, blacks):
        calls.append(len(movers))
        return answer(movers) if len(calls) > 2 else judge_of("embedding")(movers, opponents, blacks)

    engine = Engine(BatchedEvaluator("bad", discs, 32), Options(threads=threads, table_mb=1))
    with pytest.raises(LeafError, match=message):
        engine.search(MIDGAME, Limit(depth=4))
    answer = lambda m: judge_of("embedding")(m, m, m == m)  # noqa: E731 (from now on it can be used again)
    assert engine.search(MIDGAME, Limit(depth=1)).depth == 1


def test_engines_share_the_calls_of_a_net():
    shared = BatchedEvaluator("slow", slow(0.0001), 4096)
    alone = Engine(shared, Options(table_mb=1)).search(MIDGAME, Limit(depth=3))
    calls = shared.batcher.calls
    results = []
    threads = [
        threading.Thread(
            target=lambda: results.append(Engine(shared, Options(table_mb=1)).search(MIDGAME, Limit(depth=3)))
        )
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    joined(threads)
    assert [(one.score, one.nodes) for one in results] == [(alone.score, alone.nodes)] * 6
    assert shared.batcher.calls - calls < 4 * calls  # and not six times as many


# --- nets and players ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    path = tmp_path_factory.mktemp("net") / "wide.safetensors"
    export(small_net(), {"by": "a test"}).save(path)
    return path


def test_a_net_is_evaluated_as_it_was_and_stays_as_it_is():
    net = NTupleNet(tuples="all-2", dim=32).train()
    randomised(net)
    batched = batched_evaluator(net, batch=5)
    boards = np.array(endings(1, 1, 10, 40), np.uint64)
    blacks = np.ones(len(boards), bool)
    with torch.no_grad():
        wanted = net.discs(*(torch.from_numpy(side.copy().view(np.int64)) for side in boards.T)).numpy()
    assert net.training
    assert all(parameter.requires_grad for parameter in net.parameters())
    randomised(net, 5)  # the search goes on with the net that it was given
    found = batched.discs(*boards.T, blacks)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, atol=1e-4)
    assert batched.discs(*boards[:0].T, blacks[:0]).shape == (0,)


def test_a_net_given_to_an_engine():
    compiled = Engine(randomised(NTupleNet(tuples="all-2")))
    assert not isinstance(compiled.evaluator, BatchedEvaluator)
    for net in NETS.values():
        assert isinstance(Engine(net()).evaluator, BatchedEvaluator)
    doubled = Engine(Doubled(NTupleNet(tuples="all-2")))  # compiled, it would be two evaluators
    assert isinstance(doubled.evaluator, BatchedEvaluator)
    assert search(MIDGAME, small_net(), Limit(depth=2)).depth == 2


def test_a_player_with_a_net_that_does_not_compile(checkpoint):
    player = make_player(f"{checkpoint}:depth=2,batch=32,device=cpu,threads=2")
    assert isinstance(player.evaluator, BatchedEvaluator)
    assert (player.evaluator.name, player.evaluator.batch) == ("wide", 32)
    assert player.evaluator.info == {"by": "a test"}
    choice = player.choose(MIDGAME)
    assert choice.depth == 2
    assert choice.score * SCORE_DISC == pytest.approx(minimax("embedding", MIDGAME, 2), abs=1)
    assert make_player(f"{checkpoint}:depth=1").evaluator.batch == 256
    again = table_evaluator(checkpoint, "cpu", 32)
    assert again is player.evaluator  # so that all players with it share its calls


def test_a_player_with_a_net_at_hand():
    assert make_player("mine:depth=2", net=small_net()).choose(MIDGAME).depth == 2
    player = make_player("mine:batch=8", net=small_net())
    assert (player.evaluator.batch, player.limit.seconds) == (8, 0.1)
    with pytest.raises(PlayerError, match="mine is not evaluated in batches; leave out batch="):
        make_player("mine:batch=8", net=NTupleNet(tuples="all-2"))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("champion:device=cpu", "champion is compiled for the CPU and asked for one position at a time; leave out dev"),
        ("champion:batch=8", "leave out batch="),
        ("swh:device=cpu", "swh has no key 'device'"),
        ("mobility:batch=8", "mobility has no key 'batch'"),
        ("champion:batch=0", "batch is '0' in 'champion:batch=0'; it must be a whole number"),
        ("{}:device=tpu", "unknown device 'tpu'; choose from auto, cpu, cuda, cuda:N"),
        ("{}:device=cuda:99", "device cuda:99: "),
    ],
)
def test_keys_that_cannot_be(checkpoint, spec, message):
    with pytest.raises(PlayerError, match=message):
        make_player(spec.format(checkpoint))


def test_names_of_devices(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    names = ("auto", "cpu", "cuda", "cuda:1")
    assert [choose_device(name) for name in names] == ["cuda:0", "cpu", "cuda:0", "cuda:1"]
    assert choose_device("auto", 1) == choose_device("cuda", 1) == "cuda:1"
    with pytest.raises(NetError, match="device cuda:2: there are 2 GPUs, counted from cuda:0"):
        choose_device("cuda:2")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == "cpu"
    with pytest.raises(NetError, match="device cuda:0: torch finds no CUDA GPU here; cpu works everywhere"):
        choose_device("cuda")


def test_a_match_is_the_same_however_many_games_are_played_at_once(checkpoint):
    openings = make_openings("random:6", 2, 1)
    one, three = (play_match(f"{checkpoint}:depth=2", "swh", openings, jobs=jobs) for jobs in (1, 3))
    assert [game.game.moves for game in one.played] == [game.game.moves for game in three.played]
    assert not one.forfeits(0)
