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
    assert not {"09", "12"} & {*names}
    for stem in lite.ELSEWHERE:
        assert (ROOT / "notebooks" / f"{stem}.ipynb").exists(), stem


def test_a_notebook_names_its_kernel_and_installs_first(lite: Any) -> None:
    notebook: dict[str, Any] = {"metadata": {}, "cells": [{"cell_type": "markdown"}]}
    lite.add_setup(notebook, lite.write_setup([]))
    first, _ = notebook["cells"]
    assert first["source"] == '%pip install -q "autodiff-workbench[jupyter]"'
    assert notebook["metadata"]["kernelspec"]["name"] == "python"
    own = lite.write_setup([Path("b-1.0-py3-none-any.whl"), Path("a-2-py3-x.whl")])
    assert own.endswith("await piplite.install(['a', 'b'], deps=False)")


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
