"""What a result looks like is found without an array of its size."""

from __future__ import annotations

import tracemalloc
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.chunks import parametrize_chunks
from tests.ops.samples import ALIKE_IN_KIND, SAMPLES, Sample
from tests.ops.test_samples import drawn
from workbench.core.graph import Graph
from workbench.core.infer import infer_spec
from workbench.core.op import OPS, Op
from workbench.core.types import Spec, as_spec

#: So many entries would take sixteen times the bytes that may be taken.
ENTRIES, MOST_BYTES = 2**18, 2**17


def taken_bytes(run: Callable[[], Any]) -> int:
    """Return how many bytes were taken at once while a function ran."""
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def says_lengths(op: Op) -> bool:
    return op.elementwise or op.lengths is not None or op.infer is not None


def test_every_op_says_its_lengths() -> None:
    """But one that needs values anyway, and those that copy to another device."""
    for name in wb.__all__:  # a module may name the op of one that is not loaded yet
        getattr(wb, name)
    own = {
        name: op
        for name, op in OPS.items()
        # Those that other tests declare have not all gone when this one runs.
        if op.maker is None and not op.custom and not name.endswith("_test")
    }
    silent = {name for name, op in own.items() if not says_lengths(op)}
    assert silent == {"roots", "to_device", "to_host"}


def widened(spec: Any) -> Any:
    """Return a spec of about so many entries: the axes that were longer than 1."""
    long = [n for n in spec.shape if n > 1]
    if not long:
        return spec
    factor = max(2, round((ENTRIES / np.prod(long)) ** (1 / len(long))))
    return Spec([n * factor if n > 1 else n for n in spec.shape], spec.dtype)


@parametrize_chunks("sample", {s.name: (s,) for s in SAMPLES}, alike=ALIKE_IN_KIND)
def test_ops_at_large_lengths(sample: Sample, rng: np.random.Generator) -> None:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        graph = wb.trace(sample.f)(*drawn(sample, sample.kinds[0], rng))
        assert isinstance(graph, Graph)
        for node in graph.nodes:
            specs = [as_spec(getattr(x, "spec", x)) for x in node.inputs]
            if not specs or any(isinstance(x, tuple) for x in specs):
                continue
            if not says_lengths(node.op):
                continue
            if "key" in node.params and any(x.dtype == bool for x in specs[1:]):
                continue  # a mask without values is refused before
            large = list(map(widened, specs))

            found: list[Any] = []

            def infer(node: Any = node, large: Any = large, found: Any = found) -> None:
                with suppress(Exception):  # its settings hold for other lengths
                    found.append(infer_spec(node.op, large, node.params))

            taken = taken_bytes(infer)
            assert not found or taken < MOST_BYTES, (node.op, large)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.tile(x, 10**7),
        lambda x: np.repeat(x, 10**7),
        lambda x: np.pad(x, 10**8),
        lambda x: np.pad(x, 10**8, mode="edge"),
        lambda x: np.pad(x, 10**8, mode="reflect"),
        lambda x: np.pad(x, 10**8, mode="mean"),
        lambda x: np.resize(x, 10**8),
        lambda x: np.linspace(x, 1.0, 10**8),
        lambda x: np.outer(np.tile(x, 10**5), np.tile(x, 10**5)),
        lambda x: np.broadcast_to(x, (10**8, 3)) + 1.0,
        lambda x: np.sort(np.tile(x, 10**7)),
        lambda x: np.var(np.tile(x, 10**7)),
        lambda x: np.frexp(np.tile(x, 10**7))[0],
        lambda x: wb.at(np.tile(x, 10**7))[5].set(1.0),
    ],
)
def test_results_larger_than_operands(f: Any) -> None:
    """763 MB of them would be made by running the op on an example."""
    assert taken_bytes(lambda: wb.trace(f)(Spec((3,), np.float64))) < 2**21


def test_shapes_are_those_of_numpy() -> None:
    """The rules say of large arrays what NumPy says."""
    x = np.ones((300, 300))
    for f in (
        lambda x: np.tile(x, (2, 1, 3)),
        lambda x: np.pad(x, ((1, 2), (0, 4))),
        lambda x: np.repeat(x, 3, axis=1),
        lambda x: np.argpartition(x, 5, axis=0),
        lambda x: np.cumsum(x, axis=1, dtype=np.float32),
        lambda x: np.std(x, axis=0, keepdims=True),
        lambda x: np.packbits(x > 0, axis=1),
        lambda x: np.linspace(x, 2.0, 3, dtype=np.float32),
        lambda x: np.modf(x)[1],
        lambda x: x[:, [0, 2]],
    ):
        found = wb.trace(f)(Spec(x.shape, x.dtype)).outputs[0]
        assert (found.shape, found.dtype) == (f(x).shape, f(x).dtype)


def test_an_index_outside_of_a_large_array_is_refused() -> None:
    spec = Spec((10**9,), np.float64)
    for f in (lambda x: x[[3, 10**9]], lambda x: wb.at(x)[10**9].set(1.0)):
        with pytest.raises(IndexError, match="out of bounds"):
            wb.trace(f)(spec)
