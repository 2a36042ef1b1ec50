"""autograd's names over Workbench: its programs run as they stand.

``from workbench.compat import autograd``, or `install`, after which ``import autograd``
finds this package. A box is a `workbench.Tensor`, a function of `autograd.numpy` is
NumPy's own; nothing is computed here.

What differs
------------
- Results that are single numbers are NumPy's scalars.
- Gradients at ties and kinks are the library's: ties of ``max`` share, ``abs`` and a
  norm have 0 at 0, and the branch of ``where`` that is not taken adds no NaN.
- Forward mode is the transpose where a primitive has no ``defjvp``.
- What a rule has already needs no `defvjp`; one for a function of NumPy takes its
  place from then on, in all threads, until `uninstall`.
- `autograd.test_util.check_grads` is `workbench.check_grads`: its errors name the op.

What is not known raises an error that names it.
"""

from __future__ import annotations

from workbench.compat.autograd import (
    builtins,
    core,
    differential_operators,
    extend,
    misc,
    numpy,
    scipy,
    test_util,
    tracer,
    util,
    wrap_util,
)
from workbench.compat.autograd.builtins import dict, isinstance, list, tuple, type
from workbench.compat.autograd.differential_operators import (
    checkpoint,
    deriv,
    elementwise_grad,
    grad,
    grad_and_aux,
    grad_named,
    hessian,
    hessian_tensor_product,
    hessian_vector_product,
    holomorphic_grad,
    jacobian,
    make_ggnvp,
    make_hvp,
    make_jvp,
    make_jvp_reversemode,
    make_vjp,
    multigrad_dict,
    tensor_jacobian_product,
    value_and_grad,
    vector_jacobian_product,
)
from workbench.compat.autograd.extend import primitive
from workbench.compat.autograd.namespace import NAMESPACE

__all__ = [
    "builtins",
    "checkpoint",
    "core",
    "deriv",
    "dict",
    "differential_operators",
    "elementwise_grad",
    "extend",
    "grad",
    "grad_and_aux",
    "grad_named",
    "hessian",
    "hessian_tensor_product",
    "hessian_vector_product",
    "holomorphic_grad",
    "install",
    "isinstance",
    "jacobian",
    "list",
    "make_ggnvp",
    "make_hvp",
    "make_jvp",
    "make_jvp_reversemode",
    "make_vjp",
    "misc",
    "multigrad_dict",
    "numpy",
    "primitive",
    "scipy",
    "tensor_jacobian_product",
    "test_util",
    "tracer",
    "tuple",
    "type",
    "uninstall",
    "util",
    "value_and_grad",
    "vector_jacobian_product",
    "wrap_util",
]

#: The release whose names these are, for programs that ask.
__version__ = "1.8.0"

install, uninstall = NAMESPACE.install, NAMESPACE.uninstall
__getattr__ = NAMESPACE.fall_back()
