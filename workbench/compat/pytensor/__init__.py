"""PyTensor's names over Workbench: its programs run as they stand.

``from workbench.compat import pytensor``, or `install`, after which ``import pytensor``
finds this package. PyTensor is Theano's heir: what it has from there is that of
`workbench.compat.theano`, with what differs; here stand the names that came since.
The type of a variable tells the lengths that are 1 and no other ones. Not known are
draws from a generator that is given, ``xtensor``, rewrites and linkers; modes have no
effect.

Examples
--------
>>> from workbench.compat import pytensor
>>> _ = pytensor.install()
>>> import pytensor.tensor as pt
>>> x = pt.vector("x", shape=(2,))
>>> f = pytensor.function([x], pytensor.grad(pt.logsumexp(x), x))
>>> f([0.0, 0.0])
array([0.5, 0.5])
>>> pytensor.uninstall()
"""

from __future__ import annotations

from workbench.compat import theano
from workbench.compat.pytensor import compile, graph, tensor
from workbench.compat.pytensor.compile import wrap_py
from workbench.compat.pytensor.graph import clone_replace, graph_replace
from workbench.compat.pytensor.namespace import NAMESPACE
from workbench.compat.theano.printing import debugprint as dprint
from workbench.compat.theano.tensor import as_tensor

__all__ = [
    "as_tensor",
    "clone_replace",
    "compile",
    "dprint",
    "graph",
    "graph_replace",
    "install",
    "tensor",
    "uninstall",
    "wrap_py",
]

#: The release whose names these are, for programs that ask.
__version__ = "2.31.0"

install, uninstall = NAMESPACE.install, NAMESPACE.uninstall
__getattr__ = NAMESPACE.fall_back("", theano)
__dir__ = NAMESPACE.list_names("", __all__, theano)
