"""What is asked of expressions, nested as it is asked: products, Jacobians, Hessians.

`derivatives.py` and the Jacobians below work on flat lists; here several outputs and
variables stand in lists, tuples, mappings, and results go back into them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from workbench.autodiff import derivatives, forward, program, reverse
from workbench.autodiff.batch import Batched
from workbench.autodiff.derivatives import DisconnectedType, belonging, connected
from workbench.autodiff.program import Program
from workbench.autodiff.recorded_call import is_expression
from workbench.core import hooks, source, types, walk
from workbench.core.dims import Atom, Length, atoms_of
from workbench.core.hooks import Override
from workbench.core.op import declare
from workbench.core.tensor import IDENTITY, Tensor, next_serial, value_of
from workbench.core.trace import blank, live, record
from workbench.core.types import Spec
from workbench.errors import ShapeError, UnknownLengthError, UsageError
from workbench.ops import define, gradients
from workbench.ops.define import shape_of

# Jacobians of expressions, of any rank, by many Tensors.
#
# One sweep is recorded for a cotangent (or tangent) without value, and runs on all unit
# vectors at once (`Batched`). Where a length is known only when the program runs, so is
# the number of unit vectors: then the Jacobian is one node, which does all this on the
# arrays that it gets.

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
    seed = derivatives.one(y) if scalar else blank(y)
    made = reverse.pull_back(
        [y], [seed], wrt, record=True, rules=rules, nulls_pass=True
    )
    if scalar:
        plain = derivatives.without(
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
    made = define.several(BLOCKS, tuple(leaves), {"whole": closed})
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
    return program.pulled(params["whole"].run, inputs, g)


def _push(
    tangents: tuple[Any, ...], y: Any, inputs: tuple[Any, ...], params: Params
) -> tuple[Any, ...]:
    _settled(inputs)
    return tuple(program.pushed(params["whole"].run, inputs, tangents))


BLOCKS = declare("jacobian")
BLOCKS.compute = _compute
BLOCKS.infer = BLOCKS.lengths = _infer
BLOCKS.pull = _pull
BLOCKS.push = _push
BLOCKS.rule = "the rules of the expression, run again"
BLOCKS.reads = None


# What is asked: products, Jacobians and Hessians of nests

Overrides = Sequence[Override] | None
Constants = Iterable[Tensor] | None


def pulled(
    f: Any,
    wrt: Any,
    cotangents: Any,
    *,
    consider_constant: Constants = None,
    disconnected_inputs: str = "raise",
    return_disconnected: str = "zero",
    overrides: Overrides = None,
    name: str = "Lop",
) -> Any:
    """The gradients by ``wrt`` for one cotangent per output; nested as ``wrt``."""
    options(name, disconnected_inputs=disconnected_inputs)
    options(name, return_disconnected=return_disconnected)
    outputs, sources = derivatives.tensors(f, name, "f"), derivatives.tensors(wrt, name)
    given = beside(outputs, cotangents, "eval_points", "f", name)
    starts: dict[Tensor, Any] = {}
    for y, g in zip(outputs.tensors, given, strict=True):
        g = derivatives.started(g, y, name, "the cotangent")
        old = starts.get(y)
        if old is not None and not isinstance(old, DisconnectedType):
            g = old if isinstance(g, DisconnectedType) else old + g
        starts[y] = g
    before = next_serial()
    made = derivatives.pull(
        starts, sources.tensors, consider_constant=consider_constant,
        overrides=overrides, name=name, disconnected_inputs=disconnected_inputs,
    )  # fmt: skip
    found = [
        derivatives.absent(x, return_disconnected) if g is None else g
        for x, g in zip(sources.tensors, made, strict=True)
    ]
    found = belonging(found, outputs.tensors, before)
    return sources.tree(whole(found, name))


def pushed(
    f: Any,
    wrt: Any,
    tangents: Any,
    *,
    consider_constant: Constants = None,
    disconnected_outputs: str = "raise",
    return_disconnected: str = "zero",
    overrides: Overrides = None,
    name: str = "Rop",
) -> Any:
    """The tangents of the outputs along one tangent per ``wrt``; nested as ``f``."""
    options(name, disconnected_outputs=disconnected_outputs)
    options(name, return_disconnected=return_disconnected)
    outputs, sources = derivatives.tensors(f, name, "f"), derivatives.tensors(wrt, name)
    given = beside(sources, tangents, "eval_points", "wrt", name)
    along = [
        derivatives.started(t, x, name, "the tangent")
        for t, x in zip(given, sources.tensors, strict=True)
    ]
    pairs = moving(sources.tensors, along)
    before = next_serial()
    made = derivatives.push(
        outputs.tensors, [x for x, _ in pairs], [t for _, t in pairs],
        consider_constant=consider_constant, overrides=overrides, name=name,
        disconnected_outputs=disconnected_outputs,
    )  # fmt: skip
    found = [
        derivatives.absent(y, return_disconnected) if t is None else t
        for y, t in zip(outputs.tensors, made, strict=True)
    ]
    found = belonging(found, outputs.tensors, before)
    return outputs.tree(whole(found, name))


def jacobian(
    expression: Any,
    wrt: Any,
    *,
    consider_constant: Constants = None,
    disconnected_inputs: str = "raise",
    overrides: Overrides = None,
    mode: str = "auto",
    name: str = "jacobian",
) -> Any:
    """All blocks, nested as the expressions, and in each as ``wrt``."""
    options(name, disconnected_inputs=disconnected_inputs)
    outputs = derivatives.tensors(expression, name, "expression")
    sources = derivatives.tensors(wrt, name)
    constant = derivatives.listed(consider_constant, name)
    reach(outputs.tensors, sources.tensors, constant, disconnected_inputs, name)
    before = next_serial()
    rows = jacobian_blocks(
        outputs.tensors, sources.tensors, consider_constant=constant,
        overrides=overrides, mode=mode, name=name,
    )  # fmt: skip
    rows = [belonging(row, outputs.tensors, before) for row in rows]
    return outputs.tree([sources.tree(whole(row, name)) for row in rows])


def hessian(
    cost: Any,
    wrt: Any,
    *,
    consider_constant: Constants = None,
    disconnected_inputs: str = "raise",
    cross: bool = True,
    overrides: Overrides = None,
    name: str = "hessian",
) -> Any:
    """All blocks, nested as ``wrt`` twice; without ``cross`` those of the diagonal."""
    options(name, disconnected_inputs=disconnected_inputs)
    cost = derivatives.scalar(cost, name)
    sources = derivatives.tensors(wrt, name)
    constant = derivatives.listed(consider_constant, name)
    reach([cost], sources.tensors, constant, disconnected_inputs, name)
    before = next_serial()
    asked = [sources.tensors] if cross else [[x] for x in sources.tensors]
    found = [
        hessian_blocks(
            cost, some, consider_constant=constant, overrides=overrides, name=name
        )
        for some in asked
    ]
    if not cross:
        blocks = belonging([rows[0][0] for rows in found], [cost], before)
        return sources.tree(whole(blocks, name))
    rows = [belonging(row, [cost], before) for row in found[0]]
    return sources.tree([sources.tree(whole(row, name)) for row in rows])


def hessian_product(
    cost: Any,
    wrt: Any,
    p: Any,
    *,
    consider_constant: Constants = None,
    disconnected_inputs: str = "raise",
    overrides: Overrides = None,
    name: str = "hessian_vector_product",
) -> Any:
    """The Hessian times a vector, by pushing it through the gradient."""
    options(name, disconnected_inputs=disconnected_inputs)
    cost = derivatives.scalar(cost, name)
    sources = derivatives.tensors(wrt, name)
    given = beside(sources, p, "p", "wrt", name)
    along = [
        derivatives.started(t, x, name, "the vector")
        for t, x in zip(given, sources.tensors, strict=True)
    ]
    before = next_serial()
    made = derivatives.pull(
        {cost: derivatives.seed_of(cost)}, sources.tensors,
        consider_constant=consider_constant, overrides=overrides, name=name,
        disconnected_inputs=disconnected_inputs,
    )  # fmt: skip
    gradients = [
        derivatives.zeros(x) if g is None else g
        for x, g in zip(sources.tensors, made, strict=True)
    ]
    pairs = moving(sources.tensors, along)
    found = derivatives.push(
        gradients, [x for x, _ in pairs], [t for _, t in pairs],
        consider_constant=consider_constant, name=name, disconnected_outputs="ignore",
    )  # fmt: skip
    products = [
        derivatives.zeros(x) if t is None else t
        for x, t in zip(sources.tensors, found, strict=True)
    ]
    products = belonging(products, [cost], before)
    return sources.tree(whole(products, name))


# Checks


def options(name: str, **given: str) -> None:
    """Refuse the values of options that there are not."""
    for option, value in given.items():
        known = ("zero", "None", "Disconnected")
        if option != "return_disconnected":
            known = ("raise", "warn", "ignore")
        derivatives.one_of(name, option, value, known)


def beside(
    nest: derivatives.Nested, given: Any, what: str, beside: str, name: str
) -> list[Any]:
    """One value for each Tensor of a nest.

    Raises
    ------
    UsageError
        If there are more or fewer, or they nest in another way.
    """
    if nest.bare and not (
        isinstance(given, (list, tuple)) and len(given) == 1 and is_expression(given)
    ):
        return [given]
    values = derivatives.entries(given)
    if len(values) != len(nest.tensors):
        raise UsageError(
            f"{name}: {what} holds {len(values)} values, and {beside}"
            f" {len(nest.tensors)} expressions. Give one for each, None for zero."
        )
    return values


def moving(wrt: Sequence[Tensor], along: Sequence[Any]) -> list[tuple[Tensor, Any]]:
    """The variables that have a tangent, with it."""
    return [
        (x, t)
        for x, t in zip(wrt, along, strict=True)
        if not isinstance(t, DisconnectedType)
    ]


def reach(
    outputs: Sequence[Tensor],
    wrt: Sequence[Tensor],
    constant: Sequence[Tensor],
    policy: str,
    name: str,
) -> None:
    """Act on variables that no output depends on, as ``disconnected_inputs`` says."""
    reached = connected(outputs, {x.serial for x in constant})
    for x in wrt:
        if x.serial not in reached:
            derivatives.disconnected(x, outputs, policy, name)


def whole(found: list[Any], name: str) -> list[Any]:
    """The results, or the error of one that holds what cannot be computed."""
    for null in gradients.among(found):
        if null is not None:
            raise gradients.refusal(null, f"{name}: what is asked for")
    return found
