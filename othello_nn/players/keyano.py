"""The opponent ``keyano``: the evaluation function of Brockington's program KEYANO, fitted to games of our own.

    python play.py match keyano:depth=4 swh:depth=4

A position's value is Σ weight[moves played] · term over four terms: mobility (flipping directions through a fitted
curve, over the board and in each quarter, with a penalty for regions a side has lost), and the sums of pattern values
of the vectors, of the 3×3 corners and of the edges. A pattern's value is the mean final disc difference of the games it
was seen in. ``keyano_kernels.py`` has the compiled terms, ``fit_keyano.py`` the fit; this module holds what was fitted.

In the file (safetensors), the metadata are ``format`` and ``info`` (recipe and figures of the fit, JSON); the arrays
are listed in ``_ARRAYS``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from othello_nn.checkpoint import write_whole
from othello_nn.engine.probcut import TERMS as PROBCUT_TERMS
from othello_nn.engine.tables import LeafEvaluator
from othello_nn.players.base import PlayerError
from othello_nn.players.keyano_kernels import COUNTS, SHAPES, UNIT, WEIGHT_UNIT, WEIGHTS, Keyano

FITTED = Path(__file__).resolve().parent / "fitted" / "keyano.safetensors"
FORMAT = "othello_nn.keyano/1"
_ARRAYS = {
    "patterns": (np.int16, (SHAPES.cells,)),  # in 1/UNIT of a disc; cell 0 is not used
    "curves": (np.int32, (2, COUNTS)),  # whole board, quarter, in 1/UNIT of a mobility unit
    "coefficients": (np.int32, (65, WEIGHTS)),  # by empties: a weight for each term and a constant, in 1/WEIGHT_UNIT
    "parity": (np.int32, (1,)),  # what a lost region costs, in 1/UNIT of a mobility unit
}
LARGEST = 1 << 24  # of any number in the file: products of two, summed, stay far inside 64 bits


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

    def save(self, path: Path) -> None:
        """Write the file in one step."""
        from safetensors.numpy import save

        parity = np.array([self.parity], np.int32)
        arrays = {"patterns": self.weights[0], "curves": self.curves, "coefficients": self.coefficients}
        arrays |= {"parity": parity}
        if self.probcut is not None:
            arrays["probcut"] = self.probcut.astype(np.float32)
        meta = {"format": FORMAT, "info": json.dumps(self.info, ensure_ascii=False, allow_nan=False)}
        write_whole(path, save(arrays, meta))

    @classmethod
    def load(cls, path: Path) -> KeyanoEvaluator:
        """Read a file; a ``PlayerError`` of one line says what is wrong with it."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="numpy") as file:
                meta = file.metadata() or {}
                if meta.get("format") != FORMAT:
                    raise ValueError(f"its format is {meta.get('format')!r}, not {FORMAT!r}")
                info = json.loads(meta.get("info", ""))
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
            _check(arrays)
        except FileNotFoundError:
            raise PlayerError(f"keyano needs {path.name}, which is not at {str(path)!r}") from None
        except OSError as error:
            raise PlayerError(f"{str(path)!r} cannot be read: {error.strerror or error}") from None
        except (SafetensorError, ValueError, TypeError) as error:
            raise PlayerError(f"{path}: damaged keyano file ({' '.join(str(error).split())})") from None
        probcut = arrays.get("probcut")
        return cls(
            "keyano",
            SHAPES,
            arrays["patterns"][None],
            np.zeros(65, np.int64),
            info,
            None if probcut is None else probcut.astype(float),
            curves=arrays["curves"],
            coefficients=arrays["coefficients"],
            parity=int(arrays["parity"][0]),
        )


def _check(arrays: dict[str, np.ndarray]) -> None:
    """Compiled code does not look where it reads: arrays must be what they should be."""
    expected: dict[str, tuple[Any, tuple[int, ...]]] = dict(_ARRAYS)
    if "probcut" in arrays:
        expected["probcut"] = np.float32, (PROBCUT_TERMS,)
    if unknown := sorted(arrays.keys() - expected.keys()):
        raise ValueError(f"it holds an unknown array {unknown[0]!r}")
    for name, (kind, shape) in expected.items():
        if name not in arrays:
            raise ValueError(f"{name} is missing")
        array = arrays[name]
        if array.dtype != kind or array.shape != shape:
            raise ValueError(f"{name} must be {np.dtype(kind)} {list(shape)}, not {array.dtype} {list(array.shape)}")
        if not np.isfinite(array).all() or np.abs(array.astype(float)).max() > LARGEST:
            raise ValueError(f"{name} holds numbers that are not finite or too large")


@lru_cache(maxsize=1)
def shipped_keyano() -> KeyanoEvaluator:
    """The evaluator that comes with the program, loaded once however many players use it."""
    evaluator = KeyanoEvaluator.load(FITTED)
    assert evaluator.leaf  # laid out in memory now, in one thread
    return evaluator
