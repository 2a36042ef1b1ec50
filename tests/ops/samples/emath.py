"""`numpy.emath`, whose results are complex where the values ask for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.samples.table import Table, apart, inside, positive

row = Table()


def size(name: str, *args: Any) -> Any:
    """The magnitude, which is real for all values."""
    return np.abs(getattr(np.emath, name)(*args) + 1j)


for _name in ("sqrt", "log", "log2", "log10"):
    row(f"emath.{_name}", lambda x, n=_name: size(n, x), positive(3), batch=False)
    row(f"emath.{_name} of a negative", lambda x, n=_name: size(n, -x), positive(3),
        batch=False)  # fmt: skip
for _name in ("arccos", "arcsin", "arctanh"):
    row(f"emath.{_name}", lambda x, n=_name: size(n, x), inside(3), batch=False)
    for _sign in (-1.0, 1.0):
        row(
            f"emath.{_name} beyond {_sign:+.0f}",
            lambda x, n=_name, s=_sign: size(n, s * (1 + x)),
            positive(3),
            batch=False,
        )
row("emath.logn", lambda n, x: size("logn", n, x), lambda rng: 2 + positive()(rng),
    apart(4), batch=False)  # fmt: skip
row("emath.power", lambda x: size("power", x, 2.5), apart(3), batch=False)
row("emath.power whole", lambda x: np.emath.power(x, -2), positive(2), batch=False)
