"""`while_loop`: a step that runs while a condition holds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from workbench.autodiff.higher_order import detach_leaves
from workbench.control_flow.loop import ENDLESS, Loop
from workbench.control_flow.scan import run_saving
from workbench.control_flow.signature import (
    check_array,
    check_callable,
    check_condition,
)
from workbench.core import blame, tree, types
from workbench.core.graph import Graph
from workbench.core.recorder import Recorder
from workbench.core.tensor import Tensor, gather_result, value_of
from workbench.core.trace import make_leaf_like
from workbench.core.types import Array, ArrayLike, Spec
from workbench.errors import ConvergenceError, DtypeError, ShapeError, UsageError
from workbench.ops.define import dtype_of, shape_of


def while_loop(
    cond: Callable[[Any], Any],
    body: Callable[[Any], Any],
    init: Any,
    *,
    max_steps: int | None = None,
    memory: int | str = "auto",
) -> Any:
    """Run a step as long as a condition on the state holds; return the last state.

    Both functions are traced once; how many steps there are shows when the program
    runs. It has derivatives in both modes, of any order: reverse mode keeps the
    states, or some of them (``memory``).

    Parameters
    ----------
    cond
        ``cond(state)``: whether to make another step, one boolean.
    body
        ``body(state)``: the next state, of the same nest, shapes and dtypes.
    init
        The first state: an array, or a nest of arrays.
    max_steps
        The most steps that are made.
    memory
        What is kept for reverse mode, as in :func:`workbench.scan`.

    Raises
    ------
    ConvergenceError
        If the condition still holds after ``max_steps`` steps.
    ShapeError, DtypeError
        If a step changes the shape or dtype of a part of the state.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> def root(a):  # Newton's method
    ...     far = lambda x: np.abs(x * x - a) > 1e-12
    ...     return wb.while_loop(far, lambda x: (x + a / x) / 2, 1.0)
    >>> y, slope = wb.value_and_grad(root)(9.0)
    >>> float(y), round(float(slope), 12)
    (3.0, 0.166666666667)
    """
    for what, f in (("condition", cond), ("step", body)):
        if not callable(f):
            raise UsageError(
                f"while_loop: the {what} is {f!r}, which is not a function."
            )
        apart = "Take a state of several parts apart inside: x, y = state."
        check_callable(f, ["the state"], f"while_loop: the {what}", apart)
    if max_steps is not None and max_steps < 0:
        raise UsageError(f"while_loop: max_steps={max_steps} is negative.")
    given, nest = tree.flatten(init)
    starts: list[Any] = [check_array(x, "the first state") for x in given]
    specs = [
        Spec(shape_of(x), dtype_of(x), types.is_weak(g))
        for x, g in zip(starts, given, strict=True)
    ]

    def step(state: Any) -> list[Any]:
        new = body(state)
        flat, structure = tree.flatten(new)
        if structure != nest:
            raise UsageError(
                f"while_loop{blame.user_line()}: the step returns another nest than the"
                f" state's: {tree.describe_difference(nest, structure)}. Return the"
                " same nest."
            )
        flat = list(map(gather_result, flat))
        new = structure(flat)
        stop = np.logical_not(check_condition(cond(new), "while_loop"))
        return [*map(_as_array, flat), stop]

    closed = Recorder(step, nest(specs))
    if any(s.weak for s in specs):
        # A plain number takes the dtype of what the step makes of it.
        specs = [_strengthen(s, y) for s, y in zip(specs, closed.specs, strict=False)]
        closed = Recorder(step, nest(specs))
    starts = [
        x if dtype_of(x) == s.dtype else np.astype(x, s.dtype)
        for x, s in zip(starts, specs, strict=True)
    ]
    for i, s in enumerate(specs):
        _check_unchanged(
            closed.graph.outputs[i], s, f"part {i}" if len(specs) > 1 else "it"
        )
    go = check_condition(cond(nest(starts)), "while_loop")
    finals = _run_loop(closed, starts, go, max_steps, memory)
    return nest(finals)


def _as_array(x: ArrayLike) -> Any:
    return x if hasattr(x, "dtype") else np.asarray(x)


def _strengthen(spec: Spec, y: Spec) -> Spec:
    if not spec.weak:
        return spec
    number = spec.dtype if y.weak else spec.dtype.type(0).item()
    return Spec(spec.shape, np.result_type(number, y.dtype))


def _check_unchanged(y: Array, want: Spec, what: str) -> None:
    """Raise an error if a step changes the shape or dtype of the state."""
    have = types.spec_of(y)
    place = blame.quote_site(y.site) if isinstance(y, Tensor) else ""
    if len(have.shape) != len(want.shape) or any(
        isinstance(a, int) and isinstance(b, int) and a != b
        for a, b in zip(have.shape, want.shape, strict=True)
    ):
        raise ShapeError(
            f"while_loop: the state changes its shape{place}: {what} begins with shape"
            f" {want.shape}, and the step returns shape {have.shape}. Give a first"
            f" state of the shape that the step returns."
        )
    if have.dtype != want.dtype:
        raise DtypeError(
            f"while_loop: the state changes its dtype{place}: {what} begins as"
            f" {want.dtype}, and the step returns {have.dtype}. Give a first state of"
            f" dtype {have.dtype}, or write .astype({want.dtype}) in the step."
        )


def _run_loop(
    closed: Recorder,
    starts: list[Any],
    go: Array,
    max_steps: int | None,
    memory: int | str,
) -> list[Any]:
    """Run the loop as a node, up to the limit, or for no step at all."""
    *news, stop = closed.graph.outputs
    heads = len(closed.captured)
    captured, places = closed.graph.leaves[:heads], closed.graph.leaves[heads:]
    most = ENDLESS if max_steps is None else max_steps
    known = value_of(go)
    if known is not None:
        count: Any = most if bool(known) else 0
        done: Any = np.logical_not(known)
    else:
        count, done = np.where(go, most, 0), np.logical_not(go)
    # Whether the condition was met: the reason why the loop has ended.
    flag = make_leaf_like(Spec((), np.dtype(bool)))
    outs = [*news, stop]
    body = detach_leaves(Graph([*captured, *places, flag], [*outs, stop]))
    where = blame.user_line()

    def limit(*finals: Any) -> None:
        if not np.all(finals[len(news)]):
            raise ConvergenceError(
                f"while_loop{where}: the condition still holds after max_steps="
                f"{max_steps} steps. Allow more, or end the loop in the condition."
            )

    make = partial(
        Loop, body, heads, 0, len(outs), counted=True, until=True,
        limit=None if max_steps is None else limit,
    )  # fmt: skip
    inputs = [count, *closed.captured, *starts, done]
    return run_saving(make, inputs, memory)[: len(starts)]
