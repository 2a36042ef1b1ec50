"""Jacobians of expressions, of any rank, by many Tensors.

One sweep is recorded for a cotangent (or tangent) without value, and runs on all unit
vectors at once (`Batched`). Where a length is known only when the program runs, so is
the number of unit vectors: then the Jacobian is one node, which does all this on the
arrays that it gets.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from workbench.autodiff import derivatives, flat, fold_unit_seed, forward, reverse
from workbench.autodiff.batch import Batched
from workbench.autodiff.program import Program
from workbench.core import hooks, source, types, walk
from workbench.core.dims import Atom, Length, atoms_of
from workbench.core.hooks import Override
from workbench.core.op import declare
from workbench.core.tensor import IDENTITY, Tensor, next_serial, value_of
from workbench.core.trace import blank, live, record
from workbench.core.types import Spec
from workbench.errors import ShapeError, UnknownLengthError
from workbench.ops import several
from workbench.ops.define import shape_of

__all__ = ["hessian_blocks", "jacobian_blocks"]

Params = dict[str, Any]
Blocks = list[list[Any]]


class Question:
    """What is to be differentiated by what, and how.

    Hashes by identity: it is a setting of the node that answers it when it runs.
    """

    def __init__(
        self,
        outputs: Sequence[Tensor],
        wrt: Sequence[Tensor],
        constant: Sequence[Tensor] = (),
        *,
        twice: bool = False,
        mode: str = "auto",
    ) -> None:
        self.outputs = list(outputs)
        self.wrt = list(wrt)
        self.constant = list(constant)
        #: Whether the blocks of the Hessian of the one output are asked for.
        self.twice = twice
        #: Whether to push tangents ("fwd"), pull cotangents ("rev"), or the fewer.
        self.mode = mode

    @property
    def stops(self) -> set[int]:
        """The serials of what is held constant."""
        return {x.serial for x in self.constant}

    def gradients(self) -> list[Any]:
        """What the rows belong to: the outputs, or the gradient of the one."""
        if not self.twice:
            return list(self.outputs)
        (cost,) = self.outputs
        made = derivatives.pull(
            {cost: derivatives.seed_of(cost)}, self.wrt,
            consider_constant=self.constant, disconnected_inputs="ignore",
        )  # fmt: skip
        return [
            derivatives.zeros(x) if g is None else g
            for x, g in zip(self.wrt, made, strict=True)
        ]

    def answer(self) -> Blocks:
        """The blocks, one row for each output and in it one for each ``wrt``."""
        rows = self.gradients()
        stops = self.stops
        fewer = self.mode == "auto" and _shorter(self.wrt, rows)
        if self.twice or self.mode == "fwd" or fewer:
            columns = [_column(rows, x, stops) for x in self.wrt]
            return [list(row) for row in zip(*columns, strict=True)]
        return [_row(y, self.wrt, stops) for y in rows]


def jacobian_blocks(
    outputs: Sequence[Tensor],
    wrt: Sequence[Tensor],
    *,
    consider_constant: Iterable[Tensor] | None = None,
    overrides: Sequence[Override] | None = None,
    mode: str = "auto",
    name: str = "jacobian",
) -> Blocks:
    """One row of blocks for each output: ``d output / d wrt[j]``.

    A block has the shape of the output, followed by that of the variable.
    """
    constant = list(consider_constant or ())
    asked = hooks.overrides(overrides)
    if asked is not None:
        rules = asked.resolve(outputs, wrt, name).pulls()
        stops = {x.serial for x in constant}
        return [_row(y, wrt, stops, rules) for y in outputs]
    return _answered(Question(outputs, wrt, constant, mode=mode))


def hessian_blocks(
    cost: Tensor,
    wrt: Sequence[Tensor],
    *,
    consider_constant: Iterable[Tensor] | None = None,
    overrides: Sequence[Override] | None = None,
    name: str = "hessian",
) -> Blocks:
    """All blocks ``d2 cost / d wrt[i] d wrt[j]``, cross blocks included."""
    constant = list(consider_constant or ())
    asked = hooks.overrides(overrides)
    if asked is not None:
        rules = asked.resolve([cost], wrt, name).pulls()
        stops = {x.serial for x in constant}
        made = derivatives.pull(
            {cost: derivatives.seed_of(cost)}, wrt, consider_constant=constant,
            overrides=overrides, name=name, disconnected_inputs="ignore",
        )  # fmt: skip
        rows = [
            derivatives.zeros(x) if g is None else g
            for x, g in zip(wrt, made, strict=True)
        ]
        return [_row(g, wrt, stops, rules) for g in rows]
    return _answered(Question([cost], wrt, constant, twice=True))


def _answered(asked: Question) -> Blocks:
    with source.pinned():
        before = next_serial()
        try:
            rows = asked.answer()
        except (UnknownLengthError, ShapeError):
            # That shapes do not fit may be for want of a length.
            if not any(map(_open, _leaves(asked))):
                raise
            return _node(asked)
        made = [block for row in rows for block in row]
        # Where an op knows no batch of unknown size, the whole is better off as a node.
        waits = any(n.op.name == "batch" for n in walk.order(made, before))
        return _node(asked) if waits else rows


# Known lengths: all unit vectors at once


def _row(
    y: Tensor, wrt: Sequence[Tensor], stops: set[int], rules: Any = None
) -> list[Any]:
    """The blocks of one output, by all cotangents of it at once."""
    if not types.differentiable(y.dtype):
        return [_nothing(y, x) for x in wrt]
    rules = {**(rules or {}), **dict.fromkeys(stops, derivatives.nothing)}
    before = next_serial()
    scalar = y.shape == () and y.dtype.kind == "f"
    seed = fold_unit_seed.one(y) if scalar else blank(y)
    made = reverse.pull_back(
        [y], [seed], wrt, record=True, rules=rules, nulls_pass=True
    )
    if scalar:
        plain = fold_unit_seed.without(
            list(map(derivatives.admitted, made)), [seed], before
        )
        return [
            _nothing(y, x) if g is None else g for x, g in zip(wrt, plain, strict=True)
        ]
    # A cotangent of a complex output reaches a real variable as Re(g dy/dx).
    split = y.dtype.kind == "c" and any(x.dtype.kind != "c" for x in wrt)
    real = _batched(made, seed, y)
    imaginary = _batched(made, seed, y, -1j) if split else real
    row = []
    for a, b, x in zip(real, imaginary, wrt, strict=True):
        if a is None:
            row.append(_nothing(y, x))
            continue
        block = a + 1j * b if split and x.dtype.kind != "c" else a
        row.append(_expression(_in_front(block, y)))
    return row


def _column(outputs: Sequence[Tensor], x: Tensor, stops: set[int]) -> list[Any]:
    """The blocks of all outputs by one variable, by all its tangents at once."""
    if not types.differentiable(x.dtype):
        return [_nothing(y, x) for y in outputs]
    seed = blank(x)
    rules: Any = dict.fromkeys(stops, derivatives.held)
    made = forward.push_forward(
        outputs, [x], [seed], rules=rules, record=True, nulls_pass=True
    )
    split = x.dtype.kind == "c" and any(
        t is not None and t.dtype.kind != "c" for t in made
    )
    real = _batched(made, seed, x)
    imaginary = _batched(made, seed, x, 1j) if split else real
    column = []
    for y, a, b in zip(outputs, real, imaginary, strict=True):
        if a is None:
            column.append(_nothing(y, x))
            continue
        block = a - 1j * b if split and y.dtype.kind != "c" else a
        column.append(_expression(_at_end(block, y, x)))
    return column


def _batched(
    made: Sequence[Any], seed: Tensor, like: Tensor | None, unit: complex = 1
) -> list[Any]:
    """What was recorded for one seed, for every unit vector, counted by axis 0."""
    known = [x for x in made if x is not None]
    program = Batched(known, [seed])
    size = _size(seed)
    if isinstance(size, int):  # unknown lengths are read off `like` as well
        like = _find_symbol(known, seed)
    if like is None:
        units: Any = np.eye(size, dtype=seed.dtype)  # host array: with constants alone
    else:
        units = np.identity(size, dtype=seed.dtype, like=like)
    if unit != 1:
        units = units * unit
    if len(seed.shape) != 1:
        units = np.reshape(units, (size, *seed.shape))
    found = program([units], size)
    parts = iter(
        part if batched else np.broadcast_to(part, (size, *part.shape))
        for part, batched in zip(found, program.batched, strict=True)
    )
    return [None if x is None else next(parts) for x in made]


def _find_symbol(made: Sequence[Any], seed: Tensor) -> Tensor | None:
    """Return a symbol that expressions read, whose value tells where arrays are.

    No other will do: an expression that reads none of it would have to be given one.
    """
    nodes = walk.order([x for x in made if isinstance(x, Tensor)])
    free = (node for node in nodes if not node.inputs and node is not seed)
    return next((node for node in free if node._value is None), None)


def _in_front(block: Any, y: Tensor) -> Any:
    """Axis 0, which counts the entries of ``y``, as the axes of that."""
    if len(y.shape) == 1:
        return block
    return np.reshape(block, (*y.shape, *shape_of(block)[1:]))


def _at_end(block: Any, y: Tensor, x: Tensor) -> Any:
    """Axis 0, which counts the entries of ``x``, as the axes of that, at the end."""
    block = np.moveaxis(block, 0, -1) if y.shape else block
    return block if len(x.shape) == 1 else np.reshape(block, (*y.shape, *x.shape))


def _nothing(y: Tensor, x: Tensor) -> Any:
    """The block of an output that does not depend on a variable."""
    dtype = np.result_type(_float(y), _float(x))
    return derivatives.admitted(
        np.zeros_like(x, dtype=dtype, shape=(*y.shape, *x.shape))
    )


def _float(x: Tensor) -> Any:
    return x.dtype if types.differentiable(x.dtype) else np.dtype(np.float16)


def _expression(block: Any) -> Tensor:
    made: Tensor = derivatives.admitted(block)
    return made


def _size(x: Tensor) -> Any:
    return math.prod(x.shape)


def _shorter(few: Sequence[Tensor], many: Sequence[Tensor]) -> bool:
    """Whether some hold fewer entries than others, as far as that is known."""
    try:
        return bool(sum(map(_size, few)) < sum(map(_size, many)))
    except UnknownLengthError:
        return False


def _open(x: Tensor) -> bool:
    return not all(isinstance(n, int) for n in x.shape)


# Lengths that are not known yet: one node, which asks again when it has arrays


def _node(asked: Question) -> Blocks:
    """The blocks as the outputs of one node."""
    leaves = _leaves(asked)
    closed = Whole(asked, leaves)
    made = several.several(BLOCKS, tuple(leaves), {"whole": closed})
    count = len(asked.wrt)
    return [list(made[i : i + count]) for i in range(0, len(made), count)]


def _leaves(asked: Question) -> list[Tensor]:
    """What the program is computed from, and has no value yet."""
    return [
        x
        for x in walk.order([*asked.outputs, *asked.wrt])
        if x.op is IDENTITY and not x.inputs and (x._value is None or live(x))
    ]


class Whole:
    """A question about a program, asked anew on the values of its leaves."""

    def __init__(self, asked: Question, leaves: Sequence[Tensor]) -> None:
        self.asked = asked
        self.places = [len(asked.outputs), len(asked.wrt)]
        every = [*asked.outputs, *asked.wrt, *asked.constant]
        self.program = Program(every, leaves)

    def __repr__(self) -> str:
        return f"<{'Hessian' if self.asked.twice else 'Jacobian'} of an expression>"

    def again(self, leaves: Sequence[Any]) -> Question:
        """The same question about the program on these leaves."""
        run = [derivatives.admitted(x) for x in self.program(leaves)]
        first, second = self.places
        return Question(
            run[:first], run[first : first + second], run[first + second :],
            twice=self.asked.twice, mode=self.asked.mode,
        )  # fmt: skip

    def run(self, values: Sequence[Any]) -> list[Any]:
        """The blocks, flat."""
        made = record(lambda leaves: self.again(leaves).answer(), values)
        return [x if live(x) else value_of(x) for x in made.outputs]

    def specs(self, given: Sequence[Any]) -> list[Spec]:
        """Shape and dtype of each block; None for a length that is measured."""
        specs = [types.spec_of(x) for x in given]
        made = record(lambda leaves: self.program(leaves), specs)
        outs, wrt = made.outputs[: self.places[0]], made.outputs[self.places[0] :]
        wrt = wrt[: self.places[1]]
        rows = wrt if self.asked.twice else outs
        known = set(atoms_of([spec.shape for spec in specs]))
        return [
            Spec(
                tuple(_kept(n, known) for n in (*y.shape, *x.shape)),
                np.result_type(_float(y), _float(x)),
            )
            for y in rows
            for x in wrt
        ]


def _kept(n: Any, known: set[Atom]) -> Any:
    """A length of operands; None for one of what was computed on the way."""
    inner = any(a not in known for a in atoms_of(n) if isinstance(a, Length))
    return None if inner else n


def _settled(inputs: Sequence[Any]) -> None:
    """Leave to the sweep, which makes a node of it, what needs a length."""
    for x in inputs:
        if isinstance(x, Tensor) and _open(x):
            raise UnknownLengthError(
                "the Jacobian of an expression whose lengths are known only when it"
                " runs."
            )


def _compute(*inputs: Any, whole: Whole) -> tuple[Any, ...]:
    return tuple(whole.run(inputs))


def _infer(*inputs: Any, whole: Whole) -> tuple[Any, ...]:
    return tuple(whole.specs(inputs))


def _pull(
    mask: int, g: Any, y: Any, inputs: tuple[Any, ...], params: Params
) -> Sequence[Any]:
    _settled(inputs)
    return flat.pulled(params["whole"].run, inputs, g)


def _push(
    tangents: tuple[Any, ...], y: Any, inputs: tuple[Any, ...], params: Params
) -> tuple[Any, ...]:
    _settled(inputs)
    return tuple(flat.pushed(params["whole"].run, inputs, tangents))


BLOCKS = declare("jacobian")
BLOCKS.compute = _compute
BLOCKS.infer = BLOCKS.lengths = _infer
BLOCKS.pull = _pull
BLOCKS.push = _push
BLOCKS.rule = "the rules of the expression, run again"
BLOCKS.reads = None
