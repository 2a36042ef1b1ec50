"""The wheel: built without Node on the machine, it brings its page, once."""

from __future__ import annotations

import json
import re
from pathlib import Path
from zipfile import ZipFile

import pytest

import workbench as wb
from tests.project import environments, release

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
    kernels = source / "compat" / "tensorflow"  # a header for a user's own compiler
    expected = {
        str(file.relative_to(environments.ROOT))
        for file in [*source.rglob("*.py"), *headers.iterdir(), *kernels.glob("*.h")]
    }
    assert modules == expected | {"workbench/py.typed", "workbench/session/page.html"}


def test_the_page_says_whose_code_is_in_it(wheel: Path) -> None:
    """Preact's licence asks for its notice in every copy, an exported picture too."""
    archive = ZipFile(wheel)
    (page, copy) = (
        archive.read(name).decode()
        for name in archive.namelist()
        if name.endswith(".html")
    )
    assert page == copy
    notices = page.partition("<!--")[2].partition("-->")[0]
    named = re.findall(r"^## (\S+) - [\d.]+ \((.+)\)$", notices, re.M)
    assert {("preact", "MIT"), ("@lumino/signaling", "BSD-3-Clause")} <= {*named}
    assert "Jason Miller" in notices
    assert "Permission is hereby granted" in notices
    assert "Copyright (c) Jupyter Development Team" in notices
    assert "Redistribution and use in source and binary forms" in notices


def test_the_extension_says_whose_code_is_in_it(wheel: Path) -> None:
    archive = ZipFile(wheel)
    (name,) = (x for x in archive.namelist() if "third-party-licenses" in x)
    told = json.loads(archive.read(name))["packages"]
    assert {"react", "react-dom"} <= {one["name"] for one in told}
    assert all("Permission is hereby granted" in one["extractedText"] for one in told)
    assert any(x.endswith("licenses/LICENSE") for x in archive.namelist())


def test_the_version_is_that_of_the_package(wheel: Path) -> None:
    archive = ZipFile(wheel)
    (name,) = (x for x in archive.namelist() if x.endswith(PAGE + "package.json"))
    assert json.loads(archive.read(name))["version"] == wb.__version__
    assert wheel.name.startswith(f"autodiff_workbench-{wb.__version__}-")


def test_pictures_and_links_of_the_readme_work_on_the_page_of_the_package(
    wheel: Path,
) -> None:
    archive = ZipFile(wheel)
    (name,) = (x for x in archive.namelist() if x.endswith("dist-info/METADATA"))
    text = archive.read(name).decode()
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) > 5
    assert [x for x in links if not x.startswith("https://")] == []
    pictures = re.findall(r"^!\[[^]]*\]\((.+)\)$", text, re.M)
    start = f"{release.read_address('Repository')}/raw/main/"
    assert pictures
    for picture in pictures:
        assert picture.startswith(start)
        assert (environments.ROOT / picture.removeprefix(start)).exists()


@pytest.mark.parametrize("extra", ["", "jupyter", "compiled", "distributed"])
def test_an_empty_environment_has_what_its_extra_brings(
    extra: str, wheel: Path, tmp_path: Path
) -> None:
    """All extras, on all Pythons of the machine: `make release`."""
    release.try_extra(wheel, extra, tmp_path / "env")


def test_an_empty_jupyterlab_enables_the_page(wheel: Path, tmp_path: Path) -> None:
    programs = environments.environment(tmp_path / "env", f"{wheel}[lab]")
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
