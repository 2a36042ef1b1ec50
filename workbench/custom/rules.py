"""`wb.graph_rule`: a gradient rule that is data, a list of nodes of known ops."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from workbench.autodiff.budget import (
    Budget,
    Demand,
    budget_for,
    count_bytes,
    count_entries,
)
from workbench.core import source
from workbench.core.graph import Graph
from workbench.core.tensor import Tensor
from workbench.core.trace import record
from workbench.core.types import Spec
from workbench.custom.messages import counted
from workbench.custom.reading import Reader, Step
from workbench.errors import (
    DtypeError,
    RegistrationError,
    UsageError,
    WorkbenchError,
)
from workbench.overrides.rules import Node

__all__ = ["VERSION", "graph_rule"]

#: The version of the JSON form.
VERSION = 1
#: A rule comes from a file, perhaps a stranger's.
MOST_CHARACTERS = 1_000_000


class graph_rule:
    """A gradient rule that is data: a list of nodes of existing ops.

    It may come from a stranger's file, so what each step makes is known before it runs:
    a rule that asks for far more memory or work than the arrays that it is given is a
    `UsageError`.

    It is used wherever a rule is: as ``vjp`` of an op or an override, or registered
    by ``wb.register_gradient("relu6")(rule)``. It can be stored as JSON, and is
    checked when it is made: it can only run ops that exist.

    Parameters
    ----------
    inputs
        The names of the node's inputs, then of the gradients that arrive, one for
        each output. Between them may stand the names of the node's outputs. ``"x: T"``
        says that the dtype of x is T.
    returns
        For each input of the node the name of its gradient, or None.
    nodes
        The steps, in order. Each is a mapping ``{"outputs": ["t"], "op": "multiply",
        "inputs": ["dy", "x"], "params": {}}`` or a tuple ``(["t"], "multiply",
        ["dy", "x"], {})``. An op is a function of NumPy's by its name
        (``"linalg.inv"``), or an op that you have defined. An input is a name, a
        number, or a list of names where the function takes a list of arrays. A param
        is a number, a text, None or a list; ``"$axis"`` is the node's own setting
        ``axis``.
    types
        The dtypes that a type may be: ``{"T": ["float32", "float64"]}``, or text as
        TensorFlow has it, ``"T: {float, double}"``; a list of these for several.
    name
        What errors and the picture call it.

    Raises
    ------
    RegistrationError
        If an op is unknown, a name is missing or made twice, the number of inputs is
        not that of the op, or the data is too large.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> rule = wb.graph_rule(
    ...     inputs=["x", "dy"],
    ...     returns=["dx"],
    ...     nodes=[
    ...         (["positive"], "greater", ["x", 0.0], {}),
    ...         (["dx"], "where", ["positive", "dy", 0.0], {}),
    ...     ],
    ... )
    >>> print(rule)
    dx of (x, dy):
      positive = greater(x, 0.0)
      dx = where(positive, dy, 0.0)
    >>> f = lambda x: np.sum(np.tanh(x))
    >>> wb.grad(f, overrides=[wb.override("tanh", vjp=rule)])(np.array([-1.0, 2.0]))
    array([0., 1.])
    >>> wb.graph_rule.from_json(rule.to_json()) == rule
    True
    """

    def __init__(
        self,
        inputs: Sequence[str],
        returns: Sequence[str | None],
        nodes: Sequence[Any],
        *,
        types: Mapping[str, Sequence[str]] | str | Sequence[str] | None = None,
        name: str | None = None,
    ) -> None:
        self.__name__ = "graph_rule" if name is None else name
        self._named = name
        # As of a function: the same name in the same module is the same definition.
        # Without a name, the same steps are.
        self.__module__ = _module()
        read = Reader(self.__name__, inputs, returns, nodes, types)
        self.inputs, self.returns = read.inputs, read.returns
        self.types, self._typed = read.types, read.typed
        self.steps = read.steps
        self._try_types()

    @property
    def anonymous(self) -> bool:
        """Whether it was given no name, by which its definition could be known."""
        return self._named is None

    # How it runs

    def __call__(self, node: Node, *cotangents: Any) -> list[Any]:
        """One gradient (or None) for each input of a node."""
        given = [*node.inputs, *cotangents]
        if len(given) != len(self.inputs):
            given = [*node.inputs, *node.outputs, *cotangents]
        op, count = node.op.name, len(node.inputs)
        if len(given) != len(self.inputs) or len(self.returns) != count:
            raise UsageError(
                f"{self.__name__}: the rule has inputs {', '.join(self.inputs)} and"
                f" returns {counted(len(self.returns), 'gradient')}; {op} has"
                f" {counted(count, 'input')} and"
                f" {counted(len(node.outputs), 'output')}. Its inputs are those of the"
                " node, then (or not) its outputs, then one gradient for each output."
            )
        return self.run(given, node)

    def run(self, given: Sequence[Any], node: Node | None = None) -> list[Any]:
        """The gradients for values of the inputs."""
        values = dict(zip(self.inputs, given, strict=True))
        self._check_types(values)

        def setting(value: Any) -> Any:
            if isinstance(value, str) and value[:1] == "$" and node is not None:
                return node.get_attr(value[1:])
            return value

        def read(x: Any) -> Any:
            if isinstance(x, list):
                return [read(part) for part in x]
            return values[x] if isinstance(x, str) else x

        with budget_for(given) as budget:
            for step in self.steps:
                params = {key: setting(value) for key, value in step.params.items()}
                parts = self._step(step, list(map(read, step.inputs)), params, budget)
                values.update(zip(step.outputs, parts, strict=True))
                for name in step.done:
                    # What is recorded stays in the program.
                    if not isinstance(gone := values.pop(name), Tensor):
                        budget.give_back(count_bytes(gone))
        self._check_types({name: values[name] for name in self.returns if name})
        return [None if name is None else values[name] for name in self.returns]

    def _step(
        self, step: Step, operands: list[Any], params: dict[str, Any], budget: Budget
    ) -> Sequence[Any]:
        """The results of one step, if they and the work are within the budget."""
        demand = Demand(0, 0)
        try:
            if step.estimate is not None:
                demand = step.estimate(*operands, **params)
                kind = np.dtype(params.get("dtype") or np.int64)
                wide = max(8, kind.itemsize, *map(_itemsize, operands))
                self._check_budget(step, budget.refusal(demand, wide))
            made = step.apply(operands, params)
        except (WorkbenchError, MemoryError):
            raise
        except Exception as error:
            raise UsageError(
                f"{self.__name__}: the node {step} fails: {type(error).__name__}:"
                f" {str(error).rstrip('.')}."
            ) from error
        parts = made if isinstance(made, (tuple, list)) else (made,)
        if len(parts) != len(step.outputs):
            raise UsageError(
                f"{self.__name__}: {step.op} has {counted(len(parts), 'output')}, and"
                f" its node names {', '.join(step.outputs)}."
            )
        if step.estimate is None:
            self._check_budget(step, budget.refusal(Demand(count_entries(made), 0)))
        budget.take(count_bytes(parts), demand.work)
        return parts

    def _check_budget(self, step: Step, told: str) -> None:
        """Raise an error if a step would make more than a rule may."""
        if told:
            raise UsageError(
                f"{self.__name__}: {step.op} makes {step.outputs[0]} of {told}. Write a"
                " function rule(node, g)."
            )

    def _check_types(self, values: Mapping[str, Any]) -> None:
        """Raise an error if dtypes are not those that the rule declares."""
        bound: dict[str, str] = {}
        for name, value in values.items():
            kind = self._typed.get(name)
            if kind is None or value is None:
                continue
            have = np.dtype(getattr(value, "dtype", type(value))).name
            if have not in self.types[kind]:
                raise DtypeError(
                    f"{self.__name__}: {name} is of dtype {have}, and the rule declares"
                    f" {kind}: {', '.join(self.types[kind])}."
                )
            if bound.setdefault(kind, have) != have:
                raise DtypeError(
                    f"{self.__name__}: {name} is of dtype {have}, and another value of"
                    f" the same type {kind} of {bound[kind]}."
                )

    def _try_types(self) -> None:
        """Raise an error if the types that are declared cannot be those of the steps.

        Tried on matrices of two by two, where all inputs have a type, for each dtype
        that one may be; steps that need other shapes are left to the first run.
        """
        settings = [v for step in self.steps for v in step.params.values()]
        if any(isinstance(v, str) and v[:1] == "$" for v in settings):
            return
        kinds = {name: self._typed.get(name) for name in self.inputs}
        names = sorted({kind for kind in kinds.values() if kind is not None})
        if None in kinds.values() or len(names) > 4:
            return
        for choice in product(*[self.types[name] for name in names]):
            chosen = dict(zip(names, choice, strict=True))
            specs = [Spec((2, 2), np.dtype(chosen[str(k)])) for k in kinds.values()]
            try:
                self.graph(*specs)
            except DtypeError as error:
                raise RegistrationError(
                    f"{self.__name__}: the types do not fit: {error}"
                ) from None
            except Exception:
                return

    def graph(self, *specs: Spec) -> Graph:
        """The program of the rule, for inputs of these shapes and dtypes."""
        if len(specs) != len(self.inputs):
            raise UsageError(
                f"{self.__name__}: the rule has inputs {', '.join(self.inputs)}; give a"
                " wb.Spec(shape, dtype) for each."
            )
        made = record(lambda leaves: self.run(leaves), specs, list(self.inputs))
        return Graph(made.leaves, [y for y in made.outputs if y is not None])

    # As data

    def to_json(self) -> str:
        """The rule as text."""
        return json.dumps(self._data())

    def _data(self) -> dict[str, Any]:
        def typed(name: str | None) -> str | None:
            if name is None or name not in self._typed:
                return name
            return f"{name}: {self._typed[name]}"

        data: dict[str, Any] = {
            "workbench_rule": VERSION,
            "inputs": list(map(typed, self.inputs)),
            "returns": list(map(typed, self.returns)),
            "nodes": [
                {"outputs": s.outputs, "op": s.op, "inputs": s.inputs}
                | ({"params": s.params} if s.params else {})
                for s in self.steps
            ],
        }
        if self.types:
            data["types"] = self.types
        if self._named is not None:
            data["name"] = self._named
        return data

    @classmethod
    def from_json(cls, text: str | bytes | Mapping[str, Any]) -> graph_rule:
        """A rule from what :meth:`to_json` wrote, checked as one that is made anew.

        Raises
        ------
        RegistrationError
            If the text is no rule, is damaged, too large, or of a newer version.
        """
        if isinstance(text, (str, bytes)):
            if len(text) > MOST_CHARACTERS:
                raise RegistrationError(
                    f"graph_rule: {len(text)} characters, and {MOST_CHARACTERS} are the"
                    " most."
                )
            try:
                data = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise RegistrationError(f"graph_rule: no JSON: {error}.") from None
        else:
            data = dict(text)
        if not isinstance(data, dict) or "workbench_rule" not in data:
            raise RegistrationError(
                'graph_rule: no rule; the data has no "workbench_rule".'
            )
        version = data.pop("workbench_rule")
        if version != VERSION or isinstance(version, bool):
            raise RegistrationError(
                f"graph_rule: version {version!r}, and this Workbench reads {VERSION}."
                " Update it, or write the rule anew."
            )
        if extra := sorted(set(data) - {"inputs", "returns", "nodes", "types", "name"}):
            raise RegistrationError(f"graph_rule: unknown {', '.join(extra)}.")
        if missing := sorted({"inputs", "returns", "nodes"} - set(data)):
            raise RegistrationError(f"graph_rule: no {', '.join(missing)}.")
        if not isinstance(data.get("types", {}), dict) or not isinstance(
            data.get("name", ""), str
        ):
            raise RegistrationError("graph_rule: types or name is not what it must be.")
        try:
            return cls(**data)
        except RecursionError:
            raise RegistrationError("graph_rule: nested too deeply.") from None

    def __reduce__(self) -> Any:
        return graph_rule.from_json, (self.to_json(),)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, graph_rule):
            return NotImplemented
        return self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __str__(self) -> str:
        returned = ", ".join(map(str, self.returns))
        head = f"{returned} of ({', '.join(self.inputs)}):"
        return "\n  ".join([head, *map(str, self.steps)])

    def __repr__(self) -> str:
        data = self._data()
        given = ", ".join(f"{k}={v!r}" for k, v in data.items() if k[:4] != "work")
        return f"wb.graph_rule({given})"


def _module() -> str:
    """The module of the user's code that runs now."""
    frame = sys._getframe(1)
    while source.internal(frame) and frame.f_back is not None:
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", ""))


def _itemsize(x: Any) -> int:
    """The bytes of one entry of an operand."""
    if isinstance(x, list):
        return max(map(_itemsize, x), default=8)
    return int(getattr(getattr(x, "dtype", None), "itemsize", 8))
