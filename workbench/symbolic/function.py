"""`function`: expressions of symbols as something to call.

A call gives the symbols their values, reads what shared values hold, runs the
program, and last of all writes the updates: an error on the way leaves every shared
value as it was.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

import numpy as np

from workbench.autodiff.derivatives import forward_nodes
from workbench.backends import Backend
from workbench.backends import numpy as numpy_backend
from workbench.backends.compiled import tiers
from workbench.backends.cupy import functions as cupy_backend
from workbench.backends.cupy.devices import find_runtime
from workbench.backends.profile import Profile, measure
from workbench.backends.text import Form, Text
from workbench.core import blame, hooks, tree, types, walk
from workbench.core.graph import Graph, inline
from workbench.core.shared import (
    Locks,
    Shared,
    copy_state,
    matches_lengths,
    read_states,
    write_states,
)
from workbench.core.tensor import TENSORS, Tensor
from workbench.core.tree import Tree
from workbench.core.types import WEAK_TYPES
from workbench.errors import ShapeError, TraceError, UsageError
from workbench.ops import gradients
from workbench.rewrite.driver import Replay, Rewrites, check_rewrites
from workbench.rewrite.rule import Rule
from workbench.symbolic.arguments import Signature, quote_symbol
from workbench.symbolic.preparing import (
    as_output,
    check_swaps,
    check_unused,
    check_updates,
    find_shared_leaves,
    fit_update,
    is_leaf,
    missing_symbols_error,
    replace_symbols,
)

# The owner of an array: results and states must belong to the function alone.


def copy_aliases(arrays: Sequence[Any], others: Iterable[Any]) -> list[Any]:
    """Return the arrays, copying each that shares memory with an earlier one.

    ``others`` are arrays that somebody has: arguments, states. What is read-only is
    a constant of the program, and is copied too.
    """
    owners: set[int] | None = None
    copies = []
    for x in arrays:
        if isinstance(x, np.ndarray) or not isinstance(x, _NUMBERS):
            if owners is None:
                owners = set(map(_memory_owner, others))
            memory = _memory_owner(x)
            if (
                (memory in owners and hasattr(x, "shape"))
                or (isinstance(x, np.ndarray) and not x.flags.writeable)
            ):  # fmt: skip
                x = x.copy()
                memory = id(x)
            owners.add(memory)
        copies.append(x)  # a number cannot be written to
    return copies


_NUMBERS = (np.number, np.bool_, *WEAK_TYPES)


def _memory_owner(x: object) -> int:
    """Return the object at the bottom of a view: two with the same one share memory."""
    while (base := getattr(x, "base", None)) is not None:
        x = base
    return id(x)


# How the source of a function returns a nest of outputs.

#: What a source may import.
MODULES = {"fft", "linalg", "np", "signal", "sparse", "special", "stats"}


def as_identifier(name: str | None) -> str:
    """Return the name of a function as a valid Python identifier."""
    made = re.sub(r"\W+", "_", name or "function")
    taken = keyword.iskeyword(made) or hasattr(builtins, made) or made in MODULES
    return f"f_{made}" if taken or made[0].isdigit() else made


def nest_code(codes: Sequence[str], structure: Tree | None, updates: int) -> str:
    """Return the code of a nest of outputs; updates stand last.

    A nest of dataclasses and the like, which are no code, is a tuple of its leaves.
    """
    outputs = list(map(_Code, codes))
    count = len(outputs) - updates
    nested: Any = None
    if structure is not None:
        nested = structure(outputs[:count])
        if not _is_python_nest(nested):
            nested = tuple(outputs[:count])
    if updates:
        nested = (nested, outputs[count:])
    text = repr(nested)
    # A tuple needs no parentheses where it is returned.
    return text[1:-1] if type(nested) is tuple and len(nested) > 1 else text


class _Code:
    """Code among the parts of a nest; the text of the nest is then code too."""

    def __init__(self, code: str) -> None:
        self.code = code

    def __repr__(self) -> str:
        return self.code


def _is_python_nest(nested: object) -> bool:
    """Return whether a nest has Python's own containers alone: its text is code."""
    stack: list[Any] = [nested]
    while stack:
        x = stack.pop()
        if type(x) is dict:
            if not all(isinstance(key, (str, int)) for key in x):
                return False
            stack += x.values()
        elif type(x) in (list, tuple):
            stack += x
        elif x is not None and type(x) is not _Code:
            return False
    return True


# `function` and `Function`

#: What a graph may run on, by name.
BACKENDS: dict[str, Backend] = {
    "numpy": numpy_backend.compile,
    "compiled": tiers.compile,
    "auto": tiers.compile_when_worthwhile,
    "cupy": cupy_backend.compile,
}
UNUSED = ("raise", "warn", "ignore")


def check_backend(backend: Any) -> str:
    """Return the name of a backend.

    Raises
    ------
    UsageError
        If there is none of this name.
    DeviceError
        If it needs a GPU, and there is none.
    """
    if backend == "cupy":
        find_runtime()
    if backend in BACKENDS:
        return str(backend)
    raise UsageError(f"there is no backend {backend!r}. Choose {_as_list(BACKENDS)}.")


def function(
    inputs: object,
    outputs: object,
    *,
    updates: object = None,
    givens: object = None,
    defaults: object = None,
    on_unused_input: str = "raise",
    name: str | None = None,
    backend: str = "numpy",
    rules: Iterable[Rule] = (),
    without: str | Collection[str] = (),
    fast: bool = False,
) -> Function:
    """Make a function of symbols that computes expressions.

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
        What runs it: ``"numpy"``; ``"compiled"``, which compiles it in the background
        from its first call on; ``"auto"``, which does so once NumPy has spent some time
        on it. Until compiled code is there, and where it cannot be, NumPy answers.
        Compiled code gives NumPy's results but for the last digits, and no warnings.
        ``"cupy"`` compiles it for the GPU, where its arguments and shared values must
        lie: :func:`workbench.to_gpu`. CuPy's arrays in, CuPy's arrays out.
    rules, without, fast
        How the program is simplified before it runs: as :func:`workbench.simplify`
        takes them. ``without="all"`` leaves it as it was written.

    Returns
    -------
    A :class:`Function`, to be called by position or by name.

    Raises
    ------
    MissingInputError
        If an expression needs a symbol that is not an input.
    UnusedInputError
        If nothing reads an input.
    UsageError
        If an input is not a symbol or is given twice, or an option does not fit.
    ShapeError, DtypeError
        If a replacement or an update does not fit in its place.

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
    check_backend(backend)
    if on_unused_input not in UNUSED:
        raise UsageError(
            f"on_unused_input={on_unused_input!r} is not one of {_as_list(UNUSED)}."
        )
    if name is not None and not (isinstance(name, str) and name):
        raise UsageError(f"the name of a function is a text, not {name!r}.")
    signature = Signature(inputs, defaults, name or "the function")
    flat: list[Any] = []
    structure = None
    if outputs is not None:
        flat, structure = tree.flatten(outputs)
        flat = [as_output(y) for y in flat]
    changed = check_updates(updates)
    flat = replace_symbols([*flat, *changed.values()], givens)
    count = len(flat) - len(changed)
    news = [
        fit_update(new, x) for x, new in zip(changed, flat[count:], strict=True)
    ]  # fmt: skip
    program = [*flat[:count], *news]
    for null in gradients.find_nulls(program):
        if null is not None:
            raise gradients.null_error(null, f"an output of {name or 'the function'}")
    shared = find_shared_leaves(program, signature)
    check_unused(program, signature, on_unused_input)
    graph = Graph([*signature.symbols, *shared], program)
    return Function(
        graph, signature, shared, list(changed), structure, name, backend,
        check_rewrites(rules, without, fast),
    )  # fmt: skip


class Function:
    """Expressions of symbols as something to call; made by :func:`workbench.function`.

    Attributes
    ----------
    graph
        The program: its inputs are the symbols, then the shared values that it
        reads; its outputs are those of the function, then the updates.
    simplified
        The program as it runs; ``simplified.steps`` tells how it came from `graph`.
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
        rewrites: Rewrites,
    ) -> None:
        self.graph = graph
        self.simplified = Replay(inline(graph), rewrites).run()
        self.name = name
        self.shared = shared
        self._backend = backend
        self._signature = signature
        self._changed = changed
        self._tree = structure
        self._count = len(graph.outputs) - len(changed)
        self._rewrites = rewrites
        self._compiled = BACKENDS[backend](self.simplified, own=True)
        form = structure.kind if structure is not None else None
        if (
            isinstance(self._compiled, tiers.TieredFunction)
            and signature.bare
            and structure is not None
            and not (shared or changed)
            and all(c.kind is None for c in structure.children)
            and form in (None, tuple, list)
        ):
            self._compiled.on_compiled = partial(self._install_entry, form)
        self._run = self._compiled.run
        # In one order everywhere, so that two functions never wait for each other.
        self._locks = [x.lock for x in sorted(changed, key=lambda x: x.serial)]

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Return the outputs for these arguments; by position, by name, or both."""
        return self._call(*args, **named)

    def _call(self, *args: Any, **named: Any) -> Any:
        arrays = self._signature.arrays(args, named)
        if not self._changed:
            given = arrays + read_states(self.shared) if self.shared else arrays
            made = self._compiled.run_ready(given)
            if made is not None:
                return None if self._tree is None else self._tree(made)
        if not TENSORS.isdisjoint(map(type, arrays)):
            return self._record_call(arrays)
        return self._run_and_update(arrays, self._run)

    @property
    def backend(self) -> str:
        """The backend for the last shapes: ``numpy``, ``compiled`` or ``cupy``."""
        name: str = self._compiled.backend
        return name

    def is_ready(self) -> bool:
        """Return whether compiled code for the last shapes is in place, or refused."""
        return bool(self._compiled.is_ready())

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until compiled code for the last shapes is in place, or refused.

        Parameters
        ----------
        timeout
            Seconds to wait at most.

        Returns
        -------
        Whether the waiting has come to its end. False too before the first call of a
        function whose inputs have unknown lengths.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> x = wb.vector("x", shape=3)
        >>> f = wb.function([x], np.sum(np.exp(x)), backend="compiled")
        >>> f.wait(), float(f(np.zeros(3)))
        (True, 3.0)
        """
        return bool(self._compiled.wait(timeout))

    def release(self) -> None:
        """Let the memory go that compiled code keeps for the next call."""
        self._compiled.release()

    def profile(self, *args: Any, **named: Any) -> Profile:
        """Return the cost of each step of a call, as a table to print.

        The program runs a few times with a clock around each step: each node of NumPy,
        each kernel of compiled code, which is waited for. No shared value is updated.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> x = wb.vector("x", shape=3)
        >>> f = wb.function([x], np.exp(x) + 1, backend="compiled")
        >>> [(row.step, row.ops, row.traffic) for row in f.profile(np.zeros(3))]
        [('kernel 1', 'exp, add', 48)]
        """
        arrays = self._signature.arrays(args, named)
        return measure(self._compiled, [*arrays, *read_states(self.shared)])

    def _install_entry(self, form: type | None, program: Any) -> None:
        """Let a small program answer calls by position without Python code."""
        tiers.install_entry(self, program, Function, form, "_call", numbers=True)

    def _run_and_update(
        self, arrays: list[Any], run: Callable[[Sequence[Any]], list[Any]]
    ) -> Any:
        if not self._changed:
            states = read_states(self.shared)
            return self._nest_outputs(run([*arrays, *states]), [*arrays, *states])
        locks = Locks(self._locks)
        try:
            locks.acquire()
            states = read_states(self.shared)
            results = run([*arrays, *states])
            news = self._new_states(results[self._count :], [*arrays, *states])
            made = self._nest_outputs(results[: self._count], [*arrays, *states, *news])
            write_states(self._changed, news)
        finally:
            locks.release()
        return made

    def _nest_outputs(self, results: list[Any], others: list[Any]) -> Any:
        """Return the outputs as they nest, each array the caller's own."""
        return None if self._tree is None else self._tree(copy_aliases(results, others))

    def _new_states(self, news: list[Any], others: list[Any]) -> list[Any]:
        """Return the new values of shared ones, as arrays that nobody else holds.

        Their lengths may have been unknown before the run.
        """
        news = [
            np.asarray(new, x.dtype)
            if types.is_weak(new) or isinstance(new, np.generic)
            else new
            for x, new in zip(self._changed, news, strict=True)
        ]
        for x, new in zip(self._changed, news, strict=True):
            if x.spec.dtype != object and not matches_lengths(
                np.shape(new), x.spec.shape
            ):
                raise ShapeError(
                    f"the update of {x.describe()} came out with shape"
                    f" {np.shape(new)}. Nothing was updated."
                )
        return copy_aliases(news, others)

    def _record_call(self, arrays: list[Any]) -> Any:
        """Return the outputs as Tensors, for a call inside a trace."""
        if self._changed:
            raise TraceError(
                f"{self.name or 'a function'} with updates{blame.user_line()} is called"
                " on a Tensor: the update would be made once, while the program is"
                " traced. Call it outside of the trace, or leave out updates=."
            )
        known = all(not isinstance(x, Tensor) or x._value is not None for x in arrays)
        states = read_states(self.shared) if known else list(self.shared)
        results = self.graph.run([*arrays, *states])
        return None if self._tree is None else self._tree(results)

    def copy(
        self, *, swap: object = None, updates: bool = True, name: str | None = None
    ) -> Function:
        """Return the same function, on other shared values, or without its updates.

        Parameters
        ----------
        swap
            A mapping (or pairs) from shared values that it reads or writes to others
            of the same dtype and shape, which take their place.
        updates
            False for one that only returns.
        name
            Its name, if another.

        Examples
        --------
        >>> import workbench as wb
        >>> n, m = wb.shared(0), wb.shared(10)
        >>> count = wb.function([], n, updates={n: n + 1})
        >>> other = count.copy(swap={n: m})
        >>> int(count()), int(other()), int(n.get_value()), int(m.get_value())
        (0, 10, 1, 11)
        """
        new = check_swaps(swap, {*self.shared, *self._changed})
        changed = [new.get(x, x) for x in self._changed] if updates else []
        outputs = list(self.graph.outputs[: None if updates else self._count])
        outputs = replace_symbols(outputs, new)
        shared = find_shared_leaves(outputs, self._signature)
        return Function(
            Graph([*self._signature.symbols, *shared], outputs),
            self._signature, shared, changed, self._tree, name or self.name,
            self._backend, self._rewrites,
        )  # fmt: skip

    def __copy__(self) -> Function:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Function:
        raise UsageError(
            f"{self!r} cannot be copied deeply: it would write the same shared values."
            " f.copy(swap={w: other}) is the same function on others."
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{self!r} cannot be pickled. Keep the code that makes it, and the contents"
            " of its shared values (w.get_value()); f.source is NumPy that runs on its"
            " own."
        )

    @property
    def updates(self) -> dict[Shared, Any]:
        """The shared values that a call writes, and their new values."""
        return dict(zip(self._changed, self.graph.outputs[self._count :], strict=True))

    @property
    def defaults(self) -> dict[Tensor, Any]:
        """The values of arguments that a call may leave out, by symbol."""
        return {x: copy_state(value) for x, value in self._signature.defaults.items()}

    @property
    def source(self) -> str:
        """The program as NumPy code that runs on its own.

        Its function takes the symbols, then what the shared values held when this was
        asked, and returns what a call returns; where there are updates, a pair of
        that and the list of new values. It checks and casts nothing: give it what is
        of the symbols' dtypes, np.float32(1) and not 1.0. Arrays of more than a few
        thousand characters are ``constants``, to be handed over as globals.

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
            return [x * x + x - 2, 2 * x + 1.0]
        """
        return self._text().source

    @property
    def constants(self) -> dict[str, Any]:
        """The arrays that the source names, too large to be written out."""
        return self._text().constants

    def _text(self) -> Text:
        states = [
            None if x.spec.dtype == object else state
            for x, state in zip(self.shared, read_states(self.shared), strict=True)
        ]
        note = ""
        if self._changed:
            names = [x.name or "one without a name" for x in self._changed]
            note = f"Returns the outputs, and the new values of {', '.join(names)}."

        def nested(codes: list[str]) -> str:
            return nest_code(codes, self._tree, len(self._changed))

        form = Form(as_identifier(self.name), states, nested, note)
        found: Text = self._compiled.text(form)
        return found

    def __repr__(self) -> str:
        takes = self._signature.list_arguments() if self._signature.inputs else ""
        count = len(self._changed)
        writes = f" -> {count} update{'s' * (count != 1)}" if count else ""
        return (
            f"<Function {self.name or ''}({takes}) of {len(self.graph)} nodes{writes}>"
        )


def _as_list(names: Iterable[object]) -> str:
    return ", ".join(map(repr, names))


# `expression.eval`: a function made once per expression, and called.


def evaluate(y: Tensor, values: object, named: Mapping[str, Any]) -> Any:
    """Return the value of an expression, as `Tensor.eval` describes."""
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
            x for x in walk.order_nodes([y]) if is_leaf(x) and not isinstance(x, Shared)
        ]
        run = y.compiled = function(symbols, y, name="eval")
    symbols = run._signature.symbols
    places = {x.serial: i for i, x in enumerate(symbols)}
    names: dict[str, list[int]] = {}
    for i, x in enumerate(symbols):
        if x.name is not None:
            names.setdefault(x.name, []).append(i)
    given: dict[int, Any] = {}
    others: set[Any] | None = None
    for key, value in [*(values or {}).items(), *named.items()]:
        if isinstance(key, Tensor):
            positions = [places[key.serial]] if key.serial in places else []
        else:
            positions = names.get(key, [])
        if not positions:
            others = _find_other_symbols(y) if others is None else others
            if key in others:
                continue
        if len(positions) != 1:
            shown = quote_symbol(key) if isinstance(key, Tensor) else repr(key)
            why = (
                "is not one of its symbols"
                if not positions
                else "names several of its symbols"
            )
            listed = ", ".join(map(quote_symbol, symbols)) or "none"
            raise UsageError(
                f"eval of {blame.describe(y)}{blame.quote_site(y.site)}: {shown} {why}."
                f" Its symbols are {listed}."
            )
        given[positions[0]] = value
    missing = [x for i, x in enumerate(symbols) if i not in given]
    if missing:
        cure = ", ".join(f"{x.name or 'x'}: ..." for x in missing[:5])
        raise missing_symbols_error(
            missing,
            f"eval of {blame.describe(y)}{blame.quote_site(y.site)}",
            f"Give a value: .eval({{{cure}}})",
        )
    return run(*(given[i] for i in range(len(symbols))))


def _find_other_symbols(y: Tensor) -> set[Any]:
    """Return the symbols behind an output of a gradient, and their names.

    The gradient itself may need none of them (see `programs`).
    """
    symbols = [x for x in forward_nodes(walk.order_nodes([y])) if is_leaf(x)]
    return {*symbols, *(x.name for x in symbols if x.name is not None)}


hooks.evaluate.set(evaluate)
