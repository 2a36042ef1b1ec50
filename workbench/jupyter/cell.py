"""Running a ``%%autodiff`` cell: its variables become inputs, its program a graph.

While the cell runs, the notebook's names hold Tensors, in the notebook's real
namespace, so functions that the user has defined in other cells see them too.
Afterwards the notebook is as the same cell without the magic would have left it.

Line numbers are those that the notebook's editor shows: the magic's own line is
line 1. So are those of tracebacks, of ``place`` (``[3]:2``) and on the wire.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any

import numpy as np

from workbench.core import aliases, trace, traces, types, walk
from workbench.core.graph import Graph
from workbench.core.tensor import Tensor, next_serial
from workbench.core.tree import is_sparse
from workbench.errors import (
    DisconnectedInputError,
    DtypeError,
    TraceError,
    UsageError,
)
from workbench.jupyter import rewrite
from workbench.jupyter.cell_context import cell_number, uninterrupted, warning_at_lines
from workbench.jupyter.failure import shown
from workbench.jupyter.items import Runtime
from workbench.jupyter.memory import Memory, is_array, plain, root
from workbench.jupyter.options import Options, close, is_input
from workbench.jupyter.plain import Plain
from workbench.session import Session

__all__ = ["Cell"]

Names = dict[str, Any]

#: The output of a cell that did not get to it.
MISSING = object()

#: What all rewritten code calls; functions of a cell may outlive it.
RUNTIME = Runtime()


class Cell:
    """One run of one cell.

    Parameters
    ----------
    shell
        The IPython shell whose namespace the cell runs in.
    options
        What the magic's line says.
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
        # IPython takes blank lines at the start away; the editor counts them.
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
        #: The names that the cell binds.
        self.made: list[str] = []

    def run(self) -> tuple[Session, Any]:
        """Run the cell; its session, and the value of its last expression.

        Raises
        ------
        UsageError
            In one line, if the options do not fit the cell; nothing has run.
        BaseException
            What the cell raises, shown with the user's lines alone. The notebook
            then holds what the cell has done so far, and the session it held.
        """
        with self._showing():
            tree = self.shell.compile.ast_parse(self.source, self.filename)
            tree = self.shell.transform_ast(tree)
        if not tree.body:
            raise UsageError("%%autodiff: the cell is empty")
        inputs = self._inputs(tree)
        with self._showing():
            output, value = self._traced(tree, inputs)
            session: Session = self._at_line(1, lambda: self._session(output))
        self.names[self.options.name] = session
        return session, value

    def then(self, step: Callable[[], Any]) -> None:
        """Do something with the session, as if the magic's line did it."""
        with self._showing():
            self._at_line(1, step)

    @contextmanager
    def _showing(self) -> Iterator[None]:
        """Let what is raised in the block be shown with the user's lines alone."""
        try:
            yield
        except BaseException as error:
            made = shown(error, self.shell, self.filename)
            if made is error:
                raise
            raise made from None

    def _at_line(self, line: int, make: Callable[[], Any]) -> Any:
        """Run something as if it stood in that line, so that an error shows it."""
        code = compile("\n" * (line - 1) + "made = make()", self.filename, "exec")
        frame: Names = {"make": make}
        exec(code, frame)
        return frame["made"]

    # Before

    def _inputs(self, tree: ast.Module) -> Names:
        """The variables that become inputs, in the order of their reading."""
        options, names = self.options, self.names
        made = self.made = rewrite.assigned(tree)
        read = rewrite.names_read(self.source, tree)
        if options.output is None and not isinstance(tree.body[-1], ast.Expr):
            last = f", as in %%autodiff {made[-1]}" if made else ""
            raise UsageError(
                "%%autodiff: what is to be differentiated? Name it after"
                f" %%autodiff{last}, or end the cell with an expression"
            )
        if options.output is not None and options.output not in made:
            raise UsageError(
                f"%%autodiff {options.output}: the cell does not assign"
                f" {options.output}{close(options.output, made)}"
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
                    f"%%autodiff: --wrt {name} is no variable of the notebook"
                    f"{close(name, known)}"
                )
            check_wrt(names[name], name)
        # What the cell makes anew is no input, whatever it was in an earlier run.
        wanted = dict.fromkeys([*read, *(n for n in options.wrt if n not in made)])
        hidden = self.shell.user_ns_hidden
        return {
            name: names[name]
            for name in wanted
            if name in names and is_input(names[name]) and name not in hidden
        }

    # While it runs

    def _traced(self, tree: ast.Module, inputs: Names) -> tuple[Any, Any]:
        """Run the cell; the output, and the last expression's value, made plain."""
        last = tree.body[-1]
        stores = any(
            isinstance(x, ast.AugAssign)
            or (isinstance(x, ast.Subscript) and isinstance(x.ctx, ast.Store))
            for x in ast.walk(tree)
        )
        older = [*inputs.values(), *self._arrays(inside=stores)]
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
        memory = Memory(self.names, older)
        self.start = next_serial()
        value: Any = None
        setattr(builtins, rewrite.RUNTIME, RUNTIME)
        outer, RUNTIME.memory = RUNTIME.memory, memory
        try:
            with trace.opened(list(inputs.values()), list(inputs)) as leaves:
                self.leaves = dict(zip(inputs, leaves, strict=True))
                for leaf in leaves:
                    leaf.code = None  # an input comes from no line of this cell
                opening = traces.LOCAL.stack[-1]
                if known:
                    # What depends on the others alone converts freely.
                    opening.leaves = {self.leaves[n].serial for n in wrt}
                self.names.update(self.leaves)
                try:
                    with warning_at_lines():
                        exec(code, self.names)
                        if end is not None:
                            value = eval(end, self.names)
                finally:
                    memory.note_changes(opening.changes)
                    locked = opening.hold.arrays.values()
                    memory.locked = {id(root(x)): x for x in locked}
                output = self._output(value)
                aliases.check_read([output], "is the output of the cell")
            self._check_reads(memory, output)
        finally:
            with uninterrupted():
                RUNTIME.memory = outer
                value = self._restored(memory, value, tree)
        if memory.problem is not None:
            self._refuse(1, memory.problem)
        return output, value

    def _arrays(self, inside: bool) -> list[Any]:
        """The arrays that are there before the cell."""
        if not inside:
            return [x for x in self.names.values() if is_array(x)]
        found: list[Any] = []

        def note(x: Any) -> Any:
            if is_array(x):
                found.append(x)
            return x

        Plain(note).names(self.names, self.shell.user_ns_hidden)
        return found

    def _output(self, value: Any) -> Any:
        name = self.options.output
        if name is None:
            return value
        output = self.names.get(name, MISSING)
        if isinstance(output, Tensor) and output.name is None:
            output.name = name
        return output

    def _nodes(self, output: Any) -> list[Tensor]:
        if not isinstance(output, Tensor) or not self.leaves:
            return []
        first = min(x.serial for x in self.leaves.values())
        return walk.order([output], first)

    def _check_reads(self, memory: Memory, output: Any) -> None:
        """Refuse a program that has read what an item assignment had changed."""
        found = memory.stale_read(self._nodes(output))
        if found is not None:
            node, message = found
            site = node.site
            own = site is not None and site.filename == self.filename
            self._refuse(site.line if site is not None and own else 1, message)

    def _refuse(self, line: int, message: str) -> None:
        def refuse() -> None:
            raise TraceError(message)

        self._at_line(line, refuse)

    # After

    def _restored(self, memory: Memory, value: Any, tree: ast.Module) -> Any:
        """Make the notebook plain again, and the last expression's value too."""
        for name in self.made:
            RUNTIME.named(self.names.get(name), name)
        made = Plain(lambda x: plain(x, memory, self.start))
        made.names(self.names, self.shell.user_ns_hidden)
        for node in ast.walk(tree):
            # Of objects that the notebook has not defined, those that the cell names.
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                base = node.value
                while isinstance(base, (ast.Attribute, ast.Subscript)):
                    base = base.value
                if isinstance(base, ast.Name) and base.id in self.names:
                    made.inside(self.names[base.id])
        return made.one(value)

    def _session(self, output: Any) -> Session:
        options = self.options
        what = options.output or "the last expression"
        if output is MISSING:
            raise UsageError(
                f"the cell has not assigned {what}: the lines that do have not run."
            )
        if not isinstance(output, Tensor):
            text = repr(output) if np.ndim(output) == 0 else types.spec_of(output)
            reads = ", ".join(self.leaves)
            raise DisconnectedInputError(
                f"{what} is {text}, which depends on no float variable of the notebook"
                f" (the cell reads {reads or 'none'}). Compute it from one with NumPy;"
                " a variable that only a function reads is named with --wrt."
            )
        if output._value is None:
            symbols = [x.name or "a symbol" for x in open_leaves(output)]
            raise UsageError(
                f"{what} depends on {', '.join(symbols)}, without a value. A cell"
                " computes with numbers: give the name an array before the cell. Of"
                " an expression, outside %%autodiff, wb.grad(expression, wrt) is"
                " the derivative, and wb.show(expression) the picture."
            )
        nodes = {x.serial for x in self._nodes(output)}
        inputs = [x for x in self.leaves.values() if x.serial in nodes]
        wrt: list[Any] = []
        for name in options.wrt:
            leaf = self.leaves.get(name)
            if leaf is None or (leaf.serial not in nodes and name in self.made):
                wrt.append(name)
                continue
            wrt.append(leaf)
            if leaf.serial not in nodes:
                inputs.append(leaf)  # for the session to refuse
        seed = None
        if options.seed is not None:
            if options.seed not in self.names:
                raise UsageError(
                    f"--seed {options.seed} is no variable of the notebook"
                    f"{close(options.seed, self.names)}"
                )
            seed = self.names[options.seed]
        return Session(
            Graph(inputs, [output]),
            output,
            wrt or None,
            name=options.name,
            seed=seed,
        )


def open_leaves(output: Tensor) -> list[Tensor]:
    """The symbols and shared variables of an expression."""
    return [x for x in walk.order([output]) if not x.inputs and x._value is None]


def check_wrt(value: Any, name: str) -> None:
    """Refuse a variable that has no derivative, in one line."""
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
    raise DtypeError(
        f"--wrt {name}: it is a {type(value).__name__}, not an array or a number. Give"
        " each array a name of its own."
    )
