"""`NodeRule`: the rules that an override puts in place of an op's, at a node."""

from __future__ import annotations

from collections.abc import Hashable
from types import NoneType
from typing import Any, NoReturn

import numpy as np

from workbench.autodiff.steps import Part, Rules
from workbench.core import blame, hooks, types
from workbench.core.tensor import IDENTITY, Tensor, make_leaf
from workbench.core.traces import OpenTrace
from workbench.core.types import Params, Spec
from workbench.errors import OverrideError, TraceError, WorkbenchError
from workbench.ops import define
from workbench.ops.define import shape_of
from workbench.overrides.expression import Expression
from workbench.overrides.node import (
    Node,
    has_derivative,
    lend_arrays,
    make_read_only,
)
from workbench.overrides.rule_errors import check_signature
from workbench.overrides.rules import SHAPES, TRUE, Runner, UserRule

#: What a rule is that sees nothing of its node but arrays.
TEXTS = Expression, str, NoneType


class NodeRunner(Runner):
    """The rules of an override at one node, in the place of those of its op.

    Parameters
    ----------
    node
        The node, or what a sweep walks over in the place of a part of the program.
    owner
        The override.
    vjp, jvp
        Its rules, as `Runner` has them.
    position
        Which one it is of the nodes that the override means.
    """

    kinds = "iufc"
    node: Tensor

    def __init__(
        self, node: Tensor, owner: hooks.Override, vjp: Any, jvp: Any, position: int
    ) -> None:
        # There is one for each node: what most do not need, it has not.
        self.op = self.true = node.op if node.op is not define.ITEM else IDENTITY
        self.vjp = vjp
        self.jvp = jvp
        self.linear = owner.linear
        self.node = node
        self.owner = owner
        self.position = position

    def list_names(self) -> tuple[str | None, ...]:
        """Return the names of the inputs, None for one without a name."""
        return tuple([getattr(x, "name", None) for x in self.node.operands])

    def identify(self) -> Hashable:
        """Return a key of the facts that a function, but no expression, reads."""
        if isinstance(self.vjp, TEXTS) and isinstance(self.jvp, TEXTS):
            return ()
        return self.node.name, self.list_names(), self.position

    def lend_to(self, node: Node) -> None:
        """Let a function see a node: its arrays as they are lent, and their names."""
        own = self.node
        node.lend(
            tuple(lend_arrays(node._inputs)),
            tuple(map(make_read_only, node._outputs)),
            self.list_names(),
            own.name,
            self.position,
            own.names if isinstance(own, Part) else (),
        )

    def varying_inputs(self, count: int) -> list[int]:
        """Return the inputs that are not constants of the program."""
        return [i for i, x in enumerate(self.node.operands) if isinstance(x, Tensor)]

    def locate(self, rule: object) -> str:
        """Return the override and the node with its line, as errors begin."""
        where = f"{blame.describe(self.node)}{blame.quote_site(self.node.site)}"
        text = f" {rule.text!r}" if isinstance(rule, Expression) else ""
        return f"override {self.owner.label!r} on {where}: the rule{text}"

    def refuse(
        self,
        rule: object,
        what: str,
        cure: str,
        kind: type[WorkbenchError] = OverrideError,
        cause: BaseException | None = None,
    ) -> NoReturn:
        """Raise an error with the name of the override and the fault of its rule."""
        kind = kind if issubclass(kind, OverrideError) else OverrideError
        super().refuse(rule, what, cure, kind, cause)

    def refuse_part(
        self, rule: object, what: str, i: int | None, c: Any, x: object
    ) -> NoReturn:
        """Refuse a gradient or tangent that does not fit its ``x``."""
        part = self.name_part(what, i).removeprefix("the ")
        name, dtype = f"the gradient of {part}", getattr(c, "dtype", None)
        if what == "tangent":
            name = "the tangent" + part.removeprefix("output")
        kind = np.dtype(dtype or np.asarray(c).dtype).kind  # host array: of a list
        if kind in self.kinds:
            told = f"{name} has shape {shape_of(c)}, the {part.split()[0]} has"
            self.refuse(rule, f"does not fit: {told} {shape_of(x)}", SHAPES[what])
        cure = "Return one array of numbers (or None) per input."
        if kind == "b":
            letter = "d" if what == "gradient" else "t"
            cure = f"A condition becomes a {what} with where(x > 0, {letter}, 0)."
        told = f"is of dtype {dtype}" if dtype else f"is {type(c).__name__}"
        self.refuse(rule, f"does not fit: {name} {told}", cure)

    def refuse_mode(self, rule: object, which: str, why: str) -> NoReturn:
        """Refuse forward mode, since the rule is not linear."""
        self.refuse(
            rule,
            f"is for reverse mode only, and forward mode cannot follow it, because"
            f" {why}",
            'Give jvp=..., or jvp="true" for the true rule in forward mode,'
            " or differentiate in reverse mode.",
        )

    def check_signature(self, rule: UserRule, count: int, what: str) -> None:
        """Raise an error if a rule does not take a node and so many arrays."""
        check_signature(
            rule,
            count,
            self.op.name,
            OverrideError,
            what,
            f"override {self.owner.label!r}",
        )


class NodeRule:
    """The rules that an override puts in the place of an op's rules, at one node.

    Parameters
    ----------
    back, ahead
        What runs in reverse mode, and in forward mode.
    otherwise
        What holds in the steps that the override does not mean, if it means some
        alone; None: the true rules.
    """

    __slots__ = ("ahead", "back", "otherwise")

    def __init__(
        self, backward: NodeRunner, forward: NodeRunner, otherwise: NodeRule | None
    ) -> None:
        self.back, self.ahead, self.otherwise = backward, forward, otherwise

    @property
    def node(self) -> Tensor:
        """The node, or the part of the program."""
        return self.back.node

    @property
    def steps(self) -> int | slice | None:
        """The iterations of the outer loop in which the rule holds; None: all."""
        return self.back.owner.steps

    # The rules as those of an op that holds graphs; None: the true ones. At one of
    # several outputs a rule sees an op that passes its gradient on.

    @property
    def pull(self) -> UserRule | None:
        """The rule of reverse mode."""
        back = self.back
        if back.vjp == TRUE:
            return None
        return self._pull_output if back.node.op is define.ITEM else back.pull

    @property
    def push(self) -> UserRule | None:
        """The rule of forward mode."""
        ahead = self.ahead
        if ahead.jvp == TRUE:
            return None
        return self._push_output if ahead.node.op is define.ITEM else ahead.push

    @property
    def is_true(self) -> bool:
        """True if the rule changes nothing, in any mode and step."""
        is_true = self.back.vjp == TRUE and self.ahead.jvp == TRUE
        return is_true and self.otherwise is None

    @property
    def label(self) -> str:
        """The override's label, for the provenance of its Tensors."""
        return self.back.owner.label

    def _pull_output(
        self,
        mask: int,
        g: Any,
        y: Any,
        inputs: Any,
        params: Params,
        rules: Rules = None,
    ) -> list[Any]:
        item: Any = define.ITEM
        (c,) = self.back.pull(1, g, y, (y,), params, rules)
        return [None] if c is None else item.pull(1, c, y, inputs, params)

    def _push_output(
        self,
        tangents: Any,
        y: Any,
        inputs: Any,
        params: Params,
        rules: Rules = None,
    ) -> Any:
        item: Any = define.ITEM
        t = item.push(tangents, y, inputs, params)
        return None if t is None else self.ahead.push((t,), y, (y,), params, rules)


def is_same_rule(one: NodeRule, other: NodeRule) -> bool:
    """Return whether two rules at a node surely pass the same on, in reverse mode.

    A function may read what has changed since, so it is never the same.
    """
    if one.back.owner is not other.back.owner or not isinstance(one.back.vjp, TEXTS):
        return False
    if one.otherwise is None or other.otherwise is None:
        return one.otherwise is other.otherwise
    return is_same_rule(one.otherwise, other.otherwise)


# A rule tried on shapes alone, as a form does while it is typed.


def check_on_specs(rule: NodeRule) -> None:
    """Run a rule on Tensors like those of its node, which have no values.

    A function by its name that asks for values is left to the run.

    Raises
    ------
    OverrideError
        If the rule reads what the node has not, or gives the wrong shape.
    """
    node = rule.node
    with OpenTrace():
        inputs = tuple(
            make_abstract(x) if isinstance(x, Tensor) else x for x in node.operands
        )
        y = make_abstract(node)
        mask = sum(1 << i for i, x in enumerate(inputs) if isinstance(x, Tensor))
        g = make_abstract(node)
        if isinstance(g, tuple):
            g = define.Parts(c if has_derivative(c) else None for c in g)
        try:
            if rule.pull is not None:
                rule.pull(mask, g, y, inputs, node.settings)
        except TraceError:
            if isinstance(rule.back.vjp, Expression):
                raise


def make_abstract(node: Tensor) -> Any:
    """Return a Tensor like a node without its value; of several outputs a tuple."""
    made = []
    outputs = define.output_values(node)
    for x in (node,) if outputs is None else outputs:
        spec = types.spec_of(x)
        made.append(make_leaf(None))
        made[-1].spec = Spec(spec.shape, spec.dtype)
    return made[0] if outputs is None else tuple(made)
