"""Packages that are written with autograd, as an index has them, over ours."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest

from tests.project import environments

BEGIN = """
import sys
sys.path.append(sys.argv[1])  # last: what is installed already comes first
from workbench.compat import autograd
autograd.install()
import numpy as np
"""
PROGRAMS = {
    # Incomplete gamma and beta functions, by rules of its own.
    "autograd-gamma==0.5.0": """
        import scipy.special
        from autograd import grad
        from autograd_gamma import betainc, gammainc, gammaincln

        by_x = np.exp(-2.0) * 2.0**0.5 / scipy.special.gamma(1.5)  # the integrand
        assert abs(grad(gammainc, 1)(1.5, 2.0) - by_x) < 1e-14
        slope = grad(gammaincln, 1)(1.5, 2.0)
        assert abs(slope - by_x / scipy.special.gammainc(1.5, 2.0)) < 1e-14
        by_x = 0.3**0.5 * 0.7 / scipy.special.beta(1.5, 2.0)
        assert abs(grad(betainc, 2)(1.5, 2.0, 0.3) - by_x) < 1e-14
    """,
    # An eigenvector as a minimum on a sphere, by gradients and Hessian products.
    "pymanopt==2.2.1": """
        import pymanopt

        A = np.diag([1.0, 2.0, 5.0])
        A[0, 1] = A[1, 0] = 0.3
        sphere = pymanopt.manifolds.Sphere(3)

        @pymanopt.function.autograd(sphere)
        def cost(x):
            return -x @ A @ x

        solver = pymanopt.optimizers.TrustRegions(verbosity=0)
        found = solver.run(
            pymanopt.Problem(sphere, cost), initial_point=np.ones(3) / np.sqrt(3)
        )
        values, vectors = np.linalg.eigh(A)
        assert abs(abs(found.point @ vectors[:, -1]) - 1) < 1e-12
        assert abs(found.cost + values[-1]) < 1e-12
    """,
    # The gradient that a Hamiltonian sampler takes.
    "mici==0.4.1": """
        import mici
        import scipy.optimize
        import autograd.numpy as anp

        def energy(q):
            return anp.sum((1 - q[:-1]) ** 2 + 100 * (q[1:] - q[:-1] ** 2) ** 2)

        system = mici.systems.EuclideanMetricSystem(energy, backend="autograd")
        q = np.array([0.5, 1.0, -0.3])
        state = mici.states.ChainState(pos=q, mom=np.ones(3), dir=1)
        slope = scipy.optimize.rosen_der(q)
        assert np.allclose(system.grad_neg_log_dens(state), slope, rtol=1e-14)
        before = system.h(state)
        walk = mici.integrators.LeapfrogIntegrator(system, step_size=1e-4)
        for _ in range(100):
            state = walk.step(state)
        assert abs(system.h(state) / before - 1) < 1e-4  # the energy stays
    """,
}


@pytest.mark.long
@pytest.mark.parametrize("package", PROGRAMS)
def test_a_package_as_it_is(package: str, tmp_path: Path) -> None:
    pip = (sys.executable, "-m", "pip", "install", "--no-deps", "--target")
    try:
        environments.run(*pip, tmp_path / "packages", package, cwd=tmp_path)
    except AssertionError as error:
        pytest.skip(f"{package} cannot be installed here: {str(error)[-200:]}")
    script = tmp_path / "program.py"
    script.write_text(BEGIN + textwrap.dedent(PROGRAMS[package]))
    environments.run(sys.executable, script, tmp_path / "packages", cwd=tmp_path)
