"""Row G3: planted faults are named, healthy programs are left in peace."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import numpy as np
import pytest

import workbench as wb
from tests.checks.doctor.healthy import PROGRAMS
from tests.checks.doctor.planted import ALONE, FAULTS, network
from workbench.checks.doctor.diagnose import KINDS


@pytest.mark.parametrize("name", PROGRAMS)
def test_G3_a_healthy_program_raises_no_alarm(
    name: str, rng: np.random.Generator
) -> None:
    for _ in range(2):
        f, args = PROGRAMS[name](rng)
        found = wb.diagnose(f, *args)
        loud = [one for one in found if one.severity != "note"]
        assert loud == [], found
        assert len(found) <= 1


@pytest.mark.parametrize("size", [10, 100, pytest.param(1000, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", FAULTS)
def test_G3_the_planted_node_is_named(
    name: str, size: int, rng: np.random.Generator
) -> None:
    assert_named(name, size, rng)


def test_G3_some_are_named_in_large_networks(rng: np.random.Generator) -> None:
    for name in rng.choice([*FAULTS], 8, replace=False):
        assert_named(name, 1000, rng)


def assert_named(name: str, size: int, rng: np.random.Generator) -> None:
    kinds = FAULTS[name][1]
    f, args, blamed = network(size, name, rng)
    found = wb.diagnose(f, *args)
    hits = [
        one
        for one in found
        if one.kind in kinds and any(one.node is node for node in blamed)
    ]
    assert hits, (name, found)
    assert all([hits[0].evidence, hits[0].cause, hits[0].place])
    assert all(one.severity in KINDS[one.kind].severities for one in found), found
    worse = [one for one in found if one.severity == "error" and one is not hits[0]]
    if hits[0].severity == "error":
        assert worse == [], found


@pytest.mark.parametrize("kind", ALONE)
def test_G3_a_fault_of_its_own_is_named(kind: str) -> None:
    f, *args = ALONE[kind]
    attached = wb.overrides(wb.override("arctan", "g / 0"))
    with attached if kind == "override-not-finite" else nullcontext():
        found = wb.diagnose(f, *args)
    assert [one.kind for one in found] == [kind], found
    assert found[0].severity in KINDS[kind].severities


def test_every_kind_of_finding_is_planted() -> None:
    planted = set(ALONE).union(*[kinds for _, kinds in FAULTS.values()])
    assert planted == set(KINDS)


@pytest.mark.parametrize("size", [10, 100, 1000])
def test_the_network_without_a_fault_is_healthy(
    size: int, rng: np.random.Generator
) -> None:
    f, args, _ = network(size, "", rng)
    assert list(wb.diagnose(f, *args)) == []


@pytest.mark.parametrize("total", [30, pytest.param(100, marks=pytest.mark.long)])
def test_G3_precision_and_recall_over_random_plantings(
    total: int, rng: np.random.Generator, measured: Callable[[str], None]
) -> None:
    names, named, first, loud, right = list(FAULTS), 0, 0, 0, 0
    for _ in range(total):
        name = names[rng.integers(len(names))]
        f, args, blamed = network(int(rng.integers(10, 150)), name, rng)
        found = wb.diagnose(f, *args)
        hits = [
            i
            for i, one in enumerate(found)
            if one.kind in FAULTS[name][1] and any(one.node is x for x in blamed)
        ]
        named += bool(hits)
        first += hits[:1] == [0]
        loud += sum(one.severity != "note" for one in found)
        right += sum(found[i].severity != "note" for i in hits)
    measured(
        f"doctor: {named} of {total} planted faults named, {first} first;"
        f" {right} of {loud} alarms are theirs"
    )
    assert named >= int(0.98 * total)
    assert first >= int(0.95 * total)
    assert right >= 0.9 * loud
