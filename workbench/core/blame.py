"""Descriptions of a Tensor for errors: the op, the shapes, the user's line, the cure.

`tensor.py` raises these, so a Tensor is `Any` here.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from types import CellType, CodeType, FrameType, TracebackType
from typing import Any

import numpy as np

from workbench.core import sites, source, traces, types
from workbench.core.formatting import format_bytes
from workbench.core.op import Op
from workbench.errors import (
    ConvergenceError,
    DtypeError,
    GradientLostError,
    MatrixError,
    MatrixShapeError,
    ShapeError,
    TraceError,
    UsageError,
    WorkbenchError,
)

# Which function of another library asks a Tensor for its numbers.
#
# NumPy lets a Tensor answer; others take it for an array of Python objects. So the
# error says which of their functions the user called, and what to call instead.

#: Whose compiled code takes arrays of objects for what they are not.
LIBRARIES = ("scipy.", "sklearn.")

#: What SciPy appends to a distribution's name in those of its classes.
_FAMILY = re.compile("_(gen|frozen)$")


def find_library_call(frame: FrameType | None) -> str | None:
    """Return the function of an installed library that asks; None if none does.

    It is the one that the user called: the outermost public one, up to the frame of
    the user's own. NumPy and Workbench are no such library.
    """
    function: str | None = None
    user = None if frame is None else source.find_user_frame(frame)
    while frame is not None and frame is not user:
        module: str = frame.f_globals.get("__name__", "")
        if not module.startswith(("numpy", "workbench", "contextlib")):
            function = (
                _public_name(frame, module) or function or module.partition("._")[0]
            )
        frame = frame.f_back
    return function


def find_numpy_call(frame: FrameType | None) -> str | None:
    """Return the function of NumPy that the user called and that runs, or None."""
    function: str | None = None
    while frame is not None:
        path: str = frame.f_globals.get("__name__", "")
        if path.partition(".")[0] != "numpy":
            return function
        name = frame.f_code.co_name
        if path.endswith("._methods"):  # where x.mean() and np.mean(x) both run
            name = name.removeprefix("_")
        rooms = [("np", np)]
        if path.startswith(("numpy.linalg", "numpy.fft")):
            room = path.split(".")[1]
            rooms.append((f"np.{room}", getattr(np, room)))
        for label, module in rooms:
            if not name.startswith("_") and callable(getattr(module, name, None)):
                function = f"{label}.{name}"
        frame = frame.f_back
    return function


def _public_name(frame: FrameType, path: str) -> str | None:
    """Return the public name of the function in a frame, or None."""
    code = frame.f_code
    name = code.co_name
    owner = frame.f_locals.get("self") if "self" in code.co_varnames else None
    if name in ("__init__", "__call__"):
        name = type(owner).__name__
    if path.startswith("scipy._lib."):  # a decorator; it closes over the function
        for free in code.co_freevars:
            inner = frame.f_locals.get(free)
            if callable(inner) and hasattr(inner, "__name__"):
                path, name = str(inner.__module__), inner.__name__
    if not path.startswith(LIBRARIES):
        return _name_in_package(owner, path, name)
    parts = path.split(".")
    count = next((i for i, p in enumerate(parts) if p.startswith("_")), len(parts))
    if code.co_freevars and owner is not None:
        names = {n for kind in type(owner).__mro__ for n in vars(kind)}
        name = _decorated_name(names, type(owner), frame) or name
    for length in range(count, 1, -1):
        place = ".".join(parts[:length])
        module = sys.modules.get(place)
        public = name
        if code.co_freevars and owner is None:
            public = _decorated_name(dir(module), module, frame) or name
        if public.startswith("_"):
            continue
        if callable(getattr(module, public, None)):
            return f"{place}.{public}"
        # A method, such as that of a distribution: scipy.stats.norm.logpdf.
        label = getattr(owner, "name", None)
        if isinstance(label, str) and hasattr(module, label):
            return f"{place}.{label}.{public}"
        # One of vectors has no name: that of its class ends in _gen or _frozen.
        family = _FAMILY.sub("", type(owner).__name__)
        if not isinstance(getattr(module, family, type), type):
            outer = f"{place}.{family}"
            return outer if public == type(owner).__name__ else f"{outer}.{public}"
        for kind in type(owner).__mro__[:-1] if owner is not None else ():
            if getattr(module, kind.__name__, None) is kind:
                return f"{place}.{kind.__name__}.{public}"
    return None


def _name_in_package(owner: object, path: str, name: str) -> str | None:
    """Return how a package itself calls a function, or a method of ``owner``.

    As short as it can be: ``pandas.Series.mean`` of what stands in
    ``pandas.core.series``.
    """
    kinds = () if owner is None else type(owner).__mro__[:-1]
    for place in dict.fromkeys((path.partition(".")[0], path)):
        module = sys.modules.get(place)
        for kind in kinds:
            public = name.endswith("__") or not name.startswith("_")
            if getattr(module, kind.__name__, None) is kind and public:
                is_class = name == kind.__name__  # a call of it, which is no method
                return (
                    f"{place}.{name}" if is_class else f"{place}.{kind.__name__}.{name}"
                )
        if not name.startswith("_") and callable(getattr(module, name, None)):
            return f"{place}.{name}"
    return None


def _decorated_name(
    names: Iterable[str], namespace: object, frame: FrameType
) -> str | None:
    """Return the name in a module or class of the function that a frame runs.

    That of a decorator runs the same code for all that it decorates; they differ by
    what that code closes over.
    """
    code, scope = frame.f_code, frame.f_locals
    for name in names:
        step = None if name.startswith("_") else getattr(namespace, name, None)
        while step is not None:
            if getattr(step, "__code__", None) is code:
                cells = zip(code.co_freevars, step.__closure__ or (), strict=True)
                if all(cell_contents(cell) is scope.get(free) for free, cell in cells):
                    return name
            step = getattr(step, "__wrapped__", None)
    return None


def cell_contents(cell: CellType) -> object:
    """Return the content of a closure's cell, or None for an empty cell."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


#: What stands in the place of functions of SciPy that have no namesake here: a solver
#: of the same kind, by the module of SciPy's and the cure.
OTHERS = {
    "root(f, x0).x": (
        "scipy.optimize fsolve newton_krylov broyden1 broyden2 anderson linearmixing"
        " diagbroyden excitingmixing"
    ),
    "root_scalar(f, x0=...).root": "scipy.optimize newton toms748",
    "minimize(f, x0).x": (
        "scipy.optimize fmin fmin_bfgs fmin_cg fmin_ncg fmin_powell"
        " fmin_l_bfgs_b fmin_tnc fmin_cobyla fmin_slsqp"
    ),
    "least_squares(residuals, x0).x": "scipy.optimize leastsq curve_fit",
    "solve_ivp(f, t_span, y0)": (
        "scipy.integrate ode complex_ode RK23 RK45 DOP853 Radau BDF LSODA"
    ),
    "quad(f, a, b), one inside another for more axes": (
        "scipy.integrate fixed_quad tanhsinh qmc_quad cubature nsum"
    ),
    "simpson(y, x)": "scipy.integrate romb",
    "cumulative_trapezoid(y, x)": "scipy.integrate cumulative_simpson",
}
#: What to do in the place of others.
CURES = {
    "Search by it on plain numbers, and give the point that it finds to"
    " workbench.scipy.optimize.minimize(f, x0), which has derivatives": (
        "scipy.optimize basinhopping differential_evolution dual_annealing shgo direct"
        " brute"
    ),
    "Find by it, on plain numbers, which constraints hold with equality, and solve"
    " these by np.linalg.solve, which has derivatives": (
        "scipy.optimize linprog milp nnls lsq_linear"
    ),
    "Call it in the `solve` of wb.custom_root, whose function returns the residuals of"
    " the equation and of its boundary conditions at the nodes": (
        "scipy.integrate solve_bvp"
    ),
    "Write wb.grad(f) or wb.jacobian(f), the true derivative": (
        "scipy.optimize approx_fprime check_grad"
    ),
    "Write wb.grad(f), wb.jacobian(f) or wb.hessian(f), the true derivative": (
        "scipy.differentiate derivative jacobian hessian"
    ),
    "Write it as a function of the windows"
    " np.lib.stride_tricks.sliding_window_view(x, n), which has derivatives": (
        "scipy.ndimage generic_filter generic_filter1d"
    ),
}


def _list_cures() -> Iterator[tuple[str, str]]:
    """Yield the functions of both tables by their full names, each with its cure."""
    for call, names in OTHERS.items():
        home, *functions = names.split()
        for name in functions:
            yield f"{home}.{name}", f"Write workbench.{home}.{call}, which does"
    for cure, names in CURES.items():
        home, *functions = names.split()
        for name in functions:
            yield f"{home}.{name}", cure


def suggest_replacement(called: str) -> str:
    """Return an alternative to a function of SciPy, as the cure of an error."""
    home, _, name = called.rpartition(".")
    own = f"workbench.{home}"
    found = getattr(_find_module(own), name, None) if home else None
    # Some of our modules hand out all that SciPy's have.
    if callable(found) and found is not getattr(_find_module(home), name, None):
        return f"Write {own}.{name}, which does"
    for function, cure in _list_cures():
        if called == function or home == function:  # or a method of its result
            return cure
    if home.startswith("scipy.sparse.linalg"):
        return "Call it in the `solve` of wb.custom_linear_solve, which has derivatives"
    package = called.partition(".")[0]
    if called.startswith(LIBRARIES) or package in sys.stdlib_module_names:
        return "Write it with NumPy's functions, which do"
    return (
        f'If it is written with NumPy, call wb.trace_packages("{package}") first, which'
        " lets it take them. Write it with NumPy's functions, which do, on plain"
        f" arrays: np.asarray(...) of what {package} holds"
    )


def _find_module(name: str) -> Any:
    """Return a module, or an object of one; None if there is none of this name."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name):
            raise  # something else is missing
    home, _, last = name.rpartition(".")
    return getattr(_find_module(home), last, None) if "." in home else None


def find_similar(
    name: str, known: Iterable[str], most: int = 3, alike: float = 0.5
) -> list[str]:
    """Return the known names that are most like another, at most so many.

    ``alike`` is how much of two names must be the same, from 0 to 1.

    >>> find_similar("sqr", ["exp", "sqrt", "square"])
    ['sqrt', 'square']
    """
    from difflib import get_close_matches

    return get_close_matches(name, list(known), most, alike)


def suggest(name: str, known: Iterable[str]) -> str:
    """Return a sentence with the known names that are like another, or nothing.

    Of a mapping it says what each name stands for.

    >>> suggest("tahn", ["tanh", "exp"]), suggest("log", {"lgo": "the node lgo"})
    (' Did you mean tanh?', ' Did you mean the node lgo?')
    """
    words = known if isinstance(known, Mapping) else {}
    close = [words.get(one, one) for one in find_similar(name, known)]
    return f" Did you mean {' or '.join(close)}?" if close else ""


def format_count(count: int, what: str) -> str:
    """Return a number of things in words: ``"1 input"``, ``"2,000 inputs"``."""
    several = {"axis": "axes", "entry": "entries"}.get(what, f"{what}s")
    return f"{count:,} {what if count == 1 else several}"


def shorten(text: str, most: int = 60, tail: int = 0) -> str:
    """Return a text of at most ``most`` characters, with ``…`` for the gap.

    ``tail`` characters of its end are kept.

    >>> shorten("broadcast_to", 8), shorten("broadcast_to", 8, tail=2)
    ('broadca…', 'broad…to')
    """
    if len(text) <= most:
        return text
    return f"{text[: most - 1 - tail]}…{text[len(text) - tail :]}"


# Errors about Tensors


def user_line() -> str:
    """Return the user's line that runs now, quoted for an error."""
    return quote_site(sites.decode(*source.caller()))


def describe(x: Any) -> str:
    """Return how an error names a Tensor: ``tanh 'h' float64[569, 16]``."""
    name = f" {x.name!r}" if x.name else ""
    op = "the input" if x.op.name == "identity" else x.op.name
    return f"{op}{name} {types.spec_of(x)}"


def describe_operands(operands: Iterable[Any]) -> str:
    """Return the operands of an op for an error text, arrays as dtype and shape.

    >>> describe_operands((np.ones(2), 3))
    'float64[2], 3'
    """
    return ", ".join(
        repr(types.spec_of(x)) if hasattr(x, "shape") else repr(x) for x in operands
    )


def quote_site(site: sites.Site | None) -> str:
    """Return a place, quoted for an error: ``" (at [3]:1: h = np.tanh(x))"``."""
    return "" if site is None else f" (at {site.place}: {site.text})"


#: What to do about a matrix that cannot be factored.
SINGULAR = "Look at its eigenvalues; a small multiple of np.eye(n) added may do."

#: The error for a Tensor that would become an entry of a plain array: where, and why.
STORED = (
    "a Tensor was stored into a plain array{}, which would lose its gradient. {} If it"
    " is an argument of a NumPy function beside a plain array a, pass wnp.asarray(a)"
    " there, with import workbench.numpy as wnp."
)


def explain_store(where: str, frame: FrameType | None) -> GradientLostError:
    """Return the error for a Tensor that is stored into a plain array.

    Those that a traced function makes by ``np.zeros`` and its like are none. The frame
    is that of the store: it tells why this one is.
    """
    found: dict[str, Any] = {} if frame is None else frame.f_locals
    if frame is None or frame.f_code.co_name == "<module>":
        found = {}
    name = next((key for key, x in found.items() if x is np), None)
    package = "" if frame is None else str(frame.f_globals.get("__name__"))
    package = package.partition(".")[0]
    if name is not None:
        why = (
            f"In this function {name} is a local name, by an import inside of it, an"
            " argument or a closure, and makes plain arrays: import numpy as"
            f" {name} at the top of the module, or workbench.numpy here."
        )
    elif frame is not None and source.is_installed(frame.f_code.co_filename):
        why = (
            f"Arrays that {package} makes hold Tensors after"
            f' wb.trace_packages("{package}").'
        )
    else:
        why = (
            "The array was not made in the traced function by np.zeros or its like, or"
            " it is one of integers. Write a = np.array(a) before the store (of dtype"
            " float), so that the array is the function's own; or build it from its"
            " parts (np.array([...]), np.stack, np.concatenate)."
        )
    return GradientLostError(STORED.format(where, why))


#: A draw of a generator of NumPy's, which is compiled and has no frame to look at.
_DRAW = re.compile(
    r"([\w.\[\]]+(?:\((?:[^()]|\([^()]*\))*\))?)\.(beta|binomial|chisquare|choice|dirichlet|exponential|f|gamma"
    r"|geometric|gumbel|laplace|logistic|lognormal|multinomial|multivariate_normal"
    r"|negative_binomial|noncentral_chisquare|noncentral_f|normal|pareto|permuted"
    r"|poisson|power|rayleigh|standard_gamma|standard_t|triangular|uniform|vonmises"
    r"|wald|weibull|zipf)\("
)


def _find_random_draw() -> tuple[str, str] | None:
    """Return the random draw on the user's line and its replacement, or None."""
    site = sites.decode(*source.caller())
    if site is None:
        return None
    # Without the text, as under `python -c`, the names are in the code.
    names = () if site.text else sites.dotted_call_name(*source.caller())
    if names and "random" not in names[-2:]:
        names = ("rng", names[-1])
    found = _DRAW.search(f"{'.'.join(names)}(" if names else site.text)
    if found is None or found[1] == "np":
        return None
    whole = found[0].removesuffix("(")
    if found[1] in ("np.random", "numpy.random"):
        return whole, f"workbench.random.default_rng(seed).{found[2]}"
    return whole, f"workbench.random.Generator({found[1]}).{found[2]}"


def _math_call(home: str = "np") -> str:
    """Return the call of `math` on the user's line, with ``home`` for its module."""
    site = sites.decode(*source.caller())
    found = None if site is None else re.search(r"\bmath\.(\w+)\(", site.text)
    name = found[1] if found is not None and hasattr(np, found[1]) else "sin"
    return f"{home}.{name}(x)"


def recorded_once_error(what: str, where: str) -> TraceError:
    """Return the error for a write to an array from outside a recorded function."""
    return TraceError(
        f"{what}{where} changes an array in a function that is recorded once and runs"
        " many times, and it was made outside of that: each run would change it again."
        " Work on a copy: x = x.copy()."
    )


def masked_array_error(x: Any) -> TraceError:
    """Return the error for a Tensor that would become the data of a masked array."""
    return TraceError(
        f"a masked array of {describe(x)}{user_line()}: np.ma does not see Tensors, and"
        " masked entries would poison the gradient. Write np.where(mask, 0.0, x),"
        " whose branch not taken never does, and the NumPy functions with where=~mask,"
        " such as np.mean(x, where=~mask)."
    )


def lost_gradient_error(
    x: Any, what: str, called: str | None = None
) -> GradientLostError:
    """Return the error for a Tensor that would become a plain number.

    ``called`` is the function of another library that asks for the number; found
    where none is given.
    """
    called = called or find_library_call(_outer_frame())
    if called is not None:
        error = GradientLostError(
            f"{called}{user_line()} does not see Tensors, and {describe(x)} would lose"
            f" its gradient. {suggest_replacement(called)}, or give it x.value to cut"
            " the gradient on purpose."
        )
        if traces.LOCAL.stack:
            sys.excepthook = SilentHook(error)
        return error
    made_by_numpy = find_numpy_call(_outer_frame())
    if made_by_numpy is not None and types.is_differentiable(x.dtype):
        return GradientLostError(
            f"{made_by_numpy} of a list or array of Tensors{user_line()}: NumPy makes"
            f" plain numbers of them, and {describe(x)} would lose its gradient. Make"
            f" one Tensor of them first: {made_by_numpy}(np.stack([...])). If it is a"
            f" setting beside a plain array a, write {made_by_numpy}(wnp.asarray(a),"
            " ...), with import workbench.numpy as wnp."
        )
    if sites.is_assignment(*source.caller()):  # of an entry that compiled code makes
        return explain_store(user_line(), _outer_frame())
    drawing = _find_random_draw() if what.startswith("np.asarray") else None
    if drawing is not None:
        return GradientLostError(
            f"{drawing[0]}{user_line()}: NumPy's generators do not see Tensors, and"
            f" {describe(x)} would lose its gradient. Write {drawing[1]}(...), which"
            " draws the same numbers as nodes of the program, or x.value to cut it on"
            " purpose."
        )
    if x._value is None and not traces.OPEN:
        return GradientLostError(
            f"{what}: {describe(x)}, an expression of symbols, has no value yet"
            f"{user_line()}. Write the NumPy spelling, which makes an expression too"
            f" ({_math_call()} in place of {_math_call('math')}), or ask for its value:"
            " expression.eval({x: 1.0})."
        )
    if x._value is None:
        return GradientLostError(
            f"{what}: {describe(x)} has no value while tracing without values"
            f"{user_line()}. Write the NumPy spelling, which waits for one"
            f" ({_math_call()} in place of {_math_call('math')}), or keep what the"
            " program asks for out of the trace: in vmap by in_axes=None, or with a"
            " loop over the examples."
        )
    said = f"{what}: {describe(x)} would lose its gradient{user_line()}."
    if what.startswith("np.asarray"):
        return GradientLostError(
            f"{said} Write x.astype(...), or leave the dtype out, which keeps the"
            " gradient; or x.value to cut it on purpose."
        )
    return GradientLostError(
        f"{said} Write the NumPy spelling, which keeps the gradient ({_math_call()} in"
        f" place of {_math_call('math')}, x itself in place of float(x), f'{{x:.2f}}'"
        " in place of '%.2f' % x), or x.value to cut it on purpose."
    )


class SilentHook:
    """`sys.excepthook` while an error of ours is on its way through compiled code.

    Some of SciPy's prints an error of the function that it calls, and raises one of
    its own, which says nothing. The trace raises ours (see `ProgramTrace.explain`), and
    it is not to be printed too.
    """

    def __init__(self, error: Exception) -> None:
        self.error = error
        hook = sys.excepthook
        self.before: Callable[..., Any] = (
            hook.before if isinstance(hook, SilentHook) else hook
        )

    def __call__(
        self,
        kind: type[BaseException],
        value: BaseException,
        traceback: TracebackType | None,
    ) -> None:
        """Print an error as before, but not ours while a trace is open."""
        self.restore()
        if value is self.error and traces.LOCAL.stack:
            traces.LOCAL.stack[-1].taken = self.error
        else:
            self.before(kind, value, traceback)

    def restore(self) -> None:
        """Put back the hook that was there before."""
        if sys.excepthook is self:
            sys.excepthook = self.before


def refuse_in_place() -> None:
    """Raise an error where an array meets a Tensor in ``s += w``, with the cure.

    NumPy calls its function with ``out=`` for that, as the user may have done: which
    of them it is shows in the code that runs, and in nothing else.
    """
    found = sites.find_in_place_operator()
    if found is None:
        return
    operator, text = found
    try:
        (statement,) = ast.parse(text).body
    except (SyntaxError, ValueError):
        statement = ast.parse(f"s {operator} w").body[0]
    if not isinstance(statement, ast.AugAssign):
        return
    target, value = ast.unparse(statement.target), ast.unparse(statement.value)
    if isinstance(statement.value, (ast.BinOp, ast.IfExp, ast.Compare, ast.BoolOp)):
        value = f"({value})"
    new = f"{target} {operator[:-1]} {value}"
    cure = f"Write {target} = {new}, which makes a new one."
    if isinstance(statement.target, ast.Subscript):
        whole, place = map(
            ast.unparse, (statement.target.value, statement.target.slice)
        )
        cure = f"Write {whole} = wb.at({whole})[{place}].set({new})."
    raise TraceError(
        f"{target} {operator} {value}{user_line()}: {target} is a plain array, and a"
        f" traced value is never written into one, its gradient would be lost. {cure}"
    )


#: What NumPy raises for arguments that do not fit; raised again with the user's line.
PLAIN = (
    ValueError,
    TypeError,
    IndexError,
    ZeroDivisionError,
    np.exceptions.AxisError,
    np.linalg.LinAlgError,
    AttributeError,
)
#: What becomes of a text or None among the operands of a function.
NO_ARRAY = tuple(
    f"'{kind}' object has no attribute '{name}'"
    for kind in ("str", "NoneType", "dict", "set")
    for name in ("shape", "dtype", "ndim", "astype")
)


def lazy_error(x: Any) -> TraceError:
    """Return the error for an array of Dask's, which would be brought here whole."""
    kind = type(x).__name__
    named = "a Dask array" if kind == "Array" else f"a lazy {kind}"
    shape, size = getattr(x, "shape", None), getattr(x, "nbytes", None)
    if isinstance(shape, tuple):
        named += f" of shape {shape}"
    if isinstance(size, (int, float)) and size >= 1e6:  # NaN: a length is unknown
        named += f" and {format_bytes(size)}"
    cure = "Write X.compute() where it fits into memory"
    if kind == "Array":
        cure += (
            "; else let the cluster compute: import workbench.distributed as wd, and"
            " wd.value_and_grad(loss)(W, X), with X split by rows"
        )
    return TraceError(
        f"{named} meets a program that runs here{user_line()}, and all of it would be"
        f" brought here. {cure}."
    )


def timedelta_error(x: object) -> DtypeError:
    """Return the error for lengths of time among the operands."""
    return DtypeError(
        f"{types.spec_of(x)} meets a Tensor{user_line()}: the result would be lengths"
        " of time, rounded, without a gradient. Make them floats first:"
        " t / np.timedelta64(1, 's')."
    )


def locate_user_error(
    error: Exception, name: str, args: tuple[Any, ...], settings: dict[str, Any]
) -> Exception:
    """Return an error with the user's line if their own call failed; else unchanged."""
    context = source.CONTEXT.get()
    if context is not None and context.code is not None:
        return error
    return locate_error(error, name, args, settings)


def locate_error(
    error: Exception,
    name: str,
    args: tuple[Any, ...],
    settings: dict[str, Any],
    place: str | None = None,
) -> Exception:
    """Return NumPy's exception, of the same type, with the call and the user's line.

    Of another type, or if it tells the line already, it stays as it is.
    """
    text, kind = str(error), type(error)
    if text in NO_ARRAY:
        type_name = text.split("'")[1]
        text, kind = (
            f"an operand is of type {type_name}, which is not an array",
            TypeError,
        )
    if kind not in PLAIN or kind is AttributeError or " (at " in text:
        return error
    arguments = [
        *map(_format_argument, args),
        *(f"{k}={_format_argument(v)}" for k, v in settings.items()),
    ]
    end = "" if text.endswith(".") else "."
    if isinstance(error, np.exceptions.AxisError) and error.ndim is not None:
        end += (
            f" Its axes are {-error.ndim} to {error.ndim - 1}."
            if error.ndim
            else " It has no axis."
        )
    place = user_line() if place is None else place
    return kind(f"{name}({', '.join(arguments)}){place}: {text}{end}")


def _format_argument(x: object) -> str:
    """Return an argument in short: arrays by their specs."""
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        return repr(types.spec_of(x))
    if isinstance(x, (list, tuple)) and not all(isinstance(n, int) for n in x):
        inside = ", ".join(map(_format_argument, x[:4])) + (
            ", ..." if len(x) > 4 else ""
        )
        return f"[{inside}]" if isinstance(x, list) else f"({inside})"
    return shorten(repr(x), 40)


def find_numpy_caller() -> str | None:
    """Return the function of NumPy that asks a Tensor for numbers; None: none does."""
    return find_numpy_call(_outer_frame())


def _outer_frame() -> FrameType | None:
    """Return the nearest frame outside Workbench."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        home: str = frame.f_globals.get("__name__", "")  # exec may give none
        if not home.startswith("workbench."):
            return frame
        frame = frame.f_back
    return None


def call_solver(name: str, solve: Callable[[], Any]) -> Any:
    """Call a solver of SciPy's, and add the user's line to its refusals.

    Raises
    ------
    UsageError, ConvergenceError
        If the solver itself refuses what it was given, or gives up. What the user's
        function raises passes as it is.
    """
    try:
        return solve()
    except (ValueError, TypeError, RuntimeError) as error:
        home, step = "", error.__traceback__
        while step is not None:
            module = str(step.tb_frame.f_globals.get("__name__"))
            home = home if module.startswith("numpy") else module
            step = step.tb_next
        if isinstance(error, WorkbenchError) or not home.startswith(LIBRARIES):
            raise
        kind = ConvergenceError if isinstance(error, RuntimeError) else UsageError
        text = str(error).rstrip(".")
        raise kind(f"{name}{user_line()}: {text}.") from error


def explain_refusal(
    op: Op, args: tuple[Any, ...], error: Exception, code: CodeType | None, lasti: int
) -> Exception:
    """Return NumPy's error with the op, the operands and the user's line.

    What is no refusal of NumPy's, our own errors among it, stays as it is.
    """
    if isinstance(error, WorkbenchError) or op.calls_back:
        return error
    if type(error) in (IndexError, np.exceptions.AxisError):
        return locate_error(
            error, op.name, args, {}, quote_site(sites.decode(code, lasti))
        )
    if not isinstance(error, (ValueError, TypeError)):
        return error
    operands = describe_operands(args)
    cure = op.cure or (
        "Shapes are compared from the right; each pair must be equal or 1: add an axis"
        " with x[:, None] or reshape one operand."
        if op.elementwise
        else "Compare the shapes with what the function expects."
    )
    kind: type[Exception] = ShapeError if isinstance(error, ValueError) else DtypeError
    if isinstance(error, np.linalg.LinAlgError) and "must be" in str(error):
        kind = MatrixShapeError
    elif isinstance(error, np.linalg.LinAlgError):
        kind = MatrixError
        cure = SINGULAR
    elif isinstance(error, TypeError):
        cure = "Convert the operands to one numeric dtype with .astype."
    if op.custom:
        cure = op.cure  # only the op's own code knows the cause
    place = quote_site(sites.decode(code, lasti))
    if isinstance(error, TypeError) and (mixed := describe_places(args)):
        return UsageError(f"{op.name}({operands}){place}: {mixed}")
    lead = describe_mismatch(op, args) if kind is ShapeError else ""
    return kind(f"{lead}{op.name}({operands}){place}: {error}. {cure}".rstrip())


def describe_places(args: Iterable[Any]) -> str:
    """Return which arrays to move, if some are on a GPU and others not; else nothing.

    >>> describe_places((np.ones(2), np.ones(2)))
    ''
    """
    known = list(enumerate(args, 1))
    here = ", ".join(str(k) for k, x in known if isinstance(x, np.ndarray))
    there = ", ".join(str(k) for k, x in known if types.is_device_array(x))
    if not here or not there:
        return ""
    return (
        f"of these operands NumPy's (number {here}) lie in the memory of the CPU, and"
        f" CuPy's (number {there}) on the GPU, and nothing moves in silence. Write"
        " wb.to_gpu(x) for each array that is on the CPU, once, before a loop (for a"
        " constant np.asarray(x, like=y)), or wb.to_cpu(y) for the others."
    )


def describe_mismatch(op: Op, args: tuple[Any, ...]) -> str:
    """Return the shapes that do not fit, and the two lengths; empty if not known.

    >>> from workbench.core.op import OPS
    >>> describe_mismatch(OPS["matmul"], (np.ones((4, 2)), np.ones(3)))
    '(4, 2) @ (3,): 2 ≠ 3. '
    """
    shapes = [tuple(getattr(x, "shape", ())) for x in args]
    if not all(isinstance(n, int) for shape in shapes for n in shape):
        return ""
    pair = None
    if op.traits.symbol == "@" and len(shapes) == 2 and all(shapes):
        left, right = shapes
        inner = left[-1], right[-2:][0]
        pair = inner if inner[0] != inner[1] else _find_unequal(left[:-2], right[:-2])
    elif op.elementwise:
        pair = _find_unequal(*shapes)
    if pair is None:
        return ""
    texts = [str(shape) for shape in shapes]
    if op.traits.symbol and len(texts) == 2:
        shown = f"{texts[0]} {op.traits.symbol} {texts[1]}"
    else:
        shown = f"{op.name}({', '.join(texts)})"
    return f"{shown}: {pair[0]} ≠ {pair[1]}. "


def _find_unequal(*shapes: tuple[int, ...]) -> tuple[int, int] | None:
    """Return two lengths that do not broadcast, from the last axis that differs."""
    for k in range(1, max(map(len, shapes), default=0) + 1):
        lengths = [shape[-k] for shape in shapes if len(shape) >= k and shape[-k] != 1]
        other = next((n for n in lengths if n != lengths[0]), None)
        if other is not None:
            return lengths[0], other
    return None


def note_derivative(error: Exception, node: Any) -> None:
    """Tell an error of a derivative's rule the op of the program and its line.

    The rule runs when the derivative is asked for, often lines later. An exception
    of NumPy's or of a user's rule keeps its text and gets a note.

    Raises
    ------
    MatrixError
        In the place of NumPy's error for a matrix that a rule cannot factor.
    """
    while node.origin is not None:
        node = node.origin.forward
    place = quote_site(node.site)
    said = f"In the derivative of {describe(node)}{place}."
    if type(error) is np.linalg.LinAlgError and not node.op.custom:
        raise MatrixError(f"{str(error).rstrip('.')}. {said} {SINGULAR}") from error
    if not isinstance(error, WorkbenchError):
        if said.partition(" of ")[0] not in "".join(getattr(error, "__notes__", ())):
            error.add_note(said)
    elif "In the derivative of" not in (text := str(error)) and not (
        place and place in text
    ):
        error.args = (f"{text} {said}", *error.args[1:])
