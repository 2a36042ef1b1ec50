"""`autograd.scipy`: SciPy's modules, with ours where SciPy's take no Tensors.

They are what traced code finds under SciPy's own names; `signal` has autograd's
`convolve` besides.
"""

from __future__ import annotations

import scipy.integrate
import scipy.linalg
import scipy.signal
import scipy.special
import scipy.stats

from workbench.compat.autograd.namespace import NAMESPACE
from workbench.compat.autograd.scipy import signal
from workbench.numpy.namespaces import swap_scipy

__all__ = ["integrate", "linalg", "misc", "signal", "special", "stats"]

integrate = swap_scipy(scipy.integrate)
linalg = swap_scipy(scipy.linalg)
special = swap_scipy(scipy.special)
stats = swap_scipy(scipy.stats)
misc = special  # where SciPy had logsumexp once

__getattr__ = NAMESPACE.fall_back("scipy", swap_scipy(scipy))
