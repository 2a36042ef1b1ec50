"""Implicit differentiation: `custom_root`, `fixed_point`, `custom_linear_solve`.

Where x solves ``f(x, θ) = 0``, its derivatives follow from the equation and not
from the steps of the solver: ``ẋ = −(∂f/∂x)⁻¹ ∂f/∂θ θ̇`` forward, and in reverse
``θ̄ = −(∂f/∂θ)ᵀ (∂f/∂x)⁻ᵀ x̄`` (Blondel et al., *Efficient and modular implicit
differentiation*, 2022; for fixed points Christianson, *Reverse accumulation and
attractive fixed points*, 1994).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np

from workbench import errors
from workbench.autodiff.call import pull_through, push_through, record_once
from workbench.autodiff.linear_map import LinearMap
from workbench.core import blame, tree, types
from workbench.core.op import declare
from workbench.core.recorder import Recorder
from workbench.core.tensor import value_of
from workbench.core.trace import is_live, record
from workbench.core.types import Array, Cotangent, Params, Spec, Tangent
from workbench.ops import define
from workbench.ops.define import shape_of
from workbench.ops.device import make_zeros

# `custom_linear_solve`: linear systems given by a product and solved by the user.
#
# ``x = A⁻¹ b``, where A is a function ``matvec`` that may read Tensors through its
# closure. Differentiating ``A x = b`` gives both modes without looking into the
# solver: ``A ẋ = ḃ − Ȧ x`` forward; in reverse ``Aᵀ w = x̄``, then ``b̄ = w`` and what
# ``−wᵀ A x`` sends to A (Giles, *Collected matrix derivative results*, 2008). The
# solver runs on plain arrays alone; each of these is a solve again, so it nests.

Function = Callable[..., Any]

SOLVE = declare("custom_linear_solve")
SOLVE.pattern = "linear solution"

#: The part of the right-hand side that a solution of the transposed system may
#: leave over: a solver that took no notice of the product leaves nearly all of it.
LEFT_OVER = 1e-3
#: A solution is corrected so many times at most where a check wants all digits.
MOST_CORRECTIONS = 30


def custom_linear_solve(
    matvec: Function,
    b: object,
    solve: Function,
    transpose_solve: Function | None = None,
    symmetric: bool = False,
) -> Any:
    """Return the solution x of ``matvec(x) = b`` that ``solve`` finds; differentiable.

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
    closed = Recorder(matvec, b, dynamic=True)
    nest = closed.graph.tree
    check_alike("custom_linear_solve", "matvec", nest, closed.specs, b)
    if not any(map(is_live, closed.inputs)):
        return check_solution(solve, matvec, b, "custom_linear_solve: solve")
    specs = [
        Spec(_spec(x).shape, np.result_type(_spec(x).dtype, out.dtype))
        for x, out in zip(flat, closed.specs, strict=True)
    ]
    system = System(closed.run, structure, specs, solve, transpose_solve, symmetric)
    return structure(
        list(define.apply_and_split(SOLVE, closed.inputs, {"system": system}))
    )


def split_inputs(inputs: Sequence[Any], count: int) -> tuple[list[Any], list[Any]]:
    """Split off the last ``count`` inputs: the parameters come before them."""
    start = len(inputs) - count
    return list(inputs[:start]), list(inputs[start:])


class System:
    """A linear system: its product as a flat program, and its solver.

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

    def tighten(self) -> System:
        """Return the same system with solvers that give the last digits too."""
        other = self.transpose_solve
        return System(
            self.product, self.structure, self.specs, make_correcting(self.solve),
            None if other is None else make_correcting(other), self.symmetric,
            self.checked,
        )  # fmt: skip

    def transpose(self, parameters: Sequence[Any]) -> System:
        """Return the system of the transposed product."""
        if self._transposed is None:
            product, count = self.product, len(parameters)

            def transpose(inputs: Sequence[Any]) -> list[Any]:
                fixed, g = inputs[:count], inputs[count:]
                zeros = [
                    make_zeros(c, s.shape, s.dtype)
                    for c, s in zip(g, self.specs, strict=True)
                ]
                made = pull_through(lambda x: product([*fixed, *x]), zeros, g)
                return [z if m is None else m for z, m in zip(zeros, made, strict=True)]

            run = record_once(transpose, *parameters, *self.specs)
            self._transposed = System(
                run, self.structure, self.specs,
                self.transpose_solve or self.solve, self.solve, False,
                checked=self.transpose_solve is None,
            )  # fmt: skip
            self._transposed._transposed = self
        return self._transposed


def _solve_compute(*inputs: Any, system: System) -> tuple[Any, ...]:
    parameters, b = split_inputs(inputs, len(system.specs))

    def matvec(x: object) -> Any:
        return system.structure(system.product([*parameters, *tree.flatten(x)[0]]))

    nest = system.structure(b)
    made = check_solution(system.solve, matvec, nest, "custom_linear_solve: the solver")
    x = _cast(made, system.specs)
    if system.checked:
        rest = [v - u for v, u in zip(tree.flatten(matvec(made))[0], b, strict=True)]
        if not _norm(rest) <= LEFT_OVER * _norm(b):
            raise errors.ConvergenceError(
                "custom_linear_solve: reverse mode needs the transposed system, and"
                " `solve` did not solve it with the transposed product"
                f" (|Aᵀw − g| = {_norm(rest):.2g}, |g| = {_norm(b):.2g})"
                f"{blame.user_line()}. Give transpose_solve=..., or symmetric=True"
                " where the product equals its transpose."
            )
    return tuple(x)


def _norm(arrays: Sequence[Any]) -> float:
    return float(np.sqrt(sum(float(np.sum(np.abs(x) ** 2)) for x in arrays)))


def make_correcting(solve: Function) -> Function:
    """Return a solver that solves again for the residual that the given one leaves.

    Each time its tolerance is a part of the last residual.
    """

    def correct(matvec: Function, b: object) -> Any:
        given, structure = tree.flatten(b)
        x = best = tree.flatten(solve(matvec, b))[0]
        least = np.inf
        for _ in range(MOST_CORRECTIONS + 1):
            product = tree.flatten(matvec(structure(x)))[0]
            rest = [v - u for v, u in zip(given, product, strict=True)]
            left = _norm(rest)
            if not left < least:
                break
            best = x
            if not 0 < left <= least / 2:
                break
            least = left
            try:
                more = solve(matvec, structure([r / left for r in rest]))
            except (errors.ConvergenceError, errors.MatrixError):
                break
            x = [v + left * d for v, d in zip(x, tree.flatten(more)[0], strict=True)]
        return structure(best)

    return correct


def _solve_push(
    tangents: tuple[Any, ...], y: Sequence[Any], inputs: tuple[Any, ...], params: Params
) -> tuple[Any, ...]:
    system: System = params["system"]
    parameters, _ = split_inputs(inputs, len(system.specs))
    moving, b = split_inputs(tangents, len(system.specs))
    moved = [None] * len(b)
    if any(t is not None for t in moving):
        moved = push_through(lambda p: system.product([*p, *y]), parameters, moving)
    right = [_subtract(t, m, x) for t, m, x in zip(b, moved, y, strict=True)]
    return define.apply_and_split(SOLVE, (*parameters, *right), params)


def _subtract(a: Tangent, b: Tangent, like: Array) -> Array:
    """Return ``a - b``, where None is zero."""
    if b is None:
        return np.zeros_like(like) if a is None else a
    return -b if a is None else a - b


def _solve_pull(
    mask: int,
    g: Sequence[Cotangent],
    y: Sequence[Any],
    inputs: tuple[Any, ...],
    params: Params,
) -> list[Any]:
    system: System = params["system"]
    parameters, _ = split_inputs(inputs, len(system.specs))
    filled = [np.zeros_like(x) if c is None else c for c, x in zip(g, y, strict=True)]
    w = apply_solve(system.transpose(parameters), parameters, filled)
    made: list[Any] = [None] * len(parameters)
    if mask & ((1 << len(parameters)) - 1):
        back = [-c for c in w]
        made = pull_through(lambda p: system.product([*p, *y]), parameters, back)
    return [*made, *w]


def apply_solve(
    system: System, parameters: Sequence[Any], b: Sequence[Any]
) -> tuple[Any, ...]:
    """Return the flat solution of a system, recorded where a trace needs a node."""
    return define.apply_and_split(SOLVE, (*parameters, *b), {"system": system})


def _solve_infer(*inputs: Any, system: System) -> tuple[Any, ...]:
    return tuple(system.specs)


SOLVE.compute = _solve_compute
SOLVE.tighten = lambda params: {"system": params["system"].tighten()}
SOLVE.infer = _solve_infer
SOLVE.pull = _solve_pull
SOLVE.push = _solve_push
SOLVE.rule = "w = A⁻ᵀ g for b, −w ∂(A x) for A"
SOLVE.reads = None
SOLVE.calls_back = True


# What the user's functions return


def check_solution(solve: Function, f: Function, start: object, what: str) -> Any:
    """Return the solution of a user's solver: plain arrays, nested as the start.

    Raises
    ------
    ShapeError
        If the nesting or the shapes differ from those of the start.
    TraceError
        If the solver reads a Tensor that is traced without a value.
    """
    solved = solve(f, start)
    if solved is None:
        raise errors.DtypeError(
            f"{what} returned None{blame.user_line()}. Does it end with a `return`?"
        )
    solution = tree.map_tree(value_of, solved)
    leaves, structure = tree.flatten(solution)
    if any(x is None for x in leaves):
        raise errors.TraceError(
            f"{what} reads what has no value while tracing without values"
            f"{blame.user_line()}. Let it use the function and the start that it is"
            " given alone."
        )
    check_alike(what, "it", structure, [types.spec_of(x) for x in leaves], start)
    return solution


def _cast(solution: object, specs: Sequence[Spec]) -> list[Any]:
    """Return the leaves of a solution, cast to the dtypes of some specs."""
    return [
        (
            x if hasattr(x, "dtype") else np.asarray(x)  # host array: a number
        ).astype(s.dtype)
        for x, s in zip(tree.flatten(solution)[0], specs, strict=True)
    ]


def check_alike(
    what: str, who: str, structure: tree.Tree, specs: Sequence[Spec], like: object
) -> None:
    """Raise an error unless something is nested and shaped as ``like``."""
    leaves, wanted = tree.flatten(like)
    shapes = [_spec(x).shape for x in leaves]
    if structure == wanted and [s.shape for s in specs] == shapes:
        return
    if structure != wanted:
        raise errors.ShapeError(
            f"{what}: {who} returned another nest than it must{blame.user_line()}:"
            f" {tree.describe_difference(wanted, structure)}."
        )
    made = ", ".join(str(s.shape) for s in specs)
    raise errors.ShapeError(
        f"{what}: {who} returned arrays of shapes {made}{blame.user_line()}; they must"
        f" be {', '.join(map(str, shapes))}."
    )


def _spec(x: object) -> Spec:
    found: Spec = x if isinstance(x, Spec) else types.spec_of(x)
    return found


# `custom_root` and `fixed_point`

ROOT = declare("custom_root")
ROOT.pattern = "root"


def custom_root(
    f: Function,
    x0: object,
    solve: Function,
    tangent_solve: Function | None = None,
) -> Any:
    """Return a root x of ``f(x) = 0``, found by ``solve`` and differentiable.

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
    ConvergenceError
        If the solver returns inf or NaN.

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
    x0: object,
    solve: Function,
    tangent_solve: Function | None,
    name: str,
    beside: Function | None = None,
) -> Any:
    """Return a root as `custom_root` does; ``name`` is for error texts.

    With ``beside`` the solver gets a function that returns a pair: what is to
    vanish, and ``beside(x)``, which has no part in the derivative.
    """
    flat, structure = tree.flatten(x0)
    for i, x in enumerate(flat):
        if not types.is_differentiable(types.spec_of(x).dtype):
            flat[i] = x.astype(float) if hasattr(x, "dtype") else float(x)
    x0 = structure(flat)
    target = f if beside is None else lambda x: (f(x), beside(x))
    closed = Recorder(target, x0, dynamic=True)
    if beside is None:
        check_alike(name, "the function", closed.graph.tree, closed.specs, x0)
    if not any(map(is_live, closed.inputs)):
        return _find_root(solve, target, x0, name)
    specs = [
        Spec(out.shape, out.dtype if types.is_weak(x) else types.spec_of(x).dtype)
        for x, out in zip(flat, closed.specs, strict=False)
    ]
    problem = Equation(closed, structure, specs, solve, tangent_solve, name)
    made = define.apply_and_split(ROOT, closed.inputs, {"problem": problem})
    return structure(list(made))


def _find_root(solve: Function, f: Function, start: object, name: str) -> Any:
    """Return the solution of a solver; raise an error if a value is not finite."""
    found = check_solution(solve, f, start, f"{name}: solve")
    if not _is_finite(tree.flatten(found)[0]):
        raise errors.ConvergenceError(
            f"{name}: the solver returned what is not finite{blame.user_line()}, and"
            " no root has a derivative there. Start nearer by, or let the solver take"
            " smaller steps."
        )
    return found


class Equation:
    """An equation as a program of its parameters and unknowns."""

    def __init__(
        self,
        closed: Recorder,
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
        #: Newton steps follow those of the solver.
        self.is_tight = False
        self._system: System | None = None

    def __repr__(self) -> str:
        return f"<an equation in {', '.join(map(repr, self.specs))}>"

    def tighten(self) -> Equation:
        """Return the same equation, with the root found to the last digits."""
        other = self.tangent_solve
        made = Equation(
            self.closed, self.structure, self.specs, self.solve,
            None if other is None else make_correcting(other), self.name,
        )  # fmt: skip
        made.is_tight = True
        return made

    def residual(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the residual, flat; zero at a root."""
        return self.closed.run(inputs)[: len(self.specs)]

    def linear(
        self,
        parameters: Sequence[Any],
        x: Sequence[Any],
        b: Sequence[Any],
        transposed: bool,
    ) -> list[Any]:
        """Return ``(∂f/∂x)⁻¹ b`` at a root, or ``(∂f/∂x)⁻ᵀ b``."""
        if self.tangent_solve is None:
            return self._dense(parameters, x, b, transposed)
        point = (*parameters, *x)
        if self._system is None:
            count = len(point)
            self._system = System(
                lambda inputs: self.apply_jacobian(inputs[:count], inputs[count:]),
                self.structure, self.specs, self.tangent_solve, None, False,
            )  # fmt: skip
        system = self._system.transpose(point) if transposed else self._system
        return list(apply_solve(system, point, b))

    def apply_jacobian(self, point: Sequence[Any], v: Sequence[Any]) -> list[Any]:
        """Return ``∂f/∂x v`` at a point, the parameters followed by the unknowns."""
        parameters, x = split_inputs(point, len(self.specs))
        made = push_through(lambda z: self.residual([*parameters, *z]), x, v)
        return [
            np.zeros_like(z) if t is None else t for t, z in zip(made, x, strict=True)
        ]

    def _dense(
        self,
        parameters: Sequence[Any],
        x: Sequence[Any],
        b: Sequence[Any],
        transposed: bool,
    ) -> list[Any]:
        """Solve a linear system by the matrix of the derivative."""
        recording = record(lambda z: self.residual([*parameters, *z]), x)
        rows = LinearMap(recording.outputs, recording.leaves).blocks("forward")
        sizes = [prod(s.shape) for s in self.specs]
        matrix = np.concatenate(
            [
                np.concatenate(
                    [np.reshape(c, (m, n)) for c, n in zip(row, sizes, strict=True)], 1
                )
                for row, m in zip(rows, sizes, strict=True)
            ]
        )
        right = np.concatenate([np.reshape(c, (-1,)) for c in b])
        try:
            flat = np.linalg.solve(matrix.T if transposed else matrix, right)
        except np.linalg.LinAlgError as error:
            raise errors.MatrixError(
                f"{self.name}: the derivative of the function at the root is singular"
                f"{blame.user_line()}, so the root is not a function of its parameters"
                " there (a double root, or one that is not isolated). Start elsewhere,"
                " or give tangent_solve."
            ) from error
        parts = np.split(flat, [*accumulate(sizes)][:-1])
        return [np.reshape(c, s.shape) for c, s in zip(parts, self.specs, strict=True)]


def _compute(*inputs: Any, problem: Equation) -> tuple[Any, ...]:
    parameters, x0 = split_inputs(inputs, len(problem.specs))

    def f(x: object) -> Any:
        leaves = tree.flatten(x)[0]
        return problem.closed.graph.tree(problem.closed.run([*parameters, *leaves]))

    start = problem.structure(x0)
    found = _find_root(problem.solve, f, start, problem.name)
    x = _cast(found, problem.specs)
    return tuple(_correct_root(problem, parameters, x) if problem.is_tight else x)


def _correct_root(
    problem: Equation, parameters: Sequence[Any], x: Sequence[Any]
) -> Sequence[Any]:
    """Return a root after Newton's steps, as long as they help."""
    best, least = x, np.inf
    for _ in range(MOST_CORRECTIONS):
        rest = problem.residual([*parameters, *x])
        left = _norm(rest)
        if not left < least:
            break
        best, least = x, left
        if left == 0:
            break
        try:
            step = problem.linear(parameters, x, rest, transposed=False)
        except (errors.MatrixError, errors.ConvergenceError):
            break
        x = [v - d for v, d in zip(x, step, strict=True)]
    return best


def _push(
    tangents: tuple[Any, ...], y: Sequence[Any], inputs: tuple[Any, ...], params: Params
) -> tuple[Any, ...]:
    problem: Equation = params["problem"]
    parameters, _ = split_inputs(inputs, len(problem.specs))
    moving, _ = split_inputs(tangents, len(problem.specs))
    moved: list[Any] = [None] * len(y)
    if any(t is not None for t in moving):
        moved = push_through(lambda p: problem.residual([*p, *y]), parameters, moving)
    if all(t is None for t in moved):
        return tuple(map(np.zeros_like, y))
    b = [np.zeros_like(x) if t is None else -t for t, x in zip(moved, y, strict=True)]
    return tuple(problem.linear(parameters, y, b, transposed=False))


def _pull(
    mask: int,
    g: Sequence[Cotangent],
    y: Sequence[Any],
    inputs: tuple[Any, ...],
    params: Params,
) -> list[Any]:
    problem: Equation = params["problem"]
    parameters, x0 = split_inputs(inputs, len(problem.specs))
    nothing = [None] * len(x0)  # the root does not depend on where it starts
    if not mask & ((1 << len(parameters)) - 1):
        return [None] * len(parameters) + nothing
    filled = [np.zeros_like(x) if c is None else c for c, x in zip(g, y, strict=True)]
    w = problem.linear(parameters, y, filled, transposed=True)
    back = [-c for c in w]
    return (
        pull_through(lambda p: problem.residual([*p, *y]), parameters, back) + nothing
    )


def _infer(*inputs: Any, problem: Equation) -> tuple[Any, ...]:
    return tuple(problem.specs)


ROOT.compute = _compute
ROOT.tighten = lambda params: {"problem": params["problem"].tighten()}
ROOT.infer = _infer
ROOT.pull = _pull
ROOT.push = _push
ROOT.rule = "−(∂f/∂x)⁻ᵀ g, times ∂f by what f reads"
ROOT.reads = None
ROOT.calls_back = True


def fixed_point(
    f: Function,
    x0: object,
    *args: Any,
    tol: float | None = None,
    max_steps: int = 1000,
    tangent_solve: Function | None = None,
) -> Any:
    """Return the x with ``x = f(x, *args)``, by iterating ``f``; differentiable.

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
        If it has not converged after ``max_steps``, or an iterate is not finite.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> root = lambda a: wb.fixed_point(lambda x, a: (x + a / x) / 2, 1.0, a)
    >>> round(float(root(2.0)), 12), round(float(wb.grad(root)(2.0)), 12)
    (1.414213562373, 0.353553390593)
    """

    def residual(x: object) -> Any:
        leaves, structure = tree.flatten(x)
        made, other = tree.flatten(f(x, *args))
        check_alike(
            "fixed_point", "the function", other, [types.spec_of(y) for y in made], x
        )
        return structure([y - z for y, z in zip(made, leaves, strict=True)])

    def iterate(residual: Function, x: object) -> Any:
        leaves, structure = tree.flatten(x)
        for step in range(1, max_steps + 1):
            change = tree.flatten(residual(structure(leaves)))[0]
            leaves = [x + d for x, d in zip(leaves, change, strict=True)]
            if not _is_finite(leaves):
                raise errors.ConvergenceError(
                    f"fixed_point: after {step} steps the iterate is not finite"
                    f"{blame.user_line()}. Start nearer by; a function that is not a"
                    " contraction there needs another solver: see wb.custom_root."
                )
            if all(
                _has_converged(x, d, tol) for x, d in zip(leaves, change, strict=True)
            ):
                return structure(leaves)
        last = max(float(np.max(np.abs(d))) for d in change)
        raise errors.ConvergenceError(
            f"fixed_point: after max_steps={max_steps} steps the last still changed"
            f" {last:.2g}{blame.user_line()}. Give more steps, a larger tol, or a start"
            " nearer by; a function that is not a contraction there needs another"
            " solver: see wb.custom_root."
        )

    return root(residual, x0, iterate, tangent_solve, "fixed_point")


def _is_finite(leaves: Sequence[Any]) -> bool:
    """Return whether all entries are finite; integers always are."""
    return all(bool(np.all(np.isfinite(value_of(x)))) for x in leaves)


def _has_converged(x: Array, change: Array, tol: float | None) -> bool:
    """Return whether a step changed no entry by more; NaN and infinity always did."""
    if shape_of(x) != () and not x.size:
        return True
    if tol is None:
        tol = 1e-12 if getattr(x, "dtype", np.dtype(float)).itemsize >= 8 else 1e-5
    last = np.max(np.abs(change))
    return bool(np.isfinite(last) and last <= tol * (1 + np.max(np.abs(x))))
