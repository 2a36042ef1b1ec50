"""Samples of all ops, value and gradient, as plans for a device that the host runs.

Every thirty-sixth sample stands for the others; the long tests run the gradients of
all, and NVRTC compiles what they are made of.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.backends.compiled.accuracy import check_accuracy
from tests.backends.compiled.programs import trace
from tests.backends.compiled.test_samples import BY_VALUE, CASES, draw
from tests.backends.cupy.host import COMPILER, SMALL, HostDevice, HostModule, write_all
from tests.backends.cupy.nvrtc import compile_cubin, load_nvrtc
from tests.chunks import generator
from tests.ops.samples import Sample
from workbench.backends.compiled.expansion import expand
from workbench.backends.compiled.lowering import lower
from workbench.backends.cupy.launches import Launch, list_units
from workbench.backends.numpy import compile
from workbench.core.types import spec_of
from workbench.errors import CompilerError, ShapeError

#: A sample among so many in each run; the long tests take all in so many parts.
SOME, PARTS = 36, 12
#: Samples of every run: a kernel of several stores, one of them where it reads.
ALWAYS = ("convolve2d wrap-f",)

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="g++ is not installed")
Chosen = list[tuple[str, Sample, str]]


def choose(part: int, parts: int = PARTS) -> Chosen:
    """Return one of so many parts of the samples."""
    return [(label, *CASES[label]) for label in list(CASES)[part::parts]]


def differentiate(sample: Sample, args: list[Any], rng: np.random.Generator) -> Any:
    """Return the gradient of a weighted sum of a sample."""
    weight = rng.standard_normal(np.shape(sample.f(*args)))

    def gradient(*xs: Any) -> Any:
        return wb.grad(
            lambda *a: np.real(np.sum(weight * sample.f(*a))), tuple(range(len(xs)))
        )(*xs)

    return gradient


def choose_some() -> Chosen:
    """Return the samples of each run: some of the table, and a few by name."""
    chosen = choose(0, SOME)
    known = {label for label, *_ in chosen}
    return chosen + [(x, *CASES[x]) for x in ALWAYS if x not in known]


class Case:
    """A sample as a plan, and what NumPy says of it."""

    def __init__(self, label: str, sample: Sample, kind: str, gradient: bool) -> None:
        rng = generator(f"{label} {gradient}")
        self.label = label
        self.args = draw(sample, kind, rng)
        f = differentiate(sample, self.args, rng) if gradient else sample.f
        self.graph = trace(f, self.args, values=not sample.batch)
        self.want = compile(self.graph).run(self.args)
        specs = [spec_of(a) for a in self.args]
        self.plan = lower(expand(self.graph, specs, kinds=SMALL.kinds), SMALL)
        self.launches = write_all(self.plan)

    def list_launches(self) -> list[Launch]:
        return [x for launches in self.launches.values() for x in launches]

    def check(self, order: int) -> None:
        made = HostDevice(self.plan, launches=self.launches).run(self.args, order)
        check_accuracy(self.graph, self.args, made, self.want)


def plan_cases(chosen: Chosen, gradient: bool) -> list[Case]:
    """Return the samples as plans, without those whose shapes depend on values."""
    cases = []
    for label, sample, kind in chosen:
        try:
            with np.errstate(all="ignore"):
                cases.append(Case(label, sample, kind, gradient))
        except ShapeError:
            assert sample.name in BY_VALUE
    return cases


def check_samples(
    chosen: Chosen, gradient: bool, subtests: pytest.Subtests
) -> list[Case]:
    """Run samples on the host: threads in order, and at random."""
    cases = plan_cases(chosen, gradient)
    HostModule([x for case in cases for x in case.list_launches()])
    for case in cases:
        with subtests.test(case.label), np.errstate(all="ignore"):
            try:
                for order in (0, 2):
                    case.check(order)
            except CompilerError:  # NumPy gave what has another shape or dtype
                assert CASES[case.label][0].name in BY_VALUE
    return cases


def check_architectures(cases: list[Case], architectures: tuple[str, ...]) -> int:
    """Compile the functions of samples by NVRTC; return how many there are."""
    nvrtc = load_nvrtc()
    units = list_units(x for case in cases for x in case.list_launches())
    if nvrtc is not None:
        for unit in units:
            for architecture in architectures:
                compile_cubin(nvrtc, unit.source, architecture)
    return sum(len(unit.names) for unit in units)


@needs_compiler
@pytest.mark.parametrize("gradient", [False, True])
def test_some_samples(gradient: bool, subtests: pytest.Subtests) -> None:
    cases = check_samples(choose_some(), gradient, subtests)
    if gradient:  # which has most of the values' kernels
        check_architectures(cases, ("sm_90",))


@pytest.mark.long
@needs_compiler
@pytest.mark.parametrize("part", range(PARTS))
def test_gradients_of_all_samples(part: int, subtests: pytest.Subtests) -> None:
    """Test the gradients, which have most of the values' kernels."""
    cases = check_samples(choose(part), True, subtests)
    # For each GPU, all programs of `test_kernels` are compiled.
    check_architectures(cases, (("sm_80", "sm_90", "sm_100")[part % 3],))


@pytest.mark.long
@needs_compiler
@pytest.mark.parametrize("part", range(0, PARTS, 4))
def test_values_of_many_samples(part: int, subtests: pytest.Subtests) -> None:
    check_samples(choose(part), False, subtests)
