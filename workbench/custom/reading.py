"""How `wb.graph_rule` reads its data: every name, type and op is looked at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from workbench.custom.allowed_ops import Apply, finite, known
from workbench.custom.demands import Estimate
from workbench.errors import RegistrationError

__all__ = ["Reader", "Step"]

#: A rule comes from a file, perhaps a stranger's.
MOST_NODES = 1000
MOST_LETTERS = 100
#: What TensorFlow calls these.
TYPES = {"float": "float32", "double": "float64", "half": "float16"}


class Step:
    """One node of a rule: an op, by name, with what it reads and makes."""

    __slots__ = ("apply", "done", "estimate", "inputs", "op", "outputs", "params")

    def __init__(
        self, outputs: list[str], op: str, inputs: list[Any], params: dict[str, Any]
    ) -> None:
        self.outputs = outputs
        self.op = op
        self.inputs = inputs
        self.params = params
        self.apply: Apply
        #: What it will make; None of an op of the user's own.
        self.estimate: Estimate | None = None
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
        self.inputs: list[str] = self.split(inputs, "inputs")
        self.returns: list[str | None] = self.split(returns, "returns")
        if not self.inputs or all(r is None for r in self.returns):
            self.refuse("it needs inputs, and at least one gradient to return", "")
        self.types = self.declared({} if types is None else types)
        if not isinstance(nodes, (list, tuple)):
            self.refuse(f"nodes is {type(nodes).__name__}", "Give a list of nodes.")
        if len(nodes) > MOST_NODES:
            self.refuse(
                f"it has {len(nodes)} nodes, and {MOST_NODES} are the most",
                "Write a function rule(node, g).",
            )
        self.steps = [self.step(node, i) for i, node in enumerate(nodes)]
        self.check_names()
        self.note_last_reads()

    def split(self, names: Any, what: str) -> list[Any]:
        """Names apart from their types, which are noted."""
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
        """Raise an error for what is no name."""
        if not isinstance(name, str) or not name.isidentifier() or (
            len(name) > MOST_LETTERS
        ):  # fmt: skip
            self.refuse(
                f"{given!r} is no name",
                f"A name is made of at most {MOST_LETTERS} letters, digits and"
                " underscores.",
            )

    def declared(self, given: Any) -> dict[str, list[str]]:
        """The dtypes that each type may be, by NumPy's names."""
        if isinstance(given, (str, list, tuple)):
            given = dict(
                map(self.type_of, [given] if isinstance(given, str) else given)
            )
        if not isinstance(given, Mapping):
            self.refuse(f"types is {given!r}", 'Write types={"T": ["float64"]}.')
        found: dict[str, list[str]] = {}
        for name, kinds in given.items():
            if not isinstance(kinds, (str, list, tuple)):
                self.refuse(f"the type {name} is {kinds!r}", "Give a list of dtypes.")
            found[str(name)] = [
                self.dtype(k) for k in ([kinds] if isinstance(kinds, str) else kinds)
            ]
        for name, kind in self.typed.items():
            if kind not in found:
                try:
                    found[kind] = [self.dtype(kind)]
                except RegistrationError:
                    self.refuse(
                        f"{name} has the type {kind!r}, which is neither declared nor a"
                        " dtype",
                        f'Declare it: types={{"{kind}": ["float32", "float64"]}}.',
                    )
        return found

    def type_of(self, text: Any) -> tuple[str, list[str]]:
        """Read a type as TensorFlow writes it, ``"T: {float, double}"``.

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

    def dtype(self, kind: Any) -> str:
        """The name of a dtype, of which TensorFlow has others."""
        try:
            made = np.dtype(TYPES.get(kind, kind))
        except TypeError:
            made = np.dtype(object)
        if not isinstance(kind, str) or made.kind not in "biufc":
            self.refuse(f"{kind!r} is no dtype of numbers", 'Write "float64".')
        return str(made.name)

    def step(self, node: Any, i: int) -> Step:
        """One node, from a mapping or a tuple."""
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
                f"node {i} is {_short(node)}",
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
                f"node {i} is {_short(node)}",
                "It needs names of outputs, the name of an op, and at least one input.",
            )
        for name in outputs:
            self.check_name(name, name)
        made = Step(
            list(outputs), op,
            [list(x) if isinstance(x, (list, tuple)) else x for x in inputs],
            {str(k): finite(v, self.refuse, f"node {i}") for k, v in params.items()},
        )  # fmt: skip
        # What types an op of TensorFlow's is of the data here.
        for key, value in list(made.params.items()):
            if isinstance(value, str) and value[:1] == "$" and value[1:] in self.types:
                del made.params[key]
        made.apply, made.estimate = known(
            op,
            len(inputs),
            len(outputs),
            made.params,
            self.refuse,
            f"node {i}",
            [x for x in inputs if isinstance(x, int)],
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
                        finite(name, self.refuse, f"node {i}")
                    elif not isinstance(name, str) or name not in made:
                        self.refuse(
                            f"node {i} ({step.op}) reads {_short(name)}, which nothing"
                            " makes",
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
        """Note at each step what may be let go of after it."""
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


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
