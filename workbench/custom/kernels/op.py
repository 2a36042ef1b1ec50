"""`wb.KernelOp`: an op with a value computed by C, C++ or CUDA source."""

from __future__ import annotations

import re
import shlex
import warnings
from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, Self
from weakref import WeakKeyDictionary

import numpy as np

from workbench.autodiff.call import pull_through, push_through
from workbench.core import blame, sites, source, types
from workbench.core.op import CudaCall
from workbench.core.tensor import Tensor, admit
from workbench.core.types import Spec
from workbench.custom.kernels.cuda import (
    ARCHITECTURE,
    check,
    is_device,
    launch,
    plan_launch,
)
from workbench.custom.kernels.native import Native, load_native
from workbench.custom.kernels.signature import Bound, KernelArray, Signature
from workbench.custom.kernels.toolchain import MissingCompiler
from workbench.custom.kernels.units import SETTINGS, THROWN, Home, Text
from workbench.custom.op import Op
from workbench.errors import KernelError, UsageError, WorkbenchError
from workbench.overrides.targets import snake

# What the class of a kernel declares: its settings, sources and threads.

#: What a class declares; none of it is a setting.
DECLARED = (
    "inputs", "outputs", "types", "c", "cpp", "cuda", "flags", "threads", "messages",
    "derivatives", "time_limit",
)  # fmt: skip

#: What a setting of each type may be.
WANTED: dict[type, Any] = {bool: (bool, np.bool_), int: Integral, float: Real}


_ARRAY = re.compile(r"\s*([^:\[\],]+?)\s*:\s*([^:\[\],]+\[[^\[\]]*\])\s*(?:,|$)")


def read_arrays(cls: Any, which: str) -> dict[str, str]:
    """Return the arrays of ``"x: float64[n, 3], w: float64[n]"``, or of a mapping."""
    told = getattr(cls, which)
    if not isinstance(told, str):
        return dict(told)
    found: dict[str, str] = {}
    at = 0
    while at < len(told.rstrip()):
        part = _ARRAY.match(told, at)
        if part is None or part[1] in found:
            raise KernelError(
                f"{cls.__qualname__}: {which} = {told!r}: {told[at:].strip()!r} is not"
                " a list of arrays with a name, dtype and shape each. Write"
                f' {which} = "x: float64[n, d], y: float64[]".'
            )
        found[part[1]] = part[2]
        at = part.end()
    return found


def read_dtypes(cls: Any) -> dict[str, Sequence[str]]:
    """Return the dtypes of ``"T: int32 | float64"``, or of a mapping."""
    told = cls.types
    if not isinstance(told, str):
        return dict(told)
    found: dict[str, Sequence[str]] = {}
    for part in filter(str.strip, told.split(",")):
        letter, _, names = part.partition(":")
        found[letter.strip()] = [name.strip() for name in names.split("|")]
    return found


def read_setting_types(cls: type) -> dict[str, type]:
    """Return the type of each setting that a kernel takes."""
    found: dict[str, type] = {}
    for base in reversed(cls.__mro__):
        if not issubclass(base, Op):
            continue
        for name, told in vars(base).get("__annotations__", {}).items():
            if "ClassVar" in str(told) or name.startswith("_"):
                continue
            if name in DECLARED:
                raise UsageError(
                    f"{cls.__qualname__}: {name} is not a setting but belongs to the"
                    f" class: write {name} = ... without an annotation."
                )
            spelled = {kind.__name__: kind for kind in SETTINGS}
            kind = spelled.get(getattr(told, "__name__", told))
            if kind is None:
                raise KernelError(
                    f"{cls.__qualname__}: the setting {name} is declared as {told!r};"
                    " a kernel takes settings of type bool, int or float."
                )
            found[name] = kind
    return found


def read_sources(cls: Any, home: Home) -> dict[str, Text]:
    """Return the sources of a class, by their language."""
    found = {}
    for language in ("c", "cpp", "cuda"):
        told = getattr(cls, language)
        if told is None:
            continue
        if isinstance(told, Path):
            try:
                found[language] = Text(told.read_text(encoding="utf-8"), home, told)
            except OSError as error:
                raise KernelError(
                    f"{cls.__qualname__}: {language} = {told!r} cannot be read:"
                    f" {error.strerror}."
                ) from error
        elif isinstance(told, str):
            found[language] = Text(told, home)
        else:
            raise KernelError(
                f"{cls.__qualname__}: {language} = {told!r} is not a source. Write its"
                " text, or the pathlib.Path of its file."
            )
    if {"c", "cpp"} <= found.keys():
        raise KernelError(f"{cls.__qualname__} has C and C++ source. Keep one of them.")
    if not found and not cls._has_fallback():
        raise KernelError(
            f"{cls.__qualname__} has no source: write c, cpp or cuda = '''...'''."
        )
    return found


def read_flags(cls: Any) -> tuple[str, ...]:
    """Return the flags of a text, ``"-O3 -fopenmp"``, or of a sequence."""
    try:
        found = shlex.split(cls.flags) if isinstance(cls.flags, str) else [*cls.flags]
        wrong = not all(isinstance(flag, str) for flag in found)
    except (TypeError, ValueError):
        wrong = True
    if wrong:
        raise KernelError(
            f"{cls.__qualname__}: flags = {cls.flags!r} are not flags of a compiler."
            ' Write flags = "-O3 -fopenmp".'
        )
    return tuple(found)


def read_threads(cls: Any, signature: Signature) -> KernelArray:
    """Return the text of ``threads`` as a length of the declaration's letters."""
    told = "1" if cls.threads is None else cls.threads
    made = KernelArray.of(cls.name, "threads", f"int64[{told}]")
    known = {*signature.letters, *signature.settings, "size"}
    free = [x for x in made.letters() if x not in known]
    if free or len(made.dims) != 1:
        raise KernelError(
            f"{cls.__qualname__}: threads = {told!r} is not a number of the letters"
            f" {', '.join(sorted(known - {'...'}))}."
        )
    return made


def convert_settings(
    name: str, kinds: dict[str, type], settings: dict[str, Any]
) -> dict[str, Any]:
    """Return the settings in the types that a kernel takes."""
    if settings.keys() != kinds.keys():
        raise UsageError(
            f"{name}: its settings are {', '.join(settings) or 'none'}, and it declares"
            f" {', '.join(kinds) or 'none'}. Declare each as an annotated attribute,"
            " such as n: int, and leave __init__ out."
        )
    for key, value in settings.items():
        kind = kinds[key]
        fits = isinstance(value, WANTED[kind])
        if kind is int and fits:
            fits = not isinstance(value, bool) and -(2**63) <= value < 2**63
        if not fits:
            raise UsageError(
                f"{name}: the setting {key}={value!r} is declared as {kind.__name__},"
                f" and the kernel takes {SETTINGS[kind]}. Give one of those."
            )
    return {key: kinds[key](value) for key, value in settings.items()}


# How a kernel runs: on the CPU, on a GPU, or by the NumPy that stands in for it.


def run_on_host(op: Any, bound: Bound, arrays: Sequence[Any]) -> list[Any]:
    """Return the outputs by the compiled kernel; by the fallback if there is none."""
    try:
        kernel = _compile_kernel(op, bound)
    except MissingCompiler as error:
        if not op._has_fallback():
            raise MissingCompiler(
                f"{op.name}: {error} Or write fallback(self, *arrays) in"
                f" {type(op).__name__}, which computes the same by NumPy."
            ) from None
        _warn(op, error)
        return run_fallback(op, bound, arrays)
    signature, settings = op._signature, op._kernel_settings
    if bound.outputs is None:
        bound.outputs = signature.infer_outputs(bound, settings)
    made = [np.zeros(spec.shape, spec.dtype) for spec in bound.outputs]
    given = [
        _contiguous(x, bound.dtypes[pattern.name])
        for x, pattern in zip(arrays, signature.inputs, strict=True)
    ]
    numbers = list(settings.values())
    status, said = kernel(given, made, _lengths(signature, bound), numbers)
    if status:
        means = op.messages.get(status, "it has no message for that")
        what = f"the kernel returned status {status}: {means}"
        if status == THROWN:
            what = f"the kernel threw an exception: {said or 'not a std::exception'}"
        raise KernelError(
            f"{op.name}({', '.join(map(repr, map(types.spec_of, arrays)))})"
            f"{blame.user_line()}: {what}."
        )
    return [y[()] if y.ndim == 0 else y for y in made]


def _compile_kernel(op: Any, bound: Bound) -> Native:
    key = tuple(bound.types.items())
    natives = NATIVES.setdefault(type(op), {})
    found = natives.get(key)
    if found is None:
        language = next(name for name in ("c", "cpp") if name in op._texts)
        found = natives[key] = load_native(
            language, op._texts[language], op._signature, bound.types,
            op._kinds, op._flags, op.time_limit,
        )  # fmt: skip
    return found


def run_on_device(op: Any, bound: Bound, arrays: Sequence[Any]) -> list[Any]:
    """Return the outputs by the CUDA kernel, on the GPU that holds the inputs."""
    signature = op._signature
    dtypes = [bound.dtypes[p.name] for p in signature.inputs]
    results = signature.infer_outputs(bound, op._kernel_settings)
    call = plan_device_call(op, bound, results)
    return launch(call, signature, arrays, dtypes, results)


def plan_device_call(op: Any, bound: Bound, results: Sequence[Spec]) -> CudaCall:
    """Return the call of the CUDA kernel for arrays of these lengths and dtypes."""
    signature, settings = op._signature, op._kernel_settings
    if op.threads is None:
        threads = prod(results[0].shape)
    else:
        text = read_threads(type(op), signature)
        lengths = {k: prod(v) if k == "..." else v for k, v in bound.lengths.items()}
        known = Bound(lengths={**lengths, "size": lengths.get("...", 0)})
        threads = signature.evaluate_length(text, text.dims[0], known, settings)
    return plan_launch(
        op._texts["cuda"], signature, bound.types, settings, op._kinds,
        _lengths(signature, bound), threads,
    )  # fmt: skip


def run_fallback(op: Any, bound: Bound, arrays: Sequence[Any]) -> list[Any]:
    """Return the outputs of the NumPy fallback, checked against the declaration."""
    made = list_outputs(op.fallback(*arrays))
    wanted = op._signature.infer_outputs(bound, op._kernel_settings)
    found = [types.spec_of(y) for y in made]
    if [Spec(s.shape, s.dtype) for s in found] != wanted:
        raise KernelError(
            f"{op.name}: {type(op).__name__}.fallback returned"
            f" {', '.join(map(repr, found))}, and the outputs are declared as"
            f" {', '.join(map(repr, wanted))}. Cast with .astype, or mend the"
            " declaration."
        )
    return list(made)


def _warn(op: Any, why: Exception) -> None:
    """Warn once that the NumPy fallback runs."""
    cls = type(op)
    if not cls._warned:
        cls._warned = True
        site = sites.decode(*source.caller())
        warnings.warn_explicit(
            f"{op.name} runs by its NumPy fallback: {why}",
            RuntimeWarning,
            site.filename if site else "<unknown>",
            site.line if site else 1,
        )


def list_outputs(made: Any) -> tuple[Any, ...]:
    """Return the result of a fallback as a tuple of outputs."""
    return tuple(made) if isinstance(made, (tuple, list)) else (made,)


def _contiguous(x: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return a contiguous, aligned array in C's order."""
    made = np.asarray(x, dtype, order="C")
    return made if made.flags.aligned else made.copy()


def _lengths(signature: Signature, bound: Bound) -> list[int]:
    return [
        prod(n) if letter == "..." else int(n)
        for letter, n in ((k, bound.lengths[k]) for k in signature.letters)
    ]


# `KernelOp`

#: How many kinds of operands an op remembers.
MOST_KNOWN = 256


#: The compiled kernels of each class, beside it: a class can be pickled then.
NATIVES: WeakKeyDictionary[type[KernelOp], dict[Any, Native]] = WeakKeyDictionary()


class KernelOp(Op):
    """An op with native kernels: C or C++ for the CPU, CUDA for an NVIDIA GPU.

    Write a subclass that declares the arrays and holds the source. The source is
    compiled when the op is first called, and kept in the user's cache folder, so that
    the next process need not. Everything that `wb.Op` has holds here too: settings,
    ``vjp``, ``jvp``, `register_gradient`, overrides by name.

    The kernel is a function of the op's name. Its arguments are pointers to the inputs
    (``const``) and outputs, in the order of their declaration, to entries that lie one
    after another in C's order; then the lengths (``int64_t``), in the order in which
    their letters appear among the inputs; then the settings (``int64_t``, ``double``
    or ``bool``). A kernel of other arguments does not compile. Outputs hold zeros when
    it begins. It returns nothing, or an ``int`` that is 0 if all is well; what it
    throws in C++ is a `KernelError`. It is C: where it writes is not looked at, and
    one that writes beyond its arrays can spoil other data or end the process, which
    nothing here can catch. Nor can a kernel be interrupted before it returns.

    In CUDA it is a ``__global__`` function of the same arguments. It runs on CuPy
    arrays, one thread for each entry of the first output, or as many as ``threads``
    says; in blocks of 256 of one axis, so there are some more than asked for. Complex
    numbers are ``double _Complex`` in C, ``std::complex<double>`` in C++, ``double2``
    in CUDA.

    Attributes
    ----------
    inputs, outputs
        Name, dtype and shape of each array: ``"x: float64[n, 3], w: float64[n]"``, or a
        mapping ``{"x": "float64[n, 3]", ...}``. A letter is a length, the same wherever
        it appears; outputs may have ``n + 1`` or ``2 * n``, or a setting; ``float64[]``
        is one number. ``...`` stands for axes of any number, and the kernel gets
        ``size``, the product of their lengths. ``T[n]`` is of any dtype that ``types``
        allows, and the source says ``T``.
    types
        The dtypes that a letter stands for: ``"T: int32 | float64"``, or a mapping to
        their names. One that is not told means ``float32 | float64``.
    c, cpp, cuda
        The source, or a `pathlib.Path` of its file.
    flags
        Further flags for the C or C++ compiler, ``"-O3 -fopenmp"``.
    threads
        How many threads CUDA starts: ``"n + m"``.
    messages
        What a status means: ``{1: "the matrix is singular"}``.
    derivatives
        ``"fallback"``: where there is neither ``vjp`` nor ``jvp``, the derivatives are
        those of `fallback`.
    time_limit
        How many seconds the compiler may take.

    Raises
    ------
    KernelError
        If the declaration makes no sense, no compiler is found and there is no
        `fallback`, the source does not compile, or the kernel returns a status or
        throws.
    DtypeError, ShapeError
        If an input does not fit its declaration. Nothing is cast in silence.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> class Cube(wb.KernelOp):
    ...     inputs = "x: T[...]"
    ...     outputs = "y: T[...]"
    ...     c = '''
    ...     void cube(const T *x, T *y, int64_t size) {
    ...         for (int64_t i = 0; i < size; i++) y[i] = x[i] * x[i] * x[i];
    ...     }
    ...     '''
    ...     def vjp(self, node, g):
    ...         (x,) = node.inputs
    ...         return g * 3 * x**2
    >>> cube = Cube()
    >>> cube(np.array([1.0, 2.0], np.float32))
    array([1., 8.], dtype=float32)
    >>> wb.grad(lambda x: np.sum(cube(x)))(np.array([1.0, 2.0]))
    array([ 3., 12.])
    """

    inputs: ClassVar[str | Mapping[str, str]] = ""
    outputs: ClassVar[str | Mapping[str, str]] = ""
    types: ClassVar[str | Mapping[str, Sequence[str]]] = ""
    c: ClassVar[str | Path | None] = None
    cpp: ClassVar[str | Path | None] = None
    cuda: ClassVar[str | Path | None] = None
    flags: ClassVar[str | Sequence[str]] = ()
    threads: ClassVar[str | None] = None
    messages: ClassVar[Mapping[int, str]] = {}
    derivatives: ClassVar[str | None] = None
    time_limit: ClassVar[float] = 120.0

    _signature: ClassVar[Signature]
    _kinds: ClassVar[dict[str, type]]
    _texts: ClassVar[dict[str, Text]]
    _flags: ClassVar[tuple[str, ...]]
    _warned: ClassVar[bool]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        # A base for further classes has nothing to compute, and takes no name.
        if cls.inputs or cls.outputs:
            cls._declare(cls.__dict__.get("name") or snake(cls.__name__))
        super().__init_subclass__(**kwargs)

    @classmethod
    def _declare(cls, name: str) -> None:
        """Read the declarations of a class, before its name is taken."""
        if cls.compute not in (Op.compute, _compute):
            raise UsageError(
                f"{cls.__qualname__}.compute: the value of a kernel is that of its"
                " source. Call the method fallback, or derive from wb.Op."
            )
        cls._kinds = read_setting_types(cls)
        cls._texts = read_sources(cls, Home.of_caller())
        cls._flags = read_flags(cls)
        cls._signature = Signature(
            name,
            read_arrays(cls, "inputs"),
            read_arrays(cls, "outputs"),
            read_dtypes(cls),
            tuple(cls._kinds),
        )
        read_threads(cls, cls._signature)
        cls._warned = False
        cls.n_outputs = len(cls._signature.outputs)
        cls.compute = _compute  # type: ignore[assignment,method-assign]
        cls.infer = _infer  # type: ignore[assignment,method-assign]
        if cls.derivatives is not None:
            _differentiate_fallback(cls)

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Return an instance of a class that has declared its arrays."""
        if not (cls.inputs or cls.outputs):
            raise UsageError(
                f'{cls.__qualname__} declares no arrays yet: write inputs = "x:'
                ' float64[n]" and outputs = "..." in it, and its source, c = '
                "'''...'''."
            )
        return super().__new__(cls)

    # What a user writes, besides what an op has

    def fallback(self, *arrays: Any) -> Any:
        """Return the outputs by NumPy, for where no kernel can run.

        It serves where there is no compiler, with a warning, and arrays on a device
        for which there is no source.
        """
        raise NotImplementedError

    @classmethod
    def _is_compiled(cls) -> bool:
        """Return whether this process has compiled a kernel of the class."""
        return bool(NATIVES.get(cls))

    @classmethod
    def _has_fallback(cls) -> bool:
        return cls.fallback is not KernelOp.fallback

    @classmethod
    def check_cuda(cls, architecture: str = ARCHITECTURE) -> str:
        """Compile the CUDA source for every choice of dtypes; no GPU is needed.

        Returns
        -------
        The compiler that took it.

        Raises
        ------
        KernelError
            If there is no CUDA source, no compiler for it, or the source is wrong.
        """
        if "cuda" not in getattr(cls, "_texts", {}):
            raise KernelError(f"{cls.name} has no CUDA source: write cuda = '''...'''.")
        letters = cls._signature.types
        for names in product(*letters.values()):
            chosen = dict(zip(letters, map(np.dtype, names), strict=True))
            took = check(
                cls._texts["cuda"], cls._signature, chosen, cls._kinds, architecture,
                cls.time_limit,
            )  # fmt: skip
        return took

    # How it is applied

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Return its outputs for arrays or Tensors: one, or a tuple of several."""
        if named:
            names = [pattern.name for pattern in self._signature.inputs]
            rest = names[len(inputs) :]
            if set(rest) != set(named) or len(rest) != len(named):
                raise UsageError(
                    f"{self.name} takes {', '.join(names)}; {len(inputs)} by position"
                    f" and {', '.join(named)} by name are not these."
                )
            inputs = (*inputs, *[named[name] for name in rest])
        given: Sequence[Any] = tuple(map(_gather_operand, inputs))
        try:
            for x in given:
                if isinstance(x, np.ndarray):
                    types.strip_subclass(x)  # a mask would be lost
            if all(map(_is_operand, given)):
                # Otherwise the call itself says what it cannot take.
                bound = self._bind(list(map(_value_or_spec, given)))
                given = [
                    _cast_number(x, bound.dtypes[pattern.name])
                    for x, pattern in zip(given, self._signature.inputs, strict=True)
                ]
        except WorkbenchError as error:
            place = blame.user_line()
            if place not in str(error):
                error.args = (f"{error}{place}", *error.args[1:])
            raise
        return super().__call__(*given)

    @property
    def _kernel_settings(self) -> dict[str, Any]:
        """The settings in the types that a kernel takes."""
        found: dict[str, Any] | None = self.__dict__.get("_looked_at")
        if found is None:
            found = convert_settings(self.name, self._kinds, self._settings)
            object.__setattr__(self, "_looked_at", found)
        return found

    def _lower(self, node: Tensor, backend: str) -> CudaCall | None:
        """Return the launch of the CUDA source; None: inputs must be cast."""
        if backend != "cupy" or "cuda" not in self._texts:
            return None
        specs = [types.spec_of(x) for x in node.inputs]
        bound = self._signature.bind(specs, self._kernel_settings)
        wanted = [bound.dtypes[p.name] for p in self._signature.inputs]
        if any(spec.dtype != dtype for spec, dtype in zip(specs, wanted, strict=True)):
            return None
        results = self._signature.infer_outputs(bound, self._kernel_settings)
        return plan_device_call(self, bound, results)

    def _bind(self, values: Sequence[Any]) -> Bound:
        """Return the meaning of the letters, cached by shapes and dtypes."""
        for x in values:
            if not isinstance(x, np.ndarray):
                return self._signature.bind(values, self._kernel_settings)
        known: dict[Any, Bound] = self.__dict__.setdefault("_bindings", {})
        key = tuple([(x.dtype, x.shape) for x in values])
        found = known.get(key)
        if found is None:
            found = self._signature.bind(values, self._kernel_settings)
            if len(known) >= MOST_KNOWN:
                known.clear()
            known[key] = found
        return found


def _compute(self: KernelOp, *arrays: Any) -> Any:
    """Return the outputs for arrays on the CPU or on a GPU."""
    bound = self._bind(arrays)
    there = any(map(is_device, arrays))
    if there and "cuda" in self._texts:
        made = run_on_device(self, bound, arrays)
    elif not there and self._texts.keys() - {"cuda"}:
        made = run_on_host(self, bound, arrays)
    elif self._has_fallback():
        made = run_fallback(self, bound, arrays)
    else:
        have, lack = ("a GPU", "cuda") if there else ("the CPU", "c")
        raise KernelError(
            f"{self.name} has no source for arrays on {have}. Write {lack} = '''...'''"
            f" in {type(self).__name__}, or fallback(self, *arrays) in NumPy."
        )
    return made[0] if len(made) == 1 else tuple(made)


def _infer(self: KernelOp, *specs: Spec) -> Any:
    """Return the specs of the outputs, from the declaration."""
    bound = self._signature.bind(specs, self._kernel_settings)
    made = self._signature.infer_outputs(bound, self._kernel_settings)
    return made[0] if len(made) == 1 else tuple(made)


def _differentiate_fallback(cls: type[KernelOp]) -> None:
    """Give a class the derivatives of its NumPy fallback."""
    if cls.derivatives != "fallback" or not cls._has_fallback():
        raise KernelError(
            f"{cls.__qualname__}: derivatives = {cls.derivatives!r}: write"
            ' derivatives = "fallback", and fallback(self, *arrays) in NumPy.'
        )

    def vjp(self: KernelOp, node: Any, *cotangents: Any) -> Any:
        return pull_through(
            lambda xs: list_outputs(self.fallback(*xs)), node.inputs, cotangents
        )

    def jvp(self: KernelOp, node: Any, *tangents: Any) -> Any:
        moved = push_through(
            lambda xs: list_outputs(self.fallback(*xs)), node.inputs, tangents
        )
        return moved[0] if len(moved) == 1 else tuple(moved)

    if not cls._gives("vjp") and not cls._gives("jvp"):
        for rule in (vjp, jvp):
            rule.__qualname__ = f"{cls.__qualname__}.fallback"
            setattr(cls, rule.__name__, rule)


# Arrays


def _gather_operand(x: Any) -> Any:
    """Return a list, or an array of Tensors, as one operand; else ``x`` unchanged."""
    if isinstance(x, (list, tuple)) or (
        isinstance(x, np.ndarray) and x.dtype == object
    ):
        found: Any = admit(x)
        return np.asarray(x) if isinstance(found, (list, tuple)) else found
    return x


def _is_operand(x: Any) -> bool:
    return isinstance(x, Tensor) or types.is_weak(x) or hasattr(x, "dtype")


def _value_or_spec(x: Any) -> Any:
    """Return the value of a Tensor, or its spec; else ``x`` unchanged."""
    if not isinstance(x, Tensor):
        return x
    return x.spec if x._value is None else x._value


def _cast_number(x: Any, dtype: np.dtype[Any]) -> Any:
    """Return a Python number in a dtype; else ``x`` unchanged."""
    if types.is_weak(x):
        return dtype.type(x)
    if isinstance(x, Tensor) and types.spec_of(_value_or_spec(x)).weak:
        return x.astype(dtype)
    return x
