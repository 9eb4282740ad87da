"""What self-play asks of a device: room, launches, kernels; its speed on this CPU; and what a GPU would make of it.

No GPU was at hand when this was written. ``device-model`` is therefore a model: what is counted here, divided by what a
data sheet says. Everything it assumes is named below, and printed with it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from benchmarks.harness import Report, Settings, benchmark, markdown_table, median_seconds
from othello_nn.learn.launches import Compiled, Launches, kernels_when_compiled
from othello_nn.learn.td.batch import MOST_CHILDREN, Rays, expand, flips, legal_moves, popcount
from othello_nn.learn.td.ply import Players, compiled_ply, has_compiler, one_ply, room_for, start
from othello_nn.learn.td.selfplay import Dice, play
from othello_nn.learn.td.torch_targets import CHILDREN_EACH, GRANDCHILDREN_EACH, search_games
from othello_nn.learn.td.trajectory import MOST_MOVES, Trajectory
from othello_nn.nets import Net, load_net, make_net

EMBEDDING = {"kind": "ntuple", "tuples": "patterns", "stages": 15, "dim": 8}
GAMES = 1024
MIDDLE = 20  # a ply where there is most room
SOLVED = 16  # plies at the end that a run may have solved instead of searched

# What the model takes for granted of a GPU like an A100.
EAGER_SECONDS = 6e-6  # of the host, for each launch of torch
KERNEL_SECONDS = 2e-6  # of the device, for a kernel that has next to nothing to do, in a CUDA graph
GRAPH_SECONDS = 100e-6  # of the host, to draw chance for a ply and start its graph
BYTES_PER_SECOND = 0.6 * 1.55e12  # of memory, six tenths of the data sheet's
LOOKED_UP = ("_embedding_bag", "_embedding_bag_forward_only")


def _random(mover: Tensor, opponent: Tensor, black_to_move: Tensor) -> Tensor:
    return torch.zeros(mover.shape)


def _embedding() -> Net:
    torch.manual_seed(1)
    return make_net(EMBEDDING).eval()


# --- room ------------------------------------------------------------------------------------------------------------


def _widths(boards: Tensor) -> tuple[Tensor, Tensor]:
    """Children and grandchildren of each of N positions ``[2, N]``, passes counted."""
    legal, replies = legal_moves(boards, boards.flip(0)).unbind()
    children = expand(boards, legal, MOST_CHILDREN * len(legal), passes=(legal == 0) & (replies != 0))
    below, back = legal_moves(children.boards, children.boards.flip(0)).unbind()
    each = torch.where(children.valid, popcount(below) + ((below == 0) & (back != 0)), 0)
    return children.count, torch.zeros_like(legal).scatter_add_(0, children.parent, each)


def _most_needed(games: Trajectory) -> tuple[float, float, list[float], list[float]]:
    """Of 64 games at a ply: children per game where they are most, as a share of the room; the same of all games'
    mean. Of 64 positions from all stages of games: children and grandchildren, with and without the solved end."""
    boards = torch.stack((games.mover, games.opponent))
    found = [_widths(part) for part in boards.flatten(1).split(2048, 1)]
    children, grandchildren = (
        torch.cat(column).view(games.mover.shape).double() for column in zip(*found, strict=True)
    )
    at_ply = torch.cat((torch.full_like(children[:1], 4), children[:-1]))
    room = torch.tensor([room_for(64, ply) / 64 for ply in range(MOST_MOVES)]).double()
    fill = at_ply.unflatten(1, (-1, 64)).mean(2).amax(1) / room
    searched: list[list[float]] = []
    for rows in (MOST_MOVES, MOST_MOVES - SOLVED):
        parts = rows * games.games // 64
        whole = [column[:rows].flatten() for column in (children, grandchildren)]
        searched.append([max(float(column[part::parts].mean()) for part in range(parts)) for column in whole])
    return float(fill.max()), float(at_ply.mean()), searched[0], searched[1]


@benchmark("device-room", "room that the children of games need, against the room there is")
def device_room(settings: Settings) -> Report:
    torch.set_num_threads(1)
    games = settings.size(1024, 64)
    players = {"random": _random, "embedding, new": _embedding()}
    players |= {name: load_net(name) for name in ("triangle", "champion")[: settings.size(2, 1)]}
    rows, most = [], 0.0
    for name, net in players.items():
        for epsilon, opening in ((0.1, 0), (0.1, 10)):
            played = play(net, games, Dice.seeded(1), epsilon=epsilon, opening_plies=opening)
            fill, mean, whole, early = _most_needed(played)
            searched = [
                f"{one:.1f} / {two:.1f} of {room}"
                for one, two, room in zip(whole, early, (CHILDREN_EACH, GRANDCHILDREN_EACH), strict=True)
            ]
            rows.append((f"{name}, {opening} random plies", f"{mean:.1f}", f"{fill:.0%}", *searched))
            shares = (early[0] / CHILDREN_EACH, early[1] / GRANDCHILDREN_EACH)
            most = max(most, fill, *shares)
    header = (
        f"games of (ε = 0.1, {games:,} games)",
        "moves a position",
        "fullest ply of 64 games",
        f"searched, 1 ply on, all rows / without the last {SOLVED}",
        "2 plies on",
    )
    failure = None if most <= 1 else f"at most {most:.2f} of the room is needed"
    parameters = {"games": games, "seed": 1}
    return Report(most, "of the room", markdown_table(header, rows), {"most": most}, parameters, failure)


# --- launches and speed ----------------------------------------------------------------------------------------------


def _ply(games: int, step: Callable = one_ply) -> Callable[[], Tensor]:
    """A ply from the start, with the room of one in the middle."""
    chance = torch.zeros(games, dtype=torch.bool), torch.rand(games, MOST_CHILDREN)
    arguments = start(games, "cpu"), *chance, Players(_embedding()), room_for(games, MIDDLE), Rays.on("cpu")
    return lambda: step(*arguments)


def _counted(work: Callable[[], object]) -> Launches:
    with torch.no_grad(), Launches() as counted:
        work()
    return counted


@cache
def _compiled(games: int) -> Compiled:
    with torch.no_grad():
        return kernels_when_compiled(_ply(games, compiled_ply))


def _speeds(net: Net, games: int, repeats: int, compiled: bool) -> tuple[float, float]:
    """Games a second, uncompiled and compiled, in turns."""
    ways = [False, True] if compiled else [False]
    for way in ways:
        play(net, games, Dice.seeded(0), compiled=way)
    seconds: dict[bool, list[float]] = {False: [], True: []}
    for seed in range(repeats):
        for way in ways:
            took, _ = median_seconds(lambda way=way, seed=seed: play(net, games, Dice.seeded(seed), compiled=way), 1)
            seconds[way].append(took)
    eager, fused = (games / sorted(seconds[way])[repeats // 2] if way in ways else 0.0 for way in (False, True))
    return eager, fused


@benchmark("device-ply", "a ply of self-play: launches, kernels when compiled; games/s on this machine's CPU")
def device_ply(settings: Settings) -> Report:
    threads = settings.threads or os.cpu_count() or 1
    torch.set_num_threads(threads)
    games, net, rays = settings.size(GAMES, 64), _embedding(), Rays.on("cpu")
    mover, opponent = start(games, "cpu")[:2]
    ply = _counted(_ply(games))
    counts = {
        "launches of legal_moves": _counted(lambda: legal_moves(mover, opponent, rays)).launches,
        "launches of flips": _counted(lambda: flips(mover, opponent, mover, rays)).launches,
        "launches of a ply": ply.launches,
        "waits in a ply": ply.waits.total(),
    }
    compiling = has_compiler() and not settings.quick
    if compiling:
        made = _compiled(games)
        counts |= {"graphs a ply, compiled": made.graphs, "kernels a ply, compiled": made.kernels}
    eager, fused = _speeds(net, games, settings.size(3, 1), compiling)
    played = play(net, settings.size(128, 8), Dice.seeded(1))
    seconds, _ = median_seconds(lambda: search_games(net, played, plies=2, scale=net.scale), 1)
    positions = int(played.mask.sum())
    rows = [(name, f"{value:,}") for name, value in counts.items()]
    rows += [(f"games/s, {games:,} at a time, {threads} threads", f"{eager:,.0f}")]
    rows += [("the same, compiled", f"{fused:,.0f}")] if compiling else []
    rows += [("positions/s of 2-ply targets", f"{positions / seconds:,.0f}")]
    values = counts | {"games_per_second": eager, "compiled_games_per_second": fused}
    table = markdown_table(("embeddings of 8, 46 lookups", ""), rows)
    return Report(eager, "games/s", table, values, {"games": games, "threads": threads, "net": EMBEDDING})


# --- a model of a GPU ------------------------------------------------------------------------------------------------


class Plies(NamedTuple):
    """Of a ply with the room of the middle: launches, and bytes for each game."""

    launches: int
    bytes_each: float
    kernels: int
    compiled_bytes_each: float

    def eager_seconds(self, games: int) -> float:
        on_device = self.launches * KERNEL_SECONDS + games * self.bytes_each / BYTES_PER_SECOND
        return max(self.launches * EAGER_SECONDS, on_device)

    def compiled_seconds(self, games: int) -> float:
        on_device = self.kernels * KERNEL_SECONDS + games * self.compiled_bytes_each / BYTES_PER_SECOND
        return max(GRAPH_SECONDS, on_device)


def _plies(games: int) -> Plies:
    counted, made = _counted(_ply(games)), _compiled(games)
    looked_up = sum(counted.bytes_by_name[name] for name in LOOKED_UP)
    # What a kernel writes another one reads.
    return Plies(counted.launches, counted.bytes / games, made.kernels, (2 * made.bytes + looked_up) / games)


@benchmark("device-model", "games/s that a GPU like an A100 would make, by a model: no measurement")
def device_model(settings: Settings) -> Report:
    torch.set_num_threads(1)
    if settings.quick or not has_compiler():
        counted = _counted(_ply(64))
        plies = Plies(counted.launches, counted.bytes / 64, counted.launches, counted.bytes / 64)
    else:
        plies = _plies(GAMES)
    sizes = (256, 1024, 4096, 16_384, 65_536)
    rows, best = [], 0.0
    for games in sizes:
        eager, fused = (
            games / MOST_MOVES / seconds for seconds in (plies.eager_seconds(games), plies.compiled_seconds(games))
        )
        best = max(best, fused)
        rows.append((f"{games:,}", f"{eager:,.0f}", f"{fused:,.0f}"))
    assumed = (
        f"Modelled, not measured. Counted: {plies.launches} launches a ply or {plies.kernels} kernels when compiled, "
        f"{plies.bytes_each / 1e3:,.0f} or {plies.compiled_bytes_each / 1e3:,.0f} kB of memory traffic a game and ply. "
        f"Assumed: {EAGER_SECONDS * 1e6:.0f} µs of the host a launch, {KERNEL_SECONDS * 1e6:.0f} µs of the device a "
        f"kernel, {GRAPH_SECONDS * 1e6:.0f} µs of the host a compiled ply, {BYTES_PER_SECOND / 1e12:.2f} TB/s; the "
        f"slower of host and device decides."
    )
    header = ("games at a time", "games/s, launch by launch", "games/s, compiled")
    values = plies._asdict() | {
        "eager_launch_s": EAGER_SECONDS,
        "kernel_s": KERNEL_SECONDS,
        "bytes_s": BYTES_PER_SECOND,
    }
    return Report(best, "games/s, modelled", markdown_table(header, rows, assumed), values, {"net": EMBEDDING})
