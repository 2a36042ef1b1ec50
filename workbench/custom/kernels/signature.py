"""All arrays of a kernel: the values of their letters in a call, and output shapes.

It looks at shapes and dtypes alone, so that symbols, whose lengths may be unknown, are
bound as arrays are.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workbench.core import types
from workbench.core.blame import format_count
from workbench.core.dims import unify_lengths
from workbench.core.types import Spec
from workbench.errors import DtypeError, KernelError, ShapeError

# One array of a kernel as its author writes it: ``"float64[n, d]"``.
#
# That is a dtype and a shape. A letter stands for a length, the same wherever it
# appears; ``"T[n]"`` for a dtype among several; ``...`` for axes of any number.

#: The dtypes that kernels take.
DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float32", "float64", "complex64", "complex128",
)  # fmt: skip

_PATTERN = re.compile(r"\s*([A-Za-z]\w*)\s*\[([^\[\]]*)\]\s*")
NAME = re.compile(r"[A-Za-z_]\w*")
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}

#: The words that C, C++ and CUDA keep for themselves, so that no argument has them.
RESERVED = frozenset(
    "auto bool break case char class const continue default delete do double else enum"
    " extern false float for friend goto if inline int long namespace new operator"
    " private protected public register return short signed sizeof static struct switch"
    " template this throw true try typedef union unsigned using virtual void volatile"
    " while size_t threadIdx blockIdx blockDim gridDim".split()
)


@dataclass(frozen=True)
class KernelArray:
    """One array of a kernel: ``KernelArray.of("zero_out", "x", "float64[n]")``.

    ``dims`` holds the text of each axis; ``"..."`` stands for any number of them.
    """

    name: str
    text: str
    dtype: str
    dims: tuple[str, ...]

    @classmethod
    def of(cls, op: str, name: object, text: object) -> KernelArray:
        """Read a pattern, or raise an error that names the fault."""
        if not isinstance(name, str) or not name.isidentifier() or name in RESERVED:
            raise KernelError(
                f"{op}: {name!r} cannot name an array of a kernel; write a word that C"
                " takes for a parameter, such as 'x'."
            )
        found = _PATTERN.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise KernelError(
                f"{op}: {name} is declared as {text!r}, which is not a dtype and shape."
                " Write 'float64[n, d]', or 'float64[]' for one number."
            )
        dims = tuple(part.strip() for part in found[2].split(",") if part.strip())
        made = cls(name, str(text).strip(), found[1], dims)
        for dim in dims:
            if dim != "...":
                made.expression(op, dim)
        if dims.count("...") > 1:
            raise KernelError(f"{op}: {name} is declared as {text!r}: '...' once only.")
        return made

    def expression(self, op: str, dim: str) -> ast.expr:
        """Return the parsed text of one axis: letters, integers, + - * //."""
        try:
            if len(dim) > 80:
                raise SyntaxError
            tree = ast.parse(dim, mode="eval").body
        except SyntaxError:
            tree = None
        for part in ast.walk(tree) if tree is not None else ():
            fits = (
                isinstance(part, (ast.Name, ast.Load))
                or (isinstance(part, ast.Constant) and type(part.value) is int)
                or (isinstance(part, ast.BinOp) and type(part.op) in _ARITHMETIC)
                or type(part) in _ARITHMETIC
            )
            if not fits:
                tree = None
                break
        if tree is None:
            raise KernelError(
                f"{op}: {self.name} is declared as {self.text!r}, and {dim!r} is not a"
                " length. Write a letter, an integer, or + - * // of them."
            )
        return tree

    def letters(self) -> list[str]:
        """Return the letters of the shape, in order; ``"..."`` among them."""
        found: list[str] = []
        for dim in self.dims:
            found += ["..."] if dim == "..." else NAME.findall(dim)
        return found


def evaluate(tree: ast.expr, known: Mapping[str, Any]) -> Any:
    """Return the value of a length, a short expression of others; recursive."""
    if isinstance(tree, ast.Name):
        return known[tree.id]
    if isinstance(tree, ast.BinOp):
        left, right = evaluate(tree.left, known), evaluate(tree.right, known)
        return _ARITHMETIC[type(tree.op)](left, right)
    assert isinstance(tree, ast.Constant)
    return tree.value


# All arrays of a kernel

#: What a letter for a dtype stands for unless `types` says otherwise.
FLOATS = ("float32", "float64")


@dataclass
class Bound:
    """What the letters of a signature stand for in one call."""

    #: The dtype of each array, inputs first.
    dtypes: dict[str, np.dtype[Any]] = field(default_factory=dict)
    #: The length of each letter; a tuple for ``"..."``.
    lengths: dict[str, Any] = field(default_factory=dict)
    #: The dtype of each letter for one.
    types: dict[str, np.dtype[Any]] = field(default_factory=dict)
    #: The outputs, once requested.
    outputs: list[Spec] | None = None


class Signature:
    """The arrays of one kernel.

    Parameters
    ----------
    op
        The op's name, for errors.
    inputs, outputs
        Patterns by name, in the order of the kernel's arguments.
    types
        The dtypes that a letter may stand for; float32 and float64 if not told.
    settings
        The names of the op's settings: integers among them may stand in the shapes
        of outputs.
    """

    def __init__(
        self,
        op: str,
        inputs: Mapping[str, str],
        outputs: Mapping[str, str],
        types: Mapping[str, Sequence[str]],
        settings: Sequence[str] = (),
    ) -> None:
        self.op = op
        self.inputs = [KernelArray.of(op, k, v) for k, v in inputs.items()]
        self.outputs = [KernelArray.of(op, k, v) for k, v in outputs.items()]
        self.types = self._expand_types(types)
        self.settings = tuple(settings)
        #: The letters of lengths, in the order of the kernel's parameters.
        self.letters = list(
            dict.fromkeys(
                letter
                for pattern in self.inputs
                for letter in pattern.letters()
                if letter not in self.settings
            )
        )
        self._check()

    def _expand_types(
        self, told: Mapping[str, Sequence[str]]
    ) -> dict[str, tuple[str, ...]]:
        """Return the dtypes of each letter; a dtype in full is a letter of its own."""
        found: dict[str, tuple[str, ...]] = {}
        for letter, names in told.items():
            found[letter] = tuple(map(_canonical_name, names))
            wrong = [n for n in found[letter] if n not in DTYPES]
            if wrong or not names or letter in DTYPES or not letter.isidentifier():
                raise KernelError(
                    f"{self.op}: types {{{letter!r}: {tuple(names)!r}}}:"
                    f" {wrong or letter!r} will not do. Kernels take"
                    f" {', '.join(DTYPES)}: types = {{'T': ('float32', 'float64')}}."
                )
        for pattern in (*self.inputs, *self.outputs):
            name = pattern.dtype
            if name not in DTYPES and name not in found:
                if not (name[0].isupper() and len(name) <= 2):
                    raise KernelError(
                        f"{self.op}: {pattern.name} is declared as {pattern.text!r}:"
                        f" {name!r} is not one of the dtypes that kernels take"
                        f" ({', '.join(DTYPES)}), nor a letter such as T."
                    )
                found[name] = FLOATS
        return found

    def _check(self) -> None:
        """Raise an error for names given twice, and letters that no input binds."""
        names = [p.name for p in (*self.inputs, *self.outputs)]
        lengths = [letter for letter in self.letters if letter != "..."]
        # The name of the parameter for the size of `...`.
        size = ["size"] * ("..." in self.letters)
        taken = [*names, *lengths, *size, *self.types, *self.settings]
        reserved = sorted(RESERVED.intersection(taken))
        if reserved:
            raise KernelError(
                f"{self.op}: {reserved[0]!r} is a word of C's or CUDA's own, and cannot"
                " name a length, a dtype or a setting. Choose another."
            )
        twice = sorted({x for x in taken if taken.count(x) > 1})
        if twice:
            raise KernelError(
                f"{self.op}: {', '.join(twice)} stands for two things among the"
                " inputs, outputs, lengths, dtypes and settings. Rename one."
            )
        if not self.outputs:
            raise KernelError(f"{self.op}: no output is declared: outputs = {{...}}.")
        bare = {dim for p in self.inputs for dim in p.dims}
        given = {p.dtype for p in self.inputs} | set(DTYPES)
        for pattern in (*self.inputs, *self.outputs):
            free = [
                x for x in pattern.letters() if x not in bare and x not in self.settings
            ]
            if free:
                raise KernelError(
                    f"{self.op}: {pattern.name} is declared as {pattern.text!r}, and no"
                    f" input has an axis of length {free[0]}, which would tell it."
                    f" The letters known are {', '.join(sorted(bare)) or 'none'}."
                )
            if pattern.dtype not in given:
                raise KernelError(
                    f"{self.op}: {pattern.name} is declared as {pattern.text!r}, and no"
                    f" input is of the dtype {pattern.dtype}, which would tell it."
                )

    # What a call binds

    def bind(self, values: Sequence[Any], settings: Mapping[str, Any]) -> Bound:
        """Return the meaning of the letters, given arrays, numbers or specs.

        Raises
        ------
        DtypeError, ShapeError
            Where an input does not fit its pattern; with its name and the cure.
        """
        if len(values) != len(self.inputs):
            names = ", ".join(p.name for p in self.inputs)
            raise ShapeError(
                f"{self.op} takes {format_count(len(self.inputs), 'array')} ({names})"
                f" and got {len(values)}."
            )
        specs = [types.spec_of(x) if not isinstance(x, Spec) else x for x in values]
        bound = Bound()
        self._bind_types(bound, specs, values)
        self._bind_lengths(bound, specs, settings)
        return bound

    def _bind_types(
        self, bound: Bound, specs: Sequence[Spec], values: Sequence[Any]
    ) -> None:
        pairs = list(zip(self.inputs, specs, values, strict=True))
        for pattern, spec, _ in pairs:
            name = str(spec.dtype.newbyteorder("="))
            if spec.weak:
                continue
            allowed = self.types.get(pattern.dtype, (pattern.dtype,))
            if name not in allowed:
                said = " or ".join(allowed)
                raise DtypeError(
                    f"{self.op}: the input {pattern.name} is {spec!r}, and the kernel"
                    f" takes {pattern.text}"
                    f"{f' with {pattern.dtype} {said}' * (said != pattern.dtype)}."
                    f" Nothing is cast in silence: write"
                    f" {_cast(pattern.name, spec.dtype, allowed)}."
                )
            if pattern.dtype in self.types:
                first = bound.types.setdefault(pattern.dtype, np.dtype(name))
                if first != np.dtype(name):
                    other = next(
                        p.name for p in self.inputs if p.dtype == pattern.dtype
                    )
                    raise DtypeError(
                        f"{self.op}: {other} is {first} and {pattern.name} is {name},"
                        f" and both are {pattern.dtype}. Write"
                        f" {pattern.name}.astype('{first}')."
                    )
        for pattern, spec, value in pairs:
            if spec.weak and pattern.dtype in self.types:
                bound.types.setdefault(
                    pattern.dtype,
                    np.dtype(self._choose_weak_dtype(pattern, spec, value)),
                )
        for pattern in (*self.inputs, *self.outputs):
            name = pattern.dtype
            bound.dtypes[pattern.name] = (
                bound.types[name] if name in self.types else np.dtype(name)
            )
        for pattern, spec, value in pairs:
            if spec.weak:
                self._check_fit(pattern, spec, value, bound.dtypes[pattern.name])

    def _choose_weak_dtype(self, pattern: KernelArray, spec: Spec, value: Any) -> str:
        """Return the dtype of a letter that only Python numbers determine."""
        allowed = self.types[pattern.dtype]
        if str(spec.dtype) in allowed:
            return str(spec.dtype)
        order = "biufc".index(spec.dtype.kind)
        wider = [n for n in allowed if "biufc".index(np.dtype(n).kind) >= order]
        return wider[-1] if wider else allowed[-1]

    def _check_fit(
        self, pattern: KernelArray, spec: Spec, value: Any, dtype: np.dtype[Any]
    ) -> None:
        """Raise an error if a Python number does not fit the dtype of its pattern."""
        fits = np.result_type(dtype, spec.dtype.type(0).item()) == dtype
        if fits and not isinstance(value, Spec) and dtype.kind in "iu":
            info = np.iinfo(dtype)
            fits = info.min <= value <= info.max
        if not fits:
            said = repr(value) if not isinstance(value, Spec) else f"a {spec.dtype}"
            raise DtypeError(
                f"{self.op}: the input {pattern.name} is the number {said}, and the"
                f" kernel takes {dtype}, which cannot hold it. Write {pattern.name} ="
                f" np.{dtype}(...) if it is to be rounded."
            )

    def _bind_lengths(
        self, bound: Bound, specs: Sequence[Spec], settings: Mapping[str, Any]
    ) -> None:
        first: dict[str, str] = {}
        later: list[tuple[KernelArray, str, Any, str]] = []
        for pattern, spec in zip(self.inputs, specs, strict=True):
            for dim, have, place in self._axes(pattern, spec):
                if dim in self.settings or not (dim == "..." or NAME.fullmatch(dim)):
                    later.append((pattern, dim, have, place))
                    continue
                known = bound.lengths.get(dim, have)
                before = first.setdefault(dim, place)
                try:
                    bound.lengths[dim] = _unify(known, have)
                except ValueError:
                    raise ShapeError(
                        f"{self.op}: {before} is {_format_length(known)} and {place} is"
                        f" {_format_length(have)}, and both are {dim}"
                        f" ({', '.join(f'{p.name}: {p.text}' for p in self.inputs)})."
                    ) from None
        for pattern, dim, have, place in later:
            want = self.evaluate_length(pattern, dim, bound, settings)
            try:
                unify_lengths(have, want)
            except ValueError:
                raise ShapeError(
                    f"{self.op}: {place} is {_format_length(have)}, and {pattern.text}"
                    f" asks for {dim}{f' = {want}' * (dim != str(want))}."
                ) from None

    def _axes(self, pattern: KernelArray, spec: Spec) -> list[tuple[str, Any, str]]:
        """Return each axis of an input: its text, its length, its words in errors."""
        shape, dims = spec.shape, pattern.dims
        short = len(shape) - len(dims)
        if "..." in dims:
            at = dims.index("...")
            rest = len(dims) - at - 1
            if short >= -1:
                end = len(shape) - rest
                middle = (shape[:at], (shape[at:end],), shape[end:])
                places = [*range(at), None, *range(end, len(shape))]
                return [
                    (dim, have, f"axis {place} of {pattern.name}")
                    if place is not None
                    else (dim, have, f"the shape ... of {pattern.name}")
                    for dim, have, place in zip(
                        dims, [n for part in middle for n in part], places, strict=True
                    )
                ]
        elif short == 0:
            return [
                (dim, have, f"axis {i} of {pattern.name}")
                for i, (dim, have) in enumerate(zip(dims, shape, strict=True))
            ]
        cure = (
            f"Write x[{', '.join(['None'] * -short + [':'] * len(shape))}]"
            if short < 0 and shape
            else "Reshape it, or call the op once per entry with wb.vmap"
        )
        raise ShapeError(
            f"{self.op}: the input {pattern.name} is {spec!r}, of"
            f" {format_count(len(shape), 'axis')}, and the kernel takes {pattern.text}."
            f" {cure}."
        )

    def evaluate_length(
        self, pattern: KernelArray, dim: str, bound: Bound, settings: Mapping[str, Any]
    ) -> Any:
        """Return the length that the text of an axis stands for."""
        known = {**{k: settings[k] for k in self.settings}, **bound.lengths}
        return evaluate(pattern.expression(self.op, dim), known)

    def infer_outputs(self, bound: Bound, settings: Mapping[str, Any]) -> list[Spec]:
        """Return the shape and dtype of each output."""
        made = []
        for pattern in self.outputs:
            shape: list[Any] = []
            for dim in pattern.dims:
                if dim == "...":
                    shape += bound.lengths["..."]
                    continue
                n = self.evaluate_length(pattern, dim, bound, settings)
                if _is_known(n) and (n < 0 or int(n) != n):
                    raise ShapeError(
                        f"{self.op}: the output {pattern.name}, {pattern.text}, would"
                        f" have an axis of length {dim} = {n}."
                    )
                shape.append(int(n) if _is_known(n) else n)
            made.append(Spec(tuple(shape), bound.dtypes[pattern.name]))
        return made


def _unify(a: Any, b: Any) -> Any:
    """Return the one length, or shape, of two that must be equal."""
    if not isinstance(a, tuple):
        return unify_lengths(a, b)
    if len(a) != len(b):
        raise ValueError
    return tuple(map(unify_lengths, a, b))


def _is_known(n: Any) -> bool:
    """Return whether a length is a number, known before the program runs."""
    return isinstance(n, (int, np.integer, float))


def _format_length(n: Any) -> str:
    return str(tuple(n)) if isinstance(n, tuple) else f"of length {n}"


def _canonical_name(name: Any) -> str:
    """Return NumPy's name of a dtype; else the text unchanged."""
    try:
        return str(np.dtype(name))
    except TypeError:
        return str(name)


def _cast(name: str, dtype: np.dtype[Any], allowed: Sequence[str]) -> str:
    """Return how to write the cast to the allowed dtype that loses least."""
    if dtype.kind == "c" and not any(n.startswith("complex") for n in allowed):
        return f"np.real({name}), np.imag({name}) or abs({name})"
    safe = [n for n in allowed if np.can_cast(dtype, n, "safe")]
    same = [n for n in allowed if np.dtype(n).kind == dtype.kind]
    return f"{name}.astype('{(safe or same[-1:] or list(allowed[-1:]))[0]}')"
