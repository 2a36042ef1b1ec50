"""A stand-in for cyipopt: it checks what IPOPT checks, and steps by its own Newton.

IPOPT itself is not needed for tests: what can be wrong on our side are structures,
lengths, triangles, signs and values at points that were not seen before. So this
`Problem` has the constructor, the options and the result of cyipopt's, refuses what
cyipopt refuses, and finds the stationary point of equations by Newton's method on the
conditions of Karush, Kuhn and Tucker, which needs every derivative to be right.
"""

from __future__ import annotations

from typing import Any

import numpy as np


class Problem:
    """`cyipopt.Problem` for equations: checks every callback."""

    def __init__(
        self, n: int, m: int, problem_obj: Any, lb: Any, ub: Any, cl: Any, cu: Any
    ) -> None:
        assert (len(lb), len(ub), len(cl), len(cu)) == (n, n, m, m)
        self.n, self.m, self.of = n, m, problem_obj
        self.target = np.array(cl)
        assert np.array_equal(cl, cu), "the stand-in knows equations alone"
        self.options: dict[str, Any] = {}
        self.jacobian_places = self._read(problem_obj.jacobianstructure(), (m, n))
        self.hessian_places = self._read(problem_obj.hessianstructure(), (n, n))
        rows, columns = self.hessian_places
        assert (columns <= rows).all(), "the Hessian's structure is its lower triangle"

    @staticmethod
    def _read(structure: Any, shape: tuple[int, int]) -> tuple[Any, Any]:
        rows, columns = structure
        rows, columns = np.asarray(rows), np.asarray(columns)
        assert rows.shape == columns.shape
        assert rows.ndim == 1
        assert rows.dtype.kind == columns.dtype.kind == "i"
        if rows.size:
            assert 0 <= rows.min()
            assert rows.max() < shape[0]
            assert 0 <= columns.min()
            assert columns.max() < shape[1]
        assert len({*zip(rows.tolist(), columns.tolist(), strict=True)}) == rows.size
        return rows, columns

    def add_option(self, name: str, value: Any) -> None:
        self.options[name] = value

    def jacobian(self, x: Any) -> Any:
        values = np.asarray(self.of.jacobian(x))
        rows, columns = self.jacobian_places
        assert values.shape == rows.shape
        assert values.dtype == float
        made = np.zeros((self.m, self.n))
        made[rows, columns] = values
        return made

    def hessian(self, x: Any, multipliers: Any, factor: float) -> Any:
        values = np.asarray(self.of.hessian(x, multipliers, factor))
        rows, columns = self.hessian_places
        assert values.shape == rows.shape
        assert values.dtype == float
        made = np.zeros((self.n, self.n))
        made[rows, columns] = values
        return made + made.T - np.diag(made.diagonal())

    def solve(self, x: Any) -> tuple[Any, dict[str, Any]]:
        x, multipliers = np.array(x), np.zeros(self.m)
        for _ in range(int(self.options.get("max_iter", 50))):
            gradient = np.asarray(self.of.gradient(x))
            assert gradient.shape == (self.n,)
            c = np.asarray(self.of.constraints(x)) - self.target
            assert c.shape == (self.m,)
            j = self.jacobian(x)
            h = self.hessian(x, multipliers, 1.0)
            system = np.block([[h, j.T], [j, np.zeros((self.m, self.m))]])
            right = -np.concatenate([gradient + j.T @ multipliers, c])
            step = np.linalg.solve(system, right)
            x = x + step[: self.n]
            multipliers = multipliers + step[self.n :]
            if np.abs(step).max() < 1e-10:
                break
        told = {
            "x": x, "obj_val": self.of.objective(x), "mult_g": multipliers,
            "status": 0, "status_msg": b"Algorithm terminated successfully.",
        }  # fmt: skip
        assert isinstance(told["obj_val"], float)
        return x, told
