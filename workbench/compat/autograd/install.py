"""`install`: ``import autograd`` finds this package, until `uninstall`."""

from __future__ import annotations

from types import ModuleType

from workbench.compat.autograd.extend import restore_rules
from workbench.compat.namespace import ForeignNamespace

__all__ = ["NAMESPACE", "install", "uninstall"]

#: The modules of autograd's.
PLACES = """
    builtins core differential_operators extend misc misc.fixed_points misc.flatten
    misc.optimizers misc.tracers numpy numpy.fft numpy.linalg numpy.random scipy
    scipy.integrate scipy.linalg scipy.misc scipy.signal scipy.special scipy.stats
    scipy.stats.beta scipy.stats.chi2 scipy.stats.dirichlet scipy.stats.gamma
    scipy.stats.multivariate_normal scipy.stats.norm scipy.stats.poisson
    scipy.stats.t test_util tracer util wrap_util
""".split()

#: Modules that hold NumPy's functions once more, or their boxes and spaces.
ALIASES = {
    "numpy.numpy_wrapper": "numpy",
    "numpy.numpy_boxes": "numpy",
    "numpy.numpy_jvps": "numpy",
    "numpy.numpy_vjps": "numpy",
    "numpy.numpy_vspaces": "vector_spaces",
    "convenience_wrappers": "differential_operators",
    "optimizers": "misc.optimizers",
}

NAMESPACE = ForeignNamespace("autograd", __name__.rpartition(".")[0], PLACES, ALIASES)


def install() -> ModuleType:
    """Make ``import autograd.numpy as np`` and the like work.

    Returns
    -------
    The module that ``import autograd`` gives from now on, in this process.

    Raises
    ------
    UsageError
        If autograd itself has been imported.

    Examples
    --------
    >>> from workbench.compat import autograd
    >>> _ = autograd.install()
    >>> import autograd.numpy as np
    >>> from autograd import grad
    >>> float(grad(np.tanh)(0.0))
    1.0
    >>> autograd.uninstall()
    """
    return NAMESPACE.install()


def uninstall() -> None:
    """Undo `install`, and `defvjp` for functions of NumPy's.

    Names that programs have imported already stay.
    """
    restore_rules()
    NAMESPACE.uninstall()
