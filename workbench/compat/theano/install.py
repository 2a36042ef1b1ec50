"""`install`: ``import theano`` finds this package, until `uninstall`."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from workbench.errors import UsageError
from workbench.graph.conversions import Conversions
from workbench.graph.op import declare
from workbench.graph.tensor import Tensor

__all__ = ["install", "uninstall"]

ROOT = __name__.rpartition(".")[0]

#: Where each module of Theano's is found, from the package on.
PLACES = """
    compile compile.builders compile.debugmode compile.function_module compile.io
    compile.mode compile.monitormode compile.nanguardmode compile.ops compile.pfunc
    compile.sharedvalue config configparser gof gof.graph gof.op gof.type gof.utils
    gradient ifelse printing sandbox sandbox.rng_mrg scalar scan_module
    scan_module.scan_utils scan_module.scan_views sparse tensor tensor.basic
    tensor.elemwise tensor.extra_ops
    tensor.nlinalg tensor.nnet tensor.nnet.abstract_conv tensor.nnet.bn tensor.nnet.conv
    tensor.nnet.nnet tensor.nnet.sigm tensor.opt tensor.random tensor.raw_random
    tensor.shared_randomstreams tensor.sharedvar tensor.signal tensor.signal.conv
    tensor.signal.downsample tensor.signal.pool tensor.slinalg tensor.subtensor
    tensor.type updates
""".split()

#: Modules whose name is a function's here: what they held is found there.
ELSEWHERE = {"tensor.var": "tensor"}


#: Comparisons by which lists look for a variable, and what they ask in Theano.
SAME = {declare("equal"): True, declare("not_equal"): False}


def _truth(x: Tensor) -> bool:
    """The truth of a Tensor; of ``x == y`` without a value, whether they are the same.

    So ``x in [y, x]`` and ``params.index(x)`` find a variable, as in Theano.
    """
    if (
        x._value is None
        and x.op in SAME
        and all(isinstance(i, Tensor) for i in x.inputs)
    ):
        a, b = x.inputs
        return (a is b) is SAME[x.op]
    return Conversions.__bool__(x)


def _found(place: str) -> Any:
    found: Any = sys.modules[ROOT]
    for part in ELSEWHERE.get(place, place).split("."):
        found = getattr(found, part)
    return found


def install() -> ModuleType:
    """Make ``import theano``, ``import theano.tensor as T`` and the like work.

    Until `uninstall`, the truth of ``x == y`` is whether two variables are the same, so
    that ``x in params`` and ``params.index(x)`` work as in Theano.

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
    >>> T.dscalar("x").dtype
    dtype('float64')
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
    Tensor.__bool__ = _truth  # type: ignore[assignment, method-assign]
    return ours


def uninstall() -> None:
    """Forget what `install` did; what programs have imported they keep."""
    if sys.modules.get("theano") is sys.modules[ROOT]:
        if "__bool__" in vars(Tensor):
            del Tensor.__bool__
        for name in ["theano", *(f"theano.{place}" for place in [*PLACES, *ELSEWHERE])]:
            sys.modules.pop(name, None)
