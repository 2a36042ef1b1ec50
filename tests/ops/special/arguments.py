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
_SHAPE = (0.5, 9.0)
_DEGREE, _INSIDE = (0.1, 9.9), (-0.98, 0.98)
_MODE = [2.0, 3.0, 5.0]
RANGES: dict[str, tuple[Any, ...]] = {
    "agm": (_X, _X),
    "airy": ((-12.0, 12.0),),
    "airye": ((0.0, 12.0),),
    "besselpoly": ((0.1, 3.0), (0.0, 3.0), (0.0, 4.0)),
    "bdtrik": (_PROBABILITY, (5.0, 30.0), (0.2, 0.8)),
    "bdtrin": ((1.0, 9.0), _PROBABILITY, (0.2, 0.8)),
    "betaincc": (_SHAPE, _SHAPE, _PROBABILITY),
    "betainccinv": (_SHAPE, _SHAPE, _PROBABILITY),
    "btdtria": (_PROBABILITY, _SHAPE, _PROBABILITY),
    "btdtrib": (_SHAPE, _PROBABILITY, _PROBABILITY),
    "chdtriv": (_PROBABILITY, _SHAPE),
    "chndtr": ((0.5, 20.0), _SHAPE, (0.0, 9.0)),
    "chndtridf": ((8.0, 20.0), (0.05, 0.6), (0.0, 3.0)),
    "chndtrinc": ((8.0, 20.0), (0.5, 2.0), (0.05, 0.6)),
    "chndtrix": (_PROBABILITY, _SHAPE, (0.0, 9.0)),
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
    "erf": ((-4.0, 4.0),),
    "erfc": ((-4.0, 4.0),),
    "erfcx": ((-3.0, 6.0),),
    "exp1": ((0.1, 9.0),),
    "expi": ((-9.0, 9.0),),
    "fdtridfd": ((1.0, 4.0), (0.6, 0.7), (2.0, 3.0)),
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
    "it2struve0": ((0.0, 50.0),),
    "itmodstruve0": ((0.0, 40.0),),
    "itstruve0": ((0.0, 25.0),),  # further out SciPy's is wrong: 5.41 at 30.1
    "kolmogi": ((0.0, 1.0),),
    "kolmogorov": ((0.0, 3.0),),
    "log_ndtr": ((-9.0, 4.0),),
    "log_wright_bessel": ((0.1, 3.0), (0.2, 4.0), (0.0, 20.0)),
    "modstruve": ((-3.3, 6.0), (0.1, 40.0)),
    "nbdtrik": (_PROBABILITY, _SHAPE, (0.2, 0.8)),
    "nbdtrin": ((1.0, 9.0), _PROBABILITY, (0.2, 0.8)),
    "ncfdtr": (_SHAPE, _SHAPE, (0.0, 9.0), (0.1, 4.0)),
    "ncfdtri": (_SHAPE, _SHAPE, (0.0, 9.0), _PROBABILITY),
    "ncfdtridfd": ((2.0, 4.0), (0.6, 0.7), (0.0, 0.5), (2.0, 3.0)),
    "ncfdtridfn": ((0.25, 0.35), (5.0, 9.0), (3.0, 4.0), (1.2, 1.6)),
    "ncfdtrinc": ((2.0, 5.0), (5.0, 9.0), (0.1, 0.5), (2.0, 4.0)),
    "nctdtr": (_SHAPE, (-3.0, 3.0), (-4.0, 4.0)),
    "nctdtridf": ((0.85, 0.9), (0.2, 0.4), (1.8, 2.2)),
    "nctdtrinc": (_SHAPE, _PROBABILITY, (-4.0, 4.0)),
    "nctdtrit": (_SHAPE, (-3.0, 3.0), _PROBABILITY),
    "ndtr": ((-6.0, 6.0),),
    "ndtri_exp": ((-30.0, -0.01),),
    "nrdtrimn": (_PROBABILITY, (0.2, 3.0), (-3.0, 3.0)),
    "nrdtrisd": ((-4.0, 0.0), (0.6, 0.98), (0.5, 3.0)),
    "owens_t": ((-5.0, 5.0), (-4.0, 4.0)),
    "pdtrik": (_PROBABILITY, (0.5, 20.0)),
    "powm1": ((0.2, 3.0), (-4.0, 4.0)),
    "smirnov": (list(range(1, 31)), (0.0, 1.0)),
    "smirnovi": (list(range(1, 31)), _PROBABILITY),
    "spence": ((0.0, 9.0),),
    "stdtr": (_SHAPE, (-9.0, 9.0)),
    "stdtridf": ((0.05, 0.1), (-2.6, -2.0)),
    "stdtrit": (_SHAPE, _PROBABILITY),
    "struve": ((-3.3, 6.0), (0.1, 40.0)),
    "tklmbda": ((-1.9, 1.9), (-0.8, 2.0)),
    "voigt_profile": ((-5.0, 5.0), (0.1, 2.0), (0.1, 2.0)),
    "wofz": ((-5.0, 5.0),),
    "wrightomega": ((-8.0, 8.0),),
    **{
        f"spherical_{kind}n{part}": (list(range(8)), (0.1, 12.0))
        for kind in "jyik"
        for part in ("", "_d")
    },
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
    # SciPy's searches end before the last digits
    **dict.fromkeys("bdtrik bdtrin nbdtrik nbdtrin stdtridf ncfdtri".split(), 2e-10),
    **dict.fromkeys("nctdtrinc ncfdtridfd nctdtridf".split(), 2e-4),
    **dict.fromkeys("ncfdtridfn ncfdtrinc".split(), 2e-4),
    "erf": ((-4.0, 4.0),),
    "erfc": ((-4.0, 4.0),),
    "erfcx": ((-3.0, 6.0),),
    "exp1": ((0.1, 9.0),),
    "expi": ((-9.0, 9.0),),
    "fdtridfd": 1e-9,
    "nctdtr": 2e-12,
    # SciPy's integrals keep fewer digits
    "it2struve0": 1e-6,
    "itstruve0": 1e-6,
    "itmodstruve0": 1e-7,
    **dict.fromkeys("modstruve struve".split(), 2e-12),  # near their zeros
}


def tolerance_of(name: str) -> float:
    """The relative error that a function may show."""
    return TOLERANCES.get(name, 2e-13)


def device_tolerance_of(name: str) -> float:
    """The same where exp, pow and the rest have last digits of their own.

    Series that cancel, and polynomials whose degree is no whole number, make these
    larger, in SciPy's values as in ours.
    """
    if name.startswith("eval_"):
        return 1e-5
    return max(1e-8, tolerance_of(name))


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
