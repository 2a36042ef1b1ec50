"""Optimal control of a pendulum by collocation: 10,000 unknowns, by trust-constr.

What a solver asks for, at a point that it has not seen: value and gradient,
constraints, their sparse Jacobian, the sparse Hessian of the Lagrangian. Beside them
what SciPy does alone with the pattern given: differences along the same colours.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.benchmarks import harness

TITLE = "Optimal control of a pendulum by collocation"
POINTS = (334, 3334)


def make(n: int) -> Any:
    """The problem with ``3 n`` unknowns."""
    import workbench as wb

    h = 4.0 / (n - 1)

    def defects(path: Any) -> Any:
        angle, speed, torque = path["angle"], path["speed"], path["torque"]
        pull = torque - np.sin(angle) - 0.1 * speed
        return (
            angle[1:] - angle[:-1] - h * (speed[1:] + speed[:-1]) / 2,
            speed[1:] - speed[:-1] - h * (pull[1:] + pull[:-1]) / 2,
        )

    def ends(path: Any) -> Any:
        angle, speed = path["angle"], path["speed"]
        return np.stack([angle[0], speed[0], angle[-1] - np.pi, speed[-1]])

    def effort(path: Any) -> Any:
        squares = path["torque"] ** 2
        return h * np.sum(squares[1:] + squares[:-1]) / 2

    angle, zero = np.linspace(0, np.pi, n), np.zeros(n)
    start = {"angle": angle, "speed": zero, "torque": zero}
    constraints = [(defects, 0, 0), (ends, 0, 0)]
    return wb.optimize.problem(effort, start, constraints=constraints, sparse=True)


def run(keep: bool) -> None:
    rows = []
    for n in POINTS:
        row = measure(n)
        rows.append(row)
        print(", ".join(f"{name} {value:.4g}" for name, value in row.items()))
    if keep:
        harness.save("optimise", TITLE, {"rows": rows})


def measure(n: int) -> dict[str, float]:
    """Seconds of each answer, of SciPy's differences, and of a whole solution."""
    from scipy.optimize._numdiff import approx_derivative, group_columns

    begin = time.perf_counter()
    p = make(n)
    ones = np.ones(p.m)
    structure = p.jacobian(p.x0)
    p.lagrangian_hessian(p.x0, ones)
    prepared = time.perf_counter() - begin
    time.sleep(1.0)  # compiled code takes over
    groups = structure, group_columns(structure)
    asked: dict[str, Callable[[Any], Any]] = {
        "value_and_gradient": p.value_and_gradient,
        "constraints": p.constraints,
        "jacobian": p.jacobian,
        "hessian": lambda x: p.lagrangian_hessian(x, ones),
        "jacobian_by_differences": lambda x: approx_derivative(
            p.constraints, x, sparsity=groups
        ),
    }
    made = {"unknowns": float(p.n), "prepare": prepared}
    x = p.x0.copy()
    for name, ask in asked.items():
        times = []
        for turn in range(21):
            x[0] = 1e-3 * (turn + 1)
            times.append(seconds(lambda ask=ask: ask(x)))
        made[name] = statistics.median(times)
    options = {"gtol": 1e-7, "maxiter": 200}
    begin = time.perf_counter()
    found = p.solve("trust-constr", options=options)
    made["solve"] = time.perf_counter() - begin
    made["iterations"] = float(found.nit)
    assert found.constr_violation < 1e-8, found.message
    return made


def seconds(call: Callable[[], Any]) -> float:
    """The time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


if __name__ == "__main__":
    run(keep=False)
