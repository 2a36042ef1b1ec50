"""`OpFromGraph`: a graph of symbols as an op, with another gradient if you like.

The op is one node wherever it is called, so an override finds it by its name, and
its rules stand in for those of the ops inside. With ``inline`` the ops inside come
into the program of the caller: at once where the op has no rules of its own, and
else when a function is made of the program, after it has been differentiated.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any
from weakref import ref

from workbench.autodiff.call import Call
from workbench.autodiff.steps import Rules, find_connections
from workbench.core import sites, source
from workbench.core.graph import Graph
from workbench.core.op import Op
from workbench.core.tensor import MaskedTensor, apply
from workbench.core.types import Params
from workbench.custom import from_graph_rules
from workbench.custom.registry import OpRunner, RegisteredOp, enter, get_gradient
from workbench.errors import ShapeError
from workbench.ops import define
from workbench.overrides.rules import APART, TRUE

Pattern = Sequence[Sequence[bool]]


class OpFromGraph(Call):
    """An op made of a graph: called on arrays or Tensors, the op computes the graph.

    Parameters
    ----------
    inputs
        The symbols that it takes. Values that the graph shares
        (:func:`workbench.shared`), and Tensors of a trace around it, it reads by
        itself; gradients flow to them.
    outputs
        A Tensor, or a list or tuple of them.
    inline
        Put the ops inside into the caller's program, in place of one node. With a
        ``vjp`` or ``jvp`` the node stays until the program has been differentiated,
        and is replaced when a function is made of it.
    vjp
        Its gradient, in place of that of the graph:

        - an ``OpFromGraph`` or another op that takes the inputs, then one cotangent
          per output, and gives one gradient per input (zeros arrive for an output
          without a cotangent, or of integers);
        - a function ``rule(node, *cotangents)`` that returns one gradient (or None)
          per input;
        - a rule as text, such as ``"clip(d, -1, 1)"``, as in
          :func:`workbench.override`;
        - a list with one entry per input: any of these for its gradient alone, None
          for the true one, ``"zero"``, or ``"disconnected"`` for no gradient;
        - ``"true"``, for that of the graph.
    jvp
        Its forward mode: the same with tangents of the inputs in place of
        cotangents (a function gets None for an input that does not vary), giving
        one tangent per output, or a list with one entry per output. By default
        ``vjp`` transposed, which must then be linear in the cotangents. With a
        ``jvp`` and no ``vjp``, reverse mode is the ``jvp`` transposed.
    on_unused_input
        ``"raise"``, ``"warn"`` or ``"ignore"``, for an input that no output needs.
    connection_pattern
        For each input a list that says for each output whether it depends on that
        input; by default found in the graph. What a ``vjp`` gives is checked
        against it.
    name
        What graphs and overrides call it; ``"op_from_graph"`` by default. Several ops
        may have one name: an override of the name means all of them, an override of
        the op that one, and a registered gradient those made on the same line.

    Raises
    ------
    UnusedInputError
        For an input that no output needs.
    MissingInputError
        For a symbol that an output needs and that is not an input.
    UsageError
        For an input that is not a symbol, or is given twice; for a ``vjp`` that takes
        or gives another number of arrays.
    ShapeError, DtypeError
        When called, for an argument that does not fit its symbol.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> x, y, g = wb.scalars("x y g")
    >>> square = x**2 + y**2 + 0.01
    >>> safe = wb.OpFromGraph([x, y, g], [-g * y / square, g * x / square])
    >>> angle = wb.OpFromGraph([x, y], np.arctan2(y, x), vjp=safe, name="angle")
    >>> angle(1.0, 1.0)
    np.float64(0.7853981633974483)
    >>> dx, dy = wb.grad(angle, (0, 1))(0.0, 0.0)  # no NaN
    >>> float(dy)
    0.0
    """

    def __init__(
        self,
        inputs: Any,
        outputs: Any,
        *,
        inline: bool = False,
        vjp: Any = None,
        jvp: Any = None,
        on_unused_input: str = "raise",
        connection_pattern: Pattern | None = None,
        name: str | None = None,
    ) -> None:
        name = "op_from_graph" if name is None else name
        self._given = {
            "inline": inline, "vjp": vjp, "jvp": jvp,
            "connection_pattern": connection_pattern, "name": name,
        }  # fmt: skip
        single = not isinstance(outputs, (list, tuple))
        self.inputs = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        self.outputs = [outputs] if single else list(outputs)
        from_graph_rules.check_symbols(name, self.inputs, self.outputs)
        implicit, lost, needed = from_graph_rules.trace_inputs(
            name, self.inputs, self.outputs
        )
        if lost:
            raise from_graph_rules.missing_symbol_error(name, lost[0], self.inputs)
        from_graph_rules.check_unused(name, self.inputs, needed, on_unused_input)
        super().__init__(name, Graph([*self.inputs, *implicit], self.outputs))
        self.entry = RegisteredOp(
            name,
            ("OpFromGraph", name),
            None
            if vjp is None and jvp is None
            else f"its {'jvp' if vjp is None else 'vjp'}",
            {len(self.outputs)},
            ref(self),
            place=_find_place(),
        )
        self.implicit = implicit
        self.maker = self
        self.declared = _check_pattern(self.name, connection_pattern, self)
        self._true = Op(self.name)
        self._true.pull, self._true.push = self._true_pull, self._true_push
        self._runner = OpRunner(
            self,
            from_graph_rules.read_rules(self, vjp, "vjp"),
            from_graph_rules.read_rules(self, jvp, "jvp"),
            key=self.entry.key,
            connection=None if self.declared is None else self._connection,
            true=self._true,
            names=[
                from_graph_rules.name_inputs([x], i) for i, x in enumerate(self.inputs)
            ],
        )
        if vjp is None and jvp is None:
            self.rule = "the rules of the ops inside"
        self.inline = inline
        self.connection = self._connection
        self.pull, self.push = self._pull, self._push
        enter(self.entry, f'Write name="my_{self.name}".')

    def __reduce__(self) -> Any:
        graph = Graph(self.inputs, self.outputs)
        return rebuild_op, (graph, self.single, self._given)

    @property
    def __op__(self) -> str:
        """What overrides and registered gradients know it by."""
        return self.name

    @property
    def __name__(self) -> str:
        return self.name

    def __call__(self, *args: Any) -> Any:
        """Return the outputs: one as itself, several as a tuple."""
        given = from_graph_rules.fit_arguments(self.name, self.inputs, args)
        # As written: an op inside with rules stays until it is differentiated.
        unfolds = self.inline and self.declared is None
        unfolds = unfolds or any(isinstance(x, MaskedTensor) for x in given)
        if unfolds and not self.has_own_rule:
            made = self.run([*given, *self.implicit])
            return made[0] if self.single else tuple(made)
        if self.single:
            return apply(self, (*given, *self.implicit))
        return define.apply_and_split(self, (*given, *self.implicit))

    def _connection(self, inputs: Any, params: Params) -> list[list[bool]]:
        """Return the pattern of all inputs and implicit inputs, for path searches."""
        everything = [True] * len(self.outputs)
        if self.declared is not None:
            return [*self.declared, *[everything] * len(self.implicit)]
        if not self.has_own_rule:
            return self._full_pattern
        rules, none = self._runner.vjp, [False] * len(self.outputs)
        if not isinstance(rules, tuple):  # which only knows when it runs
            return [everything] * len(self.graph.leaves)
        pattern = self._full_pattern
        rows = [none if rule == APART else found if rule == TRUE else everything
                for rule, found in zip(rules, pattern, strict=False)]  # fmt: skip
        return rows + pattern[len(self.inputs) :]

    def connection_pattern(self, node: Any = None) -> list[list[bool]]:
        """Return for each input and output whether the output depends on the input.

        Examples
        --------
        >>> import workbench as wb
        >>> x, y = wb.scalars("x y")
        >>> wb.OpFromGraph([x, y], [x * y, 2 * y]).connection_pattern()
        [[True, False], [True, True]]
        """
        rows = self._connection((), {})[: len(self.inputs)]
        return [list(row) for row in rows]

    @cached_property
    def _full_pattern(self) -> list[list[bool]]:
        """The pattern of the graph, with the rows of its implicit inputs."""
        return find_connections(self.graph.leaves, self.graph.outputs)

    def differentiated_op(self, inputs: Sequence[Any]) -> Call | None:
        """Return the op to differentiate for these inputs; None if a rule is given."""
        return None if self.has_own_rule else self.specialize(inputs)

    # Derivatives

    @property
    def has_own_rule(self) -> bool:
        """True if the op has rules of its own, or a registered one."""
        made = self._runner
        known = made.vjp is not None or made.jvp is not None
        return known or get_gradient(self.entry.key) is not None

    def _graphs(self, inputs: Sequence[Any], params: Params) -> Sequence[Graph]:
        """Return the graph for inputs of these shapes."""
        return [self.specialize(inputs).graph]

    def _pull(self, *arguments: Any) -> list[Any]:
        if self.has_own_rule:
            return self._runner.pull(*arguments[:5])
        return self._true_pull(*arguments)

    def _push(self, *arguments: Any) -> Any:
        if self.has_own_rule:
            return self._runner.push(*arguments[:4])
        return self._true_push(*arguments)

    def _true_pull(
        self,
        mask: int,
        g: Any,
        y: Any,
        inputs: tuple[Any, ...],
        params: Params,
        rules: Rules = None,
    ) -> list[Any]:
        """Return the cotangents of the graph, along the declared connections."""
        op = self.specialize(inputs)
        if self.declared is None:
            return op.pull_recorded(mask, g, y, inputs, {}, rules)
        parts = (g,) if self.single else tuple(g)
        passed: list[Any] = [None] * len(inputs)
        for i, row in enumerate(self._connection(inputs, params)):
            kept = [c if on else None for c, on in zip(parts, row, strict=True)]
            if mask >> i & 1 and any(c is not None for c in kept):
                arriving = kept[0] if self.single else define.Parts(kept)
                made = op.pull_recorded(1 << i, arriving, y, inputs, {}, rules)
                passed[i] = made[i]
        return passed

    def _true_push(
        self,
        tangents: tuple[Any, ...],
        y: Any,
        inputs: tuple[Any, ...],
        params: Params,
        rules: Rules = None,
    ) -> Any:
        """Return the tangents of the graph."""
        return self.specialize(inputs).push_recorded(tangents, y, inputs, {}, rules)

    # Many examples

    def _batch(
        self, inputs: tuple[Any, ...], batched: tuple[bool, ...], params: Params
    ) -> Any:
        key = "examples", batched
        op = self.variants.get(key)
        if op is None:
            op = self.variants[key] = Call(
                self.name, run=self.run, of=self, batched=batched
            )
        return apply(op, inputs)

    def __repr__(self) -> str:
        takes = ", ".join(x.name or f"x{i}" for i, x in enumerate(self.inputs))
        return f"<OpFromGraph {self.name}({takes})>"


def rebuild_op(graph: Graph, single: bool, given: dict[str, Any]) -> OpFromGraph:
    """Return the op from its pickled parts."""
    outputs = graph.outputs[0] if single else graph.outputs
    return OpFromGraph(graph.inputs, outputs, on_unused_input="ignore", **given)


def _find_place() -> tuple[str, int] | None:
    """Return the user's line, where the op is made."""
    site = sites.decode(*source.caller())
    return None if site is None else (site.filename, site.line)


def _check_pattern(
    name: str, given: Pattern | None, op: OpFromGraph
) -> list[Any] | None:
    """Return a connection pattern as declared, if its shape fits."""
    if given is None:
        return None
    rows = [list(row) for row in given]
    if len(rows) != len(op.inputs) or any(len(r) != len(op.outputs) for r in rows):
        raise ShapeError(
            f"{name}: connection_pattern has rows of lengths {[len(r) for r in rows]}."
            f" It holds one row per input ({len(op.inputs)}), and in it one entry per"
            f" output ({len(op.outputs)})."
        )
    return [[bool(c) for c in row] for row in rows]
