"""The details of one node, as data and in words."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.autodiff import steps
from workbench.backends import numpy as backend
from workbench.checks import statistics
from workbench.checks.statistics import is_on_device
from workbench.core import blame, sites, types, walk
from workbench.core.graph import Graph
from workbench.core.schema import clean_text
from workbench.core.tensor import Tensor, make_leaf
from workbench.core.walk import is_leaf
from workbench.errors import UsageError, WorkbenchError
from workbench.ops.define import shape_of
from workbench.session.comparison import Preview
from workbench.session.inner_program import InnerProgram
from workbench.session.nodes import name_entry, read_real_entries
from workbench.session.profile import describe_backend, find_device, list_kernels
from workbench.session.wire.columns import name_constant
from workbench.session.wire.header import finite_number
from workbench.session.wire.inner_program import read_path
from workbench.session.wire.protocol.messages import EntryData, PassedData, PlaceData
from workbench.session.wire.protocol.snapshot import DetailData, DeviceKernelData

if TYPE_CHECKING:
    from workbench.session.session import Session

#: What stands between the rules of an op by each of its inputs.
RULE_SEPARATOR = "   "

#: Arrays up to so many entries are shown in full.
MOST_ENTRIES = 100

#: A file holds no details of larger programs, which are about 1 kB a node, and no
#: Jacobians where each would run over many nodes.
MOST_DETAILED, MOST_DIFFERENTIATED = 1000, 100
#: The entries of all values, of which there are histograms.
MOST_READ = 2**25
#: Nor any more Jacobians after so many seconds: each may run a long loop again.
MOST_SECONDS = 3.0

#: Programs of more nodes are told in words, and longer texts are cut.
MOST_INNER_NODES = 300
MOST_CODE_CHARACTERS = 8000
#: Where Workbench's own files stand: their lines are none of the user's.
_OWN = blame.__file__.removesuffix("core/blame.py")


def gather_details(
    session: Session, node: int, path: Sequence[PlaceData] | None = None
) -> DetailData:
    """Return the rule, the inputs, the settings and the numbers of one node.

    With a ``path`` it is a node of the program inside others.

    Raises
    ------
    UnknownNodeError, UsageError
        If there is no such node.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(np.ones(2)))
    >>> found = gather_details(session, 1)
    >>> found["rule"], found["inputs"], found["gradient_array"]
    ('g · (1 − y²)', ['x'], '[1. 1.]')
    """
    if path:
        return _gather_inner_details(session.open_inside(read_path(path)), node)
    i = session.nodes.find(node)
    g = true = None
    # One state: a loop in another thread may go on.
    state, labels = session._state, session.nodes.labels
    graph, backward = state.forward.graph, state.backward
    if backward is not None:
        g = backward.cotangents.get(i)
    if state.resolution is not None and state.truth is not None:
        true = state.truth.cotangents.get(i)

    def find_label(x: Tensor) -> str:
        return labels[graph.ids[x]]

    body = _describe_node(graph.nodes[i], i, find_label, g, true)
    device = find_device(state)
    if device is not None:
        backend = describe_backend(state, device)
        body["runs_on"] = clean_text(f"{backend} · {device}", 200)
        body["kernels"] = [
            DeviceKernelData(
                title=clean_text(kernel.title, 200),
                source=_shorten_code(kernel.source),
            )
            for kernel in list_kernels(state, i)
        ]
    return body


def list_details(session: Session) -> list[DetailData] | None:
    """Return what there is to say about each node, for a reader without a kernel.

    None for a program of more than `MOST_DETAILED` nodes, or `MOST_READ` entries, which
    are some seconds.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(np.ones(2)))
    >>> [one["array"] for one in list_details(session)]
    ['[1. 1.]', '[0.76159416 0.76159416]', '1.5231883119115297']
    """
    with session.lock:
        nodes = session.graph.nodes
        count = len(nodes)
        entries = sum(getattr(x._value, "size", 1) for x in nodes)
        if count > MOST_DETAILED or entries > MOST_READ:
            return None
        found = [gather_details(session, node) for node in range(count)]
        end = time.monotonic() + MOST_SECONDS
        for one in reversed(found) if count <= MOST_DIFFERENTIATED else []:
            if time.monotonic() >= end:
                break  # those of the output, which stands last, are there
            if jacobians := [*_list_jacobians(session, one["node"])]:
                one["jacobians"] = jacobians
        return found


def _list_jacobians(session: Session, node: int) -> Iterator[list[str]]:
    """Yield the small derivatives of a node that has a name, each with its title."""
    nodes, labels = session.graph.nodes, session.nodes.labels
    of = nodes[node]
    if is_leaf(of) or not (of.name or node == session.output):
        return
    for x in session.wrt:
        # Of a number the size too; compiled code may hold no value, others no array.
        values = of._value, nodes[x]._value
        sizes = [math.inf if v is None else getattr(v, "size", 1) for v in values]
        if isinstance(of._value, tuple) or math.prod(sizes) > MOST_ENTRIES:
            continue
        try:
            text = format_small_array(session.jacobian(node, x))
        except WorkbenchError:  # of whole numbers, or without a rule
            continue
        if text is not None:
            yield [clean_text(f"∂{labels[node]}/∂{labels[x]}", 200), text]


def _gather_inner_details(inside: InnerProgram, node: int) -> DetailData:
    """Return the details of a node of a program inside others."""
    nodes = inside.forward.graph.nodes
    if not 0 <= node < len(nodes):
        raise UsageError(f"there is no node {node} inside: ids go to {len(nodes) - 1}.")
    ids = inside.forward.ids
    g, true = (
        None if sweep is None else sweep.cotangents.get(node)
        for sweep in (inside.backward, inside.truth)
    )

    def find_label(x: Tensor) -> str:
        return x.name or f"{x.op.name} {ids[x.serial]}"

    return _describe_node(nodes[node], node, find_label, g, true)


def _describe_node(
    tensor: Tensor, i: int, find_label: Callable[[Tensor], str], g: Any, true: Any
) -> DetailData:
    """Return the details of a node, from its cotangents with overrides and without."""
    value, gradient, true_gradient = statistics.distributions([tensor._value, g, true])
    return DetailData(
        node=i,
        rule=format_rule(tensor, find_label),
        inputs=[format_input(x, find_label) for x in tensor.inputs],
        params=[[name, clean_text(text)] for name, text in list_settings(tensor)],
        code=write_inner_code(tensor),
        value=value,
        gradient=gradient,
        true_gradient=true_gradient,
        array=format_small_array(tensor._value),
        gradient_array=format_small_array(g),
    )


def encode_entry(session: Session, node: int, index: int) -> EntryData:
    """Return an entry of an input, which a page may change.

    Raises
    ------
    UsageError
        If the node is no input of real numbers, or has no such entry.
    """
    label = session.nodes.labels[session.nodes.find_input(node)]
    array = read_real_entries(session._state.find_leaf(node), label, index)
    sizes = np.abs(array[np.isfinite(array)])
    return EntryData(
        node=node,
        index=index,
        place=clean_text(name_entry(label, array.shape, index), 200),
        value=finite_number(array.flat[index]),
        count=array.size,
        largest=float(sizes.max(initial=0.0)),
    )


def encode_preview(session: Session, preview: Preview) -> list[PassedData]:
    """Return the cotangents of a preview, one entry per input of the node, as data."""
    ids = sorted({*preview.before, *preview.after})
    arrays = [[part.get(i) for i in ids] for part in (preview.before, preview.after)]
    both = [k for k in range(len(ids)) if all(part[k] is not None for part in arrays)]
    changes: dict[int, float] = {}
    if both:
        before, after = ([part[k] for k in both] for part in arrays)
        found = statistics.relative_changes(after, before).tolist()
        changes = dict(zip(both, found, strict=True))
    histograms = statistics.distributions([*arrays[0], *arrays[1]])
    norms = statistics.compute_norms([*arrays[0], *arrays[1]])
    count = len(ids)
    return [
        PassedData(
            node=i,
            name=clean_text(session.nodes.labels[i]),
            before=histograms[k],
            after=histograms[count + k],
            before_norm=finite_number(norms[k]),
            after_norm=finite_number(norms[count + k]),
            change=finite_number(changes.get(k)),
        )
        for k, i in enumerate(ids)
    ]


def format_rule(node: Tensor, find_label: Callable[[Tensor], str]) -> str | None:
    """Return a node's rule; of several, those by nodes, each with the node's name."""
    if is_leaf(node) or not node.op.rule:
        return None
    rules = node.op.rule.split(RULE_SEPARATOR)
    if len(rules) == 1 or len(rules) != len(node.inputs):
        return node.op.rule
    return RULE_SEPARATOR.join(
        f"by {format_input(x, find_label)}: {rule}"
        for x, rule in zip(node.inputs, rules, strict=True)
        if isinstance(x, Tensor)
    )


def format_input(x: Any, find_label: Callable[[Tensor], str]) -> str:
    """Return an input as text: a node by its name, a constant by its value or shape."""
    if isinstance(x, Tensor):
        return (is_leaf(x) and name_constant(x)) or find_label(x)
    if types.is_weak(x) or (getattr(x, "shape", None) == () and not is_on_device(x)):
        return clean_text(str(x))
    return repr(types.spec_of(x)) if hasattr(x, "shape") else clean_text(repr(x))


def format_small_array(x: Any) -> str | None:
    """Return a small array in full, as NumPy prints arrays."""
    if x is None or isinstance(x, tuple):
        return None
    if types.is_weak(x):
        return str(x)
    if not hasattr(x, "shape") or int(np.prod(shape_of(x))) > MOST_ENTRIES:
        return None
    return clean_text(str(x.get() if is_on_device(x) else x))


# What a node is made of, in words and as code: loops, branches, ops of the user's. All
# of it is text, and of bounded size: the page shows it and never runs it.


def list_settings(node: Tensor) -> Iterator[tuple[str, str]]:
    """Yield the settings of a node as text; programs and rules in words."""
    for name, value in node.params.items():
        if name == "loop" and node.op.repeats:
            yield from _list_loop_settings(node, value)
        elif name == "branches" and node.op.graphs is not None:
            yield "branches", "on_true, on_false"
        else:
            yield name, repr(value) if isinstance(value, str) else str(value)
    yield from _list_user_code(node.op.maker)


def _list_loop_settings(node: Tensor, loop: Any) -> Iterator[tuple[str, str]]:
    """Yield the steps of a loop, its sequences, states and constants."""
    names = [x.name or "" for x in loop.body.leaves]
    first = loop.consts + loop.seqs
    yield "steps", _format_loop_steps(node, loop)
    for what, part in (
        ("sequences", names[loop.consts : first]),
        ("states", names[first:]),
        ("constants", names[: loop.consts]),
    ):
        if part:
            named = ", ".join(name or "…" for name in part)
            yield what, f"{len(part)}: {named}" if any(part) else str(len(part))
    yield "each step", f"{len(loop.body.interior):,} ops"
    if loop.every is not None:
        yield "memory", f"every {loop.every} steps, the others are run again"


def _format_loop_steps(node: Tensor, loop: Any) -> str:
    """Return the number of steps of a loop in words."""
    count = loop.steps
    if loop.counted:
        n = node.inputs[0]
        count = n._value if isinstance(n, Tensor) else n
    elif loop.seqs:
        at = loop.counted + loop.consts
        shape = types.spec_of(node.inputs[at]).shape
        count = shape[0] if shape else None
    words = "as many as there are entries" if count is None else str(count)
    if loop.until:
        words = f"until it says so, at most {words}" if count is not None else words
    return f"{words}, from the last" if loop.reverse else words


def _list_user_code(maker: Any) -> Iterator[tuple[str, str]]:
    """Yield the lines on which the user has written an op: its value and its rules."""
    given = getattr(maker, "_gives", None)
    for name in ("f", "compute", "fallback", "vjp", "jvp", "backward"):
        function = getattr(maker, name, None)
        if function is None or (
            given is not None and name in ("vjp", "jvp") and not given(name)
        ):
            continue
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        site = sites.decode(code, 0)
        if site is not None and not site.filename.startswith(_OWN):
            yield "value" if name == "f" else name, blame.quote_site(site).strip(" ()")
    texts = getattr(maker, "_texts", None)
    if texts:
        languages = {"c": "C", "cpp": "C++", "cuda": "CUDA"}
        state = "compiled" if maker._is_compiled() else "not compiled yet"
        if maker._warned and not maker._is_compiled():
            state = "not compiled: the NumPy fallback runs"
        yield "kernel", f"{', '.join(languages[k] for k in texts)}; {state}"


def write_inner_code(node: Tensor) -> str | None:
    """Return the code inside a node: NumPy code or a kernel's source; None: nothing."""
    op = node.op
    texts = getattr(op.maker, "_texts", None)
    if texts:
        sources = (text.text.strip("\n") for text in texts.values())
        return _shorten_code("\n\n".join(sources))
    if op.lower is None:
        return None
    try:
        inner = steps.with_inner_nodes([node], ruled=True)[1:]
        if len(inner) > MOST_INNER_NODES:
            counts = Counter(x.op.name for x in inner)
            names = ", ".join(f"{n:,} × {name}" for name, n in counts.most_common(8))
            return f"{len(inner):,} ops: {names}{', …' if len(counts) > 8 else ''}"
        return _shorten_code(backend.compile(_isolate_node(node)).source)
    except WorkbenchError:
        return None


def _isolate_node(node: Tensor) -> Graph:
    """Return a program of this node and nothing else, on inputs of its own."""
    leaves: dict[int, Tensor] = {}
    inputs: list[Any] = []
    for x in node.inputs:
        if isinstance(x, Tensor) and x.serial not in leaves:
            leaves[x.serial] = new = make_leaf(x._value, x.name)
            if x._value is None:
                new.spec = x.spec
        inputs.append(leaves[x.serial] if isinstance(x, Tensor) else x)
    made = walk.copy_node(node, tuple(inputs), node.args, node._value)
    return Graph(list(leaves.values()), [made])


def _shorten_code(text: str) -> str:
    """Return the first lines of a code that is too long."""
    if len(text) <= MOST_CODE_CHARACTERS:
        return text
    kept = text[:MOST_CODE_CHARACTERS].rpartition("\n")[0]
    return f"{kept}\n… and {text.count(chr(10)) - kept.count(chr(10))} more lines"
