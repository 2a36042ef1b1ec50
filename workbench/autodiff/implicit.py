"""Implicit differentiation: `custom_root`, `fixed_point`.

Where x solves ``f(x, θ) = 0``, its derivatives follow from the equation and not
from the steps of the solver: ``ẋ = −(∂f/∂x)⁻¹ ∂f/∂θ θ̇`` forward, and in reverse
``θ̄ = −(∂f/∂θ)ᵀ (∂f/∂x)⁻ᵀ x̄`` (Blondel et al., *Efficient and modular implicit
differentiation*, 2022; for fixed points Christianson, *Reverse accumulation and
attractive fixed points*, 1994).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.autodiff.closed import Closed, close
from workbench.autodiff.flat import pulled, pushed, vectorized
from workbench.autodiff.linear_solve import System, check_alike, solution, solved
from workbench.core import blame, tree, types
from workbench.core.op import declare
from workbench.core.trace import live
from workbench.core.types import Spec
from workbench.errors import ConvergenceError, MatrixError
from workbench.ops import several
from workbench.ops.define import shape_of

__all__ = ["custom_root", "fixed_point", "root"]

Function = Callable[..., Any]
Params = dict[str, Any]

ROOT = declare("custom_root")


def custom_root(
    f: Function,
    x0: Any,
    solve: Function,
    tangent_solve: Function | None = None,
) -> Any:
    """A root x of ``f(x) = 0``, found by ``solve`` and differentiable.

    Parameters
    ----------
    f
        A function of what is nested and shaped as ``x0`` and returns the same.
        It may read Tensors through its closure: the root has derivatives by them.
    x0
        Where the search starts, an array or a nest of arrays. The root does not
        depend on it: its gradient is zero.
    solve
        ``solve(f, x0) -> x`` on plain arrays: any program, never looked into.
    tangent_solve
        ``tangent_solve(matvec, b) -> v`` solves the linear system ``matvec(v) = b``
        of the derivative of ``f`` at the root, and its transpose. By default the
        matrix is built and factored, which suits up to about a thousand unknowns.

    Returns
    -------
    The root. Derivatives of any order, in both modes; under `vmap` the solver runs
    example by example. A complex ``f`` must be analytic in x.

    Raises
    ------
    ShapeError
        If ``f`` or the solver return another shape than ``x0`` has.
    MatrixError
        If the derivative of ``f`` at the root is singular.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> def newton(f, x):
    ...     for _ in range(20):
    ...         x = x - f(x) / wb.grad(f)(x)
    ...     return x
    >>> cube_root = lambda a: wb.custom_root(lambda x: x**3 - a, 1.0, newton)
    >>> round(float(cube_root(8.0)), 12)
    2.0
    >>> round(float(wb.grad(cube_root)(8.0)), 12)  # 1 / (3 x²)
    0.083333333333
    """
    return root(f, x0, solve, tangent_solve, "custom_root")


def root(
    f: Function,
    x0: Any,
    solve: Function,
    tangent_solve: Function | None,
    name: str,
    beside: Function | None = None,
) -> Any:
    """`custom_root`, under the name that its errors bear.

    With ``beside`` the solver gets a function that returns a pair: what is to
    vanish, and ``beside(x)``, which has no part in the derivative.
    """
    flat, structure = tree.flatten(x0)
    for i, x in enumerate(flat):
        if not types.differentiable(types.spec_of(x).dtype):
            flat[i] = x.astype(float) if hasattr(x, "dtype") else float(x)
    x0 = structure(flat)
    target = f if beside is None else lambda x: (f(x), beside(x))
    closed = close(target, x0, dynamic=True)
    if beside is None:
        check_alike(name, "the function", closed.tree, closed.specs, x0)
    if not any(map(live, closed.inputs)):
        return solution(solve, target, x0, f"{name}: solve")
    specs = [
        Spec(out.shape, out.dtype if types.weak(x) else types.spec_of(x).dtype)
        for x, out in zip(flat, closed.specs, strict=False)
    ]
    problem = Problem(closed, structure, specs, solve, tangent_solve, name)
    made = several.several(ROOT, closed.inputs, {"problem": problem})
    return structure(list(made))


class Problem:
    """An equation as a program of its parameters and unknowns."""

    def __init__(
        self,
        closed: Closed,
        structure: tree.Tree,
        specs: Sequence[Spec],
        solve: Function,
        tangent_solve: Function | None,
        name: str,
    ) -> None:
        self.closed = closed
        self.structure = structure
        self.specs = list(specs)
        self.solve = solve
        self.tangent_solve = tangent_solve
        self.name = name
        self._system: System | None = None

    def __repr__(self) -> str:
        return f"<an equation in {', '.join(map(repr, self.specs))}>"

    def residual(self, inputs: Sequence[Any]) -> list[Any]:
        """What vanishes at a root, flat."""
        return self.closed.flat(inputs)[: len(self.specs)]

    def apart(self, inputs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The parameters of the equation, and what belongs to the unknowns."""
        count = len(inputs) - len(self.specs)
        return list(inputs[:count]), list(inputs[count:])

    def linear(
        self, parameters: Sequence[Any], x: Sequence[Any], b: Sequence[Any], back: bool
    ) -> list[Any]:
        """``(∂f/∂x)⁻¹ b`` at a root, or ``(∂f/∂x)⁻ᵀ b``."""
        if self.tangent_solve is None:
            return self._dense(parameters, x, b, back)
        point = (*parameters, *x)
        if self._system is None:
            count = len(point)
            self._system = System(
                lambda inputs: self.along(inputs[:count], inputs[count:]),
                self.structure, self.specs, self.tangent_solve, None, False,
            )  # fmt: skip
        system = self._system.transposed(point) if back else self._system
        return list(solved(system, point, b))

    def along(self, point: Sequence[Any], v: Sequence[Any]) -> list[Any]:
        """``∂f/∂x v`` at a point, the parameters followed by the unknowns."""
        parameters, x = self.apart(point)
        made = pushed(lambda z: self.residual([*parameters, *z]), x, v)
        return [
            np.zeros_like(z) if t is None else t for t, z in zip(made, x, strict=True)
        ]

    def _dense(
        self, parameters: Sequence[Any], x: Sequence[Any], b: Sequence[Any], back: bool
    ) -> list[Any]:
        """By the matrix of the derivative."""
        shapes = [s.shape for s in self.specs]
        sizes = [int(np.prod(s)) for s in shapes]
        stops = np.cumsum(sizes)
        kind = np.result_type(*[s.dtype for s in self.specs])
        near = np.reshape(_held(b[0]), -1)
        units = np.identity(int(stops[-1]), dtype=kind, like=near)
        point = [*parameters, *x]

        def column(inputs: Sequence[Any]) -> list[Any]:
            given, unit = inputs[:-1], inputs[-1]
            v = [
                np.reshape(unit[end - n : end], s).astype(spec.dtype)
                for end, n, s, spec in zip(
                    stops, sizes, shapes, self.specs, strict=True
                )
            ]
            return self.along(given, v)

        rows = vectorized(column, [*point, units], [False] * len(point) + [True])
        # Row i holds the derivatives of all residuals by unknown i.
        matrix = np.concatenate(
            [np.reshape(r, (int(stops[-1]), -1)) for r in rows], axis=1
        )
        right = np.concatenate([np.reshape(c, (-1,)) for c in b])
        try:
            flat = np.linalg.solve(matrix if back else matrix.T, right)
        except np.linalg.LinAlgError as error:
            raise MatrixError(
                f"{self.name}: the derivative of the function at the root is singular"
                f"{blame.here()}, so the root is no function of its parameters there"
                " (a double root, or one that is not isolated). Start elsewhere, or"
                " give tangent_solve."
            ) from error
        return [
            np.reshape(flat[end - n : end], s)
            for end, n, s in zip(stops, sizes, shapes, strict=True)
        ]


def _held(x: Any) -> Any:
    """The array of a Tensor, or the Tensor where it has none."""
    value = getattr(x, "_value", x)
    return x if value is None else value


def _compute(*inputs: Any, problem: Problem) -> tuple[Any, ...]:
    parameters, x0 = problem.apart(inputs)

    def f(x: Any) -> Any:
        leaves = tree.flatten(x)[0]
        return problem.closed.tree(problem.closed.flat([*parameters, *leaves]))

    start = problem.structure(x0)
    found = solution(problem.solve, f, start, f"{problem.name}: solve")
    return tuple(
        [
            (
                x if hasattr(x, "dtype") else np.asarray(x)  # host array: a number
            ).astype(s.dtype)
            for x, s in zip(tree.flatten(found)[0], problem.specs, strict=True)
        ]
    )


def _push(
    tangents: tuple[Any, ...], y: Any, inputs: tuple[Any, ...], params: Params
) -> tuple[Any, ...]:
    problem: Problem = params["problem"]
    parameters, _ = problem.apart(inputs)
    moving, _ = problem.apart(tangents)
    moved: list[Any] = [None] * len(y)
    if any(t is not None for t in moving):
        moved = pushed(lambda p: problem.residual([*p, *y]), parameters, moving)
    if all(t is None for t in moved):
        return tuple(map(np.zeros_like, y))
    b = [np.zeros_like(x) if t is None else -t for t, x in zip(moved, y, strict=True)]
    return tuple(problem.linear(parameters, y, b, back=False))


def _pull(
    mask: int, g: Any, y: Any, inputs: tuple[Any, ...], params: Params
) -> list[Any]:
    problem: Problem = params["problem"]
    parameters, x0 = problem.apart(inputs)
    nothing = [None] * len(x0)  # the root does not depend on where it starts
    if not mask & ((1 << len(parameters)) - 1):
        return [None] * len(parameters) + nothing
    filled = [np.zeros_like(x) if c is None else c for c, x in zip(g, y, strict=True)]
    w = problem.linear(parameters, y, filled, back=True)
    back = [-c for c in w]
    return pulled(lambda p: problem.residual([*p, *y]), parameters, back) + nothing


def _infer(*inputs: Any, problem: Problem) -> tuple[Any, ...]:
    return tuple(problem.specs)


ROOT.compute = _compute
ROOT.infer = _infer
ROOT.pull = _pull
ROOT.push = _push
ROOT.rule = "−(∂f/∂x)⁻ᵀ g, times ∂f by what f reads"
ROOT.reads = None


def fixed_point(
    f: Function,
    x0: Any,
    *args: Any,
    tol: float | None = None,
    max_steps: int = 1000,
    tangent_solve: Function | None = None,
) -> Any:
    """The x with ``x = f(x, *args)``, by iterating ``f``; differentiable.

    Parameters
    ----------
    f
        A function of what is nested and shaped as ``x0``, and further arguments,
        that returns the same. The derivatives by the arguments, and by what it
        reads through its closure, solve ``(1 − ∂f/∂x) ẋ = ∂f/∂θ θ̇``.
    x0
        Where the iteration starts.
    args
        Further arguments of ``f``, nests of arrays.
    tol
        It ends when no entry changes by more than ``tol`` times one plus the
        largest; by default 1e-12 for float64 and 1e-5 for float32.
    max_steps
        An error if it has not ended by then.
    tangent_solve
        As for :func:`workbench.custom_root`.

    Raises
    ------
    ConvergenceError
        If it has not converged after ``max_steps``.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> root = lambda a: wb.fixed_point(lambda x, a: (x + a / x) / 2, 1.0, a)
    >>> round(float(root(2.0)), 12), round(float(wb.grad(root)(2.0)), 12)
    (1.414213562373, 0.353553390593)
    """

    def residual(x: Any) -> Any:
        leaves, structure = tree.flatten(x)
        made, other = tree.flatten(f(x, *args))
        check_alike(
            "fixed_point", "the function", other, [types.spec_of(y) for y in made], x
        )
        return structure([y - z for y, z in zip(made, leaves, strict=True)])

    def iterate(residual: Function, x: Any) -> Any:
        leaves, structure = tree.flatten(x)
        for _ in range(max_steps):
            change = tree.flatten(residual(structure(leaves)))[0]
            leaves = [x + d for x, d in zip(leaves, change, strict=True)]
            if all(_settled(x, d, tol) for x, d in zip(leaves, change, strict=True)):
                return structure(leaves)
        last = max(float(np.max(np.abs(d))) for d in change)
        raise ConvergenceError(
            f"fixed_point: after max_steps={max_steps} steps the last still changed"
            f" {last:.2g}{blame.here()}. Give more steps, a larger tol, or a start"
            " nearer by; a function that is no contraction there needs another"
            " solver: see wb.custom_root."
        )

    return root(residual, x0, iterate, tangent_solve, "fixed_point")


def _settled(x: Any, change: Any, tol: float | None) -> bool:
    """Whether a step changed no entry by more than is asked; not so for NaN."""
    if shape_of(x) != () and not x.size:
        return True
    if tol is None:
        tol = 1e-12 if getattr(x, "dtype", np.dtype(float)).itemsize >= 8 else 1e-5
    return bool(np.max(np.abs(change)) <= tol * (1 + np.max(np.abs(x))))
