"""The wheel: built without Node on the machine, it brings its page, once."""

from __future__ import annotations

import re
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.project import environments

PAGE = "data/share/jupyter/labextensions/autodiff-workbench/"

pytestmark = pytest.mark.long


def test_the_wheel_holds_the_page_once(wheel: Path) -> None:
    names = ZipFile(wheel).namelist()
    page = [name.partition(PAGE)[2] for name in names if PAGE in name]
    assert sorted(page) == sorted(set(page))
    assert {"package.json", "install.json"} <= set(page)
    assert len([name for name in page if "remoteEntry" in name]) == 1
    # Nothing of it lies in the package as well, and no file is there twice.
    assert not [name for name in names if name.startswith("workbench/labextension")]
    assert len([name for name in names if "remoteEntry" in name]) == 1


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = ZipFile(wheel).namelist()
    tops = {re.sub(r"-[\d.]+\.", ".", name.partition("/")[0]) for name in names}
    assert tops == {
        "workbench",
        "autodiff_workbench.data",
        "autodiff_workbench.dist-info",
    }
    modules = {name for name in names if name.startswith("workbench/")}
    source = environments.ROOT / "workbench"
    headers = source / "ops" / "special" / "include"  # for the compiler of a GPU
    expected = {
        str(file.relative_to(environments.ROOT))
        for file in [*source.rglob("*.py"), *headers.iterdir()]
    }
    assert modules == expected | {"workbench/py.typed", "workbench/session/page.html"}


def test_an_empty_jupyterlab_enables_the_page(wheel: Path, tmp_path: Path) -> None:
    programs = environments.environment(tmp_path / "env", wheel, "jupyterlab>=4.6,<5")
    settings = {
        "JUPYTER_CONFIG_DIR": str(tmp_path),
        "JUPYTER_PATH": "",
        "NO_COLOR": "1",
    }
    answer = environments.run(
        programs / "jupyter", "labextension", "list", cwd=tmp_path, **settings
    )
    listed = re.sub(r"\x1b\[\d+m", "", answer)
    (line,) = re.findall(r".*autodiff-workbench v.*", listed)
    assert re.search(r"enabled\s+OK \(python, autodiff-workbench\)", line), listed
    # The installed package answers, not this checkout.
    where = "import workbench; print(workbench.__file__)"
    place = environments.run(programs / "python", "-c", where, cwd=tmp_path)
    assert str(tmp_path) in place
