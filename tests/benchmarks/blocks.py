"""Derivatives of many small blocks: each picture of each point, as in ADBench's BA.

A camera of eleven numbers (turn, centre, focal length, principal point, two of its
distortion) sees a point of three: 2 residuals by 14 numbers, for 10,000 pictures.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.benchmarks.harness import Case, Goal
from tests.benchmarks.peers import Peer, Problem


def project(xp: Any, p: Any, seen: Any) -> Any:
    """Return where a camera sees a point, less where it was seen."""
    rx, ry, rz = p[0], p[1], p[2]
    x, y, z = p[11] - p[3], p[12] - p[4], p[13] - p[5]
    angle = xp.sqrt(rx * rx + ry * ry + rz * rz)
    s, c = xp.sin(angle) / angle, xp.cos(angle)
    dot = (rx * x + ry * y + rz * z) * (1 - c) / (angle * angle)
    u = c * x + s * (ry * z - rz * y) + dot * rx
    v = c * y + s * (rz * x - rx * z) + dot * ry
    w = c * z + s * (rx * y - ry * x) + dot * rz
    u, v = u / w, v / w
    far = u * u + v * v
    lens = 1 + p[9] * far + p[10] * far * far
    return xp.stack(
        [p[6] * u * lens + p[7] - seen[0], p[6] * v * lens + p[8] - seen[1]]
    )


def by_hand(ps: Any, seen: Any) -> Peer:
    """Write the chain rule out, for all pictures at once."""
    p = np.ascontiguousarray(ps.T)

    def residuals() -> Any:
        return project(np, p, seen.T).T

    def jacobian() -> Any:
        r, X = p[:3], p[11:] - p[3:6]
        a2 = (r * r).sum(0)
        angle = np.sqrt(a2)
        c, sin = np.cos(angle), np.sin(angle)
        s, k = sin / angle, (1 - c) / a2
        dot = (r * X).sum(0)
        cross = np.cross(r, X, axis=0)
        U = c * X + s * cross + k * dot * r
        # By the turn: of the angle, through c, s and k; then of r itself.
        dc, ds, dk = -s, (c - s) / a2, (s - 2 * k) / a2
        by_turn = np.empty((3, 3, p.shape[1]))  # of U[i] by r[j]
        radial = dc * X + ds * cross + dk * dot * r
        for j in range(3):
            by_turn[:, j] = radial * r[j] + k * X[j] * r
            by_turn[j, j] += k * dot
        x, y, z = s * X
        by_turn[0, 1] += z
        by_turn[0, 2] -= y
        by_turn[1, 0] -= z
        by_turn[1, 2] += x
        by_turn[2, 0] += y
        by_turn[2, 1] -= x
        by_point = k * r[:, None] * r[None, :]
        for i in range(3):
            by_point[i, i] += c
        x, y, z = s * r
        by_point[0, 1] -= z
        by_point[0, 2] += y
        by_point[1, 0] += z
        by_point[1, 2] -= x
        by_point[2, 0] -= y
        by_point[2, 1] += x
        u, v = U[0] / U[2], U[1] / U[2]
        far = u * u + v * v
        f, k1, k2 = p[6], p[9], p[10]
        lens, slope = 1 + k1 * far + k2 * far * far, 2 * (k1 + 2 * k2 * far)
        J = np.zeros((p.shape[1], 2, 14))
        for i, (one, du, dv) in enumerate(
            ((u, lens + u * u * slope, u * v * slope),
             (v, u * v * slope, lens + v * v * slope))
        ):  # fmt: skip
            du, dv = f * du / U[2], f * dv / U[2]
            dw = -(du * u + dv * v)
            J[:, i, :3] = (du * by_turn[0] + dv * by_turn[1] + dw * by_turn[2]).T
            point = du * by_point[0] + dv * by_point[1] + dw * by_point[2]
            J[:, i, 11:], J[:, i, 3:6] = point.T, -point.T
            J[:, i, 6] = one * lens
            J[:, i, 7 + i] = 1
            J[:, i, 9], J[:, i, 10] = f * one * far, f * one * far * far
        return J

    return Peer(residuals, jacobian)


def make(tiny: bool) -> Problem:
    count, rng = 3 if tiny else 10_000, np.random.default_rng(0)
    ps = rng.normal(size=(count, 14)) * 0.1
    ps[:, 6] += 1.0  # focal length
    ps[:, 13] += 5.0  # before the camera
    seen = rng.normal(size=(count, 2))
    return Problem(
        project,
        (ps, seen),
        derivative="blocks",
        by_hand={"hand": lambda: by_hand(ps, seen)},
    )


CASES = (
    Case(
        "blocks",
        "10,000 blocks of 2 × 14: pictures of points, as in bundle adjustment",
        make,
        goals=(
            Goal(1.0, "jax"),
            Goal(1.0, "hand", reason="parts of the tangents are moved and added"),
        ),
        without={"casadi": "made for small programs"},
        rounds=15,
    ),
)
