"""Convolutions and correlations."""

from __future__ import annotations

import numpy as np
import scipy.signal

from tests.ops.samples.table import Table, apart
from workbench.ops.convolution import convolved

row = Table()

for _a, _b in ((5, 3), (3, 5), (4, 4), (4, 1), (1, 1), (5, 2), (2, 5)):
    for _mode in ("full", "same", "valid"):
        row(
            f"convolve {_a} {_b} {_mode}",
            lambda a, b, m=_mode: np.convolve(a, b, m),
            apart(_a),
            apart(_b),
            kinds="fc" if _a > _b else "f",
        )
        row(
            f"correlate {_a} {_b} {_mode}",
            lambda a, b, m=_mode: np.correlate(a, b, m),
            apart(_a),
            apart(_b),
            kinds="fc" if _a != _b else "f",
        )
row("convolve with itself", lambda x: np.convolve(x, x), apart(3))
row(
    "convolve by a constant",
    lambda x: np.convolve(np.array([1, -2.0]), x, "same"),
    apart(4),
)
for _method in ("direct", "fft"):
    for _n, _m in [((3, 4), (2, 3)), ((2, 5), (2, 2)), ((2, 2, 3), (1, 2, 2))]:
        for _mode in ("full", "same", "valid"):
            row(
                f"convolve_nd {_n} {_m} {_mode} {_method}",
                lambda a, b, m=_mode, how=_method: convolved(a, b, m, how),
                apart(*_n),
                apart(*_m),
                kinds="fc" if _n == (3, 4) else "f",
                truth=lambda a, b, m=_mode: scipy.signal.convolve(a, b, m, "direct"),
            )
    row(
        f"convolve_nd, a smaller first array, {_method}",
        lambda a, b, how=_method: convolved(a, b, "full", how),
        apart(2, 1),
        apart(2, 3),
        truth=lambda a, b: scipy.signal.convolve(a, b, "full", "direct"),
    )
    row(
        f"convolve_nd fft {_method} of examples",
        lambda a, b, how=_method: convolved(a, b, "full", how, 1),
        apart(2, 3),
        apart(2, 2),
        truth=lambda a, b: np.stack([np.convolve(*p) for p in zip(a, b, strict=True)]),
    )
