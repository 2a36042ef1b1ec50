"""JAX functions as functions of NumPy, and NumPy functions in JAX.

JAX traces a function to a program of its primitives; each is computed by the NumPy
function it means (`jax_rules.py`), so that Tensors record and arrays compute. What has
no row JAX computes, as one node whose derivatives are its own (`foreign.py`). Rules of
`custom_jvp` and `custom_vjp` are the author's, as programs too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np

from workbench.autodiff.jacobian import vjp
from workbench.control_flow.cond import cond
from workbench.control_flow.scan import scan
from workbench.control_flow.while_loop import while_loop
from workbench.core import blame, sites, source
from workbench.core.tensor import Tensor
from workbench.core.trace import record
from workbench.core.types import Spec
from workbench.custom.functions import custom_vjp
from workbench.errors import ModelError, UsageError, check_packages
from workbench.models.foreign import ForeignStep, Library, Step, has_tensor
from workbench.models.jax_rules import RULES
from workbench.ops.define import dtype_of, shape_of

# JAX's derivatives of one step


def is_float(x: Any) -> bool:
    """Return whether an array can have a derivative."""
    return np.dtype(x.dtype).kind in "fc"


def check_dtype(dtype: Any, who: str, equation: Any = None) -> None:
    """Raise an error for floats that NumPy lacks, whose slopes would be lost."""
    import jax

    if jax.dtypes.issubdtype(dtype, jax.numpy.inexact) and dtype.kind not in "fc":
        line = None if equation is None else find_line(equation.source_info)
        place = blame.quote_site(sites.decode(*line)) if line else ""
        raise ModelError(
            f"{who}{place}: an array of JAX's is {dtype.name}, which NumPy does not"
            " have, so there would be no derivative through it. Use float32 there:"
            " x.astype(jnp.float32), or dtype=jnp.float32 of the model."
        )


def vary_floats(step: Step, arrays: Sequence[Any]) -> tuple[Step, list[Any]]:
    """Return a step as a function of its floats alone to floats, and these floats."""

    def compute(*floats: Any) -> tuple[Any, ...]:
        given = iter(floats)
        made = step(*[next(given) if is_float(x) else x for x in arrays])
        return tuple(y for y in made if is_float(y))

    return compute, [x for x in arrays if is_float(x)]


class Jax(Library):
    """JAX, which runs and derives steps."""

    name = "jax"

    def run(self, step: Step, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """Return what the step computes, as NumPy arrays."""
        return tuple(map(np.asarray, compiled(step)(*arrays)))

    def pull(self, step: Step, count: int) -> Step:
        """Return the step of inputs and cotangents to the gradients of floats."""
        import jax

        def back(*arrays: Any) -> Any:
            compute, floats = vary_floats(step, arrays[:count])
            return jax.vjp(compute, *floats)[1](tuple(arrays[count:]))

        return back

    def push(self, step: Step, count: int) -> Step:
        """Return the step of inputs and tangents of floats to tangents of floats."""
        import jax

        def forward(*arrays: Any) -> Any:
            compute, floats = vary_floats(step, arrays[:count])
            return jax.jvp(compute, tuple(floats), tuple(arrays[count:]))[1]

        return forward


@cache
def compiled(step: Step) -> Any:
    """Return a step that JAX compiles once for each set of shapes."""
    import jax

    return jax.jit(step)


JAX = Jax()


# The user's line and scope behind an equation


def find_line(info: Any) -> tuple[Any, int] | None:
    """Return the innermost code of the user's, and the instruction there."""
    if info.traceback is None:
        return None
    codes, offsets = info.traceback.raw_frames()
    for code, offset in zip(codes, offsets, strict=True):
        name = code.co_filename
        if name != __file__ and not source.is_installed(name):
            return code, offset
    return None


def find_scope(info: Any) -> str:
    """Return the path that `jax.named_scope` and modules gave, with slashes."""
    return "/".join(p for p in str(info.name_stack).split("/") if p and p != "*")


# The program


def is_key(x: Any) -> bool:
    """Return whether it is an array of random keys, which NumPy does not know."""
    import jax

    dtype = getattr(x, "dtype", None)
    return dtype is not None and jax.dtypes.issubdtype(dtype, jax.dtypes.extended)


def to_numpy(x: Any) -> Any:
    """Return JAX's array as NumPy's; random keys as they are."""
    return x if isinstance(x, Tensor) or is_key(x) else np.asarray(x)


def bind(equation: Any, operands: Sequence[Any]) -> list[Any]:
    """Let JAX compute an equation; return the list of its outputs."""
    primitive = equation.primitive
    made = primitive.bind(*operands, **primitive.get_bind_params(equation.params))
    return list(made) if primitive.multiple_results else [made]


class JaxProgram:
    """An interpreter of JAX's programs, with what it has made of their equations."""

    def __init__(self) -> None:
        #: Steps and rules by the equation, which is kept beside it.
        self.made: dict[int, tuple[Any, Any]] = {}

    def run(self, program: Any, args: Sequence[Any]) -> list[Any]:
        """Return the outputs of a program for arrays or Tensors."""
        from jax.extend.core import Literal

        jaxpr = getattr(program, "jaxpr", program)
        consts = getattr(program, "consts", ())
        found: dict[Any, Any] = dict(
            zip(jaxpr.constvars, map(to_numpy, consts), strict=True)
        )
        found.update(zip(jaxpr.invars, args, strict=True))

        def read(variable: Any) -> Any:
            if isinstance(variable, Literal):
                return np.asarray(variable.val, variable.aval.dtype)
            return found[variable]

        for equation in jaxpr.eqns:
            operands = [*map(read, equation.invars)]
            if has_tensor(operands):
                info = equation.source_info
                with source.at_site(find_line(info), find_scope(info)):
                    outs = self.compute(equation, operands)
            else:
                outs = self.compute_arrays(equation, operands)
            found.update(zip(equation.outvars, outs, strict=True))
        return [*map(read, jaxpr.outvars)]

    def compute(self, equation: Any, operands: Sequence[Any]) -> list[Any]:
        """Return the outputs of an equation in which a Tensor takes part."""
        name, params = equation.primitive.name, equation.params
        for variable in (*equation.invars, *equation.outvars):
            if not is_key(variable.aval):
                check_dtype(variable.aval.dtype, name, equation)
        higher = HIGHER.get(name)
        if higher is not None:
            made = higher(self, equation, operands)
        else:
            rule = RULES.get(name)
            made = rule(*operands, **params) if rule is not None else NotImplemented
        if made is NotImplemented:
            return self.compute_foreign(equation, operands)
        return made if isinstance(made, list) else [made]

    def compute_arrays(self, equation: Any, operands: Sequence[Any]) -> list[Any]:
        """Return the outputs of an equation of arrays: by its row, or by JAX.

        JAX would compile each equation for itself.
        """
        name, params = equation.primitive.name, equation.params
        made: Any = NotImplemented
        if not any(map(is_key, operands)):
            if name in INLINED:
                return self.run(params[INLINED[name]], operands)
            if name in RULES:
                with np.errstate(all="ignore"):
                    made = RULES[name](*operands, **params)
        if made is NotImplemented:
            return [*map(to_numpy, bind(equation, operands))]
        outs = made if isinstance(made, list) else [made]
        return [
            np.asarray(y, v.aval.dtype)
            for y, v in zip(outs, equation.outvars, strict=True)
        ]

    def keep(self, equation: Any, make: Callable[[], Any]) -> Any:
        """Return what was made of an equation, made by the first call."""
        if id(equation) not in self.made:
            self.made[id(equation)] = equation, make()
        return self.made[id(equation)][1]

    def compute_foreign(self, equation: Any, operands: Sequence[Any]) -> list[Any]:
        """Return what JAX gives, as the outputs of one node."""
        keys = {i: x for i, x in enumerate(operands) if is_key(x)}

        def make() -> ForeignStep:
            def step(*arrays: Any) -> tuple[Any, ...]:
                given = iter(arrays)
                n = len(operands)
                full = [keys[i] if i in keys else next(given) for i in range(n)]
                return tuple(bind(equation, full))

            return ForeignStep(JAX, equation.primitive.name.replace("-", "_"), step)

        step = make() if keys else self.keep(equation, make)
        return list(step(*[x for i, x in enumerate(operands) if i not in keys]))


# Equations that hold programs

HIGHER: dict[str, Callable[[JaxProgram, Any, Sequence[Any]], Any]] = {}


#: Those that only hold one, and the parameter it is.
INLINED = {
    "jit": "jaxpr", "pjit": "jaxpr", "core_call": "jaxpr", "remat2": "jaxpr",
    "checkpoint": "jaxpr", "closed_call": "call_jaxpr", "call": "call_jaxpr",
    "custom_lin": "call_jaxpr", "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
}  # fmt: skip


def _compute_inline(self: JaxProgram, equation: Any, operands: Sequence[Any]) -> Any:
    return self.run(equation.params[INLINED[equation.primitive.name]], operands)


HIGHER.update(dict.fromkeys(INLINED, _compute_inline))


def _compute_scan(self: JaxProgram, equation: Any, operands: Sequence[Any]) -> Any:
    params = equation.params
    if params["length"] == 0:
        return NotImplemented
    n, m = params["num_consts"], params["num_consts"] + params["num_carry"]
    fixed, first, sequences = operands[:n], operands[n:m], operands[m:]
    extra = len(params["jaxpr"].out_avals) - len(first)

    def step(*args: Any) -> list[Any]:
        entries, rest = args[: len(sequences)], args[len(sequences) :]
        state, fixed = rest[: len(first)], rest[len(first) :]
        return self.run(params["jaxpr"], (*fixed, *state, *entries))

    made = scan(
        step, list(sequences), initial=[*first, *[None] * extra],
        non_sequences=list(fixed), n_steps=params["length"],
        reverse=params["reverse"],
    )  # fmt: skip
    outs = list(made) if isinstance(made, (list, tuple)) else [made]
    stacks = outs[len(first) :]
    if params["reverse"]:  # the first is that of the last entry
        stacks = [np.flip(y, 0) for y in stacks]
    return [*(y[-1] for y in outs[: len(first)]), *stacks]


def _compute_while(self: JaxProgram, equation: Any, operands: Sequence[Any]) -> Any:
    params = equation.params
    n, m = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    asked, fixed, state = operands[:n], operands[n:m], tuple(operands[m:])
    made = while_loop(
        lambda s: self.run(params["cond_jaxpr"], (*asked, *s))[0],
        lambda s: tuple(self.run(params["body_jaxpr"], (*fixed, *s))),
        state,
    )
    return list(made)


def _compute_cond(self: JaxProgram, equation: Any, operands: Sequence[Any]) -> Any:
    which, *given = operands
    branches = [
        lambda *xs, branch=branch: tuple(self.run(branch, xs))
        for branch in equation.params["branches"]
    ]
    if not isinstance(which, Tensor):
        i = int(np.clip(int(which), 0, len(branches) - 1))
        return list(branches[i](*given))

    def choose(first: int, *xs: Any) -> Any:
        if first == len(branches) - 1:
            return branches[first](*xs)
        rest = lambda *ys: choose(first + 1, *ys)  # noqa: E731
        return cond(np.less_equal(which, first), branches[first], rest, *xs)

    if dtype_of(which).kind == "b":
        return list(cond(which, branches[1], branches[0], *given))
    return list(choose(0, *given))


HIGHER["scan"] = _compute_scan
HIGHER["while"] = _compute_while
HIGHER["cond"] = _compute_cond


# The rules of an author


class AuthoredRule:
    """A function with `custom_jvp` or `custom_vjp`: its value, its author's rules.

    The rules are programs as JAX has them: those of the vjp and the jvp of this one
    equation, which its author's functions decide.
    """

    def __init__(self, program: JaxProgram, equation: Any) -> None:
        self.program = program
        self.equation = equation
        #: What the function closes over comes first; its rule has no word on it.
        closed = equation.params.get("num_consts", 0)
        self.varied = [
            i for i, v in enumerate(equation.invars) if i >= closed and is_float(v.aval)
        ]
        self.made: dict[str, Any] = {}
        name = equation.params.get("name")
        body = equation.params["call_jaxpr"]
        name = str(name or body.jaxpr.debug_info.func_name).split(" ")[0]
        is_forward = equation.primitive.name == "custom_jvp_call"

        def value(*args: Any) -> Any:
            return pack(program.run(body, args))

        value.__name__ = name if name.isidentifier() else "custom"
        self.function = custom_vjp(
            value, self.pull, jvp=self.push if is_forward else None
        )

    def vary(self, args: Sequence[Any]) -> Callable[..., tuple[Any, ...]]:
        """Return the equation as a function of what can vary, to its floats."""

        def compute(*floats: Any) -> tuple[Any, ...]:
            full = list(args)
            for i, x in zip(self.varied, floats, strict=True):
                full[i] = x
            return tuple(y for y in bind(self.equation, full) if is_float(y))

        return compute

    def trace(self, kind: str) -> Any:
        """Return the program of a rule: of inputs, then cotangents or tangents."""
        import jax

        if kind in self.made:
            return self.made[kind]
        ins = [spec_of(v) for v in self.equation.invars]
        count = len(ins)

        def back(*args: Any) -> Any:
            floats = [args[i] for i in self.varied]
            return jax.vjp(self.vary(args[:count]), *floats)[1](tuple(args[count:]))

        def forward(*args: Any) -> Any:
            floats = [args[i] for i in self.varied]
            f = self.vary(args[:count])
            return jax.jvp(f, tuple(floats), tuple(args[count:]))[1]

        if kind == "pull":
            outs = [spec_of(v) for v in self.equation.outvars if is_float(v.aval)]
            made = jax.make_jaxpr(back)(*ins, *outs)
        else:
            made = jax.make_jaxpr(forward)(*ins, *[ins[i] for i in self.varied])
        self.made[kind] = made
        return made

    def pull(self, node: Any, *cotangents: Any) -> Any:
        """Return the gradients that the author's rule gives."""
        given = [
            np.zeros_like(y) if g is None else g
            for g, y in zip(cotangents, node.outputs, strict=True)
            if is_float(y)
        ]
        made = self.program.run(self.trace("pull"), (*node.inputs, *given))
        found = dict(zip(self.varied, made, strict=True))
        return tuple(found.get(i) for i in range(len(node.inputs)))

    def push(self, node: Any, *tangents: Any) -> Any:
        """Return the tangents that the author's rule gives."""
        given = [
            np.zeros_like(node.inputs[i]) if tangents[i] is None else tangents[i]
            for i in self.varied
        ]
        made = iter(self.program.run(self.trace("push"), (*node.inputs, *given)))
        return pack([next(made) if is_float(y) else None for y in node.outputs])


def pack(outs: Sequence[Any]) -> Any:
    """Return a single output as itself, several as a tuple."""
    return tuple(outs) if len(outs) != 1 else outs[0]


def spec_of(variable: Any) -> Any:
    """Return the shape and the dtype of a variable, for JAX to trace with."""
    import jax

    return jax.ShapeDtypeStruct(variable.aval.shape, variable.aval.dtype)


def _compute_authored(self: JaxProgram, equation: Any, operands: Sequence[Any]) -> Any:
    rule = self.keep(equation, lambda: AuthoredRule(self, equation))
    made = rule.function(*operands)
    return list(made) if isinstance(made, tuple) else [made]


HIGHER["custom_jvp_call"] = HIGHER["custom_vjp_call"] = _compute_authored


# What users call


def from_jax(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a JAX function as a function of NumPy.

    Everything of Workbench works on it: derivatives, the doctor, checks, overrides, the
    picture, whose lines are those of the JAX code and whose scopes are its named ones.
    Rules of ``jax.custom_vjp`` and ``jax.custom_jvp`` are kept, and can be checked.
    Loops (``scan``, ``while_loop``, ``cond``) stay loops.

    Parameters
    ----------
    f
        A function that JAX can trace. It is traced once for each nest, shapes and
        dtypes of its arguments, which are JAX's: float64 is float32 unless
        ``jax.config.update("jax_enable_x64", True)``.

    Returns
    -------
    A function of the same arguments, nested as they are in JAX, with results nested as
    those of ``f``.

    Raises
    ------
    MissingPackageError
        If JAX is not installed; it says how to install it.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench import models
    >>> import jax.numpy as jnp  # doctest: +SKIP
    >>> f = models.from_jax(lambda w, x: jnp.sum(jnp.tanh(x @ w)))  # doctest: +SKIP
    >>> wb.grad(f)(np.ones(3), np.ones((2, 3)))  # doctest: +SKIP
    """
    check_packages("models.from_jax", "jax", "jax")
    import jax

    if not callable(f):
        raise UsageError(f"models.from_jax: {f!r} is not a function.")
    programs: dict[Any, tuple[Any, Any, JaxProgram]] = {}

    def call(*args: Any, **kwargs: Any) -> Any:
        """Return what the JAX function computes."""
        flat, nest = jax.tree.flatten((args, kwargs))
        specs = [
            x
            if is_key(x)
            else jax.ShapeDtypeStruct(
                shape_of(x), jax.dtypes.canonicalize_dtype(dtype_of(x))
            )
            for x in flat
        ]
        key = nest, tuple((s.shape, s.dtype) for s in specs)
        if key not in programs:

            def apply(*leaves: Any) -> Any:
                args, kwargs = jax.tree.unflatten(nest, leaves)
                return f(*args, **kwargs)

            made, shape = jax.make_jaxpr(apply, return_shape=True)(*specs)
            programs[key] = made, jax.tree.structure(shape), JaxProgram()
        made, out, program = programs[key]
        leaves = [
            x if is_key(x) else cast_leaf(x, s.dtype)
            for x, s in zip(flat, specs, strict=True)
        ]
        return jax.tree.unflatten(out, program.run(made, leaves))

    name = getattr(f, "__name__", type(f).__name__)
    call.__name__ = call.__qualname__ = name
    with suppress(ValueError, TypeError):  # the names of the inputs
        call.__signature__ = inspect.signature(f)  # type: ignore[attr-defined]
    return call


def cast_leaf(x: Any, dtype: Any) -> Any:
    """Return an argument in the dtype that JAX computes with."""
    if not isinstance(x, Tensor):
        return np.asarray(x, dtype)
    return x if dtype_of(x) == dtype else x.astype(dtype)


# The way back


def as_jax_function(
    f: Callable[..., Any], overrides: Sequence[Any] = ()
) -> Callable[..., Any]:
    """Return a NumPy function as one of JAX, whose derivatives are Workbench's.

    Parameters
    ----------
    f
        A function of arrays, nested as JAX takes them: NumPy code, or what `from_jax`
        returned.
    overrides
        Overrides that hold in its derivatives, as for :func:`workbench.grad`.

    Returns
    -------
    A function of JAX's arrays, under ``jit`` too, where JAX calls it back on the CPU.
    It has derivatives in reverse mode, of any order.

    Raises
    ------
    MissingPackageError
        If JAX is not installed; it says how to install it.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench import models
    >>> clipped = wb.override("tanh", "clip(d, -0.1, 0.1)")
    >>> g = models.as_jax_function(np.tanh, [clipped])  # doctest: +SKIP
    >>> jax.jit(jax.grad(g))(1.0)  # doctest: +SKIP
    """
    check_packages("models.as_jax_function", "jax", "jax")
    import jax

    held = list(overrides)

    def call(*args: Any) -> Any:
        """Return what the NumPy function computes, as JAX's arrays."""
        leaves, nest = jax.tree.flatten(args)
        out: list[Any] = []

        def flat(*xs: Any) -> tuple[Any, ...]:
            ys, tree = jax.tree.flatten(f(*jax.tree.unflatten(nest, xs)))
            out[:] = [tree]
            return tuple(ys)

        outs = apply_numpy(flat, held)(*leaves)
        return jax.tree.unflatten(out[0], outs)

    call.__name__ = getattr(f, "__name__", "call")
    return call


def apply_numpy(
    f: Callable[..., tuple[Any, ...]], overrides: list[Any]
) -> Callable[..., tuple[Any, ...]]:
    """Return a function of arrays to a tuple of them as a step of JAX's programs."""
    import jax

    def infer(xs: Sequence[Any]) -> Any:
        """Return what comes out: by a trace, which computes nothing."""
        specs = [
            jax.ShapeDtypeStruct(
                np.shape(x), jax.dtypes.canonicalize_dtype(jax.numpy.result_type(x))
            )
            for x in xs
        ]
        given = [Spec(s.shape, s.dtype) for s in specs]
        return tuple(
            jax.ShapeDtypeStruct(
                shape_of(y), jax.dtypes.canonicalize_dtype(dtype_of(y))
            )
            for y in record(lambda leaves: f(*leaves), given).outputs
        )

    def compute(*xs: Any) -> tuple[Any, ...]:
        for x in xs:
            check_dtype(jax.numpy.result_type(x), "models.as_jax_function")
        outs = infer(xs)

        def run(*arrays: Any) -> tuple[Any, ...]:
            made = f(*map(np.asarray, arrays))
            return tuple(
                np.asarray(y, spec.dtype) for y, spec in zip(made, outs, strict=True)
            )

        return tuple(jax.pure_callback(run, outs, *xs, vmap_method="sequential"))

    def forward(*xs: Any) -> Any:
        return call(*xs), xs

    def backward(xs: Any, gs: Any) -> Any:
        floats = [i for i, x in enumerate(xs) if is_float(jax.numpy.asarray(x))]
        kept = [g for g in gs if is_float(g)]

        # A function again, so that this derivative has derivatives.
        def pull(*arrays: Any) -> tuple[Any, ...]:
            inputs, given = arrays[: len(xs)], arrays[len(xs) :]

            def vary(*varied: Any) -> tuple[Any, ...]:
                full = list(inputs)
                for i, x in zip(floats, varied, strict=True):
                    full[i] = x
                return tuple(y for y in f(*full) if dtype_of(y).kind in "fc")

            varied = [inputs[i] for i in floats]
            back = vjp(vary, *varied, overrides=overrides)[1]
            return tuple(back(tuple(given)))

        made = iter(apply_numpy(pull, [])(*xs, *kept))
        return tuple(next(made) if i in floats else None for i in range(len(xs)))

    call = jax.custom_vjp(compute)
    call.defvjp(forward, backward)
    return call
