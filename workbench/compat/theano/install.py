"""`install`: ``import theano`` finds this package, until `uninstall`."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Any

from workbench.compat.theano import behaving
from workbench.errors import UsageError

__all__ = ["install", "uninstall"]

ROOT = __name__.rpartition(".")[0]

#: Where each module of Theano's is found, from the package on.
PLACES = """
    compile compile.builders compile.debugmode compile.function_module compile.io
    compile.mode compile.monitormode compile.nanguardmode compile.ops compile.pfunc
    compile.sharedvalue config configparser gof gof.fg gof.graph gof.null_type gof.op
    gof.type gof.utils gradient ifelse printing sandbox sandbox.rng_mrg scalar
    scan_module scan_module.scan_utils scan_module.scan_views sparse tensor tensor.basic
    tensor.elemwise tensor.extra_ops
    tensor.nlinalg tensor.nnet tensor.nnet.abstract_conv tensor.nnet.bn tensor.nnet.conv
    tensor.nnet.nnet tensor.nnet.sigm tensor.opt tensor.random tensor.raw_random
    tensor.shared_randomstreams tensor.sharedvar tensor.signal tensor.signal.conv
    tensor.signal.downsample tensor.signal.pool tensor.slinalg tensor.subtensor
    tensor.type updates
""".split()

#: Modules whose name is a function's here: what they held is found there.
ELSEWHERE = {"tensor.var": "tensor"}


class _Unknown(MetaPathFinder):
    """Says of a module of Theano's that it is not there, and what is."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.startswith("theano."):
            raise ModuleNotFoundError(
                f"{name} is not known to Workbench. Of Theano's modules it has"
                f" {', '.join(sorted(PLACES))}.",
                name=name,
            )


UNKNOWN = _Unknown()


def _found(place: str) -> Any:
    found: Any = sys.modules[ROOT]
    for part in ELSEWHERE.get(place, place).split("."):
        found = getattr(found, part)
    return found


def install() -> ModuleType:
    """Make ``import theano``, ``import theano.tensor as T`` and the like work.

    Until `uninstall`, variables behave as in Theano where that differs from NumPy's
    ways: the truth of ``x == y`` is whether two variables are the same, so that ``x in
    params`` and ``params.index(x)`` work; any other variable is true, but for
    conditions; ``x.dtype`` is a string for programs; ``str(x)`` is the name of ``x``.

    Returns
    -------
    The module that ``import theano`` gives from now on, in this process.

    Raises
    ------
    UsageError
        If Theano itself has been imported.

    Examples
    --------
    >>> from workbench.compat import theano
    >>> _ = theano.install()
    >>> import theano.tensor as T
    >>> T.dscalar("x").type
    TensorType(float64, scalar)
    >>> theano.uninstall()
    """
    ours = sys.modules[ROOT]
    known = sys.modules.get("theano")
    if known is not None and known is not ours:
        raise UsageError(
            f"theano itself has been imported, from {getattr(known, '__file__', '?')}."
            " Call install() before anything imports it, in a fresh process."
        )
    sys.modules["theano"] = ours
    for place in [*PLACES, *ELSEWHERE]:
        sys.modules[f"theano.{place}"] = _found(place)
    if UNKNOWN not in sys.meta_path:
        sys.meta_path.insert(0, UNKNOWN)
    behaving.begin()
    return ours


def uninstall() -> None:
    """Forget what `install` did; what programs have imported they keep."""
    if sys.modules.get("theano") is sys.modules[ROOT]:
        behaving.end()
        sys.meta_path.remove(UNKNOWN)
        for name in ["theano", *(f"theano.{place}" for place in [*PLACES, *ELSEWHERE])]:
            sys.modules.pop(name, None)
