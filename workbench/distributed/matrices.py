"""Jacobians and Hessians with shared columns, rows or colours; ensembles.

What travels is the program of the products with many vectors, traced here once: another
``x`` is only another array. One piece is tried here first; where the cluster does not
pay, the matrix is computed here, and `explain` says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, Literal, NamedTuple

import numpy as np

from workbench.autodiff import grad as derivatives
from workbench.autodiff import jacobian as local
from workbench.autodiff.sparse.evaluation import order_entries
from workbench.autodiff.vmap import vmap as vmap_here
from workbench.checks.progress import Progress
from workbench.core import tree, types
from workbench.core.graph import Graph
from workbench.core.hooks import Override
from workbench.core.trace import check_function, trace
from workbench.core.types import Spec
from workbench.distributed.pieces import choose_count, run_pieces, split
from workbench.distributed.programs import (
    Packed,
    WorkerProgram,
    count_workers,
    find_client,
    find_library,
    pack,
)
from workbench.distributed.rows import is_input
from workbench.errors import DtypeError, UsageError
from workbench.overrides.override_blocks import blocks_in_force

#: So many vectors are tried here.
TRIED = 4


def describe_choice(seconds: float, parts: int, what: str) -> str:
    """Return in words why work was shared out, or was not."""
    if parts <= 1:
        return (
            f"{what}: about {seconds:.2g} s in all, and it was computed here. Sending"
            " pays from some 10 s on; pieces= sends it all the same."
        )
    return (
        f"{what} in {parts} pieces; one worker would need about {seconds:.2g} s by"
        " NumPy. The width of a piece can change the last digits: pieces= fixes it."
    )


class SharedWork:
    """Work in pieces: the common part of its kinds."""

    def __init__(
        self, f: Callable[..., Any], client: Any, progress: Progress | None, pieces: Any
    ) -> None:
        if pieces is not None and not (isinstance(pieces, int) and pieces > 0):
            raise UsageError(f"pieces={pieces!r}: write a number of 1 or more.")
        self.function = f
        self._client, self._progress, self._pieces = client, progress, pieces
        self._plans: dict[Any, Any] = {}
        self._held: Sequence[Any] = ()
        self._told = "It was not called yet."

    def _find_plan(
        self,
        args: Sequence[Any],
        make: Callable[[], Any],
        nest: tree.Tree | None = None,
    ) -> Any:
        """Return the plan for arguments of these specs, or make one."""
        # What is no array is a constant of the program: another object, another one.
        specs = [repr(types.spec_of(x)) if is_input(x) else id(x) for x in args]
        key = tuple(specs), nest, repr(blocks_in_force())
        if key not in self._plans:
            self._plans.clear()
            self._plans[key] = make()
            self._held = args  # so that no other object gets an id of these
        return self._plans[key]

    def _choose_parts(self, client: Any, seconds: float) -> int:
        if self._pieces is not None:
            return int(self._pieces)
        return choose_count(seconds, count_workers(client))

    def explain(self) -> str:
        """Return in words how the last call was computed, and why."""
        return self._told


def time_vectors(
    make: Callable[[int], Graph], count: int, values: Sequence[Any]
) -> float:
    """Return about how many seconds NumPy needs here for so many vectors."""
    width = min(TRIED, count)
    graph = make(width)
    vectors = np.ones((width, *graph.inputs[-1].spec.shape[1:]))
    with np.errstate(all="ignore"):
        begin = time.perf_counter()
        graph.run([*values, vectors])
    return (time.perf_counter() - begin) * count / width


class Arguments(NamedTuple):
    """The arguments of a call, as they were given and as leaves."""

    given: Sequence[Any]
    leaves: list[Any]
    nest: tree.Tree
    #: Which leaf the matrix is differentiated by.
    place: int

    def list_specs(self) -> list[Any]:
        """Return the leaves with specs in the place of arrays."""
        return [types.spec_of(x) if is_input(x) else x for x in self.leaves]


class SharedMatrix(SharedWork):
    """A Jacobian or Hessian, computed as products with vectors on many workers.

    Made by :func:`workbench.distributed.jacobian` and
    :func:`workbench.distributed.hessian`.
    """

    def __init__(
        self,
        name: str,
        f: Callable[..., Any],
        argnum: Any,
        mode: str,
        overrides: Sequence[Override] | None,
        sparse: Any,
        options: dict[str, Any],
        client: Any,
        progress: Progress | None,
        pieces: int | None,
    ) -> None:
        check_function(f, f"wd.{name}")
        super().__init__(f, client, progress, pieces)
        argnum = 0 if argnum is None else argnum
        if not isinstance(argnum, int):
            raise UsageError(
                f"wd.{name}: argnums={argnum!r}. It is the position of one array; for"
                f" several write wb.{name}."
            )
        self.name, self._argnum, self._mode = name, argnum, mode
        #: What is differentiated once.
        self._f = f if name == "jacobian" else derivatives.grad(f, argnum)
        make = local.jacobian if name == "jacobian" else local.hessian
        if name == "jacobian" and not sparse:
            options = {**options, "mode": mode}
        self._here = make(f, argnum, overrides=overrides, sparse=sparse, **options)
        self._is_sparse = bool(sparse)
        self._overrides = overrides

    def __call__(self, *args: Any) -> Any:
        """Return the matrix at these arguments, as `workbench` itself does."""
        client = find_client(self._client)
        x = args[self._argnum]
        if not is_input(x) or np.asarray(x).dtype.kind != "f":
            kind = "nest" if not is_input(x) else f"array of {np.asarray(x).dtype}"
            raise DtypeError(
                f"wd.{self.name}: it is differentiated by one array of floats, and"
                f" argument {self._argnum} is a {kind}. Write wb.{self.name}(f)."
            )
        leaves, nest = tree.flatten(args)
        before = len(tree.flatten(args[: self._argnum])[0])
        flat = Arguments(args, leaves, nest, before)
        if self._is_sparse:
            return self._compute_sparse(client, flat)
        return self._compute_dense(client, flat)

    def _trace(self, args: Arguments, forward: bool, width: int) -> Graph:
        """Return the program of products with vectors that lie in rows."""
        f, k, rules = self._f, args.place, self._overrides
        specs = args.list_specs()

        def of_one(given: Sequence[Any]) -> Callable[[Any], Any]:
            return lambda x: f(*args.nest([*given[:k], x, *given[k + 1 :]]))

        def push(*given: Any) -> Any:
            *arrays, vectors = given

            def push_one(v: Any) -> Any:
                run = of_one(arrays)
                return local.jvp(run, (arrays[k],), (v,), overrides=rules)[1]

            return vmap_here(push_one)(vectors)

        def pull(*given: Any) -> Any:
            *arrays, vectors = given

            def pull_one(g: Any) -> Any:
                run = of_one(arrays)
                return local.vjp(run, arrays[k], overrides=rules)[1](g)[0]

            return vmap_here(pull_one)(vectors)

        if forward:
            across = specs[k]
        else:
            across = self._find_output(args)
        vectors = Spec((width, *across.shape), specs[k].dtype)
        return trace(push if forward else pull)(*specs, vectors)

    def _find_output(self, args: Arguments) -> Spec:
        outputs = trace(self._f)(*args.nest(args.list_specs())).outputs
        if len(outputs) != 1:
            raise UsageError(
                f"wd.{self.name}: the function returns {len(outputs)} arrays. Return"
                f" one, or write wb.{self.name}(f)."
            )
        found: Spec = types.spec_of(outputs[0])
        return found

    def _multiply(
        self, client: Any, args: Arguments, forward: bool, seeds: Any, what: str
    ) -> Any:
        """Return products with vectors, in rows; None where sending does not pay.

        ``seeds`` are the vectors, or a number: so many of unity.
        """
        values = [x for x in args.leaves if is_input(x)]
        count = seeds if isinstance(seeds, int) else len(seeds)

        def make_plan() -> ProductPlan:
            def make(width: int) -> Graph:
                return self._trace(args, forward, width)

            seconds = time_vectors(make, count, values)
            parts = self._choose_parts(client, seconds)
            if parts <= 1 and self._pieces is None:
                return ProductPlan(seconds, [], None)
            spans = split(count, parts)
            return ProductPlan(seconds, spans, pack(make(spans[0][1])))

        plan = self._find_plan([*args.leaves, forward, count], make_plan, args.nest)
        self._told = describe_choice(plan.seconds, len(plan.spans), what)
        if plan.program is None:
            return None
        spans = plan.spans
        width = spans[0][1]
        if isinstance(seeds, int):
            kind = "columns" if forward else "rows"
            work: list[Any] = [((width, count, a), b - a) for a, b in spans]
        else:
            kind = "colours"
            filled = np.zeros((width * len(spans), seeds.shape[1]), seeds.dtype)
            filled[:count] = seeds
            work = [(filled[a : a + width], b - a) for a, b in spans]

        def describe(i: int) -> str:
            return f"{kind} {spans[i][0]} to {spans[i][1]} of the {self.name}"

        found = run_pieces(
            client, multiply, work, plan.program, values, name=self.name,
            progress=self._progress, describe=describe,
        )  # fmt: skip
        return np.concatenate(found)

    def _compute_dense(self, client: Any, args: Arguments) -> Any:
        shape = np.shape(args.leaves[args.place])
        out = shape if self.name == "hessian" else self._find_output(args).shape
        tall, wide = prod(out), prod(shape)
        forward = {"fwd": True, "rev": False}.get(self._mode, wide <= tall)
        count = wide if forward else tall
        what = f"{tall}×{wide}, {count} {'columns' if forward else 'rows'}"
        made = self._multiply(client, args, forward, count, what) if count else None
        if made is None:
            return self._here(*args.given)
        return (made.T if forward else made).reshape((*out, *shape))

    def _compute_sparse(self, client: Any, args: Arguments) -> Any:
        here = self._here.prepare(*args.given)
        products = []
        for forward, seeds in zip((True, False), here.colouring.seeds(), strict=True):
            made = None
            if seeds is not None:
                what = f"{here.colouring!r}"
                made = self._multiply(client, args, forward, seeds, what)
                if made is None:
                    return self._here(*args.given)
            products.append(made)
        order = order_entries(here.pattern, self._here._settings.format)
        return here.assemble(here.colouring.decompress(*products, order=order))

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", "f")
        return f"<{self.name} of {name}, on a cluster>"


class ProductPlan(NamedTuple):
    """How some products are shared out; no program: they are computed here."""

    seconds: float
    spans: list[tuple[int, int]]
    program: Packed | None


def multiply(program: WorkerProgram, values: Sequence[Any], piece: Any) -> Any:
    """Run on a worker: products with some vectors, one in a row."""
    vectors, count = piece
    spec = program.graph.inputs[-1].spec
    if isinstance(vectors, tuple):
        width, size, first = vectors
        vectors = np.eye(width, size, k=first)
    vectors = vectors.reshape(spec.shape).astype(spec.dtype, copy=False)
    (made,) = program.run([*values, vectors])
    return np.reshape(made, (len(vectors), -1))[:count]


# What users call


def jacobian(
    f: Callable[..., Any],
    argnums: int | None = None,
    mode: Literal["auto", "fwd", "rev"] = "auto",
    *,
    sparse: Any = False,
    overrides: Sequence[Override] | None = None,
    client: Any = None,
    progress: Progress | None = None,
    pieces: int | None = None,
    **options: Any,
) -> SharedMatrix:
    """Return the matrix of all first derivatives, its columns shared out.

    As :func:`workbench.jacobian`, of one array by one array. It is for functions whose
    matrix takes some 10 s; one that takes less is computed here, and ``explain()`` says
    so.

    Parameters
    ----------
    f, argnums, mode, sparse, overrides, options
        As of :func:`workbench.jacobian`. Of a sparse Jacobian the colours are shared
        out.
    client
        The Dask client; by default the one of the moment.
    progress
        Called with (done, all) as pieces are done; true stops, as an interrupt does.
    pieces
        Into how many pieces to cut it; by default by the cost of one that is tried
        here. Some widths change the last digits.

    Raises
    ------
    ClusterError
        If the cluster is gone, or a piece ends its workers.
    DtypeError
        If the argument is a nest, or complex.

    Examples
    --------
    >>> import numpy as np
    >>> import workbench.distributed as wd
    >>> from dask.distributed import Client
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     J = wd.jacobian(lambda x: x**2, pieces=2)
    ...     print(J(np.array([1.0, 2.0])))
    [[2. 0.]
     [0. 4.]]
    """
    return SharedMatrix(
        "jacobian", f, argnums, mode, overrides, sparse, options, client, progress,
        pieces,
    )  # fmt: skip


def hessian(
    f: Callable[..., Any],
    argnums: int | None = None,
    *,
    sparse: Any = False,
    overrides: Sequence[Override] | None = None,
    client: Any = None,
    progress: Progress | None = None,
    pieces: int | None = None,
    **options: Any,
) -> SharedMatrix:
    """Return the matrix of second derivatives, its columns shared out.

    As :func:`workbench.hessian`, by one array; see
    :func:`workbench.distributed.jacobian`.

    Examples
    --------
    >>> import numpy as np
    >>> import workbench.distributed as wd
    >>> wd.hessian(lambda x: np.sum(x**3), sparse=True)
    <hessian of <lambda>, on a cluster>
    """
    return SharedMatrix(
        "hessian", f, argnums, "fwd", overrides, sparse, options, client, progress,
        pieces,
    )  # fmt: skip


class SharedBatch(SharedWork):
    """A function of many examples, which are shared out.

    Made by :func:`workbench.distributed.vmap`.
    """

    def __call__(self, *args: Any) -> Any:
        """Return the results of all examples, one below the other."""
        client = find_client(self._client)
        array = find_library("dask.array").Array
        if len(args) == 1 and isinstance(args[0], array):
            return self._map_blocks(args[0])
        count = len(args[0])
        if any(len(x) != count for x in args):
            shown = ", ".join(str(np.shape(x)) for x in args)
            raise UsageError(
                f"wd.vmap: the arrays have other numbers of examples ({shown}). Their"
                " first axis counts them."
            )

        def make_plan() -> Any:
            few = [x[:TRIED] for x in args]
            graph = trace(vmap_here(self.function))(*map(types.spec_of, few))
            with np.errstate(all="ignore"):
                begin = time.perf_counter()
                graph.run(few)
            seconds = (time.perf_counter() - begin) * count / max(1, len(few[0]))
            parts = self._choose_parts(client, seconds)
            if parts <= 1 and self._pieces is None:
                return seconds, [], {}, None
            spans = split(count, parts)
            programs = {}
            for width in {b - a for a, b in spans}:
                specs = [Spec((width, *x.shape[1:]), x.dtype) for x in args]
                graph = trace(vmap_here(self.function))(*specs)
                programs[width] = pack(graph)
            return seconds, spans, programs, graph.tree

        seconds, spans, programs, structure = self._find_plan(args, make_plan)
        self._told = describe_choice(seconds, len(spans), f"{count} examples")
        if not spans:
            return vmap_here(self.function)(*args)
        columns: list[list[Any]] = []
        for width, program in programs.items():
            some = [(a, b) for a, b in spans if b - a == width]
            columns += run_pieces(
                client, run_examples, [[x[a:b] for x in args] for a, b in some],
                program, name="vmap", progress=self._progress,
                describe=partial(describe_examples, some),
            )  # fmt: skip
        order = [
            span for width in programs for span in spans if span[1] - span[0] == width
        ]
        sorted_columns = [columns[order.index(span)] for span in spans]
        return structure([np.concatenate(y) for y in zip(*sorted_columns, strict=True)])

    def _map_blocks(self, x: Any) -> Any:
        """Return the lazy array of the results, in the chunks of the argument."""
        (y,) = trace(self.function)(Spec(x.shape[1:], x.dtype)).outputs
        spec = types.spec_of(y)
        inner = tuple(range(1, x.ndim))
        outer = tuple(range(x.ndim, x.ndim + len(spec.shape)))
        self._told = f"a lazy array, of {len(x.chunks[0])} chunks"
        return find_library("dask.array").blockwise(
            vmap_here(self.function), (0, *outer), x, (0, *inner), dtype=spec.dtype,
            new_axes=dict(zip(outer, spec.shape, strict=True)), concatenate=True,
        )  # fmt: skip

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", "f")
        return f"<vmap of {name}, on a cluster>"


def describe_examples(spans: Sequence[tuple[int, int]], place: int) -> str:
    """Return which examples a piece has, for errors."""
    return f"examples {spans[place][0]} to {spans[place][1]}"


def run_examples(
    program: WorkerProgram, values: Sequence[Any], piece: Sequence[Any]
) -> Any:
    """Run on a worker: the results of some examples."""
    return program.run([*values, *piece])


def vmap(
    f: Callable[..., Any],
    *,
    client: Any = None,
    progress: Progress | None = None,
    pieces: int | None = None,
) -> SharedBatch:
    """Return a function that runs ``f`` on many examples, which are shared out.

    As :func:`workbench.vmap` along the first axis of all arguments: starts of a search,
    members of an ensemble. Of a Dask array, split along its first axis, the result is
    a lazy Dask array in the same chunks.

    Parameters
    ----------
    f
        A function of arrays, for one example.
    client, progress, pieces
        As of :func:`workbench.distributed.jacobian`.

    Examples
    --------
    >>> import numpy as np
    >>> import workbench.distributed as wd
    >>> from dask.distributed import Client
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     wd.vmap(np.sum, pieces=2)(np.arange(8.0).reshape(4, 2))
    array([ 1.,  5.,  9., 13.])
    """
    check_function(f, "wd.vmap")
    return SharedBatch(f, client, progress, pieces)
