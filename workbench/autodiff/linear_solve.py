"""`custom_linear_solve`: linear systems given by a product and solved by the user.

``x = A⁻¹ b``, where A is a function ``matvec`` that may read Tensors through its
closure. Differentiating ``A x = b`` gives both modes without looking into the
solver: ``A ẋ = ḃ − Ȧ x`` forward; in reverse ``Aᵀ w = x̄``, then ``b̄ = w`` and what
``−wᵀ A x`` sends to A (Giles, *Collected matrix derivative results*, 2008). The
solver runs on plain arrays alone; each of these is a solve again, so it nests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.autodiff.closed import close
from workbench.autodiff.flat import pulled, pushed
from workbench.core import blame, tree, types
from workbench.core.op import declare
from workbench.core.tensor import value_of
from workbench.core.trace import live
from workbench.core.types import Spec
from workbench.errors import ConvergenceError, DtypeError, ShapeError, TraceError
from workbench.ops import several

__all__ = ["System", "custom_linear_solve", "solution", "solved"]

Function = Callable[..., Any]
Params = dict[str, Any]

SOLVE = declare("custom_linear_solve")

#: The part of the right-hand side that a solution of the transposed system may
#: leave over: a solver that took no notice of the product leaves nearly all of it.
LEFT_OVER = 1e-3


def custom_linear_solve(
    matvec: Function,
    b: Any,
    solve: Function,
    transpose_solve: Function | None = None,
    symmetric: bool = False,
) -> Any:
    """The solution x of ``matvec(x) = b``, found by ``solve`` and differentiable.

    Parameters
    ----------
    matvec
        A linear function of what is nested and shaped as ``b``. It may read
        Tensors through its closure: the solution has derivatives by them.
    b
        The right-hand side, an array or a nest of arrays.
    solve
        ``solve(matvec, b) -> x`` on plain arrays: any program, never looked into.
    transpose_solve
        ``transpose_solve(vecmat, b) -> x`` for the transposed system, which
        reverse mode needs. By default ``solve`` on the transposed product, and an
        error if that does not solve it.
    symmetric
        The product equals its transpose (without conjugation), and ``solve``
        serves for both.

    Returns
    -------
    What is nested and shaped as ``b``. Derivatives of any order, in both modes;
    under `vmap` the solver runs example by example.

    Raises
    ------
    ShapeError
        If ``matvec`` or the solver return another shape than ``b`` has.
    ConvergenceError
        If the transposed system is needed and ``solve`` does not solve it.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> def solve(matvec, b):  # Jacobi's iteration
    ...     x = np.zeros_like(b)
    ...     for _ in range(60):
    ...         x = x + (b - matvec(x)) / 4
    ...     return x
    >>> A, b = np.array([[4.0, 1.0], [0.0, 4.0]]), np.array([5.0, 4.0])
    >>> f = lambda A: np.sum(wb.custom_linear_solve(lambda x: A @ x, b, solve))
    >>> wb.grad(f)(A)
    array([[-0.25  , -0.25  ],
           [-0.1875, -0.1875]])
    """
    flat, structure = tree.flatten(b)
    closed = close(matvec, b, dynamic=True)
    check_alike("custom_linear_solve", "matvec", closed.tree, closed.specs, b)
    if not any(map(live, closed.inputs)):
        return solution(solve, matvec, b, "custom_linear_solve: solve")
    specs = [
        Spec(_spec(x).shape, np.result_type(_spec(x).dtype, out.dtype))
        for x, out in zip(flat, closed.specs, strict=True)
    ]
    system = System(closed.flat, structure, specs, solve, transpose_solve, symmetric)
    return structure(list(several.several(SOLVE, closed.inputs, {"system": system})))


class System:
    """A linear system: its product as a flat program, and who solves it.

    ``product([*parameters, *x])`` gives the leaves of ``A x``.
    """

    def __init__(
        self,
        product: Function,
        structure: tree.Tree,
        specs: Sequence[Spec],
        solve: Function,
        transpose_solve: Function | None,
        symmetric: bool,
        checked: bool = False,
    ) -> None:
        self.product = product
        self.structure = structure
        self.specs = list(specs)
        self.solve = solve
        self.transpose_solve = transpose_solve
        self.symmetric = symmetric
        #: Whether the solver was written for another system, and is watched.
        self.checked = checked
        self._transposed: System | None = self if symmetric else None

    def __repr__(self) -> str:
        return f"<a linear system in {', '.join(map(repr, self.specs))}>"

    def apart(self, inputs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The parameters of the product, and the right-hand side."""
        count = len(inputs) - len(self.specs)
        return list(inputs[:count]), list(inputs[count:])

    def transposed(self, parameters: Sequence[Any]) -> System:
        """The system of the transposed product."""
        if self._transposed is None:
            product, count = self.product, len(parameters)

            def transpose(*inputs: Any) -> list[Any]:
                fixed, g = inputs[:count], inputs[count:]
                zeros = [
                    np.zeros_like(c, shape=s.shape, dtype=s.dtype)
                    for c, s in zip(g, self.specs, strict=True)
                ]
                made = pulled(lambda x: product([*fixed, *x]), zeros, g)
                return [z if m is None else m for z, m in zip(zeros, made, strict=True)]

            try:
                run: Function = close(transpose, *parameters, *self.specs).flat
            except TraceError:  # the product looks at values: record it each time
                run = lambda inputs: transpose(*inputs)  # noqa: E731
            self._transposed = System(
                run, self.structure, self.specs,
                self.transpose_solve or self.solve, self.solve, False,
                checked=self.transpose_solve is None,
            )  # fmt: skip
            self._transposed._transposed = self
        return self._transposed


def _compute(*inputs: Any, system: System) -> tuple[Any, ...]:
    parameters, b = system.apart(inputs)

    def matvec(x: Any) -> Any:
        return system.structure(system.product([*parameters, *tree.flatten(x)[0]]))

    nest = system.structure(b)
    made = solution(system.solve, matvec, nest, "custom_linear_solve: the solver")
    x = [
        (
            v if hasattr(v, "dtype") else np.asarray(v)  # host array: a number
        ).astype(s.dtype)
        for v, s in zip(tree.flatten(made)[0], system.specs, strict=True)
    ]
    if system.checked:
        rest = [v - u for v, u in zip(tree.flatten(matvec(made))[0], b, strict=True)]
        if not _norm(rest) <= LEFT_OVER * _norm(b):
            raise ConvergenceError(
                "custom_linear_solve: reverse mode needs the transposed system, and"
                " `solve` did not solve it with the transposed product"
                f" (|Aᵀw − g| = {_norm(rest):.2g}, |g| = {_norm(b):.2g})"
                f"{blame.here()}. Give transpose_solve=..., or symmetric=True where"
                " the product equals its transpose."
            )
    return tuple(x)


def _norm(arrays: Sequence[Any]) -> float:
    return float(np.sqrt(sum(float(np.sum(np.abs(x) ** 2)) for x in arrays)))


def _push(
    tangents: tuple[Any, ...], y: Any, inputs: tuple[Any, ...], params: Params
) -> tuple[Any, ...]:
    system: System = params["system"]
    parameters, _ = system.apart(inputs)
    moving, b = system.apart(tangents)
    moved = [None] * len(b)
    if any(t is not None for t in moving):
        moved = pushed(lambda p: system.product([*p, *y]), parameters, moving)
    right = [_difference(t, m, x) for t, m, x in zip(b, moved, y, strict=True)]
    return several.several(SOLVE, (*parameters, *right), params)


def _difference(a: Any, b: Any, like: Any) -> Any:
    """``a - b``, where None is zero."""
    if b is None:
        return np.zeros_like(like) if a is None else a
    return -b if a is None else a - b


def _pull(
    mask: int, g: Any, y: Any, inputs: tuple[Any, ...], params: Params
) -> list[Any]:
    system: System = params["system"]
    parameters, _ = system.apart(inputs)
    filled = [np.zeros_like(x) if c is None else c for c, x in zip(g, y, strict=True)]
    w = solved(system.transposed(parameters), parameters, filled)
    made: list[Any] = [None] * len(parameters)
    if mask & ((1 << len(parameters)) - 1):
        back = [-c for c in w]
        made = pulled(lambda p: system.product([*p, *y]), parameters, back)
    return [*made, *w]


def solved(
    system: System, parameters: Sequence[Any], b: Sequence[Any]
) -> tuple[Any, ...]:
    """The flat solution of a system, recorded where it must be."""
    return several.several(SOLVE, (*parameters, *b), {"system": system})


def _infer(*inputs: Any, system: System) -> tuple[Any, ...]:
    return tuple(system.specs)


SOLVE.compute = _compute
SOLVE.infer = _infer
SOLVE.pull = _pull
SOLVE.push = _push
SOLVE.rule = "w = A⁻ᵀ g for b, −w ∂(A x) for A"
SOLVE.reads = None


# What the user's functions return


def solution(solve: Function, f: Function, start: Any, what: str) -> Any:
    """What a user's solver found, as plain arrays; nested and shaped as its start.

    Raises
    ------
    ShapeError
        If it is nested or shaped otherwise.
    TraceError
        If the solver reads what is traced without a value.
    """
    solved = solve(f, start)
    if solved is None:
        raise DtypeError(
            f"{what} returned None{blame.here()}. Has it a `return` at its end?"
        )
    found = tree.map_tree(value_of, solved)
    leaves, structure = tree.flatten(found)
    if any(x is None for x in leaves):
        raise TraceError(
            f"{what} reads what has no value while tracing without values"
            f"{blame.here()}. Let it use the function and the start that it is given"
            " alone."
        )
    check_alike(what, "it", structure, [types.spec_of(x) for x in leaves], start)
    return found


def check_alike(
    what: str, who: str, structure: tree.Tree, specs: Sequence[Spec], like: Any
) -> None:
    """Raise an error unless something is nested and shaped as ``like``."""
    leaves, wanted = tree.flatten(like)
    shapes = [_spec(x).shape for x in leaves]
    if structure == wanted and [s.shape for s in specs] == shapes:
        return
    if structure != wanted:
        raise ShapeError(
            f"{what}: {who} returned another nest than it must{blame.here()}:"
            f" {tree.difference(wanted, structure)}."
        )
    made = ", ".join(str(s.shape) for s in specs)
    raise ShapeError(
        f"{what}: {who} returned arrays of shapes {made}{blame.here()}; they must be"
        f" {', '.join(map(str, shapes))}."
    )


def _spec(x: Any) -> Spec:
    found: Spec = x if isinstance(x, Spec) else types.spec_of(x)
    return found
