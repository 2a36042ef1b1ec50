"""The JupyterLite of the site: what a browser runs, and what is served for it."""

from __future__ import annotations

import importlib.util
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.project import environments

ROOT = environments.ROOT
SCRIPT = ROOT / "notebooks" / "guide" / "lite.py"


@pytest.fixture(scope="module")
def lite() -> Any:
    spec = importlib.util.spec_from_file_location("workbench_lite", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read_requirements() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed: list[str] = project["optional-dependencies"]["site"]
    return [one for one in listed if not one.startswith("autodiff-workbench")]


def test_tutorials_with_a_gpu_or_a_cluster_are_left_out(lite: Any) -> None:
    names = [one.stem[:2] for one in lite.list_tutorials()]
    assert "01" in names
    assert not {"09", "12", "14"} & {*names}
    for stem in lite.ELSEWHERE:
        assert (ROOT / "notebooks" / f"{stem}.ipynb").exists(), stem


def make_notebook(*sources: str) -> dict[str, Any]:
    cells = [{"cell_type": "code", "source": [one]} for one in sources]
    return {"metadata": {}, "cells": [{"cell_type": "markdown"}, *cells]}


def sources_of(notebook: dict[str, Any]) -> list[str]:
    return ["".join(cell.get("source", "")) for cell in notebook["cells"]]


def test_a_notebook_names_its_kernel_and_installs_first(lite: Any) -> None:
    notebook = make_notebook("x = 1")
    lite.add_setup(notebook)
    assert notebook["metadata"]["kernelspec"]["name"] == "python"
    first, *others = sources_of(notebook)
    assert first.splitlines() == [
        "import piplite",
        "",
        "await piplite.install(['autodiff-workbench', 'opt_einsum'])",
        "await piplite.install(['comm', 'ipywidgets'], deps=False)",
    ]
    assert others == ["", "x = 1"]
    notebook = make_notebook("x = 1")
    lite.add_setup(notebook, ["opt_einsum", "autodiff_workbench", "plotly", "mock"])
    assert sources_of(notebook)[0].splitlines()[2:] == [
        "await piplite.install(['autodiff-workbench', 'opt_einsum'], deps=False)"
    ]


def test_plotly_is_installed_where_the_first_plot_stands(lite: Any) -> None:
    """It has ten megabytes, four times what the first picture needs."""
    drawn = ("wb.plots.check(model)", "d.plot()", "from plotly import graph_objects")
    for source in drawn:
        notebook = make_notebook("h = np.tanh(x)", source, "wb.plots.check(model)")
        lite.add_setup(notebook)
        _, _, before, install, draws, _ = sources_of(notebook)
        assert (before, draws) == ("h = np.tanh(x)", source)
        assert install.endswith("await piplite.install(['narwhals', 'plotly'])")
        assert "plotly" not in sources_of(notebook)[0]


@pytest.mark.long
def test_it_is_built_into_one_folder(wheel: Path, tmp_path: Path, lite: Any) -> None:
    wanted = (f"{wheel}[jupyter]", *read_requirements())
    programs = environments.environment(tmp_path / "env", *wanted)
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    (wheels / wheel.name).write_bytes(wheel.read_bytes())
    out = tmp_path / "site"
    told = (programs / "python", SCRIPT, out, "--wheels", wheels)
    environments.run(*told, cwd=tmp_path, limit=400)
    assert (out / "lab" / "index.html").exists()
    served = {one.name for one in (out / "files").glob("*.ipynb")}
    assert served == {one.name for one in lite.list_tutorials()}
    known = json.loads((out / "pypi" / "all.json").read_text())
    assert [*known] == ["autodiff-workbench"]
    # The page: the lab knows its extension by this list.
    settings = json.loads((out / "jupyter-lite.json").read_text())
    extensions = settings["jupyter-config-data"]["federated_extensions"]
    assert "autodiff-workbench" in [one["name"] for one in extensions]
    size = sum(one.stat().st_size for one in (out / "pypi").glob("*.whl"))
    assert size < 3_000_000
