"""Derivatives on a Dask cluster: ``import workbench.distributed as wd``.

The names are those of `workbench` itself, with ``client=`` and ``progress=``; what
comes back is what they give. Needs Dask:
``pip install 'autodiff-workbench[distributed]'``.
"""

from workbench.distributed.checks import check_grads
from workbench.distributed.diagnosis import RowFindings, diagnose
from workbench.distributed.gradient import RowGradient, grad, value_and_grad
from workbench.distributed.matrices import (
    SharedBatch,
    SharedMatrix,
    hessian,
    jacobian,
    vmap,
)
from workbench.distributed.training import session

__all__ = [
    "RowFindings",
    "RowGradient",
    "SharedBatch",
    "SharedMatrix",
    "check_grads",
    "diagnose",
    "grad",
    "hessian",
    "jacobian",
    "session",
    "value_and_grad",
    "vmap",
]
