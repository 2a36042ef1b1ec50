"""autograd's modules, and where each is found here."""

from __future__ import annotations

from workbench.compat.autograd.extend import restore_rules
from workbench.compat.namespace import ForeignNamespace

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

NAMESPACE = ForeignNamespace(
    "autograd", __name__.rpartition(".")[0], PLACES, ALIASES, end=restore_rules
)
