"""Kernels of the functions that CuPy lacks: compiled for the host and by NVRTC."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import special

from tests.backends.cupy.nvrtc import Nvrtc, load_nvrtc
from tests.gpu.stand_in import Foreign, use_stand_in
from tests.ops.special.arguments import arguments_of, differences, tolerance_of
from tests.ops.special.host import (
    HostLibrary,
    by_header,
    compile_for_device,
    find_recursive,
    function_of,
)
from workbench.errors import DeviceMemoryError
from workbench.ops.special import device
from workbench.ops.special.device import HEADERS as FOLDER
from workbench.ops.special.device import ROWS, list_options

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


def load_compiler() -> Nvrtc:
    """NVRTC, if the headers that these kernels include are there too."""
    nvrtc = load_nvrtc()
    if nvrtc is None or find_spec("cupy") is None:
        pytest.skip("needs NVRTC and the headers of CuPy's wheel: pip install '.[gpu]'")
    return nvrtc


@pytest.mark.long
@pytest.mark.parametrize("header", by_header())
def test_kernels_compile_and_recursive_functions_are_marked(header: str) -> None:
    names = by_header()[header]
    made = compile_for_device(load_compiler(), names)
    assert len(made["CUBIN"]) > 1000
    kernels = find_recursive(made["PTX"].decode())
    found = {k.rpartition("_")[0] for k in kernels} & set(names)
    assert found <= {name for name in names if function_of(name).recursive}


def test_a_changed_header_is_compiled_anew(tmp_path: Path) -> None:
    """CuPy finds what it has compiled by the source and the options alone."""
    copy = Path(shutil.copytree(FOLDER, tmp_path / "include"))
    before = list_options(copy)
    assert before[1:] == list_options()[1:]
    with (copy / "carlson.h").open("a") as header:
        header.write("// changed\n")
    list_options.cache_clear()
    assert list_options(copy)[1:] != before[1:]


class Refusal(Exception):
    """What a GPU says whose memory is full."""


def make_cuda(asked: list[int], full: bool = False) -> Any:
    """CUDA with the limit of its start; each that is set is noted."""

    def set_limit(kind: int, size: int) -> None:
        asked.append(size)
        if full:
            raise Refusal("out of memory")

    api = SimpleNamespace(
        getDevice=lambda: 0,
        cudaLimitStackSize=0,
        deviceGetLimit=lambda kind: 1024,
        deviceSetLimit=set_limit,
        getDeviceProperties=lambda i: {
            "multiProcessorCount": 132, "maxThreadsPerMultiProcessor": 2048,
        },
        CUDARuntimeError=Refusal,
    )  # fmt: skip
    return SimpleNamespace(runtime=api)


def test_only_recursive_functions_take_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    cupy, asked = use_stand_in(monkeypatch), list[int]()
    cupy.cuda = make_cuda(asked)
    monkeypatch.setattr(device, "_RAISED", set())
    x = Foreign(np.array([0.5, 1.5]))
    function_of("erfcx")(x)
    assert asked == []
    function_of("jv")(x, x)
    function_of("jv")(x, x)
    assert asked == [device.STACK]


def test_arrays_of_the_host_go_there_and_numbers_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A kernel takes an array of the host nowhere; a number costs it no transfer."""
    cupy = use_stand_in(monkeypatch)
    moved, move = [], cupy.asarray
    cupy.asarray = lambda x, *more: moved.append(x) or move(x, *more)
    x, orders = np.array([0.5, 1.5]), np.array([0.5, 2.0])
    for order in (orders, 2.0, np.float64(2)):
        found = function_of("jv")(order, Foreign(x))
        np.testing.assert_array_equal(found.get(), special.jv(order, x))
    assert len(moved) == 1
    assert moved[0] is orders


def test_no_room_for_stack_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    cupy = use_stand_in(monkeypatch)
    cupy.cuda = make_cuda([], full=True)
    monkeypatch.setattr(device, "_RAISED", set())
    x = Foreign(np.array([0.5, 1.5]))
    with pytest.raises(DeviceMemoryError, match=r"scipy\.special\.jv.* 2\.2 GB"):
        function_of("jv")(x, x)


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
