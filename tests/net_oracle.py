"""Nets as checkpoints, made without torch, and what they are worth by definition: plain Python, one square at a time.

Read ``discs_of``: it is the oracle for everything ``engine/leaf/compile.py`` does.
"""

import math

import numpy as np

from othello_nn.checkpoint import Checkpoint
from othello_nn.engine.leaf.shapes import Shapes
from othello_nn.game import rules

TRIANGLE = ("a1", "b1", "c1", "d1", "b2", "c2", "d2", "c3", "d3", "d4")


def squares_checkpoint(weights, per_disc: float = 1.0) -> Checkpoint:
    """A weighted piece counter that is the same for all symmetries, as a net of one-square tuples."""
    squares = [square for square in range(64) if square == min(images(square))]
    table = np.zeros((1, 1 + 3 * len(squares)), np.float32)
    for i, square in enumerate(squares):
        assert len({weights[image] for image in images(square)}) == 1
        table[0, 1 + 3 * i : 4 + 3 * i] = np.array([-1, 0, 1]) * weights[square] / per_disc
    net = {"kind": "ntuple", "tuples": [[square] for square in squares], "stages": 1}
    return Checkpoint(net, {"weight": table})


def images(square: int) -> list[int]:
    return [rules.transform_square(square, k) for k in range(8)]


# --- random nets -----------------------------------------------------------------------------------------------------


def random_arrays(config: dict, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """A state for the net, of a size that makes values of all kinds."""

    def normal(deviation: float, *shape: int) -> np.ndarray:
        return np.asarray(deviation * rng.standard_normal(shape), np.float32)

    if config["kind"] == "triangle":
        maps = config["maps"]
        sides = [] if config.get("symmetric") else [8]
        return {
            "weights": normal(0.5, maps, 20 if config.get("empties") else 10),
            "biases": normal(0.5, maps, *sides),
            "outputs": normal(0.2, maps, *sides),
            "output_bias": normal(0.2),
        }
    if config["kind"] == "staged":
        n, centres = np.arange(65)[:, None], np.array(config["centres"])
        arrays = {"coefficients": np.exp(-(((n - centres) / config["width"]) ** 2)).astype(np.float32)}
        for i in range(len(centres)):
            arrays |= {f"nets.{i}.{name}": array for name, array in random_arrays(config["net"], rng).items()}
        return arrays
    if config["kind"] == "doubled":
        sides = ("black", "white")
        return {f"{side}.{name}": array for side in sides for name, array in random_arrays(config["net"], rng).items()}
    dim, hidden = config.get("dim", 1), config.get("hidden", 16)
    rows = config["stages"] + (1 if config.get("shared") and config["stages"] > 1 else 0)
    cells = Shapes.symmetric(config["tuples"]).cells
    if dim == 1:
        return {"weight": normal(1.0, rows, cells)}
    return {
        "weight": normal(0.5, rows, cells, dim),
        "hidden.weight": normal(0.4, hidden, dim),
        "hidden.bias": normal(1.0, hidden),
        "output.weight": normal(1.0, 1, hidden),
        "output.bias": normal(1.0, 1),
    }


def random_checkpoint(config: dict, seed: int) -> Checkpoint:
    return Checkpoint(config, random_arrays(config, np.random.default_rng(seed)))


# --- what a net is worth, by definition ------------------------------------------------------------------------------


def squash(x: float) -> float:
    return 2 / (1 + math.exp(-x)) - 1 if x > -700 else -1.0


def discs_of(net: dict, arrays: dict, mover: int, opponent: int, black: bool = True) -> float:
    """The expected margin for the mover."""
    if net["kind"] == "doubled":
        prefix = "black." if black else "white."
        return discs_of(net["net"], inside(arrays, prefix), mover, opponent, black)
    if net["kind"] == "staged":
        n = (mover | opponent).bit_count()
        value = 0.0
        for i in range(len(net["centres"])):
            inner = discs_of(net["net"], inside(arrays, f"nets.{i}."), mover, opponent, black)
            value += float(arrays["coefficients"][n, i]) * squash(inner / net["net"]["scale"])
        return net["net"]["scale"] * 2 * math.atanh(max(-0.999999, min(0.999999, value)))
    if net.get("view") == "negation":
        positive = {**net, "view": "inversion"}
        if black:
            return discs_of(positive, arrays, mover, opponent)
        return -discs_of(positive, arrays, opponent, mover)
    return (triangle_discs if net["kind"] == "triangle" else tuple_discs)(net, arrays, mover, opponent)


def inside(arrays: dict, prefix: str) -> dict:
    return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}


def sign_of(square: int, mover: int, opponent: int) -> int:
    return (mover >> square & 1) - (opponent >> square & 1)


def triangle_discs(net: dict, arrays: dict, mover: int, opponent: int) -> float:
    total = float(arrays["output_bias"])
    base = [8 * (int(name[1]) - 1) + "abcdefgh".index(name[0]) for name in TRIANGLE]
    for k in range(8):
        signs = [sign_of(rules.transform_square(square, k), mover, opponent) for square in base]
        inputs = signs + ([int(sign == 0) for sign in signs] if net.get("empties") else [])
        for i in range(net["maps"]):
            at = i if net.get("symmetric") else (i, k)
            x = sum(float(w) * s for w, s in zip(arrays["weights"][i], inputs, strict=True))
            total += float(arrays["outputs"][at]) * squash(x + float(arrays["biases"][at]))
    return net["scale"] * total


def tuple_discs(net: dict, arrays: dict, mover: int, opponent: int) -> float:
    stages, dim = net["stages"], net.get("dim", 1)
    stage = min((64 - (mover | opponent).bit_count()) * stages // 60, stages - 1)
    rows = [stage, stages] if net.get("shared") and stages > 1 else [stage]
    weight = np.asarray(arrays["weight"], np.float64) / (128 if arrays["weight"].dtype == np.int16 else 1)
    sums, start = weight[rows, 0].sum(axis=0), 1
    for squares in net["tuples"]:
        placements = {}
        for k in range(8):
            image = [rules.transform_square(square, k) for square in squares]
            placements.setdefault(frozenset(image), image)
        # An image that a symmetry maps to itself is looked up once, in the order that the net's shapes have for it.
        for placement in Shapes.symmetric([squares]).placements:
            assert placements.pop(frozenset(placement.squares))
            cell = sum((1 + sign_of(s, mover, opponent)) * 3**j for j, s in enumerate(placement.squares))
            sums = sums + weight[rows, start + cell].sum(axis=0)
        assert not placements
        start += 3 ** len(squares)
    if dim == 1:
        return float(sums)
    units = np.maximum(arrays["hidden.weight"].astype(np.float64) @ sums + arrays["hidden.bias"], 0)
    return float(sums[0] + (arrays["output.weight"].astype(np.float64) @ units)[0] + arrays["output.bias"][0])
