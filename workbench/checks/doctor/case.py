"""The case that the doctor examines: a program with values and one backward sweep.

A function, a session and symbols with values all become a `Case`. Norms and counts of
arrays are computed once here, for all other modules of this folder.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from workbench.autodiff import reverse
from workbench.checks.doctor import spelling
from workbench.checks.doctor.finding import Finding
from workbench.checks.isolated_node import loop_of, to_host
from workbench.checks.progress import Progress, ProgressMeter, tick
from workbench.checks.statistics import norm
from workbench.core import sites, types, walk
from workbench.core.schedule import compute_node
from workbench.core.tensor import IDENTITY, Tensor, make_leaf, value_of
from workbench.ops.define import flatten_parts
from workbench.ops.makers import ASTYPE

#: Nodes between two reports of progress.
REPORT_EVERY = 256

#: The work after the two passes, as a part of one pass; for the progress bar.
AFTER = 0.5


@dataclass(slots=True)
class SweepStep:
    """One step of the backward sweep, in numbers.

    Attributes
    ----------
    node
        The node whose rule ran.
    norm, finite
        The L2 norm of the cotangent of the node, and whether all of it is finite.
    passed
        For each input that got a cotangent: its serial, the norm of the cotangent, and
        whether it is finite.
    arrays
        The cotangent and those of the inputs; kept only where a finite one became one
        that is not.
    strain
        The sum of absolute products of an operand and its cotangent: how many times
        the relative rounding of the operand the result may be off.
    """

    node: Tensor
    norm: float
    finite: bool
    passed: list[tuple[int, float, bool]]
    arrays: tuple[Any, list[Any]] | None = None
    strain: float = 0.0


@dataclass(eq=False)
class Case:
    """A program with values, its differentiated outputs, and the inputs.

    Attributes
    ----------
    of
        The name of the program.
    outputs, seeds
        The differentiated outputs, and the cotangent of each.
    wrt
        The inputs by which they are differentiated.
    rules
        The rules of overrides in force, by the serial of the node.
    name_of
        Returns the name of a node; by default its name, or its op.
    unread
        Requested inputs on which the outputs do not depend.
    """

    of: str
    outputs: list[Tensor]
    seeds: list[Any]
    wrt: list[Tensor]
    rules: Mapping[int, Any] | None = None
    name_of: Callable[[Tensor], str] | None = None
    unread: list[Tensor] = field(default_factory=list)
    progress: Progress | None = None
    #: The seconds that the doctors may take beyond the two passes; None: no limit.
    budget: float | None = None
    #: Counts the progress; set while the doctors are at work.
    meter: ProgressMeter | None = None
    #: The serials of those of `wrt` that are held while the others vary.
    constant: Sequence[int] = ()
    #: How many loops this program is nested in.
    depth: int = 0
    #: Results of `forms.py` and `equivalence.py`, so that each is computed once.
    forms: dict[Any, Any] = field(default_factory=dict, repr=False)
    proved: dict[Any, bool] = field(default_factory=dict, repr=False)
    #: What the doctors have found so far.
    found: list[Finding] = field(default_factory=list, repr=False)

    @property
    def blamed(self) -> set[int]:
        """The serials of the nodes that were blamed so far, in a set of its own."""
        return {one.node.serial for one in self.found}

    @cached_property
    def nodes(self) -> list[Tensor]:
        """All nodes that the outputs depend on, and the inputs, by ascending serial."""
        return walk.order_nodes([*self.outputs, *self.wrt])

    @cached_property
    def readers(self) -> dict[int, list[Tensor]]:
        """The nodes that read a node, by its serial."""
        found: dict[int, list[Tensor]] = {}
        for node in self.nodes:
            for x in node.inputs:
                if isinstance(x, Tensor):
                    found.setdefault(x.serial, []).append(node)
        return found

    @cached_property
    def ops_of_call(self) -> dict[tuple[Any, int], set[str]]:
        """The names of the ops that one instruction of the user's makes."""
        found: dict[tuple[Any, int], set[str]] = {}
        for node in self.nodes:
            if node.code is not None and node.inputs:
                here = sites.instruction_of(node)
                found.setdefault(here, set()).add(node.op.name)
        return found

    @cached_property
    def by_serial(self) -> dict[int, Tensor]:
        """Each node by its serial."""
        return {node.serial: node for node in self.nodes}

    @cached_property
    def nonfinite(self) -> dict[int, str]:
        """The nodes with a nonfinite value, by serial: ``"nan"`` or ``"inf"``."""
        found: dict[int, str] = {}
        total = len(self.nodes)
        for i, node in enumerate(self.nodes):
            if not is_finite(node._value):
                found[node.serial] = name_nonfinite(node._value)
            if not i % REPORT_EVERY:
                self.report_progress(i, total)
        return found

    @cached_property
    def steps(self) -> list[SweepStep]:
        """The steps of the backward sweep, in its order."""
        found: list[SweepStep] = []
        total = len(self.nodes)

        def visit(node: Tensor, cotangent: Any, parts: list[Any]) -> None:
            if not len(found) % REPORT_EVERY:
                self.report_progress(total + len(found), total)
            size, whole = measure_norm(cotangent)
            passed = [
                (x.serial, *measure_norm(c))
                for x, c in zip(node.inputs, parts, strict=False)
                if c is not None and isinstance(x, Tensor)
            ]
            step = SweepStep(node, size, whole, passed)
            if whole:
                step.strain = _measure_strain(node, parts)
            if whole and not all(ok for _, _, ok in passed):
                step.arrays = cotangent, parts
            found.append(step)

        made = reverse.pull_back(
            self.outputs,
            self.seeds,
            self.wrt,
            rules=self.rules,
            visit=visit,
            constant=self.constant,
            nulls_pass=True,
        )
        self.gradients = [None if g is None else value_of(g) for g in made]
        return found

    #: The gradient by each of `wrt`, None where there is none; set by the sweep.
    gradients: list[Any] = field(default_factory=list, init=False)

    @cached_property
    def step_of(self) -> dict[int, SweepStep]:
        """The step of each node, by its serial."""
        return {step.node.serial: step for step in self.steps}

    @cached_property
    def varying(self) -> set[int]:
        """The serials of the nodes that depend on an input through derivatives."""
        return {s for step in self.steps for s, _, _ in step.passed} | {
            step.node.serial for step in self.steps
        }

    def report_progress(self, done: int, passes: int) -> None:
        """Report progress; raise `CheckStopped` where the caller asks to stop.

        ``passes`` is the length of one of the two passes; some work follows them.
        """
        if self.meter is not None:
            self.meter.report(done, max(1, int((2 + AFTER) * passes)))

    def name_node(self, node: Tensor) -> str:
        """Return the name of a node: ``log 'h'``, ``log``, ``the input 'x'``."""
        if self.name_of is not None:
            return self.name_of(node)
        name = f" {node.name!r}" if node.name else ""
        if not is_leaf(node):
            return f"{node.op.name}{name}"
        return f"the input{name}" if name else "a constant"

    def find_library_call(self, node: Tensor) -> str | None:
        """Return the function of a library that a node is a step of.

        That is ``"st.norm.logpdf"``; of a package that calls NumPy in its own files its
        name. None for a node that a line of the user's own computes: an operator, or a
        call that makes one op by whatever name.
        """
        if node.code is None or node.op.custom:
            return None
        package = spelling.find_package(node)
        if package is not None:
            return package
        made = self.ops_of_call.get(sites.instruction_of(node), ())
        return spelling.find_outer_call(node) if len(made) > 1 else None

    def is_inner_step(self, node: Tensor) -> bool:
        """Return whether a node is a step of a library's function, not its result."""
        if self.find_library_call(node) is None:
            return False
        here = sites.instruction_of(node)
        return spelling.find_package(node) is not None or any(
            sites.instruction_of(x) == here for x in self.readers.get(node.serial, ())
        )


#: Held while nodes have copies of their arrays.
_HOLDING = threading.RLock()


@contextmanager
def hold_on_host(nodes: Iterable[Tensor]) -> Iterator[None]:
    """Hold the values of nodes in main memory while the doctor looks at them.

    The doctor reads numbers one by one; of arrays on a GPU each would wait for it. So
    each array is copied once, and what the GPU has computed is examined as it is. One
    thread does so at a time: another would take the copies for what there was before.
    """
    copies: dict[int, tuple[Any, Any]] = {}  # with the array, whose id is its key

    def copy(x: Any) -> Any:
        if type(x) is tuple:
            return tuple(map(copy, x))
        if isinstance(x, Tensor) or not types.is_device_array(x):
            return x
        if id(x) not in copies:
            copies[id(x)] = x, to_host(x)
        return copies[id(x)][1]

    nodes = [*nodes]
    given = [x for node in nodes for x in (node, *node.inputs) if is_leaf(x)]
    values = (x._value if isinstance(x, Tensor) else x for x in given)
    if not any(map(types.is_device_array, values)):
        yield
        return
    with _HOLDING:
        kept = [(node, node._value, node.args, node.inputs) for node in nodes]
        try:
            for node, value, args, inputs in kept:
                node._value, node.args = copy(value), copy(args)
                node.inputs = copy(inputs)
            yield
        finally:
            for node, value, args, inputs in kept:
                node._value, node.args, node.inputs = value, args, inputs


def is_leaf(node: Any) -> bool:
    """Return whether something is an input or a constant of its program."""
    return not isinstance(node, Tensor) or (node.op is IDENTITY and not node.inputs)


def is_finite(x: Any) -> bool:
    """Return whether all numbers in an array, or in several, are finite."""
    if isinstance(x, tuple):
        return all(is_finite(part) for part in x)
    x = x._value if isinstance(x, Tensor) else x
    dtype = getattr(x, "dtype", None)
    if dtype is None:
        return not isinstance(x, (float, complex)) or (
            math.isfinite(x.real) and math.isfinite(x.imag)
        )
    if not isinstance(dtype, np.dtype) or dtype.kind not in "fc":
        return True
    return bool(np.isfinite(x).all())


def name_nonfinite(x: Any) -> str:
    """Return ``"nan"`` if an array in a nest has a NaN, else ``"inf"``."""
    for part in flatten_parts([x]):
        part = value_of(part)
        if _has_floats(part) and bool(np.isnan(part).any()):
            return "nan"
    return "inf"


def _has_floats(x: Any) -> bool:
    return x is not None and types.is_differentiable(types.spec_of(x).dtype)


def measure_norm(g: Any) -> tuple[float, bool]:
    """Return a cotangent's L2 norm over all parts, and whether all are finite."""
    if isinstance(g, tuple):
        g = tuple([x._value if isinstance(x, Tensor) else x for x in g])
    elif isinstance(g, Tensor):
        g = g._value
    size = norm(g)
    if math.isfinite(size):
        return size, True
    whole = is_finite(g)  # a norm may overflow
    return (0.0 if whole and math.isnan(size) else size), whole


def _measure_strain(node: Tensor, passed: list[Any]) -> float:
    """Return the largest sum of absolute products of an operand and its cotangent."""
    found = 0.0
    for x, c in zip(node.inputs, passed, strict=False):
        if c is None or isinstance(c, tuple) or not isinstance(x, Tensor):
            continue
        if not x.inputs:
            continue  # an input: no op has rounded it
        product = (c._value if isinstance(c, Tensor) else c) * x._value
        size = float(
            abs(product).sum() if getattr(product, "ndim", 0) else abs(product)
        )
        if size > found:
            found = size
    return found if math.isfinite(found) else 0.0


def count_nonfinite(x: Any) -> str:
    """Return how many numbers are not finite, as text: ``"3 NaN and 1 inf of 12"``."""
    nans = infs = total = 0
    for part in flatten_parts([x]):
        part = value_of(part)
        if part is None or not _has_floats(part):
            continue
        nans += int(np.isnan(part).sum())
        infs += int(np.isinf(part).sum())
        total += int(np.size(part))
    report = [f"{n:,} {w}" for n, w in ((nans, "NaN"), (infs, "infinite")) if n]
    if total == 1:
        return "NaN" if nans else "infinite"
    return f"{' and '.join(report) or 'none not finite'} of {total:,}"


def find_first(mask: Any) -> tuple[int, ...]:
    """Return the index of the first true entry."""
    where = np.flatnonzero(np.asarray(mask))
    return tuple(map(int, np.unravel_index(int(where[0]), np.shape(mask))))


def format_index(index: Sequence[int]) -> str:
    """Return an index as code; empty for that of a single number."""
    return f"[{', '.join(map(str, index))}]" if len(index) else ""


# A program run again in a wider dtype, op by op, on the same leaves.
#
# An op that has one dtype only (LAPACK, kernels), or would be slow in the wide one,
# runs in its own dtype on rounded operands.

#: Products with more multiplications run in their own dtype: wider ones are slow.
MOST_PRODUCTS = 3e7

Table = dict[np.dtype[Any], Any]
WIDER: Table = {
    np.dtype(np.float16): np.float64,
    np.dtype(np.float32): np.float64,
    np.dtype(np.complex64): np.complex128,
}
WIDEST: Table = {
    np.dtype(np.float64): np.longdouble,
    np.dtype(np.complex128): np.clongdouble,
}


def rerun_wider(
    case: Case, table: Table, nodes: list[Tensor], report: bool = True
) -> dict[int, Tensor]:
    """Return the program in wider dtypes: new nodes by the serials of the old ones.

    ``report`` counts this run in the progress.
    """
    made: dict[int, Tensor] = {}
    total = len(case.nodes)
    for i, node in enumerate(nodes):
        tick()
        if report and not i % 256:
            case.report_progress(2 * total + i // 4, total)
        inputs = tuple(
            [made[x.serial] if isinstance(x, Tensor) else x for x in node.inputs]
        )
        args = tuple([value_of(x) for x in inputs])
        if is_leaf(node) or not inputs:
            value = _widen(node._value, table)
        else:
            value = _compute_wide(node, args, table)
        made[node.serial] = walk.copy_node(node, inputs, args, value)
    return made


def _compute_wide(node: Tensor, args: tuple[Any, ...], table: Table) -> Any:
    if node.op is ASTYPE and node.dtype in table:
        return _widen(args[0], table)
    if node.op is IDENTITY:
        return args[0]
    if not (table is WIDEST and _is_large_product(node, args)):
        try:
            return _widen(compute_node(node, args), table)
        except Exception:
            pass
    old = [value_of(x) for x in (node.args or node.inputs)]
    plain = [
        a.astype(b.dtype) if hasattr(a, "astype") and hasattr(b, "dtype") else a
        for a, b in zip(args, old, strict=True)
    ]
    try:
        return _widen(compute_node(node, plain), table)
    except Exception:
        return _widen(node._value, table)


def _is_large_product(node: Tensor, args: tuple[Any, ...]) -> bool:
    if not node.op.traits.contracts:
        return False
    rows = float(np.size(args[0]))
    return rows * float(np.shape(args[-1])[-1] if np.ndim(args[-1]) else 1) > (
        MOST_PRODUCTS
    )


def _widen(value: Any, table: Table) -> Any:
    if isinstance(value, tuple):
        return tuple(_widen(part, table) for part in value)
    dtype = table.get(getattr(value, "dtype", np.dtype(bool)))
    if dtype is None:
        return (
            np.longdouble(value)
            if type(value) is float and table is WIDEST
            else (value)
        )
    return value.astype(dtype)


# Inside of loops and other ops that hold programs.

#: Loops of more ops in all their steps are not recorded for their backward sweep.
MOST = 200_000
#: The depth to which nested loops are examined.
DEPTH = 4


class LoopRun:
    """A loop with the values of its run."""

    def __init__(self, node: Tensor) -> None:
        self.loop = node.params["loop"]
        args = [value_of(x) for x in (node.args or node.inputs)]
        _, self.consts, self.seqs, self.inits = self.loop.split_inputs(args)
        value = node._value
        self.count = int(value[-1] if self.loop.until else self.loop.count_steps(args))
        order = range(self.count)
        self.order = list(reversed(order) if self.loop.reverse else order)
        self.step = self.loop.body.run

    @property
    def output_count(self) -> int:
        """The number of the user's outputs of a step."""
        return int(self.loop.carries + self.loop.visible)


def unfold_node(node: Tensor) -> tuple[list[Tensor], list[Any]] | None:
    """Return the inputs of a node as leaves, and its outputs made by the ops inside.

    None for an op without inner ops of the user's.
    """
    unfold = node.op.unfold
    if unfold is None or not holds_ops(node):
        return None
    leaves = [make_leaf(np.asarray(value_of(x))) for x in (node.args or node.inputs)]
    outputs = unfold(leaves, node.params)
    return None if outputs is None else (leaves, list(outputs))


def holds_ops(node: Tensor) -> bool:
    """Return whether there is a program in a node, more than the body of its row."""
    return node.op.custom or node.op.graphs is not None


def record_inside(node: Tensor) -> Iterator[tuple[list[Any], str, str]]:
    """Yield the recorded outputs inside a node and their place: once, or each step."""
    if loop_of(node) is None:
        inside = unfold_node(node)
        if inside is not None:
            yield inside[1], "inside", "Inside"
        return
    run = LoopRun(node)
    if run.count * max(1, len(run.loop.body.interior)) > MOST:
        return
    carries = list(run.inits)
    for t in run.order:
        leaves = [
            make_leaf(x) for x in (*run.consts, *[x[t] for x in run.seqs], *carries)
        ]
        made = run.step(leaves)
        carries = [value_of(y) for y in made[: run.loop.carries]]
        yield made, f"at step {t}", "In the step"


def lift_finding(
    case: Case, node: Tensor, inner: Finding, where: str, prefix: str
) -> Finding:
    """Return a finding about an inner node as one about the outer node.

    ``where`` names the part of it in the title, ``prefix`` in the evidence.
    """
    fix = inner.fix
    reached = node.op.graphs is not None
    if fix is not None and fix.rule is not None and not reached:
        fix = None  # an override does not reach the inner node
    evidence = inner.evidence
    if inner.site is None:  # else the evidence names the place already
        evidence = f"{prefix}{inner.place}: {evidence}"
    return replace(
        inner,
        node=node,
        title=f"{case.name_node(node)}, {where}: {inner.title}",
        evidence=evidence,
        fix=fix,
        path=(node,),
        site=inner.site or inner.node.site,
    )
