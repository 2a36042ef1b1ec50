"""How ops are declared: `composite`, `elementwise`, `linear`, `multilinear`, `op`.

Write only what mathematics does not give. A composite is its body: plain NumPy on
other ops, of which all else follows. An elementwise op lists its partial
derivatives as expressions; both modes, batching and the text in the picture
follow. A linear op gives its transpose; forward mode is the op itself. Rules
are plain NumPy: they compute on arrays (CPU or GPU) and record on Tensors.
"""

from __future__ import annotations

import ast
import linecache
import operator
import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache, wraps
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from workbench.core import blame, dims, hooks, types
from workbench.core.dims import Dim
from workbench.core.op import FUNCTIONS, SINGULAR, UFUNCS, Op, Root, declare
from workbench.core.tensor import (
    NO_PARAMS,
    ON_HOST,
    Tensor,
    admit,
    apply,
    value_of,
)
from workbench.core.trace import make_leaf_like
from workbench.core.traits import Traits
from workbench.errors import DtypeError, TraceError, UnknownLengthError, UsageError
from workbench.ops.spelling import format_rule

#: The value of an op: ``compute(*arrays, **params)``.
Compute = Callable[..., Any]

#: A partial derivative as an expression in ``x``, ``y`` and NumPy's functions.
Partial = str

#: A derivative rule: of what flows, the operands and the settings.
Rule = Callable[..., Any]

#: NumPy's rules of which dtype may become which.
Casting = Literal["no", "equiv", "safe", "same_kind", "unsafe"]

#: More operands than a linear op has.
MOST_OPERANDS = 32

#: How the picture writes the partial derivatives of half the square of a root.
ROOT_PARTIALS = {"x0": "x₀", "x1": "x₁", "conj(x)": "x̄", "0.5": "½"}

#: What the text of a partial derivative may call besides `numpy`'s functions.
RULE_NAMES: dict[str, Any] = {"__name__": "workbench.ops.rules", "np": np}


def shape_of(x: Any) -> types.Shape:
    """Return the shape of a Tensor, an array or a Python number."""
    return () if type(x) in types.WEAK_TYPES else tuple(x.shape)


def dtype_of(x: Any) -> np.dtype[Any]:
    """Return the dtype of a Tensor, an array or a Python number."""
    return x.dtype if hasattr(x, "dtype") else np.result_type(type(x))


def convert_dtype(a: types.Array, dtype: npt.DTypeLike) -> types.Array:
    """Cast an array to another dtype; NumPy refuses other objects."""
    astype: Any = np.astype  # NumPy's stubs take no arrays but its own
    return astype(a, dtype)


def shape_of_first(x: types.Array, *others: Any, **params: Any) -> tuple[Any, ...]:
    """Return the shape of an op's result that has the shape of its first operand."""
    return shape_of(x)


def spec_of_first(x: types.Array, *others: Any, **params: Any) -> types.Spec:
    """Return the spec of an op's result that is its first operand, rearranged."""
    return types.Spec(shape_of(x), dtype_of(x))


def refuse_where(name: str, where: types.Array | bool) -> None:
    """Refuse ``where=`` of a ufunc, which leaves entries of memory as they were."""
    if where is not True:
        raise TraceError(
            f"{name}(..., where=...){blame.user_line()} leaves memory as it was where"
            f" the condition fails, which a traced value does not have. Write"
            f" np.where(condition, {name}(...), 0)."
        )


def convert_for_mean(name: str, a: types.Array, dtype: npt.DTypeLike) -> types.Array:
    """Return an array in the dtype that a mean is to be computed in."""
    if not types.is_differentiable(dtype):
        raise DtypeError(
            f"{name}(..., dtype={np.dtype(dtype)}){blame.user_line()}: NumPy rounds the"
            " sum and the quotient in this dtype, and rounding has no derivative."
            f" Write {name}(x).astype({np.dtype(dtype)}) for the rounded result."
        )
    return convert_dtype(a, dtype)


def elementwise(
    name: str,
    compute: Compute,
    *partials: Partial,
    pretty_rule: str = "",
    **more: Any,
) -> Op:
    """Declare an op that works entry by entry, with broadcasting.

    Parameters
    ----------
    name
        The op's name.
    compute
        A NumPy ufunc, or a function of arrays that broadcasts like one.
    partials
        One expression per input: the partial derivative by it, in terms of ``x``
        (``x0``, ``x1``, ... where there are several), the output ``y``, and
        NumPy's functions by their names. ``"0"`` where the derivative vanishes.
        An expression that names ``g`` is the whole product with the cotangent
        ``g`` instead, for rules that are better written so (``"g / x1"``).
        No partials: no derivative, as for comparisons.
    more
        How it is spelled: ``template``, ``helper``; ``carries``, as `Op` has it; its
        `Traits`; ``root``, what `root_of` gives, where the square of the output is
        smooth and the output has a kink.
    """
    new_op = declare(name)
    new_op.compute = compute
    new_op.elementwise, new_op.partials = True, partials
    _set_settings(new_op, more)
    if isinstance(compute, np.ufunc):
        UFUNCS[compute], new_op.ufunc = new_op, compute
    if not partials or all(p == "0" for p in partials):
        new_op.pull, new_op.push, new_op.reads = None, None, ()
        new_op.rule = "0" if partials else "no derivative"
        return new_op

    def fill_rules() -> None:
        count = len(partials)
        names = ["x"] if count == 1 else [f"x{i}" for i in range(count)]
        new_op.pull, new_op.push = _compile_rules(name, names, partials)
        places: dict[str, int | str] = {"y": "y"}
        places.update((n, i) for i, n in enumerate(names))
        new_op.partial_reads = [
            {places[n] for n in _find_names(p) if n in places} for p in partials
        ]
        read = set().union(*new_op.partial_reads)
        new_op.reads = tuple([i for i in (*range(count), "y") if i in read])
        new_op.rule = pretty_rule or "   ".join(
            format_rule(_write_product(p, "g")) for p in partials
        )

    @cache
    def pull_into(mask: int, numbers: int) -> Rule:
        return _compile_pull_into(name, partials, mask, numbers)

    new_op.fill_rules = fill_rules
    new_op.pull_into = pull_into
    # absolute, real, ... turn complex into real and do not count.
    new_op.keeps = isinstance(
        compute, np.ufunc
    ) and compute.types == _list_same_dtype_loops(compute)
    return new_op


def root_of(
    *partials: Partial,
    infinite: bool = False,
    holds: Callable[[tuple[Any, ...]], bool] = lambda inputs: True,
) -> Root:
    """Return the `Root` of an elementwise op: the square of its output is smooth.

    ``partials`` are those of half the square of the output, by each input, written as
    those of `elementwise`.
    """
    count = len(partials)
    names = ["x"] if count == 1 else [f"x{i}" for i in range(count)]
    return Root(
        lambda: _compile_rules("half a square", names, partials),
        "   ".join(f"(g / y) · {ROOT_PARTIALS.get(p, p)}" for p in partials),
        all(p in (n, f"conj({n})") for p, n in zip(partials, names, strict=True)),
        infinite,
        holds,
    )


def _list_same_dtype_loops(ufunc: np.ufunc) -> list[str]:
    """Return the loops of a one-input ufunc that keep the dtype of the input."""
    return [t for t in ufunc.types if len(t) == 4 and t[0] == t[3]]


def linear(
    name: str,
    compute: Compute,
    transpose: Rule,
    *,
    rule: str = "",
    **more: Any,
) -> Op:
    """Declare an op that is linear in its first input, its only differentiable one.

    ``transpose(g, x, *rest, **params)`` gives the cotangent of ``x``, whose value
    it must not read (only shape and dtype).
    """
    return multilinear(name, compute, transpose, rule=rule, **more)


def multilinear(
    name: str,
    compute: Compute,
    *transposes: Rule | None,
    rule: str = "",
    **more: Any,
) -> Op:
    """Declare an op that is linear in each input taken alone, like `matmul`.

    ``transposes[i](g, *inputs, **params)`` gives the cotangent of input i, or is
    None where the input is not differentiable (an index).
    """
    new_op = declare(name)
    new_op.compute = compute

    def pull(
        mask: int,
        g: types.Array,
        y: types.Array,
        inputs: tuple[Any, ...],
        params: dict[str, Any],
    ) -> list[Any]:
        return [
            t(g, *inputs, **params) if t is not None and mask >> i & 1 else None
            for i, t in enumerate(transposes)
        ]

    def push(
        tangents: tuple[Any, ...],
        y: types.Array,
        inputs: tuple[Any, ...],
        params: dict[str, Any],
    ) -> types.Tangent:
        total = None
        for i, t in enumerate(tangents):
            if t is not None and i < len(transposes) and transposes[i] is not None:
                term = apply(new_op, (*inputs[:i], t, *inputs[i + 1 :]), params)
                total = term if total is None else total + term
        return total

    new_op.pull, new_op.push = pull, push
    new_op.rule = rule
    new_op.reads = (
        ()
        if len(transposes) < 2
        else tuple(i for i, t in enumerate(transposes) if t is not None)
    )
    new_op.partial_reads = [
        set() if t is None else set(range(MOST_OPERANDS)) - {i}
        for i, t in enumerate(transposes)
    ]
    _set_settings(new_op, more)
    return new_op


def op(
    name: str,
    compute: Compute,
    *pulls: Rule | None,
    push: Rule | None = None,
    rule: str = "",
    **more: Any,
) -> Op:
    """Declare any other op.

    ``pulls[i](g, y, *inputs, **params)`` gives the cotangent of input i, or is
    None where there is none; ``push(tangents, y, *inputs, **params)`` the tangent,
    by default the transpose of the pulls. With several outputs, ``g`` and ``y``
    are tuples. ``more`` sets what `SETTINGS` names, as `Op` has it, and `Traits`.
    """
    new_op = declare(name)
    new_op.compute = compute
    if any(p is not None for p in pulls):

        def pull(
            mask: int,
            g: types.Array,
            y: types.Array,
            inputs: tuple[Any, ...],
            params: dict[str, Any],
        ) -> list[Any]:
            return [
                p(g, y, *inputs, **params) if p is not None and mask >> i & 1 else None
                for i, p in enumerate(pulls)
            ]

        new_op.pull = pull
    if push is not None:
        forward = push

        def push_tangents(
            tangents: tuple[Any, ...],
            y: types.Array,
            inputs: tuple[Any, ...],
            params: dict[str, Any],
        ) -> types.Tangent:
            return forward(tangents, y, *inputs, **params)

        new_op.push = push_tangents
    new_op.rule = rule or ("" if new_op.pull else "no derivative")
    _set_settings(new_op, more)
    return new_op


def composite(
    name: str, body: Compute, *, compute: Compute | None = None, **more: Any
) -> Op:
    """Declare an op that is plain NumPy on other ops.

    ``body(*operands, **params)`` gives its value, or a tuple of several. Both modes of
    all orders, batches, lengths, kernels and sparsity patterns follow. The op keeps its
    name and its one node: what else the row says takes the place of what follows.
    ``compute`` gives the same as the body, sooner. ``more`` as `op` has it.

    ::

        composite("sumsq", lambda x, *, axis: np.sum(x * x, axis=axis))
    """
    new_op = declare(name)
    new_op.compute = compute or _compute_by_body(new_op, body)
    new_op.rule = more.pop("rule", "the rules of the ops in its body")
    _set_settings(new_op, {**more, "unfold": body})
    new_op.fill_rules = lambda: hooks.derive_from_body(new_op, body)
    return new_op


def _compute_by_body(new_op: Op, body: Compute) -> Compute:
    """Return the value of a composite that its body alone gives.

    A body that returns None says nothing of its operands, and then there is no value;
    the Tensor of one would fail far from here, at whatever reads it first.
    """

    def compute(*arrays: Any, **params: Any) -> Any:
        made = body(*arrays, **params)
        parts = made if isinstance(made, tuple) else (made,)
        if any(part is None for part in parts):
            raise UsageError(
                f"{new_op.name}({blame.describe_operands(arrays)}){blame.user_line()}:"
                " its body returned None in the place of its value. Let each way"
                " through the body end with a `return` of an array, or give the row"
                " compute=, which knows the value where the body has nothing to say."
            )
        return made

    return compute


#: What a row may set besides derivatives and traits; ``unfold`` is a body, as
#: `unfold_by` has it.
SETTINGS = set(
    "batch carries combines cure helper infer kind lengths limit output_names partials"
    " passes pattern reads root scalar template unfold view".split()
)


TRAITS = frozenset(Traits._fields)
#: The template of one of Python's operators, of two operands or of one.
OPERATOR = re.compile(r"\{0\} (\S+) \{1\}|(\S)\{0\}")


def _set_settings(new_op: Op, more: dict[str, Any]) -> None:
    traits = {key: more.pop(key) for key in TRAITS & more.keys()}
    if written := OPERATOR.fullmatch(str(more.get("template"))):
        traits["symbol"] = written[1] or f"{written[2]}x"
    if traits:
        new_op.traits = new_op.traits._replace(**traits)
    for key, value in more.items():
        if key not in SETTINGS:
            raise TypeError(f"{new_op.name}: unknown setting {key!r}")
        setattr(new_op, key, unfold_by(value) if key == "unfold" else value)
    if "unfold" in more and not new_op.elementwise:
        _follow_body(new_op, more["unfold"])
    if new_op.root is not None or new_op.limit is not None:
        SINGULAR.add(new_op)


def unfold_by(body: Compute) -> Callable[..., Any]:
    """Return the `Op.unfold` of a body: the op in plain NumPy on other ops.

    ``body(*operands, **params)`` gives the result at shapes that are known, with
    NumPy's own order of operations, or None where it has nothing to say, as of integers
    that NumPy computes otherwise.
    """

    def unfold(values: Sequence[Any], params: dict[str, Any]) -> Sequence[Any] | None:
        if any(dims.has_dim(shape_of(x)) for x in values):
            return None
        made = body(*values, **params)
        return made if made is None or isinstance(made, tuple) else (made,)

    return unfold


def _follow_body(new_op: Op, body: Compute) -> None:
    """Derive the rules for batches and lengths from a body, where the row has none."""
    if new_op.batch is None:
        new_op.batch = lambda inputs, batched, params: hooks.batch_by_body(
            new_op, body, inputs, batched, params
        )
    if new_op.lengths is None and new_op.infer is None:
        new_op.lengths = _lengths_of_body(body)


def _lengths_of_body(body: Compute) -> Callable[..., Any]:
    """Return the `Op.lengths` of a body, found by a record on the operands."""

    def lengths(*specs: Any, **params: Any) -> Any:
        given = [make_leaf_like(x) if isinstance(x, types.Spec) else x for x in specs]
        made = body(*given, **params)
        outputs = made if isinstance(made, tuple) else (made,)
        if not all(isinstance(y, Tensor) for y in outputs):
            raise UnknownLengthError("the body of an op does not tell its lengths")
        found = tuple([types.spec_of(y) for y in outputs])
        return found if isinstance(made, tuple) else found[0]

    return lengths


def sum_to(g: types.Array, shape: tuple[Any, ...]) -> types.Array:
    """Sum a broadcast array back to its original shape.

    Where lengths are not known, the program finds the axes when it runs.
    """
    full = shape_of(g)
    if dims.has_dim(full) or dims.has_dim(shape):
        if dims.is_same_shape(full, shape):
            return g
        if not _has_known_broadcast(full, shape):
            return apply(UNBROADCAST, (g,), {"shape": shape})
    extra = len(full) - len(shape)
    axes = tuple(range(extra)) + tuple(
        [
            i
            for i, n in enumerate(shape, extra)
            if type(n) is not Dim and n == 1 and (type(full[i]) is Dim or full[i] != 1)
        ]
    )
    if axes:
        g = np.sum(g, axis=axes, keepdims=False) if extra == len(axes) else np.sum(
            g, axis=axes, keepdims=True
        )  # fmt: skip
    return g if dims.is_same_shape(shape_of(g), shape) else np.reshape(g, shape)


def _has_known_broadcast(full: tuple[Any, ...], shape: tuple[Any, ...]) -> bool:
    """Return whether the axes to sum over are known."""
    ends = zip(full[len(full) - len(shape) :], shape, strict=True)
    return all(
        dims.is_same_shape((h,), (n,)) or (type(n) is int and n == 1) for h, n in ends
    )


def _unbroadcast_compute(g: types.Array, *, shape: tuple[int, ...]) -> types.Array:
    return sum_to(g, tuple(map(operator.index, shape)))


UNBROADCAST = linear(
    "unbroadcast",
    _unbroadcast_compute,
    lambda t, g, *, shape: np.broadcast_to(t, shape_of(g)),
    rule="g broadcast back",
    template="unbroadcast({0}, {shape})",
    helper='''\
def unbroadcast(g, shape):
    """g summed over the axes along which an array of this shape was broadcast."""
    extra = g.ndim - len(shape)
    axes = [i for i, n in enumerate(shape, extra) if n == 1 != g.shape[i]]
    return np.reshape(np.sum(g, axis=(*range(extra), *axes)), shape)
''',
    lengths=lambda g, *, shape: types.Spec(shape, dtype_of(g)),
    unfold=_unbroadcast_compute,
)


def _unbroadcast_batch(
    inputs: tuple[Any, ...], batched: tuple[bool, ...], params: dict[str, Any]
) -> types.Array:
    size, *have = shape_of(inputs[0])
    shape = params["shape"]
    ones = (1,) * (len(have) - len(shape))
    made = apply(UNBROADCAST, inputs, {"shape": (size, *ones, *shape)})
    return np.reshape(made, (size, *shape)) if ones else made


UNBROADCAST.batch = _unbroadcast_batch


# How a table row becomes two functions


@lru_cache(maxsize=256)
def _parse_partial(partial: Partial) -> ast.expr:
    return ast.parse(partial, mode="eval").body


@lru_cache(maxsize=256)
def _find_names(partial: Partial) -> frozenset[str]:
    """Return the names in an expression; a bare name needs no syntax tree."""
    if partial.isidentifier():
        return frozenset({partial})
    return frozenset(
        n.id for n in ast.walk(_parse_partial(partial)) if isinstance(n, ast.Name)
    )


def _write_product(partial: Partial, g: str) -> str:
    """Return the text of ``g`` times a partial derivative, in usual notation."""
    if "g" in _find_names(partial):
        return re.sub(r"\bg\b", g, partial)
    if partial == "1":
        return g
    if partial == "-1":
        return f"-{g}"
    if partial == "0":
        return "None"
    tree = _parse_partial(partial)
    simple = isinstance(tree, (ast.Name, ast.Call, ast.Constant)) or (
        isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Pow)
    )
    return f"{g} * {partial}" if simple else f"{g} * ({partial})"


def _compile_rules(
    name: str, names: list[str], partials: tuple[Partial, ...]
) -> tuple[Rule, Rule]:
    """Return the functions `pull` and `push` of an elementwise op, as straight code."""
    unpack = f"    {', '.join(names)}, = inputs\n"
    pulled = [_write_product(p, "g") for p in partials]
    if len(names) == 1:
        returned = f"({pulled[0]},)"
    else:
        returned = "(" + ", ".join(
            f"{p} if mask & {1 << i} else None" for i, p in enumerate(pulled)
        ) + ")"  # fmt: skip
    pull = f"def pull(mask, g, y, inputs, params):\n{unpack}    return {returned}\n"
    tangents = [f"t{i}" for i in range(len(names))]
    push = (
        f"def push(tangents, y, inputs, params):\n{unpack}"
        f"    {', '.join(tangents)}, = tangents\n    total = None\n"
    )
    for i, (tangent, partial) in enumerate(zip(tangents, partials, strict=True)):
        if partial == "-1":
            push += (
                f"    if {tangent} is not None:\n"
                f"        total = -{tangent} if total is None else total - {tangent}\n"
            )
        elif partial != "0":
            # Each tangent stands where its operand stood: t0 * x1 + x0 * t1.
            term = _write_product(partial, tangent)
            if partial in names[:i]:
                term = f"{partial} * {tangent}"
            push += (
                f"    if {tangent} is not None:\n"
                f"        term = {term}\n"
                "        total = term if total is None else total + term\n"
            )
    push += "    return total\n"
    scope = _run_source(pull + push, f"derivative of {name}", partials)
    return scope["pull"], scope["push"]


def _run_source(
    source: str, filename: str, partials: tuple[Partial, ...]
) -> dict[str, Any]:
    """Run the source code of generated rules; return the names defined there."""
    # NumPy's warnings show it, and the line of the rule, as the place.
    linecache.cache[filename] = (
        len(source), None, source.splitlines(True), filename,
    )  # fmt: skip
    scope = dict(RULE_NAMES)
    for used in {name for partial in partials for name in _find_names(partial)}:
        if used not in scope and hasattr(np, used):
            scope[used] = getattr(np, used)
            if len(partials) > 1:  # an input beside the one that varies
                scope[used] = _widen_integers(scope[used])
    exec(compile(source, filename, "exec"), scope)
    return scope


def widen_integer(x: Any) -> Any:
    """Return an array of integers or truths as floats; anything else as it is.

    Of small integers NumPy computes logarithms in half precision, and sums overflow.
    """
    if type(x) in types.WEAK_TYPES or not hasattr(x, "dtype"):
        return x
    return x.astype(float) if dtype_of(x).kind in "iub" else x


def _widen_integers(function: Any) -> Any:
    """Let a function that NumPy computes of small integers in half precision not do so.

    >>> float(np.log(np.int8(3))), float(_widen_integers(np.log)(np.int8(3)))
    (1.0986328125, 1.0986122886681098)
    """
    loops = getattr(function, "types", ())
    if "e->e" not in loops or "b->b" in loops:
        return function
    return wraps(function)(lambda x: function(widen_integer(x)))


class _Steps:
    """The steps of a rule on large arrays, each written into an array that is free.

    That is one that a step before has made, and ``g`` where it is read for the last
    time. Only ufuncs from floats to floats are steps; the rest stays an expression.
    """

    #: The ufunc behind an operator. That of powers is not what ``x ** 2`` runs.
    UFUNCS: ClassVar[dict[type, np.ufunc]] = {
        ast.Add: np.add,
        ast.Sub: np.subtract,
        ast.Mult: np.multiply,
        ast.Div: np.divide,
        ast.USub: np.negative,
    }

    def __init__(self, products: Sequence[ast.expr | None], arrays: set[str]) -> None:
        self.arrays = arrays
        self.lines: list[str] = []
        self.results: list[str] = []
        kept = any(isinstance(p, ast.Name) for p in products)  # g itself is passed on
        self.reads = sum(_list_names(p).count("g") for p in products if p) + kept
        for p in products:
            self.results.append("None" if p is None else self._add(p)[0])

    def _add(self, tree: ast.expr) -> tuple[str, bool]:
        """Add the steps of an expression; return its name, and whether that is free."""
        if isinstance(tree, ast.Name) and tree.id == "g":
            self.reads -= 1
            return "g", self.reads == 0
        ufunc, operands = self._take_apart(tree)
        if ufunc is None:
            self.reads -= _list_names(tree).count("g")
            return f"({ast.unparse(tree)})", False
        named = [self._add(x) for x in operands]
        free = next((name for name, is_free in named if is_free), None)
        names = ", ".join(name for name, _ in named)
        target = free or f"t{len(self.lines)}"
        out = f", out={free}" if free else ""
        self.lines.append(f"    {target} = np.{ufunc.__name__}({names}{out})\n")
        return target, True

    def _take_apart(self, tree: ast.expr) -> tuple[np.ufunc | None, Sequence[ast.expr]]:
        """Return the ufunc and the operands of an expression that is a step."""
        if self.arrays.isdisjoint(_list_names(tree)):
            return None, ()  # a number
        if isinstance(tree, ast.BinOp):
            return self.UFUNCS.get(type(tree.op)), (tree.left, tree.right)
        if isinstance(tree, ast.UnaryOp):
            return self.UFUNCS.get(type(tree.op)), (tree.operand,)
        if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name):
            ufunc = getattr(np, tree.func.id, None)
            own = tree.func.id in RULE_NAMES
            if isinstance(ufunc, np.ufunc) and not own:
                floats = f"{'d' * ufunc.nin}->d"
                return (ufunc if floats in ufunc.types else None), tree.args
        return None, ()


def _list_names(tree: ast.expr) -> list[str]:
    """Return the names in an expression, repeated as often as they occur."""
    return [n.id for n in ast.walk(tree) if isinstance(n, ast.Name)]


def _compile_pull_into(
    name: str, partials: tuple[Partial, ...], mask: int, numbers: int
) -> Rule:
    """Return the rule of an elementwise op that writes into its ``g`` (`Op.pull_into`).

    Fresh memory for large arrays costs more than arithmetic.
    """
    names = ["x"] if len(partials) == 1 else [f"x{i}" for i in range(len(partials))]
    products = [_write_product(p, "g") for p in partials]
    steps = _Steps(
        [
            _parse_partial(p) if mask >> i & 1 and p != "None" else None
            for i, p in enumerate(products)
        ],
        {"g", "y", *(n for i, n in enumerate(names) if not numbers >> i & 1)},
    )
    source = (
        f"def pull(mask, g, y, inputs, params):\n    {', '.join(names)}, = inputs\n"
        f"{''.join(steps.lines)}    return [{', '.join(steps.results)}]\n"
    )
    scope = _run_source(source, f"derivative of {name}, in place", partials)
    made: Rule = scope["pull"]
    return made


def align_batch(inputs: tuple[Any, ...], batched: tuple[bool, ...]) -> tuple[Any, ...]:
    """Return the operands of a batch, which broadcast, with the batch axis in front."""
    rank = max(len(shape_of(x)) - b for x, b in zip(inputs, batched, strict=True))
    return tuple(
        np.reshape(x, (shape_of(x)[0], *(1,) * short, *shape_of(x)[1:]))
        if b and (short := rank + 1 - len(shape_of(x)))
        else x
        for x, b in zip(inputs, batched, strict=True)
    )


def _batch_whole(
    op: Op, inputs: tuple[Any, ...], batched: types.Batched, params: dict[str, Any]
) -> types.Array:
    return apply(op, inputs, params)


def _batch_aligned(
    op: Op, inputs: tuple[Any, ...], batched: types.Batched, params: dict[str, Any]
) -> types.Array:
    return apply(op, align_batch(inputs, batched), params)


def _batch_shifted(
    op: Op, inputs: tuple[Any, ...], batched: types.Batched, params: dict[str, Any]
) -> types.Array:
    axis = params["axis"]
    axis = tuple([n + 1 for n in axis]) if isinstance(axis, tuple) else axis + 1
    return apply(op, inputs, {**params, "axis": axis})


#: Rules for batches that many ops share: what takes any number of axes in front takes
#: the batch whole; operands that broadcast are aligned; an ``axis`` counted from the
#: front is shifted by one.
BATCHES: dict[str, Rule] = {
    "aligned": _batch_aligned,
    "shifted": _batch_shifted,
    "whole": _batch_whole,
}


# Ops with several outputs: a tuple Tensor, and `item`, which takes one out.
#
# A cotangent of a tuple is `Parts`: one entry per output, None where nothing arrived.
# A rule gets it as ``g`` and the outputs as a tuple ``y``, recorded or not.


class Parts(tuple[Any, ...]):
    """The cotangents of the outputs of one op; None for an output without one.

    >>> Parts((1.0, None)) + Parts((2.0, 3.0))
    (3.0, 3.0)
    """

    __slots__ = ()

    def __add__(self, other: Any) -> Parts:
        return Parts(
            b if a is None else a if b is None else a + b
            for a, b in zip(self, other, strict=True)
        )


def _item_pull(
    g: types.Array, y: tuple[Any, ...], whole: Tensor | tuple[Any, ...], *, index: int
) -> Parts:
    made: list[Any] = [None] * count_outputs(whole)
    made[index] = g
    return Parts(made)


def _item_infer(whole: tuple[Any, ...], *, index: int) -> types.Spec:
    found: types.Spec = whole[index]
    return found


ITEM = op(
    "item",
    lambda whole, *, index: whole[index],
    _item_pull,
    push=lambda t, y, whole, *, index: t[0][index],
    infer=_item_infer,
    rule="g for this output",
    template="{0}[{index}]",
    reads=(),
)


def flatten_parts(passed: Sequence[Any]) -> list[Any]:
    """Return the cotangents from a rule, with each `Parts` replaced by its entries."""
    return [c for p in passed for c in (p if isinstance(p, tuple) else (p,))]


def count_outputs(whole: Tensor | tuple[Any, ...]) -> int:
    """Return how many outputs a tuple Tensor, or the tuple of its values, has."""
    found = output_values(whole) if isinstance(whole, Tensor) else whole
    return len(found or ())


def output_values(node: Tensor) -> tuple[Any, ...] | None:
    """Return the output values of a tuple Tensor, or their specs; None of another."""
    found: Any = node.spec if node._value is None else node._value
    return found if isinstance(found, tuple) else None


def is_tuple_tensor(x: object) -> bool:
    """Return whether ``x`` is a tuple Tensor."""
    return isinstance(x, Tensor) and output_values(x) is not None


def split_outputs(node: Tensor) -> Tensor | tuple[Any, ...]:
    """Return the Tensor itself, or the tuple of its outputs, as rules need."""
    found = output_values(node)
    if found is None:
        return node
    return tuple(apply(ITEM, (node,), {"index": i}) for i in range(len(found)))


def has_limit(node: Tensor, g: Sequence[Any] | None = None) -> bool:
    """Return whether values among the outputs of a node are equal, or not known.

    With cotangents: and whether they arrive at the values and at vectors too.
    """
    limit = node.op.limit
    if limit is None or (
        g is not None and (g[limit.values] is None or sum(c is not None for c in g) < 2)
    ):
        return False
    return node._value is None or bool(np.any(limit.coincide(node._value)))


def apply_and_split(
    op: Op, inputs: tuple[Any, ...], params: dict[str, Any] = NO_PARAMS
) -> tuple[Any, ...]:
    """Apply an op with several outputs: a tuple of arrays, or of their Tensors."""
    whole = apply(op, inputs, params)
    return tuple(split_outputs(whole)) if isinstance(whole, Tensor) else tuple(whole)


# Operands: values that are needed, and numbers in the library of an array.


def admit_like(x: types.ArrayLike | None, like: types.ArrayLike) -> Any:
    """Admit an operand; a list becomes an array of the library of ``like``."""
    listed = isinstance(x, (list, tuple))
    x = admit(x)
    return convert_like(x, like) if listed else x


def admit_all(operands: Sequence[Any]) -> tuple[Any, ...]:
    """Admit operands; numbers and lists become arrays where the others are CuPy's."""
    parts = tuple(map(admit, operands))
    like = next((x for x in parts if not isinstance(value_of(x), ON_HOST)), None)
    if like is None:
        return parts
    return tuple(
        convert_like(np.asarray(x), like)  # host array: moved
        if types.is_weak(x) or isinstance(given, (list, tuple))
        else x
        for given, x in zip(operands, parts, strict=True)
    )


def convert_like(array: types.ArrayLike | None, like: object) -> Any:
    """Return a small array of NumPy in the library of another, if that is not NumPy."""
    value = value_of(like)
    if (
        not isinstance(array, np.ndarray)
        or value is None
        or types.is_weak(value)
        or isinstance(value, (np.ndarray, np.generic))
    ):
        return array
    return np.asarray(array.tolist(), dtype=array.dtype, like=value)


def list_positions(*ends: Any, like: types.Array) -> types.Array:
    """Return `numpy.arange` of these ends as an array of the library of ``like``."""
    # Of a length that is not known yet NumPy would ask for the number.
    arange: Any = FUNCTIONS[np.arange] if dims.has_dim(ends) else np.arange
    made: types.Array = arange(*ends, like=like)
    return made


def list_indices(*ends: Any) -> Any:
    """Return `numpy.arange` of these ends as an index, on the host where known."""
    return list_positions(*ends, like=_HOST)


_HOST = np.empty(0)  # host array: which library an index is of


def require_value(x: object, what: str, cure: str) -> Any:
    """Return the plain array behind ``x``.

    Raises
    ------
    TraceError
        In a trace without values (`workbench.vmap`, `workbench.trace` on specs);
        ``cure`` is what to write instead.
    """
    value = value_of(x)
    if isinstance(x, Tensor) and value is None:
        raise TraceError(
            f"{what} of {blame.describe(x)}{blame.user_line()}: the shape of the result"
            " depends on values, which a trace without values (wb.vmap, wb.trace on"
            f" specs) does not have. {cure}"
        )
    return value
