"""Which nodes made the NaN and infinities that reach a result or a gradient.

From a result that is not finite the walk goes back through nodes that are not, NaN to
NaN first, until the operands are finite: there it began. A NaN that was made from
infinities is blamed on who made these, unless they are constants that were meant.
Infinities that harm nothing (a mask of minus infinity before a softmax) are never
met: no result that is not finite leads to them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from workbench.checks.doctor import forms, words, zeros
from workbench.checks.doctor.case import Case, Step, counted, finite, is_leaf, kinds
from workbench.checks.doctor.finding import Finding, Fix
from workbench.checks.doctor.forms import form_of
from workbench.checks.doctor.singular import BOUNDED
from workbench.checks.doctor.spelling import LEFT_OUT, closed, operand
from workbench.core.tensor import Tensor, value_of


def find_bad_values(case: Case) -> Iterator[Finding]:
    """A finding for each origin of what is not finite in the outputs."""
    roots = [y for y in case.outputs if y.serial in case.unfinite]
    mended: set[int] = set()
    for node, path in value_origins(case, roots).items():
        form = form_of(case, node)
        if form is not None:
            if form.whole.serial in mended:
                continue  # the form that was named before is the same
            mended.add(form.whole.serial)
        yield tell_value(case, node, path)


def value_origins(case: Case, roots: list[Tensor]) -> dict[Tensor, tuple[Tensor, ...]]:
    """The nodes where it began, each with the way to the result that shows it."""
    found: dict[Tensor, tuple[Tensor, ...]] = {}
    came: dict[int, Tensor | None] = {y.serial: None for y in roots}
    stack = list(roots)
    while stack:
        node = stack.pop()
        sources = _sources(case, node)
        if not sources or _makes_more(node):
            found[node] = _path(case, node, came)
        for x in sources:
            if x.serial not in came:
                came[x.serial] = node
                stack.append(x)
    return dict(sorted(found.items(), key=lambda item: item[0].serial))


def _sources(case: Case, node: Tensor) -> list[Tensor]:
    """The operands that a node has its trouble from; none where it makes it all."""
    bad = [
        x for x in node.inputs if isinstance(x, Tensor) and x.serial in case.unfinite
    ]
    if not bad:
        return []
    if _makes_more(node):  # and perhaps some of it is from them
        return [x for x in bad if not _given(case, x)]
    if case.unfinite[node.serial] == "nan":
        nans = [x for x in bad if case.unfinite[x.serial] == "nan"]
        if nans:
            return nans
        # NaN of infinities: whose they are, unless they were given.
        made = [x for x in bad if not _given(case, x)]
        return made
    return bad


def _given(case: Case, x: Tensor) -> bool:
    """Return whether infinities were put there on purpose, as constants are."""
    stack, seen = [x], {x.serial}
    while stack:
        node = stack.pop()
        sources = [
            a
            for a in node.inputs
            if isinstance(a, Tensor) and a.serial in case.unfinite
        ]
        constants = any(
            not isinstance(a, Tensor) and not finite(_array(a)) for a in node.inputs
        )
        if not sources and not constants and not is_leaf(node):
            return False
        for a in sources:
            if a.serial not in seen:
                seen.add(a.serial)
                stack.append(a)
    return True


def _array(a: Any) -> Any:
    return a if isinstance(a, (int, float, complex)) or hasattr(a, "dtype") else None


def _data(case: Case, node: Tensor) -> int | None:
    """Return which operand is data that has what the result shows: NaN, or infinities.

    Infinite data that became NaN is another matter: a mask that met a 0.
    """
    shown = case.unfinite[node.serial]
    for k, a in enumerate(node.inputs):
        plain = not isinstance(a, Tensor) or (is_leaf(a) and a.name is None)
        value = _array(value_of(a))
        if plain and value is not None and not finite(value) and kinds(value) == shown:
            return k
    return None


def _of_data(node: Tensor, name: str, k: int, path: tuple[Tensor, ...]) -> Finding:
    """Return the finding for data, no input of the program, that is not finite."""
    text = closed(operand(node, k))
    name_of = LEFT_OUT if text == "constant" else text
    text = "the data" if name_of == LEFT_OUT else text
    how = counted(value_of(node.inputs[k]))
    return Finding(
        "input-not-finite",
        "error",
        node,
        "forward",
        f"{name} reads data that is not finite",
        f"{text[0].upper()}{text[1:]} holds {how}."
        if text == "the data"
        else f"{text} holds {how}.",
        "The program is given what is not finite; what is computed from it is not"
        " finite either.",
        Fix(
            "leave such entries out, or put 0 in their place",
            f"np.where(np.isfinite({name_of}), {name_of}, 0)",
        ),
        path,
    )


def _makes_more(node: Tensor) -> bool:
    """Whether an op entry by entry spoils entries that its operands had whole."""
    if not node.op.elementwise or isinstance(node._value, tuple):
        return False
    y = node._value
    try:
        clean = np.ones(np.shape(y), bool)
        for a in node.args:
            clean = clean & np.isfinite(value_of(a))
        return bool((clean & ~np.isfinite(y)).any())
    except (TypeError, ValueError):
        return False


def _path(
    case: Case, node: Tensor, came: dict[int, Tensor | None]
) -> tuple[Tensor, ...]:
    path = [node]
    while (after := came[path[-1].serial]) is not None:
        path.append(after)
    return tuple(path)


def tell_value(case: Case, node: Tensor, path: tuple[Tensor, ...]) -> Finding:
    """Return the finding for one origin."""
    name = case.call(node)
    if is_leaf(node):
        how, x = counted(node._value), node.name or "x"
        return Finding(
            "input-not-finite",
            "error",
            node,
            "forward",
            f"{name} holds {how}",
            f"{how[0].upper()}{how[1:]} entries of {name} are not finite before"
            " anything is computed.",
            "The program is given what is not finite; what is computed from it is not"
            " finite either.",
            Fix(
                "leave such rows out, or put 0 in their place",
                f"{x} = np.where(np.isfinite({x}), {x}, 0)",
            ),
            path,
        )
    bad = [x for x in node.inputs if not finite(_array(value_of(x)))]
    more = _makes_more(node)
    given = None if more else _data(case, node)
    if given is not None:
        return _of_data(node, name, given, path)
    if bad and not more:
        said = words.from_infinity(case, node)
    else:
        said = words.value(case, node)
    gone = of_cancelled(case, node, said, path)
    if gone is not None:
        return gone
    cause, fix = said.cause, said.fix
    unwanted = zeros.dropped(case, node, _bad_entries(node))
    if unwanted is not None:
        cause, fix = cause + unwanted.cause, unwanted.fix or fix
    return Finding(
        said.kind,
        "error",
        node,
        "forward",
        f"{name} {said.trouble}",
        said.evidence,
        cause,
        fix,
        path,
    )


def _bad_entries(node: Tensor) -> Any:
    y = node._value
    return False if isinstance(y, tuple) else ~np.isfinite(y)


def of_cancelled(
    case: Case, node: Tensor, said: words.Told, path: tuple[Tensor, ...]
) -> Finding | None:
    """The finding where what an op cannot take is only rounding: who has cancelled."""
    if said.operand is None or node.op.custom:
        return None
    found = forms.cancelled(case, node, said.operand, said.mask)
    if found is None:
        return None
    return Finding(
        "cancellation",
        "error",
        found.node,
        "forward",
        f"{case.call(found.node)} cancels, and {case.call(node)} {said.trouble}",
        found.evidence,
        forms.CAUSE,
        found.fix,
        (found.node, *path),
    )


# Backward: which nodes made the NaN and infinities that reach a gradient.
#
# From a gradient that is not finite the walk goes forward, against the sweep, through
# what was passed on, to the first step at which a finite cotangent arrived: its rule
# made it. An infinite slope that is multiplied by 0 further on (the sqrt of a square at
# 0) is so blamed on the slope, and not on the product that shows NaN.


def find_bad_slopes(case: Case, known: Collection[Tensor] = ()) -> Iterator[Finding]:
    """A finding for each origin of what is not finite in the gradients.

    ``known`` are the nodes that were blamed for values already.
    """
    blamed = {node.serial for node in known}
    for step, path in slope_origins(case):
        node = step.node
        if node.serial in blamed:
            continue
        wild = [
            x
            for x in node.inputs
            if isinstance(x, Tensor) and x.serial in case.unfinite
        ]
        if wild:
            makers = value_origins(case, wild)
            if any(x.serial in blamed for x in makers):
                continue  # its values are to blame, which has been said
            for maker, way in makers.items():
                if maker.serial not in blamed:
                    blamed.add(maker.serial)
                    yield tell_value(case, maker, way)
            continue
        blamed.add(node.serial)
        yield tell_slope(case, step, path)


def slope_origins(case: Case) -> Iterator[tuple[Step, tuple[Tensor, ...]]]:
    """The steps where it began, in the order of the sweep, each with the way on."""
    steps = case.steps
    passers: dict[int, list[Step]] = {}
    for step in steps:
        for serial, _, whole in step.passed:
            if not whole:
                passers.setdefault(serial, []).append(step)
    came: dict[int, Tensor | None] = {}
    stack = []
    for x, g in zip(case.wrt, case.gradients, strict=True):
        if g is not None and not finite(g) and x.serial not in came:
            came[x.serial] = None
            stack.append(x)
    found: dict[int, Step] = {}
    while stack:
        x = stack.pop()
        makers = passers.get(x.serial, [])
        if not makers:
            own = case.step_of.get(x.serial)
            if own is not None:  # finite parts whose sum is not
                found[x.serial] = own
            continue
        for step in makers:
            serial = step.node.serial
            if serial in came:
                continue
            came[serial] = x
            if step.finite:
                found[serial] = step
            else:
                stack.append(step.node)
    for serial in sorted(found, reverse=True):
        path = [found[serial].node]
        while (after := came.get(path[-1].serial)) is not None:
            path.append(after)
        yield found[serial], tuple(path)


def tell_slope(case: Case, step: Step, path: tuple[Tensor, ...]) -> Finding:
    """Return the finding for one origin."""
    node, name = step.node, case.call(step.node)
    if step.arrays is None:
        return Finding(
            "gradient-overflow",
            "error",
            node,
            "backward",
            f"the gradient that arrives at {name} overflows",
            f"Its norm is {step.norm:.3g}; what its readers pass on is finite, the sum"
            " is not.",
            "The sum of what flows back is larger than the dtype holds.",
            words.attached(case, node, "bound the gradient there", BOUNDED),
            path,
        )
    said = words.slope(case, node, *step.arrays)
    gone = of_cancelled(case, node, said, path)
    if gone is not None:
        return gone
    return Finding(
        said.kind,
        "error",
        node,
        "backward",
        f"{name} {said.trouble}",
        said.evidence,
        said.cause,
        said.fix,
        path,
    )
