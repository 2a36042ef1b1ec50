"""The polynomials of elementary functions, computed.

``python -m tests.backends.compiled.polynomials --write`` writes
`workbench.backends.compiled.coefficients`. Each polynomial interpolates a smooth
function at the Chebyshev points of its interval, in 50 digits; its error is within a
small factor of the least there is (Trefethen, Approximation Theory and Approximation
Practice, 2013). Degrees are the lowest at which that error does not show in the result.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import mpmath as mp
import numpy as np

FILE = "workbench/backends/compiled/coefficients.py"
HEAD = '''\
"""Coefficients of the polynomials of `functions`, from the constant term on.

``python -m tests.backends.compiled.polynomials --write`` writes them and says how they
were computed.
"""

from __future__ import annotations

'''


class Approximation(NamedTuple):
    """A function, its interval, and the degrees for double and single precision."""

    f: Callable[[Any], Any]
    start: str
    end: str
    degrees: tuple[int, int]


def extend(at_zero: Callable[[], Any], f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function with its limit at 0."""
    return lambda x: f(x) if abs(x) > 1e-15 else at_zero()


def in_square(
    at_zero: Callable[[], Any], f: Callable[[Any], Any]
) -> Callable[[Any], Any]:
    """A function of x as one of z = x², with its limit at 0."""
    return extend(at_zero, lambda z: f(mp.sqrt(z)))


def scaled_erfc(t: Any) -> Any:
    x = 3 * (1 + t) / (1 - t)
    return x * mp.exp(x * x) * mp.erfc(x)


#: The intervals are expressions, since mpmath's numbers have the digits of the moment.
TABLE = {
    "exp": Approximation(
        extend(lambda: mp.mpf(1) / 2, lambda r: (mp.exp(r) - 1 - r) / r**2),
        "-log(2)/2", "log(2)/2", (9, 4),
    ),
    "exp2": Approximation(
        extend(lambda: mp.log(2), lambda r: (mp.power(2, r) - 1) / r),
        "-mpf(1)/2", "mpf(1)/2", (10, 5),
    ),
    "log": Approximation(
        in_square(lambda: mp.mpf(2) / 3, lambda s: 2 * (mp.atanh(s) / s - 1) / s**2),
        "mpf(0)", "(3 - 2*sqrt(2))**2", (6, 2),
    ),
    "power": Approximation(
        in_square(
            lambda: mp.mpf(1) / 5, lambda s: (mp.atanh(s) / s - 1 - s**2 / 3) / s**4
        ),
        "mpf(0)", "(3 - 2*sqrt(2))**2", (7, 3),
    ),
    "sin": Approximation(
        in_square(lambda: -mp.mpf(1) / 6, lambda x: (mp.sin(x) / x - 1) / x**2),
        "mpf(0)", "(pi/4)**2", (5, 2),
    ),
    "cos": Approximation(
        in_square(lambda: mp.mpf(1) / 24, lambda x: (mp.cos(x) - 1 + x**2 / 2) / x**4),
        "mpf(0)", "(pi/4)**2", (5, 2),
    ),
    "asin": Approximation(
        in_square(lambda: mp.mpf(1) / 6, lambda x: (mp.asin(x) / x - 1) / x**2),
        "mpf(0)", "mpf(1)/4", (12, 4),
    ),
    "atan": Approximation(
        in_square(lambda: -mp.mpf(1) / 3, lambda x: (mp.atan(x) / x - 1) / x**2),
        "mpf(0)", "tan(pi/8)**2", (10, 4),
    ),
    "sinh": Approximation(
        in_square(lambda: mp.mpf(1) / 6, lambda x: (mp.sinh(x) / x - 1) / x**2),
        "mpf(0)", "mpf(1)", (6, 3),
    ),
    "cbrt": Approximation(mp.cbrt, "mpf(1)", "mpf(2)", (5, 3)),
    "erf": Approximation(
        in_square(lambda: 2 / mp.sqrt(mp.pi) - 1, lambda x: mp.erf(x) / x - 1),
        "mpf(0)", "mpf(1)", (12, 6),
    ),
    # of a from 1 to 6, and to 28
    "erf beyond 1": Approximation(scaled_erfc, "-mpf(1)/2", "mpf(1)/3", (15, 6)),
    "erfc": Approximation(scaled_erfc, "-mpf(1)/2", "mpf(25)/31", (18, 9)),
}  # fmt: skip


def interpolate(one: Approximation, degree: int) -> list[Any]:
    """The coefficients of the polynomial through Chebyshev's points."""
    start, end = (eval(text, vars(mp)) for text in (one.start, one.end))
    count = degree + 1
    points = [
        (start + end) / 2
        + (end - start) / 2 * mp.cos(mp.pi * (2 * i + 1) / (2 * count))
        for i in range(count)
    ]
    # Newton's divided differences, then powers of x
    differences = [one.f(x) for x in points]
    for j in range(1, count):
        for i in range(count - 1, j - 1, -1):
            change = differences[i] - differences[i - 1]
            differences[i] = change / (points[i] - points[i - j])
    made = [mp.mpf(0)]
    for x, difference in reversed(list(zip(points, differences, strict=True))):
        shifted = [mp.mpf(0), *made]
        made = [a - x * b for a, b in zip(shifted, [*made, 0], strict=True)]
        made[0] += difference
    return made[:count]


def write_module() -> str:
    """The text of the module."""
    parts = [HEAD]
    for place, name in enumerate(("DOUBLE_TABLE", "SINGLE_TABLE")):
        parts.append(f"{name}: dict[str, tuple[float, ...]] = {{\n")
        for key, one in TABLE.items():
            with mp.workdps(50):
                exact = interpolate(one, one.degrees[place])
            rounded = [float(c) for c in exact]
            if place:
                rounded = [float(np.float32(c)) for c in rounded]
            lines = "".join(f"        {c!r},\n" for c in rounded)
            parts.append(f'    "{key}": (\n{lines}    ),\n')
        parts.append("}\n")
    return "".join(parts)


if __name__ == "__main__":
    text = write_module()
    if "--write" in sys.argv:
        Path(FILE).write_text(text)
    else:
        print(text)
