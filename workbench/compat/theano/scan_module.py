"""`theano.scan` and its kin: `workbench.scan` with Theano's arguments."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from workbench.compat.theano.tensor.lifting import as_length
from workbench.compat.theano.tensor.shapes import arange
from workbench.compat.theano.types import as_tensor_variable
from workbench.compat.theano.updates import OrderedUpdates
from workbench.control_flow.scan import scan as ours
from workbench.control_flow.signature import Until, check_callable, list_entries, until
from workbench.core.dims import smallest
from workbench.core.inplace import rebind_in_place
from workbench.core.tensor import Tensor
from workbench.core.types import Array, ArrayLike, is_differentiable, is_weak
from workbench.errors import UsageError
from workbench.gradient.verify import check_mode
from workbench.ops.elementwise import stop_gradient

__all__ = ["foldl", "foldr", "map", "reduce", "scan", "until"]

# ``scan(truncate_gradient=k)``: a gradient that goes back through the last steps only.
#
# A step before the last ``k`` hands on its outputs without their gradient: nothing that
# it read gets one, and neither does what came before it.


def truncated(
    fn: Callable[..., Any], sequences: Sequence[Any], n_steps: Any, last: Any
) -> tuple[Callable[..., Any], list[Any]]:
    """Return step and sequences of a loop with a gradient of its ``last`` steps."""
    if not isinstance(last, (int, np.integer)) or last < 1:
        raise UsageError(
            f"scan: truncate_gradient={last!r} is the number of steps that the gradient"
            " goes back, or -1 for all of them."
        )
    n = as_length(n_steps) if n_steps is not None else _steps(sequences)
    first = as_tensor_variable(n) - int(last)

    def step(k: ArrayLike, *args: Any) -> Any:
        return _gate(fn(*args), k >= first)

    return step, [arange(n), *sequences]


def _steps(sequences: Sequence[Any]) -> Any:
    """Return how many steps the sequences make."""
    lengths = []
    for entry in sequences:
        taps: Any = (0,)
        if isinstance(entry, Mapping):
            taps = np.atleast_1d(entry.get("taps") or 0).tolist()
            entry = entry["input"]
        lengths.append(entry.shape[0] - max(0, *taps) + min(0, *taps))
    if not lengths:
        raise UsageError(
            "scan: without sequences, the number of steps is unknown. Give n_steps=."
        )
    n = lengths[0]
    for length in lengths[1:]:
        n = smallest(n, length)
    return n


def _gate(output: Any, open_: Any) -> Any:
    """Return the results of a step, with their gradient where ``open_`` is true."""
    if isinstance(output, (list, tuple)):
        return type(output)([_gate(y, open_) for y in output])
    if isinstance(output, Until):
        raise UsageError(
            "scan: with truncate_gradient the number of steps must be known before the"
            " loop runs, and until() ends it earlier."
        )
    if isinstance(output, Tensor) and is_differentiable(output.dtype):
        return np.where(open_, output, stop_gradient(output))
    return output


# `scan` and its kin


def scan(
    fn: Callable[..., Any],
    sequences: Any = None,
    outputs_info: Any = None,
    non_sequences: Any = None,
    n_steps: Any = None,
    truncate_gradient: int = -1,
    go_backwards: bool = False,
    mode: object = None,
    name: str | None = None,
    profile: object = False,
    allow_gc: bool | None = None,
    strict: bool = False,
    return_list: bool = False,
    return_updates: bool = True,
) -> Any:
    """Return a loop in the graph: `workbench.scan`.

    Returns
    -------
    The outputs of all steps, stacked (one as itself), and the updates of shared values
    that ``fn`` returned: to be handed to `theano.function`. Without
    ``return_updates``, where there are none, the outputs alone.

    Examples
    --------
    >>> import workbench.compat.theano as theano, workbench.compat.theano.tensor as T
    >>> x = T.dscalar("x")
    >>> powers, updates = theano.scan(
    ...     lambda before, x: before * x, outputs_info=T.ones(()),
    ...     non_sequences=x, n_steps=4)
    >>> theano.function([x], powers, updates=updates)(2.0)
    array([ 2.,  4.,  8., 16.])
    """
    check_mode(mode, "scan")
    outputs, updates = _scan(
        fn, sequences, outputs_info, non_sequences, n_steps, go_backwards, strict, name,
        truncate=truncate_gradient,
    )  # fmt: skip
    made = outputs if return_list else _bare(outputs)
    if return_updates:
        return made, updates
    if updates:
        raise UsageError(
            "scan: the steps change shared values, which return_updates=False would"
            " lose. Leave it out, and hand the updates to `function`."
        )
    return made


def _scan(
    fn: Callable[..., Any],
    sequences: Any,
    outputs_info: Any,
    non_sequences: Any,
    n_steps: Any,
    reverse: bool,
    strict: bool,
    name: str | None,
    last: bool = False,
    truncate: int = -1,
) -> tuple[list[Any], OrderedUpdates]:
    rest = list_entries(non_sequences)
    given = _describe_arguments("sequence", sequences) + _describe_arguments(
        "earlier output", outputs_info
    )
    given += [f"non-sequence {i}" for i in range(len(rest))]
    order = "It gets an entry of each sequence, earlier outputs, non-sequences."
    check_callable(fn, given, "scan: the step", order)
    step = fn
    if rest and not strict:
        # Theano hands the step these variables themselves: it may differentiate one
        # by another, though both were made outside.
        variables = [as_tensor_variable(x) for x in rest]
        rest = []

        def step(*args: Any) -> Any:
            return fn(*args, *variables)

    entries = [_sequence(x) for x in list_entries(sequences)]
    if truncate != -1:
        if reverse:  # counted from the end: the first step is the last entry
            entries, reverse = [_turned(x) for x in entries], False
        step, entries = truncated(step, entries, n_steps, truncate)
    stacks, updates = ours(
        rebind_in_place(step),
        entries,
        [_first(x) for x in list_entries(outputs_info)],
        rest,
        n_steps=n_steps,
        reverse=bool(reverse),
        strict=strict,
        last=last,
        return_updates=True,
        name=name,
    )
    return [as_tensor_variable(y) for y in list_entries(stacks)], OrderedUpdates(
        updates
    )


def _bare(outputs: list[Any]) -> Any:
    if not outputs:
        return None
    return outputs[0] if len(outputs) == 1 else outputs


def _describe_arguments(what: str, entries: Any) -> list[str]:
    """Return one text for each argument that some entries give to the step."""
    made = []
    for i, x in enumerate(list_entries(entries)):
        taps = None
        if isinstance(x, Mapping):
            if "input" not in x and x.get("initial") is None:
                continue
            taps = x.get("taps")
        if x is not None:
            many = list_entries(taps)
            made += [f"{what} {i} at {tap}" for tap in many if len(many) > 1] or [
                f"{what} {i}"
            ]
    return made


def _sequence(x: Any) -> Any:
    if not isinstance(x, Mapping):
        return as_tensor_variable(x)
    taps = x.get("taps")
    entry = {"input": as_tensor_variable(x["input"])}
    return entry if taps is None else {**entry, "taps": list_entries(taps)}


def _turned(x: Any) -> Any:
    """Return a sequence from its end, for a loop that goes forward."""
    if not isinstance(x, Mapping):
        return x[::-1]
    if "taps" in x:
        raise UsageError("scan: truncate_gradient with go_backwards takes no taps.")
    return {"input": x["input"][::-1]}


def _first(x: Any) -> Any:
    """Return the first values of an output; None for an output without feedback."""
    if isinstance(x, Mapping):
        if x.get("initial") is None:
            return None
        taps = x.get("taps")
        first = _number(x["initial"])
        if taps is None or list_entries(taps) == [-1]:
            return first
        return {"initial": first, "taps": list_entries(taps)}
    return None if x is None else _number(x)


def _number(x: Any) -> Array:
    """Return a first value; keep a Python number, to take the output's dtype."""
    made = as_tensor_variable(x)
    return made._value if is_weak(made._value) else made


def map(
    fn: Callable[..., Any],
    sequences: Any,
    non_sequences: Any = None,
    truncate_gradient: int = -1,
    go_backwards: bool = False,
    mode: object = None,
    name: str | None = None,
) -> Any:
    """Return ``fn`` of each entry of some sequences, and the updates."""
    return scan(
        fn, sequences, None, non_sequences, None, truncate_gradient, go_backwards,
        mode, name,
    )  # fmt: skip


def reduce(
    fn: Callable[..., Any],
    sequences: Any,
    outputs_info: Any,
    non_sequences: Any = None,
    go_backwards: bool = False,
    mode: object = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Return the result of a loop's last step, and the updates."""
    check_mode(mode, "reduce")
    outputs, updates = _scan(
        fn, sequences, outputs_info, non_sequences, None, go_backwards, False, name,
        last=True,
    )  # fmt: skip
    return _bare(outputs), updates


def foldl(
    fn: Callable[..., Any],
    sequences: Any,
    outputs_info: Any,
    non_sequences: Any = None,
    mode: object = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Reduce from the first entry to the last."""
    return reduce(fn, sequences, outputs_info, non_sequences, False, mode, name)


def foldr(
    fn: Callable[..., Any],
    sequences: Any,
    outputs_info: Any,
    non_sequences: Any = None,
    mode: object = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Reduce from the last entry to the first."""
    return reduce(fn, sequences, outputs_info, non_sequences, True, mode, name)


scan_utils = scan_views = sys.modules[__name__]
