"""A stand-in for CuPy on a machine without a GPU: NumPy inside, CuPy outside.

`Foreign` answers to what `surface.json` says that CuPy has: names, keywords, the types
of ufuncs' loops. It refuses what CuPy refuses: to become an array of NumPy by itself,
to be mixed with one, and what `REFUSALS` names, which a signature does not tell.
`use_stand_in` puts its modules in the place of ``cupy`` and ``cupyx.scipy``.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from functools import cache
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.gpu.surface import MODULES, SURFACE
from workbench.numpy.reach import LIBRARIES
from workbench.ops.special.define import Special

__all__ = ["Foreign", "inner", "to_device", "to_host", "use_stand_in"]

LIBRARIES.add(__name__)  # as CuPy is, whose names of NumPy stay what they are
SCALARS = (bool, int, float, complex, np.generic)

#: Functions that take what is NumPy's to where it is asked to be.
MOVING = set("array asarray asanyarray ascontiguousarray asfortranarray".split())
#: The ufuncs that have a method at all, read off CuPy's source.
METHODS = {
    "reduce": {"add", "multiply"},
    "accumulate": {"add", "multiply"},
    "reduceat": {"add"},
    "at": set(
        "add subtract maximum minimum bitwise_and bitwise_or bitwise_xor".split()
    ),
}
COMPARISONS = set("less less_equal greater greater_equal equal not_equal".split())
#: The keywords of a ufunc's call and of its methods.
CALL_SETTINGS = {"out", "dtype", "casting"}
METHOD_SETTINGS = CALL_SETTINGS | {"axis", "axes", "keepdims"}


# What CuPy 14.2 refuses though its signature does not tell; its source, and a run of
# all samples on an H200, say so.


def _refuse_scalars(*names: str) -> Callable[..., None]:
    """Return a check that these arguments are arrays of the device."""

    def check(given: dict[str, Any]) -> None:
        for name in names:
            parts = given.get(name)
            for x in parts if isinstance(parts, (list, tuple)) else [parts]:
                if x is not None and not isinstance(x, Foreign):
                    raise TypeError(
                        f"Argument {name!r} has incorrect type (expected"
                        f" cupy._core.core._ndarray_base, got {type(x).__name__})"
                    )

    return check


def _refuse_broadcast(given: dict[str, Any]) -> None:
    a, b = given["a"], given["b"]
    if b.ndim == 1 and a.shape[-1] != b.size:
        raise ValueError("a must have (..., M, M) shape and b must have (M,)")
    if b.ndim != 1 and a.shape[:-1] != b.shape[:-1]:
        raise ValueError(
            "a must have (..., M, M) shape and b must have (..., M, K) for"
            " multidimensional b"
        )


def _refuse_other_batches(given: dict[str, Any]) -> None:
    a, b = given["a"], given["b"]
    if a.ndim > 2 and a.shape[:-2] != b.shape[: a.ndim - 2]:
        raise ValueError("incompatible batch count")


def _refuse_stacks(given: dict[str, Any]) -> None:
    first = next(iter(given.values()))
    a = first[0] if isinstance(first, tuple) else first
    if a.ndim != 2:
        raise np.linalg.LinAlgError(
            f"{a.ndim}-dimensional array given. The array must be two-dimensional"
        )


def _refuse_types(given: dict[str, Any]) -> None:
    if given.get("type", 2) not in (2, 3):
        raise NotImplementedError("Only DCT-II and DCT-III have been implemented.")


def _refuse_axis(given: dict[str, Any]) -> None:
    if given.get("axis") is not None:
        raise NotImplementedError("axis option is not supported yet")


def _refuse_lists(given: dict[str, Any]) -> None:
    if not isinstance(given["a"], Foreign):
        raise NotImplementedError("Only int or ndarray are supported for a")


def _refuse_tuple(given: dict[str, Any]) -> None:
    if not isinstance(given["keys"], Foreign):
        raise AttributeError("'tuple' object has no attribute 'ndim'")
    if given["keys"].ndim > 2:
        raise NotImplementedError("Keys with the rank of three or more")


def _refuse_general_roots(given: dict[str, Any]) -> None:
    if given["p"].size > 2:
        raise NotImplementedError(
            "Only complex Hermitian and real symmetric 2d arrays are supported"
        )


def _refuse_other_sorts(given: dict[str, Any]) -> None:
    if given.get("kind") not in (None, "stable"):
        raise ValueError("kind can only be None or 'stable'")


def _refuse_half(given: dict[str, Any]) -> None:
    for x in given.values():
        if isinstance(x, Foreign) and x.dtype == np.float16:
            raise TypeError("Array type float16 is unsupported in linalg")


_REFUSALS: dict[str, Callable[[dict[str, Any]], None]] = {
    "cupy.concatenate": _refuse_scalars("tup"),
    "cupy.stack": _refuse_scalars("tup"),
    "cupy.lexsort": _refuse_tuple,
    "cupy.argsort": _refuse_other_sorts,
    "cupy.sort": _refuse_other_sorts,
    "cupy.ndarray.argsort": _refuse_other_sorts,
    "cupy.ndarray.sort": _refuse_other_sorts,
    "cupy.packbits": _refuse_axis,
    "cupy.unpackbits": _refuse_axis,
    "cupy.searchsorted": _refuse_lists,
    "cupy.roots": _refuse_general_roots,
    "cupy.linalg.solve": _refuse_broadcast,
    "cupyx.scipy.linalg.solve_triangular": _refuse_other_batches,
    "cupyx.scipy.linalg.lu": _refuse_stacks,
    "cupyx.scipy.linalg.lu_factor": _refuse_stacks,
    "cupyx.scipy.linalg.lu_solve": _refuse_stacks,
    "cupyx.scipy.linalg.expm": _refuse_stacks,
    **{f"cupyx.scipy.fft.{i}{k}": _refuse_types for i in ("", "i") for k in
       ("dct", "dst", "dctn", "dstn")},
}  # fmt: skip


@cache
def find_signature(parameters: str) -> inspect.Signature:
    """Return the signature that a line of the surface stands for."""
    made: Callable[..., Any] = eval(f"lambda {parameters}: 0")
    return inspect.signature(made)


def check_call(module: str, name: str, args: Any, kwargs: Any) -> None:
    """Refuse a call that CuPy's function of that name does not take."""
    parameters = SURFACE[module][name]
    if parameters is None or parameters.startswith("->"):
        return
    bound = find_signature(parameters).bind(*args, **kwargs)
    if refuse := _REFUSALS.get(f"{module}.{name}"):
        refuse(bound.arguments)
    if module == "cupy.linalg":
        _refuse_half(bound.arguments)


def to_device(x: Any) -> Any:
    """Return what a function of NumPy gave as CuPy has it: 0-d arrays for numbers."""
    if isinstance(x, (np.ndarray, np.generic)):
        return Foreign(x)
    if isinstance(x, tuple):  # named ones too
        parts = map(to_device, x)
        return tuple(parts) if type(x) is tuple else type(x)(*parts)
    return list(map(to_device, x)) if type(x) is list else x


def to_host(x: Any, mixed: bool = False) -> Any:
    """Return the values inside; an array of NumPy among them is refused."""
    if isinstance(x, Foreign):
        return x._inner
    if isinstance(x, np.ndarray) and not mixed:
        raise TypeError(f"Unsupported type {type(x)}: a NumPy array among CuPy's")
    if type(x) in (tuple, list):
        return type(x)(to_host(part, mixed) for part in x)
    if type(x) is dict:
        return {k: to_host(v, mixed) for k, v in x.items()}
    return x


def inner(x: Any) -> Any:
    """The values of a device array, which everything in a result must be."""
    if isinstance(x, (tuple, list)):
        return [inner(part) for part in x]
    assert isinstance(x, Foreign), f"{type(x)} came back"
    return x._inner


class Foreign(np.lib.mixins.NDArrayOperatorsMixin):
    """An array on a device that is not there."""

    __module__ = "cupy"
    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, inner: Any) -> None:
        self._inner = np.asarray(inner)
        if self._inner.dtype.kind not in "biufc":
            raise ValueError(f"Unsupported dtype {self._inner.dtype}")

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": self.shape, "typestr": self.dtype.str, "version": 3}

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any
    ) -> Any:
        name = ufunc.__name__
        loops = SURFACE["cupy"].get(name) or SURFACE["cupyx.scipy.special"].get(name)
        known = (Foreign, np.ndarray, *SCALARS)
        if loops is None or (
            method in ("__call__", "outer")
            and not all(isinstance(x, known) for x in inputs)
        ):
            return NotImplemented
        if method in METHODS and name not in METHODS[method]:
            raise NotImplementedError(f"`{name}.{method}` is not supported")
        if ufunc.nout > 1 and "out" in kwargs:
            raise ValueError("The 'out' parameter must have exactly one array value")
        known_settings = CALL_SETTINGS if method == "__call__" else METHOD_SETTINGS
        if name in ("matmul", "vecdot"):
            known_settings = METHOD_SETTINGS
        if more := set(kwargs) - known_settings:
            raise TypeError(f"Wrong arguments {sorted(more)}")
        if name in COMPARISONS:
            inputs = tuple(
                x.item() if isinstance(x, np.ndarray) and x.ndim == 0 else x
                for x in inputs
            )
        values = [
            to_host(x, mixed=method in ("at", "reduceat") and i == 1)
            for i, x in enumerate(inputs)
        ]
        settings = to_host(kwargs)
        if "out" in kwargs:
            getattr(ufunc, method)(*values, **settings)
            return kwargs["out"][0]
        if method == "at" and name in ("maximum", "minimum"):
            # Its atomics are those of float32.
            return _update_in_single(ufunc, *values)
        if method == "__call__" and "dtype" not in kwargs and loops.startswith("->"):
            return to_device(_run_loop(ufunc, values, loops[3:].split()))
        return to_device(getattr(ufunc, method)(*values, **settings))

    def __array_function__(
        self, function: Any, kinds: Any, args: Any, kwargs: Any
    ) -> Any:
        module = function.__module__.replace("numpy", "cupy", 1)
        name = function.__name__
        if name not in SURFACE.get(module, ()) or not all(
            issubclass(kind, (Foreign, np.ndarray)) for kind in kinds
        ):
            return NotImplemented
        check_call(module, name, args, kwargs)
        if name.endswith("_like") and kwargs.get("shape") == ():
            # It takes no axes for no shape.
            kwargs = {k: v for k, v in kwargs.items() if k != "shape"}
        mixed = name in MOVING
        return to_device(function(*to_host(args, mixed), **to_host(kwargs, mixed)))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in SURFACE["cupy.ndarray"]:
            raise AttributeError(f"'cupy.ndarray' object has no attribute {name!r}")
        value = getattr(self._inner, name)
        if not callable(value):
            return Foreign(value) if isinstance(value, np.ndarray) else value

        def method(*args: Any, **kwargs: Any) -> Any:
            check_call("cupy.ndarray", name, (self, *args), kwargs)
            return to_device(value(*to_host(args), **to_host(kwargs)))

        return method

    def item(self, *args: Any) -> Any:
        return self._inner.item(*args)

    def tolist(self) -> Any:
        return self._inner.tolist()

    def get(self) -> Any:
        """Return a copy in NumPy, which is asked for by name alone."""
        return self._inner.copy()

    @property
    def shape(self) -> tuple[int, ...]:
        return self._inner.shape

    @property
    def device(self) -> Any:
        return _DEVICE

    def __getitem__(self, index: Any) -> Foreign:
        return Foreign(self._inner[to_host(index, mixed=True)])

    def __setitem__(self, index: Any, value: Any) -> None:
        # Of an entry that is named twice, any of the values may stay: here the first.
        if isinstance(value, np.ndarray) and value.ndim:
            raise TypeError(f"Unsupported type {type(value)}")
        index, value = to_host(index, mixed=True), to_host(value, mixed=True)
        places = np.arange(self._inner.size).reshape(self._inner.shape)[index]
        values = np.broadcast_to(value, places.shape)
        flat = self._inner.reshape(-1) if self._inner.flags.c_contiguous else None
        if flat is None or not np.shares_memory(flat, self._inner):
            self._inner[index] = value
        else:
            flat[places.ravel()[::-1]] = values.ravel()[::-1]

    # Each is a transfer; there is no __index__, as in CuPy.

    def __bool__(self) -> bool:
        return bool(self.get())

    def __float__(self) -> float:
        return float(self.get())

    def __int__(self) -> int:
        return int(self.get())

    def __complex__(self) -> complex:
        return complex(self.get())

    def __len__(self) -> int:
        return len(self._inner)

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"stand_in({self._inner!r})"


class ElementwiseKernel:
    """A kernel of a special function; its values are SciPy's, of the same loop.

    What the kernel itself computes is tested where its source is.
    """

    def __init__(self, ins: str, outs: str, code: str, name: str, **_: Any) -> None:
        self.inputs = len(ins.split(","))
        special = name.removeprefix("workbench_").rpartition("_")[0]
        self.ufunc = Special(special).ufunc

    def __call__(self, *args: Any) -> None:
        values = to_host(list(args[: self.inputs]))
        outs = args[self.inputs :]
        made = self.ufunc(*values)
        for out, y in zip(outs, made if len(outs) > 1 else (made,), strict=True):
            out._inner[...] = y


_DEVICE = SimpleNamespace(id=0)


def _run_loop(ufunc: Any, values: list[Any], loops: list[str]) -> Any:
    """Return a ufunc's values in the dtype that CuPy's first fitting loop gives."""
    given = np.result_type(*values)
    pairs = (loop.split("->") for loop in loops)
    loop = next((p for p in pairs if np.can_cast(given, p[0][0])), None)
    if loop is None:
        raise TypeError(f"Wrong type ({given}) of arguments for cupy_{ufunc.__name__}")
    made = ufunc(*values)
    if ufunc.nout > 1 or len(set(loop[0])) > 1:
        return made
    return np.asarray(made).astype(loop[1], copy=False)


def _update_in_single(ufunc: Any, a: Any, index: Any, values: Any) -> None:
    single = a.astype(np.float32) if a.dtype == np.float64 else a
    before = single.copy()
    ufunc.at(single, index, np.asarray(values, single.dtype))
    changed = np.not_equal(single, before)
    a[changed] = single[changed]


# The modules


def _wrap_function(module: str, name: str, function: Any) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        check_call(module, name, args, kwargs)
        mixed = name in MOVING
        return to_device(function(*to_host(args, mixed), **to_host(kwargs, mixed)))

    if isinstance(function, np.ufunc):
        return _Ufunc(function)
    call.__name__ = name
    return call


class _Ufunc:
    """A ufunc of CuPy: that of NumPy on the stand-in's arrays alone."""

    def __init__(self, ufunc: np.ufunc) -> None:
        self.__name__, self._ufunc = ufunc.__name__, ufunc

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        to_host(args)  # refuses arrays of NumPy
        first = next((x for x in args if isinstance(x, Foreign)), None)
        if first is None:
            return Foreign(self._ufunc(*args, **kwargs))
        made = first.__array_ufunc__(self._ufunc, "__call__", *args, **kwargs)
        if made is NotImplemented:
            raise TypeError(f"Unsupported type among {list(map(type, args))}")
        return made

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ufunc, name)


class _Module(ModuleType):
    """A module of CuPy with the names of its surface."""

    def __getattr__(self, name: str) -> Any:
        known = SURFACE[self.__name__]
        if name.startswith("__") or name not in known:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        model = importlib.import_module(MODULES[self.__name__])
        if self.__name__ == "cupyx.scipy.sparse":
            return _make_sparse(model, name)
        if self.__name__ == "cupyx.scipy.sparse.linalg":
            return _solve_sparse(model, name)
        function = getattr(model, name)
        inner = getattr(function, "__wrapped__", None)
        if isinstance(inner, np.ufunc):  # behind SciPy's array API
            function = inner
        return _wrap_function(self.__name__, name, function)


class _Sparse:
    """A sparse matrix of CuPy: one of SciPy's around the same values."""

    def __init__(self, matrix: Any) -> None:
        self._matrix = matrix

    def __matmul__(self, x: Any) -> Any:
        return to_device(self._matrix @ to_host(x))

    def __rmatmul__(self, x: Any) -> Any:
        return to_device(to_host(x) @ self._matrix)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("to") and len(name) == 5:
            return lambda: _Sparse(getattr(self._matrix, name)())
        if name in ("data", "indices", "indptr", "row", "col"):
            return to_device(getattr(self._matrix, name))
        if name in ("shape", "format", "dtype", "nnz"):
            return getattr(self._matrix, name)
        raise AttributeError(f"the stand-in's sparse matrix has no {name!r}")


def _make_sparse(model: Any, name: str) -> Any:
    def make(parts: Any, **settings: Any) -> _Sparse:
        return _Sparse(getattr(model, name)(to_host(parts), **settings))

    return make


def _solve_sparse(model: Any, name: str) -> Any:
    def solve(a: _Sparse, b: Foreign) -> Any:
        return to_device(getattr(model, name)(a._matrix, to_host(b)))

    return solve


def use_stand_in(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Put the stand-in in the place of CuPy's modules; return that of ``cupy``."""
    names = [n for n in MODULES if n != "cupy.ndarray"]
    made = {n: _Module(n) for n in names}
    for above in ("cupyx", "cupyx.scipy", "cupy.lib"):
        made[above] = ModuleType(above)  # type: ignore[assignment]
    for name, module in made.items():
        monkeypatch.setitem(sys.modules, name, module)
        above, _, last = name.rpartition(".")
        if above:
            setattr(made[above], last, module)
    cupy: Any = made["cupy"]
    cupy.ndarray = Foreign
    cupy.ElementwiseKernel = ElementwiseKernel
    cupy.asnumpy = lambda x: x.get()
    cupy.cuda = SimpleNamespace(
        Device=lambda i: _DEVICE,
        runtime=SimpleNamespace(
            getDeviceCount=lambda: 1,
            getDevice=lambda: 0,
            cudaLimitStackSize=0,
            deviceGetLimit=lambda kind: 2**16,
            # As on a machine without a driver: nothing is compiled here.
            CUDARuntimeError=RuntimeError,
            runtimeGetVersion=lambda: 13000,
            driverGetVersion=lambda: 0,
        ),
    )
    return cupy
