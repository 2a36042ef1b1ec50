"""What writes a graph as the nodes of an ONNX model.

An op is asked what it is: its ufunc, of which `UFUNCS` tells the name in ONNX; the
formula of one entry in its row; that it hands its operand on; how a reduction combines
entries; the programs that it holds. A few ops that move entries have a function in
`export`, entered by `writes`. All others are followed into their bodies, to these.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import scipy.special

from workbench.control_flow.cond import cond
from workbench.core import blame, dims, types
from workbench.core.graph import Graph
from workbench.core.op import Choice, Op, Repetition
from workbench.core.tensor import Tensor, apply, value_of
from workbench.core.trace import make_leaf_like
from workbench.core.walk import is_leaf
from workbench.errors import ModelError
from workbench.ops.indexing import (
    Slice,
)

#: What ONNX calls NumPy's and SciPy's ufuncs.
UFUNCS: dict[np.ufunc, str] = {
    np.absolute: "Abs", np.add: "Add", np.arccos: "Acos", np.arccosh: "Acosh",
    np.arcsin: "Asin", np.arcsinh: "Asinh", np.arctan: "Atan", np.arctanh: "Atanh",
    np.ceil: "Ceil", np.cos: "Cos", np.cosh: "Cosh", np.divide: "Div",
    np.equal: "Equal", np.exp: "Exp", np.floor: "Floor", np.fmod: "Mod",
    np.greater: "Greater",
    np.greater_equal: "GreaterOrEqual", np.isinf: "IsInf", np.isnan: "IsNaN",
    np.less: "Less", np.less_equal: "LessOrEqual", np.log: "Log",
    np.logical_and: "And", np.logical_not: "Not", np.logical_or: "Or",
    np.logical_xor: "Xor", np.maximum: "Max", np.minimum: "Min",
    np.multiply: "Mul", np.negative: "Neg", np.power: "Pow",
    np.reciprocal: "Reciprocal", np.rint: "Round", np.sign: "Sign", np.sin: "Sin",
    np.sinh: "Sinh", np.sqrt: "Sqrt", np.subtract: "Sub", np.tan: "Tan",
    np.tanh: "Tanh", scipy.special.erf: "Erf", scipy.special.expit: "Sigmoid",
}  # fmt: skip
#: The same of operands that are booleans.
OF_BOOLEANS = {
    np.absolute: "Identity", np.add: "Or", np.bitwise_and: "And",
    np.bitwise_or: "Or", np.bitwise_xor: "Xor", np.invert: "Not",
    np.maximum: "Or", np.minimum: "And", np.multiply: "And", np.not_equal: "Xor",
}  # fmt: skip


def _expand_erfc() -> str:
    """Return a formula of 1 - erf(x) that keeps the digits of a large x.

    The trapezoid rule, of steps of 1/2, for the integral over t of
    exp(-x² - t²) x / (π (x² + t²)), whose error is below 1e-17 of it; the pole at
    t = ix adds the last term as long as it lies near.
    """
    terms = "".join(
        f" + {2 * math.exp(-k * k / 4)!r} / (x + {k * k / 4} / x)" for k in range(1, 13)
    )
    near = f"where(x < 6, 2 / (exp({4 * math.pi!r} * x) - 1), 0)"
    far = f"exp(-x * x) * (1 / x{terms}) * {0.5 / math.pi!r} - {near}"
    return f"where(x < 0.5, 1 - erf(x), {far})"


#: What other ufuncs are, in the words of `Op.scalar`.
FORMULAS: dict[np.ufunc, str] = {
    # The quotient has half of the plane; the other is half a turn away.
    np.arctan2: "where(x1 == 0, sign(x0) * 1.5707963267948966, arctan(x0 / x1)"
    " + where(x1 < 0, where(x0 < 0, -3.141592653589793, 3.141592653589793), 0))",
    np.cbrt: "sign(x) * abs(x) ** (1 / 3)",
    np.fmax: "where(isnan(x0), x1, where(isnan(x1), x0, maximum(x0, x1)))",
    np.fmin: "where(isnan(x0), x1, where(isnan(x1), x0, minimum(x0, x1)))",
    np.conjugate: "x", np.exp2: "exp(x * 0.6931471805599453)",
    # Both without the digits that a small x would lose (W. Kahan).
    np.expm1: "where(abs(x) < 0.5, where(exp(x) == 1, x,"
    " (exp(x) - 1) * x / log(exp(x))), exp(x) - 1)",
    # Of the largest, whose square may be too large or too small.
    np.hypot: "where(isinf(x0) | isinf(x1), inf,"
    " where(maximum(abs(x0), abs(x1)) == 0, abs(x0) + abs(x1),"
    " maximum(abs(x0), abs(x1)) * sqrt(1 + (minimum(abs(x0), abs(x1))"
    " / maximum(abs(x0), abs(x1))) ** 2)))",
    np.log10: "log(x) * 0.4342944819032518", np.log2: "log(x) * 1.4426950408889634",
    np.log1p: "where(abs(x) < 0.5, where(1 + x == 1, x, log(1 + x) * x / (1 + x - 1)),"
    " log(1 + x))",
    # By the exact remainder: x0 / x1 may be rounded up to a whole number.
    np.floor_divide: "where(x1 == 0, x0 / x1, rint((x0 - fmod(x0, x1)) / x1"
    " - where(fmod(x0, x1) * sign(x1) < 0, 1, 0)))",
    np.positive: "x",
    np.remainder: "where(fmod(x0, x1) * sign(x1) < 0, fmod(x0, x1) + x1, fmod(x0, x1))",
    np.trunc: "sign(x) * floor(abs(x))",
    scipy.special.erfc: _expand_erfc(),
}  # fmt: skip
#: The reductions that combine entries by a ufunc.
REDUCTIONS = {
    np.add: "ReduceSum", np.maximum: "ReduceMax", np.minimum: "ReduceMin",
    np.multiply: "ReduceProd", np.logical_and: "ReduceMin", np.logical_or: "ReduceMax",
}  # fmt: skip

_OPERATORS: dict[type[ast.AST], np.ufunc] = {
    ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply,
    ast.Div: np.divide, ast.Pow: np.power, ast.BitAnd: np.logical_and,
    ast.BitOr: np.logical_or, ast.USub: np.negative, ast.Lt: np.less,
    ast.LtE: np.less_equal, ast.Gt: np.greater, ast.GtE: np.greater_equal,
    ast.Eq: np.equal,
}  # fmt: skip


#: What writes an op of the library, and returns the name of its result; None where
#: its settings are not those that it can write.
_WRITERS: dict[Op, Callable[[Writer, Tensor], str | None]] = {}


def writes(op: Op) -> Callable[[Any], Any]:
    """Return what enters a function as the writer of an op."""

    def enter(f: Any) -> Any:
        _WRITERS[op] = f
        return f

    return enter


class Writer:
    """The nodes of a model that grows, and the names of its values."""

    def __init__(self, onnx: Any, outer: Writer | None = None) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        #: The names of Tensors; of one with several outputs, their list.
        self.names: dict[Tensor, Any] = dict(outer.names) if outer else {}
        self.root: Writer = outer.root if outer else self
        self.count = 0
        #: Constants that are written once, by their contents.
        self.constants: dict[Any, str] = {}
        #: The node of the user's that is written.
        self.node: Tensor | None = outer.node if outer else None

    def make_name(self, word: str) -> str:
        """Return a name that the model does not have."""
        self.root.count += 1
        return f"{word}_{self.root.count}"

    def add(self, kind: str, *inputs: str, **settings: Any) -> str:
        """Add a node of one output and return its name."""
        name = self.make_name(kind)
        self.add_node(kind, inputs, [name], **settings)
        return name

    def add_node(
        self,
        kind: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        **settings: Any,
    ) -> None:
        """Add a node between values that have names."""
        made = self.onnx.helper.make_node(kind, inputs, outputs, outputs[0], **settings)
        self.nodes.append(made)

    def constant(self, value: Any, dtype: Any = None) -> str:
        """Return the name of an array."""
        array = np.asarray(value, dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        root = self.root
        if key not in root.constants:
            root.constants[key] = name = self.make_name("constant")
            root.initializers.append(self.onnx.numpy_helper.from_array(array, name))
        return root.constants[key]

    def integers(self, numbers: Sequence[Any]) -> str:
        """Return the name of integers, lengths or axes, that are known."""
        if not all(isinstance(n, (int, np.integer)) for n in numbers):
            raise self.refuse("a length is not known. Trace at arrays or known shapes")
        return self.constant(list(numbers), np.int64)

    def name_of(self, x: Any, dtype: Any = None) -> str:
        """Return the name of an operand, in a dtype if one is given."""
        if not isinstance(x, Tensor) or x not in self.names:
            if isinstance(x, Tensor) and value_of(x) is None:
                raise self.refuse("it reads a symbol that is no input of the graph")
            return self.constant(value_of(x), dtype)
        name: str = self.names[x]
        return name if dtype is None else self.cast(name, types.spec_of(x).dtype, dtype)

    def cast(self, name: str, old: Any, new: Any) -> str:
        """Return the name of a value in another dtype."""
        if np.dtype(old) == np.dtype(new):
            return name
        return self.add("Cast", name, to=self.code(new))

    def code(self, dtype: Any) -> int:
        """Return ONNX's number of a dtype."""
        if np.dtype(dtype).kind not in "biuf":
            raise self.refuse(f"ONNX's ops do not compute with {np.dtype(dtype)}")
        return int(self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def describe(self, name: str, x: Any) -> Any:
        """Return what a graph says of an input or output."""
        spec = types.spec_of(x)
        shape = [n if isinstance(n, int) else None for n in spec.shape]
        return self.onnx.helper.make_tensor_value_info(
            name, self.code(spec.dtype), shape
        )

    def refuse(self, why: str) -> ModelError:
        """Return the error for the node that is written."""
        node = self.node
        if node is None:
            return ModelError(f"to_onnx{blame.user_line()}: {why}.")
        site = blame.quote_site(node.site) or blame.user_line()
        return ModelError(f"to_onnx: {blame.describe(node)}{site}: {why}.")

    # Programs

    def write_program(self, graph: Graph, word: str) -> list[Any]:
        """Write a graph whose inputs have names; return what describes its outputs."""
        self.write_nodes(graph)
        described = []
        for i, y in enumerate(graph.outputs):
            name = f"{word}{i}" if self is self.root else self.make_name(word)
            source = self.name_of(y, types.spec_of(y).dtype)
            self.add_node("Identity", [source], [name])
            described.append(self.describe(name, y))
        return described

    def write_nodes(self, graph: Graph, inside: bool = False) -> None:
        """Write the nodes of a graph; ``inside`` the body of one of the user's."""
        for node in graph.interior:
            if node in self.names:
                continue
            if not inside:
                self.node = node
            self.names[node] = self.write(node)

    def write(self, node: Tensor) -> Any:
        """Write a node; return its name, or the names of its outputs."""
        op: Any = node.op
        made: Any = None
        if not node.inputs:
            known = value_of(node)
            if known is None and is_leaf(node):
                raise self.refuse(
                    f"the graph reads {blame.describe(node)}, a symbol that is none of"
                    " its inputs. Make it an input"
                )
            return self.constant(op.compute(**node.params) if known is None else known)
        if op in _WRITERS:
            made = _WRITERS[op](self, node)
        if made is None and op.ufunc is not None:
            made = self.write_ufunc(op.ufunc, node)
        if made is None and op.combines in REDUCTIONS and op.kind == "reduction":
            made = self.write_reduction(REDUCTIONS[op.combines], node)
        if made is None and op.traits.moves and len(node.inputs) == 1:
            made = self.write_move(node) if op.unfold is None else None
        if made is None and op.passes:
            made = self.name_of(node.inputs[0], types.spec_of(node).dtype)
        if made is None and op.elementwise and op.scalar:
            made = self.write_formula(op.scalar, node)
        if made is None and op.lower is not None:
            made = self.write_programs(op.lower(node, "compiled"), node)
        if made is None:
            made = self.follow_body(node)
        return made

    def follow_body(self, node: Tensor) -> Any:
        """Write the ops that a node is made of."""
        op: Any = node.op
        leaves = [make_leaf_like(types.spec_of(x)) for x in node.inputs]
        outputs: Any = None
        if op.finite is not None:
            outputs = [contract_masked(op, node.params, leaves)]
        elif op.unfold is not None:
            outputs = op.unfold(leaves, node.params)
        if outputs is None:
            raise self.refuse(
                "ONNX has no op for it, and its row no body that could be followed."
                " Compute it outside, or write it with simpler ops"
            )
        spec = types.spec_of(node)
        specs = spec if isinstance(spec, tuple) else (spec,)
        for leaf, x in zip(leaves, node.inputs, strict=True):
            self.names[leaf] = self.name_of(x, types.spec_of(leaf).dtype)
        inner = Graph(leaves, [y for y in outputs if isinstance(y, Tensor)])
        self.write_nodes(inner, inside=True)
        names = [self.name_of(y, s.dtype) for y, s in zip(outputs, specs, strict=True)]
        return names if isinstance(spec, tuple) else names[0]

    def write_programs(self, held: Any, node: Tensor) -> Any:
        """Write a loop or a branch that a node holds."""
        if isinstance(held, Repetition):
            return self.write_loop(held, node)
        if isinstance(held, Choice):
            return self.write_choice(held, node)
        return None

    def write_inner(
        self, graph: Graph, values: Sequence[str], inputs: Sequence[tuple[str, Any]]
    ) -> tuple[Any, list[Any]]:
        """Return a graph as one that stands in a node, and its outputs."""
        inner = Writer(self.onnx, self)
        for leaf, name in zip(graph.inputs, values, strict=True):
            inner.names[leaf] = name
        described = [inner.describe(name, x) for name, x in inputs]
        outputs = inner.write_program(graph, "result")
        made = self.onnx.helper.make_graph(
            inner.nodes, self.make_name("body"), described, outputs
        )
        return made, outputs

    def write_loop(self, held: Repetition, node: Tensor) -> Any:
        """Write a loop of known length as a `Scan`."""
        if held.until or held.steps is None or held.every:
            raise self.refuse(
                "ONNX's loops of an open end, or that keep some states, are not"
                " written. Give wb.scan a number of steps and memory='all'"
            )
        leaves = held.body.inputs
        operands = list(node.inputs[len(node.inputs) - len(leaves) :])
        n, m = held.consts, held.consts + held.seqs
        values = [self.name_of(x, types.spec_of(leaf).dtype)
                  for x, leaf in zip(operands, leaves, strict=True)]  # fmt: skip
        names = [*values[:n], *(self.make_name("entry") for _ in leaves[n:])]
        state = list(zip(names[m:], leaves[m:], strict=True))
        entries = list(zip(names[n:m], leaves[n:m], strict=True))
        clock = make_leaf_like(types.Spec((), np.dtype(np.int64)))
        entries.append((self.make_name("step"), clock))
        body, described = self.write_inner(held.body, names, [*state, *entries])
        sequences = [*values[n:m], self.constant(np.arange(held.steps))]
        back = {0: Slice(None, None, -1)}
        if held.reverse:
            sequences = [self.slice_axes(name, back) for name in sequences]
        outputs = [self.make_name("loop") for _ in described]
        self.add_node(
            "Scan", [*values[m:], *sequences], outputs, body=body,
            num_scan_inputs=len(sequences),
        )  # fmt: skip
        made = []
        for kind, i in held.results:
            if kind not in ("last", "rows"):
                raise self.refuse(f"ONNX's loops do not give {kind}")
            whole = kind == "rows" and held.reverse
            # The row of a step stands where the entries that it took do.
            made.append(self.slice_axes(outputs[i], back) if whole else outputs[i])
        return made if isinstance(types.spec_of(node), tuple) else made[0]

    def write_choice(self, held: Choice, node: Tensor) -> Any:
        """Write a branch as an `If`."""
        flag = self.name_of(node.inputs[0], bool)
        flag = self.reshape(flag, ())
        values = [self.name_of(x) for x in node.inputs[1:]]
        yes, described = self.write_inner(held.branches[0], values, [])
        no, _ = self.write_inner(held.branches[1], values, [])
        outputs = [self.make_name("choice") for _ in described]
        self.add_node("If", [flag], outputs, then_branch=yes, else_branch=no)
        return outputs if isinstance(types.spec_of(node), tuple) else outputs[0]

    # Entry by entry

    def write_ufunc(self, ufunc: np.ufunc, node: Tensor) -> str | None:
        """Write a ufunc; None if it is neither ONNX's nor has a formula here."""
        dtype = _common_dtype(node.inputs, types.spec_of(node).dtype)
        made = types.spec_of(node).dtype
        kind = UFUNCS.get(ufunc)
        if dtype.kind == "b" and ufunc in OF_BOOLEANS:
            kind = OF_BOOLEANS[ufunc]
        elif dtype.kind in "iub" and ufunc in (np.floor, np.ceil, np.trunc, np.rint):
            return self.name_of(node.inputs[0], made)
        elif dtype.kind in "iu" and ufunc in (np.remainder, np.floor_divide):
            return self._divide_integers(ufunc, [self.name_of(x, dtype)
                                                 for x in node.inputs])  # fmt: skip
        elif ufunc in (np.logical_and, np.logical_not, np.logical_or, np.logical_xor):
            dtype = np.dtype(bool)
        elif dtype.kind in "iub" and ufunc in (np.isnan, np.isinf):
            dtype = np.dtype(np.float64)
        elif dtype.kind == "b" and made.kind == "b":
            dtype = np.dtype(np.int32)  # a comparison
        elif dtype.kind == "b" or (dtype.kind in "iu" and made.kind == "f"):
            dtype = made
        names = [self.name_of(x, dtype) for x in node.inputs]
        if ufunc is np.not_equal and kind is None:
            return self.add("Not", self.add("Equal", *names))
        if kind is None:
            formula = FORMULAS.get(ufunc)
            return formula and self.write_formula(formula, node)
        return self.add_ufunc(ufunc, kind, names)

    def add_ufunc(self, ufunc: np.ufunc, kind: str, names: Sequence[str]) -> str:
        """Add a node for a ufunc, with the setting by which ONNX's op is it."""
        if ufunc is np.fmod:
            return self.add(kind, *names, fmod=1)
        return self.add(kind, *names)

    def _divide_integers(self, ufunc: np.ufunc, names: Sequence[str]) -> str:
        """Write a quotient rounded down, or its rest, without floats."""
        a, b = names
        rest = self.add("Mod", a, b)
        if ufunc is np.remainder:
            return rest
        return self.add("Div", self.add("Sub", a, rest), b)

    def write_formula(self, text: str, node: Tensor) -> str | None:
        """Write the formula of one entry; None if ONNX lacks a function in it."""
        dtype = _common_dtype(node.inputs, types.spec_of(node).dtype)
        if dtype.kind != "f":  # NumPy computes floats of integers
            dtype = types.spec_of(node).dtype
        if dtype.kind != "f":
            return None
        names = {f"x{i}": self.name_of(x, dtype) for i, x in enumerate(node.inputs)}
        names["x"] = names["x0"]
        made = self.write_expression(ast.parse(text, mode="eval").body, names, dtype)
        return made

    def write_expression(
        self, e: ast.expr, names: dict[str, str], dtype: Any
    ) -> str | None:
        """Write an expression of `Op.scalar`."""

        def inner(part: ast.expr) -> str | None:
            return self.write_expression(part, names, dtype)

        match e:
            case ast.Name(id="inf"):
                return self.constant(np.inf, dtype)
            case ast.Name(id=name):
                return names.get(name)
            case ast.Constant(value=value):
                return self.constant(value, dtype)
            case ast.BinOp(left=a, op=op, right=b) if type(op) in _OPERATORS:
                return self._apply(_OPERATORS[type(op)], [inner(a), inner(b)])
            case ast.UnaryOp(op=op, operand=a) if type(op) in _OPERATORS:
                return self._apply(_OPERATORS[type(op)], [inner(a)])
            case ast.Compare(left=a, ops=[op], comparators=[b]):
                if type(op) in _OPERATORS:
                    return self._apply(_OPERATORS[type(op)], [inner(a), inner(b)])
            case ast.Call(func=ast.Name(id="where"), args=[c, a, b]):
                parts = [inner(c), inner(a), inner(b)]
                if None not in parts:
                    return self.add("Where", *map(str, parts))
            case ast.Call(func=ast.Name(id=name), args=args):
                ufunc = getattr(np, name, None) or getattr(scipy.special, name, None)
                parts = [inner(a) for a in args]
                if ufunc in FORMULAS and None not in parts:
                    more = {f"x{i}": str(p) for i, p in enumerate(parts)}
                    more["x"] = str(parts[0])
                    body = ast.parse(FORMULAS[ufunc], mode="eval").body
                    return self.write_expression(body, more, dtype)
                return self._apply(ufunc, parts)
        return None

    def _apply(self, ufunc: Any, parts: Sequence[str | None]) -> str | None:
        kind = UFUNCS.get(ufunc) if isinstance(ufunc, np.ufunc) else None
        if kind is None or None in parts:
            return None
        return self.add_ufunc(ufunc, kind, list(map(str, parts)))

    # By shape and place

    def reshape(self, name: str, shape: Sequence[Any]) -> str:
        """Write a value in another shape."""
        return self.add("Reshape", name, self.integers(shape), allowzero=1)

    def move(self, places: Any, name: str) -> str:
        """Write the entries of a value at flat places."""
        flat = self.reshape(name, [-1])
        return self.add("Gather", flat, self.constant(places))

    def write_move(self, node: Tensor) -> str | None:
        """Write an op that moves entries alone: it tells where they go."""
        op: Any = node.op
        shape = types.spec_of(node.inputs[0]).shape
        if dims.has_dim(shape):
            return None
        places = np.arange(math.prod(shape)).reshape(shape)
        return self.move(
            np.asarray(op.compute(places, **node.params)), self.name_of(node.inputs[0])
        )

    def slice_axes(
        self,
        name: str,
        slices: dict[int, Slice],
        lengths: Mapping[int, Any] = MappingProxyType({}),
    ) -> str:
        """Write slices of axes, a step of which may go back."""
        if not slices:
            return name
        far = 2**62  # beyond any length: up to the end
        starts, stops, steps = [], [], []
        for axis, part in slices.items():
            step, n = part.step or 1, lengths.get(axis)
            if isinstance(n, int) and not range(*slice(*part).indices(n)):
                part = Slice(
                    0, 0, 1
                )  # ONNX begins at the first entry what lies before it
                step = 1
            first, last = (0, far) if step > 0 else (-1, -far)
            starts.append(first if part.start is None else part.start)
            stops.append(last if part.stop is None else part.stop)
            steps.append(step)
        columns = (starts, stops, [*slices], steps)
        return self.add("Slice", name, *map(self.integers, columns))

    # Along axes

    def write_reduction(self, kind: str, node: Tensor) -> str | None:
        """Write a reduction of axes, in the dtype of its result."""
        if node.params.keys() - {"axis", "keepdims"} or len(node.inputs) > 1:
            return None
        x, dtype = node.inputs[0], types.spec_of(node).dtype
        truths = dtype.kind == "b" and types.spec_of(x).dtype.kind == "b"
        if dtype.kind not in "fiu" and not truths:
            return None
        if truths and 0 in types.spec_of(x).shape:  # of nothing: any is False, all True
            nothing = np.full(types.spec_of(node).shape, kind == "ReduceMin")
            return self.constant(nothing)
        # Truths are reduced as integers: before opset 20 there is no other way.
        name, axis = self.name_of(x, "i4" if truths else dtype), node.params.get("axis")
        keep = int(node.params.get("keepdims", False))
        axes = axis if isinstance(axis, tuple) else (axis,)
        if axis is None:
            made = self.add(kind, name, keepdims=keep)
        elif axes:
            made = self.add(kind, name, self.integers(axes), keepdims=keep)
        else:
            made = name
        return self.cast(made, "i4", bool) if truths else made


def _common_dtype(inputs: Sequence[Any], fallback: Any) -> Any:
    """Return the dtype in which NumPy computes with these operands."""
    specs = [types.spec_of(x) for x in inputs]
    firm = [s.dtype for s in specs if not s.weak]
    weak = [np.zeros((), s.dtype).item() for s in specs if s.weak]
    return np.result_type(*firm, *weak) if specs else np.dtype(fallback)


def contract_masked(op: Any, params: Any, leaves: Sequence[Tensor]) -> Any:
    """Contract a masked cotangent: 0 times infinity, of the plain op NaN, is 0."""
    plain = apply(op.finite, tuple(leaves), params)
    return cond(
        np.all(np.isfinite(plain)),
        lambda y, *_: y,
        lambda _, *xs: op.unfold(xs, params)[0],
        plain,
        *leaves,
    )
