"""`Call`: the op that runs a Graph, or another op on many examples; its derivatives.

In a graph a call is one node, however much is inside. Its derivatives are those of what
is inside, found in one of two ways: recorded, as calls too, once for each set of inputs
that vary and of outputs that are asked, so that a gradient of a thousand calls holds a
thousand nodes, and a program that holds ops that hold ops stays as small as it was
written; or on the values at hand, and run at once, so that nothing is kept. What has a
rule of its own is called for each example of a batch, and so is that rule.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property, partial
from itertools import compress, islice
from typing import Any

import numpy as np

from workbench.autodiff import forward, reverse
from workbench.autodiff.batch import (
    Run,
    call_each,
    count_examples,
    make_empty,
    map_examples,
    run_examples,
)
from workbench.autodiff.higher_order import (
    Derived,
    Key,
    derive,
    is_masked,
    make_bitmask,
    outer_specs,
)
from workbench.autodiff.steps import Rules, plan_steps, reach_inside
from workbench.core import blame, hooks, residuals, source, types
from workbench.core.dims import Dim, has_dim
from workbench.core.graph import Graph
from workbench.core.op import OPS, Lowering, Op
from workbench.core.recorder import Recorder
from workbench.core.tensor import Tensor, apply, make_lean, value_of
from workbench.core.trace import is_live, make_leaf_like, make_leaves_like, record
from workbench.core.types import Params, Spec
from workbench.errors import NotDifferentiableError, TraceError
from workbench.ops import define
from workbench.ops.define import dtype_of, shape_of


def pull_through(
    run: Run,
    values: Sequence[Any],
    cotangents: Sequence[Any],
    rules: Rules = None,
) -> list[Any]:
    """Return the cotangents of ``values``; None where ``run`` does not depend on one.

    ``rules`` are those of overrides for nodes that it holds.

    >>> import numpy as np
    >>> pull_through(lambda xs: [np.sin(xs[0]) * xs[1]], [0.0, 3.0], [np.float64(1)])
    [np.float64(3.0), np.float64(0.0)]
    """
    return run_and_pull(run, values, cotangents, rules)[1]


def run_and_pull(
    run: Run,
    values: Sequence[Any],
    cotangents: Sequence[Any],
    rules: Rules = None,
) -> tuple[list[Any], list[Any]]:
    """Return the outputs, and the cotangents of `pull_through`, from one run.

    >>> import numpy as np
    >>> run_and_pull(lambda xs: [xs[0] ** 2], [3.0], [np.float64(1)])
    ([9.0], [np.float64(6.0)])
    """
    made = record(lambda leaves: list(run(leaves)), values)
    seeds = [
        None if g is None or not isinstance(y, Tensor) else reverse.fit_cotangent(g, y)
        for g, y in zip(cotangents, made.outputs, strict=True)
    ]
    outputs = [y if is_live(y) else value_of(y) for y in made.outputs]
    back = reverse.pull_back(made.outputs, seeds, made.inputs, rules=rules)
    return outputs, back


def push_through(
    run: Run, values: Sequence[Any], tangents: Sequence[Any], rules: Rules = None
) -> list[Any]:
    """Return the tangents of the outputs; None for one that does not move."""
    return run_and_push(run, values, tangents, rules)[1]


def run_and_push(
    run: Run, values: Sequence[Any], tangents: Sequence[Any], rules: Rules = None
) -> tuple[list[Any], list[Any]]:
    """Return the outputs, and the tangents of `push_through`, from one run.

    >>> import numpy as np
    >>> run_and_push(lambda xs: [xs[0] ** 2], [3.0], [np.float64(1)])
    ([9.0], [np.float64(6.0)])
    """
    made = record(lambda leaves: list(run(leaves)), values)
    fitted = [
        None if t is None else reverse.fit_cotangent(t, x)
        for t, x in zip(tangents, made.inputs, strict=True)
    ]
    outputs = [y if is_live(y) else value_of(y) for y in made.outputs]
    moved = forward.push_forward(made.outputs, made.inputs, fitted, rules=rules)
    return outputs, moved


def record_once(run: Run, *examples: Any) -> Run:
    """Return a flat function as its recorded program, or unchanged if values are read.

    ``examples`` are arrays, Tensors or specs.
    """
    try:
        return Recorder(lambda *xs: list(run(xs)), *examples).run
    except TraceError:
        return run


def apply_valued(
    op: Op,
    inputs: tuple[Any, ...],
    params: Params,
    find: Callable[[tuple[Any, ...]], Any],
) -> Any:
    """Apply an op with a value that ``find(args)`` knows: nothing is computed twice.

    Where an input has no value, or has left a mask, the op is applied as any other.
    """
    known = all(not isinstance(x, Tensor) or x._value is not None for x in inputs)
    if not known or any(map(is_masked, inputs)):
        return apply(op, inputs, params)
    args = tuple(map(value_of, inputs))
    value = find(args)
    made = Tensor(
        op, inputs, args, params, value, *source.caller(), source.current_context()
    )
    if residuals.is_large(value):
        make_lean(made)
    return made


def lower_call(node: Tensor, backend: str) -> Lowering | None:
    """Return the one function of a node that runs its Graph once."""
    if backend == "compiled":  # which knows the Graph by `unfold`
        return None
    assert node.op.graphs is not None
    (graph,) = node.op.graphs(node.operands, node.settings)
    return Lowering(graph, [(node.op.name, graph)])


# Composites: what an op does is plain NumPy on other ops.


class BodyError(NotDifferentiableError):
    """The body of an op says nothing of its operands."""


def run_body(
    op: Op, body: Callable[..., Any], values: Sequence[Any], params: Params
) -> Sequence[Any]:
    """Return the outputs of an op's body in a list, whether one or several."""
    made = body(*values, **params)
    if made is None:
        raise BodyError(
            f"{op.name}({blame.describe_operands(values)}){blame.user_line()} has no"
            " derivative: its body does not say what it is. Give its row a pull."
        )
    return made if isinstance(made, tuple) else [made]


@hooks.derive_from_body.set
def derive_from_body(op: Op, body: Callable[..., Any]) -> None:
    """Give an op the derivatives of its body, which runs again with each of them."""

    def run_with(values: Sequence[Any], moving: Sequence[int], params: Params) -> Run:
        def run(xs: Sequence[Any]) -> Sequence[Any]:
            given = list(values)
            for i, x in zip(moving, xs, strict=True):
                given[i] = x
            return list(run_body(op, body, given, params))

        return run

    def pull(
        mask: int, g: Any, y: object, inputs: tuple[Any, ...], params: Params
    ) -> list[Any]:
        moving = [i for i in range(len(inputs)) if mask >> i & 1]
        back = pull_through(
            run_with(inputs, moving, params),
            [inputs[i] for i in moving],
            g if isinstance(g, tuple) else (g,),
        )
        passed: list[Any] = [None] * len(inputs)
        for i, c in zip(moving, back, strict=True):
            passed[i] = c
        return passed

    def push(
        tangents: tuple[Any, ...], y: object, inputs: tuple[Any, ...], params: Params
    ) -> Any:
        moving = [i for i, t in enumerate(tangents) if t is not None]
        moved = push_through(
            run_with(inputs, moving, params),
            [inputs[i] for i in moving],
            [tangents[i] for i in moving],
        )
        return tuple(moved) if isinstance(y, tuple) else moved[0]

    op.pull, op.push, op.reads, op.partial_reads = pull, push, None, None


@hooks.batch_by_body.set
def batch_by_body(
    op: Op,
    body: Callable[..., Any],
    inputs: tuple[Any, ...],
    batched: tuple[bool, ...],
    params: Params,
) -> Any:
    """Return an op for many examples: one node, which runs its body on all of them.

    Where a setting is a length that only the run tells, which no operand of the node
    may have, the ops of the body stand for themselves. NotImplemented where the body
    says nothing of such operands.
    """
    taken = [
        i
        for i, (x, b) in enumerate(zip(inputs, batched, strict=True))
        if b or isinstance(x, Tensor)
    ]

    def run_all(leaves: Sequence[Any]) -> list[Any]:
        given = list(inputs)
        for i, x in zip(taken, leaves, strict=True):
            given[i] = x
        return run_examples(lambda xs: run_body(op, body, xs, params), given, batched)

    try:
        if has_dim(params):
            made = run_all([inputs[i] for i in taken])
            return made[0] if len(made) == 1 else tuple(made)
        leaves = make_leaves_like(
            [make_leaf_like(types.spec_of(inputs[i])) for i in taken]
        )
        many = Call(op.name, Graph(leaves, run_all(leaves)))
    except BodyError:
        return NotImplemented
    many.rule, many.custom = op.rule, op.custom
    return apply(many, tuple([inputs[i] for i in taken]))


# The one op that runs a program or a function of other ops.


class Call(Op):
    """The op of a flat function of other ops, or of another op for many examples.

    Several outputs come as a tuple, one as itself; those of ``run`` are several.

    Parameters
    ----------
    name
        Its name.
    graph
        What it runs. None: ``run`` is that.
    again
        A derivative runs the program again on the values at hand, and nothing is kept
        of it. Else it is recorded, once for each set of inputs that vary and of outputs
        that are asked. What overrides mean inside is recorded in any case, and sees no
        values: second order finds them in there.
    run
        ``run(inputs, **params)`` gives the outputs; its derivatives run it again.
        Of an op for many examples what its value is in terms of other ops, if that is
        known.
    check
        ``check(inputs)`` may refuse the inputs of a node, to derive and to batch.
    of, batched
        An op with rules of its own, which is called for each example, and its rules so:
        recorded on one example and run on all, or, where a rule looks at values,
        example by example. ``batched`` says which inputs have the axis of the batch in
        front; what a rule gives for an input that all examples share is summed.
    """

    def __init__(
        self,
        name: str,
        graph: Graph | None = None,
        again: bool = False,
        *,
        run: Callable[..., Sequence[Any]] | None = None,
        check: Callable[[Sequence[Any]], None] | None = None,
        of: Op | None = None,
        batched: tuple[bool, ...] = (),
    ) -> None:
        super().__init__(name)
        self.check = check
        self.of, self.batched = of, batched
        self.again = again
        self.holds_graph = graph is not None
        self.reads = None
        self.pull, self.push = self.pull_recorded, self.push_recorded
        self.batch = self._batch
        if of is not None:
            self.run_of = run
            self._follow_example(of)
            return
        if graph is None:
            assert run is not None
            self.run_flat, self.single = run, False
            self.compute = self._compute_flat
            return
        self.graph = graph
        self.run = self.run_flat = graph.run
        self.single = len(graph.outputs) == 1
        self.custom = not again
        self.rule = (
            "the rules of the function, which runs again"
            if again
            else "the rules of the ops inside"
        )
        self.lower = lower_call
        self.graphs = self._graphs
        self.inner_sources = self._pair_leaves
        self.compute = self._compute
        self.unfold = lambda values, params: self.run(values)
        self.infer = self._infer
        #: Its derivatives, and its forms for other shapes and for many examples, by
        #: what they are asked.
        self.variants: dict[Hashable, Any] = {}
        self.specs = [types.spec_of(y) for y in graph.outputs]

    def __reduce__(self) -> Any:
        if self.of is not None:
            make = partial(Call, run=self.run_of, of=self.of, batched=self.batched)
            return make, (self.name,)
        if not self.holds_graph or type(self) is not Call or OPS.get(self.name) is self:
            return super().__reduce__()
        return Call, (self.name, self.graph, self.again)

    def _graphs(self, inputs: Sequence[Any], params: Params) -> Sequence[Graph]:
        return [self.graph]

    def _pair_leaves(self, node: Tensor) -> list[tuple[Tensor, tuple[Any, ...]]]:
        (graph,) = self._graphs(node.inputs, node.params)
        return [(a, (x,)) for a, x in zip(graph.leaves, node.inputs, strict=False)]

    def _compute_flat(self, *arrays: Any, **params: Any) -> Any:
        return self._nest(self.run_flat(arrays, **params))

    def _compute(self, *arrays: Any) -> Any:
        """Return the outputs; a number of Python's has the dtype of its leaf."""
        given = zip(arrays, self.graph.leaves, strict=True)
        values = [
            np.asarray(x, leaf.dtype) if types.is_weak(x) else x  # host array: a number
            for x, leaf in given
        ]
        return self._nest(self.run(values))

    def _nest(self, outputs: Sequence[Any]) -> Any:
        return outputs[0] if self.single else tuple(outputs)

    def _infer(self, *specs: Any) -> Any:
        """Return the specs of the outputs, in the lengths of the given specs."""
        return self._nest(outer_specs(self.graph, specs))

    def _runs_again(self, inputs: Sequence[Any], rules: Rules) -> bool:
        """Return whether a derivative runs the program on the values at hand."""
        if self.check is not None:
            self.check(inputs)
        if not self.holds_graph:
            return True
        return self.again and not reach_inside(rules, self.graph)

    def _bind_inputs(
        self, inputs: Sequence[Any], chosen: Sequence[int], params: Params
    ) -> Run:
        """Return its outputs as a function of the inputs that are chosen."""

        def run(leaves: Sequence[Any]) -> Sequence[Any]:
            filled = list(inputs)
            for i, x in zip(chosen, leaves, strict=True):
                filled[i] = x
            return self.run_flat(filled, **params)

        return run

    def outputs_for(self, inputs: tuple[Any, ...]) -> Sequence[Any]:
        """Return the outputs, one or several, in a list.

        A masked cotangent meets the ops inside, where 0 must win over infinity.
        """
        if any(map(is_masked, inputs)):
            return self.run(inputs)
        if self.single:
            return [apply(self, inputs)]
        return define.apply_and_split(self, inputs)

    def apply_known(
        self, inputs: tuple[Any, ...], outputs: Sequence[Any]
    ) -> Sequence[Any]:
        """Return the outputs as nodes with the known values, in a list."""
        value = self._nest(outputs)
        made: Any = define.split_outputs(
            apply_valued(self, inputs, {}, lambda _: value)
        )
        return [made] if self.single else made

    def differentiated_op(self, inputs: Sequence[Any]) -> Call | None:
        """Return the op to record derivatives of for these inputs, or None."""
        return self if self.holds_graph and not self.again else None

    def specialize(self, values: Sequence[Any]) -> Call:
        """Return the same for values of these shapes: recorded once for each."""
        key = key_of(values)
        if key is None or key == self._key:
            return self
        found: Call | None = self.variants.get(key)
        if found is None:
            leaves = [
                make_leaf_like(types.spec_of(v), x.name)
                for v, x in zip(values, self.graph.leaves, strict=True)
            ]
            found = self.variants[key] = Call(
                self.name, Graph(leaves, self.run(leaves)), self.again
            )
        return found

    @cached_property
    def _key(self) -> Hashable:
        return key_of(self.graph.leaves)

    # Derivatives

    def derivative(self, key: Key, rules: Rules = None) -> tuple[Call, Derived]:
        """Return a derivative as an op, recorded on the first request.

        Those of the ops inside come first, from the innermost on: however deep ops
        lie in each other, recording one never waits for another. One with ``rules``
        of overrides for nodes inside is recorded each time.
        """
        if reach_inside(rules, self.graph):
            return self._record(key, rules)
        waiting: list[tuple[Call, Key]] = [(self, key)]
        looked: set[tuple[int, Key]] = set()
        while waiting:
            op, key = waiting[-1]
            if key not in op.variants and (id(op), key) not in looked:
                looked.add((id(op), key))
                waiting += op._find_inner_derivatives(key)
                continue
            if key not in op.variants:
                op.variants[key] = op._record(key)
            waiting.pop()
        found: tuple[Call, Derived] = self.variants[key]
        return found

    def _find_inner_derivatives(self, key: Key) -> list[tuple[Call, Key]]:
        """Return the derivatives of ops inside that one of this op is made of."""
        outputs = [
            y for y, p in zip(self.graph.outputs, key.live_outputs, strict=True) if p
        ]
        wrt = [x for i, x in enumerate(self.graph.leaves) if key.mask >> i & 1]
        steps = plan_steps(outputs, wrt)
        read: dict[int, set[int]] = {}
        for node, _ in steps:
            if node.op is define.ITEM:
                read.setdefault(node.inputs[0].serial, set()).add(node.params["index"])
        inner = []
        for node, mask in steps:
            op = (
                node.op.differentiated_op(node.inputs)
                if isinstance(node.op, Call)
                else None
            )
            if op is None:
                continue
            used = read.get(node.serial, {0})
            live_outputs = tuple(
                [i in used or not key.is_reverse for i in range(len(op.specs))]
            )
            inner.append((op, Key(key.is_reverse, mask, live_outputs)))
        return [pair for pair in inner if pair[1] not in pair[0].variants]

    def _record(self, key: Key, rules: Rules = None) -> tuple[Call, Derived]:
        found = derive(self.graph, key, rules)
        name = f"{self.name}_{'vjp' if key.is_reverse else 'jvp'}"
        return Call(name, found.graph, self.again), found

    def pull_recorded(
        self,
        mask: int,
        g: Any,
        y: object,
        inputs: tuple[Any, ...],
        params: Params,
        rules: Rules = None,
    ) -> list[Any]:
        """Return the cotangents that the graph passes on."""
        parts = (g,) if self.single else tuple(g)
        if self._runs_again(inputs, rules):
            chosen = [i for i in range(len(inputs)) if mask >> i & 1]
            run = self._bind_inputs(inputs, chosen, params)
            varying = [inputs[i] for i in chosen]
            passed: list[Any] = [None] * len(inputs)
            made = pull_through(run, varying, parts, rules)
            for i, c in zip(chosen, made, strict=True):
                passed[i] = c
            return passed
        key = Key(True, mask, tuple([c is not None for c in parts]))
        op, found = self.derivative(key, rules)
        return found.scatter(op.outputs_for, inputs, parts, len(inputs))

    def push_recorded(
        self,
        tangents: tuple[Any, ...],
        y: object,
        inputs: tuple[Any, ...],
        params: Params,
        rules: Rules = None,
    ) -> Any:
        """Return the tangents of the graph's outputs."""
        if self._runs_again(inputs, rules):
            chosen = [i for i, t in enumerate(tangents) if t is not None]
            run = self._bind_inputs(inputs, chosen, params)
            varying, moving = ([of[i] for i in chosen] for of in (inputs, tangents))
            return self._nest(push_through(run, varying, moving, rules))
        mask = make_bitmask(i for i, t in enumerate(tangents) if t is not None)
        count = len(self.specs)
        op, found = self.derivative(Key(False, mask, (True,) * count), rules)
        return self._nest(found.scatter(op.outputs_for, inputs, tangents, count))

    # Many examples

    def _batch(
        self, inputs: tuple[Any, ...], batched: tuple[bool, ...], params: Params
    ) -> Any:
        if self.check is not None:
            self.check(inputs)
        if self.of is not None:
            return apply_to_batch(self, inputs, batched, params)
        if not self.holds_graph:
            run = partial(self.run_flat, **params)
            return tuple(run_examples(run, inputs, batched))
        specs = [types.spec_of(x) for x in inputs]
        key = "batch", batched, key_of(specs)
        many = self.variants.get(key)
        if many is None:
            known = self.graph.leaves
            leaves = [
                make_leaf_like(s, x.name) for s, x in zip(specs, known, strict=True)
            ]
            leaves = make_leaves_like(
                leaves
            )  # a length of the program outside is not its own
            many = Call(
                self.name,
                Graph(leaves, run_examples(self.run, leaves, batched)),
                self.again,
            )
            if None not in key:  # which unknown lengths are equal differs by call
                self.variants[key] = many
        return apply(many, inputs)

    def _follow_example(self, of: Op) -> None:
        """Take over what is known of the op that runs on one example."""
        self.custom, self.maker, self.connection = of.custom, of.maker, of.connection
        self.cure, self.rule, self.pattern = of.cure, of.rule, "examples"
        self.compute, self.infer = self._compute_examples, self._infer_examples
        self.pull, self.push = self._pull_examples, self._push_examples
        self.graphs = None if of.graphs is None else self._find_graphs

    @property
    def has_own_rule(self) -> bool:
        """True if a rule of the op's own replaces the rules of the ops inside."""
        return self.of is not None and self.of.has_own_rule

    def list_examples(self, values: Sequence[Any]) -> list[Spec]:
        """Return the specs of one example of arrays, Tensors or specs."""
        specs = [x if isinstance(x, Spec) else types.spec_of(x) for x in values]
        return [
            Spec(s.shape[1:], s.dtype) if b else s
            for s, b in zip(specs, self.batched, strict=True)
        ]

    def _find_graphs(self, inputs: Sequence[Any], params: Params) -> Sequence[Graph]:
        assert self.of is not None
        assert self.of.graphs is not None
        return self.of.graphs(self.list_examples(inputs), params)

    def _has_no_example(self, values: Sequence[Any]) -> bool:
        size = count_examples(values, self.batched)
        return isinstance(size, int) and size == 0  # an unknown length counts as more

    def _compute_examples(self, *arrays: Any, **params: Any) -> Any:
        assert self.of is not None
        if self._has_no_example(arrays):
            infer: Any = self.of.infer
            like = next(x for x, b in zip(arrays, self.batched, strict=True) if b)
            return make_empty(infer(*self.list_examples(arrays), **params), like)
        if self.run_of is not None:
            try:
                made = run_examples(self.run_of, arrays, self.batched)
                return made[0] if len(made) == 1 else tuple(made)
            except (TraceError, IndexError):
                pass  # it looks at values
        return call_each(partial(self.of.compute, **params), arrays, self.batched)

    def _infer_examples(self, *specs: Any, **params: Any) -> Any:
        size = count_examples(specs, self.batched)
        assert self.of is not None
        infer: Any = self.of.infer
        found = infer(*self.list_examples(specs), **params)
        made = [Spec((size, *s.shape), s.dtype) for s in _as_tuple(found)]
        return tuple(made) if isinstance(found, tuple) else made[0]

    def _map_rule(
        self,
        rule: Callable[[tuple[Any, ...], Any, tuple[Any, ...]], Sequence[Any]],
        inputs: tuple[Any, ...],
        y: Any,
        arriving: Sequence[Any],
        on: Sequence[bool],
    ) -> list[Any]:
        """Run a rule ``(inputs, outputs, arriving)`` of one example on all.

        None among what arrives stays None; ``on`` says what of it is batched.
        """
        ys, there = _as_tuple(y), [c is not None for c in arriving]
        values = [*inputs, *ys, *compress(arriving, there)]
        flags = [*self.batched, *[True] * len(ys), *compress(on, there)]

        def run(given: Sequence[Any]) -> Sequence[Any]:
            rest = iter(given)
            xs, outputs = tuple(islice(rest, len(inputs))), tuple(islice(rest, len(ys)))
            arrived = tuple([next(rest) if found else None for found in there])
            return rule(xs, outputs if isinstance(y, tuple) else outputs[0], arrived)

        return map_examples(run, values, flags)

    def _pull_examples(
        self,
        mask: int,
        g: Any,
        y: Any,
        inputs: tuple[Any, ...],
        params: Params,
        *inside: Rules,
    ) -> list[Any]:
        """Return the cotangents that the op passes on for each example."""
        wanted = [
            i
            for i, x in enumerate(inputs)
            if mask >> i & 1 and types.is_differentiable(dtype_of(x))
        ]
        passed: list[Any] = [None] * len(inputs)
        if self._has_no_example(inputs):
            return passed
        assert self.of is not None
        pull: Any = self.of.pull
        several = isinstance(y, tuple)

        def rule(xs: tuple[Any, ...], y: Any, gs: tuple[Any, ...]) -> list[Any]:
            arrived = define.Parts(gs) if several else gs[0]
            made = pull(mask, arrived, y, xs, params, *inside)
            return [
                None if made[i] is None else reverse.fit_cotangent(made[i], xs[i])
                for i in wanted
            ]

        gs = g if several else (g,)
        made = self._map_rule(rule, inputs, y, gs, [True] * len(gs))
        for i, c in zip(wanted, made, strict=True):
            passed[i] = c if self.batched[i] or c is None else np.sum(c, axis=0)
        return passed

    def _push_examples(
        self,
        tangents: tuple[Any, ...],
        y: Any,
        inputs: tuple[Any, ...],
        params: Params,
        *inside: Rules,
    ) -> Any:
        """Return the tangents of the outputs of each example."""
        several = isinstance(y, tuple)
        if self._has_no_example(inputs):
            return (None,) * len(y) if several else None
        assert self.of is not None
        push: Any = self.of.push

        def rule(xs: tuple[Any, ...], y: Any, ts: tuple[Any, ...]) -> Sequence[Any]:
            return _as_tuple(push(ts, y, xs, params, *inside))

        made = self._map_rule(rule, inputs, y, tangents, self.batched)
        return tuple(made) if several else made[0]


def apply_to_batch(
    op: Op,
    inputs: tuple[Any, ...],
    batched: tuple[bool, ...],
    params: Params,
    run: Run | None = None,
) -> Any:
    """Apply an op with its own rules to many examples: one node, a `Call` of the op."""
    return apply(Call(op.name, run=run, of=op, batched=batched), inputs, params)


def _as_tuple(made: Any) -> tuple[Any, ...]:
    """Return the outputs of an op as a tuple, also a single one."""
    return made if isinstance(made, tuple) else (made,)


def key_of(values: Sequence[Any]) -> tuple[Any, ...] | None:
    """Return a key of the shapes and dtypes of values; None if a length is unknown.

    Values with another key need another program. With an unknown length one program
    serves all lengths.
    """
    key = []
    for x in values:
        shape: tuple[Any, ...] = shape_of(x)
        if any(isinstance(n, Dim) for n in shape):
            return None
        key.append((shape, dtype_of(x)))
    return tuple(key)
