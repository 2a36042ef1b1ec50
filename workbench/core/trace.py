"""A Python function becomes a Graph: leaves in, the function run, outputs out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Number
from types import TracebackType
from typing import Any

import numpy as np

from workbench.core import aliases, blame, source, traces, tree, types
from workbench.core.blame import instead, library_call, numpy_call
from workbench.core.dims import Dim, Length, atoms_of
from workbench.core.graph import Graph
from workbench.core.tensor import Tensor, admit, leaf
from workbench.core.types import Spec
from workbench.errors import (
    DtypeError,
    GradientLostError,
    ShapeError,
    TraceError,
    UsageError,
    WorkbenchError,
)

# What NumPy and SciPy say of Tensors that they do not see, in words that help.
#
# ``np.array([t, u])`` is an array of objects, and compiled code takes Tensors for
# numbers that they are not. Both end in errors that tell nobody what to write.

#: What NumPy says when a Tensor is to become an entry of a plain array.
STORING = (
    "setting an array element with a sequence",
    "Error setting single item of array",  # x.flat[i] = v
)
#: What its functions of numbers say of an array of Tensors.
OBJECTS = (
    "which has no callable",  # np.exp, of Tensors beside plain numbers
    "from dtype('O')",  # np.linalg.det
    "not supported for the input types",  # np.fft.fft
)


def place(error: BaseException) -> str:
    """The user's line in a traceback, as an error quotes it."""
    found = ""
    for step in _steps(error):
        if not source.internal(step.tb_frame):
            found = blame.at(source.decode(step.tb_frame.f_code, step.tb_lasti))
    return found


def explained(error: Exception, locked: bool) -> Exception | None:
    """What to raise in place of a ValueError or TypeError of a traced function.

    ``locked`` tells whether the trace has made arrays read-only. None for an error
    that says it all.
    """
    if isinstance(error, WorkbenchError):  # told by a trace inside of this one
        return None
    text, where = str(error), place(error)
    called = _library(error)
    stored = any(part in text for part in STORING) or isinstance(
        error.__cause__, GradientLostError
    )
    if called is not None and (stored or _took_tensors(error)):
        return GradientLostError(
            f"{called}{where} does not see Tensors, whose gradient would be lost"
            f" ({text.rstrip('.')}). {instead(called)}, or give it x.value to cut the"
            " gradient on purpose."
        )
    if "inhomogeneous" in text:
        return ShapeError(
            f"rows of different lengths make no array{where}: {text}"
            " Pad them to one length, or keep them apart in a list."
        )
    if stored:
        return GradientLostError(blame.STORED.format(where))
    if any(part in text for part in OBJECTS):
        asked = next((s.tb_frame for s in _steps(error) if _numpys(s)), None)
        named = (numpy_call(asked) if asked else None) or "a NumPy function"
        return TraceError(
            f"{named} meets an array of objects{where}: np.array([...]) and lists of"
            f" Tensors are no array of numbers to it ({text}). Make one Tensor of them"
            " with np.array([...], like=x), where x is any Tensor or array."
        )
    if "read-only" in text and locked:
        return TraceError(
            f"an array that the trace has used is changed in place{where}, and its"
            " gradient would be wrong. Work on a .copy(), or make a new array in each"
            " step."
        )
    return None


def _steps(error: BaseException) -> Iterator[TracebackType]:
    """A traceback, from the outermost call to where the error arose."""
    step = error.__traceback__
    while step is not None:
        yield step
        step = step.tb_next


def _home(step: TracebackType) -> str:
    return str(step.tb_frame.f_globals.get("__name__", ""))


def _numpys(step: TracebackType) -> bool:
    return _home(step).startswith("numpy.")


def _library(error: BaseException) -> str | None:
    """The function of SciPy or scikit-learn in which an error arose."""
    last = list(_steps(error))[-1:]
    return library_call(last[0].tb_frame) if last else None


def _took_tensors(error: BaseException) -> bool:
    """Whether a function of the library in which an error arose was given Tensors."""
    return any(
        _holds(value)
        for step in _steps(error)
        if _home(step).startswith(("scipy.", "sklearn."))
        for value in step.tb_frame.f_locals.values()
    )


def _holds(value: Any) -> bool:
    """Whether a value is a Tensor, an array of them, or a tuple or list with one."""
    if isinstance(value, np.ndarray) and value.dtype == object:
        return any(isinstance(x, Tensor) for x in value.flat)
    if isinstance(value, (list, tuple)):
        return any(map(_holds, value))
    return isinstance(value, Tensor)


class Recording:
    """One run of a function: its leaves, its outputs, and how they nest.

    ``caught`` are the arrays that it has read.
    """

    __slots__ = ("caught", "leaves", "outputs", "tree")

    def __init__(
        self,
        leaves: list[Tensor],
        outputs: list[Any],
        structure: tree.Tree,
        caught: Mapping[int, Any],
    ) -> None:
        self.caught = caught
        self.leaves = leaves
        self.outputs = outputs
        self.tree = structure


def live(x: Any) -> bool:
    """Whether what is computed from ``x`` must be recorded.

    True for a Tensor without a value, and for one that depends on a `wrt` leaf
    of a trace that is still open.
    """
    return isinstance(x, Tensor) and (x._value is None or traces.active(x))


def wrap(value: Any, name: str | None = None) -> Tensor:
    """A fresh identity Tensor around an argument: an array, a Tensor or a Spec."""
    if isinstance(value, Spec):
        made = leaf(None, name)
        made.spec = value
        return made
    if isinstance(value, Tensor):
        made = leaf(value._value, name, (value,) if live(value) else ())
        if value._value is None:
            made.spec = value.spec
        return made
    if isinstance(value, np.ndarray):
        if type(value) is not np.ndarray:
            value = types.plain(value)
        traces.lock(value)
    elif not (types.weak(value) or hasattr(value, "dtype")):
        value = np.asarray(value)
    return leaf(value, name)


def blank(like: Any, name: str | None = None) -> Tensor:
    """A leaf without value that looks like an array, a Tensor or a Spec."""
    made = leaf(None, name)
    spec = types.value_spec(like)
    made.spec = Spec(spec.shape, spec.dtype)
    return made


def blanks(leaves: Sequence[Tensor], kept: Sequence[Tensor] = ()) -> list[Tensor]:
    """Return leaves like these, whose unknown lengths are their own.

    Lengths that are equal stay so: they are those of the first leaf that has them.
    Those of leaves that are ``kept`` stay theirs.
    """
    fresh = [leaf(None, x.name) for x in leaves]
    known: dict[Any, Dim] = {}
    both = [*zip(kept, kept, strict=True), *zip(leaves, fresh, strict=True)]
    for x, made in both:
        for axis, n in enumerate(x.spec.shape):
            if isinstance(n, Dim) and n.alone is not None:
                known.setdefault(n.key, Dim({(Length(made, axis),): 1}))

    def mine(atom: Any) -> Any:
        return known.get(Dim({(atom,): 1}).key)

    for x, made in zip(leaves, fresh, strict=True):
        shape = []
        for axis, n in enumerate(x.spec.shape):
            if isinstance(n, Dim) and n.key not in known:
                parts = {a for a in atoms_of(n) if isinstance(a, Length)}
                own = Dim({(Length(made, axis),): 1})
                if all(mine(a) is not None for a in parts):
                    own = n.replaced(mine)
                known[n.key] = own
            shape.append(known[n.key] if isinstance(n, Dim) else n)
        made.spec = Spec(tuple(shape), x.spec.dtype, x.spec.weak)
    return fresh


@contextmanager
def opened(
    values: Sequence[Any], names: Sequence[str | None]
) -> Iterator[list[Tensor]]:
    """Open a trace on leaves that hold ``values``; closed when the block ends."""
    # An interrupt may strike where a place in the user's code has just been pinned.
    with source.kept(), traces.OpenTrace() as opening:
        leaves = [wrap(v, n) for v, n in zip(values, names, strict=True)]
        opening.leaves.update(x.serial for x in leaves)
        opening.unknown = next((x for x in leaves if x._value is None), None)
        try:
            yield leaves
        except IndexError as error:
            if any(x._value is None for x in leaves) and "only integers" in str(error):
                raise IndexError(
                    f"{error}{place(error)}. If the index is traced without a value"
                    " and the array is plain, write wb.at(array)[index].get()."
                ) from error
            raise
        except SystemError as error:
            # What compiled code makes of an error in the middle of its work.
            if isinstance(error.__cause__, GradientLostError):
                raise error.__cause__ from None
            raise
        except (ValueError, TypeError) as error:
            told = explained(error, bool(opening.hold.arrays))
            if told is None:
                raise
            raise told from error


def record(
    call: Callable[[list[Tensor]], Any],
    values: Sequence[Any],
    names: Sequence[str | None] | None = None,
) -> Recording:
    """Run ``call`` on fresh leaves inside a trace that closes when it returns."""
    with opened(values, names or [None] * len(values)) as leaves:
        outputs, structure = tree.flatten(call(leaves))
        aliases.check_read(outputs, "is returned")
        outputs = [
            admit(x) if isinstance(x, np.ndarray) and x.dtype == object else x
            for x in outputs
        ]
        caught = traces.LOCAL.stack[-1].caught
    return Recording(leaves, outputs, structure, caught)


def trace(f: Callable[..., Any]) -> Callable[..., Graph]:
    """The graph of a function: ``wb.trace(f)(*args) -> Graph``.

    Arguments are arrays, numbers, nests of them, or ``wb.Spec(shape, dtype)`` for
    one without a value. All float arguments become inputs under their names.

    Raises
    ------
    TraceError
        Where the function does what a trace cannot follow.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> len(wb.trace(lambda x, y: x @ y)(np.ones((2, 3)), np.ones(3)))
    3
    """

    check_function(f, "trace")
    return Tracing(f)


class Tracing:
    """What `trace` returns: a function from arrays to a Graph, which knows its own."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Graph:
        """Return the Graph of a run of the function on these arguments."""
        f = self.function
        flat, structure = tree.flatten((args, kwargs))
        chosen = [i for i, x in enumerate(flat) if _is_float(x)]
        names = argument_names(f, args, kwargs)

        def call(leaves: list[Tensor]) -> Any:
            filled = list(flat)
            for i, x in zip(chosen, leaves, strict=True):
                filled[i] = x
            new_args, new_kwargs = structure(filled)
            return f(*new_args, **new_kwargs)

        made = record(call, [flat[i] for i in chosen], [names[i] for i in chosen])
        return Graph(made.leaves, made.outputs)


def check_function(f: Any, name: str) -> None:
    """Raise an error if what is to be a function of arrays cannot be called."""
    if callable(f) and not isinstance(f, Tracing):
        return
    if callable(f):
        raise UsageError(
            f"{name} needs a function of arrays, and wb.trace(f) gives graphs. Pass f"
            " itself."
        )
    cure = "Pass the function itself, such as np.sum or lambda x: x @ x."
    if isinstance(f, Tensor):
        cure = "An expression becomes one by wb.function([x], expression)."
    elif isinstance(f, Graph):
        cure = "Pass the function that it was traced from."
    raise UsageError(
        f"{name} needs a function of arrays, and {f!r} cannot be called. {cure}"
    )


def argument_names(
    f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[str | None]:
    """A name for every leaf of the arguments: ``W`` or ``params['W1']``."""
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names: list[str | None] = []
    for i, value in enumerate(args):
        if (
            i < len(parameters)
            and parameters[i].kind is not parameters[i].VAR_POSITIONAL
        ):
            base = parameters[i].name
        else:
            base = f"arg{i}"
        names += leaf_names(base, value)
    for key in sorted(kwargs):
        names += leaf_names(key, kwargs[key])
    return names


def leaf_names(base: str, value: Any) -> list[str]:
    """A name for every leaf of one argument."""
    # None beside other arguments is a nest without leaves.
    return [] if value is None else tree.names(base, value)


def check_float(value: Any, name: str, where: str, *, cure: str = "") -> None:
    """Refuse an argument that has no derivative, with the cast to write.

    ``cure`` is what else may be done.
    """
    if value is None:
        raise DtypeError(f"{where}: {name} is None, not an array or a number.")
    known = isinstance(value, (Tensor, Spec))
    if not known and not isinstance(getattr(value, "dtype", np.dtype(float)), np.dtype):
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        raise DtypeError(
            f"{where}: {name} is of type {kind}, no array that NumPy's functions run"
            f" on. Pass np.asarray({name})."
        )
    dtype = value.dtype if known else types.spec_of(value).dtype
    plain = not known and not hasattr(value, "dtype")
    number = isinstance(value, Number)
    if (
        plain
        and not number
        and (isinstance(value, (list, tuple)) or dtype.kind in "OSU")
    ):
        raise DtypeError(f"{where}: {name} is {value!r}, not an array or a number.")
    if not types.differentiable(dtype):
        cast = repr(float(value)) if number else f"{name}.astype(float)"
        raise DtypeError(
            f"{where}: {name} is of dtype {dtype}, and only floats and complex numbers"
            f" have derivatives. Pass {cast}{cure}."
        )


def _is_float(x: Any) -> bool:
    if isinstance(x, (Tensor, Spec)):
        return types.differentiable(x.dtype)
    if types.weak(x) or hasattr(x, "dtype"):
        return types.differentiable(types.spec_of(x).dtype)
    return False
