"""Binder: a fresh environment from binder/'s files runs the first tutorial."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.project import environments

BINDER = environments.ROOT / "binder"
TUTORIAL = "notebooks/00-five-minutes.ipynb"


def test_the_pins_are_those_of_the_package() -> None:
    lines = (BINDER / "requirements.txt").read_text().splitlines()
    pins = {
        pin.name: pin
        for pin in map(Requirement, (line for line in lines if line[:1] not in "#"))
        if pin.marker is None or pin.marker.evaluate()
    }
    project = tomllib.loads((environments.ROOT / "pyproject.toml").read_text())
    name, extras = project["project"]["name"], project["project"]
    extras = extras["optional-dependencies"]
    wanted = project["project"]["dependencies"]
    for extra in ("lab", "jupyter", "compiled", "tutorials", "distributed"):
        wanted += extras[extra]
    for requirement in map(Requirement, wanted):
        if requirement.name == name:
            continue
        (pin,) = pins[requirement.name].specifier
        assert requirement.specifier.contains(pin.version), requirement


def test_the_first_page_is_the_tutorial() -> None:
    settings = json.loads((BINDER / "first-page.json").read_text())
    pages = {section["default_url"] for section in settings.values()}
    assert pages == {f"/lab/tree/{TUTORIAL}"}
    assert (environments.ROOT / TUTORIAL).exists()


def test_no_question_covers_the_page() -> None:
    """The settings that JupyterLab begins with are among those that it knows."""
    schemas = Path(sys.prefix, "share", "jupyter", "lab", "schemas")
    given = json.loads((BINDER / "overrides.json").read_text())
    for plugin, settings in given.items():
        name, part = plugin.split(":")
        known = json.loads((schemas / name / f"{part}.json").read_text())["properties"]
        for key, value in settings.items():
            choices = {choice["const"] for choice in known[key]["oneOf"]}
            assert value in choices - {known[key]["default"]}
    for place in ("Makefile", "binder/postBuild"):
        assert "cp binder/overrides.json" in (environments.ROOT / place).read_text()


def test_the_badge_leads_to_the_repository() -> None:
    """Its address stands in pyproject.toml; who moves it changes that line."""
    project = tomllib.loads((environments.ROOT / "pyproject.toml").read_text())
    address = project["project"]["urls"]["Repository"]
    repository = address.removeprefix("https://github.com/")
    badge = (
        "[![Binder](https://mybinder.org/badge_logo.svg)]"
        f"(https://mybinder.org/v2/gh/{repository}/HEAD)"
    )
    readme = (environments.ROOT / "README.md").read_text()
    assert badge in readme, f"write into README.md:\n{badge}"
    assert readme.count("github.com") == 0


def test_binder_installs_the_wheel_that_a_workflow_leaves() -> None:
    """By a release whose tag is the name of no branch, and of that commit alone."""
    workflow = (environments.ROOT / ".github/workflows/tests.yml").read_text()
    made = set(re.findall(r"gh release (?:view|create|upload) (\S+)", workflow))
    assert made == {"wheel-of-main"}
    script = (BINDER / "postBuild").read_text()
    assert 'releases/download/wheel-of-main"' in script
    assert "commit.txt" in script
    assert "upload wheel-of-main dist/*.whl commit.txt" in workflow


@pytest.mark.long
def test_a_fresh_environment_runs_the_tutorial(wheel: Path, tmp_path: Path) -> None:
    checkout = environments.copy_checkout(tmp_path / "checkout")
    (checkout / "dist").mkdir()
    shutil.copy(wheel, checkout / "dist")
    requirements = ("-r", checkout / "binder" / "requirements.txt")
    programs = environments.environment(tmp_path / "env", *requirements, cwd=checkout)
    settings = {
        "PATH": os.pathsep.join([str(programs), os.environ["PATH"]]),
        "JUPYTER_CONFIG_DIR": str(tmp_path / "settings"),
    }
    environments.run("binder/postBuild", cwd=checkout, **settings)
    # The installed package runs, not the checkout's folder.
    (checkout / "workbench").rename(checkout / "not-installed")
    environments.run("jupyter", "execute", TUTORIAL, cwd=checkout, **settings)
    for program in ("lab", "server"):
        page = first_page(program, checkout, settings)
        assert page.endswith(f"/lab/tree/{TUTORIAL}")


def first_page(program: str, checkout: Path, settings: dict[str, str]) -> str:
    """Where `jupyter lab` or `jupyter server` sends a browser at first."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = [f"--port={port}", "--ip=127.0.0.1", "--no-browser", "--allow-root"]
    server = subprocess.Popen(
        ["jupyter", program, *options, "--IdentityProvider.token="],
        cwd=checkout,
        env={**os.environ, **settings},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(300):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/") as answer:
                    return str(answer.url)
            except urllib.error.URLError:
                time.sleep(0.1)
        raise AssertionError("JupyterLab did not answer within 30 s")
    finally:
        server.terminate()
        server.wait(30)
