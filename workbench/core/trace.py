"""A Python function becomes a Graph: leaves in, the function run, outputs out."""

from __future__ import annotations

import inspect
import re
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from numbers import Number
from types import FrameType, TracebackType
from typing import Any, Union

import numpy as np

from workbench import errors
from workbench.core import blame, hooks, residuals, sites, source, traces, tree, types
from workbench.core.blame import find_library_call, find_numpy_call, suggest_replacement
from workbench.core.dims import Dim, Length, Size, atoms_of, dim_of_atom
from workbench.core.float_warnings import NamedWarnings
from workbench.core.graph import Graph, Integers
from workbench.core.memory import adopt, purify, resolve
from workbench.core.tensor import (
    TENSORS,
    Tensor,
    gather_result,
    make_leaf,
    make_lean,
    read_argument,
    take_name,
)
from workbench.core.traces import OpenTrace
from workbench.core.types import Spec

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
#: What asks for plain numbers on a user's line.
CONVERSIONS = re.compile(r"\b(dtype|astype|fromiter|otypes)\b")
#: What it says of an array that it may not write to, or that has no memory of its own.
READ_ONLY = re.compile(r"read-only|writable|writeable|no attribute 'flags'")
#: What code in C, and Python's own modules, say of a Tensor where they want numbers.
NUMBERS = re.compile(
    r"not '?Tensor'?|type '?Tensor'?|conversion from Tensor|NPY_ITER_REFS_OK"
    r"|required argument is not a float|string or a Rational instance"
    r"|^Unknown input type$"
)


#: What compiled code says that knows the types of its arguments.
UNKNOWN_TYPE = re.compile(r"ndarray, not '?(workbench\.[\w.]+\.)?Tensor\b")


def quote_error_site(error: BaseException) -> str:
    """Return the user's line in a traceback, quoted for an error."""
    return blame.quote_site(find_error_site(error))


def _find_error_step(error: BaseException) -> TracebackType | None:
    """Return the innermost step of a traceback in the user's own code."""
    found: TracebackType | None = None
    for step in _traceback_steps(error):
        if not source.is_internal(step.tb_frame):
            found = step
    return found


def _find_store_frame(error: BaseException) -> FrameType | None:
    """Return the innermost frame that is neither Workbench's nor NumPy's."""
    frames = [
        step.tb_frame
        for step in _traceback_steps(error)
        if not _module_name(step).startswith(("workbench.", "numpy"))
    ]
    return frames[-1] if frames else None


def _is_conversion(error: BaseException) -> bool:
    """Return whether the user's line asks for plain numbers by a dtype."""
    step = _find_error_step(error)
    if step is None:
        return False
    code, lasti = step.tb_frame.f_code, step.tb_lasti
    if sites.is_assignment(code, lasti):
        return False
    site = sites.decode(code, lasti)
    asks = site is not None and CONVERSIONS.search(site.text)
    return bool(asks) or sites.function_at(code, lasti) in ("astype", "fromiter")


def find_error_site(error: BaseException) -> sites.Site | None:
    """Return the user's own line in a traceback, the innermost one."""
    found = _find_error_step(error)
    return found and sites.decode(found.tb_frame.f_code, found.tb_lasti)


def explain_error(error: Exception, locked: bool) -> Exception | None:
    """Return a better error for a ValueError or TypeError of a traced function.

    ``locked`` tells whether the trace has made arrays read-only. None for an error
    that says it all.
    """
    if isinstance(error, errors.WorkbenchError):  # told by a trace inside of this one
        return None
    text, where = str(error), quote_error_site(error)
    called = _find_library(error)
    stored = any(part in text for part in STORING) or isinstance(
        error.__cause__, errors.GradientLostError
    )
    objects = any(part in text for part in OBJECTS)
    named = objects or NUMBERS.search(text) is not None
    if called is not None and (
        stored
        or named
        or (called.startswith(blame.LIBRARIES) and _was_given_tensors(error))
    ):
        return errors.GradientLostError(
            f"{called}{where} does not see Tensors, whose gradient would be lost"
            f" ({text.rstrip('.')}). {suggest_replacement(called)}, or give it x.value"
            " to cut the gradient on purpose."
        )
    if "inhomogeneous" in text:
        return errors.ShapeError(
            f"rows of different lengths make no array{where}: {text}"
            " Pad them to one length, or keep them apart in a list."
        )
    if stored:
        return _explain_stored(error, where)
    if UNKNOWN_TYPE.search(text):
        return errors.GradientLostError(
            f"compiled code{where} takes plain arrays alone ({text.rstrip('.')}), and"
            " the gradient would be lost. Write it with NumPy's functions; call a"
            " linear solver in the `solve` of wb.custom_linear_solve; or give it"
            " x.value to cut the gradient on purpose."
        )
    if objects:
        return explain_objects(error)
    if "NPY_ITER_REFS_OK" in text:
        return errors.GradientLostError(
            f"np.nditer{where} goes through plain numbers, and the gradient of a Tensor"
            " would be lost. Write it with NumPy's functions of whole arrays, or go"
            " through np.ravel(x)."
        )
    if named:
        return errors.GradientLostError(
            f"{text.rstrip('.')}{where}: a Tensor is a place in a program, not a plain"
            " number or bytes, and its gradient would be lost. Write it with NumPy's"
            " functions, or give x.value to cut the gradient on purpose."
        )
    if "read-only" in text and locked:
        return errors.TraceError(
            f"an array that the trace has used is changed in place{where}, and its"
            " gradient would be wrong. Work on a .copy(), or make a new array in each"
            " step."
        )
    return None


def _explain_stored(error: Exception, where: str) -> errors.WorkbenchError:
    """Return the error for Tensors that are to become entries of a plain array."""
    if _is_conversion(error):
        return errors.GradientLostError(
            f"Tensors become an array of plain numbers{where}, and their gradient"
            " would be lost. Leave out the dtype; write np.stack([...]) of what"
            " np.fromiter or np.vectorize would collect; or give x.value to cut the"
            " gradient on purpose."
        )
    return blame.explain_store(where, _find_store_frame(error))


def explain_objects(error: Exception) -> errors.TraceError:
    """Return the error for a function of NumPy that an array of Tensors is given to."""
    frame = next((s.tb_frame for s in _traceback_steps(error) if _is_in_numpy(s)), None)
    called = find_numpy_call(frame) if frame else None
    if called is None:
        ufunc = re.search(r"ufunc '(\w+)|no callable (\w+) method", str(error))
        called = f"np.{ufunc[1] or ufunc[2]}" if ufunc else "a NumPy function"
    return errors.TraceError(
        f"{called} meets an array of objects{quote_error_site(error)}: np.asarray(x),"
        " np.array([...]) and lists of Tensors are no array of numbers to it"
        f" ({str(error).rstrip('.')}). Leave np.asarray(x) out, or make one Tensor of"
        " the array with np.array([...], like=x), where x is any Tensor or array."
    )


def _traceback_steps(error: BaseException) -> Iterator[TracebackType]:
    """Yield the steps of a traceback, from the outermost call to the error."""
    step = error.__traceback__
    while step is not None:
        yield step
        step = step.tb_next


def _module_name(step: TracebackType) -> str:
    return str(step.tb_frame.f_globals.get("__name__", ""))


def _is_in_numpy(step: TracebackType) -> bool:
    return _module_name(step).startswith("numpy.")


def _find_library(error: BaseException) -> str | None:
    """Return the function of another library in which an error arose."""
    last = list(_traceback_steps(error))[-1:]
    return find_library_call(last[0].tb_frame) if last else None


def _was_given_tensors(error: BaseException) -> bool:
    """Return whether the library function in which an error arose was given Tensors."""
    given = False
    for step in _traceback_steps(error):
        if not source.is_internal(step.tb_frame):
            given = False  # the user's own: the library is called further in
        elif not _module_name(step).startswith(("workbench.", "numpy")):
            given = given or any(
                _holds_tensor(value) or _reads_tensor(value)
                for value in step.tb_frame.f_locals.values()
            )
    return given


def note_library(error: Exception) -> None:
    """Add a note to an error of another library that was given Tensors.

    The error may be about anything else, so it stays, with a note.
    """
    called = _find_library(error)
    if called is None or isinstance(error, errors.WorkbenchError):
        return
    if _was_given_tensors(error):
        error.add_note(
            f"{called}{quote_error_site(error)} was given Tensors, which it may not"
            f" see. {suggest_replacement(called)}, or give it x.value to cut the"
            " gradient on purpose."
        )


def _is_of_objects(error: Exception) -> bool:
    """Return whether an error arose in NumPy's code that works on arrays of Tensors."""
    if isinstance(error, errors.WorkbenchError):
        return False
    found = False
    for step in _traceback_steps(error):
        if not _is_in_numpy(step):
            found = False
        else:
            found = found or any(
                isinstance(x, np.ndarray) and _holds_tensor(x)
                for x in step.tb_frame.f_locals.values()
            )
    return found


def _holds_tensor(value: object) -> bool:
    """Return whether a value is a Tensor, or an array, tuple or list with one."""
    if isinstance(value, np.ndarray) and value.dtype == object:
        return any(isinstance(x, Tensor) for x in value.flat)
    if isinstance(value, (list, tuple)):
        return any(map(_holds_tensor, value))
    return isinstance(value, Tensor)


def _reads_tensor(value: object) -> bool:
    """Return whether a function, or one that an object holds, closes over a Tensor."""
    held = [value, *getattr(value, "__dict__", {}).values()]
    cells = [c for f in held for c in getattr(f, "__closure__", None) or ()]
    return any(_holds_tensor(blame.cell_contents(cell)) for cell in cells)


#: The names of leaves, found when one is read, as `ArgumentNames`; or a plain list.
Names = Union["ArgumentNames", Sequence[str | None]]


def is_live(x: object) -> bool:
    """Return whether results computed from ``x`` must be recorded.

    True for a Tensor without a value, and for one that depends on a `wrt` leaf
    of a trace that is still open.
    """
    return isinstance(x, Tensor) and (x._value is None or traces.is_active(x))


def is_expression(x: object) -> bool:
    """Return whether an argument is an expression, or a nest that holds one."""
    if isinstance(x, Tensor):
        return True
    return isinstance(x, (list, tuple, dict)) and any(
        isinstance(part, Tensor) for part in tree.flatten(x)[0]
    )


def detach(x: Any) -> Any:
    """Return the value of a Tensor, unless results computed from ``x`` are recorded."""
    if isinstance(x, Tensor):
        x = resolve(x)
        return adopt(x) if is_live(x) else x._value
    return x


def wrap(
    value: object, name: str | None = None, line: tuple[Any, int] | None = None
) -> Tensor:
    """Return a fresh identity Tensor around an argument: an array, Tensor or Spec."""
    if isinstance(value, Spec):
        made = make_leaf(None, name, line=line)
        made.spec = value
        return made
    if isinstance(value, Tensor):
        x = resolve(value)
        made = make_leaf(x._value, name, (x,) if is_live(x) else (), line)
        if x._value is None:
            made.spec = x.spec
        return made
    if isinstance(value, np.ndarray):
        if type(value) is not np.ndarray:
            value = types.strip_subclass(value)
        traces.lock(value)
    elif not types.is_weak(value):
        value = read_argument(value)
        if not hasattr(value, "dtype"):
            value = np.asarray(value)
    return make_leaf(value, name, line=line)


def make_leaf_like(like: object, name: str | None = None) -> Tensor:
    """Return a leaf without value that looks like an array, a Tensor or a Spec."""
    made = make_leaf(None, name)
    spec = types.as_spec(like)
    made.spec = Spec(spec.shape, spec.dtype)
    return made


def make_leaves_like(leaves: Sequence[Tensor]) -> list[Tensor]:
    """Return leaves like these, with unknown lengths of their own.

    Lengths that are equal stay so: they are those of the first leaf that has them.
    """
    fresh = [make_leaf(None) for _ in leaves]
    lengths: dict[Any, Size] = {}
    for x, made in zip(leaves, fresh, strict=True):
        for axis, n in enumerate(x.spec.shape):
            if isinstance(n, Dim) and n.atom is not None:
                lengths.setdefault(n.key, dim_of_atom(Length(made, axis)))

    def find_length(atom: Any) -> Size | None:
        return lengths.get(dim_of_atom(atom).key)

    for x, made in zip(leaves, fresh, strict=True):
        take_name(made, x)
        shape = []
        for axis, n in enumerate(x.spec.shape):
            if isinstance(n, Dim) and n.key not in lengths:
                parts = {a for a in atoms_of(n) if isinstance(a, Length)}
                length: Size = dim_of_atom(Length(made, axis))
                if all(find_length(a) is not None for a in parts):
                    length = n.replace(find_length)
                lengths[n.key] = length
            shape.append(lengths[n.key] if isinstance(n, Dim) else n)
        made.spec = Spec(tuple(shape), x.spec.dtype, x.spec.weak)
    return fresh


#: What Python, and `np.mean`, say of a list where they want an array.
MEANS_LIST = re.compile(
    r"^(unsupported operand type|bad operand type|can't multiply sequence"
    r"|'(list|tuple)' object has no attribute)|of a list or array of Tensors"
)


class ProgramTrace(OpenTrace):
    """A trace that makes its leaves, and explains errors to the user."""

    def open_leaves(
        self, values: Sequence[Any], names: Names | None = None
    ) -> list[Tensor]:
        """Return leaves that hold values; each name is looked up at its first use."""
        line = source.caller(2)
        opened = []
        for i, value in enumerate(values):
            x = wrap(value, line=line)
            if names is not None:
                x.naming = names, i
            if x._value is None and self.unknown is None:
                self.unknown = x
            held = x._value
            if self.pending is not None and type(held) is np.ndarray:
                if held.nbytes >= residuals.LARGE:
                    make_lean(x)
            self.leaves.add(x.serial)
            opened.append(x)
        self.arguments = values
        return opened

    def explain(self, error: Exception) -> Exception | None:
        """Return a better error for an error of the block, or None."""
        if MEANS_LIST.search(str(error)) and isinstance(error.args[0], str):
            hint = self._explain_lists(error)
            if hint and hint not in error.args[0]:
                # The error itself, which knows its object and where it came from.
                text = error.args[0].removesuffix(".")
                error.args = (f"{text}. {hint}", *error.args[1:])
        if isinstance(error, IndexError):
            if self.unknown is None or "only integers" not in str(error):
                return None
            return IndexError(
                f"{error}{quote_error_site(error)}. If the index is traced without a"
                " value and the array is plain, write wb.at(array)[index].get()."
            )
        taken = self._find_taken(error)
        if taken is not None:
            raise taken from None  # what the library made of it says less
        explained: Exception | None = self._explain_write(error)
        if explained is not None:
            return explained
        if isinstance(error, (ValueError, TypeError)) or (
            type(error).__module__ in sys.stdlib_module_names
            and NUMBERS.search(str(error))
        ):
            explained = explain_error(error, bool(self.arrays))
        if explained is None and _is_of_objects(error):
            return explain_objects(error)
        if explained is None and not getattr(error, "__notes__", None):
            note_library(error)
        return explained

    def _explain_write(self, error: Exception) -> errors.TraceError | None:
        """Return a better error where NumPy refuses its own functions a write."""
        if isinstance(error, errors.WorkbenchError) or not READ_ONLY.search(str(error)):
            return None
        where = quote_error_site(error)
        if self.unknown is not None and self.arrays and "read-only" in str(error):
            return blame.recorded_once_error("this", where)
        if not self.has_turned:
            return None
        return errors.TraceError(
            f"compiled code writes to an array{where} that holds traced values, or may"
            f" not be written to ({str(error).rstrip('.')}). Make the numbers apart and"
            " store them, as in A[...] = rng.random(A.shape) and x[...] ="
            " rng.permutation(x)."
        )

    def _find_taken(self, error: Exception) -> errors.GradientLostError | None:
        """Return the error of ours that a library replaced by another one."""
        if isinstance(sys.excepthook, blame.SilentHook):
            sys.excepthook.restore()
        if isinstance(error, errors.WorkbenchError):
            return None
        if not isinstance(error, SystemError) and _find_library(error) is None:
            return None
        step: BaseException | None = self.taken or error
        while step is not None and not isinstance(step, errors.GradientLostError):
            step = step.__cause__ or step.__context__
        return step

    def _explain_lists(self, error: Exception) -> str:
        """Return advice where a list of numbers was meant as one array.

        Each number of such an argument is a leaf of its own. The user's frames know
        the list by its name.
        """
        meant = getattr(error, "obj", None)
        for step in _traceback_steps(error):
            if source.is_internal(step.tb_frame):
                continue
            for name, value in step.tb_frame.f_locals.items():
                if type(value) not in (list, tuple) or not value:
                    continue
                if meant is not None and value is not meant:
                    continue
                leaves = [x for x in value if isinstance(x, Tensor)]
                if (
                    len(leaves) == len(value)
                    and self.leaves.issuperset(x.serial for x in leaves)
                    and len({x.shape for x in leaves}) == 1
                ):
                    return (
                        f"The {type(value).__name__} {name} is"
                        f" {blame.format_count(len(value), 'separate argument')}; if it"
                        f" is one array, pass np.array({name})."
                    )
        return ""


def record(
    call: Callable[[list[Tensor]], Any],
    values: Sequence[Any],
    names: Names | None = None,
    *,
    function: Any = None,
    lean: bool = False,
    decisions: bool = False,
    anew: bool = False,
    owns: bool = False,
    constants: Sequence[Any] = (),
) -> Graph:
    """Run ``call`` on fresh leaves inside a trace that closes at the return.

    The graph has values where the leaves have; ``graph.tree`` is the nest of what was
    returned. ``function``: what the call runs, where that says more quickly what code
    it reaches (`numpy/swap.py`). ``lean``: it is only pulled back through by the true
    rules, and large values that these do not read are let go (`residuals.py`).
    ``decisions``: the graph is told by which values Python has decided; ``anew``:
    nobody need know, since
    ``call`` is recorded in each run. ``owns``: it may write to its leaves, unless
    they share memory with one another, or with ``constants``, its other arguments.
    """
    swap = hooks.swap_names.call(call if function is None else function)
    with ProgramTrace() as trace, NamedWarnings():
        if decisions:
            trace.decisions = []
        if anew:
            trace.decides_anew = True
        if owns:
            trace.owns, trace.constants = True, constants
        if lean:
            trace.pending = deque(maxlen=residuals.MOST_PENDING)
        leaves = trace.open_leaves(values, names)
        if swap is None:
            made = call(leaves)
        else:
            trace.fills = swap.fills
            if trace.fills and trace.unknown is not None:
                trace.hold_older()
            made = swap.run(call, leaves)
        outputs, structure = tree.flatten(made)
        if traces.WRITTEN[0]:
            outputs = list(map(resolve, outputs))
            leaves = list(map(traces.node_of, leaves))
        for i, x in enumerate(outputs):
            if type(x) not in TENSORS:
                outputs[i] = gather_result(x)
        caught = trace.caught
        if traces.WRITTEN[0] and not lean:  # else the function that pulls back does so
            purify(outputs, min(trace.leaves, default=0))
    graph = Graph(leaves, outputs, tree=structure, caught=caught)
    graph.decisions = trace.decisions or ()
    return graph


def trace(f: Callable[..., Any]) -> Callable[..., Graph]:
    """Return the graph of a function: ``wb.trace(f)(*args) -> Graph``.

    Parameters
    ----------
    f
        A function of arrays and numbers, or of nests of them.

    Returns
    -------
    A function of the same arguments, which runs ``f`` once on them and returns its
    :class:`workbench.Graph`. ``wb.Spec(shape, dtype)`` stands for an argument without
    a value. All float arguments, and these, become inputs under their names.

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
    """The function from arrays to a Graph that `trace` returns."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Graph:
        """Return the Graph of a run of the function on these arguments."""
        f = self.function
        flat, structure = tree.flatten((args, kwargs))
        chosen = [i for i, x in enumerate(flat) if is_float(x) or isinstance(x, Spec)]
        positional, named = structure.children
        names = ArgumentNames(
            f,
            [*range(len(args)), *named.entries],
            [*positional.children, *named.children],
            chosen,
        )

        def call(leaves: list[Tensor]) -> Any:
            filled = list(flat)
            for i, x in zip(chosen, leaves, strict=True):
                filled[i] = x
            new_args, new_kwargs = structure(filled)
            return f(*new_args, **new_kwargs)

        made = record(call, [flat[i] for i in chosen], names, decisions=True, owns=True)
        if len(chosen) < len(flat):
            made.integers = Integers(names.all, flat)
        return made


def check_function(f: object, name: str) -> None:
    """Raise an error if an object is not a function of arrays."""
    if callable(f) and not isinstance(f, Tracing):
        return
    if callable(f):
        raise errors.UsageError(
            f"{name} needs a function of arrays, and wb.trace(f) gives graphs. Pass f"
            " itself."
        )
    cure = "Pass the function itself, such as np.sum or lambda x: x @ x."
    if isinstance(f, Tensor):
        cure = "An expression becomes one by wb.function([x], expression)."
    elif isinstance(f, Graph):
        cure = "Pass the function that it was traced from."
    raise errors.UsageError(
        f"{name} needs a function of arrays, and {f!r} cannot be called. {cure}"
    )


class ArgumentNames:
    """The names of the leaves of some arguments: made when the first one is read.

    Parameters
    ----------
    f
        The function that is called with them.
    places
        The position or the keyword of each.
    trees
        How each is nested.
    chosen
        Which of the leaves are meant, by their numbers; all of them by default.
    """

    __slots__ = ("chosen", "f", "names", "places", "trees")

    def __init__(
        self,
        f: Callable[..., Any],
        places: Sequence[int | str],
        trees: Sequence[tree.Tree],
        chosen: Sequence[int] | None = None,
    ) -> None:
        self.f = f
        self.places = places
        self.trees = trees
        self.chosen = chosen
        self.names: list[str] | None = None

    def __getitem__(self, i: int) -> str:
        if self.names is None:
            self.names = self.all()
        return self.names[i if self.chosen is None else self.chosen[i]]

    def all(self) -> list[str]:
        """Return a name for every leaf of the arguments: ``W`` or ``params['W1']``."""
        found = []
        for place, structure in zip(self.places, self.trees, strict=True):
            base = place if isinstance(place, str) else parameter_name(self.f, place)
            found += structure.names(base)
        return found


def parameter_name(f: Callable[..., Any], place: int) -> str:
    """Return the name of a function's parameter, or a substitute like ``arg2``."""
    parameters = parameters_of(f)
    if place < len(parameters):
        found = parameters[place]
        if found.kind is not found.VAR_POSITIONAL:
            return found.name
    return f"arg{place}"


def parameters_of(f: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a function; none where Python does not know them."""
    try:
        return list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        return []


def is_float(x: object) -> bool:
    """Return whether a value is a float or complex number, or an array of them."""
    if type(x) is float or type(x) is complex:
        return True
    dtype = getattr(x, "dtype", None)
    return isinstance(dtype, np.dtype) and dtype.kind in "fc"


def check_float(value: Any, name: str, where: str, *, cure: str = "") -> None:
    """Refuse an argument that has no derivative, with the cast to write.

    ``cure`` is what else may be done.
    """
    if value is None:
        raise errors.DtypeError(f"{where}: {name} is None, not an array or a number.")
    has_spec = isinstance(value, (Tensor, Spec))
    if not has_spec and not isinstance(
        getattr(value, "dtype", np.dtype(float)), np.dtype
    ):
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        raise errors.DtypeError(
            f"{where}: {name} is of type {kind}, no array that NumPy's functions run"
            f" on. Pass np.asarray({name})."
        )
    dtype = value.dtype if has_spec else types.spec_of(value).dtype
    is_foreign = not has_spec and not hasattr(value, "dtype")
    is_number = isinstance(value, Number)
    if (
        is_foreign
        and not is_number
        and (isinstance(value, (list, tuple)) or dtype.kind in "OSU")
    ):
        raise errors.DtypeError(
            f"{where}: {name} is {value!r}, not an array or a number."
        )
    if not types.is_differentiable(dtype):
        cast = repr(float(value)) if is_number else f"{name}.astype(float)"
        raise errors.DtypeError(
            f"{where}: {name} is of dtype {dtype}, and only floats and complex numbers"
            f" have derivatives. Pass {cast}{cure}."
        )
