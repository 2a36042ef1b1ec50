"""Many derivatives at once: `jacobian`, `hessian`.

A Jacobian is one pullback or pushforward, recorded once for a cotangent or
tangent without value, and run on the whole identity at once (`Batched`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Literal

import numpy as np

from workbench.autodiff import forward, reverse
from workbench.autodiff.batch import Batched, Structured
from workbench.autodiff.grad import check_target, grad
from workbench.autodiff.recorded_call import (
    Argnames,
    Argnums,
    Aux,
    Call,
    is_expression,
    no_options,
    only_for_functions,
    owned,
    released,
    wrt_of,
)
from workbench.core import traces, types
from workbench.core.hooks import Override
from workbench.core.op import declare
from workbench.core.tensor import Tensor, apply
from workbench.core.trace import blank
from workbench.core.types import weak
from workbench.errors import NotDifferentiableError, OverrideError, UsageError
from workbench.ops.define import shape_of
from workbench.ops.lengths import delayed

# Unit vectors that stay diagonal as long as they can.
#
# A Jacobian starts from an identity matrix. Rules that work entry by entry keep it
# diagonal, and a product with a matrix only picks and scales its rows: so the
# first dense product is never computed, and what is zero by structure stays zero,
# be the partial derivatives beside it infinite.


class Diagonal(Structured):
    """Example ``i`` is zero but for entry ``start + i``, which is ``entries[i]``.

    >>> units = Diagonal(np.array([5.0, 6.0]), (3,), 1, np.float64(0))
    >>> units.dense()
    array([[0., 5., 0.],
           [0., 0., 6.]])
    """

    __slots__ = ("_array", "entries", "like", "shape", "start")

    def __init__(
        self, entries: Any, shape: tuple[int, ...], start: int, like: Any
    ) -> None:
        self.entries = entries
        self.shape = shape
        self.start = start
        self.like = like
        self._array: Any = None

    @classmethod
    def identity(
        cls, leaf: Tensor, like: Any, unit: complex, start: int, stop: int
    ) -> Diagonal:
        """The unit vectors ``start`` to ``stop`` of a leaf's entries."""
        like = 0.0 if like is None else like
        ones = np.ones_like(like, dtype=leaf.dtype, shape=(stop - start,))
        return cls(ones if unit == 1 else ones * unit, leaf.shape, start, like)

    def dense(self) -> Any:
        """The array, one example per row."""
        if self._array is None:
            count, width = shape_of(self.entries)[0], int(np.prod(self.shape))
            entries = self.entries
            array = np.zeros_like(
                self.like, dtype=entries.dtype, order="C", shape=(count, width)
            )
            # A strided view of the diagonal, which CuPy knows too.
            array.reshape(-1)[self.start :: width + 1][:count] = (
                1 if isinstance(entries, Tensor) else entries
            )
            if isinstance(entries, Tensor):
                array = apply(declare("mul0"), (array, entries[:, None]))
            self._array = np.reshape(array, (count, *self.shape))
        return self._array

    def advance(self, node: Tensor, inputs: tuple[Any, ...], mask: int) -> Any | None:
        """See `Structured.advance`."""
        name = node.op.name
        if name in ("matmul", "matmul0"):
            return _scaled_rows(inputs, "mul0" if name == "matmul0" else "multiply")
        spec: Any = node.spec
        if isinstance(spec, tuple):  # an op with several outputs
            return None
        shape = spec.shape
        if name == "reshape" and node.params.get("order", "C") == "C":
            return Diagonal(self.entries, shape, self.start, self.like)
        keeps = _KEEPS.get(name)
        if keeps is None or not keeps(*inputs) or shape != self.shape:
            return None
        if any(
            (isinstance(x, Diagonal) and x.shape != shape)
            or (mask >> i & 1 and not isinstance(x, Diagonal))
            for i, x in enumerate(inputs)
        ):  # fmt: skip
            return None
        picked = tuple([self._pick(x) for x in inputs])
        return Diagonal(
            apply(node.op, picked, node.params), shape, self.start, self.like
        )

    def _pick(self, x: Any) -> Any:
        """The entries of an operand that meet the diagonal."""
        if isinstance(x, Diagonal):
            return x.entries
        if weak(x) or shape_of(x) == ():
            return x
        if shape_of(x) != self.shape:
            x = np.broadcast_to(x, self.shape)
        if len(self.shape) != 1:
            x = np.reshape(x, (-1,))
        count = shape_of(self.entries)[0]
        return x if count == shape_of(x)[0] else x[self.start : self.start + count]


def _scaled_rows(inputs: tuple[Any, ...], multiply: str) -> Any | None:
    """``d @ W`` and ``W @ d`` for unit vectors d: rows or columns of W."""
    left, right = inputs
    if isinstance(left, Diagonal) and isinstance(right, Diagonal):
        return None
    units = left if isinstance(left, Diagonal) else right
    matrix = right if units is left else left
    if len(units.shape) != 1 or len(shape_of(matrix)) != 2:
        return None
    if units is right:
        matrix = np.swapaxes(matrix, 0, 1)
    count = shape_of(units.entries)[0]
    rows = matrix[units.start : units.start + count]
    return apply(declare(multiply), (rows, units.entries[:, None]))


def _zero(x: Any) -> bool:
    """Whether an operand vanishes off the diagonal."""
    return isinstance(x, Diagonal) or (weak(x) and x == 0)


#: Ops that work entry by entry and map zeros to zeros, for these operands.
_KEEPS: dict[str, Callable[..., bool]] = {
    "multiply": lambda a, b: True,
    "mul0": lambda a, b: True,
    "divide": lambda a, b: not isinstance(b, Diagonal),
    "div0": lambda a, b: not isinstance(b, Diagonal),
    "add": lambda a, b: _zero(a) and _zero(b),
    "subtract": lambda a, b: _zero(a) and _zero(b),
    "where": lambda c, a, b: not isinstance(c, Diagonal) and _zero(a) and _zero(b),
    **dict.fromkeys(
        "negative positive identity mask conjugate real imag".split(), lambda x: True
    ),
}


Function = Callable[..., Any]
Mode = Literal["auto", "fwd", "rev"]

#: The most bytes of values that one batch of a Jacobian may hold at a time.
BUDGET = 2**26


# Jacobians


def jacobian(
    f: Any,
    argnums: Any = None,
    mode: Mode = "auto",
    *,
    argnames: Argnames = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    overrides: Sequence[Override] | None = None,
    **options: Any,
) -> Any:
    """The matrix of all first derivatives, as a function of the same arguments.

    ``wb.jacobian(expression, wrt)`` is that of an expression, as an expression; its
    options are those of `workbench.gradient.jacobian`.

    Parameters
    ----------
    f
        A function of arrays or nests; its result may be of any shape, or a nest. Or
        an expression, or several; then ``argnums`` is ``wrt``.
    argnums
        The position, or positions, of what is differentiated by.
    mode
        ``"rev"`` pulls all cotangents back at once, ``"fwd"`` pushes all tangents
        forward; ``"auto"`` takes the one with fewer of them.
    argnames, has_aux, holomorphic, allow_int
        As for :func:`workbench.value_and_grad`; with ``has_aux`` the result is
        ``(jacobian, aux)``.
    overrides
        Other gradient rules for parts of ``f``; see :func:`workbench.override`.

    Returns
    -------
    A function whose result is nested as the output of ``f``, and within each
    output as the argument (a tuple for several ``argnums``). Each block has the
    shape of the output followed by the shape of the argument. Entries are
    df/dx - i df/dy for a complex argument and a real output, and the complex
    derivative of an analytic function where both are complex.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> wb.jacobian(lambda x: x[:2] * x[1:])(np.array([1.0, 2.0, 3.0]))
    array([[2., 1., 0.],
           [0., 3., 2.]])
    >>> blocks = wb.jacobian(np.matmul, argnums=(0, 1))(np.ones((2, 3)), np.ones(3))
    >>> [block.shape for block in blocks]
    [(2, 2, 3), (2, 3)]
    """
    if mode not in ("auto", "fwd", "rev"):
        raise UsageError(
            f"jacobian: mode={mode!r}. Write 'fwd', 'rev', or 'auto' for the cheaper."
        )
    if is_expression(f):
        only_for_functions(
            "jacobian", argnames=argnames, has_aux=has_aux, holomorphic=holomorphic,
            allow_int=allow_int,
        )  # fmt: skip
        from workbench.autodiff import expressions

        wrt = wrt_of("jacobian", argnums, options)
        return expressions.jacobian(f, wrt, overrides=overrides, mode=mode, **options)
    no_options("jacobian", options)
    check_target(argnums, "jacobian")

    @wraps(f)
    def dense(*args: Any, **kwargs: Any) -> Any:
        aux = Aux(f, has_aux)
        call = Call(
            aux.target, argnums, args, kwargs, "jacobian", overrides,
            argnames=argnames, allow_int=allow_int, holomorphic=holomorphic,
        )  # fmt: skip
        height = sum(_size(y.shape) for y in call.outputs if isinstance(y, Tensor))
        width = sum(_size(x.shape) for x in call.leaves)
        narrow = mode == "auto" and width < height
        return aux.with_aux(
            call, _blocks(call, "fwd" if narrow else mode, optional=narrow)
        )

    return delayed(dense)


def jacrev(f: Function, argnums: Argnums = None, **settings: Any) -> Any:
    """`jacobian` in reverse mode: one sweep for each entry of the output.

    >>> import numpy as np, workbench as wb
    >>> wb.jacrev(lambda x: np.sum(x**2, keepdims=True))(np.arange(3.0))
    array([[0., 2., 4.]])
    """
    return jacobian(f, argnums, "rev", **settings)


def jacfwd(f: Function, argnums: Argnums = None, **settings: Any) -> Any:
    """`jacobian` in forward mode: one push for each entry of the argument.

    >>> import numpy as np, workbench as wb
    >>> wb.jacfwd(lambda t: np.stack([t, t**2]))(3.0)
    array([1., 6.])
    """
    return jacobian(f, argnums, "fwd", **settings)


def hessian(
    f: Any,
    argnums: Any = None,
    *,
    argnames: Argnames = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    overrides: Sequence[Override] | None = None,
    **options: Any,
) -> Any:
    """The matrix of all second derivatives of a function that returns one number.

    ``wb.hessian(expression, wrt)`` is that of an expression, as an expression; its
    options are those of `workbench.gradient.hessian`.

    Tangents are pushed forward through the recorded gradient, all at once; where
    an override has a reverse rule alone, cotangents are pulled back through it.

    Returns
    -------
    A function whose result is nested as the argument, twice; each block has the
    shape of the first variable followed by that of the second. With several
    ``argnums`` the cross blocks are included. The other settings are those of
    :func:`workbench.value_and_grad`; with ``has_aux`` it gives ``(hessian, aux)``.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> wb.hessian(lambda x: x[0] ** 2 * x[1])(np.array([1.0, 3.0]))
    array([[6., 2.],
           [2., 0.]])
    """
    settings: dict[str, Any] = {
        "argnames": argnames, "allow_int": allow_int, "holomorphic": holomorphic,
    }  # fmt: skip
    if isinstance(f, Tensor):
        only_for_functions("hessian", has_aux=has_aux, **settings)
        from workbench.autodiff import expressions

        wrt = wrt_of("hessian", argnums, options)
        return expressions.hessian(f, wrt, overrides=overrides, **options)
    no_options("hessian", options)
    check_target(argnums, "hessian")
    gradient = grad(f, argnums, has_aux=has_aux, overrides=overrides, **settings)

    @wraps(f)
    def dense(*args: Any, **kwargs: Any) -> Any:
        aux = Aux(gradient, has_aux)
        call = Call(aux.target, argnums, args, kwargs, "hessian", overrides, **settings)
        return aux.with_aux(call, _blocks(call, "fwd", optional=True))

    return delayed(dense)


def _blocks(call: Call, mode: Mode, optional: bool) -> Any:
    """All blocks of a recorded call, nested as its result.

    If forward mode is ``optional``, reverse mode stands in for it where an
    override or an op that a user has made has no forward rule.
    """
    rows = None
    if mode == "fwd":
        try:
            rows = _by_columns(call)
        except (OverrideError, NotDifferentiableError):
            if not optional:
                raise
    if rows is None:
        rows = _by_rows(call)
    made = iter(owned([released(b) for row in rows for b in row], call.known()))
    return call.recording.tree([call.nested([next(made) for _ in row]) for row in rows])


def _by_rows(call: Call) -> list[list[Any]]:
    """All cotangents of each output, pulled back at once."""
    rules = None if call.resolution is None else call.resolution.pulls()
    leaves = call.leaves
    blocks = []
    for y in call.outputs:
        if not isinstance(y, Tensor) or not types.differentiable(y.dtype):
            shape = y.shape if isinstance(y, Tensor) else np.shape(y)
            blocks.append([_zeros(shape, x) for x in leaves])
            continue
        seed = blank(y)
        made = reverse.pull_back([y], [seed], leaves, rules=rules)
        shapes = [(*y.shape, *x.shape) for x in leaves]
        # A cotangent of a complex output reaches a real argument as Re(g dy/dx).
        split = y.dtype.kind == "c" and any(x.dtype.kind != "c" for x in leaves)
        real = _run(made, seed, y)
        imaginary = _run(made, seed, y, -1j) if split else real
        row = []
        for a, b, shape, x in zip(real, imaginary, shapes, leaves, strict=True):
            if a is None:
                row.append(_zeros(y.shape, x))
                continue
            block = a + 1j * b if split and x.dtype.kind != "c" else a
            row.append(np.reshape(block, shape))
        blocks.append(row)
    return blocks


def _by_columns(call: Call) -> list[list[Any]]:
    """All tangents of each argument, pushed forward at once."""
    rules = None if call.resolution is None else call.resolution.pushes()
    outputs, leaves = call.outputs, call.leaves
    columns = []
    for x in leaves:
        seed = blank(x)
        tangents = [seed if other is x else None for other in leaves]
        made = forward.push_forward(outputs, leaves, tangents, rules=rules)
        real = _run(made, seed, x)
        split = x.dtype.kind == "c" and any(
            y is not None and y.dtype.kind != "c" for y in made
        )
        imaginary = _run(made, seed, x, 1j) if split else real
        column = []
        for y, a, b in zip(outputs, real, imaginary, strict=True):
            shape = y.shape if isinstance(y, Tensor) else np.shape(y)
            if a is None:
                column.append(_zeros(shape, x))
                continue
            block = a - 1j * b if split and y.dtype.kind != "c" else a
            column.append(np.reshape(np.moveaxis(block, 0, -1), (*shape, *x.shape)))
        columns.append(column)
    return [list(row) for row in zip(*columns, strict=True)]


def _run(
    made: Sequence[Any], seed: Tensor, like: Tensor, unit: complex = 1
) -> list[Any]:
    """What was recorded for one seed, for every unit vector in its place.

    None where there is nothing; else the unit vectors are counted by axis 0.
    """
    known = [x for x in made if x is not None]
    program = Batched(known, [seed])
    count = _size(seed.shape)
    step = count
    if not traces.any_open():
        step = max(1, min(count, BUDGET // program.bytes_per_example()))
    gathered: list[Any] = [None] * len(known)
    for start in range(0, max(count, 1), max(step, 1)):
        stop = min(start + step, count)
        units = Diagonal.identity(seed, like._value, unit, start, stop)
        with np.errstate(all="ignore"):  # the program itself has warned already
            found = program([units], stop - start)
        parts = [
            part if batched else np.broadcast_to(part, (stop - start, *shape_of(part)))
            for part, batched in zip(found, program.batched, strict=True)
        ]
        if stop - start == count:
            gathered = parts
            break
        for i, part in enumerate(parts):
            if start == 0:
                gathered[i] = np.empty_like(
                    part, order="C", shape=(count, *part.shape[1:])
                )
            gathered[i][start:stop] = part
    rest = iter(gathered)
    return [None if x is None else next(rest) for x in made]


def _zeros(shape: tuple[int, ...], x: Tensor) -> Any:
    """The block of an output that does not depend on an argument."""
    if x._value is None:
        return np.zeros((*shape, *x.shape), x.dtype)  # host array: a symbol's zeros
    return np.zeros_like(x._value, shape=(*shape, *x.shape))


def _size(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64))
