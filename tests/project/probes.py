"""What each extra is for, tried: `python tests/project/probes.py compiled jupyter`.

Stands alone: it runs in environments that have the wheel and nothing else, in
`make release` and on systems where the tests do not run.
"""

from __future__ import annotations

import importlib.util
import pydoc
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import workbench as wb
from workbench.errors import MissingPackageError


def probe_core() -> None:
    """Differentiate, check and compile where nothing optional is installed."""
    optional = ("plotly", "ipywidgets", "jupyterlab", "dask", "llvmlite", "cupy")
    for package in optional:
        assert importlib.util.find_spec(package) is None, package
    x = np.linspace(-1.0, 1.0, 5)
    t = np.tanh(x)
    np.testing.assert_allclose(wb.grad(loss)(x), 2 * t * (1 - t**2))
    assert wb.check_grads(loss, (x,)).ok
    program = wb.compile(wb.grad(loss), backend="numpy")
    np.testing.assert_allclose(program(x), 2 * t * (1 - t**2))
    cube = wb.grad(lambda a: np.sum(np.einsum("ij,jk,kl->il", a, a, a)))
    np.testing.assert_allclose(cube(np.eye(2)), np.full((2, 2), 3.0))
    names: dict[str, Any] = {}
    exec("from workbench import *", names)
    assert names["grad"] is wb.grad
    assert not {"plots", "show"} & names.keys()
    pydoc.render_doc(wb)
    for name in ("plots", "show"):
        told = ""
        try:
            getattr(wb, name)
        except MissingPackageError as error:
            told = str(error)
        assert "pip install 'autodiff-workbench[jupyter]'" in told, (name, told)


def probe_compiled() -> None:
    """Run a program as machine code."""
    program = wb.compile(loss, backend="compiled")
    program(np.ones(5))
    program.wait()
    assert program.backend == "compiled"
    np.testing.assert_allclose(program(np.ones(5)), 5 * np.tanh(1.0) ** 2)


def probe_jupyter() -> None:
    """Draw the picture of a session, and a plot."""
    session = make_session()
    assert type(wb.plots.jacobian(session)).__name__ == "Figure"
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "picture.html")
        wb.show(session).to_html(page)
        assert "workbench-data" in page.read_text(encoding="utf8")


def probe_lab() -> None:
    """See that JupyterLab has enabled the extension."""
    jupyter = Path(sys.executable).with_name("jupyter")
    answer = subprocess.run(
        [jupyter, "labextension", "list"], capture_output=True, text=True, check=True
    )
    lines = (answer.stdout + answer.stderr).splitlines()
    (line,) = [one for one in lines if "autodiff-workbench v" in one]
    assert "enabled" in line, line
    assert "OK" in line, line


def probe_anywidget() -> None:
    """Show the picture as a widget of anywidget."""
    wb.show(make_session(), widget="anywidget")


def probe_distributed() -> None:
    """Compute a Jacobian on a cluster of threads."""
    from distributed import Client

    import workbench.distributed as wd

    with Client(processes=False, n_workers=1, dashboard_address=None):
        made = wd.jacobian(np.sin)(np.zeros(3))
    np.testing.assert_allclose(made, np.eye(3))


def probe_onnx() -> None:
    """Write a gradient as a model of ONNX, and open it."""
    x = np.linspace(-1.0, 1.0, 5)
    f, weights = wb.models.from_onnx(wb.models.to_onnx(wb.trace(wb.grad(loss))(x)))
    t = np.tanh(x)
    np.testing.assert_allclose(f(weights, x)[0], 2 * t * (1 - t**2))


def probe_tutorials() -> None:
    """Load the data of the tutorials."""
    from sklearn.datasets import load_digits

    assert load_digits().data.shape == (1797, 64)


PROBES = {
    "core": probe_core,
    "jupyter": probe_jupyter,
    "compiled": probe_compiled,
    "lab": probe_lab,
    "anywidget": probe_anywidget,
    "distributed": probe_distributed,
    "onnx": probe_onnx,
    "tutorials": probe_tutorials,
}


def loss(x: Any) -> Any:
    """Return a sum of squares."""
    return np.sum(np.tanh(x) ** 2)


def make_session() -> Any:
    """Return a session of five numbers."""
    return wb.Session(wb.trace(loss)(np.linspace(-1.0, 1.0, 5)))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        PROBES[name]()
        print(f"{name}: OK")
