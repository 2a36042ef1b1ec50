"""Derivatives of expressions on request: gradients, products, Jacobians, Hessians.

Each of them asks an `Expressions`, the linear map of some Tensors by others, and puts
what it gives back into nests; `derivatives.py` says what is connected, what may start a
walk, and what the results look like.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypedDict, Unpack

from workbench.autodiff import deferred, derivatives
from workbench.autodiff.derivatives import link_results
from workbench.autodiff.forward import push_forward
from workbench.autodiff.linear_map import MODES, LinearMap, Mode, Sweep, dtype_between
from workbench.autodiff.steps import drop_cut_parts
from workbench.core import dims, hooks, source, types, walk
from workbench.core.dims import Atom, Dim, Length, atoms_of
from workbench.core.graph import Graph
from workbench.core.hooks import Override, OverrideRules
from workbench.core.tensor import IDENTITY, Tensor, make_leaf, next_serial, value_of
from workbench.core.trace import is_expression, is_live, record
from workbench.core.types import Spec
from workbench.errors import ShapeError, UnknownLengthError, UsageError
from workbench.ops import define, gradients
from workbench.ops.define import shape_of
from workbench.ops.gradients import DisconnectedType, note_disconnected

# All blocks of a Jacobian: those of a `LinearMap` that records.
#
# Where a length is known only when the program runs, so is the number of unit vectors:
# then the Jacobian is one node, which does all this on the arrays that it gets.

Blocks = list[list[Any]]


class Expressions(LinearMap):
    """The derivative of expressions, as expressions.

    Hashes by identity: it is a setting of the node that answers when it runs.
    """

    def __init__(
        self,
        outputs: Sequence[Tensor],
        wrt: Sequence[Tensor],
        constant: Sequence[Tensor] = (),
        rules: OverrideRules | None = None,
    ) -> None:
        super().__init__(outputs, wrt, rules, constant, record=True)

    def __repr__(self) -> str:
        return "<Jacobian of an expression>"

    def pull_from(
        self, starts: Sequence[Any], closed: Collection[int] = frozenset()
    ) -> list[Any]:
        """Return the cotangents of ``wrt`` as expressions; None where none arrives.

        A walk starts with `derivatives.ONE`, which is not seen in what comes out, with
        an expression, or with None. ``closed`` is that of `reverse.pull_back`.
        """
        before = next_serial()
        seeds = [
            derivatives.unit_seed(y) if g is derivatives.ONE else g
            for y, g in zip(self.outputs, starts, strict=True)
        ]
        made = [derivatives.as_expression(g) for g in self.pull(seeds, closed=closed)]
        ones = [
            g for g, start in zip(seeds, starts, strict=True)
            if start is derivatives.ONE
        ]  # fmt: skip
        return derivatives.fold_unit_seed(made, ones, before)

    def find_reached(
        self,
        closed: Collection[int] = (),
        cut: Collection[tuple[int, int, int]] = (),
    ) -> set[int]:
        """Return the serials of the nodes that the outputs' values depend on."""
        stops = {x.serial for x in self.constant}
        rules = {} if self.rules is None else self.rules.rules
        kept = drop_cut_parts(rules, self.wrt, stops.union(closed))
        return derivatives.find_connected(self.outputs, stops, closed, kept, cut)

    def make_rows(self, mode: Mode | None) -> Blocks:
        """Return the blocks: a row per output, and in each row a block per ``wrt``."""
        if self.rules is None and (mode or self.choose_mode()) == "forward":
            rows = self.blocks("forward", optional=mode is None)
        else:
            rows = [
                self.slopes(k) if y.shape == () and y.dtype.kind == "f"
                else Sweep(self, "reverse", k).blocks()
                for k, y in enumerate(self.outputs)
            ]  # fmt: skip
        return [list(map(derivatives.as_expression, row)) for row in rows]

    def slopes(self, place: int) -> list[Any]:
        """Return the gradient of an output that is one number."""
        starts: list[Any] = [None] * len(self.outputs)
        starts[place] = derivatives.ONE
        return derivatives.fill_zeros(self.pull_from(starts), self.wrt)

    def make_rows_or_node(self, mode: Mode | None) -> Blocks:
        """Return the blocks; where they wait for a length, as outputs of one node."""
        with source.pin_line():
            before = next_serial()
            try:
                rows = self.make_rows(mode)
            except (UnknownLengthError, ShapeError):
                # That shapes do not fit may be for want of a length.
                if self.rules is not None or not dims.has_dim(
                    [x.shape for x in self.leaves]
                ):
                    raise
            else:
                shapes = [x.shape for x in (*self.outputs, *self.wrt)]
                if self.rules is not None or not dims.has_dim(shapes):
                    return rows
                # Where an op knows no batch of unknown size, all of it is one node.
                made = walk.order_nodes(
                    [block for row in rows for block in row], before
                )
                if all(x.op is not deferred.BATCH for x in made):
                    return rows
            settings = {"linear": self, "mode": mode}
            flat = define.apply_and_split(BLOCKS, tuple(self.leaves), settings)
            count = len(self.wrt)
            return [list(flat[i : i + count]) for i in range(0, len(flat), count)]

    # As a node

    @cached_property
    def leaves(self) -> list[Tensor]:
        """The leaves of the program that have no value yet."""
        return [
            x
            for x in walk.order_nodes([*self.outputs, *self.wrt])
            if x.op is IDENTITY and not x.inputs and (x._value is None or is_live(x))
        ]

    @cached_property
    def graph(self) -> Graph:
        """The program of the leaves."""
        return Graph(self.leaves, [*self.outputs, *self.wrt, *self.constant])

    def substitute_leaves(self, leaves: Sequence[Any]) -> Expressions:
        """Return the same derivative in the program on other leaves."""
        made = list(map(derivatives.as_expression, self.graph.run(leaves)))
        first = len(self.outputs)
        second = first + len(self.wrt)
        return Expressions(made[:first], made[first:second], made[second:])

    def run(self, values: Sequence[Any], mode: Mode | None) -> list[Any]:
        """Return the blocks for values of the leaves, flat."""
        made = record(
            lambda leaves: self.substitute_leaves(leaves).make_rows(mode), values
        )
        return [x if is_live(x) else value_of(x) for x in made.outputs]

    def specs(self, values: Sequence[Any]) -> tuple[Spec, ...]:
        """Return shape and dtype of each block; None for a length that is measured."""
        specs = [types.spec_of(x) for x in values]
        outputs = record(self.graph.run, specs).outputs
        first = len(self.outputs)
        own_atoms = set(atoms_of([spec.shape for spec in specs]))
        return tuple(
            Spec(
                tuple(_find_operand_length(n, own_atoms) for n in (*y.shape, *x.shape)),
                dtype_between(y, x),
            )
            for y in outputs[:first]
            for x in outputs[first : first + len(self.wrt)]
        )


def _find_operand_length(n: int | Dim, own_atoms: set[Atom]) -> int | Dim | None:
    """Return a length that operands give; None if the program computes the length."""
    inner = any(a not in own_atoms for a in atoms_of(n) if isinstance(a, Length))
    return None if inner else n


BLOCKS = deferred.declare_run(
    "jacobian",
    lambda arrays, *, linear, mode: linear.run(arrays, mode),
    lambda *given, linear, mode: linear.specs(given),
    "the rules of the expression, run again",
)
BLOCKS.reads = None


# What is asked, nested as it is asked


class GradientOptions(TypedDict, total=False):
    """Options of derivatives of expressions; see `workbench.gradient`."""

    consider_constant: Iterable[Tensor] | None
    disconnected_inputs: str
    disconnected_outputs: str
    return_disconnected: str
    overrides: Sequence[Override] | None


class DerivativeRequest:
    """A derivative that somebody asks for: of which expressions, by which.

    Parameters
    ----------
    f, wrt
        Expressions, or nests of them: what is differentiated, and by what.
    name
        What errors call the function that is called.
    what
        What they call ``f``.
    settings
        Those of `GradientOptions` that were given.
    """

    def __init__(
        self,
        f: object,
        wrt: object,
        name: str,
        what: str = "f",
        **settings: Unpack[GradientOptions],
    ) -> None:
        given: dict[str, Any] = {**settings}
        self.name = name
        self.overrides = given.pop("overrides", None)
        constants = given.pop("consider_constant", None)
        derivatives.check_options(name, **given)
        self.absent = given.pop("return_disconnected", "zero")
        #: What to do where nothing is connected: raise an error, warn, or ignore it.
        self.policy = next(iter(given.values()), "raise")
        self.targets = derivatives.flatten_tensors(f, name, what)
        self.sources = derivatives.flatten_tensors(wrt, name)
        self.constant = derivatives.list_constants(constants, name)
        #: The serial of what was there before anything was made.
        self.before = next_serial()

    def match_values(
        self, nest: derivatives.Nested, entries: object, *words: str
    ) -> list[Any]:
        """Return one value for each Tensor of a nest, in its dtype.

        ``words`` say what holds them, what they are for, and what one of them is.

        Raises
        ------
        UsageError
            If there are more or fewer, or they nest in another way.
        ShapeError, DtypeError
            If one does not fit its Tensor.
        """
        holder, owner, kind = words
        if nest.is_single and not (
            isinstance(entries, (list, tuple))
            and len(entries) == 1
            and is_expression(entries)
        ):
            values = [entries]
        else:
            values = derivatives.flatten_entries(entries)
        if len(values) != len(nest.tensors):
            raise UsageError(
                f"{self.name}: {holder} holds {len(values)} values, and {owner}"
                f" {len(nest.tensors)} expressions. Give one for each, None for zero."
            )
        pairs = zip(values, nest.tensors, strict=True)
        found = [derivatives.check_start(v, x, self.name, kind) for v, x in pairs]
        self.before = next_serial()
        return found

    def find_map(self, outputs: Sequence[Tensor], wrt: Sequence[Tensor]) -> Expressions:
        """Return the derivative of flat lists, with the rules of the overrides."""
        active, rules = hooks.overrides(self.overrides), None
        if active is not None:
            rules = active.resolve(outputs, wrt, self.name)
        return Expressions(outputs, wrt, self.constant, rules)

    def check_reached(self) -> None:
        """Act on each of ``wrt`` that no output depends on."""
        outputs, stops = self.targets.tensors, {x.serial for x in self.constant}
        reached = derivatives.find_connected(outputs, stops)
        for x in self.sources.tensors:
            if x.serial not in reached:
                derivatives.report_disconnected(x, outputs, self.policy, self.name)

    def pull(
        self,
        starts: Mapping[Tensor, Any],
        wrt: Sequence[Tensor] | None = None,
        known: Iterable[Tensor] = (),
    ) -> list[Any]:
        """Return the gradients by ``wrt`` for the cotangents that start the walk.

        Zeros for what is connected and has no gradient; None for what is disconnected.
        What arrives at ``known`` by other ways than ``starts`` does not count.
        """
        wrt = self.sources.tensors if wrt is None else wrt
        outputs = [x for x, g in starts.items() if not isinstance(g, DisconnectedType)]
        linear, closed = self.find_map(outputs, wrt), {x.serial for x in known}
        with source.pin_line():
            with note_disconnected() as cut:
                made = linear.pull_from([starts[x] for x in outputs], closed)
            reached = linear.find_reached(closed, cut)
            for i, x in enumerate(wrt):
                # By what ops declare; a rule may give zeros for what is not connected.
                if x.serial not in reached:
                    derivatives.report_disconnected(x, outputs, self.policy, self.name)
                    made[i] = None
                elif made[i] is None:
                    made[i] = derivatives.make_zeros(x)
        return made

    def find_gradient(self, wrt: Sequence[Tensor] | None = None) -> list[Tensor]:
        """Return the gradient of the one number, with zeros where disconnected."""
        wrt = self.sources.tensors if wrt is None else wrt
        cost = self.targets.tensors[0]
        made = self.pull({cost: derivatives.seed_of(cost)}, wrt)
        return derivatives.fill_zeros(made, wrt)

    def push(self, outputs: Sequence[Tensor], tangents: Sequence[Any]) -> list[Any]:
        """Return the tangents of expressions along those of ``wrt``.

        Those that are disconnected do not move, nor do integers, whatever tangent is
        given: no gradient comes back to them. What is given twice moves along the sum.
        Zeros where an output is connected and does not move; None where no ``wrt`` that
        moves reaches it.
        """
        wrt = self.sources.tensors
        moving: dict[Tensor, Any] = {}
        along: dict[int, Tensor] = {}
        for x, t in zip(wrt, tangents, strict=True):
            if isinstance(t, DisconnectedType):
                continue
            along[x.serial] = x
            if types.is_differentiable(x.dtype):
                moving[x] = moving[x] + t if x in moving else t
        rules = self.find_map(outputs, wrt).rules
        with source.pin_line():
            linear = Expressions(outputs, list(moving), self.constant, rules)
            made = list(map(derivatives.as_expression, linear.push([*moving.values()])))
            for i, y in enumerate(outputs):
                if made[i] is not None:
                    continue
                # The derivative of what depends on it may be the same everywhere.
                behind = derivatives.forward_nodes(walk.order_nodes([y]))
                reached = Expressions([y], wrt, self.constant, rules).find_reached()
                if along.keys() & reached.union(x.serial for x in behind):
                    made[i] = derivatives.make_zeros(y)
                else:
                    derivatives.report_unmoved(
                        y, [*along.values()], self.policy, self.name
                    )
        return made

    def nest(self, nest: derivatives.Nested, made: Sequence[Any]) -> Any:
        """Return results in their nest, or the error of one that cannot be computed."""
        made = derivatives.fill_absent(made, nest.tensors, self.absent)
        made = link_results(made, self.targets.tensors, self.before)
        for null in gradients.find_nulls(made):
            if null is not None:
                raise gradients.null_error(null, f"{self.name}: what is asked for")
        return nest.tree(made)


def gradient(
    cost: Tensor | None,
    wrt: Any,
    *,
    add_names: bool = True,
    known_grads: Mapping[Tensor, Any] | None = None,
    null_gradients: str = "raise",
    name: str = "grad",
    **settings: Unpack[GradientOptions],
) -> Any:
    """Return the result of `workbench.gradient.grad`; ``name`` is for error texts."""
    derivatives.check_options(name, null_gradients=null_gradients)
    known = [
        derivatives.check_expression(x, name, "known_grads") for x in known_grads or ()
    ]
    of = known if cost is None else [derivatives.check_scalar(cost, name), *known]
    request = DerivativeRequest(of, wrt, name, **settings)
    wanted = request.sources.tensors
    if not of:
        raise UsageError(
            f"{name}: there is neither a cost nor known_grads. Give the expression to"
            " differentiate, or known_grads={h: its gradient}."
        )
    starts: dict[Tensor, Any] = {}
    if cost is not None:
        derivatives.check_whole_part(cost, wanted, name)
        starts[cost] = derivatives.seed_of(cost)
    for x, g in (known_grads or {}).items():
        starts[x] = derivatives.check_start(g, x, name)
    request.before = next_serial()
    made = request.pull(starts, known=known)
    made = derivatives.fill_absent(made, wanted, request.absent)
    made = link_results(made, [*starts], request.before)
    nulls = gradients.find_nulls(made)
    for i, (x, null) in enumerate(zip(wanted, nulls, strict=True)):
        if null is not None:
            if null_gradients == "raise":
                raise gradients.null_error(
                    null, f"{name}: the gradient by {derivatives.quote_name(x)}"
                )
            made[i] = gradients.copy_null(x, null)
        elif isinstance(made[i], Tensor) and add_names and cost is not None:
            derivatives.label_gradient(made[i], cost, x)
    return request.sources.tree(made)


def pull_cotangents(
    f: object,
    wrt: object,
    cotangents: object,
    name: str,
    **settings: Unpack[GradientOptions],
) -> Any:
    """Return the gradients, nested as ``wrt``, for one cotangent per output."""
    request = DerivativeRequest(f, wrt, name, **settings)
    given = request.match_values(
        request.targets, cotangents, "eval_points", "f", "the cotangent"
    )
    starts: dict[Tensor, Any] = {}
    for y, g in zip(request.targets.tensors, given, strict=True):
        old = starts.get(y)
        if old is not None and not isinstance(old, DisconnectedType):
            g = old if isinstance(g, DisconnectedType) else old + g
        starts[y] = g
    return request.nest(request.sources, request.pull(starts))


def push_tangents(
    f: object,
    wrt: object,
    tangents: object,
    name: str,
    **settings: Unpack[GradientOptions],
) -> Any:
    """Return the tangents of the outputs, nested as ``f``, along one per ``wrt``."""
    request = DerivativeRequest(f, wrt, name, **settings)
    along = request.match_values(
        request.sources, tangents, "eval_points", "wrt", "the tangent"
    )
    return request.nest(request.targets, request.push(request.targets.tensors, along))


def write_chain_rule(cost: object, wrt: object, mode: str = "reverse") -> Graph:
    """Return the derivative of one number, written out by the chain rule.

    With every product with 1, and in forward mode every 0 of a constant in a sum: what
    a walk gives before anything is simplified. :func:`workbench.simplify` goes on
    from there, step by step.

    Parameters
    ----------
    cost
        The expression: one number.
    wrt
        The symbol; in forward mode one number too.
    mode
        ``"reverse"``: from the expression back to the symbol. ``"forward"``: from the
        symbol on, as differentiating by hand does.

    Returns
    -------
    A :class:`workbench.Graph` of the symbols of the expression.

    Raises
    ------
    UsageError
        If ``mode`` is neither word, or an argument is not an expression.
    NonScalarOutputError
        If the expression is not one number; or the symbol in forward mode.
    DisconnectedInputError
        If the expression does not depend on the symbol.

    Examples
    --------
    >>> import workbench as wb
    >>> x = wb.scalar("x")
    >>> raw = wb.write_chain_rule(x * x + x - 2, x, mode="forward")
    >>> for step in wb.simplify(raw).steps:
    ...     print(step)
    1. one times x: 1 * x → x
    2. one times x: x * 1 → x
    3. x plus x: x + x → 2 * x
    4. x minus zero: 2 * x + 1 - 0 → 2 * x + 1
    """
    name = "write_chain_rule"
    derivatives.check_options(name, mode=mode)
    cost = derivatives.check_scalar(cost, name)
    request = DerivativeRequest(cost, wrt, name)
    request.check_reached()
    wanted = request.sources.tensors
    leaves = [
        x for x in walk.order_nodes([cost, *wanted])
        if x.op is IDENTITY and not x.inputs and x._value is None
    ]  # fmt: skip
    if mode == "reverse":
        made = request.pull({cost: _make_one(cost)})
    else:
        for x in wanted:
            derivatives.check_scalar(x, name)
        made = [
            push_forward([cost], [x], [_make_one(x)], record=True, spelled=True)[0]
            for x in wanted
        ]  # fmt: skip
    return Graph(leaves, list(map(derivatives.as_expression, made)))


def _make_one(x: Tensor) -> Tensor:
    """Return the 1 that starts a chain rule; an array of ones if x is an array."""
    if shape_of(x) == ():
        return make_leaf(x.dtype.type(1))
    return derivatives.unit_seed(x)


def jacobian(
    expression: object,
    wrt: object,
    *,
    mode: str = "auto",
    sparse: Callable[..., Any] | None = None,
    **settings: Unpack[GradientOptions],
) -> Any:
    """Return all blocks, nested as the expressions, and in each as ``wrt``.

    ``sparse`` makes one sparse matrix of the linear map, or None where that is dense.
    """
    request = DerivativeRequest(expression, wrt, "jacobian", "expression", **settings)
    request.check_reached()
    linear = request.find_map(request.targets.tensors, request.sources.tensors)
    if sparse is not None and (found := sparse(linear)) is not None:
        return found
    rows = linear.make_rows_or_node(MODES[mode])
    return request.targets.tree([request.nest(request.sources, row) for row in rows])


def hessian(
    cost: object,
    wrt: object,
    *,
    cross: bool = True,
    sparse: Callable[..., Any] | None = None,
    **settings: Unpack[GradientOptions],
) -> Any:
    """Return all blocks, nested as ``wrt`` twice; or those of the diagonal alone.

    ``sparse`` makes one sparse matrix of the linear map, or None where that is dense.
    """
    cost = derivatives.check_scalar(cost, "hessian")
    request = DerivativeRequest(cost, wrt, "hessian", **settings)
    request.check_reached()
    request.policy, wanted = "ignore", request.sources.tensors
    rules = request.find_map([cost], wanted).rules

    def find_map(wrt: Sequence[Tensor]) -> Expressions:
        return Expressions(request.find_gradient(wrt), wrt, request.constant, rules)

    if sparse is not None and (found := sparse(find_map(wanted), cost)) is not None:
        return found
    some = [wanted] if cross else [[x] for x in wanted]
    rows = [row for xs in some for row in find_map(xs).make_rows_or_node("forward")]
    if not cross:
        return request.nest(request.sources, [row[0] for row in rows])
    return request.sources.tree([request.nest(request.sources, row) for row in rows])


def hessian_product(
    cost: object,
    wrt: object,
    p: object,
    name: str,
    **settings: Unpack[GradientOptions],
) -> Any:
    """Return the Hessian times a vector, by pushing the vector through the gradient."""
    cost = derivatives.check_scalar(cost, name)
    request = DerivativeRequest(cost, wrt, name, **settings)
    along = request.match_values(request.sources, p, "p", "wrt", "the vector")
    first = request.find_gradient()
    request.policy = "ignore"
    return request.nest(request.sources, request.push(first, along))
