"""One node on its own: its op and its rule as functions of arrays.

The op's ``compute`` is the truth; the rule is evaluated at the values that the node
had in the run. Single precision is raised to double, for the inputs too: the check is
of the rule's mathematics, not of rounding.

An array is treated as a vector of real coordinates; real and imaginary parts of a
complex one alternate. Outputs of float or complex dtype are concatenated into one
vector; integer ones do not vary. Cotangents pair with tangents as ``Re(sum(w t))``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from workbench.autodiff import forward, reverse
from workbench.autodiff.forward import choose_push
from workbench.autodiff.jacobian import jvp, vjp
from workbench.autodiff.reverse import choose_pull
from workbench.autodiff.steps import Rules, inner_rules, with_inner_nodes
from workbench.checks.differences import EXACT_STEP, Slope, slope
from workbench.checks.progress import tick
from workbench.core.deferred import measure_lengths
from workbench.core.memory import read_args
from workbench.core.tensor import IDENTITY, Tensor, value_of
from workbench.ops import gradients
from workbench.ops.define import Parts
from workbench.overrides.node import has_derivative
from workbench.overrides.override import Override
from workbench.overrides.resolution import resolve

# Outputs that an op leaves open: the phase of an eigenvector, a basis of a null space.
#
# LAPACK chooses one, a rule another, and both are right. So only invariants are
# compared: products in which the choice cancels. An op that takes its matrix to be
# Hermitian reads one triangle of it, so only Hermitian directions count.

Invariants = Callable[..., tuple[Any, ...]]


def choose_invariants(node: Tensor, whole: Any) -> Invariants | None:
    """Return a function of the outputs that LAPACK's free choices do not change.

    None where the op leaves no choice open. The function is in plain NumPy.
    """
    if node.op.custom or not isinstance(whole, tuple):
        return None
    name, is_complex = node.op.name, np.iscomplexobj(whole[-1])
    if name == "eigh" and len(whole) == 2:
        return _eigenvectors if is_complex else None
    if name == "svd" and len(whole) == 3:
        u, s, v = whole
        extra = u.shape[-1] > s.shape[-1] or v.shape[-2] > s.shape[-1]
        return _singular if is_complex or extra else None
    if name == "qr" and len(whole) == 2:
        q, r = whole
        return _factors if q.shape[-1] > r.shape[-1] else None
    return None


def is_hermitian(node: Tensor) -> bool:
    """Return whether an op takes its matrix to be Hermitian and reads one triangle."""
    return bool(node.params.get("hermitian")) and not node.op.custom


def _column_products(left: Any, right: Any) -> Any:
    """Return all products of two entries of the same column."""
    return left[..., :, None, :] * right[..., None, :, :]


def _eigenvectors(w: Any, v: Any) -> tuple[Any, ...]:
    return w, _column_products(v, np.conj(v))


def _singular(u: Any, s: Any, v: Any) -> tuple[Any, ...]:
    k = s.shape[-1]
    first, rest = u[..., :, :k], u[..., :, k:]
    right, extra = np.swapaxes(v[..., :k, :], -1, -2), v[..., k:, :]
    made = [s, _column_products(first, np.conj(first)), _column_products(first, right)]
    if rest.shape[-1]:
        made.append(rest @ np.conj(np.swapaxes(rest, -1, -2)))
    if extra.shape[-2]:
        made.append(np.conj(np.swapaxes(extra, -1, -2)) @ extra)
    return tuple(made)


def _factors(q: Any, r: Any) -> tuple[Any, ...]:
    k = r.shape[-1]
    rest = q[..., :, k:]
    return q[..., :, :k], r, rest @ np.conj(np.swapaxes(rest, -1, -2))


# Which nodes carry complex numbers: their complex step needs no second witness.


def is_analytic(node: Tensor) -> bool:
    """Return whether a node carries complex numbers and has no kink at finite points.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> x = wb.scalar("x")
    >>> [is_analytic(y) for y in (np.sin(x), x**3, x**0.5, np.abs(x))]
    [True, True, False, False]
    """
    if node.op is IDENTITY:
        return True
    if node.op.traits.symbol == "**" and isinstance(node.inputs[1], int):
        return True
    return node.op.traits.analytic


# One node

Array = np.ndarray[Any, Any]

#: The relative error at which differences along a direction are content.
TARGET = 1e-9


class NoGradient(Exception):
    """The rule says that there is no gradient to give, and why."""


class IsolatedNode:
    """A node's op and rule on their own, at the values the node had.

    Attributes
    ----------
    node
        The node.
    argnums
        Which of its inputs vary: those that are Tensors of float or complex dtype.
    params
        Its settings; of a solver those with which it gives all digits.
    values
        All its inputs, in double precision.
    outputs
        Its float outputs at these values, in one vector.
    single_only
        Whether the op computes in single precision only.

    Parameters
    ----------
    node
        The node.
    overrides
        The overrides of the nodes inside it.
    """

    def __init__(self, node: Tensor, overrides: Sequence[Override] = ()) -> None:
        self.node = node
        self.overrides = overrides
        tighten = node.op.tighten
        self.rules: Rules = {}
        if overrides:
            self.rules = resolve(overrides, with_inner_nodes([node])).rules
        args, params = measure_lengths(list(map(to_host, read_args(node))), node.params)
        self.params = params if tighten is None else tighten(params)
        self.argnums = [
            i
            for i, (x, a) in enumerate(zip(node.operands, args, strict=True))
            if isinstance(x, Tensor) and has_derivative(a)
        ]
        self.mask = sum(1 << i for i in self.argnums)
        self.values = [to_double(a) for a in args]
        self.single_only = False
        try:
            whole = self.compute(self.values)
        except Exception:
            # Such as a kernel that is written for float32 alone.
            self.values, self.single_only = list(args), True
            whole = self.compute(self.values)
        self.whole = whole
        self.invariants = choose_invariants(node, whole)
        self.hermitian = is_hermitian(node)
        self.is_tuple = isinstance(whole, tuple)
        parts = self._parts(whole)
        #: Of several outputs those that vary.
        self.output_indices = [
            k for k, y in enumerate(parts[: _count_outputs(node)]) if has_derivative(y)
        ]
        self.shapes = [np.shape(parts[k]) for k in self.output_indices]
        self.sizes = [np.size(parts[k]) for k in self.output_indices]
        self.outputs = self.concatenate_outputs(whole)
        if self.outputs.dtype.kind in "fc" and np.finfo(self.outputs.dtype).eps > 1e-10:
            self.single_only = True

    @property
    def is_transposed(self) -> bool:
        """True if forward mode is the transpose of the reverse rule."""
        push = self.node.op.push
        owner = getattr(push, "__self__", None)  # of a user's op, both of its rules
        return push is None or (
            owner is not None and getattr(owner, "jvp", owner) is None
        )

    # The truth

    def compute(self, values: Sequence[Any]) -> Any:
        """Return the outputs of the op for values of all its inputs."""
        return self.node.op.compute(*values, **self.params)

    def _parts(self, whole: Any) -> tuple[Any, ...]:
        """Return the outputs that are compared."""
        if self.invariants is not None:
            return self.invariants(*whole)
        return whole if self.is_tuple else (whole,)

    def concatenate_outputs(self, whole: Any) -> Array:
        """Return all compared outputs that vary, in one vector."""
        parts = self._parts(whole)
        flat = [np.ravel(np.asarray(to_host(parts[k]))) for k in self.output_indices]
        if len(flat) == 1:
            return flat[0]  # not a copy: nobody writes to it
        return np.concatenate(flat) if flat else np.zeros(0)

    def run(self, argnum: int, moved: Array) -> Array:
        """Return the outputs for another value of one input."""
        values = list(self.values)
        values[argnum] = _like_scalar(moved, self.values[argnum])
        found = self.concatenate_outputs(self.compute(values))
        if len(found) != len(self.outputs):  # as of roots, whose number varies
            return np.full(len(self.outputs), np.nan)
        return found

    def measure_derivative(
        self,
        argnum: int,
        directions: Array,
        target: float = TARGET,
        grain: Array | float = 0.0,
    ) -> Slope:
        """Return the derivative along directions of one input, one row for each.

        No rule takes part in it. Where the op cannot be computed the row is NaN.
        ``grain`` is what rounding does to each output, beyond a rounding of its own.
        """
        start = np.asarray(self.values[argnum])
        steps = [self.as_direction(direction, start) for direction in directions]

        def line(t: complex) -> Array:
            rows = []
            for step in steps:
                moved = move_along(start, step, t)
                if np.iscomplexobj(moved) and start.dtype.kind == "f" and t == 0:
                    moved = moved.real
                if self.single_only and start.dtype.kind == "f":
                    if np.iscomplexobj(moved):
                        raise TypeError("single precision takes no complex step")
                    moved = moved.astype(start.dtype)
                try:
                    rows.append(self.run(argnum, moved))
                except Exception:
                    if np.iscomplexobj(moved) and start.dtype.kind == "f":
                        raise  # the op takes no complex numbers
                    rows.append(np.full(len(self.outputs), np.nan))
            # A copy only where there are several: of large arrays that is the time.
            return rows[0][None] if len(rows) == 1 else np.array(rows)

        return slope(
            line,
            analytic=start.dtype.kind == "f" and not self.single_only,
            known=is_analytic(self.node),
            target=target,
            grain=grain,
            center=np.broadcast_to(self.outputs, (len(steps), len(self.outputs))),
        )

    def as_direction(self, direction: Array, x: Array) -> Array:
        """Return a vector of coordinates as a direction of an input."""
        made: Array = from_coordinates(direction, x)
        if self.hermitian:
            made = (made + np.conj(np.swapaxes(made, -1, -2))) / 2
        return made

    @cached_property
    def noise(self) -> Array:
        """The change of each output when the inputs are rounded.

        More than one rounding of the output: where sums cancel, in transforms of all
        entries.
        """
        rng = np.random.default_rng(0)
        most = np.zeros(len(self.outputs))
        for _ in range(6):
            moved = list(self.values)
            for i in self.argnums:
                x = np.asarray(moved[i])
                eps = np.finfo(x.dtype).eps * rng.choice([-1.0, 1.0], x.shape)
                moved[i] = _like_scalar((x * (1 + eps)).astype(x.dtype), moved[i])
            try:
                off = np.abs(
                    self.concatenate_outputs(self.compute(moved)) - self.outputs
                )
            except Exception:
                continue
            if off.shape == most.shape:
                most = np.fmax(most, np.nan_to_num(off, posinf=0))
        return 4 * most

    def rounding_sensitivity(
        self, argnum: int, directions: Array, rng: np.random.Generator
    ) -> Array:
        """Return how much the derivative changes when the input alone is rounded.

        The complex step where the input is a few roundings away: no way to compute
        the derivative in this precision can be better.
        """
        start = np.asarray(self.values[argnum])
        eps = 4 * np.finfo(start.dtype).eps
        off = start * (1 + eps * rng.choice([-1.0, 1.0], start.shape))
        rows = []
        for direction in directions:
            step = EXACT_STEP * self.as_direction(direction, start)
            try:
                moved = self.run(argnum, off + 1j * step).imag / EXACT_STEP
                still = self.run(argnum, start + 1j * step).imag / EXACT_STEP
                rows.append(np.abs(moved - still))
            except Exception:
                rows.append(np.zeros(len(self.outputs)))
        made: Array = np.nan_to_num(np.array(rows))
        return made

    def step_scales(self, argnum: int) -> Array:
        """Return the step for each coordinate of an input: the size of the entry.

        For an entry that is 0, the median size of the others, at most 1.
        """
        x = np.asarray(self.values[argnum])
        size = np.abs(np.ravel(x)).astype(float)
        usable = (size > 0) & np.isfinite(size)
        if not usable.all():
            known = size[usable]
            usual = min(1.0, float(np.median(known))) if known.size else 1.0
            size = np.where(usable, size, usual)
        return np.repeat(size, 2) if x.dtype.kind == "c" else size

    # The rule

    def pull_back(
        self, weights: Array, rule: Any = None, values: Sequence[Any] | None = None
    ) -> list[Any]:
        """Return the cotangents of the varying inputs by reverse mode; None: no path.

        ``rule`` replaces that of the op, ``values`` those of the inputs.
        """
        tick()
        whole = self.whole if values is None else self.compute(values)
        values = self.values if values is None else values
        g = self.cotangents(weights, whole)
        pull, inside = choose_pull(self.node, rule, self.rules)
        if pull is None:
            return [None] * len(self.argnums)
        given = Parts(g) if self.is_tuple else g[0]
        passed = pull(self.mask, given, whole, tuple(values), self.params, *inside)
        if (
            gradients.MADE
            and (found := next(map(gradients.find_null, passed), None)) is not None
        ):
            raise NoGradient(str(gradients.null_error(found, "the derivative")))
        made = []
        for i in self.argnums:
            c = passed[i] if i < len(passed) else None
            c = None if c is None else reverse.fit_cotangent(c, values[i], self.node)
            if c is not None:
                c = np.asarray(to_host(value_of(c)))
                if self.hermitian:
                    c = (c + np.conj(np.swapaxes(c, -1, -2))) / 2
            made.append(c)
        return made

    def cotangents(self, weights: Array, whole: Any) -> list[Any]:
        """Return one cotangent per output of the op, from weights of entries."""
        parts = self._parts(whole)
        g: list[Any] = [None] * len(parts)
        at = 0
        for k, shape, size in zip(
            self.output_indices, self.shapes, self.sizes, strict=True
        ):
            part = np.reshape(weights[at : at + size], shape)
            kind = np.asarray(parts[k]).dtype
            g[k] = (part if kind.kind == "c" else part.real).astype(kind)
            at += size
        if self.invariants is None:
            return g
        return list(vjp(self.invariants, *whole)[1](tuple(g)))

    def pull_back_unwidened(self, weights: Array) -> list[Any]:
        """Return the cotangents of the inputs in the precision of the user's run."""
        args = [to_host(x) for x in read_args(self.node)][: len(self.values)]
        whole = self.compute(args)
        g = self.cotangents(weights, whole)
        if self.node.op.pull is None:
            return [None] * len(self.argnums)
        given = Parts(g) if self.is_tuple else g[0]
        inside = inner_rules(self.node.op, self.rules)
        passed = self.node.op.pull(
            self.mask, given, whole, tuple(args), self.params, *inside
        )
        made = [reverse.fit_cotangent(passed[i], args[i], self.node)
                if passed[i] is not None else None for i in self.argnums]  # fmt: skip
        return [None if c is None else np.asarray(to_host(value_of(c))) for c in made]

    def push_forward(self, argnum: int, direction: Array) -> Array:
        """Return the tangent of all compared outputs along a direction of one input."""
        tick()
        push, inside = choose_push(self.node, None, self.rules)
        if push is None:
            return np.zeros(len(self.outputs))
        x = np.asarray(self.values[argnum])
        tangent = self.as_direction(direction, x).astype(x.dtype)
        tangents: list[Any] = [None] * len(self.values)
        tangents[argnum] = tangent
        made = push(
            tuple(tangents), self.whole, tuple(self.values), self.params, *inside
        )
        if made is None:
            return np.zeros(len(self.outputs))
        parts = self._parts(self.whole)
        moved = made if self.is_tuple else (made,)
        if self.invariants is not None:
            still = [np.zeros_like(y) if t is None else t
                     for t, y in zip(moved, self.whole, strict=True)]  # fmt: skip
            moved = jvp(self.invariants, self.whole, tuple(still))[1]
        rows = []
        for k in self.output_indices:
            t = moved[k]
            if t is None:
                rows.append(np.zeros(np.size(parts[k])))
                continue
            if gradients.MADE and (found := gradients.find_null(t)) is not None:
                raise NoGradient(str(gradients.null_error(found, "the derivative")))
            rows.append(np.ravel(to_host(value_of(forward.fit_tangent(t, parts[k])))))
        return np.concatenate(rows) if rows else np.zeros(0)

    # Words

    def input_label(self, argnum: int) -> str:
        """Return the name of an input, or its letter in the rules."""
        name = self.node.inputs[argnum].name
        return name or ("x" if len(self.node.inputs) == 1 else f"x{argnum}")

    def count_coordinates(self, argnum: int) -> int:
        """Return how many real coordinates an input has."""
        x = np.asarray(self.values[argnum])
        return x.size * (2 if x.dtype.kind == "c" else 1)

    def entry_index(self, argnum: int, coordinate: int) -> tuple[int, ...]:
        """Return the entry that a coordinate belongs to."""
        x = np.asarray(self.values[argnum])
        entry = coordinate // 2 if x.dtype.kind == "c" else coordinate
        return tuple(int(n) for n in np.unravel_index(entry, x.shape))

    def format_output(self, output: int) -> str:
        """Return an entry of the outputs as text: ``y[3]``, ``y1[0, 2]``."""
        for k, shape, size in zip(
            self.output_indices, self.shapes, self.sizes, strict=True
        ):
            if output < size:
                where = ", ".join(str(int(n)) for n in np.unravel_index(output, shape))
                name = f"y{k}" if self.is_tuple else "y"
                return f"{name}[{where}]" if shape else name
            output -= size
        return "y"


def move_along(start: Array, step: Array, t: complex) -> Array:
    """Return an array moved by a multiple of a step, which may be complex."""
    if start.dtype == float and isinstance(t, complex) and t.real == 0:
        # Without arrays in between: of large ones the time goes into memory.
        moved = np.empty(start.shape, complex)
        moved.real = start
        np.multiply(step, t.imag, out=moved.imag)
        return moved
    return np.asarray(start + t * step)


def to_coordinates(x: Any, like: Any) -> Array:
    """Return the gradient by an array ``like`` as a vector of real coordinates."""
    flat = np.ravel(np.asarray(x))
    if np.asarray(like).dtype.kind != "c":
        return flat.real
    # Re(c t) for t = 1 and t = i.
    return np.stack([flat.real, -flat.imag], 1).ravel() + 0.0


def from_coordinates(direction: Array, x: Array) -> Array:
    """Return a vector of real coordinates as an array in the shape of ``x``."""
    if x.dtype.kind == "c":
        return np.reshape(direction[0::2] + 1j * direction[1::2], x.shape)
    return np.reshape(direction, x.shape)


def to_host(x: Any) -> Any:
    """Return an array in main memory; of a tuple each of its arrays."""
    if isinstance(x, tuple):
        return tuple(map(to_host, x))
    return x.get() if hasattr(x, "__cuda_array_interface__") else x


def to_double(x: Any) -> Any:
    """Return arrays and Python numbers in double precision; others unchanged."""
    if type(x) in (float, complex):
        return np.asarray(x)[()]
    if not has_derivative(x) or np.asarray(x).dtype.itemsize > 16:
        return x
    return x.astype(np.result_type(x.dtype, np.float64))


def loop_of(node: Tensor) -> Any:
    """Return the loop that a node runs; None of another node."""
    return node.params.get("loop") if node.op.repeats else None


def _count_outputs(node: Tensor) -> int | None:
    """Return how many outputs a program can read; a loop has more for its rules."""
    loop = loop_of(node)
    return None if loop is None else int(loop.carries + loop.visible)


def _like_scalar(moved: Array, like: Any) -> Any:
    """Return a NumPy number where ``like`` is one, else the array."""
    return moved[()] if isinstance(like, np.generic) else moved
