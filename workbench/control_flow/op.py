"""`SCAN`: the op that runs a loop; its rules are in `rules.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.autodiff.higher_order import outer_specs
from workbench.control_flow.hoisting import Cut, is_worthwhile
from workbench.control_flow.loop import Loop, read_back
from workbench.control_flow.running import assemble_outputs, get_runner
from workbench.core.op import declare
from workbench.core.tensor import Tensor
from workbench.core.traits import Traits
from workbench.core.types import Array, Params, Spec
from workbench.errors import UsageError
from workbench.ops import define
from workbench.ops.define import shape_of

SCAN = declare("scan")
#: A loop that ends by itself is taken for one of so many steps.
FEW = 100


def run_loop(loop: Loop, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Return the outputs of a loop, as Tensors where an input is one."""
    return define.apply_and_split(SCAN, tuple(inputs), {"loop": loop})


def _compute(*inputs: Any, loop: Loop) -> tuple[Any, ...]:
    n = loop.count_steps(inputs)
    _, consts, seqs, inits = loop.split_inputs(inputs)
    if n < 0:
        raise UsageError(
            f"scan: n_steps={n} is negative. To go backward write reverse=True."
        )
    made = run_steps(loop, n, [*consts, *seqs, *inits])
    if loop.limit is not None:
        loop.limit(*made[: loop.carries])
    return made


def run_steps(loop: Loop, n: int, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Return the outputs of so many steps on arrays, first of all without its count."""
    # A loop that ends by a condition has an unknown number of steps.
    if not is_worthwhile(loop, min(n, FEW) if loop.until else n) or not all(
        isinstance(x, (np.ndarray, np.generic)) for x in inputs
    ):
        return get_runner(loop)(n, inputs)
    first = loop.consts + loop.seqs
    cut = Cut(
        loop, inputs[: loop.consts], inputs[loop.consts : first], inputs[first:],
        None if loop.until else n, loop.keep,
    )  # fmt: skip
    made = cut.run(lambda rest, given: get_runner(rest)(n, given))
    ends = len(cut.outputs) - loop.until
    marks = made[ends : ends + len(cut.marks)]
    done = int(made[-1]) if loop.until else n
    stacks = dict(enumerate(made[loop.carries : ends], loop.carries))
    return assemble_outputs(loop, made[: loop.carries], stacks, done, marks)


def hoist_loop(values: Sequence[Any], params: Params) -> Sequence[Any]:
    """Return the outputs of a loop, with less in each of its steps."""
    loop: Loop = params["loop"]
    count, consts, seqs, inits = loop.split_inputs(values)
    given = [*consts, *seqs, *inits]
    if loop.draws or any(_is_unknown(x) for x in given):
        return run_loop(loop, values)
    steps = None if loop.until else loop.count_steps(values)
    cut = Cut(loop, consts, seqs, inits, steps if isinstance(steps, int) else None)
    head = [] if count is None else [count]
    return cut.run(lambda rest, given: run_loop(rest, [*head, *given]))


def _is_unknown(x: Array) -> bool:
    """Return whether a length of an operand is unknown, but for that of the steps."""
    return not all(isinstance(n, int) for n in shape_of(x)[1:])


def _infer(*inputs: Any, loop: Loop) -> tuple[Any, ...]:
    """Return the specs of all outputs; None for a length that only the run tells."""
    body, start = loop.body, int(loop.counted)
    n = None if loop.until else loop.count_steps(inputs)
    if n is None and loop.seqs and not loop.until:  # which have an entry for each step
        n = shape_of(inputs[start + loop.consts])[0]
    rows = range(loop.consts, loop.consts + loop.seqs)
    specs = outer_specs(body, inputs[start:], rows)[: len(body.outputs) - loop.until]
    for i in range(loop.carries):  # a carry keeps the shape of its first value
        x = inputs[start + loop.consts + loop.seqs + i]
        specs[i] = Spec(shape_of(x), specs[i].dtype)
    return _output_specs(loop, n, specs)


def _output_specs(loop: Loop, n: Any, specs: list[Spec]) -> tuple[Any, ...]:
    """Return the specs of all outputs, from those of a step and the number of steps."""
    rows = None if n is None or loop.every is None else -(-n // loop.every)
    return (
        *specs[: loop.carries],
        *(Spec((n, *s.shape), s.dtype) for s in specs[loop.carries :]),
        *(Spec((rows, *specs[i].shape), specs[i].dtype) for i in loop.marks),
        *([Spec((), np.dtype(np.int64))] if loop.until else []),
    )


def _connection(inputs: Sequence[Any], params: dict[str, Any]) -> list[list[bool]]:
    """Return which outputs depend on which inputs, through any number of steps."""
    loop: Loop = params["loop"]
    first = loop.consts + loop.seqs
    masks = list(loop.body.reads)
    if loop.until:
        masks = [m | masks[-1] for m in masks]
    carried = masks[: loop.carries]
    masks = [read_back(mask, carried, first) for mask in masks]
    for i in range(loop.carries):  # without any step, the last value is the first
        masks[i] |= 1 << (first + i)
    ends = len(masks) - loop.until
    rows = [
        [bool(mask >> i & 1) for mask in masks[:ends]]
        + [True] * (len(loop.marks) + loop.until)
        for i in range(len(loop.body.leaves))
    ]
    count = [True] * (ends + len(loop.marks) + loop.until)
    return [count, *rows] if loop.counted else rows


def _leaf_sources(node: Tensor) -> list[tuple[Tensor, Sequence[Any]]]:
    """Return the sources of each leaf of a step; for a carry the step's output too."""
    loop: Loop = node.params["loop"]
    given = node.inputs[int(loop.counted) :]
    found: list[Any] = [[x] for x in given[: len(loop.body.leaves)]]
    carried = loop.body.outputs[: loop.carries]
    for values, y in zip(found[loop.consts + loop.seqs :], carried, strict=False):
        values.append(y)
    return list(zip(loop.body.leaves, found, strict=False))


SCAN.inner_sources = _leaf_sources
SCAN.repeats, SCAN.traits = True, Traits(grows=True)
SCAN.graphs = lambda inputs, params: [params["loop"].body]
SCAN.compute = _compute
SCAN.hoist = hoist_loop
SCAN.infer = _infer
SCAN.connection = _connection
SCAN.rule = "the rule of each step, from the last to the first"
SCAN.reads = None
