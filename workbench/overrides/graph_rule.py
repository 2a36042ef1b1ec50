"""`wb.graph_rule`: a gradient rule that is data, a list of nodes of known ops."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Annotated, Any, NoReturn, NotRequired, TypedDict

import numpy as np

from workbench.autodiff.budget import (
    Budget,
    BudgetError,
    Demand,
    WeighedFunction,
    budget_for,
    count_bytes,
    count_entries,
)
from workbench.core import source
from workbench.core.blame import format_count, shorten
from workbench.core.graph import Graph
from workbench.core.schema import DataError, Meta, Schemas
from workbench.core.tensor import Tensor
from workbench.core.trace import record
from workbench.core.types import Spec
from workbench.errors import (
    DtypeError,
    RegistrationError,
    TraceError,
    UsageError,
    WorkbenchError,
)
from workbench.overrides.allowed_ops import (
    Function,
    check_setting,
    find_custom_op,
    find_op,
    read_dtype,
)
from workbench.overrides.node import Node

# How `wb.graph_rule` reads its data: every name, type and op is looked at.

#: A rule comes from a file, perhaps a stranger's.
MOST_NODES = 1000
MOST_LETTERS = 100
#: Arrays and numbers that one node may read.
MOST_READ = 64
#: What TensorFlow calls these.
TYPES = {"float": "float32", "double": "float64", "half": "float16"}


class Step:
    """One node of a rule: an op, by name, with its inputs and outputs."""

    __slots__ = (
        "custom", "done", "inputs", "op", "outputs", "params", "weighed",
    )  # fmt: skip

    def __init__(
        self, outputs: list[str], op: str, inputs: list[Any], params: dict[str, Any]
    ) -> None:
        self.outputs = outputs
        self.op = op
        self.inputs = inputs
        self.params = params
        #: An op of the user's own, which is trusted, and whose code runs; else what
        #: NumPy's function is, and makes, of operands of some shapes.
        self.custom: Function | None
        self.weighed: WeighedFunction
        #: What no later step reads.
        self.done: list[str] = []

    def __str__(self) -> str:
        shown = [
            f"[{', '.join(map(str, x))}]" if isinstance(x, list) else str(x)
            for x in self.inputs
        ]
        shown += [f"{key}={value!r}" for key, value in self.params.items()]
        return f"{', '.join(self.outputs)} = {self.op}({', '.join(shown)})"


class Reader:
    """The data of one rule, read and checked.

    Raises
    ------
    RegistrationError
        With the name of the rule, what is wrong, and what to write.
    """

    def __init__(
        self, name: str, inputs: Any, returns: Any, nodes: Any, types: Any
    ) -> None:
        self.name = name
        self.typed: dict[str, str] = {}
        self.inputs: list[str] = self.split_types(inputs, "inputs")
        self.returns: list[str | None] = self.split_types(returns, "returns")
        if not self.inputs or all(r is None for r in self.returns):
            self.refuse("it needs inputs, and at least one gradient to return", "")
        self.types = self.read_types({} if types is None else types)
        if not isinstance(nodes, (list, tuple)):
            self.refuse(f"nodes is {type(nodes).__name__}", "Give a list of nodes.")
        if len(nodes) > MOST_NODES:
            self.refuse(
                f"it has {len(nodes)} nodes, and {MOST_NODES} are the most",
                "Write a function rule(node, g).",
            )
        self.steps = [self.read_step(node, i) for i, node in enumerate(nodes)]
        self.check_names()
        self.note_last_reads()

    def split_types(self, names: Any, what: str) -> list[Any]:
        """Return names without their types, which are noted."""
        if isinstance(names, str) or not isinstance(names, (list, tuple)):
            self.refuse(f"{what} is {names!r}", f'Give a list of names: {what}=["x"].')
        found: list[Any] = []
        for given in names:
            if given is None and what == "returns":
                found.append(None)
                continue
            name, colon, kind = (
                given.partition(":") if isinstance(given, str) else ("",) * 3
            )
            name = name.strip()
            self.check_name(name, given)
            if name in found and what == "inputs":
                self.refuse(f"{name!r} stands twice in {what}", "Rename one.")
            if colon:
                self.typed[name] = kind.strip()
            found.append(name)
        return found

    def check_name(self, name: Any, given: Any) -> None:
        """Raise an error for a value that is not a name."""
        if not isinstance(name, str) or not name.isidentifier() or (
            len(name) > MOST_LETTERS
        ):  # fmt: skip
            self.refuse(
                f"{given!r} is not a name",
                f"A name is made of at most {MOST_LETTERS} letters, digits and"
                " underscores.",
            )

    def read_types(self, given: Any) -> dict[str, list[str]]:
        """Return the dtypes of each type, by NumPy's names."""
        if isinstance(given, (str, list, tuple)):
            given = dict(
                map(self.read_type, [given] if isinstance(given, str) else given)
            )
        if not isinstance(given, Mapping):
            self.refuse(f"types is {given!r}", 'Write types={"T": ["float64"]}.')
        found: dict[str, list[str]] = {}
        for name, kinds in given.items():
            if not isinstance(kinds, (str, list, tuple)):
                self.refuse(f"the type {name} is {kinds!r}", "Give a list of dtypes.")
            found[str(name)] = [
                self.read_dtype(k)
                for k in ([kinds] if isinstance(kinds, str) else kinds)
            ]
        for name, kind in self.typed.items():
            if kind not in found:
                try:
                    found[kind] = [self.read_dtype(kind)]
                except RegistrationError:
                    self.refuse(
                        f"{name} has the type {kind!r}, which is neither declared nor a"
                        " dtype",
                        f'Declare it: types={{"{kind}": ["float32", "float64"]}}.',
                    )
        return found

    def read_type(self, text: Any) -> tuple[str, list[str]]:
        """Read a type in TensorFlow's notation, ``"T: {float, double}"``.

        Or as a kernel declares its letters, ``"T: float32 | float64"``.
        """
        name, colon, kinds = text.partition(":") if isinstance(text, str) else ("",) * 3
        name, kinds = name.strip(), kinds.strip()
        braced = kinds[:1] == "{" and kinds[-1:] == "}"
        found = kinds[1:-1].split(",") if braced else kinds.split("|")
        found = [kind.strip() for kind in found]
        if not colon or not name.isidentifier() or not all(found):
            self.refuse(
                f"the type {text!r} cannot be read",
                'Write types="T: {float, double}", or {"T": ["float32", "float64"]}.',
            )
        return name, found

    def read_dtype(self, kind: Any) -> str:
        """Return the name of a dtype, of which TensorFlow has others."""
        made = read_dtype(TYPES.get(kind, kind) if isinstance(kind, str) else kind)
        if made is None:
            self.refuse(f"{kind!r} is not a dtype of numbers", 'Write "float64".')
        return str(made.name)

    def read_step(self, node: Any, i: int) -> Step:
        """Return one node, from a mapping or a tuple."""
        keys = ("outputs", "op", "inputs", "params")
        if isinstance(node, Mapping):
            if extra := sorted(set(map(str, node)) - set(keys)):
                self.refuse(
                    f"node {i} has {', '.join(map(repr, extra))}",
                    f"A node has {', '.join(keys)}.",
                )
            parts: list[Any] = [node.get(key) for key in keys]
        elif isinstance(node, (list, tuple)) and 3 <= len(node) <= 4:
            parts = [*node, None][:4]
        else:
            self.refuse(
                f"node {i} is {shorten(repr(node))}",
                'Write (["dx"], "multiply", ["dy", "x"], {}), or a mapping with'
                f" {', '.join(keys)}.",
            )
        outputs, op, inputs, params = parts
        outputs = [outputs] if isinstance(outputs, str) else outputs
        params = {} if params is None else params
        if (
            not isinstance(outputs, (list, tuple)) or not outputs
            or not isinstance(op, str)
            or not isinstance(inputs, (list, tuple)) or not inputs
            or not isinstance(params, Mapping)
        ):  # fmt: skip
            self.refuse(
                f"node {i} is {shorten(repr(node))}",
                "It needs names of outputs, the name of an op, and at least one input.",
            )
        for name in outputs:
            self.check_name(name, name)
        read = sum(len(x) if isinstance(x, (list, tuple)) else 1 for x in inputs)
        if read > MOST_READ:
            self.refuse(
                f"node {i} reads {read} values, and a rule that is data may read"
                f" {MOST_READ} at a node",
                "Write a function rule(node, g).",
            )
        made = Step(
            list(outputs), op,
            [list(x) if isinstance(x, (list, tuple)) else x for x in inputs],
            {str(k): check_setting(v, self.refuse, f"node {i}")
             for k, v in params.items()},
        )  # fmt: skip
        # What types an op of TensorFlow's is of the data here.
        for key, value in list(made.params.items()):
            if isinstance(value, str) and value[:1] == "$" and value[1:] in self.types:
                del made.params[key]

        def refuse(what: str, cure: str) -> NoReturn:
            self.refuse(f"node {i}: {what}", cure)

        made.custom = find_custom_op(op, made.params, refuse)
        if made.custom is None:
            numbers = [x for x in inputs if isinstance(x, int)]
            made.weighed = WeighedFunction(
                find_op(op, len(inputs), len(outputs), made.params, refuse, numbers)
            )
        return made

    def check_names(self) -> None:
        """Raise an error for a name that is missing, late or made twice."""
        made = dict.fromkeys(self.inputs, -1)
        for i, step in enumerate(self.steps):
            for name in step.outputs:
                if name in made:
                    self.refuse(
                        f"node {i} makes {name!r}, which is made already",
                        "Give each value a name of its own.",
                    )
                made[name] = i
        for i, step in enumerate(self.steps):
            for x in step.inputs:
                for name in x if isinstance(x, list) else [x]:
                    if isinstance(name, (int, float)) and not isinstance(name, bool):
                        check_setting(name, self.refuse, f"node {i}")
                    elif not isinstance(name, str) or name not in made:
                        self.refuse(
                            f"node {i} ({step.op}) reads {shorten(repr(name))}, which"
                            " nothing makes",
                            f"There are {', '.join(made)}.",
                        )
                    elif made[name] >= i:
                        self.refuse(
                            f"node {i} ({step.op}) reads {name!r}, which"
                            f" {'it' if made[name] == i else f'node {made[name]}'}"
                            " makes",
                            "Each node stands after those that it reads, so there is no"
                            " cycle.",
                        )
        for returned in self.returns:
            if returned is not None and returned not in made:
                self.refuse(
                    f"it returns {returned!r}, which nothing makes",
                    f"There are {', '.join(made)}.",
                )

    def note_last_reads(self) -> None:
        """Note at each step the values that no later step reads."""
        last: dict[str, Step] = {}
        for step in self.steps:
            for x in step.inputs:
                for name in x if isinstance(x, list) else [x]:
                    last[name] = step
            last.update(dict.fromkeys(step.outputs, step))
        kept = {*self.inputs, *self.returns}
        for name, step in last.items():
            if isinstance(name, str) and name not in kept:
                step.done.append(name)

    def refuse(self, what: str, cure: str) -> NoReturn:
        """Raise the error that names the rule."""
        raise RegistrationError(f"{self.name}: {what}. {cure}".rstrip())


#: The version of the JSON form.
VERSION = 1
#: A rule comes from a file, perhaps a stranger's.
MOST_CHARACTERS = 1_000_000


#: A name with its type, or what a rule is called.
Text = Annotated[str, Meta(maxLength=MOST_CHARACTERS)]


class RuleData(TypedDict):
    """The data that :meth:`graph_rule.to_json` writes, beside the version.

    Each node is checked where it is made a step of the rule.
    """

    inputs: Annotated[list[Text], Meta(maxItems=MOST_NODES)]
    returns: Annotated[list[Text | None], Meta(maxItems=MOST_NODES)]
    nodes: Annotated[list[Any], Meta(maxItems=MOST_NODES)]
    types: NotRequired[dict[str, Any]]
    name: NotRequired[Text]


DATA = Schemas(RuleData)


class graph_rule:
    """A gradient rule that is data: a list of nodes of existing ops.

    It may come from a stranger's file, so what each step makes is known before it runs:
    a rule that asks for far more memory or work than the arrays that it is given is a
    `UsageError`, and so is a step whose result has a shape that depends on values
    (``unique``, ``compress``).

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
    def is_anonymous(self) -> bool:
        """True if no name identifies the definition."""
        return self._named is None

    # How it runs

    def __call__(self, node: Node, *cotangents: Any) -> list[Any]:
        """Return one gradient (or None) for each input of a node."""
        given = [*node.inputs, *cotangents]
        if len(given) != len(self.inputs):
            given = [*node.inputs, *node.outputs, *cotangents]
        op, count = node.op.name, len(node.inputs)
        if len(given) != len(self.inputs) or len(self.returns) != count:
            raise UsageError(
                f"{self.__name__}: the rule has inputs {', '.join(self.inputs)} and"
                f" returns {format_count(len(self.returns), 'gradient')}; {op} has"
                f" {format_count(count, 'input')} and"
                f" {format_count(len(node.outputs), 'output')}. Its inputs are those of"
                " the node, then (or not) its outputs, then one gradient for each"
                " output."
            )
        return self.run(given, node)

    def run(self, given: Sequence[Any], node: Node | None = None) -> list[Any]:
        """Return the gradients for values of the inputs."""
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
        """Return the results of one step, or refuse a step beyond the budget."""
        try:
            if step.custom is not None:
                made = step.custom(*operands, **params)
            else:
                made = step.weighed.run(operands, params, budget)
        except BudgetError as error:
            self._refuse_size(step, str(error))
        except TraceError as error:
            if step.custom is not None:
                raise
            raise UsageError(
                f"{self.__name__}: the result of {step.op} depends on values, which a"
                " rule that is data cannot read. Write a function rule(node, g)."
            ) from error
        except (UsageError, DtypeError, MemoryError):
            raise
        except Exception as error:
            if step.custom is not None and isinstance(error, WorkbenchError):
                raise
            raise UsageError(
                f"{self.__name__}: the node {step} fails: {type(error).__name__}:"
                f" {str(error).rstrip('.')}."
            ) from error
        parts = made if isinstance(made, (tuple, list)) else (made,)
        if len(parts) != len(step.outputs):
            raise UsageError(
                f"{self.__name__}: {step.op} has {format_count(len(parts), 'output')},"
                f" and its node names {', '.join(step.outputs)}."
            )
        if step.custom is not None:
            if told := budget.refusal(Demand(count_entries(made), 0)):
                self._refuse_size(step, told)
        budget.take(count_bytes(parts), 0)
        return parts

    def _refuse_size(self, step: Step, told: str) -> NoReturn:
        """Raise the error of a step that would make more than a rule may."""
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
        """Return the program of the rule, for inputs of these shapes and dtypes."""
        if len(specs) != len(self.inputs):
            raise UsageError(
                f"{self.__name__}: the rule has inputs {', '.join(self.inputs)}; give a"
                " wb.Spec(shape, dtype) for each."
            )
        made = record(lambda leaves: self.run(leaves), specs, list(self.inputs))
        return Graph(made.leaves, [y for y in made.outputs if y is not None])

    # As data

    def to_json(self) -> str:
        """Return the rule as text."""
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
        """Read a rule written by :meth:`to_json`, with all checks of a new one.

        Raises
        ------
        RegistrationError
            If the text is not a rule, is damaged, too large, or of a newer version.
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
            data = {k: [*v] if type(v) is tuple else v for k, v in text.items()}
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
        if extra := sorted({*map(str, data)} - {*RuleData.__annotations__}):
            raise RegistrationError(f"graph_rule: unknown {', '.join(extra)}.")
        try:
            return cls(**DATA.read("Rule", data))
        except DataError as error:
            raise RegistrationError(f"graph_rule: {error}.") from None
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
    """Return the module of the user's code that runs now."""
    frame = sys._getframe(1)
    while source.is_internal(frame) and frame.f_back is not None:
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", ""))
