"""How a kernel runs: on the CPU, on a GPU, or by the NumPy that stands in for it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from workbench.core import blame, source, types
from workbench.core.types import Spec
from workbench.custom.kernels.cuda import launch
from workbench.custom.kernels.declared import threads_of
from workbench.custom.kernels.native import Native, native
from workbench.custom.kernels.signature import Bound, Signature
from workbench.custom.kernels.toolchain import MissingCompiler
from workbench.custom.kernels.units import THROWN
from workbench.errors import KernelError

__all__ = ["by_fallback", "on_device", "on_host", "several"]


def on_host(op: Any, bound: Bound, arrays: Sequence[Any]) -> list[Any]:
    """The outputs by the compiled kernel; by the fallback if there is none."""
    try:
        kernel = _kernel(op, bound)
    except MissingCompiler as error:
        if not op._has_fallback():
            raise MissingCompiler(
                f"{op.name}: {error} Or write fallback(self, *arrays) in"
                f" {type(op).__name__}, which computes the same by NumPy."
            ) from None
        _warn(op, error)
        return by_fallback(op, bound, arrays)
    signature, settings = op._signature, op._told
    if bound.results is None:
        bound.results = signature.results(bound, settings)
    made = [np.zeros(spec.shape, spec.dtype) for spec in bound.results]
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
            f"{blame.here()}: {what}."
        )
    return [y[()] if y.ndim == 0 else y for y in made]


def _kernel(op: Any, bound: Bound) -> Native:
    key = tuple(bound.types.items())
    found: Native | None = op._natives.get(key)
    if found is None:
        language = next(name for name in ("c", "cpp") if name in op._texts)
        found = op._natives[key] = native(
            language, op._texts[language], op._signature, bound.types,
            op._kinds, op._flags, op.time_limit,
        )  # fmt: skip
    return found


def on_device(op: Any, bound: Bound, arrays: Sequence[Any]) -> list[Any]:
    """The outputs by the CUDA kernel, on the GPU that holds the inputs."""
    signature, settings = op._signature, op._told
    results = signature.results(bound, settings)
    if op.threads is None:
        threads = prod(results[0].shape)
    else:
        text = threads_of(type(op), signature)
        lengths = {k: prod(v) if k == "..." else v for k, v in bound.lengths.items()}
        known = Bound(lengths={**lengths, "size": lengths.get("...", 0)})
        threads = signature.length(text, text.dims[0], known, settings)
    return launch(
        op._texts["cuda"], signature, bound.types, settings, op._kinds, arrays,
        [bound.dtypes[p.name] for p in signature.inputs], results,
        _lengths(signature, bound), threads,
    )  # fmt: skip


def by_fallback(op: Any, bound: Bound, arrays: Sequence[Any]) -> list[Any]:
    """The outputs by NumPy, held against what is declared."""
    made = several(op.fallback(*arrays))
    wanted = op._signature.results(bound, op._told)
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
    """Say once that the slow way is taken."""
    cls = type(op)
    if not cls._warned:
        cls._warned = True
        site = source.decode(*source.caller())
        warnings.warn_explicit(
            f"{op.name} runs by its NumPy fallback: {why}",
            RuntimeWarning,
            site.filename if site else "<unknown>",
            site.line if site else 1,
        )


def several(made: Any) -> tuple[Any, ...]:
    """One result or several, as a tuple."""
    return tuple(made) if isinstance(made, (tuple, list)) else (made,)


def _contiguous(x: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """An array whose entries lie one after another, as C sees them."""
    made = np.asarray(x, dtype, order="C")
    return made if made.flags.aligned else made.copy()


def _lengths(signature: Signature, bound: Bound) -> list[int]:
    return [
        prod(n) if letter == "..." else int(n)
        for letter, n in ((k, bound.lengths[k]) for k in signature.letters)
    ]
