"""A loss that is no sum over rows, cut where its rows end: exact, in two passes.

The loss is traced for all rows and for one row more: what has another shape there has
rows. A node without rows that is made of one with rows is a cut: a sum, a product that
contracts the rows, a maximum. Chunks compute their parts of the cuts; what is put
together of these is read by the rest, which is computed here, and its cotangents go
back to the chunks. Statistics that rows read again, as batch norm has them, are cuts
before others: a round of chunks for each. So is a maximum: the rows that reach it, of
all chunks, are counted in a round of their own, since they share its cotangent evenly.
That a cut is put together so is tried on a few rows, not believed, and nothing here
knows an op by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench.autodiff import jacobian
from workbench.backends.compiled.expansion import expand
from workbench.core import blame, tree, types, walk
from workbench.core.graph import Graph
from workbench.core.tensor import Tensor, apply
from workbench.core.trace import trace
from workbench.core.types import Spec
from workbench.distributed.pieces import JOINS
from workbench.distributed.programs import pack
from workbench.distributed.rows import (
    ChunkPrograms,
    Chunks,
    Rows,
    find_weights,
)
from workbench.errors import ClusterError
from workbench.ops.elementwise import stop_gradient

#: Rows of the trial, and of its first part.
TRIAL, PART = 8, 3
#: So many roundings of a maximum lie between rows that both reach it.
SLACK = 64


class Round(NamedTuple):
    """What chunks compute of their rows, once the cuts of earlier rounds are known."""

    #: The cuts of this round, by their numbers, and how each is put together.
    cuts: list[int]
    joins: list[str]
    forward: ChunkPrograms
    backward: ChunkPrograms


class CutLoss:
    """A loss as rounds of chunks, and the rest that is computed here."""

    def __init__(
        self, rounds: list[Round], rest: Graph, wrt: list[int], cuts: list[Spec],
        others: list[int], nest: tree.Tree,
    ) -> None:  # fmt: skip
        self.rounds, self.rest, self.wrt, self.cuts = rounds, rest, wrt, cuts
        self.others, self.nest = others, nest

    def run(self, chunks: Chunks, others: Sequence[Any]) -> tuple[Any, Any]:
        """Return the loss and its gradients, nested as the weights."""
        others = [*map(np.asarray, others)]
        known: list[Any] = []
        for part in self.rounds:
            known += chunks.sum(part.forward, [*others, *known], part.joins)
        value, *bars = self.rest.run([*others, *known])
        count = len(self.wrt)
        moved, at_cuts = bars[:count], bars[count:]
        for part in reversed(self.rounds):
            first, last = part.cuts[0], part.cuts[-1] + 1
            given = [*others, *known[:first], *at_cuts[first:last]]
            found = chunks.sum(part.backward, given)
            moved = [a + b for a, b in zip(moved, found[:count], strict=True)]
            for i, more in enumerate(found[count:]):
                at_cuts[i] = at_cuts[i] + more
        return value, self.nest([np.asarray(g)[()] for g in moved])


def cut_loss(
    f: Callable[..., Any], rows: Rows, settings: dict[str, Any], client: Any
) -> CutLoss:
    """Return a loss as rounds of chunks.

    Raises
    ------
    ClusterError
        If rows cannot be cut off somewhere, with the op, its line and both numbers; or
        if the program is another one for another number of rows.
    """
    chosen, others = rows.inputs, rows.others
    order = [*others, *rows.places]

    def trace_plainly(n: int) -> Graph:
        """Return the program for so many rows, the data last, in simple ops."""
        args, kwargs = rows.structure(rows.list_specs(n))
        graph = trace(f)(*args, **kwargs)
        leaves = [graph.inputs[chosen.index(i)] for i in order]
        simple = expand(
            Graph(graph.inputs, graph.outputs), [x.spec for x in graph.inputs]
        )
        at = {x.serial: y for x, y in zip(graph.inputs, simple.inputs, strict=True)}
        return Graph([at[x.serial] for x in leaves], simple.outputs)

    whole = trace_plainly(rows.total)
    if len(whole.outputs) != 1 or np.prod(types.spec_of(whole.outputs[0]).shape) != 1:
        raise ClusterError(
            "reduce='exact': the loss must be one number. Return its sum."
        )
    n = min(TRIAL, rows.total)
    values = [np.asarray(rows.flat[i]) for i in others]
    data = rows.fetch(client, slice(0, n))

    def try_at(make: Callable[[int], Graph]) -> tuple[list[int], list[int], list[str]]:
        cuts, levels = find_cuts(make(rows.total), make(rows.total + 1), len(data))
        return cuts, levels, try_cuts(make(n), make, cuts, levels, values, data)

    trace_at = trace_plainly
    cuts, levels, joins = try_at(trace_at)
    extremes = find_extremes(whole, cuts, joins)
    if extremes:

        def trace_at(n: int) -> Graph:
            return share_ties(trace_plainly(n), extremes)

        whole = trace_at(rows.total)
        cuts, levels, joins = try_at(trace_at)
    weights, nest = find_weights(f, rows, settings, "reduce='exact'")
    wrt = [others.index(i) for i in weights]
    small = {n: transplant(trace_at(n), whole) for n in rows.lengths}
    overrides = settings["overrides"]
    rounds = []
    for level in range(1, max(levels, default=0) + 1):
        which = [i for i, other in enumerate(levels) if other == level]
        made = {
            n: make_round(small[n], cuts, which, wrt, len(others), overrides)
            for n in rows.lengths
        }
        forward = {n: pack(there) for n, (there, _) in made.items()}
        backward = {n: pack(back) for n, (_, back) in made.items()}
        count, known = len(others), which[0]
        rest = [(True, k) for k in range(len(rows.places))]
        earlier = [(False, k) for k in range(count + known)]
        more = [(False, count + known + k) for k in range(len(which))]
        rounds.append(
            Round(
                which,
                [joins[i] for i in which],
                ChunkPrograms(forward, [*earlier, *rest], others, nest),
                ChunkPrograms(backward, [*earlier, *more, *rest], others, nest),
            )
        )
    nodes = [whole.interior[i] for i in cuts]
    specs = [types.spec_of(x) for x in nodes]
    last = Graph([*whole.inputs[: len(others)], *nodes], whole.outputs)
    graph = trace_rest(last, len(others), wrt, overrides)
    return CutLoss(rounds, graph, wrt, specs, others, nest)


def trace_rest(graph: Graph, count: int, wrt: Sequence[int], overrides: Any) -> Graph:
    """Return what is left of a loss behind its cuts, with its cotangents.

    The inputs of ``graph`` are ``count`` arguments, and the values at the cuts.
    """
    run = graph.run

    def rest_and_slopes(*given: Any) -> Any:
        """Return the loss and its cotangents at the weights and at the cuts."""
        slots = [*wrt, *range(count, len(given))]
        slots = [
            i for i in slots if types.is_differentiable(types.spec_of(given[i]).dtype)
        ]
        value, pulled = jacobian.vjp(
            lambda *x: run(fill(given, slots, x))[0], *[given[i] for i in slots],
            overrides=overrides,
        )  # fmt: skip
        found = dict(zip(slots, pulled(np.ones_like(value)), strict=True))
        return [
            value,
            *[found.get(i, 0.0) for i in [*wrt, *range(count, len(given))]],
        ]

    return trace(rest_and_slopes)(*[types.spec_of(x) for x in graph.inputs])


def fill(given: Sequence[Any], slots: Sequence[int], new: Sequence[Any]) -> list[Any]:
    """Return values with others in some places."""
    filled = list(given)
    for i, x in zip(slots, new, strict=True):
        filled[i] = x
    return filled


def list_shapes(node: Tensor) -> Any:
    """Return the shape of a node, or those of its several outputs."""
    spec = types.spec_of(node)
    return [s.shape for s in spec] if isinstance(spec, tuple) else spec.shape


def find_cuts(whole: Graph, longer: Graph, count: int) -> tuple[list[int], list[int]]:
    """Return the numbers of the nodes where rows end, and the round of each, in order.

    ``count`` inputs, the last ones, have rows.
    """
    check_alike(whole, longer)
    has_rows = {x.serial for x in whole.inputs[len(whole.inputs) - count :]}
    level: dict[int, int] = {}
    found: list[tuple[int, int]] = []
    for i, (node, other) in enumerate(
        zip(whole.interior, longer.interior, strict=True)
    ):
        tensors = [x for x in node.inputs if isinstance(x, Tensor)]
        depth = max((level.get(x.serial, 0) for x in tensors), default=0)
        if list_shapes(node) != list_shapes(other):
            has_rows.add(node.serial)
        elif any(x.serial in has_rows for x in tensors):
            depth += 1
            found.append((depth, i))
        level[node.serial] = depth
    found.sort()
    return [i for _, i in found], [depth for depth, _ in found]


def find_extremes(whole: Graph, cuts: list[int], joins: list[str]) -> list[int]:
    """Return the numbers of the maxima and minima over rows that have a gradient.

    Raises
    ------
    ClusterError
        If another node than a reduction is put together as one: nothing tells which
        rows reach it.
    """
    consumers: dict[int, list[Tensor]] = {}
    for node in whole.interior:
        for x in node.inputs:
            if isinstance(x, Tensor):
                consumers.setdefault(x.serial, []).append(node)
    returned = {y.serial for y in whole.outputs if isinstance(y, Tensor)}
    found = []
    for i, name in zip(cuts, joins, strict=True):
        node = whole.interior[i]
        readers = consumers.get(node.serial, [])
        is_constant = node.serial not in returned and all(
            set(reader.op.partials) == {"0"} for reader in readers
        )
        spec = types.spec_of(node)
        if name == "sum" or is_constant or not types.is_differentiable(spec.dtype):
            continue
        if node.op.kind != "reduction":
            raise ClusterError(
                f"reduce='exact': {node.op.name}{blame.quote_site(node.site)} takes the"
                " largest or smallest of several values, each computed from a part of"
                " the rows, and nothing tells which rows reach it. Write np.max or"
                " np.min over the rows."
            )
        found.append(i)
    return found


def share_ties(graph: Graph, extremes: Sequence[int]) -> Graph:
    """Return a program in which all rows that reach a maximum share its cotangent.

    Its value is that of the maximum, whose own derivative is cut off, plus the mean
    over those rows of what they are above it: 0, with the derivative of that mean.
    The rows are computed in another program than the maximum was, so that the last
    digits may differ: `SLACK` roundings count as equal. Where no row reaches it all the
    same, the mean of none is NaN, which is seen.
    """
    new: dict[int, Any] = {}

    def find(x: Any) -> Any:
        return new.get(x.serial, x) if isinstance(x, Tensor) else x

    places = set(extremes)
    for i, node in enumerate(graph.interior):
        inputs = tuple(map(find, node.inputs))
        if i not in places:
            if any(a is not b for a, b in zip(inputs, node.inputs, strict=True)):
                new[node.serial] = apply(node.op, inputs, node.params)
            continue
        x = inputs[0]
        settings = {k: node.params.get(k) for k in ("axis", "keepdims")}
        axis, keepdims = settings["axis"], bool(settings["keepdims"])
        top = stop_gradient(apply(node.op, inputs, node.params))
        wide = top if keepdims or axis is None else np.expand_dims(top, axis)
        slack = SLACK * np.finfo(types.spec_of(top).dtype).eps * np.abs(wide)
        reach = np.abs(x - wide) <= np.where(np.isfinite(wide), slack, 0.0)
        reach = reach | (x == wide)  # of infinities
        count = np.sum(reach, axis=axis, keepdims=keepdims)
        above = np.where(reach & np.isfinite(wide), x - wide, 0.0)
        new[node.serial] = top + np.sum(above, axis=axis, keepdims=keepdims) / count
    return Graph(graph.inputs, [find(y) for y in graph.outputs])


def check_alike(a: Graph, b: Graph) -> None:
    """Raise if two programs are not the same but for the number of rows."""
    ops = [x.op for x in a.interior]
    if ops != [x.op for x in b.interior]:
        raise ClusterError(
            "reduce='exact': the program is another one for another number of rows: it"
            " has a loop over rows, or an if on their number. Write it with NumPy's"
            " functions over an axis."
        )


def transplant(small: Graph, whole: Graph) -> Graph:
    """Return a program for few rows with the numbers of the one for all of them.

    ``np.sum(x) / len(x)`` divides by the number of all rows.
    """
    check_alike(small, whole)
    new: dict[int, Any] = {x.serial: x for x in small.inputs}

    def find(x: Any, other: Any) -> Any:
        if isinstance(x, Tensor):
            return new.get(x.serial, x)
        return other if np.size(x) == 1 and np.size(other) == 1 else x

    for node, other in zip(small.interior, whole.interior, strict=True):
        inputs = tuple(map(find, node.inputs, other.inputs))
        args = tuple([None if isinstance(x, Tensor) else x for x in inputs])
        value = other._value if np.size(other._value) == 1 else node._value
        new[node.serial] = walk.copy_node(node, inputs, args, value)
    outputs = [find(y, z) for y, z in zip(small.outputs, whole.outputs, strict=True)]
    return Graph(small.inputs, outputs)


def cut_graph(graph: Graph, cuts: Sequence[int], outputs: Sequence[int]) -> Graph:
    """Return the program of some nodes, with the cuts as further inputs."""
    nodes = graph.interior
    return Graph(
        [*graph.inputs, *[nodes[i] for i in cuts]], [nodes[i] for i in outputs]
    )


def make_round(
    graph: Graph, cuts: list[int], which: list[int], wrt: list[int],
    count: int, overrides: Any,
) -> tuple[Graph, Graph]:  # fmt: skip
    """Return the programs of a round for chunks of one length.

    Forward, from the other arguments (``count`` of them), the cuts that are known and
    the data to parts of these cuts; backward, from the cotangents of these cuts too, to
    parts of those of the weights and of the cuts that were known.
    """
    known = which[0]
    inner = cut_graph(graph, cuts[:known], [cuts[i] for i in which])
    specs = [types.spec_of(x) for x in inner.inputs]
    # The data come last, as in what a chunk is given.
    given = [
        *specs[:count],
        *specs[len(graph.inputs) :],
        *specs[count : len(graph.inputs)],
    ]

    def turn(values: Sequence[Any]) -> list[Any]:
        mine = count + known
        return [*values[:count], *values[mine:], *values[count:mine]]

    def run(*values: Any) -> Any:
        return inner.run(turn(values))

    slots = [*wrt, *range(count, count + known)]
    moving = [i for i in slots if types.is_differentiable(given[i].dtype)]

    def pull(*values: Any) -> Any:
        mine = count + known
        bars = values[mine : mine + len(which)]
        rest = [*values[:mine], *values[mine + len(which) :]]
        floats = [
            k for k, y in enumerate(inner.outputs)
            if types.is_differentiable(types.spec_of(y).dtype)
        ]  # fmt: skip
        found: dict[int, Any] = {}
        if floats and moving:
            _, pulled = jacobian.vjp(
                lambda *x: [run(*fill(rest, moving, x))[k] for k in floats],
                *[rest[i] for i in moving], overrides=overrides,
            )  # fmt: skip
            found = dict(zip(moving, pulled([bars[k] for k in floats]), strict=True))
        zeros = [np.zeros_like(rest[i], dtype=float) for i in slots]
        return [found.get(i, zero) for i, zero in zip(slots, zeros, strict=True)]

    outputs = [types.spec_of(x) for x in inner.outputs]
    floating = [
        Spec(s.shape, s.dtype if s.dtype.kind in "fc" else np.dtype(float))
        for s in outputs
    ]
    mine = count + known
    forward = trace(run)(*given)
    return forward, trace(pull)(*given[:mine], *floating, *given[mine:])


def try_cuts(
    small: Graph, trace_at: Callable[[int], Graph], cuts: list[int], levels: list[int],
    others: list[Any], data: list[Any],
) -> list[str]:  # fmt: skip
    """Return how each cut is put together from parts of the rows: tried, not believed.

    On the first rows and these weights, and on others like them: a sum of zeros is
    their maximum too. Where several fit, what the op itself combines with goes first.
    """
    n = len(data[0])
    if n < 2 or not cuts:
        return ["sum"] * len(cuts)
    k = min(PART, n - 1)
    halves = [(transplant(trace_at(k), small), slice(0, k)),
              (transplant(trace_at(n - k), small), slice(k, n))]  # fmt: skip
    rng = np.random.default_rng(0)

    def shift(x: Any) -> Any:
        if x.dtype.kind in "iu":
            return x + (x == 0)
        if x.dtype.kind == "b":
            return rng.random(x.shape) < 0.7
        if x.dtype.kind not in "fc":
            return x
        good = np.where(np.isfinite(x), x, 0)
        noise = (np.std(good) + 1) * rng.normal(size=x.shape)
        return (good + noise).astype(x.dtype)

    fitting = [list_joins(small.interior[i]) for i in cuts]
    floats = [shift(x) if x.dtype.kind in "fc" else x for x in others]
    for given_others, rows in ((others, data), (floats, [*map(shift, data)])):
        with np.errstate(all="ignore"):
            truth = cut_graph(small, [], cuts).run([*given_others, *rows])
            parts: list[list[Any]] = []
            for graph, some in halves:
                given = [*given_others, *[x[some] for x in rows]]
                found = []
                for i in range(len(cuts)):
                    before = [j for j in range(i) if levels[j] < levels[i]]
                    run = cut_graph(graph, [cuts[j] for j in before], [cuts[i]]).run
                    found += run([*given, *[truth[j] for j in before]])
                parts.append(found)
            for i, names in enumerate(fitting):
                a, b, y = parts[0][i], parts[1][i], truth[i]
                if not np.shape(a) == np.shape(b) == np.shape(y):
                    raise refuse_cut(small.interior[cuts[i]], n, k, a, b, y)
                size = np.max(
                    np.abs([a, b, y]), initial=0.0, where=np.isfinite([a, b, y])
                )
                tolerance = 1e-4 if np.asarray(y).dtype.itemsize < 8 else 1e-9
                names[:] = [
                    name for name in names
                    if np.allclose(JOINS[name](a, b), y, rtol=tolerance,
                                    atol=tolerance * float(size), equal_nan=True)
                ]  # fmt: skip
                if not names:
                    raise refuse_cut(small.interior[cuts[i]], n, k, a, b, y)
    return [names[0] for names in fitting]


def list_joins(node: Tensor) -> list[str]:
    """Return the ways to join a cut, those of its own op first."""
    spec = types.spec_of(node)
    if isinstance(spec, Spec) and spec.dtype.kind == "b":
        return ["all", "any"] if node.op.combines is np.logical_and else ["any", "all"]
    own = [name for name, ufunc in JOINS.items() if ufunc is node.op.combines]
    return list(dict.fromkeys([*own, "sum", "max", "min"]))


def refuse_cut(node: Tensor, n: int, k: int, a: Any, b: Any, y: Any) -> ClusterError:
    """Return the error for a node at which rows cannot be cut off."""
    first, second, whole = (float(np.ravel(np.real(x))[0]) for x in (a, b, y))
    return ClusterError(
        "reduce='exact': rows cannot be cut off at"
        f" {node.op.name}{blame.quote_site(node.site)}. Of {n} rows it gives"
        f" {whole:.6g}, of {k} and {n - k} of them {first:.6g} and {second:.6g}:"
        " neither their sum nor the larger or smaller one. An op that mixes rows (a"
        " sort, a difference of neighbours, an entry of one row) needs all of them in"
        " one place: write x.compute()."
    )
