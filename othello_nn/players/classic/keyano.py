"""The opponent ``keyano``: the evaluation function of Brockington's program KEYANO, fitted to games of our own.

    python play.py match keyano:depth=4 swh:depth=4
    python play.py match keyano:depth=4 keyano:depth=4,parity=off

A position's value is Σ weight[moves played] · term over four terms: mobility (flipping directions through a fitted
curve, over the board and in each quarter, with a penalty for regions a side has lost), and the sums of pattern values
of the vectors, of the 3×3 corners and of the edges. A pattern's value is the mean final disc difference of the games it
was seen in. ``keyano_kernels.py`` has the compiled terms, ``fit/keyano.py`` the fit; this module holds what was fitted,
in a checkpoint file like those of the nets.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from othello_nn.checkpoint import Checkpoint, CheckpointError
from othello_nn.engine.leaf.tables import LeafEvaluator
from othello_nn.players.base import PlayerError
from othello_nn.players.classic.keyano_kernels import COUNTS, SHAPES, TERMS, UNIT, WEIGHT_UNIT, WEIGHTS, Keyano

FITTED = Path(__file__).resolve().parent / "fitted" / "keyano.safetensors"
KIND = "keyano"
_ARRAYS = {
    "patterns": (np.int16, (SHAPES.cells,)),  # in 1/UNIT of a disc; cell 0 is not used
    "curves": (np.float32, (2, COUNTS)),  # whole board, quarter, in mobility units
    "coefficients": (np.float32, (65, WEIGHTS)),  # by empties: a weight for each term and a constant
    "parity": (np.float32, (1,)),  # what a lost region costs, in mobility units
}
LARGEST = 1 << 12  # of any number in the file: products of two, summed, stay far inside 64 bits


@dataclass(frozen=True, eq=False)
class KeyanoEvaluator(LeafEvaluator):
    """KEYANO's evaluation. ``weights`` [1, cells] int16 are the pattern values."""

    curves: np.ndarray = field(kw_only=True)
    coefficients: np.ndarray = field(kw_only=True)
    parity: int = field(kw_only=True)

    def _lay_out(self) -> tuple[Any, ...]:
        curves, coefficients = (np.ascontiguousarray(x, np.int32) for x in (self.curves, self.coefficients))
        return Keyano, self._with_zero(self.weights), curves, coefficients, int(self.parity)

    @classmethod
    def of(
        cls,
        patterns: np.ndarray,
        curves: np.ndarray,
        coefficients: np.ndarray,
        parity: float,
        info: dict[str, Any] | None = None,
        probcut: np.ndarray | None = None,
    ) -> KeyanoEvaluator:
        """From numbers in discs, mobility units and plain weights, which are rounded to the units of the file."""
        return cls(
            "keyano",
            SHAPES,
            np.rint(patterns * UNIT).astype(np.int16)[None],
            np.zeros(65, np.int64),
            info or {},
            probcut,
            curves=np.rint(curves * UNIT).astype(np.int32),
            coefficients=np.rint(coefficients * WEIGHT_UNIT).astype(np.int32),
            parity=round(parity * UNIT),
        )

    def with_terms(
        self,
        *,
        mobility: bool = True,
        parity: float | bool = True,
        vectors: bool = True,
        corners: bool = True,
        edges: bool = True,
    ) -> KeyanoEvaluator:
        """The same without some of its terms, or with another price (in mobility units) of a lost region.

        The weights of the others stay what they were fitted to be beside them; ``mobility`` leaves lost regions alone.
        """
        coefficients = self.coefficients.copy()
        for name, kept in (("vectors", vectors), ("corners", corners), ("edges", edges)):
            coefficients[:, TERMS.index(name)] *= kept
        price = self.parity if parity is True else round(parity * UNIT)
        return replace(self, curves=self.curves * mobility, coefficients=coefficients, parity=price)

    def save(self, path: Path) -> None:
        """Write a file that ``load`` reads; an ``OSError`` names it."""
        arrays = {
            "patterns": self.weights[0],
            "curves": (self.curves / UNIT).astype(np.float32),
            "coefficients": (self.coefficients / WEIGHT_UNIT).astype(np.float32),
            "parity": np.array([self.parity / UNIT], np.float32),
        }
        Checkpoint({"kind": KIND}, arrays, self.info, self.probcut).save(path)

    @classmethod
    def load(cls, path: Path) -> KeyanoEvaluator:
        """Read a file; a ``CheckpointError`` of one line says what is wrong with it."""
        checkpoint = Checkpoint.load(path)
        if checkpoint.net["kind"] != KIND:
            raise CheckpointError(f"{path}: it holds a net of kind {checkpoint.net['kind']!r}, not keyano's numbers")
        try:
            _check(checkpoint.arrays)
            patterns, curves, coefficients, parity = (checkpoint.arrays[name] for name in _ARRAYS)
            probcut = None if checkpoint.probcut is None else checkpoint.probcut.astype(float)
            return cls.of(patterns / UNIT, curves, coefficients, float(parity[0]), checkpoint.info, probcut)
        except ValueError as error:
            raise CheckpointError(f"{path}: damaged checkpoint ({error})") from None


def _check(arrays: dict[str, np.ndarray]) -> None:
    """Compiled code does not look where it reads: arrays must be what they should be."""
    if unknown := sorted(arrays.keys() - _ARRAYS.keys()):
        raise ValueError(f"it holds an unknown array {unknown[0]!r}")
    for name, (kind, shape) in _ARRAYS.items():
        if name not in arrays:
            raise ValueError(f"{name} is missing")
        array = arrays[name]
        if array.dtype != kind or array.shape != shape:
            raise ValueError(f"{name} must be {np.dtype(kind)} {list(shape)}, not {array.dtype} {list(array.shape)}")
        if kind is np.float32 and np.abs(array).max() > LARGEST:
            raise ValueError(f"{name} holds numbers that are too large")


@cache
def shipped_keyano() -> KeyanoEvaluator:
    """The evaluator that comes with the program, loaded once however many players use it."""
    try:
        return KeyanoEvaluator.load(FITTED).laid_out()
    except FileNotFoundError:
        fit = "python -m othello_nn.fit.keyano"
        raise PlayerError(f"'keyano' needs {str(FITTED)!r}, which is not there; {fit} makes it") from None


def keyano_with(terms: tuple[tuple[str, Any], ...]) -> KeyanoEvaluator:
    """The shipped evaluator with (name, value) of ``with_terms``, one however many players use it."""
    return _variant(terms) if terms else shipped_keyano()


@lru_cache(maxsize=8)
def _variant(terms: tuple[tuple[str, Any], ...]) -> KeyanoEvaluator:
    return shipped_keyano().with_terms(**dict(terms)).laid_out()
