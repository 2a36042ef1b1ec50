"""The lines of one function of a text.

A value that is used once and has no name is written into the expression that uses
it, as long as the line fits.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from workbench.backends import libraries
from workbench.backends.measured import binding_of, call_text, coded, single
from workbench.backends.module import HELPERS, Form, Module
from workbench.backends.naming import Names, suggestion
from workbench.backends.spelling import (
    ARITHMETIC,
    ATOM,
    INFIX,
    RENAMED,
    SILENT,
    SPELLED,
    Expression,
    bound,
    index_text,
)
from workbench.core.deferred import Late
from workbench.core.dims import same
from workbench.core.graph import Graph
from workbench.core.op import Op
from workbench.core.tensor import Tensor
from workbench.core.types import spec_of
from workbench.ops.several import ITEM, parts

__all__ = ["Lines", "call_of"]

WIDTH = 80
INDENT = "    "


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
        self.known: dict[int, Expression] = {}
        self.uses: dict[int, int] = {}
        #: The names of lengths that are computed, by their code.
        self.lengths: dict[str, str] = {}
        for node in nodes:
            if template := self.template(node)[0]:
                module.imports.update(libraries.libraries_of(template))
                helper = libraries.HELPERS.get(template.partition("(")[0], "")
                module.imports.update(libraries.libraries_of(helper))
            if node.op is ITEM and isinstance(node.inputs[0], Tensor):
                self.items.setdefault(node.inputs[0].serial, []).append(node)
            for x in node.inputs:
                if isinstance(x, Tensor):
                    self.uses[x.serial] = self.uses.get(x.serial, 0) + 1
        for y in graph.outputs:
            if isinstance(y, Tensor):  # once more: an output is a line or the return
                self.uses[y.serial] = self.uses.get(y.serial, 0) + 1
        module.globals |= module.imports

    def inside(self, name: str, frame: Any) -> list[str]:
        """The lines of a function of an op, in the frame that the op gives."""
        if frame is None:
            return self.function(Form(name))
        arguments = [self.names.name(x.name or "x") for x in self.graph.inputs]
        for x, argument in zip(self.graph.inputs, arguments, strict=True):
            self.known[x.serial] = Expression(argument, ATOM)
        for node in self.nodes:
            self.step(node)
        outputs = [self.operand(y).code for y in self.graph.outputs]
        lines: list[str] = frame(name, arguments, self.lines, outputs, self.names.name)
        return lines

    def function(self, form: Form) -> list[str]:
        """The lines of one function."""
        called, arguments = form.name, []
        for x in self.graph.inputs:
            name = self.names.name(x.name or "x")
            arguments.append(name)
            self.known[x.serial] = Expression(name, ATOM)
        first = len(arguments) - len(form.held)
        for i, value in enumerate(form.held, first):
            if value is None:  # what nobody reads in the text: a generator
                continue
            arguments[i] += f"={self.names.literal(value, f'{arguments[i]}_held')}"
        arguments = arguments[:first] + [a for a in arguments[first:] if "=" in a]
        for node in self.nodes:
            self.step(node)
        outputs = [self.operand(y).code for y in self.graph.outputs]
        results = ", ".join(outputs) or "()"
        if form.nested is not None:
            results = form.nested(outputs)
        head = f"def {called}({', '.join(arguments)}):"
        if len(head) > WIDTH:
            body = "".join(f"{INDENT}{name},\n" for name in arguments)
            head = f"def {called}(\n{body}):"
        note = [f'{INDENT}"""{form.note}"""'] if form.note else []
        return [head, *note, *self.parted(), *returned(results)]

    def parted(self) -> list[str]:
        """The lines, with a word where the gradient starts if there are many."""
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
        """One node: into the line of its only reader, or a line of its own."""
        if node.serial in self.known:
            return  # unpacked with the other outputs of its op
        made = self.expression(node)
        if len(made.code) > WIDTH - 12:
            for x in node.inputs:
                self.settle(x)
            if node.serial in self.known:
                return
            made = self.expression(node)
        self.known[node.serial] = made
        alone = node.name is None and self.uses.get(node.serial, 0) < 2
        if made.binding == ATOM and re.fullmatch(r"\w+", made.code):
            return  # only another name for what has one
        returned = len(self.graph.outputs) == 1 and node is self.graph.outputs[0]
        if not alone or len(made.code) > (WIDTH - 8 if returned else WIDTH // 2):
            self.settle(node)

    def settle(self, x: Any) -> None:
        """Give an expression that waits for its reader a line and a name."""
        if not isinstance(x, Tensor) or x.serial not in self.known:
            return
        made = self.known[x.serial]
        if re.fullmatch(r"\w+", made.code):
            return
        items = self.items.get(x.serial, [])
        if parts(x) is not None and len(items) == self.uses[x.serial] > 0:
            self.unpack(x, made.code, items)
            return
        name = self.names.name(suggestion(x))
        if self.backward is None and x.origin is not None:
            self.backward = len(self.lines)
        self.lines.append(f"{INDENT}{name} = {made.code}")
        self.known[x.serial] = Expression(name, ATOM)

    def unpack(self, node: Tensor, code: str, items: list[Tensor]) -> None:
        """Several outputs: a name for each that somebody reads."""
        usual = libraries.OUTPUTS.get(node.op.name, ())
        names = ["_"] * len(parts(node))
        for item in items:
            i = item.params["index"]
            if names[i] == "_":
                suggested = usual[i] if i < len(usual) else "t"
                names[i] = self.names.name(item.name or suggested)
            self.known[item.serial] = Expression(names[i], ATOM)
        left = ", ".join(names) if len(names) > 1 else f"({names[0]},)"
        if self.single(node):
            left = names[0]
        self.lines.append(f"{INDENT}{left} = {code}")
        del self.known[node.serial]  # all that read it have their names

    def template(self, node: Tensor) -> libraries.Template:
        """How an op is spelled, and what that names; empty for a plain call."""
        op = node.op
        if op.custom:
            return "", {}
        if op.name in libraries.NAMED:
            return libraries.NAMED[op.name](node)
        if op.name.startswith("random_") and "draw" in node.params:
            return libraries.draw(node)
        found = op.template or SPELLED.get(op.name)
        found = found or libraries.FROM_LIBRARIES.get(op.name)
        return found or libraries.special(op, node) or "", {}

    def expression(self, node: Tensor) -> Expression:
        """The code of a node, of its operands' code."""
        op, params = node.op, node.params
        operands = [self.operand(x) for x in self.plainer(node)]
        if isinstance(op, Late):
            params = coded(node, self.shape, partial(self.length, node))
            operands, op = operands[: op.count], op.base
            if op.name == "length":
                return Expression(params["n"], binding_of(params["n"]))
        if op.name == "call":
            code = call_text(params, [x.code for x in operands], self.names.literal)
            if code is not None:
                return Expression(code, ATOM)
        if op is ITEM and self.single(node.inputs[0]):
            return operands[0]
        if op.name in SILENT or (op.name == "power" and operands[1].code == "1"):
            return operands[0]
        if op.name in INFIX and len(operands) == 2 and not params:
            sign, binding, left, right = INFIX[op.name]
            a, b = bound(operands[0], left), bound(operands[1], right)
            return Expression(f"{a} {sign} {b}", binding)
        if op.source is not None:
            brought = op.source(node)
            names = self.module.functions[brought.key]
            return Expression(brought.call(names, [x.code for x in operands]), ATOM)
        if op.body is not None:
            called = self.module.functions[call_of(node)]
            return Expression(f"{called}({', '.join(x.code for x in operands)})", ATOM)
        template, named = self.template(node)
        if template:
            made = self.spelled(template, operands, params | named)
            return Expression(made.code[1:-1], 12) if template[0] == "(" else made
        renamed = RENAMED.get(op.name, {})
        arguments = [x.code for x in operands]
        arguments += [
            f"{renamed.get(k, k)}={self.names.literal(v)}" for k, v in params.items()
        ]
        return Expression(f"{self.names.callee(op)}({', '.join(arguments)})", ATOM)

    def shape(self, x: Tensor) -> str:
        """Return the code of the shape of an operand, which gets a name for it."""
        self.settle(x)
        return f"{self.operand(x).code}.shape"

    def length(self, node: Tensor, code: str) -> str:
        """The name of a local length, which gets a line where a node first wants it."""
        name = self.lengths.get(code)
        if name is None:
            if self.backward is None and node.origin is not None:
                self.backward = len(self.lines)
            name = self.lengths[code] = self.names.name("n")
            self.lines.append(f"{INDENT}{name} = {code}")
        return name

    def single(self, x: Any) -> bool:
        """Whether an op with several outputs is a call that returns the only one."""
        return isinstance(x, Tensor) and single(x.params)

    def plainer(self, node: Tensor) -> Sequence[Any]:
        """The operands of a node, a constant as a Python number if that is equal.

        It is in arithmetic beside an operand of its dtype and of the result's shape.
        """
        inputs = node.inputs
        if node.op.name not in ARITHMETIC or len(inputs) != 2 or node.params:
            return inputs
        for i, x in enumerate(inputs):
            c = x._value if isinstance(x, Tensor) and x.serial not in self.known else x
            other = inputs[1 - i]
            if (
                isinstance(c, (np.generic, np.ndarray))
                and c.dtype.kind in "if"
                and isinstance(other, Tensor)
                and other.serial in self.known
                and other.dtype == c.dtype
                and (not c.ndim or same(other.shape, node.shape))
                and (number := _only_number(c)) is not None
            ):
                pair = [inputs[0], inputs[1]]
                pair[i] = number
                return pair
        return inputs

    def spelled(
        self, template: str, operands: Sequence[Expression], params: dict[str, Any]
    ) -> Expression:
        """A template of `SPELLED`, filled in."""
        named = set(re.findall(r"\{(\w+)", template))

        def fill(match: re.Match[str]) -> str:
            key, number = match[1], int(match[2] or 0)
            if key.isdigit():
                return bound(operands[int(key)], number)
            if key == "all":
                return ", ".join(x.code for x in operands)
            if key == "index" and "key" in params:
                return index_text(params["key"], [x.code for x in operands[number:]])
            if key == "more":
                rest = [(k, v) for k, v in params.items() if k not in named]
                return "".join(f", {k}={self.names.literal(v)}" for k, v in rest)
            return self.names.literal(params[key], key)

        helper = template.partition("(")[0]
        if helper in HELPERS:
            self.module.helpers[helper] = None
        code = re.sub(r"\{(\w+)(?::(\d+))?\}", fill, template)
        return Expression(code, 14 if code.startswith("-") else ATOM)

    def operand(self, x: Any) -> Expression:
        """The code of what a node reads: a name, what waits for it, or a constant."""
        if isinstance(x, Tensor):
            known = self.known.get(x.serial)
            if known is not None:
                return known
            x = x._value
        code = self.names.literal(x)
        return Expression(code, 14 if code.startswith("-") else ATOM)


def _only_number(c: Any) -> Any:
    """The number that all entries of a constant are; None if there is none."""
    if not c.size:
        return None
    first = c.flat[0] if isinstance(c, np.ndarray) else c
    same = c.ndim == 0 or (
        bool(np.all(c == first)) and bool(np.all(np.signbit(c) == np.signbit(first)))
    )
    return first.item() if same else None


def returned(results: str) -> list[str]:
    """The last line, broken at its outermost commas where it is too long."""
    line = f"{INDENT}return {results}"
    if len(line) <= WIDTH + 8:
        return [line]
    parts, depth, start = [], 0, 0
    for i, sign in enumerate(results):
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and not depth:
            parts.append(results[start : i + 1].strip())
            start = i + 1
    if not parts:
        return [line]
    parts.append(f"{results[start:].strip()},")
    inside = [f"{INDENT * 2}{part}" for part in parts]
    return [f"{INDENT}return (", *inside, f"{INDENT})"]


def call_of(node: Tensor) -> tuple[Op, tuple[Any, ...]]:
    """What tells calls of different inner functions apart: the op, its operands."""
    return node.op, tuple(map(spec_of, node.inputs))
