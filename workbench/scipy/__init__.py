"""SciPy's names that NumPy cannot dispatch: `workbench.scipy.signal.convolve`.

SciPy's ufuncs take Tensors as they are (`scipy.special.erf(x)`); its plain
functions do not ask NumPy's protocols, so they stand here under the same names, one
module for each of SciPy's, for Tensors and arrays. Each is loaded when first used.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

__all__ = [
    "fft",
    "integrate",
    "interpolate",
    "linalg",
    "ndimage",
    "optimize",
    "signal",
    "sparse",
    "spatial",
    "special",
    "stats",
]


def __getattr__(name: str) -> ModuleType:
    if name not in __all__:
        raise AttributeError(f"module 'workbench.scipy' has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
