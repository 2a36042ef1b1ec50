"""`function`: expressions of symbols as something to call.

A call gives the symbols their values, reads what shared values hold, runs the
program, and last of all writes the updates: an error on the way leaves every shared
value as it was.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np

from workbench.backends import numpy as numpy_backend
from workbench.backends.text import Form, Text
from workbench.errors import (
    ShapeError,
    TraceError,
    UsageError,
)
from workbench.graph import blame, tree, walk
from workbench.graph.graph import Graph
from workbench.graph.shared import Shared, copied, held, hold, matches
from workbench.graph.tensor import Tensor
from workbench.symbolic.arguments import Signature, called
from workbench.symbolic.preparing import (
    check_unused,
    fitted,
    is_leaf,
    missing_symbols,
    output,
    replaced,
    shared_leaves,
    updated,
)
from workbench.transforms.program import Program

__all__ = ["Function", "evaluate", "function"]

#: What a graph may run on, by name.
BACKENDS: dict[str, Callable[[Graph], Any]] = {"numpy": numpy_backend.compile}
UNUSED = ("raise", "warn", "ignore")


def function(
    inputs: Any,
    outputs: Any,
    *,
    updates: Any = None,
    givens: Any = None,
    defaults: Any = None,
    on_unused_input: str = "raise",
    name: str | None = None,
    backend: str = "numpy",
    profile: bool = False,
) -> Function:
    """Expressions as a function of their symbols.

    Parameters
    ----------
    inputs
        A list of symbols, or of nests of symbols; a mapping gives them names.
    outputs
        An expression, a nest of expressions, or None for a function that only
        updates.
    updates
        A mapping (or pairs) from shared values to expressions. They are computed
        from the old values, with the outputs, and written after the whole run has
        succeeded; a value is cast where NumPy's ``same_kind`` allows it.
    givens
        A mapping (or pairs) from Tensors of the expressions, symbols or not, to
        what takes their place: all at once, so what is put in is not replaced
        again. Shapes and dtypes must agree.
    defaults
        A mapping from symbols among the inputs to values; a call may leave these out.
    on_unused_input
        What to do about an input that nothing reads: ``"raise"``, ``"warn"`` or
        ``"ignore"``.
    name
        Its name, in errors and in its source.
    backend
        What runs it: ``"numpy"``.
    profile
        Measure every node in every call; see :attr:`Function.profile`.

    Returns
    -------
    A :class:`Function`, to be called by position or by name.

    Raises
    ------
    MissingInputError
        If an expression needs a symbol that is no input.
    UnusedInputError
        If nothing reads an input.
    UsageError
        If an input is no symbol or is given twice, or an option does not fit.
    ShapeError, DtypeError
        If what is given or updated does not fit in its place.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> x, y = wb.scalars("x y")
    >>> f = wb.function([x, y], [x + y, wb.grad(x * y, x)], defaults={y: 3.0})
    >>> [float(v) for v in f(1.0)], [float(v) for v in f(y=5.0, x=1.0)]
    ([4.0, 3.0], [6.0, 5.0])
    >>> n = wb.shared(0, "n")
    >>> count = wb.function([], n, updates={n: n + 1})
    >>> int(count()), int(count()), int(n.get_value())
    (0, 1, 2)
    """
    if backend not in BACKENDS:
        raise UsageError(
            f"there is no backend {backend!r}. Choose {_listed(BACKENDS)}."
        )
    if on_unused_input not in UNUSED:
        raise UsageError(
            f"on_unused_input={on_unused_input!r} is none of {_listed(UNUSED)}."
        )
    if name is not None and not (isinstance(name, str) and name):
        raise UsageError(f"the name of a function is a text, not {name!r}.")
    signature = Signature(inputs, defaults, name or "the function")
    flat: list[Any] = []
    structure = None
    if outputs is not None:
        flat, structure = tree.flatten(outputs)
        flat = [output(y) for y in flat]
    changed = updated(updates)
    flat = replaced([*flat, *changed.values()], givens)
    count = len(flat) - len(changed)
    news = [
        fitted(new, x) for x, new in zip(changed, flat[count:], strict=True)
    ]  # fmt: skip
    program = [*flat[:count], *news]
    shared = shared_leaves(program, signature)
    check_unused(program, signature, on_unused_input)
    graph = Graph([*signature.symbols, *shared], program)
    return Function(
        graph, signature, shared, list(changed), structure, name, backend, profile
    )


class Function:
    """Expressions of symbols as something to call; made by :func:`workbench.function`.

    Attributes
    ----------
    graph
        The program: its inputs are the symbols, then the shared values that it
        reads; its outputs are those of the function, then the updates.
    shared
        The shared values that it reads.
    updates
        The shared values that it writes, and their new values as expressions.
    name
        Its name, or None.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> x = wb.vector("x", shape=3)
    >>> f = wb.function([x], {"sum": np.sum(x), "double": 2 * x}, name="f")
    >>> f([1.0, 2.0, 3.0])["double"]
    array([2., 4., 6.])
    >>> f
    <Function f(x) of 3 nodes>
    """

    def __init__(
        self,
        graph: Graph,
        signature: Signature,
        shared: list[Shared],
        changed: list[Shared],
        structure: tree.Tree | None,
        name: str | None,
        backend: str,
        profile: bool,
    ) -> None:
        self.graph = graph
        self.name = name
        self.shared = shared
        self.backend = backend
        self._signature = signature
        self._changed = changed
        self._tree = structure
        self._count = len(graph.outputs) - len(changed)
        self._run = BACKENDS[backend](graph)
        # In one order everywhere, so that two functions never wait for each other.
        self._locks = [x.lock for x in sorted(changed, key=lambda x: x.serial)]

    def __call__(self, *args: Any, **named: Any) -> Any:
        """The outputs for these arguments; by position, by name, or both."""
        arrays = self._signature.arrays(args, named)
        if any(isinstance(x, Tensor) for x in arrays):
            return self._recorded(arrays)
        if not self._changed:
            results = self._run(*arrays, *held(self.shared))
            return self._nested(results, arrays)
        with ExitStack() as stack:
            for lock in self._locks:
                stack.enter_context(lock)
            results = self._run(*arrays, *held(self.shared))
            news = self._owned_states(results[self._count :], arrays)
            made = self._nested(results[: self._count], [*arrays, *news])
            hold(self._changed, news)
        return made

    @property
    def updates(self) -> dict[Shared, Any]:
        """The shared values that a call writes, and their new values."""
        return dict(zip(self._changed, self.graph.outputs[self._count :], strict=True))

    @property
    def defaults(self) -> dict[Tensor, Any]:
        """What stands for arguments that a call leaves out, by symbol."""
        return {x: copied(value) for x, value in self._signature.defaults.items()}

    def _nested(self, results: list[Any], others: list[Any]) -> Any:
        """The outputs as they nest, each array the caller's own."""
        if self._tree is None:
            return None
        taken = {_memory(x) for x in others if isinstance(x, np.ndarray)}
        taken.update(
            _memory(x.state) for x in self.shared if isinstance(x.state, np.ndarray)
        )
        return self._tree(_apart(results, taken))

    def _owned_states(self, news: list[Any], arrays: list[Any]) -> list[Any]:
        """What shared values shall hold: arrays that nobody else has, of their shape.

        Also where lengths were unknown before the run.
        """
        news = [
            np.asarray(new) if isinstance(new, np.generic) else new for new in news
        ]  # fmt: skip
        for x, new in zip(self._changed, news, strict=True):
            if x.spec.dtype != object and not matches(np.shape(new), x.spec.shape):
                raise ShapeError(
                    f"the update of {x.described()} came out with shape"
                    f" {np.shape(new)}. Nothing was updated."
                )
        taken = {_memory(x) for x in arrays if isinstance(x, np.ndarray)}
        taken.update(
            _memory(x.state) for x in self.shared if isinstance(x.state, np.ndarray)
        )
        return _apart(news, taken)

    def _recorded(self, arrays: list[Any]) -> Any:
        """The outputs as Tensors, for a function that is called inside a trace."""
        if self._changed:
            raise TraceError(
                f"{self.name or 'a function'} with updates{blame.here()} is called on a"
                " Tensor: the update would be made once, while the program is traced."
                " Call it outside of the trace, or leave out updates=."
            )
        known = all(not isinstance(x, Tensor) or x._value is not None for x in arrays)
        states = held(self.shared) if known else list(self.shared)
        program = Program(self.graph.outputs, self.graph.inputs)
        if self._tree is None:
            return None
        return self._tree(program([*arrays, *states]))

    @property
    def source(self) -> str:
        """The program as NumPy code that runs on its own.

        Its function takes the symbols, then what the shared values held when this was
        asked, and returns what a call returns; where there are updates, a pair of
        that and the list of new values. Arrays of more than a few thousand characters
        are ``constants``, to be handed over as globals.

        Examples
        --------
        >>> import workbench as wb
        >>> x = wb.scalar("x")
        >>> y = x * x + x - 2
        >>> print(wb.function([x], [y, wb.grad(y, x)], name="f").source)
        import numpy as np
        <BLANKLINE>
        <BLANKLINE>
        def f(x):
            return [x * x + x - 2, 1.0 + x + x]
        """
        return self._text().source

    @property
    def constants(self) -> dict[str, Any]:
        """The arrays that the source names and that are too large for it."""
        return self._text().constants

    def _text(self) -> Text:
        name = re.sub(r"\W+", "_", self.name or "function")
        if keyword.iskeyword(name) or name[0].isdigit():
            name = f"f_{name}"
        states = [
            None if x.spec.dtype == object else state
            for x, state in zip(self.shared, held(self.shared), strict=True)
        ]
        note = ""
        if self._changed:
            names = [x.name or "one without a name" for x in self._changed]
            note = f"Returns the outputs, and the new values of {', '.join(names)}."
        found: Text = self._run.text(Form(name, states, self._returned, note))
        return found

    def _returned(self, codes: list[str]) -> str:
        """What the source returns, from the code of each output."""
        outputs = list(map(_Code, codes))
        nested: Any = None
        if self._tree is not None:
            nested = self._tree(outputs[: self._count])
            if not _plain(nested):
                nested = tuple(outputs[: self._count])
        if self._changed:
            nested = (nested, outputs[self._count :])
        text = repr(nested)
        # A tuple needs no parentheses where it is returned.
        if type(nested) is tuple and len(nested) > 1:
            return text[1:-1]
        return text

    def __repr__(self) -> str:
        takes = self._signature.listed() if self._signature.inputs else ""
        writes = f" -> {len(self._changed)} updates" if self._changed else ""
        return (
            f"<Function {self.name or ''}({takes}) of {len(self.graph)} nodes{writes}>"
        )


def evaluate(y: Tensor, values: Any, named: Mapping[str, Any]) -> Any:
    """See `Tensor.eval`."""
    if y._value is not None:
        return y.value
    if isinstance(y, Shared):
        return y.get_value()
    if values is not None and not isinstance(values, Mapping):
        raise UsageError(
            "expression.eval takes a mapping from symbols to values, not"
            f" {type(values).__name__}: y.eval({{x: 1.0}}), or y.eval(x=1.0)."
        )
    run: Function | None = getattr(y, "compiled", None)
    if run is None:
        symbols = [
            x for x in walk.order([y]) if is_leaf(x) and not isinstance(x, Shared)
        ]
        run = y.compiled = function(symbols, y, name="eval")
    symbols = run._signature.symbols
    places = {x.serial: i for i, x in enumerate(symbols)}
    names: dict[str, list[int]] = {}
    for i, x in enumerate(symbols):
        if x.name is not None:
            names.setdefault(x.name, []).append(i)
    given: dict[int, Any] = {}
    for key, value in [*(values or {}).items(), *named.items()]:
        if isinstance(key, Tensor):
            found = [places[key.serial]] if key.serial in places else []
        else:
            found = names.get(key, [])
        if len(found) != 1:
            shown = called(key) if isinstance(key, Tensor) else repr(key)
            why = "is no symbol of it" if not found else "names several of its symbols"
            listed = ", ".join(map(called, symbols)) or "none"
            raise UsageError(
                f"eval of {blame.describe(y)}{blame.at(y.site)}: {shown} {why}."
                f" Its symbols are {listed}."
            )
        given[found[0]] = value
    missing = [x for i, x in enumerate(symbols) if i not in given]
    if missing:
        raise missing_symbols(missing, f"eval of {blame.describe(y)}{blame.at(y.site)}")
    return run(*(given[i] for i in range(len(symbols))))


class _Code:
    """Code among the parts of a nest, whose text is then code too."""

    def __init__(self, code: str) -> None:
        self.code = code

    def __repr__(self) -> str:
        return self.code


def _plain(nested: Any) -> bool:
    """Whether a nest is of Python's own containers, whose text is code."""
    stack = [nested]
    while stack:
        x = stack.pop()
        if type(x) is dict:
            if not all(isinstance(key, (str, int)) for key in x):
                return False
            stack += x.values()
        elif type(x) in (list, tuple):
            stack += x
        elif type(x) is not _Code:
            return False
    return True


def _memory(x: Any) -> int:
    """The array at the bottom of a view: two with the same one share memory."""
    while isinstance(x.base, np.ndarray):
        x = x.base
    return id(x) if x.base is None else id(x.base)


def _apart(arrays: list[Any], taken: set[int]) -> list[Any]:
    """The arrays, with a copy of each whose memory somebody else has."""
    made = []
    for x in arrays:
        if isinstance(x, np.ndarray):
            memory = _memory(x)
            if memory in taken or not x.flags.writeable:
                x = x.copy()
                memory = id(x)
            taken.add(memory)
        elif id(x) in taken and hasattr(x, "shape"):  # of another library
            x = x.copy()
        taken.add(id(x))
        made.append(x)
    return made


def _listed(names: Any) -> str:
    return ", ".join(map(repr, names))
