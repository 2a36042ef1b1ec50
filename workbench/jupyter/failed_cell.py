"""The rest of a cell that failed half-way: the program so far, and the place.

The Tensors of the program are found where the cell had them: under the names of the
notebook, and in the frames that the error passed through. The op that failed has no
Tensor; it is made from its operands, without a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import FrameType, TracebackType
from typing import Any, NamedTuple

import numpy as np

from workbench.core import sites, source, types, walk
from workbench.core import tensor as tensors
from workbench.core.graph import Graph
from workbench.core.memory import purify, resolve
from workbench.core.op import Op
from workbench.core.tensor import Tensor
from workbench.errors import WorkbenchError

#: Lists in a variable are looked into as far as this many entries.
MOST_LISTED = 1000


class FailedCell(NamedTuple):
    """The program of a cell up to its failure.

    Attributes
    ----------
    graph
        What was computed, and what failed.
    node
        The op that failed, without a value; None where no op did.
    message
        Why, with the place.
    """

    graph: Graph
    node: Tensor | None
    message: str


def find_failed_cell(
    error: BaseException,
    names: Mapping[str, Any],
    leaves: Iterable[Tensor],
    first: int,
    filename: str,
) -> FailedCell | None:
    """Return the program that a cell traced before an error; None if without ops.

    Parameters
    ----------
    error
        The error that ended it.
    names
        The notebook's variables, as the cell has left them.
    leaves
        The inputs of the program.
    first
        The serial of the first Tensor that may be the cell's.
    filename
        The name under which the cell was compiled.
    """
    frames = [*_iterate_frames(error)]
    node = _make_failed_node(frames)
    roots = [] if node is None else [node]
    places = [names, *(x.f_locals for x in frames if not source.is_internal(x))]
    for place in places:
        roots += _find_tensors(place.values())
    roots = [resolve(x) for x in roots]
    purify(roots, first)
    known = {x.serial: x for x in roots if x.serial >= first}
    if not known:
        return None
    nodes = walk.order_nodes(known.values(), first)
    if not any(x.inputs for x in nodes):
        return None
    serials = {x.serial for x in nodes}
    inputs = [x for x in leaves if x.serial in serials]
    read = {x.serial for y in nodes for x in y.inputs if isinstance(x, Tensor)}
    ends = [x for x in nodes if x.serial not in read]
    return FailedCell(Graph(inputs, ends), node, _describe(error, filename))


def _iterate_frames(error: BaseException) -> Iterator[FrameType]:
    """Yield the frames that an error and its causes passed through, outermost first."""
    raised: BaseException | None = error
    seen: set[int] = set()  # `raise error from error` is legal
    while raised is not None and id(raised) not in seen:
        seen.add(id(raised))
        step: TracebackType | None = raised.__traceback__
        while step is not None:
            yield step.tb_frame
            step = step.tb_next
        raised = raised.__cause__


def _make_failed_node(frames: list[FrameType]) -> Tensor | None:
    """Return the op that failed, as a Tensor without a value; None if none did."""
    for frame in reversed(frames):
        if frame.f_code is not tensors.apply.__code__:
            continue
        found = frame.f_locals
        op, inputs, params = (found.get(name) for name in ("op", "inputs", "params"))
        if not isinstance(op, Op) or not isinstance(inputs, tuple):
            return None
        args = tuple(map(tensors.value_of, inputs))
        node = Tensor(
            op, inputs, args, params or {}, None,
            found.get("code"), found.get("lasti", -1), found.get("context"),
        )  # fmt: skip
        node.spec = types.Spec((), np.dtype(float))  # unknown: none is shown
        return node
    return None


def _find_tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    """Yield the Tensors among values, and in the lists, tuples and dicts of them."""
    for value in list(values):
        if isinstance(value, Tensor):
            yield value
        elif type(value) in (list, tuple) and len(value) <= MOST_LISTED:
            yield from (x for x in value if isinstance(x, Tensor))
        elif type(value) is dict and len(value) <= MOST_LISTED:
            yield from (x for x in value.values() if isinstance(x, Tensor))


def _describe(error: BaseException, filename: str) -> str:
    """Return the error in words, with its place in the cell."""
    text = str(error)
    if not isinstance(error, WorkbenchError):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    if " (at " in text:
        return text
    line = None
    for frame, number in _iterate_lines(error):
        line = number if frame.f_code.co_filename == filename else line
    place = "" if line is None else f" (at {sites.display_name(filename)}:{line})"
    return text + place


def _iterate_lines(error: BaseException) -> Iterator[tuple[FrameType, int]]:
    step = error.__traceback__
    while step is not None:
        yield step.tb_frame, step.tb_lineno
        step = step.tb_next
