"""`diagnose`: finds the nodes to blame for wrong values and gradients of a program.

The doctors are a table, `DOCTORS`, with what each of them finds; each examines the same
`Case`. A node is blamed by the first that finds fault with it. The findings are sorted,
similar ones are folded into one, and all are returned as `Findings`.
"""

from __future__ import annotations

import warnings
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import replace
from functools import partial
from operator import index
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from workbench.autodiff import reverse
from workbench.checks.doctor import (
    digits,
    forms,
    matrices,
    values,
    vanishing,
    zeros,
)
from workbench.checks.doctor.case import Case, hold_on_host, is_leaf
from workbench.checks.doctor.finding import Finding, Findings, Fix, Severity
from workbench.checks.doctor.singular import ENTRIES
from workbench.checks.doctor.spelling import LEFT_OUT
from workbench.checks.isolated_node import to_host
from workbench.checks.progress import BUDGET, Progress, ProgressMeter
from workbench.core import sites, source, tree, types
from workbench.core.arguments import check_arguments
from workbench.core.blame import shorten
from workbench.core.tensor import Tensor, apply, value_of
from workbench.core.trace import ArgumentNames, check_function, is_float, record
from workbench.errors import UsageError
from workbench.overrides.override_blocks import resolve_call

#: The most findings of one kind; the last one counts the others.
MOST = 5


def diagnose(
    f: Callable[..., Any],
    *args: Any,
    argnums: int | Sequence[int] | None = None,
    progress: Progress | None = None,
    budget: float | None = BUDGET,
) -> Findings:
    """Run a function and its gradient, and find the nodes to blame for faults.

    Parameters
    ----------
    f
        A function of arrays or nests. An output that is not one number is summed.
    args
        Its arguments; integers and whole-number arrays stay as they are.
    argnums
        The positions of the arguments to differentiate by; by default all of float
        dtype.
    progress
        Called with (done, all) now and then. If it returns true, or at an interrupt,
        the search stops and returns what it has found.
    budget
        The seconds that the search may take; None: no limit. The run and its gradient
        are done whatever they take; what was not looked at stands in the findings, and
        in their ``unchecked``.

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
        What ``f`` raises before it has computed anything; a later error is a finding.

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
    wanted_leaves = (
        range(len(flat)) if argnums is None else _find_leaves(structure, argnums)
    )
    chosen = [i for i, x in enumerate(flat) if i in wanted_leaves and is_float(x)]
    if not chosen:
        raise UsageError(
            "diagnose: no argument is of float dtype. Pass x.astype(float)."
        )
    for i in chosen:
        if isinstance(flat[i], Tensor) and flat[i]._value is None:
            raise UsageError(
                f"diagnose: {flat[i].name or 'an argument'} is a symbol without a"
                " value, and the doctor needs numbers. Pass an array."
            )
    names = ArgumentNames(f, range(len(args)), structure.children, chosen)
    try:
        return _diagnose_leaves(f, flat, structure, chosen, names, progress, budget)
    except ArithmeticError:
        doubles = list(flat)
        for i in chosen:
            doubles[i] = _to_numpy_number(flat[i])
        if all(a is b for a, b in zip(flat, doubles, strict=True)):
            raise
        # Python's own numbers raise where NumPy's become infinite and go on.
        return _diagnose_leaves(f, doubles, structure, chosen, names, progress, budget)


def _to_numpy_number(x: Any) -> Any:
    """Return a Python number as a NumPy number."""
    if type(x) is float:
        return np.float64(x)
    return np.complex128(x) if type(x) is complex else x


def _diagnose_leaves(
    f: Callable[..., Any],
    flat: Sequence[Any],
    structure: Callable[..., Any],
    chosen: Sequence[int],
    names: ArgumentNames,
    progress: Progress | None,
    budget: float | None,
) -> Findings:
    """Run a function on these leaves, and all doctors on the program."""
    started: list[Tensor] = []

    def call(leaves: list[Tensor]) -> Any:
        started.extend(leaves)
        filled = list(flat)
        for i, x in zip(chosen, leaves, strict=True):
            filled[i] = x
        return f(*structure(filled))

    of = getattr(f, "__name__", type(f).__name__)
    of = "the function" if of == "<lambda>" else of
    with _IgnoreWarnings():
        try:
            made = record(call, [value_of(flat[i]) for i in chosen], names, owns=True)
        except Exception as error:
            if isinstance(error, ArithmeticError) and any(
                _to_numpy_number(flat[i]) is not flat[i] for i in chosen
            ):
                raise
            computed = _find_computed(error, started)
            if computed is None:
                failed = _find_failed_op(error)[0]
                if failed is None or not failed.op.traits.condition:
                    raise
                computed = []
            return _diagnose_failure(of, error, computed, started, progress, budget)
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
        budget=budget,
    )
    return examine(case)


def _find_leaves(structure: tree.Tree, argnums: int | Sequence[int]) -> Collection[int]:
    """Return the positions of the leaves of the arguments that ``argnums`` names."""
    count = len(structure.children)
    try:
        given = argnums if isinstance(argnums, Iterable) else [argnums]
        places = [index(place) for place in given]
    except TypeError:
        raise UsageError(
            f"diagnose: argnums={argnums!r} is not a position. Pass the number of an"
            " argument, or several: argnums=(0, 2)."
        ) from None
    for place in places:
        if not -count <= place < count:
            raise UsageError(
                f"diagnose: argnums={place}, but there are {count} arguments."
            )
    wanted = {place % count for place in places}
    owners = [k for k, x in enumerate(structure.children) for _ in x.names("")]
    return {i for i, k in enumerate(owners) if k in wanted}


def _check_outputs(outputs: Sequence[Any]) -> None:
    """Raise an error for outputs without any number."""
    for y in outputs:
        if isinstance(y, Tensor):
            return
        dtype = getattr(y, "dtype", None) or np.asarray(y).dtype
        if np.dtype(dtype).kind in "biufc":
            return
    forgot = " Does it end with a `return`?" if [*outputs] in ([], [None]) else ""
    what = "no number"
    if len(outputs) == 1:
        what = shorten(repr(outputs[0]))
    raise UsageError(
        f"diagnose needs arrays or numbers; the function returned {what}.{forgot}"
    )


def examine(case: Case) -> Findings:
    """Run all doctors on a case; if stopped, return the findings until then."""
    with _open_meter(case) as meter, _IgnoreWarnings(), hold_on_host(case.nodes):
        case.seeds = [to_host(seed) for seed in case.seeds]
        try:
            for doctor in DOCTORS:
                meter.attempt(doctor.topic, partial(_run_doctor, case, doctor))
        except Exception as error:
            node = _failed_rule(error)
            if node is None:
                raise
            case.found += _explain_raised(case, error, node)
    return _make_findings(_sort_findings(_fold_similar(case.found)), case, meter)


def _run_doctor(case: Case, doctor: Doctor) -> None:
    """Add the findings of one doctor to those of the case."""
    if any(one.kind in doctor.unless for one in case.found):
        return
    blamed = case.blamed
    for finding in doctor.find(case):
        if finding.node.serial not in blamed:
            _add_finding(case, _name_library_call(case, finding))


def _add_finding(case: Case, new: Finding) -> None:
    """Add a finding to a case, unless an earlier finding replaces the new one."""
    if not any(new.kind in KINDS[one.kind].replaces for one in case.found):
        replaced = KINDS[new.kind].replaces
        case.found[:] = [one for one in case.found if one.kind not in replaced]
        case.found.append(new)


def _name_library_call(case: Case, finding: Finding) -> Finding:
    """Return the finding for a step of a library's function in the user's terms.

    It names the function, and has no fix for a line that is not the user's: a line in
    the user's own names, or a rule to attach.
    """
    node, fix = finding.node, finding.fix
    if finding.site is not None or is_leaf(node):
        return finding
    call = case.find_library_call(node)
    if call is None:
        return finding
    if fix is not None and fix.rule is None:
        installed = fix.edit is not None and case.is_inner_step(node)
        if LEFT_OUT in fix.code or installed:
            fix = None
    title, evidence = finding.title, finding.evidence
    if not title.startswith(call):
        title += f", inside {call}"
        given = values.describe_inputs(node)
        if given and given not in evidence:
            evidence = f"{evidence.rstrip('.')}; {call} depends on {given}."
    return replace(finding, title=title, evidence=evidence, fix=fix)


def _open_meter(case: Case) -> ProgressMeter:
    """Return the meter of the doctors, and start its time now."""
    case.meter = ProgressMeter(case.progress, budget=case.budget)
    return case.meter


def _make_findings(
    found: Sequence[Finding], case: Case, meter: ProgressMeter
) -> Findings:
    """Return findings, with the list of unchecked parts."""
    left = tuple(meter.unchecked)
    return Findings(tuple(found), case.of, meter.stopped, left, meter.budget)


def _failed_rule(error: BaseException) -> Tensor | None:
    """Return the node with the rule that raised in the backward sweep."""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code is reverse.Sweep.pull.__code__:
            node: Tensor | None = trace.tb_frame.f_locals.get("node")
            return node
        trace = trace.tb_next
    return None


def _explain_raised(case: Case, error: Exception, node: Tensor) -> Iterator[Finding]:
    """Explain a rule that raised an error."""
    singular = matrices.diagnose_matrix(case, node)
    if singular is not None:
        yield singular
    text = "\n".join([f"{type(error).__name__}: {error}", *_get_notes(error)])
    yield Finding(
        "raised",
        "error",
        node,
        "backward",
        f"the derivative of {case.name_node(node)} raised an error",
        shorten(text, 600),
        "Its rule does not work at these values."
        if singular is None
        else "Its rule solves with that matrix; see the finding above.",
    )


def _get_notes(error: Exception) -> list[str]:
    return list(getattr(error, "__notes__", ()))


# The doctors


class Kind(NamedTuple):
    """A kind of finding.

    Attributes
    ----------
    words
        What it means, in a few words.
    severities
        Those that it may have.
    replaces
        The kinds of findings that say no more where this one is found.
    """

    words: str
    severities: tuple[Severity, ...] = ("error",)
    replaces: tuple[str, ...] = ()


class Doctor(NamedTuple):
    """An examiner of cases, in its place among the others.

    Attributes
    ----------
    topic
        What it looks for, as one reads where it was not looked at.
    find
        Yields its findings on a case; ``case.found`` and ``case.blamed`` tell what
        those before it have found.
    kinds
        What it finds, by its name: what `Finding.kind` is.
    unless
        It does not look where one of these kinds was found before.
    """

    topic: str
    find: Callable[[Case], Iterable[Finding]]
    kinds: Mapping[str, Kind]
    unless: Collection[str] = ()


ERROR: tuple[Severity, ...] = ("error",)
WARNING: tuple[Severity, ...] = ("warning",)
NOTE: tuple[Severity, ...] = ("note",)

NONFINITE_VALUES = {
    "input-not-finite": Kind("the program is given NaN or infinity"),
    "log-of-zero": Kind("a logarithm of 0"),
    "log-of-negative": Kind("a logarithm of a negative number"),
    "sqrt-of-negative": Kind("a square root of a negative number"),
    "division-by-zero": Kind("a quotient by 0"),
    "power-of-negative": Kind("a negative number to a power that is not whole"),
    "outside-domain": Kind("another op, outside of what it is defined for"),
    "pole": Kind("an op at a point where it grows without bound"),
    "overflow": Kind("a result larger than its dtype holds"),
    "inf-minus-inf": Kind("a difference of infinities"),
    "zero-times-inf": Kind("0 times infinity, in a value or on the way back"),
    "not-finite": Kind("infinity where an op has no value for it"),
    "raised": Kind("the function, or a rule, raised an error half-way"),
}
NONFINITE_SLOPES = {
    "infinite-slope": Kind(
        "an op at a point where its slope is infinite, such as `sqrt` at 0"
    ),
    "gradient-overflow": Kind("a gradient larger than its dtype holds"),
    "rule-not-finite": Kind("a rule of your own that gives what is not finite"),
    "override-not-finite": Kind("an override that does"),
}
#: What is not finite has neither size nor digits to examine.
NONFINITE = (*NONFINITE_VALUES, *NONFINITE_SLOPES)

#: All doctors, in their order.
DOCTORS = (
    Doctor("values that are not finite", values.find_bad_values, NONFINITE_VALUES),
    Doctor("gradients that are not finite", values.find_bad_slopes, NONFINITE_SLOPES),
    Doctor(
        "units that do not learn",
        vanishing.find_idle_units,
        {
            "dead-relu": Kind("units that no example switches on", WARNING + NOTE),
            "saturated": Kind("units at the flat ends of their function", WARNING),
        },
    ),
    Doctor(
        "vectors of repeated values",
        matrices.find_undetermined_vectors,
        {
            "undetermined": Kind(
                "vectors of repeated eigenvalues or singular values, which rounding"
                " chooses",
                ERROR + WARNING,
            ),
        },
    ),
    Doctor(
        "gradients that are 0",
        zeros.find_zero_gradients,
        {
            "disconnected": Kind(
                "an input that the result does not depend on", WARNING
            ),
            "rounded": Kind("rounding, whose slope is 0", WARNING),
            "compared": Kind("a comparison, whose slope is 0", WARNING),
            "chosen": Kind(
                "a position or another whole number, which has no slope", WARNING
            ),
            "cast-to-integer": Kind("a cast to whole numbers", WARNING),
            "stopped": Kind("an op that stops the gradient", WARNING),
            "no-derivative": Kind("an op without a derivative", WARNING),
            "zero-gradient": Kind(
                "a gradient that is exactly 0 for another reason", WARNING + NOTE
            ),
        },
    ),
    Doctor(
        "second derivatives that are conventions",
        zeros.find_conventions,
        {
            "convention": Kind(
                "a second derivative of a length of 0, which is taken as 0", NOTE
            ),
        },
    ),
    Doctor(
        "singular matrices",
        matrices.find_singular_matrices,
        {
            "singular-matrix": Kind(
                "a matrix so nearly singular that results of it lose their digits",
                ERROR + WARNING,
            ),
        },
    ),
    # Errors grow as gradients do, and what cancels is divided by what is small: one
    # finding, not two. A difference that cancels is the cause, else the growth is; and
    # gradients whose digits are gone have no size to examine.
    Doctor(
        "vanishing and exploding gradients",
        vanishing.find_changing_gradients,
        {
            "vanishing": Kind("a gradient that shrinks on its way", WARNING),
            "exploding": Kind(
                "a gradient that grows on its way",
                WARNING,
                replaces=("float32-contradicted", "lost-digits"),
            ),
        },
        unless=NONFINITE,
    ),
    Doctor(
        "lost digits",
        digits.find_lost_digits,
        {
            "cancellation": Kind(
                "a difference of nearly equal numbers",
                ERROR + WARNING,
                replaces=("vanishing", "exploding"),
            ),
            "float32-contradicted": Kind(
                "a float32 result that float64 contradicts", ERROR + WARNING
            ),
            "lost-digits": Kind(
                "a result that has lost nearly all digits", ERROR + WARNING
            ),
        },
        unless=NONFINITE,
    ),
    Doctor(
        "exponentials that soon overflow",
        forms.find_near_overflow,
        {"near-overflow": Kind("an exponential that soon overflows", NOTE)},
    ),
)

#: Every kind of finding, by its name.
KINDS = {name: kind for doctor in DOCTORS for name, kind in doctor.kinds.items()}


class _IgnoreWarnings:
    """Ignore NumPy's warnings: the findings name what they warn of."""

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


# A function that raises an error


def _find_computed(
    error: BaseException, leaves: Iterable[Tensor]
) -> list[Tensor] | None:
    """Return the computed Tensors in the user's frames when a function raised."""
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


def _find_failed_op(error: BaseException) -> tuple[Tensor | None, sites.Site | None]:
    """Return the op that raised, as a node without value, and the user's line.

    None for the op if the user's own code raised.
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
    return failed, sites.decode(*line)


def _diagnose_failure(
    of: str,
    error: Exception,
    computed: list[Tensor],
    leaves: list[Tensor],
    progress: Progress | None,
    budget: float | None,
) -> Findings:
    """Explain a function that raised, from the values computed before the error."""
    case = Case(of, computed, [], leaves, progress=progress, budget=budget)
    failed, site = _find_failed_op(error)
    with _open_meter(case) as meter, _IgnoreWarnings(), hold_on_host(case.nodes):
        meter.attempt(DOCTORS[0].topic, partial(_run_doctor, case, DOCTORS[0]))
    found = case.found
    text = f"{type(error).__name__}: {error}".strip()
    cause = (
        "The values that it had computed were no longer finite; see the finding above."
        if found
        else "All values until then are finite; the error itself says what is wrong."
    )
    if failed is not None and not found:
        with hold_on_host([failed]):
            singular = matrices.diagnose_matrix(case, failed)
        if singular is not None:
            found.append(singular)
            cause = "The matrix is singular up to rounding; see the finding above."
    found.append(
        Finding(
            "raised",
            "error",
            computed[-1] if failed is None else failed,
            "forward",
            f"{of} raised an error before it returned",
            shorten(text, 600),
            cause,
            site=site,
        )
    )
    return _make_findings(found, case, meter)


# Order


def _fold_similar(found: Sequence[Finding]) -> list[Finding]:
    """Fold findings of the same kind, op and line into one, and keep few of a kind."""
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
        some.sort(key=lambda pair: _severity_rank(pair[0]))
        for k, (one, more) in enumerate(some[:MOST]):
            if k == MOST - 1:
                more += sum(1 + extra for _, extra in some[MOST:])
            if more:
                nodes = "node" if more == 1 else "nodes"
                text = f"{one.evidence} And {more} more {nodes} like it."
                one = replace(one, evidence=text, fix=_widen_fix(one))
            kept.append(one)
    return kept


def _widen_fix(one: Finding) -> Fix | None:
    """Return the fix for many nodes: a safe rule applies to every node of its op."""
    fix, true = one.fix, {one.node.op.traits.safe, *ENTRIES}
    return replace(fix, everywhere=True) if fix and fix.rule in true else fix


def _severity_rank(one: Finding) -> tuple[int, int, int]:
    order = {"error": 0, "warning": 1, "note": 2}[one.severity]
    if one.sweep == "forward":
        return order, 0, one.node.serial
    return order, 1, -one.node.serial


def _sort_findings(found: Iterable[Finding]) -> list[Finding]:
    return sorted(found, key=_severity_rank)


def require_fix(finding: Finding) -> Fix:
    """Return the fix of a finding; raise a `UsageError` if there is none."""
    if finding.fix is None:
        raise UsageError(f"{finding.title}: there is no general fix. {finding.cause}")
    return finding.fix
