"""A program as NumPy code that a person reads and that runs on its own.

The whole text: what is imported, helpers, inner functions, and the function, whose
lines `Lines` writes. Constants of a few thousand characters are spelled out; larger
ones are listed and handed over as globals.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from workbench.autodiff.deferred import is_single
from workbench.core import dims, spelling
from workbench.core.deferred import LengthParams, OperandLength, operand_shape
from workbench.core.dims import Dim, has_dim, is_same_shape
from workbench.core.graph import Graph
from workbench.core.op import Lowering, Op
from workbench.core.schedule import Schedule
from workbench.core.tensor import Tensor
from workbench.core.types import spec_of
from workbench.ops.define import ITEM, count_outputs, output_values

# What the functions of one text share, and what ops bring into it.


class Form(NamedTuple):
    """How the function of a text looks."""

    #: Its name.
    name: str = "function"
    #: What the last arguments are by default, where they are not given.
    defaults: Sequence[Any] = ()
    #: What its outputs are returned as, from the code of each.
    nested: Callable[[list[str]], str] | None = None
    #: What is said of it under its head.
    note: str = ""


#: The lines of a function: of its steps and names, its name, arguments and outputs.
Frame = Callable[["Lines", str, list[str], list[str]], list[str]]


class Module:
    """The code that functions of one text share: imports, helpers, globals."""

    def __init__(self) -> None:
        #: Functions that the text calls and defines itself, by name, as code.
        self.helpers: dict[str, str] = {}
        self.imports: set[str] = set()
        self.constants: dict[str, Any] = {}
        #: Arrays of moderate size, by name, as code.
        self.arrays: dict[str, str] = {}
        #: What a function calls itself or hands over: no other may hide it.
        self.globals = {"np", "function", *keyword.kwlist, *dir(builtins)}
        #: What nodes bring along, by serial, and the names of its functions, by key.
        self.brought: dict[int, Lowering] = {}
        self.functions: dict[Any, list[str]] = {}

    def add_helper(self, code: str) -> None:
        """Define a helper, and import the libraries that its code calls."""
        name = helper_name(code)
        self.helpers[name] = code
        self.add_libraries(code)
        self.globals.add(name)

    def add_libraries(self, code: str) -> None:
        """Import the libraries that the code of an op calls."""
        if found := spelling.libraries_of(code):
            self.imports.update(found)
            self.globals.update(found)


def helper_name(code: str) -> str:
    """Return the name of the function that the code of a helper defines."""
    return code.partition("def ")[2].partition("(")[0]


# How settings that hold lengths are written as code: ``np.reshape(x, x.shape)``.
#
# A length that is known only when the program runs is read off an operand there (see
# `core/deferred.py`), and so it is in the text.

#: The code of what lengths broadcast to.
_COMMON = re.compile(r"np\.broadcast_shapes\((?:\([^()]*\)(?:, )?)+\)\[0\]")


def spell_lengths(
    node: Tensor,
    settings: dict[str, Any],
    shape: Callable[[Tensor], str],
    local: Callable[[str], str],
) -> dict[str, Any]:
    """Return the settings of a node with code in place of lengths.

    ``shape(x)`` is the code of the shape of an operand; ``local(code)`` the name of a
    local variable that holds what the code gives.
    """

    def name(place: Any) -> str:
        return f"{shape(node.inputs[place.position])}[{place.axis}]"

    def code(x: Any) -> Any:
        if isinstance(x, Dim):
            text = dims.format_dim(x, name, code=True)
            return spelling.Code(_COMMON.sub(lambda found: local(found[0]), text))
        if not isinstance(x, (tuple, list)) or not has_dim(x):
            return x
        whole = None if hasattr(x, "_fields") else _find_whole_shape(node, x)
        if whole is not None:
            return spelling.Code(shape(node.inputs[whole.position]))
        parts = [code(y) for y in x]
        return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)

    return {k: code(v) for k, v in settings.items()}


def _find_whole_shape(node: Tensor, lengths: Any) -> OperandLength | None:
    """Return a place of the operand with exactly these lengths, or None."""
    places = [n.atom if isinstance(n, Dim) else n for n in lengths]
    first = next((p for p in places if isinstance(p, OperandLength)), None)
    if first is None:
        return None
    have = operand_shape(node.inputs[first.position])
    if len(have) != len(places):
        return None
    for axis, (p, n) in enumerate(zip(places, have, strict=True)):
        same = p == n if isinstance(p, int) and isinstance(n, int) else (
            isinstance(p, OperandLength) and p == OperandLength(first.position, axis)
        )  # fmt: skip
        if not same:
            return None
    return first


# What one function of a text calls its values, and what it calls from outside.


class Names:
    """The names of one function, besides those that its module has."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.constant_names: dict[int, str] = {}
        self.used_names: set[str] = set()
        self.counts: dict[str, int] = {}

    def callee(self, op: Op) -> str:
        """Return how the text calls an op that is a function."""
        if op.custom:
            return self.constant(op.compute, op.name)
        if op.helper:
            return helper_name(op.helper)
        if isinstance(op.compute, np.ufunc) and hasattr(np, op.compute.__name__):
            return f"np.{op.compute.__name__}"
        for prefix, home in (("np", np), ("np.linalg", np.linalg), ("np.fft", np.fft)):
            name = op.name.removeprefix("linalg_").removeprefix("fft_")
            if callable(getattr(home, name, None)):
                return f"{prefix}.{name}"
        return self.constant(op.compute, op.name)

    def literal(self, x: Any, name: str = "c") -> str:
        """Return a constant or a setting as code."""
        spelled = spelling.format_literal(x)
        return self.constant(x, name) if spelled is None else spelled

    def constant(self, x: Any, base: str) -> str:
        """Return the name of a global for a value without a short literal."""
        found = self.constant_names.get(id(x))
        if found is None:
            found = self.constant_names[id(x)] = self.name(base)
            code = spelling.format_array(x, f"{found} = ")
            if code is None:
                self.module.constants[found] = x
            else:
                self.module.arrays[found] = code
            self.module.globals.add(found)
        return found

    def name(self, base: str) -> str:
        """Return a fresh identifier like ``base``."""
        base = re.sub(r"\W+", "_", base).strip("_") or "x"
        if base[0].isdigit():
            base = f"x{base}"
        name, count = base, 0
        while name in self.used_names or name in self.module.globals:
            count = self.counts.get(base, 1) + 1
            self.counts[base] = count
            name = f"{base}_{count}" if base[-1].isdigit() else f"{base}{count}"
        self.used_names.add(name)
        return name


def suggest_name(x: Tensor) -> str:
    """Return a name for a value: the user's, or ``d_`` and that of its primal."""
    if x.name:
        return x.name
    origin = x.origin
    if origin is not None and origin.forward.name:
        return f"d_{origin.forward.name}"
    return "t"


# The lines of one function of a text.
#
# A value that is used once and has no name is written into the expression that uses
# it, as long as the line fits.

WIDTH = 80
INDENT = "    "


#: Where a number beside an array takes the array's dtype.
ARITHMETIC = (np.add, np.subtract, np.multiply, np.divide)


def template_of(node: Tensor, op: Op) -> tuple[str, dict[str, Any]]:
    """Return the text template of a node and its names; empty for a plain call."""
    template = op.template or getattr(op.compute, "template", None)
    if op.custom or template is None:
        return "", {}
    made = template(node) if callable(template) else template
    if made is template and node.params and spelling.OPERATOR.fullmatch(template):
        return "", {}  # np.add(x, y, dtype=...)
    return made if isinstance(made, tuple) else (made or "", {})


class Lines:
    """The lines of one function: a graph, and those nodes that are its steps."""

    def __init__(self, graph: Graph, nodes: Sequence[Tensor], module: Module) -> None:
        self.graph = graph
        self.nodes = nodes
        self.module = module
        self.names = Names(module)
        self.lines: list[str] = []
        #: The first line that belongs to the gradient.
        self.backward: int | None = None
        #: What each op with several outputs has its outputs taken out by.
        self.items: dict[int, list[Tensor]] = {}
        self.expressions: dict[int, spelling.Expression] = {}
        self.uses: dict[int, int] = {}
        #: The names of lengths that are computed, by their code.
        self.lengths: dict[str, str] = {}
        #: How each node is spelled, and what that names besides the settings; no
        #: spelling for a plain call.
        self.templates: dict[int, tuple[str, dict[str, Any]]] = {}
        for node in nodes:
            op = node.op
            template, _ = self.templates[node.serial] = template_of(node, op)
            module.add_libraries(template)
            helper = op.helper
            if helper and (not template or f"{helper_name(helper)}(" in template):
                module.add_helper(helper)
            if op is ITEM and isinstance(node.inputs[0], Tensor):
                self.items.setdefault(node.inputs[0].serial, []).append(node)
            for x in node.inputs:
                if isinstance(x, Tensor):
                    self.uses[x.serial] = self.uses.get(x.serial, 0) + 1
        for y in graph.outputs:
            if isinstance(y, Tensor):  # once more: an output is a line or the return
                self.uses[y.serial] = self.uses.get(y.serial, 0) + 1

    def function(self, name: str, frame: Frame) -> list[str]:
        """Return the lines of one function."""
        arguments = []
        for x in self.graph.leaves:
            arguments.append(self.names.name(x.name or "x"))
            self.expressions[x.serial] = spelling.Expression(
                arguments[-1], spelling.ATOM
            )
        for node in self.nodes:
            self.step(node)
        outputs = [self.operand(y).code for y in self.graph.outputs]
        return frame(self, name, arguments, outputs)

    def split_lines(self) -> list[str]:
        """Return the lines, with a word where the gradient starts if there are many."""
        start = self.backward
        if start is None or start < 2 or len(self.lines) - start < 2:
            return self.lines
        return [
            f"{INDENT}# Forward",
            *self.lines[:start],
            f"{INDENT}# Backward",
            *self.lines[start:],
        ]

    def step(self, node: Tensor) -> None:
        """Write one node into the line of its only reader, or a line of its own."""
        if node.serial in self.expressions:
            return  # unpacked with the other outputs of its op
        made = self.expression(node)
        if len(made.code) > WIDTH - 12:
            for x in node.inputs:
                self.assign_name(x)
            if node.serial in self.expressions:
                return
            made = self.expression(node)
        self.expressions[node.serial] = made
        alone = node.name is None and self.uses.get(node.serial, 0) < 2
        if made.binding == spelling.ATOM and re.fullmatch(r"\w+", made.code):
            return  # only another name for what has one
        returned = len(self.graph.outputs) == 1 and node is self.graph.outputs[0]
        if not alone or len(made.code) > (WIDTH - 8 if returned else WIDTH // 2):
            self.assign_name(node)

    def assign_name(self, x: Any) -> None:
        """Give an expression that waits for its reader a line and a name."""
        if not isinstance(x, Tensor) or x.serial not in self.expressions:
            return
        made = self.expressions[x.serial]
        if re.fullmatch(r"\w+", made.code):
            return
        items = self.items.get(x.serial, [])
        if output_values(x) is not None and len(items) == self.uses[x.serial] > 0:
            self.unpack(x, made.code, items)
            return
        name = self.names.name(suggest_name(x))
        if self.backward is None and x.origin is not None:
            self.backward = len(self.lines)
        self.lines.append(f"{INDENT}{name} = {made.code}")
        self.expressions[x.serial] = spelling.Expression(name, spelling.ATOM)

    def unpack(self, node: Tensor, code: str, items: list[Tensor]) -> None:
        """Unpack several outputs: each that is read gets a name."""
        usual = node.op.output_names
        names = ["_"] * count_outputs(node)
        for item in items:
            i = item.params["index"]
            if names[i] == "_":
                suggested = usual[i] if i < len(usual) else "t"
                names[i] = self.names.name(item.name or suggested)
            self.expressions[item.serial] = spelling.Expression(names[i], spelling.ATOM)
        left = ", ".join(names) if len(names) > 1 else f"({names[0]},)"
        if is_single(node):
            left = names[0]
        self.lines.append(f"{INDENT}{left} = {code}")
        del self.expressions[node.serial]  # all that read it have their names

    def expression(self, node: Tensor) -> spelling.Expression:
        """Return the code of a node, of its operands' code."""
        op = node.op
        operands = [self.operand(x) for x in self.simplify_operands(node)]
        brought = self.module.brought.get(node.serial)
        if brought is not None:
            names = self.module.functions[brought.key]
            code = brought.call(names, [x.code for x in operands])
            return spelling.Expression(code, spelling.ATOM)
        template, named = self.templates[node.serial]
        settings = node.params | named
        if type(node.params) is LengthParams:
            length = partial(self.length, node)
            settings = spell_lengths(node, settings, self.shape, length)
        if (op is ITEM and is_single(node.inputs[0])) or (
            op.ufunc is np.power and operands[1].code == "1"
        ):
            return operands[0]
        template = template or f"{self.names.callee(op)}({{all}}{{more}})"
        template = template if operands else template.replace("{all}{more}", "{more}")
        return spelling.fill_template(template, operands, settings, self.names.literal)

    def shape(self, x: Tensor) -> str:
        """Return the code of an operand's shape; the operand gets a name."""
        self.assign_name(x)
        return f"{self.operand(x).code}.shape"

    def length(self, node: Tensor, code: str) -> str:
        """Return the name of a local length, defined in a line at its first use."""
        name = self.lengths.get(code)
        if name is None:
            if self.backward is None and node.origin is not None:
                self.backward = len(self.lines)
            name = self.lengths[code] = self.names.name("n")
            self.lines.append(f"{INDENT}{name} = {code}")
        return name

    def simplify_operands(self, node: Tensor) -> Sequence[Any]:
        """Return the operands of a node, constants as equal Python numbers if possible.

        It is in arithmetic beside an operand of its dtype and of the result's shape.
        """
        inputs = node.operands
        if node.op.ufunc not in ARITHMETIC or len(inputs) != 2 or node.params:
            return inputs
        for i, x in enumerate(inputs):
            c = (
                x._value
                if isinstance(x, Tensor) and x.serial not in self.expressions
                else x
            )
            other = inputs[1 - i]
            if (
                isinstance(c, (np.generic, np.ndarray))
                and c.dtype.kind in "if"
                and isinstance(other, Tensor)
                and other.serial in self.expressions
                and other.dtype == c.dtype
                and (not c.ndim or is_same_shape(other.shape, node.shape))
                and (number := _find_only_number(c)) is not None
            ):
                pair = [inputs[0], inputs[1]]
                pair[i] = number
                return pair
        return inputs

    def operand(self, x: Any) -> spelling.Expression:
        """Return the code of an operand: a name, a pending expression or a constant."""
        if isinstance(x, Tensor):
            known = self.expressions.get(x.serial)
            if known is not None:
                return known
            x = x._value
        return spelling.constant_expression(self.names.literal(x))


def _find_only_number(c: Any) -> Any:
    """Return the number that all entries of a constant are; None if there is none."""
    flat = np.ravel(c)
    same = flat.size and flat.tobytes() == flat[:1].tobytes() * flat.size
    return flat[0].item() if same else None


def format_head(name: str, arguments: Sequence[str]) -> str:
    """Return the first line of a function, broken into several if too long."""
    line = f"def {name}({', '.join(arguments)}):"
    if len(line) <= WIDTH:
        return line
    body = "".join(f"{INDENT}{argument},\n" for argument in arguments)
    return f"def {name}(\n{body}):"


def write_unframed(
    lines: Lines, name: str, arguments: list[str], outputs: list[str], form: Form
) -> list[str]:
    """Return the lines of a function that is not framed by an op."""
    first = len(arguments) - len(form.defaults)
    kept = arguments[:first]
    for argument, value in zip(arguments[first:], form.defaults, strict=True):
        if value is not None:  # not readable in the text: a generator
            code = lines.names.literal(value, f"{argument}_held")
            kept.append(f"{argument}={code}")
    note = [f'{INDENT}"""{form.note}"""'] if form.note else []
    nested = form.nested or ", ".join
    results = nested(outputs) or "()"
    return [
        format_head(name, kept),
        *note,
        *lines.split_lines(),
        *format_return(results),
    ]


def format_tuple(outputs: Sequence[str]) -> str:
    """Return the code of a returned tuple, also of one entry."""
    return ", ".join(outputs) + "," * (len(outputs) == 1)


def format_return(results: str) -> list[str]:
    """Return the last line, broken at its outermost commas if too long."""
    line = f"{INDENT}return {results}"
    tree = ast.parse(results, mode="eval").body
    if len(line) <= WIDTH + 8 or not isinstance(tree, ast.Tuple):
        return [line]
    parts = (ast.get_source_segment(results, part) for part in tree.elts)
    return [f"{INDENT}return (", *(f"{INDENT * 2}{x}," for x in parts), f"{INDENT})"]


# The whole text

#: The name by which ops are asked for what they bring into a text.
BACKEND = "numpy"


class Text(NamedTuple):
    """The code, and its globals besides imports."""

    source: str
    constants: dict[str, Any]


def write_text(graph: Graph, nodes: Sequence[Tensor], form: Form | None = None) -> Text:
    """Return the code of ``nodes``, the steps from a graph's inputs to its outputs."""
    form = Form() if form is None else form
    module = Module()
    last = Lines(graph, nodes, module)
    module.globals.add(form.name)
    inner = _find_inner_functions(last)
    own = last.function(form.name, partial(write_unframed, form=form))
    above = ["import numpy as np"]
    if module.imports:
        above.append(f"from scipy import {', '.join(sorted(module.imports))}")
    if module.constants:
        above += ["", "# Globals to hand over:"]
        above += [f"#   {name}: {_kind(v)}" for name, v in module.constants.items()]
    if module.arrays:
        above += ["", *module.arrays.values()]
    above += [f"\n\n{code.rstrip()}" for code in module.helpers.values()]
    for lines in [*inner, own]:
        above += ["", "", *lines]
    return Text("\n".join(above), module.constants)


def _find_inner_functions(last: Lines) -> list[list[str]]:
    """Return the functions that ops bring along, those inside others too."""
    module = last.module
    found: list[tuple[Any, str, Lines, Frame]] = []
    known: set[Any] = set()
    waiting = [last]
    while waiting:
        for node in waiting.pop().nodes:
            if node.op.lower is None:
                continue
            brought = node.op.lower(node, BACKEND)
            if brought is None:
                continue
            module.brought[node.serial] = brought
            if brought.key in known:
                continue
            known.add(brought.key)
            for code in brought.helpers:
                module.add_helper(code)
            form = Form(
                nested=format_tuple if output_values(node) is not None else None
            )
            frame = brought.frame or partial(write_unframed, form=form)
            for base, graph in brought.graphs:
                steps = [
                    step.node
                    for step in Schedule(graph.leaves, graph.outputs, whole=True).steps
                ]
                waiting.append(Lines(graph, steps, module))
                found.append((brought.key, base, waiting[-1], frame))
    # They get their names when all that the text defines and imports is known.
    called = [last.names.name(base) for _, base, _, _ in found]
    module.globals.update(called)
    for name, (key, *_) in zip(called, found, strict=True):
        module.functions.setdefault(key, []).append(name)
    # What is called stands above what calls it.
    named = [*zip(called, found, strict=True)]
    return [lines.function(name, frame) for name, (*_, lines, frame) in named[::-1]]


def _kind(value: Any) -> str:
    if hasattr(value, "shape"):
        return repr(spec_of(value))
    return "a function" if callable(value) else type(value).__name__
