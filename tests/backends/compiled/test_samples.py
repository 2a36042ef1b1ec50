"""Every sample of every op, value and gradient: kernels against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.backends.compiled.accuracy import check_accuracy
from tests.backends.compiled.programs import compile_graph, trace
from tests.chunks import parametrize_chunks
from tests.ops.samples import ALIKE_IN_KIND, SAMPLES, Sample
from workbench.backends.compiled.expansion import expand
from workbench.backends.compiled.lowering import lower
from workbench.backends.compiled.machine import get_machine
from workbench.backends.compiled.steps import HostStep
from workbench.backends.compiled.target import Processor
from workbench.backends.numpy import compile
from workbench.core.types import spec_of
from workbench.errors import CompilerError, ShapeError

KINDS = {"f": np.float64, "c": np.complex128}
CASES = {f"{s.name}-{kind}": (s, kind) for s in SAMPLES for kind in s.kinds}
#: Traced with values, their dtype or length is that of the values at hand: a program at
#: fixed shapes has others, and runs as NumPy.
BY_VALUE = {"roots", "roots in pairs", "x[x > 0]", "eigvals", "eig real"}


def draw(sample: Sample, kind: str, rng: np.random.Generator) -> list[Any]:
    args = [np.asarray(a, KINDS[kind]) for a in sample.arguments(rng)]
    if kind == "c":
        turns = rng.uniform(-0.4, 0.4, len(args))
        args = [a * np.exp(1j * t) for a, t in zip(args, turns, strict=True)]
    return args


@parametrize_chunks(
    "sample kind", CASES, alike={name for name in CASES if name[:-2] in ALIKE_IN_KIND}
)
def test_values(sample: Sample, kind: str, rng: np.random.Generator) -> None:
    args = draw(sample, kind, rng)
    check(sample, sample.f, args)


@pytest.mark.long
@parametrize_chunks("sample kind", CASES)
def test_gradients(sample: Sample, kind: str, rng: np.random.Generator) -> None:
    args = draw(sample, kind, rng)
    weight = rng.standard_normal(np.shape(sample.f(*args)))

    def gradient(*xs: Any) -> Any:
        return wb.grad(
            lambda *a: np.real(np.sum(weight * sample.f(*a))), tuple(range(len(xs)))
        )(*xs)

    check(sample, gradient, args)


def check(sample: Sample, f: Any, args: list[Any]) -> None:
    graph = trace(f, args, values=not sample.batch)
    try:
        with np.errstate(all="ignore"):
            expected = compile(graph).run(args)
            program = compile_graph(graph, args)
            for _ in range(2):
                check_accuracy(graph, args, program.run(args), expected)
    except (CompilerError, ShapeError):
        assert sample.name in BY_VALUE


def test_most_samples_need_no_step_of_numpy(rng: np.random.Generator) -> None:
    """So many programs are kernels alone, and run without Python."""
    target = Processor(get_machine())
    native = 0
    for sample in SAMPLES:
        args = draw(sample, sample.kinds[0], rng)
        try:
            with np.errstate(all="ignore"):
                graph = trace(sample.f, args, values=not sample.batch)
                plan = lower(expand(graph, [spec_of(a) for a in args]), target)
        except (CompilerError, ShapeError):
            assert sample.name in BY_VALUE
            continue
        native += not any(isinstance(step, HostStep) for step in plan.steps)
    assert native >= 1330
