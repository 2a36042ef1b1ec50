"""Derivatives on a Dask cluster: ``import workbench.distributed as wd``.

The names are those of `workbench` itself, with ``client=`` and ``progress=``; what
comes back is what they give. Needs Dask: ``pip install 'autodiff-workbench[distributed]'``.
"""

from workbench.distributed.diagnosis import RowFindings, diagnose
from workbench.distributed.gradient import RowGradient, grad, value_and_grad

__all__ = ["RowFindings", "RowGradient", "diagnose", "grad", "value_and_grad"]
