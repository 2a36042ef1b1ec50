"""Kernels of the functions that CuPy lacks: compiled for the host and by NVRTC."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import special

from tests.backends.cupy.nvrtc import load_nvrtc
from tests.ops.special.arguments import arguments_of, differences, tolerance_of
from tests.ops.special.host import (
    HostLibrary,
    by_header,
    compile_for_device,
    function_of,
)
from workbench.ops.special.device import ROWS

#: Headers of which every run of the tests compiles; the rest is long.
SAMPLE = {"cupy/xsf/agm.h", "cupy/xsf/bessel.h", "cupy/xsf/erf.h"}
HEADERS = [
    pytest.param(h, marks=[] if h in SAMPLE else pytest.mark.long) for h in by_header()
]


@pytest.mark.parametrize("header", HEADERS)
def test_kernels_agree_with_scipy_on_the_host(header: str, tmp_path: Path) -> None:
    names = by_header()[header]
    library = HostLibrary(names, tmp_path)
    for name in names:
        function = function_of(name)
        for types, loop in function.loops.items():
            args = arguments_of(name, types)
            with np.errstate(all="ignore"):
                truth = function.ufunc(*args)
            found = library.call(name, loop, args)
            worst = differences(function.ufunc, found, truth)
            assert worst <= tolerance_of(name), (name, types)


@pytest.mark.parametrize("header", HEADERS)
def test_kernels_compile_for_a_device(header: str) -> None:
    nvrtc = load_nvrtc()
    if nvrtc is None:
        pytest.skip("needs NVRTC and the headers of CuPy's wheel: pip install '.[gpu]'")
    assert compile_for_device(nvrtc, by_header()[header], "sm_90")


def test_every_row_has_all_loops_of_scipy() -> None:
    for name in ROWS:
        function = function_of(name)
        single = [t for t in function.ufunc.types if set(t) & {*"fF"}]
        assert function.loops, name
        for types in single:
            assert types.replace("f", "d").replace("F", "D") in function.loops, name


def test_cupy_and_the_table_have_every_ufunc_of_scipy() -> None:
    library = pytest.importorskip("cupyx.scipy.special", exc_type=ImportError)
    names = [n for n in dir(special) if isinstance(getattr(special, n), np.ufunc)]
    assert len(names) > 150
    assert not [n for n in names if n not in ROWS and not hasattr(library, n)]
