"""Each node's rule by itself, at the values that the node had in the run.

The truth is the op's own ``compute`` (`isolated_node.py`). An input of few entries is
checked at every entry, one of many along random directions: forward mode gives every
output along a direction, reverse mode one number ``<w, J v> = <J^T w, v>``, whose
weights make all outputs count alike. Where a direction is wrong, halving the set of
entries finds one that is wrong, in some log2(n) steps; only an entry is ever reported
as wrong.

What an entry may be off by, in double precision: ``rtol`` of its size, 1e-6; four times
what the differences are uncertain by; and what rounding hides. A derivative whose whole
effect, while its entry moves by its own size, is below ``64 eps`` of the output is one
that no value of the op shows: ``64 eps |y| / |x|``. Last, where an entry is off, the
derivative is measured again a few roundings of the input away: no way to compute it in
this precision can be nearer than eight times what that changes. Single precision is
raised to double before, so these limits hold for it too; a rule whose own run in single
precision is far off what rounding of its operands explains is reported as unsure. An op
that computes in single precision only is held to 2e-3.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from workbench.autodiff.steps import Part, Rule, ends_of
from workbench.checks.alike_nodes import AlikeNodes
from workbench.checks.check_rule import RuleCheck, Suspect, check_second_order
from workbench.checks.isolated_node import IsolatedNode, NoGradient, loop_of
from workbench.checks.progress import (
    BudgetSpent,
    ProgressMeter,
    Unchecked,
    find_meter,
)
from workbench.checks.report import (
    MODES,
    Entry,
    NodeCheck,
    Status,
    make_identity_overrides,
)
from workbench.core import blame, types, walk
from workbench.core.formatting import format_number
from workbench.core.schedule import compute_node
from workbench.core.tensor import IDENTITY, Tensor, make_leaf
from workbench.errors import (
    GradNotImplementedError,
    GradUndefinedError,
    NotDifferentiableError,
    NullTypeGradError,
)
from workbench.ops import define, gradients
from workbench.ops.elementwise import MASK

# Nodes inside nodes with the values that they had: a step of a loop, a branch taken.
#
# A loop keeps no values of its steps. One of them is computed again, node by node: the
# third, or the last of fewer, since first values are often zeros, where kinks lie.

#: How many steps of a loop are taken before its nodes are looked at.
STEPS = 3


def run_inner_nodes(node: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return each node inside a node, paired with a copy that has a value.

    Empty for a node without inner nodes, or if a step of it cannot be run by itself.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> def last(x):
    ...     return wb.scan(np.sin, initial=x, n_steps=3, last=True)
    >>> (loop,) = [n for n in wb.trace(last)(0.5).nodes if n.op.repeats]
    >>> [(old.op.name, float(new.value.round(4))) for old, new in run_inner_nodes(loop)]
    [('sin', 0.4451)]
    """
    try:
        if (loop := loop_of(node)) is not None:
            return _run_loop_step(loop, node.args)
        if node.op.graphs is not None and "branches" in node.params:
            pred, *values = node.args
            body = node.params["branches"][0 if np.all(pred) else 1]
            return _run_body(body, values)[0]
    except Exception:
        # Lengths that only the run itself knows, an op that needs its loop.
        return []
    return []


def _run_loop_step(loop: Any, args: Sequence[Any]) -> list[tuple[Tensor, Tensor]]:
    """Return the nodes of one step of a loop, with their values."""
    _, consts, seqs, carries = loop.split_inputs(tuple(args))
    count = loop.count_steps(tuple(args))
    made: list[tuple[Tensor, Tensor]] = []
    for k in range(min(count, STEPS)):
        at = -1 - k if loop.reverse else k
        made, outputs = _run_body(
            loop.body, [*consts, *(s[at] for s in seqs), *carries]
        )
        carries = outputs[: loop.carries]
    return made


def _run_body(
    body: Any, values: Sequence[Any]
) -> tuple[list[tuple[Tensor, Tensor]], list[Any]]:
    """Return the nodes of a body on values, and its outputs."""
    new = {
        x.serial: make_leaf(v, x.name) for x, v in zip(body.leaves, values, strict=True)
    }
    made = []
    for node in body.interior:
        inputs = tuple(
            new.get(x.serial, x) if isinstance(x, Tensor) else x for x in node.inputs
        )
        args = tuple(x._value if isinstance(x, Tensor) else x for x in inputs)
        value = compute_node(node, args)
        new[node.serial] = walk.copy_node(node, inputs, args, value)
        made.append((node, new[node.serial]))
    outputs = [
        new[y.serial]._value if isinstance(y, Tensor) and y.serial in new
        else y._value if isinstance(y, Tensor) else y
        for y in body.outputs
    ]  # fmt: skip
    return made, outputs


# The check of all nodes

Array = np.ndarray[Any, Any]

#: Errors that say that there is no derivative, on purpose.
REFUSED = (
    NoGradient,
    NotDifferentiableError,
    GradUndefinedError,
    GradNotImplementedError,
    NullTypeGradError,
)
#: A relative change by an override below this is rounding.
NOTHING = 1e-12
#: The note on a node whose rule another one replaces.
COVERED = "an override of the pattern around it replaces its rule."
#: Inputs of up to so many entries are checked at each.
EXACT = 32
#: Inputs of up to so many entries have their second order checked at each node.
SECOND = 256
#: The part of the time that is left which one node may take.
SHARE = 0.5
#: Bytes that the allocator is to keep for the next arrays.
KEPT = 2**23


def is_checkable(node: Tensor) -> bool:
    """Return whether a node has a rule to check: a value, float input and output."""
    if node.op is IDENTITY or node.op is define.ITEM or node.op is gradients.NULL:
        return False
    if node._value is None or node.op is MASK:
        return False
    parts = node._value if isinstance(node._value, tuple) else (node._value,)
    if not any(types.is_differentiable(types.spec_of(y).dtype) for y in parts):
        return False
    return any(
        isinstance(x, Tensor)
        and not isinstance(x._value, tuple)
        and x._value is not None
        and types.is_differentiable(x.dtype)
        for x in node.inputs
    )


def keep_freed_memory() -> None:
    """Let the next arrays lie where those before them lay.

    A check makes arrays as large as those of a node, dozens for each node. glibc takes
    fresh pages for arrays beyond 128 kB, and gives back what is free at the end of its
    heap; both cost a third of a check. It stops for sizes below that of a block that
    has been freed. Other allocators do this by themselves, or are not moved by it; the
    block is never written to, so that it takes no memory.
    """
    np.empty(KEPT, np.uint8)


def check_nodes(
    nodes: Sequence[Tensor],
    *,
    seed: int = 0,
    order: int = 2,
    rtol: float | None = None,
    entries: int = EXACT,
    rules: Mapping[int, Any] | None = None,
    covered: Collection[int] = (),
    cotangent_of: Callable[[Tensor], Any] | None = None,
    meter: ProgressMeter | None = None,
    name_of: Callable[[Tensor], str] | None = None,
    found: list[NodeCheck] | None = None,
) -> list[NodeCheck]:
    """Check the rule of every node of a program by itself.

    Parameters
    ----------
    nodes
        The nodes; those without a value, or without a float input, are left out.
    seed
        Chooses directions and weights.
    order
        1 checks rules, 2 the derivatives of rules too.
    rtol
        The relative error that an entry may have; by default 1e-6.
    entries
        Inputs of up to so many entries are checked at each of them.
    rules
        The overrides that run, by the serial of their node. The check reports what they
        change; that is no error.
    covered
        The serials of nodes whose rule does not run, since that of another node does.
    cotangent_of
        Returns the cotangent of a node in the run, for what an override changes; by
        default it is ones.
    meter
        Counts the nodes, and says how long the check may take. What it has not come to
        is listed there; no node takes more than half of the time that is left, so that
        a slow one leaves some for the others.
    name_of
        Returns the name of a node in that list.
    found
        The list to fill.

    Returns
    -------
    One `NodeCheck` per node, in the order of the program; after a loop or a choice
    those of the nodes inside it, at the values of one step or of the branch taken.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> program = wb.trace(lambda x: np.sum(np.tanh(x)))(np.ones(3))
    >>> [(check.node.op.name, check.status) for check in check_nodes(program.nodes)]
    [('tanh', 'right'), ('sum', 'right')]
    """
    made: list[NodeCheck] = [] if found is None else found
    to = ProgressMeter(None) if meter is None else meter
    keep_freed_memory()
    rng = np.random.default_rng(seed)
    kinds: set[Any] = set()
    orders: dict[int, int] = {}
    ruled = {} if rules is None else rules

    def order_of(node: Tensor) -> int:
        """Return the order to which a node is checked; the same at each call."""
        if node.serial not in orders:
            twice = order > 1 and _needs_second_order(node, kinds)
            orders[node.serial] = 2 if twice else 1
        return orders[node.serial]

    checkable = [x for x in nodes if is_checkable(x)]
    alike = AlikeNodes(
        [x for x in checkable if x.serial not in ruled and x.serial not in covered],
        rng, order_of=order_of, rtol=rtol,
    )  # fmt: skip

    def check(node: Tensor, reported: Tensor) -> None:
        """Check one node and report another in its place: the one inside a loop."""
        rule = None if rules is None else rules.get(reported.serial)
        with np.errstate(all="ignore"):
            if rule is not None and rule.pull is not None:
                result = compare_override(node, rule, cotangent_of)
            else:
                suspects = alike.find_suspects(node)
                result = check_node(
                    node, rng, order=order_of(node), rtol=rtol, entries=entries,
                    suspects=suspects,
                )  # fmt: skip
        text = result.text
        if reported.serial in covered:
            text = f"{text} {describe_node(reported)}: {COVERED}".strip()
        made.append(replace(result, node=reported, text=text))

    def check_inner_nodes(node: Tensor) -> None:
        """Check the nodes inside a node, as deep as loops and choices are nested."""
        place = len(made) - 1
        for old, new in run_inner_nodes(node):
            if is_checkable(new):
                check(new, old)
                check_inner_nodes(new)
        culprit = next((c for c in made[place + 1 :] if c.status == "wrong"), None)
        if culprit is not None and made[place].status == "wrong":
            text = f"{describe_node(node)} depends on a wrong rule inside it."
            made[place] = replace(made[place], status="unsure", text=text)

    def check_whole(node: Tensor) -> None:
        """Check one node of the program and those inside."""
        to.step()
        if alike.is_right(node):
            made.append(NodeCheck(node, "right", "rev", None, ""))
            return
        check(node, node)
        check_inner_nodes(node)

    name = describe_node if name_of is None else name_of
    for node in checkable:
        before = len(made)
        if not to.attempt("", partial(check_whole, node), SHARE):
            inside = "nodes inside " if len(made) > before else ""
            to.list_unchecked(f"{inside}{name(node)}")
    plain = [x for x in checkable if orders.get(x.serial) == 1 and order > 1]
    if plain and not to.is_over:
        count = blame.format_count(len(plain), "large node")
        to.unchecked.append(Unchecked(f"the second derivatives of {count}", "size"))
    return made


def _needs_second_order(node: Tensor, kinds: set[Any]) -> bool:
    """Return whether to check a node's second order: small, or first of its kind."""
    arrays = [x for x in node.args if hasattr(x, "dtype")]
    kind = node.op, *((len(x.shape), x.dtype) for x in arrays)
    new = kind not in kinds
    kinds.add(kind)
    size = sum(int(np.size(x)) for x in arrays)
    return size <= SECOND or (new and size <= 100_000)


def check_node(
    node: Tensor,
    rng: np.random.Generator,
    *,
    order: int = 2,
    rtol: float | None = None,
    entries: int = EXACT,
    suspects: Sequence[Suspect] = (),
) -> NodeCheck:
    """Check the rule of one node, in both modes, at the node's own values.

    Where one of the suspects is wrong, nothing else is looked at.
    """
    if purpose := node.op.traits.purpose:
        text = f"{describe_node(node)} {purpose} on purpose."
        return NodeCheck(node, "overridden", "rev", None, text)
    try:
        isolated = IsolatedNode(
            node, make_identity_overrides([node]) if node.op.graphs is not None else ()
        )
    except Exception as error:
        text = f"{describe_node(node)} cannot be computed by itself: {error}"
        return NodeCheck(node, "unsure", "rev", None, text)
    check = RuleCheck(isolated, rng, rtol, entries)
    try:
        if not check.confirm_suspects(suspects):
            check.check_first_order()
    except REFUSED as error:
        return NodeCheck(
            node, "unsure", check.mode, None, f"{describe_node(node)}: {error}"
        )
    except BudgetSpent:
        if not check.has_wrong():
            raise
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        subject = f"The rule of {describe_node(node)}"
        text = f"{subject} fails in {MODES[check.mode]}: {message}"
        return NodeCheck(node, "wrong", check.mode, None, text)
    note = ""
    if order > 1 and not any(e.verdict in ("wrong", "kink") for e in check.entries):
        try:
            note = check_second_order(isolated, check, rng)
        except BudgetSpent:
            meter = find_meter()
            if meter is not None:
                meter.list_unchecked(f"the second derivative of {describe_node(node)}")
    return _summarize_check(node, check, note)


def _summarize_check(node: Tensor, check: RuleCheck, note: str) -> NodeCheck:
    """Return the status of a node, its worst entry and one line of words."""
    ranks: tuple[Status, ...] = ("wrong", "kink", "unsure", "right")
    worst = min(
        check.entries,
        key=lambda e: (ranks.index(e.verdict), e.order, e.mode != "rev", -e.badness[1]),
        default=None,
    )
    status: Status = "right" if worst is None else worst.verdict
    mode = "rev" if worst is None else worst.mode.partition(" ")[0]
    text = ""
    if worst is not None and status != "right":
        text = describe_entry(node, worst)
    elif check.notes:
        status, text = "unsure", f"{describe_node(node)}: {check.notes[0]}"
    text = " ".join(filter(None, (text, check.no_forward, note)))
    return NodeCheck(node, status, mode, worst, text)


def describe_entry(node: Tensor, e: Entry) -> str:
    """Return one sentence on a node, by its worst entry."""
    what = f"d{e.output or 'y'} / d{e.place}"
    if e.order > 1:
        what = f"the second derivative by {e.argument} along a direction"
    mode = e.mode
    for short, long in MODES.items():
        mode = mode.replace(short, long)
    if e.jump and e.verdict == "kink":
        return (
            f"{describe_node(node)} jumps at {e.place}, where {what} has no value; the"
            f" rule says {format_number(e.analytic)}."
        )
    if e.verdict == "kink":
        return (
            f"{describe_node(node)} has a kink at {e.place}: {what} is"
            f" {format_number(e.left)} to the left and {format_number(e.right)} to the"
            f" right; the rule says {format_number(e.analytic)}."
        )
    if e.verdict == "unsure":
        return (
            f"{describe_node(node)}: differences cannot tell {what} at {e.place}: left"
            f" {format_number(e.left)}, right {format_number(e.right)}; the rule says"
            f" {format_number(e.analytic)}."
        )
    reported = (
        f"The rule of {describe_node(node)} is wrong in {mode}: {what} should be"
        f" {format_number(e.numeric)} ± {e.uncertainty:.1g} ({e.method}), it gives"
        f" {format_number(e.analytic)}"
    )
    if not np.isfinite(e.analytic):
        return (
            f"{reported}. Look for a division by 0 in it; choose with np.where before"
            " dividing."
        )
    entry = " Which entry it is was not found in time." if e.along else ""
    return f"{reported}; off by {e.error:.3g}, tolerance {e.tolerance:.2g}.{entry}"


def describe_node(node: Tensor) -> str:
    """Return a node as text: op, shape and the user's line."""
    return f"{blame.describe(node)}{blame.quote_site(node.site)}"


def collect_cotangent(node: Tensor, cotangent_of: Callable[[Tensor], Any]) -> Any:
    """Return the cotangent of a step of a sweep: a tuple for several outputs.

    None where no cotangent arrives.
    """
    got = [cotangent_of(x) for x in ends_of(node)]
    if len(got) == 1 or all(g is None for g in got):
        return got[0]
    known = zip(ends_of(node), got, strict=True)
    return tuple([np.zeros_like(x._value) if g is None else g for x, g in known])


def compare_override(
    node: Tensor, rule: Rule, cotangent_of: Callable[[Tensor], Any] | None
) -> NodeCheck:
    """Return the check of an overridden node, with the change by its override."""
    text = f"{describe_node(node)} runs {rule.label!r}"
    try:
        # An override of a pattern replaces the rule of the whole part that it matches.
        target = rule.node if isinstance(rule.node, Part) else node
        isolated = IsolatedNode(target)
        g = None if cotangent_of is None else collect_cotangent(target, cotangent_of)
        if g is None:
            flat = np.ones(len(isolated.outputs))
        else:
            g = (g,) if isolated.is_tuple and not isinstance(g, tuple) else g
            flat = isolated.concatenate_outputs(g)
        true = isolated.pull_back(flat)
        replaced = isolated.pull_back(flat, rule=rule)
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        return NodeCheck(node, "overridden", "rev", None, f"{text}; {message}")
    pairs: list[tuple[int, Array, Array]] = []
    for argnum, t, c in zip(isolated.argnums, true, replaced, strict=True):
        zero = np.zeros_like(np.asarray(isolated.values[argnum]))
        pairs.append((argnum, zero if t is None else t, zero if c is None else c))
    # Of size 1, for the squares of others overflow or vanish.
    size = max((float(np.max(np.abs(x))) for _, *both in pairs for x in both
                if np.size(x)), default=0.0) or 1.0  # fmt: skip
    whole = change = 0.0
    worst: Entry | None = None
    for argnum, t, c in pairs:
        off = np.abs(c - t)
        whole += float(np.sum(np.abs(t / size) ** 2))
        change += float(np.sum((off / size) ** 2))
        if off.size:
            k = int(np.argmax(np.where(np.isnan(off), np.inf, off)))
            place = tuple(int(n) for n in np.unravel_index(k, off.shape))
            entry = Entry(
                isolated.input_label(argnum), place, 1, "rev",
                c.flat[k].item(), t.flat[k].item(),
                0.0, 1e-6 * abs(t.flat[k].item()) + 1e-300, t.flat[k].item(),
                t.flat[k].item(), "right", "the true rule",
            )  # fmt: skip
            if worst is None or not entry.error <= worst.error:
                worst = entry
    if not np.isfinite(whole + change):
        text += ", where what is passed on is not finite"
    elif whole > 0 and change > NOTHING**2 * whole:
        percent = 100 * (change / whole) ** 0.5
        text += f", which changes what it passes on by {percent:.3g} %"
    elif change > 0 and whole == 0:
        text += ", which passes on a gradient where the true one is zero"
    else:
        text += ", which changes nothing here"
    if worst is not None and worst.error > 0:
        text += (
            f"; most at {worst.place}: true {format_number(worst.numeric)}, overridden"
            f" {format_number(worst.analytic)}"
        )
    return NodeCheck(node, "overridden", "rev", worst, f"{text}.")
