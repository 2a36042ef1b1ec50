"""Arguments for the functions of `scipy.special` that run as kernels of our own.

Each input is drawn from a range, or from a list of values where only these have a
meaning; complex inputs take both parts from their range.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

#: For each function its inputs: (low, high), or a list of values, by their place.
_ORDER, _X, _PROBABILITY = (-6.5, 9.5), (0.05, 25.0), (0.02, 0.98)
_DEGREE, _INSIDE = (0.1, 9.9), (-0.98, 0.98)
_MODE = [2.0, 3.0, 5.0]
RANGES: dict[str, tuple[Any, ...]] = {
    "agm": (_X, _X),
    "airy": ((-12.0, 12.0),),
    "airye": ((0.0, 12.0),),
    "besselpoly": ((0.1, 3.0), (0.0, 3.0), (0.0, 4.0)),
    "dawsn": ((-6.0, 6.0),),
    "ellipe": ((-9.0, 1.0),),
    "erfi": ((-4.0, 4.0),),
    "elliprc": (_X, (-9.0, 9.0)),
    "elliprd": (_X, _X, _X),
    "elliprf": (_X, _X, _X),
    "elliprg": (_X, _X, _X),
    "elliprj": (_X, _X, _X, (-9.0, 9.0)),
    "eval_gegenbauer": (_DEGREE, (0.2, 3.0), _INSIDE),
    "eval_genlaguerre": (_DEGREE, (-0.9, 3.0), (0.0, 9.0)),
    "eval_hermite": (_DEGREE, (-3.0, 3.0)),
    "eval_hermitenorm": (_DEGREE, (-3.0, 3.0)),
    "eval_jacobi": (_DEGREE, (-0.9, 3.0), (-0.9, 3.0), _INSIDE),
    "eval_laguerre": (_DEGREE, (0.0, 9.0)),
    "eval_sh_jacobi": (_DEGREE, (2.0, 4.0), (0.5, 2.0), (0.02, 0.98)),
    "fresnel": ((-5.0, 5.0),),
    "gdtria": (_PROBABILITY, (0.5, 5.0), (0.5, 5.0)),
    "gdtrib": ((0.5, 5.0), _PROBABILITY, (0.5, 5.0)),
    "gdtrix": ((0.5, 5.0), (0.5, 5.0), _PROBABILITY),
    "hyp0f1": ((0.2, 9.0), (-20.0, 60.0)),
    "hyp1f1": ((0.2, 4.0), (0.3, 4.0), (-8.0, 8.0)),
    "hyp2f1": ((0.2, 3.0), (0.3, 3.0), (0.5, 4.0), (-3.0, 0.85)),
    "hyperu": ((0.2, 3.0), (0.3, 3.0), (0.2, 12.0)),
    "itairy": ((-6.0, 6.0),),
    "kn": (list(range(8)), _X),
    "log_wright_bessel": ((0.1, 3.0), (0.2, 4.0), (0.0, 20.0)),
    "ndtri_exp": ((-30.0, -0.01),),
    "nrdtrimn": (_PROBABILITY, (0.2, 3.0), (-3.0, 3.0)),
    "nrdtrisd": ((-4.0, 0.0), (0.6, 0.98), (0.5, 3.0)),
    "owens_t": ((-5.0, 5.0), (-4.0, 4.0)),
    "powm1": ((0.2, 3.0), (-4.0, 4.0)),
    "spence": ((0.0, 9.0),),
    "tklmbda": ((-1.9, 1.9), (-0.8, 2.0)),
    "voigt_profile": ((-5.0, 5.0), (0.1, 2.0), (0.1, 2.0)),
    "wofz": ((-5.0, 5.0),),
    "wrightomega": ((-8.0, 8.0),),
    **dict.fromkeys(
        "eval_chebyc eval_chebys eval_chebyt eval_chebyu eval_legendre".split(),
        (_DEGREE, _INSIDE),
    ),
    **dict.fromkeys(
        "eval_sh_chebyt eval_sh_chebyu eval_sh_legendre".split(),
        (_DEGREE, (0.02, 0.98)),
    ),
    **{f"mathieu_{k}": (_MODE, (0.1, 9.0)) for k in "ab"},
    **{f"mathieu_{k}": (_MODE, (0.1, 9.0), (0.0, 90.0)) for k in ("cem", "sem")},
    **{
        f"mathieu_mod{k}em{i}": (_MODE, (0.1, 9.0), (0.2, 2.0))
        for k in "cs"
        for i in "12"
    },
    **{f"pb{k}": ((-4.5, 4.5), (-4.0, 4.0)) for k in ("dv", "vv", "wa")},
    **dict.fromkeys("iv ive jn jv jve kv kve yv yve".split(), (_ORDER, _X)),
    **dict.fromkeys("hankel1 hankel1e hankel2 hankel2e".split(), (_ORDER, _X)),
    **dict.fromkeys(
        "bei beip ber berp kei keip kelvin ker kerp modfresnelm modfresnelp"
        " itj0y0 iti0k0 it2j0y0 it2i0k0".split(),
        (_X,),
    ),
}
for _shape, _inside in (("pro", (1.1, 3.0)), ("obl", (0.1, 3.0))):
    _front = ([0.0, 1.0], [2.0, 3.0], (0.5, 4.0))
    RANGES[f"{_shape}_cv"] = _front
    RANGES[f"{_shape}_ang1"] = (*_front, (-0.9, 0.9))
    RANGES[f"{_shape}_ang1_cv"] = (*_front, (4.0, 15.0), (-0.9, 0.9))
    for _kind in "12":
        RANGES[f"{_shape}_rad{_kind}"] = (*_front, _inside)
        RANGES[f"{_shape}_rad{_kind}_cv"] = (*_front, (4.0, 15.0), _inside)

#: Where two ways to the same value differ by more than 2e-13 of its size, and why.
TOLERANCES: dict[str, float] = {
    "hyp1f1": 2e-12,  # SciPy's real loop is Boost's
}


def tolerance_of(name: str) -> float:
    """The relative error that a function may show."""
    return TOLERANCES.get(name, 2e-13)


def arguments_of(name: str, types: str, count: int = 200) -> list[np.ndarray]:
    """Arrays of arguments for a loop such as ``"dD->D"``."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    return [
        _draw(rng, r, letter, count)
        for r, letter in zip(RANGES[name], types.split("->")[0], strict=True)
    ]


def _draw(rng: Any, known: Any, letter: str, count: int) -> np.ndarray:
    def part() -> np.ndarray:
        if isinstance(known, list):
            return rng.choice(known, count)
        return rng.uniform(*known, count)

    if letter == "l":
        return np.round(part()).astype(np.int64)
    return part() + 1j * part() if letter == "D" else part()


def differences(ufunc: np.ufunc, found: Sequence[Any], truth: Any) -> float:
    """Return the largest relative error of the outputs; inf where NaNs differ."""
    outputs = truth if ufunc.nout > 1 else (truth,)
    worst = 0.0
    for ours, theirs in zip(found, outputs, strict=True):
        if np.any(np.isnan(ours) != np.isnan(theirs)):
            return np.inf
        finite = np.isfinite(theirs)
        if not np.array_equal(ours[~finite], theirs[~finite], equal_nan=True):
            return np.inf
        a, b = ours[finite], theirs[finite]
        if a.size:
            size = np.maximum(np.abs(b), 1e-3 * np.median(np.abs(b)) + 1e-300)
            worst = max(worst, float(np.max(np.abs(a - b) / size)))
    return worst
