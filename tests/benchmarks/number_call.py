"""One gradient of a product of numbers: what a call costs before any work.

The gradient of x x by x.
"""

from __future__ import annotations

from tests.benchmarks.harness import Case, Pair

START = 3.0


def workbench() -> Pair:
    import workbench as wb

    gradient = wb.grad(lambda x: x * x)
    return lambda: START * START, lambda: gradient(START)


def autograd() -> Pair:
    from autograd import grad

    gradient = grad(lambda x: x * x)
    return lambda: START * START, lambda: gradient(START)


CASE = Case(
    "number_call",
    "One gradient of x x by a number",
    {"workbench": workbench, "autograd": autograd},
    goal="ours/autograd ≤ 0.9",
    unit="µs",
    rounds=41,
)
