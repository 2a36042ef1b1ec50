"""`scipy.spatial` for Tensors and arrays: distances, nearest neighbours, rotations.

The same names, arguments and values as SciPy's.

Examples
--------
>>> import numpy as np, workbench as wb
>>> from workbench.scipy.spatial import distance
>>> x = np.array([[0.0, 0.0], [3.0, 4.0]])
>>> distance.cdist(x, x)
array([[0., 5.],
       [5., 0.]])
>>> wb.grad(lambda x: distance.pdist(x)[0])(x)
array([[-0.6, -0.8],
       [ 0.6,  0.8]])
"""

from __future__ import annotations

from workbench.scipy.spatial import distance, transform
from workbench.scipy.spatial.neighbours import KDTree, cKDTree

__all__ = ["KDTree", "cKDTree", "distance", "transform"]
