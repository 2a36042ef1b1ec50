"""Running a ``%%autodiff`` cell: its variables become inputs, its program a graph.

While the cell runs, the notebook's names hold Tensors, in the notebook's real
namespace, so functions that the user has defined in other cells see them too.
Afterwards the notebook holds what the same cell without the magic would have left.

Line numbers are those of the notebook's editor: the magic's own line is line 1. This
holds for tracebacks, for ``place`` (``[3]:2``) and on the wire.
"""

from __future__ import annotations

import ast
import builtins
import re
import shlex
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import (
    AbstractContextManager,
    ExitStack,
    contextmanager,
    nullcontext,
    suppress,
)
from dataclasses import dataclass
from keyword import iskeyword
from types import CodeType, FunctionType, TracebackType
from typing import Any

import numpy as np

from workbench.core import hooks, trace, traces, types, walk
from workbench.core.blame import find_similar
from workbench.core.float_warnings import Warned, warn_at_lines
from workbench.core.graph import Graph
from workbench.core.memory import purify, resolve
from workbench.core.tensor import Tensor, next_serial
from workbench.core.tree import is_sparse
from workbench.errors import (
    DisconnectedInputError,
    DtypeError,
    UsageError,
    WorkbenchError,
    wrap_lines,
)
from workbench.jupyter import rewrite
from workbench.jupyter.failed_cell import FailedCell, find_failed_cell
from workbench.jupyter.plain_values import PlainConverter, is_buffer, make_plain
from workbench.jupyter.rewrite import Runtime
from workbench.numpy import namespaces, reach, swap
from workbench.session import Session
from workbench.symbolic.function import BACKENDS

# Around the run of a cell: its number, interrupts.

_NUMBER = re.compile(r"\d+")


def cell_number(shell: Any) -> int:
    """Return the number that the notebook shows at the running cell."""
    frame = sys._getframe(1)
    while frame is not None:
        label = shell.compile.format_code_name(frame.f_code.co_filename)
        found = _NUMBER.search(label[1]) if label else None
        if found is not None:
            return int(found.group())
        if frame.f_back is None:
            break
        frame = frame.f_back
    return int(shell.execution_count)


@contextmanager
def hold_interrupts() -> Iterator[Callable[[], AbstractContextManager[None]]]:
    """Delay an interrupt until the block is done.

    Yields a function whose own block lets interrupts through. One that comes after an
    error is dropped: the error ends the block anyway.
    """
    old = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or old is None:
        yield nullcontext
        return
    interrupts: list[Any] = []

    def note(*args: Any) -> None:
        interrupts.append(args)

    def raise_noted() -> None:
        if interrupts and callable(old):
            old(*interrupts.pop())

    @contextmanager
    def allow_interrupts() -> Iterator[None]:
        nonlocal old
        signal.signal(signal.SIGINT, old)
        try:
            raise_noted()
            yield
        finally:
            # The block may have installed a handler of its own.
            old = signal.signal(signal.SIGINT, note)

    signal.signal(signal.SIGINT, note)
    try:
        yield allow_interrupts
    finally:
        signal.signal(signal.SIGINT, old)
    raise_noted()


#: The shells whose cells are named by their numbers.
_SHELLS: list[Any] = []


def name_cells(shell: Any) -> None:
    """Name every place in a cell of this notebook like ``[3]:1``."""
    if shell not in _SHELLS:
        _SHELLS.append(shell)


@hooks.source.set
def cell_name(filename: str) -> str | None:
    """Return ``"[3]"`` for the file name of the third cell; None for another file."""
    for shell in _SHELLS:
        label = shell.compile.format_code_name(filename)
        if label is not None:
            return str(label[1]).removeprefix("In")
    return None


# An exception of a cell as the notebook shows it: the user's frames only.
#
# The exception itself keeps its whole traceback for a debugger; only IPython's display
# of it is cut.


def make_displayable(error: BaseException, shell: Any, filename: str) -> BaseException:
    """Return the exception to raise from the magic, displayed with user frames alone.

    Parameters
    ----------
    error
        The exception of the cell.
    shell
        The IPython shell, which renders it.
    filename
        The name under which the cell was compiled.
    """
    frames = _cut_to_user_frames(error, filename)
    if isinstance(error, SyntaxError):
        # IPython would list all frames above a SyntaxError that a magic raises.
        listed = traceback.extract_tb(frames)
        lines = shell.SyntaxTB.structured_traceback(type(error), error, listed)
        made: BaseException = type(type(error).__name__, (_DisplayedError,), {})(error)
        _set_traceback(made, lambda: lines)
        return made

    def render() -> list[str]:
        cause, suppress = error.__cause__, error.__suppress_context__
        if isinstance(error, WorkbenchError) or _is_raised_by_workbench(error):
            # Its text has all the useful information of the cause.
            error.__cause__, error.__suppress_context__ = None, True
        try:
            lines: list[str] = shell.InteractiveTB.structured_traceback(
                # Without a user's line it is a bug of ours: show all.
                type(error),
                error,
                frames or error.__traceback__,
                tb_offset=0,
            )
        finally:
            error.__cause__, error.__suppress_context__ = cause, suppress
        return wrap_lines(lines) if isinstance(error, WorkbenchError) else lines

    _set_traceback(error, render)
    return error


def _is_raised_by_workbench(error: BaseException) -> bool:
    """Return whether Workbench raised an error, like an IndexError with a line."""
    step, name = error.__traceback__, ""
    while step is not None:
        name = step.tb_frame.f_globals.get("__name__", "")
        step = step.tb_next
    return name.startswith("workbench.")


class _DisplayedError(Exception):
    """A replacement for an error that IPython would show with all its frames."""

    def __str__(self) -> str:
        return str(self.args[0])


def _set_traceback(error: BaseException, render: Callable[[], list[str]]) -> None:
    """Set the method that IPython calls for the traceback of an exception."""
    error._render_traceback_ = render  # type: ignore[attr-defined]


def _cut_to_user_frames(error: BaseException, filename: str) -> TracebackType | None:
    """Return the traceback from the cell on, without Workbench's frames."""
    found: list[TracebackType] = []
    raised: BaseException | None = error
    while raised is not None and not found:
        # The cause of an error that was reworded still has the line.
        step = raised.__traceback__
        inside = False
        while step is not None:
            frame = step.tb_frame
            inside = inside or frame.f_code.co_filename == filename
            name = frame.f_globals.get("__name__", "")
            if inside and not name.startswith("workbench."):
                found.append(step)
            step = step.tb_next
        raised = raised.__cause__
    made = None
    for step in reversed(found):
        made = TracebackType(made, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return made


# The line after ``%%autodiff``: its options, and its completions.

#: What ``--show`` can name.
PARTS = {
    "graph": "both passes, live",
    "jacobian": "the derivative of what the output is computed from",
    "hessian": "the second derivatives",
    "check": "the gradient against differences",
    "none": "nothing",
}
_FLAGS = {
    "--wrt": "differentiate by these variables",
    "--name": "the name of the session",
    "--show": "show these parts",
    "--seed": "the variable that holds the cotangent of an output of many numbers",
    "--backend": f"what its runs are computed by: {', '.join(BACKENDS)}",
}
#: The options that take one word.
_SINGLE = ("--name", "--seed", "--backend")


@dataclass(frozen=True)
class Options:
    """The options of the magic's line.

    Attributes
    ----------
    output
        The variable to differentiate; None: the cell's last expression.
    wrt
        The variables to differentiate by; empty: every input that reaches the output.
    name
        The session's name in the notebook.
    show
        Parts to display, in order.
    seed
        The variable with the output's cotangent, or None.
    backend
        What the session's runs are computed by.
    """

    output: str | None = None
    wrt: tuple[str, ...] = ()
    name: str = "ad"
    show: tuple[str, ...] = ("graph",)
    seed: str | None = None
    backend: str = "numpy"


def parse_line(line: str) -> Options:
    """Read the line.

    Raises
    ------
    UsageError
        If the line is wrong; the text is one line with the cure.
    """
    try:
        words = shlex.split(line.replace(",", " "), comments=True)
    except ValueError as error:
        raise UsageError(f"%%autodiff: {error} in {line.strip()!r}") from None
    given: dict[str, list[str]] = {"": []}
    flag = ""
    for word in words:
        if not word.startswith("-"):
            if flag in _SINGLE and given[flag]:
                flag = ""  # these take one word; the next is the output
            given[flag].append(word)
            continue
        flag, equals, rest = word.partition("=")
        if flag not in _FLAGS:
            raise UsageError(
                f"%%autodiff has no option {flag}{suggest_name(flag, _FLAGS)};"
                f" there are {', '.join(_FLAGS)}"
            )
        if flag in given:
            raise UsageError(f"%%autodiff: {flag} is given twice; write it once")
        given[flag] = [rest] if equals else []
    for flag, values in given.items():
        if flag and not values:
            raise UsageError(f"%%autodiff: {flag} needs a value ({_FLAGS[flag]})")
        if flag in ("", *_SINGLE) and len(values) > 1:
            what = flag or "the output"
            named = [word for word in values[1:] if word != "wrt"]
            hint = (
                f"; did you mean --wrt {' '.join(named)}?" if named and not flag else ""
            )
            raise UsageError(
                f"%%autodiff: {what} is one name, not {' '.join(values)}{hint}"
            )
    shown = _unique(given.get("--show", ["graph"]))
    for part in shown:
        if part not in PARTS:
            raise UsageError(
                f"%%autodiff: --show has no {part!r}{suggest_name(part, PARTS)};"
                f" there are {', '.join(PARTS)}"
            )
    made = Options(
        next(iter(given[""]), None),
        _unique(given.get("--wrt", [])),
        given.get("--name", ["ad"])[0],
        tuple(part for part in shown if part != "none"),
        next(iter(given.get("--seed", [])), None),
        given.get("--backend", ["numpy"])[0],
    )
    if made.backend not in BACKENDS:
        raise UsageError(
            f"%%autodiff: there is no backend {made.backend!r}"
            f"{suggest_name(made.backend, BACKENDS)}; there are {', '.join(BACKENDS)}"
        )
    for name in (made.output, *made.wrt, made.name, made.seed):
        if name is not None and (not name.isidentifier() or iskeyword(name)):
            cure = _advise_part(name) if name in made.wrt else ""
            raise UsageError(
                f"%%autodiff: {name!r} is not the name of a variable{cure}"
            )
    return made


#: What takes many weights at once.
_ADVISED_GRAD = (
    "Or use wb.grad(f)(weights), where weights is a dict, a list or a dataclass of"
    " arrays"
)


def _advise_part(word: str) -> str:
    """Return advice on code for a part of an object, ``net.W`` or ``weights[0]``."""
    found = re.fullmatch(r"([^\W\d]\w*)((?:\.\w+|\[[^][]*\])+)", word)
    if found is None:
        return ""
    part = re.findall(r"\w+", found[2])[-1:]
    own = part[0] if part and part[0].isidentifier() else "w"
    own = own if own != found[1] and not iskeyword(own) else f"{own}_1"
    # The shell's rules for words have taken the quotes of a key away.
    text = re.sub(r"\[([^\W\d]\w*)\]", r"['\1']", word)
    return (
        f". Before the cell write {own} = {text}; in the cell compute with {own} (after"
        f" {text} = {own}, where a function reads it there), and say --wrt {own}."
        f" {_ADVISED_GRAD}"
    )


def _unique(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(words))


def suggest_name(word: str, known: Iterable[str]) -> str:
    """Return ``", did you mean W1?"``, or nothing if no name is similar."""
    found = find_similar(word, known, 1)
    if not found:
        lower = {name.lower(): name for name in known}
        found = [lower[word.lower()]] if word.lower() in lower else []
    return f", did you mean {found[0]}?" if found else ""


def is_input(value: object) -> bool:
    """Return whether a variable can be an input: a float array or number."""
    if type(value) in (float, complex):
        return True
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    return kind in ("f", "c") and (
        type(value) is np.ndarray
        or isinstance(value, np.generic)
        or hasattr(value, "__cuda_array_interface__")
    )


def complete_line(text: str, names: Mapping[str, Any]) -> list[str]:
    """Return the completions after ``text``, the line up to the cursor."""
    words = text.split()
    if text[-1:].isspace() or not words:
        words.append("")
    current, before = words[-1], words[1:-1]
    used = {word for word in before if word.startswith("--")}
    flag = next((word for word in reversed(before) if word.startswith("--")), "")
    offered = [f for f in _FLAGS if f not in used]
    if current.startswith("-"):
        return [f for f in offered if f.startswith(current)]
    variables = sorted(
        n for n, v in names.items() if not n.startswith("_") and is_input(v)
    )
    last = before[-1] if before else ""
    if flag == "--show":
        found = [p for p in PARTS if p not in before]
    elif flag == "--wrt":
        found = [v for v in variables if v not in before[before.index("--wrt") :]]
    elif flag == "--seed":
        found = variables if last == "--seed" else []
    elif flag == "--name":
        found = ["ad", "model"] if last == "--name" else []
    elif flag == "--backend":
        found = list(BACKENDS) if last == "--backend" else []
    else:
        found = [] if before else variables
    if last not in _FLAGS:
        found = found + offered
    return [word for word in found if word.startswith(current)]


# The cell

Names = dict[str, Any]

#: The output of a cell that did not assign it.
MISSING = object()

#: The object that all rewritten code calls; functions of a cell may outlive it.
RUNTIME = Runtime()


class CellTrace(trace.ProgramTrace):
    """The trace of a cell, with variables of the notebook as inputs."""

    fills = True
    given = (
        "is older than this cell: other cells would see the change, and the graph would"
        " miss it"
    )


class Cell:
    """One run of one cell.

    Parameters
    ----------
    shell
        The IPython shell whose namespace the cell runs in.
    options
        The options of the magic's line.
    line, body
        The text of that line after ``%%autodiff``, and of the lines after it.
    raw
        The whole cell as the user wrote it, if it is known.
    """

    def __init__(
        self, shell: Any, options: Options, line: str, body: str, raw: str | None = None
    ) -> None:
        self.shell = shell
        self.options = options
        self.names: Names = shell.user_ns
        head = f"%%autodiff {line}\n"
        if raw is not None and raw.rstrip("\n").endswith(body.rstrip("\n")):
            head = raw[: raw.rstrip("\n").rindex(body.rstrip("\n"))]
        # IPython strips blank lines at the start; the editor counts them.
        blank = len(body) - len(body.lstrip("\n"))
        offset = head.count("\n") + body[:blank].count("\n")
        text = shell.transform_cell(body)
        self.source = "\n" * offset + text
        self.filename: str = shell.compile.cache(
            head + "\n" * (offset - head.count("\n")) + text,
            cell_number(shell),
            raw_code=head + body if raw is None else raw,
        )
        self.leaves: dict[str, Tensor] = {}
        #: Tensors from this serial on are the cell's.
        self.start = 0
        #: What Python has decided by values.
        self.decisions: list[traces.Decision] = []
        #: The names that the cell binds.
        self.assigned_names: list[str] = []
        #: Names of arrays that have another one: of ``u = u0`` the input is both.
        self.aliases: dict[str, Tensor] = {}
        #: The places that have had a warning of NumPy's.
        self.warned: Warned = set()
        #: What it has traced before it failed.
        self.failure: FailedCell | None = None
        #: The arrays that the notebook holds after the cell.
        self.lent_arrays: list[Any] = []
        #: The notebook, and the modules of the user's whose code the cell calls.
        self.homes = {"__main__"}
        #: The arrays that the trace has made read-only, by id.
        self.locked: dict[int, Any] = {}

    def run(self) -> tuple[Session, Any]:
        """Run the cell; return its session, and the value of its last expression.

        Raises
        ------
        UsageError
            If the options do not fit the cell; then nothing has run.
        BaseException
            The error of the cell, displayed with the user's lines only. The notebook
            then holds the results of the cell so far, and the old session.
        """
        with self._cut_errors():
            tree = self.shell.compile.ast_parse(self.source, self.filename)
            tree = self.shell.transform_ast(tree)
        if not tree.body:
            raise UsageError("%%autodiff: the cell is empty")
        inputs = self._find_inputs(tree)
        with self._cut_errors():
            output, value = self._trace(tree, inputs)
            session: Session = self._run_at_line(1, lambda: self._make_session(output))
        self.names[self.options.name] = session
        return session, value

    def run_after(self, step: Callable[[], object]) -> None:
        """Call a function after the run, as if from the magic's line."""
        with self._cut_errors():
            self._run_at_line(1, step)

    @contextmanager
    def _cut_errors(self) -> Iterator[None]:
        """Display errors of the block with the user's lines only."""
        try:
            yield
        except BaseException as error:
            made = make_displayable(error, self.shell, self.filename)
            if made is error:
                raise
            raise made from None

    def _run_at_line(self, line: int, make: Callable[[], Any]) -> Any:
        """Call a function as if from this line, so that errors show the line."""
        code = compile("\n" * (line - 1) + "made = make()", self.filename, "exec")
        frame: Names = {"make": make}
        exec(code, frame)
        return frame["made"]

    # Before

    def _find_inputs(self, tree: ast.Module) -> Names:
        """Return the variables that become inputs, in the order of their reading."""
        options, names = self.options, self.names
        made = self.assigned_names = rewrite.find_assigned(tree)
        read = rewrite.find_read(self.source, tree)
        if options.output is None and not isinstance(tree.body[-1], ast.Expr):
            last = f", as in %%autodiff {made[-1]}" if made else ""
            raise UsageError(
                "%%autodiff: the cell names no output to differentiate. Name it after"
                f" %%autodiff{last}, or end the cell with an expression"
            )
        if options.output is not None and options.output not in made:
            raise UsageError(
                f"%%autodiff {options.output}: the cell does not assign"
                f" {options.output}{suggest_name(options.output, made)}"
            )
        taken = names.get(options.name)
        if options.name in made or not (taken is None or isinstance(taken, Session)):
            raise UsageError(
                f"%%autodiff: {options.name} is a variable of the notebook; give the"
                " session another name with --name"
            )
        for name in options.wrt:
            if name in made:
                continue
            if name not in names:
                known = {*made, *(n for n, v in names.items() if is_input(v))}
                raise UsageError(
                    f"%%autodiff: --wrt {name} is not a variable of the notebook"
                    f"{suggest_name(name, known)}"
                )
            check_wrt(names[name], name)
        # A name that the cell assigns is not an input, even if it was one before.
        wanted = dict.fromkeys([*read, *(n for n in options.wrt if n not in made)])
        hidden = self.shell.user_ns_hidden
        return {
            name: names[name]
            for name in wanted
            if name in names and is_input(names[name]) and name not in hidden
        }

    # While it runs

    def _trace(self, tree: ast.Module, inputs: Names) -> tuple[object, Any]:
        """Run the cell; return its output, and the plain value of the last line."""
        last = tree.body[-1]
        tree = rewrite.rewrite(tree)
        shows = isinstance(last, ast.Expr)
        body = tree.body[:-1] if shows else tree.body
        compiler = self.shell.compile
        code = compiler(ast.Module(body, []), self.filename, "exec")
        end: CodeType | None = None
        if isinstance(last, ast.Expr):
            end = compiler(ast.Expression(last.value), self.filename, "eval")
        wrt = [name for name in inputs if name in self.options.wrt]
        known = len(wrt) == len(self.options.wrt) and wrt
        self.start = next_serial()
        value: Any = None
        setattr(builtins, rewrite.RUNTIME, RUNTIME)
        # Whoever interrupts twice must not keep the notebook from its plain values.
        with hold_interrupts() as allow_interrupts:
            try:
                with CellTrace() as opening:
                    opening.decisions = self.decisions
                    leaves = opening.open_leaves(list(inputs.values()), list(inputs))
                    self.leaves = dict(zip(inputs, leaves, strict=True))
                    for leaf in leaves:
                        leaf.code = None  # an input has no line in this cell
                    if known:
                        # Tensors that depend only on the others convert freely.
                        opening.leaves = {self.leaves[n].serial for n in wrt}
                    self.names.update(self.leaves)
                    try:
                        with (
                            self._swap_names(tree),
                            warn_at_lines(self.warned),
                            allow_interrupts(),
                        ):
                            exec(code, self.names)
                            if end is not None:
                                value = eval(end, self.names)
                    except Exception as error:
                        self._note_failure(error)
                        raise
                    finally:
                        self.locked.update(opening.arrays)
                    output = resolve(self._get_output(value))
                    if any(x.changes for x in traces.LOCAL.stack):
                        purify([output], min(opening.leaves, default=0))
            finally:
                value = self._restore(value)
        return output, value

    @contextmanager
    def _swap_names(self, tree: ast.Module) -> Iterator[None]:
        """Let NumPy's names be ours, in the notebook and in modules that are called."""
        code = self.shell.compile(tree, self.filename, "exec")
        whole = FunctionType(code, self.names)

        def swap_names(choose: Callable[[Any], Any]) -> None:
            for name, old in list(self.names.items()):
                if (new := choose(old)) is not old:
                    self.names[name] = new

        def take_import(value: Any) -> Any:
            stack.enter_context(swap.swapped(self.names, whole, value))
            for space in reach.find_reach(whole).spaces:
                self.homes.add(str(space.get("__name__")))
            swap_names(namespaces.swap_value)
            return namespaces.swap_value(value)

        outer, RUNTIME.take_import = RUNTIME.take_import, take_import
        try:
            with ExitStack() as stack:
                take_import(whole)
                yield
        finally:
            RUNTIME.take_import = outer
            if not self._is_swapped():
                swap_names(namespaces.find_true)

    def _is_swapped(self) -> bool:
        """Return whether the notebook's names are swapped for somebody else, too.

        A cell around this one goes on with them, or a thread that differentiates.
        """
        return id(self.names) in namespaces.ACTIVE

    def _note_failure(self, error: Exception) -> None:
        """Keep the nodes that the cell traced before an error, under their names."""
        with suppress(Exception):  # the error itself is told
            for name in self.assigned_names:
                RUNTIME.name_value(self.names.get(name), name)
            self.failure = find_failed_cell(
                error, self.names, self.leaves.values(), self.start, self.filename
            )

    def _get_output(self, value: object) -> object:
        name = self.options.output
        if name is None:
            return value
        output = self.names.get(name, MISSING)
        if isinstance(output, Tensor) and output.name is None:
            output.name = name
        return output

    def _find_nodes(self, output: object) -> list[Tensor]:
        if not isinstance(output, Tensor) or not self.leaves:
            return []
        first = min(x.serial for x in self.leaves.values())
        return walk.order_nodes([output], first)

    # After

    def _restore(self, value: Any) -> Any:
        """Make all values of the notebook plain, and that of the last expression."""
        for name in self.assigned_names:
            assigned = self.names.get(name)
            RUNTIME.name_value(assigned, name)
            if isinstance(assigned, Tensor) and assigned.name != name:
                self.aliases[name] = assigned

        known: dict[int, tuple[Any, Any]] = {}

        def to_plain(x: Any) -> Any:
            if id(x) not in known:
                found = make_plain(x, self.locked, self.start)
                known[id(x)] = x, found
                if is_buffer(found):
                    self.lent_arrays.append(found)
            return known[id(x)][1]

        standing = {} if self._is_swapped() else namespaces.STANDING
        made = PlainConverter(to_plain, standing, self.homes)
        made.convert_names(self.names, self.shell.user_ns_hidden)
        return made.convert(value)

    def _make_session(self, output: Any) -> Session:
        options = self.options
        what = options.output or "the last expression"
        if output is MISSING:
            raise UsageError(
                f"the cell has not assigned {what}, since the lines that assign it did"
                " not run."
            )
        if not isinstance(output, Tensor):
            text = repr(output) if np.ndim(output) == 0 else types.spec_of(output)
            reads = ", ".join(self.leaves)
            raise DisconnectedInputError(
                f"{what} is {text}, which depends on no float variable of the notebook"
                f" (the cell reads {reads or 'no variable'}). Compute it from one with"
                " NumPy; a variable that only a function reads is named with --wrt."
            )
        if output._value is None:
            symbols = [x.name or "a symbol" for x in find_symbols(output)]
            raise UsageError(
                f"{what} depends on {', '.join(symbols)}, which has no value. A cell"
                " computes with numbers: assign an array to the name before the cell."
                " For an expression, use wb.grad(expression, wrt) and"
                " wb.show(expression) outside %%autodiff."
            )
        nodes = {x.serial for x in self._find_nodes(output)}
        inputs = [x for x in self.leaves.values() if x.serial in nodes]
        aliases = {name: x for name, x in self.aliases.items() if x.serial in nodes}
        wrt: list[Any] = []
        for name in options.wrt:
            leaf = self.leaves.get(name)
            if leaf is None or (
                leaf.serial not in nodes and name in self.assigned_names
            ):
                wrt.append(aliases.get(name, name))
                continue
            wrt.append(leaf)
            if leaf.serial not in nodes:
                inputs.append(leaf)  # for the session to refuse
        seed = None
        if options.seed is not None:
            if options.seed not in self.names:
                raise UsageError(
                    f"--seed {options.seed} is not a variable of the notebook"
                    f"{suggest_name(options.seed, self.names)}"
                )
            seed = self.names[options.seed]
        graph = Graph(inputs, [output])
        graph.decisions = self.decisions
        with warn_at_lines(self.warned):
            session = Session(
                graph,
                output,
                wrt or None,
                name=options.name,
                seed=seed,
                lent=self.lent_arrays,
                backend=options.backend,
            )
            session.nodes.aliases.update(
                (name, session.nodes.find(x)) for name, x in aliases.items()
            )
            # Now, so that errors and warnings of derivatives belong to this cell.
            session.require_backward()
        return session


def find_symbols(output: Tensor) -> list[Tensor]:
    """Return the symbols and shared variables of an expression."""
    return [x for x in walk.order_nodes([output]) if not x.inputs and x._value is None]


def check_wrt(value: object, name: str) -> None:
    """Raise an error of one line for a variable that has no derivative."""
    if is_input(value):
        return
    if is_sparse(value):
        raise DtypeError(
            f"--wrt {name}: a sparse array is a constant of a cell. Make its values a"
            f" variable, v = {name}.data, and in the cell the array of them: wb.scipy"
            f".sparse.csr_array((v, {name}.indices, {name}.indptr), {name}.shape)."
        )
    if isinstance(value, (bool, int)) or hasattr(value, "dtype"):
        dtype = getattr(value, "dtype", type(value).__name__)
        cast = (
            f"{name}.astype(float)"
            if hasattr(value, "astype")
            else repr(float(value))
            if isinstance(value, (bool, int))
            else f"np.asarray({name}, float)"
        )
        raise DtypeError(
            f"--wrt {name}: it is of dtype {dtype}, and only floats and complex numbers"
            f" have derivatives. Write {name} = {cast} before the cell."
        )
    said = f"--wrt {name}: it is a {type(value).__name__}, not an array or a number."
    parts = (
        value.items()
        if isinstance(value, Mapping)
        else enumerate(value)
        if isinstance(value, (list, tuple))
        else getattr(value, "__dict__", {}).items()
    )
    found = next((key for key, part in parts if is_input(part)), None)
    if found is None or callable(value):
        raise DtypeError(f"{said} Give each array a name of its own.")
    part = f"{name}[{found!r}]"
    if not isinstance(value, (Mapping, list, tuple)):
        part = f"{name}.{found}"
    raise DtypeError(f"{said} Its arrays need names{_advise_part(part)}.")
