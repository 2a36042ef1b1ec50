"""`diagnose`: what is wrong with the values and gradients of a program, and where.

The doctors stand in one list, in the order in which they are asked; each looks at the
same `Case` and knows which nodes were blamed before. What they find is sorted, told
once for many of a kind, and handed back as `Findings`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from operator import index
from types import CodeType
from typing import Any

import numpy as np

from workbench.autodiff import reverse
from workbench.checks.doctor import (
    digits,
    forms,
    matrices,
    steps,
    values,
    vanishing,
    vectors,
    zeros,
)
from workbench.checks.doctor.case import Case
from workbench.checks.doctor.finding import Finding, Findings, Fix
from workbench.checks.doctor.singular import ENTRIES, SAFE
from workbench.checks.progress import CheckStopped, Progress
from workbench.core import source, tree, types
from workbench.core.arguments import check_arguments
from workbench.core.blame import shorten
from workbench.core.tensor import Tensor, apply, value_of
from workbench.core.trace import ArgumentNames, check_function, is_float, record
from workbench.errors import UsageError
from workbench.overrides.override_blocks import resolve_call

#: At most so many findings of one kind; the last tells how many more there are.
MOST = 5


def diagnose(
    f: Callable[..., Any],
    *args: Any,
    argnums: int | Sequence[int] | None = None,
    progress: Progress | None = None,
) -> Findings:
    """Run a function and its gradient, and find the nodes to blame for what is wrong.

    Parameters
    ----------
    f
        A function of arrays or nests. An output that is not one number is summed.
    args
        Its arguments; integers and whole-number arrays stay as they are.
    argnums
        The positions of what it is differentiated by; by default every argument of
        float dtype.
    progress
        Called with (done, all) now and then; true stops it, and what was found so far
        is returned. So does an interrupt.

    Returns
    -------
    `Findings`, errors first, then the earliest cause first; empty for a healthy
    program. Overrides of the ``with workbench.overrides(...)`` blocks around the call
    are in force.

    Raises
    ------
    UsageError
        If no argument is of float dtype, or ``f`` returns no number.
    Exception
        What ``f`` itself raises before anything was computed; later on that is a
        finding too.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> def length(x):
    ...     return np.sqrt(np.sum(x**2))
    >>> found = wb.diagnose(length, np.zeros(3))
    >>> [finding.kind for finding in found], found[0].node.op.name
    (['infinite-slope'], 'sqrt')
    >>> list(wb.diagnose(length, np.ones(3)))
    []
    """
    check_function(f, "diagnose")
    check_arguments(f, args, "diagnose", "wb.diagnose(f, {})")
    flat, structure = tree.flatten(args)
    meant = range(len(flat)) if argnums is None else _leaves_of(structure, argnums)
    chosen = [i for i, x in enumerate(flat) if i in meant and is_float(x)]
    if not chosen:
        raise UsageError(
            "diagnose: no argument is of float dtype. Pass x.astype(float)."
        )
    for i in chosen:
        if isinstance(flat[i], Tensor) and flat[i]._value is None:
            raise UsageError(
                f"diagnose: {flat[i].name or 'an argument'} is a symbol without value,"
                " and the doctor looks at numbers. Pass an array."
            )
    names = ArgumentNames(f, range(len(args)), structure.children, chosen)
    try:
        return _diagnosed(f, flat, structure, chosen, names, progress)
    except ArithmeticError:
        doubles = list(flat)
        for i in chosen:
            doubles[i] = _double(flat[i])
        if all(a is b for a, b in zip(flat, doubles, strict=True)):
            raise
        # Python's own numbers raise where NumPy's become infinite and go on.
        return _diagnosed(f, doubles, structure, chosen, names, progress)


def _double(x: Any) -> Any:
    """Return a number of Python's as one of NumPy's."""
    if type(x) is float:
        return np.float64(x)
    return np.complex128(x) if type(x) is complex else x


def _diagnosed(
    f: Callable[..., Any],
    flat: Sequence[Any],
    structure: Callable[..., Any],
    chosen: Sequence[int],
    names: ArgumentNames,
    progress: Progress | None,
) -> Findings:
    """Run a function on these leaves, and ask all doctors."""
    started: list[Tensor] = []

    def call(leaves: list[Tensor]) -> Any:
        started.extend(leaves)
        filled = list(flat)
        for i, x in zip(chosen, leaves, strict=True):
            filled[i] = x
        return f(*structure(filled))

    of = getattr(f, "__name__", type(f).__name__)
    of = "the function" if of == "<lambda>" else of
    with _quiet():
        try:
            made = record(call, [value_of(flat[i]) for i in chosen], names)
        except Exception as error:
            if isinstance(error, ArithmeticError) and any(
                _double(flat[i]) is not flat[i] for i in chosen
            ):
                raise
            reached = _reached(error, started)
            if reached is None:
                failed = _failed(error)[0]
                if failed is None or failed.op.name not in matrices.CONDITIONED:
                    raise
                reached = []
            return _half_way(of, error, reached, started, progress)
    _check_outputs(made.outputs)
    outputs = [
        y
        for y in made.outputs
        if isinstance(y, Tensor) and types.is_differentiable(y.dtype)
    ]
    resolution = resolve_call(None, outputs, made.inputs, "diagnose")
    case = Case(
        of,
        outputs,
        [np.ones_like(y._value) for y in outputs],
        [*made.inputs] if outputs else [],
        None if resolution is None else resolution.rules,
        unread=[] if outputs else [*made.inputs],
        progress=progress,
    )
    return examine(case)


def _leaves_of(structure: tree.Tree, argnums: int | Sequence[int]) -> Collection[int]:
    """Return the positions of the leaves of the arguments that ``argnums`` names."""
    count = len(structure.children)
    try:
        given = argnums if isinstance(argnums, Iterable) else [argnums]
        places = [index(place) for place in given]
    except TypeError:
        raise UsageError(
            f"diagnose: argnums={argnums!r} is no position. Give the number of an"
            " argument, or several: argnums=(0, 2)."
        ) from None
    for place in places:
        if not -count <= place < count:
            raise UsageError(
                f"diagnose: argnums={place}, and there are {count} arguments."
            )
    wanted = {place % count for place in places}
    owners = [k for k, x in enumerate(structure.children) for _ in x.names("")]
    return {i for i, k in enumerate(owners) if k in wanted}


def _check_outputs(outputs: Sequence[Any]) -> None:
    """Refuse what has no number in it: there is nothing to look at."""
    for y in outputs:
        if isinstance(y, Tensor):
            return
        dtype = getattr(y, "dtype", None) or np.asarray(y).dtype
        if np.dtype(dtype).kind in "biufc":
            return
    forgot = " Has it a `return` at its end?" if [*outputs] in ([], [None]) else ""
    what = "nothing that is a number"
    if len(outputs) == 1:
        what = shorten(repr(outputs[0]))
    raise UsageError(
        f"diagnose needs arrays or numbers; the function returned {what}.{forgot}"
    )


def examine(case: Case) -> Findings:
    """Ask all doctors about a case; what was found until it was stopped, if it was."""
    found: list[Finding] = []
    stopped = False
    with _quiet():
        try:
            for finding in _asked(case, found):
                found.append(finding)
        except (CheckStopped, KeyboardInterrupt):
            stopped = True
        except Exception as error:
            node = _failed_rule(error)
            if node is None:
                raise
            found += _raised(case, error, node)
    return Findings(tuple(_sorted(_folded(found))), case.of, stopped)


def _failed_rule(error: BaseException) -> Tensor | None:
    """Return the node of the program whose rule raised in the backward sweep."""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code is reverse.sweep.__code__:
            node: Tensor | None = trace.tb_frame.f_locals.get("node")
            return node
        trace = trace.tb_next
    return None


def _raised(case: Case, error: Exception, node: Tensor) -> Iterator[Finding]:
    """What is to say of a rule that raises an error."""
    singular = matrices.told(case, node)
    if singular is not None:
        yield singular
    text = "\n".join([f"{type(error).__name__}: {error}", *_notes(error)])
    yield Finding(
        "raised",
        "error",
        node,
        "backward",
        f"the derivative of {case.call(node)} raised an error",
        shorten(text, 600),
        "Its rule does not work at these values."
        if singular is None
        else "Its rule solves with that matrix; see the finding above it.",
    )


def _notes(error: Exception) -> list[str]:
    return list(getattr(error, "__notes__", ()))


def _asked(case: Case, found: list[Finding]) -> Iterator[Finding]:
    yield from steps.refined(case, values.find_bad_values(case))
    yield from steps.refined(case, values.find_bad_slopes(case, [*_blamed(found)]))
    yield from vanishing.find_idle_units(case)
    yield from vectors.find_undetermined_vectors(case, [f.node for f in found])
    yield from zeros.find_zero_gradients(case, [f.node for f in found])
    singular = [*matrices.find_singular_matrices(case)]
    yield from singular
    # What is not finite has no size and no digits; noise has no size of its own.
    if all(f in singular or f.severity != "error" for f in found):
        grown = [*vanishing.find_vanishing_ways(case, [f.node for f in found])]
        lost = [*digits.find_lost_digits(case, [f.node for f in singular])]
        # Errors grow as gradients do, and what cancels is divided by what is small: one
        # finding, not two. A difference that cancels is the cause, else the growth is.
        if any(f.node.op.name in ("subtract", "add") for f in lost):
            wrong = any(f.severity == "error" for f in lost)
            grown = [f for f in grown if f.kind != "exploding" and not wrong]
        elif any(f.kind == "exploding" for f in grown):
            lost = []
        yield from grown
        yield from lost
    yield from forms.find_near_overflow(case, [f.node for f in found])


def _blamed(found: Sequence[Finding]) -> Iterator[Tensor]:
    """The nodes of findings, and who took what had cancelled."""
    for one in found:
        yield one.node
        if one.kind == "cancellation":
            yield from one.path[1:2]


class _quiet:
    """No warning of NumPy's: what it would warn of is what is being told."""

    def __enter__(self) -> None:
        self.state = np.errstate(all="ignore")
        self.warned = warnings.catch_warnings()
        self.state.__enter__()
        self.warned.__enter__()
        warnings.simplefilter("ignore", RuntimeWarning)
        warnings.simplefilter("ignore", np.exceptions.ComplexWarning)

    def __exit__(self, *error: Any) -> None:
        self.warned.__exit__(*error)
        self.state.__exit__(*error)


# A function that stops half-way


def _reached(error: BaseException, leaves: Iterable[Tensor]) -> list[Tensor] | None:
    """Return the Tensors that stood in the user's frames when a function raised."""
    first = min((x.serial for x in leaves), default=0)
    found: dict[int, Tensor] = {}
    trace = error.__traceback__
    while trace is not None:
        for value in trace.tb_frame.f_locals.values():
            for x in value if isinstance(value, (list, tuple)) else (value,):
                if type(x) is Tensor and x.serial >= first and x._value is not None:
                    found[x.serial] = x
        trace = trace.tb_next
    made = [found[s] for s in sorted(found) if found[s].inputs]
    return made or None


def _failed(error: BaseException) -> tuple[Tensor | None, source.Site | None]:
    """Return the op that raised, as a node without value, and the user's line that did.

    No op, where it was the user's own code that raised.
    """
    failed: Tensor | None = None
    line: tuple[CodeType | None, int] = None, -1
    trace = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        if not source.is_internal(frame):
            line, failed = (frame.f_code, trace.tb_lasti), None
        elif frame.f_code is apply.__code__ and failed is None:
            op, inputs, params = (frame.f_locals[k] for k in ("op", "inputs", "params"))
            args = tuple(map(value_of, inputs))
            failed = Tensor(op, inputs, args, params, None, *line)
            failed.spec = (
                types.spec_of(args[0]) if args else types.Spec((), np.dtype(float))
            )
        trace = trace.tb_next
    return failed, source.decode(*line)


def _half_way(
    of: str,
    error: Exception,
    reached: list[Tensor],
    leaves: list[Tensor],
    progress: Progress | None,
) -> Findings:
    """Return what is to say of a function that raised, from what it had computed."""
    case = Case(of, reached, [], leaves, progress=progress)
    found: list[Finding] = []
    stopped = False
    with _quiet():
        try:
            for finding in steps.refined(case, values.find_bad_values(case)):
                found.append(finding)
        except (CheckStopped, KeyboardInterrupt):
            stopped = True
    failed, site = _failed(error)
    text = f"{type(error).__name__}: {error}".strip()
    cause = (
        "The values that it had computed were not finite any more; see the finding"
        " above it."
        if found
        else "All values until then are finite; the error itself says what is wrong."
    )
    if failed is not None and not found:
        singular = matrices.told(case, failed)
        if singular is not None:
            found.append(singular)
            cause = "The matrix is singular but for rounding; see the finding above it."
    found.append(
        Finding(
            "raised",
            "error",
            reached[-1] if failed is None else failed,
            "forward",
            f"{of} raised an error before it returned",
            shorten(text, 600),
            cause,
            site=site,
        )
    )
    return Findings(tuple(found), of, stopped)


# Order


def _folded(found: Sequence[Finding]) -> list[Finding]:
    """One finding for many that are alike: same kind, op and line; few of a kind."""
    groups: dict[Any, list[Finding]] = {}
    for one in found:
        node = one.node
        key = one.kind, node.op.name, node.code, node.lasti, bool(node.inputs)
        if not node.inputs or node.code is None:
            key = (*key, node.serial)  # type: ignore[assignment]
        groups.setdefault(key, []).append(one)
    by_kind: dict[str, list[tuple[Finding, int]]] = {}
    for group in groups.values():
        by_kind.setdefault(group[0].kind, []).append((group[0], len(group) - 1))
    kept: list[Finding] = []
    for some in by_kind.values():
        some.sort(key=lambda pair: _rank(pair[0]))
        for k, (one, more) in enumerate(some[:MOST]):
            if k == MOST - 1:
                more += sum(1 + extra for _, extra in some[MOST:])
            if more:
                nodes = "node" if more == 1 else "nodes"
                told = f"{one.evidence} And {more} more {nodes} like it."
                one = replace(one, evidence=told, fix=_for_all(one.fix))
            kept.append(one)
    return kept


def _for_all(fix: Fix | None) -> Fix | None:
    """The fix of one node of many; a rule that is the true one elsewhere, at all."""
    true = {*SAFE.values(), *ENTRIES}
    return replace(fix, everywhere=True) if fix and fix.rule in true else fix


def _rank(one: Finding) -> tuple[int, int, int]:
    order = {"error": 0, "warning": 1, "note": 2}[one.severity]
    if one.sweep == "forward":
        return order, 0, one.node.serial
    return order, 1, -one.node.serial


def _sorted(found: Iterable[Finding]) -> list[Finding]:
    return sorted(found, key=_rank)


def fix_of(finding: Finding) -> Fix:
    """Return the fix of a finding, or the error that says that there is none."""
    if finding.fix is None:
        raise UsageError(
            f"{finding.title}: nothing general mends this. {finding.cause}"
        )
    return finding.fix
